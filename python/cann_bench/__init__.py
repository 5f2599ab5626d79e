# SPDX-License-Identifier: Apache-2.0
"""sparse_flash_attention for cann-bench: one kernel, launched by torch.ops.cann_bench.sparse_flash_attention.

The wheel stands alone: this file, the library and a JSON file that says what the library was built for.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

_FOLDER = Path(__file__).parent / "lib"


def _release(version: str) -> str:
    """Major and minor of a version: torch keeps its C++ interface within them."""
    return ".".join(version.split("+")[0].split(".")[:2])


def _load() -> None:
    facts = json.loads((_FOLDER / "libcann_bench.json").read_text())
    if _release(facts["torch"]) != _release(torch.__version__):
        raise ImportError(
            f"cann_bench: expected torch {facts['torch']}, which it was built for, got {torch.__version__}"
        )
    if facts["device"] == "npu":
        import torch_npu

        if _release(facts["torch_npu"]) != _release(torch_npu.__version__):
            raise ImportError(
                f"cann_bench: expected torch_npu {facts['torch_npu']}, which it was built for, "
                f"got {torch_npu.__version__}"
            )
    torch.ops.load_library(str(_FOLDER / "libcann_bench.so"))


_load()


def sparse_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
) -> torch.Tensor:
    """Attention over the key/value rows that sparseIndices selects, as cann-bench's operator description has it.

    ``value`` must equal ``key[..., :Dv]``, as that description demands: the kernel reads the rows of key for both.
    """
    return torch.ops.cann_bench.sparse_flash_attention(
        query, key, value, sparseIndices, scaleValue, inputLayout, is_causal
    )
