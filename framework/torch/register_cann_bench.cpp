// SPDX-License-Identifier: Apache-2.0
// torch.ops.cann_bench.sparse_flash_attention, where cann-bench's evaluator looks first. The operator description promises
// value == key[..., :Dv] there, and the bench passes value as a copy: the kernel reads the rows of key for both.
#include <torch/library.h>

#include "device_call.h"

namespace asa::torch_op {
namespace {

constexpr const char* kOp = "sparse_flash_attention";

at::Tensor CannBench(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& sparseIndices, double scaleValue, std::string_view inputLayout, bool is_causal)
{
    return std::get<0>(RunOnDevice(
        {kOp, query, key, value, sparseIndices, scaleValue, inputLayout, is_causal, false, true}));
}

at::Tensor CannBenchMeta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& sparseIndices, double scaleValue, std::string_view inputLayout, bool is_causal)
{
    const Call call{kOp, query, key, value, sparseIndices, scaleValue, inputLayout, is_causal, false, true};
    return std::get<0>(EmptyOutputs(call, CheckCall(call)));
}

}  // namespace
}  // namespace asa::torch_op

TORCH_LIBRARY_FRAGMENT(cann_bench, m)
{
    m.def("sparse_flash_attention(Tensor query, Tensor key, Tensor value, Tensor sparseIndices, float scaleValue, "
          "str inputLayout=\"BSND\", bool is_causal=False) -> Tensor");
}

TORCH_LIBRARY_IMPL(cann_bench, ASA_DISPATCH_KEY, m) { m.impl("sparse_flash_attention", &asa::torch_op::CannBench); }

TORCH_LIBRARY_IMPL(cann_bench, Meta, m) { m.impl("sparse_flash_attention", &asa::torch_op::CannBenchMeta); }
