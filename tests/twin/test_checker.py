# SPDX-License-Identifier: Apache-2.0
"""Each rule of the checker, broken by a kernel right but for that; and the kernels it must not complain about."""

from __future__ import annotations

from collections.abc import Callable

TWIN_PROGRAM = "checker"


def test_checker(twin_case: Callable[[], None]) -> None:
    twin_case()
