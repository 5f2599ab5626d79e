// SPDX-License-Identifier: Apache-2.0
// The cube unit: loads into L0A, L0B and L1, Mmad, Fixpipe, constant fill.
#pragma once

#include "data_copy.h"

namespace AscendC {

namespace Twin {

template <typename T> constexpr bool IsCubeElement()
{
    return SupportType<T, int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>();
}
inline addr_cal_mode_t AddressMode(uint8_t mode, const char* api, cpu_twin::SourceLoc loc)
{
    if (mode > 1) {
        Refuse(loc, "%s: expected addrMode 0 (rising) or 1 (falling), got %u", api, mode);
    }
    return mode == 0 ? inc : dec;
}
inline void CheckSid(uint8_t sid, cpu_twin::SourceLoc loc)
{
    if (sid != 0) {
        Refuse(loc, "LoadData2DParams::sid is obsolete: expected 0, got %u", sid);
    }
}
[[noreturn]] inline void NoLoadPath(const char* api, Hardware from, Hardware to, cpu_twin::SourceLoc loc)
{
    Refuse(loc, "%s: dav-2201 has no path from %s to %s", api, NameOf(from), NameOf(to));
}

inline uint64_t FmatrixRegister(uint16_t l1H, uint16_t l1W, const uint8_t padList[PAD_SIZE])
{
    uint64_t value = static_cast<uint64_t>(l1W) | static_cast<uint64_t>(l1H) << 16;
    for (uint32_t i = 0; i < PAD_SIZE; ++i) {
        value |= static_cast<uint64_t>(padList[i]) << (32 + 8 * i);
    }
    return value;
}
template <typename T> inline uint64_t PaddingRegister(T padValue)
{
    const uint64_t bits = cpu_twin::ops::Bits(padValue);
    return sizeof(T) == 1 ? bits << 8 | bits : bits;
}

}    // namespace Twin

// ---- whole fractals of 512 bytes ----
template <typename T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p, TWIN_SITE)
{
    static_assert(Twin::IsCubeElement<T>(), "LoadData does not take this type");
    Twin::CheckSid(p.sid, loc);
    if (p.ifTranspose && sizeof(T) != 2) {
        Twin::Refuse(loc,
                     "LoadData2DParams::ifTranspose takes 16-bit elements only; LoadDataWithTranspose takes others");
    }
    const addr_cal_mode_t mode = Twin::AddressMode(p.addrMode, "LoadData", loc);
    const Hardware from = Twin::HardwareOf(src);
    const Hardware to = Twin::HardwareOf(dst);
    if (from == Hardware::L1 && to == Hardware::L0A) {
        load_cbuf_to_ca(dst.GetPhyAddr(), src.GetPhyAddr(), p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, 0,
                        p.ifTranspose, mode, loc);
    } else if (from == Hardware::L1 && to == Hardware::L0B) {
        load_cbuf_to_cb(dst.GetPhyAddr(), src.GetPhyAddr(), p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, 0,
                        p.ifTranspose, mode, loc);
    } else {
        Twin::NoLoadPath("LoadData", from, to, loc);
    }
}
template <typename T>
inline void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& p, TWIN_SITE)
{
    static_assert(Twin::IsCubeElement<T>(), "LoadData does not take this type");
    Twin::CheckSid(p.sid, loc);
    if (p.ifTranspose) {
        Twin::Refuse(loc, "LoadData2DParams::ifTranspose: a load from GM cannot transpose");
    }
    const addr_cal_mode_t mode = Twin::AddressMode(p.addrMode, "LoadData", loc);
    auto* from = const_cast<T*>(src.GetPhyAddr());
    switch (Twin::HardwareOf(dst)) {
        case Hardware::L0A:
            load_gm_to_ca(dst.GetPhyAddr(), from, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, 0, mode, loc);
            return;
        case Hardware::L0B:
            load_gm_to_cb(dst.GetPhyAddr(), from, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, 0, mode, loc);
            return;
        case Hardware::L1:
            load_gm_to_cbuf(dst.GetPhyAddr(), from, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, 0, mode, loc);
            return;
        default: Twin::NoLoadPath("LoadData", Hardware::GM, Twin::HardwareOf(dst), loc);
    }
}
template <typename T>
inline void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                  const LoadData2dTransposeParams& p, TWIN_SITE)
{
    static_assert(SupportType<T, int8_t, uint8_t, half, bfloat16_t, int32_t, uint32_t, float>(),
                  "LoadDataWithTranspose does not take this type");
    const addr_cal_mode_t mode = Twin::AddressMode(p.addrMode, "LoadDataWithTranspose", loc);
    Twin::Require(src, Hardware::L1, "LoadDataWithTranspose source", loc);
    const Hardware to = Twin::HardwareOf(dst);
    if (to == Hardware::L0A) {
        load_cbuf_to_ca_transpose(dst.GetPhyAddr(), src.GetPhyAddr(), p.startIndex, p.repeatTimes, p.srcStride,
                                  p.dstGap, mode, p.dstFracGap, loc);
    } else if (to == Hardware::L0B) {
        load_cbuf_to_cb_transpose(dst.GetPhyAddr(), src.GetPhyAddr(), p.startIndex, p.repeatTimes, p.srcStride,
                                  p.dstGap, mode, p.dstFracGap, loc);
    } else {
        Twin::NoLoadPath("LoadDataWithTranspose", Hardware::L1, to, loc);
    }
}

// ---- image to columns ----
inline void SetFmatrix(uint16_t l1H, uint16_t l1W, const uint8_t padList[4], const FmatrixMode& fmatrixMode)
{
    const uint64_t value = Twin::FmatrixRegister(l1H, l1W, padList);
    if (fmatrixMode == FmatrixMode::FMATRIX_LEFT) {
        set_fmatrix(value);
    } else {
        set_fmatrix_b(value);
    }
}
template <typename T> inline void SetLoadDataPaddingValue(const T padValue)
{
    set_padding(Twin::PaddingRegister(padValue));
}
inline void SetLoadDataBoundary(uint32_t boundaryValue) { set_l1_3d_size(boundaryValue); }
inline void SetLoadDataRepeat(const LoadDataRepeatParam& p, TWIN_SITE)
{
    if (p.reserved != 0 || p.repeatMode > 1) {
        Twin::Refuse(loc, "SetLoadDataRepeat: expected repeatMode 0 or 1 and reserved 0, got %u and %u", p.repeatMode,
                     p.reserved);
    }
    set_l3d_rpt(static_cast<uint64_t>(p.repeatStride) | static_cast<uint64_t>(p.repeatTime) << 16 |
                static_cast<uint64_t>(p.repeatMode) << 24);
}

template <typename T, const IsResetLoad3dConfig& defaultConfig = IS_RESER_LOAD3D_DEFAULT_CONFIG, typename U = PrimT<T>,
          std::enable_if_t<std::is_same_v<PrimT<T>, U>, bool> = true>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2<U>& p, TWIN_SITE)
{
    static_assert(Twin::IsCubeElement<T>(), "LoadData does not take this type");
    if (p.enSmallK || p.fMatrixCtrl) {
        Twin::Refuse(loc,
                     "LoadData3DParamsV2: enSmallK and fMatrixCtrl are not supported on dav-2201, both must be false");
    }
    Twin::Require(src, Hardware::L1, "LoadData source", loc);
    if constexpr (defaultConfig.isSetFMatrix) {
        set_fmatrix(Twin::FmatrixRegister(p.l1H, p.l1W, p.padList));
    }
    if constexpr (defaultConfig.isSetPadding) {
        set_padding(Twin::PaddingRegister(p.padValue));
    }
    const Hardware to = Twin::HardwareOf(dst);
    if (to == Hardware::L0A) {
        if (sizeof(T) == 1 && p.enTranspose) {
            Twin::Refuse(loc, "LoadData3DParamsV2::enTranspose takes 16- and 32-bit elements only");
        }
        img2colv2_cbuf_to_ca(dst.GetPhyAddr(), src.GetPhyAddr(), p.kExtension, p.mExtension, p.kStartPt, p.mStartPt,
                             p.strideW, p.strideH, p.filterW, p.filterH, p.dilationFilterW, p.dilationFilterH,
                             p.filterSizeW, p.filterSizeH, p.enTranspose, p.fMatrixCtrl, p.channelSize, loc);
    } else if (to == Hardware::L0B) {
        if constexpr (sizeof(T) == 1) {
            Twin::Refuse(loc, "LoadData: 8-bit elements cannot be loaded into L0B as image columns");
        }
        // On this path the hardware always transposes; enTranspose has no meaning and is documented so.
        img2colv2_cbuf_to_cb(dst.GetPhyAddr(), src.GetPhyAddr(), p.kExtension, p.mExtension, p.kStartPt, p.mStartPt,
                             p.strideW, p.strideH, p.filterW, p.filterH, p.dilationFilterW, p.dilationFilterH,
                             p.filterSizeW, p.filterSizeH, p.enTranspose, p.fMatrixCtrl, p.channelSize, loc);
    } else {
        Twin::NoLoadPath("LoadData", Hardware::L1, to, loc);
    }
}

// ---- constant fill of L1, L0A or L0B ----
template <typename T, typename U = PrimT<T>, std::enable_if_t<std::is_same_v<PrimT<T>, U>, bool> = true>
inline void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& p, TWIN_SITE)
{
    static_assert(SupportType<T, half, bfloat16_t, int16_t, uint16_t, float, int32_t, uint32_t>(),
                  "Fill does not take this type");
    const auto config =
        static_cast<int64_t>(static_cast<uint64_t>(p.repeatTimes) | static_cast<uint64_t>(p.blockNum) << 16 |
                             static_cast<uint64_t>(p.dstGap) << 32);
    T* to = dst.GetPhyAddr();
    const auto run = [&](auto fill16, auto fillBf16, auto fill32) {
        if constexpr (std::is_same_v<T, bfloat16_t>) {
            fillBf16(to, p.initValue);
        } else if constexpr (sizeof(T) == 2) {
            half bits;
            std::memcpy(&bits, &p.initValue, sizeof(bits));
            fill16(to, bits);
        } else {
            fill32(to, static_cast<uint32_t>(cpu_twin::ops::Bits(p.initValue)));
        }
    };
    switch (Twin::HardwareOf(dst)) {
        case Hardware::L1:
            run([&](auto* d, half v) { create_cbuf_matrix(d, config, v, loc); },
                [&](auto* d, bfloat16_t v) { create_cbuf_matrix_bf16(d, config, v, loc); },
                [&](auto* d, uint32_t v) { create_cbuf_matrix(d, config, v, loc); });
            return;
        case Hardware::L0A:
            run([&](auto* d, half v) { create_ca_matrix(d, config, v, loc); },
                [&](auto* d, bfloat16_t v) { create_ca_matrix_bf16(d, config, v, loc); },
                [&](auto* d, uint32_t v) { create_ca_matrix(d, config, v, loc); });
            return;
        case Hardware::L0B:
            run([&](auto* d, half v) { create_cb_matrix(d, config, v, loc); },
                [&](auto* d, bfloat16_t v) { create_cb_matrix_bf16(d, config, v, loc); },
                [&](auto* d, uint32_t v) { create_cb_matrix(d, config, v, loc); });
            return;
        default:
            Twin::Refuse(loc, "Fill: expected a tensor in L1, L0A or L0B, got one in %s",
                         Twin::NameOf(Twin::HardwareOf(dst)));
    }
}
template <typename T, typename U = PrimT<T>, std::enable_if_t<std::is_same_v<PrimT<T>, U>, bool> = true>
inline void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams, TWIN_SITE)
{
    Fill(dst, initConstValueParams, loc);
}

// ---- multiply and accumulate ----
namespace Twin {
template <typename T, typename U, typename S>
inline void CheckMmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                      const MmadParams& p, cpu_twin::SourceLoc loc)
{
    static_assert(std::is_same_v<U, S>, "Mmad: both operands must have one type");
    static_assert((std::is_same_v<T, float> && SupportType<U, half, bfloat16_t, float>()) ||
                      (std::is_same_v<T, int32_t> && std::is_same_v<U, int8_t>),
                  "Mmad: float = half, bfloat16_t or float; int32_t = int8_t");
    if (p.fmOffset != 0 || p.enSsparse || p.enWinogradA || p.enWinogradB) {
        Refuse(
            loc,
            "MmadParams: fmOffset, enSsparse, enWinogradA and enWinogradB are obsolete and must keep their defaults");
    }
    if (p.unitFlag == 1 || p.unitFlag > 3) {
        Refuse(loc, "MmadParams::unitFlag: expected 0, 2 or 3, got %u", p.unitFlag);
    }
    Require(dst, Hardware::L0C, "Mmad destination", loc);
    Require(fm, Hardware::L0A, "Mmad left operand", loc);
    Require(filter, Hardware::L0B, "Mmad right operand", loc);
}
}    // namespace Twin

template <typename T, typename U, typename S>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& p,
                 TWIN_SITE)
{
    Twin::CheckMmad(dst, fm, filter, p, loc);
    mad(dst.GetPhyAddr(), fm.GetPhyAddr(), filter.GetPhyAddr(), p.m, p.k, p.n, p.unitFlag, p.kDirectionAlign,
        p.cmatrixSource, p.cmatrixInitVal && !p.isBias, loc);
}
// C starts from `bias`: one value a column from the bias table, or a whole C already in L0C.
template <typename T, typename U, typename S, typename V>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                 const LocalTensor<V>& bias, const MmadParams& p, TWIN_SITE)
{
    static_assert(std::is_same_v<V, T>, "Mmad: the bias must have the type of the result");
    Twin::CheckMmad(dst, fm, filter, p, loc);
    const Hardware from = Twin::HardwareOf(bias);
    if (from != Hardware::BIAS && from != Hardware::L0C) {
        Twin::Refuse(loc, "Mmad bias: expected a tensor in the bias table or L0C, got one in %s", Twin::NameOf(from));
    }
    if (from == Hardware::L0C && bias.GetPhyAddr() != dst.GetPhyAddr()) {
        Twin::Refuse(loc, "Mmad bias in L0C: the twin models only the result's own place");
    }
    if (p.cmatrixInitVal) {
        Twin::Refuse(
            loc,
            "Mmad with a bias: MmadParams::cmatrixInitVal is true (its default), so that C would start at zero "
            "instead of the bias; set it to false");
    }
    mad(dst.GetPhyAddr(), fm.GetPhyAddr(), filter.GetPhyAddr(), static_cast<uint64_t>(bias.address_.bufferAddr), p.m,
        p.k, p.n, p.unitFlag, p.kDirectionAlign, from == Hardware::BIAS, false, loc);
}

// ---- L0C to GM or L1 ----
inline void SetFixpipeNz2ndFlag(uint16_t ndNum, uint16_t srcNdStride, uint16_t dstNdStride, TWIN_SITE)
{
    if (srcNdStride > 512) {
        Twin::Refuse(loc, "SetFixpipeNz2ndFlag: expected srcNdStride of 0 to 512, got %u", srcNdStride);
    }
    set_nd_para(static_cast<uint64_t>(ndNum) | static_cast<uint64_t>(srcNdStride) << 16 |
                static_cast<uint64_t>(dstNdStride) << 32);
}
inline void SetFixpipePreQuantFlag(uint64_t config) { set_quant_pre(config); }

namespace Twin {

constexpr bool IsScalarQuant(QuantMode_t mode)
{
    return mode == QuantMode_t::DEQF16 || mode == QuantMode_t::QF322B8_PRE || mode == QuantMode_t::REQ8;
}
// What quantPre must be for a pair of types.
template <typename T, typename U> inline bool QuantFits(QuantMode_t mode)
{
    if constexpr (std::is_same_v<T, U>) {
        return mode == QuantMode_t::NoQuant;
    } else if constexpr (std::is_same_v<U, float>) {
        if constexpr (std::is_same_v<T, half>) {
            return mode == QuantMode_t::F322F16;
        } else if constexpr (std::is_same_v<T, bfloat16_t>) {
            return mode == QuantMode_t::F322BF16;
        } else {
            return mode == QuantMode_t::QF322B8_PRE;
        }
    } else if constexpr (std::is_same_v<T, half>) {
        return mode == QuantMode_t::DEQF16;
    } else {
        return mode == QuantMode_t::REQ8;
    }
}

template <typename T, typename U, const FixpipeConfig& config>
inline void PrepareFixpipe(const LocalTensor<U>& src, const FixpipeParamsV220& p, cpu_twin::SourceLoc loc)
{
    static_assert(
        (std::is_same_v<U, float> && SupportType<T, float, half, bfloat16_t, int8_t, uint8_t>()) ||
            (std::is_same_v<U, int32_t> && SupportType<T, int32_t, half, int8_t, uint8_t>()),
        "Fixpipe: float goes to float, half, bfloat16_t, int8_t or uint8_t, int32_t to int32_t, half, int8_t or "
        "uint8_t");
    static_assert(config.format != CO2Layout::COLUMN_MAJOR, "Fixpipe: dav-2201 cannot write column-major");
    Require(src, Hardware::L0C, "Fixpipe source", loc);
    if (!QuantFits<T, U>(p.quantPre)) {
        Refuse(
            loc,
            "FixpipeParamsV220::quantPre: %d does not fit the types of source and destination (vector quantisation is "
            "not modelled)",
            static_cast<int>(p.quantPre));
    }
    if (p.unitFlag == 1 || p.unitFlag > 3) {
        Refuse(loc, "FixpipeParamsV220::unitFlag: expected 0, 2 or 3, got %u", p.unitFlag);
    }
    const uint32_t step = p.isChannelSplit ? 8 : config.format == CO2Layout::ROW_MAJOR ? 1 : 16;
    const uint32_t maxM = config.format == CO2Layout::ROW_MAJOR ? 8192 : 65535;
    if (p.nSize > 4095 || p.nSize % step != 0 || p.mSize > maxM) {
        Refuse(loc, "FixpipeParamsV220: expected nSize of 0 to 4095 in steps of %u and mSize up to %u, got %u and %u",
               step, maxM, p.nSize, p.mSize);
    }
    if (p.isChannelSplit &&
        (config.format == CO2Layout::ROW_MAJOR || !std::is_same_v<T, float> || !std::is_same_v<U, float>)) {
        Refuse(loc, "FixpipeParamsV220::isChannelSplit: only float to float in NZ");
    }
    if constexpr (config.format == CO2Layout::ROW_MAJOR) {
        SetFixpipeNz2ndFlag(p.ndNum, p.srcNdStride, p.dstNdStride, loc);
    } else if (p.ndNum != 1 || p.srcNdStride != 0 || p.dstNdStride != 0) {
        Refuse(loc, "FixpipeParamsV220: ndNum, srcNdStride and dstNdStride belong to CFG_ROW_MAJOR; got %u, %u, %u",
               p.ndNum, p.srcNdStride, p.dstNdStride);
    }
    if (IsScalarQuant(p.quantPre)) {
        set_quant_pre(p.deqScalar);
    }
    pipe_barrier(PIPE_FIX, loc);
}

}    // namespace Twin

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
inline void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, TWIN_SITE)
{
    Twin::PrepareFixpipe<T, U, config>(src, p, loc);
    copy_matrix_cc_to_gm(const_cast<T*>(dst.GetPhyAddr()), src.GetPhyAddr(), 0, p.nSize, p.mSize, p.dstStride,
                         p.srcStride, p.unitFlag, p.quantPre, static_cast<uint8_t>(p.reluEn), p.isChannelSplit,
                         config.format == CO2Layout::ROW_MAJOR, loc);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
inline void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, TWIN_SITE)
{
    static_assert(config.format == CO2Layout::NZ, "Fixpipe to L1 writes NZ only: pass CFG_NZ");
    static_assert(!std::is_same_v<T, U>, "Fixpipe to L1 takes 8- and 16-bit destinations only");
    Twin::PrepareFixpipe<T, U, config>(src, p, loc);
    Twin::Require(dst, Hardware::L1, "Fixpipe destination", loc);
    copy_matrix_cc_to_cbuf(dst.GetPhyAddr(), src.GetPhyAddr(), 0, p.nSize, p.mSize, p.dstStride, p.srcStride,
                           p.unitFlag, p.quantPre, static_cast<uint8_t>(p.reluEn), p.isChannelSplit, false, loc);
}

}    // namespace AscendC
