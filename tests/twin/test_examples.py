# SPDX-License-Identifier: Apache-2.0
"""The example kernels in the twin: right, without a finding, and the same however they are executed.

An example ends with exit code 0 only if every element is within its allowance and the checker has found nothing.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SMALLEST_AND_ODD = [
    ("row_softmax", "rows=1 cols=1 cores=1"),
    ("row_softmax", "rows=50 cols=100"),
    ("row_softmax", "rows=7 cols=63 type=half cores=3"),
    ("row_softmax", "rows=33 cols=65 type=bfloat16 cores=5 tile=8"),
    ("row_softmax", "rows=9 cols=1021 type=half cores=2 tile=8"),
    ("matmul", "m=1 n=1 k=1 cores=1"),
    ("matmul", "m=200 n=150 k=300"),
    ("matmul", "m=1 n=129 k=257 transpose=1 out=half"),
    ("matmul", "m=129 n=1 k=17 in=bfloat16 out=bfloat16"),
    ("matmul", "m=17 n=143 k=513 in=bfloat16 transpose=1 cores=2"),
    ("gather_matmul", "count=1 k=16 n=1 table=1 cores=1"),
    ("gather_matmul", "count=333 k=192 n=100"),
    ("gather_matmul", "count=65 k=48 n=17 tile=16 cores=2 table=5"),
    ("gather_matmul", "count=2 k=16 n=33 tile=64 cores=3"),
]
TRIED_IN_ALL_ORDERS = [
    ("row_softmax", "rows=61 cols=77 cores=6 tile=8"),
    ("matmul", "m=260 n=140 k=270 cores=3"),
    ("gather_matmul", "count=217 k=64 n=40 tile=16 cores=4"),
]


def random_shapes() -> Iterator[tuple[str, str]]:
    chosen = random.Random(20)
    for _ in range(6):
        kind = chosen.choice(["float", "half", "bfloat16"])
        rows, cols, cores = chosen.randint(1, 90), chosen.randint(1, 700), chosen.randint(1, 8)
        yield "row_softmax", f"rows={rows} cols={cols} type={kind} cores={cores} tile=8"
    for _ in range(6):
        m, n, k = chosen.randint(1, 200), chosen.randint(1, 200), chosen.randint(1, 600)
        source = chosen.choice(["half", "bfloat16"])
        result = chosen.choice(["float", source])
        flags = f"in={source} out={result} transpose={chosen.randint(0, 1)} cores={chosen.randint(1, 4)}"
        yield "matmul", f"m={m} n={n} k={k} {flags}"
    for _ in range(6):
        count, k, n = chosen.randint(1, 300), 16 * chosen.randint(1, 12), chosen.randint(1, 120)
        tile, cores = chosen.choice([16, 32, 64]), chosen.randint(1, 4)
        yield "gather_matmul", f"count={count} k={k} n={n} table={chosen.randint(1, 400)} tile={tile} cores={cores}"


def lines_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What a run printed, without the wall time."""
    return [line for line in done.stdout.splitlines() if not line.startswith("seconds ")]


def outputs_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("outputs "))


@pytest.mark.parametrize(("example", "arguments"), [*SMALLEST_AND_ODD, *random_shapes()])
def test_right_and_without_a_finding(twin_run: Run, example: str, arguments: str) -> None:
    done = twin_run(f"example_{example}", *arguments.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "RIGHT, 0 findings"


@pytest.mark.parametrize(("example", "arguments"), TRIED_IN_ALL_ORDERS)
def test_the_order_of_execution_changes_nothing(twin_run: Run, example: str, arguments: str) -> None:
    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return twin_run(f"example_{example}", *arguments.split(), *more)

    first = run("sync=1")
    assert lines_of(run("sync=1")) == lines_of(first), "two runs differ"
    assert lines_of(run("sync=1", "threads=2")) == lines_of(first), "two threads change the report"
    for seed in (1, 2, 3, 12345):
        assert outputs_of(run(f"order={seed}")) == outputs_of(first), f"order={seed} changes the outputs"
    assert outputs_of(run("check=0")) == outputs_of(first), "the checker changes the outputs"
    assert outputs_of(run("seed=9")) != outputs_of(first), "other inputs must give other outputs"


@pytest.mark.parametrize(("example", "arguments"), TRIED_IN_ALL_ORDERS)
def test_a_flag_left_out_is_found_in_every_order(twin_run: Run, example: str, arguments: str) -> None:
    """The first wait of each kernel left out: reported at lines of the kernel, whatever the order of execution."""
    listed = twin_run(f"example_{example}", *arguments.split(), "sync=1").stdout.splitlines()
    key = next(line.removeprefix("sync ") for line in listed if line.startswith("sync wait_flag "))
    for seed in (0, 1, 7):
        done = twin_run(f"example_{example}", *arguments.split(), f"drop={key}", f"order={seed}")
        assert done.returncode == 1, f"{key} was left out and nothing was found"
        assert f"{example}_kernel.cpp:" in done.stdout, done.stdout
        assert int(done.stdout.splitlines()[-1].split()[-2]) > 0


@pytest.mark.parametrize(
    ("example", "argument", "named"),
    [
        ("matmul", "m=0", "m"),
        ("matmul", "in=float", "in"),
        ("row_softmax", "tile=12", "tile"),
        ("row_softmax", "type=double", "type"),
        ("gather_matmul", "k=17", "k"),
        ("gather_matmul", "columns=3", "columns"),
    ],
)
def test_a_wrong_argument_is_named(twin_run: Run, example: str, argument: str, named: str) -> None:
    done = twin_run(f"example_{example}", argument)
    assert done.returncode == 2
    assert named in done.stderr.splitlines()[0]


def test_hello(twin_run: Run) -> None:
    done = twin_run("example_hello")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "0 2 ... 126"


def test_a_matmul_of_1024_cubed_with_the_checker_on_takes_less_than_20_s(twin_run: Run) -> None:
    done = twin_run("example_matmul", "m=1024", "n=1024", "k=1024", "cores=8", "verify=0")
    assert done.returncode == 0, done.stdout + done.stderr
    seconds = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("seconds "))
    assert float(seconds) < 20
