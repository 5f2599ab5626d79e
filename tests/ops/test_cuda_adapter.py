# SPDX-License-Identifier: Apache-2.0
"""The Python side of the cuda backend, as far as it needs no GPU."""

from __future__ import annotations

import pytest
import torch
from ascend_sparse_attention.backends.cuda_backend import BACKEND


@pytest.mark.parametrize("name", ["q", "k", "v", "out", "lse"])
def test_lazy_negation_is_refused_before_a_launch(name):
    tensors = {one: torch.ones(4, 2, 64, dtype=torch.float16) for one in ("q", "k", "v", "out")}
    tensors["lse"] = torch.ones(4, 2)
    tensors[name] = torch._neg_view(tensors[name])
    nothing = {"logits": None, "scales": None}
    with pytest.raises(ValueError, match=f"{name}: expected a tensor without lazy negation"):
        BACKEND.run_planned(None, **tensors, **nothing)
    with pytest.raises(ValueError, match=f"{name}: expected a tensor without lazy negation"):
        BACKEND.run_prefill(**tensors, **nothing, mask=None, pos_encoding="NONE")
