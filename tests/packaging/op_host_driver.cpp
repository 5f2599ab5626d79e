// SPDX-License-Identifier: Apache-2.0
// Calls shape inference and tiling of a package's library the way CANN's framework does, through the stand-in headers:
//     op_host_driver LIBRARY DTYPE INDEX_DTYPE Q K V IDX ATTR...
// A shape is sizes with 'x' between them; an attribute is f:0.5, s:BSND or b:1. Prints "name value" lines.
#include <dlfcn.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "register/op_def_registry.h"

namespace {

gert::Shape ParseShape(const std::string& text)
{
    gert::Shape shape;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, 'x');) {
        shape.SetDimNum(shape.GetDimNum() + 1);
        shape.SetDim(shape.GetDimNum() - 1, std::stoll(part));
    }
    return shape;
}

gert::AttrValue ParseAttr(const std::string& text)
{
    const std::string value = text.substr(2);
    switch (text[0]) {
        case 'f': return std::stof(value);
        case 'b': return value == "1";
        default: return value;
    }
}

std::string Text(const gert::Shape& shape)
{
    std::string text;
    for (size_t i = 0; i < shape.GetDimNum(); ++i) {
        text += (i == 0 ? "" : "x") + std::to_string(shape.GetDim(i));
    }
    return text;
}

}  // namespace

int main(int count, char** words)
{
    if (count < 8) {
        return 2;
    }
    void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    const ops::OpDef* op = reinterpret_cast<ops::OpDef* (*)()>(dlsym(library, "fakeOpDefinition"))();
    gert::TilingContext tiling;
    gert::InferShapeContext shapes;
    gert::InferDataTypeContext types;
    for (int i = 0; i < 4; ++i) {
        gert::StorageShape shape;
        shape.shape_ = ParseShape(words[4 + i]);
        gert::CompileTimeTensorDesc desc;
        desc.type_ = static_cast<ge::DataType>(std::stoi(words[i == 3 ? 3 : 2]));
        for (gert::Node* node : {static_cast<gert::Node*>(&tiling), static_cast<gert::Node*>(&shapes),
                                 static_cast<gert::Node*>(&types)}) {
            node->shapes.push_back(shape);
            node->descs.push_back(desc);
        }
    }
    for (int i = 8; i < count; ++i) {
        tiling.attrs.values_.push_back(ParseAttr(words[i]));
    }
    shapes.attrs = tiling.attrs;
    std::printf("infer_shape %u\n", op->inferShape_(&shapes));
    std::printf("y %s\nlse %s\n", Text(shapes.outputs[0]).c_str(), Text(shapes.outputs[1]).c_str());
    std::printf("infer_dtype %u\n", op->inferDataType_(&types));
    std::printf("dtypes %d,%d\n", types.outputs[0], types.outputs[1]);
    std::printf("tiling %u\n", op->aicore_.tiling(&tiling));
    std::printf("key %llu\nblock_dim %u\nschedule_mode %u\n", static_cast<unsigned long long>(tiling.tilingKey),
                tiling.blockDim, tiling.scheduleMode);
    std::printf("workspace %zu\n", tiling.workspaces.empty() ? size_t(0) : tiling.workspaces[0]);
    std::printf("data ");
    for (size_t i = 0; i < tiling.tiling.size_; ++i) {
        std::printf("%02x", tiling.tiling.bytes_[i]);
    }
    std::printf("\n");
    return 0;
}
