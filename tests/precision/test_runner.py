# SPDX-License-Identifier: Apache-2.0
"""A case from inputs to verdict: a right backend passes, each way of being wrong is caught where it is."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
import torch
from ascend_sparse_attention import backends
from ascend_sparse_attention.precision import memory, runner
from ascend_sparse_attention.precision.cases import Case, bundled, load_cases, select_cases
from ascend_sparse_attention.precision.generate import Indices
from ascend_sparse_attention.precision.rules import Policy, Verdict
from ascend_sparse_attention.precision.runner import Options, UnusableError, check_runnable, needed_bytes, run_case

CASE = Case("c", "BSND", "float16", B=2, S1=5, S2=192, N1=8, N2=2, Dk=128, Dv=64, topK=96, scale=0.09, seed_name="c")
CPU = torch.device("cpu")


def run(case=CASE, **options):
    seen = []
    result = run_case(case, Options(**options), CPU, lambda *step: seen.append(step))
    return result, seen


def broken(monkeypatch, change):
    """Make the operator's output wrong by `change(output)`."""
    real = runner.run_operator
    monkeypatch.setattr(runner, "run_operator", lambda *a, **k: change(real(*a, **k)))


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("is_causal", "indices"), [(False, Indices.UNIFORM), (True, Indices.TAIL)])
def test_cpu_backend_passes(layout, dtype, is_causal, indices):
    case = replace(CASE, layout=layout, dtype=dtype, is_causal=is_causal)
    result, seen = run(case, indices=indices)
    assert result.verdict is Verdict.PASS, result.reasons
    acc = result.accumulator
    assert acc.elements == 2 * 5 * 8 * 64 and acc.nonfinite.matched_nan == 0
    # float32 inside and one rounding: next to the floor of perfect rounding.
    assert acc.spec.mere < 1.05 * acc.floor.mere and acc.ulp_max <= 1
    assert ("golden", 20, 20) in seen
    assert result.peak_mib > 50 and set(result.seconds) >= {"generate", "run", "golden"}


def test_zero_inputs_pass_with_exact_zeros(monkeypatch):
    case = replace(CASE, value_range=((0.0, 0.0), (0.0, 0.0)))
    result, _ = run(case)
    assert result.verdict is Verdict.PASS and result.accumulator.zero_golden == result.accumulator.elements
    broken(monkeypatch, lambda out: out + 2.0**-24)
    result, _ = run(case)
    assert result.verdict is Verdict.FAIL and result.judgement.cann_bench.passed


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_offender_is_found_where_it_is(monkeypatch, layout):
    def change(out):
        view = out if layout == "BSND" else out.transpose(1, 2)
        view[1, 3, 6, 17] = view[1, 3, 6, 17] + 1.0
        view[1, 4, 0, 0] = float("nan")
        return out

    broken(monkeypatch, change)
    result, _ = run(replace(CASE, layout=layout))
    assert result.verdict is Verdict.FAIL
    index, nan_index = ((1, 3, 6, 17), (1, 4, 0, 0)) if layout == "BSND" else ((1, 6, 3, 17), (1, 0, 4, 0))
    assert result.accumulator.regions["normal"].offenders.worst.index == index
    assert result.judgement.offenders.first.index == nan_index


def test_stage_two_asks_the_native_reference(monkeypatch):
    result, _ = run(replace(CASE, dtype="bfloat16"))
    assert result.native_method is None and "native" not in result.seconds
    # One element in the normal region, off by itself: the native reference has none there.
    broken(monkeypatch, lambda out: out.index_put_((torch.tensor([0]),) * 4, torch.tensor(1.0, dtype=out.dtype)))
    result, seen = run()
    assert result.native_method is not None and result.verdict is Verdict.FAIL
    assert seen[-1] == ("native", 20, 20)
    region = result.judgement.cann_bench.regions["normal"]
    assert (region.errors, region.native) == (1, 0)


def test_spec_policy_is_the_stricter_one():
    case = replace(CASE, B=2, S1=64)
    result, _ = run(case)
    assert result.verdict is Verdict.PASS and not result.judgement.spec.passed
    # Even the golden, rounded, is beyond the limit near zero.
    assert not result.accumulator.floor.mare < result.accumulator.limits.mare_limit
    for policy in (Policy.SPEC, Policy.BOTH):
        assert run(case, policy=policy)[0].verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda out: out[:, :, :, :32].contiguous(), r"output shape: expected \[2, 5, 8, 64\], got \[2, 5, 8, 32\]"),
        (lambda out: out.transpose(1, 2).contiguous().transpose(1, 2), "output: expected a contiguous tensor"),
        (lambda out: torch.nn.Parameter(out, requires_grad=False), "exactly a torch.Tensor, got Parameter"),
        (lambda out: (out, out), "exactly a torch.Tensor, got tuple"),
        (lambda out: out.long(), "output dtype: expected float16, got torch.int64"),
    ],
)
def test_structure(monkeypatch, change, reason):
    broken(monkeypatch, change)
    result, _ = run()
    assert result.verdict is Verdict.FAIL
    assert not result.judgement.cann_bench.passed and result.judgement.cann_bench.deciding_region == "structure"
    assert re.search(reason, result.reasons[0])


def test_wrong_output_dtype_fails_here_though_cann_bench_takes_it(monkeypatch):
    broken(monkeypatch, lambda out: out.bfloat16())
    result, _ = run()
    assert result.verdict is Verdict.FAIL and "output dtype: expected float16" in result.reasons[0]
    assert result.judgement.cann_bench.passed and result.accumulator.limits.name == "bfloat16"


def test_backend_error_ends_the_case_not_the_batch(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("aicore exception 507015")

    monkeypatch.setattr(runner, "run_operator", fail)
    result, _ = run()
    assert result.verdict is Verdict.ERROR and result.reasons == ("RuntimeError: aicore exception 507015",)


def test_what_the_operator_refuses_is_an_error():
    result, _ = run(replace(CASE, Dk=100, Dv=72))
    assert result.verdict is Verdict.ERROR and "multiple of 64, got 100" in result.reasons[0]


@pytest.mark.parametrize("size", ["B", "S1"])
def test_empty_case(size):
    case = replace(CASE, **{size: 0})
    assert run(case)[0].verdict is Verdict.EMPTY
    assert run(case, allow_empty=True)[0].verdict is Verdict.PASS


# --- refusals before the work ----------------------------------------------------------------------------------------


def test_too_large_for_the_machine(monkeypatch):
    monkeypatch.setattr(runner, "machine_bytes", lambda: 3 << 30)
    huge = replace(CASE, B=64, S2=16384, N1=64, N2=64, Dk=576, Dv=512, source="f.csv, row 9")
    with pytest.raises(UnusableError, match=r"f\.csv, row 9: case c needs 137\.1 GiB.*this machine has 3\.0 GiB"):
        check_runnable([CASE, huge], Options())
    assert check_runnable([CASE], Options()) == CPU


def test_public_cases_fit_in_eight_gib():
    for case in load_cases(bundled("public")):
        assert needed_bytes(case) < 8 << 30, case.id
    # The golden streams: what it needs for the largest case is far from the 204 GiB of gathered float64 keys.
    (largest,) = select_cases(load_cases(bundled("public")), ["15"])
    assert needed_bytes(largest) < 3 << 30


def test_golden_streams(monkeypatch):
    """Peak memory stays bounded on a case whose gathered keys and values would take 2 GiB in float64."""
    case = replace(CASE, B=1, S1=128, S2=4096, N1=4, N2=4, Dk=128, Dv=128, topK=2048)
    monkeypatch.setattr(runner, "GOLDEN_BYTES", 64 << 20)
    torch.manual_seed(0)
    with memory.PeakMemory() as before:
        pass
    result = run_case(case, Options(), CPU, lambda *_: None)
    assert result.verdict is Verdict.PASS, result.reasons
    gathered = case.N2 * case.S1 * case.topK * (case.Dk + case.Dv) * 8 / (1 << 20)
    assert gathered > 2000
    assert result.peak_mib - before.mib < 600


def test_unknown_or_missing_backend():
    with pytest.raises(UnusableError, match="--backend npu: backend npu cannot run here: "):
        check_runnable([CASE], Options(backend="npu"))
    with pytest.raises(UnusableError, match="--backend tpu: backend: expected one of"):
        check_runnable([CASE], Options(backend="tpu"))


class _Scheduled:
    """A CPU backend with two schedules, to see that the forced one is in force during the call."""

    name = "cpu"

    def __init__(self):
        self.real = backends.load("cpu")
        self.forced = None
        self.used = None

    def missing(self):
        return None

    def device_type(self):
        return "cpu"

    def schedules(self):
        return ("ring", "split")

    @contextlib.contextmanager
    def forced_schedule(self, name):
        self.forced = name
        yield
        self.forced = None

    def sparse_flash_attention(self, *arguments):
        self.used = self.forced
        return self.real.sparse_flash_attention(*arguments)


def test_schedule(monkeypatch):
    with pytest.raises(UnusableError, match="--schedule ring: backend cpu has no schedules"):
        check_runnable([CASE], Options(schedule="ring"))
    scheduled = _Scheduled()
    monkeypatch.setattr(backends, "load", lambda _: scheduled)
    with pytest.raises(UnusableError, match=r"--schedule: expected one of ring, split \(backend cpu\), got none"):
        check_runnable([CASE], Options(schedule="none"))
    check_runnable([CASE], Options(schedule="split"))
    result, _ = run(schedule="split")
    assert result.verdict is Verdict.PASS and scheduled.used == "split" and scheduled.forced is None


def test_peak_memory_sees_a_peak():
    with memory.PeakMemory() as peak:
        block = torch.ones(96 << 20, dtype=torch.uint8)
        del block
    with memory.PeakMemory() as after:
        pass
    assert peak.mib > after.mib + 60
    assert 0 < memory.machine_bytes() < 1 << 50


def test_peak_memory_without_proc(monkeypatch):
    monkeypatch.setattr(memory, "_reset_high_water", lambda: False)
    with memory.PeakMemory() as peak:
        pass
    assert peak.mib > 50
