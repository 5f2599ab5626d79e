# SPDX-License-Identifier: Apache-2.0
"""The Python side of the cuda backend, as far as it needs no GPU."""

from __future__ import annotations

import pytest
import torch
from ascend_sparse_attention.backends.cuda_backend import BACKEND


@pytest.mark.parametrize("name", ["q", "k", "v", "out", "lse"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (torch._neg_view, "expected a tensor without lazy negation"),
        (
            lambda tensor: torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype),
            "expected a tensor with memory .* got a zero tensor",
        ),
    ],
    ids=["negation", "zero tensor"],
)
def test_bytes_that_do_not_say_the_values_are_refused_before_a_launch(name, change, words):
    tensors = {one: torch.ones(4, 2, 64, dtype=torch.float16) for one in ("q", "k", "v", "out")}
    tensors["lse"] = torch.ones(4, 2)
    tensors[name] = change(tensors[name])
    nothing = {"logits": None, "scales": None}
    with pytest.raises(ValueError, match=f"{name}: {words}"):
        BACKEND.run_planned(None, **tensors, **nothing)
    with pytest.raises(ValueError, match=f"{name}: {words}"):
        BACKEND.run_prefill(**tensors, **nothing, mask=None, pos_encoding="NONE")
