# SPDX-License-Identifier: Apache-2.0
"""From what the accumulator kept to verdicts. Every verdict is written `error < limit`, so that NaN never passes.

* `spec_result`: the operator description's rule, MERE < t and MARE < 10 t against the float64 golden.
* `cann_bench_result`: the answer of cann-bench's compare_tensors, its leniencies included.
* `judge`: the tool's own verdict. It fails what cann-bench lets through: NaN or Inf against a number, an Inf on one
  side, anything but zeros where the golden is all zero, nothing to compare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

import torch

from .metrics import REGIONS, Accumulator, ErrorSums, Offender, Offenders


class Verdict(str, Enum):
    PASS = "PASS"
    FAIL = "FAIL"
    EMPTY = "EMPTY"  # no element, or none that can be compared
    ERROR = "ERROR"  # no comparison came about


class Policy(str, Enum):
    """Which rule decides between PASS and FAIL once the tool's own rules are met."""

    CANN_BENCH = "cann-bench"
    SPEC = "spec"
    BOTH = "both"


#: errors(candidate) / max(errors(native), 1) may be at most this.
RATIO_LIMIT = 2.0


@dataclass(frozen=True)
class SpecResult:
    passed: bool
    mere: float
    mare: float
    mere_limit: float
    mare_limit: float


@dataclass(frozen=True)
class RegionResult:
    passed: bool
    total: int
    errors: int
    native: int | None
    ratio: float | None  # None, as native, where stage 2 was not needed
    first: Offender | None
    worst: Offender | None


@dataclass(frozen=True)
class CannBenchResult:
    """cann-bench's answer.

    `deciding_region` says what settled it: overall (stage 1), small, cancel or normal (stage 2), nan, inf, structure,
    or nothing (no element to compare, which cann-bench passes).
    """

    passed: bool
    deciding_region: str
    mere: float
    mare: float
    regions: dict[str, RegionResult]
    reason: str


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    reasons: tuple[str, ...]
    spec: SpecResult
    cann_bench: CannBenchResult
    offenders: Offenders = field(default_factory=Offenders)


def within(sums: ErrorSums, threshold: float) -> bool:
    """MERE < threshold and MARE < 10 * threshold."""
    return sums.mere < threshold and sums.mare < 10 * threshold


def needs_native(acc: Accumulator) -> bool:
    """Whether cann-bench's second stage decides, so that the native reference's errors matter."""
    if acc.cann_nan_mismatches or acc.cann_inf_sign_mismatches or acc.cann.count == 0:
        return False
    return not within(acc.cann, acc.limits.threshold)


def spec_result(acc: Accumulator) -> SpecResult:
    t = acc.limits.threshold
    return SpecResult(within(acc.spec, t), acc.spec.mere, acc.spec.mare, t, acc.limits.mare_limit)


def _region_result(name: str, acc: Accumulator) -> RegionResult:
    region = acc.regions[name]
    native = region.native
    if native is None:
        # Without a reference compare_tensors takes the rounded golden for it, with its Inf where the golden itself had
        # the largest value put in place; those elements then count as native errors. (float64 shares storage there.)
        shares_storage = acc.limits.storage is torch.float64
        native = acc.cann_golden_inf_replaced if name == "normal" and not shares_storage else 0
    if name == "normal":
        # Stricter than the others: errors are only forgiven where the native reference has some too.
        if region.errors == 0:
            ratio, passed = 0.0, True
        elif native == 0:
            ratio, passed = math.inf, False
        else:
            ratio = region.errors / native
            passed = ratio <= RATIO_LIMIT
    else:
        ratio = region.errors / max(native, 1)
        passed = ratio <= RATIO_LIMIT
    found = region.offenders
    return RegionResult(passed, region.total, region.errors, native, ratio, found.first, found.worst)


def cann_bench_result(acc: Accumulator) -> CannBenchResult:
    """What compare_tensors answers. Without `update_native` the native errors count as 0, as they do there."""
    t = acc.limits.threshold
    mere, mare = acc.cann.mere, acc.cann.mare
    regions = {name: _region_result(name, acc) for name in REGIONS}

    def settled(passed: bool, by: str, reason: str) -> CannBenchResult:
        shown = {
            name: RegionResult(True, r.total, r.errors, None, None, r.first, r.worst) for name, r in regions.items()
        }
        return CannBenchResult(passed, by, mere, mare, shown, reason)

    if acc.cann_nan_mismatches:
        return settled(False, "nan", f"{acc.cann_nan_mismatches} elements are NaN on one side only")
    if acc.cann_inf_sign_mismatches:
        return settled(False, "inf", f"{acc.cann_inf_sign_mismatches} elements are Inf of opposite signs")
    if acc.cann.count == 0:
        return settled(True, "nothing", "nothing to compare, which cann-bench passes")
    if within(acc.cann, t):
        return settled(
            True, "overall", f"MERE {mere:.3g} < {t:.3g} and MARE {mare:.3g} < {10 * t:.3g} over all elements"
        )
    failed = [name for name in ("normal", "cancel", "small") if not regions[name].passed]
    # Elements above the MARE limit by region; those of "small" count as errors by their absolute error instead.
    above = {name: acc.regions[name].errors for name in ("cancel", "normal")}
    above["small"] = acc.cann.bad - sum(above.values())

    def weight(name: str) -> tuple[float, int]:
        return regions[name].ratio or 0.0, above[name]

    deciding = failed[0] if failed else max(REGIONS, key=weight)
    r = regions[deciding]
    given = acc.regions[deciding].native is not None
    native = f"native {r.native:,}" if given else f"native counted as {r.native:,}: no reference given"
    reason = (
        f"{acc.cann.bad:,} elements above the MARE limit, so the regions decide: {deciding} has {r.errors:,} errors of "
        f"{r.total:,}, {native}, ratio {weight(deciding)[0]:.3g} (limit 2)"
    )
    if failed[1:]:
        reason += f"; {' and '.join(failed[1:])} fails too"
    return CannBenchResult(not failed, deciding, mere, mare, regions, reason)


def structure_failure(acc: Accumulator, reason: str) -> CannBenchResult:
    """cann-bench's answer to an output of the wrong type, shape or memory layout."""
    regions = {name: RegionResult(True, 0, 0, None, None, None, None) for name in REGIONS}
    return CannBenchResult(False, "structure", math.nan, math.nan, regions, reason)


def _at(offender: Offender | None) -> str:
    if offender is None:
        return ""
    return f", first at {list(offender.index)}: {offender.actual:.9g} against {offender.golden:.9g}"


def judge(
    acc: Accumulator,
    policy: Policy,
    *,
    structure: str | None = None,
    contract: str | None = None,
    allow_empty: bool = False,
) -> Judgement:
    """The tool's verdict.

    Args:
        acc: the finished accumulator.
        policy: the rule that decides once the tool's own rules are met.
        structure: what is wrong with the output's type, shape or memory layout, so that nothing was compared.
        contract: what else breaks the operator's contract (the output's dtype), which cann-bench does not look at.
        allow_empty: take "nothing to compare" for a pass.
    """
    spec = spec_result(acc)
    cann = cann_bench_result(acc)
    if structure is not None:
        return Judgement(Verdict.FAIL, (structure,), spec, structure_failure(acc, structure))
    reasons: list[str] = [] if contract is None else [contract]
    offenders = Offenders()
    for what, found in acc.nonfinite.faults().items():
        if found.count:
            reasons.append(f"{what}: {found.count} elements{_at(found.first)}")
            offenders = offenders if offenders.count else found
    zero = acc.nonzero_in_zero_golden
    if zero.count:
        reasons.append(f"not 0 where the golden's whole row is exactly 0: {zero.count} elements{_at(zero.first)}")
        offenders = offenders if offenders.count else zero
    if not reasons and acc.spec.count == 0:
        what = "no elements" if acc.elements == 0 else f"nothing comparable: {_matched(acc)}"
        return Judgement(Verdict.PASS if allow_empty else Verdict.EMPTY, (what,), spec, cann)
    if policy in (Policy.CANN_BENCH, Policy.BOTH):
        if not cann.passed:
            reasons.append(f"cann-bench rule: {cann.reason}")
            if cann.deciding_region in REGIONS and not offenders.count:
                offenders = acc.regions[cann.deciding_region].offenders
    if policy in (Policy.SPEC, Policy.BOTH) and not spec.passed:
        reasons.append(
            f"spec rule: MERE {spec.mere:.3g} (must be < {spec.mere_limit:.3g}), "
            f"MARE {spec.mare:.3g} (must be < {spec.mare_limit:.3g})"
        )
        offenders = offenders if offenders.count else acc.spec_offenders
    if reasons:
        return Judgement(Verdict.FAIL, tuple(reasons), spec, cann, offenders)
    notes = [cann.reason] if policy is Policy.CANN_BENCH else []
    matched = _matched(acc)
    if matched:
        notes.append(f"left out of the metrics: {matched}")
    if acc.nonfinite.saturated:
        notes.append(f"{acc.nonfinite.saturated} saturated elements excused")
    return Judgement(Verdict.PASS, tuple(notes), spec, cann)


def _matched(acc: Accumulator) -> str:
    parts = []
    if acc.nonfinite.matched_nan:
        parts.append(f"{acc.nonfinite.matched_nan} NaN on both sides")
    if acc.nonfinite.matched_inf:
        parts.append(f"{acc.nonfinite.matched_inf} Inf of one sign on both sides")
    return ", ".join(parts)
