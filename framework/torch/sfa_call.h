// SPDX-License-Identifier: Apache-2.0
// One call of sparse_flash_attention on torch tensors, whatever device and op name it comes by.
#pragma once

#include <string>
#include <string_view>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "op_host/tiling/tiling.h"

namespace asa::torch_op {

struct Call {
    const char* op;             // in messages
    const at::Tensor& query;
    const at::Tensor& key;
    const at::Tensor& value;
    const at::Tensor& sparseIndices;
    double scale;
    std::string_view layout;
    bool causal;
    bool writeLse;
    bool valueByContract;       // the caller promises value == key[..., :Dv]
};

// Checks a call and reads its sizes. Raises TypeError or ValueError: "<op>: <argument>: expected <what>, got <what came>".
Problem CheckCall(const Call& call);

// What the call returns, uninitialised: y of query's dtype and, where the LSE is written, a float32 tensor (else undefined).
std::tuple<at::Tensor, at::Tensor> EmptyOutputs(const Call& call, const Problem& problem);

// The launch for a problem on a device; raises as CheckCall for sizes beyond the NPU's table. Plans are remembered by
// their problem alone, never by address.
Launch Plan(const char* op, const Problem& problem, const std::string& device);

}  // namespace asa::torch_op
