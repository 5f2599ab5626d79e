// SPDX-License-Identifier: Apache-2.0
// Comparisons into bit masks, selection by bit masks. One bit an element, the lowest bit of a byte first.
#pragma once

#include "vector_cast.h"

namespace AscendC {

namespace Twin {

// Runs CALL with the intrinsic whose name ends in the comparison.
#define TWIN_COMPARE(PREFIX, ...)                           \
    switch (cmpMode) {                                      \
        case CMPMODE::LT: PREFIX##_lt(__VA_ARGS__); return; \
        case CMPMODE::GT: PREFIX##_gt(__VA_ARGS__); return; \
        case CMPMODE::EQ: PREFIX##_eq(__VA_ARGS__); return; \
        case CMPMODE::LE: PREFIX##_le(__VA_ARGS__); return; \
        case CMPMODE::GE: PREFIX##_ge(__VA_ARGS__); return; \
        case CMPMODE::NE: PREFIX##_ne(__VA_ARGS__); return; \
    }                                                       \
    Refuse(loc, "compare: %d is not a CMPMODE", static_cast<int>(cmpMode))

template <typename T> inline void RequireEquality(CMPMODE cmpMode, cpu_twin::SourceLoc loc)
{
    static_assert(SupportType<T, half, float, int32_t>(), "compare takes half, float, and int32_t for CMPMODE::EQ");
    if (std::is_same_v<T, int32_t> && cmpMode != CMPMODE::EQ) {
        Refuse(loc, "compare: int32_t has CMPMODE::EQ only on dav-2201");
    }
}
template <typename U> constexpr void CheckMaskType()
{
    static_assert(SupportType<U, int8_t, uint8_t>(), "the result of a comparison is a tensor of int8_t or uint8_t");
}

template <typename T, typename U>
inline void CompareTensors(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                           CMPMODE cmpMode, uint32_t first, uint32_t repeat, const BinaryRepeatParams& p,
                           cpu_twin::SourceLoc loc)
{
    CheckMaskType<U>();
    RequireEquality<T>(cmpMode, loc);
    RequireUb(loc, dst, src0, src1);
    RefuseReserved(p, loc);
    auto* d = reinterpret_cast<uint8_t*>(dst.GetPhyAddr()) + first / 8;
    T* a = src0.GetPhyAddr() + first;
    T* b = src1.GetPhyAddr() + first;
    if constexpr (std::is_same_v<T, int32_t>) {
        vcmpv_eq(d, a, b, repeat, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride, p.src0RepStride,
                 p.src1RepStride, loc);
    } else {
        TWIN_COMPARE(vcmpv, d, a, b, repeat, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride,
                     p.src0RepStride, p.src1RepStride, loc);
    }
}
template <typename T, typename U>
inline void CompareWithScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src, T scalar, CMPMODE cmpMode,
                              uint32_t first, uint32_t repeat, const UnaryRepeatParams& p, cpu_twin::SourceLoc loc)
{
    CheckMaskType<U>();
    RequireEquality<T>(cmpMode, loc);
    RequireUb(loc, dst, src);
    CheckUnary(p, loc);
    auto* d = reinterpret_cast<uint8_t*>(dst.GetPhyAddr()) + first / 8;
    T* a = src.GetPhyAddr() + first;
    if constexpr (std::is_same_v<T, int32_t>) {
        vcmpvs_eq(d, a, scalar, repeat, p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride, loc);
    } else {
        TWIN_COMPARE(vcmpvs, d, a, scalar, repeat, p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride, loc);
    }
}
template <typename T>
inline void CompareToRegister(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                              const BinaryRepeatParams& p, cpu_twin::SourceLoc loc)
{
    static_assert(SupportType<T, half, float>(), "a comparison into the register takes half or float");
    RequireUb(loc, src0, src1);
    RefuseReserved(p, loc);
    T* a = src0.GetPhyAddr();
    T* b = src1.GetPhyAddr();
    TWIN_COMPARE(vcmp, a, b, 1, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride, p.src0RepStride,
                 p.src1RepStride, loc);
}
#undef TWIN_COMPARE

// dav-2201 always compares whole repeats; the documentation calls the mask a reserved parameter without effect.
template <typename T> inline void RequireWholeRepeat(uint64_t mask, cpu_twin::SourceLoc loc)
{
    if (mask != MASK_PLACEHOLDER && mask != ONE_REPEAT_BYTE_SIZE / sizeof(T)) {
        Refuse(loc,
               "compare: the mask has no effect on dav-2201, whole repeats are compared; pass MASK_PLACEHOLDER or %zu, "
               "got %lu",
               ONE_REPEAT_BYTE_SIZE / sizeof(T), static_cast<unsigned long>(mask));
    }
}
template <typename T> inline void RequireWholeRepeat(const uint64_t mask[], cpu_twin::SourceLoc loc)
{
    const bool none = mask[0] == 0 && mask[1] == 0;
    const bool all = mask[0] == FULL_MASK && (sizeof(T) == 4 || mask[1] == FULL_MASK);
    if (!none && !all) {
        Refuse(loc,
               "compare: the mask has no effect on dav-2201, whole repeats are compared; pass MASK_PLACEHOLDER_LIST or "
               "a full mask");
    }
}

constexpr uint32_t COMPARE_REPEATS = 252;    // of one instruction; the result of as many is a multiple of 32 bytes
template <typename T> inline uint32_t WholeRepeats(uint32_t count, cpu_twin::SourceLoc loc)
{
    constexpr uint32_t LANES = ONE_REPEAT_BYTE_SIZE / sizeof(T);
    if (count % LANES != 0) {
        Refuse(loc, "compare: expected a count of whole repeats of %u elements, got %u", LANES, count);
    }
    return count / LANES;
}

}    // namespace Twin

// ---- two tensors ----
template <typename T, typename U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    const uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::RequireWholeRepeat<T>(mask, loc);
    Twin::CompareTensors(dst, src0, src1, cmpMode, 0, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    const uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::RequireWholeRepeat<T>(mask, loc);
    Twin::CompareTensors(dst, src0, src1, cmpMode, 0, repeatTime, repeatParams, loc);
}
template <typename T, typename U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    uint32_t count, TWIN_SITE)
{
    const uint32_t repeats = Twin::WholeRepeats<T>(count, loc);
    for (uint32_t done = 0; done < repeats; done += Twin::COMPARE_REPEATS) {
        const uint32_t now = repeats - done < Twin::COMPARE_REPEATS ? repeats - done : Twin::COMPARE_REPEATS;
        Twin::CompareTensors(dst, src0, src1, cmpMode, done * (ONE_REPEAT_BYTE_SIZE / sizeof(T)), now, {}, loc);
    }
}
// One repeat, into the compare-mask register.
template <typename T, bool isSetMask = true>
inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask[],
                    const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::CompareToRegister(src0, src1, cmpMode, repeatParams, loc);
}
template <typename T, bool isSetMask = true>
inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask,
                    const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::CompareToRegister(src0, src1, cmpMode, repeatParams, loc);
}
template <typename T> inline void GetCmpMask(const LocalTensor<T>& dst, TWIN_SITE)
{
    Twin::RequireUb(loc, dst);
    get_cmpmask(dst.GetPhyAddr(), loc);
}
template <typename T> inline void SetCmpMask(const LocalTensor<T>& src, TWIN_SITE)
{
    Twin::RequireUb(loc, src);
    set_cmpmask(src.GetPhyAddr(), loc);
}

// ---- tensor and scalar ----
template <typename T, typename U, bool isSetMask = true>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                     const uint64_t mask[], uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::RequireWholeRepeat<T>(mask, loc);
    Twin::CompareWithScalar(dst, src0, src1Scalar, cmpMode, 0, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                     const uint64_t mask, uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::RequireWholeRepeat<T>(mask, loc);
    Twin::CompareWithScalar(dst, src0, src1Scalar, cmpMode, 0, repeatTime, repeatParams, loc);
}
template <typename T, typename U>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                     uint32_t count, TWIN_SITE)
{
    const uint32_t repeats = Twin::WholeRepeats<T>(count, loc);
    for (uint32_t done = 0; done < repeats; done += Twin::COMPARE_REPEATS) {
        const uint32_t now = repeats - done < Twin::COMPARE_REPEATS ? repeats - done : Twin::COMPARE_REPEATS;
        Twin::CompareWithScalar(dst, src0, src1Scalar, cmpMode, done * (ONE_REPEAT_BYTE_SIZE / sizeof(T)), now, {},
                                loc);
    }
}
template <typename T, typename U>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                          uint32_t count, TWIN_SITE)
{
    Compares(dst, src0, src1Scalar, cmpMode, count, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                          const uint64_t mask, uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Compares<T, U, isSetMask>(dst, src0, src1Scalar, cmpMode, mask, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                          const uint64_t mask[], uint8_t repeatTime, const UnaryRepeatParams& repeatParams, TWIN_SITE)
{
    Compares<T, U, isSetMask>(dst, src0, src1Scalar, cmpMode, mask, repeatTime, repeatParams, loc);
}

// ---- select ----
namespace Twin {

template <typename T> inline T* Scratch()
{
    return reinterpret_cast<T*>(cpu_twin::LocalBase(cpu_twin::Mem::UB) + TMP_UB_OFFSET);
}
template <typename U> inline void CheckSelectMaskType()
{
    static_assert(SupportType<U, int8_t, uint8_t, uint16_t, uint32_t, uint64_t>(),
                  "Select: the mask is a tensor of int8_t, uint8_t, uint16_t, uint32_t or uint64_t");
}

// Mode 0 reads the mask bits from the register, mode 2 their address. The vector unit itself writes the address to
// scratch: a store by the scalar unit would have to be ordered against it by flags of its own.
template <typename U> inline void PrepareSelect(const LocalTensor<U>& selMask, SELMODE selMode, cpu_twin::SourceLoc loc)
{
    CheckSelectMaskType<U>();
    Require(selMask, Hardware::UB, "Select mask", loc);
    if (selMode == SELMODE::VSEL_CMPMASK_SPR) {
        set_cmpmask(selMask.GetPhyAddr(), loc);
    } else if (selMode == SELMODE::VSEL_TENSOR_TENSOR_MODE) {
        const auto address = reinterpret_cast<uint64_t>(selMask.GetPhyAddr());
        auto* scratch = Scratch<uint32_t>();
        set_vector_mask(0, 0b01);
        vector_dup(scratch, static_cast<uint32_t>(address), 1, 1, 1, 8, 0, loc);
        set_vector_mask(0, 0b10);
        vector_dup(scratch, static_cast<uint32_t>(address >> 32), 1, 1, 1, 8, 0, loc);
        set_vector_mask(FULL_MASK, FULL_MASK);
        pipe_barrier(PIPE_V, loc);
        set_cmpmask(scratch, loc);
    } else {
        Refuse(loc, "Select: VSEL_TENSOR_SCALAR_MODE takes a scalar as second source");
    }
    pipe_barrier(PIPE_V, loc);
}
// Mode 1 reads its scalar from the register. Leaves the mask register for the caller to set.
template <typename T> inline void PrepareSelectScalar(T scalar, SELMODE selMode, cpu_twin::SourceLoc loc)
{
    if (selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE) {
        Refuse(loc, "Select: a scalar as second source needs VSEL_TENSOR_SCALAR_MODE");
    }
    T* scratch = Scratch<T>();
    set_vector_mask(0, 0xffffffffULL);
    vector_dup(scratch, scalar, 1, 1, 1, 8, 0, loc);
    pipe_barrier(PIPE_V, loc);
    set_cmpmask(scratch, loc);
    pipe_barrier(PIPE_V, loc);
}
template <typename T>
inline void SelectTensors(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                          SELMODE selMode, uint32_t repeat, const BinaryRepeatParams& p, cpu_twin::SourceLoc loc)
{
    RequireUb(loc, dst, src0, src1);
    RefuseReserved(p, loc);
    vsel(dst.GetPhyAddr(), src0.GetPhyAddr(), src1.GetPhyAddr(), repeat, p.dstBlkStride, p.src0BlkStride,
         p.src1BlkStride, p.dstRepStride, p.src0RepStride, p.src1RepStride, static_cast<uint8_t>(selMode), loc);
}
template <typename T, typename U>
inline void SelectScalar(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                         uint32_t repeat, const BinaryRepeatParams& p, cpu_twin::SourceLoc loc)
{
    CheckSelectMaskType<U>();
    RequireUb(loc, dst, src0);
    Require(selMask, Hardware::UB, "Select mask", loc);
    RefuseReserved(p, loc);
    vsel(dst.GetPhyAddr(), src0.GetPhyAddr(), selMask.GetPhyAddr(), repeat, p.dstBlkStride, p.src0BlkStride,
         p.src1BlkStride, p.dstRepStride, p.src0RepStride, p.src1RepStride,
         static_cast<uint8_t>(SELMODE::VSEL_TENSOR_SCALAR_MODE), loc);
}

}    // namespace Twin

template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask[], uint8_t repeatTime,
                   const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::PrepareSelect(selMask, selMode, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::SelectTensors(dst, src0, src1, selMode, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask, uint8_t repeatTime,
                   const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::PrepareSelect(selMask, selMode, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::SelectTensors(dst, src0, src1, selMode, repeatTime, repeatParams, loc);
}
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE selMode, uint32_t count, TWIN_SITE)
{
    Twin::PrepareSelect(selMask, selMode, loc);
    const Twin::CountMask mask(count, loc);
    Twin::SelectTensors(dst, src0, src1, selMode, 1, {}, loc);
    pipe_barrier(PIPE_V, loc);
}
// The compare-mask register and the vector mask as the caller set them.
template <typename T, SELMODE selMode>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   uint8_t repeatTime, const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    static_assert(selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE, "Select: this form takes two tensors");
    Twin::SelectTensors(dst, src0, src1, selMode, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                   SELMODE selMode, uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& repeatParams,
                   TWIN_SITE)
{
    Twin::PrepareSelectScalar(src1, selMode, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::SelectScalar(dst, selMask, src0, repeatTime, repeatParams, loc);
}
template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                   SELMODE selMode, uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams,
                   TWIN_SITE)
{
    Twin::PrepareSelectScalar(src1, selMode, loc);
    Twin::SetMask<T, isSetMask>(mask, loc);
    Twin::SelectScalar(dst, selMask, src0, repeatTime, repeatParams, loc);
}
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                   SELMODE selMode, uint32_t count, TWIN_SITE)
{
    Twin::PrepareSelectScalar(src1, selMode, loc);
    const Twin::CountMask mask(count, loc);
    Twin::SelectScalar(dst, selMask, src0, 1, {}, loc);
}
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   uint8_t repeatTime, const BinaryRepeatParams& repeatParams, TWIN_SITE)
{
    Twin::SelectScalar(dst, selMask, src0, repeatTime, repeatParams, loc);
}

}    // namespace AscendC
