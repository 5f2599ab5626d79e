# SPDX-License-Identifier: Apache-2.0
"""`sfa env`: what is found is named, what is missing said in words, misfits are problems."""

from __future__ import annotations

import json
import platform
import sys

import pytest
import torch
from ascend_sparse_attention import backends
from ascend_sparse_attention.cli import env
from ascend_sparse_attention.cli.app import main


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sfa", "env", "--json", "e.json"])

    def call():
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().out, json.load(open("e.json"))["findings"]

    return call


def test_env(run, monkeypatch):
    monkeypatch.setattr(env, "fit", lambda: [])
    code, out, findings = run()
    known = {finding["what"]: finding for finding in findings}
    assert code == 0 and known["torch"]["value"] == torch.__version__
    assert known["Python"]["value"].startswith(platform.python_version())
    for what in ("torch_npu", "CANN", "NPU driver", "GPU", "g++", "cmake", "nvcc", "bisheng"):
        assert what in known
        # What is missing says why it matters.
        assert known[what]["state"] == "ok" or known[what]["hint"]
    assert known["backend cpu"]["value"] == "usable"
    for name in backends.NAMES:
        assert f"backend {name}" in known and f"backend {name}" in out


def test_problems_exit_1(run, monkeypatch):
    monkeypatch.setattr(env, "fit", lambda: [env.torch_npu_fit("2.9.0", "2.8.0.post2")])
    code, out, _ = run()
    assert code == 1 and "torch_npu 2.8.0.post2 needs torch 2.8.0" in out


@pytest.mark.parametrize(
    ("torch_version", "npu", "state"),
    [("2.9.0", "2.9.0", "ok"), ("2.9.0+cpu", "2.9.0.post1", "ok"), ("2.9.1", "2.9.0", "problem")],
)
def test_torch_npu_fit(torch_version, npu, state):
    assert env.torch_npu_fit(torch_version, npu).state == state


@pytest.mark.parametrize(
    ("npu", "cann", "state", "words"),
    [
        ("2.9.0", "8.5.0", "ok", ""),
        ("2.9.0+gitabc", "8.5.RC1", "ok", ""),
        ("2.9.0", "9.0.0", "ok", "released with CANN 8.5.0, this one is later"),
        ("2.9.0", "8.3.RC1", "problem", "CANN: expected 8.5.0 (torch_npu 2.9.0's), got 8.3.RC1"),
        ("2.9.0.post2", "8.5.0", "problem", "CANN: expected 9.0.0"),
        ("2.99.0", "9.0.0", "missing", "torch_npu 2.99.0: its CANN version is not known here"),
        ("2.9.0", None, "problem", "torch_npu needs a CANN toolkit"),
    ],
)
def test_torch_npu_cann_fit(npu, cann, state, words):
    finding = env.torch_npu_cann_fit(npu, cann)
    assert finding.state == state and words in finding.hint


def test_auto_by_entry_point(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # other tests of the run may have set it: then cuda takes cpu tensors
    monkeypatch.setattr(type(backends.load("cuda")), "missing", lambda self: "no GPU in this test")
    found = {finding.what: finding.value for finding in env.auto_takes()}
    assert set(found) == {
        "auto for sparse_flash_attention", "auto for BlockSparseAttentionWrapper",
        "auto for VariableBlockSparseAttentionWrapper", "auto for single_prefill_with_kv_cache",
    }  # fmt: skip
    for value in found.values():
        assert value.startswith("cpu tensors: cpu\n")
        assert "cuda tensors: refused, backend cuda cannot run here: no GPU in this test" in value
    assert "npu tensors: refused, backend npu has no BlockSparse" in found["auto for BlockSparseAttentionWrapper"]
    monkeypatch.setattr(type(backends.load("cuda")), "missing", lambda self: None)
    assert all("cuda tensors: cuda\n" in finding.value for finding in env.auto_takes())


def test_nvcc_fit():
    assert env.nvcc_fit("12.8", "12.4").state == "ok"
    assert env.nvcc_fit("13.0", "12.4").state == "problem"


def test_cann_is_found_and_its_version_read(monkeypatch, tmp_path):
    home = tmp_path / "toolkit"
    (home / "x86_64-linux").mkdir(parents=True)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    assert env._cann().state == "problem" and "holds no version file" in env._cann().hint
    (home / "x86_64-linux" / "ascend_toolkit_install.info").write_text("package_name=Ascend\nversion=8.3.RC1\n")
    assert env._cann().value == f"8.3.RC1 ({home})" and env._cann().state == "ok"
    (home / "x86_64-linux" / "ascend_toolkit_install.info").unlink()
    (home / "version.cfg").write_text("# version: 1.0\nruntime_running_version=[8.1.RC1:CANN-8.1.RC1]\n")
    assert env._cann().value.startswith("8.1.RC1 ")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "gone"))
    assert env._cann().state == "problem" and "no folder" in env._cann().hint


def test_a_backend_that_breaks_is_a_problem_not_a_crash(monkeypatch):
    def broken(_):
        raise OSError("libascendcl.so: cannot open shared object file")

    monkeypatch.setattr(backends, "load", broken)
    finding = env._probe("npu")
    assert finding.state == "problem" and "libascendcl.so" in finding.hint


def test_a_tool_that_is_not_there():
    finding = env._tool("no-such-compiler", r"(.*)", "needed for nothing")
    assert (finding.state, finding.hint) == ("missing", "needed for nothing")
