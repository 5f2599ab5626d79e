# SPDX-License-Identifier: Apache-2.0
"""Pictures of the pipes from a trace that the CPU twin wrote.

The trace is in the Chrome trace event format (Perfetto opens it too): a process per core, a thread per pipe. What it
shows is predicted by the twin's cycle model; nothing in it was measured. Needs matplotlib, and nothing of torch.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEY = "black line: critical path    pale tail: result not there yet    grey: waits for a flag    right: share busy"
PIPE_ORDER = {"AIC": ("S", "MTE2", "MTE1", "M", "FIX"), "AIV": ("S", "MTE2", "V", "MTE3")}
PIPE_COLOURS = {
    "S": "#8a8f98",
    "MTE2": "#2f6db3",
    "MTE1": "#5aa7c7",
    "M": "#b3402f",
    "FIX": "#8a5aa8",
    "V": "#d08a2e",
    "MTE3": "#3f8f5f",
}
_CORE_NAME = re.compile(r"block (\d+) (AIC|AIV)(\d?)")


@dataclass(frozen=True)
class Span:
    """One instruction on one pipe. Times in microseconds from the launch.

    `done` is when its result was complete, which may be after `end`, when the pipe was free again.
    `waited` is how long a flag held the pipe before it.
    """

    name: str
    start: float
    end: float
    done: float
    waited: float
    critical: bool
    args: dict[str, Any]


@dataclass
class Core:
    """One core of the trace: `kind` is AIC or AIV, `sub_block` 0 or 1 for an AIV. `pipes` maps a pipe to its spans."""

    block: int
    kind: str
    sub_block: int
    pipes: dict[str, list[Span]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kind if self.kind == "AIC" else f"AIV{self.sub_block}"


@dataclass
class Trace:
    """A trace file: its cores, its length in microseconds, and what it says about itself."""

    kernel: str
    clock: str
    note: str
    microseconds: float
    complete: bool
    cores: list[Core]

    def block(self, block: int) -> list[Core]:
        """The cores of one block, AIC first.

        Raises:
            ValueError: the trace has no such block.
        """
        cores = [core for core in self.cores if core.block == block]
        if not cores:
            known = sorted({core.block for core in self.cores})
            raise ValueError(f"block: expected one of {known[:1]}..{known[-1:]}, got {block}")
        return sorted(cores, key=lambda core: (core.kind, core.sub_block))


def load_trace(path: str | Path) -> Trace:
    """Reads a trace that the twin wrote.

    Args:
        path: the JSON file.

    Raises:
        ValueError: the file is not such a trace.
    """
    return parse_trace(Path(path).read_text(), str(path))


def parse_trace(text: str, source: str = "other JSON") -> Trace:
    """Reads the text of a trace; `source` says in messages where it came from.

    Raises:
        ValueError: it is not such a trace.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or "traceEvents" not in data or "note" not in data.get("otherData", {}):
        raise ValueError(f"path: expected a trace of the CPU twin, got {source}")
    other = data["otherData"]
    cores: dict[int, Core] = {}
    pipe_names: dict[tuple[int, int], str] = {}
    for event in data["traceEvents"]:
        if event["ph"] != "M":
            continue
        if event["name"] == "process_name":
            match = _CORE_NAME.fullmatch(event["args"]["name"])
            if match is None:
                raise ValueError(f"path: expected process names like 'block 0 AIC', got {event['args']['name']!r}")
            cores[event["pid"]] = Core(int(match[1]), match[2], int(match[3] or 0))
        elif event["name"] == "thread_name":
            pipe_names[event["pid"], event["tid"]] = event["args"]["name"]
    for event in data["traceEvents"]:
        if event["ph"] != "X":
            continue
        args = event["args"]
        end = event["ts"] + event["dur"]
        span = Span(
            event["name"],
            event["ts"],
            end,
            args.get("done", end),
            args.get("waited", 0.0),
            args.get("critical", False),
            args,
        )
        cores[event["pid"]].pipes.setdefault(pipe_names[event["pid"], event["tid"]], []).append(span)
    return Trace(
        other["kernel"], other["clock"], other["note"], other["microseconds"], other["complete"], list(cores.values())
    )


def busy_share(spans: Iterable[Span], start: float, end: float) -> float:
    """Share of the window [start, end) in microseconds during which a pipe was occupied, between 0 and 1.

    Spans may overlap (instructions that ran at once, waits); the time they cover counts once. Waits do not count.
    """
    covered = 0.0
    until = start
    for span in sorted((s for s in spans if not _is_sync(s)), key=lambda s: s.start):
        left = max(span.start, until)
        right = min(span.end, end)
        if right > left:
            covered += right - left
            until = right
    return covered / (end - start) if end > start else 0.0


def _is_sync(span: Span) -> bool:
    return span.name in {"set_flag", "wait_flag", "pipe_barrier", "ffts_cross_core_sync", "wait_flag_dev"}


def _draw_pipe(axes: Axes, row: int, pipe: str, spans: Sequence[Span], window: tuple[float, float]) -> None:
    height = 0.76
    bottom = row - height / 2
    visible = [s for s in spans if s.end >= window[0] and s.start <= window[1]]
    work = [(s.start, s.end - s.start) for s in visible if not _is_sync(s)]
    tails = [(s.end, s.done - s.end) for s in visible if not _is_sync(s) and s.done > s.end]
    waits = [(s.end - s.waited, s.waited) for s in visible if s.waited > 0]
    critical = [(s.start, s.end - s.start) for s in visible if s.critical and not _is_sync(s)]
    axes.broken_barh(waits, (bottom + height * 0.38, height * 0.24), facecolors="#dcdfe3", linewidth=0)
    axes.broken_barh(
        tails, (bottom + height * 0.3, height * 0.4), facecolors=PIPE_COLOURS[pipe], alpha=0.25, linewidth=0
    )
    axes.broken_barh(work, (bottom, height), facecolors=PIPE_COLOURS[pipe], edgecolors="white", linewidth=0.15)
    axes.broken_barh(critical, (bottom - 0.09, 0.07), facecolors="#1b1d21", linewidth=0)


def plot_pipes(
    trace: Trace,
    block: int = 0,
    start_us: float | None = None,
    end_us: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draws the pipes of one block, usually of one AIC and two AIVs, over time.

    A bar is an instruction that occupies its pipe, a pale tail the latency until its result is there, a grey bar a
    wait for a flag, a black line above the bars the critical path. The share at the right is that of the window shown.

    Args:
        trace: from `load_trace`.
        block: index of the block to draw.
        start_us: left edge in microseconds; the block's first instruction if None.
        end_us: right edge in microseconds; the block's last instruction if None.
        title: the kernel's name if None.

    Returns:
        A matplotlib figure; `figure.savefig(path)` writes it.

    Raises:
        ValueError: no such block, or an empty window.
    """
    from matplotlib.figure import Figure as NewFigure

    cores = trace.block(block)
    rows = [(core, pipe) for core in cores for pipe in PIPE_ORDER[core.kind] if core.pipes.get(pipe)]
    spans = [span for core, pipe in rows for span in core.pipes[pipe]]
    if not spans:
        raise ValueError(f"block: expected a block that executed something, got {block}")
    left = min(s.start for s in spans) if start_us is None else start_us
    right = max(s.done for s in spans) if end_us is None else end_us
    if not right > left:
        raise ValueError(f"end_us: expected more than start_us = {left}, got {right}")

    figure = NewFigure(figsize=(12, 1.3 + 0.42 * len(rows)), layout="constrained")
    axes = figure.subplots()
    labels = []
    for row, (core, pipe) in enumerate(rows):
        _draw_pipe(axes, row, pipe, core.pipes[pipe], (left, right))
        share = busy_share(core.pipes[pipe], left, right)
        axes.text(1.005, row, f"{100 * share:.0f} %", transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        labels.append(f"{core.name}  {pipe}")
        if row and rows[row - 1][0] is not core:
            axes.axhline(row - 0.5, color="#1b1d21", linewidth=0.6)
    axes.set_yticks(range(len(rows)), labels, fontsize=9, family="monospace")
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(left, right)
    axes.set_xlabel("microseconds from launch")
    axes.text(1, -0.085, KEY, transform=axes.transAxes, ha="right", va="top", fontsize=7.5, color="#5d636b")
    axes.grid(axis="x", color="#e7e9ec", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False)
    head = title if title is not None else f"{trace.kernel}, block {block}"
    axes.set_title(
        f"{head}: {trace.microseconds:.1f} µs, {trace.note} ({trace.clock} constants)", loc="left", fontsize=10
    )
    return figure


def main(argv: Sequence[str] | None = None) -> int:
    """Turns a trace into a PNG, PDF or SVG picture, by the ending of the output path."""
    parser = argparse.ArgumentParser(description="Draw the pipes of one block from a trace of the CPU twin.")
    parser.add_argument("trace", type=Path, help="JSON trace")
    parser.add_argument("picture", type=Path, help="picture to write")
    parser.add_argument("--block", type=int, default=0, help="block to draw (default 0)")
    parser.add_argument("--start", type=float, default=None, metavar="US", help="left edge in microseconds")
    parser.add_argument("--end", type=float, default=None, metavar="US", help="right edge in microseconds")
    parser.add_argument("--title", default=None, help="title instead of the kernel's name")
    options = parser.parse_args(argv)
    figure = plot_pipes(load_trace(options.trace), options.block, options.start, options.end, options.title)
    figure.savefig(options.picture, dpi=150)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
