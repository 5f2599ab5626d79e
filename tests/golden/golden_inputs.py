# SPDX-License-Identifier: Apache-2.0
"""Inputs for the golden's tests."""

from __future__ import annotations

import torch


def call(
    B: int = 1,
    S1: int = 4,
    S2: int = 16,
    N1: int = 2,
    N2: int = 1,
    Dk: int = 64,
    Dv: int = 64,
    topK: int = 5,
    layout: str = "BSND",
    dtype: torch.dtype = torch.float16,
    seed: int = 0,
    scale: float = 0.125,
    causal: bool = False,
    shared: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float, str, bool]:
    """Arguments of a call: values in [-1, 1], unique indices, value the prefix of key unless `shared` is False."""
    g = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return (torch.rand(shape, generator=g) * 2 - 1).to(dtype)

    q, k, v = uniform(B, S1, N1, Dk), uniform(B, S2, N2, Dk), uniform(B, S2, N2, Dv)
    if shared:
        v = k[..., :Dv].clone()
    idx = torch.rand(B, S1, N2, S2, generator=g).argsort(-1)[..., :topK].to(torch.int32)
    tensors = [q, k, v, idx]
    if layout == "BNSD":
        tensors = [t.transpose(1, 2).contiguous() for t in tensors]
    return (*tensors, scale, layout, causal)


def with_indices(
    args: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float, str, bool], rows: list[list[int]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float, str, bool]:
    """The same call (B = N2 = 1) with the slots of each query position written out."""
    q, k, v, _, scale, layout, causal = args
    idx = torch.tensor(rows, dtype=torch.int32)
    return q, k, v, idx[None, :, None] if layout == "BSND" else idx[None, None], scale, layout, causal
