# SPDX-License-Identifier: Apache-2.0
"""The native reference's steps on the selected columns alone, with the bits that torch gives on all S2 columns.

What torch's 16-bit products compute, and why these functions may skip columns, is said in :mod:`.native`, which also
proves the equality on the machine at hand before it relies on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

#: Partial sums of torch's 16-bit matrix product.
CHAINS = 4

#: Terms that a float32 matrix product of any height adds one after another, and the height up to which it always does.
_CHAIN_TERMS = 192
_CHAIN_ROWS = 3


def usual_columns(topK: int) -> int:
    """Columns of a query position whose indices spread over the chains; at worst, all in one, it has 4 * topK."""
    return topK + topK // 8 + 8 * CHAINS


def compact_rows(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None,
    Dv: int,
    slots: torch.Tensor,
    keep: torch.Tensor,
    scale: float,
    key_is_copied: bool,
) -> torch.Tensor:
    """Attention of some query positions of one (b, n2) pair.

    Args:
        q: [rows, G, Dk]; k: [S2, Dk]; v: [S2, Dv] or None where v is k[:, :Dv]; all in the io dtype.
        slots, keep: [rows, topK]; an index with keep False takes no part.
        key_is_copied: whether torch would copy the keys of the whole call into columns, and so multiply in chains.

    Returns:
        [rows, G, Dv] in the io dtype.
    """
    rows, G, Dk = q.shape
    selected = _select(slots, keep, k.shape[0])
    if rows > 1 and selected.columns.shape[1] > usual_columns(slots.shape[1]):
        # All rows are as long as the longest chain makes them; few at a time keep to the memory foreseen.
        halves = zip(q.tensor_split(2), slots.tensor_split(2), keep.tensor_split(2))
        return torch.cat([compact_rows(q, k, v, Dv, s, kept, scale, key_is_copied) for q, s, kept in halves])
    flat = selected.columns.flatten()
    keys = k.index_select(0, flat).view(rows, -1, Dk)
    scores = (_score_chains(q, keys) if key_is_copied else torch.bmm(q, keys.transpose(1, 2))).mul_(scale)
    scores.masked_fill_(~selected.filled.unsqueeze(1), -math.inf)
    peak = scores.amax(dim=-1, keepdim=True)
    nothing = peak == -math.inf
    scores.sub_(peak).exp_()
    weights = scores.div_(_column_sum(scores, selected, k.shape[0])).masked_fill_(nothing, 0.0)

    values = (keys[..., :Dv] if v is None else v.index_select(0, flat).view(rows, -1, Dv)).to(torch.float32)
    # A hole in a chain read row 0; only a zero is sure to add nothing.
    holes = (~selected.filled).flatten().nonzero().flatten()
    values = values.view(-1, Dv).index_fill_(0, holes, 0.0)
    chained = weights.view(rows, G, CHAINS, -1).transpose(1, 2).to(torch.float32)
    return _sum_chains(chained, values.view(rows, CHAINS, -1, Dv)).to(q.dtype)


def _score_chains(q: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """q [rows, G, Dk] times keys [rows, columns, Dk], the terms of Dk in chains; [rows, G, columns] in the io dtype."""
    rows, G, _ = q.shape
    a = q.to(torch.float32).reshape(rows, G, -1, CHAINS).movedim(-1, 1)
    # Terms outermost: with few rows the library adds transposed operands in another order.
    b = keys.to(torch.float32).view(rows, keys.shape[1], -1, CHAINS).permute(0, 3, 2, 1)
    return _sum_chains(a, b).to(q.dtype)


def _sum_chains(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Products a [rows, 4, G, terms] @ b [rows, 4, terms, width], each adding in order, summed over the chains.

    Returns:
        [rows, G, width] float32.
    """
    rows, _, G, terms = a.shape
    a, b = a.reshape(rows * CHAINS, G, terms).contiguous(), b.reshape(rows * CHAINS, terms, -1).contiguous()
    if terms <= _CHAIN_TERMS or G <= _CHAIN_ROWS:
        products = torch.bmm(a, b)
    else:
        products = torch.cat([torch.bmm(few, b) for few in torch.split(a, _CHAIN_ROWS, dim=1)], dim=1)
    c = products.view(rows, CHAINS, G, -1).unbind(1)
    return ((c[0] + c[1]) + c[2]) + c[3]


@dataclass(frozen=True)
class _Selected:
    """Selected columns of each query position: chain after chain, ascending in each, chains of equal length.

    Attributes:
        columns: [rows, 4 * length] int64; 0 where a chain is not filled.
        filled: bool of the same shape.
    """

    columns: torch.Tensor
    filled: torch.Tensor


def _select(slots: torch.Tensor, keep: torch.Tensor, S2: int) -> _Selected:
    rows, topK = slots.shape
    whole = S2 - S2 % CHAINS
    columns = slots.to(torch.int64)
    chain = torch.where(columns < whole, columns % CHAINS, 0)
    # Masked slots sort behind the last chain.
    order, _ = torch.where(keep, chain * S2 + columns, CHAINS * S2).sort(dim=-1)
    chain = order.div(S2, rounding_mode="floor")
    counts = torch.zeros((rows, CHAINS + 1), dtype=torch.int64).scatter_add_(-1, chain, torch.ones_like(chain))
    length = max(1, int(counts[:, :CHAINS].max()))
    first = counts.cumsum(-1) - counts
    place = torch.arange(topK) - first.gather(-1, chain) + chain * length
    # One column too many takes all masked slots and is cut off.
    columns = torch.full((rows, CHAINS * length + 1), -1, dtype=torch.int64)
    columns.scatter_(-1, place.clamp_(max=CHAINS * length), order - chain * S2)
    columns = columns[:, :-1]
    return _Selected(columns.clamp(min=0), columns >= 0)


def _column_sum(exps: torch.Tensor, selected: _Selected, S2: int) -> torch.Tensor:
    """Sum of `exps` [rows, G, 4 * length] in the order in which torch adds S2 columns: [rows, G, 1] in the io dtype."""
    rows, G, _ = exps.shape
    # Holes go to a column past the end.
    columns = selected.columns.masked_fill(~selected.filled, S2)
    spread = torch.zeros((rows, G, S2 + 1), dtype=exps.dtype)
    spread.scatter_(-1, columns.unsqueeze(1).expand_as(exps), exps)
    total = spread[..., :S2].sum(dim=-1, keepdim=True)
    repeated = _has_repeats(selected)
    if bool(repeated.any()):
        # A column holds one term, so it cannot hold a repeated index; no order is laid down for such a row.
        total = torch.where(repeated[:, None, None], exps.sum(dim=-1, keepdim=True), total)
    return total


def _has_repeats(selected: _Selected) -> torch.Tensor:
    """Rows [rows] in which some column stands more than once; repeats stand side by side in their chain."""
    rows = selected.columns.shape[0]
    columns, filled = selected.columns.view(rows, CHAINS, -1), selected.filled.view(rows, CHAINS, -1)
    return ((columns[..., 1:] == columns[..., :-1]) & filled[..., 1:]).flatten(1).any(dim=-1)
