// SPDX-License-Identifier: Apache-2.0
// Row softmax on the vector cores: DataCopyPad with odd tails, casts, broadcast of a row scalar by a zero block stride,
// reductions in two steps, double buffering by queues.
#include "kernel_operator.h"

#include "row_softmax_tiling.h"

using namespace AscendC;

namespace {

constexpr uint32_t LANES = 64;          // float32 elements of one repeat (256 bytes)
constexpr uint32_t BLOCK_FLOATS = 8;    // float32 elements of one 32-byte block
constexpr uint32_t BLOCK_BYTES = 32;
constexpr float LOWEST_FLOAT = -3.402823466e+38F;

__aicore__ inline uint32_t AlignUp(uint32_t value, uint32_t step) { return (value + step - 1) / step * step; }

template <typename T> class RowSoftmax {
public:
    __aicore__ inline RowSoftmax(TPipe& pipe, GM_ADDR x, GM_ADDR y, const RowSoftmaxTiling& tiling)
        : rows_(tiling.rows), cols_(tiling.cols), tileRows_(tiling.tileRows), pitch_(AlignUp(tiling.cols, LANES))
    {
        x_.SetGlobalBuffer((__gm__ T*)x, static_cast<uint64_t>(rows_) * cols_);
        y_.SetGlobalBuffer((__gm__ T*)y, static_cast<uint64_t>(rows_) * cols_);
        pipe.InitBuffer(inQueue_, 2, tileRows_ * pitch_ * sizeof(T));
        pipe.InitBuffer(outQueue_, 2, tileRows_ * pitch_ * sizeof(T));
        pipe.InitBuffer(valuesBuf_, tileRows_ * pitch_ * sizeof(float));
        pipe.InitBuffer(laneBuf_, tileRows_ * LANES * sizeof(float));
        pipe.InitBuffer(scalarBuf_, AlignUp(tileRows_, LANES) * sizeof(float));
        pipe.InitBuffer(blockBuf_, tileRows_ * BLOCK_FLOATS * sizeof(float));
    }

    __aicore__ inline void Run()
    {
        const uint32_t tiles = (rows_ + tileRows_ - 1) / tileRows_;
        for (uint32_t tile = GetBlockIdx(); tile < tiles; tile += GetBlockNum()) {
            const uint32_t firstRow = tile * tileRows_;
            const uint32_t count = rows_ - firstRow < tileRows_ ? rows_ - firstRow : tileRows_;
            Load(firstRow, count);
            Compute(count);
            Store(firstRow, count);
        }
    }

private:
    // The part of a padded row that lies behind the bytes DataCopyPad writes, in 32-byte blocks.
    __aicore__ inline uint32_t PitchGap() const
    {
        return (pitch_ * sizeof(T) - AlignUp(cols_ * sizeof(T), BLOCK_BYTES)) / BLOCK_BYTES;
    }

    __aicore__ inline void Load(uint32_t firstRow, uint32_t count)
    {
        LocalTensor<T> in = inQueue_.AllocTensor<T>();
        const DataCopyExtParams copy{static_cast<uint16_t>(count), static_cast<uint32_t>(cols_ * sizeof(T)), 0,
                                     PitchGap(), 0};
        const DataCopyPadExtParams<T> noPad{false, 0, 0, T(0)};
        DataCopyPad(in, x_[static_cast<uint64_t>(firstRow) * cols_], copy, noPad);
        inQueue_.EnQue(in);
    }

    __aicore__ inline void Store(uint32_t firstRow, uint32_t count)
    {
        LocalTensor<T> out = outQueue_.DeQue<T>();
        const DataCopyExtParams copy{static_cast<uint16_t>(count), static_cast<uint32_t>(cols_ * sizeof(T)), PitchGap(),
                                     0, 0};
        DataCopyPad(y_[static_cast<uint64_t>(firstRow) * cols_], out, copy);
        outQueue_.FreeTensor(out);
    }

    // Row r of lanes becomes op over all 64-wide column groups of row r of values.
    template <bool IS_MAX>
    __aicore__ inline void FoldColumns(const LocalTensor<float>& lanes, const LocalTensor<float>& values,
                                       uint32_t count)
    {
        const uint8_t rowBlocks = static_cast<uint8_t>(pitch_ / BLOCK_FLOATS);
        const uint8_t repeats = static_cast<uint8_t>(count);
        Adds(lanes, values, 0.0f, static_cast<uint64_t>(LANES), repeats, {1, 1, 8, rowBlocks});
        for (uint32_t column = LANES; column < pitch_; column += LANES) {
            PipeBarrier<PIPE_V>();
            if constexpr (IS_MAX) {
                Max(lanes, lanes, values[column], static_cast<uint64_t>(LANES), repeats, {1, 1, 1, 8, 8, rowBlocks});
            } else {
                Add(lanes, lanes, values[column], static_cast<uint64_t>(LANES), repeats, {1, 1, 1, 8, 8, rowBlocks});
            }
        }
        PipeBarrier<PIPE_V>();
    }

    // One value a row, repeated over the 8 elements of a block, so that a block stride of 0 broadcasts it over the row.
    __aicore__ inline void SpreadScalars(const LocalTensor<float>& blocks, const LocalTensor<float>& scalars,
                                         uint32_t count)
    {
        Brcb(blocks, scalars, static_cast<uint8_t>((count + BLOCK_FLOATS - 1) / BLOCK_FLOATS), {1, 8});
        PipeBarrier<PIPE_V>();
    }

    __aicore__ inline void Compute(uint32_t count)
    {
        LocalTensor<T> in = inQueue_.DeQue<T>();
        LocalTensor<float> values = valuesBuf_.Get<float>();
        LocalTensor<float> lanes = laneBuf_.Get<float>();
        LocalTensor<float> scalars = scalarBuf_.Get<float>();
        LocalTensor<float> blocks = blockBuf_.Get<float>();
        const uint8_t rowBlocks = static_cast<uint8_t>(pitch_ / BLOCK_FLOATS);
        const uint8_t repeats = static_cast<uint8_t>(count);

        Widen(values, in, count);
        inQueue_.FreeTensor(in);
        PipeBarrier<PIPE_V>();
        FillTail(values, repeats, rowBlocks);

        FoldColumns<true>(lanes, values, count);
        WholeReduceMax(scalars, lanes, static_cast<int32_t>(LANES), count, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
        PipeBarrier<PIPE_V>();
        SpreadScalars(blocks, scalars, count);
        for (uint32_t column = 0; column < pitch_; column += LANES) {
            Sub(values[column], values[column], blocks, static_cast<uint64_t>(LANES), repeats,
                {1, 1, 0, rowBlocks, rowBlocks, 1});
        }
        PipeBarrier<PIPE_V>();
        Exp(values, values, static_cast<int32_t>(count * pitch_));
        PipeBarrier<PIPE_V>();

        FoldColumns<false>(lanes, values, count);
        WholeReduceSum(scalars, lanes, static_cast<int32_t>(LANES), count, 1, 1, 8);
        PipeBarrier<PIPE_V>();
        SpreadScalars(blocks, scalars, count);
        for (uint32_t column = 0; column < pitch_; column += LANES) {
            Div(values[column], values[column], blocks, static_cast<uint64_t>(LANES), repeats,
                {1, 1, 0, rowBlocks, rowBlocks, 1});
        }
        PipeBarrier<PIPE_V>();

        LocalTensor<T> out = outQueue_.AllocTensor<T>();
        if constexpr (sizeof(T) == sizeof(float)) {
            DataCopy(out, values, count * pitch_);
        } else {
            Cast(out, values, RoundMode::CAST_RINT, count * pitch_);
        }
        PipeBarrier<PIPE_V>();    // the next tile writes values
        outQueue_.EnQue(out);
    }

    __aicore__ inline void Widen(const LocalTensor<float>& values, const LocalTensor<T>& in, uint32_t count)
    {
        // Only whole 32-byte blocks of a row were written by the copy; the cast must not touch what lies behind them.
        const uint32_t written = AlignUp(cols_ * sizeof(T), BLOCK_BYTES) / sizeof(T);
        const uint8_t repeats = static_cast<uint8_t>(count);
        const uint8_t fromBlocks = static_cast<uint8_t>(pitch_ * sizeof(T) / BLOCK_BYTES);
        const uint8_t toBlocks = static_cast<uint8_t>(pitch_ / BLOCK_FLOATS);
        for (uint32_t column = 0; column < written; column += LANES) {
            const uint64_t width = written - column < LANES ? written - column : LANES;
            if constexpr (sizeof(T) == sizeof(float)) {
                Adds(values[column], in[column], 0.0f, width, repeats, {1, 1, toBlocks, fromBlocks});
            } else {
                Cast(values[column], in[column], RoundMode::CAST_NONE, width, repeats, {1, 1, toBlocks, fromBlocks});
            }
        }
    }

    // Columns cols .. pitch - 1 take the lowest float: they never are the maximum, and their exponential is zero.
    __aicore__ inline void FillTail(const LocalTensor<float>& values, uint8_t repeats, uint8_t rowBlocks)
    {
        const uint32_t tail = cols_ % LANES;
        if (tail == 0) {
            return;
        }
        uint64_t mask[2] = {~((static_cast<uint64_t>(1) << tail) - 1), 0};
        Duplicate(values[pitch_ - LANES], LOWEST_FLOAT, mask, repeats, 1, rowBlocks);
        PipeBarrier<PIPE_V>();
    }

    GlobalTensor<T> x_;
    GlobalTensor<T> y_;
    TQue<TPosition::VECIN, 2> inQueue_;
    TQue<TPosition::VECOUT, 2> outQueue_;
    TBuf<TPosition::VECCALC> valuesBuf_;
    TBuf<TPosition::VECCALC> laneBuf_;
    TBuf<TPosition::VECCALC> scalarBuf_;
    TBuf<TPosition::VECCALC> blockBuf_;
    uint32_t rows_;
    uint32_t cols_;
    uint32_t tileRows_;
    uint32_t pitch_;    // elements of a row in UB
};

template <typename T> __aicore__ inline void RunRowSoftmax(GM_ADDR x, GM_ADDR y, const RowSoftmaxTiling& tiling)
{
    TPipe pipe;
    RowSoftmax<T>(pipe, x, y, tiling).Run();
}

}    // namespace

extern "C" __global__ __aicore__ void row_softmax(GM_ADDR x, GM_ADDR y, RowSoftmaxTiling tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    if (tiling.type == SoftmaxType::FLOAT) {
        RunRowSoftmax<float>(x, y, tiling);
    } else if (tiling.type == SoftmaxType::HALF) {
        RunRowSoftmax<half>(x, y, tiling);
    } else {
        RunRowSoftmax<bfloat16_t>(x, y, tiling);
    }
}
