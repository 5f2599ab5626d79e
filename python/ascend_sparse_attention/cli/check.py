# SPDX-License-Identifier: Apache-2.0
"""`sfa check`: run the cases of a file on a backend and judge the outputs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import UsageError, error_console, output_console, print_details, results_table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class BackendChoice(str, Enum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    NPU = "npu"
    TWIN = "twin"


class PolicyChoice(str, Enum):
    CANN_BENCH = "cann-bench"
    SPEC = "spec"
    BOTH = "both"


class IndicesChoice(str, Enum):
    UNIFORM = "uniform"
    TAIL = "tail"


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(
    cases: Annotated[
        Path,
        typer.Argument(
            metavar="CASES", help="cann-bench's cases.csv or cases.yaml, a YAML of ours, or `public` or `quickstart`."
        ),
    ],
    case: Annotated[list[str] | None, typer.Option("--case", help="Only this case id; may be repeated.")] = None,
    backend: Annotated[BackendChoice, typer.Option(help="Where to run.")] = BackendChoice.AUTO,
    policy: Annotated[PolicyChoice, typer.Option(help="The rule that decides.")] = PolicyChoice.CANN_BENCH,
    shrink: Annotated[bool, typer.Option("--shrink", help="Cut B and S1; S2, topK and head dims stay.")] = False,
    indices: Annotated[
        IndicesChoice, typer.Option(help="Draw indices over all keys, or around the causal edge.")
    ] = IndicesChoice.UNIFORM,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="cann-bench's --eval-seed.")] = 0,
    schedule: Annotated[str | None, typer.Option(help="Force a kernel schedule of the backend.")] = None,
    saturate: Annotated[
        bool, typer.Option("--saturate", help="Excuse an Inf whose counterpart is within a step of the largest value.")
    ] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="A case without elements passes.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Details of every case, not of failed ones only.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write a JSON report.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
) -> None:
    """Run cases on a backend, compare with the float64 golden and say what passes.

    Inputs are those that cann-bench's evaluator generates, so that a verdict here is the verdict there.
    """
    # torch takes a second to load, which --help should not.
    from ..precision import cases as case_files
    from ..precision import report, runner
    from ..precision.generate import Indices
    from ..precision.rules import Policy

    options = runner.Options(
        backend=backend.value,
        policy=Policy(policy.value),
        indices=Indices(indices.value),
        seed=seed,
        schedule=schedule,
        saturate=saturate,
        allow_empty=allow_empty,
    )
    try:
        file = case_files.find(str(cases)) or cases
        chosen = case_files.select_cases(case_files.load_cases(file), case or [])
        if shrink:
            chosen = [one.shrunk() for one in chosen]
        report.check_outputs({"--json": json, "--html": html}, [file])
        device = runner.check_runnable(chosen, options)
    except (case_files.CaseFileError, report.ReportError, runner.UnusableError) as error:
        raise UsageError(str(error)) from error

    console = output_console(json, html)
    name = runner.backend_name(backend.value, device)
    console.print(
        f"{len(chosen)} {'case' if len(chosen) == 1 else 'cases'} of {cases} on {name}, rule {policy.value}",
        markup=False,
        highlight=False,
    )
    results = []
    with _Bar(len(chosen)) as bar:
        for one in chosen:
            bar.start(one.id)
            results.append(runner.run_case(one, options, device, bar.stage))
            bar.finish(results[-1].verdict.value, results[-1].total_seconds)
    entries = [report.case_entry(result) for result in results]
    summary = report.summarize(entries, options.policy)
    run = {
        "cases": str(cases),
        "backend": name,
        "device": str(device),
        "shrink": shrink,
        "indices": indices.value,
        "seed": seed,
        "schedule": schedule,
        "saturate": saturate,
        "allow_empty": allow_empty,
    }
    for entry in entries:
        if verbose or entry["verdict"] != "PASS":
            print_details(console, entry)
    console.print()
    console.print(results_table(entries, console.width))
    _print_summary(console, summary)
    document = report.document(entries, summary, run)
    try:
        if json is not None:
            report.write_atomically(json, report.to_json(document))
        if html is not None:
            from ..precision.html import page

            report.write_atomically(html, page(document, results))
    except report.ReportError as error:
        raise UsageError(str(error)) from error
    raise typer.Exit(summary["exit_code"])


def _print_summary(console: Any, summary: dict[str, Any]) -> None:
    other = [
        f"{summary[name]} {word}"
        for name, word in (("failed", "FAIL"), ("empty", "EMPTY"), ("errors", "ERROR"))
        if summary[name]
    ]
    style = "bold green" if summary["exit_code"] == 0 else "bold red"
    tail = f" ({', '.join(other)})" if other else ""
    console.print(
        f"{summary['passed']} of {summary['cases']} PASS under {summary['policy']}{tail}; "
        f"cann-bench {summary['cann_bench_passed']}, spec {summary['spec_passed']}; "
        f"{summary['seconds']:.0f} s, peak {summary['peak_mib']:.0f} MiB",
        style=style,
        highlight=False,
    )
    if summary["spec_out_of_reach"]:
        console.print(
            f"In {summary['spec_out_of_reach']} of the cases the golden itself, rounded to the io dtype, fails the "
            "spec rule: no output can pass it there.",
            style="dim",
            highlight=False,
        )


class _Bar:
    """Live progress on a terminal: cases done, and the stage of the running one. Elsewhere a line a finished case."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = error_console()
        self._progress: Progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._all: TaskID = self._progress.add_task("cases", total=total)
        self._one: TaskID | None = None

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def start(self, case_id: str) -> None:
        self._name = case_id
        self._one = self._progress.add_task(f"case {case_id}", total=1)

    def stage(self, stage: str, done: int, total: int) -> None:
        if self._one is not None:
            self._progress.update(self._one, description=f"case {self._name}: {stage}", completed=done, total=total)

    def finish(self, verdict: str, seconds: float) -> None:
        if self._one is not None:
            self._progress.remove_task(self._one)
        if not self._console.is_terminal:
            self._console.print(f"case {self._name}: {verdict}, {seconds:.1f} s", markup=False, highlight=False)
        self._progress.advance(self._all)
