// SPDX-License-Identifier: Apache-2.0
// What the host tells the device about one sparse_flash_attention launch: plain numbers, no pointers, and the arithmetic
// that both sides must agree on (which core does which work, when a hand-over flag is due). The host fills the struct
// (op_host/tiling), the kernel reads it; nothing else is shared between the two.
#pragma once

#include <cstdint>

#ifdef __aicore__
#define ASA_SHARED __aicore__ inline
#else
#define ASA_SHARED inline
#endif

namespace asa {

// Bumped whenever the struct's layout or meaning changes: host and device built apart must not be mixed.
constexpr uint32_t kTilingVersion = 1;

enum DataType : uint32_t { kFloat16 = 0, kBfloat16 = 1 };
enum Layout : uint32_t { kBSND = 0, kBNSD = 1 };
// How the work is scheduled. Ids are stable; a new schedule gets a new id.
enum Schedule : uint32_t {
    kGather = 0,        // a task is one (b, s1, n2) with its heads; every core owns whole tasks or heads of one
    kGatherSplitK = 1,  // the keys of a task are shared out over cores; partial results are combined at the end
};

// Elements between neighbours along batch, sequence and head. The last dimension is contiguous.
struct Strides {
    uint64_t b;
    uint64_t s;
    uint64_t n;
};

// Bytes of every Unified Buffer region of one AIV.
struct UbPlan {
    uint32_t rawIndex;      // indices as they came, float32 after the range check
    uint32_t indexList;     // one list of valid indices; there are two
    uint32_t indexMask;     // one bit mask; there are two
    uint32_t gatherTile;    // rows on their way from key/value to the ring; there are two
    uint32_t scores;        // one step of float32 scores; there are two
    uint32_t probs;         // one step of probabilities in the io type
    uint32_t reduce;        // block maxima or sums of one step
    uint32_t rowStat;       // one float32 per row of a step; there are five
    uint32_t rowBlock;      // one 32-byte block per row of a step; there are two
    uint32_t total;
};

// Bytes of every L1 region of one AIC.
struct L1Plan {
    uint32_t query;         // one query chunk
    uint32_t querySlots;
    uint32_t kv;            // one key or value block; there are kKvBuffers
    uint32_t probs;         // probabilities: all of a chunk (probsResident) or one block per kv buffer
    uint32_t total;
};

struct TilingData {
    uint32_t version;
    uint32_t schedule;      // Schedule
    uint32_t coreNum;       // AIC cores launched, each with two AIVs
    uint32_t dtype;         // DataType
    uint32_t layout;        // Layout
    uint32_t causal;
    uint32_t writeLse;
    uint32_t valueIsKeyPrefix;

    uint32_t b;
    uint32_t s1;
    uint32_t s2;
    uint32_t n1;
    uint32_t n2;
    uint32_t g;             // n1 / n2
    uint32_t dk;
    uint32_t dv;
    uint32_t topK;
    float scale;

    Strides query;
    Strides key;
    Strides value;
    Strides index;
    Strides output;         // contiguous, as layout
    Strides lse;            // contiguous, as layout

    // Work. Tasks are numbered as they lie in sparseIndices; the first fullTasks are done whole, the others in
    // headParts x keyParts parts.
    uint32_t tasks;
    uint32_t fullTasks;
    uint32_t tasksPerItem;  // whole tasks handed from stage to stage together
    uint32_t headParts;
    uint32_t headsPerPart;
    uint32_t keyParts;
    uint32_t keysPerPart;   // index slots

    // Ring: ringSlots slots of tasksPerItem tasks. A task is ringRows rows of ringRow elements (key, then value unless it
    // is key's prefix), and, with queryViaRing, g rows of dk elements.
    uint32_t ringSlots;
    uint32_t ringRows;
    uint32_t ringRow;
    uint32_t queryViaRing;
    uint32_t warmQuery;     // the AIVs read the next item's query rows ahead, so that the AIC finds them in L2
    uint32_t pairKeys;      // two rows of key, of value, many rows of query fit one strided copy
    uint32_t pairValues;
    uint32_t blockQuery;
    // The gathered rows of an item are handed over in units of unitTasks tasks, or of unitBlocks key blocks.
    uint32_t unitTasks;
    uint32_t unitBlocks;

    uint32_t rowPitch;      // elements between rows of scores and of probabilities, a multiple of 64
    uint32_t itemRows;      // most rows of an item

    uint32_t keyPieces;     // pieces a key block is cut into along dk
    uint32_t keyStep;       // k of one Mmad in query x key
    uint32_t valueGroup;    // output columns computed together
    uint32_t probsResident;

    uint32_t gatherRows;    // rows of a gather tile
    uint32_t stepRows;      // rows of a softmax step
    uint32_t combineRows;   // rows joined together when keys are shared out
    uint32_t softmaxAfter;  // percent of an item's gather tiles issued before the scores are waited for

    UbPlan ub;
    L1Plan l1;

    // Workspace, in bytes: per core at core * coreStride, the regions at these offsets; partial results after all cores.
    uint64_t coreStride;        // scores and probabilities have kPipelineSlots slots
    uint64_t ringSlotBytes;
    uint64_t scoresOffset;
    uint64_t scoresSlotBytes;
    uint64_t probsOffset;
    uint64_t probsSlotBytes;
    uint64_t partialOffset;     // float32 O [parts][g][dv], then m [parts][g][8], then l [parts][g][8]; see PartialLayout
    uint64_t workspaceBytes;
};

constexpr uint32_t kKeyBlock = 128;         // keys of one L1 block and one score tile
constexpr uint32_t kChunkRows = 128;        // query rows of one Mmad
constexpr uint32_t kKvBuffers = 3;
constexpr uint32_t kPipelineSlots = 2;      // of scores and of probabilities
constexpr uint32_t kCube = 16;              // side of a fractal
constexpr uint32_t kLanes = 64;             // float32 elements of one vector repeat
constexpr uint32_t kUnitsPerItem = 4;       // a flag counter holds 15, and up to 2 items may be gathered ahead
constexpr uint32_t kMaxTasksPerItem = 8;
constexpr uint32_t kOutputTile = 128;       // output columns of one L0C buffer
constexpr uint32_t kPieceColumns = 288;     // most key columns in one L1 block
constexpr uint32_t kStatBlock = 8;          // partial m and l stand in blocks of 8 float32

// A stretch of work that goes through the stages as one: whole tasks, or some heads and keys of one task.
struct Item {
    uint32_t task;
    uint32_t tasks;
    uint32_t headBegin;
    uint32_t heads;
    uint32_t keyBegin;      // index slots [keyBegin, keyBegin + keys)
    uint32_t keys;
    uint32_t part;          // position among the partial results
};

struct TaskId {
    uint32_t b;
    uint32_t s1;
    uint32_t n2;
};

ASA_SHARED uint32_t CeilDiv(uint32_t value, uint32_t step) { return (value + step - 1) / step; }
ASA_SHARED uint32_t AlignUp(uint32_t value, uint32_t step) { return CeilDiv(value, step) * step; }
ASA_SHARED uint32_t Min(uint32_t a, uint32_t b) { return a < b ? a : b; }
ASA_SHARED uint32_t Max(uint32_t a, uint32_t b) { return a < b ? b : a; }

ASA_SHARED TaskId LocateTask(const TilingData& t, uint32_t task)
{
    const uint32_t inner = t.layout == kBSND ? t.n2 : t.s1;
    const uint32_t middle = t.layout == kBSND ? t.s1 : t.n2;
    const uint32_t row = task / inner;
    const uint32_t low = task - row * inner;
    const uint32_t batch = row / middle;
    const uint32_t high = row - batch * middle;
    return t.layout == kBSND ? TaskId{batch, high, low} : TaskId{batch, low, high};
}

// `count` things dealt to cores in order, as equally as they can be: the first of a core's.
ASA_SHARED uint32_t ShareBegin(uint32_t count, uint32_t cores, uint32_t core)
{
    const uint32_t base = count / cores;
    const uint32_t extra = count - base * cores;
    return core * base + Min(core, extra);
}

ASA_SHARED uint32_t PartCount(const TilingData& t)
{
    return (t.tasks - t.fullTasks) * t.headParts * t.keyParts;
}

ASA_SHARED uint32_t FullItems(const TilingData& t, uint32_t core)
{
    const uint32_t tasks = ShareBegin(t.fullTasks, t.coreNum, core + 1) - ShareBegin(t.fullTasks, t.coreNum, core);
    return CeilDiv(tasks, t.tasksPerItem);
}

// A core does its whole tasks first, then its parts.
ASA_SHARED uint32_t ItemCount(const TilingData& t, uint32_t core)
{
    const uint32_t parts = PartCount(t);
    return FullItems(t, core) + ShareBegin(parts, t.coreNum, core + 1) - ShareBegin(parts, t.coreNum, core);
}

ASA_SHARED Item ItemAt(const TilingData& t, uint32_t core, uint32_t index)
{
    const uint32_t fullItems = FullItems(t, core);
    if (index < fullItems) {
        const uint32_t first = ShareBegin(t.fullTasks, t.coreNum, core) + index * t.tasksPerItem;
        const uint32_t end = ShareBegin(t.fullTasks, t.coreNum, core + 1);
        return Item{first, Min(t.tasksPerItem, end - first), 0, t.g, 0, t.topK, 0};
    }
    const uint32_t part = ShareBegin(PartCount(t), t.coreNum, core) + index - fullItems;
    const uint32_t perTask = t.headParts * t.keyParts;
    const uint32_t taskOffset = part / perTask;
    const uint32_t within = part - taskOffset * perTask;
    const uint32_t headPart = within / t.keyParts;
    const uint32_t keyPart = within - headPart * t.keyParts;
    const uint32_t head = headPart * t.headsPerPart;
    const uint32_t key = keyPart * t.keysPerPart;
    return Item{t.fullTasks + taskOffset, 1,   head, Min(t.headsPerPart, t.g - head),
                key, Min(t.keysPerPart, t.topK - key), taskOffset * t.keyParts + keyPart};
}

ASA_SHARED uint32_t KeyBlocks(const Item& item) { return CeilDiv(item.keys, kKeyBlock); }

// Rows of one key block, rounded up to whole fractals; the gather fills them all.
ASA_SHARED uint32_t BlockRows(const Item& item, uint32_t block)
{
    return AlignUp(Min(kKeyBlock, item.keys - block * kKeyBlock), kCube);
}

// The first AIV gathers rows [0, FirstShare) of a key block, the second the others.
ASA_SHARED uint32_t FirstShare(uint32_t blockRows) { return AlignUp(blockRows / 2, kCube); }

// Hand-over of gathered rows, vector to cube: is a unit complete with, or begun by, this key block of this task?
ASA_SHARED bool UnitEnds(const TilingData& t, const Item& item, uint32_t task, uint32_t block)
{
    if (block + 1 == KeyBlocks(item)) {
        return task + 1 == item.tasks || (task + 1) % t.unitTasks == 0;
    }
    return item.tasks == 1 && (block + 1) % t.unitBlocks == 0;
}

ASA_SHARED bool UnitBegins(const TilingData& t, const Item& item, uint32_t task, uint32_t block)
{
    return block == 0 ? task % t.unitTasks == 0 : item.tasks == 1 && block % t.unitBlocks == 0;
}

// The first AIV does softmax rows [0, FirstRows) of an item, the second the others.
ASA_SHARED uint32_t FirstRows(uint32_t rows) { return (rows + 1) / 2; }

}  // namespace asa
