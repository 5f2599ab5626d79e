# SPDX-License-Identifier: Apache-2.0
"""Block-sparse, variable-block and single-prefill attention on a CPU: blocked torch in float64.

A plan cuts the block rows of every key/value head into *tiles* of at most TILE_ROWS query rows that share one stream of
keys, and sorts the tiles into *batches* of similar size, which one run of batched products serves. Keys are read STEP
at a time with a running softmax, so that memory is bounded whatever the lengths; results are rounded once, at the end.
float64 makes them the rounded exact ones, whatever order a machine's matrix product sums in: two ways to ask for the
same attention give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..block_problem import AttentionSpec, BsrStructure, HeadScales, Logits, PrefillMask, VariableStructure
from ..masks import alibi_slopes, unpack_bits
from .cpu import CpuBackend

#: Query rows of a tile and keys of a step. A step's operands stay in a core's cache at head dim 128.
TILE_ROWS = 64
STEP = 512

#: Elements that one batch may hold in scores, and in gathered keys and values.
_BATCH_ELEMENTS = 1 << 22

_LOG2_E = math.log2(math.e)


#: The tensors of _Batch, in the order of `_tiles`.
_FIELDS = ("kv_head", "token", "rows", "local_row", "qo_len", "key_begin", "kv_len", "mask_byte")


@dataclass(frozen=True)
class _Batch:
    """Tiles of similar size, one an entry; int64 tensors [P].

    Attributes:
        kv_head: key/value head.
        token, rows: first query row and how many.
        local_row, qo_len: the first row's place in its block row, and the block row's height.
        key_begin, kv_len: place of the tile's first key in the stream, and how many it has.
        mask_byte: first byte of its block row's mask.
        most_rows, most_keys: maxima over the entries.
    """

    kv_head: torch.Tensor
    token: torch.Tensor
    rows: torch.Tensor
    local_row: torch.Tensor
    qo_len: torch.Tensor
    key_begin: torch.Tensor
    kv_len: torch.Tensor
    mask_byte: torch.Tensor
    most_rows: int
    most_keys: int


@dataclass(frozen=True)
class CpuPlan:
    """One planned attention. Immutable, and the owner of everything it reads.

    The stream of keys is either blocks of one width (`width` > 0: key n is blocks[n // width] * width + n % width) or
    runs of any width (`width` = 0: run r has keys from blocks[r] on and ends at place run_end[r] of the stream).
    """

    batches: tuple[_Batch, ...]
    blocks: torch.Tensor
    width: int
    run_end: torch.Tensor | None
    packed_mask: torch.Tensor | None
    spec: AttentionSpec


def _tiles(
    kv_head: np.ndarray, start: np.ndarray, height: np.ndarray, begin: np.ndarray, keys: np.ndarray, mask: np.ndarray
) -> list[np.ndarray]:
    """Cut block rows into tiles; int64 [tiles] for each of _FIELDS, longest streams first."""
    pieces = -(-height // TILE_ROWS)
    owner = np.repeat(np.arange(height.size), pieces)
    local = (np.arange(owner.size) - (np.cumsum(pieces) - pieces)[owner]) * TILE_ROWS
    rows = np.minimum(height[owner] - local, TILE_ROWS)
    fields = [
        kv_head[owner], start[owner] + local, rows, local, height[owner], begin[owner], keys[owner], mask[owner]
    ]  # fmt: skip
    order = np.lexsort((-rows, -fields[6]))
    return [np.ascontiguousarray(field[order], dtype=np.int64) for field in fields]


def _batches(fields: list[np.ndarray], group: int, head_dim: int) -> tuple[_Batch, ...]:
    """Put neighbours of the sorted tiles together while memory allows and padding stays below the useful work."""
    rows, keys = fields[2].tolist(), fields[6].tolist()
    batches, first = [], 0
    most_rows = most_keys = useful = 0
    for i in range(len(rows) + 1):
        if i < len(rows):
            n, m = max(most_rows, rows[i]), max(most_keys, keys[i])
            step = max(1, min(m, STEP))
            padded = (i + 1 - first) * n * m
            fits = (i + 1 - first) * step * (group * n + 2 * head_dim) <= _BATCH_ELEMENTS
            if i == first or (fits and padded <= 2 * (useful + rows[i] * keys[i])):
                most_rows, most_keys, useful = n, m, useful + rows[i] * keys[i]
                continue
        if i > first:
            tensors = {name: torch.from_numpy(field[first:i].copy()) for name, field in zip(_FIELDS, fields)}
            batches.append(_Batch(**tensors, most_rows=most_rows, most_keys=most_keys))
        if i < len(rows):
            first, most_rows, most_keys, useful = i, rows[i], keys[i], rows[i] * keys[i]
    return tuple(batches)


def _take(source: torch.Tensor, *index: torch.Tensor) -> torch.Tensor:
    """source[index] as float64; FP8 is indexed as bytes, which torch can do everywhere."""
    if source.dtype.itemsize == 1:
        return source.view(torch.uint8)[index].view(source.dtype).double()
    return source[index].double()


def _by_head(x: torch.Tensor, num_kv_heads: int) -> torch.Tensor:
    """View [tokens, Hq, ...] as [tokens, Hk, G, ...]."""
    return x.view(x.shape[0], num_kv_heads, -1, *x.shape[2:])


def rotate(x: torch.Tensor, position: torch.Tensor, logits: Logits) -> torch.Tensor:
    """ROPE_LLAMA of x [..., D] float64 at `position`, int64 of a shape that broadcasts against x's leading dimensions.

    Pair (d, d + D/2) turns by position / rope_scale * rope_theta^(-2d/D).
    """
    half = x.shape[-1] // 2
    pair = torch.arange(half, dtype=torch.float64, device="cpu")
    frequency = logits.rope_theta ** (-2.0 * pair / x.shape[-1]) / logits.rope_scale
    angle = position.to(torch.float64).unsqueeze(-1) * frequency
    cos, sin = angle.cos(), angle.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@dataclass(frozen=True)
class _Step:
    """Keys that a batch reads at once: k [P, b, D] and v [P, b, Dv] float64, their places [b], who may see them.

    keep is bool [P or 1, n or 1, b], or None where every row sees every key.
    """

    k: torch.Tensor
    v: torch.Tensor
    place: torch.Tensor
    keep: torch.Tensor | None


def _weighted(weights: torch.Tensor, step: _Step) -> torch.Tensor:
    """weights [P, G, n, b] times v; a masked key adds nothing even where its v is NaN or Inf."""
    P, G, n, b = weights.shape
    v, keep = step.v, step.keep
    bad = None
    if keep is not None:
        finite = v.isfinite().all(dim=-1)
        if not bool(finite.all()):
            bad = ~finite
            v = v.masked_fill(bad.unsqueeze(-1), 0.0)
    out = torch.bmm(weights.reshape(P, G * n, b), v).view(P, G, n, v.shape[-1])
    if bad is not None and keep is not None:
        seen = keep.expand(P, n, b)
        for p, j in (bad & seen.any(dim=1)).nonzero().tolist():
            share = weights[p, :, :, j, None] * step.v[p, j]
            out[p] += share.masked_fill(~seen[p, :, j, None], 0.0)
    return out


def attend(
    q: torch.Tensor,
    steps: Iterable[_Step],
    head_dim_vo: int,
    factor: torch.Tensor | float,
    soft_cap: float,
    slopes: torch.Tensor | None,
    row: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Running softmax over the steps.

    Args:
        q: [P, G, n, D] float64.
        factor: of the dot products; a number or [P, G, 1, 1].
        slopes: ALiBi's, [P, G, 1, 1], or None; the bias is slope * (key place - row).
        row: [P or 1, n], place of each query row for ALiBi.

    Returns:
        out [P, G, n, Dv] and lse [P, G, n] (base 2), float64. Rows that saw no key: 0 and -inf.
    """
    P, G, n, D = q.shape
    peak = q.new_full((P, G, n), -math.inf)
    total = q.new_zeros((P, G, n))
    out = q.new_zeros((P, G, n, head_dim_vo))
    flat = q.reshape(P, G * n, D)
    for step in steps:
        logits = torch.bmm(flat, step.k.transpose(1, 2)).view(P, G, n, -1) * factor
        if soft_cap > 0:
            logits = soft_cap * torch.tanh(logits / soft_cap)
        if slopes is not None:
            logits = logits + slopes * (step.place - row.unsqueeze(-1)).unsqueeze(1)
        if step.keep is not None:
            logits = logits.masked_fill(~step.keep.unsqueeze(1), -math.inf)
        higher = torch.maximum(peak, logits.amax(dim=-1))
        # Where nothing was seen yet both are -inf, whose difference is no number.
        base = higher.masked_fill(higher == -math.inf, 0.0)
        weights = torch.exp(logits - base.unsqueeze(-1))
        rescale = torch.exp(peak - base)
        total = total * rescale + weights.sum(dim=-1)
        out = out * rescale.unsqueeze(-1) + _weighted(weights, step)
        peak = higher
    nothing = total == 0
    out = out / total.masked_fill(nothing, 1.0).unsqueeze(-1)
    lse = (peak.masked_fill(nothing, 0.0) + torch.log(total)) * _LOG2_E
    return out, lse


def _factor(logits: Logits, scales: HeadScales, kv_head: torch.Tensor, heads: torch.Tensor) -> torch.Tensor | float:
    """sm_scale * scale_q * scale_k for entries of kv_head [P] and query heads [P, G]: [P, G, 1, 1], or a number."""
    if scales.q is None and scales.k is None:
        return logits.sm_scale
    factor = torch.full(heads.shape, logits.sm_scale, dtype=torch.float64, device="cpu")
    if scales.q is not None:
        factor = factor * scales.q[heads].double()
    if scales.k is not None:
        factor = factor * scales.k[kv_head].double().unsqueeze(-1)
    return factor[:, :, None, None]


class CpuBlockBackend(CpuBackend):
    """sparse_flash_attention as `backends.cpu` has it, and the FlashInfer-compatible API."""

    def plan_block_sparse(self, structure: BsrStructure, spec: AttentionSpec) -> CpuPlan:
        ptr = structure.indptr.to(torch.int64).numpy()
        Hk, block_rows = spec.num_kv_heads, ptr.size - 1
        start = np.arange(block_rows, dtype=np.int64) * structure.R
        height = np.minimum(structure.M - start, structure.R)
        blocks = np.diff(ptr)
        bytes_of = -(-(blocks * structure.C * structure.R) // 8)
        mask = np.cumsum(bytes_of) - bytes_of
        fields = _tiles(
            np.repeat(np.arange(Hk), block_rows),
            *(np.tile(x, Hk) for x in (start, height, ptr[:-1] * structure.C, blocks * structure.C, mask)),
        )
        batches = _batches(fields, spec.num_qo_heads // Hk, spec.head_dim)
        return CpuPlan(batches, structure.indices, structure.C, None, structure.packed_mask, spec)

    def plan_variable_blocks(self, structure: VariableStructure, spec: AttentionSpec) -> CpuPlan:
        height = structure.block_row_sz.to(torch.int64)
        size = structure.block_col_sz.to(torch.int64)
        Hk, MB, NB = structure.block_mask_map.shape
        selected = (structure.block_mask_map & (size > 0).unsqueeze(1)).reshape(Hk * MB, NB).nonzero()
        head = selected[:, 0] // max(MB, 1)
        length = size[head, selected[:, 1]]
        first = (size.cumsum(1) - size)[head, selected[:, 1]]
        keys = torch.zeros(Hk * MB, dtype=torch.int64, device="cpu").index_add_(0, selected[:, 0], length).numpy()
        flat = height.reshape(-1).numpy()
        fields = _tiles(
            np.repeat(np.arange(Hk), MB),
            (height.cumsum(1) - height).reshape(-1).numpy(),
            flat,
            np.cumsum(keys) - keys,
            keys,
            np.zeros_like(flat),
        )
        batches = _batches(fields, spec.num_qo_heads // Hk, spec.head_dim)
        return CpuPlan(batches, first.to(torch.int32), 0, length.cumsum(0), None, spec)

    def run_planned(
        self,
        plan: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor | None,
        logits: Logits,
        scales: HeadScales,
    ) -> None:
        planned: CpuPlan = plan
        Hk = planned.spec.num_kv_heads
        group = q.shape[1] // Hk
        q, out = _by_head(q, Hk), _by_head(out, Hk)
        slopes = alibi_slopes(Hk * group) if planned.spec.pos_encoding == "ALIBI" else None
        for batch in planned.batches:
            head = batch.kv_head
            n = batch.most_rows
            in_tile = torch.arange(n, device="cpu")
            inside = in_tile < batch.rows.unsqueeze(-1)
            token = (batch.token.unsqueeze(-1) + in_tile).clamp(max=q.shape[0] - 1)
            row = batch.local_row.unsqueeze(-1) + in_tile
            queries = _take(q, token, head.unsqueeze(-1)).transpose(1, 2)  # [P, G, n, D]
            if planned.spec.pos_encoding == "ROPE_LLAMA":
                queries = rotate(queries, (row + (batch.kv_len - batch.qo_len).unsqueeze(-1)).unsqueeze(1), logits)
            heads = head.unsqueeze(-1) * group + torch.arange(group, device="cpu")
            result, result_lse = attend(
                queries,
                _planned_steps(planned, batch, row, k, v, logits),
                v.shape[-1],
                _factor(logits, scales, head, heads),
                logits.logits_soft_cap,
                None if slopes is None else slopes[heads][:, :, None, None],
                row,
            )
            if scales.v is not None:
                result = result * scales.v[head].double()[:, None, None, None]
            entry, at = inside.nonzero(as_tuple=True)
            out[token[entry, at], head[entry]] = result[entry, :, at].to(out.dtype)
            if lse is not None:
                _by_head(lse, Hk)[token[entry, at], head[entry]] = result_lse[entry, :, at].float()

    def run_prefill(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor | None,
        logits: Logits,
        scales: HeadScales,
        mask: PrefillMask,
        pos_encoding: str,
    ) -> None:
        (qo_len, Hq, _), (kv_len, Hk, _) = q.shape, k.shape
        group = Hq // Hk
        custom = mask.custom
        if mask.packed is not None:
            custom = unpack_bits(mask.packed, qo_len * kv_len).view(qo_len, kv_len)
        head = torch.arange(Hk, device="cpu")
        heads = torch.arange(Hq, device="cpu").view(Hk, group)
        slopes = alibi_slopes(Hq).view(Hk, group, 1, 1) if pos_encoding == "ALIBI" else None
        rows = max(1, min(256, _BATCH_ELEMENTS // (STEP * Hq)))
        shift = kv_len - qo_len
        for first in range(0, qo_len, rows):
            row = torch.arange(first, min(qo_len, first + rows), device="cpu")
            n = row.numel()
            # Keys that some row of this piece may see.
            stop = kv_len if not mask.causal else max(0, min(kv_len, shift + first + n))
            start = max(0, shift + first - mask.window_left) if mask.window_left >= 0 else 0
            queries = _by_head(q[first : first + n], Hk).permute(1, 2, 0, 3).double()
            if pos_encoding == "ROPE_LLAMA":
                queries = rotate(queries, row + shift, logits)
            result, result_lse = attend(
                queries,
                _dense_steps(k, v, start, stop, row, shift, mask, custom, pos_encoding, logits),
                v.shape[-1],
                _factor(logits, scales, head, heads),
                logits.logits_soft_cap,
                slopes,
                row.unsqueeze(0),
            )
            if scales.v is not None:
                result = result * scales.v.double()[:, None, None, None]
            out[first : first + n] = result.permute(2, 0, 1, 3).flatten(1, 2).to(out.dtype)
            if lse is not None:
                lse[first : first + n] = result_lse.permute(2, 0, 1).flatten(1, 2)

    def capturing(self) -> bool:
        return False


def _planned_steps(
    plan: CpuPlan, batch: _Batch, row: torch.Tensor, k: torch.Tensor, v: torch.Tensor, logits: Logits
) -> Iterator[_Step]:
    """The key stream of a batch; `row` [P, n] is each query's place in its block row."""
    kv_len = batch.kv_len.unsqueeze(-1)
    ragged = not bool((batch.kv_len == batch.most_keys).all())
    for start in range(0, batch.most_keys, STEP):
        place = torch.arange(start, min(start + STEP, batch.most_keys), device="cpu")
        # Beyond an entry's end the last key is read again, and masked.
        at = batch.key_begin.unsqueeze(-1) + torch.minimum(place, (kv_len - 1).clamp(min=0))
        if plan.width > 0:
            # An entry without keys may stand at the end of the stream, or the stream be empty.
            block = (at // plan.width).clamp(max=plan.blocks.numel() - 1)
            key = plan.blocks[block].to(torch.int64) * plan.width + at % plan.width
        else:
            assert plan.run_end is not None
            run = torch.searchsorted(plan.run_end, at, right=True).clamp(max=plan.run_end.numel() - 1)
            before = torch.where(run > 0, plan.run_end[run - 1], 0)
            key = (plan.blocks[run].to(torch.int64) + at - before).clamp(0, k.shape[0] - 1)
        keep = (place < kv_len).unsqueeze(1) if ragged else None
        if plan.spec.causal:
            limit = (batch.kv_len - batch.qo_len).unsqueeze(-1) + row
            causal = place <= limit.unsqueeze(-1)
            keep = causal if keep is None else keep & causal
        if plan.packed_mask is not None:
            inside = row < batch.qo_len.unsqueeze(-1)
            bit = (row * kv_len).unsqueeze(-1) + torch.minimum(place, (kv_len - 1).clamp(min=0)).unsqueeze(1)
            bit = bit.masked_fill(~inside.unsqueeze(-1), 0)
            byte = (batch.mask_byte[:, None, None] + bit // 8).clamp(max=plan.packed_mask.numel() - 1)
            allowed = (plan.packed_mask[byte] >> (bit % 8).to(torch.uint8)) & 1 != 0
            keep = allowed if keep is None else keep & allowed
        head = batch.kv_head.unsqueeze(-1)
        keys = _take(k, key, head)
        if plan.spec.pos_encoding == "ROPE_LLAMA":
            keys = rotate(keys, place, logits)
        yield _Step(keys, _take(v, key, head), place, keep)


def _dense_steps(
    k: torch.Tensor,
    v: torch.Tensor,
    first: int,
    last: int,
    row: torch.Tensor,
    shift: int,
    mask: PrefillMask,
    custom: torch.Tensor | None,
    pos_encoding: str,
    logits: Logits,
) -> Iterator[_Step]:
    """Keys first..last of single prefill for the query rows `row`; shift is kv_len - qo_len."""
    for start in range(first, last, STEP):
        place = torch.arange(start, min(start + STEP, last), device="cpu")
        keys, values = (x[start : start + place.numel()].transpose(0, 1).double() for x in (k, v))
        if pos_encoding == "ROPE_LLAMA":
            keys = rotate(keys, place, logits)
        distance = place - (row.unsqueeze(-1) + shift)
        keep = None
        if custom is not None:
            keep = custom[row][:, place]
        elif mask.causal and place[-1] > row[0] + shift:
            keep = distance <= 0
        if mask.window_left >= 0 and place[0] < row[-1] + shift - mask.window_left:
            near = distance >= -mask.window_left
            keep = near if keep is None else keep & near
        yield _Step(keys, values, place, None if keep is None else keep.unsqueeze(0))


BACKEND = CpuBlockBackend()
