# SPDX-License-Identifier: Apache-2.0
"""The Python function over the ops, with the operator description's own argument names."""

from __future__ import annotations

from typing import Literal, overload

import torch

from .. import backends
from ..checks import check_sparse_flash_attention, check_types
from ..selection import check_index_values, index_check_requested


@overload
def sparse_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    return_lse: Literal[False] = False,
    backend: str = "auto",
    check_indices: bool | None = None,
) -> torch.Tensor: ...


@overload
def sparse_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    return_lse: Literal[True],
    backend: str = "auto",
    check_indices: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...


def sparse_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    return_lse: bool = False,
    backend: str = "auto",
    check_indices: bool | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention over the key/value rows that sparseIndices selects for each query position.

    ``y = softmax(q @ K_sel^T * scaleValue) @ V_sel`` per (b, n2, s1), with the G = N1 / N2 query heads of a key/value
    head sharing its indices (operator description, section 2).

    Args:
        query: [B, S1, N1, Dk] (BSND) or [B, N1, S1, Dk] (BNSD), float16 or bfloat16. Dk a multiple of 64.
        key: [B, S2, N2, Dk] or [B, N2, S2, Dk], query's dtype. N1 must be a multiple of N2.
        value: [B, S2, N2, Dv] or [B, N2, S2, Dv], query's dtype. Dv a multiple of 64, Dv <= Dk. It is honoured as
            given; where it is the view ``key[..., :Dv]`` a backend may read key once for both.
        sparseIndices: [B, S1, N2, topK] or [B, N2, S1, topK], int32, 1 <= topK <= S2. An index outside [0, S2), -1
            included, in any position, is masked. A repeated index counts as often as it stands.
        scaleValue: any finite number, usually 1 / sqrt(Dk); used as given.
        inputLayout: "BSND" or "BNSD", for all tensors.
        is_causal: keep only idx <= s1 + (S2 - S1) (bottom-right aligned); needs S1 <= S2.
        return_lse: return the log-sum-exp too.
        backend: "auto" (by the tensors' device), "cpu", "cuda", "npu", or "twin" (CPU tensors; the Ascend C
            kernel runs in the CPU twin).
        check_indices: raise on an index outside [0, S2) instead of masking it. None: as ASA_CHECK_INDICES says
            (0 or 1, default 0). Reads the indices, so it synchronises a device.

    Returns:
        y, [B, S1, N1, Dv] or [B, N1, S1, Dv], contiguous, query's dtype; with return_lse also the LSE: float32, base 2,
        [B, S1, N1] or [B, N1, S1]. A row with nothing left to attend to is exactly 0, its LSE -inf. A NaN in q or in a
        selected key reaches its row. B = 0 or S1 = 0 gives an empty output.

    Inputs may be strided while the last dimension is contiguous; nothing is copied.

    Raises:
        TypeError, ValueError: a wrong argument; the message names it, what was expected and what came.
        RuntimeError: the backend cannot run here; the message says what is missing.
    """
    check_types(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    if not isinstance(backend, str) or backend not in backends.NAMES:
        raise ValueError(f"backend: expected one of {', '.join(backends.NAMES)}, got {backend!r}")
    if backend != "auto":
        backends.resolve(backend, query.device)
        if backend == "cuda" and query.device.type != "cuda":
            # Triton's interpreter takes them, but the op goes by the device, so the CPU's kernel would answer instead.
            raise ValueError(f"backend: cuda expects tensors on cuda, got query on {query.device}")
    if index_check_requested(check_indices):
        # Values come after everything that can be said without reading them.
        problem = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
        check_index_values(sparseIndices, problem.S2, inputLayout)
    ops = torch.ops.ascend_sparse_attention
    if backend == "twin":
        op = ops.twin_sparse_flash_attention_with_lse if return_lse else ops.twin_sparse_flash_attention
    else:
        op = ops.sparse_flash_attention_with_lse if return_lse else ops.sparse_flash_attention
    result: torch.Tensor | tuple[torch.Tensor, torch.Tensor] = op(
        query, key, value, sparseIndices, scaleValue, inputLayout, is_causal
    )
    return result
