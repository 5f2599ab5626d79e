# SPDX-License-Identifier: Apache-2.0
"""The command line: exit codes, messages, reports that agree with the text."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from ascend_sparse_attention.precision import runner

CASES = """
version: 1
defaults: {layout: BSND, dtype: float16, S1: 5, S2: 192, N1: 8, N2: 2, Dk: 128, Dv: 64, topK: 96}
cases:
- {id: one, B: 2}
- {id: two, B: 1, layout: BNSD, dtype: bfloat16, is_causal: true}
"""


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text(CASES)
    return path


def rows(text):
    """Cells of the results table by case id."""
    found = {}
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) > 5 and cells[2] in ("PASS", "FAIL", "EMPTY", "ERROR"):
            found[cells[0]] = cells
    return found


# --- sfa check -------------------------------------------------------------------------------------------------------


def test_check_passes_and_reports_agree(sfa, cases):
    code, out, _ = sfa("check", cases, "--backend", "cpu", "--json", "r.json", "--html", "r.html")
    assert code == 0
    report = json.load(open("r.json"))
    table = rows(out)
    assert list(table) == [entry["id"] for entry in report["cases"]] == ["one", "two"]
    for entry in report["cases"]:
        cells = table[entry["id"]]
        assert cells[2] == entry["verdict"] == "PASS"
        assert cells[3] == f"pass {entry['cann_bench']['deciding_region']}"
        assert cells[5] == f"{entry['spec']['mere']:.3g}" and cells[6] == f"{entry['spec']['mare']:.3g}"
        assert entry["backend"] == "cpu" and entry["peak_mib"] > 0 and entry["seconds"] > 0
    assert report["summary"]["exit_code"] == 0 and "2 of 2 PASS under cann-bench" in out
    assert report["run"]["device"] == "cpu"
    html = open("r.html").read()
    assert html.count("data:image/png") == 4 and "2 / 2" in html


def test_check_fails_with_words(sfa, cases, monkeypatch):
    real = runner.run_operator

    def broken(*arguments, **keywords):
        out = real(*arguments, **keywords)
        if out.dtype == torch.float16:
            out[1, 2, 3, 4] = float("nan")
        return out

    monkeypatch.setattr(runner, "run_operator", broken)
    code, out, _ = sfa("check", cases, "--json", "r.json")
    assert code == 1
    assert "NaN where the golden is a number: 1 elements, first at [1, 2, 3, 4]" in out
    table = rows(out)
    assert (table["one"][2], table["two"][2]) == ("FAIL", "PASS")
    report = json.load(open("r.json"))
    assert [entry["verdict"] for entry in report["cases"]] == ["FAIL", "PASS"]
    assert report["cases"][0]["spec"]["mere"] == "nan" == table["one"][5]
    assert report["summary"]["exit_code"] == 1 and report["summary"]["invalid_metrics"] == 1
    assert "1 of 2 PASS under cann-bench (1 FAIL)" in out


def test_policies(sfa, tmp_path):
    # Large enough that some elements stand so near zero that no float16 passes the spec rule.
    path = tmp_path / "near-zero.yaml"
    path.write_text(CASES.replace("S1: 5", "S1: 96").replace("B: 2", "B: 4"))
    run = ("check", path, "--case", "one")
    assert sfa(*run, "--policy", "cann-bench")[0] == 0
    code, out, _ = sfa(*run, "--policy", "spec")
    assert code == 1 and "spec rule: MERE" in out
    assert "In 1 of the cases the golden itself, rounded to the io dtype, fails the spec rule" in out
    assert sfa(*run, "--policy", "both")[0] == 1


def test_case_selection_and_bundled_files(sfa):
    code, out, _ = sfa("check", "quickstart", "--case", "zero-input", "--case", "gqa-odd")
    assert code == 0 and set(rows(out)) == {"zero-input", "gqa-odd"}
    code, out, _ = sfa("check", "public", "--case", "9", "--shrink", "--indices", "tail", "--json", "r.json", "-v")
    assert code == 0 and "perfect rounding to float16 would reach" in out
    entry = json.load(open("r.json"))["cases"][0]
    assert (entry["case"]["S1"], entry["case"]["S2"], entry["case"]["topK"]) == (4, 2048, 512)
    assert entry["anchors"]["910b2"]["t_hw_us"] == 48.53


def test_seed_changes_the_inputs(sfa, cases):
    sfa("check", cases, "--case", "one", "--json", "a.json")
    sfa("check", cases, "--case", "one", "--json", "b.json", "--seed", "1")
    a, b = (json.load(open(name))["cases"][0]["spec"]["mere"] for name in ("a.json", "b.json"))
    assert a != b


def test_empty_case_is_no_pass(sfa, tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text(CASES.replace("B: 2", "B: 0"))
    code, out, _ = sfa("check", path, "--case", "one")
    assert code == 1 and rows(out)["one"][2] == "EMPTY" and "0 of 1 PASS under cann-bench (1 EMPTY)" in out
    assert sfa("check", path, "--case", "one", "--allow-empty")[0] == 0


def test_narrow_terminal(sfa, cases, monkeypatch):
    import ascend_sparse_attention.cli.console as console
    from rich.console import Console

    monkeypatch.setattr(console, "output_console", lambda *_: Console(width=80))
    monkeypatch.setattr("ascend_sparse_attention.cli.check.output_console", lambda *_: Console(width=80))
    code, out, _ = sfa("check", cases)
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert out.count("PASS") == 3 and "MERE" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "none.csv"), "none.csv: cannot be read: No such file"),
        (("check", "cases.yaml", "--case", "three"), "--case three: expected one of one, two"),
        (("check", "cases.yaml", "--backend", "npu"), "--backend npu: "),
        (("check", "cases.yaml", "--schedule", "ring"), "--schedule ring: backend cpu has no schedules"),
        (("check", "cases.yaml", "--json", "none/r.json"), "none/r.json: the folder"),
        (("check", "cases.yaml", "--html", "."), "expected a file name, got a folder"),
        (("check", "bad.csv"), "bad.csv, row 1: unknown column 'wrong'"),
        (("check", "cases.yaml", "--policy", "none"), "Invalid value for '--policy'"),
        (("check", "cases.yaml", "--seed", "-1"), "Invalid value for '--seed'"),
        (("check",), "Missing argument"),
        (("chek", "cases.yaml"), "No such command"),
    ],
)
def test_wrong_usage_exits_2(sfa, cases, tmp_path, arguments, message):
    (tmp_path / "bad.csv").write_text("operator,wrong\n")
    before = sorted(os.listdir(tmp_path))
    code, out, err = sfa(*arguments)
    assert code == 2
    assert message in err.replace("\n", " ") and "Traceback" not in out + err
    assert sorted(os.listdir(tmp_path)) == before


def test_case_too_large_for_the_machine_exits_2(sfa, tmp_path):
    path = tmp_path / "huge.yaml"
    path.write_text(CASES.replace("S2: 192", "S2: 2000000000").replace("B: 1,", "B: 64,"))
    code, _, err = sfa("check", path)
    assert code == 2
    assert re.search(r"huge\.yaml, row 5: case one needs [\d.]+ GiB of memory .* this machine has [\d.]+ GiB", err)


def test_full_disk_exits_2_and_leaves_nothing(sfa, cases, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = sfa("check", cases, "--case", "one", "--json", "r.json")
    assert code == 2 and "r.json: the report could not be written: No space left on device" in err
    assert os.listdir(tmp_path) == ["cases.yaml"]


def test_names_are_no_markup(sfa, tmp_path):
    (tmp_path / "c.yaml").write_text(CASES.replace("id: one", 'id: "[/x]"').replace("id: two", 'id: "[red]"'))
    code, out, _ = sfa("check", "c.yaml", "--shrink")
    assert code == 0 and {"[/x]", "[red]"} <= set(rows(out))


# --- sfa compare -----------------------------------------------------------------------------------------------------


def test_compare(sfa):
    golden = np.linspace(-1, 1, 600).reshape(20, 30)
    np.save("g.npy", golden)
    np.save("a.npy", golden.astype(np.float16))
    code, out, _ = sfa("compare", "a.npy", "g.npy", "--json", "r.json")
    entry = json.load(open("r.json"))["cases"][0]
    assert code == 0 and entry["verdict"] == "PASS" and entry["shape"] == [20, 30]
    assert entry["exact"] < 600 and f"MERE {entry['spec']['mere']:.3g}" in out
    golden[3, 4] += 1
    np.save("a.npy", golden.astype(np.float16))
    code, out, _ = sfa("compare", "a.npy", "g.npy", "--json", "r.json")
    entry = json.load(open("r.json"))["cases"][0]
    assert code == 1 and entry["verdict"] == "FAIL" and entry["spec"]["mare"] > 1
    assert entry["offenders"]["worst"]["index"] == [3, 4] and "worst at [3, 4]" in out


def test_compare_bfloat16_bits(sfa):
    golden = torch.linspace(-1, 1, 64)
    golden.double().numpy().tofile("g.bin")
    golden.bfloat16().view(torch.uint16).numpy().tofile("a.bin")
    np.save("a.npy", golden.bfloat16().view(torch.uint16).numpy())
    assert sfa("compare", "a.bin", "g.bin", "--dtype", "bfloat16", "--shape", "8,8")[0] == 0
    code, _, err = sfa("compare", "a.npy", "g.bin", "--shape", "64")
    assert code == 2 and "raw bits of a float dtype" in err and "--dtype" in err
    code, _, err = sfa("compare", "a.bin", "g.bin", "--dtype", "bfloat16")
    assert code == 2 and "give --shape" in err


def test_compare_saturate(sfa):
    np.save("g.npy", np.array([65519.0, 1.0]))
    np.save("a.npy", np.array([np.inf, 1.0], dtype=np.float16))
    code, out, _ = sfa("compare", "a.npy", "g.npy")
    assert code == 1 and "Inf on one side only: 1 elements, first at [0]" in out
    assert sfa("compare", "a.npy", "g.npy", "--saturate")[0] == 0


def test_compare_empty_and_shape_mismatch(sfa):
    np.save("a.npy", np.zeros((0,), dtype=np.float16))
    np.save("g.npy", np.zeros((0,)))
    code, out, _ = sfa("compare", "a.npy", "g.npy")
    assert code == 1 and "EMPTY" in out and "no elements" in out
    assert sfa("compare", "a.npy", "g.npy", "--allow-empty")[0] == 0
    np.save("g.npy", np.zeros((4,)))
    code, out, _ = sfa("compare", "a.npy", "g.npy", "--allow-empty")
    assert code == 1 and "actual [0], golden [4]" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.npy", "gone.npy"), "gone.npy: no such file"),
        (("a.npy",), "Missing argument"),
        (("a.npy", "g.npy", "--dtype", "int4"), "dtype: expected one of"),
        (("a.npy", "g.npy", "--shape", "2,x"), "--shape: expected sizes"),
        (("a.npy", "g.npy", "--shape", "5"), "expected shape [5], got [4]"),
        (("a.npy", "evil.npy"), "evil.npy: not a readable .npy file"),
        (("a.txt", "g.npy"), "a.txt: expected one of .npy"),
        (("a.npy", "g.npy", "--native", "gone.pt"), "gone.pt: no such file"),
    ],
)
def test_compare_wrong_usage_exits_2(sfa, arguments, message):
    np.save("a.npy", np.ones(4, dtype=np.float16))
    np.save("g.npy", np.ones(4))
    np.save("evil.npy", np.array([object()]), allow_pickle=True)
    code, out, err = sfa("compare", *arguments)
    assert code == 2 and message in err and "Traceback" not in out + err


# --- the rest --------------------------------------------------------------------------------------------------------


def test_help_names_every_command(sfa):
    code, out, _ = sfa("--help")
    assert code == 0 and all(word in out for word in ("check", "compare", "env", "Exit code: 0 pass, 1 fail, 2"))
    for command in ("check", "compare", "env"):
        assert sfa(command, "--help")[0] == 0


def test_no_command_is_wrong_usage(sfa):
    assert sfa()[0] == 2


def test_as_a_process(cases):
    """The installed script's way in, with stdout in a pipe."""
    command = [sys.executable, "-c", "from ascend_sparse_attention_cli import main; main()"]
    done = subprocess.run([*command, "check", str(cases), "--case", "one"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout)["one"][2] == "PASS" and "\x1b[" not in done.stdout
    done = subprocess.run([*command, "check", "gone.yaml"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "gone.yaml" in done.stderr and "Traceback" not in done.stderr
