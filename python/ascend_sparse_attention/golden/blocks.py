# SPDX-License-Identifier: Apache-2.0
"""How the goldens cut a sparse_flash_attention call into blocks that fit a memory bound.

A block is one (b, n2) pair and a run of query positions; it carries the G query heads that share the pair's keys.
Every streaming golden cuts by :func:`plan_blocks`, so that two of them under the same bound yield block for block
the same slices and can be compared without either output being held whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..layout import SfaProblem, as_bnsd

#: Default bound on what a golden allocates beside its inputs and a whole output, in bytes.
DEFAULT_MEMORY_LIMIT_BYTES = 1 << 30

#: Output rows of one block stay below this many bytes of float64: larger blocks gain nothing and cost the consumer.
_BLOCK_OUTPUT_BYTES = 16 << 20


@dataclass(frozen=True)
class BlockIndex:
    """Where a block sits: batch `b`, key head `n2`, query heads `heads` and query positions `rows` (both slices)."""

    b: int
    n2: int
    heads: slice
    rows: slice

    @property
    def row_count(self) -> int:
        return int(self.rows.stop - self.rows.start)


@dataclass(frozen=True)
class SfaTensors:
    """The four tensors of a call as [B, N, S, D] views, whatever their layout."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    indices: torch.Tensor

    @classmethod
    def of(
        cls, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sparseIndices: torch.Tensor, layout: str
    ) -> SfaTensors:
        return cls(
            as_bnsd(query, layout), as_bnsd(key, layout), as_bnsd(value, layout), as_bnsd(sparseIndices, layout)
        )


def output_rows_per_block(p: SfaProblem, memory_limit_bytes: int) -> int:
    """Query positions of one block: its float64 output takes at most an eighth of the bound, and at most 16 MiB."""
    row_bytes = p.G * (p.Dv + 1) * 8
    return max(1, min(p.S1, _BLOCK_OUTPUT_BYTES // row_bytes, memory_limit_bytes // 8 // row_bytes))


def plan_blocks(p: SfaProblem, memory_limit_bytes: int) -> Iterator[BlockIndex]:
    """Yield the blocks of a call in the order b, n2, s1. B = 0 or S1 = 0 yields none."""
    if p.S1 == 0:
        return
    step = output_rows_per_block(p, memory_limit_bytes)
    for b in range(p.B):
        for n2 in range(p.N2):
            heads = slice(n2 * p.G, (n2 + 1) * p.G)
            for start in range(0, p.S1, step):
                yield BlockIndex(b, n2, heads, slice(start, min(start + step, p.S1)))


def rows_within(row_bytes: int, budget_bytes: int, what: str, memory_limit_bytes: int) -> int:
    """How many rows of `row_bytes` the budget (a share of the bound) holds; ValueError with the figure if none."""
    rows = budget_bytes // row_bytes
    if rows < 1:
        least = -(-row_bytes * memory_limit_bytes // max(1, budget_bytes))
        raise ValueError(f"memory_limit_bytes: expected about {least} or more to hold {what}, got {memory_limit_bytes}")
    return int(rows)
