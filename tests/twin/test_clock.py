# SPDX-License-Identifier: Apache-2.0
"""The twin's clock: its parts, the published figures it is held against, and what it writes.

Figures: tests/twin/clock/*_figures.cpp, each with its source; docs/twin_clock.md shows them all. Those that no constant
was chosen on must come out within 10 %.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ascend_sparse_attention.twin_trace import busy_share, load_trace, main, plot_pipes

TWIN_PROGRAM = "clock"
REPO = Path(__file__).resolve().parents[2]


def test_clock(twin_case: Callable[[], None]) -> None:
    twin_case()


def test_the_page_in_docs_is_what_the_tables_say(twin_program: Callable[[str], Path]) -> None:
    command = [sys.executable, str(REPO / "cpu_twin/tools/clock_doc.py"), str(twin_program("twin_clock")), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"docs/twin_clock.md is stale: run cpu_twin/tools/clock_doc.py\n{done.stderr}"


def span(pid: int, tid: int, name: str, start: float, length: float, **args: object) -> dict[str, object]:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": start,
        "dur": length,
        "args": {"at": "k.cpp:1", **args},
    }


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    """A block of one AIC and two AIVs, and an AIV of another block."""
    names = ["block 0 AIC", "block 0 AIV0", "block 0 AIV1", "block 1 AIV0"]
    events: list[dict[str, object]] = []
    for pid, name in enumerate(names):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
        for tid, pipe in enumerate(("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")):
            events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": pipe}})
    events += [
        span(0, 4, "copy_gm_to_cbuf_nd2nz", 1.0, 2.0, done=3.5, critical=True),
        span(0, 2, "mad", 4.0, 4.0),
        span(0, 2, "wait_flag", 3.0, 1.0, waited=1.0),
        span(1, 1, "vadd", 1.0, 4.0),
        span(1, 1, "vmul", 4.0, 2.0),
        span(2, 1, "vadd", 2.0, 1.0),
        span(3, 1, "vadd", 2.0, 9.0),
    ]
    other = {"note": "predicted by the twin's cycle model", "kernel": "demo", "clock": "expected"}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"otherData": {**other, "microseconds": 8.5, "complete": True}, "traceEvents": events}))
    return path


def test_load_trace(trace_file: Path) -> None:
    trace = load_trace(trace_file)
    assert (trace.kernel, trace.clock, trace.microseconds) == ("demo", "expected", 8.5)
    assert [core.name for core in trace.block(0)] == ["AIC", "AIV0", "AIV1"]
    copy = trace.block(0)[0].pipes["MTE2"][0]
    assert (copy.start, copy.end, copy.done, copy.critical) == (1.0, 3.0, 3.5, True)


def test_busy_share_counts_overlaps_once_and_no_waits(trace_file: Path) -> None:
    aic, aiv0, _ = load_trace(trace_file).block(0)
    assert busy_share(aiv0.pipes["V"], 0.0, 10.0) == pytest.approx(0.5)
    assert busy_share(aic.pipes["M"], 0.0, 8.0) == pytest.approx(0.5)
    assert busy_share(aic.pipes["M"], 5.0, 6.0) == pytest.approx(1.0)


def test_plot_says_that_it_is_predicted(trace_file: Path) -> None:
    figure = plot_pipes(load_trace(trace_file))
    (axes,) = figure.axes
    assert "predicted by the twin's cycle model" in axes.get_title(loc="left")
    assert [label.get_text().split() for label in axes.get_yticklabels()] == [
        ["AIC", "MTE2"],
        ["AIC", "M"],
        ["AIV0", "V"],
        ["AIV1", "V"],
    ]


@pytest.mark.parametrize("block, start, end", [(7, None, None), (0, 5.0, 5.0)])
def test_plot_refuses(trace_file: Path, block: int, start: float | None, end: float | None) -> None:
    with pytest.raises(ValueError, match="expected"):
        plot_pipes(load_trace(trace_file), block, start, end)


def test_load_refuses_other_json(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("[1, 2]")
    with pytest.raises(ValueError, match="expected a trace of the CPU twin"):
        load_trace(path)


def test_command_writes_a_picture(trace_file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "pipes.png"
    assert main([str(trace_file), str(picture), "--block", "0"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_drawing_needs_no_torch(trace_file: Path, tmp_path: Path) -> None:
    # The tool next to the twin loads the module by its path: neither the package nor torch may be pulled in.
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['trace_to_png.py', {str(trace_file)!r}, {str(tmp_path / 'p.svg')!r}]\n"
        "try:\n"
        f"    runpy.run_path({str(REPO / 'cpu_twin/tools/trace_to_png.py')!r}, run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert stop.code == 0, stop.code\n"
        "assert 'torch' not in sys.modules and 'ascend_sparse_attention' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_trace_of_the_mix_kernel(twin_run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    done = twin_run("twin_trace", "gather_matmul", str(path), "count=256", "cores=1")
    assert done.returncode == 0, done.stdout + done.stderr
    for outlook in ("expected", "optimistic", "pessimistic"):
        assert f"predicted by the twin's cycle model ({outlook})" in done.stdout
    trace = load_trace(path)
    block = trace.block(0)
    assert [core.name for core in block] == ["AIC", "AIV0", "AIV1"]
    assert trace.complete and any(s.critical for core in block for spans in core.pipes.values() for s in spans)
    assert any(s.name == "mad" for s in block[0].pipes["M"])
    # The critical path has no hole: from the first instruction to the end every moment lies in a step of it.
    steps = sorted((s.start, s.done) for core in block for spans in core.pipes.values() for s in spans if s.critical)
    reached = steps[0][0]
    for start, end in steps:
        assert start <= reached + 0.5, (start, reached)  # half a microsecond: issue by the scalar unit has no bar
        reached = max(reached, end)
    assert reached == pytest.approx(trace.microseconds, abs=0.01)
    # In one pipe, one instruction at a time.
    for core in block:
        for pipe, spans in core.pipes.items():
            work = sorted((s for s in spans if s.waited == 0), key=lambda s: s.start)
            for earlier, later in itertools.pairwise(work):
                assert later.start >= earlier.end - 1e-3, (core.name, pipe, earlier.name, later.name)
