# SPDX-License-Identifier: Apache-2.0
"""`sfa check-submission` on packages that break rules on purpose: every fault is named, at once (D10)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from ascend_sparse_attention.submission import RULES, Options, check_submission
from ascend_sparse_attention.submission.source_scan import scan_library, scan_package

HERE = Path(__file__).parent
WHEEL_WRITER = HERE.parents[1] / "framework" / "packaging" / "wheel_writer.py"


def package(tmp_path: Path, name: str) -> Path:
    target = tmp_path / name
    shutil.copytree(HERE / "packages" / name, target)
    shutil.copy(WHEEL_WRITER, target)
    return target


def rules_of(report) -> set[str]:
    return {one.rule.id for one in report.violations}


def got(report, rule: str) -> str:
    return "\n".join(f"{one.where}: {one.got}" for one in report.violations if one.rule.id == rule)


@pytest.fixture(scope="module")
def torch_compute(tmp_path_factory):
    return check_submission(package(tmp_path_factory.mktemp("torch_compute"), "torch_compute"))


@pytest.fixture(scope="module")
def wrong_interface(tmp_path_factory):
    return check_submission(package(tmp_path_factory.mktemp("wrong_interface"), "wrong_interface"))


def test_torch_compute(torch_compute):
    """The values are right, so only the rules of behaviour are broken, and the cached result is wrong."""
    assert rules_of(torch_compute) == {"SUB-BEH-001", "SUB-BEH-002", "SUB-BEH-005"}
    for name in ("aten::bmm", "aten::_softmax", "aten::masked_fill"):
        assert name in got(torch_compute, "SUB-BEH-001")
    for name in ("aten::permute", "aten::_to_copy", "aten::scatter_"):
        assert name in got(torch_compute, "SUB-BEH-002")
    assert "strides" in got(torch_compute, "SUB-BEH-002")
    assert "new values at an old address: the result of the old values" in got(torch_compute, "SUB-BEH-005")
    assert "the memory of the first call's output" in got(torch_compute, "SUB-BEH-005")
    assert torch_compute.stages == {"build": "exit code 0", "install": "installed", "call": "6 of 6 cases"}


def test_wrong_interface(wrong_interface):
    assert rules_of(wrong_interface) == {
        "SFA-ACC-001", "SFA-IN-001", "SFA-PKG-002", "SFA-SIG-001",
        "SUB-BEH-004", "SUB-BEH-005", "SUB-BEH-006", "SUB-BEH-007",
    }  # fmt: skip
    assert "ascend_sparse_attention" in got(wrong_interface, "SFA-PKG-002")
    assert "inputLayout: 'BNSD'" in got(wrong_interface, "SFA-SIG-001")
    assert "another function in its place" in got(wrong_interface, "SUB-BEH-006")
    assert "case decode, key" in got(wrong_interface, "SFA-IN-001")
    assert "cann_bench.Lazy" in got(wrong_interface, "SUB-BEH-007")


def test_unbuildable(tmp_path):
    """Nothing runs; the build's last words and what the sources would have called are reported together."""
    report = check_submission(package(tmp_path, "unbuildable"))
    assert rules_of(report) == {
        "EVAL-CANN-003", "SUB-BEH-001", "SUB-BEH-002", "SUB-BEH-003", "SUB-BEH-004", "SUB-BEH-006"
    }  # fmt: skip
    assert "exit code 2" in got(report, "EVAL-CANN-003") and "no member named 'Mmad'" in got(report, "EVAL-CANN-003")
    assert "torch.nn.functional.softmax" in got(report, "SUB-BEH-001")
    assert "torch_npu.npu_sparse_flash_attention" in got(report, "SUB-BEH-003")
    assert "time.time" in [one.expected.split()[0] for one in report.violations]


def test_structure(tmp_path):
    assert rules_of(check_submission(tmp_path / "nowhere")) == {"EVAL-CANN-001"}
    empty = tmp_path / "empty"
    empty.mkdir()
    assert rules_of(check_submission(empty)) == {"EVAL-CANN-002"}
    (empty / "build.sh").write_text("mkdir -p dist && touch dist/other-1.0-py3-none-any.whl\n")
    report = check_submission(empty)
    assert rules_of(report) == {"EVAL-CANN-003"} and "other-1.0" in got(report, "EVAL-CANN-003")
    assert not (empty / "dist").exists(), "the submission itself must stay as it is"


def test_wheel_without_the_operator_and_run_package_that_fails_again(tmp_path):
    """D4: a run package that cannot be installed twice is caught before the evaluator ignores it."""
    root = package(tmp_path, "torch_compute")
    (root / "cann_bench" / "__init__.py").write_text("def softmax(x):\n    return x\n")
    (root / "build.sh").write_text(
        "set -e\npython3 wheel_writer.py cann_bench 1.0 dist\npython3 wheel_writer.py cann_bench 2.0 dist\n"
        "printf '#!/bin/sh\\nmkdir \"${2#--install-path=}/vendors\"\\n' > dist/cann_bench_ops.run\n"
    )
    report = check_submission(root)
    assert rules_of(report) == {"EVAL-CANN-005", "SFA-PKG-001", "SFA-PKG-003"}
    assert "second time" in got(report, "SFA-PKG-003")
    assert "callables: softmax" in got(report, "EVAL-CANN-005")


@pytest.mark.parametrize(
    ("body", "rule", "word"),
    [
        ("raise OSError('libascendcl.so: cannot open shared object file')", "EVAL-CANN-004", "libascendcl.so"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "EVAL-CANN-004", "SIGSEGV"),
        (
            "def sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout='BSND',"
            " is_causal=False):\n    import os\n    os.abort()",
            "SFA-RUN-001",
            "SIGABRT",
        ),
        (
            "def sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout='BSND',"
            " is_causal=False):\n    raise ValueError('tiling failed')",
            "SFA-RUN-001",
            "ValueError: tiling failed",
        ),
        (
            "def sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout='BSND',"
            " is_causal=False):\n    return query.new_empty(query.shape[:2])",
            "SFA-OUT-001",
            "shape [",
        ),
    ],
)
def test_what_ends_badly_is_reported(tmp_path, body, rule, word):
    root = package(tmp_path, "torch_compute")
    (root / "cann_bench" / "__init__.py").write_text(body + "\n")
    report = check_submission(root, Options(seconds=60))
    assert rule in rules_of(report) and word in got(report, rule)
    assert rules_of(report) <= {rule}


def test_built_in_operators_in_libraries(tmp_path):
    """Only the built-in's own name counts: an operator of the submission may contain it (A20)."""
    library = tmp_path / "lib.so"
    library.write_bytes(b"\x7fELF\x00aclnnAsaSparseFlashAttentionGetWorkspaceSize\x00")
    assert not list(scan_library(library, "lib.so"))
    library.write_bytes(b"\x7fELF\x00aclnnSparseFlashAttentionGetWorkspaceSize\x00")
    (found,) = scan_library(library, "lib.so")
    assert found.rule.id == "SUB-BEH-003" and "aclnnSparseFlashAttentionGetWorkspaceSize" in found.got


def test_harmless_sources_are_not_blamed(tmp_path):
    (tmp_path / "ok.py").write_text(
        "import torch\nimport asyncio\nimport time\n"
        "def f(names, x):\n    names.sort()\n    asyncio.gather()\n    start = time.perf_counter()\n"
        "    return torch.ops.cann_bench.softmax(x), torch.empty(1), start\n"
    )
    assert scan_package(tmp_path, tmp_path, calls=True) == []


def test_command_line(tmp_path, wrong_interface):
    import os
    import subprocess
    import sys

    target = package(tmp_path, "unbuildable")
    command = [sys.executable, "-c", "from ascend_sparse_attention_cli import main; main()", "check-submission"]
    done = subprocess.run(
        [*command, str(target), "--json", str(tmp_path / "r.json")],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert not report["ok"]
    for one in report["violations"]:
        assert one["rule"] in done.stdout and one["hint"] == RULES[one["rule"]].hint
        assert set(one) == {"rule", "demand", "where", "expected", "got", "hint"}
    assert "6 rules" in done.stdout
    missing = subprocess.run([*command, str(tmp_path / "none")], capture_output=True, text=True)
    assert missing.returncode == 2 and "does not exist" in missing.stderr
