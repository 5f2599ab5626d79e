// SPDX-License-Identifier: Apache-2.0
// Compiled by CANN's bisheng with -xasc: kernel and launch are one translation unit.
#include "../../op_kernel/sparse_flash_attention_direct.cpp"

#include "launch.h"

namespace asa {

int LaunchSparseFlashAttention(uint32_t blockDim, void* stream, const KernelAddresses& at, const TilingData& tiling)
{
    const auto gm = [](const void* address) { return reinterpret_cast<GM_ADDR>(const_cast<void*>(address)); };
    asa_sparse_flash_attention_direct<<<blockDim, nullptr, stream>>>(gm(at.query), gm(at.key), gm(at.value),
                                                                     gm(at.sparseIndices), gm(at.output), gm(at.lse),
                                                                     gm(at.workspace), tiling);
    // A launch that is refused shows at the next call of the runtime on this stream.
    return 0;
}

const char* LauncherName() { return "cann"; }

}  // namespace asa
