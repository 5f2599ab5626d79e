# SPDX-License-Identifier: Apache-2.0
"""What is refused, with which error and in which words."""

from __future__ import annotations

import ascend_sparse_attention as flashinfer
import pytest
import torch


def tensors(**change):
    given = {"q": torch.zeros(4, 2, 16).half(), "k": torch.zeros(6, 1, 16).half(), "v": torch.zeros(6, 1, 16).half()}
    return given | change


HALF = torch.float16


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(kv_layout="NDH"), KeyError, "Invalid kv_layout 'NDH'"),
        (dict(pos_encoding_mode="ROPE"), KeyError, "Invalid pos_encoding_mode 'ROPE'"),
        (dict(q=[1]), TypeError, "q: expected a Tensor, got list"),
        (dict(q=torch.zeros(4, 32).half()), ValueError, r"Invalid shape of q: .* got \(4, 32\)"),
        (dict(q=torch.zeros(4, 3, 16).half(), k=torch.zeros(6, 2, 16).half(), v=torch.zeros(6, 2, 16).half()),
         ValueError, "num_qo_heads: expected a multiple of num_kv_heads = 2, got num_qo_heads = 3"),
        (dict(k=torch.zeros(6, 1, 8).half()), ValueError, r"k: expected head_dim_qk = 16 \(q's\), got 8"),
        (dict(v=torch.zeros(5, 1, 16).half()), ValueError, "Invalid shape of v"),
        (dict(v=torch.zeros(6, 1, 16)), ValueError, "v: expected dtype torch.float16"),
        (dict(q=torch.zeros(4, 2, 16).bfloat16()), ValueError, "k: expected q's dtype torch.bfloat16"),
        (dict(q=torch.zeros(4, 2, 16).double()), ValueError, "q.dtype: expected one of .* got torch.float64"),
        (dict(k=torch.zeros(6, 1, 32).half()[..., ::2]), ValueError, "k: expected stride 1 .* got 2"),
        (dict(k=torch.zeros(6, 1, 16, device="meta").half()), ValueError, "Invalid device of k: expected cpu"),
        (dict(o_dtype=3), TypeError, "o_dtype: expected a str or a torch.dtype, got int"),
        (dict(o_dtype="float17"), ValueError, "o_dtype: expected the name of a torch dtype, got 'float17'"),
        (dict(sm_scale="1"), TypeError, "sm_scale: expected a finite number or None, got str"),
        (dict(sm_scale=float("nan")), ValueError, "sm_scale: expected a finite number, got nan"),
        (dict(rope_theta=0.0), ValueError, "rope_theta: expected a number above 0, got 0.0"),
        (dict(window_left=1.5), TypeError, "window_left: expected an int, got float"),
        (dict(causal=1), TypeError, "causal: expected a bool, got int"),
        (dict(scale_q=torch.ones(1)), ValueError, r"Invalid shape of scale_q: expected \(2,\), got \(1,\)"),
        (dict(scale_v=torch.ones(1).half()), ValueError, "Invalid dtype of scale_v"),
        (dict(packed_custom_mask=torch.zeros(2, dtype=torch.uint8)), ValueError,
         r"Invalid shape of packed_custom_mask: expected \(3,\), got \(2,\)"),
        (dict(packed_custom_mask=torch.zeros(3)), ValueError, "Invalid dtype of packed_custom_mask"),
    ],
)  # fmt: skip
def test_single_prefill(change, error, words):
    with pytest.raises(error, match=words):
        flashinfer.single_prefill_with_kv_cache(**tensors(**change))


def test_rope_needs_an_even_head_dim():
    odd = tensors(q=torch.zeros(4, 2, 15).half(), k=torch.zeros(6, 1, 15).half())
    with pytest.raises(ValueError, match="head_dim: expected an even number with ROPE_LLAMA, got 15"):
        flashinfer.single_prefill_with_kv_cache(**odd, pos_encoding_mode="ROPE_LLAMA")


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def bsr_plan(**change):
    sizes = {"M": 4, "N": 6, "R": 2, "C": 3, "num_qo_heads": 2, "num_kv_heads": 1, "head_dim": 16}
    wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(8))
    wrapper.plan(**({"indptr": int32(0, 1, 3), "indices": int32(1, 0, 1)} | sizes | change))
    return wrapper


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(indices=int32(1, 0, 2)), ValueError,
         r"indices: expected values in \[0, N / C = 2\), got 2 at position 2$"),
        (dict(indices=int32(1, -1, 0)), ValueError, "got -1 at position 1"),
        (dict(indptr=int32(0, 2, 1)), ValueError, "indptr: expected ascending values, got 1 at position 2 after 2"),
        (dict(indptr=int32(1, 2, 3)), ValueError, "indptr: expected 0 at position 0, got 1"),
        (dict(indptr=int32(0, 1, 2)), ValueError, "indptr: expected its last value to be nnz = 3"),
        (dict(indptr=int32(0, 1, 2, 3)), ValueError, r"Invalid shape of indptr: expected \(3,\).* got \(4,\)"),
        (dict(indptr=int32(0, 1, 3).long()), ValueError, "Invalid dtype of indptr: expected torch.int32"),
        (dict(indices=int32(1, 0, 1).view(1, 3)), ValueError, "Invalid shape of indices"),
        (dict(N=7), ValueError, "N: expected a multiple of C = 3, got 7"),
        (dict(num_qo_heads=3, num_kv_heads=2), ValueError, "num_qo_heads: expected a multiple of num_kv_heads = 2"),
        (dict(R=0), ValueError, "R: expected an int in"),
        (dict(head_dim=16.0), TypeError, "head_dim: expected an int, got float"),
        (dict(mask=torch.ones(3, 3, 2).bool()), ValueError, r"mask: expected \(nnz, R, C\) = \(3, 2, 3\)"),
        (dict(mask=torch.ones(3, 2, 3)), ValueError, "got .* of torch.float32"),
        (dict(pos_encoding_mode="rope"), KeyError, "Invalid pos_encoding_mode 'rope'"),
        (dict(q_data_type=16), TypeError, "q_data_type: expected a str or a torch.dtype, got int"),
        (dict(q_data_type="int8"), ValueError, "q_data_type: expected one of .* got torch.int8"),
        (dict(kv_data_type="bfloat16"), ValueError, "kv_data_type: expected q's dtype torch.float16"),
        (dict(o_data_type=None, q_data_type=None), TypeError, "q_data_type: expected a str or a torch.dtype"),
    ],
)  # fmt: skip
def test_block_sparse_plan(change, error, words):
    with pytest.raises(error, match=words):
        bsr_plan(**change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(q=torch.zeros(5, 2, 16).half()), r"Invalid shape of q: expected \(4, 2, 16\), got \(5, 2, 16\)"),
        (dict(q=torch.zeros(4, 2, 16)), r"q: expected dtype torch.float16 as plan\(\) was told, got torch.float32"),
        (dict(v=torch.zeros(6, 1, 16).bfloat16()), r"v: expected dtype torch.float16 .* got torch.bfloat16"),
        (dict(k=torch.zeros(6, 2, 16).half()), "Invalid shape of k"),
        (dict(k=torch.zeros(6, 1, 16, device="meta").half()), "Invalid device of k: expected cpu, got meta"),
        (dict(out=torch.zeros(4, 2, 8).half()), r"Invalid shape of out: expected \(4, 2, 16\), got \(4, 2, 8\)"),
        (dict(out=torch.zeros(4, 2, 16)), "Invalid dtype of out: expected torch.float16, got torch.float32"),
        (dict(out=torch.zeros(4, 2, 16, device="meta").half()), "Invalid device of out: expected cpu, got meta"),
        (dict(lse=torch.zeros(2, 4)), r"Invalid shape of lse: expected \(4, 2\), got \(2, 4\)"),
        (dict(lse=torch.zeros(4, 2).half(), return_lse=True), "Invalid dtype of lse: expected torch.float32"),
    ],
)
def test_block_sparse_run(change, words):
    wrapper = bsr_plan()
    with pytest.raises(ValueError, match=words):
        wrapper.run(**tensors(**change))


def test_run_before_plan():
    for wrapper in (flashinfer.BlockSparseAttentionWrapper, flashinfer.VariableBlockSparseAttentionWrapper):
        with pytest.raises(RuntimeError, match=r"expected a plan\(\) before it"):
            wrapper(torch.empty(8)).run(**tensors())


def test_a_failed_plan_leaves_the_one_in_force():
    wrapper = bsr_plan()
    want = wrapper.run(**tensors())
    with pytest.raises(ValueError, match="R: expected"):
        wrapper.plan(int32(0), int32(), 0, 0, 0, 1, 1, 1, 16)
    assert torch.equal(wrapper.run(**tensors()), want)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(block_row_sz=int32(1, 2).view(1, 2)), ValueError,
         r"Invalid shape of block_row_sz: .* \(2, 2\), got \(1, 2\)"),
        (dict(block_mask_map=torch.ones(2, 2, 2).bool()), ValueError, "Invalid shape of block_mask_map"),
        (dict(block_mask_map=torch.ones(2, 2, 3)), ValueError, "Invalid dtype of block_mask_map"),
        (dict(block_row_sz=int32(1, 2, 2, 2).view(2, 2)), ValueError,
         "block_row_sz: expected every head's sizes to sum to head 0's 3, got 4 in head 1"),
        (dict(block_col_sz=int32(1, 2, 3, 6, -1, 1).view(2, 3)), ValueError,
         r"block_col_sz: expected sizes >= 0, got -1 at \(1, 1\)"),
        (dict(num_qo_heads=3), ValueError, "num_qo_heads: expected a multiple of num_kv_heads = 2"),
        (dict(pos_encoding_mode=None), KeyError, "Invalid pos_encoding_mode None"),
    ],
)  # fmt: skip
def test_variable_plan(change, error, words):
    given = {
        "block_mask_map": torch.ones(2, 2, 3).bool(),
        "block_row_sz": int32(1, 2, 2, 1).view(2, 2),
        "block_col_sz": int32(1, 2, 3, 3, 2, 1).view(2, 3),
        "num_qo_heads": 2,
        "num_kv_heads": 2,
        "head_dim": 16,
    }
    wrapper = flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(8))
    wrapper.plan(**given)
    q, k = torch.zeros(2, 3, 16).half(), torch.zeros(2, 6, 16).half()
    wrapper.run(q, k, k)
    with pytest.raises(ValueError, match=r"Invalid shape of q: expected \(2, 3, 16\)"):
        wrapper.run(q.transpose(0, 1).contiguous(), k, k)
    with pytest.raises(error, match=words):
        wrapper.plan(**(given | change))
