# SPDX-License-Identifier: Apache-2.0
"""The dense golden of single_prefill_with_kv_cache against loops, and against inputs that broke other libraries."""

from __future__ import annotations

import math

import golden_loops
import pytest
import torch
from ascend_sparse_attention.golden import dense
from ascend_sparse_attention.golden.dense import Logits, single_prefill
from hypothesis import given, settings
from hypothesis import strategies as st

INF, NAN = math.inf, math.nan


def qkv(qo: int, kv: int, Hq: int = 4, Hkv: int = 2, Dqk: int = 16, Dvo: int = 16, seed: int = 0) -> tuple:
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(s, generator=g).half() for s in ((qo, Hq, Dqk), (kv, Hkv, Dqk), (kv, Hkv, Dvo)))


def agree(got: tuple, expected: tuple) -> None:
    for a, b in zip(got, expected):
        assert a.dtype == torch.float64
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13, equal_nan=True)


def pack(bits: torch.Tensor) -> torch.Tensor:
    """Eight to a byte, the lowest bit first, by hand."""
    flat = bits.flatten().tolist()
    packed = [sum(bit << n for n, bit in enumerate(flat[i : i + 8])) for i in range(0, len(flat), 8)]
    return torch.tensor(packed, dtype=torch.uint8)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("qo", "kv"), [(5, 9), (4, 4), (1, 7)])
@pytest.mark.parametrize("mode", ["NONE", "ROPE_LLAMA", "ALIBI"])
@pytest.mark.parametrize("cap", [0.0, 3.0])
def test_agrees_with_loops(causal: bool, qo: int, kv: int, mode: str, cap: float) -> None:
    q, k, v = qkv(qo, kv)
    got = single_prefill(q, k, v, causal=causal, logits=Logits(pos_encoding_mode=mode, logits_soft_cap=cap))
    expected = golden_loops.prefill(
        q, k, v, lambda i, j: not causal or j + qo <= kv + i, mode=mode, cap=cap, rope_scale=1.0, rope_theta=1e4
    )
    agree(got, expected)


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 7, 8, 12, 20])
def test_alibi_slopes(heads: int) -> None:
    expected = torch.tensor([golden_loops.slope(h, heads) for h in range(heads)], dtype=torch.float64)
    torch.testing.assert_close(dense.alibi_slopes(heads), expected, rtol=1e-14, atol=0)


def test_rope_scale_and_theta_are_used() -> None:
    q, k, v = qkv(3, 7)
    logits = Logits(pos_encoding_mode="ROPE_LLAMA", rope_scale=4.0, rope_theta=500.0, sm_scale=0.7)
    expected = golden_loops.prefill(
        q, k, v, lambda i, j: True, mode="ROPE_LLAMA", rope_scale=4.0, rope_theta=500.0, sm_scale=0.7
    )
    agree(single_prefill(q, k, v, logits=logits), expected)


def test_rope_depends_on_distance_alone() -> None:
    """Shifting all positions changes nothing: dropping keys that nobody sees shifts q's and k's alike."""
    q, k, v = qkv(3, 9)
    logits = Logits(pos_encoding_mode="ROPE_LLAMA")
    whole = single_prefill(q, k, v, causal=True, window_left=4, logits=logits)
    cut = single_prefill(q, k[2:], v[2:], causal=True, window_left=4, logits=logits)
    torch.testing.assert_close(whole[0], cut[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("window", [0, 1, 3, 100])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_window_left(window: int, causal: bool, masked: bool) -> None:
    qo, kv = 5, 8
    q, k, v = qkv(qo, kv)
    mask = torch.rand(qo, kv, generator=torch.Generator().manual_seed(1)) < 0.6 if masked else None

    def keep(i: int, j: int) -> bool:
        inside = j >= kv - qo + i - window
        return inside and (bool(mask[i, j]) if mask is not None else not causal or j + qo <= kv + i)

    got = single_prefill(q, k, v, custom_mask=mask, causal=causal, window_left=window)
    agree(got, golden_loops.prefill(q, k, v, keep))


def test_a_negative_window_is_none() -> None:
    q, k, v = qkv(4, 6)
    agree(single_prefill(q, k, v, window_left=-1), single_prefill(q, k, v))


def test_head_and_length_first_layouts_agree() -> None:
    q, k, v = qkv(4, 6)
    hnd = single_prefill(q, k.transpose(0, 1).contiguous(), v.transpose(0, 1).contiguous(), kv_layout="HND")
    agree(hnd, single_prefill(q, k, v))
    with pytest.raises(KeyError, match="Invalid kv_layout"):
        single_prefill(q, k, v, kv_layout="NDH")


def test_scales_of_quantized_heads() -> None:
    q, k, v = qkv(3, 5)
    sq, sk, sv = [0.5, 1.5, 2.0, 0.1], [3.0, 0.2], [7.0, -0.3]
    got = single_prefill(
        q, k, v, scale_q=torch.tensor(sq).double(), scale_k=torch.tensor(sk).double(), scale_v=torch.tensor(sv).double()
    )
    expected = golden_loops.prefill(q, k, v, lambda i, j: True, scale_q=sq, scale_k=sk, scale_v=sv)
    torch.testing.assert_close(got[0], expected[0], rtol=1e-6, atol=1e-9)  # the scales are float32 values
    torch.testing.assert_close(got[1], expected[1], rtol=1e-6, atol=1e-6)


# B7
@pytest.mark.parametrize(
    "mask",
    [torch.ones(10, 15).bool(), torch.ones(20, 10).bool(), torch.ones(1, 20).bool(), torch.ones(10, 20).int()],
    ids=["narrow", "transposed", "one-row", "int"],
)
def test_a_mask_of_the_wrong_kind_is_refused(mask: torch.Tensor) -> None:
    q, k, v = qkv(10, 20)
    with pytest.raises(ValueError, match=r"custom_mask: expected bool of shape \(10, 20\), got"):
        single_prefill(q, k, v, custom_mask=mask)


# B8
def test_packed_mask_has_its_lowest_bit_first() -> None:
    q, k, v = qkv(3, 5)
    mask = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 0, 0, 1], [1, 1, 1, 0, 0]]).bool()  # 15 bits
    assert pack(mask).tolist() == [0b01011001, 0b00011110]
    expected = golden_loops.prefill(q, k, v, lambda i, j: bool(mask[i, j]))
    agree(single_prefill(q, k, v, packed_custom_mask=pack(mask)), expected)
    agree(single_prefill(q, k, v, packed_custom_mask=pack(mask), custom_mask=~mask, causal=True), expected)
    with pytest.raises(ValueError, match="packed mask: expected at least 2 bytes, got 1"):
        single_prefill(q, k, v, packed_custom_mask=pack(mask)[:1])
    with pytest.raises(ValueError, match="packed mask: expected a 1D uint8 tensor"):
        single_prefill(q, k, v, packed_custom_mask=mask)


# B9
def test_custom_mask_with_different_head_dims() -> None:
    q, k, v = qkv(37, 54, Hq=4, Hkv=4, Dqk=192, Dvo=128)
    mask = torch.rand(37, 54, generator=torch.Generator().manual_seed(2)) < 0.5
    mask[:, 0] = True
    out, lse = single_prefill(q, k, v, custom_mask=mask)
    x = torch.einsum("ihd,jhd->hij", q.double(), k.double()) / math.sqrt(192)
    x = x.masked_fill(~mask, -INF)
    torch.testing.assert_close(out, torch.einsum("hij,jhd->ihd", x.softmax(-1), v.double()), rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(lse, (x.logsumexp(-1) / math.log(2)).T, rtol=1e-11, atol=1e-13)


# B20
@pytest.mark.parametrize(("qo", "kv"), [(6, 4), (2, 6), (3, 0)])
def test_causal_with_more_queries_than_keys(qo: int, kv: int) -> None:
    q, k, v = qkv(qo, kv)
    out, lse = single_prefill(q, k, v, causal=True)
    agree((out, lse), golden_loops.prefill(q, k, v, lambda i, j: j + qo <= kv + i))
    empty = max(0, qo - kv)
    assert torch.equal(out[:empty], torch.zeros_like(out[:empty])) and bool((lse[:empty] == -INF).all())
    assert bool(lse[empty:].isfinite().all())


# B22
def test_a_custom_mask_replaces_causal() -> None:
    q, k, v = qkv(4, 6)
    mask = torch.ones(4, 6).bool()
    agree(single_prefill(q, k, v, custom_mask=mask, causal=True), single_prefill(q, k, v))


def test_masked_keys_never_touch_the_result() -> None:
    q, k, v = qkv(4, 6)
    mask = torch.ones(4, 6).bool()
    mask[:, 2] = False
    mask[1, 4] = False
    clean = single_prefill(q, k, v, custom_mask=mask)
    for poison in (NAN, INF, -INF):
        kp, vp = k.clone(), v.clone()
        kp[2], vp[2] = poison, poison
        agree(single_prefill(q, kp, vp, custom_mask=mask), clean)
        kp[4], vp[4] = poison, poison
        out, lse = single_prefill(q, kp, vp, custom_mask=mask)
        agree((out[1], lse[1]), (clean[0][1], clean[1][1]))
        assert bool(out[[0, 2, 3]].isnan().any())


def test_genuine_logits_below_any_sentinel_win_over_masked_keys() -> None:
    q, k, v = qkv(2, 3, Hq=1, Hkv=1)
    q, k = q.abs() + 1, -(k.abs() + 1)
    mask = torch.tensor([[True, False, False], [False, True, False]])
    out, lse = single_prefill(q, k, v, custom_mask=mask, logits=Logits(sm_scale=1e5))
    assert torch.equal(out[0, 0], v[0, 0].double()) and torch.equal(out[1, 0], v[1, 0].double())
    assert bool((lse < -5e4).all())


def test_many_rows_are_done_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = qkv(13, 10)
    logits = Logits(pos_encoding_mode="ALIBI", logits_soft_cap=2.0)
    whole = single_prefill(q, k, v, causal=True, logits=logits)
    monkeypatch.setattr(dense, "_SCORES_AT_ONCE", 40)
    agree(single_prefill(q, k, v, causal=True, logits=logits), whole)


def test_bad_heads_and_modes() -> None:
    q, k, v = qkv(2, 3, Hq=4, Hkv=3)
    with pytest.raises(ValueError, match="num_qo_heads: expected a multiple of num_kv_heads = 3, got 4"):
        single_prefill(q, k, v)
    with pytest.raises(KeyError, match="Invalid pos_encoding_mode 'ROPE'"):
        Logits(pos_encoding_mode="ROPE")


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 8), st.sampled_from([(1, 1), (4, 2), (6, 3)]), st.booleans(), st.integers(-1, 8)
)
def test_grouped_heads_equal_repeated_keys(qo: int, kv: int, heads: tuple, causal: bool, window: int) -> None:
    Hq, Hkv = heads
    q, k, v = qkv(qo, kv, Hq, Hkv, seed=qo * 10 + kv)
    wide = (t.repeat_interleave(Hq // Hkv, dim=1) for t in (k, v))
    agree(
        single_prefill(q, k, v, causal=causal, window_left=window),
        single_prefill(q, *wide, causal=causal, window_left=window),
    )


def test_a_large_cap_changes_little_and_a_small_one_flattens() -> None:
    q, k, v = qkv(3, 5)
    plain, _ = single_prefill(q, k, v)
    loose, _ = single_prefill(q, k, v, logits=Logits(logits_soft_cap=1e6))
    flat, _ = single_prefill(q, k, v, logits=Logits(logits_soft_cap=1e-9))
    torch.testing.assert_close(loose, plain, rtol=0, atol=1e-9)
    mean = v.double().mean(0).repeat_interleave(2, 0).expand_as(flat)
    torch.testing.assert_close(flat, mean, rtol=0, atol=1e-8)
