// SPDX-License-Identifier: Apache-2.0
// Reductions, sorting, transposes.
#include <algorithm>
#include <vector>

#include "vector.h"

namespace cpu_twin::ops {
namespace {

void ToFloat(DType t, float* out, const uint8_t* in, uint32_t n) {
    if (t == DType::F16) kernels::HalfToFloatN(out, reinterpret_cast<const uint16_t*>(in), n);
    else std::memcpy(out, in, n * 4);
}
void FromFloat(DType t, uint8_t* out, float v) {
    if (t == DType::F16) {
        const uint16_t h = FloatToHalf(v);
        std::memcpy(out, &h, 2);
    } else {
        std::memcpy(out, &v, 4);
    }
}

// Pairs first, then pairs of pairs: the order of an adder tree over `n` lanes, absent lanes left out.
float TreeSum(const float* v, const bool* active, uint32_t n) {
    float level[128];
    bool has[128];
    for (uint32_t i = 0; i < n; ++i) {
        level[i] = v[i];
        has[i] = active[i];
    }
    for (uint32_t width = n; width > 1; width = (width + 1) / 2) {
        for (uint32_t i = 0; i < (width + 1) / 2; ++i) {
            const bool second = 2 * i + 1 < width && has[2 * i + 1];
            const bool first = has[2 * i];
            level[i] = first && second ? level[2 * i] + level[2 * i + 1] : first ? level[2 * i] : second ? level[2 * i + 1] : 0.0f;
            has[i] = first || second;
        }
    }
    return level[0];
}

// Index of the largest (smallest) active lane, the first of equals. A NaN is taken as soon as it is met.
int Extreme(Op op, const float* v, const bool* active, uint32_t n) {
    int best = -1;
    for (uint32_t i = 0; i < n; ++i) {
        if (!active[i]) continue;
        if (v[i] != v[i]) return static_cast<int>(i);
        const bool better = best < 0 || (op == Op::vcmax || op == Op::vcgmax ? v[i] > v[best] : v[i] < v[best]);
        if (better) best = static_cast<int>(i);
    }
    return best;
}

struct Lanes {
    float v[128];
    bool active[128];
    uint32_t n;
};
void FetchLanes(const VecOperand& a, DType t, const Plan& plan, uint32_t r, Lanes& out) {
    alignas(32) uint8_t x[256];
    out.n = plan.Prefix(r);
    a.Fetch(x, r, out.n);
    ToFloat(t, out.v, x, out.n);
    for (uint32_t i = 0; i < out.n; ++i) out.active[i] = plan.Active(r, i);
}

}  // namespace

// One result a repeat. `mode`: for sums, 1 accumulates into the register get_acc_val reads instead of writing; for extremes, the Order_t.
void WholeReduce(Op op, DType t, void* dst, const void* src, uint32_t rep, uint32_t dstRep, uint32_t srcBlk, uint32_t srcRep, uint32_t mode,
                 SourceLoc loc) {
    InstrScope s(op, Pipe::V, CoreKind::AIV, loc);
    Core& core = s.core;
    const uint32_t elem = DTypeBytes(t), lanes = 256 / elem;
    const Plan plan = MakePlan(s, lanes, rep);
    const VecOperand a = Declare(s, Touch::Read, src, t, srcBlk, srcRep, plan, "src", s.instr.src0);
    const bool sum = op == Op::vcadd;
    const bool pair = !sum && (mode == VALUE_INDEX || mode == INDEX_VALUE);
    const uint32_t bytes = sum ? elem : pair ? 2 * elem : mode == ONLY_INDEX ? 4 : elem;
    const bool accumulate = sum && mode == 1;
    s.Require(sum ? mode <= 1 : mode <= 3, Rule::BadArgument, std::string(OpName(op)) + ": mode " + std::to_string(mode), "see the order argument");
    s.instr.dst.type = t;
    s.instr.dst.repStride = static_cast<uint16_t>(dstRep);
    if (!accumulate) DeclarePacked(s, Touch::Write, dst, bytes, bytes, plan.repeats, static_cast<uint64_t>(dstRep) * bytes, "dst", s.instr.dst);
    if (!s.Commit() || plan.repeats == 0) return;
    float total = 0.0f, bestValue = 0.0f;
    uint64_t bestIndex = 0;
    bool any = false;
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        Lanes lane;
        FetchLanes(a, t, plan, r, lane);
        auto* to = static_cast<uint8_t*>(dst) + static_cast<uint64_t>(r) * dstRep * bytes;
        if (sum) {
            const float v = TreeSum(lane.v, lane.active, lane.n);
            total += v;
            if (!accumulate) FromFloat(t, to, v);
            continue;
        }
        const int best = Extreme(op, lane.v, lane.active, lane.n);
        if (best < 0) continue;
        const float v = lane.v[best];
        if (!any || (op == Op::vcmax ? v > bestValue : v < bestValue) || v != v) {
            bestValue = v;
            bestIndex = static_cast<uint64_t>(r) * lanes + static_cast<uint64_t>(best);
            any = true;
        }
        const uint32_t index = static_cast<uint32_t>(best);
        switch (mode) {
            case VALUE_INDEX: FromFloat(t, to, v); std::memcpy(to + elem, &index, elem); break;
            case INDEX_VALUE: std::memcpy(to, &index, elem); FromFloat(t, to + elem, v); break;
            case ONLY_VALUE: FromFloat(t, to, v); break;
            default: std::memcpy(to, &index, 4); break;
        }
    }
    uint64_t bits = 0;
    if (sum) {
        FromFloat(t, reinterpret_cast<uint8_t*>(&bits), total);
        core.accVal = bits;
    } else {
        FromFloat(t, reinterpret_cast<uint8_t*>(&bits), bestValue);
        core.maxMinCount = bits | bestIndex << 32;
    }
}

// vcgadd, vcgmax, vcgmin: one result per 32-byte block, eight a repeat. vcpadd: one per pair of neighbours. What has no active lane keeps
// its old destination.
void BlockReduce(Op op, DType t, void* dst, const void* src, uint32_t rep, uint32_t dstRep, uint32_t srcBlk, uint32_t srcRep, SourceLoc loc) {
    InstrScope s(op, Pipe::V, CoreKind::AIV, loc);
    const uint32_t elem = DTypeBytes(t), lanes = 256 / elem;
    const uint32_t group = op == Op::vcpadd ? 2 : 32 / elem;
    const Plan plan = MakePlan(s, lanes, rep);
    const VecOperand a = Declare(s, Touch::Read, src, t, srcBlk, srcRep, plan, "src", s.instr.src0);
    const uint32_t results = lanes / group, align = op == Op::vcpadd ? 32 : 8 * elem;
    const uint64_t unit = static_cast<uint64_t>(results) * elem;
    const uint64_t base = s.Offset(Mem::UB, dst, align, "dst");
    s.instr.dst = {Mem::UB, t, 0, 0, static_cast<uint16_t>(dstRep), base};
    for (uint32_t r = 0; r < plan.repeats;) {
        // Repeats with the same number of active lanes are declared together.
        const uint32_t count = plan.counter && r + 1 == plan.repeats ? 1 : plan.counter ? plan.repeats - 1 : plan.repeats;
        s.Local(Mem::UB, Touch::Write, base + r * unit * dstRep, (plan.Prefix(r) + group - 1) / group * static_cast<uint64_t>(elem), count,
                static_cast<int64_t>(unit * dstRep), 0, "dst");
        r += count;
    }
    if (!s.Commit()) return;
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        Lanes lane;
        FetchLanes(a, t, plan, r, lane);
        auto* to = static_cast<uint8_t*>(dst) + r * unit * dstRep;
        for (uint32_t g = 0; g * group < lane.n; ++g) {
            const uint32_t n = std::min(group, lane.n - g * group);
            const float* v = lane.v + g * group;
            const bool* active = lane.active + g * group;
            if (std::none_of(active, active + n, [](bool b) { return b; })) continue;
            const bool sum = op == Op::vcgadd || op == Op::vcpadd;
            FromFloat(t, to + g * elem, sum ? TreeSum(v, active, n) : v[Extreme(op, v, active, n)]);
        }
    }
}

namespace {

float ScoreOf(DType t, const uint8_t* record) {
    if (t == DType::F16) {
        uint16_t h;
        std::memcpy(&h, record, 2);
        return HalfToFloat(h);
    }
    float f;
    std::memcpy(&f, record, 4);
    return f;
}

}  // namespace

// 32 scores a repeat in descending order, equal ones in their old order, as records of score and index (8 bytes).
void BitSort(DType t, void* dst, const void* score, const void* index, uint32_t rep, SourceLoc loc) {
    if (rep == 0) return;
    InstrScope s(Op::vbitsort, Pipe::V, CoreKind::AIV, loc);
    const uint32_t elem = DTypeBytes(t);
    CheckRepeat(s, rep);
    s.instr.repeats = rep;
    s.instr.lanes = 32ull * rep;
    s.instr.src0.type = t;
    DeclarePacked(s, Touch::Read, score, 32, 32ull * elem * rep, 1, 0, "src0", s.instr.src0);
    DeclarePacked(s, Touch::Read, index, 32, 128ull * rep, 1, 0, "src1", s.instr.src1);
    DeclarePacked(s, Touch::Write, dst, 32, 256ull * rep, 1, 0, "dst", s.instr.dst);
    if (!s.Commit()) return;
    for (uint32_t r = 0; r < rep; ++r) {
        const uint8_t* scores = static_cast<const uint8_t*>(score) + r * 32ull * elem;
        uint8_t records[32][8];
        for (uint32_t i = 0; i < 32; ++i) {
            std::memset(records[i], 0, 8);
            std::memcpy(records[i], scores + i * elem, elem);
            std::memcpy(records[i] + 4, static_cast<const uint8_t*>(index) + (r * 32ull + i) * 4, 4);
        }
        uint32_t order[32];
        for (uint32_t i = 0; i < 32; ++i) order[i] = i;
        std::stable_sort(order, order + 32, [&](uint32_t a, uint32_t b) { return ScoreOf(t, records[a]) > ScoreOf(t, records[b]); });
        for (uint32_t i = 0; i < 32; ++i) std::memcpy(static_cast<uint8_t*>(dst) + r * 256ull + i * 8, records[order[i]], 8);
    }
}

// Merges up to four sorted lists of 8-byte records. config: repeats in bits 7:0, valid lists in 11:8, stop when one list is used up in 12.
void MrgSort4(DType t, void* dst, void* const* src, uint64_t lengths, uint64_t config, SourceLoc loc) {
    const uint32_t rep = config & 0xFF, valid = config >> 8 & 15;
    if (rep == 0) return;
    InstrScope s(Op::vmrgsort4, Pipe::V, CoreKind::AIV, loc);
    const bool stop = config >> 12 & 1;
    s.Require(valid == 3 || valid == 7 || valid == 15, Rule::BadArgument, "MrgSort: validBit is " + std::to_string(valid), "use 3, 7 or 15");
    if (s.Failed()) return;
    const uint32_t lists = valid == 3 ? 2 : valid == 7 ? 3 : 4;
    uint32_t length[4] = {0, 0, 0, 0};
    uint64_t perRepeat = 0;
    bool equal = true;
    for (uint32_t i = 0; i < lists; ++i) {
        length[i] = lengths >> (16 * i) & 0xFFFF;
        s.Require(length[i] <= 4095, Rule::BadArgument, "MrgSort: list " + std::to_string(i) + " has " + std::to_string(length[i]) + " records",
                  "a list has at most 4095 records");
        equal = equal && length[i] == length[0];
        perRepeat += length[i] * 8ull;
    }
    if (rep > 1) {
        bool contiguous = lists == 4 && equal && !stop;
        for (uint32_t i = 1; i < lists && contiguous; ++i) {
            contiguous = static_cast<uint8_t*>(src[i]) == static_cast<uint8_t*>(src[0]) + i * length[0] * 8ull;
        }
        s.Require(contiguous, Rule::BadArgument, "MrgSort: repeatTimes is " + std::to_string(rep) + " although the lists are not four, equally long, adjacent and merged to the end",
                  "use repeatTimes 1");
    }
    for (uint32_t i = 0; i < lists; ++i) {
        const uint64_t base = s.Offset(Mem::UB, src[i], 8, "a source list");
        if (i == 0) s.instr.src0 = {Mem::UB, t, 0, 0, 0, base};
        s.Local(Mem::UB, Touch::Read, base, length[i] * 8ull, rep, static_cast<int64_t>(perRepeat), 0, "a source list");
    }
    s.instr.repeats = rep;
    s.instr.lanes = perRepeat / 8 * rep;
    if (s.Failed()) return;
    std::vector<uint8_t> out;
    uint32_t used[4] = {0, 0, 0, 0};
    for (uint32_t r = 0; r < rep; ++r) {
        std::fill(used, used + 4, 0u);
        for (;;) {
            int best = -1;
            bool exhausted = false;
            for (uint32_t i = 0; i < lists; ++i) {
                if (used[i] == length[i]) {
                    exhausted = true;
                    continue;
                }
                const auto* record = static_cast<const uint8_t*>(src[i]) + r * perRepeat + used[i] * 8ull;
                if (best < 0 || ScoreOf(t, record) > ScoreOf(t, static_cast<const uint8_t*>(src[best]) + r * perRepeat + used[best] * 8ull)) {
                    best = static_cast<int>(i);
                }
            }
            if (best < 0 || (stop && exhausted)) break;
            const auto* record = static_cast<const uint8_t*>(src[best]) + r * perRepeat + used[best] * 8ull;
            out.insert(out.end(), record, record + 8);
            ++used[best];
        }
    }
    DeclarePacked(s, Touch::Write, dst, 32, out.size(), 1, 0, "dst", s.instr.dst);
    if (!s.Commit()) return;
    std::memcpy(dst, out.data(), out.size());
    s.core.mrgSortStatus = 0;
    for (uint32_t i = 0; i < 4; ++i) s.core.mrgSortStatus |= static_cast<uint64_t>(used[i]) << (16 * i);
}

// Sixteen source rows of 32 bytes become columns. Four-byte elements: rows of 8, so destination 2j and 2j + 1 hold the halves of column j.
// One-byte elements: each repeat reads and writes one half of its 32-byte rows.
void TransposeTo5Hd(uint32_t elemBytes, uint32_t dstReg, uint32_t srcReg, uint32_t rep, uint32_t dstRep, uint32_t srcRep, bool dstHigh, bool srcHigh,
                    SourceLoc loc) {
    if (rep == 0) return;
    InstrScope s(Op::vnchwconv, Pipe::V, CoreKind::AIV, loc);
    CheckRepeat(s, rep);
    Core& core = s.core;
    s.instr.repeats = rep;
    s.instr.lanes = 256ull * rep;
    uint8_t *dst[16], *src[16];
    // With a single repeat the stride is added to the start.
    const uint64_t first = rep == 1 ? 1 : 0;
    for (uint32_t i = 0; i < 16; ++i) {
        dst[i] = reinterpret_cast<uint8_t*>(core.vaReg[dstReg + i / 8][i % 8]) + first * dstRep * 32;
        src[i] = reinterpret_cast<uint8_t*>(core.vaReg[srcReg + i / 8][i % 8]) + first * srcRep * 32;
        const uint64_t d = s.Offset(Mem::UB, dst[i], 32, "a destination row"), f = s.Offset(Mem::UB, src[i], 32, "a source row");
        const uint64_t half = elemBytes == 1 ? 16 : 32;
        s.Local(Mem::UB, Touch::Read, f + (srcHigh ? 16 : 0), half, rep, srcRep * 32ll, 0, "a source row");
        s.Local(Mem::UB, Touch::Write, d + (dstHigh ? 16 : 0), half, rep, dstRep * 32ll, 0, "a destination row");
    }
    if (!s.Commit()) return;
    for (uint32_t r = 0; r < rep; ++r) {
        uint8_t in[16][32];
        for (uint32_t i = 0; i < 16; ++i) std::memcpy(in[i], src[i] + r * srcRep * 32ull, 32);
        for (uint32_t i = 0; i < 16; ++i) {
            uint8_t* out = dst[i] + r * dstRep * 32ull;
            if (elemBytes == 2) {
                for (uint32_t j = 0; j < 16; ++j) std::memcpy(out + j * 2, in[j] + i * 2, 2);
            } else if (elemBytes == 4) {
                for (uint32_t j = 0; j < 8; ++j) std::memcpy(out + j * 4, in[i % 2 * 8 + j] + i / 2 * 4, 4);
            } else {
                for (uint32_t j = 0; j < 16; ++j) out[(dstHigh ? 16 : 0) + j] = in[j][(srcHigh ? 16 : 0) + i];
            }
        }
    }
}

void Transpose16(void* dst, const void* src, SourceLoc loc) {
    InstrScope s(Op::vtranspose, Pipe::V, CoreKind::AIV, loc);
    s.instr.repeats = 1;
    s.instr.lanes = 256;
    DeclarePacked(s, Touch::Read, src, 32, 512, 1, 0, "src", s.instr.src0);
    DeclarePacked(s, Touch::Write, dst, 32, 512, 1, 0, "dst", s.instr.dst);
    if (!s.Commit()) return;
    uint16_t in[256];
    std::memcpy(in, src, 512);
    for (uint32_t r = 0; r < 16; ++r) {
        for (uint32_t c = 0; c < 16; ++c) static_cast<uint16_t*>(dst)[c * 16 + r] = in[r * 16 + c];
    }
}

}  // namespace cpu_twin::ops
