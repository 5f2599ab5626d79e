// SPDX-License-Identifier: Apache-2.0
// Ascend C's basic API for dav-2201, over the machine of the CPU twin. Names, parameter order, defaults and units are
// the public documentation's; what the twin does not model is not declared here, so that it does not compile.
//
// Every function takes one more, defaulted, parameter than the documented one: the source line of the call, by which
// findings and traces name the kernel's own code.
#pragma once

#include "ascendc/base.h"             // IWYU pragma: export
#include "ascendc/params.h"           // IWYU pragma: export
#include "ascendc/tensor.h"           // IWYU pragma: export
#include "ascendc/system.h"           // IWYU pragma: export
#include "ascendc/sync.h"             // IWYU pragma: export
#include "ascendc/tpipe.h"            // IWYU pragma: export
#include "ascendc/data_copy.h"        // IWYU pragma: export
#include "ascendc/cube.h"             // IWYU pragma: export
#include "ascendc/vector_math.h"      // IWYU pragma: export
#include "ascendc/vector_cast.h"      // IWYU pragma: export
#include "ascendc/vector_select.h"    // IWYU pragma: export
#include "ascendc/vector_reduce.h"    // IWYU pragma: export
#include "ascendc/vector_data.h"      // IWYU pragma: export
#include "ascendc/vector_sort.h"      // IWYU pragma: export

#undef TWIN_SITE
