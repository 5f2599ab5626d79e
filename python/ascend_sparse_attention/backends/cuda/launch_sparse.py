# SPDX-License-Identifier: Apache-2.0
"""Launch of sparse_flash_attention on CUDA tensors."""

from __future__ import annotations

import functools
import math

import torch

from ...layout import as_bnsd, same_prefix
from . import configs
from .launch_block import _LOG2E, split_width


@functools.cache
def _num_sms(device: torch.device) -> int:
    if device.type != "cuda":
        return 4  # Triton's interpreter: few, so that small tests still split
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def run_sparse_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparse_indices: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None = None,
    *,
    scale: float,
    layout: str = "BSND",
    is_causal: bool = False,
) -> None:
    """Launch the gather attention of checked arguments into `out` (and `lse`); shapes as the operator description's.

    Few rows are split over topK: the parts, float32, come from the caching allocator and a second kernel merges them.
    """
    import triton.language as tl

    from .kernels.sparse import combine_kernel, sparse_attention_kernel

    q, k, v, idx, o = (as_bnsd(x, layout) for x in (query, key, value, sparse_indices, out))
    B, N1, S1, Dk = q.shape
    N2, S2, Dv, topK = k.shape[1], k.shape[2], v.shape[3], idx.shape[3]
    if B == 0 or S1 == 0:
        return
    G = N1 // N2
    l = None if lse is None else as_bnsd(lse, layout)
    aliased = same_prefix(value, key)
    qa, qa_w, qb, qb_w = split_width(Dk)
    va, va_w, vb, vb_w = split_width(Dv)
    if aliased and (va, vb) != (qa, 0):
        # One read serves both only where V's pieces are K's: cut K where V is cut, or give the saving up.
        if vb == 0 and Dk > Dv:
            qa, qa_w, qb = va, va_w, Dk - va
            qb_w = max(16, 1 << (qb - 1).bit_length())
        aliased = (va, vb) in ((qa, 0), (qa, qb))
    config = configs.sparse_config(G=G, Dk=Dk, Dv=Dv, dtype=q.dtype, aliased=aliased)
    chunks = -(-G // config.block_h)
    tiles = B * N2 * S1 * chunks
    splits = configs.sparse_splits(tiles=tiles, topK=topK, block_n=config.block_n, num_sms=_num_sms(q.device))
    steps = -(-topK // config.block_n)
    steps_a_split = -(-steps // splits)
    splits = -(-steps // steps_a_split)
    part_out = part_lse = out
    if splits > 1:
        part_out = torch.empty(B * S1 * N1, splits, Dv, dtype=torch.float32, device=q.device)
        part_lse = torch.empty(B * S1 * N1, splits, dtype=torch.float32, device=q.device)
    dot = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}[q.dtype]
    lse_strides = (0, 0, 0) if l is None else (l.stride(0), l.stride(2), l.stride(1))
    out_strides = (o.stride(0), o.stride(2), o.stride(1))
    sparse_attention_kernel[(tiles * splits,)](
        q,
        k,
        v,
        idx,
        o,
        o if l is None else l,
        part_out,
        part_lse,
        *(s for x in (q, k, v, idx) for s in (x.stride(0), x.stride(2), x.stride(1))),
        *out_strides,
        *lse_strides,
        S1,
        S2,
        N2,
        topK,
        splits,
        steps_a_split,
        abs(scale) * _LOG2E,
        math.copysign(1.0, scale),
        G=G,
        BH=config.block_h,
        BN=config.block_n,
        QA=qa,
        QA_W=qa_w,
        QB=qb,
        QB_W=qb_w,
        VA=va,
        VA_W=va_w,
        VB=vb,
        VB_W=vb_w,
        ALIASED=aliased,
        CAUSAL=is_causal,
        SPLIT=splits > 1,
        HAS_LSE=l is not None,
        DOT=dot,
        PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    if splits > 1:
        block = min(512, max(16, 1 << (Dv - 1).bit_length()))
        combine_kernel[(B * S1 * N1, -(-Dv // block))](
            part_out,
            part_lse,
            o,
            o if l is None else l,
            *out_strides,
            *lse_strides,
            S1,
            N1,
            splits,
            DV=Dv,
            BLOCK=block,
            SPLITS=max(2, 1 << (splits - 1).bit_length()),
            HAS_LSE=l is not None,
            num_warps=4,
        )
