# SPDX-License-Identifier: Apache-2.0
"""Inputs that broke other implementations of this API, one test each with the right answer, on the CPU backend and,
where there is a GPU, on the CUDA backend."""

from __future__ import annotations

import inspect
import math

import ascend_sparse_attention as flashinfer
import pytest
import torch
from ascend_sparse_attention.golden import dense
from flashinfer_compare import P_ERROR, agree, randn

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param)


def bsr(device, indptr, indices, M, N, R, C, Hq=2, Hk=1, D=16, **plan):
    wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(8, dtype=torch.uint8, device=device))
    masks = {key: x.to(device) for key, x in plan.items() if isinstance(x, torch.Tensor)}
    structure = (torch.as_tensor(x).int().to(device) for x in (indptr, indices))
    wrapper.plan(*structure, M, N, R, C, Hq, Hk, D, **(plan | masks))
    return wrapper


def variable(device, block_map, rows, cols, Hq=1, Hk=1, D=16):
    wrapper = flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(8, dtype=torch.uint8, device=device))
    sizes = (torch.as_tensor(x).int().to(device) for x in (rows, cols))
    wrapper.plan(torch.as_tensor(block_map).bool().to(device), *sizes, Hq, Hk, D)
    return wrapper


def qkv(M, N, Hq=2, Hk=1, D=16, Dv=None, seed=0):
    return randn(M, Hq, D, seed=seed), randn(N, Hk, D, seed=seed + 1), randn(N, Hk, Dv or D, seed=seed + 2)


def on(device, *tensors):
    return [x.to(device) for x in tensors]


def allowed(device):
    if device.type == "cpu":
        return {"p_error": 0.0, "lse_atol": 2e-6}
    return {"p_error": P_ERROR[torch.float16], "lse_atol": 1e-4}


def prefill(device, q, k, v, **words):
    moved = {key: x.to(device) if isinstance(x, torch.Tensor) else x for key, x in words.items()}
    return flashinfer.single_prefill_with_kv_cache(*on(device, q, k, v), **moved)


def random_mask(*shape, density=0.5):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)) < density


def heads_first(*tensors):
    return [x.transpose(0, 1) for x in tensors]


def test_documented_blocks_from_the_top_level(device):
    """Row and column sizes 1, 2, 3 and 3, 1, 2, as in the documentation. (Its examples run in test_interface.py.)"""
    block_map = torch.tensor([[[0, 0, 1], [1, 0, 1], [0, 1, 1]]]).bool()
    rows, cols = torch.tensor([[1, 2, 3]]), torch.tensor([[3, 1, 2]])
    q, k, v = heads_first(*qkv(6, 6, Hq=1, D=128))
    got = variable(device, block_map, rows, cols, D=128).run(*on(device, q, k, v), return_lse=True)
    agree(got, dense.variable_block_sparse, v, block_map, rows, cols, q, k, **allowed(device))


def test_more_block_rows_than_a_fixed_buffer(device):
    # 48 heads x 768 block rows is beyond a table of 32768.
    Hk, blocks, D = 48, 768, 8
    sizes = torch.ones(Hk, blocks)
    block_map = random_mask(Hk, blocks, blocks, density=0.01)
    q, k, v = (randn(Hk, blocks, D, seed=i) for i in range(3))
    out, lse = variable(device, block_map, sizes, sizes, Hk, Hk, D).run(*on(device, q, k, v), return_lse=True)
    for head in (0, 47):
        one = slice(head, head + 1)
        got = heads_first(out[one], lse[one])
        agree(got, dense.single_prefill, *heads_first(v[one], q[one], k[one]), custom_mask=block_map[head],
              **allowed(device))  # fmt: skip


def test_many_block_rows_of_one(device):
    Hk, rows = 3, 16385
    block_map = random_mask(Hk, rows, 3)
    sizes = torch.tensor([[1, 2, 3]] * Hk)
    q, k, v = randn(Hk, rows, 8), randn(Hk, 6, 8, seed=1), randn(Hk, 6, 8, seed=2)
    out, lse = variable(device, block_map, torch.ones(Hk, rows), sizes, Hk, Hk, 8).run(
        *on(device, q, k, v), return_lse=True
    )
    mask = torch.repeat_interleave(block_map[2], sizes[2], dim=1)
    agree(heads_first(out[2:], lse[2:]), dense.single_prefill, *heads_first(v[2:], q[2:], k[2:]), custom_mask=mask,
          **allowed(device))  # fmt: skip


@pytest.mark.parametrize("shape", [(10, 15), (20, 10), (1, 20), (200,)], ids=str)
def test_custom_mask_of_the_wrong_shape(device, shape):
    with pytest.raises(ValueError, match=r"custom_mask: expected \(qo_len, kv_len\) = \(10, 20\) .* got \(") as error:
        prefill(device, *qkv(10, 20), custom_mask=torch.ones(shape).bool())
    assert str(shape) in str(error.value)


def test_custom_mask_of_ints(device):
    with pytest.raises(ValueError, match=r"torch\.int32"):
        prefill(device, *qkv(10, 20), custom_mask=torch.ones(10, 20, dtype=torch.int32))


def test_packed_prefill_mask_of_odd_size(device):
    q, k, v = qkv(3, 5)
    mask = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 1], [1, 1, 1, 0, 1]], dtype=torch.bool)
    packed = flashinfer.packbits(mask.flatten(), bitorder="little")
    want = prefill(device, q, k, v, custom_mask=mask, return_lse=True)
    agree(want, dense.single_prefill, v, q, k, custom_mask=mask, **allowed(device))
    assert torch.equal(prefill(device, q, k, v, packed_custom_mask=packed), want[0])
    both = prefill(device, q, k, v, custom_mask=~mask, packed_custom_mask=packed, causal=True)
    assert torch.equal(both, want[0])  # packed wins


def test_mask_with_other_value_head_dim(device):
    q, k, v = qkv(37, 54, 4, 4, 192, 128)
    mask = random_mask(37, 54)
    got = prefill(device, q, k, v, custom_mask=mask, return_lse=True)
    agree(got, dense.single_prefill, v, q, k, custom_mask=mask, **allowed(device))


def test_block_masks_and_unsorted_columns(device):
    q, k, v = qkv(2, 9)
    mask = torch.tensor([[[1, 0, 0], [1, 1, 0]], [[0, 0, 1], [0, 1, 0]]], dtype=torch.bool)  # blocks 2 and 0
    scattered = torch.zeros(2, 9, dtype=torch.bool)
    scattered[:, 6:9], scattered[:, 0:3] = mask[0], mask[1]
    for indices, masks in (([2, 0], mask), ([0, 2], mask.flip(0))):
        got = bsr(device, [0, 2], indices, 2, 9, 2, 3, mask=masks).run(*on(device, q, k, v), return_lse=True)
        agree(got, dense.single_prefill, v, q, k, custom_mask=scattered, **allowed(device))


def test_last_block_row_may_be_partial(device):
    q, k, v = qkv(5, 4)
    indptr, indices = torch.tensor([0, 1, 1, 3]), torch.tensor([1, 1, 0])
    got = bsr(device, indptr, indices, 5, 4, 2, 2).run(*on(device, q, k, v), return_lse=True)
    agree(got, dense.block_sparse, v, indptr, indices, 2, 2, q, k, **allowed(device))
    with pytest.raises(ValueError, match="N: expected a multiple of C = 2, got 5"):
        bsr(device, indptr, indices, 5, 5, 2, 2)


def test_variable_map_all_false(device):
    q, k, v = on(device, *heads_first(*qkv(1, 5, Hq=1)))
    out, lse = variable(device, [[[False]]], [[1]], [[5]]).run(q, k, v, return_lse=True)
    assert out.shape == (1, 1, 16) and not out.any() and lse.tolist() == [[-math.inf]]


def test_variable_blocks_of_size_zero(device):
    block_map = torch.tensor([[[1, 1, 0], [1, 0, 1], [0, 1, 1]]]).bool()
    rows, cols = torch.tensor([[2, 0, 3]]), torch.tensor([[0, 4, 3]])
    q, k, v = heads_first(*qkv(5, 7))
    got = variable(device, block_map, rows, cols, Hq=2).run(*on(device, q, k, v), return_lse=True)
    agree(got, dense.variable_block_sparse, v, block_map, rows, cols, q, k, **allowed(device))


def test_out_and_lse_by_position(device):
    assert list(inspect.signature(flashinfer.BlockSparseAttentionWrapper.run).parameters)[-4:] == [
        "out", "lse", "return_lse", "enable_pdl"
    ]  # fmt: skip
    q, k, v = on(device, *qkv(4, 4))
    wrapper = bsr(device, [0, 1, 2], [0, 1], 4, 4, 2, 2)
    out, lse = torch.empty(4, 2, 16, dtype=torch.float16, device=device), torch.empty(4, 2, device=device)
    got = wrapper.run(q, k, v, None, None, None, out, lse, True)
    assert got[0] is out and got[1] is lse
    want = wrapper.run_return_lse(q, k, v)
    assert torch.equal(out, want[0]) and torch.equal(lse, want[1])
    assert torch.equal(wrapper.forward(q, k, v), out)
    assert wrapper.run(q, k, v, out=out) is out

    wrapper = variable(device, [[[True]]], [[4]], [[4]], Hq=2)
    q, k, v = heads_first(q, k, v)
    out, lse = torch.empty(2, 4, 16, dtype=torch.float16, device=device), torch.empty(2, 4, device=device)
    got = wrapper.run(q, k, v, out, lse, True)
    assert got[0] is out and got[1] is lse
    want = wrapper.run_return_lse(q, k, v)
    assert torch.equal(out, want[0]) and torch.equal(lse, want[1])


def test_second_plan_leaves_the_first_wrapper_alone(device):
    """(A captured plan that outlives the next one is in test_cuda.py.)"""
    workspace = torch.empty(8, dtype=torch.uint8, device=device)
    indptr, indices = torch.tensor([0, 1, 2]).int().to(device), torch.tensor([0, 1]).int().to(device)
    first, second = (flashinfer.BlockSparseAttentionWrapper(workspace) for _ in range(2))
    first.plan(indptr, indices, 2, 2, 1, 1, 2, 1, 16)
    q, k, v = on(device, *qkv(2, 2))
    want = first.run(q, k, v)
    indices.fill_(0)  # the caller's buffer is the caller's
    second.plan(indptr, indices, 2, 2, 1, 1, 2, 1, 16)
    workspace.fill_(255)
    second.run(q, k, v)
    assert torch.equal(first.run(q, k, v), want)


@pytest.mark.parametrize(("qo_len", "kv_len"), [(6, 4), (2, 6)])
def test_causal_is_bottom_right(device, qo_len, kv_len):
    q, k, v = qkv(qo_len, kv_len)
    out, lse = prefill(device, q, k, v, causal=True, return_lse=True)
    mask = torch.ones(qo_len, kv_len).tril(kv_len - qo_len).bool()
    agree((out, lse), dense.single_prefill, v, q, k, custom_mask=mask, **allowed(device))
    blind = max(0, qo_len - kv_len)
    assert not out[:blind].any() and (lse[:blind] == -math.inf).all() and (lse[blind:] > -math.inf).all()


def test_more_queries_than_a_grid_dimension(device):
    M = 70000
    q, k, v = qkv(M, 256)
    got = prefill(device, q, k, v, causal=False, return_lse=True)
    at = torch.tensor([0, 1, 65535, 65536, M - 1])
    agree([x.cpu()[at] for x in got], dense.single_prefill, v, q[at], k, **allowed(device))
    indptr, indices = torch.arange(M + 1), torch.arange(M) % 256
    wrapper = bsr(device, indptr, indices, M, 256, 1, 1)
    out = wrapper.run(*on(device, q, k, v))
    want = v[torch.arange(M) % 256].expand(M, 2, 16)  # one key a row
    torch.testing.assert_close(out.cpu(), want, rtol=1e-3, atol=0)


def test_more_queries_than_a_grid_dimension_in_sparse_flash_attention(device):
    q, k = randn(1, 70000, 1, 64), randn(1, 256, 1, 64, seed=1)
    idx = torch.stack([torch.arange(70000) % 256, torch.full((70000,), -1)], dim=-1).view(1, 70000, 1, 2).int()
    out = flashinfer.sparse_flash_attention(*on(device, q, k, k, idx), 0.1)
    torch.testing.assert_close(out.cpu()[0, :, 0], k[0, torch.arange(70000) % 256, 0], rtol=1e-3, atol=0)


def test_more_slots_than_keys(device):
    q, k = randn(1, 2, 4, 64), randn(1, 32, 1, 64)
    with pytest.raises(ValueError, match="topK"):
        flashinfer.sparse_flash_attention(*on(device, q, k, k, torch.zeros(1, 2, 1, 2048).int()), 0.1)


def test_custom_mask_wins_over_causal(device):
    q, k, v = qkv(6, 6)
    mask = random_mask(6, 6)
    got = prefill(device, q, k, v, causal=True, custom_mask=mask, return_lse=True)
    agree(got, dense.single_prefill, v, q, k, custom_mask=mask, **allowed(device))


def test_backend_names(device):
    q, k, v = qkv(3, 5)
    want = prefill(device, q, k, v)
    for name in ("auto", "fa2", "fa3", device.type):
        assert torch.equal(prefill(device, q, k, v, backend=name), want)
    with pytest.raises(ValueError, match="backend: expected one of auto, fa2, fa3, cpu, cuda, npu, got 'trtllm'"):
        prefill(device, q, k, v, backend="trtllm")
    agree(prefill(device, q, k, v, return_lse=True), dense.single_prefill, v, q, k, **allowed(device))
