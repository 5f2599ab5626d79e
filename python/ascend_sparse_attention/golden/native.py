# SPDX-License-Identifier: Apache-2.0
"""The native reference: sparse_flash_attention on the CPU with every intermediate rounded to the io dtype.

cann-bench measures a candidate's errors in its second stage against those of its own golden run in float16 or
bfloat16. The verdict turns on that run's roundings, so this module repeats them: scores = einsum(q, k), times the
scale, minus the row maximum, exp, sum over S2 columns, divided by the sum, einsum with v; every step stored in the io
dtype. Scores that are not selected play no part in any of these values: masked to -inf, they add exact zeros.

Two methods give the same bits where the second is offered:

* *literal*: the steps on all S2 columns, a run of query positions at a time, by the torch operations themselves. On a
  CPU without 16-bit matrix instructions some of torch's products then run at about 1 GFLOP/s.
* *compact*: the steps on the selected columns alone. It rests on how torch multiplies 16-bit matrices there. An
  element of a product a @ b is either one dot product of two rows, whatever stands beside them (b transposed in
  memory), or the float32 sum

      (c0 + c1) + c2 + c3,   c_r = sum of a[j] * b[j] over the terms j = r (mod 4), in ascending order

  (the last terms, past a multiple of 4, join c0), rounded once. Products of 16-bit numbers are exact in float32 and
  zero terms change nothing, so each chain c_r is a float32 matrix product over the selected terms of that residue, as
  long as the library adds its terms one after another. Intel MKL does for up to 192 terms, and for any number of
  terms with at most three rows.

None of this is taken on trust: before its first use for a kind of shape, compact is run beside the whole-tensor steps
on small random problems, and only bit-equality admits it. :attr:`NativeBlock.method` says which one was used.

A repeated index counts as often as it stands, as in the float64 golden; cann-bench's golden collapses repeats. Compact
never looks at a key that nobody selects; literal and cann-bench's golden multiply its value by zero, which NaN and Inf
survive. The methods and cann-bench's golden are bit-equal for finite inputs and unique indices, which is all that
cann-bench generates.
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
from .compact import CHAINS, compact_rows, usual_columns

METHODS = ("auto", "compact", "literal")

#: Scratch memory of one piece of work; beyond the cache a larger piece only costs memory.
_PIECE_BYTES = 12 << 20


@dataclass(frozen=True)
class NativeBlock:
    """One block of the native reference.

    Attributes:
        index: where the block sits; the same as the float64 golden's under the same memory bound.
        out: [G, rows, Dv] in the io dtype.
        method: "compact" or "literal", whichever computed it.
    """

    index: BlockIndex
    out: torch.Tensor
    method: str


def native_reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES,
    method: str = "auto",
) -> torch.Tensor:
    """Native reference of a whole call, contiguous, in the layout and dtype of query.

    Args:
        query, key, value, sparseIndices, scaleValue, inputLayout, is_causal: as the operator's own; on the CPU.
        memory_limit_bytes: bound on scratch memory beside the result.
        method: "auto" takes compact where it proves bit-equal; "compact" and "literal" force one.

    Raises:
        TypeError, ValueError: as the operator's argument checks; ValueError for tensors not on the CPU, an unknown
            method or a bound that does not hold one row.
    """
    p = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    out = torch.empty(p.output_shape, dtype=query.dtype)
    view = as_bnsd(out, p.layout)
    for block in iter_native_blocks(
        query,
        key,
        value,
        sparseIndices,
        scaleValue,
        inputLayout,
        is_causal,
        memory_limit_bytes=memory_limit_bytes,
        method=method,
    ):
        view[block.index.b, block.index.heads, block.index.rows] = block.out
    return out


def iter_native_blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES,
    method: str = "auto",
) -> Iterator[NativeBlock]:
    """Native reference block by block, cut as :func:`.sfa.iter_blocks` cuts under the same bound.

    Arguments and errors are those of :func:`native_reference`; checks run at the call, not at the first block.
    """
    p = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    if query.device.type != "cpu":
        raise ValueError(f"query: expected a CPU tensor for the native reference, got device {query.device}")
    if method not in METHODS:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    tensors = SfaTensors.of(query, key, value, sparseIndices, inputLayout)
    if method == "auto":
        method = "compact" if compact_is_exact(p, _key_is_copied(tensors.k)) else "literal"
    work = _Work(p, tensors, float(scaleValue), same_prefix(value, key), memory_limit_bytes, method)
    return run_blocks(plan_blocks(p, memory_limit_bytes), work.begin, work.plan)


class _Work:
    """One call being computed."""

    def __init__(
        self, p: SfaProblem, t: SfaTensors, scale: float, one_copy: bool, memory_limit_bytes: int, method: str
    ) -> None:
        self.p, self.t, self.scale, self.method = p, t, scale, method
        #: value is key's prefix in memory: one gathered copy serves both.
        self.one_copy = one_copy
        self.key_is_copied = _key_is_copied(t.k)
        if method == "compact":
            row_bytes, largest = _compact_row_bytes(p, usual_columns(p.topK)), _compact_row_bytes(p, CHAINS * p.topK)
        else:
            row_bytes = largest = _literal_row_bytes(p)
        self.plan = WorkPlan.of(
            p,
            memory_limit_bytes,
            t.k.device,
            row_bytes=row_bytes,
            piece_bytes=_PIECE_BYTES,
            largest_row_bytes=largest,
        )

    def begin(self, at: BlockIndex) -> tuple[NativeBlock, list[Callable[[], None]], int]:
        p = self.p
        out = torch.empty((p.G, at.row_count, p.Dv), dtype=p.dtype)
        rows = self._compact if self.method == "compact" else self._literal
        tasks: list[Callable[[], None]] = [
            partial(rows, at, start, stop, out[:, start - at.rows.start : stop - at.rows.start])
            for start, stop in self.plan.pieces(at.rows)
        ]
        return NativeBlock(at, out, self.method), tasks, out.nbytes

    def _slots(self, at: BlockIndex, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        p = self.p
        slots = self.t.indices[at.b, at.n2, start:stop]
        return slots, kept_slots(slots, start, p.S1, p.S2, p.is_causal)

    def _literal(self, at: BlockIndex, start: int, stop: int, out: torch.Tensor) -> None:
        p, t = self.p, self.t
        slots, keep = self._slots(at, start, stop)
        q = t.q[at.b, at.heads, start:stop].reshape(1, -1, p.Dk)  # [1, G * rows, Dk]
        k, v = t.k[at.b, at.n2], t.v[at.b, at.n2]
        columns = k.T.contiguous() if self.key_is_copied else k.T
        scores = torch.bmm(q, columns.unsqueeze(0)).view(p.G, stop - start, p.S2)
        weights = _rounded_softmax(scores, _counts(slots, keep, p.S2), self.scale)
        out.copy_(torch.bmm(weights.view(1, -1, p.S2), v.unsqueeze(0)).view(p.G, stop - start, p.Dv))

    def _compact(self, at: BlockIndex, start: int, stop: int, out: torch.Tensor) -> None:
        p, t = self.p, self.t
        slots, keep = self._slots(at, start, stop)
        q = t.q[at.b, at.heads, start:stop].transpose(0, 1)  # [rows, G, Dk]
        v = None if self.one_copy else t.v[at.b, at.n2]
        rows = compact_rows(q, t.k[at.b, at.n2], v, p.Dv, slots, keep, self.scale, self.key_is_copied)
        out.copy_(rows.transpose(0, 1))


def _literal_row_bytes(p: SfaProblem) -> int:
    # Scores, quotient and torch.where's result; the mask; counts; one row of q and out.
    return p.S2 * (p.G * (3 * p.dtype.itemsize + 1) + 8) + p.topK * 16 + p.G * (p.Dk + p.Dv) * 4


def _compact_row_bytes(p: SfaProblem, columns: int) -> int:
    size = p.dtype.itemsize
    gathered = columns * (p.Dk * (size + 8) + p.Dv * (size + 4))
    return gathered + columns * p.G * (2 * size + 12) + p.G * p.S2 * size + p.G * p.Dv * 24 + columns * 64


def _key_is_copied(k: torch.Tensor) -> bool:
    """Whether einsum copies `k` [B, N2, S2, Dk] before it multiplies: its batch and head dimensions do not merge.

    The copy holds Dk rows of S2 columns, the other way round from `k`, and takes torch through other roundings.
    """
    return k.shape[0] > 1 and k.shape[1] > 1 and k.stride(0) != k.shape[1] * k.stride(1)


def _counts(slots: torch.Tensor, keep: torch.Tensor, S2: int) -> torch.Tensor:
    """How often each of the S2 columns is selected: [..., rows, S2] int32."""
    counts = torch.zeros((*slots.shape[:-1], S2), dtype=torch.int32)
    return counts.scatter_add_(-1, slots.masked_fill(~keep, 0).to(torch.int64), keep.to(torch.int32))


def _rounded_softmax(scores: torch.Tensor, counts: torch.Tensor, scale: float) -> torch.Tensor:
    """Weights of products `scores` [..., G, rows, S2], every step rounded to their dtype; counts [..., rows, S2].

    A row whose largest score is -inf gives zeros, as in cann-bench's golden.
    """
    counts = counts.unsqueeze(-3)
    scores = scores * scale
    scores.masked_fill_(counts == 0, -math.inf)
    peak = scores.amax(dim=-1, keepdim=True)
    nothing = peak == -math.inf
    scores -= peak
    scores.exp_()
    if bool((counts > 1).any()):
        scores *= counts
    return torch.where(nothing, torch.zeros_like(scores), scores / scores.sum(dim=-1, keepdim=True))


_proof_lock = threading.Lock()
_proofs: dict[tuple[object, ...], bool] = {}


#: Output elements of a proof's sample. Of two orders of summation about one element in a thousand tells them apart.
_PROOF_ELEMENTS = 1 << 16


def compact_is_exact(p: SfaProblem, key_is_copied: bool) -> bool:
    """Whether compact gives torch's bits on this machine for this kind of shape; tried once, then remembered."""
    # A product with a single row takes its own way through torch.
    single = p.G * p.S1 == 1
    kind = (p.dtype, p.G, p.Dk, p.Dv, p.topK, p.S2 % CHAINS, single, key_is_copied)
    with _proof_lock:
        if kind not in _proofs:
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # as the workers run
            try:
                _proofs[kind] = all(_equal_on_a_sample(p, single, key_is_copied, spread) for spread in (1, CHAINS))
            finally:
                torch.set_num_threads(threads)
        return _proofs[kind]


def _equal_on_a_sample(p: SfaProblem, single: bool, key_is_copied: bool, spread: int) -> bool:
    """Compare compact with the whole-tensor steps on random tensors.

    Indices are multiples of `spread`: 1 fills all chains alike, 4 crowds them into one, so that it grows long.
    """
    generator = torch.Generator().manual_seed(0)
    B = N2 = 2 if key_is_copied else 1
    rows = -(-_PROOF_ELEMENTS // (B * N2 * p.G * p.Dv))
    if single:
        N2, rows = N2 * min(rows, 32), 1
    topK = min(p.topK, 2048 // spread)
    S2 = topK * spread * 5 // 4 // CHAINS * CHAINS + p.S2 % CHAINS + CHAINS
    k, v, q = (
        (torch.rand(shape, generator=generator) * 2 - 1).to(p.dtype)
        for shape in ((B, S2, N2, p.Dk), (B, S2, N2, p.Dv), (B, N2, p.G, rows, p.Dk))
    )
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    order = torch.rand((B, N2, rows, S2 // spread), generator=generator).argsort(-1)[..., :topK]
    slots = (order * spread).to(torch.int32)
    keep = torch.ones_like(slots, dtype=torch.bool)
    scale = 1.0 / math.sqrt(p.Dk)
    weights = _rounded_softmax(torch.einsum("bngsd,bnkd->bngsk", q, k), _counts(slots, keep, S2), scale)
    whole = torch.einsum("bngsk,bnkd->bngsd", weights, v)
    for b in range(B):
        for n in range(N2):
            for few in torch.split(torch.arange(rows), 4):
                compact = compact_rows(
                    q[b, n][:, few].transpose(0, 1),
                    k[b, n],
                    v[b, n],
                    p.Dv,
                    slots[b, n, few],
                    keep[b, n, few],
                    scale,
                    key_is_copied,
                )
                if not torch.equal(compact.transpose(0, 1), whole[b, n][:, few]):
                    return False
    return True
