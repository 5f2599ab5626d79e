# SPDX-License-Identifier: Apache-2.0
"""Timing on a CUDA device: medians with spread, from events, with a cold L2 before every repeat."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch


class Times(NamedTuple):
    """Milliseconds: median, 10th and 90th percentile."""

    median: float
    low: float
    high: float


def _spread(samples: list[float]) -> Times:
    samples = sorted(samples)
    n = len(samples)
    return Times(statistics.median(samples), samples[n // 10], samples[n - 1 - n // 10])


def kernel_time(call: Callable[[], object], budget_ms: float = 200.0, least: int = 7, most: int = 50) -> Times:
    """Device time of `call`. L2 is overwritten before each repeat; warm-up and compilation stay outside."""
    flush = torch.empty(64 * 1024 * 1024, dtype=torch.int32, device="cuda")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    repeats = max(least, min(most, int(budget_ms / max(begin.elapsed_time(end), 1e-3))))
    events = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(repeats)]
    for begin, end in events:
        flush.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return _spread([begin.elapsed_time(end) for begin, end in events])


def graph_time(call: Callable[[], object], inner: int = 20, repeats: int = 20) -> Times:
    """Device time of `call` replayed from a graph, `inner` calls a graph: what a captured decode step pays. Warm L2."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            call()
    samples = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end) / inner)
    return _spread(samples)


def host_time(call: Callable[[], object], repeats: int = 9, synchronize: bool = True) -> Times:
    """Wall time of `call` on the host, the device idle before and, with `synchronize`, after."""
    return host_times({"": call}, repeats, synchronize)[""]


def host_times(calls: dict[str, Callable[[], object]], repeats: int, synchronize: bool = True) -> dict[str, Times]:
    """`host_time` of several calls that take turns, so that what slows the host down for a while slows all of them."""
    for call in calls.values():
        call()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            if synchronize:
                torch.cuda.synchronize()
            samples[name].append((time.perf_counter() - begin) * 1e3)
    torch.cuda.synchronize()
    return {name: _spread(x) for name, x in samples.items()}
