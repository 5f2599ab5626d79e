# SPDX-License-Identifier: Apache-2.0
"""Registers the ops with torch. The NPU's kernels come from the C++ library that build.sh makes (PrivateUse1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import backends
from ..backends import npu
from ..checks import check_memory, check_sparse_flash_attention
from ..inference import refuse_backward

NAMESPACE = "ascend_sparse_attention"

_ARGUMENTS = (
    "Tensor query, Tensor key, Tensor value, Tensor sparseIndices, float scaleValue, "
    'str inputLayout="BSND", bool is_causal=False'
)

#: The op as the operator description has it, and the same with the LSE beside it.
SCHEMAS = {
    "sparse_flash_attention": f"sparse_flash_attention({_ARGUMENTS}) -> Tensor",
    "sparse_flash_attention_with_lse": f"sparse_flash_attention_with_lse({_ARGUMENTS}) -> (Tensor, Tensor)",
}

#: The same run in the CPU twin, which is a way of running and no device, so that it has ops instead of a dispatch key.
#: As ops they answer autograd, fake tensors and lazy negation as those of the devices do.
TWIN_SCHEMAS = {f"twin_{name}": f"twin_{schema}" for name, schema in SCHEMAS.items()}

# Kept alive for the life of the process: torch drops the ops with the Library object.
_library = torch.library.Library(NAMESPACE, "DEF")
for _schema in (*SCHEMAS.values(), *TWIN_SCHEMAS.values()):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


def _run(
    backend_name: str,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",  # the dispatcher leaves out trailing arguments that are the schema's defaults
    is_causal: bool = False,
    *,
    return_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Check, answer an empty call without a launch, else run on the named backend."""
    problem = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    backend = backends.resolve(backend_name, query.device)
    if problem.B == 0 or problem.S1 == 0:
        output = query.new_empty(problem.output_shape)
        return output, query.new_empty(problem.lse_shape, dtype=torch.float32) if return_lse else None
    return backend.sparse_flash_attention(query, key, value, sparseIndices, float(scaleValue), problem, return_lse)


def _kernels(backend_name: str | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two ops' kernels, without and with LSE, on a backend; None: the one of query's device."""

    def run(
        query: torch.Tensor, *args: Any, return_lse: bool, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return _run(backend_name or query.device.type, query, *args, return_lse=return_lse, **options)

    def plain(*args: Any, **options: Any) -> torch.Tensor:
        return run(*args, return_lse=False, **options)[0]

    def with_lse(*args: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        output, lse = run(*args, return_lse=True, **options)
        assert lse is not None
        return output, lse

    return plain, with_lse


def _refuse_zero_tensors(*args: Any, **options: Any) -> Any:
    """Before every device's kernel: torch would hand on one zero expanded to the shape, refused for its strides."""
    names = ("query", "key", "value", "sparseIndices")
    check_memory(**{**dict(zip(names, args)), **{name: options[name] for name in names if name in options}})
    raise AssertionError("called without a zero tensor")


for _name in (*SCHEMAS, *TWIN_SCHEMAS):
    _library.impl(_name, _refuse_zero_tensors, "ZeroTensor")

for _key in ("CPU", "CUDA"):
    for _name, _kernel in zip(SCHEMAS, _kernels(None)):
        _library.impl(_name, _kernel, _key)
for _name, _kernel in zip(TWIN_SCHEMAS, _kernels("twin")):
    _library.impl(_name, _kernel, "CPU")


@torch.library.register_fake(f"{NAMESPACE}::sparse_flash_attention", lib=_library)
@torch.library.register_fake(f"{NAMESPACE}::twin_sparse_flash_attention", lib=_library)
def _fake(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
) -> torch.Tensor:
    problem = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    return query.new_empty(problem.output_shape)


@torch.library.register_fake(f"{NAMESPACE}::sparse_flash_attention_with_lse", lib=_library)
@torch.library.register_fake(f"{NAMESPACE}::twin_sparse_flash_attention_with_lse", lib=_library)
def _fake_with_lse(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    problem = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    return query.new_empty(problem.output_shape), query.new_empty(problem.lse_shape, dtype=torch.float32)


def _no_backward(ctx: Any, *grads: torch.Tensor) -> None:
    refuse_backward("sparse_flash_attention")


for _name in (*SCHEMAS, *TWIN_SCHEMAS):
    torch.library.register_autograd(f"{NAMESPACE}::{_name}", _no_backward, lib=_library)

# The NPU's kernels are C++; until their library is loaded, a call loads it or says what is missing.
npu.BACKEND.register()
