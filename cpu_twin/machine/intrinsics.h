// SPDX-License-Identifier: Apache-2.0
// The dav-2201 intrinsics the machine models. Names, argument order and units are those the public Ascend C headers call
// them with, so that either those headers or our own kernel_operator.h can sit on top. Addresses are host pointers into the
// calling core's buffers, or into registered global memory. Strides of vector operands count 32-byte blocks.
//
// Every function is a thin typed front for an untyped one in cpu_twin::ops; a type the instruction does not take, or
// an instruction that is not modelled, does not compile. The last parameter says where the call stands; leave it out.
#pragma once

#include "clock_interface.h"
#include "types.h"

#define CPU_TWIN_LOC ::cpu_twin::SourceLoc loc = ::cpu_twin::SourceLoc::Here()

namespace cpu_twin::ops {

struct Strides {
    uint32_t dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep;
};
enum class Round : uint8_t { None, Rint, Floor, Ceil, Away, Trunc, Odd };
enum class Cmp : uint8_t { Lt, Gt, Eq, Le, Ge, Ne };

// Vector (vector_ops.cpp). `scalar` holds the bits of a value of the operand's type.
void Binary(Op op, DType dstT, DType srcT, void* dst, const void* s0, const void* s1, uint32_t rep, Strides st, SourceLoc loc);
void Unary(Op op, DType t, void* dst, const void* src, uint32_t rep, Strides st, SourceLoc loc);
void Scalar(Op op, DType dstT, DType srcT, void* dst, const void* src, uint64_t scalar, uint32_t rep, Strides st,
            bool round, SourceLoc loc);
void Dup(DType t, void* dst, uint64_t scalar, uint32_t rep, uint32_t dstBlk, uint32_t srcBlk, uint32_t dstRep, uint32_t srcRep,
         SourceLoc loc);
void Brcb(DType t, void* dst, const void* src, uint32_t dstBlk, uint32_t dstRep, uint32_t rep, SourceLoc loc);
void Convert(DType dstT, DType srcT, Round mode, void* dst, const void* src, uint32_t rep, Strides st, SourceLoc loc);
void ConvertDeq(void* dst, const void* src, uint32_t rep, Strides st, SourceLoc loc);
void CompareToMask(Cmp cmp, DType t, const void* s0, const void* s1, uint32_t rep, Strides st, SourceLoc loc);
void Compare(Cmp cmp, DType t, void* dst, const void* s0, const void* s1, uint32_t rep, Strides st, SourceLoc loc);
void CompareScalar(Cmp cmp, DType t, void* dst, const void* src, uint64_t scalar, uint32_t rep, Strides st, SourceLoc loc);
void Select(DType t, void* dst, const void* s0, const void* s1, uint32_t rep, Strides st, uint32_t mode, SourceLoc loc);
void SetCmpMask(const void* src, SourceLoc loc);
void GetCmpMask(void* dst, SourceLoc loc);
void GatherMask(DType t, void* dst, const void* s0, const void* s1, uint32_t rep, uint32_t s0Blk, uint32_t pattern,
                uint32_t s0Rep, uint32_t s1Rep, SourceLoc loc);
void Gather(DType t, void* dst, const void* offsets, uint32_t base, uint32_t dstRep, uint32_t rep, SourceLoc loc);
void Gatherb(DType t, void* dst, const void* offsets, uint32_t base, uint32_t dstRep, uint32_t dstBlk, uint32_t rep,
             SourceLoc loc);
void WholeReduce(Op op, DType t, void* dst, const void* src, uint32_t rep, uint32_t dstRep, uint32_t srcBlk, uint32_t srcRep,
                 uint32_t mode, SourceLoc loc);
void BlockReduce(Op op, DType t, void* dst, const void* src, uint32_t rep, uint32_t dstRep, uint32_t srcBlk, uint32_t srcRep,
                 SourceLoc loc);
void BitSort(DType t, void* dst, const void* score, const void* index, uint32_t rep, SourceLoc loc);
void MrgSort4(DType t, void* dst, void* const* src, uint64_t lengths, uint64_t config, SourceLoc loc);
void SetVaReg(uint32_t reg, const uint64_t* addr);
void TransposeTo5Hd(uint32_t elemBytes, uint32_t dstReg, uint32_t srcReg, uint32_t rep, uint32_t dstRep, uint32_t srcRep,
                    bool dstHigh, bool srcHigh, SourceLoc loc);
void Transpose16(void* dst, const void* src, SourceLoc loc);
void CopyUbToUb(void* dst, const void* src, uint32_t n, uint32_t len, uint32_t srcGap, uint32_t dstGap, SourceLoc loc);

// Copies (copy_ops.cpp). Lengths and gaps of the unaligned ones in bytes on the GM side, 32-byte blocks on the UB side.
void CopyBlocks(Op op, void* dst, const void* src, uint32_t n, uint32_t len, uint32_t srcGap, uint32_t dstGap, uint32_t pad,
                SourceLoc loc);
void CopyGmToUbAlign(uint32_t elemBytes, void* dst, const void* src, uint32_t n, uint32_t lenBytes, uint32_t leftPad,
                     uint32_t rightPad, uint32_t gmGap, uint32_t ubGap, SourceLoc loc);
void CopyUbToGmAlign(uint32_t elemBytes, void* dst, const void* src, uint32_t n, uint32_t lenBytes, uint32_t ubGap,
                     uint32_t gmGap, SourceLoc loc);
void Nd2Nz(uint32_t elemBytes, void* dst, const void* src, uint32_t ndNum, uint32_t n, uint32_t d, uint32_t srcMatrixStride,
           uint32_t srcD, uint32_t dstC0Stride, uint32_t dstNStride, uint32_t dstMatrixStride, SourceLoc loc);
void CopyToBiasTable(uint64_t dst, const void* src, uint32_t conv, uint32_t n, uint32_t len, uint32_t srcGap, uint32_t dstGap,
                     SourceLoc loc);

// Cube (cube_ops.cpp).
void Load2D(Op op, DType t, void* dst, const void* src, uint32_t base, uint32_t rep, uint32_t srcStride, uint32_t dstGap,
            bool transpose, bool descending, SourceLoc loc);
void Load2DTranspose(Op op, DType t, void* dst, const void* src, uint32_t base, uint32_t rep, uint32_t srcStride, uint32_t dstGap,
                     bool descending, uint32_t dstFracGap, SourceLoc loc);
struct Load3DParams {
    uint32_t kExt, mExt, kStart, mStart, strideW, strideH, filterW, filterH, dilationW, dilationH;
    bool filterSizeW, filterSizeH, transpose, fMatrixCtrl;
    uint32_t channels;
};
void Load3D(Op op, DType t, void* dst, const void* src, const Load3DParams& p, SourceLoc loc);
void Fill(Op op, DType t, void* dst, uint64_t repeatConfig, uint64_t valueBits, SourceLoc loc);
void Mad(DType cT, DType aT, void* c, const void* a, const void* b, const uint64_t* bias, uint32_t m, uint32_t k, uint32_t n,
         uint32_t unitFlag, bool kAlign, bool cSource, bool cInit, SourceLoc loc);
void Fixpipe(Op op, DType dstT, DType srcT, void* dst, const void* src, uint32_t nSize, uint32_t mSize, uint32_t dstStride,
             uint32_t srcStride, uint32_t unitFlag, QuantMode_t quant, uint32_t relu, bool channelSplit, bool nz2nd,
             SourceLoc loc);

// Synchronisation, registers, scalar memory (sync_ops.cpp).
void SetFlag(pipe_t from, pipe_t to, uint32_t id, SourceLoc loc);
void WaitFlag(pipe_t from, pipe_t to, uint32_t id, SourceLoc loc);
void Barrier(pipe_t pipe, SourceLoc loc);
void CrossCoreSet(pipe_t pipe, uint64_t config, SourceLoc loc);
void CrossCoreWait(uint64_t flag, SourceLoc loc);
enum class Reg : uint8_t {
    Ctrl, FMatrixA, FMatrixB, Padding, Load3DRepeat, L1_3DSize, NdPara, QuantPre, Fpc, MovPadVal, DeqScale, LreluAlpha, FftsBase,
    StoreAtomic, Count
};
void SetReg(Reg reg, uint64_t value);
uint64_t GetReg(Reg reg);
void SetMask(uint64_t high, uint64_t low);
void SetMaskMode(bool counter);
void SetAtomic(uint32_t type, uint32_t op);
uint64_t ReservedCount();
uint64_t AccVal();
uint64_t MaxMinCount();
uint64_t MrgSortStatus();
void Dcci(const void* addr, bool entire, uint64_t dst, SourceLoc loc);
uint64_t ScalarLoad(const void* addr, uint32_t bytes, bool bypass, SourceLoc loc);
void ScalarStore(void* addr, uint64_t bits, uint32_t bytes, bool bypass, SourceLoc loc);
void ScalarWork(double cycles, SourceLoc loc);
[[noreturn]] void Trap(SourceLoc loc);

int64_t BlockIdx();
int64_t BlockNum();
int64_t SubBlockId();
int64_t SubBlockDim();
int64_t SystemCycle();

template <typename T> inline uint64_t Bits(T v) {
    uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof(T));
    return bits;
}

}  // namespace cpu_twin::ops

namespace cpu_twin {

// ---- for layer 2: where a core's buffers are, and what core this is ----
CoreKind CurrentCoreKind();
uint8_t* LocalBase(Mem mem);        // base of the calling core's buffer
uint32_t LocalBytes(Mem mem);       // its size, dav-2201
Mem MemOf(const void* addr);        // which memory of the calling core, or GM, an address lies in; None if neither
// Storage that lives as long as the core's run of the kernel: what layer 2 would keep in a device global. Zero at entry.
inline constexpr int kCoreSlots = 16;
uint64_t& CoreSlot(int slot);
// One element of UB or GM through the scalar unit. GM goes through the core's data cache, which is not coherent.
template <typename T> inline T ScalarRead(const T* addr, CPU_TWIN_LOC) {
    uint64_t bits = ops::ScalarLoad(addr, sizeof(T), false, loc);
    T v;
    std::memcpy(&v, &bits, sizeof(T));
    return v;
}
template <typename T> inline void ScalarWrite(T* addr, T value, CPU_TWIN_LOC) {
    ops::ScalarStore(addr, ops::Bits(value), sizeof(T), false, loc);
}
// GM reads issued while one of these lives are told to the clock as bypassing L2 (GlobalTensor::SetL2CacheHint).
class L2BypassScope {
public:
    explicit L2BypassScope(bool bypass);
    ~L2BypassScope();
    L2BypassScope(const L2BypassScope&) = delete;
    L2BypassScope& operator=(const L2BypassScope&) = delete;

private:
    bool before_;
};
// SyncAll's own flags (11 to 14) may be set while one of these lives; anywhere else they are an error.
class ReservedFlagScope {
public:
    ReservedFlagScope();
    ~ReservedFlagScope();
    ReservedFlagScope(const ReservedFlagScope&) = delete;
    ReservedFlagScope& operator=(const ReservedFlagScope&) = delete;
};
// Stops the kernel with an error in `message`: for argument checks of layer 2.
[[noreturn]] void KernelError(const char* message, CPU_TWIN_LOC);

}  // namespace cpu_twin

// ------------------------------------------------ vector: two operands ------------------------------------------------
#define CPU_TWIN_BINARY(NAME, ...)                                                                                             \
    template <typename T>                                                                                                      \
    inline void NAME(__ubuf__ T* dst, __ubuf__ T* src0, __ubuf__ T* src1, uint32_t repeat, uint32_t dstBlk, uint32_t src0Blk,  \
                     uint32_t src1Blk, uint32_t dstRep, uint32_t src0Rep, uint32_t src1Rep, CPU_TWIN_LOC) {                    \
        static_assert(cpu_twin::kIsOneOf<T, __VA_ARGS__>, #NAME " does not take this type on dav-2201");                       \
        cpu_twin::ops::Binary(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, cpu_twin::DTypeOf<T>::value, dst, src0, src1,   \
                              repeat, {dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep}, loc);                              \
    }
CPU_TWIN_BINARY(vadd, half, float, int16_t, int32_t)
CPU_TWIN_BINARY(vsub, half, float, int16_t, int32_t)
CPU_TWIN_BINARY(vmul, half, float, int16_t, int32_t)
CPU_TWIN_BINARY(vdiv, half, float)
CPU_TWIN_BINARY(vmax, half, float, int16_t, int32_t)
CPU_TWIN_BINARY(vmin, half, float, int16_t, int32_t)
CPU_TWIN_BINARY(vand, int16_t, uint16_t)
CPU_TWIN_BINARY(vor, int16_t, uint16_t)
CPU_TWIN_BINARY(vaddrelu, half, float, int16_t)
CPU_TWIN_BINARY(vsubrelu, half, float, int16_t)
CPU_TWIN_BINARY(vmadd, half, float)
CPU_TWIN_BINARY(vmaddrelu, half, float)
CPU_TWIN_BINARY(vmla, half, float)
#undef CPU_TWIN_BINARY

inline void vmla(__ubuf__ float* dst, __ubuf__ half* src0, __ubuf__ half* src1, uint32_t repeat, uint32_t dstBlk,
                 uint32_t src0Blk, uint32_t src1Blk, uint32_t dstRep, uint32_t src0Rep, uint32_t src1Rep, CPU_TWIN_LOC) {
    cpu_twin::ops::Binary(cpu_twin::Op::vmla, cpu_twin::DType::F32, cpu_twin::DType::F16, dst, src0, src1, repeat,
                          {dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep}, loc);
}

// ------------------------------------------------ vector: one operand -------------------------------------------------
#define CPU_TWIN_UNARY(NAME, ...)                                                                                              \
    template <typename T>                                                                                                      \
    inline void NAME(__ubuf__ T* dst, __ubuf__ T* src, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk, uint32_t dstRep,     \
                     uint32_t srcRep, CPU_TWIN_LOC) {                                                                          \
        static_assert(cpu_twin::kIsOneOf<T, __VA_ARGS__>, #NAME " does not take this type on dav-2201");                       \
        cpu_twin::ops::Unary(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, src, repeat,                                \
                             {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, loc);                                                     \
    }
CPU_TWIN_UNARY(vexp, half, float)
CPU_TWIN_UNARY(vln, half, float)
CPU_TWIN_UNARY(vabs, half, float)
CPU_TWIN_UNARY(vrec, half, float)
CPU_TWIN_UNARY(vsqrt, half, float)
CPU_TWIN_UNARY(vrsqrt, half, float)
CPU_TWIN_UNARY(vrelu, half, float, int32_t)
CPU_TWIN_UNARY(vnot, int16_t, uint16_t)
CPU_TWIN_UNARY(vcopy, uint16_t, uint32_t)
#undef CPU_TWIN_UNARY

// ------------------------------------------------ vector with a scalar ------------------------------------------------
#define CPU_TWIN_SCALAR(NAME, ...)                                                                                             \
    template <typename T>                                                                                                      \
    inline void NAME(__ubuf__ T* dst, __ubuf__ T* src, T scalar, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk,            \
                     uint32_t dstRep, uint32_t srcRep, CPU_TWIN_LOC) {                                                         \
        static_assert(cpu_twin::kIsOneOf<T, __VA_ARGS__>, #NAME " does not take this type on dav-2201");                       \
        cpu_twin::ops::Scalar(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, cpu_twin::DTypeOf<T>::value, dst, src,          \
                              cpu_twin::ops::Bits(scalar), repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, false, loc);        \
    }
CPU_TWIN_SCALAR(vadds, half, float, int16_t, int32_t)
CPU_TWIN_SCALAR(vmuls, half, float, int16_t, int32_t)
CPU_TWIN_SCALAR(vlrelu, half, float)
CPU_TWIN_SCALAR(vaxpy, half, float)
#undef CPU_TWIN_SCALAR

inline void vaxpy(__ubuf__ float* dst, __ubuf__ half* src, half scalar, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk,
                  uint32_t dstRep, uint32_t srcRep, CPU_TWIN_LOC) {
    cpu_twin::ops::Scalar(cpu_twin::Op::vaxpy, cpu_twin::DType::F32, cpu_twin::DType::F16, dst, src,
                          cpu_twin::ops::Bits(scalar), repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, false, loc);
}

#define CPU_TWIN_SCALAR_MINMAX(NAME)                                                                                           \
    template <typename T>                                                                                                      \
    inline void NAME(__ubuf__ T* dst, __ubuf__ T* src, T scalar, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk,            \
                     uint32_t dstRep, uint32_t srcRep, bool = false, bool = false, CPU_TWIN_LOC) {                             \
        static_assert(cpu_twin::kIsOneOf<T, half, float, int16_t, int32_t>, #NAME " does not take this type on dav-2201");     \
        cpu_twin::ops::Scalar(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, cpu_twin::DTypeOf<T>::value, dst, src,          \
                              cpu_twin::ops::Bits(scalar), repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, false, loc);        \
    }
CPU_TWIN_SCALAR_MINMAX(vmaxs)
CPU_TWIN_SCALAR_MINMAX(vmins)
#undef CPU_TWIN_SCALAR_MINMAX

template <typename T>
inline void vshl(__ubuf__ T* dst, __ubuf__ T* src, uint32_t distance, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk,
                 uint32_t dstRep, uint32_t srcRep, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, uint16_t, int16_t, uint32_t, int32_t>, "vshl does not take this type on dav-2201");
    cpu_twin::ops::Scalar(cpu_twin::Op::vshl, cpu_twin::DTypeOf<T>::value, cpu_twin::DTypeOf<T>::value, dst, src, distance,
                          repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, false, loc);
}
template <typename T>
inline void vshr(__ubuf__ T* dst, __ubuf__ T* src, uint32_t distance, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk,
                 uint32_t dstRep, uint32_t srcRep, bool round, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, uint16_t, int16_t, uint32_t, int32_t>, "vshr does not take this type on dav-2201");
    cpu_twin::ops::Scalar(cpu_twin::Op::vshr, cpu_twin::DTypeOf<T>::value, cpu_twin::DTypeOf<T>::value, dst, src, distance,
                          repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, round, loc);
}

template <typename T>
inline void vector_dup(__ubuf__ T* dst, T scalar, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk, uint32_t dstRep,
                       uint32_t srcRep, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>,
                  "vector_dup does not take this type on dav-2201");
    cpu_twin::ops::Dup(cpu_twin::DTypeOf<T>::value, dst, cpu_twin::ops::Bits(scalar), repeat, dstBlk, srcBlk, dstRep, srcRep,
                       loc);
}
template <typename T>
inline void vbrcb(__ubuf__ T* dst, __ubuf__ T* src, uint32_t dstBlk, uint32_t dstRep, uint32_t repeat, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, uint16_t, uint32_t>, "vbrcb takes uint16_t or uint32_t");
    cpu_twin::ops::Brcb(cpu_twin::DTypeOf<T>::value, dst, src, dstBlk, dstRep, repeat, loc);
}

// ------------------------------------------------ conversions ---------------------------------------------------------
#define CPU_TWIN_CONV(NAME, DST, SRC, MODE)                                                                                    \
    inline void vconv_##NAME(__ubuf__ DST* dst, __ubuf__ SRC* src, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk,          \
                             uint32_t dstRep, uint32_t srcRep, CPU_TWIN_LOC) {                                                 \
        cpu_twin::ops::Convert(cpu_twin::DTypeOf<DST>::value, cpu_twin::DTypeOf<SRC>::value, cpu_twin::ops::Round::MODE,       \
                               dst, src, repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, loc);                                 \
    }
#define CPU_TWIN_CONV_MODES(NAME, DST, SRC)                                                                                    \
    CPU_TWIN_CONV(NAME##r, DST, SRC, Rint)                                                                                     \
    CPU_TWIN_CONV(NAME##f, DST, SRC, Floor)                                                                                    \
    CPU_TWIN_CONV(NAME##c, DST, SRC, Ceil)                                                                                     \
    CPU_TWIN_CONV(NAME##a, DST, SRC, Away)                                                                                     \
    CPU_TWIN_CONV(NAME##z, DST, SRC, Trunc)
CPU_TWIN_CONV(f322f16, half, float, None)
CPU_TWIN_CONV_MODES(f322f16, half, float)
CPU_TWIN_CONV(f322f16o, half, float, Odd)
CPU_TWIN_CONV_MODES(f322bf16, bfloat16_t, float)
CPU_TWIN_CONV_MODES(f322f32, float, float)
CPU_TWIN_CONV_MODES(f322s16, int16_t, float)
CPU_TWIN_CONV_MODES(f322s32, int32_t, float)
CPU_TWIN_CONV_MODES(f322s64, int64_t, float)
CPU_TWIN_CONV(f162f32, float, half, None)
CPU_TWIN_CONV_MODES(f162s32, int32_t, half)
CPU_TWIN_CONV_MODES(f162s16, int16_t, half)
CPU_TWIN_CONV(f162s8, int8_t, half, None)
CPU_TWIN_CONV_MODES(f162s8, int8_t, half)
CPU_TWIN_CONV(f162u8, uint8_t, half, None)
CPU_TWIN_CONV_MODES(f162u8, uint8_t, half)
CPU_TWIN_CONV(bf162f32, float, bfloat16_t, None)
CPU_TWIN_CONV_MODES(bf162s32, int32_t, bfloat16_t)
CPU_TWIN_CONV(u82f16, half, uint8_t, None)
CPU_TWIN_CONV(s82f16, half, int8_t, None)
CPU_TWIN_CONV(s162f16, half, int16_t, None)
CPU_TWIN_CONV_MODES(s162f16, half, int16_t)
CPU_TWIN_CONV(s162f32, float, int16_t, None)
CPU_TWIN_CONV(s322f32, float, int32_t, None)
CPU_TWIN_CONV_MODES(s322f32, float, int32_t)
CPU_TWIN_CONV(s322s16, int16_t, int32_t, None)
CPU_TWIN_CONV(s322s64, int64_t, int32_t, None)
CPU_TWIN_CONV(s642s32, int32_t, int64_t, None)
CPU_TWIN_CONV_MODES(s642f32, float, int64_t)
#undef CPU_TWIN_CONV_MODES
#undef CPU_TWIN_CONV

inline void vconv_deq(__ubuf__ half* dst, __ubuf__ int32_t* src, uint32_t repeat, uint32_t dstBlk, uint32_t srcBlk,
                      uint32_t dstRep, uint32_t srcRep, CPU_TWIN_LOC) {
    cpu_twin::ops::ConvertDeq(dst, src, repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, loc);
}

// ------------------------------------------------ compare, select, gather ---------------------------------------------
#define CPU_TWIN_COMPARE(SUFFIX, CMP, EQUALITY)                                                                                \
    template <typename T>                                                                                                      \
    inline void vcmp_##SUFFIX(__ubuf__ T* src0, __ubuf__ T* src1, uint32_t repeat, uint32_t dstBlk, uint32_t src0Blk,          \
                              uint32_t src1Blk, uint32_t dstRep, uint32_t src0Rep, uint32_t src1Rep, CPU_TWIN_LOC) {           \
        static_assert(cpu_twin::kIsOneOf<T, half, float>, "vcmp takes half or float");                                         \
        cpu_twin::ops::CompareToMask(cpu_twin::ops::Cmp::CMP, cpu_twin::DTypeOf<T>::value, src0, src1, repeat,                 \
                                     {dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep}, loc);                               \
    }                                                                                                                          \
    template <typename T>                                                                                                      \
    inline void vcmpv_##SUFFIX(__ubuf__ uint8_t* dst, __ubuf__ T* src0, __ubuf__ T* src1, uint32_t repeat, uint32_t dstBlk,    \
                               uint32_t src0Blk, uint32_t src1Blk, uint32_t dstRep, uint32_t src0Rep, uint32_t src1Rep,        \
                               CPU_TWIN_LOC) {                                                                                 \
        static_assert(cpu_twin::kIsOneOf<T, half, float> || (EQUALITY && std::is_same_v<T, int32_t>),                          \
                      "vcmpv takes half or float; int32_t only for eq");                                                       \
        cpu_twin::ops::Compare(cpu_twin::ops::Cmp::CMP, cpu_twin::DTypeOf<T>::value, dst, src0, src1, repeat,                  \
                               {dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep}, loc);                                     \
    }                                                                                                                          \
    template <typename T>                                                                                                      \
    inline void vcmpvs_##SUFFIX(__ubuf__ uint8_t* dst, __ubuf__ T* src, T scalar, uint32_t repeat, uint32_t dstBlk,            \
                                uint32_t srcBlk, uint32_t dstRep, uint32_t srcRep, CPU_TWIN_LOC) {                             \
        static_assert(cpu_twin::kIsOneOf<T, half, float> || (EQUALITY && std::is_same_v<T, int32_t>),                          \
                      "vcmpvs takes half or float; int32_t only for eq");                                                      \
        cpu_twin::ops::CompareScalar(cpu_twin::ops::Cmp::CMP, cpu_twin::DTypeOf<T>::value, dst, src,                           \
                                     cpu_twin::ops::Bits(scalar), repeat, {dstBlk, srcBlk, 0, dstRep, srcRep, 0}, loc);        \
    }
CPU_TWIN_COMPARE(lt, Lt, false)
CPU_TWIN_COMPARE(gt, Gt, false)
CPU_TWIN_COMPARE(eq, Eq, true)
CPU_TWIN_COMPARE(le, Le, false)
CPU_TWIN_COMPARE(ge, Ge, false)
CPU_TWIN_COMPARE(ne, Ne, false)
#undef CPU_TWIN_COMPARE

inline void set_cmpmask(__ubuf__ void* src, CPU_TWIN_LOC) { cpu_twin::ops::SetCmpMask(src, loc); }
inline void get_cmpmask(__ubuf__ void* dst, CPU_TWIN_LOC) { cpu_twin::ops::GetCmpMask(dst, loc); }

// Mode 0: mask bits from the compare-mask register, the same for every repeat. Mode 1: src1 is the mask, the scalar
// comes from the register. Mode 2: two tensors, the register holds the address of the mask.
template <typename T>
inline void vsel(__ubuf__ T* dst, __ubuf__ T* src0, __ubuf__ T* src1, uint32_t repeat, uint32_t dstBlk, uint32_t src0Blk,
                 uint32_t src1Blk, uint32_t dstRep, uint32_t src0Rep, uint32_t src1Rep, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, half, float>, "vsel takes half or float");
    cpu_twin::ops::Select(cpu_twin::DTypeOf<T>::value, dst, src0, src1, repeat,
                          {dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep}, 0, loc);
}
template <typename T, typename U>
inline void vsel(__ubuf__ T* dst, __ubuf__ T* src0, __ubuf__ U* src1, uint32_t repeat, uint32_t dstBlk, uint32_t src0Blk,
                 uint32_t src1Blk, uint32_t dstRep, uint32_t src0Rep, uint32_t src1Rep, uint8_t mode, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, half, float>, "vsel takes half or float");
    cpu_twin::ops::Select(cpu_twin::DTypeOf<T>::value, dst, src0, src1, repeat,
                          {dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep}, mode, loc);
}

template <typename T>
inline void vreducev2(__ubuf__ T* dst, __ubuf__ T* src0, __ubuf__ T* src1, uint32_t repeat, uint32_t src0Blk, uint32_t pattern,
                      uint32_t src0Rep, uint32_t src1Rep, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, uint16_t, uint32_t>, "vreducev2 takes uint16_t or uint32_t");
    cpu_twin::ops::GatherMask(cpu_twin::DTypeOf<T>::value, dst, src0, src1, repeat, src0Blk, pattern, src0Rep, src1Rep, loc);
}
// `base` is the byte offset of the source in UB; offsets count bytes from there.
template <typename T>
inline void vgather(__ubuf__ T* dst, __ubuf__ uint32_t* offsets, uint32_t base, uint32_t dstRep, uint32_t repeat,
                    CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, uint16_t, uint32_t>, "vgather takes uint16_t or uint32_t");
    cpu_twin::ops::Gather(cpu_twin::DTypeOf<T>::value, dst, offsets, base, dstRep, repeat, loc);
}
template <typename T>
inline void vgatherb(__ubuf__ T* dst, __ubuf__ uint32_t* offsets, uint32_t base, uint32_t dstRep, uint32_t dstBlk,
                     uint32_t repeat, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, uint16_t, uint32_t>, "vgatherb takes uint16_t or uint32_t");
    cpu_twin::ops::Gatherb(cpu_twin::DTypeOf<T>::value, dst, offsets, base, dstRep, dstBlk, repeat, loc);
}

// ------------------------------------------------ reductions, sort, transpose -----------------------------------------
// mode 1 of vcadd accumulates over the repeats into the register that get_acc_val reads.
template <typename T>
inline void vcadd(__ubuf__ T* dst, __ubuf__ T* src, uint32_t repeat, uint32_t dstRep, uint32_t srcBlk, uint32_t srcRep,
                  uint32_t mode, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, half, float>, "vcadd takes half or float");
    cpu_twin::ops::WholeReduce(cpu_twin::Op::vcadd, cpu_twin::DTypeOf<T>::value, dst, src, repeat, dstRep, srcBlk, srcRep, mode,
                               loc);
}
#define CPU_TWIN_MINMAX(NAME)                                                                                                  \
    template <typename T>                                                                                                      \
    inline void NAME(__ubuf__ T* dst, __ubuf__ T* src, uint32_t repeat, uint32_t dstRep, uint32_t srcBlk, uint32_t srcRep,     \
                     Order_t order, CPU_TWIN_LOC) {                                                                            \
        static_assert(cpu_twin::kIsOneOf<T, half, float>, #NAME " takes half or float");                                       \
        cpu_twin::ops::WholeReduce(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, src, repeat, dstRep, srcBlk, srcRep,  \
                                   order, loc);                                                                                \
    }
CPU_TWIN_MINMAX(vcmax)
CPU_TWIN_MINMAX(vcmin)
#undef CPU_TWIN_MINMAX
#define CPU_TWIN_BLOCK_REDUCE(NAME)                                                                                            \
    template <typename T>                                                                                                      \
    inline void NAME(__ubuf__ T* dst, __ubuf__ T* src, uint32_t repeat, uint32_t dstRep, uint32_t srcBlk, uint32_t srcRep,     \
                     CPU_TWIN_LOC) {                                                                                           \
        static_assert(cpu_twin::kIsOneOf<T, half, float>, #NAME " takes half or float");                                       \
        cpu_twin::ops::BlockReduce(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, src, repeat, dstRep, srcBlk, srcRep,  \
                                   loc);                                                                                       \
    }
CPU_TWIN_BLOCK_REDUCE(vcgadd)
CPU_TWIN_BLOCK_REDUCE(vcgmax)
CPU_TWIN_BLOCK_REDUCE(vcgmin)
CPU_TWIN_BLOCK_REDUCE(vcpadd)
#undef CPU_TWIN_BLOCK_REDUCE

template <typename T>
inline void vbitsort(__ubuf__ T* dst, __ubuf__ T* score, __ubuf__ uint32_t* index, uint32_t repeat, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, half, float>, "vbitsort takes half or float");
    cpu_twin::ops::BitSort(cpu_twin::DTypeOf<T>::value, dst, score, index, repeat, loc);
}
template <typename T>
inline void vmrgsort4(__ubuf__ T* dst, __ubuf__ T* src[4], uint64_t lengths, uint64_t config, CPU_TWIN_LOC) {
    static_assert(cpu_twin::kIsOneOf<T, half, float>, "vmrgsort4 takes half or float");
    void* const lists[4] = {src[0], src[1], src[2], src[3]};
    cpu_twin::ops::MrgSort4(cpu_twin::DTypeOf<T>::value, dst, lists, lengths, config, loc);
}

inline void set_va_reg_sb(ub_addr8_t reg, const uint64_t* addr) { cpu_twin::ops::SetVaReg(reg, addr); }
inline void scatter_vnchwconv_b16(ub_addr8_t dst, ub_addr8_t src, uint32_t repeat, uint32_t dstRep, uint32_t srcRep,
                                  CPU_TWIN_LOC) {
    cpu_twin::ops::TransposeTo5Hd(2, dst, src, repeat, dstRep, srcRep, false, false, loc);
}
inline void scatter_vnchwconv_b32(ub_addr8_t dst, ub_addr8_t src, uint32_t repeat, uint32_t dstRep, uint32_t srcRep,
                                  CPU_TWIN_LOC) {
    cpu_twin::ops::TransposeTo5Hd(4, dst, src, repeat, dstRep, srcRep, false, false, loc);
}
inline void scatter_vnchwconv_b8(ub_addr8_t dst, ub_addr8_t src, uint32_t repeat, uint32_t dstRep, uint32_t srcRep, bool dstHigh,
                                 bool srcHigh, CPU_TWIN_LOC) {
    cpu_twin::ops::TransposeTo5Hd(1, dst, src, repeat, dstRep, srcRep, dstHigh, srcHigh, loc);
}
inline void vtranspose(__ubuf__ uint16_t* dst, __ubuf__ uint16_t* src, CPU_TWIN_LOC) {
    cpu_twin::ops::Transpose16(dst, src, loc);
}

// ------------------------------------------------ copies --------------------------------------------------------------
// nBurst pieces of lenBurst 32-byte blocks, gaps in blocks.
inline void copy_ubuf_to_ubuf(__ubuf__ void* dst, __ubuf__ void* src, uint8_t, uint16_t nBurst, uint16_t lenBurst,
                              uint16_t srcGap, uint16_t dstGap, CPU_TWIN_LOC) {
    cpu_twin::ops::CopyUbToUb(dst, src, nBurst, lenBurst, srcGap, dstGap, loc);
}
inline void copy_gm_to_ubuf(__ubuf__ void* dst, __gm__ void* src, uint8_t, uint16_t nBurst, uint16_t lenBurst, uint16_t srcGap,
                            uint16_t dstGap, CPU_TWIN_LOC) {
    cpu_twin::ops::CopyBlocks(cpu_twin::Op::copy_gm_to_ubuf, dst, src, nBurst, lenBurst, srcGap, dstGap, 0, loc);
}
inline void copy_ubuf_to_gm(__gm__ void* dst, __ubuf__ void* src, uint8_t, uint16_t nBurst, uint16_t lenBurst, uint16_t srcGap,
                            uint16_t dstGap, CPU_TWIN_LOC) {
    cpu_twin::ops::CopyBlocks(cpu_twin::Op::copy_ubuf_to_gm, dst, src, nBurst, lenBurst, srcGap, dstGap, 0, loc);
}
inline void copy_gm_to_cbuf(__cbuf__ void* dst, __gm__ void* src, uint8_t, uint16_t nBurst, uint16_t lenBurst, uint16_t srcGap,
                            uint16_t dstGap, pad_t pad, CPU_TWIN_LOC) {
    cpu_twin::ops::CopyBlocks(cpu_twin::Op::copy_gm_to_cbuf, dst, src, nBurst, lenBurst, srcGap, dstGap, pad, loc);
}
inline void copy_cbuf_to_gm(__gm__ void* dst, __cbuf__ void* src, uint8_t, uint16_t nBurst, uint16_t lenBurst, uint16_t srcGap,
                            uint16_t dstGap, CPU_TWIN_LOC) {
    cpu_twin::ops::CopyBlocks(cpu_twin::Op::copy_cbuf_to_gm, dst, src, nBurst, lenBurst, srcGap, dstGap, 0, loc);
}
// lenBurst in 128 bytes, srcGap in 32-byte blocks, dstGap in 128 bytes.
inline void copy_cbuf_to_fbuf(__fbuf__ void* dst, __cbuf__ void* src, uint16_t nBurst, uint16_t lenBurst, uint16_t srcGap,
                              uint16_t dstGap, CPU_TWIN_LOC) {
    cpu_twin::ops::CopyBlocks(cpu_twin::Op::copy_cbuf_to_fbuf, dst, src, nBurst, lenBurst, srcGap, dstGap, 0, loc);
}
// dst is the address within the bias table; lenBurst in 64 bytes, srcGap in 32-byte blocks, dstGap in 64 bytes.
inline void copy_cbuf_to_bt(uint64_t dst, __cbuf__ void* src, uint16_t convControl, uint16_t nBurst, uint16_t lenBurst,
                            uint16_t srcGap, uint16_t dstGap, CPU_TWIN_LOC) {
    cpu_twin::ops::CopyToBiasTable(dst, src, convControl, nBurst, lenBurst, srcGap, dstGap, loc);
}

#define CPU_TWIN_ALIGN_COPY(BITS, BYTES)                                                                                       \
    inline void copy_gm_to_ubuf_align_b##BITS(__ubuf__ void* dst, __gm__ void* src, uint8_t, uint16_t nBurst,                  \
                                              uint32_t lenBurst, uint8_t leftPad, uint8_t rightPad, uint32_t gmGap,            \
                                              uint32_t ubGap, CPU_TWIN_LOC) {                                                  \
        cpu_twin::ops::CopyGmToUbAlign(BYTES, dst, src, nBurst, lenBurst, leftPad, rightPad, gmGap, ubGap, loc);               \
    }                                                                                                                          \
    inline void copy_ubuf_to_gm_align_b##BITS(__gm__ void* dst, __ubuf__ void* src, uint8_t, uint16_t nBurst,                  \
                                              uint32_t lenBurst, uint8_t, uint8_t, uint32_t ubGap, uint32_t gmGap,             \
                                              CPU_TWIN_LOC) {                                                                  \
        cpu_twin::ops::CopyUbToGmAlign(BYTES, dst, src, nBurst, lenBurst, ubGap, gmGap, loc);                                  \
    }
CPU_TWIN_ALIGN_COPY(8, 1)
CPU_TWIN_ALIGN_COPY(16, 2)
CPU_TWIN_ALIGN_COPY(32, 4)
#undef CPU_TWIN_ALIGN_COPY

#define CPU_TWIN_ND2NZ(SUFFIX, BYTES)                                                                                          \
    template <typename T>                                                                                                      \
    inline void copy_gm_to_cbuf_multi_nd2nz_##SUFFIX(                                                                          \
        __cbuf__ T* dst, __gm__ T* src, uint8_t, uint16_t ndNum, uint16_t nValue, uint16_t dValue,                             \
        uint16_t srcNdMatrixStride, uint16_t srcDValue, uint16_t dstNzC0Stride, uint16_t dstNzNStride,                         \
        uint16_t dstNzMatrixStride, CPU_TWIN_LOC) {                                                                            \
        static_assert(sizeof(T) == BYTES, "element size and instruction differ");                                              \
        cpu_twin::ops::Nd2Nz(BYTES, dst, src, ndNum, nValue, dValue, srcNdMatrixStride, srcDValue, dstNzC0Stride,              \
                             dstNzNStride, dstNzMatrixStride, loc);                                                            \
    }
CPU_TWIN_ND2NZ(b8, 1)
CPU_TWIN_ND2NZ(b16, 2)
CPU_TWIN_ND2NZ(b32s, 4)
#undef CPU_TWIN_ND2NZ

// ------------------------------------------------ loads into L0 and L1 ------------------------------------------------
#define CPU_TWIN_LOAD2D(NAME, DST, SRC)                                                                                        \
    template <typename T>                                                                                                      \
    inline void NAME(DST T* dst, SRC T* src, uint16_t baseIdx, uint8_t repeat, uint16_t srcStride, uint16_t dstGap, uint8_t,   \
                     bool transpose, addr_cal_mode_t mode, CPU_TWIN_LOC) {                                                     \
        cpu_twin::ops::Load2D(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, src, baseIdx, repeat, srcStride, dstGap,   \
                              transpose, mode == dec, loc);                                                                    \
    }
CPU_TWIN_LOAD2D(load_cbuf_to_ca, __ca__, __cbuf__)
CPU_TWIN_LOAD2D(load_cbuf_to_cb, __cb__, __cbuf__)
#undef CPU_TWIN_LOAD2D
#define CPU_TWIN_LOAD2D_GM(NAME, DST)                                                                                          \
    template <typename T>                                                                                                      \
    inline void NAME(DST T* dst, __gm__ T* src, uint16_t baseIdx, uint8_t repeat, uint16_t srcStride, uint16_t dstGap,         \
                     uint8_t, addr_cal_mode_t mode, CPU_TWIN_LOC) {                                                            \
        cpu_twin::ops::Load2D(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, src, baseIdx, repeat, srcStride, dstGap,   \
                              false, mode == dec, loc);                                                                        \
    }
CPU_TWIN_LOAD2D_GM(load_gm_to_ca, __ca__)
CPU_TWIN_LOAD2D_GM(load_gm_to_cb, __cb__)
CPU_TWIN_LOAD2D_GM(load_gm_to_cbuf, __cbuf__)
#undef CPU_TWIN_LOAD2D_GM
#define CPU_TWIN_LOAD2D_T(NAME, DST)                                                                                           \
    template <typename T>                                                                                                      \
    inline void NAME(DST T* dst, __cbuf__ T* src, uint16_t baseIdx, uint8_t repeat, uint16_t srcStride, uint16_t dstGap,       \
                     addr_cal_mode_t mode, uint16_t dstFracGap, CPU_TWIN_LOC) {                                                \
        cpu_twin::ops::Load2DTranspose(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, src, baseIdx, repeat, srcStride,  \
                                       dstGap, mode == dec, dstFracGap, loc);                                                  \
    }
CPU_TWIN_LOAD2D_T(load_cbuf_to_ca_transpose, __ca__)
CPU_TWIN_LOAD2D_T(load_cbuf_to_cb_transpose, __cb__)
#undef CPU_TWIN_LOAD2D_T

#define CPU_TWIN_LOAD3D(NAME, DST)                                                                                             \
    template <typename T>                                                                                                      \
    inline void NAME(DST T* dst, __cbuf__ T* src, uint16_t kExt, uint16_t mExt, uint16_t kStart, uint16_t mStart,              \
                     uint8_t strideW, uint8_t strideH, uint8_t filterW, uint8_t filterH, uint8_t dilationW,                    \
                     uint8_t dilationH, bool filterSizeW, bool filterSizeH, bool transpose, bool fMatrixCtrl,                  \
                     uint16_t channelSize, CPU_TWIN_LOC) {                                                                     \
        cpu_twin::ops::Load3D(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, src,                                       \
                              {kExt, mExt, kStart, mStart, strideW, strideH, filterW, filterH, dilationW, dilationH,           \
                               filterSizeW, filterSizeH, transpose, fMatrixCtrl, channelSize}, loc);                           \
    }
CPU_TWIN_LOAD3D(img2colv2_cbuf_to_ca, __ca__)
CPU_TWIN_LOAD3D(img2colv2_cbuf_to_cb, __cb__)
#undef CPU_TWIN_LOAD3D

// config: repeat times in bits 14:0, block count in 30:16, gap between repeats in blocks in 46:32. A block is 32 bytes in
// L1, 512 bytes in L0A and L0B.
#define CPU_TWIN_FILL(NAME, DST)                                                                                               \
    template <typename T> inline void NAME(DST T* dst, int64_t config, half value, CPU_TWIN_LOC) {                             \
        static_assert(sizeof(T) == 2, "a half value fills two-byte elements");                                                 \
        cpu_twin::ops::Fill(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, config, cpu_twin::ops::Bits(value), loc);    \
    }                                                                                                                          \
    template <typename T> inline void NAME(DST T* dst, int64_t config, uint32_t value, CPU_TWIN_LOC) {                         \
        static_assert(sizeof(T) == 4, "a uint32_t value fills four-byte elements");                                            \
        cpu_twin::ops::Fill(cpu_twin::Op::NAME, cpu_twin::DTypeOf<T>::value, dst, config, value, loc);                         \
    }                                                                                                                          \
    inline void NAME##_bf16(DST bfloat16_t* dst, int64_t config, bfloat16_t value, CPU_TWIN_LOC) {                             \
        cpu_twin::ops::Fill(cpu_twin::Op::NAME, cpu_twin::DType::BF16, dst, config, cpu_twin::ops::Bits(value), loc);          \
    }
CPU_TWIN_FILL(create_cbuf_matrix, __cbuf__)
CPU_TWIN_FILL(create_ca_matrix, __ca__)
CPU_TWIN_FILL(create_cb_matrix, __cb__)
#undef CPU_TWIN_FILL

// ------------------------------------------------ mad and fixpipe -----------------------------------------------------
template <typename C, typename A>
inline void mad(__cc__ C* c, __ca__ A* a, __cb__ A* b, uint16_t m, uint16_t k, uint16_t n, uint8_t unitFlag, bool kDirectionAlign,
                bool cmatrixSource, bool cmatrixInitVal, CPU_TWIN_LOC) {
    static_assert((std::is_same_v<C, float> && cpu_twin::kIsOneOf<A, half, bfloat16_t, float>) ||
                      (std::is_same_v<C, int32_t> && std::is_same_v<A, int8_t>),
                  "mad takes half, bfloat16_t or float into float, or int8_t into int32_t");
    cpu_twin::ops::Mad(cpu_twin::DTypeOf<C>::value, cpu_twin::DTypeOf<A>::value, c, a, b, nullptr, m, k, n, unitFlag,
                       kDirectionAlign, cmatrixSource, cmatrixInitVal, loc);
}
template <typename C, typename A>
inline void mad(__cc__ C* c, __ca__ A* a, __cb__ A* b, uint64_t bias, uint16_t m, uint16_t k, uint16_t n, uint8_t unitFlag,
                bool kDirectionAlign, bool cmatrixSource, bool cmatrixInitVal, CPU_TWIN_LOC) {
    static_assert((std::is_same_v<C, float> && cpu_twin::kIsOneOf<A, half, bfloat16_t, float>) ||
                      (std::is_same_v<C, int32_t> && std::is_same_v<A, int8_t>),
                  "mad takes half, bfloat16_t or float into float, or int8_t into int32_t");
    cpu_twin::ops::Mad(cpu_twin::DTypeOf<C>::value, cpu_twin::DTypeOf<A>::value, c, a, b, &bias, m, k, n, unitFlag,
                       kDirectionAlign, cmatrixSource, cmatrixInitVal, loc);
}

// dstStride: elements of a row when nz2nd, else 32-byte blocks between columns of fractals; srcStride: 16-element C0 rows
// between columns of fractals in L0C.
#define CPU_TWIN_FIXPIPE(NAME, DST)                                                                                            \
    template <typename D, typename S>                                                                                          \
    inline void NAME(DST D* dst, __cc__ S* src, uint8_t, uint16_t nSize, uint16_t mSize, uint32_t dstStride,                   \
                     uint16_t srcStride, uint8_t unitFlag, QuantMode_t quantPre, uint8_t reluPre, bool channelSplit,           \
                     bool nz2nd, CPU_TWIN_LOC) {                                                                               \
        static_assert(cpu_twin::kIsOneOf<S, float, int32_t>, "L0C holds float or int32_t");                                    \
        cpu_twin::ops::Fixpipe(cpu_twin::Op::NAME, cpu_twin::DTypeOf<D>::value, cpu_twin::DTypeOf<S>::value, dst, src, nSize,  \
                               mSize, dstStride, srcStride, unitFlag, quantPre, reluPre, channelSplit, nz2nd, loc);            \
    }
CPU_TWIN_FIXPIPE(copy_matrix_cc_to_gm, __gm__)
CPU_TWIN_FIXPIPE(copy_matrix_cc_to_cbuf, __cbuf__)
#undef CPU_TWIN_FIXPIPE

// ------------------------------------------------ synchronisation -----------------------------------------------------
inline void set_flag(pipe_t pipe, pipe_t tpipe, event_t id, CPU_TWIN_LOC) { cpu_twin::ops::SetFlag(pipe, tpipe, id, loc); }
inline void wait_flag(pipe_t pipe, pipe_t tpipe, event_t id, CPU_TWIN_LOC) { cpu_twin::ops::WaitFlag(pipe, tpipe, id, loc); }
inline void pipe_barrier(pipe_t pipe, CPU_TWIN_LOC) { cpu_twin::ops::Barrier(pipe, loc); }
// config: bit 0 set, mode in bits 5:4, flag id in bits 11:8.
inline void ffts_cross_core_sync(pipe_t pipe, uint64_t config, CPU_TWIN_LOC) { cpu_twin::ops::CrossCoreSet(pipe, config, loc); }
inline void wait_flag_dev(uint64_t flagId, CPU_TWIN_LOC) { cpu_twin::ops::CrossCoreWait(flagId, loc); }
inline void set_ffts_base_addr(uint64_t addr) { cpu_twin::ops::SetReg(cpu_twin::ops::Reg::FftsBase, addr); }
inline int64_t get_ffts_base_addr() { return static_cast<int64_t>(cpu_twin::ops::GetReg(cpu_twin::ops::Reg::FftsBase)); }

// ------------------------------------------------ registers -----------------------------------------------------------
inline void set_vector_mask(uint64_t maskHigh, uint64_t maskLow) { cpu_twin::ops::SetMask(maskHigh, maskLow); }
inline void set_mask_norm() { cpu_twin::ops::SetMaskMode(false); }
inline void set_mask_count() { cpu_twin::ops::SetMaskMode(true); }
#define CPU_TWIN_REGISTER(NAME, REG)                                                                                           \
    inline void NAME(uint64_t value) { cpu_twin::ops::SetReg(cpu_twin::ops::Reg::REG, value); }
CPU_TWIN_REGISTER(set_ctrl, Ctrl)
CPU_TWIN_REGISTER(set_fmatrix, FMatrixA)
CPU_TWIN_REGISTER(set_fmatrix_b, FMatrixB)
CPU_TWIN_REGISTER(set_padding, Padding)
CPU_TWIN_REGISTER(set_l3d_rpt, Load3DRepeat)
CPU_TWIN_REGISTER(set_l1_3d_size, L1_3DSize)
CPU_TWIN_REGISTER(set_nd_para, NdPara)
CPU_TWIN_REGISTER(set_quant_pre, QuantPre)
CPU_TWIN_REGISTER(set_fpc, Fpc)
CPU_TWIN_REGISTER(set_mov_pad_val, MovPadVal)
CPU_TWIN_REGISTER(set_lrelu_alpha, LreluAlpha)
#undef CPU_TWIN_REGISTER
inline int64_t get_ctrl() { return static_cast<int64_t>(cpu_twin::ops::GetReg(cpu_twin::ops::Reg::Ctrl)); }
inline void set_deqscale(uint64_t config) { cpu_twin::ops::SetReg(cpu_twin::ops::Reg::DeqScale, config); }
inline void set_deqscale(half scale) { cpu_twin::ops::SetReg(cpu_twin::ops::Reg::DeqScale, cpu_twin::ops::Bits(scale)); }
inline int64_t get_rsvd_cnt() { return static_cast<int64_t>(cpu_twin::ops::ReservedCount()); }
inline int64_t get_acc_val() { return static_cast<int64_t>(cpu_twin::ops::AccVal()); }
inline int64_t get_max_min_cnt() { return static_cast<int64_t>(cpu_twin::ops::MaxMinCount()); }
inline int64_t get_vms4_sr() { return static_cast<int64_t>(cpu_twin::ops::MrgSortStatus()); }

// Atomic mode of copies to GM (MTE3 and fixpipe): a type and one of add, max, min.
inline void set_atomic_none() { cpu_twin::ops::SetAtomic(ATOMIC_NONE, 0); }
inline void set_atomic_f32() { cpu_twin::ops::SetAtomic(ATOMIC_F32, 3); }
inline void set_atomic_f16() { cpu_twin::ops::SetAtomic(ATOMIC_F16, 3); }
inline void set_atomic_s16() { cpu_twin::ops::SetAtomic(ATOMIC_S16, 3); }
inline void set_atomic_s32() { cpu_twin::ops::SetAtomic(ATOMIC_S32, 3); }
inline void set_atomic_s8() { cpu_twin::ops::SetAtomic(ATOMIC_S8, 3); }
inline void set_atomic_bf16() { cpu_twin::ops::SetAtomic(ATOMIC_BF16, 3); }
inline void set_atomic_add() { cpu_twin::ops::SetAtomic(7, 0); }
inline void set_atomic_max() { cpu_twin::ops::SetAtomic(7, 1); }
inline void set_atomic_min() { cpu_twin::ops::SetAtomic(7, 2); }

inline int64_t get_block_idx() { return cpu_twin::ops::BlockIdx(); }
inline int64_t get_block_num() { return cpu_twin::ops::BlockNum(); }
inline int64_t get_subblockid() { return cpu_twin::ops::SubBlockId(); }
inline int64_t get_subblockdim() { return cpu_twin::ops::SubBlockDim(); }
inline int64_t get_sys_cnt() { return cpu_twin::ops::SystemCycle(); }

// ------------------------------------------------ scalar memory -------------------------------------------------------
inline void dcci(__gm__ void* addr, uint64_t entire, uint64_t dst = CACHELINE_ALL, CPU_TWIN_LOC) {
    cpu_twin::ops::Dcci(addr, entire == ENTIRE_DATA_CACHE, dst, loc);
}
// Past the data cache. `offset` counts bytes.
template <typename T> inline T ld_dev(__gm__ T* src, int16_t offset, CPU_TWIN_LOC) {
    uint64_t bits = cpu_twin::ops::ScalarLoad(reinterpret_cast<const uint8_t*>(src) + offset, sizeof(T), true, loc);
    T v;
    std::memcpy(&v, &bits, sizeof(T));
    return v;
}
template <typename T> inline void st_dev(T value, __gm__ T* dst, int16_t offset, CPU_TWIN_LOC) {
    cpu_twin::ops::ScalarStore(reinterpret_cast<uint8_t*>(dst) + offset, cpu_twin::ops::Bits(value), sizeof(T), true, loc);
}
[[noreturn]] inline void trap(uint64_t = 0, CPU_TWIN_LOC) { cpu_twin::ops::Trap(loc); }

#undef CPU_TWIN_LOC
