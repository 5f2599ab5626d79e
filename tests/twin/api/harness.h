// SPDX-License-Identifier: Apache-2.0
// Small kernels written in place, run on one core or one block, and what is expected of their report.
#pragma once

#include <cmath>
#include <cstdio>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "kernel_operator.h"
#include "launch.h"

namespace api_test {

using namespace AscendC;
using cpu_twin::KernelType;
using cpu_twin::Report;
using cpu_twin::Rule;

struct Case {
    const char* name;
    void (*run)();
};
std::vector<Case>& Cases();
struct Register {
    Register(const char* name, void (*run)()) { Cases().push_back({name, run}); }
};
#define API_TEST(NAME)                                              \
    static void NAME();                                             \
    static const ::api_test::Register register_##NAME(#NAME, NAME); \
    static void NAME()

// Failures of the running case.
void Fail(const char* file, int line, const std::string& text);
#define EXPECT(CONDITION, TEXT)                                                          \
    do {                                                                                 \
        if (!(CONDITION)) {                                                              \
            ::api_test::Fail(__FILE__, __LINE__, std::string(#CONDITION ": ") + (TEXT)); \
        }                                                                                \
    } while (false)

// Runs `kernel` on `blocks` blocks. Tensors are named by their order.
inline Report Run(KernelType type, uint32_t blocks, const std::vector<cpu_twin::Tensor>& tensors,
                  const std::function<void()>& kernel)
{
    return cpu_twin::LaunchErased(kernel, "test", blocks, type, tensors, cpu_twin::Options{});
}
inline Report OnVector(const std::vector<cpu_twin::Tensor>& tensors, const std::function<void()>& kernel)
{
    return Run(KernelType::AivOnly, 1, tensors, kernel);
}
inline Report OnCube(const std::vector<cpu_twin::Tensor>& tensors, const std::function<void()>& kernel)
{
    return Run(KernelType::AicOnly, 1, tensors, kernel);
}

inline void ExpectClean(const Report& report, const char* file, int line)
{
    if (!report.ok()) {
        Fail(file, line, "findings:\n" + report.Text());
    }
}
#define EXPECT_CLEAN(REPORT) ::api_test::ExpectClean(REPORT, __FILE__, __LINE__)

// The first finding is of this rule, names this file and the given line, and its text contains `words`.
inline void ExpectFinding(const Report& report, Rule rule, uint32_t kernelLine, const std::string& words,
                          const char* file, int line)
{
    if (report.findings.empty()) {
        Fail(file, line, "expected a finding with '" + words + "', got none");
        return;
    }
    const cpu_twin::Finding& finding = report.findings.front();
    const bool here = finding.file.find("tests/twin/api") != std::string::npos && finding.line == kernelLine;
    if (finding.rule != rule || !here || finding.message.find(words) == std::string::npos) {
        Fail(file, line,
             "expected " + std::string(cpu_twin::RuleName(rule)) + " at line " + std::to_string(kernelLine) +
                 " with '" + words + "', got:\n" + report.Text());
    }
}
#define EXPECT_FINDING(REPORT, RULE, LINE, WORDS) \
    ::api_test::ExpectFinding(REPORT, RULE, LINE, WORDS, __FILE__, __LINE__)

// A vector kernel whose only statement is refused, at its own line.
#define EXPECT_REFUSED(TYPE, WORDS, ...)                                                                  \
    do {                                                                                                  \
        const Report refusedReport = Run(KernelType::TYPE, 1, {}, [&] { __VA_ARGS__; });                  \
        ::api_test::ExpectFinding(refusedReport, Rule::KernelError, __LINE__, WORDS, __FILE__, __LINE__); \
    } while (false)

// A tensor of `count` elements at byte `address` of UB.
template <typename T> LocalTensor<T> Ub(uint32_t address, uint32_t count)
{
    return LocalTensor<T>(TPosition::VECCALC, address, count);
}
// Device memory begins at multiples of 32 bytes; plain vectors need not.
template <typename T> struct AlignedAllocator {
    using value_type = T;
    AlignedAllocator() = default;
    template <typename U> AlignedAllocator(const AlignedAllocator<U>&) {}
    T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{512})); }
    void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{512}); }
    template <typename U> bool operator==(const AlignedAllocator<U>&) const { return true; }
    template <typename U> bool operator!=(const AlignedAllocator<U>&) const { return false; }
};
template <typename T> using Aligned = std::vector<T, AlignedAllocator<T>>;

template <typename T, typename A> GlobalTensor<T> Global(const std::vector<T, A>& data)
{
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(const_cast<T*>(data.data()), data.size());
    return tensor;
}
// Copies all of GM into UB, or back, and waits.
template <typename T> void Load(const LocalTensor<T>& dst, const std::vector<T>& src)
{
    DataCopyPad(dst, Global(src), {1, static_cast<uint32_t>(src.size() * sizeof(T)), 0, 0, 0},
                DataCopyPadExtParams<T>{});
    PipeBarrier<PIPE_ALL>();
}
template <typename T> void Store(std::vector<T>& dst, const LocalTensor<T>& src)
{
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(Global(dst), src, {1, static_cast<uint32_t>(dst.size() * sizeof(T)), 0, 0, 0});
}

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}
    uint32_t Below(uint32_t limit)
    {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<uint32_t>((state_ >> 33) % limit);
    }
    float Uniform(float low, float high) { return low + (high - low) * static_cast<float>(Below(1 << 24)) / (1 << 24); }

private:
    uint64_t state_;
};
inline std::vector<float> Floats(Random& random, size_t count, float low = -4, float high = 4)
{
    std::vector<float> values(count);
    for (float& value : values) {
        value = random.Uniform(low, high);
    }
    return values;
}

}    // namespace api_test
