// SPDX-License-Identifier: Apache-2.0
// The call on an NPU: torch_npu's current stream, its caching allocator and its task queue. Nothing is copied to the
// device but the launch arguments, nothing waits, and no other operator runs.
#include "device_call.h"

#include <memory>

#include <ATen/ops/empty.h>

#include "framework/launch/launch.h"

// torch_npu's headers are not written for -Wextra.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wall"
#include "torch_npu/csrc/core/NPUStorageImpl.h"
#include "torch_npu/csrc/core/npu/NPUCachingAllocator.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"
#pragma GCC diagnostic pop

namespace asa::torch_op {
namespace {

// torch_npu may keep a tensor in a blocked format (FRACTAL_NZ) behind its ordinary shape; the kernel would read it as
// rows. Formats that lay elements out as the shape says are ACL_FORMAT_ND, NCHW, NHWC and NCDHW.
void CheckFormat(const char* op, const char* name, const at::Tensor& tensor)
{
    // Every storage on torch_npu's device is one of these.
    const auto* storage = static_cast<const torch_npu::NPUStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
    const aclFormat format = storage->npu_desc_.npu_format_;
    const bool plain = format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NHWC ||
                       format == ACL_FORMAT_NCDHW;
    TORCH_CHECK_VALUE(plain, op, ": ", name, ": expected a tensor in the ND format, got format ",
                      static_cast<int>(format), " (see torch_npu.npu_format_cast)");
}

const std::string& DeviceName()
{
    static const std::string name = [] {
        const char* soc = aclrtGetSocName();
        return std::string(soc != nullptr ? soc : "an unknown device");
    }();
    return name;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> RunOnDevice(const Call& call)
{
    const Problem problem = CheckCall(call);
    CheckFormat(call.op, "query", call.query);
    CheckFormat(call.op, "key", call.key);
    CheckFormat(call.op, "value", call.value);
    CheckFormat(call.op, "sparseIndices", call.sparseIndices);
    const c10_npu::NPUGuard guard(call.query.device());
    auto outputs = EmptyOutputs(call, problem);
    if (problem.Empty()) {
        return outputs;
    }
    const Launch launch = Plan(call.op, problem, DeviceName());
    const c10_npu::NPUStream stream = c10_npu::getCurrentNPUStream();
    // Uncounted by Python and freed in stream order: the allocator hands the block out again only to this stream, whose
    // later work runs after this kernel, or to another after an event of this one.
    const at::Tensor workspace = at::empty({static_cast<int64_t>(launch.workspaceBytes)},
                                           call.query.options().dtype(at::kByte));
    c10_npu::NPUCachingAllocator::recordStream(workspace.storage().data_ptr(), stream);
    const at::Tensor& lse = std::get<1>(outputs);
    const KernelAddresses at{call.query.const_data_ptr(),
                             call.key.const_data_ptr(),
                             call.value.const_data_ptr(),
                             call.sparseIndices.const_data_ptr(),
                             std::get<0>(outputs).mutable_data_ptr(),
                             lse.defined() ? lse.mutable_data_ptr() : nullptr,
                             workspace.mutable_data_ptr()};
    const aclrtStream raw = stream.stream(false);  // false: leave what is queued before us queued
    // The queue runs this later, on its own thread: everything is held by value, the workspace until it is launched.
    const auto task = [at, launch, raw, workspace]() -> int {
        return LaunchSparseFlashAttention(launch.tiling.coreNum, raw, at, launch.tiling);
    };
    at_npu::native::OpCommand::RunOpApi("AsaSparseFlashAttention", task);
    return outputs;
}

}  // namespace asa::torch_op
