# SPDX-License-Identifier: Apache-2.0
"""`sfa trace`: run one case in the CPU twin and write what its cycle model predicts of every pipe."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .check import IndicesChoice
from .console import UsageError, output_console

if TYPE_CHECKING:
    from ..precision.cases import Case

_PICTURES = (".png", ".pdf", ".svg")


def register(app: typer.Typer) -> None:
    app.command("trace")(trace)


def trace(
    cases: Annotated[
        str,
        typer.Argument(
            metavar="CASE",
            help="A case file or `public` or `quickstart`, as for `sfa check`, with --case where it holds several; "
            "or the id of a bundled case.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Trace to write (Chrome trace events; ui.perfetto.dev opens it).")
    ],
    case: Annotated[str | None, typer.Option("--case", help="The case of the file.")] = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Draw the pipes of one block (.png, .pdf or .svg); needs matplotlib.")
    ] = None,
    block: Annotated[int, typer.Option(min=0, help="Block that --png draws: one AIC and its two AIVs.")] = 0,
    shrink: Annotated[bool, typer.Option("--shrink", help="Cut B and S1; S2, topK and head dims stay.")] = False,
    indices: Annotated[
        IndicesChoice, typer.Option(help="Draw indices over all keys, or around the causal edge.")
    ] = IndicesChoice.UNIFORM,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="cann-bench's --eval-seed.")] = 0,
    schedule: Annotated[str | None, typer.Option(help="Force a kernel schedule.", show_default="the planner's")] = None,
    cores: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="At most this many AIC cores, 0 for all of the device's.")
    ] = 0,
    own_value: Annotated[
        bool,
        typer.Option(
            "--own-value", help="Give the kernel value as a tensor of its own; else it is the view key[..., :Dv]."
        ),
    ] = False,
) -> None:
    """Run one case in the CPU twin and write a trace of all pipes.

    Prints the predicted time under each outlook, how busy the pipes are and what the critical path is made of: all
    predicted by the twin's cycle model, nothing measured. The checker is on: what it finds is printed, and the
    exit code is 1.
    """
    # torch takes a second to load, which --help should not.
    from .. import twin
    from ..precision import report, runner
    from ..precision.cases import CaseFileError
    from ..precision.generate import Indices, generate

    try:
        chosen = _one_case(cases, case)
        if shrink:
            chosen = chosen.shrunk()
        report.check_outputs({"--output": output, "--png": png}, [Path(cases)])
        if png is not None:
            _check_picture(png)
        runner.check_runnable([chosen], runner.Options(backend="twin", schedule=schedule))
    except (CaseFileError, report.ReportError, runner.UnusableError) as error:
        raise UsageError(str(error)) from error

    console = output_console(output, png)

    def line(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    inputs = generate(chosen, seed=seed, indices=Indices(indices.value))
    value = inputs.value if own_value else inputs.key[..., : chosen.Dv]
    call = (inputs.query, inputs.key, value, inputs.sparseIndices, chosen.scale, chosen.layout, chosen.is_causal)
    try:
        plan = twin.Plan(twin.request_of(*call, schedule=schedule, cores=cores))
        if 0 < plan.core_num <= block:
            raise UsageError(f"--block: expected 0 .. {plan.core_num - 1}, the blocks that this launches, got {block}")
        result = twin.run(*call, trace=True, schedule=schedule, cores=cores)
    except (TypeError, ValueError) as error:
        # The checks name the argument; a case or an option asked for something that the kernel does not take.
        raise UsageError(f"{chosen.source}: case {chosen.id}: {error}") from error
    if result.trace is None:
        raise UsageError(f"{chosen.source}: case {chosen.id} launches nothing (B or S1 is 0), so there is no trace")

    try:
        report.write_atomically(output, result.trace)
    except report.ReportError as error:
        raise UsageError(str(error)) from error
    if png is not None:
        sizes = f"N {chosen.N1}/{chosen.N2}, D {chosen.Dk}/{chosen.Dv}, topK {chosen.topK}"
        _draw(result.trace, png, block, f"case {chosen.id} ({sizes}), block {block} of {result.core_num}")

    line(f"case {chosen.id}: {chosen.summary()}")
    workspace = result.workspace_bytes / (1 << 20)
    line(f"schedule {result.schedule} on {result.core_num} AIC of {twin.PLATFORM}, workspace {workspace:.1f} MiB")
    line(result.report.rstrip())
    line(f"trace: {output}" + ("" if png is None else f"\npicture: {png}"))
    if '"complete":false' in result.trace[:1000]:
        line("The trace was cut: the run has more instructions than it holds. --shrink or --cores make it smaller.")
    raise typer.Exit(1 if result.findings else 0)


def _one_case(name: str, wanted: str | None) -> Case:
    """The case that the arguments mean.

    Raises:
        CaseFileError: no such file or case, or several that it could be.
    """
    from ..precision import cases as files

    file = files.find(name)
    if file is None:
        if wanted is None:
            found = [one for bundle in ("public", "quickstart") for one in _bundled(bundle) if one.id == name]
            if found:
                return found[0]
        raise files.CaseFileError(
            f"{name}: expected a case file, public, quickstart or the id of a case of these, found none of this name"
        )
    chosen = files.select_cases(files.load_cases(file), [] if wanted is None else [wanted])
    if len(chosen) > 1:
        raise files.CaseFileError(f"{name}: expected --case with one of {', '.join(one.id for one in chosen)}")
    return chosen[0]


def _bundled(name: str) -> list[Case]:
    from ..precision import cases as files

    path = files.bundled(name)
    assert path is not None  # comes with the package
    return files.load_cases(path)


def _check_picture(png: Path) -> None:
    if png.suffix.lower() not in _PICTURES:
        raise UsageError(f"--png: expected a file name that ends in {', '.join(_PICTURES)}, got {png}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "--png: expected matplotlib, a dependency of ascend-sparse-attention, found none: pip install matplotlib"
        )


def _draw(trace_json: str, picture: Path, block: int, title: str) -> None:
    from ..precision.report import ReportError, write_atomically
    from ..twin_trace import parse_trace, plot_pipes

    drawn = io.BytesIO()
    try:
        figure = plot_pipes(parse_trace(trace_json), block, title=title)
        figure.savefig(drawn, dpi=150, format=picture.suffix.lower().removeprefix("."))
        write_atomically(picture, drawn.getvalue())
    except ValueError as error:
        raise UsageError(f"--{error}") from error
    except ReportError as error:
        raise UsageError(str(error)) from error
