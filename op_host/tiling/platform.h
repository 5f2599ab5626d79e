// SPDX-License-Identifier: Apache-2.0
// The dav-2201 devices this package is built for. Figures are those of the platform_config .ini files that CANN 8.1 ships.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asa {

struct Platform {
    std::string name;
    uint32_t aicNum = 0;
    uint32_t aivNum = 0;
    uint32_t mhz = 0;
    uint64_t l2Bytes = 0;
    uint32_t ubBytes = 0;       // what a kernel may use: 256 bytes and a reserve of 8 KiB are the framework's
    uint32_t l1Bytes = 0;       // 256 bytes are the framework's
    uint32_t l0aBytes = 0;
    uint32_t l0bBytes = 0;
    uint32_t l0cBytes = 0;
};

// The device of that name ("Ascend910B2", case as in its .ini), or nullptr.
const Platform* FindPlatform(const std::string& name);

// Names of all known devices.
std::vector<std::string> PlatformNames();

// A dav-2201 device described by the running system rather than by name.
Platform MakePlatform(const std::string& name, uint32_t aicNum, uint32_t aivNum, uint32_t mhz, uint64_t l2Bytes);

}  // namespace asa
