# SPDX-License-Identifier: Apache-2.0
"""The float64 golden against loops, and against inputs that broke other implementations."""

from __future__ import annotations

import math

import golden_loops
import pytest
import torch
from ascend_sparse_attention.golden import iter_blocks, sparse_flash_attention
from golden_inputs import call, with_indices

INF, NAN = math.inf, math.nan


def agree(args: tuple) -> tuple[torch.Tensor, torch.Tensor]:
    """Golden's out and lse, after checking both against the loops."""
    got = sparse_flash_attention(*args)
    out, lse = golden_loops.sfa(*args)
    assert got.out.dtype == torch.float64 and got.lse.dtype == torch.float32
    torch.testing.assert_close(got.out, out, rtol=1e-12, atol=1e-14, equal_nan=True)
    torch.testing.assert_close(got.lse, lse.float(), rtol=1e-6, atol=1e-6, equal_nan=True)
    return got.out, got.lse


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_agrees_with_loops(layout: str, dtype: torch.dtype, causal: bool) -> None:
    agree(call(B=2, S1=3, S2=11, N1=4, N2=2, Dk=128, topK=7, layout=layout, dtype=dtype, causal=causal, shared=False))


def test_value_as_view_of_key_equals_value_as_copy() -> None:
    q, k, v, idx, *rest = call(B=2, S1=3, S2=20, N1=4, N2=2, Dk=192, Dv=128, topK=9)
    view = sparse_flash_attention(q, k, k[..., :128], idx, *rest)
    copy = sparse_flash_attention(q, k, v, idx, *rest)
    torch.testing.assert_close(view.out, copy.out, rtol=1e-14, atol=0)
    assert torch.equal(view.lse, copy.lse)


def test_strided_inputs_give_the_same() -> None:
    args = call(B=2, S1=3, S2=20, N1=4, N2=2, topK=9, shared=False)
    q, k, v, idx, *rest = args
    wide = torch.full((2, 20, 2, 200), NAN, dtype=torch.float16)
    wide[..., 8:72] = k
    tall = torch.full((2, 41, 2, 64), NAN, dtype=torch.float16)
    tall[:, 1:41:2] = v
    got = sparse_flash_attention(q, wide[..., 8:72], tall[:, 1:41:2], idx, *rest)
    assert torch.equal(got.out, sparse_flash_attention(*args).out)


# A1
def test_causal_is_aligned_to_the_bottom_right() -> None:
    args = call(S1=5, S2=9, topK=9, causal=True)
    _, lse = agree(args)
    q, k = args[:2]
    for s1, last in ((0, 4), (4, 8)):  # row 0 sees keys 0..4, row 4 sees all nine
        x = (q[0, s1].double() @ k[0, : last + 1, 0].double().T) * 0.125
        torch.testing.assert_close(lse[0, s1], (x.logsumexp(-1) / math.log(2)).float())


@pytest.mark.parametrize("more", [16, 24, 32])
def test_causal_with_more_keys_than_queries(more: int) -> None:
    args = call(S1=32, S2=32 + more, topK=32 + more, causal=True, N1=1)
    got = sparse_flash_attention(*args)
    q, k, v = (t.double() for t in args[:3])
    for s1 in (0, 7, 31):
        visible = slice(0, s1 + more + 1)
        weights = torch.softmax(q[0, s1, 0] @ k[0, visible, 0].T * 0.125, dim=-1)
        torch.testing.assert_close(got.out[0, s1, 0], weights @ v[0, visible, 0], rtol=1e-12, atol=1e-14)


# A5
@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_a_row_with_nothing_left_is_exactly_zero(layout: str) -> None:
    args = with_indices(call(S1=2, S2=4, topK=2, causal=True, layout=layout), [[3, 3], [3, 0]])
    out, lse = agree(args)
    empty, full = (out[:, 0], out[:, 1]) if layout == "BSND" else (out[:, :, 0], out[:, :, 1])
    assert torch.equal(empty, torch.zeros_like(empty)) and bool((full != 0).all())
    empty_lse = lse[:, 0] if layout == "BSND" else lse[:, :, 0]
    assert bool((empty_lse == -INF).all())


def test_an_empty_row_stays_zero_whatever_q_and_key_hold() -> None:
    args = with_indices(call(S1=2, S2=4, topK=2), [[-1, 4], [0, 1]])
    args[0][0, 0] = NAN
    args[1][0, 2:] = INF
    out, lse = agree(args)
    assert torch.equal(out[0, 0], torch.zeros_like(out[0, 0])) and bool((lse[0, 0] == -INF).all())
    assert bool(out[0, 1].isfinite().all())


# A7
@pytest.mark.parametrize("bad", [-1, -(2**31), 8, 9, 2**31 - 1])
def test_a_masked_slot_does_not_attend_key_0(bad: int) -> None:
    args = with_indices(call(S1=1, S2=8, topK=4, N1=1), [[5, bad, bad, bad]])
    args[1][0, 0, 0] = args[0][0, 0, 0] * 100  # key 0 would win by far
    out, _ = agree(args)
    assert torch.equal(out[0, 0, 0], args[2][0, 5, 0].double())


def test_masked_slots_may_stand_anywhere() -> None:
    agree(with_indices(call(S1=3, S2=8, topK=4), [[-1, 5, 99, 2], [5, -7, 2, 8], [1, 2, 3, -1]]))


def test_unselected_and_masked_keys_never_touch_the_result() -> None:
    rows = [[1, 2, 6, -1], [2, 1, 7, 7]]
    plain = with_indices(call(S1=2, S2=8, topK=4, causal=True, shared=False), rows)  # key 7 is causal-masked in row 0
    clean = sparse_flash_attention(*plain)
    for poison in (NAN, INF, -INF):
        args = tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in plain)
        for tensor in args[1:3]:
            tensor[0, [0, 3, 4, 5]] = poison
        assert torch.equal(sparse_flash_attention(*args).out, clean.out)
        for tensor in args[1:3]:
            tensor[0, 7] = poison
        assert torch.equal(sparse_flash_attention(*args).out[0, 0], clean.out[0, 0])


def test_nan_in_q_or_a_selected_key_reaches_its_row_and_no_other() -> None:
    for place in ("q", "k"):
        args = with_indices(call(S1=3, S2=8, topK=3, N1=2), [[0, 1, 2], [3, 4, 5], [5, 6, 7]])
        if place == "q":
            args[0][0, 1, 0, 3] = NAN
        else:
            args[1][0, 4, 0, 60] = NAN
        out, lse = agree(args)
        bad = out.isnan().any(-1)
        assert bad.tolist() == (
            [[[False] * 2, [True, False], [False] * 2]] if place == "q" else [[[False] * 2, [True] * 2, [False] * 2]]
        )
        assert torch.equal(lse.isnan(), bad)


def test_nan_in_a_selected_value_reaches_its_column() -> None:
    args = with_indices(call(S1=2, S2=8, topK=3, shared=False), [[0, 1, 2], [3, 4, 5]])
    args[2][0, 1, 0, 7] = NAN
    out, _ = agree(args)
    assert out.isnan().sum().item() == 2 and bool(out[0, 0, :, 7].isnan().all())


def test_infinite_score_is_not_hidden() -> None:
    args = with_indices(call(S1=1, S2=4, topK=2, N1=1), [[0, 1]])
    args[1][0, 0] = INF
    args[0].abs_()
    out, _ = agree(args)
    assert bool(out.isnan().all())


# A10
@pytest.mark.parametrize("S1", [1, 3, 17])
@pytest.mark.parametrize("topK", [1, 7, 63, 65])
@pytest.mark.parametrize("extra", [0, 1])
def test_odd_tails(S1: int, topK: int, extra: int) -> None:
    args = call(S1=S1, S2=topK + extra, topK=topK, N1=1, seed=S1 * 100 + topK)
    got = sparse_flash_attention(*args)
    q, k, v, idx = args[:4]
    scores = torch.einsum("sd,kd->sk", q[0, :, 0].double(), k[0, :, 0].double()) * 0.125
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, idx[0, :, 0].long(), True)
    weights = torch.softmax(scores.masked_fill(~chosen, -INF), dim=-1)
    torch.testing.assert_close(got.out[0, :, 0], weights @ v[0, :, 0].double(), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(("S1", "topK", "S2"), [(129, 129, 513), (17, 2048, 2049)])
def test_odd_tails_over_many_pieces(S1: int, topK: int, S2: int) -> None:
    args = call(S1=S1, S2=S2, topK=topK, N1=3, N2=1)
    got = sparse_flash_attention(*args)
    q, k, v, idx = args[:4]
    scores = torch.einsum("snd,kd->nsk", q[0].double(), k[0, :, 0].double()) * 0.125
    chosen = torch.zeros(S1, S2, dtype=torch.bool).scatter_(1, idx[0, :, 0].long(), True)
    weights = torch.softmax(scores.masked_fill(~chosen, -INF), dim=-1)
    torch.testing.assert_close(got.out[0].transpose(0, 1), weights @ v[0, :, 0].double(), rtol=1e-11, atol=1e-14)


# A11
@pytest.mark.parametrize(("N1", "N2"), [(32, 8), (40, 8), (24, 2), (7, 1), (5, 5)])
def test_any_group_size(N1: int, N2: int) -> None:
    agree(call(S1=2, S2=9, N1=N1, N2=N2, topK=4))


# A25
@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_peaked_scores_are_not_the_mean_of_the_values(layout: str) -> None:
    args = call(S1=3, S2=12, topK=6, layout=layout, scale=4.0, shared=False)
    out, _ = agree(args)
    mean, _ = agree((*args[:4], 0.0, *args[5:]))
    assert (out - mean).abs().max() > 0.1


def test_both_layouts_give_the_same() -> None:
    a = sparse_flash_attention(*call(B=2, S1=5, S2=33, N1=6, N2=3, topK=12, causal=True))
    b = sparse_flash_attention(*call(B=2, S1=5, S2=33, N1=6, N2=3, topK=12, causal=True, layout="BNSD"))
    assert torch.equal(a.out, b.out.transpose(1, 2)) and torch.equal(a.lse, b.lse.transpose(1, 2))


# A27
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0, 0.0, -0.25, 1e4])
@pytest.mark.parametrize("Dk", [64, 192])
def test_the_callers_scale_is_used_as_given(scale: float, Dk: int) -> None:
    agree(call(S1=2, S2=9, Dk=Dk, topK=4, scale=scale))


def test_a_repeated_index_counts_as_often_as_it_stands() -> None:
    args = with_indices(call(S1=2, S2=8, topK=4, N1=2), [[3, 3, 3, 1], [2, 5, 2, 5]])
    out, lse = agree(args)
    once, once_lse = agree(with_indices(call(S1=2, S2=8, topK=2, N1=2), [[3, 1], [2, 5]]))
    assert not torch.allclose(out[0, 0], once[0, 0])
    torch.testing.assert_close(out[0, 1], once[0, 1], rtol=1e-13, atol=1e-15)  # doubled throughout: the same mean
    torch.testing.assert_close(lse[0, 1], once_lse[0, 1] + 1)  # one bit more


def test_large_logits_neither_overflow_nor_vanish() -> None:
    args = call(S1=2, S2=8, topK=8, N1=1, scale=6e4)
    out, lse = agree(args)
    assert bool(out.isfinite().all()) and bool(lse.isfinite().all())
    negative = with_indices((args[0].abs(), -args[1].abs(), *args[2:]), [list(range(8))] * 2)
    out, lse = agree(negative)
    assert bool((lse < -5e4).all()) and bool((out != 0).any())


@pytest.mark.parametrize(("B", "S1"), [(0, 3), (2, 0)])
@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_empty_output(B: int, S1: int, layout: str) -> None:
    args = call(B=B, S1=S1, layout=layout)
    got = sparse_flash_attention(*args)
    assert got.out.shape == args[0].shape and got.lse.shape == args[0].shape[:3]
    assert list(iter_blocks(*args)) == []


def test_blocks_cover_the_output_once_and_in_order() -> None:
    args = call(B=2, S1=70, S2=80, N1=4, N2=2, topK=8)
    whole = sparse_flash_attention(*args)
    seen = torch.zeros(2, 4, 70, dtype=torch.int32)
    last = (-1, -1, -1)
    for block in iter_blocks(*args, memory_limit_bytes=1 << 20):
        at = block.index
        assert (at.b, at.n2, at.rows.start) > last
        last = (at.b, at.n2, at.rows.start)
        assert block.out.shape == (2, at.row_count, 64) and block.lse.shape == (2, at.row_count)
        seen[at.b, at.heads, at.rows] += 1
        torch.testing.assert_close(block.out, whole.out.transpose(1, 2)[at.b, at.heads, at.rows], rtol=1e-13, atol=0)
    assert bool((seen == 1).all())


def test_float32_on_request() -> None:
    args = call(S1=3, S2=20, topK=8)
    got = sparse_flash_attention(*args, dtype=torch.float32)
    assert got.out.dtype == torch.float32
    torch.testing.assert_close(got.out.double(), sparse_flash_attention(*args).out, rtol=1e-4, atol=1e-6)
    with pytest.raises(TypeError, match=r"dtype: expected torch\.float64 or torch\.float32, got torch\.float16"):
        sparse_flash_attention(*args, dtype=torch.float16)


def test_bad_arguments_raise_at_the_call() -> None:
    args = call()
    with pytest.raises(ValueError, match="inputLayout"):
        iter_blocks(*args[:5], "TND")
    with pytest.raises(ValueError, match=r"memory_limit_bytes: expected at least \d+ to hold one query position"):
        iter_blocks(*args, memory_limit_bytes=1000)


def test_inputs_that_require_grad_are_fine_and_untouched() -> None:
    q, k, v, idx, *rest = call(shared=False)
    tensors = [t.clone().requires_grad_() for t in (q, k, v)]
    got = sparse_flash_attention(*tensors, idx, *rest)
    assert torch.equal(got.out, sparse_flash_attention(q, k, v, idx, *rest).out) and not got.out.requires_grad
    assert all(torch.equal(a, b) for a, b in zip(tensors, (q, k, v)))


def test_a_consumer_may_stop_early() -> None:
    args = call(B=8, S1=40, S2=64, topK=16)
    blocks = iter_blocks(*args, memory_limit_bytes=1 << 20)
    first = next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    assert first.index.b == 0 and torch.get_num_threads() >= 1


def test_the_thread_count_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    sparse_flash_attention(*call(B=2))
    assert torch.get_num_threads() == before
