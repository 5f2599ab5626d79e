// SPDX-License-Identifier: Apache-2.0
// Calls the operator package's aclnn interface on one small problem: query [1, 2, 16, 576], key [1, 256, 1, 576], value its
// first 512 columns, 64 keys for each query position. See docs/cann.md for how to build it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnn_asa_sparse_flash_attention.h"
#include "asa_operator_package.h"

namespace {

void Check(int status, const char* what)
{
    if (status != 0) {
        std::fprintf(stderr, "%s: expected 0, got %d (%s)\n", what, status, aclGetRecentErrMsg());
        std::exit(1);
    }
}

// A contiguous tensor on the device with these bytes.
aclTensor* ToDevice(const std::vector<int64_t>& shape, aclDataType type, const void* host, size_t bytes, void** device)
{
    Check(aclrtMalloc(device, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    if (host != nullptr) {
        Check(aclrtMemcpy(*device, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
    }
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i-- > 0;) {
        strides[i] = strides[i + 1] * shape[i + 1];
    }
    return aclCreateTensor(shape.data(), shape.size(), type, strides.data(), 0, ACL_FORMAT_ND, shape.data(), shape.size(),
                           *device);
}

}  // namespace

int main()
{
    // Mixed versions of this program's headers, libcust_opapi.so and the package CANN finds first end here, in words.
    char fault[1024];
    if (asaCheckOperatorPackage(ASA_OPERATOR_PACKAGE_VERSION, fault, sizeof(fault)) != 0) {
        std::fprintf(stderr, "%s\n", fault);
        return 1;
    }
    constexpr int64_t kS1 = 2, kS2 = 256, kN1 = 16, kDk = 576, kDv = 512, kTopK = 64;
    Check(aclInit(nullptr), "aclInit");
    Check(aclrtSetDevice(0), "aclrtSetDevice");
    aclrtStream stream = nullptr;
    Check(aclrtCreateStream(&stream), "aclrtCreateStream");

    std::vector<aclFloat16> query(kS1 * kN1 * kDk), key(kS2 * kDk), value(kS2 * kDv);
    for (size_t i = 0; i < query.size(); ++i) {
        query[i] = aclFloatToFloat16(0.5F * std::sin(static_cast<float>(i)));
    }
    for (int64_t row = 0; row < kS2; ++row) {
        for (int64_t column = 0; column < kDk; ++column) {
            const aclFloat16 number = aclFloatToFloat16(0.5F * std::cos(static_cast<float>(row * kDk + column)));
            key[row * kDk + column] = number;
            if (column < kDv) {
                value[row * kDv + column] = number;
            }
        }
    }
    std::vector<int32_t> indices(kS1 * kTopK);
    for (size_t i = 0; i < indices.size(); ++i) {
        indices[i] = static_cast<int32_t>(i * 3 % kS2);
    }

    void* memory[6] = {};
    const size_t outputBytes = kS1 * kN1 * kDv * sizeof(aclFloat16);
    aclTensor* q = ToDevice({1, kS1, kN1, kDk}, ACL_FLOAT16, query.data(), query.size() * sizeof(aclFloat16), &memory[0]);
    aclTensor* k = ToDevice({1, kS2, 1, kDk}, ACL_FLOAT16, key.data(), key.size() * sizeof(aclFloat16), &memory[1]);
    aclTensor* v = ToDevice({1, kS2, 1, kDv}, ACL_FLOAT16, value.data(), value.size() * sizeof(aclFloat16), &memory[2]);
    aclTensor* idx = ToDevice({1, kS1, 1, kTopK}, ACL_INT32, indices.data(), indices.size() * sizeof(int32_t), &memory[3]);
    aclTensor* y = ToDevice({1, kS1, kN1, kDv}, ACL_FLOAT16, nullptr, outputBytes, &memory[4]);
    aclTensor* lse = ToDevice({1, kS1, kN1}, ACL_FLOAT, nullptr, kS1 * kN1 * sizeof(float), &memory[5]);

    uint64_t workspaceBytes = 0;
    aclOpExecutor* executor = nullptr;
    char layout[] = "BSND";
    Check(aclnnAsaSparseFlashAttentionGetWorkspaceSize(q, k, v, idx, 1.0 / std::sqrt(576.0), layout, false, true, y, lse,
                                                       &workspaceBytes, &executor),
          "aclnnAsaSparseFlashAttentionGetWorkspaceSize");
    void* workspace = nullptr;
    if (workspaceBytes > 0) {
        Check(aclrtMalloc(&workspace, workspaceBytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    Check(aclnnAsaSparseFlashAttention(workspace, workspaceBytes, executor, stream), "aclnnAsaSparseFlashAttention");
    Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");

    std::vector<aclFloat16> result(kS1 * kN1 * kDv);
    Check(aclrtMemcpy(result.data(), outputBytes, memory[4], outputBytes, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
    for (int i = 0; i < 4; ++i) {
        std::printf("y[0, 0, 0, %d] = %f\n", i, aclFloat16ToFloat(result[i]));
    }

    for (aclTensor* tensor : {q, k, v, idx, y, lse}) {
        aclDestroyTensor(tensor);
    }
    for (void* address : memory) {
        aclrtFree(address);
    }
    if (workspace != nullptr) {
        aclrtFree(workspace);
    }
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    return aclFinalize();
}
