// SPDX-License-Identifier: Apache-2.0
// What core this is, registers a kernel may set, workspace, scalar helpers.
#pragma once

#include "tensor.h"

namespace AscendC {

inline int64_t GetBlockNum() { return get_block_num(); }
// Vector cores per cube core of a MIX kernel, 1 otherwise.
inline int64_t GetTaskRatio()
{
    const int64_t vectorCores = cpu_twin::ops::SubBlockDim();
    return vectorCores > 0 ? vectorCores : 1;
}
inline int64_t GetTaskRation() { return GetTaskRatio(); }
inline int64_t GetSubBlockNum() { return GetTaskRatio(); }
inline int64_t GetSubBlockIdx() { return get_subblockid(); }
// On a cube core its block; on a vector core its own number, counted through all blocks.
inline int64_t GetBlockIdx()
{
    if (ASCEND_IS_AIV) {
        return get_block_idx() * GetTaskRatio() + get_subblockid();
    }
    return get_block_idx();
}
inline int64_t GetSystemCycle() { return get_sys_cnt(); }
inline constexpr int16_t GetDataBlockSizeInBytes() { return ONE_BLK_SIZE; }
[[noreturn]] inline void Trap(TWIN_SITE) { trap(0, loc); }

// The twin has no system workspace: the user's begins at the pointer the kernel got, as in the public CPU-debug mode.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace, TWIN_SITE)
{
    if (workspace == nullptr) {
        Twin::Refuse(loc, "GetUserWorkspace: the kernel was launched without a workspace");
    }
    return workspace;
}

// ---- mask register ----
inline void SetMaskCount() { set_mask_count(); }
inline void SetMaskNorm() { set_mask_norm(); }
inline void ResetMask() { set_vector_mask(FULL_MASK, FULL_MASK); }
template <typename T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow)
{
    set_vector_mask(maskHigh, maskLow);
}
template <typename T, MaskMode mode = MaskMode::NORMAL> inline void SetVectorMask(int32_t len, TWIN_SITE)
{
    if constexpr (mode == MaskMode::COUNTER) {
        set_vector_mask(0, static_cast<uint64_t>(len));
    } else {
        Twin::SetContinuousMask(static_cast<uint64_t>(len), sizeof(T), loc);
    }
}

// ---- cube control bits ----
namespace Twin {
inline void SetControlBit(int bit, bool value)
{
    const auto old = static_cast<uint64_t>(get_ctrl());
    const uint64_t flag = uint64_t{1} << bit;
    set_ctrl(value ? old | flag : old & ~flag);
}
}    // namespace Twin

// The order in which Mmad finishes C: along M first (column major) or along N first.
inline void SetMMColumnMajor() { Twin::SetControlBit(51, false); }
inline void SetMMRowMajor() { Twin::SetControlBit(51, true); }
inline void SetMMLayoutTransform(bool mmLayoutMode) { Twin::SetControlBit(51, mmLayoutMode); }

// ---- scalar unit ----
template <int countValue> inline int64_t ScalarGetCountOfValue(uint64_t valueIn)
{
    static_assert(countValue == 0 || countValue == 1, "ScalarGetCountOfValue counts zeros or ones");
    const int ones = __builtin_popcountll(valueIn);
    return countValue == 1 ? ones : 64 - ones;
}
inline int64_t ScalarCountLeadingZero(uint64_t valueIn) { return valueIn == 0 ? 64 : __builtin_clzll(valueIn); }
template <int countValue> inline int64_t ScalarGetSFFValue(uint64_t valueIn)
{
    static_assert(countValue == 0 || countValue == 1, "ScalarGetSFFValue looks for the first zero or one");
    const uint64_t bits = countValue == 1 ? valueIn : ~valueIn;
    return bits == 0 ? -1 : __builtin_ctzll(bits);
}
inline bfloat16_t Cast(const float& fVal) { return bfloat16_t(fVal); }
inline float Cast(const bfloat16_t& bVal) { return static_cast<float>(bVal); }

}    // namespace AscendC
