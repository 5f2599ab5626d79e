// SPDX-License-Identifier: Apache-2.0
// Stands in for libascendcl and libnnopbase, as far as examples/aclnn_example.cpp and the aclnn entry that op_build.py writes
// call them. Device memory is host memory; the tiling is asked of the package that CANN would find, and its kernel runs in
// the CPU twin, which also fills outputs and workspace with NaN bytes first and checks the launch.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cpu_twin/machine/launch.h"
#include "fake_aclnn.h"

namespace fs = std::filesystem;

struct aclTensor {
    std::vector<int64_t> shape;
    aclDataType type;
    void* address;

    size_t Bytes() const
    {
        size_t bytes = type == ACL_FLOAT || type == ACL_INT32 ? 4 : 2;
        for (const int64_t size : shape) {
            bytes *= static_cast<size_t>(size);
        }
        return bytes;
    }
};

struct aclOpExecutor {
    std::vector<const aclTensor*> inputs;
    std::vector<const aclTensor*> outputs;
    gert::TilingContext context;
    fs::path package;
};

namespace {

constexpr aclnnStatus kBadParam = 161002;
constexpr aclnnStatus kNoPackage = 561107;
constexpr aclnnStatus kTilingFailed = 561002;
constexpr aclnnStatus kKernelFailed = 507015;
constexpr size_t kAlign = 512;

std::string g_message;

aclnnStatus Fail(aclnnStatus status, const std::string& words)
{
    g_message = words;
    return status;
}

// The packages in CANN's order.
std::vector<fs::path> Packages()
{
    std::vector<fs::path> folders;
    const char* custom = std::getenv("ASCEND_CUSTOM_OPP_PATH");
    std::istringstream paths(custom != nullptr ? custom : "");
    for (std::string one; std::getline(paths, one, ':');) {
        folders.emplace_back(one);
    }
    if (const char* opp = std::getenv("ASCEND_OPP_PATH")) {
        std::ifstream ini(fs::path(opp) / "vendors" / "config.ini");
        for (std::string line; std::getline(ini, line);) {
            std::istringstream vendors(line.compare(0, 14, "load_priority=") == 0 ? line.substr(14) : "");
            for (std::string one; std::getline(vendors, one, ',');) {
                folders.push_back(fs::path(opp) / "vendors" / one);
            }
        }
    }
    return folders;
}

// The definition of an operator in a package's tiling library, or nullptr.
ops::OpDef* Definition(const fs::path& package, const char* type)
{
    void* library = dlopen((package / "op_impl/ai_core/tbe/op_tiling/liboptiling.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return nullptr;
    }
    const auto definition = reinterpret_cast<ops::OpDef* (*)()>(dlsym(library, "fakeOpDefinition"));
    ops::OpDef* op = definition == nullptr ? nullptr : definition();
    return op != nullptr && op->type_ == type ? op : nullptr;
}

}  // namespace

aclnnStatus fakeAclnnPrepare(const char* type, const std::vector<const aclTensor*>& inputs,
                             const std::vector<gert::AttrValue>& attrs, const std::vector<const aclTensor*>& outputs,
                             uint64_t* workspaceSize, aclOpExecutor** executor)
{
    for (const fs::path& package : Packages()) {
        ops::OpDef* op = Definition(package, type);
        if (op == nullptr) {
            continue;
        }
        auto* prepared = new aclOpExecutor{inputs, outputs, {}, package};
        for (const aclTensor* tensor : inputs) {
            gert::StorageShape shape;
            shape.shape_.SetDimNum(tensor->shape.size());
            for (size_t i = 0; i < tensor->shape.size(); ++i) {
                shape.shape_.SetDim(i, tensor->shape[i]);
            }
            prepared->context.shapes.push_back(shape);
            gert::CompileTimeTensorDesc desc;
            desc.type_ = static_cast<ge::DataType>(tensor->type);
            prepared->context.descs.push_back(desc);
        }
        prepared->context.attrs.values_ = attrs;
        if (op->aicore_.tiling(&prepared->context) != ge::GRAPH_SUCCESS) {
            delete prepared;
            return Fail(kTilingFailed, "the tiling of " + package.string() + " refused");
        }
        *workspaceSize = prepared->context.workspaces.at(0);
        *executor = prepared;
        return 0;
    }
    return Fail(kNoPackage, std::string("no package has ") + type);
}

aclnnStatus fakeAclnnLaunch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream)
{
    const aclOpExecutor& run = *executor;
    const fs::path folder = run.package / "op_impl/ai_core/tbe/kernel/ascend910b/asa_sparse_flash_attention";
    void* library = dlopen((folder / "AsaSparseFlashAttention_0.o").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return Fail(kKernelFailed, dlerror());
    }
    using Kernel = void (*)(uint8_t*, uint8_t*, uint8_t*, uint8_t*, uint8_t*, uint8_t*, uint8_t*, uint8_t*);
    const auto kernel = reinterpret_cast<Kernel>(dlsym(library, "asa_sparse_flash_attention"));
    if (kernel == nullptr) {
        return Fail(kKernelFailed, dlerror());
    }
    std::vector<uint8_t> tiling(run.context.tiling.bytes_);
    std::vector<cpu_twin::Tensor> tensors;
    const auto add = [&tensors](const char* name, void* data, size_t bytes, cpu_twin::Use use) {
        if (bytes > 0) {
            tensors.push_back({name, data, bytes, use});
        }
        return static_cast<uint8_t*>(data);
    };
    std::vector<uint8_t*> in;
    for (const aclTensor* one : run.inputs) {
        in.push_back(add("input", one->address, one->Bytes(), cpu_twin::Use::In));
    }
    std::vector<uint8_t*> out;
    for (const aclTensor* one : run.outputs) {
        out.push_back(add("output", one->address, one->Bytes(), cpu_twin::Use::Out));
    }
    uint8_t* scratch = add("workspace", workspace, workspaceSize, cpu_twin::Use::Workspace);
    uint8_t* plan = add("tiling", tiling.data(), tiling.size(), cpu_twin::Use::In);
    const cpu_twin::Report report = cpu_twin::Launch(kernel, run.context.blockDim, cpu_twin::KernelType::MixAic1_2, tensors,
                                                     {}, in[0], in[1], in[2], in[3], out[0], out[1], scratch, plan);
    delete executor;
    return report.ok() ? 0 : Fail(kKernelFailed, report.Text());
}

aclError aclInit(const char*) { return 0; }
aclError aclFinalize() { return 0; }
const char* aclGetRecentErrMsg() { return g_message.c_str(); }
aclError aclrtSetDevice(int32_t) { return 0; }
aclError aclrtResetDevice(int32_t) { return 0; }
aclError aclrtCreateStream(aclrtStream* stream)
{
    *stream = std::malloc(1);
    return 0;
}
aclError aclrtDestroyStream(aclrtStream stream)
{
    std::free(stream);
    return 0;
}
aclError aclrtSynchronizeStream(aclrtStream) { return 0; }
aclError aclrtMalloc(void** address, size_t bytes, aclrtMemMallocPolicy)
{
    *address = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
    return *address == nullptr ? kBadParam : 0;
}
aclError aclrtFree(void* address)
{
    std::free(address);
    return 0;
}
aclError aclrtMemcpy(void* to, size_t capacity, const void* from, size_t bytes, aclrtMemcpyKind)
{
    if (bytes > capacity) {
        return kBadParam;
    }
    std::memcpy(to, from, bytes);
    return 0;
}
float aclFloat16ToFloat(aclFloat16 value)
{
    _Float16 half;
    std::memcpy(&half, &value, sizeof(half));
    return static_cast<float>(half);
}
aclFloat16 aclFloatToFloat16(float value)
{
    const auto half = static_cast<_Float16>(value);
    aclFloat16 bits;
    std::memcpy(&bits, &half, sizeof(bits));
    return bits;
}

aclTensor* aclCreateTensor(const int64_t* shape, uint64_t rank, aclDataType type, const int64_t* strides, int64_t offset,
                           aclFormat, const int64_t*, uint64_t, void* address)
{
    int64_t expected = 1;
    for (uint64_t i = rank; i-- > 0;) {
        if (strides[i] != expected || offset != 0) {
            return nullptr;  // the real one makes inputs contiguous; nothing here needs it
        }
        expected *= shape[i];
    }
    return new aclTensor{{shape, shape + rank}, type, address};
}
aclnnStatus aclDestroyTensor(const aclTensor* tensor)
{
    delete tensor;
    return 0;
}
