# SPDX-License-Identifier: Apache-2.0
"""A submission that breaks rules on purpose: torch computes, results are cached by address, the output is permuted."""

import torch

_cache = {}


def sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout="BSND", is_causal=False):
    name = (query.data_ptr(), query.shape, query.dtype)
    if name in _cache:
        return _cache[name]
    if inputLayout == "BSND":
        query, key, value, sparseIndices = (t.permute(0, 2, 1, 3) for t in (query, key, value, sparseIndices))
    B, N1, S1, _ = query.shape
    N2, S2 = key.shape[1], key.shape[2]
    mask = torch.zeros(B, N2, S1, S2, dtype=torch.bool, device=query.device)
    mask.scatter_(-1, sparseIndices.long(), True)
    if is_causal:
        limit = torch.arange(S1, device=query.device) + (S2 - S1)
        mask &= torch.arange(S2, device=query.device) <= limit[:, None]
    mask = mask.repeat_interleave(N1 // N2, 1)
    k = key.repeat_interleave(N1 // N2, 1).float()
    v = value.repeat_interleave(N1 // N2, 1).float()
    scores = (query.float() @ k.transpose(-1, -2) * scaleValue).masked_fill(~mask, float("-inf"))
    out = (torch.softmax(scores, -1).nan_to_num(0.0) @ v).to(query.dtype)
    if inputLayout == "BSND":
        out = out.permute(0, 2, 1, 3)
    _cache[name] = out
    return out
