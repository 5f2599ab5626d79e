# SPDX-License-Identifier: Apache-2.0
"""Small problems and a slow, obviously right reference, shared by the tests of every room."""

from __future__ import annotations

import math

import torch


def make_inputs(
    B=1,
    S1=3,
    S2=40,
    N1=4,
    N2=2,
    Dk=64,
    Dv=64,
    topK=8,
    layout="BSND",
    dtype=torch.float16,
    seed=0,
    prefix=True,
):
    """query, key, value, sparseIndices of a small problem; unique indices; value is key's prefix view if `prefix`."""
    g = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return (torch.rand(*shape, generator=g) * 2 - 1).to(dtype)

    bnsd = layout == "BNSD"
    query = rand(B, N1, S1, Dk) if bnsd else rand(B, S1, N1, Dk)
    key = rand(B, N2, S2, Dk) if bnsd else rand(B, S2, N2, Dk)
    value = key[..., :Dv] if prefix else (rand(B, N2, S2, Dv) if bnsd else rand(B, S2, N2, Dv))
    lead = (B, N2, S1) if bnsd else (B, S1, N2)
    indices = torch.rand(*lead, S2, generator=g).argsort(-1)[..., :topK].to(torch.int32).contiguous()
    return query, key, value, indices


def reference(query, key, value, indices, scale, layout="BSND", is_causal=False):
    """Row by row in float64: only selected rows are ever read. Returns float64 (out, lse base 2) in the layout."""
    if layout == "BSND":
        query, key, value, indices = (t.transpose(1, 2) for t in (query, key, value, indices))
    B, N1, S1, _ = query.shape
    N2, S2, Dv = key.shape[1], key.shape[2], value.shape[-1]
    out = torch.zeros(B, N1, S1, Dv, dtype=torch.float64)
    lse = torch.full((B, N1, S1), -math.inf, dtype=torch.float64)
    for b in range(B):
        for n1 in range(N1):
            n2 = n1 // (N1 // N2)
            for s1 in range(S1):
                picked = [
                    i for i in indices[b, n2, s1].tolist() if 0 <= i < S2 and not (is_causal and i > s1 + S2 - S1)
                ]
                if not picked:
                    continue
                scores = key[b, n2, picked].double() @ query[b, n1, s1].double() * scale
                weights = torch.softmax(scores, 0)
                out[b, n1, s1] = weights @ value[b, n2, picked].double()
                lse[b, n1, s1] = torch.logsumexp(scores, 0) / math.log(2)
    if layout == "BSND":
        return out.transpose(1, 2), lse.transpose(1, 2)
    return out, lse


def assert_close(actual, expected, dtype):
    """Within one rounding of the io dtype, plus what float32 accumulation may add near zero."""
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(actual.double(), expected, rtol=eps, atol=2e-6 + eps / 64, equal_nan=True)
