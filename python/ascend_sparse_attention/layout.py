# SPDX-License-Identifier: Apache-2.0
"""The two tensor layouts of the operator and the sizes read from them.

BSND puts the sequence before the heads, BNSD after them. The layout applies to every tensor of a call,
sparseIndices, the output and the LSE included.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

LAYOUTS = ("BSND", "BNSD")

#: Dimension names of each argument, as the operator description writes them.
DIM_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "BSND": {
        "query": ("B", "S1", "N1", "Dk"),
        "key": ("B", "S2", "N2", "Dk"),
        "value": ("B", "S2", "N2", "Dv"),
        "sparseIndices": ("B", "S1", "N2", "topK"),
    },
    "BNSD": {
        "query": ("B", "N1", "S1", "Dk"),
        "key": ("B", "N2", "S2", "Dk"),
        "value": ("B", "N2", "S2", "Dv"),
        "sparseIndices": ("B", "N2", "S1", "topK"),
    },
}


@dataclass(frozen=True)
class SfaProblem:
    """Sizes of one sparse_flash_attention call. The sizes may be symbolic (torch.SymInt) under tracing.

    Attributes:
        B, S1, S2, N1, N2, Dk, Dv, topK: as in the operator description.
        layout: "BSND" or "BNSD".
        is_causal: whether the bottom-right aligned causal rule applies.
        dtype: dtype of query, key, value and the output.
    """

    B: int
    S1: int
    S2: int
    N1: int
    N2: int
    Dk: int
    Dv: int
    topK: int
    layout: str
    is_causal: bool
    dtype: torch.dtype

    @property
    def G(self) -> int:
        """Query heads that share one key/value head."""
        return self.N1 // self.N2

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        if self.layout == "BSND":
            return (self.B, self.S1, self.N1, self.Dv)
        return (self.B, self.N1, self.S1, self.Dv)

    @property
    def lse_shape(self) -> tuple[int, int, int]:
        if self.layout == "BSND":
            return (self.B, self.S1, self.N1)
        return (self.B, self.N1, self.S1)


def as_bnsd(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """View a tensor of either layout with its heads before its sequence; LSE tensors [B, S1, N1] work too."""
    return tensor.transpose(1, 2) if layout == "BSND" else tensor


def same_prefix(value: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether `value` is `key[..., :Dv]` in memory: same start, same strides, so one read serves both.

    Only then may a backend read K's rows in place of V's; equal contents at another address do not count.
    """
    return (
        value.device == key.device
        and value.dtype == key.dtype
        and value.untyped_storage().data_ptr() == key.untyped_storage().data_ptr()
        and value.storage_offset() == key.storage_offset()
        and value.stride() == key.stride()
        and value.shape[:-1] == key.shape[:-1]
        and value.shape[-1] <= key.shape[-1]
    )
