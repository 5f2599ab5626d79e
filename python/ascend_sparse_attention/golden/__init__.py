# SPDX-License-Identifier: Apache-2.0
"""Goldens: float64 references that every backend is judged by, and the native reference in the io dtype."""

from .blocks import DEFAULT_MEMORY_LIMIT_BYTES, BlockIndex
from .native import NativeBlock, iter_native_blocks, native_reference
from .sfa import GoldenBlock, GoldenResult, iter_blocks, sparse_flash_attention

__all__ = [
    "DEFAULT_MEMORY_LIMIT_BYTES",
    "BlockIndex",
    "GoldenBlock",
    "GoldenResult",
    "NativeBlock",
    "iter_blocks",
    "iter_native_blocks",
    "native_reference",
    "sparse_flash_attention",
]
