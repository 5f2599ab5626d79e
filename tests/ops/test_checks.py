# SPDX-License-Identifier: Apache-2.0
"""Every refusal: the message names the argument, what was expected and what came, on CPU and on Meta alike."""

from __future__ import annotations

import math

import ascend_sparse_attention as asa
import pytest
import torch
from ascend_sparse_attention import backends
from ascend_sparse_attention.checks import NPU_LIMITS, check_npu_limits, check_sparse_flash_attention
from sfa_inputs import make_inputs


def call(layout="BSND", scale=0.1, is_causal=False, device="cpu", edit=None, **sizes):
    args = [t.to(device) for t in make_inputs(layout=layout, **sizes)]
    if edit is not None:
        edit(args)
    return asa.sparse_flash_attention(*args, scale, layout, is_causal)


def replaced(i, make):
    def edit(args):
        args[i] = make(args[i])

    return edit


# (label, exception, message, keyword arguments of call)
REFUSALS = [
    ("group", ValueError, "query: expected N1 to be a multiple of N2 = 4, got 10", dict(N1=10, N2=4)),
    ("key dim", ValueError, "key: expected head dim 256 (query's), got 128", dict(Dk=256, edit=replaced(1, lambda k: k[..., :128]))),  # noqa: E501
    ("Dk", ValueError, "query: expected head dim Dk a multiple of 64, got 200", dict(Dk=200, Dv=200)),
    ("Dk 100", ValueError, "query: expected head dim Dk a multiple of 64, got 100", dict(Dk=100, Dv=72)),
    ("Dv", ValueError, "value: expected head dim Dv a multiple of 64, got 72", dict(Dk=128, Dv=72)),
    ("Dv > Dk", ValueError, "value: expected head dim Dv <= Dk = 64, got 128", dict(Dk=64, Dv=128, prefix=False)),
    ("Dv 0", ValueError, "value: expected head dim Dv a multiple of 64, got 0", dict(Dv=0)),
    ("idx dtype", TypeError, "sparseIndices: expected dtype int32, got int64", dict(edit=replaced(3, lambda i: i.long()))),  # noqa: E501
    ("k dtype", TypeError, "key: expected dtype float16 (query's), got bfloat16", dict(edit=replaced(1, lambda k: k.bfloat16()))),  # noqa: E501
    ("v dtype", TypeError, "value: expected dtype float16 (query's), got float32", dict(edit=replaced(2, lambda v: v.float()))),  # noqa: E501
    ("q dtype", TypeError, "query: expected dtype float16 or bfloat16, got float32", dict(dtype=torch.float32)),
    ("causal", ValueError, "is_causal: expected S1 <= S2 = 5 when causal, got S1 = 9", dict(S1=9, S2=5, topK=2, is_causal=True)),  # noqa: E501
    ("topK > S2", ValueError, "sparseIndices: expected topK <= S2 = 32, got 2048", dict(S2=32, edit=replaced(3, lambda i: i.new_zeros(1, 3, 2, 2048)))),  # noqa: E501
    ("topK 0", ValueError, "sparseIndices: expected topK >= 1, got 0", dict(topK=0)),
    ("S2 0", ValueError, "key: expected S2 >= 1, got 0", dict(S2=0)),
    ("N2 0", ValueError, "key: expected N2 >= 1, got 0", dict(edit=lambda a: a.__setitem__(slice(1, 4), [t[:, :, :0] for t in a[1:]]))),  # noqa: E501
    ("N1 0", ValueError, "query: expected N1 >= 1, got 0", dict(edit=replaced(0, lambda q: q[:, :, :0]))),
    ("batch", ValueError, "key: expected B = 1 (query's), got 2", dict(edit=replaced(1, lambda k: k.expand(2, -1, -1, -1)))),  # noqa: E501
    ("value S2", ValueError, "value: expected S2 = 40 (key's), got 39", dict(edit=replaced(2, lambda v: v[:, 1:]))),
    ("value N2", ValueError, "value: expected N2 = 2 (key's), got 1", dict(edit=replaced(2, lambda v: v[:, :, 1:]))),
    ("idx S1", ValueError, "sparseIndices: expected S1 = 3 (query's), got 2", dict(edit=replaced(3, lambda i: i[:, 1:]))),  # noqa: E501
    ("idx N2", ValueError, "sparseIndices: expected N2 = 2 (key's), got 1", dict(edit=replaced(3, lambda i: i[:, :, 1:]))),  # noqa: E501
    ("scalar", ValueError, "query: expected 4 dimensions [B, S1, N1, Dk], got 0", dict(edit=replaced(0, lambda q: q[0, 0, 0, 0]))),  # noqa: E501
    ("rank", ValueError, "key: expected 4 dimensions [B, S2, N2, Dk], got 3", dict(edit=replaced(1, lambda k: k[0]))),
    ("stride", ValueError, "value: expected stride 1 in the last dimension, got 2", dict(Dk=128, edit=replaced(2, lambda v: v.repeat(1, 1, 1, 2)[..., ::2]))),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("label,kind,message,kwargs", REFUSALS, ids=[r[0] for r in REFUSALS])
def test_refused_by_name(label, kind, message, kwargs, device):
    """A9, A14, A15, A19, B21: on Meta too."""
    with pytest.raises(kind) as error:
        call(device=device, **kwargs)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "kind,message,kwargs",
    [
        (TypeError, "scaleValue: expected a finite number, got Tensor", dict(scale=torch.tensor(1))),
        (TypeError, "scaleValue: expected a finite number, got bool", dict(scale=True)),
        (TypeError, "scaleValue: expected a finite number, got str", dict(scale="1")),
        (ValueError, "scaleValue: expected a finite number, got nan", dict(scale=math.nan)),
        (ValueError, "scaleValue: expected a finite number, got inf", dict(scale=math.inf)),
        (ValueError, "scaleValue: expected a number that float32 holds, got 1e+300", dict(scale=1e300)),
        (ValueError, "scaleValue: expected a number that float32 holds, got -1e+39", dict(scale=-(10**39))),
        (
            ValueError,
            "scaleValue: expected a number that float32 holds, got an integer of",
            dict(scale=10**400),
        ),
        (TypeError, "is_causal: expected a bool, got int", dict(is_causal=1)),
        (TypeError, "query: expected a Tensor, got ndarray", dict(edit=replaced(0, lambda q: q.numpy()))),
        (TypeError, "sparseIndices: expected a Tensor, got NoneType", dict(edit=replaced(3, lambda i: None))),
    ],
)
def test_wrong_kinds(kind, message, kwargs):
    with pytest.raises(kind) as error:
        call(**kwargs)
    assert message in str(error.value)


@pytest.mark.parametrize("word", ["bsnd", "TND", ""])
def test_unknown_layout(word):
    args = make_inputs()
    with pytest.raises(ValueError, match=f'inputLayout: expected "BSND" or "BNSD", got "{word}"'):
        asa.sparse_flash_attention(*args, 0.1, word)
    with pytest.raises(ValueError, match="inputLayout: expected"):
        torch.ops.ascend_sparse_attention.sparse_flash_attention(*args, 0.1, word)
    with pytest.raises(TypeError, match="inputLayout: expected a str, got int"):
        asa.sparse_flash_attention(*args, 0.1, 3)


def test_device_mismatch():
    q, k, v, idx = make_inputs()
    with pytest.raises(ValueError, match=r"key: expected device cpu \(query's\), got meta"):
        check_sparse_flash_attention(q, k.to("meta"), v, idx, 0.1, "BSND", False)


def test_bnsd_names_its_own_order():
    q, k, v, idx = make_inputs(layout="BNSD")
    with pytest.raises(ValueError, match=r"value: expected 4 dimensions \[B, N2, S2, Dv\], got 2"):
        asa.sparse_flash_attention(q, k, v[0, 0], idx, 0.1, "BNSD")


@pytest.mark.parametrize("dim", NPU_LIMITS)
def test_npu_limits_are_refused_by_name(dim):
    sizes = dict(B=1, S1=1, S2=2, N1=1, N2=1, Dk=64, Dv=64, topK=1)
    limit = NPU_LIMITS[dim]
    sizes[dim] = limit + (64 if dim == "Dk" else 1)
    if dim == "N2":
        sizes["N1"] = sizes["N2"]
    if dim == "topK":
        sizes["S2"] = sizes["topK"]

    def problem():
        q = torch.empty(sizes["B"], sizes["S1"], sizes["N1"], sizes["Dk"], dtype=torch.float16, device="meta")
        k = torch.empty(sizes["B"], sizes["S2"], sizes["N2"], sizes["Dk"], dtype=torch.float16, device="meta")
        i = torch.empty(sizes["B"], sizes["S1"], sizes["N2"], sizes["topK"], dtype=torch.int32, device="meta")
        return check_sparse_flash_attention(q, k, k[..., : sizes["Dv"]], i, 1.0, "BSND", False)

    with pytest.raises(ValueError, match=f": expected {dim} <= {limit} on the NPU, got {sizes[dim]}"):
        check_npu_limits(problem())
    sizes[dim] = limit
    if dim == "N2":
        sizes["N1"] = limit
    check_npu_limits(problem())


@pytest.mark.parametrize("value", [-1, 40, 2**31 - 1])
def test_check_indices_names_the_place(value, layout, monkeypatch):
    q, k, v, idx = make_inputs(layout=layout)
    place = (0, 2, 1, 5) if layout == "BSND" else (0, 1, 2, 5)
    idx[place] = value
    asa.sparse_flash_attention(q, k, v, idx, 0.1, layout)
    message = rf"sparseIndices: expected values in \[0, S2 = 40\), got {value} at \(b = 0, n2 = 1, s1 = 2, slot = 5\)"
    with pytest.raises(ValueError, match=message):
        asa.sparse_flash_attention(q, k, v, idx, 0.1, layout, check_indices=True)
    monkeypatch.setenv("ASA_CHECK_INDICES", "1")
    with pytest.raises(ValueError, match=message):
        asa.sparse_flash_attention(q, k, v, idx, 0.1, layout)
    asa.sparse_flash_attention(q, k, v, idx, 0.1, layout, check_indices=False)
    monkeypatch.setenv("ASA_CHECK_INDICES", "yes")
    with pytest.raises(ValueError, match="ASA_CHECK_INDICES: expected 0 or 1, got 'yes'"):
        asa.sparse_flash_attention(q, k, v, idx, 0.1, layout)


def test_backends_by_name():
    args = make_inputs()
    assert torch.equal(
        asa.sparse_flash_attention(*args, 0.1, backend="cpu"), asa.sparse_flash_attention(*args, 0.1, backend="auto")
    )
    with pytest.raises(ValueError, match="backend: expected one of auto, cpu, cuda, npu, twin, got 'gpu'"):
        asa.sparse_flash_attention(*args, 0.1, backend="gpu")
    with pytest.raises(ValueError, match="backend: npu expects tensors on npu, got query on cpu"):
        asa.sparse_flash_attention(*args, 0.1, backend="npu")
    with pytest.raises(ValueError, match="backend: expected one of"):
        backends.load("tpu")


def test_npu_backend_says_what_is_missing():
    why = backends.load("npu").missing()
    assert why is not None and ("torch_npu" in why or "not built" in why)


def test_backward_is_refused_by_name():
    q, k, v, idx = make_inputs()
    out = asa.sparse_flash_attention(q.requires_grad_(), k, v, idx, 0.1)
    with pytest.raises(NotImplementedError, match="sparse_flash_attention: expected inference, got a backward pass"):
        out.sum().backward()
