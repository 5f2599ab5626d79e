# SPDX-License-Identifier: Apache-2.0
"""Block-sparse, variable-block and single-prefill kernels against float64."""

from __future__ import annotations

import pytest
import reference
import torch
from ascend_sparse_attention.backends import cuda

#: Largest absolute error of an output of magnitude about 1: some roundings of the io dtype (P's and the output's).
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 2e-5}


def make(n, heads, dim, dtype, device, seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(n, heads, dim, generator=gen).to(dtype).to(device)


def check(out, lse, want_out, want_lse, dtype, roundings=1):
    """`roundings` > 1 where the kernel rounds more than P and the output (RoPE: the rotated q and k)."""
    out, lse = out.cpu().double(), lse.cpu().double()
    assert torch.isfinite(out).all() == torch.isfinite(want_out).all()
    empty = want_lse == float("-inf")
    assert (lse[empty] == float("-inf")).all() and (out[empty] == 0).all()
    assert (out - want_out).abs().max() < roundings * TOLERANCE[dtype]
    if (~empty).any():
        assert (lse[~empty] - want_lse[~empty]).abs().max() < roundings * 2 * TOLERANCE[dtype]


def outputs(q, v):
    """Poisoned outputs: every element must be written."""
    out = torch.full((q.shape[0], q.shape[1], v.shape[2]), float("nan"), dtype=q.dtype, device=q.device)
    return out, torch.full(q.shape[:2], float("nan"), dtype=torch.float32, device=q.device)


def random_bsr(M, N, R, C, density, seed):
    gen = torch.Generator().manual_seed(seed)
    mb, nb = -(-M // R), N // C
    keep = torch.rand(mb, nb, generator=gen) < density
    if mb > 2:
        keep[1] = False  # a row with nothing to attend to
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), keep.sum(1).cumsum(0)]).int()
    cols = [torch.nonzero(keep[i])[:, 0] for i in range(mb)]
    cols = [c[torch.randperm(c.numel(), generator=gen)] for c in cols]  # unsorted is legal
    return indptr, torch.cat(cols).int()


BSR_CASES = [
    # M, N, R, C, Hq, Hk, D, Dv, density
    (70, 256, 32, 64, 4, 2, 64, 64, 0.5),
    (70, 128, 16, 16, 4, 1, 64, 64, 0.5),
    (40, 96, 8, 3, 6, 2, 64, 64, 0.6),
    (13, 128, 2, 2, 3, 1, 64, 128, 0.5),
    (24, 200, 5, 8, 5, 1, 96, 80, 0.5),
    (130, 256, 128, 128, 2, 2, 64, 64, 0.7),
    (9, 64, 1, 1, 4, 2, 64, 64, 0.1),
    (20, 192, 1, 1, 4, 2, 64, 64, 0.5),
    (64, 128, 64, 1, 2, 1, 64, 64, 0.4),
]


@pytest.mark.parametrize("case", BSR_CASES, ids=str)
def test_bsr(case, dtype, device):
    M, N, R, C, hq, hk, D, Dv, density = case
    indptr, indices = random_bsr(M, N, R, C, density, seed=M + N + R)
    q, k, v = make(M, hq, D, dtype, device, 1), make(N, hk, D, dtype, device, 2), make(N, hk, Dv, dtype, device, 3)
    plan = cuda.plan_bsr(
        indptr, indices, M=M, N=N, R=R, C=C, num_qo_heads=hq, num_kv_heads=hk, head_dim_qk=D, head_dim_vo=Dv,
        q_dtype=dtype, device=device,
    )  # fmt: skip
    out, lse = outputs(q, v)
    cuda.run_block_sparse(plan, q, k, v, out, lse, sm_scale=D**-0.5)
    check(out, lse, *reference.bsr(q.cpu(), k.cpu(), v.cpu(), indptr, indices, R, C, sm_scale=D**-0.5), dtype)


def pack_segments(mask, indptr, R, C):
    parts = []
    for i in range(indptr.numel() - 1):
        bits = mask[indptr[i] : indptr[i + 1]].transpose(0, 1).reshape(-1)
        bits = torch.nn.functional.pad(bits, (0, -bits.numel() % 8)).reshape(-1, 8).to(torch.uint8)
        parts.append((bits * torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)).sum(1, dtype=torch.uint8))
    return torch.cat(parts)


@pytest.mark.parametrize("C", [1, 3])
def test_faults_do_not_outlive_their_block_row(C, dtype, device):
    """What an earlier tile left in shared memory shows neither in a step that a stream fills in part (16 or 48 keys)
    nor in the one of an empty stream; a fault in the last key of such a step comes out as it went in."""
    rows = 300 if device.type == "cuda" else 3  # on a GPU more tiles than processors, the empty ones last
    R, D, nb = 128, 64, 16
    gen = torch.Generator().manual_seed(4)
    counts = torch.tensor([nb, 0, 7]).repeat(rows // 3)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    indices = torch.cat([torch.randperm(nb, generator=gen) if n == nb else torch.randperm(nb - 1, generator=gen)[:n]
                         for n in counts.tolist()]).int()  # fmt: skip
    q, k, v = (make(n, 1, D, dtype, device, seed) for n, seed in ((rows * R, 1), (nb * C, 2), (nb * C, 3)))
    v[-C:] = float("nan")  # the last block column: in the first of each three block rows alone
    plan = cuda.plan_bsr(
        indptr, indices, M=rows * R, N=nb * C, R=R, C=C, num_qo_heads=1, num_kv_heads=1, head_dim_qk=D, head_dim_vo=D,
        q_dtype=dtype, device=device,
    )  # fmt: skip
    out, lse = outputs(q, v)
    cuda.run_block_sparse(plan, q, k, v, out, lse, sm_scale=D**-0.5)
    out, lse = (x.reshape(rows // 3, 3, R, *x.shape[1:]) for x in (out, lse))
    assert torch.isnan(out[:, 0]).all()
    assert (out[:, 1] == 0).all() and (lse[:, 1] == float("-inf")).all()
    span = slice((rows - 1) * R, rows * R)
    want = reference.bsr(
        q[span].cpu(), k.cpu(), v.cpu(), torch.tensor([0, 7]).int(), indices[-7:], R, C, sm_scale=D**-0.5
    )
    check(out[-1, 2], lse[-1, 2], *want, dtype)
    assert torch.isfinite(out[:, 2]).all()


def test_block_row_of_too_many_keys_is_refused(device):
    """Positions in a stream are 32 bits wide."""
    C, times = 1 << 20, 1 << 11
    indptr, indices = torch.tensor([0, times], dtype=torch.int32), torch.zeros(times, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"indices: expected fewer than 2\*\*31 keys in a block row, got 2147483648"):
        cuda.plan_bsr(
            indptr, indices, M=128, N=C, R=128, C=C, num_qo_heads=1, num_kv_heads=1, head_dim_qk=64, head_dim_vo=64,
            q_dtype=torch.float16, device=device,
        )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"causal": True},
        {"mask": True},
        {"causal": True, "pos": "ALIBI"},
        {"pos": "ROPE_LLAMA", "causal": True},
        {"cap": 5.0},
        {"mask": True, "cap": 3.0, "pos": "ALIBI"},
        {"scale": -0.2},
        {"scale": 0.0, "causal": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("block", [(32, 64), (5, 3)], ids=str)
def test_bsr_logits(block, options, dtype, device):
    R, C = block
    M, N, hq, hk, D = 65 if R > 8 else 8, C * (5 if C > 8 else 24), 4, 2, 64
    scale = options.get("scale", 0.3)
    indptr, indices = random_bsr(M, N, R, C, 0.4, seed=5)
    gen = torch.Generator().manual_seed(9)
    mask = torch.rand(indices.numel(), R, C, generator=gen) < 0.6 if options.get("mask") else None
    q, k, v = make(M, hq, D, dtype, device, 1), make(N, hk, D, dtype, device, 2), make(N, hk, D, dtype, device, 3)
    pos = options.get("pos", "NONE")
    plan = cuda.plan_bsr(
        indptr, indices, M=M, N=N, R=R, C=C, num_qo_heads=hq, num_kv_heads=hk, head_dim_qk=D, head_dim_vo=D,
        q_dtype=dtype, packed_mask=None if mask is None else pack_segments(mask, indptr, R, C),
        causal=options.get("causal", False), pos_encoding=pos, device=device,
    )  # fmt: skip
    out, lse = outputs(q, v)
    cuda.run_block_sparse(
        plan, q, k, v, out, lse, sm_scale=scale, logits_soft_cap=options.get("cap", 0.0), rope_scale=2.0
    )
    want = reference.bsr(
        q.cpu(), k.cpu(), v.cpu(), indptr, indices, R, C, mask=mask, causal=options.get("causal", False),
        slopes=cuda.alibi_slopes(hq, torch.device("cpu")) if pos == "ALIBI" else None, sm_scale=scale,
        cap=options.get("cap", 0.0), rope_args=(2.0, 1e4) if pos == "ROPE_LLAMA" else None,
    )  # fmt: skip
    check(out, lse, *want, dtype, roundings=2 if pos == "ROPE_LLAMA" else 1)


def test_repeated_column_counts_twice(dtype, device):
    indptr, indices = torch.tensor([0, 3, 4]).int(), torch.tensor([7, 7, 2, 5]).int()
    q, k, v = make(2, 4, 64, dtype, device, 1), make(8, 2, 64, dtype, device, 2), make(8, 2, 64, dtype, device, 3)
    plan = cuda.plan_bsr(
        indptr, indices, M=2, N=8, R=1, C=1, num_qo_heads=4, num_kv_heads=2, head_dim_qk=64, head_dim_vo=64,
        q_dtype=dtype, device=device,
    )  # fmt: skip
    out, lse = outputs(q, v)
    cuda.run_block_sparse(plan, q, k, v, out, lse, sm_scale=0.125)
    check(out, lse, *reference.bsr(q.cpu(), k.cpu(), v.cpu(), indptr, indices, 1, 1, sm_scale=0.125), dtype)


VARIABLE_CASES = [
    # row sizes, column sizes (one list a kv head), Hq
    ([[3, 0, 40, 21], [16, 16, 16, 16]], [[64, 5, 0, 59], [1, 100, 20, 7]], 4),
    ([[70, 30]], [[1] * 60], 2),
    ([[1] * 20], [[33, 31, 64]], 8),
]


@pytest.mark.parametrize("case", VARIABLE_CASES, ids=["ragged", "columns of one", "rows of one"])
@pytest.mark.parametrize("causal", [False, True])
def test_variable(case, causal, dtype, device):
    row_sz, col_sz = torch.tensor(case[0]).int(), torch.tensor(case[1]).int()
    hq, hk, D = case[2], row_sz.shape[0], 64
    gen = torch.Generator().manual_seed(3)
    block_map = torch.rand(hk, row_sz.shape[1], col_sz.shape[1], generator=gen) < 0.6
    block_map[:, -1] = False
    tokens, num_keys = int(row_sz[0].sum()), int(col_sz[0].sum())
    q = make(tokens, hq, D, dtype, device, 1)
    k, v = make(num_keys, hk, D, dtype, device, 2), make(num_keys, hk, D, dtype, device, 3)
    plan = cuda.plan_variable(
        block_map, row_sz, col_sz, num_qo_heads=hq, num_kv_heads=hk, head_dim_qk=D, head_dim_vo=D, q_dtype=dtype,
        causal=causal, device=device,
    )  # fmt: skip
    out, lse = outputs(q, v)
    cuda.run_block_sparse(plan, q, k, v, out, lse, sm_scale=0.125)
    want = reference.variable(q.cpu(), k.cpu(), v.cpu(), block_map, row_sz, col_sz, causal=causal, sm_scale=0.125)
    check(out, lse, *want, dtype)


PREFILL_CASES = [
    {"n": 37, "m": 54, "causal": True},
    {"n": 130, "m": 200, "causal": True},
    {"n": 6, "m": 4, "causal": True},
    {"n": 50, "m": 90, "window_left": 20},
    {"n": 50, "m": 90, "window_left": 0, "causal": True},
    {"n": 3, "m": 5, "mask": "bool"},
    {"n": 37, "m": 54, "mask": "packed", "D": 192, "Dv": 128},
    {"n": 70, "m": 129, "mask": "packed", "window_left": 33},
    {"n": 40, "m": 70, "cap": 4.0, "causal": True},
    {"n": 40, "m": 70, "pos": "ROPE_LLAMA"},
    {"n": 40, "m": 70, "pos": "ALIBI", "causal": True},
    {"n": 1, "m": 300, "hq": 8, "hk": 2},
]


@pytest.mark.parametrize("case", PREFILL_CASES, ids=str)
def test_prefill(case, dtype, device):
    n, m, hq, hk = case["n"], case["m"], case.get("hq", 3), case.get("hk", 1)
    D = case.get("D", 64)
    Dv = case.get("Dv", D)
    # keys in HND memory: the kernel sees strides only
    q = make(n, hq, D, dtype, device, 1)
    k = make(hk, m, D, dtype, device, 2).transpose(0, 1)
    v = make(hk, m, Dv, dtype, device, 3).transpose(0, 1)
    mask = torch.rand(n, m, generator=torch.Generator().manual_seed(4)) < 0.5 if "mask" in case else None
    packed = None
    if case.get("mask") == "packed":
        packed = pack_segments(mask.reshape(1, n, m), torch.tensor([0, 1]), n, m).to(device)
    pos, cap = case.get("pos", "NONE"), case.get("cap", 0.0)
    out, lse = outputs(q, v)
    cuda.run_prefill(
        q, k, v, out, lse, sm_scale=D**-0.5, causal=case.get("causal", False),
        window_left=case.get("window_left", -1), custom_mask=mask.to(device) if case.get("mask") == "bool" else None,
        packed_custom_mask=packed, pos_encoding=pos, logits_soft_cap=cap,
    )  # fmt: skip
    want = reference.prefill(
        q.cpu(), k.cpu(), v.cpu(), causal=case.get("causal", False), window_left=case.get("window_left", -1),
        mask=mask, sm_scale=D**-0.5, cap=cap, rope_args=(1.0, 1e4) if pos == "ROPE_LLAMA" else None,
        slopes=cuda.alibi_slopes(hq, torch.device("cpu")) if pos == "ALIBI" else None,
    )  # fmt: skip
    check(out, lse, *want, dtype, roundings=2 if pos == "ROPE_LLAMA" else 1)


@pytest.mark.parametrize("fault", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["key", "value"])
def test_masked_faults_stay_out_and_seen_ones_show(fault, where, dtype, device):
    n, m, D = 70, 80, 64
    q, k, v = make(n, 2, D, dtype, device, 1), make(m, 1, D, dtype, device, 2), make(m, 1, D, dtype, device, 3)
    (k if where == "key" else v)[60, 0, 7] = fault
    out, lse = outputs(q, v)
    cuda.run_prefill(q, k, v, out, lse, sm_scale=0.125, causal=True)
    seeing = torch.arange(n) + m - n >= 60
    want, _ = reference.prefill(q.cpu(), k.cpu(), v.cpu(), causal=True, sm_scale=0.125)
    out = out.cpu().double()
    assert torch.isfinite(out[~seeing]).all()
    assert (out[~seeing] - want[~seeing]).abs().max() < TOLERANCE[dtype]
    if where == "value":  # exactly the faulty column of the rows that see it
        assert torch.equal(torch.isfinite(out[seeing]), torch.isfinite(want[seeing]))
    elif fault != fault:
        assert torch.isnan(out[seeing]).all()


@pytest.mark.parametrize("fp8", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_fp8_scales(fp8, device):
    n, m, hq, hk, D = 40, 70, 4, 2, 64
    q, k, v = (make(n, hq, D, torch.float32, "cpu", 1).to(fp8), make(m, hk, D, torch.float32, "cpu", 2).to(fp8),
               make(m, hk, D, torch.float32, "cpu", 3).to(fp8))  # fmt: skip
    sq, sk, sv = torch.rand(hq) + 0.5, torch.rand(hk) + 0.5, torch.rand(hk) + 0.5
    out = torch.full((n, hq, D), float("nan"), dtype=torch.float16, device=device)
    lse = torch.full((n, hq), float("nan"), dtype=torch.float32, device=device)
    cuda.run_prefill(
        q.to(device), k.to(device), v.to(device), out, lse, sm_scale=0.125, causal=True, scale_q=sq.to(device),
        scale_k=sk.to(device), scale_v=sv.to(device),
    )  # fmt: skip
    want = reference.prefill(
        q.double() * sq[:, None], k.double() * sk[:, None], v.double() * sv[:, None], causal=True, sm_scale=0.125
    )
    check(out, lse, *want, torch.float16)
