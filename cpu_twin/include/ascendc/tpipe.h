// SPDX-License-Identifier: Apache-2.0
// TPipe, TQueBind, TQue and TBuf: buffers, event ids, and the flags that queues set and wait for.
#pragma once

#include <exception>

#include "sync.h"

namespace AscendC {

enum class TBufState : uint8_t { FREE = 0, OCCUPIED, ENQUE, DEQUE };

struct TBufType {
    TBufState state = TBufState::FREE;
    HardEvent freeBufEvt = HardEvent::MAX;
    HardEvent enQueEvt = HardEvent::MAX;    // of the last EnQue
    TEventID enQueEvtID = INVALID_TEVENTID;
    TEventID freeBufEvtID = INVALID_TEVENTID;
    uint32_t address = 0;    // byte offset in its memory
    uint32_t dataLen = 0;
};

class TPipe;
inline TPipe* GetTPipePtr() { return reinterpret_cast<TPipe*>(cpu_twin::CoreSlot(Twin::SLOT_TPIPE)); }

namespace Twin {

constexpr int MAX_BUFFERS = 64;    // of all queues and TBufs together
constexpr int EVENT_IDS = 8;       // per event

struct QueuePositions {
    TPosition src;
    TPosition dst;
};
// The way data takes through a TQue of a position.
constexpr QueuePositions PositionsOf(TPosition pos)
{
    switch (pos) {
        case TPosition::A1: return {TPosition::GM, TPosition::A1};
        case TPosition::B1: return {TPosition::GM, TPosition::B1};
        case TPosition::C1: return {TPosition::GM, TPosition::C1};
        case TPosition::A2: return {TPosition::A1, TPosition::A2};
        case TPosition::B2: return {TPosition::B1, TPosition::B2};
        case TPosition::C2: return {TPosition::C1, TPosition::C2};
        case TPosition::CO1: return {TPosition::CO1, TPosition::CO2};
        case TPosition::VECIN: return {TPosition::GM, TPosition::VECIN};
        case TPosition::VECOUT: return {TPosition::VECOUT, TPosition::GM};
        default: return {TPosition::MAX, TPosition::MAX};
    }
}
constexpr TPosition BufferPosition(TPosition src, TPosition dst)
{
    return dst == TPosition::GM || dst == TPosition::CO2 ? src : dst;
}

// forward: from the unit that fills the buffer to the one that reads it; else back.
constexpr HardEvent QueueEvent(Hardware src, Hardware dst, bool forward)
{
    if (src == Hardware::GM && dst == Hardware::UB) {
        return forward ? HardEvent::MTE2_V : HardEvent::V_MTE2;
    }
    if (src == Hardware::GM && dst == Hardware::L1) {
        return forward ? HardEvent::MTE2_MTE1 : HardEvent::MTE1_MTE2;
    }
    if (src == Hardware::GM && (dst == Hardware::L0A || dst == Hardware::L0B)) {
        return forward ? HardEvent::MTE2_M : HardEvent::M_MTE2;
    }
    if (src == Hardware::UB && dst == Hardware::GM) {
        return forward ? HardEvent::V_MTE3 : HardEvent::MTE3_V;
    }
    if (src == Hardware::UB && dst == Hardware::UB) {
        return forward ? HardEvent::MTE2_MTE3 : HardEvent::MTE3_MTE2;
    }
    if (src == Hardware::L1 && (dst == Hardware::L0A || dst == Hardware::L0B || dst == Hardware::BIAS)) {
        return forward ? HardEvent::MTE1_M : HardEvent::M_MTE1;
    }
    if (src == Hardware::L1 && dst == Hardware::FIXBUF) {
        return forward ? HardEvent::MTE1_FIX : HardEvent::FIX_MTE1;
    }
    if (src == Hardware::L0C && dst == Hardware::GM) {
        return forward ? HardEvent::M_FIX : HardEvent::FIX_M;
    }
    return HardEvent::MAX;
}

}    // namespace Twin

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0> class TQueBind {
public:
    static constexpr TPosition srcPosition = src;
    static constexpr TPosition dstPosition = dst;
    static constexpr TPosition bufferPosition = Twin::BufferPosition(src, dst);
    static constexpr HardEvent enQueEvt = Twin::QueueEvent(Twin::PhysicalOf(src), Twin::PhysicalOf(dst), true);
    static constexpr HardEvent freeBufEvt = Twin::QueueEvent(Twin::PhysicalOf(src), Twin::PhysicalOf(dst), false);
    static constexpr int32_t queDepth = depth;
    static constexpr bool isTQue = true;
    static_assert(mask == 0, "TQueBind: the twin models no format conversion in queues");
    static_assert(depth >= 0, "TQueBind: depth must not be negative");
    static_assert(src == dst || enQueEvt != HardEvent::MAX, "TQueBind: dav-2201 has no such data path");

    template <typename T> LocalTensor<T> AllocTensor(TWIN_SITE)
    {
        static_assert(depth != 0, "AllocTensor: a queue of depth 0 takes AllocTensor(LocalTensor&)");
        return Tensor<T>(Alloc(loc));
    }
    template <typename T> void AllocTensor(LocalTensor<T>& tensor, TWIN_SITE)
    {
        static_assert(depth == 0, "AllocTensor(LocalTensor&) is for queues of depth 0");
        tensor = Tensor<T>(Alloc(loc));
    }
    template <typename T> void FreeTensor(LocalTensor<T>& tensor, TWIN_SITE);
    template <typename T> bool EnQue(const LocalTensor<T>& tensor, TWIN_SITE)
    {
        Push(BufferOf(tensor.GetBufferHandle(), loc), enQueEvt, loc);
        return true;
    }
    // For a tensor that another unit filled than the queue's positions say.
    template <TPosition srcUserPos, TPosition dstUserPos, typename T>
    bool EnQue(const LocalTensor<T>& tensor, TWIN_SITE)
    {
        Push(BufferOf(tensor.GetBufferHandle(), loc), UserEvent<srcUserPos, dstUserPos>(), loc);
        return true;
    }
    template <typename T> LocalTensor<T> DeQue(TWIN_SITE)
    {
        static_assert(depth != 0, "DeQue: a queue of depth 0 takes DeQue(LocalTensor&)");
        return Tensor<T>(Pop(enQueEvt, loc));
    }
    template <TPosition srcUserPos, TPosition dstUserPos, typename T> LocalTensor<T> DeQue(TWIN_SITE)
    {
        static_assert(depth != 0, "DeQue: a queue of depth 0 takes DeQue(LocalTensor&)");
        return Tensor<T>(Pop(UserEvent<srcUserPos, dstUserPos>(), loc));
    }
    template <typename T> void DeQue(LocalTensor<T>& tensor, TWIN_SITE)
    {
        static_assert(depth == 0, "DeQue(LocalTensor&) is for queues of depth 0");
        TBufType* buffer = BufferOf(tensor.GetBufferHandle(), loc);
        Twin::WaitEvent(enQueEvt, buffer->enQueEvtID, loc);
        buffer->state = TBufState::DEQUE;
    }
    bool VacantInQue() const { return used_ < depth; }
    bool HasTensorInQue() const { return used_ != 0; }
    int32_t GetTensorCountInQue() const { return used_; }
    bool HasIdleBuffer() const
    {
        for (uint8_t i = 0; i < count_; ++i) {
            if (buffers_[i].state == TBufState::FREE) {
                return true;
            }
        }
        return false;
    }
    void FreeAllEvent(TWIN_SITE);

protected:
    friend class TPipe;

    template <TPosition srcUserPos, TPosition dstUserPos> static constexpr HardEvent UserEvent()
    {
        constexpr HardEvent event = Twin::QueueEvent(Twin::PhysicalOf(srcUserPos), Twin::PhysicalOf(dstUserPos), true);
        static_assert(event != HardEvent::MAX, "EnQue/DeQue: dav-2201 has no such data path");
        return event;
    }
    template <typename T> LocalTensor<T> Tensor(TBufType* buffer) const
    {
        LocalTensor<T> tensor;
        tensor.address_.dataLen = buffer->dataLen;
        tensor.address_.bufferAddr = buffer->address;
        tensor.address_.bufferHandle = reinterpret_cast<TBufHandle>(buffer);
        tensor.address_.logicPos = static_cast<uint8_t>(bufferPosition);
        tensor.address_.absAddr =
            cpu_twin::LocalBase(Twin::MemoryOf(Twin::PhysicalOf(bufferPosition))) + buffer->address;
        return tensor;
    }
    TBufType* BufferOf(TBufHandle handle, cpu_twin::SourceLoc loc) const
    {
        auto* buffer = reinterpret_cast<TBufType*>(handle);
        if (count_ == 0 || buffer < buffers_ || buffer >= buffers_ + count_) {
            Twin::Refuse(loc, "queue: the tensor is not one that this queue's AllocTensor or DeQue returned");
        }
        return buffer;
    }
    TBufType* Alloc(cpu_twin::SourceLoc loc);
    void Push(TBufType* buffer, HardEvent event, cpu_twin::SourceLoc loc);
    TBufType* Pop(HardEvent event, cpu_twin::SourceLoc loc);

    TBufType* buffers_ = nullptr;
    uint8_t count_ = 0;
    uint8_t cursor_ = 0;
    TBufType* queue_[depth > 0 ? depth : 1] = {};
    int32_t head_ = 0;
    int32_t used_ = 0;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<Twin::PositionsOf(pos).src, Twin::PositionsOf(pos).dst, depth, mask> {
    static_assert(Twin::PositionsOf(pos).src != TPosition::MAX, "TQue: no queue has this position; use TBuf");
};

// A buffer without a queue: who fills and who reads it is the kernel's to order.
template <TPosition pos = TPosition::LCM> class TBuf {
public:
    static constexpr bool isTQue = false;
    static constexpr TPosition bufferPosition = pos;

    template <typename T> LocalTensor<T> Get(TWIN_SITE) { return GetWithOffset<T>(length_ / sizeof(T), 0, loc); }
    template <typename T> LocalTensor<T> Get(uint32_t len, TWIN_SITE) { return GetWithOffset<T>(len, 0, loc); }
    // size in elements, bufOffset in bytes
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset, TWIN_SITE)
    {
        const uint64_t end = bufOffset + static_cast<uint64_t>(size) * sizeof(T);
        if (buffer_ == nullptr || end > length_) {
            Twin::Refuse(loc, "TBuf: expected a piece of the %u bytes of the buffer, got bytes %u to %lu", length_,
                         bufOffset, static_cast<unsigned long>(end));
        }
        LocalTensor<T> tensor;
        tensor.address_.dataLen = static_cast<uint32_t>(size * sizeof(T));
        tensor.address_.bufferAddr = buffer_->address + bufOffset;
        tensor.address_.bufferHandle = reinterpret_cast<TBufHandle>(buffer_);
        tensor.address_.logicPos = static_cast<uint8_t>(pos);
        tensor.address_.absAddr =
            cpu_twin::LocalBase(Twin::MemoryOf(Twin::PhysicalOf(pos))) + tensor.address_.bufferAddr;
        return tensor;
    }

private:
    friend class TPipe;
    TBufType* buffer_ = nullptr;
    uint32_t length_ = 0;
};

class TPipe {
public:
    explicit TPipe(TWIN_SITE) : loc_(loc)
    {
        InitSocState();
        Init(loc);
    }
    ~TPipe() noexcept(false)
    {
        if (!destroyed_ && std::uncaught_exceptions() == 0) {
            Destroy(loc_);
        }
    }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    // On a cube core the first three M_MTE1 flags are set here and waited for in Destroy: the high-level matmul relies
    // on them.
    void Init(TWIN_SITE)
    {
        ResetPool();
        if (ASCEND_IS_AIC) {
            for (int32_t i = 0; i < RESERVED_M_MTE1; ++i) {
                SetFlag<HardEvent::M_MTE1>(AllocEventID<HardEvent::M_MTE1>(loc), loc);
            }
        }
        cpu_twin::CoreSlot(Twin::SLOT_TPIPE) = reinterpret_cast<uint64_t>(this);
        destroyed_ = false;
    }

    // `num` buffers of `len` bytes each, rounded up to 32.
    template <class T> bool InitBuffer(T& que, uint8_t num, uint32_t len, TWIN_SITE)
    {
        static_assert(T::isTQue, "InitBuffer(que, num, len): TBuf takes InitBuffer(buf, len)");
        if (num == 0) {
            Twin::Refuse(loc, "InitBuffer: expected at least one buffer");
        }
        que.buffers_ = buffers_ + bufferCount_;
        que.count_ = num;
        for (uint8_t i = 0; i < num; ++i) {
            TBufType* buffer = Take(Twin::PhysicalOf(T::bufferPosition), len, loc);
            buffer->freeBufEvt = T::freeBufEvt;
            if constexpr (T::queDepth == 0) {
                buffer->enQueEvtID = AllocEventID(T::enQueEvt, loc);
                buffer->freeBufEvtID = AllocEventID(T::freeBufEvt, loc);
                Twin::SetEvent(T::freeBufEvt, buffer->freeBufEvtID, loc);
            }
        }
        return true;
    }
    template <TPosition pos> bool InitBuffer(TBuf<pos>& buf, uint32_t len, TWIN_SITE)
    {
        buf.buffer_ = Take(Twin::PhysicalOf(pos), len, loc);
        buf.length_ = buf.buffer_->dataLen;
        return true;
    }

    template <HardEvent evt> TEventID AllocEventID(TWIN_SITE) { return AllocEventID(evt, loc); }
    template <HardEvent evt> void ReleaseEventID(TEventID id, TWIN_SITE) { ReleaseEventID(evt, id, loc); }
    // The next free id, without taking it.
    template <HardEvent evt> TEventID FetchEventID(TWIN_SITE) { return FetchEventID(evt, loc); }
    TEventID FetchEventID(HardEvent evt, TWIN_SITE)
    {
        const uint8_t taken = events_[static_cast<size_t>(evt)];
        if (taken == 0xff) {
            Twin::Refuse(loc, "event ids: all %d ids of this pair of pipes are in use", Twin::EVENT_IDS);
        }
        return static_cast<TEventID>(__builtin_ctz(~static_cast<uint32_t>(taken)));
    }

    void Destroy(TWIN_SITE)
    {
        destroyed_ = true;
        WaitForFreedBuffers(loc);
        if (ASCEND_IS_AIC) {
            for (TEventID i = 0; i < RESERVED_M_MTE1; ++i) {
                WaitFlag<HardEvent::M_MTE1>(i, loc);
                ReleaseEventID(HardEvent::M_MTE1, i, loc);
            }
        }
        pipe_barrier(PIPE_ALL, loc);
        cpu_twin::CoreSlot(Twin::SLOT_TPIPE) = 0;
    }
    // Gives all buffers and event ids back.
    void Reset(TWIN_SITE)
    {
        WaitForFreedBuffers(loc);
        InitSocState();
        ResetPool();
    }

private:
    template <TPosition src, TPosition dst, int32_t depth, auto mask> friend class TQueBind;
    static constexpr TEventID RESERVED_M_MTE1 = 3;

    TEventID AllocEventID(HardEvent evt, cpu_twin::SourceLoc loc)
    {
        const TEventID id = FetchEventID(evt, loc);
        events_[static_cast<size_t>(evt)] |= static_cast<uint8_t>(1u << id);
        return id;
    }
    void ReleaseEventID(HardEvent evt, TEventID id, cpu_twin::SourceLoc loc)
    {
        if (id < 0 || id >= Twin::EVENT_IDS || (events_[static_cast<size_t>(evt)] >> id & 1) == 0) {
            Twin::Refuse(loc, "ReleaseEventID: id %d was not allocated", id);
        }
        events_[static_cast<size_t>(evt)] &= static_cast<uint8_t>(~(1u << id));
    }
    void ResetPool()
    {
        bufferCount_ = 0;
        for (uint32_t& next : nextAddress_) {
            next = 0;
        }
        for (uint8_t& taken : events_) {
            taken = 0;
        }
    }
    TBufType* Take(Hardware hard, uint32_t len, cpu_twin::SourceLoc loc)
    {
        uint32_t& next = nextAddress_[static_cast<size_t>(hard)];
        const uint64_t size = (static_cast<uint64_t>(len) + ONE_BLK_SIZE - 1) / ONE_BLK_SIZE * ONE_BLK_SIZE;
        if (len == 0 || next + size > Twin::UsableBytes(hard)) {
            Twin::Refuse(loc, "InitBuffer: expected 1 to %u bytes, what is left of the %u usable bytes of %s, got %u",
                         Twin::UsableBytes(hard) - next, Twin::UsableBytes(hard), Twin::NameOf(hard), len);
        }
        if (bufferCount_ == Twin::MAX_BUFFERS) {
            Twin::Refuse(loc, "InitBuffer: a TPipe manages at most %d buffers", Twin::MAX_BUFFERS);
        }
        TBufType* buffer = &buffers_[bufferCount_++];
        *buffer = TBufType{};
        buffer->address = next;
        buffer->dataLen = static_cast<uint32_t>(size);
        next += buffer->dataLen;
        return buffer;
    }
    void WaitForFreedBuffers(cpu_twin::SourceLoc loc)
    {
        for (int i = 0; i < bufferCount_; ++i) {
            TBufType& buffer = buffers_[i];
            if (buffer.freeBufEvtID != INVALID_TEVENTID && buffer.state == TBufState::FREE) {
                Twin::WaitEvent(buffer.freeBufEvt, buffer.freeBufEvtID, loc);
                buffer.freeBufEvtID = INVALID_TEVENTID;
            }
        }
    }

    cpu_twin::SourceLoc loc_;
    TBufType buffers_[Twin::MAX_BUFFERS];
    int bufferCount_ = 0;
    uint32_t nextAddress_[static_cast<size_t>(Hardware::MAX)] = {};
    uint8_t events_[static_cast<size_t>(HardEvent::MAX)] = {};    // ids in use, a bit each
    bool destroyed_ = false;
};

template <TPosition src, TPosition dst, int32_t depth, auto mask>
TBufType* TQueBind<src, dst, depth, mask>::Alloc(cpu_twin::SourceLoc loc)
{
    for (uint8_t tried = 0; tried < count_; ++tried) {
        TBufType* buffer = buffers_ + cursor_;
        cursor_ = static_cast<uint8_t>((cursor_ + 1) % count_);
        if (buffer->state != TBufState::FREE) {
            continue;
        }
        buffer->state = TBufState::OCCUPIED;
        if (buffer->freeBufEvtID != INVALID_TEVENTID) {
            Twin::WaitEvent(freeBufEvt, buffer->freeBufEvtID, loc);
            if constexpr (depth != 0) {
                GetTPipePtr()->ReleaseEventID(freeBufEvt, buffer->freeBufEvtID, loc);
                buffer->freeBufEvtID = INVALID_TEVENTID;
            }
        }
        return buffer;
    }
    Twin::Refuse(loc, "AllocTensor: all %u buffers of the queue are in use; free one first, or give the queue more",
                 count_);
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
template <typename T>
void TQueBind<src, dst, depth, mask>::FreeTensor(LocalTensor<T>& tensor, cpu_twin::SourceLoc loc)
{
    TBufType* buffer = BufferOf(tensor.GetBufferHandle(), loc);
    if (buffer->state != TBufState::OCCUPIED && buffer->state != TBufState::DEQUE) {
        Twin::Refuse(loc, "FreeTensor: the tensor is %s",
                     buffer->state == TBufState::FREE ? "free already" : "in the queue");
    }
    if constexpr (depth != 0) {
        buffer->freeBufEvtID = GetTPipePtr()->AllocEventID(freeBufEvt, loc);
    }
    Twin::SetEvent(freeBufEvt, buffer->freeBufEvtID, loc);
    buffer->state = TBufState::FREE;
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
void TQueBind<src, dst, depth, mask>::Push(TBufType* buffer, HardEvent event, cpu_twin::SourceLoc loc)
{
    if (buffer->state != TBufState::OCCUPIED && buffer->state != TBufState::DEQUE) {
        Twin::Refuse(loc, "EnQue: expected a tensor that AllocTensor or DeQue returned; this one is %s",
                     buffer->state == TBufState::FREE ? "free" : "in the queue already");
    }
    if constexpr (depth != 0) {
        if (used_ == depth) {
            Twin::Refuse(loc, "EnQue: the queue's depth is %d and it is full", depth);
        }
        queue_[(head_ + used_) % depth] = buffer;
        ++used_;
        buffer->enQueEvtID = GetTPipePtr()->AllocEventID(event, loc);
    }
    buffer->enQueEvt = event;
    Twin::SetEvent(event, buffer->enQueEvtID, loc);
    buffer->state = TBufState::ENQUE;
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
TBufType* TQueBind<src, dst, depth, mask>::Pop(HardEvent event, cpu_twin::SourceLoc loc)
{
    if (used_ == 0) {
        Twin::Refuse(loc, "DeQue: the queue is empty");
    }
    TBufType* buffer = queue_[head_];
    head_ = (head_ + 1) % (depth > 0 ? depth : 1);
    --used_;
    if (buffer->enQueEvt != event) {
        Twin::Refuse(loc, "DeQue: the tensor was put into the queue with other positions");
    }
    Twin::WaitEvent(event, buffer->enQueEvtID, loc);
    GetTPipePtr()->ReleaseEventID(event, buffer->enQueEvtID, loc);
    buffer->enQueEvtID = INVALID_TEVENTID;
    buffer->state = TBufState::DEQUE;
    return buffer;
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
void TQueBind<src, dst, depth, mask>::FreeAllEvent(cpu_twin::SourceLoc loc)
{
    for (uint8_t i = 0; i < count_; ++i) {
        TBufType& buffer = buffers_[i];
        if (buffer.freeBufEvtID != INVALID_TEVENTID) {
            Twin::WaitEvent(freeBufEvt, buffer.freeBufEvtID, loc);
            if constexpr (depth != 0) {
                GetTPipePtr()->ReleaseEventID(freeBufEvt, buffer.freeBufEvtID, loc);
            }
            buffer.freeBufEvtID = INVALID_TEVENTID;
        }
    }
}

}    // namespace AscendC
