# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The functions below are a device language that only looks like Python; their types are Gluon's.
"""The block kernel on Hopper, in Gluon: same tables, same result as `block.py`, for half-precision inputs without RoPE,
ALiBi, soft cap or FP8 scales.

A persistent program owns one or two consumer warpgroups of 64 rows each, which share the keys, and one producer
warpgroup that fills a ring of K and V steps: by the bulk tensor copy where a step is one range of keys, by
asynchronous row copies where it is packed from blocks, runs or single keys. A consumer issues the logits of the next
step before the second product of this one, so its softmax runs while the matrix unit works; two consumers drift apart
and fill each other's gaps.

Where masks depend on the row, a masked key's value meets P = 0; a NaN there would still spread. A tile whose output is
not finite raises its flag, and `block.py` computes the flagged tiles again with its careful loop.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

RANGE = gl.constexpr(0)
PACKED = gl.constexpr(1)
RUNS = gl.constexpr(2)
DENSE = gl.constexpr(3)
MASK_NONE = gl.constexpr(0)
MASK_LOCAL = gl.constexpr(1)
MASK_BY_KEY = gl.constexpr(2)
ROWS = gl.constexpr(64)  # rows of a warpgroup's matrix instruction


@gluon.jit
def _work(
    w, tiles, num_tiles, num_keys, qo_len_all,
    G: gl.constexpr, HEADS: gl.constexpr, SHARED: gl.constexpr, BM: gl.constexpr, KEYS: gl.constexpr,
    CAUSAL: gl.constexpr,
):  # fmt: skip
    """(token, rows, kv_head, first head of the chunk, stream, kv_len, local_row, qo_len, mask_word) of work item w."""
    CHUNKS: gl.constexpr = (G + HEADS - 1) // HEADS
    TOKENS: gl.constexpr = BM // HEADS
    tile = w % num_tiles
    slot = w // num_tiles
    chunk = slot % CHUNKS
    kv_head = slot // CHUNKS
    if KEYS == DENSE:
        if CAUSAL:
            tile = num_tiles - 1 - tile
        token = tile * TOKENS
        rows = gl.minimum(TOKENS, qo_len_all - token)
        begin = token * 0
        kv_len = num_keys
        local_row = token
        qo_len = qo_len_all
        mask_word = token * 0
    else:
        fields = tiles + tile * 8
        token = gl.load(fields)
        rows = gl.load(fields + 1)
        if not SHARED:
            kv_head = gl.load(fields + 2)
        begin = gl.load(fields + 3)
        kv_len = gl.load(fields + 4)
        local_row = gl.load(fields + 5)
        qo_len = gl.load(fields + 6)
        mask_word = gl.load(fields + 7)
    return token, rows, kv_head, chunk * HEADS, begin, kv_len, local_row, qo_len, mask_word


@gluon.jit
def _bounds(
    kv_len, qo_len, local_row, rows, window_left,
    BN: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, MASK: gl.constexpr,
):  # fmt: skip
    """Steps [first, whole) need no mask, [whole, last) do. At least one step, which may be all masked."""
    last_key = kv_len
    whole = kv_len // BN
    first = kv_len * 0
    if CAUSAL:
        last_key = gl.minimum(kv_len, kv_len - qo_len + local_row + rows)
        whole = gl.minimum(whole, gl.maximum(kv_len - qo_len + local_row + 1, 0) // BN)
    if WINDOW:
        first = gl.maximum(0, kv_len - qo_len + local_row - window_left) // BN
    last = gl.maximum(0, last_key + BN - 1) // BN
    if WINDOW or MASK != MASK_NONE:
        whole = first
    return first, whole, gl.maximum(last, first + 1)


@gluon.jit
def _step_keys(
    stream, begin, t, kv_len,
    KEYS: gl.constexpr, C: gl.constexpr, SEGMENTS: gl.constexpr, BN: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Keys [BN] of step t; meaningless past kv_len."""
    n = gl.arange(0, BN, layout=layout)
    if KEYS == PACKED:
        local = t * BN + n
        block = gl.load(stream + begin + local // C, mask=local < kv_len, other=0)
        key = block * C + local % C
    else:
        inside = t * BN < kv_len
        row = stream + (begin + t).to(gl.int64) * (2 * SEGMENTS)
        key = n + gl.load(row + 1, mask=inside, other=0)
        for s in gl.static_range(1, SEGMENTS):
            lane = gl.load(row + 2 * s, mask=inside, other=BN)
            key = gl.where(n >= lane, n + gl.load(row + 2 * s + 1, mask=inside, other=0), key)
    return key


@gluon.constexpr_function
def _one_a_lane(BN, rows):
    """Layout [BN] of the producer's four warps in which each lane looks up one key, of those that its own warp copies
    with `rows` rows an instruction: so the keys stay within a warp on their way to the copies."""
    lanes = [[1 << i] for i in range((rows - 1).bit_length())]
    lanes += [[4 * rows << i] for i in range((BN // (4 * rows) - 1).bit_length())]
    return gl.DistributedLinearLayout([], lanes + [[0]] * (5 - len(lanes)), [[rows], [2 * rows]], [], [BN])


@gluon.jit
def _copy_rows(
    dst, base, row, stride, count, WIDTH: gl.constexpr, BN: gl.constexpr, WHOLE: gl.constexpr, layout: gl.constexpr
):
    """Start the copies of rows [BN, WIDTH] into `dst`; unless WHOLE, those past `count` become zeros and are not read.

    Strides are multiples of 8 elements (16 bytes).
    """
    rows: gl.constexpr = gl.SliceLayout(1, layout)
    row = gl.convert_layout(row, rows)
    n = gl.arange(0, BN, layout=rows)
    col = gl.arange(0, WIDTH, layout=gl.SliceLayout(0, layout))
    if not WHOLE:
        row = gl.where(n < count, row, 0)
    # One wide multiplication: of 64-bit factors the compiler makes seven instructions a row.
    at = gl.inline_asm_elementwise("mul.wide.u32 $0, $1, $2;", "=l,r,r", [row, stride], gl.int64, True, 1)
    ptr = base + gl.multiple_of(at, 8)[:, None] + col[None, :]
    if WHOLE:
        async_copy.async_copy_global_to_shared(dst, ptr)
    else:
        mask = gl.expand_dims(n < count, 1) & (col < WIDTH)[None, :]
        async_copy.async_copy_global_to_shared(dst, ptr, mask=mask)


@gluon.jit
def _fill_step(
    k_buf, v_buf, k_full, k_empty, v_full, v_empty, slot, phase, k_head, v_head, key, stride_kn, stride_vn, count,
    BN: gl.constexpr, DQ: gl.constexpr, DV: gl.constexpr, WHOLE: gl.constexpr, q_layout: gl.constexpr,
    v_layout: gl.constexpr,
):  # fmt: skip
    """Copy the rows of one step's keys, `count` of them, into a slot of the ring."""
    mbarrier.wait(k_empty.index(slot), phase)
    _copy_rows(k_buf.index(slot).reshape([BN, DQ]), k_head, key, stride_kn, count, DQ, BN, WHOLE, q_layout)
    async_copy.mbarrier_arrive(k_full.index(slot), increment_count=False)
    mbarrier.wait(v_empty.index(slot), phase)
    _copy_rows(v_buf.index(slot).reshape([BN, DV]), v_head, key, stride_vn, count, DV, BN, WHOLE, v_layout)
    async_copy.mbarrier_arrive(v_full.index(slot), increment_count=False)


@gluon.jit
def _step_blocks(stream, begin, t, kv_len, KEYS: gl.constexpr, C: gl.constexpr, BN: gl.constexpr):
    """First keys of the ranges of step t, a tuple: one range, or the BN // C blocks of the step."""
    if KEYS == DENSE:
        keys = (t * BN,)
    elif C >= BN:
        keys = (gl.load(stream + begin + t * BN // C, mask=t * BN < kv_len, other=0) * C + t * BN % C,)
    else:
        keys = ()
        for j in gl.static_range(BN // C):
            # Past the stream's end: a block beyond all keys, which the copy engine fills with zeros.
            block = gl.load(stream + begin + t * (BN // C) + j, mask=t * BN + j * C < kv_len, other=0x7FFFFFFF // C)
            keys = keys + (block * C,)  # noqa: RUF005 (no unpacking in device code)
    return keys


@gluon.jit
def _bulk_copy(desc, dst, full, kv_head, keys, C: gl.constexpr, BN: gl.constexpr):
    """Start the bulk copies of one step."""
    if len(keys) == 1:
        tma.async_copy_global_to_shared(desc, [kv_head, keys[0], 0], full, dst)
    else:
        for j in gl.static_range(BN // C):
            tma.async_copy_global_to_shared(desc, [kv_head, keys[j], 0], full, dst.slice(j * C, C, dim=1))


@gluon.jit
def _producer(
    q, k, v, k_desc, v_desc, tiles, stream, stride_qt, stride_qh, stride_kn, stride_kh, stride_vn, stride_vh,
    num_tiles, num_work, num_keys, qo_len_all, window_left,
    q_buf, k_buf, v_buf, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    G: gl.constexpr, HEADS: gl.constexpr, SHARED: gl.constexpr, GROUPS: gl.constexpr, BN: gl.constexpr,
    STAGES: gl.constexpr, DQ: gl.constexpr, DV: gl.constexpr, KEYS: gl.constexpr, C: gl.constexpr,
    SEGMENTS: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, MASK: gl.constexpr,
):  # fmt: skip
    BULK: gl.constexpr = KEYS == RANGE or KEYS == DENSE
    q_lanes: gl.constexpr = DQ // 8
    v_lanes: gl.constexpr = DV // 8
    q_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // q_lanes, q_lanes], [4, 1], [1, 0])
    v_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // v_lanes, v_lanes], [4, 1], [1, 0])
    q_rows: gl.constexpr = gl.SliceLayout(1, q_layout)
    one_each: gl.constexpr = _one_a_lane(BN, 32 // q_lanes)
    slot = gl.program_id(0) * 0
    phase = slot + 1  # parity to wait for on an empty slot: passes at once on a fresh barrier
    item = slot
    for w in range(gl.program_id(0), num_work, gl.num_programs(0)):
        token, rows, kv_head, head0, begin, kv_len, local_row, qo_len, _mask_word = _work(
            w, tiles, num_tiles, num_keys, qo_len_all, G, HEADS, SHARED, GROUPS * ROWS, KEYS, CAUSAL
        )
        first, _whole, last = _bounds(kv_len, qo_len, local_row, rows, window_left, BN, CAUSAL, WINDOW, MASK)
        mbarrier.wait(q_empty, (item & 1) ^ 1)
        for g in gl.static_range(GROUPS):
            r = g * ROWS + gl.arange(0, ROWS, layout=q_rows)
            in_head = head0 + r % HEADS
            ok = (r // HEADS < rows) & (in_head < G)
            col = gl.arange(0, DQ, layout=gl.SliceLayout(0, q_layout))
            offset = (token + r // HEADS).to(gl.int64) * stride_qt + (kv_head * G + in_head).to(gl.int64) * stride_qh
            ptr = q + gl.where(ok, offset, 0)[:, None] + col[None, :]
            async_copy.async_copy_global_to_shared(
                q_buf.index(g), ptr, mask=gl.expand_dims(ok, 1) & (col < DQ)[None, :]
            )
        async_copy.mbarrier_arrive(q_full, increment_count=False)
        item += 1

        k_head = k + kv_head.to(gl.int64) * stride_kh
        v_head = v + kv_head.to(gl.int64) * stride_vh
        # A step's keys are looked up one step ahead, behind the copies of the step before.
        if BULK:
            keys = _step_blocks(stream, begin, first, kv_len, KEYS, C, BN)
            for t in range(first, last):
                ahead = _step_blocks(stream, begin, t + 1, kv_len, KEYS, C, BN)
                mbarrier.wait(k_empty.index(slot), phase)
                mbarrier.expect(k_full.index(slot), BN * DQ * 2)
                _bulk_copy(k_desc, k_buf.index(slot), k_full.index(slot), kv_head, keys, C, BN)
                mbarrier.wait(v_empty.index(slot), phase)
                mbarrier.expect(v_full.index(slot), BN * DV * 2)
                _bulk_copy(v_desc, v_buf.index(slot), v_full.index(slot), kv_head, keys, C, BN)
                keys = ahead
                slot += 1
                if slot == STAGES:
                    slot = slot * 0
                    phase = phase ^ 1
        else:
            key = _step_keys(stream, begin, first, kv_len, KEYS, C, SEGMENTS, BN, one_each)
            # Whole steps apart from the last, so that their copies need no masks, which cost more than the copies.
            whole = kv_len // BN
            for t in range(first, gl.minimum(last, whole)):
                ahead = _step_keys(stream, begin, t + 1, kv_len, KEYS, C, SEGMENTS, BN, one_each)
                _fill_step(
                    k_buf, v_buf, k_full, k_empty, v_full, v_empty, slot, phase, k_head, v_head, key, stride_kn,
                    stride_vn, BN, BN, DQ, DV, True, q_layout, v_layout,
                )  # fmt: skip
                key = ahead
                slot += 1
                if slot == STAGES:
                    slot = slot * 0
                    phase = phase ^ 1
            for t in range(gl.maximum(first, whole), last):
                _fill_step(
                    k_buf, v_buf, k_full, k_empty, v_full, v_empty, slot, phase, k_head, v_head, key, stride_kn,
                    stride_vn, kv_len - t * BN, BN, DQ, DV, False, q_layout, v_layout,
                )  # fmt: skip
                slot += 1
                if slot == STAGES:
                    slot = slot * 0
                    phase = phase ^ 1


@gluon.jit
def _keep(
    t, stream, begin, row, word_row, mask_words, kv_len, qo_len, num_keys, window_left,
    KEYS: gl.constexpr, C: gl.constexpr, BN: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr,
    MASK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Visible pairs [ROWS, BN] of a step that needs masks."""
    n = gl.arange(0, BN, layout=gl.SliceLayout(0, layout))
    local = t * BN + n
    if MASK != MASK_NONE:
        word = t * (BN // 32)
        if MASK == MASK_BY_KEY:
            word = gl.load(stream + begin + t * BN // C, mask=t * BN < kv_len, other=0) * (C // 32) + t * BN % C // 32
        # 32 keys a word: pick the word of each column, then test its bit with a constant of the column.
        bits = gl.load(mask_words + word_row + word)[:, None]
        for i in gl.static_range(1, BN // 32):
            bits = gl.where((n >= 32 * i)[None, :], gl.load(mask_words + word_row + word + i)[:, None], bits)
        one = gl.full([BN], 1, gl.int32, layout=gl.SliceLayout(0, layout))
        keep = (bits & (one << (n % 32))[None, :]) != 0
        if MASK == MASK_LOCAL:
            keep = keep & (local < kv_len)[None, :]
    else:
        keep = (local < kv_len)[None, :] & (row >= 0)[:, None]
    if CAUSAL:
        keep = keep & ((local + qo_len)[None, :] <= (kv_len + row)[:, None])
    if WINDOW:
        keep = keep & (local[None, :] >= (kv_len - qo_len + row - window_left)[:, None])
    return keep


@gluon.jit
def _softmax(s, m, l, scale2):
    """One step of the online softmax in base 2: (P, new maximum, row sum, factor of the old output)."""
    m_new = gl.maximum(m, gl.max(s, 1) * scale2)
    safe = gl.where(m_new == float("-inf"), 0.0, m_new)  # exp2(-inf - 0) = 0, not NaN
    p = gl.exp2(s * scale2 - safe[:, None])
    alpha = gl.exp2(m - safe)
    return p, m_new, l * alpha + gl.sum(p, 1), alpha


@gluon.jit
def _consumer(
    out, lse, tiles, stream, mask_words, flags, stride_ot, stride_oh, stride_lt, stride_lh,
    num_tiles, num_work, num_keys, qo_len_all, mask_stride, window_left, scale2,
    q_buf, k_buf, v_buf, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    GROUP: gl.constexpr, G: gl.constexpr, HEADS: gl.constexpr, SHARED: gl.constexpr, GROUPS: gl.constexpr,
    BN: gl.constexpr, STAGES: gl.constexpr, DQ: gl.constexpr, DV: gl.constexpr, KEYS: gl.constexpr, C: gl.constexpr,
    CAUSAL: gl.constexpr, WINDOW: gl.constexpr, MASK: gl.constexpr, HAS_LSE: gl.constexpr,
):  # fmt: skip
    DOT: gl.constexpr = q_buf.dtype
    BULK: gl.constexpr = KEYS == RANGE or KEYS == DENSE
    ROW_MASKS: gl.constexpr = CAUSAL or WINDOW or MASK != MASK_NONE
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DV, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    s_row: gl.constexpr = gl.SliceLayout(1, s_layout)
    o_row: gl.constexpr = gl.SliceLayout(1, o_layout)
    r = GROUP * ROWS + gl.arange(0, ROWS, layout=s_row)
    slot = gl.program_id(0) * 0
    phase = slot
    item = slot
    zero = gl.full([ROWS, BN], 0.0, gl.float32, layout=s_layout)
    q_mine = q_buf.index(GROUP)
    for w in range(gl.program_id(0), num_work, gl.num_programs(0)):
        token, rows, kv_head, head0, begin, kv_len, local_row, qo_len, mask_word = _work(
            w, tiles, num_tiles, num_keys, qo_len_all, G, HEADS, SHARED, GROUPS * ROWS, KEYS, CAUSAL
        )
        first, whole, last = _bounds(kv_len, qo_len, local_row, rows, window_left, BN, CAUSAL, WINDOW, MASK)
        in_token = r // HEADS
        in_head = head0 + r % HEADS
        ok = (in_token < rows) & (in_head < G)
        row = local_row + in_token
        word_row = row * 0
        if MASK != MASK_NONE:
            stride = mask_stride
            if MASK == MASK_LOCAL:
                stride = (kv_len + 63) // 64 * 2
            # Rows past the tile's last read the tile's first: valid memory, and their results are not stored.
            word_row = mask_word + gl.where(ok, row, local_row).to(gl.int64) * stride

        m = gl.full([ROWS], float("-inf"), gl.float32, layout=s_row)
        l = gl.full([ROWS], 0.0, gl.float32, layout=s_row)
        o = gl.full([ROWS, DV], 0.0, gl.float32, layout=o_layout)
        mbarrier.wait(q_full, item & 1)
        mbarrier.wait(k_full.index(slot), phase)
        fence_async_shared()  # row copies are ordinary writes to the matrix unit; bulk copies are not
        s = warpgroup_mma(q_mine, k_buf.index(slot).reshape([BN, DQ]).permute((1, 0)), zero, use_acc=False)
        gl.thread_barrier()
        mbarrier.arrive(k_empty.index(slot))
        if first >= whole:
            keep = _keep(
                first, stream, begin, row, word_row, mask_words, kv_len, qo_len, num_keys, window_left, KEYS, C, BN,
                CAUSAL, WINDOW, MASK, s_layout,
            )  # fmt: skip
            s = gl.where(keep, s, float("-inf"))
        p, m, l, alpha = _softmax(s, m, l, scale2)
        pd = gl.convert_layout(p.to(DOT), p_layout)
        for t in range(first + 1, last):
            held, held_phase = slot, phase
            slot += 1
            if slot == STAGES:
                slot = slot * 0
                phase = phase ^ 1
            mbarrier.wait(k_full.index(slot), phase)
            if not BULK:
                fence_async_shared()
            scores = warpgroup_mma(
                q_mine, k_buf.index(slot).reshape([BN, DQ]).permute((1, 0)), zero, use_acc=False, is_async=True
            )
            mbarrier.wait(v_full.index(held), held_phase)
            if not BULK:
                fence_async_shared()
            product = warpgroup_mma(pd, v_buf.index(held).reshape([BN, DV]), o, is_async=True)
            s = warpgroup_mma_wait(1, [scores])
            gl.thread_barrier()
            mbarrier.arrive(k_empty.index(slot))
            if t >= whole:
                keep = _keep(
                    t, stream, begin, row, word_row, mask_words, kv_len, qo_len, num_keys, window_left, KEYS, C, BN,
                    CAUSAL, WINDOW, MASK, s_layout,
                )  # fmt: skip
                s = gl.where(keep, s, float("-inf"))
            p, m, l, alpha = _softmax(s, m, l, scale2)
            o, pd = warpgroup_mma_wait(0, [product, pd])
            gl.thread_barrier()
            mbarrier.arrive(v_empty.index(held))
            o = o * gl.convert_layout(alpha, o_row)[:, None]
            pd = gl.convert_layout(p.to(DOT), p_layout)
        mbarrier.wait(v_full.index(slot), phase)
        if not BULK:
            fence_async_shared()
        o = warpgroup_mma(pd, v_buf.index(slot).reshape([BN, DV]), o)
        gl.thread_barrier()
        mbarrier.arrive(v_empty.index(slot))
        slot += 1
        if slot == STAGES:
            slot = slot * 0
            phase = phase ^ 1

        if ROW_MASKS:
            fault = gl.max(gl.max((o - o != 0.0).to(gl.int32), 1), 0)
            if fault > 0:
                gl.store(flags + w, fault)
        empty = l == 0.0
        if HAS_LSE:
            value = gl.where(empty, float("-inf"), m + gl.log2(gl.where(empty, 1.0, l)))
            at = (token + in_token).to(gl.int64) * stride_lt + (kv_head * G + in_head).to(gl.int64) * stride_lh
            gl.store(lse + at, value, mask=ok)
        inv = gl.where(empty, 0.0, 1.0 / gl.where(empty, 1.0, l))
        o = o * gl.convert_layout(inv, o_row)[:, None]
        if out.dtype.element_ty != gl.float32 and DQ == DV:
            # Through this warpgroup's Q, which it has read for the last time: rows then leave in whole sectors.
            lanes: gl.constexpr = DV // 8
            wide: gl.constexpr = gl.BlockedLayout([1, 8], [32 // lanes, lanes], [4, 1], [1, 0])
            if out.dtype.element_ty == DOT:
                stage = q_mine
            else:
                stage = q_mine._reinterpret(out.dtype.element_ty, [ROWS, DV], q_mine.layout)
            stage.store(o.to(out.dtype.element_ty))
            rows_out = stage.load(wide)
            _store(rows_out, out, GROUP, token, rows, kv_head, head0, stride_ot, stride_oh, G, HEADS, DV, wide)
        else:
            _store(
                o.to(out.dtype.element_ty), out, GROUP, token, rows, kv_head, head0, stride_ot, stride_oh, G, HEADS,
                DV, o_layout,
            )  # fmt: skip
        gl.thread_barrier()
        mbarrier.arrive(q_empty)
        item += 1


@gluon.jit
def _store(
    o, out, GROUP: gl.constexpr, token, rows, kv_head, head0, stride_ot, stride_oh, G: gl.constexpr,
    HEADS: gl.constexpr, DV: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    r = GROUP * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    col = gl.arange(0, DV, layout=gl.SliceLayout(0, layout))
    in_head = head0 + r % HEADS
    ok = (r // HEADS < rows) & (in_head < G)
    at = (token + r // HEADS).to(gl.int64) * stride_ot + (kv_head * G + in_head).to(gl.int64) * stride_oh
    gl.store(out + at[:, None] + col[None, :], o, mask=ok[:, None] & (col < DV)[None, :])


@gluon.jit(do_not_specialize=["num_tiles", "num_work", "num_keys", "qo_len_all", "mask_stride", "window_left"])
def hopper_block_kernel(
    q, k, v, k_desc, v_desc, out, lse, tiles, stream, mask_words, flags,
    stride_qt, stride_qh, stride_kn, stride_kh, stride_vn, stride_vh, stride_ot, stride_oh, stride_lt, stride_lh,
    num_tiles, num_work, num_keys, qo_len_all, mask_stride, window_left, scale2,
    G: gl.constexpr, HEADS: gl.constexpr, SHARED: gl.constexpr, GROUPS: gl.constexpr, BN: gl.constexpr,
    STAGES: gl.constexpr, DQ: gl.constexpr, DV: gl.constexpr, KEYS: gl.constexpr, C: gl.constexpr,
    SEGMENTS: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, MASK: gl.constexpr, HAS_LSE: gl.constexpr,
    CONSUMER_REGS: gl.constexpr, PRODUCER_REGS: gl.constexpr,
):  # fmt: skip
    """scale2 > 0 is sm_scale * log2(e). k_desc, v_desc: tensor maps [Hk, keys, D] of blocks [1, BN, D] where KEYS is
    RANGE or DENSE, anything else otherwise. flags int32 [num_work]: set where a tile must be computed again."""
    DOT: gl.constexpr = q.dtype.element_ty
    BULK: gl.constexpr = KEYS == RANGE or KEYS == DENSE
    rows2: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    rows3: gl.constexpr = gl.NVMMASharedLayout(128, 16, 3)
    q_buf = gl.allocate_shared_memory(DOT, [GROUPS, ROWS, DQ], rows2)
    if BULK:
        k_buf = gl.allocate_shared_memory(DOT, [STAGES, 1, BN, DQ], rows3)
        v_buf = gl.allocate_shared_memory(DOT, [STAGES, 1, BN, DV], rows3)
    else:
        k_buf = gl.allocate_shared_memory(DOT, [STAGES, BN, DQ], rows2)
        v_buf = gl.allocate_shared_memory(DOT, [STAGES, BN, DV], rows2)
    bar: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [1], bar)
    q_empty = gl.allocate_shared_memory(gl.int64, [1], bar)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], bar)
    # A row copy arrives once a thread of the producer; a bulk copy once; a consumer once.
    ARRIVALS: gl.constexpr = 1 if BULK else 128
    mbarrier.init(q_full, count=128)
    mbarrier.init(q_empty, count=GROUPS)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), count=ARRIVALS)
        mbarrier.init(v_full.index(i), count=ARRIVALS)
        mbarrier.init(k_empty.index(i), count=GROUPS)
        mbarrier.init(v_empty.index(i), count=GROUPS)
    # The argument tuples stand in place: a tuple that passes through a name loses its compile-time members.
    # fmt: off
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_consumer, (
                    out, lse, tiles, stream, mask_words, flags, stride_ot, stride_oh, stride_lt, stride_lh, num_tiles,
                    num_work, num_keys, qo_len_all, mask_stride, window_left, scale2, q_buf, k_buf, v_buf, q_full,
                    q_empty, k_full, k_empty, v_full, v_empty, 0, G, HEADS, SHARED, GROUPS, BN, STAGES, DQ, DV, KEYS,
                    C, CAUSAL, WINDOW, MASK, HAS_LSE,
                )),
                (_consumer, (
                    out, lse, tiles, stream, mask_words, flags, stride_ot, stride_oh, stride_lt, stride_lh, num_tiles,
                    num_work, num_keys, qo_len_all, mask_stride, window_left, scale2, q_buf, k_buf, v_buf, q_full,
                    q_empty, k_full, k_empty, v_full, v_empty, 1, G, HEADS, SHARED, GROUPS, BN, STAGES, DQ, DV, KEYS,
                    C, CAUSAL, WINDOW, MASK, HAS_LSE,
                )),
                (_producer, (
                    q, k, v, k_desc, v_desc, tiles, stream, stride_qt, stride_qh, stride_kn, stride_kh, stride_vn,
                    stride_vh, num_tiles, num_work, num_keys, qo_len_all, window_left, q_buf, k_buf, v_buf, q_full,
                    q_empty, k_full, k_empty, v_full, v_empty, G, HEADS, SHARED, GROUPS, BN, STAGES, DQ, DV, KEYS, C,
                    SEGMENTS, CAUSAL, WINDOW, MASK,
                )),
            ],
            [4, 4],
            [CONSUMER_REGS, PRODUCER_REGS],
        )
    else:
        gl.warp_specialize(
            [
                (_consumer, (
                    out, lse, tiles, stream, mask_words, flags, stride_ot, stride_oh, stride_lt, stride_lh, num_tiles,
                    num_work, num_keys, qo_len_all, mask_stride, window_left, scale2, q_buf, k_buf, v_buf, q_full,
                    q_empty, k_full, k_empty, v_full, v_empty, 0, G, HEADS, SHARED, GROUPS, BN, STAGES, DQ, DV, KEYS,
                    C, CAUSAL, WINDOW, MASK, HAS_LSE,
                )),
                (_producer, (
                    q, k, v, k_desc, v_desc, tiles, stream, stride_qt, stride_qh, stride_kn, stride_kh, stride_vn,
                    stride_vh, num_tiles, num_work, num_keys, qo_len_all, window_left, q_buf, k_buf, v_buf, q_full,
                    q_empty, k_full, k_empty, v_full, v_empty, G, HEADS, SHARED, GROUPS, BN, STAGES, DQ, DV, KEYS, C,
                    SEGMENTS, CAUSAL, WINDOW, MASK,
                )),
            ],
            [4],
            [PRODUCER_REGS],
        )
    # fmt: on
