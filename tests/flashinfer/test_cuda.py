# SPDX-License-Identifier: Apache-2.0
"""The same API on the CUDA backend: small cases, on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import math
import os
from pathlib import Path

import ascend_sparse_attention as flashinfer
import pytest
import torch
from ascend_sparse_attention import backends
from ascend_sparse_attention.golden import dense
from flashinfer_compare import P_ERROR, ROPE_LOGIT_ERROR, agree, randn

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported

#: What is allowed of float16 inputs.
HALF = {"p_error": P_ERROR[torch.float16], "lse_atol": 1e-4}


@pytest.fixture(scope="session")
def cuda_device():
    """Where backend="cuda" runs in these tests: a GPU, or Triton's interpreter on the CPU."""
    pytest.importorskip("triton", reason="the CUDA backend needs the triton package (a GPU, or its interpreter)")
    if ON_GPU:
        return torch.device("cuda", torch.cuda.current_device())
    path = Path(__file__).parents[1] / "cuda_kernels" / "conftest.py"
    spec = importlib.util.spec_from_file_location("cuda_kernels_conftest", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module._let_one_element_arrays_index()
    return torch.device("cpu")


def where(*tensors, device):
    return [None if t is None else t.to(device) for t in tensors]


@pytest.mark.parametrize("mode", ["NONE", "ROPE_LLAMA", "ALIBI"])
@pytest.mark.parametrize("form", ["plain", "causal", "mask", "packed"])
def test_single_prefill(cuda_device, mode, form):
    q, k, v = randn(9, 4, 32), randn(21, 2, 32, seed=1), randn(21, 2, 48, seed=2)
    mask = torch.rand(9, 21, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[3] = False
    given = {
        "plain": {},
        "causal": {"causal": True, "window_left": 5},
        "mask": {"custom_mask": mask},
        "packed": {"packed_custom_mask": flashinfer.packbits(mask.flatten(), "little")},
    }[form]
    words = {"pos_encoding_mode": mode, "logits_soft_cap": 4.0 if form == "plain" else None}
    on_device = {key: x.to(cuda_device) if isinstance(x, torch.Tensor) else x for key, x in given.items()}
    got = flashinfer.single_prefill_with_kv_cache(
        *where(q, k, v, device=cuda_device), **on_device, **words, backend="cuda", return_lse=True
    )
    allowed = HALF
    if mode == "ROPE_LLAMA":
        allowed = {"p_error": HALF["p_error"] + 2 * ROPE_LOGIT_ERROR, "lse_atol": ROPE_LOGIT_ERROR}
    agree(got, dense.single_prefill, v, q, k, **given, logits=dense.Logits(**words), **allowed)


def test_single_prefill_hnd_and_empty_rows(cuda_device):
    q, k, v = randn(6, 2, 32), randn(2, 4, 32, seed=1), randn(2, 4, 32, seed=2)
    got = flashinfer.single_prefill_with_kv_cache(
        *where(q, k, v, device=cuda_device), causal=True, kv_layout="HND", backend="cuda", return_lse=True
    )
    agree(got, dense.single_prefill, v, q, k, causal=True, kv_layout="HND", **HALF)
    empty = flashinfer.single_prefill_with_kv_cache_return_lse(
        *where(q, k[:, :0], v[:, :0], device=cuda_device), kv_layout="HND", backend="cuda"
    )
    assert not empty[0].any() and (empty[1] == -math.inf).all()


@pytest.mark.parametrize("block", [(1, 1), (2, 3), (5, 16)], ids=str)
@pytest.mark.parametrize("form", ["plain", "causal", "mask"])
def test_block_sparse(cuda_device, block, form):
    (R, C), NB, M = block, 5, 11
    N, MB = NB * C, -(-M // R)
    g = torch.Generator().manual_seed(R)
    counts = torch.randint(0, 4, (MB,), generator=g)
    indptr = torch.cat([torch.zeros(1), counts.cumsum(0)]).int()
    indices = torch.randint(0, NB, (int(counts.sum()),), generator=g).int()
    mask = torch.rand(indices.numel(), R, C, generator=g) < 0.6 if form == "mask" else None
    q, k, v = randn(M, 4, 32), randn(N, 2, 32, seed=1), randn(N, 2, 32, seed=2)
    wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(8, device=cuda_device), "cuda")
    wrapper.plan(*where(indptr, indices, device=cuda_device), M, N, R, C, 4, 2, 32,
                 mask=where(mask, device=cuda_device)[0], causal=form == "causal")  # fmt: skip
    got = wrapper.run_return_lse(*where(q, k, v, device=cuda_device))
    agree(got, dense.block_sparse, v, indptr, indices, R, C, q, k, mask=mask, causal=form == "causal", **HALF)


def test_variable_blocks(cuda_device):
    block_map = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(5)) < 0.5
    block_map[1, 0] = False
    rows, cols = torch.tensor([[3, 0, 9], [5, 5, 2]]).int(), torch.tensor([[5, 1, 0, 9], [3, 3, 3, 6]]).int()
    q, k, v = randn(4, 12, 32), randn(2, 15, 32, seed=1), randn(2, 15, 32, seed=2)
    wrapper = flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(8, device=cuda_device), backend="cuda")
    wrapper.plan(*where(block_map, rows, cols, device=cuda_device), 4, 2, 32)
    got = wrapper.run(*where(q, k, v, device=cuda_device), return_lse=True)
    agree(got, dense.variable_block_sparse, v, block_map, rows, cols, q, k, **HALF)


def test_mixed_dtypes_are_refused(cuda_device):
    q, k = randn(3, 1, 16), randn(4, 1, 16).to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match="kv_data_type: the cuda backend expects q's dtype"):
        flashinfer.single_prefill_with_kv_cache(*where(q, k, k, device=cuda_device), backend="cuda")


def test_what_is_missing_is_said(monkeypatch):
    backend = type(backends.load("cuda"))()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "triton package is not installed" in backend.missing()
    monkeypatch.undo()
    if not ON_GPU:
        pytest.importorskip("triton")
        monkeypatch.setenv("TRITON_INTERPRET", "0")
        assert backend.missing() == "PyTorch sees no CUDA device"


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_gpu_dtypes_and_scales(cuda_device, dtype):
    q, k, v = (x.to(dtype) for x in (randn(130, 8, 64), randn(256, 2, 64, seed=1), randn(256, 2, 64, seed=2)))
    scales = {"scale_q": torch.rand(8) + 0.5, "scale_k": torch.rand(2) + 0.5, "scale_v": torch.rand(2) + 0.5}
    on_device = {key: x.to(cuda_device) for key, x in scales.items()}
    indptr, indices = torch.tensor([0, 3, 5, 9]).int(), torch.tensor([0, 3, 1, 2, 2, 0, 1, 2, 3]).int()
    wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(8, device=cuda_device))
    wrapper.plan(indptr, indices, 130, 256, 64, 64, 8, 2, 64, q_data_type=dtype, o_data_type=torch.bfloat16)
    got = wrapper.run_return_lse(*where(q, k, v, device=cuda_device), **on_device)
    p_dtype = torch.bfloat16 if dtype == torch.bfloat16 else torch.float16
    agree(got, dense.block_sparse, v, indptr, indices, 64, 64, q, k, **scales, p_error=P_ERROR[p_dtype], lse_atol=1e-4)
    got = flashinfer.single_prefill_with_kv_cache_return_lse(
        *where(q, k, v, device=cuda_device), **on_device, o_dtype=torch.bfloat16, causal=True
    )
    agree(got, dense.single_prefill, v, q, k, **scales, causal=True, p_error=P_ERROR[p_dtype], lse_atol=1e-4)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_graph_outlives_the_next_plan(cuda_device):
    q, k, v = where(randn(64, 4, 64), randn(128, 2, 64, seed=1), randn(128, 2, 64, seed=2), device=cuda_device)
    wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(8, device=cuda_device))
    first = (torch.tensor([0, 2, 3]).int(), torch.tensor([0, 3, 1]).int())
    wrapper.plan(*first, 64, 128, 32, 32, 4, 2, 64)
    want = wrapper.run(q, k, v).clone()
    out = torch.empty_like(q)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        wrapper.run(q, k, v, out=out)
    wrapper.plan(torch.tensor([0, 1, 2]).int(), torch.tensor([2, 2]).int(), 64, 128, 32, 32, 4, 2, 64)
    torch.cuda.empty_cache()
    filler = [torch.full((1 << 16,), 7, dtype=torch.int32, device=cuda_device) for _ in range(64)]
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, want) and filler
