# SPDX-License-Identifier: Apache-2.0
"""The places a call can run, behind one interface.

A backend says by name what it can do and why it can't: nothing falls back silently. ``auto`` picks by the device of
the query tensor.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import torch

from ..block_problem import AttentionSpec, BsrStructure, HeadScales, Logits, PrefillMask, VariableStructure
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


class BlockBackend(Backend, Protocol):
    """What a backend of the FlashInfer-compatible API offers on top. One that lacks it is refused by name.

    Arguments come checked. q, k, v and out are views [tokens, heads, head_dim] with a contiguous last dimension and any
    other strides; lse is float32 [tokens, heads], any strides, or None. No length is 0. `plan_*` may synchronise and
    allocate, and its result is immutable: two plans never share what they wrote. `run_*` writes into out and lse, and
    neither synchronises nor allocates results.
    """

    def plan_block_sparse(self, structure: BsrStructure, spec: AttentionSpec) -> Any:
        """Plan of BlockSparseAttentionWrapper, for run_planned."""

    def plan_variable_blocks(self, structure: VariableStructure, spec: AttentionSpec) -> Any:
        """Plan of VariableBlockSparseAttentionWrapper, for run_planned."""

    def run_planned(
        self,
        plan: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor | None,
        logits: Logits,
        scales: HeadScales,
    ) -> None:
        """Run a plan of this backend."""

    def run_prefill(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor | None,
        logits: Logits,
        scales: HeadScales,
        mask: PrefillMask,
        pos_encoding: str,
    ) -> None:
        """Attention of one request; head dims of q, k and of v, out may differ."""

    def capturing(self) -> bool:
        """Whether launches are being recorded into a graph, so that what they read must outlive the next plan()."""


# Backend name -> module that defines `BACKEND`. Loaded on first use, so that a plain import needs neither a GPU
# nor a compiler.
_MODULES = {
    "cpu": "ascend_sparse_attention.backends.cpu_block",
    "cuda": "ascend_sparse_attention.backends.cuda_backend",
    "npu": "ascend_sparse_attention.backends.npu",
    "twin": "ascend_sparse_attention.twin",
}

NAMES = ("auto", *_MODULES)

#: FlashInfer's names of its own CUDA kernels: here they say no more than "auto", on every device.
FLASHINFER_NAMES = ("fa2", "fa3")

#: Names that the FlashInfer-compatible API takes. The twin runs one operator, which is not of this API.
BLOCK_NAMES = ("auto", *FLASHINFER_NAMES, "cpu", "cuda", "npu")

_BLOCK_METHODS = ("plan_block_sparse", "plan_variable_blocks", "run_planned", "run_prefill", "capturing")


def load(name: str) -> Backend:
    """The backend of that name, ready or not (ask `missing()`).

    Raises:
        ValueError: no backend of that name.
    """
    if name not in _MODULES:
        raise ValueError(f"backend: expected one of {', '.join(NAMES)}, got {name!r}")
    backend: Backend = importlib.import_module(_MODULES[name]).BACKEND
    return backend


def resolve(name: str, device: torch.device, argument: str = "query") -> Backend:
    """The backend that a call on `device` takes, checked to be usable.

    `argument` is the tensor, by its name in the call, whose device it is.

    Raises:
        ValueError: unknown name, or a backend that does not take tensors of this device.
        RuntimeError: the backend cannot run here; the message says what is missing.
    """
    if name == "auto":
        if device.type not in _MODULES:
            raise ValueError(f"{argument}: expected a tensor on cpu, cuda or npu, got {device}")
        name = device.type
    backend = load(name)
    if backend.device_type() != device.type:
        raise ValueError(f"backend: {name} expects tensors on {backend.device_type()}, got {argument} on {device}")
    return usable(name)


def usable(name: str) -> Backend:
    """The backend of this name, checked to be usable.

    Raises:
        ValueError: unknown name.
        RuntimeError: the backend cannot run here; the message says what is missing.
    """
    backend = load(name)
    why = backend.missing()
    if why is not None:
        raise RuntimeError(f"backend {name} cannot run here: {why}")
    return backend


def check_block_name(name: object) -> str:
    """The name of a backend of the FlashInfer-compatible API.

    Raises:
        ValueError: not one of BLOCK_NAMES.
    """
    if not isinstance(name, str) or name not in BLOCK_NAMES:
        raise ValueError(f"backend: expected one of {', '.join(BLOCK_NAMES)}, got {name!r}")
    return name


def resolve_block(name: str, device: torch.device, what: str, argument: str) -> BlockBackend:
    """The backend that `what` (words, for messages) takes on `device`, checked to be usable and able.

    `argument` as of `resolve`.

    Raises:
        ValueError: unknown name, or a backend that does not take tensors of this device.
        NotImplementedError: the backend has no kernel for it.
        RuntimeError: the backend cannot run here; the message says what is missing.
    """
    name = check_block_name(name)
    if name in FLASHINFER_NAMES:
        name = "auto"
    if name == "auto" and device.type in _MODULES:
        name = device.type
    if name in _MODULES:
        # Before what is missing here: nothing that could be installed would help.
        candidate: Any = load(name)
        if not all(hasattr(candidate, method) for method in _BLOCK_METHODS):
            raise NotImplementedError(f"backend {name} has no {what} yet; cpu and cuda have")
    backend: Any = resolve(name, device, argument)
    result: BlockBackend = backend
    return result
