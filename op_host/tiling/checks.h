// SPDX-License-Identifier: Apache-2.0
// Argument checks of sparse_flash_attention for callers that do not come through Python. Order and words are those of
// python/ascend_sparse_attention/checks.py; tests compare the two.
#pragma once

#include <string>

#include "problem.h"

namespace asa {

enum class Fault { kNone, kType, kValue };  // what Python raises: nothing, TypeError, ValueError

struct Verdict {
    Fault fault = Fault::kNone;
    std::string message;  // "<argument>: expected <what>, got <what came>"
    bool ok() const { return fault == Fault::kNone; }
};

// Checks a request and reads its sizes. An empty problem (B = 0 or S1 = 0) is no fault.
Verdict CheckRequest(const Request& request, Problem& problem);

// The NPU's table of sizes.
Verdict CheckNpuLimits(const Problem& problem);

}  // namespace asa
