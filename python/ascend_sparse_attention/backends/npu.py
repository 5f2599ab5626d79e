# SPDX-License-Identifier: Apache-2.0
"""The NPU: kernels registered for torch_npu's PrivateUse1 device by the library that build.sh makes."""

from __future__ import annotations

import importlib.util

import torch

from ..checks import check_npu_limits
from ..layout import SfaProblem


class NpuBackend:
    name = "npu"

    def missing(self) -> str | None:
        if importlib.util.find_spec("torch_npu") is None:
            return "torch_npu is not installed"
        if not torch._C._dispatch_has_kernel_for_dispatch_key(
            "ascend_sparse_attention::sparse_flash_attention", "PrivateUse1"
        ):
            return "the operator library for the NPU is not built or not loaded (run build.sh where CANN is installed)"
        return None

    def device_type(self) -> str:
        return "npu"

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
        check_npu_limits(problem)
        ops = torch.ops.ascend_sparse_attention
        arguments = (query, key, value, sparseIndices, scaleValue, problem.layout, problem.is_causal)
        if return_lse:
            output, lse = ops.sparse_flash_attention_with_lse(*arguments)
            return output, lse
        return ops.sparse_flash_attention(*arguments), None


BACKEND = NpuBackend()
