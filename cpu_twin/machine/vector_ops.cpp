// SPDX-License-Identifier: Apache-2.0
// Elementwise vector instructions, fills and conversions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "vector.h"

namespace cpu_twin::ops {
namespace {

const kernels::Table& K() { return kernels::Kernels(); }

// Elementwise work on `n` lanes side by side. half is computed in float and rounded once, which is exact for one operation.
constexpr size_t kChunk = 1024;

void ApplyBinary(Op op, DType t, void* dst, const void* a, const void* b, size_t n) {
    switch (t) {
        case DType::F32:
            K().binaryF32(op, static_cast<float*>(dst), static_cast<const float*>(a), static_cast<const float*>(b), n);
            return;
        case DType::S32:
            K().binaryS32(op, static_cast<int32_t*>(dst), static_cast<const int32_t*>(a), static_cast<const int32_t*>(b), n);
            return;
        case DType::F16: {
            float x[kChunk], y[kChunk];
            for (size_t at = 0; at < n; at += kChunk) {
                const size_t m = std::min(kChunk, n - at);
                kernels::HalfToFloatN(x, static_cast<const uint16_t*>(a) + at, m);
                kernels::HalfToFloatN(y, static_cast<const uint16_t*>(b) + at, m);
                K().binaryF32(op, x, x, y, m);
                kernels::FloatToHalfN(static_cast<uint16_t*>(dst) + at, x, m);
            }
            return;
        }
        default:
            K().binaryS16(op, static_cast<int16_t*>(dst), static_cast<const int16_t*>(a), static_cast<const int16_t*>(b), n);
    }
}

template <typename F>
void ThroughFloat(DType t, void* dst, const void* src, size_t n, F f) {
    if (t == DType::F32) {
        f(static_cast<float*>(dst), static_cast<const float*>(src), n);
        return;
    }
    float x[kChunk];
    for (size_t at = 0; at < n; at += kChunk) {
        const size_t m = std::min(kChunk, n - at);
        kernels::HalfToFloatN(x, static_cast<const uint16_t*>(src) + at, m);
        f(x, x, m);
        kernels::FloatToHalfN(static_cast<uint16_t*>(dst) + at, x, m);
    }
}

void ApplyUnary(Op op, DType t, void* dst, const void* src, size_t n) {
    if (op == Op::vnot) {
        for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[i] = static_cast<uint16_t>(~static_cast<const uint16_t*>(src)[i]);
    } else if (op == Op::vcopy) {
        std::memmove(dst, src, n * DTypeBytes(t));
    } else if (t == DType::S32) {  // vrelu
        for (size_t i = 0; i < n; ++i) static_cast<int32_t*>(dst)[i] = std::max(0, static_cast<const int32_t*>(src)[i]);
    } else {
        ThroughFloat(t, dst, src, n, [op](float* d, const float* s, size_t m) { K().unaryF32(op, d, s, m); });
    }
}

template <typename T>
void Shift(Op op, void* dst, const void* src, uint32_t distance, bool round, size_t n) {
    constexpr uint32_t bits = sizeof(T) * 8;
    using U = std::make_unsigned_t<T>;
    for (size_t i = 0; i < n; ++i) {
        const T v = static_cast<const T*>(src)[i];
        T r;
        if (op == Op::vshl) {
            r = distance >= bits ? T(0) : static_cast<T>(static_cast<U>(static_cast<U>(v) << distance));
        } else {
            r = distance >= bits ? static_cast<T>(v < 0 ? -1 : 0) : static_cast<T>(v >> distance);
            if (round && distance > 0 && distance <= bits) r = static_cast<T>(r + ((static_cast<uint64_t>(static_cast<int64_t>(v)) >> (distance - 1)) & 1));
        }
        static_cast<T*>(dst)[i] = r;
    }
}

template <typename T>
T FromBits(uint64_t bits) {
    T v;
    std::memcpy(&v, &bits, sizeof(T));
    return v;
}

void ApplyScalar(Op op, DType t, void* dst, const void* src, uint64_t scalar, bool round, size_t n) {
    if (op == Op::vshl || op == Op::vshr) {
        const uint32_t distance = static_cast<uint32_t>(scalar);
        switch (t) {
            case DType::U16: Shift<uint16_t>(op, dst, src, distance, round, n); break;
            case DType::S16: Shift<int16_t>(op, dst, src, distance, round, n); break;
            case DType::U32: Shift<uint32_t>(op, dst, src, distance, round, n); break;
            default: Shift<int32_t>(op, dst, src, distance, round, n); break;
        }
        return;
    }
    switch (t) {
        case DType::S32: K().scalarS32(op, static_cast<int32_t*>(dst), static_cast<const int32_t*>(src), FromBits<int32_t>(scalar), n); break;
        case DType::S16: K().scalarS16(op, static_cast<int16_t*>(dst), static_cast<const int16_t*>(src), FromBits<int16_t>(scalar), n); break;
        default: {
            const float value = t == DType::F16 ? HalfToFloat(static_cast<uint16_t>(scalar)) : FromBits<float>(scalar);
            ThroughFloat(t, dst, src, n, [op, value](float* d, const float* s, size_t m) { K().scalarF32(op, d, s, value, m); });
        }
    }
}

// dst = f(dst, a, b) for the multiply-adds. One rounding: the product enters the sum unrounded.
void ApplyFma(Op op, DType dstT, DType srcT, void* dst, const void* a, const void* b, size_t n) {
    auto load = [](DType t, const void* p, size_t i) {
        return t == DType::F16 ? HalfToFloat(static_cast<const uint16_t*>(p)[i]) : static_cast<const float*>(p)[i];
    };
    for (size_t i = 0; i < n; ++i) {
        const float x = load(srcT, a, i), y = load(srcT, b, i), d = load(dstT, dst, i);
        float r = op == Op::vmla ? std::fma(x, y, d) : std::fma(x, d, y);
        if (op == Op::vmaddrelu && !(r > 0.0f) && r == r) r = 0.0f;
        if (dstT == DType::F16) static_cast<uint16_t*>(dst)[i] = FloatToHalf(r);
        else static_cast<float*>(dst)[i] = r;
    }
}

bool Apart(const VecOperand& a, const VecOperand& b, uint64_t bytesA, uint64_t bytesB) { return a.p + bytesA <= b.p || b.p + bytesB <= a.p; }

}  // namespace

void Binary(Op op, DType dstT, DType srcT, void* dst, const void* s0, const void* s1, uint32_t rep, Strides st, SourceLoc loc) {
    InstrScope s(op, Pipe::V, CoreKind::AIV, loc);
    const uint32_t lanes = 256 / std::max(DTypeBytes(dstT), DTypeBytes(srcT));
    const Plan plan = MakePlan(s, lanes, rep);
    const bool fma = op == Op::vmadd || op == Op::vmla || op == Op::vmaddrelu;
    const VecOperand a = Declare(s, Touch::Read, s0, srcT, st.src0Blk, st.src0Rep, plan, "src0", s.instr.src0);
    const VecOperand b = Declare(s, Touch::Read, s1, srcT, st.src1Blk, st.src1Rep, plan, "src1", s.instr.src1);
    const VecOperand d = Declare(s, Touch::Write, dst, dstT, st.dstBlk, st.dstRep, plan, "dst", s.instr.dst);
    CheckOverlap(s, d, a, plan, false);
    CheckOverlap(s, d, b, plan, true);
    if (!s.Commit() || plan.repeats == 0) return;
    const uint64_t bytesD = plan.total * d.elem, bytesS = plan.total * a.elem;
    const bool clean = (d.p == a.p || Apart(d, a, bytesD, bytesS)) && (d.p == b.p || Apart(d, b, bytesD, bytesS));
    if (plan.FullyDense() && d.Flat(plan) && a.Flat(plan) && b.Flat(plan) && clean) {
        if (fma) ApplyFma(op, dstT, srcT, dst, s0, s1, plan.total); else ApplyBinary(op, dstT, dst, s0, s1, plan.total);
        return;
    }
    alignas(32) uint8_t x[1024], y[1024], z[1024];
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        const uint32_t n = plan.Prefix(r);
        a.Fetch(x, r, n);
        b.Fetch(y, r, n);
        if (fma) {
            d.Fetch(z, r, n);
            ApplyFma(op, dstT, srcT, z, x, y, n);
        } else {
            ApplyBinary(op, dstT, z, x, y, n);
        }
        d.Store(z, r, plan);
    }
}

void Unary(Op op, DType t, void* dst, const void* src, uint32_t rep, Strides st, SourceLoc loc) {
    InstrScope s(op, Pipe::V, CoreKind::AIV, loc);
    const Plan plan = MakePlan(s, 256 / DTypeBytes(t), rep);
    const VecOperand a = Declare(s, Touch::Read, src, t, st.src0Blk, st.src0Rep, plan, "src", s.instr.src0);
    const VecOperand d = Declare(s, Touch::Write, dst, t, st.dstBlk, st.dstRep, plan, "dst", s.instr.dst);
    CheckOverlap(s, d, a, plan, false);
    if (!s.Commit() || plan.repeats == 0) return;
    const uint64_t bytes = plan.total * d.elem;
    if (plan.FullyDense() && d.Flat(plan) && a.Flat(plan) && (d.p == a.p || Apart(d, a, bytes, bytes))) {
        ApplyUnary(op, t, dst, src, plan.total);
        return;
    }
    alignas(32) uint8_t x[1024];
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        const uint32_t n = plan.Prefix(r);
        a.Fetch(x, r, n);
        ApplyUnary(op, t, x, x, n);
        d.Store(x, r, plan);
    }
}

void Scalar(Op op, DType dstT, DType srcT, void* dst, const void* src, uint64_t scalar, uint32_t rep, Strides st, bool round, SourceLoc loc) {
    InstrScope s(op, Pipe::V, CoreKind::AIV, loc);
    const Plan plan = MakePlan(s, 256 / std::max(DTypeBytes(dstT), DTypeBytes(srcT)), rep);
    const VecOperand a = Declare(s, Touch::Read, src, srcT, st.src0Blk, st.src0Rep, plan, "src", s.instr.src0);
    const VecOperand d = Declare(s, Touch::Write, dst, dstT, st.dstBlk, st.dstRep, plan, "dst", s.instr.dst);
    CheckOverlap(s, d, a, plan, false);
    if (!s.Commit() || plan.repeats == 0) return;
    const uint64_t bytes = plan.total * d.elem;
    if (op != Op::vaxpy && plan.FullyDense() && d.Flat(plan) && a.Flat(plan) && (d.p == a.p || Apart(d, a, bytes, bytes))) {
        ApplyScalar(op, dstT, dst, src, scalar, round, plan.total);
        return;
    }
    alignas(32) uint8_t x[1024], z[1024], y[1024];
    if (op == Op::vaxpy) {
        for (uint32_t i = 0; i < plan.lanes; ++i) std::memcpy(y + i * a.elem, &scalar, a.elem);
    }
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        const uint32_t n = plan.Prefix(r);
        a.Fetch(x, r, n);
        if (op == Op::vaxpy) {  // dst += src * scalar
            d.Fetch(z, r, n);
            ApplyFma(Op::vmla, dstT, srcT, z, x, y, n);
        } else {
            ApplyScalar(op, dstT, z, x, scalar, round, n);
        }
        d.Store(z, r, plan);
    }
}

void Dup(DType t, void* dst, uint64_t scalar, uint32_t rep, uint32_t dstBlk, uint32_t, uint32_t dstRep, uint32_t, SourceLoc loc) {
    InstrScope s(Op::vector_dup, Pipe::V, CoreKind::AIV, loc);
    const Plan plan = MakePlan(s, 256 / DTypeBytes(t), rep);
    const VecOperand d = Declare(s, Touch::Write, dst, t, dstBlk, dstRep, plan, "dst", s.instr.dst);
    if (!s.Commit() || plan.repeats == 0) return;
    alignas(32) uint8_t x[1024];
    for (uint32_t i = 0; i < plan.lanes; ++i) std::memcpy(x + i * d.elem, &scalar, d.elem);
    for (uint32_t r = 0; r < plan.repeats; ++r) d.Store(x, r, plan);
}

// Eight elements a repeat, each spread over one block. The mask plays no part.
void Brcb(DType t, void* dst, const void* src, uint32_t dstBlk, uint32_t dstRep, uint32_t rep, SourceLoc loc) {
    if (rep == 0) return;
    InstrScope s(Op::vbrcb, Pipe::V, CoreKind::AIV, loc);
    const uint32_t elem = DTypeBytes(t);
    CheckRepeat(s, rep);
    s.Require(dstBlk >= 1, Rule::StrideLimit, "Brcb: dstBlkStride is 0", "dstBlkStride must be at least 1");
    s.instr.repeats = rep;
    s.instr.lanes = 8ull * rep;
    s.instr.dst.blkStride = static_cast<uint16_t>(dstBlk);
    s.instr.dst.repStride = static_cast<uint16_t>(dstRep);
    DeclarePacked(s, Touch::Read, src, 32, 8ull * elem, rep, 8ull * elem, "src", s.instr.src0);
    const uint64_t base = s.Offset(Mem::UB, dst, 32, "dst");
    s.instr.dst.mem = Mem::UB;
    s.instr.dst.offset = base;
    if (dstBlk == 1) {
        s.Local(Mem::UB, Touch::Write, base, 256, rep, dstRep * 32ll, 0, "dst");
    } else {
        for (uint32_t b = 0; b < 8; ++b) s.Local(Mem::UB, Touch::Write, base + static_cast<uint64_t>(b) * dstBlk * 32, 32, rep, dstRep * 32ll, 0, "dst");
    }
    if (!s.Commit()) return;
    for (uint32_t r = 0; r < rep; ++r) {
        uint8_t values[32];
        std::memcpy(values, static_cast<const uint8_t*>(src) + r * 8 * elem, 8 * elem);
        for (uint32_t b = 0; b < 8; ++b) {
            uint8_t* to = static_cast<uint8_t*>(dst) + (static_cast<uint64_t>(r) * dstRep + static_cast<uint64_t>(b) * dstBlk) * 32;
            for (uint32_t at = 0; at < 32; at += elem) std::memcpy(to + at, values + b * elem, elem);
        }
    }
}

namespace {

// `v` in a 16-bit float format given by nearest-even conversion and back. Other modes pick between the two neighbours.
template <typename ToBits, typename ToValue>
uint16_t RoundTo16(double v, Round mode, uint16_t infinity, ToBits nearest, ToValue value) {
    const uint16_t t = nearest(static_cast<float>(v));
    if (mode == Round::None || mode == Round::Rint || v != v || std::isinf(v)) return t;
    const double tv = (t & 0x7FFF) == infinity ? std::copysign(value(static_cast<uint16_t>(infinity - 1)) * 2.0, v) : value(t);
    if (tv == v) return t;
    const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    const uint16_t mag = t & 0x7FFF;
    // Neighbours in magnitude.
    const bool tooBig = std::fabs(tv) > std::fabs(v);
    const uint16_t small = tooBig ? static_cast<uint16_t>(mag - 1) : mag, big = static_cast<uint16_t>(small + 1);
    bool up;  // towards larger magnitude
    switch (mode) {
        case Round::Floor: up = sign != 0; break;
        case Round::Ceil: up = sign == 0; break;
        case Round::Trunc: up = false; break;
        case Round::Odd: up = (small & 1) == 0; break;
        default: {
            const double low = std::fabs(static_cast<double>(value(small)));
            const double high = big == infinity ? low * 2.0 - std::fabs(static_cast<double>(value(static_cast<uint16_t>(small - 1)))) : std::fabs(static_cast<double>(value(big)));
            up = std::fabs(v) - low >= high - std::fabs(v);  // ties away from zero
        }
    }
    return static_cast<uint16_t>(sign | (up ? big : small));
}

double RoundWhole(double v, Round mode) {
    switch (mode) {
        case Round::Floor: return std::floor(v);
        case Round::Ceil: return std::ceil(v);
        case Round::Trunc: return std::trunc(v);
        case Round::Away: return std::round(v);
        default: return std::nearbyint(v);
    }
}

float RoundToFloat(int64_t v, Round mode) {
    const float nearest = static_cast<float>(v);
    if (mode == Round::None || mode == Round::Rint) return nearest;
    const __int128 exact = v, got = static_cast<__int128>(nearest);
    if (exact == got) return nearest;
    const float other = std::nextafter(nearest, got < exact ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
    const float low = std::min(nearest, other), high = std::max(nearest, other);
    switch (mode) {
        case Round::Floor: return low;
        case Round::Ceil: return high;
        case Round::Trunc: return v > 0 ? low : high;
        default: {
            const __int128 down = exact - static_cast<__int128>(low), up = static_cast<__int128>(high) - exact;
            return down < up ? low : up < down ? high : (v > 0 ? high : low);
        }
    }
}

template <typename T>
T Saturate(double v) {
    if (v != v) return 0;
    if (v <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(v);
}

uint16_t NearestHalf(float v) { return FloatToHalf(v); }
float HalfAsFloat(uint16_t b) { return HalfToFloat(b); }
uint16_t NearestBf16(float v) { return FloatToBf16(v); }
float Bf16AsFloat(uint16_t b) { return Bf16ToFloat(b); }

void ConvertLanes(DType dstT, DType srcT, Round mode, void* dst, const void* src, size_t n) {
    const bool nearest = mode == Round::None || mode == Round::Rint;
    if (srcT == DType::F32 && dstT == DType::F16 && nearest) return kernels::FloatToHalfN(static_cast<uint16_t*>(dst), static_cast<const float*>(src), n);
    if (srcT == DType::F32 && dstT == DType::BF16 && nearest) return kernels::FloatToBf16N(static_cast<uint16_t*>(dst), static_cast<const float*>(src), n);
    if (srcT == DType::F16 && dstT == DType::F32) return kernels::HalfToFloatN(static_cast<float*>(dst), static_cast<const uint16_t*>(src), n);
    if (srcT == DType::BF16 && dstT == DType::F32) return kernels::Bf16ToFloatN(static_cast<float*>(dst), static_cast<const uint16_t*>(src), n);
    for (size_t i = 0; i < n; ++i) {
        double v = 0;
        int64_t whole = 0;
        bool integer = true;
        switch (srcT) {
            case DType::F32: v = static_cast<const float*>(src)[i]; integer = false; break;
            case DType::F16: v = HalfToFloat(static_cast<const uint16_t*>(src)[i]); integer = false; break;
            case DType::BF16: v = Bf16ToFloat(static_cast<const uint16_t*>(src)[i]); integer = false; break;
            case DType::U8: whole = static_cast<const uint8_t*>(src)[i]; break;
            case DType::S8: whole = static_cast<const int8_t*>(src)[i]; break;
            case DType::S16: whole = static_cast<const int16_t*>(src)[i]; break;
            case DType::S32: whole = static_cast<const int32_t*>(src)[i]; break;
            default: whole = static_cast<const int64_t*>(src)[i]; break;
        }
        if (integer) v = static_cast<double>(whole);
        const double r = integer ? v : RoundWhole(v, mode);
        switch (dstT) {
            case DType::F32: static_cast<float*>(dst)[i] = integer ? RoundToFloat(whole, mode) : static_cast<float>(r + 0.0); break;  // -0 becomes +0
            case DType::F16: static_cast<uint16_t*>(dst)[i] = RoundTo16(v, mode, 0x7C00, NearestHalf, HalfAsFloat); break;
            case DType::BF16: static_cast<uint16_t*>(dst)[i] = RoundTo16(v, mode, 0x7F80, NearestBf16, Bf16AsFloat); break;
            case DType::U8: static_cast<uint8_t*>(dst)[i] = Saturate<uint8_t>(r); break;
            case DType::S8: static_cast<int8_t*>(dst)[i] = Saturate<int8_t>(r); break;
            case DType::S16: static_cast<int16_t*>(dst)[i] = Saturate<int16_t>(r); break;
            case DType::S32:
                static_cast<int32_t*>(dst)[i] = integer ? static_cast<int32_t>(std::max<int64_t>(INT32_MIN, std::min<int64_t>(INT32_MAX, whole))) : Saturate<int32_t>(r);
                break;
            default: static_cast<int64_t*>(dst)[i] = integer ? whole : Saturate<int64_t>(r); break;
        }
    }
}

}  // namespace

// Lanes go by the wider side; the narrower one takes correspondingly fewer blocks a repeat.
void Convert(DType dstT, DType srcT, Round mode, void* dst, const void* src, uint32_t rep, Strides st, SourceLoc loc) {
    InstrScope s(Op::vconv, Pipe::V, CoreKind::AIV, loc);
    const Plan plan = MakePlan(s, 256 / std::max(DTypeBytes(dstT), DTypeBytes(srcT)), rep);
    const VecOperand a = Declare(s, Touch::Read, src, srcT, st.src0Blk, st.src0Rep, plan, "src", s.instr.src0);
    const VecOperand d = Declare(s, Touch::Write, dst, dstT, st.dstBlk, st.dstRep, plan, "dst", s.instr.dst);
    if (!s.Commit() || plan.repeats == 0) return;
    if (plan.FullyDense() && d.Flat(plan) && a.Flat(plan) && Apart(d, a, plan.total * d.elem, plan.total * a.elem)) {
        ConvertLanes(dstT, srcT, mode, dst, src, plan.total);
        return;
    }
    alignas(32) uint8_t x[1024], y[1024];
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        const uint32_t n = plan.Prefix(r);
        a.Fetch(x, r, n);
        ConvertLanes(dstT, srcT, mode, y, x, n);
        d.Store(y, r, plan);
    }
}

// int32 to half times the scale that SetDeqScale left behind.
void ConvertDeq(void* dst, const void* src, uint32_t rep, Strides st, SourceLoc loc) {
    InstrScope s(Op::vconv, Pipe::V, CoreKind::AIV, loc);
    const Plan plan = MakePlan(s, 64, rep);
    const VecOperand a = Declare(s, Touch::Read, src, DType::S32, st.src0Blk, st.src0Rep, plan, "src", s.instr.src0);
    const VecOperand d = Declare(s, Touch::Write, dst, DType::F16, st.dstBlk, st.dstRep, plan, "dst", s.instr.dst);
    if (!s.Commit()) return;
    const float scale = HalfToFloat(static_cast<uint16_t>(s.core.reg[static_cast<size_t>(Reg::DeqScale)]));
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        int32_t x[64];
        uint16_t y[64];
        const uint32_t n = plan.Prefix(r);
        a.Fetch(reinterpret_cast<uint8_t*>(x), r, n);
        for (uint32_t i = 0; i < n; ++i) y[i] = FloatToHalf(static_cast<float>(x[i]) * scale);
        d.Store(reinterpret_cast<const uint8_t*>(y), r, plan);
    }
}

}  // namespace cpu_twin::ops
