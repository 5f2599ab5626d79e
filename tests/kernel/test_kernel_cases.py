# SPDX-License-Identifier: Apache-2.0
"""Inputs that broke other kernels of this kind, and the corners of this one."""

from __future__ import annotations

import math
import random

import problems
import pytest
import torch
from ascend_sparse_attention import sparse_flash_attention, twin

F16 = torch.float16
SCHEDULES = ("gather", "gather_split_k")


def make(rng=0, **sizes):
    given = dict(
        B=1, S1=2, S2=64, N1=4, N2=1, Dk=64, Dv=64, topK=8, layout="BSND", dtype=F16, causal=False, value="prefix"
    )
    return problems.make(random.Random(rng), **(given | sizes))


def run(p, **options):
    options.setdefault("return_lse", True)
    result = twin.run(*p.call, predict=False, **options)
    problems.check(p, result)
    return result


def test_causal_is_aligned_to_the_bottom_right(layout):
    p = make(S1=5, S2=9, topK=9, causal=True, layout=layout)
    run(p)
    keep = problems.kept(p)
    assert keep[0, 0, 0].sum() == 5 and keep[0, 0, 4].sum() == 9


def test_causal_with_unequal_lengths():
    for s1 in (24, 40):
        run(make(S1=s1, S2=64, N1=1, Dk=128, Dv=128, topK=64, causal=True))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rows_without_keys_are_exactly_zero(schedule):
    # The second row sees its keys; the first sees none. The output is NaN before the run.
    topK = 2 if schedule == "gather" else 160
    p = make(S1=2, S2=max(4, topK), topK=topK, causal=True)
    p.indices[0, 0] = p.key.shape[1] - 1
    p.indices[0, 1] = 0
    result = run(p, schedule=schedule)
    assert torch.equal(result.out[0, 0], torch.zeros_like(result.out[0, 0]))
    assert torch.isneginf(result.lse[0, 0]).all() and result.out[0, 1].abs().sum() > 0


def test_nan_query_of_a_row_without_keys():
    p = make(S1=1, topK=4)
    p.indices[:] = -1
    p.query[:] = math.nan
    assert torch.equal(run(p).out, torch.zeros_like(p.query))


def test_invalid_slots_do_not_attend_key_zero():
    p = make(S1=1, topK=4)
    p.indices[0, 0, 0] = torch.tensor([5, -1, -1, -1], dtype=torch.int32)
    p.key[0, 0, 0] = 100 * p.query[0, 0, 0].sign()
    result = run(p)
    torch.testing.assert_close(result.out[0, 0], p.value[0, 5].expand(4, -1), rtol=0, atol=0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_nan_and_inf_in_unselected_and_masked_keys(schedule):
    p = make(S1=3, S2=400, topK=180, causal=True, value="own")
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
    p = make(S1=2, N1=2, topK=8, value="own")
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
    p = make(S1=1, S2=400, topK=200)
    p.query[:], p.scale = 10, -16.0
    p.key.abs_().mul_(10)
    p.indices[0, 0, 0, :150] = -1
    result = run(p, schedule=schedule)
    assert result.lse.max() < -1e4 and result.out.abs().sum() > 0


@pytest.mark.parametrize("scale", [0.0, 0.5, 4.0, -0.25])
def test_scale_is_used_as_given(scale):
    for dk in (64, 192):
        p = make(Dk=dk, topK=7, causal=True, S1=4)
        p.scale = scale
        run(p)


@pytest.mark.parametrize("topK", [1, 7, 63, 65, 129, 2048])
@pytest.mark.parametrize("S1", [1, 3, 17])
def test_odd_tails(S1, topK):
    for s2 in {topK, topK + 1, max(topK, 513)}:
        run(make(topK * S1, S1=S1, S2=s2, topK=topK, N1=2, causal=S1 <= s2))


@pytest.mark.parametrize(
    "heads", [(32, 8), (40, 8), (24, 2), (7, 1), (1, 1), (4, 1), (16, 1), (48, 1), (128, 1), (256, 1)]
)
def test_any_group_size(heads, dtype):
    run(make(N1=heads[0], N2=heads[1], topK=20, dtype=dtype, layout="BNSD"))


@pytest.mark.parametrize("topK", [1, 100, 1152])
def test_any_topk_at_sixteen_heads(topK):
    run(make(N1=16, S1=1, S2=1200, topK=topK, Dk=576, Dv=512))


@pytest.mark.parametrize("Dk", range(64, 577, 64))
def test_every_head_dim(Dk):
    for dv in {64, Dk // 128 * 64 or 64, Dk}:
        run(make(Dk, Dk=Dk, Dv=dv, N1=3, topK=18, value="own"))


@pytest.mark.parametrize(("Dk", "Dv", "name"), [(200, 200, "query"), (128, 72, "value")])
def test_unaligned_head_dims_are_refused_by_name(Dk, Dv, name):
    p = make(Dk=Dk, Dv=Dv)
    with pytest.raises(
        ValueError, match=f"^{name}: expected head dim .* multiple of 64, got {Dk if name == 'query' else Dv}$"
    ):
        twin.run(*p.call)


def test_head_dim_beyond_the_npu_is_refused():
    with pytest.raises(ValueError, match=r"^query: expected Dk <= 576 on the NPU, got 640$"):
        twin.run(*make(Dk=640, Dv=512).call)


def test_peaked_scores_are_not_averaged():
    both = []
    for layout in ("BSND", "BNSD"):
        p = make(N1=4, N2=2, topK=16, layout=layout)
        if layout == "BNSD":
            p.query, p.key, p.indices = (
                t.transpose(1, 2).contiguous() for t in (both[0].query, both[0].key, both[0].indices)
            )
            p.value = p.key[..., :64]
        p.scale = 4.0
        both.append(p)
    outs = [run(p).out for p in both]
    assert torch.equal(outs[0], outs[1].transpose(1, 2))
    mean = both[0].value[0, both[0].indices[0, 0, 0].long(), 0].float().mean(0)
    assert (outs[0][0, 0, 0].float() - mean).abs().max() > 0.1


def test_zero_input_gives_exact_zeros():
    p = make(topK=16)
    p.query.zero_()
    p.key.zero_()
    assert torch.equal(run(p).out, torch.zeros_like(p.query))


def test_empty_batch_and_sequence_launch_nothing():
    for sizes in (dict(B=0), dict(S1=0)):
        p = make()
        query = torch.empty((sizes.get("B", 1), sizes.get("S1", 2), 4, 64), dtype=F16)
        lead = query.shape[:2]
        key = p.key[: sizes.get("B", 1)]
        index = torch.empty((*lead, 1, 8), dtype=torch.int32)
        result = twin.run(query, key, key, index, 1.0)
        assert result.out.shape == query.shape and result.core_num == 0


def test_value_is_read_only_where_it_is_not_keys_prefix():
    p = make(topK=8)
    p.value = torch.full_like(p.value, math.nan)
    assert twin.run(*p.call, predict=False).out.isnan().all()
    trusting = twin.run(*p.call, predict=False, value_is_key_prefix=True)
    p.value = p.key
    problems.check(p, trusting)


def test_query_rows_far_apart():
    """Heads further apart than ND2NZ can step go through the ring, or are loaded one by one."""
    for n1 in (4, 20, 128):
        p = make(N1=n1, S1=3, topK=20, layout="BNSD")
        far = torch.empty_strided(p.query.shape, (0, 70000, 64, 1), dtype=F16)
        p.query = far.copy_(p.query)
        run(p, cores=1)


def test_rows_that_cannot_be_paired():
    p = make(S2=4, topK=4, value="own")
    p.key = p.key[:, :1].expand(1, 4, 1, 64)
    assert p.key.stride(1) == 0
    run(p)


def test_last_batch_beyond_two_to_the_31_elements():
    rows = 2**31 // 64 // 2 + 64
    pool = torch.empty((3, rows, 1, 64), dtype=F16)
    p = make(B=3, S2=64, topK=16)
    p.key = pool[:, -64:].copy_(p.key)
    p.value = p.key
    assert p.key.storage_offset() + 2 * p.key.stride(0) > 2**31
    run(p)


def test_order_of_cores_and_entry_do_not_matter():
    p = make(B=2, S1=5, S2=300, N1=8, N2=2, topK=150, causal=True)
    first = run(p, seed=0)
    for options in (dict(seed=7), dict(seed=8, threads=2), dict(operator_entry=True)):
        assert torch.equal(first.out, run(p, **options).out)
    for schedule in SCHEDULES:
        run(p, schedule=schedule)


def test_the_backend_of_the_python_function():
    p = make(topK=16)
    out, lse = sparse_flash_attention(*p.call, backend="twin", return_lse=True)
    expected = run(p)
    assert torch.equal(out, expected.out) and torch.equal(lse, expected.lse)


def test_prediction_and_trace():
    result = twin.run(*make(topK=16).call, trace=True)
    assert set(result.predictions) == {"expected", "optimistic", "pessimistic"}
    assert result.predictions["optimistic"] < result.predicted_us < result.predictions["pessimistic"]
    assert '"traceEvents"' in result.trace
