// SPDX-License-Identifier: Apache-2.0
// Entry for CANN's operator flow, which generates GET_TILING_DATA_WITH_STRUCT and puts the tiling struct in GM.
// `lse` may be null unless the tiling asks for it.
#include "kernel.h"

extern "C" __global__ __aicore__ void asa_sparse_flash_attention(GM_ADDR query, GM_ADDR key, GM_ADDR value,
                                                                 GM_ADDR sparseIndices, GM_ADDR y, GM_ADDR lse,
                                                                 GM_ADDR workspace, GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(asa::TilingData);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GET_TILING_DATA_WITH_STRUCT(asa::TilingData, tilingData, tiling);
    const asa::Arguments args{query, key, value, sparseIndices, y, lse, AscendC::GetUserWorkspace(workspace)};
    asa::RunKernel(tilingData, args);
}
