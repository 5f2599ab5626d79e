// SPDX-License-Identifier: Apache-2.0
// Probabilities of an item: scores -> exp(scale (S - top)) / sum in float32, rounded once to the io type, where top is the
// score with the largest scale S. Rows are complete (topK <= 2048), so one pass is enough and the output needs no later
// correction. Each AIV does half of the item's rows, a few at a time; the next step's scores are on their way meanwhile.
//
// The difference comes before the scale: the top's own exponent is then exactly 0, however large the scores are.
//
// A row's first Valid() columns belong to keys, the others become 0. A NaN among the former reaches the sum and with it
// the whole row, and so does a row whose scores are all -inf (its sum is 0). A task without valid slots gets zero
// probabilities and, in the log-sum-exp, -inf.
#pragma once

#include "../tile/row_softmax.h"
#include "gather.h"
#include "handover.h"

namespace asa {

template <typename T>
class SoftmaxStage {
public:
    __aicore__ inline SoftmaxStage(AscendC::TPipe& pipe, const TilingData& t, const GatherStage<T>& gather,
                                   const BlockRegion<T>& region, const Arguments& args, uint32_t side)
        : t_(t), gather_(gather), region_(region), partial_(t, args.workspace), side_(side)
    {
        lse_.SetGlobalBuffer((__gm__ float*)args.lse);
        pipe.InitBuffer(scoresBuf_, kBuffers * t.ub.scores);
        pipe.InitBuffer(probsBuf_, t.ub.probs);
        pipe.InitBuffer(reduceBuf_, t.ub.reduce);
        pipe.InitBuffer(statBuf_, kStats * t.ub.rowStat);
        pipe.InitBuffer(blockBuf_, kRowBlocks * t.ub.rowBlock);
        scores_ = scoresBuf_.Get<float>();
        probs_ = probsBuf_.Get<T>();
        reduce_ = reduceBuf_.Get<float>();
        const uint32_t stat = t.ub.rowStat / sizeof(float);
        AscendC::LocalTensor<float> stats = statBuf_.Get<float>();
        top_ = stats;
        sum_ = stats[stat];
        inverse_ = stats[2 * stat];
        one_ = stats[3 * stat];
        log_ = stats[4 * stat];
        AscendC::LocalTensor<float> blocks = blockBuf_.Get<float>();
        rowBlock_ = blocks;
        outBlock_ = blocks[t.ub.rowBlock / sizeof(float)];
        chunks_ = t.rowPitch / kLanes;
    }

    __aicore__ inline void Open()
    {
        for (uint32_t buffer = 0; buffer < kBuffers; ++buffer) {
            AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kScoresEvent + buffer);
        }
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kProbsEvent);
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kStatEvent);
        AscendC::Duplicate(one_, 1.0f, static_cast<int32_t>(t_.ub.rowStat / sizeof(float)));
    }

    __aicore__ inline void Close()
    {
        for (uint32_t buffer = 0; buffer < kBuffers; ++buffer) {
            AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kScoresEvent + buffer);
        }
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kProbsEvent);
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kStatEvent);
    }

    __aicore__ inline uint32_t Steps(const Item& item) const
    {
        return CeilDiv(RowEnd(item) - RowBegin(item), t_.stepRows);
    }

    // Waits for the scores of item `index` of the block and starts to load them.
    __aicore__ inline void Begin(const Item& item, uint32_t index)
    {
        item_ = item;
        index_ = index;
        scoresBase_ = region_.Scores(index);
        probsBase_ = region_.Probs(index);
        row_ = RowBegin(item);
        end_ = RowEnd(item);
        loaded_ = row_;
        AscendC::CrossCoreWaitFlag(kScoresReady);
        Load();
    }

    __aicore__ inline void Step()
    {
        const uint32_t rows = Min(t_.stepRows, end_ - row_);
        Load();
        Compute(rows);
        row_ += rows;
    }

    // All steps are done.
    __aicore__ inline void End() { AscendC::CrossCoreSetFlag<2, PIPE_MTE3>(kProbsReady); }

private:
    __aicore__ inline uint32_t RowBegin(const Item& item) const
    {
        return side_ == 0 ? 0 : FirstRows(item.tasks * item.heads);
    }
    __aicore__ inline uint32_t RowEnd(const Item& item) const
    {
        const uint32_t rows = item.tasks * item.heads;
        return side_ == 0 ? FirstRows(rows) : rows;
    }

    __aicore__ inline void Load()
    {
        if (loaded_ >= end_) {
            return;
        }
        const uint32_t rows = Min(t_.stepRows, end_ - loaded_);
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kScoresEvent + loadBuffer_);
        AscendC::DataCopy(Scores(loadBuffer_), region_.scores[scoresBase_ + static_cast<uint64_t>(loaded_) * t_.rowPitch],
                          rows * t_.rowPitch);
        AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kScoresEvent + loadBuffer_);
        loadBuffer_ ^= 1;
        loaded_ += rows;
    }

    __aicore__ inline AscendC::LocalTensor<float> Scores(uint32_t buffer)
    {
        return scores_[buffer * (t_.ub.scores / sizeof(float))];
    }

    __aicore__ inline void Compute(uint32_t rows)
    {
        const RowTile tile{rows, chunks_};
        const uint8_t repeats = tile.Repeats();
        AscendC::LocalTensor<float> s = Scores(buffer_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kScoresEvent + buffer_);
        // The extreme that gives the largest scale * S; columns without a key must not win. A finite one, so that
        // infinitely low scores have the weight 0 and not NaN.
        const int32_t count = static_cast<int32_t>(rows);
        if (t_.scale < 0.0f) {
            MaskTails(s, tile, -kMinusInfinity);
            FoldRows<Fold::kMin>(top_, s, reduce_, tile);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Mins(top_, top_, kLargest, count);
        } else {
            MaskTails(s, tile, kMinusInfinity);
            FoldRows<Fold::kMax>(top_, s, reduce_, tile);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Maxs(top_, top_, -kLargest, count);
        }
        AscendC::PipeBarrier<PIPE_V>();
        SpreadRows(rowBlock_, top_, rows);
        AscendC::PipeBarrier<PIPE_V>();
        SubtractRows(s, rowBlock_, tile);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Muls(s, s, t_.scale, static_cast<uint64_t>(kLanes), repeats, AscendC::UnaryRepeatParams(1, 1, 8, 8));
        AscendC::PipeBarrier<PIPE_V>();
        if (t_.scale == 0.0f) {
            MaskTails(s, tile, kMinusInfinity);  // 0 x inf is NaN
        }
        AscendC::Exp(s, s, static_cast<uint64_t>(kLanes), repeats, AscendC::UnaryRepeatParams(1, 1, 8, 8));
        AscendC::PipeBarrier<PIPE_V>();
        FoldRows<Fold::kSum>(sum_, s, reduce_, tile);
        AscendC::PipeBarrier<PIPE_V>();
        if (Partial()) {
            // A part without weight must not spoil the others: its probabilities are 0, its sum 0. Any other sum is
            // at least the top's 1.
            AscendC::Maxs(inverse_, sum_, kHalf, count);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Div(inverse_, one_, inverse_, count);
        } else {
            AscendC::Div(inverse_, one_, sum_, count);
        }
        AscendC::PipeBarrier<PIPE_V>();
        SpreadRows(rowBlock_, inverse_, rows);
        AscendC::PipeBarrier<PIPE_V>();
        MultiplyRows(s, rowBlock_, tile);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kProbsEvent);
        AscendC::Cast(probs_, s, AscendC::RoundMode::CAST_RINT, static_cast<uint64_t>(kLanes), repeats,
                      AscendC::UnaryRepeatParams(1, 1, 4, 8));
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kScoresEvent + buffer_);
        buffer_ ^= 1;
        ClearEmptyTasks(rows);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kProbsEvent);
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kProbsEvent);
        AscendC::DataCopy(region_.probs[probsBase_ + static_cast<uint64_t>(row_) * t_.rowPitch], probs_,
                          rows * t_.rowPitch);
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kProbsEvent);
        if (Partial()) {
            StorePartial(rows);
        } else if (t_.writeLse) {
            StoreLse(rows);
        }
    }

    // The item is a part of a task's keys.
    __aicore__ inline bool Partial() const { return t_.keyParts > 1 && item_.task >= t_.fullTasks; }

    // The part of rows [row_, row_ + rows) that belongs to the task of row `row`.
    __aicore__ inline uint32_t Span(uint32_t row, uint32_t rows, uint32_t& task) const
    {
        task = row / item_.heads;
        return Min((task + 1) * item_.heads, row_ + rows) - row;
    }

    // Columns without a key. A task without any key is given finite scores; its probabilities are cleared later.
    __aicore__ inline void MaskTails(const AscendC::LocalTensor<float>& s, const RowTile& tile, float value)
    {
        bool filled = false;
        for (uint32_t row = row_; row < row_ + tile.rows;) {
            uint32_t task = 0;
            const uint32_t span = Span(row, tile.rows, task);
            const uint32_t valid = gather_.Valid(index_, task);
            if (valid < tile.Pitch()) {
                FillTail(s[(row - row_) * tile.Pitch()], span, valid, valid == 0 ? 0.0f : value, tile);
                filled = true;
            }
            row += span;
        }
        if (filled) {
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    __aicore__ inline void ClearEmptyTasks(uint32_t rows)
    {
        for (uint32_t row = row_; row < row_ + rows;) {
            uint32_t task = 0;
            const uint32_t span = Span(row, rows, task);
            if (gather_.Valid(index_, task) == 0) {
                AscendC::PipeBarrier<PIPE_V>();
                AscendC::LocalTensor<uint16_t> empty =
                    probs_[(row - row_) * t_.rowPitch].template ReinterpretCast<uint16_t>();
                AscendC::Duplicate(empty, static_cast<uint16_t>(0), static_cast<int32_t>(span * t_.rowPitch));
            }
            row += span;
        }
    }

    // Log-sum-exp, base 2: (scale top + ln(sum)) / ln(2).
    __aicore__ inline void StoreLse(uint32_t rows)
    {
        constexpr float kLog2E = 1.4426950408889634f;
        AscendC::Ln(log_, sum_, static_cast<int32_t>(rows));
        AscendC::Muls(top_, top_, t_.scale, static_cast<int32_t>(rows));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(log_, log_, top_, static_cast<int32_t>(rows));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Muls(log_, log_, kLog2E, static_cast<int32_t>(rows));
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kStatEvent);
        SpreadRows(outBlock_, log_, rows);
        OverrideEmpty(outBlock_, rows, kMinusInfinity);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kStatEvent);
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kStatEvent);
        for (uint32_t row = row_; row < row_ + rows;) {
            uint32_t task = 0;
            const uint32_t span = Span(row, rows, task);
            const TaskId id = LocateTask(t_, item_.task + task);
            const uint32_t head = item_.headBegin + row - task * item_.heads;
            const uint64_t first = id.b * t_.lse.b + id.s1 * t_.lse.s +
                                   (static_cast<uint64_t>(id.n2) * t_.g + head) * t_.lse.n;
            AscendC::DataCopyExtParams params;
            params.blockCount = static_cast<uint16_t>(span);
            params.blockLen = sizeof(float);
            params.srcStride = 0;
            params.dstStride = static_cast<uint32_t>((t_.lse.n - 1) * sizeof(float));
            AscendC::DataCopyPad(lse_[first], outBlock_[(row - row_) * kBlockLanes], params);
            row += span;
        }
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kStatEvent);
    }

    // Top and sum of the rows, a block each; a split task is always an item of its own.
    __aicore__ inline void StorePartial(uint32_t rows)
    {
        const uint64_t first = (static_cast<uint64_t>(item_.part) * t_.g + item_.headBegin + row_) * kStatBlock;
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kStatEvent);
        SpreadRows(outBlock_, top_, rows);
        SpreadRows(rowBlock_, sum_, rows);
        OverrideEmpty(outBlock_, rows, t_.scale < 0.0f ? -kMinusInfinity : kMinusInfinity);
        OverrideEmpty(rowBlock_, rows, 0.0f);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kStatEvent);
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kStatEvent);
        AscendC::DataCopy(partial_.top[first], outBlock_, rows * kStatBlock);
        AscendC::DataCopy(partial_.sum[first], rowBlock_, rows * kStatBlock);
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kStatEvent);
        // The next step spreads its tops over the sums' block.
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kSumEvent);
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kSumEvent);
    }

    __aicore__ inline void OverrideEmpty(const AscendC::LocalTensor<float>& blocks, uint32_t rows, float value)
    {
        for (uint32_t row = row_; row < row_ + rows;) {
            uint32_t task = 0;
            const uint32_t span = Span(row, rows, task);
            if (gather_.Valid(index_, task) == 0) {
                AscendC::PipeBarrier<PIPE_V>();
                AscendC::Duplicate(blocks[(row - row_) * kBlockLanes], value, static_cast<int32_t>(span * kBlockLanes));
            }
            row += span;
        }
    }

    static constexpr float kHalf = 0.5f;
    static constexpr uint32_t kBuffers = 2;
    static constexpr uint32_t kStats = 5;
    static constexpr uint32_t kRowBlocks = 2;
    static constexpr int32_t kScoresEvent = 2;  // within MTE2_V and V_MTE2: 2 and 3
    static constexpr int32_t kProbsEvent = 0;   // within V_MTE3 and MTE3_V
    static constexpr int32_t kStatEvent = 2;
    static constexpr int32_t kSumEvent = 3;

    const TilingData& t_;
    const GatherStage<T>& gather_;
    const BlockRegion<T>& region_;
    PartialRegion partial_;
    const uint32_t side_;
    AscendC::GlobalTensor<float> lse_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scoresBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> probsBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> reduceBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> statBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> scores_;
    AscendC::LocalTensor<T> probs_;
    AscendC::LocalTensor<float> reduce_;
    AscendC::LocalTensor<float> top_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> inverse_;
    AscendC::LocalTensor<float> one_;
    AscendC::LocalTensor<float> log_;
    AscendC::LocalTensor<float> rowBlock_;
    AscendC::LocalTensor<float> outBlock_;
    uint32_t chunks_;

    Item item_;
    uint32_t index_ = 0;
    uint64_t scoresBase_ = 0;
    uint64_t probsBase_ = 0;
    uint32_t row_ = 0;
    uint32_t end_ = 0;
    uint32_t loaded_ = 0;
    uint32_t loadBuffer_ = 0;
    uint32_t buffer_ = 0;
};

}  // namespace asa
