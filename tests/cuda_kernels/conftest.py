# SPDX-License-Identifier: Apache-2.0
"""These tests run the CUDA kernels on a GPU where there is one, else in Triton's interpreter on a CPU.

The interpreter takes float16 and float32 only here: its bfloat16 products are wrong.
"""

from __future__ import annotations

import os

import pytest
import torch

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported


@pytest.fixture(scope="session", autouse=True)
def _triton():
    pytest.importorskip("triton", reason="the CUDA kernels need the triton package (a GPU, or its interpreter)")
    if not ON_GPU:
        _let_one_element_arrays_index()


def _let_one_element_arrays_index() -> None:
    """Triton 3.6's interpreter holds scalars as arrays of one element and calls int() on them for loop bounds; NumPy
    2.4 refuses that."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if ON_GPU else "cpu")


@pytest.fixture(params=[torch.float16, torch.bfloat16] if ON_GPU else [torch.float16], ids=str)
def dtype(request) -> torch.dtype:
    return request.param
