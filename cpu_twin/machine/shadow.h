// SPDX-License-Identifier: Apache-2.0
// Who touched which bytes last, and whether that is ordered before now.
//
// Order is kept as vector clocks over pipes. A pipe's accesses carry its current epoch; the epoch ends whenever the pipe
// releases something (set_flag, pipe_barrier, cross-core set, a unit flag), because only there can another pipe learn
// that the accesses before it are done. Knowing epoch e of a pipe means: everything it did in epochs <= e is complete.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "clock_interface.h"

namespace cpu_twin {

inline constexpr int kCoresPerBlock = 3;
inline constexpr int kBlockPipes = kCoresPerBlock * kPipes;

// What is known of the pipes of all other blocks; shared between clocks, replaced at grid-wide syncs.
struct Machine;
struct RemoteKnowledge {
    std::vector<uint32_t> epoch;    // by global pipe
    uint16_t index = 0;             // 1 + position in Machine::remotes
    Machine* owner = nullptr;
};

struct VectorClock {
    std::array<uint32_t, kBlockPipes> epoch{};
    const RemoteKnowledge* remote = nullptr;
};

enum class Touch : uint8_t { None, Read, Write, Atomic };

struct Access {
    uint16_t pipe = 0;      // global pipe: core * kPipes + pipe
    Touch kind = Touch::None;
    uint8_t aux = 0;        // Atomic: type and operation; mad: 1 if too small for the cube to order it with the next
    uint32_t epoch = 0;
    uint32_t site = 0;
    uint16_t remote = 0;    // RemoteKnowledge::index at the time of access, 0 none
    uint8_t op = 0;
    uint8_t instr = 0;      // vector pipe: count of instructions, to tell an instruction's own reads from earlier ones
    bool operator==(const Access& o) const { return std::memcmp(this, &o, sizeof(*this)) == 0; }
};
static_assert(sizeof(Access) == 16);

// A few accesses inline, more on the heap.
class AccessList {
public:
    AccessList() = default;
    AccessList(const AccessList& o) { Assign(o); }
    AccessList(AccessList&& o) noexcept { Steal(o); }
    AccessList& operator=(const AccessList& o) {
        if (this != &o) { Clear(); Assign(o); }
        return *this;
    }
    AccessList& operator=(AccessList&& o) noexcept {
        if (this != &o) { Clear(); Steal(o); }
        return *this;
    }
    ~AccessList() { Clear(); }

    uint32_t Size() const { return size_; }
    Access& operator[](uint32_t i) { return Data()[i]; }
    const Access& operator[](uint32_t i) const { return const_cast<AccessList*>(this)->Data()[i]; }
    void Push(const Access& a) {
        if (size_ == Capacity()) Grow();
        Data()[size_++] = a;
    }
    void EraseUnordered(uint32_t i) { Data()[i] = Data()[--size_]; }
    void Clear() {
        delete[] heap_;
        heap_ = nullptr;
        size_ = capacity_ = 0;
    }
    bool operator==(const AccessList& o) const {
        if (size_ != o.size_) return false;
        for (uint32_t i = 0; i < size_; ++i) {
            if (!((*this)[i] == o[i])) return false;
        }
        return true;
    }

private:
    static constexpr uint32_t kInline = 2;
    Access* Data() { return heap_ != nullptr ? heap_ : inline_; }
    uint32_t Capacity() const { return heap_ != nullptr ? capacity_ : kInline; }
    void Grow() {
        const uint32_t capacity = Capacity() * 2;
        auto* bigger = new Access[capacity];
        for (uint32_t i = 0; i < size_; ++i) bigger[i] = Data()[i];
        delete[] heap_;
        heap_ = bigger;
        capacity_ = static_cast<uint16_t>(capacity);
    }
    void Assign(const AccessList& o) {
        for (uint32_t i = 0; i < o.size_; ++i) Push(o[i]);
    }
    void Steal(AccessList& o) {
        size_ = o.size_;
        capacity_ = o.capacity_;
        heap_ = o.heap_;
        for (uint32_t i = 0; i < kInline; ++i) inline_[i] = o.inline_[i];
        o.heap_ = nullptr;
        o.size_ = o.capacity_ = 0;
    }
    Access inline_[kInline];
    Access* heap_ = nullptr;
    uint16_t size_ = 0, capacity_ = 0;
};

struct Segment {
    uint32_t begin = 0, end = 0;
    Access writer;          // last plain write, kind None if there was none
    AccessList others;      // reads and atomics since then that are not ordered among each other
};

// Bytes of one memory (or of one page of a tensor) in disjoint, ascending segments. `Context` answers
// Ordered(earlier, now) and takes Conflict(earlier, now, begin, end).
class RangeMap {
public:
    template <typename Context>
    void Touch(uint32_t begin, uint32_t end, const Access& now, Context& context) {
        if (now.kind == cpu_twin::Touch::Write) {
            Write(begin, end, now, context);
        } else {
            Share(begin, end, now, context);
        }
    }
    const std::vector<Segment>& Segments() const { return segments_; }
    bool Empty() const { return segments_.empty(); }
    void Clear() { segments_.clear(); }

private:
    // Index of the first segment that ends after `at`. Accesses cluster, so the last place looked at is tried first.
    size_t Find(uint32_t at) {
        const size_t n = segments_.size();
        if (hint_ < n && segments_[hint_].end > at && (hint_ == 0 || segments_[hint_ - 1].end <= at)) return hint_;
        if (hint_ + 1 < n && segments_[hint_].end <= at && segments_[hint_ + 1].end > at) return hint_ + 1;
        size_t low = 0, high = n;
        while (low < high) {
            const size_t mid = (low + high) / 2;
            if (segments_[mid].end > at) high = mid; else low = mid + 1;
        }
        return low;
    }
    void SplitAt(size_t i, uint32_t at) {
        Segment right = segments_[i];
        right.begin = at;
        segments_[i].end = at;
        segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(right));
    }
    void MergeWithLeft(size_t& i) {
        if (i == 0 || i >= segments_.size()) return;
        Segment& left = segments_[i - 1];
        Segment& right = segments_[i];
        if (left.end != right.begin || !(left.writer == right.writer) || !(left.others == right.others)) return;
        left.end = right.end;
        segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i));
        --i;
    }

    template <typename Context>
    void Write(uint32_t begin, uint32_t end, const Access& now, Context& context) {
        const size_t first = Find(begin);
        size_t i = first;
        while (i < segments_.size() && segments_[i].begin < end) {
            const Segment& s = segments_[i];
            const uint32_t from = s.begin > begin ? s.begin : begin, to = s.end < end ? s.end : end;
            if (s.writer.kind != cpu_twin::Touch::None && !context.Ordered(s.writer, now)) {
                context.Conflict(s.writer, now, from, to);
            }
            for (uint32_t k = 0; k < s.others.Size(); ++k) {
                if (!context.Ordered(s.others[k], now)) context.Conflict(s.others[k], now, from, to);
            }
            ++i;
        }
        size_t last = i;  // [first, last) overlap
        size_t at = first;
        if (first < last && segments_[first].begin < begin) {
            if (segments_[first].end > end) {
                SplitAt(first, end);
                segments_[first].end = begin;
                Segment fresh;
                fresh.begin = begin;
                fresh.end = end;
                fresh.writer = now;
                segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(first) + 1, std::move(fresh));
                hint_ = first + 1;
                return;
            }
            segments_[first].end = begin;
            at = first + 1;
        }
        if (at < last && segments_[last - 1].end > end) {
            segments_[last - 1].begin = end;
            --last;
        }
        if (at > 0 && segments_[at - 1].end == begin && segments_[at - 1].writer == now && segments_[at - 1].others.Size() == 0) {
            segments_[at - 1].end = end;  // pieces of one copy, side by side
            segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(at), segments_.begin() + static_cast<std::ptrdiff_t>(last));
            hint_ = at - 1;
            return;
        }
        if (at < last) {
            Segment& s = segments_[at];
            s.begin = begin;
            s.end = end;
            s.writer = now;
            s.others.Clear();
            if (last - at > 1) {
                segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                segments_.begin() + static_cast<std::ptrdiff_t>(last));
            }
        } else {
            Segment fresh;
            fresh.begin = begin;
            fresh.end = end;
            fresh.writer = now;
            segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(at), std::move(fresh));
        }
        MergeWithLeft(at);
        hint_ = at;
    }

    template <typename Context>
    void Share(uint32_t begin, uint32_t end, const Access& now, Context& context) {
        size_t i = Find(begin);
        uint32_t cursor = begin;
        while (cursor < end) {
            if (i == segments_.size() || segments_[i].begin > cursor) {
                const uint32_t to = i == segments_.size() || segments_[i].begin >= end ? end : segments_[i].begin;
                Segment fresh;
                fresh.begin = cursor;
                fresh.end = to;
                fresh.others.Push(now);
                segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(i), std::move(fresh));
            } else {
                if (segments_[i].begin < cursor) {
                    if (Known(segments_[i], now)) {  // nothing would change: no need to split
                        cursor = segments_[i].end;
                        ++i;
                        continue;
                    }
                    SplitAt(i, cursor);
                    ++i;
                }
                if (segments_[i].end > end) {
                    if (Known(segments_[i], now)) break;
                    SplitAt(i, end);
                }
                Add(segments_[i], now, context);
            }
            cursor = segments_[i].end;
            MergeWithLeft(i);
            ++i;
        }
        hint_ = i > 0 ? i - 1 : 0;
    }
    static bool Known(const Segment& s, const Access& now) {
        for (uint32_t k = 0; k < s.others.Size(); ++k) {
            if (s.others[k] == now) return true;
        }
        return false;
    }
    template <typename Context>
    static void Add(Segment& s, const Access& now, Context& context) {
        if (s.writer.kind != cpu_twin::Touch::None && !context.Ordered(s.writer, now)) {
            context.Conflict(s.writer, now, s.begin, s.end);
        }
        for (uint32_t k = 0; k < s.others.Size();) {
            const Access& other = s.others[k];
            const bool commute = other.kind == now.kind && other.aux == now.aux;  // read-read, or the same atomic
            const bool ordered = context.Ordered(other, now);
            if (!ordered && !commute) context.Conflict(other, now, s.begin, s.end);
            // Whatever is ordered after `now` is ordered after accesses of the same kind that `now` is ordered after, and after
            // older ones of its own pipe. One kind never stands for another: atomics commute with atomics, not with reads.
            const bool covered = commute && (ordered || other.pipe == now.pipe);
            if (covered) {
                s.others.EraseUnordered(k);
            } else {
                ++k;
            }
        }
        s.others.Push(now);
    }

    std::vector<Segment> segments_;
    size_t hint_ = 0;
};

}  // namespace cpu_twin
