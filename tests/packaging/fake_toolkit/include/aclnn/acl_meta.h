/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for CANN's header of this name. */
#pragma once

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclTensor aclTensor;
typedef struct aclOpExecutor aclOpExecutor;
typedef int32_t aclnnStatus;

aclTensor* aclCreateTensor(const int64_t* shape, uint64_t rank, aclDataType type, const int64_t* strides, int64_t offset,
                           aclFormat format, const int64_t* storage, uint64_t storageRank, void* address);
aclnnStatus aclDestroyTensor(const aclTensor* tensor);

#ifdef __cplusplus
}
#endif
