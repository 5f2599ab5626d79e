// SPDX-License-Identifier: Apache-2.0
// Matmul: what host and kernel share.
#ifndef CPU_TWIN_EXAMPLES_MATMUL_TILING_H
#define CPU_TWIN_EXAMPLES_MATMUL_TILING_H

#include <cstdint>

enum class MatmulInput : uint32_t { HALF = 0, BFLOAT16 = 1 };
enum class MatmulOutput : uint32_t { FLOAT = 0, HALF = 1, BFLOAT16 = 2 };

// c[M, N] = a[M, K] * b, all row-major; b is [K, N], or [N, K] when transposeB is set. Accumulation in float32.
struct MatmulTiling {
    uint32_t m;
    uint32_t n;    // at most 65535 when b is [K, N]: a row distance of the ND to NZ copy
    uint32_t k;    // at most 65535, for the same reason
    uint32_t transposeB;
    MatmulInput input;
    MatmulOutput output;
};

#endif
