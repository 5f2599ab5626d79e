# SPDX-License-Identifier: Apache-2.0
"""Block-sparse attention and prefill against FlashInfer, both through their public API, in one run on one GPU.

    python benchmarks/cuda/against_flashinfer.py [--only PATTERN] [--json FILE] [--providers ours,fa2,fa3]

FlashInfer is optional (it compiles at first use: set FLASHINFER_CUDA_ARCH_LIST=9.0a on Hopper). TFLOP/s counts
4 * H * D a kept (row, key) pair. Every provider's result is compared with float64 on sampled rows before it is timed.
`--fp8` compares errors instead: both against float64 of the dequantised inputs.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import gc
import importlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from timing import host_times, kernel_time

HQ, HK, D = 32, 8, 128
DEVICE = torch.device("cuda")


@dataclass
class Case:
    """One row of the table. `build(flashinfer_like, backend)` plans and returns (run, plan again or None)."""

    name: str
    pairs: int
    build: Callable[[Any, str], tuple[Callable[[], torch.Tensor], Callable[[], None] | None]]
    expect: Callable[[list[int]], torch.Tensor]
    rows: list[int]
    heads_first: bool = False
    results: dict[str, dict[str, Any]] = field(default_factory=dict)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """One row q [Hq, D] over keys k, v [n, Hk, D], float64."""
    q = q.double().reshape(k.shape[1], -1, q.shape[-1])
    s = torch.einsum("hgd,nhd->hgn", q, k.double()) / math.sqrt(q.shape[-1])
    return torch.einsum("hgn,nhd->hgd", torch.softmax(s, -1), v.double()).reshape(-1, v.shape[-1])


def _tensors(tokens: int, seed: int, dtype: torch.dtype = torch.float16) -> tuple[torch.Tensor, ...]:
    gen = torch.Generator(device=DEVICE).manual_seed(seed)
    return tuple(torch.randn(tokens, h, D, dtype=dtype, device=DEVICE, generator=gen) for h in (HQ, HK, HK))


def bsr_case(n: int, R: int, C: int, density: float) -> Case:
    gen = torch.Generator(device=DEVICE).manual_seed(1)
    keep = torch.rand(n // R, n // C, device=DEVICE, generator=gen) < density
    indptr = torch.nn.functional.pad(keep.sum(1).cumsum(0), (1, 0)).int()
    indices = keep.nonzero()[:, 1].int()
    q, k, v = _tensors(n, 2)

    def build(api: Any, backend: str) -> tuple[Callable[[], torch.Tensor], Callable[[], None]]:
        workspace = torch.empty(128 * 1024 * 1024, dtype=torch.uint8, device=DEVICE)
        wrapper = api.sparse.BlockSparseAttentionWrapper(workspace, backend)
        out = torch.empty_like(q)

        def plan() -> None:
            wrapper.plan(indptr, indices, n, n, R, C, HQ, HK, D, q_data_type=torch.float16)

        plan()
        return (lambda: wrapper.run(q, k, v, out=out)), plan

    def expect(rows: list[int]) -> torch.Tensor:
        outs = []
        for r in rows:
            blocks = indices[indptr[r // R] : indptr[r // R + 1]].long()
            cols = (blocks[:, None] * C + torch.arange(C, device=DEVICE)).reshape(-1)
            outs.append(_attend(q[r], k[cols], v[cols]))
        return torch.stack(outs)

    return Case(f"bsr {R}x{C} {n} {density}", int(keep.sum()) * R * C, build, expect, [0, n // 3, n // 2 + 1, n - 1])


def variable_case(n: int, block: int, density: float, ragged: bool) -> Case:
    gen = torch.Generator(device=DEVICE).manual_seed(3)
    count = n // block
    if ragged:
        host = torch.Generator().manual_seed(4)

        def sizes() -> torch.Tensor:
            cuts = torch.randperm(n - 1, generator=host)[: count - 1].add(1).sort().values
            return torch.diff(cuts, prepend=torch.tensor([0]), append=torch.tensor([n]))

        row_sz, col_sz = (torch.stack([sizes() for _ in range(HK)]).int().to(DEVICE) for _ in range(2))
    else:
        row_sz = torch.full((HK, count), block, dtype=torch.int32, device=DEVICE)
        col_sz = row_sz.clone()
    block_map = torch.rand(HK, count, count, device=DEVICE, generator=gen) < density
    q, k, v = (x.transpose(0, 1).contiguous() for x in _tensors(n, 5))

    def build(api: Any, backend: str) -> tuple[Callable[[], torch.Tensor], Callable[[], None]]:
        workspace = torch.empty(512 * 1024 * 1024, dtype=torch.uint8, device=DEVICE)
        wrapper = api.sparse.VariableBlockSparseAttentionWrapper(workspace, backend)

        def plan() -> None:
            wrapper.plan(block_map, row_sz, col_sz, HQ, HK, D, q_data_type=torch.float16)

        plan()
        return (lambda: wrapper.run(q, k, v)), plan

    row_end = row_sz.long().cumsum(1)

    def expect(rows: list[int]) -> torch.Tensor:
        outs = []
        for r in rows:
            heads = []
            for h in range(HK):
                on = block_map[h, int((row_end[h] <= r).sum())]
                cols = torch.repeat_interleave(on, col_sz[h].long()).nonzero()[:, 0]
                group = slice(h * HQ // HK, (h + 1) * HQ // HK)
                heads.append(_attend(q[group, r], k[h, cols].unsqueeze(1), v[h, cols].unsqueeze(1)))
            outs.append(torch.cat(heads))
        return torch.stack(outs)

    pairs = int((torch.einsum("hmn,hn->hm", block_map.double(), col_sz.double()) * row_sz).sum()) // HK
    kind = "ragged " if ragged else ""
    name = f"variable {kind}{block} {n} {density}"
    return Case(name, pairs, build, expect, [0, n // 3, n - 1], heads_first=True)


def prefill_case(n: int, causal: bool) -> Case:
    q, k, v = _tensors(n, 6)

    def build(api: Any, backend: str) -> tuple[Callable[[], torch.Tensor], None]:
        return (lambda: api.prefill.single_prefill_with_kv_cache(q, k, v, causal=causal, backend=backend)), None

    def expect(rows: list[int]) -> torch.Tensor:
        return torch.stack([_attend(q[r], k[: r + 1 if causal else n], v[: r + 1 if causal else n]) for r in rows])

    pairs = n * (n + 1) // 2 if causal else n * n
    return Case(f"prefill {'causal' if causal else 'full'} {n}", pairs, build, expect, [0, n // 3, n - 1])


CASES: dict[str, Callable[[], Case]] = {}
for _args in (
    (4096, 128, 128, 0.25), (8192, 128, 128, 0.1), (8192, 128, 128, 0.25), (32768, 128, 128, 0.1),
    (32768, 128, 128, 0.25), (8192, 64, 64, 0.1), (8192, 64, 64, 0.25), (32768, 64, 64, 0.1), (32768, 64, 64, 0.25),
    (8192, 16, 16, 0.1), (8192, 16, 16, 0.25), (8192, 64, 16, 0.25), (8192, 128, 1, 0.25), (4096, 1, 1, 0.1),
    (4096, 1, 1, 0.5), (8192, 1, 1, 0.1), (8192, 1, 1, 0.25),
):  # fmt: skip
    CASES["bsr {1}x{2} {0} {3}".format(*_args)] = functools.partial(bsr_case, *_args)
for _args in (
    (8192, 128, 0.12, False), (8192, 128, 0.26, False), (8192, 64, 0.11, False), (8192, 64, 0.26, False),
    (8192, 128, 0.26, True), (32768, 128, 0.26, True), (32768, 128, 0.25, False),
):  # fmt: skip
    CASES["variable {3}{1} {0} {2}".format(*_args[:3], "ragged " if _args[3] else "")] = functools.partial(
        variable_case, *_args
    )
for _n in (4096, 16384):
    CASES[f"prefill causal {_n}"] = functools.partial(prefill_case, _n, True)
CASES["prefill full 8192"] = functools.partial(prefill_case, 8192, False)


def measure(case: Case, provider: str, api: Any, warm_only: bool) -> Callable[[], None] | None:
    """Check and time one provider's run. Returns its plan(), where there is one."""
    backend = "cuda" if provider == "ours" else provider
    run, plan = case.build(api, backend)
    out = run()
    out = out.transpose(0, 1) if case.heads_first else out
    error = float((out[case.rows].double() - case.expect(case.rows)).abs().max())
    result: dict[str, Any] = {"max_error": error}
    if not warm_only:
        times = kernel_time(run)
        result |= {"ms": times, "tflops": 4 * HQ * D * case.pairs / times.median / 1e9}
    case.results[provider] = result
    return plan


def table(cases: list[Case], providers: list[str]) -> str:
    lines = [
        "| case | " + " | ".join(f"{p} TFLOP/s (ms, 10-90 %)" for p in providers) + " | ours / best | plan ms |",
        "|---" * (len(providers) + 3) + "|",
    ]
    for case in cases:
        cells, plans = [], []
        for p in providers:
            r = case.results.get(p, {})
            if "ms" not in r:
                cells.append(r.get("failed", "-"))
                continue
            t = r["ms"]
            cells.append(f"{r['tflops']:.0f} ({t.median:.4f}, {t.low:.4f}-{t.high:.4f})")
            if "plan_ms" in r:
                plans.append(f"{p} {r['plan_ms'].median:.2f}")
        theirs = [r["tflops"] for p, r in case.results.items() if p != "ours" and "tflops" in r]
        mine = case.results.get("ours", {}).get("tflops")
        ratio = f"{mine / max(theirs):.2f}" if theirs and mine else "-"
        lines.append(f"| {case.name} | " + " | ".join(cells) + f" | {ratio} | {', '.join(plans)} |")
    return "\n".join(lines)


def fp8_errors(apis: dict[str, Any]) -> str:
    """Largest and root-mean-square error of e4m3 attention, per-head scales, against float64 of what was quantised."""
    n = 2048
    lines = ["| fp8 e4m3 | provider | rms error | max error |", "|---|---|---|---|"]
    q, k, v = _tensors(n, 7, torch.float32)
    scales = [x.abs().amax((0, 2)) / 448.0 for x in (q, k, v)]
    q8, k8, v8 = ((x / s[:, None]).to(torch.float8_e4m3fn) for x, s in zip((q, k, v), scales))
    dq, dk, dv = (x.double() * s[:, None].double() for x, s in zip((q8, k8, v8), scales))
    indptr = torch.arange(0, n // 128 * 5 + 1, 5, dtype=torch.int32, device=DEVICE)
    gen = torch.Generator(device=DEVICE).manual_seed(8)
    indices = torch.stack([torch.randperm(n // 128, device=DEVICE, generator=gen)[:5] for _ in range(n // 128)])
    indices = indices.sort(1).values.reshape(-1).int()
    rows = list(range(0, n, 37))
    prefill_want = torch.stack([_attend(dq[r], dk[: r + 1], dv[: r + 1]) for r in rows])
    blocks = indices.long().reshape(-1, 5, 1) * 128 + torch.arange(128, device=DEVICE)
    bsr_want = torch.stack([_attend(dq[r], dk[blocks[r // 128].reshape(-1)], dv[blocks[r // 128].reshape(-1)])
                            for r in rows])  # fmt: skip
    for name, api in apis.items():
        backend = "cuda" if name == "ours" else "fa3"

        def prefill(api: Any = api, backend: str = backend) -> torch.Tensor:
            return api.prefill.single_prefill_with_kv_cache(
                q8, k8, v8, *scales, o_dtype=torch.float16, causal=True, backend=backend
            )

        def bsr(api: Any = api, backend: str = backend) -> torch.Tensor:
            wrapper = api.sparse.BlockSparseAttentionWrapper(
                torch.empty(128 * 1024 * 1024, dtype=torch.uint8, device=DEVICE), backend
            )
            wrapper.plan(indptr, indices, n, n, 128, 128, HQ, HK, D, q_data_type=torch.float8_e4m3fn,
                         kv_data_type=torch.float8_e4m3fn, o_data_type=torch.float16)  # fmt: skip
            return wrapper.run(q8, k8, v8, *scales)

        for what, call, want in (("prefill causal", prefill, prefill_want), ("bsr 128x128", bsr, bsr_want)):
            try:
                e = call()[rows].double() - want
                lines.append(
                    f"| {what} | {name} | {float(e.square().mean().sqrt()):.3e} | {float(e.abs().max()):.3e} |"
                )
            except Exception as error:  # a provider that cannot is a row of the table, not the end of it
                lines.append(f"| {what} | {name} | {type(error).__name__}: {str(error)[:100]} | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="pattern of case names")
    parser.add_argument("--providers", default="ours,fa2,fa3")
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--warm", action="store_true", help="compile and check, time nothing")
    parser.add_argument("--fp8", action="store_true", help="FP8 errors instead of times")
    options = parser.parse_args()
    providers = options.providers.split(",")
    apis = {p: importlib.import_module("ascend_sparse_attention" if p == "ours" else "flashinfer") for p in providers}
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    if options.fp8:
        print(fp8_errors(apis))
        return
    done = []
    for name, make in CASES.items():
        if not fnmatch.fnmatch(name, options.only):
            continue
        case, plans = make(), {}
        for provider in providers:
            try:
                plan = measure(case, provider, apis[provider], options.warm)
                if plan is not None and not options.warm:
                    plans[provider] = plan
            except Exception as error:  # as above
                case.results[provider] = {"failed": f"{type(error).__name__}: {str(error)[:80]}"}
        for provider, times in host_times(plans, repeats=15).items():
            case.results[provider]["plan_ms"] = times
        plans.clear()
        print(name, {p: (f"{r['tflops']:.0f}" if "tflops" in r else "", f"err {r['max_error']:.1e}")
                     if "max_error" in r else r for p, r in case.results.items()}, flush=True)  # fmt: skip
        case.build = case.expect = lambda *_: None  # frees the inputs
        done.append(case)
        gc.collect()
        torch.cuda.empty_cache()
    print(table(done, providers))
    if options.json:
        with open(options.json, "w") as f:
            json.dump({c.name: c.results for c in done}, f, indent=1)


if __name__ == "__main__":
    main()
