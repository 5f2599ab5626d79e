// SPDX-License-Identifier: Apache-2.0
// Order: between the pipes of a core, between cores, and between the scalar unit's cache and global memory; atomic
// copies.
#pragma once

#include "system.h"

namespace AscendC {

namespace Twin {

struct PipePair {
    pipe_t from;
    pipe_t to;
};
constexpr PipePair PipesOf(HardEvent event)
{
    switch (event) {
        case HardEvent::MTE2_MTE1: return {PIPE_MTE2, PIPE_MTE1};
        case HardEvent::MTE1_MTE2: return {PIPE_MTE1, PIPE_MTE2};
        case HardEvent::MTE1_M: return {PIPE_MTE1, PIPE_M};
        case HardEvent::M_MTE1: return {PIPE_M, PIPE_MTE1};
        case HardEvent::MTE2_V: return {PIPE_MTE2, PIPE_V};
        case HardEvent::V_MTE2: return {PIPE_V, PIPE_MTE2};
        case HardEvent::MTE3_V: return {PIPE_MTE3, PIPE_V};
        case HardEvent::V_MTE3: return {PIPE_V, PIPE_MTE3};
        case HardEvent::M_V: return {PIPE_M, PIPE_V};
        case HardEvent::V_M: return {PIPE_V, PIPE_M};
        case HardEvent::V_V: return {PIPE_V, PIPE_V};
        case HardEvent::MTE3_MTE1: return {PIPE_MTE3, PIPE_MTE1};
        case HardEvent::MTE1_MTE3: return {PIPE_MTE1, PIPE_MTE3};
        case HardEvent::MTE1_V: return {PIPE_MTE1, PIPE_V};
        case HardEvent::MTE2_M: return {PIPE_MTE2, PIPE_M};
        case HardEvent::M_MTE2: return {PIPE_M, PIPE_MTE2};
        case HardEvent::V_MTE1: return {PIPE_V, PIPE_MTE1};
        case HardEvent::M_FIX: return {PIPE_M, PIPE_FIX};
        case HardEvent::FIX_M: return {PIPE_FIX, PIPE_M};
        case HardEvent::MTE3_MTE2: return {PIPE_MTE3, PIPE_MTE2};
        case HardEvent::MTE2_MTE3: return {PIPE_MTE2, PIPE_MTE3};
        case HardEvent::S_V: return {PIPE_S, PIPE_V};
        case HardEvent::V_S: return {PIPE_V, PIPE_S};
        case HardEvent::S_MTE2: return {PIPE_S, PIPE_MTE2};
        case HardEvent::MTE2_S: return {PIPE_MTE2, PIPE_S};
        case HardEvent::S_MTE3: return {PIPE_S, PIPE_MTE3};
        case HardEvent::MTE3_S: return {PIPE_MTE3, PIPE_S};
        case HardEvent::MTE2_FIX: return {PIPE_MTE2, PIPE_FIX};
        case HardEvent::FIX_MTE2: return {PIPE_FIX, PIPE_MTE2};
        case HardEvent::FIX_S: return {PIPE_FIX, PIPE_S};
        case HardEvent::M_S: return {PIPE_M, PIPE_S};
        case HardEvent::FIX_MTE3: return {PIPE_FIX, PIPE_MTE3};
        case HardEvent::MTE1_FIX: return {PIPE_MTE1, PIPE_FIX};
        case HardEvent::FIX_MTE1: return {PIPE_FIX, PIPE_MTE1};
        case HardEvent::FIX_FIX: return {PIPE_FIX, PIPE_FIX};
        default: return {PIPE_ALL, PIPE_ALL};
    }
}

inline void CheckEventId(int32_t eventID, cpu_twin::SourceLoc loc)
{
    if (eventID < 0 || eventID > 7) {
        Refuse(loc, "event id: expected 0 to 7, got %d", eventID);
    }
}

// A pair on one pipe is a barrier on it, not a flag.
inline void SetEvent(HardEvent event, int32_t eventID, cpu_twin::SourceLoc loc)
{
    const PipePair pipes = PipesOf(event);
    CheckEventId(eventID, loc);
    if (pipes.from == pipes.to) {
        pipe_barrier(pipes.from, loc);
    } else {
        set_flag(pipes.from, pipes.to, static_cast<event_t>(eventID), loc);
    }
}
inline void WaitEvent(HardEvent event, int32_t eventID, cpu_twin::SourceLoc loc)
{
    const PipePair pipes = PipesOf(event);
    CheckEventId(eventID, loc);
    if (pipes.from != pipes.to) {
        wait_flag(pipes.from, pipes.to, static_cast<event_t>(eventID), loc);
    }
}

constexpr uint64_t CrossCoreMessage(uint64_t mode, uint64_t flagId) { return 1 | mode << 4 | flagId << 8; }

// Flag ids that SyncAll uses.
constexpr uint16_t SYNC_CUBE_ALL = 11;
constexpr uint16_t SYNC_VECTOR_TO_CUBE = 12;
constexpr uint16_t SYNC_CUBE_TO_VECTOR = 13;
constexpr uint16_t SYNC_VECTOR_ALL = 14;

}    // namespace Twin

template <HardEvent event> inline void SetFlag(int32_t eventID, TWIN_SITE)
{
    static_assert(event < HardEvent::MAX, "SetFlag: not an event");
    Twin::SetEvent(event, eventID, loc);
}
template <HardEvent event> inline void WaitFlag(int32_t eventID, TWIN_SITE)
{
    static_assert(event < HardEvent::MAX, "WaitFlag: not an event");
    Twin::WaitEvent(event, eventID, loc);
}
template <pipe_t pipe> inline void PipeBarrier(TWIN_SITE)
{
    static_assert(pipe != PIPE_S, "PipeBarrier: the scalar unit runs in order and has no barrier");
    pipe_barrier(pipe, loc);
}

template <uint8_t modeId, pipe_t pipe> inline void CrossCoreSetFlag(uint16_t flagId, TWIN_SITE)
{
    static_assert(modeId <= 2, "CrossCoreSetFlag: dav-2201 has modes 0, 1 and 2");
    if (flagId > 15) {
        Twin::Refuse(loc, "CrossCoreSetFlag: expected a flag id of 0 to 15, got %u", flagId);
    }
    ffts_cross_core_sync(pipe, Twin::CrossCoreMessage(modeId, flagId), loc);
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S> inline void CrossCoreWaitFlag(uint16_t flagId, TWIN_SITE)
{
    static_assert(modeId <= 2, "CrossCoreWaitFlag: dav-2201 has modes 0, 1 and 2");
    if (flagId > 15) {
        Twin::Refuse(loc, "CrossCoreWaitFlag: expected a flag id of 0 to 15, got %u", flagId);
    }
    wait_flag_dev(flagId, loc);
}

// All vector cores (isAIVOnly), or all cores of both kinds. Every core waits for its own pipes first.
template <bool isAIVOnly = true> inline void SyncAll(TWIN_SITE)
{
    const cpu_twin::ReservedFlagScope reserved;
    pipe_barrier(PIPE_ALL, loc);
    if constexpr (isAIVOnly) {
        ffts_cross_core_sync(PIPE_MTE3, Twin::CrossCoreMessage(0, Twin::SYNC_VECTOR_ALL), loc);
        wait_flag_dev(Twin::SYNC_VECTOR_ALL, loc);
    } else if (ASCEND_IS_AIC) {
        wait_flag_dev(Twin::SYNC_VECTOR_TO_CUBE, loc);
        ffts_cross_core_sync(PIPE_FIX, Twin::CrossCoreMessage(0, Twin::SYNC_CUBE_ALL), loc);
        wait_flag_dev(Twin::SYNC_CUBE_ALL, loc);
        ffts_cross_core_sync(PIPE_MTE3, Twin::CrossCoreMessage(2, Twin::SYNC_CUBE_TO_VECTOR), loc);
    } else {
        ffts_cross_core_sync(PIPE_MTE3, Twin::CrossCoreMessage(2, Twin::SYNC_VECTOR_TO_CUBE), loc);
        wait_flag_dev(Twin::SYNC_CUBE_TO_VECTOR, loc);
    }
}

// ---- scalar data cache and instruction cache ----
template <typename T, CacheLine entireType, DcciDst dcciDst>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst, TWIN_SITE)
{
    dcci(const_cast<T*>(dst.GetPhyAddr()), static_cast<uint64_t>(entireType), static_cast<uint64_t>(dcciDst), loc);
}
template <typename T, CacheLine entireType> inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst, TWIN_SITE)
{
    dcci(const_cast<T*>(dst.GetPhyAddr()), static_cast<uint64_t>(entireType), CACHELINE_ALL, loc);
}
// Asks for instructions ahead. The twin has no instruction cache: results cannot depend on it.
inline void ICachePreLoad(const int64_t preFetchLen, TWIN_SITE)
{
    if (preFetchLen < 0) {
        Twin::Refuse(loc, "ICachePreLoad: expected a length in units of 2 KB of at least 0, got %ld",
                     static_cast<long>(preFetchLen));
    }
}

// Past the scalar data cache.
template <typename T> inline void WriteGmByPassDCache(__gm__ T* addr, T value, TWIN_SITE)
{
    st_dev(value, addr, 0, loc);
}
template <typename T> inline T ReadGmByPassDCache(__gm__ T* addr, TWIN_SITE) { return ld_dev(addr, 0, loc); }

// ---- atomic copies from UB, L1 or L0C to global memory ----
namespace Twin {
template <typename T> inline void SelectAtomicType()
{
    static_assert(SupportType<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>(),
                  "atomic copies take float, half, bfloat16_t, int32_t, int16_t or int8_t");
    if constexpr (std::is_same_v<T, float>) {
        set_atomic_f32();
    } else if constexpr (std::is_same_v<T, half>) {
        set_atomic_f16();
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        set_atomic_bf16();
    } else if constexpr (std::is_same_v<T, int32_t>) {
        set_atomic_s32();
    } else if constexpr (std::is_same_v<T, int16_t>) {
        set_atomic_s16();
    } else {
        set_atomic_s8();
    }
}
}    // namespace Twin

template <typename T> inline void SetAtomicType() { Twin::SelectAtomicType<T>(); }
template <typename T> inline void SetAtomicAdd()
{
    Twin::SelectAtomicType<T>();
    set_atomic_add();
}
template <typename T> inline void SetAtomicMax()
{
    Twin::SelectAtomicType<T>();
    set_atomic_max();
}
template <typename T> inline void SetAtomicMin()
{
    Twin::SelectAtomicType<T>();
    set_atomic_min();
}
inline void SetAtomicNone() { set_atomic_none(); }
inline void DisableDmaAtomic() { set_atomic_none(); }

// The state every kernel starts from when it builds no TPipe.
inline void InitSocState()
{
    set_atomic_none();
    set_mask_norm();
    if (ASCEND_IS_AIC) {
        set_l1_3d_size(0);
        set_padding(0);
    } else {
        set_vector_mask(FULL_MASK, FULL_MASK);
    }
}

}    // namespace AscendC
