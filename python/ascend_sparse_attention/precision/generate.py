# SPDX-License-Identifier: Apache-2.0
"""Inputs of a case, bit for bit as cann-bench's evaluator makes them.

There, one generator seeded from the case's name draws query, then key (float64 uniforms, scaled, rounded to the io
dtype); value becomes a copy of key's first Dv columns; the indices of each (b, n2, s1) are the first topK of the
argsort of S2 float32 uniforms, drawn by a second generator of seed 0. Here the same streams are drawn in chunks, so
that no float64 copy of a large key and no [groups, S2] table stands in memory.

torch's argsort is not stable, and equal uniforms are common from S2 = 4096 on, so the *order* of a few indices depends
on the CPU's vector width. cann-bench has the same dependence; on one machine the two agree.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from enum import Enum

import torch

from ..selection import causal_limit
from .cases import Case, Range

_CHUNK_ELEMENTS = 1 << 22


class Indices(str, Enum):
    """How sparseIndices are drawn."""

    UNIFORM = "uniform"  # over [0, S2), as cann-bench does
    TAIL = "tail"  # from a window around the causal edge of each query row


@dataclass(frozen=True)
class Inputs:
    """Tensors of one call, on the CPU."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    sparseIndices: torch.Tensor


def case_seed(name: str, seed: int = 0) -> int:
    """cann-bench's seed of a case: SHA-256 of its name, offset by the evaluator's --eval-seed."""
    digest = hashlib.sha256(name.encode("utf-8")).digest()
    return (seed + int.from_bytes(digest[:8], "big") % 2**31) % 2**31


def uniform(shape: tuple[int, ...], dtype: torch.dtype, span: Range, generator: torch.Generator) -> torch.Tensor:
    """Uniform numbers in `span`, clipped to what `dtype` can hold, drawn through float64; equal ends draw nothing.

    Integers and bool include both ends of the span.
    """
    low, high = span
    if dtype is torch.bool:
        low, high = (min(1, max(0, int(end))) for end in span)
    if low == high:
        return torch.full(shape, low, dtype=dtype)
    if not dtype.is_floating_point:
        drawn_as = torch.int64 if dtype is torch.bool else dtype
        return torch.randint(int(low), int(high) + 1, shape, generator=generator, dtype=drawn_as).to(dtype)
    limits = torch.finfo(dtype)
    low, high = max(low, limits.min), min(high, limits.max)
    result = torch.empty(shape, dtype=dtype)
    flat = result.view(-1)
    for start in range(0, flat.numel(), _CHUNK_ELEMENTS):
        piece = flat[start : start + _CHUNK_ELEMENTS]
        drawn = torch.rand(piece.shape, dtype=torch.float64, generator=generator)
        # Multiply, then add: another order rounds differently.
        piece.copy_(drawn.mul_(high - low).add_(low).clamp_(limits.min, limits.max))
    return result


def unique_indices(groups: int, S2: int, topK: int) -> torch.Tensor:
    """int32 [groups, topK]: distinct positions in [0, S2), unsorted, always from the generator of seed 0."""
    generator = torch.Generator().manual_seed(0)
    result = torch.empty(groups, topK, dtype=torch.int32)
    step = max(1, _CHUNK_ELEMENTS // S2)
    for start in range(0, groups, step):
        rows = min(step, groups - start)
        result[start : start + rows] = torch.rand(rows, S2, generator=generator).argsort(dim=1)[:, :topK]
    return result


def tail_indices(case: Case) -> torch.Tensor:
    """Distinct indices from a window around each row's causal edge, so that the mask takes about half of them.

    Rows near the end have no keys beyond their edge; their window ends at S2.
    """
    window = min(case.S2, max(case.topK, math.ceil(1.25 * case.topK)))
    chosen = unique_indices(case.B * case.S1 * case.N2, window, case.topK).view(case.indices_shape)
    edge = torch.tensor([causal_limit(s1, case.S1, case.S2) for s1 in range(case.S1)], dtype=torch.int32)
    start = (edge + 1 - window // 2).clamp(0, case.S2 - window)
    return chosen + (start.view(1, -1, 1, 1) if case.layout == "BSND" else start.view(1, 1, -1, 1))


def generate(case: Case, *, seed: int = 0, indices: Indices = Indices.UNIFORM) -> Inputs:
    """Inputs of a case; `seed` is cann-bench's --eval-seed, which leaves the indices alone there too."""
    dtype = getattr(torch, case.dtype)
    generator = torch.Generator().manual_seed(case_seed(case.seed_name, seed))
    query = uniform(case.query_shape, dtype, case.value_range[0], generator)
    key = uniform(case.key_shape, dtype, case.value_range[1], generator)
    value = key[..., : case.Dv].clone()
    if indices is Indices.TAIL:
        chosen = tail_indices(case)
    else:
        groups = case.B * case.S1 * case.N2
        chosen = unique_indices(groups, case.S2, case.topK).view(case.indices_shape)
    return Inputs(query, key, value, chosen)


def input_bytes(case: Case) -> int:
    """Bytes of the four input tensors."""
    elements = sum(math.prod(shape) for shape in (case.query_shape, case.key_shape, case.value_shape))
    return 2 * elements + 4 * math.prod(case.indices_shape)


def self_check(inputs: Inputs, case: Case) -> str:
    """One line saying what was drawn, and an error where it is not what the case declares.

    Raises:
        RuntimeError: a value outside its declared range, or a range that came out constant.
    """
    words = []
    for name, tensor, (low, high) in (
        ("query", inputs.query, case.value_range[0]),
        ("key", inputs.key, case.value_range[1]),
    ):
        if tensor.numel() == 0:
            words.append(f"{name} empty")
            continue
        # A bound that the dtype cannot hold rounds to a neighbour.
        low, high = (float(torch.tensor(end, dtype=torch.float64).to(tensor.dtype)) for end in (low, high))
        smallest, largest = (float(end) for end in torch.aminmax(tensor))
        if not (low <= smallest and largest <= high):
            raise RuntimeError(f"{name}: expected values in [{low}, {high}], got [{smallest}, {largest}]")
        if low < high and tensor.numel() > 16 and smallest == largest:
            raise RuntimeError(f"{name}: expected values spread over [{low}, {high}], got {smallest} everywhere")
        words.append(f"{name} [{smallest:.4g}, {largest:.4g}]")
    if inputs.sparseIndices.numel():
        smallest_index, largest_index = (int(end) for end in torch.aminmax(inputs.sparseIndices))
        if smallest_index < 0 or largest_index >= case.S2:
            raise RuntimeError(f"sparseIndices: expected [0, {case.S2}), got [{smallest_index}, {largest_index}]")
        words.append(f"indices [{smallest_index}, {largest_index}]")
    return ", ".join(words)
