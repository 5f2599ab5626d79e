# SPDX-License-Identifier: Apache-2.0
"""Launches compiled kernels with little host work.

Triton's own launch looks at every argument of every call to find the compiled kernel, which for the signatures here
takes longer than many of the kernels run. So the first call of a problem goes through Triton and is *prepared*: its
arguments are kept, and later calls of the same problem put their tensors into them and go straight to the compiled
kernel. What makes two calls the same problem (dtypes, shapes, strides, 16-byte alignment, options) is the caller's key;
`tensor_key` gives a tensor's share of it.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

#: A prepared launch: takes the tensors of a call in the order that the preparing call gave them.
Prepared = Callable[[Sequence[torch.Tensor]], None]


def tensor_key(x: torch.Tensor) -> tuple[object, ...]:
    """What a compiled kernel and its kept arguments depend on, of one tensor."""
    return x.dtype, x.shape, x.stride(), x.data_ptr() % 16 == 0


def hooked() -> bool:
    """Whether a profiler wants to see every launch: then nothing prepared is used."""
    from triton import knobs

    hooks = (knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook)
    return any(getattr(hook, "calls", hook) for hook in hooks)  # a chain of hooks is there even when it is empty


class Launcher:
    """One kernel's launches.

    Args:
        kernel: a function decorated with ``triton.jit`` or ``gluon.jit``, its compile-time constants last.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._interpreted = os.environ.get("TRITON_INTERPRET", "0") == "1"

    def __call__(
        self,
        programs: int,
        args: Sequence[Any],
        constants: dict[str, Any],
        options: dict[str, Any],
        device: torch.device,
        fresh: Sequence[str] = (),
    ) -> Prepared | None:
        """Launch `programs` programs on the current stream of `device`.

        Args:
            args: run-time arguments, in the order of the signature.
            constants: compile-time constants, in the order of the signature.
            options: Triton's (num_warps, num_stages, maxnreg).
            fresh: names of the tensor arguments that a prepared launch takes anew, in its order. A descriptor argument
                `x_desc` follows the tensor `x`.

        Returns:
            The prepared launch of the same problem; None in Triton's interpreter.
        """
        if self._interpreted:
            self._kernel[(programs,)](*args, **constants, **options)
            return None
        if self._kernel.arg_names[len(args) :] != list(constants):
            raise ValueError(f"constants: expected {self._kernel.arg_names[len(args) :]}, got {list(constants)}")
        from triton.runtime.errors import OutOfResources

        try:
            with torch.cuda.device(device):
                compiled = self._kernel[(programs,)](*args, **constants, **options)
        except OutOfResources as error:
            raise ValueError(
                f"head_dim: expected head dimensions whose tiles fit the GPU, which has {error.limit} bytes of "
                f"{error.name} a program, got some that need {error.required}"
            ) from error
        return _prepare(compiled, programs, args, tuple(constants.values()), self._kernel.arg_names, fresh, device)


def _prepare(
    compiled: Any,
    programs: int,
    args: Sequence[Any],
    constants: tuple[Any, ...],
    names: Sequence[str],
    fresh: Sequence[str],
    device: torch.device,
) -> Prepared:
    kept = list(args)  # without the fresh tensors, so that a problem keeps no caller's memory alive
    tensors, descriptors = [], []
    for i, name in enumerate(fresh):
        if name in names:
            tensors.append((names.index(name), i))
            kept[names.index(name)] = None
        if f"{name}_desc" in names:
            position = names.index(f"{name}_desc")
            if isinstance(args[position], torch.Tensor):
                tensors.append((position, i))
                kept[position] = None
            else:
                descriptors.append((position, i))
                kept[position] = copy.copy(args[position])
                kept[position].base = None
    run, function, metadata = compiled.run, compiled.function, compiled.packed_metadata
    index = device.index if device.index is not None else torch.cuda.current_device()

    def launch(values: Sequence[torch.Tensor]) -> None:
        if torch.cuda.current_device() != index:
            with torch.cuda.device(index):
                launch(values)
            return
        call = kept.copy()
        for position, i in tensors:
            call[position] = values[i]
        for position, i in descriptors:
            # A copy, since another thread may be launching the same problem.
            descriptor = call[position] = copy.copy(call[position])
            descriptor.base = values[i]
        stream = torch._C._cuda_getCurrentRawStream(index)
        run(programs, 1, 1, stream, function, metadata, None, None, None, *call, *constants)

    return launch


@functools.cache
def unused(device: torch.device) -> torch.Tensor:
    """A pointer for arguments that a kernel never reads in the mode of a call."""
    return torch.empty(4, dtype=torch.int32, device=device)
