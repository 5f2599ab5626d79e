# SPDX-License-Identifier: Apache-2.0
"""The C++ checks find the same fault as Python's, in the same words, and let the same calls pass."""

from __future__ import annotations

import math
import random

import pytest
import torch
from ascend_sparse_attention import twin
from ascend_sparse_attention.checks import check_npu_limits, check_sparse_flash_attention

CALLS = 4000


def meta(shape, dtype, stride_last=1):
    if stride_last == 1:
        return torch.empty(shape, dtype=dtype, device="meta")
    return torch.empty([*shape[:-1], shape[-1] * stride_last], dtype=dtype, device="meta")[..., ::stride_last]


def outcome(function):
    try:
        function()
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return None


def compare(*call):
    def python():
        check_npu_limits(check_sparse_flash_attention(*call))

    expected = outcome(python)
    assert outcome(lambda: twin.native_check(twin.request_of(*call))) == expected
    return expected


def spoilt_call(rng):
    """A legal call with none, one or two things made illegal."""
    n2 = rng.choice((1, 2, 8))
    sizes = dict(
        B=rng.choice((1, 2, 64)),
        S1=rng.choice((1, 4)),
        S2=rng.choice((16, 300)),
        N1=n2 * rng.choice((1, 5, 16)),
        N2=n2,
        Dk=64 * rng.choice((1, 3, 9)),
        topK=rng.choice((1, 7, 16)),
    )
    sizes["Dv"] = rng.choice((64, sizes["Dk"]))
    layout = rng.choice(("BSND", "BNSD"))
    dtype = rng.choice((torch.float16, torch.bfloat16))
    dtypes = {name: dtype for name in ("query", "key", "value")} | {"index": torch.int32}
    bsnd = layout == "BSND"

    def shape(s, n, d):
        return [sizes["B"], s, n, d] if bsnd else [sizes["B"], n, s, d]

    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice(list(sizes))
        sizes[name] = rng.choice((0, 1, 3, 65, 100, 640, 2049, 16385, sizes[name] * 2))
    shapes = {
        "query": shape(sizes["S1"], sizes["N1"], sizes["Dk"]),
        "key": shape(sizes["S2"], sizes["N2"], sizes["Dk"]),
        "value": shape(sizes["S2"], sizes["N2"], sizes["Dv"]),
        "index": shape(sizes["S1"], sizes["N2"], sizes["topK"]),
    }
    strides = dict.fromkeys(shapes, 1)
    scale = 0.125
    for _ in range(rng.choice((0, 0, 1))):
        which = rng.choice(list(shapes))
        kind = rng.randrange(7)
        if kind == 0:
            shapes[which][rng.randrange(4)] += rng.choice((1, 64))
        elif kind == 1:
            shapes[which] = rng.choice(([], [4], [2, 3, 4], [1, 2, 3, 4, 5]))
        elif kind == 2:
            dtypes[which] = rng.choice(
                (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool)
            )
        elif kind == 3 and shapes[which]:
            strides[which] = 2
        elif kind == 4:
            scale = rng.choice((float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 3, 1e39, -1e300))
        elif kind == 5:
            layout = rng.choice(("bsnd", "TND", ""))
    tensors = [meta(shapes[n], dtypes[n], strides[n]) for n in ("query", "key", "value", "index")]
    return (*tensors, scale, layout, rng.random() < 0.5)


def test_random_calls():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    seen = set()
    for _ in range(CALLS):
        found = compare(*spoilt_call(rng))
        seen.add(found and found[1].split(", got")[0].split("=")[0])
    # The generator really visits the checks: legal calls and most of the messages.
    assert None in seen and len(seen) > 36, seen


@pytest.mark.parametrize(
    ("dim", "size", "message"),
    [
        ("B", 65, "query: expected B <= 64 on the NPU, got 65"),
        ("S1", 2049, "query: expected S1 <= 2048 on the NPU, got 2049"),
        ("S2", 16385, "key: expected S2 <= 16384 on the NPU, got 16385"),
        ("N1", 264, "query: expected N1 <= 256 on the NPU, got 264"),
        ("N2", 65, "key: expected N2 <= 64 on the NPU, got 65"),
        ("topK", 2049, "sparseIndices: expected topK <= 2048 on the NPU, got 2049"),
        ("Dk", 640, "query: expected Dk <= 576 on the NPU, got 640"),
    ],
)
def test_npu_limits(dim, size, message):
    sizes = dict(B=1, S1=1, S2=4096, N1=8, N2=8, Dk=64, topK=8) | {dim: size}
    if dim == "N2":
        sizes["N1"] = 65
    call = (
        meta([sizes["B"], sizes["S1"], sizes["N1"], sizes["Dk"]], torch.float16),
        meta([sizes["B"], sizes["S2"], sizes["N2"], sizes["Dk"]], torch.float16),
        meta([sizes["B"], sizes["S2"], sizes["N2"], 64], torch.float16),
        meta([sizes["B"], sizes["S1"], sizes["N2"], sizes["topK"]], torch.int32),
        1.0,
        "BSND",
        False,
    )
    assert compare(*call) == (ValueError, message)
    with pytest.raises(ValueError, match="on the NPU"):
        twin.Plan(twin.request_of(*call))


def test_scale_that_float32_cannot_hold():
    """Both sides say the same number in the same digits, and let the largest float32 pass."""
    call = [
        meta([1, 1, 8, 64], torch.float16),
        *[meta([1, 16, 8, 64], torch.float16)] * 2,
        meta([1, 1, 8, 4], torch.int32),
    ]
    largest = torch.finfo(torch.float32).max
    rng = random.Random(0)
    beyond = [1e39, -1e300, math.nextafter(largest, math.inf), 3.5e38, 10**300, 1.7976931348623157e308]
    beyond += [rng.uniform(1, 10) * 10.0 ** rng.randrange(39, 308) * rng.choice((-1, 1)) for _ in range(300)]
    for scale in beyond:
        message = f"scaleValue: expected a number that float32 holds, got {float(scale)}"
        assert compare(*call, scale, "BSND", False) == (ValueError, message)
    for scale in (largest, -largest, 1e-300):
        assert compare(*call, scale, "BSND", False) is None
