// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the machine as flat loops, compiled once per instruction set of the host and picked at start-up.
// Results are the same on every host: no contraction of a*b+c except where the product is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intrinsics.h"

namespace cpu_twin::kernels {

struct Table {
    void (*halfToFloat)(float* dst, const uint16_t* src, size_t n);
    void (*floatToHalf)(uint16_t* dst, const float* src, size_t n);
    void (*floatToBf16)(uint16_t* dst, const float* src, size_t n);
    // Elementwise on float32 and int32; half and int16 go through them or have their own.
    void (*binaryF32)(Op op, float* dst, const float* a, const float* b, size_t n);
    void (*binaryS32)(Op op, int32_t* dst, const int32_t* a, const int32_t* b, size_t n);
    void (*binaryS16)(Op op, int16_t* dst, const int16_t* a, const int16_t* b, size_t n);
    void (*unaryF32)(Op op, float* dst, const float* a, size_t n);
    void (*scalarF32)(Op op, float* dst, const float* a, float s, size_t n);
    void (*scalarS32)(Op op, int32_t* dst, const int32_t* a, int32_t s, size_t n);
    void (*scalarS16)(Op op, int16_t* dst, const int16_t* a, int16_t s, size_t n);
    // C (n1, m1, 16, 16) += A (m1, k1, 16, 16 or 8) * B (k1, n1, 16, 16 or 8), fractals as in L0. `elem`: F16, BF16 or F32.
    // `rowA`: A is one row of k values (m == 1).
    void (*mad)(DType elem, float* c, const void* a, const void* b, uint32_t m, uint32_t k, uint32_t n, uint32_t k1, bool rowA,
                bool saturate);
    void (*madS8)(int32_t* c, const int8_t* a, const int8_t* b, uint32_t m, uint32_t k, uint32_t n, bool rowA);
};
const Table& Kernels();

inline void HalfToFloatN(float* dst, const uint16_t* src, size_t n) { Kernels().halfToFloat(dst, src, n); }
inline void FloatToHalfN(uint16_t* dst, const float* src, size_t n) { Kernels().floatToHalf(dst, src, n); }
inline void FloatToBf16N(uint16_t* dst, const float* src, size_t n) { Kernels().floatToBf16(dst, src, n); }
void Bf16ToFloatN(float* dst, const uint16_t* src, size_t n);

// dst op= src, element by element, as the atomic units of GM do it.
void Atomic(atomic_type_t type, uint8_t op, uint8_t* dst, const uint8_t* src, uint64_t bytes);

}  // namespace cpu_twin::kernels
