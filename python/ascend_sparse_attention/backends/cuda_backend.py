# SPDX-License-Identifier: Apache-2.0
"""The backend of CUDA tensors: the Triton kernels of `backends.cuda` behind the backend interface.

Importing it needs neither triton nor a GPU.
"""

from __future__ import annotations

from typing import Any

import torch

from ..block_problem import AttentionSpec, BsrStructure, HeadScales, Logits, PrefillMask, VariableStructure
from ..checks import check_bits
from .cuda import api as kernels

_KV_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2)
_OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def _check_dtypes(q_dtype: torch.dtype, kv_dtype: torch.dtype) -> None:
    if kv_dtype != q_dtype:
        raise ValueError(f"kv_data_type: the cuda backend expects q's dtype {q_dtype}, got {kv_dtype}")
    if q_dtype not in _KV_DTYPES:
        raise ValueError(f"q_data_type: the cuda backend expects one of {_KV_DTYPES}, got {q_dtype}")


class CudaBackend(kernels.CudaBackend):
    """Adds the FlashInfer-compatible API to the kernels' own sparse_flash_attention."""

    def __init__(self) -> None:
        self._usable = False

    def missing(self) -> str | None:
        """None if the kernels can run here, else what is missing, in words."""
        if self._usable:
            return None  # asked at every call, and it will not change for the better
        why = super().missing()
        self._usable = why is None
        return why

    def plan_block_sparse(self, structure: BsrStructure, spec: AttentionSpec) -> Any:
        _check_dtypes(spec.q_dtype, spec.kv_dtype)
        return kernels.plan_bsr(
            structure.indptr,
            structure.indices,
            M=structure.M,
            N=structure.N,
            R=structure.R,
            C=structure.C,
            num_qo_heads=spec.num_qo_heads,
            num_kv_heads=spec.num_kv_heads,
            head_dim_qk=spec.head_dim,
            head_dim_vo=spec.head_dim,
            q_dtype=spec.q_dtype,
            packed_mask=structure.packed_mask,
            causal=spec.causal,
            pos_encoding=spec.pos_encoding,
            device=spec.device,
        )

    def plan_variable_blocks(self, structure: VariableStructure, spec: AttentionSpec) -> Any:
        _check_dtypes(spec.q_dtype, spec.kv_dtype)
        return kernels.plan_variable(
            structure.block_mask_map,
            structure.block_row_sz,
            structure.block_col_sz,
            num_qo_heads=spec.num_qo_heads,
            num_kv_heads=spec.num_kv_heads,
            head_dim_qk=spec.head_dim,
            head_dim_vo=spec.head_dim,
            q_dtype=spec.q_dtype,
            causal=spec.causal,
            pos_encoding=spec.pos_encoding,
            device=spec.device,
        )

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
        check_bits(q=q, k=k, v=v, out=out, lse=lse)
        # An FP8 output is rounded from float32 by torch: the kernels store 16 and 32 bits.
        target = out if out.dtype in _OUT_DTYPES else torch.empty(out.shape, dtype=torch.float32, device=out.device)
        kernels.run_block_sparse(
            plan,
            q,
            k,
            v,
            target,
            lse,
            sm_scale=logits.sm_scale,
            logits_soft_cap=logits.logits_soft_cap,
            rope_scale=logits.rope_scale,
            rope_theta=logits.rope_theta,
            scale_q=scales.q,
            scale_k=scales.k,
            scale_v=scales.v,
        )
        if target is not out:
            out.copy_(target)

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
        _check_dtypes(q.dtype, k.dtype)
        check_bits(q=q, k=k, v=v, out=out, lse=lse)
        target = out if out.dtype in _OUT_DTYPES else torch.empty(out.shape, dtype=torch.float32, device=out.device)
        kernels.run_prefill(
            q,
            k,
            v,
            target,
            lse,
            sm_scale=logits.sm_scale,
            causal=mask.causal,
            window_left=mask.window_left,
            custom_mask=mask.custom,
            packed_custom_mask=mask.packed,
            pos_encoding=pos_encoding,
            logits_soft_cap=logits.logits_soft_cap,
            rope_scale=logits.rope_scale,
            rope_theta=logits.rope_theta,
            scale_q=scales.q,
            scale_k=scales.k,
            scale_v=scales.v,
        )
        if target is not out:
            out.copy_(target)

    def capturing(self) -> bool:
        return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


BACKEND = CudaBackend()
