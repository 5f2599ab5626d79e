// SPDX-License-Identifier: Apache-2.0
// Moving elements about in UB: broadcast of scalars, gathers, compaction by pattern, index vectors, 16 x 16 transposes.
#pragma once

#include "vector_reduce.h"

namespace AscendC {

namespace Twin {
template <typename T> using ElementBits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
template <typename T> inline ElementBits<T>* BitsOf(const LocalTensor<T>& t)
{
    return reinterpret_cast<ElementBits<T>*>(t.GetPhyAddr());
}
}    // namespace Twin

// Each of the 8 elements a repeat reads fills one 32-byte block.
template <typename T>
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime,
                 const BrcbRepeatParams& repeatParams, TWIN_SITE)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Brcb takes 16- and 32-bit elements");
    Twin::RequireUb(loc, dst, src);
    Twin::RefuseUnusedSources(repeatParams, "BrcbRepeatParams", loc);
    ResetMask();
    vbrcb(Twin::BitsOf(dst), Twin::BitsOf(src), repeatParams.dstBlkStride, repeatParams.dstRepStride, repeatTime, loc);
}

// Blocks of 32 bytes at byte offsets from src, 8 a repeat.
template <typename T>
inline void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                    const uint8_t repeatTime, const GatherRepeatParams& repeatParams, TWIN_SITE)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gatherb takes 16- and 32-bit elements");
    Twin::RequireUb(loc, dst, src);
    Twin::RequireUb(loc, offset);
    Twin::RefuseUnusedSources(repeatParams, "GatherRepeatParams", loc);
    ResetMask();
    vgatherb(Twin::BitsOf(dst), offset.GetPhyAddr(), src.address_.bufferAddr, repeatParams.dstRepStride,
             repeatParams.dstBlkStride, repeatTime, loc);
}

// Elements at byte offsets from src + srcBaseOffset bytes. dstRepStride in 32-byte blocks; the offsets are consecutive.
namespace Twin {
template <typename T>
inline void GatherElements(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                           uint32_t srcBaseOffset, uint32_t first, uint32_t repeat, uint32_t dstRepStride,
                           cpu_twin::SourceLoc loc)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather takes 16- and 32-bit elements");
    RequireUb(loc, dst, src);
    RequireUb(loc, srcOffset);
    vgather(BitsOf(dst) + first, srcOffset.GetPhyAddr() + first, src.address_.bufferAddr + srcBaseOffset, dstRepStride,
            repeat, loc);
}
}    // namespace Twin
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseOffset, const uint64_t mask, const uint8_t repeatTime,
                   const uint16_t dstRepStride, TWIN_SITE)
{
    Twin::SetMask<T, true>(mask, loc);
    Twin::GatherElements(dst, src, srcOffset, srcBaseOffset, 0, repeatTime, dstRepStride, loc);
}
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseOffset, const uint64_t mask[], const uint8_t repeatTime,
                   const uint16_t dstRepStride, TWIN_SITE)
{
    Twin::SetMask<T, true>(mask, loc);
    Twin::GatherElements(dst, src, srcOffset, srcBaseOffset, 0, repeatTime, dstRepStride, loc);
}
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseOffset, const uint32_t count, TWIN_SITE)
{
    constexpr uint32_t LANES = ONE_REPEAT_BYTE_SIZE / sizeof(T);
    const uint32_t whole = count / LANES;
    for (uint32_t done = 0; done < whole; done += MAX_REPEAT_TIMES) {
        const uint32_t now = whole - done < MAX_REPEAT_TIMES ? whole - done : MAX_REPEAT_TIMES;
        Twin::SetContinuousMask(LANES, sizeof(T), loc);
        Twin::GatherElements(dst, src, srcOffset, srcBaseOffset, done * LANES, now, DEFAULT_REPEAT_STRIDE, loc);
    }
    if (count % LANES != 0) {
        Twin::SetContinuousMask(count % LANES, sizeof(T), loc);
        Twin::GatherElements(dst, src, srcOffset, srcBaseOffset, whole * LANES, 1, DEFAULT_REPEAT_STRIDE, loc);
    }
    ResetMask();
}

// Packs the elements that a pattern selects. Pattern by tensor: a bit each; built in: 1 even, 2 odd, 3 to 6 every
// fourth, 7 all. reduceMode: `mask` elements of src0 in each repeat, else whole repeats. rsvdCnt gets the number of
// elements packed.
namespace Twin {
template <typename B>
inline void PackByPattern(B* dst, B* src0, B* pattern, uint8_t patternMode, bool reduceMode, uint32_t mask,
                          const GatherMaskParams& p, uint64_t& rsvdCnt, cpu_twin::SourceLoc loc)
{
    if (reduceMode) {
        if (mask == 0) {
            Refuse(loc, "GatherMask in reduce mode: expected a mask of at least 1 element");
        }
        set_mask_count();
        set_vector_mask(0, mask);
    } else {
        set_mask_norm();
        SetContinuousMask(ONE_REPEAT_BYTE_SIZE / sizeof(B), sizeof(B), loc);
    }
    vreducev2(dst, src0, pattern, p.repeatTimes, p.src0BlockStride, patternMode, p.src0RepeatStride, p.src1RepeatStride,
              loc);
    rsvdCnt = static_cast<uint64_t>(get_rsvd_cnt());
    set_mask_norm();
}
}    // namespace Twin
template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                       uint64_t& rsvdCnt, TWIN_SITE)
{
    static_assert(SupportType<U, uint16_t, uint32_t>() && sizeof(T) == sizeof(U),
                  "GatherMask: the pattern is uint16_t for 16-bit elements, uint32_t for 32-bit ones");
    static_assert(mode == GatherMaskMode::VERSION_V2, "GatherMask: dav-2201 has VERSION_V2");
    Twin::RequireUb(loc, dst, src0);
    Twin::RequireUb(loc, src1Pattern);
    Twin::PackByPattern<U>(Twin::BitsOf(dst), Twin::BitsOf(src0), src1Pattern.GetPhyAddr(), 0, reduceMode, mask,
                           gatherMaskParams, rsvdCnt, loc);
}
template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                       uint64_t& rsvdCnt, TWIN_SITE)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "GatherMask takes 16- and 32-bit elements");
    static_assert(mode == GatherMaskMode::VERSION_V2, "GatherMask: dav-2201 has VERSION_V2");
    Twin::RequireUb(loc, dst, src0);
    if (src1Pattern < 1 || src1Pattern > 7) {
        Twin::Refuse(loc, "GatherMask: expected a built-in pattern of 1 to 7, got %u", src1Pattern);
    }
    Twin::PackByPattern<Twin::ElementBits<T>>(Twin::BitsOf(dst), Twin::BitsOf(src0), Twin::BitsOf(src0), src1Pattern,
                                              reduceMode, mask, gatherMaskParams, rsvdCnt, loc);
}
inline int64_t GetGatherMaskRemainCount() { return get_rsvd_cnt(); }

// firstValue, firstValue + 1, ...: the scalar unit writes one block, the vector unit doubles it until count is reached.
template <typename T> inline void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count, TWIN_SITE)
{
    static_assert(SupportType<T, int16_t, int32_t, half, float>(),
                  "CreateVecIndex takes int16_t, int32_t, half and float");
    Twin::RequireUb(loc, dst);
    constexpr uint32_t BLOCK = ONE_BLK_SIZE / sizeof(T);
    TPipe* pipe = Twin::PipeForFlags("CreateVecIndex", loc);
    const TEventID before = pipe->FetchEventID(HardEvent::V_S, loc);
    SetFlag<HardEvent::V_S>(before, loc);
    WaitFlag<HardEvent::V_S>(before, loc);
    uint32_t done = count < BLOCK ? count : BLOCK;
    for (uint32_t i = 0; i < done; ++i) {
        dst.SetValue(i, static_cast<T>(firstValue + static_cast<T>(i)), loc);
    }
    const TEventID id = pipe->FetchEventID(HardEvent::S_V, loc);
    SetFlag<HardEvent::S_V>(id, loc);
    WaitFlag<HardEvent::S_V>(id, loc);
    while (done < count) {
        const uint32_t now = count - done < done ? count - done : done;
        Adds(dst[done], dst, static_cast<T>(done), static_cast<int32_t>(now), loc);
        pipe_barrier(PIPE_V, loc);
        done += now;
    }
}

// 16 rows of blocks become 16 columns.
namespace Twin {
constexpr int TRANSPOSE_ROWS = 16;
template <typename T>
inline void TransposeRows(const uint64_t dstList[TRANSPOSE_ROWS], const uint64_t srcList[TRANSPOSE_ROWS],
                          const TransDataTo5HDParams& p, cpu_twin::SourceLoc loc)
{
    static_assert(SupportType<T, int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>(),
                  "TransDataTo5HD does not take this type");
    set_va_reg_sb(VA0, dstList);
    set_va_reg_sb(VA1, dstList + TRANSPOSE_ROWS / 2);
    set_va_reg_sb(VA2, srcList);
    set_va_reg_sb(VA3, srcList + TRANSPOSE_ROWS / 2);
    if constexpr (sizeof(T) == 1) {
        scatter_vnchwconv_b8(VA0, VA2, p.repeatTimes, p.dstRepStride, p.srcRepStride, p.dstHighHalf, p.srcHighHalf,
                             loc);
    } else {
        if (p.dstHighHalf || p.srcHighHalf) {
            Refuse(loc, "TransDataTo5HDParams: dstHighHalf and srcHighHalf are for 8-bit elements");
        }
        if constexpr (sizeof(T) == 2) {
            scatter_vnchwconv_b16(VA0, VA2, p.repeatTimes, p.dstRepStride, p.srcRepStride, loc);
        } else {
            scatter_vnchwconv_b32(VA0, VA2, p.repeatTimes, p.dstRepStride, p.srcRepStride, loc);
        }
    }
}
}    // namespace Twin
template <typename T>
inline void TransDataTo5HD(uint64_t dstList[Twin::TRANSPOSE_ROWS], uint64_t srcList[Twin::TRANSPOSE_ROWS],
                           const TransDataTo5HDParams& nchwconvParams, TWIN_SITE)
{
    Twin::TransposeRows<T>(dstList, srcList, nchwconvParams, loc);
}
template <typename T>
inline void TransDataTo5HD(const LocalTensor<T> (&dstList)[Twin::TRANSPOSE_ROWS],
                           const LocalTensor<T> (&srcList)[Twin::TRANSPOSE_ROWS],
                           const TransDataTo5HDParams& nchwconvParams, TWIN_SITE)
{
    uint64_t dst[Twin::TRANSPOSE_ROWS];
    uint64_t src[Twin::TRANSPOSE_ROWS];
    for (int i = 0; i < Twin::TRANSPOSE_ROWS; ++i) {
        Twin::RequireUb(loc, dstList[i], srcList[i]);
        dst[i] = reinterpret_cast<uint64_t>(dstList[i].GetPhyAddr());
        src[i] = reinterpret_cast<uint64_t>(srcList[i].GetPhyAddr());
    }
    Twin::TransposeRows<T>(dst, src, nchwconvParams, loc);
}
// One 16 x 16 matrix of 16-bit elements.
template <typename T> inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, TWIN_SITE)
{
    static_assert(SupportType<T, int16_t, uint16_t, half>(), "Transpose takes int16_t, uint16_t and half");
    Twin::RequireUb(loc, dst, src);
    vtranspose(Twin::BitsOf(dst), Twin::BitsOf(src), loc);
}

}    // namespace AscendC
