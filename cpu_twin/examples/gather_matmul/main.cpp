// SPDX-License-Identifier: Apache-2.0
#include "../common/host.h"
#include "gather_matmul_tiling.h"

extern "C" void gather_matmul(uint8_t* table, uint8_t* index, uint8_t* weight, uint8_t* bias, uint8_t* y,
                              uint8_t* columnSum, uint8_t* workspace, GatherMatmulTiling tiling);

int main(int argc, char** argv)
{
    using namespace example;
    const char* usage = "[table=300] [count=333] [k=192] [n=100] [tile=32] [cores=3] [seed=1] [order=0] [check=1]";
    return Main(argc, argv, usage, [](Arguments& arguments) {
        GatherMatmulTiling tiling{};
        tiling.tableRows = static_cast<uint32_t>(arguments.Number("table", 300, 1, 1 << 20));
        tiling.count = static_cast<uint32_t>(arguments.Number("count", 333, 1, 1 << 20));
        tiling.k = static_cast<uint32_t>(arguments.Number("k", 192, 16, GATHER_MATMUL_MAX_K));
        tiling.n = static_cast<uint32_t>(arguments.Number("n", 100, 1, GATHER_MATMUL_MAX_N));
        tiling.tileRows = static_cast<uint32_t>(arguments.Number("tile", 32, 16, 64));
        if (tiling.k % 16 != 0) {
            throw std::invalid_argument("k: expected a multiple of 16");
        }
        if (tiling.tileRows != 16 && tiling.tileRows != 32 && tiling.tileRows != 64) {
            throw std::invalid_argument("tile: expected 16, 32 or 64");
        }
        const auto blocks = static_cast<uint32_t>(arguments.Number("cores", 3, 1, cpu_twin::kMaxAic));
        Random random(arguments.Number("seed", 1, 0, UINT64_MAX));
        const RunOptions run = ReadRunOptions(arguments);
        arguments.RefuseUnknown();

        const size_t k = tiling.k, n = tiling.n, count = tiling.count;
        Buffer table(Element::HALF, tiling.tableRows * k);
        Buffer weight(Element::HALF, n * k);
        Buffer bias(Element::FLOAT, n);
        std::vector<int32_t> index(count);
        Buffer y(Element::HALF, count * n);
        Buffer columnSum(Element::FLOAT, n);
        std::vector<uint8_t> workspace(GatherMatmulWorkspace(tiling, blocks));
        table.Fill(random, tiling.tableRows * k, -1.0f, 1.0f);
        weight.Fill(random, n * k, -1.0f, 1.0f);
        bias.Fill(random, n, -1.0f, 1.0f);
        for (int32_t& i : index) {    // one in eight lies outside the table, on either side
            i = static_cast<int32_t>(random.Next() % tiling.tableRows);
            if (random.Next() % 8 == 0) {
                i = random.Next() % 2 == 0 ? -1 - i : i + static_cast<int32_t>(tiling.tableRows);
            }
        }
        const auto report = cpu_twin::Launch(
            gather_matmul, blocks, cpu_twin::KernelType::MixAic1_2,
            {cpu_twin::In("table", table), cpu_twin::In("index", index), cpu_twin::In("weight", weight),
             cpu_twin::In("bias", bias), cpu_twin::Out("y", y), cpu_twin::Out("columnSum", columnSum),
             cpu_twin::Workspace("workspace", workspace)},
            run.launch, cpu_twin::Gm(table), cpu_twin::Gm(index), cpu_twin::Gm(weight), cpu_twin::Gm(bias),
            cpu_twin::Gm(y), cpu_twin::Gm(columnSum), cpu_twin::Gm(workspace), tiling);

        Comparison rows;
        Comparison sums;
        std::vector<double> expectedSum(n, 0.0);
        std::vector<double> sizeOfSum(n, 0.0);
        for (size_t t = 0; t < count; ++t) {
            const bool inside = index[t] >= 0 && static_cast<uint32_t>(index[t]) < tiling.tableRows;
            for (size_t column = 0; column < n; ++column) {
                double value = bias.Get(column);
                double size = std::abs(value);
                for (size_t i = 0; inside && i < k; ++i) {
                    const double product = static_cast<double>(table.Get(static_cast<size_t>(index[t]) * k + i)) *
                                           static_cast<double>(weight.Get(column * k + i));
                    value += product;
                    size += std::abs(product);
                }
                rows.Add(t * n + column, y.Get(t * n + column), value,
                         std::abs(value) * 0.51 * 0x1p-10 + size * static_cast<double>(k) * 0x1p-24 + 0x1p-25);
                expectedSum[column] += value;
                sizeOfSum[column] += size;
            }
        }
        for (size_t column = 0; column < n; ++column) {
            sums.Add(column, columnSum.Get(column), expectedSum[column],
                     sizeOfSum[column] * static_cast<double>(k + count) * 0x1p-24 + 1e-30);
        }
        rows.Print("y");
        sums.Print("columnSum");
        const uint64_t hash = Hash(columnSum.data(), columnSum.size(), Hash(y.data(), y.size()));
        return Finish(report, run, rows.Passed() && sums.Passed(), hash);
    });
}
