// SPDX-License-Identifier: Apache-2.0
// What each instruction costs on dav-2201. It predicts from published figures; it measures nothing.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "constants.h"
#include "shared_memory.h"

namespace cpu_twin {

// Extra cycles that one repeat of a vector instruction takes because its operands meet in the banks of UB: 16 bank groups
// of 32 B, three banks of 64 KiB-spaced rows in each. Two reads, or two writes, of one group in a cycle are served one after
// another; so are a read and the previous repeat's write in one bank.
class UbBanks {
public:
    static uint64_t ExtraCycles(const Instr& instr);
};

class CycleModel : public ClockModel {
public:
    explicit CycleModel(const ClockConstants& constants, std::string name);
    explicit CycleModel(Outlook outlook) : CycleModel(ClockConstants::Of(outlook), OutlookName(outlook)) {}

    std::string Name() const override { return name_; }
    double CyclesPerMicrosecond() const override { return c_.frequency_mhz; }
    double Begin(const Grid& grid) override;
    double IssueCycles(const Instr& instr) override;
    uint32_t QueueDepth(Pipe) override { return static_cast<uint32_t>(c_.queue_depth); }
    Span Run(const Instr& instr, double ready) override;
    double FlagCycles(Pipe, Pipe) override { return c_.flag; }
    double BarrierCycles(const Instr&) override { return c_.barrier; }
    double CrossCoreCycles(uint8_t) override { return c_.cross_core; }
    double End() override { return 0; }

    const ClockConstants& Constants() const { return c_; }

private:
    Span RunVector(const Instr& instr, double ready) const;
    Span RunMmad(const Instr& instr, double ready) const;
    Span RunLoad(const Instr& instr, double ready) const;
    Span RunGmRead(const Instr& instr, double ready);
    Span RunGmWrite(const Instr& instr, double ready);
    Span RunFixpipe(const Instr& instr, double ready);
    Span RunScalar(const Instr& instr, double ready);
    bool IsAic(const Instr& instr) const { return grid_->cores[instr.core].kind == CoreKind::AIC; }
    struct GmTraffic : L2Cache::Traffic {
        double requestedBytes = 0;  // what the GM requests of the copy carry, payload or not
        double pieces = 0;
    };
    // Bytes that the requests for one piece carry. A piece that does not start on a 128 B boundary costs all of every
    // 512 B line it touches, but never more than twice its 128 B sectors.
    double RequestedBytes(int64_t offset, uint64_t bytes) const;
    GmTraffic Touch(const Operand& gm, const Instr& instr, bool write);
    // A copy that is under way. It books the shared bandwidths chunk by chunk, so that copies of several cores take turns.
    struct Transfer {
        bool active = false;
        double bytes = 0;         // requested bytes still to go
        double cyclesPerByte = 0; // at the rate of the core's own port
        double hbmPerByte = 0;    // bytes that HBM moves for each byte requested
        double start = 0;
        double latency = 0;
    };
    double WriteBack(const GmTraffic& traffic) const {
        return static_cast<double>(traffic.writeBackBytes) * c_.hbm_read_gbs / c_.hbm_write_gbs;
    }
    Transfer NewTransfer(double start, double requestedBytes, double duration, double hbmBytes, double latency) const;
    Span Advance(Transfer& transfer, double ready, SharedBandwidth& l2);

    struct CoreState {
        std::unordered_map<uint64_t, uint64_t> cacheLines;  // GM line -> when it entered the scalar data cache
        uint64_t cacheFills = 0;
        std::array<Transfer, kPipes> transfers;
    };

    ClockConstants c_;
    std::string name_;
    const Grid* grid_ = nullptr;
    std::vector<CoreState> cores_;
    SharedBandwidth l2Read_, l2Write_, hbm_;
    L2Cache l2_;
};

}  // namespace cpu_twin
