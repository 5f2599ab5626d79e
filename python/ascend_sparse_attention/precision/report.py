# SPDX-License-Identifier: Apache-2.0
"""Results as data: the JSON report, its summary and the exit code. Text and HTML are drawn from the same entries."""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from .metrics import HISTOGRAM_EDGES, Accumulator, ErrorSums, Offender, Offenders
from .rules import Judgement, Policy, Verdict, within
from .runner import CaseResult

FORMAT = "ascend-sparse-attention/precision"
FORMAT_VERSION = 1

EXIT_PASS, EXIT_FAIL, EXIT_USAGE = 0, 1, 2


class ReportError(Exception):
    """A report that could not be written; the message names the file and why."""


def case_entry(result: CaseResult) -> dict[str, Any]:
    """The JSON entry of a case that was run."""
    case = result.case
    return {
        "id": case.id,
        "backend": result.backend,
        "verdict": result.verdict.value,
        **comparison_entry(result.judgement, result.accumulator, result.reasons),
        "seconds": round(result.total_seconds, 3),
        "seconds_by_stage": {stage: round(seconds, 3) for stage, seconds in result.seconds.items()},
        "peak_mib": round(result.peak_mib, 1),
        "device_peak_mib": None if result.device_peak_mib is None else round(result.device_peak_mib, 1),
        "case": {
            name: getattr(case, name)
            for name in ("layout", "dtype", "B", "S1", "S2", "N1", "N2", "Dk", "Dv", "topK", "scale", "is_causal")
        },
        "note": case.note,
        "inputs": result.inputs,
        "native_method": result.native_method,
        "anchors": {hardware: dict(figures) for hardware, figures in case.anchors.items()},
    }


def comparison_entry(
    judgement: Judgement | None, accumulator: Accumulator | None, reasons: Sequence[str]
) -> dict[str, Any]:
    """What a comparison found: both rules, offenders, bad elements by size, the floor of perfect rounding."""
    entry: dict[str, Any] = {"reasons": list(reasons), "spec": None, "cann_bench": None}
    if judgement is None:
        return entry
    spec, cann = judgement.spec, judgement.cann_bench
    entry["spec"] = {
        "pass": spec.passed,
        "mere": spec.mere,
        "mare": spec.mare,
        "mere_limit": spec.mere_limit,
        "mare_limit": spec.mare_limit,
    }
    entry["cann_bench"] = {
        "pass": cann.passed,
        "deciding_region": cann.deciding_region,
        "reason": cann.reason,
        "mere": cann.mere,
        "mare": cann.mare,
        "regions": {
            name: {
                "pass": region.passed,
                "total": region.total,
                "errors": region.errors,
                "native": region.native,
                "ratio": region.ratio,
                "first": _offender(region.first),
                "worst": _offender(region.worst),
            }
            for name, region in cann.regions.items()
        },
    }
    entry["offenders"] = _offenders(judgement.offenders)
    if accumulator is None:
        return entry
    found = accumulator.nonfinite
    entry.update(
        {
            "dtype": accumulator.limits.name,
            "shape": list(accumulator.shape),
            "elements": accumulator.elements,
            "compared": accumulator.spec_comparable.count,
            "nonfinite": {
                "nan_in_actual": _offenders(found.nan_in_actual),
                "nan_in_golden": _offenders(found.nan_in_golden),
                "inf_one_sided": _offenders(found.inf_one_sided),
                "inf_opposite": _offenders(found.inf_opposite),
                "saturated": found.saturated,
                "matched_nan": found.matched_nan,
                "matched_inf": found.matched_inf,
            },
            "comparable": _errors(accumulator.spec_comparable),
            "large": {"from": accumulator.limits.small_value, **_errors(accumulator.spec_large)},
            # What the golden itself scores once it is rounded to the dtype: no output can be expected to do better.
            "floor": {
                # Nothing to compare is no fail of rounding.
                "pass": accumulator.floor.count == 0 or within(accumulator.floor, accumulator.limits.threshold),
                **_errors(accumulator.floor),
            },
            "floor_large": _errors(accumulator.floor_large),
            "zero_golden": accumulator.zero_golden,
            "nonzero_in_zero_golden": _offenders(accumulator.nonzero_in_zero_golden),
            "by_size": accumulator.decades(),
            "exact": accumulator.exact,
            "ulp": {
                "max": accumulator.ulp_max,
                "mean": accumulator.ulp_sum / accumulator.ulp_count if accumulator.ulp_count else math.nan,
            },
            "histogram": {"edges": list(HISTOGRAM_EDGES), "counts": accumulator.histogram.tolist()},
        }
    )
    return entry


def _errors(sums: ErrorSums) -> dict[str, Any]:
    return {"count": sums.count, "mere": sums.mere, "mare": sums.mare, "bad": sums.bad}


def _offender(offender: Offender | None) -> dict[str, Any] | None:
    if offender is None:
        return None
    return {**asdict(offender), "index": list(offender.index)}


def _offenders(offenders: Offenders) -> dict[str, Any]:
    return {
        "count": offenders.count,
        "first": _offender(offenders.first),
        "worst": _offender(offenders.worst),
    }


def summarize(entries: Sequence[dict[str, Any]], policy: Policy) -> dict[str, Any]:
    """Counts over the cases, and the exit code that goes with them.

    A case without a finite metric is counted in `invalid_metrics` and left out of the means, which stay finite.
    """
    by_verdict = {verdict.value: 0 for verdict in Verdict}
    for entry in entries:
        by_verdict[entry["verdict"]] += 1
    metrics = [entry["spec"] for entry in entries if entry["spec"] is not None]
    valid = [m for m in metrics if math.isfinite(m["mere"]) and math.isfinite(m["mare"])]
    passed = by_verdict[Verdict.PASS.value]
    return {
        "policy": policy.value,
        "cases": len(entries),
        "passed": passed,
        "failed": by_verdict[Verdict.FAIL.value],
        "empty": by_verdict[Verdict.EMPTY.value],
        "errors": by_verdict[Verdict.ERROR.value],
        "cann_bench_passed": sum(1 for e in entries if e["cann_bench"] is not None and e["cann_bench"]["pass"]),
        "spec_passed": sum(1 for metric in metrics if metric["pass"]),
        "spec_out_of_reach": sum(1 for e in entries if not e.get("floor", {"pass": True})["pass"]),
        "invalid_metrics": len(entries) - len(valid),
        "mere_mean": math.fsum(m["mere"] for m in valid) / len(valid) if valid else 0.0,
        "mare_max": max((m["mare"] for m in valid), default=0.0),
        "seconds": round(math.fsum(entry.get("seconds", 0.0) for entry in entries), 3),
        "peak_mib": max((entry.get("peak_mib", 0.0) for entry in entries), default=0.0),
        "exit_code": EXIT_PASS if entries and passed == len(entries) else EXIT_FAIL,
    }


def document(entries: Sequence[dict[str, Any]], summary: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The whole JSON report."""
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "tool": {"name": "ascend-sparse-attention", "version": __version__},
        "run": run,
        "cases": list(entries),
        "summary": summary,
    }


def to_json(value: dict[str, Any]) -> str:
    """JSON text. NaN and the infinities, which JSON has no numbers for, become "nan", "inf" and "-inf"."""
    return json.dumps(_plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def check_writable(path: Path) -> None:
    """Find out before the work whether a report can be written.

    Raises:
        ReportError: the folder does not exist or takes no file, or something is there that takes no report.
    """
    mode = _mode(path)
    if mode is not None and stat.S_ISDIR(mode):
        raise ReportError(f"{path}: expected a file name, got a folder")
    if mode is not None and not stat.S_ISREG(mode):
        if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            raise ReportError(f"{path}: expected a file, a pipe or a terminal, got a device or socket")
        if not os.access(path, os.W_OK):
            raise ReportError(f"{path}: cannot be written to")
        return
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise ReportError(f"{path}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise ReportError(f"{path}: the folder {folder} cannot be written to")


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path] = ()) -> None:
    """`check_writable` of every output that is wanted (option name -> path), and that none would overwrite another.

    Raises:
        ReportError: an output that cannot be written, or that is another output or an input.
    """
    wanted = {option: path for option, path in outputs.items() if path is not None}
    for path in wanted.values():
        check_writable(path)
    seen: dict[str, str] = {os.path.realpath(path): "the input" for path in inputs}
    for option, path in wanted.items():
        mode = _mode(path)
        if mode is not None and stat.S_ISCHR(mode) and not is_stdout(path):
            continue  # /dev/null takes any number of reports
        real = os.path.realpath(path)
        if real in seen:
            raise ReportError(f"{option}: expected a file of its own, got {path}, which is {seen[real]} too")
        seen[real] = f"that of {option}"


def is_stdout(path: Path) -> bool:
    """Whether a report at `path` would end in this process's standard output (a file, a pipe or a terminal)."""
    return _standard_descriptor(path) == 1


def _standard_descriptor(path: Path) -> int | None:
    try:
        there = os.stat(path)
    except OSError:
        return None
    for descriptor in (1, 2):
        try:
            here = os.fstat(descriptor)
        except OSError:
            continue
        # Devices such as /dev/null swallow what two writers give them; only terminals count.
        if stat.S_ISCHR(here.st_mode) and not os.isatty(descriptor):
            continue
        if os.path.samestat(there, here):
            return descriptor
    return None


def _mode(path: Path) -> int | None:
    """What is at a path, links followed; None if nothing."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte
        raise ReportError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it, then a rename.

    A symbolic link stays and its target is replaced. What is no regular file (/dev/null, a pipe, /dev/stdout) is
    written to as it is.

    Raises:
        ReportError: the text could not be written, for example because the disk is full. An older file stays.
        BrokenPipeError: `path` is standard output or error, and its reader has gone.
    """
    # A file name that is no UTF-8 comes in as lone surrogates; their escape is what JSON has for them too.
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    standard = None
    try:
        standard, mode = _standard_descriptor(path), _mode(path)
        if standard is not None:
            # Through the open descriptor: the name would start again at the beginning of a redirected file.
            stream = sys.stdout if standard == 1 else sys.stderr
            if stream is not None:
                stream.flush()
            with os.fdopen(os.dup(standard), "wb") as file:
                file.write(data)
        elif mode is not None and not stat.S_ISREG(mode):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb") as file:
                file.write(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        if standard is not None and isinstance(error, BrokenPipeError):
            raise  # the reader of the output has seen enough, which is no fault
        raise ReportError(f"{path}: the report could not be written: {error.strerror or error}") from error


def _replace(target: Path, data: bytes) -> None:
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:32]}.", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes a private file; a report is as readable as any other file of the user.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise
