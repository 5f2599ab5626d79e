// SPDX-License-Identifier: Apache-2.0
// Running the grid. Blocks execute independently between grid-wide synchronisations: in a step every block runs until each of its
// cores has finished, waits for another block, or has filled its record buffer. Steps are separated by a serial exchange in
// which grid-wide flags fire, accesses of different blocks are held against each other, and the timeline advances. What a
// block does in a step does not depend on the other blocks of that step, so neither thread count nor order can be seen.
#include "launch.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "core.h"
#include "timeline.h"

namespace cpu_twin {
namespace {

thread_local Core* tCurrent = nullptr;

void Fatal(const char* message) {
    std::fprintf(stderr, "cpu_twin: %s\n", message);
    std::abort();
}

struct BufferSpec {
    Mem mem;
    uint32_t bytes;
};
constexpr BufferSpec kAicBuffers[] = {{Mem::L1, kL1Bytes}, {Mem::L0A, kL0aBytes}, {Mem::L0B, kL0bBytes},
                                      {Mem::L0C, kL0cBytes}, {Mem::BT, kBtBytes}, {Mem::FB, kFbBytes}};
constexpr BufferSpec kAivBuffers[] = {{Mem::UB, kUbBytes}};
constexpr size_t kBufferGap = 4096;

size_t ArenaBytes(CoreKind kind) {
    size_t total = 0;
    if (kind == CoreKind::AIC) {
        for (const BufferSpec& b : kAicBuffers) total += b.bytes + kBufferGap;
    } else {
        for (const BufferSpec& b : kAivBuffers) total += b.bytes + kBufferGap;
    }
    return total;
}

void AllocateBuffers(Machine& machine) {
    size_t total = 4u << 20;
    for (auto& core : machine.cores) total += ArenaBytes(core->kind);
    machine.arenaBytes = total;
    void* arena = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) throw std::bad_alloc();
    machine.arena = static_cast<uint8_t*>(arena);
    uint8_t* at = machine.arena;
    for (auto& core : machine.cores) {
        auto place = [&](const BufferSpec& b) {
            // Instructions that take a 32-bit UB address also accept the low half of a host pointer (vgather under the public
            // headers). Keep every buffer's low half away from the range of true UB offsets.
            const uint64_t low = reinterpret_cast<uintptr_t>(at) & 0xFFFFFFFFu;
            if (low < (2u << 20) || low + b.bytes + kBufferGap > 0xFFFFFFFFu) at += 4u << 20;
            core->base[static_cast<int>(b.mem)] = at;
            core->bytes[static_cast<int>(b.mem)] = b.bytes;
            std::memset(at, 0xFF, b.bytes);  // NaN in every float format
            at += b.bytes + kBufferGap;
        };
        if (core->kind == CoreKind::AIC) {
            for (const BufferSpec& b : kAicBuffers) place(b);
            core->unitFlag.assign(kL0cBytes / 512, 0);
            for (auto& clock : core->unitClock) clock.assign(kL0cBytes / 512, nullptr);
        } else {
            for (const BufferSpec& b : kAivBuffers) place(b);
        }
    }
}

void BuildGrid(Machine& machine) {
    const KernelType type = machine.type;
    const uint32_t aivs = type == KernelType::MixAic1_2 ? 2 : type == KernelType::MixAic1_1 ? 1 : 0;
    const bool mixed = aivs > 0;
    const CoreKind single = type == KernelType::AivOnly || type == KernelType::MixAiv1_0 ? CoreKind::AIV : CoreKind::AIC;
    machine.crossCoreAllowed = type != KernelType::AivOnly && type != KernelType::AicOnly;
    for (uint32_t b = 0; b < machine.blockDim; ++b) {
        machine.blocks.push_back(std::make_unique<Block>());
        Block& block = *machine.blocks.back();
        block.machine = &machine;
        block.index = b;
        block.firstPipe = static_cast<uint16_t>(machine.cores.size() * kPipes);
        for (uint32_t c = 0; c < (mixed ? 1 + aivs : 1); ++c) {
            machine.cores.push_back(std::make_unique<Core>());
            Core& core = *machine.cores.back();
            core.machine = &machine;
            core.block = &block;
            core.index = static_cast<uint16_t>(machine.cores.size() - 1);
            core.local = static_cast<uint8_t>(c);
            core.kind = mixed ? (c == 0 ? CoreKind::AIC : CoreKind::AIV) : single;
            core.subBlock = mixed && c > 0 ? c - 1 : 0;
            core.reg[static_cast<size_t>(ops::Reg::Ctrl)] = 1ull << 48;  // inf and NaN are kept, not saturated
            block.cores.push_back(&core);
            machine.grid.cores.push_back({core.kind, b, core.subBlock});
            (core.kind == CoreKind::AIC ? machine.grid.aicCount : machine.grid.aivCount) += 1;
        }
    }
    machine.grid.blockDim = machine.blockDim;
}

void BuildTensors(Machine& machine, const std::vector<Tensor>& tensors) {
    for (const Tensor& t : tensors) {
        if (t.bytes == 0) continue;
        if (t.data == nullptr) throw std::invalid_argument("tensor '" + t.name + "': expected an address, got nullptr");
        machine.tensors.push_back({t.name, static_cast<uint8_t*>(t.data), t.bytes, t.use});
        machine.grid.tensorBytes += t.bytes;
    }
    std::sort(machine.tensors.begin(), machine.tensors.end(),
              [](const TensorInfo& a, const TensorInfo& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < machine.tensors.size(); ++i) {
        const TensorInfo &a = machine.tensors[i - 1], &b = machine.tensors[i];
        if (a.begin + a.bytes > b.begin) {
            throw std::invalid_argument("tensors '" + a.name + "' and '" + b.name +
                                        "' overlap: register one tensor for memory that two arguments share");
        }
    }
    for (const TensorInfo& t : machine.tensors) {
        if (machine.options.poison && (t.use == Use::Out || t.use == Use::Workspace)) std::memset(t.begin, 0xFF, t.bytes);
    }
    auto shape = [&](std::vector<std::vector<std::unique_ptr<RangeMap>>>& gm) {
        gm.resize(machine.tensors.size());
        for (size_t i = 0; i < gm.size(); ++i) {
            if (machine.tensors[i].use != Use::In) gm[i].resize((machine.tensors[i].bytes >> kPageShift) + 1);
        }
    };
    if (!machine.options.check) return;
    shape(machine.gm);
    for (auto& block : machine.blocks) {
        shape(block->gm);
        block->pageDirty.resize(block->gm.size());
        for (size_t i = 0; i < block->gm.size(); ++i) block->pageDirty[i].assign(block->gm[i].size(), 0);
    }
}

// Runs the cores of one block until none can go on in this step.
void RunBlock(Block& block, const std::vector<size_t>& order) {
    Machine& machine = *block.machine;
    bool again = true;
    while (again) {
        again = false;
        block.progress = false;
        bool ran = false;
        for (size_t i : order) {
            if (i >= block.cores.size()) continue;
            Core& core = *block.cores[i];
            if (core.state != CoreState::Ready) continue;
            SetCurrent(&core);
            if (machine.options.onSwitch) machine.options.onSwitch(core.index);
            core.fiber->Resume();
            SetCurrent(nullptr);
            ran = true;
        }
        // A polling core gets another turn only once something else in its block has moved.
        for (Core* core : block.cores) {
            if (core->state == CoreState::Polling && block.progress) core->state = CoreState::Ready;
            if (core->state == CoreState::Ready) again = ran;
        }
    }
}

void FinishCore(Core& core) {
    if (core.aborting) return;
    for (int p = 0; p < kPipes; ++p) {
        for (int q = 0; q < kPipes; ++q) {
            for (int id = 0; id < kEventIds; ++id) {
                const EventFlag& flag = core.events[p][q][id];
                if (!flag.set) continue;
                AddFinding(core, Rule::FlagLeftOver, flag.site, 0, [&] {
                    return std::string("set_flag ") + PipeName(static_cast<Pipe>(p)) + "_" + PipeName(static_cast<Pipe>(q)) + " id " +
                           std::to_string(id) + " is still set when the kernel ends: the next kernel on this core would take it for its own\n" +
                           "  help: wait_flag before the end for every flag that was set";
                });
            }
        }
    }
    ReportDirtyLines(core);
    for (size_t i = 0; i < core.unitFlag.size(); ++i) {
        if (core.unitFlag[i] == 0) continue;
        AddFinding(core, Rule::UnitFlag, core.pipe[static_cast<int>(Pipe::M)].lastSite, 0, [&] {
            return "L0C " + Range(i * 512, i * 512 + 512) +
                   " still carry a unit flag when the kernel ends\n  help: give Fixpipe unitFlag 3 over all that Mmad wrote with unitFlag 3";
        });
        break;
    }
}

void CoreMain(Core& core, const std::function<void()>& kernel) {
    try {
        kernel();
    } catch (const CoreAbort&) {
        core.aborting = true;
    }
    FinishCore(core);
    core.hasScopedLoc = false;
    core.state = CoreState::Done;
    core.block->progress = true;
}

// Mode 0: fires when every core of the kind has set the flag.
bool FireGridFlags(Machine& machine) {
    bool fired = false;
    for (int kind = 0; kind < 2; ++kind) {
        for (int flag = 0; flag < kCrossFlags; ++flag) {
            auto& pending = machine.pendingMode0[kind][flag];
            for (;;) {
                bool all = false, any = false;
                for (auto& core : machine.cores) {
                    if (static_cast<int>(core->kind) != kind) continue;
                    const bool has = !pending[core->index].empty();
                    all = any ? all && has : has;
                    any = true;
                }
                if (!any || !all) break;
                std::vector<uint32_t> epoch(machine.cores.size() * kPipes, 0);
                for (auto& core : machine.cores) {
                    if (static_cast<int>(core->kind) != kind) continue;
                    const VectorClock& clock = pending[core->index].front().clock;
                    const size_t first = core->block->firstPipe;
                    for (size_t i = 0; i < core->block->cores.size() * kPipes; ++i) {
                        epoch[first + i] = std::max(epoch[first + i], clock.epoch[i]);
                    }
                    if (clock.remote != nullptr) {
                        for (size_t i = 0; i < epoch.size(); ++i) epoch[i] = std::max(epoch[i], clock.remote->epoch[i]);
                    }
                }
                const RemoteKnowledge* remote = machine.NewRemote(epoch);
                for (auto& core : machine.cores) {
                    if (static_cast<int>(core->kind) != kind) continue;
                    const uint32_t site = pending[core->index].front().site;
                    pending[core->index].pop_front();
                    VectorClock clock;
                    clock.remote = remote;
                    const size_t first = core->block->firstPipe;
                    for (size_t i = 0; i < core->block->cores.size() * kPipes; ++i) clock.epoch[i] = epoch[first + i];
                    if (core->arrivals[flag].size() >= 15) {
                        AddFinding(*core, Rule::CounterOverflow, site, 0, [&] {
                            return "cross-core flag " + std::to_string(flag) + " (mode 0) is set 16 times without a wait; its counter ends at 15\n"
                                   "  help: CrossCoreWaitFlag after every CrossCoreSetFlag<0>";
                        });
                    } else {
                        core->arrivals[flag].push_back(clock);
                        core->arrivalSite[flag] = site;
                    }
                    if (core->state == CoreState::WaitingFlag && core->waitFlag == static_cast<uint32_t>(flag)) core->state = CoreState::Ready;
                }
                fired = true;
            }
        }
    }
    return fired;
}

// Holds what each block did to GM since the last exchange against what other blocks did, in block order.
struct ExchangeContext {
    Core& core;
    const Machine& machine;
    uint32_t tensor;
    uint64_t pageBase;
    bool Ordered(const Access& earlier, const Access& now) const {
        const Core& a = *machine.cores[earlier.pipe / kPipes];
        const Core& b = *machine.cores[now.pipe / kPipes];
        if (a.block == b.block) return true;  // checked while the block ran
        const bool after = now.remote != 0 && machine.remotes[now.remote - 1u]->epoch[earlier.pipe] >= earlier.epoch;
        const bool before = earlier.remote != 0 && machine.remotes[earlier.remote - 1u]->epoch[now.pipe] >= now.epoch;
        return after || before;
    }
    void Conflict(const Access& earlier, const Access& now, uint32_t begin, uint32_t end) const {
        AddRace(*machine.cores[now.pipe / kPipes], earlier, now,
                "GM tensor '" + machine.tensors[tensor].name + "' " + Range(pageBase + begin, pageBase + end));
    }
};

void ExchangeAccesses(Machine& machine) {
    for (auto& block : machine.blocks) {
        std::sort(block->dirtyPages.begin(), block->dirtyPages.end());
        for (auto [tensor, page] : block->dirtyPages) {
            block->pageDirty[tensor][page] = 0;
            auto& target = machine.gm[tensor][page];
            if (!target) target = std::make_unique<RangeMap>();
            for (const Segment& s : block->gm[tensor][page]->Segments()) {
                ExchangeContext context{*block->cores[0], machine, tensor, static_cast<uint64_t>(page) << kPageShift};
                auto touch = [&](const Access& access) {
                    if (access.kind == Touch::None) return;
                    const Core& core = *machine.cores[access.pipe / kPipes];
                    if (access.epoch < core.pipe[access.pipe % kPipes].exchanged) return;
                    target->Touch(s.begin, s.end, access, context);
                };
                touch(s.writer);
                for (uint32_t k = 0; k < s.others.Size(); ++k) touch(s.others[k]);
            }
        }
        block->dirtyPages.clear();
    }
    for (auto& core : machine.cores) {
        for (PipeState& pipe : core->pipe) pipe.exchanged = ++pipe.epoch;
    }
}

std::string DeadlockText(const Machine& machine, const Core& stuck) {
    std::ostringstream out;
    out << "no core can go on: this one waits for cross-core flag " << stuck.waitFlag << ", which nobody will set\n";
    for (const auto& core : machine.cores) {
        out << "  " << CoreText(*core) << ": ";
        if (core->state == CoreState::Done) {
            out << "finished";
        } else if (core->state == CoreState::Polling) {
            out << "polls GM";
        } else {
            out << "waits at " << SiteText(machine, core->waitSite) << " for flag " << core->waitFlag;
        }
        bool any = false;
        for (int f = 0; f < kCrossFlags; ++f) {
            if (core->arrivals[f].empty()) continue;
            out << (any ? ", " : "; counters: ") << f << "=" << core->arrivals[f].size();
            any = true;
        }
        for (int p = 0; p < kPipes; ++p) {
            const PipeState& pipe = core->pipe[p];
            if (pipe.count == 0) continue;
            out << "\n      PIPE_" << PipeName(static_cast<Pipe>(p)) << ": " << pipe.count << " instructions, last "
                << OpName(pipe.lastOp) << " at " << SiteText(machine, pipe.lastSite);
        }
        out << "\n";
    }
    for (const auto& block : machine.blocks) {
        for (int f = 0; f < kCrossFlags; ++f) {
            for (int sub = 0; sub < 2; ++sub) {
                const size_t m1 = block->pendingMode1[f][sub].size(), m2 = block->pendingMode2[f][sub].size();
                if (m1 + m2 == 0) continue;
                out << "  block " << block->index << ": flag " << f << " set " << m1 + m2 << " times by AIV " << sub
                    << " and waiting for the other AIV\n";
            }
        }
    }
    out << "  help: every CrossCoreWaitFlag needs its CrossCoreSetFlag; modes 1 and 2 need both AIVs, mode 0 all cores of the kind";
    return out.str();
}

void ReportDeadlock(Machine& machine) {
    for (auto& core : machine.cores) {
        if (core->state != CoreState::WaitingFlag && core->state != CoreState::Polling) continue;
        AddFinding(*core, Rule::Deadlock, core->waitSite, 0, [&] { return DeadlockText(machine, *core); });
        break;
    }
    for (auto& core : machine.cores) {
        if (core->state == CoreState::Done) continue;
        core->aborting = true;
        SetCurrent(core.get());
        if (machine.options.onSwitch) machine.options.onSwitch(core->index);
        core->fiber->Resume();  // unwinds
        SetCurrent(nullptr);
    }
}

void ReportCounters(Machine& machine) {
    for (auto& core : machine.cores) {
        if (core->aborting) continue;
        for (int f = 0; f < kCrossFlags; ++f) {
            if (core->arrivals[f].empty()) continue;
            AddFinding(*core, Rule::CounterLeftOver, core->arrivalSite[f], 0, [&] {
                return "cross-core flag " + std::to_string(f) + " of " + CoreText(*core) + " still counts " +
                       std::to_string(core->arrivals[f].size()) + " when the kernel ends\n" +
                       "  help: CrossCoreWaitFlag as often as the flag is set";
            });
        }
    }
    auto leftOver = [](Core& core, int flag, uint32_t site) {
        AddFinding(core, Rule::CounterLeftOver, site, 0, [&] {
            return "cross-core flag " + std::to_string(flag) + " was set here but never fired: not all partners of its mode set it\n" +
                   "  help: modes 1 and 2 need both AIVs, mode 0 all cores of the kind, the same number of times";
        });
    };
    for (auto& block : machine.blocks) {
        for (int f = 0; f < kCrossFlags; ++f) {
            for (size_t sub = 0; sub < 2; ++sub) {
                for (auto* pending : {&block->pendingMode1[f][sub], &block->pendingMode2[f][sub]}) {
                    if (!pending->empty()) leftOver(*block->cores[std::min(sub + 1, block->cores.size() - 1)], f, pending->front().site);
                }
            }
        }
    }
    for (auto& byFlag : machine.pendingMode0) {
        for (int f = 0; f < kCrossFlags; ++f) {
            for (size_t c = 0; c < byFlag[f].size(); ++c) {
                if (!byFlag[f][c].empty()) leftOver(*machine.cores[c], f, byFlag[f][c].front().site);
            }
        }
    }
}

}  // namespace

void AtomicOrder::Finish(size_t position) {
    std::lock_guard<std::mutex> lock(mutex_);
    finished_[position] = 1;
    while (first_ < finished_.size() && finished_[first_] != 0) ++first_;
    changed_.notify_all();
}

void AtomicOrder::WaitForTurn(size_t position) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return first_ >= position; });
}

namespace {

void Run(Machine& machine, const std::function<void()>& kernel, Timeline* timeline) {
    std::vector<size_t> coreOrder{0, 1, 2}, blockOrder(machine.blocks.size());
    for (size_t i = 0; i < blockOrder.size(); ++i) blockOrder[i] = i;
    if (machine.options.seed != 0) {
        std::mt19937_64 rng(machine.options.seed);
        std::shuffle(coreOrder.begin(), coreOrder.end(), rng);
        std::shuffle(blockOrder.begin(), blockOrder.end(), rng);
    }
    for (auto& core : machine.cores) {
        Core* c = core.get();
        core->fiber = std::make_unique<Fiber>(machine.options.stackBytes, [c, &kernel] { CoreMain(*c, kernel); });
    }
    const int threads = std::max(1, std::min(machine.options.threads, static_cast<int>(machine.blocks.size())));
    for (size_t i = 0; i < blockOrder.size(); ++i) machine.blocks[blockOrder[i]]->position = i;
    AtomicOrder atomicOrder;
    if (threads > 1) machine.atomicOrder = &atomicOrder;
    int idleSteps = 0;
    for (;;) {
        atomicOrder.Start(blockOrder.size());
        auto work = [&](int t) {
            for (size_t i = static_cast<size_t>(t); i < blockOrder.size(); i += static_cast<size_t>(threads)) {
                RunBlock(*machine.blocks[blockOrder[i]], coreOrder);
                atomicOrder.Finish(i);
            }
        };
        if (threads == 1) {
            work(0);
        } else {
            std::vector<std::thread> pool;
            for (int t = 0; t < threads; ++t) pool.emplace_back(work, t);
            for (auto& t : pool) t.join();
        }
        if (machine.options.check) ExchangeAccesses(machine);
        const bool fired = FireGridFlags(machine);
        bool done = true, ready = fired;
        if (timeline != nullptr) timeline->Advance();
        for (auto& core : machine.cores) {
            done = done && core->state == CoreState::Done;
            if (core->state == CoreState::RecordsFull) core->state = CoreState::Ready;
            ready = ready || core->state == CoreState::Ready;
        }
        if (done) break;
        if (!ready) {
            // Cores that poll GM may be waiting for another block's store: let every block have a look again.
            bool polling = false;
            for (auto& core : machine.cores) {
                if (core->state != CoreState::Polling) continue;
                core->state = CoreState::Ready;
                polling = true;
            }
            if (!polling || ++idleSteps > 10000) {
                ReportDeadlock(machine);
                break;
            }
        } else {
            idleSteps = 0;
        }
    }
    ReportCounters(machine);
}

Report Collect(Machine& machine, Timeline* timeline) {
    Report report;
    report.grid = machine.grid;
    // Sites are renumbered by file and line, so that reports do not depend on which thread met them first.
    const size_t siteCount = machine.sites.Size();
    std::vector<std::pair<Site, uint32_t>> sorted;
    for (uint32_t i = 0; i < siteCount; ++i) sorted.emplace_back(machine.sites.Resolve(i), i);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
        return std::tie(a.first.file, a.first.line) < std::tie(b.first.file, b.first.line);
    });
    std::vector<uint32_t> renumber(siteCount, 0);
    for (uint32_t i = 0; i < sorted.size(); ++i) {
        if (i > 0 && sorted[i].first.file == sorted[i - 1].first.file && sorted[i].first.line == sorted[i - 1].first.line) {
            renumber[sorted[i].second] = static_cast<uint32_t>(report.sites.size() - 1);
            continue;
        }
        renumber[sorted[i].second] = static_cast<uint32_t>(report.sites.size());
        report.sites.push_back(sorted[i].first);
    }

    std::map<std::tuple<int, std::string, uint32_t, std::string, uint32_t>, size_t> seen;
    std::map<std::tuple<uint32_t, int, int, int>, uint64_t> syncs;
    for (auto& block : machine.blocks) {
        for (Finding& f : block->findings) {
            auto [it, fresh] = seen.try_emplace({static_cast<int>(f.rule), f.file, f.line, f.otherFile, f.otherLine}, report.findings.size());
            if (!fresh) {
                report.findings[it->second].count += f.count;
            } else if (report.findings.size() < machine.options.maxFindings) {
                report.findings.push_back(std::move(f));
            } else {
                it->second = report.findings.size() - 1;
                ++report.findingsDropped;
            }
        }
        report.findingsDropped += block->findingsDropped;
        for (auto& [key, value] : block->syncCalls) {
            syncs[{renumber[key >> 16], static_cast<int>(key >> 8 & 0xFF), static_cast<int>(key >> 4 & 15), static_cast<int>(key & 15)}] +=
                value.calls;
        }
    }
    for (auto& [key, calls] : syncs) {
        const Site& where = report.sites[std::get<0>(key)];
        report.syncSites.push_back({static_cast<Op>(std::get<1>(key)), static_cast<Pipe>(std::get<2>(key)),
                                    static_cast<Pipe>(std::get<3>(key)), where.file, where.line, calls});
    }
    const auto dropped = [&machine](const SyncSite& site) { return site.Key() == machine.dropSync; };
    if (std::none_of(report.syncSites.begin(), report.syncSites.end(), dropped)) report.dropUnmatched = machine.dropSync;
    for (auto& core : machine.cores) {
        report.stats.instructions += core->stats.instructions;
        report.stats.madFlops += core->stats.madFlops;
        report.stats.gmReadBytes += core->stats.gmReadBytes;
        report.stats.gmWriteBytes += core->stats.gmWriteBytes;
        for (size_t i = 0; i < core->stats.perOp.size(); ++i) report.stats.perOp[i] += core->stats.perOp[i];
    }
    if (timeline != nullptr) {
        report.times = timeline->Finish();
        for (Timing& timing : report.times) {
            for (TimelineEvent& event : timing.timeline) event.site = renumber[event.site];
        }
    }
    return report;
}

}  // namespace

Core& Current() {
    if (tCurrent == nullptr) Fatal("an instruction was issued outside a kernel launched with cpu_twin::Launch");
    return *tCurrent;
}
Core* CurrentOrNull() { return tCurrent; }
void SetCurrent(Core* core) { tCurrent = core; }

void YieldCore(Core& core, CoreState state) {
    core.state = state;
    core.fiber->Yield();
    if (core.aborting) throw CoreAbort{};
}

void AbortCore(Core& core) {
    core.aborting = true;
    throw CoreAbort{};
}

Report LaunchErased(const std::function<void()>& kernel, const char*, uint32_t blockDim, KernelType type,
                    const std::vector<Tensor>& tensors, const Options& options) {
    const auto start = std::chrono::steady_clock::now();
    if (tCurrent != nullptr) throw std::logic_error("Launch called from inside a kernel");
    const bool aivOnly = type == KernelType::AivOnly || type == KernelType::MixAiv1_0;
    const uint32_t limit = aivOnly ? kMaxAiv : kMaxAic;
    if (blockDim == 0 || blockDim > limit) {
        throw std::invalid_argument("blockDim: expected 1 to " + std::to_string(limit) + " for this kernel type, got " + std::to_string(blockDim));
    }
    Machine machine;
    machine.options = options;
    machine.type = type;
    machine.blockDim = blockDim;
    if (options.onSwitch) machine.options.threads = 1;
    machine.record = !options.clocks.empty();
    machine.dropSync = options.dropSync;
    if (const char* drop = std::getenv("CPU_TWIN_DROP_SYNC"); machine.dropSync.empty() && drop != nullptr) machine.dropSync = drop;
    BuildGrid(machine);
    AllocateBuffers(machine);
    struct Unmap {
        Machine& m;
        ~Unmap() { munmap(m.arena, m.arenaBytes); }
    } unmap{machine};
    BuildTensors(machine, tensors);
    for (auto& byFlag : machine.pendingMode0) {
        for (auto& byCore : byFlag) byCore.resize(machine.cores.size());
    }
    std::unique_ptr<Timeline> timeline;
    if (machine.record) timeline = std::make_unique<Timeline>(machine);
    Run(machine, kernel, timeline.get());
    Report report = Collect(machine, timeline.get());
    report.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

}  // namespace cpu_twin
