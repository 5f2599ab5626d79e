# SPDX-License-Identifier: Apache-2.0
"""sparse_flash_attention on a CPU against a float64 reference that reads selected rows only."""

from __future__ import annotations

import math

import ascend_sparse_attention as asa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sfa_inputs import assert_close, make_inputs, reference


def check(args, scale, layout="BSND", is_causal=False):
    out, lse = asa.sparse_flash_attention(*args, scale, layout, is_causal, return_lse=True)
    expected, expected_lse = reference(*args, scale, layout, is_causal)
    assert out.is_contiguous() and out.dtype == args[0].dtype and lse.dtype == torch.float32
    assert_close(out, expected, args[0].dtype)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-4)
    return out, lse


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("prefix", [False, True])
def test_matches_reference(layout, dtype, is_causal, prefix):
    args = make_inputs(B=2, S1=5, S2=70, N1=6, N2=3, Dk=128, Dv=64, topK=33, layout=layout, dtype=dtype, prefix=prefix)
    check(args, 0.1, layout, is_causal)


@given(
    B=st.integers(1, 2),
    S1=st.integers(1, 9),
    N2=st.integers(1, 3),
    G=st.sampled_from([1, 2, 5, 12]),
    Dv=st.sampled_from([64, 128]),
    extra=st.sampled_from([0, 64]),
    S2=st.integers(9, 60),
    data=st.data(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_random_shapes(B, S1, N2, G, Dv, extra, S2, data, seed):
    layout = data.draw(st.sampled_from(["BSND", "BNSD"]))
    args = list(
        make_inputs(
            B, S1, S2, N2 * G, N2, Dv + extra, Dv, data.draw(st.integers(1, S2)), layout, seed=seed,
            prefix=data.draw(st.booleans()),
        )
    )  # fmt: skip
    g = torch.Generator().manual_seed(seed)
    # Some slots point outside, some repeat.
    args[3] = torch.where(torch.rand(args[3].shape, generator=g) < 0.2, torch.randint(-3, S2 + 3, args[3].shape, generator=g).int(), args[3])  # fmt: skip  # noqa: E501
    check(args, 0.3, layout, data.draw(st.booleans()))


@pytest.mark.parametrize("S1,S2", [(5, 9), (1, 9), (9, 9)])
def test_causal_is_bottom_right(S1, S2, layout):
    """A1: row s1 sees keys 0 .. s1 + S2 - S1, whatever the order of the indices."""
    args = make_inputs(S1=S1, S2=S2, topK=S2, layout=layout)
    check(args, 0.125, layout, is_causal=True)


def test_rows_with_nothing_left_are_zero():
    """A5: both slots of row 0 lie beyond the causal limit."""
    q, k, v, _ = make_inputs(S1=2, S2=4, N1=2, N2=1)
    idx = torch.tensor([[3, 3], [3, 0]], dtype=torch.int32).view(1, 2, 1, 2)
    out, lse = check((q, k, v, idx), 0.125, is_causal=True)
    assert torch.equal(out[0, 0], torch.zeros_like(out[0, 0]))
    assert bool((lse[0, 0] == -math.inf).all())
    assert bool(torch.isfinite(lse[0, 1]).all())


def test_masked_slot_is_not_key_zero():
    """A7: -1 must not turn into index 0."""
    q, k, v, _ = make_inputs(S1=1, S2=8, N1=1, N2=1)
    k = k.clone()
    k[0, 0, 0] = q[0, 0, 0] * 8
    idx = torch.tensor([5, -1, -1, -1], dtype=torch.int32).view(1, 1, 1, 4)
    out = asa.sparse_flash_attention(q, k, v, idx, 1.0)
    assert torch.equal(out[0, 0, 0], v[0, 5, 0])


@pytest.mark.parametrize("junk", [-1, 8, 2**31 - 1, -(2**31)])
def test_index_outside_anywhere_is_masked(junk):
    q, k, v, _ = make_inputs(S1=1, S2=8, N1=2, N2=1)
    idx = torch.tensor([junk, 5, junk, 2], dtype=torch.int32).view(1, 1, 1, 4)
    check((q, k, v, idx), 0.2)


@pytest.mark.parametrize("S1", [1, 3, 17, 65])
@pytest.mark.parametrize("topK", [1, 7, 63, 65, 129])
def test_odd_tails(S1, topK):
    """A10."""
    for S2 in {topK, topK + 1, 513}:
        args = make_inputs(S1=S1, S2=S2, N1=2, N2=1, topK=topK, seed=S1 + topK)
        out, lse = asa.sparse_flash_attention(*args, 0.125, is_causal=S1 <= S2, return_lse=True)
        expected, expected_lse = reference(*args, 0.125, is_causal=S1 <= S2)
        assert_close(out, expected, out.dtype)
        torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-4)


def test_longest_topk():
    check(make_inputs(S1=2, S2=2100, N1=2, N2=1, topK=2048), 0.125)


@pytest.mark.parametrize("N1,N2", [(32, 8), (40, 8), (24, 2), (7, 1), (1, 1), (48, 1), (8, 8)])
def test_any_group(N1, N2, layout):
    """A11, A12: G need not be a power of two."""
    check(make_inputs(N1=N1, N2=N2, layout=layout), 0.125, layout)


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0, -0.7, 0.0, 1])
def test_scale_is_used_as_given(scale):
    """A27."""
    check(make_inputs(Dk=192, Dv=128), scale)


def test_repeated_index_counts_as_often_as_it_stands():
    q, k, v, _ = make_inputs(S1=1, S2=8, N1=1, N2=1)
    idx = torch.tensor([3, 3, 3, 6], dtype=torch.int32).view(1, 1, 1, 4)
    out, _ = check((q, k, v, idx), 1.0)
    once = asa.sparse_flash_attention(q, k, v, idx[..., 2:].contiguous(), 1.0)
    assert not torch.equal(out, once)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("prefix", [False, True])
def test_unselected_and_masked_keys_never_touch_the_result(poison, prefix):
    q, k, v, _ = make_inputs(S1=2, S2=8, prefix=prefix, N1=2, N2=1)
    idx = torch.tensor([[1, 2, -1, 6], [2, 3, 9, 1]], dtype=torch.int32).view(1, 2, 1, 4)
    clean = asa.sparse_flash_attention(q, k, v, idx, 0.5, is_causal=True)
    k, v = k.clone(), v.clone()
    for row in (0, 4, 5, 7):  # never selected; 0 is where a masked slot might be sent
        k[:, row], v[:, row] = poison, poison
    dirty = asa.sparse_flash_attention(q, k, k[..., :64] if prefix else v, idx, 0.5, is_causal=False)
    k[:, 6], v[:, 6] = poison, poison
    # Row 0's limit is 6, so shift it out of reach by a longer query: S1 = 3 makes its limit 5.
    q3 = torch.cat([q, q[:, :1]], 1)
    idx3 = torch.cat([idx, idx[:, 1:]], 1)
    causal = asa.sparse_flash_attention(q3, k, k[..., :64] if prefix else v, idx3, 0.5, is_causal=True)
    assert torch.equal(dirty, clean)
    assert bool(torch.isfinite(causal).all())


def test_nan_in_query_or_selected_key_reaches_its_row_only():
    q, k, v, idx = make_inputs(S1=3, S2=20, N1=2, N2=1, topK=4)
    clean = asa.sparse_flash_attention(q, k, v, idx, 0.5)
    q2 = q.clone()
    q2[0, 1, 0, 5] = math.nan
    out = asa.sparse_flash_attention(q2, k, v, idx, 0.5)
    assert bool(out[0, 1, 0].isnan().all())
    rest = torch.ones(1, 3, 2, dtype=torch.bool)
    rest[0, 1, 0] = False
    assert torch.equal(out[rest], clean[rest])
    k2 = k.clone()
    k2[0, int(idx[0, 2, 0, 1])] = math.nan
    out = asa.sparse_flash_attention(q, k2, k2, idx, 0.5)
    hit = (idx[0, :, 0] == idx[0, 2, 0, 1]).any(-1)
    assert bool(out[0, hit].isnan().all())
    assert torch.equal(out[0, ~hit], clean[0, ~hit])


def test_very_negative_scores_beat_masked_ones():
    q, k, v, _ = make_inputs(S1=1, S2=8, N1=1, N2=1)
    q, k = q.clone(), k.clone()
    q.fill_(100)
    k.fill_(-20)
    idx = torch.tensor([1, -1, 2, 99], dtype=torch.int32).view(1, 1, 1, 4)
    out = asa.sparse_flash_attention(q, k, v, idx, 1.0)  # scores of -128000
    torch.testing.assert_close(out[0, 0, 0], ((v[0, 1, 0].float() + v[0, 2, 0].float()) / 2).half())


def test_layouts_agree_and_scale_reaches_the_softmax():
    """A25: peaked scores, so that a uniform softmax would show."""
    args = make_inputs(S1=4, S2=30, N1=4, N2=2, topK=9)
    bsnd = asa.sparse_flash_attention(*args, 20.0)
    bnsd = asa.sparse_flash_attention(*(t.transpose(1, 2).contiguous() for t in args), 20.0, "BNSD")
    assert torch.equal(bsnd, bnsd.transpose(1, 2))
    _, _, v, idx = args
    mean = torch.stack([v[0, idx[0, s, 0].long(), 0].float().mean(0) for s in range(4)])
    assert (bsnd[0, :, 0].float() - mean).abs().max() > 0.1


@pytest.mark.parametrize("which", ["query", "key", "value", "sparseIndices"])
def test_strided_inputs(which, layout):
    args = list(make_inputs(B=2, S1=4, S2=30, N1=4, N2=2, Dk=128, Dv=64, layout=layout, prefix=False))
    expected = asa.sparse_flash_attention(*args, 0.2, layout)
    i = ["query", "key", "value", "sparseIndices"].index(which)
    wide = torch.full((args[i].shape[0], args[i].shape[1] * 2, args[i].shape[2] + 3, args[i].shape[3] + 64), 7).to(args[i].dtype)  # fmt: skip  # noqa: E501
    view = wide[:, ::2, 2:-1, : args[i].shape[3]]
    view.copy_(args[i])
    args[i] = view
    assert not view.is_contiguous()
    assert torch.equal(asa.sparse_flash_attention(*args, 0.2, layout), expected)


def test_value_unrelated_to_key_is_honoured():
    q, k, v, idx = make_inputs(prefix=False)
    same = asa.sparse_flash_attention(q, k, k[..., :64], idx, 0.2)
    other = asa.sparse_flash_attention(q, k, v, idx, 0.2)
    assert not torch.equal(same, other)
    # Equal strides and start are not enough when the storage is another.
    assert torch.equal(asa.sparse_flash_attention(q, k, k.clone(), idx, 0.2), same)


@pytest.mark.parametrize("dim", ["B", "S1"])
def test_empty_calls_return_empty(dim, layout):
    """A14."""
    args = make_inputs(**{dim: 0}, layout=layout)
    out, lse = asa.sparse_flash_attention(*args, 0.1, layout, return_lse=True)
    assert out.numel() == 0 and lse.numel() == 0
    sizes = {"B": 1, "S1": 3, dim: 0}
    assert out.shape == ((sizes["B"], sizes["S1"], 4, 64) if layout == "BSND" else (sizes["B"], 4, sizes["S1"], 64))


def test_sizes_beyond_the_npu_table():
    """B21, A12: the CPU takes what the NPU's table does not."""
    check(make_inputs(S1=1, S2=600, N1=300, N2=1, topK=5), 0.1)
    args = make_inputs(S1=70000, S2=256, N1=1, N2=1, topK=2)
    assert asa.sparse_flash_attention(*args, 0.1).shape == (1, 70000, 1, 64)


def test_description_example_runs_verbatim_but_for_device_and_size():
    from ascend_sparse_attention import sparse_flash_attention

    B, S1, S2, N1, N2, Dk, Dv, topK = 2, 8, 1024, 32, 8, 128, 128, 512
    query = torch.randn(B, S1, N1, Dk, dtype=torch.float16)
    key = torch.randn(B, S2, N2, Dk, dtype=torch.float16)
    value = torch.randn(B, S2, N2, Dv, dtype=torch.float16)
    sparseIndices = torch.stack([
        torch.randperm(S2)[:topK]
        for _ in range(B * N2 * S1)
    ]).reshape(B, S1, N2, topK).to(dtype=torch.int32)  # fmt: skip
    y = sparse_flash_attention(query, key, value, sparseIndices,
                               scaleValue=1.0 / (Dk ** 0.5), inputLayout="BSND", is_causal=False)  # fmt: skip
    assert y.shape == (B, S1, N1, Dv)
