// SPDX-License-Identifier: Apache-2.0
// The AIC's buffers and the flags that guard them; both cube stages draw from the same rings, so that the loads of one
// stage run while the other's multiplications drain.
#pragma once

#include "kernel_operator.h"

#include "../tiling_data.h"

namespace asa {

template <typename T>
class CubeBuffers {
public:
    __aicore__ inline CubeBuffers(AscendC::TPipe& pipe, const TilingData& t) : pipe_(pipe)
    {
        queryBytes_ = t.l1.query;
        querySlots_ = t.l1.querySlots;
        kvElements_ = t.l1.kv / sizeof(T);
        pipe.InitBuffer(queryBuf_, t.l1.query * t.l1.querySlots);
        pipe.InitBuffer(kvBuf_, t.l1.kv * kKvBuffers);
        pipe.InitBuffer(probsBuf_, t.l1.probs);
        pipe.InitBuffer(leftBuf_, kL0Slots * kLeftElements * sizeof(T));
        pipe.InitBuffer(rightBuf_, kL0Slots * kRightElements * sizeof(T));
        pipe.InitBuffer(accBuf_, kL0Slots * kAccElements * sizeof(float));
        query_ = queryBuf_.Get<T>();
        kv_ = kvBuf_.Get<T>();
        probs = probsBuf_.Get<T>();
        left_ = leftBuf_.Get<T>();
        right_ = rightBuf_.Get<T>();
        acc_ = accBuf_.Get<float>();
    }

    // Every buffer starts free.
    __aicore__ inline void Open()
    {
        for (uint32_t slot = 0; slot < kL0Slots; ++slot) {
            // TPipe keeps the first ids of M_MTE1 for itself.
            leftFree_[slot] = pipe_.AllocEventID<AscendC::HardEvent::M_MTE1>();
            rightFree_[slot] = pipe_.AllocEventID<AscendC::HardEvent::M_MTE1>();
            AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(leftFree_[slot]);
            AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(rightFree_[slot]);
            AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
        }
        for (uint32_t slot = 0; slot < kKvBuffers; ++slot) {
            AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kKvEvent + slot);
        }
        for (uint32_t slot = 0; slot < querySlots_; ++slot) {
            AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kQueryEvent + slot);
        }
        AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kProbsEvent);
    }

    // Takes back what Open set, so that no flag outlives the kernel.
    __aicore__ inline void Close()
    {
        for (uint32_t slot = 0; slot < kL0Slots; ++slot) {
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(leftFree_[slot]);
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(rightFree_[slot]);
            AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
            pipe_.ReleaseEventID<AscendC::HardEvent::M_MTE1>(leftFree_[slot]);
            pipe_.ReleaseEventID<AscendC::HardEvent::M_MTE1>(rightFree_[slot]);
        }
        for (uint32_t slot = 0; slot < kKvBuffers; ++slot) {
            AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kKvEvent + slot);
        }
        for (uint32_t slot = 0; slot < querySlots_; ++slot) {
            AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kQueryEvent + slot);
        }
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kProbsEvent);
    }

    // --- L1: key and value blocks: loaded in order, used in order, up to kKvBuffers loads ahead of the use ---------------
    // The buffer for the next load; Loaded follows the copy.
    __aicore__ inline AscendC::LocalTensor<T> AcquireKv()
    {
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kKvEvent + loadSlot_);
        return kv_[loadSlot_ * kvElements_];
    }
    __aicore__ inline void LoadedKv()
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kKvEvent + loadSlot_);
        loadSlot_ = NextKv(loadSlot_);
    }
    // The oldest block that was loaded, once it is there.
    __aicore__ inline AscendC::LocalTensor<T> UseKv()
    {
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kKvEvent + useSlot_);
        return kv_[useSlot_ * kvElements_];
    }
    __aicore__ inline uint32_t UseSlot() const { return useSlot_; }
    __aicore__ inline void ReleaseKv()
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kKvEvent + useSlot_);
        useSlot_ = NextKv(useSlot_);
    }

    // --- L1: query chunks ---------------------------------------------------------------------------------------------
    __aicore__ inline AscendC::LocalTensor<T> AcquireQuery()
    {
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kQueryEvent + querySlot_);
        return query_[querySlot_ * (queryBytes_ / sizeof(T))];
    }
    // Comes before the first use of the chunk.
    __aicore__ inline void LoadedQuery() { AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kQueryEvent + querySlot_); }
    __aicore__ inline void UseQuery() { AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kQueryEvent + querySlot_); }
    __aicore__ inline void ReleaseQuery()
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kQueryEvent + querySlot_);
        querySlot_ = querySlot_ + 1 == querySlots_ ? 0 : querySlot_ + 1;
    }

    // --- L1: probabilities --------------------------------------------------------------------------------------------
    __aicore__ inline void AcquireProbs() { AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kProbsEvent); }
    __aicore__ inline void LoadedProbs()
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kProbsEvent);
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kProbsEvent);
    }
    __aicore__ inline void ReleaseProbs() { AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kProbsEvent); }
    AscendC::LocalTensor<T> probs;

    // --- L0 -----------------------------------------------------------------------------------------------------------
    __aicore__ inline AscendC::LocalTensor<T> AcquireLeft()
    {
        AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(leftFree_[leftSlot_]);
        return left_[leftSlot_ * kLeftElements];
    }
    __aicore__ inline void ReleaseLeft()
    {
        AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(leftFree_[leftSlot_]);
        leftSlot_ ^= 1;
    }
    __aicore__ inline AscendC::LocalTensor<T> AcquireRight()
    {
        AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(rightFree_[rightSlot_]);
        return right_[rightSlot_ * kRightElements];
    }
    // Both operands are loaded.
    __aicore__ inline void PublishRight()
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(rightSlot_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(rightSlot_);
    }
    __aicore__ inline void ReleaseRight()
    {
        AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(rightFree_[rightSlot_]);
        rightSlot_ ^= 1;
    }

    // --- L0C: two accumulators, drained by the fixpipe while the other is written ---------------------------------------
    __aicore__ inline uint32_t AccSlot() const { return accSlot_; }
    __aicore__ inline AscendC::LocalTensor<float> Acc(uint32_t slot) { return acc_[slot * kAccElements]; }
    __aicore__ inline void AcquireAcc(uint32_t slot) { AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot); }
    __aicore__ inline void PublishAcc(uint32_t slot)
    {
        AscendC::SetFlag<AscendC::HardEvent::M_FIX>(slot);
        AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(slot);
    }
    __aicore__ inline void ReleaseAcc(uint32_t slot)
    {
        AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
        accSlot_ = slot ^ 1;
    }

private:
    static constexpr uint32_t kL0Slots = 2;
    static constexpr uint32_t kLeftElements = kChunkRows * 128;
    static constexpr uint32_t kRightElements = kKeyBlock * 128;
    static constexpr uint32_t kAccElements = kChunkRows * kOutputTile;
    // Ids within MTE2_MTE1 and MTE1_MTE2.
    static constexpr int32_t kKvEvent = 0;
    static constexpr int32_t kQueryEvent = kKvBuffers;
    static constexpr int32_t kProbsEvent = kQueryEvent + 2;

    static __aicore__ inline uint32_t NextKv(uint32_t slot) { return slot + 1 == kKvBuffers ? 0 : slot + 1; }

    AscendC::TPipe& pipe_;
    AscendC::TBuf<AscendC::TPosition::A1> queryBuf_;
    AscendC::TBuf<AscendC::TPosition::B1> kvBuf_;
    AscendC::TBuf<AscendC::TPosition::A1> probsBuf_;
    AscendC::TBuf<AscendC::TPosition::A2> leftBuf_;
    AscendC::TBuf<AscendC::TPosition::B2> rightBuf_;
    AscendC::TBuf<AscendC::TPosition::CO1> accBuf_;
    AscendC::LocalTensor<T> query_;
    AscendC::LocalTensor<T> kv_;
    AscendC::LocalTensor<T> left_;
    AscendC::LocalTensor<T> right_;
    AscendC::LocalTensor<float> acc_;
    AscendC::TEventID leftFree_[kL0Slots];
    AscendC::TEventID rightFree_[kL0Slots];
    uint32_t queryBytes_;
    uint32_t querySlots_;
    uint32_t kvElements_;
    uint32_t loadSlot_ = 0;
    uint32_t useSlot_ = 0;
    uint32_t querySlot_ = 0;
    uint32_t leftSlot_ = 0;
    uint32_t rightSlot_ = 0;
    uint32_t accSlot_ = 0;
};

}  // namespace asa
