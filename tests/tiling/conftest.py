# SPDX-License-Identifier: Apache-2.0
"""The native library, built from this checkout before the first test that needs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def native_library():
    if "ASA_TWIN_LIBRARY" in os.environ:
        return
    build = _ROOT / "build" / "twin"
    subprocess.run(
        ["cmake", "-S", _ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release"], check=True, stdout=subprocess.DEVNULL
    )
    subprocess.run(
        ["cmake", "--build", build, "--target", "asa_twin", "-j", "2"], check=True, stdout=subprocess.DEVNULL
    )
