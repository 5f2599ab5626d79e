// SPDX-License-Identifier: Apache-2.0
// Accesses that overlap without order, and ordered ones that must pass.
#include "harness.h"

namespace checker_test {
namespace {

std::vector<float> Zeros(size_t n) { return std::vector<float>(n, 0.0f); }
void Load(float* to, uint8_t* gm, uint32_t blocks, SourceLoc loc = SourceLoc::Here()) { copy_gm_to_ubuf(to, gm, 0, 1, static_cast<uint16_t>(blocks), 0, 0, loc); }
void Store(uint8_t* gm, float* from, uint32_t blocks, SourceLoc loc = SourceLoc::Here()) { copy_ubuf_to_gm(gm, from, 0, 1, static_cast<uint16_t>(blocks), 0, 0, loc); }
void Add(float* d, float* a, float* b, SourceLoc loc = SourceLoc::Here()) { vadd(d, a, b, 1, 1, 1, 1, 8, 8, 8, loc); }

CHECKER_TEST(copy_then_compute_in_order) {
    auto x = Zeros(64), y = Zeros(64);
    ExpectClean(OnVector([&] {
        Load(Ub(0), Gm(x), 8);
        Sync(PIPE_MTE2, PIPE_V);
        Add(Ub(64), Ub(0), Ub(0));
        Sync(PIPE_V, PIPE_MTE3);
        Store(Gm(y), Ub(64), 8);
    }, {In("x", x), Out("y", y)}));
}

CHECKER_TEST(read_before_copy_arrives) {
    auto x = Zeros(64);
    ExpectRace(OnVector([&] {
        MARK(1); Load(Ub(0), Gm(x), 8);
        MARK(2); Add(Ub(64), Ub(0), Ub(0));
    }, {In("x", x)}), {"UB bytes 0..255", "copy_gm_to_ubuf on PIPE_MTE2", "vadd on PIPE_V", "HardEvent::MTE2_V", "AIV of block 0"});
}

CHECKER_TEST(copy_over_what_is_still_read) {
    auto x = Zeros(64);
    ExpectRace(OnVector([&] {
        MARK(1); Add(Ub(64), Ub(0), Ub(0));
        MARK(2); Load(Ub(0), Gm(x), 8);
    }, {In("x", x)}), {"write of UB", "earlier read", "HardEvent::V_MTE2"});
}

CHECKER_TEST(two_results_in_one_place) {
    ExpectRace(OnVector([&] {
        MARK(1); Add(Ub(0), Ub(64), Ub(64));
        MARK(2); Add(Ub(0), Ub(128), Ub(128));
    }), {"PipeBarrier<PIPE_V>()"});
}

CHECKER_TEST(barrier_orders_the_vector_pipe) {
    ExpectClean(OnVector([&] {
        Add(Ub(0), Ub(64), Ub(64));
        pipe_barrier(PIPE_V);
        Add(Ub(0), Ub(0), Ub(128));
        pipe_barrier(PIPE_V);
        Add(Ub(64), Ub(0), Ub(128));
    }));
}

CHECKER_TEST(vector_reads_what_the_one_before_wrote) {
    ExpectRace(OnVector([&] {
        MARK(1); Add(Ub(0), Ub(64), Ub(64));
        MARK(2); Add(Ub(128), Ub(0), Ub(64));
    }), {"read of UB bytes 0..255"});
}

CHECKER_TEST(overlap_of_one_block_is_enough) {
    ExpectRace(OnVector([&] {
        MARK(1); Add(Ub(0), Ub(256), Ub(256));
        MARK(2); Add(Ub(56), Ub(256), Ub(256));
    }), {"bytes 224..255"});
}

CHECKER_TEST(masked_lanes_do_not_touch) {
    ExpectClean(OnVector([&] {
        set_vector_mask(0, 0xFF);
        Add(Ub(0), Ub(256), Ub(256));
        set_vector_mask(0, 0xFFFFFFFFFFFFFF00ull);
        Add(Ub(0), Ub(256), Ub(256));
    }));
}

CHECKER_TEST(counter_mode_ends_where_it_counts_to) {
    ExpectClean(OnVector([&] {
        set_mask_count();
        set_vector_mask(0, 72);
        vadd(Ub(0), Ub(1024), Ub(1024), 1, 1, 1, 1, 8, 8, 8);
        vadd(Ub(72), Ub(1024), Ub(1024), 1, 1, 1, 1, 8, 8, 8);
    }));
}

CHECKER_TEST(strided_operands_interleave) {
    ExpectClean(OnVector([&] {
        vadd(Ub(0), Ub(4096), Ub(4096), 4, 2, 1, 1, 16, 8, 8);
        vadd(Ub(8), Ub(4096), Ub(4096), 4, 2, 1, 1, 16, 8, 8);
    }));
}

CHECKER_TEST(store_before_the_result_is_there) {
    auto y = Zeros(64);
    ExpectRace(OnVector([&] {
        MARK(1); Add(Ub(0), Ub(64), Ub(64));
        MARK(2); Store(Gm(y), Ub(0), 8);
    }, {Out("y", y)}), {"HardEvent::V_MTE3"});
}

CHECKER_TEST(two_stores_to_one_place) {
    auto y = Zeros(64);
    ExpectRace(OnVector([&] {
        MARK(1); Store(Gm(y), Ub(0), 8);
        MARK(2); Store(Gm(y), Ub(64), 8);
    }, {Out("y", y)}), {"GM tensor 'y' bytes 0..255", "PipeBarrier<PIPE_MTE3>()"});
}

CHECKER_TEST(atomic_stores_commute) {
    auto y = Zeros(64);
    ExpectClean(OnVector([&] {
        set_atomic_add();
        set_atomic_f32();
        Store(Gm(y), Ub(0), 8);
        Store(Gm(y), Ub(64), 8);
    }, {InOut("y", y)}));
}

CHECKER_TEST(atomics_of_two_types_do_not_commute) {
    auto y = Zeros(64);
    ExpectRace(OnVector([&] {
        set_atomic_add();
        set_atomic_f32();
        MARK(1); Store(Gm(y), Ub(0), 8);
        set_atomic_s32();
        MARK(2); Store(Gm(y), Ub(64), 8);
    }, {InOut("y", y)}), {"atomic update"});
}

CHECKER_TEST(reload_of_what_was_just_stored) {
    auto y = Zeros(64);
    ExpectRace(OnVector([&] {
        MARK(1); Store(Gm(y), Ub(0), 8);
        MARK(2); Load(Ub(64), Gm(y), 8);
    }, {InOut("y", y)}), {"GM tensor 'y'", "HardEvent::MTE3_MTE2"});
}

CHECKER_TEST(scalar_reads_too_early) {
    auto x = Zeros(64);
    ExpectRace(OnVector([&] {
        MARK(1); Load(Ub(0), Gm(x), 8);
        MARK(2); ScalarRead(Ub(3));
    }, {In("x", x)}), {"bytes 12..15", "HardEvent::MTE2_S"});
}

CHECKER_TEST(scalar_write_needs_a_flag) {
    ExpectRace(OnVector([&] {
        MARK(1); ScalarWrite(Ub(0), 1.0f);
        MARK(2); Add(Ub(64), Ub(0), Ub(0));
    }), {"HardEvent::S_V"});
}

CHECKER_TEST(what_the_scalar_unit_waited_for_orders_what_it_issues) {
    auto x = Zeros(64);
    ExpectClean(OnVector([&] {
        Load(Ub(0), Gm(x), 8);
        Sync(PIPE_MTE2, PIPE_S);
        Add(Ub(64), Ub(0), Ub(0));
    }, {In("x", x)}));
}

CHECKER_TEST(order_is_transitive_over_pipes) {
    auto x = Zeros(64), y = Zeros(64);
    ExpectClean(OnVector([&] {
        Load(Ub(0), Gm(x), 8);
        Sync(PIPE_MTE2, PIPE_V);
        Add(Ub(64), Ub(0), Ub(0));
        Sync(PIPE_V, PIPE_MTE3);
        Store(Gm(y), Ub(64), 8);
        Sync(PIPE_MTE3, PIPE_MTE2);
        Load(Ub(0), Gm(x), 8);  // the vector read lies before the store, the store before this
    }, {In("x", x), Out("y", y)}));
}

CHECKER_TEST(a_flag_does_not_cover_what_comes_after_it) {
    auto x = Zeros(128);
    ExpectRace(OnVector([&] {
        Load(Ub(0), Gm(x), 8);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        MARK(1); Load(Ub(64), Gm(x) + 256, 8);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        MARK(2); Add(Ub(128), Ub(0), Ub(64));
    }, {In("x", x)}), {"bytes 256..511"});
}

CHECKER_TEST(barrier_on_all_pipes) {
    auto x = Zeros(64);
    ExpectClean(OnVector([&] {
        Load(Ub(0), Gm(x), 8);
        pipe_barrier(PIPE_ALL);
        Add(Ub(64), Ub(0), Ub(0));
        pipe_barrier(PIPE_ALL);
        ScalarWrite(Ub(64), 1.0f);
    }, {In("x", x)}));
}

// ---- cube ----

void LoadL0(SourceLoc loc = SourceLoc::Here()) {
    load_cbuf_to_ca(L0a(0), L1(0), 0, 4, 1, 0, 0, false, inc, loc);
    load_cbuf_to_cb(L0b(0), L1(4096), 0, 4, 1, 0, 0, false, inc, loc);
}

CHECKER_TEST(mad_before_the_load) {
    ExpectRace(OnCube([&] {
        MARK(1); load_cbuf_to_ca(L0a(0), L1(0), 0, 4, 1, 0, 0, false, inc);
        MARK(2); mad(L0c(0), L0a(0), L0b(0), 32, 32, 32, 0, false, false, true);
    }), {"L0A bytes 0..2047", "HardEvent::MTE1_M"});
}

CHECKER_TEST(small_tiles_need_a_barrier) {
    ExpectRace(OnCube([&] {
        LoadL0();
        Sync(PIPE_MTE1, PIPE_M);
        MARK(1); mad(L0c(0), L0a(0), L0b(0), 32, 32, 32, 0, false, false, true);
        MARK(2); mad(L0c(0), L0a(0), L0b(0), 32, 32, 32, 0, false, false, false);
    }), {"L0C", "PipeBarrier<PIPE_M>()"});
}

CHECKER_TEST(large_tiles_do_not) {
    ExpectClean(OnCube([&] {
        mad(L0c(0), L0a(0), L0b(0), 64, 16, 64, 0, false, false, true);
        mad(L0c(0), L0a(0), L0b(0), 64, 16, 64, 0, false, false, false);
    }));
}

CHECKER_TEST(fixpipe_before_the_mad) {
    auto y = Zeros(1024);
    ExpectRace(OnCube([&] {
        set_nd_para(1);
        MARK(1); mad(L0c(0), L0a(0), L0b(0), 32, 32, 32, 0, false, false, true);
        MARK(2); copy_matrix_cc_to_gm(y.data(), L0c(0), 0, 32, 32, 32, 32, 0, NoQuant, 0, false, true);
    }, {Out("y", y)}), {"L0C", "HardEvent::M_FIX"});
}

CHECKER_TEST(unit_flags_order_mad_and_fixpipe) {
    auto y = Zeros(1024);
    ExpectClean(OnCube([&] {
        set_nd_para(1);
        for (int i = 0; i < 3; ++i) {
            mad(L0c(0), L0a(0), L0b(0), 32, 16, 32, 2, false, false, true);
            pipe_barrier(PIPE_M);
            mad(L0c(0), L0a(0), L0b(0), 32, 16, 32, 3, false, false, false);
            pipe_barrier(PIPE_FIX);
            copy_matrix_cc_to_gm(y.data(), L0c(0), 0, 32, 32, 32, 32, 3, NoQuant, 0, false, true);
        }
    }, {Out("y", y)}));
}

CHECKER_TEST(mad_on_a_tile_not_taken) {
    const Report report = OnCube([&] {
        mad(L0c(0), L0a(0), L0b(0), 64, 16, 64, 3, false, false, true);
        MARK(1); mad(L0c(0), L0a(0), L0b(0), 64, 16, 64, 3, false, false, true);
    });
    ExpectSome(report, Rule::UnitFlag);
}

CHECKER_TEST(fixpipe_of_a_tile_not_given) {
    auto y = Zeros(1024);
    ExpectOne(OnCube([&] {
        set_nd_para(1);
        MARK(1); copy_matrix_cc_to_gm(y.data(), L0c(0), 0, 32, 32, 32, 32, 3, NoQuant, 0, false, true);
    }, {Out("y", y)}), Rule::UnitFlag, {"unitFlag 3"});
}

CHECKER_TEST(unit_flag_left_over) {
    ExpectOne(OnCube([&] { MARK(1); mad(L0c(0), L0a(0), L0b(0), 64, 16, 64, 3, false, false, true); }), Rule::UnitFlag, {"when the kernel ends"});
}

// ---- between cores ----

CHECKER_TEST(cross_core_handover) {
    auto w = Zeros(128);
    ExpectClean(OnMix([&] {
        uint8_t* mine = Gm(w) + get_subblockid() * 256;
        if (CurrentCoreKind() == CoreKind::AIV) {
            Store(mine, Ub(0), 8);
            ffts_cross_core_sync(PIPE_MTE3, CrossConfig(2, 3));
        } else {
            wait_flag_dev(3);
            copy_gm_to_cbuf(L1(0), Gm(w), 0, 1, 16, 0, 0, PAD_NONE);
        }
    }, {Workspace("w", w)}));
}

CHECKER_TEST(a_unit_flag_hands_on_what_came_before_the_mad) {
    auto w = Zeros(128);
    auto y = Zeros(1024);
    ExpectClean(OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIV) {
            wait_flag_dev(4);
            if (get_subblockid() == 0) Store(Gm(w), Ub(0), 8);
            return;
        }
        copy_gm_to_cbuf(L1(0), Gm(w), 0, 1, 8, 0, 0, PAD_NONE);
        Sync(PIPE_MTE2, PIPE_MTE1);
        LoadL0();
        Sync(PIPE_MTE1, PIPE_M);
        mad(L0c(0), L0a(0), L0b(0), 32, 32, 32, 3, false, false, true);
        set_nd_para(1);
        copy_matrix_cc_to_gm(y.data(), L0c(0), 0, 32, 32, 32, 32, 3, NoQuant, 0, false, true);
        ffts_cross_core_sync(PIPE_FIX, CrossConfig(2, 4));
    }, {Workspace("w", w), Out("y", y)}));
}

CHECKER_TEST(cube_reads_the_workspace_too_early) {
    auto w = Zeros(128);
    ExpectRace(OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIV) {
            MARK(2); if (get_subblockid() == 0) Store(Gm(w), Ub(0), 8);
        } else {
            ffts_cross_core_sync(PIPE_MTE2, CrossConfig(2, 1));
            MARK(1); copy_gm_to_cbuf(L1(0), Gm(w), 0, 1, 8, 0, 0, PAD_NONE);
        }
        if (CurrentCoreKind() == CoreKind::AIV) wait_flag_dev(1);
    }, {Workspace("w", w)}), {"GM tensor 'w'", "CrossCoreSetFlag<2, PIPE_MTE2>"});
}

CHECKER_TEST(cross_core_set_before_the_store) {
    auto w = Zeros(128);
    ExpectRace(OnMix([&] {
        if (CurrentCoreKind() == CoreKind::AIV) {
            ffts_cross_core_sync(PIPE_MTE3, CrossConfig(2, 3));
            MARK(1); if (get_subblockid() == 1) Store(Gm(w), Ub(0), 8);
        } else {
            wait_flag_dev(3);
            MARK(2); copy_gm_to_cbuf(L1(0), Gm(w), 0, 1, 8, 0, 0, PAD_NONE);
        }
    }, {Workspace("w", w)}));
}

CHECKER_TEST(blocks_that_touch_the_same_bytes) {
    auto y = Zeros(64);
    ExpectRace(Run(KernelType::AivOnly, 2, {Out("y", y)}, [&] {
        MARK(1); MARK(2); Store(Gm(y), Ub(0), 8);
    }), {"of block 0", "SyncAll"});
}

CHECKER_TEST(blocks_that_only_read_the_same_bytes) {
    auto x = Zeros(64);
    ExpectClean(Run(KernelType::AivOnly, 4, {InOut("x", x)}, [&] { Load(Ub(0), Gm(x), 8); }));
}

void AllVectorCores(SourceLoc loc = SourceLoc::Here()) {
    ReservedFlagScope scope;
    pipe_barrier(PIPE_ALL, loc);
    ffts_cross_core_sync(PIPE_MTE3, CrossConfig(0, 14), loc);
    wait_flag_dev(14, loc);
}

CHECKER_TEST(grid_wide_sync_orders_blocks) {
    auto w = Zeros(64 * 4), y = Zeros(64 * 4);
    for (int threads : {1, 2}) {
        Options options;
        options.threads = threads;
        ExpectClean(Run(KernelType::MixAiv1_0, 4, {Workspace("w", w), Out("y", y)}, [&] {
            const int64_t me = get_block_idx();
            set_mask_norm();
            vector_dup(Ub(0), static_cast<float>(me), 1, 1, 1, 8, 0);
            Sync(PIPE_V, PIPE_MTE3);
            Store(Gm(w) + me * 256, Ub(0), 8);
            AllVectorCores();
            Load(Ub(64), Gm(w) + (me + 1) % 4 * 256, 8);
            Sync(PIPE_MTE2, PIPE_MTE3);
            Store(Gm(y) + me * 256, Ub(64), 8);
        }, options));
        for (int i = 0; i < 4; ++i) {
            if (y[i * 64] != static_cast<float>((i + 1) % 4)) Fail("block " + std::to_string(i) + " read a wrong value");
        }
    }
}

CHECKER_TEST(grid_wide_sync_does_not_order_what_follows) {
    auto w = Zeros(64);
    const Report report = Run(KernelType::MixAiv1_0, 2, {Workspace("w", w)}, [&] {
        AllVectorCores();
        MARK(1); if (get_block_idx() == 0) Store(Gm(w), Ub(0), 8);
        MARK(2); if (get_block_idx() == 1) Load(Ub(0), Gm(w), 8);
    });
    ExpectRace(report);
}

}  // namespace
}  // namespace checker_test
