# SPDX-License-Identifier: Apache-2.0
"""`sfa check-submission`: take a cann-bench submission through build, install, import, calls and rules."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from .console import UsageError, output_console


class DeviceChoice(str, Enum):
    CPU = "cpu"
    NPU = "npu"


def register(app: typer.Typer) -> None:
    app.command("check-submission")(check_submission)


def check_submission(
    directory: Annotated[Path, typer.Argument(help="The submission: build.sh, or dist/cann_bench*.whl.")],
    device: Annotated[DeviceChoice, typer.Option(help="Where to call the operator.")] = DeviceChoice.CPU,
    build_args: Annotated[str, typer.Option(help="Arguments for build.sh; cann-bench gives none.")] = "",
    seconds: Annotated[float, typer.Option(min=1, help="Limit for all calls of the operator together.")] = 600,
    keep: Annotated[Path | None, typer.Option(help="Work in this new folder and leave it.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write a JSON report.")] = None,
) -> None:
    """Build the submission in a copy, install it into a fresh environment, call it and judge it by cann-bench's rules.

    Every breach is reported at once: its rule, what was expected, what came, and a hint.
    """
    # torch takes a second to load, which --help should not.
    from ..precision import report as reports
    from ..submission import Options, SubmissionError
    from ..submission import check_submission as check

    if not directory.exists():
        raise UsageError(f"directory: expected a submission, got {directory}, which does not exist")
    if keep is not None and keep.exists():
        raise UsageError(f"--keep: expected a folder that does not exist yet, got {keep}")
    try:
        reports.check_outputs({"--json": json})
        arguments = tuple(shlex.split(build_args))
    except reports.ReportError as error:
        raise UsageError(str(error)) from error
    except ValueError as error:
        raise UsageError(f"--build-args: {error}") from error
    console = output_console(json)
    options = Options(device=device.value, build_arguments=arguments, seconds=seconds, keep=keep)
    try:
        with console.status("check") as status:
            result = check(directory, options, lambda stage: status.update(stage))
    except SubmissionError as error:
        raise UsageError(str(error)) from error
    for stage, word in result.stages.items():
        console.print(f"{stage}: {word}", markup=False, highlight=False)
    for one in result.violations:
        console.print()
        console.print(one.rule.id, style="bold red", end=" ")
        console.print(one.where, markup=False, highlight=False)
        for label, text in (("expected", one.expected), ("got", one.got), ("hint", one.rule.hint)):
            console.print(f"  {label:8} " + text.replace("\n", "\n" + " " * 11), markup=False, highlight=False)
    console.print()
    rules = len({one.rule.id for one in result.violations})
    if result.ok:
        console.print("no rule is broken", style="bold green")
    else:
        console.print(f"{len(result.violations)} violations of {rules} rules", style="bold red")
    if json is not None:
        try:
            reports.write_atomically(json, reports.to_json(result.as_dict()))
        except reports.ReportError as error:
            raise UsageError(str(error)) from error
    raise typer.Exit(0 if result.ok else 1)
