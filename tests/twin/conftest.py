# SPDX-License-Identifier: Apache-2.0
"""Builds the twin's C++ test programs once per session and turns each of their cases into a test.

A test module that sets ``TWIN_PROGRAM = "checker"`` and takes the fixture ``twin_case`` gets one test per case that
``twin_checker --list`` prints. ``twin_program("example_matmul")`` gives the path of any built executable.

Environment: TWIN_BUILD_DIR puts the build elsewhere (default: build/twin of the checkout, where scripts/build_twin.sh
has compiled the twin already); TWIN_SANITIZE=1 builds with AddressSanitizer and UBSan, in a directory of its own.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300


@functools.cache
def build_dir() -> Path:
    """Configures and builds the test programs; returns the build directory."""
    sanitize = os.environ.get("TWIN_SANITIZE", "0") == "1"
    default = REPO / "build" / ("twin-sanitize" if sanitize else "twin")
    directory = Path(os.environ.get("TWIN_BUILD_DIR", str(default)))
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed", allow_module_level=True)
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as lock:  # two processes must not build at once; the scripts take it too
        fcntl.flock(lock, fcntl.LOCK_EX)
        configure = ["cmake", "-S", str(REPO), "-B", str(directory), "-DASA_TWIN_TESTS=ON"]
        configure += [f"-DCPU_TWIN_SANITIZE={'ON' if sanitize else 'OFF'}"]
        build = ["cmake", "--build", str(directory), "--target", "twin_tests", "--parallel", "2"]
        for command in (configure, build):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                pytest.fail(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}", pytrace=False)
    return directory


def find_program(name: str) -> Path:
    for path in (build_dir() / name, build_dir() / "cpu_twin" / "examples" / name):
        if path.is_file():
            return path
    pytest.fail(f"no program called {name} was built in {build_dir()}", pytrace=False)


def run_program(path: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(path), *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **(env or {})}
    )


@functools.cache
def cases_of(program: str) -> tuple[str, ...]:
    done = run_program(find_program(f"twin_{program}"), "--list")
    assert done.returncode == 0, done.stderr
    return tuple(done.stdout.split())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "twin_case" in metafunc.fixturenames:
        metafunc.parametrize("twin_case", cases_of(metafunc.module.TWIN_PROGRAM), indirect=True)


@pytest.fixture
def twin_case(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Runs the parametrised case; fails with what it printed."""
    program, case = find_program(f"twin_{request.module.TWIN_PROGRAM}"), request.param

    def run() -> None:
        done = run_program(program, "--run", case)
        assert done.returncode == 0, f"{case}\n{done.stdout}{done.stderr}"

    return run


@pytest.fixture
def twin_program() -> Callable[[str], Path]:
    return find_program


@pytest.fixture
def twin_run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """twin_run("example_matmul", "m=64") runs a built program."""

    def run(name: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return run_program(find_program(name), *arguments, env=env)

    return run
