// SPDX-License-Identifier: Apache-2.0
// The ops of the namespace ascend_sparse_attention on torch_npu's device. Their schemas are defined in Python
// (ops/registration.py), so the package has to be imported before this library is loaded.
#include <cstdlib>

#include <torch/library.h>

#include "device_call.h"
#include "op_host/cann/operator_package.h"

namespace asa::torch_op {
namespace {

// These ops launch their kernel themselves and need no operator package. But where one of another version is installed, a
// program would get one answer from torch.ops and another from aclnn; that ends here, in words, before the first launch.
void CheckOperatorPackage(const char* op)
{
    static const std::string fault = PackageFault(
        FindOperatorPackage(std::getenv("ASCEND_CUSTOM_OPP_PATH"), std::getenv("ASCEND_OPP_PATH")), ASA_VERSION, false);
    TORCH_CHECK(fault.empty(), op, ": ", fault);
}

at::Tensor SparseFlashAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& sparseIndices, double scaleValue, std::string_view inputLayout,
                                bool is_causal)
{
    CheckOperatorPackage("sparse_flash_attention");
    return std::get<0>(RunOnDevice({"sparse_flash_attention", query, key, value, sparseIndices, scaleValue, inputLayout,
                                    is_causal, false, false}));
}

std::tuple<at::Tensor, at::Tensor> SparseFlashAttentionWithLse(const at::Tensor& query, const at::Tensor& key,
                                                               const at::Tensor& value, const at::Tensor& sparseIndices,
                                                               double scaleValue, std::string_view inputLayout,
                                                               bool is_causal)
{
    CheckOperatorPackage("sparse_flash_attention_with_lse");
    return RunOnDevice({"sparse_flash_attention_with_lse", query, key, value, sparseIndices, scaleValue, inputLayout,
                        is_causal, true, false});
}

}  // namespace
}  // namespace asa::torch_op

TORCH_LIBRARY_IMPL(ascend_sparse_attention, PrivateUse1, m)
{
    m.impl("sparse_flash_attention", &asa::torch_op::SparseFlashAttention);
    m.impl("sparse_flash_attention_with_lse", &asa::torch_op::SparseFlashAttentionWithLse);
}
