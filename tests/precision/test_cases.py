# SPDX-License-Identifier: Apache-2.0
"""Case files: the three formats agree, and every complaint names file and row."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from ascend_sparse_attention.precision.cases import CaseFileError, bundled, load_cases, select_cases

CSV_HEADER = "operator,case_id,input_shape,dtype,attrs,value_range,note"
SHAPES = '"[[2, 6, 8, 128], [2, 96, 2, 128], [2, 96, 2, 64], [2, 6, 2, 24]]"'
DTYPES = '"[""float16"", ""float16"", ""float16"", ""int32""]"'
ATTRS = '"{""scaleValue"": 0.1, ""inputLayout"": ""BSND"", ""is_causal"": true}"'
CSV_ROW = f'SparseFlashAttention,7,{SHAPES},{DTYPES},{ATTRS},"[-1, 1]",a note'

CANN_YAML = """
cases:
- operator: SparseFlashAttention
  case_id: 7
  input_shape: [[2, 6, 8, 128], [2, 96, 2, 128], [2, 96, 2, 64], [2, 6, 2, 24]]
  dtype: [float16, float16, float16, int32]
  attrs: {scaleValue: 0.1, inputLayout: BSND, is_causal: true}
  value_range: [-1, 1]
  note: a note
"""

OWN_YAML = """
version: 1
defaults: {layout: BSND, dtype: float16, seed_name: "level4/sparse_flash_attention_{id}"}
cases:
- {id: 7, B: 2, S1: 6, S2: 96, N1: 8, N2: 2, Dk: 128, Dv: 64, topK: 24, scale: 0.1, is_causal: true, note: a note}
"""


def written(tmp_path, text, name="cases.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_three_formats_say_the_same(tmp_path):
    (csv,) = load_cases(written(tmp_path, f"{CSV_HEADER}\n{CSV_ROW}\n", "cases.csv"))
    (cann,) = load_cases(written(tmp_path, CANN_YAML, "cann.yaml"))
    (own,) = load_cases(written(tmp_path, OWN_YAML, "own.yml"))
    assert replace(csv, source="") == replace(cann, source="") == replace(own, source="")
    assert csv.source.endswith("cases.csv, row 2") and own.source.endswith("own.yml, row 5")
    assert (csv.G, csv.output_shape) == (4, (2, 6, 8, 64))


def test_bnsd_shapes(tmp_path):
    text = CANN_YAML.replace("BSND", "BNSD").replace(
        "[[2, 6, 8, 128], [2, 96, 2, 128], [2, 96, 2, 64], [2, 6, 2, 24]]",
        "[[2, 8, 6, 128], [2, 2, 96, 128], [2, 2, 96, 64], [2, 2, 6, 24]]",
    )
    (case,) = load_cases(written(tmp_path, text))
    assert (case.S1, case.S2, case.N1, case.N2) == (6, 96, 8, 2)
    assert case.query_shape == (2, 8, 6, 128) and case.indices_shape == (2, 2, 6, 24)


def test_public_cases():
    cases = load_cases(bundled("public"))
    assert [case.id for case in cases] == [str(n) for n in range(1, 21)]
    assert all(set(case.anchors) == {"910b2", "950pr"} for case in cases)
    assert all(set(figures) == {"t_hw_us", "baseline_perf_us"} for c in cases for figures in c.anchors.values())
    first, last = cases[0], cases[-1]
    assert first.anchors["910b2"] == {"t_hw_us": 24.03, "baseline_perf_us": 240.3}
    assert first.seed_name == "level4/sparse_flash_attention_1"
    assert last.value_range == ((0, 0), (0, 0))
    assert {case.dtype for case in cases} == {"float16", "bfloat16"}
    assert sum(case.N2 == 1 for case in cases) == 10


def test_quickstart_cases_are_small_and_varied():
    cases = load_cases(bundled("quickstart"))
    assert {case.layout for case in cases} == {"BSND", "BNSD"} and {case.N2 for case in cases} >= {1, 8}
    assert all(case.B * case.S1 * case.N1 * case.topK * case.Dk < 1e9 for case in cases)


def test_defaults_and_value_ranges(tmp_path):
    text = OWN_YAML.replace("scale: 0.1, ", "value_range: [[0, 1], [2, 3], [4, 5], [6, 7]], ")
    (case,) = load_cases(written(tmp_path, text))
    assert case.value_range == ((0, 1), (2, 3))
    assert case.scale == pytest.approx(128**-0.5)


def test_select(tmp_path):
    cases = load_cases(bundled("public"))
    assert [case.id for case in select_cases(cases, ["9", "2"])] == ["2", "9"]
    assert select_cases(cases, []) == cases
    with pytest.raises(CaseFileError, match=r"--case 21: expected one of 1, 2"):
        select_cases(cases, ["21"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{CSV_HEADER},extra\n{CSV_ROW},1\n", r"row 1: unknown column 'extra'"),
        (f"{CSV_HEADER.replace(',attrs', '')}\n", r"row 1: missing column 'attrs'"),
        (f"{CSV_HEADER}\n{CSV_ROW}\n{CSV_ROW},9\n", r"row 3: expected 7 columns, got 8"),
        (f"{CSV_HEADER}\nSparseFlashAttention,7\n", r"row 2: expected 7 columns, column input_shape is missing"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('SparseFlash', 'Flash')}\n", r"row 2: operator: .*got 'FlashAttention'"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[-1, 1]', '[-1, 1')}\n", r"row 2: value_range: expected JSON"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[-1, 1]', '[1, -1]')}\n", r"row 2: value_range: expected low <= high"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[-1, 1]', '[0, 1e999]')}\n", r"row 2: value_range: expected a finite"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('int32', 'int64')}\n", r"row 2: dtype: .*int64"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[2, 6, 2, 24]', '[2, 6, 2]')}\n", r"row 2: input_shape: expected 4 sizes"),
        (
            f"{CSV_HEADER}\n{CSV_ROW.replace('[2, 6, 2, 24]', '[2, 7, 2, 24]')}\n",
            r"row 2: sparseIndices: .*\[2, 6, 2, 24\]",
        ),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[2, 96, 2, 128]', '[2, 96, 3, 128]')}\n", r"row 2: value: expected shape"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('scaleValue', 'scale')}\n", r"row 2, attrs: unknown attribute 'scale'"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('true', '1')}\n", r"row 2: is_causal: expected true or false, got 1"),
        (f"{CSV_HEADER}\n{CSV_ROW}\n{CSV_ROW}\n", r"row 3: case id 7 stands already at .*row 2"),
        (
            f"{CSV_HEADER}\n{CSV_ROW.replace('[-1, 1]', '[0, ' + '1' * 5000 + ']')}\n",
            r"row 2: value_range: expected JSON",
        ),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[-1, 1]', '[0, ' + '1' * 400 + ']')}\n", r"row 2: value_range: .*finite"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[-1, 1]', '[' * 100_000)}\n", r"row 2: value_range: nested too deeply"),
        (f"{CSV_HEADER}\n{CSV_ROW.replace('[2, 6, 2, 24]', '[2, 6, 2, 4294967296]')}\n", r"expected 4 sizes a shape"),
        (f"{CSV_HEADER}\n", r"expected at least one case"),
        ("", r"row 1: missing column 'operator'"),
        (f'{CSV_HEADER}\nSparse"Flash"Attention,"7"x\n', r"row 2: not valid CSV"),
    ],
)
def test_wrong_csv(tmp_path, text, complaint):
    path = written(tmp_path, text, "cases.csv")
    with pytest.raises(CaseFileError, match=complaint) as caught:
        load_cases(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (OWN_YAML.replace("topK: 24, ", ""), r"row 5: missing field 'topK'"),
        (OWN_YAML.replace("topK", "topk"), r"row 5: unknown field 'topk'"),
        (OWN_YAML.replace("version: 1", "version: 2"), r"version: expected 1, got 2"),
        (OWN_YAML.replace("topK: 24", "topK: 97"), r"row 5: topK: expected 1 .. S2 = 96, got 97"),
        (OWN_YAML.replace("N1: 8", "N1: 7"), r"row 5: N1: expected a multiple of N2, got 7"),
        (OWN_YAML.replace("S1: 6", "S1: 97"), r"row 5: S1: expected at most S2 = 96 where causal, got 97"),
        (OWN_YAML.replace("Dv: 64", "Dv: 129"), r"row 5: Dv: expected 1 .. Dk = 128, got 129"),
        (OWN_YAML.replace("B: 2", "B: 2.5"), r"row 5: B: expected a size, got 2.5"),
        (OWN_YAML.replace("B: 2", "B: true"), r"row 5: B: expected a size, got True"),
        (OWN_YAML.replace("B: 2", "B: -1"), r"row 5: B: expected a size, got -1"),
        (OWN_YAML.replace("float16", "float32"), r"row 5: dtype: .*got 'float32'"),
        (OWN_YAML.replace("BSND", "TND"), r"row 5: layout: .*got 'TND'"),
        (OWN_YAML.replace("B: 2,", "B: 2, B: 3,"), r"row 5: not valid YAML: field B stands twice"),
        (OWN_YAML.replace("scale: 0.1", "scale: .nan"), r"row 5: scale: expected a finite number, got nan"),
        (CANN_YAML.replace("case_id", "id"), r"row 3: unknown field 'id'"),
        (CANN_YAML + "extra: 1\n", r"unknown field 'extra'"),
        ("cases: 5\n", r"expected a mapping with a list `cases`"),
        ("cases: [5]\n", r"case 1: expected a mapping, got 5"),
        ("cases: [\n", r"row 2: not valid YAML"),
        ("cases: []\n", r"expected at least one case"),
        ("!!python/object/apply:os.system ['true']\n", r"not valid YAML: could not determine a constructor"),
        ("[" * 5000, r"nested too deeply"),
        *(
            (OWN_YAML.replace("B: 2,", f"B: 2, seed_name: {value},"), complaint)
            for value, complaint in (
                ("2024-99-99", r"row 5: not valid YAML: expected timestamp, got '2024-99-99'"),
                ("!!timestamp abc", r"row 5: not valid YAML: expected timestamp, got 'abc'"),
                ("!!int abc", r"row 5: not valid YAML: expected int, got 'abc'"),
                ("!!float abc", r"row 5: not valid YAML: expected float, got 'abc'"),
                ("!!bool maybe", r"row 5: not valid YAML: expected bool, got 'maybe'"),
                ("!!int ''", r"row 5: not valid YAML: expected int, got ''"),
                ("1" * 5000, r"row 5: not valid YAML: expected int, got '1"),
                ("0x" + "f" * 5000, r"row 5: not valid YAML: expected int, got '0xf"),
                (r'"\ud800"', r"row 5: seed_name: expected text that UTF-8 can hold, got '\\ud800'"),
                (r'"\U99999999"', r"not valid YAML"),
                ("[1]", r"row 5: seed_name: expected text, got \[1\]"),
            )
        ),
        (OWN_YAML.replace("scale: 0.1", "scale: 1" + "0" * 400), r"row 5: scale: expected a finite number, got 1000"),
        (
            OWN_YAML.replace("scale: 0.1", "scale: 1.0e+39"),
            r"row 5: scale: expected a number that float32 holds, got 1e",
        ),
        (OWN_YAML.replace("B: 2", "B: 2147483648"), r"row 5: B: expected a size, got 2147483648"),
        (re.sub(r"id: \w+", r'id: "\\ud800"', OWN_YAML, count=1), r"row 5: id: expected text that UTF-8 can hold"),
    ],
)
def test_wrong_yaml(tmp_path, text, complaint):
    path = written(tmp_path, text)
    with pytest.raises(CaseFileError, match=complaint) as caught:
        load_cases(path)
    assert str(path) in str(caught.value)


def test_alias_bomb_stays_small(tmp_path):
    text = "version: 1\ndefaults:\n  note: &a0 [x, x, x, x, x, x, x, x]\n"
    for level in range(1, 40):
        text += f"  n{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 8)}]\n"
    text += "cases:\n- {id: 1, layout: *a39}\n"
    with pytest.raises(CaseFileError) as caught:
        load_cases(written(tmp_path, text))
    assert len(str(caught.value)) < 1000


def test_bundled_names():
    assert bundled("no_such") is None and bundled("../cases/public") is None


def test_unreadable_files(tmp_path):
    with pytest.raises(CaseFileError, match=r"none\.csv: cannot be read: No such file"):
        load_cases(tmp_path / "none.csv")
    with pytest.raises(CaseFileError, match="cannot be read"):
        load_cases(tmp_path)
    with pytest.raises(CaseFileError, match=r"expected a \.csv, \.yaml or \.yml case file, got \.txt"):
        load_cases(written(tmp_path, "x", "cases.txt"))
    binary = tmp_path / "cases.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CaseFileError, match="expected UTF-8"):
        load_cases(binary)
