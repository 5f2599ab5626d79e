// SPDX-License-Identifier: Apache-2.0
// What the example programs share on the host: key=value arguments, reproducible random data, 16-bit types, the report.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch.h"

namespace example {

// Arguments of the form key=value. A key that no example knows is an error, so that a typing mistake is not a default.
class Arguments {
public:
    Arguments(int argc, char** argv)
    {
        for (int i = 1; i < argc; ++i) {
            const std::string text = argv[i];
            const size_t equals = text.find('=');
            if (equals == std::string::npos) {
                throw std::invalid_argument("expected key=value, got '" + text + "'");
            }
            values_[text.substr(0, equals)] = text.substr(equals + 1);
        }
    }
    std::string Text(const std::string& key, const std::string& fallback)
    {
        const auto found = values_.find(key);
        if (found == values_.end()) {
            return fallback;
        }
        const std::string value = found->second;
        values_.erase(found);
        return value;
    }
    uint64_t Number(const std::string& key, uint64_t fallback, uint64_t low, uint64_t high)
    {
        const std::string text = Text(key, "");
        if (text.empty()) {
            return fallback;
        }
        char* end = nullptr;
        const uint64_t value = std::strtoull(text.c_str(), &end, 10);
        if (text[0] == '-' || *end != '\0' || value < low || value > high) {
            throw std::invalid_argument(key + ": expected " + std::to_string(low) + " to " + std::to_string(high) +
                                        ", got '" + text + "'");
        }
        return value;
    }
    void RefuseUnknown() const
    {
        if (!values_.empty()) {
            throw std::invalid_argument("unknown argument '" + values_.begin()->first + "'");
        }
    }

private:
    std::map<std::string, std::string> values_;
};

// The options every example takes: order=N permutes the cores, check=0 switches the checker off, drop=KEY leaves one
// sync call site out, sync=1 lists the keys.
struct RunOptions {
    cpu_twin::Options launch;
    bool listSync = false;
};
inline RunOptions ReadRunOptions(Arguments& arguments)
{
    RunOptions run;
    run.launch.seed = arguments.Number("order", 0, 0, UINT64_MAX);
    run.launch.check = arguments.Number("check", 1, 0, 1) != 0;
    run.launch.threads = static_cast<int>(arguments.Number("threads", 1, 1, 64));
    run.launch.dropSync = arguments.Text("drop", "");
    run.listSync = arguments.Number("sync", 0, 0, 1) != 0;
    return run;
}

// splitmix64: the same numbers everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t Next()
    {
        state_ += 0x9e3779b97f4a7c15ULL;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    float Uniform(float low, float high)
    {
        return low + (high - low) * static_cast<float>(Next() >> 40) / static_cast<float>(1 << 24);
    }

private:
    uint64_t state_;
};

// A tensor of float, half or bfloat16 as bytes, read and written as float.
enum class Element { FLOAT, HALF, BFLOAT16 };
inline Element ReadElement(Arguments& arguments, const std::string& key, const std::string& fallback)
{
    const std::string name = arguments.Text(key, fallback);
    if (name == "float") {
        return Element::FLOAT;
    }
    if (name == "half") {
        return Element::HALF;
    }
    if (name == "bfloat16") {
        return Element::BFLOAT16;
    }
    throw std::invalid_argument(key + ": expected float, half or bfloat16, got '" + name + "'");
}
// Distance from 1 to the next number.
inline double Spacing(Element element)
{
    return element == Element::FLOAT ? 0x1p-23 : element == Element::HALF ? 0x1p-10 : 0x1p-7;
}
class Buffer {
public:
    Buffer(Element element, size_t count) : element_(element), bytes_(count * (element == Element::FLOAT ? 4 : 2)) {}
    uint8_t* data() { return bytes_.data(); }
    const uint8_t* data() const { return bytes_.data(); }
    size_t size() const { return bytes_.size(); }
    float Get(size_t i) const
    {
        if (element_ == Element::FLOAT) {
            float value;
            std::memcpy(&value, bytes_.data() + 4 * i, sizeof(value));
            return value;
        }
        uint16_t bits;
        std::memcpy(&bits, bytes_.data() + 2 * i, sizeof(bits));
        return element_ == Element::HALF ? cpu_twin::HalfToFloat(bits) : cpu_twin::Bf16ToFloat(bits);
    }
    void Set(size_t i, float value)
    {
        if (element_ == Element::FLOAT) {
            std::memcpy(bytes_.data() + 4 * i, &value, sizeof(value));
            return;
        }
        const uint16_t bits = element_ == Element::HALF ? cpu_twin::FloatToHalf(value) : cpu_twin::FloatToBf16(value);
        std::memcpy(bytes_.data() + 2 * i, &bits, sizeof(bits));
    }
    void Fill(Random& random, size_t count, float low, float high)
    {
        for (size_t i = 0; i < count; ++i) {
            Set(i, random.Uniform(low, high));
        }
    }

private:
    Element element_;
    std::vector<uint8_t> bytes_;
};

// Keeps the worst error in units of what is allowed, and where it was.
class Comparison {
public:
    void Add(size_t index, double got, double expected, double allowed)
    {
        const double error = std::abs(got - expected) / allowed;
        if (!(error <= worst_)) {    // a NaN counts as worst
            worst_ = std::isnan(error) ? INFINITY : error;
            where_ = index;
            got_ = got;
            expected_ = expected;
        }
    }
    bool Passed() const { return worst_ <= 1.0; }
    void Print(const char* name) const
    {
        std::printf("%s: worst error %.3f of what is allowed, element %zu: %.9g, expected %.9g\n", name, worst_, where_,
                    got_, expected_);
    }

private:
    double worst_ = 0;
    size_t where_ = 0;
    double got_ = 0;
    double expected_ = 0;
};

inline uint64_t Hash(const uint8_t* data, size_t bytes, uint64_t hash = 0xcbf29ce484222325ULL)
{
    for (size_t i = 0; i < bytes; ++i) {
        hash = (hash ^ data[i]) * 0x100000001b3ULL;
    }
    return hash;
}

// Prints what a test compares between runs, and gives the exit code: 0 right and no finding, 1 otherwise.
inline int Finish(const cpu_twin::Report& report, const RunOptions& run, bool right, uint64_t outputs)
{
    std::printf("outputs %016llx\n", static_cast<unsigned long long>(outputs));
    std::printf("instructions %llu\n", static_cast<unsigned long long>(report.stats.instructions));
    if (run.listSync) {
        for (const cpu_twin::SyncSite& site : report.syncSites) {
            std::printf("sync %s\n", site.Key().c_str());
        }
    }
    std::printf("%s", report.Text().c_str());
    std::printf("\n%s, %zu findings\n", right ? "RIGHT" : "WRONG", report.findings.size());
    return right && report.ok() ? 0 : 1;
}

// Runs an example's body; a wrong argument gets its message and exit code 2.
template <typename Body> int Main(int argc, char** argv, const char* usage, Body body)
{
    try {
        Arguments arguments(argc, argv);
        return body(arguments);
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "%s\nusage: %s %s\n", error.what(), argv[0], usage);
        return 2;
    }
}

}    // namespace example
