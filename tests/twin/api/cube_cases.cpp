// SPDX-License-Identifier: Apache-2.0
// The cube unit by the API's own parameters: every way into L0, where C starts from, every way out of L0C.
//
// Small whole numbers throughout: products and sums are exact, so results are compared for equality.
#include "harness.h"

namespace api_test {

namespace {

constexpr uint32_t BLOCK = 16;    // a fractal of 16-bit elements is 16 x 16
constexpr uint32_t FRACTAL = BLOCK * BLOCK;

template <typename T> std::vector<T> Whole(Random& random, size_t count)
{
    std::vector<T> values(count);
    for (T& value : values) {
        value = static_cast<T>(static_cast<float>(random.Below(9)) - 4.0f);
    }
    return values;
}
uint32_t Up(uint32_t value) { return (value + BLOCK - 1) / BLOCK * BLOCK; }

// a is [m, k], b is [n, k].
template <typename T>
std::vector<float> Product(const std::vector<T>& a, const std::vector<T>& b, uint32_t m, uint32_t n, uint32_t k)
{
    std::vector<float> c(static_cast<size_t>(m) * n);
    for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
            for (uint32_t l = 0; l < k; ++l) {
                c[i * n + j] += static_cast<float>(a[i * k + l]) * static_cast<float>(b[j * k + l]);
            }
        }
    }
    return c;
}
template <typename T> std::vector<T> Transposed(const std::vector<T>& x, uint32_t rows, uint32_t columns)
{
    std::vector<T> y(x.size());
    for (uint32_t i = 0; i < rows; ++i) {
        for (uint32_t j = 0; j < columns; ++j) {
            y[j * rows + i] = x[i * columns + j];
        }
    }
    return y;
}

template <typename T> LocalTensor<T> At(TPosition position, uint32_t address, uint32_t bytes)
{
    return LocalTensor<T>(position, address, bytes / sizeof(T));
}
template <typename T> LocalTensor<T> L1a() { return At<T>(TPosition::A1, 0, 1 << 17); }
template <typename T> LocalTensor<T> L1b() { return At<T>(TPosition::B1, 1 << 17, 1 << 17); }
template <typename T> LocalTensor<T> L0a() { return At<T>(TPosition::A2, 0, 1 << 16); }
template <typename T> LocalTensor<T> L0b() { return At<T>(TPosition::B2, 0, 1 << 16); }
template <typename T> LocalTensor<T> L0c() { return At<T>(TPosition::CO1, 0, 1 << 17); }

template <typename T> void ToNz(const LocalTensor<T>& dst, const std::vector<T>& src, uint32_t rows, uint32_t columns)
{
    Nd2NzParams params;
    params.ndNum = 1;
    params.nValue = static_cast<uint16_t>(rows);
    params.dValue = static_cast<uint16_t>(columns);
    params.srcDValue = static_cast<uint16_t>(columns);
    params.dstNzC0Stride = static_cast<uint16_t>(Up(rows));
    params.dstNzNStride = 1;
    DataCopy(dst, Global(src), params);
}
// NZ of [rows, columns] in L1 becomes fractals by (row, column) in L0A.
template <typename T> LoadData3DParamsV2<T> Image(uint32_t rows, uint32_t columns)
{
    LoadData3DParamsV2<T> params;
    params.l1H = 1;
    params.l1W = static_cast<uint16_t>(rows);
    params.channelSize = static_cast<uint16_t>(columns);
    params.kExtension = static_cast<uint16_t>(columns);
    params.mExtension = static_cast<uint16_t>(rows);
    return params;
}
// NZ of [n, k] in L1 is in L0B's order.
template <typename T> void LoadRight(uint32_t n, uint32_t k)
{
    const auto fractals = static_cast<uint8_t>(n / BLOCK * (k * sizeof(T) / 32));
    LoadData(L0b<T>(), L1b<T>(), LoadData2DParams(0, fractals, 1, 0, 0, false, 0));
}
MmadParams Sizes(uint32_t m, uint32_t n, uint32_t k, bool fromZero = true)
{
    MmadParams params;
    params.m = static_cast<uint16_t>(m);
    params.n = static_cast<uint16_t>(n);
    params.k = static_cast<uint16_t>(k);
    params.cmatrixInitVal = fromZero;
    return params;
}
template <typename T> void RowsOut(std::vector<T>& c, uint32_t m, uint32_t n, QuantMode_t quant = QuantMode_t::NoQuant)
{
    FixpipeParamsV220 params(static_cast<uint16_t>(n), static_cast<uint16_t>(m), static_cast<uint16_t>(Up(m)), n,
                             false);
    params.quantPre = quant;
    PipeBarrier<PIPE_ALL>();
    Fixpipe(Global(c), L0c<float>(), params);
}
// a [m, k] and b [n, k] into L0, c = a b^T (+ what C held) in L0C; sizes are multiples of 16.
template <typename T>
void Multiply(const std::vector<T>& a, const std::vector<T>& b, uint32_t m, uint32_t n, uint32_t k,
              const MmadParams& how)
{
    ToNz(L1a<T>(), a, m, k);
    ToNz(L1b<T>(), b, n, k);
    PipeBarrier<PIPE_ALL>();
    LoadData(L0a<T>(), L1a<T>(), Image<T>(m, k));
    LoadRight<T>(n, k);
    PipeBarrier<PIPE_ALL>();
    Mmad(L0c<float>(), L0a<T>(), L0b<T>(), how);
}

template <typename T> void SeveralWaysIn(QuantMode_t)
{
    Random random(11);
    for (int round = 0; round < 4; ++round) {
        const uint32_t m = BLOCK * (1 + random.Below(3)), n = BLOCK * (1 + random.Below(3)),
                       k = BLOCK * (1 + random.Below(4));
        const auto a = Whole<T>(random, m * k), b = Whole<T>(random, n * k);
        const auto turnedA = Transposed(a, m, k), turnedB = Transposed(b, n, k);
        const auto want = Product(a, b, m, n, k);
        for (int way = 0; way < 5; ++way) {
            std::vector<float> c(m * n);
            const Report report =
                OnCube({cpu_twin::In("a", a), cpu_twin::In("b", b), cpu_twin::In("turnedA", turnedA),
                        cpu_twin::In("turnedB", turnedB), cpu_twin::Out("c", c)},
                       [&] {
                           const auto mFractals = static_cast<uint16_t>(m / BLOCK),
                                      nFractals = static_cast<uint16_t>(n / BLOCK);
                           const auto kFractals = static_cast<uint16_t>(k / BLOCK);
                           ToNz(L1a<T>(), way == 2 || way == 4 ? turnedA : a, way == 2 || way == 4 ? k : m,
                                way == 2 || way == 4 ? m : k);
                           ToNz(L1b<T>(), way >= 3 ? turnedB : b, way >= 3 ? k : n, way >= 3 ? n : k);
                           PipeBarrier<PIPE_ALL>();
                           switch (way) {
                               case 0: LoadData(L0a<T>(), L1a<T>(), Image<T>(m, k)); break;
                               case 4: {    // a [k, m] by the transposing 3D load
                                   auto params = Image<T>(k, m);
                                   params.kExtension = static_cast<uint16_t>(m);
                                   params.mExtension = static_cast<uint16_t>(k);
                                   params.enTranspose = true;
                                   LoadData(L0a<T>(), L1a<T>(), params);
                                   break;
                               }
                               case 2:    // a [k, m] fractal by fractal, each turned: k runs within a row of L0A
                                   for (uint16_t i = 0; i < mFractals; ++i) {
                                       LoadData(L0a<T>()[i * kFractals * FRACTAL], L1a<T>(),
                                                LoadData2DParams(static_cast<uint16_t>(i * kFractals),
                                                                 static_cast<uint8_t>(kFractals), 1, 0, 0, true, 0));
                                   }
                                   break;
                               case 3:    // row of fractals by row of fractals, from the last one to the first
                                   for (uint16_t i = 0; i < mFractals; ++i) {
                                       for (uint16_t j = 0; j < kFractals; ++j) {
                                           LoadData(L0a<T>()[(i * kFractals + j) * FRACTAL], L1a<T>(),
                                                    LoadData2DParams(static_cast<uint16_t>(j * mFractals + i), 1, 1, 0,
                                                                     0, false, 1));
                                       }
                                   }
                                   break;
                               default:    // column of fractals by column of fractals, with gaps in L0A
                                   for (uint16_t j = 0; j < kFractals; ++j) {
                                       LoadData(L0a<T>()[j * FRACTAL], L1a<T>(),
                                                LoadData2DParams(static_cast<uint16_t>(j * mFractals),
                                                                 static_cast<uint8_t>(mFractals), 1, 0,
                                                                 static_cast<uint16_t>(kFractals - 1), false, 0));
                                   }
                           }
                           if (way < 3) {
                               LoadRight<T>(n, k);
                           } else if (way == 3) {    // b [k, n]: a row of square matrices at a time
                               for (uint16_t i = 0; i < kFractals; ++i) {
                                   LoadDataWithTranspose(
                                       L0b<T>()[i * nFractals * FRACTAL], L1b<T>(),
                                       LoadData2dTransposeParams(i, static_cast<uint8_t>(nFractals), kFractals, 0, 0));
                               }
                           } else {    // b [k, n] as image columns, which L0B always takes turned
                               LoadData(L0b<T>(), L1b<T>(), Image<T>(k, n));
                           }
                           PipeBarrier<PIPE_ALL>();
                           Mmad(L0c<float>(), L0a<T>(), L0b<T>(), Sizes(m, n, k));
                           RowsOut(c, m, n);
                       });
            EXPECT_CLEAN(report);
            EXPECT(c == want, "way " + std::to_string(way) + ", " + std::to_string(m) + " x " + std::to_string(n) +
                                  " x " + std::to_string(k));
        }
    }
}

}    // namespace

API_TEST(every_way_into_l0_half) { SeveralWaysIn<half>(QuantMode_t::F322F16); }
API_TEST(every_way_into_l0_bfloat16) { SeveralWaysIn<bfloat16_t>(QuantMode_t::F322BF16); }

API_TEST(c_starts_from_zero_from_itself_or_from_a_bias)
{
    Random random(12);
    const uint32_t m = 32, n = 48, k = 32;
    const auto a = Whole<half>(random, m * k), b = Whole<half>(random, n * k);
    const auto bias = Whole<float>(random, n);
    const auto product = Product(a, b, m, n, k);
    for (int way = 0; way < 5; ++way) {
        std::vector<float> c(m * n), want(m * n);
        const Report report = OnCube(
            {cpu_twin::In("a", a), cpu_twin::In("b", b), cpu_twin::In("bias", bias), cpu_twin::Out("c", c)}, [&] {
                const auto table = At<float>(TPosition::C2, 0, n * sizeof(float));
                const auto staged = At<float>(TPosition::C1, 1 << 18, n * sizeof(float));
                DataCopy(staged, Global(bias), n);
                PipeBarrier<PIPE_ALL>();
                DataCopy(table, staged, DataCopyParams(1, n * sizeof(float) / 64, 0, 0));
                Multiply(a, b, m, n, k, Sizes(m, n, k));
                PipeBarrier<PIPE_ALL>();
                switch (way) {
                    case 0: break;
                    case 1: Mmad(L0c<float>(), L0a<half>(), L0b<half>(), Sizes(m, n, k, false)); break;
                    case 2: {
                        auto params = Sizes(m, n, k);
                        params.isBias = true;
                        Mmad(L0c<float>(), L0a<half>(), L0b<half>(), params);
                        break;
                    }
                    case 3: Mmad(L0c<float>(), L0a<half>(), L0b<half>(), table, Sizes(m, n, k, false)); break;
                    default: Mmad(L0c<float>(), L0a<half>(), L0b<half>(), L0c<float>(), Sizes(m, n, k, false));
                }
                RowsOut(c, m, n);
            });
        for (uint32_t i = 0; i < m * n; ++i) {
            want[i] = way == 0 ? product[i] : way == 3 ? product[i] + bias[i % n] : 2 * product[i];
        }
        EXPECT_CLEAN(report);
        EXPECT(c == want, "way " + std::to_string(way));
    }
}

API_TEST(int8_and_float_operands)
{
    Random random(13);
    const uint32_t m = 32, n = 16, k = 64;
    const auto a = Whole<int8_t>(random, m * k), b = Whole<int8_t>(random, n * k);
    const auto x = Whole<float>(random, m * k), y = Whole<float>(random, n * k);
    std::vector<int32_t> c(m * n);
    std::vector<half> scaled(m * n);
    std::vector<float> z(m * n);
    const Report report =
        OnCube({cpu_twin::In("a", a), cpu_twin::In("b", b), cpu_twin::In("x", x), cpu_twin::In("y", y),
                cpu_twin::Out("c", c), cpu_twin::Out("scaled", scaled), cpu_twin::Out("z", z)},
               [&] {
                   ToNz(L1a<int8_t>(), a, m, k);
                   ToNz(L1b<int8_t>(), b, n, k);
                   PipeBarrier<PIPE_ALL>();
                   LoadData(L0a<int8_t>(), L1a<int8_t>(), Image<int8_t>(m, k));
                   LoadRight<int8_t>(n, k);
                   PipeBarrier<PIPE_ALL>();
                   Mmad(L0c<int32_t>(), L0a<int8_t>(), L0b<int8_t>(), Sizes(m, n, k));
                   PipeBarrier<PIPE_ALL>();
                   FixpipeParamsV220 out(n, m, m, n, false);
                   Fixpipe(Global(c), L0c<int32_t>(), out);
                   out.quantPre = QuantMode_t::DEQF16;
                   const float scale = 0.25f;
                   uint32_t bits;
                   std::memcpy(&bits, &scale, sizeof(bits));
                   out.deqScalar = bits;
                   Fixpipe(Global(scaled), L0c<int32_t>(), out);
                   PipeBarrier<PIPE_ALL>();
                   Multiply(x, y, m, n, k, Sizes(m, n, k));
                   RowsOut(z, m, n);
               });
    const auto want = Product(a, b, m, n, k);
    bool same = true;
    for (uint32_t i = 0; i < m * n; ++i) {
        same = same && static_cast<float>(c[i]) == want[i] && static_cast<float>(scaled[i]) == want[i] * 0.25f;
    }
    EXPECT_CLEAN(report);
    EXPECT(same, "int8");
    EXPECT(z == Product(x, y, m, n, k), "float");
}

API_TEST(results_leave_l0c_in_rows)
{
    Random random(14);
    const uint32_t m = 20, n = 32, k = 16, row = 40, distance = 25 * row;
    const auto a = Whole<half>(random, 32 * k), b = Whole<half>(random, n * k);
    const auto product = Product(a, b, m, n, k);
    std::vector<bfloat16_t> c(2 * distance, bfloat16_t(99.0f));
    const Report report = OnCube({cpu_twin::In("a", a), cpu_twin::In("b", b), cpu_twin::InOut("c", c)}, [&] {
        Multiply(a, b, 32, n, k, Sizes(m, n, k));
        // Both column pairs of fractals, as two matrices of 16 columns each.
        FixpipeParamsV220 params(16, m, 32, row, true, QuantMode_t::F322BF16, 0, 2, 2, distance, 0);
        PipeBarrier<PIPE_ALL>();
        Fixpipe<bfloat16_t, float, CFG_ROW_MAJOR>(Global(c), L0c<float>(), params);
    });
    EXPECT_CLEAN(report);
    bool same = true;
    for (uint32_t i = 0; i < 2 * distance; ++i) {
        const uint32_t matrix = i / distance, y = i % distance / row, x = i % row;
        const bool written = y < m && x < 16;
        const float want = written ? std::max(product[y * n + matrix * 16 + x], 0.0f) : 99.0f;
        same = same && static_cast<float>(c[i]) == want;
    }
    EXPECT(same, "");
}

API_TEST(results_leave_l0c_in_columns_of_fractals)
{
    Random random(15);
    const uint32_t m = 32, n = 32, k = 16;
    const auto a = Whole<half>(random, m * k), b = Whole<half>(random, n * k);
    const auto product = Product(a, b, m, n, k);
    Aligned<half> nz(m * n), viaL1(m * n);
    Aligned<float> split(m * n), wide(m * n);
    const Report report =
        OnCube({cpu_twin::In("a", a), cpu_twin::In("b", b), cpu_twin::Out("nz", nz), cpu_twin::Out("viaL1", viaL1),
                cpu_twin::Out("split", split), cpu_twin::Out("wide", wide)},
               [&] {
                   Multiply(a, b, m, n, k, Sizes(m, n, k));
                   PipeBarrier<PIPE_ALL>();
                   FixpipeParamsV220 params(n, m, m, m, false);
                   params.quantPre = QuantMode_t::F322F16;
                   Fixpipe<half, float, CFG_NZ>(Global(nz), L0c<float>(), params);
                   Fixpipe<half, float, CFG_NZ>(L1a<half>(), L0c<float>(), params);
                   params.quantPre = QuantMode_t::NoQuant;
                   params.dstStride = 2 * m;    // 16 floats are two blocks
                   Fixpipe<float, float, CFG_NZ>(Global(wide), L0c<float>(), params);
                   params.dstStride = m;
                   params.isChannelSplit = true;    // columns of 8
                   Fixpipe<float, float, CFG_NZ>(Global(split), L0c<float>(), params);
                   PipeBarrier<PIPE_ALL>();
                   DataCopy(Global(viaL1), L1a<half>(), m * n);
               });
    EXPECT_CLEAN(report);
    bool same = true;
    for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
            const float want = product[i * n + j];
            const uint32_t at16 = j / 16 * m * 16 + i * 16 + j % 16, at8 = j / 8 * m * 8 + i * 8 + j % 8;
            same = same && static_cast<float>(nz[at16]) == want && static_cast<float>(viaL1[at16]) == want &&
                   wide[at16] == want && split[at8] == want;
        }
    }
    EXPECT(same, "");
}

API_TEST(unit_flags_replace_events)
{
    Random random(16);
    const uint32_t m = 64, n = 48, k = 32;
    const auto a = Whole<half>(random, m * k), b = Whole<half>(random, n * k);
    std::vector<float> c(m * n), want = Product(a, b, m, n, k);
    const auto run = [&](uint8_t last, uint8_t out) {
        return OnCube({cpu_twin::In("a", a), cpu_twin::In("b", b), cpu_twin::Out("c", c)}, [&] {
            auto params = Sizes(m, n, k);
            params.unitFlag = 2;
            Multiply(a, b, m, n, k, params);
            params.unitFlag = last;
            params.cmatrixInitVal = false;
            Mmad(L0c<float>(), L0a<half>(), L0b<half>(), params);
            Fixpipe(Global(c), L0c<float>(),
                    FixpipeParamsV220(n, m, m, n, false, QuantMode_t::NoQuant, 0, 1, 0, 0, out));
        });
    };
    EXPECT_CLEAN(run(3, 3));
    for (float& value : want) {
        value *= 2;
    }
    EXPECT(c == want, "");
    EXPECT(!run(0, 0).ok(), "the same kernel without unit flags must be a race");
}

API_TEST(padding_and_the_matrix_registers)
{
    // A 3 x 3 filter over one 4 x 4 image of 16 channels, one pixel of padding: row (y, x) of the result is the 9
    // pixels around it.
    Random random(17);
    const uint32_t side = 4, points = side * side, channels = 16, k = 9 * channels;
    const auto image = Whole<half>(random, points * channels), weight = Whole<half>(random, BLOCK * k);
    const half border(2.0f);
    std::vector<float> c(points * BLOCK), again(points * BLOCK), want(points * BLOCK);
    const Report report = OnCube({cpu_twin::In("image", image), cpu_twin::In("weight", weight), cpu_twin::Out("c", c),
                                  cpu_twin::Out("again", again)},
                                 [&] {
                                     DataCopy(L1a<half>(), Global(image), points * channels);
                                     ToNz(L1b<half>(), weight, BLOCK, k);
                                     PipeBarrier<PIPE_ALL>();
                                     const uint8_t padding[4] = {1, 1, 1, 1};
                                     const LoadData3DParamsV2<half> params(padding, side, side, channels, k, points, 0,
                                                                           0, 1, 1, 3, 3, 1, 1, false, false, border);
                                     LoadData(L0a<half>(), L1a<half>(), params);
                                     LoadRight<half>(BLOCK, k);
                                     PipeBarrier<PIPE_ALL>();
                                     Mmad(L0c<float>(), L0a<half>(), L0b<half>(), Sizes(points, BLOCK, k));
                                     RowsOut(c, points, BLOCK);
                                     PipeBarrier<PIPE_ALL>();
                                     // The same with the registers set by hand and left alone by the load.
                                     SetFmatrix(side, side, padding, FmatrixMode::FMATRIX_LEFT);
                                     SetLoadDataPaddingValue(border);
                                     auto bare = params;
                                     bare.l1H = bare.l1W = 1;
                                     bare.padValue = half(0.0f);
                                     static constexpr IsResetLoad3dConfig KEEP = {false, false};
                                     LoadData<half, KEEP>(L0a<half>(), L1a<half>(), bare);
                                     PipeBarrier<PIPE_ALL>();
                                     Mmad(L0c<float>(), L0a<half>(), L0b<half>(), Sizes(points, BLOCK, k));
                                     RowsOut(again, points, BLOCK);
                                 });
    for (uint32_t p = 0; p < points; ++p) {
        for (uint32_t j = 0; j < BLOCK; ++j) {
            for (uint32_t tap = 0; tap < 9; ++tap) {
                const uint32_t y = p / side + tap / 3 - 1, x = p % side + tap % 3 - 1;
                for (uint32_t channel = 0; channel < channels; ++channel) {
                    const float pixel =
                        y < side && x < side ? float(image[(y * side + x) * channels + channel]) : float(border);
                    want[p * BLOCK + j] += pixel * float(weight[j * k + tap * channels + channel]);
                }
            }
        }
    }
    EXPECT_CLEAN(report);
    EXPECT(c == want, "parameters");
    EXPECT(again == want, "registers");
}

API_TEST(constants_fill_l1_and_l0)
{
    std::vector<half> l1(96);
    std::vector<float> c(BLOCK * BLOCK);
    const Report report = OnCube({cpu_twin::Out("l1", l1), cpu_twin::Out("c", c)}, [&] {
        Fill(L1a<half>(), InitConstValueParams<half>(1, 6, 0, half(7.0f)));
        PipeBarrier<PIPE_ALL>();
        InitConstValue(L1a<half>(), InitConstValueParams<half>(2, 1, 2, half(1.5f)));    // blocks 0 and 3
        Fill(L0a<half>(), InitConstValueParams<half>(1, 1, 0, half(2.0f)));
        Fill(L0b<half>(), InitConstValueParams<half>(1, half(3.0f)));
        Fill(L0b<half>(), InitConstValueParams<half>(1, 1, 0, half(3.0f)));
        PipeBarrier<PIPE_ALL>();
        DataCopy(Global(l1), L1a<half>(), 96);
        Mmad(L0c<float>(), L0a<half>(), L0b<half>(), Sizes(BLOCK, BLOCK, BLOCK));
        RowsOut(c, BLOCK, BLOCK);
    });
    EXPECT(report.findings.empty() || report.findings[0].rule != Rule::KernelError, report.Text());
    bool same = true;
    for (uint32_t i = 0; i < 96; ++i) {
        same = same && float(l1[i]) == (i / 16 % 3 == 0 ? 1.5f : 7.0f);
    }
    EXPECT(same, "L1");
    EXPECT(c == std::vector<float>(BLOCK * BLOCK, 96.0f), std::to_string(c[0]));
}

API_TEST(cube_calls_refuse_what_the_hardware_lacks)
{
    const auto load2d = [](uint8_t sid, bool turn, uint8_t mode) {
        return LoadData2DParams(0, 1, 1, sid, 0, turn, mode);
    };
    EXPECT_REFUSED(AicOnly, "sid is obsolete", LoadData(L0a<half>(), L1a<half>(), load2d(1, false, 0)));
    EXPECT_REFUSED(AicOnly, "addrMode 0 (rising) or 1", LoadData(L0a<half>(), L1a<half>(), load2d(0, false, 2)));
    EXPECT_REFUSED(AicOnly, "16-bit elements only", LoadData(L0a<float>(), L1a<float>(), load2d(0, true, 0)));
    EXPECT_REFUSED(AicOnly, "no path from L0A to L0B", LoadData(L0b<half>(), L0a<half>(), load2d(0, false, 0)));
    EXPECT_REFUSED(AicOnly, "no path from L1 to L0C",
                   LoadDataWithTranspose(L0c<float>(), L1a<float>(), LoadData2dTransposeParams(0, 1, 1, 0, 0)));
    EXPECT_REFUSED(AicOnly, "enSmallK and fMatrixCtrl", auto p = Image<half>(16, 16); p.enSmallK = true;
                   LoadData(L0a<half>(), L1a<half>(), p));
    EXPECT_REFUSED(AicOnly, "enSmallK and fMatrixCtrl", auto p = Image<half>(16, 16); p.fMatrixCtrl = true;
                   LoadData(L0a<half>(), L1a<half>(), p));
    EXPECT_REFUSED(AicOnly, "8-bit elements cannot be loaded into L0B",
                   LoadData(L0b<int8_t>(), L1a<int8_t>(), Image<int8_t>(32, 32)));
    EXPECT_REFUSED(AicOnly, "repeatMode 0 or 1", SetLoadDataRepeat(LoadDataRepeatParam(0, 1, 2)));
    EXPECT_REFUSED(AicOnly, "expected a tensor in L1, L0A or L0B",
                   Fill(L0c<float>(), InitConstValueParams<float>(1, 1, 0, 0.0f)));

    EXPECT_REFUSED(AicOnly, "obsolete and must keep", auto p = Sizes(16, 16, 16); p.enWinogradA = true;
                   Mmad(L0c<float>(), L0a<half>(), L0b<half>(), p));
    EXPECT_REFUSED(AicOnly, "unitFlag: expected 0, 2 or 3, got 1", auto p = Sizes(16, 16, 16); p.unitFlag = 1;
                   Mmad(L0c<float>(), L0a<half>(), L0b<half>(), p));
    EXPECT_REFUSED(AicOnly, "Mmad left operand", Mmad(L0c<float>(), L0b<half>(), L0b<half>(), Sizes(16, 16, 16)));
    EXPECT_REFUSED(AicOnly, "cmatrixInitVal is true",
                   Mmad(L0c<float>(), L0a<half>(), L0b<half>(), At<float>(TPosition::C2, 0, 64), Sizes(16, 16, 16)));
    EXPECT_REFUSED(AicOnly, "bias table or L0C",
                   Mmad(L0c<float>(), L0a<half>(), L0b<half>(), L1a<float>(), Sizes(16, 16, 16, false)));

    std::vector<half> y(256);
    const auto out = [](uint16_t n) { return FixpipeParamsV220(n, 16, 16, 16, false); };
    EXPECT_REFUSED(AicOnly, "does not fit the types", Fixpipe(Global(y), L0c<float>(), out(16)));
    EXPECT_REFUSED(AicOnly, "in steps of 1 ", auto p = out(4096); p.quantPre = QuantMode_t::F322F16;
                   Fixpipe(Global(y), L0c<float>(), p));
    EXPECT_REFUSED(AicOnly, "in steps of 16", auto p = out(8); p.quantPre = QuantMode_t::F322F16;
                   Fixpipe<half, float, CFG_NZ>(Global(y), L0c<float>(), p));
    EXPECT_REFUSED(AicOnly, "belong to CFG_ROW_MAJOR", auto p = out(16); p.quantPre = QuantMode_t::F322F16; p.ndNum = 2;
                   Fixpipe<half, float, CFG_NZ>(Global(y), L0c<float>(), p));
    EXPECT_REFUSED(AicOnly, "only float to float in NZ", auto p = out(16); p.quantPre = QuantMode_t::F322F16;
                   p.isChannelSplit = true; Fixpipe<half, float, CFG_NZ>(Global(y), L0c<float>(), p));
    EXPECT_REFUSED(AicOnly, "expected srcNdStride of 0 to 512", auto p = out(16); p.quantPre = QuantMode_t::F322F16;
                   p.srcNdStride = 513; Fixpipe(Global(y), L0c<float>(), p));
}

}    // namespace api_test
