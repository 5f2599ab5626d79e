// SPDX-License-Identifier: Apache-2.0
// The constants of the cycle model as numbers, under one of three outlooks. The table itself is constants.def.
#pragma once

#include <string>
#include <vector>

#include "../machine/clock_interface.h"

namespace cpu_twin {

enum class Outlook : uint8_t { Expected, Optimistic, Pessimistic };
const char* OutlookName(Outlook outlook);

struct ClockConstants {
#define TWIN_CONSTANT(name, unit, expected, optimistic, pessimistic, confidence, source) double name = expected;
#include "constants.def"
#undef TWIN_CONSTANT

    static ClockConstants Of(Outlook outlook);
    double GbPerSecondToBytesPerCycle(double gbs) const { return gbs * 1e3 / frequency_mhz; }
};

struct ConstantRow {
    const char* name;
    const char* unit;
    double expected, optimistic, pessimistic;
    const char* confidence;
    const char* source;
};
const std::vector<ConstantRow>& ConstantTable();

struct VectorRate {
    double cycles16, cycles32;
    double delay16, delay32;
};
// Error (std::logic_error) if `op` is no vector instruction of the table.
const VectorRate& VectorRateOf(Op op);

}  // namespace cpu_twin
