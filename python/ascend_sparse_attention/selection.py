# SPDX-License-Identifier: Apache-2.0
"""Which slots of sparseIndices take part: the index policy and the causal rule, in one place.

* An index outside [0, S2), -1 included, in any position, is masked and never dereferenced.
* A repeated index counts as often as it stands (gather semantics).
* Causal is aligned to the bottom right of the [S1, S2] matrix: slot i of query s1 is kept iff
  idx <= s1 + (S2 - S1). (The operator description, section 1.)
"""

from __future__ import annotations

import os

import torch

from .layout import as_bnsd


def causal_limit(s1: int, S1: int, S2: int) -> int:
    """Largest key position that query position `s1` may attend to under the causal rule."""
    return s1 + (S2 - S1)


def kept_slots(indices: torch.Tensor, s1_start: int, S1: int, S2: int, is_causal: bool) -> torch.Tensor:
    """Bool mask of the slots that take part.

    Args:
        indices: int tensor [..., rows, topK]; row r belongs to query position `s1_start + r`.
        s1_start: query position of the first row.
        S1, S2: query and key lengths of the whole call.
        is_causal: whether the causal rule applies.

    Returns:
        Bool tensor of the shape of `indices`.
    """
    keep = (indices >= 0) & (indices < S2)
    if is_causal:
        rows = indices.shape[-2]
        limit = torch.arange(s1_start, s1_start + rows, device=indices.device) + (S2 - S1)
        keep &= indices <= limit.unsqueeze(-1)
    return keep


def index_check_requested(check_indices: bool | None) -> bool:
    """The caller's word, or the environment variable ASA_CHECK_INDICES (0/1) where the caller gave none."""
    if check_indices is not None:
        return check_indices
    word = os.environ.get("ASA_CHECK_INDICES", "0")
    if word not in ("0", "1", ""):
        raise ValueError(f"ASA_CHECK_INDICES: expected 0 or 1, got {word!r}")
    return word == "1"


def check_index_values(sparseIndices: torch.Tensor, S2: int, layout: str) -> None:
    """Raise ValueError naming the first index outside [0, S2) by its (b, n2, s1, slot).

    Reads the tensor, so it synchronises a device.
    """
    if sparseIndices.device.type == "meta":
        raise ValueError("sparseIndices: expected values to check (check_indices), got a meta tensor, which has none")
    indices = as_bnsd(sparseIndices, layout)
    bad = (indices < 0) | (indices >= S2)
    count = int(bad.sum())
    if count:
        b, n2, s1, slot = (int(i) for i in torch.nonzero(bad)[0])
        raise ValueError(
            f"sparseIndices: expected values in [0, S2 = {S2}), got {int(indices[b, n2, s1, slot])} "
            f"at (b = {b}, n2 = {n2}, s1 = {s1}, slot = {slot}); {count} such in all"
        )
