// SPDX-License-Identifier: Apache-2.0
// Stands in for CANN's header of this name: as much of ge, gert and ops as an operator's definition, shape rules and tiling
// use. Names and meanings are those of CANN's public interface; everything behind them is plain data that a test fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ge {
enum DataType : int32_t { DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT32 = 3, DT_INT64 = 9, DT_BF16 = 27 };
enum Format : int32_t { FORMAT_ND = 2 };
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
}  // namespace ge

namespace gert {

class Shape {
public:
    size_t GetDimNum() const { return dims_.size(); }
    int64_t GetDim(size_t i) const { return dims_.at(i); }
    void SetDim(size_t i, int64_t size) { dims_.at(i) = size; }
    void SetDimNum(size_t count) { dims_.resize(count); }

private:
    std::vector<int64_t> dims_;
};

class StorageShape {
public:
    const Shape& GetStorageShape() const { return shape_; }
    Shape shape_;
};

class CompileTimeTensorDesc {
public:
    ge::DataType GetDataType() const { return type_; }
    ge::DataType type_ = ge::DT_FLOAT;
};

using AttrValue = std::variant<float, std::string, bool>;

// Out of range or of another type: null, as CANN has it.
class RuntimeAttrs {
public:
    size_t GetAttrNum() const { return values_.size(); }
    const float* GetFloat(size_t i) const { return Get<float>(i); }
    const bool* GetBool(size_t i) const { return Get<bool>(i); }
    const char* GetStr(size_t i) const
    {
        const std::string* text = Get<std::string>(i);
        return text == nullptr ? nullptr : text->c_str();
    }
    std::vector<AttrValue> values_;

private:
    template <typename T>
    const T* Get(size_t i) const
    {
        return i < values_.size() ? std::get_if<T>(&values_[i]) : nullptr;
    }
};

class TilingData {
public:
    size_t GetCapacity() const { return bytes_.size(); }
    void* GetData() { return bytes_.data(); }
    void SetDataSize(size_t size) { size_ = size; }
    std::vector<uint8_t> bytes_ = std::vector<uint8_t>(4096);
    size_t size_ = 0;
};

// What every context of a node offers.
struct Node {
    std::vector<StorageShape> shapes;
    std::vector<CompileTimeTensorDesc> descs;
    RuntimeAttrs attrs;

    const CompileTimeTensorDesc* GetInputDesc(size_t i) const { return i < descs.size() ? &descs[i] : nullptr; }
    const RuntimeAttrs* GetAttrs() const { return &attrs; }
};

class TilingContext : public Node {
public:
    const StorageShape* GetInputShape(size_t i) const { return i < shapes.size() ? &shapes[i] : nullptr; }
    void* GetPlatformInfo() const { return nullptr; }
    TilingData* GetRawTilingData() { return &tiling; }
    size_t* GetWorkspaceSizes(size_t count)
    {
        workspaces.resize(count);
        return workspaces.data();
    }
    void SetTilingKey(uint64_t key) { tilingKey = key; }
    void SetBlockDim(uint32_t count) { blockDim = count; }
    uint32_t SetScheduleMode(uint32_t mode)
    {
        scheduleMode = mode;
        return 0;
    }

    TilingData tiling;
    std::vector<size_t> workspaces;
    uint64_t tilingKey = 0;
    uint32_t blockDim = 0;
    uint32_t scheduleMode = 0;
};

class InferShapeContext : public Node {
public:
    const Shape* GetInputShape(size_t i) const { return i < shapes.size() ? &shapes[i].shape_ : nullptr; }
    Shape* GetOutputShape(size_t i) { return i < outputs.size() ? &outputs[i] : nullptr; }
    std::vector<Shape> outputs = std::vector<Shape>(2);
};

class InferDataTypeContext : public Node {
public:
    ge::DataType GetInputDataType(size_t i) const { return descs.at(i).type_; }
    void SetOutputDataType(size_t i, ge::DataType type) { outputs.at(i) = type; }
    std::vector<ge::DataType> outputs = std::vector<ge::DataType>(2, ge::DT_INT64);
};

}  // namespace gert

namespace ops {

constexpr bool REQUIRED = true;
constexpr bool OPTIONAL = false;

struct OpParamDef {
    std::string name;
    bool required = true;
    std::vector<ge::DataType> types;
    bool contiguous = false;

    OpParamDef& ParamType(bool value) { return required = value, *this; }
    OpParamDef& DataType(const std::vector<ge::DataType>& values) { return types = values, *this; }
    OpParamDef& Format(const std::vector<ge::Format>&) { return *this; }
    OpParamDef& AutoContiguous() { return contiguous = true, *this; }
};

struct OpAttrDef {
    std::string name;
    std::string type;
    bool required = true;

    OpAttrDef& AttrType(bool value) { return required = value, *this; }
    OpAttrDef& Float() { return type = "float", *this; }
    OpAttrDef& String(const char*) { return type = "str", *this; }
    OpAttrDef& Bool(bool) { return type = "bool", *this; }
};

struct OpAICoreDef {
    std::vector<std::string> socs;
    ge::graphStatus (*tiling)(gert::TilingContext*) = nullptr;

    OpAICoreDef& SetTiling(ge::graphStatus (*function)(gert::TilingContext*)) { return tiling = function, *this; }
    OpAICoreDef& AddConfig(const char* soc) { return socs.push_back(soc), *this; }
};

class OpDef {
public:
    explicit OpDef(const char* type) : type_(type) {}
    OpParamDef& Input(const char* name) { return inputs_.push_back({name, true, {}, false}), inputs_.back(); }
    OpParamDef& Output(const char* name) { return outputs_.push_back({name, true, {}, false}), outputs_.back(); }
    OpAttrDef& Attr(const char* name) { return attrs_.push_back({name, "", true}), attrs_.back(); }
    OpDef& SetInferShape(ge::graphStatus (*function)(gert::InferShapeContext*)) { return inferShape_ = function, *this; }
    OpDef& SetInferDataType(ge::graphStatus (*function)(gert::InferDataTypeContext*))
    {
        return inferDataType_ = function, *this;
    }
    OpAICoreDef& AICore() { return aicore_; }

    std::string type_;
    std::vector<OpParamDef> inputs_;
    std::vector<OpParamDef> outputs_;
    std::vector<OpAttrDef> attrs_;
    OpAICoreDef aicore_;
    ge::graphStatus (*inferShape_)(gert::InferShapeContext*) = nullptr;
    ge::graphStatus (*inferDataType_)(gert::InferDataTypeContext*) = nullptr;
};

// The definitions of one library.
inline __attribute__((visibility("hidden"))) std::vector<OpDef*>& Definitions()
{
    static std::vector<OpDef*> all;
    return all;
}

struct Registration {
    explicit Registration(OpDef* definition) { Definitions().push_back(definition); }
};

}  // namespace ops

#define OP_ADD(type)                           \
    static ops::type g_definition_##type(#type); \
    static const ops::Registration g_registration_##type(&g_definition_##type)

// How the stand-ins for CANN's tools and runtime reach a library's definitions. One operator a library is enough here.
extern "C" inline __attribute__((used, visibility("default"))) ops::OpDef* fakeOpDefinition()
{
    return ops::Definitions().empty() ? nullptr : ops::Definitions().front();
}

// The same as text, a line each: "type NAME", "soc NAME", "input NAME", "attr NAME TYPE", "output NAME".
extern "C" inline __attribute__((used, visibility("default"))) const char* fakeOpText()
{
    static std::string text;
    text.clear();
    if (const ops::OpDef* op = fakeOpDefinition()) {
        text = "type " + op->type_ + "\n";
        for (const std::string& soc : op->aicore_.socs) {
            text += "soc " + soc + "\n";
        }
        for (const ops::OpParamDef& one : op->inputs_) {
            text += "input " + one.name + "\n";
        }
        for (const ops::OpAttrDef& one : op->attrs_) {
            text += "attr " + one.name + " " + one.type + "\n";
        }
        for (const ops::OpParamDef& one : op->outputs_) {
            text += "output " + one.name + "\n";
        }
    }
    return text.c_str();
}
