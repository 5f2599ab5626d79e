# SPDX-License-Identifier: Apache-2.0
"""docs/precision.md names the columns and fields that are read and written: all of them, and no other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ascend_sparse_attention.cli.console import results_table
from ascend_sparse_attention.precision.cases import CaseFileError, load_cases

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "precision.md").read_text()

CASES = """
version: 1
defaults: {layout: BSND, dtype: float16, S1: 2, S2: 96, N1: 4, N2: 1, Dk: 64, Dv: 64, topK: 32}
cases:
- {id: good, B: 1}
- {id: wrong, B: 1}
"""


def table(section: str, head: str) -> dict[str, str]:
    """First cell -> second cell of the table under `## section` whose first column is headed `head`."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    (body,) = re.findall(rf"^\| {re.escape(head)} \| \w+ \|\n\|---\|---\|\n((?:\|.*\|\n)+)", text, re.M)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
    assert all(len(row) == 2 for row in rows) and len({row[0] for row in rows}) == len(rows)
    return dict(rows)


def names(cells, *marks: str) -> list[str]:
    """`name` of cells "`name`" with one of the marks behind it; without marks, all."""
    found = [re.fullmatch(r"`(\w[\w-]*)`( [*†])?", cell).groups() for cell in cells]
    return [name for name, mark in found if not marks or (mark or "").strip() in marks]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([\w]+)`", cell)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """{"check": document, "compare": document} as the command line writes them."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "cases.yaml").write_text(CASES)
    rng = np.random.default_rng(1)
    golden = rng.standard_normal((4, 64))
    np.save(folder / "golden.npy", golden)
    np.save(folder / "actual.npy", (golden * 1.1).astype(np.float16))
    # The operator answers the first call and fails in the second.
    program = (
        "import ascend_sparse_attention.precision.runner as r; from ascend_sparse_attention_cli import main\n"
        "calls = iter([r.run_operator]); r.run_operator = lambda *a, **k: next(calls)(*a, **k)\nmain()"
    )
    documents = {}
    for name, arguments in {
        "check": ["check", "cases.yaml", "--backend", "cpu"],
        "compare": ["compare", "actual.npy", "golden.npy", "--policy", "spec"],
    }.items():
        command = [sys.executable, "-c", program, *arguments, "--json", f"{name}.json"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 1, done.stderr  # one case is in error, the other comparison off
        documents[name] = json.loads((folder / f"{name}.json").read_text())
    return documents


def test_columns_of_the_table():
    columns = [str(column.header) for column in results_table([], 200).columns]
    assert names(table("The table", "column")) == columns


def test_document(reports):
    fields = names(table("JSON", "field"))
    for document in reports.values():
        assert list(document) == fields
    assert sorted(reports["check"]["tool"]) == ["name", "version"]
    summary = names(table("JSON", "field of `summary`"))
    assert list(reports["check"]["summary"]) == summary == list(reports["compare"]["summary"])


def test_run(reports):
    assert list(reports["check"]["run"]) == names(table("JSON", "field of `run`"))
    (said,) = re.findall(r"that of `sfa compare` has (.*?):\n", PAGE, re.S)
    assert list(reports["compare"]["run"]) == quoted(said)


def test_fields_of_a_case(reports):
    rows = table("JSON", "field of `cases[]`")
    good, wrong = reports["check"]["cases"]
    (compared,) = reports["compare"]["cases"]
    assert (good["verdict"], wrong["verdict"], compared["verdict"]) == ("PASS", "ERROR", "FAIL")
    assert list(good) == names(rows)
    assert set(wrong) == set(names(rows, "", "†")) and wrong["spec"] is None and wrong["cann_bench"] is None
    assert set(compared) == set(names(rows, "", "*"))


def test_fields_within_a_case(reports):
    rows = {names([cell])[0]: quoted(text) for cell, text in table("JSON", "field of `cases[]`").items()}
    (entry,) = reports["compare"]["cases"]
    regions = list(entry["cann_bench"]["regions"])
    assert rows["spec"] == list(entry["spec"])
    assert rows["cann_bench"] == [*entry["cann_bench"], *regions, *entry["cann_bench"]["regions"]["small"]]
    assert rows["nonfinite"] == list(entry["nonfinite"]) and rows["by_size"] == list(entry["by_size"][0])
    assert rows["ulp"] == list(entry["ulp"]) and rows["histogram"] == list(entry["histogram"])
    assert len(entry["histogram"]["counts"]) == len(entry["histogram"]["edges"]) + 1
    check = reports["check"]["cases"][0]
    assert rows["case"] == list(check["case"])
    assert set(check["seconds_by_stage"]) <= set(rows["seconds_by_stage"])
    # *errors* and *offenders*, and what the fields add to them
    (intro,) = re.findall(r"^## JSON\n(.*?)^\|", PAGE, re.M | re.S)
    said = quoted(intro)
    errors, offenders, offender = said[0:4], said[4:7], said[7:12]
    assert errors == list(entry["comparable"]) == list(entry["floor_large"])
    assert [*errors, "from"] == sorted(entry["large"], key=[*errors, "from"].index) and rows["large"] == ["from"]
    assert [*errors, "pass"] == sorted(entry["floor"], key=[*errors, "pass"].index) and rows["floor"] == ["pass"]
    assert offenders == list(entry["offenders"]) and offender == list(entry["offenders"]["worst"])
    assert len(said) == 12 and entry["offenders"]["count"] > 0


ROW = {
    "operator": "SparseFlashAttention",
    "case_id": "7",
    "input_shape": '"[[1,2,4,64],[1,96,1,64],[1,96,1,64],[1,2,1,32]]"',
    "dtype": '"[""float16"",""float16"",""float16"",""int32""]"',
    "attrs": '"{""scaleValue"": 0.1}"',
    "value_range": '"[-1, 1]"',
    "note": "",
    "baseline_perf_us": "12.5",
    "t_hw_us": "3",
}


def test_columns_of_cases_csv(tmp_path):
    """Those documented are read, those said to be optional may be missing, any other is refused."""
    rows = table("Case files", "column")
    assert names(rows) == list(ROW)
    optional = {names([cell])[0] for cell, text in rows.items() if text.startswith("may be missing")}
    path = tmp_path / "cases.csv"

    def load(columns):
        path.write_text(",".join(columns) + "\n" + ",".join(ROW.get(name, "x") for name in columns) + "\n")
        return load_cases(path)[0]

    assert load(ROW).anchors == {"file": {"baseline_perf_us": 12.5, "t_hw_us": 3.0}}
    for name in ROW:
        rest = [other for other in ROW if other != name]
        if name in optional:
            load(rest)
        else:
            with pytest.raises(CaseFileError, match=name):
                load(rest)
    with pytest.raises(CaseFileError, match="further"):
        load([*ROW, "further"])
