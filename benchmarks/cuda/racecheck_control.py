# SPDX-License-Identifier: Apache-2.0
"""What compute-sanitizer's racecheck says of handoffs that are right by construction.

    compute-sanitizer --tool racecheck python benchmarks/cuda/racecheck_control.py [bare | handoff]

The Hopper kernels hand values between warpgroups in one way: all threads store, a barrier of the warpgroup, one thread
arrives at an mbarrier, the other warpgroup waits for it and loads. `handoff` is a kernel of that and nothing else;
`bare` has two warpgroups that share nothing, so what is reported there is of the compiler's own dispatch.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def _send(x, buffer, full, empty, ROUNDS: gl.constexpr, HANDOFF: gl.constexpr):
    n = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    for i in range(ROUNDS):
        value = gl.load(x + i * 128 + n)
        if HANDOFF:
            mbarrier.wait(empty, (i & 1) ^ 1)
            buffer.store(value)
            gl.thread_barrier()
            mbarrier.arrive(full)


@gluon.jit
def _receive(out, buffer, full, empty, ROUNDS: gl.constexpr, HANDOFF: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    n = gl.arange(0, 128, layout=layout)
    for i in range(ROUNDS):
        value = n
        if HANDOFF:
            mbarrier.wait(full, i & 1)
            value = buffer.load(layout)
            gl.thread_barrier()
            mbarrier.arrive(empty)
        gl.store(out + i * 128 + n, value)


@gluon.jit
def control_kernel(x, out, ROUNDS: gl.constexpr, HANDOFF: gl.constexpr):
    buffer = gl.allocate_shared_memory(gl.int32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    gl.warp_specialize(
        [
            (_send, (x, buffer, full, empty, ROUNDS, HANDOFF)),
            (_receive, (out, buffer, full, empty, ROUNDS, HANDOFF)),
        ],
        [4],
        [64],
    )


def main() -> None:
    handoff = sys.argv[1:] != ["bare"]
    x = torch.randint(0, 1 << 30, (16, 128), dtype=torch.int32, device="cuda")
    out = torch.full_like(x, -1)
    control_kernel[(4,)](x, out, 16, handoff, num_warps=4, maxnreg=64)
    want = x if handoff else torch.arange(128, dtype=torch.int32, device="cuda").expand(16, 128)
    assert torch.equal(out, want)
    print("handoff" if handoff else "bare", "kernel: every value arrived")


if __name__ == "__main__":
    main()
