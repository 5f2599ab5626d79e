# SPDX-License-Identifier: Apache-2.0
"""What `twin.run` refuses before C sees it, and which libraries it takes for its own."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
import torch
from ascend_sparse_attention import backends, twin
from sfa_inputs import make_inputs

needs_twin = pytest.mark.skipif(backends.load("twin").missing() is not None, reason="libasa_twin.so is not built")


def call():
    return (*make_inputs(B=1, S1=1, S2=40, topK=7, Dk=64, Dv=64), 0.1)


@needs_twin
@pytest.mark.parametrize(
    ("kind", "message", "argument"),
    [
        (ValueError, "cores: expected 0 .. 4294967295, got -1", dict(cores=-1)),
        (ValueError, "cores: expected 0 .. 4294967295, got 4294967296", dict(cores=2**32)),
        (ValueError, "cores: expected 0 .. 4294967295, got 4294967297", dict(cores=2**32 + 1)),
        (ValueError, "cores: expected 0 .. 4294967295, got far more", dict(cores=10**6000)),
        (ValueError, "seed: expected 0 .. 18446744073709551615, got 18446744073709551616", dict(seed=2**64)),
        (ValueError, "seed: expected 0 .. 18446744073709551615, got -1", dict(seed=-1)),
        (ValueError, "threads: expected 1 .. 2147483647, got 2147483648", dict(threads=2**31)),
        (ValueError, "threads: expected 1 .. 2147483647, got 0", dict(threads=0)),
        (TypeError, "cores: expected an int, got float", dict(cores=1.0)),
        (TypeError, "seed: expected an int, got bool", dict(seed=True)),
        (TypeError, "schedule: expected a str, got int", dict(schedule=1)),
        (TypeError, "platform: expected a str, got NoneType", dict(platform=None)),
        (TypeError, "drop_sync: expected a str, got NoneType", dict(drop_sync=None)),
        (TypeError, "check: expected a bool, got str", dict(check="no")),
        (TypeError, "return_lse: expected a bool, got int", dict(return_lse=1)),
        (TypeError, "value_is_key_prefix: expected a bool, got int", dict(value_is_key_prefix=0)),
        (ValueError, "platform: expected a name, got 'Ascend910B2\\x00x'", dict(platform="Ascend910B2\0x")),
        (ValueError, "drop_sync: expected one of the ", dict(drop_sync="bogus")),
    ],
)  # fmt: skip
def test_arguments_refused_by_name(kind, message, argument):
    with pytest.raises(kind) as error:
        twin.run(*call(), predict=False, **argument)
    assert str(error.value).startswith(message)


@needs_twin
def test_integers_of_other_kinds():
    result = twin.run(*call(), predict=False, cores=np.int64(1), seed=2**64 - 1)
    assert result.core_num == 1


@needs_twin
@pytest.mark.parametrize("position", range(4))
def test_bytes_that_do_not_say_the_values(position):
    name = ("query", "key", "value", "sparseIndices")[position]
    args = list(call())
    lazy, zero = list(args), list(args)
    lazy[position] = torch._neg_view(args[position])
    zero[position] = torch._efficientzerotensor(args[position].shape, dtype=args[position].dtype)
    with pytest.raises(ValueError, match=f"{name}: expected a tensor without lazy negation"):
        twin.run(*lazy)
    with pytest.raises(ValueError, match=f"{name}: expected a tensor with memory"):
        twin.run(*zero)


@pytest.fixture
def missing(monkeypatch):
    """What the backend says with another ASA_TWIN_LIBRARY."""

    def ask(value):
        monkeypatch.setenv("ASA_TWIN_LIBRARY", str(value))
        twin.library.cache_clear()
        return backends.load("twin").missing()

    yield ask
    monkeypatch.undo()
    twin.library.cache_clear()


def compiled(folder, source):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "l.c").write_text(source)
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-o", folder / "l.so", folder / "l.c"], check=True)
    return folder / "l.so"


def test_libraries_that_are_not_ours(missing, tmp_path):
    assert "ASA_TWIN_LIBRARY: expected the path of libasa_twin.so, got an empty text" in missing("")
    assert "cannot open shared object file" in missing(tmp_path / "none.so")
    other = compiled(tmp_path, "int something(void) { return 1; }")
    assert f"{other}: expected libasa_twin.so, got a library without its functions" in missing(other)
    old = compiled(tmp_path, "int asa_tiling_size(void) { return 1; }")
    shutil.copy(old, tmp_path / "old.so")
    assert "a libasa_twin.so of another version, without asa_abi_version, asa_check" in missing(tmp_path / "old.so")
    with pytest.raises(OSError, match="of another version"):
        twin.library()


def test_library_of_another_interface(missing, tmp_path):
    functions = " ".join(f"int {name}(void) {{ return 999; }}" for name in twin._FUNCTIONS)
    assert f"expected interface {twin._ABI_VERSION}, got 999; build it again" in missing(compiled(tmp_path, functions))


@needs_twin
def test_bare_name_is_a_file_here(missing, tmp_path, monkeypatch):
    shutil.copy(twin.library_path(), tmp_path / "copy.so")
    monkeypatch.chdir(tmp_path)
    assert missing("copy.so") is None and missing("./copy.so") is None
    # The system's library of that name is not meant.
    assert missing("libm.so.6") is not None
