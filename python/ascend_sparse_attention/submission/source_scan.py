# SPDX-License-Identifier: Apache-2.0
"""What the submission's files say before anything of it runs: Python sources and compiled libraries.

Built-in operators and replaced timing functions are always looked for. Computation and data movement are better seen
while the operator runs (`probe`); the sources are asked for those only when it cannot be run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .rules import Violation, violation

# Names under `torch`, `torch.nn.functional` or a tensor that compute, and those that move data.
_COMPUTE = frozenset(
    "matmul mm bmm einsum softmax log_softmax scaled_dot_product_attention linear exp addmm baddbmm topk sort".split()
)
_MOVES = frozenset(
    "permute transpose contiguous gather scatter scatter_ index_select take_along_dim repeat_interleave clone half "
    "bfloat16 float".split()
)
_HOST = frozenset(["cpu", "numpy", "tolist"])

# Names that other types have as methods too.
_NOT_TENSORS_ALONE = frozenset("sort exp linear topk clone repeat float gather".split())
_BUILT_IN = re.compile(r"npu_sparse_flash_attention|npu_fusion_attention|npu_fused_infer_attention_score")

# Modules whose functions the evaluator measures with.
_TIMING = re.compile(
    r"^(time\.(time|perf_counter|perf_counter_ns|monotonic)|torch\.(npu|cuda)\.(synchronize|Event(\.\w+)?)"
    r"|torch_npu\.profiler\.\w+|torch_npu\.npu\.synchronize)$"
)

# aclnn entries of CANN's own attention operators; a name of the submission's own may contain them.
_BUILT_IN_ACLNN = re.compile(
    rb"(?<![A-Za-z0-9_])aclnn(SparseFlashAttention|FusedInferAttentionScore|FlashAttentionScore)(V\d+)?GetWorkspaceSize\x00"
)


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as written, or None for what is not a chain of names."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def _aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> module path of every import."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                names[item.asname or item.name.split(".")[0]] = item.name if item.asname else item.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for item in node.names:
                names[item.asname or item.name] = f"{node.module}.{item.name}"
    return names


def _call_fault(name: str, is_method: bool) -> tuple[str, str] | None:
    """(rule, what was expected) for a call of this name, or None."""
    leaf = name.rsplit(".", 1)[-1]
    if _BUILT_IN.search(name):
        return "SUB-BEH-003", "a kernel of the submission's own"
    from_torch = name.startswith(("torch.", "torch_npu."))
    if not (from_torch or is_method) or ".ops.cann_bench." in name:
        return None
    if is_method and leaf in _NOT_TENSORS_ALONE:
        return None
    if leaf in _COMPUTE:
        return "SUB-BEH-001", "no computation outside the kernel"
    if leaf in _MOVES:
        return "SUB-BEH-002", "no data movement outside the kernel"
    if leaf in _HOST and is_method:
        return "SUB-BEH-004", "tensors that stay on the device"
    return None


def scan_python(path: Path, shown: str, *, calls: bool) -> Iterator[Violation]:
    """Faults of one Python file; `shown` is its name in messages. `calls`: see `scan_package`."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (SyntaxError, UnicodeDecodeError, ValueError, RecursionError, MemoryError) as error:
        yield violation("EVAL-CANN-004", shown, "Python source", f"{type(error).__name__}: {error}")
        return
    modules = _aliases(tree)

    def resolved(node: ast.expr) -> tuple[str, bool] | None:
        """The name a call or an assignment reaches, and whether it hangs on a value rather than on a module."""
        name = _dotted(node)
        if name is None:
            return (node.attr, True) if isinstance(node, ast.Attribute) else None
        head, _, rest = name.partition(".")
        if head in modules:
            return (f"{modules[head]}.{rest}" if rest else modules[head]), False
        return (name, True) if rest else None

    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            reached = resolved(node.func)
            fault = _call_fault(*reached) if reached is not None else None
            if fault is not None and reached is not None and (calls or fault[0] == "SUB-BEH-003"):
                yield violation(fault[0], f"{shown}:{node.lineno}", fault[1], f"a call of {reached[0]}")
        elif calls and isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield violation("SUB-BEH-001", f"{shown}:{node.lineno}", "no computation outside the kernel", "an @")
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                reached = resolved(target) if isinstance(target, ast.Attribute) else None
                if reached is not None and not reached[1] and _TIMING.match(reached[0]):
                    yield violation(
                        "SUB-BEH-006", f"{shown}:{node.lineno}", f"{reached[0]} as it was", "an assignment to it"
                    )


def scan_library(path: Path, shown: str) -> Iterator[Violation]:
    """Built-in attention operators that a compiled library names."""
    for name in sorted({match.group(0)[:-1].decode() for match in _BUILT_IN_ACLNN.finditer(path.read_bytes())}):
        yield violation("SUB-BEH-003", shown, "a kernel of the submission's own", f"a reference to {name}")


def scan_package(directory: Path, root: Path, *, calls: bool) -> list[Violation]:
    """Faults of an installed or source package; names in messages are relative to `root`.

    Args:
        calls: also report calls that compute, move or fetch data.
    """
    found: list[Violation] = []
    for path in sorted(directory.rglob("*")):
        shown = str(path.relative_to(root))
        if not path.is_file():
            continue
        if path.suffix == ".py":
            found.extend(scan_python(path, shown, calls=calls))
        elif path.suffix == ".so":
            found.extend(scan_library(path, shown))
    return found
