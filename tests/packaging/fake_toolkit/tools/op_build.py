# SPDX-License-Identifier: Apache-2.0
"""Stands in for CANN's op_build: `op_build.py LIBRARY OUT SOC`.

From the definition in LIBRARY it writes what CANN's tool writes: the operator's aclnn entry (aclnn_*.h and .cpp) and
the op-info file of the SoC.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from pathlib import Path

_C_TYPES = {"float": "double", "str": "char *", "bool": "bool"}
_VALUES = {"float": "static_cast<float>({})", "str": "std::string({})", "bool": "{}"}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def main(argv: list[str]) -> None:
    library, out, soc = argv[0], Path(argv[1]), argv[2]
    describe = ctypes.CDLL(library).fakeOpText
    describe.restype = ctypes.c_char_p
    lines = [line.split() for line in describe().decode().splitlines()]
    named = {
        kind: [line[1:] for line in lines if line[0] == kind] for kind in ("type", "soc", "input", "attr", "output")
    }
    if not named["type"] or [soc] not in named["soc"]:
        sys.exit(f"op_build: expected an operator for {soc} in {library}, got {lines}")
    ((op,),) = named["type"]
    inputs, outputs = ([camel(one[0]) for one in named[kind]] for kind in ("input", "output"))
    attrs = [(camel(name), kind) for name, kind in named["attr"]]
    parameters = [f"const aclTensor *{name}" for name in inputs]
    parameters += [f"{_C_TYPES[kind]}{'' if kind == 'str' else ' '}{name}" for name, kind in attrs]
    parameters += [f"const aclTensor *{name}" for name in outputs]
    prepare = f"aclnnStatus aclnn{op}GetWorkspaceSize({', '.join(parameters)}, uint64_t *workspaceSize, "
    prepare += "aclOpExecutor **executor)"
    launch = (
        f"aclnnStatus aclnn{op}(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)"
    )
    header = f"aclnn_{snake(op)}.h"
    (out / header).write_text(
        '#pragma once\n#include "aclnn/acl_meta.h"\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
        f"{prepare};\n{launch};\n#ifdef __cplusplus\n}}\n#endif\n"
    )
    values = ", ".join(_VALUES[kind].format(name) for name, kind in attrs)
    (out / header).with_suffix(".cpp").write_text(
        f'#include "{header}"\n#include "fake_aclnn.h"\n'
        f'{prepare}\n{{\n    return fakeAclnnPrepare("{op}", {{{", ".join(inputs)}}}, {{{values}}}, '
        f"{{{', '.join(outputs)}}}, workspaceSize, executor);\n}}\n"
        f"{launch}\n{{\n    return fakeAclnnLaunch(workspace, workspaceSize, executor, stream);\n}}\n"
    )
    info = {op: {f"input{i}": {"name": name} for i, name in enumerate(inputs)}}
    (out / f"aic-{soc}-ops-info.json").write_text(json.dumps(info, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
