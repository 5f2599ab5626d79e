// SPDX-License-Identifier: Apache-2.0
// GlobalTensor, LocalTensor and the allocator without a pipe. A tensor is an address, a size and a position; it owns
// nothing.
#pragma once

#include "params.h"

namespace AscendC {

// An index that remembers where it was written: operator[] and operator() cannot take a defaulted second parameter.
namespace Twin {
template <typename I> struct Index {
    I value;
    cpu_twin::SourceLoc loc;
    template <typename V, typename = std::enable_if_t<std::is_integral_v<V> || std::is_enum_v<V>>>
    Index(V v, TWIN_SITE) : value(static_cast<I>(v)), loc(loc)
    {}
};

// What operator() gives: reading or assigning it is one access of the scalar unit.
template <typename T> class Element {
public:
    Element(T* address, cpu_twin::SourceLoc loc) : address_(address), loc_(loc) {}
    operator T() const { return cpu_twin::ScalarRead(address_, loc_); }
    const Element& operator=(T value) const
    {
        cpu_twin::ScalarWrite(address_, value, loc_);
        return *this;
    }
    const Element& operator=(const Element& other) const { return *this = static_cast<T>(other); }

private:
    T* address_;
    cpu_twin::SourceLoc loc_;
};
}    // namespace Twin

struct TBuffAddr {
    uint32_t dataLen = 0;       // bytes
    uint32_t bufferAddr = 0;    // byte offset within the buffer
    TBufHandle bufferHandle = nullptr;
    uint8_t logicPos = 0;
    uint8_t* absAddr = nullptr;
};

template <typename T> class LocalTensor {
public:
    using PrimType = T;
    static_assert(SupportType<T, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half,
                              bfloat16_t, float>(),
                  "LocalTensor: the twin models 8-, 16-, 32- and 64-bit integers, half, bfloat16_t and float");

    LocalTensor() {}
    explicit LocalTensor(TBuffAddr& address) : address_(address) {}
    // A tensor at byte `addr` of the memory `pos` stands for, of tileSize elements.
    LocalTensor(TPosition pos, uint32_t addr, uint32_t tileSize, TWIN_SITE)
    {
        const Hardware hard = Twin::PhysicalOf(pos);
        const uint64_t end = addr + static_cast<uint64_t>(tileSize) * sizeof(T);
        if (hard == Hardware::GM || hard == Hardware::MAX || end > Twin::UsableBytes(hard)) {
            Twin::Refuse(
                loc,
                "LocalTensor(pos, addr, tileSize): expected a piece of at most %u bytes of %s, got bytes %u to %lu",
                Twin::UsableBytes(hard), Twin::NameOf(hard), addr, static_cast<unsigned long>(end));
        }
        address_.logicPos = static_cast<uint8_t>(pos);
        address_.bufferAddr = addr;
        address_.dataLen = static_cast<uint32_t>(tileSize * sizeof(T));
        address_.absAddr = cpu_twin::LocalBase(Twin::MemoryOf(hard)) + addr;
    }

    T* GetPhyAddr() const { return reinterpret_cast<T*>(address_.absAddr); }
    T* GetPhyAddr(const uint32_t offset) const { return GetPhyAddr() + offset; }
    T GetValue(const uint32_t index, TWIN_SITE) const
    {
        CheckIndex(index, loc);
        return cpu_twin::ScalarRead(GetPhyAddr(index), loc);
    }
    template <typename S> void SetValue(const uint32_t index, const S value, TWIN_SITE) const
    {
        CheckIndex(index, loc);
        cpu_twin::ScalarWrite(GetPhyAddr(index), static_cast<T>(value), loc);
    }
    Twin::Element<T> operator()(const Twin::Index<uint32_t> index) const
    {
        CheckIndex(index.value, index.loc);
        return {GetPhyAddr(index.value), index.loc};
    }
    LocalTensor operator[](const Twin::Index<uint32_t> offset) const
    {
        CheckIndex(offset.value, offset.loc);
        const auto bytes = static_cast<uint32_t>(offset.value * sizeof(T));
        LocalTensor part = *this;
        part.address_.dataLen -= bytes;
        part.address_.bufferAddr += bytes;
        part.address_.absAddr += bytes;
        return part;
    }
    template <typename U> LocalTensor<U> ReinterpretCast() const
    {
        LocalTensor<U> other;
        other.address_ = address_;
        return other;
    }

    int32_t GetPosition() const { return address_.logicPos; }
    uint32_t GetSize() const { return static_cast<uint32_t>(address_.dataLen / sizeof(T)); }
    uint32_t GetLength() const { return address_.dataLen; }
    void SetSize(const uint32_t size) { address_.dataLen = static_cast<uint32_t>(size * sizeof(T)); }
    void SetAddr(const TBuffAddr& address) { address_ = address; }
    TBufHandle GetBufferHandle() const { return address_.bufferHandle; }

    TBuffAddr address_;

private:
    void CheckIndex(uint32_t index, cpu_twin::SourceLoc loc) const
    {
        if (static_cast<uint64_t>(index) * sizeof(T) >= address_.dataLen) {
            Twin::Refuse(loc, "LocalTensor: index %u lies outside the tensor's %u elements", index, GetSize());
        }
    }
};

template <typename T> class GlobalTensor {
public:
    using PrimType = T;

    GlobalTensor() {}
    void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize)
    {
        address_ = buffer;
        bufferSize_ = bufferSize;
    }
    void SetGlobalBuffer(__gm__ T* buffer) { SetGlobalBuffer(buffer, 0); }
    const __gm__ T* GetPhyAddr() const { return address_; }
    __gm__ T* GetPhyAddr(const uint64_t offset) const { return address_ + offset; }
    T GetValue(const uint64_t offset, TWIN_SITE) const { return cpu_twin::ScalarRead(address_ + offset, loc); }
    void SetValue(const uint64_t offset, T value, TWIN_SITE) { cpu_twin::ScalarWrite(address_ + offset, value, loc); }
    Twin::Element<T> operator()(const Twin::Index<uint64_t> index) const { return {address_ + index.value, index.loc}; }
    GlobalTensor operator[](const uint64_t offset) const
    {
        GlobalTensor part = *this;
        part.address_ += offset;
        return part;
    }
    uint64_t GetSize() const { return bufferSize_; }
    // Says where the L2 should keep the data. Results do not depend on it, and no clock constant is known for it.
    template <CacheRwMode rwMode = CacheRwMode::RW> void SetL2CacheHint(CacheMode mode) { cacheMode_ = mode; }

    __gm__ T* address_ = nullptr;
    uint64_t bufferSize_ = 0;    // elements; 0 when the kernel did not say
    CacheMode cacheMode_ = CacheMode::CACHE_MODE_NORMAL;
};

// Hands out a memory from its start, without a TPipe. Sizes are not rounded: alignment is the caller's.
template <Hardware hard = Hardware::UB> class LocalMemAllocator {
    static_assert(hard != Hardware::GM && hard != Hardware::MAX, "LocalMemAllocator: not an on-chip memory");

public:
    uint32_t GetCurAddr() const { return head_; }
    template <TPosition pos, class DataType> LocalTensor<DataType> Alloc(uint32_t tileSize, TWIN_SITE)
    {
        static_assert(Twin::PhysicalOf(pos) == hard, "LocalMemAllocator: the position lies in another memory");
        LocalTensor<DataType> tensor(pos, head_, tileSize, loc);
        head_ += static_cast<uint32_t>(tileSize * sizeof(DataType));
        return tensor;
    }
    template <TPosition pos, class DataType, uint32_t tileSize> LocalTensor<DataType> Alloc(TWIN_SITE)
    {
        return Alloc<pos, DataType>(tileSize, loc);
    }
    template <class DataType> LocalTensor<DataType> Alloc(uint32_t tileSize, TWIN_SITE)
    {
        return Alloc<DefaultPosition(), DataType>(tileSize, loc);
    }
    template <class DataType, uint32_t tileSize> LocalTensor<DataType> Alloc(TWIN_SITE)
    {
        return Alloc<DefaultPosition(), DataType>(tileSize, loc);
    }

private:
    static constexpr TPosition DefaultPosition()
    {
        switch (hard) {
            case Hardware::L1: return TPosition::A1;
            case Hardware::L0A: return TPosition::A2;
            case Hardware::L0B: return TPosition::B2;
            case Hardware::L0C: return TPosition::CO1;
            case Hardware::BIAS: return TPosition::C2;
            case Hardware::FIXBUF: return TPosition::C2PIPE2GM;
            default: return TPosition::VECCALC;
        }
    }
    uint32_t head_ = 0;
};

template <typename T> struct MrgSortSrcList {
    MrgSortSrcList() {}
    MrgSortSrcList(const LocalTensor<T>& src1In, const LocalTensor<T>& src2In, const LocalTensor<T>& src3In,
                   const LocalTensor<T>& src4In)
        : src1(src1In), src2(src2In), src3(src3In), src4(src4In)
    {}
    LocalTensor<T> src1;
    LocalTensor<T> src2;
    LocalTensor<T> src3;
    LocalTensor<T> src4;
};

namespace Twin {

template <typename T> inline Hardware HardwareOf(const LocalTensor<T>& t)
{
    return PhysicalOf(static_cast<TPosition>(t.GetPosition()));
}

// An operand must lie where its position says the instruction reads or writes.
template <typename T>
inline void Require(const LocalTensor<T>& t, Hardware expected, const char* operand, cpu_twin::SourceLoc loc)
{
    if (t.GetPosition() == static_cast<int32_t>(TPosition::GM)) {
        Refuse(loc, "%s: the tensor was never given a buffer", operand);
    }
    if (HardwareOf(t) != expected) {
        Refuse(loc, "%s: expected a tensor in %s, got one in %s", operand, NameOf(expected), NameOf(HardwareOf(t)));
    }
}
template <typename... T> inline void RequireUb(cpu_twin::SourceLoc loc, const LocalTensor<T>&... tensors)
{
    (Require(tensors, Hardware::UB, "vector operand", loc), ...);
}

}    // namespace Twin
}    // namespace AscendC
