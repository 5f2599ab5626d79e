# SPDX-License-Identifier: Apache-2.0
"""aten operators for the device without an operator library: each runs on CPU copies. For opcheck and torch.compile.

torch_npu's own implementations need CANN's libopapi; without it they raise. Importing this module replaces those that
the tests' surroundings use, never our own op.
"""

from __future__ import annotations

import warnings

import npu  # noqa: F401  (skips a module that imports this where torch_npu is not installed)
import torch
from torch.utils._pytree import tree_leaves, tree_map

_NAMES = "add.Tensor mul.Tensor sub.Tensor eq.Tensor ne.Tensor abs all equal isclose".split()


def _through_cpu(op):
    def run(*args, **kwargs):
        cpu = tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, (args, kwargs))
        if cpu[1].get("device") is not None:
            cpu[1]["device"] = "cpu"
        result = op(*cpu[0], **cpu[1])
        if op._schema.is_mutable:
            args[0].copy_(cpu[0][0])
            return args[0]
        devices = [
            x.device for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.device.type == "npu"
        ]
        wanted = torch.device(kwargs["device"]) if kwargs.get("device") is not None else devices[0]
        return tree_map(lambda x: x.to(wanted) if isinstance(x, torch.Tensor) else x, result)

    return run


_library = torch.library.Library("aten", "IMPL")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _name in _NAMES:
        _packet, _, _overload = _name.partition(".")
        _op = getattr(getattr(torch.ops.aten, _packet), _overload or "default")
        _library.impl(_name, _through_cpu(_op), "PrivateUse1", allow_override=True)
