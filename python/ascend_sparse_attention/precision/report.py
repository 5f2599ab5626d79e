# SPDX-License-Identifier: Apache-2.0
"""Results as data: the JSON report, its summary and the exit code. Text and HTML are drawn from the same entries."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
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
                "pass": within(accumulator.floor, accumulator.limits.threshold),
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
        ReportError: the folder does not exist or takes no file.
    """
    folder = path.resolve().parent
    if path.is_dir():
        raise ReportError(f"{path}: expected a file name, got a folder")
    if not folder.is_dir():
        raise ReportError(f"{path}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise ReportError(f"{path}: the folder {folder} cannot be written to")


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all: a temporary file beside it, then a rename.

    Raises:
        ReportError: the text could not be written, for example because the disk is full. An older file stays.
    """
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.resolve().parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes a private file; a report is as readable as any other file of the user.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise ReportError(f"{path}: the report could not be written: {error.strerror or error}") from error
