# SPDX-License-Identifier: Apache-2.0
"""Reports: what they hold, that JSON survives a round trip, that nothing is left half-written."""

from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from ascend_sparse_attention.precision import report, runner
from ascend_sparse_attention.precision.cases import Case
from ascend_sparse_attention.precision.html import page
from ascend_sparse_attention.precision.rules import Policy
from ascend_sparse_attention.precision.runner import Options, run_case

CASE = Case(
    "c", "BSND", "float16", B=2, S1=5, S2=192, N1=8, N2=2, Dk=128, Dv=64, topK=96, scale=0.09, seed_name="c", note="<b>"
)


def results_of(monkeypatch, *changes):
    real = runner.run_operator
    results = []
    for number, change in enumerate(changes):
        monkeypatch.setattr(runner, "run_operator", lambda *a, c=change, **k: c(real(*a, **k)))
        results.append(run_case(replace(CASE, id=f"c{number}"), Options(), torch.device("cpu"), lambda *_: None))
    return results


def right(out):
    return out


def with_nan(out):
    out[0, 1, 2, 3] = float("nan")
    return out


def off(out):
    out[1, :, 4] *= 1.1
    return out


def fails(out):
    raise RuntimeError("no device")


@pytest.fixture
def results(monkeypatch):
    return results_of(monkeypatch, right, off, with_nan, fails)


@pytest.fixture
def document(results):
    entries = [report.case_entry(result) for result in results]
    return report.document(entries, report.summarize(entries, Policy.CANN_BENCH), {"backend": "cpu", "seed": 0})


def test_json_round_trip(document):
    read = json.loads(report.to_json(document), parse_constant=pytest.fail)
    assert read["version"] == 1 and read["format"] == "ascend-sparse-attention/precision"
    assert [entry["verdict"] for entry in read["cases"]] == ["PASS", "FAIL", "FAIL", "ERROR"]
    for entry, given in zip(read["cases"], document["cases"]):
        for field in ("id", "backend", "verdict", "spec", "cann_bench", "seconds", "peak_mib"):
            assert field in entry
        if given["spec"] is None:
            assert entry["spec"] is None
            continue
        # The very figures that text and HTML show, not a 0 from a wrongly read field.
        for figure in ("mere", "mare"):
            value = given["spec"][figure]
            assert entry["spec"][figure] == (value if math.isfinite(value) else str(value))
        assert entry["cann_bench"]["deciding_region"] == given["cann_bench"]["deciding_region"]
    failing = read["cases"][1]
    assert failing["spec"]["mare"] == pytest.approx(0.1, rel=0.05) and failing["spec"]["pass"] is False
    assert failing["cann_bench"]["pass"] is False
    regions = failing["cann_bench"]["regions"]
    assert set(regions) == {"small", "cancel", "normal"}
    assert sum(region["total"] for region in regions.values()) == failing["elements"] == 5120
    assert failing["offenders"]["first"]["index"][::2] == [1, 4]
    nan = read["cases"][2]
    assert nan["spec"]["mere"] == nan["spec"]["mare"] == "nan"
    assert nan["nonfinite"]["nan_in_actual"]["count"] == 1
    assert nan["nonfinite"]["nan_in_actual"]["first"]["index"] == [0, 1, 2, 3]
    assert read["cases"][3]["reasons"] == ["RuntimeError: no device"]


def test_summary_stays_finite(document):
    summary = document["summary"]
    assert (summary["cases"], summary["passed"], summary["failed"], summary["errors"]) == (4, 1, 2, 1)
    assert summary["invalid_metrics"] == 2  # the NaN and the error
    assert all(math.isfinite(value) for value in summary.values() if isinstance(value, float))
    metrics = [entry["spec"] for entry in document["cases"][:2]]
    assert summary["mere_mean"] == pytest.approx(sum(metric["mere"] for metric in metrics) / 2)
    assert summary["exit_code"] == 1


def test_summary_of_passes_and_of_nothing_valid(results):
    (entry,) = [report.case_entry(results[0])]
    assert report.summarize([entry], Policy.CANN_BENCH)["exit_code"] == 0
    nan = report.summarize([report.case_entry(results[2])], Policy.CANN_BENCH)
    assert nan["mere_mean"] == 0.0 and nan["invalid_metrics"] == 1 and nan["exit_code"] == 1
    assert report.summarize([], Policy.CANN_BENCH)["exit_code"] == 1


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.images, self.links, self.text, self.open = [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "img":
            self.images.append(values["src"])
        for name in ("src", "href"):
            self.links.append(values.get(name) or "#")
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_is_one_self_contained_page(document, results):
    html = page(document, results)
    parsed = _Page()
    parsed.feed(html)
    assert parsed.open == []
    # Two pictures for each case that was compared, nothing from outside.
    assert len(parsed.images) == 6 and all(src.startswith("data:image/png;base64,") for src in parsed.images)
    assert all(link.startswith(("#", "data:")) for link in parsed.links)
    text = " ".join(parsed.text)
    for entry in document["cases"]:
        assert entry["id"] in text and entry["verdict"] in text
    assert f"{document['cases'][1]['spec']['mare']:.3g}" in text
    assert "RuntimeError: no device" in text


def test_html_escapes(document, results):
    document["cases"][3]["reasons"] = ["<script>alert(1)</script>"]
    document["cases"][3]["id"] = "<i>"
    html = page(document, results)
    assert "<script>" not in html and "<i>" not in html


# --- writing ---------------------------------------------------------------------------------------------------------


def test_atomic_write_replaces(tmp_path):
    target = tmp_path / "r.json"
    target.write_text("old")
    report.write_atomically(target, "new")
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["r.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_disk_full_leaves_nothing_half_written(tmp_path, monkeypatch, step):
    target = tmp_path / "r.json"
    target.write_text("old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(report.ReportError, match=r"r\.json: the report could not be written: No space left on device"):
        report.write_atomically(target, "new")
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["r.json"]


def test_unwritable_targets(tmp_path):
    with pytest.raises(report.ReportError, match="does not exist"):
        report.check_writable(tmp_path / "none" / "r.json")
    with pytest.raises(report.ReportError, match="expected a file name, got a folder"):
        report.check_writable(tmp_path)
    report.check_writable(tmp_path / "r.json")
