// SPDX-License-Identifier: Apache-2.0
// Copies by the API's own parameters, against plain loops: which field is which, and in what unit.
#include "harness.h"

namespace api_test {

API_TEST(blocks_with_gaps_between_gm_and_ub)
{
    Random random(1);
    for (int round = 0; round < 40; ++round) {
        const uint16_t count = static_cast<uint16_t>(1 + random.Below(5)),
                       length = static_cast<uint16_t>(1 + random.Below(4));
        const uint16_t inGap = static_cast<uint16_t>(random.Below(3)), ubGap = static_cast<uint16_t>(random.Below(3));
        const uint16_t outGap = static_cast<uint16_t>(random.Below(3));
        const auto x = Floats(random, 5 * 7 * 8);
        std::vector<float> y(5 * 7 * 8, -1.0f);
        std::vector<float> want = y;
        const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::InOut("y", y)}, [&] {
            const auto tile = Ub<float>(64, 1024);
            DataCopy(tile, Global(x), {count, length, inGap, ubGap});
            PipeBarrier<PIPE_ALL>();
            DataCopy(Global(y), tile, {count, length, ubGap, outGap});
        });
        for (uint32_t piece = 0; piece < count; ++piece) {
            for (uint32_t i = 0; i < length * 8u; ++i) {
                want[piece * (length + outGap) * 8u + i] = x[piece * (length + inGap) * 8u + i];
            }
        }
        EXPECT_CLEAN(report);
        EXPECT(y == want, "round " + std::to_string(round));
    }
}

API_TEST(padded_copies_count_bytes_in_gm_and_blocks_in_ub)
{
    Random random(2);
    for (int round = 0; round < 60; ++round) {
        const uint16_t rows = static_cast<uint16_t>(1 + random.Below(4));
        const uint32_t elements = 1 + random.Below(20);
        const uint32_t gmGap = random.Below(5) * 2, outGap = random.Below(5) * 2, ubGap = random.Below(3);
        const uint32_t blocks = (elements * 2 + 31) / 32;
        const uint32_t left = 0;
        const uint32_t right = random.Below(2) * ((blocks * 32 - elements * 2) / 2);
        std::vector<half> x(4 * 32);
        for (half& v : x) {
            v = half(random.Uniform(-4, 4));
        }
        std::vector<half> y(4 * 32, half(-1.0f)), ub(512);
        std::vector<half> want = y;
        const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::InOut("y", y), cpu_twin::Out("ub", ub)}, [&] {
            const auto tile = Ub<half>(0, 512);
            Duplicate(tile, half(7.0f), 512);
            PipeBarrier<PIPE_ALL>();
            DataCopyPad(tile, Global(x), {rows, elements * 2, gmGap, ubGap, 0},
                        DataCopyPadExtParams<half>{right > 0, left, static_cast<uint8_t>(right), half(5.0f)});
            PipeBarrier<PIPE_ALL>();
            DataCopyPad(Global(y), tile, {rows, elements * 2, ubGap, outGap, 0});
            DataCopy(Global(ub), tile, 512);
        });
        bool padded = true;
        for (uint32_t row = 0; row < rows; ++row) {
            const uint32_t from = row * (elements + gmGap / 2), at = row * (blocks + ubGap) * 16;
            for (uint32_t i = 0; i < elements; ++i) {
                want[row * (elements + outGap / 2) + i] = x[from + i];
                padded = padded && float(ub[at + i]) == float(x[from + i]);
            }
            for (uint32_t i = elements; i < elements + right; ++i) {
                padded = padded && float(ub[at + i]) == 5.0f;
            }
            for (uint32_t i = blocks * 16; i < (blocks + ubGap) * 16 && row + 1 < rows; ++i) {
                padded = padded && float(ub[at + i]) == 7.0f;
            }
        }
        bool same = true;
        for (size_t i = 0; i < y.size(); ++i) {
            same = same && float(y[i]) == float(want[i]);
        }
        EXPECT_CLEAN(report);
        EXPECT(padded && same, "round " + std::to_string(round));
    }
}

// The two forms of the padded copy, and 8- and 64-bit elements.
API_TEST(padded_copies_of_every_width)
{
    std::vector<uint8_t> bytes(40);
    std::vector<int64_t> wide(3);
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(i + 1);
    }
    wide = {-5, 7, int64_t{1} << 60};
    std::vector<uint8_t> bytesOut(64);
    std::vector<int64_t> wideOut(4);
    const Report report =
        OnVector({cpu_twin::In("b", bytes), cpu_twin::In("w", wide), cpu_twin::Out("bo", bytesOut),
                  cpu_twin::Out("wo", wideOut)},
                 [&] {
                     const auto b = Ub<uint8_t>(0, 64);
                     const auto w = Ub<int64_t>(64, 4);
                     DataCopyPad(b, Global(bytes), DataCopyParams{1, 40, 0, 0}, DataCopyPadParams{true, 0, 24, 9});
                     DataCopyPad(w, Global(wide), DataCopyExtParams{1, 24, 0, 0, 0},
                                 DataCopyPadExtParams<int64_t>{true, 0, 1, 0});
                     PipeBarrier<PIPE_ALL>();
                     DataCopyPad(Global(bytesOut), b, DataCopyParams{1, 64, 0, 0});
                     DataCopyPad(Global(wideOut), w, DataCopyExtParams{1, 32, 0, 0, 0});
                 });
    EXPECT_CLEAN(report);
    for (size_t i = 0; i < 64; ++i) {
        EXPECT(bytesOut[i] == (i < 40 ? i + 1 : 9), std::to_string(i));
    }
    EXPECT((wideOut == std::vector<int64_t>{-5, 7, int64_t{1} << 60, 0}), "");
}

// Rows become columns of 16-element groups; the way back through L1 to GM shows where each element went.
API_TEST(rows_to_columns_of_fractals)
{
    Random random(3);
    for (int round = 0; round < 20; ++round) {
        const uint16_t rows = static_cast<uint16_t>(1 + random.Below(40)),
                       columns = static_cast<uint16_t>(1 + random.Below(60));
        const uint16_t distance = static_cast<uint16_t>(columns + random.Below(9));
        const uint16_t pitch = static_cast<uint16_t>((rows + 15) / 16 * 16);
        std::vector<half> x(static_cast<size_t>(rows) * distance);
        for (size_t i = 0; i < x.size(); ++i) {
            x[i] = half(static_cast<float>(i % 2048));
        }
        const uint32_t groups = (columns + 15u) / 16;
        std::vector<half> l1(groups * pitch * 16);
        const Report report = OnCube({cpu_twin::In("x", x), cpu_twin::Out("l1", l1)}, [&] {
            LocalTensor<half> tile(TPosition::A1, 0, groups * pitch * 16);
            DataCopy(tile, Global(x), Nd2NzParams{1, rows, columns, 0, distance, pitch, 1, 0});
            PipeBarrier<PIPE_ALL>();
            DataCopy(Global(l1), tile, {1, static_cast<uint16_t>(groups * pitch), 0, 0});
        });
        EXPECT_CLEAN(report);
        bool right = true;
        for (uint32_t row = 0; row < rows; ++row) {
            for (uint32_t column = 0; column < groups * 16; ++column) {
                const float got = float(l1[(column / 16 * pitch + row) * 16 + column % 16]);
                right = right && got == (column < columns ? float(x[row * distance + column]) : 0.0f);
            }
        }
        EXPECT(right, std::to_string(rows) + " x " + std::to_string(columns));
    }
}

API_TEST(copies_refuse_what_they_cannot_do)
{
    std::vector<float> x(64);
    uint32_t line = 0;
    const auto refused = [&](const char* words, KernelType type, const std::function<void()>& kernel) {
        const Report report = Run(type, 1, {cpu_twin::InOut("x", x)}, kernel);
        EXPECT_FINDING(report, Rule::KernelError, line, words);
    };
    refused("whole 32-byte blocks", KernelType::AivOnly, [&] {
        line = __LINE__ + 1;
        DataCopy(Ub<float>(0, 64), Global(x), 9);
    });
    refused("rsv is reserved", KernelType::AivOnly, [&] {
        line = __LINE__ + 1;
        DataCopyPad(Global(x), Ub<float>(0, 64), {1, 4, 0, 0, 1});
    });
    refused("no path from GM to L0A", KernelType::AicOnly, [&] {
        line = __LINE__ + 1;
        DataCopy(LocalTensor<float>(TPosition::A2, 0, 64), Global(x), 64);
    });
    refused("L0C leaves by Fixpipe", KernelType::AicOnly, [&] {
        line = __LINE__ + 1;
        DataCopy(Global(x), LocalTensor<float>(TPosition::CO1, 0, 64), 64);
    });
    refused("go through global memory", KernelType::AivOnly, [&] {
        line = __LINE__ + 1;
        DataCopy(LocalTensor<float>(TPosition::A1, 0, 64), Ub<float>(0, 64), DataCopyParams{1, 8, 0, 0});
    });
    refused("expected a tensor in L1", KernelType::AivOnly, [&] {
        line = __LINE__ + 1;
        DataCopy(Ub<float>(0, 64), Global(x), Nd2NzParams{1, 8, 8, 0, 8, 16, 1, 0});
    });
    refused("expected a tensor in UB", KernelType::AicOnly, [&] {
        line = __LINE__ + 1;
        DataCopyPad(LocalTensor<float>(TPosition::A1, 0, 64), Global(x), {1, 4, 0, 0, 0},
                    DataCopyPadExtParams<float>{});
    });
    refused("index 64 lies outside the tensor's 64 elements", KernelType::AivOnly, [&] {
        line = __LINE__ + 1;
        DataCopy(Ub<float>(0, 64)[64], Global(x), 8);
    });
    refused("never given a buffer", KernelType::AivOnly, [&] {
        line = __LINE__ + 1;
        Adds(LocalTensor<float>(), Ub<float>(0, 64), 1.0f, 64);
    });
}

API_TEST(one_element_at_a_time_through_the_scalar_unit)
{
    std::vector<int32_t> x = {5, 6, 7, 8, 9, 10, 11, 12}, y(16);
    std::vector<int32_t> seen;
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("y", y)}, [&] {
        const auto tile = Ub<int32_t>(0, 16);
        GlobalTensor<int32_t> in = Global(x), out = Global(y);
        seen = {in.GetValue(2), in(3), in[4].GetValue(1), static_cast<int32_t>(in.GetSize())};
        for (uint32_t i = 0; i < 8; ++i) {
            tile.SetValue(i, static_cast<int32_t>(i * i));
            tile(i + 8) = tile.GetValue(i) + 100;
        }
        seen.push_back(tile(9));
        SetFlag<HardEvent::S_MTE3>(0);
        WaitFlag<HardEvent::S_MTE3>(0);
        DataCopy(out[8], tile, 8);
        out.SetValue(0, 42);
        out(1) = 43;
        for (uint32_t i = 2; i < 8; ++i) {
            out.SetValue(i, 0);
        }
        DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(out);
    });
    EXPECT((seen == std::vector<int32_t>{7, 8, 10, 8, 101}), "");
    EXPECT(y[0] == 42 && y[1] == 43, std::to_string(y[0]));
    EXPECT(report.findings.empty() || report.findings[0].rule != Rule::KernelError, report.Text());
}

struct PlainTiling {
    uint32_t a;
    uint64_t b;
    float c;
    uint8_t d;
};
API_TEST(tiling_comes_out_of_global_memory)
{
    const std::vector<PlainTiling> tiling = {{7, 1ull << 40, 2.5f, 200}};
    PlainTiling got{};
    const Report report = OnVector({cpu_twin::In("tiling", tiling)}, [&] {
        REGISTER_TILING_DEFAULT(PlainTiling);
        GM_ADDR address = cpu_twin::Gm(tiling);
        GET_TILING_DATA_WITH_STRUCT(PlainTiling, data, address);
        got = data;
    });
    EXPECT_CLEAN(report);
    EXPECT(got.a == 7 && got.b == 1ull << 40 && got.c == 2.5f && got.d == 200, "");
}

}    // namespace api_test
