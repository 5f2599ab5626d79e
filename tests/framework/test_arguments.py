# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments on the NPU: Python exceptions that name op and argument, in the words of the Python checks (A15)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from npu import no_findings, on_npu, ops, torch  # noqa: F401  # isort: skip
from sfa_inputs import make_inputs


def wrong(**change):
    """Arguments of a good call with some replaced; tensors by functions of the good ones."""
    names = ("query", "key", "value", "sparseIndices")
    good = dict(zip(names, make_inputs(B=2, S1=3, S2=40, Dk=128, prefix=False)))
    call = {**good, "scaleValue": 0.1, "inputLayout": "BSND", "is_causal": False}
    call.update({name: value(call[name]) if callable(value) else value for name, value in change.items()})
    return call


def narrowed(dim, size):
    return lambda tensor: tensor.narrow(dim, 0, size).contiguous()


WRONG = {
    "rank": dict(query=lambda t: t[0]),
    "scalar": dict(query=lambda t: t.flatten()[0]),
    "dtype": dict(query=lambda t: t.float()),
    "key dtype": dict(key=lambda t: t.bfloat16()),
    "index dtype": dict(sparseIndices=lambda t: t.long()),
    "batch": dict(key=narrowed(0, 1)),
    "heads": dict(query=narrowed(2, 3)),
    "no heads": dict(query=narrowed(2, 0)),
    "no key heads": dict(key=narrowed(2, 0)),
    "S2": dict(key=narrowed(1, 0)),
    "Dk": dict(query=narrowed(3, 100), key=narrowed(3, 100)),
    "Dk differs": dict(key=narrowed(3, 64)),
    "Dv": dict(value=narrowed(3, 32)),
    "Dv > Dk": dict(query=narrowed(3, 64), key=narrowed(3, 64), value=lambda t: torch.cat([t, t], 3)),
    "value S2": dict(value=narrowed(1, 39)),
    "value N2": dict(value=narrowed(2, 1)),
    "index S1": dict(sparseIndices=narrowed(1, 2)),
    "index N2": dict(sparseIndices=narrowed(2, 1)),
    "topK = 0": dict(sparseIndices=narrowed(3, 0)),
    "topK > S2": dict(key=narrowed(1, 4), value=narrowed(1, 4)),
    "causal": dict(
        is_causal=True, query=lambda t: t.repeat(1, 20, 1, 1), sparseIndices=lambda t: t.repeat(1, 20, 1, 1)
    ),
    "layout": dict(inputLayout="TND"),
    "lower case": dict(inputLayout="bsnd"),
    "nan": dict(scaleValue=float("nan")),
    "inf": dict(scaleValue=float("-inf")),
}


def call(op, arguments, device):
    tensors = on_npu([arguments[n] for n in ("query", "key", "value", "sparseIndices")], device)
    return op(*tensors, arguments["scaleValue"], arguments["inputLayout"], arguments["is_causal"])


@pytest.mark.parametrize("name", WRONG)
def test_same_exception_and_words_as_in_python(name):
    arguments = wrong(**WRONG[name])
    with pytest.raises((TypeError, ValueError)) as python:
        call(ops.sparse_flash_attention, arguments, "cpu")
    for op in (ops.sparse_flash_attention, ops.sparse_flash_attention_with_lse):
        with pytest.raises((TypeError, ValueError)) as npu:
            call(op, arguments, "npu:0")
        assert npu.type is python.type
        assert str(npu.value) == f"{op.__name__}: {python.value}"


def test_stride_of_the_last_dimension():
    query, _, value, indices = on_npu(make_inputs(S2=40, prefix=False))
    wide = torch.empty(1, 40, 2, 128, dtype=torch.float16, device="npu")
    with pytest.raises(ValueError, match="key: expected stride 1 in the last dimension, got 2"):
        ops.sparse_flash_attention(query, wide[..., ::2], value, indices, 0.1)


@pytest.mark.parametrize("position", [1, 2, 3])
def test_devices_differ(position):
    tensors = list(on_npu(make_inputs(prefix=False)))
    name = ("query", "key", "value", "sparseIndices")[position]
    tensors[position] = tensors[position].cpu()
    with pytest.raises(ValueError, match=rf"{name}: expected device npu:0 \(query's\), got cpu"):
        ops.sparse_flash_attention(*tensors, 0.1)
    tensors[position] = tensors[position].to("npu:1")
    with pytest.raises(ValueError, match=rf"{name}: expected device npu:0 \(query's\), got npu:1"):
        ops.sparse_flash_attention(*tensors, 0.1)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (dict(B=65), "query: expected B <= 64 on the NPU, got 65"),
        (dict(S1=2049, S2=4), "query: expected S1 <= 2048 on the NPU, got 2049"),
        (dict(S2=16385, N1=1, N2=1), "key: expected S2 <= 16384 on the NPU, got 16385"),
        (dict(N1=257, N2=1), "query: expected N1 <= 256 on the NPU, got 257"),
        (dict(N1=65, N2=65), "key: expected N2 <= 64 on the NPU, got 65"),
        (dict(S2=2049, topK=2049, N1=1, N2=1), "sparseIndices: expected topK <= 2048 on the NPU, got 2049"),
        (dict(Dk=640), "query: expected Dk <= 576 on the NPU, got 640"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value.split()[2],
)
def test_sizes_beyond_the_npus_table(sizes, words):
    sizes = {"S2": 8, "topK": min(4, sizes.get("S2", 4)), **sizes}
    with pytest.raises(ValueError) as error:
        ops.sparse_flash_attention(*on_npu(make_inputs(**sizes)), 0.1)
    assert str(error.value) == f"sparse_flash_attention: {words}"


def test_backward_is_refused():
    query, key, value, indices = on_npu(make_inputs(prefix=False))
    out = ops.sparse_flash_attention(query.requires_grad_(), key, value, indices, 0.1)
    with pytest.raises(NotImplementedError, match="expected inference, got a backward pass"):
        torch.autograd.grad(out, query, torch.empty_like(out))


def test_unknown_device():
    code = (
        "import os, torch, torch_npu, ascend_sparse_attention as asa\n"
        "q = torch.empty(1, 1, 1, 64, dtype=torch.float16, device='npu')\n"
        "i = torch.empty(1, 1, 1, 1, dtype=torch.int32, device='npu')\n"
        "os.environ['ASA_FAKE_ACL_SOC'] = 'Ascend910A'\n"  # torch_npu has asked by now; the adapter has not
        "asa.sparse_flash_attention(q, q, q, i, 1.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert (
        "sparse_flash_attention: expected a device of Ascend910B1," in done.stderr and "got Ascend910A" in done.stderr
    )
