# SPDX-License-Identifier: Apache-2.0
"""Sparse attention for Ascend NPUs, with Meta, CPU and CUDA beside the NPU."""

from .merge import merge_state, merge_state_in_place, merge_states
from .ops import sparse_flash_attention
from .prefill import single_prefill_with_kv_cache, single_prefill_with_kv_cache_return_lse
from .quantization import packbits, segment_packbits
from .sparse import BlockSparseAttentionWrapper, VariableBlockSparseAttentionWrapper

__version__ = "0.1.0"

__all__ = [
    "BlockSparseAttentionWrapper",
    "VariableBlockSparseAttentionWrapper",
    "__version__",
    "merge_state",
    "merge_state_in_place",
    "merge_states",
    "packbits",
    "segment_packbits",
    "single_prefill_with_kv_cache",
    "single_prefill_with_kv_cache_return_lse",
    "sparse_flash_attention",
]
