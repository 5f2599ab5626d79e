// SPDX-License-Identifier: Apache-2.0
// Source lines from return addresses, for kernels that reach the intrinsics through headers that pass no location.
// Needs a build with -fno-omit-frame-pointer and -g; the line is the innermost one outside those headers.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "core.h"

namespace cpu_twin {
namespace {

constexpr int kMaxFrames = 24;

// Directory names whose files are the headers below the kernel.
bool IsBelowKernel(const std::string& file) {
    const char* skip = std::getenv("CPU_TWIN_SKIP_PATHS");
    std::stringstream paths(skip != nullptr ? skip : "cpu_twin/");
    std::string part;
    while (std::getline(paths, part, ':')) {
        if (!part.empty() && file.find(part) != std::string::npos) return true;
    }
    return file.empty() || file[0] == '?';
}

// Asks addr2line about many return addresses of one object at once: it reads the debug information anew at each start.
void SymboliseObject(const std::string& object, const std::vector<std::pair<void*, uintptr_t>>& frames, std::map<void*, Site>& known) {
    constexpr size_t kPerCall = 2000;
    for (size_t first = 0; first < frames.size(); first += kPerCall) {
        std::string command = "addr2line -a -i -e '" + object + "'";
        const size_t last = std::min(frames.size(), first + kPerCall);
        for (size_t i = first; i < last; ++i) {
            char text[24];
            std::snprintf(text, sizeof(text), " 0x%zx", static_cast<size_t>(frames[i].second));
            command += text;
            known[frames[i].first] = {};
        }
        FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
        if (pipe == nullptr) return;
        size_t next = first;  // of each address comes a line 0x..., then file:line from the innermost inlined function outwards
        Site* site = nullptr;
        char buffer[4096];
        while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) {
            const std::string line(buffer);
            if (line.compare(0, 2, "0x") == 0) {
                if (next == last) break;
                site = &known[frames[next++].first];
                continue;
            }
            const size_t colon = line.rfind(':');
            if (site == nullptr || colon == std::string::npos || !site->file.empty()) continue;
            const std::string file = line.substr(0, colon);
            if (IsBelowKernel(file)) continue;
            site->file = file;
            site->line = static_cast<uint32_t>(std::strtoul(line.c_str() + colon + 1, nullptr, 10));
        }
        pclose(pipe);
    }
}

}  // namespace

uint32_t ResolveStackSite(Core& core) {
    std::vector<void*> frames;
    auto* frame = static_cast<void**>(__builtin_frame_address(0));
    for (int i = 0; i < kMaxFrames && frame != nullptr; ++i) {
        void* ret = frame[1];
        if (ret == nullptr) break;
        if (i > 0) frames.push_back(ret);
        auto* next = static_cast<void**>(frame[0]);
        if (next <= frame || reinterpret_cast<uintptr_t>(next) - reinterpret_cast<uintptr_t>(frame) > (1u << 20)) break;
        frame = next;
    }
    return core.machine->sites.InternStack(frames);
}

void Symbolise(const std::vector<std::vector<void*>>& stacks, std::vector<Site>& sites) {
    static std::mutex mutex;
    static std::map<void*, Site> known;
    std::lock_guard<std::mutex> lock(mutex);
    std::map<std::string, std::map<void*, uintptr_t>> unknown;
    for (const std::vector<void*>& frames : stacks) {
        for (void* frame : frames) {
            Dl_info info{};
            if (known.count(frame) != 0) continue;
            if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) {
                known[frame] = {};
                continue;
            }
            // Position-independent objects are numbered from their load address; the call lies before the return address.
            unknown[info.dli_fname][frame] = reinterpret_cast<uintptr_t>(frame) - 1 - reinterpret_cast<uintptr_t>(info.dli_fbase);
        }
    }
    for (const auto& [object, frames] : unknown) SymboliseObject(object, {frames.begin(), frames.end()}, known);
    sites.clear();
    for (const std::vector<void*>& frames : stacks) {
        Site site;
        for (size_t i = 0; i < frames.size() && site.file.empty(); ++i) site = known[frames[i]];
        sites.push_back(std::move(site));
    }
}

}  // namespace cpu_twin
