# SPDX-License-Identifier: Apache-2.0
"""Every pinned kernel configuration, with the reason it stands. No run ever tunes: a call's speed is not an accident.

Rates and choices were read on an H200 (see docs/cuda.md); other GPUs take the same table.
"""

from __future__ import annotations

import dataclasses

import torch

#: Block rows of fewer stacked rows than this are candidates for joining (a Hopper matrix tile has 64 rows).
COARSEN_BELOW_ROWS = 64

#: What a gather of single rows of K and V reaches, and what a dense product with a bit a pair reaches.
L2_GATHER_BYTES_PER_S = 4.5e12
BITMASK_FLOP_PER_S = 350e12


@dataclasses.dataclass(frozen=True)
class BlockConfig:
    """Tile sizes and launch parameters of one block kernel.

    Attributes:
        block_m: rows of a query tile, (token, head) pairs.
        block_n: keys of a step.
        num_warps, num_stages: Triton's launch parameters.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


@dataclasses.dataclass(frozen=True)
class SparseConfig:
    """Tile sizes and launch parameters of the gather kernel of sparse_flash_attention.

    Attributes:
        block_h: query heads of a tile.
        block_n: slots of a step.
        num_warps, num_stages: Triton's launch parameters.
    """

    block_h: int
    block_n: int
    num_warps: int
    num_stages: int


def _next_pow2(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def block_config(
    *,
    rows: int,
    block_cols: int,
    head_dim_qk: int,
    head_dim_vo: int,
    dtype: torch.dtype,
    masked: bool,
    rope: bool,
    variable: bool = False,
) -> BlockConfig:
    """The configuration for block rows of `rows` stacked rows (tokens times group) and blocks of `block_cols` keys."""
    wide = max(head_dim_qk, head_dim_vo)
    if rope or wide > 128 or dtype == torch.float32:
        # RoPE keeps the rotated halves of K in registers; heads above 128 double the accumulators.
        block_m = 16 if rows <= 16 else 64
        block_n = 32 if wide > 256 or dtype == torch.float32 else 64
        return BlockConfig(block_m, block_n, 4, 2)
    if rows <= 16:
        return BlockConfig(16, 64, 4, 3)
    if rows <= 64:
        return BlockConfig(64, 64, 4, 3)
    if block_cols % 128 == 0 and not masked and not variable:
        return BlockConfig(128, 128, 8, 3)
    return BlockConfig(128, 64, 4, 3)


def bitmask_config(*, head_dim_qk: int, head_dim_vo: int, dtype: torch.dtype) -> BlockConfig:
    """The configuration of joined block rows with a bit a pair. Steps of 64 keys: two mask words a row."""
    if max(head_dim_qk, head_dim_vo) > 128 or dtype == torch.float32:
        return BlockConfig(64, 64, 4, 2)
    return BlockConfig(128, 64, 8, 3)


def prefill_config(
    *, qo_len: int, head_dim_qk: int, head_dim_vo: int, dtype: torch.dtype, masked: bool, rope: bool
) -> BlockConfig:
    """The configuration of single prefill."""
    wide = max(head_dim_qk, head_dim_vo)
    if rope or wide > 256 or dtype == torch.float32:
        return BlockConfig(64, 32 if wide > 256 or dtype == torch.float32 else 64, 4, 2)
    if wide > 128:
        return BlockConfig(128, 64, 8, 2)
    if masked:
        return BlockConfig(128, 64, 8, 3)
    return BlockConfig(128, 128, 8, 3)


def sparse_config(*, G: int, Dk: int, Dv: int, dtype: torch.dtype, aliased: bool) -> SparseConfig:
    """The configuration of the portable gather kernel of sparse_flash_attention for G heads a kv head."""
    block_h = min(64, max(16, _next_pow2(G)))
    if dtype == torch.float32:
        return SparseConfig(min(block_h, 16), 16 if Dk > 128 else 32, 4, 2)
    if Dk > 256:
        # K and O fill shared memory and registers: 64 keys a step, two steps in flight.
        if aliased:
            return SparseConfig(block_h, 64, 8 if block_h == 64 else 4, 2)
        return SparseConfig(block_h, 32, 8 if block_h == 64 else 4, 2)
    return SparseConfig(block_h, 64, 4, 3)


def sparse_splits(*, tiles: int, topK: int, block_n: int, num_sms: int) -> int:
    """Parts that topK is cut into. One where the tiles fill the GPU; else as many as give each SM a part of its own,
    each of at least one step."""
    if tiles >= num_sms:
        return 1
    steps = -(-topK // block_n)
    return max(1, min(steps, num_sms // tiles))
