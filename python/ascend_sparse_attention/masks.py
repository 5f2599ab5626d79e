# SPDX-License-Identifier: Apache-2.0
"""Packed masks and ALiBi slopes: facts that the FlashInfer-compatible API and its backends share.

A packed mask holds a bit a (row, key) pair, row-major, lowest bit of each byte first ("little").
"""

from __future__ import annotations

import functools

import torch

#: Mask elements repacked at once: bounds the int64 temporaries at 32 MiB.
_PAIRS_AT_ONCE = 1 << 22


def pack_bits(bits: torch.Tensor, bitorder: str) -> torch.Tensor:
    """uint8 [ceil(n / 8)] of bool bits [n]; the first of eight is the highest ("big") or lowest ("little") bit."""
    missing = -bits.numel() % 8
    if missing:
        bits = torch.nn.functional.pad(bits, (0, missing))
    shifts = torch.arange(8, dtype=torch.uint8, device=bits.device)
    if bitorder == "big":
        shifts = 7 - shifts
    # Eight different powers of two: their sum is their union, and fits a byte.
    return (bits.view(-1, 8).to(torch.uint8) << shifts).sum(dim=-1, dtype=torch.uint8)


def unpack_bits(packed: torch.Tensor, count: int) -> torch.Tensor:
    """The first `count` bits of a little-endian packed mask, as bool."""
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return ((packed.unsqueeze(-1) >> shifts) & 1 != 0).flatten()[:count]


def segment_bytes(indptr: torch.Tensor, R: int, C: int) -> torch.Tensor:
    """Bytes of each block row's segment, int64: R rows of nnz_i * C bits, padded to whole bytes."""
    bits = torch.diff(indptr.to(torch.int64)) * (R * C)
    return (bits + 7) // 8


def pack_bsr_mask(mask: torch.Tensor, indptr: torch.Tensor, R: int, C: int) -> torch.Tensor:
    """From a BSR mask to the packed form of `BsrStructure.packed_mask`.

    Args:
        mask: bool [nnz, R, C], any device.
        indptr: integers [MB + 1] on the CPU.

    Returns:
        uint8 on mask's device.
    """
    device, nnz = mask.device, mask.shape[0]
    sizes = segment_bytes(indptr, R, C)
    counts = torch.diff(indptr.to(torch.int64))
    bits = torch.zeros(int(sizes.sum()) * 8, dtype=torch.bool, device=device)
    owner = torch.repeat_interleave(torch.arange(counts.numel(), device="cpu"), counts, output_size=nnz)
    first_bit = ((sizes.cumsum(0) - sizes) * 8)[owner]
    width = (counts * C)[owner]
    column = (torch.arange(nnz, device="cpu") - indptr.to(torch.int64)[owner]) * C
    step = max(1, _PAIRS_AT_ONCE // max(1, R * C))
    row = torch.arange(R, device=device).view(1, R, 1)
    inner = torch.arange(C, device=device)
    for begin in range(0, nnz, step):
        part = slice(begin, begin + step)
        base, pitch, offset = (x[part].to(device).view(-1, 1, 1) for x in (first_bit, width, column))
        bits[base + row * pitch + offset + inner] = mask[part]
    return pack_bits(bits, "little")


@functools.cache
def alibi_slopes(num_heads: int) -> torch.Tensor:
    """Slopes of ALiBi, float64 [num_heads] on the CPU (Press et al. 2022).

    The first n = 2^floor(log2 num_heads) heads have 2^(-8 i / n), i = 1..n; the rest every other one of the sequence
    for 2 n heads, 2^(-4 (2 i - 1) / n), i = 1...
    """
    n = 1 << (num_heads.bit_length() - 1)
    exponents = [-8.0 * i / n for i in range(1, n + 1)]
    exponents += [-4.0 * (2 * i - 1) / n for i in range(1, num_heads - n + 1)]
    # The device is named: torch's default one may be another, and the result is kept.
    return torch.tensor([2.0**e for e in exponents], dtype=torch.float64, device="cpu")
