# SPDX-License-Identifier: Apache-2.0
"""The Ascend C kernel of sparse_flash_attention, run in the CPU twin.

`run` plans the launch as on a device, runs every core of the kernel on a model of the machine and returns what came
out, what the twin's checker found (races, flags, bounds) and what its cycle model predicts. Nothing here is a
measurement.

The library behind it is built by ``bash scripts/build_twin.sh``, which leaves it in
``ascend_sparse_attention/lib``; the environment variable ASA_TWIN_LIBRARY names another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import operator
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .checks import check_bits, check_npu_limits, check_sparse_flash_attention
from .layout import SfaProblem, same_prefix

PLATFORM = "Ascend910B2"

#: Names that `run(schedule=...)` takes, beside None for the planner's choice.
SCHEDULES = ("gather", "gather_split_k")

_LIBRARY = Path(__file__).parent / "lib" / "libasa_twin.so"
_MESSAGE_BYTES = 4096


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_char_p),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * 8),
        ("stride", ctypes.c_int64 * 8),
    ]


class _Request(ctypes.Structure):
    _fields_ = [
        ("query", _Tensor),
        ("key", _Tensor),
        ("value", _Tensor),
        ("index", _Tensor),
        ("scale", ctypes.c_double),
        ("layout", ctypes.c_char_p),
        ("causal", ctypes.c_int32),
        ("write_lse", ctypes.c_int32),
        ("value_is_key_prefix", ctypes.c_int32),
        ("platform", ctypes.c_char_p),
        ("schedule", ctypes.c_char_p),
        ("core_limit", ctypes.c_uint32),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("core_num", ctypes.c_uint32),
        ("tiling_key", ctypes.c_uint64),
        ("workspace_bytes", ctypes.c_uint64),
    ]


class _Item(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint32) for name in ("task", "tasks", "head_begin", "heads", "key_begin", "keys", "part")
    ]


class _TwinOptions(ctypes.Structure):
    _fields_ = [
        ("check", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("threads", ctypes.c_int32),
        ("predict", ctypes.c_int32),
        ("trace", ctypes.c_int32),
        ("operator_entry", ctypes.c_int32),
        ("drop_sync", ctypes.c_char_p),
    ]


class _TwinTensors(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("query", "key", "value", "index", "output", "lse")]


# Of framework/twin/twin_api.h.
_ABI_VERSION = 1

_FUNCTIONS = (
    "asa_abi_version",
    "asa_check",
    "asa_plan",
    "asa_tiling_size",
    "asa_tiling_json",
    "asa_item_count",
    "asa_item_at",
    "asa_locate_task",
    "asa_platform",
    "asa_twin_run",
    "asa_twin_json",
    "asa_twin_trace",
    "asa_twin_free",
)


def library_path() -> Path:
    """The file that `library` loads: ASA_TWIN_LIBRARY's, else the package's own.

    Raises:
        OSError: the variable is set to nothing.
    """
    named = os.environ.get("ASA_TWIN_LIBRARY")
    if named is None:
        return _LIBRARY
    if not named:
        raise OSError("ASA_TWIN_LIBRARY: expected the path of libasa_twin.so, got an empty text")
    # Without a slash dlopen would search the system's folders and not this one.
    return Path(named).absolute()


@functools.cache
def library() -> ctypes.CDLL:
    """The native library, loaded once.

    Raises:
        OSError: it is not there, cannot be loaded, or is none of this version; the message says which.
    """
    path = library_path()
    native = ctypes.CDLL(str(path))
    lacking = [name for name in _FUNCTIONS if not hasattr(native, name)]
    if len(lacking) == len(_FUNCTIONS):
        raise OSError(f"{path}: expected libasa_twin.so, got a library without its functions")
    if lacking:
        raise OSError(f"{path}: a libasa_twin.so of another version, without {', '.join(lacking)}; build it again")
    native.asa_abi_version.argtypes = []
    native.asa_abi_version.restype = ctypes.c_uint32
    if native.asa_abi_version() != _ABI_VERSION:
        raise OSError(f"{path}: expected interface {_ABI_VERSION}, got {native.asa_abi_version()}; build it again")
    request = ctypes.POINTER(_Request)
    text: list[Any] = [ctypes.c_char_p, ctypes.c_size_t]
    native.asa_check.argtypes = [request, ctypes.c_int, *text]
    native.asa_plan.argtypes = [request, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Launch), *text]
    native.asa_tiling_size.restype = ctypes.c_size_t
    native.asa_tiling_json.argtypes = [ctypes.c_void_p, *text]
    native.asa_tiling_json.restype = ctypes.c_size_t
    native.asa_item_count.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    native.asa_item_count.restype = ctypes.c_uint32
    native.asa_item_at.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    native.asa_item_at.restype = _Item
    native.asa_locate_task.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)]
    native.asa_locate_task.restype = None
    number, wide = ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint64)
    native.asa_platform.argtypes = [ctypes.c_char_p, number, number, wide, number]
    native.asa_twin_run.argtypes = [
        request,
        ctypes.POINTER(_TwinOptions),
        ctypes.POINTER(_TwinTensors),
        ctypes.POINTER(ctypes.c_void_p),
        *text,
    ]
    for name in ("asa_twin_json", "asa_twin_trace"):
        getattr(native, name).argtypes = [ctypes.c_void_p]
        getattr(native, name).restype = ctypes.c_char_p
    native.asa_twin_free.argtypes = [ctypes.c_void_p]
    native.asa_twin_free.restype = None
    return native


def _describe(tensor: torch.Tensor) -> _Tensor:
    rank = tensor.dim()
    shape = (ctypes.c_int64 * 8)(*tensor.shape[:8])
    stride = (ctypes.c_int64 * 8)(*tensor.stride()[:8])
    return _Tensor(str(tensor.dtype).removeprefix("torch.").encode(), rank, shape, stride)


def _in_range(name: str, value: Any, low: int, high: int) -> int:
    """An integer that its C type holds; ctypes would wrap it without a word."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}")
    number = operator.index(value)
    if not low <= number <= high:
        raise ValueError(f"{name}: expected {low} .. {high}, got {number if abs(number) < 1 << 256 else 'far more'}")
    return number


def _text_of(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {type(value).__name__}")
    if "\0" in value:  # C would take what is before it
        raise ValueError(f"{name}: expected a name, got {value!r}")
    return value.encode()


def request_of(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    write_lse: bool = False,
    value_is_key_prefix: bool | None = None,
    platform: str = PLATFORM,
    schedule: str | None = None,
    cores: int = 0,
) -> Any:
    """The native description of a call. Only what C cannot tell is checked here: `platform`, `schedule`, `cores`."""
    if value_is_key_prefix is None:
        value_is_key_prefix = same_prefix(value, key)
    return _Request(
        _describe(query),
        _describe(key),
        _describe(value),
        _describe(sparseIndices),
        float(scaleValue),
        inputLayout.encode(),
        int(is_causal),
        int(write_lse),
        int(value_is_key_prefix),
        _text_of("platform", platform),
        b"" if schedule is None else _text_of("schedule", schedule),
        _in_range("cores", cores, 0, 2**32 - 1),
    )


def _raise(fault: int, message: bytes) -> None:
    if fault == 1:
        raise TypeError(message.decode())
    if fault == 2:
        raise ValueError(message.decode())
    if fault != 0:
        raise RuntimeError(message.decode() or f"the twin's library refused the call (code {fault})")


def native_check(request: Any, npu_limits: bool = True) -> None:
    """Run the C++ side's argument checks on a description made by `request_of`; raise what they find."""
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    _raise(library().asa_check(ctypes.byref(request), int(npu_limits), message, _MESSAGE_BYTES), message.value)


class Plan:
    """The tiling of one launch.

    Attributes:
        fields: the tiling struct (op_kernel/tiling_data.h) by field name.
        core_num: AIC cores launched; 0 if there is nothing to do.
        tiling_key, workspace_bytes: as passed to the launch.
    """

    def __init__(self, request: Any) -> None:
        native = library()
        self._data = ctypes.create_string_buffer(native.asa_tiling_size())
        launch = _Launch()
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        fault = native.asa_plan(
            ctypes.byref(request), self._data, len(self._data), ctypes.byref(launch), message, _MESSAGE_BYTES
        )
        _raise(fault, message.value)
        self.core_num: int = launch.core_num
        self.tiling_key: int = launch.tiling_key
        self.workspace_bytes: int = launch.workspace_bytes
        text = ctypes.create_string_buffer(native.asa_tiling_json(self._data, None, 0) + 1)
        native.asa_tiling_json(self._data, text, len(text))
        self.fields: dict[str, Any] = json.loads(text.value)

    def items(self, core: int) -> list[dict[str, int]]:
        """The items that a core walks, in order."""
        native = library()
        items = [native.asa_item_at(self._data, core, i) for i in range(native.asa_item_count(self._data, core))]
        return [{name: getattr(item, name) for name, *_ in _Item._fields_} for item in items]

    def locate(self, task: int) -> tuple[int, int, int]:
        """(b, s1, n2) of a task."""
        where = (ctypes.c_uint32 * 3)()
        library().asa_locate_task(self._data, task, where)
        return where[0], where[1], where[2]


def platform_limits(name: str) -> dict[str, int]:
    """Cores and usable buffer bytes of a platform.

    Raises:
        ValueError: unknown platform.
    """
    aic, aiv, l2 = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint64()
    limits = (ctypes.c_uint32 * 5)()
    if (
        library().asa_platform(
            _text_of("platform", name), ctypes.byref(aic), ctypes.byref(aiv), ctypes.byref(l2), limits
        )
        != 0
    ):
        raise ValueError(f"platform: expected a known device, got {name}")
    sizes = dict(zip(("ub", "l1", "l0a", "l0b", "l0c"), limits))
    return {"aic": aic.value, "aiv": aiv.value, "l2": l2.value, **sizes}


@dataclass(frozen=True)
class TwinResult:
    """What came of one run in the twin.

    Attributes:
        out: [B, S1, N1, Dv] or [B, N1, S1, Dv], query's dtype.
        lse: float32, base 2, [B, S1, N1] or [B, N1, S1]; None unless asked for.
        findings: what the checker found, one text each; empty when all is well.
        predicted_us: duration that the cycle model predicts, microseconds; None if not asked for.
        predictions: the same under each outlook (expected, optimistic, pessimistic).
        trace: Chrome trace event JSON, which Perfetto opens; None if not asked for.
        report: findings, utilisation and (with a trace) the critical path, for people.
        schedule, core_num, workspace_bytes: the launch.
        sync_sites: key of each sync call in the source -> calls of it.
    """

    out: torch.Tensor
    lse: torch.Tensor | None
    findings: list[str]
    predicted_us: float | None
    predictions: dict[str, float]
    trace: str | None
    report: str
    schedule: str
    core_num: int
    workspace_bytes: int
    sync_sites: dict[str, int] = field(default_factory=dict)


def run(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sparseIndices: torch.Tensor,
    scaleValue: float,
    inputLayout: str = "BSND",
    is_causal: bool = False,
    *,
    return_lse: bool = False,
    check: bool = True,
    predict: bool = True,
    trace: bool = False,
    schedule: str | None = None,
    value_is_key_prefix: bool | None = None,
    platform: str = PLATFORM,
    cores: int = 0,
    seed: int = 0,
    threads: int = 1,
    operator_entry: bool = False,
    drop_sync: str = "",
) -> TwinResult:
    """Run the kernel in the twin. The first seven arguments are `sparse_flash_attention`'s, as CPU tensors.

    Args:
        check: run the checker (bounds of global memory are checked in any case).
        predict: time the run by the cycle model.
        trace: keep a trace; needs predict.
        schedule: one of SCHEDULES, None for the planner's choice.
        value_is_key_prefix: let the kernel read key's rows for value's; None: where value is that view of key.
        platform: device planned for, as CANN names it; its buffers and cores. The clock is the 910B2's.
        cores: at most this many AIC cores, 0 for all.
        seed: permutes the order in which cores run; results must not depend on it.
        threads: OS threads that blocks are spread over.
        operator_entry: enter by CANN's entry point, tiling in global memory, instead of the direct launch's.
        drop_sync: key of a sync call to leave out (see TwinResult.sync_sites); for tests of the checker.

    Raises:
        TypeError, ValueError: a wrong argument, or a size beyond the NPU's table.
        RuntimeError: the run itself failed (a deadlock, an access out of bounds).
        OSError: the library is not built.
    """
    problem = check_sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout, is_causal)
    check_npu_limits(problem)
    for name, tensor in (("query", query), ("key", key), ("value", value), ("sparseIndices", sparseIndices)):
        if tensor.device.type != "cpu":
            raise ValueError(f"{name}: expected a CPU tensor for the twin, got {tensor.device}")
        check_bits(**{name: tensor})
    for name, flag in (
        ("return_lse", return_lse),
        ("check", check),
        ("predict", predict),
        ("trace", trace),
        ("operator_entry", operator_entry),
        ("value_is_key_prefix", value_is_key_prefix),
    ):
        if not isinstance(flag, bool) and not (flag is None and name == "value_is_key_prefix"):
            raise TypeError(f"{name}: expected a bool, got {type(flag).__name__}")
    request = request_of(
        query,
        key,
        value,
        sparseIndices,
        scaleValue,
        inputLayout,
        is_causal,
        write_lse=return_lse,
        value_is_key_prefix=value_is_key_prefix,
        platform=platform,
        schedule=schedule,
        cores=cores,
    )
    out = torch.empty(problem.output_shape, dtype=query.dtype)
    lse = torch.empty(problem.lse_shape, dtype=torch.float32) if return_lse else None
    options = _TwinOptions(
        int(check),
        _in_range("seed", seed, 0, 2**64 - 1),
        _in_range("threads", threads, 1, 2**31 - 1),
        int(predict),
        int(trace),
        int(operator_entry),
        _text_of("drop_sync", drop_sync),
    )
    tensors = _TwinTensors(
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        sparseIndices.data_ptr(),
        out.data_ptr(),
        lse.data_ptr() if lse is not None else None,
    )
    native = library()
    handle = ctypes.c_void_p()
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    fault = native.asa_twin_run(
        ctypes.byref(request),
        ctypes.byref(options),
        ctypes.byref(tensors),
        ctypes.byref(handle),
        message,
        _MESSAGE_BYTES,
    )
    _raise(fault, message.value)
    try:
        summary = json.loads(native.asa_twin_json(handle))
        trace_text = native.asa_twin_trace(handle).decode()
    finally:
        native.asa_twin_free(handle)
    sync_sites: dict[str, int] = {site["key"]: site["calls"] for site in summary["sync_sites"]}
    if drop_sync and drop_sync not in sync_sites:
        raise ValueError(
            f"drop_sync: expected one of the {len(sync_sites)} sync sites of this run (TwinResult.sync_sites), "
            f"got {drop_sync!r}"
        )
    findings = [finding["message"] for finding in summary["findings"]]
    if summary["findings_dropped"]:
        findings.append(f"and {summary['findings_dropped']} more")
    predictions: dict[str, float] = summary["predicted_us"]
    return TwinResult(
        out=out,
        lse=lse,
        findings=findings,
        predicted_us=next(iter(predictions.values()), None),
        predictions=predictions,
        trace=trace_text or None,
        report=summary["report"],
        schedule=summary["schedule"],
        core_num=summary["core_num"],
        workspace_bytes=summary["workspace_bytes"],
        sync_sites=sync_sites,
    )


class TwinBackend:
    """The twin as a backend of `sparse_flash_attention`: the checker is on, and what it finds is an error."""

    name = "twin"

    def __init__(self) -> None:
        self._schedule: str | None = None

    def missing(self) -> str | None:
        try:
            library()
        except OSError as error:
            return f"libasa_twin.so ({error}); build it by `bash scripts/build_twin.sh`"
        return None

    def device_type(self) -> str:
        return "cpu"

    def schedules(self) -> tuple[str, ...]:
        return SCHEDULES

    @contextlib.contextmanager
    def forced_schedule(self, name: str) -> Iterator[None]:
        before, self._schedule = self._schedule, name
        try:
            yield
        finally:
            self._schedule = before

    def sparse_flash_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        sparseIndices: torch.Tensor,
        scaleValue: float,
        problem: SfaProblem,
        return_lse: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        result = run(
            query,
            key,
            value,
            sparseIndices,
            scaleValue,
            problem.layout,
            problem.is_causal,
            return_lse=return_lse,
            schedule=self._schedule,
            predict=False,
            threads=os.cpu_count() or 1,
        )
        if result.findings:
            raise RuntimeError("twin: the checker found faults in the kernel\n" + "\n".join(result.findings))
        return result.out, result.lse


BACKEND = TwinBackend()
