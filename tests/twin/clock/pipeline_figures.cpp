// SPDX-License-Identifier: Apache-2.0
// The Add tuning sample as a whole: copies in, Add, copy out, with the sample's own flags.
#include "figure_kernels.h"
#include "figures.h"

namespace twin_figures {

namespace {

constexpr uint32_t kBlocks = 85;  // per core in the sample at 16384 a call

void CopyIn(half* ub, half* gm, uint32_t count) { copy_gm_to_ubuf(ub, gm, 0, 1, count / 16, 0, 0); }
void CopyOut(half* gm, half* ub, uint32_t count) { copy_ubuf_to_gm(gm, ub, 0, 1, count / 16, 0, 0); }
void Add(half* z, half* x, half* y, uint32_t count) { vadd(z, x, y, count / 128, 1, 1, 1, 8, 8, 8); }

void SingleBuffer(half* x, half* y, half* z, uint32_t count, uint32_t blocks) {
    set_mask_norm();
    set_vector_mask(~0ull, ~0ull);
    half *ux = Ub<half>(0), *uy = Ub<half>(32768), *uz = Ub<half>(65536);
    const size_t first = static_cast<size_t>(get_block_idx()) * blocks * count;
    for (uint32_t i = 0; i < blocks; ++i) {
        const size_t at = first + static_cast<size_t>(i) * count;
        if (i) wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
        CopyIn(ux, x + at, count);
        CopyIn(uy, y + at, count);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        if (i) wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
        Add(uz, ux, uy, count);
        if (i + 1 < blocks) set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        CopyOut(z + at, uz, count);
        if (i + 1 < blocks) set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    }
}

void DoubleBuffer(half* x, half* y, half* z, uint32_t count, uint32_t blocks) {
    set_mask_norm();
    set_vector_mask(~0ull, ~0ull);
    const size_t first = static_cast<size_t>(get_block_idx()) * blocks * count;
    const event_t ids[2] = {EVENT_ID0, EVENT_ID1};
    for (event_t id : ids) {
        set_flag(PIPE_V, PIPE_MTE2, id);
        set_flag(PIPE_MTE3, PIPE_V, id);
    }
    for (uint32_t i = 0; i < blocks; ++i) {
        const size_t at = first + static_cast<size_t>(i) * count;
        const event_t id = ids[i & 1];
        const uint32_t base = (i & 1) * 98304;
        half *ux = Ub<half>(base), *uy = Ub<half>(base + 32768), *uz = Ub<half>(base + 65536);
        wait_flag(PIPE_V, PIPE_MTE2, id);
        CopyIn(ux, x + at, count);
        CopyIn(uy, y + at, count);
        set_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE3, PIPE_V, id);
        Add(uz, ux, uy, count);
        set_flag(PIPE_V, PIPE_MTE2, id);
        set_flag(PIPE_V, PIPE_MTE3, id);
        wait_flag(PIPE_V, PIPE_MTE3, id);
        CopyOut(z + at, uz, count);
        set_flag(PIPE_MTE3, PIPE_V, id);
    }
    for (event_t id : ids) {
        wait_flag(PIPE_V, PIPE_MTE2, id);
        wait_flag(PIPE_MTE3, PIPE_V, id);
    }
}

using AddKernel = void (*)(half*, half*, half*, uint32_t, uint32_t);

// Cycles a core needs per block.
double Period(AddKernel kernel, uint32_t cores, uint32_t count, uint32_t blocks) {
    std::vector<half> x(static_cast<size_t>(cores) * count * blocks), y(x.size()), z(x.size());
    // Data and L2 both shrink by the same factor, so that what is evicted keeps its share.
    const double share = blocks * static_cast<double>(count) / (kBlocks * 16384.0);
    const Run run = TimeKernel(kernel, cores, KernelType::AivOnly, {In("x", x), In("y", y), Out("z", z)},
                               Clock(1850, cores == 1 ? 1 : share), reinterpret_cast<half*>(Gm(x)),
                               reinterpret_cast<half*>(Gm(y)), reinterpret_cast<half*>(Gm(z)), count, blocks);
    return run.Cycles() / blocks;
}

}  // namespace

std::vector<Figure> PipelineFigures() {
    return {
        {"add_single_core", "Add of 4096 halfs a turn, one core, one buffer (6909 us for 16384 turns)", "ADD case 1", "cycles",
         780.1, Role::Fitted, [] { return Period(SingleBuffer, 1, 4096, 64); }},
        {"add_48_cores_16384", "the same on 48 cores, 16384 a turn (261.5 us)", "ADD case 3", "us", 261.5, Role::Looked,
         [] { return Period(SingleBuffer, 48, 16384, 20) * (8192.0 * 8192 / 16384 / 48) / 1850; }},
        {"add_48_cores_double_buffer", "the same with two buffers (257.56 us)", "ADD case 4", "us", 257.56, Role::Looked,
         [] { return Period(DoubleBuffer, 48, 16384, 20) * (8192.0 * 8192 / 16384 / 48) / 1850; }},
    };
}

}  // namespace twin_figures
