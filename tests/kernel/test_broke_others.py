# SPDX-License-Identifier: Apache-2.0
"""Inputs that broke other implementations, run through the kernel in the twin.

The id in a test's name is that of the list of such reports that the project keeps; each docstring says what went wrong.
Every run is checked against float64, with outputs poisoned before it and the twin's checker on.
"""

from __future__ import annotations

import math

import problems
import pytest
import torch
from ascend_sparse_attention import twin
from problems import F16, SCHEDULES, run, small
from torch.utils._python_dispatch import TorchDispatchMode


def native(p):
    """The C++ checks alone, as callers that do not come through Python meet them."""
    twin.native_check(twin.request_of(*p.call))


def refused(p, error, message):
    """Python's checks, the C++ ones and a whole run refuse a call in the same words."""
    for attempt in (lambda: native(p), lambda: twin.run(*p.call)):
        with pytest.raises(error) as caught:
            attempt()
        assert str(caught.value) == message


# --- A1: causal wrong as soon as query and key lengths differ -------------------------------------------------------


def test_A1_causal_is_aligned_to_the_bottom_right(layout):
    p = small(S1=5, S2=9, topK=9, causal=True, layout=layout)
    run(p)
    keep = problems.kept(p)
    assert keep[0, 0, 0].sum() == 5 and keep[0, 0, 4].sum() == 9


@pytest.mark.parametrize("S1", [520, 528, 536, 544])
def test_A1_causal_with_unequal_lengths(S1):
    p = small(S1, S1=S1, S2=1024, N1=1, Dk=128, Dv=128, topK=24, causal=True)
    keep = problems.kept(p)
    assert 0.2 < keep.float().mean() < 0.9
    run(p)


# --- A5: rows with nothing to attend give NaN or stale memory -------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_A5_rows_without_keys_are_exactly_zero(schedule):
    topK = 2 if schedule == "gather" else 160
    p = small(S1=2, S2=max(4, topK), topK=topK, causal=True)
    last = p.key.shape[1] - 1
    p.indices[0, 0] = last  # beyond the first row's limit
    p.indices[0, 1, 0, : topK // 2], p.indices[0, 1, 0, topK // 2 :] = last, 0
    result = run(p, schedule=schedule)
    assert torch.equal(result.out[0, 0], torch.zeros_like(result.out[0, 0]))
    assert torch.isneginf(result.lse[0, 0]).all() and result.out[0, 1].abs().sum() > 0


# --- A7: an invalid slot rewritten to 0 attends key 0 ---------------------------------------------------------------


def test_A7_invalid_slots_do_not_attend_key_zero():
    p = small(S1=1, topK=4)
    p.indices[0, 0, 0] = torch.tensor([5, -1, -1, -1], dtype=torch.int32)
    p.key[0, 0, 0] = 100 * p.query[0, 0, 0].sign()
    result = run(p)
    torch.testing.assert_close(result.out[0, 0], p.value[0, 5].expand(4, -1), rtol=0, atol=0)


# --- A9: head dims that are no multiple of 64 run and give garbage --------------------------------------------------


@pytest.mark.parametrize(
    ("Dk", "Dv", "message"),
    [
        (200, 200, "query: expected head dim Dk a multiple of 64, got 200"),
        (100, 64, "query: expected head dim Dk a multiple of 64, got 100"),
        (128, 72, "value: expected head dim Dv a multiple of 64, got 72"),
    ],
)
def test_A9_unaligned_head_dims_are_refused_by_name(Dk, Dv, message):
    refused(small(S1=64, S2=64, N1=2, Dk=Dk, Dv=Dv), ValueError, message)


# --- A10: odd sequence tails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("topK", [1, 7, 63, 65, 129, 2048])
@pytest.mark.parametrize("S1", [1, 3, 17, 129])
def test_A10_odd_tails(S1, topK):
    for S2 in {topK, topK + 1, max(topK, 513)} if S1 < 100 else {topK + 1}:
        run(small(topK * S1, S1=S1, S2=S2, topK=topK, N1=2, causal=S1 <= S2))


@pytest.mark.parametrize("topK", [129, 257, 2047])
def test_A10_odd_tails_of_shared_out_keys(topK):
    run(small(topK, S1=1, S2=topK + 1, topK=topK, N1=2, causal=True), schedule="gather_split_k")


# --- A11: a group that is no power of two aborts the device ---------------------------------------------------------


@pytest.mark.parametrize(
    "heads", [(32, 8), (40, 8), (24, 2), (7, 1), (1, 1), (4, 1), (16, 1), (48, 1), (128, 1), (256, 1)]
)
def test_A11_any_group_size(heads, dtype):
    run(small(N1=heads[0], N2=heads[1], topK=20, dtype=dtype, layout="BNSD"))


# --- A12: 16 heads with topK 1152 have no specialisation ------------------------------------------------------------


@pytest.mark.parametrize("topK", [1, 100, 1152])
@pytest.mark.parametrize("N1", [1, 4, 16, 48])
def test_A12_any_head_count_and_topk(N1, topK):
    run(small(N1=N1, S1=1, S2=1200, topK=topK, Dk=576, Dv=512))


# --- A14: empty tensors: a bare status or an unpacking error --------------------------------------------------------


@pytest.mark.parametrize("empty", ["B", "S1"])
def test_A14_empty_batch_and_sequence_launch_nothing(empty, layout):
    p = small(layout=layout)
    cut = (
        (slice(0, 0),)
        if empty == "B"
        else (slice(None), slice(0, 0))
        if layout == "BSND"
        else (..., slice(0, 0), slice(None))
    )
    p.query, p.indices = p.query[cut], p.indices[cut]
    if empty == "B":
        p.key, p.value = p.key[:0], p.value[:0]
    result = twin.run(*p.call, return_lse=True)
    assert result.out.shape == p.query.shape and result.lse.shape == p.query.shape[:3]
    assert result.core_num == 0 and result.workspace_bytes == 0


def test_A14_no_keys_no_slots_and_scalars_are_refused_by_name():
    p = small()
    p.key, p.value = p.key[:, :0], p.value[:, :0]
    refused(p, ValueError, "key: expected S2 >= 1, got 0")
    p = small()
    p.indices = p.indices[..., :0]
    refused(p, ValueError, "sparseIndices: expected topK >= 1, got 0")
    p = small()
    p.query = torch.tensor(1.0, dtype=F16)
    refused(p, ValueError, "query: expected 4 dimensions [B, S1, N1, Dk], got 0")


# --- A15: illegal arguments pass Python and die on the device -------------------------------------------------------


def test_A15_illegal_arguments_are_refused_in_the_same_words_everywhere():
    p = small(N1=8, N2=4)
    p.query = torch.cat([p.query, p.query[:, :, :2]], 2)
    refused(p, ValueError, "query: expected N1 to be a multiple of N2 = 4, got 10")
    p = small(Dk=128)
    p.query = torch.zeros(1, 2, 4, 256, dtype=F16)
    refused(p, ValueError, "key: expected head dim 256 (query's), got 128")
    p = small()
    p.indices = p.indices.long()
    refused(p, TypeError, "sparseIndices: expected dtype int32, got int64")
    p = small()
    p.key = p.key.bfloat16()
    refused(p, TypeError, "key: expected dtype float16 (query's), got bfloat16")
    for wrong in ("bsnd", "TND"):
        p = small()
        p.layout = wrong
        refused(p, ValueError, f'inputLayout: expected "BSND" or "BNSD", got "{wrong}"')
    p = small(S1=9, S2=8)
    p.causal = True
    refused(p, ValueError, "is_causal: expected S1 <= S2 = 8 when causal, got S1 = 9")
    p = small()
    p.scale = torch.tensor(2)
    with pytest.raises(TypeError, match=r"^scaleValue: expected a finite number, got Tensor$"):
        twin.run(*p.call)


# --- A17: a strided cache makes the runtime copy the whole pool -----------------------------------------------------


class Recorder(TorchDispatchMode):
    """Keeps the names of the torch operators that run meanwhile."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def test_A17_a_strided_cache_is_read_in_place(layout):
    # One of four layers that a cache keeps side by side, and of eight heads the last two.
    pool = (torch.rand(2, 300, 4, 8, 128) * 2 - 1).half()
    cache = pool[:, :, 2, 6:]
    p = small(B=2, S1=1, S2=300, N1=4, N2=2, Dk=128, topK=40, layout=layout)
    p.key = cache if layout == "BSND" else cache.transpose(1, 2)
    p.value = p.key[..., :64]
    with Recorder() as ran:
        result = twin.run(*p.call, predict=False)
    problems.check(p, result)
    # Nothing but the allocation of the output: no copy of the cache, and none of its rows.
    assert ran.names == {"aten.empty.memory_format"}
    packed = twin.run(p.query, p.key.contiguous(), p.value.contiguous(), *p.call[3:], predict=False)
    assert torch.equal(result.out, packed.out)


# --- A23: a replay reads stale metadata -----------------------------------------------------------------------------


def test_A23_the_same_tensors_with_new_contents():
    p = small(topK=8)
    first = run(p).out
    p.indices.add_(1).remainder_(64)
    assert not torch.equal(first, run(p).out)


# --- A25: the result is the plain average of V ----------------------------------------------------------------------


def test_A25_peaked_scores_are_not_averaged():
    p = small(N1=4, N2=2, topK=16)
    p.scale = 4.0
    other = problems.Problem(*(t.transpose(1, 2).contiguous() for t in p.call[:4]), 4.0, "BNSD", False)
    other.value = other.key
    outs = [run(one).out for one in (p, other)]
    assert torch.equal(outs[0], outs[1].transpose(1, 2))
    mean = p.value[0, p.indices[0, 0, 0].long(), 0].float().mean(0)
    assert (outs[0][0, 0, 0].float() - mean).abs().max() > 0.1


# --- A27: the scale is taken from a padded head dim -----------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 4.0, -0.25])
def test_A27_scale_is_used_as_given(scale):
    for Dk in (64, 192):
        p = small(Dk=Dk, topK=7, causal=True, S1=4)
        p.scale = scale
        run(p)


# --- B21: a long S1 exceeds a grid dimension; topK larger than S2 ---------------------------------------------------


def test_B21_seventy_thousand_rows():
    # More rows of one sequence than the NPU's table has are refused by name; as many in a batch are shared out.
    key = (torch.rand(35, 256, 1, 64) * 2 - 1).half()
    long = problems.Problem(
        torch.ones(1, 70000, 1, 64).half(), key[:1], key[:1], torch.zeros(1, 70000, 1, 1).int(), 1.0
    )
    refused(long, ValueError, "query: expected S1 <= 2048 on the NPU, got 70000")
    indices = torch.randint(0, 256, (35, 2048, 1, 1), dtype=torch.int32)
    result = twin.run(torch.ones(35, 2048, 1, 64).half(), key, key, indices, 1.0, predict=False)
    assert not result.findings and result.core_num == 24
    # One key has all the weight.
    chosen = key[:, :, 0].gather(1, indices[:, :, 0].long().expand(-1, -1, 64))
    assert torch.equal(result.out[:, :, 0], chosen)


def test_B21_topk_larger_than_s2_is_refused():
    p = small(S2=32, topK=32)
    p.indices = p.indices.repeat(1, 1, 1, 64)
    refused(p, ValueError, "sparseIndices: expected topK <= S2 = 32, got 2048")


def test_B21_whole_tiles_of_invalid_slots():
    for first in (0, 128, 256):
        p = small(S1=1, S2=512, topK=384)
        p.indices[..., first : first + 128] = -1
        for schedule in SCHEDULES:
            assert math.isfinite(run(p, schedule=schedule).lse.sum())
