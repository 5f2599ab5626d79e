# SPDX-License-Identifier: Apache-2.0
"""What is there and what is not: torch_npu, our library, libraries that do not fit (A21)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import npu  # noqa: F401  (skips this file without torch_npu)
import pytest
from ascend_sparse_attention.backends.npu import LIBRARY_VARIABLE, NpuBackend, library_path

CALL = """
q = torch.empty(1, 1, 1, 64, dtype=torch.float16, device="npu")
i = torch.zeros(1, 1, 1, 1, dtype=torch.int32).npu()
assert 'libasa_torch_npu' not in open('/proc/self/maps').read(), "an import must not load the library"
out = torch.ops.ascend_sparse_attention.sparse_flash_attention(q, q, q, i, 1.0)
print(out.device, tuple(out.shape))
"""


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("imports", "autoload"),
    [
        ("import torch, torch_npu, ascend_sparse_attention", "0"),
        ("import torch, ascend_sparse_attention, torch_npu", "0"),
        ("import ascend_sparse_attention, torch", "1"),
    ],
)
def test_any_order_of_imports(imports, autoload):
    done = run(imports + CALL, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-2] == "npu:0 (1, 1, 1, 64)"
    assert "ascend_sparse_attention::" not in done.stderr, "loading must not replace kernels"


def test_a_call_without_the_library(tmp_path):
    code = "import torch, torch_npu, ascend_sparse_attention\n" + CALL
    done = run(code, ASA_NPU_LIBRARY=str(tmp_path / "nothing.so"))
    assert "RuntimeError: backend npu cannot run here: the operator library is not built: no " in done.stderr


def test_without_torch_npu():
    """Our package alone: it imports, and the backend says what is missing."""
    code = (
        "import sys; sys.modules['torch_npu'] = None\n"
        "import torch, ascend_sparse_attention as asa\n"
        "from ascend_sparse_attention import backends\n"
        "print(backends.load('npu').missing())\n"
    )
    done = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr
    assert "torch_npu is not installed" in done.stdout


@pytest.fixture
def library(tmp_path, monkeypatch) -> Path:
    """A copy of the library and its facts, named by the environment."""
    target = tmp_path / "libasa_torch_npu.so"
    shutil.copy(library_path(), target)
    shutil.copy(library_path().with_suffix(".json"), target.with_suffix(".json"))
    monkeypatch.setenv(LIBRARY_VARIABLE, str(target))
    return target


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("version", "0.0.1", "does not fit: it is of version 0.0.1, the Python package of"),
        ("torch", "2.10.0+cpu", "does not fit: it was built for torch 2.10.0+cpu, this is torch"),
        ("torch_npu", "2.10.0", "does not fit: it was built for torch_npu 2.10.0, this is torch_npu"),
    ],
)
def test_library_of_another_build(library, fact, value, words):
    facts = library.with_suffix(".json")
    facts.write_text(json.dumps({**json.loads(facts.read_text()), fact: value}))
    assert words in NpuBackend().missing()


def test_library_without_its_facts(library):
    library.with_suffix(".json").write_text("{}")
    assert "does not say what the library was built for" in NpuBackend().missing()
    library.with_suffix(".json").unlink()
    assert "does not say what the library was built for" in NpuBackend().missing()


def test_broken_library(library):
    library.write_bytes(b"not a library")
    assert "cannot be loaded" in NpuBackend().missing()


def package(folder: Path, version: str) -> Path:
    """As much of an operator package as says that it is one."""
    config = folder / "op_impl" / "ai_core" / "tbe" / "config" / "ascend910b"
    config.mkdir(parents=True)
    (config / "aic-ascend910b-ops-info.json").write_text('{"AsaSparseFlashAttention": {}}')
    (folder / "version.info").write_text(f"asa_version={version}\n")
    return folder


def test_operator_package_of_another_version(tmp_path):
    """A21: one answer from torch.ops and another from aclnn is not offered; the first call says which package it is."""
    own = json.loads(library_path().with_suffix(".json").read_text())["version"]
    old, same = package(tmp_path / "old", "0.0.9"), package(tmp_path / "same", own)
    code = "import torch, torch_npu, ascend_sparse_attention\n" + CALL
    done = run(code, ASCEND_CUSTOM_OPP_PATH=f"{old}:{same}")
    words = f"sparse_flash_attention: operator package: expected version {own}, got 0.0.9 in {old}, which "
    assert done.returncode != 0 and f"RuntimeError: {words}ASCEND_CUSTOM_OPP_PATH names first" in done.stderr
    other = tmp_path / "other"  # not ours, whatever its version
    shutil.copytree(old, other)
    (other / "op_impl/ai_core/tbe/config/ascend910b/aic-ascend910b-ops-info.json").write_text(
        '{"SparseFlashAttention": {}, "NotAsaSparseFlashAttention": {}}'
    )
    done = run(code, ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/nowhere:{other}:{same}:{old}")
    assert done.returncode == 0, done.stderr
