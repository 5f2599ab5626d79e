# SPDX-License-Identifier: Apache-2.0
"""Dumped tensors: .npy, .npz, .bin, .pt and .safetensors, read as data only.

No pickles are run: .npy and .npz are read without pickle, .pt with weights_only. An archive with several tensors wants
`FILE:NAME`. numpy has no bfloat16 and no fp8: such files hold raw bits as integers and are reinterpreted only when the
caller says as what.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .thresholds import Limits, limits_of

SUFFIXES = (".npy", ".npz", ".bin", ".pt", ".pth", ".safetensors")


class TensorFileError(ValueError):
    """A tensor file that cannot be used; the message names it and what was expected."""


def load_tensor(
    source: str, *, dtype: Limits | None = None, shape: tuple[int, ...] | None = None, option: str = "--dtype"
) -> torch.Tensor:
    """Read a floating-point tensor.

    Args:
        source: path, with `:NAME` for one tensor of an archive.
        dtype: what raw bits (integers, void, .bin) hold. For a file of float values: the dtype to take them as, which
            every value must fit exactly.
        shape: shape of a .bin, or a shape the tensor must have.
        option: name of the option that gives `dtype`, for messages.

    Raises:
        TensorFileError: unreadable, the wrong kind, or raw bits without a dtype.
    """
    path, name = split_source(source)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise TensorFileError(f"{path}: expected one of {', '.join(SUFFIXES)}, got {suffix or 'no suffix'}")
    if not path.is_file():
        raise TensorFileError(f"{path}: no such file")
    if name is not None and suffix in (".npy", ".bin"):
        raise TensorFileError(f"{path}: expected no name, a {suffix} file holds one tensor; got :{name}")
    try:
        if suffix == ".bin":
            tensor = _from_bin(path, dtype, shape, option)
        elif suffix in (".npy", ".npz"):
            tensor = _from_numpy(_numpy_array(path, name), path, dtype, option)
        elif suffix == ".safetensors":
            tensor = _from_safetensors(path, name)
        else:
            tensor = _pick(_torch_load(path), path, name, torch.Tensor)
    except OSError as error:
        raise TensorFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    tensor = _as_float(tensor, path, dtype, option)
    if shape is not None and tuple(tensor.shape) != shape:
        if tensor.numel() != math.prod(shape):
            raise TensorFileError(f"{path}: expected shape {list(shape)}, got {list(tensor.shape)}")
        tensor = tensor.reshape(shape)
    return tensor


def split_source(source: str) -> tuple[Path, str | None]:
    """FILE:NAME as its two parts."""
    path, separator, name = source.rpartition(":")
    # A name stands after a suffix; anything else (C:\x.npy) is a path.
    if separator and Path(path).suffix.lower() in SUFFIXES:
        return Path(path), name
    return Path(source), None


def _numpy_array(path: Path, name: str | None) -> np.ndarray:
    try:
        if path.suffix.lower() == ".npy":
            return _npy(path)
        with np.load(path, allow_pickle=False) as archive:
            key = _pick_name(list(archive.files), path, name)
            array: np.ndarray = archive[key]
            return array
    # numpy raises ValueError for pickles and broken headers, EOFError and BadZipFile for cut files.
    except TensorFileError:
        raise
    except OSError:
        raise
    except Exception as error:
        raise TensorFileError(f"{path}: not a readable {path.suffix} file: {error}") from error


def _npy(path: Path) -> np.ndarray:
    try:
        # Copy on write: torch wants memory it may write to, the file stays as it is.
        mapped: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False)
        return mapped
    except ValueError:
        # An empty array cannot be mapped; anything else wrong is wrong here too.
        loaded: np.ndarray = np.load(path, allow_pickle=False)
        return loaded


def _from_numpy(array: np.ndarray, path: Path, dtype: Limits | None, option: str) -> torch.Tensor:
    if array.dtype.hasobject or array.dtype.names is not None:
        raise TensorFileError(f"{path}: expected an array of numbers, got dtype {array.dtype}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "V":
        # How numpy stores a dtype it does not know, bfloat16 of other libraries for one.
        if dtype is None:
            raise TensorFileError(
                f"{path}: holds {array.dtype.itemsize}-byte values that numpy cannot tell; give {option} (bfloat16?)"
            )
        if array.dtype.itemsize != dtype.storage.itemsize:
            raise TensorFileError(
                f"{path}: expected {dtype.storage.itemsize}-byte values for {dtype.name}, got {array.dtype.itemsize}"
            )
        array = array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    try:
        return torch.from_numpy(np.asarray(array))
    except (TypeError, ValueError) as error:
        raise TensorFileError(f"{path}: expected an array of floats, got dtype {array.dtype}") from error


def _from_bin(path: Path, dtype: Limits | None, shape: tuple[int, ...] | None, option: str) -> torch.Tensor:
    if dtype is None:
        raise TensorFileError(f"{path}: a .bin file does not say its dtype; give {option}")
    if shape is None:
        raise TensorFileError(f"{path}: a .bin file does not say its shape; give --shape")
    size, elements = path.stat().st_size, math.prod(shape)
    expected = elements * dtype.storage.itemsize
    if size != expected:
        raise TensorFileError(f"{path}: expected {expected} bytes for shape {list(shape)} of {dtype.name}, got {size}")
    if elements == 0:
        return torch.empty(shape, dtype=dtype.storage)
    return torch.from_file(str(path), shared=False, size=elements, dtype=dtype.storage).view(shape)


def _from_safetensors(path: Path, name: str | None) -> torch.Tensor:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as archive:
            tensor: torch.Tensor = archive.get_tensor(_pick_name(list(archive.keys()), path, name))
            return tensor
    except SafetensorError as error:
        raise TensorFileError(f"{path}: not a readable .safetensors file: {error}") from error


def _torch_load(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except pickle.UnpicklingError as error:
        first_line = str(error).splitlines()[0] if str(error) else "not a torch file"
        raise TensorFileError(f"{path}: expected a .pt file of tensors only (weights_only): {first_line}") from error
    # A cut or foreign file raises RuntimeError, EOFError, KeyError and more, depending on where it breaks.
    except Exception as error:
        raise TensorFileError(f"{path}: not a readable .pt file: {error}") from error


def _pick(content: Any, path: Path, name: str | None, kind: type[torch.Tensor]) -> torch.Tensor:
    if isinstance(content, kind):
        if name is not None:
            raise TensorFileError(f"{path}: expected no name, the file holds one tensor; got :{name}")
        return content
    if isinstance(content, dict):
        tensors = {str(key): item for key, item in content.items() if isinstance(item, kind)}
        return tensors[_pick_name(list(tensors), path, name)]
    raise TensorFileError(f"{path}: expected a tensor or a mapping of tensors, got {type(content).__name__}")


def _pick_name(names: list[str], path: Path, name: str | None) -> str:
    if name is not None:
        if name not in names:
            raise TensorFileError(f"{path}: expected one of {', '.join(names) or 'no tensor at all'}, got :{name}")
        return name
    if len(names) != 1:
        raise TensorFileError(f"{path}: holds {len(names)} tensors ({', '.join(names[:8])}); give one as {path}:NAME")
    return names[0]


def _as_float(tensor: torch.Tensor, path: Path, dtype: Limits | None, option: str) -> torch.Tensor:
    if tensor.is_nested or tensor.is_quantized:
        kind = "nested" if tensor.is_nested else "quantized"
        raise TensorFileError(f"{path}: expected a dense tensor of real floats, got a {kind} tensor")
    if tensor.device.type == "meta":
        raise TensorFileError(f"{path}: expected a tensor with values, got a meta tensor, which has none")
    # A parameter's values are what is compared; lazy negation is settled, since some readers look at the bits.
    tensor = tensor.detach().resolve_neg()
    if tensor.layout != torch.strided or tensor.is_complex():
        raise TensorFileError(f"{path}: expected a dense tensor of real floats, got {tensor.dtype} ({tensor.layout})")
    if tensor.is_floating_point():
        if dtype is None or (tensor.dtype == dtype.storage and dtype.name != "hifloat32"):
            limits_of_known(tensor.dtype, path)
            return tensor
        return _narrowed(tensor, path, dtype, option)
    if dtype is None:
        raise TensorFileError(
            f"{path}: holds {str(tensor.dtype).removeprefix('torch.')} values. If they are the raw bits of a float "
            f"dtype, say which with {option} (bfloat16, float16, ...); integers are not compared"
        )
    if tensor.dtype == torch.bool or tensor.element_size() != dtype.storage.itemsize:
        raise TensorFileError(
            f"{path}: expected {dtype.storage.itemsize}-byte raw bits for {option} {dtype.name}, "
            f"got {str(tensor.dtype).removeprefix('torch.')}"
        )
    bits = tensor.contiguous().view(dtype.storage)
    return _narrowed(bits, path, dtype, option) if dtype.name == "hifloat32" else bits


def _narrowed(tensor: torch.Tensor, path: Path, dtype: Limits, option: str) -> torch.Tensor:
    """Values of another float dtype taken as `dtype`: only where every one of them fits exactly."""
    wide = tensor.double()
    rounded = dtype.round(wide)
    same = (rounded == wide) | (rounded.isnan() & wide.isnan())
    if not bool(same.all()):
        raise TensorFileError(
            f"{path}: {option} {dtype.name} does not fit: {int((~same).sum())} values of "
            f"{str(tensor.dtype).removeprefix('torch.')} are none of {dtype.name}"
        )
    return rounded.to(dtype.storage)


def limits_of_known(dtype: torch.dtype, path: Path) -> Limits:
    """Limits of a file's dtype, with the file named where there are none."""
    try:
        return limits_of(dtype)
    except ValueError as error:
        raise TensorFileError(f"{path}: {error}") from error
