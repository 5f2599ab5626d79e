// SPDX-License-Identifier: Apache-2.0
// Reductions over a repeat, over 32-byte blocks, over pairs. Sums use small integers, so that their order does not show.
#include "lanes.h"

namespace twin_test {

namespace {

template <typename T> Image SmallIntegers(Random& rng) {
    Image ub(kUbImage);
    ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return static_cast<double>(rng.Below(41)) - 20; });
    return ub;
}

template <typename T, typename Issue>
void WholeExtremeTest(Random& rng, Issue issue, bool largest) {
    const uint32_t lanes = 256 / sizeof(T);
    for (const Order_t order : {VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX}) {
        for (int round = 0; round < 3; ++round) {
            const uint32_t repeats = rng.Between(1, 6), dRep = rng.Between(1, 4);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk s = SourceWalk(rng, 1);
            Image ub = SmallIntegers<T>(rng);
            Image want = ub;
            // What a repeat yields; a step of dRep is as long as that. An index alone takes four bytes for halfs too.
            const uint32_t step = order == ONLY_VALUE ? sizeof(T) : order == ONLY_INDEX ? 4 : 2 * sizeof(T);
            for (uint32_t r = 0; r < mask.Repeats(lanes, repeats); ++r) {
                int64_t best = -1;
                for (uint32_t i = 0; i < lanes; ++i) {
                    if (!mask.On(r, i, lanes)) continue;
                    const double x = ub.Get<T>(s.At(r, i, sizeof(T)));
                    const double b = best < 0 ? 0 : ub.Get<T>(s.At(r, static_cast<uint32_t>(best), sizeof(T)));
                    if (best < 0 || (largest ? x > b : x < b)) best = i;  // of equals the first
                }
                if (best < 0) continue;
                const auto value = ub.Raw<T>(s.At(r, static_cast<uint32_t>(best), sizeof(T)));
                const auto index = static_cast<typename Num<T>::Bits>(best);
                const uint32_t at = r * dRep * step;
                if (order == VALUE_INDEX) want.PutRaw<T>(at, value), want.PutRaw<T>(at + sizeof(T), index);
                if (order == INDEX_VALUE) want.PutRaw<T>(at, index), want.PutRaw<T>(at + sizeof(T), value);
                if (order == ONLY_VALUE) want.PutRaw<T>(at, value);
                if (order == ONLY_INDEX) want.PutRaw<uint32_t>(at, static_cast<uint32_t>(best));
            }
            OnAiv(ub, [&] {
                mask.Set();
                issue(Ub<T>(0), Ub<T>(s.start), repeats, dRep, s.blk, s.rep, order);
            });
            ExpectSame<T>(want, ub, "order " + std::to_string(order) + ", " + mask.Text());
        }
    }
}

template <typename T, typename Issue, typename Combine>
void BlockTest(Random& rng, Issue issue, Combine combine) {
    const uint32_t lanes = 256 / sizeof(T), perBlock = 32 / sizeof(T);
    for (int round = 0; round < 10; ++round) {
        const uint32_t repeats = rng.Between(1, 6), dRep = rng.Between(1, 3);
        const Mask mask = Mask::RandomOf(rng, lanes, repeats);
        const Walk s = SourceWalk(rng, 1);
        Image ub = SmallIntegers<T>(rng);
        Image want = ub;
        for (uint32_t r = 0; r < mask.Repeats(lanes, repeats); ++r) {
            for (uint32_t b = 0; b < 8; ++b) {
                bool any = false;
                double result = 0;
                for (uint32_t i = b * perBlock; i < (b + 1) * perBlock; ++i) {
                    if (!mask.On(r, i, lanes)) continue;
                    const double x = ub.Get<T>(s.At(r, i, sizeof(T)));
                    result = any ? combine(result, x) : x;
                    any = true;
                }
                // A block of which no lane takes part leaves its destination as it was. A repeat yields eight results.
                if (any) want.Put<T>((r * dRep * 8 + b) * sizeof(T), result);
            }
        }
        OnAiv(ub, [&] {
            mask.Set();
            issue(Ub<T>(0), Ub<T>(s.start), repeats, dRep, s.blk, s.rep);
        });
        ExpectSame<T>(want, ub, mask.Text());
    }
}

double Sum(double a, double b) { return a + b; }
double Max(double a, double b) { return std::max(a, b); }
double Min(double a, double b) { return std::min(a, b); }

}  // namespace

TWIN_TEST(vcmax_orders_and_ties) {
    WholeExtremeTest<half>(rng, [](auto... args) { vcmax(args...); }, true);
    WholeExtremeTest<float>(rng, [](auto... args) { vcmax(args...); }, true);
}
TWIN_TEST(vcmin_orders_and_ties) {
    WholeExtremeTest<half>(rng, [](auto... args) { vcmin(args...); }, false);
    WholeExtremeTest<float>(rng, [](auto... args) { vcmin(args...); }, false);
}
TWIN_TEST(vcmax_of_nan_is_nan) {
    const auto check = [&](auto tag, auto issue) {
        using T = decltype(tag);
        Image ub = SmallIntegers<T>(rng);
        ub.Put<T>(kRegion + 5 * sizeof(T), std::nan(""));
        OnAiv(ub, [&] {
            Mask{}.Set();
            issue(Ub<T>(0), Ub<T>(kRegion), 1, 1, 1, 8, ONLY_VALUE);
        });
        if (!std::isnan(ub.Get<T>(0))) Fail("expected nan, got ", ub.Get<T>(0));
    };
    check(half{}, [](auto... args) { vcmax(args...); });
    check(float{}, [](auto... args) { vcmax(args...); });
    check(float{}, [](auto... args) { vcmin(args...); });
}
TWIN_TEST(vcadd) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 10; ++round) {
            const uint32_t repeats = rng.Between(1, 6), dRep = rng.Between(1, 4);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk s = SourceWalk(rng, 1);
            Image ub = SmallIntegers<T>(rng);
            Image want = ub;
            for (uint32_t r = 0; r < mask.Repeats(lanes, repeats); ++r) {
                double sum = 0;
                bool any = false;
                for (uint32_t i = 0; i < lanes; ++i) {
                    if (mask.On(r, i, lanes)) sum += ub.Get<T>(s.At(r, i, sizeof(T))), any = true;
                }
                if (any) want.Put<T>(r * dRep * sizeof(T), sum);
            }
            OnAiv(ub, [&] {
                mask.Set();
                vcadd(Ub<T>(0), Ub<T>(s.start), repeats, dRep, s.blk, s.rep, 0);
            });
            ExpectSame<T>(want, ub, mask.Text());
        }
    };
    check(half{});
    check(float{});
}
TWIN_TEST(vcgadd_masked_blocks_stay) {
    BlockTest<half>(rng, [](auto... args) { vcgadd(args...); }, Sum);
    BlockTest<float>(rng, [](auto... args) { vcgadd(args...); }, Sum);
}
TWIN_TEST(vcgmax_vcgmin_masked_blocks_stay) {
    BlockTest<half>(rng, [](auto... args) { vcgmax(args...); }, Max);
    BlockTest<float>(rng, [](auto... args) { vcgmax(args...); }, Max);
    BlockTest<half>(rng, [](auto... args) { vcgmin(args...); }, Min);
    BlockTest<float>(rng, [](auto... args) { vcgmin(args...); }, Min);
}
TWIN_TEST(vcpadd_steps_of_128_bytes) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 10; ++round) {
            const uint32_t repeats = rng.Between(1, 6), dRep = rng.Between(1, 3);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk s = SourceWalk(rng, 1);
            Image ub = SmallIntegers<T>(rng);
            Image want = ub;
            for (uint32_t r = 0; r < mask.Repeats(lanes, repeats); ++r) {
                for (uint32_t i = 0; i < lanes; i += 2) {
                    double sum = 0;
                    bool any = false;
                    for (uint32_t lane : {i, i + 1}) {
                        if (mask.On(r, lane, lanes)) sum += ub.Get<T>(s.At(r, lane, sizeof(T))), any = true;
                    }
                    // A pair of which neither takes part leaves its destination as it was.
                    if (any) want.Put<T>(r * dRep * 128 + i / 2 * sizeof(T), sum);
                }
            }
            OnAiv(ub, [&] {
                mask.Set();
                vcpadd(Ub<T>(0), Ub<T>(s.start), repeats, dRep, s.blk, s.rep);
            });
            ExpectSame<T>(want, ub, mask.Text());
        }
    };
    check(half{});
    check(float{});
}

}  // namespace twin_test
