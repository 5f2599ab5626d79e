# SPDX-License-Identifier: Apache-2.0
"""How the goldens cut a sparse_flash_attention call into blocks, and how they compute them under a memory bound.

A block is one (b, n2) pair and a run of query positions; it carries the G query heads that share the pair's keys.
Every streaming golden cuts by :func:`plan_blocks`, so that two of them under the same bound yield block for block
the same slices and can be compared without either output being held whole.

Work is spread over threads that each run single-threaded torch operations on their own rows. Parallel operations
would meet at a barrier every few microseconds, which collapses as soon as the cores are shared with anything else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from ..layout import SfaProblem, as_bnsd

#: Default bound on what a golden allocates beside its inputs and a whole output, in bytes.
DEFAULT_MEMORY_LIMIT_BYTES = 1 << 30

#: The output of one block stays below this many bytes of float64: larger blocks gain nothing and cost the consumer.
_BLOCK_OUTPUT_BYTES = 16 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class BlockIndex:
    """Where a block sits: batch `b`, key head `n2`, query heads `heads` and query positions `rows` (both slices)."""

    b: int
    n2: int
    heads: slice
    rows: slice

    @property
    def row_count(self) -> int:
        return int(self.rows.stop - self.rows.start)


@dataclass(frozen=True)
class SfaTensors:
    """The four tensors of a call as [B, N, S, D] views, whatever their layout."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    indices: torch.Tensor

    @classmethod
    def of(
        cls, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sparseIndices: torch.Tensor, layout: str
    ) -> SfaTensors:
        return cls(*(as_bnsd(tensor.detach(), layout) for tensor in (query, key, value, sparseIndices)))


def output_rows_per_block(p: SfaProblem, memory_limit_bytes: int) -> int:
    """Query positions of one block: its float64 output takes at most 1/16 of the bound, and at most 16 MiB."""
    row_bytes = p.G * (p.Dv + 1) * 8
    return max(1, min(p.S1, min(_BLOCK_OUTPUT_BYTES, memory_limit_bytes // 16) // row_bytes))


def plan_blocks(p: SfaProblem, memory_limit_bytes: int) -> Iterator[BlockIndex]:
    """Yield the blocks of a call in the order b, n2, s1. B = 0 or S1 = 0 yields none."""
    if p.S1 == 0:
        return
    step = output_rows_per_block(p, memory_limit_bytes)
    for b in range(p.B):
        for n2 in range(p.N2):
            heads = slice(n2 * p.G, (n2 + 1) * p.G)
            for start in range(0, p.S1, step):
                yield BlockIndex(b, n2, heads, slice(start, min(start + step, p.S1)))


@dataclass(frozen=True)
class WorkPlan:
    """How one call is worked on: `workers` threads, each taking at most `step` query positions at a time."""

    workers: int
    step: int
    memory_limit_bytes: int

    @classmethod
    def of(
        cls,
        p: SfaProblem,
        memory_limit_bytes: int,
        device: torch.device,
        *,
        row_bytes: int,
        piece_bytes: int,
        largest_row_bytes: int = 0,
    ) -> WorkPlan:
        """Fit threads and pieces into half the bound; a quarter is left to blocks under way and a quarter in reserve.

        Args:
            row_bytes: scratch that one query position of one (b, n2) pair takes.
            piece_bytes: scratch beyond which a larger piece is not faster.
            largest_row_bytes: what one query position takes at worst, where that is more; a piece that takes more
                than foreseen has to be split by its worker.

        Raises:
            ValueError: the bound does not hold one query position.
        """
        budget = memory_limit_bytes // 2
        largest = max(row_bytes, largest_row_bytes)
        if largest > budget:
            raise ValueError(
                f"memory_limit_bytes: expected at least {2 * largest} to hold one query position, "
                f"got {memory_limit_bytes}"
            )
        threads = torch.get_num_threads() if device.type == "cpu" else 1
        workers = min(threads, budget // largest)
        step = max(1, min(piece_bytes, budget // workers) // row_bytes)
        return cls(workers, min(step, output_rows_per_block(p, memory_limit_bytes)), memory_limit_bytes)

    def pieces(self, rows: slice) -> list[tuple[int, int]]:
        """Cut a block's query positions into what one thread does at a time."""
        return [(start, min(start + self.step, rows.stop)) for start in range(rows.start, rows.stop, self.step)]


def run_blocks(
    blocks: Iterable[BlockIndex],
    begin: Callable[[BlockIndex], tuple[T, list[Callable[[], None]], int]],
    plan: WorkPlan,
) -> Iterator[T]:
    """Yield one result a block, in order, computing a bounded number of blocks ahead of the consumer.

    Args:
        begin: makes a block's result and the tasks that fill it; returns them and the result's bytes.
    """
    with _single_threaded_pool(plan.workers) as pool:
        under_way: deque[tuple[T, list[Future[None]], int]] = deque()
        held = 0
        try:
            for at in blocks:
                result, tasks, size = begin(at)
                under_way.append((result, [pool.submit(task) for task in tasks], size))
                held += size
                while len(under_way) > 2 * plan.workers or (held > plan.memory_limit_bytes // 8 and len(under_way) > 1):
                    result, futures, size = under_way.popleft()
                    held -= size
                    yield _finished(result, futures)
            while under_way:
                yield _finished(*under_way.popleft()[:2])
        finally:
            # A consumer that stops early must not wait for blocks it will never see.
            for _, futures, _ in under_way:
                for future in futures:
                    future.cancel()


def _finished(result: T, futures: list[Future[None]]) -> T:
    for future in futures:
        future.result()
    return result


def _single_threaded_pool(workers: int) -> ThreadPoolExecutor:
    """A pool whose threads run torch operations on one core each."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="sfa-golden")
    threads = torch.get_num_threads()
    everyone = threading.Barrier(workers)

    def settle() -> None:
        torch.set_num_threads(1)
        everyone.wait()

    for future in [pool.submit(settle) for _ in range(workers)]:
        future.result()
    # The count is each thread's own, but threads started later inherit the last one set by anybody.
    torch.set_num_threads(threads)
    return pool
