// SPDX-License-Identifier: Apache-2.0
// Entry for a direct launch: the tiling struct is an argument, so that a call copies nothing to the device first.
// `lse` may be null unless the tiling asks for it.
#include "kernel.h"

// Batch mode, where the compiler can be told: all cores start together or none. Otherwise cores that have met in SyncAll
// could wait for cores that another stream's call holds in a SyncAll of its own.
#ifdef __schedmode__
#define ASA_BATCH_MODE __schedmode__(1)
#else
#define ASA_BATCH_MODE
#endif

extern "C" ASA_BATCH_MODE __global__ __aicore__ void asa_sparse_flash_attention_direct(GM_ADDR query, GM_ADDR key, GM_ADDR value,
                                                                        GM_ADDR sparseIndices, GM_ADDR y, GM_ADDR lse,
                                                                        GM_ADDR workspace, asa::TilingData tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    const asa::Arguments args{query, key, value, sparseIndices, y, lse, workspace};
    asa::RunKernel(tiling, args);
}
