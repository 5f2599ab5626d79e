// SPDX-License-Identifier: Apache-2.0
// Markers, constants and enumerations of the API, and the helpers the rest of the layer is written with.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "../../machine/intrinsics.h"

#define TWIN_SITE ::cpu_twin::SourceLoc loc = ::cpu_twin::SourceLoc::Here()

#define GM_ADDR __gm__ uint8_t*
#define ASCEND_IS_AIC (::cpu_twin::CurrentCoreKind() == ::cpu_twin::CoreKind::AIC)
#define ASCEND_IS_AIV (::cpu_twin::CurrentCoreKind() == ::cpu_twin::CoreKind::AIV)

// The operator build generates this macro; under the twin the tiling struct lies in global memory as the host wrote it.
#define GET_TILING_DATA_WITH_STRUCT(tilingStruct, tilingData, tilingArg) \
    tilingStruct tilingData;                                             \
    ::AscendC::Twin::ReadTiling(&tilingData, tilingArg, sizeof(tilingStruct))

// Tells the operator build which struct the tiling is; here it only has to be one.
#define REGISTER_TILING_DEFAULT(tilingStruct) \
    static_assert(std::is_class_v<tilingStruct>, "REGISTER_TILING_DEFAULT takes a struct")

#define KERNEL_TASK_TYPE_DEFAULT(value) ::AscendC::Twin::CheckTaskType(::AscendC::Twin::value)

namespace AscendC {

enum class TPosition : uint8_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM = VECCALC,
    SPM,
    SHM = SPM,
    TSCM,
    C2PIPE2GM,
    C2PIPE2LOCAL,
    MAX
};
using QuePosition = TPosition;

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

enum class HardEvent : uint8_t {
    MTE2_MTE1,
    MTE1_MTE2,
    MTE1_M,
    M_MTE1,
    MTE2_V,
    V_MTE2,
    MTE3_V,
    V_MTE3,
    M_V,
    V_M,
    V_V,
    MTE3_MTE1,
    MTE1_MTE3,
    MTE1_V,
    MTE2_M,
    M_MTE2,
    V_MTE1,
    M_FIX,
    FIX_M,
    MTE3_MTE2,
    MTE2_MTE3,
    S_V,
    V_S,
    S_MTE2,
    MTE2_S,
    S_MTE3,
    MTE3_S,
    MTE2_FIX,
    FIX_MTE2,
    FIX_S,
    M_S,
    FIX_MTE3,
    MTE1_FIX,
    FIX_MTE1,
    FIX_FIX,
    MAX
};

enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };
enum class RoundMode : uint8_t {
    CAST_NONE = 0,
    CAST_RINT,
    CAST_FLOOR,
    CAST_CEIL,
    CAST_ROUND,
    CAST_TRUNC,
    CAST_ODD,
    UNKNOWN = 0xFF
};
enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX = 0, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class ReduceType { NONE = -1, SUM = 0, MAX, MIN };
enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 = 1 };
enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
enum class FmatrixMode : uint8_t { FMATRIX_LEFT = 0, FMATRIX_RIGHT = 1 };
enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MemDsbT : uint8_t { ALL = 0, DDR, UB, SEQ };
enum class HF32Mode { ENABLE, DISABLE };
enum class AtomicDtype { ATOMIC_NONE = 0, ATOMIC_F32, ATOMIC_F16, ATOMIC_S16, ATOMIC_S32, ATOMIC_S8, ATOMIC_BF16 };
enum class AtomicOp { ATOMIC_SUM = 0 };

using TEventID = int8_t;
using TBufHandle = uint8_t*;
using TTagType = int32_t;
constexpr TEventID INVALID_TEVENTID = -1;

constexpr int32_t DEFAULT_BLK_NUM = 8;
constexpr int32_t DEFAULT_BLK_STRIDE = 1;
constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;
constexpr uint8_t HALF_DEFAULT_REPEAT_STRIDE = 4;
constexpr uint8_t DEFAULT_DATA_COPY_NBURST = 1;
constexpr uint8_t DEFAULT_DATA_COPY_STRIDE = 0;
constexpr int32_t MAX_REPEAT_TIMES = 255;
constexpr uint16_t ONE_BLK_SIZE = 32;    // bytes
constexpr int32_t ONE_REPEAT_BYTE_SIZE = 256;
constexpr int32_t BLOCK_CUBE = 16;
constexpr uint64_t FULL_MASK = 0xffffffffffffffffULL;
constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};
constexpr uint8_t MRG_SORT_ELEMENT_LEN = 4;
constexpr uint8_t PAD_SIZE = 4;
constexpr uint32_t TOTAL_UB_SIZE = 192 * 1024;
constexpr uint32_t TOTAL_L1_SIZE = 512 * 1024 - 128;
constexpr uint32_t TOTAL_L0A_SIZE = 64 * 1024;
constexpr uint32_t TOTAL_L0B_SIZE = 64 * 1024;
constexpr uint32_t TOTAL_L0C_SIZE = 128 * 1024;
constexpr uint32_t TMP_UB_OFFSET = 184 * 1024;    // UB behind this is scratch of the API itself
constexpr GatherMaskMode defaultGatherMaskMode = GatherMaskMode::VERSION_V2;

template <typename T, typename U> struct IsSameType {
    static constexpr bool value = std::is_same_v<T, U>;
};
template <typename T, typename... Ts> constexpr bool SupportType() { return (std::is_same_v<T, Ts> || ...); }
template <typename T> using PrimT = T;

// Not part of Ascend C.
namespace Twin {

// Values as the operator build numbers them; the twin knows the kinds that exist on dav-2201.
enum KernelMetaType {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2
};

// Stops the kernel with a formatted message.
[[noreturn]] __attribute__((format(printf, 2, 3))) inline void Refuse(cpu_twin::SourceLoc loc, const char* format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cpu_twin::KernelError(text, loc);
}

inline void CheckTaskType(KernelMetaType declared, TWIN_SITE)
{
    const bool onCube = ASCEND_IS_AIC;
    const int64_t vectorCores = cpu_twin::ops::SubBlockDim();
    const bool cubeOnly = declared == KERNEL_TYPE_AIC_ONLY || declared == KERNEL_TYPE_MIX_AIC_1_0;
    const bool vectorOnly = declared == KERNEL_TYPE_AIV_ONLY || declared == KERNEL_TYPE_MIX_AIV_1_0;
    if ((cubeOnly && !onCube) || (vectorOnly && onCube)) {
        Refuse(loc, "KERNEL_TASK_TYPE_DEFAULT: the kernel declares %s cores only, it was launched on %s cores as well",
               cubeOnly ? "cube" : "vector", cubeOnly ? "vector" : "cube");
    }
    // Only a vector core knows how many share its cube core.
    const int64_t expected = declared == KERNEL_TYPE_MIX_AIC_1_2 ? 2 : 1;
    if (!onCube && vectorCores != expected) {
        Refuse(loc, "KERNEL_TASK_TYPE_DEFAULT: the kernel declares %ld vector core(s) a block, launched with %ld",
               static_cast<long>(expected), static_cast<long>(vectorCores));
    }
}

inline void ReadTiling(void* dst, const uint8_t* gm, size_t bytes, TWIN_SITE)
{
    auto* out = static_cast<uint8_t*>(dst);
    size_t done = 0;
    for (; done + sizeof(uint32_t) <= bytes; done += sizeof(uint32_t)) {
        const uint32_t word = cpu_twin::ScalarRead(reinterpret_cast<const uint32_t*>(gm + done), loc);
        std::memcpy(out + done, &word, sizeof(word));
    }
    for (; done < bytes; ++done) {
        out[done] = cpu_twin::ScalarRead(gm + done, loc);
    }
}

constexpr Hardware PhysicalOf(TPosition pos)
{
    switch (pos) {
        case TPosition::GM:
        case TPosition::CO2: return Hardware::GM;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::TSCM: return Hardware::L1;
        case TPosition::A2: return Hardware::L0A;
        case TPosition::B2: return Hardware::L0B;
        case TPosition::CO1: return Hardware::L0C;
        case TPosition::C2: return Hardware::BIAS;
        case TPosition::C2PIPE2GM: return Hardware::FIXBUF;
        case TPosition::VECIN:
        case TPosition::VECOUT:
        case TPosition::VECCALC: return Hardware::UB;
        default: return Hardware::MAX;
    }
}

constexpr cpu_twin::Mem MemoryOf(Hardware hard)
{
    switch (hard) {
        case Hardware::GM: return cpu_twin::Mem::GM;
        case Hardware::UB: return cpu_twin::Mem::UB;
        case Hardware::L1: return cpu_twin::Mem::L1;
        case Hardware::L0A: return cpu_twin::Mem::L0A;
        case Hardware::L0B: return cpu_twin::Mem::L0B;
        case Hardware::L0C: return cpu_twin::Mem::L0C;
        case Hardware::BIAS: return cpu_twin::Mem::BT;
        case Hardware::FIXBUF: return cpu_twin::Mem::FB;
        default: return cpu_twin::Mem::None;
    }
}

// Bytes a kernel may use: the documented capacities less what the API keeps for itself (256 bytes of UB and L1, and 8
// KB of UB for the functions that need scratch).
constexpr uint32_t UsableBytes(Hardware hard)
{
    switch (hard) {
        case Hardware::UB: return TMP_UB_OFFSET - 256;
        case Hardware::L1: return 512 * 1024 - 256;
        case Hardware::L0A: return TOTAL_L0A_SIZE;
        case Hardware::L0B: return TOTAL_L0B_SIZE;
        case Hardware::L0C: return TOTAL_L0C_SIZE;
        case Hardware::BIAS: return 1024;
        case Hardware::FIXBUF: return 7 * 1024;
        default: return 0;
    }
}

constexpr const char* NameOf(Hardware hard)
{
    switch (hard) {
        case Hardware::GM: return "GM";
        case Hardware::UB: return "UB";
        case Hardware::L1: return "L1";
        case Hardware::L0A: return "L0A";
        case Hardware::L0B: return "L0B";
        case Hardware::L0C: return "L0C";
        case Hardware::BIAS: return "the bias table";
        case Hardware::FIXBUF: return "the fixpipe buffer";
        default: return "an unknown buffer";
    }
}

// Slots of cpu_twin::CoreSlot that this layer uses.
constexpr int SLOT_TPIPE = 0;

// ---- vector mask ----
// `lanes` consecutive elements from the first one, as the two halves of the mask register.
inline void SetContinuousMask(uint64_t lanes, uint32_t elementBytes, cpu_twin::SourceLoc loc)
{
    const uint64_t limit = static_cast<uint64_t>(ONE_REPEAT_BYTE_SIZE) / elementBytes;
    if (lanes > limit || lanes == 0) {
        Refuse(loc, "mask: expected 1 to %lu elements of %u bytes in one repeat, got %lu",
               static_cast<unsigned long>(limit), elementBytes, static_cast<unsigned long>(lanes));
    }
    const uint64_t low = lanes >= 64 ? FULL_MASK : (uint64_t{1} << lanes) - 1;
    const uint64_t high = lanes <= 64 ? 0 : lanes >= 128 ? FULL_MASK : (uint64_t{1} << (lanes - 64)) - 1;
    set_vector_mask(high, low);
}

template <typename T, bool isSetMask> inline void SetMask(uint64_t lanes, cpu_twin::SourceLoc loc)
{
    if constexpr (isSetMask) {
        SetContinuousMask(lanes, sizeof(T), loc);
    }
}
template <typename T, bool isSetMask> inline void SetMask(const uint64_t mask[], cpu_twin::SourceLoc)
{
    if constexpr (isSetMask) {
        set_vector_mask(mask[1], mask[0]);
    }
}

// Count mode for one instruction, then norm mode with a full mask again, as every count overload leaves it.
class CountMask {
public:
    CountMask(int64_t count, cpu_twin::SourceLoc loc)
    {
        if (count < 0 || count > 0xffffffffLL) {
            Refuse(loc, "count: expected 0 to 4294967295 elements, got %ld", static_cast<long>(count));
        }
        set_mask_count();
        set_vector_mask(0, static_cast<uint64_t>(count));
    }
    ~CountMask()
    {
        set_mask_norm();
        set_vector_mask(FULL_MASK, FULL_MASK);
    }
    CountMask(const CountMask&) = delete;
    CountMask& operator=(const CountMask&) = delete;
};

}    // namespace Twin
}    // namespace AscendC
