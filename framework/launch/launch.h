// SPDX-License-Identifier: Apache-2.0
// The one seam between host and kernel: what CANN's compiler makes of kernel<<<blockDim, nullptr, stream>>>(arguments),
// and what the CPU twin does in its place. Which one is linked is the build's choice.
#pragma once

#include <cstdint>

#include "../../op_kernel/tiling_data.h"

namespace asa {

// Addresses of a launch, in the memory of the device it runs on. lse is null unless the tiling asks for it.
struct KernelAddresses {
    const void* query;
    const void* key;
    const void* value;
    const void* sparseIndices;
    void* output;
    void* lse;
    void* workspace;
};

// Puts one launch on `stream` and returns without waiting for it. Addresses and tiling are taken by value: neither has to
// outlive the call. Returns 0, or an error code of the runtime.
int LaunchSparseFlashAttention(uint32_t blockDim, void* stream, const KernelAddresses& at, const TilingData& tiling);

// Who launches: "cann" or "twin".
const char* LauncherName();

}  // namespace asa
