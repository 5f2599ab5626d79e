// SPDX-License-Identifier: Apache-2.0
// What every vector instruction shares: repeats, masks, strided operands.
#pragma once

#include <cstring>
#include <string>

#include "instr.h"
#include "kernels.h"

namespace cpu_twin::ops {

inline constexpr uint32_t kMaxLanes = 256;

// Repeats and masks of one instruction. Normal mode: `rep` repeats under one bit mask. Counter mode: `total` lanes in as many repeats
// as that takes, the last one partial.
struct Plan {
    uint32_t lanes = 0;     // of a full repeat
    uint32_t repeats = 0;
    bool counter = false;
    uint64_t total = 0;     // active lanes over all repeats
    uint64_t low = 0, high = 0;
    uint32_t prefix = 0;    // lanes up to and including the last active one of a full repeat
    bool dense = false;     // the active lanes of a repeat are exactly the prefix

    bool Active(uint32_t r, uint32_t lane) const {
        if (counter) return static_cast<uint64_t>(r) * lanes + lane < total;
        return lane < 64 ? (low >> lane & 1) != 0 : (high >> (lane - 64) & 1) != 0;
    }
    uint32_t Prefix(uint32_t r) const {
        if (!counter) return prefix;
        const uint64_t left = total - static_cast<uint64_t>(r) * lanes;
        return left < lanes ? static_cast<uint32_t>(left) : lanes;
    }
    bool FullyDense() const { return counter || (dense && prefix == lanes); }
};

Plan MakePlan(InstrScope& s, uint32_t lanes, uint32_t rep);
// All lanes of every repeat, whatever the mask register holds; counter mode still counts.
Plan MakeUnmaskedPlan(InstrScope& s, uint32_t lanes, uint32_t rep);

// One operand of a vector instruction.
struct VecOperand {
    uint8_t* p;
    uint32_t elem;              // bytes of an element
    uint32_t blk, rep;          // strides in blocks
    uint8_t* Block(uint32_t r, uint32_t b) const { return p + (static_cast<uint64_t>(r) * rep + static_cast<uint64_t>(b) * blk) * 32; }
    bool Flat(const Plan& plan) const {
        return blk == 1 && (plan.repeats <= 1 || rep * 32ull == static_cast<uint64_t>(plan.lanes) * elem);
    }
    void Fetch(uint8_t* out, uint32_t r, uint32_t lanes) const;             // the first `lanes` lanes of a repeat
    void Store(const uint8_t* in, uint32_t r, const Plan& plan) const;      // its active lanes
};

// Declares what the operand touches and fills its description for the clock.
VecOperand Declare(InstrScope& s, Touch kind, const void* p, DType t, uint32_t blk, uint32_t rep, const Plan& plan, const char* name,
                   Operand& description);
// An operand whose repeats are packed: `bytes` per repeat, `stride` bytes apart.
uint64_t DeclarePacked(InstrScope& s, Touch kind, const void* p, uint32_t align, uint64_t bytes, uint32_t repeats, uint64_t stride,
                       const char* name, Operand& description);
void CheckRepeat(InstrScope& s, uint32_t rep);
// dst and src of one instruction coincide or are apart; anything else reads what an earlier repeat wrote.
void CheckOverlap(InstrScope& s, const VecOperand& dst, const VecOperand& src, const Plan& plan, bool accumulating);

}  // namespace cpu_twin::ops
