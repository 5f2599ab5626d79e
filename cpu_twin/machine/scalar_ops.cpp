// SPDX-License-Identifier: Apache-2.0
// The scalar unit's view of memory: UB directly, GM through a data cache that nobody keeps coherent.
//
// A store stays in its 64-byte line until dcci cleans the line; then the whole line goes out, so two cores that store into one
// line overwrite each other's bytes. A load hits the line as it was when it was filled.
#include <algorithm>

#include "instr.h"

namespace cpu_twin {
namespace {
constexpr uint64_t kLineBytes = 64;

CacheLine& FillLine(Core& core, uint64_t line) {
    auto [it, fresh] = core.cache.try_emplace(line);
    if (fresh) {
        // The line may stick out of its tensor; only what belongs to registered memory is read.
        it->second.bytes.fill(0xFF);
        uint8_t* address = reinterpret_cast<uint8_t*>(line * kLineBytes);
        for (const TensorInfo& t : core.machine->tensors) {
            uint8_t* from = std::max(address, t.begin);
            uint8_t* to = std::min(address + kLineBytes, t.begin + t.bytes);
            if (from < to) std::memcpy(it->second.bytes.data() + (from - address), from, static_cast<size_t>(to - from));
        }
    }
    return it->second;
}

bool TagHit(Core& core, uint64_t line) {
    auto& slot = core.cacheTags[line % core.cacheTags.size()];
    const bool hit = slot == line;
    slot = line;
    return hit;
}

// Writes a dirty line back, as one access by the scalar pipe.
void Clean(Core& core, uint64_t line, CacheLine& data, SourceLoc loc) {
    if (data.dirty == 0) return;
    uint8_t* address = reinterpret_cast<uint8_t*>(line * kLineBytes);
    for (const TensorInfo& t : core.machine->tensors) {
        uint8_t* from = std::max(address, t.begin);
        uint8_t* to = std::min(address + kLineBytes, t.begin + t.bytes);
        if (from >= to) continue;
        InstrScope s(Op::dcci, Pipe::S, core.kind, loc);
        s.instr.bytes = static_cast<uint64_t>(to - from);
        s.Global(Touch::Write, from, static_cast<uint64_t>(to - from));
        if (s.Commit()) std::memcpy(from, data.bytes.data() + (from - address), static_cast<size_t>(to - from));
    }
    data.dirty = 0;
    --core.dirtyLines;
}

const TensorInfo* TensorAt(const Core& core, const void* addr) {
    const auto* p = static_cast<const uint8_t*>(addr);
    for (const TensorInfo& t : core.machine->tensors) {
        if (p >= t.begin && p < t.begin + t.bytes) return &t;
    }
    return nullptr;
}
}  // namespace

void ReportDirtyLines(Core& core) {
    for (auto& [line, data] : core.cache) {
        if (data.dirty == 0) continue;
        AddFinding(core, Rule::DirtyCacheLine, data.site, 0, [] {
            return std::string("a value stored to GM through the scalar unit is still in the data cache when the kernel ends\n"
                               "  help: DataCacheCleanAndInvalid on its cache line after the store");
        });
    }
}

// A copy engine reads GM past the cache: it would miss what this core has stored but not cleaned.
void CheckDirtyLines(Core& core, const uint8_t* low, const uint8_t* high, uint32_t site) {
    for (uint64_t line = reinterpret_cast<uintptr_t>(low) / kLineBytes; line <= (reinterpret_cast<uintptr_t>(high) - 1) / kLineBytes;
         ++line) {
        auto it = core.cache.find(line);
        if (it == core.cache.end() || it->second.dirty == 0) continue;
        const uint32_t store = it->second.site;
        AddFinding(core, Rule::DirtyCacheLine, site, store, [&] {
            return "reads GM that this core's scalar unit has stored to and not cleaned\n  " + SiteText(*core.machine, store) +
                   ": the store\n  help: DataCacheCleanAndInvalid after the store, then SetFlag/WaitFlag from S to this pipe";
        });
        return;
    }
}

namespace ops {

uint64_t ScalarLoad(const void* addr, uint32_t bytes, bool bypass, SourceLoc loc) {
    Core& core = Current();
    uint64_t bits = 0;
    const int ub = static_cast<int>(Mem::UB);
    const auto* p = static_cast<const uint8_t*>(addr);
    InstrScope s(Op::scalar_load, Pipe::S, core.kind, loc);
    if (core.base[ub] != nullptr && p >= core.base[ub] && p < core.base[ub] + core.bytes[ub]) {
        s.instr.src0 = {Mem::UB, DType::None, 0, 0, 0, static_cast<uint64_t>(p - core.base[ub])};
        s.Local(Mem::UB, Touch::Read, s.Offset(Mem::UB, addr, bytes, "the address"), bytes);
        if (s.Commit()) std::memcpy(&bits, addr, bytes);
        return bits;
    }
    if (reinterpret_cast<uintptr_t>(addr) % bytes != 0) {
        s.Fail(Rule::Misaligned, "scalar load of " + std::to_string(bytes) + " bytes from an address that is not a multiple of it",
               "align the element");
    }
    const uint64_t line = reinterpret_cast<uintptr_t>(addr) / kLineBytes;
    s.instr.bytes = !bypass && TagHit(core, line) ? 0 : kLineBytes;
    s.instr.pieceBytes = bytes;
    s.Global(Touch::Read, addr, bytes);
    if (!s.Commit()) return 0;
    const TensorInfo* tensor = TensorAt(core, addr);
    if (bypass || tensor->use == Use::In) {
        std::memcpy(&bits, addr, bytes);
        return bits;
    }
    const CacheLine& data = FillLine(core, line);
    const uint64_t at = reinterpret_cast<uintptr_t>(addr) % kLineBytes;
    std::memcpy(&bits, data.bytes.data() + at, bytes);
    const uint64_t mine = ((bytes == 64 ? 0 : 1ull << bytes) - 1) << at;
    if ((data.dirty & mine) == 0 && std::memcmp(data.bytes.data() + at, addr, bytes) != 0) {
        AddFinding(core, Rule::StaleCacheLine, s.site, 0, [&] {
            return "scalar load of GM tensor '" + tensor->name + "' hits a data cache line filled before the value was written\n" +
                   "  help: DataCacheCleanAndInvalid on the line after the wait and before the load";
        });
    }
    return bits;
}

void ScalarStore(void* addr, uint64_t bits, uint32_t bytes, bool bypass, SourceLoc loc) {
    Core& core = Current();
    const int ub = static_cast<int>(Mem::UB);
    auto* p = static_cast<uint8_t*>(addr);
    InstrScope s(Op::scalar_store, Pipe::S, core.kind, loc);
    if (core.base[ub] != nullptr && p >= core.base[ub] && p < core.base[ub] + core.bytes[ub]) {
        s.instr.dst = {Mem::UB, DType::None, 0, 0, 0, static_cast<uint64_t>(p - core.base[ub])};
        s.Local(Mem::UB, Touch::Write, s.Offset(Mem::UB, addr, bytes, "the address"), bytes);
        if (s.Commit()) std::memcpy(addr, &bits, bytes);
        return;
    }
    if (reinterpret_cast<uintptr_t>(addr) % bytes != 0) {
        s.Fail(Rule::Misaligned, "scalar store of " + std::to_string(bytes) + " bytes to an address that is not a multiple of it",
               "align the element");
    }
    if (bypass) {
        s.instr.bytes = bytes;
        s.Global(Touch::Write, addr, bytes);
        if (s.Commit()) std::memcpy(addr, &bits, bytes);
        return;
    }
    const TensorInfo* tensor = TensorAt(core, addr);
    if (tensor == nullptr || tensor->use == Use::In) {
        s.Global(Touch::Write, addr, bytes);  // words the error
        return;
    }
    const uint64_t line = reinterpret_cast<uintptr_t>(addr) / kLineBytes;
    s.instr.bytes = TagHit(core, line) ? 0 : kLineBytes;
    s.instr.pieceBytes = bytes;
    if (!s.Commit()) return;
    CacheLine& data = FillLine(core, line);
    const uint64_t at = reinterpret_cast<uintptr_t>(addr) % kLineBytes;
    std::memcpy(data.bytes.data() + at, &bits, bytes);
    if (data.dirty == 0) ++core.dirtyLines;
    data.dirty |= ((1ull << bytes) - 1) << at;
    data.site = s.site;
}

void Dcci(const void* addr, bool entire, uint64_t, SourceLoc loc) {
    Core& core = Current();
    if (core.aborting) return;
    {
        InstrScope s(Op::dcci, Pipe::S, core.kind, loc);
        s.instr.bytes = 0;
        s.Commit();
    }
    if (entire) {
        std::vector<uint64_t> lines;
        for (auto& [line, data] : core.cache) lines.push_back(line);
        std::sort(lines.begin(), lines.end());
        for (uint64_t line : lines) Clean(core, line, core.cache[line], loc);
        core.cache.clear();
        core.cacheTags.fill(0);
    } else {
        const uint64_t line = reinterpret_cast<uintptr_t>(addr) / kLineBytes;
        auto it = core.cache.find(line);
        if (it != core.cache.end()) {
            Clean(core, line, it->second, loc);
            core.cache.erase(it);
        }
        core.cacheTags[line % core.cacheTags.size()] = 0;
    }
    YieldCore(core, CoreState::Polling);  // dcci is what a loop does that waits for another core's store
}

void ScalarWork(double cycles, SourceLoc loc) {
    Core& core = Current();
    InstrScope s(Op::scalar_work, Pipe::S, core.kind, loc);
    s.instr.scalarCycles = cycles;
    s.Commit();
}

}  // namespace ops
}  // namespace cpu_twin
