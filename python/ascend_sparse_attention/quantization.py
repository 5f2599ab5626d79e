# SPDX-License-Identifier: Apache-2.0
"""Bit packing of masks, as flashinfer.quantization has it."""

from __future__ import annotations

import torch

from .masks import pack_bits

__all__ = ["packbits", "segment_packbits"]


def _check(x: torch.Tensor, bitorder: str) -> torch.Tensor:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x: expected a Tensor, got {type(x).__name__}")
    if x.dim() != 1:
        raise ValueError(f"Invalid shape of x: expected one dimension, got {tuple(x.shape)}")
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder: expected 'big' or 'little', got {bitorder!r}")
    return x.to(torch.bool)


def packbits(x: torch.Tensor, bitorder: str = "big") -> torch.Tensor:
    """Pack a binary-valued array into bits, as numpy.packbits does.

    Args:
        x: [n], bool or numbers (anything but 0 is a set bit).
        bitorder: "big" puts the first of eight elements into a byte's highest bit, "little" into its lowest. The
            default is "big", as numpy's; the packed masks of attention are "little".

    Returns:
        uint8 [ceil(n / 8)] on x's device; the last byte is filled up with 0.

    Raises:
        TypeError: x is no Tensor.
        ValueError: x is not 1D, or bitorder is unknown.

    Examples:
        >>> import torch
        >>> from ascend_sparse_attention import packbits
        >>> x = torch.tensor([1, 0, 1, 1, 0, 0, 1, 1], dtype=torch.bool)
        >>> x_packed = packbits(x)
        >>> list(map(bin, x_packed.tolist()))
        ['0b10110011']
    """
    return pack_bits(_check(x, bitorder), bitorder)


def segment_packbits(x: torch.Tensor, indptr: torch.Tensor, bitorder: str = "big") -> tuple[torch.Tensor, torch.Tensor]:
    """Pack each segment of a binary-valued array into whole bytes of its own.

    Args:
        x: [indptr[-1]], bool or numbers; segment i is x[indptr[i]:indptr[i + 1]].
        indptr: integers [batch_size + 1], ascending from 0. It is read, so a device is waited for.
        bitorder: as in `packbits`.

    Returns:
        y: uint8 [new_indptr[-1]] on x's device.
        new_indptr: int32 [batch_size + 1] on indptr's device; segment i lies in y[new_indptr[i]:new_indptr[i + 1]],
            which has ceil((indptr[i + 1] - indptr[i]) / 8) bytes.

    Raises:
        TypeError: x or indptr is no Tensor.
        ValueError: x is not 1D, bitorder is unknown, or indptr does not ascend from 0 to len(x).

    Examples:
        >>> import torch
        >>> from ascend_sparse_attention import segment_packbits
        >>> x = torch.tensor([1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1], dtype=torch.bool)
        >>> x_packed, new_indptr = segment_packbits(x, torch.tensor([0, 4, 7, 11]), bitorder="big")
        >>> list(map(bin, x_packed.tolist()))
        ['0b10110000', '0b100000', '0b11010000']
        >>> new_indptr
        tensor([0, 1, 2, 3], dtype=torch.int32)
    """
    bits = _check(x, bitorder)
    if not isinstance(indptr, torch.Tensor):
        raise TypeError(f"indptr: expected a Tensor, got {type(indptr).__name__}")
    if indptr.dim() != 1 or indptr.numel() < 1 or indptr.is_floating_point():
        raise ValueError(
            f"indptr: expected integers of one dimension, at least one, got {tuple(indptr.shape)} of {indptr.dtype}"
        )
    ptr = indptr.to(torch.int64)
    ends = ptr.cpu()
    if int(ends[0]) != 0 or int(ends[-1]) != x.numel() or bool((torch.diff(ends) < 0).any()):
        raise ValueError(
            f"indptr: expected values that ascend from 0 to len(x) = {x.numel()}, got {ends.tolist()[:16]}"
        )
    lengths = torch.diff(ptr)
    new_indptr = torch.zeros_like(ptr)
    new_indptr[1:] = ((lengths + 7) // 8).cumsum(0)
    # How far each element moves: whole segments move together.
    shift = torch.repeat_interleave((new_indptr[:-1] * 8 - ptr[:-1]).to(x.device), lengths.to(x.device))
    spread = torch.zeros(int(new_indptr[-1]) * 8, dtype=torch.bool, device=x.device)
    spread[torch.arange(x.numel(), device=x.device) + shift] = bits
    return pack_bits(spread, bitorder), new_indptr.to(torch.int32)
