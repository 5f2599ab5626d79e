# SPDX-License-Identifier: Apache-2.0
"""Streams, devices and the task queue. The fake runtime's streams are threads, so an order that is missing shows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from npu import FORBIDDEN, calls, hold, no_findings, on_npu, ops, torch  # noqa: F401  # isort: skip
from sfa_inputs import make_inputs, reference
from torch.utils._python_dispatch import TorchDispatchMode

SIZES = [
    dict(B=B, S1=S1, S2=S2, N1=N1, N2=N2, topK=topK, layout=layout, prefix=prefix, dtype=dtype)
    for (B, S1, S2, N1, N2, topK) in [
        (1, 2, 20, 4, 2, 5),
        (2, 1, 33, 2, 1, 33),
        (1, 3, 64, 6, 2, 17),
        (3, 1, 9, 4, 4, 1),
    ]
    for layout in ("BSND", "BNSD")
    for prefix, dtype in ((True, torch.float16), (False, torch.bfloat16))
]


def close(out, expected):
    torch.testing.assert_close(out.cpu().double(), expected, rtol=0.02, atol=2e-3)


def test_two_hundred_calls_without_a_sync():
    """Workspaces of many sizes are freed while their kernels still wait; each result is that of a lone call."""
    lone = []
    tensors = [on_npu(make_inputs(**size, seed=i)) for i, size in enumerate(SIZES)]
    for size, args in zip(SIZES, tensors):
        out, lse = ops.sparse_flash_attention_with_lse(*args, 0.1, size["layout"])
        torch.npu.synchronize()
        lone.append((out.cpu(), lse.cpu()))
    hold(torch.npu.current_stream(), 300)
    results = []
    for i in range(200):
        at = i * 7 % len(SIZES)
        results.append((at, ops.sparse_flash_attention_with_lse(*tensors[at], 0.1, SIZES[at]["layout"])))
    torch.npu.synchronize()
    for at, (out, lse) in results:
        assert torch.equal(out.cpu().view(torch.int16), lone[at][0].view(torch.int16))
        assert torch.equal(lse.cpu(), lone[at][1])


def test_a_call_neither_copies_nor_waits_nor_computes():
    """One kernel, and of torch's operators the allocation alone (D5)."""
    tensors = on_npu(make_inputs(B=2, S1=3, S2=40))
    ops.sparse_flash_attention(*tensors, 0.1)
    torch.npu.synchronize()

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    before = {name: calls(name) for name in (*FORBIDDEN, "aclrtLaunchHostFunc")}
    with Log():
        out = ops.sparse_flash_attention(*tensors, 0.1)
    during = {name: calls(name) - before[name] for name in FORBIDDEN}
    torch.npu.synchronize()
    assert seen == ["ascend_sparse_attention::sparse_flash_attention"]
    assert during == dict.fromkeys(FORBIDDEN, 0)
    assert calls("aclrtLaunchHostFunc") == before["aclrtLaunchHostFunc"] + 1
    assert out.shape == tensors[0].shape


def test_side_stream():
    """The kernel runs on the current stream: held up with it, and ordered after what was queued there."""
    host = make_inputs(S1=3, S2=40)
    expected, _ = reference(*host, 0.1)
    tensors = on_npu(host)
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        hold(side, 300)
        out = ops.sparse_flash_attention(*tensors, 0.1)
    for tensor in (*tensors, out):
        tensor.record_stream(side)
    torch.npu.default_stream().synchronize()
    assert not side.query(), "the default stream must not have waited for the side stream"
    torch.npu.current_stream().wait_stream(side)
    close(out, expected)


def test_producer_on_another_stream():
    """Inputs that a slow stream writes, read after an event of it."""
    host = make_inputs(S1=3, S2=40)
    expected, _ = reference(*host, 0.1)
    tensors = on_npu(make_inputs(S1=3, S2=40, seed=9))
    producer, consumer = torch.npu.Stream(), torch.npu.Stream()
    pinned = [tensor.contiguous().pin_memory() for tensor in (host[0], host[1], host[3])]
    torch.npu.synchronize()
    written = torch.npu.Event()
    with torch.npu.stream(producer):
        hold(producer, 200)
        for target, source in zip((tensors[0], tensors[1], tensors[3]), pinned):
            target.copy_(source, non_blocking=True)
        written.record(producer)
    with torch.npu.stream(consumer):
        written.wait(consumer)
        out = ops.sparse_flash_attention(*tensors, 0.1)
    consumer.synchronize()
    close(out, expected)


def test_two_streams_at_once():
    """Two streams, one allocator: no workspace is shared between launches that overlap."""
    host = [make_inputs(B=2, S1=3, S2=40, seed=seed) for seed in (0, 1)]
    tensors = [on_npu(one) for one in host]
    torch.npu.synchronize()
    streams = [torch.npu.Stream(), torch.npu.Stream()]
    results = []
    for turn in range(20):
        with torch.npu.stream(streams[turn % 2]):
            if turn < 2:
                hold(streams[turn], 100)
            results.append(ops.sparse_flash_attention(*tensors[turn % 2], 0.1))
    torch.npu.synchronize()
    expected = [reference(*one, 0.1)[0] for one in host]
    for turn, out in enumerate(results):
        close(out, expected[turn % 2])


def test_second_device():
    host = make_inputs(B=2, S1=3, S2=40)
    expected, expected_lse = reference(*host, 0.1)
    assert torch.npu.current_device() == 0
    tensors = on_npu(host, "npu:1")
    hold(torch.npu.current_stream(0), 200)
    out, lse = ops.sparse_flash_attention_with_lse(*tensors, 0.1)
    assert out.device == lse.device == torch.device("npu:1")
    assert torch.npu.current_device() == 0, "the caller's device must stay current"
    torch.npu.synchronize(1)
    assert not torch.npu.current_stream(0).query(), "the launch must not be on the first device's stream"
    close(out, expected)
    torch.testing.assert_close(lse.cpu().double(), expected_lse, rtol=1e-3, atol=1e-3)
    torch.npu.synchronize(0)


@pytest.mark.parametrize("mode", ["0", "2"])
def test_other_modes_of_the_task_queue(mode):
    """The queue's mode is read once a process: this file again, with the queue off and with its second level."""
    if os.environ.get("ASA_TEST_IN_MODE"):
        pytest.skip("this is the run in another mode")
    env = {**os.environ, "TASK_QUEUE_ENABLE": mode, "ASA_TEST_IN_MODE": mode}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
