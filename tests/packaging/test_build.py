# SPDX-License-Identifier: Apache-2.0
"""build.sh without CANN, with a toolkit that only looks like one, and with several Pythons (D2, D3)."""

from __future__ import annotations

import email
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from build_tree import ROOT, TOOLKIT, copy_tree
from packaging.requirements import Requirement


def build(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND_")}
    return subprocess.run(
        ["bash", str(ROOT / "build.sh"), *arguments], env={**clean, **env}, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        ((), {}, "no CANN: ASCEND_HOME_PATH is not set"),
        ((), {"ASCEND_HOME_PATH": "/nowhere/cann"}, "ASCEND_HOME_PATH is /nowhere/cann, which is not a directory"),
        ((), {"ASCEND_HOME_PATH": str(ROOT / "docs")}, "expected bisheng under ASCEND_HOME_PATH="),
        (("--soc=ascend310p",), {"ASCEND_HOME_PATH": str(TOOLKIT)}, "expected ascend910b or ascend910_93, got 'asc"),
        ((), {"ASCEND_HOME_PATH": str(TOOLKIT)}, "name the SoC by --soc=ascend910b"),
        (("--twin", "--pkg"), {}, "--pkg needs CANN"),
        (("--jobs=0",), {}, "--jobs: expected a number of 1 to 9999, got '0'"),
        (("--nonsense",), {}, "unknown argument --nonsense"),
        (("--twin",), {"ASA_BUILD_SECONDS": "soon"}, "ASA_BUILD_SECONDS: expected a number of 1 to 999999, got 'soon'"),
        (("--jobs=99999999999999999999",), {}, "--jobs: expected a number of 1 to 9999, got '9999"),
        (("--soc=",), {"ASCEND_HOME_PATH": str(TOOLKIT)}, "--soc: expected ascend910b or ascend910_93, got ''"),
        (("--clean", "--twin"), {}, "--clean: expected no argument beside it, got --clean --twin"),
        (("--clean", "--nonsense"), {}, "unknown argument --nonsense"),
        ((), {"ASCEND_HOME_PATH": "Ascend/latest"}, "ASCEND_HOME_PATH: expected an absolute path, got Ascend/latest"),
        (("--twin",), {"PYTHON": "/bin/ls"}, "PYTHON: expected Python 3.10 or later, got /bin/ls, ls (GNU"),
        (("--twin",), {"PYTHON": "/bin/true"}, "PYTHON: expected Python 3.10 or later, got /bin/true"),
        (("--twin",), {"CXX": "g++-77 -m64"}, "expected a C++ compiler on PATH, got none called g++-77"),
        (("--twin",), {"PYTHON": "/nowhere/python"}, "expected an interpreter, got '/nowhere/python'"),
    ],
)
def test_refusals_come_at_once_and_leave_nothing(arguments, env, words):
    before = {path: sorted((ROOT / path).glob("*")) for path in ("build", "dist")}
    start = time.monotonic()
    done = build(*arguments, **env)
    assert time.monotonic() - start < 5
    assert done.returncode != 0 and words in done.stderr
    assert {path: sorted((ROOT / path).glob("*")) for path in ("build", "dist")} == before


def script_alone(folder: Path) -> Path:
    """A tree with build.sh and none of the sources."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "build.sh", folder)
    return folder


def test_clean_removes_what_lies_beside_the_script(tmp_path):
    """Called through a link from elsewhere, with a CDPATH that leads astray: its own folders, and no others."""
    tree = script_alone(tmp_path / "own tree")
    for place in (tree, tmp_path, tmp_path / "astray" / "own tree"):
        for name in ("build", "dist"):
            (place / name).mkdir(parents=True)
            (place / name / "file").write_text("")
    (tmp_path / "link.sh").symlink_to(tree / "build.sh")
    for script in ("link.sh", "own tree/build.sh"):
        env = {**os.environ, "CDPATH": str(tmp_path / "astray")}
        done = subprocess.run(["bash", script, "--clean"], cwd=tmp_path, env=env)
        assert done.returncode == 0
        assert sorted(path.name for path in tree.iterdir()) == ["build.sh"]
        for place in (tmp_path, tmp_path / "astray" / "own tree"):
            assert (place / "build" / "file").exists() and (place / "dist" / "file").exists()


def test_folders_that_cannot_be_used(tmp_path):
    """A file in the place of build/, and another build that is running: said, and what is in dist/ stays."""
    tree = script_alone(tmp_path / "tree")
    (tree / "dist").mkdir()
    (tree / "dist" / "cann_bench-0.1-py3-none-any.whl").write_text("of an earlier build")

    def refused() -> str:
        command = ["bash", str(tree / "build.sh"), "--twin"]
        done = subprocess.run(command, env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True)
        assert done.returncode == 1 and [path.name for path in (tree / "dist").iterdir()] == [
            "cann_bench-0.1-py3-none-any.whl"
        ]
        return done.stderr

    (tree / "build").write_text("")
    assert f"expected folders build and dist in {tree} that can be made and written to" in refused()
    (tree / "build").unlink()
    (tree / "build").mkdir()
    folder = os.open(tree / "build", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        assert f"expected no other build in {tree}, got one that is running" in refused()
    finally:
        os.close(folder)


def test_why_torch_cannot_be_imported_is_said(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: no such file')\n")
    done = build("--twin", PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "expected torch in it" in done.stderr and "OSError: libtorch_cpu.so: no such file" in done.stderr


def test_the_first_python_on_path_is_used(tmp_path):
    """Two interpreters without torch: the message names the one that was asked for."""
    pythons = []
    for name in ("first", "second"):
        venv = tmp_path / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        pythons.append(venv / "bin")
    env = {"ASCEND_HOME_PATH": str(TOOLKIT)}
    for order in (pythons, pythons[::-1]):
        path = os.pathsep.join([*map(str, order), os.environ["PATH"]])
        done = build("--soc=ascend910b", PATH=path, **env)
        assert f"{order[0]}/python3: expected torch and torch_npu in it" in done.stderr
    done = build("--soc=ascend910b", PYTHON=str(pythons[1] / "python"), **env)
    assert f"{pythons[1]}/python: expected torch" in done.stderr


def test_bisheng_command_line_and_kernel(tmp_path):
    """The kernel library is made by one call of CANN's compiler, and its source goes through a compiler here."""
    log = tmp_path / "bisheng.log"
    # The rooms that compile with g++ alone are left out: the twin has tests of its own.
    tree = tmp_path / "tree"
    for part in ("op_kernel", "framework/launch"):
        shutil.copytree(ROOT / part, tree / part)
    (tree / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(kernel LANGUAGES CXX)\nadd_subdirectory(framework/launch)\n"
    )
    env = {**os.environ, "ASA_FAKE_BISHENG_LOG": str(log), "ASA_TWIN_INCLUDE": str(ROOT / "cpu_twin" / "include")}
    bisheng = TOOLKIT / "bin" / "bisheng"
    configure = ["cmake", "-S", str(tree), "-B", str(tree / "b"), "-DASA_LAUNCH=cann", f"-DASA_BISHENG={bisheng}"]
    wrong = subprocess.run([*configure, "-DASA_SOC=ascend310p"], env=env, capture_output=True, text=True)
    assert wrong.returncode != 0 and "ASA_SOC: expected ascend910b or ascend910_93" in wrong.stderr
    subprocess.run([*configure, "-DASA_SOC=ascend910_93"], env=env, check=True, capture_output=True)
    made = subprocess.run(
        ["cmake", "--build", str(tree / "b"), "--target", "asa_kernel_build"], env=env, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (line,) = log.read_text().splitlines()
    words = line.split()
    for word in ("-shared", "-xasc", "--npu-arch=dav-2201", "-std=c++17", "-O3", "-fPIC", "-DASCENDC_DUMP=0"):
        assert word in words
    library = Path(words[words.index("-o") + 1])
    assert library.name == "libasa_kernel.so" and library.is_file()
    symbols = subprocess.run(["nm", "-DC", str(library)], check=True, capture_output=True, text=True).stdout
    assert "T asa::LaunchSparseFlashAttention(" in symbols and "asa_sparse_flash_attention_direct" in symbols


def test_wheels_hold_this_build_and_nothing_else(tmp_path):
    """A library that lies in the source tree, of another day or kind, is never packed; a missing one ends the build."""
    tree = copy_tree(tmp_path / "tree")
    stale = tree / "python" / "ascend_sparse_attention" / "lib"
    stale.mkdir(exist_ok=True)
    (stale / "libasa_twin.so").write_bytes(b"of another day")
    (stale / "libasa_torch_npu.so").write_bytes(b"of another kind")
    made, dist = tree / "made", tree / "dist"

    def pack(kind: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            str(tree / "framework" / "packaging" / "build_wheels.py"),
            str(made),
            str(dist),
            kind,
        ]
        return subprocess.run(command, capture_output=True, text=True)

    def library(name: str) -> None:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(b"fresh")

    library("framework/torch/libcann_bench.so")
    library("framework/torch/libcann_bench.json")
    done = pack("twin")
    assert done.returncode != 0 and "build_wheels: expected one libasa_twin.so in" in done.stderr
    assert not dist.exists()
    done = pack("ascend910b")
    assert done.returncode != 0 and "expected one libasa_kernel.so in" in done.stderr and not dist.exists()
    library("framework/twin/libasa_twin.so")
    assert pack("twin").returncode == 0
    (wheel,) = dist.glob("ascend_sparse_attention-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if "/lib/" in name}
        (entry,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        module = re.search(r"^sfa = (\w+):main$", archive.read(entry).decode(), re.M)[1]
        assert b"def main(" in archive.read(f"{module}.py"), "the script's own module lies beside the package"
        (entry,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        needs = [Requirement(one) for one in email.message_from_bytes(archive.read(entry)).get_all("Requires-Dist")]
    given = re.findall(r'^ *"(\w[\w-]*)[=>]=', (ROOT / "pyproject.toml").read_text(), re.M)
    assert {one.name for one in needs} >= {"torch", "triton", "pytest", "ruff", *given}
    for need in needs:
        extras = {extra for extra in ("", "test", "lint") if not need.marker or need.marker.evaluate({"extra": extra})}
        wanted = {"torch": {"", "test", "lint"}, "triton": {"test"}, "ruff": {"lint"}}
        assert extras == wanted.get(need.name, extras), need
    assert held == {"ascend_sparse_attention/lib/libasa_twin.so": b"fresh"}


def test_wheel_writer(tmp_path):
    """A wheel that pip accepts, bit-equal when written twice."""
    package = tmp_path / "tiny"
    package.mkdir()
    (package / "__init__.py").write_text("answer = 42\n")
    command = [sys.executable, str(ROOT / "framework" / "packaging" / "wheel_writer.py"), str(package), "1.5"]
    wheels = []
    for out in ("a", "b"):
        subprocess.run([*command, str(tmp_path / out)], check=True, capture_output=True)
        wheels.append(tmp_path / out / "tiny-1.5-py3-none-any.whl")
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        assert archive.testzip() is None and "tiny-1.5.dist-info/RECORD" in archive.namelist()
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheels[0])], check=True)
    code = f"import sys; sys.path.insert(0, {str(target)!r}); import tiny; assert tiny.answer == 42"
    subprocess.run([sys.executable, "-c", code], check=True)
