#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a trace of the twin, the Python package not installed: trace_to_png.py TRACE.json PICTURE.png [--block N]."""

import importlib.util
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "python" / "ascend_sparse_attention" / "twin_trace.py"


def main() -> int:
    # By path, so that the package around it, and with it torch, need not be there.
    spec = importlib.util.spec_from_file_location("twin_trace", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["twin_trace"] = module
    spec.loader.exec_module(module)
    return int(module.main())


if __name__ == "__main__":
    raise SystemExit(main())
