# SPDX-License-Identifier: Apache-2.0
"""What the commands share: consoles, messages and the words of the tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "EMPTY": "bold yellow", "ERROR": "bold magenta"}

# A log file has no width of its own; tables stay whole in one this wide.
_FILE_WIDTH = 180


class UsageError(Exception):
    """Wrong usage or unreadable input: printed without a traceback, exit code 2."""


class OutputError(Exception):
    """Standard output or error takes no more text; `closed` if its reader has gone, as `head` does."""

    def __init__(self, message: str, *, closed: bool = False) -> None:
        super().__init__(message)
        self.closed = closed


class _Console(Console):
    """A console whose troubles cannot be mistaken for a verdict: rich itself exits with 1 on a closed pipe."""

    def on_broken_pipe(self) -> None:
        raise OutputError("the output's reader has gone", closed=True)

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except BrokenPipeError:
            self.on_broken_pipe()
        except OSError as error:
            raise OutputError(f"the output could not be written: {error.strerror or error}") from error


def output_console(*reports: Path | None) -> Console:
    """The console of a command's text: standard output, or standard error where one of `reports` goes to the former."""
    from ..precision.report import is_stdout

    if any(is_stdout(path) for path in reports if path is not None and _is_no_file(path)):
        return error_console()
    console = _Console()
    return console if console.is_terminal else _Console(width=_FILE_WIDTH, soft_wrap=False)


def _is_no_file(path: Path) -> bool:
    """/dev/stdout and the like, rather than a file that output happens to be redirected to."""
    return path.is_symlink() or not path.is_file()


def error_console() -> Console:
    return _Console(stderr=True)


def verdict_text(verdict: str) -> Text:
    return Text(verdict, style=_STYLES[verdict])


def figure(value: float | int | None) -> str:
    """A figure as tables show it."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    return f"{value:.3g}"


def pass_text(entry: dict[str, Any] | None) -> Text:
    if entry is None:
        return Text("-")
    return Text("pass", style="green") if entry["pass"] else Text("fail", style="red")


def spec_text(entry: dict[str, Any]) -> Text:
    """The spec rule's cell: a fail that no output of this dtype could have avoided is told from other fails."""
    spec = entry["spec"]
    if entry["verdict"] in ("EMPTY", "PASS") and entry.get("compared") == 0:
        return Text("-")  # nothing was compared, so neither rule has anything to say
    if spec is not None and not spec["pass"] and "floor" in entry and not entry["floor"]["pass"]:
        return Text("out of reach", style="yellow")
    return pass_text(spec)


def errors_text(region: dict[str, Any]) -> str:
    """errors/native of a region; the native count only where it mattered."""
    if region["native"] is None:
        return f"{region['errors']:,}"
    return f"{region['errors']:,}/{region['native']:,}"


def results_table(entries: list[dict[str, Any]], width: int) -> Table:
    """One row a case, drawn from the entries of the JSON report; a narrow terminal gets fewer columns."""
    table = Table(header_style="bold", pad_edge=False, box=SIMPLE_HEAD)
    with_case, with_regions = width >= 120, width >= 175
    table.add_column("case", no_wrap=with_regions, overflow="fold")
    if with_case:
        table.add_column("what", no_wrap=True)
    for name in ("verdict", "cann-bench", "spec"):
        table.add_column(name, no_wrap=True)
    for name in ("MERE", "MARE", *(("small", "cancel", "normal") if with_regions else ()), "s", "MiB"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        cann, spec = entry["cann_bench"], entry["spec"]
        rule = pass_text(cann)
        if cann is not None:
            rule.append(f" {cann['deciding_region']}", style="dim")
        row: list[str | Text] = [Text(entry["id"])]  # a name is no markup
        if with_case:
            row.append(Text(_what(entry)))
        row += [verdict_text(entry["verdict"]), rule, spec_text(entry)]
        row += [figure(spec[name]) if spec is not None else "-" for name in ("mere", "mare")]
        if with_regions:
            row += [errors_text(r) for r in cann["regions"].values()] if cann is not None else ["-"] * 3
        row.append(f"{entry['seconds']:.1f}" if "seconds" in entry else "-")
        row.append(f"{entry['peak_mib']:.0f}" if "peak_mib" in entry else "-")
        table.add_row(*row)
    return table


def _what(entry: dict[str, Any]) -> str:
    case = entry.get("case")
    if case is None:
        return f"{entry.get('dtype', '?')} {entry.get('shape', '')}"
    short = {"float16": "fp16", "bfloat16": "bf16"}[case["dtype"]]
    causal = " causal" if case["is_causal"] else ""
    return (
        f"{case['layout']} {short} B{case['B']} S{case['S1']}/{case['S2']} N{case['N1']}/{case['N2']} "
        f"D{case['Dk']}/{case['Dv']} k{case['topK']}{causal}"
    )


def offender_line(what: str, offender: dict[str, Any] | None) -> str | None:
    if offender is None:
        return None
    return (
        f"{what} at {offender['index']}: actual {offender['actual']:.9g}, golden {offender['golden']:.9g}, "
        f"relative error {figure(offender['relative_error'])}"
    )


def print_details(console: Console, entry: dict[str, Any]) -> None:
    """All that was found for one case, below the table."""
    console.print()
    head = Text(f"case {entry['id']} ")
    head.append_text(verdict_text(entry["verdict"]))
    console.print(head)

    def line(text: str) -> None:
        console.print(f"  {text}", markup=False, highlight=False)

    for reason in entry["reasons"]:
        line(reason)
    offenders = entry.get("offenders")
    if offenders is not None and offenders["count"]:
        for what in ("first", "worst"):
            text = offender_line(what, offenders[what])
            if text is not None:
                line(text)
    if "elements" not in entry:
        return
    spec, comparable, large = entry["spec"], entry["comparable"], entry["large"]
    line(
        f"MERE {figure(spec['mere'])} (must be < {figure(spec['mere_limit'])}), "
        f"MARE {figure(spec['mare'])} (must be < {figure(spec['mare_limit'])}) over {entry['elements']:,} elements, "
        f"{comparable['bad']:,} above the MARE limit, {entry['exact']:,} exact"
    )
    line(
        f"where abs(golden) >= {figure(large['from'])}: MERE {figure(large['mere'])}, MARE {figure(large['mare'])}, "
        f"{large['bad']:,} of {large['count']:,} above the limit"
    )
    floor, floor_large = entry["floor"], entry["floor_large"]
    line(
        f"perfect rounding to {entry['dtype']} would reach MERE {figure(floor['mere'])}, MARE {figure(floor['mare'])}"
        f" ({floor['bad']:,} above the limit); where large MERE {figure(floor_large['mere'])}, "
        f"MARE {figure(floor_large['mare'])}"
    )
    ulp = entry["ulp"]
    line(f"distance from the rounded golden: at most {figure(ulp['max'])} ULP, {figure(ulp['mean'])} ULP on average")
    for name, region in entry["cann_bench"]["regions"].items():
        ratio = "" if region["ratio"] is None else f", native {region['native']:,}, ratio {figure(region['ratio'])}"
        line(f"region {name}: {region['errors']:,} errors of {region['total']:,}{ratio}")
    table = Table("abs(golden)", "elements", "above the limit", "MARE", header_style="dim", box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in entry["by_size"]:
        size = "0" if row["to"] == 0 else f"{row['from']:.0e} .. {row['to']:.0e}"
        table.add_row(size, figure(row["total"]), figure(row["bad"]), figure(row["mare"]))
    console.print(table)
