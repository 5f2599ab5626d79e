# SPDX-License-Identifier: Apache-2.0
"""The operator package: built by build.sh with a toolkit that stands in for CANN, installed, called (D4, A20, A21)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ascend_sparse_attention import golden, twin
from build_tree import ROOT, TOOLKIT, bisheng_lines, copy_tree, run_build

TWIN_LIBRARY = ROOT / "build" / "twin" / "cpu_twin" / "libcpu_twin.a"
VERSION = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]


def clean_env(**env: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("ASCEND_")}, **env}


def install(package: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(package), *arguments], env=clean_env(**env), capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A tree in which `build.sh --pkg` ran."""
    tree = copy_tree(tmp_path_factory.mktemp("pkg") / "tree")
    done = run_build(tree, "--pkg", "--soc=ascend910b", "--jobs=2", toolkit=TOOLKIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return tree


@pytest.fixture(scope="module")
def package(built) -> Path:
    (made,) = (built / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def vendor(package, tmp_path_factory) -> Path:
    """The folder of an installed package."""
    opp = tmp_path_factory.mktemp("opp")
    done = install(package, "--quiet", f"--install-path={opp}")
    assert done.returncode == 0 and done.stdout + done.stderr == "", done.stdout + done.stderr
    return opp / "vendors" / "asa"


# -- the package and its installer -------------------------------------------------------------------------------------


def test_one_run_package_by_one_compiler_line(built, package):
    assert re.fullmatch(r"ascend_sparse_attention_ops_ascend910b_\w+\.run", package.name)
    assert not package.match("cann_bench*.run")
    (line,) = bisheng_lines(built)
    for word in ("-c", "-xasc", "--npu-arch=dav-2201", "-std=c++17"):
        assert word in line
    assert Path(line[-3]) == built / "op_kernel" / "sparse_flash_attention.cpp"


def test_layout_and_version(vendor):
    machine = os.uname().machine
    for name in (
        "op_api/include/aclnn_asa_sparse_flash_attention.h",
        "op_api/include/asa_operator_package.h",
        "op_api/lib/libcust_opapi.so",
        f"op_proto/lib/linux/{machine}/libcust_opsproto_rt2.0.so",
        f"op_impl/ai_core/tbe/op_tiling/lib/linux/{machine}/libcust_opmaster_rt2.0.so",
        "op_impl/ai_core/tbe/config/ascend910b/aic-ascend910b-ops-info.json",
        "op_impl/ai_core/tbe/kernel/ascend910b/asa_sparse_flash_attention/AsaSparseFlashAttention_0.o",
        "bin/set_env.bash",
        "LICENSE",
    ):
        assert (vendor / name).is_file(), name
    assert (vendor / "op_impl/ai_core/tbe/op_tiling/liboptiling.so").resolve().name == "libcust_opmaster_rt2.0.so"
    info = (vendor / "version.info").read_text().splitlines()
    assert f"asa_version={VERSION}" in info and "asa_soc=ascend910b" in info
    assert "custom_opp_compiler_version=0.0.stand-in" in info, "CANN's own lines stay"


@pytest.mark.parametrize(
    "lost", ["libcust_opmaster_rt2.0.so", "AsaSparseFlashAttention_0.o", "libcust_opapi.so", "type"]
)
def test_an_incomplete_folder_is_not_packed(vendor, tmp_path, lost):
    """CANN's functions can leave a library or a kernel out and still end well."""
    shutil.copytree(vendor, tmp_path / "asa", symlinks=True)
    info = tmp_path / "asa/op_impl/ai_core/tbe/config/ascend910b/aic-ascend910b-ops-info.json"
    if lost == "type":
        info.write_text(info.read_text().replace("AsaSparseFlashAttention", "SparseFlashAttention"))
        words = "expected AsaSparseFlashAttention in aic-ascend910b-ops-info.json"
    else:
        (path,) = (tmp_path / "asa").rglob(lost)
        path.unlink()
        words = "*.o" if lost.endswith(".o") else lost
    out = tmp_path / "made.run"
    command = [sys.executable, ROOT / "framework" / "packaging" / "run_package.py", tmp_path / "asa", "ascend910b", out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and done.stderr.startswith("run_package: expected") and words in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asa"]


def test_installing_twice_replaces_the_first_and_keeps_other_vendors(package, tmp_path):
    vendors = tmp_path / "vendors"
    for attempt in ("first", "second"):
        done = install(package, ASCEND_OPP_PATH=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert ("in place of version" in done.stdout) == (attempt == "second")
        if attempt == "first":
            (vendors / "asa" / "left_over").write_text("of an older package")
            (vendors / "config.ini").write_text("load_priority=one,asa,two\nother=kept\n")
    assert sorted(path.name for path in vendors.iterdir()) == ["asa", "config.ini"]
    assert not (vendors / "asa" / "left_over").exists()
    assert (vendors / "config.ini").read_text() == "load_priority=asa,one,two\nother=kept\n"
    shown = subprocess.run(
        ["bash", "-c", f"source '{vendors}/asa/bin/set_env.bash'; echo $ASCEND_CUSTOM_OPP_PATH; echo $LD_LIBRARY_PATH"],
        env=clean_env(ASCEND_CUSTOM_OPP_PATH="/other", LD_LIBRARY_PATH="/libs"), capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout.split() == [f"{vendors}/asa:/other", f"{vendors}/asa/op_api/lib:/libs"]


def test_an_installation_that_fails_says_so_and_changes_nothing(package, tmp_path):
    assert install(package, f"--install-path={tmp_path}").returncode == 0
    vendors = tmp_path / "vendors"
    (vendors / "asa" / "version.info").write_text("asa_version=0.0.9\n")

    def state() -> dict[str, bytes]:
        return {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    before = state()
    # The last step cannot be done: config.ini is in the way.
    (vendors / "config.ini").unlink()
    (vendors / "config.ini").mkdir()
    (vendors / "config.ini" / "something").write_text("")
    done = install(package, f"--install-path={tmp_path}")
    assert done.returncode != 0 and "cannot write" in done.stderr
    shutil.rmtree(vendors / "config.ini")
    (vendors / "config.ini").write_bytes(before["vendors/config.ini"])
    assert state() == before

    damaged = tmp_path.parent / "damaged.run"
    data = bytearray(package.read_bytes())
    data[-100] ^= 1
    damaged.write_bytes(data)
    damaged.chmod(0o755)
    for done in (install(damaged, f"--install-path={tmp_path}"), install(damaged, "--check")):
        assert done.returncode != 0 and "damaged: expected SHA-256" in done.stderr
    damaged.write_bytes(package.read_bytes()[:-100])
    assert install(damaged, f"--install-path={tmp_path}").returncode != 0
    assert state() == before


def test_what_lies_in_the_way_is_kept(package, tmp_path):
    """A file or link where the vendor's folder goes is not this package's to replace."""
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (tmp_path / "elsewhere").mkdir()
    for make in (
        lambda path: path.write_text("mine"),
        lambda path: path.symlink_to(tmp_path / "elsewhere"),
        lambda path: path.symlink_to(tmp_path / "nowhere"),
    ):
        make(vendors / "asa")
        done = install(package, f"--install-path={tmp_path}")
        assert done.returncode != 0 and f"or nothing at {vendors}/asa, got a link or file" in done.stderr
        assert [path.name for path in vendors.iterdir()] == ["asa"] and not (vendors / "asa" / "version.info").exists()
        (vendors / "asa").unlink()


def test_order_of_vendors_as_others_write_it(package, tmp_path):
    """Blanks, line ends of Windows, no last line end, a link and a mode of its own."""
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (tmp_path / "real.ini").write_bytes(b"first=1\r\n load_priority = one , asa,, two\r\nlast=2")
    (tmp_path / "real.ini").chmod(0o440)
    (vendors / "config.ini").symlink_to("../real.ini")
    for _ in range(2):
        assert install(package, f"--install-path={tmp_path}").returncode == 0
        assert (vendors / "config.ini").is_symlink() and (tmp_path / "real.ini").stat().st_mode & 0o777 == 0o440
        assert (tmp_path / "real.ini").read_bytes() == b"load_priority=asa,one,two\nfirst=1\r\nlast=2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["real.ini", "vendors"]


def test_strange_ways_to_call_the_installer(package, tmp_path):
    """Through sh and a link with blanks in its name, from a pipe, several at once, into a folder with odd letters."""
    link = tmp_path / "a b.run"
    link.symlink_to(package)
    odd = tmp_path / "a b'ü$x"
    done = subprocess.run(["sh", str(link), f"--install-path={odd}"], env=clean_env(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    script = str(odd / "vendors/asa/bin/set_env.bash")
    shown = subprocess.run(
        ["bash", "-uc", 'source "$1" && echo "$ASCEND_CUSTOM_OPP_PATH"', "-", script],
        env=clean_env(), capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout == f"{odd}/vendors/asa\n", shown.stderr
    with open(package, "rb") as text:
        done = subprocess.run(["bash", "-s"], stdin=text, cwd=tmp_path, env=clean_env(), capture_output=True, text=True)
    assert done.returncode != 0 and "expected to be run as a file" in done.stderr
    command = [str(package), "--quiet", f"--install-path={odd}"]
    running = [subprocess.Popen(command, env=clean_env(), stderr=subprocess.PIPE) for _ in range(4)]
    assert [one.communicate()[1] for one in running] == [b""] * 4 and {one.returncode for one in running} == {0}
    assert sorted(path.name for path in (odd / "vendors").iterdir()) == ["asa", "config.ini"]


def test_a_toolkit_that_is_only_half_there(package, tmp_path):
    """ASCEND_OPP_PATH of a CANN that was moved or removed: nothing is made where it was."""
    done = install(package, ASCEND_OPP_PATH=str(tmp_path / "gone" / "opp"))
    assert done.returncode != 0 and f"ASCEND_OPP_PATH: expected a folder, got {tmp_path}/gone/opp" in done.stderr
    assert not any(tmp_path.iterdir())
    done = install(package, ASCEND_OPP_PATH="opp")
    assert done.returncode != 0 and "ASCEND_OPP_PATH: expected an absolute path, got opp" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes rights away from root")
def test_without_the_right_to_write(package, tmp_path_factory):
    folder = Path("/tmp") / tmp_path_factory.mktemp("rights").name  # a place that everyone may enter
    folder.mkdir()
    try:
        runnable = shutil.copy(package, folder / "package.run")
        assert install(package, f"--install-path={folder}").returncode == 0
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(runnable)]
        for path, words in ((folder, "no right to write in"), (folder / "vendors", "cannot make")):
            done = subprocess.run([*nobody, f"--install-path={path}"], env=clean_env(), capture_output=True, text=True)
            assert done.returncode != 0 and words in done.stderr, done.stderr
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "ASCEND_OPP_PATH is not set"),
        (("--install-path=",), "--install-path: expected a path, got none"),
        (("--install-path=relative/opp",), "expected an absolute path, got relative/opp"),
        (("--install-path=/proc/nowhere",), "cannot make /proc/nowhere/vendors"),
        (("--install-path=/tmp/one:two",), "--install-path: expected a path without ':'"),
        (("--nonsense",), "unknown argument --nonsense"),
    ],
)
def test_wrong_use_of_the_installer(package, arguments, words):
    done = install(package, *arguments)
    assert done.returncode != 0 and words in done.stderr


def test_pkg_without_cann_operator_projects(tmp_path):
    """A toolkit with a compiler alone: --pkg says what is missing and leaves no package."""
    toolkit = tmp_path / "toolkit"
    (toolkit / "bin").mkdir(parents=True)
    shutil.copy(TOOLKIT / "bin" / "bisheng", toolkit / "bin")
    tree = copy_tree(tmp_path / "tree")
    done = run_build(tree, "--pkg", "--soc=ascend910b", toolkit=toolkit)
    assert done.returncode != 0 and "asc-config.cmake" in done.stderr
    assert "the operator package (.run) was not built" in done.stderr
    assert not list((tree / "dist").iterdir())


# -- shape rules and tiling --------------------------------------------------------------------------------------------

FP16, BF16, INT32, INT64 = 1, 27, 3, 9


@pytest.fixture(scope="module")
def ask(vendor, tmp_path_factory):
    """ask(shapes, attributes, ...) -> what the package's shape rules and tiling answer, and their words on stderr."""
    driver = tmp_path_factory.mktemp("driver") / "driver"
    source = Path(__file__).parent / "op_host_driver.cpp"
    include = f"-I{TOOLKIT / 'include'}"
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Wextra", include, str(source), "-o", str(driver), "-ldl"], check=True
    )
    library = vendor / "op_impl/ai_core/tbe/op_tiling/liboptiling.so"

    def call(shapes, attrs, dtype=FP16, index=INT32):
        words = [str(driver), str(library), str(dtype), str(index), *("x".join(map(str, s)) for s in shapes), *attrs]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return dict(line.split(" ", 1) for line in done.stdout.splitlines()), done.stderr

    return call


@pytest.mark.parametrize(
    ("layout", "dtype", "shapes", "causal", "lse"),
    [
        ("BSND", FP16, [(2, 5, 16, 576), (2, 300, 1, 576), (2, 300, 1, 512), (2, 5, 1, 128)], 1, 1),
        ("BNSD", BF16, [(1, 32, 1, 192), (1, 8, 4096, 192), (1, 8, 4096, 128), (1, 8, 1, 1024)], 0, 0),
    ],
)
def test_shapes_and_tiling_are_those_of_every_other_door(ask, layout, dtype, shapes, causal, lse):
    answer, words = ask(shapes, ["f:0.125", f"s:{layout}", f"b:{causal}", f"b:{lse}"], dtype)
    assert words == ""
    assert answer["infer_shape"] == answer["infer_dtype"] == answer["tiling"] == "0"
    assert answer["y"] == "x".join(map(str, (*shapes[0][:3], shapes[2][3])))
    assert answer["lse"] == ("x".join(map(str, shapes[0][:3])) if lse else "0")
    assert answer["dtypes"] == f"{dtype},0"
    io = torch.float16 if dtype == FP16 else torch.bfloat16
    tensors = [torch.empty(s, dtype=io, device="meta") for s in shapes[:3]]
    indices = torch.empty(shapes[3], dtype=torch.int32, device="meta")
    request = twin.request_of(
        *tensors, indices, 0.125, layout, bool(causal), write_lse=bool(lse), value_is_key_prefix=False
    )
    plan = twin.Plan(request)
    assert bytes.fromhex(answer["data"]) == plan._data.raw
    assert int(answer["block_dim"]) == plan.core_num and int(answer["key"]) == plan.tiling_key
    assert answer["schedule_mode"] == "1"  # batch mode: SyncAll on two streams would deadlock otherwise
    assert int(answer["workspace"]) == plan.workspace_bytes + (16 << 20)


MLA = [(1, 2, 16, 576), (1, 256, 1, 576), (1, 256, 1, 512), (1, 2, 1, 64)]
ATTRS = ["f:0.1", "s:BSND", "b:0", "b:0"]


@pytest.mark.parametrize(
    ("shapes", "attrs", "types", "words"),
    [
        ([MLA[0], (1, 256, 1, 512), *MLA[2:]], ATTRS, {}, "key: expected head dim 576 (query's), got 512"),
        (MLA, ["f:0.1", "s:TND", "b:0", "b:0"], {}, 'inputLayout: expected "BSND" or "BNSD", got "TND"'),
        (MLA, ATTRS, {"index": INT64}, "sparseIndices: expected dtype int32, got"),
        ([(0, 2, 16, 576), (0, 256, 1, 576), (0, 256, 1, 512), (0, 2, 1, 64)], ATTRS, {}, "nothing to launch"),
        (MLA, ATTRS[:3], {}, "expected four inputs and four attributes"),
        (MLA, [*ATTRS, "b:0"], {}, "expected four inputs and four attributes"),
        (MLA, ["f:0.1", "b:0", "s:BSND", "b:0"], {}, "expected four inputs and four attributes"),
    ],
)
def test_tiling_refuses_in_words(ask, shapes, attrs, types, words):
    """Other callers bypass Python (A15); a caller of another version has other attributes (A21)."""
    answer, said = ask(shapes, attrs, **types)
    assert answer["tiling"] != "0" and answer["data"] == ""
    assert "AsaSparseFlashAttention (tiling): " in said and words in said


# -- the aclnn door ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example(vendor, tmp_path_factory):
    """run(**env): examples/aclnn_example.cpp as docs/cann.md builds it, on a runtime whose kernels run in the twin."""
    assert TWIN_LIBRARY.is_file(), f"expected {TWIN_LIBRARY}; scripts/build_twin.sh makes it"
    folder = tmp_path_factory.mktemp("example")
    include = f"-I{TOOLKIT / 'include'}"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", include, f"-I{ROOT}",
         str(TOOLKIT / "runtime" / "runtime.cpp"), "-Wl,--whole-archive", str(TWIN_LIBRARY), "-Wl,--no-whole-archive",
         "-pthread", "-ldl", "-o", str(folder / "libascendcl.so")], check=True,
    )  # fmt: skip
    program = folder / "aclnn_example"
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Wextra", str(ROOT / "examples" / "aclnn_example.cpp"), include,
         f"-I{vendor / 'op_api' / 'include'}", f"-L{vendor / 'op_api' / 'lib'}", f"-L{folder}", "-lcust_opapi",
         "-lascendcl", "-o", str(program)], check=True,
    )  # fmt: skip

    def run(**env: str) -> subprocess.CompletedProcess[str]:
        libraries = f"{vendor / 'op_api' / 'lib'}:{folder}"
        return subprocess.run(
            [str(program)], env=clean_env(LD_LIBRARY_PATH=libraries, **env), capture_output=True, text=True
        )

    return run


def test_the_example_computes(example, vendor):
    """From C++ through aclnn entry, tiling and the operator's own kernel entry, against the golden."""
    for env in ({"ASCEND_CUSTOM_OPP_PATH": str(vendor)}, {"ASCEND_OPP_PATH": str(vendor.parents[1])}):
        done = example(**env)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        got = [float(line.split("= ")[1]) for line in done.stdout.splitlines()]
    S1, S2, N1, Dk, Dv, topK = 2, 256, 16, 576, 512, 64
    # The program fills its tensors in float32.
    query = torch.from_numpy(np.float32(0.5) * np.sin(np.arange(S1 * N1 * Dk, dtype=np.float32)))
    key = torch.from_numpy(np.float32(0.5) * np.cos(np.arange(S2 * Dk, dtype=np.float32)))
    query, key = query.half().reshape(1, S1, N1, Dk), key.half().reshape(1, S2, 1, Dk)
    indices = (torch.arange(S1 * topK) * 3 % S2).int().reshape(1, S1, 1, topK)
    (block, *_) = golden.sfa.iter_blocks(query, key, key[..., :Dv], indices, Dk**-0.5, "BSND", False)
    expected = block.out.reshape(-1, Dv)[0, :4]
    assert len(got) == 4
    torch.testing.assert_close(torch.tensor(got, dtype=torch.float64), expected.double(), rtol=2e-3, atol=2e-4)


def older(vendor: Path, tmp_path: Path) -> Path:
    """A package of an older version."""
    shutil.copytree(vendor, tmp_path / "older", symlinks=True)
    info = tmp_path / "older" / "version.info"
    info.write_text(info.read_text().replace(f"asa_version={VERSION}", "asa_version=0.0.9"))
    return tmp_path / "older"


def test_an_older_package_found_first_is_named(example, vendor, tmp_path):
    """A21."""
    old = older(vendor, tmp_path)
    done = example(ASCEND_CUSTOM_OPP_PATH=f"{old}:{vendor}")
    assert done.returncode == 1 and done.stdout == ""
    words = (
        f"operator package: expected version {VERSION}, got 0.0.9 in {old}, which ASCEND_CUSTOM_OPP_PATH names first"
    )
    assert words in done.stderr.splitlines()[-1]
    # Even a program that does not ask reads it: the library says so when it is loaded.
    assert done.stderr.startswith(f"libcust_opapi.so {VERSION}: operator package: expected version")
    assert example(ASCEND_CUSTOM_OPP_PATH=f"{vendor}:{old}").returncode == 0
    (old / "version.info").unlink()
    assert "got unknown in" in example(ASCEND_CUSTOM_OPP_PATH=str(old)).stderr

    # Vendors of the installation count in the order of load_priority, and behind ASCEND_CUSTOM_OPP_PATH.
    opp = tmp_path / "opp"
    (opp / "vendors").mkdir(parents=True)
    (opp / "vendors" / "config.ini").write_text("load_priority=none,theirs,asa\n")
    shutil.copytree(old, opp / "vendors" / "theirs", symlinks=True)
    shutil.copytree(vendor, opp / "vendors" / "asa", symlinks=True)
    done = example(ASCEND_OPP_PATH=str(opp))
    assert done.returncode == 1 and f"load_priority in {opp}/vendors/config.ini names first" in done.stderr
    assert example(ASCEND_OPP_PATH=str(opp), ASCEND_CUSTOM_OPP_PATH=str(vendor)).returncode == 0


def test_no_package_at_all_is_said(example):
    done = example()
    assert done.returncode == 1
    assert (
        f"expected version {VERSION} in ASCEND_CUSTOM_OPP_PATH or among the vendors of ASCEND_OPP_PATH" in done.stderr
    )


def test_a_program_built_for_another_version(vendor):
    library = str(vendor / "op_api" / "lib" / "libcust_opapi.so")
    # Its aclnn entry wants the runtime, which stays away here: RTLD_LAZY would do, but Python always adds RTLD_NOW.
    code = (
        f"import ctypes, os; l = ctypes.PyDLL({library!r}, mode=os.RTLD_LAZY); t = ctypes.create_string_buffer(999); "
        "print(l.asaCheckOperatorPackage(b'0.0.9', t, 999), t.value.decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_env(ASCEND_CUSTOM_OPP_PATH=str(vendor)), capture_output=True, text=True
    )
    assert f"1 libcust_opapi.so: expected version 0.0.9 (this program's), got {VERSION}" in done.stdout, done.stderr


# -- names (A20) -------------------------------------------------------------------------------------------------------


def test_names_are_apart_from_the_built_in_operator(vendor):
    """A20: no symbol, op type or kernel has the name of CANN's own."""
    libraries = [path for path in vendor.rglob("*") if path.suffix in (".so", ".o") and not path.is_symlink()]
    assert len(libraries) == 4
    exported = {}
    for library in libraries:
        shown = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True)
        exported[library.name] = {line.split()[-1] for line in shown.stdout.splitlines()}
    ours = {name for name in exported["libcust_opapi.so"] if name.startswith("aclnn")}
    assert ours == {"aclnnAsaSparseFlashAttention", "aclnnAsaSparseFlashAttentionGetWorkspaceSize"}
    for names in exported.values():
        assert not {n for n in names if n.startswith("aclnn")} - ours
        assert "sparse_flash_attention" not in names
    assert "asa_sparse_flash_attention" in exported["AsaSparseFlashAttention_0.o"]
    info = (vendor / "op_impl/ai_core/tbe/config/ascend910b/aic-ascend910b-ops-info.json").read_text()
    assert re.findall(r'"(\w*SparseFlashAttention)"', info) == ["AsaSparseFlashAttention"]


def test_each_library_answers_for_its_own_name(vendor, tmp_path):
    """A20: CANN's libopapi and ours in one process, whichever is loaded first."""
    built_in = tmp_path / "libopapi.so"
    entry = "aclnnSparseFlashAttentionGetWorkspaceSize"
    source = f"int {entry}(void) {{ return 1; }} int aclnnSparseFlashAttention(void) {{ return 1; }}"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(built_in)], input=source, text=True, check=True
    )
    ours = vendor / "op_api/lib/libcust_opapi.so"
    probe = tmp_path / "probe.cpp"
    probe.write_text(
        "#include <dlfcn.h>\n#include <cstdio>\nint main(int, char** a) {\n"
        "  for (int i = 1; i < 3; ++i)\n"
        "    if (!dlopen(a[i], RTLD_LAZY | RTLD_GLOBAL)) { std::puts(dlerror()); return 1; }\n"
        "  for (int i = 3; i < 5; ++i) { Dl_info info{}; void* at = dlsym(RTLD_DEFAULT, a[i]);\n"
        "    if (!at || !dladdr(at, &info)) return 1; std::puts(info.dli_fname); }\n}\n"
    )
    subprocess.run(["g++", str(probe), "-o", str(tmp_path / "probe"), "-ldl"], check=True)
    for order in ((built_in, ours), (ours, built_in)):
        done = subprocess.run(
            [str(tmp_path / "probe"), *map(str, order), "aclnnAsaSparseFlashAttentionGetWorkspaceSize", entry],
            env=clean_env(ASCEND_CUSTOM_OPP_PATH=str(vendor)), capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout.split() == [str(ours), str(built_in)], done.stdout + done.stderr
