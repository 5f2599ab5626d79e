# SPDX-License-Identifier: Apache-2.0
"""The rules a cann-bench submission is held to, each with its id and what to do about a breach.

EVAL-CANN-* and SUB-BEH-* are cann-bench's own numbers (docs/spec/submission_spec.md and docs/guide/submission_rules.md
there). SFA-* are ours, for what its evaluator does without giving it a number.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule: its id, what it demands in one line, and a hint for whoever breaks it."""

    id: str
    demand: str
    hint: str


@dataclass(frozen=True)
class Violation:
    """One breach: which rule, where, what was expected and what came."""

    rule: Rule
    where: str
    expected: str
    got: str

    def text(self) -> str:
        return f"{self.rule.id} {self.where}: expected {self.expected}, got {self.got}\n    hint: {self.rule.hint}"

    def as_dict(self) -> dict[str, str]:
        return {
            "rule": self.rule.id,
            "demand": self.rule.demand,
            "where": self.where,
            "expected": self.expected,
            "got": self.got,
            "hint": self.rule.hint,
        }


_TABLE = (
    ("EVAL-CANN-001", "the submission is a directory", "give the directory that holds build.sh"),
    (
        "EVAL-CANN-002",
        "build.sh at the root, unless dist/cann_bench*.whl is there",
        "put a build.sh at the root of the submission",
    ),
    (
        "EVAL-CANN-003",
        "`bash build.sh` exits 0 in time and leaves dist/cann_bench*.whl",
        "run `bash build.sh` without arguments in a clean copy; one compile error zeroes every operator",
    ),
    (
        "EVAL-CANN-004",
        "the wheel installs with --force-reinstall --no-deps and imports as cann_bench",
        "install the wheel into an empty environment and import it there; mind tags, missing files and libraries",
    ),
    (
        "EVAL-CANN-005",
        "cann_bench offers a callable named sparse_flash_attention",
        "define the function in cann_bench/__init__.py, or import it there from where it is",
    ),
    (
        "SUB-BEH-001",
        "no computation by PyTorch, torch_npu or numpy",
        "compute in the kernel; the wrapper may only read shapes, allocate and launch",
    ),
    (
        "SUB-BEH-002",
        "no permute, contiguous, cast, slice, gather or copy of tensors outside the kernel; a contiguous output",
        "let the kernel read and write the layout it is given",
    ),
    (
        "SUB-BEH-003",
        "no built-in operator of the same kind",
        "launch the submission's own kernel instead of aclnn's or torch_npu's operator",
    ),
    ("SUB-BEH-004", "no computation on the host", "keep the tensors on the device from the call to the result"),
    (
        "SUB-BEH-005",
        "no cached or fixed results, nothing keyed by address",
        "compute on every call; keep no outputs and key no cache by data_ptr()",
    ),
    (
        "SUB-BEH-006",
        "timing, synchronisation and profiling functions stay as they are",
        "remove the assignment to the function named",
    ),
    ("SUB-BEH-007", "the result is a plain torch.Tensor", "return the tensor itself, not a subclass or wrapper"),
    (
        "SFA-ACC-001",
        "the results pass cann-bench's accuracy rule",
        "accumulate in float32 and round once; `sfa compare` shows where the errors sit",
    ),
    (
        "SFA-OUT-001",
        "the output has the shape, dtype and device of the operator description",
        "allocate the output as query is: [..., Dv] in inputLayout, query's dtype and device",
    ),
    (
        "SFA-SIG-001",
        "the function takes the operator description's keywords",
        "sparse_flash_attention(query, key, value, sparseIndices, scaleValue, inputLayout='BSND', is_causal=False)",
    ),
    ("SFA-IN-001", "the inputs are not written to", "treat the inputs as read-only; they are used again"),
    (
        "SFA-RUN-001",
        "every call returns, in time and without an exception or a crash",
        "call the operator with the inputs named, under a debugger if it crashed",
    ),
    ("SFA-PKG-001", "exactly one dist/cann_bench*.whl", "remove the others; the evaluator takes any of them"),
    (
        "SFA-PKG-002",
        "the wheel works with torch, torch_npu and numpy alone",
        "put into the wheel what it imports; it is installed without its dependencies",
    ),
    (
        "SFA-PKG-003",
        "dist/cann_bench*.run, where there is one, installs, and installs again",
        "the evaluator runs it with --quiet --install-path=OPP; give it another name if it is not for that",
    ),
)

RULES: dict[str, Rule] = {id: Rule(id, demand, hint) for id, demand, hint in _TABLE}


def violation(rule: str, where: str, expected: str, got: str) -> Violation:
    """A breach of the rule of that id."""
    return Violation(RULES[rule], where, expected, got)
