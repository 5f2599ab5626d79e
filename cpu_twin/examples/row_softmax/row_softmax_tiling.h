// SPDX-License-Identifier: Apache-2.0
// Row softmax: what host and kernel share.
#ifndef CPU_TWIN_EXAMPLES_ROW_SOFTMAX_TILING_H
#define CPU_TWIN_EXAMPLES_ROW_SOFTMAX_TILING_H

#include <cstdint>

enum class SoftmaxType : uint32_t { FLOAT = 0, HALF = 1, BFLOAT16 = 2 };

// y[r, c] = exp(x[r, c] - max_c x[r, c]) / sum_c exp(...), x and y of shape [rows, cols], one dtype.
struct RowSoftmaxTiling {
    uint32_t rows;
    uint32_t cols;        // 1 .. 1024
    uint32_t tileRows;    // rows a vector core handles at a time: a multiple of 8, at most 64
    SoftmaxType type;
};

constexpr uint32_t ROW_SOFTMAX_MAX_COLS = 1024;    // eight rows, five times over, fill UB

// Largest tileRows whose buffers fit into UB, counted for float32, the widest type: two input, two output and one
// working copy of the tile, and a few hundred bytes a row beside them.
inline uint32_t RowSoftmaxMaxTileRows(uint32_t cols)
{
    const uint32_t pitch = (cols + 63) / 64 * 64;
    const uint32_t rows = (180 * 1024 - 1024) / (5 * pitch * 4 + 64 * 4 + 8 * 4);
    const uint32_t capped = rows < 64 ? rows : 64;
    return capped / 8 * 8;
}

#endif
