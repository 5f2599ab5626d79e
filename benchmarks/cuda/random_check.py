# SPDX-License-Identifier: Apache-2.0
"""Random configurations of the CUDA kernels against float64 on the GPU.

    python benchmarks/cuda/random_check.py [--count 500] [--seed 0]

Sizes, sparsity, strides and data are drawn freely; what a kernel is compiled for (head dims, group, block columns,
options) is drawn from a short list, since each new combination costs a compilation.
"""

from __future__ import annotations

import argparse
import math
import random

import torch
from ascend_sparse_attention.backends import cuda

DEVICE = torch.device("cuda")
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """float64 attention under keep bool [Hk or 1, n, m]: out [n, Hq, Dv], base-2 lse [n, Hq]."""
    hk = k.shape[1]
    qd = q.double().reshape(q.shape[0], hk, -1, q.shape[2])
    s = torch.einsum("nhgd,mhd->hgnm", qd, k.double()) * scale
    s = s.masked_fill(~keep.unsqueeze(1), float("-inf"))
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse.nan_to_num(neginf=0.0).unsqueeze(-1))
    out = torch.einsum("hgnm,mhd->nhgd", p, v.double()).reshape(q.shape[0], -1, v.shape[2])
    return out, lse.permute(2, 0, 1).reshape(q.shape[0], -1) / math.log(2.0)


def strided(rng: random.Random, n: int, heads: int, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """[n, heads, dim] in one of the layouts that callers have: contiguous, heads first, or a slice of a wider row."""
    kind = rng.randrange(3)
    if kind == 0:
        return torch.randn(n, heads, dim, dtype=dtype, device=DEVICE)
    if kind == 1:
        return torch.randn(heads, n, dim, dtype=dtype, device=DEVICE).transpose(0, 1)
    return torch.randn(n, heads, dim + 64, dtype=dtype, device=DEVICE)[..., :dim]


def compare(
    what: str, out: torch.Tensor, lse: torch.Tensor, want: tuple[torch.Tensor, torch.Tensor], dtype: torch.dtype
) -> None:
    want_out, want_lse = want
    empty = want_lse == float("-inf")
    assert torch.equal(lse == float("-inf"), empty), f"{what}: empty rows differ"
    assert (out[empty] == 0).all(), f"{what}: an empty row is not zero"
    error = (out.double() - want_out).abs().max().item()
    assert error < TOLERANCE[dtype], f"{what}: error {error}"
    difference = (lse.double() - want_lse)[~empty].abs()
    assert difference.numel() == 0 or difference.max().item() < 2 * TOLERANCE[dtype], f"{what}: lse"


def outputs(n: int, heads: int, dim: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.full((n, heads, dim), float("nan"), dtype=dtype, device=DEVICE)
    return out, torch.full((n, heads), float("nan"), device=DEVICE)


def check_bsr(rng: random.Random) -> str:
    R, C = rng.choice([(1, 1), (16, 16), (64, 64), (128, 128), (64, 16), (128, 1), (7, 3)])
    group, dim, dtype = rng.choice([1, 4]), rng.choice([64, 128, 128, 256]), rng.choice(list(TOLERANCE))
    hk = rng.randint(1, 3)
    n, m = rng.randint(1, 700), C * rng.randint(1, max(1, 900 // C))
    mb, nb = -(-n // R), m // C
    keep = torch.rand(mb, nb, device=DEVICE) < rng.choice([0.0, 0.05, 0.3, 1.0])
    indptr = torch.nn.functional.pad(keep.sum(1).cumsum(0), (1, 0)).int()
    causal = rng.random() < 0.3
    plan = cuda.plan_bsr(
        indptr, keep.nonzero()[:, 1].int(), M=n, N=m, R=R, C=C, num_qo_heads=hk * group, num_kv_heads=hk,
        head_dim_qk=dim, head_dim_vo=dim, q_dtype=dtype, causal=causal, device=DEVICE,
    )  # fmt: skip
    full = keep.repeat_interleave(R, 0)[:n].repeat_interleave(C, 1)
    if causal:  # on the compacted coordinates of each block row
        local = full.cumsum(1) - 1
        row = torch.arange(n, device=DEVICE)
        rows = torch.clamp(n - row // R * R, max=R)
        full = full & (local + rows[:, None] <= full.sum(1, keepdim=True) + (row % R)[:, None])
    q, k, v = (strided(rng, *x, dim, dtype) for x in ((n, hk * group), (m, hk), (m, hk)))
    out, lse = outputs(n, hk * group, dim, dtype)
    cuda.run_block_sparse(plan, q, k, v, out, lse, sm_scale=dim**-0.5)
    what = f"bsr n {n} m {m} R {R} C {C} hk {hk} group {group} dim {dim} causal {causal} {dtype}"
    compare(what, out, lse, dense(q, k, v, full.unsqueeze(0), dim**-0.5), dtype)
    return what


def check_variable(rng: random.Random) -> str:
    group, dim, dtype, hk = (
        rng.choice([1, 4]),
        rng.choice([64, 128, 128, 256]),
        rng.choice(list(TOLERANCE)),
        rng.randint(1, 3),
    )

    def sizes(total: int, blocks: int) -> torch.Tensor:
        cuts = torch.stack([torch.randint(0, total + 1, (blocks - 1,)).sort().values for _ in range(hk)])
        ends = torch.nn.functional.pad(cuts, (1, 1))
        ends[:, -1] = total
        return ends.diff(dim=1).int()

    n, m = rng.randint(1, 700), rng.randint(1, 1200)
    row_sz, col_sz = sizes(n, rng.randint(1, 20)), sizes(m, rng.choice([1, 5, 40, 400]))
    block_map = torch.rand(hk, row_sz.shape[1], col_sz.shape[1]) < rng.choice([0.0, 0.2, 0.7])
    plan = cuda.plan_variable(
        block_map.to(DEVICE), row_sz.to(DEVICE), col_sz, num_qo_heads=hk * group, num_kv_heads=hk, head_dim_qk=dim,
        head_dim_vo=dim, q_dtype=dtype, device=DEVICE,
    )  # fmt: skip
    keep = torch.stack([
        block_map[h].repeat_interleave(row_sz[h].long(), 0).repeat_interleave(col_sz[h].long(), 1) for h in range(hk)
    ]).to(DEVICE)  # fmt: skip
    q, k, v = (strided(rng, *x, dim, dtype) for x in ((n, hk * group), (m, hk), (m, hk)))
    out, lse = outputs(n, hk * group, dim, dtype)
    cuda.run_block_sparse(plan, q, k, v, out, lse, sm_scale=dim**-0.5)
    what = f"variable n {n} m {m} blocks {tuple(block_map.shape)} group {group} dim {dim} {dtype}"
    compare(what, out, lse, dense(q, k, v, keep, dim**-0.5), dtype)
    return what


def check_prefill(rng: random.Random) -> str:
    group, dtype, hk = rng.choice([1, 4, 7]), rng.choice(list(TOLERANCE)), rng.randint(1, 3)
    dim, dim_v = rng.choice([(64, 64), (128, 128), (192, 128)])
    n, m = rng.randint(1, 600), rng.randint(1, 900)
    causal, window = rng.random() < 0.5, rng.choice([-1, -1, rng.randint(0, m)])
    mask = torch.rand(n, m, device=DEVICE) < 0.5 if rng.random() < 0.3 else None
    q, k = (strided(rng, *x, dim, dtype) for x in ((n, hk * group), (m, hk)))
    v = strided(rng, m, hk, dim_v, dtype)
    row, col = torch.arange(n, device=DEVICE)[:, None], torch.arange(m, device=DEVICE)[None]
    keep = (
        mask if mask is not None else (col + n <= m + row) if causal else torch.ones_like(col + row, dtype=torch.bool)
    )
    if window >= 0:
        keep = keep & (col >= m - n + row - window)
    out, lse = outputs(n, hk * group, dim_v, dtype)
    cuda.run_prefill(q, k, v, out, lse, sm_scale=dim**-0.5, causal=causal, window_left=window, custom_mask=mask)
    what = (
        f"prefill n {n} m {m} group {group} dims {dim}/{dim_v} causal {causal} window {window} mask {mask is not None}"
    )
    compare(what, out, lse, dense(q, k, v, keep.unsqueeze(0), dim**-0.5), dtype)
    return what


def check_sparse(rng: random.Random) -> str:
    dtype, layout, causal = rng.choice(list(TOLERANCE)), rng.choice(["BSND", "BNSD"]), rng.random() < 0.5
    dim, dim_v, group, aliased = rng.choice(
        [(576, 512, 128, True), (512, 512, 64, True), (576, 512, 40, True), (512, 512, 16, True), (128, 128, 4, False),
         (192, 128, 8, False), (64, 64, 5, False)]
    )  # fmt: skip
    hk = 1 if dim > 256 else rng.randint(1, 3)
    B, S2 = rng.randint(1, 3), rng.randint(1, 700)
    S1, top = rng.randint(1, min(S2, 6)), rng.randint(1, S2)
    q, k, v = (torch.randn(B, s, h, d, dtype=dtype, device=DEVICE)
               for s, h, d in ((S1, hk * group, dim), (S2, hk, dim), (S2, hk, dim_v)))  # fmt: skip
    idx = torch.rand(B, S1, hk, S2, device=DEVICE).argsort(-1)[..., :top].int()
    idx[torch.rand_like(idx, dtype=torch.float32) < rng.choice([0.0, 0.1])] = rng.choice([-1, S2, 2**31 - 1])
    if layout == "BNSD":
        q, k, v, idx = (x.transpose(1, 2).contiguous() for x in (q, k, v, idx))
    if aliased:
        v = k[..., :dim_v]
    out = torch.full((*q.shape[:3], dim_v), float("nan"), dtype=dtype, device=DEVICE)
    lse = torch.full(q.shape[:3], float("nan"), device=DEVICE)
    cuda.run_sparse_flash_attention(q, k, v, idx, out, lse, scale=dim**-0.5, layout=layout, is_causal=causal)
    what = f"sparse B {B} S1 {S1} S2 {S2} top {top} dims {dim}/{dim_v} group {group} {layout} causal {causal} {dtype}"
    if layout == "BNSD":
        q, k, v, idx, out, lse = (x.transpose(1, 2) for x in (q, k, v, idx, out, lse))
    for b in range(B):
        for s in range(S1):
            ok = (idx[b, s] >= 0) & (idx[b, s] < S2)
            if causal:
                ok &= idx[b, s] <= s + S2 - S1
            keep = torch.zeros(hk, S2 + 1, dtype=torch.bool, device=DEVICE)
            keep.scatter_(1, torch.where(ok, idx[b, s], S2).long(), True)
            want = dense(q[b, s : s + 1], k[b], v[b], keep[:, None, :S2], dim**-0.5)
            compare(f"{what} b {b} s {s}", out[b, s : s + 1], lse[b, s : s + 1], want, dtype)
    return what


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "random_check.py: expected a CUDA GPU, and PyTorch sees none\n")
    kinds = (check_bsr, check_variable, check_prefill, check_sparse)
    failures = 0
    for i in range(options.count):
        rng = random.Random(options.seed * 1_000_003 + i)
        torch.manual_seed(i)
        try:
            kinds[i % len(kinds)](rng)
        except AssertionError as error:
            failures += 1
            print(f"seed {options.seed} number {i}: {error}", flush=True)
        if i % 100 == 99:
            print(f"seed {options.seed}: {i + 1} run, {failures} failed", flush=True)
    print(f"{options.count - failures} of {options.count} random configurations within tolerance")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
