// SPDX-License-Identifier: Apache-2.0
// Launching in the CPU twin: at once where there is no stream, else in the stream's order.
#pragma once

#include <cstddef>
#include <string>

#include "launch.h"

namespace asa {

// The device whose tiling the twin runs: ASA_TWIN_DEVICE, or Ascend910B2.
const std::string& TwinDevice();

// Runs one launch in the twin, or queues it on `stream` by aclrtLaunchHostFunc where the process has a runtime. Returns 0,
// or 1 if the checker found the kernel at fault: now, without a stream, else at an earlier launch.
// ASA_TWIN_CHECK=0 switches the checker off.
int LaunchInTwin(uint32_t blockDim, void* stream, const KernelAddresses& at, const TilingData& tiling);

// What the checker said of the last launch that it found at fault.
std::string TwinFindings();

}  // namespace asa

// For tests: copies what TwinFindings() says and returns its length; 0 as long as no launch was found at fault.
extern "C" __attribute__((visibility("default"))) size_t asa_twin_findings(char* text, size_t capacity);
