// SPDX-License-Identifier: Apache-2.0
// Joins the partial results of tasks whose keys were shared out over cores: with m, l, O of each part,
//   M = max m,  w = l exp(scale (m - M)),  out = sum(w O) / sum(w),  lse = (scale M + ln sum(w)) / ln 2
// (min for a negative scale). Groups of up to combineRows heads of a task are dealt to all AIVs in turn. A task whose parts
// are all without keys gets 0, its lse -inf.
#pragma once

#include "../tile/row_softmax.h"
#include "handover.h"

namespace asa {

template <typename T>
class CombineStage {
public:
    __aicore__ inline CombineStage(AscendC::TPipe& pipe, const TilingData& t, const Arguments& args)
        : t_(t), partial_(t, args.workspace)
    {
        output_.SetGlobalBuffer((__gm__ T*)args.output);
        lse_.SetGlobalBuffer((__gm__ float*)args.lse);
        const uint32_t stats = t.combineRows * kStatBlock;
        pipe.InitBuffer(statBuf_, (2 * t.keyParts + 3) * stats * sizeof(float));
        pipe.InitBuffer(outBuf_, t.keyParts * t.combineRows * t.dv * sizeof(float));
        pipe.InitBuffer(castBuf_, t.combineRows * t.dv * sizeof(T));
        tops_ = statBuf_.Get<float>();
        weight_ = tops_[t.keyParts * stats];
        top_ = tops_[2 * t.keyParts * stats];
        total_ = top_[stats];
        log_ = total_[stats];
        out_ = outBuf_.Get<float>();
        cast_ = castBuf_.Get<T>();
    }

    __aicore__ inline void Run(uint32_t core, uint32_t cores)
    {
        // The block's own AIC has stored its outputs, then every block's AIVs have seen theirs.
        AscendC::CrossCoreWaitFlag(kPartialsReady);
        AscendC::SyncAll<true>();
        const uint32_t perTask = CeilDiv(t_.g, t_.combineRows);
        const uint32_t groups = (t_.tasks - t_.fullTasks) * perTask;
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kEvent);
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kEvent);
        for (uint32_t group = core; group < groups; group += cores) {
            const uint32_t task = group / perTask;
            const uint32_t head = (group - task * perTask) * t_.combineRows;
            const uint32_t rows = Min(t_.combineRows, t_.g - head);
            Load(task, head, rows);
            Weigh(rows);
            Join(rows);
            Store(task, head, rows);
        }
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kEvent);
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kEvent);
    }

private:
    __aicore__ inline void Load(uint32_t task, uint32_t head, uint32_t rows)
    {
        const uint64_t first = static_cast<uint64_t>(task) * t_.keyParts * t_.g + head;  // parts lie g rows apart
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kEvent);
        Copy(tops_, partial_.top, first, rows, kStatBlock);
        Copy(weight_, partial_.sum, first, rows, kStatBlock);
        Copy(out_, partial_.out, first, rows, t_.dv);
        AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kEvent);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kEvent);
    }

    // `rows` rows of every part of a partial array.
    __aicore__ inline void Copy(const AscendC::LocalTensor<float>& dst, const AscendC::GlobalTensor<float>& src,
                                uint64_t first, uint32_t rows, uint32_t width)
    {
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(t_.keyParts);
        params.blockLen = rows * width * sizeof(float);
        params.srcStride = (t_.g - rows) * width * sizeof(float);
        params.dstStride = 0;
        AscendC::DataCopyPadExtParams<float> pad;
        AscendC::DataCopyPad(dst, src[first * width], params, pad);
    }

    __aicore__ inline void Best(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& one,
                                const AscendC::LocalTensor<float>& other, int32_t count)
    {
        if (t_.scale < 0.0f) {
            AscendC::Min(dst, one, other, count);
        } else {
            AscendC::Max(dst, one, other, count);
        }
    }

    // weight_[part] = w / sum(w), total_ = sum(w), top_ = M; every value stands in a block of its own.
    __aicore__ inline void Weigh(uint32_t rows)
    {
        const uint32_t stats = rows * kStatBlock;
        const int32_t count = static_cast<int32_t>(stats);
        const int32_t all = static_cast<int32_t>(t_.keyParts * stats);
        Best(top_, tops_, tops_[stats], count);
        for (uint32_t part = 2; part < t_.keyParts; ++part) {
            AscendC::PipeBarrier<PIPE_V>();
            Best(top_, top_, tops_[part * stats], count);
        }
        AscendC::PipeBarrier<PIPE_V>();
        if (t_.scale == 0.0f) {
            AscendC::Duplicate(tops_, 0.0f, all);  // 0 x inf is NaN
        } else {
            for (uint32_t part = 0; part < t_.keyParts; ++part) {
                AscendC::Sub(tops_[part * stats], tops_[part * stats], top_, count);
            }
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Muls(tops_, tops_, t_.scale, all);
        }
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Exp(tops_, tops_, all);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(weight_, weight_, tops_, all);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(total_, weight_, weight_[stats], count);
        for (uint32_t part = 2; part < t_.keyParts; ++part) {
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Add(total_, total_, weight_[part * stats], count);
        }
        AscendC::PipeBarrier<PIPE_V>();
        for (uint32_t part = 0; part < t_.keyParts; ++part) {
            AscendC::Div(weight_[part * stats], weight_[part * stats], total_, count);
        }
        AscendC::PipeBarrier<PIPE_V>();
    }

    __aicore__ inline void Join(uint32_t rows)
    {
        const RowTile tile{rows, t_.dv / kLanes};
        const uint32_t elements = rows * t_.dv;
        for (uint32_t part = 0; part < t_.keyParts; ++part) {
            MultiplyRows(out_[part * elements], weight_[part * rows * kStatBlock], tile);
        }
        for (uint32_t part = 1; part < t_.keyParts; ++part) {
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Add(out_, out_, out_[part * elements], static_cast<int32_t>(elements));
        }
    }

    __aicore__ inline void Store(uint32_t task, uint32_t head, uint32_t rows)
    {
        constexpr float kLog2E = 1.4426950408889634f;
        const int32_t stats = static_cast<int32_t>(rows * kStatBlock);
        const int32_t elements = static_cast<int32_t>(rows * t_.dv);
        // All heads of a task are empty together, and only then is the best top infinite: scores are held to finite ones.
        // The way to the scalar unit and back also orders what follows behind Join.
        AscendC::SetFlag<AscendC::HardEvent::V_S>(kEvent);
        AscendC::WaitFlag<AscendC::HardEvent::V_S>(kEvent);
        const bool empty = top_.GetValue(0) == (t_.scale < 0.0f ? -kMinusInfinity : kMinusInfinity);
        AscendC::SetFlag<AscendC::HardEvent::S_V>(kEvent);
        AscendC::WaitFlag<AscendC::HardEvent::S_V>(kEvent);
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kEvent);
        if (empty) {
            AscendC::Duplicate(out_, 0.0f, elements);
            AscendC::Duplicate(log_, kMinusInfinity, stats);
            AscendC::PipeBarrier<PIPE_V>();
        } else if (t_.writeLse) {
            AscendC::Ln(log_, total_, stats);
            AscendC::Muls(top_, top_, t_.scale, stats);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Add(log_, log_, top_, stats);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Muls(log_, log_, kLog2E, stats);
        }
        AscendC::Cast(cast_, out_, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(elements));
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kEvent);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kEvent);
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kEvent);
        const TaskId id = LocateTask(t_, t_.fullTasks + task);
        const uint64_t n1 = static_cast<uint64_t>(id.n2) * t_.g + head;
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(rows);
        params.blockLen = t_.dv * sizeof(T);
        params.srcStride = 0;
        params.dstStride = static_cast<uint32_t>((t_.output.n - t_.dv) * sizeof(T));
        AscendC::DataCopyPad(output_[id.b * t_.output.b + id.s1 * t_.output.s + n1 * t_.output.n], cast_, params);
        if (t_.writeLse) {
            params.blockLen = sizeof(float);
            params.dstStride = static_cast<uint32_t>((t_.lse.n - 1) * sizeof(float));
            AscendC::DataCopyPad(lse_[id.b * t_.lse.b + id.s1 * t_.lse.s + n1 * t_.lse.n], log_, params);
        }
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kEvent);
    }

    static constexpr int32_t kEvent = 0;

    const TilingData& t_;
    PartialRegion partial_;
    AscendC::GlobalTensor<T> output_;
    AscendC::GlobalTensor<float> lse_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> statBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> outBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> castBuf_;
    AscendC::LocalTensor<float> tops_;      // [parts, rows] blocks
    AscendC::LocalTensor<float> weight_;    // [parts, rows] blocks
    AscendC::LocalTensor<float> top_;       // [rows] blocks
    AscendC::LocalTensor<float> total_;     // [rows] blocks
    AscendC::LocalTensor<float> log_;       // [rows] blocks
    AscendC::LocalTensor<float> out_;       // [parts, rows, dv]
    AscendC::LocalTensor<T> cast_;          // [rows, dv]
};

}  // namespace asa
