// SPDX-License-Identifier: Apache-2.0
// What the stand-in for op_build lets a generated aclnn entry call; runtime/runtime.cpp has it.
#pragma once

#include <vector>

#include "aclnn/acl_meta.h"
#include "register/op_def_registry.h"

aclnnStatus fakeAclnnPrepare(const char* type, const std::vector<const aclTensor*>& inputs,
                             const std::vector<gert::AttrValue>& attrs, const std::vector<const aclTensor*>& outputs,
                             uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus fakeAclnnLaunch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
