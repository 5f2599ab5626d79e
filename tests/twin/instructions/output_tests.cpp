// SPDX-License-Identifier: Apache-2.0
// Fixpipe beyond half and float rows: quantisation, saturation, channel split and merge, the way into L1.
//
// Quantisation as the public scripts of the fixpipe_l0c2gm sample have it: the scale is the float in bits 31:0 without its
// low 13 bits, the offset lies in bits 45:37, bit 46 says signed. To 8 bits: scaled, rounded into -256..255, offset added,
// clipped. Normal ReLU replaces the scale by 0 for negative values.
#include "lanes.h"

namespace twin_test {

namespace {

double ScaleOf(uint64_t config) { return Num<float>::Value(static_cast<uint32_t>(config) & 0xffffe000u); }
uint64_t ConfigOf(float scale, uint32_t offset, bool isSigned) {
    uint32_t bits;
    std::memcpy(&bits, &scale, 4);
    return bits | static_cast<uint64_t>(offset) << 37 | static_cast<uint64_t>(isSigned) << 46;
}
double Clip(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
double ToEight(double x, uint64_t config, bool relu) {
    const double scaled = relu && x < 0 ? 0 : ToFloatGrid(x * ScaleOf(config));
    const double rounded = Clip(RoundInteger(scaled, Mode::Rint), -256, 255) + static_cast<double>(config >> 37 & 0x1ff);
    return config >> 46 & 1 ? Clip(rounded, -128, 127) : Clip(rounded, 0, 255);
}
double ToDequantised(double x, uint64_t config, bool relu) { return relu && x < 0 ? 0 : ToFloatGrid(x * ScaleOf(config)); }

constexpr uint32_t kRows = 32, kColumns = 64;

template <typename S> Image L0cOf(Random& rng, double bound) {
    Image c(kL0cBytes);
    c.Fill<S>(0, kRows * kColumns, [&](size_t) {
        const double x = rng.Uniform(-bound, bound);
        return std::is_integral_v<S> ? std::floor(x) : x;
    });
    return c;
}
template <typename S> double L0cValue(const Image& c, uint32_t i, uint32_t j) { return c.Get<S>((j / 16 * kRows + i) * 64 + j % 16 * 4); }

// Rows of ND output under one scalar parameter, and under a parameter for each column from the fixpipe buffer.
template <typename D, typename S, typename Want>
void QuantTest(Random& rng, QuantMode_t scalarMode, QuantMode_t columnMode, double bound, bool isSigned, Want want) {
    for (int round = 0; round < 4; ++round) {
        const bool relu = round % 2 == 1, byColumn = round / 2 == 1;
        const Image c = L0cOf<S>(rng, bound);
        Image gm = Image::Noise(kRows * kColumns * sizeof(D), rng), expected = gm, l1 = Image(64 * 8);
        for (uint32_t j = 0; j < kColumns; ++j) {
            const auto scale = static_cast<float>(rng.Uniform(0.01, 0.9));
            l1.PutRaw<int64_t>(8 * j, static_cast<int64_t>(ConfigOf(scale, sizeof(D) == 1 ? rng.Below(256) : 0, isSigned)));
        }
        const auto config = [&](uint32_t j) { return static_cast<uint64_t>(l1.Raw<int64_t>(byColumn ? 8 * j : 0)); };
        for (uint32_t i = 0; i < kRows; ++i) {
            for (uint32_t j = 0; j < kColumns; ++j) {
                expected.Put<D>((i * kColumns + j) * sizeof(D), want(L0cValue<S>(c, i, j), config(j), relu));
            }
        }
        Image copy = c;
        OnCore(CoreKind::AIC, Mem::L0C, copy, [&] {
            std::memcpy(LocalBase(Mem::L1), l1.data(), l1.size());
            if (byColumn) {
                copy_cbuf_to_fbuf(At<uint64_t>(Mem::FB, 128), At<uint64_t>(Mem::L1, 0), 1, l1.size() / 128, 0, 0);
                pipe_barrier(PIPE_FIX);
                set_fpc(1ull << 8);  // in steps of 128 bytes
            } else {
                set_quant_pre(config(0));
            }
            set_nd_para(1);
            copy_matrix_cc_to_gm(reinterpret_cast<D*>(gm.data()), At<S>(Mem::L0C, 0), 0, kColumns, kRows, kColumns, kRows, 0,
                                 byColumn ? columnMode : scalarMode, relu, false, true);
        }, {InOut("gm", gm)});
        ExpectSame<D>(expected, gm, std::string(byColumn ? "by column" : "scalar") + (relu ? ", relu" : ""));
    }
}

}  // namespace

TWIN_TEST(fixpipe_quantises_float_to_8_bits) {
    QuantTest<int8_t, float>(rng, QF322B8_PRE, VQF322B8_PRE, 900, true, ToEight);
    QuantTest<uint8_t, float>(rng, QF322B8_PRE, VQF322B8_PRE, 900, false, ToEight);
}
TWIN_TEST(fixpipe_requantises_int32_to_8_bits) {
    QuantTest<int8_t, int32_t>(rng, REQ8, VREQ8, 900, true, ToEight);
    QuantTest<uint8_t, int32_t>(rng, REQ8, VREQ8, 900, false, ToEight);
}
TWIN_TEST(fixpipe_dequantises_int32_to_half) { QuantTest<half, int32_t>(rng, DEQF16, VDEQF16, 30000, false, ToDequantised); }
TWIN_TEST(fixpipe_int32_unchanged) {
    const Image c = L0cOf<int32_t>(rng, 2e9);
    Image gm(kRows * kColumns * 4), copy = c;
    OnCore(CoreKind::AIC, Mem::L0C, copy, [&] {
        set_nd_para(1);
        copy_matrix_cc_to_gm(reinterpret_cast<int32_t*>(gm.data()), At<int32_t>(Mem::L0C, 0), 0, kColumns, kRows, kColumns, kRows, 0, NoQuant, 0,
                             false, true);
    }, {Out("gm", gm)});
    for (uint32_t i = 0; i < kRows; ++i) {
        for (uint32_t j = 0; j < kColumns; ++j) {
            const double got = gm.Get<int32_t>(4 * (i * kColumns + j));
            if (got != L0cValue<int32_t>(c, i, j)) Fail("(", i, ", ", j, "): expected ", L0cValue<int32_t>(c, i, j), ", got ", got);
        }
    }
}
TWIN_TEST(fixpipe_saturates_by_ctrl_48) {
    // Bit 48 of CTRL 0: infinite becomes the largest finite value, NaN zero. 1: both stay.
    const double inf = std::numeric_limits<double>::infinity();
    const double values[4] = {inf, -inf, std::nan(""), 1e6};
    const auto check = [&](auto tag, QuantMode_t quant, double largest) {
        using D = decltype(tag);
        for (const bool keeps : {false, true}) {
            Image c(kL0cBytes), gm(512), want(512);
            for (uint32_t i = 0; i < 256; ++i) {
                const double x = values[i % 4];
                c.Put<float>(4 * i, x);
                const double rounded = std::isnan(x) || std::fabs(x) <= largest ? x : std::copysign(inf, x);
                const double finite = std::isnan(x) ? 0 : Clip(rounded, -largest, largest);
                want.Put<D>(2 * i, keeps ? rounded : finite);
            }
            OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
                const uint64_t bit = 1ull << 48, others = static_cast<uint64_t>(get_ctrl()) & ~bit;
                set_ctrl(keeps ? others | bit : others);
                set_nd_para(1);
                copy_matrix_cc_to_gm(reinterpret_cast<D*>(gm.data()), At<float>(Mem::L0C, 0), 0, 16, 16, 16, 16, 0, quant, 0, false, true);
            }, {Out("gm", gm)});
            ExpectSame<D>(want, gm, keeps ? "CTRL[48] = 1" : "CTRL[48] = 0");
        }
    };
    check(half(), F322F16, 65504);
    check(bfloat16_t(), F322BF16, 3.3895313892515355e38);
}
TWIN_TEST(fixpipe_channel_split) {
    // Float as NZ with columns of eight: each 16 x 16 fractal becomes two of 16 x 8.
    const uint32_t dstStride = kRows + 3;
    const Image c = L0cOf<float>(rng, 100);
    Image gm = Image::Noise(65536, rng), want = gm, copy = c;
    for (uint32_t i = 0; i < kRows; ++i) {
        for (uint32_t j = 0; j < kColumns; ++j) want.Put<float>((j / 8 * dstStride + i) * 32 + j % 8 * 4, L0cValue<float>(c, i, j));
    }
    OnCore(CoreKind::AIC, Mem::L0C, copy, [&] {
        copy_matrix_cc_to_gm(reinterpret_cast<float*>(gm.data()), At<float>(Mem::L0C, 0), 0, kColumns, kRows, dstStride, kRows, 0, NoQuant, 0, true,
                             false);
    }, {InOut("gm", gm)});
    ExpectSame<float>(want, gm, "32 x 64");
}
TWIN_TEST(fixpipe_merges_channels_of_8_bits) {
    // NZ with columns of 32 bytes: two fractals side by side become one of 16 x 32; an odd last one stays by itself.
    for (const uint32_t n : {64u, 48u}) {
        const uint32_t dstStride = kRows + 2;
        const Image c = L0cOf<float>(rng, 100);
        Image gm = Image::Noise(65536, rng), want = gm, copy = c;
        const uint64_t config = ConfigOf(1.0f, 0, true);
        for (uint32_t i = 0; i < kRows; ++i) {
            for (uint32_t j = 0; j < n / 32 * 32; ++j) want.Put<int8_t>((j / 32 * dstStride + i) * 32 + j % 32, ToEight(L0cValue<float>(c, i, j), config, false));
        }
        OnCore(CoreKind::AIC, Mem::L0C, copy, [&] {
            set_quant_pre(config);
            copy_matrix_cc_to_gm(reinterpret_cast<int8_t*>(gm.data()), At<float>(Mem::L0C, 0), 0, n, kRows, dstStride, kRows, 0, QF322B8_PRE, 0, false,
                                 false);
        }, {InOut("gm", gm)});
        // The pages don't say how far apart the rows of an odd last fractal lie, so only the merged ones are compared.
        for (uint32_t at = 0; at < n / 32 * dstStride * 32; ++at) {
            if (at % (dstStride * 32) >= kRows * 32) continue;
            if (want.Raw<int8_t>(at) != gm.Raw<int8_t>(at)) Fail("n = ", n, ", byte ", at, ": expected ", +want.Raw<int8_t>(at), ", got ", +gm.Raw<int8_t>(at));
        }
    }
}
TWIN_TEST(fixpipe_into_l1) {
    // As A of a next Mmad: half or bfloat16 in NZ.
    const auto check = [&](auto tag, QuantMode_t quant) {
        using D = decltype(tag);
        for (const bool relu : {false, true}) {
            const uint32_t m = rng.Between(1, kRows), dstStride = 32 + rng.Below(8);
            const Image c = L0cOf<float>(rng, 100);
            Image l1 = Image::Noise(65536, rng), want = l1;
            for (uint32_t i = 0; i < m; ++i) {
                for (uint32_t j = 0; j < kColumns; ++j) {
                    const double x = L0cValue<float>(c, i, j);
                    want.Put<D>((j / 16 * dstStride + i) * 32 + j % 16 * 2, relu && x < 0 ? 0.0 : x);
                }
            }
            OnCore(CoreKind::AIC, Mem::L1, l1, [&] {
                std::memcpy(LocalBase(Mem::L0C), c.data(), c.size());
                copy_matrix_cc_to_cbuf(At<D>(Mem::L1, 0), At<float>(Mem::L0C, 0), 0, kColumns, m, dstStride, kRows, 0, quant, relu, false, false);
                pipe_barrier(PIPE_ALL);
            });
            ExpectSame<D>(want, l1, std::to_string(m) + " rows");
        }
    };
    check(half(), F322F16);
    check(bfloat16_t(), F322BF16);
}

// ---- bias ----

TWIN_TEST(mmad_starts_from_the_bias_table) {
    // C starts as the bias of its column, here at byte 64 of the table; float as it is, half widened on the way in.
    const uint32_t m = 20, n = 40, k = 24, mF = 2, nF = 3, kF = 2;
    for (const bool fromHalf : {false, true}) {
        Image a(64 * 1024), b(64 * 1024), c(kL0cBytes), l1(1024);
        std::vector<double> x(m * k), y(k * n), bias(48);
        for (double& v : x) v = static_cast<double>(rng.Below(9)) - 4;
        for (double& v : y) v = static_cast<double>(rng.Below(9)) - 4;
        for (double& v : bias) v = static_cast<double>(rng.Below(200)) - 100;
        for (uint32_t i = 0; i < m; ++i) for (uint32_t l = 0; l < k; ++l) a.Put<half>((i / 16 * kF + l / 16) * 512 + i % 16 * 32 + l % 16 * 2, x[i * k + l]);
        for (uint32_t l = 0; l < k; ++l) for (uint32_t j = 0; j < n; ++j) b.Put<half>((l / 16 * nF + j / 16) * 512 + j % 16 * 32 + l % 16 * 2, y[l * n + j]);
        for (uint32_t j = 0; j < 48; ++j) {
            if (fromHalf) l1.Put<half>(2 * j, bias[j]); else l1.Put<float>(4 * j, bias[j]);
        }
        OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
            std::memcpy(LocalBase(Mem::L0A), a.data(), a.size());
            std::memcpy(LocalBase(Mem::L0B), b.data(), b.size());
            std::memcpy(LocalBase(Mem::L1), l1.data(), l1.size());
            copy_cbuf_to_bt(64, At<float>(Mem::L1, 0), fromHalf, 1, 3, 0, 0);  // three times 64 bytes of the table
            set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
            wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
            mad(At<float>(Mem::L0C, 0), At<half>(Mem::L0A, 0), At<half>(Mem::L0B, 0), 64, m, k, n, 0, false, true, false);
            pipe_barrier(PIPE_ALL);
        });
        for (uint32_t i = 0; i < m; ++i) {
            for (uint32_t j = 0; j < n; ++j) {
                double want = bias[j];
                for (uint32_t l = 0; l < k; ++l) want += x[i * k + l] * y[l * n + j];
                const double got = c.Get<float>((j / 16 * mF + i / 16) * 1024 + i % 16 * 64 + j % 16 * 4);
                if (got != want) Fail("(", i, ", ", j, "): expected ", want, ", got ", got);
            }
        }
    }
}

}  // namespace twin_test
