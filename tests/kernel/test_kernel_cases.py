# SPDX-License-Identifier: Apache-2.0
"""Corners of the kernel. Inputs that broke others stand in test_broke_others.py."""

from __future__ import annotations

import math

import problems
import pytest
import torch
from ascend_sparse_attention import sparse_flash_attention, twin
from problems import F16, SCHEDULES, run, small


def test_nan_query_of_a_row_without_keys():
    p = small(S1=1, topK=4)
    p.indices[:] = -1
    p.query[:] = math.nan
    assert torch.equal(run(p).out, torch.zeros_like(p.query))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_nan_and_inf_in_unselected_and_masked_keys(schedule):
    p = small(S1=3, S2=400, topK=180, causal=True, value="own")
    keep = problems.kept(p)[0, 0]
    named = torch.zeros(400, dtype=torch.bool)
    for s in range(3):
        named[p.indices[0, s, 0][keep[s]].long()] = True
    named[399] = False  # masked in rows 0 and 1
    p.indices[0, 2, 0][p.indices[0, 2, 0] == 399] = 0
    named[0] = True
    p.key[0, ~named], p.value[0, ~named] = math.nan, math.inf
    assert torch.isfinite(run(p, schedule=schedule).out).all()


@pytest.mark.parametrize("where", ["query", "key", "value"])
def test_nan_reaches_its_rows_and_no_others(where):
    p = small(S1=2, N1=2, topK=8, value="own")
    p.indices[0, 0] = torch.arange(8)
    p.indices[0, 1] = torch.arange(8, 16)
    if where == "query":
        p.query[0, 0, 1, 3] = math.nan
    elif where == "key":
        p.key[0, 5, 0, 7] = math.nan
    else:
        p.value[0, 5, 0, 7] = math.nan
    out = run(p).out
    assert out[0, 0, 1].isnan().any() and not out[0, 1].isnan().any()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_very_negative_scores_beat_masked_slots(schedule):
    p = small(S1=1, S2=400, topK=200)
    p.query[:], p.scale = 10, -16.0
    p.key.abs_().mul_(10)
    p.indices[0, 0, 0, :150] = -1
    result = run(p, schedule=schedule)
    assert result.lse.max() < -1e4 and result.out.abs().sum() > 0


@pytest.mark.parametrize("Dk", range(64, 577, 64))
def test_every_head_dim(Dk):
    for dv in {64, Dk // 128 * 64 or 64, Dk}:
        run(small(Dk, Dk=Dk, Dv=dv, N1=3, topK=18, value="own"))


def test_head_dim_beyond_the_npu_is_refused():
    with pytest.raises(ValueError, match=r"^query: expected Dk <= 576 on the NPU, got 640$"):
        twin.run(*small(Dk=640, Dv=512).call)


def test_zero_input_gives_exact_zeros():
    p = small(topK=16)
    p.query.zero_()
    p.key.zero_()
    assert torch.equal(run(p).out, torch.zeros_like(p.query))


def test_value_is_read_only_where_it_is_not_keys_prefix():
    p = small(topK=8)
    p.value = torch.full_like(p.value, math.nan)
    assert twin.run(*p.call, predict=False).out.isnan().all()
    trusting = twin.run(*p.call, predict=False, value_is_key_prefix=True)
    p.value = p.key
    problems.check(p, trusting)


def test_query_rows_far_apart():
    """Heads further apart than ND2NZ can step go through the ring, or are loaded one by one."""
    for n1 in (4, 20, 128):
        p = small(N1=n1, S1=3, topK=20, layout="BNSD")
        far = torch.empty_strided(p.query.shape, (0, 70000, 64, 1), dtype=F16)
        p.query = far.copy_(p.query)
        run(p, cores=1)


def test_rows_that_cannot_be_paired():
    p = small(S2=4, topK=4, value="own")
    p.key = p.key[:, :1].expand(1, 4, 1, 64)
    assert p.key.stride(1) == 0
    run(p)


def test_last_batch_beyond_two_to_the_31_elements():
    rows = 2**31 // 64 // 2 + 64
    pool = torch.empty((3, rows, 1, 64), dtype=F16)
    p = small(B=3, S2=64, topK=16)
    p.key = pool[:, -64:].copy_(p.key)
    p.value = p.key
    assert p.key.storage_offset() + 2 * p.key.stride(0) > 2**31
    run(p)


def test_order_of_cores_and_entry_do_not_matter():
    p = small(B=2, S1=5, S2=300, N1=8, N2=2, topK=150, causal=True)
    first = run(p, seed=0)
    for options in (dict(seed=7), dict(seed=8, threads=2), dict(operator_entry=True)):
        assert torch.equal(first.out, run(p, **options).out)
    for schedule in SCHEDULES:
        run(p, schedule=schedule)


def test_the_backend_of_the_python_function():
    p = small(topK=16)
    out, lse = sparse_flash_attention(*p.call, backend="twin", return_lse=True)
    expected = run(p)
    assert torch.equal(out, expected.out) and torch.equal(lse, expected.lse)


def test_prediction_and_trace():
    result = twin.run(*small(topK=16).call, trace=True)
    assert set(result.predictions) == {"expected", "optimistic", "pessimistic"}
    assert result.predictions["optimistic"] < result.predicted_us < result.predictions["pessimistic"]
    assert '"traceEvents"' in result.trace
