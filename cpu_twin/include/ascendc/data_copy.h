// SPDX-License-Identifier: Apache-2.0
// Copies between global memory, L1, UB, the bias table and the fixpipe buffer. The data path follows from where the
// operands lie. Lengths and gaps count 32-byte blocks unless a comment says otherwise.
#pragma once

#include "tpipe.h"

namespace AscendC {

namespace Twin {

template <typename T> inline uint32_t WholeBlocks(uint64_t count, const char* api, cpu_twin::SourceLoc loc)
{
    const uint64_t bytes = count * sizeof(T);
    if (bytes % ONE_BLK_SIZE != 0 || bytes / ONE_BLK_SIZE > 65535) {
        Refuse(loc,
               "%s: expected a count of whole 32-byte blocks, at most 65535 of them, got %lu elements = %lu bytes; "
               "DataCopyPad copies other lengths",
               api, static_cast<unsigned long>(count), static_cast<unsigned long>(bytes));
    }
    return static_cast<uint32_t>(bytes / ONE_BLK_SIZE);
}

template <typename T>
inline void CopyIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t n, uint32_t len, uint32_t srcGap,
                   uint32_t dstGap, cpu_twin::SourceLoc loc)
{
    auto* from = const_cast<T*>(src.GetPhyAddr());
    const auto n16 = static_cast<uint16_t>(n);
    const auto len16 = static_cast<uint16_t>(len);
    const auto srcGap16 = static_cast<uint16_t>(srcGap);
    const auto dstGap16 = static_cast<uint16_t>(dstGap);
    switch (HardwareOf(dst)) {
        case Hardware::UB: copy_gm_to_ubuf(dst.GetPhyAddr(), from, 0, n16, len16, srcGap16, dstGap16, loc); return;
        case Hardware::L1:
            copy_gm_to_cbuf(dst.GetPhyAddr(), from, 0, n16, len16, srcGap16, dstGap16, PAD_NONE, loc);
            return;
        default: Refuse(loc, "DataCopy: dav-2201 has no path from GM to %s", NameOf(HardwareOf(dst)));
    }
}
template <typename T>
inline void CopyOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t n, uint32_t len, uint32_t srcGap,
                    uint32_t dstGap, cpu_twin::SourceLoc loc)
{
    auto* to = const_cast<T*>(dst.GetPhyAddr());
    const auto n16 = static_cast<uint16_t>(n);
    const auto len16 = static_cast<uint16_t>(len);
    const auto srcGap16 = static_cast<uint16_t>(srcGap);
    const auto dstGap16 = static_cast<uint16_t>(dstGap);
    switch (HardwareOf(src)) {
        case Hardware::UB: copy_ubuf_to_gm(to, src.GetPhyAddr(), 0, n16, len16, srcGap16, dstGap16, loc); return;
        case Hardware::L1: copy_cbuf_to_gm(to, src.GetPhyAddr(), 0, n16, len16, srcGap16, dstGap16, loc); return;
        case Hardware::L0C: Refuse(loc, "DataCopy: L0C leaves by Fixpipe");
        default: Refuse(loc, "DataCopy: dav-2201 has no path from %s to GM", NameOf(HardwareOf(src)));
    }
}
template <typename T, typename U>
inline void CopyLocal(const LocalTensor<T>& dst, const LocalTensor<U>& src, uint32_t n, uint32_t len, uint32_t srcGap,
                      uint32_t dstGap, cpu_twin::SourceLoc loc)
{
    const Hardware from = HardwareOf(src);
    const Hardware to = HardwareOf(dst);
    const auto n16 = static_cast<uint16_t>(n);
    const auto len16 = static_cast<uint16_t>(len);
    const auto srcGap16 = static_cast<uint16_t>(srcGap);
    const auto dstGap16 = static_cast<uint16_t>(dstGap);
    if (from == Hardware::UB && to == Hardware::UB && std::is_same_v<T, U>) {
        copy_ubuf_to_ubuf(dst.GetPhyAddr(), src.GetPhyAddr(), 0, n16, len16, srcGap16, dstGap16, loc);
    } else if (from == Hardware::L1 && to == Hardware::BIAS) {
        copy_cbuf_to_bt(dst.address_.bufferAddr, src.GetPhyAddr(), std::is_same_v<T, U> ? 0 : 1, n16, len16, srcGap16,
                        dstGap16, loc);
    } else if (from == Hardware::L1 && to == Hardware::FIXBUF && std::is_same_v<T, U>) {
        copy_cbuf_to_fbuf(dst.GetPhyAddr(), src.GetPhyAddr(), n16, len16, srcGap16, dstGap16, loc);
    } else {
        Refuse(loc, "DataCopy: dav-2201 has no path from %s to %s%s", NameOf(from), NameOf(to),
               from == Hardware::UB && to == Hardware::L1 ? "; go through global memory" : "");
    }
}

inline void CheckExtParams(const DataCopyExtParams& p, cpu_twin::SourceLoc loc)
{
    if (p.rsv != 0) {
        Refuse(loc, "DataCopyExtParams::rsv is reserved: expected 0, got %u", p.rsv);
    }
}
template <typename T>
inline void PadIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p, bool isPad,
                  uint32_t left, uint32_t right, uint64_t valueBits, cpu_twin::SourceLoc loc)
{
    CheckExtParams(p, loc);
    Require(dst, Hardware::UB, "DataCopyPad destination", loc);
    if (isPad) {
        set_mov_pad_val(valueBits);
    }
    auto* from = const_cast<T*>(src.GetPhyAddr());
    T* to = dst.GetPhyAddr();
    // 64-bit elements go as pairs of 32-bit ones.
    const auto leftPad = static_cast<uint8_t>(sizeof(T) == 8 ? left * 2 : left);
    const auto rightPad = static_cast<uint8_t>(sizeof(T) == 8 ? right * 2 : right);
    if constexpr (sizeof(T) == 1) {
        copy_gm_to_ubuf_align_b8(to, from, 0, p.blockCount, p.blockLen, leftPad, rightPad, p.srcStride, p.dstStride,
                                 loc);
    } else if constexpr (sizeof(T) == 2) {
        copy_gm_to_ubuf_align_b16(to, from, 0, p.blockCount, p.blockLen, leftPad, rightPad, p.srcStride, p.dstStride,
                                  loc);
    } else {
        copy_gm_to_ubuf_align_b32(to, from, 0, p.blockCount, p.blockLen, leftPad, rightPad, p.srcStride, p.dstStride,
                                  loc);
    }
}
template <typename T>
inline void PadOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p,
                   cpu_twin::SourceLoc loc)
{
    CheckExtParams(p, loc);
    Require(src, Hardware::UB, "DataCopyPad source", loc);
    auto* to = const_cast<T*>(dst.GetPhyAddr());
    T* from = src.GetPhyAddr();
    if constexpr (sizeof(T) == 1) {
        copy_ubuf_to_gm_align_b8(to, from, 0, p.blockCount, p.blockLen, 0, 0, p.srcStride, p.dstStride, loc);
    } else if constexpr (sizeof(T) == 2) {
        copy_ubuf_to_gm_align_b16(to, from, 0, p.blockCount, p.blockLen, 0, 0, p.srcStride, p.dstStride, loc);
    } else {
        copy_ubuf_to_gm_align_b32(to, from, 0, p.blockCount, p.blockLen, 0, 0, p.srcStride, p.dstStride, loc);
    }
}
inline DataCopyExtParams Widen(const DataCopyParams& p)
{
    return {p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0};
}

}    // namespace Twin

// ---- blocks ----
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams,
                     TWIN_SITE)
{
    Twin::CopyIn(dst, src, repeatParams.blockCount, repeatParams.blockLen, repeatParams.srcStride,
                 repeatParams.dstStride, loc);
}
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams,
                     TWIN_SITE)
{
    Twin::CopyOut(dst, src, repeatParams.blockCount, repeatParams.blockLen, repeatParams.srcStride,
                  repeatParams.dstStride, loc);
}
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams,
                     TWIN_SITE)
{
    Twin::CopyLocal(dst, src, repeatParams.blockCount, repeatParams.blockLen, repeatParams.srcStride,
                    repeatParams.dstStride, loc);
}
// L1 to the bias table: blockLen and dstStride in 64 bytes. half becomes float on the way.
template <typename T, typename U>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& repeatParams,
                     TWIN_SITE)
{
    static_assert(std::is_same_v<T, U> || (std::is_same_v<T, float> && std::is_same_v<U, half>),
                  "DataCopy between types: only half in L1 to float in the bias table");
    Twin::CopyLocal(dst, src, repeatParams.blockCount, repeatParams.blockLen, repeatParams.srcStride,
                    repeatParams.dstStride, loc);
}

// ---- count elements, whole blocks ----
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count, TWIN_SITE)
{
    Twin::CopyIn(dst, src, 1, Twin::WholeBlocks<T>(count, "DataCopy", loc), 0, 0, loc);
}
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, TWIN_SITE)
{
    Twin::CopyOut(dst, src, 1, Twin::WholeBlocks<T>(count, "DataCopy", loc), 0, 0, loc);
}
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, TWIN_SITE)
{
    Twin::RequireUb(loc, dst, src);
    Twin::CopyLocal(dst, src, 1, Twin::WholeBlocks<T>(count, "DataCopy", loc), 0, 0, loc);
}

// ---- GM to L1, row-major to columns of fractals ----
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p, TWIN_SITE)
{
    static_assert(sizeof(T) <= 4, "DataCopy ND2NZ takes 8-, 16- and 32-bit elements");
    Twin::Require(dst, Hardware::L1, "DataCopy ND2NZ destination", loc);
    T* to = dst.GetPhyAddr();
    auto* from = const_cast<T*>(src.GetPhyAddr());
    if constexpr (sizeof(T) == 1) {
        copy_gm_to_cbuf_multi_nd2nz_b8(to, from, 0, p.ndNum, p.nValue, p.dValue, p.srcNdMatrixStride, p.srcDValue,
                                       p.dstNzC0Stride, p.dstNzNStride, p.dstNzMatrixStride, loc);
    } else if constexpr (sizeof(T) == 2) {
        copy_gm_to_cbuf_multi_nd2nz_b16(to, from, 0, p.ndNum, p.nValue, p.dValue, p.srcNdMatrixStride, p.srcDValue,
                                        p.dstNzC0Stride, p.dstNzNStride, p.dstNzMatrixStride, loc);
    } else {
        copy_gm_to_cbuf_multi_nd2nz_b32s(to, from, 0, p.ndNum, p.nValue, p.dValue, p.srcNdMatrixStride, p.srcDValue,
                                         p.dstNzC0Stride, p.dstNzNStride, p.dstNzMatrixStride, loc);
    }
}

// ---- any length in bytes, between GM and UB ----
template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                        const DataCopyPadExtParams<T>& padParams, TWIN_SITE)
{
    Twin::PadIn(dst, src, dataCopyParams, padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                cpu_twin::ops::Bits(padParams.paddingValue), loc);
}
template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& dataCopyParams,
                        const DataCopyPadParams& padParams, TWIN_SITE)
{
    Twin::PadIn(dst, src, Twin::Widen(dataCopyParams), padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                padParams.paddingValue, loc);
}
template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                        TWIN_SITE)
{
    Twin::PadOut(dst, src, dataCopyParams, loc);
}
template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& dataCopyParams,
                        TWIN_SITE)
{
    Twin::PadOut(dst, src, Twin::Widen(dataCopyParams), loc);
}
template <typename T, TPosition pos = TPosition::MAX> inline void SetPadValue(T paddingValue)
{
    set_mov_pad_val(cpu_twin::ops::Bits(paddingValue));
}

// ---- UB to UB on the vector unit, with mask and strides ----
namespace Twin {
template <typename T>
inline void VectorCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t repeat, const CopyRepeatParams& p,
                       cpu_twin::SourceLoc loc)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Copy takes 16- and 32-bit elements");
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    RequireUb(loc, dst, src);
    vcopy(reinterpret_cast<Bits*>(dst.GetPhyAddr()), reinterpret_cast<Bits*>(src.GetPhyAddr()), repeat, p.dstStride,
          p.srcStride, p.dstRepeatSize, p.srcRepeatSize, loc);
}
}    // namespace Twin

template <typename T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const uint8_t repeatTime,
                 const CopyRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::VectorCopy(dst, src, repeatTime, repeatParams, loc);
}
template <typename T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const uint8_t repeatTime,
                 const CopyRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::VectorCopy(dst, src, repeatTime, repeatParams, loc);
}

}    // namespace AscendC
