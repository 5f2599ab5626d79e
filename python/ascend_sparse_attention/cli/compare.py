# SPDX-License-Identifier: Apache-2.0
"""`sfa compare`: judge one dumped tensor by another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .check import PolicyChoice
from .console import UsageError, output_console, print_details, results_table


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    actual: Annotated[
        str,
        typer.Argument(metavar="ACTUAL", help="Tensor to judge: .npy, .npz, .bin, .pt or .safetensors (FILE:NAME)."),
    ],
    golden: Annotated[str, typer.Argument(metavar="GOLDEN", help="Golden, float64 best.")],
    native: Annotated[
        str | None, typer.Option(help="The same computed in the io dtype, for cann-bench's rule.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="What ACTUAL and NATIVE hold: bfloat16, hifloat32, ...")] = None,
    golden_dtype: Annotated[
        str | None,
        typer.Option(help="What GOLDEN holds where its file does not say.", show_default="float64 in a .bin"),
    ] = None,
    shape: Annotated[str | None, typer.Option(help="Shape, e.g. 2,256,32,128; needed for .bin.")] = None,
    policy: Annotated[PolicyChoice, typer.Option(help="The rule that decides.")] = PolicyChoice.CANN_BENCH,
    saturate: Annotated[
        bool, typer.Option("--saturate", help="Excuse an Inf whose counterpart is within a step of the largest value.")
    ] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Nothing to compare is a pass.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write a JSON report.")] = None,
) -> None:
    """Compare a dumped tensor with its golden.

    Files are read as data only (no pickles). numpy knows neither bfloat16 nor fp8: give --dtype for raw bits.
    """
    from ..precision import report
    from ..precision.files import compare_files
    from ..precision.rules import Policy
    from ..precision.tensors import TensorFileError, split_source

    try:
        sources = [actual, golden] if native is None else [actual, golden, native]
        report.check_outputs({"--json": json}, [split_source(source)[0] for source in sources])
        judgement, accumulator = compare_files(
            actual,
            golden,
            native,
            dtype=dtype,
            golden_dtype=golden_dtype,
            shape=_shape(shape),
            policy=Policy(policy.value),
            saturate=saturate,
            allow_empty=allow_empty,
        )
    except (TensorFileError, report.ReportError, ValueError) as error:
        raise UsageError(str(error)) from error
    entry = {
        "id": Path(actual).name,
        "backend": None,
        "verdict": judgement.verdict.value,
        **report.comparison_entry(judgement, accumulator, judgement.reasons),
    }
    summary = report.summarize([entry], Policy(policy.value))
    console = output_console(json)
    print_details(console, entry)
    console.print()
    console.print(results_table([entry], console.width))
    if json is not None:
        run = {"actual": actual, "golden": golden, "native": native, "saturate": saturate, "allow_empty": allow_empty}
        try:
            report.write_atomically(json, report.to_json(report.document([entry], summary, run)))
        except report.ReportError as error:
            raise UsageError(str(error)) from error
    raise typer.Exit(summary["exit_code"])


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        sizes = tuple(int(part) for part in text.strip("[]() ").split(",") if part.strip())
    except ValueError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise UsageError(f"--shape: expected sizes such as 2,256,32,128, got {text}")
    return sizes
