# SPDX-License-Identifier: Apache-2.0
"""Merge attention over parts of the keys, as context parallelism does, from each part's (out, LSE) pair.

The LSE is base 2, as every function of this package returns it. With weights w_i = 2^(lse_i - max lse)

    out = sum_i w_i out_i / sum_i w_i          lse = max lse + log2 sum_i w_i

A part that saw nothing has LSE -inf and weight 0: its output is not looked at. Nothing anywhere gives 0 and -inf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

__all__ = ["merge_state", "merge_state_in_place", "merge_states"]


def _check(pairs: Sequence[tuple[str, torch.Tensor, str, torch.Tensor]]) -> None:
    first = pairs[0]
    for v_name, v, s_name, s in pairs:
        for name, tensor in ((v_name, v), (s_name, s)):
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{name}: expected a Tensor, got {type(tensor).__name__}")
        if s.dtype != torch.float32:
            raise ValueError(f"Invalid dtype of {s_name}: expected {torch.float32}, got {s.dtype}")
        if not v.is_floating_point():
            raise ValueError(f"Invalid dtype of {v_name}: expected a floating one, got {v.dtype}")
        if v.dim() < 1 or s.shape != v.shape[:-1]:
            raise ValueError(f"Invalid shape of {s_name}: expected {tuple(v.shape[:-1])}, {v_name}'s without its last, "
                             f"got {tuple(s.shape)}")  # fmt: skip
        if v.shape != first[1].shape or v.dtype != first[1].dtype:
            raise ValueError(f"Invalid shape or dtype of {v_name}: expected {first[0]}'s {tuple(first[1].shape)} of "
                             f"{first[1].dtype}, got {tuple(v.shape)} of {v.dtype}")  # fmt: skip
        if v.device != first[1].device or s.device != first[1].device:
            raise ValueError(f"Invalid device of {v_name} or {s_name}: expected {first[0]}'s {first[1].device}, "
                             f"got {v.device} and {s.device}")  # fmt: skip


def _merge(v: torch.Tensor, s: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge along `dim` of s [..., states, ...] and v [..., states, ..., D]; float32 inside."""
    peak = s.amax(dim=dim, keepdim=True)
    weights = torch.exp2(s - peak.masked_fill(peak == -math.inf, 0.0))
    total = weights.sum(dim=dim)
    # Weight 0 times a NaN would be NaN: what saw nothing must not matter.
    parts = (weights.unsqueeze(-1) * v.float()).masked_fill((s == -math.inf).unsqueeze(-1), 0.0)
    out = parts.sum(dim=dim) / total.masked_fill(total == 0, 1.0).unsqueeze(-1)
    return out.to(v.dtype), peak.squeeze(dim) + torch.log2(total)


def merge_state(
    v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge attention over two disjoint sets of keys.

    Args:
        v_a, v_b: outputs, [..., head_dim] of one dtype (FlashInfer: [seq_len, num_heads, head_dim]).
        s_a, s_b: their LSEs, float32 [...], base 2.

    Returns:
        v [..., head_dim] of v_a's dtype and s float32 [...].

    Raises:
        TypeError: not Tensors.
        ValueError: shapes, dtypes or devices that do not go together.

    Examples:
        >>> import torch
        >>> from ascend_sparse_attention import merge_state
        >>> v, s = merge_state(torch.ones(1, 4), torch.zeros(1), 3 * torch.ones(1, 4), torch.zeros(1))
        >>> v.tolist(), s.tolist()
        ([[2.0, 2.0, 2.0, 2.0]], [1.0])
    """
    _check((("v_a", v_a, "s_a", s_a), ("v_b", v_b, "s_b", s_b)))
    return _merge(torch.stack([v_a, v_b]), torch.stack([s_a, s_b]), 0)


def merge_state_in_place(
    v: torch.Tensor, s: torch.Tensor, v_other: torch.Tensor, s_other: torch.Tensor, mask: torch.Tensor | None = None
) -> None:
    """merge_state that writes into v and s.

    Args:
        v, s, v_other, s_other: as in `merge_state`.
        mask: bool [seq_len], the first dimension's length: only rows with True are merged. None: all.
    """
    _check((("v", v, "s", s), ("v_other", v_other, "s_other", s_other)))
    merged_v, merged_s = _merge(torch.stack([v, v_other]), torch.stack([s, s_other]), 0)
    if mask is not None:
        if not isinstance(mask, torch.Tensor):
            raise TypeError(f"mask: expected a Tensor, got {type(mask).__name__}")
        if s.dim() == 0:
            raise ValueError("mask: expected None where s has no dimension to pick from, got a Tensor")
        if mask.device != v.device:
            raise ValueError(f"Invalid device of mask: expected v's {v.device}, got {mask.device}")
        if mask.dtype != torch.bool or tuple(mask.shape) != (v.shape[0],):
            raise ValueError(f"Invalid shape or dtype of mask: expected ({v.shape[0]},) of {torch.bool}, "
                             f"got {tuple(mask.shape)} of {mask.dtype}")  # fmt: skip
        merged_v = torch.where(mask.view(-1, *[1] * (v.dim() - 1)), merged_v, v)
        merged_s = torch.where(mask.view(-1, *[1] * (s.dim() - 1)), merged_s, s)
    v.copy_(merged_v)
    s.copy_(merged_s)


def merge_states(v: torch.Tensor, s: torch.Tensor, dim: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge attention over any number of disjoint sets of keys.

    Args:
        v: [seq_len, num_states, num_heads, head_dim], or any [..., num_states, ..., head_dim].
        s: v's shape without the last dimension, float32, base 2.
        dim: the states' dimension, counted in s.

    Returns:
        v and s without the states' dimension.

    Raises:
        TypeError: not Tensors.
        ValueError: shapes, dtypes or devices that do not go together, no state, or no such dimension.
    """
    _check((("v", v, "s", s),))
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"dim: expected an int, got {type(dim).__name__}")
    if not -s.dim() <= dim < s.dim():
        raise ValueError(f"dim: expected a dimension of s, which has {s.dim()}, got {dim}")
    if s.shape[dim] == 0:
        raise ValueError("s: expected at least one state, got 0")
    return _merge(v, s, dim % s.dim())
