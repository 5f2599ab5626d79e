// SPDX-License-Identifier: Apache-2.0
// Compare, select, gather-mask: how bits are packed, in which order repeats use them up, what NaN does.
#include "lanes.h"

namespace twin_test {

namespace {

enum class Order { Lt, Gt, Eq, Le, Ge, Ne };

// "Not equal" with a NaN is 0 on this hardware, unlike IEEE 754.
bool Holds(Order order, double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return false;
    switch (order) {
        case Order::Lt: return a < b;
        case Order::Gt: return a > b;
        case Order::Eq: return a == b;
        case Order::Le: return a <= b;
        case Order::Ge: return a >= b;
        case Order::Ne: return a != b;
    }
    return false;
}

double Comparable(Random& rng) {
    const double inf = std::numeric_limits<double>::infinity();
    if (rng.Below(6) == 0) return rng.Pick<double>({0.0, -0.0, inf, -inf, std::nan("")});
    return static_cast<double>(rng.Below(5));  // few values, so that equality happens
}

// Bit i of `bits`, lowest bit of the lowest byte first.
bool Bit(const Image& image, size_t at, size_t i) { return (image.Raw<uint8_t>(at + i / 8) >> (i % 8)) & 1; }
void PutBit(Image& image, size_t at, size_t i, bool on) {
    const uint8_t old = image.Raw<uint8_t>(at + i / 8);
    image.PutRaw<uint8_t>(at + i / 8, static_cast<uint8_t>(on ? old | 1u << (i % 8) : old & ~(1u << (i % 8))));
}

template <typename T, typename Issue> void CompareTest(Random& rng, Order order, Issue issue) {
    const uint32_t lanes = 256 / sizeof(T);
    for (int round = 0; round < 6; ++round) {
        const uint32_t repeats = rng.Between(1, 6);
        Image ub(kUbImage);
        ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return Comparable(rng); });
        const Walk a = SourceWalk(rng, 1), b = SourceWalk(rng, 2);
        Image want = ub;
        // The mask is without effect; results lie one after another, lanes / 8 bytes a repeat.
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t i = 0; i < lanes; ++i) {
                PutBit(want, 0, r * lanes + i, Holds(order, ub.Get<T>(a.At(r, i, sizeof(T))), ub.Get<T>(b.At(r, i, sizeof(T)))));
            }
        }
        OnAiv(ub, [&] {
            set_mask_norm();
            set_vector_mask(0, 5);
            issue(Ub<uint8_t>(0), Ub<T>(a.start), Ub<T>(b.start), repeats, 1, a.blk, b.blk, 8, a.rep, b.rep);
        });
        ExpectSame<uint8_t>(want, ub, "round " + std::to_string(round));
    }
}

#define COMPARE(name, order)                                                                              \
    CompareTest<half>(rng, order, [](auto... args) { vcmpv_##name(args...); });                           \
    CompareTest<float>(rng, order, [](auto... args) { vcmpv_##name(args...); })

template <typename T, typename Issue> void CompareScalarTest(Random& rng, Order order, Issue issue) {
    const uint32_t lanes = 256 / sizeof(T);
    for (int round = 0; round < 4; ++round) {
        const uint32_t repeats = rng.Between(1, 6);
        const double s = round == 0 ? std::nan("") : rng.Below(5);
        const auto raw = Num<T>::Of(s);
        T scalar;
        std::memcpy(&scalar, &raw, sizeof(T));
        Image ub(kUbImage);
        ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return Comparable(rng); });
        const Walk a = SourceWalk(rng, 1);
        Image want = ub;
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t i = 0; i < lanes; ++i) {
                PutBit(want, 0, r * lanes + i, Holds(order, ub.Get<T>(a.At(r, i, sizeof(T))), s));
            }
        }
        OnAiv(ub, [&] {
            Mask{}.Set();
            issue(Ub<uint8_t>(0), Ub<T>(a.start), scalar, repeats, 1, a.blk, 8, a.rep);
        });
        ExpectSame<uint8_t>(want, ub, "round " + std::to_string(round));
    }
}
#define COMPARE_SCALAR(name, order)                                                                       \
    CompareScalarTest<half>(rng, order, [](auto... args) { vcmpvs_##name(args...); });                    \
    CompareScalarTest<float>(rng, order, [](auto... args) { vcmpvs_##name(args...); })

}  // namespace

TWIN_TEST(compare_bits_and_nan) {
    COMPARE(lt, Order::Lt);
    COMPARE(gt, Order::Gt);
    COMPARE(eq, Order::Eq);
    COMPARE(le, Order::Le);
    COMPARE(ge, Order::Ge);
    COMPARE(ne, Order::Ne);
}
TWIN_TEST(compare_int32_equality) {
    CompareTest<int32_t>(rng, Order::Eq, [](auto... args) { vcmpv_eq(args...); });
}
TWIN_TEST(compare_with_a_scalar) {
    COMPARE_SCALAR(lt, Order::Lt);
    COMPARE_SCALAR(gt, Order::Gt);
    COMPARE_SCALAR(eq, Order::Eq);
    COMPARE_SCALAR(le, Order::Le);
    COMPARE_SCALAR(ge, Order::Ge);
    COMPARE_SCALAR(ne, Order::Ne);
}
TWIN_TEST(compare_in_place) {
    // Within a repeat, reads come before the write.
    Image ub(kUbImage);
    ub.Fill<float>(0, kUbImage / 4, [&](size_t) { return Comparable(rng); });
    const Image before = ub;
    OnAiv(ub, [&] {
        Mask{}.Set();
        vcmpv_gt(Ub<uint8_t>(0), Ub<float>(0), Ub<float>(kRegion), 1, 1, 1, 1, 8, 8, 8);
    });
    for (uint32_t i = 0; i < 64; ++i) {
        if (Bit(ub, 0, i) != Holds(Order::Gt, before.Get<float>(4 * i), before.Get<float>(kRegion + 4 * i))) Fail("lane ", i);
    }
}
TWIN_TEST(compare_into_the_mask_register) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        Image ub(kUbImage);
        ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return Comparable(rng); });
        const Image before = ub;
        OnAiv(ub, [&] {
            Mask{}.Set();
            vcmp_le(Ub<T>(kRegion), Ub<T>(2 * kRegion), 1, 1, 1, 1, 8, 8, 8);
            pipe_barrier(PIPE_V);
            get_cmpmask(Ub<uint8_t>(0));
        });
        for (uint32_t i = 0; i < lanes; ++i) {
            const double a = before.Get<T>(kRegion + i * sizeof(T)), b = before.Get<T>(2 * kRegion + i * sizeof(T));
            if (Bit(ub, 0, i) != Holds(Order::Le, a, b)) Fail("lane ", i);
        }
    };
    check(half{});
    check(float{});
}
TWIN_TEST(select_mode_0_same_bits_for_every_repeat) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 6; ++round) {
            const uint32_t repeats = rng.Between(1, 5);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk d = DestinationWalk(rng, 0, repeats), a = SourceWalk(rng, 1), b = SourceWalk(rng, 2);
            const uint32_t bits = 3 * kRegion;
            Image ub = Image::Noise(kUbImage, rng);
            Image want = ub;
            ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
                const Walk& from = Bit(ub, bits, i) ? a : b;
                want.PutRaw<T>(d.At(r, i, sizeof(T)), ub.Raw<T>(from.At(r, i, sizeof(T))));
            });
            OnAiv(ub, [&] {
                mask.Set();
                set_cmpmask(Ub<uint8_t>(bits));
                pipe_barrier(PIPE_V);
                vsel(Ub<T>(d.start), Ub<T>(a.start), Ub<T>(b.start), repeats, d.blk, a.blk, b.blk, d.rep, a.rep, b.rep);
            });
            ExpectSame<uint16_t>(want, ub, mask.Text());
        }
    };
    check(half{});
    check(float{});
}
TWIN_TEST(select_mode_1_bits_run_on_and_scalar_from_the_register) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 6; ++round) {
            const uint32_t repeats = rng.Between(1, 5);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk d = DestinationWalk(rng, 0, repeats), a = SourceWalk(rng, 1);
            const uint32_t bits = 3 * kRegion, scalar = 4 * kRegion;
            Image ub = Image::Noise(kUbImage, rng);
            // The register is filled from one block that holds the scalar over and over.
            for (uint32_t i = 1; i < 32 / sizeof(T); ++i) ub.PutRaw<T>(scalar + i * sizeof(T), ub.Raw<T>(scalar));
            Image want = ub;
            ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
                const bool first = Bit(ub, bits, r * lanes + i);
                want.PutRaw<T>(d.At(r, i, sizeof(T)), ub.Raw<T>(first ? a.At(r, i, sizeof(T)) : scalar));
            });
            OnAiv(ub, [&] {
                mask.Set();
                set_cmpmask(Ub<uint8_t>(scalar));
                pipe_barrier(PIPE_V);
                vsel(Ub<T>(d.start), Ub<T>(a.start), Ub<uint8_t>(bits), repeats, d.blk, a.blk, 1, d.rep, a.rep, 8, uint8_t{1});
            });
            ExpectSame<uint16_t>(want, ub, mask.Text());
        }
    };
    check(half{});
    check(float{});
}
TWIN_TEST(select_mode_2_register_holds_the_address_of_the_bits) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 6; ++round) {
            const uint32_t repeats = rng.Between(1, 5);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk d = DestinationWalk(rng, 0, repeats), a = SourceWalk(rng, 1), b = SourceWalk(rng, 2);
            const uint32_t bits = 3 * kRegion, address = 4 * kRegion;
            Image ub = Image::Noise(kUbImage, rng);
            Image want = ub;
            ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
                const Walk& from = Bit(ub, bits, r * lanes + i) ? a : b;
                want.PutRaw<T>(d.At(r, i, sizeof(T)), ub.Raw<T>(from.At(r, i, sizeof(T))));
            });
            uint64_t kept = 0;
            OnAiv(ub, [&] {
                const uint64_t where = reinterpret_cast<uint64_t>(Ub<uint8_t>(bits));
                std::memcpy(&kept, Ub<uint8_t>(address), 8);
                std::memcpy(Ub<uint8_t>(address), &where, 8);
                mask.Set();
                set_cmpmask(Ub<uint8_t>(address));
                pipe_barrier(PIPE_V);
                vsel(Ub<T>(d.start), Ub<T>(a.start), Ub<T>(b.start), repeats, d.blk, a.blk, b.blk, d.rep, a.rep, b.rep,
                     uint8_t{2});
                std::memcpy(Ub<uint8_t>(address), &kept, 8);
            });
            ExpectSame<uint16_t>(want, ub, mask.Text());
        }
    };
    check(half{});
    check(float{});
}
TWIN_TEST(gather_mask_patterns) {
    // 1 and 2: even and odd; 3 to 6: one of four; 7: all. Kept elements lie one after another over all repeats.
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (uint32_t pattern = 1; pattern <= 7; ++pattern) {
            const uint32_t repeats = rng.Between(1, 5);
            const Walk a = SourceWalk(rng, 1);
            Image ub = Image::Noise(kUbImage, rng);
            Image want = ub;
            uint32_t kept = 0;
            for (uint32_t r = 0; r < repeats; ++r) {
                for (uint32_t i = 0; i < lanes; ++i) {
                    const bool take = pattern == 7 || (pattern <= 2 ? i % 2 == pattern - 1 : i % 4 == pattern - 3);
                    if (take) want.PutRaw<T>(sizeof(T) * kept++, ub.Raw<T>(a.At(r, i, sizeof(T))));
                }
            }
            int64_t count = -1;
            OnAiv(ub, [&] {
                set_mask_norm();
                set_vector_mask(0, 3);  // without effect in normal mode
                vreducev2(Ub<T>(0), Ub<T>(a.start), Ub<T>(3 * kRegion), repeats, a.blk, pattern, a.rep, 0);
                count = get_rsvd_cnt();
            });
            ExpectSame<T>(want, ub, "pattern " + std::to_string(pattern));
            if (count != kept) Fail("pattern ", pattern, ": expected ", kept, " kept, got ", count);
        }
    };
    check(uint16_t{});
    check(uint32_t{});
}
TWIN_TEST(gather_mask_from_a_tensor) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 8; ++round) {
            const bool counter = round % 2;
            const uint32_t repeats = rng.Between(1, 5);
            const Walk a = SourceWalk(rng, 1);
            const uint32_t bits = 3 * kRegion, bitRep = rng.Pick<uint32_t>({0, 1, 2});
            // Counter mode: `elements` of each repeat take part, which may be more than 256 B of it.
            const uint32_t elements = counter ? rng.Between(1, lanes) : lanes;
            Image ub = Image::Noise(kUbImage, rng);
            Image want = ub;
            uint32_t kept = 0;
            for (uint32_t r = 0; r < repeats; ++r) {
                for (uint32_t i = 0; i < elements; ++i) {
                    if (Bit(ub, bits + r * bitRep * 32, i)) want.PutRaw<T>(sizeof(T) * kept++, ub.Raw<T>(a.At(r, i, sizeof(T))));
                }
            }
            int64_t count = -1;
            OnAiv(ub, [&] {
                if (counter) {
                    set_mask_count();
                    set_vector_mask(0, elements);
                } else {
                    Mask{}.Set();
                }
                vreducev2(Ub<T>(0), Ub<T>(a.start), Ub<T>(bits), repeats, a.blk, 0, a.rep, bitRep);
                count = get_rsvd_cnt();
            });
            ExpectSame<T>(want, ub, "round " + std::to_string(round));
            if (count != kept) Fail("round ", round, ": expected ", kept, " kept, got ", count);
        }
    };
    check(uint16_t{});
    check(uint32_t{});
}

}  // namespace twin_test
