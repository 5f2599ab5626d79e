// SPDX-License-Identifier: Apache-2.0
// Copies the rows that the index lists name into the block's ring, one tile at a time, so that the caller can put softmax
// steps between tiles. Both AIVs walk the same item and each fills its share of every key block: rows of valid slots are
// copied, the rows behind them up to the next whole fractal are zeroed (0 x NaN would be NaN in the cube). Query rows
// take the same way when they lie too far apart for the AIC to load them (queryViaRing); where the AIC's loads bind, the
// next item's query rows are read and dropped (warmQuery), for it reads from L2 three times as fast as from HBM.
#pragma once

#include "../tile/row_copy.h"
#include "handover.h"
#include "select.h"

namespace asa {

template <typename T>
class GatherStage {
public:
    __aicore__ inline GatherStage(AscendC::TPipe& pipe, const TilingData& t, SelectStage& select,
                                  const BlockRegion<T>& region, const Arguments& args, uint32_t core, uint32_t side)
        : t_(t), select_(select), region_(region), core_(core), side_(side), itemCount_(ItemCount(t, core))
    {
        query_.SetGlobalBuffer((__gm__ T*)args.query);
        key_.SetGlobalBuffer((__gm__ T*)args.key);
        value_.SetGlobalBuffer((__gm__ T*)args.value);
        pipe.InitBuffer(tileBuf_, kTiles * t.ub.gatherTile);
        tiles_ = tileBuf_.Get<T>();
        keyRow_ = RowShape{t.dk, t.ringRow, t.key.s};
        valueRow_ = RowShape{t.dv, t.ringRow, t.value.s};
        queryRow_ = RowShape{t.dk, t.dk, t.query.n};
    }

    __aicore__ inline void Open()
    {
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
            AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(tile);
        }
        next_ = ItemAt(t_, core_, 0);
        select_.Prefetch(next_.task);
        select_.Filter();
        Advance();
    }

    __aicore__ inline void Close()
    {
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
            AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(tile);
        }
    }

    // Starts item `index`; its tiles follow by Step.
    __aicore__ inline void Begin(const Item& item, uint32_t index)
    {
        item_ = item;
        slot_ = index % t_.ringSlots;
        parity_ = index & 1;
        readQuery_ = ReadsQuery(index);
        if (index >= t_.ringSlots) {
            AscendC::CrossCoreWaitFlag(kSlotFree);
        }
        task_ = 0;
        BeginTask();
        Settle();
    }

    // Tiles of an item on this AIV, query tiles included.
    __aicore__ inline uint32_t Tiles(const Item& item, uint32_t index) const
    {
        uint32_t tiles = ReadsQuery(index) ? CeilDiv(QueryShare(item), QueryTileRows()) : 0;
        for (uint32_t block = 0; block < KeyBlocks(item); ++block) {
            tiles += CeilDiv(Share(item, block), t_.gatherRows);
        }
        return tiles * item.tasks;
    }

    // One tile. The item's last tile also hands over its last unit.
    __aicore__ inline void Step()
    {
        if (queryDone_ < queryShare_) {
            const uint32_t rows = Min(QueryTileRows(), queryShare_ - queryDone_);
            QueryTile(rows);
            queryDone_ += rows;
        } else {
            const uint32_t rows = Min(t_.gatherRows, share_ - done_);
            KeyTile(rows);
            done_ += rows;
        }
        FilterNext();
        Settle();
    }

    // Valid slots of a task of the item with this index; kept while the item is one of the two youngest.
    __aicore__ inline uint32_t Valid(uint32_t index, uint32_t task) const { return valid_[index & 1][task]; }

private:
    // A task: collect its list, start on the next one's.
    __aicore__ inline void BeginTask()
    {
        const uint32_t listed = select_.Collect();
        const uint32_t end = Min(listed, item_.keyBegin + item_.keys);
        keys_ = end > item_.keyBegin ? end - item_.keyBegin : 0;
        valid_[parity_][task_] = keys_;
        filtered_ = true;
        if (nextIndex_ < itemCount_) {
            select_.Prefetch(next_.task + nextTask_);
            filtered_ = false;
            Advance();
        }
        const TaskId id = LocateTask(t_, item_.task + task_);
        keyBase_ = id.b * t_.key.b + id.n2 * t_.key.n;
        valueBase_ = id.b * t_.value.b + id.n2 * t_.value.n;
        queryBase_ = id.b * t_.query.b + id.s1 * t_.query.s +
                     (static_cast<uint64_t>(id.n2) * t_.g + item_.headBegin) * t_.query.n;
        ring_ = region_.Task(slot_, task_);
        queryDone_ = 0;
        queryShare_ = readQuery_ ? QueryShare(item_) : 0;
        block_ = 0;
        done_ = 0;
        share_ = Share(item_, 0);
    }

    // Moves `next_`, the task whose list is filtered next, one task on.
    __aicore__ inline void Advance()
    {
        ++nextTask_;
        if (nextTask_ == next_.tasks) {
            nextTask_ = 0;
            ++nextIndex_;
            if (nextIndex_ < itemCount_) {
                next_ = ItemAt(t_, core_, nextIndex_);
            }
        }
    }

    // Hands over what is complete and comes to rest before the next tile with rows, or at the item's end.
    __aicore__ inline void Settle()
    {
        while (task_ < item_.tasks && queryDone_ == queryShare_ && done_ == share_) {
            if (UnitEnds(t_, item_, task_, block_)) {
                AscendC::CrossCoreSetFlag<2, PIPE_MTE3>(kRowsReady);
            }
            ++block_;
            done_ = 0;
            if (block_ < KeyBlocks(item_)) {
                share_ = Share(item_, block_);
                continue;
            }
            FilterNext();
            select_.Release();
            ++task_;
            if (task_ < item_.tasks) {
                BeginTask();
            }
        }
    }

    __aicore__ inline void FilterNext()
    {
        if (!filtered_) {
            select_.Filter();
            filtered_ = true;
        }
    }

    __aicore__ inline uint32_t Share(const Item& item, uint32_t block) const
    {
        const uint32_t rows = BlockRows(item, block);
        return side_ == 0 ? FirstShare(rows) : rows - FirstShare(rows);
    }

    __aicore__ inline uint32_t QueryShare(const Item& item) const
    {
        return side_ == 0 ? FirstRows(item.heads) : item.heads - FirstRows(item.heads);
    }

    // The first item's query is needed before it could be warmed.
    __aicore__ inline bool ReadsQuery(uint32_t index) const { return t_.queryViaRing || (t_.warmQuery && index > 0); }

    __aicore__ inline uint32_t QueryTileRows() const { return t_.gatherRows * t_.ringRow / t_.dk; }

    __aicore__ inline AscendC::LocalTensor<T> AcquireTile()
    {
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(tile_);
        return tiles_[tile_ * (t_.ub.gatherTile / sizeof(T))];
    }

    // No elements: the tile is only given back.
    __aicore__ inline void StoreTile(const AscendC::LocalTensor<T>& tile, uint64_t dst, uint32_t elements)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(tile_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(tile_);
        if (elements > 0) {
            AscendC::DataCopy(region_.ring[dst], tile, elements);
        }
        AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(tile_);
        tile_ ^= 1;
    }

    __aicore__ inline void QueryTile(uint32_t rows)
    {
        const uint32_t head = (side_ == 0 ? 0 : FirstRows(item_.heads)) + queryDone_;
        AscendC::LocalTensor<T> tile = AcquireTile();
        const uint64_t first = queryBase_ + head * t_.query.n;
        if (t_.blockQuery) {
            CopyRows(tile, query_, first, t_.query.n, rows, queryRow_);
        } else {
            for (uint32_t row = 0; row < rows; ++row) {
                CopyRows(tile[row * t_.dk], query_, first + row * t_.query.n, 0, 1, queryRow_);
            }
        }
        const uint64_t dst = ring_ + static_cast<uint64_t>(t_.ringRows) * t_.ringRow +
                             static_cast<uint64_t>(item_.headBegin + head) * t_.dk;
        StoreTile(tile, dst, t_.queryViaRing ? rows * t_.dk : 0);
    }

    __aicore__ inline void KeyTile(uint32_t rows)
    {
        const uint32_t row = block_ * kKeyBlock + (side_ == 0 ? 0 : FirstShare(BlockRows(item_, block_))) + done_;
        const uint32_t copied = row < keys_ ? Min(rows, keys_ - row) : 0;
        AscendC::LocalTensor<T> tile = AcquireTile();
        uint32_t done = 0;
        for (; done + 1 < copied; done += 2) {
            const uint32_t one = select_.At(item_.keyBegin + row + done);
            const uint32_t other = select_.At(item_.keyBegin + row + done + 1);
            const uint32_t low = Min(one, other);
            const uint32_t high = Max(one, other);
            AscendC::LocalTensor<T> dst = tile[done * t_.ringRow];
            CopyRowPair(dst, key_, keyBase_, low, high, t_.pairKeys, keyRow_);
            if (!t_.valueIsKeyPrefix) {
                CopyRowPair(dst[t_.dk], value_, valueBase_, low, high, t_.pairValues, valueRow_);
            }
        }
        if (done < copied) {
            const uint32_t one = select_.At(item_.keyBegin + row + done);
            AscendC::LocalTensor<T> dst = tile[done * t_.ringRow];
            CopyRows(dst, key_, keyBase_ + one * keyRow_.stride, 0, 1, keyRow_);
            if (!t_.valueIsKeyPrefix) {
                CopyRows(dst[t_.dk], value_, valueBase_ + one * valueRow_.stride, 0, 1, valueRow_);
            }
        }
        if (copied < rows) {
            // The tile is free for MTE2 already; what frees it for V is MTE2's own wait.
            AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kZeroEvent);
            AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kZeroEvent);
            AscendC::LocalTensor<uint16_t> rest = tile[copied * t_.ringRow].template ReinterpretCast<uint16_t>();
            AscendC::Duplicate(rest, static_cast<uint16_t>(0), static_cast<int32_t>((rows - copied) * t_.ringRow));
            AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kZeroEvent);
            AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kZeroEvent);
        }
        StoreTile(tile, ring_ + static_cast<uint64_t>(row) * t_.ringRow, rows * t_.ringRow);
    }

    static constexpr uint32_t kTiles = 2;
    static constexpr int32_t kZeroEvent = 1;  // within MTE2_V and V_MTE3

    const TilingData& t_;
    SelectStage& select_;
    const BlockRegion<T>& region_;
    const uint32_t core_;
    const uint32_t side_;
    const uint32_t itemCount_;
    AscendC::GlobalTensor<T> query_;
    AscendC::GlobalTensor<T> key_;
    AscendC::GlobalTensor<T> value_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> tileBuf_;
    AscendC::LocalTensor<T> tiles_;
    RowShape keyRow_;
    RowShape valueRow_;
    RowShape queryRow_;

    Item item_;
    uint32_t slot_ = 0;
    uint32_t parity_ = 0;
    bool readQuery_ = false;
    uint32_t task_ = 0;
    uint32_t block_ = 0;
    uint32_t share_ = 0;        // rows of the current key block that this AIV fills
    uint32_t done_ = 0;
    uint32_t queryShare_ = 0;
    uint32_t queryDone_ = 0;
    uint32_t keys_ = 0;         // valid slots of the current task within the item's keys
    uint32_t tile_ = 0;
    uint64_t keyBase_ = 0;
    uint64_t valueBase_ = 0;
    uint64_t queryBase_ = 0;
    uint64_t ring_ = 0;
    uint32_t valid_[2][kMaxTasksPerItem];

    Item next_;
    uint32_t nextIndex_ = 0;
    uint32_t nextTask_ = 0;
    bool filtered_ = true;
};

}  // namespace asa
