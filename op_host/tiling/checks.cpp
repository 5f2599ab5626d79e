// SPDX-License-Identifier: Apache-2.0
#include "checks.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

namespace asa {
namespace {

constexpr int64_t kHeadDimMultiple = 64;

struct Named {
    const char* name;
    const TensorDesc* tensor;
};

// Positions of the dimensions in the two layouts; the head dim or topK is always last.
struct Axes {
    uint32_t sequence;
    uint32_t head;
};

Verdict TypeFault(std::string message) { return {Fault::kType, std::move(message)}; }
Verdict ValueFault(std::string message) { return {Fault::kValue, std::move(message)}; }

std::string Str(int64_t value) { return std::to_string(value); }

// "[B, S1, N1, Dk]"
std::string Dims(const std::string& name, Layout layout)
{
    const bool fromQuery = name == "query" || name == "sparseIndices";
    const std::string sequence = fromQuery ? "S1" : "S2";
    const std::string head = name == "query" ? "N1" : "N2";
    const std::string last = name == "value" ? "Dv" : name == "sparseIndices" ? "topK" : "Dk";
    return layout == kBSND ? "[B, " + sequence + ", " + head + ", " + last + "]"
                           : "[B, " + head + ", " + sequence + ", " + last + "]";
}

std::string NotFinite(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

// The shortest text that reads back as the same number, as Python prints it.
std::string Shortest(double value)
{
    char text[32];
    for (int digits = 1; digits <= 17; ++digits) {
        std::snprintf(text, sizeof(text), "%.*g", digits, value);
        if (std::strtod(text, nullptr) == value) {
            break;
        }
    }
    return text;
}

Verdict CheckKinds(const Request& r, const std::vector<Named>& tensors, Problem& p)
{
    if (!std::isfinite(r.scale)) {
        return ValueFault("scaleValue: expected a finite number, got " + NotFinite(r.scale));
    }
    // The kernel takes it as float32, where anything larger would be an infinity.
    if (std::fabs(r.scale) > static_cast<double>(std::numeric_limits<float>::max())) {
        return ValueFault("scaleValue: expected a number that float32 holds, got " + Shortest(r.scale));
    }
    if (r.layout != "BSND" && r.layout != "BNSD") {
        return ValueFault("inputLayout: expected \"BSND\" or \"BNSD\", got \"" + r.layout + "\"");
    }
    p.layout = r.layout == "BSND" ? kBSND : kBNSD;
    for (const Named& t : tensors) {
        if (t.tensor->rank != 4) {
            return ValueFault(std::string(t.name) + ": expected 4 dimensions " + Dims(t.name, p.layout) + ", got " +
                              Str(t.tensor->rank));
        }
    }
    if (r.query.dtype != "float16" && r.query.dtype != "bfloat16") {
        return TypeFault("query: expected dtype float16 or bfloat16, got " + r.query.dtype);
    }
    p.dtype = r.query.dtype == "float16" ? kFloat16 : kBfloat16;
    for (const Named& t : {tensors[1], tensors[2]}) {
        if (t.tensor->dtype != r.query.dtype) {
            return TypeFault(std::string(t.name) + ": expected dtype " + r.query.dtype + " (query's), got " +
                             t.tensor->dtype);
        }
    }
    if (r.index.dtype != "int32") {
        return TypeFault("sparseIndices: expected dtype int32, got " + r.index.dtype);
    }
    return {};
}

Verdict CheckSizes(const Request& r, const Axes& a, const std::vector<Named>& tensors, const Problem& p)
{
    for (size_t i = 1; i < tensors.size(); ++i) {
        if (tensors[i].tensor->shape[0] != p.b) {
            return ValueFault(std::string(tensors[i].name) + ": expected B = " + Str(p.b) + " (query's), got " +
                              Str(tensors[i].tensor->shape[0]));
        }
    }
    if (p.n1 < 1) {
        return ValueFault("query: expected N1 >= 1, got " + Str(p.n1));
    }
    if (p.n2 < 1) {
        return ValueFault("key: expected N2 >= 1, got " + Str(p.n2));
    }
    if (p.n1 % p.n2 != 0) {
        return ValueFault("query: expected N1 to be a multiple of N2 = " + Str(p.n2) + ", got " + Str(p.n1));
    }
    if (p.s2 < 1) {
        return ValueFault("key: expected S2 >= 1, got " + Str(p.s2));
    }
    if (p.dk < 1 || p.dk % kHeadDimMultiple != 0) {
        return ValueFault("query: expected head dim Dk a multiple of " + Str(kHeadDimMultiple) + ", got " + Str(p.dk));
    }
    if (r.key.shape[3] != p.dk) {
        return ValueFault("key: expected head dim " + Str(p.dk) + " (query's), got " + Str(r.key.shape[3]));
    }
    if (p.dv < 1 || p.dv % kHeadDimMultiple != 0) {
        return ValueFault("value: expected head dim Dv a multiple of " + Str(kHeadDimMultiple) + ", got " + Str(p.dv));
    }
    if (p.dv > p.dk) {
        return ValueFault("value: expected head dim Dv <= Dk = " + Str(p.dk) + ", got " + Str(p.dv));
    }
    if (r.value.shape[a.sequence] != p.s2) {
        return ValueFault("value: expected S2 = " + Str(p.s2) + " (key's), got " + Str(r.value.shape[a.sequence]));
    }
    if (r.value.shape[a.head] != p.n2) {
        return ValueFault("value: expected N2 = " + Str(p.n2) + " (key's), got " + Str(r.value.shape[a.head]));
    }
    if (r.index.shape[a.sequence] != p.s1) {
        return ValueFault("sparseIndices: expected S1 = " + Str(p.s1) + " (query's), got " +
                          Str(r.index.shape[a.sequence]));
    }
    if (r.index.shape[a.head] != p.n2) {
        return ValueFault("sparseIndices: expected N2 = " + Str(p.n2) + " (key's), got " + Str(r.index.shape[a.head]));
    }
    if (p.topK < 1) {
        return ValueFault("sparseIndices: expected topK >= 1, got " + Str(p.topK));
    }
    if (p.topK > p.s2) {
        return ValueFault("sparseIndices: expected topK <= S2 = " + Str(p.s2) + ", got " + Str(p.topK));
    }
    if (p.causal && p.s1 > p.s2) {
        return ValueFault("is_causal: expected S1 <= S2 = " + Str(p.s2) + " when causal, got S1 = " + Str(p.s1));
    }
    return {};
}

Strides ReadStrides(const TensorDesc& tensor, const Axes& axes)
{
    return {static_cast<uint64_t>(tensor.stride[0]), static_cast<uint64_t>(tensor.stride[axes.sequence]),
            static_cast<uint64_t>(tensor.stride[axes.head])};
}

}  // namespace

Verdict CheckRequest(const Request& r, Problem& p)
{
    const std::vector<Named> tensors = {
        {"query", &r.query}, {"key", &r.key}, {"value", &r.value}, {"sparseIndices", &r.index}};
    p = Problem{};
    Verdict verdict = CheckKinds(r, tensors, p);
    if (!verdict.ok()) {
        return verdict;
    }
    const Axes axes = p.layout == kBSND ? Axes{1, 2} : Axes{2, 1};
    p.b = r.query.shape[0];
    p.s1 = r.query.shape[axes.sequence];
    p.n1 = r.query.shape[axes.head];
    p.dk = r.query.shape[3];
    p.s2 = r.key.shape[axes.sequence];
    p.n2 = r.key.shape[axes.head];
    p.dv = r.value.shape[3];
    p.topK = r.index.shape[3];
    p.causal = r.causal;
    p.writeLse = r.writeLse;
    p.valueIsKeyPrefix = r.valueIsKeyPrefix;
    p.scale = static_cast<float>(r.scale);
    verdict = CheckSizes(r, axes, tensors, p);
    if (!verdict.ok()) {
        return verdict;
    }
    for (const Named& t : tensors) {
        if (t.tensor->shape[3] > 1 && t.tensor->stride[3] != 1) {
            return ValueFault(std::string(t.name) + ": expected stride 1 in the last dimension, got " +
                              Str(t.tensor->stride[3]));
        }
    }
    p.query = ReadStrides(r.query, axes);
    p.key = ReadStrides(r.key, axes);
    p.value = ReadStrides(r.value, axes);
    p.index = ReadStrides(r.index, axes);
    return {};
}

Verdict CheckNpuLimits(const Problem& p)
{
    const struct {
        const char* source;
        const char* dim;
        int64_t got;
        int64_t limit;
    } limits[] = {
        {"query", "B", p.b, 64},       {"query", "S1", p.s1, 2048}, {"key", "S2", p.s2, 16384},
        {"query", "N1", p.n1, 256},    {"key", "N2", p.n2, 64},     {"sparseIndices", "topK", p.topK, 2048},
        {"query", "Dk", p.dk, 576},
    };
    for (const auto& limit : limits) {
        if (limit.got > limit.limit) {
            return ValueFault(std::string(limit.source) + ": expected " + limit.dim + " <= " + Str(limit.limit) +
                              " on the NPU, got " + Str(limit.got));
        }
    }
    return {};
}

}  // namespace asa
