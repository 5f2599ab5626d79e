# SPDX-License-Identifier: Apache-2.0
"""Launches compiled kernels with little host work.

Triton's own launch looks at every argument of every call to find the compiled kernel, about 100 us for the signatures
here; a decode step is shorter than that. This one builds a small key of what the compiler may have specialised on
(dtypes, 16-byte alignment, integers that are 1 or multiples of 16, compile-time constants) and goes straight to the
kernel that Triton compiled for the same key.
"""

from __future__ import annotations

import os
from typing import Any

import torch

_INT32 = range(-(2**31), 2**31)


class Launcher:
    """One kernel's launches.

    Args:
        kernel: a function decorated with ``triton.jit`` or ``gluon.jit``, its compile-time constants last.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._interpreted = os.environ.get("TRITON_INTERPRET", "0") == "1"
        self._compiled: dict[tuple[object, ...], tuple[Any, Any, Any]] = {}
        if not self._interpreted:
            self._plain_ints = frozenset(p.num for p in kernel.params if p.do_not_specialize)

    def __call__(
        self,
        programs: int,
        args: tuple[Any, ...],
        constants: dict[str, Any],
        options: dict[str, Any],
        device: torch.device,
    ) -> None:
        """Launch `programs` programs on the current stream of `device`.

        Args:
            args: run-time arguments, in the order of the signature.
            constants: compile-time constants, in the order of the signature.
            options: Triton's (num_warps, num_stages, maxnreg).
        """
        if self._interpreted:
            self._kernel[(programs,)](*args, **constants, **options)
            return
        if device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                self(programs, args, constants, options, device)
            return
        from triton import knobs

        hooked = knobs.runtime.launch_enter_hook is not None or knobs.runtime.launch_exit_hook is not None
        key = (device.index, *constants.values(), *options.values(), *map(self._specialisation, range(len(args)), args))
        found = None if hooked else self._compiled.get(key)
        if found is None:
            if self._kernel.arg_names[len(args) :] != list(constants):
                raise ValueError(f"constants: expected {self._kernel.arg_names[len(args) :]}, got {list(constants)}")
            compiled = self._kernel[(programs,)](*args, **constants, **options)
            self._compiled[key] = (compiled.run, compiled.function, compiled.packed_metadata)
            return
        run, function, metadata = found
        stream = torch._C._cuda_getCurrentRawStream(device.index)
        run(programs, 1, 1, stream, function, metadata, None, None, None, *args, *constants.values())

    def _specialisation(self, position: int, arg: Any) -> object:
        """What the compiler may have used of an argument."""
        if isinstance(arg, torch.Tensor):
            return arg.dtype, arg.data_ptr() % 16 == 0
        if isinstance(arg, int):
            if position in self._plain_ints:
                return arg in _INT32
            return (arg == 1, arg % 16 == 0, arg in _INT32)
        if isinstance(arg, float):
            return None
        return arg.base.dtype, tuple(arg.block_shape)  # a tensor descriptor
