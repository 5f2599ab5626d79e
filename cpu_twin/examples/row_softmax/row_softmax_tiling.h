// SPDX-License-Identifier: Apache-2.0
// Row softmax: what host and kernel share.
#ifndef CPU_TWIN_EXAMPLES_ROW_SOFTMAX_TILING_H
#define CPU_TWIN_EXAMPLES_ROW_SOFTMAX_TILING_H

#include <cstdint>

enum class SoftmaxType : uint32_t { FLOAT = 0, HALF = 1, BFLOAT16 = 2 };

// y[r, c] = exp(x[r, c] - max_c x[r, c]) / sum_c exp(...), x and y of shape [rows, cols], one dtype.
struct RowSoftmaxTiling {
    uint32_t rows;
    uint32_t cols;        // 1 .. 1984: a row pitch in 32-byte blocks must fit the uint8 repeat stride
    uint32_t tileRows;    // rows a vector core handles at a time: a multiple of 8, at most 64
    SoftmaxType type;
};

constexpr uint32_t ROW_SOFTMAX_MAX_COLS = 1984;

#endif
