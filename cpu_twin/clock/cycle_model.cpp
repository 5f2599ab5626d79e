// SPDX-License-Identifier: Apache-2.0
#include "cycle_model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cpu_twin {

namespace {

double CeilDiv(double a, double b) { return std::ceil(a / b); }

constexpr uint32_t kBankGroups = 16;
constexpr uint64_t kBankSpan = 64 * 1024;  // addresses of one bank id

struct Accesses {
    std::array<uint8_t, kBankGroups> perGroup{};
    std::array<uint64_t, 3> banks{};  // bit g of banks[b]: bank b of group g is touched

    void Add(const Operand& operand, uint32_t repeat, uint32_t blocks) {
        if (operand.mem != Mem::UB) return;
        const uint64_t first = operand.offset / 32 + uint64_t{repeat} * operand.repStride;
        // A block stride of zero reads the block once.
        const uint32_t count = operand.blkStride == 0 ? 1 : blocks;
        for (uint32_t b = 0; b < count; ++b) {
            const uint64_t block = first + uint64_t{b} * operand.blkStride;
            ++perGroup[block % kBankGroups];
            banks[std::min<uint64_t>(block * 32 / kBankSpan, 2)] |= uint64_t{1} << (block % kBankGroups);
        }
    }
    uint32_t Deepest() const { return *std::max_element(perGroup.begin(), perGroup.end()); }
    bool Meets(const Accesses& other) const {
        for (size_t b = 0; b < banks.size(); ++b) {
            if (banks[b] & other.banks[b]) return true;
        }
        return false;
    }
};

}  // namespace

uint64_t UbBanks::ExtraCycles(const Instr& instr) {
    uint64_t extra = 0;
    Accesses previousWrites;
    for (uint32_t r = 0; r < instr.repeats; ++r) {
        Accesses reads, writes;
        reads.Add(instr.src0, r, instr.blocksPerRepeat);
        reads.Add(instr.src1, r, instr.blocksPerRepeat);
        writes.Add(instr.dst, r, instr.blocksPerRepeat);
        const uint32_t cycles = std::max({reads.Deepest(), writes.Deepest(), uint32_t{1}});
        extra += cycles - 1;
        if (cycles == 1 && r > 0 && reads.Meets(previousWrites)) ++extra;
        previousWrites = writes;
    }
    return extra;
}

CycleModel::CycleModel(const ClockConstants& constants, std::string name)
    : c_(constants),
      name_(std::move(name)),
      l2Read_(c_.GbPerSecondToBytesPerCycle(c_.l2_read_gbs)),
      l2Write_(c_.GbPerSecondToBytesPerCycle(c_.l2_write_gbs)),
      hbm_(c_.GbPerSecondToBytesPerCycle(c_.hbm_read_gbs)),
      l2_(c_.l2_bytes, c_.l2_line_bytes) {}

double CycleModel::Begin(const Grid& grid) {
    grid_ = &grid;
    cores_.assign(grid.cores.size(), {});
    for (SharedBandwidth* shared : {&l2Read_, &l2Write_, &hbm_}) shared->Reset();
    l2_.Reset();
    return c_.launch_head_us * c_.frequency_mhz;
}

double CycleModel::IssueCycles(const Instr& instr) {
    return instr.op == Op::scalar_work ? 0 : c_.scalar_issue;
}

Span CycleModel::Run(const Instr& instr, double ready) {
    switch (instr.pipe) {
        case Pipe::V: return RunVector(instr, ready);
        case Pipe::M: return RunMmad(instr, ready);
        case Pipe::MTE1: return RunLoad(instr, ready);
        case Pipe::MTE2: return instr.op == Op::create_cbuf_matrix ? RunLoad(instr, ready) : RunGmRead(instr, ready);
        case Pipe::MTE3: return RunGmWrite(instr, ready);
        case Pipe::FIX: return RunFixpipe(instr, ready);
        case Pipe::S: return RunScalar(instr, ready);
    }
    return {ready, ready, ready};
}

Span CycleModel::RunVector(const Instr& instr, double ready) const {
    double cycles = 0;
    double head = 0;
    if (instr.op == Op::copy_ubuf_to_ubuf) {
        cycles = instr.pieces * CeilDiv(instr.pieceBytes, 256);
        head = c_.copy_ub_head;
    } else {
        const VectorRate& rate = VectorRateOf(instr.op);
        const uint32_t width = std::max({DTypeBytes(instr.dst.type), DTypeBytes(instr.src0.type), 1u});
        const bool wide = width >= 4;
        head = c_.vector_head + (wide ? rate.delay32 : rate.delay16);
        const double perRepeat = wide ? rate.cycles32 : rate.cycles16;
        switch (instr.op) {
            case Op::vgather: cycles = instr.lanes / 5.0; break;
            case Op::vmrgsort4: cycles = instr.lanes / 2.0; break;
            case Op::vconv: cycles = instr.repeats * perRepeat * (width == 8 ? 2 : 1); break;
            case Op::vnchwconv: cycles = instr.repeats * perRepeat * (width == 1 ? 7 : 1); break;
            default: {
                cycles = instr.repeats * perRepeat;
                // Slower instructions leave the banks the cycles in between.
                const double conflicts = c_.ub_bank_conflict * static_cast<double>(UbBanks::ExtraCycles(instr));
                cycles += std::max(0.0, conflicts - instr.repeats * (perRepeat - 1));
            }
        }
    }
    const double done = ready + cycles + head;
    return {ready, done, done};
}

Span CycleModel::RunMmad(const Instr& instr, double ready) const {
    // Multiply-accumulates of 16 x 16 x kStep a cycle; k is stored in fractals of 32 B.
    const uint32_t bytes = std::max(DTypeBytes(instr.src0.type), 1u);
    const double k0 = 32.0 / bytes;
    const double cyclesPerFractal = bytes == 4 ? 2 : 1;
    const double fractals = CeilDiv(instr.m, 16) * CeilDiv(instr.n, 16) * CeilDiv(instr.k, k0) * cyclesPerFractal;
    return {ready, ready + fractals + c_.mmad_call, ready + fractals + std::max(c_.mmad_head, c_.mmad_call)};
}

Span CycleModel::RunLoad(const Instr& instr, double ready) const {
    double rate = 0;
    double head = c_.load2d_head;
    switch (instr.op) {
        case Op::load_cbuf_to_ca:
        case Op::load_cbuf_to_ca_transpose: rate = c_.l1_to_l0a; break;
        case Op::load_cbuf_to_cb:
        case Op::load_cbuf_to_cb_transpose: rate = c_.l1_to_l0b; break;
        case Op::img2colv2_cbuf_to_ca: rate = c_.l1_to_l0a; head = c_.load3d_head; break;
        case Op::img2colv2_cbuf_to_cb: rate = c_.l1_to_l0b; head = c_.load3d_head; break;
        case Op::create_ca_matrix:
        case Op::create_cb_matrix:
        case Op::create_cbuf_matrix: rate = c_.create_matrix; break;
        default: rate = c_.l1_to_bt_fb; break;  // copy_cbuf_to_bt
    }
    const double transfer = std::max(1.0, instr.bytes / rate);
    return {ready, ready + transfer + 1, ready + transfer + std::max(head, 1.0)};
}

double CycleModel::RequestedBytes(int64_t offset, uint64_t bytes) const {
    const auto covered = [&](double unit) {
        const double first = static_cast<double>(offset), last = first + static_cast<double>(bytes) - 1;
        return (std::floor(last / unit) - std::floor(first / unit) + 1) * unit;
    };
    if (bytes == 0 || std::fmod(static_cast<double>(offset), c_.l2_line_bytes) == 0) return static_cast<double>(bytes);
    return std::min(covered(c_.gm_line_bytes), 2 * covered(c_.l2_line_bytes));
}

CycleModel::GmTraffic CycleModel::Touch(const Operand& gm, const Instr& instr, bool write) {
    GmTraffic traffic;
    traffic.pieces = static_cast<double>(instr.gmGroups) * instr.gmPieces;
    for (uint32_t group = 0; group < instr.gmGroups; ++group) {
        for (uint32_t i = 0; i < instr.gmPieces; ++i) {
            const int64_t offset = static_cast<int64_t>(gm.offset) + group * instr.gmGroupStride + i * instr.gmPieceStride;
            traffic.requestedBytes += RequestedBytes(offset, instr.gmPieceBytes);
            if (write) {
                l2_.Write(gm.tensor, offset, instr.gmPieceBytes, &traffic);
            } else {
                l2_.Read(gm.tensor, offset, instr.gmPieceBytes, !instr.l2Bypass, &traffic);
            }
        }
    }
    return traffic;
}

CycleModel::Transfer CycleModel::NewTransfer(double start, double requestedBytes, double duration, double hbmBytes,
                                             double latency) const {
    const double perByte = requestedBytes > 0 ? 1 / requestedBytes : 0;
    return {true, requestedBytes, duration * perByte, hbmBytes * perByte, start, latency};
}

Span CycleModel::Advance(Transfer& transfer, double ready, SharedBandwidth& l2) {
    const double chunk = std::min(transfer.bytes, c_.share_chunk);
    const double duration = chunk * transfer.cyclesPerByte;
    const double done = std::max(l2.Book(ready, duration, chunk), hbm_.Book(ready, duration, chunk * transfer.hbmPerByte));
    transfer.bytes -= chunk;
    transfer.active = transfer.bytes > 0;
    Span span{transfer.start, done, done};
    if (transfer.active) {
        span.partial = true;
    } else {
        span.end += transfer.latency;
    }
    return span;
}

Span CycleModel::RunGmRead(const Instr& instr, double ready) {
    Transfer& transfer = cores_[instr.core].transfers[static_cast<size_t>(instr.pipe)];
    double from = ready;
    if (!transfer.active) {
        const GmTraffic traffic = Touch(instr.src0, instr, false);
        const double payload = static_cast<double>(traffic.hitBytes + traffic.missBytes);
        const double inflation = payload > 0 ? traffic.requestedBytes / payload : 1;
        const double hit = traffic.hitBytes * inflation;
        const double miss = traffic.missBytes * inflation;
        const bool aic = IsAic(instr);
        const double l2Rate = aic ? c_.aic_l2_read : c_.aiv_l2_read;
        const double duration =
            hit / l2Rate + miss / (aic ? c_.aic_hbm_read : c_.aiv_hbm_read) + traffic.pieces * c_.mte_piece;
        transfer = NewTransfer(ready, traffic.requestedBytes, duration, miss + WriteBack(traffic),
                               traffic.missBytes ? c_.gm_read_latency : c_.l2_read_latency);
        from += c_.mte_issue;
    }
    return Advance(transfer, from, l2Read_);
}

Span CycleModel::RunGmWrite(const Instr& instr, double ready) {
    Transfer& transfer = cores_[instr.core].transfers[static_cast<size_t>(instr.pipe)];
    double from = ready;
    if (!transfer.active) {
        const GmTraffic traffic = Touch(instr.dst, instr, true);
        const double bytes = traffic.requestedBytes * (instr.atomic ? c_.atomic_write : 1);
        const double duration = bytes / (IsAic(instr) ? c_.aic_write : c_.aiv_write) + traffic.pieces * c_.mte_piece;
        transfer = NewTransfer(ready, bytes, duration, WriteBack(traffic), c_.gm_write_latency);
        from += c_.mte_issue;
    }
    return Advance(transfer, from, l2Write_);
}

Span CycleModel::RunFixpipe(const Instr& instr, double ready) {
    if (instr.op == Op::copy_cbuf_to_fbuf) {
        const double transfer = std::max(1.0, instr.bytes / c_.l1_to_bt_fb);
        return {ready, ready + transfer, ready + transfer + c_.load2d_head};
    }
    Transfer& transfer = cores_[instr.core].transfers[static_cast<size_t>(instr.pipe)];
    double from = ready;
    if (!transfer.active) {
        const double elements = static_cast<double>(instr.m) * CeilDiv(instr.n, 16) * 16;
        const double duration = elements / c_.fixpipe_elements;
        if (instr.dst.mem != Mem::GM) {
            const double done = ready + c_.mte_issue + duration;
            return {ready, done, done + c_.load2d_head};
        }
        const GmTraffic traffic = Touch(instr.dst, instr, true);
        const double bytes = traffic.requestedBytes * (instr.atomic ? c_.atomic_write : 1);
        transfer = NewTransfer(ready, bytes, std::max(duration, bytes / c_.aic_write), WriteBack(traffic), c_.gm_write_latency);
        from += c_.mte_issue;
    }
    return Advance(transfer, from, l2Write_);
}

Span CycleModel::RunScalar(const Instr& instr, double ready) {
    double cycles = instr.scalarCycles;
    if (instr.op == Op::scalar_load || instr.op == Op::scalar_store) {
        const Operand& where = instr.op == Op::scalar_load ? instr.src0 : instr.dst;
        cycles = c_.scalar_ub_access;
        if (where.mem == Mem::GM) {
            CoreState& core = cores_[instr.core];
            const uint64_t line = uint64_t{where.tensor} << 48 | where.offset / 64;
            const auto found = core.cacheLines.find(line);
            const bool hit = found != core.cacheLines.end() &&
                             core.cacheFills - found->second < static_cast<uint64_t>(c_.scalar_cache_lines);
            if (!hit) core.cacheLines[line] = core.cacheFills++;
            cycles = hit ? c_.scalar_gm_hit : c_.scalar_gm_miss;
        }
    } else if (instr.op == Op::dcci) {
        cores_[instr.core].cacheLines.clear();
        cycles = c_.gm_write_latency;
    }
    return {ready, ready + cycles, ready + cycles};
}

}  // namespace cpu_twin
