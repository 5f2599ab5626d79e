// SPDX-License-Identifier: Apache-2.0
// The rarer ways data moves: from GM past L1 into L0, from L1 to GM, fills, single elements of the scalar unit and its
// cache, and the registers that reductions leave their result in.
#include "lanes.h"

namespace twin_test {

TWIN_TEST(load2d_from_gm) {
    // Fractals of 512 bytes, gathered from GM by index and stride; into L1 the indices may also descend.
    for (const Mem mem : {Mem::L0A, Mem::L0B, Mem::L1}) {
        for (const bool descending : {false, true}) {
            if (descending && mem != Mem::L1) continue;
            const uint32_t repeats = rng.Between(2, 7), stride = rng.Below(4), gap = rng.Below(3);
            const uint32_t base = descending ? stride * repeats + rng.Below(3) : rng.Below(5);
            Image gm = Image::Noise(64 * 1024, rng), local = Image::Noise(64 * 1024, rng), want = local;
            for (uint32_t r = 0; r < repeats; ++r) {
                const uint32_t from = descending ? base - r * stride : base + r * stride;
                for (uint32_t i = 0; i < 512; ++i) want.PutRaw<uint8_t>(r * (1 + gap) * 512 + i, gm.Raw<uint8_t>(from * 512 + i));
            }
            auto* source = reinterpret_cast<half*>(gm.data());
            OnCore(CoreKind::AIC, mem, local, [&] {
                if (mem == Mem::L0A) load_gm_to_ca(At<half>(mem, 0), source, base, repeats, stride, gap, 0, inc);
                if (mem == Mem::L0B) load_gm_to_cb(At<half>(mem, 0), source, base, repeats, stride, gap, 0, inc);
                if (mem == Mem::L1) load_gm_to_cbuf(At<half>(mem, 0), source, base, repeats, stride, gap, 0, descending ? dec : inc);
                pipe_barrier(PIPE_ALL);
            }, {In("gm", gm)});
            ExpectSame<uint8_t>(want, local, std::string(MemName(mem)) + (descending ? ", descending" : ""));
        }
    }
}
TWIN_TEST(l1_to_gm_blocks) {
    for (int round = 0; round < 6; ++round) {
        const uint32_t pieces = rng.Between(1, 6), length = rng.Between(1, 8), srcGap = rng.Below(4), dstGap = rng.Below(4);
        Image gm = Image::Noise(16384, rng), l1 = Image::Noise(65536, rng), want = gm;
        for (uint32_t p = 0; p < pieces; ++p) {
            for (uint32_t i = 0; i < length * 32; ++i) want.PutRaw<uint8_t>(p * (length + dstGap) * 32 + i, l1.Raw<uint8_t>(p * (length + srcGap) * 32 + i));
        }
        OnCore(CoreKind::AIC, Mem::L1, l1, [&] { copy_cbuf_to_gm(gm.data(), At<uint8_t>(Mem::L1, 0), 0, pieces, length, srcGap, dstGap); },
               {InOut("gm", gm)});
        ExpectSame<uint8_t>(want, gm, "round " + std::to_string(round));
    }
}
TWIN_TEST(fill_l0) {
    // Blocks of 512 bytes in L0A and L0B.
    for (const Mem mem : {Mem::L0A, Mem::L0B}) {
        const uint32_t repeats = rng.Between(1, 4), blocks = rng.Between(1, 4), gap = rng.Below(4);
        const int64_t config = repeats | static_cast<int64_t>(blocks) << 16 | static_cast<int64_t>(gap) << 32;
        for (const bool wide : {false, true}) {
            Image local = Image::Noise(64 * 1024, rng), want = local;
            for (uint32_t r = 0; r < repeats; ++r) {
                for (uint32_t i = 0; i < blocks * 512; i += wide ? 4 : 2) {
                    const uint32_t at = r * (blocks + gap) * 512 + i;
                    if (wide) want.PutRaw<uint32_t>(at, 0xabcd1234u); else want.Put<half>(at, -1.5);
                }
            }
            OnCore(CoreKind::AIC, mem, local, [&] {
                if (mem == Mem::L0A && wide) create_ca_matrix(At<float>(mem, 0), config, uint32_t{0xabcd1234});
                if (mem == Mem::L0A && !wide) create_ca_matrix(At<half>(mem, 0), config, half(-1.5f));
                if (mem == Mem::L0B && wide) create_cb_matrix(At<float>(mem, 0), config, uint32_t{0xabcd1234});
                if (mem == Mem::L0B && !wide) create_cb_matrix(At<half>(mem, 0), config, half(-1.5f));
                pipe_barrier(PIPE_ALL);
            });
            ExpectSame<uint8_t>(want, local, MemName(mem));
        }
    }
}
TWIN_TEST(transdata_8_bit) {
    // Half a block of each of sixteen sources, 16 bytes, is transposed into half a block of each of sixteen destinations.
    for (const bool dstHigh : {false, true}) {
        for (const bool srcHigh : {false, true}) {
            const uint32_t repeats = 3, dRep = 16, sRep = 17;
            Image ub = Image::Noise(kUbImage, rng), want = ub;
            for (uint32_t r = 0; r < repeats; ++r) {
                for (uint32_t i = 0; i < 16; ++i) {
                    for (uint32_t j = 0; j < 16; ++j) {
                        want.PutRaw<uint8_t>((r * dRep + j) * 32 + 16 * dstHigh + i, ub.Raw<uint8_t>(kRegion + (r * sRep + i) * 32 + 16 * srcHigh + j));
                    }
                }
            }
            OnAiv(ub, [&] {
                uint64_t d[16], s[16];
                for (uint32_t i = 0; i < 16; ++i) {
                    d[i] = reinterpret_cast<uint64_t>(Ub<uint8_t>(32 * i));
                    s[i] = reinterpret_cast<uint64_t>(Ub<uint8_t>(kRegion + 32 * i));
                }
                set_va_reg_sb(VA0, d);
                set_va_reg_sb(VA1, d + 8);
                set_va_reg_sb(VA2, s);
                set_va_reg_sb(VA3, s + 8);
                scatter_vnchwconv_b8(VA0, VA2, repeats, dRep, sRep, dstHigh, srcHigh);
            });
            ExpectSame<uint8_t>(want, ub, std::string(dstHigh ? "to the high half" : "to the low half") + (srcHigh ? " from the high" : " from the low"));
        }
    }
}
TWIN_TEST(transdata_single_repeat_adds_its_stride) {
    // With one repeat the strides are added before it, not after.
    Image ub = Image::Noise(kUbImage, rng), want = ub;
    for (uint32_t i = 0; i < 16; ++i) {
        for (uint32_t j = 0; j < 16; ++j) want.PutRaw<uint16_t>((2 + j) * 32 + 2 * i, ub.Raw<uint16_t>(kRegion + (5 + i) * 32 + 2 * j));
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
        scatter_vnchwconv_b16(VA0, VA2, 1, 2, 5);
    });
    ExpectSame<uint16_t>(want, ub, "one repeat, strides 2 and 5");
}

// ---- registers of reductions ----

namespace {

template <typename T> double FromRegister(int64_t bits) { return Num<T>::Value(static_cast<typename Num<T>::Bits>(bits)); }

template <typename T> void RegisterTest(Random& rng) {
    const uint32_t lanes = 256 / sizeof(T), count = lanes * 3 + rng.Between(1, lanes - 1);
    Image ub(kUbImage);
    ub.Fill<T>(0, kUbImage / sizeof(T), [&](size_t) { return static_cast<double>(rng.Below(41)) - 20; });
    const Image before = ub;
    double sum = 0;
    uint32_t largest = 0, smallest = 0;
    for (uint32_t i = 0; i < count; ++i) sum += before.Get<T>(kRegion + i * sizeof(T));
    for (uint32_t i = 1; i < lanes; ++i) {
        if (before.Get<T>(kRegion + i * sizeof(T)) > before.Get<T>(kRegion + largest * sizeof(T))) largest = i;
        if (before.Get<T>(kRegion + i * sizeof(T)) < before.Get<T>(kRegion + smallest * sizeof(T))) smallest = i;
    }
    int64_t sumBits = 0, largestBits = 0, smallestBits = 0;
    OnAiv(ub, [&] {
        const auto toScalar = [] {
            set_flag(PIPE_V, PIPE_S, EVENT_ID0);
            wait_flag(PIPE_V, PIPE_S, EVENT_ID0);
        };
        set_mask_count();
        set_vector_mask(0, count);
        vcadd(Ub<T>(0), Ub<T>(kRegion), 1, 1, 1, 8, 1);
        toScalar();
        sumBits = get_acc_val();
        set_mask_norm();
        set_vector_mask(lanes == 128 ? ~0ull : 0, ~0ull);
        vcmax(Ub<T>(2 * kRegion), Ub<T>(kRegion), 1, 1, 1, 8, VALUE_INDEX);
        toScalar();
        largestBits = get_max_min_cnt();
        vcmin(Ub<T>(2 * kRegion + 64), Ub<T>(kRegion), 1, 1, 1, 8, VALUE_INDEX);
        toScalar();
        smallestBits = get_max_min_cnt();
    });
    if (FromRegister<T>(sumBits) != sum) Fail("sum of ", count, ": expected ", sum, ", got ", FromRegister<T>(sumBits));
    const auto check = [&](const char* what, uint32_t index, int64_t bits) {
        const double value = before.Get<T>(kRegion + index * sizeof(T));
        if (FromRegister<T>(bits) != value) Fail(what, ": expected ", value, ", got ", FromRegister<T>(bits));
        if (bits >> 32 != index) Fail(what, ": expected index ", index, ", got ", bits >> 32);
    };
    check("maximum", largest, largestBits);
    check("minimum", smallest, smallestBits);
}

}  // namespace

TWIN_TEST(reductions_leave_their_result_in_registers) {
    RegisterTest<half>(rng);
    RegisterTest<float>(rng);
}

// ---- the scalar unit ----

TWIN_TEST(scalar_elements_of_ub) {
    Image ub = Image::Noise(kUbImage, rng);
    const Image before = ub;
    std::vector<uint32_t> seen;
    OnAiv(ub, [&] {
        for (uint32_t i = 0; i < 20; ++i) {
            seen.push_back(ScalarRead(Ub<uint32_t>(4 * i)));
            ScalarWrite(Ub<uint16_t>(4096 + 2 * i), static_cast<uint16_t>(1000 + i));
        }
        pipe_barrier(PIPE_ALL);
    });
    for (uint32_t i = 0; i < 20; ++i) {
        if (seen[i] != before.Raw<uint32_t>(4 * i)) Fail("read ", i);
        if (ub.Raw<uint16_t>(4096 + 2 * i) != 1000 + i) Fail("write ", i);
    }
}
TWIN_TEST(scalar_stores_reach_gm_with_dcci) {
    Image gm = Image::Noise(512, rng), ub(kUbImage), want = gm;
    auto* x = reinterpret_cast<uint32_t*>(gm.data());
    want.PutRaw<uint32_t>(64, 7), want.PutRaw<uint32_t>(256, 9);
    uint32_t cached = 0, before = 0;
    OnAiv(ub, [&] {
        ScalarWrite(x + 16, uint32_t{7});
        cached = ScalarRead(x + 16);
        std::memcpy(&before, x + 16, 4);  // what another core would see
        dcci(x + 16, SINGLE_CACHE_LINE);
        ScalarWrite(x + 64, uint32_t{9});
        dcci(x, ENTIRE_DATA_CACHE);
    }, {InOut("gm", gm)});
    if (cached != 7) Fail("the core itself reads ", cached, " from its cache, expected 7");
    if (before == 7) Fail("the store reached GM before the line was cleaned");
    ExpectSame<uint8_t>(want, gm, "after dcci");
}
TWIN_TEST(scalar_past_the_cache) {
    Image gm = Image::Noise(512, rng), ub(kUbImage), want = gm;
    auto* x = reinterpret_cast<uint32_t*>(gm.data());
    const uint32_t expected = gm.Raw<uint32_t>(12);
    want.PutRaw<uint32_t>(128, 5);
    uint32_t got = 0;
    OnAiv(ub, [&] {
        got = ld_dev(x, 12);
        st_dev(uint32_t{5}, x, 128);
    }, {InOut("gm", gm)});
    if (got != expected) Fail("ld_dev: expected ", expected, ", got ", got);
    ExpectSame<uint8_t>(want, gm, "after st_dev");
}
TWIN_TEST(atomic_int8) {
    Image ub = Image::Noise(kUbImage, rng), gm = Image::Noise(4096, rng), want = gm;
    for (uint32_t i = 0; i < 4096; ++i) {
        // Small enough not to overflow, whatever that would do.
        ub.PutRaw<int8_t>(i, static_cast<int8_t>(static_cast<int32_t>(rng.Below(100)) - 50));
        gm.PutRaw<int8_t>(i, static_cast<int8_t>(static_cast<int32_t>(rng.Below(100)) - 50));
        want.PutRaw<int8_t>(i, static_cast<int8_t>(ub.Raw<int8_t>(i) + gm.Raw<int8_t>(i)));
    }
    OnAiv(ub, [&] {
        set_atomic_s8();
        set_atomic_add();
        copy_ubuf_to_gm(gm.data(), Ub<uint8_t>(0), 0, 1, 128, 0, 0);
        set_atomic_none();
    }, {InOut("gm", gm)});
    ExpectSame<int8_t>(want, gm, "4096 bytes");
}

}  // namespace twin_test
