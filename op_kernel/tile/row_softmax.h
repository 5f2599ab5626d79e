// SPDX-License-Identifier: Apache-2.0
// Vector sequences over a tile of float32 rows in UB. A tile is `rows` rows of `chunks` repeats (64 elements) each,
// without gaps, at most 255 repeats in all. Every sequence ends with its results still in flight: the caller puts a
// PIPE_V barrier before it reads them.
#pragma once

#include "kernel_operator.h"

#include "../tiling_data.h"

namespace asa {

constexpr uint32_t kBlockLanes = 8;        // float32 elements of a 32-byte block
constexpr uint32_t kMaxRepeatStride = 255;
constexpr float kMinusInfinity = -__builtin_inff();
constexpr float kLargest = 3.4028234663852886e38f;

struct RowTile {
    uint32_t rows;
    uint32_t chunks;
    __aicore__ inline uint32_t Pitch() const { return chunks * kLanes; }
    __aicore__ inline uint8_t Repeats() const { return static_cast<uint8_t>(rows * chunks); }
    // One instruction may step from row to row (a repeat's stride is a byte, in blocks).
    __aicore__ inline bool StepsRows() const { return chunks * kBlockLanes <= kMaxRepeatStride; }
};

enum class Fold { kMax, kMin, kSum };

template <Fold fold>
__aicore__ inline void FoldBlocks(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                  uint32_t repeats)
{
    if constexpr (fold == Fold::kMax) {
        AscendC::BlockReduceMax(dst, src, repeats, kLanes, 1, 1, 8);
    } else if constexpr (fold == Fold::kMin) {
        AscendC::BlockReduceMin(dst, src, repeats, kLanes, 1, 1, 8);
    } else {
        AscendC::BlockReduceSum(dst, src, repeats, kLanes, 1, 1, 8);
    }
}

template <Fold fold>
__aicore__ inline void FoldPair(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                uint64_t lanes, uint8_t rows, uint8_t stride)
{
    const AscendC::BinaryRepeatParams params(1, 1, 1, stride, stride, stride);
    if constexpr (fold == Fold::kMax) {
        AscendC::Max(dst, dst, src, lanes, rows, params);
    } else if constexpr (fold == Fold::kMin) {
        AscendC::Min(dst, dst, src, lanes, rows, params);
    } else {
        AscendC::Add(dst, dst, src, lanes, rows, params);
    }
}

// dst[row] = max, min or sum of the row. `partial` holds chunks * 8 floats a row.
template <Fold fold>
__aicore__ inline void FoldRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                const AscendC::LocalTensor<float>& partial, const RowTile& tile)
{
    FoldBlocks<fold>(partial, src, tile.Repeats());
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t left = tile.chunks * kBlockLanes;  // floats of a row that remain; a row's distance in blocks is chunks
    for (uint32_t begin = kLanes; begin < left; begin += kLanes) {
        FoldPair<fold>(partial, partial[begin], Min(kLanes, left - begin), static_cast<uint8_t>(tile.rows),
                       static_cast<uint8_t>(tile.chunks));
        AscendC::PipeBarrier<PIPE_V>();
    }
    const int32_t lanes = static_cast<int32_t>(Min(kLanes, left));
    if constexpr (fold == Fold::kMax) {
        AscendC::WholeReduceMax(dst, partial, lanes, static_cast<int32_t>(tile.rows), 1, 1,
                                static_cast<int32_t>(tile.chunks), AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    } else if constexpr (fold == Fold::kMin) {
        AscendC::WholeReduceMin(dst, partial, lanes, static_cast<int32_t>(tile.rows), 1, 1,
                                static_cast<int32_t>(tile.chunks), AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    } else {
        AscendC::WholeReduceSum(dst, partial, lanes, static_cast<int32_t>(tile.rows), 1, 1,
                                static_cast<int32_t>(tile.chunks));
    }
}

// dst[row] as a whole block, for operands that repeat along a row.
__aicore__ inline void SpreadRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                  uint32_t rows)
{
    AscendC::Brcb(dst, src, static_cast<uint8_t>(CeilDiv(rows, kBlockLanes)), AscendC::BrcbRepeatParams(1, 8));
}

// Instructions over a row tile walk it along rows or along columns, whichever takes fewer of them. Operation is called
// with the tile's part, the offset of its row block in floats, the repeats and the strides.
template <typename Operation>
__aicore__ inline void ForRows(const RowTile& tile, const Operation& operation)
{
    if (tile.StepsRows() && tile.chunks <= tile.rows) {
        const uint8_t stride = static_cast<uint8_t>(tile.chunks * kBlockLanes);
        for (uint32_t chunk = 0; chunk < tile.chunks; ++chunk) {
            operation(chunk * kLanes, 0, static_cast<uint8_t>(tile.rows), stride, 1);
        }
        return;
    }
    for (uint32_t row = 0; row < tile.rows; ++row) {
        operation(row * tile.Pitch(), row * kBlockLanes, static_cast<uint8_t>(tile.chunks), 8, 0);
    }
}

// data[row][*] *= rowBlock[row]
__aicore__ inline void MultiplyRows(const AscendC::LocalTensor<float>& data, const AscendC::LocalTensor<float>& rowBlock,
                                    const RowTile& tile)
{
    ForRows(tile, [&](uint32_t at, uint32_t block, uint8_t repeats, uint8_t stride, uint8_t blockStride) {
        AscendC::Mul(data[at], data[at], rowBlock[block], static_cast<uint64_t>(kLanes), repeats,
                     AscendC::BinaryRepeatParams(1, 1, 0, stride, stride, blockStride));
    });
}

// data[row][*] -= rowBlock[row]
__aicore__ inline void SubtractRows(const AscendC::LocalTensor<float>& data, const AscendC::LocalTensor<float>& rowBlock,
                                    const RowTile& tile)
{
    ForRows(tile, [&](uint32_t at, uint32_t block, uint8_t repeats, uint8_t stride, uint8_t blockStride) {
        AscendC::Sub(data[at], data[at], rowBlock[block], static_cast<uint64_t>(kLanes), repeats,
                     AscendC::BinaryRepeatParams(1, 1, 0, stride, stride, blockStride));
    });
}

// data[row][column ...] = value to the end of the row, for `rows` rows from data on.
__aicore__ inline void FillTail(const AscendC::LocalTensor<float>& data, uint32_t rows, uint32_t column, float value,
                                const RowTile& tile)
{
    const uint32_t first = column / kLanes;
    const uint32_t inside = column - first * kLanes;
    const bool step = tile.StepsRows();
    const uint32_t rounds = step ? 1 : rows;
    const uint8_t repeats = step ? static_cast<uint8_t>(rows) : 1;
    const uint8_t stride = step ? static_cast<uint8_t>(tile.chunks * kBlockLanes) : 8;
    for (uint32_t round = 0; round < rounds; ++round) {
        for (uint32_t chunk = first; chunk < tile.chunks; ++chunk) {
            uint64_t lanes[2] = {chunk == first ? ~0ULL << inside : ~0ULL, 0};
            AscendC::Duplicate(data[round * tile.Pitch() + chunk * kLanes], value, lanes, repeats, 1, stride);
        }
    }
}

}  // namespace asa
