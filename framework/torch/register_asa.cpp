// SPDX-License-Identifier: Apache-2.0
// The ops of the namespace ascend_sparse_attention on torch_npu's device. Their schemas are defined in Python
// (ops/registration.py), so the package has to be imported before this library is loaded.
#include <torch/library.h>

#include "device_call.h"

namespace asa::torch_op {
namespace {

at::Tensor SparseFlashAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& sparseIndices, double scaleValue, std::string_view inputLayout,
                                bool is_causal)
{
    return std::get<0>(RunOnDevice({"sparse_flash_attention", query, key, value, sparseIndices, scaleValue, inputLayout,
                                    is_causal, false, false}));
}

std::tuple<at::Tensor, at::Tensor> SparseFlashAttentionWithLse(const at::Tensor& query, const at::Tensor& key,
                                                               const at::Tensor& value, const at::Tensor& sparseIndices,
                                                               double scaleValue, std::string_view inputLayout,
                                                               bool is_causal)
{
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
