// SPDX-License-Identifier: Apache-2.0
#include "platform.h"

namespace asa {
namespace {

constexpr uint32_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * 1024;

const std::vector<Platform>& Platforms()
{
    static const std::vector<Platform> platforms = {
        MakePlatform("Ascend910B1", 24, 48, 1850, 192 * kMiB),   MakePlatform("Ascend910B2", 24, 48, 1800, 192 * kMiB),
        MakePlatform("Ascend910B2C", 24, 48, 1800, 192 * kMiB),  MakePlatform("Ascend910B3", 20, 40, 1800, 192 * kMiB),
        MakePlatform("Ascend910B4", 20, 40, 1500, 96 * kMiB),    MakePlatform("Ascend910B4-1", 20, 40, 1500, 168 * kMiB),
        MakePlatform("Ascend910_9391", 24, 48, 1850, 192 * kMiB), MakePlatform("Ascend910_9392", 24, 48, 1850, 192 * kMiB),
        MakePlatform("Ascend910_9381", 24, 48, 1800, 192 * kMiB), MakePlatform("Ascend910_9382", 24, 48, 1800, 192 * kMiB),
        MakePlatform("Ascend910_9372", 20, 40, 1800, 192 * kMiB), MakePlatform("Ascend910_9362", 20, 40, 1500, 168 * kMiB),
    };
    return platforms;
}

}  // namespace

Platform MakePlatform(const std::string& name, uint32_t aicNum, uint32_t aivNum, uint32_t mhz, uint64_t l2Bytes)
{
    Platform p;
    p.name = name;
    p.aicNum = aicNum;
    p.aivNum = aivNum;
    p.mhz = mhz;
    p.l2Bytes = l2Bytes;
    p.ubBytes = 192 * kKiB - 256 - 8 * kKiB;
    p.l1Bytes = 512 * kKiB - 256;
    p.l0aBytes = 64 * kKiB;
    p.l0bBytes = 64 * kKiB;
    p.l0cBytes = 128 * kKiB;
    return p;
}

const Platform* FindPlatform(const std::string& name)
{
    for (const Platform& platform : Platforms()) {
        if (platform.name == name) {
            return &platform;
        }
    }
    return nullptr;
}

std::vector<std::string> PlatformNames()
{
    std::vector<std::string> names;
    for (const Platform& platform : Platforms()) {
        names.push_back(platform.name);
    }
    return names;
}

}  // namespace asa
