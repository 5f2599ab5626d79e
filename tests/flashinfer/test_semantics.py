# SPDX-License-Identifier: Apache-2.0
"""The small print of the FlashInfer-compatible API on the CPU backend, one test each.

Inputs that broke other implementations are in test_reported_inputs.py.
"""

from __future__ import annotations

import math

import ascend_sparse_attention as flashinfer
import pytest
import torch
from ascend_sparse_attention.golden import dense
from flashinfer_compare import assert_matches, randn

NAN = float("nan")


def bsr(indptr, indices, M, N, R, C, Hq=2, Hk=1, D=16, **plan):
    wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(8, dtype=torch.uint8))
    wrapper.plan(torch.as_tensor(indptr).int(), torch.as_tensor(indices).int(), M, N, R, C, Hq, Hk, D, **plan)
    return wrapper


def variable(block_map, rows, cols, Hq=1, Hk=1, D=16, **plan):
    wrapper = flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(8, dtype=torch.uint8))
    wrapper.plan(
        torch.as_tensor(block_map), torch.as_tensor(rows).int(), torch.as_tensor(cols).int(), Hq, Hk, D, **plan
    )
    return wrapper


def qkv(M, N, Hq=2, Hk=1, D=16, Dv=None, seed=0):
    return randn(M, Hq, D, seed=seed), randn(N, Hk, D, seed=seed + 1), randn(N, Hk, Dv or D, seed=seed + 2)


# --- plans -----------------------------------------------------------------------------------------------------------


def test_plan_replaces_everything():
    q, k, v = qkv(4, 4)
    wrapper = bsr([0, 1], [0], 4, 4, 4, 4)
    plain = wrapper.run(q, k, v)
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    wrapper.plan(torch.tensor([0, 1]).int(), torch.tensor([0]).int(), 4, 4, 4, 4, 2, 1, 16, mask=mask, causal=True,
                 sm_scale=9.0, logits_soft_cap=1.0, pos_encoding_mode="ALIBI", o_data_type="float32")  # fmt: skip
    assert not wrapper.run(q, k, v).any()
    wrapper.plan(torch.tensor([0, 1]).int(), torch.tensor([0]).int(), 4, 4, 4, 4, 2, 1, 16)
    assert torch.equal(wrapper.run(q, k, v), plain)


def test_nothing_planned_anywhere():
    q, k, v = qkv(4, 4)
    out, lse = bsr([0, 0, 0], [], 4, 4, 2, 2).run(q, torch.full_like(k, NAN), torch.full_like(v, NAN), return_lse=True)
    assert torch.equal(out, torch.zeros_like(q)) and torch.equal(lse, torch.full((4, 2), -math.inf))
    out, lse = bsr([0, 0, 0], [], 4, 0, 2, 2).run(q, k[:0], v[:0], return_lse=True)
    assert not out.any() and (lse == -math.inf).all()
    assert bsr([0], [], 0, 4, 2, 2).run(q[:0], k, v).shape == (0, 2, 16)


# --- masks -----------------------------------------------------------------------------------------------------------


def test_packed_block_mask_is_padded_to_bytes_a_block_row():
    # Rows of 3 x 1 and 3 x 2 columns: 6 and 12 bits, so the second segment starts at byte 1, not at bit 6.
    q, k, v = qkv(4, 6)
    mask = torch.rand(3, 2, 3, generator=torch.Generator().manual_seed(3)) < 0.5
    first, second = mask[0].flatten(), torch.cat([mask[1], mask[2]], dim=1).flatten()
    packed = torch.cat([flashinfer.packbits(first, "little"), flashinfer.packbits(second, "little")])
    flat, ends = torch.cat([first, second]), torch.tensor([0, 6, 18])
    assert torch.equal(flashinfer.segment_packbits(flat, ends, "little")[0], packed)
    want = bsr([0, 1, 3], [1, 1, 0], 4, 6, 2, 3, mask=mask).run(q, k, v)
    assert torch.equal(bsr([0, 1, 3], [1, 1, 0], 4, 6, 2, 3, packed_mask=packed).run(q, k, v), want)
    both = bsr([0, 1, 3], [1, 1, 0], 4, 6, 2, 3, mask=~mask, packed_mask=packed, causal=True)
    assert torch.equal(both.run(q, k, v), want)  # packed wins
    # A partial last row: its own rows only, or all R of them.
    q5 = randn(3, 2, 16)
    for bits in (second[:6], second):
        short = torch.cat([flashinfer.packbits(first, "little"), flashinfer.packbits(bits, "little")])
        got = bsr([0, 1, 3], [1, 1, 0], 3, 6, 2, 3, packed_mask=short).run(q5, k, v, return_lse=True)
        assert_matches(
            got, dense.block_sparse(torch.tensor([0, 1, 3]), torch.tensor([1, 1, 0]), 2, 3, q5, k, v, mask=mask)
        )
    with pytest.raises(ValueError, match=r"Invalid shape of packed_mask: expected \(3,\), got \(2,\)"):
        bsr([0, 1, 3], [1, 1, 0], 4, 6, 2, 3, packed_mask=packed[:2])


def test_masked_keys_never_touch_a_row():
    q, k, v = qkv(4, 6)
    poisoned_k, poisoned_v = k.clone(), v.clone()
    poisoned_k[4:], poisoned_v[4:] = NAN, math.inf
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[:, 4:] = False
    mask[3, 5] = True  # and this one does
    out = flashinfer.single_prefill_with_kv_cache(q, poisoned_k, poisoned_v, custom_mask=mask)
    want = flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask)
    assert torch.equal(out[:3], want[:3]) and out[3].isnan().all()
    wrapper = bsr([0, 2, 3], [0, 1, 0], 4, 6, 2, 2)  # block column 2 is in no row
    assert torch.equal(wrapper.run(q, poisoned_k, poisoned_v), wrapper.run(q, k, v))


def test_real_logits_far_below_any_sentinel():
    q, k = torch.full((1, 1, 16), 100.0), torch.full((3, 1, 16), -100.0)
    v = torch.eye(3, 16).view(3, 1, 16)
    mask = torch.tensor([[True, False, True]])
    out, lse = flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask, sm_scale=1.0, return_lse=True)
    assert out[0, 0, :3].tolist() == [0.5, 0.0, 0.5]
    assert lse.item() == pytest.approx(-160000 / math.log(2) + 1, rel=1e-6)


def test_a_repeated_column_counts_twice():
    q, k, v = qkv(1, 2)
    got = bsr([0, 3], [1, 0, 1], 1, 2, 1, 1).run(q, k, v, return_lse=True)
    twice = torch.tensor([1, 0, 1])
    assert_matches(got, dense.single_prefill(q, k[twice], v[twice]))


# --- variable blocks -------------------------------------------------------------------------------------------------


def test_variable_map_of_ints_is_a_bool_map():
    q, k, v = randn(1, 3, 16), randn(1, 3, 16, seed=1), randn(1, 3, 16, seed=2)
    ones, sizes = torch.tensor([[[1, 0], [0, 1]]]), [[1, 2]]
    assert torch.equal(variable(ones, sizes, sizes).run(q, k, v), variable(ones.bool(), sizes, sizes).run(q, k, v))


# --- runs ------------------------------------------------------------------------------------------------------------


def test_forward_replaces_planned_values_for_one_call():
    q, k, v = qkv(4, 4)
    wrapper = bsr([0, 1, 2], [0, 1], 4, 4, 2, 2)
    planned = wrapper.run(q, k, v)
    assert torch.equal(
        wrapper.forward(q, k, v, sm_scale=3.0), bsr([0, 1, 2], [0, 1], 4, 4, 2, 2, sm_scale=3.0).run(q, k, v)
    )
    assert torch.equal(wrapper.run(q, k, v), planned)
    with pytest.raises(ValueError, match="pos_encoding_mode: expected NONE as plan"):
        wrapper.forward(q, k, v, pos_encoding_mode="ALIBI")


def test_output_dtypes():
    q, k, v = (x.bfloat16() for x in qkv(4, 4))
    plan = ([0, 1, 2], [0, 1], 4, 4, 2, 2)
    assert bsr(*plan, q_data_type="bfloat16").run(q, k, v).dtype == torch.float16  # whatever q's
    assert bsr(*plan, q_data_type=torch.bfloat16, o_data_type="float32").run(q, k, v).dtype == torch.float32
    run = flashinfer.single_prefill_with_kv_cache
    assert run(q, k, v).dtype == torch.bfloat16 and run(q, k, v, o_dtype=torch.float32).dtype == torch.float32
    wrapper = variable([[[True]]], [[4]], [[4]], Hq=2, q_data_type=torch.bfloat16)
    assert wrapper.run(*(x.transpose(0, 1) for x in (q, k, v))).dtype == torch.bfloat16


def test_backend_names():
    q, k, v = qkv(3, 5)
    run = flashinfer.single_prefill_with_kv_cache
    for name in ("auto", "fa2", "fa3", "cpu"):
        assert torch.equal(run(q, k, v, backend=name), run(q, k, v))
        flashinfer.BlockSparseAttentionWrapper(torch.empty(1), name)
        flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(1), backend=name)
    for call in (
        lambda name: run(q, k, v, backend=name),
        lambda name: flashinfer.BlockSparseAttentionWrapper(torch.empty(1), name),
        lambda name: flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(1), name),
    ):
        with pytest.raises(ValueError, match="backend: expected one of auto, fa2, fa3, cpu, cuda, npu, got 'trtllm'"):
            call("trtllm")
    with pytest.raises(NotImplementedError, match="backend npu has no single prefill yet"):
        run(q, k, v, backend="npu")


def test_reset_workspace_buffer():
    q, k, v = qkv(4, 4)
    wrapper = bsr([0, 1, 2], [0, 1], 4, 4, 2, 2)
    want = wrapper.run(q, k, v)
    wrapper.reset_workspace_buffer(torch.empty(4), torch.empty(4, dtype=torch.uint8))
    assert torch.equal(wrapper.run(q, k, v), want)
    wrapper.end_forward()
    with pytest.raises(ValueError, match="Invalid device of int_workspace_buffer: expected cpu, got meta"):
        wrapper.reset_workspace_buffer(torch.empty(4), torch.empty(4, device="meta"))


def test_long_streams_cross_steps():
    # More keys than one step and more rows than one tile, so that the running softmax must rescale.
    q, k, v = qkv(150, 1300, 3, 1)
    k[1200:] *= 8  # the largest logits come last
    got = flashinfer.single_prefill_with_kv_cache(q, k, v, causal=True, window_left=1100, return_lse=True)
    assert_matches(got, dense.single_prefill(q, k, v, causal=True, window_left=1100), lse_atol=1e-4)
    indptr, indices = torch.tensor([0, 13, 26]), torch.arange(13).repeat(2)
    got = bsr(indptr, indices, 150, 1300, 75, 100, 3, causal=True).run(q, k, v, return_lse=True)
    assert_matches(got, dense.block_sparse(indptr, indices, 75, 100, q, k, v, causal=True), lse_atol=1e-4)
