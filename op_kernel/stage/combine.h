// SPDX-License-Identifier: Apache-2.0
// Joins the partial results of tasks whose keys were shared out over cores: with m, l, O of each part,
//   M = max m,  w = l exp(m - M),  out = sum(w O) / sum(w),  lse = (M + ln sum(w)) / ln 2.
// Rows are dealt to all AIVs in turn, one row (task, head) at a time. A row whose parts are all empty is 0, its lse -inf.
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
        const uint32_t parts = AlignUp(t.keyParts, kBlockLanes);
        pipe.InitBuffer(statBuf_, kStats * parts * kStatBlock * sizeof(float));
        pipe.InitBuffer(outBuf_, t.keyParts * t.dv * sizeof(float));
        pipe.InitBuffer(castBuf_, t.dv * sizeof(T));
        AscendC::LocalTensor<float> stats = statBuf_.Get<float>();
        max_ = stats;
        weight_ = stats[parts * kStatBlock];
        top_ = stats[2 * parts * kStatBlock];
        total_ = stats[3 * parts * kStatBlock];
        log_ = stats[4 * parts * kStatBlock];
        out_ = outBuf_.Get<float>();
        cast_ = castBuf_.Get<T>();
    }

    __aicore__ inline void Run(uint32_t core, uint32_t cores)
    {
        // The block's own AIC has stored its outputs, then every block's AIVs have seen theirs.
        AscendC::CrossCoreWaitFlag(kPartialsReady);
        AscendC::SyncAll<true>();
        const uint32_t rows = (t_.tasks - t_.fullTasks) * t_.g;
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(0);
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(0);
        for (uint32_t row = core; row < rows; row += cores) {
            const uint32_t task = row / t_.g;
            Row(task, row - task * t_.g);
        }
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(0);
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(0);
    }

private:
    __aicore__ inline void Row(uint32_t task, uint32_t head)
    {
        const uint32_t parts = t_.keyParts;
        const int32_t stats = static_cast<int32_t>(parts * kStatBlock);
        const uint64_t first = static_cast<uint64_t>(task) * parts * t_.g + head;  // parts of a row lie g rows apart
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(0);
        Copy(max_, partial_.max, first, kStatBlock);
        Copy(weight_, partial_.sum, first, kStatBlock);
        Copy(out_, partial_.out, first, t_.dv);
        AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(0);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(0);

        // Every value stands in a block of its own, so the parts are folded block by block.
        AscendC::Duplicate(top_, kMinusInfinity, kStatBlock);
        AscendC::Duplicate(total_, 0.0f, kStatBlock);
        AscendC::PipeBarrier<PIPE_V>();
        for (uint32_t part = 0; part < parts; ++part) {
            AscendC::Max(top_, top_, max_[part * kStatBlock], kStatBlock);
            AscendC::PipeBarrier<PIPE_V>();
        }
        for (uint32_t part = 0; part < parts; ++part) {
            AscendC::Sub(max_[part * kStatBlock], max_[part * kStatBlock], top_, kStatBlock);
        }
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Exp(max_, max_, stats);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(weight_, weight_, max_, stats);
        AscendC::PipeBarrier<PIPE_V>();
        for (uint32_t part = 0; part < parts; ++part) {
            AscendC::Add(total_, total_, weight_[part * kStatBlock], kStatBlock);
            AscendC::PipeBarrier<PIPE_V>();
        }
        for (uint32_t part = 0; part < parts; ++part) {
            AscendC::Div(weight_[part * kStatBlock], weight_[part * kStatBlock], total_, kStatBlock);
        }
        AscendC::PipeBarrier<PIPE_V>();
        const uint8_t repeats = static_cast<uint8_t>(t_.dv / kLanes);
        const AscendC::BinaryRepeatParams spread(1, 1, 0, 8, 8, 0);
        const AscendC::BinaryRepeatParams plain(1, 1, 1, 8, 8, 8);
        for (uint32_t part = 0; part < parts; ++part) {
            AscendC::LocalTensor<float> out = out_[part * t_.dv];
            AscendC::Mul(out, out, weight_[part * kStatBlock], static_cast<uint64_t>(kLanes), repeats, spread);
        }
        AscendC::PipeBarrier<PIPE_V>();
        for (uint32_t part = 1; part < parts; ++part) {
            AscendC::Add(out_, out_, out_[part * t_.dv], static_cast<uint64_t>(kLanes), repeats, plain);
            AscendC::PipeBarrier<PIPE_V>();
        }
        Store(task, head);
    }

    // Rows `first`, `first` + g, ... of a partial array.
    __aicore__ inline void Copy(const AscendC::LocalTensor<float>& dst, const AscendC::GlobalTensor<float>& src,
                                uint64_t first, uint32_t width)
    {
        AscendC::DataCopyExtParams params;
        params.blockCount = static_cast<uint16_t>(t_.keyParts);
        params.blockLen = width * sizeof(float);
        params.srcStride = (t_.g - 1) * width * sizeof(float);
        params.dstStride = 0;
        AscendC::DataCopyPadExtParams<float> pad;
        AscendC::DataCopyPad(dst, src[first * width], params, pad);
    }

    __aicore__ inline void Store(uint32_t task, uint32_t head)
    {
        constexpr float kLog2E = 1.4426950408889634f;
        // Rows of one task are empty together, and an empty part has sum 0: no key at all shows in the total.
        AscendC::SetFlag<AscendC::HardEvent::V_S>(0);
        AscendC::WaitFlag<AscendC::HardEvent::V_S>(0);
        const bool empty = total_.GetValue(0) == 0.0f;
        AscendC::SetFlag<AscendC::HardEvent::S_V>(0);
        AscendC::WaitFlag<AscendC::HardEvent::S_V>(0);
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(0);
        if (empty) {
            AscendC::Duplicate(out_, 0.0f, static_cast<int32_t>(t_.dv));
            AscendC::Duplicate(log_, kMinusInfinity, kStatBlock);
            AscendC::PipeBarrier<PIPE_V>();
        } else if (t_.writeLse) {
            AscendC::Ln(log_, total_, kStatBlock);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Add(log_, log_, top_, kStatBlock);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Muls(log_, log_, kLog2E, kStatBlock);
        }
        AscendC::Cast(cast_, out_, AscendC::RoundMode::CAST_RINT, t_.dv);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(0);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(0);
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);
        const TaskId id = LocateTask(t_, t_.fullTasks + task);
        const uint64_t n1 = static_cast<uint64_t>(id.n2) * t_.g + head;
        AscendC::DataCopy(output_[id.b * t_.output.b + id.s1 * t_.output.s + n1 * t_.output.n], cast_, t_.dv);
        if (t_.writeLse) {
            AscendC::DataCopyExtParams params;
            params.blockCount = 1;
            params.blockLen = sizeof(float);
            params.srcStride = 0;
            params.dstStride = 0;
            AscendC::DataCopyPad(lse_[id.b * t_.lse.b + id.s1 * t_.lse.s + n1 * t_.lse.n], log_, params);
        }
        AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(0);
    }

    static constexpr uint32_t kStats = 5;

    const TilingData& t_;
    PartialRegion partial_;
    AscendC::GlobalTensor<T> output_;
    AscendC::GlobalTensor<float> lse_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> statBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> outBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> castBuf_;
    AscendC::LocalTensor<float> max_;
    AscendC::LocalTensor<float> weight_;
    AscendC::LocalTensor<float> top_;
    AscendC::LocalTensor<float> total_;
    AscendC::LocalTensor<float> log_;
    AscendC::LocalTensor<float> out_;
    AscendC::LocalTensor<T> cast_;
};

}  // namespace asa
