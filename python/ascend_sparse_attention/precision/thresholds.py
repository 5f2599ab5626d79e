# SPDX-License-Identifier: Apache-2.0
"""Precision limits of every dtype, in one place.

`threshold` is t of the operator description's section 4 (pass: MERE < t and MARE < 10 t). The other figures belong to
cann-bench's second stage, which sorts elements by the size of the golden (see docs/precision.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Limits:
    """Limits of one dtype.

    Attributes:
        name: the dtype's name in reports.
        storage: torch dtype that holds such values. hifloat32 has none of its own and lives in float32.
        threshold: t. MERE must be < t, MARE < 10 t; an element is *bad* when its relative error is > 10 t.
        small_value: s. Golden magnitudes below it form the region "small".
        small_error: absolute error above which an element of "small" counts as an error.
        cancel_boundary: b. s <= abs(golden) < b with abs(actual) < b forms the region "cancel".
        mantissa_bits: explicit mantissa bits, for the spacing of the largest values.
    """

    name: str
    storage: torch.dtype
    threshold: float
    small_value: float
    small_error: float
    cancel_boundary: float
    mantissa_bits: int

    @property
    def mare_limit(self) -> float:
        return 10 * self.threshold

    @property
    def largest(self) -> float:
        """Largest finite value."""
        if self.name == "hifloat32":
            return (2.0 - 2.0**-self.mantissa_bits) * 2.0**127
        return float(torch.finfo(self.storage).max)

    @property
    def largest_step(self) -> float:
        """Distance from the largest finite value to the one below it."""
        exponent = torch.frexp(torch.tensor(self.largest, dtype=torch.float64)).exponent.item() - 1
        return float(2.0 ** (exponent - self.mantissa_bits))

    def round(self, values: torch.Tensor) -> torch.Tensor:
        """Round float64 values to this dtype (nearest, ties to even) and return them as float64."""
        if self.name == "hifloat32":
            return _round_to_hifloat32(values)
        return values.to(self.storage).double()


def _round_to_hifloat32(values: torch.Tensor) -> torch.Tensor:
    # hifloat32 is float32 with 11 of its 23 mantissa bits: round the 12 low bits away, half to even.
    bits = values.float().view(torch.int32)
    finite = torch.isfinite(values.float())
    last_kept = (bits >> 12) & 1
    rounded = (bits + 0x7FF + last_kept) & ~0xFFF
    return torch.where(finite, rounded, bits).view(torch.float32).double()


_TABLE = {
    limits.name: limits
    for limits in (
        Limits("float16", torch.float16, 2**-10, 2**-11, 2**-16, 2**-5, 10),
        Limits("bfloat16", torch.bfloat16, 2**-7, 2**-8, 2**-16, 2**-3, 7),
        Limits("float32", torch.float32, 2**-13, 2**-14, 2**-30, 2**-8, 23),
        Limits("float64", torch.float64, 2**-13, 2**-14, 2**-30, 2**-8, 52),
        Limits("hifloat32", torch.float32, 2**-11, 2**-12, 2**-28, 2**-8, 11),
        Limits("float8_e4m3fn", torch.float8_e4m3fn, 2**-3, 2**-4, 2**-6, 2**-1, 3),
        Limits("float8_e5m2", torch.float8_e5m2, 2**-2, 2**-3, 2**-5, 2**0, 2),
    )
}

_ALIASES = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
    "hf32": "hifloat32",
    "float8_e4m3": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}

NAMES = tuple(_TABLE)


def limits_of(dtype: str | torch.dtype) -> Limits:
    """Limits by dtype or by name; names ignore case and know the usual short forms.

    Raises:
        ValueError: no limits for this dtype. There is no fallback: a wrong threshold would be a wrong verdict.
    """
    name = str(dtype).removeprefix("torch.").lower()
    name = _ALIASES.get(name, name)
    if name not in _TABLE:
        raise ValueError(f"dtype: expected one of {', '.join(NAMES)}, got {dtype}")
    return _TABLE[name]
