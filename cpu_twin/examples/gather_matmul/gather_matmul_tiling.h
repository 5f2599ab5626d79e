// SPDX-License-Identifier: Apache-2.0
// Gathered matmul: what host and kernel share.
#ifndef CPU_TWIN_EXAMPLES_GATHER_MATMUL_TILING_H
#define CPU_TWIN_EXAMPLES_GATHER_MATMUL_TILING_H

#include <cstdint>

// y[t, n]      = half(sum_k table[index[t], k] * weight[n, k] + bias[n]), a row of zeros for an index outside the table
// columnSum[n] = sum_t (the same, before the cast), float32
// table half [tableRows, k], index int32 [count], weight half [n, k], bias float32 [n], y half [count, n].
struct GatherMatmulTiling {
    uint32_t tableRows;
    uint32_t count;
    uint32_t k;           // a multiple of 16, at most 512
    uint32_t n;           // 1 .. 128
    uint32_t tileRows;    // indices per step of a block: 16, 32 or 64; each vector core takes half of them
};

constexpr uint32_t GATHER_MATMUL_MAX_K = 512;
constexpr uint32_t GATHER_MATMUL_MAX_N = 128;
constexpr uint32_t GATHER_MATMUL_RING = 2;

// Bytes of GM workspace: per block a ring of gathered rows and a ring of float32 results, then a row of column sums per
// vector core.
inline uint64_t GatherMatmulWorkspace(const GatherMatmulTiling& tiling, uint32_t blocks)
{
    const uint64_t rows = static_cast<uint64_t>(blocks) * GATHER_MATMUL_RING * tiling.tileRows;
    return rows * tiling.k * 2 + rows * tiling.n * 4 + static_cast<uint64_t>(blocks) * 2 * tiling.n * 4;
}

#endif
