// SPDX-License-Identifier: Apache-2.0
#include "c_api.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "tiling.h"

namespace {

constexpr int kMisuse = 3;

int Report(const asa::Verdict& verdict, char* message, size_t capacity)
{
    if (message != nullptr && capacity > 0) {
        const size_t length = std::min(capacity - 1, verdict.message.size());
        std::memcpy(message, verdict.message.data(), length);
        message[length] = '\0';
    }
    return static_cast<int>(verdict.fault);
}

asa::TensorDesc Tensor(const asa_tensor& tensor)
{
    asa::TensorDesc desc;
    desc.rank = tensor.rank;
    desc.dtype = tensor.dtype;
    std::copy(std::begin(tensor.shape), std::end(tensor.shape), desc.shape.begin());
    std::copy(std::begin(tensor.stride), std::end(tensor.stride), desc.stride.begin());
    return desc;
}

asa::Request Request(const asa_request& r)
{
    asa::Request request;
    request.query = Tensor(r.query);
    request.key = Tensor(r.key);
    request.value = Tensor(r.value);
    request.index = Tensor(r.index);
    request.scale = r.scale;
    request.layout = r.layout;
    request.causal = r.causal != 0;
    request.writeLse = r.write_lse != 0;
    request.valueIsKeyPrefix = r.value_is_key_prefix != 0;
    return request;
}

const asa::TilingData& Tiling(const void* tiling) { return *static_cast<const asa::TilingData*>(tiling); }

class Json {
public:
    Json() : text_("{") {}
    void Add(const char* name, uint64_t value)
    {
        Key(name);
        text_ += std::to_string(value);
    }
    void Add(const char* name, float value)
    {
        char number[32];
        std::snprintf(number, sizeof(number), "%.9g", static_cast<double>(value));
        Key(name);
        text_ += number;
    }
    void Add(const char* name, const asa::Strides& s)
    {
        Key(name);
        text_ += "[" + std::to_string(s.b) + ", " + std::to_string(s.s) + ", " + std::to_string(s.n) + "]";
    }
    void Open(const char* name)
    {
        Key(name);
        text_ += "{";
    }
    void Close() { text_ += "}"; }
    const std::string& Text() const { return text_; }

private:
    void Key(const char* name)
    {
        if (text_.back() != '{') {
            text_ += ", ";
        }
        text_ += "\"" + std::string(name) + "\": ";
    }
    std::string text_;
};

std::string ToJson(const asa::TilingData& t)
{
    Json j;
#define FIELD(name) j.Add(#name, t.name)
#define NUMBER(name) j.Add(#name, static_cast<uint64_t>(t.name))
    NUMBER(version); NUMBER(schedule); NUMBER(coreNum); NUMBER(dtype); NUMBER(layout); NUMBER(causal); NUMBER(writeLse);
    NUMBER(valueIsKeyPrefix); NUMBER(b); NUMBER(s1); NUMBER(s2); NUMBER(n1); NUMBER(n2); NUMBER(g); NUMBER(dk); NUMBER(dv);
    NUMBER(topK); FIELD(scale); FIELD(query); FIELD(key); FIELD(value); FIELD(index); FIELD(output); FIELD(lse);
    NUMBER(tasks); NUMBER(fullTasks); NUMBER(tasksPerItem); NUMBER(headParts); NUMBER(headsPerPart); NUMBER(keyParts);
    NUMBER(keysPerPart); NUMBER(ringSlots); NUMBER(ringRows); NUMBER(ringRow); NUMBER(queryViaRing); NUMBER(warmQuery); NUMBER(pairKeys);
    NUMBER(pairValues); NUMBER(blockQuery); NUMBER(unitTasks); NUMBER(unitBlocks); NUMBER(rowPitch); NUMBER(itemRows);
    NUMBER(keyPieces); NUMBER(keyStep); NUMBER(valueGroup); NUMBER(probsResident); NUMBER(gatherRows); NUMBER(stepRows);
    NUMBER(combineRows); NUMBER(softmaxAfter); NUMBER(coreStride); NUMBER(ringSlotBytes); NUMBER(scoresOffset); NUMBER(scoresSlotBytes);
    NUMBER(probsOffset); NUMBER(probsSlotBytes); NUMBER(partialOffset); NUMBER(workspaceBytes);
#undef FIELD
#undef NUMBER
#define NUMBER(name) j.Add(#name, static_cast<uint64_t>(t.ub.name))
    j.Open("ub");
    NUMBER(rawIndex); NUMBER(indexList); NUMBER(indexMask); NUMBER(gatherTile); NUMBER(scores); NUMBER(probs); NUMBER(reduce);
    NUMBER(rowStat); NUMBER(rowBlock); NUMBER(total);
    j.Close();
#undef NUMBER
#define NUMBER(name) j.Add(#name, static_cast<uint64_t>(t.l1.name))
    j.Open("l1");
    NUMBER(query); NUMBER(querySlots); NUMBER(kv); NUMBER(probs); NUMBER(total);
    j.Close();
#undef NUMBER
    return j.Text() + "}";
}

}  // namespace

int asa_check(const asa_request* request, int npu_limits, char* message, size_t capacity)
{
    asa::Problem problem;
    asa::Verdict verdict = asa::CheckRequest(Request(*request), problem);
    if (verdict.ok() && npu_limits != 0) {
        verdict = asa::CheckNpuLimits(problem);
    }
    return Report(verdict, message, capacity);
}

int asa_plan(const asa_request* request, void* tiling, size_t size, asa_launch* launch, char* message, size_t capacity)
{
    if (size != sizeof(asa::TilingData)) {
        return kMisuse;
    }
    asa::Problem problem;
    asa::Verdict verdict = asa::CheckRequest(Request(*request), problem);
    if (!verdict.ok()) {
        return Report(verdict, message, capacity);
    }
    const asa::Platform* platform = asa::FindPlatform(request->platform);
    if (platform == nullptr) {
        std::string names;
        for (const std::string& name : asa::PlatformNames()) {
            names += (names.empty() ? "" : ", ") + name;
        }
        return Report({asa::Fault::kValue, "platform: expected one of " + names + ", got " + request->platform}, message,
                      capacity);
    }
    asa::TilingOptions options;
    options.schedule = request->schedule;
    options.coreLimit = request->core_limit;
    asa::Launch planned;
    verdict = asa::PlanLaunch(problem, *platform, options, planned);
    if (verdict.ok()) {
        std::memcpy(tiling, &planned.tiling, sizeof(planned.tiling));
        launch->core_num = planned.tiling.coreNum;
        launch->tiling_key = planned.tilingKey;
        launch->workspace_bytes = planned.workspaceBytes;
    }
    return Report(verdict, message, capacity);
}

size_t asa_tiling_size(void) { return sizeof(asa::TilingData); }

size_t asa_tiling_json(const void* tiling, char* text, size_t capacity)
{
    const std::string json = ToJson(Tiling(tiling));
    if (capacity > 0) {
        const size_t length = std::min(capacity - 1, json.size());
        std::memcpy(text, json.data(), length);
        text[length] = '\0';
    }
    return json.size();
}

uint32_t asa_item_count(const void* tiling, uint32_t core) { return asa::ItemCount(Tiling(tiling), core); }

asa_item asa_item_at(const void* tiling, uint32_t core, uint32_t index)
{
    const asa::Item item = asa::ItemAt(Tiling(tiling), core, index);
    return {item.task, item.tasks, item.headBegin, item.heads, item.keyBegin, item.keys, item.part};
}

void asa_locate_task(const void* tiling, uint32_t task, uint32_t out[3])
{
    const asa::TaskId id = asa::LocateTask(Tiling(tiling), task);
    out[0] = id.b;
    out[1] = id.s1;
    out[2] = id.n2;
}

int asa_platform(const char* name, uint32_t* aic_num, uint32_t* aiv_num, uint64_t* l2_bytes, uint32_t limits[5])
{
    const asa::Platform* platform = asa::FindPlatform(name);
    if (platform == nullptr) {
        return kMisuse;
    }
    *aic_num = platform->aicNum;
    *aiv_num = platform->aivNum;
    *l2_bytes = platform->l2Bytes;
    limits[0] = platform->ubBytes;
    limits[1] = platform->l1Bytes;
    limits[2] = platform->l0aBytes;
    limits[3] = platform->l0bBytes;
    limits[4] = platform->l0cBytes;
    return 0;
}
