// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <cstring>

namespace cpu_twin {

float HalfToFloat(uint16_t bits) {
    float value;
    kernels::HalfToFloatN(&value, &bits, 1);
    return value;
}
uint16_t FloatToHalf(float value) {
    uint16_t bits;
    kernels::FloatToHalfN(&bits, &value, 1);
    return bits;
}
uint16_t FloatToBf16(float value) {
    uint16_t bits;
    kernels::FloatToBf16N(&bits, &value, 1);
    return bits;
}

namespace kernels {

const Table& GenericTable();
#if defined(__x86_64__) && defined(CPU_TWIN_HAVE_AVX2)
const Table& Avx2Table();
#endif

const Table& Kernels() {
    static const Table* const table = [] {
#if defined(__x86_64__) && defined(CPU_TWIN_HAVE_AVX2)
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) return &Avx2Table();
#endif
        return &GenericTable();
    }();
    return *table;
}

void Bf16ToFloatN(float* dst, const uint16_t* src, size_t n) {
    for (size_t i = 0; i < n; ++i) dst[i] = Bf16ToFloat(src[i]);
}

namespace {
template <typename T>
T Load(const uint8_t* p) {
    T v;
    std::memcpy(&v, p, sizeof(T));
    return v;
}
template <typename T, typename Wide, typename ToWide, typename FromWide>
void AtomicLoop(uint8_t op, uint8_t* dst, const uint8_t* src, uint64_t bytes, ToWide widen, FromWide narrow) {
    for (uint64_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
        const Wide a = widen(Load<T>(dst + at)), b = widen(Load<T>(src + at));
        const Wide r = op == 0 ? static_cast<Wide>(a + b) : op == 1 ? (a > b ? a : b) : (a < b ? a : b);
        const T out = narrow(r);
        std::memcpy(dst + at, &out, sizeof(T));
    }
}
}  // namespace

void Atomic(atomic_type_t type, uint8_t op, uint8_t* dst, const uint8_t* src, uint64_t bytes) {
    switch (type) {
        case ATOMIC_F32:
            AtomicLoop<float, float>(op, dst, src, bytes, [](float v) { return v; }, [](float v) { return v; });
            break;
        case ATOMIC_F16:
            AtomicLoop<uint16_t, float>(op, dst, src, bytes, [](uint16_t v) { return HalfToFloat(v); }, [](float v) { return FloatToHalf(v); });
            break;
        case ATOMIC_BF16:
            AtomicLoop<uint16_t, float>(op, dst, src, bytes, [](uint16_t v) { return Bf16ToFloat(v); }, [](float v) { return FloatToBf16(v); });
            break;
        case ATOMIC_S32:  // addition wraps
            AtomicLoop<int32_t, int64_t>(op, dst, src, bytes, [](int32_t v) { return static_cast<int64_t>(v); },
                                         [](int64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v)); });
            break;
        case ATOMIC_S16:
            AtomicLoop<int16_t, int32_t>(op, dst, src, bytes, [](int16_t v) { return static_cast<int32_t>(v); },
                                         [](int32_t v) { return static_cast<int16_t>(v); });
            break;
        case ATOMIC_S8:
            AtomicLoop<int8_t, int32_t>(op, dst, src, bytes, [](int8_t v) { return static_cast<int32_t>(v); },
                                        [](int32_t v) { return static_cast<int8_t>(v); });
            break;
        case ATOMIC_NONE: break;
    }
}

}  // namespace kernels
}  // namespace cpu_twin
