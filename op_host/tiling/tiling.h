// SPDX-License-Identifier: Apache-2.0
// From a checked problem and a device to the tiling struct, the number of cores and the workspace of one launch.
#pragma once

#include <cstdint>
#include <string>

#include "../../op_kernel/tiling_data.h"
#include "checks.h"
#include "platform.h"
#include "problem.h"

namespace asa {

struct TilingOptions {
    std::string schedule;       // a name of ScheduleName, or empty: chosen by the cost model
    uint32_t coreLimit = 0;     // at most this many AIC cores; 0: all of the device
};

struct Launch {
    TilingData tiling{};        // coreNum == 0: an empty output, nothing to launch
    uint64_t tilingKey = 0;
    uint64_t workspaceBytes = 0;
};

// "gather", "gather_split_k"; nullptr for an unknown id.
const char* ScheduleName(uint32_t schedule);

// Plans a launch. Faults: a size beyond the NPU's table, an unknown or unfit schedule.
Verdict PlanLaunch(const Problem& problem, const Platform& platform, const TilingOptions& options, Launch& launch);

}  // namespace asa
