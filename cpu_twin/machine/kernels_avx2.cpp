// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
namespace cpu_twin::kernels {
namespace avx2 {
#include "kernels.inc"
}  // namespace avx2
const Table& Avx2Table() { return avx2::kTable; }
}  // namespace cpu_twin::kernels
#endif
