// SPDX-License-Identifier: Apache-2.0
// Compare, select, gathers.
#include <algorithm>

#include "vector.h"

namespace cpu_twin::ops {
namespace {

template <typename T>
bool Holds(Cmp cmp, T a, T b) {
    switch (cmp) {
        case Cmp::Lt: return a < b;
        case Cmp::Gt: return a > b;
        case Cmp::Eq: return a == b;
        case Cmp::Le: return a <= b;
        case Cmp::Ge: return a >= b;
        case Cmp::Ne: return a < b || a > b;  // not so with a NaN, unlike IEEE 754
    }
    return false;
}

// Bit i of `out` tells whether lane i compares true.
void CompareLanes(Cmp cmp, DType t, const uint8_t* a, const uint8_t* b, uint8_t* out, uint32_t n) {
    std::memset(out, 0, (n + 7) / 8);
    float x[128], y[128];
    if (t == DType::F16) {
        kernels::HalfToFloatN(x, reinterpret_cast<const uint16_t*>(a), n);
        kernels::HalfToFloatN(y, reinterpret_cast<const uint16_t*>(b), n);
    } else if (t == DType::F32) {
        std::memcpy(x, a, n * 4);
        std::memcpy(y, b, n * 4);
    }
    for (uint32_t i = 0; i < n; ++i) {
        const bool bit = t == DType::S32 ? Holds(cmp, reinterpret_cast<const int32_t*>(a)[i], reinterpret_cast<const int32_t*>(b)[i])
                                         : Holds(cmp, x[i], y[i]);
        if (bit) out[i / 8] = static_cast<uint8_t>(out[i / 8] | 1u << (i % 8));
    }
}

// The result is packed: lanes / 8 bytes a repeat, whatever the destination strides say, and the mask register plays no part.
void ComparePacked(Op op, Cmp cmp, DType t, void* dst, const void* s0, const void* s1, uint64_t scalar, uint32_t rep, Strides st, SourceLoc loc) {
    InstrScope s(op, Pipe::V, CoreKind::AIV, loc);
    const uint32_t lanes = 256 / DTypeBytes(t);
    const Plan plan = MakeUnmaskedPlan(s, lanes, rep);
    const VecOperand a = Declare(s, Touch::Read, s0, t, st.src0Blk, st.src0Rep, plan, "src0", s.instr.src0);
    VecOperand b = a;
    if (s1 != nullptr) b = Declare(s, Touch::Read, s1, t, st.src1Blk, st.src1Rep, plan, "src1", s.instr.src1);
    const uint64_t bytes = plan.counter ? (plan.total + 7) / 8 : static_cast<uint64_t>(plan.repeats) * lanes / 8;
    DeclarePacked(s, Touch::Write, dst, 32, bytes, plan.repeats > 0 ? 1 : 0, 0, "dst", s.instr.dst);
    if (!s.Commit()) return;
    alignas(32) uint8_t x[256], y[256], bits[16];
    if (s1 == nullptr) {
        for (uint32_t i = 0; i < lanes; ++i) std::memcpy(y + i * a.elem, &scalar, a.elem);
    }
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        const uint32_t n = plan.Prefix(r);
        a.Fetch(x, r, n);
        if (s1 != nullptr) b.Fetch(y, r, n);
        CompareLanes(cmp, t, x, y, bits, n);
        std::memcpy(static_cast<uint8_t*>(dst) + static_cast<uint64_t>(r) * lanes / 8, bits, (n + 7) / 8);
    }
}

// A 32-bit UB address: an offset, as the hardware has it, or the low half of a host address, as the public headers pass it.
uint64_t UbOffset(const Core& core, uint32_t address) {
    if (address < kUbBytes) return address;
    return static_cast<uint32_t>(address - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(core.base[static_cast<int>(Mem::UB)])));
}

}  // namespace

void Compare(Cmp cmp, DType t, void* dst, const void* s0, const void* s1, uint32_t rep, Strides st, SourceLoc loc) {
    ComparePacked(Op::vcmpv, cmp, t, dst, s0, s1, 0, rep, st, loc);
}
void CompareScalar(Cmp cmp, DType t, void* dst, const void* src, uint64_t scalar, uint32_t rep, Strides st, SourceLoc loc) {
    ComparePacked(Op::vcmpvs, cmp, t, dst, src, nullptr, scalar, rep, st, loc);
}

void CompareToMask(Cmp cmp, DType t, const void* s0, const void* s1, uint32_t rep, Strides st, SourceLoc loc) {
    InstrScope s(Op::vcmp, Pipe::V, CoreKind::AIV, loc);
    const uint32_t lanes = 256 / DTypeBytes(t);
    s.Require(rep <= 1 || s.core.maskCounter, Rule::RepeatLimit, "vcmp: repeatTime is " + std::to_string(rep),
              "the compare-mask register holds one repeat");
    const Plan plan = MakePlan(s, lanes, rep);
    const VecOperand a = Declare(s, Touch::Read, s0, t, st.src0Blk, st.src0Rep, plan, "src0", s.instr.src0);
    const VecOperand b = Declare(s, Touch::Read, s1, t, st.src1Blk, st.src1Rep, plan, "src1", s.instr.src1);
    if (!s.Commit() || plan.repeats == 0) return;
    alignas(32) uint8_t x[256], y[256], bits[16];
    const uint32_t n = plan.Prefix(0);
    a.Fetch(x, 0, n);
    b.Fetch(y, 0, n);
    CompareLanes(cmp, t, x, y, bits, n);
    for (uint32_t i = 0; i < n; ++i) {
        if (!plan.Active(0, i)) continue;
        const uint8_t bit = static_cast<uint8_t>(1u << (i % 8));
        s.core.cmpMask[i / 8] = static_cast<uint8_t>((s.core.cmpMask[i / 8] & ~bit) | (bits[i / 8] & bit));
    }
}

void SetCmpMask(const void* src, SourceLoc loc) {
    InstrScope s(Op::set_cmpmask, Pipe::V, CoreKind::AIV, loc);
    DeclarePacked(s, Touch::Read, src, 16, 16, 1, 0, "src", s.instr.src0);
    if (s.Commit()) std::memcpy(s.core.cmpMask.data(), src, 16);
}
void GetCmpMask(void* dst, SourceLoc loc) {
    InstrScope s(Op::get_cmpmask, Pipe::V, CoreKind::AIV, loc);
    DeclarePacked(s, Touch::Write, dst, 16, 16, 1, 0, "dst", s.instr.dst);
    if (s.Commit()) std::memcpy(dst, s.core.cmpMask.data(), 16);
}

void Select(DType t, void* dst, const void* s0, const void* s1, uint32_t rep, Strides st, uint32_t mode, SourceLoc loc) {
    InstrScope s(Op::vsel, Pipe::V, CoreKind::AIV, loc);
    Core& core = s.core;
    const uint32_t lanes = 256 / DTypeBytes(t), elem = DTypeBytes(t);
    const Plan plan = MakePlan(s, lanes, rep);
    s.Require(mode <= 2, Rule::BadArgument, "Select: mode " + std::to_string(mode), "modes are 0, 1 and 2");
    const VecOperand a = Declare(s, Touch::Read, s0, t, st.src0Blk, st.src0Rep, plan, "src0", s.instr.src0);
    VecOperand b = a;
    const uint8_t* bits = core.cmpMask.data();
    const uint64_t maskBytes = (static_cast<uint64_t>(plan.counter ? plan.total : static_cast<uint64_t>(plan.repeats) * lanes) + 7) / 8;
    Operand maskOperand;
    if (mode == 1) {
        bits = static_cast<const uint8_t*>(s1);
        DeclarePacked(s, Touch::Read, s1, 32, maskBytes, plan.repeats > 0 ? 1 : 0, 0, "the mask", maskOperand);
    } else {
        b = Declare(s, Touch::Read, s1, t, st.src1Blk, st.src1Rep, plan, "src1", s.instr.src1);
    }
    if (mode == 2) {
        uint64_t address;
        std::memcpy(&address, core.cmpMask.data(), 8);
        const uint8_t* ub = core.base[static_cast<int>(Mem::UB)];
        const bool host = ub != nullptr && address >= reinterpret_cast<uintptr_t>(ub) && address < reinterpret_cast<uintptr_t>(ub) + kUbBytes;
        bits = host ? reinterpret_cast<const uint8_t*>(address) : ub + (address & 0xFFFFFFFFu);
        DeclarePacked(s, Touch::Read, bits, 32, maskBytes, plan.repeats > 0 ? 1 : 0, 0, "the mask whose address the compare-mask register holds",
                      maskOperand);
    }
    const VecOperand d = Declare(s, Touch::Write, dst, t, st.dstBlk, st.dstRep, plan, "dst", s.instr.dst);
    CheckOverlap(s, d, a, plan, false);
    if (mode != 1) CheckOverlap(s, d, b, plan, false);
    if (!s.Commit()) return;
    alignas(32) uint8_t x[256], y[256];
    if (mode == 1) {
        for (uint32_t i = 0; i < lanes; ++i) std::memcpy(y + i * elem, core.cmpMask.data(), elem);
    }
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        const uint32_t n = plan.Prefix(r);
        const uint64_t first = mode == 0 ? 0 : static_cast<uint64_t>(r) * lanes;
        a.Fetch(x, r, n);
        if (mode != 1) b.Fetch(y, r, n);
        for (uint32_t i = 0; i < n; ++i) {
            if ((bits[(first + i) / 8] >> ((first + i) % 8) & 1) == 0) std::memcpy(x + i * elem, y + i * elem, elem);
        }
        d.Store(x, r, plan);
    }
}

// Keeps the elements whose pattern bit is set, packed. Normal mode takes whole repeats; counter mode takes `mask` elements of each.
void GatherMask(DType t, void* dst, const void* s0, const void* s1, uint32_t rep, uint32_t s0Blk, uint32_t pattern, uint32_t s0Rep,
                uint32_t s1Rep, SourceLoc loc) {
    InstrScope s(Op::vreducev2, Pipe::V, CoreKind::AIV, loc);
    Core& core = s.core;
    const uint32_t elem = DTypeBytes(t), lanes = 256 / elem;
    CheckRepeat(s, rep);
    s.Require(pattern <= 7, Rule::BadArgument, "GatherMask: pattern " + std::to_string(pattern), "built-in patterns are 1 to 7, 0 takes a tensor");
    const uint64_t count = core.maskCounter ? core.maskLow : lanes;
    s.Require(count * elem <= kUbBytes, Rule::MaskLimit, "GatherMask: a mask of " + std::to_string(count) + " elements a repeat", "stay within UB");
    if (s.Failed()) return;
    s.instr.repeats = static_cast<uint32_t>(rep * ((count + lanes - 1) / lanes));
    s.instr.lanes = count * rep;
    const uint64_t base = s.Offset(Mem::UB, s0, 32, "src0");
    s.instr.src0 = {Mem::UB, t, 0, static_cast<uint16_t>(s0Blk), static_cast<uint16_t>(s0Rep), base};
    const uint32_t perBlock = 32 / elem;
    if (s0Blk == 1) {
        s.Local(Mem::UB, Touch::Read, base, count * elem, rep, static_cast<int64_t>(s0Rep) * 32, 0, "src0");
    } else {
        for (uint64_t b = 0; b * perBlock < count; ++b) {
            s.Local(Mem::UB, Touch::Read, base + b * s0Blk * 32, std::min<uint64_t>(32, (count - b * perBlock) * elem), rep,
                    static_cast<int64_t>(s0Rep) * 32, 0, "src0");
        }
    }
    if (pattern == 0) DeclarePacked(s, Touch::Read, s1, 32, (count + 7) / 8, rep, s1Rep * 32ull, "src1Pattern", s.instr.src1);
    if (s.Failed()) return;
    static constexpr uint8_t kPatterns[8] = {0, 0x55, 0xAA, 0x11, 0x22, 0x44, 0x88, 0xFF};
    std::vector<uint8_t> kept;
    kept.reserve(count * elem * rep);
    for (uint32_t r = 0; r < rep; ++r) {
        const auto* from = static_cast<const uint8_t*>(s0) + static_cast<uint64_t>(r) * s0Rep * 32;
        const auto* bits = static_cast<const uint8_t*>(s1) + static_cast<uint64_t>(r) * s1Rep * 32;
        for (uint64_t i = 0; i < count; ++i) {
            const uint8_t byte = pattern == 0 ? bits[i / 8] : kPatterns[pattern];
            if ((byte >> (i % 8) & 1) == 0) continue;
            const uint8_t* value = from + i / perBlock * s0Blk * 32 + i % perBlock * elem;
            kept.insert(kept.end(), value, value + elem);
        }
    }
    DeclarePacked(s, Touch::Write, dst, 32, kept.size(), 1, 0, "dst", s.instr.dst);
    s.instr.dst.type = t;
    if (!s.Commit()) return;
    std::memcpy(dst, kept.data(), kept.size());
    core.reservedCount = kept.size() / elem;
}

void Gather(DType t, void* dst, const void* offsets, uint32_t base, uint32_t dstRep, uint32_t rep, SourceLoc loc) {
    InstrScope s(Op::vgather, Pipe::V, CoreKind::AIV, loc);
    const uint32_t elem = DTypeBytes(t), lanes = 256 / elem;
    const Plan plan = MakePlan(s, lanes, rep);
    const VecOperand d = Declare(s, Touch::Write, dst, t, 1, dstRep, plan, "dst", s.instr.dst);
    const Operand dstOperand = s.instr.dst;
    const Plan wide = plan;
    const VecOperand o{static_cast<uint8_t*>(const_cast<void*>(offsets)), 4, 1, lanes * 4 / 32};
    s.instr.src1 = {Mem::UB, DType::U32, 0, 1, static_cast<uint16_t>(o.rep), s.Offset(Mem::UB, offsets, 32, "srcOffset")};
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        s.Local(Mem::UB, Touch::Read, s.instr.src1.offset + static_cast<uint64_t>(r) * lanes * 4, plan.Prefix(r) * 4ull, 1, 0, 0, "srcOffset");
    }
    if (s.Failed()) return;
    const uint64_t from = UbOffset(s.core, base);
    s.instr.src0 = {Mem::UB, t, 0, 0, 0, from};
    const auto* index = static_cast<const uint32_t*>(offsets);
    for (uint32_t r = 0; r < plan.repeats && !s.Failed(); ++r) {
        uint64_t low = UINT64_MAX, high = 0;
        for (uint32_t i = 0; i < plan.Prefix(r); ++i) {
            if (!plan.Active(r, i)) continue;
            const uint64_t at = from + index[static_cast<uint64_t>(r) * lanes + i];
            s.Require(at % elem == 0, Rule::Misaligned, "Gather: offset " + std::to_string(at) + " is not a multiple of the element size " + std::to_string(elem),
                      "offsets count bytes");
            low = std::min(low, at);
            high = std::max(high, at + elem);
        }
        if (low < high) s.Local(Mem::UB, Touch::Read, low, high - low, 1, 0, 0, "the gathered elements");
    }
    s.instr.dst = dstOperand;
    if (!s.Commit()) return;
    alignas(32) uint8_t x[256];
    const uint8_t* ub = s.core.base[static_cast<int>(Mem::UB)];
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        for (uint32_t i = 0; i < plan.Prefix(r); ++i) {
            if (plan.Active(r, i)) std::memcpy(x + i * elem, ub + from + index[static_cast<uint64_t>(r) * lanes + i], elem);
        }
        d.Store(x, r, wide);
    }
}

// Eight blocks a repeat, each from its own offset. The mask plays no part.
void Gatherb(DType t, void* dst, const void* offsets, uint32_t base, uint32_t dstRep, uint32_t dstBlk, uint32_t rep, SourceLoc loc) {
    if (rep == 0) return;
    InstrScope s(Op::vgatherb, Pipe::V, CoreKind::AIV, loc);
    CheckRepeat(s, rep);
    if (dstBlk == 0) dstBlk = 1;
    s.instr.repeats = rep;
    s.instr.lanes = 8ull * rep * (32 / DTypeBytes(t));
    s.instr.src1.type = DType::U32;
    DeclarePacked(s, Touch::Read, offsets, 32, 32ull * rep, 1, 0, "offset", s.instr.src1);
    const uint64_t from = UbOffset(s.core, base);
    s.instr.src0 = {Mem::UB, t, 0, 0, 0, from};
    const uint64_t to = s.Offset(Mem::UB, dst, 32, "dst");
    s.instr.dst = {Mem::UB, t, 0, static_cast<uint16_t>(dstBlk), static_cast<uint16_t>(dstRep), to};
    if (dstBlk == 1) {
        s.Local(Mem::UB, Touch::Write, to, 256, rep, dstRep * 32ll, 0, "dst");
    } else {
        for (uint32_t b = 0; b < 8; ++b) s.Local(Mem::UB, Touch::Write, to + static_cast<uint64_t>(b) * dstBlk * 32, 32, rep, dstRep * 32ll, 0, "dst");
    }
    if (s.Failed()) return;
    const auto* index = static_cast<const uint32_t*>(offsets);
    uint64_t runBegin = 0, runEnd = 0;
    for (uint32_t i = 0; i < rep * 8; ++i) {
        const uint64_t at = from + index[i];
        s.Require(at % 32 == 0, Rule::Misaligned, "Gatherb: block offset " + std::to_string(index[i]) + " does not lead to a multiple of 32 bytes",
                  "offsets count bytes and must be multiples of 32");
        if (at == runEnd) {
            runEnd += 32;
            continue;
        }
        s.Local(Mem::UB, Touch::Read, runBegin, runEnd - runBegin, 1, 0, 0, "the gathered blocks");
        runBegin = at;
        runEnd = at + 32;
    }
    s.Local(Mem::UB, Touch::Read, runBegin, runEnd - runBegin, 1, 0, 0, "the gathered blocks");
    if (!s.Commit()) return;
    const uint8_t* ub = s.core.base[static_cast<int>(Mem::UB)];
    for (uint32_t r = 0; r < rep; ++r) {
        for (uint32_t b = 0; b < 8; ++b) {
            std::memmove(static_cast<uint8_t*>(dst) + (static_cast<uint64_t>(r) * dstRep + static_cast<uint64_t>(b) * dstBlk) * 32,
                         ub + from + index[r * 8 + b], 32);
        }
    }
}

}  // namespace cpu_twin::ops
