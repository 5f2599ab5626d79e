# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The functions below are a device language that only looks like Python; their types are Triton's.
"""sparse_flash_attention by gather: the portable kernel, and the combination of a call split over topK.

A program owns up to BH of the G query heads that read one list of indices, and walks the list in steps of BN slots.
Rows of K (and of V, unless V is K's prefix) are gathered by masked loads, so that a slot whose index lies outside
[0, S2) or beyond the causal limit is never dereferenced and reads as zeros; its logit is -inf.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .block import load_rows


@triton.jit(do_not_specialize=["S1", "S2", "N2", "topK", "splits", "steps_a_split"])
def sparse_attention_kernel(
    q, k, v, indices, out, lse,
    stride_qb, stride_qs, stride_qh, stride_kb, stride_ks, stride_kh, stride_vb, stride_vs, stride_vh,
    stride_ib, stride_is, stride_ih, stride_ob, stride_os, stride_oh, stride_osplit, stride_lb, stride_ls, stride_lh,
    stride_lsplit, S1, S2, N2, topK, splits, steps_a_split, scale2, q_sign,
    G: tl.constexpr, BH: tl.constexpr, BN: tl.constexpr,
    QA: tl.constexpr, QA_W: tl.constexpr, QB: tl.constexpr, QB_W: tl.constexpr,
    VA: tl.constexpr, VA_W: tl.constexpr, VB: tl.constexpr, VB_W: tl.constexpr,
    ALIASED: tl.constexpr, CAUSAL: tl.constexpr, HAS_LSE: tl.constexpr, DOT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """out [B, S1, N1, Dv] and lse [B, S1, N1] by strides. Where topK is split, a program walks its share and writes a
    normalised part with its own base-2 LSE, `stride_osplit` and `stride_lsplit` apart."""
    pid = tl.program_id(0)
    split = pid % splits
    pid = pid // splits
    CHUNKS: tl.constexpr = (G + BH - 1) // BH
    chunk = pid % CHUNKS
    pid = pid // CHUNKS
    s1 = pid % S1
    pid = pid // S1
    n2 = pid % N2
    b = (pid // N2).to(tl.int64)

    h = chunk * BH + tl.arange(0, BH)
    h_ok = h < G
    head = (n2 * G + h).to(tl.int64)
    q_rows = q + b * stride_qb + s1.to(tl.int64) * stride_qs + head[:, None] * stride_qh
    da = tl.arange(0, QA_W)
    qa = tl.load(q_rows + da[None, :], mask=h_ok[:, None] & (da < QA)[None, :], other=0.0)
    qa = (qa.to(tl.float32) * q_sign).to(DOT)
    qb = qa
    if QB_W > 0:
        db = tl.arange(0, QB_W)
        qb = tl.load(q_rows + (QA + db)[None, :], mask=h_ok[:, None] & (db < QB)[None, :], other=0.0)
        qb = (qb.to(tl.float32) * q_sign).to(DOT)

    k_head = k + b * stride_kb + n2.to(tl.int64) * stride_kh
    v_head = v + b * stride_vb + n2.to(tl.int64) * stride_vh
    list_ = indices + b * stride_ib + s1.to(tl.int64) * stride_is + n2.to(tl.int64) * stride_ih
    limit = S2 - 1
    if CAUSAL:
        limit = tl.minimum(limit, s1 + S2 - S1)

    n = tl.arange(0, BN)
    acc_a = tl.zeros([BH, VA_W], tl.float32)
    acc_b = tl.zeros([BH, VB_W if VB_W > 0 else 16], tl.float32)
    m = tl.full([BH], float("-inf"), tl.float32)
    l = tl.zeros([BH], tl.float32)
    first = split * steps_a_split
    last = tl.minimum(first + steps_a_split, (topK + BN - 1) // BN)
    for t in range(first, last):
        slot = t * BN + n
        key = tl.load(list_ + slot, mask=slot < topK, other=-1)
        live = (key >= 0) & (key <= limit)
        key = tl.where(live, key, 0)
        ka = load_rows(k_head, key, stride_ks, live, 0, QA, QA_W, True)
        s = tl.dot(qa, tl.trans(ka), input_precision=PRECISION)
        if QB_W > 0:
            kb = load_rows(k_head, key, stride_ks, live, QA, QB, QB_W, True)
            s = tl.dot(qb, tl.trans(kb), s, input_precision=PRECISION)
        s = tl.where(live[None, :], s * scale2, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # exp2(-inf - 0) = 0, not NaN
        p = tl.exp2(s - safe[:, None])
        alpha = tl.exp2(m - safe)
        l = l * alpha + tl.sum(p, 1)
        m = m_new
        pd = p.to(DOT)
        if ALIASED:
            va = ka
        else:
            va = load_rows(v_head, key, stride_vs, live, 0, VA, VA_W, True)
        acc_a = tl.dot(pd, va, acc_a * alpha[:, None], input_precision=PRECISION)
        if VB_W > 0:
            if ALIASED:
                vb = kb
            else:
                vb = load_rows(v_head, key, stride_vs, live, VA, VB, VB_W, True)
            acc_b = tl.dot(pd, vb, acc_b * alpha[:, None], input_precision=PRECISION)

    empty = l == 0.0
    inv = 1.0 / tl.where(empty, 1.0, l)
    value = tl.where(empty, float("-inf"), m + tl.log2(tl.where(empty, 1.0, l)))
    oa = tl.where(empty[:, None], 0.0, acc_a * inv[:, None])
    ob = tl.where(empty[:, None], 0.0, acc_b * inv[:, None])
    ea = tl.arange(0, VA_W)
    rows = out + b * stride_ob + s1.to(tl.int64) * stride_os + head[:, None] * stride_oh + split * stride_osplit
    tl.store(rows + ea[None, :], oa.to(out.dtype.element_ty), mask=h_ok[:, None] & (ea < VA)[None, :])
    if HAS_LSE:
        at = lse + b * stride_lb + s1.to(tl.int64) * stride_ls + head * stride_lh + split * stride_lsplit
        tl.store(at, value, mask=h_ok)
    if VB_W > 0:
        eb = tl.arange(0, VB_W)
        tl.store(rows + (VA + eb)[None, :], ob.to(out.dtype.element_ty), mask=h_ok[:, None] & (eb < VB)[None, :])


@triton.jit(do_not_specialize=["S1", "N1", "splits"])
def combine_kernel(
    part_out, part_lse, out, lse, stride_ob, stride_os, stride_oh, stride_lb, stride_ls, stride_lh, S1, N1, splits,
    DV: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr, HAS_LSE: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one (b, s1, head) row: weights 2^(lse_i - lse), float32, one rounding at the end."""
    COLUMN_BLOCKS: tl.constexpr = (DV + BLOCK - 1) // BLOCK
    row = (tl.program_id(0) // COLUMN_BLOCKS).to(tl.int64)
    column_block = tl.program_id(0) % COLUMN_BLOCKS
    col = column_block * BLOCK + tl.arange(0, BLOCK)
    i = tl.arange(0, SPLITS)
    parts = tl.load(part_lse + row * splits + i, mask=i < splits, other=float("-inf"))
    top = tl.max(parts, 0)
    safe = tl.where(top == float("-inf"), 0.0, top)
    weight = tl.exp2(parts - safe)
    total = tl.sum(weight, 0)
    weight = weight / tl.where(total == 0.0, 1.0, total)
    ptr = part_out + (row * splits + i)[:, None] * DV + col[None, :]
    o = tl.load(ptr, mask=(i < splits)[:, None] & (col < DV)[None, :], other=0.0)
    o = tl.sum(o * weight[:, None], 0)
    head = row % N1
    s1 = (row // N1) % S1
    b = row // N1 // S1
    tl.store(out + b * stride_ob + s1 * stride_os + head * stride_oh + col, o.to(out.dtype.element_ty), mask=col < DV)
    if HAS_LSE:
        if column_block == 0:
            value = tl.where(total == 0.0, float("-inf"), safe + tl.log2(tl.where(total == 0.0, 1.0, total)))
            tl.store(lse + b * stride_lb + s1 * stride_ls + head * stride_lh, value)
