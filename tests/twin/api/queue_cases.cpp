// SPDX-License-Identifier: Apache-2.0
// TPipe, queues, TBuf: what they order, what they hand out, what they refuse.
#include "harness.h"

namespace api_test {

API_TEST(queues_order_copy_compute_copy)
{
    Random random(1);
    const auto x = Floats(random, 8 * 256);
    std::vector<float> y(x.size());
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("y", y)}, [&] {
        TPipe pipe;
        TQue<TPosition::VECIN, 2> in;
        TQue<TPosition::VECOUT, 2> out;
        pipe.InitBuffer(in, 2, 256 * sizeof(float));
        pipe.InitBuffer(out, 2, 256 * sizeof(float));
        for (uint32_t tile = 0; tile < 8; ++tile) {
            LocalTensor<float> a = in.AllocTensor<float>();
            DataCopy(a, Global(x)[tile * 256], 256);
            in.EnQue(a);
            LocalTensor<float> b = in.DeQue<float>();
            LocalTensor<float> c = out.AllocTensor<float>();
            Muls(c, b, 3.0f, 256);
            in.FreeTensor(b);
            out.EnQue(c);
            LocalTensor<float> d = out.DeQue<float>();
            DataCopy(Global(y)[tile * 256], d, 256);
            out.FreeTensor(d);
        }
    });
    EXPECT_CLEAN(report);
    for (size_t i = 0; i < x.size(); ++i) {
        EXPECT(y[i] == 3.0f * x[i], std::to_string(i));
    }
}

API_TEST(bound_queue_copies_through)
{
    Random random(2);
    const auto x = Floats(random, 128);
    std::vector<float> y(x.size());
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("y", y)}, [&] {
        TPipe pipe;
        TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
        pipe.InitBuffer(queue, 1, 512);
        for (int pass = 0; pass < 3; ++pass) {
            LocalTensor<float> tile = queue.AllocTensor<float>();
            DataCopy(tile, Global(x), 128);
            queue.EnQue(tile);
            tile = queue.DeQue<float>();
            DataCopy(Global(y), tile, 128);
            queue.FreeTensor(tile);
        }
    });
    EXPECT_CLEAN(report);
    EXPECT(y == x, "");
}

API_TEST(queue_of_depth_zero_takes_tensors_in_place)
{
    Random random(3);
    const auto x = Floats(random, 256);
    std::vector<float> y(x.size());
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("y", y)}, [&] {
        TPipe pipe;
        TQue<TPosition::VECIN, 0> in;
        TQue<TPosition::VECOUT, 0> out;
        pipe.InitBuffer(in, 1, 512);
        pipe.InitBuffer(out, 1, 512);
        for (uint32_t tile = 0; tile < 2; ++tile) {
            LocalTensor<float> a, b;
            in.AllocTensor(a);
            DataCopy(a, Global(x)[tile * 128], 128);
            in.EnQue(a);
            in.DeQue(a);
            out.AllocTensor(b);
            Adds(b, a, 1.0f, 128);
            in.FreeTensor(a);
            out.EnQue(b);
            out.DeQue(b);
            DataCopy(Global(y)[tile * 128], b, 128);
            out.FreeTensor(b);
        }
        in.FreeAllEvent();
        out.FreeAllEvent();
        pipe.Reset();
    });
    EXPECT_CLEAN(report);
    for (size_t i = 0; i < x.size(); ++i) {
        EXPECT(y[i] == x[i] + 1.0f, std::to_string(i));
    }
}

// Without the queue's flags the same kernel is a race: the queue really sets them.
API_TEST(a_tbuf_orders_nothing)
{
    std::vector<float> x(64, 1.0f), y(64);
    uint32_t line = 0;
    const Report report = OnVector({cpu_twin::In("x", x), cpu_twin::Out("y", y)}, [&] {
        TPipe pipe;
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, 256);
        LocalTensor<float> tile = buffer.Get<float>();
        DataCopy(tile, Global(x), 64);
        line = __LINE__ + 1;
        Muls(tile, tile, 2.0f, 64);
        PipeBarrier<PIPE_ALL>();
        DataCopy(Global(y), tile, 64);
    });
    EXPECT_FINDING(report, Rule::Race, line, "UB");
}

API_TEST(queues_refuse_misuse)
{
    EXPECT_REFUSED(AivOnly, "all 2 buffers of the queue are in use", TPipe pipe; TQue<TPosition::VECIN, 2> q;
                   pipe.InitBuffer(q, 2, 64); q.AllocTensor<float>(); q.AllocTensor<float>(); q.AllocTensor<float>());
    EXPECT_REFUSED(AivOnly, "the queue is empty", TPipe pipe; TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 1, 64);
                   q.DeQue<float>());
    EXPECT_REFUSED(AivOnly, "depth is 1 and it is full", TPipe pipe; TQue<TPosition::VECIN, 1> q;
                   pipe.InitBuffer(q, 2, 64); auto a = q.AllocTensor<float>(); auto b = q.AllocTensor<float>();
                   q.EnQue(a); q.EnQue(b));
    EXPECT_REFUSED(AivOnly, "in the queue already", TPipe pipe; TQue<TPosition::VECIN, 2> q; pipe.InitBuffer(q, 2, 64);
                   auto a = q.AllocTensor<float>(); q.EnQue(a); q.EnQue(a));
    EXPECT_REFUSED(AivOnly, "free already", TPipe pipe; TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 1, 64);
                   auto a = q.AllocTensor<float>(); q.FreeTensor(a); q.FreeTensor(a));
    EXPECT_REFUSED(AivOnly, "not one that this queue's", TPipe pipe; TQue<TPosition::VECIN, 1> q;
                   TQue<TPosition::VECOUT, 1> other; pipe.InitBuffer(q, 1, 64); pipe.InitBuffer(other, 1, 64);
                   auto a = other.AllocTensor<float>(); q.EnQue(a));
    EXPECT_REFUSED(AivOnly, "other positions", TPipe pipe; TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 1, 64);
                   auto a = q.AllocTensor<float>(); q.EnQue<TPosition::VECCALC, TPosition::GM>(a); q.DeQue<float>());
}

API_TEST(tpipe_refuses_what_does_not_fit)
{
    EXPECT_REFUSED(AivOnly, "188160 usable bytes of UB", TPipe pipe; TBuf<TPosition::VECCALC> b;
                   pipe.InitBuffer(b, 184 * 1024));
    EXPECT_REFUSED(AicOnly, "524032 usable bytes of L1", TPipe pipe; TBuf<TPosition::A1> b;
                   pipe.InitBuffer(b, 512 * 1024));
    EXPECT_REFUSED(AivOnly, "expected at least one buffer", TPipe pipe; TQue<TPosition::VECIN, 1> q;
                   pipe.InitBuffer(q, 0, 64));
    EXPECT_REFUSED(AivOnly, "expected 1 to", TPipe pipe; TBuf<TPosition::VECCALC> b; pipe.InitBuffer(b, 0));
    EXPECT_REFUSED(AivOnly, "at most 64 buffers", TPipe pipe; TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 65, 32));
    EXPECT_REFUSED(
        AivOnly, "all 8 ids", TPipe pipe; for (int i = 0; i < 9; ++i) { pipe.AllocEventID<HardEvent::MTE2_V>(); });
    EXPECT_REFUSED(AivOnly, "id 3 was not allocated", TPipe pipe; pipe.ReleaseEventID<HardEvent::MTE2_V>(3));
    EXPECT_REFUSED(AivOnly, "expected a piece of the 64 bytes", TPipe pipe; TBuf<TPosition::VECCALC> b;
                   pipe.InitBuffer(b, 64); b.Get<float>(17));
    EXPECT_REFUSED(AivOnly, "was not allocated", TPipe pipe; pipe.ReleaseEventID<HardEvent::V_S>(-1));
}

API_TEST(buffers_follow_one_another_in_32_byte_steps)
{
    std::vector<uint32_t> addresses;
    const Report report = OnVector({}, [&] {
        TPipe pipe;
        TBuf<TPosition::VECCALC> a, b;
        TQue<TPosition::VECIN, 2> q;
        pipe.InitBuffer(a, 33);
        pipe.InitBuffer(q, 2, 1);
        pipe.InitBuffer(b, 32);
        addresses = {a.Get<uint8_t>().address_.bufferAddr,       a.Get<uint8_t>().GetSize(),
                     q.AllocTensor<float>().address_.bufferAddr, q.AllocTensor<float>().address_.bufferAddr,
                     b.Get<float>().address_.bufferAddr,         b.GetWithOffset<float>(2, 16).address_.bufferAddr};
        pipe.Reset();
        pipe.InitBuffer(b, 32);
        addresses.push_back(b.Get<float>().address_.bufferAddr);
    });
    EXPECT_CLEAN(report);
    EXPECT((addresses == std::vector<uint32_t>{0, 64, 64, 96, 128, 144, 0}), "");
}

API_TEST(tpipe_keeps_three_flags_on_a_cube_core)
{
    int first = -1;
    uint32_t line = 0;
    const Report clean = OnCube({}, [&] {
        TPipe pipe;
        first = pipe.AllocEventID<HardEvent::M_MTE1>();
    });
    EXPECT_CLEAN(clean);
    EXPECT(first == 3, std::to_string(first));
    const Report twice = OnCube({}, [&] {
        TPipe pipe;
        line = __LINE__ + 1;
        SetFlag<HardEvent::M_MTE1>(0);
        WaitFlag<HardEvent::M_MTE1>(0);
    });
    EXPECT_FINDING(twice, Rule::FlagSetTwice, line, "M_MTE1");
    EXPECT_CLEAN(OnVector({}, [&] {
        TPipe pipe;
        first = pipe.AllocEventID<HardEvent::MTE2_V>();
    }));
    EXPECT(first == 0, std::to_string(first));
}

API_TEST(allocator_hands_out_bytes_in_order)
{
    std::vector<uint32_t> got;
    const Report report = OnVector({}, [&] {
        LocalMemAllocator<Hardware::UB> allocator;
        const auto a = allocator.Alloc<TPosition::VECIN, half, 48>();
        const auto b = allocator.Alloc<float>(16);
        got = {a.address_.bufferAddr, a.GetSize(), b.address_.bufferAddr, b.GetSize(), allocator.GetCurAddr()};
    });
    EXPECT_CLEAN(report);
    EXPECT((got == std::vector<uint32_t>{0, 48, 96, 16, 160}), "");
    EXPECT_REFUSED(AicOnly, "expected a piece of at most 65536 bytes of L0A", LocalMemAllocator<Hardware::L0A> a;
                   a.Alloc<half>(32769));
}

}    // namespace api_test
