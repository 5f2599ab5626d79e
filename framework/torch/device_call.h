// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sfa_call.h"

namespace asa::torch_op {

// Checks, plans and launches a call on the device its tensors are on; (y, LSE or undefined). npu_call.cpp or host_call.cpp.
std::tuple<at::Tensor, at::Tensor> RunOnDevice(const Call& call);

}  // namespace asa::torch_op
