# SPDX-License-Identifier: Apache-2.0
"""Launches of the block kernel: planned block-sparse attention and single prefill."""

from __future__ import annotations

import dataclasses
import functools
import math

import torch

from . import configs, plans
from .configs import BlockConfig
from .launcher import Launcher, Prepared, hooked, tensor_key, unused
from .plans import BlockPlan

LOG2E = 1.4426950408889634


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


@dataclasses.dataclass(frozen=True)
class _Call:
    """What both kernels need beside the tensors; see `plans.BlockPlan` for the fields of the same name."""

    tiles: torch.Tensor | None
    num_tiles: int
    stream: torch.Tensor | None
    mask_words: torch.Tensor | None
    flags: torch.Tensor | None
    mask: int
    mask_stride: int
    keys: int
    block_cols: int
    segments: int
    heads: int
    shared: bool
    config: BlockConfig
    causal: bool
    window_left: int
    pos_encoding: str
    slopes: torch.Tensor | None
    sm_scale: float
    logits_soft_cap: float
    rope_scale: float
    rope_theta: float
    scale_q: torch.Tensor | None
    scale_k: torch.Tensor | None
    scale_v: torch.Tensor | None

    @property
    def row_masked(self) -> bool:
        """Whether rows of one tile may see different keys."""
        return self.causal or self.window_left >= 0 or self.mask != plans.MASK_NONE

    @property
    def scaled(self) -> int:
        return (self.scale_q is not None) + 2 * (self.scale_k is not None) + 4 * (self.scale_v is not None)

    def items(self, q: torch.Tensor, k: torch.Tensor) -> int:
        return plans.work_items(self.num_tiles, q.shape[1] // k.shape[1], self.heads, k.shape[1], self.shared)


@functools.cache
def is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


@functools.cache
def num_sms(device: torch.device) -> int:
    if device.type != "cuda":
        return 4  # Triton's interpreter: few, so that small tests still split
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def aligned(x: torch.Tensor) -> bool:
    """Whether rows can be copied 16 bytes at a time."""
    return x.data_ptr() % 16 == 0 and all(s * x.element_size() % 16 == 0 for s in x.stride()[:-1])


def _hopper_serves(call: _Call, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    return (
        call.config.ring > 0
        and is_hopper(q.device)
        and q.dtype in (torch.float16, torch.bfloat16)
        and call.pos_encoding == "NONE"
        and call.logits_soft_cap <= 0
        and call.scaled == 0
        and call.sm_scale * LOG2E > 1.2e-38  # positive as a float32 too
        and q.shape[2] in (64, 128, 256)
        and v.shape[2] in (64, 128, 256)
        and k.shape[0] > 0
        and all(aligned(x) for x in (q, k, v))
        # Row copies multiply 32 bits by 32, and bulk copies want memory of its own for every row.
        and all(0 < step < 2**31 or n == 1 for x in (k, v) for step, n in zip(x.stride(), x.shape))
    )


#: Tensors of a call in the order in which prepared launches take them.
_FRESH = ("q", "k", "v", "out", "lse", "mask_words", "flags", "scale_q", "scale_k", "scale_v")


def _launch(
    call: _Call, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor | None
) -> list[Prepared]:
    """Launch the call's kernels. Returns their prepared launches, none in Triton's interpreter."""
    if call.num_tiles == 0:
        return []
    if not _hopper_serves(call, q, k, v):
        steps = [_launch_portable(call, q, k, v, out, lse, redo=False)]
    else:
        steps = [_launch_hopper(call, q, k, v, out, lse)]
        if call.row_masked:
            steps.append(_launch_portable(call, q, k, v, out, lse, redo=True))
    return [step for step in steps if step is not None]


def _values(
    call: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], *rest: torch.Tensor | None
) -> list[torch.Tensor]:
    """The tensors `_FRESH` of a call; absent ones are never read."""
    nothing = unused(call[0].device)
    return [*call, *(nothing if x is None else x for x in rest)]


def _launch_hopper(
    call: _Call, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor | None
) -> Prepared | None:
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    config = call.config
    k_desc, v_desc = k, v
    if call.keys in (plans.RANGE, plans.DENSE):
        layout = gl.NVMMASharedLayout(128, 16, 3)
        rows = config.block_n if call.keys == plans.DENSE else min(config.block_n, call.block_cols)
        k_desc, v_desc = (
            TensorDescriptor(
                x, [x.shape[1], x.shape[0], x.shape[2]], [x.stride(1), x.stride(0), 1], [1, rows, x.shape[2]], layout
            )
            for x in (k, v)
        )
    items = call.items(q, k)
    dummy = unused(q.device)
    args = (
        q,
        k,
        v,
        k_desc,
        v_desc,
        out,
        dummy if lse is None else lse,
        dummy if call.tiles is None else call.tiles,
        dummy if call.stream is None else call.stream,
        dummy if call.mask_words is None else call.mask_words,
        dummy if call.flags is None else call.flags,
        *_strides(q, k, v, out, lse),
        call.num_tiles,
        items,
        k.shape[0],
        q.shape[0],
        call.mask_stride,
        call.window_left,
        call.sm_scale * LOG2E,
    )
    constants = {
        "G": q.shape[1] // k.shape[1],
        "HEADS": call.heads,
        "SHARED": call.shared,
        "GROUPS": config.block_m // 64,
        "BN": config.block_n,
        "STAGES": config.ring,
        "DQ": q.shape[2],
        "DV": v.shape[2],
        "KEYS": call.keys,
        "C": call.block_cols,
        "SEGMENTS": call.segments,
        "CAUSAL": call.causal,
        "WINDOW": call.window_left >= 0,
        "MASK": call.mask,
        "HAS_LSE": lse is not None,
        "CONSUMER_REGS": config.consumer_regs,
        "PRODUCER_REGS": config.producer_regs,
    }
    groups = config.block_m // 64
    registers = (config.consumer_regs * groups + config.producer_regs) // (groups + 1)
    programs = min(items, num_sms(q.device) * config.programs_per_sm)
    options = {"num_warps": 4, "maxnreg": registers}
    return _hopper_launcher()(programs, args, constants, options, q.device, _FRESH)


@functools.cache
def _hopper_launcher() -> Launcher:
    from .kernels.hopper_block import hopper_block_kernel

    return Launcher(hopper_block_kernel)


@functools.cache
def _portable_launcher() -> Launcher:
    from .kernels.block import block_attention_kernel

    return Launcher(block_attention_kernel)


@functools.cache
def _mask_launcher() -> Launcher:
    from .kernels.mask import mask_words_kernel

    return Launcher(mask_words_kernel)


def _strides(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor | None
) -> tuple[int, ...]:
    tensors = [s for x in (q, k, v, out) for s in (x.stride(0), x.stride(1))]
    return (*tensors, 0, 0) if lse is None else (*tensors, lse.stride(0), lse.stride(1))


def _launch_portable(
    call: _Call,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    *,
    redo: bool,
) -> Prepared | None:
    import triton.language as tl

    head_dim_qk, head_dim_vo = q.shape[2], v.shape[2]
    rope = call.pos_encoding == "ROPE_LLAMA"
    if rope and head_dim_qk % 2:
        raise ValueError(f"head_dim_qk: expected an even number with ROPE_LLAMA, got {head_dim_qk}")
    config = call.config
    qa, qa_w, qb, qb_w = split_width(head_dim_qk, halves=rope)
    va, va_w, vb, vb_w = split_width(head_dim_vo)
    dot = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}.get(q.dtype, tl.float16)
    dummy = unused(q.device)
    args = (
        q,
        k,
        v,
        out,
        dummy if lse is None else lse,
        dummy if call.tiles is None else call.tiles,
        dummy if call.stream is None else call.stream,
        dummy if call.mask_words is None else call.mask_words,
        dummy if call.scale_q is None else call.scale_q,
        dummy if call.scale_k is None else call.scale_k,
        dummy if call.scale_v is None else call.scale_v,
        dummy if call.slopes is None else call.slopes,
        dummy if call.flags is None else call.flags,
        *_strides(q, k, v, out, lse),
        call.num_tiles,
        k.shape[0],
        q.shape[0],
        call.mask_stride,
        call.window_left,
        abs(call.sm_scale) * LOG2E,
        math.copysign(1.0, call.sm_scale),
        call.logits_soft_cap,
        math.log2(call.rope_theta),
        1.0 / call.rope_scale,
    )
    constants = {
        "G": q.shape[1] // k.shape[1],
        "HEADS": call.heads,
        "SHARED": call.shared,
        "QA": qa,
        "QA_W": qa_w,
        "QB": qb,
        "QB_W": qb_w,
        "VA": va,
        "VA_W": va_w,
        "VB": vb,
        "VB_W": vb_w,
        "BM": config.block_m,
        "BN": config.block_n,
        "KEYS": call.keys,
        "C": call.block_cols,
        "SEGMENTS": call.segments,
        "CAUSAL": call.causal,
        "WINDOW": call.window_left >= 0,
        "MASK": call.mask,
        "CAP": call.logits_soft_cap > 0,
        "ALIBI": call.pos_encoding == "ALIBI",
        "ROPE": rope,
        "SCALED": call.scaled,
        "HAS_LSE": lse is not None,
        "DOT": dot,
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
        "REDO": redo,
    }
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return _portable_launcher()(call.items(q, k), args, constants, options, q.device, _FRESH)


#: Prepared launches that one plan keeps.
_MOST_LAUNCHES = 256


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
    scales = (scale_q, scale_k, scale_v)
    key = (
        *(tensor_key(x) for x in (q, k, v, out)),
        *(None if x is None else tensor_key(x) for x in (lse, *scales)),
        (sm_scale, logits_soft_cap, rope_scale, rope_theta),
    )
    steps = plan.launches.get(key)
    if steps and not hooked():
        values = _values((q, k, v, out), lse, plan.mask_words, plan.flags, *scales)
        for step in steps:
            step(values)
        return
    call = _Call(
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
        flags=plan.flags,
        sm_scale=sm_scale,
        logits_soft_cap=logits_soft_cap,
        rope_scale=rope_scale,
        rope_theta=rope_theta,
        scale_q=scale_q,
        scale_k=scale_k,
        scale_v=scale_v,
    )
    if len(plan.launches) >= _MOST_LAUNCHES:
        plan.launches.clear()  # forward() may see new numbers for ever
    plan.launches[key] = _launch(call, q, k, v, out, lse)


def mask_to_words(
    custom_mask: torch.Tensor | None, packed: torch.Tensor | None, qo_len: int, kv_len: int
) -> torch.Tensor:
    """Word-aligned mask bits of single prefill. One small kernel; no synchronisation."""
    source = packed if packed is not None else custom_mask
    assert source is not None
    # Rows of whole 64 keys, and four words more: a step of 128 keys may read past the last row's end.
    row_words = -(-kv_len // 64) * 2
    total = qo_len * row_words
    words = torch.empty(total + 4, dtype=torch.int32, device=source.device)
    if total:
        block = 256
        stride = 0
        if packed is None:
            assert custom_mask is not None
            if custom_mask.stride(1) != 1:
                custom_mask = custom_mask.contiguous()
            source, stride = custom_mask.view(torch.uint8), custom_mask.stride(0)
        _mask_launcher()(
            -(-total // block),
            (source, words, stride, kv_len, row_words, total),
            {"PACKED": packed is not None, "BLOCK": block},
            {"num_warps": 4},
            words.device,
        )
    return words


#: Prepared launches of single prefill by problem, and the flags that each needs; serving sees new lengths for ever.
_prefills: dict[tuple[object, ...], tuple[int, list[Prepared]]] = {}
_MOST_PREFILLS = 1024


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
    config: BlockConfig | None = None,
) -> None:
    """Launch one request's prefill; see the package docstring for shapes and semantics."""
    qo_len, kv_len = q.shape[0], k.shape[0]
    group = q.shape[1] // k.shape[1]
    masked = custom_mask is not None or packed_custom_mask is not None
    mask_words = mask_to_words(custom_mask, packed_custom_mask, qo_len, kv_len) if masked else None
    causal = causal and not masked
    scales = (scale_q, scale_k, scale_v)
    key = (
        q.device,
        *(tensor_key(x) for x in (q, k, v, out)),
        *(None if x is None else tensor_key(x) for x in (lse, *scales)),
        (sm_scale, causal, window_left, masked, pos_encoding, logits_soft_cap, rope_scale, rope_theta, config),
    )
    prepared = _prefills.get(key)
    # Raised by tiles that must be computed again; 0 at the start.
    items, steps = prepared or (0, [])
    if steps and not hooked():
        flags = torch.zeros(items, dtype=torch.int32, device=q.device) if items else None
        values = _values((q, k, v, out), lse, mask_words, flags, *scales)
        for step in steps:
            step(values)
        return
    config = config or configs.prefill_config(
        head_dim_qk=q.shape[2],
        head_dim_vo=v.shape[2],
        dtype=q.dtype,
        rope=pos_encoding == "ROPE_LLAMA",
    )
    heads = 1
    while heads * 2 <= group and qo_len * heads < config.block_m:
        heads *= 2  # few queries: stack the group's heads, which share the keys
    call = _Call(
        tiles=None,
        num_tiles=-(-qo_len // (config.block_m // heads)),
        stream=None,
        flags=None,
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
    items = call.items(q, k) if call.row_masked and _hopper_serves(call, q, k, v) else 0
    if items:
        call = dataclasses.replace(call, flags=torch.zeros(items, dtype=torch.int32, device=q.device))
    if len(_prefills) >= _MOST_PREFILLS:
        _prefills.clear()
    _prefills[key] = (items, _launch(call, q, k, v, out, lse))
