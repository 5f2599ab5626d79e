// SPDX-License-Identifier: Apache-2.0
// Conversions in every rounding mode: page on precision conversion (modes, saturation of integers) and table of boundary
// values (NaN to 0, floats overflow to infinity, float to float turns -0 into +0).
#include "lanes.h"

namespace twin_test {

namespace {

template <typename T> double Saturated(double x) {
    if (std::isnan(x)) return 0;
    return std::min(std::max(x, static_cast<double>(std::numeric_limits<T>::min())), static_cast<double>(std::numeric_limits<T>::max()));
}

template <typename D> typename Num<D>::Bits Converted(double x, Mode mode) {
    if constexpr (std::is_same_v<D, half>) return HalfBits(ToHalfGrid(x, mode));
    else if constexpr (std::is_same_v<D, bfloat16_t>) {
        const float f = static_cast<float>(ToBf16Grid(x, mode));
        uint32_t bits;
        std::memcpy(&bits, &f, 4);
        return static_cast<uint16_t>(bits >> 16);
    } else if constexpr (std::is_same_v<D, float>) return Num<float>::Of(ToFloatGrid(x, mode));
    else if constexpr (sizeof(D) == 8) {
        const double r = std::isnan(x) ? 0 : RoundInteger(x, mode);
        if (r >= 0x1p63) return std::numeric_limits<int64_t>::max();
        if (r <= -0x1p63) return std::numeric_limits<int64_t>::min();
        return static_cast<int64_t>(r);
    } else return static_cast<typename Num<D>::Bits>(static_cast<int64_t>(Saturated<D>(std::isinf(x) || std::isnan(x) ? x : RoundInteger(x, mode))));
}

// Values around every decision a rounding mode takes: halves, neighbours of halves, both signs.
template <typename S> double Delicate(Random& rng, double limit) {
    if constexpr (std::is_integral_v<S>) {
        // int64_t stays within what a double holds exactly.
        const uint32_t low = sizeof(S) == 8 ? 11 : 0;
        return static_cast<double>(static_cast<S>(static_cast<int64_t>(rng.Next()) >> rng.Between(low, sizeof(S) * 8 - 1)));
    } else {
        const double base = std::floor(rng.Uniform(-limit, limit));
        switch (rng.Below(6)) {
            case 0: return base + 0.5;
            case 1: return base + 0.25;
            case 2: return base + 0.75;
            case 3: return base;
            case 4: return std::copysign(std::ldexp(1 + rng.Below(1 << 12) * 0x1p-12, static_cast<int>(rng.Below(14)) - 12), base);
            default: return rng.Uniform(-limit, limit);
        }
    }
}

template <typename D, typename S, typename Issue>
void ConvertTest(Random& rng, Issue issue, Mode mode, double limit, bool specials, const char* what) {
    const uint32_t wide = std::max(sizeof(D), sizeof(S));
    const uint32_t lanes = 256 / wide;
    for (int round = 0; round < 6; ++round) {
        const uint32_t repeats = rng.Between(1, 4);
        const Mask mask = Mask::RandomOf(rng, lanes, repeats);
        // Dense: the narrow side advances by fewer blocks a repeat.
        const uint32_t dRep = static_cast<uint32_t>(lanes * sizeof(D) / 32), sRep = static_cast<uint32_t>(lanes * sizeof(S) / 32);
        const Walk d{0, 1, dRep + rng.Below(2)}, s{kRegion, 1, sRep + rng.Below(2)};
        Image ub(kUbImage);
        ub.Fill<S>(kRegion, kRegion / sizeof(S), [&](size_t) {
            if constexpr (!std::is_integral_v<S>) {
                if (specials && rng.Below(10) == 0) {
                    const double inf = std::numeric_limits<double>::infinity();
                    return rng.Pick<double>({inf, -inf, std::nan(""), 0.0});
                }
            }
            return Delicate<S>(rng, limit);
        });
        ub.Fill<D>(0, kRegion / sizeof(D), [&](size_t) { return 77.0; });
        Image want = ub;
        ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
            const auto raw = ub.Raw<S>(s.At(r, i, sizeof(S)));
            typename Num<D>::Bits bits;
            if constexpr (std::is_same_v<S, int64_t> && std::is_same_v<D, int32_t>) {
                bits = static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(raw, INT32_MIN), INT32_MAX));
            } else {
                bits = Converted<D>(Num<S>::Value(raw), mode);
            }
            want.PutRaw<D>(d.At(r, i, sizeof(D)), bits);
        });
        OnAiv(ub, [&] {
            mask.Set();
            issue(Ub<D>(0), Ub<S>(kRegion), repeats, 1, 1, d.rep, s.rep);
        });
        ExpectSame<D>(want, ub, std::string(what) + ", " + mask.Text());
    }
}

#define CONVERT(name, D, S, mode, limit, specials) \
    ConvertTest<D, S>(rng, [](auto... args) { vconv_##name(args...); }, mode, limit, specials, #name)
#define CONVERT_MODES(name, D, S, limit, specials)          \
    CONVERT(name##r, D, S, Mode::Rint, limit, specials);    \
    CONVERT(name##f, D, S, Mode::Floor, limit, specials);   \
    CONVERT(name##c, D, S, Mode::Ceil, limit, specials);    \
    CONVERT(name##a, D, S, Mode::Away, limit, specials);    \
    CONVERT(name##z, D, S, Mode::Trunc, limit, specials)

}  // namespace

TWIN_TEST(float_to_half_every_mode) {
    CONVERT(f322f16, half, float, Mode::Rint, 3000, true);
    CONVERT_MODES(f322f16, half, float, 3000, true);
    CONVERT(f322f16o, half, float, Mode::Odd, 3000, true);
}
TWIN_TEST(float_to_half_overflows_to_infinity) { CONVERT(f322f16r, half, float, Mode::Rint, 2e5, true); }
TWIN_TEST(float_to_half_subnormals) { CONVERT(f322f16r, half, float, Mode::Rint, 6e-5, false); }
TWIN_TEST(float_to_bf16_every_mode) { CONVERT_MODES(f322bf16, bfloat16_t, float, 70000, true); }
TWIN_TEST(float_to_int32_every_mode) {
    CONVERT_MODES(f322s32, int32_t, float, 5000, true);
    CONVERT(f322s32r, int32_t, float, Mode::Rint, 1e12, true);
}
TWIN_TEST(float_to_int16_every_mode) {
    CONVERT_MODES(f322s16, int16_t, float, 5000, true);
    CONVERT(f322s16z, int16_t, float, Mode::Trunc, 1e6, true);
}
TWIN_TEST(float_to_int64_every_mode) { CONVERT_MODES(f322s64, int64_t, float, 5000, true); }
TWIN_TEST(float_to_integral_float_every_mode) {
    // Rounds to an integer and stays a float; -0 becomes +0.
    const auto check = [&](auto issue, Mode mode) {
        Image ub(kUbImage);
        ub.Fill<float>(kRegion, 256, [&](size_t i) { return i == 0 ? -0.0 : Delicate<float>(rng, 300); });
        Image want = ub;
        for (uint32_t i = 0; i < 256; ++i) {
            const double r = RoundInteger(ub.Get<float>(kRegion + 4 * i), mode);
            want.Put<float>(4 * i, r);
        }
        OnAiv(ub, [&] {
            Mask{}.Set();
            issue(Ub<float>(0), Ub<float>(kRegion), 4, 1, 1, 8, 8);
        });
        for (uint32_t i = 0; i < 256; ++i) {
            if (ub.Get<float>(4 * i) != want.Get<float>(4 * i)) {
                Fail("of ", ub.Get<float>(kRegion + 4 * i), ": expected ", want.Get<float>(4 * i), ", got ", ub.Get<float>(4 * i));
            }
        }
        if (std::signbit(ub.Get<float>(0))) Fail("-0 must become +0");
    };
    check([](auto... args) { vconv_f322f32r(args...); }, Mode::Rint);
    check([](auto... args) { vconv_f322f32f(args...); }, Mode::Floor);
    check([](auto... args) { vconv_f322f32c(args...); }, Mode::Ceil);
    check([](auto... args) { vconv_f322f32a(args...); }, Mode::Away);
    check([](auto... args) { vconv_f322f32z(args...); }, Mode::Trunc);
}
TWIN_TEST(half_to_integers_every_mode) {
    CONVERT_MODES(f162s32, int32_t, half, 2000, true);
    // The documents contradict each other about halfs beyond int16_t; values within it are not in doubt.
    CONVERT_MODES(f162s16, int16_t, half, 2000, false);
    CONVERT(f162s8, int8_t, half, Mode::Rint, 100, true);
    CONVERT_MODES(f162s8, int8_t, half, 100, true);
    CONVERT(f162s8r, int8_t, half, Mode::Rint, 400, true);
}
TWIN_TEST(half_to_uint8_every_mode) {
    CONVERT(f162u8, uint8_t, half, Mode::Rint, 200, true);
    CONVERT_MODES(f162u8, uint8_t, half, 200, true);
    CONVERT(f162u8z, uint8_t, half, Mode::Trunc, 900, true);
}
TWIN_TEST(widening_is_exact) {
    CONVERT(f162f32, float, half, Mode::Rint, 60000, true);
    CONVERT(bf162f32, float, bfloat16_t, Mode::Rint, 1e9, true);
    CONVERT(u82f16, half, uint8_t, Mode::Rint, 0, false);
    CONVERT(s82f16, half, int8_t, Mode::Rint, 0, false);
    CONVERT(s162f32, float, int16_t, Mode::Rint, 0, false);
    CONVERT(s322s64, int64_t, int32_t, Mode::Rint, 0, false);
}
TWIN_TEST(bf16_to_int32_every_mode) { CONVERT_MODES(bf162s32, int32_t, bfloat16_t, 200, true); }
TWIN_TEST(int16_to_half_every_mode) {
    CONVERT(s162f16, half, int16_t, Mode::Rint, 0, false);
    CONVERT_MODES(s162f16, half, int16_t, 0, false);
}
TWIN_TEST(int32_to_float_every_mode) {
    CONVERT(s322f32, float, int32_t, Mode::Rint, 0, false);
    CONVERT_MODES(s322f32, float, int32_t, 0, false);
}
TWIN_TEST(int64_to_float_every_mode) { CONVERT_MODES(s642f32, float, int64_t, 0, false); }
TWIN_TEST(narrowing_integers_saturate) {
    CONVERT(s322s16, int16_t, int32_t, Mode::Rint, 0, false);
    CONVERT(s642s32, int32_t, int64_t, Mode::Rint, 0, false);
}
TWIN_TEST(half_away_and_half_even_differ) {
    // 2.5 and -2.5, 3.5 and -3.5: even gives 2, -2, 4, -4; away gives 3, -3, 4, -4.
    Image ub(kUbImage);
    ub.Fill<float>(kRegion, 64, [](size_t i) { return (i % 4 < 2 ? 2.5 : 3.5) * (i % 2 ? -1 : 1); });
    OnAiv(ub, [&] {
        Mask{}.Set();
        vconv_f322s32r(Ub<int32_t>(0), Ub<float>(kRegion), 1, 1, 1, 8, 8);
        vconv_f322s32a(Ub<int32_t>(256), Ub<float>(kRegion), 1, 1, 1, 8, 8);
    });
    const int even[] = {2, -2, 4, -4}, away[] = {3, -3, 4, -4};
    for (uint32_t i = 0; i < 64; ++i) {
        if (ub.Raw<int32_t>(4 * i) != even[i % 4]) Fail("half to even of lane ", i, ": got ", ub.Raw<int32_t>(4 * i));
        if (ub.Raw<int32_t>(256 + 4 * i) != away[i % 4]) Fail("half away of lane ", i, ": got ", ub.Raw<int32_t>(256 + 4 * i));
    }
}
TWIN_TEST(int32_to_half_with_deqscale) {
    // dst = half(src * scale), the scale from set_deqscale.
    Image ub(kUbImage);
    ub.Fill<int32_t>(kRegion, 128, [&](size_t) { return std::floor(rng.Uniform(-3000, 3000)); });
    Image want = ub;
    for (uint32_t i = 0; i < 128; ++i) want.Put<half>(2 * i, ub.Raw<int32_t>(kRegion + 4 * i) * 0.5);
    OnAiv(ub, [&] {
        Mask{}.Set();
        set_deqscale(half(0.5f));
        vconv_deq(Ub<half>(0), Ub<int32_t>(kRegion), 2, 1, 1, 4, 8);
    });
    ExpectSame<half>(want, ub, "deq");
}

}  // namespace twin_test
