// SPDX-License-Identifier: Apache-2.0
// The seam between the machine, which knows what an instruction does, and the clock, which knows what it costs.
//
// Execution and timing are separate passes. While cores execute, each writes one Instr per instruction and per sync call, in
// program order. The timeline then replays these records as the hardware would run them: the scalar unit issues in
// program order, every pipe works its queue in order, flags and cross-core counters hold a pipe or the scalar unit back.
// For every instruction it asks the ClockModel once, with the cycle at which the instruction could start, and those calls
// come in non-decreasing `ready` order over the whole grid, so that a model may keep shared state (L2, HBM) and
// stay deterministic whatever order the cores were executed in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "types.h"

namespace cpu_twin {

enum class Pipe : uint8_t { S, V, M, MTE1, MTE2, MTE3, FIX };
inline constexpr int kPipes = 7;
const char* PipeName(Pipe p);

enum class CoreKind : uint8_t { AIC, AIV };

enum class Mem : uint8_t { None, GM, L1, L0A, L0B, L0C, UB, BT, FB };
const char* MemName(Mem m);

// One enumerator per instruction the machine models, named as its intrinsic.
enum class Op : uint8_t {
    // V
    vadd, vsub, vmul, vdiv, vmax, vmin, vand, vor, vaddrelu, vsubrelu, vmadd, vmaddrelu, vmla,
    vexp, vln, vabs, vrec, vsqrt, vrsqrt, vrelu, vnot,
    vadds, vmuls, vmaxs, vmins, vlrelu, vshl, vshr, vaxpy,
    vector_dup, vbrcb, vcopy, vconv, vcmp, vcmpv, vcmpvs, vsel, set_cmpmask, get_cmpmask,
    vreducev2, vgather, vgatherb, vcadd, vcmax, vcmin, vcgadd, vcgmax, vcgmin, vcpadd,
    vbitsort, vmrgsort4, vnchwconv, vtranspose, copy_ubuf_to_ubuf,
    // MTE2
    copy_gm_to_ubuf, copy_gm_to_ubuf_align, copy_gm_to_cbuf, copy_gm_to_cbuf_nd2nz, load_gm_to_cbuf, load_gm_to_ca,
    load_gm_to_cb, create_cbuf_matrix,
    // MTE1
    load_cbuf_to_ca, load_cbuf_to_cb, load_cbuf_to_ca_transpose, load_cbuf_to_cb_transpose, img2colv2_cbuf_to_ca,
    img2colv2_cbuf_to_cb, create_ca_matrix, create_cb_matrix, copy_cbuf_to_bt,
    // M
    mad,
    // FIX
    copy_matrix_cc_to_gm, copy_matrix_cc_to_cbuf, copy_cbuf_to_fbuf,
    // MTE3
    copy_ubuf_to_gm, copy_ubuf_to_gm_align, copy_cbuf_to_gm,
    // S
    scalar_load, scalar_store, dcci, scalar_work,
    // Synchronisation
    set_flag, wait_flag, pipe_barrier, ffts_cross_core_sync, wait_flag_dev,
    Count
};
const char* OpName(Op op);

// One operand in a memory: byte offset within it (within the tensor for GM) and, for vector operands, the strides
// between 32-byte blocks and between repeats, in blocks.
struct Operand {
    Mem mem = Mem::None;
    DType type = DType::None;
    uint16_t tensor = 0;      // GM only: index into the launch's tensor table
    uint16_t blkStride = 0;
    uint16_t repStride = 0;
    uint64_t offset = 0;
};

struct Instr {
    Op op = Op::scalar_work;
    Pipe pipe = Pipe::S;        // pipe it occupies; for set_flag the source pipe, for wait_flag the waiting one
    Pipe peer = Pipe::S;        // set_flag / wait_flag: the other side
    uint8_t id = 0;             // set_flag / wait_flag / cross-core: flag id
    uint8_t mode = 0;           // ffts_cross_core_sync: 0, 1 or 2
    bool allPipes = false;      // pipe_barrier(PIPE_ALL)
    uint16_t core = 0;          // index into Grid::cores
    uint32_t site = 0;          // source site, see Report::Site
    Operand dst, src0, src1;

    // Vector: repeats issued, 32-byte blocks per repeat, lanes that the mask lets through over all repeats.
    uint32_t repeats = 0;
    uint32_t blocksPerRepeat = 8;
    uint64_t lanes = 0;

    // Copies and loads: payload bytes, contiguous pieces they come in on the side with strides, and the bytes of one piece.
    uint64_t bytes = 0;
    uint32_t pieces = 0;
    uint32_t pieceBytes = 0;
    // What it touches in GM, from the operand's offset on: gmGroups groups (matrices of nd2nz or nz2nd) gmGroupStride bytes apart, each of
    // gmPieces pieces of gmPieceBytes bytes, gmPieceStride bytes apart. Adjacent pieces are one piece.
    uint32_t gmGroups = 0, gmPieces = 0;
    uint64_t gmPieceBytes = 0;
    int64_t gmPieceStride = 0, gmGroupStride = 0;
    bool l2Bypass = false;      // the tensor's cache hint keeps reads out of L2
    bool atomic = false;        // GM side is an atomic read-modify-write
    bool transpose = false;     // load2d / load3d with transpose

    // mad and fixpipe. fixpipe: nz2nd in `transpose`'s place is told by `nd`.
    uint16_t m = 0, n = 0, k = 0;
    bool nd = false;            // fixpipe writes ND, or nd2nz copy
    uint8_t unitFlag = 0;

    double scalarCycles = 0;    // scalar_work: cycles asked for
};

struct CoreInfo {
    CoreKind kind;
    uint32_t block;             // block (group) index
    uint32_t subBlock;          // 0 for AIC, 0 or 1 for AIV
};

struct Grid {
    std::vector<CoreInfo> cores;
    uint32_t blockDim = 0;
    uint32_t aicCount = 0, aivCount = 0;
    uint64_t tensorBytes = 0;   // all registered GM
};

// Cycles. The next instruction of the same pipe may start at `release`; the result is complete, and flags set after it
// fire, at `end`. start <= release <= end, start >= ready.
// `partial`: only a part is done (a share of a bandwidth that others use too). The pipe stays occupied until `release`, and Run is called
// again for the rest, in order with everything else, until it is no longer partial.
struct Span {
    double start = 0, release = 0, end = 0;
    bool partial = false;
};

class ClockModel {
public:
    virtual ~ClockModel() = default;
    virtual std::string Name() const = 0;                       // "expected", "optimistic", ...
    virtual double CyclesPerMicrosecond() const = 0;
    // A new launch. Returns the cycle at which cores start to execute (launch head).
    virtual double Begin(const Grid& grid) = 0;
    // Cycles the scalar unit needs to issue this instruction (for syncs: to issue the set, wait or barrier).
    virtual double IssueCycles(const Instr& instr) = 0;
    // Entries a pipe's instruction queue holds; the scalar unit stalls when it is full.
    virtual uint32_t QueueDepth(Pipe pipe) = 0;
    // Any instruction but the five sync ones. `ready`: pipe released, waits satisfied, instruction issued.
    virtual Span Run(const Instr& instr, double ready) = 0;
    // Delay between the source pipe finishing and the waiting pipe seeing the flag.
    virtual double FlagCycles(Pipe from, Pipe to) = 0;
    virtual double BarrierCycles(const Instr& barrier) = 0;
    // Delay between ffts_cross_core_sync completing on its pipe and the counter being visible to the waiting core.
    virtual double CrossCoreCycles(uint8_t mode) = 0;
    // Cycles after the last core's end until the kernel is over.
    virtual double End() = 0;
};

}  // namespace cpu_twin
