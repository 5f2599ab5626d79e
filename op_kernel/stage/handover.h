// SPDX-License-Identifier: Apache-2.0
// What AIC and AIV hand each other, and the workspace it lies in. One AIC and its two AIVs share a block's region:
//   ring     ringSlots slots of gathered rows (and query rows, if they go that way), written by the AIVs
//   scores   2 slots of float32 [itemRows, rowPitch], written by the AIC
//   probs    2 slots of io type [itemRows, rowPitch], written by the AIVs
// Partial results of split tasks lie behind the regions of all blocks.
//
// Flags count, and never beyond 15. Rows are handed over at most kUnitsPerItem times an item, and the AIVs gather at most
// two items ahead, for they want item i's scores before they begin with item i + 2. The other flags are raised once
// an item, with at most ringSlots of them under way.
//
// Score and probability slots need no flag for "free": the AIC multiplies item i's probabilities before it writes scores
// i + 2 over those of i, and the AIVs write probabilities i + 2 only after they have seen those scores.
#pragma once

#include "kernel_operator.h"

#include "../tiling_data.h"

namespace asa {

constexpr uint16_t kRowsReady = 0;     // AIV -> AIC: a unit of gathered rows is in the ring
constexpr uint16_t kScoresReady = 1;   // AIC -> AIV: the scores of an item are in GM
constexpr uint16_t kProbsReady = 2;    // AIV -> AIC: the probabilities of an item are in GM
constexpr uint16_t kSlotFree = 3;      // AIC -> AIV: an item's ring slot has been read for the last time
constexpr uint16_t kPartialsReady = 4; // AIC -> AIV: all partial outputs of the block are in GM

struct Arguments {
    GM_ADDR query;
    GM_ADDR key;
    GM_ADDR value;
    GM_ADDR index;
    GM_ADDR output;
    GM_ADDR lse;
    GM_ADDR workspace;
};

template <typename T>
struct BlockRegion {
    __aicore__ inline BlockRegion(const TilingData& t, GM_ADDR workspace, uint32_t block)
    {
        GM_ADDR base = workspace + block * t.coreStride;
        slotElements = t.ringSlotBytes / sizeof(T);
        taskElements = static_cast<uint64_t>(t.ringRows) * t.ringRow +
                       (t.queryViaRing ? static_cast<uint64_t>(t.g) * t.dk : 0);
        scoresElements = t.scoresSlotBytes / sizeof(float);
        probsElements = t.probsSlotBytes / sizeof(T);
        ring.SetGlobalBuffer((__gm__ T*)base);
        scores.SetGlobalBuffer((__gm__ float*)(base + t.scoresOffset));
        probs.SetGlobalBuffer((__gm__ T*)(base + t.probsOffset));
    }

    __aicore__ inline uint64_t Scores(uint32_t item) const { return item % kPipelineSlots * scoresElements; }
    __aicore__ inline uint64_t Probs(uint32_t item) const { return item % kPipelineSlots * probsElements; }

    __aicore__ inline uint64_t Task(uint32_t slot, uint32_t task) const
    {
        return slot * slotElements + task * taskElements;
    }

    uint64_t slotElements;
    uint64_t taskElements;
    uint64_t scoresElements;
    uint64_t probsElements;
    AscendC::GlobalTensor<T> ring;
    AscendC::GlobalTensor<float> scores;
    AscendC::GlobalTensor<T> probs;
};

// Partial results: O float32 [parts, g, dv], m and l float32 [parts, g, kStatBlock] (the value repeated). m is the score,
// not scaled, with the largest scale S; O is normalised by its own l, so that the result is sum(w O) / sum(w) with
// w = l exp(scale (m - M)), M the best m of all parts. A part whose scores are all -inf has l = 0 and O = 0, and so has
// one without keys, which alone has an infinite m.
struct PartialRegion {
    __aicore__ inline PartialRegion(const TilingData& t, GM_ADDR workspace)
    {
        const uint64_t rows = static_cast<uint64_t>(t.tasks - t.fullTasks) * t.keyParts * t.g;
        GM_ADDR base = workspace + t.partialOffset;
        out.SetGlobalBuffer((__gm__ float*)base);
        top.SetGlobalBuffer((__gm__ float*)base + rows * t.dv);
        sum.SetGlobalBuffer((__gm__ float*)base + rows * (t.dv + kStatBlock));
    }

    AscendC::GlobalTensor<float> out;
    AscendC::GlobalTensor<float> top;
    AscendC::GlobalTensor<float> sum;
};

}  // namespace asa
