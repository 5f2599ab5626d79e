# SPDX-License-Identifier: Apache-2.0
"""Sparse attention for Ascend NPUs, with Meta, CPU and CUDA beside the NPU."""

from .ops import sparse_flash_attention

__version__ = "0.1.0"

__all__ = ["__version__", "sparse_flash_attention"]
