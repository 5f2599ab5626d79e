// SPDX-License-Identifier: Apache-2.0
// Scores: S = Q K^T, float32, unscaled, for all heads and keys of an item. Keys come from the ring, 128 at a time; each
// unit is waited for only when it is due, so that the first tile starts as soon as its rows are gathered.
#pragma once

#include "../tile/cube_tile.h"
#include "cube_buffers.h"
#include "handover.h"

namespace asa {

template <typename T>
class QkStage {
public:
    __aicore__ inline QkStage(const TilingData& t, CubeBuffers<T>& buffers, const BlockRegion<T>& region, GM_ADDR query)
        : t_(t), buffers_(buffers), region_(region)
    {
        query_.SetGlobalBuffer((__gm__ T*)query);
    }

    // Item `index` of the block.
    __aicore__ inline void Run(const Item& item, uint32_t index)
    {
        const uint32_t ringSlot = index % t_.ringSlots;
        const uint64_t scores = region_.Scores(index);
        for (uint32_t task = 0; task < item.tasks; ++task) {
            for (uint32_t chunk = 0; chunk < item.heads; chunk += kChunkRows) {
                const uint32_t rows = Min(kChunkRows, item.heads - chunk);
                const uint64_t out = scores + (static_cast<uint64_t>(task) * item.heads + chunk) * t_.rowPitch;
                Chunk(item, ringSlot, task, chunk, rows, out);
            }
        }
        AscendC::CrossCoreSetFlag<2, PIPE_FIX>(kScoresReady);
    }

    // Loads the first query chunk of the item that Run is called for next, while the cube is still busy with another.
    __aicore__ inline void Prefetch(const Item& item)
    {
        if (t_.queryViaRing || prefetched_) {
            return;
        }
        left_ = buffers_.AcquireQuery();
        LoadQuery(left_, item, 0, 0, 0, Min(kChunkRows, item.heads));
        prefetched_ = true;
    }

private:
    __aicore__ inline void Chunk(const Item& item, uint32_t ringSlot, uint32_t task, uint32_t chunk, uint32_t rows,
                                 uint64_t out)
    {
        const uint64_t ring = region_.Task(ringSlot, task);
        const uint32_t blocks = KeyBlocks(item);
        const uint32_t columns = t_.dk / t_.keyPieces;
        // Query rows that come straight from the query need not wait for the gather.
        if (!t_.queryViaRing && !prefetched_) {
            left_ = buffers_.AcquireQuery();
            LoadQuery(left_, item, ring, task, chunk, rows);
        }
        prefetched_ = false;
        bool queryUsed = false;
        for (uint32_t block = 0; block < blocks; ++block) {
            // Every chunk needs all keys, but they are handed over only once.
            if (chunk == 0 && UnitBegins(t_, item, task, block)) {
                AscendC::CrossCoreWaitFlag(kRowsReady);
            }
            if (block == 0 && t_.queryViaRing) {
                left_ = buffers_.AcquireQuery();
                LoadQuery(left_, item, ring, task, chunk, rows);
            }
            const uint32_t keys = BlockRows(item, block);
            const uint32_t acc = buffers_.AccSlot();
            buffers_.AcquireAcc(acc);
            for (uint32_t piece = 0; piece < t_.keyPieces; ++piece) {
                const uint32_t column = piece * columns;
                const uint64_t first = ring + static_cast<uint64_t>(block) * kKeyBlock * t_.ringRow + column;
                CopyToNz(buffers_.AcquireKv(), region_.ring[first], keys, columns, t_.ringRow, keys);
                buffers_.LoadedKv();
                if (!queryUsed) {
                    buffers_.UseQuery();
                    queryUsed = true;
                }
                const AscendC::LocalTensor<T> right = buffers_.UseKv();
                for (uint32_t k = 0; k < columns; k += t_.keyStep) {
                    Step(buffers_.Acc(acc), right, rows, keys, column, k);
                }
                buffers_.ReleaseKv();
            }
            buffers_.PublishAcc(acc);
            StoreRows(region_.scores[out + block * kKeyBlock], buffers_.Acc(acc), rows, keys, t_.rowPitch);
            buffers_.ReleaseAcc(acc);
        }
        buffers_.ReleaseQuery();
    }

    __aicore__ inline void LoadQuery(const AscendC::LocalTensor<T>& dst, const Item& item, uint64_t ring, uint32_t task,
                                     uint32_t chunk, uint32_t rows)
    {
        const uint32_t padRows = AlignUp(rows, kCube);
        const uint32_t head = item.headBegin + chunk;
        if (t_.queryViaRing) {
            const uint64_t first = ring + static_cast<uint64_t>(t_.ringRows) * t_.ringRow;
            CopyToNz(dst, region_.ring[first + static_cast<uint64_t>(head) * t_.dk], rows, t_.dk, t_.dk, padRows);
        } else {
            const TaskId id = LocateTask(t_, item.task + task);
            const uint64_t first = id.b * t_.query.b + id.s1 * t_.query.s +
                                   (static_cast<uint64_t>(id.n2) * t_.g + head) * t_.query.n;
            CopyToNz(dst, query_[first], rows, t_.dk, t_.query.n, padRows);
        }
        buffers_.LoadedQuery();
    }

    __aicore__ inline void Step(const AscendC::LocalTensor<float>& acc, const AscendC::LocalTensor<T>& right,
                                uint32_t rows, uint32_t keys, uint32_t column, uint32_t k)
    {
        AscendC::LocalTensor<T> l0a = buffers_.AcquireLeft();
        LoadLeft(l0a, left_, AlignUp(rows, kCube), t_.dk, column + k, t_.keyStep);
        AscendC::LocalTensor<T> l0b = buffers_.AcquireRight();
        LoadRightTransposed(l0b, right, keys, k, t_.keyStep);
        buffers_.PublishRight();
        Multiply(acc, l0a, l0b, rows, keys, t_.keyStep, column + k == 0);
        buffers_.ReleaseLeft();
        buffers_.ReleaseRight();
    }

    const TilingData& t_;
    CubeBuffers<T>& buffers_;
    const BlockRegion<T>& region_;
    AscendC::GlobalTensor<T> query_;
    AscendC::LocalTensor<T> left_;
    bool prefetched_ = false;
};

}  // namespace asa
