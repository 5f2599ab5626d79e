# SPDX-License-Identifier: Apache-2.0
"""The build and the fresh environment a submission is installed into."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: cann-bench's limits, in seconds.
BUILD_SECONDS = 600
INSTALL_SECONDS = 60
RUN_PACKAGE_SECONDS = 120

# Not part of a submission, and large.
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "*.egg-info", ".pytest_cache", ".mypy_cache")

#: How much of a command's output is kept.
_KEPT_BYTES = 1 << 16

# Colours, cursor movements and window titles; whatever else a terminal would act on.
_TERMINAL_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\\\)?)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class SubmissionError(Exception):
    """The check cannot begin; the message says what was expected and what came."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (None: it ran out of time) and the end of what it wrote."""

    code: int | None
    output: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    def how(self) -> str:
        """The end in words, with the last lines of what it wrote."""
        if self.code is None:
            head = "it ran out of time"
        elif self.code < 0:
            try:
                head = f"it died of {signal.Signals(-self.code).name}"
            except ValueError:
                head = f"it died of signal {-self.code}"
        else:
            head = f"exit code {self.code}"
        lines = _TERMINAL_CODES.sub("", self.output).strip().splitlines()[-12:]
        tail = "\n".join(_CONTROLS.sub("?", line if len(line) <= 500 else f"{line[:500]} ...") for line in lines)
        return f"{head}; its last words:\n{tail}" if tail else f"{head}, and it wrote nothing"


def run(command: list[str], *, cwd: Path, seconds: float, env: dict[str, str] | None = None) -> Ended:
    """Run a command to its end or its limit.

    Whatever is left of its process group then is ended too, also when this program is interrupted. Only the end of what
    it writes is kept, however much that is.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return Ended(126, f"{command[0]} could not be started: {error.strerror}")
    assert process.stdout is not None
    with process.stdout as pipe:
        kept = bytearray()
        limit = time.monotonic() + seconds
        try:
            _read(pipe.fileno(), kept, limit, lambda: process.poll() is not None)
            code: int | None = process.wait(timeout=max(limit - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        # What stood in the pipe. A process of another session may hold the other end for ever.
        _read(pipe.fileno(), kept, time.monotonic() + 1.0, lambda: True)
    return Ended(code, kept.decode(errors="replace"))


def _read(pipe: int, kept: bytearray, limit: float, ended: Callable[[], bool]) -> None:
    """Read until nobody holds the other end, the limit, or `ended` and it is silent or has had another second."""
    over = False
    while (left := limit - time.monotonic()) > 0:
        if not over and ended():
            over, limit = True, min(limit, time.monotonic() + 1.0)
        if select.select([pipe], [], [], 0.0 if over else min(left, 0.1))[0]:
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                return
            kept += chunk
            del kept[:-_KEPT_BYTES]
        elif over:
            return


def clean_copy(source: Path, target: Path) -> Path:
    """A copy to build in; build/ and dist/ are wiped as the evaluator wipes them, where it has to build.

    A link within the submission stays one within the copy, so that a build does not write into the original.

    Raises:
        SubmissionError: what is there cannot be copied, or does not fit.
    """
    wiped = {"build", "dist"} if not any((source / "dist").glob("cann_bench*.whl")) else set()

    def ignore(folder: str, names: list[str]) -> set[str]:
        left: set[str] = set(_LEFT_BEHIND(folder, names))
        return left | (wiped & set(names) if Path(folder) == source else set())

    _check_contents(source, target.parent, ignore)
    try:
        shutil.copytree(source, target, ignore=ignore, symlinks=True)
    except shutil.Error as error:
        path, _, why = error.args[0][0]
        raise SubmissionError(f"directory: {path} cannot be copied: {why}") from error
    except OSError as error:
        raise SubmissionError(f"directory: {error.filename} cannot be copied: {error.strerror}") from error
    for folder, folders, files in os.walk(target):
        os.chmod(folder, os.stat(folder).st_mode | stat.S_IRWXU)  # of a read-only original too
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                real = Path(os.path.realpath(source / path.relative_to(target)))
                within = real.is_relative_to(source)
                wanted = os.path.relpath(target / real.relative_to(source), folder) if within else str(real)
                if os.readlink(path) != wanted:
                    path.unlink()
                    path.symlink_to(wanted)
    return target


def _check_contents(source: Path, target: Path, ignore: Callable[[str, list[str]], set[str]]) -> None:
    """Refuse what would fill the disk, hang or fail half way."""

    def unreadable(error: OSError) -> None:
        raise SubmissionError(f"directory: {error.filename} cannot be read: {error.strerror}") from error

    free = shutil.disk_usage(target).free
    total, largest = 0, (0, source)
    for folder, folders, files in os.walk(source, onerror=unreadable):
        left = ignore(folder, [*folders, *files])
        folders[:] = [name for name in folders if name not in left]
        for name in set(files) - left:
            path = Path(folder, name)
            found = path.lstat()
            if stat.S_ISREG(found.st_mode):
                total += found.st_size
                largest = max(largest, (found.st_size, path))
            elif not stat.S_ISLNK(found.st_mode):
                raise SubmissionError(f"directory: expected files, folders and links, got {path}, a pipe or device")
    if total > free:
        raise SubmissionError(
            f"directory: expected at most {free >> 20:,} MiB, which are free in {target}, got {total >> 20:,} MiB, "
            f"{largest[0] >> 20:,} of them in {largest[1]}"
        )


def build_environment() -> dict[str, str]:
    """The environment of the build: this interpreter first on PATH, as `python3` and `python`."""
    env = dict(os.environ)
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"
    env.pop("PYTHONPATH", None)
    return env


@dataclass(frozen=True)
class FreshEnvironment:
    """A new virtual environment that sees this interpreter's torch and numpy, but no editable installs."""

    root: Path

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.root / "lib" / version / "site-packages"

    def create(self) -> Ended:
        # Unpacking another pip takes longer than all the rest; the path file below brings this interpreter's, if any.
        own_pip = ["--without-pip"] if importlib.util.find_spec("pip") is not None else []
        ended = run([sys.executable, "-m", "venv", *own_pip, str(self.root)], cwd=self.root.parent, seconds=120)
        if ended.ok:
            # A path file adds the folder but does not follow path files in it: the submission has to stand on its own.
            paths = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
            (self.site_packages / "machine.pth").write_text("".join(f"{path}\n" for path in paths))
        return ended

    def install(self, wheel: Path) -> Ended:
        """Install the wheel with the evaluator's own flags."""
        command = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", "--force-reinstall"]
        return run([*command, "--no-deps", str(wheel)], cwd=self.root, seconds=INSTALL_SECONDS)

    def probe(self, folder: Path, seconds: float) -> Ended:
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        script = Path(__file__).with_name("probe.py")
        return run(
            [str(self.python), "-P" if sys.version_info >= (3, 11) else "-s", str(script), str(folder)],
            cwd=folder,
            seconds=seconds,
            env=env,
        )
