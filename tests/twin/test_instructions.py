# SPDX-License-Identifier: Apache-2.0
"""Each instruction of the machine against a plain reference written from the public documents, over random parameters.

The references and their sources are in tests/twin/instructions.
"""

from __future__ import annotations

from collections.abc import Callable

TWIN_PROGRAM = "instructions"


def test_instruction(twin_case: Callable[[], None]) -> None:
    twin_case()
