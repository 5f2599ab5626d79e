# SPDX-License-Identifier: Apache-2.0
"""Argument checks of the FlashInfer-compatible API: once, before any work, the same for every backend.

Messages name the argument, what was expected and what came. Checks of a run look at shapes, dtypes, devices and strides
only, so they read no device memory; checks of a plan do, and synchronise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .block_problem import HeadScales, Logits
from .checks import FLOAT32_MAX
from .masks import segment_bytes

KV_LAYOUTS = ("NHD", "HND")
POS_ENCODING_MODES = ("NONE", "ROPE_LLAMA", "ALIBI")

#: dtypes of q, k, v and of outputs.
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2)

_INT32_MAX = 2**31 - 1


def check_tensor(name: str, value: object) -> torch.Tensor:
    """Raise TypeError unless value is a Tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(value).__name__}")
    return value


def check_int(name: str, value: object, least: int) -> int:
    """An integer of at least `least` that fits int32 (numpy's integers count)."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}")
    number = int(value.__index__())
    if not least <= number <= _INT32_MAX:
        raise ValueError(f"{name}: expected an int in [{least}, {_INT32_MAX}], got {number}")
    return number


def check_flag(name: str, value: object) -> bool:
    """A bool (numpy's counts)."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise TypeError(f"{name}: expected a bool, got {type(value).__name__}")
    return bool(value)


def canonical_dtype(name: str, dtype: object) -> torch.dtype:
    """A dtype given as torch.dtype or by its name in torch ("float16").

    Raises:
        TypeError: neither.
        ValueError: not a dtype that attention takes.
    """
    if isinstance(dtype, str):
        found = getattr(torch, dtype, None)
        if not isinstance(found, torch.dtype):
            raise ValueError(f"{name}: expected the name of a torch dtype, got {dtype!r}")
        dtype = found
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name}: expected a str or a torch.dtype, got {type(dtype).__name__}")
    if dtype not in DTYPES:
        raise ValueError(f"{name}: expected one of {', '.join(map(str, DTYPES))}, got {dtype}")
    return dtype


def check_pos_encoding(mode: object, head_dim: int) -> str:
    """A position encoding's name; ROPE_LLAMA needs an even head_dim. KeyError on an unknown one."""
    if not isinstance(mode, str) or mode not in POS_ENCODING_MODES:
        raise KeyError(f"Invalid pos_encoding_mode {mode!r}, expected one of {', '.join(POS_ENCODING_MODES)}")
    if mode == "ROPE_LLAMA" and head_dim % 2:
        raise ValueError(f"head_dim: expected an even number with ROPE_LLAMA, got {head_dim}")
    return mode


def check_kv_layout(layout: object) -> str:
    """NHD or HND. KeyError on anything else."""
    if not isinstance(layout, str) or layout not in KV_LAYOUTS:
        raise KeyError(f"Invalid kv_layout {layout!r}, expected NHD or HND")
    return layout


def check_heads(num_qo_heads: int, num_kv_heads: int) -> None:
    """num_qo_heads must be a multiple of num_kv_heads."""
    if num_qo_heads % num_kv_heads != 0:
        raise ValueError(
            f"num_qo_heads: expected a multiple of num_kv_heads = {num_kv_heads}, got num_qo_heads = {num_qo_heads}"
        )


def _number(name: str, value: object, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: expected a finite number or None, got {type(value).__name__}")
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        # Its value would have to be waited for.
        raise TypeError(f"{name}: expected a finite number or None, got a Tensor on {value.device}")
    try:
        number = float(value.__float__())
    except (TypeError, ValueError, RuntimeError):  # of more than one element
        raise TypeError(f"{name}: expected a finite number or None, got {type(value).__name__} of several") from None
    except OverflowError:
        raise ValueError(f"{name}: expected a number that float32 holds, got a larger int") from None
    if not math.isfinite(number):
        raise ValueError(f"{name}: expected a finite number, got {number}")
    # The CUDA kernels compute with it as float32, where anything larger would be an infinity.
    if abs(number) > FLOAT32_MAX:
        raise ValueError(f"{name}: expected a number that float32 holds, got {number}")
    return number


def check_logits(
    head_dim_qk: int, sm_scale: object, logits_soft_cap: object, rope_scale: object, rope_theta: object
) -> Logits:
    """Fill in the defaults: 1 / sqrt(head_dim_qk), no cap, 1 and 1e4."""
    logits = Logits(
        sm_scale=_number("sm_scale", sm_scale, 1.0 / math.sqrt(head_dim_qk)),
        logits_soft_cap=_number("logits_soft_cap", logits_soft_cap, 0.0),
        rope_scale=_number("rope_scale", rope_scale, 1.0),
        rope_theta=_number("rope_theta", rope_theta, 1e4),
    )
    for name in ("rope_scale", "rope_theta"):
        if getattr(logits, name) <= 0:
            raise ValueError(f"{name}: expected a number above 0, got {getattr(logits, name)}")
    return logits


def check_like(
    name: str, tensor: object, shape: Sequence[int], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """ValueError "Invalid shape/dtype/device of <name>" unless all three are as told."""
    checked = check_tensor(name, tensor)
    if tuple(checked.shape) != tuple(shape):
        raise ValueError(f"Invalid shape of {name}: expected {tuple(shape)}, got {tuple(checked.shape)}")
    if checked.dtype != dtype:
        raise ValueError(f"Invalid dtype of {name}: expected {dtype}, got {checked.dtype}")
    if checked.device != device:
        raise ValueError(f"Invalid device of {name}: expected {device}, got {checked.device}")
    return checked


def check_operand(name: str, tensor: object, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
    """One of q, k, v of a planned run."""
    checked = check_tensor(name, tensor)
    if checked.dtype != dtype:
        raise ValueError(f"{name}: expected dtype {dtype} as plan() was told, got {checked.dtype}")
    check_like(name, checked, shape, dtype, device)
    check_last_stride(name, checked)


def check_last_stride(name: str, tensor: torch.Tensor) -> None:
    """The last dimension must be contiguous."""
    if tensor.shape[-1] > 1 and tensor.numel() > 0 and tensor.stride(-1) != 1:
        raise ValueError(f"{name}: expected stride 1 in the last dimension, got {tensor.stride(-1)}")


def _check_own_memory(name: str, tensor: object) -> None:
    assert isinstance(tensor, torch.Tensor)
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
        raise ValueError(f"{name}: expected memory of its own for every element, got strides {tensor.stride()}")


def check_outputs(out: object, lse: object, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
    """out and lse where given: out as told, lse float32 of out's shape without its last dimension."""
    if out is not None:
        check_last_stride("out", check_like("out", out, shape, dtype, device))
        _check_own_memory("out", out)
    if lse is not None:
        check_like("lse", lse, tuple(shape)[:-1], torch.float32, device)
        _check_own_memory("lse", lse)


def check_scales(
    scale_q: object, scale_k: object, scale_v: object, num_qo_heads: int, num_kv_heads: int, device: torch.device
) -> HeadScales:
    """float32 factors a head: [num_qo_heads], [num_kv_heads], [num_kv_heads], each or none."""
    checked = [
        None if scale is None else check_like(name, scale, (heads,), torch.float32, device).resolve_neg().contiguous()
        for name, scale, heads in (
            ("scale_q", scale_q, num_qo_heads),
            ("scale_k", scale_k, num_kv_heads),
            ("scale_v", scale_v, num_kv_heads),
        )
    ]
    return HeadScales(*checked)


def check_kv_dtype(name: str, q_dtype: torch.dtype, kv_dtype: torch.dtype) -> None:
    """Keys and values have q's dtype, or an FP8 dtype under 16- or 32-bit queries."""
    if kv_dtype != q_dtype and (q_dtype.itemsize == 1 or kv_dtype.itemsize != 1):
        raise ValueError(f"{name}: expected q's dtype {q_dtype}, got {kv_dtype}")


def check_packed(name: str, packed: object, sizes: Sequence[int], device: torch.device | None) -> torch.Tensor:
    """A 1D uint8 mask of one of the sizes in bytes (the first is named in messages)."""
    checked = check_tensor(name, packed)
    if checked.dtype != torch.uint8:
        raise ValueError(f"Invalid dtype of {name}: expected {torch.uint8}, got {checked.dtype}")
    if checked.dim() != 1 or checked.numel() not in sizes:
        raise ValueError(f"Invalid shape of {name}: expected ({sizes[0]},), got {tuple(checked.shape)}")
    if device is not None and checked.device != device:
        raise ValueError(f"Invalid device of {name}: expected {device}, got {checked.device}")
    return checked


# --- BlockSparseAttentionWrapper -------------------------------------------------------------------------------------


def check_bsr(
    indptr: object, indices: object, M: int, N: int, R: int, C: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The structure of a BSR matrix; returns indptr on the CPU, and a copy of indices on its device where reading them
    made one. Reads both tensors.

    Raises:
        ValueError: N not a multiple of C, or a wrong dtype, length or value; values are named with their position.
    """
    if N % C != 0:
        raise ValueError(f"N: expected a multiple of C = {C}, got {N}")
    for name, tensor in (("indptr", indptr), ("indices", indices)):
        checked = check_tensor(name, tensor)
        if checked.dtype != torch.int32:
            raise ValueError(f"Invalid dtype of {name}: expected {torch.int32}, got {checked.dtype}")
        if checked.dim() != 1:
            raise ValueError(f"Invalid shape of {name}: expected one dimension, got {tuple(checked.shape)}")
    assert isinstance(indptr, torch.Tensor) and isinstance(indices, torch.Tensor)
    MB, NB, nnz = -(-M // R), N // C, indices.numel()
    if indptr.numel() != MB + 1:
        raise ValueError(f"Invalid shape of indptr: expected ({MB + 1},), one more than ceil(M / R) = {MB} block rows, "
                         f"got ({indptr.numel()},)")  # fmt: skip
    host, least, most, copy = _read_bsr(indptr, indices)
    values = host.numpy()
    if values[0] != 0:
        raise ValueError(f"indptr: expected 0 at position 0, got {values[0]}")
    falls = values[1:] < values[:-1]
    if falls.any():
        at = int(falls.argmax()) + 1
        raise ValueError(f"indptr: expected ascending values, got {values[at]} at position {at} after {values[at - 1]}")
    if values[-1] != nnz:
        raise ValueError(f"indptr: expected its last value to be nnz = {nnz}, the length of indices, got {values[-1]}")
    if nnz and (least < 0 or most >= NB):
        at = int(((indices < 0) | (indices >= NB)).nonzero()[0])
        raise ValueError(f"indices: expected values in [0, N / C = {NB}), got {int(indices[at])} at position {at}")
    return host, copy


def _read_bsr(indptr: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, int, int, torch.Tensor | None]:
    """A copy of indptr on the CPU, the least and largest index (0 and 0 of none), and a copy of indices if it came for
    nothing. One transfer, if it can be."""
    count = indices.numel()
    few = count <= 1 << 15  # fewer bytes than their reduction on a device takes time
    bounds = [indices] if few else [x.view(1) for x in torch.aminmax(indices)]
    if indptr.device != indices.device:
        host = torch.empty(indptr.shape, dtype=torch.int32, device="cpu").copy_(indptr)
        values = torch.cat(bounds).numpy(force=True)
        return host, int(values.min(initial=0)), int(values.max(initial=0)), None
    both = torch.cat([*bounds, indptr])
    read = both.numpy(force=True)
    values, host = read[: -indptr.numel()], torch.from_numpy(read[-indptr.numel() :])
    copy = both[:count] if few else None
    return host, int(values.min(initial=0)), int(values.max(initial=0)), copy


def check_bsr_mask(mask: object, nnz: int, R: int, C: int) -> torch.Tensor:
    """bool [nnz, R, C]."""
    checked = check_tensor("mask", mask)
    if checked.dtype != torch.bool or tuple(checked.shape) != (nnz, R, C):
        raise ValueError(
            f"Invalid shape or dtype of mask: expected (nnz, R, C) = {(nnz, R, C)} of {torch.bool}, "
            f"got {tuple(checked.shape)} of {checked.dtype}"
        )
    return checked


def check_bsr_packed_mask(packed: object, indptr: torch.Tensor, M: int, R: int, C: int) -> tuple[torch.Tensor, int]:
    """A packed BSR mask, and the bytes to add so that its last segment has R rows.

    The last segment may hold the rows that exist, or all R.
    """
    sizes = segment_bytes(indptr, R, C)
    full = int(sizes.sum())
    shorter = full
    if sizes.numel():
        rows = M - (sizes.numel() - 1) * R
        last_bits = int(indptr[-1] - indptr[-2]) * C * rows
        shorter = full - int(sizes[-1]) + (last_bits + 7) // 8
    checked = check_packed("packed_mask", packed, (shorter, full), None)
    return checked, full - checked.numel()


# --- VariableBlockSparseAttentionWrapper -----------------------------------------------------------------------------


def check_variable(
    block_mask_map: object, block_row_sz: object, block_col_sz: object, num_kv_heads: int
) -> tuple[int, int]:
    """The structure of variable blocks; returns (qo_len, kv_len). Reads the sizes."""
    tensors = {"block_mask_map": block_mask_map, "block_row_sz": block_row_sz, "block_col_sz": block_col_sz}
    checked = {name: check_tensor(name, tensor) for name, tensor in tensors.items()}
    for name, tensor in checked.items():
        dims = 3 if name == "block_mask_map" else 2
        if tensor.is_floating_point() or tensor.is_complex():
            expected = "torch.bool" if dims == 3 else "torch.int32"
            raise ValueError(f"Invalid dtype of {name}: expected {expected}, got {tensor.dtype}")
        if tensor.dim() != dims:
            raise ValueError(f"Invalid shape of {name}: expected {dims} dimensions, got {tuple(tensor.shape)}")
    MB, NB = checked["block_row_sz"].shape[1], checked["block_col_sz"].shape[1]
    for name, shape in (
        ("block_row_sz", (num_kv_heads, MB)),
        ("block_col_sz", (num_kv_heads, NB)),
        ("block_mask_map", (num_kv_heads, MB, NB)),
    ):
        if tuple(checked[name].shape) != shape:
            words = "(num_kv_heads, MB, NB)" if len(shape) == 3 else "(num_kv_heads, blocks)"
            raise ValueError(f"Invalid shape of {name}: expected {words} = {shape}, got {tuple(checked[name].shape)}")
    lengths = []
    for name in ("block_row_sz", "block_col_sz"):
        sizes = checked[name]
        host = sizes.to("cpu", torch.int64)
        # Bounded one by one before they are summed: the sum of larger ones could leave int64.
        for wrong, expected in ((host < 0, ">= 0"), (host > _INT32_MAX, f"of at most {_INT32_MAX}")):
            if wrong.any():
                head, block = (int(i) for i in wrong.nonzero()[0])
                raise ValueError(
                    f"{name}: expected sizes {expected}, got {int(host[head, block])} at ({head}, {block})"
                )
        sums = host.sum(dim=1)
        differ = (sums != sums[0]).nonzero()
        if differ.numel():
            head = int(differ[0])
            raise ValueError(
                f"{name}: expected every head's sizes to sum to head 0's {int(sums[0])}, "
                f"got {int(sums[head])} in head {head}"
            )
        if int(sums[0]) > _INT32_MAX:
            raise ValueError(f"{name}: expected sizes that sum to at most {_INT32_MAX}, got {int(sums[0])}")
        lengths.append(int(sums[0]))
    return lengths[0], lengths[1]


# --- single_prefill_with_kv_cache ------------------------------------------------------------------------------------


def check_prefill_operands(q: object, k: object, v: object, kv_layout: str) -> tuple[int, int]:
    """Shapes, dtypes, devices and strides of q, k, v; returns (qo_len, kv_len)."""
    tensors = {name: check_tensor(name, tensor) for name, tensor in (("q", q), ("k", k), ("v", v))}
    words = {"q": "[qo_len, num_qo_heads, head_dim_qk]"}
    lead = "kv_len, num_kv_heads" if kv_layout == "NHD" else "num_kv_heads, kv_len"
    words |= {"k": f"[{lead}, head_dim_qk]", "v": f"[{lead}, head_dim_vo]"}
    for name, tensor in tensors.items():
        if tensor.dim() != 3:
            raise ValueError(f"Invalid shape of {name}: expected {words[name]}, got {tuple(tensor.shape)}")
        if tensor.device != tensors["q"].device:
            raise ValueError(f"Invalid device of {name}: expected {tensors['q'].device} (q's), got {tensor.device}")
        canonical_dtype(f"{name}.dtype", tensor.dtype)
        check_last_stride(name, tensor)
    tq, tk, tv = tensors["q"], tensors["k"], tensors["v"]
    if tk.shape[2] != tq.shape[2]:
        raise ValueError(f"k: expected head_dim_qk = {tq.shape[2]} (q's), got {tk.shape[2]}")
    if tv.shape[:2] != tk.shape[:2]:
        raise ValueError(f"Invalid shape of v: expected k's first two dimensions {tuple(tk.shape[:2])}, "
                         f"got {tuple(tv.shape[:2])}")  # fmt: skip
    if tk.dtype != tv.dtype:
        raise ValueError(f"v: expected dtype {tk.dtype} (k's), got {tv.dtype}")
    check_kv_dtype("k", tq.dtype, tk.dtype)
    for name, tensor in tensors.items():
        if tensor.shape[2] < 1:
            raise ValueError(f"{name}: expected a head dim of at least 1, got {tensor.shape[2]}")
    heads, length = (1, 0) if kv_layout == "NHD" else (0, 1)
    if tk.shape[heads] < 1:
        raise ValueError(f"k: expected at least 1 head, got {tk.shape[heads]}")
    if tq.shape[1] < 1:
        raise ValueError(f"q: expected at least 1 head, got {tq.shape[1]}")
    check_heads(tq.shape[1], tk.shape[heads])
    return tq.shape[0], tk.shape[length]


def check_custom_mask(mask: object, qo_len: int, kv_len: int, device: torch.device) -> torch.Tensor:
    """bool [qo_len, kv_len] on q's device; nothing is broadcast."""
    checked = check_tensor("custom_mask", mask)
    if checked.dtype != torch.bool or tuple(checked.shape) != (qo_len, kv_len):
        raise ValueError(
            f"Invalid shape or dtype of custom_mask: expected (qo_len, kv_len) = {(qo_len, kv_len)} of {torch.bool}, "
            f"got {tuple(checked.shape)} of {checked.dtype}"
        )
    if checked.device != device:
        raise ValueError(f"Invalid device of custom_mask: expected {device}, got {checked.device}")
    return checked
