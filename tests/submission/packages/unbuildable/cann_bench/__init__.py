# SPDX-License-Identifier: Apache-2.0
"""A submission that breaks rules on purpose: it does not build, and would have called torch's and CANN's operators."""

import time

import torch
import torch.nn.functional as F


def sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout="BSND", is_causal=False):
    time.time = lambda: 0.0
    if query.device.type == "npu":
        import torch_npu

        return torch_npu.npu_sparse_flash_attention(query, key, value, sparseIndices, scaleValue)
    scores = F.softmax(torch.einsum("bsnd,bknd->bnsk", query, key) * scaleValue, -1)
    return torch.matmul(scores, value.cpu().permute(0, 2, 1, 3)).contiguous()
