// SPDX-License-Identifier: Apache-2.0
// What all cores share: the bandwidth of L2 and HBM, and which lines of global memory lie in L2.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cpu_twin {

// A bandwidth that many transfers draw on. Time is cut into windows; a transfer takes from each window what it can use and
// what earlier transfers left. Transfers book in the order in which they become ready, so the result does not depend on
// which core was executed first.
class SharedBandwidth {
public:
    explicit SharedBandwidth(double bytesPerCycle) : capacity_(bytesPerCycle * kWindow) {}
    void Reset() { used_.clear(); }

    // Books `bytes` from cycle `from` on, spread evenly over `duration` cycles if nobody else is there. Returns the cycle
    // at which the last byte is through: from + duration when the bandwidth does not bind, later when it does.
    double Book(double from, double duration, double bytes);

private:
    static constexpr double kWindow = 64;
    double capacity_;
    std::vector<double> used_;
};

// Lines of global memory in L2, first in first out. A line enters when it is first read or written.
class L2Cache {
public:
    L2Cache(double bytes, double lineBytes);
    void Reset();

    struct Traffic {
        uint64_t hitBytes = 0;        // served by L2
        uint64_t missBytes = 0;       // read from HBM
        uint64_t writeBackBytes = 0;  // dirty lines that had to leave
    };
    // One piece of `bytes` at `offset` of GM tensor `tensor`.
    void Read(uint16_t tensor, uint64_t offset, uint64_t bytes, bool allocate, Traffic* traffic);
    void Write(uint16_t tensor, uint64_t offset, uint64_t bytes, Traffic* traffic);

private:
    static constexpr uint32_t kAbsent = UINT32_MAX;
    using LineId = uint64_t;  // tensor in the top 16 bits
    uint32_t& SlotOf(LineId line);
    bool Present(LineId line);
    void Fill(LineId line, bool dirty, Traffic* traffic);

    uint64_t lineBytes_;
    uint32_t lines_;
    uint32_t next_ = 0;
    std::vector<LineId> occupant_;
    std::vector<uint8_t> occupied_, dirty_;
    std::vector<std::vector<uint32_t>> slots_;  // [tensor][line]
};

}  // namespace cpu_twin
