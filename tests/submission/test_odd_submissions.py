# SPDX-License-Identifier: Apache-2.0
"""`sfa check-submission` on folders that hold strange things, and on builds that hang, spew or leave things behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest
from ascend_sparse_attention.submission import Options, SubmissionError, check_submission, environment
from ascend_sparse_attention.submission.environment import clean_copy, run
from ascend_sparse_attention.submission.source_scan import scan_package

HERE = Path(__file__).parent
WHEEL = "python3 wheel_writer.py cann_bench 1.0 dist\n"


def submission(folder: Path, build: str) -> Path:
    folder.mkdir()
    (folder / "build.sh").write_text(build)
    return folder


def with_wheel(folder: Path, build: str) -> Path:
    """One whose build makes a wheel, without an operator: no case is called."""
    submission(folder, build)
    (folder / "cann_bench").mkdir()
    (folder / "cann_bench" / "__init__.py").write_text("")
    shutil.copy(HERE.parents[1] / "framework" / "packaging" / "wheel_writer.py", folder)
    return folder


def got(report, rule: str) -> str:
    return "\n".join(f"{one.where}: {one.got}" for one in report.violations if one.rule.id == rule)


def contents(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


# -- commands ----------------------------------------------------------------------------------------------------------


def bash(script: str, folder: Path, seconds: float = 60.0) -> environment.Ended:
    return run(["bash", "-c", script], cwd=folder, seconds=seconds)


def test_output_without_end_takes_no_memory(tmp_path):
    ended = bash("yes 'a line of output' & sleep 1; echo last words >&2; exit 3", tmp_path)
    assert ended.code == 3 and len(ended.output) <= environment._KEPT_BYTES
    ended = bash("yes", tmp_path, seconds=1.0)
    assert ended.code is None and ended.how().startswith("it ran out of time; its last words:\ny\n")


def gone(pid: int) -> bool:
    """Whether a process ends within ten seconds; a killed one waits for its turn on a busy machine."""
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_a_process_left_behind_is_not_waited_for(tmp_path):
    """In the group of the command it is ended; one that left it keeps the pipe and is left alone."""
    for detach in ("", "setsid "):
        start = time.monotonic()
        ended = bash(f"{detach}sleep 30 & echo $! > pid; exit 4", tmp_path)
        assert ended.code == 4 and time.monotonic() - start < 20
        pid = int((tmp_path / "pid").read_text())
        if detach:
            os.kill(pid, signal.SIGKILL)
        else:
            assert gone(pid)


def test_an_interrupt_ends_the_command(tmp_path):
    program = (
        "import sys; from pathlib import Path; from ascend_sparse_attention.submission.environment import run\n"
        "run(['bash', '-c', 'echo $$ > pid; sleep 60'], cwd=Path('.'), seconds=60)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "python"), *sys.path])}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)
    time.sleep(1.0)  # Python's own start of the command may take a moment longer than the command's
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) != 0
    assert gone(int((tmp_path / "pid").read_text()))


def test_words_for_a_terminal_do_nothing_there(tmp_path):
    ended = bash(r"printf '\033[31mred\033[0m \033]0;title\007a\007b\n'; printf '%05000d' 7; exit 1", tmp_path)
    assert ended.how().splitlines()[:2] == ["exit code 1; its last words:", "red a?b"]
    assert max(map(len, ended.how().splitlines())) < 600


def test_a_command_that_cannot_be_started(tmp_path):
    (tmp_path / "empty.run").touch(mode=0o755)
    ended = run([str(tmp_path / "empty.run")], cwd=tmp_path, seconds=5)
    assert not ended.ok and "empty.run could not be started: Exec format error" in ended.how()


# -- the copy ----------------------------------------------------------------------------------------------------------


def test_the_original_is_not_written_through_links(tmp_path):
    """dist/ as a link to elsewhere, an absolute link into the submission itself, links that lead nowhere or round."""
    root = with_wheel(tmp_path / "s", "echo built > here/made\n" + WHEEL)
    (root / "real").mkdir()
    (root / "here").symlink_to(root / "real")
    (root / "up").symlink_to("../elsewhere")
    (root / "nowhere").symlink_to("/nowhere/at/all")
    (root / "round").symlink_to("round")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "read").write_text("me")
    (tmp_path / "dist").mkdir()
    (root / "dist").symlink_to(tmp_path / "dist")
    before = contents(tmp_path)
    copy = tmp_path / "work" / "submission"
    copy.parent.mkdir()
    clean_copy(root, copy)
    assert (copy / "up" / "read").read_text() == "me" and (copy / "here").resolve() == copy / "real"
    assert not os.path.lexists(copy / "dist")
    shutil.rmtree(copy.parent)
    report = check_submission(root)
    assert report.stages["build"] == "exit code 0" and contents(tmp_path) == before


def test_a_read_only_submission(tmp_path):
    root = submission(tmp_path / "s", "exit 0\n")
    (root / "csrc").mkdir()
    root.chmod(0o555), (root / "csrc").chmod(0o555)
    try:
        copy = clean_copy(root, tmp_path / "copy")
        assert os.stat(copy).st_mode & 0o700 == os.stat(copy / "csrc").st_mode & 0o700 == 0o700
    finally:
        root.chmod(0o755), (root / "csrc").chmod(0o755)


def test_what_cannot_be_copied_is_named(tmp_path, monkeypatch):
    root = submission(tmp_path / "s", "exit 0\n")
    os.mkfifo(root / "pipe")
    with pytest.raises(SubmissionError, match=rf"expected files, folders and links, got {root}/pipe, a pipe"):
        check_submission(root)
    (root / "pipe").unlink()
    with open(root / "huge.bin", "wb") as file:
        file.truncate(5 << 30)
    usage = namedtuple("usage", "total used free")(0, 0, 3 << 30)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(SubmissionError, match=r"at most 3,072 MiB.* got 5,120 MiB, 5,120 of them in .*/huge\.bin"):
        check_submission(root)
    # What the evaluator wipes, and what is no part of a submission, counts for nothing.
    (root / "build").mkdir(), (root / ".git").mkdir()
    shutil.move(root / "huge.bin", root / "build")
    os.mkfifo(root / ".git" / "pipe")
    assert "EVAL-CANN-003" in {one.rule.id for one in check_submission(root).violations}


def test_a_place_inside_the_submission_is_refused(tmp_path, monkeypatch):
    """It would be copied into itself without end."""
    root = submission(tmp_path / "s", "exit 0\n")
    with pytest.raises(SubmissionError, match=f"--keep: expected a folder outside the submission, got {root}/a/b"):
        check_submission(root, Options(keep=root / "a" / "b"))
    (root / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(root / "tmp"))
    with pytest.raises(SubmissionError, match=f"TMPDIR: expected a folder outside the submission, got {root}/tmp"):
        check_submission(root)
    assert contents(root) == {"build.sh": b"exit 0\n", "tmp": False}


# -- products ----------------------------------------------------------------------------------------------------------


def test_strange_run_packages(tmp_path):
    root = with_wheel(
        tmp_path / "s",
        WHEEL + "ln -s /nowhere dist/cann_bench_a.run; mkdir dist/cann_bench_b.run; : > dist/cann_bench_c.run\n",
    )
    report = check_submission(root)
    said = got(report, "SFA-PKG-003").splitlines()
    assert said[0] == "cann_bench_a.run: a link to nothing" and said[1] == "cann_bench_b.run: a folder"
    assert said[2].startswith("cann_bench_c.run --quiet --install-path, first time: exit code 126")


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "cann_bench.whl").touch()
    report = check_submission(tmp_path / "cann_bench.whl")
    assert got(report, "EVAL-CANN-001") == f"{tmp_path}/cann_bench.whl: a file"


def test_sources_that_are_no_sources(tmp_path):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to("nothing")
    (tmp_path / "deep.py").write_text("x = " + "-" * 200_000 + "1\n")
    (found,) = scan_package(tmp_path, tmp_path, calls=True)
    assert found.rule.id == "EVAL-CANN-004" and found.where == "deep.py"


def test_the_command_line_says_what_stopped_it(tmp_path):
    root = submission(tmp_path / "s", "exit 0\n")
    os.mkfifo(root / "pipe")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "python"), *sys.path])}
    program = "from ascend_sparse_attention_cli import main; main()"
    command = [sys.executable, "-c", program, "check-submission", str(root)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: directory: expected files, folders and links, got ")
