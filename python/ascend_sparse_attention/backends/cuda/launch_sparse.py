# SPDX-License-Identifier: Apache-2.0
"""Launch of sparse_flash_attention on CUDA tensors."""

from __future__ import annotations

import functools
import math

import torch

from ...layout import as_bnsd
from . import configs
from .configs import MLA_BLOCK_H, MLA_BLOCK_N, SparseConfig
from .launch_block import LOG2E, aligned, is_hopper, num_sms, split_width
from .launcher import Launcher, Prepared, hooked, tensor_key, unused

#: Tensors of the attention in the order in which a prepared launch takes them.
_FRESH = ("q", "k", "v", "indices", "out", "lse")


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
    config: SparseConfig | None = None,
) -> None:
    """Launch the gather attention of checked arguments into `out` (and `lse`); shapes as the operator description's.

    Few rows are split over topK: the parts, float32, come from the caching allocator and a second kernel merges them.
    """
    q, k, v, idx, o = (as_bnsd(x, layout) for x in (query, key, value, sparse_indices, out))
    B, N1, S1, Dk = q.shape
    N2, S2, Dv, topK = k.shape[1], k.shape[2], v.shape[3], idx.shape[3]
    if B == 0 or S1 == 0:
        return
    l = None if lse is None else as_bnsd(lse, layout)
    # Same start, same strides: V is K's prefix, and one read serves both.
    aliased = v.data_ptr() == k.data_ptr() and v.stride() == k.stride()
    problem = (
        q.device,
        *(tensor_key(x) for x in (q, k, v, idx, o)),
        None if l is None else tensor_key(l),
        (scale, is_causal, aliased, config),
    )
    prepared = _prepared.get(problem)
    if prepared is not None and not hooked():
        splits, attend, combine = prepared
        part_out, part_lse = _parts(o, l, splits, Dv)
        attend((q, k, v, idx, part_out, part_lse))
        if combine is not None:
            combine((part_out, part_lse, o, part_lse if l is None else l))
        return

    G = N1 // N2
    if config is None:
        config = configs.sparse_config(rows=B * N2 * S1, G=G, Dk=Dk, Dv=Dv, dtype=q.dtype, aliased=aliased)
    hopper = config.hopper and _mla_serves(q, k, Dv, aliased)
    step = 2 * MLA_BLOCK_N if hopper else config.block_n
    chunks = -(-G // (MLA_BLOCK_H if hopper else config.block_h))
    steps = -(-topK // step)
    splits = configs.sparse_splits(
        tiles=B * N2 * S1 * chunks, steps=steps, num_sms=num_sms(q.device), most=config.most_splits
    )
    steps_a_split = -(-steps // splits)
    splits = -(-steps // steps_a_split)
    part_out, part_lse = _parts(o, l, splits, Dv)
    # Strides by b, s1, head and split; without a split the part is the output itself.
    out_strides: tuple[int, ...] = (*_by_row(o), 0)
    lse_strides: tuple[int, ...] = (0, 0, 0, 0) if l is None else (*_by_row(l), 0)
    if splits > 1:
        out_strides, lse_strides = part_out.stride()[:4], part_lse.stride()
    sizes = (S1, S2, N2, topK, splits, steps_a_split)
    has_lse = splits > 1 or l is not None
    programs = B * N2 * S1 * chunks * splits
    if hopper:
        main = _launch_mla(
            q, k, idx, part_out, part_lse, programs, out_strides, lse_strides, sizes, scale, is_causal, has_lse, config
        )
    else:
        main = _launch_gather(
            q, k, v, idx, part_out, part_lse, programs, out_strides, lse_strides, sizes, scale, is_causal, has_lse,
            aliased, config,
        )  # fmt: skip
    combine = _launch_combine(part_out, part_lse, o, l) if splits > 1 else None
    if main is not None:
        if len(_prepared) >= _MOST_PREPARED:
            _prepared.clear()
        _prepared[problem] = (splits, main, combine)


#: Prepared launches by problem: parts of topK, the attention, the combination. Bounded: lengths may vary for ever.
_prepared: dict[tuple[object, ...], tuple[int, Prepared, Prepared | None]] = {}
_MOST_PREPARED = 1024


def _parts(o: torch.Tensor, l: torch.Tensor | None, splits: int, Dv: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the attention writes: parts [B, S1, N1, splits, Dv] with their LSE, or the output itself."""
    if splits == 1:
        return o, unused(o.device) if l is None else l
    B, N1, S1, _ = o.shape
    return (
        torch.empty(B, S1, N1, splits, Dv, dtype=torch.float32, device=o.device),
        torch.empty(B, S1, N1, splits, dtype=torch.float32, device=o.device),
    )


def _mla_serves(q: torch.Tensor, k: torch.Tensor, Dv: int, aliased: bool) -> bool:
    """Whether the Hopper kernel takes the call: V the first 512 columns of K, at most 64 more, half precision."""
    return (
        aliased
        and Dv == 512
        and q.shape[3] in (512, 576)
        and q.dtype in (torch.float16, torch.bfloat16)
        and is_hopper(q.device)
        and aligned(q)
        and aligned(k)
    )


def _by_row(x: torch.Tensor) -> tuple[int, int, int]:
    """Strides of a [B, N, S, ...] view by b, s and head."""
    return x.stride(0), x.stride(2), x.stride(1)


def _launch_mla(
    q: torch.Tensor,
    k: torch.Tensor,
    idx: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    programs: int,
    out_strides: tuple[int, ...],
    lse_strides: tuple[int, ...],
    sizes: tuple[int, ...],
    scale: float,
    is_causal: bool,
    has_lse: bool,
    config: SparseConfig,
) -> Prepared | None:
    args = (
        q,
        k,
        idx,
        out,
        lse,
        *_by_row(q),
        *_by_row(k),
        *_by_row(idx),
        *out_strides,
        *lse_strides,
        *sizes,
        scale * LOG2E,
    )
    constants = {
        "G": q.shape[1] // k.shape[1],
        "EXTRA": q.shape[3] - 512,
        "CAUSAL": is_causal,
        "HAS_LSE": has_lse,
        "CONSUMER_REGS": config.consumer_regs,
        "PRODUCER_REGS": config.producer_regs,
    }
    registers = (2 * config.consumer_regs + config.producer_regs) // 3
    options = {"num_warps": 4, "maxnreg": registers}
    return _launcher("mla")(programs, args, constants, options, q.device, _FRESH)


@functools.cache
def _launcher(which: str) -> Launcher:
    if which == "mla":
        from .kernels.hopper_mla import mla_kernel

        return Launcher(mla_kernel)
    from .kernels import sparse

    return Launcher(sparse.combine_kernel if which == "combine" else sparse.sparse_attention_kernel)


def _launch_gather(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    idx: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    programs: int,
    out_strides: tuple[int, ...],
    lse_strides: tuple[int, ...],
    sizes: tuple[int, ...],
    scale: float,
    is_causal: bool,
    has_lse: bool,
    aliased: bool,
    config: SparseConfig,
) -> Prepared | None:
    import triton.language as tl

    Dk, Dv = q.shape[3], v.shape[3]
    qa, qa_w, qb, qb_w = split_width(Dk)
    va, va_w, vb, vb_w = split_width(Dv)
    if aliased and vb == 0 and Dk > Dv:
        qa, qa_w, qb = va, va_w, Dk - va  # cut K where V ends, so that one read serves both
        qb_w = max(16, 1 << (qb - 1).bit_length())
    dot = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}[q.dtype]
    args = (
        q,
        k,
        v,
        idx,
        out,
        lse,
        *_by_row(q),
        *_by_row(k),
        *_by_row(v),
        *_by_row(idx),
        *out_strides,
        *lse_strides,
        *sizes,
        abs(scale) * LOG2E,
        math.copysign(1.0, scale),
    )
    constants = {
        "G": q.shape[1] // k.shape[1],
        "BH": config.block_h,
        "BN": config.block_n,
        "QA": qa,
        "QA_W": qa_w,
        "QB": qb,
        "QB_W": qb_w,
        "VA": va,
        "VA_W": va_w,
        "VB": vb,
        "VB_W": vb_w,
        "ALIASED": aliased and (va, vb) in ((qa, 0), (qa, qb)),
        "CAUSAL": is_causal,
        "HAS_LSE": has_lse,
        "DOT": dot,
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
    }
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return _launcher("gather")(programs, args, constants, options, q.device, _FRESH)


def _launch_combine(
    part_out: torch.Tensor, part_lse: torch.Tensor, o: torch.Tensor, l: torch.Tensor | None
) -> Prepared | None:
    B, S1, N1, splits, Dv = part_out.shape
    block = min(configs.COMBINE_BLOCK, max(16, 1 << (Dv - 1).bit_length()))
    column_blocks = -(-Dv // block)
    args = (
        part_out,
        part_lse,
        o,
        part_lse if l is None else l,
        *_by_row(o),
        *((0, 0, 0) if l is None else _by_row(l)),
        S1,
        N1,
        splits,
    )
    constants = {"DV": Dv, "BLOCK": block, "SPLITS": 1 << (splits - 1).bit_length(), "HAS_LSE": l is not None}
    fresh = ("part_out", "part_lse", "out", "lse")
    return _launcher("combine")(B * S1 * N1 * column_blocks, args, constants, {"num_warps": 4}, o.device, fresh)
