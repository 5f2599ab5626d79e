// SPDX-License-Identifier: Apache-2.0
// Running a kernel on the machine: what the host hands in, and the report it gets back.
//
//     std::vector<float> x(n), y(n);
//     auto report = cpu_twin::Launch(my_kernel, /*blockDim=*/8, cpu_twin::KernelType::AivOnly,
//                                    {cpu_twin::In("x", x), cpu_twin::Out("y", y)}, {}, cpu_twin::Gm(x), cpu_twin::Gm(y), n);
//     if (!report.ok()) std::cerr << report.Text();
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "clock_interface.h"  // IWYU pragma: export

namespace cpu_twin {

// As KERNEL_TYPE_* of the public headers. AivOnly and AicOnly: a block is one core. Mix*: a block is a group of one AIC
// and the number of AIVs the name ends in; MixAic1_0 and MixAiv1_0 have one core of the kind named.
enum class KernelType : uint8_t { AivOnly, AicOnly, MixAiv1_0, MixAic1_0, MixAic1_1, MixAic1_2 };

// What a kernel may do with a tensor. In: reads only, a write is an error. Out: filled with NaN bytes before the run.
// InOut: contents kept. Workspace: filled with NaN bytes, contents undefined afterwards.
enum class Use : uint8_t { In, Out, InOut, Workspace };

struct Tensor {
    std::string name;
    void* data = nullptr;
    size_t bytes = 0;
    Use use = Use::InOut;
};
template <typename C> Tensor In(std::string name, const C& c) {
    return {std::move(name), const_cast<void*>(static_cast<const void*>(c.data())), c.size() * sizeof(*c.data()), Use::In};
}
template <typename C> Tensor Out(std::string name, C& c) {
    return {std::move(name), c.data(), c.size() * sizeof(*c.data()), Use::Out};
}
template <typename C> Tensor InOut(std::string name, C& c) {
    return {std::move(name), c.data(), c.size() * sizeof(*c.data()), Use::InOut};
}
template <typename C> Tensor Workspace(std::string name, C& c) {
    return {std::move(name), c.data(), c.size() * sizeof(*c.data()), Use::Workspace};
}
// The address a kernel argument of type GM_ADDR takes.
template <typename C> uint8_t* Gm(const C& c) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(c.data()));
}

struct Options {
    bool check = true;              // race, flag and bounds checker; bounds of GM are checked even without it
    uint64_t seed = 0;              // permutes the order in which cores and blocks are executed; 0 keeps index order
    int threads = 1;                // blocks are spread over this many OS threads; the report does not depend on it
    bool poison = true;             // fill Out and Workspace tensors with NaN bytes first
    size_t maxFindings = 64;        // distinct ones kept; the rest is counted
    std::string dropSync;           // SyncSite::Key() of a call site to leave out; environment CPU_TWIN_DROP_SYNC if empty
    std::vector<std::shared_ptr<ClockModel>> clocks;  // each gets its own Timing in the report
    bool timeline = false;          // keep every instruction's span (for traces)
    size_t timelineLimit = 4u << 20;
    bool backtrace = false;         // take source lines from return addresses: for kernels under the public headers
    size_t stackBytes = 1u << 20;   // per core
    // Called whenever execution moves to another core (only with threads == 1): a layer above may swap its globals.
    std::function<void(uint32_t core)> onSwitch;
};

enum class Rule : uint8_t {
    Race, OutOfRange, Misaligned, FlagSetTwice, FlagLeftOver, FlagNeverSet, CounterOverflow, CounterLeftOver, ReservedFlagId,
    StrideLimit, RepeatLimit, MaskLimit, BadArgument, WrongCore, ReadOnlyWritten, StaleCacheLine, DirtyCacheLine, UnitFlag, Deadlock,
    KernelTrap, KernelError
};
const char* RuleName(Rule r);

struct Finding {
    Rule rule;
    std::string message;            // several lines: what, where, the other access, what to do
    std::string file;               // of the (later) access
    uint32_t line = 0;
    std::string otherFile;          // of the earlier access, for races
    uint32_t otherLine = 0;
    uint32_t core = 0;
    uint64_t count = 1;             // how often the same pair of lines broke the same rule
};

// One sync call in the source: same intrinsic, same line, same pipes.
struct SyncSite {
    Op op;
    Pipe from = Pipe::S, to = Pipe::S;
    std::string file;
    uint32_t line = 0;
    uint64_t calls = 0;
    std::string Key() const;        // "set_flag MTE2_V kernel.cpp:88"; the file without its directories
};

struct TimelineEvent {
    // What the start waited for last.
    enum class Cause : uint8_t { Start, Pipe, Issue, Flag, CrossCore, Barrier, Queue, UnitFlag };
    Op op = Op::scalar_work;
    Pipe pipe = Pipe::S;
    uint16_t core = 0;
    uint32_t site = 0;
    double issue = 0, start = 0, release = 0, end = 0;  // cycles; the pipe is free again at `release`
    double waited = 0;              // cycles the pipe or scalar unit was held by a flag or barrier (wait events)
    int32_t fromCore = -1;          // wait events: the core whose set released it
    int32_t cause = -1;             // index of the event that `causeKind` speaks of, -1 none
    Cause causeKind = Cause::Start;
    uint64_t bytes = 0;
    uint32_t detail = 0;            // repeats, or pieces
    uint16_t m = 0, n = 0, k = 0;
};

struct Timing {
    std::string clock;
    double cycles = 0;              // launch head to end of kernel
    double microseconds = 0;
    std::vector<std::array<double, kPipes>> busy;       // [core][pipe] cycles occupied
    std::vector<std::array<double, kPipes>> waiting;    // [core][pipe] cycles held by flags
    std::vector<double> coreEnd;                        // [core] cycle at which the core was done
    std::vector<TimelineEvent> timeline;                // with Options::timeline
    bool timelineTruncated = false;
};

struct Stats {
    uint64_t instructions = 0;
    std::array<uint64_t, static_cast<size_t>(Op::Count)> perOp{};
    uint64_t madFlops = 0;
    uint64_t gmReadBytes = 0, gmWriteBytes = 0;
    double seconds = 0;             // wall time of the run; not part of what is bit-equal between runs
};

struct Site {
    std::string file;
    uint32_t line = 0;
};

struct Report {
    Grid grid;
    std::vector<Finding> findings;
    uint64_t findingsDropped = 0;
    std::vector<SyncSite> syncSites;
    std::string dropUnmatched;      // Options::dropSync, if no call of this run had that key: nothing was left out
    std::vector<Timing> times;
    std::vector<Site> sites;        // TimelineEvent::site and Instr::site index this
    Stats stats;
    bool ok() const { return findings.empty(); }
    std::string Text() const;       // findings in full, then one line per timing
};

Report LaunchErased(const std::function<void()>& kernel, const char* name, uint32_t blockDim, KernelType type,
                    const std::vector<Tensor>& tensors, const Options& options);

// Runs `kernel` on every core of the grid. Arguments are converted to the kernel's parameter types and passed by value.
template <typename... P, typename... A>
Report Launch(void (*kernel)(P...), uint32_t blockDim, KernelType type, const std::vector<Tensor>& tensors,
              const Options& options, A&&... args) {
    std::tuple<P...> bound(static_cast<P>(std::forward<A>(args))...);
    return LaunchErased([&bound, kernel] { std::apply(kernel, bound); }, "kernel", blockDim, type, tensors, options);
}

// ---- dav-2201 ----
inline constexpr uint32_t kUbBytes = 192 * 1024;
inline constexpr uint32_t kL1Bytes = 512 * 1024;
inline constexpr uint32_t kL0aBytes = 64 * 1024;
inline constexpr uint32_t kL0bBytes = 64 * 1024;
inline constexpr uint32_t kL0cBytes = 128 * 1024;
inline constexpr uint32_t kBtBytes = 1024;
inline constexpr uint32_t kFbBytes = 7 * 1024;
inline constexpr uint32_t kMaxAic = 24, kMaxAiv = 48;

}  // namespace cpu_twin
