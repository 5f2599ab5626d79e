# SPDX-License-Identifier: Apache-2.0
"""Attention kernels for CUDA tensors, written in Triton.

This package is a *device layer*: it plans and launches. It validates nothing that the public API has already
validated (shapes, dtypes, devices, index ranges); it refuses only what a kernel cannot serve, by ``ValueError``.

Split in two halves
-------------------
``plan_*``
    Host work. Pure functions of the sparsity structure that return a frozen dataclass of int32 device tensors and
    of the pinned kernel configuration. They may synchronise and may allocate. A plan is immutable, so two wrappers,
    or two plans made one after the other, never overwrite each other's buffers.
``run_*``
    Launches only. They write into ``out`` and ``lse`` that the caller allocated, never synchronise, and may be
    captured into a CUDA graph (a first call outside the capture compiles the kernel). Everything a replay needs is
    owned by the plan or by the caller; what `run_prefill` and `run_sparse_flash_attention` need beside that (repacked
    mask bits, partial results of a split) they take from the caching allocator, which a capture keeps alive.

Conventions of every ``run_*``
------------------------------
- ``q``, ``k``, ``v`` and ``out`` are views ``[tokens, heads, head_dim]`` with a contiguous last dimension and any
  other strides. HND inputs and the [heads, len, dim] tensors of the variable wrapper are passed as transposed views.
- ``lse``, when given, is float32 ``[tokens, heads]`` with any strides: base-2 logarithm of the sum of exponentials of
  the scaled, capped and biased logits. A row with nothing to attend to gives zeros and -inf.
- dtypes: float16, bfloat16, float32, float8_e4m3fn, float8_e5m2 for q, k and v (one dtype for the three); ``out`` any
  of float16, bfloat16, float32.
- ``scale_q [Hq]``, ``scale_k [Hk]``, ``scale_v [Hk]`` are optional float32 device tensors (FP8).
- ``sm_scale`` is used as given. ``logits_soft_cap`` is on when > 0.
- Query head h reads kv head ``h // (Hq // Hk)``.
- Only visible (row, key) pairs touch a row's result: NaN or Inf anywhere else in k or v does not.

Interface
---------
::

    available() -> bool                      # triton importable and a CUDA device usable (or TRITON_INTERPRET=1)

    plan_bsr(indptr, indices, *, M, N, R, C, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo, q_dtype,
             packed_mask=None, causal=False, pos_encoding="NONE", device) -> BlockPlan
        # indptr int32 [MB+1], indices int32 [nnz] on any device, already validated. packed_mask: uint8, one segment a
        # block row, each padded to whole bytes, little bit order, row-major [R, nnz_i * C] with the columns in the
        # order of `indices`. causal and ROPE_LLAMA / ALIBI act on the compacted coordinates of each block row.

    plan_variable(block_mask_map, block_row_sz, block_col_sz, *, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo,
                  q_dtype, causal=False, pos_encoding="NONE", device) -> BlockPlan
        # bool [Hk, MB, NB], int32 [Hk, MB], int32 [Hk, NB]; sums already validated.

    run_block_sparse(plan, q, k, v, out, lse=None, *, sm_scale, logits_soft_cap=0.0, rope_scale=1.0, rope_theta=1e4,
                     scale_q=None, scale_k=None, scale_v=None) -> None

    run_prefill(q, k, v, out, lse=None, *, sm_scale, causal=False, window_left=-1, custom_mask=None,
                packed_custom_mask=None, pos_encoding="NONE", logits_soft_cap=0.0, rope_scale=1.0, rope_theta=1e4,
                scale_q=None, scale_k=None, scale_v=None) -> None
        # custom_mask bool [qo_len, kv_len]; packed_custom_mask uint8, flat row-major, little bit order, and wins.
        # Either one overrides causal; window_left >= 0 is ANDed with whatever mask is on.

    run_sparse_flash_attention(query, key, value, sparse_indices, out, lse=None, *, scale, layout="BSND",
                               is_causal=False) -> None
        # shapes and semantics of ascend_sparse_attention.sparse_flash_attention. sparse_indices int32. An index
        # outside [0, S2) is masked and never dereferenced. When value is a prefix view of key (same data pointer, same
        # strides) key is read once for both.

    alibi_slopes(num_heads, device) -> Tensor     # float32 [num_heads], the standard slopes
"""

from __future__ import annotations

from .api import (
    BACKEND,
    BlockPlan,
    alibi_slopes,
    available,
    plan_bsr,
    plan_variable,
    run_block_sparse,
    run_prefill,
    run_sparse_flash_attention,
)

__all__ = [
    "BACKEND",
    "BlockPlan",
    "alibi_slopes",
    "available",
    "plan_bsr",
    "plan_variable",
    "run_block_sparse",
    "run_prefill",
    "run_sparse_flash_attention",
]
