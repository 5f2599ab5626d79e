// SPDX-License-Identifier: Apache-2.0
// Source lines from return addresses, for kernels that reach the intrinsics through headers that pass no location.
// Needs a build with -fno-omit-frame-pointer and -g; the line is the innermost one outside those headers.
#include <dlfcn.h>

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

Site SymboliseFrame(void* frame) {
    Dl_info info{};
    if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) return {};
    // Position-independent objects are numbered from their load address.
    const uintptr_t address = reinterpret_cast<uintptr_t>(frame) - 1 - reinterpret_cast<uintptr_t>(info.dli_fbase);
    char command[4096];
    std::snprintf(command, sizeof(command), "addr2line -i -e '%s' 0x%zx 2>/dev/null", info.dli_fname, static_cast<size_t>(address));
    FILE* pipe = popen(command, "r");
    if (pipe == nullptr) return {};
    Site found;
    char line[2048];
    while (std::fgets(line, sizeof(line), pipe) != nullptr) {
        std::string text(line);
        const size_t colon = text.rfind(':');
        if (colon == std::string::npos || !found.file.empty()) continue;
        const std::string file = text.substr(0, colon);
        if (IsBelowKernel(file)) continue;
        found.file = file;
        found.line = static_cast<uint32_t>(std::strtoul(text.c_str() + colon + 1, nullptr, 10));
    }
    pclose(pipe);
    return found;
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

Site Symbolise(const std::vector<void*>& frames) {
    static std::mutex mutex;
    static std::map<void*, Site> known;
    for (void* frame : frames) {
        Site site;
        {
            std::lock_guard<std::mutex> lock(mutex);
            auto it = known.find(frame);
            if (it != known.end()) {
                site = it->second;
                if (!site.file.empty()) return site;
                continue;
            }
        }
        site = SymboliseFrame(frame);
        std::lock_guard<std::mutex> lock(mutex);
        known[frame] = site;
        if (!site.file.empty()) return site;
    }
    return {};
}

}  // namespace cpu_twin
