# SPDX-License-Identifier: Apache-2.0
"""Pairs of (actual, golden, native) by name: random and adversarial inputs for the comparison rules.

`cann_bench_answers.json` holds what cann-bench's compare_tensors (checkout d59d44c) answered for each of them, asked
once by hand on torch 2.13.0. Numbers are drawn by numpy's PCG64, whose stream does not change between versions, and the
arithmetic is elementwise, so the pairs are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}

SIXTEEN_BIT = ("float16", "bfloat16")


@dataclass(frozen=True)
class Pair:
    name: str
    actual: torch.Tensor
    golden: torch.Tensor  # float64
    native: torch.Tensor | None


def _uniform(rng: np.random.Generator, n: int, scale: float) -> torch.Tensor:
    return torch.from_numpy(rng.uniform(-scale, scale, n))


def _noisy(golden: torch.Tensor, rng: np.random.Generator, relative: float, absolute: float) -> torch.Tensor:
    n = golden.numel()
    return golden * (1 + relative * _uniform(rng, n, 1.0)) + absolute * _uniform(rng, n, 1.0)


def _attention_like(dtype: str, seed: int, scale: float, relative: float, absolute: float, native: float) -> Pair:
    """Values around zero with relative and absolute noise; the native reference has absolute noise of its own."""
    rng = np.random.default_rng(seed)
    golden = _uniform(rng, 4096, scale)
    actual = _noisy(golden, rng, relative, absolute).to(DTYPES[dtype])
    reference = _noisy(golden, rng, 0.0, native).to(DTYPES[dtype]) if native >= 0 else None
    return Pair("", actual, golden, reference)


def _random() -> Iterator[tuple[str, Callable[[], Pair]]]:
    step = {
        "float16": 2**-11,
        "bfloat16": 2**-8,
        "float32": 2**-24,
        "float64": 2**-24,
        "float8_e4m3fn": 2**-4,
        "float8_e5m2": 2**-3,
    }
    seed = 0
    for dtype, ulp in step.items():
        for scale in (4.0, 0.25, 0.02):
            for relative in (0.5, 4.0, 40.0):
                for absolute, native in ((0.0, -1.0), (1.0, 0.0), (1.0, 0.6), (1.0, 3.0), (0.02, 0.01)):
                    seed += 1
                    arguments = (dtype, seed, scale, relative * ulp, absolute * ulp * 0.1, native * ulp * 0.1)
                    if native < 0:
                        arguments = (*arguments[:5], -1.0)
                    yield (
                        f"random-{dtype}-{scale}-{relative}-{absolute}-{native}",
                        lambda a=arguments: _attention_like(*a),
                    )


def _edit(
    dtype: str,
    actual: dict[int, float] | None = None,
    golden: dict[int, float] | None = None,
    native: dict[int, float] | None = None,
    *,
    n: int = 1000,
    scale: float = 1.0,
    with_native: bool = False,
) -> Pair:
    """A perfectly rounded pair with single elements replaced."""
    rng = np.random.default_rng(7)
    g = _uniform(rng, n, scale)
    # Away from zero, so that only the edits matter.
    g = torch.where(g.abs() < 0.2 * scale, g.sign() * 0.2 * scale, g)
    for index, value in (golden or {}).items():
        g[index] = value
    a = g.clone()
    for index, value in (actual or {}).items():
        a[index] = value
    b = g.clone().to(DTYPES[dtype])  # float64 would share its storage
    for index, value in (native or {}).items():
        b[index] = torch.tensor(value, dtype=torch.float64).to(b.dtype)
    return Pair("", a.to(DTYPES[dtype]), g, b if with_native or native else None)


def _whole(dtype: str, actual: list[float], golden: list[float], native: list[float] | None = None) -> Pair:
    def tensor(values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    reference = None if native is None else tensor(native).to(DTYPES[dtype])
    return Pair("", tensor(actual).to(DTYPES[dtype]), tensor(golden), reference)


def _adversarial() -> Iterator[tuple[str, Callable[[], Pair]]]:
    nan, inf = float("nan"), float("inf")
    for dtype in DTYPES:
        largest = float(torch.finfo(DTYPES[dtype]).max)
        edits: dict[str, dict[str, dict[int, float]]] = {
            "one-nan": {"actual": {500: nan}},
            "golden-nan": {"golden": {3: nan}, "actual": {3: 1.0}},
            "both-nan": {"golden": {3: nan}},
            "nan-elsewhere": {"golden": {3: nan}, "actual": {3: 1.0, 4: nan}},
            "one-inf": {"actual": {999: inf}},
            "one-inf-near-the-largest": {"actual": {5: inf}, "golden": {5: largest}},
            "one-inf-above-half-the-largest": {"actual": {5: inf}, "golden": {5: largest * 0.75}},
            "negative-inf-for-positive": {"actual": {5: -inf}, "golden": {5: largest}},
            "golden-inf": {"golden": {0: inf}, "actual": {0: largest}},
            "golden-inf-far": {"golden": {0: inf}, "actual": {0: 1.0}},
            "both-inf": {"golden": {0: inf}},
            "inf-opposite": {"golden": {0: inf}, "actual": {0: -inf}},
            "one-bad": {"actual": {17: 0.9}, "golden": {17: 0.3}},
            "one-bad-forgiven": {"actual": {17: 0.9}, "golden": {17: 0.3}, "native": {17: 0.9, 19: 5.0}},
            "three-bad-one-native": {"actual": {1: 9.0, 2: 9.0, 3: 9.0}, "native": {4: 5.0}},
            "two-bad-one-native": {"actual": {1: 9.0, 2: 9.0}, "native": {4: 5.0}},
            "native-nan": {"actual": {1: 9.0}, "native": {1: nan}},
            "native-inf": {"actual": {1: 9.0}, "native": {1: inf}},
        }
        for name, edit in edits.items():
            yield f"{name}-{dtype}", lambda d=dtype, e=edit: _edit(d, **e)
        yield f"all-nan-{dtype}", lambda d=dtype: _whole(d, [nan] * 8, [1.0] * 8)
        yield f"all-nan-both-{dtype}", lambda d=dtype: _whole(d, [nan] * 8, [nan] * 8)
        yield f"all-inf-both-{dtype}", lambda d=dtype: _whole(d, [inf, -inf], [inf, -inf])
        yield f"zeros-{dtype}", lambda d=dtype: _whole(d, [0.0, -0.0, 0.0], [0.0, 0.0, -0.0])
        yield f"empty-{dtype}", lambda d=dtype: _whole(d, [], [])
    for dtype, small, cancel, error in (
        ("float16", 2**-11, 2**-5, 2**-16),
        ("bfloat16", 2**-8, 2**-3, 2**-16),
        ("float32", 2**-14, 2**-8, 2**-30),
    ):
        for native in (None, [0.0] * 6, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1.0] * 6):
            # Elements in "small" that are off by less than, exactly and more than the allowed error.
            golden = [small * f for f in (0.5, 0.5, 0.5, 0.25, 0.0, 1.0)]
            for times in (0.5, 1.0, 2.0, 8.0):
                actual = [g + times * error for g in golden]
                reference = None if native is None else [g + n * 4 * error for g, n in zip(golden, native)]
                name = "none" if native is None else str(int(sum(native)))
                yield (
                    f"small-{dtype}-{times}-{name}",
                    lambda d=dtype, a=actual, g=golden, r=reference: _whole(d, a, g, r),
                )
            golden = [cancel * f for f in (0.9, 0.5, 0.25, 0.75, 0.6, 1.5)]
            for times in (0.0, 0.5, 1.2):
                actual = [g * times for g in golden]
                reference = None if native is None else [g * (1 - n * 0.5) for g, n in zip(golden, native)]
                name = "none" if native is None else str(int(sum(native)))
                yield (
                    f"cancel-{dtype}-{times}-{name}",
                    lambda d=dtype, a=actual, g=golden, r=reference: _whole(d, a, g, r),
                )
    # The edges of float16: 65519 rounds to 65504, 65520 to Inf.
    for golden, actual in ((65519.0, 65504.0), (65519.0, inf), (65520.0, inf), (65520.0, 65504.0), (65520.0, -inf)):
        yield f"edge-{golden:.0f}-{actual}", lambda a=actual, g=golden: _whole("float16", [a, 1.0], [g, 1.0])
    yield "tiny-golden", lambda: _whole("float32", [1e-9, 0.0, 2e-8], [0.0, 3e-8, 1e-8])
    yield "flushed-subnormal", lambda: _whole("float16", [0.0, 0.0], [3e-8, 6e-8])
    yield "smallest-subnormals", lambda: _whole("float16", [5.960464477539063e-08] * 3, [-5.960464477539063e-08] * 3)
    yield "zero-golden-smallest", lambda: _whole("float16", [5.960464477539063e-08, 0.0], [0.0, 0.0])


def names() -> list[str]:
    return [name for make in (_random, _adversarial) for name, _ in make()]


def pairs() -> Iterator[Pair]:
    for make in (_random, _adversarial):
        for name, build in make():
            pair = build()
            yield Pair(name, pair.actual, pair.golden, pair.native)
