# SPDX-License-Identifier: Apache-2.0
"""Packs what CMake built into the two wheels: `build_wheels.py BUILD_FOLDER OUT KIND`, KIND "twin" or a SoC.

Every library comes from the build folder: one that lies in the source tree may be of another day or of another kind.
"""

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


#: Folders of a build tree in which libraries lie.
_BUILT_IN = ("framework/torch", "framework/launch", "framework/twin")

#: What each wheel holds beside its Python files.
_CANN_BENCH = {
    "twin": ("libcann_bench.so", "libcann_bench.json"),
    "npu": ("libcann_bench.so", "libcann_bench.json", "libasa_kernel.so"),
}
_OWN = {
    "twin": ("libasa_twin.so",),
    "npu": ("libasa_torch_npu.so", "libasa_torch_npu.json", "libasa_kernel.so"),
}


def libraries(build: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """File name -> path, for every one of the names; a missing one ends the build."""
    found = {}
    for name in names:
        paths = [build / folder / name for folder in _BUILT_IN if (build / folder / name).is_file()]
        if len(paths) != 1:
            got = ", ".join(str(path.relative_to(build)) for path in paths) or "none"
            sys.exit(f"build_wheels: expected one {name} in {build}, got {got}")
        found[name] = paths[0]
    return found


def own_headers(project: dict[str, Any]) -> list[str]:
    lines = [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"License-Expression: {project['license']}"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    for extra, needs in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        for one in needs:
            what, _, marker = (part.strip() for part in one.partition(";"))
            both = f'({marker}) and extra == "{extra}"' if marker else f'extra == "{extra}"'
            lines.append(f"Requires-Dist: {what}; {both}")
    return lines


def main(argv: list[str]) -> None:
    build, out, kind = Path(argv[0]).resolve(), Path(argv[1]), "twin" if argv[2] == "twin" else "npu"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licenses = {"LICENSE": ROOT / "LICENSE"}
    # All of them are looked up before a wheel is written: a build that lacks one leaves none behind.
    bench_libraries = libraries(build, _CANN_BENCH[kind])
    own_libraries = libraries(build, _OWN[kind])

    files: dict[str, Path | bytes] = dict(package_files(ROOT / "python" / "cann_bench", ["*.py"]))
    files.update({f"cann_bench/lib/{name}": path for name, path in bench_libraries.items()})
    summary = "Summary: sparse_flash_attention for cann-bench"
    print(write_wheel(
        out, "cann_bench", project["version"], files, tag=platform_tag(), headers=[summary], licenses=licenses
    ))  # fmt: skip

    package = ROOT / "python" / "ascend_sparse_attention"
    files = dict(package_files(package, ["*.py", "py.typed", "cases/*.yaml"]))
    files["ascend_sparse_attention_cli.py"] = package.parent / "ascend_sparse_attention_cli.py"
    files.update({f"ascend_sparse_attention/lib/{name}": path for name, path in own_libraries.items()})
    scripts = "".join(f"{name} = {target}\n" for name, target in project.get("scripts", {}).items())
    print(write_wheel(
        out, "ascend_sparse_attention", project["version"], files, tag=platform_tag(), headers=own_headers(project),
        description=(ROOT / "README.md").read_text(encoding="utf-8"), entry_points=f"[console_scripts]\n{scripts}",
        licenses=licenses,
    ))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
