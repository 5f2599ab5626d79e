# SPDX-License-Identifier: Apache-2.0
"""build.sh as with CANN, from start to end: a bisheng that stands in for CANN's, the real torch_npu (D2, D3)."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import npu  # noqa: F401  (skips this file without torch_npu)
import pytest
from ascend_sparse_attention.backends.npu import library_path

sys.path.insert(0, str(Path(__file__).parents[1] / "packaging"))
from build_tree import TOOLKIT, bisheng_lines, copy_tree, run_build

SOC = "ascend910b"

# The first test waits for the build, which torch's headers make long on a busy machine.
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(tree, finished process) of `bash build.sh --soc=...`, with another python3 first on PATH."""
    folder = tmp_path_factory.mktemp("cann")
    (folder / "bin").mkdir()
    for name in ("python", "python3"):
        other = folder / "bin" / name
        other.write_text(f"#!/bin/sh\necho \"$@\" >> '{folder}/other_python_called'\nexit 97\n")
        other.chmod(0o755)
    tree = copy_tree(folder / "tree")
    # The kernel library of the stand-in holds the twin, as CANN's holds what a launch needs.
    twin = library_path().parents[2] / "cpu_twin" / "libcpu_twin.a"
    link = f"-Wl,--whole-archive {twin} -Wl,--no-whole-archive -pthread"
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    done = run_build(tree, f"--soc={SOC}", "--jobs=2", toolkit=TOOLKIT, link=link, PATH=path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return tree, done


def wheel(tree: Path, name: str) -> Path:
    (made,) = (tree / "dist").glob(f"{name}-*.whl")
    return made


def test_three_products(built):
    tree, done = built
    machine = os.uname().machine
    names = sorted(path.name for path in (tree / "dist").iterdir())
    assert len(names) == 3
    assert names[0].startswith("ascend_sparse_attention-") and names[0].endswith(f"-py3-none-linux_{machine}.whl")
    assert names[1] == f"ascend_sparse_attention_ops_{SOC}_{machine}.run"
    assert names[2].startswith("cann_bench-") and names[2].endswith(f"-py3-none-linux_{machine}.whl")
    assert "the wheels import" in done.stdout
    assert f"build.sh: for {sys.version.split()[0]} {sys.executable}" in done.stdout


def test_the_other_python_is_never_called(built):
    tree, _ = built
    assert not (tree.parent / "other_python_called").exists()
    for cache in (tree / "build").glob("*/CMakeCache.txt"):
        assert str(tree.parent / "bin") not in cache.read_text(), cache


def test_compiler_lines(built):
    """Two kernels, each by one line: for the direct launch a library, for the operator package an object."""
    tree, _ = built
    library, operator = bisheng_lines(tree)
    for line in (library, operator):
        assert {"-xasc", "--npu-arch=dav-2201", "-std=c++17", "-O3", "-fPIC"} <= set(line)
    assert {"-shared", "-DASCENDC_DUMP=0"} <= set(library)
    assert str(tree / "framework" / "launch" / "launch_cann.cpp") in library
    assert Path(library[library.index("-o") + 1]).name == "libasa_kernel.so"
    assert "-c" in operator and str(tree / "op_kernel" / "sparse_flash_attention.cpp") in operator


def test_what_the_wheels_hold(built, tmp_path):
    tree, _ = built
    for name, library in (("cann_bench", "libcann_bench"), ("ascend_sparse_attention", "libasa_torch_npu")):
        with zipfile.ZipFile(wheel(tree, name)) as archive:
            held = {entry for entry in archive.namelist() if "/lib/" in entry}
            archive.extractall(tmp_path)
        assert held == {f"{name}/lib/{one}" for one in (f"{library}.so", f"{library}.json", "libasa_kernel.so")}
        shown = subprocess.run(
            ["readelf", "-d", str(tmp_path / name / "lib" / f"{library}.so")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert "libpython" not in shown, "the tag says py3-none: bound to no Python version"
        assert "[libasa_kernel.so]" in shown and "[$ORIGIN]" in shown and str(tree) not in shown


def test_the_wheels_load_on_torch_npu(built, tmp_path):
    """Installed as the evaluator installs them, both load their library beside the real torch_npu."""
    tree, _ = built
    pip = [sys.executable, "-m", "pip", "install", "-q", "--force-reinstall", "--no-deps"]
    wheels = [str(wheel(tree, name)) for name in ("cann_bench", "ascend_sparse_attention")]
    subprocess.run([*pip, "--target", str(tmp_path), *wheels], check=True)
    code = (
        "import json, torch, torch_npu, cann_bench, ascend_sparse_attention as asa\n"
        "from ascend_sparse_attention import backends\n"
        "assert not torch.npu.is_initialized(), 'an import must leave the device alone'\n"
        "assert backends.load('npu').missing() is None\n"
        "has = torch._C._dispatch_has_kernel_for_dispatch_key\n"
        "names = ('cann_bench::sparse_flash_attention', 'ascend_sparse_attention::sparse_flash_attention')\n"
        "print([has(name, 'PrivateUse1') for name in names], cann_bench.__file__, asa.__file__)\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ASA_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**clean, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("[True, True] ") and last.count(str(tmp_path)) == 2


def test_a_failing_operator_package_costs_no_wheel(built):
    """Without --pkg it is said and the wheels stay, in time for cann-bench's limit; with it the build fails."""
    tree, _ = built
    project = tree / "op_host" / "cann" / "CMakeLists.txt"
    whole = project.read_text()
    project.write_text(whole + 'message(FATAL_ERROR "broken on purpose")\n')
    twin = library_path().parents[2] / "cpu_twin" / "libcpu_twin.a"
    link = f"-Wl,--whole-archive {twin} -Wl,--no-whole-archive -pthread"
    try:
        done = run_build(tree, f"--soc={SOC}", "--jobs=2", toolkit=TOOLKIT, link=link)
        assert done.returncode == 0, done.stderr
        assert "broken on purpose" in done.stderr and "the operator package (.run) was not built" in done.stderr
        assert sorted(path.suffix for path in (tree / "dist").iterdir()) == [".whl", ".whl"]
        done = run_build(tree, f"--soc={SOC}", "--jobs=2", toolkit=TOOLKIT, link=link, ASA_BUILD_SECONDS="1")
        assert done.returncode == 0 and "1 s are over: the operator package (.run) was left out" in done.stderr
        assert sorted(path.suffix for path in (tree / "dist").iterdir()) == [".whl", ".whl"]
        done = run_build(tree, "--pkg", f"--soc={SOC}", toolkit=TOOLKIT, link=link)
        assert done.returncode != 0 and "broken on purpose" in done.stderr
    finally:
        project.write_text(whole)
