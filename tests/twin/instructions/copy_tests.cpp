// SPDX-License-Identifier: Apache-2.0
// Copies between global memory and UB or L1: units of lengths and gaps, fillers, the NZ layout and its zero tail.
#include "lanes.h"

namespace twin_test {

namespace {

void CopyBytes(Image& to, size_t at, const Image& from, size_t fromAt, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) to.PutRaw<uint8_t>(at + i, from.Raw<uint8_t>(fromAt + i));
}

}  // namespace

TWIN_TEST(gm_to_ub_blocks) {
    // Lengths and both gaps in blocks of 32 bytes; a gap lies between the end of a piece and the start of the next.
    for (int round = 0; round < 10; ++round) {
        const uint32_t pieces = rng.Between(1, 6), length = rng.Between(1, 8), srcGap = rng.Below(4), dstGap = rng.Below(4);
        Image gm = Image::Noise(16384, rng), ub = Image::Noise(kUbImage, rng), want = ub;
        for (uint32_t p = 0; p < pieces; ++p) CopyBytes(want, p * (length + dstGap) * 32, gm, p * (length + srcGap) * 32, length * 32);
        OnAiv(ub, [&] { copy_gm_to_ubuf(Ub<uint8_t>(0), gm.data(), 0, pieces, length, srcGap, dstGap); }, {In("gm", gm)});
        ExpectSame<uint8_t>(want, ub, "round " + std::to_string(round));
    }
}
TWIN_TEST(ub_to_gm_blocks) {
    for (int round = 0; round < 10; ++round) {
        const uint32_t pieces = rng.Between(1, 6), length = rng.Between(1, 8), srcGap = rng.Below(4), dstGap = rng.Below(4);
        Image gm = Image::Noise(16384, rng), ub = Image::Noise(kUbImage, rng), want = gm;
        for (uint32_t p = 0; p < pieces; ++p) CopyBytes(want, p * (length + dstGap) * 32, ub, p * (length + srcGap) * 32, length * 32);
        OnAiv(ub, [&] { copy_ubuf_to_gm(gm.data(), Ub<uint8_t>(0), 0, pieces, length, srcGap, dstGap); }, {InOut("gm", gm)});
        ExpectSame<uint8_t>(want, gm, "round " + std::to_string(round));
    }
}
TWIN_TEST(ub_to_ub_blocks) {
    for (int round = 0; round < 6; ++round) {
        const uint32_t pieces = rng.Between(1, 6), length = rng.Between(1, 8), srcGap = rng.Below(4), dstGap = rng.Below(4);
        Image ub = Image::Noise(kUbImage, rng), want = ub;
        for (uint32_t p = 0; p < pieces; ++p) {
            CopyBytes(want, p * (length + dstGap) * 32, ub, kRegion + p * (length + srcGap) * 32, length * 32);
        }
        OnAiv(ub, [&] { copy_ubuf_to_ubuf(Ub<uint8_t>(0), Ub<uint8_t>(kRegion), 0, pieces, length, srcGap, dstGap); });
        ExpectSame<uint8_t>(want, ub, "round " + std::to_string(round));
    }
}
TWIN_TEST(gm_to_ub_bytes_gap_units_and_filler) {
    // Lengths and the gap in GM count bytes; the gap in UB counts blocks, after the row was rounded up to whole blocks.
    // Without padding the filler repeats the row's first element.
    const auto check = [&](auto tag, auto issue) {
        using T = decltype(tag);
        for (int round = 0; round < 10; ++round) {
            const uint32_t pieces = rng.Between(1, 5), length = sizeof(T) * rng.Between(1, 70), gmGap = rng.Below(50), ubGap = rng.Below(3);
            const uint32_t first = sizeof(T) * rng.Below(7);
            Image gm = Image::Noise(8192, rng), ub = Image::Noise(kUbImage, rng), want = ub;
            const uint32_t rounded = (length + 31) / 32 * 32;
            for (uint32_t p = 0; p < pieces; ++p) {
                const uint32_t at = p * (rounded + ubGap * 32), from = first + p * (length + gmGap);
                CopyBytes(want, at, gm, from, length);
                for (uint32_t i = length; i < rounded; i += sizeof(T)) CopyBytes(want, at + i, gm, from, sizeof(T));
            }
            OnAiv(ub, [&] { issue(Ub<T>(0), reinterpret_cast<T*>(gm.data() + first), 0, pieces, length, 0, 0, gmGap, ubGap); },
                  {In("gm", gm)});
            ExpectSame<uint8_t>(want, ub, std::to_string(sizeof(T)) + " byte elements, length " + std::to_string(length));
        }
    };
    check(uint8_t{}, [](auto... args) { copy_gm_to_ubuf_align_b8(args...); });
    check(uint16_t{}, [](auto... args) { copy_gm_to_ubuf_align_b16(args...); });
    check(uint32_t{}, [](auto... args) { copy_gm_to_ubuf_align_b32(args...); });
}
TWIN_TEST(gm_to_ub_padding_value) {
    // With padding on either side, the pads and the rest of the block hold the value of the pad register.
    for (int round = 0; round < 10; ++round) {
        const uint32_t pieces = rng.Between(1, 4), elements = rng.Between(1, 40), left = rng.Below(9), right = rng.Between(left ? 0 : 1, 9);
        const uint16_t value = static_cast<uint16_t>(rng.Next());
        Image gm = Image::Noise(8192, rng), ub = Image::Noise(kUbImage, rng), want = ub;
        const uint32_t rounded = (2 * (elements + left + right) + 31) / 32 * 32;
        for (uint32_t p = 0; p < pieces; ++p) {
            for (uint32_t i = 0; i < rounded / 2; ++i) {
                const bool payload = i >= left && i < left + elements;
                want.PutRaw<uint16_t>(p * rounded + 2 * i, payload ? gm.Raw<uint16_t>(2 * (p * elements + i - left)) : value);
            }
        }
        OnAiv(ub, [&] {
            set_mov_pad_val(value);
            copy_gm_to_ubuf_align_b16(Ub<uint16_t>(0), gm.data(), 0, pieces, 2 * elements, left, right, 0, 0);
        }, {In("gm", gm)});
        ExpectSame<uint8_t>(want, ub, "pads " + std::to_string(left) + " and " + std::to_string(right));
    }
}
TWIN_TEST(ub_to_gm_bytes) {
    // The gap in UB counts blocks after rounding up, that in GM bytes; filler bytes do not reach GM.
    for (int round = 0; round < 12; ++round) {
        const uint32_t pieces = rng.Between(1, 5), length = 2 * rng.Between(1, 70), ubGap = rng.Below(3), gmGap = rng.Below(50);
        Image gm = Image::Noise(8192, rng), ub = Image::Noise(kUbImage, rng), want = gm;
        const uint32_t rounded = (length + 31) / 32 * 32;
        for (uint32_t p = 0; p < pieces; ++p) CopyBytes(want, p * (length + gmGap), ub, p * (rounded + ubGap * 32), length);
        OnAiv(ub, [&] { copy_ubuf_to_gm_align_b16(gm.data(), Ub<uint16_t>(0), 0, pieces, length, 0, 0, ubGap, gmGap); },
              {InOut("gm", gm)});
        ExpectSame<uint8_t>(want, gm, "length " + std::to_string(length));
    }
}
TWIN_TEST(gm_to_l1_blocks) {
    for (int round = 0; round < 6; ++round) {
        const uint32_t pieces = rng.Between(1, 6), length = rng.Between(1, 8), srcGap = rng.Below(4), dstGap = rng.Below(4);
        Image gm = Image::Noise(16384, rng), l1 = Image::Noise(65536, rng), want = l1;
        for (uint32_t p = 0; p < pieces; ++p) CopyBytes(want, p * (length + dstGap) * 32, gm, p * (length + srcGap) * 32, length * 32);
        OnCore(CoreKind::AIC, Mem::L1, l1, [&] {
            copy_gm_to_cbuf(At<uint8_t>(Mem::L1, 0), gm.data(), 0, pieces, length, srcGap, dstGap, PAD_NONE);
        }, {In("gm", gm)});
        ExpectSame<uint8_t>(want, l1, "round " + std::to_string(round));
    }
}
TWIN_TEST(nd_to_nz_zero_tail_and_strides) {
    // Element (row, column) of matrix m goes to m * matrixStride elements + (column / C0) * c0Stride + row * nStride, both in
    // units of C0; columns that fill up the last C0 are zero; rows between are not touched.
    const auto check = [&](auto tag, auto issue) {
        using T = decltype(tag);
        const uint32_t c0 = 32 / sizeof(T);
        for (int round = 0; round < 10; ++round) {
            const uint32_t matrices = rng.Between(1, 3), rows = rng.Between(1, 20), columns = rng.Between(1, 70), srcColumns = columns + rng.Below(9);
            const uint32_t srcMatrix = rows * srcColumns + rng.Below(5), nStride = rng.Between(1, 2), c0Stride = rows * nStride + rng.Below(4);
            const uint32_t columnBlocks = (columns + c0 - 1) / c0, dstMatrix = (columnBlocks * c0Stride + rng.Below(3)) * c0;
            Image gm = Image::Noise(65536, rng), l1 = Image::Noise(65536, rng), want = l1;
            for (uint32_t m = 0; m < matrices; ++m) {
                for (uint32_t r = 0; r < rows; ++r) {
                    for (uint32_t c = 0; c < columnBlocks * c0; ++c) {
                        const uint32_t at = m * dstMatrix + (c / c0 * c0Stride + r * nStride) * c0 + c % c0;
                        want.PutRaw<T>(at * sizeof(T), c < columns ? gm.Raw<T>((m * srcMatrix + r * srcColumns + c) * sizeof(T)) : T{0});
                    }
                }
            }
            OnCore(CoreKind::AIC, Mem::L1, l1, [&] {
                issue(At<T>(Mem::L1, 0), reinterpret_cast<T*>(gm.data()), 0, matrices, rows, columns, srcMatrix, srcColumns, c0Stride,
                      nStride, dstMatrix);
            }, {In("gm", gm)});
            ExpectSame<uint8_t>(want, l1, std::to_string(rows) + " x " + std::to_string(columns));
        }
    };
    check(uint8_t{}, [](auto... args) { copy_gm_to_cbuf_multi_nd2nz_b8(args...); });
    check(uint16_t{}, [](auto... args) { copy_gm_to_cbuf_multi_nd2nz_b16(args...); });
    check(uint32_t{}, [](auto... args) { copy_gm_to_cbuf_multi_nd2nz_b32s(args...); });
}

// ---- atomics: copies to GM that combine with what is there ----

namespace {

template <typename T, typename Enable, typename Combine>
void AtomicTest(Random& rng, Enable enable, Combine combine, const char* what) {
    const uint32_t count = 64;
    Image gm(4096), ub(kUbImage);
    if constexpr (std::is_integral_v<T>) {
        for (uint32_t i = 0; i < count; ++i) gm.PutRaw<T>(i * sizeof(T), static_cast<T>(rng.Next())), ub.PutRaw<T>(i * sizeof(T), static_cast<T>(rng.Next()));
    } else {
        gm.Fill<T>(0, count, [&](size_t) { return std::floor(rng.Uniform(-90, 90)) * 0.25; });
        ub.Fill<T>(0, count, [&](size_t) { return std::floor(rng.Uniform(-90, 90)) * 0.25; });
    }
    Image want = gm;
    for (uint32_t i = 0; i < count; ++i) want.PutRaw<T>(i * sizeof(T), combine(gm.Raw<T>(i * sizeof(T)), ub.Raw<T>(i * sizeof(T))));
    Image twice = want;
    CopyBytes(twice, 2048, ub, 0, 32);
    OnAiv(ub, [&] {
        enable();
        copy_ubuf_to_gm(gm.data(), Ub<T>(0), 0, 1, count * sizeof(T) / 32, 0, 0);
        set_atomic_none();
        copy_ubuf_to_gm(gm.data() + 2048, Ub<T>(0), 0, 1, 1, 0, 0);  // no longer atomic
    }, {InOut("gm", gm)});
    ExpectSame<T>(twice, gm, what);
}

template <typename T> auto Real(double (*f)(double, double)) {
    return [f](auto a, auto b) { return Num<T>::Of(f(Num<T>::Value(a), Num<T>::Value(b))); };
}
double Plus(double a, double b) { return a + b; }
double Larger(double a, double b) { return std::max(a, b); }
double Smaller(double a, double b) { return std::min(a, b); }

}  // namespace

TWIN_TEST(atomic_add_to_gm) {
    AtomicTest<float>(rng, [] { set_atomic_f32(); set_atomic_add(); }, Real<float>(Plus), "float");
    AtomicTest<half>(rng, [] { set_atomic_f16(); set_atomic_add(); }, Real<half>(Plus), "half");
    AtomicTest<bfloat16_t>(rng, [] { set_atomic_bf16(); set_atomic_add(); }, Real<bfloat16_t>(Plus), "bfloat16");
    AtomicTest<int32_t>(rng, [] { set_atomic_s32(); set_atomic_add(); },
                        [](int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }, "int32 wraps");
    AtomicTest<int16_t>(rng, [] { set_atomic_s16(); set_atomic_add(); },
                        [](int16_t a, int16_t b) { return static_cast<int16_t>(a + b); }, "int16 wraps");
}
TWIN_TEST(atomic_max_min_to_gm) {
    AtomicTest<float>(rng, [] { set_atomic_f32(); set_atomic_max(); }, Real<float>(Larger), "float max");
    AtomicTest<half>(rng, [] { set_atomic_f16(); set_atomic_min(); }, Real<half>(Smaller), "half min");
    AtomicTest<int32_t>(rng, [] { set_atomic_s32(); set_atomic_max(); }, [](int32_t a, int32_t b) { return std::max(a, b); }, "int32 max");
    AtomicTest<int32_t>(rng, [] { set_atomic_s32(); set_atomic_min(); }, [](int32_t a, int32_t b) { return std::min(a, b); }, "int32 min");
}
TWIN_TEST(atomic_int_add_on_float_exponents) {
    // Adding n << 23 to the bits of a float multiplies it by two to the n: how partial results are rescaled in GM.
    Image gm(256), ub(kUbImage);
    gm.Fill<float>(0, 64, [&](size_t) { return rng.Uniform(0.5, 9); });
    for (uint32_t i = 0; i < 64; ++i) ub.PutRaw<int32_t>(4 * i, (static_cast<int32_t>(i % 5) - 2) * (1 << 23));
    Image want = gm;
    for (uint32_t i = 0; i < 64; ++i) want.Put<float>(4 * i, std::ldexp(gm.Get<float>(4 * i), static_cast<int>(i % 5) - 2));
    OnAiv(ub, [&] {
        set_atomic_s32();
        set_atomic_add();
        copy_ubuf_to_gm(gm.data(), Ub<int32_t>(0), 0, 1, 8, 0, 0);
        set_atomic_none();
    }, {InOut("gm", gm)});
    ExpectSame<float>(want, gm, "scaled by powers of two");
}

}  // namespace twin_test
