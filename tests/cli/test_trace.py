# SPDX-License-Identifier: Apache-2.0
"""`sfa trace`, and a schedule of the kernel forced by `sfa check`."""

from __future__ import annotations

import importlib.util
import json
import os
import re

import pytest
from ascend_sparse_attention import twin
from ascend_sparse_attention.twin_trace import load_trace

CASES = """
version: 1
defaults: {layout: BSND, dtype: float16, S1: 2, S2: 300, N1: 8, N2: 1, Dk: 128, Dv: 64, topK: 160}
cases:
- {id: one, B: 2, is_causal: true}
- {id: two, B: 1, layout: BNSD, dtype: bfloat16}
- {id: small, B: 1, topK: 8}
- {id: wide, B: 1, Dk: 640}
- {id: none, B: 0}
"""


@pytest.fixture(autouse=True)
def cases(tmp_path):
    (tmp_path / "cases.yaml").write_text(CASES)


def microseconds(text):
    return {name: float(us) for name, us in re.findall(r"^predicted \((\w+)\): ([\d.]+) us", text, re.M)}


def test_trace_and_picture(sfa):
    code, out, _ = sfa("trace", "cases.yaml", "--case", "one", "-o", "t.json", "--png", "t.png")
    assert code == 0 and "no findings" in out
    predicted = microseconds(out)
    assert predicted["optimistic"] < predicted["expected"] < predicted["pessimistic"]
    assert "A prediction of the twin's cycle model, not a measurement." in out
    for words in ("busy mean", "critical path", "by source line", "AIC MTE2", "schedule gather on "):
        assert words in out, words
    trace = load_trace("t.json")
    assert trace.complete and trace.microseconds == pytest.approx(predicted["expected"], abs=1e-3)
    cores = int(re.search(r"on (\d+) AIC", out)[1])
    assert len(trace.cores) == 3 * cores
    assert {pipe for core in trace.block(0) for pipe in core.pipes} == {"S", "MTE1", "MTE2", "MTE3", "M", "V", "FIX"}
    with open("t.png", "rb") as picture:
        assert picture.read(8) == b"\x89PNG\r\n\x1a\n"
    json.load(open("t.json"))


def test_options_reach_the_run(sfa):
    run = ("trace", "cases.yaml", "--case", "two", "-o", "t.json")
    _, whole, _ = sfa(*run)
    _, few, _ = sfa(*run, "--cores", "1")
    assert "on 1 AIC" in few and microseconds(few)["expected"] >= microseconds(whole)["expected"]
    for schedule in twin.SCHEDULES:
        assert f"schedule {schedule} on" in sfa(*run, "--schedule", schedule)[1]
    assert microseconds(sfa(*run, "--own-value")[1]) != microseconds(whole)
    assert microseconds(sfa(*run, "--seed", "5", "--indices", "tail")[1]) != microseconds(whole)
    code, out, _ = sfa("trace", "public", "--case", "14", "--shrink", "-o", "t.json", "--png", "t.svg", "--block", "1")
    assert code == 0 and "case 14: BSND float16 B2 S1 1 " in out and os.path.getsize("t.svg") > 1000


def test_a_bundled_case_by_its_id(sfa):
    code, out, _ = sfa("trace", "zero-input", "-o", "t.json")
    assert code == 0 and "case zero-input: " in out


def test_findings_are_a_failure(sfa, monkeypatch):
    real = twin.run
    monkeypatch.setattr(twin, "run", lambda *a, **k: real(*a, **k, drop_sync=site(real, a, k)))
    code, out, _ = sfa("trace", "cases.yaml", "--case", "small", "-o", "t.json")
    assert code == 1 and "no findings" not in out


def site(run, arguments, options):
    """A synchronisation between MTE2 and V."""
    return next(key for key in run(*arguments, **options).sync_sites if "MTE2_V" in key or "MTE2 V" in key)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere: expected a case file, public, quickstart or the id of a case of these"),
        (("cases.yaml",), "cases.yaml: expected --case with one of one, two, small, wide, none"),
        (("cases.yaml", "--case", "three"), "--case three: expected one of one, two, small, wide, none"),
        (("zero-input", "--case", "one"), "zero-input: expected a case file, public"),
        (("cases.yaml", "--case", "wide"), "case wide: query: expected Dk <= 576 on the NPU, got 640"),
        (("cases.yaml", "--case", "none"), "case none launches nothing (B or S1 is 0), so there is no trace"),
        (("cases.yaml", "--case", "one", "--schedule", "dense"), "--schedule: expected one of gather, gather_split_k"),
        (
            ("cases.yaml", "--case", "small", "--schedule", "gather_split_k"),
            "case small: schedule: expected topK > 128 for gather_split_k, got 8",
        ),
        (("cases.yaml", "--case", "one", "--cores", "-1"), "Invalid value for '--cores'"),
        (
            ("cases.yaml", "--case", "one", "--png", "t.gif"),
            "--png: expected a file name that ends in .png, .pdf, .svg",
        ),
        (("cases.yaml", "--case", "one", "--png", "gone/t.png"), "gone/t.png: the folder"),
    ],
)
def test_wrong_usage_exits_2(sfa, arguments, message):
    code, out, err = sfa("trace", *arguments, "-o", "t.json")
    assert code == 2
    assert message in re.sub(r"\s+", " ", err) and "Traceback" not in out + err
    assert os.listdir() == ["cases.yaml"]


def test_output_is_needed_and_must_be_writable(sfa):
    code, _, err = sfa("trace", "cases.yaml", "--case", "one")
    assert code == 2 and "Missing option" in err
    code, _, err = sfa("trace", "cases.yaml", "--case", "one", "-o", "gone/t.json")
    assert code == 2 and "gone/t.json: the folder" in err


def test_a_block_that_is_not_there(sfa):
    code, _, err = sfa("trace", "cases.yaml", "--case", "one", "-o", "t.json", "--png", "t.png", "--block", "99")
    assert code == 2 and "--block: expected 0 .. " in err and "got 99" in err


def test_without_matplotlib(sfa, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "matplotlib" else real(name, *a))
    run = ("trace", "cases.yaml", "--case", "small", "-o", "t.json")
    code, _, err = sfa(*run, "--png", "t.png")
    assert code == 2 and "--png: expected matplotlib" in err and "pip install matplotlib" in re.sub(r"\s+", " ", err)
    assert sfa(*run)[0] == 0


def test_without_the_twin(sfa, monkeypatch):
    monkeypatch.setenv("ASA_TWIN_LIBRARY", "/nowhere/libasa_twin.so")
    twin.library.cache_clear()
    code, _, err = sfa("trace", "cases.yaml", "--case", "one", "-o", "t.json")
    twin.library.cache_clear()
    assert code == 2 and "libasa_twin.so" in err and "scripts/build_twin.sh" in err


# --- sfa check --schedule -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", twin.SCHEDULES)
def test_check_with_a_forced_schedule(sfa, monkeypatch, schedule):
    ran = []
    real = twin.run

    def spy(*arguments, **options):
        result = real(*arguments, **options)
        ran.append(result.schedule)
        return result

    monkeypatch.setattr(twin, "run", spy)
    run = ("check", "cases.yaml", "--case", "one", "--case", "two", "--backend", "twin")
    code, out, _ = sfa(*run, "--schedule", schedule, "--json", "r.json")
    assert code == 0 and "2 of 2 PASS" in out and ran == [schedule] * 2
    assert json.load(open("r.json"))["run"]["schedule"] == schedule


def test_check_refuses_unknown_and_unfit_schedules(sfa):
    run = ("check", "cases.yaml", "--case", "small", "--backend", "twin")
    code, _, err = sfa(*run, "--schedule", "dense")
    assert code == 2
    assert "--schedule: expected one of gather, gather_split_k (backend twin), got dense" in re.sub(r"\s+", " ", err)
    code, out, _ = sfa(*run, "--schedule", "gather_split_k")
    assert code == 1 and "schedule: expected topK > 128 for gather_split_k, got 8" in re.sub(r"\s+", " ", out)
