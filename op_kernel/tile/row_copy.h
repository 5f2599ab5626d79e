// SPDX-License-Identifier: Apache-2.0
// Rows of a GM matrix into UB.
#pragma once

#include "kernel_operator.h"

#include "../tiling_data.h"

namespace asa {

constexpr uint32_t kBlockBytes = 32;

// Where rows come from and how they land: `elements` of each row, `stride` elements between rows in GM, `pitch` in UB.
struct RowShape {
    uint32_t elements;
    uint32_t pitch;
    uint64_t stride;
};

// `count` rows that lie a constant distance apart: one copy.
template <typename T>
__aicore__ inline void CopyRows(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src, uint64_t first,
                                uint64_t distance, uint32_t count, const RowShape& shape)
{
    AscendC::DataCopyExtParams params;
    params.blockCount = static_cast<uint16_t>(count);
    params.blockLen = shape.elements * sizeof(T);
    params.srcStride = count > 1 ? static_cast<uint32_t>((distance - shape.elements) * sizeof(T)) : 0;
    params.dstStride = (shape.pitch - shape.elements) * sizeof(T) / kBlockBytes;
    AscendC::DataCopyPadExtParams<T> pad;
    AscendC::DataCopyPad(dst, src[first], params, pad);
}

// Rows `low` and `high` (low <= high) of the matrix, low first. Equal rows, and rows further apart than a copy can
// express, take one copy each.
template <typename T>
__aicore__ inline void CopyRowPair(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src, uint64_t base,
                                   uint32_t low, uint32_t high, bool pairable, const RowShape& shape)
{
    const uint64_t first = base + low * shape.stride;
    if (pairable && low != high) {
        CopyRows(dst, src, first, (high - low) * shape.stride, 2, shape);
        return;
    }
    CopyRows(dst, src, first, 0, 1, shape);
    CopyRows(dst[shape.pitch], src, base + high * shape.stride, 0, 1, shape);
}

}  // namespace asa
