# SPDX-License-Identifier: Apache-2.0
"""What the FlashInfer-compatible API hands to a backend: checked, on the right device, owned by the plan.

Sizes follow FlashInfer's names: M rows of queries, N rows of keys, blocks of R x C, Hq query heads and Hk key/value
heads, query head h reading key head h // (Hq / Hk).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class AttentionSpec:
    """What a plan fixes beside the sparsity structure.

    Attributes:
        num_qo_heads, num_kv_heads: Hq and Hk.
        head_dim: of q, k, v and the output.
        q_dtype, kv_dtype, o_dtype: dtypes of q, of k and v, and of the output.
        causal: bottom-right causal inside each block row's compacted coordinates. False where a mask overrides it.
        pos_encoding: "NONE", "ROPE_LLAMA" or "ALIBI", on the same coordinates.
        device: where the runs will be.
    """

    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    q_dtype: torch.dtype
    kv_dtype: torch.dtype
    o_dtype: torch.dtype
    causal: bool
    pos_encoding: str
    device: torch.device


@dataclass(frozen=True)
class BsrStructure:
    """A block-sparse row matrix of M x N with blocks of R x C, one for all heads.

    Attributes:
        indptr: int32 [MB + 1] on the CPU, MB = ceil(M / R).
        indices: int32 [nnz] on the plan's device, a copy of the caller's, each in [0, N / C); any order, repeats count.
        packed_mask: uint8 on the plan's device or None. One segment a block row: its [R, nnz_i * C] bits row-major, the
            columns in the order of `indices`, lowest bit of a byte first, padded to whole bytes. The last segment has R
            rows too, where only the first M - (MB - 1) R matter.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    M: int
    N: int
    R: int
    C: int
    packed_mask: torch.Tensor | None


@dataclass(frozen=True)
class VariableStructure:
    """Blocks of varying size, one map a key/value head.

    Attributes:
        block_mask_map: bool [Hk, MB, NB].
        block_row_sz: int32 [Hk, MB], each head's sizes >= 0 and summing to qo_len.
        block_col_sz: int32 [Hk, NB], each head's sizes >= 0 and summing to kv_len.
        All three are on the plan's device and may share memory with the caller's: a backend reads them in plan() only.
    """

    block_mask_map: torch.Tensor
    block_row_sz: torch.Tensor
    block_col_sz: torch.Tensor
    qo_len: int
    kv_len: int


@dataclass(frozen=True)
class Logits:
    """How a dot product s becomes a logit, apart from masks and positions.

    Attributes:
        sm_scale: factor of s.
        logits_soft_cap: s * sm_scale becomes cap * tanh(s * sm_scale / cap) where cap > 0.
        rope_scale, rope_theta: ROPE_LLAMA's position divisor and frequency base.
    """

    sm_scale: float
    logits_soft_cap: float = 0.0
    rope_scale: float = 1.0
    rope_theta: float = 1e4


@dataclass(frozen=True)
class HeadScales:
    """Dequantisation factors, float32 on q's device or None: q [Hq], k [Hk], v [Hk]."""

    q: torch.Tensor | None = None
    k: torch.Tensor | None = None
    v: torch.Tensor | None = None


@dataclass(frozen=True)
class PrefillMask:
    """Which keys a query of single prefill sees.

    Attributes:
        custom: bool [qo_len, kv_len] or None.
        packed: uint8 [ceil(qo_len * kv_len / 8)], row-major bits, lowest of a byte first, or None; never both.
        causal: keep kv + qo_len <= kv_len + i; False where a mask overrides it.
        window_left: keep kv >= kv_len - qo_len + i - window_left where >= 0; on top of any mask.
    """

    custom: torch.Tensor | None = None
    packed: torch.Tensor | None = None
    causal: bool = False
    window_left: int = -1
