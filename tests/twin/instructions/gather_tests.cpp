// SPDX-License-Identifier: Apache-2.0
// Filling, gathering and rearranging within UB.
#include "lanes.h"

namespace twin_test {

TWIN_TEST(vector_dup) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 6; ++round) {
            const uint32_t repeats = rng.Between(1, 6);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk d = DestinationWalk(rng, 0, repeats);
            Image ub = Image::Noise(kUbImage, rng);
            const auto bits = ub.Raw<T>(kRegion);
            T scalar;
            std::memcpy(&scalar, &bits, sizeof(T));
            Image want = ub;
            ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) { want.PutRaw<T>(d.At(r, i, sizeof(T)), bits); });
            OnAiv(ub, [&] {
                mask.Set();
                vector_dup(Ub<T>(d.start), scalar, repeats, d.blk, 1, d.rep, 0);
            });
            ExpectSame<uint16_t>(want, ub, mask.Text());
        }
    };
    check(half{});
    check(bfloat16_t{});
    check(float{});
    check(int16_t{});
    check(uint32_t{});
}
TWIN_TEST(vcopy) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 8; ++round) {
            const uint32_t repeats = rng.Between(1, 6);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk d = DestinationWalk(rng, 0, repeats), a = SourceWalk(rng, 1);
            Image ub = Image::Noise(kUbImage, rng);
            Image want = ub;
            ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
                want.PutRaw<T>(d.At(r, i, sizeof(T)), ub.Raw<T>(a.At(r, i, sizeof(T))));
            });
            OnAiv(ub, [&] {
                mask.Set();
                vcopy(Ub<T>(d.start), Ub<T>(a.start), repeats, d.blk, a.blk, d.rep, a.rep);
            });
            ExpectSame<uint16_t>(want, ub, mask.Text());
        }
    };
    check(uint16_t{});
    check(uint32_t{});
}
TWIN_TEST(vbrcb) {
    // Eight elements a repeat, read one after another; each fills a block.
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        for (int round = 0; round < 6; ++round) {
            const uint32_t repeats = rng.Between(1, 8), blk = rng.Between(1, 3), rep = 8 * blk + rng.Below(3);
            Image ub = Image::Noise(kUbImage, rng);
            Image want = ub;
            for (uint32_t r = 0; r < repeats; ++r) {
                for (uint32_t j = 0; j < 8; ++j) {
                    for (uint32_t i = 0; i < 32 / sizeof(T); ++i) {
                        want.PutRaw<T>((r * rep + j * blk) * 32 + i * sizeof(T), ub.Raw<T>(kRegion + (r * 8 + j) * sizeof(T)));
                    }
                }
            }
            OnAiv(ub, [&] {
                Mask{}.Set();
                vbrcb(Ub<T>(0), Ub<T>(kRegion), blk, rep, repeats);
            });
            ExpectSame<T>(want, ub, "round " + std::to_string(round));
        }
    };
    check(uint16_t{});
    check(uint32_t{});
}
TWIN_TEST(vgather) {
    // Byte offsets from `base`; each lane has its own, four bytes wide whatever the element.
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t lanes = 256 / sizeof(T);
        for (int round = 0; round < 8; ++round) {
            const uint32_t repeats = rng.Between(1, 6), rep = 8 + rng.Below(3), base = kRegion + sizeof(T) * rng.Below(16);
            const Mask mask = Mask::RandomOf(rng, lanes, repeats);
            const Walk d{0, 1, rep};
            Image ub = Image::Noise(kUbImage, rng);
            for (uint32_t i = 0; i < lanes * repeats; ++i) ub.PutRaw<uint32_t>(3 * kRegion + 4 * i, sizeof(T) * rng.Below(8000));
            Image want = ub;
            ForLanes(mask, repeats, lanes, [&](uint32_t r, uint32_t i) {
                const uint32_t offset = ub.Raw<uint32_t>(3 * kRegion + 4 * (r * lanes + i));
                want.PutRaw<T>(d.At(r, i, sizeof(T)), ub.Raw<T>(base + offset));
            });
            OnAiv(ub, [&] {
                mask.Set();
                vgather(Ub<T>(0), Ub<uint32_t>(3 * kRegion), base, rep, repeats);
            });
            ExpectSame<T>(want, ub, mask.Text());
        }
    };
    check(uint16_t{});
    check(uint32_t{});
}
TWIN_TEST(vgatherb) {
    // Whole blocks; eight offsets a repeat; a block stride of 0 counts as 1.
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        for (int round = 0; round < 8; ++round) {
            const uint32_t repeats = rng.Between(1, 6), blk = rng.Below(4), step = std::max(blk, 1u);
            const uint32_t rep = 8 * step + rng.Below(3);
            Image ub = Image::Noise(kUbImage, rng);
            for (uint32_t i = 0; i < 8 * repeats; ++i) ub.PutRaw<uint32_t>(3 * kRegion + 4 * i, 32 * rng.Below(1000));
            Image want = ub;
            for (uint32_t r = 0; r < repeats; ++r) {
                for (uint32_t j = 0; j < 8; ++j) {
                    const uint32_t from = kRegion + ub.Raw<uint32_t>(3 * kRegion + 4 * (8 * r + j));
                    for (uint32_t i = 0; i < 16; ++i) {
                        want.PutRaw<uint16_t>((r * rep + j * step) * 32 + 2 * i, ub.Raw<uint16_t>(from + 2 * i));
                    }
                }
            }
            OnAiv(ub, [&] {
                Mask{}.Set();
                vgatherb(Ub<T>(0), Ub<uint32_t>(3 * kRegion), kRegion, rep, blk, repeats);
            });
            ExpectSame<uint16_t>(want, ub, "round " + std::to_string(round));
        }
    };
    check(uint16_t{});
    check(uint32_t{});
}
TWIN_TEST(vtranspose_16x16) {
    Image ub = Image::Noise(kUbImage, rng);
    Image want = ub;
    for (uint32_t i = 0; i < 16; ++i) {
        for (uint32_t j = 0; j < 16; ++j) want.PutRaw<uint16_t>(32 * j + 2 * i, ub.Raw<uint16_t>(kRegion + 32 * i + 2 * j));
    }
    OnAiv(ub, [&] { vtranspose(Ub<uint16_t>(0), Ub<uint16_t>(kRegion)); });
    ExpectSame<uint16_t>(want, ub, "16 x 16");
}
TWIN_TEST(transdata_16_bit) {
    // Sixteen source blocks of sixteen elements; destination block j takes element j of each.
    for (int round = 0; round < 4; ++round) {
        const uint32_t repeats = rng.Between(1, 3);
        // With one repeat, the strides move the start as well: so they must be zero to mean the lists' own addresses.
        const uint32_t dRep = repeats == 1 ? 0 : rng.Between(16, 18), sRep = repeats == 1 ? 0 : rng.Between(16, 18);
        Image ub = Image::Noise(kUbImage, rng);
        Image want = ub;
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t i = 0; i < 16; ++i) {
                for (uint32_t j = 0; j < 16; ++j) {
                    want.PutRaw<uint16_t>((r * dRep + j) * 32 + 2 * i, ub.Raw<uint16_t>(kRegion + (r * sRep + i) * 32 + 2 * j));
                }
            }
        }
        OnAiv(ub, [&] {
            uint64_t d[16], s[16];
            for (uint32_t i = 0; i < 16; ++i) {
                d[i] = reinterpret_cast<uint64_t>(Ub<uint16_t>(32 * i));
                s[i] = reinterpret_cast<uint64_t>(Ub<uint16_t>(kRegion + 32 * i));
            }
            set_va_reg_sb(VA0, d);
            set_va_reg_sb(VA1, d + 8);
            set_va_reg_sb(VA2, s);
            set_va_reg_sb(VA3, s + 8);
            scatter_vnchwconv_b16(VA0, VA2, repeats, dRep, sRep);
        });
        ExpectSame<uint16_t>(want, ub, std::to_string(repeats) + " repeats");
    }
}
TWIN_TEST(transdata_32_bit) {
    // Sixteen source blocks of eight elements; destination blocks 2j and 2j + 1 take element j of the sixteen.
    Image ub = Image::Noise(kUbImage, rng);
    Image want = ub;
    for (uint32_t i = 0; i < 16; ++i) {
        for (uint32_t j = 0; j < 8; ++j) {
            want.PutRaw<uint32_t>((2 * j + i / 8) * 32 + 4 * (i % 8), ub.Raw<uint32_t>(kRegion + 32 * i + 4 * j));
        }
    }
    OnAiv(ub, [&] {
        uint64_t d[16], s[16];
        for (uint32_t i = 0; i < 16; ++i) {
            d[i] = reinterpret_cast<uint64_t>(Ub<uint32_t>(32 * i));
            s[i] = reinterpret_cast<uint64_t>(Ub<uint32_t>(kRegion + 32 * i));
        }
        set_va_reg_sb(VA0, d);
        set_va_reg_sb(VA1, d + 8);
        set_va_reg_sb(VA2, s);
        set_va_reg_sb(VA3, s + 8);
        scatter_vnchwconv_b32(VA0, VA2, 1, 0, 0);
    });
    ExpectSame<uint32_t>(want, ub, "one repeat");
}

}  // namespace twin_test
