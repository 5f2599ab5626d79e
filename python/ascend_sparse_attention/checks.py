# SPDX-License-Identifier: Apache-2.0
"""Argument checks of sparse_flash_attention: once, before any work, the same for every backend.

Every message reads ``<argument>: expected <what>, got <what came>``. The C++ side (op_host/tiling/checks) says the same
words for the same fault; tests compare the two.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .layout import DIM_NAMES, LAYOUTS, SfaProblem

#: The NPU's table of sizes (operator description, "supported ranges"). CPU and CUDA accept more.
NPU_LIMITS = {"B": 64, "S1": 2048, "S2": 16384, "N1": 256, "N2": 64, "topK": 2048, "Dk": 576}

#: Head dims come in whole blocks of this many elements.
HEAD_DIM_MULTIPLE = 64

#: Largest finite float32.
FLOAT32_MAX = 3.4028234663852886e38

_DTYPES = (torch.float16, torch.bfloat16)

# Which argument brings which size, for messages about a size.
_SOURCE = {"B": "query", "S1": "query", "N1": "query", "Dk": "query", "S2": "key", "N2": "key", "topK": "sparseIndices"}


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _number_text(number: int | float) -> str:
    if isinstance(number, int) and number.bit_length() > 1023:
        return f"an integer of {number.bit_length()} bits"  # float64 cannot hold it, and its digits are no help
    return str(float(number))


def check_memory(**tensors: torch.Tensor | None) -> None:
    """Refuse torch's zero tensors, which have a shape and no memory (`torch._efficientzerotensor`, forward AD)."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor._is_zerotensor():
            raise ValueError(f"{name}: expected a tensor with memory (use clone()), got a zero tensor without")


def check_bits(**tensors: torch.Tensor | None) -> None:
    """For kernels that read a tensor's bytes: it must have some, which have the wrong sign where torch negates lazily.

    Lazy conjugation is of complex tensors only, which no dtype check lets through.
    """
    check_memory(**tensors)
    for name, tensor in tensors.items():
        if tensor is not None and tensor.is_neg():
            raise ValueError(f"{name}: expected a tensor without lazy negation (use resolve_neg()), got is_neg()")


def _shape(sizes: Any) -> str:
    return "[" + ", ".join(str(size) for size in sizes) + "]"


def check_types(
    query: Any, key: Any, value: Any, sparseIndices: Any, scaleValue: Any, inputLayout: Any, is_causal: Any
) -> None:
    """Check what Python lets slip: the kinds of the arguments, the layout's name and the scale's value."""
    for name, tensor in (("query", query), ("key", key), ("value", value), ("sparseIndices", sparseIndices)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: expected a Tensor, got {type(tensor).__name__}")
    if isinstance(scaleValue, bool) or not isinstance(scaleValue, (int, float, torch.SymInt, torch.SymFloat)):
        raise TypeError(f"scaleValue: expected a finite number, got {type(scaleValue).__name__}")
    # A comparison rather than math.isfinite: torch.compile can trace it for a scale that is an argument.
    if isinstance(scaleValue, (int, float)) and not -math.inf < scaleValue < math.inf:
        raise ValueError(f"scaleValue: expected a finite number, got {scaleValue}")
    # Every backend computes with it as float32, where anything larger would be an infinity.
    if isinstance(scaleValue, (int, float)) and not -FLOAT32_MAX <= scaleValue <= FLOAT32_MAX:
        raise ValueError(f"scaleValue: expected a number that float32 holds, got {_number_text(scaleValue)}")
    if not isinstance(inputLayout, str):
        raise TypeError(f"inputLayout: expected a str, got {type(inputLayout).__name__}")
    if inputLayout not in LAYOUTS:
        raise ValueError(f'inputLayout: expected "BSND" or "BNSD", got "{inputLayout}"')
    if not isinstance(is_causal, bool):
        raise TypeError(f"is_causal: expected a bool, got {type(is_causal).__name__}")


def check_sparse_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str,
    is_causal: bool,
) -> SfaProblem:
    """Check every argument of a call and return its sizes.

    Raises:
        TypeError: an argument of the wrong Python type or dtype.
        ValueError: a wrong layout, rank, size, stride, device or scale. The message names the argument, what was
            expected and what came.
    """
    check_types(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    tensors = {"query": query, "key": key, "value": value, "sparseIndices": sparseIndices}
    names = DIM_NAMES[inputLayout]
    for name, tensor in tensors.items():
        if tensor.dim() != 4:
            raise ValueError(f"{name}: expected 4 dimensions {_shape(names[name])}, got {tensor.dim()}")
        if tensor.layout != torch.strided:
            raise TypeError(f"{name}: expected a strided tensor, got {tensor.layout}")
    if query.dtype not in _DTYPES:
        raise TypeError(f"query: expected dtype float16 or bfloat16, got {_dtype_name(query.dtype)}")
    for name, tensor in (("key", key), ("value", value)):
        if tensor.dtype != query.dtype:
            raise TypeError(
                f"{name}: expected dtype {_dtype_name(query.dtype)} (query's), got {_dtype_name(tensor.dtype)}"
            )
    if sparseIndices.dtype != torch.int32:
        raise TypeError(f"sparseIndices: expected dtype int32, got {_dtype_name(sparseIndices.dtype)}")
    for name, tensor in tensors.items():
        if tensor.device != query.device:
            raise ValueError(f"{name}: expected device {query.device} (query's), got {tensor.device}")

    size = {name: dict(zip(names[name], tensor.shape)) for name, tensor in tensors.items()}
    problem = SfaProblem(
        B=size["query"]["B"],
        S1=size["query"]["S1"],
        S2=size["key"]["S2"],
        N1=size["query"]["N1"],
        N2=size["key"]["N2"],
        Dk=size["query"]["Dk"],
        Dv=size["value"]["Dv"],
        topK=size["sparseIndices"]["topK"],
        layout=inputLayout,
        is_causal=is_causal,
        dtype=query.dtype,
    )
    _check_sizes(problem, size)
    for name, tensor in tensors.items():
        # A last dimension of one element has no stride to speak of.
        if tensor.shape[3] > 1 and tensor.stride(3) != 1:
            raise ValueError(f"{name}: expected stride 1 in the last dimension, got {tensor.stride(3)}")
    return problem


def _check_sizes(p: SfaProblem, size: dict[str, dict[str, int]]) -> None:
    for name in ("key", "value", "sparseIndices"):
        if size[name]["B"] != p.B:
            raise ValueError(f"{name}: expected B = {p.B} (query's), got {size[name]['B']}")
    if p.N1 < 1:
        raise ValueError(f"query: expected N1 >= 1, got {p.N1}")
    if p.N2 < 1:
        raise ValueError(f"key: expected N2 >= 1, got {p.N2}")
    if p.N1 % p.N2 != 0:
        raise ValueError(f"query: expected N1 to be a multiple of N2 = {p.N2}, got {p.N1}")
    if p.S2 < 1:
        raise ValueError(f"key: expected S2 >= 1, got {p.S2}")
    if p.Dk < 1 or p.Dk % HEAD_DIM_MULTIPLE != 0:
        raise ValueError(f"query: expected head dim Dk a multiple of {HEAD_DIM_MULTIPLE}, got {p.Dk}")
    if size["key"]["Dk"] != p.Dk:
        raise ValueError(f"key: expected head dim {p.Dk} (query's), got {size['key']['Dk']}")
    if p.Dv < 1 or p.Dv % HEAD_DIM_MULTIPLE != 0:
        raise ValueError(f"value: expected head dim Dv a multiple of {HEAD_DIM_MULTIPLE}, got {p.Dv}")
    if p.Dv > p.Dk:
        raise ValueError(f"value: expected head dim Dv <= Dk = {p.Dk}, got {p.Dv}")
    for dim in ("S2", "N2"):
        expected = getattr(p, dim)
        if size["value"][dim] != expected:
            raise ValueError(f"value: expected {dim} = {expected} (key's), got {size['value'][dim]}")
    if size["sparseIndices"]["S1"] != p.S1:
        raise ValueError(f"sparseIndices: expected S1 = {p.S1} (query's), got {size['sparseIndices']['S1']}")
    if size["sparseIndices"]["N2"] != p.N2:
        raise ValueError(f"sparseIndices: expected N2 = {p.N2} (key's), got {size['sparseIndices']['N2']}")
    if p.topK < 1:
        raise ValueError(f"sparseIndices: expected topK >= 1, got {p.topK}")
    if p.topK > p.S2:
        raise ValueError(f"sparseIndices: expected topK <= S2 = {p.S2}, got {p.topK}")
    if p.is_causal and p.S1 > p.S2:
        raise ValueError(f"is_causal: expected S1 <= S2 = {p.S2} when causal, got S1 = {p.S1}")


def check_npu_limits(problem: SfaProblem) -> None:
    """Raise ValueError naming the first size beyond the NPU's table."""
    for dim, limit in NPU_LIMITS.items():
        got = getattr(problem, dim)
        if got > limit:
            raise ValueError(f"{_SOURCE[dim]}: expected {dim} <= {limit} on the NPU, got {got}")
