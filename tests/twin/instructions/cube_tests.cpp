// SPDX-License-Identifier: Apache-2.0
// The cube core: loads from L1 in the layouts of L0A and L0B, Mmad with its tails, Fixpipe.
//
// A fractal is 512 bytes: 16 x K0 elements, K0 = 32 bytes. L0A: fractals by (m1, k1), each 16 x K0 row by row. L0B: by (k1, n1),
// each 16 (n) x K0 (k). L0C: by (n1, m1), each 16 x 16. L1 holds NZ: columns of C0 elements, each of them all rows.
#include "lanes.h"

namespace twin_test {

namespace {

constexpr uint32_t kL1Image = 128 * 1024;
constexpr uint32_t kL0Image = 64 * 1024;

uint32_t Up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// Runs `body` with L1 = `l1` and reads `bytes` of the L0 buffer `mem` back, which starts as noise.
Image Load(Mem mem, const Image& l1, const Image& before, const std::function<void()>& body) {
    Image result = before;
    const Image source = l1;
    OnCore(CoreKind::AIC, mem, result, [&] {
        std::memcpy(LocalBase(Mem::L1), source.data(), source.size());
        body();
    });
    return result;
}

// Byte address in L1 of element (row, column) of an NZ matrix of `rows` rows (a multiple of 16).
uint32_t NzAt(uint32_t row, uint32_t column, uint32_t rows, uint32_t elem) {
    const uint32_t c0 = 32 / elem;
    return (column / c0 * rows + row) * 32 + column % c0 * elem;
}
uint32_t L0aAt(uint32_t m, uint32_t k, uint32_t kFractals, uint32_t elem) {
    const uint32_t k0 = 32 / elem;
    return (m / 16 * kFractals + k / k0) * 512 + m % 16 * 32 + k % k0 * elem;
}
uint32_t L0bAt(uint32_t k, uint32_t n, uint32_t nFractals, uint32_t elem) {
    const uint32_t k0 = 32 / elem;
    return (k / k0 * nFractals + n / 16) * 512 + n % 16 * 32 + k % k0 * elem;
}
uint32_t L0cAt(uint32_t m, uint32_t n, uint32_t mFractals) { return (n / 16 * mFractals + m / 16) * 1024 + m % 16 * 64 + n % 16 * 4; }

}  // namespace

TWIN_TEST(load2d) {
    for (const Mem mem : {Mem::L0A, Mem::L0B}) {
        for (int round = 0; round < 6; ++round) {
            const uint32_t base = rng.Below(5), repeats = rng.Between(1, 8), stride = rng.Below(4), gap = rng.Below(3);
            const Image l1 = Image::Noise(kL1Image, rng), before = Image::Noise(kL0Image, rng);
            Image want = before;
            for (uint32_t r = 0; r < repeats; ++r) {
                for (uint32_t i = 0; i < 512; ++i) want.PutRaw<uint8_t>(r * (1 + gap) * 512 + i, l1.Raw<uint8_t>((base + r * stride) * 512 + i));
            }
            const Image got = Load(mem, l1, before, [&] {
                if (mem == Mem::L0A) load_cbuf_to_ca(At<half>(mem, 0), At<half>(Mem::L1, 0), base, repeats, stride, gap, 0, false, inc);
                else load_cbuf_to_cb(At<half>(mem, 0), At<half>(Mem::L1, 0), base, repeats, stride, gap, 0, false, inc);
            });
            ExpectSame<uint8_t>(want, got, MemName(mem));
        }
    }
}
TWIN_TEST(load2d_transposed) {
    // Each 16 x 16 fractal of two-byte elements by itself.
    for (const Mem mem : {Mem::L0A, Mem::L0B}) {
        const uint32_t repeats = rng.Between(2, 8), stride = rng.Between(1, 3), gap = rng.Below(3);
        const Image l1 = Image::Noise(kL1Image, rng), before = Image::Noise(kL0Image, rng);
        Image want = before;
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t i = 0; i < 16; ++i) {
                for (uint32_t j = 0; j < 16; ++j) {
                    want.PutRaw<uint16_t>(r * (1 + gap) * 512 + 32 * j + 2 * i, l1.Raw<uint16_t>(r * stride * 512 + 32 * i + 2 * j));
                }
            }
        }
        const Image got = Load(mem, l1, before, [&] {
            if (mem == Mem::L0A) load_cbuf_to_ca(At<half>(mem, 0), At<half>(Mem::L1, 0), 0, repeats, stride, gap, 0, true, inc);
            else load_cbuf_to_cb(At<half>(mem, 0), At<half>(Mem::L1, 0), 0, repeats, stride, gap, 0, true, inc);
        });
        ExpectSame<uint8_t>(want, got, MemName(mem));
    }
}
TWIN_TEST(load2d_with_transpose_16_bit) {
    // LoadDataWithTranspose: a square of 16 x 16 a repeat, strides in squares, gaps in fractals.
    for (const Mem mem : {Mem::L0A, Mem::L0B}) {
        const uint32_t base = rng.Below(3), repeats = rng.Between(2, 6), stride = rng.Between(1, 3), gap = rng.Below(3);
        const Image l1 = Image::Noise(kL1Image, rng), before = Image::Noise(kL0Image, rng);
        Image want = before;
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t i = 0; i < 16; ++i) {
                for (uint32_t j = 0; j < 16; ++j) {
                    want.PutRaw<uint16_t>(r * (1 + gap) * 512 + 32 * j + 2 * i, l1.Raw<uint16_t>((base + r * stride) * 512 + 32 * i + 2 * j));
                }
            }
        }
        const Image got = Load(mem, l1, before, [&] {
            if (mem == Mem::L0A) load_cbuf_to_ca_transpose(At<half>(mem, 0), At<half>(Mem::L1, 0), base, repeats, stride, gap, inc, 0);
            else load_cbuf_to_cb_transpose(At<half>(mem, 0), At<half>(Mem::L1, 0), base, repeats, stride, gap, inc, 0);
        });
        ExpectSame<uint8_t>(want, got, MemName(mem));
    }
}
TWIN_TEST(load2d_with_transpose_32_bit) {
    // Two fractals of 16 x 8 side by side are a square of 16 x 16; its transpose is split into two again, `fracGap` apart.
    for (int round = 0; round < 4; ++round) {
        const uint32_t repeats = rng.Between(1, 4), stride = rng.Between(1, 2), fracGap = rng.Below(2), gap = 1 + 2 * fracGap + rng.Below(2);
        const Image l1 = Image::Noise(kL1Image, rng), before = Image::Noise(kL0Image, rng);
        Image want = before;
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t i = 0; i < 16; ++i) {
                for (uint32_t j = 0; j < 16; ++j) {
                    // Square element (i, j), then at (j, i).
                    const uint32_t from = r * stride * 1024 + j / 8 * 512 + i * 32 + j % 8 * 4;
                    const uint32_t to = r * (1 + gap) * 512 + i / 8 * (1 + fracGap) * 512 + j * 32 + i % 8 * 4;
                    want.PutRaw<uint32_t>(to, l1.Raw<uint32_t>(from));
                }
            }
        }
        const Image got = Load(Mem::L0B, l1, before, [&] {
            load_cbuf_to_cb_transpose(At<float>(Mem::L0B, 0), At<float>(Mem::L1, 0), 0, repeats, stride, gap, inc, fracGap);
        });
        ExpectSame<uint8_t>(want, got, "round " + std::to_string(round));
    }
}

namespace {

// load3d as a plain load: one row of `rows` pixels, `columns` channels, a 1 x 1 kernel.
template <typename T> void Load3d(Mem mem, uint32_t rows, uint32_t columns, uint32_t mExt, uint32_t kExt, uint32_t mStart, uint32_t kStart, bool transpose) {
    set_fmatrix(static_cast<uint64_t>(rows) | 1ull << 16);
    set_padding(0);
    if (mem == Mem::L0A) {
        img2colv2_cbuf_to_ca(At<T>(mem, 0), At<T>(Mem::L1, 0), kExt, mExt, kStart, mStart, 1, 1, 1, 1, 1, 1, false, false, transpose, false, columns);
    } else {
        img2colv2_cbuf_to_cb(At<T>(mem, 0), At<T>(Mem::L1, 0), kExt, mExt, kStart, mStart, 1, 1, 1, 1, 1, 1, false, false, transpose, false, columns);
    }
}

template <typename T> void Load3dTest(Random& rng, Mem mem, bool transpose) {
    const uint32_t k0 = 32 / sizeof(T);
    for (int round = 0; round < 8; ++round) {
        // X[row][column] in L1 as NZ; the part [mStart, mStart + mExt) x [kStart, kStart + kExt) is loaded.
        const uint32_t rows = 16 * rng.Between(1, 5), columns = 16 * rng.Between(1, 5);
        const uint32_t mStart = 16 * rng.Below(rows / 16), kStart = 16 * rng.Below(columns / 16);
        const uint32_t mExt = 16 * rng.Between(1, (rows - mStart) / 16), kExt = 16 * rng.Between(1, (columns - kStart) / 16);
        const Image l1 = Image::Noise(kL1Image, rng), before = Image::Noise(kL0Image, rng);
        Image want = before;
        for (uint32_t r = 0; r < mExt; ++r) {
            for (uint32_t c = 0; c < kExt; ++c) {
                const auto x = l1.Raw<T>(NzAt(mStart + r, kStart + c, rows, sizeof(T)));
                if (mem == Mem::L0B) want.PutRaw<T>(L0bAt(r, c, Up(kExt, 16), sizeof(T)), x);          // B[k = row][n = column]
                else if (transpose) want.PutRaw<T>(L0aAt(c, r, Up(mExt, k0), sizeof(T)), x);           // A[m = column][k = row]
                else want.PutRaw<T>(L0aAt(r, c, Up(kExt, k0), sizeof(T)), x);                          // A[m = row][k = column]
            }
        }
        const Image got = Load(mem, l1, before, [&] { Load3d<T>(mem, rows, columns, mExt, kExt, mStart, kStart, transpose); });
        ExpectSame<uint8_t>(want, got, std::string(MemName(mem)) + (transpose ? ", transposed" : "") + ", " + std::to_string(rows) + " x " +
                                           std::to_string(columns) + ", part " + std::to_string(mExt) + " x " + std::to_string(kExt));
    }
}

}  // namespace

TWIN_TEST(load3d_to_l0a) {
    Load3dTest<half>(rng, Mem::L0A, false);
    Load3dTest<float>(rng, Mem::L0A, false);
}
TWIN_TEST(load3d_to_l0a_transposed) {
    Load3dTest<half>(rng, Mem::L0A, true);
    Load3dTest<float>(rng, Mem::L0A, true);
}
TWIN_TEST(load3d_to_l0b_always_transposes) {
    Load3dTest<half>(rng, Mem::L0B, false);
    Load3dTest<half>(rng, Mem::L0B, true);
    Load3dTest<float>(rng, Mem::L0B, false);
}

// ---- Mmad ----

namespace {

template <typename A, typename C> void MmadTest(Random& rng, bool accumulate) {
    const uint32_t k0 = 32 / sizeof(A);
    for (int round = 0; round < 6; ++round) {
        // m = 1 is another instruction: see mmad_of_one_row_reads_a_as_a_row.
        const uint32_t m = rng.Between(2, 70), n = rng.Between(1, 70), k = rng.Between(1, 70);
        const uint32_t mF = Up(m, 16), nF = Up(n, 16), kF = Up(k, k0);
        Image a = Image::Noise(kL0Image, rng), b = Image::Noise(kL0Image, rng), c(kL0cBytes);
        // Everything outside m, n, k is NaN or large: it must not reach the result.
        const double poison = std::is_integral_v<A> ? 99 : std::nan("");
        a.Fill<A>(0, kL0Image / sizeof(A), [&](size_t) { return poison; });
        b.Fill<A>(0, kL0Image / sizeof(A), [&](size_t) { return poison; });
        std::vector<double> x(m * k), y(k * n), sum(m * n);
        for (double& v : x) v = static_cast<double>(rng.Below(21)) - 10;
        for (double& v : y) v = static_cast<double>(rng.Below(21)) - 10;
        for (uint32_t i = 0; i < m; ++i) for (uint32_t l = 0; l < k; ++l) a.Put<A>(L0aAt(i, l, kF, sizeof(A)), x[i * k + l]);
        for (uint32_t l = 0; l < k; ++l) for (uint32_t j = 0; j < n; ++j) b.Put<A>(L0bAt(l, j, nF, sizeof(A)), y[l * n + j]);
        for (uint32_t i = 0; i < m; ++i) {
            for (uint32_t j = 0; j < n; ++j) {
                const double start = static_cast<double>(rng.Below(50));
                c.Put<C>(L0cAt(i, j, mF), start);
                sum[i * n + j] = accumulate ? start : 0;
                for (uint32_t l = 0; l < k; ++l) sum[i * n + j] += x[i * k + l] * y[l * n + j];
            }
        }
        OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
            std::memcpy(LocalBase(Mem::L0A), a.data(), a.size());
            std::memcpy(LocalBase(Mem::L0B), b.data(), b.size());
            mad(At<C>(Mem::L0C, 0), At<A>(Mem::L0A, 0), At<A>(Mem::L0B, 0), m, k, n, 0, false, false, !accumulate);
        });
        for (uint32_t i = 0; i < m; ++i) {
            for (uint32_t j = 0; j < n; ++j) {
                const double got = c.Get<C>(L0cAt(i, j, mF));
                if (got != sum[i * n + j]) Fail("m n k = ", m, " ", n, " ", k, ", (", i, ", ", j, "): expected ", sum[i * n + j], ", got ", got);
            }
        }
    }
}

}  // namespace

TWIN_TEST(mmad_half_tails_do_not_leak) { MmadTest<half, float>(rng, false); }
TWIN_TEST(mmad_bfloat16) { MmadTest<bfloat16_t, float>(rng, false); }
TWIN_TEST(mmad_float) { MmadTest<float, float>(rng, false); }
TWIN_TEST(mmad_int8) { MmadTest<int8_t, int32_t>(rng, false); }
TWIN_TEST(mmad_accumulates) {
    MmadTest<half, float>(rng, true);
    MmadTest<int8_t, int32_t>(rng, true);
}
TWIN_TEST(mmad_accumulates_in_float) {
    // 1 + 1023 x 2^-13: in half or bfloat16 the small terms would vanish one by one.
    Image a(kL0Image), b(kL0Image), c(kL0cBytes);
    const uint32_t k = 1024;
    for (uint32_t l = 0; l < k; ++l) a.Put<half>(L0aAt(1, l, k / 16, 2), l == 0 ? 1.0 : 0x1p-13), b.Put<half>(L0bAt(l, 0, 1, 2), 1.0);
    OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
        std::memcpy(LocalBase(Mem::L0A), a.data(), a.size());
        std::memcpy(LocalBase(Mem::L0B), b.data(), b.size());
        mad(At<float>(Mem::L0C, 0), At<half>(Mem::L0A, 0), At<half>(Mem::L0B, 0), 2, k, 1, 0, false, false, true);
    });
    const double want = 1 + (k - 1) * 0x1p-13, got = c.Get<float>(L0cAt(1, 0, 1));
    if (std::fabs(got - want) > 1e-6) Fail("expected ", want, ", got ", got);
}
TWIN_TEST(mmad_of_one_row_reads_a_as_a_row) {
    // With m = 1, L0A is not read by fractals: the row's k elements lie one after another.
    const uint32_t k = 200, n = 40;
    Image a(kL0Image), b(kL0Image), c(kL0cBytes);
    a.Fill<half>(0, kL0Image / 2, [&](size_t) { return static_cast<double>(rng.Below(9)) - 4; });
    b.Fill<half>(0, kL0Image / 2, [&](size_t) { return static_cast<double>(rng.Below(9)) - 4; });
    OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
        std::memcpy(LocalBase(Mem::L0A), a.data(), a.size());
        std::memcpy(LocalBase(Mem::L0B), b.data(), b.size());
        mad(At<float>(Mem::L0C, 0), At<half>(Mem::L0A, 0), At<half>(Mem::L0B, 0), 1, k, n, 0, false, false, true);
    });
    for (uint32_t j = 0; j < n; ++j) {
        double want = 0;
        for (uint32_t l = 0; l < k; ++l) want += a.Get<half>(2 * l) * b.Get<half>(L0bAt(l, j, Up(n, 16), 2));
        if (c.Get<float>(L0cAt(0, j, 1)) != want) Fail("column ", j, ": expected ", want, ", got ", c.Get<float>(L0cAt(0, j, 1)));
    }
}
TWIN_TEST(mmad_infinities) {
    const double inf = std::numeric_limits<double>::infinity();
    Image a(kL0Image), b(kL0Image), c(kL0cBytes);
    const double rows[4][2] = {{inf, 1}, {inf, -inf}, {0, inf}, {1, 1}};
    for (uint32_t i = 0; i < 4; ++i) for (uint32_t l = 0; l < 2; ++l) a.Put<half>(L0aAt(i, l, 1, 2), rows[i][l]);
    b.Put<half>(L0bAt(0, 0, 1, 2), 1.0), b.Put<half>(L0bAt(1, 0, 1, 2), 1.0);
    b.Put<half>(L0bAt(0, 1, 1, 2), 0.0), b.Put<half>(L0bAt(1, 1, 1, 2), -1.0);
    OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
        std::memcpy(LocalBase(Mem::L0A), a.data(), a.size());
        std::memcpy(LocalBase(Mem::L0B), b.data(), b.size());
        mad(At<float>(Mem::L0C, 0), At<half>(Mem::L0A, 0), At<half>(Mem::L0B, 0), 4, 2, 2, 0, false, false, true);
    });
    // Column 0: inf + 1, inf - inf, 0 + inf, 2. Column 1: inf * 0, inf * 0, 0 - inf, -1.
    const double want[4][2] = {{inf, std::nan("")}, {std::nan(""), std::nan("")}, {inf, -inf}, {2, -1}};
    for (uint32_t i = 0; i < 4; ++i) {
        for (uint32_t j = 0; j < 2; ++j) {
            const double got = c.Get<float>(L0cAt(i, j, 1));
            if (!(got == want[i][j] || (std::isnan(got) && std::isnan(want[i][j])))) Fail("(", i, ", ", j, "): expected ", want[i][j], ", got ", got);
        }
    }
}

// ---- Fixpipe ----

namespace {

Image L0cNoise(Random& rng) {
    Image c(kL0cBytes);
    c.Fill<float>(0, kL0cBytes / 4, [&](size_t) { return rng.Uniform(-300, 300); });
    return c;
}

template <typename D> void FixpipeNdTest(Random& rng, QuantMode_t quant, bool relu) {
    for (int round = 0; round < 6; ++round) {
        const uint32_t matrices = rng.Between(1, 2), m = rng.Between(1, 60), n = 16 * rng.Between(1, 5), row = n + rng.Below(20);
        // The stride between columns of fractals may be more than m rounded up.
        const uint32_t srcStride = Up(m, 16) * 16 + 16 * rng.Below(3);
        const uint32_t srcMatrix = n / 16 * srcStride / 16 + rng.Below(2), dstMatrix = m * row + rng.Below(9);
        Image c = L0cNoise(rng), gm = Image::Noise(65536, rng), want = gm;
        for (uint32_t b = 0; b < matrices; ++b) {
            for (uint32_t i = 0; i < m; ++i) {
                for (uint32_t j = 0; j < n; ++j) {
                    double x = c.Get<float>(b * srcMatrix * 1024 + (j / 16 * srcStride + i) * 64 + j % 16 * 4);
                    if (relu) x = std::max(x, 0.0);
                    want.Put<D>((b * dstMatrix + i * row + j) * sizeof(D), x);
                }
            }
        }
        OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
            set_nd_para(matrices | static_cast<uint64_t>(srcMatrix) << 16 | static_cast<uint64_t>(dstMatrix) << 32);
            copy_matrix_cc_to_gm(reinterpret_cast<D*>(gm.data()), At<float>(Mem::L0C, 0), 0, n, m, row, srcStride, 0, quant, relu, false, true);
        }, {InOut("gm", gm)});
        ExpectSame<D>(want, gm, std::to_string(m) + " x " + std::to_string(n) + ", source stride " + std::to_string(srcStride));
    }
}

}  // namespace

TWIN_TEST(fixpipe_to_nd) {
    FixpipeNdTest<float>(rng, NoQuant, false);
    FixpipeNdTest<half>(rng, F322F16, false);
    FixpipeNdTest<bfloat16_t>(rng, F322BF16, false);
}
TWIN_TEST(fixpipe_relu) {
    FixpipeNdTest<float>(rng, NoQuant, true);
    FixpipeNdTest<half>(rng, F322F16, true);
}
TWIN_TEST(fixpipe_rounds_half_to_even) {
    Image c(kL0cBytes), gm(512);
    // 1 + 2^-11 lies between 1 and 1 + 2^-10; 1 + 3 x 2^-11 between 1 + 2^-10 and 1 + 2^-9.
    c.Fill<float>(0, 256, [](size_t i) { return i % 2 ? 1 + 3 * 0x1p-11 : 1 + 0x1p-11; });
    OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
        set_nd_para(1);
        copy_matrix_cc_to_gm(reinterpret_cast<half*>(gm.data()), At<float>(Mem::L0C, 0), 0, 16, 16, 16, 16, 0, F322F16, 0, false, true);
    }, {Out("gm", gm)});
    for (uint32_t i = 0; i < 256; ++i) {
        const double want = i % 2 ? 1 + 0x1p-9 : 1.0;
        if (gm.Get<half>(2 * i) != want) Fail("element ", i, ": expected ", want, ", got ", gm.Get<half>(2 * i));
    }
}
TWIN_TEST(fixpipe_to_nz) {
    // Columns of 16 elements; dstStride in blocks of 32 bytes between their starts.
    for (int round = 0; round < 6; ++round) {
        const uint32_t m = rng.Between(1, 60), n = 16 * rng.Between(1, 4), srcStride = Up(m, 16) * 16 + 16 * rng.Below(2);
        const uint32_t dstStride = m + rng.Below(5);
        Image c = L0cNoise(rng), gm = Image::Noise(65536, rng), want = gm;
        for (uint32_t i = 0; i < m; ++i) {
            for (uint32_t j = 0; j < n; ++j) {
                want.Put<half>(j / 16 * dstStride * 32 + i * 32 + j % 16 * 2, c.Get<float>((j / 16 * srcStride + i) * 64 + j % 16 * 4));
            }
        }
        OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
            copy_matrix_cc_to_gm(reinterpret_cast<half*>(gm.data()), At<float>(Mem::L0C, 0), 0, n, m, dstStride, srcStride, 0, F322F16, 0, false, false);
        }, {InOut("gm", gm)});
        ExpectSame<half>(want, gm, std::to_string(m) + " x " + std::to_string(n));
    }
}
TWIN_TEST(fixpipe_atomic_float_add) {
    Image c = L0cNoise(rng), gm(4096);
    gm.Fill<float>(0, 1024, [&](size_t) { return std::floor(rng.Uniform(-50, 50)); });
    Image want = gm;
    for (uint32_t i = 0; i < 32; ++i) {
        for (uint32_t j = 0; j < 32; ++j) want.Put<float>(4 * (32 * i + j), gm.Get<float>(4 * (32 * i + j)) + c.Get<float>((j / 16 * 32 + i) * 64 + j % 16 * 4));
    }
    OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
        set_nd_para(1);
        set_atomic_f32();
        set_atomic_add();
        copy_matrix_cc_to_gm(reinterpret_cast<float*>(gm.data()), At<float>(Mem::L0C, 0), 0, 32, 32, 32, 32, 0, NoQuant, 0, false, true);
        set_atomic_none();
    }, {InOut("gm", gm)});
    ExpectSame<float>(want, gm, "32 x 32");
}
TWIN_TEST(unit_flag_hands_l0c_over) {
    // Two mads on one block (2, then 3), one fixpipe (3), and again: no set_flag between them, and no finding.
    const uint32_t m = 64, n = 64, k = 32;
    Image a(kL0Image), b(kL0Image), c(kL0cBytes), gm(2 * m * n * 4);
    a.Fill<half>(0, m * k, [&](size_t) { return static_cast<double>(rng.Below(9)); });
    b.Fill<half>(0, k * n, [&](size_t) { return static_cast<double>(rng.Below(9)); });
    OnCore(CoreKind::AIC, Mem::L0C, c, [&] {
        std::memcpy(LocalBase(Mem::L0A), a.data(), a.size());
        std::memcpy(LocalBase(Mem::L0B), b.data(), b.size());
        set_nd_para(1);
        for (uint32_t turn = 0; turn < 2; ++turn) {
            mad(At<float>(Mem::L0C, 0), At<half>(Mem::L0A, 0), At<half>(Mem::L0B, 0), m, k, n, 2, false, false, true);
            mad(At<float>(Mem::L0C, 0), At<half>(Mem::L0A, 0), At<half>(Mem::L0B, 0), m, k, n, 3, false, false, false);
            copy_matrix_cc_to_gm(reinterpret_cast<float*>(gm.data()) + turn * m * n, At<float>(Mem::L0C, 0), 0, n, m, n, m, 3, NoQuant, 0, false, true);
        }
    }, {Out("gm", gm)});
    for (uint32_t turn = 0; turn < 2; ++turn) {
        for (uint32_t i = 0; i < m; ++i) {
            for (uint32_t j = 0; j < n; ++j) {
                double want = 0;
                for (uint32_t l = 0; l < k; ++l) want += 2 * a.Get<half>(L0aAt(i, l, k / 16, 2)) * b.Get<half>(L0bAt(l, j, n / 16, 2));
                const double got = gm.Get<float>(4 * (turn * m * n + i * n + j));
                if (got != want) Fail("turn ", turn, ", (", i, ", ", j, "): expected ", want, ", got ", got);
            }
        }
    }
}
TWIN_TEST(fill_l1) {
    // Repeat times, blocks of 32 bytes a repeat, gap between repeats in blocks.
    const uint32_t repeats = 3, blocks = 4, gap = 2;
    Image l1 = Image::Noise(kL1Image, rng), want = l1;
    for (uint32_t r = 0; r < repeats; ++r) {
        for (uint32_t i = 0; i < blocks * 16; ++i) want.Put<half>(r * (blocks + gap) * 32 + 2 * i, 0.375);
    }
    OnCore(CoreKind::AIC, Mem::L1, l1, [&] {
        const int64_t config = repeats | static_cast<int64_t>(blocks) << 16 | static_cast<int64_t>(gap) << 32;
        create_cbuf_matrix(At<half>(Mem::L1, 0), config, half(0.375f));
    });
    ExpectSame<uint16_t>(want, l1, "three repeats of four blocks");
}

}  // namespace twin_test
