// SPDX-License-Identifier: Apache-2.0
#include "operator_package.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

namespace asa {
namespace {

namespace fs = std::filesystem;

// As op-info files spell it: a type that merely contains the name is another operator.
constexpr const char* kQuotedType = "\"AsaSparseFlashAttention\"";

std::vector<std::string> Split(const std::string& text, char separator)
{
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) {
        if (!part.empty()) {
            parts.push_back(part);
        }
    }
    return parts;
}

// The value of the first line "name=value" of a file, "" without one.
std::string ValueOf(const fs::path& file, const std::string& name)
{
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
        if (line.compare(0, name.size() + 1, name + "=") == 0) {
            return line.substr(name.size() + 1);
        }
    }
    return "";
}

// <folder>/op_impl/ai_core/tbe/config/<soc>/aic-<soc>-ops-info.json of any SoC lists the operator.
bool HasOperator(const fs::path& folder)
{
    std::error_code ignored;  // a folder that cannot be read holds no operator for CANN either
    for (const auto& soc : fs::directory_iterator(folder / "op_impl" / "ai_core" / "tbe" / "config", ignored)) {
        const std::string name = soc.path().filename().string();
        std::ifstream info(soc.path() / ("aic-" + name + "-ops-info.json"));
        const std::string text{std::istreambuf_iterator<char>(info), std::istreambuf_iterator<char>()};
        if (text.find(kQuotedType) != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace

OperatorPackage FindOperatorPackage(const char* customPath, const char* oppPath)
{
    struct Candidate {
        fs::path folder;
        std::string named;
    };
    std::vector<Candidate> candidates;
    for (const std::string& folder : Split(customPath != nullptr ? customPath : "", ':')) {
        candidates.push_back({folder, "ASCEND_CUSTOM_OPP_PATH"});
    }
    if (oppPath != nullptr && *oppPath != '\0') {
        const fs::path vendors = fs::path(oppPath) / "vendors";
        const fs::path order = vendors / "config.ini";
        for (const std::string& vendor : Split(ValueOf(order, "load_priority"), ',')) {
            candidates.push_back({vendors / vendor, "load_priority in " + order.string()});
        }
    }
    for (const Candidate& one : candidates) {
        if (HasOperator(one.folder)) {
            const std::string version = ValueOf(one.folder / "version.info", "asa_version");
            return {one.folder.string(), version.empty() ? "unknown" : version, one.named};
        }
    }
    return {};
}

std::string PackageFault(const OperatorPackage& found, const std::string& expected, bool needed)
{
    if (found.folder.empty()) {
        return needed ? "operator package: expected version " + expected +
                            " in ASCEND_CUSTOM_OPP_PATH or among the vendors of ASCEND_OPP_PATH, got none; "
                            "install it and source its bin/set_env.bash"
                      : "";
    }
    if (found.version == expected) {
        return "";
    }
    return "operator package: expected version " + expected + ", got " + found.version + " in " + found.folder +
           ", which " + found.named + " names first; install both from one build, or take that folder away";
}

}  // namespace asa
