# SPDX-License-Identifier: Apache-2.0
"""Calls that have a forward pass alone: where a gradient could be asked for, asking for it raises.

Without this a kernel that writes into a tensor would return one that looks constant, and training would go on with
zeros for its gradients; the CPU's, made of differentiable operations, would train where the devices' do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

__all__ = ["refuse_backward", "run_without_backward"]


def refuse_backward(what: str) -> NoReturn:
    raise NotImplementedError(f"{what}: expected inference, got a backward pass; it has none yet")


class _ForwardOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, what: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.what = what
        results = tensors[:count]
        ctx.mark_dirty(*results)  # the results themselves come back, not aliases of them
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> None:
        refuse_backward(ctx.what)


def run_without_backward(
    what: str, launch: Callable[[], None], results: list[torch.Tensor | None], inputs: list[torch.Tensor | None]
) -> None:
    """Run `launch`, which fills `results` from `inputs`; a backward pass through `results` raises NotImplementedError.

    Args:
        what: the call's name, for the message.
        results: tensors that are filled in place, each of them the caller's own afterwards too.
    """
    if torch.compiler.is_compiling():
        # Its kernels are launched past torch's dispatcher: a tracer has to step over them.
        torch._dynamo.disable(_run_without_backward)(what, launch, results, inputs)  # type: ignore[no-untyped-call]
    else:
        _run_without_backward(what, launch, results, inputs)


def _run_without_backward(
    what: str, launch: Callable[[], None], results: list[torch.Tensor | None], inputs: list[torch.Tensor | None]
) -> None:
    with torch.no_grad():
        launch()
    read = [x for x in inputs if x is not None]
    if torch.is_grad_enabled() and any(x.requires_grad for x in read):
        filled = [x for x in results if x is not None]
        _ForwardOnly.apply(what, len(filled), *filled, *read)  # type: ignore[no-untyped-call]
