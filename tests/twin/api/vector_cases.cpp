// SPDX-License-Identifier: Apache-2.0
// Vector functions: that the three forms agree, that parameters land where they should, and the functions made of
// several instructions. What each instruction computes is tested against references in ../instructions.
#include <algorithm>
#include <numeric>

#include "harness.h"

namespace api_test {

// One call of every form on the same data gives the same numbers; lanes that the mask leaves out keep theirs.
API_TEST(masks_by_bits_by_number_and_by_count_agree)
{
    Random random(1);
    const auto x = Floats(random, 256), y = Floats(random, 256);
    std::vector<float> byCount(256), byNumber(256), byBits(256), partly(256);
    const Report report =
        OnVector({cpu_twin::In("x", x), cpu_twin::In("y", y), cpu_twin::Out("a", byCount), cpu_twin::Out("b", byNumber),
                  cpu_twin::Out("c", byBits), cpu_twin::Out("d", partly)},
                 [&] {
                     const auto a = Ub<float>(0, 256), b = Ub<float>(1024, 256), r = Ub<float>(2048, 256);
                     Load(a, x);
                     Load(b, y);
                     Mul(r, a, b, 256);
                     Store(byCount, r);
                     PipeBarrier<PIPE_ALL>();
                     Mul(r, a, b, uint64_t(64), 4, {1, 1, 1, 8, 8, 8});
                     Store(byNumber, r);
                     PipeBarrier<PIPE_ALL>();
                     uint64_t all[2] = {FULL_MASK, 0};
                     Mul(r, a, b, all, 4, {1, 1, 1, 8, 8, 8});
                     Store(byBits, r);
                     PipeBarrier<PIPE_ALL>();
                     uint64_t even[2] = {0x5555555555555555ULL, 0};
                     SetVectorMask<float>(even[1], even[0]);
                     Adds<float, false>(r, r, 1.0f, MASK_PLACEHOLDER, 4, {1, 1, 8, 8});
                     Store(partly, r);
                 });
    EXPECT_CLEAN(report);
    for (size_t i = 0; i < 256; ++i) {
        const float product = x[i] * y[i];
        EXPECT(byCount[i] == product && byNumber[i] == product && byBits[i] == product, std::to_string(i));
        EXPECT(partly[i] == (i % 2 == 0 ? product + 1.0f : product), std::to_string(i));
    }
}

// A count that is not a multiple of anything leaves the rest alone, and the mask is whole again afterwards.
API_TEST(a_count_touches_no_more_than_count)
{
    std::vector<float> y(192);
    const Report report = OnVector({cpu_twin::Out("y", y)}, [&] {
        const auto r = Ub<float>(0, 192);
        Duplicate(r, 1.0f, 192);
        PipeBarrier<PIPE_V>();
        Adds(r, r, 10.0f, 77);
        PipeBarrier<PIPE_V>();
        Adds<float, false>(r[128], r[128], 5.0f, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
        Store(y, r);
    });
    EXPECT_CLEAN(report);
    for (size_t i = 0; i < 192; ++i) {
        EXPECT(y[i] == (i < 77 ? 11.0f : i < 128 ? 1.0f : 6.0f), std::to_string(i));
    }
}

API_TEST(strides_reach_the_operand_they_name)
{
    Random random(2);
    const auto x = Floats(random, 1024), y = Floats(random, 1024);
    std::vector<float> z(1024, 0.0f), want(1024, 0.0f);
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::In("y", y), cpu_twin::Out("z", z)}, [&] {
        const auto a = Ub<float>(0, 1024), b = Ub<float>(4096, 1024), r = Ub<float>(8192, 1024);
        Load(a, x);
        Load(b, y);
        Duplicate(r, 0.0f, 1024);
        PipeBarrier<PIPE_V>();
        Sub(r, a, b, uint64_t(64), 3, {2, 1, 0, 32, 16, 1});
        Store(z, r);
    });
    for (uint32_t repeat = 0; repeat < 3; ++repeat) {
        for (uint32_t i = 0; i < 64; ++i) {
            const uint32_t block = i / 8, lane = i % 8;
            want[(repeat * 32 + block * 2) * 8 + lane] = x[(repeat * 16 + block) * 8 + lane] - y[repeat * 8 + lane];
        }
    }
    EXPECT_CLEAN(report);
    EXPECT(z == want, "");
}

API_TEST(casts_follow_the_narrower_side)
{
    Random random(3);
    const auto x = Floats(random, 200, -100, 100);
    std::vector<half> narrow(200);
    std::vector<float> wide(200);
    std::vector<int32_t> floors(200);
    const Report report = OnVector(
        {cpu_twin::In("x", x), cpu_twin::Out("n", narrow), cpu_twin::Out("w", wide), cpu_twin::Out("f", floors)}, [&] {
            const auto a = Ub<float>(0, 200), w = Ub<float>(2048, 200);
            const auto n = Ub<half>(1024, 200);
            const auto f = Ub<int32_t>(4096, 200);
            Load(a, x);
            Cast(n, a, RoundMode::CAST_RINT, 200);
            PipeBarrier<PIPE_V>();
            Cast(w, n, RoundMode::CAST_NONE, uint64_t(64), 3, {1, 1, 8, 4});
            Cast(w[192], n[192], RoundMode::CAST_NONE, 8);
            Cast(f, a, RoundMode::CAST_FLOOR, 200);
            Store(narrow, n);
            Store(wide, w);
            Store(floors, f);
        });
    EXPECT_CLEAN(report);
    for (size_t i = 0; i < 200; ++i) {
        EXPECT(float(narrow[i]) == float(half(x[i])) && wide[i] == float(half(x[i])), std::to_string(i));
        EXPECT(floors[i] == static_cast<int32_t>(std::floor(x[i])), std::to_string(i));
    }
}

API_TEST(compares_and_the_three_selects)
{
    Random random(4);
    const auto x = Floats(random, 256), y = Floats(random, 256);
    std::vector<uint8_t> less(32), positive(32);
    std::vector<float> byScalar(256), byTensor(256), byRegister(256), partly(256);
    const Report report =
        OnVector({cpu_twin::In("x", x), cpu_twin::In("y", y), cpu_twin::Out("l", less), cpu_twin::Out("p", positive),
                  cpu_twin::Out("s", byScalar), cpu_twin::Out("t", byTensor), cpu_twin::Out("r", byRegister),
                  cpu_twin::Out("q", partly)},
                 [&] {
                     TPipe pipe;
                     const auto a = Ub<float>(0, 256), b = Ub<float>(1024, 256), r = Ub<float>(2048, 256);
                     const auto l = Ub<uint8_t>(4096, 32), p = Ub<uint8_t>(4160, 32);
                     Load(a, x);
                     Load(b, y);
                     Compare(l, a, b, CMPMODE::LT, 256);
                     Compares(p, a, 0.0f, CMPMODE::GT, MASK_PLACEHOLDER, 4, {1, 1, 8, 8});
                     Store(less, l);
                     Store(positive, p);
                     PipeBarrier<PIPE_ALL>();
                     Select(r, p, a, -7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 256);
                     Store(byScalar, r);
                     PipeBarrier<PIPE_ALL>();
                     Select(r, l, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, uint64_t(64), 4, {1, 1, 1, 8, 8, 8});
                     Store(byTensor, r);
                     PipeBarrier<PIPE_ALL>();
                     // Mode 0: the first 64 bits of the mask serve every repeat.
                     Select(r, l, a, b, SELMODE::VSEL_CMPMASK_SPR, uint64_t(64), 4, {1, 1, 1, 8, 8, 8});
                     Store(byRegister, r);
                     PipeBarrier<PIPE_ALL>();
                     Compare(a, b, CMPMODE::GE, uint64_t(64), {1, 1, 1, 8, 8, 8});
                     PipeBarrier<PIPE_V>();
                     SetVectorMask<float>(40);
                     Select<float, SELMODE::VSEL_CMPMASK_SPR>(r, a, b, 1, {1, 1, 1, 8, 8, 8});
                     Store(partly, r);
                 });
    EXPECT_CLEAN(report);
    for (size_t i = 0; i < 256; ++i) {
        EXPECT((less[i / 8] >> i % 8 & 1) == (x[i] < y[i]), std::to_string(i));
        EXPECT((positive[i / 8] >> i % 8 & 1) == (x[i] > 0), std::to_string(i));
        EXPECT(byScalar[i] == (x[i] > 0 ? x[i] : -7.0f), std::to_string(i));
        EXPECT(byTensor[i] == (x[i] < y[i] ? x[i] : y[i]), std::to_string(i));
        const float mode0 = x[i % 64] < y[i % 64] ? x[i] : y[i];
        EXPECT(byRegister[i] == mode0, std::to_string(i));
        EXPECT(partly[i] == (i < 40 ? std::max(x[i], y[i]) : mode0), std::to_string(i));
    }
}

API_TEST(reductions_of_repeats_blocks_and_pairs)
{
    Random random(5);
    const auto x = Floats(random, 512);
    std::vector<float> maxima(8), sums(8), blockMax(64), pairs(256), withIndex(16);
    const Report report =
        OnVector({cpu_twin::In("x", x), cpu_twin::Out("m", maxima), cpu_twin::Out("s", sums),
                  cpu_twin::Out("b", blockMax), cpu_twin::Out("p", pairs), cpu_twin::Out("i", withIndex)},
                 [&] {
                     const auto a = Ub<float>(0, 512), r = Ub<float>(4096, 512);
                     Load(a, x);
                     WholeReduceMax(r, a, 64, 8, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
                     Store(maxima, r);
                     PipeBarrier<PIPE_ALL>();
                     WholeReduceSum(r, a, 64, 8, 1, 1, 8);
                     Store(sums, r);
                     PipeBarrier<PIPE_ALL>();
                     BlockReduceMax(r, a, 8, 64, 1, 1, 8);
                     Store(blockMax, r);
                     PipeBarrier<PIPE_ALL>();
                     ReducePairElem<ReduceType::SUM>(r, a, 64, 8, 1, 1, 8);
                     Store(pairs, r);
                     PipeBarrier<PIPE_ALL>();
                     ReduceRepeat<ReduceType::MAX>(r, a, 64, 8, 1, 1, 8);
                     Store(withIndex, r);
                 });
    EXPECT_CLEAN(report);
    for (size_t repeat = 0; repeat < 8; ++repeat) {
        const auto from = x.begin() + static_cast<long>(repeat * 64);
        const auto best = std::max_element(from, from + 64);
        double sum = 0;
        for (auto it = from; it != from + 64; ++it) {
            sum += *it;
        }
        uint32_t index = 0;
        std::memcpy(&index, &withIndex[2 * repeat + 1], 4);
        EXPECT(maxima[repeat] == *best && withIndex[2 * repeat] == *best, std::to_string(repeat));
        EXPECT(index == static_cast<uint32_t>(best - from), std::to_string(index));
        EXPECT(std::abs(sums[repeat] - sum) < 1e-4, std::to_string(sums[repeat]));
    }
    for (size_t block = 0; block < 64; ++block) {
        EXPECT(blockMax[block] == *std::max_element(x.begin() + static_cast<long>(block * 8),
                                                    x.begin() + static_cast<long>(block * 8 + 8)),
               std::to_string(block));
    }
    for (size_t i = 0; i < 256; ++i) {
        EXPECT(pairs[i] == x[2 * i] + x[2 * i + 1], std::to_string(i));
    }
}

// The reductions over whole tensors, at counts around every step of their software.
template <typename T> void ReduceWholeTensor(uint32_t count, uint64_t seed)
{
    Random random(seed);
    std::vector<T> x(count);
    for (T& v : x) {
        v = T(std::floor(random.Uniform(-1000, 1000)));
    }
    std::vector<T> got(64);
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("got", got)}, [&] {
        TPipe pipe;
        const uint32_t room = (count + 63) / 64 * 64;
        const auto a = Ub<T>(0, room);
        const auto tmp = Ub<T>(room * sizeof(T), room);
        const auto r = Ub<T>(2 * room * sizeof(T), 64);
        Load(a, x);
        Duplicate(r, T(0.0f), 64);
        PipeBarrier<PIPE_V>();
        ReduceMax(r, a, tmp, static_cast<int32_t>(count));
        PipeBarrier<PIPE_ALL>();
        ReduceMin(r[16], a, tmp, static_cast<int32_t>(count));
        PipeBarrier<PIPE_ALL>();
        ReduceMax(r[32], a, tmp, static_cast<int32_t>(count), true);
        PipeBarrier<PIPE_ALL>();
        ReduceMin(r[48], a, tmp, static_cast<int32_t>(count), true);
        Store(got, r);
    });
    EXPECT_CLEAN(report);
    const auto less = [](T a, T b) { return float(a) < float(b); };
    const auto most = std::max_element(x.begin(), x.end(), less), least = std::min_element(x.begin(), x.end(), less);
    std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t> mostAt = 0, leastAt = 0;
    std::memcpy(&mostAt, &got[33], sizeof(mostAt));
    std::memcpy(&leastAt, &got[49], sizeof(leastAt));
    const std::string which = std::to_string(count);
    EXPECT(float(got[0]) == float(*most) && float(got[32]) == float(*most), which);
    EXPECT(float(got[16]) == float(*least) && float(got[48]) == float(*least), which);
    EXPECT(mostAt == most - x.begin() && leastAt == least - x.begin(), which + ": " + std::to_string(mostAt));
}
API_TEST(reductions_of_whole_tensors)
{
    for (const uint32_t count : {1u, 3u, 63u, 64u, 65u, 128u, 200u, 1000u, 4096u, 4160u, 5000u}) {
        ReduceWholeTensor<float>(count, count);
        ReduceWholeTensor<half>(count, count + 1);
    }
    Random random(6);
    const auto x = Floats(random, 777);
    std::vector<float> got(8);
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("got", got)}, [&] {
        TPipe pipe;
        const auto a = Ub<float>(0, 832), r = Ub<float>(4096, 64);
        Load(a, x);
        Duplicate(r, 0.0f, 64);
        PipeBarrier<PIPE_V>();
        ReduceSum(r, a, r[32], 777);
        Store(got, r);
    });
    EXPECT_CLEAN(report);
    EXPECT(std::abs(got[0] - std::accumulate(x.begin(), x.end(), 0.0)) < 1e-2, std::to_string(got[0]));
}

API_TEST(broadcast_gather_and_pack)
{
    Random random(7);
    const auto x = Floats(random, 256);
    std::vector<uint32_t> offsets(200), blockOffsets(16);
    for (uint32_t& o : offsets) {
        o = random.Below(256) * 4;
    }
    for (uint32_t& o : blockOffsets) {
        o = random.Below(32) * 32;
    }
    std::vector<float> spread(128), picked(200), blocks(128), packed(256);
    uint64_t kept = 0;
    const Report report = OnVector(
        {cpu_twin::In("x", x), cpu_twin::In("o", offsets), cpu_twin::In("b", blockOffsets), cpu_twin::Out("s", spread),
         cpu_twin::Out("g", picked), cpu_twin::Out("gb", blocks), cpu_twin::Out("p", packed)},
        [&] {
            const auto a = Ub<float>(1024, 256), r = Ub<float>(4096, 256);
            const auto o = Ub<uint32_t>(8192, 200), b = Ub<uint32_t>(10240, 16);
            Load(a, x);
            Load(o, offsets);
            Load(b, blockOffsets);
            Brcb(r, a, 2, {1, 8});
            Store(spread, r);
            PipeBarrier<PIPE_ALL>();
            Gather(r, a, o, 0, 200);
            Store(picked, r);
            PipeBarrier<PIPE_ALL>();
            Gatherb(r, a, b, 2, {1, 8});
            Store(blocks, r);
            PipeBarrier<PIPE_ALL>();
            Duplicate(r, 0.0f, 256);
            PipeBarrier<PIPE_V>();
            GatherMask(r, a, 2, false, 0, {1, 4, 8, 0}, kept);
            Store(packed, r);
        });
    EXPECT_CLEAN(report);
    EXPECT(kept == 128, std::to_string(kept));
    for (size_t i = 0; i < 128; ++i) {
        EXPECT(spread[i] == x[i / 8], std::to_string(i));
        EXPECT(blocks[i] == x[blockOffsets[i / 8] / 4 + i % 8], std::to_string(i));
        EXPECT(packed[i] == x[2 * i + 1], std::to_string(i));
    }
    for (size_t i = 0; i < 200; ++i) {
        EXPECT(picked[i] == x[offsets[i] / 4], std::to_string(i));
    }
}

API_TEST(index_vectors)
{
    for (const uint32_t count : {1u, 8u, 9u, 64u, 100u, 1000u}) {
        std::vector<int32_t> got(count);
        const Report report = OnVector({cpu_twin::Out("got", got)}, [&] {
            TPipe pipe;
            const auto r = Ub<int32_t>(0, (count + 7) / 8 * 8);
            CreateVecIndex(r, int32_t(17), count);
            SetFlag<HardEvent::S_MTE3>(0);
            WaitFlag<HardEvent::S_MTE3>(0);
            Store(got, r);
        });
        EXPECT_CLEAN(report);
        for (uint32_t i = 0; i < count; ++i) {
            EXPECT(got[i] == static_cast<int32_t>(17 + i), std::to_string(i));
        }
    }
}

API_TEST(sort_and_merge)
{
    Random random(8);
    auto x = Floats(random, 128);
    std::vector<uint32_t> index(128);
    std::iota(index.begin(), index.end(), 0u);
    std::vector<float> got(256);
    uint16_t taken[4] = {};
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::In("i", index), cpu_twin::Out("got", got)}, [&] {
        const auto a = Ub<float>(0, 128), records = Ub<float>(2048, 256), r = Ub<float>(4096, 256);
        const auto i = Ub<uint32_t>(1024, 128);
        Load(a, x);
        Load(i, index);
        Sort32(records, a, i, 4);
        PipeBarrier<PIPE_V>();
        const uint16_t lengths[4] = {32, 32, 32, 32};
        const uint32_t step = GetSortLen<float>(32);
        MrgSort(r, MrgSortSrcList<float>(records, records[step], records[2 * step], records[3 * step]),
                MrgSort4Info(lengths, false, 15, 1));
        PipeBarrier<PIPE_ALL>();
        GetMrgSortResult(taken[0], taken[1], taken[2], taken[3]);
        Store(got, r);
    });
    EXPECT_CLEAN(report);
    std::vector<uint32_t> order = index;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return x[a] > x[b]; });
    for (size_t i = 0; i < 128; ++i) {
        uint32_t at = 0;
        std::memcpy(&at, &got[2 * i + 1], 4);
        EXPECT(got[2 * i] == x[order[i]] && at == order[i], std::to_string(i));
    }
    EXPECT(taken[0] == 32 && taken[1] == 32 && taken[2] == 32 && taken[3] == 32, std::to_string(taken[0]));
}

API_TEST(transposes)
{
    std::vector<half> x(256), one(256), two(256);
    for (size_t i = 0; i < 256; ++i) {
        x[i] = half(static_cast<float>(i));
    }
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("one", one), cpu_twin::Out("two", two)}, [&] {
        const auto a = Ub<half>(0, 256), r = Ub<half>(1024, 256);
        Load(a, x);
        Transpose(r, a);
        Store(one, r);
        PipeBarrier<PIPE_ALL>();
        LocalTensor<half> to[16], from[16];
        for (uint32_t i = 0; i < 16; ++i) {
            to[i] = r[i * 16];
            from[i] = a[i * 16];
        }
        TransDataTo5HD(to, from, {false, false, 1, 0, 0});
        Store(two, r);
    });
    EXPECT_CLEAN(report);
    for (size_t row = 0; row < 16; ++row) {
        for (size_t column = 0; column < 16; ++column) {
            EXPECT(float(one[row * 16 + column]) == float(x[column * 16 + row]), std::to_string(row));
            EXPECT(float(two[row * 16 + column]) == float(x[column * 16 + row]), std::to_string(row));
        }
    }
}

API_TEST(vector_functions_refuse_what_has_no_effect)
{
    const auto f = [] { return Ub<float>(0, 64); };
    const auto m = [] { return Ub<uint8_t>(1024, 32); };
    EXPECT_REFUSED(AivOnly, "expected 1 to 64 elements", Exp(f(), f(), uint64_t(65), 1, {1, 1, 8, 8}));
    EXPECT_REFUSED(AivOnly, "expected 1 to 64 elements", Exp(f(), f(), uint64_t(0), 1, {1, 1, 8, 8}));
    EXPECT_REFUSED(AivOnly, "expected 0 to 4294967295", Exp(f(), f(), -1));
    EXPECT_REFUSED(AivOnly, "halfBlock", Exp(f(), f(), uint64_t(64), 1, {1, 1, 8, 8, true}));
    EXPECT_REFUSED(AivOnly, "blockNumber", UnaryRepeatParams p; p.blockNumber = 4; Exp(f(), f(), uint64_t(64), 1, p));
    EXPECT_REFUSED(AivOnly, "repeatStrideMode", BinaryRepeatParams p; p.repeatStrideMode = true;
                   Add(f(), f(), f(), uint64_t(64), 1, p));
    EXPECT_REFUSED(AivOnly, "no source strides", BrcbRepeatParams p; p.src0RepStride = 1; Brcb(f(), f(), 1, p));
    EXPECT_REFUSED(AivOnly, "has no effect on dav-2201",
                   Compares(m(), f(), 0.0f, CMPMODE::LT, uint64_t(28), 1, {1, 1, 8, 8}));
    EXPECT_REFUSED(AivOnly, "whole repeats of 64 elements", Compares(m(), f(), 0.0f, CMPMODE::LT, 60));
    EXPECT_REFUSED(AivOnly, "CMPMODE::EQ only", Compares(m(), Ub<int32_t>(0, 64), 0, CMPMODE::LT, 64));
    EXPECT_REFUSED(AivOnly, "takes a scalar as second source",
                   Select(f(), m(), f(), f(), SELMODE::VSEL_TENSOR_SCALAR_MODE, 64));
    EXPECT_REFUSED(AivOnly, "needs VSEL_TENSOR_SCALAR_MODE",
                   Select(f(), m(), f(), 0.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64));
    EXPECT_REFUSED(AivOnly, "does not have rounding mode", Cast(Ub<half>(512, 64), f(), RoundMode::UNKNOWN, 64));
    EXPECT_REFUSED(AivOnly, "does not have rounding mode",
                   Cast(Ub<bfloat16_t>(512, 64), f(), RoundMode::CAST_NONE, 64));
    EXPECT_REFUSED(AivOnly, "pattern of 1 to 7", uint64_t n = 0; GatherMask(f(), f(), 8, false, 0, {1, 1, 8, 0}, n));
    EXPECT_REFUSED(AivOnly, "needs a TPipe", ReduceSum(f(), f(), f(), 64));
    EXPECT_REFUSED(AivOnly, "expected 3, 7 or 15", const uint16_t n[4] = {32, 32, 0, 0};
                   MrgSort(f(), MrgSortSrcList<float>(f(), f(), f(), f()), MrgSort4Info(n, false, 5, 1)));
    EXPECT_REFUSED(AivOnly, "distance of 0 to 32", ShiftLeft(Ub<int32_t>(0, 64), Ub<int32_t>(0, 64), 33, 64));
    EXPECT_REFUSED(AivOnly, "expected a tensor in UB", Exp(LocalTensor<float>(TPosition::A1, 0, 64), f(), 64));
    EXPECT_REFUSED(AivOnly, "repeatTime: expected at least 0", WholeReduceMax(f(), f(), 64, -1, 1, 1, 8));
    EXPECT_REFUSED(AivOnly, "dstBlkStride is reserved", RepeatReduceSum(f(), f(), 1, 64, 2, 1, 1, 8));
}

}    // namespace api_test
