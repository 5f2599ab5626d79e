// SPDX-License-Identifier: Apache-2.0
// One instruction being executed: where it stands, what it touches, whether that is allowed.
#pragma once

#include <string>

#include "core.h"

namespace cpu_twin {

// `count` pieces of `bytes` bytes, `stride` apart, starting at `begin` (an offset in a local memory or a tensor).
struct Box {
    Mem mem;
    Touch kind;
    uint16_t tensor;
    uint8_t aux;
    uint32_t count;
    uint64_t begin, bytes;
    int64_t stride;
};

class InstrScope {
public:
    // `core` the instruction runs on; the other kind is an error.
    InstrScope(Op op, Pipe pipe, CoreKind kind, SourceLoc loc);

    Core& core;
    Instr instr;
    uint32_t site = 0;

    bool Failed() const { return failed_; }
    void Fail(Rule rule, const std::string& what, const std::string& help);
    void Require(bool condition, Rule rule, const std::string& what, const std::string& help) {
        if (!condition) Fail(rule, what, help);
    }

    // Offset of `p` in the core's `mem`; fails when it lies elsewhere or is not aligned.
    uint64_t Offset(Mem mem, const void* p, uint32_t align, const char* operand);
    void Local(Mem mem, Touch kind, uint64_t begin, uint64_t bytes, uint32_t count = 1, int64_t stride = 0, uint8_t aux = 0,
               const char* operand = "");
    // Global memory. Fills the operand's tensor and offset.
    void Global(Touch kind, const void* p, uint64_t bytes, uint32_t count = 1, int64_t stride = 0, uint8_t aux = 0,
                const char* operand = "");
    // Race check and record. False: the instruction must not be executed.
    bool Commit();

private:
    bool failed_ = false;
    Box boxes_[8];
    int boxCount_ = 0;
    std::vector<Box> more_;
    void Push(const Box& box);
};

// Copies `bytes` bytes to GM, or combines them with what is there when the core's atomic mode is on.
void StoreToGm(const Core& core, uint8_t* dst, const uint8_t* src, uint64_t bytes);
uint32_t AtomicBytes(atomic_type_t type);

// Atomic mode of the core as an Access::aux: 0 plain, else type and operation.
inline uint8_t AtomicAux(const Core& core) {
    return core.atomicType == ATOMIC_NONE ? 0 : static_cast<uint8_t>(core.atomicType * 4 + core.atomicOp);
}

}  // namespace cpu_twin
