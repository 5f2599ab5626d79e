// SPDX-License-Identifier: Apache-2.0
// What the figure kernels share: buffers as typed pointers, and one launch under the expected constants.
#pragma once

#include <memory>
#include <vector>

#include "../../../cpu_twin/clock/cycle_model.h"
#include "../../../cpu_twin/machine/intrinsics.h"
#include "../../../cpu_twin/machine/launch.h"

namespace twin_figures {

using namespace cpu_twin;

template <typename T> T* Ub(uint32_t offset) { return reinterpret_cast<T*>(LocalBase(Mem::UB) + offset); }
template <typename T> T* L1(uint32_t offset) { return reinterpret_cast<T*>(LocalBase(Mem::L1) + offset); }
template <typename T> T* L0a(uint32_t offset = 0) { return reinterpret_cast<T*>(LocalBase(Mem::L0A) + offset); }
template <typename T> T* L0b(uint32_t offset = 0) { return reinterpret_cast<T*>(LocalBase(Mem::L0B) + offset); }
template <typename T> T* L0c(uint32_t offset = 0) { return reinterpret_cast<T*>(LocalBase(Mem::L0C) + offset); }

// The samples' chip runs at 1850 MHz; the timer of the bank-conflict sample shows 1800.
inline std::shared_ptr<CycleModel> Clock(double mhz, double l2Scale = 1) {
    ClockConstants c = ClockConstants::Of(Outlook::Expected);
    c.frequency_mhz = mhz;
    c.launch_head_us = 0;
    c.l2_bytes *= l2Scale;
    return std::make_shared<CycleModel>(c, "expected");
}

struct Run {
    Timing timing;
    double Busy(Pipe pipe) const {  // cycles, mean over cores
        double sum = 0;
        for (const auto& core : timing.busy) sum += core[static_cast<size_t>(pipe)];
        return sum / static_cast<double>(timing.busy.size());
    }
    double Cycles() const { return timing.cycles; }
};

template <typename... P, typename... A>
Run TimeKernel(void (*kernel)(P...), uint32_t blockDim, KernelType type, const std::vector<Tensor>& tensors,
               std::shared_ptr<ClockModel> clock, A&&... args) {
    Options options;
    // Some of the published loops overwrite their own results without a barrier, which is the checker's business, not the
    // clock's.
    options.check = false;
    options.clocks = {std::move(clock)};
    Report report = Launch(kernel, blockDim, type, tensors, options, std::forward<A>(args)...);
    return {report.times.at(0)};
}

}  // namespace twin_figures
