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
L2_GATHER_BYTES_PER_S = 7.5e12
BITMASK_FLOP_PER_S = 450e12


@dataclasses.dataclass(frozen=True)
class BlockConfig:
    """Tile sizes and launch parameters of one block kernel.

    Attributes:
        block_m: rows of a query tile, (token, head) pairs.
        block_n: keys of a step.
        num_warps, num_stages: Triton's launch parameters of the portable kernel.
        ring: K/V steps in flight of the Hopper kernel; 0 where only the portable kernel serves.
        consumer_regs, producer_regs: registers a thread of its warpgroups.
        programs_per_sm: resident programs of the Hopper kernel.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    ring: int = 0
    consumer_regs: int = 224
    producer_regs: int = 56
    programs_per_sm: int = 1


#: Tile of the Hopper MLA kernel; its unit of work is a pair of steps.
MLA_BLOCK_H = 64
MLA_BLOCK_N = 64

#: Output columns that one program of the combination merges.
COMBINE_BLOCK = 512


@dataclasses.dataclass(frozen=True)
class SparseConfig:
    """Tile sizes and launch parameters of sparse_flash_attention.

    Attributes:
        block_h: query heads of a tile of the portable kernel.
        block_n: slots of a step of it.
        num_warps, num_stages: Triton's launch parameters of it.
        hopper: take the Hopper MLA kernel where it serves.
        consumer_regs, producer_regs: registers a thread of the Hopper kernel's warpgroups.
        most_splits: parts that topK may be cut into.
    """

    block_h: int
    block_n: int
    num_warps: int
    num_stages: int
    hopper: bool = False
    consumer_regs: int = 216
    producer_regs: int = 72
    most_splits: int = 32


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
) -> BlockConfig:
    """The configuration for block rows of `rows` stacked rows (tokens times group) and blocks of `block_cols` keys.

    Variable blocks: `rows` in the mean, and `block_cols` = 1, since their runs are row copies.
    """
    wide = max(head_dim_qk, head_dim_vo)
    if wide == 256 and rows > 16 and not rope and dtype.itemsize == 2:
        # Twice the accumulators: 64 keys a step leave room for Q, two steps and the registers of 64 x 256 floats.
        if rows > 64:
            return BlockConfig(128, 64, 8, 2, ring=2)
        return BlockConfig(64, 64, 4, 2, ring=2, consumer_regs=240, producer_regs=80)
    if rope or dtype.itemsize != 2 or wide > 128:
        # RoPE keeps the rotated halves of K in registers; other heads above 128 are cut in two pieces.
        block_m = 16 if rows <= 16 else 64
        block_n = 32 if wide > 256 or dtype == torch.float32 else 64
        return BlockConfig(block_m, block_n, 4, 2)
    if rows <= 16:
        return BlockConfig(16, 32, 1, 3)  # a gather, bound by L2 reads: many small programs keep most rows in flight
    if rows <= 64:
        # Two programs an SM: one consumer alone leaves the matrix unit idle in its softmax.
        return BlockConfig(64, 64, 4, 3, ring=2, consumer_regs=200, programs_per_sm=2)
    if bulk_copies(block_cols, 128) or masked:
        return BlockConfig(128, 128, 8, 2, ring=2)
    # Row copies: what binds is the producer's share of the issue slots. Some 180 instructions a step, as a lane looks
    # up one key and its warp shares it (TFLOP/s at 128 x 1, ragged, even variable blocks: 520, 458, 540; with 577
    # instructions 476, 389, 501). 64 keys a step: 476, 404, 473. Producers of 88 and of 56 registers: 528, 435, 535 and
    # 526, 446, 531. A third step in flight now changes nothing with keys in L2 (two: 522, 456, 538).
    return BlockConfig(128, 128, 8, 2, ring=3, consumer_regs=216, producer_regs=72)


def bulk_copies(block_cols: int, block_n: int) -> bool:
    """Whether steps of block_n keys are whole ranges or a few whole blocks, so that the bulk copy engine can fill them.

    Eight rows are the unit of its shared-memory pattern.
    """
    return block_cols % block_n == 0 or (block_cols >= 8 and block_n % block_cols == 0)


def bitmask_config(*, head_dim_qk: int, head_dim_vo: int, dtype: torch.dtype) -> BlockConfig:
    """The configuration of joined block rows with a bit a pair."""
    if max(head_dim_qk, head_dim_vo) > 128 or dtype.itemsize != 2:
        return BlockConfig(64, 32 if dtype == torch.float32 else 64, 4, 2)
    return BlockConfig(128, 128, 8, 2, ring=2)


def prefill_config(*, head_dim_qk: int, head_dim_vo: int, dtype: torch.dtype, rope: bool) -> BlockConfig:
    """The configuration of single prefill."""
    wide = max(head_dim_qk, head_dim_vo)
    if rope or wide > 256 or dtype.itemsize != 2:
        return BlockConfig(64, 32 if wide > 256 or dtype == torch.float32 else 64, 4, 2)
    if wide > 128:
        return BlockConfig(128, 64, 8, 2, ring=2 if wide == 256 else 0)
    return BlockConfig(128, 128, 8, 2, ring=2)


def sparse_config(*, rows: int, G: int, Dk: int, Dv: int, dtype: torch.dtype, aliased: bool) -> SparseConfig:
    """The configuration of sparse_flash_attention for `rows` (b, s1, n2) rows of G heads a kv head."""
    block_h = min(64, max(16, _next_pow2(G)))
    if dtype == torch.float32:
        return SparseConfig(min(block_h, 16), 16 if Dk > 128 else 32, 4, 2)
    if Dk > 256:
        # K and O fill shared memory and registers: 64 keys a step, two steps in flight.
        if aliased:
            return SparseConfig(block_h, 64, 8 if block_h == 64 else 4, 2, hopper=G >= 32)
        return SparseConfig(block_h, 32, 8 if block_h == 64 else 4, 2)
    if block_h > 16:
        return SparseConfig(block_h, 64, 4, 3)
    # Small groups: a gather, bound by rows in flight. Many rows: programs of one warp; few: longer steps of four.
    if rows >= 4096 and Dk <= 128:
        return SparseConfig(16, 64, 1, 2)
    return SparseConfig(16, 128, 4, 2)


def sparse_splits(*, tiles: int, steps: int, num_sms: int, most: int) -> int:
    """Parts that topK is cut into. One where the tiles fill the GPU; else as many as give each SM a part of its own,
    each of at least one step."""
    if tiles >= num_sms:
        return 1
    return max(1, min(steps, num_sms // tiles, most))
