# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by all tests."""

from __future__ import annotations

import pytest
import torch

torch.set_num_threads(2)


@pytest.fixture(params=["BSND", "BNSD"])
def layout(request):
    return request.param


@pytest.fixture(params=[torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def dtype(request):
    return request.param
