# SPDX-License-Identifier: Apache-2.0
"""References written as the formulas read, one Python float at a time; slow, and sharing no code with golden/."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch


def fsum(terms: list[float]) -> float:
    """Exact sum; NaN where the terms hold NaN or both infinities, as in IEEE arithmetic."""
    try:
        return math.fsum(terms)
    except ValueError:  # inf - inf
        return math.nan


def attend(logits: list[float], values: list[list[float]], width: int) -> tuple[list[float], float]:
    """Softmax of `logits` over `values`; nothing to attend gives zeros and -inf. LSE in base 2."""
    if not logits:
        return [0.0] * width, -math.inf
    if any(math.isnan(x) for x in logits) or math.isinf(max(logits)):
        return [math.nan] * width, math.nan
    peak = max(logits)
    weights = [math.exp(x - peak) for x in logits]
    total = math.fsum(weights)
    out = [fsum([w * v[d] for w, v in zip(weights, values)]) / total for d in range(width)]
    return out, (peak + math.log(total)) / math.log(2)


def sfa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    indices: torch.Tensor,
    scale: float,
    layout: str = "BSND",
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """sparse_flash_attention, slot by slot; out [B, S1, N1, Dv] or [B, N1, S1, Dv] float64 and its LSE."""
    if layout == "BNSD":
        out, lse = sfa(*(t.transpose(1, 2) for t in (query, key, value, indices)), scale, "BSND", causal)
        return out.transpose(1, 2), lse.transpose(1, 2)
    B, S1, N1, Dk = query.shape
    S2, N2, Dv = key.shape[1], key.shape[2], value.shape[3]
    q, k, v, idx = (t.tolist() for t in (query.double(), key.double(), value.double(), indices))
    out = torch.empty(B, S1, N1, Dv, dtype=torch.float64)
    lse = torch.empty(B, S1, N1, dtype=torch.float64)
    for b in range(B):
        for s1 in range(S1):
            for n1 in range(N1):
                n2 = n1 // (N1 // N2)
                logits, rows = [], []
                for i in idx[b][s1][n2]:
                    if not 0 <= i < S2 or (causal and i > s1 + S2 - S1):
                        continue
                    logits.append(fsum([q[b][s1][n1][d] * k[b][i][n2][d] for d in range(Dk)]) * scale)
                    rows.append(v[b][i][n2])
                row, row_lse = attend(logits, rows, Dv)
                out[b, s1, n1] = torch.tensor(row, dtype=torch.float64)
                lse[b, s1, n1] = row_lse
    return out, lse


def rope(x: list[float], position: float, theta: float) -> list[float]:
    """Llama rotation of one vector at `position` (already divided by the scale)."""
    D = len(x)
    out = list(x)
    for d in range(D // 2):
        angle = position * theta ** (-2.0 * d / D)
        a, b = x[d], x[d + D // 2]
        out[d] = a * math.cos(angle) - b * math.sin(angle)
        out[d + D // 2] = b * math.cos(angle) + a * math.sin(angle)
    return out


def slope(head: int, heads: int) -> float:
    """ALiBi slope of one head, after the recipe of the ALiBi paper's reference."""

    def power_of_two(n: int) -> list[float]:
        first = 2.0 ** (-(2.0 ** -(math.log2(n) - 3)))
        return [first ** (i + 1) for i in range(n)]

    def all_slopes(n: int) -> list[float]:
        if math.log2(n).is_integer():
            return power_of_two(n)
        below = 2 ** math.floor(math.log2(n))
        return power_of_two(below) + all_slopes(2 * below)[0::2][: n - below]

    return all_slopes(heads)[head]


def prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: Callable[[int, int], bool],
    *,
    sm_scale: float | None = None,
    cap: float = 0.0,
    mode: str = "NONE",
    rope_scale: float = 1.0,
    rope_theta: float = 1e4,
    scale_q: list[float] | None = None,
    scale_k: list[float] | None = None,
    scale_v: list[float] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Dense attention q [qo, Hq, D] over k, v [kv, Hkv, ...] where keep(i, j); out [qo, Hq, Dv] and lse [qo, Hq]."""
    qo, Hq, D = q.shape
    kv, Hkv, Dv = v.shape
    ql, kl, vl = (t.double().tolist() for t in (q, k, v))
    out = torch.empty(qo, Hq, Dv, dtype=torch.float64)
    lse = torch.empty(qo, Hq, dtype=torch.float64)
    for i in range(qo):
        for h in range(Hq):
            hk = h // (Hq // Hkv)
            logits, rows = [], []
            for j in range(kv):
                if not keep(i, j):
                    continue
                a, b = ql[i][h], kl[j][hk]
                if mode == "ROPE_LLAMA":
                    a, b = rope(a, (kv - qo + i) / rope_scale, rope_theta), rope(b, j / rope_scale, rope_theta)
                x = fsum([a[d] * b[d] for d in range(D)]) * (sm_scale if sm_scale is not None else D**-0.5)
                x *= (scale_q[h] if scale_q else 1.0) * (scale_k[hk] if scale_k else 1.0)
                if cap > 0:
                    x = cap * math.tanh(x / cap)
                if mode == "ALIBI":
                    x += slope(h, Hq) * (j - i)
                logits.append(x)
                rows.append([element * (scale_v[hk] if scale_v else 1.0) for element in vl[j][hk]])
            row, row_lse = attend(logits, rows, Dv)
            out[i, h] = torch.tensor(row, dtype=torch.float64)
            lse[i, h] = row_lse
    return out, lse
