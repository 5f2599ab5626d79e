# SPDX-License-Identifier: Apache-2.0
"""Unpacks the wheels of a folder and imports them: `import_wheels.py DIST KIND`.

With KIND "twin" both wheels also run their kernel, as any CPU can. A library for an NPU needs CANN's runtime and a
driver, which a build machine need not have; there the files and the facts beside them are checked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def main(argv: list[str]) -> None:
    dist, kind = Path(argv[0]), argv[1]
    with tempfile.TemporaryDirectory(prefix="asa-wheels-") as folder:
        for name in ("cann_bench", "ascend_sparse_attention"):
            (wheel,) = dist.glob(f"{name}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
        elsewhere = ("PYTHONPATH", "ASA_TWIN_LIBRARY", "ASA_NPU_LIBRARY")
        env = {k: v for k, v in os.environ.items() if k not in elsewhere}
        facts = json.loads((Path(folder) / "cann_bench" / "lib" / "libcann_bench.json").read_text())
        if (facts["device"] == "cpu") != (kind == "twin"):
            sys.exit(f"import_wheels: expected a library for {kind}, got one for {facts['device']}")
        if kind != "twin":
            for library in ("cann_bench/lib/libcann_bench", "ascend_sparse_attention/lib/libasa_torch_npu"):
                facts = json.loads((Path(folder) / f"{library}.json").read_text())
                if facts["soc"] != kind or not (Path(folder) / f"{library}.so").is_file():
                    sys.exit(f"import_wheels: expected {library}.so for {kind}, got one for {facts['soc']}")
        code = (
            f"import sys; sys.path.insert(0, {folder!r}); import ascend_sparse_attention as a; "
            f"assert a.__file__.startswith({folder!r}), a.__file__; "
        )
        if kind == "twin":
            code += (
                "import cann_bench, torch; q = torch.zeros(1, 1, 1, 64, dtype=torch.float16); "
                "i = torch.zeros(1, 1, 1, 1, dtype=torch.int32); "
                "o = cann_bench.sparse_flash_attention(query=q, key=q, value=q, sparseIndices=i, scaleValue=1.0); "
                "assert torch.equal(o, q), o; "
                "from ascend_sparse_attention import twin; r = twin.run(q, q, q, i, 1.0); "
                "assert torch.equal(r.out, q) and not r.findings, r"
            )
        done = subprocess.run([sys.executable, "-c", code], env=env, cwd=folder)
        if done.returncode != 0:
            sys.exit("import_wheels: the wheels that were built cannot be imported")
    print("the wheels import")


if __name__ == "__main__":
    main(sys.argv[1:])
