// SPDX-License-Identifier: Apache-2.0
// What happens before what.
#include <algorithm>
#include <stdexcept>

#include "core.h"

namespace cpu_twin {

void Join(VectorClock& into, const VectorClock& from) {
    for (int i = 0; i < kBlockPipes; ++i) into.epoch[i] = std::max(into.epoch[i], from.epoch[i]);
    if (from.remote == nullptr || from.remote == into.remote) return;
    into.remote = into.remote == nullptr ? from.remote : from.remote->owner->JoinRemotes(into.remote, from.remote);
}

const RemoteKnowledge* Machine::NewRemote(std::vector<uint32_t> epoch) {
    std::lock_guard<std::mutex> lock(remoteMutex);
    if (remotes.size() >= 65534) throw std::length_error("more than 65534 grid-wide synchronisations in one launch");
    remotes.push_back(std::make_unique<RemoteKnowledge>());
    remotes.back()->epoch = std::move(epoch);
    remotes.back()->index = static_cast<uint16_t>(remotes.size());
    remotes.back()->owner = this;
    return remotes.back().get();
}

const RemoteKnowledge* Machine::JoinRemotes(const RemoteKnowledge* a, const RemoteKnowledge* b) {
    bool aCovers = true, bCovers = true;
    for (size_t i = 0; i < a->epoch.size(); ++i) {
        aCovers = aCovers && a->epoch[i] >= b->epoch[i];
        bCovers = bCovers && b->epoch[i] >= a->epoch[i];
    }
    if (aCovers) return a;
    if (bCovers) return b;
    std::vector<uint32_t> both = a->epoch;
    for (size_t i = 0; i < both.size(); ++i) both[i] = std::max(both[i], b->epoch[i]);
    return NewRemote(std::move(both));
}

// Instructions are issued by the scalar unit in program order: what it waited for lies before all it issues afterwards.
void JoinScalar(Core& core, Pipe pipe) {
    PipeState& state = core.pipe[static_cast<int>(pipe)];
    if (state.seenScalar == core.scalarVersion) return;
    Join(state.know, core.pipe[static_cast<int>(Pipe::S)].know);
    state.seenScalar = core.scalarVersion;
}

VectorClock Release(Core& core, Pipe pipe) {
    JoinScalar(core, pipe);
    PipeState& state = core.pipe[static_cast<int>(pipe)];
    VectorClock published = state.know;
    published.epoch[core.LocalPipe(pipe)] = state.epoch++;
    return published;
}

bool IsOrdered(const Core& core, const Access& earlier, const Access& now) {
    const int firstPipe = core.block->firstPipe;
    const int local = earlier.pipe - firstPipe;
    const VectorClock& know = core.pipe[now.pipe % kPipes].know;
    if (local < 0 || local >= static_cast<int>(core.block->cores.size()) * kPipes) {
        return know.remote != nullptr && know.remote->epoch[earlier.pipe] >= earlier.epoch;
    }
    if (earlier.epoch <= know.epoch[local]) return true;
    if (earlier.pipe != now.pipe) return false;
    switch (static_cast<Pipe>(now.pipe % kPipes)) {
        case Pipe::S:
            return true;
        case Pipe::M:
            // Accumulation into the same L0C tile: the cube orders it by itself once the tile has at least 10 fractals.
            return earlier.aux == 0;
        case Pipe::V:
            // The instruction itself: an operand read and written in place, or a result written by every repeat.
            return earlier.epoch == now.epoch && earlier.instr == now.instr && earlier.site == now.site;
        default:
            return false;
    }
}

bool DropSync(Core& core, Op op, Pipe from, Pipe to, uint32_t site) {
    const uint64_t key = static_cast<uint64_t>(site) << 16 | static_cast<uint64_t>(op) << 8 | static_cast<uint64_t>(from) << 4 |
                         static_cast<uint64_t>(to);
    auto [it, fresh] = core.block->syncCalls.try_emplace(key);
    if (fresh && !core.machine->dropSync.empty()) {
        const Site where = core.machine->sites.Resolve(site);
        it->second.dropped = SyncSite{op, from, to, where.file, where.line, 0}.Key() == core.machine->dropSync;
    }
    ++it->second.calls;
    return it->second.dropped;
}

}  // namespace cpu_twin
