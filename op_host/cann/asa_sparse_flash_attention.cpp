// SPDX-License-Identifier: Apache-2.0
// The operator AsaSparseFlashAttention for CANN: definition, shape inference and tiling. Checks and plan are op_host/tiling's;
// this file only translates. The type's name keeps it apart from CANN's built-in SparseFlashAttention.
#include <cstdio>
#include <cstring>
#include <string>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include "../tiling/tiling.h"

namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;
constexpr int kIndices = 3;
constexpr int kOutput = 0;
constexpr int kLse = 1;
constexpr int kScaleAttr = 0;
constexpr int kLayoutAttr = 1;
constexpr int kCausalAttr = 2;
constexpr int kLseAttr = 3;
constexpr uint32_t kBatchMode = 1;  // of TilingContext::SetScheduleMode
constexpr size_t kAttrNum = 4;
constexpr uint32_t kTypicalMhz = 1800;  // the plan compares schedules by cycles; the clock scales all of them alike

void Report(const char* stage, const std::string& message)
{
    // CANN's framework puts what an operator writes to stderr next to its own log.
    std::fprintf(stderr, "AsaSparseFlashAttention (%s): %s\n", stage, message.c_str());
}

std::string DtypeName(ge::DataType type)
{
    switch (type) {
        case ge::DT_FLOAT16: return "float16";
        case ge::DT_BF16: return "bfloat16";
        case ge::DT_INT32: return "int32";
        default: return "data type " + std::to_string(static_cast<int>(type));
    }
}

// CANN hands operators of this kind contiguous tensors.
asa::TensorDesc Describe(const gert::Shape& shape, ge::DataType type)
{
    asa::TensorDesc desc;
    desc.rank = static_cast<uint32_t>(shape.GetDimNum());
    desc.dtype = DtypeName(type);
    int64_t stride = 1;
    for (size_t i = shape.GetDimNum(); i-- > 0;) {
        if (i < desc.shape.size()) {
            desc.shape[i] = shape.GetDim(i);
            desc.stride[i] = stride;
        }
        stride *= shape.GetDim(i);
    }
    return desc;
}

// Works on the tiling and the shape inference context alike: both name shapes and attributes the same way.
template <typename Context, typename ShapeOf>
bool Read(Context* context, ShapeOf shapeOf, asa::Request& request)
{
    asa::TensorDesc* tensors[] = {&request.query, &request.key, &request.value, &request.index};
    for (int i = kQuery; i <= kIndices; ++i) {
        const auto* desc = context->GetInputDesc(static_cast<size_t>(i));
        const gert::Shape* shape = shapeOf(i);
        if (desc == nullptr || shape == nullptr) {
            return false;
        }
        *tensors[i] = Describe(*shape, desc->GetDataType());
    }
    const auto* attrs = context->GetAttrs();
    // A caller of another version has other attributes; reading them by number would give nonsense or crash.
    if (attrs == nullptr || attrs->GetAttrNum() != kAttrNum) {
        return false;
    }
    const float* scale = attrs->GetFloat(kScaleAttr);
    const char* layout = attrs->GetStr(kLayoutAttr);
    const bool* causal = attrs->GetBool(kCausalAttr);
    const bool* lse = attrs->GetBool(kLseAttr);
    if (scale == nullptr || layout == nullptr || causal == nullptr || lse == nullptr) {
        return false;
    }
    request.scale = *scale;
    request.layout = layout;
    request.causal = *causal;
    request.writeLse = *lse;
    return true;
}

ge::graphStatus Tiling(gert::TilingContext* context)
{
    asa::Request request;
    const auto shapeOf = [context](int i) -> const gert::Shape* {
        const auto* shape = context->GetInputShape(static_cast<size_t>(i));
        return shape == nullptr ? nullptr : &shape->GetStorageShape();
    };
    if (!Read(context, shapeOf, request)) {
        Report("tiling", "expected four inputs and four attributes, got others: operator package and caller differ in "
                         "version; install both from one build");
        return ge::GRAPH_FAILED;
    }
    asa::Problem problem;
    asa::Verdict verdict = asa::CheckRequest(request, problem);
    auto device = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    uint64_t l2 = 0;
    device.GetCoreMemSize(platform_ascendc::CoreMemType::L2, l2);
    const asa::Platform platform =
        asa::MakePlatform("this device", device.GetCoreNumAic(), device.GetCoreNumAiv(), kTypicalMhz, l2);
    asa::Launch launch;
    if (verdict.ok() && problem.Empty()) {
        Report("tiling", "B or S1 is 0: the output is empty and there is nothing to launch");
        return ge::GRAPH_FAILED;
    }
    if (verdict.ok()) {
        verdict = asa::PlanLaunch(problem, platform, asa::TilingOptions{}, launch);
    }
    if (!verdict.ok()) {
        Report("tiling", verdict.message);
        return ge::GRAPH_FAILED;
    }
    auto* raw = context->GetRawTilingData();
    size_t* workspaces = context->GetWorkspaceSizes(1);
    if (raw == nullptr || raw->GetCapacity() < sizeof(launch.tiling) || workspaces == nullptr) {
        Report("tiling", "expected room for " + std::to_string(sizeof(launch.tiling)) + " bytes of tiling data, got less");
        return ge::GRAPH_FAILED;
    }
    std::memcpy(raw->GetData(), &launch.tiling, sizeof(launch.tiling));
    raw->SetDataSize(sizeof(launch.tiling));
    workspaces[0] = device.GetLibApiWorkSpaceSize() + launch.workspaceBytes;
    context->SetTilingKey(launch.tilingKey);
    context->SetBlockDim(launch.tiling.coreNum);
    // All cores start together or none: cores that have met in SyncAll must not wait for cores that another stream's call
    // holds in a SyncAll of its own.
    context->SetScheduleMode(kBatchMode);
    return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferShape(gert::InferShapeContext* context)
{
    const gert::Shape* query = context->GetInputShape(kQuery);
    const gert::Shape* value = context->GetInputShape(kValue);
    gert::Shape* output = context->GetOutputShape(kOutput);
    const auto* attrs = context->GetAttrs();
    const bool* lseWanted = attrs == nullptr ? nullptr : attrs->GetBool(kLseAttr);
    if (query == nullptr || value == nullptr || output == nullptr || lseWanted == nullptr ||
        attrs->GetAttrNum() != kAttrNum) {
        Report("shapes", "expected four inputs and four attributes, got others: operator package and caller differ in "
                         "version; install both from one build");
        return ge::GRAPH_FAILED;
    }
    if (query->GetDimNum() != 4 || value->GetDimNum() != 4) {
        Report("shapes", "query, value: expected 4 dimensions, got " + std::to_string(query->GetDimNum()) + " and " +
                             std::to_string(value->GetDimNum()));
        return ge::GRAPH_FAILED;
    }
    *output = *query;
    output->SetDim(3, value->GetDim(3));
    gert::Shape* lse = context->GetOutputShape(kLse);
    if (lse != nullptr) {
        lse->SetDimNum(*lseWanted ? 3 : 1);
        for (size_t i = 0; *lseWanted && i < 3; ++i) {
            lse->SetDim(i, query->GetDim(i));
        }
        if (!*lseWanted) {
            lse->SetDim(0, 0);
        }
    }
    return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferDataType(gert::InferDataTypeContext* context)
{
    context->SetOutputDataType(kOutput, context->GetInputDataType(kQuery));
    context->SetOutputDataType(kLse, ge::DT_FLOAT);
    return ge::GRAPH_SUCCESS;
}

}  // namespace

namespace ops {

class AsaSparseFlashAttention : public OpDef {
public:
    explicit AsaSparseFlashAttention(const char* name) : OpDef(name)
    {
        for (const char* tensor : {"query", "key", "value"}) {
            this->Input(tensor)
                .ParamType(REQUIRED)
                .DataType({ge::DT_FLOAT16, ge::DT_BF16})
                .Format({ge::FORMAT_ND, ge::FORMAT_ND})
                .AutoContiguous();
        }
        this->Input("sparse_indices")
            .ParamType(REQUIRED)
            .DataType({ge::DT_INT32, ge::DT_INT32})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND})
            .AutoContiguous();
        this->Output("y")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT16, ge::DT_BF16})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Output("lse")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT, ge::DT_FLOAT})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Attr("scale_value").AttrType(REQUIRED).Float();
        this->Attr("input_layout").AttrType(OPTIONAL).String("BSND");
        this->Attr("is_causal").AttrType(OPTIONAL).Bool(false);
        this->Attr("return_lse").AttrType(OPTIONAL).Bool(false);
        this->SetInferShape(InferShape).SetInferDataType(InferDataType);
        this->AICore().SetTiling(Tiling);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};

OP_ADD(AsaSparseFlashAttention);

}  // namespace ops
