// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels.h"

namespace cpu_twin::kernels {
namespace generic {
#include "kernels.inc"
}  // namespace generic
const Table& GenericTable() { return generic::kTable; }
}  // namespace cpu_twin::kernels

