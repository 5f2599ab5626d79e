# SPDX-License-Identifier: Apache-2.0
"""Float64 golden of sparse_flash_attention, streamed under a memory bound.

    out[b, s1, n1] = sum_i softmax_i(scale * q[b, s1, n1] . key[b, idx_i, n2]) * value[b, idx_i, n2]

over the slots i of sparseIndices[b, s1, n2] that :func:`..selection.kept_slots` keeps, n2 = n1 // G (operator
description, section 2). A repeated index counts as often as it stands; a masked slot and a key that no slot selects
never enter any sum, whatever they hold; a row with no slot left is exactly 0 with LSE -inf. A NaN in q or in a
selected key or value reaches its row.

The selected rows are gathered in the io dtype and converted a few query positions at a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from ..checks import check_sparse_flash_attention
from ..layout import SfaProblem, as_bnsd, same_prefix
from ..selection import kept_slots
from .blocks import DEFAULT_MEMORY_LIMIT_BYTES, BlockIndex, SfaTensors, WorkPlan, plan_blocks, run_blocks

_LOG2_E = math.log2(math.e)

#: Scratch memory of one piece of work; beyond the cache a larger piece only costs memory.
_PIECE_BYTES = 12 << 20


@dataclass(frozen=True)
class GoldenResult:
    """Whole-tensor golden: `out` in the golden's dtype, `lse` float32 base 2; shapes follow the call's layout."""

    out: torch.Tensor
    lse: torch.Tensor


@dataclass(frozen=True)
class GoldenBlock:
    """One block of the golden.

    Attributes:
        index: where the block sits.
        out: [G, rows, Dv] in the golden's dtype (float64 unless asked otherwise).
        lse: [G, rows], base 2, in the golden's dtype; -inf for a row with nothing left.
    """

    index: BlockIndex
    out: torch.Tensor
    lse: torch.Tensor


def sparse_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    dtype: torch.dtype = torch.float64,
    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES,
) -> GoldenResult:
    """Golden of a whole call, in memory: `out` alone takes 8 bytes an element beside the bound.

    Args:
        query, key, value, sparseIndices, scaleValue, inputLayout, is_causal: as the operator's own.
        dtype: float64, or float32 where speed matters more than the last digits.
        memory_limit_bytes: bound on scratch memory; the inputs are never converted whole.

    Returns:
        GoldenResult: out [B, S1, N1, Dv] or [B, N1, S1, Dv]; lse float32 base 2 [B, S1, N1] or [B, N1, S1].

    Raises:
        TypeError, ValueError: as the operator's argument checks; ValueError if one row does not fit the bound.
    """
    p = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    out = torch.empty(p.output_shape, dtype=dtype, device=query.device)
    lse = torch.empty(p.lse_shape, dtype=torch.float32, device=query.device)
    out_view, lse_view = as_bnsd(out, p.layout), as_bnsd(lse, p.layout)
    for block in iter_blocks(
        query,
        key,
        value,
        sparseIndices,
        scaleValue,
        inputLayout,
        is_causal,
        dtype=dtype,
        memory_limit_bytes=memory_limit_bytes,
    ):
        at = block.index
        out_view[at.b, at.heads, at.rows] = block.out
        lse_view[at.b, at.heads, at.rows] = block.lse.to(torch.float32)
    return GoldenResult(out, lse)


def iter_blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    dtype: torch.dtype = torch.float64,
    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES,
) -> Iterator[GoldenBlock]:
    """Golden of a call, block by block in the order b, n2, s1, so that a comparison never holds it whole.

    Arguments and errors are those of :func:`sparse_flash_attention`; checks run at the call, not at the first block.
    """
    p = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    if dtype not in (torch.float64, torch.float32):
        raise TypeError(f"dtype: expected torch.float64 or torch.float32, got {dtype}")
    tensors = SfaTensors.of(query, key, value, sparseIndices, inputLayout)
    work = _Work(p, tensors, float(scaleValue), dtype, same_prefix(value, key), memory_limit_bytes)
    return run_blocks(plan_blocks(p, memory_limit_bytes), work.begin, work.plan)


class _Scratch:
    """One thread's buffers, allocated at its first piece and reused: fresh pages cost more than the arithmetic."""

    def __init__(self, p: SfaProblem, step: int, raw: torch.dtype, dtype: torch.dtype, device: torch.device) -> None:
        slots = step * p.topK
        self.raw = torch.empty(slots * p.Dk, dtype=raw, device=device)
        self.single = torch.empty(slots * p.Dk, dtype=torch.float32, device=device)
        self.k = torch.empty(slots * p.Dk, dtype=dtype, device=device)
        self.v = torch.empty(slots * p.Dv, dtype=dtype, device=device)
        self.scores = torch.empty(slots * p.G, dtype=dtype, device=device)


class _Work:
    """One call being computed."""

    def __init__(
        self,
        p: SfaProblem,
        tensors: SfaTensors,
        scale: float,
        dtype: torch.dtype,
        one_copy: bool,
        memory_limit_bytes: int,
    ) -> None:
        self.p, self.t, self.scale, self.dtype = p, tensors, scale, dtype
        #: value is key's prefix in memory: one gathered copy serves both.
        self.one_copy = one_copy
        size = dtype.itemsize
        # Each selected row raw, in float32 and converted; scores; q and out with a temporary each; indices and masks.
        row_bytes = (
            p.topK * (p.Dk * (tensors.k.element_size() + 4) + (p.Dk + p.Dv) * size)
            + p.G * p.topK * 2 * size
            + p.G * 2 * (p.Dk + p.Dv) * size
            + p.topK * 24
        )
        self.plan = WorkPlan.of(p, memory_limit_bytes, tensors.k.device, row_bytes=row_bytes, piece_bytes=_PIECE_BYTES)
        self._local = threading.local()

    def begin(self, at: BlockIndex) -> tuple[GoldenBlock, list[Callable[[], None]], int]:
        p = self.p
        out = torch.empty((p.G, at.row_count, p.Dv), dtype=self.dtype, device=self.t.q.device)
        lse = torch.empty((p.G, at.row_count), dtype=self.dtype, device=self.t.q.device)
        tasks: list[Callable[[], None]] = []
        for start, stop in self.plan.pieces(at.rows):
            here = slice(start - at.rows.start, stop - at.rows.start)
            tasks.append(partial(self._rows, at, start, stop, out[:, here], lse[:, here]))
        return GoldenBlock(at, out, lse), tasks, out.nbytes + lse.nbytes

    def _scratch(self) -> _Scratch:
        scratch: _Scratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = _Scratch(self.p, self.plan.step, self.t.k.dtype, self.dtype, self.t.k.device)
            self._local.scratch = scratch
        return scratch

    def _rows(self, at: BlockIndex, start: int, stop: int, out: torch.Tensor, lse: torch.Tensor) -> None:
        """Query positions start..stop of a block into out [G, rows, Dv] and lse [G, rows]."""
        p, t, scratch = self.p, self.t, self._scratch()
        slots = t.indices[at.b, at.n2, start:stop]
        keep = kept_slots(slots, start, p.S1, p.S2, p.is_causal)
        masked = (~keep).flatten().nonzero().flatten()
        # A masked slot reads row 0 in its place; what it reads is dropped from the scores and zeroed in the values.
        flat = slots.masked_fill(~keep, 0).flatten()
        q = t.q[at.b, at.heads, start:stop].transpose(0, 1).to(self.dtype)  # [rows, G, Dk]
        k = self._gather(t.k[at.b, at.n2], flat, scratch, scratch.k)
        scores = scratch.scores[: flat.numel() * p.G].view(stop - start, p.G, p.topK)
        torch.bmm(q, k.transpose(1, 2), out=scores)
        lse.copy_(softmax_(scores.mul_(self.scale), keep.unsqueeze(1)).transpose(0, 1))
        v = k[..., : p.Dv] if self.one_copy else self._gather(t.v[at.b, at.n2], flat, scratch, scratch.v)
        if masked.numel():
            (k if self.one_copy else v).view(flat.numel(), -1).index_fill_(0, masked, 0.0)
        out.copy_(torch.bmm(scores, v).transpose(0, 1))

    def _gather(self, source: torch.Tensor, flat: torch.Tensor, scratch: _Scratch, into: torch.Tensor) -> torch.Tensor:
        """Rows `flat` of `source` [S2, D], converted, as [rows, topK, D]."""
        count, width = flat.numel(), source.shape[-1]
        raw = scratch.raw[: count * width].view(count, width)
        torch.index_select(source, 0, flat, out=raw)
        # float16 goes to float64 five times faster by way of float32, which holds every 16-bit value exactly.
        single = scratch.single[: count * width].view(count, width).copy_(raw)
        return into[: count * width].view(count, width).copy_(single).view(-1, self.p.topK, width)


def softmax_(scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Turn `scores` [..., slots] into softmax weights in place and return the LSE (base 2) of each row.

    Where `keep` (bool, broadcastable to scores) leaves nothing, the weights are exactly 0 and the LSE is -inf.
    """
    scores.masked_fill_(~keep, -math.inf)
    # Emptiness is read from the mask, not from a maximum of -inf: a kept score may itself be -inf.
    empty = ~keep.any(dim=-1, keepdim=True)
    peak = scores.amax(dim=-1, keepdim=True).masked_fill_(empty, 0.0)
    scores.sub_(peak).exp_()
    total = scores.sum(dim=-1, keepdim=True)
    lse = ((peak + total.log()) * _LOG2_E).squeeze(-1)
    # Dividing by 1 where nothing is kept leaves the exact zeros that exp(-inf) gave.
    scores.div_(total.masked_fill_(empty, 1.0))
    return lse
