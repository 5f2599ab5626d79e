# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The functions below are a device language that only looks like Python; their types are Triton's.
"""Masks in the form that the block kernel reads: int32 words of bits, 32 keys a word, rows aligned to words."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mask_words_kernel(
    mask, words, stride_row, kv_len, row_words, total_words, PACKED: tl.constexpr, BLOCK: tl.constexpr
):
    """Repack [qo_len, kv_len] pairs to words [qo_len, row_words].

    mask: PACKED: uint8 bits, flat row-major, little bit order. Otherwise bytes [qo_len, kv_len], 0 or 1, of row stride
    `stride_row`. Bits past kv_len are 0.
    """
    w = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = w // row_words
    col = (w % row_words) * 32
    word = tl.zeros([BLOCK], tl.int32)
    for i in tl.static_range(32):
        inside = (w < total_words) & (col + i < kv_len)
        if PACKED:
            bit = row * kv_len + col + i
            value = tl.load(mask + bit // 8, mask=inside, other=0).to(tl.int32) >> (bit % 8).to(tl.int32)
        else:
            value = tl.load(mask + row * stride_row + col + i, mask=inside, other=0).to(tl.int32)
        word = word | tl.where(inside, (value & 1) << i, 0)
    tl.store(words + w, word, mask=w < total_words)


@triton.jit(do_not_specialize=["M", "stride"])
def draw_bits_kernel(
    indptr, indices, words, repeated, M, stride, R: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One program a block row: sets the bits of its blocks in words int32 [>= M, stride], zeros before; `repeated`
    int32 [1] is raised where a row names a column twice, which a bit can't say."""
    i = tl.program_id(0)
    begin = tl.load(indptr + i)
    end = tl.load(indptr + i + 1)
    again = tl.zeros([BLOCK], tl.int32)
    for at in range(begin, end, BLOCK):
        n = at + tl.arange(0, BLOCK)
        live = n < end
        first = tl.load(indices + n, mask=live, other=0) * C
        for r in range(R):
            row = i * R + r
            for c in range(C):
                key = first + c
                bit = tl.full([BLOCK], 1, tl.int32) << (key % 32)
                ok = live & (row < M)
                old = tl.atomic_or(words + row.to(tl.int64) * stride + key // 32, bit, mask=ok, sem="relaxed")
                again |= tl.where(ok, old & bit, 0)
    if tl.max((again != 0).to(tl.int32), 0) > 0:
        tl.store(repeated, 1)
