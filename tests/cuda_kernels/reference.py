# SPDX-License-Identifier: Apache-2.0
"""float64 references of the block kernels, written row by row so that a masked key is truly skipped."""

from __future__ import annotations

import math

import torch


def rope(x: torch.Tensor, position: torch.Tensor, scale: float, theta: float) -> torch.Tensor:
    """Half-split rotary embedding of x [n, D] at `position` [n], float64."""
    half = x.shape[-1] // 2
    freq = theta ** (-2.0 * torch.arange(half, dtype=torch.float64) / x.shape[-1]) / scale
    angle = position.double()[:, None] * freq
    c, s = angle.cos(), angle.sin()
    a, b = x[:, :half], x[:, half:]
    return torch.cat([a * c - b * s, b * c + a * s], dim=1)


def attend_stream(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    keep: torch.Tensor,
    *,
    sm_scale: float,
    cap: float = 0.0,
    slope: float | None = None,
    rope_args: tuple[float, float] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One head's rows q [n, D] over a stream of keys [m, D], values [m, Dv]; keep bool [n, m]. Returns out, base-2 LSE.

    Row i and stream position j are the coordinates of RoPE and ALiBi; the stream's end is aligned to the rows' end.
    """
    n, m = q.shape[0], keys.shape[0]
    q, keys, values = q.double(), keys.double(), values.double()
    if rope_args is not None:
        q = rope(q, m - n + torch.arange(n), *rope_args)
        keys = rope(keys, torch.arange(m), *rope_args)
    out = torch.zeros(n, values.shape[1], dtype=torch.float64)
    lse = torch.full((n,), float("-inf"), dtype=torch.float64)
    for i in range(n):
        sel = keep[i].nonzero()[:, 0]
        if sel.numel() == 0:
            continue
        s = (keys[sel] @ q[i]) * sm_scale
        if cap > 0:
            s = cap * torch.tanh(s / cap)
        if slope is not None:
            s = s + slope * (sel - i).double()
        p = torch.softmax(s, 0)
        out[i] = p @ values[sel]
        lse[i] = torch.logsumexp(s, 0) / math.log(2.0)
    return out, lse


def causal_keep(n: int, m: int) -> torch.Tensor:
    """Bottom-right causal rule: key j is kept for row i iff j + n <= m + i."""
    return torch.arange(m)[None, :] + n <= m + torch.arange(n)[:, None]


def prefill(q, k, v, *, causal=False, window_left=-1, mask=None, slopes=None, **logits):
    """q [n, Hq, D], k [m, Hk, D], v [m, Hk, Dv] -> out [n, Hq, Dv], lse [n, Hq], float64."""
    n, hq, _ = q.shape
    m, hk, _ = k.shape
    keep = torch.ones(n, m, dtype=torch.bool)
    if mask is not None:
        keep &= mask
    elif causal:
        keep &= causal_keep(n, m)
    if window_left >= 0:
        keep &= torch.arange(m)[None, :] >= m - n + torch.arange(n)[:, None] - window_left
    out = torch.zeros(n, hq, v.shape[2], dtype=torch.float64)
    lse = torch.zeros(n, hq, dtype=torch.float64)
    for h in range(hq):
        kv = h // (hq // hk)
        slope = None if slopes is None else float(slopes[h])
        out[:, h], lse[:, h] = attend_stream(q[:, h], k[:, kv], v[:, kv], keep, slope=slope, **logits)
    return out, lse


def bsr(q, k, v, indptr, indices, R, C, *, mask=None, causal=False, slopes=None, **logits):
    """mask bool [nnz, R, C]. Coordinates are local to a block row, as the wrapper documents."""
    M, hq, _ = q.shape
    hk = k.shape[1]
    out = torch.zeros(M, hq, v.shape[2], dtype=torch.float64)
    lse = torch.full((M, hq), float("-inf"), dtype=torch.float64)
    for i in range(indptr.numel() - 1):
        r0, r1 = i * R, min(M, (i + 1) * R)
        blocks = indices[indptr[i] : indptr[i + 1]].long()
        cols = (blocks[:, None] * C + torch.arange(C)).reshape(-1)
        keep = torch.ones(r1 - r0, cols.numel(), dtype=torch.bool)
        if mask is not None:
            keep = mask[indptr[i] : indptr[i + 1]].transpose(0, 1).reshape(R, -1)[: r1 - r0]
        elif causal:
            keep = causal_keep(r1 - r0, cols.numel())
        for h in range(hq):
            kv = h // (hq // hk)
            slope = None if slopes is None else float(slopes[h])
            out[r0:r1, h], lse[r0:r1, h] = attend_stream(
                q[r0:r1, h], k[cols, kv], v[cols, kv], keep, slope=slope, **logits
            )
    return out, lse


def variable(q, k, v, block_map, row_sz, col_sz, *, causal=False, slopes=None, **logits):
    """q [tokens, Hq, D] and so on; block_map bool [Hk, MB, NB], row_sz [Hk, MB], col_sz [Hk, NB]."""
    tokens, hq, _ = q.shape
    hk = k.shape[1]
    out = torch.zeros(tokens, hq, v.shape[2], dtype=torch.float64)
    lse = torch.full((tokens, hq), float("-inf"), dtype=torch.float64)
    for kv in range(hk):
        col_start = col_sz[kv].cumsum(0) - col_sz[kv]
        r0 = 0
        for i in range(row_sz.shape[1]):
            r1 = r0 + int(row_sz[kv, i])
            pieces = [
                torch.arange(int(col_start[j]), int(col_start[j] + col_sz[kv, j]))
                for j in block_map[kv, i].nonzero()[:, 0]
            ]
            cols = torch.cat(pieces) if pieces else torch.zeros(0, dtype=torch.long)
            keep = causal_keep(r1 - r0, cols.numel()) if causal else torch.ones(r1 - r0, cols.numel()).bool()
            for h in range(kv * (hq // hk), (kv + 1) * (hq // hk)):
                slope = None if slopes is None else float(slopes[h])
                out[r0:r1, h], lse[r0:r1, h] = attend_stream(
                    q[r0:r1, h], k[cols, kv], v[cols, kv], keep, slope=slope, **logits
                )
            r0 = r1
    return out, lse


def sparse(q, k, v, idx, scale, layout="BSND", is_causal=False):
    """sparse_flash_attention, float64: gather semantics, out-of-range indices masked, empty rows zero and -inf."""
    if layout == "BSND":
        q, k, v, idx = (x.transpose(1, 2) for x in (q, k, v, idx))
    B, N1, S1, _ = q.shape
    N2, S2 = k.shape[1], k.shape[2]
    out = torch.zeros(B, N1, S1, v.shape[3], dtype=torch.float64)
    lse = torch.full((B, N1, S1), float("-inf"), dtype=torch.float64)
    for b in range(B):
        for n1 in range(N1):
            n2 = n1 // (N1 // N2)
            for s1 in range(S1):
                i = idx[b, n2, s1].long()
                i = i[(i >= 0) & (i < S2)]
                if is_causal:
                    i = i[i <= s1 + S2 - S1]
                keep = torch.ones(1, i.numel(), dtype=torch.bool)
                o, e = attend_stream(q[b, n1, s1 : s1 + 1], k[b, n2, i], v[b, n2, i], keep, sm_scale=scale)
                out[b, n1, s1], lse[b, n1, s1] = o[0], e[0]
    if layout == "BSND":
        return out.transpose(1, 2), lse.transpose(1, 2)
    return out, lse
