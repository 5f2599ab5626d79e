// SPDX-License-Identifier: Apache-2.0
// Sort32 and MrgSort: pairs of a score and an index, eight bytes each, in falling order of the score.
#include <algorithm>
#include <array>

#include "lanes.h"

namespace twin_test {

namespace {

struct Pair {
    double score;
    uint32_t index;
};

template <typename T> void PutPair(Image& image, size_t at, const Pair& pair) {
    image.Put<T>(at, pair.score);
    image.PutRaw<uint32_t>(at + 4, pair.index);
}
template <typename T> Pair GetPair(const Image& image, size_t at) { return {image.Get<T>(at), image.Raw<uint32_t>(at + 4)}; }

// The two bytes between a half score and its index are reserved: they may be anything.
template <typename T> void ExpectPairs(const std::vector<Pair>& want, const Image& got, size_t at, const std::string& what) {
    for (size_t i = 0; i < want.size(); ++i) {
        const Pair pair = GetPair<T>(got, at + 8 * i);
        if (pair.score != want[i].score || pair.index != want[i].index) {
            Fail(what, ", place ", i, ": expected (", want[i].score, ", ", want[i].index, "), got (", pair.score, ", ", pair.index, ")");
        }
    }
}

bool Before(const Pair& a, const Pair& b) { return a.score > b.score; }

uint64_t Packed(const std::array<uint32_t, 4>& lengths) {
    uint64_t packed = 0;
    for (int i = 0; i < 4; ++i) packed |= static_cast<uint64_t>(lengths[i]) << (16 * i);
    return packed;
}
uint64_t Config(uint32_t repeats, uint32_t valid, bool suspend) { return repeats | valid << 8 | (suspend ? 1u << 12 : 0); }

// Takes the largest head; of equal ones that of the lower list. Stops when one list is used up if `suspend`.
std::vector<Pair> Merge(const std::vector<std::vector<Pair>>& lists, bool suspend, std::array<uint32_t, 4>* used) {
    std::vector<Pair> merged;
    used->fill(0);
    for (;;) {
        int best = -1;
        for (size_t l = 0; l < lists.size(); ++l) {
            if ((*used)[l] == lists[l].size()) {
                if (suspend && !merged.empty()) return merged;
                continue;
            }
            if (best < 0 || Before(lists[l][(*used)[l]], lists[best][(*used)[best]])) best = static_cast<int>(l);
        }
        if (best < 0) return merged;
        merged.push_back(lists[best][(*used)[best]++]);
    }
}

template <typename T> std::vector<Pair> SortedList(Random& rng, size_t length) {
    std::vector<Pair> list(length);
    for (Pair& pair : list) pair = {static_cast<double>(rng.Below(20)), static_cast<uint32_t>(rng.Next())};
    std::stable_sort(list.begin(), list.end(), Before);
    return list;
}

}  // namespace

TWIN_TEST(sort32) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        for (int round = 0; round < 4; ++round) {
            const uint32_t repeats = rng.Between(1, 6);
            Image ub(kUbImage);
            // Few distinct scores: equals must keep their order.
            ub.Fill<T>(kRegion, 32 * repeats, [&](size_t) { return static_cast<double>(rng.Below(12)) - 4; });
            for (uint32_t i = 0; i < 32 * repeats; ++i) ub.PutRaw<uint32_t>(2 * kRegion + 4 * i, static_cast<uint32_t>(rng.Next()));
            const Image before = ub;
            OnAiv(ub, [&] { vbitsort(Ub<T>(0), Ub<T>(kRegion), Ub<uint32_t>(2 * kRegion), repeats); });
            for (uint32_t r = 0; r < repeats; ++r) {
                std::vector<Pair> want(32);
                for (uint32_t i = 0; i < 32; ++i) {
                    want[i] = {before.Get<T>(kRegion + (32 * r + i) * sizeof(T)), before.Raw<uint32_t>(2 * kRegion + 4 * (32 * r + i))};
                }
                std::stable_sort(want.begin(), want.end(), Before);
                ExpectPairs<T>(want, ub, 256 * r, "repeat " + std::to_string(r));
            }
        }
    };
    check(half{});
    check(float{});
}
TWIN_TEST(mrgsort_two_three_and_four_lists) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        for (uint32_t count = 2; count <= 4; ++count) {
            for (const bool suspend : {false, true}) {
                Image ub(kUbImage);
                std::array<uint32_t, 4> lengths{}, used{};
                std::vector<std::vector<Pair>> lists;
                for (uint32_t l = 0; l < count; ++l) {
                    lengths[l] = rng.Between(1, 60);
                    lists.push_back(SortedList<T>(rng, lengths[l]));
                    for (uint32_t i = 0; i < lengths[l]; ++i) PutPair<T>(ub, (l + 1) * kRegion + 8 * i, lists[l][i]);
                }
                const std::vector<Pair> want = Merge(lists, suspend, &used);
                uint64_t status = 0;
                OnAiv(ub, [&] {
                    T* from[4] = {Ub<T>(kRegion), Ub<T>(2 * kRegion), Ub<T>(3 * kRegion), Ub<T>(4 * kRegion)};
                    vmrgsort4(Ub<T>(0), from, Packed(lengths), Config(1, (1u << count) - 1, suspend));
                    status = static_cast<uint64_t>(get_vms4_sr());
                });
                const std::string what = std::to_string(count) + (suspend ? " lists, suspending" : " lists");
                ExpectPairs<T>(want, ub, 0, what);
                for (uint32_t l = 0; suspend && l < count; ++l) {
                    const uint32_t got = (status >> (16 * l)) & 0x1fff;
                    if (got != used[l]) Fail(what, ": list ", l, ": expected ", used[l], " used, got ", got);
                }
            }
        }
    };
    check(half{});
    check(float{});
}
TWIN_TEST(mrgsort_repeats_over_four_equal_lists) {
    const auto check = [&](auto tag) {
        using T = decltype(tag);
        const uint32_t length = 32, repeats = 3;
        Image ub(kUbImage);
        std::vector<std::vector<Pair>> lists;
        for (uint32_t l = 0; l < 4 * repeats; ++l) {
            lists.push_back(SortedList<T>(rng, length));
            for (uint32_t i = 0; i < length; ++i) PutPair<T>(ub, kRegion + (l * length + i) * 8, lists[l][i]);
        }
        OnAiv(ub, [&] {
            T* from[4];
            for (uint32_t l = 0; l < 4; ++l) from[l] = Ub<T>(kRegion + l * length * 8);
            vmrgsort4(Ub<T>(0), from, Packed({length, length, length, length}), Config(repeats, 15, false));
        });
        for (uint32_t r = 0; r < repeats; ++r) {
            std::array<uint32_t, 4> used{};
            const std::vector<std::vector<Pair>> four(lists.begin() + 4 * r, lists.begin() + 4 * r + 4);
            ExpectPairs<T>(Merge(four, false, &used), ub, r * 4 * length * 8, "repeat " + std::to_string(r));
        }
    };
    check(half{});
    check(float{});
}

}  // namespace twin_test
