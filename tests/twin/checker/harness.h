// SPDX-License-Identifier: Apache-2.0
// Kernels written on the intrinsics, each breaking one rule of the checker; what the report must say, and where.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../../../cpu_twin/machine/intrinsics.h"
#include "../../../cpu_twin/machine/launch.h"

namespace checker_test {

using namespace cpu_twin;

struct Case {
    const char* name;
    void (*run)();
};
std::vector<Case>& Cases();
struct Register {
    Register(const char* name, void (*run)()) { Cases().push_back({name, run}); }
};
#define CHECKER_TEST(NAME)                                              \
    static void NAME();                                                 \
    static const ::checker_test::Register register_##NAME(#NAME, NAME); \
    static void NAME()

[[noreturn]] void Fail(const std::string& text);

Report Run(KernelType type, uint32_t blocks, const std::vector<Tensor>& tensors, const std::function<void()>& kernel,
           const Options& options = {});
// One AIV, one AIC, one block of an AIC and two AIVs.
inline Report OnVector(const std::function<void()>& kernel, const std::vector<Tensor>& tensors = {}) {
    return Run(KernelType::AivOnly, 1, tensors, kernel);
}
inline Report OnCube(const std::function<void()>& kernel, const std::vector<Tensor>& tensors = {}) {
    return Run(KernelType::AicOnly, 1, tensors, kernel);
}
inline Report OnMix(const std::function<void()>& kernel, const std::vector<Tensor>& tensors = {}) {
    return Run(KernelType::MixAic1_2, 1, tensors, kernel);
}

// Lines of a kernel that a finding must name: MARK(1) and MARK(2) at the beginning of a line note it.
extern uint32_t marked[3];
#define MARK(N) ::checker_test::marked[N] = __LINE__

void ExpectClean(const Report& report);
// Exactly one finding, of this rule, at the line MARK(1) noted; its text contains all of `words`.
void ExpectOne(const Report& report, Rule rule, const std::vector<std::string>& words = {});
// A race: MARK(1) notes the earlier access, MARK(2) the later.
void ExpectRace(const Report& report, const std::vector<std::string>& words = {});
// Among others, one of this rule at the line MARK(1) noted.
void ExpectSome(const Report& report, Rule rule);

// Places in the calling core's memories, in elements.
inline float* Ub(uint32_t element) { return reinterpret_cast<float*>(LocalBase(Mem::UB)) + element; }
inline half* L1(uint32_t element) { return reinterpret_cast<half*>(LocalBase(Mem::L1)) + element; }
inline half* L0a(uint32_t element) { return reinterpret_cast<half*>(LocalBase(Mem::L0A)) + element; }
inline half* L0b(uint32_t element) { return reinterpret_cast<half*>(LocalBase(Mem::L0B)) + element; }
inline float* L0c(uint32_t element) { return reinterpret_cast<float*>(LocalBase(Mem::L0C)) + element; }

inline void Sync(pipe_t from, pipe_t to, event_t id = EVENT_ID0, SourceLoc loc = SourceLoc::Here()) {
    set_flag(from, to, id, loc);
    wait_flag(from, to, id, loc);
}
inline uint64_t CrossConfig(uint32_t mode, uint32_t flag) { return 1 | mode << 4 | flag << 8; }

}  // namespace checker_test
