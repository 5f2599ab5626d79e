// SPDX-License-Identifier: Apache-2.0
// The gather schedule: every block (one AIC, two AIVs) walks its items, and each stage runs one item behind the stage it
// feeds on:
//
//   AIV   gather 0 | gather 1 + softmax 0 | gather 2 + softmax 1 | ...
//   AIC            | QK 0                 | QK 1          PV 0   | QK 2          PV 1   | ...
//
// Softmax steps stand between gather tiles, so that a core's copies and its vector work overlap; the scores are waited
// for after softmaxAfter percent of the tiles, since a cross-core wait holds the whole core up. When keys are shared out
// over cores (keyParts > 1), the block's last act is to combine partial results.
#pragma once

#include "../stage/combine.h"
#include "../stage/gather.h"
#include "../stage/pv.h"
#include "../stage/qk.h"
#include "../stage/select.h"
#include "../stage/softmax.h"

namespace asa {

template <typename T>
class GatherSchedule {
public:
    __aicore__ inline GatherSchedule(const TilingData& t, const Arguments& args) : t_(t), args_(args) {}

    __aicore__ inline void Run()
    {
        AscendC::TPipe pipe;
        if ASCEND_IS_AIC {
            RunCube(pipe);
        }
        if ASCEND_IS_AIV {
            RunVector(pipe);
        }
    }

private:
    __aicore__ inline void RunCube(AscendC::TPipe& pipe)
    {
        const uint32_t block = AscendC::GetBlockIdx();
        const uint32_t items = ItemCount(t_, block);
        const BlockRegion<T> region(t_, args_.workspace, block);
        CubeBuffers<T> buffers(pipe, t_);
        QkStage<T> qk(t_, buffers, region, args_.query);
        PvStage<T> pv(t_, buffers, region, args_);
        buffers.Open();
        for (uint32_t i = 0; i <= items; ++i) {
            if (i < items) {
                qk.Run(ItemAt(t_, block, i), i);
            }
            if (i > 0) {
                pv.Run(ItemAt(t_, block, i - 1), i - 1, i - 1 + t_.ringSlots < items, [&] {
                    if (i + 1 < items) {
                        qk.Prefetch(ItemAt(t_, block, i + 1));
                    }
                });
            }
        }
        buffers.Close();
        if (t_.keyParts > 1) {
            AscendC::CrossCoreSetFlag<2, PIPE_FIX>(kPartialsReady);
        }
    }

    __aicore__ inline void RunVector(AscendC::TPipe& pipe)
    {
        const uint32_t sides = 2;
        const uint32_t core = AscendC::GetBlockIdx();
        const uint32_t block = core / sides;
        const uint32_t side = core - block * sides;
        const uint32_t items = ItemCount(t_, block);
        const BlockRegion<T> region(t_, args_.workspace, block);
        if (items > 0) {
            SelectStage select(pipe, t_, args_.index);
            GatherStage<T> gather(pipe, t_, select, region, args_, block, side);
            SoftmaxStage<T> softmax(pipe, t_, gather, region, args_, side);
            select.Open();
            gather.Open();
            softmax.Open();
            for (uint32_t i = 0; i <= items; ++i) {
                Interleave(gather, softmax, block, items, i);
            }
            select.Close();
            gather.Close();
            softmax.Close();
        }
        if (t_.keyParts > 1) {
            pipe.Reset();
            CombineStage<T> combine(pipe, t_, args_);
            combine.Run(core, t_.coreNum * sides);
        }
    }

    // The gather of item i with the softmax of item i - 1.
    __aicore__ inline void Interleave(GatherStage<T>& gather, SoftmaxStage<T>& softmax, uint32_t block, uint32_t items,
                                      uint32_t i)
    {
        uint32_t tiles = 0;
        if (i < items) {
            const Item item = ItemAt(t_, block, i);
            gather.Begin(item, i);
            tiles = gather.Tiles(item, i);
        }
        uint32_t steps = 0;
        Item previous{};
        if (i > 0) {
            previous = ItemAt(t_, block, i - 1);
            steps = softmax.Steps(previous);
        }
        const uint32_t before = tiles * t_.softmaxAfter / 100;
        for (uint32_t tile = 0; tile < before; ++tile) {
            gather.Step();
        }
        if (i > 0) {
            softmax.Begin(previous, i - 1);
        }
        uint32_t done = 0;
        for (uint32_t tile = before; tile < tiles; ++tile) {
            gather.Step();
            const uint32_t due = steps * (tile + 1 - before) / (tiles - before);
            for (; done < due; ++done) {
                softmax.Step();
            }
        }
        for (; done < steps; ++done) {
            softmax.Step();
        }
        if (i > 0) {
            softmax.End();
        }
    }

    const TilingData& t_;
    const Arguments& args_;
};

}  // namespace asa
