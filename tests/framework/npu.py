# SPDX-License-Identifier: Apache-2.0
"""What the tests on the fake runtime share. Importing it skips a module where torch_npu is not installed."""

from __future__ import annotations

import ctypes
import importlib.util

import pytest

if importlib.util.find_spec("torch_npu") is None:
    pytest.skip("torch_npu is not installed; tests/framework/run.sh runs these", allow_module_level=True)

import ascend_sparse_attention as asa
import torch
import torch_npu  # noqa: F401
from ascend_sparse_attention import backends
from ascend_sparse_attention.backends.npu import library_path

ops = torch.ops.ascend_sparse_attention

_why = backends.load("npu").missing()
assert _why is None, _why

_acl = ctypes.CDLL("libascendcl.so")
_acl.fakeAclCalls.restype = ctypes.c_long
_acl.fakeAclHold.argtypes = [ctypes.c_void_p, ctypes.c_int]

_library = ctypes.CDLL(str(library_path()))
_library.asa_twin_findings.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_library.asa_twin_findings.restype = ctypes.c_size_t


@pytest.fixture(autouse=True)
def no_findings():
    """The twin's checker runs in every launch; what it found comes after the test's own failures."""
    yield
    for device in range(torch.npu.device_count()):
        torch.npu.synchronize(device)
    text = ctypes.create_string_buffer(1 << 16)
    assert not _library.asa_twin_findings(text, len(text)), text.value.decode(errors="replace")


#: Everything a call may not do: copy, wait.
FORBIDDEN = (
    "aclrtMemcpy", "aclrtMemcpyAsync", "aclrtMemset", "aclrtSynchronizeStream", "aclrtSynchronizeDevice",
    "aclrtSynchronizeEvent",
)  # fmt: skip


def calls(name: str) -> int:
    """How often the runtime's function has been called."""
    return int(_acl.fakeAclCalls(name.encode()))


def on_npu(tensors, device="npu:0"):
    """Copies on the device; a value that is a view of key stays one."""
    query, key, value, indices = tensors
    key_npu = key.to(device)
    if value.untyped_storage().data_ptr() == key.untyped_storage().data_ptr():
        value_npu = key_npu[..., : value.shape[-1]]
    else:
        value_npu = value.to(device)
    return query.to(device), key_npu, value_npu, indices.to(device)


def hold(stream, milliseconds: int) -> None:
    """Keep a stream busy: what is queued behind this runs later."""
    status = _acl.fakeAclHold(stream.npu_stream, milliseconds)
    assert status == 0, status


__all__ = ["FORBIDDEN", "asa", "calls", "hold", "no_findings", "on_npu", "ops", "torch"]
