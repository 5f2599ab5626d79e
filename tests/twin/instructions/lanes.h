// SPDX-License-Identifier: Apache-2.0
// How vector instructions walk over UB: repeats, 32-byte blocks, masks. Written from the pages on masks and on strided computation.
#pragma once

#include "harness.h"

namespace twin_test {

// Where one operand's elements lie: start in bytes, strides between blocks and between repeats in blocks of 32 B.
struct Walk {
    uint32_t start = 0, blk = 1, rep = 8;
    uint32_t At(uint32_t repeat, uint32_t lane, uint32_t elemBytes) const {
        const uint32_t inRepeat = lane * elemBytes;
        return start + (repeat * rep + inRepeat / 32 * blk) * 32 + inRepeat % 32;
    }
};

// A mask as the kernel would set it. Normal: a bit per lane, the same for each repeat. Counter: the number of elements in
// all; the repeat count of the instruction is then without meaning.
struct Mask {
    bool counter = false;
    uint64_t low = ~0ull, high = ~0ull;

    static Mask RandomOf(Random& rng, uint32_t lanes, uint32_t repeats) {
        Mask mask;
        switch (rng.Below(4)) {
            case 0: break;
            case 1: mask.low = rng.Next(), mask.high = rng.Next(); break;
            case 2: {
                const uint32_t n = rng.Between(1, lanes);
                mask.low = n >= 64 ? ~0ull : (1ull << n) - 1;
                mask.high = n <= 64 ? 0 : n == 128 ? ~0ull : (1ull << (n - 64)) - 1;
                break;
            }
            default:
                mask.counter = true;
                mask.low = rng.Between(1, lanes * repeats);
                mask.high = 0;
        }
        if (lanes <= 64) mask.high = 0;
        if (lanes <= 32) mask.low &= 0xffffffffull;
        if (!mask.counter && mask.low == 0 && mask.high == 0) mask.low = 1;
        return mask;
    }
    void Set() const {
        if (counter) set_mask_count(); else set_mask_norm();
        set_vector_mask(high, low);
    }
    uint32_t Repeats(uint32_t lanes, uint32_t repeats) const {
        return counter ? static_cast<uint32_t>((low + lanes - 1) / lanes) : repeats;
    }
    bool On(uint32_t repeat, uint32_t lane, uint32_t lanes) const {
        if (counter) return uint64_t{repeat} * lanes + lane < low;
        return ((lane < 64 ? low >> lane : high >> (lane - 64)) & 1) != 0;
    }
    std::string Text() const {
        std::ostringstream text;
        if (counter) text << "counter " << low; else text << "mask " << std::hex << high << ":" << low;
        return text.str();
    }
};

// Calls f(repeat, lane) for every lane that the mask lets through.
template <typename F> void ForLanes(const Mask& mask, uint32_t repeats, uint32_t lanes, F f) {
    for (uint32_t r = 0; r < mask.Repeats(lanes, repeats); ++r) {
        for (uint32_t lane = 0; lane < lanes; ++lane) {
            if (mask.On(r, lane, lanes)) f(r, lane);
        }
    }
}

// Regions of an image of kUbImage bytes that do not touch: 32 KiB each.
inline constexpr uint32_t kRegion = 32 * 1024;
inline constexpr uint32_t kUbImage = 5 * kRegion;

// A source may read a block over and over; a destination must not write one twice, or the result would hang on the order.
inline Walk SourceWalk(Random& rng, uint32_t region) {
    return {region * kRegion + 32 * rng.Below(4), rng.Pick<uint32_t>({0, 1, 1, 1, 2, 3}), rng.Pick<uint32_t>({0, 1, 8, 8, 8, 16, 24})};
}
inline Walk DestinationWalk(Random& rng, uint32_t region, uint32_t repeats) {
    const uint32_t blk = rng.Pick<uint32_t>({1, 1, 1, 2, 3});
    Walk walk{region * kRegion + 32 * rng.Below(4), blk, 8 * blk + rng.Below(3)};
    if (rng.Below(4) == 0) walk.blk = repeats, walk.rep = 1;  // repeats interleaved block by block
    return walk;
}

}  // namespace twin_test
