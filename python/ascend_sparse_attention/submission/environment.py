# SPDX-License-Identifier: Apache-2.0
"""The build and the fresh environment a submission is installed into."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

#: cann-bench's limits, in seconds.
BUILD_SECONDS = 600
INSTALL_SECONDS = 60
RUN_PACKAGE_SECONDS = 120

# Not part of a submission, and large.
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "*.egg-info", ".pytest_cache", ".mypy_cache")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (None: it ran out of time) and everything it wrote."""

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
        tail = "\n".join(self.output.strip().splitlines()[-12:])
        return f"{head}; its last words:\n{tail}" if tail else f"{head}, and it wrote nothing"


def run(command: list[str], *, cwd: Path, seconds: float, env: dict[str, str] | None = None) -> Ended:
    """Run a command to its end or its limit; on the limit its whole process group is ended."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return Ended(process.returncode, output)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return Ended(None, output)


def clean_copy(source: Path, target: Path) -> Path:
    """A copy to build in; build/ and dist/ are wiped as the evaluator wipes them, where it has to build."""
    shutil.copytree(source, target, ignore=_LEFT_BEHIND, symlinks=True)
    if not any((target / "dist").glob("cann_bench*.whl")):
        for name in ("build", "dist"):
            shutil.rmtree(target / name, ignore_errors=True)
    return target


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
