// SPDX-License-Identifier: Apache-2.0
#include "sfa_call.h"

#include <cstdint>
#include <cstring>
#include <sstream>
#include <unordered_map>

#include <ATen/ops/empty.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>

namespace asa::torch_op {
namespace {

std::string DtypeName(at::ScalarType type)
{
    switch (type) {
        case at::kHalf: return "float16";
        case at::kBFloat16: return "bfloat16";
        case at::kFloat: return "float32";
        case at::kDouble: return "float64";
        case at::kInt: return "int32";
        case at::kLong: return "int64";
        case at::kShort: return "int16";
        case at::kChar: return "int8";
        case at::kByte: return "uint8";
        case at::kBool: return "bool";
        default: {
            std::string name = c10::toString(type);
            for (char& letter : name) {
                letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
            }
            return name;
        }
    }
}

// torch.sparse_coo, as Python prints it.
std::string LayoutName(at::Layout layout)
{
    std::ostringstream text;
    text << layout;
    std::string name = text.str();
    for (char& letter : name) {
        letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    return "torch." + (name == "sparse" ? "sparse_coo" : name.substr(0, 6) == "sparse" ? "sparse_" + name.substr(6) : name);
}

TensorDesc Describe(const at::Tensor& tensor)
{
    TensorDesc desc;
    desc.dtype = DtypeName(tensor.scalar_type());
    desc.rank = static_cast<uint32_t>(tensor.dim());
    for (size_t i = 0; i < desc.shape.size() && i < static_cast<size_t>(tensor.dim()); ++i) {
        desc.shape[i] = tensor.size(static_cast<int64_t>(i));
        desc.stride[i] = tensor.stride(static_cast<int64_t>(i));
    }
    return desc;
}

// Whether value is key[..., :Dv] in memory: one read then serves both. Equal contents elsewhere do not count.
bool SamePrefix(const at::Tensor& value, const at::Tensor& key)
{
    return value.dim() == key.dim() && value.is_alias_of(key) && value.storage_offset() == key.storage_offset() &&
           value.strides() == key.strides() && value.scalar_type() == key.scalar_type();
}

void Raise(const char* op, const Verdict& verdict)
{
    if (verdict.fault == Fault::kType) {
        TORCH_CHECK_TYPE(false, op, ": ", verdict.message);
    }
    if (verdict.fault == Fault::kValue) {
        TORCH_CHECK_VALUE(false, op, ": ", verdict.message);
    }
}

// Problem as bytes. It is rebuilt field by field because padding holds whatever was there before.
std::string Key(const Problem& p, const std::string& device)
{
    std::string key = device;
    const auto add = [&key](const auto& field) {
        key.append(reinterpret_cast<const char*>(&field), sizeof(field));
    };
    for (const int64_t size : {p.b, p.s1, p.s2, p.n1, p.n2, p.dk, p.dv, p.topK}) {
        add(size);
    }
    for (const Strides* strides : {&p.query, &p.key, &p.value, &p.index}) {
        add(strides->b);
        add(strides->s);
        add(strides->n);
    }
    add(p.layout);
    add(p.dtype);
    add(p.scale);
    key.push_back(static_cast<char>(p.causal | p.writeLse << 1 | p.valueIsKeyPrefix << 2));
    return key;
}

}  // namespace

Problem CheckCall(const Call& call)
{
    const struct {
        const char* name;
        const at::Tensor& tensor;
    } tensors[] = {
        {"query", call.query}, {"key", call.key}, {"value", call.value}, {"sparseIndices", call.sparseIndices}};
    for (const auto& [name, tensor] : tensors) {
        TORCH_CHECK_TYPE(tensor.layout() == at::kStrided, call.op, ": ", name, ": expected a strided tensor, got ",
                         LayoutName(tensor.layout()));
        TORCH_CHECK_VALUE(tensor.device() == call.query.device(), call.op, ": ", name, ": expected device ",
                          call.query.device(), " (query's), got ", tensor.device());
    }
    Request request;
    request.query = Describe(call.query);
    request.key = Describe(call.key);
    request.value = Describe(call.value);
    request.index = Describe(call.sparseIndices);
    request.scale = call.scale;
    request.layout = std::string(call.layout);
    request.causal = call.causal;
    request.writeLse = call.writeLse;
    request.valueIsKeyPrefix = call.valueByContract || SamePrefix(call.value, call.key);
    Problem problem;
    Raise(call.op, CheckRequest(request, problem));
    return problem;
}

std::tuple<at::Tensor, at::Tensor> EmptyOutputs(const Call& call, const Problem& p)
{
    const bool bsnd = p.layout == kBSND;
    const int64_t second = bsnd ? p.s1 : p.n1;
    const int64_t third = bsnd ? p.n1 : p.s1;
    at::Tensor output = at::empty({p.b, second, third, p.dv}, call.query.options());
    at::Tensor lse;
    if (p.writeLse) {
        lse = at::empty({p.b, second, third}, call.query.options().dtype(at::kFloat));
    }
    return {output, lse};
}

Launch Plan(const char* op, const Problem& problem, const std::string& device)
{
    // Per thread, so that no call waits for another; shapes of a model are few.
    constexpr size_t kRemembered = 256;
    thread_local std::unordered_map<std::string, Launch> plans;
    std::string key = Key(problem, device);
    const auto found = plans.find(key);
    if (found != plans.end()) {
        return found->second;
    }
    Raise(op, CheckNpuLimits(problem));
    const Platform* platform = FindPlatform(device);
    if (platform == nullptr) {
        std::string known;
        for (const std::string& name : PlatformNames()) {
            known += (known.empty() ? "" : ", ") + name;
        }
        TORCH_CHECK(false, op, ": expected a device of ", known, ", got ", device);
    }
    Launch launch;
    Raise(op, PlanLaunch(problem, *platform, TilingOptions{}, launch));
    if (plans.size() >= kRemembered) {
        plans.clear();
    }
    plans.emplace(std::move(key), launch);
    return launch;
}

}  // namespace asa::torch_op
