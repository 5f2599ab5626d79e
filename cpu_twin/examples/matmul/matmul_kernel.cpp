// SPDX-License-Identifier: Apache-2.0
// Matmul on the cube cores: ND to NZ copies into L1, LoadData 2D, 3D and with transpose into L0, Mmad over k with unit
// flags, Fixpipe back to row-major memory with or without a cast. L1, L0A, L0B and L0C are double-buffered by events.
#include "kernel_operator.h"

#include "matmul_tiling.h"

using namespace AscendC;

namespace {

constexpr uint32_t CUBE = 16;    // a fractal is 16 x 16 for 16-bit types
constexpr uint32_t FRACTAL = CUBE * CUBE;
constexpr uint32_t BASE_M = 128;
constexpr uint32_t BASE_N = 128;
constexpr uint32_t CHUNK_K = 256;               // k of one L1 buffer
constexpr uint32_t STEP_K = 128;                // k of one L0 buffer
constexpr uint32_t SMALL_MMAD_FRACTALS = 10;    // below this, Mmads on one L0C tile need a barrier between them

__aicore__ inline uint32_t AlignUp(uint32_t value, uint32_t step) { return (value + step - 1) / step * step; }
__aicore__ inline uint32_t Smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <typename In, typename Out, bool TRANSPOSE_B> class Matmul {
public:
    __aicore__ inline Matmul(TPipe& pipe, GM_ADDR a, GM_ADDR b, GM_ADDR c, const MatmulTiling& tiling)
        : pipe_(pipe), m_(tiling.m), n_(tiling.n), k_(tiling.k)
    {
        a_.SetGlobalBuffer((__gm__ In*)a, static_cast<uint64_t>(m_) * k_);
        b_.SetGlobalBuffer((__gm__ In*)b, static_cast<uint64_t>(n_) * k_);
        c_.SetGlobalBuffer((__gm__ Out*)c, static_cast<uint64_t>(m_) * n_);
        pipe.InitBuffer(l1aBuf_, 2 * BASE_M * CHUNK_K * sizeof(In));
        pipe.InitBuffer(l1bBuf_, 2 * BASE_N * CHUNK_K * sizeof(In));
        pipe.InitBuffer(l0aBuf_, 2 * BASE_M * STEP_K * sizeof(In));
        pipe.InitBuffer(l0bBuf_, 2 * BASE_N * STEP_K * sizeof(In));
        pipe.InitBuffer(l0cBuf_, 2 * BASE_M * BASE_N * sizeof(float));
        l1a_ = l1aBuf_.Get<In>();
        l1b_ = l1bBuf_.Get<In>();
        l0a_ = l0aBuf_.Get<In>();
        l0b_ = l0bBuf_.Get<In>();
        l0c_ = l0cBuf_.Get<float>();
    }

    __aicore__ inline void Run()
    {
        // Fixpipe reads rows of L0C when it writes ND; Mmad must release them in the same order for unit flags to help.
        SetMMRowMajor();
        for (uint32_t slot = 0; slot < 2; ++slot) {
            l0Free_[slot] =
                pipe_.AllocEventID<HardEvent::M_MTE1>();    // TPipe keeps the first ids of M_MTE1 for itself
            SetFlag<HardEvent::MTE1_MTE2>(slot);
            SetFlag<HardEvent::M_MTE1>(l0Free_[slot]);
        }
        const uint32_t rowTiles = (m_ + BASE_M - 1) / BASE_M;
        const uint32_t columnTiles = (n_ + BASE_N - 1) / BASE_N;
        for (uint32_t tile = GetBlockIdx(); tile < rowTiles * columnTiles; tile += GetBlockNum()) {
            ComputeTile(tile / columnTiles * BASE_M, tile % columnTiles * BASE_N);
        }
        for (uint32_t slot = 0; slot < 2; ++slot) {
            WaitFlag<HardEvent::MTE1_MTE2>(slot);
            WaitFlag<HardEvent::M_MTE1>(l0Free_[slot]);
            pipe_.ReleaseEventID<HardEvent::M_MTE1>(l0Free_[slot]);
        }
        SetMMColumnMajor();
    }

private:
    __aicore__ inline void ComputeTile(uint32_t row, uint32_t column)
    {
        const uint32_t m = Smaller(BASE_M, m_ - row);
        const uint32_t n = Smaller(BASE_N, n_ - column);
        LocalTensor<float> c = l0c_[tileCount_ % 2 * BASE_M * BASE_N];
        ++tileCount_;
        for (uint32_t k = 0; k < k_; k += CHUNK_K) {
            const uint32_t chunk = Smaller(CHUNK_K, k_ - k);
            const uint32_t slot = chunkCount_ % 2;
            ++chunkCount_;
            WaitFlag<HardEvent::MTE1_MTE2>(slot);
            LoadChunk(slot, row, column, k, m, n, chunk);
            SetFlag<HardEvent::MTE2_MTE1>(slot);
            WaitFlag<HardEvent::MTE2_MTE1>(slot);
            for (uint32_t inner = 0; inner < chunk; inner += STEP_K) {
                const uint32_t step = Smaller(STEP_K, chunk - inner);
                Multiply(c, slot, inner, m, n, chunk, step, k + inner == 0, k + inner + step == k_);
            }
            SetFlag<HardEvent::MTE1_MTE2>(slot);
        }
        StoreTile(c, row, column, m, n);
    }

    __aicore__ inline void CopyToNz(const LocalTensor<In>& dst, const GlobalTensor<In>& src, uint32_t rows,
                                    uint32_t columns, uint32_t rowDistance)
    {
        Nd2NzParams params;
        params.ndNum = 1;
        params.nValue = static_cast<uint16_t>(rows);
        params.dValue = static_cast<uint16_t>(columns);
        params.srcNdMatrixStride = 0;
        params.srcDValue = static_cast<uint16_t>(rowDistance);
        params.dstNzC0Stride = static_cast<uint16_t>(AlignUp(rows, CUBE));
        params.dstNzNStride = 1;
        params.dstNzMatrixStride = 0;
        DataCopy(dst, src, params);
    }

    __aicore__ inline void LoadChunk(uint32_t slot, uint32_t row, uint32_t column, uint32_t k, uint32_t m, uint32_t n,
                                     uint32_t chunk)
    {
        CopyToNz(l1a_[slot * BASE_M * CHUNK_K], a_[static_cast<uint64_t>(row) * k_ + k], m, chunk, k_);
        LocalTensor<In> b = l1b_[slot * BASE_N * CHUNK_K];
        if constexpr (TRANSPOSE_B) {
            CopyToNz(b, b_[static_cast<uint64_t>(column) * k_ + k], n, chunk, k_);
        } else {
            CopyToNz(b, b_[static_cast<uint64_t>(k) * n_ + column], chunk, n, n_);
        }
    }

    __aicore__ inline void LoadLeft(const LocalTensor<In>& dst, const LocalTensor<In>& src, uint32_t inner, uint32_t m,
                                    uint32_t chunk, uint32_t step)
    {
        // A 1 x 1 filter over a feature map of m points and chunk channels is the matrix itself, NZ in, ZZ out.
        LoadData3DParamsV2<In> params;
        params.l1H = 1;
        params.l1W = static_cast<uint16_t>(AlignUp(m, CUBE));
        params.channelSize = static_cast<uint16_t>(AlignUp(chunk, CUBE));
        params.kExtension = static_cast<uint16_t>(AlignUp(step, CUBE));
        params.mExtension = static_cast<uint16_t>(AlignUp(m, CUBE));
        params.kStartPt = static_cast<uint16_t>(inner);
        params.mStartPt = 0;
        LoadData(dst, src, params);
    }

    __aicore__ inline void LoadRight(const LocalTensor<In>& dst, const LocalTensor<In>& src, uint32_t inner, uint32_t n,
                                     uint32_t chunk, uint32_t step)
    {
        const uint32_t columnFractals = AlignUp(n, CUBE) / CUBE;
        const uint32_t stepFractals = AlignUp(step, CUBE) / CUBE;
        if constexpr (TRANSPOSE_B) {
            // NZ of an [n, k] matrix has its fractals in L0B's order already.
            LoadData2DParams params;
            params.startIndex = static_cast<uint16_t>(inner / CUBE * columnFractals);
            params.repeatTimes = static_cast<uint8_t>(stepFractals * columnFractals);
            params.srcStride = 1;
            params.dstGap = 0;
            params.ifTranspose = false;
            LoadData(dst, src, params);
        } else {
            const uint32_t chunkFractals = AlignUp(chunk, CUBE) / CUBE;
            LoadData2dTransposeParams params;
            params.repeatTimes = static_cast<uint8_t>(columnFractals);
            params.srcStride = static_cast<uint16_t>(chunkFractals);
            params.dstGap = 0;
            for (uint32_t i = 0; i < stepFractals; ++i) {
                params.startIndex = static_cast<uint16_t>(inner / CUBE + i);
                LoadDataWithTranspose(dst[i * columnFractals * FRACTAL], src, params);
            }
        }
    }

    __aicore__ inline void Multiply(const LocalTensor<float>& c, uint32_t chunkSlot, uint32_t inner, uint32_t m,
                                    uint32_t n, uint32_t chunk, uint32_t step, bool first, bool last)
    {
        const uint32_t slot = stepCount_ % 2;
        ++stepCount_;
        LocalTensor<In> left = l0a_[slot * BASE_M * STEP_K];
        LocalTensor<In> right = l0b_[slot * BASE_N * STEP_K];
        WaitFlag<HardEvent::M_MTE1>(l0Free_[slot]);
        LoadLeft(left, l1a_[chunkSlot * BASE_M * CHUNK_K], inner, m, chunk, step);
        LoadRight(right, l1b_[chunkSlot * BASE_N * CHUNK_K], inner, n, chunk, step);
        SetFlag<HardEvent::MTE1_M>(slot);
        WaitFlag<HardEvent::MTE1_M>(slot);

        MmadParams params;
        params.m = static_cast<uint16_t>(m == 1 ? CUBE : m);    // m = 1 would mean a vector laid out differently in L0A
        params.n = static_cast<uint16_t>(n);
        params.k = static_cast<uint16_t>(step);
        params.cmatrixInitVal = first;
        params.unitFlag = last ? 3 : 2;
        Mmad(c, left, right, params);
        if (AlignUp(m, CUBE) / CUBE * (AlignUp(n, CUBE) / CUBE) < SMALL_MMAD_FRACTALS) {
            PipeBarrier<PIPE_M>();
        }
        SetFlag<HardEvent::M_MTE1>(l0Free_[slot]);
    }

    __aicore__ inline void StoreTile(const LocalTensor<float>& c, uint32_t row, uint32_t column, uint32_t m, uint32_t n)
    {
        FixpipeParamsV220 params;
        params.nSize = static_cast<uint16_t>(n);
        params.mSize = static_cast<uint16_t>(m);
        params.srcStride = static_cast<uint16_t>(AlignUp(m, CUBE));
        params.dstStride = n_;
        params.ndNum = 1;
        params.unitFlag = 3;
        if constexpr (sizeof(Out) == sizeof(float)) {
            params.quantPre = QuantMode_t::NoQuant;
        } else if constexpr (IsSameType<Out, half>::value) {
            params.quantPre = QuantMode_t::F322F16;
        } else {
            params.quantPre = QuantMode_t::F322BF16;
        }
        Fixpipe<Out, float, CFG_ROW_MAJOR>(c_[static_cast<uint64_t>(row) * n_ + column], c, params);
    }

    TPipe& pipe_;
    GlobalTensor<In> a_;
    GlobalTensor<In> b_;
    GlobalTensor<Out> c_;
    TBuf<TPosition::A1> l1aBuf_;
    TBuf<TPosition::B1> l1bBuf_;
    TBuf<TPosition::A2> l0aBuf_;
    TBuf<TPosition::B2> l0bBuf_;
    TBuf<TPosition::CO1> l0cBuf_;
    LocalTensor<In> l1a_;
    LocalTensor<In> l1b_;
    LocalTensor<In> l0a_;
    LocalTensor<In> l0b_;
    LocalTensor<float> l0c_;
    TEventID l0Free_[2];
    uint32_t m_;
    uint32_t n_;
    uint32_t k_;
    uint32_t tileCount_ = 0;
    uint32_t chunkCount_ = 0;
    uint32_t stepCount_ = 0;
};

template <typename In, typename Out>
__aicore__ inline void RunMatmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, const MatmulTiling& tiling)
{
    TPipe pipe;
    if (tiling.transposeB != 0) {
        Matmul<In, Out, true>(pipe, a, b, c, tiling).Run();
    } else {
        Matmul<In, Out, false>(pipe, a, b, c, tiling).Run();
    }
}

template <typename In> __aicore__ inline void RunMatmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, const MatmulTiling& tiling)
{
    if (tiling.output == MatmulOutput::FLOAT) {
        RunMatmul<In, float>(a, b, c, tiling);
    } else if (tiling.output == MatmulOutput::HALF) {
        RunMatmul<In, half>(a, b, c, tiling);
    } else {
        RunMatmul<In, bfloat16_t>(a, b, c, tiling);
    }
}

}    // namespace

extern "C" __global__ __aicore__ void matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, MatmulTiling tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    if (tiling.input == MatmulInput::HALF) {
        RunMatmul<half>(a, b, c, tiling);
    } else {
        RunMatmul<bfloat16_t>(a, b, c, tiling);
    }
}
