# SPDX-License-Identifier: Apache-2.0
"""Launches of the block kernel: planned block-sparse attention and single prefill."""

from __future__ import annotations

import math

import torch

from . import configs, plans
from .configs import BlockConfig
from .plans import BlockPlan

_LOG2E = 1.4426950408889634


def split_width(dim: int, halves: bool = False) -> tuple[int, int, int, int]:
    """Cut a head dimension into two pieces of power-of-two width: (length A, width A, length B, width B).

    Piece A is the largest power of two in it, B the rest (0 if none). `halves` cuts in the middle instead, for RoPE.
    A width is a length rounded up to a power of two of at least 16, the least that a matrix product takes.
    """
    a = dim // 2 if halves else 1 << (dim.bit_length() - 1)
    b = dim - a
    return a, _width(a), b, _width(b) if b else 0


def _width(n: int) -> int:
    return max(16, 1 << (n - 1).bit_length())


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    *,
    tiles: torch.Tensor | None,
    num_tiles: int,
    stream: torch.Tensor | None,
    mask_words: torch.Tensor | None,
    mask: int,
    mask_stride: int,
    keys: int,
    block_cols: int,
    segments: int,
    heads: int,
    shared: bool,
    config: BlockConfig,
    causal: bool,
    window_left: int,
    pos_encoding: str,
    slopes: torch.Tensor | None,
    sm_scale: float,
    logits_soft_cap: float,
    rope_scale: float,
    rope_theta: float,
    scale_q: torch.Tensor | None,
    scale_k: torch.Tensor | None,
    scale_v: torch.Tensor | None,
) -> None:
    import triton.language as tl

    from .kernels.block import block_attention_kernel

    num_qo_heads, head_dim_qk = q.shape[1], q.shape[2]
    num_kv_heads, head_dim_vo = k.shape[1], v.shape[2]
    group = num_qo_heads // num_kv_heads
    rope = pos_encoding == "ROPE_LLAMA"
    if rope and head_dim_qk % 2:
        raise ValueError(f"head_dim_qk: expected an even number with ROPE_LLAMA, got {head_dim_qk}")
    if num_tiles == 0:
        return
    scaled = (scale_q is not None) + 2 * (scale_k is not None) + 4 * (scale_v is not None)
    qa, qa_w, qb, qb_w = split_width(head_dim_qk, halves=rope)
    va, va_w, vb, vb_w = split_width(head_dim_vo)
    chunks = -(-group // heads)
    grid = (num_tiles * chunks * (num_kv_heads if shared else 1),)
    dot = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}.get(q.dtype, tl.float16)
    dummy = out  # a pointer that the kernel never reads in this mode
    block_attention_kernel[grid](
        q,
        k,
        v,
        out,
        dummy if lse is None else lse,
        dummy if tiles is None else tiles,
        dummy if stream is None else stream,
        dummy if mask_words is None else mask_words,
        dummy if scale_q is None else scale_q,
        dummy if scale_k is None else scale_k,
        dummy if scale_v is None else scale_v,
        dummy if slopes is None else slopes,
        q.stride(0),
        q.stride(1),
        k.stride(0),
        k.stride(1),
        v.stride(0),
        v.stride(1),
        out.stride(0),
        out.stride(1),
        0 if lse is None else lse.stride(0),
        0 if lse is None else lse.stride(1),
        num_tiles,
        k.shape[0],
        q.shape[0],
        mask_stride,
        window_left,
        abs(sm_scale) * _LOG2E,
        math.copysign(1.0, sm_scale),
        logits_soft_cap,
        math.log2(rope_theta),
        1.0 / rope_scale,
        G=group,
        HEADS=heads,
        SHARED=shared,
        QA=qa,
        QA_W=qa_w,
        QB=qb,
        QB_W=qb_w,
        VA=va,
        VA_W=va_w,
        VB=vb,
        VB_W=vb_w,
        BM=config.block_m,
        BN=config.block_n,
        KEYS=keys,
        C=block_cols,
        SEGMENTS=segments,
        CAUSAL=causal,
        WINDOW=window_left >= 0,
        MASK=mask,
        CAP=logits_soft_cap > 0,
        ALIBI=pos_encoding == "ALIBI",
        ROPE=rope,
        SCALED=scaled,
        HAS_LSE=lse is not None,
        DOT=dot,
        PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )


def run_block_sparse(
    plan: BlockPlan,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None = None,
    *,
    sm_scale: float,
    logits_soft_cap: float = 0.0,
    rope_scale: float = 1.0,
    rope_theta: float = 1e4,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
) -> None:
    """Launch a planned attention; see the package docstring for shapes. Writes `out` and `lse`, allocates nothing."""
    _launch(
        q,
        k,
        v,
        out,
        lse,
        tiles=plan.tiles,
        num_tiles=plan.tiles.shape[0],
        stream=plan.stream,
        mask_words=plan.mask_words,
        mask=plan.mask,
        mask_stride=plan.mask_stride,
        keys=plan.keys,
        block_cols=plan.block_cols,
        segments=plan.segments,
        heads=plan.heads_per_tile,
        shared=plan.shared_structure,
        config=plan.config,
        causal=plan.causal,
        window_left=-1,
        pos_encoding=plan.pos_encoding,
        slopes=plan.slopes,
        sm_scale=sm_scale,
        logits_soft_cap=logits_soft_cap,
        rope_scale=rope_scale,
        rope_theta=rope_theta,
        scale_q=scale_q,
        scale_k=scale_k,
        scale_v=scale_v,
    )


def mask_to_words(
    custom_mask: torch.Tensor | None, packed: torch.Tensor | None, qo_len: int, kv_len: int
) -> torch.Tensor:
    """Word-aligned mask bits of single prefill. One small kernel; no synchronisation."""
    from .kernels.mask import mask_words_kernel

    source = packed if packed is not None else custom_mask
    assert source is not None
    # Whole 64-key steps: the kernel reads two words a step.
    row_words = -(-kv_len // 64) * 2
    total = qo_len * row_words
    words = torch.empty(max(total, 1), dtype=torch.int32, device=source.device)
    if total:
        block = 256
        stride = 0
        if packed is None:
            assert custom_mask is not None
            if custom_mask.stride(1) != 1:
                custom_mask = custom_mask.contiguous()
            source, stride = custom_mask.view(torch.uint8), custom_mask.stride(0)
        mask_words_kernel[(-(-total // block),)](
            source, words, stride, kv_len, row_words, total, PACKED=packed is not None, BLOCK=block
        )
    return words


def run_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None = None,
    *,
    sm_scale: float,
    causal: bool = False,
    window_left: int = -1,
    custom_mask: torch.Tensor | None = None,
    packed_custom_mask: torch.Tensor | None = None,
    pos_encoding: str = "NONE",
    logits_soft_cap: float = 0.0,
    rope_scale: float = 1.0,
    rope_theta: float = 1e4,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
) -> None:
    """Launch one request's prefill; see the package docstring for shapes and semantics."""
    qo_len, kv_len = q.shape[0], k.shape[0]
    group = q.shape[1] // k.shape[1]
    masked = custom_mask is not None or packed_custom_mask is not None
    mask_words = None
    if masked:
        causal = False
        mask_words = mask_to_words(custom_mask, packed_custom_mask, qo_len, kv_len)
    config = configs.prefill_config(
        qo_len=qo_len,
        head_dim_qk=q.shape[2],
        head_dim_vo=v.shape[2],
        dtype=q.dtype,
        masked=masked,
        rope=pos_encoding == "ROPE_LLAMA",
    )
    heads = 1
    while heads * 2 <= group and qo_len * heads < config.block_m:
        heads *= 2  # few queries: stack the group's heads, which share the keys
    _launch(
        q,
        k,
        v,
        out,
        lse,
        tiles=None,
        num_tiles=-(-qo_len // (config.block_m // heads)),
        stream=None,
        mask_words=mask_words,
        mask=plans.MASK_LOCAL if masked else plans.MASK_NONE,
        mask_stride=0,
        keys=plans.DENSE,
        block_cols=1,
        segments=1,
        heads=heads,
        shared=True,
        config=config,
        causal=causal,
        window_left=window_left,
        pos_encoding=pos_encoding,
        slopes=plans.alibi_slopes(q.shape[1], q.device) if pos_encoding == "ALIBI" else None,
        sm_scale=sm_scale,
        logits_soft_cap=logits_soft_cap,
        rope_scale=rope_scale,
        rope_theta=rope_theta,
        scale_q=scale_q,
        scale_k=scale_k,
        scale_v=scale_v,
    )
