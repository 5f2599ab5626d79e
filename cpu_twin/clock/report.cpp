// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>

#include "cycle_model.h"

namespace cpu_twin {

namespace {

template <typename... A> std::string Format(const char* format, A... args) {
    char buffer[512];
    std::snprintf(buffer, sizeof(buffer), format, args...);
    return buffer;
}

std::string CoreName(const Grid& grid, size_t core) {
    const CoreInfo& info = grid.cores[core];
    if (info.kind == CoreKind::AIC) return Format("block %u AIC", info.block);
    return Format("block %u AIV%u", info.block, info.subBlock);
}

std::string Quoted(const std::string& text) {
    std::string out = "\"";
    for (const char ch : text) {
        if (ch == '"' || ch == '\\') {
            out += '\\';
            out += ch;
        } else if (static_cast<unsigned char>(ch) < 0x20) {
            out += Format("\\u%04x", ch);
        } else {
            out += ch;
        }
    }
    return out + "\"";
}

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string SiteText(const Report& report, uint32_t site) {
    if (site >= report.sites.size()) return "?";
    return BaseName(report.sites[site].file) + ":" + std::to_string(report.sites[site].line);
}

double PerMicrosecond(const Timing& timing) {
    return timing.microseconds > 0 ? timing.cycles / timing.microseconds : 1;
}

const char* CauseName(TimelineEvent::Cause cause) {
    switch (cause) {
        case TimelineEvent::Cause::Start: return "kernel start";
        case TimelineEvent::Cause::Pipe: return "order on the pipe";
        case TimelineEvent::Cause::Issue: return "issue by the scalar unit";
        case TimelineEvent::Cause::Flag: return "flag";
        case TimelineEvent::Cause::CrossCore: return "cross-core flag";
        case TimelineEvent::Cause::Barrier: return "barrier";
        case TimelineEvent::Cause::Queue: return "full queue";
        case TimelineEvent::Cause::UnitFlag: return "unit flag";
    }
    return "?";
}

}  // namespace

std::vector<std::shared_ptr<ClockModel>> AllOutlooks() {
    return {std::make_shared<CycleModel>(Outlook::Expected), std::make_shared<CycleModel>(Outlook::Optimistic),
            std::make_shared<CycleModel>(Outlook::Pessimistic)};
}

std::vector<PathStep> CriticalPath(const Timing& timing) {
    const auto& events = timing.timeline;
    if (events.empty()) throw std::invalid_argument("critical path: expected a timeline (Options::timeline), got none");
    if (timing.timelineTruncated) {
        throw std::invalid_argument("critical path: the timeline was cut at " + std::to_string(events.size()) +
                                    " events; raise Options::timelineLimit");
    }
    size_t last = 0;
    for (size_t i = 1; i < events.size(); ++i) {
        if (events[i].end > events[last].end) last = i;
    }
    std::vector<PathStep> path;
    double until = events[last].end;
    for (int64_t i = static_cast<int64_t>(last); i >= 0; i = events[i].cause) {
        // The step lasts until its successor could begin. What a wait waited for is a step of its own, so of the wait
        // only the latency of the signal remains. A successor that began on half a copy may have begun before this one.
        double begin = events[i].start;
        if (events[i].waited > 0 && events[i].cause >= 0) begin = std::max(begin, events[events[i].cause].end);
        begin = std::min(begin, until);
        path.push_back({static_cast<size_t>(i), begin, until - begin});
        until = begin;
        if (path.size() > events.size()) throw std::logic_error("critical path: the binding edges form a circle");
    }
    std::reverse(path.begin(), path.end());
    return path;
}

std::string OutlookText(const Report& report) {
    std::string out;
    for (const Timing& timing : report.times) {
        out += Format("%s (%s): %.1f us, %.0f cycles\n", kPredicted, timing.clock.c_str(), timing.microseconds, timing.cycles);
    }
    return out;
}

std::string UtilisationText(const Report& report, const Timing& timing) {
    std::string out = Format("%s (%s): %.1f us\n", kPredicted, timing.clock.c_str(), timing.microseconds);
    if (timing.cycles <= 0) return out;
    for (const CoreKind kind : {CoreKind::AIC, CoreKind::AIV}) {
        std::vector<size_t> cores;
        for (size_t c = 0; c < report.grid.cores.size(); ++c) {
            if (report.grid.cores[c].kind == kind) cores.push_back(c);
        }
        if (cores.empty()) continue;
        out += Format("  %zu %s        busy mean   busy most   waiting mean   us busy (most)\n", cores.size(),
                      kind == CoreKind::AIC ? "AIC" : "AIV");
        for (int p = 0; p < kPipes; ++p) {
            double busy = 0, most = 0, waiting = 0;
            for (const size_t c : cores) {
                busy += timing.busy[c][p];
                most = std::max(most, timing.busy[c][p]);
                waiting += timing.waiting[c][p];
            }
            if (busy == 0 && waiting == 0) continue;
            const double all = timing.cycles * static_cast<double>(cores.size());
            out += Format("    %-5s    %8.1f %%  %8.1f %%     %8.1f %%     %10.1f\n", PipeName(static_cast<Pipe>(p)),
                          100 * busy / all, 100 * most / timing.cycles, 100 * waiting / all, most / PerMicrosecond(timing));
        }
    }
    return out;
}

std::string CriticalPathText(const Report& report, const Timing& timing, size_t lines) {
    const std::vector<PathStep> path = CriticalPath(timing);
    std::map<std::string, double> byPipe, byCause, bySite;
    for (const PathStep& step : path) {
        const TimelineEvent& e = timing.timeline[step.event];
        const char* kind = report.grid.cores[e.core].kind == CoreKind::AIC ? "AIC " : "AIV ";
        byPipe[std::string(kind) + PipeName(e.pipe)] += step.cycles;
        byCause[CauseName(e.causeKind)] += 1;
        bySite[SiteText(report, e.site) + " " + OpName(e.op) + " on " + kind + PipeName(e.pipe)] += step.cycles;
    }
    const double scale = PerMicrosecond(timing);
    std::string out = Format("%s (%s): critical path, %zu steps\n", kPredicted, timing.clock.c_str(), path.size());
    const auto table = [&](const char* title, const std::map<std::string, double>& sums) {
        std::vector<std::pair<std::string, double>> rows(sums.begin(), sums.end());
        std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
        out += Format("  %s\n", title);
        for (size_t i = 0; i < std::min(lines, rows.size()); ++i) {
            out += Format("    %8.2f us  %5.1f %%  ", rows[i].second / scale, 100 * rows[i].second / timing.cycles);
            out += rows[i].first + "\n";
        }
    };
    out += Format("    %8.2f us  %5.1f %%  before the first instruction (launch head)\n", path.front().begin / scale,
                  100 * path.front().begin / timing.cycles);
    table("by pipe", byPipe);
    table("by source line", bySite);
    out += "  steps by what bound them:";
    for (const auto& [cause, count] : byCause) out += Format("  %s %.0f", cause.c_str(), count);
    return out + "\n";
}

std::string TraceJson(const Report& report, const Timing& timing, const std::string& kernel) {
    const double scale = PerMicrosecond(timing);
    std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":{";
    out += "\"note\":" + Quoted(kPredicted) + ",\"kernel\":" + Quoted(kernel) + ",\"clock\":" + Quoted(timing.clock);
    out += Format(",\"microseconds\":%.4f,\"complete\":%s},\"traceEvents\":[\n", timing.microseconds,
                  timing.timelineTruncated ? "false" : "true");
    for (size_t c = 0; c < report.grid.cores.size(); ++c) {
        out += Format("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%zu,\"args\":{\"name\":", c) +
               Quoted(CoreName(report.grid, c)) + "}},\n";
        out += Format("{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%zu,\"args\":{\"sort_index\":%zu}},\n", c, c);
        for (int p = 0; p < kPipes; ++p) {
            out += Format("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%zu,\"tid\":%d,\"args\":{\"name\":\"%s\"}},\n", c, p,
                          PipeName(static_cast<Pipe>(p)));
        }
    }
    std::vector<uint8_t> onPath(timing.timeline.size(), 0);
    if (!timing.timelineTruncated && !timing.timeline.empty()) {
        for (const PathStep& step : CriticalPath(timing)) onPath[step.event] = 1;
    }
    for (size_t i = 0; i < timing.timeline.size(); ++i) {
        const TimelineEvent& e = timing.timeline[i];
        out += Format("{\"ph\":\"X\",\"pid\":%u,\"tid\":%d,\"name\":\"%s\",\"ts\":%.4f,\"dur\":%.4f,\"args\":{", e.core,
                      static_cast<int>(e.pipe), OpName(e.op), e.start / scale, (e.release - e.start) / scale);
        out += "\"at\":" + Quoted(SiteText(report, e.site));
        out += Format(",\"done\":%.4f", e.end / scale);
        if (e.waited > 0) out += Format(",\"waited\":%.4f", e.waited / scale);
        if (e.bytes) out += Format(",\"bytes\":%" PRIu64, e.bytes);
        if (e.detail) out += Format(",\"repeats_or_pieces\":%u", e.detail);
        if (e.m) out += Format(",\"m\":%u,\"n\":%u,\"k\":%u", e.m, e.n, e.k);
        if (onPath[i]) out += ",\"critical\":true";
        out += std::string(",\"bound_by\":") + Quoted(CauseName(e.causeKind)) + "}},\n";
        // Arrows only along the critical path: all flags of a large grid would drown the picture.
        const bool arrow = e.causeKind == TimelineEvent::Cause::Flag || e.causeKind == TimelineEvent::Cause::CrossCore;
        if (onPath[i] && arrow && e.cause >= 0) {
            const TimelineEvent& from = timing.timeline[e.cause];
            out += Format("{\"ph\":\"s\",\"id\":%zu,\"name\":\"flag\",\"cat\":\"sync\",\"pid\":%u,\"tid\":%d,\"ts\":%.4f},\n", i,
                          from.core, static_cast<int>(from.pipe), from.start / scale);
            out += Format("{\"ph\":\"f\",\"bp\":\"e\",\"id\":%zu,\"name\":\"flag\",\"cat\":\"sync\",\"pid\":%u,\"tid\":%d,"
                          "\"ts\":%.4f},\n",
                          i, e.core, static_cast<int>(e.pipe), e.end / scale);
        }
    }
    out.erase(out.find_last_of(','));
    return out + "\n]}\n";
}

void WriteTrace(const Report& report, const Timing& timing, const std::string& kernel, const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    file << TraceJson(report, timing, kernel);
    if (!file.flush()) throw std::runtime_error("trace: cannot write " + path);
}

}  // namespace cpu_twin
