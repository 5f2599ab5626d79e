# SPDX-License-Identifier: Apache-2.0
"""What the package exports, in one place. Importing it needs neither triton nor a GPU."""

from __future__ import annotations

import importlib.util
import os

import torch

from ...layout import SfaProblem
from .launch_block import run_block_sparse, run_prefill
from .launch_sparse import run_sparse_flash_attention
from .plans import BlockPlan, alibi_slopes, plan_bsr, plan_variable

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


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


class CudaBackend:
    """The backend of CUDA tensors; of CPU tensors in Triton's interpreter, for tests."""

    name = "cuda"

    def missing(self) -> str | None:
        """None if the kernels can run here, else what is missing, in words."""
        if importlib.util.find_spec("triton") is None:
            return "the triton package is not installed (it comes with PyTorch's CUDA builds)"
        if _interpreted():
            return None
        if not torch.cuda.is_available():
            return "PyTorch sees no CUDA device"
        if torch.cuda.get_device_capability() < (8, 0):
            return "the CUDA device is older than compute capability 8.0"
        return None

    def device_type(self) -> str:
        return "cpu" if _interpreted() and not torch.cuda.is_available() else "cuda"

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
        out = torch.empty(problem.output_shape, dtype=query.dtype, device=query.device)
        lse = torch.empty(problem.lse_shape, dtype=torch.float32, device=query.device) if return_lse else None
        run_sparse_flash_attention(
            query,
            key,
            value,
            sparseIndices,
            out,
            lse,
            scale=scaleValue,
            layout=problem.layout,
            is_causal=problem.is_causal,
        )
        return out, lse


BACKEND = CudaBackend()


def available() -> bool:
    """Whether the kernels can run here (see `CudaBackend.missing` for why not)."""
    return BACKEND.missing() is None
