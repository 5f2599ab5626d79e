# SPDX-License-Identifier: Apache-2.0
"""Set-up of the tests of the FlashInfer-compatible API: how many examples to draw, where the CUDA backend runs.

ASA_EXAMPLES=n draws n random configurations a property (default: few enough for every run).
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import hypothesis
import pytest
import torch

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported

hypothesis.settings.register_profile(
    "flashinfer", max_examples=int(os.environ.get("ASA_EXAMPLES", "40")), deadline=None, derandomize=True
)


@pytest.fixture(scope="session")
def cuda_device():
    """Where backend="cuda" runs in these tests: a GPU, or Triton's interpreter on the CPU."""
    pytest.importorskip("triton", reason="the CUDA backend needs the triton package (a GPU, or its interpreter)")
    if ON_GPU:
        return torch.device("cuda", torch.cuda.current_device())
    path = Path(__file__).parents[1] / "cuda_kernels" / "conftest.py"
    spec = importlib.util.spec_from_file_location("cuda_kernels_conftest", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module._let_one_element_arrays_index()
    return torch.device("cpu")
