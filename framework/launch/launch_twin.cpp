// SPDX-License-Identifier: Apache-2.0
#include "launch_twin.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "../../cpu_twin/machine/launch.h"

extern "C" void asa_sparse_flash_attention_direct(uint8_t* query, uint8_t* key, uint8_t* value, uint8_t* sparseIndices,
                                                  uint8_t* y, uint8_t* lse, uint8_t* workspace, asa::TilingData tiling);

// The runtime's: present where a stream can be.
extern "C" __attribute__((weak)) int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* argument);

namespace asa {
namespace {

constexpr size_t kIoBytes = 2;

struct Pending {
    uint32_t blockDim;
    KernelAddresses at;
    TilingData tiling;
};

// One machine: launches of several streams take turns.
std::mutex g_machine;
std::mutex g_findingsLock;
std::string g_findings;
std::atomic<bool> g_faulty{false};

bool SwitchedOff(const char* name)
{
    const char* word = std::getenv(name);
    return word != nullptr && std::strcmp(word, "0") == 0;
}

uint8_t* Gm(const void* address) { return static_cast<uint8_t*>(const_cast<void*>(address)); }

// Bytes from a tensor's first element to behind its last, whatever its strides.
size_t Extent(const Strides& strides, uint32_t b, uint32_t s, uint32_t n, uint32_t last, size_t elementBytes)
{
    const uint64_t elements = (b - 1) * strides.b + (s - 1) * strides.s + (n - 1) * strides.n + last;
    return elements * elementBytes;
}

// Views of one storage overlap; the machine wants every address in one tensor.
void AddInput(std::vector<cpu_twin::Tensor>& tensors, const char* name, const void* data, size_t bytes)
{
    uint8_t* begin = Gm(data);
    uint8_t* end = begin + bytes;
    std::string joined = name;
    for (size_t i = 0; i < tensors.size();) {
        auto* otherBegin = static_cast<uint8_t*>(tensors[i].data);
        uint8_t* otherEnd = otherBegin + tensors[i].bytes;
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

void Fault(const std::string& text)
{
    std::lock_guard<std::mutex> hold(g_findingsLock);
    g_findings = text;
    g_faulty = true;
}

void RunNow(const Pending& p)
{
    const TilingData& t = p.tiling;
    std::vector<cpu_twin::Tensor> tensors;
    AddInput(tensors, "query", p.at.query, Extent(t.query, t.b, t.s1, t.n1, t.dk, kIoBytes));
    AddInput(tensors, "key", p.at.key, Extent(t.key, t.b, t.s2, t.n2, t.dk, kIoBytes));
    if (t.valueIsKeyPrefix == 0) {
        AddInput(tensors, "value", p.at.value, Extent(t.value, t.b, t.s2, t.n2, t.dv, kIoBytes));
    }
    AddInput(tensors, "sparseIndices", p.at.sparseIndices,
             Extent(t.index, t.b, t.s1, t.n2, t.topK, sizeof(int32_t)));
    const size_t rows = static_cast<size_t>(t.b) * t.s1 * t.n1;
    tensors.push_back({"y", p.at.output, rows * t.dv * kIoBytes, cpu_twin::Use::Out});
    if (t.writeLse != 0) {
        tensors.push_back({"lse", p.at.lse, rows * sizeof(float), cpu_twin::Use::Out});
    }
    tensors.push_back({"workspace", p.at.workspace, t.workspaceBytes, cpu_twin::Use::Workspace});

    cpu_twin::Options options;
    options.check = !SwitchedOff("ASA_TWIN_CHECK");
    // Without a value of its own the kernel must not touch the argument.
    const void* value = t.valueIsKeyPrefix != 0 ? nullptr : p.at.value;
    std::lock_guard<std::mutex> hold(g_machine);
    const cpu_twin::Report report =
        cpu_twin::Launch(asa_sparse_flash_attention_direct, p.blockDim, cpu_twin::KernelType::MixAic1_2, tensors, options,
                         Gm(p.at.query), Gm(p.at.key), Gm(value), Gm(p.at.sparseIndices), Gm(p.at.output), Gm(p.at.lse),
                         Gm(p.at.workspace), t);
    if (!report.ok()) {
        Fault(report.Text());
    }
}

// An exception must not leave through a callback of the runtime.
void RunQueued(void* argument)
{
    const std::unique_ptr<Pending> pending(static_cast<Pending*>(argument));
    try {
        RunNow(*pending);
    } catch (const std::exception& error) {
        Fault(error.what());
    }
    if (g_faulty) {
        std::fprintf(stderr, "sparse_flash_attention in the CPU twin:\n%s\n", TwinFindings().c_str());
    }
}

}  // namespace

const std::string& TwinDevice()
{
    static const std::string device = [] {
        const char* word = std::getenv("ASA_TWIN_DEVICE");
        return std::string(word != nullptr ? word : "Ascend910B2");
    }();
    return device;
}

int LaunchInTwin(uint32_t blockDim, void* stream, const KernelAddresses& at, const TilingData& tiling)
{
    if (stream == nullptr) {
        g_faulty = false;
        RunNow({blockDim, at, tiling});
        return g_faulty ? 1 : 0;
    }
    if (aclrtLaunchHostFunc == nullptr) {
        Fault("a stream was given, but no runtime is loaded that has aclrtLaunchHostFunc");
        return 1;
    }
    // As on a device, a fault shows at a later call.
    const int earlier = g_faulty.exchange(false) ? 1 : 0;
    auto pending = std::make_unique<Pending>(Pending{blockDim, at, tiling});
    const int status = aclrtLaunchHostFunc(stream, RunQueued, pending.get());
    if (status == 0) {
        pending.release();
    }
    return status != 0 ? status : earlier;
}

std::string TwinFindings()
{
    std::lock_guard<std::mutex> hold(g_findingsLock);
    return g_findings;
}

}  // namespace asa

size_t asa_twin_findings(char* text, size_t capacity)
{
    const std::string findings = asa::TwinFindings();
    if (capacity > 0) {
        const size_t length = std::min(capacity - 1, findings.size());
        std::memcpy(text, findings.data(), length);
        text[length] = '\0';
    }
    return findings.size();
}
