# SPDX-License-Identifier: Apache-2.0
"""Inputs that broke other implementations of this API, and the small print: one test each, with the right answer."""

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


def test_more_block_rows_than_a_fixed_buffer():
    # 48 heads x 768 block rows is beyond a table of 32768.
    Hk, blocks, D = 48, 768, 8
    sizes = torch.ones(Hk, blocks, dtype=torch.int32)
    block_map = torch.rand(Hk, blocks, blocks, generator=torch.Generator().manual_seed(0)) < 0.01
    wrapper = variable(block_map, sizes, sizes, Hk, Hk, D)
    q, k, v = (randn(Hk, blocks, D, seed=i) for i in range(3))
    out, lse = wrapper.run(q, k, v, return_lse=True)
    for head in (0, 47):
        one = slice(head, head + 1)
        want = dense.single_prefill(*(x[one].transpose(0, 1) for x in (q, k, v)), custom_mask=block_map[head])
        assert_matches((out[one].transpose(0, 1), lse[one].transpose(0, 1)), want)


def test_many_block_rows_of_one():
    Hk, rows = 3, 16385
    block_map = torch.rand(Hk, rows, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    wrapper = variable(block_map, torch.ones(Hk, rows), torch.tensor([[1, 2, 3]] * Hk), Hk, Hk, 8)
    q, k, v = randn(Hk, rows, 8), randn(Hk, 6, 8, seed=1), randn(Hk, 6, 8, seed=2)
    out = wrapper.run(q, k, v)
    mask = torch.repeat_interleave(block_map[2], torch.tensor([1, 2, 3]), dim=1)
    want, _ = dense.single_prefill(*(x[2:].transpose(0, 1) for x in (q, k, v)), custom_mask=mask)
    torch.testing.assert_close(out[2].double(), want[:, 0], rtol=1e-3, atol=2e-5)


def test_second_plan_leaves_the_first_wrapper_alone():
    workspace = torch.empty(8, dtype=torch.uint8)
    indices = torch.tensor([0, 1], dtype=torch.int32)
    first, second = (flashinfer.BlockSparseAttentionWrapper(workspace) for _ in range(2))
    first.plan(torch.tensor([0, 1, 2]).int(), indices, 2, 2, 1, 1, 2, 1, 16)
    q, k, v = qkv(2, 2)
    want = first.run(q, k, v)
    indices.fill_(0)  # the caller's buffer is the caller's
    second.plan(torch.tensor([0, 1, 2]).int(), indices, 2, 2, 1, 1, 2, 1, 16)
    workspace.fill_(255)
    second.run(q, k, v)
    assert torch.equal(first.run(q, k, v), want)


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


def test_last_block_row_may_be_partial():
    q, k, v = qkv(5, 4)
    got = bsr([0, 1, 1, 3], [1, 1, 0], 5, 4, 2, 2).run(q, k, v, return_lse=True)
    want = dense.block_sparse(torch.tensor([0, 1, 1, 3]), torch.tensor([1, 1, 0]), 2, 2, q, k, v)
    assert_matches(got, want)
    with pytest.raises(ValueError, match="N: expected a multiple of C = 2, got 5"):
        bsr([0, 1, 1, 3], [1, 1, 0], 5, 5, 2, 2)


def test_nothing_planned_anywhere():
    q, k, v = qkv(4, 4)
    out, lse = bsr([0, 0, 0], [], 4, 4, 2, 2).run(q, torch.full_like(k, NAN), torch.full_like(v, NAN), return_lse=True)
    assert torch.equal(out, torch.zeros_like(q)) and torch.equal(lse, torch.full((4, 2), -math.inf))
    out, lse = bsr([0, 0, 0], [], 4, 0, 2, 2).run(q, k[:0], v[:0], return_lse=True)
    assert not out.any() and (lse == -math.inf).all()
    assert bsr([0], [], 0, 4, 2, 2).run(q[:0], k, v).shape == (0, 2, 16)


# --- masks -----------------------------------------------------------------------------------------------------------


def test_block_masks_and_unsorted_columns():
    q, k, v = qkv(2, 9)
    mask = torch.tensor([[[1, 0, 0], [1, 1, 0]], [[0, 0, 1], [0, 1, 0]]], dtype=torch.bool)  # blocks 2 and 0
    scattered = torch.zeros(2, 9, dtype=torch.bool)
    scattered[:, 6:9], scattered[:, 0:3] = mask[0], mask[1]
    want = dense.single_prefill(q, k, v, custom_mask=scattered)
    assert_matches(bsr([0, 2], [2, 0], 2, 9, 2, 3, mask=mask).run(q, k, v, return_lse=True), want)
    assert_matches(bsr([0, 2], [0, 2], 2, 9, 2, 3, mask=mask.flip(0)).run(q, k, v, return_lse=True), want)


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


def test_packed_prefill_mask_of_odd_size():
    q, k, v = qkv(3, 5)
    mask = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 1], [1, 1, 1, 0, 1]], dtype=torch.bool)
    packed = flashinfer.packbits(mask.flatten(), bitorder="little")
    run = flashinfer.single_prefill_with_kv_cache
    want = run(q, k, v, custom_mask=mask)
    assert torch.equal(run(q, k, v, packed_custom_mask=packed), want)
    assert torch.equal(run(q, k, v, custom_mask=~mask, packed_custom_mask=packed, causal=True), want)
    assert_matches(run(q, k, v, custom_mask=mask, return_lse=True), dense.single_prefill(q, k, v, custom_mask=mask))


@pytest.mark.parametrize("mask", [torch.ones(10, 15), torch.ones(20, 10), torch.ones(1, 20), torch.ones(200)])
def test_custom_mask_of_the_wrong_shape(mask):
    q, k, v = qkv(10, 20)
    with pytest.raises(ValueError, match=r"custom_mask: expected \(qo_len, kv_len\) = \(10, 20\) .* got \(") as error:
        flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask.bool())
    assert str(tuple(mask.shape)) in str(error.value)


def test_custom_mask_of_ints():
    q, k, v = qkv(10, 20)
    with pytest.raises(ValueError, match=r"torch\.int32"):
        flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=torch.ones(10, 20, dtype=torch.int32))


def test_custom_mask_wins_over_causal():
    q, k, v = qkv(6, 6)
    mask = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    run = flashinfer.single_prefill_with_kv_cache
    assert torch.equal(run(q, k, v, causal=True, custom_mask=mask), run(q, k, v, custom_mask=mask))


def test_mask_with_other_value_head_dim():
    q, k, v = qkv(37, 54, 4, 4, 192, 128)
    mask = torch.rand(37, 54, generator=torch.Generator().manual_seed(0)) < 0.5
    got = flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask, return_lse=True)
    assert_matches(got, dense.single_prefill(q, k, v, custom_mask=mask))


@pytest.mark.parametrize(("qo_len", "kv_len"), [(6, 4), (2, 6)])
def test_causal_is_bottom_right(qo_len, kv_len):
    q, k, v = qkv(qo_len, kv_len)
    out, lse = flashinfer.single_prefill_with_kv_cache_return_lse(q, k, v, causal=True)
    mask = torch.ones(qo_len, kv_len).tril(kv_len - qo_len).bool()
    assert_matches((out, lse), dense.single_prefill(q, k, v, custom_mask=mask))
    blind = max(0, qo_len - kv_len)
    assert not out[:blind].any() and (lse[:blind] == -math.inf).all() and (lse[blind:] > -math.inf).all()


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


def test_variable_map_all_false():
    q, k, v = randn(1, 1, 16), randn(1, 5, 16), randn(1, 5, 16)
    out, lse = variable([[[False]]], [[1]], [[5]]).run(q, k, v, return_lse=True)
    assert out.shape == (1, 1, 16) and not out.any() and lse.tolist() == [[-math.inf]]


def test_variable_blocks_of_size_zero():
    block_map = torch.tensor([[[1, 1, 0], [1, 0, 1], [0, 1, 1]]]).bool()
    rows, cols = torch.tensor([[2, 0, 3]]), torch.tensor([[0, 4, 3]])
    q, k, v = randn(2, 5, 16), randn(1, 7, 16, seed=1), randn(1, 7, 16, seed=2)
    got = variable(block_map, rows, cols, Hq=2).run(q, k, v, return_lse=True)
    assert_matches(got, dense.variable_block_sparse(block_map, rows, cols, q, k, v))


def test_variable_map_of_ints_is_a_bool_map():
    q, k, v = randn(1, 3, 16), randn(1, 3, 16, seed=1), randn(1, 3, 16, seed=2)
    ones, sizes = torch.tensor([[[1, 0], [0, 1]]]), [[1, 2]]
    assert torch.equal(variable(ones, sizes, sizes).run(q, k, v), variable(ones.bool(), sizes, sizes).run(q, k, v))


# --- runs ------------------------------------------------------------------------------------------------------------


def test_documented_positional_order():
    q, k, v = qkv(4, 4)
    wrapper = bsr([0, 1, 2], [0, 1], 4, 4, 2, 2)
    out, lse = torch.empty(4, 2, 16, dtype=torch.float16), torch.empty(4, 2)
    got = wrapper.run(q, k, v, None, None, None, out, lse, True)
    assert got[0] is out and got[1] is lse
    want = wrapper.run_return_lse(q, k, v)
    assert torch.equal(out, want[0]) and torch.equal(lse, want[1])
    assert torch.equal(wrapper.forward(q, k, v), out)
    assert wrapper.run(q, k, v, out=out) is out

    wrapper = variable([[[True]]], [[4]], [[4]], Hq=2)
    heads_first = [x.transpose(0, 1) for x in (q, k, v)]
    out, lse = torch.empty(2, 4, 16, dtype=torch.float16), torch.empty(2, 4)
    got = wrapper.run(*heads_first, out, lse, True)
    assert got[0] is out and got[1] is lse
    want = wrapper.run_return_lse(*heads_first)
    assert torch.equal(out, want[0]) and torch.equal(lse, want[1])


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
