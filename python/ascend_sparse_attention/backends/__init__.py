# SPDX-License-Identifier: Apache-2.0
"""The places a call can run, behind one interface.

A backend says by name what it can do and why it can't: nothing falls back silently. ``auto`` picks by the device of
the query tensor.
"""

from __future__ import annotations

import importlib
from typing import Protocol

import torch

from ..layout import SfaProblem


class Backend(Protocol):
    """What every backend offers. Implementations are modules or objects with these members."""

    name: str

    def missing(self) -> str | None:
        """None if the backend can run here, else what is missing, in words."""

    def device_type(self) -> str:
        """Device type of the tensors it takes ("cpu", "cuda", "npu")."""

    def sparse_flash_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        sparseIndices: torch.Tensor,
        scaleValue: float,
        problem: SfaProblem,
        return_lse: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Run a checked, non-empty call. Returns (output, LSE or None) in the layout of the call."""


# Backend name -> module that defines `BACKEND`. Loaded on first use, so that a plain import needs neither a GPU
# nor a compiler.
_MODULES = {
    "cpu": "ascend_sparse_attention.backends.cpu",
    "cuda": "ascend_sparse_attention.backends.cuda",
    "npu": "ascend_sparse_attention.backends.npu",
    "twin": "ascend_sparse_attention.twin",
}

NAMES = ("auto", *_MODULES)


def load(name: str) -> Backend:
    """The backend of that name, ready or not (ask `missing()`).

    Raises:
        ValueError: no backend of that name.
    """
    if name not in _MODULES:
        raise ValueError(f"backend: expected one of {', '.join(NAMES)}, got {name!r}")
    backend: Backend = importlib.import_module(_MODULES[name]).BACKEND
    return backend


def resolve(name: str, device: torch.device) -> Backend:
    """The backend that a call on `device` takes, checked to be usable.

    Raises:
        ValueError: unknown name, or a backend that does not take tensors of this device.
        RuntimeError: the backend cannot run here; the message says what is missing.
    """
    if name == "auto":
        if device.type not in _MODULES:
            raise ValueError(f"query: expected a tensor on cpu, cuda or npu, got {device}")
        name = device.type
    backend = load(name)
    if backend.device_type() != device.type:
        raise ValueError(f"backend: {name} expects tensors on {backend.device_type()}, got query on {device}")
    why = backend.missing()
    if why is not None:
        raise RuntimeError(f"backend {name} cannot run here: {why}")
    return backend
