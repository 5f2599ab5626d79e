# SPDX-License-Identifier: Apache-2.0
"""Runs a case on a backend and compares its output with the golden, block by block.

The golden streams: only the output itself and the golden rounded to the io dtype stand in memory whole. The native
reference (the same attention in the io dtype) is computed only where cann-bench's second stage needs it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch

from .. import backends
from .. import sparse_flash_attention as run_operator
from ..golden import sfa as golden
from ..golden.blocks import BlockIndex
from ..golden.native import iter_native_blocks
from .cases import Case
from .generate import Indices, Inputs, generate, input_bytes, self_check
from .memory import GIB, PeakMemory, machine_bytes
from .metrics import Accumulator
from .rules import Judgement, Policy, Verdict, judge, needs_native
from .thresholds import NAMES, limits_of

#: Bound on what the golden and the native reference each allocate beside their inputs.
GOLDEN_BYTES = 1 << 29

# Chunks of the generator, the comparison and the interpreter with torch loaded.
_FIXED_BYTES = 1 << 29


class Progress(Protocol):
    """Told what is going on: a stage's name and how many of its steps are done."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...


@runtime_checkable
class ScheduledBackend(Protocol):
    """A backend whose kernels have named schedules that can be forced."""

    def schedules(self) -> tuple[str, ...]:
        """Names that `forced_schedule` takes."""

    def forced_schedule(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Calls within the context use this schedule or raise."""


@dataclass(frozen=True)
class Options:
    """How cases are run.

    Attributes:
        backend: as in `sparse_flash_attention`.
        policy: the rule that decides (see `rules.judge`).
        indices, seed: see `generate`.
        schedule: schedule to force, None for the backend's own choice.
        saturate: excuse saturated elements (see `Accumulator`).
        allow_empty: a case without elements passes.
    """

    backend: str = "cpu"
    policy: Policy = Policy.CANN_BENCH
    indices: Indices = Indices.UNIFORM
    seed: int = 0
    schedule: str | None = None
    saturate: bool = False
    allow_empty: bool = False


@dataclass
class CaseResult:
    """What came of one case. `judgement` and `accumulator` are None where it ended in an error."""

    case: Case
    backend: str
    verdict: Verdict
    reasons: tuple[str, ...]
    judgement: Judgement | None = None
    accumulator: Accumulator | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    peak_mib: float = 0.0
    device_peak_mib: float | None = None
    inputs: str = ""
    native_method: str | None = None  # None where the native reference was not needed

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())


class UnusableError(Exception):
    """The run cannot start: a backend or schedule that is not there, a case too large for the machine."""


def device_of(backend: str) -> torch.device:
    """Device whose tensors the backend takes.

    Raises:
        UnusableError: no such backend, or it cannot run here.
    """
    try:
        if backend == "auto":
            for name in ("npu", "cuda", "cpu"):
                if backends.load(name).missing() is None:
                    return torch.device(backends.load(name).device_type())
        # torch knows the device type "npu" only once torch_npu is imported.
        return torch.device(backends.usable(backend).device_type())
    except (ValueError, RuntimeError, ImportError) as error:
        raise UnusableError(f"--backend {backend}: {error}") from error


def backend_name(backend: str, device: torch.device) -> str:
    """The backend that a call really takes: "auto" by its device."""
    return device.type if backend == "auto" else backend


def check_runnable(cases: list[Case], options: Options) -> torch.device:
    """Refuse a run that cannot succeed before it starts; return the device of its tensors.

    Raises:
        UnusableError: see there.
    """
    device = device_of(options.backend)
    if options.schedule is not None:
        chosen = backends.load(backend_name(options.backend, device))
        if not isinstance(chosen, ScheduledBackend):
            raise UnusableError(f"--schedule {options.schedule}: backend {chosen.name} has no schedules to choose from")
        if options.schedule not in chosen.schedules():
            raise UnusableError(
                f"--schedule: expected one of {', '.join(chosen.schedules())} (backend {chosen.name}), "
                f"got {options.schedule}"
            )
    limit = machine_bytes()
    for case in cases:
        needed = needed_bytes(case)
        if needed > limit:
            raise UnusableError(
                f"{case.source}: case {case.id} needs {needed / GIB:.1f} GiB of memory "
                f"({input_bytes(case) / GIB:.1f} GiB of inputs), this machine has {limit / GIB:.1f} GiB; try --shrink"
            )
    return device


def needed_bytes(case: Case) -> int:
    """Lower bound on the memory of a case: inputs, output, the golden in the io dtype and the bounded rest."""
    output = 2 * case.B * case.S1 * case.N1 * case.Dv
    return input_bytes(case) + 2 * output + GOLDEN_BYTES + _FIXED_BYTES


def run_case(case: Case, options: Options, device: torch.device, progress: Progress) -> CaseResult:
    """Generate, run, compare. Whatever goes wrong in between ends in the verdict ERROR, not in an exception."""
    name = backend_name(options.backend, device)
    result = CaseResult(case, name, Verdict.ERROR, ())
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with PeakMemory() as peak:
        try:
            _run(case, options, device, progress, result)
        # A backend may raise anything; one broken case must not end the batch.
        except Exception as error:
            result.verdict = Verdict.ERROR
            result.reasons = (f"{type(error).__name__}: {error}",)
    result.peak_mib = peak.mib
    if device.type == "cuda":
        result.device_peak_mib = torch.cuda.max_memory_allocated(device) / (1 << 20)
    return result


def _run(case: Case, options: Options, device: torch.device, progress: Progress, result: CaseResult) -> None:
    with _timed(result, "generate"):
        progress("generate", 0, 1)
        inputs = generate(case, seed=options.seed, indices=options.indices)
        result.inputs = self_check(inputs, case)
    progress("run", 0, 1)
    output = _call(case, options, device, inputs, result)
    fault = _structure_fault(output, case)
    if fault is not None:
        _settle(result, judge(Accumulator(limits_of(case.dtype), (0,)), options.policy, structure=fault))
        return
    contract = None
    if str(output.dtype).removeprefix("torch.") != case.dtype:
        contract = f"output dtype: expected {case.dtype}, got {output.dtype}"
    accumulator = Accumulator(limits_of(output.dtype), output.shape, saturate=options.saturate, layout=case.layout)
    result.accumulator = accumulator
    output = output.cpu()
    rounded = torch.empty(output.shape, dtype=accumulator.limits.storage)
    arguments = _golden_arguments(case, inputs)
    with _timed(result, "golden"):
        total = max(case.B * case.N2 * case.S1, 1)
        done = 0
        for block in golden.iter_blocks(*arguments, memory_limit_bytes=GOLDEN_BYTES):
            here, origin = _place(block.index, case.layout)
            rounded[here] = accumulator.update(output[here], _like(block.out, case.layout), origin)
            done += block.index.row_count
            progress("golden", done, total)
    if needs_native(accumulator):
        with _timed(result, "native"):
            done = 0
            for native in iter_native_blocks(*arguments, memory_limit_bytes=GOLDEN_BYTES):
                here, _ = _place(native.index, case.layout)
                accumulator.update_native(output[here], rounded[here], _like(native.out, case.layout))
                result.native_method = native.method
                done += native.index.row_count
                progress("native", done, total)
    _settle(result, judge(accumulator, options.policy, contract=contract, allow_empty=options.allow_empty))


def _settle(result: CaseResult, judgement: Judgement) -> None:
    result.judgement = judgement
    result.verdict = judgement.verdict
    result.reasons = judgement.reasons


def _call(case: Case, options: Options, device: torch.device, inputs: Inputs, result: CaseResult) -> torch.Tensor:
    query, key, value, indices = (t.to(device) for t in (inputs.query, inputs.key, inputs.value, inputs.sparseIndices))
    _synchronize(device)
    forced: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if options.schedule is not None:
        chosen = backends.load(backend_name(options.backend, device))
        assert isinstance(chosen, ScheduledBackend)  # check_runnable asked
        forced = chosen.forced_schedule(options.schedule)
    with _timed(result, "run"), forced:
        output = run_operator(
            query, key, value, indices, case.scale, case.layout, case.is_causal, backend=options.backend
        )
        _synchronize(device)
    return output


def _structure_fault(output: object, case: Case) -> str | None:
    """What cann-bench refuses before it compares: the exact type, the shape, the memory layout; and unknown dtypes."""
    if type(output) is not torch.Tensor:
        return f"output: expected exactly a torch.Tensor, got {type(output).__name__}"
    if tuple(output.shape) != case.output_shape:
        return f"output shape: expected {list(case.output_shape)}, got {list(output.shape)}"
    if not output.is_contiguous():
        return f"output: expected a contiguous tensor, got strides {list(output.stride())}"
    if str(output.dtype).removeprefix("torch.") not in NAMES:
        return f"output dtype: expected {case.dtype}, got {output.dtype}"
    return None


def _golden_arguments(
    case: Case, inputs: Inputs
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float, str, bool]:
    # The generated value is a copy of key's prefix; handing the goldens the view spares them a second gather.
    prefix = inputs.key[..., : case.Dv]
    return inputs.query, inputs.key, prefix, inputs.sparseIndices, case.scale, case.layout, case.is_causal


def _place(at: BlockIndex, layout: str) -> tuple[tuple[slice, ...], tuple[int, int, int, int]]:
    """A block's place in the output: slices and the index of its first element."""
    batch = slice(at.b, at.b + 1)
    if layout == "BSND":
        return (batch, at.rows, at.heads), (at.b, at.rows.start, at.heads.start, 0)
    return (batch, at.heads, at.rows), (at.b, at.heads.start, at.rows.start, 0)


def _like(block: torch.Tensor, layout: str) -> torch.Tensor:
    """A block [G, rows, Dv] as the output has it."""
    return (block.transpose(0, 1) if layout == "BSND" else block).unsqueeze(0)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "npu":
        torch.get_device_module(device).synchronize()


@contextlib.contextmanager
def _timed(result: CaseResult, stage: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        result.seconds[stage] = result.seconds.get(stage, 0.0) + time.perf_counter() - start
