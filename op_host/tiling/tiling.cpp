// SPDX-License-Identifier: Apache-2.0
#include "tiling.h"

#include <algorithm>

#include "cost_model.h"

namespace asa {
namespace {

constexpr uint32_t kElementBytes = 2;
constexpr uint32_t kSegment = 512;                  // workspace regions start on L2's largest transfer
constexpr uint32_t kGatherTileBytes = 36 * 1024;
constexpr uint32_t kScoreStepBytes = 32 * 1024;
constexpr uint32_t kMaskBytes = 256;                // a bit for each of 2048 slots; And works on whole repeats
constexpr uint32_t kL1BlockBytes = kKeyBlock * kPieceColumns * kElementBytes;
constexpr uint32_t kGroupColumns = 2 * kOutputTile;
constexpr uint32_t kRingSlots = 3;
constexpr uint64_t kNdStrideLimit = 65535;          // elements ND2NZ can step from row to row
constexpr uint64_t kCopyStrideLimit = 0xFFFFFFFFULL;  // bytes a strided copy can skip between rows
constexpr uint32_t kSingleCopyHeads = 16;           // up to here the AIC loads far-apart query rows one by one
constexpr uint32_t kMaxKeyParts = 16;
constexpr uint32_t kCombineRows = 16;
constexpr uint32_t kCombineBytes = 64 * 1024;
constexpr int64_t kSmallGroupRows = 32;
constexpr uint64_t kRingBudget = 6ULL * 1024 * 1024;  // of one core, for batching small tasks

uint64_t AlignUp64(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

// How the work is cut: decided once, then written into the tiling struct.
struct Cut {
    uint32_t cores = 0;
    uint32_t fullTasks = 0;
    uint32_t tasksPerItem = 1;
    uint32_t headParts = 1;
    uint32_t headsPerPart = 0;
    uint32_t keyParts = 1;
    uint32_t keysPerPart = 0;
    double cycles = 0;
};

int64_t Ceil(int64_t value, int64_t step) { return (value + step - 1) / step; }

uint64_t TaskRingBytes(const Problem& p, uint32_t keys)
{
    const uint64_t row = static_cast<uint64_t>(p.dk + (p.valueIsKeyPrefix ? 0 : p.dv));
    return static_cast<uint64_t>(AlignUp(keys, kCube)) * row * kElementBytes;
}

// Small groups share hand-overs: several tasks go through the stages together, while enough items remain to overlap.
uint32_t TasksPerItem(const Problem& p, int64_t tasksPerCore)
{
    int64_t tasks = std::min<int64_t>(kMaxTasksPerItem, kSmallGroupRows / p.G());
    tasks = std::min(tasks, tasksPerCore / 3);
    while (tasks > 1 && kRingSlots * static_cast<uint64_t>(tasks) * TaskRingBytes(p, p.topK) > kRingBudget) {
        --tasks;
    }
    return static_cast<uint32_t>(std::max<int64_t>(tasks, 1));
}

// Whole tasks on every core; what does not divide evenly is shared out by heads where that ends sooner.
Cut CutByTasks(const Problem& p, uint32_t cores)
{
    const int64_t tasks = p.b * p.s1 * p.n2;
    const int64_t even = tasks / cores;
    const int64_t rest = tasks % cores;
    const double whole = EstimateItem(p, 1, p.G(), p.topK).Steady();
    const StageCycles last = EstimateItem(p, 1, p.G(), p.topK);

    Cut best;
    best.cores = static_cast<uint32_t>(std::min<int64_t>(cores, tasks));
    best.fullTasks = static_cast<uint32_t>(tasks);
    best.tasksPerItem = TasksPerItem(p, Ceil(tasks, cores));
    best.headsPerPart = static_cast<uint32_t>(p.G());
    best.keysPerPart = static_cast<uint32_t>(p.topK);
    best.cycles = static_cast<double>(Ceil(tasks, cores) - 1) * whole + last.Latency();
    if (rest == 0) {
        return best;
    }
    for (int64_t heads = AlignUp(static_cast<uint32_t>(Ceil(p.G(), 2)), kCube); heads >= kCube; heads -= kCube) {
        if (heads >= p.G()) {
            continue;
        }
        const int64_t parts = Ceil(p.G(), heads);
        const StageCycles part = EstimateItem(p, 1, heads, p.topK);
        const double cycles = static_cast<double>(even) * whole +
                              static_cast<double>(Ceil(rest * parts, cores) - 1) * part.Steady() + part.Latency();
        if (cycles < best.cycles) {
            best.cores = static_cast<uint32_t>(even > 0 ? cores : std::min<int64_t>(cores, rest * parts));
            best.fullTasks = static_cast<uint32_t>(tasks - rest);
            best.headParts = static_cast<uint32_t>(parts);
            best.headsPerPart = static_cast<uint32_t>(heads);
            best.cycles = cycles;
        }
    }
    return best;
}

// Every task's keys over several cores, joined at the end. No cut if there are too few keys.
Cut CutByKeys(const Problem& p, uint32_t cores)
{
    const int64_t tasks = p.b * p.s1 * p.n2;
    Cut best;
    if (p.topK <= kKeyBlock) {
        return best;
    }
    for (int64_t wanted = 2; wanted <= kMaxKeyParts; ++wanted) {
        const int64_t keys = AlignUp(static_cast<uint32_t>(Ceil(p.topK, wanted)), kCube);
        const int64_t parts = Ceil(p.topK, keys);
        const StageCycles part = EstimateItem(p, 1, p.G(), keys);
        const int64_t used = std::min<int64_t>(cores, tasks * parts);
        const double cycles = static_cast<double>(Ceil(tasks * parts, cores) - 1) * part.Steady() + part.Latency() +
                              EstimateCombine(p, tasks * p.G(), parts, 2 * used);
        if (best.cores == 0 || cycles < best.cycles) {
            best.cores = static_cast<uint32_t>(used);
            best.fullTasks = 0;
            best.tasksPerItem = 1;
            best.headParts = 1;
            best.headsPerPart = static_cast<uint32_t>(p.G());
            best.keyParts = static_cast<uint32_t>(parts);
            best.keysPerPart = static_cast<uint32_t>(keys);
            best.cycles = cycles;
        }
    }
    return best;
}

void WriteSizes(const Problem& p, const Cut& cut, TilingData& t)
{
    t.version = kTilingVersion;
    t.schedule = cut.keyParts > 1 ? kGatherSplitK : kGather;
    t.coreNum = cut.cores;
    t.dtype = p.dtype;
    t.layout = p.layout;
    t.causal = p.causal;
    t.writeLse = p.writeLse;
    t.valueIsKeyPrefix = p.valueIsKeyPrefix;
    t.b = static_cast<uint32_t>(p.b);
    t.s1 = static_cast<uint32_t>(p.s1);
    t.s2 = static_cast<uint32_t>(p.s2);
    t.n1 = static_cast<uint32_t>(p.n1);
    t.n2 = static_cast<uint32_t>(p.n2);
    t.g = static_cast<uint32_t>(p.G());
    t.dk = static_cast<uint32_t>(p.dk);
    t.dv = static_cast<uint32_t>(p.dv);
    t.topK = static_cast<uint32_t>(p.topK);
    t.scale = p.scale;
    t.query = p.query;
    t.key = p.key;
    t.value = p.value;
    t.index = p.index;
    const uint64_t n1 = t.n1;
    const uint64_t s1 = t.s1;
    t.output = p.layout == kBSND ? Strides{s1 * n1 * t.dv, n1 * t.dv, t.dv} : Strides{n1 * s1 * t.dv, t.dv, s1 * t.dv};
    t.lse = p.layout == kBSND ? Strides{s1 * n1, n1, 1} : Strides{n1 * s1, 1, s1};
    t.tasks = static_cast<uint32_t>(p.b * p.s1 * p.n2);
    t.fullTasks = cut.fullTasks;
    t.tasksPerItem = cut.tasksPerItem;
    t.headParts = cut.headParts;
    t.headsPerPart = cut.headsPerPart;
    t.keyParts = cut.keyParts;
    t.keysPerPart = cut.keysPerPart;
}

// Can one strided copy step between any two of `rows` rows? Rows that overlap cannot be stepped between either.
bool CopyCanStep(uint64_t rows, uint64_t stride, uint64_t elements)
{
    return stride >= elements && stride <= kCopyStrideLimit / kElementBytes / std::max<uint64_t>(rows - 1, 1);
}

uint32_t ItemKeys(const TilingData& t) { return t.keyParts > 1 ? t.keysPerPart : t.topK; }
uint32_t ItemHeads(const TilingData& t) { return t.fullTasks > 0 ? t.g : t.headsPerPart; }

void PlanRing(const Platform& platform, TilingData& t)
{
    const uint32_t blocks = CeilDiv(ItemKeys(t), kKeyBlock);
    t.ringRows = AlignUp(ItemKeys(t), kCube);
    t.ringRow = t.dk + (t.valueIsKeyPrefix ? 0 : t.dv);
    t.queryViaRing = (t.query.n > kNdStrideLimit || t.query.n == 0) && t.g > kSingleCopyHeads;
    t.pairKeys = CopyCanStep(t.s2, t.key.s, t.dk);
    t.pairValues = CopyCanStep(t.s2, t.value.s, t.dv);
    t.blockQuery = CopyCanStep(2, t.query.n, t.dk);
    t.unitTasks = CeilDiv(t.tasksPerItem, kUnitsPerItem);
    t.unitBlocks = CeilDiv(blocks, kUnitsPerItem);
    t.rowPitch = AlignUp(ItemKeys(t), kLanes);
    t.itemRows = std::max(t.tasksPerItem * ItemHeads(t), t.headsPerPart);

    const uint64_t taskElements =
        static_cast<uint64_t>(t.ringRows) * t.ringRow + (t.queryViaRing ? static_cast<uint64_t>(t.g) * t.dk : 0);
    t.ringSlotBytes = AlignUp64(t.tasksPerItem * taskElements * kElementBytes, kSegment);
    uint32_t items = 0;
    for (uint32_t core = 0; core < t.coreNum; ++core) {
        items = std::max(items, ItemCount(t, core));
    }
    // Three slots let the gather run a whole item ahead; two where three would not stay in L2.
    const bool fits = kRingSlots * t.ringSlotBytes * t.coreNum <= platform.l2Bytes / 4 * 3;
    t.ringSlots = std::min(fits ? kRingSlots : 2, items);

    t.scoresSlotBytes = AlignUp64(static_cast<uint64_t>(t.itemRows) * t.rowPitch * sizeof(float), kSegment);
    t.probsSlotBytes = AlignUp64(static_cast<uint64_t>(t.itemRows) * t.rowPitch * kElementBytes, kSegment);
    t.scoresOffset = t.ringSlots * t.ringSlotBytes;
    t.probsOffset = t.scoresOffset + kPipelineSlots * t.scoresSlotBytes;
    t.coreStride = t.probsOffset + kPipelineSlots * t.probsSlotBytes;
    t.partialOffset = t.coreStride * t.coreNum;
    t.workspaceBytes = t.partialOffset;
    if (t.keyParts > 1) {
        const uint64_t rows = static_cast<uint64_t>(t.tasks - t.fullTasks) * t.keyParts * t.g;
        t.workspaceBytes += AlignUp64(rows * (t.dv + 2 * kStatBlock) * sizeof(float), kSegment);
    }
}

void PlanCube(const Platform& platform, TilingData& t)
{
    t.keyPieces = CeilDiv(t.dk, kPieceColumns);
    const uint32_t piece = t.dk / t.keyPieces;
    t.keyStep = piece / CeilDiv(piece, kKeyBlock);
    t.valueGroup = AlignUp(CeilDiv(t.dv, CeilDiv(t.dv, kGroupColumns)), 64);

    const uint32_t rows = Min(kChunkRows, AlignUp(std::max(ItemHeads(t), t.headsPerPart), kCube));
    t.l1.query = rows * t.dk * kElementBytes;
    t.l1.kv = kKeyBlock * std::max(piece, t.valueGroup) * kElementBytes;
    const uint32_t resident = rows * AlignUp(ItemKeys(t), kCube) * kElementBytes;
    const uint32_t streamed = kKvBuffers * rows * kKeyBlock * kElementBytes;
    const uint32_t fixed = t.l1.query + kKvBuffers * t.l1.kv;
    t.probsResident = fixed + resident <= platform.l1Bytes;
    t.l1.probs = t.probsResident ? resident : streamed;
    t.l1.querySlots = fixed + t.l1.probs + t.l1.query <= platform.l1Bytes ? 2 : 1;
    t.l1.total = t.l1.querySlots * t.l1.query + kKvBuffers * t.l1.kv + t.l1.probs;
}

void PlanVector(const Platform& platform, const StageCycles& cycles, TilingData& t)
{
    const uint32_t rowBytes = t.ringRow * kElementBytes;
    const uint32_t share = FirstRows(t.itemRows);
    t.stepRows = Min(kScoreStepBytes / (t.rowPitch * static_cast<uint32_t>(sizeof(float))), share);
    // Late enough for the scores to be there, early enough to leave tiles that the softmax can run beside.
    t.softmaxAfter = 75;
    t.warmQuery = !t.queryViaRing && cycles.gather < cycles.Cube() && t.ringSlots > 1;

    const uint32_t chunks = t.rowPitch / kLanes;
    t.ub.rawIndex = AlignUp(t.topK, kLanes) * sizeof(int32_t);
    t.ub.indexList = t.ub.rawIndex;
    t.ub.indexMask = kMaskBytes;
    t.ub.scores = t.stepRows * t.rowPitch * sizeof(float);
    t.ub.probs = t.stepRows * t.rowPitch * kElementBytes;
    t.ub.reduce = AlignUp(t.stepRows * chunks * kStatBlock * sizeof(float), 256);
    t.ub.rowStat = AlignUp(t.stepRows, kLanes) * sizeof(float);
    t.ub.rowBlock = AlignUp(t.stepRows, kStatBlock) * kStatBlock * sizeof(float);
    const uint32_t others = t.ub.rawIndex + 2 * (t.ub.indexList + t.ub.indexMask + t.ub.scores + t.ub.rowBlock) +
                            t.ub.probs + t.ub.reduce + 5 * t.ub.rowStat;
    const uint32_t tile = Min(kGatherTileBytes, (platform.ubBytes - others) / 2);
    // A full block's share of 64 rows in equal tiles.
    const uint32_t most = Min(kKeyBlock / 2, tile / rowBytes / 2 * 2);
    t.gatherRows = AlignUp(CeilDiv(kKeyBlock / 2, CeilDiv(kKeyBlock / 2, most)), 2);
    t.ub.gatherTile = t.gatherRows * rowBytes;
    t.ub.total = others + 2 * t.ub.gatherTile;
    // The combine has UB to itself: all parts of a few rows.
    t.combineRows = std::max(1U, Min(Min(t.g, kCombineRows), kCombineBytes / (t.keyParts * t.dv * 4)));
}

}  // namespace

const char* ScheduleName(uint32_t schedule)
{
    switch (schedule) {
        case kGather: return "gather";
        case kGatherSplitK: return "gather_split_k";
        default: return nullptr;
    }
}

Verdict PlanLaunch(const Problem& p, const Platform& platform, const TilingOptions& options, Launch& launch)
{
    launch = Launch{};
    Verdict verdict = CheckNpuLimits(p);
    if (!verdict.ok()) {
        return verdict;
    }
    const bool any = options.schedule.empty();
    if (!any && options.schedule != ScheduleName(kGather) && options.schedule != ScheduleName(kGatherSplitK)) {
        return {Fault::kValue, "schedule: expected gather or gather_split_k, got " + options.schedule};
    }
    if (p.Empty()) {
        launch.tiling.version = kTilingVersion;
        return {};
    }
    const uint32_t cores = options.coreLimit > 0 ? Min(options.coreLimit, platform.aicNum) : platform.aicNum;
    Cut cut = CutByTasks(p, cores);
    if (any || options.schedule == ScheduleName(kGatherSplitK)) {
        const Cut split = CutByKeys(p, cores);
        if (!any && split.cores == 0) {
            return {Fault::kValue, "schedule: expected topK > " + std::to_string(kKeyBlock) + " for gather_split_k, got " +
                                       std::to_string(p.topK)};
        }
        if (split.cores > 0 && (!any || split.cycles < cut.cycles)) {
            cut = split;
        }
    }
    TilingData& t = launch.tiling;
    WriteSizes(p, cut, t);
    PlanRing(platform, t);
    PlanCube(platform, t);
    PlanVector(platform, EstimateItem(p, t.tasksPerItem, ItemHeads(t), ItemKeys(t)), t);
    launch.tilingKey = 1 + 2 * t.schedule + t.dtype;
    launch.workspaceBytes = t.workspaceBytes;
    return {};
}

}  // namespace asa
