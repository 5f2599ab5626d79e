// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic. Special values: table of boundary values of the vector interfaces (results as IEEE 754, overflow
// to infinity, integers wrap). Accuracy: exp and ln 1 ulp; reciprocal and rsqrt are only said to be worse than division.
#include "lanes.h"

namespace twin_test {

namespace {

template <typename T> double AnyValue(Random& rng) {
    if constexpr (std::is_integral_v<T>) {
        return rng.Below(6) == 0 ? rng.Pick<double>({0, 1, -1, static_cast<double>(std::numeric_limits<T>::max()),
                                                     static_cast<double>(std::numeric_limits<T>::min())})
                                 : static_cast<double>(static_cast<T>(rng.Next()));
    } else {
        const double inf = std::numeric_limits<double>::infinity();
        const double max = std::is_same_v<T, half> ? 65504 : std::numeric_limits<float>::max();
        if (rng.Below(8) == 0) return rng.Pick<double>({0.0, -0.0, inf, -inf, std::nan(""), max, -max, 1.0, -1.0});
        return std::ldexp(rng.Uniform(-2, 2), static_cast<int>(rng.Below(24)) - 12);
    }
}

template <typename T> typename Num<T>::Bits Wrap(int64_t x) { return static_cast<typename Num<T>::Bits>(x); }

// One rounding to T. Sums and products of halfs and floats are exact in double up to that rounding (a product of floats
// has 48 bits; a sum of two floats may not be exact, but then rounding twice cannot differ: 53 >= 2 * 24 + 2).
template <typename T> typename Num<T>::Bits Rounded(double x) { return Num<T>::Of(x); }

template <typename T> double LargerOf(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;  // +0 is larger than -0
    return a > b ? a : b;
}
template <typename T> double SmallerOf(double a, double b) { return -LargerOf<T>(-a, -b); }

double Positive(double x) { return std::isnan(x) ? x : x > 0 ? x : 0.0; }

template <typename T, typename Issue, typename Reference>
void BinaryTest(Random& rng, int rounds, Issue issue, Reference reference, int64_t ulps = 0) {
    const uint32_t lanes = 256 / sizeof(T);
    for (int round = 0; round < rounds; ++round) {
        const uint32_t repeats = rng.Between(1, 6);
        const Walk d = DestinationWalk(rng, 0, repeats), a = SourceWalk(rng, 1), b = SourceWalk(rng, 2);
        const Mask mask = Mask::RandomOf(rng, lanes, repeats);
        Image ub(kUbImage);
        ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return AnyValue<T>(rng); });
        Image want = ub;
        ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
            const uint32_t at = d.At(r, i, sizeof(T));
            want.PutRaw<T>(at, reference(ub.Raw<T>(a.At(r, i, sizeof(T))), ub.Raw<T>(b.At(r, i, sizeof(T))), ub.Raw<T>(at)));
        });
        OnAiv(ub, [&] {
            mask.Set();
            issue(Ub<T>(d.start), Ub<T>(a.start), Ub<T>(b.start), repeats, d.blk, a.blk, b.blk, d.rep, a.rep, b.rep);
        });
        ExpectNear<T>(want, ub, ulps, "round " + std::to_string(round) + ", " + mask.Text());
    }
}

template <typename T, typename Issue, typename Reference>
void UnaryTest(Random& rng, int rounds, Issue issue, Reference reference, int64_t ulps = 0) {
    const uint32_t lanes = 256 / sizeof(T);
    for (int round = 0; round < rounds; ++round) {
        const uint32_t repeats = rng.Between(1, 6);
        const bool inPlace = rng.Below(4) == 0;
        const Walk d = DestinationWalk(rng, 0, repeats);
        const Walk a = inPlace ? d : SourceWalk(rng, 1);
        const Mask mask = Mask::RandomOf(rng, lanes, repeats);
        Image ub(kUbImage);
        ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return AnyValue<T>(rng); });
        Image want = ub;
        ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
            const uint32_t at = d.At(r, i, sizeof(T));
            want.PutRaw<T>(at, reference(ub.Raw<T>(a.At(r, i, sizeof(T))), ub.Raw<T>(at)));
        });
        OnAiv(ub, [&] {
            mask.Set();
            issue(Ub<T>(d.start), Ub<T>(a.start), repeats, d.blk, a.blk, d.rep, a.rep);
        });
        ExpectNear<T>(want, ub, ulps, "round " + std::to_string(round) + ", " + mask.Text());
    }
}

#define BINARY(name, type, expression)                                                                               \
    BinaryTest<type>(rng, 12, [](auto... args) { name(args...); },                                                   \
                     [](auto x, auto y, [[maybe_unused]] auto z) {                                                   \
                         [[maybe_unused]] const double a = Num<type>::Value(x), b = Num<type>::Value(y);             \
                         [[maybe_unused]] const double c = Num<type>::Value(z);                                      \
                         return expression;                                                                          \
                     })
#define UNARY(name, type, ulps, expression)                                                                          \
    UnaryTest<type>(rng, 12, [](auto... args) { name(args...); },                                                    \
                    [](auto x, auto) {                                                                               \
                        [[maybe_unused]] const double a = Num<type>::Value(x);                                       \
                        return expression;                                                                           \
                    },                                                                                               \
                    ulps)

}  // namespace

TWIN_TEST(vadd_float) {
    BINARY(vadd, half, Rounded<half>(a + b));
    BINARY(vadd, float, Rounded<float>(a + b));
}
TWIN_TEST(vadd_integers_wrap) {
    BINARY(vadd, int16_t, Wrap<int16_t>(int64_t{x} + y));
    BINARY(vadd, int32_t, Wrap<int32_t>(int64_t{x} + y));
}
TWIN_TEST(vsub) {
    BINARY(vsub, half, Rounded<half>(a - b));
    BINARY(vsub, float, Rounded<float>(a - b));
    BINARY(vsub, int16_t, Wrap<int16_t>(int64_t{x} - y));
    BINARY(vsub, int32_t, Wrap<int32_t>(int64_t{x} - y));
}
TWIN_TEST(vmul) {
    BINARY(vmul, half, Rounded<half>(a * b));
    BINARY(vmul, float, Rounded<float>(a * b));
    BINARY(vmul, int16_t, Wrap<int16_t>(int64_t{x} * y));
    BINARY(vmul, int32_t, Wrap<int32_t>(static_cast<int64_t>(static_cast<uint64_t>(int64_t{x}) * static_cast<uint64_t>(int64_t{y}))));
}
TWIN_TEST(vdiv) {
    // The quotient of two floats in double, rounded once more, is the rounded quotient.
    BINARY(vdiv, half, Rounded<half>(a / b));
    BINARY(vdiv, float, Rounded<float>(a / b));
}
TWIN_TEST(vmax_vmin_nan_and_signed_zero) {
    BINARY(vmax, half, Rounded<half>(LargerOf<half>(a, b)));
    BINARY(vmax, float, Rounded<float>(LargerOf<float>(a, b)));
    BINARY(vmax, int16_t, std::max(x, y));
    BINARY(vmax, int32_t, std::max(x, y));
    BINARY(vmin, half, Rounded<half>(SmallerOf<half>(a, b)));
    BINARY(vmin, float, Rounded<float>(SmallerOf<float>(a, b)));
    BINARY(vmin, int16_t, std::min(x, y));
    BINARY(vmin, int32_t, std::min(x, y));
}
TWIN_TEST(vand_vor_vnot) {
    BINARY(vand, int16_t, static_cast<int16_t>(x & y));
    BINARY(vor, uint16_t, static_cast<uint16_t>(x | y));
    UNARY(vnot, uint16_t, 0, static_cast<uint16_t>(~x));
    UNARY(vnot, int16_t, 0, static_cast<int16_t>(~x));
}
TWIN_TEST(vaddrelu_vsubrelu) {
    BINARY(vaddrelu, half, Rounded<half>(Positive(a + b)));
    BINARY(vaddrelu, float, Rounded<float>(Positive(a + b)));
    BINARY(vsubrelu, half, Rounded<half>(Positive(a - b)));
    BINARY(vsubrelu, float, Rounded<float>(Positive(a - b)));
}
TWIN_TEST(fused_multiply_add) {
    // FusedMulAdd: dst = src0 * dst + src1. MulAddDst: dst = src0 * src1 + dst. Whether the product is rounded before the
    // sum is not documented; a ulp of the result, or one of the product, is allowed for.
    const auto check = [&](auto issue, auto reference, auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 12; ++round) {
            const uint32_t repeats = rng.Between(1, 6);
            const Walk d = DestinationWalk(rng, 0, repeats), a = SourceWalk(rng, 1), b = SourceWalk(rng, 2);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            Image ub(kUbImage);
            ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return rng.Uniform(-4, 4); });
            const Image before = ub;
            OnAiv(ub, [&] {
                mask.Set();
                issue(Ub<T>(d.start), Ub<T>(a.start), Ub<T>(b.start), repeats, d.blk, a.blk, b.blk, d.rep, a.rep, b.rep);
            });
            Image rest = before;
            ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
                const uint32_t at = d.At(r, i, sizeof(T));
                const double x = before.Get<T>(a.At(r, i, sizeof(T))), y = before.Get<T>(b.At(r, i, sizeof(T)));
                const double z = before.Get<T>(at), got = ub.Get<T>(at);
                const auto [sum, product] = reference(x, y, z);
                const double unit = std::is_same_v<T, half> ? 0x1p-10 : 0x1p-23;
                const double allowed = unit * (std::fabs(sum) + std::fabs(product)) + (std::is_same_v<T, half> ? 0x1p-24 : 0);
                if (!(std::fabs(got - sum) <= allowed)) Fail("round ", round, ": expected ", sum, ", got ", got);
                rest.PutRaw<T>(at, ub.Raw<T>(at));
            });
            ExpectSame<T>(rest, ub, "lanes that the mask leaves out");
        }
    };
    const auto madd = [](double x, double y, double z) { return std::pair(x * z + y, x * z); };
    const auto mla = [](double x, double y, double z) { return std::pair(x * y + z, x * y); };
    check([](auto... args) { vmadd(args...); }, madd, half{});
    check([](auto... args) { vmadd(args...); }, madd, float{});
    check([](auto... args) { vmla(args...); }, mla, half{});
    check([](auto... args) { vmla(args...); }, mla, float{});
    check([](auto... args) { vmaddrelu(args...); },
          [](double x, double y, double z) { return std::pair(Positive(x * z + y), x * z); }, float{});
}
TWIN_TEST(vexp_vln) {
    UNARY(vexp, half, 1, Rounded<half>(std::exp(a)));
    UNARY(vexp, float, 1, Rounded<float>(std::exp(a)));
    UNARY(vln, half, 1, Rounded<half>(a == 0 ? -std::numeric_limits<double>::infinity() : std::log(a)));
    UNARY(vln, float, 1, Rounded<float>(a == 0 ? -std::numeric_limits<double>::infinity() : std::log(a)));
}
TWIN_TEST(vsqrt) {
    UNARY(vsqrt, half, 1, Rounded<half>(std::sqrt(a)));
    UNARY(vsqrt, float, 1, Rounded<float>(std::sqrt(a)));
}
TWIN_TEST(vrec_vrsqrt_within_their_loose_accuracy) {
    // Documented only as worse than 1e-3 (half) and 1e-4 (float) may be; so 2e-3 and 2e-4 must hold.
    const auto check = [&](auto issue, auto reference, auto tag) {
        using T = decltype(tag);
        const double limit = std::is_same_v<T, half> ? 2e-3 : 2e-4;
        Image ub(kUbImage);
        ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return rng.Uniform(0.01, 50); });
        const Image before = ub;
        OnAiv(ub, [&] {
            Mask{}.Set();
            issue(Ub<T>(0), Ub<T>(kRegion), 100, 1, 1, 8, 8);
        });
        for (uint32_t at = 0; at < 25600; at += sizeof(T)) {
            const double want = reference(before.Get<T>(kRegion + at)), got = ub.Get<T>(at);
            if (!(std::fabs(got - want) <= limit * want)) Fail("expected about ", want, ", got ", got);
        }
    };
    check([](auto... args) { vrec(args...); }, [](double x) { return 1 / x; }, half{});
    check([](auto... args) { vrec(args...); }, [](double x) { return 1 / x; }, float{});
    check([](auto... args) { vrsqrt(args...); }, [](double x) { return 1 / std::sqrt(x); }, half{});
    check([](auto... args) { vrsqrt(args...); }, [](double x) { return 1 / std::sqrt(x); }, float{});
}
TWIN_TEST(vrec_vrsqrt_special_values) {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
    const auto check = [&](auto issue, std::vector<std::pair<double, double>> cases) {
        Image ub(kUbImage);
        ub.Fill<float>(0, kUbImage / 4, [](size_t) { return 1.0; });
        for (size_t i = 0; i < cases.size(); ++i) ub.Put<float>(kRegion + 4 * i, cases[i].first);
        OnAiv(ub, [&] {
            Mask{}.Set();
            issue(Ub<float>(0), Ub<float>(kRegion), 1, 1, 1, 8, 8);
        });
        for (size_t i = 0; i < cases.size(); ++i) {
            const double want = cases[i].second, got = ub.Get<float>(4 * i);
            const bool same = std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want);
            if (!same) Fail("of ", cases[i].first, ": expected ", want, ", got ", got);
        }
    };
    check([](auto... args) { vrec(args...); }, {{0.0, inf}, {-0.0, -inf}, {nan, nan}, {inf, 0.0}, {-inf, -0.0}});
    check([](auto... args) { vrsqrt(args...); }, {{0.0, inf}, {-0.0, -inf}, {nan, nan}, {inf, 0.0}, {-inf, nan}, {-1.0, nan}});
}
TWIN_TEST(vabs_vrelu) {
    UNARY(vabs, half, 0, static_cast<uint16_t>(x & 0x7fff));
    UNARY(vabs, float, 0, x & 0x7fffffffu);
    UNARY(vrelu, half, 0, Rounded<half>(Positive(a)));
    UNARY(vrelu, float, 0, Rounded<float>(Positive(a)));
    UNARY(vrelu, int32_t, 0, std::max(x, 0));
}
TWIN_TEST(vadds_vmuls) {
    const auto check = [&](auto tag, auto bits) {
        using T = decltype(tag);
        for (int i = 0; i < 4; ++i) {
            const double s = AnyValue<T>(rng);
            const auto raw = Num<T>::Of(s);
            T scalar;
            std::memcpy(&scalar, &raw, sizeof(T));
            UnaryTest<T>(rng, 4, [&](T* d, T* a, auto... rest) { vadds(d, a, scalar, rest...); },
                         [&](auto x, auto) { return bits(x, raw, '+'); });
            UnaryTest<T>(rng, 4, [&](T* d, T* a, auto... rest) { vmuls(d, a, scalar, rest...); },
                         [&](auto x, auto) { return bits(x, raw, '*'); });
        }
    };
    const auto real = [](auto tag) {
        using T = decltype(tag);
        return [](auto x, auto y, char op) {
            const double a = Num<T>::Value(x), b = Num<T>::Value(y);
            return Rounded<T>(op == '+' ? a + b : a * b);
        };
    };
    const auto integer = [](auto x, auto y, char op) {
        const uint64_t a = static_cast<uint64_t>(int64_t{x}), b = static_cast<uint64_t>(int64_t{y});
        return static_cast<decltype(x)>(op == '+' ? a + b : a * b);
    };
    check(half{}, real(half{}));
    check(float{}, real(float{}));
    check(int16_t{}, integer);
    check(int32_t{}, integer);
}
TWIN_TEST(vmaxs_vmins) {
    const auto check = [&](auto tag, double s) {
        using T = decltype(tag);
        const auto raw = Num<T>::Of(s);
        const double value = Num<T>::Value(raw);
        T scalar;
        std::memcpy(&scalar, &raw, sizeof(T));
        UnaryTest<T>(rng, 6, [&](T* d, T* a, auto... rest) { vmaxs(d, a, scalar, rest...); },
                     [&](auto x, auto) { return Rounded<T>(LargerOf<T>(Num<T>::Value(x), value)); });
        UnaryTest<T>(rng, 6, [&](T* d, T* a, auto... rest) { vmins(d, a, scalar, rest...); },
                     [&](auto x, auto) { return Rounded<T>(SmallerOf<T>(Num<T>::Value(x), value)); });
    };
    for (const double s : {0.0, -3.5, 70.0}) {
        check(half{}, s);
        check(float{}, s);
        check(int16_t{}, s);
        check(int32_t{}, s);
    }
}
TWIN_TEST(vlrelu) {
    // x >= 0: x, else x * alpha.
    const float alpha = 0.125f;
    UnaryTest<float>(rng, 8, [&](float* d, float* a, auto... rest) { vlrelu(d, a, alpha, rest...); }, [&](auto x, auto) {
        const double a = Num<float>::Value(x);
        return std::isnan(a) || a >= 0 ? x : Rounded<float>(a * alpha);
    });
    UnaryTest<half>(rng, 8, [&](half* d, half* a, auto... rest) { vlrelu(d, a, half(0.125f), rest...); }, [&](auto x, auto) {
        const double a = Num<half>::Value(x);
        return std::isnan(a) || a >= 0 ? x : Rounded<half>(a * 0.125);
    });
}
TWIN_TEST(vaxpy) {
    // dst += src * scalar; half sources may go into a float destination, whose strides count its own blocks.
    const half scalar(0.75f);
    UnaryTest<float>(rng, 8, [&](float* d, float* a, auto... rest) { vaxpy(d, a, 0.75f, rest...); }, [&](auto x, auto z) {
        return Rounded<float>(Num<float>::Value(x) * 0.75 + Num<float>::Value(z));
    }, 1);
    for (int round = 0; round < 8; ++round) {
        const uint32_t repeats = rng.Between(1, 4);
        const Mask mask = Mask::RandomOf(rng, 64, repeats);
        Image ub(kUbImage);
        ub.Fill<float>(0, kRegion / 4, [&](size_t) { return rng.Uniform(-9, 9); });
        ub.Fill<half>(kRegion, kRegion / 2, [&](size_t) { return rng.Uniform(-9, 9); });
        Image want = ub;
        ForLanes(mask, repeats, 64, [&](uint32_t r, uint32_t i) {
            const uint32_t d = (r * 64 + i) * 4;
            want.Put<float>(d, ub.Get<half>(kRegion + (r * 64 + i) * 2) * 0.75 + ub.Get<float>(d));
        });
        OnAiv(ub, [&] {
            mask.Set();
            vaxpy(Ub<float>(0), Ub<half>(kRegion), scalar, repeats, 1, 1, 8, 4);
        });
        ExpectNear<float>(want, ub, 1, "half into float");
    }
}
TWIN_TEST(vshl_vshr) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        using U = std::make_unsigned_t<T>;
        for (int i = 0; i < 6; ++i) {
            const uint32_t n = rng.Below(sizeof(T) * 8);
            UnaryTest<T>(rng, 2, [&](T* d, T* a, auto... rest) { vshl(d, a, n, rest...); },
                         [&](auto x, auto) { return static_cast<T>(static_cast<U>(x) << n); });
            UnaryTest<T>(rng, 2, [&](T* d, T* a, uint32_t r, uint32_t db, uint32_t ab, uint32_t dr, uint32_t ar) {
                vshr(d, a, n, r, db, ab, dr, ar, false);
            }, [&](auto x, auto) { return static_cast<T>(x >> n); });
        }
    };
    check(int16_t{});
    check(uint16_t{});
    check(int32_t{});
    check(uint32_t{});
}
TWIN_TEST(no_work_without_repeats_or_lanes) {
    // A repeat count of zero is a no-op.
    Image ub = Image::Noise(kUbImage, rng);
    const Image want = ub;
    OnAiv(ub, [&] {
        Mask{}.Set();
        vadd(Ub<float>(0), Ub<float>(kRegion), Ub<float>(2 * kRegion), 0, 1, 1, 1, 8, 8, 8);
    });
    ExpectSame<uint32_t>(want, ub, "repeat 0");
}
TWIN_TEST(counter_mode_ignores_the_repeat_count) {
    Image ub(kUbImage);
    ub.Fill<float>(0, kUbImage / 4, [&](size_t) { return rng.Uniform(-5, 5); });
    Image want = ub;
    for (uint32_t i = 0; i < 1000; ++i) want.Put<float>(4 * i, ub.Get<float>(kRegion + 4 * i) + ub.Get<float>(2 * kRegion + 4 * i));
    OnAiv(ub, [&] {
        set_mask_count();
        set_vector_mask(0, 1000);
        vadd(Ub<float>(0), Ub<float>(kRegion), Ub<float>(2 * kRegion), 1, 1, 1, 1, 8, 8, 8);
    });
    ExpectSame<float>(want, ub, "1000 elements, repeat 1");
}

}  // namespace twin_test
