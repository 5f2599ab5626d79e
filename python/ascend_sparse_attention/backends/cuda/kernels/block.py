# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The functions below are a device language that only looks like Python; their types are Triton's.
"""Attention of query tiles over key streams: block-sparse, variable blocks and single prefill in one kernel.

A program owns one query tile (`block_m` rows, a row being a (token, head) pair) and walks its key stream in steps of
BN keys with the online softmax: float32 logits, row maximum, row sum and output, P rounded once for the second
product. Logits are kept in base 2.

Steps that every row sees whole run unmasked; only the last ones (causal diagonal, ragged end) or all of them (window,
bit mask) pay for masks. Masked logits become -inf, never a finite sentinel. A masked key's value still meets P = 0 in
the second product, and 0 * NaN is NaN: so a tile whose output is not finite is computed again by the careful loop,
which zeroes such values and marks exactly the (row, column) pairs that really see one.
"""

from __future__ import annotations

import triton
import triton.language as tl

RANGE = tl.constexpr(0)
PACKED = tl.constexpr(1)
RUNS = tl.constexpr(2)
DENSE = tl.constexpr(3)
MASK_NONE = tl.constexpr(0)
MASK_LOCAL = tl.constexpr(1)
MASK_BY_KEY = tl.constexpr(2)
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def step_keys(stream, begin, t, kv_len, KEYS: tl.constexpr, C: tl.constexpr, SEGMENTS: tl.constexpr, BN: tl.constexpr):
    """Keys [BN] of step t of a stream. Entries past the end of the stream are 0 or beyond it: the caller masks."""
    n = tl.arange(0, BN)
    local = t * BN + n
    if KEYS == DENSE:
        key = local
    elif KEYS == RANGE and C >= BN:
        first = t * BN
        block = tl.load(stream + begin + first // C)
        key = block * C + first % C + n
    elif KEYS != RUNS:
        block = tl.load(stream + begin + local // C, mask=local < kv_len, other=0)
        key = block * C + local % C
    else:
        row = stream + (begin + t).to(tl.int64) * (2 * SEGMENTS)
        key = n + tl.load(row + 1)
        for s in tl.static_range(1, SEGMENTS):
            key = tl.where(n >= tl.load(row + 2 * s), n + tl.load(row + 2 * s + 1), key)
    return key


@triton.jit
def load_rows(
    base, key, stride, live, OFF: tl.constexpr, LEN: tl.constexpr, WIDTH: tl.constexpr, ROWS_MASKED: tl.constexpr
):
    """Rows [BN, WIDTH] of a key or value head, columns [OFF, OFF + LEN), zero elsewhere."""
    d = tl.arange(0, WIDTH)
    ptr = base + key.to(tl.int64)[:, None] * stride + (OFF + d)[None, :]
    if ROWS_MASKED:
        if LEN == WIDTH:
            x = tl.load(ptr, mask=live[:, None], other=0.0)
        else:
            x = tl.load(ptr, mask=live[:, None] & (d < LEN)[None, :], other=0.0)
    elif LEN == WIDTH:
        x = tl.load(ptr)
    else:
        x = tl.load(ptr, mask=(d < LEN)[None, :], other=0.0)
    return x


@triton.jit
def rotate(a, b, position, log2_theta, inv_scale, HALF: tl.constexpr, WIDTH: tl.constexpr):
    """Half-split rotary embedding of the column halves a and b [rows, WIDTH] at `position` [rows]; float32."""
    d = tl.arange(0, WIDTH).to(tl.float32)
    freq = inv_scale * tl.exp2(-d / HALF * log2_theta)
    angle = position.to(tl.float32)[:, None] * freq[None, :]
    c, s = tl.cos(angle), tl.sin(angle)
    return a * c - b * s, b * c + a * s


@triton.jit
def tanh(x):
    # 1 - 2 / (exp(2x) + 1): exact limits at both ends, no overflow to NaN. Near 0 it cancels, and a large cap would
    # magnify that: there the series, whose first term left out is below 2^-24 of the sum.
    far = 1.0 - 2.0 / (tl.exp2(x * (2.0 * LOG2E)) + 1.0)
    y = x * x
    near = x + x * y * (-1.0 / 3.0 + y * (2.0 / 15.0 + y * (-17.0 / 315.0 + y * (62.0 / 2835.0))))
    return tl.where(tl.abs(x) < 0.25, near, far)


@triton.jit
def keep_pairs(
    keep, t, stream, begin, row, word_row, mask_words, kv_len, qo_len, window_left,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASK: tl.constexpr, C: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """AND the row-dependent masks into keep [BM, BN]. `row` is the query's place among the qo_len of its stream."""
    n = tl.arange(0, BN)
    local = t * BN + n
    if CAUSAL:
        keep &= (local + qo_len)[None, :] <= (kv_len + row)[:, None]
    if WINDOW:
        keep &= local[None, :] >= (kv_len - qo_len + row - window_left)[:, None]
    if MASK != MASK_NONE:
        word = t * (BN // 32)
        if MASK == MASK_BY_KEY:
            word = tl.load(stream + begin + t * BN // C) * (C // 32) + t * BN % C // 32
        # 32 keys a word: pick the word of each column, then its bit.
        bits = tl.load(mask_words + word_row + word)[:, None]
        for w in tl.static_range(1, BN // 32):
            more = tl.load(mask_words + word_row + word + w)[:, None]
            bits = tl.where((n >= 32 * w)[None, :], more, bits)
        keep &= ((bits >> (n % 32)[None, :]) & 1) != 0
    return keep


@triton.jit
def walk(
    t_begin, t_end, acc_a, acc_b, m, l, qa, qb, k_head, v_head, stride_kn, stride_vn, stream, begin, mask_words,
    word_row, row, kv_len, qo_len, num_keys, window_left, scale2, row_scale, cap, slope, log2_theta, inv_scale,
    QA: tl.constexpr, QA_W: tl.constexpr, QB: tl.constexpr, QB_W: tl.constexpr,
    VA: tl.constexpr, VA_W: tl.constexpr, VB: tl.constexpr, VB_W: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, KEYS: tl.constexpr, C: tl.constexpr, SEGMENTS: tl.constexpr,
    MASKED: tl.constexpr, CAREFUL: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASK: tl.constexpr,
    CAP: tl.constexpr, ALIBI: tl.constexpr, ROPE: tl.constexpr, SCALED: tl.constexpr, DOT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Steps [t_begin, t_end) of the online softmax."""
    n = tl.arange(0, BN)
    # The careful loop is rare, so it takes no room in shared memory for steps in flight.
    for t in tl.range(t_begin, t_end, num_stages=1 if CAREFUL else None):
        key = step_keys(stream, begin, t, kv_len, KEYS, C, SEGMENTS, BN)
        local = t * BN + n
        live = (local < kv_len) & (key < num_keys)
        ka = load_rows(k_head, key, stride_kn, live, 0, QA, QA_W, MASKED).to(DOT)
        if QB_W > 0:
            kb = load_rows(k_head, key, stride_kn, live, QA, QB, QB_W, MASKED).to(DOT)
            if ROPE:
                ra, rb = rotate(ka.to(tl.float32), kb.to(tl.float32), local, log2_theta, inv_scale, QA, QA_W)
                ka, kb = ra.to(DOT), rb.to(DOT)
        s = tl.dot(qa, tl.trans(ka), input_precision=PRECISION)
        if QB_W > 0:
            s = tl.dot(qb, tl.trans(kb), s, input_precision=PRECISION)

        if SCALED & 3:
            s = s * row_scale[:, None]
        if CAP:
            s = cap * tanh(s * (scale2 / LOG2E / cap)) * LOG2E
        elif MASKED or ALIBI or (SCALED & 3):
            s = s * scale2
        if ALIBI:
            s += slope[:, None] * (local[None, :] - row[:, None]).to(tl.float32) * LOG2E
        if MASKED:
            keep = tl.broadcast_to(live[None, :], (BM, BN))
            keep = keep_pairs(
                keep, t, stream, begin, row, word_row, mask_words, kv_len, qo_len, window_left, CAUSAL, WINDOW, MASK,
                C, BN,
            )  # fmt: skip
            s = tl.where(keep, s, float("-inf"))
        if CAP or MASKED or ALIBI or (SCALED & 3):
            m_new = tl.maximum(m, tl.max(s, 1))
            # A row that has seen nothing keeps -inf; 0 in its place makes exp2(-inf - 0) = 0 and not NaN.
            safe = tl.where(m_new == float("-inf"), 0.0, m_new)
            p = tl.exp2(s - safe[:, None])
            alpha = tl.exp2(m - safe)
        else:
            # scale2 > 0 (the launcher moves its sign into q), so it may follow the maximum and fuse into exp2's FMA.
            m_new = tl.maximum(m, tl.max(s, 1) * scale2)
            p = tl.exp2(s * scale2 - m_new[:, None])
            alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        acc_a = acc_a * alpha[:, None]
        pd = p.to(DOT)
        va = load_rows(v_head, key, stride_vn, live, 0, VA, VA_W, MASKED).to(DOT)
        if CAREFUL:
            bad_a = ~(tl.abs(va.to(tl.float32)) < float("inf"))
            va = tl.where(bad_a, 0.0, va).to(DOT)
            seen = tl.dot(keep.to(DOT), bad_a.to(DOT), input_precision=PRECISION)
            acc_a = tl.where(seen > 0.0, float("nan"), acc_a)
        acc_a = tl.dot(pd, va, acc_a, input_precision=PRECISION)
        if VB_W > 0:
            acc_b = acc_b * alpha[:, None]
            vb = load_rows(v_head, key, stride_vn, live, VA, VB, VB_W, MASKED).to(DOT)
            if CAREFUL:
                bad_b = ~(tl.abs(vb.to(tl.float32)) < float("inf"))
                vb = tl.where(bad_b, 0.0, vb).to(DOT)
                seen_b = tl.dot(keep.to(DOT), bad_b.to(DOT), input_precision=PRECISION)
                acc_b = tl.where(seen_b > 0.0, float("nan"), acc_b)
            acc_b = tl.dot(pd, vb, acc_b, input_precision=PRECISION)
        m = m_new
    return acc_a, acc_b, m, l


@triton.jit(do_not_specialize=["num_tiles", "num_keys", "qo_len_all", "mask_stride", "window_left"])
def block_attention_kernel(
    q, k, v, out, lse, tiles, stream, mask_words, scale_q, scale_k, scale_v, slopes, flags,
    stride_qt, stride_qh, stride_kn, stride_kh, stride_vn, stride_vh, stride_ot, stride_oh, stride_lt, stride_lh,
    num_tiles, num_keys, qo_len_all, mask_stride, window_left, scale2, q_sign, cap, log2_theta, inv_scale,
    G: tl.constexpr, HEADS: tl.constexpr, SHARED: tl.constexpr,
    QA: tl.constexpr, QA_W: tl.constexpr, QB: tl.constexpr, QB_W: tl.constexpr,
    VA: tl.constexpr, VA_W: tl.constexpr, VB: tl.constexpr, VB_W: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, KEYS: tl.constexpr, C: tl.constexpr, SEGMENTS: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASK: tl.constexpr, CAP: tl.constexpr, ALIBI: tl.constexpr,
    ROPE: tl.constexpr, SCALED: tl.constexpr, HAS_LSE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
    REDO: tl.constexpr,
):  # fmt: skip
    """One query tile a program. Heads are the slow grid index: programs that run together share a head's keys in L2.

    q [tokens, Hq, QA + QB], k [keys, Hk, QA + QB], v [keys, Hk, VA + VB]; columns are cut in two pieces (A, B) of
    power-of-two width (RoPE cuts q and k into halves). DENSE takes no table: tile index, window and causal rule give
    everything. REDO: only tiles whose flag is raised, by the careful loop; the flag is lowered again.
    """
    pid = tl.program_id(0)
    if REDO:
        if tl.load(flags + pid) == 0:
            return
        tl.store(flags + pid, 0)
    tile = pid % num_tiles
    head_slot = pid // num_tiles
    CHUNKS: tl.constexpr = (G + HEADS - 1) // HEADS
    TOKENS: tl.constexpr = BM // HEADS
    chunk = head_slot % CHUNKS
    kv_head = head_slot // CHUNKS
    if KEYS == DENSE:
        if CAUSAL:
            tile = num_tiles - 1 - tile  # the last rows see most keys: longest first
        token = tile * TOKENS
        rows = tl.minimum(TOKENS, qo_len_all - token)
        begin = 0
        kv_len = num_keys
        local_row = token
        qo_len = qo_len_all
        mask_word = 0
    else:
        fields = tiles + tile * 8
        token = tl.load(fields)
        rows = tl.load(fields + 1)
        if not SHARED:
            kv_head = tl.load(fields + 2)
        begin = tl.load(fields + 3)
        kv_len = tl.load(fields + 4)
        local_row = tl.load(fields + 5)
        qo_len = tl.load(fields + 6)
        mask_word = tl.load(fields + 7)

    r = tl.arange(0, BM)
    in_token = r // HEADS
    in_head = chunk * HEADS + r % HEADS
    row_ok = (in_token < rows) & (in_head < G)
    head = kv_head * G + in_head
    row = local_row + in_token  # place among the qo_len rows of this stream
    q_rows = q + (token + in_token).to(tl.int64)[:, None] * stride_qt + head.to(tl.int64)[:, None] * stride_qh
    da = tl.arange(0, QA_W)
    qa = tl.load(q_rows + da[None, :], mask=row_ok[:, None] & (da < QA)[None, :], other=0.0)
    qb = qa
    if QB_W > 0:
        db = tl.arange(0, QB_W)
        qb = tl.load(q_rows + (QA + db)[None, :], mask=row_ok[:, None] & (db < QB)[None, :], other=0.0)
        if ROPE:
            rq, rq2 = rotate(
                qa.to(tl.float32), qb.to(tl.float32), kv_len - qo_len + row, log2_theta, inv_scale, QA, QA_W
            )
            qa, qb = rq.to(DOT), rq2.to(DOT)
        qb = (qb.to(tl.float32) * q_sign).to(DOT)
    qa = (qa.to(tl.float32) * q_sign).to(DOT)

    row_scale = tl.full([BM], 1.0, tl.float32)
    if SCALED & 1:
        row_scale = tl.load(scale_q + head, mask=row_ok, other=0.0)
    if SCALED & 2:
        row_scale *= tl.load(scale_k + kv_head)
    slope = tl.zeros([BM], tl.float32)
    if ALIBI:
        slope = tl.load(slopes + head, mask=row_ok, other=0.0)
    word_row = tl.zeros([BM], tl.int64)
    if MASK != MASK_NONE:
        stride = mask_stride
        if MASK == MASK_LOCAL:
            stride = (kv_len + 63) // 64 * 2
        word_row = mask_word.to(tl.int64) if KEYS != DENSE else tl.zeros([], tl.int64)
        # Rows past the tile's last read the tile's first: valid memory, and their results are not stored.
        word_row = word_row + tl.where(row_ok, row, local_row).to(tl.int64) * stride

    # Steps [first, whole) see no mask, [whole, last) do.
    last_key = kv_len
    whole = kv_len // BN
    first = 0
    if CAUSAL:
        last_key = tl.minimum(kv_len, kv_len - qo_len + local_row + rows)
        whole = tl.minimum(whole, (kv_len - qo_len + local_row + 1) // BN)
    if WINDOW:
        first = tl.maximum(0, kv_len - qo_len + local_row - window_left) // BN
    last = tl.maximum(0, last_key + BN - 1) // BN
    if WINDOW or MASK != MASK_NONE:
        whole = first
    whole = tl.maximum(tl.minimum(whole, last), first)

    k_head = k + kv_head.to(tl.int64) * stride_kh
    v_head = v + kv_head.to(tl.int64) * stride_vh
    acc_a = tl.zeros([BM, VA_W], tl.float32)
    acc_b = tl.zeros([BM, VB_W if VB_W > 0 else 16], tl.float32)
    m = tl.full([BM], float("-inf"), tl.float32)
    l = tl.zeros([BM], tl.float32)
    if not (REDO or WINDOW or MASK != MASK_NONE):
        acc_a, acc_b, m, l = walk(
            first, whole, acc_a, acc_b, m, l, qa, qb, k_head, v_head, stride_kn, stride_vn, stream, begin, mask_words,
            word_row, row, kv_len, qo_len, num_keys, window_left, scale2, row_scale, cap, slope, log2_theta, inv_scale,
            QA, QA_W, QB, QB_W, VA, VA_W, VB, VB_W, BM, BN, KEYS, C, SEGMENTS, False, False, CAUSAL, WINDOW, MASK,
            CAP, ALIBI, ROPE, SCALED, DOT, PRECISION,
        )  # fmt: skip
    if not REDO:
        acc_a, acc_b, m, l = walk(
            whole, last, acc_a, acc_b, m, l, qa, qb, k_head, v_head, stride_kn, stride_vn, stream, begin, mask_words,
            word_row, row, kv_len, qo_len, num_keys, window_left, scale2, row_scale, cap, slope, log2_theta, inv_scale,
            QA, QA_W, QB, QB_W, VA, VA_W, VB, VB_W, BM, BN, KEYS, C, SEGMENTS, True, False, CAUSAL, WINDOW, MASK,
            CAP, ALIBI, ROPE, SCALED, DOT, PRECISION,
        )  # fmt: skip

    if CAUSAL or WINDOW or MASK != MASK_NONE:
        # x - x is 0 for a finite x and NaN otherwise.
        faults = 1
        if not REDO:
            faults = tl.sum(tl.sum((acc_a - acc_a != 0.0).to(tl.int32), 1), 0)
            if VB_W > 0:
                faults += tl.sum(tl.sum((acc_b - acc_b != 0.0).to(tl.int32), 1), 0)
        if faults > 0:
            acc_a = tl.zeros([BM, VA_W], tl.float32)
            acc_b = tl.zeros([BM, VB_W if VB_W > 0 else 16], tl.float32)
            m = tl.full([BM], float("-inf"), tl.float32)
            l = tl.zeros([BM], tl.float32)
            acc_a, acc_b, m, l = walk(
                first, last, acc_a, acc_b, m, l, qa, qb, k_head, v_head, stride_kn, stride_vn, stream, begin,
                mask_words, word_row, row, kv_len, qo_len, num_keys, window_left, scale2, row_scale, cap, slope,
                log2_theta, inv_scale, QA, QA_W, QB, QB_W, VA, VA_W, VB, VB_W, BM, BN, KEYS, C, SEGMENTS, True, True,
                CAUSAL, WINDOW, MASK, CAP, ALIBI, ROPE, SCALED, DOT, PRECISION,
            )  # fmt: skip

    empty = l == 0.0
    inv = 1.0 / tl.where(empty, 1.0, l)
    if SCALED & 4:
        inv = inv * tl.load(scale_v + kv_head)
    o_rows = out + (token + in_token).to(tl.int64)[:, None] * stride_ot + head.to(tl.int64)[:, None] * stride_oh
    ea = tl.arange(0, VA_W)
    oa = tl.where(empty[:, None], 0.0, acc_a * inv[:, None])
    tl.store(o_rows + ea[None, :], oa.to(out.dtype.element_ty), mask=row_ok[:, None] & (ea < VA)[None, :])
    if VB_W > 0:
        eb = tl.arange(0, VB_W)
        ob = tl.where(empty[:, None], 0.0, acc_b * inv[:, None])
        tl.store(o_rows + (VA + eb)[None, :], ob.to(out.dtype.element_ty), mask=row_ok[:, None] & (eb < VB)[None, :])
    if HAS_LSE:
        value = tl.where(empty, float("-inf"), m + tl.log2(tl.where(empty, 1.0, l)))
        tl.store(lse + (token + in_token).to(tl.int64) * stride_lt + head.to(tl.int64) * stride_lh, value, mask=row_ok)
