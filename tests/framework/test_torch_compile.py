# SPDX-License-Identifier: Apache-2.0
"""opcheck in full and torch.compile on npu tensors. What surrounds the op runs on the CPU here (see fallback)."""

from __future__ import annotations

import pytest

from fallback import torch  # isort: skip
from npu import asa, no_findings, on_npu, ops  # noqa: F401  # isort: skip
from sfa_inputs import make_inputs
from torch._dynamo.utils import counters


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", ["sparse_flash_attention", "sparse_flash_attention_with_lse"])
def test_opcheck(name, is_causal, layout, dtype):
    tensors = on_npu(make_inputs(B=2, S1=3, S2=40, topK=7, layout=layout, dtype=dtype, prefix=False))
    done = torch.library.opcheck(getattr(ops, name).default, (*tensors, 0.1, layout, is_causal))
    assert set(done.values()) == {"SUCCESS"} and len(done) == 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_fullgraph_dynamic(backend, layout):
    torch._dynamo.reset()
    counters.clear()

    @torch.compile(fullgraph=True, dynamic=True, backend=backend)
    def model(query, key, indices, scale):
        out, lse = asa.sparse_flash_attention(query, key, key[..., :64], indices, scale, layout, return_lse=True)
        return out * 2, lse

    for S1, S2, topK in ((3, 40, 7), (5, 64, 9), (8, 33, 12)):
        query, key, _, indices = on_npu(make_inputs(B=2, S1=S1, S2=S2, Dk=128, topK=topK, layout=layout))
        out, lse = model(query, key, indices, 0.1)
        expected, expected_lse = asa.sparse_flash_attention(
            query, key, key[..., :64], indices, 0.1, layout, return_lse=True
        )
        assert out.device.type == "npu"
        assert torch.equal(out.cpu(), expected.cpu() * 2) and torch.equal(lse.cpu(), expected_lse.cpu())
    assert counters["stats"]["unique_graphs"] == 1, "a new size must not compile again"
