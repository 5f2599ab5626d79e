// SPDX-License-Identifier: Apache-2.0
// Movements and the multiplication of one AIC tile. Matrices in L1 are NZ: columns in groups of 16, within a group all
// (padded) rows, 16 elements a row.
#pragma once

#include "kernel_operator.h"

#include "../tiling_data.h"

namespace asa {

constexpr uint64_t kMaxNdStride = 65535;   // ND2NZ counts a row's distance in 16 bits
constexpr uint32_t kSmallMmad = 10;        // below this many output fractals Mmads in a row need a barrier
constexpr uint8_t kBottomPad = 255;        // rows below the image; keeps load3d's window count at mExtension

// GM [rows, cols] with `stride` elements between rows -> L1 NZ with padRows rows. Rows [rows, padRows) are not written.
template <typename T>
__aicore__ inline void CopyToNz(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src, uint32_t rows,
                                uint32_t cols, uint64_t stride, uint32_t padRows)
{
    AscendC::Nd2NzParams params;
    params.ndNum = 1;
    params.dValue = static_cast<uint16_t>(cols);
    params.srcNdMatrixStride = 0;
    params.dstNzC0Stride = static_cast<uint16_t>(padRows);
    params.dstNzNStride = 1;
    params.dstNzMatrixStride = 0;
    if (stride != 0 && stride <= kMaxNdStride) {  // 0: one row for all, which ND2NZ does not know
        params.nValue = static_cast<uint16_t>(rows);
        params.srcDValue = static_cast<uint16_t>(stride);
        AscendC::DataCopy(dst, src, params);
        return;
    }
    params.nValue = 1;
    params.srcDValue = static_cast<uint16_t>(cols);
    for (uint32_t row = 0; row < rows; ++row) {
        AscendC::DataCopy(dst[row * kCube], src[row * stride], params);
    }
}

template <typename T>
__aicore__ inline AscendC::LoadData3DParamsV2<T> MatrixWindow(uint32_t padRows, uint32_t cols, uint32_t colBegin,
                                                              uint32_t colCount)
{
    AscendC::LoadData3DParamsV2<T> params;
    params.l1H = static_cast<uint16_t>(padRows / kCube);
    params.l1W = kCube;
    params.padList[0] = 0;
    params.padList[1] = 0;
    params.padList[2] = 0;
    params.padList[3] = kBottomPad;
    params.channelSize = static_cast<uint16_t>(cols);
    params.mExtension = static_cast<uint16_t>(padRows);
    params.mStartPt = 0;
    params.kExtension = static_cast<uint16_t>(colCount);
    params.kStartPt = static_cast<uint16_t>(colBegin);
    params.strideW = 1;
    params.strideH = 1;
    params.filterW = 1;
    params.filterH = 1;
    params.dilationFilterW = 1;
    params.dilationFilterH = 1;
    params.enTranspose = false;
    params.enSmallK = false;
    params.filterSizeW = false;
    params.filterSizeH = false;
    params.fMatrixCtrl = false;
    return params;
}

// Columns [colBegin, colBegin + colCount) of an NZ matrix with `cols` columns -> L0A, as left operand.
template <typename T>
__aicore__ inline void LoadLeft(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t padRows,
                                uint32_t cols, uint32_t colBegin, uint32_t colCount)
{
    AscendC::LoadData(dst, src, MatrixWindow<T>(padRows, cols, colBegin, colCount));
}

// An NZ matrix X [k, n] -> L0B as the right operand of A x X (load3d into L0B transposes on its way).
template <typename T>
__aicore__ inline void LoadRight(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t padRows,
                                 uint32_t cols, uint32_t colBegin, uint32_t colCount)
{
    AscendC::LoadData(dst, src, MatrixWindow<T>(padRows, cols, colBegin, colCount));
}

// An NZ matrix X [n, k], columns [colBegin, colBegin + colCount) -> L0B as the right operand of A x X^T: its fractals
// already stand in L0B's order.
template <typename T>
__aicore__ inline void LoadRightTransposed(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                           uint32_t padRows, uint32_t colBegin, uint32_t colCount)
{
    AscendC::LoadData2DParams params;
    params.startIndex = 0;
    params.repeatTimes = static_cast<uint8_t>(padRows / kCube * (colCount / kCube));
    params.srcStride = 1;
    params.dstGap = 0;
    params.ifTranspose = false;
    AscendC::LoadData(dst, src[colBegin * padRows], params);
}

// One row would switch the cube to its vector mode, which wants another layout of the left operand.
__aicore__ inline uint32_t MmadRows(uint32_t rows) { return Max(rows, 2); }

template <typename T>
__aicore__ inline void Multiply(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<T>& left,
                                const AscendC::LocalTensor<T>& right, uint32_t rows, uint32_t n, uint32_t k, bool first)
{
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(MmadRows(rows));
    params.n = static_cast<uint16_t>(n);
    params.k = static_cast<uint16_t>(k);
    params.cmatrixInitVal = first;
    params.cmatrixSource = false;
    params.unitFlag = 0;
    AscendC::Mmad(acc, left, right, params);
    if (CeilDiv(rows, kCube) * CeilDiv(n, kCube) < kSmallMmad) {
        AscendC::PipeBarrier<PIPE_M>();
    }
}

template <typename T>
struct RoundTo;
template <>
struct RoundTo<float> {
    static constexpr QuantMode_t mode = QuantMode_t::NoQuant;
};
template <>
struct RoundTo<half> {
    static constexpr QuantMode_t mode = QuantMode_t::F322F16;
};
template <>
struct RoundTo<bfloat16_t> {
    static constexpr QuantMode_t mode = QuantMode_t::F322BF16;
};

// L0C [rows, cols] -> GM row-major, rounded once to T, `stride` elements between rows.
template <typename T>
__aicore__ inline void StoreRows(const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<float>& acc,
                                 uint32_t rows, uint32_t cols, uint32_t stride)
{
    AscendC::FixpipeParamsV220 params;
    params.nSize = static_cast<uint16_t>(cols);
    params.mSize = static_cast<uint16_t>(rows);
    params.srcStride = static_cast<uint16_t>(AlignUp(rows, kCube));
    params.dstStride = stride;
    params.quantPre = RoundTo<T>::mode;
    params.ndNum = 1;
    params.srcNdStride = 0;
    params.dstNdStride = 0;
    params.reluEn = false;
    params.unitFlag = 0;
    AscendC::Fixpipe<T, float, AscendC::CFG_ROW_MAJOR>(dst, acc, params);
}

}  // namespace asa
