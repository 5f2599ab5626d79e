// SPDX-License-Identifier: Apache-2.0
// The DataCopy sample: a 12288 x 12288 half matrix read once, or four times, in tiles. Here with fewer rows, the time scaled up.
#include "figure_kernels.h"
#include "figures.h"

namespace twin_figures {

namespace {

struct CopyCase {
    uint32_t rowsPerCore, tileRows, tileCols, cols;
    uint32_t passes, splits;  // each of `splits` column ranges is read `passes` times before the next
    bool toL1;
};

void CopyKernel(half* src, CopyCase c) {
    const uint64_t firstRow = static_cast<uint64_t>(get_block_idx()) * c.rowsPerCore;
    const uint32_t splitCols = c.cols / c.splits;
    for (uint32_t s = 0; s < c.splits; ++s) {
        for (uint32_t p = 0; p < c.passes; ++p) {
            for (uint32_t r = 0; r < c.rowsPerCore; r += c.tileRows) {
                for (uint32_t col = 0; col < splitCols; col += c.tileCols) {
                    const uint32_t width = std::min(c.tileCols, splitCols - col);
                    half* from = src + (firstRow + r) * c.cols + s * splitCols + col;
                    if (c.toL1) {
                        copy_gm_to_cbuf_multi_nd2nz_b16(L1<half>(0), from, 0, 1, c.tileRows, width, 0, c.cols, c.tileRows, 1,
                                                        0);
                    } else {
                        copy_gm_to_ubuf_align_b16(Ub<half>(0), from, 0, c.tileRows, width * 2, 0, 0, (c.cols - width) * 2, 0);
                    }
                }
            }
        }
    }
}

double CopyMicroseconds(CopyCase c) {
    const uint32_t cores = c.toL1 ? 24 : 48;
    std::vector<half> matrix(static_cast<size_t>(cores) * c.rowsPerCore * c.cols);
    const Run run = TimeKernel(CopyKernel, cores, c.toL1 ? KernelType::AicOnly : KernelType::AivOnly, {In("src", matrix)},
                               Clock(1850), reinterpret_cast<half*>(Gm(matrix)), c);
    return run.Busy(Pipe::MTE2) / 1850 * (12288.0 / cores / c.rowsPerCore);
}

void StoreKernel(half* out, uint32_t calls, uint32_t bytes) {
    for (uint32_t i = 0; i < calls; ++i) {
        copy_ubuf_to_gm(out + static_cast<size_t>(i) * bytes / 2, Ub<half>(0), 0, 1, bytes / 32, 0, 0);
    }
}

double StoreCycles(uint32_t bytes) {
    const uint32_t calls = 32;
    std::vector<half> out(static_cast<size_t>(calls) * bytes / 2);
    const Run run = TimeKernel(StoreKernel, 1, KernelType::AivOnly, {Out("out", out)}, Clock(1850),
                               reinterpret_cast<half*>(Gm(out)), calls, bytes);
    return run.Busy(Pipe::MTE3) / calls;
}

}  // namespace

std::vector<Figure> CopyFigures() {
    return {
        {"gm_ub_1x128", "GM to UB, 48 cores, 302 MB in copies of one 128 B row", "DC UB scenario 1", "us", 548.161,
         Role::Fitted, [] { return CopyMicroseconds({8, 1, 64, 12288, 1, 1, false}); }},
        {"gm_ub_64x128", "the same in copies of 64 rows of 128 B", "DC UB scenario 2", "us", 220.772, Role::Predicted,
         [] { return CopyMicroseconds({64, 64, 64, 12288, 1, 1, false}); }},
        {"gm_ub_64x2048", "the same in copies of 64 rows of 2 KiB", "DC UB scenario 3", "us", 202.657, Role::Fitted,
         [] { return CopyMicroseconds({64, 64, 1024, 12288, 1, 1, false}); }},
        {"gm_ub_64x2046_unaligned", "the same, rows of 12287 elements", "DC UB scenario 4", "us", 259.047, Role::Predicted,
         [] { return CopyMicroseconds({64, 64, 1024, 12287, 1, 1, false}); }},
        {"gm_ub_reused", "GM to UB, each quarter of the columns read four times in a row", "DC UB scenario 6", "us", 354.56,
         Role::Predicted, [] { return CopyMicroseconds({64, 64, 1024, 12288, 4, 4, false}); }},
        {"gm_l1_64x128", "GM to L1 as NZ, 24 cores, copies of 64 rows of 128 B", "DC L1 scenario 1", "us", 283.508,
         Role::Predicted, [] { return CopyMicroseconds({64, 64, 64, 12288, 1, 1, true}); }},
        {"gm_l1_64x512", "the same in copies of 64 rows of 512 B", "DC L1 scenario 2", "us", 214.519, Role::Predicted,
         [] { return CopyMicroseconds({64, 64, 256, 12288, 1, 1, true}); }},
        {"gm_l1_64x512_unaligned", "the same, rows of 12287 elements", "DC L1 scenario 3", "us", 422.515, Role::Predicted,
         [] { return CopyMicroseconds({64, 64, 256, 12287, 1, 1, true}); }},
        {"gm_l1_reused", "GM to L1, each quarter of the columns read four times in a row", "DC L1 scenario 5", "us", 397.8,
         Role::Predicted, [] { return CopyMicroseconds({64, 64, 1024, 12288, 4, 4, true}); }},
        {"ub_gm_8192", "UB to GM, one core, copies of 8 KiB (2613.2 us for 16384)", "ADD case 1", "cycles", 295.1,
         Role::Predicted, [] { return StoreCycles(8192); }},
    };
}

}  // namespace twin_figures
