# SPDX-License-Identifier: Apache-2.0
"""Random configurations of the three functions on the CPU backend against the float64 references."""

from __future__ import annotations

import ascend_sparse_attention as flashinfer
import torch
from ascend_sparse_attention.golden import dense
from ascend_sparse_attention.masks import pack_bsr_mask
from flashinfer_compare import assert_matches
from hypothesis import given, settings
from hypothesis import strategies as st

PROFILE = settings.get_profile("flashinfer")

heads = st.sampled_from([(1, 1), (4, 4), (6, 2), (3, 1), (10, 5)])
dtypes = st.sampled_from([torch.float16, torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn])


@st.composite
def logits(draw):
    mode = draw(st.sampled_from(["NONE", "ROPE_LLAMA", "ALIBI"]))
    given_values = {
        "sm_scale": draw(st.sampled_from([None, 0.3, 1.0, -0.5])),
        "logits_soft_cap": draw(st.sampled_from([None, 0.0, 2.0, 30.0])),
        "rope_scale": draw(st.sampled_from([None, 4.0])),
        "rope_theta": draw(st.sampled_from([None, 500.0])),
    }
    return {"pos_encoding_mode": mode, **given_values}


@st.composite
def head_scales(draw, Hq, Hk):
    if not draw(st.booleans()):
        return {}
    g = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return {f"scale_{x}": torch.rand(n, generator=g) + 0.5 for x, n in (("q", Hq), ("k", Hk), ("v", Hk))}


def rand(draw, *shape, dtype):
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(*shape, generator=g).to(dtype)
    if draw(st.booleans()):
        return x
    wide = torch.full((*shape[:-1], shape[-1] + 3), float("nan")).to(dtype)  # strided, last dimension contiguous
    wide[..., : shape[-1]] = x
    return wide[..., : shape[-1]]


@settings(PROFILE)
@given(st.data())
def test_single_prefill(data):
    draw = data.draw
    Hq, Hk = draw(heads)
    qo_len, kv_len = draw(st.integers(0, 70)), draw(st.integers(0, 90))
    Dqk, Dvo = draw(st.sampled_from([(16, 16), (24, 16), (64, 128), (8, 32)]))
    dtype, layout = draw(dtypes), draw(st.sampled_from(["NHD", "HND"]))
    q = rand(draw, qo_len, Hq, Dqk, dtype=dtype)
    lead = (kv_len, Hk) if layout == "NHD" else (Hk, kv_len)
    k, v = rand(draw, *lead, Dqk, dtype=dtype), rand(draw, *lead, Dvo, dtype=dtype)
    shared = {"kv_layout": layout, "causal": draw(st.booleans()), "window_left": draw(st.sampled_from([-1, -1, 0, 9]))}
    form = draw(st.sampled_from(["none", "none", "mask", "packed", "both"]))
    if form != "none":
        mask = torch.rand(qo_len, kv_len, generator=torch.Generator().manual_seed(draw(st.integers(0, 999)))) < 0.4
        if form in ("mask", "both"):
            shared["custom_mask"] = mask
        if form in ("packed", "both"):
            shared["packed_custom_mask"] = flashinfer.packbits(mask.flatten(), bitorder="little")
        if form == "both":
            shared["custom_mask"] = ~mask  # packed wins
    shared |= draw(head_scales(Hq, Hk))
    words = draw(logits())
    out_dtype = torch.float32 if dtype.itemsize == 1 else draw(st.sampled_from([None, torch.float32, torch.bfloat16]))
    got = flashinfer.single_prefill_with_kv_cache(q, k, v, **shared, **words, o_dtype=out_dtype, return_lse=True)
    assert got[0].dtype == (out_dtype or dtype) and got[0].shape == (qo_len, Hq, Dvo)
    assert_matches(got, dense.single_prefill(q, k, v, **shared, logits=dense.Logits(**words)), lse_atol=1e-4)


@settings(PROFILE)
@given(st.data())
def test_block_sparse(data):
    draw = data.draw
    Hq, Hk = draw(heads)
    R, C, M, NB = (draw(st.integers(*ends)) for ends in ((1, 9), (1, 9), (0, 40), (0, 12)))
    N, MB, D = NB * C, -(-M // R), draw(st.sampled_from([8, 64]))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    counts = torch.randint(0, NB + 2, (MB,), generator=g) if NB else torch.zeros(MB, dtype=torch.int64)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    indices = torch.randint(0, max(NB, 1), (int(counts.sum()),), generator=g).int()
    dtype = draw(dtypes)
    q = rand(draw, M, Hq, D, dtype=dtype)
    k, v = rand(draw, N, Hk, D, dtype=dtype), rand(draw, N, Hk, D, dtype=dtype)
    form = draw(st.sampled_from(["none", "mask", "packed", "both"]))
    mask = torch.rand(indices.numel(), R, C, generator=g) < 0.6
    masks = {"mask": mask if form in ("mask", "both") else None}
    if form in ("packed", "both"):
        masks["packed_mask"] = pack_bsr_mask(mask, indptr, R, C)
        masks["mask"] = None if form == "packed" else ~mask
    causal, words, scales = draw(st.booleans()), draw(logits()), draw(head_scales(Hq, Hk))
    out_dtype = draw(st.sampled_from([torch.float16, torch.float32]))
    wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(1))
    wrapper.plan(indptr, indices, M, N, R, C, Hq, Hk, D, **masks, causal=causal, **words, q_data_type=dtype,
                 o_data_type=out_dtype)  # fmt: skip
    got = wrapper.run(q, k, v, **scales, return_lse=True)
    # The reference takes the mask alone, so the packed forms are checked against the plain one.
    want = dense.block_sparse(
        indptr, indices, R, C, q, k, v, mask=None if form == "none" else mask, causal=causal,
        logits=dense.Logits(**words), **scales,
    )  # fmt: skip
    assert got[0].dtype == out_dtype
    assert_matches(got, want, lse_atol=1e-4)


@settings(PROFILE)
@given(st.data())
def test_variable_blocks(data):
    draw = data.draw
    Hq, Hk = draw(heads)
    qo_len, kv_len = draw(st.integers(0, 80)), draw(st.integers(0, 60))
    MB, NB, D = draw(st.integers(1, 7)), draw(st.integers(1, 9)), draw(st.sampled_from([8, 64]))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def partition(length, blocks):
        cuts = torch.randint(0, length + 1, (Hk, blocks - 1), generator=g).sort(dim=1).values
        ends = torch.cat([torch.zeros(Hk, 1), cuts, torch.full((Hk, 1), length)], dim=1)
        return torch.diff(ends, dim=1).int()

    rows, cols = partition(qo_len, MB), partition(kv_len, NB)
    block_map = torch.rand(Hk, MB, NB, generator=g) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    dtype = draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
    q = rand(draw, Hq, qo_len, D, dtype=dtype)
    k, v = rand(draw, Hk, kv_len, D, dtype=dtype), rand(draw, Hk, kv_len, D, dtype=dtype)
    causal, words = draw(st.booleans()), draw(logits())
    wrapper = flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(1))
    wrapper.plan(block_map, rows, cols, Hq, Hk, D, causal=causal, **words, q_data_type=dtype)
    got = wrapper.run(q, k, v, return_lse=True)
    assert got[0].dtype == dtype
    want = dense.variable_block_sparse(block_map, rows, cols, q, k, v, causal=causal, logits=dense.Logits(**words))
    assert_matches(got, want, lse_atol=1e-4)
