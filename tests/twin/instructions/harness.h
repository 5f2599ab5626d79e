// SPDX-License-Identifier: Apache-2.0
// One instruction at a time on the machine, against references written from the public documents. The executable takes
// --list, or --run NAME; it exits with 1 and a text on the first case that differs.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../../../cpu_twin/machine/intrinsics.h"
#include "../../../cpu_twin/machine/launch.h"

namespace twin_test {

using namespace cpu_twin;

// splitmix64: the same numbers everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t Next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    uint32_t Below(uint32_t n) { return static_cast<uint32_t>(Next() % n); }
    uint32_t Between(uint32_t low, uint32_t high) { return low + Below(high - low + 1); }
    bool Coin() { return Next() & 1; }
    double Uniform(double low, double high) { return low + (high - low) * (static_cast<double>(Next() >> 11) * 0x1p-53); }
    template <typename T> T Pick(std::initializer_list<T> of) { return of.begin()[Below(static_cast<uint32_t>(of.size()))]; }

private:
    uint64_t state_;
};

struct Test {
    const char* name;
    void (*run)(Random&);
};
std::vector<Test>& Tests();
struct Registrar {
    Registrar(const char* name, void (*run)(Random&)) { Tests().push_back({name, run}); }
};
#define TWIN_TEST(name)                                              \
    static void Test_##name(Random& rng);                            \
    static const Registrar registrar_##name(#name, Test_##name);     \
    static void Test_##name([[maybe_unused]] Random& rng)

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
template <typename... A> [[noreturn]] void Fail(const A&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    throw Failure(text.str());
}

// ---- numbers, independent of the machine's conversions ----

enum class Mode { Rint, Floor, Ceil, Away, Trunc, Odd };

inline double RoundInteger(double x, Mode mode) {
    const double down = std::floor(x);
    const double rest = x - down;
    switch (mode) {
        case Mode::Floor: return down;
        case Mode::Ceil: return std::ceil(x);
        case Mode::Trunc: return std::trunc(x);
        case Mode::Away: {
            const double size = std::floor(std::fabs(x));
            return std::copysign(std::fabs(x) - size >= 0.5 ? size + 1 : size, x);
        }
        case Mode::Rint:
            if (rest != 0.5) return rest < 0.5 ? down : down + 1;
            return std::fmod(down, 2) == 0 ? down : down + 1;
        case Mode::Odd: {
            if (rest == 0) return x;
            const double toZero = std::trunc(x);
            return std::fmod(toZero, 2) != 0 ? toZero : toZero + std::copysign(1.0, x);
        }
    }
    return x;
}

// `x` on the grid of a binary format with `mantissa` explicit bits and least exponent `minExponent`; infinite beyond `max`.
inline double RoundToFormat(double x, int mantissa, int minExponent, double max, Mode mode) {
    if (std::isnan(x) || std::isinf(x) || x == 0) return x;
    const int exponent = std::max(std::ilogb(x), minExponent) - mantissa;
    const double rounded = std::copysign(std::ldexp(RoundInteger(std::ldexp(x, -exponent), mode), exponent), x);
    return std::fabs(rounded) > max ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}
inline double ToHalfGrid(double x, Mode mode = Mode::Rint) { return RoundToFormat(x, 10, -14, 65504, mode); }
inline double ToBf16Grid(double x, Mode mode = Mode::Rint) {
    return RoundToFormat(x, 7, -126, 3.3895313892515355e38, mode);
}
inline double ToFloatGrid(double x, Mode mode = Mode::Rint) {
    return RoundToFormat(x, 23, -126, std::numeric_limits<float>::max(), mode);
}

// Bits of a value that lies on the grid.
inline uint16_t HalfBits(double x) {
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return 0x7e00;
    if (std::isinf(x)) return sign | 0x7c00;
    if (x == 0) return sign;
    const int e = std::max(std::ilogb(x), -14);
    const uint32_t significand = static_cast<uint32_t>(std::ldexp(std::fabs(x), 10 - e));
    return static_cast<uint16_t>(sign | (significand < 1024 ? significand : ((e + 15) << 10) + (significand - 1024)));
}
inline double HalfValue(uint16_t bits) {
    const int e = (bits >> 10) & 31;
    const int m = bits & 1023;
    double x = e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
    if (e == 31) x = m ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    return bits & 0x8000 ? -x : x;
}

// Element types as the tests speak of them: value to bits and back.
template <typename T> struct Num;
template <> struct Num<half> {
    using Bits = uint16_t;
    static double Value(Bits b) { return HalfValue(b); }
    static Bits Of(double x) { return HalfBits(ToHalfGrid(x)); }
};
template <> struct Num<bfloat16_t> {
    using Bits = uint16_t;
    static double Value(Bits b) {
        const uint32_t wide = static_cast<uint32_t>(b) << 16;
        float f;
        std::memcpy(&f, &wide, 4);
        return f;
    }
    static Bits Of(double x) {
        const float f = static_cast<float>(ToBf16Grid(x));
        uint32_t bits;
        std::memcpy(&bits, &f, 4);
        return static_cast<Bits>(bits >> 16);
    }
};
template <> struct Num<float> {
    using Bits = uint32_t;
    static double Value(Bits b) {
        float f;
        std::memcpy(&f, &b, 4);
        return f;
    }
    static Bits Of(double x) {
        const float f = static_cast<float>(x);
        Bits b;
        std::memcpy(&b, &f, 4);
        return b;
    }
};
#define TWIN_INTEGER(T)                                                              \
    template <> struct Num<T> {                                                      \
        using Bits = T;                                                              \
        static double Value(Bits b) { return static_cast<double>(b); }               \
        static Bits Of(double x) { return static_cast<T>(static_cast<int64_t>(x)); } \
    };
TWIN_INTEGER(int8_t)
TWIN_INTEGER(uint8_t)
TWIN_INTEGER(int16_t)
TWIN_INTEGER(uint16_t)
TWIN_INTEGER(int32_t)
TWIN_INTEGER(uint32_t)
TWIN_INTEGER(int64_t)
#undef TWIN_INTEGER

// ---- memory images ----

// Memory as a block of bytes, aligned as GM allocations are.
template <typename T> struct Aligned {
    using value_type = T;
    Aligned() = default;
    template <typename U> Aligned(const Aligned<U>&) {}
    T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{512})); }
    void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{512}); }
    bool operator==(const Aligned&) const { return true; }
    bool operator!=(const Aligned&) const { return false; }
};
class Image {
public:
    explicit Image(size_t bytes) : bytes_(bytes) {}
    static Image Noise(size_t bytes, Random& rng) {
        Image image(bytes);
        for (size_t i = 0; i + 8 <= bytes; i += 8) {
            const uint64_t r = rng.Next();
            std::memcpy(&image.bytes_[i], &r, 8);
        }
        return image;
    }
    uint8_t* data() { return bytes_.data(); }
    const uint8_t* data() const { return bytes_.data(); }
    size_t size() const { return bytes_.size(); }
    template <typename T> typename Num<T>::Bits Raw(size_t at) const {
        Check(at, sizeof(T));
        typename Num<T>::Bits b;
        std::memcpy(&b, &bytes_[at], sizeof(b));
        return b;
    }
    template <typename T> double Get(size_t at) const { return Num<T>::Value(Raw<T>(at)); }
    template <typename T> void PutRaw(size_t at, typename Num<T>::Bits bits) {
        Check(at, sizeof(T));
        std::memcpy(&bytes_[at], &bits, sizeof(bits));
    }
    template <typename T> void Put(size_t at, double x) { PutRaw<T>(at, Num<T>::Of(x)); }
    // `count` values of f(i), one after another.
    template <typename T> void Fill(size_t at, size_t count, const std::function<double(size_t)>& f) {
        for (size_t i = 0; i < count; ++i) Put<T>(at + i * sizeof(T), f(i));
    }

private:
    void Check(size_t at, size_t bytes) const {
        if (at + bytes > bytes_.size()) Fail_("a reference touches byte ", at, " of an image of ", bytes_.size());
    }
    template <typename... A> [[noreturn]] static void Fail_(const A&... parts) { Fail(parts...); }
    std::vector<uint8_t, Aligned<uint8_t>> bytes_;
};

// Runs `body` on one core with `image` as its buffer `mem`, then reads it back. Any finding of the checker fails the test.
void OnCore(CoreKind kind, Mem mem, Image& image, const std::function<void()>& body, const std::vector<Tensor>& tensors = {});
inline void OnAiv(Image& ub, const std::function<void()>& body, const std::vector<Tensor>& tensors = {}) {
    OnCore(CoreKind::AIV, Mem::UB, ub, body, tensors);
}
template <typename T> T* At(Mem mem, uint32_t offset) { return reinterpret_cast<T*>(LocalBase(mem) + offset); }
template <typename T> T* Ub(uint32_t offset) { return At<T>(Mem::UB, offset); }

// Every byte equal, or, seen as elements of T, equal values with NaN equal to NaN.
template <typename T> void ExpectSame(const Image& want, const Image& got, const std::string& what) {
    for (size_t at = 0; at + sizeof(T) <= want.size(); at += sizeof(T)) {
        const auto w = want.Raw<T>(at), g = got.Raw<T>(at);
        if (w == g) continue;
        if (std::isnan(Num<T>::Value(w)) && std::isnan(Num<T>::Value(g))) continue;
        Fail(what, ": byte ", at, ": expected ", Num<T>::Value(w), " (bits ", +w, "), got ", Num<T>::Value(g), " (bits ", +g, ")");
    }
}
// As ExpectSame, but finite values may lie `ulps` of T apart.
template <typename T> void ExpectNear(const Image& want, const Image& got, int64_t ulps, const std::string& what) {
    const auto line = [](typename Num<T>::Bits b) {
        using Signed = std::make_signed_t<typename Num<T>::Bits>;
        const int64_t magnitude = b & ~(typename Num<T>::Bits{1} << (sizeof(b) * 8 - 1));
        return static_cast<Signed>(b) < 0 ? -magnitude : magnitude;
    };
    for (size_t at = 0; at + sizeof(T) <= want.size(); at += sizeof(T)) {
        const auto w = want.Raw<T>(at), g = got.Raw<T>(at);
        const double x = Num<T>::Value(w), y = Num<T>::Value(g);
        if (w == g || (std::isnan(x) && std::isnan(y))) continue;
        if (std::isnan(x) || std::isnan(y) || std::llabs(line(w) - line(g)) > ulps) {
            Fail(what, ": byte ", at, ": expected ", x, " within ", ulps, " ulp, got ", y);
        }
    }
}

}  // namespace twin_test
