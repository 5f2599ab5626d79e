// SPDX-License-Identifier: Apache-2.0
// Conversions between element types. A pair of types the hardware lacks does not compile; a rounding mode the pair
// lacks is refused at the call.
#pragma once

#include "vector_math.h"

namespace AscendC {
namespace Twin {

// The five rounding modes that most conversions have.
#define TWIN_ROUNDED(PAIR)                                               \
    case RoundMode::CAST_RINT: vconv_##PAIR##r(TWIN_CAST_ARGS); return;  \
    case RoundMode::CAST_FLOOR: vconv_##PAIR##f(TWIN_CAST_ARGS); return; \
    case RoundMode::CAST_CEIL: vconv_##PAIR##c(TWIN_CAST_ARGS); return;  \
    case RoundMode::CAST_ROUND: vconv_##PAIR##a(TWIN_CAST_ARGS); return; \
    case RoundMode::CAST_TRUNC: vconv_##PAIR##z(TWIN_CAST_ARGS); return;
#define TWIN_EXACT(PAIR) \
    case RoundMode::CAST_NONE: vconv_##PAIR(TWIN_CAST_ARGS); return;
#define TWIN_CAST_ARGS d, s, repeat, p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride, loc
#define TWIN_CAST(DST, SRC, CASES)                                       \
    else if constexpr (std::is_same_v<T, DST> && std::is_same_v<U, SRC>) \
    {                                                                    \
        switch (mode) {                                                  \
            CASES                                                        \
            default: break;                                              \
        }                                                                \
    }

template <typename T, typename U>
inline void Convert(const LocalTensor<T>& dst, const LocalTensor<U>& src, RoundMode mode, uint32_t repeat,
                    const UnaryRepeatParams& p, cpu_twin::SourceLoc loc)
{
    RequireUb(loc, dst, src);
    CheckUnary(p, loc);
    T* d = dst.GetPhyAddr();
    U* s = src.GetPhyAddr();
    if constexpr (std::is_same_v<T, half> && std::is_same_v<U, float>) {
        switch (mode) {
            TWIN_EXACT(f322f16)
            TWIN_ROUNDED(f322f16)
            case RoundMode::CAST_ODD: vconv_f322f16o(TWIN_CAST_ARGS); return;
            default: break;
        }
    }
    TWIN_CAST(bfloat16_t, float, TWIN_ROUNDED(f322bf16))
    TWIN_CAST(float, float, TWIN_ROUNDED(f322f32))
    TWIN_CAST(int16_t, float, TWIN_ROUNDED(f322s16))
    TWIN_CAST(int32_t, float, TWIN_ROUNDED(f322s32))
    TWIN_CAST(int64_t, float, TWIN_ROUNDED(f322s64))
    TWIN_CAST(float, half, TWIN_EXACT(f162f32))
    TWIN_CAST(int32_t, half, TWIN_ROUNDED(f162s32))
    TWIN_CAST(int16_t, half, TWIN_ROUNDED(f162s16))
    TWIN_CAST(int8_t, half, TWIN_EXACT(f162s8) TWIN_ROUNDED(f162s8))
    TWIN_CAST(uint8_t, half, TWIN_EXACT(f162u8) TWIN_ROUNDED(f162u8))
    TWIN_CAST(float, bfloat16_t, TWIN_EXACT(bf162f32))
    TWIN_CAST(int32_t, bfloat16_t, TWIN_ROUNDED(bf162s32))
    TWIN_CAST(half, uint8_t, TWIN_EXACT(u82f16))
    TWIN_CAST(half, int8_t, TWIN_EXACT(s82f16))
    TWIN_CAST(half, int16_t, TWIN_EXACT(s162f16) TWIN_ROUNDED(s162f16))
    TWIN_CAST(float, int16_t, TWIN_EXACT(s162f32))
    TWIN_CAST(float, int32_t, TWIN_EXACT(s322f32) TWIN_ROUNDED(s322f32))
    TWIN_CAST(int16_t, int32_t, TWIN_EXACT(s322s16))
    TWIN_CAST(int64_t, int32_t, TWIN_EXACT(s322s64))
    TWIN_CAST(int32_t, int64_t, TWIN_EXACT(s642s32))
    TWIN_CAST(float, int64_t, TWIN_ROUNDED(s642f32))
    else if constexpr (std::is_same_v<T, half> && std::is_same_v<U, int32_t>)
    {
        // Multiplies with the scale that SetDeqScale left; the rounding mode plays no part.
        vconv_deq(TWIN_CAST_ARGS);
        return;
    }
    else
    {
        static_assert(!std::is_same_v<T, T>, "Cast: dav-2201 has no conversion between these types");
    }
    Refuse(loc,
           "Cast: the conversion does not have rounding mode %d (CAST_NONE is for exact conversions; CAST_ODD only for "
           "float to half)",
           static_cast<int>(mode));
}

#undef TWIN_CAST
#undef TWIN_CAST_ARGS
#undef TWIN_EXACT
#undef TWIN_ROUNDED

template <typename T, typename U> using Wider = std::conditional_t<(sizeof(T) > sizeof(U)), T, U>;
// Repeat strides of consecutive data: the narrower side advances less than 8 blocks a repeat.
template <typename T, typename U> inline UnaryRepeatParams ConsecutiveCast()
{
    constexpr size_t WIDE = sizeof(Wider<T, U>);
    return {1, 1, static_cast<uint8_t>(8 * sizeof(T) / WIDE), static_cast<uint8_t>(8 * sizeof(U) / WIDE)};
}

}    // namespace Twin

// `mask` counts elements of a repeat of the wider type.
template <typename T, typename U, bool isSetMask = true>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
                 const uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<Twin::Wider<T, U>, isSetMask>(mask, loc);
    Twin::Convert(dst, src, roundMode, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask,
                 const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<Twin::Wider<T, U>, isSetMask>(mask, loc);
    Twin::Convert(dst, src, roundMode, repeatTime, repeatParams, loc);
}
template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint32_t count,
                 TWIN_SITE)
{
    const Twin::CountMask mask(count, loc);
    Twin::Convert(dst, src, roundMode, 1, Twin::ConsecutiveCast<T, U>(), loc);
}

inline void SetDeqScale(half scale) { set_deqscale(scale); }

}    // namespace AscendC
