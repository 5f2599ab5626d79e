# SPDX-License-Identifier: Apache-2.0
"""A submission that breaks rules on purpose: wrong names, a patched clock, a leaning import, wrong and lazy results."""

import time

import torch

try:
    import ascend_sparse_attention
except ImportError:
    ascend_sparse_attention = None

time.perf_counter = time.process_time


class Lazy(torch.Tensor):
    pass


def sparse_flash_attention(query, key, value, indices=None, scale=1.0, inputLayout="BNSD", is_causal=False, **more):
    key.zero_()
    out = torch.empty(*query.shape[:-1], value.shape[-1], dtype=query.dtype, device=query.device)
    out.numpy() if query.dtype == torch.float16 else None
    return out.fill_(0.25).as_subclass(Lazy)
