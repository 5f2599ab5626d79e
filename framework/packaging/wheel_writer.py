# SPDX-License-Identifier: Apache-2.0
"""Writes a wheel: a zip of files with METADATA, WHEEL and RECORD (packaging.python.org, "Binary distribution format").

Python's standard library is all it needs. A build on a machine without network cannot fetch a build backend, and the
one that happens to be installed may be too old; a wheel of known files needs neither.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

# Zip knows no time before 1980; a fixed one makes equal inputs give equal wheels.
_TIME = (1980, 1, 1, 0, 0, 0)


def platform_tag() -> str:
    """Tag of a wheel with compiled code that is bound to no Python version, e.g. py3-none-linux_x86_64."""
    return "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def package_files(package: Path, patterns: Iterable[str]) -> dict[str, Path]:
    """Archive name -> file, for the files of a package folder that match one of the glob patterns."""
    found = {path for pattern in patterns for path in package.rglob(pattern) if path.is_file()}
    return {str(path.relative_to(package.parent)): path for path in sorted(found)}


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, Path | bytes],
    *,
    tag: str = "py3-none-any",
    headers: Iterable[str] = (),
    description: str = "",
    entry_points: str = "",
    licenses: Mapping[str, Path] | None = None,
) -> Path:
    """Write folder/NAME-VERSION-TAG.whl.

    Args:
        name, version: of the distribution.
        files: archive name -> file on disk, or its bytes.
        tag: python-abi-platform.
        headers: further lines of METADATA ("Requires-Dist: torch").
        description: text of METADATA's body, Markdown.
        entry_points: text of entry_points.txt.
        licenses: name -> license file.

    Returns:
        The wheel's path.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *headers]
    metadata += [f"License-File: {license}" for license in licenses or {}]
    if description:
        metadata += ["Description-Content-Type: text/markdown", "", description]
    pure = "true" if tag.endswith("-any") else "false"
    contents: dict[str, bytes] = {
        archived: source if isinstance(source, bytes) else source.read_bytes() for archived, source in files.items()
    }
    contents[f"{info}/METADATA"] = ("\n".join(metadata) + "\n").encode()
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: ascend-sparse-attention\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    ).encode()
    if entry_points:
        contents[f"{info}/entry_points.txt"] = entry_points.encode()
    for license, path in (licenses or {}).items():
        contents[f"{info}/licenses/{license}"] = path.read_bytes()
    record = []
    for archived, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{archived},sha256={digest},{len(data)}")
    record.append(f"{info}/RECORD,,")
    contents[f"{info}/RECORD"] = ("\n".join(record) + "\n").encode()

    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-{tag}.whl"
    # Written aside first: a build that is interrupted leaves no half wheel under the final name.
    partial = wheel.with_suffix(".part")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for archived, data in contents.items():
            entry = zipfile.ZipInfo(archived, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if archived.endswith(".so") else 0o644) << 16
            archive.writestr(entry, data)
    partial.replace(wheel)
    return wheel


def main(argv: list[str]) -> None:
    """`wheel_writer.py PACKAGE_FOLDER VERSION OUT`: a pure-Python wheel of one package."""
    package, version, out = Path(argv[0]).resolve(), argv[1], Path(argv[2])
    print(write_wheel(out, package.name, version, package_files(package, ["*.py"])))


if __name__ == "__main__":
    main(sys.argv[1:])
