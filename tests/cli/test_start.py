# SPDX-License-Identifier: Apache-2.0
"""`sfa` from its first instruction to its last: version, imports that are interrupted or fail, readers that go."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ascend_sparse_attention.precision import report

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
# What pip makes of the entry point.
MODULE, FUNCTION = re.search(r'^sfa = "(\w+):(\w+)"$', PROJECT, re.M).groups()
PROGRAM = f"import sys; from {MODULE} import {FUNCTION}; sys.argv[0] = 'sfa'; {FUNCTION}()"
CHECK = ("check", "quickstart", "--case", "mla-decode", "--backend", "cpu")


def start(*arguments, first_on_path=None, ignored=False, **options):
    path = [str(ROOT / "python"), *sys.path]
    if first_on_path is not None:
        path.insert(0, str(first_on_path))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "NO_COLOR": "1"}
    # A test run that a shell put into the background has SIGINT ignored, and hands that down.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], env=env, stderr=subprocess.PIPE, **options)
    finally:
        signal.signal(signal.SIGINT, before)


def test_version():
    process = start("--version", stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    version = re.search(r'^version = "(.*)"$', PROJECT, re.M)[1]
    assert (process.returncode, out.decode(), err) == (0, f"sfa {version}\n", b"")


def test_module_without_installing():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    words = [sys.executable, "-m", MODULE, "--version"]
    assert subprocess.run(words, env=env, capture_output=True, text=True, timeout=60).stdout.startswith("sfa ")


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("check", "-h"), ("env",), CHECK, (*CHECK, "--json", "/dev/stdout")],
    ids=["help", "version", "check help", "env", "check", "report"],
)
def test_reader_that_has_gone(arguments):
    """As `sfa ... | head -0`: no word of it, and the exit code that a shell shows for SIGPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*arguments, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 141
    for word in (b"Traceback", b"Exception", b"roken pipe", b"error:"):
        assert word not in err, err.decode()


def test_report_into_a_pipe_without_reader_is_lost_output(tmp_path, monkeypatch):
    """A reader of the report alone is no reader of the output: that it has gone is said."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading, opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), os.open

    def open_and_lose_the_reader(*arguments):
        descriptor = opened(*arguments)
        os.close(reading)
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(report.os, "open", open_and_lose_the_reader)
        with pytest.raises(report.ReportError, match=r"pipe: the report could not be written: Broken pipe"):
            report.write_atomically(pipe, "text")


@pytest.fixture
def slow_torch(tmp_path):
    """A torch whose import says that it has begun and then takes long, catching what an import may catch."""
    folder = tmp_path / "slow"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(
        "import sys, time\nprint('importing', flush=True)\n"
        "try:\n    time.sleep(60)\nexcept BaseException as error:\n    raise ImportError('half way') from error\n"
    )
    return folder


def test_interrupted_while_importing(slow_torch):
    process = start("--help", first_on_path=slow_torch, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"importing\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"interrupted\n")


def test_an_ignored_interrupt_stays_ignored(slow_torch):
    process = start("--help", first_on_path=slow_torch, ignored=True, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"importing\n"
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.kill()
    process.communicate()


def test_interrupted_while_ending(tmp_path):
    """Python's own end (threads, atexit) knows only tracebacks."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, time\ndef slow():\n    print('ending', flush=True)\n    time.sleep(60)\natexit.register(slow)\n"
    )
    process = start("--version", first_on_path=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"sfa ") and process.stdout.readline() == b"ending\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"interrupted\n")


@pytest.mark.parametrize(
    ("body", "last"),
    [
        ("raise ModuleNotFoundError('no module', name='torch')", "error: sfa needs torch, which is not installed"),
        ("raise OSError('libtorch.so: no such file')", "OSError: libtorch.so: no such file"),
    ],
)
def test_an_import_that_fails_is_no_verdict(tmp_path, body, last):
    (tmp_path / "torch.py").write_text(body + "\n")
    process = start("env", first_on_path=tmp_path, stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and not out and err.decode().splitlines()[-1] == last
