// SPDX-License-Identifier: Apache-2.0
#include "launch_twin.h"

namespace asa {

int LaunchSparseFlashAttention(uint32_t blockDim, void* stream, const KernelAddresses& at, const TilingData& tiling)
{
    return LaunchInTwin(blockDim, stream, at, tiling);
}

const char* LauncherName() { return "twin"; }

}  // namespace asa
