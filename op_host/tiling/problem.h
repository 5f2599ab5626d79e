// SPDX-License-Identifier: Apache-2.0
// What a caller asks for, in terms that Python, torch and CANN callers can all fill in, and the sizes read from it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "../../op_kernel/tiling_data.h"

namespace asa {

// A tensor as its owner describes it. dtype by torch's name ("float16"); strides in elements.
struct TensorDesc {
    uint32_t rank = 0;
    std::string dtype;
    std::array<int64_t, 8> shape{};
    std::array<int64_t, 8> stride{};
};

struct Request {
    TensorDesc query;
    TensorDesc key;
    TensorDesc value;
    TensorDesc index;
    double scale = 1.0;
    std::string layout = "BSND";
    bool causal = false;
    bool writeLse = false;
    // The caller knows that value equals key[..., :Dv]: same memory and strides, or a contract that says so.
    bool valueIsKeyPrefix = false;
};

// Sizes of a checked request, as the operator description names them.
struct Problem {
    int64_t b = 0;
    int64_t s1 = 0;
    int64_t s2 = 0;
    int64_t n1 = 0;
    int64_t n2 = 0;
    int64_t dk = 0;
    int64_t dv = 0;
    int64_t topK = 0;
    Layout layout = kBSND;
    DataType dtype = kFloat16;
    bool causal = false;
    bool writeLse = false;
    bool valueIsKeyPrefix = false;
    float scale = 1.0F;
    Strides query{};
    Strides key{};
    Strides value{};
    Strides index{};

    int64_t G() const { return n1 / n2; }
    bool Empty() const { return b == 0 || s1 == 0; }
};

}  // namespace asa
