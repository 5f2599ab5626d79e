# SPDX-License-Identifier: Apache-2.0
"""Comparison of dumped tensors."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from .metrics import Accumulator
from .rules import Judgement, Policy, judge, needs_native
from .tensors import TensorFileError, limits_of_known, load_tensor
from .thresholds import Limits, limits_of


def compare_files(
    actual: str,
    golden: str,
    native: str | None = None,
    *,
    dtype: str | None = None,
    golden_dtype: str | None = None,
    shape: tuple[int, ...] | None = None,
    policy: Policy = Policy.CANN_BENCH,
    saturate: bool = False,
    allow_empty: bool = False,
) -> tuple[Judgement, Accumulator]:
    """Judge the tensor in `actual` by the one in `golden`.

    Args:
        actual, golden, native: files as `tensors.load_tensor` reads them.
        dtype: what `actual` and `native` hold, where the file does not say or says it wider.
        golden_dtype: what `golden` holds. A .bin without it is read as float64, float32 or `dtype`, whichever fits its
            size.
        shape: shape of all of them.
        others: as `Accumulator` and `judge` take them.

    Raises:
        TensorFileError: a file that cannot be used.
        ValueError: an unknown dtype.
    """
    limits = limits_of(dtype) if dtype is not None else None
    given = load_tensor(actual, dtype=limits, shape=shape)
    if limits is None:
        limits = limits_of_known(given.dtype, Path(actual))
    reference = load_tensor(
        golden, dtype=_golden_limits(golden, golden_dtype, limits, dtype, shape), shape=shape, option="--golden-dtype"
    )
    accumulator = Accumulator(limits, given.shape, saturate=saturate)
    if given.shape != reference.shape:
        fault = f"shape: actual {list(given.shape)}, golden {list(reference.shape)}"
        return judge(accumulator, policy, structure=fault), accumulator
    given = given.contiguous()
    rounded = accumulator.update(given, reference)
    if native is not None:
        other = load_tensor(native, dtype=limits if dtype is not None else None, shape=shape)
        if other.shape != given.shape:
            raise TensorFileError(f"{native}: expected shape {list(given.shape)}, got {list(other.shape)}")
        if needs_native(accumulator):
            accumulator.update_native(given, rounded, other)
    return judge(accumulator, policy, allow_empty=allow_empty), accumulator


def _golden_limits(
    golden: str, golden_dtype: str | None, limits: Limits, dtype: str | None, shape: tuple[int, ...] | None
) -> Limits | None:
    if golden_dtype is not None:
        return limits_of(golden_dtype)
    path = Path(golden)
    if path.suffix.lower() == ".bin" and shape is not None and path.is_file():
        size = path.stat().st_size
        for candidate in (limits_of(torch.float64), limits_of(torch.float32), limits):
            if size == math.prod(shape) * candidate.storage.itemsize:
                return candidate
        return limits_of(torch.float64)
    # Raw bits in a .npy: the golden of a bfloat16 tensor may well be dumped the same way.
    if dtype is not None and path.suffix.lower() in (".npy", ".npz") and _holds_bits(golden):
        return limits
    return None


def _holds_bits(golden: str) -> bool:
    """Whether a numpy file holds integers or void values of no float dtype, which then want the caller's dtype."""
    try:
        load_tensor(golden)
    except TensorFileError:
        return True
    return False
