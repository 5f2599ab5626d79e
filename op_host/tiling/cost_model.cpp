// SPDX-License-Identifier: Apache-2.0
#include "cost_model.h"

#include <algorithm>

namespace asa {
namespace {

constexpr double kPairCycles = 40.0;            // issue of one copy of two rows
constexpr double kGatherBytesPerCycle = 48.0;   // of one AIV, reading
constexpr double kVectorCyclesPerChunk = 12.0;  // softmax, 64 scores, all passes
constexpr double kRightBytesPerCycle = 128.0;   // L1 -> L0B
constexpr double kCubeReadBytesPerCycle = 80.0; // of one AIC, from L2
constexpr double kMmadOverhead = 1.08;
constexpr double kSyncAllCycles = 5000.0;
constexpr double kCombineCyclesPerRow = 300.0;
constexpr double kItemCycles = 1500.0;          // hand-overs of one item

double Up(int64_t value, int64_t step) { return static_cast<double>((value + step - 1) / step); }

}  // namespace

double StageCycles::Steady() const
{
    return std::max({gather, softmax, Cube()}) + kItemCycles;
}

double StageCycles::Latency() const
{
    // The gather feeds the first multiplication block by block.
    return std::max(gather, qk) + std::min(gather, qk) / 4 + softmax + pv + kItemCycles;
}

StageCycles EstimateItem(const Problem& p, int64_t tasks, int64_t heads, int64_t keys)
{
    const double count = static_cast<double>(tasks);
    const double rowBytes = 2.0 * static_cast<double>(p.dk + (p.valueIsKeyPrefix ? 0 : p.dv));
    const double copies = p.valueIsKeyPrefix ? 1.0 : 2.0;
    const double rows = Up(keys, 2);
    StageCycles c{};
    c.gather = count * rows * std::max(copies * kPairCycles / 2, rowBytes / kGatherBytesPerCycle);
    c.softmax = Up(tasks * heads, 2) * Up(keys, 64) * kVectorCyclesPerChunk;
    const auto product = [&](int64_t width) {
        const double mmad = Up(heads, 16) * Up(keys, 16) * Up(width, 16) * kMmadOverhead;
        const double bytes = 2.0 * static_cast<double>(keys * width) * Up(heads, 128);
        return count * std::max({mmad, bytes / kRightBytesPerCycle, bytes / kCubeReadBytesPerCycle});
    };
    c.qk = product(p.dk);
    c.pv = product(p.dv);
    return c;
}

double EstimateCombine(const Problem& p, int64_t rows, int64_t parts, int64_t cores)
{
    const double perRow = kCombineCyclesPerRow + 4.0 * static_cast<double>(parts * p.dv) / kGatherBytesPerCycle;
    return kSyncAllCycles + Up(rows, cores) * perRow;
}

}  // namespace asa
