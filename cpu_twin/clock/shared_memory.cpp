// SPDX-License-Identifier: Apache-2.0
#include "shared_memory.h"

#include <algorithm>
#include <cmath>

namespace cpu_twin {

double SharedBandwidth::Book(double from, double duration, double bytes) {
    if (bytes <= 0) return from + duration;
    const double rate = bytes / std::max(duration, 1e-9);
    double booked = 0;
    double last = from;
    for (size_t w = static_cast<size_t>(from / kWindow);; ++w) {
        if (w >= used_.size()) used_.resize(std::max(w + 1, used_.size() * 2), 0.0);
        const double windowEnd = (static_cast<double>(w) + 1) * kWindow;
        const double windowStart = std::max(from, static_cast<double>(w) * kWindow);
        // What an undisturbed transfer would have moved by the end of this window, less what was moved.
        const double want = std::min(bytes, rate * (windowEnd - from)) - booked;
        // A window that the transfer enters late offers it only the part that is left of it.
        const double free = std::min(capacity_ - used_[w], capacity_ * (windowEnd - windowStart) / kWindow);
        const double take = std::min(want, std::max(free, 0.0));
        if (take > 0) {
            used_[w] += take;
            booked += take;
            const bool full = take < want || capacity_ - used_[w] <= 0;
            const double span = full ? windowEnd - windowStart : (windowEnd - windowStart) * take / std::max(free, take);
            last = windowStart + span;
        }
        if (booked >= bytes * (1 - 1e-12)) return std::max(from + duration, last);
    }
}

L2Cache::L2Cache(double bytes, double lineBytes)
    : lineBytes_(static_cast<uint64_t>(lineBytes)), lines_(static_cast<uint32_t>(bytes / lineBytes)) {
    Reset();
}

void L2Cache::Reset() {
    next_ = 0;
    occupant_.assign(lines_, 0);
    occupied_.assign(lines_, 0);
    dirty_.assign(lines_, 0);
    slots_.clear();
}

uint32_t& L2Cache::SlotOf(LineId line) {
    const size_t tensor = line >> 48;
    const size_t index = line & ((uint64_t{1} << 48) - 1);
    if (tensor >= slots_.size()) slots_.resize(tensor + 1);
    auto& table = slots_[tensor];
    if (index >= table.size()) table.resize(std::max(index + 1, table.size() * 2), kAbsent);
    return table[index];
}

bool L2Cache::Present(LineId line) {
    const uint32_t slot = SlotOf(line);
    return slot != kAbsent && occupied_[slot] && occupant_[slot] == line;
}

void L2Cache::Fill(LineId line, bool dirty, Traffic* traffic) {
    if (occupied_[next_] && dirty_[next_]) traffic->writeBackBytes += lineBytes_;
    occupant_[next_] = line;
    occupied_[next_] = 1;
    dirty_[next_] = dirty;
    SlotOf(line) = next_;
    next_ = next_ + 1 == lines_ ? 0 : next_ + 1;
}

void L2Cache::Read(uint16_t tensor, uint64_t offset, uint64_t bytes, bool allocate, Traffic* traffic) {
    if (bytes == 0) return;
    const LineId base = static_cast<uint64_t>(tensor) << 48;
    for (uint64_t line = offset / lineBytes_; line <= (offset + bytes - 1) / lineBytes_; ++line) {
        const uint64_t begin = std::max(offset, line * lineBytes_);
        const uint64_t end = std::min(offset + bytes, (line + 1) * lineBytes_);
        if (Present(base | line)) {
            traffic->hitBytes += end - begin;
        } else {
            traffic->missBytes += end - begin;
            if (allocate) Fill(base | line, false, traffic);
        }
    }
}

void L2Cache::Write(uint16_t tensor, uint64_t offset, uint64_t bytes, Traffic* traffic) {
    if (bytes == 0) return;
    const LineId base = static_cast<uint64_t>(tensor) << 48;
    for (uint64_t line = offset / lineBytes_; line <= (offset + bytes - 1) / lineBytes_; ++line) {
        const uint64_t begin = std::max(offset, line * lineBytes_);
        const uint64_t end = std::min(offset + bytes, (line + 1) * lineBytes_);
        traffic->hitBytes += end - begin;
        if (Present(base | line)) {
            dirty_[SlotOf(base | line)] = 1;
        } else {
            Fill(base | line, true, traffic);
        }
    }
}

}  // namespace cpu_twin
