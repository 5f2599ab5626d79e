// SPDX-License-Identifier: Apache-2.0
#include "figure_kernels.h"
#include "figures.h"

namespace twin_figures {

namespace {

// ---- the bank-conflict sample: 1000 Adds of 4096 floats, timed with the 50 MHz system counter ----

struct BankCase {
    uint32_t src0, src1, dst, src0Blk, src0Rep;
};

void BankKernel(BankCase c) {
    set_mask_norm();
    set_vector_mask(~0ull, ~0ull);
    for (int i = 0; i < 1000; ++i) {
        vadd(Ub<float>(c.dst), Ub<float>(c.src0), Ub<float>(c.src1), 64, 1, c.src0Blk, 1, 8, c.src0Rep, 8);
    }
}

double BankTicks(BankCase c) {
    const double mhz = 1800;
    return TimeKernel(BankKernel, 1, KernelType::AivOnly, {}, Clock(mhz), c).Busy(Pipe::V) * 50 / mhz;
}

// ---- vector time of the Add tuning sample: `count` halfs a call, 8192 x 8192 in all ----

void AddKernel(uint32_t calls, uint32_t repeats, uint32_t src0, uint32_t src1, uint32_t dst) {
    set_mask_norm();
    set_vector_mask(~0ull, ~0ull);
    for (uint32_t i = 0; i < calls; ++i) {
        vadd(Ub<half>(dst), Ub<half>(src0), Ub<half>(src1), repeats, 1, 1, 1, 8, 8, 8);
    }
}

double AddMicroseconds(double cores, double halfsPerCall, uint32_t src1, uint32_t dst) {
    const uint32_t calls = 100;
    const double mhz = 1850;
    const double callsPerCore = 8192.0 * 8192.0 / halfsPerCall / cores;
    const Run run = TimeKernel(AddKernel, 1, KernelType::AivOnly, {}, Clock(mhz), calls,
                               static_cast<uint32_t>(halfsPerCall / 128), 0u, src1, dst);
    return run.Busy(Pipe::V) / calls * callsPerCore / mhz;
}

// ---- vector time of the ND2NZ sample: 80 Copy calls a core, 144 rows of 8 blocks scattered `stride` blocks apart ----

void ScatterKernel(uint32_t calls, uint32_t stride) {
    set_mask_norm();
    set_vector_mask(~0ull, ~0ull);
    for (uint32_t i = 0; i < calls; ++i) {
        vcopy(Ub<uint16_t>(73728), Ub<uint16_t>(0), 144, stride, 1, 1, 8);
    }
}

double ScatterMicroseconds(uint32_t stride) {
    const uint32_t calls = 100;
    const double mhz = 1850;
    const Run run = TimeKernel(ScatterKernel, 1, KernelType::AivOnly, {}, Clock(mhz), calls, stride);
    // 8192 rows are 56 tiles of 144 and one of 128; each of 6 x 8 cores has a sixth of the rows and 8 tiles side by side.
    const double rowsPerCall = 8192.0 / 6 * 8 / 80;
    return run.Busy(Pipe::V) / calls * (rowsPerCall / 144) * 80 / mhz;
}

}  // namespace

std::vector<Figure> VectorFigures() {
    const char* ticks = "ticks of 20 ns";
    return {
        {"vadd_no_conflict", "1000 Adds of 4096 floats, operands in different bank groups", "BANK scenario 1", ticks, 2390,
         Role::Predicted, [] { return BankTicks({0, 0x10100, 0x20000, 1, 8}); }},
        {"vadd_sources_in_one_bank", "the same, both sources in one bank", "BANK scenario 2", ticks, 4167, Role::Predicted,
         [] { return BankTicks({0, 0x4000, 0x10000, 1, 8}); }},
        {"vadd_sources_in_one_group", "the same, both sources in one bank group", "BANK scenario 3", ticks, 4167,
         Role::Predicted, [] { return BankTicks({0, 0x10000, 0x14100, 1, 8}); }},
        {"vadd_destination_on_source_bank", "the same, destination in step with a source", "BANK scenario 4", ticks, 2389,
         Role::Predicted, [] { return BankTicks({0, 0x10100, 0x4000, 1, 8}); }},
        {"vadd_destination_one_block_off", "the same, destination one block out of step with a source", "BANK scenario 5",
         ticks, 3751, Role::Looked, [] { return BankTicks({0, 0x10100, 0x4020, 1, 8}); }},
        {"vadd_in_place", "the same, in place", "BANK scenario 6", ticks, 2390, Role::Predicted,
         [] { return BankTicks({0, 0x10100, 0x10100, 1, 8}); }},
        {"vadd_walking_block", "the same, one source block a repeat, walking through the groups", "BANK scenario 7", ticks,
         3584, Role::Predicted, [] { return BankTicks({0, 0x10100, 0x10100, 0, 1}); }},
        {"vadd_stepping_block", "the same, one source block a repeat, keeping clear of the other", "BANK scenario 8", ticks,
         2389, Role::Predicted, [] { return BankTicks({0, 0x10100, 0x10100, 0, 8}); }},
        {"vadd_half_16256", "vector time of 8192 x 8192 half Add on 48 cores, 16256 a call", "ADD case 6", "us", 6.954,
         Role::Predicted, [] { return AddMicroseconds(48, 16256, 32512, 131072); }},
        {"vadd_half_16384_conflict", "the same, 16384 a call, sources in one bank group", "ADD case 5", "us", 12.846,
         Role::Predicted, [] { return AddMicroseconds(48, 16384, 32768, 65536); }},
        {"vadd_half_4096_conflict", "the same, 4096 a call, one core", "ADD case 1", "us", 761.65, Role::Predicted,
         [] { return AddMicroseconds(1, 4096, 32768, 65536); }},
        {"vcopy_eight_blocks_in_one_group", "vector time of ND to NZ in UB, writes 144 blocks apart", "N2N case 1", "us",
         47.790, Role::Predicted, [] { return ScatterMicroseconds(144); }},
        {"vcopy_blocks_spread", "the same, 145 blocks apart", "N2N case 2", "us", 7.133, Role::Predicted,
         [] { return ScatterMicroseconds(145); }},
    };
}

}  // namespace twin_figures
