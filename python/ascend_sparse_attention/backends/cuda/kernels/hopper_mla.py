# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The functions below are a device language that only looks like Python; their types are Gluon's.
"""sparse_flash_attention of MLA shape on Hopper: 64 heads x 512 output columns a program, in Gluon.

What binds is on-chip room. The output of 64 heads is 64 x 512 floats, two warpgroups' worth of accumulators, and a step
of 64 keys is 64 x 576 halves, of which three would not fit beside Q. So, as the known hand-written kernels do:

* Two consumer warpgroups share the output by columns: `left` owns columns [0, 256), `right` [256, 512).
* They take turns with the logits: `left` those of even steps, `right` those of odd ones, and hand P (rounded once)
  and the running maximum to each other through shared memory. While one is in its softmax, the other feeds the matrix
  unit.
* One producer warpgroup gathers rows with asynchronous copies. K is kept in halves: each half is refilled as soon as
  its last reader is done. A masked slot is never read, its row is zeros.

One pair of steps (E even, O odd); KE.l is the left half of E's keys, `=>` hands over P and the maximum:

    left :  S_E = Q KE' -> P_E, m_E =>  O.l += P_E KE.l ------------------------> rescale, O.l += P_O KO.l
    right:  S_O = Q KO' ------------- O.r += P_E KE.r (during this softmax: P_O, m_O =>) rescale, O.r += P_O KO.r

So the even buffer is free well before the next even logits want it, and the odd one a step's logits before.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

#: Hardware barriers of the two consumers (Triton takes 0 to 3 here: one a warpgroup and one of the dispatch).
LEFT_READY = gl.constexpr(8)
RIGHT_READY = gl.constexpr(9)
SUMS_READY = gl.constexpr(10)

BH = gl.constexpr(64)  # heads of a program: the rows of a warpgroup's matrix instruction
BN = gl.constexpr(64)  # slots of a step
HALF = gl.constexpr(256)  # columns of half an output


@gluon.jit
def _signal(barrier: gl.constexpr):
    """All threads of this consumer announce what they have stored; the other one's `_await` of this turn returns then.

    The turns of a barrier may not run ahead of each other: between two signals of one there has to be an `_await` of
    the other's answer.
    """
    gl.inline_asm_elementwise("bar.arrive $1, 256; mov.u32 $0, 0;", "=r,n", [barrier], gl.int32, False, 1)


@gluon.jit
def _await(barrier: gl.constexpr):
    """Wait until all threads of the other consumer have signalled (or, of a barrier that both await, are here too)."""
    gl.inline_asm_elementwise("bar.sync $1, 256; mov.u32 $0, 0;", "=r,n", [barrier], gl.int32, False, 1)


@gluon.jit
def _live(list_, t, topK, limit, layout: gl.constexpr):
    """(key, live) of the slots of step t; the key of a masked slot is 0 and never used."""
    slot = t * BN + gl.arange(0, BN, layout=layout)
    key = gl.load(list_ + slot, mask=slot < topK, other=-1)
    live = (key >= 0) & (key <= limit)
    return gl.where(live, key, 0), live


@gluon.jit
def _gather(dst, base, key, live, stride, OFF: gl.constexpr, WIDTH: gl.constexpr, layout: gl.constexpr):
    """Start the copies of rows [BN, WIDTH] at columns [OFF, OFF + WIDTH) into `dst`; masked rows become zeros."""
    col = OFF + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, layout))
    ptr = base + key.to(gl.int64)[:, None] * stride + col[None, :]
    mask = gl.expand_dims(live, 1) & (col < OFF + WIDTH)[None, :]
    async_copy.async_copy_global_to_shared(dst, ptr, mask=mask)


@gluon.jit
def _producer(
    q_head, k_head, list_, stride_qh, stride_ks, heads, topK, limit, pair_begin, pair_end,
    q_left, q_right, k_left, k_right, k_extra, live_buf, q_full, full_left, full_right, live_full, empty_left,
    empty_right, EXTRA: gl.constexpr,
):  # fmt: skip
    wide: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows: gl.constexpr = gl.SliceLayout(1, wide)
    h = gl.arange(0, BH, layout=rows)
    key_e, live_e = _live(list_, 2 * pair_begin, topK, limit, rows)
    key_o, live_o = _live(list_, 2 * pair_begin + 1, topK, limit, rows)
    _gather(q_left.index(0), q_head, h, h < heads, stride_qh, 0, HALF, wide)
    _gather(q_right.index(0), q_head, h, h < heads, stride_qh, HALF, HALF, wide)
    async_copy.mbarrier_arrive(q_full, increment_count=False)
    for i in range(pair_begin, pair_end):
        phase = ((i - pair_begin) & 1) ^ 1
        # Indices are read a pair ahead: their latency would else stand before every refill.
        next_e, next_live_e = _live(list_, 2 * i + 2, topK, limit, rows)
        next_o, next_live_o = _live(list_, 2 * i + 3, topK, limit, rows)
        # In the order in which the consumers free the halves.
        mbarrier.wait(empty_left.index(0), phase)
        if EXTRA > 0:
            _gather(k_extra.index(0), k_head, key_e, live_e, stride_ks, 2 * HALF, EXTRA, wide)
        _gather(k_left.index(0), k_head, key_e, live_e, stride_ks, 0, HALF, wide)
        async_copy.mbarrier_arrive(full_left.index(0), increment_count=False)
        live_buf.index(0).store(live_e.to(gl.int32))
        gl.thread_barrier()
        mbarrier.arrive(live_full.index(0))
        mbarrier.wait(empty_right.index(0), phase)
        _gather(k_right.index(0), k_head, key_e, live_e, stride_ks, HALF, HALF, wide)
        async_copy.mbarrier_arrive(full_right.index(0), increment_count=False)
        mbarrier.wait(empty_right.index(1), phase)
        _gather(k_right.index(1), k_head, key_o, live_o, stride_ks, HALF, HALF, wide)
        async_copy.mbarrier_arrive(full_right.index(1), increment_count=False)
        live_buf.index(1).store(live_o.to(gl.int32))
        gl.thread_barrier()
        mbarrier.arrive(live_full.index(1))
        mbarrier.wait(empty_left.index(1), phase)
        if EXTRA > 0:
            _gather(k_extra.index(1), k_head, key_o, live_o, stride_ks, 2 * HALF, EXTRA, wide)
        _gather(k_left.index(1), k_head, key_o, live_o, stride_ks, 0, HALF, wide)
        async_copy.mbarrier_arrive(full_left.index(1), increment_count=False)
        key_e, live_e, key_o, live_o = next_e, next_live_e, next_o, next_live_o


@gluon.jit
def _extra_q(q_head, stride_qh, heads, EXTRA: gl.constexpr, layout: gl.constexpr):
    """Columns [512, 512 + EXTRA) of Q, kept in registers as a matrix operand: shared memory has no room for them."""
    h = gl.arange(0, BH, layout=gl.SliceLayout(1, layout))
    d = gl.arange(0, EXTRA, layout=gl.SliceLayout(0, layout))
    ptr = q_head + h.to(gl.int64)[:, None] * stride_qh + (2 * HALF + d)[None, :]
    return gl.load(ptr, mask=(h < heads)[:, None] & (d < EXTRA)[None, :], other=0.0)


@gluon.jit
def _finite_or_zero(m):
    return gl.where(m == float("-inf"), 0.0, m)


@gluon.jit
def _store_half(o, stage, out_head, stride_oh, heads, OFF: gl.constexpr):
    """Write [BH, HALF]: floats as they lie (a thread quad holds whole sectors), halves through shared memory."""
    if out_head.dtype.element_ty == gl.float32:
        _store_rows(o, out_head, stride_oh, heads, OFF, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 256, 16]))
    else:
        wide: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [4, 1], [1, 0])
        stage.store(o.to(stage.dtype))
        _store_rows(stage.load(wide), out_head, stride_oh, heads, OFF, wide)


@gluon.jit
def _store_rows(o, out_head, stride_oh, heads, OFF: gl.constexpr, layout: gl.constexpr):
    h = gl.arange(0, BH, layout=gl.SliceLayout(1, layout))
    d = gl.arange(0, HALF, layout=gl.SliceLayout(0, layout))
    ptr = out_head + h.to(gl.int64)[:, None] * stride_oh + (OFF + d)[None, :]
    gl.store(ptr, o.to(out_head.dtype.element_ty), mask=(h < heads)[:, None] & (d < HALF)[None, :])


@gluon.jit
def _left(
    q_head, out_head, lse_head, stride_qh, stride_oh, stride_lh, heads, scale2, pair_begin, pair_end, live_buf,
    live_full, q_left, q_right, k_left, k_right, k_extra, p_left, p_right, max_left, max_right, sum_left, sum_right,
    q_full, full_left, full_right, empty_left, EXTRA: gl.constexpr, HAS_LSE: gl.constexpr,
):  # fmt: skip
    DOT: gl.constexpr = q_left.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 256, 16])
    row: gl.constexpr = gl.SliceLayout(1, s_layout)
    o_row: gl.constexpr = gl.SliceLayout(1, o_layout)
    col: gl.constexpr = gl.SliceLayout(0, s_layout)
    if EXTRA > 0:
        q_extra = _extra_q(q_head, stride_qh, heads, EXTRA, gl.DotOperandLayout(0, s_layout, 2))
    m = gl.full([BH], float("-inf"), gl.float32, layout=row)
    l = gl.full([BH], 0.0, gl.float32, layout=row)
    o = gl.full([BH, HALF], 0.0, gl.float32, layout=o_layout)
    mbarrier.wait(q_full, 0)
    for i in range(pair_begin, pair_end):
        turn = i - pair_begin
        phase = turn & 1
        even = turn >> 30  # 0, but not to the compiler: else it hoists all matrix descriptors, and spills them
        odd = even + 1
        mbarrier.wait(full_left.index(0), phase)
        fence_async_shared()
        s = gl.full([BH, BN], 0.0, gl.float32, layout=s_layout)
        scores = warpgroup_mma(q_left.index(even), k_left.index(even).permute((1, 0)), s, use_acc=False, is_async=True)
        if EXTRA > 0:
            scores = warpgroup_mma(q_extra, k_extra.index(even).permute((1, 0)), scores, is_async=True)
        mbarrier.wait(full_right.index(0), phase)
        fence_async_shared()
        scores = warpgroup_mma(q_right.index(even), k_right.index(even).permute((1, 0)), scores, is_async=True)
        mbarrier.wait(live_full.index(0), phase)
        s = warpgroup_mma_wait(0, [scores])

        s = gl.where((live_buf.index(0).load(col) != 0)[None, :], s * scale2, float("-inf"))
        m_even = gl.maximum(m, gl.max(s, 1))
        safe = _finite_or_zero(m_even)
        p = gl.exp2(s - safe[:, None])
        max_left.store(m_even)
        p_left.store(p.to(DOT))
        fence_async_shared()
        _signal(LEFT_READY)
        alpha = gl.exp2(m - safe)
        l = l * alpha + gl.sum(p, 1)
        o = o * gl.convert_layout(alpha, o_row)[:, None]
        pd = gl.convert_layout(p.to(DOT), gl.DotOperandLayout(0, o_layout, 2))
        product = warpgroup_mma(pd, k_left.index(even), o, is_async=True)

        _await(RIGHT_READY)
        m = max_right.load(row)
        alpha = gl.exp2(m_even - _finite_or_zero(m))
        l = l * alpha
        o, pd = warpgroup_mma_wait(0, [product, pd])
        gl.thread_barrier()
        mbarrier.arrive(empty_left.index(0))
        o = o * gl.convert_layout(alpha, o_row)[:, None]
        mbarrier.wait(full_left.index(1), phase)
        fence_async_shared()
        o = warpgroup_mma(p_right, k_left.index(odd), o)
        gl.thread_barrier()
        mbarrier.arrive(empty_left.index(1))

    sum_left.store(l)
    _await(SUMS_READY)
    l = l + sum_right.load(row)
    empty = l == 0.0
    inv = 1.0 / gl.where(empty, 1.0, l)
    if HAS_LSE:
        h = gl.arange(0, BH, layout=row)
        value = gl.where(empty, float("-inf"), m + gl.log2(gl.where(empty, 1.0, l)))
        gl.store(lse_head + h * stride_lh, value, mask=h < heads)
    empty_o = gl.convert_layout(empty, o_row)
    o = gl.where(empty_o[:, None], 0.0, o * gl.convert_layout(inv, o_row)[:, None])
    _store_half(o, q_left.index(0), out_head, stride_oh, heads, 0)


@gluon.jit
def _right(
    q_head, out_head, stride_qh, stride_oh, heads, scale2, pair_begin, pair_end, live_buf,
    live_full, q_left, q_right, k_left, k_right, k_extra, p_left, p_right, max_left, max_right, sum_left, sum_right,
    q_full, full_left, full_right, empty_right, EXTRA: gl.constexpr,
):  # fmt: skip
    DOT: gl.constexpr = q_left.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 256, 16])
    row: gl.constexpr = gl.SliceLayout(1, s_layout)
    o_row: gl.constexpr = gl.SliceLayout(1, o_layout)
    col: gl.constexpr = gl.SliceLayout(0, s_layout)
    if EXTRA > 0:
        q_extra = _extra_q(q_head, stride_qh, heads, EXTRA, gl.DotOperandLayout(0, s_layout, 2))
    m = gl.full([BH], float("-inf"), gl.float32, layout=row)
    l = gl.full([BH], 0.0, gl.float32, layout=row)
    o = gl.full([BH, HALF], 0.0, gl.float32, layout=o_layout)
    mbarrier.wait(q_full, 0)
    for i in range(pair_begin, pair_end):
        turn = i - pair_begin
        phase = turn & 1
        even = turn >> 30  # 0, but not to the compiler: else it hoists all matrix descriptors, and spills them
        odd = even + 1
        mbarrier.wait(full_right.index(1), phase)
        fence_async_shared()
        s = gl.full([BH, BN], 0.0, gl.float32, layout=s_layout)
        scores = warpgroup_mma(q_right.index(even), k_right.index(odd).permute((1, 0)), s, use_acc=False, is_async=True)
        mbarrier.wait(full_left.index(1), phase)
        fence_async_shared()
        scores = warpgroup_mma(q_left.index(even), k_left.index(odd).permute((1, 0)), scores, is_async=True)
        if EXTRA > 0:
            scores = warpgroup_mma(q_extra, k_extra.index(odd).permute((1, 0)), scores, is_async=True)
        # The even step's product goes first, so that this softmax has cover too. (Sent behind the logits, ptxas would
        # wait for the logits anyway before it lets the old output be rescaled.)
        _await(LEFT_READY)
        mbarrier.wait(live_full.index(1), phase)
        s = warpgroup_mma_wait(0, [scores])
        m_even = max_left.load(row)
        alpha = gl.exp2(m - _finite_or_zero(m_even))
        l = l * alpha
        o = o * gl.convert_layout(alpha, o_row)[:, None]
        mbarrier.wait(full_right.index(0), phase)
        fence_async_shared()
        product = warpgroup_mma(p_left, k_right.index(even), o, is_async=True)
        s = gl.where((live_buf.index(1).load(col) != 0)[None, :], s * scale2, float("-inf"))
        m = gl.maximum(m_even, gl.max(s, 1))
        safe = _finite_or_zero(m)
        p = gl.exp2(s - safe[:, None])
        max_right.store(m)
        p_right.store(p.to(DOT))
        fence_async_shared()
        _signal(RIGHT_READY)
        alpha = gl.exp2(m_even - safe)
        l = l * alpha + gl.sum(p, 1)
        pd = gl.convert_layout(p.to(DOT), gl.DotOperandLayout(0, o_layout, 2))
        o = warpgroup_mma_wait(0, [product])
        gl.thread_barrier()
        mbarrier.arrive(empty_right.index(0))
        o = o * gl.convert_layout(alpha, o_row)[:, None]
        o = warpgroup_mma(pd, k_right.index(odd), o)
        gl.thread_barrier()
        mbarrier.arrive(empty_right.index(1))

    sum_right.store(l)
    _await(SUMS_READY)
    l = l + sum_left.load(row)
    empty = l == 0.0
    inv = 1.0 / gl.where(empty, 1.0, l)
    empty_o = gl.convert_layout(empty, o_row)
    o = gl.where(empty_o[:, None], 0.0, o * gl.convert_layout(inv, o_row)[:, None])
    _store_half(o, q_right.index(0), out_head, stride_oh, heads, HALF)


@gluon.jit(do_not_specialize=["S1", "S2", "N2", "topK", "splits", "pairs_a_split"])
def mla_kernel(
    q, k, indices, out, lse,
    stride_qb, stride_qs, stride_qh, stride_kb, stride_ks, stride_kh, stride_ib, stride_is, stride_ih,
    stride_ob, stride_os, stride_oh, stride_osplit, stride_lb, stride_ls, stride_lh, stride_lsplit,
    S1, S2, N2, topK, splits, pairs_a_split, scale2,
    G: gl.constexpr, EXTRA: gl.constexpr, CAUSAL: gl.constexpr, HAS_LSE: gl.constexpr,
    CONSUMER_REGS: gl.constexpr, PRODUCER_REGS: gl.constexpr,
):  # fmt: skip
    """V = K[..., :512]; Dk = 512 + EXTRA. A split writes its own normalised part and LSE, `stride_*split` apart."""
    pid = gl.program_id(0)
    split = pid % splits
    pid = pid // splits
    CHUNKS: gl.constexpr = (G + BH - 1) // BH
    chunk = pid % CHUNKS
    pid = pid // CHUNKS
    s1 = pid % S1
    pid = pid // S1
    n2 = pid % N2
    b = (pid // N2).to(gl.int64)
    heads = gl.minimum(G - chunk * BH, BH)
    head = (n2 * G + chunk * BH).to(gl.int64)
    q_head = q + b * stride_qb + s1.to(gl.int64) * stride_qs + head * stride_qh
    k_head = k + b * stride_kb + n2.to(gl.int64) * stride_kh
    list_ = indices + b * stride_ib + s1.to(gl.int64) * stride_is + n2.to(gl.int64) * stride_ih
    out_head = out + b * stride_ob + s1.to(gl.int64) * stride_os + head * stride_oh + split * stride_osplit
    lse_head = lse + b * stride_lb + s1.to(gl.int64) * stride_ls + head * stride_lh + split * stride_lsplit
    limit = S2 - 1
    if CAUSAL:
        limit = gl.minimum(limit, s1 + S2 - S1)
    pair_begin = split * pairs_a_split
    pair_end = gl.minimum(pair_begin + pairs_a_split, (topK + 2 * BN - 1) // (2 * BN))

    DOT: gl.constexpr = q.dtype.element_ty
    half: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    vector: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    q_left = gl.allocate_shared_memory(DOT, [1, BH, HALF], half)
    q_right = gl.allocate_shared_memory(DOT, [1, BH, HALF], half)
    k_left = gl.allocate_shared_memory(DOT, [2, BN, HALF], half)
    k_right = gl.allocate_shared_memory(DOT, [2, BN, HALF], half)
    if EXTRA > 0:
        k_extra = gl.allocate_shared_memory(DOT, [2, BN, EXTRA], half)
    else:
        k_extra = k_left
    p_left = gl.allocate_shared_memory(DOT, [BH, BN], half)
    p_right = gl.allocate_shared_memory(DOT, [BH, BN], half)
    max_left = gl.allocate_shared_memory(gl.float32, [BH], vector)
    max_right = gl.allocate_shared_memory(gl.float32, [BH], vector)
    sum_left = gl.allocate_shared_memory(gl.float32, [BH], vector)
    sum_right = gl.allocate_shared_memory(gl.float32, [BH], vector)
    live_buf = gl.allocate_shared_memory(gl.int32, [2, BN], vector)
    bar: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [1], bar)
    full_left = gl.allocate_shared_memory(gl.int64, [2, 1], bar)
    full_right = gl.allocate_shared_memory(gl.int64, [2, 1], bar)
    live_full = gl.allocate_shared_memory(gl.int64, [2, 1], bar)
    empty_left = gl.allocate_shared_memory(gl.int64, [2, 1], bar)
    empty_right = gl.allocate_shared_memory(gl.int64, [2, 1], bar)
    # A gather arrives once a thread of the producer, everything else once a warpgroup.
    mbarrier.init(q_full, count=128)
    for j in gl.static_range(2):
        mbarrier.init(full_left.index(j), count=128)
        mbarrier.init(full_right.index(j), count=128)
        mbarrier.init(live_full.index(j), count=1)
        mbarrier.init(empty_left.index(j), count=1)
        mbarrier.init(empty_right.index(j), count=1)
    # fmt: off
    gl.warp_specialize(
        [
            (_left, (
                q_head, out_head, lse_head, stride_qh, stride_oh, stride_lh, heads, scale2, pair_begin, pair_end,
                live_buf, live_full, q_left, q_right, k_left, k_right, k_extra, p_left, p_right, max_left, max_right,
                sum_left, sum_right, q_full, full_left, full_right, empty_left, EXTRA, HAS_LSE,
            )),
            (_right, (
                q_head, out_head, stride_qh, stride_oh, heads, scale2, pair_begin, pair_end,
                live_buf, live_full, q_left, q_right, k_left, k_right, k_extra, p_left, p_right, max_left, max_right,
                sum_left, sum_right, q_full, full_left, full_right, empty_right, EXTRA,
            )),
            (_producer, (
                q_head, k_head, list_, stride_qh, stride_ks, heads, topK, limit, pair_begin, pair_end, q_left, q_right,
                k_left, k_right, k_extra, live_buf, q_full, full_left, full_right, live_full, empty_left, empty_right,
                EXTRA,
            )),
        ],
        [4, 4],
        [CONSUMER_REGS, PRODUCER_REGS],
    )
    # fmt: on
