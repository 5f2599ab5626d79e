// SPDX-License-Identifier: Apache-2.0
// Output: O = P V, accumulated over all keys in L0C and stored by the fixpipe straight to the output with one rounding,
// or as float32 partial results when the keys of a task are shared out over cores.
#pragma once

#include "../tile/cube_tile.h"
#include "cube_buffers.h"
#include "handover.h"

namespace asa {

template <typename T>
class PvStage {
public:
    __aicore__ inline PvStage(const TilingData& t, CubeBuffers<T>& buffers, const BlockRegion<T>& region,
                              const Arguments& args)
        : t_(t), buffers_(buffers), region_(region), partial_(t, args.workspace)
    {
        output_.SetGlobalBuffer((__gm__ T*)args.output);
    }

    // Item `index` of the block. `slotReused`: a later item will be gathered into its ring slot. `meanwhile` is called
    // once, before the last group of columns.
    template <typename Meanwhile>
    __aicore__ inline void Run(const Item& item, uint32_t index, bool slotReused, const Meanwhile& meanwhile)
    {
        const uint32_t ringSlot = index % t_.ringSlots;
        const uint64_t probs = region_.Probs(index);
        for (uint32_t task = 0; task < item.tasks; ++task) {
            const uint64_t values = region_.Task(ringSlot, task) + (t_.valueIsKeyPrefix ? 0 : t_.dk);
            for (uint32_t chunk = 0; chunk < item.heads; chunk += kChunkRows) {
                const uint32_t rows = Min(kChunkRows, item.heads - chunk);
                const uint64_t row = static_cast<uint64_t>(task) * item.heads + chunk;
                Begin(item, values);
                // Values do not depend on the softmax: their first loads are on the way before it is waited for.
                if (row == 0) {
                    AscendC::CrossCoreWaitFlag(kProbsReady);
                }
                const bool last = task + 1 == item.tasks && chunk + kChunkRows >= item.heads;
                Chunk(item, task, chunk, rows, probs + row * t_.rowPitch, last, meanwhile);
            }
        }
        if (slotReused) {
            AscendC::CrossCoreSetFlag<2, PIPE_MTE2>(kSlotFree);
        }
    }

private:
    static constexpr uint32_t kAhead = 2;  // value blocks loaded before they are needed

    // A chunk's value blocks, in the order of their use: all keys of the first group of columns, and so on.
    __aicore__ inline void Begin(const Item& item, uint64_t values)
    {
        values_ = values;
        loadGroup_ = 0;
        loadBlock_ = 0;
        for (uint32_t ahead = 0; ahead < kAhead; ++ahead) {
            LoadNext(item);
        }
    }

    __aicore__ inline void LoadNext(const Item& item)
    {
        if (loadGroup_ >= t_.dv) {
            return;
        }
        const uint32_t keys = BlockRows(item, loadBlock_);
        const uint32_t columns = Min(t_.valueGroup, t_.dv - loadGroup_);
        const uint64_t first = values_ + static_cast<uint64_t>(loadBlock_) * kKeyBlock * t_.ringRow + loadGroup_;
        CopyToNz(buffers_.AcquireKv(), region_.ring[first], keys, columns, t_.ringRow, keys);
        buffers_.LoadedKv();
        ++loadBlock_;
        if (loadBlock_ == KeyBlocks(item)) {
            loadBlock_ = 0;
            loadGroup_ += t_.valueGroup;
        }
    }

    template <typename Meanwhile>
    __aicore__ inline void Chunk(const Item& item, uint32_t task, uint32_t chunk, uint32_t rows, uint64_t probs, bool last,
                                 const Meanwhile& meanwhile)
    {
        const uint32_t blocks = KeyBlocks(item);
        const uint32_t padRows = AlignUp(rows, kCube);
        if (t_.probsResident) {
            buffers_.AcquireProbs();
        }
        for (uint32_t group = 0; group < t_.dv; group += t_.valueGroup) {
            if (last && group + t_.valueGroup >= t_.dv) {
                meanwhile();
            }
            const uint32_t columns = Min(t_.valueGroup, t_.dv - group);
            // Two accumulators share a group wider than one of them, so that every value block is loaded once.
            const uint32_t tiles = CeilDiv(columns, kOutputTile);
            const uint32_t tileColumns = columns / tiles;
            const uint32_t first = buffers_.AccSlot();
            for (uint32_t tile = 0; tile < tiles; ++tile) {
                buffers_.AcquireAcc(first ^ tile);
            }
            for (uint32_t block = 0; block < blocks; ++block) {
                const uint32_t keys = BlockRows(item, block);
                const uint32_t place = t_.probsResident ? block : buffers_.UseSlot();
                AscendC::LocalTensor<T> left = buffers_.probs[place * padRows * kKeyBlock];
                if (group == 0 || !t_.probsResident) {
                    CopyToNz(left, region_.probs[probs + block * kKeyBlock], rows, keys, t_.rowPitch, padRows);
                    buffers_.LoadedProbs();
                }
                const AscendC::LocalTensor<T> right = buffers_.UseKv();
                AscendC::LocalTensor<T> l0a = buffers_.AcquireLeft();
                LoadLeft(l0a, left, padRows, keys, 0, keys);
                for (uint32_t tile = 0; tile < tiles; ++tile) {
                    AscendC::LocalTensor<T> l0b = buffers_.AcquireRight();
                    LoadRight(l0b, right, keys, columns, tile * tileColumns, tileColumns);
                    buffers_.PublishRight();
                    Multiply(buffers_.Acc(first ^ tile), l0a, l0b, rows, tileColumns, keys, block == 0);
                    buffers_.ReleaseRight();
                }
                buffers_.ReleaseLeft();
                buffers_.ReleaseKv();
                LoadNext(item);
            }
            for (uint32_t tile = 0; tile < tiles; ++tile) {
                const uint32_t acc = first ^ tile;
                buffers_.PublishAcc(acc);
                Store(item, task, chunk, rows, group + tile * tileColumns, tileColumns, buffers_.Acc(acc));
                buffers_.ReleaseAcc(acc);
            }
        }
        if (t_.probsResident) {
            buffers_.ReleaseProbs();
        }
    }

    __aicore__ inline void Store(const Item& item, uint32_t task, uint32_t chunk, uint32_t rows, uint32_t column,
                                 uint32_t columns, const AscendC::LocalTensor<float>& acc)
    {
        const uint32_t head = item.headBegin + chunk;
        if (t_.keyParts > 1 && item.task >= t_.fullTasks) {
            const uint64_t row = static_cast<uint64_t>(item.part) * t_.g + head;
            StoreRows(partial_.out[row * t_.dv + column], acc, rows, columns, t_.dv);
            return;
        }
        const TaskId id = LocateTask(t_, item.task + task);
        const uint64_t first = id.b * t_.output.b + id.s1 * t_.output.s +
                               (static_cast<uint64_t>(id.n2) * t_.g + head) * t_.output.n;
        StoreRows(output_[first + column], acc, rows, columns, static_cast<uint32_t>(t_.output.n));
    }

    const TilingData& t_;
    CubeBuffers<T>& buffers_;
    const BlockRegion<T>& region_;
    PartialRegion partial_;
    AscendC::GlobalTensor<T> output_;
    uint64_t values_ = 0;
    uint32_t loadGroup_ = 0;
    uint32_t loadBlock_ = 0;
};

}  // namespace asa
