// SPDX-License-Identifier: Apache-2.0
// Sites, names, and the wording of findings.
#include <algorithm>
#include <sstream>

#include "core.h"

namespace cpu_twin {

const char* PipeName(Pipe p) {
    static const char* const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
    return names[static_cast<int>(p)];
}

const char* MemName(Mem m) {
    static const char* const names[] = {"no memory", "GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB"};
    return names[static_cast<int>(m)];
}

const char* DTypeName(DType t) {
    static const char* const names[] = {"none",  "uint8",   "int8",     "uint16",  "int16", "uint32", "int32", "uint64", "int64",
                                        "float16", "bfloat16", "float32", "b8", "b16", "b32"};
    return names[static_cast<int>(t)];
}

const char* OpName(Op op) {
    static const char* const names[] = {
        "vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vand", "vor", "vaddrelu", "vsubrelu", "vmadd", "vmaddrelu", "vmla",
        "vexp", "vln", "vabs", "vrec", "vsqrt", "vrsqrt", "vrelu", "vnot",
        "vadds", "vmuls", "vmaxs", "vmins", "vlrelu", "vshl", "vshr", "vaxpy",
        "vector_dup", "vbrcb", "vcopy", "vconv", "vcmp", "vcmpv", "vcmpvs", "vsel", "set_cmpmask", "get_cmpmask",
        "vreducev2", "vgather", "vgatherb", "vcadd", "vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin", "vcpadd",
        "vbitsort", "vmrgsort4", "vnchwconv", "vtranspose", "copy_ubuf_to_ubuf",
        "copy_gm_to_ubuf", "copy_gm_to_ubuf_align", "copy_gm_to_cbuf", "copy_gm_to_cbuf_nd2nz", "load_gm_to_cbuf",
        "load_gm_to_ca", "load_gm_to_cb", "create_cbuf_matrix",
        "load_cbuf_to_ca", "load_cbuf_to_cb", "load_cbuf_to_ca_transpose", "load_cbuf_to_cb_transpose",
        "img2colv2_cbuf_to_ca", "img2colv2_cbuf_to_cb", "create_ca_matrix", "create_cb_matrix", "copy_cbuf_to_bt",
        "mad", "copy_matrix_cc_to_gm", "copy_matrix_cc_to_cbuf", "copy_cbuf_to_fbuf",
        "copy_ubuf_to_gm", "copy_ubuf_to_gm_align", "copy_cbuf_to_gm",
        "scalar_load", "scalar_store", "dcci", "scalar_work",
        "set_flag", "wait_flag", "pipe_barrier", "ffts_cross_core_sync", "wait_flag_dev"};
    static_assert(sizeof(names) / sizeof(names[0]) == static_cast<size_t>(Op::Count));
    return names[static_cast<int>(op)];
}

const char* RuleName(Rule r) {
    static const char* const names[] = {
        "race", "out-of-range", "misaligned", "flag-set-twice", "flag-left-over", "flag-never-set", "counter-overflow",
        "counter-left-over", "reserved-flag-id", "stride-limit", "repeat-limit", "mask-limit", "bad-argument", "wrong-core",
        "read-only-written", "stale-cache-line", "dirty-cache-line", "unit-flag", "deadlock", "kernel-trap",
        "kernel-error"};
    static_assert(sizeof(names) / sizeof(names[0]) == static_cast<size_t>(Rule::KernelError) + 1);
    return names[static_cast<int>(r)];
}

uint32_t SiteTable::Intern(const char* file, uint32_t line) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto [it, fresh] = byLine_.try_emplace({file, line}, static_cast<uint32_t>(entries_.size()));
    if (fresh) entries_.push_back({it->first.first.c_str(), line, {}, {}, false});
    return it->second;
}

uint32_t SiteTable::InternStack(const std::vector<void*>& frames) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto [it, fresh] = byStack_.try_emplace(frames, static_cast<uint32_t>(entries_.size()));
    if (fresh) entries_.push_back({nullptr, 0, frames, {}, false});
    return it->second;
}

Site SiteTable::Resolve(uint32_t site) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const Entry& entry = entries_[site];
    if (entry.file != nullptr) return {entry.file, entry.line};
    if (!entry.resolved) {  // then all that are not, which costs no more
        std::vector<const Entry*> open;
        std::vector<std::vector<void*>> stacks;
        for (const Entry& e : entries_) {
            if (e.file != nullptr || e.resolved) continue;
            open.push_back(&e);
            stacks.push_back(e.frames);
        }
        std::vector<Site> found;
        Symbolise(stacks, found);
        for (size_t i = 0; i < open.size(); ++i) {
            open[i]->site = found[i];
            open[i]->resolved = true;
        }
    }
    return entry.site;
}

size_t SiteTable::Size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return entries_.size();
}

uint32_t ResolveSite(Core& core, SourceLoc loc) {
    if (core.machine->options.backtrace && !core.hasScopedLoc) return ResolveStackSite(core);
    if (core.hasScopedLoc) loc = core.scopedLoc;
    auto& slot = core.siteCache[(reinterpret_cast<uintptr_t>(loc.file) / 8 * 31 + loc.line) % core.siteCache.size()];
    if (slot.key != loc.file || slot.line != loc.line) slot = {loc.file, loc.line, core.machine->sites.Intern(loc.file, loc.line)};
    return slot.site;
}

namespace {
std::string BaseName(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

Pipe PipeOf(const Access& a) { return static_cast<Pipe>(a.pipe % kPipes); }

std::string CoreTextOf(const Machine& machine, uint32_t core) { return CoreText(*machine.cores[core]); }

const char* Verb(Touch kind) {
    return kind == Touch::Read ? "read" : kind == Touch::Write ? "write" : "atomic update";
}
}  // namespace

std::string SyncSite::Key() const {
    std::string key = OpName(op);
    switch (op) {
        case Op::set_flag:
        case Op::wait_flag:
            key += std::string(" ") + PipeName(from) + "_" + PipeName(to);
            break;
        case Op::pipe_barrier:
            key += from == to ? std::string(" ") + PipeName(from) : " ALL";
            break;
        case Op::ffts_cross_core_sync:
            key += std::string(" ") + PipeName(from);
            break;
        default:
            break;
    }
    return key + " " + BaseName(file) + ":" + std::to_string(line);
}

std::string CoreText(const Core& core) {
    std::ostringstream out;
    out << (core.kind == CoreKind::AIC ? "AIC" : "AIV") << " of block " << core.block->index;
    if (core.kind == CoreKind::AIV && core.block->cores.size() > 1) out << ", sub-block " << core.subBlock;
    return out.str();
}

std::string SiteText(const Machine& machine, uint32_t site) {
    const Site where = machine.sites.Resolve(site);
    if (where.file.empty()) return "<unknown>";
    return where.file + ":" + std::to_string(where.line);
}

std::string Range(uint64_t begin, uint64_t end) {
    return "bytes " + std::to_string(begin) + ".." + std::to_string(end == begin ? begin : end - 1);
}

void AddFinding(Core& core, Rule rule, uint32_t site, uint32_t otherSite, const std::function<std::string()>& text) {
    Block& block = *core.block;
    const std::array<uint32_t, 3> key{static_cast<uint32_t>(rule), site, otherSite};
    auto [it, fresh] = block.findingIndex.try_emplace(key, block.findings.size());
    if (!fresh) {
        if (it->second < block.findings.size()) ++block.findings[it->second].count;
        return;
    }
    if (block.findings.size() >= core.machine->options.maxFindings) {
        it->second = SIZE_MAX;
        ++block.findingsDropped;
        return;
    }
    Finding f;
    f.rule = rule;
    f.core = core.index;
    const Site where = core.machine->sites.Resolve(site);
    f.file = where.file;
    f.line = where.line;
    if (otherSite != 0) {
        const Site other = core.machine->sites.Resolve(otherSite);
        f.otherFile = other.file;
        f.otherLine = other.line;
    }
    f.message = SiteText(*core.machine, site) + ": error: " + RuleName(rule) + ": " + text() + "\n  on " + CoreText(core);
    block.findings.push_back(std::move(f));
}

namespace {
std::string RaceAdvice(const Machine& machine, const Access& earlier, const Access& now) {
    const uint32_t coreA = earlier.pipe / kPipes, coreB = now.pipe / kPipes;
    const Pipe a = PipeOf(earlier), b = PipeOf(now);
    if (coreA != coreB) {
        const Core& first = *machine.cores[coreA];
        const Core& second = *machine.cores[coreB];
        if (first.block == second.block) {
            return std::string("CrossCoreSetFlag<") + (first.kind == second.kind ? "1" : "2") + ", PIPE_" + PipeName(a) +
                   ">(id) after the first, CrossCoreWaitFlag(id) before the second";
        }
        return "the blocks must not touch the same bytes, or SyncAll() must lie between the two";
    }
    if (a == b) {
        if (a == Pipe::M) {
            return "PipeBarrier<PIPE_M>() between them: tiles under 10 fractals are not ordered by the cube itself";
        }
        return std::string("PipeBarrier<PIPE_") + PipeName(a) + ">() between them";
    }
    const std::string event = std::string(PipeName(a)) + "_" + PipeName(b);
    return "SetFlag<HardEvent::" + event + ">(id) after the first, WaitFlag<HardEvent::" + event + ">(id) before the second";
}
}  // namespace

void AddRace(Core& core, const Access& earlier, const Access& now, const std::string& where) {
    const Machine& machine = *core.machine;
    AddFinding(core, Rule::Race, now.site, earlier.site, [&] {
        std::ostringstream out;
        out << Verb(now.kind) << " of " << where << " by " << OpName(static_cast<Op>(now.op)) << " on PIPE_" << PipeName(PipeOf(now))
            << " is not ordered after an earlier " << Verb(earlier.kind) << "\n  " << SiteText(machine, earlier.site) << ": the "
            << Verb(earlier.kind) << ": " << OpName(static_cast<Op>(earlier.op)) << " on PIPE_" << PipeName(PipeOf(earlier));
        if (earlier.pipe / kPipes != now.pipe / kPipes) out << " of " << CoreTextOf(machine, earlier.pipe / kPipes);
        out << "\n  help: " << RaceAdvice(machine, earlier, now);
        return out.str();
    });
}

std::string Report::Text() const {
    std::ostringstream out;
    for (const Finding& f : findings) {
        out << f.message;
        if (f.count > 1) out << "\n  seen " << f.count << " times";
        out << "\n";
    }
    if (findingsDropped > 0) out << findingsDropped << " further findings not shown\n";
    if (findings.empty()) out << "no findings\n";
    if (!dropUnmatched.empty()) out << "nothing was left out: no synchronisation of this run has the key '" << dropUnmatched << "'\n";
    for (const Timing& t : times) {
        out << "predicted (" << t.clock << "): " << t.microseconds << " us, " << t.cycles
            << " cycles. A prediction of the twin's cycle model, not a measurement.\n";
    }
    return out.str();
}

}  // namespace cpu_twin
