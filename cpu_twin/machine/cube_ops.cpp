// SPDX-License-Identifier: Apache-2.0
// Loads into L0A, L0B and L1, the matrix multiply, and the way out of L0C.
//
// Layouts: L0A holds 512-byte fractals in (m1, k1) order, 16 rows of 32 bytes each; L0B in (k1, n1) order, 16 columns of 32 bytes of k
// each; L0C holds fractals of 16 x 16 four-byte values in (n1, m1) order, m1 = ceil(m / 16).
#include <algorithm>

#include "instr.h"
#include "kernels.h"

namespace cpu_twin {

namespace ops {
namespace {

constexpr uint32_t kFractal = 512;

void Transpose16x16(uint16_t* dst, const uint16_t* src) {
    for (int r = 0; r < 16; ++r) {
        for (int c = 0; c < 16; ++c) dst[c * 16 + r] = src[r * 16 + c];
    }
}

struct LoadForm {
    Mem from, to;
    Pipe pipe;
};
LoadForm LoadFormOf(Op op) {
    switch (op) {
        case Op::load_cbuf_to_ca: case Op::load_cbuf_to_ca_transpose: case Op::img2colv2_cbuf_to_ca:
            return {Mem::L1, Mem::L0A, Pipe::MTE1};
        case Op::load_cbuf_to_cb: case Op::load_cbuf_to_cb_transpose: case Op::img2colv2_cbuf_to_cb:
            return {Mem::L1, Mem::L0B, Pipe::MTE1};
        case Op::load_gm_to_ca: return {Mem::GM, Mem::L0A, Pipe::MTE2};
        case Op::load_gm_to_cb: return {Mem::GM, Mem::L0B, Pipe::MTE2};
        default: return {Mem::GM, Mem::L1, Pipe::MTE2};  // load_gm_to_cbuf
    }
}

}  // namespace

void Load2D(Op op, DType t, void* dst, const void* src, uint32_t base, uint32_t rep, uint32_t srcStride, uint32_t dstGap,
            bool transpose, bool descending, SourceLoc loc) {
    if (rep == 0) return;
    const LoadForm form = LoadFormOf(op);
    InstrScope s(op, form.pipe, CoreKind::AIC, loc);
    s.Require(!transpose || DTypeBytes(t) == 2, Rule::BadArgument,
              std::string("LoadData with ifTranspose takes two-byte elements, got ") + DTypeName(t), "use LoadDataWithTranspose");
    const int64_t step = static_cast<int64_t>(srcStride) * kFractal * (descending ? -1 : 1);
    const auto* from = static_cast<const uint8_t*>(src) + static_cast<uint64_t>(base) * kFractal;
    s.instr.bytes = static_cast<uint64_t>(rep) * kFractal;
    s.instr.pieces = rep;
    s.instr.pieceBytes = kFractal;
    s.instr.repeats = rep;
    s.instr.transpose = transpose;
    if (form.from == Mem::GM) {
        s.Global(Touch::Read, from, kFractal, rep, step, 0, "src");
    } else {
        const uint64_t begin = s.Offset(Mem::L1, src, 32, "src") + static_cast<uint64_t>(base) * kFractal;
        s.instr.src0 = {Mem::L1, t, 0, 0, 0, begin};
        s.Require(!descending || begin >= static_cast<uint64_t>(-step) * (rep - 1), Rule::OutOfRange,
                  "LoadData walks below the start of L1", "check startIndex, srcStride and repeatTimes");
        s.Local(Mem::L1, Touch::Read, begin, kFractal, rep, step, 0, "src");
    }
    s.instr.dst = {form.to, t, 0, 0, 0, s.Offset(form.to, dst, form.to == Mem::L1 ? 32 : kFractal, "dst")};
    s.Local(form.to, Touch::Write, s.instr.dst.offset, kFractal, rep, (1 + static_cast<int64_t>(dstGap)) * kFractal, 0, "dst");
    if (!s.Commit()) return;
    auto* to = static_cast<uint8_t*>(dst);
    for (uint32_t i = 0; i < rep; ++i, from += step, to += (1 + static_cast<int64_t>(dstGap)) * kFractal) {
        if (transpose) {
            Transpose16x16(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from));
        } else {
            std::memcpy(to, from, kFractal);
        }
    }
}

// Each repeat takes a square: 1 fractal of two-byte elements, or 2 fractals of one- or four-byte ones joined. The square is transposed
// and split again; dstFracGap lies between the two halves, dstGap between the first fractals of two repeats.
void Load2DTranspose(Op op, DType t, void* dst, const void* src, uint32_t base, uint32_t rep, uint32_t srcStride, uint32_t dstGap,
                     bool descending, uint32_t dstFracGap, SourceLoc loc) {
    if (rep == 0) return;
    const LoadForm form = LoadFormOf(op);
    InstrScope s(op, form.pipe, CoreKind::AIC, loc);
    const uint32_t bytes = DTypeBytes(t);
    const uint32_t fractals = bytes == 2 ? 1 : 2;
    const uint64_t square = static_cast<uint64_t>(fractals) * kFractal;
    const int64_t step = static_cast<int64_t>(srcStride * square) * (descending ? -1 : 1);
    const int64_t dstStep = (1 + static_cast<int64_t>(dstGap)) * kFractal, half = (1 + static_cast<int64_t>(dstFracGap)) * kFractal;
    s.instr.bytes = rep * square;
    s.instr.pieces = rep;
    s.instr.pieceBytes = static_cast<uint32_t>(square);
    s.instr.repeats = rep;
    s.instr.transpose = true;
    const uint64_t begin = s.Offset(Mem::L1, src, 32, "src") + base * square;
    s.instr.src0 = {Mem::L1, t, 0, 0, 0, begin};
    s.Require(!descending || begin >= static_cast<uint64_t>(-step) * (rep - 1), Rule::OutOfRange,
              "LoadDataWithTranspose walks below the start of L1", "check startIndex, srcStride and repeatTimes");
    s.Local(Mem::L1, Touch::Read, begin, square, rep, step, 0, "src");
    s.instr.dst = {form.to, t, 0, 0, 0, s.Offset(form.to, dst, kFractal, "dst")};
    for (uint32_t f = 0; f < fractals; ++f) {
        s.Local(form.to, Touch::Write, s.instr.dst.offset + static_cast<uint64_t>(half) * f, kFractal, rep, dstStep, 0, "dst");
    }
    if (!s.Commit()) return;
    const auto* from = static_cast<const uint8_t*>(src) + base * square;
    auto* to = static_cast<uint8_t*>(dst);
    for (uint32_t i = 0; i < rep; ++i, from += step, to += dstStep) {
        if (bytes == 2) {
            Transpose16x16(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from));
        } else if (bytes == 4) {
            auto* in = reinterpret_cast<const uint32_t*>(from);  // square[r][c] is fractal c / 8, row r, column c % 8
            for (uint32_t r = 0; r < 16; ++r) {
                for (uint32_t c = 0; c < 16; ++c) {  // transposed[c][r] goes to fractal r / 8
                    reinterpret_cast<uint32_t*>(to + half * (r / 8))[c * 8 + r % 8] = in[(c / 8) * 128 + r * 8 + c % 8];
                }
            }
        } else {
            for (uint32_t r = 0; r < 32; ++r) {
                for (uint32_t c = 0; c < 32; ++c) to[half * (c / 16) + (c % 16) * 32 + r] = from[r * 32 + c];
            }
        }
    }
}

// The feature map lies in L1 as (C1, H, W, C0); its im2col matrix has one row per output position and one block of C0 columns per
// (c1, kernel row, kernel column). A tile of it, mExt by kExt from (mStart, kStart), goes to L0.
void Load3D(Op op, DType t, void* dst, const void* src, const Load3DParams& p, SourceLoc loc) {
    const LoadForm form = LoadFormOf(op);
    InstrScope s(op, form.pipe, CoreKind::AIC, loc);
    const Core& core = s.core;
    const uint64_t fm = core.reg[static_cast<size_t>(p.fMatrixCtrl ? Reg::FMatrixB : Reg::FMatrixA)];
    const uint32_t w = fm & 0xFFFF, h = (fm >> 16) & 0xFFFF;
    const uint32_t padLeft = (fm >> 32) & 0xFF, padRight = (fm >> 40) & 0xFF, padTop = (fm >> 48) & 0xFF, padBottom = (fm >> 56) & 0xFF;
    const uint32_t fw = p.filterW + (p.filterSizeW ? 256 : 0), fh = p.filterH + (p.filterSizeH ? 256 : 0);
    if (w == 0 || h == 0 || p.channels == 0 || p.kExt == 0 || p.mExt == 0 || fw == 0 || fh == 0) return;
    const uint32_t bytes = DTypeBytes(t), c0 = 32 / bytes;
    const bool toB = form.to == Mem::L0B, transposed = toB || p.transpose;
    s.Require(!(transposed && bytes == 1), Rule::BadArgument, "LoadData 3D: one-byte elements cannot be transposed or go to L0B",
              "use LoadDataWithTranspose");
    s.Require(p.kStart % c0 == 0, Rule::BadArgument,
              "LoadData 3D: kStartPt is " + std::to_string(p.kStart) + ", not a multiple of " + std::to_string(c0),
              "start at a whole fractal in the k direction");
    s.Require(p.strideW >= 1 && p.strideW <= 63 && p.strideH >= 1 && p.strideH <= 63, Rule::BadArgument,
              "LoadData 3D: strides are " + std::to_string(p.strideW) + ", " + std::to_string(p.strideH), "strides must be 1 to 63");
    const uint64_t repeat = core.reg[static_cast<size_t>(Reg::Load3DRepeat)];
    s.Require(((repeat >> 16) & 0xFF) <= 1, Rule::BadArgument, "LoadData 3D: repeat mode is not modelled",
              "set repeatTime to 1 with SetLoadDataRepeat");
    s.Require(core.reg[static_cast<size_t>(Reg::L1_3DSize)] == 0, Rule::BadArgument, "LoadData 3D: a boundary of L1 is not modelled",
              "set the boundary to 0 with SetLoadDataBoundary");
    const int32_t spanW = static_cast<int32_t>(w + padLeft + padRight) - static_cast<int32_t>((fw - 1) * p.dilationW + 1);
    const int32_t spanH = static_cast<int32_t>(h + padTop + padBottom) - static_cast<int32_t>((fh - 1) * p.dilationH + 1);
    s.Require(spanW >= 0 && spanH >= 0, Rule::BadArgument, "LoadData 3D: the kernel is larger than the padded feature map",
              "check filter, dilation and padList");
    if (s.Failed()) return;
    const uint32_t wOut = static_cast<uint32_t>(spanW) / p.strideW + 1, hOut = static_cast<uint32_t>(spanH) / p.strideH + 1;
    const uint32_t mTotal = wOut * hOut, c1 = (p.channels + c0 - 1) / c0;
    const uint32_t kBlocks = (p.kExt + c0 - 1) / c0, kFirst = p.kStart / c0;
    s.Require(p.kStart + p.kExt <= c1 * c0 * fw * fh, Rule::OutOfRange,
              "LoadData 3D: columns " + std::to_string(p.kStart) + " to " + std::to_string(p.kStart + p.kExt) + " of a matrix with " +
                  std::to_string(c1 * c0 * fw * fh),
              "check kStartPt, kExtension and channelSize");
    const uint32_t mFractals = (p.mExt + 15) / 16;
    const uint64_t begin = s.Offset(Mem::L1, src, 32, "src");
    s.instr.src0 = {Mem::L1, t, 0, 0, 0, begin};
    s.instr.transpose = transposed;
    s.instr.m = static_cast<uint16_t>(p.mExt);
    s.instr.k = static_cast<uint16_t>(p.kExt);
    // A plain matrix (1 x 1 kernel, stride 1, no padding) is read in one run of rows per column block.
    const bool plain = fw == 1 && fh == 1 && p.strideW == 1 && p.strideH == 1 && (fm >> 32) == 0;
    const uint32_t rows = p.mStart >= mTotal ? 0 : std::min(p.mExt, mTotal - p.mStart);
    const uint64_t plane = static_cast<uint64_t>(h) * w * 32;
    if (plain) {
        s.Local(Mem::L1, Touch::Read, begin + kFirst * plane + static_cast<uint64_t>(p.mStart) * 32, static_cast<uint64_t>(rows) * 32,
                kBlocks, static_cast<int64_t>(plane), 0, "src");
    } else {
        const uint32_t taps = fw * fh;
        s.Local(Mem::L1, Touch::Read, begin + (kFirst / taps) * plane, ((kFirst + kBlocks - 1) / taps - kFirst / taps + 1) * plane, 1, 0, 0,
                "src");
    }
    uint64_t dstFractals = static_cast<uint64_t>(mFractals) * kBlocks;
    uint32_t k16 = 0;
    if (transposed && bytes == 4) {
        k16 = (kBlocks * c0 + 15) / 16;
        dstFractals = static_cast<uint64_t>(mFractals) * 2 * k16;
    }
    s.instr.bytes = dstFractals * kFractal;
    s.instr.pieces = static_cast<uint32_t>(dstFractals);
    s.instr.pieceBytes = kFractal;
    s.instr.dst = {form.to, t, 0, 0, 0, s.Offset(form.to, dst, kFractal, "dst")};
    s.Local(form.to, Touch::Write, s.instr.dst.offset, dstFractals * kFractal, 1, 0, 0, "dst");
    if (!s.Commit()) return;

    const uint64_t padding = core.reg[static_cast<size_t>(Reg::Padding)];
    uint8_t padRow[32];
    for (uint32_t i = 0; i < c0; ++i) std::memcpy(padRow + i * bytes, &padding, bytes);
    const auto* map = static_cast<const uint8_t*>(src);
    auto* out = static_cast<uint8_t*>(dst);
    auto rowAt = [&](uint32_t kb, uint32_t m) -> const uint8_t* {
        if (m >= mTotal) return padRow;
        if (plain) return map + kb * plane + static_cast<uint64_t>(m) * 32;
        const uint32_t tap = kb % (fw * fh), channel = kb / (fw * fh);
        const int32_t y = static_cast<int32_t>(m / wOut * p.strideH + tap / fw * p.dilationH) - static_cast<int32_t>(padTop);
        const int32_t x = static_cast<int32_t>(m % wOut * p.strideW + tap % fw * p.dilationW) - static_cast<int32_t>(padLeft);
        if (y < 0 || x < 0 || y >= static_cast<int32_t>(h) || x >= static_cast<int32_t>(w)) return padRow;
        return map + channel * plane + (static_cast<uint64_t>(y) * w + static_cast<uint32_t>(x)) * 32;
    };
    for (uint32_t kb = 0; kb < kBlocks; ++kb) {
        for (uint32_t m = 0; m < p.mExt; ++m) {
            const uint8_t* in = rowAt(kFirst + kb, p.mStart + m);
            if (!transposed) {
                std::memcpy(out + (static_cast<uint64_t>(m / 16) * kBlocks + kb) * kFractal + m % 16 * 32, in, 32);
            } else if (bytes == 2) {
                // L0A: rows are k, fractals (k1, m1). L0B: rows are n = k, fractals (m1, k1).
                const uint64_t fractal = toB ? static_cast<uint64_t>(m / 16) * kBlocks + kb : static_cast<uint64_t>(kb) * mFractals + m / 16;
                auto* to = reinterpret_cast<uint16_t*>(out + fractal * kFractal) + m % 16;
                auto* from = reinterpret_cast<const uint16_t*>(in);
                for (int i = 0; i < 16; ++i) to[i * 16] = from[i];
            } else {
                const uint32_t m8 = m / 8;
                auto* from = reinterpret_cast<const uint32_t*>(in);
                for (uint32_t i = 0; i < 8; ++i) {
                    const uint32_t k = kb * 8 + i;
                    const uint64_t fractal = toB ? static_cast<uint64_t>(m8) * k16 + k / 16
                                                 : static_cast<uint64_t>(k / 16) * mFractals * 2 + m8;
                    reinterpret_cast<uint32_t*>(out + fractal * kFractal)[k % 16 * 8 + m % 8] = from[i];
                }
            }
        }
    }
}

void Fill(Op op, DType t, void* dst, uint64_t config, uint64_t valueBits, SourceLoc loc) {
    const Mem mem = op == Op::create_cbuf_matrix ? Mem::L1 : op == Op::create_ca_matrix ? Mem::L0A : Mem::L0B;
    const uint32_t repeat = config & 0x7FFF, blocks = (config >> 16) & 0x7FFF, gap = (config >> 32) & 0x7FFF;
    if (repeat == 0 || blocks == 0) return;
    InstrScope s(op, mem == Mem::L1 ? Pipe::MTE2 : Pipe::MTE1, CoreKind::AIC, loc);
    const uint32_t unit = mem == Mem::L1 ? 32 : kFractal;
    const uint64_t piece = static_cast<uint64_t>(blocks) * unit;
    const int64_t stride = static_cast<int64_t>(piece + static_cast<uint64_t>(gap) * unit);
    s.instr.bytes = piece * repeat;
    s.instr.pieces = repeat;
    s.instr.pieceBytes = static_cast<uint32_t>(piece);
    s.instr.dst = {mem, t, 0, 0, 0, s.Offset(mem, dst, unit, "dst")};
    s.Local(mem, Touch::Write, s.instr.dst.offset, piece, repeat, stride, 0, "dst");
    if (!s.Commit()) return;
    const uint32_t bytes = DTypeBytes(t);
    auto* to = static_cast<uint8_t*>(dst);
    for (uint32_t r = 0; r < repeat; ++r, to += stride) {
        for (uint64_t at = 0; at < piece; at += bytes) std::memcpy(to + at, &valueBits, bytes);
    }
}

namespace {

// Unit flags, one per 512 bytes of L0C: Mmad needs 0, Fixpipe needs 1; value 3 flips them. They order the two pipes in place of
// set_flag and wait_flag, so the clocks travel with them.
void CheckUnitFlags(InstrScope& s, uint32_t unitFlag, uint64_t begin, uint64_t end, uint8_t needed) {
    s.Require(unitFlag == 0 || unitFlag == 2 || unitFlag == 3, Rule::BadArgument,
              std::string(OpName(s.instr.op)) + ": unitFlag is " + std::to_string(unitFlag), "unitFlag must be 0, 2 or 3");
    if (unitFlag == 0 || s.Failed()) return;
    end = std::min<uint64_t>(end, kL0cBytes);
    JoinScalar(s.core, s.instr.pipe);
    VectorClock& know = s.core.pipe[static_cast<int>(s.instr.pipe)].know;
    const VectorClock* joined[2] = {};
    for (uint64_t u = begin / 512; u < (end + 511) / 512; ++u) {
        if (s.core.unitFlag[u] != needed) {
            s.Fail(Rule::UnitFlag,
                   std::string(OpName(s.instr.op)) + " with unitFlag " + std::to_string(unitFlag) + " needs the unit flag of L0C " +
                       Range(u * 512, u * 512 + 512) + " to be " + std::to_string(needed) + ", but it is " + std::to_string(1 - needed) +
                       ": the pipe would wait for ever",
                   needed == 0 ? "a Fixpipe with unitFlag 3 must have taken this tile before Mmad writes it again"
                               : "the last Mmad on this tile needs unitFlag 3");
            return;
        }
        // With the flag comes all that the other pipe knew when it flipped it, as with set_flag and wait_flag.
        for (int i = 0; i < 2; ++i) {
            const VectorClock* clock = s.core.unitClock[i][u].get();
            if (clock == nullptr || clock == joined[i]) continue;
            Join(know, *clock);
            joined[i] = clock;
        }
    }
}

void FlipUnitFlags(Core& core, Pipe pipe, uint64_t begin, uint64_t end, uint8_t value) {
    const auto clock = std::make_shared<const VectorClock>(Release(core, pipe));
    end = std::min<uint64_t>(end, kL0cBytes);
    for (uint64_t u = begin / 512; u < (end + 511) / 512; ++u) {
        core.unitFlag[u] = value;
        core.unitClock[pipe == Pipe::M ? 0 : 1][u] = clock;
    }
}

}  // namespace

void Mad(DType cT, DType aT, void* c, const void* a, const void* b, const uint64_t* bias, uint32_t m, uint32_t k, uint32_t n,
         uint32_t unitFlag, bool kAlign, bool cSource, bool cInit, SourceLoc loc) {
    if (m == 0 || k == 0 || n == 0) return;
    InstrScope s(Op::mad, Pipe::M, CoreKind::AIC, loc);
    s.Require(m <= 4095 && n <= 4095 && k <= 4095, Rule::BadArgument,
              "Mmad: m, n, k are " + std::to_string(m) + ", " + std::to_string(n) + ", " + std::to_string(k), "each must be 1 to 4095");
    const uint32_t bytes = DTypeBytes(aT), c0 = 32 / bytes;
    const uint32_t kUnit = aT == DType::F32 && kAlign ? 16 : c0;
    const uint32_t m1 = (m + 15) / 16, n1 = (n + 15) / 16, k1 = (k + kUnit - 1) / kUnit * kUnit / c0;
    const bool rowA = m == 1;  // GEMV: A is read as one row
    s.instr.m = static_cast<uint16_t>(m);
    s.instr.n = static_cast<uint16_t>(n);
    s.instr.k = static_cast<uint16_t>(k);
    s.instr.unitFlag = static_cast<uint8_t>(unitFlag);
    s.instr.src0 = {Mem::L0A, aT, 0, 0, 0, s.Offset(Mem::L0A, a, 512, "the left matrix")};
    s.instr.src1 = {Mem::L0B, aT, 0, 0, 0, s.Offset(Mem::L0B, b, 512, "the right matrix")};
    s.instr.dst = {Mem::L0C, cT, 0, 0, 0, s.Offset(Mem::L0C, c, 1024, "the result matrix")};
    s.Local(Mem::L0A, Touch::Read, s.instr.src0.offset, rowA ? static_cast<uint64_t>(k) * bytes : static_cast<uint64_t>(m1) * k1 * kFractal,
            1, 0, 0, "the left matrix");
    s.Local(Mem::L0B, Touch::Read, s.instr.src1.offset, static_cast<uint64_t>(k1) * n1 * kFractal, 1, 0, 0, "the right matrix");
    const uint64_t cBytes = static_cast<uint64_t>(m1) * n1 * 1024;
    // Under 10 fractals the next Mmad on the tile may start before this one has written it.
    s.Local(Mem::L0C, Touch::Write, s.instr.dst.offset, cBytes, 1, 0, m1 * n1 < 10 ? 1 : 0, "the result matrix");
    uint64_t biasAt = 0;
    const bool fromBias = bias != nullptr ? cSource : (cSource && !cInit);
    if (fromBias) {
        const uint64_t base = reinterpret_cast<uintptr_t>(s.core.base[static_cast<int>(Mem::BT)]);
        const uint64_t address = bias != nullptr ? *bias & 0xFFFFFFFFFFFFull : 0;
        biasAt = base != 0 && address >= base && address < base + kBtBytes ? address - base : address;
        s.Require(biasAt % 64 == 0, Rule::Misaligned, "Mmad: the bias is at BT byte " + std::to_string(biasAt), "align it to 64 bytes");
        s.Local(Mem::BT, Touch::Read, biasAt, static_cast<uint64_t>(n) * 4, 1, 0, 0, "the bias");
    }
    CheckUnitFlags(s, unitFlag, s.instr.dst.offset, s.instr.dst.offset + cBytes, 0);
    if (!s.Commit()) return;
    s.core.stats.madFlops += 2ull * m * n * k;
    auto* out = static_cast<uint8_t*>(c);
    if (fromBias) {
        const uint8_t* table = s.core.base[static_cast<int>(Mem::BT)] + biasAt;
        for (uint32_t j = 0; j < n1; ++j) {
            const size_t width = std::min<size_t>(16, n - j * 16) * 4;
            for (uint32_t r = 0; r < m; ++r) std::memcpy(out + (static_cast<size_t>(j) * m1 * 16 + r) * 64, table + j * 64, width);
        }
    } else if (cInit) {
        std::memset(c, 0, cBytes);
    }
    if (aT == DType::S8) {
        kernels::Kernels().madS8(static_cast<int32_t*>(c), static_cast<const int8_t*>(a), static_cast<const int8_t*>(b), m, k, n, rowA);
    } else {
        const bool saturate = (s.core.reg[static_cast<size_t>(Reg::Ctrl)] >> 48 & 1) == 0;
        kernels::Kernels().mad(aT, static_cast<float*>(c), a, b, m, k, n, k1, rowA, saturate);
    }
    if (unitFlag == 3) FlipUnitFlags(s.core, Pipe::M, s.instr.dst.offset, s.instr.dst.offset + cBytes, 1);
}

namespace {

// Quantisation parameters: scale is the float32 in the low 32 bits with its low 13 bits dropped, offset the 9 bits from 37, sign bit 46.
struct Quant {
    float scale;
    int32_t offset;
    bool isSigned;
};
Quant QuantOf(uint64_t config) {
    const uint32_t bits = static_cast<uint32_t>(config) & 0xFFFFE000u;
    float scale;
    std::memcpy(&scale, &bits, 4);
    int32_t offset = static_cast<int32_t>(config >> 37 & 0x1FF);
    if (offset >= 256) offset -= 512;
    return {scale, offset, (config >> 46 & 1) != 0};
}
bool ByColumn(QuantMode_t quant) { return quant == VDEQF16 || quant == VQF322B8_PRE || quant == VREQ8; }
bool Scaled(QuantMode_t quant) { return ByColumn(quant) || quant == DEQF16 || quant == QF322B8_PRE || quant == REQ8; }
// Where the parameters by column start in the fixpipe buffer.
uint64_t QuantTable(const Core& core) { return (core.reg[static_cast<size_t>(Reg::Fpc)] >> 8 & 0xFF) * 128; }
uint64_t QuantConfig(const Core& core, QuantMode_t quant, uint32_t column) {
    uint64_t config = core.reg[static_cast<size_t>(Reg::QuantPre)];
    if (ByColumn(quant)) std::memcpy(&config, core.base[static_cast<int>(Mem::FB)] + QuantTable(core) + column * 8ull, 8);
    return config;
}

// One row of `count` L0C values into destination elements at `out`.
void ConvertRow(Core& core, QuantMode_t quant, bool relu, DType srcT, const void* in, uint8_t* out, uint32_t count, uint32_t column,
                bool saturate) {
    float wide[16];
    if (srcT == DType::F32) {
        std::memcpy(wide, in, count * 4);
    } else {
        for (uint32_t i = 0; i < count; ++i) wide[i] = static_cast<float>(static_cast<const int32_t*>(in)[i]);
    }
    const bool scaled = Scaled(quant);
    for (uint32_t i = 0; i < count; ++i) {
        float v = wide[i];
        if (relu && !(v > 0.0f) && v == v) v = 0.0f;
        Quant q{1.0f, 0, true};
        if (scaled) {
            q = QuantOf(QuantConfig(core, quant, column + i));
            v *= q.scale;
        }
        switch (quant) {
            case NoQuant:
                std::memcpy(out + i * 4, static_cast<const uint8_t*>(in) + i * 4, 4);
                if (relu) {
                    if (srcT == DType::F32) std::memcpy(out + i * 4, &v, 4);
                    else { const int32_t z = static_cast<const int32_t*>(in)[i]; const int32_t r = z > 0 ? z : 0; std::memcpy(out + i * 4, &r, 4); }
                }
                break;
            case F322F16: case DEQF16: case VDEQF16: {
                uint16_t h = FloatToHalf(v);
                if (saturate && (h & 0x7FFF) >= 0x7C00) h = (h & 0x7FFF) > 0x7C00 ? 0 : static_cast<uint16_t>((h & 0x8000) | 0x7BFF);
                std::memcpy(out + i * 2, &h, 2);
                break;
            }
            case F322BF16: {
                uint16_t h = FloatToBf16(v);
                if (saturate && (h & 0x7FFF) >= 0x7F80) h = (h & 0x7FFF) > 0x7F80 ? 0 : static_cast<uint16_t>((h & 0x8000) | 0x7F7F);
                std::memcpy(out + i * 2, &h, 2);
                break;
            }
            default: {  // to eight bits
                // Nine signed bits hold the scaled value before the offset is added; a NaN goes on to become 0.
                const float whole = __builtin_nearbyintf(v);
                const float nine = whole != whole ? whole : std::max(-256.0f, std::min(255.0f, whole));
                const float rounded = nine + static_cast<float>(q.offset);
                const float low = q.isSigned ? -128.0f : 0.0f, high = q.isSigned ? 127.0f : 255.0f;
                const float clipped = rounded != rounded ? 0.0f : std::max(low, std::min(high, rounded));
                out[i] = static_cast<uint8_t>(static_cast<int32_t>(clipped));
                break;
            }
        }
    }
}

// The conversions that every float kernel uses, a whole run of values at a time.
bool FastConvert(QuantMode_t quant, bool relu, bool saturate, const float* in, uint8_t* out, uint32_t count) {
    if (relu || saturate) return false;
    if (quant == NoQuant) {
        std::memcpy(out, in, count * 4ull);
    } else if (quant == F322F16) {
        kernels::FloatToHalfN(reinterpret_cast<uint16_t*>(out), in, count);
    } else if (quant == F322BF16) {
        kernels::FloatToBf16N(reinterpret_cast<uint16_t*>(out), in, count);
    } else {
        return false;
    }
    return true;
}

}  // namespace

void Fixpipe(Op op, DType dstT, DType srcT, void* dst, const void* src, uint32_t nSize, uint32_t mSize, uint32_t dstStride,
             uint32_t srcStride, uint32_t unitFlag, QuantMode_t quant, uint32_t relu, bool channelSplit, bool nz2nd, SourceLoc loc) {
    if (nSize == 0 || mSize == 0) return;
    InstrScope s(op, Pipe::FIX, CoreKind::AIC, loc);
    Core& core = s.core;
    const bool toGm = op == Op::copy_matrix_cc_to_gm;
    const uint64_t nd = core.reg[static_cast<size_t>(Reg::NdPara)];
    const uint32_t ndNum = nz2nd ? nd & 0xFFFF : 1;
    if (nz2nd && ndNum == 0) return;
    const uint64_t srcNdStride = ndNum > 1 ? nd >> 16 & 0xFFFF : 0, dstNdStride = ndNum > 1 ? nd >> 32 & 0xFFFF : 0;
    const bool fromFloat = srcT == DType::F32;
    const bool known =
        (quant == NoQuant && dstT == srcT) || (quant == F322F16 && fromFloat && dstT == DType::F16) ||
        (quant == F322BF16 && fromFloat && dstT == DType::BF16) || ((quant == DEQF16 || quant == VDEQF16) && !fromFloat && dstT == DType::F16) ||
        ((quant == QF322B8_PRE || quant == VQF322B8_PRE) && fromFloat && DTypeBytes(dstT) == 1) ||
        ((quant == REQ8 || quant == VREQ8) && !fromFloat && DTypeBytes(dstT) == 1);
    s.Require(known, Rule::BadArgument,
              std::string("Fixpipe: quantPre ") + std::to_string(quant) + " does not lead from " + DTypeName(srcT) + " to " + DTypeName(dstT),
              "use NoQuant for float and int32 results, F322F16 for half, F322BF16 for bfloat16_t");
    s.Require(nSize <= 4095 && mSize <= (nz2nd ? 8192u : 65535u), Rule::BadArgument,
              "Fixpipe: nSize and mSize are " + std::to_string(nSize) + ", " + std::to_string(mSize), "nSize at most 4095, mSize at most 8192 with NZ2ND");
    s.Require(nz2nd || nSize % (channelSplit ? 8 : 16) == 0, Rule::BadArgument,
              "Fixpipe: nSize is " + std::to_string(nSize) + ", not a multiple of " + (channelSplit ? "8" : "16"), "round nSize up for NZ output");
    s.Require(!channelSplit || (fromFloat && dstT == DType::F32 && !nz2nd && unitFlag == 0 && toGm), Rule::BadArgument,
              "Fixpipe: channelSplit needs float in and out, NZ output to GM and unitFlag 0", "leave channelSplit false");
    s.Require(toGm || !nz2nd, Rule::BadArgument, "Fixpipe into L1 writes NZ only", "use a NZ configuration");
    s.Require(dstStride != 0, Rule::StrideLimit, "Fixpipe: dstStride is 0", nz2nd ? "dstStride is the row length of the destination in elements"
                                                                              : "dstStride is the distance between columns of fractals in 32-byte blocks");
    s.Require(relu <= 1, Rule::BadArgument, "Fixpipe: relu mode " + std::to_string(relu) + " is not modelled", "use 0 or 1");
    s.Require(srcNdStride <= 512, Rule::StrideLimit, "Fixpipe: srcNdStride is " + std::to_string(srcNdStride), "at most 512");
    const uint32_t n1 = (nSize + 15) / 16, out = DTypeBytes(dstT);
    const uint64_t columnStride = srcStride * 64ull;
    s.instr.n = static_cast<uint16_t>(nSize);
    s.instr.m = static_cast<uint16_t>(mSize);
    s.instr.nd = nz2nd;
    s.instr.unitFlag = static_cast<uint8_t>(unitFlag);
    s.instr.bytes = static_cast<uint64_t>(nSize) * mSize * out * ndNum;
    const uint64_t begin = s.Offset(Mem::L0C, src, 64, "src");
    s.instr.src0 = {Mem::L0C, srcT, 0, 0, 0, begin};
    s.instr.dst.type = dstT;
    const bool atomic = toGm && core.atomicType != ATOMIC_NONE;
    const uint8_t aux = atomic ? AtomicAux(core) : 0;
    s.Require(!atomic || AtomicBytes(core.atomicType) == out, Rule::BadArgument, "Fixpipe: the atomic type set does not have the destination's element size",
              "SetAtomicAdd with the destination's type");
    s.instr.atomic = atomic;
    auto write = [&](uint8_t* p, uint64_t bytes, uint32_t count, int64_t stride) {
        if (toGm) {
            s.Global(atomic ? Touch::Atomic : Touch::Write, p, bytes, count, stride, aux, "dst");
        } else {
            s.Local(Mem::L1, Touch::Write, s.instr.dst.offset + static_cast<uint64_t>(p - static_cast<uint8_t*>(dst)), bytes, count, stride, 0, "dst");
        }
    };
    if (!toGm) s.instr.dst = {Mem::L1, dstT, 0, 0, 0, s.Offset(Mem::L1, dst, 32, "dst")};
    // Unit flags go by whole fractals, also under a tail of m.
    const uint64_t columnBytes = (mSize + 15) / 16 * 1024ull;
    for (uint32_t i = 0; i < ndNum; ++i) {
        const uint64_t from = begin + srcNdStride * 1024 * i;
        s.Local(Mem::L0C, Touch::Read, from, mSize * 64ull, n1, static_cast<int64_t>(columnStride), 0, "src");
        for (uint32_t j = 0; j < n1 && unitFlag != 0; ++j) {
            CheckUnitFlags(s, unitFlag, from + j * columnStride, from + j * columnStride + columnBytes, 1);
        }
        auto* base = static_cast<uint8_t*>(dst) + dstNdStride * out * i;
        if (nz2nd) {
            write(base, static_cast<uint64_t>(nSize) * out, mSize, static_cast<int64_t>(static_cast<uint64_t>(dstStride) * out));
            s.instr.pieces += mSize;
            s.instr.pieceBytes = nSize * out;
        } else {
            // One-byte results merge two columns of fractals into one of 32 channels; split ones halve to 8 channels.
            const uint32_t channels = channelSplit ? 8 : out == 1 ? 32 : 16;
            const uint32_t columns = (nSize + channels - 1) / channels;
            write(base, static_cast<uint64_t>(mSize) * channels * out, columns, static_cast<int64_t>(dstStride) * 32);
            s.instr.pieces += columns;
            s.instr.pieceBytes = mSize * channels * out;
        }
    }
    s.Require(!toGm || nz2nd || s.instr.dst.offset % 32 == 0, Rule::Misaligned,
              "Fixpipe: NZ output to byte " + std::to_string(s.instr.dst.offset) + " of the tensor, not a multiple of 32", "align dst");
    if (ByColumn(quant)) s.Local(Mem::FB, Touch::Read, QuantTable(core), nSize * 8ull, 1, 0, 0, "quantisation parameters");
    if (!s.Commit()) return;
    // Only now are the parameters known to lie in the buffer.
    for (uint32_t c = 0; Scaled(quant) && c < (ByColumn(quant) ? nSize : 1); ++c) {
        if ((QuantConfig(core, quant, c) >> 36 & 1) == 0) continue;
        s.Fail(Rule::BadArgument, "Fixpipe: bit 36 of the quantisation parameter" + (ByColumn(quant) ? " of column " + std::to_string(c) : std::string()) +
               " is set (shift right before scaling), which is not modelled", "leave bits 32 to 36 zero");
        return;
    }

    const bool saturate = (core.reg[static_cast<size_t>(Reg::Ctrl)] >> 48 & 1) == 0;
    thread_local std::vector<uint8_t> row;
    row.resize(static_cast<size_t>(n1) * 16 * 4);
    for (uint32_t i = 0; i < ndNum; ++i) {
        const uint8_t* in = static_cast<const uint8_t*>(src) + srcNdStride * 1024 * i;
        auto* base = static_cast<uint8_t*>(dst) + dstNdStride * out * i;
        for (uint32_t m = 0; m < mSize; ++m) {
            for (uint32_t j = 0; j < n1; ++j) {
                const uint8_t* cell = in + j * columnStride + m * 64ull;
                const uint32_t count = std::min(16u, nSize - j * 16);
                uint8_t* to = row.data() + static_cast<size_t>(j) * 16 * out;
                if (!(fromFloat && FastConvert(quant, relu != 0, saturate, reinterpret_cast<const float*>(cell), to, count))) {
                    ConvertRow(core, quant, relu != 0, srcT, cell, to, count, j * 16, saturate);
                }
            }
            if (nz2nd) {
                uint8_t* to = base + static_cast<uint64_t>(m) * dstStride * out;
                if (toGm) StoreToGm(core, to, row.data(), static_cast<uint64_t>(nSize) * out); else std::memcpy(to, row.data(), static_cast<size_t>(nSize) * out);
                continue;
            }
            const uint32_t channels = channelSplit ? 8 : out == 1 ? 32 : 16;
            for (uint32_t c = 0; c * channels < nSize; ++c) {
                uint8_t* to = base + static_cast<uint64_t>(c) * dstStride * 32 + static_cast<uint64_t>(m) * channels * out;
                const uint64_t bytes = static_cast<uint64_t>(std::min(channels, nSize - c * channels)) * out;
                const uint8_t* from = row.data() + static_cast<size_t>(c) * channels * out;
                if (toGm) StoreToGm(core, to, from, bytes); else std::memcpy(to, from, bytes);
            }
        }
    }
    if (unitFlag != 3) return;
    for (uint32_t i = 0; i < ndNum; ++i) {
        for (uint32_t j = 0; j < n1; ++j) {
            const uint64_t from = begin + srcNdStride * 1024 * i + j * columnStride;
            FlipUnitFlags(core, Pipe::FIX, from, from + columnBytes, 0);
        }
    }
}

}  // namespace ops
}  // namespace cpu_twin
