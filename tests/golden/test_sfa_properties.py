# SPDX-License-Identifier: Apache-2.0
"""Laws that the float64 golden obeys whatever the input."""

from __future__ import annotations

import math

import torch
from ascend_sparse_attention.golden import sparse_flash_attention
from golden_inputs import call
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def calls(draw: st.DrawFn, hostile: bool = True) -> tuple:
    """Small calls; with `hostile`, slots may repeat, stand outside [0, S2) or be causal-masked."""
    S2 = draw(st.integers(1, 24))
    S1 = draw(st.integers(1, 6))
    causal = draw(st.booleans()) and S1 <= S2
    N2 = draw(st.integers(1, 3))
    args = call(
        B=draw(st.integers(1, 2)),
        S1=S1,
        S2=S2,
        N1=N2 * draw(st.integers(1, 5)),
        N2=N2,
        Dk=draw(st.sampled_from([64, 128])),
        topK=draw(st.integers(1, S2)),
        layout=draw(st.sampled_from(["BSND", "BNSD"])),
        dtype=draw(st.sampled_from([torch.float16, torch.bfloat16])),
        seed=draw(st.integers(0, 1000)),
        scale=draw(st.floats(-2, 2)),
        causal=causal,
        shared=draw(st.booleans()),
    )
    if hostile:
        q, k, v, idx, *rest = args
        g = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
        idx = torch.randint(-2, S2 + 2, idx.shape, generator=g, dtype=torch.int32)
        args = (q, k, v, idx, *rest)
    return args


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a.double(), b.double(), rtol=1e-11, atol=1e-13)


def close_lse(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


few = settings(max_examples=40, deadline=None)


@few
@given(calls(), st.randoms(use_true_random=False))
def test_the_order_of_slots_does_not_matter(args: tuple, random) -> None:
    q, k, v, idx, *rest = args
    order = list(range(idx.shape[-1]))
    random.shuffle(order)
    a, b = sparse_flash_attention(*args), sparse_flash_attention(q, k, v, idx[..., order].contiguous(), *rest)
    close(a.out, b.out)
    close_lse(a.lse, b.lse)


@few
@given(calls())
def test_layouts_agree(args: tuple) -> None:
    *tensors, scale, layout, causal = args
    other = "BNSD" if layout == "BSND" else "BSND"
    a = sparse_flash_attention(*args)
    b = sparse_flash_attention(*(t.transpose(1, 2).contiguous() for t in tensors), scale, other, causal)
    close(a.out, b.out.transpose(1, 2))
    close_lse(a.lse, b.lse.transpose(1, 2))


@few
@given(calls())
def test_grouped_heads_equal_keys_repeated_for_every_head(args: tuple) -> None:
    q, k, v, idx, scale, layout, causal = args
    heads = 2 if layout == "BSND" else 1
    group = q.shape[heads] // k.shape[heads]
    a = sparse_flash_attention(*args)
    b = sparse_flash_attention(q, *(t.repeat_interleave(group, dim=heads) for t in (k, v, idx)), scale, layout, causal)
    close(a.out, b.out)
    close_lse(a.lse, b.lse)


@few
@given(calls(hostile=False), st.integers(2, 4))
def test_repeats_are_weights(args: tuple, times: int) -> None:
    """m copies of one slot weigh what log(m) added to its score would: out = (W + (m-1) w v) / (1 + (m-1) w)."""
    q, k, v, idx, scale, layout, causal = args
    single = sparse_flash_attention(*args)
    alone = sparse_flash_attention(q, k, v, idx[..., :1].contiguous(), scale, layout, causal)
    repeated = torch.cat([idx, idx[..., :1].expand(*idx.shape[:-1], times - 1)], dim=-1)
    S2 = k.shape[1 if layout == "BSND" else 2]
    if repeated.shape[-1] > S2:  # topK <= S2: make room with keys nobody selects
        room = [(0, 0)] * 4
        room[1 if layout == "BSND" else 2] = (repeated.shape[-1] - S2, 0)
        k, v = (torch.nn.functional.pad(t, [n for pair in reversed(room) for n in pair]) for t in (k, v))
        repeated = repeated + (repeated.shape[-1] - S2)  # the old keys moved back; causal moved with S2
    got = sparse_flash_attention(q, k, v, repeated, scale, layout, causal)
    w = torch.exp2(alone.lse.double() - single.lse.double()).nan_to_num(0.0).unsqueeze(-1)
    expected = (single.out + (times - 1) * w * alone.out) / (1 + (times - 1) * w)
    torch.testing.assert_close(got.out, expected, rtol=1e-5, atol=1e-6)


@few
@given(calls(), st.integers(16, 23))
def test_the_memory_bound_does_not_change_the_result(args: tuple, bits: int) -> None:
    a, b = sparse_flash_attention(*args), sparse_flash_attention(*args, memory_limit_bytes=(1 << bits) + 300_000)
    close(a.out, b.out)
    close_lse(a.lse, b.lse)


@few
@given(calls(), st.sampled_from([0.5, 2.0, 4.0]))
def test_scaling_q_equals_scaling_the_scale(args: tuple, factor: float) -> None:
    q, k, v, idx, scale, layout, causal = args
    a = sparse_flash_attention(q * factor, k, v, idx, scale, layout, causal)  # a power of two: q stays exact
    b = sparse_flash_attention(q, k, v, idx, scale * factor, layout, causal)
    close(a.out, b.out)
    close_lse(a.lse, b.lse)


@few
@given(calls())
def test_scaling_the_values_scales_the_output(args: tuple) -> None:
    q, k, v, idx, *rest = args
    a, b = sparse_flash_attention(*args), sparse_flash_attention(q, k, v * 2, idx, *rest)
    close(a.out * 2, b.out)
    close_lse(a.lse, b.lse)


@few
@given(calls())
def test_the_output_is_a_mean_of_the_selected_values(args: tuple) -> None:
    """Constant values come back as they are; rows with nothing left give zeros and -inf, and only those."""
    q, k, v, idx, *rest = args
    got = sparse_flash_attention(q, k, torch.ones_like(v), idx, *rest)
    empty = got.lse == -math.inf
    close(got.out, (~empty).double().unsqueeze(-1).expand_as(got.out))
    assert bool(got.lse[~empty].isfinite().all())


@few
@given(calls())
def test_lse_of_two_halves_merges(args: tuple) -> None:
    """Splitting the slots and merging by LSE gives the whole: what a combine stage does."""
    q, k, v, idx, *rest = args
    S = idx.shape[-1] // 2
    if S == 0:
        return
    whole = sparse_flash_attention(*args)
    parts = [sparse_flash_attention(q, k, v, i.contiguous(), *rest) for i in (idx[..., :S], idx[..., S:])]
    lse = torch.stack([part.lse.double() for part in parts])
    total = torch.logsumexp(lse * math.log(2), 0) / math.log(2)
    weights = torch.exp2(lse - total).nan_to_num(0.0).unsqueeze(-1)
    merged = weights[0] * parts[0].out + weights[1] * parts[1].out
    torch.testing.assert_close(merged, whole.out, rtol=1e-5, atol=1e-5)  # lse is float32
    torch.testing.assert_close(total.float(), whole.lse, rtol=1e-5, atol=1e-5)
