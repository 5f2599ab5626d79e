# SPDX-License-Identifier: Apache-2.0
"""`sfa env`: what is installed, what works, what is missing, and whether the versions fit together."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .console import UsageError, output_console

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Finding:
    """One line of the report. `state`: ok, missing (not here, which may be fine) or problem (does not fit)."""

    what: str
    value: str
    state: str = "ok"
    hint: str = ""


def register(app: typer.Typer) -> None:
    app.command("env")(env)


def env(json: Annotated[Path | None, typer.Option(help="Write the findings as JSON.")] = None) -> None:
    """Say what is installed, what works, what is missing and whether the versions fit together."""
    from rich.table import Table
    from rich.text import Text

    from ..precision import report

    try:
        report.check_outputs({"--json": json})
    except report.ReportError as error:
        raise UsageError(str(error)) from error
    findings = [*versions(), *backends_here(), *auto_takes(), *fit()]
    styles = {"ok": "green", "missing": "yellow", "problem": "bold red"}
    table = Table(header_style="bold", pad_edge=False)
    for name in ("what", "found", "state", "note"):
        table.add_column(name)
    for finding in findings:
        table.add_row(
            Text(finding.what),
            Text(finding.value),
            Text(finding.state, style=styles[finding.state]),
            Text(finding.hint),
        )
    console = output_console(json)
    console.print(table)
    problems = [finding for finding in findings if finding.state == "problem"]
    if problems:
        console.print(
            f"{len(problems)} problem(s): " + "; ".join(p.hint or p.value for p in problems), style="red", markup=False
        )
    else:
        console.print("What is installed fits together as far as can be told here.", style="green")
    if json is not None:
        try:
            report.write_atomically(
                json, report.to_json({"version": 1, "findings": [asdict(finding) for finding in findings]})
            )
        except report.ReportError as error:
            raise UsageError(str(error)) from error
    raise typer.Exit(1 if problems else 0)


# --- versions --------------------------------------------------------------------------------------------------------


def versions() -> list[Finding]:
    """Everything with a version, present or not."""
    from .. import __version__

    found = [
        Finding("ascend-sparse-attention", __version__),
        Finding("Python", f"{platform.python_version()} ({platform.machine()}, {platform.system()})"),
    ]
    for name in ("torch", "numpy", "torch_npu"):
        found.append(_distribution(name))
    found.append(_cann())
    found.append(_npu_driver())
    found.append(_gpu())
    for tool, pattern, hint in (
        ("g++", r"(\d+\.\d+\.\d+)", "needed for the CPU twin"),
        ("cmake", r"version (\S+)", "needed for the CPU twin and the operator library"),
        ("nvcc", r"release (\S+),", "needed to build CUDA kernels"),
        ("bisheng", r"version (\S+)", "CANN's compiler for Ascend C"),
    ):
        found.append(_tool(tool, pattern, hint))
    return found


def _distribution(name: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        hint = "needed on an NPU; not on CPU or CUDA" if name == "torch_npu" else "required"
        return Finding(name, "not installed", "missing" if name == "torch_npu" else "problem", hint)


def cann_home() -> Path | None:
    """Folder of the CANN toolkit: what the environment says, else the usual places."""
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    for usual in ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann"):
        if Path(usual).is_dir():
            return Path(usual)
    return None


def _cann() -> Finding:
    home = cann_home()
    if home is None:
        return Finding("CANN", "not found", "missing", "no ASCEND_HOME_PATH and nothing in /usr/local/Ascend")
    if not home.is_dir():
        return Finding("CANN", str(home), "problem", f"ASCEND_HOME_PATH names {home}, which is no folder")
    version = cann_version(home)
    if version is None:
        return Finding("CANN", str(home), "problem", f"{home} holds no version file: not a CANN toolkit?")
    return Finding("CANN", f"{version} ({home})")


def cann_version(home: Path) -> str | None:
    """Version of a CANN toolkit, as its install or version files say it."""
    for pattern in ("*/ascend_toolkit_install.info", "version.cfg", "version.info", "compiler/version.info"):
        for file in sorted(home.glob(pattern)):
            version = _version_in(file)
            if version is not None:
                return version
    return None


def _version_in(file: Path) -> str | None:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"(?im)^\s*(?:version|runtime_running_version|package_version)\s*=\s*\[?([^\s\]:]+)", text)
    return match.group(1) if match else None


def _npu_driver() -> Finding:
    version = _version_in(Path("/usr/local/Ascend/driver/version.info"))
    devices = sorted(Path("/dev").glob("davinci[0-9]*"))
    if version is None and not devices:
        return Finding("NPU driver", "not found", "missing", "no /dev/davinci*: no Ascend NPU here")
    return Finding("NPU driver", f"{version or 'unknown version'}, {len(devices)} device(s)")


def _gpu() -> Finding:
    import torch

    if torch.version.cuda is None:
        return Finding("GPU", "not usable", "missing", "this torch is built without CUDA")
    if not torch.cuda.is_available():
        return Finding("GPU", "none found", "missing", f"torch is built for CUDA {torch.version.cuda}")
    names = [
        f"{torch.cuda.get_device_name(i)} (sm_{''.join(map(str, torch.cuda.get_device_capability(i)))})"
        for i in range(torch.cuda.device_count())
    ]
    driver = _output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    return Finding("GPU", f"{', '.join(names)}, driver {driver.splitlines()[0] if driver else 'unknown'}")


def _tool(name: str, pattern: str, hint: str) -> Finding:
    text = _output([name, "--version"])
    if text is None:
        return Finding(name, "not found", "missing", hint)
    match = re.search(pattern, text)
    return Finding(name, match.group(1) if match else text.splitlines()[0])


def _output(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


# --- what works ------------------------------------------------------------------------------------------------------


def backends_here() -> list[Finding]:
    """Each backend: usable, or what it lacks, and what `auto` would take."""
    from .. import backends
    from ..precision.runner import UnusableError, device_of

    found = []
    for name in backends.NAMES:
        if name == "auto":
            continue
        found.append(_probe(name))
    try:
        found.append(Finding("backend auto", f"takes {device_of('auto').type}"))
    except UnusableError as error:
        found.append(Finding("backend auto", "unusable", "problem", str(error)))
    return found


def _probe(name: str) -> Finding:
    from .. import backends

    what = f"backend {name}"
    try:
        why = backends.load(name).missing()
    except ImportError as error:
        return Finding(what, "unusable", "missing", f"not part of this installation: {error}")
    # A half-installed driver or runtime may raise anything at all here, and env is there to say so.
    except Exception as error:
        return Finding(what, "unusable", "problem", f"{type(error).__name__}: {error}")
    return Finding(what, "usable") if why is None else Finding(what, "unusable", "missing", why)


#: Entry points of the package, and whether each is of the FlashInfer-compatible API.
ENTRY_POINTS = (
    ("sparse_flash_attention", False),
    ("BlockSparseAttentionWrapper", True),
    ("VariableBlockSparseAttentionWrapper", True),
    ("single_prefill_with_kv_cache", True),
)


def auto_takes() -> list[Finding]:
    """What `auto` takes for each entry point, by the device of the tensors."""
    from .. import backends

    found = []
    for entry, block in ENTRY_POINTS:
        takes = []
        for kind in ("cpu", "cuda", "npu"):
            # torch knows the device type npu only where torch_npu is installed; resolving reads the type alone.
            device = cast("torch.device", SimpleNamespace(type=kind))
            try:
                if block:
                    chosen: backends.Backend = backends.resolve_block("auto", device, entry, "device")
                else:
                    chosen = backends.resolve("auto", device)
                takes.append(f"{kind} tensors: {chosen.name}")
            # As in _probe.
            except Exception as error:
                takes.append(f"{kind} tensors: refused, {error}")
        found.append(Finding(f"auto for {entry}", "\n".join(takes)))
    return found


# --- do the versions fit ---------------------------------------------------------------------------------------------


def fit() -> list[Finding]:
    """Rules between versions that can be checked without a device."""
    found = []
    python = sys.version_info
    if not (3, 10) <= python[:2] <= (3, 13):
        found.append(Finding("Python fits", platform.python_version(), "problem", "Python: expected 3.10 to 3.13"))
    torch_version = _version("torch")
    if torch_version is not None and _numbers(torch_version)[:2] < (2, 9):
        found.append(Finding("torch fits", torch_version, "problem", "torch: expected 2.9 or later"))
    npu_version = _version("torch_npu")
    if torch_version is not None and npu_version is not None:
        found.append(torch_npu_fit(torch_version, npu_version))
        home = cann_home()
        found.append(torch_npu_cann_fit(npu_version, cann_version(home) if home is not None else None))
    nvcc = _output(["nvcc", "--version"])
    match = re.search(r"release (\S+),", nvcc) if nvcc else None
    if match is not None:
        import torch

        if torch.version.cuda is not None:
            found.append(nvcc_fit(torch.version.cuda, match.group(1)))
    return found


def torch_npu_fit(torch_version: str, npu_version: str) -> Finding:
    """torch_npu is built against one torch: their first three numbers must agree."""
    same = _numbers(torch_version)[:3] == _numbers(npu_version)[:3]
    value = f"{torch_version} and {npu_version}"
    if same:
        return Finding("torch and torch_npu", value)
    wanted = ".".join(map(str, _numbers(npu_version)[:3]))
    return Finding("torch and torch_npu", value, "problem", f"torch_npu {npu_version} needs torch {wanted}")


#: CANN that each torch_npu was released with, from the version table of torch_npu's README.
TORCH_NPU_CANN = {
    "2.7.1": "8.3.RC1",
    "2.7.1.post2": "8.5.0",
    "2.7.1.post4": "9.0.0",
    "2.8.0": "8.3.RC1",
    "2.8.0.post2": "8.5.0",
    "2.8.0.post4": "9.0.0",
    "2.9.0": "8.5.0",
    "2.9.0.post2": "9.0.0",
    "2.10.0": "9.0.0",
}


def torch_npu_cann_fit(npu_version: str, cann: str | None) -> Finding:
    """torch_npu calls the runtime of the CANN it was released with; an earlier one lacks what it calls."""
    what = "torch_npu and CANN"
    if cann is None:
        return Finding(what, "no CANN", "problem", "torch_npu needs a CANN toolkit: source set_env.sh")
    value = f"torch_npu {npu_version} and CANN {cann}"
    wanted = TORCH_NPU_CANN.get(npu_version.split("+")[0])
    if wanted is None:
        return Finding(what, value, "missing", f"torch_npu {npu_version}: its CANN version is not known here")
    have, need = _numbers(cann)[:2], _numbers(wanted)[:2]
    if have < need:
        return Finding(what, value, "problem", f"CANN: expected {wanted} (torch_npu {npu_version}'s), got {cann}")
    later = f"torch_npu {npu_version} was released with CANN {wanted}, this one is later" if have > need else ""
    return Finding(what, value, hint=later)


def nvcc_fit(torch_cuda: str, nvcc: str) -> Finding:
    """Kernels built by an nvcc of another major version than torch's CUDA may not load."""
    value = f"torch is built for CUDA {torch_cuda}, nvcc is {nvcc}"
    if _numbers(torch_cuda)[:1] == _numbers(nvcc)[:1]:
        return Finding("torch and nvcc", value)
    return Finding("torch and nvcc", value, "problem", f"nvcc: expected a {torch_cuda.split('.')[0]}.x, got {nvcc}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0]))
