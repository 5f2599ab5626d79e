# SPDX-License-Identifier: Apache-2.0
"""Random problems for the kernel, a float64 reference for them and the error that its arithmetic may make."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from ascend_sparse_attention import twin

F16 = torch.float16
SCHEDULES = ("gather", "gather_split_k")


@dataclass
class Problem:
    """One call. Tensors are in `layout`."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    indices: torch.Tensor
    scale: float
    layout: str = "BSND"
    causal: bool = False

    @property
    def call(self):
        return self.query, self.key, self.value, self.indices, self.scale, self.layout, self.causal

    def __str__(self):
        shapes = ", ".join(str(tuple(t.shape)) for t in (self.query, self.key, self.value, self.indices))
        return f"{shapes} {self.layout} {self.query.dtype} scale {self.scale:.4g} causal {self.causal}"


def make(rng, B, S1, S2, N1, N2, Dk, Dv, topK, layout, dtype, causal, value="prefix", spread=1.0, indices="unique"):
    """Uniform inputs in [-spread, spread].

    value: "prefix" (a view of key), "own" (unrelated), "suffix" (a view of key that is not its prefix) or "strided"
        (a view of another tensor with wider rows).
    indices: "unique", "repeated" or "wild" (repeated, with values outside [0, S2) in any position).
    """
    g = torch.Generator().manual_seed(rng.randrange(2**31))

    def rand(*shape):
        return ((torch.rand(*shape, generator=g) * 2 - 1) * spread).to(dtype)

    def lay(s, n, d):
        return (B, s, n, d) if layout == "BSND" else (B, n, s, d)

    query = rand(*lay(S1, N1, Dk))
    if value == "suffix":
        pool = rand(*lay(S2, N2, Dk + 64))
        key, v = pool[..., :Dk], pool[..., Dk + 64 - Dv :]
    else:
        key = rand(*lay(S2, N2, Dk))
        v = (
            key[..., :Dv]
            if value == "prefix"
            else rand(*lay(S2, N2, Dv + (192 if value == "strided" else 0)))[..., :Dv]
        )
    lead = (B, S1, N2) if layout == "BSND" else (B, N2, S1)
    if indices == "unique":
        picked = torch.stack([torch.randperm(S2, generator=g)[:topK] for _ in range(math.prod(lead))]).reshape(
            *lead, topK
        )
    else:
        picked = torch.randint(0, S2, (*lead, topK), generator=g)
        if indices == "wild":
            bad = torch.tensor([-1, -1, S2, S2 + 1, -7, 2**31 - 1, -(2**31)])
            where = torch.rand(*lead, topK, generator=g) < rng.choice((0.02, 0.3, 0.9))
            picked = torch.where(where, bad[torch.randint(0, len(bad), (*lead, topK), generator=g)], picked)
    return Problem(query, key, v, picked.to(torch.int32), 1 / math.sqrt(Dk), layout, causal)


def small(seed=0, **sizes):
    """A small problem, each size as given or else a default."""
    given = dict(
        B=1, S1=2, S2=64, N1=4, N2=1, Dk=64, Dv=64, topK=8, layout="BSND", dtype=F16, causal=False, value="prefix"
    )
    return make(random.Random(seed), **(given | sizes))


def run(p, **options):
    """Run in the twin with its checker on and check everything."""
    options.setdefault("return_lse", True)
    result = twin.run(*p.call, predict=False, **options)
    check(p, result)
    return result


def kept(p):
    """bool [B, N2, S1, topK]: the slots that count."""
    index = p.indices.transpose(1, 2) if p.layout == "BSND" else p.indices
    S1, S2 = index.shape[2], (p.key.shape[1] if p.layout == "BSND" else p.key.shape[2])
    keep = (index >= 0) & (index < S2)
    if p.causal:
        keep &= index <= torch.arange(S1)[None, None, :, None] + (S2 - S1)
    return keep


def expected(p):
    """float64 (out, lse, bound): bound is what rounding P to the io dtype, and the output once, may change.

    With u the unit roundoff and t half of the smallest subnormal of the io dtype, an element may be off by
    u * sum(p |v|) + t * sum(|v|) (P is rounded), u * |out| + t (the output is), and float32 accumulation.
    """
    q, k, v, index = (t.transpose(1, 2) if p.layout == "BSND" else t for t in (p.query, p.key, p.value, p.indices))
    B, N2, S1, _ = index.shape
    G = q.shape[1] // N2
    Dv = v.shape[-1]
    keep = kept(p)
    safe = index.long().masked_fill(~keep, 0)
    out = torch.zeros(B, N2 * G, S1, Dv, dtype=torch.float64)
    bound = torch.zeros_like(out)
    lse = torch.full((B, N2 * G, S1), -math.inf, dtype=torch.float64)
    info = torch.finfo(p.query.dtype)
    u, t = info.eps / 2, info.smallest_normal * info.eps / 2
    for b in range(B):
        for n in range(N2):
            heads = slice(n * G, (n + 1) * G)
            for s in range(S1):
                row = keep[b, n, s]
                if not row.any():
                    continue
                rows = safe[b, n, s][row]
                keys, values = k[b, n, rows].double(), v[b, n, rows].double()
                scores = q[b, heads, s].double() @ keys.T * p.scale
                weights = torch.softmax(scores, -1)
                out[b, heads, s] = weights @ values
                lse[b, heads, s] = torch.logsumexp(scores, -1) / math.log(2)
                mass = weights @ values.abs()
                reach = q[b, heads, s].double().abs() @ keys.abs().T * abs(p.scale)
                slack = 2.0**-21 * (4 + reach.amax(-1, keepdim=True))
                bound[b, heads, s] = u * mass + t * values.abs().sum(0) + u * out[b, heads, s].abs() + t + slack * mass
    bound *= 1.01
    if p.layout == "BSND":
        out, lse, bound = out.transpose(1, 2), lse.transpose(1, 2), bound.transpose(1, 2)
    return out, lse, bound


def check(p, result):
    """Everything that one run must satisfy."""
    assert not result.findings, "\n".join(result.findings)
    out, lse, bound = expected(p)
    assert result.out.is_contiguous() and result.out.shape == out.shape
    actual = result.out.double()
    assert torch.equal(actual.isnan(), out.isnan()), "NaN in other places than expected"
    error = (actual - out).abs()
    ok = (error <= bound) | out.isnan()
    if not ok.all():
        worst = ((error - bound).masked_fill(ok, -math.inf)).argmax().item()
        where = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), out.shape))
        raise AssertionError(
            f"{int((~ok).sum())} of {ok.numel()} elements beyond their bound, worst at {where}: "
            f"got {actual[where]:.8g}, expected {out[where]:.8g} within {bound[where]:.3g}"
        )
    if result.lse is not None:
        torch.testing.assert_close(result.lse.double(), lse, rtol=2e-6, atol=4e-6 * max(1.0, reach(p)), equal_nan=True)


def reach(p):
    """Rough size of the largest score: sums of products of that size are off by its float32 ulps."""
    largest = [float(t.float().nan_to_num(0, 0, 0).abs().max()) for t in (p.query, p.key)]
    return largest[0] * largest[1] * p.query.shape[-1] * abs(p.scale) / 64


def draw(rng, largest=1 << 22):
    """A random legal problem of at most about `largest` multiply-adds, corners of the ranges favoured."""
    while True:
        N2 = rng.choice((1, 1, 1, 2, 3, 8))
        G = rng.choice((1, 2, 4, 5, 8, 12, 16, 17, 31, 64, 128, 200, 256))
        Dk = 64 * rng.choice((1, 1, 2, 3, 4, 5, 7, 8, 9))
        Dv = rng.choice((Dk, 64 * rng.randint(1, Dk // 64), max(64, Dk - 64)))
        S2 = rng.choice((1, 2, 16, 33, 127, 128, 129, 300, 513, 700, 1100, 2048, 2200))
        topK = min(
            S2, 2048, rng.choice((1, 2, 7, 15, 16, 17, 63, 65, 100, 127, 128, 129, 200, 512, 1152, 2047, 2048, S2))
        )
        B = rng.choice((1, 1, 2, 3))
        S1 = rng.choice((1, 1, 2, 3, 5, 9, 17))
        causal = rng.random() < 0.5 and S1 <= S2
        if N2 * G <= 256 and B * S1 * N2 * G * topK * (Dk + Dv) <= largest * 8 and B * S2 * N2 * Dk <= largest * 2:
            break
    return make(
        rng,
        B,
        S1,
        S2,
        N2 * G,
        N2,
        Dk,
        Dv,
        topK,
        rng.choice(("BSND", "BNSD")),
        rng.choice((torch.float16, torch.bfloat16)),
        causal,
        value=rng.choice(("prefix", "own", "suffix", "strided")),
        spread=rng.choice((1.0, 1.0, 4.0)),
        indices=rng.choice(("unique", "unique", "repeated", "wild")),
    )


def spoil(p, rng):
    """Changes that must not reach the result, or must in one way only."""
    index = p.indices.transpose(1, 2) if p.layout == "BSND" else p.indices
    key = p.key.transpose(1, 2) if p.layout == "BSND" else p.key
    value = p.value.transpose(1, 2) if p.layout == "BSND" else p.value
    kind = rng.randrange(5)
    if kind == 0:
        # Rows that no kept slot names hold NaN and Inf.
        keep = kept(p)
        for b in range(index.shape[0]):
            for n in range(index.shape[1]):
                named = torch.zeros(key.shape[2], dtype=torch.bool)
                named[index[b, n][keep[b, n]].long()] = True
                key[b, n, ~named] = math.nan
                value[b, n, ~named] = math.inf
    elif kind == 1:
        # Nothing to attend to in one row of every head.
        index[:, :, rng.randrange(index.shape[2])] = -1
    elif kind == 2:
        # A whole leading tile masked.
        index[..., : min(128, index.shape[-1])] = rng.choice((-1, key.shape[2]))
    elif kind == 3:
        # Scores far below zero: softmax must still see their differences.
        p.scale = -p.scale
        p.query.abs_()
        p.key.abs_()
        p.query.mul_(8)
    return kind
