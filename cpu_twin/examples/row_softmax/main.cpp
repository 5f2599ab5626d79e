// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "../common/host.h"
#include "row_softmax_tiling.h"

extern "C" void row_softmax(uint8_t* x, uint8_t* y, RowSoftmaxTiling tiling);

int main(int argc, char** argv)
{
    using namespace example;
    const char* usage =
        "[rows=50] [cols=100] [type=float|half|bfloat16] [cores=4] [tile=16] [seed=1] [order=0] [check=1]";
    return Main(argc, argv, usage, [](Arguments& arguments) {
        RowSoftmaxTiling tiling{};
        tiling.rows = static_cast<uint32_t>(arguments.Number("rows", 50, 1, 1 << 20));
        tiling.cols = static_cast<uint32_t>(arguments.Number("cols", 100, 1, ROW_SOFTMAX_MAX_COLS));
        const uint32_t fitting = RowSoftmaxMaxTileRows(tiling.cols);
        tiling.tileRows = static_cast<uint32_t>(arguments.Number("tile", std::min(16u, fitting), 8, fitting));
        if (tiling.tileRows % 8 != 0) {
            throw std::invalid_argument("tile: expected a multiple of 8");
        }
        const Element type = ReadElement(arguments, "type", "float");
        tiling.type = static_cast<SoftmaxType>(type);
        const auto cores = static_cast<uint32_t>(arguments.Number("cores", 4, 1, cpu_twin::kMaxAiv));
        Random random(arguments.Number("seed", 1, 0, UINT64_MAX));
        const RunOptions run = ReadRunOptions(arguments);
        arguments.RefuseUnknown();

        const size_t count = static_cast<size_t>(tiling.rows) * tiling.cols;
        Buffer x(type, count);
        Buffer y(type, count);
        x.Fill(random, count, -8.0f, 8.0f);
        const auto report = cpu_twin::Launch(row_softmax, cores, cpu_twin::KernelType::AivOnly,
                                             {cpu_twin::In("x", x), cpu_twin::Out("y", y)}, run.launch, cpu_twin::Gm(x),
                                             cpu_twin::Gm(y), tiling);

        Comparison comparison;
        for (size_t row = 0; row < tiling.rows; ++row) {
            double largest = -INFINITY;
            double sum = 0;
            for (size_t i = row * tiling.cols; i < (row + 1) * tiling.cols; ++i) {
                largest = std::max(largest, static_cast<double>(x.Get(i)));
            }
            for (size_t i = row * tiling.cols; i < (row + 1) * tiling.cols; ++i) {
                sum += std::exp(x.Get(i) - largest);
            }
            for (size_t i = row * tiling.cols; i < (row + 1) * tiling.cols; ++i) {
                const double expected = std::exp(x.Get(i) - largest) / sum;
                // One rounding of the result, some of float arithmetic before, and half's smallest step near zero.
                comparison.Add(i, y.Get(i), expected, expected * (Spacing(type) * 0.51 + 32 * 0x1p-23) + 0x1p-25);
            }
        }
        comparison.Print("y");
        return Finish(report, run, comparison.Passed(), Hash(y.data(), y.size()));
    });
}
