# SPDX-License-Identifier: Apache-2.0
"""Calls a submission the way cann-bench's evaluator does and writes down what it saw.

Runs as a script of its own, in the fresh environment that holds the submission's wheel, torch and numpy, and nothing of
this package: `python probe.py FOLDER`. FOLDER/plan.json says what to do; results go to FOLDER/seen.json after every
step (a crash loses nothing seen before it) and outputs to FOLDER/*.out.pt.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

OPERATOR = "sparse_flash_attention"

# Allocation and looking at a tensor in another way; everything else in aten computes or moves data.
_ALLOCATION = frozenset(
    "empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros full full_like new_full "
    "scalar_tensor zero_ fill_ lift_fresh".split()
)
_LOOKING = frozenset(
    "view _unsafe_view _reshape_alias as_strided alias detach squeeze unsqueeze size stride storage_offset "
    "is_contiguous sym_size sym_stride sym_numel numel dim is_pinned _local_scalar_dense".split()
)
_MOVES = frozenset(
    "permute transpose t transpose_ contiguous clone copy_ copy _to_copy to slice select narrow gather scatter "
    "scatter_ index index_select index_put index_put_ cat stack concat flip roll repeat expand expand_copy "
    "permute_copy split split_with_sizes unbind pad constant_pad_nd take_along_dim masked_select reshape resize_ "
    "movedim unfold chunk diagonal broadcast_to view_as_real view_as_complex".split()
)
_TO_HOST = frozenset(["numpy", "__array__", "tolist", "cpu"])

# What a submission may import beside its own modules: what the evaluator's own requirements bring.
_ALLOWED_IMPORTS = frozenset(
    "torch torch_npu torchgen numpy scipy pandas yaml attr attrs decorator cloudpickle ml_dtypes psutil tornado google "
    "sympy mpmath typing_extensions functorch networkx jinja2 markupsafe filelock fsspec six dateutil pytz "
    "pkg_resources setuptools _distutils_hack acl te tbe triton cann_bench".split()
)


class Calls(TorchDispatchMode):
    """Records every op that reaches the dispatcher, from Python or C++."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        namespace, _, name = func._schema.name.partition("::")
        kind = _kind(namespace, name)
        if kind == "move" and _on_device((args, kwargs)) and _on_host(out):
            kind = "host"
        if kind is not None:
            entry = self.seen.setdefault(f"{kind} {func._schema.name}", 0)
            self.seen[f"{kind} {func._schema.name}"] = entry + 1
        return out


class HostCalls(TorchFunctionMode):
    """Records what leaves torch for the host without passing the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, int] = {}

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _TO_HOST:
            self.seen[f"host Tensor.{name}"] = self.seen.get(f"host Tensor.{name}", 0) + 1
        return func(*args, **(kwargs or {}))


def _kind(namespace: str, name: str) -> str | None:
    """What a dispatched op does: None for allowed, else compute, move or built-in."""
    if namespace in ("cann_bench", "prim", "prims"):
        return None
    if namespace != "aten":
        # torch_npu's own operators; other namespaces are the submission's.
        return "builtin" if namespace.startswith("npu") else None
    if name in _ALLOCATION or name in _LOOKING:
        return None
    return "move" if name in _MOVES else "compute"


def _tensors(thing: Any) -> Iterator[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (list, tuple)):
        for item in thing:
            yield from _tensors(item)
    elif isinstance(thing, dict):
        yield from _tensors(list(thing.values()))


def _on_device(thing: Any) -> bool:
    return any(t.device.type not in ("cpu", "meta") for t in _tensors(thing))


def _on_host(thing: Any) -> bool:
    return any(t.device.type == "cpu" for t in _tensors(thing))


def timing_functions() -> dict[str, Any]:
    """Name -> function, of everything a measurement rests on."""
    names: dict[str, Any] = {
        f"time.{name}": getattr(time, name) for name in ("time", "perf_counter", "perf_counter_ns", "monotonic")
    }
    npu = getattr(torch, "npu", None)
    for owner, label, attributes in (
        (npu, "torch.npu", ("synchronize", "current_stream")),
        (getattr(npu, "Event", None), "torch.npu.Event", ("record", "elapsed_time", "synchronize")),
    ):
        for attribute in attributes:
            if hasattr(owner, attribute):
                names[f"{label}.{attribute}"] = getattr(owner, attribute)
    profiler = getattr(sys.modules.get("torch_npu"), "profiler", None)
    for attribute in ("profile", "schedule", "tensorboard_trace_handler"):
        if hasattr(profiler, attribute):
            names[f"torch_npu.profiler.{attribute}"] = getattr(profiler, attribute)
    return names


def foreign_imports(before: set[str]) -> list[str]:
    """Top-level modules that appeared since `before` and are neither the standard library's nor allowed."""
    found: set[str] = set()
    for name in set(sys.modules) - before:
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top in _ALLOWED_IMPORTS or top.startswith("_"):
            continue
        if not getattr(sys.modules.get(name), "__file__", None):
            continue  # made in memory by an extension module, not imported from anywhere
        found.add(top)
    return sorted(found)


class Blocked:
    """An import hook that hides packages of the machine that a submission must not lean on."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.asked: list[str] = []

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name.split(".")[0] in self.names:
            self.asked.append(name.split(".")[0])
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def find_operator() -> tuple[Callable[..., Any] | None, str]:
    """The operator as the evaluator looks it up, and where it was found."""
    registered = getattr(torch.ops.cann_bench, OPERATOR, None) if hasattr(torch.ops, "cann_bench") else None
    if registered is not None:
        return registered, f"torch.ops.cann_bench.{OPERATOR}"
    return getattr(sys.modules["cann_bench"], OPERATOR, None), f"cann_bench.{OPERATOR}"


def parameters_of(operator: Any) -> list[list[str | None]]:
    """[name, default or None] of every parameter, for a Python callable or a registered op."""
    if hasattr(operator, "overloads"):
        schema = getattr(operator, operator.overloads()[0])._schema
        return [[a.name, repr(a.default_value) if a.has_default_value() else None] for a in schema.arguments]
    import inspect

    empty = inspect.Parameter.empty
    return [
        [("**" if p.kind is p.VAR_KEYWORD else "") + p.name, None if p.default is empty else repr(p.default)]
        for p in inspect.signature(operator).parameters.values()
    ]


class Probe:
    """One run: the plan, what has been seen so far, and the steps."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.plan: dict[str, Any] = json.loads((self.folder / "plan.json").read_text())
        self.device: str = self.plan["device"]
        self.seen: dict[str, Any] = {"stage": "import", "cases": {}, "calls": {}}

    def save(self) -> None:
        # Whole or not at all: the limit may end this process in the middle of it.
        partial = self.folder / "seen.part"
        partial.write_text(json.dumps(self.seen))
        partial.replace(self.folder / "seen.json")

    def run(self) -> None:
        self.save()
        if self.device.startswith("npu"):
            import torch_npu  # noqa: F401
        before = timing_functions()
        blocked = Blocked(self.plan["blocked"])
        sys.meta_path.insert(0, blocked)
        modules = set(sys.modules)
        try:
            module = importlib.import_module("cann_bench")
        except BaseException:
            self.seen["import_error"] = traceback.format_exc(limit=-3)
            self.seen["blocked"] = blocked.asked
            self.save()
            return
        self.seen["module"] = str(Path(module.__file__).parent) if module.__file__ else None
        self.seen["public"] = [
            n
            for n in dir(module)
            if not n.startswith("_") and callable(getattr(module, n)) and not isinstance(getattr(module, n), type)
        ]
        operator, where = find_operator()
        self.seen["operator"] = where if operator is not None else None
        if operator is not None:
            try:
                self.seen["parameters"] = parameters_of(operator)
            except (TypeError, ValueError) as error:
                self.seen["signature_error"] = str(error)
            for case in self.plan["cases"]:
                self.seen["stage"] = case["id"]
                self.save()
                self.seen["cases"][case["id"]] = self.call(operator, case)
            if self.plan["cases"]:
                self.seen["stage"] = "repeat"
                self.save()
                self.seen["repeat"] = self.repeat(operator, self.plan["cases"][0], self.plan["other"])
        self.seen["foreign"] = foreign_imports(modules)
        self.seen["blocked"] = blocked.asked
        after = timing_functions()
        self.seen["timing"] = sorted(name for name, function in before.items() if after.get(name) is not function)
        self.seen["stage"] = "done"
        self.save()

    def synchronize(self) -> None:
        if self.device.startswith("npu"):
            torch.get_device_module("npu").synchronize()

    def load(self, name: str) -> list[torch.Tensor]:
        return [t.to(self.device) for t in torch.load(self.folder / f"{name}.in.pt")]

    def invoke(self, operator: Callable[..., Any], tensors: list[torch.Tensor], case: dict[str, Any]) -> Any:
        query, key, value, indices = tensors
        out = operator(
            query=query,
            key=key,
            value=value,
            sparseIndices=indices,
            scaleValue=case["scale"],
            inputLayout=case["layout"],
            is_causal=case["is_causal"],
        )
        self.synchronize()
        return out

    def call(self, operator: Callable[..., Any], case: dict[str, Any]) -> dict[str, Any]:
        """One call under observation: what it returned, what it wrote to, what it called."""
        tensors = self.load(case["id"])
        originals = [t.cpu().clone() for t in tensors]
        calls, host = Calls(), HostCalls()
        start = time.monotonic()
        try:
            with host, calls:
                out = self.invoke(operator, tensors, case)
        except Exception:
            return {"error": traceback.format_exc(limit=-3)}
        finally:
            for name, count in {**calls.seen, **host.seen}.items():
                self.seen["calls"][name] = self.seen["calls"].get(name, 0) + count
        result: dict[str, Any] = {
            "seconds": time.monotonic() - start,
            "type": f"{type(out).__module__}.{type(out).__qualname__}",
        }
        result["written"] = [
            name
            for name, t, o in zip(("query", "key", "value", "sparseIndices"), tensors, originals)
            if not torch.equal(t.cpu().view(torch.uint8), o.view(torch.uint8))
        ]
        if isinstance(out, torch.Tensor):
            result.update(
                shape=list(out.shape),
                dtype=str(out.dtype),
                device=out.device.type,
                contiguous=out.is_contiguous(),
                stride=list(out.stride()),
            )
            torch.save(out.detach().cpu().contiguous().as_subclass(torch.Tensor), self.folder / f"{case['id']}.out.pt")
        return result

    def repeat(self, operator: Callable[..., Any], case: dict[str, Any], other: str) -> dict[str, Any]:
        """New values at an old address, then the old values at a new one: a cache by address answers wrongly."""
        try:
            tensors = self.load(case["id"])
            first = self.invoke(operator, tensors, case)
            kept = first.detach().cpu().clone()
            for t, fresh in zip(tensors, self.load(other)):
                t.copy_(fresh)
            second = self.invoke(operator, tensors, case)
            result = {
                "same_tensor": first is second or first.data_ptr() == second.data_ptr(),
                "first_overwritten": not torch.equal(first.detach().cpu().view(torch.uint8), kept.view(torch.uint8)),
            }
            torch.save(second.detach().cpu().contiguous(), self.folder / "reused.out.pt")
            result["stale"] = torch.equal(second.detach().cpu().view(torch.uint8), kept.view(torch.uint8))
            return result
        except Exception:
            return {"error": traceback.format_exc(limit=-3)}


if __name__ == "__main__":
    Probe(sys.argv[1]).run()
