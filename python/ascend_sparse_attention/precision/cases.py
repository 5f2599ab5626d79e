# SPDX-License-Identifier: Apache-2.0
"""Case files: cann-bench's cases.csv and cases.yaml, and this package's own YAML.

Files are data: YAML goes through the safe loader, and every complaint names the file and the row. The package's own
format (see `public.yaml` and `quickstart.yaml` in the package's `cases` folder):

    version: 1
    defaults: {dtype: float16, layout: BSND, value_range: [-1, 1]}     # optional, any field of a case
    cases:
    - {id: decode, B: 16, S1: 1, S2: 8192, N1: 128, N2: 1, Dk: 576, Dv: 512, topK: 1024, scale: 0.04167}
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as shown  # bounded, whatever the file holds
from typing import Any

import yaml

from ..checks import FLOAT32_MAX
from ..layout import LAYOUTS

OPERATOR = "SparseFlashAttention"

#: Where cann-bench keeps the operator; its cases draw their seed from this and the case's number.
CANN_BENCH_TASK = "level4/sparse_flash_attention"

DTYPES = ("float16", "bfloat16")

# What --shrink leaves of a case: a second batch entry to catch a wrong stride, a few query rows to see the causal edge.
SHRUNK_B, SHRUNK_S1 = 2, 4

_SIZES = ("B", "S1", "S2", "N1", "N2", "Dk", "Dv", "topK")
_MAX_BYTES = 16 << 20

# Longer integers, which a hexadecimal one may well be, Python does not even print.
_MAX_BITS = 10_000

# Sizes are int32 in every launch.
_MAX_SIZE = 2**31 - 1

Range = tuple[float, float]


class CaseFileError(ValueError):
    """A case file that cannot be used. The message names file and row."""


@dataclass(frozen=True)
class Case:
    """One call of sparse_flash_attention with generated inputs.

    Attributes:
        id: the case's name in its file.
        layout, dtype: of every tensor but the indices.
        B, S1, S2, N1, N2, Dk, Dv, topK: sizes.
        scale, is_causal: scaleValue and is_causal of the call.
        value_range: (lowest, highest) of query and of key; equal ends give a constant.
        seed_name: the text whose hash seeds the generator, as in cann-bench.
        note: free text.
        anchors: hardware name -> {"t_hw_us", "baseline_perf_us"}, microseconds.
        source: file and row, for messages.
    """

    id: str
    layout: str
    dtype: str
    B: int
    S1: int
    S2: int
    N1: int
    N2: int
    Dk: int
    Dv: int
    topK: int
    scale: float
    is_causal: bool = False
    value_range: tuple[Range, Range] = ((-1.0, 1.0), (-1.0, 1.0))
    seed_name: str = ""
    note: str = ""
    anchors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    source: str = ""

    @property
    def G(self) -> int:
        return self.N1 // self.N2

    def _shape(self, sequence: int, heads: int, last: int) -> tuple[int, int, int, int]:
        if self.layout == "BSND":
            return (self.B, sequence, heads, last)
        return (self.B, heads, sequence, last)

    @property
    def query_shape(self) -> tuple[int, int, int, int]:
        return self._shape(self.S1, self.N1, self.Dk)

    @property
    def key_shape(self) -> tuple[int, int, int, int]:
        return self._shape(self.S2, self.N2, self.Dk)

    @property
    def value_shape(self) -> tuple[int, int, int, int]:
        return self._shape(self.S2, self.N2, self.Dv)

    @property
    def indices_shape(self) -> tuple[int, int, int, int]:
        return self._shape(self.S1, self.N2, self.topK)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        return self._shape(self.S1, self.N1, self.Dv)

    def shrunk(self) -> Case:
        """The case with B and S1 cut; S2, topK and the head dims stay."""
        return replace(self, B=min(self.B, SHRUNK_B), S1=min(self.S1, SHRUNK_S1))

    def summary(self) -> str:
        causal = " causal" if self.is_causal else ""
        return (
            f"{self.layout} {self.dtype} B{self.B} S1 {self.S1} S2 {self.S2} N {self.N1}/{self.N2} "
            f"D {self.Dk}/{self.Dv} topK {self.topK}{causal}"
        )


def bundled(name: str) -> Path | None:
    """Path of a case file that comes with the package ("public", "quickstart"); None if there is none of this name."""
    path = Path(__file__).parent.parent / "cases" / f"{name}.yaml"
    return path if name.isidentifier() and path.is_file() else None


def find(name: str) -> Path | None:
    """The case file that a name on the command line means: a file, else a bundled one. A folder is neither."""
    path = Path(name)
    return path if path.is_file() else bundled(name)


def load_cases(path: str | Path) -> list[Case]:
    """Read a case file.

    Raises:
        CaseFileError: no such file, not a case file, an unknown or missing field, a wrong value.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise CaseFileError(f"{path}: expected a case file of at most {_MAX_BYTES >> 20} MiB, got {size >> 20} MiB")
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a mark in front
    except OSError as error:
        raise CaseFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CaseFileError(f"{path}: expected UTF-8 text, got a byte that is none at {error.start}") from error
    suffix = path.suffix.lower()
    if suffix == ".csv":
        cases = list(_from_csv(text, path))
    elif suffix in (".yaml", ".yml"):
        cases = list(_from_yaml(text, path))
    else:
        raise CaseFileError(f"{path}: expected a .csv, .yaml or .yml case file, got {suffix or 'no suffix'}")
    if not cases:
        raise CaseFileError(f"{path}: expected at least one case, got none")
    seen: dict[str, str] = {}
    for case in cases:
        if case.id in seen:
            raise CaseFileError(f"{case.source}: case id {case.id} stands already at {seen[case.id]}")
        seen[case.id] = case.source
    return cases


def select_cases(cases: list[Case], ids: list[str]) -> list[Case]:
    """The cases of these ids, in the file's order; all where `ids` is empty."""
    known = {case.id for case in cases}
    for wanted in ids:
        if wanted not in known:
            raise CaseFileError(f"--case {wanted}: expected one of {', '.join(c.id for c in cases)}")
    return [case for case in cases if not ids or case.id in ids]


# --- cann-bench's formats --------------------------------------------------------------------------------------------

_CANN_REQUIRED = ("operator", "case_id", "input_shape", "dtype", "attrs", "value_range")
_CANN_OPTIONAL = ("note", "baseline_perf_us", "t_hw_us")
_CANN_ATTRS = ("scaleValue", "inputLayout", "is_causal")


def _from_csv(text: str, path: Path) -> Iterator[Case]:
    # csv's own error for a stray quote or a field of more than 128 KiB carries no row.
    reader = csv.DictReader(text.splitlines(), strict=True)
    try:
        header = reader.fieldnames or []
        _check_fields(header, _CANN_REQUIRED, (*_CANN_REQUIRED, *_CANN_OPTIONAL), f"{path}, row 1", "column")
        for row in reader:
            where = f"{path}, row {reader.line_num}"
            if None in row:
                raise CaseFileError(f"{where}: expected {len(header)} columns, got {len(header) + len(row[None])}")
            missing = [name for name in _CANN_REQUIRED if row[name] is None]
            if missing:
                raise CaseFileError(f"{where}: expected {len(header)} columns, column {missing[0]} is missing")
            raw: dict[str, Any] = dict(row)
            for name in ("input_shape", "dtype", "attrs", "value_range"):
                raw[name] = _json_cell(row[name], name, where)
            yield _cann_case(raw, where)
    except csv.Error as error:
        raise CaseFileError(f"{path}, row {reader.line_num + 1}: not valid CSV: {error}") from error


def _json_cell(cell: str, name: str, where: str) -> Any:
    try:
        return json.loads(cell)
    except json.JSONDecodeError as error:
        raise CaseFileError(f"{where}: {name}: expected JSON, got {shown(cell)} ({error.msg})") from error
    except RecursionError as error:
        raise CaseFileError(f"{where}: {name}: nested too deeply") from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise CaseFileError(f"{where}: {name}: expected JSON, got {shown(cell)} ({error})") from error


def _cann_case(raw: Mapping[str, Any], where: str) -> Case:
    if raw["operator"] != OPERATOR:
        raise CaseFileError(f"{where}: operator: expected {OPERATOR}, got {shown(raw['operator'])}")
    case_id = _text(raw["case_id"], "case_id", where).strip()
    if not case_id:
        raise CaseFileError(f"{where}: case_id: expected a number, got nothing")
    shapes = raw["input_shape"]
    if not isinstance(shapes, list) or len(shapes) != 4:
        raise CaseFileError(
            f"{where}: input_shape: expected 4 shapes (query, key, value, sparseIndices), got {shown(shapes)}"
        )
    for shape in shapes:
        if not isinstance(shape, list) or len(shape) != 4 or not all(_is_int(n) and 0 <= n <= _MAX_SIZE for n in shape):
            raise CaseFileError(f"{where}: input_shape: expected 4 sizes a shape, got {shown(shape)}")
    dtypes = raw["dtype"]
    if isinstance(dtypes, str):
        dtypes = [dtypes]
    if not isinstance(dtypes, list) or len(dtypes) != 4:
        raise CaseFileError(f"{where}: dtype: expected 4 names, got {shown(dtypes)}")
    if dtypes[0] not in DTYPES or dtypes[1:3] != [dtypes[0]] * 2 or dtypes[3] != "int32":
        raise CaseFileError(
            f"{where}: dtype: expected float16 or bfloat16 for query, key, value alike and int32, got {shown(dtypes)}"
        )
    attrs = raw["attrs"]
    if not isinstance(attrs, Mapping):
        raise CaseFileError(f"{where}: attrs: expected a mapping, got {shown(attrs)}")
    _check_fields(list(attrs), ("scaleValue",), _CANN_ATTRS, f"{where}, attrs", "attribute")
    layout = attrs.get("inputLayout", "BSND")
    if layout not in LAYOUTS:
        raise CaseFileError(f"{where}: inputLayout: expected BSND or BNSD, got {shown(layout)}")
    query, key, value, indices = shapes
    sequence, heads = (1, 2) if layout == "BSND" else (2, 1)
    anchors = {}
    for name in ("baseline_perf_us", "t_hw_us"):
        if raw.get(name) not in (None, ""):
            anchors[name] = _number(raw[name], name, where)
    case = Case(
        id=case_id,
        layout=layout,
        dtype=dtypes[0],
        B=query[0],
        S1=query[sequence],
        S2=key[sequence],
        N1=query[heads],
        N2=key[heads],
        Dk=query[3],
        Dv=value[3],
        topK=indices[3],
        scale=_scale(attrs["scaleValue"], "scaleValue", where),
        is_causal=_boolean(attrs.get("is_causal", False), "is_causal", where),
        value_range=_value_range(raw["value_range"], where),
        seed_name=f"{CANN_BENCH_TASK}_{case_id}",
        note=_text(raw.get("note") or "", "note", where),
        anchors={"file": anchors} if anchors else {},
        source=where,
    )
    for name, shape, expected in (
        ("key", key, case.key_shape),
        ("value", value, case.value_shape),
        ("sparseIndices", indices, case.indices_shape),
    ):
        if tuple(shape) != expected:
            raise CaseFileError(f"{where}: {name}: expected shape {list(expected)}, got {shown(shape)}")
    return _checked(case)


# --- YAML ------------------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """The safe loader, with each mapping's line kept and a repeated field refused."""


class _Mapping(dict[str, Any]):
    line: int = 0


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> _Mapping:
    loader.flatten_mapping(node)
    mapping = _Mapping()
    mapping.line = node.start_mark.line + 1
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"expected a text key, got {key}", key_node.start_mark)
        if key in mapping:
            raise yaml.constructor.ConstructorError(None, None, f"field {key} stands twice", key_node.start_mark)
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def _add_scalar(kind: str) -> None:
    original = yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{kind}"]

    def construct(loader: _Loader, node: yaml.Node) -> Any:
        try:
            value = original(loader, node)
            if isinstance(value, int) and value.bit_length() > _MAX_BITS:
                raise ValueError
            return value
        except yaml.YAMLError:
            raise
        # PyYAML takes the text apart unchecked: ValueError, KeyError, AttributeError, OverflowError and more.
        except Exception as error:
            problem = f"expected {kind}, got {shown(node.value)}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    _Loader.add_constructor(f"tag:yaml.org,2002:{kind}", construct)


for _kind in ("null", "bool", "int", "float", "binary", "timestamp", "str"):
    _add_scalar(_kind)


def _from_yaml(text: str, path: Path) -> Iterator[Case]:
    try:
        # _Loader is a SafeLoader: plain data only.
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        row = f", row {mark.line + 1}" if mark is not None else ""
        raise CaseFileError(f"{path}{row}: not valid YAML: {getattr(error, 'problem', None) or error}") from error
    except RecursionError as error:
        raise CaseFileError(f"{path}: nested too deeply") from error
    except (ValueError, OverflowError) as error:  # PyYAML's scanner, of "\\U99999999"
        raise CaseFileError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(document, _Mapping) or not isinstance(document.get("cases"), list):
        raise CaseFileError(f"{path}: expected a mapping with a list `cases`")
    entries = document["cases"]
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, _Mapping):
            raise CaseFileError(f"{path}: case {number}: expected a mapping, got {shown(entry)}")
    if "version" not in document:
        _check_fields(list(document), ("cases",), ("cases",), f"{path}, row 1", "field")
        for entry in entries:
            where = f"{path}, row {entry.line}"
            _check_fields(list(entry), _CANN_REQUIRED, (*_CANN_REQUIRED, *_CANN_OPTIONAL), where, "field")
            yield _cann_case(entry, where)
        return
    _check_fields(list(document), ("version", "cases"), ("version", "cases", "defaults"), f"{path}, row 1", "field")
    if document["version"] != 1:
        raise CaseFileError(f"{path}: version: expected 1, got {shown(document['version'])}")
    defaults = document.get("defaults", {})
    if not isinstance(defaults, dict):
        raise CaseFileError(f"{path}: defaults: expected a mapping, got {shown(defaults)}")
    for entry in entries:
        yield _own_case({**defaults, **entry}, path, f"{path}, row {entry.line}")


_OWN_REQUIRED = ("id", "layout", "dtype", *_SIZES)
_OWN_OPTIONAL = ("scale", "is_causal", "value_range", "seed_name", "note", "anchors")


def _own_case(raw: Mapping[str, Any], path: Path, where: str) -> Case:
    _check_fields(list(raw), _OWN_REQUIRED, (*_OWN_REQUIRED, *_OWN_OPTIONAL), where, "field")
    if raw["layout"] not in LAYOUTS:
        raise CaseFileError(f"{where}: layout: expected BSND or BNSD, got {shown(raw['layout'])}")
    if raw["dtype"] not in DTYPES:
        raise CaseFileError(f"{where}: dtype: expected float16 or bfloat16, got {shown(raw['dtype'])}")
    sizes: dict[str, int] = {}
    for name in _SIZES:
        if not _is_int(raw[name]) or not 0 <= raw[name] <= _MAX_SIZE:
            raise CaseFileError(f"{where}: {name}: expected a size, got {shown(raw[name])}")
        sizes[name] = raw[name]
    if "scale" in raw:
        scale = _scale(raw["scale"], "scale", where)
    else:
        scale = 1 / math.sqrt(max(sizes["Dk"], 1))
    anchors: dict[str, dict[str, float]] = {}
    given = raw.get("anchors", {})
    if not isinstance(given, Mapping) or not all(isinstance(v, Mapping) for v in given.values()):
        raise CaseFileError(f"{where}: anchors: expected hardware: {{t_hw_us, baseline_perf_us}}, got {shown(given)}")
    for hardware, figures in given.items():
        _text(hardware, "anchors", where)
        _check_fields(list(figures), (), ("t_hw_us", "baseline_perf_us"), f"{where}, anchors of {hardware}", "field")
        anchors[hardware] = {name: _number(figure, name, where) for name, figure in figures.items()}
    identity = _text(raw["id"], "id", where)
    # A file name that is no UTF-8 is nobody's fault here: its bytes stand for themselves.
    stem = path.stem.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="backslashreplace")
    seed_name = raw.get("seed_name", f"{stem}_{identity}")
    return _checked(
        Case(
            id=identity,
            layout=raw["layout"],
            dtype=raw["dtype"],
            **sizes,
            scale=scale,
            is_causal=_boolean(raw.get("is_causal", False), "is_causal", where),
            value_range=_value_range(raw.get("value_range", [-1, 1]), where),
            seed_name=_text(seed_name, "seed_name", where).replace("{id}", identity),
            note=_text(raw.get("note", ""), "note", where),
            anchors=anchors,
            source=where,
        )
    )


# --- checks of single values -----------------------------------------------------------------------------------------


def _check_fields(got: Any, required: tuple[str, ...], allowed: tuple[str, ...], where: str, what: str) -> None:
    for name in got:
        if name not in allowed:
            raise CaseFileError(f"{where}: unknown {what} {name!r}; expected {', '.join(allowed)}")
    for name in required:
        if name not in got:
            raise CaseFileError(f"{where}: missing {what} {name!r}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):  # the last of an integer beyond float64
        number = math.nan
    if not math.isfinite(number):
        raise CaseFileError(f"{where}: {name}: expected a finite number, got {shown(value)}")
    return number


def _scale(value: Any, name: str, where: str) -> float:
    number = _number(value, name, where)
    if abs(number) > FLOAT32_MAX:
        raise CaseFileError(f"{where}: {name}: expected a number that float32 holds, got {number}")
    return number


def _text(value: Any, name: str, where: str) -> str:
    """Text of a scalar; a half of a surrogate pair, which no report could hold, is refused."""
    if isinstance(value, (list, tuple, set, Mapping)):
        # Not for its kind alone: with aliases a short file means text without end.
        raise CaseFileError(f"{where}: {name}: expected text, got {shown(value)}")
    try:
        text = str(value)
        text.encode("utf-8")
    except ValueError as error:  # UnicodeEncodeError; or an integer of more digits than Python writes
        raise CaseFileError(f"{where}: {name}: expected text that UTF-8 can hold, got {ascii(value)[:60]}") from error
    return text


def _boolean(value: Any, name: str, where: str) -> bool:
    if not isinstance(value, bool):
        raise CaseFileError(f"{where}: {name}: expected true or false, got {shown(value)}")
    return value


def _value_range(value: Any, where: str) -> tuple[Range, Range]:
    """One [low, high] for every input, or one a tensor; only query's and key's are drawn from."""

    def pair(item: Any) -> Range:
        if not isinstance(item, list) or len(item) != 2:
            raise CaseFileError(f"{where}: value_range: expected [low, high], got {shown(item)}")
        low, high = (_number(end, "value_range", where) for end in item)
        if low > high:
            raise CaseFileError(f"{where}: value_range: expected low <= high, got {shown(item)}")
        return low, high

    if isinstance(value, list) and value and isinstance(value[0], list):
        pairs = [pair(item) for item in value]
        return pairs[0], pairs[1] if len(pairs) > 1 else pairs[0]
    both = pair(value)
    return both, both


def _checked(case: Case) -> Case:
    for good, message in (
        (case.N2 >= 1, f"N2: expected at least 1, got {case.N2}"),
        (case.N2 < 1 or (case.N1 >= 1 and case.N1 % case.N2 == 0), f"N1: expected a multiple of N2, got {case.N1}"),
        (case.S2 >= 1, f"S2: expected at least 1, got {case.S2}"),
        (1 <= case.topK <= case.S2, f"topK: expected 1 .. S2 = {case.S2}, got {case.topK}"),
        (1 <= case.Dv <= case.Dk, f"Dv: expected 1 .. Dk = {case.Dk}, got {case.Dv}"),
        (
            not case.is_causal or case.S1 <= case.S2,
            f"S1: expected at most S2 = {case.S2} where causal, got {case.S1}",
        ),
    ):
        if not good:
            raise CaseFileError(f"{case.source}: {message}")
    return case
