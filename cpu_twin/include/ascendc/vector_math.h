// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic on the vector unit. Each function comes in three forms: a bit mask per element of a repeat,
// the first `mask` elements of each repeat, and the first `count` elements in all.
#pragma once

#include "cube.h"

namespace AscendC {

// dst = src0 op src1
#define TWIN_BINARY(API, INTRINSIC)                                                                                   \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                \
                    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams& repeatParams, TWIN_SITE)     \
    {                                                                                                                 \
        Twin::RequireUb(loc, dst, src0, src1);                                                                        \
        Twin::RefuseReserved(repeatParams, loc);                                                                      \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                       \
        INTRINSIC(dst.GetPhyAddr(), src0.GetPhyAddr(), src1.GetPhyAddr(), repeatTime, repeatParams.dstBlkStride,      \
                  repeatParams.src0BlkStride, repeatParams.src1BlkStride, repeatParams.dstRepStride,                  \
                  repeatParams.src0RepStride, repeatParams.src1RepStride, loc);                                       \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, \
                    const uint8_t repeatTime, const BinaryRepeatParams& repeatParams, TWIN_SITE)                      \
    {                                                                                                                 \
        Twin::RequireUb(loc, dst, src0, src1);                                                                        \
        Twin::RefuseReserved(repeatParams, loc);                                                                      \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                       \
        INTRINSIC(dst.GetPhyAddr(), src0.GetPhyAddr(), src1.GetPhyAddr(), repeatTime, repeatParams.dstBlkStride,      \
                  repeatParams.src0BlkStride, repeatParams.src1BlkStride, repeatParams.dstRepStride,                  \
                  repeatParams.src0RepStride, repeatParams.src1RepStride, loc);                                       \
    }                                                                                                                 \
    template <typename T>                                                                                             \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                \
                    const int32_t& count, TWIN_SITE)                                                                  \
    {                                                                                                                 \
        Twin::RequireUb(loc, dst, src0, src1);                                                                        \
        const Twin::CountMask mask(count, loc);                                                                       \
        INTRINSIC(dst.GetPhyAddr(), src0.GetPhyAddr(), src1.GetPhyAddr(), 1, 1, 1, 1, 8, 8, 8, loc);                  \
    }

TWIN_BINARY(Add, vadd)
TWIN_BINARY(Sub, vsub)
TWIN_BINARY(Mul, vmul)
TWIN_BINARY(Div, vdiv)
TWIN_BINARY(Max, vmax)
TWIN_BINARY(Min, vmin)
TWIN_BINARY(And, vand)
TWIN_BINARY(Or, vor)
TWIN_BINARY(AddRelu, vaddrelu)
TWIN_BINARY(SubRelu, vsubrelu)
TWIN_BINARY(FusedMulAdd, vmadd)    // dst = src0 * dst + src1
TWIN_BINARY(FusedMulAddRelu, vmaddrelu)
#undef TWIN_BINARY

// dst += src0 * src1; half operands may add to a float dst.
namespace Twin {
template <typename T, typename U>
inline void MultiplyAccumulate(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                               uint32_t repeat, const BinaryRepeatParams& p, cpu_twin::SourceLoc loc)
{
    static_assert(std::is_same_v<T, U> || (std::is_same_v<T, float> && std::is_same_v<U, half>),
                  "MulAddDst: one type, or float += half * half");
    RequireUb(loc, dst, src0, src1);
    RefuseReserved(p, loc);
    vmla(dst.GetPhyAddr(), src0.GetPhyAddr(), src1.GetPhyAddr(), repeat, p.dstBlkStride, p.src0BlkStride,
         p.src1BlkStride, p.dstRepStride, p.src0RepStride, p.src1RepStride, loc);
}
}    // namespace Twin
template <typename T, typename U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams& repeatParams,
                      TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::MultiplyAccumulate(dst, src0, src1, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint64_t mask,
                      const uint8_t repeatTime, const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::MultiplyAccumulate(dst, src0, src1, repeatTime, repeatParams, loc);
}
template <typename T, typename U>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const int32_t& count, TWIN_SITE)
{
    const Twin::CountMask mask(count, loc);
    constexpr uint8_t SRC = sizeof(T) > sizeof(U) ? 4 : 8;
    Twin::MultiplyAccumulate(dst, src0, src1, 1, {1, 1, 1, 8, SRC, SRC}, loc);
}

// dst = op(src)
#define TWIN_UNARY(API, INTRINSIC)                                                                                   \
    template <typename T, bool isSetMask = true>                                                                     \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const uint8_t repeatTime, \
                    const UnaryRepeatParams& repeatParams, TWIN_SITE)                                                \
    {                                                                                                                \
        Twin::RequireUb(loc, dst, src);                                                                              \
        Twin::CheckUnary(repeatParams, loc);                                                                         \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                      \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), repeatTime, repeatParams.dstBlkStride,                         \
                  repeatParams.srcBlkStride, repeatParams.dstRepStride, repeatParams.srcRepStride, loc);             \
    }                                                                                                                \
    template <typename T, bool isSetMask = true>                                                                     \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint8_t repeatTime,   \
                    const UnaryRepeatParams& repeatParams, TWIN_SITE)                                                \
    {                                                                                                                \
        Twin::RequireUb(loc, dst, src);                                                                              \
        Twin::CheckUnary(repeatParams, loc);                                                                         \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                      \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), repeatTime, repeatParams.dstBlkStride,                         \
                  repeatParams.srcBlkStride, repeatParams.dstRepStride, repeatParams.srcRepStride, loc);             \
    }                                                                                                                \
    template <typename T>                                                                                            \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count, TWIN_SITE)           \
    {                                                                                                                \
        Twin::RequireUb(loc, dst, src);                                                                              \
        const Twin::CountMask mask(count, loc);                                                                      \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), 1, 1, 1, 8, 8, loc);                                           \
    }

TWIN_UNARY(Exp, vexp)
TWIN_UNARY(Ln, vln)
TWIN_UNARY(Abs, vabs)
TWIN_UNARY(Reciprocal, vrec)
TWIN_UNARY(Sqrt, vsqrt)
TWIN_UNARY(Rsqrt, vrsqrt)
TWIN_UNARY(Relu, vrelu)
TWIN_UNARY(Not, vnot)
#undef TWIN_UNARY

// dst = src op scalar
#define TWIN_SCALAR(API, INTRINSIC, ...)                                                                              \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],      \
                    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)                       \
    {                                                                                                                 \
        Twin::RequireUb(loc, dst, src);                                                                               \
        Twin::CheckUnary(repeatParams, loc);                                                                          \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                       \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), scalarValue, repeatTime, repeatParams.dstBlkStride,             \
                  repeatParams.srcBlkStride, repeatParams.dstRepStride, repeatParams.srcRepStride, ##__VA_ARGS__,     \
                  loc);                                                                                               \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,        \
                    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)                       \
    {                                                                                                                 \
        Twin::RequireUb(loc, dst, src);                                                                               \
        Twin::CheckUnary(repeatParams, loc);                                                                          \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                       \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), scalarValue, repeatTime, repeatParams.dstBlkStride,             \
                  repeatParams.srcBlkStride, repeatParams.dstRepStride, repeatParams.srcRepStride, ##__VA_ARGS__,     \
                  loc);                                                                                               \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count, \
                    TWIN_SITE)                                                                                        \
    {                                                                                                                 \
        Twin::RequireUb(loc, dst, src);                                                                               \
        if constexpr (isSetMask) {                                                                                    \
            const Twin::CountMask mask(count, loc);                                                                   \
            INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), scalarValue, 1, 1, 1, 8, 8, ##__VA_ARGS__, loc);            \
        } else {                                                                                                      \
            INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), scalarValue, 1, 1, 1, 8, 8, ##__VA_ARGS__, loc);            \
        }                                                                                                             \
    }

TWIN_SCALAR(Adds, vadds)
TWIN_SCALAR(Muls, vmuls)
TWIN_SCALAR(Maxs, vmaxs, false, false)
TWIN_SCALAR(Mins, vmins, false, false)
TWIN_SCALAR(LeakyRelu, vlrelu)
#undef TWIN_SCALAR

// Shifts by a scalar distance. ShiftRight of a signed type keeps the sign; roundEn rounds by the last bit shifted out.
namespace Twin {
template <typename T> inline uint32_t ShiftDistance(T scalar, cpu_twin::SourceLoc loc)
{
    const auto distance = static_cast<int64_t>(scalar);
    if (distance < 0 || distance > static_cast<int64_t>(sizeof(T) * 8)) {
        Refuse(loc, "shift: expected a distance of 0 to %zu bits, got %ld", sizeof(T) * 8, static_cast<long>(distance));
    }
    return static_cast<uint32_t>(distance);
}
}    // namespace Twin
template <typename T, bool isSetMask = true>
inline void ShiftLeft(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],
                      const uint8_t repeatTime, const UnaryRepeatParams& p, TWIN_SITE)
{
    Twin::RequireUb(loc, dst, src);
    Twin::CheckUnary(p, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    vshl(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::ShiftDistance(scalarValue, loc), repeatTime, p.dstBlkStride,
         p.srcBlkStride, p.dstRepStride, p.srcRepStride, loc);
}
template <typename T, bool isSetMask = true>
inline void ShiftLeft(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,
                      const uint8_t repeatTime, const UnaryRepeatParams& p, TWIN_SITE)
{
    Twin::RequireUb(loc, dst, src);
    Twin::CheckUnary(p, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    vshl(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::ShiftDistance(scalarValue, loc), repeatTime, p.dstBlkStride,
         p.srcBlkStride, p.dstRepStride, p.srcRepStride, loc);
}
template <typename T, bool isSetMask = true>
inline void ShiftLeft(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count,
                      TWIN_SITE)
{
    static_assert(isSetMask, "ShiftLeft by count sets the mask itself");
    Twin::RequireUb(loc, dst, src);
    const Twin::CountMask mask(count, loc);
    vshl(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::ShiftDistance(scalarValue, loc), 1, 1, 1, 8, 8, loc);
}
template <typename T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],
                       const uint8_t repeatTime, const UnaryRepeatParams& p, bool roundEn = false, TWIN_SITE)
{
    Twin::RequireUb(loc, dst, src);
    Twin::CheckUnary(p, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    vshr(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::ShiftDistance(scalarValue, loc), repeatTime, p.dstBlkStride,
         p.srcBlkStride, p.dstRepStride, p.srcRepStride, roundEn, loc);
}
template <typename T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,
                       const uint8_t repeatTime, const UnaryRepeatParams& p, bool roundEn = false, TWIN_SITE)
{
    Twin::RequireUb(loc, dst, src);
    Twin::CheckUnary(p, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    vshr(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::ShiftDistance(scalarValue, loc), repeatTime, p.dstBlkStride,
         p.srcBlkStride, p.dstRepStride, p.srcRepStride, roundEn, loc);
}
template <typename T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count,
                       TWIN_SITE)
{
    static_assert(isSetMask, "ShiftRight by count sets the mask itself");
    Twin::RequireUb(loc, dst, src);
    const Twin::CountMask mask(count, loc);
    vshr(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::ShiftDistance(scalarValue, loc), 1, 1, 1, 8, 8, false, loc);
}

// dst += src * scalar; half operands may add to a float dst.
namespace Twin {
template <typename T, typename U>
inline void AccumulateScaled(const LocalTensor<T>& dst, const LocalTensor<U>& src, U scalar, uint32_t repeat,
                             const UnaryRepeatParams& p, cpu_twin::SourceLoc loc)
{
    static_assert(std::is_same_v<T, U> || (std::is_same_v<T, float> && std::is_same_v<U, half>),
                  "Axpy: one type, or float += half * half");
    RequireUb(loc, dst, src);
    CheckUnary(p, loc);
    vaxpy(dst.GetPhyAddr(), src.GetPhyAddr(), scalar, repeat, p.dstBlkStride, p.srcBlkStride, p.dstRepStride,
          p.srcRepStride, loc);
}
}    // namespace Twin
template <typename T, typename U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask,
                 const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::AccumulateScaled(dst, src, scalarValue, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask[],
                 const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::AccumulateScaled(dst, src, scalarValue, repeatTime, repeatParams, loc);
}
template <typename T, typename U>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count,
                 TWIN_SITE)
{
    const Twin::CountMask mask(count, loc);
    constexpr uint8_t SRC = sizeof(T) > sizeof(U) ? 4 : 8;
    Twin::AccumulateScaled(dst, src, scalarValue, 1, {1, 1, 8, SRC}, loc);
}

// dst = scalar
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const uint8_t repeatTime,
                      const uint16_t dstBlockStride, const uint8_t dstRepeatStride, TWIN_SITE)
{
    Twin::RequireUb(loc, dst);
    Twin::SetMask<T, isSetMask>(mask, loc);
    vector_dup(dst.GetPhyAddr(), scalarValue, repeatTime, dstBlockStride, 1, dstRepeatStride, 0, loc);
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], const uint8_t repeatTime,
                      const uint16_t dstBlockStride, const uint8_t dstRepeatStride, TWIN_SITE)
{
    Twin::RequireUb(loc, dst);
    Twin::SetMask<T, isSetMask>(mask, loc);
    vector_dup(dst.GetPhyAddr(), scalarValue, repeatTime, dstBlockStride, 1, dstRepeatStride, 0, loc);
}
template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count, TWIN_SITE)
{
    Twin::RequireUb(loc, dst);
    const Twin::CountMask mask(count, loc);
    vector_dup(dst.GetPhyAddr(), scalarValue, 1, 1, 1, 8, 0, loc);
}

}    // namespace AscendC
