// SPDX-License-Identifier: Apache-2.0
// Flags, counters, bounds, alignment, limits, the data cache, deadlock.
#include "harness.h"

namespace checker_test {
namespace {

// ---- event flags ----

CHECKER_TEST(flag_set_twice) {
    ExpectSome(OnVector([&] {
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID3);
        MARK(1); set_flag(PIPE_MTE2, PIPE_V, EVENT_ID3);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID3);
    }), Rule::FlagSetTwice);
}
CHECKER_TEST(flag_left_over) {
    ExpectOne(OnVector([&] { MARK(1); set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1); }), Rule::FlagLeftOver, {"MTE2_V id 1"});
}
CHECKER_TEST(flag_never_set) {
    ExpectOne(OnVector([&] { MARK(1); wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); }), Rule::FlagNeverSet, {"V_MTE3 id 0"});
}
CHECKER_TEST(other_id_is_another_flag) {
    const Report report = OnVector([&] {
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        MARK(1); wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    });
    ExpectSome(report, Rule::FlagNeverSet);
}
CHECKER_TEST(event_id_out_of_range) {
    ExpectOne(OnVector([&] { MARK(1); set_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(8)); }), Rule::BadArgument, {"event id 8"});
}
CHECKER_TEST(flag_between_pipes_the_core_lacks) {
    ExpectOne(OnVector([&] { MARK(1); set_flag(PIPE_M, PIPE_FIX, EVENT_ID0); }), Rule::BadArgument);
}
CHECKER_TEST(barrier_on_the_scalar_pipe) {
    ExpectOne(OnVector([&] { MARK(1); pipe_barrier(PIPE_S); }), Rule::BadArgument);
}

// ---- cross-core flags ----

CHECKER_TEST(counter_overflow) {
    ExpectSome(OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIC) {
            for (int i = 0; i < 16; ++i) {
                MARK(1); ffts_cross_core_sync(PIPE_FIX, CrossConfig(2, 5));
            }
        } else {
            for (int i = 0; i < 16; ++i) wait_flag_dev(5);
        }
    }), Rule::CounterOverflow);
}
CHECKER_TEST(fifteen_sets_are_allowed) {
    ExpectClean(OnMix([&] {
        for (int i = 0; i < 15; ++i) {
            if (CurrentCoreKind() == CoreKind::AIC) ffts_cross_core_sync(PIPE_FIX, CrossConfig(2, 5)); else wait_flag_dev(5);
        }
    }));
}
CHECKER_TEST(counter_left_over) {
    const Report report = OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIC) {
            MARK(1); ffts_cross_core_sync(PIPE_FIX, CrossConfig(2, 5));
        }
    });
    ExpectSome(report, Rule::CounterLeftOver);
}
CHECKER_TEST(one_vector_core_alone_does_not_fire) {
    const Report report = OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIV && get_subblockid() == 1) ffts_cross_core_sync(PIPE_MTE3, CrossConfig(2, 2));
        if (CurrentCoreKind() == CoreKind::AIC) {
            MARK(1); wait_flag_dev(2);
        }
    });
    ExpectSome(report, Rule::Deadlock);
}
CHECKER_TEST(vector_cores_meet_in_mode_1) {
    ExpectClean(OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIC) return;
        ffts_cross_core_sync(PIPE_MTE3, CrossConfig(1, 2));
        wait_flag_dev(2);
    }));
}
CHECKER_TEST(reserved_flag_id) {
    ExpectOne(OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIC) {
            MARK(1); ffts_cross_core_sync(PIPE_FIX, CrossConfig(2, 12));
        } else {
            wait_flag_dev(12);
        }
    }), Rule::ReservedFlagId, {"SyncAll"});
}
CHECKER_TEST(cross_core_flag_without_a_scheduler) {
    ExpectOne(OnVector([&] { MARK(1); ffts_cross_core_sync(PIPE_MTE3, CrossConfig(0, 1)); }), Rule::BadArgument, {"MIX_AIV_1_0"});
}
CHECKER_TEST(cross_core_flag_on_the_scalar_pipe) {
    ExpectOne(OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIC) {
            MARK(1); ffts_cross_core_sync(PIPE_S, CrossConfig(2, 1));
        }
    }), Rule::BadArgument);
}
CHECKER_TEST(deadlock_names_every_core) {
    const Report report = OnMix([&] {
        MARK(1); wait_flag_dev(CurrentCoreKind() == CoreKind::AIC ? 1 : 2);
    });
    ExpectOne(report, Rule::Deadlock, {"AIC of block 0: waits at", "AIV of block 0, sub-block 1: waits at", "for flag 2"});
}
CHECKER_TEST(mode_0_needs_every_core) {
    std::vector<float> y(64);
    const Report report = Run(KernelType::MixAiv1_0, 3, {Out("y", y)}, [&] {
        if (get_block_idx() == 2) return;
        ffts_cross_core_sync(PIPE_MTE3, CrossConfig(0, 1));
        MARK(1); wait_flag_dev(1);
    });
    ExpectSome(report, Rule::Deadlock);
}

// ---- bounds and alignment ----

CHECKER_TEST(global_memory_past_the_end) {
    std::vector<float> x(60);
    ExpectOne(OnVector([&] { MARK(1); copy_gm_to_ubuf(Ub(0), Gm(x), 0, 1, 8, 0, 0); }, {In("x", x)}), Rule::OutOfRange,
              {"'x' bytes 0..255", "ends at byte 240"});
}
CHECKER_TEST(global_memory_nobody_registered) {
    std::vector<float> x(64), other(64);
    const Report report = OnVector([&] { MARK(1); copy_gm_to_ubuf(Ub(0), Gm(other), 0, 1, 8, 0, 0); }, {In("x", x)});
    ExpectOne(report, Rule::OutOfRange);
}
CHECKER_TEST(one_row_too_many) {
    std::vector<float> x(1024);
    ExpectOne(OnVector([&] { MARK(1); copy_gm_to_ubuf_align_b32(Ub(0), Gm(x), 0, 5, 64, 0, 0, 960, 0); }, {In("x", x)}), Rule::OutOfRange,
              {"5 pieces of 64 bytes", "ends at byte 4096"});
}
CHECKER_TEST(input_written) {
    std::vector<float> x(64);
    ExpectOne(OnVector([&] { MARK(1); copy_ubuf_to_gm(Gm(x), Ub(0), 0, 1, 8, 0, 0); }, {In("x", x)}), Rule::ReadOnlyWritten, {"'x'"});
}
CHECKER_TEST(unified_buffer_past_the_end) {
    ExpectOne(OnVector([&] { MARK(1); vadd(Ub(49152 - 32), Ub(0), Ub(0), 1, 1, 1, 1, 8, 8, 8); }), Rule::OutOfRange, {"UB", "past its end at byte 196608"});
}
CHECKER_TEST(repeats_run_past_the_end) {
    ExpectOne(OnVector([&] { MARK(1); vector_dup(Ub(32768), 0.0f, 255, 1, 1, 9, 0); }), Rule::OutOfRange);
}
CHECKER_TEST(operand_in_the_wrong_memory) {
    ExpectOne(OnCube([&] {
        MARK(1); load_cbuf_to_ca(reinterpret_cast<half*>(LocalBase(Mem::L0B)), L1(0), 0, 1, 1, 0, 0, false, inc);
    }), Rule::OutOfRange, {"must lie in this core's L0A", "in L0B"});
}
CHECKER_TEST(vector_operand_misaligned) {
    ExpectOne(OnVector([&] { MARK(1); vadd(Ub(1), Ub(64), Ub(64), 1, 1, 1, 1, 8, 8, 8); }), Rule::Misaligned, {"dst is at UB byte 4", "32"});
}
CHECKER_TEST(fractal_misaligned) {
    ExpectOne(OnCube([&] { MARK(1); load_cbuf_to_ca(L0a(16), L1(0), 0, 1, 1, 0, 0, false, inc); }), Rule::Misaligned, {"512"});
}
CHECKER_TEST(result_tile_misaligned) {
    ExpectOne(OnCube([&] { MARK(1); mad(L0c(128), L0a(0), L0b(0), 16, 16, 16, 0, false, false, true); }), Rule::Misaligned, {"1024"});
}
CHECKER_TEST(scalar_misaligned) {
    std::vector<uint8_t> x(64);
    ExpectOne(OnVector([&] { MARK(1); ScalarRead(reinterpret_cast<float*>(Gm(x) + 2)); }, {In("x", x)}), Rule::Misaligned);
}

// ---- limits and arguments ----

CHECKER_TEST(too_many_repeats) {
    ExpectOne(OnVector([&] { MARK(1); vadd(Ub(0), Ub(0), Ub(0), 256, 1, 1, 1, 0, 0, 0); }), Rule::RepeatLimit, {"256"});
}
CHECKER_TEST(count_beyond_the_buffer) {
    ExpectOne(OnVector([&] {
        set_mask_count();
        set_vector_mask(0, ~0ull);
        MARK(1); vadd(Ub(0), Ub(0), Ub(0), 1, 1, 1, 1, 8, 8, 8);
    }), Rule::MaskLimit);
}
CHECKER_TEST(partial_overlap_within_an_instruction) {
    ExpectOne(OnVector([&] { MARK(1); vadd(Ub(8), Ub(0), Ub(1024), 1, 1, 1, 1, 8, 8, 8); }), Rule::BadArgument, {"overlaps"});
}
CHECKER_TEST(later_repeat_reads_what_an_earlier_wrote) {
    ExpectOne(OnVector([&] { MARK(1); vadd(Ub(64), Ub(0), Ub(1024), 2, 1, 1, 1, 8, 8, 8); }), Rule::BadArgument, {"repeat 0", "repeat 1"});
}
CHECKER_TEST(accumulating_repeats_are_allowed) {
    ExpectClean(OnVector([&] { vadd(Ub(0), Ub(1024), Ub(0), 4, 1, 1, 1, 0, 8, 0); }));
}
CHECKER_TEST(brcb_block_stride_zero) {
    ExpectOne(OnVector([&] {
        MARK(1); vbrcb(reinterpret_cast<uint32_t*>(Ub(64)), reinterpret_cast<uint32_t*>(Ub(0)), 0, 8, 1);
    }), Rule::StrideLimit);
}
CHECKER_TEST(copy_of_no_rows) {
    std::vector<float> x(64);
    ExpectOne(OnVector([&] { MARK(1); copy_gm_to_ubuf_align_b32(Ub(0), Gm(x), 0, 0, 64, 0, 0, 0, 0); }, {In("x", x)}), Rule::RepeatLimit);
}
CHECKER_TEST(nd2nz_without_a_row_stride) {
    std::vector<half> x(4096);
    ExpectOne(OnCube([&] {
        MARK(1); copy_gm_to_cbuf_multi_nd2nz_b16(L1(0), x.data(), 0, 1, 16, 64, 0, static_cast<uint16_t>(65536), 16, 1, 0);
    }, {In("x", x)}), Rule::StrideLimit, {"srcDValue is 0"});
}
CHECKER_TEST(fixpipe_of_the_wrong_type) {
    std::vector<half> y(256);
    ExpectOne(OnCube([&] {
        set_nd_para(1);
        MARK(1); copy_matrix_cc_to_gm(y.data(), L0c(0), 0, 16, 16, 16, 16, 0, F322BF16, 0, false, true);
    }, {Out("y", y)}), Rule::BadArgument, {"float16"});
}
CHECKER_TEST(fixpipe_with_a_shift_before_the_scale) {
    std::vector<half> y(256);
    ExpectOne(OnCube([&] {
        set_nd_para(1);
        set_quant_pre(0x3F800000ull | 1ull << 36);
        auto* c = reinterpret_cast<__cc__ int32_t*>(L0c(0));
        MARK(1); copy_matrix_cc_to_gm(y.data(), c, 0, 16, 16, 16, 16, 0, DEQF16, 0, false, true);
    }, {Out("y", y)}), Rule::BadArgument, {"bit 36"});
}
CHECKER_TEST(fixpipe_parameters_beyond_the_buffer) {
    std::vector<half> y(256);
    ExpectOne(OnCube([&] {
        set_nd_para(1);
        set_fpc(56ull << 8);  // 7 KB: where the buffer ends
        auto* c = reinterpret_cast<__cc__ int32_t*>(L0c(0));
        MARK(1); copy_matrix_cc_to_gm(y.data(), c, 0, 16, 16, 16, 16, 0, VDEQF16, 0, false, true);
    }, {Out("y", y)}), Rule::OutOfRange, {"FB"});
}
CHECKER_TEST(fixpipe_fractals_onto_unaligned_rows) {
    std::vector<float> y(300);
    ExpectOne(OnCube([&] {
        MARK(1); copy_matrix_cc_to_gm(y.data() + 1, L0c(0), 0, 16, 16, 32, 16, 0, NoQuant, 0, false, false);
    }, {Out("y", y)}), Rule::Misaligned, {"byte 4 of the tensor"});
}
CHECKER_TEST(vector_instruction_on_a_cube_core) {
    ExpectOne(OnCube([&] { MARK(1); vadd(Ub(0), Ub(64), Ub(64), 1, 1, 1, 1, 8, 8, 8); }), Rule::WrongCore, {"AIC"});
}
CHECKER_TEST(trap_stops_the_core) {
    bool after = false;
    const Report report = OnVector([&] {
        MARK(1); trap();
        after = true;
    });
    if (report.findings.size() != 1 || report.findings[0].rule != Rule::KernelTrap || after) Fail(report.Text());
}

// ---- the scalar unit's data cache ----

CHECKER_TEST(dirty_line_at_the_end) {
    std::vector<int32_t> y(64);
    ExpectOne(OnVector([&] { MARK(1); ScalarWrite(y.data(), 7); }, {Out("y", y)}), Rule::DirtyCacheLine, {"DataCacheCleanAndInvalid"});
    if (y[0] != -1) Fail("the value left the cache without dcci");
}
CHECKER_TEST(cleaned_line_arrives) {
    std::vector<int32_t> y(64);
    ExpectClean(OnVector([&] {
        ScalarWrite(y.data() + 3, 7);
        dcci(y.data() + 3, SINGLE_CACHE_LINE, CACHELINE_OUT);
    }, {InOut("y", y)}));
    if (y[3] != 7) Fail("the value did not arrive");
}
CHECKER_TEST(copy_misses_what_the_cache_holds) {
    std::vector<int32_t> y(64);
    ExpectSome(OnVector([&] {
        ScalarWrite(y.data(), 7);
        Sync(PIPE_S, PIPE_MTE2);
        MARK(1); copy_gm_to_ubuf(Ub(0), Gm(y), 0, 1, 1, 0, 0);
        dcci(y.data(), SINGLE_CACHE_LINE, CACHELINE_OUT);
    }, {InOut("y", y)}), Rule::DirtyCacheLine);
}
CHECKER_TEST(stale_line) {
    std::vector<int32_t> w(64);
    const auto run = [&](bool invalidate) {
        std::fill(w.begin(), w.end(), 0);
        return OnMix([&w, invalidate] {
            if (CurrentCoreKind() == CoreKind::AIC) return;
            const bool reader = get_subblockid() == 0;
            if (reader) {
                ScalarRead(w.data());
                Sync(PIPE_S, PIPE_MTE3);
            }
            ffts_cross_core_sync(PIPE_MTE3, CrossConfig(1, 1));
            wait_flag_dev(1);
            if (!reader) {
                vector_dup(reinterpret_cast<int32_t*>(Ub(0)), 5, 1, 1, 1, 8, 0);
                Sync(PIPE_V, PIPE_MTE3);
                copy_ubuf_to_gm(Gm(w), Ub(0), 0, 1, 1, 0, 0);
            }
            ffts_cross_core_sync(PIPE_MTE3, CrossConfig(1, 2));
            wait_flag_dev(2);
            if (!reader) return;
            if (invalidate) dcci(w.data(), SINGLE_CACHE_LINE, CACHELINE_OUT);
            MARK(1); ScalarRead(w.data());
        }, {InOut("w", w)});
    };
    ExpectClean(run(true));
    ExpectOne(run(false), Rule::StaleCacheLine, {"'w'"});
}
CHECKER_TEST(two_cores_store_into_one_line) {
    std::vector<int32_t> y(64);
    const Report report = Run(KernelType::AivOnly, 2, {InOut("y", y)}, [&] {
        int32_t* mine = y.data() + get_block_idx();
        ScalarWrite(mine, 1);
        MARK(1); dcci(mine, SINGLE_CACHE_LINE, CACHELINE_OUT);
    });
    ExpectSome(report, Rule::Race);
}

// ---- the report itself ----

Report Busy(const Options& options) {
    std::vector<float> w(64 * 6), y(64 * 6);
    return Run(KernelType::MixAic1_2, 3, {Workspace("w", w), Out("y", y)}, [&] {
        if (CurrentCoreKind() == CoreKind::AIC) {
            wait_flag_dev(1);
            copy_gm_to_cbuf(L1(0), Gm(w) + get_block_idx() * 512, 0, 1, 16, 0, 0, PAD_NONE);
            return;
        }
        vadd(Ub(0), Ub(64), Ub(64), 1, 1, 1, 1, 8, 8, 8);
        copy_ubuf_to_gm(Gm(w) + (get_block_idx() * 2 + get_subblockid()) * 256, Ub(0), 0, 1, 8, 0, 0);  // a race
        copy_ubuf_to_gm(Gm(y), Ub(64), 0, 1, 8, 0, 0);                                                    // one between blocks
        ffts_cross_core_sync(PIPE_MTE3, CrossConfig(2, 1));
    }, options);
}
CHECKER_TEST(reports_are_the_same_twice_and_on_two_threads) {
    Options two;
    two.threads = 2;
    const std::string first = Busy({}).Text();
    if (first != Busy({}).Text()) Fail("two runs differ:\n" + first);
    if (first != Busy(two).Text()) Fail("two threads give another report:\n" + first + "\nand\n" + Busy(two).Text());
    if (first.find("no findings") != std::string::npos) Fail("expected findings");
}
CHECKER_TEST(atomic_sums_of_blocks_are_the_same_on_two_threads) {
    auto sum = [](int threads) {
        std::vector<float> y(64, 0.0f);
        Options options;
        options.threads = threads;
        const Report report = Run(KernelType::AivOnly, 24, {InOut("y", y)}, [&] {
            set_mask_norm();
            vector_dup(Ub(0), 1.0f / static_cast<float>(3 + 7 * get_block_idx()), 1, 1, 1, 8, 0);
            set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
            wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
            set_atomic_add();
            set_atomic_f32();
            for (int i = 0; i < 20; ++i) copy_ubuf_to_gm(Gm(y), Ub(0), 0, 1, 8, 0, 0);
        }, options);
        if (!report.ok()) Fail(report.Text());
        return y;
    };
    const std::vector<float> first = sum(1);
    for (int i = 0; i < 5; ++i) {
        if (sum(2) != first) Fail("two threads add in another order");
    }
}
CHECKER_TEST(checker_off_finds_nothing_but_bounds) {
    std::vector<float> x(60);
    Options off;
    off.check = false;
    const Report report = Run(KernelType::AivOnly, 1, {In("x", x)}, [&] {
        vadd(Ub(0), Ub(64), Ub(64), 1, 1, 1, 1, 8, 8, 8);
        vadd(Ub(0), Ub(64), Ub(64), 1, 1, 1, 1, 8, 8, 8);
        MARK(1); copy_gm_to_ubuf(Ub(0), Gm(x), 0, 1, 8, 0, 0);
    }, off);
    ExpectOne(report, Rule::OutOfRange);
}
CHECKER_TEST(sync_sites_are_listed) {
    const Report report = OnVector([&] {
        for (int i = 0; i < 3; ++i) {
            set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
            wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
            pipe_barrier(PIPE_V);
        }
    });
    if (report.syncSites.size() != 3) Fail("expected 3 sites, got " + std::to_string(report.syncSites.size()));
    for (const SyncSite& site : report.syncSites) {
        if (site.calls != 3) Fail(site.Key() + " counts " + std::to_string(site.calls));
    }
    if (report.syncSites[0].Key().rfind("set_flag V_MTE3 rule_cases.cpp:", 0) != 0) Fail(report.syncSites[0].Key());
}
CHECKER_TEST(a_sync_site_can_be_left_out) {
    const auto kernel = [] {
        vadd(Ub(0), Ub(64), Ub(64), 1, 1, 1, 1, 8, 8, 8);
        MARK(0); pipe_barrier(PIPE_V);
        vadd(Ub(128), Ub(0), Ub(64), 1, 1, 1, 1, 8, 8, 8);
    };
    ExpectClean(OnVector(kernel));
    Options options;
    options.dropSync = "pipe_barrier V rule_cases.cpp:" + std::to_string(marked[0]);
    const Report report = Run(KernelType::AivOnly, 1, {}, kernel, options);
    if (report.findings.size() != 1 || report.findings[0].rule != Rule::Race) Fail(report.Text());
}
CHECKER_TEST(memories_start_poisoned) {
    std::vector<float> y(64, 1.0f);
    ExpectClean(OnVector([&] { copy_ubuf_to_gm(Gm(y), Ub(0), 0, 1, 4, 0, 0); }, {Out("y", y)}));
    for (float v : y) {
        if (v == v) Fail("expected NaN in UB and in the output, got " + std::to_string(v));
    }
}

}  // namespace
}  // namespace checker_test
