// SPDX-License-Identifier: Apache-2.0
#include "instr.h"

#include <algorithm>

namespace cpu_twin {
namespace {

constexpr uint32_t kPageBytes = 1u << kPageShift;

const char* TouchVerb(Touch kind) {
    switch (kind) {
        case Touch::Read: return "reads";
        case Touch::Write: return "writes";
        case Touch::Atomic: return "atomically updates";
        case Touch::None: break;
    }
    return "touches";
}

// Adapter between RangeMap and the core's clocks.
struct LocalContext {
    Core& core;
    Mem mem;
    bool Ordered(const Access& earlier, const Access& now) const { return IsOrdered(core, earlier, now); }
    void Conflict(const Access& earlier, const Access& now, uint32_t begin, uint32_t end) const {
        AddRace(core, earlier, now, std::string(MemName(mem)) + " " + Range(begin, end));
    }
};

struct GlobalContext {
    Core& core;
    uint32_t tensor;
    uint64_t pageBase;
    bool Ordered(const Access& earlier, const Access& now) const { return IsOrdered(core, earlier, now); }
    void Conflict(const Access& earlier, const Access& now, uint32_t begin, uint32_t end) const {
        AddRace(core, earlier, now,
                "GM tensor '" + core.machine->tensors[tensor].name + "' " + Range(pageBase + begin, pageBase + end));
    }
};

void TouchGlobal(Core& core, uint32_t tensor, uint64_t begin, uint64_t end, const Access& access) {
    Block& block = *core.block;
    auto& pages = block.gm[tensor];
    while (begin < end) {
        const uint64_t page = begin >> kPageShift;
        const uint64_t base = page << kPageShift;
        const uint64_t to = std::min<uint64_t>(end, base + kPageBytes);
        if (!pages[page]) pages[page] = std::make_unique<RangeMap>();
        if (!block.pageDirty[tensor][page]) {
            block.pageDirty[tensor][page] = 1;
            block.dirtyPages.emplace_back(tensor, static_cast<uint32_t>(page));
        }
        GlobalContext context{core, tensor, base};
        pages[page]->Touch(static_cast<uint32_t>(begin - base), static_cast<uint32_t>(to - base), access, context);
        begin = to;
    }
}

}  // namespace

InstrScope::InstrScope(Op op, Pipe pipe, CoreKind kind, SourceLoc loc) : core(Current()) {
    instr.op = op;
    instr.pipe = pipe;
    instr.core = core.index;
    if (core.aborting) {
        failed_ = true;
        return;
    }
    site = ResolveSite(core, loc);
    instr.site = site;
    if (core.kind != kind && pipe != Pipe::S) {
        Fail(Rule::WrongCore, std::string(OpName(op)) + " is issued on an " + (core.kind == CoreKind::AIC ? "AIC" : "AIV") + " core",
             std::string("only ") + (kind == CoreKind::AIC ? "AIC" : "AIV") + " cores have this instruction; guard the call with " +
                 (kind == CoreKind::AIC ? "ASCEND_IS_AIC" : "ASCEND_IS_AIV"));
    }
}

void InstrScope::Fail(Rule rule, const std::string& what, const std::string& help) {
    if (core.aborting) return;
    failed_ = true;
    AddFinding(core, rule, site, 0, [&] { return what + "\n  help: " + help; });
}

uint64_t InstrScope::Offset(Mem mem, const void* p, uint32_t align, const char* operand) {
    const int m = static_cast<int>(mem);
    const uint8_t* address = static_cast<const uint8_t*>(p);
    const uint8_t* base = core.base[m];
    if (base == nullptr || address < base || address > base + core.bytes[m]) {
        if (failed_) return 0;
        const Mem actual = MemOf(p);
        Fail(Rule::OutOfRange,
             std::string(OpName(instr.op)) + ": " + operand + " must lie in this core's " + MemName(mem) + ", but its address is " +
                 (actual == Mem::None ? "in no memory of this core" : std::string("in ") + MemName(actual)),
             std::string("pass an address within ") + MemName(mem));
        return 0;
    }
    const uint64_t offset = static_cast<uint64_t>(address - base);
    if (align > 1 && offset % align != 0) {
        Fail(Rule::Misaligned,
             std::string(OpName(instr.op)) + ": " + operand + " is at " + MemName(mem) + " byte " + std::to_string(offset) +
                 ", which is not a multiple of " + std::to_string(align),
             "align the start of this operand to " + std::to_string(align) + " bytes");
    }
    return offset;
}

void InstrScope::Push(const Box& box) {
    if (boxCount_ < 8) {
        boxes_[boxCount_++] = box;
    } else {
        more_.push_back(box);
    }
}

void InstrScope::Local(Mem mem, Touch kind, uint64_t begin, uint64_t bytes, uint32_t count, int64_t stride, uint8_t aux,
                       const char* operand) {
    if (failed_ || bytes == 0 || count == 0) return;
    if (count > 1 && stride == static_cast<int64_t>(bytes)) {
        bytes *= count;
        count = 1;
    }
    const uint64_t end = begin + bytes + static_cast<uint64_t>(stride) * (count - 1);
    if (end > core.bytes[static_cast<int>(mem)]) {
        Fail(Rule::OutOfRange,
             std::string(OpName(instr.op)) + " " + TouchVerb(kind) + (*operand ? std::string(" ") + operand + "," : "") + " " +
                 MemName(mem) + " " + Range(begin, end) + ", past its end at byte " +
                 std::to_string(core.bytes[static_cast<int>(mem)]),
             "shrink the operand or move its buffer; count repeats and strides in 32-byte blocks");
        return;
    }
    Push({mem, kind, 0, aux, count, begin, bytes, stride});
}

void InstrScope::Global(Touch kind, const void* p, uint64_t bytes, uint32_t count, int64_t stride, uint8_t aux,
                        const char* operand) {
    if (failed_ || bytes == 0 || count == 0) return;
    if (count > 1 && stride == static_cast<int64_t>(bytes)) {
        bytes *= count;
        count = 1;
        stride = 0;
    }
    const uint8_t* address = static_cast<const uint8_t*>(p);
    const int64_t span = stride * static_cast<int64_t>(count - 1);
    const uint8_t* low = span < 0 ? address + span : address;
    const uint8_t* high = (span < 0 ? address : address + span) + bytes;
    const auto& tensors = core.machine->tensors;
    uint32_t t = core.lastTensor;
    if (t >= tensors.size() || low < tensors[t].begin || low >= tensors[t].begin + tensors[t].bytes) {
        auto it = std::upper_bound(tensors.begin(), tensors.end(), low,
                                   [](const uint8_t* a, const TensorInfo& info) { return a < info.begin; });
        t = it == tensors.begin() ? UINT32_MAX : static_cast<uint32_t>(it - tensors.begin() - 1);
    }
    if (t == UINT32_MAX || low >= tensors[t].begin + tensors[t].bytes || high > tensors[t].begin + tensors[t].bytes) {
        std::string where;
        if (t == UINT32_MAX) {
            where = "an address below every tensor of this launch";
        } else {
            const TensorInfo& info = tensors[t];
            const uint64_t from = static_cast<uint64_t>(low - info.begin), to = static_cast<uint64_t>(high - info.begin);
            where = "tensor '" + info.name + "' " + Range(from, to) + ", but the tensor ends at byte " + std::to_string(info.bytes);
        }
        Fail(Rule::OutOfRange,
             std::string(OpName(instr.op)) + " " + TouchVerb(kind) + (*operand ? std::string(" ") + operand + ":" : "") + " " +
                 std::to_string(count) + (count == 1 ? " piece of " : " pieces of ") + std::to_string(bytes) +
                 " bytes from GM, at " + where,
             "check the offset, the piece length and the stride (bytes or elements?) against the tensor's shape");
        return;
    }
    core.lastTensor = static_cast<uint16_t>(t);
    const TensorInfo& info = tensors[t];
    if (kind != Touch::Read && info.use == Use::In) {
        Fail(Rule::ReadOnlyWritten,
             std::string(OpName(instr.op)) + " writes GM tensor '" + info.name + "', which the launch declares as an input",
             "write to an output or workspace tensor, or declare this one InOut");
        return;
    }
    instr.l2Bypass = core.l2Bypass;
    const uint64_t offset = static_cast<uint64_t>(address - info.begin);
    Operand& side = kind == Touch::Read ? instr.src0 : instr.dst;
    if (side.mem != Mem::GM) {
        side.mem = Mem::GM;
        side.tensor = static_cast<uint16_t>(t);
        side.offset = offset;
        instr.gmPieces = count;
        instr.gmPieceBytes = bytes;
        instr.gmPieceStride = stride;
    } else if (instr.gmGroups == 1) {  // several matrices of one copy: the first names the operand
        instr.gmGroupStride = static_cast<int64_t>(offset) - static_cast<int64_t>(side.offset);
    }
    ++instr.gmGroups;
    (kind == Touch::Read ? core.stats.gmReadBytes : core.stats.gmWriteBytes) += bytes * count;
    if (kind == Touch::Read && core.dirtyLines > 0 && instr.pipe != Pipe::S) CheckDirtyLines(core, low, high, site);
    if (kind == Touch::Read && info.use == Use::In) return;  // nothing can conflict with it
    Push({Mem::GM, kind, static_cast<uint16_t>(t), aux, count, offset, bytes, stride});
}

bool InstrScope::Commit() {
    if (failed_) return false;
    Machine& machine = *core.machine;
    const int p = static_cast<int>(instr.pipe);
    PipeState& pipe = core.pipe[p];
    pipe.lastOp = instr.op;
    pipe.lastSite = site;
    ++pipe.count;
    ++core.stats.instructions;
    ++core.stats.perOp[static_cast<size_t>(instr.op)];
    if (machine.options.check) {
        JoinScalar(core, instr.pipe);
        Access access;
        access.pipe = core.GlobalPipe(instr.pipe);
        access.epoch = pipe.epoch;
        access.site = site;
        access.op = static_cast<uint8_t>(instr.op);
        access.instr = instr.pipe == Pipe::V ? static_cast<uint8_t>(pipe.count) : 0;
        access.remote = pipe.know.remote == nullptr ? 0 : pipe.know.remote->index;
        const int total = boxCount_ + static_cast<int>(more_.size());
        // Reads first: within one instruction they come before the writes.
        for (int pass = 0; pass < 2; ++pass) {
            for (int i = 0; i < total; ++i) {
                const Box& box = i < 8 ? boxes_[i] : more_[static_cast<size_t>(i - 8)];
                if ((box.kind == Touch::Read) != (pass == 0)) continue;
                access.kind = box.kind;
                access.aux = box.aux;
                int64_t at = static_cast<int64_t>(box.begin);
                for (uint32_t k = 0; k < box.count; ++k, at += box.stride) {
                    if (box.mem == Mem::GM) {
                        TouchGlobal(core, box.tensor, static_cast<uint64_t>(at), static_cast<uint64_t>(at) + box.bytes, access);
                    } else {
                        LocalContext context{core, box.mem};
                        core.shadow[static_cast<int>(box.mem)].Touch(static_cast<uint32_t>(at),
                                                                     static_cast<uint32_t>(at + static_cast<int64_t>(box.bytes)),
                                                                     access, context);
                    }
                }
            }
        }
    }
    if (machine.record) {
        core.records.push_back(instr);
        if (core.records.size() >= kRecordQuantum) YieldCore(core, CoreState::RecordsFull);
    }
    return true;
}

}  // namespace cpu_twin
