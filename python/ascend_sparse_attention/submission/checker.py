# SPDX-License-Identifier: Apache-2.0
"""Takes a submission through cann-bench's steps and collects every breach on the way, not just the first."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import accuracy, environment
from .environment import FreshEnvironment, SubmissionError
from .rules import Violation, violation
from .source_scan import scan_package

OPERATOR = "sparse_flash_attention"

#: The operator description's parameters and defaults.
PARAMETERS: dict[str, str | None] = {
    "query": None,
    "key": None,
    "value": None,
    "sparseIndices": None,
    "scaleValue": None,
    "inputLayout": "'BSND'",
    "is_causal": "False",
}

# Packages of this machine that a wheel must not lean on: ours would be found where it is installed.
_BLOCKED = ["ascend_sparse_attention"]

_CALL_RULES = {
    "compute": ("SUB-BEH-001", "only allocation and the submission's own kernel"),
    "move": ("SUB-BEH-002", "no data movement outside the kernel"),
    "host": ("SUB-BEH-004", "tensors that stay on the device"),
    "builtin": ("SUB-BEH-003", "a kernel of the submission's own"),
}


@dataclass
class SubmissionReport:
    """What came of a check. `stages` names the steps that were reached, with a word on each."""

    directory: str
    violations: list[Violation] = field(default_factory=list)
    stages: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.violations

    def as_dict(self) -> dict[str, Any]:
        return {
            "directory": self.directory,
            "ok": self.ok,
            "stages": self.stages,
            "violations": [one.as_dict() for one in self.violations],
        }


@dataclass(frozen=True)
class Options:
    """How to check.

    Attributes:
        device: "cpu" or "npu"; where the operator is called.
        build_arguments: given to build.sh. cann-bench gives none.
        seconds: limit for all calls of the operator together.
        keep: folder to work in and leave behind, None for a temporary one.
    """

    device: str = "cpu"
    build_arguments: tuple[str, ...] = ()
    seconds: float = 600.0
    keep: Path | None = None


def check_submission(
    directory: Path, options: Options | None = None, progress: Callable[[str], None] = lambda stage: None
) -> SubmissionReport:
    """Build, install, import, call and judge the submission in `directory`. The directory itself is left as it is.

    Raises:
        SubmissionError: there is no room for the copy that is built, or the directory cannot be copied.
    """
    options = options or Options()
    report = SubmissionReport(str(directory))
    if not directory.is_dir():
        got = "a file" if directory.exists() else "none there"
        report.violations.append(violation("EVAL-CANN-001", str(directory), "a directory", got))
        return report
    name, place = ("TMPDIR", Path(tempfile.gettempdir())) if options.keep is None else ("--keep", options.keep)
    if place.resolve().is_relative_to(directory.resolve()):
        raise SubmissionError(f"{name}: expected a folder outside the submission, got {place}")
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        _Check(directory, options, report, progress, options.keep.resolve()).run()
    else:
        with tempfile.TemporaryDirectory(prefix="sfa-submission-") as folder:
            _Check(directory, options, report, progress, Path(folder).resolve()).run()
    return report


class _Check:
    def __init__(
        self,
        directory: Path,
        options: Options,
        report: SubmissionReport,
        progress: Callable[[str], None],
        work: Path,
    ) -> None:
        self.directory = directory
        self.options = options
        self.report = report
        self.progress = progress
        self.work = work
        self.copy = work / "submission"

    def found(self, rule: str, where: str, expected: str, got: str) -> None:
        self.report.violations.append(violation(rule, where, expected, got))

    def stage(self, name: str, word: str) -> None:
        self.report.stages[name] = word

    def run(self) -> None:
        self.progress("build")
        environment.clean_copy(self.directory.resolve(), self.copy)
        wheel = self.build()
        self.run_packages()
        seen = self.call(wheel) if wheel is not None else None
        if seen is None or not seen.get("cases"):
            # Nothing ran, so the sources have to tell what the operator would have called.
            for package in self.source_packages():
                self.report.violations.extend(scan_package(package, self.copy, calls=True))

    # -- build ---------------------------------------------------------------------------------------------------------

    def build(self) -> Path | None:
        wheels = self.wheels()
        if wheels:
            self.stage("build", "skipped: dist/ holds a wheel")
        elif not (self.copy / "build.sh").is_file():
            self.found("EVAL-CANN-002", "build.sh", "a file at the root of the submission", "none")
            return None
        else:
            ended = environment.run(
                ["bash", "build.sh", *self.options.build_arguments],
                cwd=self.copy, seconds=environment.BUILD_SECONDS, env=environment.build_environment(),
            )  # fmt: skip
            self.stage("build", "exit code 0" if ended.ok else ended.how().splitlines()[0])
            if not ended.ok:
                expected = f"exit code 0 within {environment.BUILD_SECONDS} s"
                self.found("EVAL-CANN-003", "bash build.sh", expected, ended.how())
                return None
            wheels = self.wheels()
            if not wheels:
                there = sorted(p.name for p in (self.copy / "dist").glob("*")) or ["nothing"]
                self.found("EVAL-CANN-003", "bash build.sh", "dist/cann_bench*.whl", f"{', '.join(there)} in dist/")
                return None
        if len(wheels) > 1:
            self.found("SFA-PKG-001", "dist/", "one wheel", ", ".join(w.name for w in wheels))
        return wheels[0]

    def wheels(self) -> list[Path]:
        return sorted((self.copy / "dist").glob("cann_bench*.whl"))

    def run_packages(self) -> None:
        """The evaluator installs dist/cann_bench*.run before the wheel; twice must work as once."""
        for package in sorted((self.copy / "dist").glob("cann_bench*.run")):
            if not package.is_file():
                got = "a link to nothing" if package.is_symlink() else "a folder"
                self.found("SFA-PKG-003", package.name, "a file", got)
                continue
            package.chmod(0o755)
            target = self.work / "opp"
            target.mkdir(exist_ok=True)
            for attempt in ("first", "second"):
                ended = environment.run(
                    [str(package), "--quiet", f"--install-path={target}"],
                    cwd=package.parent, seconds=environment.RUN_PACKAGE_SECONDS,
                )  # fmt: skip
                if not ended.ok:
                    where = f"{package.name} --quiet --install-path, {attempt} time"
                    self.found("SFA-PKG-003", where, "exit code 0", ended.how())
                    break

    def source_packages(self) -> list[Path]:
        """Folders named cann_bench in the sources, those of build trees aside."""
        found = [path for path in sorted(self.copy.rglob("cann_bench")) if path.is_dir()]
        return [path for path in found if not {"build", "dist", "tests"} & set(path.relative_to(self.copy).parts)]

    # -- install and call ----------------------------------------------------------------------------------------------

    def call(self, wheel: Path) -> dict[str, Any] | None:
        self.progress("install")
        fresh = FreshEnvironment(self.work / "venv")
        ended = fresh.create()
        if not ended.ok:
            raise RuntimeError(f"python -m venv: expected exit code 0, got {ended.how()}")
        ended = fresh.install(wheel)
        self.stage("install", "installed" if ended.ok else "failed")
        if not ended.ok:
            self.found("EVAL-CANN-004", f"pip install {wheel.name}", "exit code 0", ended.how())
            return None
        self.progress("call")
        folder = self.work / "probe"
        folder.mkdir()
        self.write_plan(folder)
        ended = fresh.probe(folder, self.options.seconds)
        try:
            seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
        except (OSError, ValueError):
            self.found("EVAL-CANN-004", "import cann_bench", "a Python that starts", ended.how())
            return None
        self.stage("call", f"{len(seen['cases'])} of {len(accuracy.CASES)} cases")
        self.judge_import(seen, fresh, ended)
        self.judge_calls(seen)
        self.progress("judge")
        for case in accuracy.CASES:
            if case.id in seen["cases"]:
                self.judge_case(case.id, seen["cases"][case.id], folder)
        self.judge_repeat(seen.get("repeat"), folder)
        return seen

    def write_plan(self, folder: Path) -> None:
        cases = [
            {"id": case.id, "scale": case.scale, "layout": case.layout, "is_causal": case.is_causal}
            for case in accuracy.CASES
        ]
        for case in accuracy.CASES:
            accuracy.save(accuracy.inputs_of(case), folder / f"{case.id}.in.pt")
        accuracy.save(accuracy.other_inputs_of(accuracy.CASES[0]), folder / "other.in.pt")
        plan = {"device": self.options.device, "cases": cases, "other": "other", "blocked": _BLOCKED}
        (folder / "plan.json").write_text(json.dumps(plan))

    def judge_import(self, seen: dict[str, Any], fresh: FreshEnvironment, ended: environment.Ended) -> None:
        for name in dict.fromkeys([*seen.get("blocked", []), *seen.get("foreign", [])]):
            self.found("SFA-PKG-002", "import cann_bench", "torch, torch_npu and numpy alone", f"an import of {name}")
        if "import_error" in seen:
            self.found("EVAL-CANN-004", "import cann_bench", "a module", seen["import_error"].strip())
            return
        if seen["stage"] != "done":
            rule = "EVAL-CANN-004" if seen["stage"] == "import" else "SFA-RUN-001"
            self.found(rule, f"case {seen['stage']}", f"an end within {self.options.seconds:g} s", ended.how())
        package = Path(seen["module"]) if seen.get("module") else None
        if package is not None and package.is_dir():
            self.report.violations.extend(scan_package(package, fresh.site_packages, calls=False))
        if seen.get("operator") is None and "public" in seen:
            names = ", ".join(seen["public"]) or "none"
            self.found("EVAL-CANN-005", "cann_bench", f"a callable {OPERATOR}", f"callables: {names}")
        elif seen.get("operator") is not None and OPERATOR not in seen["public"]:
            # The evaluator first lists the module's own callables and only then looks among torch's ops.
            self.found("EVAL-CANN-005", "cann_bench", f"a callable {OPERATOR} of the module", "an op of torch alone")
        self.judge_signature(seen)
        for name in seen.get("timing", []):
            self.found("SUB-BEH-006", "after import and calls", f"{name} as it was", "another function in its place")

    def judge_signature(self, seen: dict[str, Any]) -> None:
        if "parameters" not in seen:
            return
        given = {name: default for name, default in seen["parameters"]}
        where = str(seen["operator"])
        missing = [name for name in PARAMETERS if name not in given]
        if missing and not any(name.startswith("**") for name in given):
            self.found("SFA-SIG-001", where, ", ".join(PARAMETERS), f"{', '.join(given) or 'none'}")
            return
        for name, default in PARAMETERS.items():
            if default is not None and name in given and given[name] not in (default, default.replace("'", '"')):
                self.found("SFA-SIG-001", f"{where}, {name}", f"default {default}", str(given[name] or "no default"))

    def judge_calls(self, seen: dict[str, Any]) -> None:
        for call, count in sorted(seen["calls"].items()):
            kind, name = call.split(" ", 1)
            rule, expected = _CALL_RULES[kind]
            self.found(rule, "during the calls", expected, f"{name}, {count} times")

    def judge_case(self, id: str, result: dict[str, Any], folder: Path) -> None:
        case = next(case for case in accuracy.CASES if case.id == id)
        where = f"case {id}"
        if "error" in result:
            self.found("SFA-RUN-001", where, "a result", result["error"].strip())
            return
        for name in result["written"]:
            self.found("SFA-IN-001", f"{where}, {name}", "the values that were given", "others after the call")
        if result["type"] != "torch.Tensor":
            self.found("SUB-BEH-007", where, "torch.Tensor", result["type"])
        if "shape" not in result:
            return
        faults = [
            (
                f"shape {list(case.output_shape)}",
                f"shape {result['shape']}",
                result["shape"] != list(case.output_shape),
            ),
            (f"dtype torch.{case.dtype}", f"dtype {result['dtype']}", result["dtype"] != f"torch.{case.dtype}"),
            (f"device {self.options.device}", f"device {result['device']}", result["device"] != self.options.device),
        ]
        for expected, got, wrong in faults:
            if wrong:
                self.found("SFA-OUT-001", where, expected, got)
        if not result["contiguous"]:
            self.found("SUB-BEH-002", where, "a contiguous output", f"strides {result['stride']}")
        if faults[0][2] or faults[1][2]:
            return
        output = torch.load(folder / f"{id}.out.pt")
        passed, reasons = accuracy.judge_output(output, case, accuracy.inputs_of(case))
        if not passed:
            self.found("SFA-ACC-001", where, "a pass under cann-bench's rule", reasons)

    def judge_repeat(self, repeat: dict[str, Any] | None, folder: Path) -> None:
        if repeat is None or not (folder / "reused.out.pt").exists():
            if repeat is not None and "error" in repeat:
                self.found("SFA-RUN-001", "a second call of the same shape", "a result", repeat["error"].strip())
            return
        case = accuracy.CASES[0]
        if repeat["same_tensor"] or repeat["first_overwritten"]:
            self.found("SUB-BEH-005", "a second call", "an output of its own", "the memory of the first call's output")
        if repeat["stale"]:
            self.found("SUB-BEH-005", "new values at an old address", "their result", "the result of the old values")
            return
        output = torch.load(folder / "reused.out.pt")
        if tuple(output.shape) != case.output_shape or str(output.dtype) != f"torch.{case.dtype}":
            return  # said above, of the first call
        passed, reasons = accuracy.judge_output(output, case, accuracy.other_inputs_of(case))
        if not passed:
            self.found("SFA-ACC-001", "new values at an old address", "a pass under cann-bench's rule", reasons)
