# SPDX-License-Identifier: Apache-2.0
"""The API layer over the machine: parameters and units, queues, refusals. The cases are the kernels in *_cases.cpp."""

from __future__ import annotations

from collections.abc import Callable

TWIN_PROGRAM = "api"


def test_api(twin_case: Callable[[], None]) -> None:
    twin_case()
