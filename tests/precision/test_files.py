# SPDX-License-Identifier: Apache-2.0
"""Dumped tensors: every format reads alike, raw bits are never compared as integers, bad files get a message."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from ascend_sparse_attention.precision.files import compare_files
from ascend_sparse_attention.precision.rules import Policy, Verdict
from ascend_sparse_attention.precision.tensors import TensorFileError, load_tensor
from ascend_sparse_attention.precision.thresholds import limits_of
from safetensors.torch import save_file

GOLDEN = (torch.rand(4, 6, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 0.5) * 2
BF16, FP16 = limits_of("bfloat16"), limits_of("float16")


def dump(tensor: torch.Tensor, path) -> str:
    """Write a tensor as the suffix asks; dtypes that numpy lacks go out as raw bits."""
    bits = {torch.bfloat16: torch.uint16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
    array = (tensor.view(bits[tensor.dtype]) if tensor.dtype in bits else tensor).numpy()
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, out=array)
    elif path.suffix == ".bin":
        array.tofile(path)
    elif path.suffix == ".pt":
        torch.save(tensor, path)
    else:
        save_file({"out": tensor}, path)
    return str(path)


@pytest.mark.parametrize("suffix", ["npy", "npz", "bin", "pt", "safetensors"])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"])
def test_every_format_reads_alike(tmp_path, suffix, name):
    limits = limits_of(name)
    tensor = GOLDEN.to(limits.storage)
    source = dump(tensor, tmp_path / f"x.{suffix}")
    read = load_tensor(source, dtype=limits, shape=tuple(GOLDEN.shape))
    assert read.dtype == limits.storage and read.shape == GOLDEN.shape
    assert torch.equal(read.double(), tensor.double())


def test_bfloat16_bits_want_a_dtype(tmp_path):
    source = dump(GOLDEN.bfloat16(), tmp_path / "x.npy")
    with pytest.raises(TensorFileError, match=r"x\.npy: holds uint16 values.*--dtype"):
        load_tensor(source)
    with pytest.raises(TensorFileError, match="expected 1-byte raw bits"):
        load_tensor(source, dtype=limits_of("float8_e5m2"))
    # Another dtype of the same size is the caller's word; the same bits then mean something else.
    assert not torch.equal(load_tensor(source, dtype=FP16).double(), GOLDEN.bfloat16().double())


def test_void_values_want_a_dtype(tmp_path):
    np.save(tmp_path / "x.npy", GOLDEN.bfloat16().view(torch.uint16).numpy().view("V2"))
    with pytest.raises(TensorFileError, match="numpy cannot tell; give --dtype"):
        load_tensor(str(tmp_path / "x.npy"))
    assert torch.equal(load_tensor(str(tmp_path / "x.npy"), dtype=BF16), GOLDEN.bfloat16())
    with pytest.raises(TensorFileError, match="expected 4-byte values for float32, got 2"):
        load_tensor(str(tmp_path / "x.npy"), dtype=limits_of("float32"))


def test_integers_are_not_compared(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.int64))
    with pytest.raises(TensorFileError, match="integers are not compared"):
        load_tensor(str(tmp_path / "x.npy"))
    torch.save(torch.ones(2, dtype=torch.bool), tmp_path / "x.pt")
    with pytest.raises(TensorFileError, match="holds bool values"):
        load_tensor(str(tmp_path / "x.pt"))
    torch.save(torch.ones(2, dtype=torch.complex64), tmp_path / "x.pt")
    with pytest.raises(TensorFileError, match="expected a dense tensor of real floats"):
        load_tensor(str(tmp_path / "x.pt"))


def test_wider_values_must_fit_the_dtype(tmp_path):
    exact = dump(GOLDEN.bfloat16().float(), tmp_path / "exact.npy")
    assert torch.equal(load_tensor(exact, dtype=BF16), GOLDEN.bfloat16())
    with pytest.raises(TensorFileError, match=r"--dtype bfloat16 does not fit: .* values of float32"):
        load_tensor(dump(GOLDEN.float(), tmp_path / "wide.npy"), dtype=BF16)
    with pytest.raises(TensorFileError, match="--dtype hifloat32 does not fit"):
        load_tensor(dump(GOLDEN.float(), tmp_path / "wide.npy"), dtype=limits_of("hifloat32"))
    hifloat32 = limits_of("hifloat32")
    rounded = hifloat32.round(GOLDEN).float()
    assert torch.equal(load_tensor(dump(rounded, tmp_path / "h.bin"), dtype=hifloat32, shape=(384,)), rounded.view(-1))


def test_big_endian_and_fortran_order(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(GOLDEN.numpy()).astype(">f8"))
    assert torch.equal(load_tensor(str(tmp_path / "x.npy")), GOLDEN)


def test_archives_with_several_tensors(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(2), b=np.ones(3))
    torch.save({"a": torch.zeros(2), "b": torch.ones(3), "step": 7}, tmp_path / "x.pt")
    save_file({"a": torch.zeros(2), "b": torch.ones(3)}, tmp_path / "x.safetensors")
    for suffix in ("npz", "pt", "safetensors"):
        path = f"{tmp_path}/x.{suffix}"
        assert load_tensor(f"{path}:b").tolist() == [1, 1, 1]
        with pytest.raises(TensorFileError, match=r"holds 2 tensors \(a, b\); give one as .*:NAME"):
            load_tensor(path)
        with pytest.raises(TensorFileError, match="expected one of a, b, got :c"):
            load_tensor(f"{path}:c")


def test_empty_arrays(tmp_path):
    for suffix in ("npy", "npz", "pt", "safetensors", "bin"):
        source = dump(torch.empty(2, 0, 4), tmp_path / f"x.{suffix}")
        read = load_tensor(source, dtype=limits_of("float32"), shape=(2, 0, 4))
        assert read.shape == (2, 0, 4)


class _Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_no_pickle_is_run(tmp_path, capsys):
    (tmp_path / "x.pt").write_bytes(pickle.dumps(_Evil()))
    torch.save({"x": _Evil()}, tmp_path / "y.pt")
    np.save(tmp_path / "x.npy", np.array([_Evil()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", out=np.array([_Evil()], dtype=object))
    capsys.readouterr()
    for name in ("x.pt", "y.pt", "x.npy", "x.npz"):
        with pytest.raises(TensorFileError):
            load_tensor(str(tmp_path / name))
    assert "must never run" not in capsys.readouterr().out


@pytest.mark.parametrize("suffix", ["npy", "npz", "pt", "safetensors"])
@pytest.mark.parametrize("content", ["empty", "garbage", "cut"])
def test_broken_files(tmp_path, suffix, content):
    path = tmp_path / f"x.{suffix}"
    dump(GOLDEN.float(), path)
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "garbage": b"\x93garbage" * 40, "cut": whole[: len(whole) // 2]}[content])
    with pytest.raises(TensorFileError, match=rf"x\.{suffix}"):
        load_tensor(str(path))


def test_missing_and_unknown_files(tmp_path):
    with pytest.raises(TensorFileError, match=r"gone\.npy: no such file"):
        load_tensor(str(tmp_path / "gone.npy"))
    with pytest.raises(TensorFileError, match=r"expected one of \.npy.*got \.txt"):
        load_tensor("x.txt")
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(TensorFileError, match="expected no name"):
        load_tensor(f"{tmp_path}/x.npy:a")
    with pytest.raises(TensorFileError, match=r"expected shape \[4\], got \[3\]"):
        load_tensor(str(tmp_path / "x.npy"), shape=(4,))


def test_bin_wants_dtype_and_shape(tmp_path):
    source = dump(GOLDEN.half(), tmp_path / "x.bin")
    with pytest.raises(TensorFileError, match="does not say its dtype; give --dtype"):
        load_tensor(source, shape=(384,))
    with pytest.raises(TensorFileError, match="does not say its shape; give --shape"):
        load_tensor(source, dtype=FP16)
    with pytest.raises(TensorFileError, match=r"expected 766 bytes for shape \[383\] of float16, got 768"):
        load_tensor(source, dtype=FP16, shape=(383,))


# --- comparisons -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("golden_dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_golden_in_a_bin_is_told_by_its_size(tmp_path, golden_dtype):
    actual = dump(GOLDEN.bfloat16(), tmp_path / "a.bin")
    golden = dump(GOLDEN.to(golden_dtype), tmp_path / "g.bin")
    judgement, acc = compare_files(actual, golden, dtype="bfloat16", shape=(4, 6, 16))
    assert judgement.verdict is Verdict.PASS
    expected = GOLDEN.to(golden_dtype).double()
    error = ((GOLDEN.bfloat16().double() - expected).abs() / (expected.abs() + 1e-7)).mean()
    assert acc.spec.mere == pytest.approx(float(error), rel=1e-12)


def test_raw_bits_on_both_sides(tmp_path):
    actual, golden = (dump(GOLDEN.bfloat16(), tmp_path / f"{name}.npy") for name in "ag")
    judgement, acc = compare_files(actual, golden, dtype="bfloat16")
    assert judgement.verdict is Verdict.PASS and acc.spec.mare == 0
    with pytest.raises(TensorFileError, match=r"a\.npy: holds uint16"):
        compare_files(actual, golden)
    # Compared as integers these two would be one apart; as bfloat16 they differ by half their value.
    np.save(tmp_path / "a.npy", np.array([0x3F80, 0x7F80], dtype=np.uint16))
    np.save(tmp_path / "g.npy", np.array([0x3F80, 0x7F7F], dtype=np.uint16))
    judgement, _ = compare_files(actual, golden, dtype="bfloat16")
    assert judgement.verdict is Verdict.FAIL
    judgement, _ = compare_files(actual, golden, dtype="bfloat16", saturate=True)
    assert judgement.verdict is Verdict.PASS


def test_shapes_are_compared_first(tmp_path):
    actual = dump(torch.zeros(0), tmp_path / "a.npy")
    golden = dump(torch.zeros(3), tmp_path / "g.npy")
    judgement, _ = compare_files(actual, golden)
    assert judgement.verdict is Verdict.FAIL and "actual [0], golden [3]" in judgement.reasons[0]
    assert judgement.cann_bench.deciding_region == "structure"
    judgement, _ = compare_files(actual, dump(torch.zeros(0), tmp_path / "g.npy"))
    assert judgement.verdict is Verdict.EMPTY


def test_native_reference_from_a_file(tmp_path):
    worse, native = GOLDEN.clone(), GOLDEN.clone()
    worse.view(-1)[:6] += 0.5
    native.view(-1)[:3] += 0.5
    actual, golden = dump(worse.half(), tmp_path / "a.pt"), dump(GOLDEN, tmp_path / "g.pt")
    assert compare_files(actual, golden)[0].verdict is Verdict.FAIL
    reference = dump(native.half(), tmp_path / "n.pt")
    judgement, _ = compare_files(actual, golden, reference)
    assert judgement.verdict is Verdict.PASS
    assert compare_files(actual, golden, reference, policy=Policy.BOTH)[0].verdict is Verdict.FAIL
    with pytest.raises(TensorFileError, match=r"n\.pt: expected shape \[4, 6, 16\], got \[3\]"):
        compare_files(actual, golden, dump(torch.zeros(3).half(), tmp_path / "n.pt"))


def test_parameter_and_lazy_negation(tmp_path):
    """A Parameter is what models hold; its values are compared, without a gradient in the way."""
    values = GOLDEN.bfloat16()
    torch.save(torch.nn.Parameter(values), tmp_path / "p.pt")
    torch.save({"a": torch.nn.Parameter(values), "b": values}, tmp_path / "many.pt")
    torch.save(GOLDEN.requires_grad_(), tmp_path / "g.pt")
    GOLDEN.requires_grad_(False)
    for source in ("p.pt", "many.pt:a"):
        judgement, _ = compare_files(str(tmp_path / source), str(tmp_path / "g.pt"), str(tmp_path / "p.pt"))
        assert judgement.verdict is Verdict.PASS
        assert not load_tensor(str(tmp_path / source)).requires_grad
    torch.save(torch._neg_view(values), tmp_path / "n.pt")
    assert torch.equal(load_tensor(str(tmp_path / "n.pt")), -values)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.empty(4, device="meta"), "expected a tensor with values, got a meta tensor"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "got a nested tensor"),
        (
            lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
            "nested|weights",
        ),
        (lambda: torch.ones(3).to_sparse(), "expected a dense tensor of real floats"),
        (lambda: torch.ones(3, dtype=torch.complex64), "expected a dense tensor of real floats"),
        (lambda: [torch.ones(3)], "expected a tensor or a mapping of tensors, got list"),
    ],
)
def test_tensors_without_plain_values(tmp_path, make, words):
    torch.save(make(), tmp_path / "t.pt")
    with pytest.raises(TensorFileError, match=words):
        load_tensor(str(tmp_path / "t.pt"))
