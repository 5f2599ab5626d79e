# SPDX-License-Identifier: Apache-2.0
"""Prints what CMake needs to know about the torch (and torch_npu) of this interpreter, as `set(NAME "value")` lines.

torch's own CMake package also looks for CUDA and MKL; an extension needs neither.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

# torch_npu is looked at, not loaded: a build machine need not have a device.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"


def main() -> None:
    try:
        import torch
        from torch.utils.cpp_extension import include_paths
    except ImportError as error:
        sys.exit(f"{sys.executable} cannot import torch: {error}")
    values = {
        "ASA_TORCH_VERSION": torch.__version__,
        "ASA_TORCH_INCLUDE": ";".join(include_paths()),
        "ASA_TORCH_LIB": str(Path(torch.__file__).parent / "lib"),
        "ASA_TORCH_CXX11_ABI": str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
    }
    spec = importlib.util.find_spec("torch_npu")
    if spec is not None and spec.submodule_search_locations:
        package = Path(spec.submodule_search_locations[0])
        values |= {
            "ASA_TORCH_NPU_VERSION": importlib.metadata.version("torch_npu"),
            # Before 2.11 the ACL headers lay below third_party alone.
            "ASA_TORCH_NPU_INCLUDE": f"{package}/include;{package}/include/third_party/acl/inc",
            "ASA_TORCH_NPU_LIB": str(package / "lib"),
        }
    for name, value in values.items():
        print(f'set({name} "{value}")')


if __name__ == "__main__":
    main()
