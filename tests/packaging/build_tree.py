# SPDX-License-Identifier: Apache-2.0
"""What tests of the build share: a copy of the tree to build in, and the toolkit that stands in for CANN."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLKIT = Path(__file__).parent / "fake_toolkit"

#: What build.sh reads.
_PARTS = "build.sh CMakeLists.txt pyproject.toml LICENSE README.md cpu_twin framework op_host op_kernel python".split()


def copy_tree(target: Path) -> Path:
    """The sources as in a clean clone: no build tree, no library."""
    target.mkdir(parents=True)
    for part in _PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("*.so", "__pycache__", "tests"))
        else:
            shutil.copy(ROOT / part, target / part)
    return target


def run_build(
    tree: Path, *arguments: str, toolkit: Path | None = None, link: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """`bash build.sh` in a tree, with nothing of a real CANN in its environment."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "ASA_"))}
    if toolkit is not None:
        clean["ASCEND_HOME_PATH"] = str(toolkit)
        clean["ASA_TWIN_INCLUDE"] = str(ROOT / "cpu_twin" / "include")
        clean["ASA_FAKE_BISHENG_LOG"] = str(tree / "bisheng.log")
        clean["ASA_FAKE_BISHENG_LINK"] = link
    return subprocess.run(
        ["bash", str(tree / "build.sh"), *arguments],
        env={**clean, "PYTHON": sys.executable, **env},
        capture_output=True,
        text=True,
    )


def bisheng_lines(tree: Path) -> list[list[str]]:
    """The command lines that the compiler of the stand-in was called with."""
    return [line.split() for line in (tree / "bisheng.log").read_text().splitlines()]
