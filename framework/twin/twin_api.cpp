// SPDX-License-Identifier: Apache-2.0
#include "twin_api.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "../../cpu_twin/clock/report.h"
#include "../../cpu_twin/machine/launch.h"
#include "../../op_host/tiling/tiling.h"

extern "C" void asa_sparse_flash_attention_direct(uint8_t* query, uint8_t* key, uint8_t* value, uint8_t* sparseIndices,
                                                  uint8_t* y, uint8_t* lse, uint8_t* workspace, asa::TilingData tiling);
extern "C" void asa_sparse_flash_attention(uint8_t* query, uint8_t* key, uint8_t* value, uint8_t* sparseIndices, uint8_t* y,
                                           uint8_t* lse, uint8_t* workspace, uint8_t* tiling);

struct asa_twin_result {
    std::string json;
    std::string trace;
};

namespace {

constexpr int kFailed = 3;
constexpr size_t kAlignment = 512;  // as the device's allocator

struct FreeAligned {
    void operator()(void* p) const { std::free(p); }
};

void Tell(const std::string& text, char* message, size_t capacity)
{
    if (message != nullptr && capacity > 0) {
        const size_t length = std::min(capacity - 1, text.size());
        std::memcpy(message, text.data(), length);
        message[length] = '\0';
    }
}

std::string Quote(const std::string& text)
{
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char code[8];
            std::snprintf(code, sizeof(code), "\\u%04x", c);
            out += code;
        } else {
            out += c;
        }
    }
    return out + "\"";
}

// Bytes from a tensor's first element to behind its last, whatever its strides.
size_t Extent(const asa_tensor& tensor, size_t elementBytes)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < tensor.rank; ++i) {
        last += (tensor.shape[i] - 1) * tensor.stride[i];
    }
    return static_cast<size_t>(last + 1) * elementBytes;
}

// Views of one storage overlap; the machine wants every address in one tensor.
void AddInput(std::vector<cpu_twin::Tensor>& tensors, const char* name, void* data, size_t bytes)
{
    auto* begin = static_cast<uint8_t*>(data);
    auto* end = begin + bytes;
    std::string joined = name;
    for (size_t i = 0; i < tensors.size();) {
        auto* otherBegin = static_cast<uint8_t*>(tensors[i].data);
        auto* otherEnd = otherBegin + tensors[i].bytes;
        if (otherBegin < end && begin < otherEnd) {
            begin = std::min(begin, otherBegin);
            end = std::max(end, otherEnd);
            joined = tensors[i].name + "+" + joined;
            tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
            i = 0;
        } else {
            ++i;
        }
    }
    tensors.push_back({joined, begin, static_cast<size_t>(end - begin), cpu_twin::Use::In});
}

std::string Summary(const cpu_twin::Report& report, const asa::Launch& launch)
{
    std::string json = "{\"findings\": [";
    for (size_t i = 0; i < report.findings.size(); ++i) {
        const cpu_twin::Finding& f = report.findings[i];
        json += (i == 0 ? "" : ", ") + std::string("{\"rule\": ") + Quote(cpu_twin::RuleName(f.rule)) +
                ", \"message\": " + Quote(f.message) + ", \"file\": " + Quote(f.file) +
                ", \"line\": " + std::to_string(f.line) + ", \"count\": " + std::to_string(f.count) + "}";
    }
    json += "], \"findings_dropped\": " + std::to_string(report.findingsDropped) + ", \"predicted_us\": {";
    for (size_t i = 0; i < report.times.size(); ++i) {
        char number[32];
        std::snprintf(number, sizeof(number), "%.3f", report.times[i].microseconds);
        json += (i == 0 ? "" : ", ") + Quote(report.times[i].clock) + ": " + number;
    }
    json += "}, \"report\": ";
    std::string text = report.Text();
    if (!report.times.empty()) {
        text += cpu_twin::UtilisationText(report, report.times.front());
        if (!report.times.front().timeline.empty() && !report.times.front().timelineTruncated) {
            text += cpu_twin::CriticalPathText(report, report.times.front());
        }
    }
    json += Quote(text) + ", \"schedule\": " + Quote(asa::ScheduleName(launch.tiling.schedule)) +
            ", \"core_num\": " + std::to_string(launch.tiling.coreNum) +
            ", \"workspace_bytes\": " + std::to_string(launch.workspaceBytes) +
            ", \"instructions\": " + std::to_string(report.stats.instructions) +
            ", \"seconds\": " + std::to_string(report.stats.seconds) + ", \"sync_sites\": [";
    for (size_t i = 0; i < report.syncSites.size(); ++i) {
        json += (i == 0 ? "" : ", ") + std::string("{\"key\": ") + Quote(report.syncSites[i].Key()) +
                ", \"calls\": " + std::to_string(report.syncSites[i].calls) + "}";
    }
    return json + "]}";
}

cpu_twin::Report RunLaunch(const asa_request& request, const asa_twin_options& options, const asa_twin_tensors& t,
                           const asa::Problem& problem, asa::Launch& launch)
{
    const size_t workspaceBytes = (launch.workspaceBytes + kAlignment - 1) / kAlignment * kAlignment;
    std::unique_ptr<uint8_t, FreeAligned> workspace(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, workspaceBytes)));
    if (workspace == nullptr) {
        throw std::bad_alloc();
    }
    std::vector<cpu_twin::Tensor> tensors;
    AddInput(tensors, "query", t.query, Extent(request.query, 2));
    AddInput(tensors, "key", t.key, Extent(request.key, 2));
    if (!problem.valueIsKeyPrefix) {
        AddInput(tensors, "value", t.value, Extent(request.value, 2));
    }
    AddInput(tensors, "sparseIndices", t.index, Extent(request.index, 4));
    const size_t rows = static_cast<size_t>(problem.b * problem.s1 * problem.n1);
    tensors.push_back({"y", t.output, rows * static_cast<size_t>(problem.dv) * 2, cpu_twin::Use::Out});
    if (problem.writeLse) {
        tensors.push_back({"lse", t.lse, rows * sizeof(float), cpu_twin::Use::Out});
    }
    tensors.push_back({"workspace", workspace.get(), workspaceBytes, cpu_twin::Use::Workspace});

    cpu_twin::Options o;
    o.check = options.check != 0;
    o.seed = options.seed;
    o.threads = std::max(options.threads, 1);
    o.dropSync = options.drop_sync;
    if (options.predict != 0) {
        o.clocks = cpu_twin::AllOutlooks();
    }
    o.timeline = options.trace != 0;

    const auto gm = [](void* p) { return static_cast<uint8_t*>(p); };
    // Without a value of its own the kernel must not touch the argument.
    uint8_t* value = problem.valueIsKeyPrefix ? nullptr : gm(t.value);
    uint8_t* lse = problem.writeLse ? reinterpret_cast<uint8_t*>(t.lse) : nullptr;
    const auto type = cpu_twin::KernelType::MixAic1_2;
    if (options.operator_entry != 0) {
        tensors.push_back({"tiling", &launch.tiling, sizeof(launch.tiling), cpu_twin::Use::In});
        return cpu_twin::Launch(asa_sparse_flash_attention, launch.tiling.coreNum, type, tensors, o, gm(t.query), gm(t.key),
                                value, gm(t.index), gm(t.output), lse, workspace.get(), gm(&launch.tiling));
    }
    return cpu_twin::Launch(asa_sparse_flash_attention_direct, launch.tiling.coreNum, type, tensors, o, gm(t.query),
                            gm(t.key), value, gm(t.index), gm(t.output), lse, workspace.get(), launch.tiling);
}

}  // namespace

int asa_twin_run(const asa_request* request, const asa_twin_options* options, const asa_twin_tensors* tensors,
                 asa_twin_result** result, char* message, size_t capacity)
{
    try {
        asa::Launch launch;
        asa_launch summary{};
        const int fault = asa_plan(request, &launch.tiling, sizeof(launch.tiling), &summary, message, capacity);
        if (fault != 0) {
            return fault;
        }
        launch.tilingKey = summary.tiling_key;
        launch.workspaceBytes = summary.workspace_bytes;
        asa::Problem problem;
        problem.b = launch.tiling.b;
        problem.s1 = launch.tiling.s1;
        problem.n1 = launch.tiling.n1;
        problem.dv = launch.tiling.dv;
        problem.writeLse = request->write_lse != 0;
        problem.valueIsKeyPrefix = request->value_is_key_prefix != 0;
        auto run = std::make_unique<asa_twin_result>();
        cpu_twin::Report report;
        if (launch.tiling.coreNum > 0) {
            report = RunLaunch(*request, *options, *tensors, problem, launch);
            if (options->trace != 0 && !report.times.empty()) {
                run->trace = cpu_twin::TraceJson(report, report.times.front(), "sparse_flash_attention");
            }
        }
        run->json = Summary(report, launch);
        *result = run.release();
        return 0;
    } catch (const std::exception& error) {
        Tell(error.what(), message, capacity);
        return kFailed;
    }
}

uint32_t asa_abi_version(void) { return ASA_ABI_VERSION; }
const char* asa_twin_json(const asa_twin_result* result) { return result->json.c_str(); }
const char* asa_twin_trace(const asa_twin_result* result) { return result->trace.c_str(); }
void asa_twin_free(asa_twin_result* result) { delete result; }
