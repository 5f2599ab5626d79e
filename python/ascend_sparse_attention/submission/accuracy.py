# SPDX-License-Identifier: Apache-2.0
"""Inputs for a submission and the verdict on what it returned."""

from __future__ import annotations

from pathlib import Path

import torch

from ..golden import native as native_reference
from ..golden import sfa as golden
from ..precision.cases import Case
from ..precision.generate import Inputs, generate
from ..precision.metrics import Accumulator
from ..precision.rules import Policy, Verdict, judge, needs_native
from ..precision.thresholds import limits_of


def _case(id: str, layout: str, dtype: str, sizes: tuple[int, ...], *, causal: bool = False) -> Case:
    B, S1, S2, N1, N2, Dk, Dv, topK = sizes
    return Case(
        id=id, layout=layout, dtype=dtype, B=B, S1=S1, S2=S2, N1=N1, N2=N2, Dk=Dk, Dv=Dv, topK=topK,
        scale=Dk**-0.5, is_causal=causal, seed_name=id, source="submission check",
    )  # fmt: skip


#: One of each kind that cann-bench's cases have, small enough for a kernel that runs in the CPU twin.
#: Sizes are B, S1, S2, N1, N2, Dk, Dv, topK.
CASES = (
    _case("gqa-bsnd", "BSND", "float16", (2, 3, 300, 8, 2, 128, 128, 96), causal=True),
    _case("gqa-bnsd", "BNSD", "bfloat16", (1, 4, 512, 8, 2, 192, 128, 129)),
    _case("mla-bsnd", "BSND", "bfloat16", (1, 2, 256, 32, 1, 576, 512, 128), causal=True),
    _case("mla-bnsd", "BNSD", "float16", (2, 2, 200, 16, 1, 512, 512, 65)),
    _case("decode", "BSND", "float16", (3, 1, 1024, 16, 4, 128, 128, 257)),
    _case("one-key", "BSND", "float16", (1, 2, 5, 2, 2, 64, 64, 1)),
)


def inputs_of(case: Case) -> Inputs:
    """What the operator gets: value is a copy of key's prefix, as in cann-bench."""
    return generate(case)


def other_inputs_of(case: Case) -> Inputs:
    """Other values for the same case, indices included: what is put at an address used before."""
    other = generate(case, seed=1)
    return Inputs(other.query, other.key, other.value, case.S2 - 1 - other.sparseIndices)


def save(inputs: Inputs, path: Path) -> None:
    torch.save([inputs.query, inputs.key, inputs.value, inputs.sparseIndices], path)


def judge_output(output: torch.Tensor, case: Case, inputs: Inputs) -> tuple[bool, str]:
    """cann-bench's verdict on a whole output of the right shape and dtype, and its reasons in words."""
    accumulator = Accumulator(limits_of(output.dtype), output.shape, layout=case.layout)
    arguments = (
        inputs.query, inputs.key, inputs.value, inputs.sparseIndices, case.scale, case.layout, case.is_causal
    )  # fmt: skip
    kept = []
    for block in golden.iter_blocks(*arguments):
        here = _place(block.index.b, block.index.heads, block.index.rows, case.layout)
        expected = _in_layout(block.out, case.layout)
        origin = (*(part.start for part in here), 0)
        kept.append((here, accumulator.update(output[here], expected, origin)))
    if needs_native(accumulator):
        for (here, rounded), native in zip(kept, native_reference.iter_native_blocks(*arguments)):
            accumulator.update_native(output[here], rounded, _in_layout(native.out, case.layout))
    verdict = judge(accumulator, Policy.CANN_BENCH)
    return verdict.verdict is Verdict.PASS, "; ".join(verdict.reasons)


def _place(b: int, heads: slice, rows: slice, layout: str) -> tuple[slice, slice, slice]:
    batch = slice(b, b + 1)
    return (batch, rows, heads) if layout == "BSND" else (batch, heads, rows)


def _in_layout(block: torch.Tensor, layout: str) -> torch.Tensor:
    return (block.transpose(0, 1) if layout == "BSND" else block).unsqueeze(0)
