// SPDX-License-Identifier: Apache-2.0
// Picks type and schedule of one launch from its tiling struct.
#pragma once

#include "kernel_operator.h"

#include "schedule/gather_schedule.h"
#include "tiling_data.h"

namespace asa {

template <typename T>
__aicore__ inline void RunSchedule(const TilingData& tiling, const Arguments& args)
{
    // kGather and kGatherSplitK are one pipeline; the latter ends with a combine.
    GatherSchedule<T> schedule(tiling, args);
    schedule.Run();
}

__aicore__ inline void RunKernel(const TilingData& tiling, const Arguments& args)
{
    if (tiling.dtype == kBfloat16) {
        RunSchedule<bfloat16_t>(tiling, args);
    } else {
        RunSchedule<half>(tiling, args);
    }
}

}  // namespace asa
