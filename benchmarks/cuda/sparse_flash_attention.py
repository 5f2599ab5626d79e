# SPDX-License-Identifier: Apache-2.0
"""sparse_flash_attention on CUDA: FlashMLA's published shapes and the 20 public cases of the operator.

    python benchmarks/cuda/sparse_flash_attention.py [--json FILE]

TFLOP/s counts 2 * B * S1 * topK * N1 * (Dk + Dv) over the slots that the causal rule keeps; TB/s the gathered bytes,
K once where V is its prefix. `graph` is a replayed CUDA graph (warm L2), `event` a single call between events (cold L2,
launch included when the host is the slower).
"""

from __future__ import annotations

import argparse
import json
from importlib import resources
from typing import Any

import torch
import yaml
from ascend_sparse_attention.backends import cuda
from timing import graph_time, host_time, kernel_time

FLASHMLA = [
    # s_q, heads, Dk, topK, s_kv, FlashMLA 9241ae3's TFLOP/s on a card of the same kind, by its own tests
    (4096, 128, 576, 2048, 8192, 591.0),
    (4096, 128, 576, 512, 8192, 484.0),
    (4096, 128, 512, 1024, 8192, 538.0),
    (4096, 64, 512, 512, 8192, 509.0),
    (4096, 128, 576, 2048, 131072, 500.0),
    (128, 128, 512, 512, 2048, 404.0),
    (128, 128, 576, 2048, 8192, 547.0),
    (1, 128, 576, 2048, 8192, 9.5),
]


def _case(shape: dict[str, Any], aliased: bool) -> dict[str, Any]:
    B, S1, S2, N1, N2 = (shape[x] for x in ("B", "S1", "S2", "N1", "N2"))
    Dk, Dv, topK, dtype = (shape[x] for x in ("Dk", "Dv", "topK", "dtype"))
    gen = torch.Generator(device="cuda").manual_seed(9)
    q, k = (
        torch.rand(B, s, n, Dk, device="cuda", generator=gen).mul(2).sub(1).to(dtype) for s, n in ((S1, N1), (S2, N2))
    )
    rank = torch.rand(B * S1 * N2 if B * S1 * N2 * S2 < 2**28 else 256, S2, device="cuda", generator=gen)
    idx = rank.topk(topK, dim=1).indices.int()
    idx = idx.repeat(-(-B * S1 * N2 // idx.shape[0]), 1)[: B * S1 * N2].reshape(B, S1, N2, topK)
    if shape["layout"] == "BNSD":
        q, k, idx = (x.transpose(1, 2).contiguous() for x in (q, k, idx))
    v = k[..., :Dv] if aliased else k[..., :Dv].contiguous()
    out = torch.full((*q.shape[:3], Dv), float("nan"), dtype=dtype, device="cuda")
    kept = idx.numel()
    if shape["causal"]:
        rows = torch.arange(S1, device="cuda") + S2 - S1
        limit = rows.view(1, S1, 1, 1) if shape["layout"] == "BSND" else rows.view(1, 1, S1, 1)
        kept = int((idx <= limit).sum())

    def run() -> None:
        cuda.run_sparse_flash_attention(
            q, k, v, idx, out, scale=Dk**-0.5, layout=shape["layout"], is_causal=shape["causal"]
        )

    run()
    error = _error(q, k, v, idx, out, shape)
    times = {"event": kernel_time(run), "graph": graph_time(run), "host": host_time(run, synchronize=False)}
    G = N1 // N2
    flop = 2.0 * kept * G * (Dk + Dv)
    moved = kept * (Dk + (0 if aliased else Dv)) * dtype.itemsize
    best = min(times["event"].median, times["graph"].median) * 1e-3
    return {"error": error, "tflops": flop / best / 1e12, "gather_tb_s": moved / best / 1e12, **times}


def _error(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, idx: torch.Tensor, out: torch.Tensor, shape: dict[str, Any]
) -> float:
    """Largest error against float64 on a few (b, s1, n2) rows."""
    q, k, v, idx, out = (x.transpose(1, 2) if shape["layout"] == "BSND" else x for x in (q, k, v, idx, out))
    G, worst = q.shape[1] // k.shape[1], 0.0
    for b in {0, q.shape[0] - 1}:
        for s in {0, q.shape[2] // 2, q.shape[2] - 1}:
            for n in {0, k.shape[1] - 1}:
                i = idx[b, n, s].long()
                if shape["causal"]:
                    i = i[i <= s + k.shape[2] - q.shape[2]]
                group = slice(n * G, (n + 1) * G)
                p = torch.softmax(q[b, group, s].double() @ k[b, n, i].double().T * shape["Dk"] ** -0.5, -1)
                got = out[b, group, s].double()
                worst = max(worst, float((p @ v[b, n, i].double() - got).abs().nan_to_num(nan=float("inf")).max()))
    return worst


def public_cases() -> list[tuple[str, dict[str, Any]]]:
    """The operator's 20 public shapes, from the case file that the package carries."""
    text = (resources.files("ascend_sparse_attention") / "cases" / "public.yaml").read_text()
    cases = []
    for case in yaml.safe_load(text)["cases"]:
        shape = {x: case[x] for x in ("B", "S1", "S2", "N1", "N2", "Dk", "Dv", "topK", "layout")}
        shape |= {"dtype": getattr(torch, case["dtype"]), "causal": case.get("is_causal", False)}
        cases.append((f"case {case['id']}", shape))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    todo: list[tuple[str, dict[str, Any], float | None]] = [
        (f"MLA s_q {s} heads {h} Dk {d} topK {t} s_kv {n}",
         {"B": 1, "S1": s, "S2": n, "N1": h, "N2": 1, "Dk": d, "Dv": 512, "topK": t, "dtype": torch.bfloat16,
          "layout": "BSND", "causal": False}, theirs)
        for s, h, d, t, n, theirs in FLASHMLA
    ]  # fmt: skip
    todo += [(name, shape, None) for name, shape in public_cases()]
    print(
        "| shape | event ms (10-90 %) | graph ms | host us a call | TFLOP/s | of FlashMLA | gather TB/s | max error |"
    )
    print("|---|---|---|---|---|---|---|---|")
    results = {}
    for name, shape, theirs in todo:
        r = results[name] = _case(shape, aliased=True)
        e, g, ratio = r["event"], r["graph"], "-" if theirs is None else f"{r['tflops'] / theirs:.2f}"
        print(f"| {name} | {e.median:.4f} ({e.low:.4f}-{e.high:.4f}) | {g.median:.4f} | {r['host'].median * 1e3:.0f} "
              f"| {r['tflops']:.1f} | {ratio} | {r['gather_tb_s']:.2f} | {r['error']:.1e} |", flush=True)  # fmt: skip
        torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
