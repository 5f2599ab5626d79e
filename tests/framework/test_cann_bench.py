# SPDX-License-Identifier: Apache-2.0
"""The cann_bench package on npu tensors: what its import does, its keywords, and that every call is a call (D5, D7)."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npu import FORBIDDEN, calls, no_findings, on_npu, torch  # noqa: F401  # isort: skip
from ascend_sparse_attention.backends.npu import library_path
from ascend_sparse_attention.submission import Options, accuracy, check_submission
from sfa_inputs import make_inputs
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder to import cann_bench from, laid out as in its wheel."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "python" / "cann_bench", folder / "cann_bench", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "cann_bench" / "lib").mkdir()
    for name in ("libcann_bench.so", "libcann_bench.json"):
        shutil.copy(library_path().with_name(name), folder / "cann_bench" / "lib")
    return folder


@pytest.fixture(scope="module")
def cann_bench(site):
    sys.path.insert(0, str(site))
    import cann_bench

    assert Path(cann_bench.__file__).is_relative_to(site)
    return cann_bench


def arguments(tensors, scale=0.1, layout="BSND", is_causal=False):
    query, key, value, indices = tensors
    return dict(
        query=query, key=key, value=value, sparseIndices=indices, scaleValue=scale, inputLayout=layout,
        is_causal=is_causal,
    )  # fmt: skip


def test_import_has_no_side_effects(site):
    """Nothing of ours beside it, no device touched, no file, thread, variable or timing function changed."""
    code = """
import os, sys, threading, time, torch, torch_npu
before = set(sys.modules), dict(os.environ), threading.active_count(), sorted(os.listdir("."))
timing = time.time, time.perf_counter, torch.npu.synchronize, torch.npu.Event, torch_npu.profiler.profile
import cann_bench
assert before[1:] == (dict(os.environ), threading.active_count(), sorted(os.listdir(".")))
assert timing == (time.time, time.perf_counter, torch.npu.synchronize, torch.npu.Event, torch_npu.profiler.profile)
assert not torch.npu.is_initialized()
print(sorted({name.split(".")[0] for name in set(sys.modules) - before[0]} - sys.stdlib_module_names))
public = {name: getattr(cann_bench, name) for name in dir(cann_bench) if not name.startswith("_")}
print([name for name, value in public.items() if callable(value) and not isinstance(value, type)])
del sys.modules["cann_bench"]  # the evaluator imports it twice
import cann_bench
"""
    env = {k: v for k, v in os.environ.items() if not k.startswith("ASA_")}
    env |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=site, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # The evaluator takes every public callable of the module that is no class for an operator.
    # torch_npu has a line of its own before these.
    assert done.stdout.splitlines()[-2:] == ["['cann_bench']", "['sparse_flash_attention']"]


def test_keywords(cann_bench):
    """The operator description's, in the function and in the op that the evaluator prefers to it."""
    shown = str(inspect.signature(cann_bench.sparse_flash_attention))
    assert shown.replace("torch.Tensor", "Tensor").replace("'", "") == (
        "(query: Tensor, key: Tensor, value: Tensor, sparseIndices: Tensor, scaleValue: float, "
        "inputLayout: str = BSND, is_causal: bool = False) -> Tensor"
    )
    schema = torch.ops.cann_bench.sparse_flash_attention.default._schema
    assert [argument.name for argument in schema.arguments] == list(arguments(range(4)))
    assert [argument.default_value for argument in schema.arguments[5:]] == ["BSND", False]


@pytest.mark.parametrize("case", accuracy.CASES, ids=lambda case: case.id)
def test_accuracy(cann_bench, case):
    inputs = accuracy.inputs_of(case)
    tensors = on_npu((inputs.query, inputs.key, inputs.value, inputs.sparseIndices))
    out = cann_bench.sparse_flash_attention(**arguments(tensors, case.scale, case.layout, case.is_causal))
    assert out.is_contiguous() and type(out) is torch.Tensor and out.device.type == "npu"
    passed, reasons = accuracy.judge_output(out.cpu(), case, inputs)
    assert passed, reasons


def test_a_call_is_one_launch(cann_bench, layout):
    """D5: no operator of torch beside ours, no copy, no wait, one kernel."""
    tensors = on_npu(make_inputs(B=2, S1=3, S2=40, layout=layout))
    cann_bench.sparse_flash_attention(**arguments(tensors, layout=layout))
    torch.npu.synchronize()
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    before = {name: calls(name) for name in (*FORBIDDEN, "aclrtLaunchHostFunc")}
    with Log():
        cann_bench.sparse_flash_attention(**arguments(tensors, layout=layout))
    during = {name: calls(name) - before[name] for name in FORBIDDEN}
    torch.npu.synchronize()
    assert seen == ["cann_bench::sparse_flash_attention"]
    assert during == dict.fromkeys(FORBIDDEN, 0)
    assert calls("aclrtLaunchHostFunc") == before["aclrtLaunchHostFunc"] + 1


def test_new_values_at_recycled_addresses(cann_bench):
    """D7: same shapes, other values, addresses that rotate and come back; every result is that of its own inputs."""
    hosts = [make_inputs(B=2, S1=3, S2=40, topK=9, seed=seed) for seed in range(5)]
    lone = []
    for host in hosts:
        lone.append(cann_bench.sparse_flash_attention(**arguments(on_npu(host))).cpu())
    assert not torch.equal(lone[0], lone[1])
    slots = [on_npu(hosts[0]) for _ in range(2)]
    used, results = set(), []
    for repeat in range(10):
        slot, host = slots[repeat % 2], hosts[repeat % 5]
        for target, source in zip((slot[0], slot[1], slot[3]), (host[0], host[1], host[3])):
            target.copy_(source)
        out = cann_bench.sparse_flash_attention(**arguments(slot))
        used.add(out.data_ptr())
        results.append(out.cpu())
        del out  # the next output may lie where this one lay
    assert len(used) < 10, "outputs must have been recycled, or this shows nothing"
    for repeat, out in enumerate(results):
        assert torch.equal(out, lone[repeat % 5]), repeat


def test_check_submission_finds_nothing(site, tmp_path, monkeypatch):
    """Our own package against all rules of `sfa check-submission`, on the device."""
    monkeypatch.syspath_prepend(ROOT / "framework" / "packaging")
    from wheel_writer import package_files, platform_tag, write_wheel

    files = package_files(site / "cann_bench", ["*.py", "*.so", "*.json"])
    write_wheel(tmp_path / "dist", "cann_bench", "0.1.0", files, tag=platform_tag())
    report = check_submission(tmp_path, Options(device="npu"))
    assert report.ok, [one.text() for one in report.violations]
    assert report.stages == {
        "build": "skipped: dist/ holds a wheel", "install": "installed", "call": f"{len(accuracy.CASES)} of 6 cases"
    }  # fmt: skip
