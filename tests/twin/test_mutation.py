# SPDX-License-Identifier: Apache-2.0
"""Correct kernels with one thing wrong: each synchronisation left out in turn, and three errors off by one.

The launch option ``drop`` leaves a call site out without another build. Every site must be missed: by a finding, a
wrong result or a deadlock; or be listed in REDUNDANT with the reason why the kernel is right without it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# A site that one shape does not need is tried with the next.
SHAPES = {
    "row_softmax": ["rows=61 cols=77 cores=2 tile=8", "rows=61 cols=33 cores=2 tile=8"],
    "matmul": ["m=260 n=140 k=270 cores=2"],
    "gather_matmul": ["count=217 k=192 n=40 tile=16 cores=4"],
}
# (what the site is, text of its source line) -> why nothing is wrong without it.
REDUNDANT = {
    ("pipe_barrier ALL", "SyncAll();"): "MTE3 itself sets the flag, after the partial sums it has stored",
    ("pipe_barrier ALL", "TPipe pipe;"): "the end of the kernel waits for all pipes as well",
    (
        "pipe_barrier FIX",
        "Fixpipe<",
    ): "holds back registers of the next Fixpipe, which a Fixpipe reads when it is issued",
}
EXAMPLES = Path(__file__).resolve().parents[2] / "cpu_twin" / "examples"
PLANTED = "count=217 k=64 n=40 tile=16 cores=4 table=2".split()


def reason(example: str, key: str) -> str | None:
    """Why this site may be left out, or None."""
    what, place = key.rsplit(" ", 1)
    name, line = place.split(":")
    text = (EXAMPLES / example / name).read_text().splitlines()[int(line) - 1].strip()
    return next((why for (kind, start), why in REDUNDANT.items() if what == kind and text.startswith(start)), None)


@pytest.mark.parametrize("example", SHAPES)
def test_each_synchronisation_left_out(twin_run: Run, example: str) -> None:
    def sites(shape: str) -> list[str]:
        listed = twin_run(f"example_{example}", *shape.split(), "sync=1").stdout.splitlines()
        return [line.removeprefix("sync ") for line in listed if line.startswith("sync ")]

    def caught(key: str) -> bool:
        for shape in SHAPES[example]:
            done = twin_run(f"example_{example}", *shape.split(), f"drop={key}")
            assert done.returncode in (0, 1), f"{key}: exit {done.returncode}\n{done.stdout}{done.stderr}"
            if done.returncode == 1:
                return True
        return False

    keys = sorted({key for shape in SHAPES[example] for key in sites(shape)})
    assert len(keys) > 5, keys
    with ThreadPoolExecutor(2) as pool:
        outcome = dict(zip(keys, pool.map(caught, keys), strict=True))
    unnoticed = [key for key, found in outcome.items() if not found and reason(example, key) is None]
    assert not unnoticed, f"left out of {example} without anything found: {unnoticed}"
    stale = [key for key, found in outcome.items() if found and reason(example, key) is not None]
    assert not stale, f"listed as redundant, and not: {stale}"


def test_the_copy_that_errors_are_planted_in_is_right(twin_run: Run) -> None:
    done = twin_run("twin_planted", *PLANTED, env={"PLANTED": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "RIGHT, 0 findings"


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("1", "but the tensor ends at byte 256"),
        ("2", "error: race: write of GM tensor 'workspace'"),
        ("3", "index 512 lies outside the tensor's 512 elements"),
    ],
)
def test_an_error_off_by_one(twin_run: Run, planted: str, expected: str) -> None:
    done = twin_run("twin_planted", *PLANTED, env={"PLANTED": planted})
    assert done.returncode == 1, done.stdout + done.stderr
    assert expected in done.stdout, done.stdout
