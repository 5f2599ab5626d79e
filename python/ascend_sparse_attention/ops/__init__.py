# SPDX-License-Identifier: Apache-2.0
"""torch.ops.ascend_sparse_attention: schemas, dispatch to the backends, Meta and the Python function over them."""

from .api import sparse_flash_attention
from .registration import SCHEMAS

__all__ = ["SCHEMAS", "sparse_flash_attention"]
