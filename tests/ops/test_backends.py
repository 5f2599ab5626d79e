# SPDX-License-Identifier: Apache-2.0
"""Every backend of a device answers autograd, no_grad, meta tensors and lazy negation as the others do."""

from __future__ import annotations

import ascend_sparse_attention as asa
import pytest
import torch
from ascend_sparse_attention import backends
from sfa_inputs import make_inputs


@pytest.fixture(params=["auto", "cpu", "twin"])
def backend(request):
    if request.param == "twin" and backends.load("twin").missing() is not None:
        pytest.skip("libasa_twin.so is not built")
    return request.param


@pytest.mark.parametrize("return_lse", [False, True])
def test_backward_is_refused(backend, return_lse):
    q, k, v, idx = make_inputs(Dk=128, Dv=64)
    for tensor in (q, k, v):
        tensor.requires_grad_()
    found = asa.sparse_flash_attention(q, k, v, idx, 0.1, backend=backend, return_lse=return_lse)
    out = found[0] if return_lse else found
    assert out.requires_grad
    with pytest.raises(NotImplementedError, match="sparse_flash_attention: expected inference, got a backward pass"):
        out.float().sum().backward()
    with torch.no_grad():
        again = asa.sparse_flash_attention(q, k, v, idx, 0.1, backend=backend, return_lse=return_lse)
    assert torch.equal(again[0] if return_lse else again, out) and not (again[0] if return_lse else again).requires_grad


def test_lazy_negation(backend):
    q, k, v, idx = make_inputs(Dk=128, Dv=64)
    lazy = torch._neg_view(q)
    assert lazy.is_neg() and lazy.data_ptr() == q.data_ptr()
    expected = asa.sparse_flash_attention(-q, k, v, idx, 0.1, backend=backend)
    assert torch.equal(asa.sparse_flash_attention(lazy, k, v, idx, 0.1, backend=backend), expected)


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("name", ["", "_with_lse"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_zero_tensors_are_refused_by_name(device, name, position):
    """torch's tensors without memory: one rule before the kernels of every device, whatever the shape."""
    op = getattr(torch.ops.ascend_sparse_attention, f"sparse_flash_attention{name}")
    argument = ("query", "key", "value", "sparseIndices")[position]
    for args in (make_inputs(Dk=128, Dv=64), make_inputs(Dk=128, Dv=64, topK=1)):
        args = [tensor.to(device) for tensor in args]
        like = args[position]
        args[position] = torch._efficientzerotensor(like.shape, dtype=like.dtype, device=device)
        message = f"{argument}: expected a tensor with memory \\(use clone\\(\\)\\), got a zero tensor without"
        with pytest.raises(ValueError, match=message):
            op(*args, 0.1)
        with pytest.raises(ValueError, match=message):
            op(**dict(zip(("query", "key", "value", "sparseIndices"), args)), scaleValue=0.1)
        with pytest.raises(ValueError, match=message):
            asa.sparse_flash_attention(*args, 0.1, return_lse=bool(name))
        args[position] = args[position].clone()  # which is what the message says
        op(*args, 0.1)


def test_a_zero_tensor_and_the_other_backends():
    q, k, v, idx = make_inputs(Dk=128, Dv=64)
    zero = torch._efficientzerotensor(q.shape, dtype=q.dtype)
    for name in ("cpu", "twin"):
        with pytest.raises(ValueError, match="query: expected a tensor with memory"):
            asa.sparse_flash_attention(zero, k, v, idx, 0.1, backend=name)


@pytest.mark.parametrize("name", ["", "_with_lse"])
def test_opcheck_of_the_twin(name):
    if backends.load("twin").missing() is not None:
        pytest.skip("libasa_twin.so is not built")
    args = make_inputs(B=1, S1=2, S2=40, topK=7, Dk=128, Dv=64)
    op = getattr(torch.ops.ascend_sparse_attention, f"twin_sparse_flash_attention{name}").default
    torch.library.opcheck(op, (*args, 0.1))


def test_index_check_comes_last(monkeypatch):
    """What can be said without the values is said first, and a tensor without values is named."""
    q, k, v, idx = make_inputs()
    meta = [t.to("meta") for t in (q, k, v, idx)]

    def call(*args, **kwargs):
        return asa.sparse_flash_attention(*args, 0.1, check_indices=True, **kwargs)

    with pytest.raises(ValueError, match=r"sparseIndices: expected values to check .* got a meta tensor"):
        call(*meta)
    with pytest.raises(ValueError, match="backend: cpu expects tensors on cpu, got query on meta"):
        call(*meta, backend="cpu")
    with pytest.raises(ValueError, match=r"sparseIndices: expected device cpu \(query's\), got meta"):
        call(q, k, v, meta[3])
    with pytest.raises(TypeError, match="sparseIndices: expected dtype int32, got float32"):
        call(q, k, v, idx.float())
    with pytest.raises(ValueError, match=r"key: expected 4 dimensions .* got 3"):
        call(q, k[0], v, idx - 100)
    with pytest.raises(ValueError, match=r"sparseIndices: expected values in \[0, S2"):
        call(q, k, v, idx - 100)
    # Meta tensors are fine where nobody asked.
    monkeypatch.setenv("ASA_CHECK_INDICES", "0")
    assert asa.sparse_flash_attention(*meta, 0.1).device.type == "meta"
