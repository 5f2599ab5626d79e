// SPDX-License-Identifier: Apache-2.0
// twin_trace KERNEL OUT.json [key=value ...]: runs one of the example kernels, prints what the clock makes of it (three
// outlooks, utilisation, critical path) and writes the trace under the expected constants. trace_to_png.py draws it.
#include <cstdio>
#include <cstring>

#include "../clock/report.h"
#include "../examples/common/host.h"
#include "../examples/gather_matmul/gather_matmul_tiling.h"
#include "../examples/matmul/matmul_tiling.h"
#include "../examples/row_softmax/row_softmax_tiling.h"

extern "C" void gather_matmul(uint8_t* table, uint8_t* index, uint8_t* weight, uint8_t* bias, uint8_t* y, uint8_t* columnSum,
                              uint8_t* workspace, GatherMatmulTiling tiling);
extern "C" void matmul(uint8_t* a, uint8_t* b, uint8_t* c, MatmulTiling tiling);
extern "C" void row_softmax(uint8_t* x, uint8_t* y, RowSoftmaxTiling tiling);

namespace {

using namespace cpu_twin;
using example::Arguments;
using example::Buffer;
using example::Element;

Options Traced() {
    Options options;
    options.clocks = AllOutlooks();
    options.timeline = true;
    return options;
}

Report TraceGatherMatmul(Arguments& arguments) {
    GatherMatmulTiling tiling{};
    tiling.tableRows = static_cast<uint32_t>(arguments.Number("table", 4096, 1, 1 << 20));
    tiling.count = static_cast<uint32_t>(arguments.Number("count", 768, 1, 1 << 20));
    tiling.k = static_cast<uint32_t>(arguments.Number("k", 512, 16, GATHER_MATMUL_MAX_K));
    tiling.n = static_cast<uint32_t>(arguments.Number("n", 128, 1, GATHER_MATMUL_MAX_N));
    tiling.tileRows = static_cast<uint32_t>(arguments.Number("tile", 64, 16, 64));
    const auto blocks = static_cast<uint32_t>(arguments.Number("cores", 2, 1, kMaxAic));
    arguments.RefuseUnknown();
    example::Random random(1);
    Buffer table(Element::HALF, size_t{tiling.tableRows} * tiling.k), weight(Element::HALF, size_t{tiling.n} * tiling.k);
    Buffer bias(Element::FLOAT, tiling.n), y(Element::HALF, size_t{tiling.count} * tiling.n), columnSum(Element::FLOAT, tiling.n);
    std::vector<int32_t> index(tiling.count);
    std::vector<uint8_t> workspace(GatherMatmulWorkspace(tiling, blocks));
    table.Fill(random, size_t{tiling.tableRows} * tiling.k, -1.0f, 1.0f);
    weight.Fill(random, size_t{tiling.n} * tiling.k, -1.0f, 1.0f);
    bias.Fill(random, tiling.n, -1.0f, 1.0f);
    for (int32_t& i : index) i = static_cast<int32_t>(random.Next() % tiling.tableRows);
    return Launch(gather_matmul, blocks, KernelType::MixAic1_2,
                  {In("table", table), In("index", index), In("weight", weight), In("bias", bias), Out("y", y),
                   Out("columnSum", columnSum), Workspace("workspace", workspace)},
                  Traced(), Gm(table), Gm(index), Gm(weight), Gm(bias), Gm(y), Gm(columnSum), Gm(workspace), tiling);
}

Report TraceMatmul(Arguments& arguments) {
    MatmulTiling tiling{};
    tiling.m = static_cast<uint32_t>(arguments.Number("m", 512, 1, 1 << 20));
    tiling.n = static_cast<uint32_t>(arguments.Number("n", 512, 1, 65535));
    tiling.k = static_cast<uint32_t>(arguments.Number("k", 512, 1, 65535));
    const auto cores = static_cast<uint32_t>(arguments.Number("cores", 4, 1, kMaxAic));
    arguments.RefuseUnknown();
    example::Random random(1);
    Buffer a(Element::HALF, size_t{tiling.m} * tiling.k), b(Element::HALF, size_t{tiling.k} * tiling.n);
    Buffer c(Element::FLOAT, size_t{tiling.m} * tiling.n);
    a.Fill(random, size_t{tiling.m} * tiling.k, -1.0f, 1.0f);
    b.Fill(random, size_t{tiling.k} * tiling.n, -1.0f, 1.0f);
    return Launch(matmul, cores, KernelType::AicOnly, {In("a", a), In("b", b), Out("c", c)}, Traced(), Gm(a), Gm(b), Gm(c),
                  tiling);
}

Report TraceRowSoftmax(Arguments& arguments) {
    RowSoftmaxTiling tiling{};
    tiling.rows = static_cast<uint32_t>(arguments.Number("rows", 1024, 1, 1 << 20));
    tiling.cols = static_cast<uint32_t>(arguments.Number("cols", 512, 1, ROW_SOFTMAX_MAX_COLS));
    tiling.tileRows = RowSoftmaxMaxTileRows(tiling.cols);
    const auto cores = static_cast<uint32_t>(arguments.Number("cores", 8, 1, kMaxAiv));
    arguments.RefuseUnknown();
    example::Random random(1);
    Buffer x(Element::FLOAT, size_t{tiling.rows} * tiling.cols), y(Element::FLOAT, size_t{tiling.rows} * tiling.cols);
    x.Fill(random, size_t{tiling.rows} * tiling.cols, -4.0f, 4.0f);
    return Launch(row_softmax, cores, KernelType::AivOnly, {In("x", x), Out("y", y)}, Traced(), Gm(x), Gm(y), tiling);
}

struct Kernel {
    const char* name;
    Report (*trace)(Arguments&);
};
constexpr Kernel kKernels[] = {
    {"gather_matmul", TraceGatherMatmul}, {"matmul", TraceMatmul}, {"row_softmax", TraceRowSoftmax}};

}  // namespace

int main(int argc, char** argv) {
    if (argc >= 3) {
        for (const Kernel& kernel : kKernels) {
            if (std::strcmp(argv[1], kernel.name) != 0) continue;
            try {
                Arguments arguments(argc - 2, argv + 2);
                const Report report = kernel.trace(arguments);
                std::printf("%s", OutlookText(report).c_str());
                std::printf("%s", UtilisationText(report, report.times.front()).c_str());
                std::printf("%s", CriticalPathText(report, report.times.front()).c_str());
                WriteTrace(report, report.times.front(), kernel.name, argv[2]);
                if (!report.ok()) std::fprintf(stderr, "%s", report.Text().c_str());
                return report.ok() ? 0 : 1;
            } catch (const std::exception& error) {
                std::fprintf(stderr, "%s\n", error.what());
                return 2;
            }
        }
        std::fprintf(stderr, "no example kernel is called %s\n", argv[1]);
    }
    std::fprintf(stderr, "usage: %s gather_matmul|matmul|row_softmax OUT.json [key=value ...]\n", argv[0]);
    return 2;
}
