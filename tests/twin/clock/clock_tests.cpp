// SPDX-License-Identifier: Apache-2.0
// The clock: its parts one by one, and the published figures. Takes --list, --run NAME, or --figures, which prints what
// every figure comes to as JSON (docs/twin_clock.md is made from that).
#include <cmath>
#include <cstdio>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "../../../cpu_twin/clock/cycle_model.h"
#include "../../../cpu_twin/clock/report.h"
#include "../../../cpu_twin/clock/shared_memory.h"
#include "figure_kernels.h"
#include "figures.h"

namespace {

using namespace cpu_twin;
using twin_figures::Figure;
using twin_figures::Role;

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
template <typename... A> [[noreturn]] void Fail(const A&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    throw Failure(text.str());
}
void ExpectClose(const char* what, double want, double got, double tolerance = 1e-9) {
    if (!(std::fabs(want - got) <= tolerance * std::max(1.0, std::fabs(want)))) Fail(what, ": expected ", want, ", got ", got);
}

// ---- shared bandwidth ----

void BandwidthAlone() {
    // 10 bytes a cycle; 1000 bytes at the core's own pace of 200 cycles are not slowed.
    SharedBandwidth shared(10);
    ExpectClose("unhindered", 1200, shared.Book(1000, 200, 1000));
    // A port of 100 cycles for 2000 bytes asks for 20 a cycle: the bandwidth binds.
    SharedBandwidth bound(10);
    ExpectClose("bound", 200, bound.Book(0, 100, 2000), 0.2);
}
void BandwidthShared() {
    // Four transfers at once get what the bandwidth holds, and no window is used beyond it.
    SharedBandwidth shared(10);
    double last = 0;
    for (int i = 0; i < 4; ++i) last = std::max(last, shared.Book(0, 64, 640));
    ExpectClose("four at once", 256, last, 0.01);
    ExpectClose("later, alone again", 1064, shared.Book(1000, 64, 640), 0.01);
}
void BandwidthNothing() { ExpectClose("no bytes", 50, SharedBandwidth(10).Book(20, 30, 0)); }

// ---- L2 ----

void L2FirstTouch() {
    L2Cache l2(128 * 4, 128);
    L2Cache::Traffic t;
    l2.Read(0, 64, 128, true, &t);  // two lines, half of each
    if (t.missBytes != 128 || t.hitBytes != 0) Fail("first touch misses");
    t = {};
    l2.Read(0, 0, 256, true, &t);
    if (t.hitBytes != 256) Fail("the lines are there now");
    t = {};
    l2.Read(1, 0, 128, true, &t);
    if (t.missBytes != 128) Fail("another tensor is another line");
}
void L2Evicts() {
    L2Cache l2(128 * 4, 128);
    L2Cache::Traffic t;
    l2.Write(0, 0, 128, &t);
    if (t.hitBytes != 128 || t.missBytes != 0) Fail("a write allocates without fetching");
    t = {};
    l2.Read(0, 128, 128 * 4, true, &t);  // four more lines: the written one has to leave
    if (t.writeBackBytes != 128) Fail("the dirty line is written back once, got ", t.writeBackBytes);
    t = {};
    l2.Read(0, 0, 128, true, &t);
    if (t.missBytes != 128) Fail("the first line is gone");
}
void L2Bypass() {
    L2Cache l2(128 * 4, 128);
    L2Cache::Traffic t;
    l2.Read(0, 0, 128, false, &t);
    t = {};
    l2.Read(0, 0, 128, true, &t);
    if (t.missBytes != 128) Fail("a read that bypasses L2 must not leave a line behind");
}

// ---- costs ----

Grid OneCore(CoreKind kind) {
    Grid grid;
    grid.cores.push_back({kind, 0, 0});
    return grid;
}

void LaunchHeadIsCharged() {
    CycleModel model(Outlook::Expected);
    const Grid grid = OneCore(CoreKind::AIV);
    ExpectClose("head", 7 * 1800, model.Begin(grid));
}
void OutlooksAreOrdered() {
    // The same copy, Mmad and vector instruction must cost least when optimistic and most when pessimistic.
    Instr copy;
    copy.op = Op::copy_gm_to_ubuf;
    copy.pipe = Pipe::MTE2;
    copy.src0.mem = Mem::GM;
    copy.gmPieceBytes = 2048;
    copy.gmPieces = copy.gmGroups = 1;
    Instr mad;
    mad.op = Op::mad;
    mad.pipe = Pipe::M;
    mad.m = mad.n = mad.k = 64;
    mad.src0.type = DType::F16;
    Instr add;
    add.op = Op::vadd;
    add.pipe = Pipe::V;
    add.repeats = 8;
    add.src0.type = add.dst.type = DType::F32;
    const Grid grid = OneCore(CoreKind::AIV);
    for (const Instr& instr : {copy, mad, add}) {
        double ends[3];
        int i = 0;
        for (const Outlook outlook : {Outlook::Optimistic, Outlook::Expected, Outlook::Pessimistic}) {
            CycleModel model(outlook);
            model.Begin(grid);
            Span span = model.Run(instr, 0);
            while (span.partial) span = model.Run(instr, span.release);
            ends[i++] = span.end;
        }
        if (!(ends[0] <= ends[1] && ends[1] <= ends[2])) Fail(OpName(instr.op), ": ", ends[0], ", ", ends[1], ", ", ends[2]);
    }
}
void EveryVectorOpHasARate() {
    for (int op = 0; op <= static_cast<int>(Op::vtranspose); ++op) VectorRateOf(static_cast<Op>(op));
    try {
        VectorRateOf(Op::mad);
    } catch (const std::logic_error&) {
        return;
    }
    Fail("mad is no vector instruction and must be refused");
}
void EveryConstantHasASource() {
    for (const ConstantRow& row : ConstantTable()) {
        if (!*row.source || !*row.unit) Fail(row.name, ": no source or no unit");
        const std::string confidence = row.confidence;
        if (confidence != "documented" && confidence != "measured" && confidence != "assumed") Fail(row.name, ": ", confidence);
    }
}
void AtMostFourFiguresAreFittedForThePredictedOnes() {
    int fitted = 0, predicted = 0;
    for (const auto& group : {twin_figures::VectorFigures(), twin_figures::CubeFigures(), twin_figures::CopyFigures(),
                              twin_figures::PipelineFigures()}) {
        for (const Figure& figure : group) {
            fitted += figure.role == Role::Fitted;
            predicted += figure.role == Role::Predicted;
        }
    }
    if (fitted > 4 || predicted < 6) Fail(fitted, " fitted, ", predicted, " predicted");
}
void ScalarCacheHits() {
    CycleModel model(Outlook::Expected);
    const Grid grid = OneCore(CoreKind::AIV);
    model.Begin(grid);
    Instr load;
    load.op = Op::scalar_load;
    load.src0.mem = Mem::GM;
    load.src0.offset = 128;
    const Span first = model.Run(load, 0);
    load.src0.offset = 132;
    const Span second = model.Run(load, first.end);
    if (!(first.end - first.start > second.end - second.start)) Fail("the second read of a line must be cheaper");
    Instr flush;
    flush.op = Op::dcci;
    model.Run(flush, 1000);
    const Span third = model.Run(load, 2000);
    ExpectClose("after dcci", first.end - first.start, third.end - third.start);
}
void UnalignedPiecesCostWholeLines() {
    const auto cost = [](uint64_t offset) {
        CycleModel model(Outlook::Expected);
        const Grid grid = OneCore(CoreKind::AIC);
        model.Begin(grid);
        Instr copy;
        copy.op = Op::copy_gm_to_cbuf_nd2nz;
        copy.pipe = Pipe::MTE2;
        copy.src0.mem = Mem::GM;
        copy.src0.offset = offset;
        copy.gmPieceBytes = 512;
        copy.gmPieces = 64;
        copy.gmGroups = 1;
        copy.gmPieceStride = 2048;
        Span span = model.Run(copy, 0);
        while (span.partial) span = model.Run(copy, span.release);
        return span.release;
    };
    if (!(cost(2) > 1.8 * cost(0))) Fail("512 B pieces off their lines: ", cost(0), " and ", cost(2));
}

// ---- critical path and trace ----

TimelineEvent Event(Op op, Pipe pipe, double start, double end, int32_t cause, TimelineEvent::Cause kind) {
    TimelineEvent e{};
    e.op = op;
    e.pipe = pipe;
    e.start = e.issue = start;
    e.release = e.end = end;
    e.cause = cause;
    e.causeKind = kind;
    return e;
}
Report SmallReport() {
    using Cause = TimelineEvent::Cause;
    Report report;
    report.grid = OneCore(CoreKind::AIV);
    report.sites = {{"kernel.cpp", 12}};
    Timing timing;
    timing.clock = "expected";
    timing.cycles = 400;
    timing.microseconds = 0.4;
    timing.busy.resize(1);
    timing.waiting.resize(1);
    timing.timeline = {Event(Op::copy_gm_to_ubuf, Pipe::MTE2, 100, 200, -1, Cause::Start), Event(Op::copy_gm_to_ubuf, Pipe::MTE2, 200, 220, 0, Cause::Pipe),
                       Event(Op::vadd, Pipe::V, 210, 330, 0, Cause::Flag), Event(Op::copy_ubuf_to_gm, Pipe::MTE3, 335, 400, 2, Cause::Flag)};
    report.times = {timing};
    return report;
}
void CriticalPathWalksBack() {
    const Report report = SmallReport();
    const auto path = CriticalPath(report.times[0]);
    if (path.size() != 3 || path[0].event != 0 || path[1].event != 2 || path[2].event != 3) Fail("expected copy, add, copy");
    ExpectClose("first", 110, path[0].cycles);
    ExpectClose("second", 125, path[1].cycles);
    ExpectClose("third", 65, path[2].cycles);
    const std::string text = CriticalPathText(report, report.times[0]);
    if (text.find(kPredicted) != 0 || text.find("kernel.cpp:12 vadd on AIV V") == std::string::npos) Fail(text);
}
void CriticalPathLeavesAWaitItsLatency() {
    using Cause = TimelineEvent::Cause;
    Report report = SmallReport();
    auto& events = report.times[0].timeline;
    // V waits since 110 for the copy that ends at 200; the flag is seen at 208.
    events = {Event(Op::copy_gm_to_ubuf, Pipe::MTE2, 100, 200, -1, Cause::Start), Event(Op::wait_flag, Pipe::V, 110, 208, 0, Cause::Flag),
              Event(Op::vadd, Pipe::V, 208, 400, 1, Cause::Pipe)};
    events[1].waited = 98;
    const auto path = CriticalPath(report.times[0]);
    if (path.size() != 3) Fail("expected copy, wait, add, got ", path.size(), " steps");
    ExpectClose("copy", 100, path[0].cycles);
    ExpectClose("wait", 8, path[1].cycles);
    ExpectClose("add", 192, path[2].cycles);
}

// Two copies, an Exp that waits for the second, a barrier of all pipes and a copy out.
void BarrierKernel(float* x, float* y) {
    set_mask_norm();
    set_vector_mask(0, ~0ull);
    auto* a = reinterpret_cast<float*>(LocalBase(Mem::UB));
    auto* b = a + 8192;
    copy_gm_to_ubuf(a, x, 0, 1, 256, 0, 0);
    copy_gm_to_ubuf(b, x + 8192, 0, 1, 1024, 0, 0);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    vexp(b, b, 128, 1, 1, 8, 8);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    pipe_barrier(PIPE_ALL);
    copy_ubuf_to_gm(y, b, 0, 1, 1024, 0, 0);
}
void CriticalPathThroughABarrier() {
    std::vector<float> x(16384, 1.0f), y(8192);
    Options options;
    options.clocks = {std::make_shared<CycleModel>(Outlook::Expected)};
    options.timeline = true;
    const Report report = Launch(BarrierKernel, 1, KernelType::AivOnly, {{"x", x.data(), x.size() * 4}, {"y", y.data(), y.size() * 4}},
                                 options, x.data(), y.data());
    const Timing& timing = report.times.at(0);
    std::vector<Op> ops;
    double covered = 0;
    for (const PathStep& step : CriticalPath(timing)) {
        const Op op = timing.timeline[step.event].op;
        if (op != Op::wait_flag && op != Op::pipe_barrier) ops.push_back(op);
        covered += step.cycles;
    }
    const std::vector<Op> want = {Op::copy_gm_to_ubuf, Op::copy_gm_to_ubuf, Op::vexp, Op::copy_ubuf_to_gm};
    if (ops != want) Fail("expected the path over both copies, vexp and the copy out, got ", ops.size(), " instructions");
    // From the first copy to the end of the last one, without a hole.
    double first = 1e30, last = 0;
    for (const TimelineEvent& e : timing.timeline) {
        first = std::min(first, e.start);
        last = std::max(last, e.end);
    }
    ExpectClose("covered", last - first, covered, 1e-6);
}
void CriticalPathNeedsATimeline() {
    Timing timing;
    try {
        CriticalPath(timing);
    } catch (const std::invalid_argument&) {
        return;
    }
    Fail("a missing timeline must be refused");
}
void TraceSaysItIsPredicted() {
    const Report report = SmallReport();
    const std::string json = TraceJson(report, report.times[0], "demo");
    for (const char* part : {kPredicted, "\"name\":\"block 0 AIV0\"", "\"ph\":\"s\"", "\"critical\":true", "kernel.cpp:12"}) {
        if (json.find(part) == std::string::npos) Fail("the trace lacks ", part);
    }
}

// ---- figures ----

std::vector<Figure> AllFigures() {
    std::vector<Figure> all;
    for (auto group : {twin_figures::VectorFigures(), twin_figures::CubeFigures(), twin_figures::CopyFigures(),
                       twin_figures::PipelineFigures()}) {
        all.insert(all.end(), group.begin(), group.end());
    }
    return all;
}

void RunFigure(const Figure& figure) {
    const double got = figure.predict();
    const double error = got / figure.published - 1;
    std::printf("%s: published %.6g %s (%s), %s %.6g, %+.1f %%\n", figure.name, figure.published, figure.unit, figure.source,
                kPredicted, got, 100 * error);
    if (figure.role != Role::Looked && std::fabs(error) > 0.10) Fail(figure.name, " is off by ", 100 * error, " %");
    // A looked-at figure is not held, but must not drift away from what the table in docs says of it.
    if (figure.role == Role::Looked && std::fabs(error) > 0.25) Fail(figure.name, " is off by ", 100 * error, " %");
}

void PrintFigures() {
    std::printf("[\n");
    const auto all = AllFigures();
    for (size_t i = 0; i < all.size(); ++i) {
        const Figure& f = all[i];
        const char* role = f.role == Role::Fitted ? "fitted" : f.role == Role::Predicted ? "predicted" : "looked";
        std::printf("{\"name\":\"%s\",\"what\":\"%s\",\"source\":\"%s\",\"unit\":\"%s\",\"published\":%.6g,\"predicted\":%.6g,"
                    "\"role\":\"%s\"}%s\n",
                    f.name, f.what, f.source, f.unit, f.published, f.predict(), role, i + 1 < all.size() ? "," : "");
    }
    std::printf("]\n");
}

struct Test {
    std::string name;
    std::function<void()> run;
};
std::vector<Test> AllTests() {
    std::vector<Test> tests = {
        {"bandwidth_alone", BandwidthAlone},
        {"bandwidth_shared", BandwidthShared},
        {"bandwidth_nothing", BandwidthNothing},
        {"l2_first_touch", L2FirstTouch},
        {"l2_evicts", L2Evicts},
        {"l2_bypass", L2Bypass},
        {"launch_head", LaunchHeadIsCharged},
        {"outlooks_are_ordered", OutlooksAreOrdered},
        {"every_vector_op_has_a_rate", EveryVectorOpHasARate},
        {"every_constant_has_a_source", EveryConstantHasASource},
        {"at_most_four_fitted", AtMostFourFiguresAreFittedForThePredictedOnes},
        {"scalar_cache", ScalarCacheHits},
        {"unaligned_pieces", UnalignedPiecesCostWholeLines},
        {"critical_path", CriticalPathWalksBack},
        {"critical_path_of_a_wait", CriticalPathLeavesAWaitItsLatency},
        {"critical_path_through_a_barrier", CriticalPathThroughABarrier},
        {"critical_path_needs_a_timeline", CriticalPathNeedsATimeline},
        {"trace", TraceSaysItIsPredicted},
    };
    for (const Figure& figure : AllFigures()) tests.push_back({std::string("figure_") + figure.name, [figure] { RunFigure(figure); }});
    return tests;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "--figures") {
        PrintFigures();
        return 0;
    }
    if (command == "--list") {
        for (const Test& test : AllTests()) std::printf("%s\n", test.name.c_str());
        return 0;
    }
    if (argc == 3 && command == "--run") {
        for (const Test& test : AllTests()) {
            if (test.name != argv[2]) continue;
            try {
                test.run();
            } catch (const std::exception& error) {
                std::fprintf(stderr, "%s: %s\n", test.name.c_str(), error.what());
                return 1;
            }
            return 0;
        }
        std::fprintf(stderr, "no test is called %s\n", argv[2]);
    } else {
        std::fprintf(stderr, "usage: %s --list | --run NAME | --figures\n", argv[0]);
    }
    return 2;
}
