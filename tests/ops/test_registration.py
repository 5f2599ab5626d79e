# SPDX-License-Identifier: Apache-2.0
"""The torch ops: schemas, opcheck, Meta, FakeTensor, torch.compile with dynamic shapes."""

from __future__ import annotations

import subprocess
import sys

import ascend_sparse_attention as asa
import pytest
import torch
from sfa_inputs import make_inputs
from torch._subclasses.fake_tensor import FakeTensorMode

ops = torch.ops.ascend_sparse_attention


def test_schema_is_the_operator_descriptions():
    assert str(ops.sparse_flash_attention.default._schema) == (
        "ascend_sparse_attention::sparse_flash_attention(Tensor query, Tensor key, Tensor value, Tensor sparseIndices, "
        'float scaleValue, str inputLayout="BSND", bool is_causal=False) -> Tensor'
    )
    assert str(ops.sparse_flash_attention_with_lse.default._schema).endswith("-> (Tensor, Tensor)")


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("op", [ops.sparse_flash_attention.default, ops.sparse_flash_attention_with_lse.default])
def test_opcheck(op, is_causal, layout, dtype):
    args = make_inputs(B=2, S1=3, S2=40, topK=7, layout=layout, dtype=dtype, prefix=False)
    torch.library.opcheck(op, (*args, 0.1, layout, is_causal))


def test_opcheck_value_view_of_key(layout):
    args = make_inputs(Dk=128, Dv=64, layout=layout)
    torch.library.opcheck(ops.sparse_flash_attention.default, (*args, 0.1, layout))


def test_compile_fullgraph_dynamic(layout):
    calls = []

    def backend(module, inputs):
        calls.append(module)
        return module.forward

    @torch.compile(fullgraph=True, dynamic=True, backend=backend)
    def model(query, key, indices, scale):
        out, lse = asa.sparse_flash_attention(query, key, key[..., :64], indices, scale, layout, return_lse=True)
        return out * 2, lse

    for S1, S2, topK in ((3, 40, 7), (5, 64, 9), (8, 33, 12)):
        query, key, _, indices = make_inputs(B=2, S1=S1, S2=S2, Dk=128, topK=topK, layout=layout)
        out, lse = model(query, key, indices, 0.1)
        expected, expected_lse = asa.sparse_flash_attention(
            query, key, key[..., :64], indices, 0.1, layout, return_lse=True
        )
        assert torch.equal(out, expected * 2) and torch.equal(lse, expected_lse)
    assert len(calls) == 1, "a new size must not compile again"


def test_compile_inductor():
    @torch.compile(fullgraph=True, dynamic=True)
    def model(query, key, indices):
        return asa.sparse_flash_attention(query * 2, key, key[..., :64], indices, 0.1) + 1

    for S1 in (3, 5):
        query, key, _, indices = make_inputs(S1=S1, Dk=128)
        expected = asa.sparse_flash_attention(query * 2, key, key[..., :64], indices, 0.1) + 1
        torch.testing.assert_close(model(query, key, indices), expected)


def test_meta_and_fake_tensors(layout):
    """A19."""
    args = make_inputs(B=2, S1=3, Dk=128, layout=layout)
    meta = [t.to("meta") for t in args]
    out, lse = asa.sparse_flash_attention(*meta, 0.1, layout, return_lse=True)
    real, real_lse = asa.sparse_flash_attention(*args, 0.1, layout, return_lse=True)
    for fake, true in ((out, real), (lse, real_lse)):
        assert fake.shape == true.shape and fake.dtype == true.dtype and fake.stride() == true.stride()
        assert fake.device.type == "meta"
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in args]
        assert asa.sparse_flash_attention(*fakes, 0.1, layout).shape == real.shape


def test_export_with_dynamic_dimensions():
    class Model(torch.nn.Module):
        def forward(self, query, key, indices):
            return asa.sparse_flash_attention(query, key, key[..., :64], indices, 0.1)

    query, key, _, indices = make_inputs(B=2, S1=3, S2=40, Dk=128, topK=7)
    s1, s2 = torch.export.Dim("S1", min=1, max=1024), torch.export.Dim("S2", min=8, max=4096)
    program = torch.export.export(
        Model(), (query, key, indices), dynamic_shapes=({1: s1}, {1: s2}, {1: s1}), strict=False
    )
    query, key, _, indices = make_inputs(B=2, S1=9, S2=50, Dk=128, topK=7)
    expected = asa.sparse_flash_attention(query, key, key[..., :64], indices, 0.1)
    assert torch.equal(program.module()(query, key, indices), expected)


@pytest.mark.parametrize("blocked", ["torch_npu", "triton"])
def test_imports_without(blocked):
    code = (
        f"import sys; sys.modules[{blocked!r}] = None\n"
        "import torch, ascend_sparse_attention as asa\n"
        "q = torch.zeros(1, 1, 1, 64, dtype=torch.float16, device='meta')\n"
        "i = torch.zeros(1, 1, 1, 1, dtype=torch.int32, device='meta')\n"
        "assert asa.sparse_flash_attention(q, q, q, i, 1.0).shape == q.shape\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
