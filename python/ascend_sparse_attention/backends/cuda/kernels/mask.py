# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The functions below are a device language that only looks like Python; their types are Triton's.
"""Mask bits into the form that the block kernel reads: int32 words, 32 keys a word, rows aligned to words."""

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
