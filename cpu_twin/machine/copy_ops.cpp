// SPDX-License-Identifier: Apache-2.0
// Copies between GM, L1, UB, BT and FB.
#include <algorithm>

#include "instr.h"
#include "kernels.h"

namespace cpu_twin {

void StoreToGm(const Core& core, uint8_t* dst, const uint8_t* src, uint64_t bytes) {
    if (core.atomicType == ATOMIC_NONE) {
        std::memcpy(dst, src, bytes);
    } else {
        if (core.machine->atomicOrder != nullptr) core.machine->atomicOrder->WaitForTurn(core.block->position);
        kernels::Atomic(core.atomicType, core.atomicOp, dst, src, bytes);
    }
}

uint32_t AtomicBytes(atomic_type_t type) {
    switch (type) {
        case ATOMIC_F32: case ATOMIC_S32: return 4;
        case ATOMIC_F16: case ATOMIC_S16: case ATOMIC_BF16: return 2;
        case ATOMIC_S8: return 1;
        case ATOMIC_NONE: break;
    }
    return 1;
}

namespace ops {
namespace {

struct CopyForm {
    Mem from, to;
    Pipe pipe;
    CoreKind kind;
    uint32_t lenUnit, srcUnit, dstUnit, localAlign;
};

CopyForm FormOf(Op op) {
    switch (op) {
        case Op::copy_gm_to_ubuf: return {Mem::GM, Mem::UB, Pipe::MTE2, CoreKind::AIV, 32, 32, 32, 32};
        case Op::copy_ubuf_to_gm: return {Mem::UB, Mem::GM, Pipe::MTE3, CoreKind::AIV, 32, 32, 32, 32};
        case Op::copy_gm_to_cbuf: return {Mem::GM, Mem::L1, Pipe::MTE2, CoreKind::AIC, 32, 32, 32, 32};
        case Op::copy_cbuf_to_gm: return {Mem::L1, Mem::GM, Pipe::MTE3, CoreKind::AIC, 32, 32, 32, 32};
        default: return {Mem::L1, Mem::FB, Pipe::FIX, CoreKind::AIC, 128, 32, 128, 128};  // copy_cbuf_to_fbuf
    }
}

void BurstLimits(InstrScope& s, uint32_t n, uint32_t len, uint32_t lenLimit) {
    s.Require(n >= 1 && n <= 4095, Rule::RepeatLimit, std::string(OpName(s.instr.op)) + ": blockCount is " + std::to_string(n),
              "blockCount must be 1 to 4095; split the copy or skip it when there is nothing to copy");
    s.Require(len >= 1 && len <= lenLimit, Rule::RepeatLimit, std::string(OpName(s.instr.op)) + ": blockLen is " + std::to_string(len),
              "blockLen must be 1 to " + std::to_string(lenLimit) + "; split the copy");
}

}  // namespace

void CopyBlocks(Op op, void* dst, const void* src, uint32_t n, uint32_t len, uint32_t srcGap, uint32_t dstGap, uint32_t pad,
                SourceLoc loc) {
    const CopyForm form = FormOf(op);
    InstrScope s(op, form.pipe, form.kind, loc);
    BurstLimits(s, n, len, 65535);
    s.Require(pad == 0, Rule::BadArgument, "copy_gm_to_cbuf: pad mode " + std::to_string(pad) + " is not modelled", "use PAD_NONE");
    const uint64_t bytes = static_cast<uint64_t>(len) * form.lenUnit;
    const int64_t srcStride = static_cast<int64_t>(bytes + static_cast<uint64_t>(srcGap) * form.srcUnit);
    const int64_t dstStride = static_cast<int64_t>(bytes + static_cast<uint64_t>(dstGap) * form.dstUnit);
    s.instr.bytes = bytes * n;
    s.instr.pieces = n;
    s.instr.pieceBytes = static_cast<uint32_t>(bytes);
    auto side = [&](Mem mem, Touch kind, const void* p, int64_t stride, const char* operand, Operand& out) {
        if (mem == Mem::GM) {
            const uint8_t aux = kind == Touch::Read ? 0 : AtomicAux(s.core);
            s.instr.atomic = aux != 0;
            s.Global(aux != 0 ? Touch::Atomic : kind, p, bytes, n, stride, aux, operand);
        } else {
            out.mem = mem;
            out.offset = s.Offset(mem, p, kind == Touch::Read ? 32 : form.localAlign, operand);
            s.Local(mem, kind, out.offset, bytes, n, stride, 0, operand);
        }
    };
    side(form.from, Touch::Read, src, srcStride, "src", s.instr.src0);
    side(form.to, Touch::Write, dst, dstStride, "dst", s.instr.dst);
    if (!s.Commit()) return;
    auto* to = static_cast<uint8_t*>(dst);
    auto* from = static_cast<const uint8_t*>(src);
    for (uint32_t i = 0; i < n; ++i, to += dstStride, from += srcStride) {
        if (form.to == Mem::GM) StoreToGm(s.core, to, from, bytes); else std::memcpy(to, from, bytes);
    }
}

void CopyUbToUb(void* dst, const void* src, uint32_t n, uint32_t len, uint32_t srcGap, uint32_t dstGap, SourceLoc loc) {
    InstrScope s(Op::copy_ubuf_to_ubuf, Pipe::V, CoreKind::AIV, loc);
    BurstLimits(s, n, len, 65535);
    const uint64_t bytes = static_cast<uint64_t>(len) * 32;
    const int64_t srcStride = static_cast<int64_t>(bytes + srcGap * 32ull), dstStride = static_cast<int64_t>(bytes + dstGap * 32ull);
    s.instr.bytes = bytes * n;
    s.instr.pieces = n;
    s.instr.pieceBytes = static_cast<uint32_t>(bytes);
    s.instr.src0 = {Mem::UB, DType::None, 0, 0, 0, s.Offset(Mem::UB, src, 32, "src")};
    s.instr.dst = {Mem::UB, DType::None, 0, 0, 0, s.Offset(Mem::UB, dst, 32, "dst")};
    s.Local(Mem::UB, Touch::Read, s.instr.src0.offset, bytes, n, srcStride, 0, "src");
    s.Local(Mem::UB, Touch::Write, s.instr.dst.offset, bytes, n, dstStride, 0, "dst");
    if (!s.Commit()) return;
    auto* to = static_cast<uint8_t*>(dst);
    auto* from = static_cast<const uint8_t*>(src);
    for (uint32_t i = 0; i < n; ++i, to += dstStride, from += srcStride) std::memmove(to, from, bytes);
}

// The GM side advances by lenBytes + gmGap bytes a row. The UB side holds each row with its padding, rounded up to 32 bytes, then
// ubGap blocks. What fills up to 32 bytes beyond the explicit padding is the padding value only if padding was asked for; otherwise the
// row's first element.
void CopyGmToUbAlign(uint32_t elemBytes, void* dst, const void* src, uint32_t n, uint32_t lenBytes, uint32_t leftPad,
                     uint32_t rightPad, uint32_t gmGap, uint32_t ubGap, SourceLoc loc) {
    InstrScope s(Op::copy_gm_to_ubuf_align, Pipe::MTE2, CoreKind::AIV, loc);
    BurstLimits(s, n, lenBytes, 2097151);
    s.Require(lenBytes % elemBytes == 0, Rule::BadArgument,
              "DataCopyPad: blockLen of " + std::to_string(lenBytes) + " bytes is not a multiple of the element size " + std::to_string(elemBytes),
              "blockLen counts bytes");
    s.Require(leftPad * elemBytes <= 32 && rightPad * elemBytes <= 32, Rule::BadArgument,
              "DataCopyPad: padding of " + std::to_string(leftPad) + " and " + std::to_string(rightPad) + " elements exceeds 32 bytes",
              "pad at most 32 bytes on each side");
    const uint64_t row = static_cast<uint64_t>(leftPad + rightPad) * elemBytes + lenBytes;
    const uint64_t padded = (row + 31) / 32 * 32;
    const int64_t srcStride = static_cast<int64_t>(lenBytes) + gmGap;
    const int64_t dstStride = static_cast<int64_t>(padded + ubGap * 32ull);
    s.instr.bytes = static_cast<uint64_t>(lenBytes) * n;
    s.instr.pieces = n;
    s.instr.pieceBytes = lenBytes;
    s.Global(Touch::Read, src, lenBytes, n, srcStride, 0, "src");
    s.instr.dst = {Mem::UB, DType::None, 0, 0, 0, s.Offset(Mem::UB, dst, 32, "dst")};
    s.Local(Mem::UB, Touch::Write, s.instr.dst.offset, padded, n, dstStride, 0, "dst");
    if (!s.Commit()) return;
    auto* to = static_cast<uint8_t*>(dst);
    auto* from = static_cast<const uint8_t*>(src);
    const uint64_t pad = s.core.reg[static_cast<size_t>(Reg::MovPadVal)];
    for (uint32_t i = 0; i < n; ++i, to += dstStride, from += srcStride) {
        std::memcpy(to + leftPad * elemBytes, from, lenBytes);
        if (padded == lenBytes) continue;
        const bool explicitPad = leftPad + rightPad > 0;
        auto fill = [&](uint64_t begin, uint64_t end, const void* value) {
            for (uint64_t at = begin; at + elemBytes <= end; at += elemBytes) std::memcpy(to + at, value, elemBytes);
        };
        fill(0, leftPad * elemBytes, &pad);
        const uint64_t right = leftPad * elemBytes + lenBytes;
        fill(right, padded, explicitPad ? static_cast<const void*>(&pad) : from);
    }
}

void CopyUbToGmAlign(uint32_t elemBytes, void* dst, const void* src, uint32_t n, uint32_t lenBytes, uint32_t ubGap, uint32_t gmGap,
                     SourceLoc loc) {
    InstrScope s(Op::copy_ubuf_to_gm_align, Pipe::MTE3, CoreKind::AIV, loc);
    BurstLimits(s, n, lenBytes, 2097151);
    s.Require(lenBytes % elemBytes == 0, Rule::BadArgument,
              "DataCopyPad: blockLen of " + std::to_string(lenBytes) + " bytes is not a multiple of the element size " + std::to_string(elemBytes),
              "blockLen counts bytes");
    const int64_t srcStride = static_cast<int64_t>((lenBytes + 31ull) / 32 * 32 + ubGap * 32ull);
    const int64_t dstStride = static_cast<int64_t>(lenBytes) + gmGap;
    s.instr.bytes = static_cast<uint64_t>(lenBytes) * n;
    s.instr.pieces = n;
    s.instr.pieceBytes = lenBytes;
    const uint8_t aux = AtomicAux(s.core);
    s.instr.atomic = aux != 0;
    s.instr.src0 = {Mem::UB, DType::None, 0, 0, 0, s.Offset(Mem::UB, src, 32, "src")};
    s.Local(Mem::UB, Touch::Read, s.instr.src0.offset, lenBytes, n, srcStride, 0, "src");
    s.Global(aux != 0 ? Touch::Atomic : Touch::Write, dst, lenBytes, n, dstStride, aux, "dst");
    if (!s.Commit()) return;
    auto* to = static_cast<uint8_t*>(dst);
    auto* from = static_cast<const uint8_t*>(src);
    for (uint32_t i = 0; i < n; ++i, to += dstStride, from += srcStride) StoreToGm(s.core, to, from, lenBytes);
}

// ND matrices of n rows by d columns, row stride srcD elements, become NZ: columns of 32-byte-wide fractal rows. dstC0Stride is the
// distance between such columns, dstNStride between rows, both in 32-byte blocks; dstMatrixStride in elements.
// The tail of the last column is filled with zero.
void Nd2Nz(uint32_t elemBytes, void* dst, const void* src, uint32_t ndNum, uint32_t n, uint32_t d, uint32_t srcMatrixStride,
           uint32_t srcD, uint32_t dstC0Stride, uint32_t dstNStride, uint32_t dstMatrixStride, SourceLoc loc) {
    InstrScope s(Op::copy_gm_to_cbuf_nd2nz, Pipe::MTE2, CoreKind::AIC, loc);
    const uint32_t c0 = 32 / elemBytes;
    s.Require(ndNum >= 1 && ndNum <= 4095, Rule::RepeatLimit, "nd2nz: ndNum is " + std::to_string(ndNum), "ndNum must be 1 to 4095");
    s.Require(n >= 1 && n <= 16384, Rule::RepeatLimit, "nd2nz: nValue is " + std::to_string(n), "nValue must be 1 to 16384");
    s.Require(d >= 1 && d <= 65535, Rule::RepeatLimit, "nd2nz: dValue is " + std::to_string(d), "dValue must be 1 to 65535");
    s.Require(srcD >= 1, Rule::StrideLimit, "nd2nz: srcDValue is " + std::to_string(srcD),
              "srcDValue is the row stride in elements, 1 to 65535; longer rows need one copy a row");
    s.Require(dstNStride >= 1 && dstNStride <= 16384, Rule::StrideLimit, "nd2nz: dstNzNStride is " + std::to_string(dstNStride),
              "dstNzNStride must be 1 to 16384 blocks");
    s.Require(dstC0Stride >= 1 && dstC0Stride <= 16384, Rule::StrideLimit, "nd2nz: dstNzC0Stride is " + std::to_string(dstC0Stride),
              "dstNzC0Stride must be 1 to 16384 blocks");
    const uint32_t columns = (d + c0 - 1) / c0;
    s.instr.nd = true;
    s.instr.bytes = static_cast<uint64_t>(n) * d * elemBytes * ndNum;
    s.instr.pieces = n * ndNum;
    s.instr.pieceBytes = d * elemBytes;
    s.instr.n = static_cast<uint16_t>(n);
    s.instr.dst = {Mem::L1, DType::None, 0, 0, 0, s.Offset(Mem::L1, dst, 32, "dst")};
    auto* from = static_cast<const uint8_t*>(src);
    for (uint32_t matrix = 0; matrix < ndNum; ++matrix) {
        const uint64_t base = s.instr.dst.offset + static_cast<uint64_t>(matrix) * dstMatrixStride * elemBytes;
        s.Global(Touch::Read, from + static_cast<uint64_t>(matrix) * srcMatrixStride * elemBytes, static_cast<uint64_t>(d) * elemBytes, n,
                 static_cast<int64_t>(srcD) * elemBytes, 0, "src");
        if (dstNStride == 1) {
            s.Local(Mem::L1, Touch::Write, base, static_cast<uint64_t>(n) * 32, columns, static_cast<int64_t>(dstC0Stride) * 32, 0, "dst");
        } else {
            for (uint32_t c = 0; c < columns; ++c) {
                s.Local(Mem::L1, Touch::Write, base + static_cast<uint64_t>(c) * dstC0Stride * 32, 32, n,
                        static_cast<int64_t>(dstNStride) * 32, 0, "dst");
            }
        }
    }
    if (!s.Commit()) return;
    for (uint32_t matrix = 0; matrix < ndNum; ++matrix) {
        auto* to = static_cast<uint8_t*>(dst) + static_cast<uint64_t>(matrix) * dstMatrixStride * elemBytes;
        const uint8_t* rows = from + static_cast<uint64_t>(matrix) * srcMatrixStride * elemBytes;
        const uint32_t whole = d / c0, tail = d % c0 * elemBytes;
        for (uint32_t row = 0; row < n; ++row) {
            const uint8_t* in = rows + static_cast<uint64_t>(row) * srcD * elemBytes;
            uint8_t* out = to + static_cast<uint64_t>(row) * dstNStride * 32;
            for (uint32_t c = 0; c < whole; ++c, in += 32, out += static_cast<uint64_t>(dstC0Stride) * 32) std::memcpy(out, in, 32);
            if (tail != 0) {
                std::memcpy(out, in, tail);
                std::memset(out + tail, 0, 32 - tail);
            }
        }
    }
}

void CopyToBiasTable(uint64_t dst, const void* src, uint32_t conv, uint32_t n, uint32_t len, uint32_t srcGap, uint32_t dstGap,
                     SourceLoc loc) {
    InstrScope s(Op::copy_cbuf_to_bt, Pipe::MTE1, CoreKind::AIC, loc);
    BurstLimits(s, n, len, 65535);
    // `conv` widens float16 to float32: each 64-byte burst of the table then takes 32 bytes of L1.
    s.Require(conv <= 1, Rule::BadArgument, "copy_cbuf_to_bt: convControl is " + std::to_string(conv), "use 0, or 1 for float16 to float32");
    const uint64_t dstBytes = len * 64ull, srcBytes = conv != 0 ? dstBytes / 2 : dstBytes;
    const int64_t srcStride = static_cast<int64_t>(srcBytes + srcGap * 32ull), dstStride = static_cast<int64_t>(dstBytes + dstGap * 64ull);
    const uint64_t base = reinterpret_cast<uintptr_t>(s.core.base[static_cast<int>(Mem::BT)]);
    // Under the public headers the address is a host pointer; as the hardware has it, an offset into the table.
    const uint64_t offset = base != 0 && dst >= base && dst < base + kBtBytes ? dst - base : dst;
    s.Require(offset % 64 == 0, Rule::Misaligned, "copy_cbuf_to_bt: dst is at BT byte " + std::to_string(offset), "align it to 64 bytes");
    s.instr.bytes = dstBytes * n;
    s.instr.pieces = n;
    s.instr.pieceBytes = static_cast<uint32_t>(dstBytes);
    s.instr.src0 = {Mem::L1, DType::None, 0, 0, 0, s.Offset(Mem::L1, src, 32, "src")};
    s.instr.dst = {Mem::BT, DType::None, 0, 0, 0, offset};
    s.Local(Mem::L1, Touch::Read, s.instr.src0.offset, srcBytes, n, srcStride, 0, "src");
    s.Local(Mem::BT, Touch::Write, offset, dstBytes, n, dstStride, 0, "dst");
    if (!s.Commit()) return;
    for (uint32_t i = 0; i < n; ++i) {
        uint8_t* to = s.core.base[static_cast<int>(Mem::BT)] + offset + static_cast<uint64_t>(dstStride) * i;
        auto* from = static_cast<const uint8_t*>(src) + static_cast<uint64_t>(srcStride) * i;
        if (conv == 0) {
            std::memcpy(to, from, dstBytes);
        } else {
            kernels::HalfToFloatN(reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(from), dstBytes / 4);
        }
    }
}

}  // namespace ops
}  // namespace cpu_twin
