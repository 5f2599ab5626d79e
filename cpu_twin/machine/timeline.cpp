// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <thread>

namespace cpu_twin {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Cause {
    int32_t event = -1;
    TimelineEvent::Cause kind = TimelineEvent::Cause::Start;
};

// What a core recorded in one go; shared by the replays of all clocks.
using Records = std::shared_ptr<const std::vector<Instr>>;

class Stream {
public:
    bool Empty() const { return chunks_.empty(); }
    const Instr& Front() const { return (*chunks_.front())[at_]; }
    std::shared_ptr<const Instr> Share() const { return {chunks_.front(), &Front()}; }
    void Pop() {
        if (++at_ < chunks_.front()->size()) return;
        chunks_.pop_front();
        at_ = 0;
    }
    void Append(const Records& records) {
        if (!records->empty()) chunks_.push_back(records);
    }

private:
    std::deque<Records> chunks_;
    size_t at_ = 0;
};

struct Queued {
    std::shared_ptr<const Instr> instr;
    double issued = 0;
    Cause cause;            // of the time of issue
};

// A tile of L0C handed over by unit flags: fractal by fractal, so the other pipe may start when the first fractal is done.
struct UnitTile {
    uint64_t begin = 0, end = 0;
    Span span;
    int32_t event = -1;
};

struct FlagSet {
    double visible = 0;
    int32_t event = -1;     // last event of the setting pipe
};

struct CrossArrival {
    double visible = 0;
    int32_t from = -1;      // core
    int32_t event = -1;
};

struct PipeTime {
    std::deque<Queued> queue;
    double release = 0;     // the next instruction may start
    double end = 0;         // all instructions so far are complete
    double wake = kNever;   // time of the event in the heap, kNever if none
    double waitSince = kNever;
    int32_t lastEvent = -1;
    bool partial = false;   // the head is under way since firstStart
    double firstStart = 0;
    Cause firstCause;
};

struct CoreTime {
    Stream stream;
    double scalar = 0;      // the scalar unit is free
    double scalarWake = kNever;
    double waitSince = kNever;
    Cause scalarCause;      // what its time comes from: its last wait, load or store, or the pipe whose queue was full
    int queueFull = -1;     // pipe whose queue has no room
    std::array<PipeTime, kPipes> pipe;
    std::array<std::array<std::array<std::deque<FlagSet>, kEventIds>, kPipes>, kPipes> flags;
    std::array<std::deque<CrossArrival>, kCrossFlags> arrivals;
    std::vector<UnitTile> written, taken;   // by mad, by fixpipe
    bool done = false;      // no more records will come
    bool held = false;      // its program waits for another core, so nothing new comes before that core moves
};

struct Event {
    double time;
    uint16_t core;
    int8_t pipe;            // kPipes: the scalar unit
    bool operator>(const Event& o) const { return std::tie(time, core, pipe) > std::tie(o.time, o.core, o.pipe); }
};

uint64_t TileBytes(const Instr& i) { return static_cast<uint64_t>((i.m + 15) / 16) * ((i.n + 15) / 16) * 1024; }

}  // namespace

class Replay {
public:
    Replay(Machine& machine, ClockModel& clock) : machine_(machine), clock_(clock), cores_(machine.cores.size()) {
        const double start = clock_.Begin(machine.grid);
        for (CoreTime& c : cores_) {
            c.scalar = start;
            for (PipeTime& p : c.pipe) p.release = p.end = start;
        }
        timing_.clock = clock_.Name();
        timing_.busy.assign(cores_.size(), {});
        timing_.waiting.assign(cores_.size(), {});
        for (auto& byCore : mode1_) byCore.resize(cores_.size());
        for (auto& byCore : mode0_) byCore.resize(cores_.size());
        for (auto& byCore : mode2_) byCore.resize(cores_.size());
        for (int p = 0; p < kPipes; ++p) depth_[p] = std::max(1u, clock_.QueueDepth(static_cast<Pipe>(p)));
    }

    void Take(uint16_t core, const Records& records) { cores_[core].stream.Append(records); }

    void Run(bool final) {
        for (size_t i = 0; i < cores_.size(); ++i) {
            const Core& core = *machine_.cores[i];
            cores_[i].done = final || core.state == CoreState::Done;
            cores_[i].held = core.state == CoreState::WaitingFlag;
            WakeScalar(static_cast<uint16_t>(i), cores_[i].scalar);
        }
        double safe = SafeTime();
        while (!events_.empty()) {
            const Event e = events_.top();
            if (e.time > safe) break;
            events_.pop();
            CoreTime& c = cores_[e.core];
            if (e.pipe == kPipes) {
                if (c.scalarWake != e.time) continue;  // an older entry
                c.scalarWake = kNever;
                StepScalar(e.core, e.time);
                if (!c.done && c.stream.Empty()) safe = std::min(safe, c.scalar);
            } else {
                PipeTime& p = c.pipe[static_cast<size_t>(e.pipe)];
                if (p.wake != e.time) continue;
                p.wake = kNever;
                StepPipe(e.core, e.pipe, e.time);
            }
        }
    }

    Timing Finish() {
        Run(true);
        double last = 0;
        for (CoreTime& c : cores_) {
            double end = c.scalar;
            for (PipeTime& p : c.pipe) end = std::max(end, p.end);
            timing_.coreEnd.push_back(end);
            last = std::max(last, end);
        }
        timing_.cycles = last + clock_.End();
        timing_.microseconds = timing_.cycles / clock_.CyclesPerMicrosecond();
        return std::move(timing_);
    }

private:
    // Cores whose records are used up may record more, from their scalar time on.
    double SafeTime() const {
        double safe = kNever;
        for (const CoreTime& c : cores_) {
            if (!c.done && c.stream.Empty()) safe = std::min(safe, c.scalar);
        }
        return safe;
    }

    void WakeScalar(uint16_t core, double time) {
        CoreTime& c = cores_[core];
        if (c.stream.Empty() || c.scalarWake != kNever) return;
        c.scalarWake = std::max(time, c.scalar);
        events_.push({c.scalarWake, core, kPipes});
    }
    void WakePipe(uint16_t core, int pipe, double time) {
        PipeTime& p = cores_[core].pipe[static_cast<size_t>(pipe)];
        if (p.queue.empty() || p.wake <= time) return;
        p.wake = time;
        events_.push({time, core, static_cast<int8_t>(pipe)});
    }
    // When the head of a queue could start as far as its own pipe is concerned.
    double HeadTime(const PipeTime& p) const {
        const Queued& head = p.queue.front();
        const Op op = head.instr->op;
        const bool afterAll = op == Op::set_flag || op == Op::ffts_cross_core_sync || op == Op::pipe_barrier;
        return std::max(head.issued, afterAll ? p.end : p.release);
    }

    void StepScalar(uint16_t core, double now) {
        CoreTime& c = cores_[core];
        while (!c.stream.Empty()) {
            const Instr& i = c.stream.Front();
            c.scalar = std::max(c.scalar, now);
            if (i.pipe == Pipe::S) {
                if (!ScalarOp(core, c, i)) return;
            } else if (i.op == Op::pipe_barrier && i.allPipes) {
                if (!BarrierAll(core, c, i)) return;
            } else {
                PipeTime& p = c.pipe[static_cast<size_t>(i.pipe)];
                if (p.queue.size() >= depth_[static_cast<size_t>(i.pipe)]) {  // woken when the pipe takes one
                    c.queueFull = static_cast<int>(i.pipe);
                    return;
                }
                if (c.queueFull >= 0) c.scalarCause = {p.lastEvent, TimelineEvent::Cause::Queue};
                c.queueFull = -1;
                c.scalar += clock_.IssueCycles(i);
                const Cause issue{c.scalarCause.event, c.scalarCause.kind == TimelineEvent::Cause::Queue ? TimelineEvent::Cause::Queue
                                                                                                          : TimelineEvent::Cause::Issue};
                p.queue.push_back({c.stream.Share(), c.scalar, issue});
                if (p.queue.size() == 1) WakePipe(core, static_cast<int>(i.pipe), HeadTime(p));
            }
            c.stream.Pop();
            // One step at a time, so that other events in between come in order.
            if (!c.stream.Empty() && c.scalar > now) {
                WakeScalar(core, c.scalar);
                return;
            }
        }
    }

    bool ScalarOp(uint16_t core, CoreTime& c, const Instr& i) {
        if (i.op == Op::pipe_barrier) return BarrierAll(core, c, i);
        if (i.op == Op::wait_flag) {
            auto& flags = c.flags[static_cast<size_t>(i.peer)][static_cast<size_t>(Pipe::S)][i.id];
            if (flags.empty()) {
                if (c.waitSince == kNever) c.waitSince = c.scalar;
                return false;  // woken by the set
            }
            const double until = std::max(c.scalar, flags.front().visible);
            EndWait(core, i, c.waitSince == kNever ? c.scalar : c.waitSince, until, -1, {flags.front().event, TimelineEvent::Cause::Flag});
            c.waitSince = kNever;
            flags.pop_front();
            c.scalar = until + clock_.IssueCycles(i);
            return true;
        }
        if (i.op == Op::wait_flag_dev) {
            auto& arrivals = c.arrivals[i.id];
            if (arrivals.empty()) {
                if (c.waitSince == kNever) c.waitSince = c.scalar;
                return false;
            }
            const double until = std::max(c.scalar, arrivals.front().visible);
            EndWait(core, i, c.waitSince == kNever ? c.scalar : c.waitSince, until, arrivals.front().from,
                    {arrivals.front().event, TimelineEvent::Cause::CrossCore});
            c.waitSince = kNever;
            arrivals.pop_front();
            c.scalar = until + clock_.IssueCycles(i);
            return true;
        }
        if (i.op == Op::set_flag) {
            c.scalar += clock_.IssueCycles(i);
            SetFlag(core, i, c.scalar, c.scalarCause.event);
            return true;
        }
        Span span = clock_.Run(i, c.scalar);
        while (span.partial) span = clock_.Run(i, span.release);
        Note(core, i, c.scalar, span, c.scalarCause);
        c.scalarCause = {c.pipe[static_cast<size_t>(Pipe::S)].lastEvent, TimelineEvent::Cause::Pipe};
        c.scalar = std::max(c.scalar, span.end);
        return true;
    }

    bool BarrierAll(uint16_t core, CoreTime& c, const Instr& i) {
        double all = c.waitSince == kNever ? c.scalar : c.waitSince;
        Cause slowest = c.scalarCause;
        for (PipeTime& p : c.pipe) {
            if (!p.queue.empty()) {
                if (c.waitSince == kNever) c.waitSince = c.scalar;
                return false;  // woken when queues drain
            }
            if (p.end > all) slowest = {p.lastEvent, TimelineEvent::Cause::Barrier};
            all = std::max(all, p.end);
        }
        const double until = std::max(all, c.scalar) + clock_.BarrierCycles(i);
        EndWait(core, i, c.waitSince == kNever ? c.scalar : c.waitSince, until, -1, slowest);
        c.waitSince = kNever;
        c.scalar = until;
        return true;
    }

    void StepPipe(uint16_t core, int pipe, double now) {
        CoreTime& c = cores_[core];
        PipeTime& p = c.pipe[static_cast<size_t>(pipe)];
        if (p.queue.empty()) return;
        const double ready = std::max(now, HeadTime(p));
        if (ready > now) {
            WakePipe(core, pipe, ready);
            return;
        }
        const Queued& head = p.queue.front();
        const Instr& i = *head.instr;
        switch (i.op) {
            case Op::set_flag:
                SetFlag(core, i, ready, head.issued > p.end ? head.cause.event : p.lastEvent);
                break;
            case Op::ffts_cross_core_sync:
                CrossSet(core, i, ready, head.issued > p.end ? head.cause.event : p.lastEvent);
                break;
            case Op::pipe_barrier: {
                const double until = ready + clock_.BarrierCycles(i);
                p.release = std::max(p.release, until);
                p.end = std::max(p.end, until);
                break;
            }
            case Op::wait_flag: {
                auto& flags = c.flags[static_cast<size_t>(i.peer)][static_cast<size_t>(pipe)][i.id];
                if (flags.empty() || flags.front().visible > now) {
                    if (p.waitSince == kNever) p.waitSince = ready;
                    if (!flags.empty()) WakePipe(core, pipe, flags.front().visible);
                    return;
                }
                const Cause cause{flags.front().event, TimelineEvent::Cause::Flag};
                flags.pop_front();
                EndWait(core, i, p.waitSince == kNever ? ready : p.waitSince, ready, -1, cause);
                p.waitSince = kNever;
                p.release = std::max(p.release, ready);
                break;
            }
            default: {
                double start = ready;
                Cause cause = head.issued > p.release ? head.cause : Cause{p.lastEvent, TimelineEvent::Cause::Pipe};
                if (p.waitSince != kNever) cause.kind = TimelineEvent::Cause::UnitFlag;
                if (!p.partial && i.unitFlag != 0 && !UnitReady(c, i, start, cause)) {
                    if (p.waitSince == kNever) p.waitSince = ready;
                    return;  // woken by the other pipe
                }
                if (start > now) {
                    WakePipe(core, pipe, start);
                    return;
                }
                p.waitSince = kNever;
                Span span = clock_.Run(i, start);
                if (!p.partial) {
                    p.firstStart = span.start;
                    p.firstCause = cause;
                }
                p.partial = span.partial;
                if (span.partial) {
                    p.release = std::max(p.release, span.release);
                    WakePipe(core, pipe, std::max(now, span.release));
                    return;
                }
                span.start = p.firstStart;
                Note(core, i, head.issued, span, p.firstCause);
                if (i.unitFlag == 3) HandOver(core, c, i, span);
                p.release = std::max(p.release, span.release);
                p.end = std::max(p.end, span.end);
            }
        }
        p.queue.pop_front();
        if (!p.queue.empty()) WakePipe(core, pipe, HeadTime(p));
        if (c.scalarWake == kNever) WakeScalar(core, now);  // it may have waited for room or for an empty queue
    }

    // Unit flags: fixpipe waits until mad has begun to fill the tile (the clock knows by how much it must trail), mad until
    // fixpipe has taken the tile.
    bool UnitReady(CoreTime& c, const Instr& i, double& start, Cause& cause) {
        const bool mad = i.op == Op::mad;
        const uint64_t begin = mad ? i.dst.offset : i.src0.offset, end = begin + TileBytes(i);
        bool covered = mad;
        for (const UnitTile& t : c.written) {
            if (t.end <= begin || t.begin >= end) continue;
            if (mad) return false;
            covered = true;
            if (cause.kind == TimelineEvent::Cause::UnitFlag) cause.event = t.event;
        }
        for (const UnitTile& t : c.taken) {
            if (!mad || t.end <= begin || t.begin >= end) continue;
            const double first = t.span.start + (t.span.end - t.span.start) * 1024.0 / static_cast<double>(t.end - t.begin);
            if (first > start) cause = {t.event, TimelineEvent::Cause::UnitFlag};
            start = std::max(start, first);
        }
        return covered;
    }
    void HandOver(uint16_t core, CoreTime& c, const Instr& i, const Span& span) {
        const bool mad = i.op == Op::mad;
        const uint64_t begin = mad ? i.dst.offset : i.src0.offset, end = begin + TileBytes(i);
        auto without = [begin, end](std::vector<UnitTile>& tiles) {  // fixpipe may take a tile in several parts
            std::vector<UnitTile> rest;
            for (const UnitTile& t : tiles) {
                if (t.end <= begin || t.begin >= end) {
                    rest.push_back(t);
                    continue;
                }
                if (t.begin < begin) rest.push_back({t.begin, begin, t.span, t.event});
                if (t.end > end) rest.push_back({end, t.end, t.span, t.event});
            }
            tiles = std::move(rest);
        };
        without(c.taken);
        without(c.written);
        (mad ? c.written : c.taken).push_back({begin, end, span, c.pipe[static_cast<size_t>(i.pipe)].lastEvent});
        WakePipe(core, static_cast<int>(mad ? Pipe::FIX : Pipe::M), mad ? span.start : span.release);
    }

    void SetFlag(uint16_t core, const Instr& i, double time, int32_t event) {
        CoreTime& c = cores_[core];
        const double visible = time + clock_.FlagCycles(i.pipe, i.peer);
        c.flags[static_cast<size_t>(i.pipe)][static_cast<size_t>(i.peer)][i.id].push_back({visible, event});
        if (i.peer == Pipe::S) WakeScalar(core, visible);
        else WakePipe(core, static_cast<int>(i.peer), std::max(visible, cores_[core].pipe[static_cast<size_t>(i.peer)].release));
    }

    void Arrive(uint16_t core, uint32_t flag, double visible, int32_t from, int32_t event) {
        cores_[core].arrivals[flag].push_back({visible, from, event});
        WakeScalar(core, visible);
    }

    void CrossSet(uint16_t core, const Instr& i, double time, int32_t event) {
        const double visible = time + clock_.CrossCoreCycles(i.mode);
        const Core& me = *machine_.cores[core];
        if (i.mode == 2 && me.kind == CoreKind::AIC) {
            for (const Core* other : me.block->cores) {
                if (other->kind == CoreKind::AIV) Arrive(other->index, i.id, visible, core, event);
            }
            return;
        }
        // Waits for its partners: the other AIV of the block, or all cores of the kind.
        auto& pending = i.mode == 0 ? mode0_[i.id] : i.mode == 1 ? mode1_[i.id] : mode2_[i.id];
        pending[core].push_back({visible, core, event});
        std::vector<uint16_t> partners;
        for (const auto& other : machine_.cores) {
            const bool partner = i.mode == 0 ? other->kind == me.kind : other->block == me.block && other->kind == CoreKind::AIV;
            if (partner) partners.push_back(other->index);
        }
        CrossArrival last;
        for (uint16_t p : partners) {
            if (pending[p].empty()) return;
            if (pending[p].front().visible >= last.visible) last = pending[p].front();
        }
        for (uint16_t p : partners) pending[p].pop_front();
        if (i.mode == 2) {
            for (const Core* other : me.block->cores) {
                if (other->kind == CoreKind::AIC) Arrive(other->index, i.id, last.visible, last.from, last.event);
            }
        } else {
            for (uint16_t p : partners) Arrive(p, i.id, last.visible, last.from, last.event);
        }
    }

    void Note(uint16_t core, const Instr& i, double issued, const Span& span, Cause cause) {
        timing_.busy[core][static_cast<size_t>(i.pipe)] += span.release - span.start;
        if (!machine_.options.timeline) return;
        TimelineEvent e{};
        e.op = i.op;
        e.pipe = i.pipe;
        e.core = core;
        e.site = i.site;
        e.issue = issued;
        e.start = span.start;
        e.release = span.release;
        e.end = span.end;
        e.cause = cause.event;
        e.causeKind = cause.event < 0 ? TimelineEvent::Cause::Start : cause.kind;
        e.bytes = i.bytes;
        e.detail = i.repeats != 0 ? i.repeats : i.pieces;
        e.m = i.m;
        e.n = i.n;
        e.k = i.k;
        Keep(core, e);
    }
    void EndWait(uint16_t core, const Instr& i, double since, double until, int32_t from, Cause cause) {
        timing_.waiting[core][static_cast<size_t>(i.pipe)] += until - since;
        if (!machine_.options.timeline || until <= since) return;
        TimelineEvent e{};
        e.op = i.op;
        e.pipe = i.pipe;
        e.core = core;
        e.site = i.site;
        e.issue = e.start = since;
        e.release = e.end = until;
        e.waited = until - since;
        e.fromCore = from;
        e.cause = cause.event;
        e.causeKind = cause.event < 0 ? TimelineEvent::Cause::Start : cause.kind;
        Keep(core, e);
        if (i.pipe == Pipe::S) cores_[core].scalarCause = {static_cast<int32_t>(timing_.timeline.size()) - 1, cause.kind};
    }
    void Keep(uint16_t core, const TimelineEvent& e) {
        if (timing_.timeline.size() >= machine_.options.timelineLimit) {
            timing_.timelineTruncated = true;
            return;
        }
        cores_[core].pipe[static_cast<size_t>(e.pipe)].lastEvent = static_cast<int32_t>(timing_.timeline.size());
        timing_.timeline.push_back(e);
    }

    Machine& machine_;
    ClockModel& clock_;
    std::vector<CoreTime> cores_;
    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
    std::array<std::vector<std::deque<CrossArrival>>, kCrossFlags> mode0_, mode1_, mode2_;
    std::array<uint32_t, kPipes> depth_{};
    Timing timing_;
};

Timeline::Timeline(Machine& machine) : machine_(machine) {
    for (auto& clock : machine.options.clocks) replays_.push_back(std::make_unique<Replay>(machine, *clock));
}
Timeline::~Timeline() = default;

void Timeline::Advance() {
    for (auto& core : machine_.cores) {
        const auto records = std::make_shared<const std::vector<Instr>>(std::move(core->records));
        core->records = {};
        core->records.reserve(records->size());
        for (auto& replay : replays_) replay->Take(core->index, records);
    }
    ForEachReplay([](Replay& replay) { replay.Run(false); });
}

// The clocks know nothing of one another, so they may run side by side.
void Timeline::ForEachReplay(const std::function<void(Replay&)>& run) {
    const size_t threads = std::min(replays_.size(), static_cast<size_t>(std::max(1, machine_.options.threads)));
    auto some = [&](size_t first) {
        for (size_t i = first; i < replays_.size(); i += threads) run(*replays_[i]);
    };
    std::vector<std::thread> pool;
    for (size_t t = 1; t < threads; ++t) pool.emplace_back(some, t);
    if (threads > 0) some(0);
    for (auto& t : pool) t.join();
}

std::vector<Timing> Timeline::Finish() {
    Advance();
    ForEachReplay([](Replay& replay) { replay.Run(true); });
    std::vector<Timing> out;
    for (auto& replay : replays_) out.push_back(replay->Finish());
    return out;
}

}  // namespace cpu_twin
