# SPDX-License-Identifier: Apache-2.0
"""single_prefill_with_kv_cache, as flashinfer.prefill has it, on CPU and CUDA tensors."""

from __future__ import annotations

import functools
import math
from typing import Literal, overload

import torch

from . import backends
from . import flashinfer_checks as checks
from .block_problem import PrefillMask
from .inference import run_without_backward

__all__ = ["single_prefill_with_kv_cache", "single_prefill_with_kv_cache_return_lse"]


@overload
def single_prefill_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: torch.Tensor | None = None,
    packed_custom_mask: torch.Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    return_lse: Literal[False] = False,
) -> torch.Tensor: ...


@overload
def single_prefill_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: torch.Tensor | None = None,
    packed_custom_mask: torch.Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    *,
    return_lse: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...


def single_prefill_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: torch.Tensor | None = None,
    packed_custom_mask: torch.Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Prefill or append attention of a single request over its KV cache.

    Query head h reads key/value head h // (num_qo_heads / num_kv_heads). With query i and key j the logit is
    ``s * sm_scale`` (s the dot product, times scale_q and scale_k), then capped, then biased (ALIBI).

    Args:
        q: [qo_len, num_qo_heads, head_dim_qk]; float16, bfloat16, float32, float8_e4m3fn or float8_e5m2.
        k: [kv_len, num_kv_heads, head_dim_qk] (NHD) or [num_kv_heads, kv_len, head_dim_qk] (HND), q's dtype (on CPU
            also FP8 under other queries).
        v: as k, with head_dim_vo, which may differ from head_dim_qk.
        scale_q, scale_k, scale_v: float32 [num_qo_heads], [num_kv_heads], [num_kv_heads]: logits times
            scale_q[h] * scale_k[hk], output times scale_v[hk]. None: 1.
        o_dtype: dtype of the output; None: q's.
        custom_mask: bool [qo_len, kv_len], True where query i may see key j. It overrides causal.
        packed_custom_mask: the same, flat row-major, as uint8 bits, lowest first
            (``packbits(mask.flatten(), bitorder="little")``). It overrides custom_mask and causal.
        causal: keep j + qo_len <= kv_len + i (aligned to the bottom right).
        kv_layout: "NHD" or "HND".
        pos_encoding_mode: "NONE", "ROPE_LLAMA" (pairs d, d + D/2; query i stands at kv_len - qo_len + i) or "ALIBI"
            (adds slope[h] * (j - i)).
        use_fp16_qk_reduction: a permission to sum QK in float16; no backend makes use of it.
        sm_scale: None: 1 / sqrt(head_dim_qk).
        window_left: keep j >= kv_len - qo_len + i - window_left, on top of any mask; below 0: no window.
        logits_soft_cap: x becomes cap * tanh(x / cap) where cap > 0; None: off.
        rope_scale, rope_theta: ROPE_LLAMA turns pair d by position / rope_scale * rope_theta^(-2d/D). None: 1 and 1e4.
        backend: "auto" by q's device; "fa2" and "fa3", FlashInfer's kernels, mean the same here; or "cpu", "cuda",
            "npu".
        return_lse: return the LSE too.

    Returns:
        out [qo_len, num_qo_heads, head_dim_vo]; with return_lse also lse, float32 [qo_len, num_qo_heads]: the base-2
        logarithm of the sum of exponentials of the logits. A query with nothing to attend to has output 0 and LSE -inf:
        so have the first qo_len - kv_len queries under causal. A masked key never touches a result, even if it is NaN.

    Raises:
        KeyError: unknown kv_layout or pos_encoding_mode.
        TypeError: an argument of the wrong Python type.
        ValueError: a wrong shape, dtype, device, stride, number or backend name.
        NotImplementedError: the backend has no prefill kernel.
        RuntimeError: the backend cannot run here.

    Inputs may be strided while the last dimension is contiguous. On CUDA the call does not synchronise and can be
    captured into a graph, once a first call has compiled the kernel.

    Examples:
        >>> import torch
        >>> import ascend_sparse_attention as flashinfer
        >>> q, k, v = torch.randn(8, 4, 64).half(), torch.randn(32, 2, 64).half(), torch.randn(32, 2, 64).half()
        >>> o = flashinfer.single_prefill_with_kv_cache(q, k, v, causal=True)
        >>> mask = torch.tril(torch.full((8, 32), True), diagonal=32 - 8)
        >>> o_custom = flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask)
        >>> torch.allclose(o, o_custom, rtol=1e-3, atol=1e-3)
        True
    """
    backends.check_block_name(backend)
    checks.check_kv_layout(kv_layout)
    for name, flag in (
        ("causal", causal),
        ("return_lse", return_lse),
        ("use_fp16_qk_reduction", use_fp16_qk_reduction),
    ):
        checks.check_flag(name, flag)
    qo_len, kv_len = checks.check_prefill_operands(q, k, v, kv_layout)
    if kv_layout == "HND":
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    mode = checks.check_pos_encoding(pos_encoding_mode, q.shape[2])
    logits = checks.check_logits(q.shape[2], sm_scale, logits_soft_cap, rope_scale, rope_theta)
    scales = checks.check_scales(scale_q, scale_k, scale_v, q.shape[1], k.shape[1], q.device)
    window = checks.check_int("window_left", window_left, least=-(2**31))
    if packed_custom_mask is not None:
        size = (qo_len * kv_len + 7) // 8
        packed_custom_mask = checks.check_packed("packed_custom_mask", packed_custom_mask, (size,), q.device)
        custom_mask = None
    elif custom_mask is not None:
        custom_mask = checks.check_custom_mask(custom_mask, qo_len, kv_len, q.device)
    dtype = q.dtype if o_dtype is None else checks.canonical_dtype("o_dtype", o_dtype)
    runner = backends.resolve_block(backend, q.device, "single prefill", "q")

    out = torch.empty((qo_len, q.shape[1], v.shape[2]), dtype=dtype, device=q.device)
    lse = torch.empty((qo_len, q.shape[1]), dtype=torch.float32, device=q.device) if return_lse else None
    if kv_len == 0:
        out.zero_()
        if lse is not None:
            lse.fill_(-math.inf)
    elif qo_len > 0:
        if window >= kv_len - 1:
            window = -1  # even the last query's window holds every key; a sum with it could leave int32
        masked = custom_mask is not None or packed_custom_mask is not None
        mask = PrefillMask(custom_mask, packed_custom_mask, bool(causal) and not masked, max(window, -1))
        run_without_backward(
            "single_prefill_with_kv_cache",
            lambda: runner.run_prefill(q, k, v, out, lse, logits, scales, mask, mode),
            [out, lse],
            [q, k, v, scale_q, scale_k, scale_v],
        )
    return out if lse is None else (out, lse)


#: single_prefill_with_kv_cache that returns (out, lse).
single_prefill_with_kv_cache_return_lse = functools.partial(single_prefill_with_kv_cache, return_lse=True)
