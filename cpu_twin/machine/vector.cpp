// SPDX-License-Identifier: Apache-2.0
#include "vector.h"

#include <algorithm>

namespace cpu_twin::ops {
namespace {

void Finish(InstrScope& s, const Plan& plan) {
    s.instr.repeats = plan.repeats;
    s.instr.lanes = plan.total;
}

uint32_t PopCount(uint64_t v) { return static_cast<uint32_t>(__builtin_popcountll(v)); }

}  // namespace

void CheckRepeat(InstrScope& s, uint32_t rep) {
    s.Require(rep <= 255, Rule::RepeatLimit, std::string(OpName(s.instr.op)) + ": repeatTime is " + std::to_string(rep),
              "repeatTime is at most 255; split the instruction");
}

Plan MakePlan(InstrScope& s, uint32_t lanes, uint32_t rep) {
    Plan plan;
    plan.lanes = lanes;
    const Core& core = s.core;
    if (core.maskCounter) {
        plan.counter = true;
        plan.total = core.maskLow;
        const uint64_t repeats = plan.total / lanes + (plan.total % lanes != 0 ? 1 : 0);
        s.Require(repeats <= kUbBytes, Rule::MaskLimit,
                  std::string(OpName(s.instr.op)) + ": counter mode with a count of " + std::to_string(plan.total),
                  "set the count with SetVectorMask<T, MaskMode::COUNTER>(count)");
        plan.repeats = s.Failed() ? 0 : static_cast<uint32_t>(repeats);
        plan.prefix = lanes;
        plan.dense = true;
    } else {
        CheckRepeat(s, rep);
        plan.repeats = rep;
        plan.low = lanes >= 64 ? core.maskLow : core.maskLow & ((1ull << lanes) - 1);
        plan.high = lanes > 64 ? core.maskHigh : 0;
        if (plan.high != 0) plan.prefix = 128 - static_cast<uint32_t>(__builtin_clzll(plan.high));
        else if (plan.low != 0) plan.prefix = 64 - static_cast<uint32_t>(__builtin_clzll(plan.low));
        const uint32_t active = PopCount(plan.low) + PopCount(plan.high);
        plan.dense = active == plan.prefix;
        plan.total = static_cast<uint64_t>(active) * rep;
        if (active == 0) plan.repeats = 0;
    }
    Finish(s, plan);
    return plan;
}

Plan MakeUnmaskedPlan(InstrScope& s, uint32_t lanes, uint32_t rep) {
    if (s.core.maskCounter) return MakePlan(s, lanes, rep);
    CheckRepeat(s, rep);
    Plan plan;
    plan.lanes = plan.prefix = lanes;
    plan.repeats = rep;
    plan.low = plan.high = ~0ull;
    plan.dense = true;
    plan.total = static_cast<uint64_t>(lanes) * rep;
    Finish(s, plan);
    return plan;
}

void VecOperand::Fetch(uint8_t* out, uint32_t r, uint32_t lanes) const {
    const uint32_t bytes = lanes * elem;
    if (blk == 1) {
        std::memcpy(out, Block(r, 0), bytes);
        return;
    }
    for (uint32_t at = 0; at < bytes; at += 32) std::memcpy(out + at, Block(r, at / 32), std::min(32u, bytes - at));
}

void VecOperand::Store(const uint8_t* in, uint32_t r, const Plan& plan) const {
    const uint32_t lanes = plan.Prefix(r);
    if (plan.counter || plan.dense) {
        const uint32_t bytes = lanes * elem;
        if (blk == 1) {
            std::memcpy(Block(r, 0), in, bytes);
            return;
        }
        for (uint32_t at = 0; at < bytes; at += 32) std::memcpy(Block(r, at / 32), in + at, std::min(32u, bytes - at));
        return;
    }
    const uint32_t perBlock = 32 / elem;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
        if (plan.Active(r, lane)) std::memcpy(Block(r, lane / perBlock) + lane % perBlock * elem, in + lane * elem, elem);
    }
}

VecOperand Declare(InstrScope& s, Touch kind, const void* p, DType t, uint32_t blk, uint32_t rep, const Plan& plan, const char* name,
                   Operand& description) {
    const uint32_t elem = DTypeBytes(t);
    const uint64_t base = s.Offset(Mem::UB, p, 32, name);
    description = {Mem::UB, t, 0, static_cast<uint16_t>(blk), static_cast<uint16_t>(rep), base};
    s.Require(blk <= 65535 && rep <= 65535, Rule::StrideLimit,
              std::string(OpName(s.instr.op)) + ": strides of " + name + " are " + std::to_string(blk) + " and " + std::to_string(rep) + " blocks",
              "strides are at most 65535 blocks");
    VecOperand operand{static_cast<uint8_t*>(const_cast<void*>(p)), elem, blk, rep};
    if (s.Failed() || plan.repeats == 0) return operand;
    const int64_t stride = static_cast<int64_t>(rep) * 32;
    const bool partialTail = plan.counter && plan.total % plan.lanes != 0;
    const uint32_t uniform = partialTail ? plan.repeats - 1 : plan.repeats;
    if (blk == 1 && plan.dense) {
        s.Local(Mem::UB, kind, base, static_cast<uint64_t>(plan.prefix) * elem, uniform, stride, 0, name);
        if (partialTail) {
            s.Local(Mem::UB, kind, base + static_cast<uint64_t>(stride) * uniform, plan.total % plan.lanes * elem, 1, 0, 0, name);
        }
        return operand;
    }
    // Block by block: the bytes between the first and the last active lane of each.
    const uint32_t perBlock = 32 / elem;
    auto blocks = [&](uint32_t firstRepeat, uint32_t count) {
        const uint32_t lanes = plan.Prefix(firstRepeat);
        for (uint32_t b = 0; b * perBlock < lanes; ++b) {
            uint32_t from = perBlock, to = 0;
            for (uint32_t i = 0; i < perBlock && b * perBlock + i < lanes; ++i) {
                if (!plan.Active(firstRepeat, b * perBlock + i)) continue;
                from = std::min(from, i);
                to = i + 1;
            }
            if (from >= to) continue;
            if (blk == 0 && b > 0) continue;  // one block serves all
            s.Local(Mem::UB, kind, base + static_cast<uint64_t>(stride) * firstRepeat + static_cast<uint64_t>(b) * blk * 32 + from * elem,
                    static_cast<uint64_t>(to - from) * elem, count, stride, 0, name);
        }
    };
    if (uniform > 0) blocks(0, uniform);
    if (partialTail) blocks(uniform, 1);
    return operand;
}

uint64_t DeclarePacked(InstrScope& s, Touch kind, const void* p, uint32_t align, uint64_t bytes, uint32_t repeats, uint64_t stride,
                       const char* name, Operand& description) {
    const uint64_t base = s.Offset(Mem::UB, p, align, name);
    description.mem = Mem::UB;
    description.offset = base;
    if (repeats > 0) s.Local(Mem::UB, kind, base, bytes, repeats, static_cast<int64_t>(stride), 0, name);
    return base;
}

void CheckOverlap(InstrScope& s, const VecOperand& dst, const VecOperand& src, const Plan& plan, bool accumulating) {
    if (s.Failed() || plan.repeats == 0) return;
    if (dst.p == src.p && dst.blk == src.blk && dst.rep == src.rep && dst.elem == src.elem) return;
    const auto blocks = [&plan](const VecOperand& o, uint32_t r) { return (plan.Prefix(r) * o.elem + 31) / 32; };
    const auto hull = [&](const VecOperand& o) {
        const uint8_t* end = o.p;
        for (uint32_t r : {0u, plan.repeats - 1}) end = std::max<const uint8_t*>(end, o.Block(r, blocks(o, r) - 1) + 32);
        return end;
    };
    if (dst.p >= hull(src) || src.p >= hull(dst)) return;
    if (accumulating && dst.p == src.p && (dst.rep == 0 || src.rep == 0)) return;
    // The hulls meet; with strides the operands may still interleave without touching. Look block by block.
    for (uint32_t r = 0; r < plan.repeats; ++r) {
        for (uint32_t b = 0; b < blocks(dst, r); ++b) {
            const uint8_t* d = dst.Block(r, b);
            for (uint32_t q = 0; q < plan.repeats; ++q) {
                if (q == r && dst.Block(r, 0) == src.Block(q, 0) && (dst.blk == src.blk || blocks(dst, r) == 1)) continue;
                const uint32_t count = blocks(src, q);
                if (d + 32 <= src.Block(q, 0) || d >= src.Block(q, count - 1) + 32) continue;
                for (uint32_t c = 0; c < count; ++c) {
                    const uint8_t* x = src.Block(q, c);
                    if (d + 32 <= x || x + 32 <= d) continue;
                    s.Fail(Rule::BadArgument,
                           std::string(OpName(s.instr.op)) + ": dst of repeat " + std::to_string(r) + " overlaps a source of repeat " +
                               std::to_string(q) + " without coinciding with it",
                           "sources and destination must be the same operand with the same strides, or not overlap");
                    return;
                }
            }
        }
    }
}

}  // namespace cpu_twin::ops
