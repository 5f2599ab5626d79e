// SPDX-License-Identifier: Apache-2.0
// The call on CPU tensors: the kernel runs in the CPU twin, with the tiling of the device it stands for.
#include "device_call.h"

#include <ATen/ops/empty.h>

#include "framework/launch/launch.h"
#include "framework/launch/launch_twin.h"

namespace asa::torch_op {

std::tuple<at::Tensor, at::Tensor> RunOnDevice(const Call& call)
{
    const Problem problem = CheckCall(call);
    auto outputs = EmptyOutputs(call, problem);
    if (problem.Empty()) {
        return outputs;
    }
    const Launch launch = Plan(call.op, problem, TwinDevice());
    const at::Tensor workspace = at::empty({static_cast<int64_t>(launch.workspaceBytes)}, at::kByte);
    const at::Tensor& lse = std::get<1>(outputs);
    const KernelAddresses at{call.query.const_data_ptr(),
                             call.key.const_data_ptr(),
                             call.value.const_data_ptr(),
                             call.sparseIndices.const_data_ptr(),
                             std::get<0>(outputs).mutable_data_ptr(),
                             lse.defined() ? lse.mutable_data_ptr() : nullptr,
                             workspace.mutable_data_ptr()};
    const int status = LaunchSparseFlashAttention(launch.tiling.coreNum, nullptr, at, launch.tiling);
    TORCH_CHECK(status == 0, call.op, ": the CPU twin found the kernel at fault:\n", TwinFindings());
    return outputs;
}

}  // namespace asa::torch_op
