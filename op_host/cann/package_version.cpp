// SPDX-License-Identifier: Apache-2.0
// Part of libcust_opapi.so: the version handshake of asa_operator_package.h, for callers and once when the library is loaded.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "asa_operator_package.h"
#include "operator_package.h"

namespace {

asa::OperatorPackage Found()
{
    return asa::FindOperatorPackage(std::getenv("ASCEND_CUSTOM_OPP_PATH"), std::getenv("ASCEND_OPP_PATH"));
}

// A caller that skips the check still reads why the call that follows fails, or answers as another version does.
const struct Announce {
    Announce()
    {
        const std::string fault = asa::PackageFault(Found(), ASA_OPERATOR_PACKAGE_VERSION, true);
        if (!fault.empty()) {
            std::fprintf(stderr, "libcust_opapi.so %s: %s\n", ASA_OPERATOR_PACKAGE_VERSION, fault.c_str());
        }
    }
} g_announce;

}  // namespace

__attribute__((visibility("default"))) const char* asaOperatorPackageVersion(void) { return ASA_OPERATOR_PACKAGE_VERSION; }

__attribute__((visibility("default"))) int asaCheckOperatorPackage(const char* expected, char* message, size_t capacity)
{
    const std::string wanted = expected != nullptr ? expected : "";
    std::string fault;
    if (wanted != ASA_OPERATOR_PACKAGE_VERSION) {
        fault = "libcust_opapi.so: expected version " + wanted + " (this program's), got " ASA_OPERATOR_PACKAGE_VERSION +
                "; build the program with the header beside the library";
    } else {
        fault = asa::PackageFault(Found(), wanted, true);
    }
    if (message != nullptr && capacity > 0) {
        const size_t length = std::min(capacity - 1, fault.size());
        std::memcpy(message, fault.data(), length);
        message[length] = '\0';
    }
    return fault.empty() ? 0 : 1;
}
