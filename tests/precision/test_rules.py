# SPDX-License-Identifier: Apache-2.0
"""The comparison rules: cann-bench's answers on stored pairs, the spec rule, the tool's own stricter verdict."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pairs
import pytest
import torch
from ascend_sparse_attention.precision.metrics import Accumulator, ulp_distance
from ascend_sparse_attention.precision.rules import (
    Policy,
    Verdict,
    cann_bench_result,
    judge,
    needs_native,
    spec_result,
)
from ascend_sparse_attention.precision.thresholds import NAMES, limits_of

ANSWERS = json.loads((Path(__file__).parent / "cann_bench_answers.json").read_text())
NAN, INF = math.nan, math.inf


def compared(actual, golden, dtype="float16", *, native=None, saturate=False):
    limits = limits_of(dtype)
    actual = torch.as_tensor(actual, dtype=torch.float64).to(limits.storage)
    golden = torch.as_tensor(golden, dtype=torch.float64)
    acc = Accumulator(limits, actual.shape, saturate=saturate)
    rounded = acc.update(actual, golden)
    if native is not None and needs_native(acc):
        acc.update_native(actual, rounded, torch.as_tensor(native, dtype=torch.float64).to(limits.storage))
    return acc


def verdict(acc, policy=Policy.CANN_BENCH, **keywords):
    return judge(acc, policy, **keywords).verdict


# --- cann-bench's own answers ----------------------------------------------------------------------------------------


def test_every_pair_has_an_answer():
    names = pairs.names()
    assert len(names) == len(set(names)) >= 200
    assert set(names) == set(ANSWERS)
    passed = sum(answer["pass"] for answer in ANSWERS.values())
    in_regions = [answer for answer in ANSWERS.values() if "regions" in answer]
    # The pairs would prove little if all went one way.
    assert 100 < passed < len(ANSWERS) - 100
    assert 100 < sum(answer["pass"] for answer in in_regions) < len(in_regions) - 100


@pytest.mark.parametrize("chunk", [1 << 17, 1500], ids=["whole", "chunked"])
def test_cann_bench_answers(chunk, monkeypatch):
    monkeypatch.setattr("ascend_sparse_attention.precision.metrics.CHUNK_ELEMENTS", chunk)
    for pair in pairs.pairs():
        acc = Accumulator(limits_of(pair.actual.dtype), pair.actual.shape)
        rounded = acc.update(pair.actual, pair.golden)
        if pair.native is not None and needs_native(acc):
            acc.update_native(pair.actual, rounded, pair.native)
        mine, theirs = cann_bench_result(acc), ANSWERS[pair.name]
        assert mine.passed == theirs["pass"], pair.name
        if "regions" in theirs:
            counts = {name: [r.total, r.errors, r.native or 0] for name, r in mine.regions.items()}
            assert counts == theirs["regions"], pair.name
            assert mine.deciding_region in counts, pair.name
        elif "mere" in theirs and mine.deciding_region != "nothing":
            assert mine.mere == pytest.approx(theirs["mere"], rel=1e-14, abs=0), pair.name
            assert mine.mare == theirs["mare"], pair.name


def test_native_reference_decides_the_second_stage():
    golden = np.full(1000, 0.5)
    actual, native = golden.copy(), golden.copy()
    actual[:4] = 0.6
    assert not cann_bench_result(compared(actual, golden)).passed
    native[:1] = 0.6
    assert not cann_bench_result(compared(actual, golden, native=native)).passed
    native[:2] = 0.6
    result = cann_bench_result(compared(actual, golden, native=native))
    assert result.passed and result.deciding_region == "normal"
    assert (result.regions["normal"].errors, result.regions["normal"].native) == (4, 2)


def test_first_stage_needs_no_native_reference():
    acc = compared([1.0, 2.0], [1.0, 2.0])
    assert not needs_native(acc)
    assert cann_bench_result(acc).deciding_region == "overall"
    assert all(region.ratio is None for region in cann_bench_result(acc).regions.values())


# --- the spec rule ---------------------------------------------------------------------------------------------------

THRESHOLDS = {
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float32": 2**-13,
    "hifloat32": 2**-11,
    "float8_e4m3fn": 2**-3,
    "float8_e5m2": 2**-2,
}


@pytest.mark.parametrize("dtype", THRESHOLDS)
def test_thresholds_of_the_operator_description(dtype):
    assert limits_of(dtype).threshold == THRESHOLDS[dtype]
    assert limits_of(dtype).mare_limit == 10 * THRESHOLDS[dtype]


@pytest.mark.parametrize("dtype", THRESHOLDS)
def test_spec_rule_at_its_limits(dtype):
    limits = limits_of(dtype)
    # Goldens that the dtype holds exactly, and actuals off by a relative error on either side of a limit.
    golden = torch.ones(1000, dtype=torch.float64)
    one_step = 2.0**-limits.mantissa_bits
    for count, passes in ((1, True), (999, False)):
        actual = golden.clone()
        # The largest error below 10 t that is a whole number of steps.
        actual[:count] += math.ceil(limits.mare_limit / one_step - 1) * one_step
        assert spec_result(compared(actual, golden, dtype)).passed is passes
    actual = golden.clone()
    actual[0] += math.ceil(limits.mare_limit / one_step) * one_step + one_step
    result = spec_result(compared(actual, golden, dtype))
    assert not result.passed and result.mere < limits.threshold <= limits.mare_limit < result.mare


def test_spec_measures_against_the_float64_golden():
    # 1 + 2^-12 rounds to 1 in float16: exact for cann-bench, off by 2^-12 for the description's rule.
    acc = compared([1.0], [1 + 2**-12])
    assert acc.cann.mare == 0
    assert acc.spec.mare == pytest.approx(2**-12 / (1 + 2**-12 + 1e-7))
    assert acc.floor.mare == acc.spec.mare


def test_dtype_names():
    assert limits_of(torch.bfloat16) is limits_of("BF16") is limits_of("torch.bfloat16")
    assert limits_of("float8_e4m3") is limits_of("float8_e4m3fn")
    for name in NAMES:
        assert limits_of(name).name == name
    with pytest.raises(ValueError, match=r"float16.*got float4"):
        limits_of("float4")


def test_hifloat32_rounds_to_eleven_bits():
    limits = limits_of("hifloat32")
    values = torch.tensor([1 + 2**-11, 1 + 2**-12, 1 + 3 * 2**-12, -(1 + 2**-13), INF, 0.0, 1e-30], dtype=torch.float64)
    rounded = limits.round(values)
    assert rounded[:6].tolist() == [1 + 2**-11, 1.0, 1 + 2**-10, -1.0, INF, 0.0]
    assert math.isnan(float(limits.round(torch.tensor([NAN], dtype=torch.float64))))
    assert abs(float(rounded[6]) / 1e-30 - 1) <= 2**-12
    acc = compared([1.0], [1 + 2**-12], "hifloat32")
    assert acc.cann.mare == 0


# --- what broke others: the rows of a public collection --------------------------------------------------------------


def test_nan_everywhere_fails():
    acc = compared([NAN] * 16, [0.5] * 16)
    assert verdict(acc) is Verdict.FAIL
    assert acc.nonfinite.nan_in_actual.count == 16
    assert not spec_result(acc).passed and math.isnan(spec_result(acc).mere)


def test_single_nan_in_a_million_fails_with_count_and_index():
    golden = torch.linspace(0.5, 1.0, 1_000_000, dtype=torch.float64).view(1000, 1000)
    actual = golden.half()
    actual[617, 33] = NAN
    acc = Accumulator(limits_of("float16"), golden.shape)
    acc.update(actual, golden)
    judgement = judge(acc, Policy.CANN_BENCH)
    assert judgement.verdict is Verdict.FAIL
    assert "1 elements" in judgement.reasons[0] and "[617, 33]" in judgement.reasons[0]
    assert judgement.offenders.first.index == (617, 33)


def test_nan_on_both_sides_is_reported_and_no_agreement():
    everywhere = compared([NAN] * 4, [NAN] * 4)
    judgement = judge(everywhere, Policy.CANN_BENCH)
    assert judgement.verdict is Verdict.EMPTY and "4 NaN on both sides" in judgement.reasons[0]
    assert judgement.cann_bench.passed  # its leniency
    assert judge(everywhere, Policy.CANN_BENCH, allow_empty=True).verdict is Verdict.PASS
    somewhere = compared([NAN, 1.0], [NAN, 1.0])
    judgement = judge(somewhere, Policy.CANN_BENCH)
    assert judgement.verdict is Verdict.PASS and any("NaN on both sides" in reason for reason in judgement.reasons)


def test_nan_where_the_golden_would_be_filtered_still_fails():
    # A relative error of Inf, which filtering drops, beside a NaN: neither may hide the other.
    acc = compared([NAN, INF, 1.0], [1e-8, 2.0, 1.0])
    assert verdict(acc) is Verdict.FAIL
    assert acc.nonfinite.nan_in_actual.count == 1 and acc.nonfinite.inf_one_sided.count == 1
    # A number where the golden is NaN is no agreement either.
    assert verdict(compared([1.0, 1.0], [NAN, 1.0])) is Verdict.FAIL


@pytest.mark.parametrize(
    ("actual", "golden", "saturate", "expected"),
    [
        (65504.0, 65519.0, False, Verdict.PASS),  # rounds to 65504
        (INF, 65519.0, False, Verdict.FAIL),  # one-sided, though cann-bench lets it pass
        (INF, 65519.0, True, Verdict.PASS),
        (INF, 65520.0, False, Verdict.PASS),  # rounds to Inf: same-sign Inf are equal
        (65504.0, 65520.0, False, Verdict.FAIL),
        (65504.0, 65520.0, True, Verdict.PASS),
        (65472.0, 65520.0, True, Verdict.PASS),  # one step below the largest
        (65440.0, 65520.0, True, Verdict.FAIL),  # two steps
        (INF, 60000.0, True, Verdict.FAIL),
        (-INF, 65519.0, True, Verdict.FAIL),
        (-INF, 65520.0, True, Verdict.FAIL),
        (INF, INF, False, Verdict.PASS),
        (-INF, INF, True, Verdict.FAIL),
    ],
)
def test_inf_at_the_edge_of_float16(actual, golden, saturate, expected):
    acc = compared([actual, 1.0], [golden, 1.0], saturate=saturate)
    assert verdict(acc) is expected


def test_one_sided_inf_passes_cann_bench_and_fails_here():
    acc = compared([INF, 1.0], [65519.0, 1.0])
    assert cann_bench_result(acc).passed
    assert verdict(acc) is Verdict.FAIL


def test_zero_and_tiny_golden_report_the_formula():
    acc = compared([1e-9, 0.0, 2e-8], [0.0, 3e-8, 1e-8], "float32")
    errors = [1e-9 / 1e-7, 3e-8 / 1.3e-7, 1e-8 / 1.1e-7]
    assert acc.spec.mare == pytest.approx(max(errors), rel=1e-5)
    assert acc.spec.mere == pytest.approx(sum(errors) / 3, rel=1e-5)
    assert max(errors) == pytest.approx(0.23, abs=0.001)
    assert acc.regions["small"].total == 3
    result = cann_bench_result(acc)
    # Float32 allows 2^-30 there: three errors against a native count of 0.
    assert (result.deciding_region, result.regions["small"].errors, result.passed) == ("small", 3, False)


def test_flushed_subnormal_is_forgiven_by_the_small_region_only():
    acc = compared([0.0, 1.0], [6e-8, 1.0])
    assert acc.spec.mare == pytest.approx(6e-8 / 1.6e-7)
    assert cann_bench_result(acc).passed and cann_bench_result(acc).deciding_region == "small"
    assert verdict(acc, Policy.SPEC) is Verdict.FAIL


def test_all_zero_golden_passes_only_with_exact_zeros():
    smallest = 2.0**-24
    exact = compared([[0.0, -0.0, 0.0]], [[0.0, 0.0, 0.0]])
    assert verdict(exact) is Verdict.PASS and exact.zero_golden == 3
    off = compared([[0.0, smallest, 0.0]], [[0.0, 0.0, 0.0]])
    assert cann_bench_result(off).passed  # 2^-24 is less than the 2^-16 allowed there
    judgement = judge(off, Policy.CANN_BENCH)
    assert judgement.verdict is Verdict.FAIL
    assert judgement.offenders.first.index == (0, 1) and judgement.offenders.count == 1


def test_a_masked_row_must_be_exactly_zero():
    golden = np.full((3, 8), 0.5)
    golden[1] = 0.0
    actual = golden.copy()
    actual[1, 6] = 2.0**-24
    acc = compared(actual, golden)
    judgement = judge(acc, Policy.CANN_BENCH)
    assert judgement.verdict is Verdict.FAIL and judgement.offenders.first.index == (1, 6)
    # A single zero in a row of numbers is nothing special.
    golden[1] = 0.5
    golden[1, 6] = 0.0
    assert verdict(compared(np.where(golden == 0, 2.0**-24, golden), golden)) is Verdict.PASS


@pytest.mark.parametrize("shape", [(0,), (2, 0, 4)])
def test_empty_is_a_status_of_its_own(shape):
    acc = Accumulator(limits_of("float16"), shape)
    acc.update(torch.empty(shape, dtype=torch.float16), torch.empty(shape, dtype=torch.float64))
    for policy in Policy:
        assert verdict(acc, policy) is Verdict.EMPTY
        assert verdict(acc, policy, allow_empty=True) is Verdict.PASS
    assert math.isnan(acc.spec.mere) and not spec_result(acc).passed
    assert cann_bench_result(acc).passed  # its leniency


def test_shape_mismatch_comes_before_empty():
    acc = Accumulator(limits_of("float16"), (0,))
    assert verdict(acc, structure="shape: actual [0], golden [4]") is Verdict.FAIL
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        Accumulator(limits_of("float16"), (2,)).update(torch.zeros(2).half(), torch.zeros(3).double())


def test_ulp_distance():
    def bits(*values):
        return torch.tensor(values, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)

    smallest, zero, minus_zero = bits(0x0001), bits(0x0000), bits(-0x8000)
    minus_smallest = bits(-0x7FFF)
    assert ulp_distance(zero, minus_zero).tolist() == [0]
    assert ulp_distance(smallest, minus_smallest).tolist() == [2]
    assert ulp_distance(smallest, minus_zero).tolist() == [1]
    one = torch.tensor([1.0], dtype=torch.bfloat16)
    assert ulp_distance(one, bits(0x3F81)).tolist() == [1]
    assert ulp_distance(-one, one).tolist() == [2 * 0x3F80]
    for dtype in (torch.float32, torch.float64):
        largest = torch.tensor([torch.finfo(dtype).max], dtype=dtype)
        distance = int(ulp_distance(largest, -largest)[0])
        integers = torch.int32 if dtype is torch.float32 else torch.int64
        assert distance == 2 * int(largest.view(integers)[0])


def test_ulp_leaves_nan_out():
    # Two NaN whose payloads are one apart are no neighbours.
    nan = torch.tensor([0x7FC0, 0x3F80], dtype=torch.int16).view(torch.bfloat16)
    acc = Accumulator(limits_of("bfloat16"), (2,))
    acc.update(nan, torch.tensor([NAN, 1.0], dtype=torch.float64))
    assert (acc.ulp_max, acc.ulp_count) == (0, 1)


# --- streaming -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_blocks_in_any_order_add_up(layout, monkeypatch):
    monkeypatch.setattr("ascend_sparse_attention.precision.metrics.CHUNK_ELEMENTS", 32)
    generator = torch.Generator().manual_seed(5)
    golden = torch.rand(2, 6, 8, 16, generator=generator, dtype=torch.float64) - 0.5
    actual = (golden * (1 + 0.02 * torch.rand(golden.shape, generator=generator))).half()
    native = (golden + 1e-3 * torch.rand(golden.shape, generator=generator)).half()
    actual[1, 2, 3, 4] = NAN
    actual[0, 5, 7, 15] = 3.0
    actual[0, 1, 0, 0] = 4.0
    whole = Accumulator(limits_of("float16"), golden.shape, layout=layout)
    rounded = whole.update(actual, golden)
    whole.update_native(actual, rounded, native)
    parts = Accumulator(limits_of("float16"), golden.shape, layout=layout)
    blocks = [(slice(b, b + 1), slice(i, i + 3), slice(j, j + 2)) for b in (1, 0) for i in (3, 0) for j in (6, 0, 4, 2)]
    for block in blocks:
        origin = (*(part.start for part in block), 0)
        piece = parts.update(actual[block], golden[block], origin)
        assert torch.equal(piece, rounded[block])
        parts.update_native(actual[block], piece, native[block])
    assert parts.elements == whole.elements == golden.numel()
    for name, region in whole.regions.items():
        other = parts.regions[name]
        assert (other.total, other.errors, other.native) == (region.total, region.errors, region.native)
        assert other.offenders.first == region.offenders.first
        assert other.offenders.worst == region.offenders.worst
    assert parts.cann.mere == pytest.approx(whole.cann.mere, rel=1e-14)
    assert parts.cann.mare == whole.cann.mare
    assert parts.nonfinite.nan_in_actual.first.index == (1, 2, 3, 4)
    assert parts.regions["normal"].offenders.worst.index == (0, 1, 0, 0)
    assert (parts.decade_total == whole.decade_total).all() and (parts.histogram == whole.histogram).all()
    assert np.array_equal(parts.heat.cells, whole.heat.cells)
    # Heads by position (b * S1 + s1).
    row, column = (3, 6 + 2) if layout == "BSND" else (2, 8 + 3)
    assert parts.heat.cells[row, column] == INF


def test_bad_counts_by_size():
    acc = compared([0.5, 0.05, 0.0, 0.06], [0.5, 0.04, 0.0, 0.06], "float32")
    rows = {(row["from"], row["to"]): row for row in acc.decades()}
    assert {size: row["total"] for size, row in rows.items()} == {(0, 0): 1, (0.01, 0.1): 2, (0.1, 1.0): 1}
    assert rows[(0.01, 0.1)]["bad"] == 1
    assert rows[(0.01, 0.1)]["mare"] == pytest.approx(0.25, rel=1e-4)


def test_block_outside_the_output_is_refused():
    acc = Accumulator(limits_of("float16"), (2, 4))
    with pytest.raises(ValueError, match="does not fit"):
        acc.update(torch.zeros(1, 4).half(), torch.zeros(1, 4).double(), (2, 0))
    with pytest.raises(ValueError, match=r"expected dtype torch\.float16"):
        acc.update(torch.zeros(2, 4), torch.zeros(2, 4).double())
