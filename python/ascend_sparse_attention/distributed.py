# SPDX-License-Identifier: Apache-2.0
"""DTensor sharding of sparse_flash_attention. Importing this module registers it.

::

    import ascend_sparse_attention.distributed  # once, in every process
    y = sparse_flash_attention(query, key, value, sparseIndices, scale)  # DTensors in, a DTensor out

Attention of one (batch, key/value head, query position) needs nothing of another, so these splits do not communicate:

===========================  ==========================================  ==========================================
split over                   arguments                                   when
===========================  ==========================================  ==========================================
batch                        all four and the results                    always
key/value heads              all four and the results                    N2 is a multiple of the number of devices
query heads of one key head  query and the results; the rest replicated  N2 = 1 (MQA, MLA)
query positions              query, sparseIndices and the results; key   not causal: the rule counts positions from
                             and value replicated                        the end of the whole query
===========================  ==========================================  ==========================================

Inputs placed otherwise are redistributed by DTensor to the cheapest of these. For keys split over devices (context
parallelism) run the op on each part, with the indices of that part, and combine the results with `merge_state`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from . import ops as _ops  # noqa: F401 (registers the ops)

__all__ = ["register"]

_Strategy = tuple[list[Placement], list[Placement | None]]


def _strategies(query: Any, key: Any, layout: str, is_causal: bool, num_outputs: int) -> list[_Strategy]:
    """Acceptable (output, input) placements along one dimension of the mesh; query and key are DTensorSpecs."""
    batch, seq, heads = (0, 1, 2) if layout == "BSND" else (0, 2, 1)

    def strategy(results: Placement, *tensors: Placement) -> _Strategy:
        # scaleValue, inputLayout and is_causal are no tensors.
        return [results] * num_outputs, [*tensors, None, None, None]

    whole, by_head, by_position = Replicate(), Shard(heads), Shard(seq)
    accepted = [strategy(whole, whole, whole, whole, whole), strategy(*[Shard(batch)] * 5)]
    num_kv_heads = key.tensor_meta.shape[heads]
    if num_kv_heads % query.mesh.size() == 0:
        # An uneven split would part query heads from their key heads.
        accepted.append(strategy(*[by_head] * 5))
    ranks, num_heads = query.mesh.size(), query.tensor_meta.shape[heads]
    if num_kv_heads == 1 and -(-num_heads // ranks) * (ranks - 1) < num_heads:
        # Otherwise the last rank would be left without a head, which no call may be.
        accepted.append(strategy(by_head, by_head, whole, whole, whole))
    if not is_causal:
        accepted.append(strategy(by_position, by_position, whole, whole, by_position))
    return accepted


def register() -> None:
    """Register the strategies with DTensor. Done on import; doing it again changes nothing."""
    namespace = torch.ops.ascend_sparse_attention
    for op, num_outputs in (
        (namespace.sparse_flash_attention.default, 1),
        (namespace.sparse_flash_attention_with_lse.default, 2),
    ):

        def strategies(
            query: Any,
            key: Any,
            value: Any,
            sparseIndices: Any,
            scaleValue: float,
            inputLayout: str = "BSND",
            is_causal: bool = False,
            _num_outputs: int = num_outputs,
        ) -> list[_Strategy]:
            return _strategies(query, key, inputLayout, is_causal, _num_outputs)

        register_sharding(op)(strategies)


register()
