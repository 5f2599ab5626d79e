# SPDX-License-Identifier: Apache-2.0
"""Makes the operator package, a self-extracting archive: `run_package.py VENDOR_FOLDER SOC OUT.run`.

VENDOR_FOLDER is what CANN's operator-project functions staged (op_impl, op_proto, op_api). CANN's own packer is not
used: its installer copies file by file and goes on after some errors, and a half-replaced operator is worse than none.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import re
import sys
import tarfile
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
OP_TYPE = "AsaSparseFlashAttention"

#: What CANN looks for in a vendor's folder, {machine} and {soc} filled in.
REQUIRED = (
    "op_api/include/aclnn_asa_sparse_flash_attention.h",
    "op_api/include/asa_operator_package.h",
    "op_api/lib/libcust_opapi.so",
    "op_proto/lib/linux/{machine}/libcust_opsproto_rt2.0.so",
    "op_impl/ai_core/tbe/op_tiling/lib/linux/{machine}/libcust_opmaster_rt2.0.so",
    "op_impl/ai_core/tbe/op_tiling/liboptiling.so",
    "op_impl/ai_core/tbe/config/{soc}/aic-{soc}-ops-info.json",
    "op_impl/ai_core/tbe/kernel/{soc}/**/*.o",
    "op_impl/ai_core/tbe/kernel/{soc}/**/*.json",
)


def check(vendor: Path, soc: str) -> None:
    """Every file CANN needs is there, and the operator is listed under its own name."""
    machine = platform.machine()
    missing = [one for want in REQUIRED if not any(vendor.glob(one := want.format(machine=machine, soc=soc)))]
    if missing:
        sys.exit(f"run_package: expected in {vendor}: {', '.join(missing)}; got none")
    info = (vendor / f"op_impl/ai_core/tbe/config/{soc}/aic-{soc}-ops-info.json").read_text(encoding="utf-8")
    if f'"{OP_TYPE}"' not in info:
        sys.exit(f"run_package: expected {OP_TYPE} in aic-{soc}-ops-info.json, got {info[:200]}")


def version_info(vendor: Path, version: str, soc: str) -> bytes:
    """CANN's version.info with ours behind it."""
    theirs = (vendor / "version.info").read_text(encoding="utf-8") if (vendor / "version.info").is_file() else ""
    header = (ROOT / "op_kernel" / "tiling_data.h").read_text(encoding="utf-8")
    (tiling,) = re.findall(r"kTilingVersion = (\d+);", header)
    kept = [line for line in theirs.splitlines() if line and not line.startswith("asa_")]
    return "\n".join([*kept, f"asa_version={version}", f"asa_tiling_version={tiling}", f"asa_soc={soc}", ""]).encode()


def archive(vendor: Path, extra: dict[str, bytes]) -> bytes:
    """A tar.gz of the folder; equal contents give equal bytes."""
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        entries: dict[str, Path | bytes] = {str(p.relative_to(vendor)): p for p in vendor.rglob("*") if not p.is_dir()}
        entries.update(extra)
        for name, source in sorted(entries.items()):
            entry = tarfile.TarInfo(name)
            if isinstance(source, Path) and source.is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, str(source.readlink())
                tar.addfile(entry)
                continue
            data = source.read_bytes() if isinstance(source, Path) else source
            entry.size = len(data)
            entry.mode = 0o755 if name.endswith(".so") else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return raw.getvalue()


def head(**facts: str) -> bytes:
    """The installer with the facts filled in; the archive's offset is its own length."""
    text = Path(__file__).with_name("install_operator_package.sh").read_text(encoding="utf-8")
    for name, value in facts.items():
        text = text.replace(f"@{name}@", value)
    # As many digits as the placeholder has letters: filling it in does not move the archive.
    return text.replace("@OFFSET@", f"{len(text.encode()):08d}").encode()


def main(argv: list[str]) -> None:
    vendor, soc, out = Path(argv[0]), argv[1], Path(argv[2])
    check(vendor, soc)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    ours = {"version.info": version_info(vendor, version, soc), "LICENSE": (ROOT / "LICENSE").read_bytes()}
    payload = archive(vendor, ours)
    digest = hashlib.sha256(payload).hexdigest()
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_suffix(".part")
    partial.write_bytes(head(VERSION=version, SOC=soc, MACHINE=platform.machine(), SHA256=digest) + payload)
    partial.chmod(0o755)
    partial.replace(out)
    print(out)


if __name__ == "__main__":
    main(sys.argv[1:])
