// SPDX-License-Identifier: Apache-2.0
// Scalar types, address-space markers and enumerations that device code names without a namespace. Enumerator values are
// those of the dav-2201 instruction set. A build that brings its own half and bfloat16_t (the public headers do) defines
// CPU_TWIN_EXTERNAL_TYPES before including this file, after having included its own definitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cpu_twin {

// IEEE binary16 and bfloat16 conversions, round to nearest even, NaN kept quiet.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
inline float Bf16ToFloat(uint16_t bits) {
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
}
uint16_t FloatToBf16(float value);

// Element types an instruction can name.
enum class DType : uint8_t { None, U8, S8, U16, S16, U32, S32, U64, S64, F16, BF16, F32, B8, B16, B32 };

inline constexpr uint32_t DTypeBytes(DType t) {
    switch (t) {
        case DType::U8: case DType::S8: case DType::B8: return 1;
        case DType::U16: case DType::S16: case DType::F16: case DType::BF16: case DType::B16: return 2;
        case DType::U32: case DType::S32: case DType::F32: case DType::B32: return 4;
        case DType::U64: case DType::S64: return 8;
        case DType::None: break;
    }
    return 0;
}
const char* DTypeName(DType t);

}  // namespace cpu_twin

#ifndef CPU_TWIN_EXTERNAL_TYPES

// Storage and value semantics of the device's half: arithmetic happens in float and rounds once per assignment.
struct half {
    uint16_t val;
    half() = default;
    half(float v) : val(cpu_twin::FloatToHalf(v)) {}
    half(double v) : val(cpu_twin::FloatToHalf(static_cast<float>(v))) {}
    template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
    half(T v) : val(cpu_twin::FloatToHalf(static_cast<float>(v))) {}
    operator float() const { return cpu_twin::HalfToFloat(val); }
};

struct bfloat16_t {
    uint16_t val;
    bfloat16_t() = default;
    bfloat16_t(float v) : val(cpu_twin::FloatToBf16(v)) {}
    bfloat16_t(double v) : val(cpu_twin::FloatToBf16(static_cast<float>(v))) {}
    template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
    bfloat16_t(T v) : val(cpu_twin::FloatToBf16(static_cast<float>(v))) {}
    operator float() const { return cpu_twin::Bf16ToFloat(val); }
};

#define __global__
#define __aicore__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__

#endif  // CPU_TWIN_EXTERNAL_TYPES

static_assert(sizeof(half) == 2 && sizeof(bfloat16_t) == 2, "half and bfloat16_t must be two bytes");

typedef enum {
    PIPE_S = 0,
    PIPE_V,
    PIPE_M,
    PIPE_MTE1,
    PIPE_MTE2,
    PIPE_MTE3,
    PIPE_ALL,
    PIPE_MTE4 = 7,
    PIPE_MTE5 = 8,
    PIPE_V2 = 9,
    PIPE_FIX = 10,
} pipe_t;

typedef enum { EVENT_ID0 = 0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 } event_t;

typedef enum {
    NoQuant = 0,
    F322F16 = 1,
    VREQ8 = 8,
    REQ8 = 9,
    VDEQF16 = 10,
    DEQF16 = 11,
    VSHIFTS322S16 = 12,
    SHIFTS322S16 = 13,
    F322BF16 = 16,
    VQF162B8_PRE = 17,
    QF162B8_PRE = 18,
    VQF162S4_PRE = 19,
    QF162S4_PRE = 20,
    VREQ4 = 21,
    REQ4 = 22,
    VQF322B8_PRE = 23,
    QF322B8_PRE = 24,
    VQF322S4_PRE = 25,
    QF322S4_PRE = 26,
    VDEQS16 = 27,
    DEQS16 = 28,
    VQF162S16_PRE = 29,
    QF162S16_PRE = 30,
} QuantMode_t;

typedef enum { VALUE_INDEX = 0, INDEX_VALUE = 1, ONLY_VALUE = 2, ONLY_INDEX = 3 } Order_t;
typedef enum { inc = 0, dec = 1 } addr_cal_mode_t;
typedef enum { PAD_NONE = 0, PAD_MODE1, PAD_MODE2, PAD_MODE3, PAD_MODE4, PAD_MODE5, PAD_MODE6, PAD_MODE7, PAD_MODE8 } pad_t;
typedef enum { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE } cache_line_t;
typedef enum { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC } dcci_dst_t;
typedef enum { VA0 = 0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 } ub_addr8_t;
typedef enum { ATOMIC_SUM = 0 } atomic_op_t;
typedef enum {
    ATOMIC_NONE = 0, ATOMIC_F32, ATOMIC_F16, ATOMIC_S16, ATOMIC_S32, ATOMIC_S8, ATOMIC_BF16
} atomic_type_t;
typedef enum { DSB_ALL = 0, DSB_DDR, DSB_UB, DSB_SEQ } mem_dsb_t;

namespace cpu_twin {

template <typename T> struct DTypeOf;
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::U8; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::S8; };
template <> struct DTypeOf<uint16_t> { static constexpr DType value = DType::U16; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::S16; };
template <> struct DTypeOf<uint32_t> { static constexpr DType value = DType::U32; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::S32; };
template <> struct DTypeOf<uint64_t> { static constexpr DType value = DType::U64; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::S64; };
template <> struct DTypeOf<half> { static constexpr DType value = DType::F16; };
template <> struct DTypeOf<bfloat16_t> { static constexpr DType value = DType::BF16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::F32; };

template <typename T, typename... Ts> inline constexpr bool kIsOneOf = (std::is_same_v<T, Ts> || ...);

// Where an instruction was issued from. Layer 2 passes the kernel's own line; code written straight on the intrinsics gets
// it from the default argument.
struct SourceLoc {
    const char* file = "";
    uint32_t line = 0;
    static constexpr SourceLoc Here(const char* f = __builtin_FILE(), uint32_t l = __builtin_LINE()) {
        return SourceLoc{f, l};
    }
};

// While one of these lives, every instruction of the calling core carries `loc` instead of its own: an API function that
// issues several intrinsics opens one. Nested scopes keep the outermost location, the one nearest the kernel.
class ScopedLoc {
public:
    explicit ScopedLoc(SourceLoc loc);
    ~ScopedLoc();
    ScopedLoc(const ScopedLoc&) = delete;
    ScopedLoc& operator=(const ScopedLoc&) = delete;

private:
    bool owner_;
};

}  // namespace cpu_twin
