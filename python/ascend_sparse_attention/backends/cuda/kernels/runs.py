# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The functions below are a device language that only looks like Python; their types are Triton's.
"""Planning of variable blocks on the device: selected column blocks to runs of keys, runs to the table of steps.

One program a work (kv head, block row). `before` of a run is the number of keys of its work that come before it, so
the runs of a work, searched for a position in its stream, give the key there.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _run_at(before, runs, position, ROUNDS: tl.constexpr):
    """Index of the run that holds `position`: the last one with before <= position. Binary search."""
    low = position * 0
    high = low + runs
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        open_ = low < high
        right = open_ & (tl.load(before + middle, mask=open_, other=0) <= position)
        low = tl.where(right, middle + 1, low)
        high = tl.where(open_ & ~right, middle, high)
    return low - 1


@triton.jit(do_not_specialize=["MB", "NB"])
def find_runs_kernel(
    block_map, col_end, run_start, run_before, summary, MB, NB, BN: tl.constexpr, ROUNDS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """block_map uint8 [Hk, MB, NB], col_end int32 [Hk, NB] (running sums of the sizes). Writes run_start, run_before
    int32 [works, NB] and summary int32 [3, works]: keys, runs, most runs that one step of BN keys touches."""
    work = tl.program_id(0)
    ends = col_end + work // MB * NB
    row = block_map + work.to(tl.int64) * NB
    start_out = run_start + work.to(tl.int64) * NB
    before_out = run_before + work.to(tl.int64) * NB
    keys = work * 0
    runs = work * 0
    last_end = work * 0 - 1
    for c in range(0, NB, BLOCK):
        j = c + tl.arange(0, BLOCK)
        inside = j < NB
        end = tl.load(ends + j, mask=inside, other=0)
        start = tl.load(ends + j - 1, mask=inside & (j > 0), other=0)
        on = (tl.load(row + j, mask=inside, other=0) != 0) & (end > start)
        # The blocks partition the keys, so a selected block prolongs a run iff the last selected key is its neighbour.
        p = j - 1
        p_inside = (p >= c) & inside
        p_start = tl.load(ends + p - 1, mask=p_inside & (p > 0), other=0)
        p_on = (tl.load(row + p, mask=p_inside, other=0) != 0) & (start > p_start)
        reached = tl.maximum(tl.associative_scan(tl.where(p_on, start, -1), 0, _larger), last_end)
        opens = (on & (reached != start)).to(tl.int32)
        size = tl.where(on, end - start, 0)
        slot = runs + tl.cumsum(opens, 0) - 1
        tl.store(start_out + slot, start, mask=opens != 0)
        tl.store(before_out + slot, keys + tl.cumsum(size, 0) - size, mask=opens != 0)
        keys += tl.sum(size, 0)
        runs += tl.sum(opens, 0)
        last_end = tl.maximum(last_end, tl.max(tl.where(on, end, -1), 0))
    tl.debug_barrier()  # the search below reads what other threads of this program wrote
    widest = work * 0
    for t in range(0, (keys + BN - 1) // BN, BLOCK):
        first_key = (t + tl.arange(0, BLOCK)) * BN
        last_key = tl.minimum(first_key + BN, keys) - 1
        first = _run_at(before_out, runs, first_key, ROUNDS)
        last = _run_at(before_out, runs, last_key, ROUNDS)
        widest = tl.maximum(widest, tl.max(tl.where(first_key < keys, last - first + 1, 0), 0))
    works = tl.num_programs(0)
    tl.store(summary + work, keys)
    tl.store(summary + works + work, runs)
    tl.store(summary + 2 * works + work, widest)


@triton.jit(do_not_specialize=["NB"])
def step_table_kernel(
    run_start, run_before, summary, begin, stream, NB, BN: tl.constexpr, SEGMENTS: tl.constexpr, ROUNDS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows of (first lane, key - lane) x SEGMENTS of each work's steps, the work's first row being begin[work]; with
    SEGMENTS = 0 the keys themselves, the first at begin[work]."""
    work = tl.program_id(0)
    works = tl.num_programs(0)
    keys = tl.load(summary + work)
    runs = tl.load(summary + works + work)
    starts = run_start + work.to(tl.int64) * NB
    before = run_before + work.to(tl.int64) * NB
    base = tl.load(begin + work).to(tl.int64)
    if SEGMENTS == 0:
        for x in range(0, keys, BLOCK):
            position = x + tl.arange(0, BLOCK)
            inside = position < keys
            run = tl.maximum(_run_at(before, runs, position, ROUNDS), 0)
            key = tl.load(starts + run, mask=inside, other=0) + position - tl.load(before + run, mask=inside, other=0)
            tl.store(stream + base + position, key, mask=inside)
    else:
        for t in range(0, (keys + BN - 1) // BN, BLOCK):
            step = t + tl.arange(0, BLOCK)
            first_key = step * BN
            inside = first_key < keys
            first = _run_at(before, runs, first_key, ROUNDS)
            last = _run_at(before, runs, tl.minimum(first_key + BN, keys) - 1, ROUNDS)
            out = stream + (base + step) * (2 * SEGMENTS)
            for s in tl.static_range(SEGMENTS):
                run = first + s
                live = inside & (run <= last)
                lane = tl.load(before + run, mask=live, other=0) - first_key
                delta = tl.load(starts + run, mask=live, other=0) - lane
                tl.store(out + 2 * s, tl.where(live, lane, BN), mask=inside)
                tl.store(out + 2 * s + 1, tl.where(live, delta, 0), mask=inside)
