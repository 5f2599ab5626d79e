// SPDX-License-Identifier: Apache-2.0
// Stands in for CANN's header of this name: an Ascend910B2, by the figures of its platform_config .ini.
#pragma once

#include <cstdint>

namespace platform_ascendc {

enum class CoreMemType { L2 };

class PlatformAscendC {
public:
    explicit PlatformAscendC(void*) {}
    uint32_t GetCoreNumAic() const { return 24; }
    uint32_t GetCoreNumAiv() const { return 48; }
    void GetCoreMemSize(CoreMemType, uint64_t& bytes) const { bytes = 192ULL << 20; }
    uint32_t GetLibApiWorkSpaceSize() const { return 16U << 20; }
};

}  // namespace platform_ascendc
