# SPDX-License-Identifier: Apache-2.0
"""The NPU: kernels that a C++ library registers for torch_npu's PrivateUse1 device.

The library is made by build.sh and lies in the package's lib/ folder, with a JSON file beside it that says what it was
built for. It is loaded at the first call on an NPU tensor, so that importing this package asks for neither torch_npu
nor a device, in whatever order the two are imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from ..checks import check_npu_limits
from ..layout import SfaProblem

#: Names another library than the package's own.
LIBRARY_VARIABLE = "ASA_NPU_LIBRARY"

_OPS = ("sparse_flash_attention", "sparse_flash_attention_with_lse")


def library_path() -> Path:
    """Where the library is, or would be."""
    named = os.environ.get(LIBRARY_VARIABLE)
    return Path(named) if named else Path(__file__).parents[1] / "lib" / "libasa_torch_npu.so"


def _release(version: str) -> str:
    """Major and minor of a version: torch keeps its C++ interface within them."""
    return ".".join(version.split("+")[0].split(".")[:2])


def _mismatch(facts: dict[str, Any]) -> str | None:
    """Why a library with these facts does not fit here, or None. Loading it would end in a missing symbol or worse."""
    from .. import __version__

    if facts["version"] != __version__:
        return f"it is of version {facts['version']}, the Python package of {__version__}; install both from one build"
    if _release(facts["torch"]) != _release(torch.__version__):
        return f"it was built for torch {facts['torch']}, this is torch {torch.__version__}; run build.sh again"
    here = sys.modules["torch_npu"].__version__
    if _release(facts["torch_npu"]) != _release(here):
        return f"it was built for torch_npu {facts['torch_npu']}, this is torch_npu {here}; run build.sh again"
    return None


class NpuBackend:
    name = "npu"

    def __init__(self) -> None:
        self._loaded = False
        # Stands in for the library's kernels until it is loaded.
        self._first_call: torch.library.Library | None = None

    def missing(self) -> str | None:
        if self._loaded:
            return None
        if sys.modules.get("torch_npu") is None:
            if importlib.util.find_spec("torch_npu") is None:
                return "torch_npu is not installed"
            try:
                importlib.import_module("torch_npu")
            except Exception as error:  # whatever its own libraries make of a machine without a driver
                return f"torch_npu cannot be imported: {error}"
        path = library_path()
        if not path.is_file():
            return f"the operator library is not built: no {path} (run build.sh where CANN is installed)"
        try:
            facts = json.loads(path.with_suffix(".json").read_text())
            mismatch = _mismatch(facts)
        except (OSError, ValueError, KeyError) as error:
            return f"{path.with_suffix('.json')} does not say what the library was built for: {error!r}"
        if mismatch is not None:
            return f"the operator library {path} does not fit: {mismatch}"
        return self._load(path)

    def _load(self, path: Path) -> str | None:
        stands_in = self._first_call is not None
        if self._first_call is not None:
            # Gone before the library registers its own, which would otherwise be an override.
            self._first_call._destroy()  # type: ignore[no-untyped-call]
            self._first_call = None
        try:
            torch.ops.load_library(path)  # type: ignore[no-untyped-call]
        except OSError as error:
            if stands_in:
                self.register()
            return f"the operator library {path} cannot be loaded: {error}"
        self._loaded = True
        return None

    def register(self) -> None:
        """Make the first call on an NPU tensor load the library, or say what is missing."""
        self._first_call = torch.library.Library("ascend_sparse_attention", "IMPL")  # type: ignore[no-untyped-call]
        for name in _OPS:
            self._first_call.impl(name, self._loading(name), "PrivateUse1")  # type: ignore[no-untyped-call]

    def _loading(self, name: str) -> Any:
        def load_and_call(*args: Any, **kwargs: Any) -> Any:
            why = self.missing()
            if why is not None:
                raise RuntimeError(f"backend npu cannot run here: {why}")
            return getattr(torch.ops.ascend_sparse_attention, name)(*args, **kwargs)

        return load_and_call

    def device_type(self) -> str:
        return "npu"

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
        check_npu_limits(problem)
        ops = torch.ops.ascend_sparse_attention
        arguments = (query, key, value, sparseIndices, scaleValue, problem.layout, problem.is_causal)
        if return_lse:
            output, lse = ops.sparse_flash_attention_with_lse(*arguments)
            return output, lse
        return ops.sparse_flash_attention(*arguments), None


BACKEND = NpuBackend()
