# SPDX-License-Identifier: Apache-2.0
"""What compute-sanitizer's racecheck says of handoffs that are right by construction.

    compute-sanitizer --tool racecheck python benchmarks/cuda/racecheck_control.py [bare | chain | exchange] [barriers]

The Hopper kernels hand values between warpgroups in one way: all threads store, a barrier of the warpgroup, one thread
arrives at an mbarrier, the other warpgroup waits for it and loads. `chain` hands values over two such steps, `exchange`
both ways between two warpgroups, from the layout of a matrix product's rows, as hopper_mla.py does with row maxima and
sums. `bare` has the warpgroups share nothing, so what is reported there is of the compiler's own dispatch.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def _put(buffer, value, full, empty, i):
    mbarrier.wait(empty, (i & 1) ^ 1)
    buffer.store(value)
    gl.thread_barrier()
    mbarrier.arrive(full)


@gluon.jit
def _get(buffer, full, empty, i, layout: gl.constexpr):
    mbarrier.wait(full, i & 1)
    value = buffer.load(layout)
    gl.thread_barrier()
    mbarrier.arrive(empty)
    return value


@gluon.jit
def _exchange(mine, theirs, value, full_mine, full_theirs, empty_mine, empty_theirs, i, layout: gl.constexpr):
    _put(mine, value, full_mine, empty_mine, i)
    return _get(theirs, full_theirs, empty_theirs, i, layout)


@gluon.jit
def _send(x, out, first, second, full, empty, ROUNDS: gl.constexpr, MODE: gl.constexpr, BARRIERS: gl.constexpr):
    A: gl.constexpr = BARRIERS - 2
    B: gl.constexpr = BARRIERS - 1
    layout: gl.constexpr = gl.SliceLayout(1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
    n = gl.arange(0, 64, layout=layout)
    for i in range(ROUNDS):
        value = gl.load(x + i * 64 + n)
        if MODE == 1:
            _put(first, value, full.index(A), empty.index(A), i)
        if MODE == 2:
            value = _exchange(
                first, second, value, full.index(A), full.index(B), empty.index(A), empty.index(B), i, layout
            )
        gl.store(out + (ROUNDS + i) * 64 + n, value)


@gluon.jit
def _relay(first, second, full, empty, ROUNDS: gl.constexpr, MODE: gl.constexpr, BARRIERS: gl.constexpr):
    layout: gl.constexpr = gl.SliceLayout(1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
    for i in range(ROUNDS):
        if MODE == 1:
            value = _get(first, full.index(BARRIERS - 2), empty.index(BARRIERS - 2), i, layout)
            _put(second, value, full.index(BARRIERS - 1), empty.index(BARRIERS - 1), i)


@gluon.jit
def _receive(out, first, second, full, empty, ROUNDS: gl.constexpr, MODE: gl.constexpr, BARRIERS: gl.constexpr):
    A: gl.constexpr = BARRIERS - 2
    B: gl.constexpr = BARRIERS - 1
    layout: gl.constexpr = gl.SliceLayout(1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
    n = gl.arange(0, 64, layout=layout)
    for i in range(ROUNDS):
        value = n + i
        if MODE == 1:
            value = _get(second, full.index(B), empty.index(B), i, layout)
        if MODE == 2:
            value = _exchange(
                second, first, value, full.index(B), full.index(A), empty.index(B), empty.index(A), i, layout
            )
        gl.store(out + i * 64 + n, value)


@gluon.jit
def control_kernel(x, out, ROUNDS: gl.constexpr, MODE: gl.constexpr, BARRIERS: gl.constexpr):
    """out int32 [2 * ROUNDS, 64]: what the last warpgroup got, what the first has at the end of each round."""
    first = gl.allocate_shared_memory(gl.int32, [64], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    second = gl.allocate_shared_memory(gl.int32, [64], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [BARRIERS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [BARRIERS, 1], mbarrier.MBarrierLayout())
    # The last are used, so that a tool which follows few barriers loses sight of them.
    for i in gl.static_range(BARRIERS):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize(
        [
            (_send, (x, out, first, second, full, empty, ROUNDS, MODE, BARRIERS)),
            (_relay, (first, second, full, empty, ROUNDS, MODE, BARRIERS)),
            (_receive, (out, first, second, full, empty, ROUNDS, MODE, BARRIERS)),
        ],
        [4, 4],
        [96, 40],
    )


def main() -> None:
    modes = ("bare", "chain", "exchange")
    mode = modes.index(sys.argv[1]) if len(sys.argv) > 1 else 1
    barriers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rounds = 16
    x = torch.randint(0, 1 << 30, (rounds, 64), dtype=torch.int32, device="cuda")
    out = torch.full((2 * rounds, 64), -1, dtype=torch.int32, device="cuda")
    control_kernel[(4,)](x, out, rounds, mode, barriers, num_warps=4, maxnreg=64)
    own = torch.arange(64, dtype=torch.int32, device="cuda") + torch.arange(rounds, device="cuda").int()[:, None]
    want = torch.cat([own if mode == 0 else x, own if mode == 2 else x])
    assert torch.equal(out, want)
    print(modes[mode], "kernel: every value arrived")


if __name__ == "__main__":
    main()
