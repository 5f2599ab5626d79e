// SPDX-License-Identifier: Apache-2.0
// Rough cycle counts of the stages, good enough to choose between ways of sharing out the work. The rates are those that
// docs/kernel.md derives; none was measured on an NPU.
#pragma once

#include "problem.h"

namespace asa {

struct StageCycles {
    double gather;      // on each of two AIVs
    double softmax;     // on each of two AIVs
    double qk;
    double pv;
    double Cube() const { return qk + pv; }
    // Cycles an item adds to a full pipeline.
    double Steady() const;
    // Cycles from an item's first index to its last output when nothing else runs.
    double Latency() const;
};

// An item of `tasks` tasks with `heads` heads and `keys` keys each.
StageCycles EstimateItem(const Problem& problem, int64_t tasks, int64_t heads, int64_t keys);

// Joining the partial results of `rows` rows of `parts` parts on `cores` AIVs, the wait of all cores for each other included.
double EstimateCombine(const Problem& problem, int64_t rows, int64_t parts, int64_t cores);

}  // namespace asa
