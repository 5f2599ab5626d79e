// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "../common/host.h"
#include "matmul_tiling.h"

namespace {
std::vector<double> Doubles(const example::Buffer& buffer, size_t count)
{
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) {
        values[i] = static_cast<double>(buffer.Get(i));
    }
    return values;
}
}  // namespace

extern "C" void matmul(uint8_t* a, uint8_t* b, uint8_t* c, MatmulTiling tiling);

int main(int argc, char** argv)
{
    using namespace example;
    const char* usage =
        "[m=200] [n=150] [k=300] [transpose=0] [in=half|bfloat16] [out=float|half|bfloat16] [cores=4] [seed=1] "
        "[order=0] "
        "[check=1] [verify=1]";
    return Main(argc, argv, usage, [](Arguments& arguments) {
        MatmulTiling tiling{};
        tiling.m = static_cast<uint32_t>(arguments.Number("m", 200, 1, 1 << 20));
        tiling.n = static_cast<uint32_t>(arguments.Number("n", 150, 1, 65535));
        tiling.k = static_cast<uint32_t>(arguments.Number("k", 300, 1, 65535));
        tiling.transposeB = static_cast<uint32_t>(arguments.Number("transpose", 0, 0, 1));
        const Element in = ReadElement(arguments, "in", "half");
        const Element out = ReadElement(arguments, "out", "float");
        if (in == Element::FLOAT) {
            throw std::invalid_argument("in: expected half or bfloat16, got 'float'");
        }
        tiling.input = in == Element::HALF ? MatmulInput::HALF : MatmulInput::BFLOAT16;
        tiling.output = static_cast<MatmulOutput>(out);
        const auto cores = static_cast<uint32_t>(arguments.Number("cores", 4, 1, cpu_twin::kMaxAic));
        const bool verify = arguments.Number("verify", 1, 0, 1) != 0;
        Random random(arguments.Number("seed", 1, 0, UINT64_MAX));
        const RunOptions run = ReadRunOptions(arguments);
        arguments.RefuseUnknown();

        const size_t m = tiling.m, n = tiling.n, k = tiling.k;
        Buffer a(in, m * k);
        Buffer b(in, k * n);
        Buffer c(out, m * n);
        a.Fill(random, m * k, -1.0f, 1.0f);
        b.Fill(random, k * n, -1.0f, 1.0f);
        const auto report = cpu_twin::Launch(matmul, cores, cpu_twin::KernelType::AicOnly,
                                             {cpu_twin::In("a", a), cpu_twin::In("b", b), cpu_twin::Out("c", c)},
                                             run.launch, cpu_twin::Gm(a), cpu_twin::Gm(b), cpu_twin::Gm(c), tiling);

        Comparison comparison;
        const std::vector<double> left = Doubles(a, m * k);
        const std::vector<double> right = Doubles(b, k * n);
        std::vector<double> sum(n);
        std::vector<double> size(n);
        for (size_t row = 0; verify && row < m; ++row) {
            std::fill(sum.begin(), sum.end(), 0.0);
            std::fill(size.begin(), size.end(), 0.0);
            for (size_t i = 0; i < k; ++i) {
                const double factor = left[row * k + i];
                const double* other = &right[tiling.transposeB != 0 ? i : i * n];
                const size_t step = tiling.transposeB != 0 ? k : 1;
                for (size_t column = 0; column < n; ++column) {
                    const double product = factor * other[column * step];
                    sum[column] += product;
                    size[column] += std::abs(product);
                }
            }
            for (size_t column = 0; column < n; ++column) {
                // One rounding of the result, and float32 accumulation of k products.
                const double allowed = std::abs(sum[column]) * Spacing(out) * 0.51 +
                                       size[column] * static_cast<double>(k) * 0x1p-24 + 1e-30;
                comparison.Add(row * n + column, c.Get(row * n + column), sum[column], allowed);
            }
        }
        if (verify) {
            comparison.Print("c");
        }
        std::printf("seconds %.3f\n", report.stats.seconds);
        return Finish(report, run, comparison.Passed(), Hash(c.data(), c.size()));
    });
}
