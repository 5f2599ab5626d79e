// SPDX-License-Identifier: Apache-2.0
// Order by the API's own calls: which core this is, flags between cores, the whole grid, atomic copies, the caches.
#include "harness.h"

#include <map>
#include <mutex>

namespace api_test {

namespace {
constexpr uint32_t LANE = 8;    // floats of a block
}

API_TEST(cores_know_their_numbers)
{
    struct Numbers {
        int64_t block, blocks, sub, ratio;
        bool operator==(const Numbers& o) const
        {
            return block == o.block && blocks == o.blocks && sub == o.sub && ratio == o.ratio;
        }
    };
    std::vector<Numbers> cube, vector;
    const auto note = [&] {
        auto& list = ASCEND_IS_AIC ? cube : vector;
        list.push_back({GetBlockIdx(), GetBlockNum(), GetSubBlockIdx(), GetTaskRation()});
    };
    EXPECT_CLEAN(Run(KernelType::MixAic1_2, 2, {}, note));
    EXPECT(cube.size() == 2 && vector.size() == 4, "");
    EXPECT((cube[1] == Numbers{1, 2, 0, 1}), "");
    EXPECT((vector[0] == Numbers{0, 2, 0, 2} && vector[1] == Numbers{1, 2, 1, 2} && vector[3] == Numbers{3, 2, 1, 2}),
           "");
    cube.clear(), vector.clear();
    EXPECT_CLEAN(Run(KernelType::MixAic1_1, 2, {}, note));
    EXPECT((vector.size() == 2 && vector[1] == Numbers{1, 2, 0, 1}), "");
    cube.clear(), vector.clear();
    EXPECT_CLEAN(Run(KernelType::AivOnly, 3, {}, note));
    EXPECT((cube.empty() && vector.size() == 3 && vector[2] == Numbers{2, 3, 0, 1}), "");
    vector.clear();
    EXPECT_CLEAN(Run(KernelType::AicOnly, 3, {}, note));
    EXPECT((vector.empty() && cube.size() == 3 && cube[2] == Numbers{2, 3, 0, 1}), "");
}

API_TEST(the_declared_kernel_type_is_held)
{
    EXPECT_CLEAN(Run(KernelType::AivOnly, 1, {}, [] { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY); }));
    EXPECT_CLEAN(Run(KernelType::MixAic1_2, 1, {}, [] { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2); }));
    EXPECT_REFUSED(AivOnly, "declares cube cores only", KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY));
    EXPECT_REFUSED(AicOnly, "declares vector cores only", KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY));
    EXPECT_REFUSED(MixAic1_1, "declares 2 vector core(s) a block, launched with 1",
                   KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2));
}

// Every vector core stores a block, all meet, and every core reads the next core's.
API_TEST(all_vector_cores_meet)
{
    const uint32_t cores = 5;
    std::vector<float> shared(cores * LANE), out(cores * LANE);
    const auto run = [&](bool meet) {
        return Run(KernelType::MixAiv1_0, cores, {cpu_twin::InOut("shared", shared), cpu_twin::Out("out", out)}, [&] {
            const auto me = static_cast<uint32_t>(GetBlockIdx());
            const auto tile = Ub<float>(0, LANE);
            Duplicate(tile, static_cast<float>(me), LANE);
            PipeBarrier<PIPE_ALL>();
            DataCopy(Global(shared)[me * LANE], tile, LANE);
            if (meet) {
                SyncAll();
            } else {
                PipeBarrier<PIPE_ALL>();
            }
            DataCopy(tile, Global(shared)[(me + 1) % cores * LANE], LANE);
            PipeBarrier<PIPE_ALL>();
            DataCopy(Global(out)[me * LANE], tile, LANE);
        });
    };
    EXPECT_CLEAN(run(true));
    for (uint32_t i = 0; i < cores * LANE; ++i) {
        EXPECT(out[i] == static_cast<float>((i / LANE + 1) % cores), std::to_string(i));
    }
    const Report alone = run(false);
    EXPECT(!alone.ok() && alone.findings[0].rule == Rule::Race, alone.Text());
}

// The vector cores store, the whole grid meets, and cube cores copy other blocks' values on through L1; twice.
API_TEST(cores_of_both_kinds_meet)
{
    const uint32_t blocks = 3, vectors = 2 * blocks, bytes = 64;
    std::vector<float> shared(vectors * 16), out(vectors * 16), back(vectors * 16);
    const Report report =
        Run(KernelType::MixAic1_2, blocks,
            {cpu_twin::InOut("shared", shared), cpu_twin::Out("out", out), cpu_twin::Out("back", back)}, [&] {
                const auto me = static_cast<uint32_t>(GetBlockIdx());
                if ASCEND_IS_AIV {
                    const auto tile = Ub<float>(0, 16);
                    Duplicate(tile, 1.0f + static_cast<float>(me), 16);
                    PipeBarrier<PIPE_ALL>();
                    DataCopy(Global(shared)[me * 16], tile, 16);
                }
                SyncAll<false>();
                if ASCEND_IS_AIC {
                    const LocalTensor<float> l1(TPosition::A1, 0, 32);
                    const uint32_t other = (me + 1) % blocks;
                    DataCopy(l1, Global(shared)[other * 32], 32);
                    PipeBarrier<PIPE_ALL>();
                    DataCopy(Global(out)[me * 32], l1, 32);
                }
                SyncAll<false>();
                if ASCEND_IS_AIV {
                    const auto tile = Ub<float>(0, 16);
                    const uint32_t other = (me + 1) % vectors;
                    DataCopyPad(tile, Global(out)[other * 16], {1, bytes, 0, 0, 0}, DataCopyPadExtParams<float>{});
                    PipeBarrier<PIPE_ALL>();
                    DataCopy(Global(back)[me * 16], tile, 16);
                }
            });
    EXPECT_CLEAN(report);
    for (uint32_t i = 0; i < vectors * 16; ++i) {
        const float first = 1.0f + static_cast<float>((i / 16 + 2) % vectors);
        const float second = 1.0f + static_cast<float>((i / 16 + 3) % vectors);
        EXPECT(out[i] == first && back[i] == second, std::to_string(i));
    }
}

// Mode 2 both ways, mode 1 between the vector cores of a block, mode 0 over all blocks.
API_TEST(flags_between_cores_by_mode)
{
    const uint32_t blocks = 2;
    std::vector<float> a(blocks * 16), b(blocks * 16), c(blocks * 16), d(blocks * 16);
    const Report report =
        Run(KernelType::MixAic1_2, blocks,
            {cpu_twin::InOut("a", a), cpu_twin::InOut("b", b), cpu_twin::InOut("c", c), cpu_twin::Out("d", d)}, [&] {
                const auto me = static_cast<uint32_t>(GetBlockIdx());
                if ASCEND_IS_AIC {
                    const LocalTensor<float> l1(TPosition::A1, 0, 16);
                    CrossCoreWaitFlag(3);
                    DataCopy(l1, Global(a)[me * 16], 16);
                    PipeBarrier<PIPE_ALL>();
                    DataCopy(Global(b)[me * 16], l1, 16);
                    CrossCoreSetFlag<2, PIPE_MTE3>(4);
                    return;
                }
                const auto tile = Ub<float>(0, LANE);
                const uint32_t own = me * LANE, partner = (me ^ 1) * LANE;
                Duplicate(tile, 10.0f + static_cast<float>(me), LANE);
                PipeBarrier<PIPE_ALL>();
                DataCopy(Global(a)[own], tile, LANE);
                CrossCoreSetFlag<2, PIPE_MTE3>(3);
                CrossCoreWaitFlag(4);
                DataCopy(tile, Global(b)[partner], LANE);    // through the cube core from the partner
                PipeBarrier<PIPE_ALL>();
                DataCopy(Global(c)[own], tile, LANE);
                CrossCoreSetFlag<1, PIPE_MTE3>(5);
                CrossCoreWaitFlag<1>(5);
                DataCopy(tile, Global(c)[partner], LANE);    // and from the partner straight
                PipeBarrier<PIPE_ALL>();
                Adds(tile, tile, 100.0f, LANE);
                PipeBarrier<PIPE_ALL>();
                DataCopy(Global(a)[own], tile, LANE);
                CrossCoreSetFlag<0, PIPE_MTE3>(6);
                CrossCoreWaitFlag<0>(6);
                DataCopy(tile, Global(a)[(me + 2) % 4 * LANE], LANE);    // from the other block
                PipeBarrier<PIPE_ALL>();
                DataCopy(Global(d)[own], tile, LANE);
            });
    EXPECT_CLEAN(report);
    for (uint32_t i = 0; i < 4 * LANE; ++i) {
        const uint32_t me = i / LANE;
        EXPECT(c[i] == 10.0f + static_cast<float>(me ^ 1), std::to_string(c[i]));
        EXPECT(d[i] == 110.0f + static_cast<float>((me + 2) % 4), std::to_string(d[i]));
    }
}

API_TEST(atomic_copies_add_and_take_extremes)
{
    std::vector<float> sum(16, 1.0f), most(16, 5.0f), least(16, 5.0f), plain(16, 5.0f);
    std::vector<int32_t> whole(16, 7);
    std::vector<half> halves(16, half(0.5f));
    std::vector<float> steps(16);
    for (uint32_t i = 0; i < 16; ++i) {
        steps[i] = static_cast<float>(i);
    }
    const Report report =
        OnVector({cpu_twin::In("steps", steps), cpu_twin::InOut("sum", sum), cpu_twin::InOut("most", most),
                  cpu_twin::InOut("least", least), cpu_twin::InOut("plain", plain), cpu_twin::InOut("whole", whole),
                  cpu_twin::InOut("halves", halves)},
                 [&] {
                     const auto x = Ub<float>(0, 16);
                     const auto n = Ub<int32_t>(64, 16);
                     const auto h = Ub<half>(128, 16);
                     Load(x, steps);
                     Cast(n, x, RoundMode::CAST_RINT, 16);
                     Cast(h, x, RoundMode::CAST_NONE, 16);
                     PipeBarrier<PIPE_ALL>();
                     SetAtomicAdd<float>();
                     DataCopy(Global(sum), x, 16);
                     DataCopy(Global(sum), x, 16);
                     SetAtomicMax<float>();
                     DataCopy(Global(most), x, 16);
                     SetAtomicMin<float>();
                     DataCopy(Global(least), x, 16);
                     SetAtomicAdd<int32_t>();
                     DataCopy(Global(whole), n, 16);
                     SetAtomicAdd<half>();
                     DataCopy(Global(halves), h, 16);
                     SetAtomicNone();
                     DataCopy(Global(plain), x, 16);
                 });
    EXPECT_CLEAN(report);
    for (uint32_t i = 0; i < 16; ++i) {
        const float step = static_cast<float>(i);
        EXPECT(sum[i] == 1.0f + 2 * step && most[i] == std::max(5.0f, step) && least[i] == std::min(5.0f, step) &&
                   plain[i] == step,
               std::to_string(i));
        EXPECT(whole[i] == 7 + static_cast<int32_t>(i) && float(halves[i]) == 0.5f + step, std::to_string(i));
    }
}

API_TEST(events_are_flags_and_equal_pipes_are_barriers)
{
    std::map<std::string, uint64_t> sites;
    const Report report = OnVector({}, [&] {
        SetFlag<HardEvent::S_V>(7);
        WaitFlag<HardEvent::S_V>(7);
        SetFlag<HardEvent::V_V>(1);
        WaitFlag<HardEvent::V_V>(1);
    });
    EXPECT_CLEAN(report);
    for (const cpu_twin::SyncSite& site : report.syncSites) {
        sites[site.Key().substr(0, site.Key().rfind(' '))] += site.calls;
    }
    EXPECT(sites["set_flag S_V"] == 1 && sites["wait_flag S_V"] == 1, "");
    EXPECT(sites.size() == 3, std::to_string(sites.size()));
    EXPECT_REFUSED(AivOnly, "event id: expected 0 to 7, got 8", SetFlag<HardEvent::MTE2_V>(8));
    EXPECT_REFUSED(AivOnly, "event id: expected 0 to 7, got -1", WaitFlag<HardEvent::MTE2_V>(-1));
    EXPECT_REFUSED(MixAic1_2, "expected a flag id of 0 to 15, got 16", CrossCoreSetFlag<2, PIPE_MTE3>(16));
    EXPECT_REFUSED(MixAic1_2, "expected a flag id of 0 to 15, got 16", CrossCoreWaitFlag(16));
    EXPECT_REFUSED(AivOnly, "launched without a workspace", GetUserWorkspace(nullptr));
    EXPECT_REFUSED(AivOnly, "length in units of 2 KB", ICachePreLoad(-1));
}

API_TEST(ids_are_lent_and_taken_back)
{
    std::vector<int> ids;
    EXPECT_CLEAN(OnVector({}, [&] {
        TPipe pipe;
        ids.push_back(pipe.AllocEventID<HardEvent::MTE2_V>());
        ids.push_back(pipe.AllocEventID<HardEvent::MTE2_V>());
        pipe.ReleaseEventID<HardEvent::MTE2_V>(static_cast<TEventID>(ids[0]));
        ids.push_back(pipe.FetchEventID(HardEvent::MTE2_V));
        ids.push_back(pipe.AllocEventID<HardEvent::V_MTE3>());
    }));
    EXPECT((ids == std::vector<int>{0, 1, 0, 0}), "");
}

// Counter mode: the mask register holds a number of elements, whatever the repeat times say.
API_TEST(the_mask_register_is_the_kernels)
{
    std::vector<float> byCount(256), byBits(256), byLength(256);
    const Report report = OnVector(
        {cpu_twin::Out("byCount", byCount), cpu_twin::Out("byBits", byBits), cpu_twin::Out("byLength", byLength)}, [&] {
            const auto x = Ub<float>(0, 256), y = Ub<float>(1024, 256), z = Ub<float>(2048, 256);
            for (const auto& tile : {x, y, z}) {
                Duplicate(tile, 0.0f, 256);
            }
            PipeBarrier<PIPE_ALL>();
            SetMaskCount();
            SetVectorMask<float, MaskMode::COUNTER>(100);
            Adds<float, false>(x, x, 1.0f, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
            SetMaskNorm();
            SetVectorMask<float>(0, 0xF0);
            Adds<float, false>(y, y, 1.0f, MASK_PLACEHOLDER, 2, {1, 1, 8, 8});
            SetVectorMask<float>(10);
            Adds<float, false>(z, z, 1.0f, MASK_PLACEHOLDER, 2, {1, 1, 8, 8});
            ResetMask();
            Store(byCount, x);
            Store(byBits, y);
            Store(byLength, z);
        });
    EXPECT_CLEAN(report);
    for (uint32_t i = 0; i < 256; ++i) {
        EXPECT(byCount[i] == (i < 100 ? 1.0f : 0.0f), std::to_string(i));
        EXPECT(byBits[i] == (i < 128 && i % 64 >= 4 && i % 64 < 8 ? 1.0f : 0.0f), std::to_string(i));
        EXPECT(byLength[i] == (i < 128 && i % 64 < 10 ? 1.0f : 0.0f), std::to_string(i));
    }
}

API_TEST(the_scalar_unit_past_its_cache)
{
    Aligned<int32_t> x(64);
    int32_t cached = 0, fresh = 0;
    const Report report = OnVector({cpu_twin::InOut("x", x)}, [&] {
        GlobalTensor<int32_t> gm = Global(x);
        WriteGmByPassDCache(x.data(), 5);
        cached = ReadGmByPassDCache(x.data());
        for (uint32_t i = 16; i < 32; ++i) {
            gm.SetValue(i, static_cast<int32_t>(i));
        }
        DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(gm[16]);
        fresh = ReadGmByPassDCache(x.data() + 31);
    });
    EXPECT_CLEAN(report);
    EXPECT(cached == 5 && fresh == 31 && x[0] == 5 && x[20] == 20, std::to_string(fresh));
}

}    // namespace api_test
