// SPDX-License-Identifier: Apache-2.0
// Reductions: over a repeat, over 32-byte blocks, over neighbouring pairs, over a whole tensor.
#pragma once

#include "vector_select.h"

namespace AscendC {

namespace Twin {
inline Order_t OrderOf(ReduceOrder order) { return static_cast<Order_t>(order); }
inline uint32_t NotNegative(int32_t value, const char* what, cpu_twin::SourceLoc loc)
{
    if (value < 0) {
        Refuse(loc, "%s: expected at least 0, got %d", what, value);
    }
    return static_cast<uint32_t>(value);
}
}    // namespace Twin

// One result a repeat. dstRepStride counts results: elements, or (value, index) pairs. The index is that within the
// repeat, stored as an unsigned integer of the element's width.
#define TWIN_WHOLE_EXTREME(API, INTRINSIC)                                                                     \
    template <typename T, bool isSetMask = true>                                                               \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],               \
                    const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,          \
                    const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, TWIN_SITE) \
    {                                                                                                          \
        Twin::RequireUb(loc, dst, src);                                                                        \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::NotNegative(repeatTime, #API " repeatTime", loc),  \
                  Twin::NotNegative(dstRepStride, #API " dstRepStride", loc),                                  \
                  Twin::NotNegative(srcBlkStride, #API " srcBlkStride", loc),                                  \
                  Twin::NotNegative(srcRepStride, #API " srcRepStride", loc), Twin::OrderOf(order), loc);      \
    }                                                                                                          \
    template <typename T, bool isSetMask = true>                                                               \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,                  \
                    const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,          \
                    const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, TWIN_SITE) \
    {                                                                                                          \
        Twin::RequireUb(loc, dst, src);                                                                        \
        Twin::SetMask<T, isSetMask>(static_cast<uint64_t>(Twin::NotNegative(mask, #API " mask", loc)), loc);   \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::NotNegative(repeatTime, #API " repeatTime", loc),  \
                  Twin::NotNegative(dstRepStride, #API " dstRepStride", loc),                                  \
                  Twin::NotNegative(srcBlkStride, #API " srcBlkStride", loc),                                  \
                  Twin::NotNegative(srcRepStride, #API " srcRepStride", loc), Twin::OrderOf(order), loc);      \
    }
TWIN_WHOLE_EXTREME(WholeReduceMax, vcmax)
TWIN_WHOLE_EXTREME(WholeReduceMin, vcmin)
#undef TWIN_WHOLE_EXTREME

template <typename T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
                           const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                           const int32_t srcRepStride, TWIN_SITE)
{
    Twin::RequireUb(loc, dst, src);
    Twin::SetMask<T, isSetMask>(mask, loc);
    vcadd(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::NotNegative(repeatTime, "WholeReduceSum repeatTime", loc),
          Twin::NotNegative(dstRepStride, "WholeReduceSum dstRepStride", loc),
          Twin::NotNegative(srcBlkStride, "WholeReduceSum srcBlkStride", loc),
          Twin::NotNegative(srcRepStride, "WholeReduceSum srcRepStride", loc), 0, loc);
}
template <typename T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                           const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                           const int32_t srcRepStride, TWIN_SITE)
{
    Twin::SetMask<T, isSetMask>(static_cast<uint64_t>(Twin::NotNegative(mask, "WholeReduceSum mask", loc)), loc);
    WholeReduceSum<T, false>(dst, src, MASK_PLACEHOLDER_LIST, repeatTime, dstRepStride, srcBlkStride, srcRepStride,
                             loc);
}
// dstBlkStride is reserved: one result a repeat has no blocks.
template <typename T, bool isSetMask = true>
inline void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,
                            const int32_t mask, const int32_t dstBlkStride, const int32_t srcBlkStride,
                            const int32_t dstRepStride, const int32_t srcRepStride, TWIN_SITE)
{
    if (dstBlkStride != 0 && dstBlkStride != 1) {
        Twin::Refuse(loc, "RepeatReduceSum: dstBlkStride is reserved, expected 0 or 1, got %d", dstBlkStride);
    }
    WholeReduceSum<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, loc);
}

// Eight results a repeat (blocks) or half the elements (pairs). dstRepStride counts what one repeat gives. Note that
// these take the repeats before the mask.
#define TWIN_PART_REDUCE(API, INTRINSIC)                                                                           \
    template <typename T, bool isSetMask = true>                                                                   \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,                \
                    const uint64_t mask[], const int32_t dstRepStride, const int32_t srcBlkStride,                 \
                    const int32_t srcRepStride, TWIN_SITE)                                                         \
    {                                                                                                              \
        Twin::RequireUb(loc, dst, src);                                                                            \
        Twin::SetMask<T, isSetMask>(mask, loc);                                                                    \
        INTRINSIC(dst.GetPhyAddr(), src.GetPhyAddr(), Twin::NotNegative(repeatTime, #API " repeatTime", loc),      \
                  Twin::NotNegative(dstRepStride, #API " dstRepStride", loc),                                      \
                  Twin::NotNegative(srcBlkStride, #API " srcBlkStride", loc),                                      \
                  Twin::NotNegative(srcRepStride, #API " srcRepStride", loc), loc);                                \
    }                                                                                                              \
    template <typename T, bool isSetMask = true>                                                                   \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,                \
                    const int32_t mask, const int32_t dstRepStride, const int32_t srcBlkStride,                    \
                    const int32_t srcRepStride, TWIN_SITE)                                                         \
    {                                                                                                              \
        Twin::SetMask<T, isSetMask>(static_cast<uint64_t>(Twin::NotNegative(mask, #API " mask", loc)), loc);       \
        API<T, false>(dst, src, repeatTime, MASK_PLACEHOLDER_LIST, dstRepStride, srcBlkStride, srcRepStride, loc); \
    }
TWIN_PART_REDUCE(BlockReduceSum, vcgadd)
TWIN_PART_REDUCE(BlockReduceMax, vcgmax)
TWIN_PART_REDUCE(BlockReduceMin, vcgmin)
TWIN_PART_REDUCE(PairReduceSum, vcpadd)
#undef TWIN_PART_REDUCE

// ---- the same under the newer names, mask first ----
namespace Twin {
template <typename T, typename U> constexpr void OneReduceType()
{
    static_assert(std::is_same_v<T, U>, "reduction: dav-2201 has one type for source and result");
}
}    // namespace Twin
template <ReduceType reduceType, typename T, typename U, bool isSetMask = true, typename M>
inline std::enable_if_t<std::is_convertible_v<M, int32_t> || std::is_convertible_v<M, const uint64_t*>> ReduceDataBlock(
    const LocalTensor<T>& dst, const LocalTensor<U>& src, const M& mask, const int32_t repeatTime,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride, TWIN_SITE)
{
    Twin::OneReduceType<T, U>();
    static_assert(reduceType == ReduceType::SUM || reduceType == ReduceType::MAX || reduceType == ReduceType::MIN,
                  "ReduceDataBlock has SUM, MAX and MIN");
    if constexpr (reduceType == ReduceType::SUM) {
        BlockReduceSum<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, loc);
    } else if constexpr (reduceType == ReduceType::MAX) {
        BlockReduceMax<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, loc);
    } else {
        BlockReduceMin<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, loc);
    }
}
template <ReduceType reduceType, typename T, typename U, bool isSetMask = true, typename M>
inline std::enable_if_t<std::is_convertible_v<M, int32_t> || std::is_convertible_v<M, const uint64_t*>> ReducePairElem(
    const LocalTensor<T>& dst, const LocalTensor<U>& src, const M& mask, const int32_t repeatTime,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride, TWIN_SITE)
{
    Twin::OneReduceType<T, U>();
    static_assert(reduceType == ReduceType::SUM, "ReducePairElem has SUM");
    PairReduceSum<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride, srcRepStride, loc);
}
template <ReduceType reduceType, typename T, typename U, bool isSetMask = true, typename M>
inline std::enable_if_t<std::is_convertible_v<M, int32_t> || std::is_convertible_v<M, const uint64_t*>> ReduceRepeat(
    const LocalTensor<T>& dst, const LocalTensor<U>& src, const M& mask, const int32_t repeatTime,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, TWIN_SITE)
{
    Twin::OneReduceType<T, U>();
    static_assert(reduceType == ReduceType::SUM || reduceType == ReduceType::MAX || reduceType == ReduceType::MIN,
                  "ReduceRepeat has SUM, MAX and MIN");
    if constexpr (reduceType == ReduceType::SUM) {
        (void)order;    // a sum has no index; the documentation gives the parameter no meaning for it
        WholeReduceSum<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, loc);
    } else if constexpr (reduceType == ReduceType::MAX) {
        WholeReduceMax<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, order, loc);
    } else {
        WholeReduceMin<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, order, loc);
    }
}

// ---- a whole tensor, in software: reductions of repeats until one value is left ----
namespace Twin {

enum class Extreme { MAX, MIN };

inline TPipe* PipeForFlags(const char* api, cpu_twin::SourceLoc loc)
{
    TPipe* pipe = GetTPipePtr();
    if (pipe == nullptr) {
        Refuse(loc, "%s sets flags of its own and needs a TPipe to take their ids from", api);
    }
    return pipe;
}
// The vector unit's results for the scalar unit, and the scalar unit's for the vector unit and the copies out.
inline void VectorToScalar(TPipe* pipe, cpu_twin::SourceLoc loc)
{
    const TEventID id = pipe->FetchEventID(HardEvent::V_S, loc);
    SetFlag<HardEvent::V_S>(id, loc);
    WaitFlag<HardEvent::V_S>(id, loc);
}
inline void ScalarToOthers(TPipe* pipe, cpu_twin::SourceLoc loc)
{
    const TEventID toVector = pipe->FetchEventID(HardEvent::S_V, loc);
    SetFlag<HardEvent::S_V>(toVector, loc);
    WaitFlag<HardEvent::S_V>(toVector, loc);
    const TEventID toCopies = pipe->FetchEventID(HardEvent::S_MTE3, loc);
    SetFlag<HardEvent::S_MTE3>(toCopies, loc);
    WaitFlag<HardEvent::S_MTE3>(toCopies, loc);
}

template <typename T, Extreme which>
inline void Extremes(T* dst, T* src, uint32_t repeat, uint32_t srcRepStride, Order_t order, cpu_twin::SourceLoc loc)
{
    for (uint32_t done = 0; done < repeat; done += MAX_REPEAT_TIMES) {
        const uint32_t now = repeat - done < MAX_REPEAT_TIMES ? repeat - done : MAX_REPEAT_TIMES;
        T* from = src + static_cast<size_t>(done) * srcRepStride * ONE_BLK_SIZE / sizeof(T);
        T* to = dst + (order == Order_t::ONLY_VALUE ? done : 2 * done);
        if constexpr (which == Extreme::MAX) {
            vcmax(to, from, now, 1, 1, srcRepStride, order, loc);
        } else {
            vcmin(to, from, now, 1, 1, srcRepStride, order, loc);
        }
    }
}
// One result for every repeat of `count` consecutive elements, a short last one included. Returns how many.
template <typename T, Extreme which>
inline uint32_t ExtremesOf(T* dst, T* src, uint32_t count, Order_t order, cpu_twin::SourceLoc loc)
{
    constexpr uint32_t LANES = ONE_REPEAT_BYTE_SIZE / sizeof(T);
    const uint32_t whole = count / LANES;
    const uint32_t tail = count % LANES;
    if (whole > 0) {
        set_vector_mask(FULL_MASK, FULL_MASK);
        Extremes<T, which>(dst, src, whole, DEFAULT_REPEAT_STRIDE, order, loc);
    }
    if (tail > 0) {
        if (whole > 0 && dst == src) {
            pipe_barrier(PIPE_V, loc);
        }
        SetContinuousMask(tail, sizeof(T), loc);
        Extremes<T, which>(dst + (order == Order_t::ONLY_VALUE ? whole : 2 * whole),
                           src + static_cast<size_t>(whole) * LANES, 1, DEFAULT_REPEAT_STRIDE, order, loc);
    }
    return whole + (tail > 0 ? 1 : 0);
}
// `values` candidates in `work` become one in dst.
template <typename T, Extreme which>
inline void FinishExtreme(T* dst, T* work, uint32_t values, cpu_twin::SourceLoc loc)
{
    constexpr uint32_t LANES = ONE_REPEAT_BYTE_SIZE / sizeof(T);
    pipe_barrier(PIPE_V, loc);
    while (values > LANES) {
        values = ExtremesOf<T, which>(work, work, values, Order_t::ONLY_VALUE, loc);
        pipe_barrier(PIPE_V, loc);
    }
    ExtremesOf<T, which>(dst, work, values, Order_t::ONLY_VALUE, loc);
}
// The first best of `pairs` (value, index) pairs, found by the scalar unit; a pair's index counts from its own repeat.
template <typename T, Extreme which>
inline void FinishWithIndex(T* dst, const T* work, uint32_t pairs, uint32_t repeatDistance, cpu_twin::SourceLoc loc)
{
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    TPipe* pipe = PipeForFlags("ReduceMax/ReduceMin with index", loc);
    VectorToScalar(pipe, loc);
    T best = cpu_twin::ScalarRead(work, loc);
    uint64_t index = cpu_twin::ScalarRead(reinterpret_cast<const Bits*>(work + 1), loc);
    for (uint32_t i = 1; i < pairs; ++i) {
        const T value = cpu_twin::ScalarRead(work + 2 * i, loc);
        if (which == Extreme::MAX ? float(value) > float(best) : float(value) < float(best)) {
            best = value;
            index = cpu_twin::ScalarRead(reinterpret_cast<const Bits*>(work + 2 * i + 1), loc) +
                    static_cast<uint64_t>(i) * repeatDistance;
        }
    }
    cpu_twin::ScalarWrite(dst, best, loc);
    cpu_twin::ScalarWrite(reinterpret_cast<Bits*>(dst + 1), static_cast<Bits>(index), loc);
    ScalarToOthers(pipe, loc);
}

template <typename T, Extreme which>
inline void ReduceExtremeRepeats(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& tmp,
                                 uint32_t repeat, uint32_t srcRepStride, bool calIndex, cpu_twin::SourceLoc loc)
{
    T* work = tmp.GetPhyAddr();
    if (calIndex) {
        Extremes<T, which>(work, src.GetPhyAddr(), repeat, srcRepStride, Order_t::VALUE_INDEX, loc);
        FinishWithIndex<T, which>(dst.GetPhyAddr(), work, repeat, srcRepStride * ONE_BLK_SIZE / sizeof(T), loc);
    } else {
        Extremes<T, which>(work, src.GetPhyAddr(), repeat, srcRepStride, Order_t::ONLY_VALUE, loc);
        FinishExtreme<T, which>(dst.GetPhyAddr(), work, repeat, loc);
    }
}
template <typename T, Extreme which>
inline void ReduceExtremeCount(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& tmp,
                               int32_t count, bool calIndex, cpu_twin::SourceLoc loc)
{
    RequireUb(loc, dst, src, tmp);
    if (count <= 0) {
        Refuse(loc, "reduction: expected a count of at least 1, got %d", count);
    }
    T* work = tmp.GetPhyAddr();
    if (calIndex) {
        const uint32_t pairs =
            ExtremesOf<T, which>(work, src.GetPhyAddr(), static_cast<uint32_t>(count), Order_t::VALUE_INDEX, loc);
        FinishWithIndex<T, which>(dst.GetPhyAddr(), work, pairs, ONE_REPEAT_BYTE_SIZE / sizeof(T), loc);
    } else {
        const uint32_t values =
            ExtremesOf<T, which>(work, src.GetPhyAddr(), static_cast<uint32_t>(count), Order_t::ONLY_VALUE, loc);
        FinishExtreme<T, which>(dst.GetPhyAddr(), work, values, loc);
    }
    set_vector_mask(FULL_MASK, FULL_MASK);
}

}    // namespace Twin

#define TWIN_REDUCE_EXTREME(API, WHICH)                                                                          \
    template <typename T>                                                                                        \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
                    const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0, \
                    TWIN_SITE)                                                                                   \
    {                                                                                                            \
        Twin::RequireUb(loc, dst, src, sharedTmpBuffer);                                                         \
        Twin::SetContinuousMask(Twin::NotNegative(mask, #API " mask", loc), sizeof(T), loc);                     \
        Twin::ReduceExtremeRepeats<T, Twin::Extreme::WHICH>(                                                     \
            dst, src, sharedTmpBuffer, Twin::NotNegative(repeatTime, #API " repeatTime", loc),                   \
            Twin::NotNegative(srcRepStride, #API " srcRepStride", loc), calIndex, loc);                          \
    }                                                                                                            \
    template <typename T>                                                                                        \
    inline void API(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
                    const int32_t count, bool calIndex = 0, TWIN_SITE)                                           \
    {                                                                                                            \
        Twin::ReduceExtremeCount<T, Twin::Extreme::WHICH>(dst, src, sharedTmpBuffer, count, calIndex, loc);      \
    }
TWIN_REDUCE_EXTREME(ReduceMax, MAX)
TWIN_REDUCE_EXTREME(ReduceMin, MIN)
#undef TWIN_REDUCE_EXTREME

// The sum of count elements, accumulated over the repeats in the accumulation register. The temporary is not needed.
template <typename T, bool isSetMask = true>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                      const int32_t count, TWIN_SITE)
{
    static_assert(isSetMask, "ReduceSum by count sets the mask itself");
    Twin::RequireUb(loc, dst, src, sharedTmpBuffer);
    TPipe* pipe = Twin::PipeForFlags("ReduceSum", loc);
    const Twin::CountMask mask(count, loc);
    vcadd(dst.GetPhyAddr(), src.GetPhyAddr(), 1, 1, 1, 8, 1, loc);
    Twin::VectorToScalar(pipe, loc);
    const int64_t bits = get_acc_val();
    T sum;
    std::memcpy(&sum, &bits, sizeof(sum));
    cpu_twin::ScalarWrite(dst.GetPhyAddr(), sum, loc);
    Twin::ScalarToOthers(pipe, loc);
}

}    // namespace AscendC
