# SPDX-License-Identifier: Apache-2.0
"""sparse_flash_attention kernels against float64."""

from __future__ import annotations

import pytest
import reference
import torch
from ascend_sparse_attention.backends import cuda

TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 2e-5}

CASES = [
    # B, S1, S2, N1, N2, Dk, Dv, topK, layout, causal, aliased
    (1, 1, 200, 65, 1, 576, 512, 70, "BSND", False, True),
    (1, 1, 300, 16, 1, 512, 512, 129, "BNSD", False, True),
    (2, 3, 50, 8, 2, 128, 128, 17, "BSND", True, False),
    (1, 3, 40, 5, 1, 192, 128, 40, "BNSD", True, True),
    (1, 2, 70, 24, 2, 64, 64, 1, "BSND", True, False),
    (1, 2, 70, 7, 1, 192, 192, 65, "BSND", False, True),
    (1, 2, 70, 3, 1, 320, 64, 33, "BNSD", False, True),
    (2, 4, 9, 4, 2, 64, 128, 9, "BSND", True, False),
]


def make(case, dtype, device, seed=0):
    B, S1, S2, N1, N2, Dk, Dv, topK, layout, _, aliased = case
    gen = torch.Generator().manual_seed(seed)
    q = torch.randn(B, S1, N1, Dk, generator=gen).to(dtype)
    k = torch.randn(B, S2, N2, Dk, generator=gen).to(dtype)
    v = k[..., :Dv] if aliased else torch.randn(B, S2, N2, Dv, generator=gen).to(dtype)
    idx = torch.stack([torch.randperm(S2, generator=gen)[:topK] for _ in range(B * S1 * N2)]).int()
    idx = idx.reshape(B, S1, N2, topK)
    q, k, idx = q.to(device), k.to(device), idx.to(device)
    v = k[..., :Dv] if aliased else v.to(device)
    if layout == "BNSD":  # strided views: what the kernel must take without a copy
        q, k, v, idx = (x.transpose(1, 2) for x in (q, k, v, idx))
    return q, k, v, idx


def run(q, k, v, idx, scale, layout, causal):
    shape = (*q.shape[:3], v.shape[3])
    out = torch.full(shape, float("nan"), dtype=q.dtype, device=q.device)
    lse = torch.full(q.shape[:3], float("nan"), dtype=torch.float32, device=q.device)
    cuda.run_sparse_flash_attention(q, k, v, idx, out, lse, scale=scale, layout=layout, is_causal=causal)
    return out.cpu().double(), lse.cpu().double()


def check(got, want, dtype):
    (out, lse), (want_out, want_lse) = got, want
    empty = want_lse == float("-inf")
    assert (lse[empty] == float("-inf")).all() and (out[empty] == 0).all()
    assert (out - want_out).abs().max() < TOLERANCE[dtype]
    if (~empty).any():
        assert (lse[~empty] - want_lse[~empty]).abs().max() < 2 * TOLERANCE[dtype]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_float64(case, dtype, device):
    q, k, v, idx = make(case, dtype, device)
    layout, causal, scale = case[8], case[9], case[5] ** -0.5
    got = run(q, k, v, idx, scale, layout, causal)
    want = reference.sparse(q.cpu(), k.cpu(), v.cpu(), idx.cpu(), scale, layout, causal)
    check(got, want, dtype)


def test_float32(device):
    case = (1, 2, 60, 4, 1, 64, 64, 33, "BSND", True, False)
    q, k, v, idx = make(case, torch.float32, device)
    got = run(q, k, v, idx, 0.125, "BSND", True)
    check(got, reference.sparse(q.cpu(), k.cpu(), v.cpu(), idx.cpu(), 0.125, "BSND", True), torch.float32)


@pytest.mark.parametrize("scale", [-0.1, 0.0, 4.0])
def test_scale_is_used_as_given(scale, dtype, device):
    case = (1, 2, 70, 4, 1, 64, 64, 33, "BSND", False, False)
    q, k, v, idx = make(case, dtype, device)
    got = run(q, k, v, idx, scale, "BSND", False)
    want = reference.sparse(q.cpu(), k.cpu(), v.cpu(), idx.cpu(), scale, "BSND", False)
    check(got, want, dtype)


@pytest.mark.parametrize("heads", [4, 64])
def test_index_policy(heads, dtype, device):
    """Masked slots are never read, repeats count, empty rows are zeros with LSE -inf."""
    S2, D = 40, 64 if heads == 4 else 512
    case = (1, 6, S2, heads, 1, D, D, 8, "BSND", False, True)
    q, k, v, idx = make(case, dtype, device)
    idx[0, 0, 0] = -1
    idx[0, 1, 0] = torch.tensor([5, -1, -1, -1, -7, S2, 2**31 - 1, -(2**31)])
    idx[0, 2, 0] = torch.tensor([3, 3, 3, 9, 9, 1, -1, 0])
    idx[0, 3, 0, 1:] = S2
    k[0, 39] = float("nan")
    k[0, 38] = float("inf")
    idx[idx == 39] = 2
    idx[idx == 38] = 4
    q[0, 0] = float("nan")  # an empty row stays empty
    got = run(q, k, v, idx, 0.2, "BSND", False)
    want = reference.sparse(q.cpu(), k.cpu(), v.cpu(), idx.cpu(), 0.2, "BSND", False)
    check(got, want, dtype)


@pytest.mark.parametrize("heads", [4, 64])
def test_faults_show(heads, dtype, device):
    """NaN in q or in a selected key reaches its own rows and no other."""
    D = 64 if heads == 4 else 512
    q, k, v, idx = make((1, 4, 60, heads, 1, D, D, 33, "BSND", False, True), dtype, device)
    q[0, 1, 2, 5] = float("nan")
    idx[idx == 50] = 3
    idx[0, 2, 0, 20] = 50
    k[0, 50, 0, 7] = float("nan")
    out, lse = run(q, k, v, idx, 0.2, "BSND", False)
    bad = torch.zeros(1, 4, heads, dtype=torch.bool)
    bad[0, 1, 2] = True
    bad[0, 2] = True
    assert torch.isnan(out[bad]).all() and torch.isnan(lse[bad]).all()
    assert torch.isfinite(out[~bad]).all() and torch.isfinite(lse[~bad]).all()


def test_causal_rows_with_nothing(dtype, device):
    q, k, v, _ = make((1, 2, 4, 4, 1, 64, 64, 2, "BSND", True, False), dtype, device)
    idx = torch.tensor([[3, 3], [3, 0]], dtype=torch.int32, device=device).reshape(1, 2, 1, 2)
    got = run(q, k, v, idx, 0.2, "BSND", True)
    check(got, reference.sparse(q.cpu(), k.cpu(), v.cpu(), idx.cpu(), 0.2, "BSND", True), dtype)
    assert (got[0][0, 0] == 0).all() and (got[0][0, 1] != 0).any()


def test_the_op_does_not_answer_for_cuda_on_a_cpu(device):
    """Triton's interpreter serves the kernels' own entry point; the op goes by the tensors' device."""
    import ascend_sparse_attention as asa

    if device.type == "cuda":
        pytest.skip("tensors of this device are the cuda backend's")
    q, k, v = (torch.zeros(1, 2, 1, 64, dtype=torch.float16) for _ in range(3))
    with pytest.raises(ValueError, match="backend: cuda expects tensors on cuda, got query on cpu"):
        asa.sparse_flash_attention(q, k, v, torch.zeros(1, 2, 1, 1).int(), 0.1, backend="cuda")
