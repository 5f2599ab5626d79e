// SPDX-License-Identifier: Apache-2.0
// The smallest whole program: a kernel of a dozen lines that doubles 64 numbers on one vector core, and its host code.
#include <cstdio>
#include <numeric>

#include "kernel_operator.h"
#include "launch.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void hello(GM_ADDR x, GM_ADDR y)
{
    LocalTensor<float> tile(TPosition::VECIN, 0, 64);
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float*)x);
    out.SetGlobalBuffer((__gm__ float*)y);
    DataCopy(tile, in, 64);
    SetFlag<HardEvent::MTE2_V>(0);    // leave a pair out: the checker names both lines of the race
    WaitFlag<HardEvent::MTE2_V>(0);
    Muls(tile, tile, 2.0f, 64);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(out, tile, 64);
}

int main()
{
    std::vector<float> x(64), y(64);
    std::iota(x.begin(), x.end(), 0.0f);
    const auto report = cpu_twin::Launch(hello, /*blockDim=*/1, cpu_twin::KernelType::AivOnly,
                                         {cpu_twin::In("x", x), cpu_twin::Out("y", y)}, {}, cpu_twin::Gm(x),
                                         cpu_twin::Gm(y));
    std::printf("%g %g ... %g\n%s", y[0], y[1], y[63], report.Text().c_str());
    return report.ok() ? 0 : 1;
}
