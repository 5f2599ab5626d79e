# SPDX-License-Identifier: Apache-2.0
"""Inputs at the edge of what the FlashInfer-compatible API takes: strides, numbers, devices, ranks."""

from __future__ import annotations

import math

import ascend_sparse_attention as flashinfer
import pytest
import torch
from ascend_sparse_attention import masks
from test_cuda import cuda_device  # noqa: F401 (a fixture)

prefill = flashinfer.single_prefill_with_kv_cache


def randn(*shape, seed=0, dtype=torch.float16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def buffer():
    return torch.empty(1, dtype=torch.uint8, device="cpu")


def planned(**change):
    wrapper = flashinfer.BlockSparseAttentionWrapper(buffer())
    indptr, indices = (torch.tensor(x, dtype=torch.int32, device="cpu") for x in ([0, 1, 3], [1, 0, 1]))
    wrapper.plan(indptr, indices, 4, 6, 2, 3, 2, 1, 16, **change)
    return wrapper


def test_a_transposed_block_map():
    sizes = torch.tensor([[2, 3], [4, 1]], dtype=torch.int32)
    block_map = torch.tensor([[[0, 1], [1, 1]], [[1, 0], [0, 0]]], dtype=torch.bool)
    results = []
    for given in (block_map, block_map.permute(2, 1, 0).contiguous().permute(2, 1, 0)):
        wrapper = flashinfer.VariableBlockSparseAttentionWrapper(buffer())
        wrapper.plan(given, sizes, sizes, 2, 2, 16)
        results.append(wrapper.run(*(randn(2, 5, 16, seed=i) for i in range(3))))
    assert torch.equal(*results)


def test_another_default_device():
    q, k, v = randn(4, 2, 16), randn(6, 1, 16, seed=1), randn(6, 1, 16, seed=2)
    mask = torch.rand(3, 2, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    sizes = torch.tensor([[1, 3]], dtype=torch.int32), torch.tensor([[2, 4]], dtype=torch.int32)
    block_map = torch.tensor([[[1, 0], [1, 1]]], dtype=torch.bool)
    packed = flashinfer.packbits(torch.ones(24, dtype=torch.bool), "little")

    def results():
        variable = flashinfer.VariableBlockSparseAttentionWrapper(buffer())
        variable.plan(block_map, *sizes, 2, 1, 16)
        yield variable.run(*(x.transpose(0, 1) for x in (q, k, v))).transpose(0, 1)
        for change in ({}, {"mask": mask}, {"causal": True}, {"pos_encoding_mode": "ROPE_LLAMA"}):
            yield planned(**change).run(q, k, v)
        for mode in ("NONE", "ALIBI", "ROPE_LLAMA"):
            yield prefill(q, k, v, causal=True, pos_encoding_mode=mode)
        yield prefill(q, k, v, packed_custom_mask=packed)

    want = list(results())
    masks.alibi_slopes.cache_clear()
    with torch.device("meta"):
        got = list(results())
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert torch.equal(prefill(q, k, v, causal=True, pos_encoding_mode="ALIBI"), want[6])


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_that_holds_everything(cuda_device, causal):  # noqa: F811
    q, k, v = (x.to(cuda_device) for x in (randn(30, 2, 16), randn(20, 1, 16, seed=1), randn(20, 1, 16, seed=2)))
    for window in (19, 2**31 - 1):
        got, lse = prefill(q, k, v, causal=causal, window_left=window, backend="cuda", return_lse=True)
        want, want_lse = prefill(q, k, v, causal=causal, backend="cuda", return_lse=True)
        assert torch.equal(got, want) and torch.equal(lse, want_lse)


def test_a_soft_cap_far_above_the_logits(cuda_device):  # noqa: F811
    q, k, v = (randn(n, 1, 16, seed=n, dtype=torch.float32).to(cuda_device) for n in (7, 20, 21))
    v = v[:20]
    for cap in (0.5, 8.0, 1e3, 1e6):
        got, lse = prefill(q, k, v, logits_soft_cap=cap, backend="cuda", return_lse=True)
        logits = cap * torch.tanh((q[:, 0].double() @ k[:, 0].double().T / 4) / cap)
        want = torch.softmax(logits, -1) @ v[:, 0].double()
        assert (got[:, 0].double() - want).abs().max() < 2e-5, cap
        assert (lse[:, 0].double() - logits.logsumexp(-1) / math.log(2)).abs().max() < 2e-5, cap


def test_a_lazily_negated_scale(cuda_device):  # noqa: F811
    q, k, v = (randn(4, 1, 16, seed=i).to(cuda_device) for i in range(3))
    scale = torch.tensor([-1.5], device=cuda_device)
    results = [prefill(q, k, v, scale_q=x, backend="cuda") for x in (-scale, torch._neg_view(scale))]
    assert torch.equal(*results)


def test_prepared_launches_are_bounded(cuda_device, monkeypatch):  # noqa: F811
    from ascend_sparse_attention.backends.cuda import launch_block

    monkeypatch.setattr(launch_block, "_MOST_LAUNCHES", 4)
    wrapper = flashinfer.BlockSparseAttentionWrapper(buffer().to(cuda_device), backend="cuda")
    ptr, index = (torch.tensor(x, dtype=torch.int32, device=cuda_device) for x in ([0, 1], [0]))
    wrapper.plan(ptr, index, 2, 8, 2, 8, 1, 1, 16)
    q, k, v = (x.to(cuda_device) for x in (randn(2, 1, 16), randn(8, 1, 16), randn(8, 1, 16)))
    for i in range(9):
        wrapper.forward(q, k, v, sm_scale=0.1 + i)
    assert len(wrapper._plan.launches) <= 4


@pytest.mark.parametrize(
    "value, error, words",
    [
        (torch.ones(2), TypeError, "sm_scale: expected a finite number or None, got Tensor of several"),
        (10**400, ValueError, "sm_scale: expected a number that float32 holds"),
        (1e300, ValueError, "sm_scale: expected a number that float32 holds, got 1e+300"),
    ],
)
def test_numbers(value, error, words):
    q = randn(3, 1, 16)
    with pytest.raises(error) as caught:
        prefill(q, q, q, sm_scale=value)
    assert words in str(caught.value)


def test_messages_name_what_the_caller_gave():
    q = randn(3, 1, 16)
    with pytest.raises(ValueError, match=r"^q: expected a tensor on cpu, cuda or npu, got meta"):
        prefill(*[q.to("meta")] * 3)
    with pytest.raises(ValueError, match=r"^float_workspace_buffer: expected a tensor on cpu, cuda or npu, got meta"):
        wrapper = flashinfer.BlockSparseAttentionWrapper(buffer().to("meta"))
        wrapper.plan(*[torch.zeros(n, dtype=torch.int32) for n in (1, 0)], 0, 0, 1, 1, 1, 1, 16)
    huge = torch.full((1, 4), 2**62)
    with pytest.raises(ValueError, match=r"^block_col_sz: expected sizes of at most 2147483647, got 4611\d+ at \(0, 0"):
        flashinfer.VariableBlockSparseAttentionWrapper(buffer()).plan(
            torch.ones(1, 1, 4, dtype=torch.bool), torch.ones(1, 1, dtype=torch.int32), huge, 1, 1, 16
        )
    run = planned().run
    q, k, v = randn(4, 2, 16), randn(6, 1, 16), randn(6, 1, 16)
    with pytest.raises(ValueError, match=r"^out: expected memory of its own for every element"):
        run(q, k, v, out=torch.empty(1, 2, 16).half().expand(4, 2, 16))
    with pytest.raises(ValueError, match=r"^lse: expected memory of its own for every element"):
        run(q, k, v, lse=torch.empty(1, 1).expand(4, 2))
    with pytest.raises(TypeError, match=r"^return_lse: expected a bool, got str"):
        run(q, k, v, return_lse="no")
    with pytest.raises(TypeError, match=r"^mask: expected a Tensor, got list"):
        out, lse = randn(2, 1, 4), torch.zeros(2, 1)
        flashinfer.merge_state_in_place(out, lse, out, lse, [True, False])
    with pytest.raises(TypeError, match=r"^dim: expected an int, got str"):
        flashinfer.merge_states(randn(2, 2, 1, 4), torch.zeros(2, 2, 1), "states")


@pytest.mark.parametrize(
    "heads, ranks, by_head", [(8, 4, True), (7, 4, True), (5, 4, False), (6, 4, False), (3, 2, True)]
)
def test_no_rank_is_left_without_a_head(heads, ranks, by_head):
    from types import SimpleNamespace as Of

    from ascend_sparse_attention import distributed
    from torch.distributed.tensor import Shard

    query = Of(mesh=Of(size=lambda: ranks), tensor_meta=Of(shape=(2, 3, heads, 64)))
    key = Of(mesh=query.mesh, tensor_meta=Of(shape=(2, 8, 1, 64)))
    accepted = distributed._strategies(query, key, "BSND", True, 1)
    assert any(results == [Shard(2)] for results, _ in accepted) == by_head


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_under_torch_compile(cuda_device, backend):  # noqa: F811
    where = cuda_device if backend == "cuda" else torch.device("cpu")
    q, k, v = (x.to(where) for x in (randn(6, 2, 16), randn(20, 1, 16, seed=1), randn(20, 1, 16, seed=2)))

    def call(q, k, v):
        return prefill(q, k, v, causal=True, backend=backend) * 2

    torch._dynamo.reset()
    assert torch.equal(torch.compile(call, backend="eager")(q, k, v), call(q, k, v))
