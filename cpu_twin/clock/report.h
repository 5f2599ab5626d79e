// SPDX-License-Identifier: Apache-2.0
// What a timed run says: utilisation, the critical path, and a trace for Perfetto. Every text starts with kPredicted, since
// nothing here was measured.
#pragma once

#include <string>
#include <vector>

#include "../machine/launch.h"

namespace cpu_twin {

inline constexpr const char* kPredicted = "predicted by the twin's cycle model";

// Expected, optimistic and pessimistic, in this order: for Options::clocks. The recorded instructions are timed under each;
// the arithmetic runs once.
std::vector<std::shared_ptr<ClockModel>> AllOutlooks();

// A stretch of the critical path: from `begin` on the path leads through `event`, until the next step begins.
struct PathStep {
    size_t event;        // index into Timing::timeline
    double begin = 0;
    double cycles = 0;
};
// From the instruction that ends last back over the edges that bound each start (order on a pipe, issue, flag, cross-core
// flag, barrier, full queue, unit flag). In program time order. Needs Options::timeline. Error (std::invalid_argument) if the timeline is missing or
// was cut short.
std::vector<PathStep> CriticalPath(const Timing& timing);

// One table per core kind: busy and waiting share of each pipe, over the busiest core and over all.
std::string UtilisationText(const Report& report, const Timing& timing);
// The path summed by pipe and by source line, the `lines` longest ones.
std::string CriticalPathText(const Report& report, const Timing& timing, size_t lines = 12);
// One line per timing: clock, microseconds.
std::string OutlookText(const Report& report);

// Chrome trace event format: a process per core, a thread per pipe, flow arrows along flags of the critical path.
std::string TraceJson(const Report& report, const Timing& timing, const std::string& kernel);
// Error (std::runtime_error) if the file cannot be written.
void WriteTrace(const Report& report, const Timing& timing, const std::string& kernel, const std::string& path);

}  // namespace cpu_twin
