# SPDX-License-Identifier: Apache-2.0
"""The API layer over the machine: parameters and units, queues, refusals. The cases are C++ kernels, see *_cases.cpp."""

TWIN_PROGRAM = "api"


def test_api(twin_case) -> None:
    twin_case()
