// SPDX-License-Identifier: Apache-2.0
#include "figure_kernels.h"
#include "figures.h"

namespace twin_figures {

namespace {

void MmadKernel(uint32_t calls, uint16_t m, uint16_t n, uint16_t k, bool alone) {
    for (uint32_t i = 0; i < calls; ++i) {
        mad(L0c<float>(), L0a<half>(), L0b<half>(), m, k, n, 0, false, false, i == 0);
        if (alone) pipe_barrier(PIPE_ALL);
    }
}

// Eight calls, from the first one's start to the last one's result.
double MmadSequence(uint16_t m, uint16_t n, uint16_t k) {
    auto clock = Clock(1850);
    Span last;
    Grid grid;
    grid.cores.push_back({CoreKind::AIC, 0, 0});
    clock->Begin(grid);
    Instr instr;
    instr.op = Op::mad;
    instr.pipe = Pipe::M;
    instr.m = m, instr.n = n, instr.k = k;
    instr.src0.type = DType::F16;
    double ready = 0;
    for (int i = 0; i < 8; ++i) {
        last = clock->Run(instr, ready);
        ready = last.release;
    }
    return last.end;
}

// One call that has the pipe to itself, as in the matmul sample's single-buffered cases.
double MmadAlone(uint16_t m, uint16_t n, uint16_t k) {
    auto clock = Clock(1850);
    Grid grid;
    grid.cores.push_back({CoreKind::AIC, 0, 0});
    clock->Begin(grid);
    Instr instr;
    instr.op = Op::mad;
    instr.pipe = Pipe::M;
    instr.m = m, instr.n = n, instr.k = k;
    instr.src0.type = DType::F16;
    return clock->Run(instr, 0).end;
}

double MmadStreamMicroseconds() {
    const uint32_t calls = 200;
    const Run run = TimeKernel(MmadKernel, 1, KernelType::AicOnly, {}, Clock(1850), calls, uint16_t{128}, uint16_t{256},
                               uint16_t{64}, false);
    // 8192 cubed in blocks of 128 x 256 x 64, mean over 24 cores.
    return run.Busy(Pipe::M) / calls * (8192.0 * 8192 * 8192 / (128.0 * 256 * 64) / 24) / 1850;
}

// One A block and one B block from L1 to L0, each with one load3d, up to the later result.
double LoadPair(uint32_t aBytes, uint32_t bBytes) {
    auto clock = Clock(1850);
    Grid grid;
    grid.cores.push_back({CoreKind::AIC, 0, 0});
    clock->Begin(grid);
    Instr a;
    a.op = Op::img2colv2_cbuf_to_ca;
    a.pipe = Pipe::MTE1;
    a.bytes = aBytes;
    Instr b = a;
    b.op = Op::img2colv2_cbuf_to_cb;
    b.bytes = bBytes;
    return clock->Run(b, clock->Run(a, 0).release).end;
}

void FixpipeKernel(half* out) {
    set_nd_para(1);
    copy_matrix_cc_to_gm(out, L0c<float>(), 0, 256, 128, 256, 128, 0, F322F16, 0, false, true);
}

double FixpipeCycles() {
    std::vector<half> out(128 * 256);
    return TimeKernel(FixpipeKernel, 1, KernelType::AicOnly, {Out("out", out)}, Clock(1850),
                      reinterpret_cast<half*>(Gm(out))).Cycles();
}

}  // namespace

std::vector<Figure> CubeFigures() {
    return {
        {"mmad_8x_128x128x64", "8 Mmads of 128 x 128 x 64, half", "UF", "cycles", 2172, Role::Fitted,
         [] { return MmadSequence(128, 128, 64); }},
        {"mmad_8x_128x256x64", "8 Mmads of 128 x 256 x 64, half, unit flag off", "UF", "cycles", 4225, Role::Predicted,
         [] { return MmadSequence(128, 256, 64); }},
        {"mmad_64x64x64", "one Mmad of 64 x 64 x 64 alone (141699 us for 2097152 of them)", "MM case 0", "cycles", 125.0,
         Role::Predicted, [] { return MmadAlone(64, 64, 64); }},
        {"mmad_128x256x64", "one Mmad of 128 x 256 x 64 alone (81477 us for 262144 of them)", "MM case 1", "cycles", 575.0,
         Role::Predicted, [] { return MmadAlone(128, 256, 64); }},
        {"mmad_stream", "cube time of 8192 cubed, blocks of 128 x 256 x 64, 24 cores", "MMB scenario 2", "us", 3082.158,
         Role::Predicted, MmadStreamMicroseconds},
        {"load_l1_l0_16k_32k", "A 128 x 64 and B 64 x 256 from L1 to L0 (2166.8 us, mean of 10922.7 pairs)", "MM case 3",
         "cycles", 367.0, Role::Predicted, [] { return LoadPair(16384, 32768); }},
        {"load_l1_l0_8k_8k", "A 64 x 64 and B 64 x 64 from L1 to L0 (162104 us for 2097152 pairs)", "MM case 0", "cycles",
         143.0, Role::Predicted, [] { return LoadPair(8192, 8192); }},
        {"fixpipe_128x256", "128 x 256 from L0C to GM as half (44.749 us, mean of 85.33 blocks)", "MM case 4", "cycles", 970.2,
         Role::Predicted, FixpipeCycles},
    };
}

}  // namespace twin_figures
