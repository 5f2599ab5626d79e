# SPDX-License-Identifier: Apache-2.0
"""Where `sfa` writes: devices, pipes and links stay what they are, and lost output is no verdict."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

CASES = """
version: 1
defaults: {layout: BSND, dtype: float16, S1: 2, S2: 96, N1: 4, N2: 1, Dk: 64, Dv: 64, topK: 32}
cases:
- {id: one, B: 1}
- {id: none, B: 0}
"""
PROGRAM = "from ascend_sparse_attention_cli import main; main()"


@pytest.fixture(autouse=True)
def folder(tmp_path, sfa):  # sfa makes it the working folder
    (tmp_path / "cases.yaml").write_text(CASES)
    np.save(tmp_path / "a.npy", np.linspace(-1, 1, 64, dtype=np.float32))
    return tmp_path


CHECK = ("check", "cases.yaml", "--case", "one", "--backend", "cpu")
COMPARE = ("compare", "a.npy", "a.npy", "--policy", "spec")
# Every command that writes, up to the name of its output.
WRITERS = {
    "check json": (*CHECK, "--json"),
    "check html": (*CHECK, "--html"),
    "compare": (*COMPARE, "--json"),
    "env": ("env", "--json"),
    "trace": ("trace", "cases.yaml", "--case", "one", "-o"),
}


@pytest.mark.parametrize("arguments", WRITERS.values(), ids=list(WRITERS))
def test_links_and_pipes_stay(sfa, folder, arguments):
    (folder / "real").write_text("old")
    os.symlink("real", "link")
    os.symlink("later", "dangling")
    for name in ("link", "dangling"):
        assert sfa(*arguments, name)[0] in (0, 1)
        assert os.path.islink(name) and os.path.getsize(name) > 100
    assert (folder / "real").read_text() != "old" and (folder / "later").is_file()
    os.mkfifo("pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((folder / "pipe").read_bytes()))
    reader.start()
    assert sfa(*arguments, "pipe")[0] in (0, 1)
    reader.join()
    assert stat.S_ISFIFO(os.stat("pipe").st_mode) and len(got[0]) > 100
    assert sorted(os.listdir()) == ["a.npy", "cases.yaml", "dangling", "later", "link", "pipe", "real"]


def test_device_nodes_stay(sfa, folder):
    """A node made here, so that a fault does not cost the machine its /dev/null."""
    try:
        os.mknod("null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        open("null", "w").close()
    except OSError:
        pytest.skip("may not make device nodes here")
    for arguments in WRITERS.values():
        assert sfa(*arguments, "null")[0] in (0, 1)
        assert stat.S_ISCHR(os.stat("null").st_mode)
    assert sfa(*CHECK, "--json", "null", "--html", "null")[0] == 0


def program(*arguments, **options):
    options["env"] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.PIPE, **options)


def test_report_on_standard_output(folder):
    """The report alone goes there, the text to standard error; also where the output is redirected to a file."""
    process = program(*CHECK, "--json", "/dev/stdout", stdout=subprocess.PIPE)
    out, err = process.communicate()
    assert process.returncode == 0 and json.loads(out)["summary"]["passed"] == 1 and b"1 of 1 PASS" in err
    with open("redirected", "wb") as file:
        file.write(b"before\n")
        file.flush()
        assert program(*COMPARE, "--json", "/dev/stdout", stdout=file).wait() == 0
    before, rest = (folder / "redirected").read_text().split("\n", 1)
    assert before == "before" and json.loads(rest)["summary"]["passed"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*CHECK, "--json", "f", "--html", "f"), "--html: expected a file of its own, got f, which is that of --json"),
        ((*CHECK, "--json", "f", "--html", "./x/../f"), "--html: expected a file of its own"),
        ((*CHECK, "--json", "cases.yaml"), "--json: expected a file of its own, got cases.yaml, which is the input"),
        ((*COMPARE, "--json", "a.npy"), "which is the input too"),
        (("trace", "cases.yaml", "--case", "one", "-o", "f.svg", "--png", "f.svg"), "--png: expected a file of"),
        (("trace", "cases.yaml", "--case", "one", "-o", "cases.yaml"), "which is the input too"),
        ((*CHECK, "--json", "n" * 300), "File name too long"),
    ],
)  # fmt: skip
def test_outputs_of_their_own(sfa, folder, arguments, words):
    os.mkdir("x")
    code, out, err = sfa(*arguments)
    assert code == 2 and words in err and not out
    assert sorted(os.listdir()) == ["a.npy", "cases.yaml", "x"] and (folder / "cases.yaml").read_text() == CASES


def test_block_is_checked_before_the_run(sfa, monkeypatch):
    from ascend_sparse_attention import twin

    monkeypatch.setattr(twin, "run", None)
    code, _, err = sfa("trace", "cases.yaml", "--case", "one", "-o", "t", "--png", "t.png", "--block", "99")
    assert code == 2 and "--block: expected 0 .. " in err and "got 99" in err and not os.path.exists("t")


@pytest.mark.parametrize("arguments", [CHECK, ("trace", "cases.yaml", "--case", "one", "-o", "t")])
@pytest.mark.parametrize("name", ["public", "quickstart"])
def test_folder_shadows_no_bundled_case(sfa, monkeypatch, name, arguments):
    os.mkdir(name)
    code, _, err = sfa(arguments[0], name, "--case", "no such", *arguments[4:])
    assert code == 2 and "--case no such: expected one of" in err


def test_closed_pipe_is_no_verdict():
    process = program(*CHECK, stdout=subprocess.PIPE)
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait() == 141 and b"Traceback" not in err and b"Exception" not in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [CHECK, COMPARE, ("--help",)])
def test_full_output_is_no_verdict(arguments):
    with open("/dev/full", "w") as full:
        process = program(*arguments, stdout=full)
        err = process.stderr.read().decode()
    assert process.wait() == 2
    assert [line for line in err.splitlines() if "PASS" not in line] == [
        "error: the output could not be written: No space left on device"
    ]


def test_interrupt_prints_one_line():
    # A test run that a shell put into the background has SIGINT ignored, and hands that down.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = program("check", "public", "--backend", "cpu", stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    process.stdout.readline()  # the run has begun
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.decode().splitlines()[-1] == "interrupted" and b"Traceback" not in err


def test_fault_of_the_program_is_no_verdict(sfa, monkeypatch):
    from ascend_sparse_attention.precision import runner

    monkeypatch.setattr(runner, "check_runnable", lambda *_: 1 // 0)
    code, _, err = sfa(*CHECK)
    assert code == 2 and "ZeroDivisionError" in err


def test_empty_results_are_not_out_of_reach(sfa):
    np.save("nan.npy", np.full(8, np.nan, dtype=np.float32))
    np.save("empty.npy", np.zeros((0, 4), dtype=np.float32))
    for arguments in (
        ("check", "cases.yaml", "--case", "none"),
        ("compare", "nan.npy", "nan.npy"),
        ("compare", "empty.npy", "empty.npy"),
    ):
        code, out, _ = sfa(*arguments, "--json", "r.json")
        assert code == 1 and "EMPTY" in out and "out of reach" not in out and "no output can pass" not in out
        with open("r.json") as file:
            assert json.load(file)["summary"]["spec_out_of_reach"] == 0
        assert sfa(*arguments, "--allow-empty")[0] == 0


def test_file_name_that_is_no_utf8(sfa):
    name = os.fsdecode(b"a\xff.npy")
    os.rename("a.npy", name)
    assert sfa("compare", name, name, "--policy", "spec", "--json", "r.json")[0] == 0
    with open("r.json") as file:
        assert json.load(file)["run"]["actual"] == name


@pytest.mark.parametrize(
    "option", [("--cores", "-1"), ("--cores", str(2**32)), ("--seed", "-1"), ("--seed", str(2**31))]
)
def test_integers_that_would_wrap(sfa, option):
    code, _, err = sfa("trace", "cases.yaml", "--case", "one", "-o", "t", *option)
    assert code == 2 and option[0] in err and not os.path.exists("t")
    if option[0] == "--seed":
        assert sfa(*CHECK, *option)[0] == 2
