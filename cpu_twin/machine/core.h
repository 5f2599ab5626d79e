// SPDX-License-Identifier: Apache-2.0
// The state of a launch: cores with their memories, registers and pipes; blocks that share cross-core flags; the machine.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "clock_interface.h"
#include "fiber.h"
#include "intrinsics.h"
#include "launch.h"
#include "shadow.h"

namespace cpu_twin {

struct Machine;
struct Block;

inline constexpr int kEventIds = 8;
inline constexpr int kCrossFlags = 16;
inline constexpr size_t kRecordQuantum = 4096;  // records of one core between two runs of the timeline
inline constexpr uint32_t kPageShift = 16;  // bytes of a tensor that share one RangeMap

// Thrown inside a core's fiber to unwind it: after a deadlock, a trap or an argument error.
struct CoreAbort {};

struct TensorInfo {
    std::string name;
    uint8_t* begin = nullptr;
    uint64_t bytes = 0;
    Use use = Use::InOut;
};

struct EventFlag {
    bool set = false;
    VectorClock clock;
    uint32_t site = 0;      // of the set_flag
};

struct PipeState {
    VectorClock know;
    uint32_t epoch = 1;
    uint32_t exchanged = 0;     // epochs below this have been shown to the other blocks
    uint32_t seenScalar = 0;    // version of the scalar pipe's knowledge already joined
    Op lastOp = Op::scalar_work;
    uint32_t lastSite = 0;
    uint64_t count = 0;
};

enum class CoreState : uint8_t { Ready, WaitingFlag, Polling, RecordsFull, Done };

// A line of the scalar unit's data cache.
struct CacheLine {
    std::array<uint8_t, 64> bytes;
    uint64_t dirty = 0;         // bit per byte
    uint32_t site = 0;          // of the last store, for the report
};

struct Core {
    Machine* machine = nullptr;
    Block* block = nullptr;
    uint16_t index = 0;         // in Grid::cores
    uint8_t local = 0;          // in the block: 0 AIC, 1 and 2 AIV; for one-core blocks 0
    CoreKind kind = CoreKind::AIV;
    uint32_t subBlock = 0;

    std::array<uint8_t*, 9> base{};     // by Mem
    std::array<uint32_t, 9> bytes{};
    std::array<RangeMap, 9> shadow;     // by Mem; GM lives in the block

    // Registers.
    std::array<uint64_t, static_cast<size_t>(ops::Reg::Count)> reg{};
    uint64_t maskHigh = ~0ull, maskLow = ~0ull;
    bool maskCounter = false;
    atomic_type_t atomicType = ATOMIC_NONE;
    uint8_t atomicOp = 0;
    std::array<uint8_t, 16> cmpMask{};
    uint64_t reservedCount = 0, accVal = 0, maxMinCount = 0, mrgSortStatus = 0;
    std::array<std::array<uint64_t, 8>, 8> vaReg{};
    std::array<uint64_t, kCoreSlots> slots{};

    // Synchronisation.
    std::array<PipeState, kPipes> pipe;
    uint32_t scalarVersion = 1;
    EventFlag events[kPipes][kPipes][kEventIds];
    std::array<std::deque<VectorClock>, kCrossFlags> arrivals;  // counters: what each increment carries
    std::array<uint32_t, kCrossFlags> arrivalSite{};            // of the last set that raised the counter
    std::vector<uint8_t> unitFlag;                              // L0C, per 512 bytes
    std::array<std::vector<std::shared_ptr<const VectorClock>>, 2> unitClock;  // what mad and fixpipe knew when they flipped it
    std::unordered_map<uint64_t, CacheLine> cache;              // by host address / 64; lines of tensors that may change
    std::array<uint64_t, 256> cacheTags{};                      // which lines a 16 KB cache would hold, for the clock
    uint32_t dirtyLines = 0;

    // Execution.
    std::unique_ptr<Fiber> fiber;
    CoreState state = CoreState::Ready;
    bool aborting = false;
    uint32_t waitFlag = 0, waitSite = 0;
    uint32_t reservedFlagScope = 0;
    bool l2Bypass = false;
    uint32_t polls = 0;
    SourceLoc scopedLoc;
    bool hasScopedLoc = false;
    struct SiteCache { const void* key; uint32_t line; uint32_t site; };
    std::array<SiteCache, 64> siteCache{};
    std::vector<Instr> records;         // for the timeline; drained between supersteps
    Stats stats;
    uint16_t lastTensor = 0;

    uint16_t GlobalPipe(Pipe p) const { return static_cast<uint16_t>(index * kPipes + static_cast<int>(p)); }
    int LocalPipe(Pipe p) const { return local * kPipes + static_cast<int>(p); }
};

struct CrossSet {
    VectorClock clock;
    uint32_t site;
};

struct Block {
    Machine* machine = nullptr;
    uint32_t index = 0;
    std::vector<Core*> cores;
    uint16_t firstPipe = 0;             // global pipe of its first core
    // Sets that have not fired yet, by flag and by AIV.
    std::array<std::array<std::deque<CrossSet>, 2>, kCrossFlags> pendingMode1, pendingMode2;
    std::vector<std::vector<std::unique_ptr<RangeMap>>> gm;     // [tensor][page]
    std::vector<std::pair<uint32_t, uint32_t>> dirtyPages;      // touched since the last exchange between blocks
    std::vector<std::vector<uint8_t>> pageDirty;
    std::vector<Finding> findings;
    std::map<std::array<uint32_t, 3>, size_t> findingIndex;     // (rule, site, other site) -> index into findings
    uint64_t findingsDropped = 0;
    struct SyncCalls { uint64_t calls = 0; bool dropped = false; };
    std::unordered_map<uint64_t, SyncCalls> syncCalls;          // by site, op and pipes
    Core* running = nullptr;
    bool progress = false;
    size_t position = 0;                // in the order of execution
};

// Lets blocks on several OS threads update GM atomically in the order in which one thread would.
class AtomicOrder {
public:
    void Start(size_t blocks) { finished_.assign(blocks, 0), first_ = 0; }
    void Finish(size_t position);
    void WaitForTurn(size_t position);  // until every block before this one has finished its step

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<uint8_t> finished_;
    size_t first_ = 0;                  // unfinished position
};

// Source sites are interned while cores run, on any thread; reports renumber them by file and line.
class SiteTable {
public:
    uint32_t Intern(const char* file, uint32_t line);
    uint32_t InternStack(const std::vector<void*>& frames);
    Site Resolve(uint32_t site) const;
    size_t Size() const;

private:
    struct Entry {
        const char* file = nullptr;
        uint32_t line = 0;
        std::vector<void*> frames;
        mutable Site site;  // of the frames
        mutable bool resolved = false;
    };
    mutable std::mutex mutex_;
    std::vector<Entry> entries_{Entry{"", 0, {}, {}, false}};
    std::map<std::pair<std::string, uint32_t>, uint32_t> byLine_;
    std::map<std::vector<void*>, uint32_t> byStack_;
};

class Timeline;

struct Machine {
    Options options;
    Grid grid;
    KernelType type = KernelType::AivOnly;
    uint32_t blockDim = 0;
    std::vector<TensorInfo> tensors;                // sorted by address
    std::vector<std::unique_ptr<Core>> cores;
    std::vector<std::unique_ptr<Block>> blocks;
    uint8_t* arena = nullptr;
    size_t arenaBytes = 0;
    SiteTable sites;
    std::string dropSync;
    std::mutex remoteMutex;
    std::deque<std::unique_ptr<RemoteKnowledge>> remotes;
    const RemoteKnowledge* NewRemote(std::vector<uint32_t> epoch);
    const RemoteKnowledge* JoinRemotes(const RemoteKnowledge* a, const RemoteKnowledge* b);
    std::array<std::array<std::vector<std::deque<CrossSet>>, kCrossFlags>, 2> pendingMode0;  // [kind][flag][core of kind]
    std::mutex mode0Mutex;
    AtomicOrder* atomicOrder = nullptr;             // with several threads
    std::vector<std::vector<std::unique_ptr<RangeMap>>> gm;  // accesses of all blocks, merged at exchanges
    bool record = false;
    bool crossCoreAllowed = true;
};

// The core whose fiber is running on this thread.
Core& Current();
Core* CurrentOrNull();
void SetCurrent(Core* core);

// ---- findings (findings.cpp), return addresses (backtrace.cpp) ----
void Symbolise(const std::vector<std::vector<void*>>& stacks, std::vector<Site>& sites);
uint32_t ResolveStackSite(Core& core);
uint32_t ResolveSite(Core& core, SourceLoc loc);
std::string CoreText(const Core& core);
std::string SiteText(const Machine& machine, uint32_t site);
std::string Range(uint64_t begin, uint64_t end);
// `text` is only called for a finding not seen before at this pair of sites.
void AddFinding(Core& core, Rule rule, uint32_t site, uint32_t otherSite, const std::function<std::string()>& text);
void AddRace(Core& core, const Access& earlier, const Access& now, const std::string& where);

// ---- scalar unit (scalar_ops.cpp) ----
void ReportDirtyLines(Core& core);
void CheckDirtyLines(Core& core, const uint8_t* low, const uint8_t* high, uint32_t site);

// ---- scheduling (launch.cpp) ----
void YieldCore(Core& core, CoreState state);
[[noreturn]] void AbortCore(Core& core);

// ---- order (order.cpp) ----
void JoinScalar(Core& core, Pipe pipe);
void Join(VectorClock& into, const VectorClock& from);
bool IsOrdered(const Core& core, const Access& earlier, const Access& now);
VectorClock Release(Core& core, Pipe pipe);     // what a set on this pipe publishes; ends the pipe's epoch
bool DropSync(Core& core, Op op, Pipe from, Pipe to, uint32_t site);

}  // namespace cpu_twin
