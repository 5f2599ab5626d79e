# SPDX-License-Identifier: Apache-2.0
"""Packs what CMake built into the two wheels: `build_wheels.py BUILD_FOLDER OUT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from wheel_writer import package_files, platform_tag, write_wheel

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def libraries(build: Path, *names: str) -> dict[str, Path]:
    """File name -> path of those of the libraries and fact files that were built."""
    folders = (build / "framework" / "torch", build / "framework" / "launch", build / "framework" / "twin")
    in_tree = ROOT / "python" / "ascend_sparse_attention" / "lib"
    found = {}
    for name in names:
        for folder in (*folders, in_tree):
            if (folder / name).is_file():
                found[name] = folder / name
                break
    return found


def own_headers(project: dict[str, Any]) -> list[str]:
    lines = [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"License-Expression: {project['license']}"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    for extra, needs in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one}; extra == "{extra}"' for one in needs]
    return lines


def main(argv: list[str]) -> None:
    build, out = Path(argv[0]).resolve(), Path(argv[1])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    licenses = {"LICENSE": ROOT / "LICENSE"}
    kernel = "libasa_kernel.so"

    files: dict[str, Path | bytes] = dict(package_files(ROOT / "python" / "cann_bench", ["*.py"]))
    parts = libraries(build, "libcann_bench.so", "libcann_bench.json", kernel)
    for name in ("libcann_bench.so", "libcann_bench.json"):
        if name not in parts:
            sys.exit(f"build_wheels: expected {name} in {build}, got none")
    files.update({f"cann_bench/lib/{name}": path for name, path in parts.items()})
    summary = "Summary: sparse_flash_attention for cann-bench"
    print(write_wheel(
        out, "cann_bench", project["version"], files, tag=platform_tag(), headers=[summary], licenses=licenses
    ))  # fmt: skip

    package = ROOT / "python" / "ascend_sparse_attention"
    files = dict(package_files(package, ["*.py", "py.typed", "cases/*.yaml"]))
    parts = libraries(build, "libasa_torch_npu.so", "libasa_torch_npu.json", kernel)
    if "libasa_torch_npu.so" not in parts:
        parts = libraries(build, "libasa_twin.so")
    files.update({f"ascend_sparse_attention/lib/{name}": path for name, path in parts.items()})
    scripts = "".join(f"{name} = {target}\n" for name, target in project.get("scripts", {}).items())
    print(write_wheel(
        out, "ascend_sparse_attention", project["version"], files, tag=platform_tag(), headers=own_headers(project),
        description=(ROOT / "README.md").read_text(), entry_points=f"[console_scripts]\n{scripts}", licenses=licenses,
    ))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
