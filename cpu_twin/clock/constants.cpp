// SPDX-License-Identifier: Apache-2.0
#include "constants.h"

#include <array>
#include <optional>
#include <stdexcept>

namespace cpu_twin {

const char* OutlookName(Outlook outlook) {
    switch (outlook) {
        case Outlook::Expected: return "expected";
        case Outlook::Optimistic: return "optimistic";
        case Outlook::Pessimistic: return "pessimistic";
    }
    return "?";
}

ClockConstants ClockConstants::Of(Outlook outlook) {
    ClockConstants c;
    if (outlook == Outlook::Expected) return c;
    const bool optimist = outlook == Outlook::Optimistic;
#define TWIN_CONSTANT(name, unit, expected, optimistic, pessimistic, confidence, source) \
    c.name = optimist ? optimistic : pessimistic;
#include "constants.def"
#undef TWIN_CONSTANT
    return c;
}

const std::vector<ConstantRow>& ConstantTable() {
    static const std::vector<ConstantRow> rows = {
#define TWIN_CONSTANT(name, unit, expected, optimistic, pessimistic, confidence, source) \
    {#name, unit, expected, optimistic, pessimistic, #confidence, source},
#include "constants.def"
#undef TWIN_CONSTANT
    };
    return rows;
}

const VectorRate& VectorRateOf(Op op) {
    static const auto table = [] {
        std::array<std::optional<VectorRate>, static_cast<size_t>(Op::Count)> t;
#define TWIN_VECTOR(op, cycles16, cycles32, delay16, delay32, note) \
    t[static_cast<size_t>(Op::op)] = VectorRate{cycles16, cycles32, delay16, delay32};
#include "vector_rates.def"
#undef TWIN_VECTOR
        return t;
    }();
    const auto& rate = table[static_cast<size_t>(op)];
    if (!rate) throw std::logic_error(std::string("vector_rates.def has no line for ") + OpName(op));
    return *rate;
}

}  // namespace cpu_twin
