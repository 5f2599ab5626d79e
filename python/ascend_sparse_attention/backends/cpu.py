# SPDX-License-Identifier: Apache-2.0
"""sparse_flash_attention on a CPU: blocked torch, float32 accumulation, one final rounding.

Fast enough to debug a model with. Scores, softmax and output accumulate in float32; P is not rounded to the io dtype.
"""

from __future__ import annotations

import math

import torch

from ..layout import SfaProblem, as_bnsd, same_prefix
from ..selection import kept_slots

# Float32 working set of one block of query rows. Blocks this size stay near the last-level cache: larger ones were
# slower on the machines tried, smaller ones pay for more calls.
_BLOCK_BYTES = 32 << 20

_LOG2_E = math.log2(math.e)


def _gather_rows(source: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Rows of source [S2, D] at indices [rows, topK] -> [rows, topK, D] float32."""
    flat = source.index_select(0, indices.reshape(-1))
    return flat.view(*indices.shape, source.shape[-1]).float()


def _attend_block(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor | None,
    Dv: int,
    indices: torch.Tensor,
    keep: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of one block of query rows of one key/value head.

    Args:
        query: [rows, G, Dk]; key: [S2, Dk]; value: [S2, Dv], or None where it is key's prefix.
        indices, keep: [rows, topK].

    Returns:
        float32 output [rows, G, Dv] and base-2 LSE [rows, G].
    """
    masked = not bool(keep.all())
    if masked:
        indices = indices.masked_fill(~keep, 0)
    selected = _gather_rows(key, indices)
    scores = torch.bmm(query.float(), selected.transpose(1, 2)) * scale
    selected_value = selected[..., :Dv] if value is None else _gather_rows(value, indices)
    if masked:
        scores.masked_fill_(~keep.unsqueeze(1), -math.inf)
        # A masked slot points at row 0 by now, which may hold NaN or Inf: 0 * NaN would reach the sum.
        selected_value = selected_value.masked_fill(~keep.unsqueeze(-1), 0.0)
    lse = torch.logsumexp(scores, dim=-1) * _LOG2_E
    weights = torch.softmax(scores, dim=-1)
    if masked:
        empty = ~keep.any(dim=-1)
        weights.masked_fill_(empty[:, None, None], 0.0)
    return torch.bmm(weights, selected_value), lse


class CpuBackend:
    name = "cpu"

    def missing(self) -> str | None:
        return None

    def device_type(self) -> str:
        return "cpu"

    def sparse_flash_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        sparseIndices: torch.Tensor,
        scaleValue: float,
        problem: SfaProblem,
        return_lse: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        p = problem
        output = torch.empty(p.output_shape, dtype=p.dtype, device=query.device)
        lse = torch.empty(p.lse_shape, dtype=torch.float32, device=query.device) if return_lse else None
        prefix = same_prefix(value, key)
        q, k, v, idx, out = (as_bnsd(t, p.layout) for t in (query, key, value, sparseIndices, output))
        out_lse = as_bnsd(lse, p.layout) if lse is not None else None
        row_bytes = 4 * (p.topK * (p.Dk + (0 if prefix else p.Dv) + 3 * p.G) + p.G * (p.Dk + p.Dv))
        rows_per_block = max(1, _BLOCK_BYTES // row_bytes)
        for b in range(p.B):
            for n2 in range(p.N2):
                heads = slice(n2 * p.G, (n2 + 1) * p.G)
                # When rows are read more than once, converting a head to float32 first saves the repeats.
                key_head = k[b, n2].float() if p.S1 * p.topK > p.S2 else k[b, n2]
                value_head = None if prefix else (v[b, n2].float() if p.S1 * p.topK > p.S2 else v[b, n2])
                for start in range(0, p.S1, rows_per_block):
                    rows = slice(start, min(start + rows_per_block, p.S1))
                    indices = idx[b, n2, rows]
                    keep = kept_slots(indices, start, p.S1, p.S2, p.is_causal)
                    block, block_lse = _attend_block(
                        q[b, heads, rows].transpose(0, 1), key_head, value_head, p.Dv, indices, keep, scaleValue
                    )
                    out[b, heads, rows] = block.transpose(0, 1).to(p.dtype)
                    if out_lse is not None:
                        out_lse[b, heads, rows] = block_lse.transpose(0, 1)
        return output, lse


BACKEND = CpuBackend()
