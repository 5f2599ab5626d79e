// SPDX-License-Identifier: Apache-2.0
// Finds the operator package that CANN would use, by CANN's own rule, and reads its version. No CANN include: the torch
// library asks the same question.
#pragma once

#include <string>

namespace asa {

struct OperatorPackage {
    std::string folder;   // empty: no package has the operator
    std::string version;  // "unknown" if its version.info does not say
    std::string named;    // what led there: "ASCEND_CUSTOM_OPP_PATH", or "load_priority in <config.ini>"
};

// The first folder with AsaSparseFlashAttention: of customPath (ASCEND_CUSTOM_OPP_PATH: vendor folders, ':' between them),
// then of oppPath/vendors (ASCEND_OPP_PATH) in the order of config.ini's load_priority. Either may be null.
OperatorPackage FindOperatorPackage(const char* customPath, const char* oppPath);

// Why a package does not go with `expected`; "" if it does. No package at all is a fault only if one is `needed`.
std::string PackageFault(const OperatorPackage& found, const std::string& expected, bool needed);

}  // namespace asa
