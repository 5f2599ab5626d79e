// SPDX-License-Identifier: Apache-2.0
// Gathered matmul on one cube and two vector cores a block. The vector cores copy the rows an index list names into a
// ring in global memory, the cube core multiplies each ring slot with a weight that stays in L1 and writes float32
// results to a second ring, the vector cores add a bias, cast and store. Slots are handed over by cross-core flags in
// both directions, so that the vector cores gather tile i + 1 while the cube core multiplies tile i.
#include "kernel_operator.h"

#include "gather_matmul_tiling.h"

using namespace AscendC;

namespace {

constexpr uint32_t CUBE = 16;
constexpr uint32_t FRACTAL = CUBE * CUBE;
constexpr uint32_t LANES = 64;    // float32 elements of one repeat
constexpr uint32_t BLOCK_BYTES = 32;
constexpr uint32_t STEP_K = 128;    // k of one L0 buffer
constexpr uint32_t MAX_TILE_ROWS = 64;
constexpr uint32_t RING = GATHER_MATMUL_RING;
constexpr uint32_t VECTOR_CORES = 2;    // per cube core
constexpr uint32_t SMALL_MMAD_FRACTALS = 10;

// Cross-core flags, one per ring slot. Ids above 10 belong to SyncAll.
constexpr uint16_t ROWS_READY = 0;      // vector -> cube: the slot holds gathered rows
constexpr uint16_t ROWS_FREE = 2;       // cube -> vector: the rows are in L1
constexpr uint16_t RESULT_READY = 4;    // cube -> vector: the slot holds results
constexpr uint16_t RESULT_FREE = 6;     // vector -> cube: the results are in UB

__aicore__ inline uint32_t AlignUp(uint32_t value, uint32_t step) { return (value + step - 1) / step * step; }
__aicore__ inline uint32_t Smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// The tiles of one block, and where its ring slots lie.
struct Work {
    __aicore__ inline Work(const GatherMatmulTiling& t, GM_ADDR workspace, uint32_t block, uint32_t blocks)
        : tiling(t), firstTile(block), stride(blocks)
    {
        const uint32_t tiles = (t.count + t.tileRows - 1) / t.tileRows;
        tileCount = block < tiles ? (tiles - block + blocks - 1) / blocks : 0;
        const uint64_t ringRows = static_cast<uint64_t>(RING) * t.tileRows;
        GM_ADDR results = workspace + blocks * ringRows * t.k * sizeof(half);
        GM_ADDR partials = results + blocks * ringRows * t.n * sizeof(float);
        rowRing.SetGlobalBuffer((__gm__ half*)workspace + block * ringRows * t.k, ringRows * t.k);
        resultRing.SetGlobalBuffer((__gm__ float*)results + block * ringRows * t.n, ringRows * t.n);
        partialSums.SetGlobalBuffer((__gm__ float*)partials, static_cast<uint64_t>(blocks) * VECTOR_CORES * t.n);
    }

    __aicore__ inline uint32_t FirstRow(uint32_t i) const { return (firstTile + i * stride) * tiling.tileRows; }
    __aicore__ inline uint32_t Rows(uint32_t i) const { return Smaller(tiling.tileRows, tiling.count - FirstRow(i)); }

    GatherMatmulTiling tiling;
    uint32_t firstTile;
    uint32_t stride;
    uint32_t tileCount;
    GlobalTensor<half> rowRing;
    GlobalTensor<float> resultRing;
    GlobalTensor<float> partialSums;
};

class CubeSide {
public:
    __aicore__ inline CubeSide(TPipe& pipe, const Work& work, GM_ADDR weight) : pipe_(pipe), work_(work)
    {
        const GatherMatmulTiling& t = work_.tiling;
        weight_.SetGlobalBuffer((__gm__ half*)weight, static_cast<uint64_t>(t.n) * t.k);
        pipe.InitBuffer(rowsBuf_, RING * MAX_TILE_ROWS * t.k * sizeof(half));
        pipe.InitBuffer(weightBuf_, AlignUp(t.n, CUBE) * t.k * sizeof(half));
        pipe.InitBuffer(l0aBuf_, 2 * MAX_TILE_ROWS * STEP_K * sizeof(half));
        pipe.InitBuffer(l0bBuf_, 2 * GATHER_MATMUL_MAX_N * STEP_K * sizeof(half));
        pipe.InitBuffer(l0cBuf_, RING * MAX_TILE_ROWS * GATHER_MATMUL_MAX_N * sizeof(float));
        l1Rows_ = rowsBuf_.Get<half>();
        l1Weight_ = weightBuf_.Get<half>();
        l0a_ = l0aBuf_.Get<half>();
        l0b_ = l0bBuf_.Get<half>();
        l0c_ = l0cBuf_.Get<float>();
    }

    __aicore__ inline void Run()
    {
        if (work_.tileCount == 0) {
            return;
        }
        for (uint32_t slot = 0; slot < RING; ++slot) {
            l0Free_[slot] =
                pipe_.AllocEventID<HardEvent::M_MTE1>();    // TPipe keeps the first ids of M_MTE1 for itself
            SetFlag<HardEvent::MTE1_MTE2>(slot);
            SetFlag<HardEvent::M_MTE1>(l0Free_[slot]);
            SetFlag<HardEvent::FIX_M>(slot);
        }
        const GatherMatmulTiling& t = work_.tiling;
        CopyToNz(l1Weight_, weight_, t.n);
        for (uint32_t i = 0; i < work_.tileCount; ++i) {
            Step(i, i % RING, work_.Rows(i));
        }
        for (uint32_t slot = 0; slot < RING; ++slot) {
            WaitFlag<HardEvent::MTE1_MTE2>(slot);
            WaitFlag<HardEvent::M_MTE1>(l0Free_[slot]);
            WaitFlag<HardEvent::FIX_M>(slot);
            pipe_.ReleaseEventID<HardEvent::M_MTE1>(l0Free_[slot]);
        }
    }

private:
    __aicore__ inline void CopyToNz(const LocalTensor<half>& dst, const GlobalTensor<half>& src, uint32_t rows)
    {
        const uint32_t k = work_.tiling.k;
        Nd2NzParams params;
        params.ndNum = 1;
        params.nValue = static_cast<uint16_t>(rows);
        params.dValue = static_cast<uint16_t>(k);
        params.srcNdMatrixStride = 0;
        params.srcDValue = static_cast<uint16_t>(k);
        params.dstNzC0Stride = static_cast<uint16_t>(AlignUp(rows, CUBE));
        params.dstNzNStride = 1;
        params.dstNzMatrixStride = 0;
        DataCopy(dst, src, params);
    }

    __aicore__ inline void Step(uint32_t i, uint32_t slot, uint32_t rows)
    {
        const GatherMatmulTiling& t = work_.tiling;
        LocalTensor<half> tile = l1Rows_[slot * MAX_TILE_ROWS * t.k];

        CrossCoreWaitFlag(ROWS_READY + slot);
        WaitFlag<HardEvent::MTE1_MTE2>(slot);
        CopyToNz(tile, work_.rowRing[static_cast<uint64_t>(slot) * t.tileRows * t.k], rows);
        SetFlag<HardEvent::MTE2_MTE1>(slot);
        if (i + RING < work_.tileCount) {
            CrossCoreSetFlag<2, PIPE_MTE2>(ROWS_FREE + slot);
        }
        WaitFlag<HardEvent::MTE2_MTE1>(slot);

        LocalTensor<float> result = l0c_[slot * MAX_TILE_ROWS * GATHER_MATMUL_MAX_N];
        WaitFlag<HardEvent::FIX_M>(slot);
        for (uint32_t k = 0; k < t.k; k += STEP_K) {
            Multiply(result, tile, rows, k, Smaller(STEP_K, t.k - k));
        }
        SetFlag<HardEvent::MTE1_MTE2>(slot);
        SetFlag<HardEvent::M_FIX>(slot);
        WaitFlag<HardEvent::M_FIX>(slot);

        if (i >= RING) {
            CrossCoreWaitFlag(RESULT_FREE + slot);
        }
        FixpipeParamsV220 params;
        params.nSize = static_cast<uint16_t>(t.n);
        params.mSize = static_cast<uint16_t>(rows);
        params.srcStride = static_cast<uint16_t>(AlignUp(rows, CUBE));
        params.dstStride = t.n;
        params.quantPre = QuantMode_t::NoQuant;
        params.ndNum = 1;
        Fixpipe<float, float, CFG_ROW_MAJOR>(work_.resultRing[static_cast<uint64_t>(slot) * t.tileRows * t.n], result,
                                             params);
        SetFlag<HardEvent::FIX_M>(slot);
        CrossCoreSetFlag<2, PIPE_FIX>(RESULT_READY + slot);
    }

    __aicore__ inline void Multiply(const LocalTensor<float>& result, const LocalTensor<half>& tile, uint32_t rows,
                                    uint32_t k, uint32_t step)
    {
        const GatherMatmulTiling& t = work_.tiling;
        const uint32_t slot = stepCount_ % 2;
        ++stepCount_;
        LocalTensor<half> left = l0a_[slot * MAX_TILE_ROWS * STEP_K];
        LocalTensor<half> right = l0b_[slot * GATHER_MATMUL_MAX_N * STEP_K];
        const uint32_t rowFractals = AlignUp(rows, CUBE) / CUBE;
        const uint32_t columnFractals = AlignUp(t.n, CUBE) / CUBE;
        const uint32_t stepFractals = step / CUBE;

        WaitFlag<HardEvent::M_MTE1>(l0Free_[slot]);
        LoadData2DParams leftParams;
        leftParams.repeatTimes = static_cast<uint8_t>(stepFractals);
        leftParams.srcStride = static_cast<uint16_t>(rowFractals);
        for (uint32_t row = 0; row < rowFractals; ++row) {
            leftParams.startIndex = static_cast<uint16_t>(k / CUBE * rowFractals + row);
            LoadData(left[row * stepFractals * FRACTAL], tile, leftParams);
        }
        LoadData2DParams rightParams;
        rightParams.startIndex = static_cast<uint16_t>(k / CUBE * columnFractals);
        rightParams.repeatTimes = static_cast<uint8_t>(stepFractals * columnFractals);
        rightParams.srcStride = 1;
        LoadData(right, l1Weight_, rightParams);
        SetFlag<HardEvent::MTE1_M>(slot);
        WaitFlag<HardEvent::MTE1_M>(slot);

        MmadParams params;
        params.m = static_cast<uint16_t>(rows == 1 ? CUBE : rows);    // m = 1 would select the vector mode of Mmad
        params.n = static_cast<uint16_t>(t.n);
        params.k = static_cast<uint16_t>(step);
        params.cmatrixInitVal = k == 0;
        Mmad(result, left, right, params);
        if (rowFractals * columnFractals < SMALL_MMAD_FRACTALS) {
            PipeBarrier<PIPE_M>();
        }
        SetFlag<HardEvent::M_MTE1>(l0Free_[slot]);
    }

    TPipe& pipe_;
    Work work_;
    GlobalTensor<half> weight_;
    TBuf<TPosition::A1> rowsBuf_;
    TBuf<TPosition::B1> weightBuf_;
    TBuf<TPosition::A2> l0aBuf_;
    TBuf<TPosition::B2> l0bBuf_;
    TBuf<TPosition::CO1> l0cBuf_;
    LocalTensor<half> l1Rows_;
    LocalTensor<half> l1Weight_;
    LocalTensor<half> l0a_;
    LocalTensor<half> l0b_;
    LocalTensor<float> l0c_;
    TEventID l0Free_[RING];
    uint32_t stepCount_ = 0;
};

class VectorSide {
public:
    __aicore__ inline VectorSide(TPipe& pipe, const Work& work, GM_ADDR table, GM_ADDR index, GM_ADDR bias, GM_ADDR y,
                                 GM_ADDR columnSum)
        : work_(work), halfRows_(work.tiling.tileRows / VECTOR_CORES), pitch_(AlignUp(work.tiling.n, LANES))
    {
        const GatherMatmulTiling& t = work_.tiling;
        table_.SetGlobalBuffer((__gm__ half*)table, static_cast<uint64_t>(t.tableRows) * t.k);
        index_.SetGlobalBuffer((__gm__ int32_t*)index, t.count);
        bias_.SetGlobalBuffer((__gm__ float*)bias, t.n);
        y_.SetGlobalBuffer((__gm__ half*)y, static_cast<uint64_t>(t.count) * t.n);
        columnSum_.SetGlobalBuffer((__gm__ float*)columnSum, t.n);
        pipe.InitBuffer(indexBuf_, AlignUp(halfRows_ * sizeof(int32_t), BLOCK_BYTES));
        pipe.InitBuffer(rowsBuf_, RING * halfRows_ * t.k * sizeof(half));
        pipe.InitBuffer(resultBuf_, RING * halfRows_ * pitch_ * sizeof(float));
        pipe.InitBuffer(outBuf_, RING * halfRows_ * pitch_ * sizeof(half));
        pipe.InitBuffer(biasBuf_, pitch_ * sizeof(float));
        pipe.InitBuffer(sumBuf_, pitch_ * sizeof(float));
        pipe.InitBuffer(partialBuf_, GetBlockNum() * VECTOR_CORES * BLOCK_BYTES);
        indices_ = indexBuf_.Get<int32_t>();
        rows_ = rowsBuf_.Get<half>();
        results_ = resultBuf_.Get<float>();
        outs_ = outBuf_.Get<half>();
        biasUb_ = biasBuf_.Get<float>();
        sums_ = sumBuf_.Get<float>();
    }

    __aicore__ inline void Run()
    {
        Prepare();
        for (uint32_t i = 0; i < work_.tileCount; ++i) {
            Gather(i, i % RING);
            if (i > 0) {
                Finish(i - 1, (i - 1) % RING);
            }
        }
        if (work_.tileCount > 0) {
            Finish(work_.tileCount - 1, (work_.tileCount - 1) % RING);
        }
        for (uint32_t slot = 0; slot < RING; ++slot) {
            WaitFlag<HardEvent::MTE3_MTE2>(slot);
            WaitFlag<HardEvent::MTE3_V>(slot);
            WaitFlag<HardEvent::V_MTE2>(slot);
            WaitFlag<HardEvent::MTE3_V>(RING + slot);
        }
        WaitFlag<HardEvent::S_MTE2>(0);
        SumOverCores();
    }

private:
    // Rows of tile i that belong to this vector core.
    __aicore__ inline uint32_t MyRows(uint32_t i) const
    {
        const uint32_t before = GetSubBlockIdx() * halfRows_;
        const uint32_t rows = work_.Rows(i);
        return rows > before ? Smaller(halfRows_, rows - before) : 0;
    }

    __aicore__ inline uint32_t MyFirstRow(uint32_t i) const { return work_.FirstRow(i) + GetSubBlockIdx() * halfRows_; }

    __aicore__ inline void Prepare()
    {
        for (uint32_t slot = 0; slot < RING; ++slot) {
            SetFlag<HardEvent::MTE3_MTE2>(slot);
            SetFlag<HardEvent::MTE3_V>(slot);
            SetFlag<HardEvent::V_MTE2>(slot);
            SetFlag<HardEvent::MTE3_V>(RING + slot);
        }
        SetFlag<HardEvent::S_MTE2>(0);
        Duplicate(sums_, 0.0f, static_cast<int32_t>(pitch_));
        const DataCopyExtParams copy{1, static_cast<uint32_t>(work_.tiling.n * sizeof(float)), 0, 0, 0};
        const DataCopyPadExtParams<float> noPad{false, 0, 0, 0.0f};
        DataCopyPad(biasUb_, bias_, copy, noPad);
        SetFlag<HardEvent::MTE2_V>(RING);
        WaitFlag<HardEvent::MTE2_V>(RING);
    }

    __aicore__ inline void Gather(uint32_t i, uint32_t slot)
    {
        const GatherMatmulTiling& t = work_.tiling;
        const uint32_t rows = MyRows(i);
        if (i >= RING) {
            CrossCoreWaitFlag(ROWS_FREE + slot);
        }
        if (rows > 0) {
            const DataCopyExtParams copyIndex{1, static_cast<uint32_t>(rows * sizeof(int32_t)), 0, 0, 0};
            const DataCopyPadExtParams<int32_t> noPad{false, 0, 0, 0};
            WaitFlag<HardEvent::S_MTE2>(0);
            DataCopyPad(indices_, index_[MyFirstRow(i)], copyIndex, noPad);
            SetFlag<HardEvent::MTE2_S>(0);
            WaitFlag<HardEvent::MTE2_S>(0);

            LocalTensor<half> tile = rows_[slot * halfRows_ * t.k];
            WaitFlag<HardEvent::MTE3_MTE2>(slot);
            WaitFlag<HardEvent::MTE3_V>(slot);
            for (uint32_t row = 0; row < rows; ++row) {
                const int32_t index = indices_.GetValue(row);
                if (index >= 0 && static_cast<uint32_t>(index) < t.tableRows) {
                    DataCopy(tile[row * t.k], table_[static_cast<uint64_t>(index) * t.k], t.k);
                } else {
                    Duplicate(tile[row * t.k], half(0.0f), static_cast<int32_t>(t.k));
                }
            }
            SetFlag<HardEvent::S_MTE2>(0);
            SetFlag<HardEvent::MTE2_MTE3>(slot);
            SetFlag<HardEvent::V_MTE3>(slot);
            WaitFlag<HardEvent::MTE2_MTE3>(slot);
            WaitFlag<HardEvent::V_MTE3>(slot);
            const uint64_t ringRow = static_cast<uint64_t>(slot) * t.tileRows + GetSubBlockIdx() * halfRows_;
            DataCopy(work_.rowRing[ringRow * t.k], tile, rows * t.k);
            SetFlag<HardEvent::MTE3_MTE2>(slot);
            SetFlag<HardEvent::MTE3_V>(slot);
        }
        CrossCoreSetFlag<2, PIPE_MTE3>(ROWS_READY + slot);
    }

    __aicore__ inline void Finish(uint32_t i, uint32_t slot)
    {
        const GatherMatmulTiling& t = work_.tiling;
        const uint32_t rows = MyRows(i);
        LocalTensor<float> result = results_[slot * halfRows_ * pitch_];
        CrossCoreWaitFlag(RESULT_READY + slot);
        if (rows > 0) {
            const uint32_t rowBytes = static_cast<uint32_t>(t.n * sizeof(float));
            const uint32_t gap = (pitch_ * sizeof(float) - AlignUp(rowBytes, BLOCK_BYTES)) / BLOCK_BYTES;
            const DataCopyExtParams copy{static_cast<uint16_t>(rows), rowBytes, 0, gap, 0};
            const DataCopyPadExtParams<float> noPad{false, 0, 0, 0.0f};
            const uint64_t ringRow = static_cast<uint64_t>(slot) * t.tileRows + GetSubBlockIdx() * halfRows_;
            WaitFlag<HardEvent::V_MTE2>(slot);
            DataCopyPad(result, work_.resultRing[ringRow * t.n], copy, noPad);
            SetFlag<HardEvent::MTE2_V>(slot);
        }
        if (i + RING < work_.tileCount) {
            CrossCoreSetFlag<2, PIPE_MTE2>(RESULT_FREE + slot);
        }
        if (rows > 0) {
            WaitFlag<HardEvent::MTE2_V>(slot);
            AddBiasAndStore(i, slot, rows, result);
        }
    }

    __aicore__ inline void AddBiasAndStore(uint32_t i, uint32_t slot, uint32_t rows, const LocalTensor<float>& result)
    {
        const GatherMatmulTiling& t = work_.tiling;
        LocalTensor<half> out = outs_[slot * halfRows_ * pitch_];
        const uint8_t repeats = static_cast<uint8_t>(rows);
        const uint8_t floatBlocks = static_cast<uint8_t>(pitch_ * sizeof(float) / BLOCK_BYTES);
        const uint8_t halfBlocks = static_cast<uint8_t>(pitch_ * sizeof(half) / BLOCK_BYTES);
        WaitFlag<HardEvent::MTE3_V>(RING + slot);
        for (uint32_t column = 0; column < t.n; column += LANES) {
            const uint64_t width = Smaller(LANES, t.n - column);
            Add(result[column], result[column], biasUb_[column], width, repeats,
                {1, 1, 1, floatBlocks, floatBlocks, 0});
        }
        PipeBarrier<PIPE_V>();
        for (uint32_t column = 0; column < t.n; column += LANES) {
            const uint64_t width = Smaller(LANES, t.n - column);
            Cast(out[column], result[column], RoundMode::CAST_RINT, width, repeats, {1, 1, halfBlocks, floatBlocks});
        }
        for (uint32_t row = 0; row < rows; ++row) {
            Add(sums_, sums_, result[row * pitch_], static_cast<int32_t>(t.n));
            PipeBarrier<PIPE_V>();
        }
        SetFlag<HardEvent::V_MTE2>(slot);
        SetFlag<HardEvent::V_MTE3>(RING + slot);
        WaitFlag<HardEvent::V_MTE3>(RING + slot);

        const uint32_t rowBytes = static_cast<uint32_t>(t.n * sizeof(half));
        const uint32_t gap = (pitch_ * sizeof(half) - AlignUp(rowBytes, BLOCK_BYTES)) / BLOCK_BYTES;
        const DataCopyExtParams copy{static_cast<uint16_t>(rows), rowBytes, gap, 0, 0};
        DataCopyPad(y_[static_cast<uint64_t>(MyFirstRow(i)) * t.n], out, copy);
        SetFlag<HardEvent::MTE3_V>(RING + slot);
    }

    // Every vector core leaves its sums in global memory; after the barrier each adds up a few columns over all cores.
    __aicore__ inline void SumOverCores()
    {
        const GatherMatmulTiling& t = work_.tiling;
        const uint32_t cores = GetBlockNum() * VECTOR_CORES;
        const DataCopyExtParams copySums{1, static_cast<uint32_t>(t.n * sizeof(float)), 0, 0, 0};
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopyPad(work_.partialSums[static_cast<uint64_t>(GetBlockIdx()) * t.n], sums_, copySums);
        SyncAll();

        constexpr uint32_t COLUMNS = BLOCK_BYTES / sizeof(float);
        LocalTensor<float> partial = partialBuf_.Get<float>();
        for (uint32_t column = GetBlockIdx() * COLUMNS; column < t.n; column += cores * COLUMNS) {
            const uint32_t width = Smaller(COLUMNS, t.n - column);
            const uint32_t bytes = static_cast<uint32_t>(width * sizeof(float));
            const DataCopyExtParams load{static_cast<uint16_t>(cores), bytes,
                                         static_cast<uint32_t>(t.n * sizeof(float)) - bytes, 0, 0};
            const DataCopyPadExtParams<float> noPad{false, 0, 0, 0.0f};
            DataCopyPad(partial, work_.partialSums[column], load, noPad);
            SetFlag<HardEvent::MTE2_V>(0);
            WaitFlag<HardEvent::MTE2_V>(0);
            for (uint32_t core = 1; core < cores; ++core) {
                Add(partial, partial, partial[core * COLUMNS], static_cast<int32_t>(width));
                PipeBarrier<PIPE_V>();
            }
            SetFlag<HardEvent::V_MTE3>(0);
            WaitFlag<HardEvent::V_MTE3>(0);
            const DataCopyExtParams store{1, bytes, 0, 0, 0};
            DataCopyPad(columnSum_[column], partial, store);
            SetFlag<HardEvent::MTE3_MTE2>(0);
            WaitFlag<HardEvent::MTE3_MTE2>(0);
        }
    }

    Work work_;
    GlobalTensor<half> table_;
    GlobalTensor<int32_t> index_;
    GlobalTensor<float> bias_;
    GlobalTensor<half> y_;
    GlobalTensor<float> columnSum_;
    TBuf<TPosition::VECCALC> indexBuf_;
    TBuf<TPosition::VECCALC> rowsBuf_;
    TBuf<TPosition::VECCALC> resultBuf_;
    TBuf<TPosition::VECCALC> outBuf_;
    TBuf<TPosition::VECCALC> biasBuf_;
    TBuf<TPosition::VECCALC> sumBuf_;
    TBuf<TPosition::VECCALC> partialBuf_;
    LocalTensor<int32_t> indices_;
    LocalTensor<half> rows_;
    LocalTensor<float> results_;
    LocalTensor<half> outs_;
    LocalTensor<float> biasUb_;
    LocalTensor<float> sums_;
    uint32_t halfRows_;
    uint32_t pitch_;    // float elements of a result row in UB
};

}    // namespace

extern "C" __global__ __aicore__ void gather_matmul(GM_ADDR table, GM_ADDR index, GM_ADDR weight, GM_ADDR bias,
                                                    GM_ADDR y, GM_ADDR columnSum, GM_ADDR workspace,
                                                    GatherMatmulTiling tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    TPipe pipe;
    if ASCEND_IS_AIC {
        CubeSide(pipe, Work(tiling, workspace, GetBlockIdx(), GetBlockNum()), weight).Run();
    }
    if ASCEND_IS_AIV {
        const uint32_t block = GetBlockIdx() / VECTOR_CORES;
        VectorSide(pipe, Work(tiling, workspace, block, GetBlockNum()), table, index, bias, y, columnSum).Run();
    }
}
