// SPDX-License-Identifier: Apache-2.0
// Flags, barriers, cross-core counters, registers.
#include <algorithm>
#include <sstream>

#include "instr.h"

namespace cpu_twin::ops {
namespace {

constexpr uint32_t kCounterLimit = 15;
constexpr uint32_t kFirstReserved = 11, kLastReserved = 14;

bool ToPipe(pipe_t p, Pipe& out) {
    switch (p) {
        case PIPE_S: out = Pipe::S; return true;
        case PIPE_V: out = Pipe::V; return true;
        case PIPE_M: out = Pipe::M; return true;
        case PIPE_MTE1: out = Pipe::MTE1; return true;
        case PIPE_MTE2: out = Pipe::MTE2; return true;
        case PIPE_MTE3: out = Pipe::MTE3; return true;
        case PIPE_FIX: out = Pipe::FIX; return true;
        default: return false;
    }
}

bool HasPipe(CoreKind kind, Pipe p) {
    if (kind == CoreKind::AIC) return p != Pipe::V;
    return p == Pipe::S || p == Pipe::V || p == Pipe::MTE2 || p == Pipe::MTE3;
}

void Record(Core& core, Op op, Pipe pipe, Pipe peer, uint32_t id, uint32_t mode, bool all, uint32_t site) {
    ++core.stats.instructions;
    ++core.stats.perOp[static_cast<size_t>(op)];
    if (!core.machine->record) return;
    Instr instr;
    instr.op = op;
    instr.pipe = pipe;
    instr.peer = peer;
    instr.id = static_cast<uint8_t>(id);
    instr.mode = static_cast<uint8_t>(mode);
    instr.allPipes = all;
    instr.core = core.index;
    instr.site = site;
    core.records.push_back(instr);
}

// Checks shared by set_flag and wait_flag.
bool FlagArguments(Core& core, Op op, pipe_t from, pipe_t to, uint32_t id, uint32_t site, Pipe& p, Pipe& q) {
    if (!ToPipe(from, p) || !ToPipe(to, q) || p == q || !HasPipe(core.kind, p) || !HasPipe(core.kind, q)) {
        AddFinding(core, Rule::BadArgument, site, 0, [&] {
            return std::string(OpName(op)) + ": no such pair of pipes on an " + (core.kind == CoreKind::AIC ? "AIC" : "AIV") +
                   " (pipe_t " + std::to_string(from) + " to " + std::to_string(to) +
                   ")\n  help: use a HardEvent between two different pipes of this core";
        });
        return false;
    }
    if (id >= kEventIds) {
        AddFinding(core, Rule::BadArgument, site, 0, [&] {
            return std::string(OpName(op)) + ": event id " + std::to_string(id) + "; a pair of pipes has ids 0 to 7\n" +
                   "  help: take ids from AllocEventID, or use EVENT_ID0 to EVENT_ID7";
        });
        return false;
    }
    return true;
}

std::string FlagName(Pipe p, Pipe q, uint32_t id) {
    return std::string(PipeName(p)) + "_" + PipeName(q) + " id " + std::to_string(id);
}

void RaiseCounter(Core& core, uint32_t flag, const VectorClock& clock, uint32_t site) {
    auto& arrivals = core.arrivals[flag];
    if (arrivals.size() >= kCounterLimit) {
        AddFinding(core, Rule::CounterOverflow, site, 0, [&] {
            return "cross-core flag " + std::to_string(flag) + " of " + CoreText(core) +
                   " is set 16 times without a wait; its counter ends at 15\n"
                   "  help: let the setting core wait for the other side (a flag the other way) at least every 15 sets";
        });
        return;
    }
    arrivals.push_back(clock);
    core.arrivalSite[flag] = site;
    if (core.state == CoreState::WaitingFlag && core.waitFlag == flag) core.state = CoreState::Ready;
    core.block->progress = true;
}

}  // namespace

void SetFlag(pipe_t from, pipe_t to, uint32_t id, SourceLoc loc) {
    Core& core = Current();
    if (core.aborting) return;
    const uint32_t site = ResolveSite(core, loc);
    Pipe p, q;
    if (!FlagArguments(core, Op::set_flag, from, to, id, site, p, q)) return;
    if (DropSync(core, Op::set_flag, p, q, site)) return;
    EventFlag& flag = core.events[static_cast<int>(p)][static_cast<int>(q)][id];
    if (flag.set) {
        AddFinding(core, Rule::FlagSetTwice, site, flag.site, [&] {
            return "set_flag " + FlagName(p, q, id) + " while the flag is still set\n  " + SiteText(*core.machine, flag.site) +
                   ": set here, and not waited for since\n  help: wait_flag between the two sets, or use another id";
        });
    }
    flag.clock = Release(core, p);
    flag.set = true;
    flag.site = site;
    Record(core, Op::set_flag, p, q, id, 0, false, site);
}

void WaitFlag(pipe_t from, pipe_t to, uint32_t id, SourceLoc loc) {
    Core& core = Current();
    if (core.aborting) return;
    const uint32_t site = ResolveSite(core, loc);
    Pipe p, q;
    if (!FlagArguments(core, Op::wait_flag, from, to, id, site, p, q)) return;
    if (DropSync(core, Op::wait_flag, p, q, site)) return;
    EventFlag& flag = core.events[static_cast<int>(p)][static_cast<int>(q)][id];
    if (!flag.set) {
        AddFinding(core, Rule::FlagNeverSet, site, 0, [&] {
            return "wait_flag " + FlagName(p, q, id) + " but nothing before it in program order sets this flag: PIPE_" +
                   PipeName(q) + " would wait for ever\n  help: set_flag with the same pipes and id before the wait";
        });
        return;
    }
    flag.set = false;
    JoinScalar(core, q);
    Join(core.pipe[static_cast<int>(q)].know, flag.clock);
    if (q == Pipe::S) ++core.scalarVersion;
    Record(core, Op::wait_flag, q, p, id, 0, false, site);
}

void Barrier(pipe_t pipe, SourceLoc loc) {
    Core& core = Current();
    if (core.aborting) return;
    const uint32_t site = ResolveSite(core, loc);
    Pipe p = Pipe::S;
    if (pipe != PIPE_ALL && (!ToPipe(pipe, p) || p == Pipe::S || !HasPipe(core.kind, p))) {
        // A barrier on a pipe the core does not have is what shared code issues on the other kind of core: no effect.
        if (pipe != PIPE_S && ToPipe(pipe, p)) return;
        AddFinding(core, Rule::BadArgument, site, 0, [&] {
            return "pipe_barrier on pipe_t " + std::to_string(pipe) +
                   "\n  help: the scalar pipe is in order by itself; use PIPE_V, PIPE_M, PIPE_MTE1..3, PIPE_FIX or PIPE_ALL";
        });
        return;
    }
    const bool all = pipe == PIPE_ALL;
    if (DropSync(core, Op::pipe_barrier, p, all ? Pipe::V : p, site)) return;
    if (all) {
        VectorClock everything;
        for (int i = 0; i < kPipes; ++i) Join(everything, Release(core, static_cast<Pipe>(i)));
        core.pipe[static_cast<int>(Pipe::S)].know = everything;
        ++core.scalarVersion;
    } else {
        const VectorClock published = Release(core, p);
        Join(core.pipe[static_cast<int>(p)].know, published);
    }
    Record(core, Op::pipe_barrier, p, p, 0, 0, all, site);
}

void CrossCoreSet(pipe_t pipe, uint64_t config, SourceLoc loc) {
    Core& core = Current();
    if (core.aborting) return;
    Machine& machine = *core.machine;
    Block& block = *core.block;
    const uint32_t site = ResolveSite(core, loc);
    const uint32_t mode = (config >> 4) & 3, flag = (config >> 8) & 15;
    auto bad = [&](Rule rule, const std::string& text) { AddFinding(core, rule, site, 0, [&] { return text; }); };
    Pipe p;
    if (!ToPipe(pipe, p) || p == Pipe::S || !HasPipe(core.kind, p)) {
        bad(Rule::BadArgument, "ffts_cross_core_sync on pipe_t " + std::to_string(pipe) + ", which this core cannot signal from\n" +
                                   "  help: use the pipe whose work the other core waits for, such as PIPE_MTE3 or PIPE_FIX");
        return;
    }
    if ((config & 1) == 0 || mode == 3 || (config >> 12) != 0) {
        bad(Rule::BadArgument, "ffts_cross_core_sync: configuration " + std::to_string(config) + " has no valid mode and flag id\n" +
                                   "  help: dav-2201 has modes 0, 1 and 2 and flag ids 0 to 15");
        return;
    }
    if (!machine.crossCoreAllowed) {
        bad(Rule::BadArgument, "cross-core flag in a kernel of type AIV_ONLY or AIC_ONLY, for which the hardware does not start the "
                               "scheduler of such flags\n  help: declare KERNEL_TYPE_MIX_AIV_1_0, MIX_AIC_1_0, MIX_AIC_1_1 or MIX_AIC_1_2");
        return;
    }
    if (flag >= kFirstReserved && flag <= kLastReserved && core.reservedFlagScope == 0 && !machine.options.backtrace) {
        bad(Rule::ReservedFlagId, "cross-core flag " + std::to_string(flag) + " is one of 11 to 14, which SyncAll uses\n" +
                                      "  help: use ids 0 to 10");
    }
    if (DropSync(core, Op::ffts_cross_core_sync, p, p, site)) return;
    const CrossSet set{Release(core, p), site};
    Record(core, Op::ffts_cross_core_sync, p, p, flag, mode, false, site);
    const bool single = block.cores.size() == 1;
    if (mode == 0) {
        const int kind = static_cast<int>(core.kind);
        std::lock_guard<std::mutex> lock(machine.mode0Mutex);
        machine.pendingMode0[kind][flag][core.index].push_back(set);
    } else if (single) {
        bad(Rule::BadArgument, "cross-core mode " + std::to_string(mode) + " in a kernel type whose blocks have one core\n" +
                                   "  help: modes 1 and 2 need KERNEL_TYPE_MIX_AIC_1_1 or MIX_AIC_1_2");
    } else if (mode == 1 && core.kind == CoreKind::AIC) {
        bad(Rule::BadArgument, "cross-core mode 1 is set on an AIC\n  help: mode 1 is between the AIVs of a block; use mode 2");
    } else if (core.kind == CoreKind::AIC) {  // mode 2, cube to vector: raises every AIV
        for (Core* other : block.cores) {
            if (other->kind == CoreKind::AIV) RaiseCounter(*other, flag, set.clock, site);
        }
    } else {
        // Fires once every AIV of the block has set: mode 1 raises the AIVs, mode 2 the AIC.
        auto& pending = mode == 1 ? block.pendingMode1[flag] : block.pendingMode2[flag];
        if (pending[core.subBlock].size() >= kCounterLimit) {
            bad(Rule::CounterOverflow, "cross-core flag " + std::to_string(flag) +
                                           " is set 16 times while the other AIV of the block has not set it once\n" +
                                           "  help: both AIVs must set the flag the same number of times");
            return;
        }
        pending[core.subBlock].push_back(set);
        const size_t aivs = block.cores.size() - 1;
        if (!pending[0].empty() && (aivs == 1 || !pending[1].empty())) {
            VectorClock joined = pending[0].front().clock;
            if (aivs == 2) Join(joined, pending[1].front().clock);
            for (size_t i = 0; i < aivs; ++i) pending[i].pop_front();
            for (Core* other : block.cores) {
                if ((mode == 1) == (other->kind == CoreKind::AIV)) RaiseCounter(*other, flag, joined, site);
            }
        }
    }
}

void CrossCoreWait(uint64_t flagId, SourceLoc loc) {
    Core& core = Current();
    if (core.aborting) return;
    const uint32_t site = ResolveSite(core, loc);
    if (flagId >= kCrossFlags) {
        AddFinding(core, Rule::BadArgument, site, 0, [&] {
            return "wait_flag_dev: flag id " + std::to_string(flagId) + "\n  help: dav-2201 has flag ids 0 to 15";
        });
        return;
    }
    const uint32_t flag = static_cast<uint32_t>(flagId);
    if (DropSync(core, Op::wait_flag_dev, Pipe::S, Pipe::S, site)) return;
    // Recorded on arrival, so that the timeline sees the core stand here while others run on.
    Record(core, Op::wait_flag_dev, Pipe::S, Pipe::S, flag, 0, false, site);
    while (core.arrivals[flag].empty()) {
        core.waitFlag = flag;
        core.waitSite = site;
        YieldCore(core, CoreState::WaitingFlag);
        if (core.aborting) return;
    }
    Join(core.pipe[static_cast<int>(Pipe::S)].know, core.arrivals[flag].front());
    ++core.scalarVersion;
    core.arrivals[flag].pop_front();
}

void SetReg(Reg reg, uint64_t value) {
    Core& core = Current();
    core.reg[static_cast<size_t>(reg)] = value;
    if (reg == Reg::Ctrl) core.maskCounter = (value >> 56) & 1;
}

uint64_t GetReg(Reg reg) {
    Core& core = Current();
    uint64_t value = core.reg[static_cast<size_t>(reg)];
    if (reg == Reg::Ctrl) value = (value & ~(1ull << 56)) | (core.maskCounter ? 1ull << 56 : 0);
    return value;
}

void SetMask(uint64_t high, uint64_t low) {
    Core& core = Current();
    core.maskHigh = high;
    core.maskLow = low;
}
void SetMaskMode(bool counter) { Current().maskCounter = counter; }

void SetAtomic(uint32_t type, uint32_t op) {
    Core& core = Current();
    if (type != 7) {
        core.atomicType = static_cast<atomic_type_t>(type);
        if (type == ATOMIC_NONE) core.atomicOp = 0;
    }
    if (op < 3) core.atomicOp = static_cast<uint8_t>(op);
}

uint64_t ReservedCount() { return Current().reservedCount; }
uint64_t AccVal() { return Current().accVal; }
uint64_t MaxMinCount() { return Current().maxMinCount; }
uint64_t MrgSortStatus() { return Current().mrgSortStatus; }
void SetVaReg(uint32_t reg, const uint64_t* addr) {
    auto& r = Current().vaReg[reg & 7];
    std::copy(addr, addr + 8, r.begin());
}

int64_t BlockIdx() { return Current().block->index; }
int64_t BlockNum() { return Current().machine->blockDim; }
int64_t SubBlockId() { return Current().subBlock; }
int64_t SubBlockDim() {
    const Core& core = Current();
    if (core.kind == CoreKind::AIC) return 1;
    return std::max<int64_t>(1, static_cast<int64_t>(core.block->cores.size()) - 1);
}
int64_t SystemCycle() {
    // A count that only moves with the program: instructions issued so far.
    return static_cast<int64_t>(Current().stats.instructions);
}

void Trap(SourceLoc loc) {
    Core& core = Current();
    const uint32_t site = ResolveSite(core, loc);
    AddFinding(core, Rule::KernelTrap, site, 0, [] { return std::string("trap: the kernel stopped itself"); });
    AbortCore(core);
}

}  // namespace cpu_twin::ops

namespace cpu_twin {

ScopedLoc::ScopedLoc(SourceLoc loc) : owner_(false) {
    Core* core = CurrentOrNull();
    if (core == nullptr || core->hasScopedLoc) return;
    core->scopedLoc = loc;
    core->hasScopedLoc = owner_ = true;
}
ScopedLoc::~ScopedLoc() {
    if (owner_) Current().hasScopedLoc = false;
}

L2BypassScope::L2BypassScope(bool bypass) : before_(Current().l2Bypass) { Current().l2Bypass = bypass; }
L2BypassScope::~L2BypassScope() { Current().l2Bypass = before_; }
ReservedFlagScope::ReservedFlagScope() { ++Current().reservedFlagScope; }
ReservedFlagScope::~ReservedFlagScope() { --Current().reservedFlagScope; }

CoreKind CurrentCoreKind() { return Current().kind; }
uint8_t* LocalBase(Mem mem) { return Current().base[static_cast<int>(mem)]; }
uint32_t LocalBytes(Mem mem) { return Current().bytes[static_cast<int>(mem)]; }
uint64_t& CoreSlot(int slot) { return Current().slots[static_cast<size_t>(slot)]; }

Mem MemOf(const void* addr) {
    const Core& core = Current();
    const auto* p = static_cast<const uint8_t*>(addr);
    for (int m = static_cast<int>(Mem::L1); m <= static_cast<int>(Mem::FB); ++m) {
        if (core.base[m] != nullptr && p >= core.base[m] && p < core.base[m] + core.bytes[m]) return static_cast<Mem>(m);
    }
    for (const TensorInfo& t : core.machine->tensors) {
        if (p >= t.begin && p < t.begin + t.bytes) return Mem::GM;
    }
    return Mem::None;
}

void KernelError(const char* message, SourceLoc loc) {
    Core& core = Current();
    const uint32_t site = ResolveSite(core, loc);
    AddFinding(core, Rule::KernelError, site, 0, [&] { return std::string(message); });
    AbortCore(core);
}

}  // namespace cpu_twin
