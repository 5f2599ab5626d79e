// SPDX-License-Identifier: Apache-2.0
// The index policy, in its one place. Of a task's topK index slots those stay that name a key it may see:
// 0 <= index <= limit, limit = S2 - 1, or s1 + S2 - S1 when causal. They are moved to the front of a list; later stages
// work on the list alone, so that a masked or invalid slot is neither dereferenced nor copied nor scored. The order of
// slots does not matter to softmax and P V, and every repetition of an index stays.
//
// The work is vector work, started one task ahead (Prefetch, Filter) and collected by scalar reads when the task's
// turn comes (Collect), so that the gather's copies never wait for it.
#pragma once

#include "kernel_operator.h"

#include "../tiling_data.h"
#include "handover.h"

namespace asa {

class SelectStage {
public:
    __aicore__ inline SelectStage(AscendC::TPipe& pipe, const TilingData& t, GM_ADDR index) : t_(t)
    {
        index_.SetGlobalBuffer((__gm__ int32_t*)index);
        pipe.InitBuffer(rawBuf_, t.ub.rawIndex);
        pipe.InitBuffer(listBuf_, kLists * t.ub.indexList);
        pipe.InitBuffer(maskBuf_, kMasks * t.ub.indexMask);
        raw_ = rawBuf_.Get<int32_t>();
        lists_ = listBuf_.Get<int32_t>();
        masks_ = maskBuf_.Get<uint8_t>();
    }

    __aicore__ inline void Open()
    {
        // The comparisons work on whole repeats; behind topK they must not meet whatever UB held before.
        AscendC::Duplicate(raw_, -1, static_cast<int32_t>(AlignUp(t_.topK, kLanes)));
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kRawEvent);
        for (uint32_t list = 0; list < kLists; ++list) {
            AscendC::SetFlag<AscendC::HardEvent::S_V>(list);
        }
    }

    __aicore__ inline void Close()
    {
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kRawEvent);
        for (uint32_t list = 0; list < kLists; ++list) {
            AscendC::WaitFlag<AscendC::HardEvent::S_V>(list);
        }
    }

    // Starts the copy of a task's indices.
    __aicore__ inline void Prefetch(uint32_t task)
    {
        const TaskId id = LocateTask(t_, task);
        const uint64_t first = id.b * t_.index.b + id.s1 * t_.index.s + id.n2 * t_.index.n;
        limit_ = t_.causal ? static_cast<float>(id.s1 + (t_.s2 - t_.s1)) : static_cast<float>(t_.s2 - 1);
        AscendC::DataCopyExtParams params;
        params.blockCount = 1;
        params.blockLen = t_.topK * sizeof(int32_t);
        params.srcStride = 0;
        params.dstStride = 0;
        AscendC::DataCopyPadExtParams<int32_t> pad;
        AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kRawEvent);
        AscendC::DataCopyPad(raw_, index_[first], params, pad);
        AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kRawEvent);
    }

    // Moves the valid indices of the prefetched task to the front of the next list, -1 behind them. Comparisons go by
    // float32: indices up to 16384 are exact in it, and larger int32 values stay larger.
    __aicore__ inline void Filter()
    {
        const uint32_t list = filtered_ % kLists;
        ++filtered_;
        AscendC::LocalTensor<int32_t> out = lists_[list * (t_.ub.indexList / sizeof(int32_t))];
        AscendC::LocalTensor<float> outFloat = out.ReinterpretCast<float>();
        AscendC::LocalTensor<float> value = raw_.ReinterpretCast<float>();
        AscendC::LocalTensor<uint8_t> notNegative = masks_;
        AscendC::LocalTensor<uint8_t> notBeyond = masks_[t_.ub.indexMask];
        AscendC::LocalTensor<uint16_t> both = notNegative.ReinterpretCast<uint16_t>();
        const uint32_t count = AlignUp(t_.topK, kLanes);

        AscendC::WaitFlag<AscendC::HardEvent::S_V>(list);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kRawEvent);
        AscendC::Duplicate(outFloat, -1.0f, count);
        AscendC::Cast(value, raw_, AscendC::RoundMode::CAST_RINT, t_.topK);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Compares(notNegative, value, 0.0f, AscendC::CMPMODE::GE, count);
        AscendC::Compares(notBeyond, value, limit_, AscendC::CMPMODE::LE, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::And(both, both, notBeyond.ReinterpretCast<uint16_t>(), static_cast<int32_t>(count / 16));
        AscendC::PipeBarrier<PIPE_V>();
        uint64_t kept = 0;  // Collect counts by itself: reading the count here would hold the scalar unit up
        AscendC::GatherMask(outFloat, value, both.ReinterpretCast<uint32_t>(), true, t_.topK, {1, 1, 8, 8}, kept);
        AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kRawEvent);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Cast(out, outFloat, AscendC::RoundMode::CAST_RINT, t_.topK);
        AscendC::SetFlag<AscendC::HardEvent::V_S>(list);
    }

    // The oldest filtered list becomes readable by At; returns its length.
    __aicore__ inline uint32_t Collect()
    {
        const uint32_t list = collected_ % kLists;
        AscendC::WaitFlag<AscendC::HardEvent::V_S>(list);
        current_ = lists_[list * (t_.ub.indexList / sizeof(int32_t))];
        if (current_.GetValue(t_.topK - 1) >= 0) {
            return t_.topK;
        }
        uint32_t low = 0;
        uint32_t high = t_.topK - 1;
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (current_.GetValue(middle) >= 0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    __aicore__ inline uint32_t At(uint32_t slot) const { return static_cast<uint32_t>(current_.GetValue(slot)); }

    // No more reads of the collected list.
    __aicore__ inline void Release()
    {
        AscendC::SetFlag<AscendC::HardEvent::S_V>(collected_ % kLists);
        ++collected_;
    }

private:
    static constexpr uint32_t kLists = 2;
    static constexpr uint32_t kMasks = 2;
    static constexpr int32_t kRawEvent = 0;

    const TilingData& t_;
    AscendC::GlobalTensor<int32_t> index_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rawBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> listBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> maskBuf_;
    AscendC::LocalTensor<int32_t> raw_;
    AscendC::LocalTensor<int32_t> lists_;
    AscendC::LocalTensor<uint8_t> masks_;
    AscendC::LocalTensor<int32_t> current_;
    float limit_ = 0.0f;
    uint32_t filtered_ = 0;
    uint32_t collected_ = 0;
};

}  // namespace asa
