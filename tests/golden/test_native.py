# SPDX-License-Identifier: Apache-2.0
"""The native reference: the bits of the whole-tensor steps in the io dtype, and of cann-bench's own run of them."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import pytest
import torch
from ascend_sparse_attention.golden import iter_blocks, iter_native_blocks, native, native_reference
from ascend_sparse_attention.golden import sparse_flash_attention as golden
from golden_inputs import call, with_indices

INF, NAN = math.inf, math.nan

#: Kinds of shape that take torch through different products: batches merge or not, one head or many, long chains.
SHAPES = {
    "one-pair": dict(B=1, S1=3, S2=301, N1=4, N2=1, Dk=128, Dv=128, topK=100),
    "bsnd-key-copied": dict(B=2, S1=3, S2=303, N1=8, N2=2, Dk=192, Dv=128, topK=64),
    "bnsd": dict(B=2, S1=3, S2=302, N1=8, N2=2, Dk=192, Dv=128, topK=64, layout="BNSD"),
    "decode": dict(B=3, S1=1, S2=512, N1=8, N2=2, topK=128),
    "decode-bnsd": dict(B=3, S1=1, S2=512, N1=8, N2=2, topK=128, layout="BNSD"),
    "one-head": dict(B=2, S1=4, S2=100, N1=2, N2=2, topK=40),
    "one-head-decode": dict(B=1, S1=1, S2=100, N1=1, N2=1, topK=40),
    "long-chains": dict(B=1, S1=2, S2=1203, N1=5, N2=1, topK=1000),
    "wide-group": dict(B=1, S1=2, S2=400, N1=64, N2=1, Dk=576, Dv=512, topK=128),
    "causal": dict(B=2, S1=9, S2=64, N1=4, N2=2, topK=32, causal=True),
    "causal-bnsd": dict(B=2, S1=9, S2=65, N1=4, N2=2, topK=32, causal=True, layout="BNSD"),
    "every-key": dict(B=1, S1=3, S2=37, N1=3, N2=1, topK=37),
    "one-key": dict(B=1, S1=3, S2=37, N1=3, N2=1, topK=1),
}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def whole_tensor_steps(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    indices: torch.Tensor,
    scale: float,
    layout: str,
    causal: bool,
) -> torch.Tensor:
    """The recipe on all S2 columns and all batches at once, every step stored in the io dtype."""
    q, k, v, idx = (t.transpose(1, 2) if layout == "BSND" else t for t in (query, key, value, indices))
    B, N1, S1, Dk = q.shape
    N2, S2 = k.shape[1:3]
    keep = torch.zeros(B, N2, S1, S2, dtype=torch.bool).scatter_(-1, idx.long(), True)
    if causal:
        keep &= torch.arange(S2) <= torch.arange(S1)[:, None] + (S2 - S1)
    x = torch.einsum("bngsd,bnkd->bngsk", q.reshape(B, N2, N1 // N2, S1, Dk), k) * scale
    x = x.masked_fill(~keep.unsqueeze(2), -INF)
    peak = x.max(dim=-1, keepdim=True).values
    x = (x - peak).exp()
    x = torch.where(peak == -INF, torch.zeros_like(x), x / x.sum(dim=-1, keepdim=True))
    out = torch.einsum("bngsk,bnkd->bngsd", x, v).reshape(B, N1, S1, -1)
    return (out.transpose(1, 2) if layout == "BSND" else out).contiguous()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shared", [True, False])
def test_bits_of_the_whole_tensor_steps(shape: str, dtype: str, shared: bool) -> None:
    args = call(**SHAPES[shape], dtype=DTYPES[dtype], shared=shared)
    got = native_reference(*args)
    assert got.dtype == DTYPES[dtype] and got.is_contiguous()
    assert torch.equal(got, whole_tensor_steps(*args))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_both_methods_give_the_same_bits_where_compact_is_offered(shape: str, dtype: str) -> None:
    args = call(**SHAPES[shape], dtype=DTYPES[dtype])
    auto = native_reference(*args)
    assert torch.equal(native_reference(*args, method="literal"), auto)
    methods = {block.method for block in iter_native_blocks(*args)}
    assert len(methods) == 1 and methods <= {"compact", "literal"}


def test_value_as_view_of_key_gives_the_same_bits() -> None:
    q, k, v, idx, *rest = call(B=2, S1=3, S2=101, N1=8, N2=2, Dk=192, Dv=128, topK=40)
    assert torch.equal(native_reference(q, k, k[..., :128], idx, *rest), native_reference(q, k, v, idx, *rest))


@pytest.mark.parametrize("method", ["compact", "literal"])
@pytest.mark.parametrize("bits", [18, 20, 24])
def test_the_memory_bound_does_not_change_the_bits(method: str, bits: int) -> None:
    args = call(B=2, S1=40, S2=200, N1=8, N2=2, topK=50, causal=True)
    expected = native_reference(*args, method=method)
    assert torch.equal(native_reference(*args, method=method, memory_limit_bytes=(1 << bits) + 400_000), expected)


def test_blocks_match_the_goldens_blocks() -> None:
    args = call(B=2, S1=70, S2=80, N1=4, N2=2, topK=8)
    limit = 1 << 20
    ours = list(iter_native_blocks(*args, memory_limit_bytes=limit))
    theirs = list(iter_blocks(*args, memory_limit_bytes=limit))
    assert len(ours) > 4 and [block.index for block in ours] == [block.index for block in theirs]
    for a, b in zip(ours, theirs):
        assert a.out.shape == b.out.shape
        torch.testing.assert_close(a.out.double(), b.out, rtol=0, atol=4e-3)


@pytest.mark.parametrize("method", ["compact", "literal"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_its_error_is_that_of_the_io_dtype(method: str, dtype: str) -> None:
    """Near the golden, but visibly not float32 throughout."""
    args = call(B=2, S1=8, S2=512, N1=8, N2=2, topK=256, dtype=DTYPES[dtype])
    error = (native_reference(*args, method=method).double() - golden(*args).out).abs().max().item()
    eps = torch.finfo(DTYPES[dtype]).eps
    assert eps / 64 < error < 2 * eps


@pytest.mark.parametrize("method", ["compact", "literal"])
def test_repeats_count_and_bad_indices_do_not(method: str) -> None:
    rows = [[3, 3, 3, 1], [2, -1, 99, 5], [-1, -1, 8, 9], [0, 1, 2, 3]]
    args = with_indices(call(S1=4, S2=8, topK=4), rows)
    got = native_reference(*args, method=method)
    torch.testing.assert_close(got.double(), golden(*args).out, rtol=0, atol=2e-3)
    assert torch.equal(got[0, 2], torch.zeros_like(got[0, 2]))


def test_unselected_keys_never_touch_compact() -> None:
    args = call(S1=3, S2=64, topK=20, N1=4, shared=False)
    args[3][args[3] == 0] = -1  # key 0 is what a hole in a chain reads
    clean = native_reference(*args, method="compact")
    unused = torch.ones(64, dtype=torch.bool)
    unused[args[3][args[3] >= 0].long()] = False
    assert bool(unused[0])
    for tensor in args[1:3]:
        tensor[0, unused] = NAN
    assert torch.equal(native_reference(*args, method="compact"), clean)


def test_overflow_of_the_io_dtype_is_kept() -> None:
    """Scores beyond 65504 are inf in float16, and the row NaN: that is what the io dtype does."""
    q, k, v, idx, *_ = call(S1=2, S2=16, topK=8)
    args = (q, k, v, idx, 3e5, "BSND", False)
    assert torch.equal(native_reference(*args).isnan(), whole_tensor_steps(*args).isnan())
    assert bool(native_reference(*args).isnan().any())


def test_a_machine_on_which_compact_is_not_exact_gets_literal(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = native.compact_rows

    def off_by_one_rounding(*args: torch.Tensor) -> torch.Tensor:
        out = honest(*args)
        out[0, 0, 0] *= 1 + torch.finfo(out.dtype).eps
        return out

    monkeypatch.setattr(native, "_proofs", {})
    monkeypatch.setattr(native, "compact_rows", off_by_one_rounding)
    args = call(S1=2, S2=301, topK=100)
    assert {block.method for block in iter_native_blocks(*args)} == {"literal"}
    assert torch.equal(native_reference(*args), whole_tensor_steps(*args))


@pytest.mark.parametrize("dtype", DTYPES)
def test_indices_crowded_into_one_chain(dtype: str) -> None:
    q, k, v, idx, *rest = call(S1=9, S2=1024, N1=6, topK=220, dtype=DTYPES[dtype])
    idx[:, 2:7] = torch.arange(3, 880 + 3, 4, dtype=torch.int32)[:, None].T
    args = (q, k, v, idx, *rest)
    assert torch.equal(native_reference(*args, method="auto"), whole_tensor_steps(*args))


@pytest.mark.parametrize(("B", "S1"), [(0, 3), (2, 0)])
def test_empty_output(B: int, S1: int) -> None:
    args = call(B=B, S1=S1)
    assert native_reference(*args).shape == args[0].shape


def test_bad_arguments() -> None:
    args = call()
    with pytest.raises(ValueError, match="method: expected one of auto, compact, literal, got 'fast'"):
        iter_native_blocks(*args, method="fast")
    with pytest.raises(ValueError, match="memory_limit_bytes: expected at least"):
        iter_native_blocks(*args, memory_limit_bytes=1000)


#: sha256 (first 16 digits) of what cann-bench's golden.py (checkout d59d44c) returned for these calls, under torch
#: 2.13.0 on an x86 CPU with AVX2 and no AVX-512. Other kernels of torch round elsewhere.
RECORDED: dict[tuple[str, str], str] = {
    ("one-pair", "fp16"): "f174ae06ac16c4ce",
    ("one-pair", "bf16"): "2bd19e98f37bc287",
    ("bsnd-key-copied", "fp16"): "7510ff07ed665875",
    ("bsnd-key-copied", "bf16"): "25ce12862a2320d5",
    ("bnsd", "fp16"): "143886c6e5b4bf78",
    ("bnsd", "bf16"): "749e3398feadec9e",
    ("decode", "fp16"): "b769416c0c1beee1",
    ("decode", "bf16"): "8d7598cd68a3098b",
    ("decode-bnsd", "fp16"): "d708a3790407f7d9",
    ("decode-bnsd", "bf16"): "8d7598cd68a3098b",
    ("one-head", "fp16"): "84ae35af530af37b",
    ("one-head", "bf16"): "2949ad88b535d484",
    ("one-head-decode", "fp16"): "5f5b19820e4ddc9b",
    ("one-head-decode", "bf16"): "7bad0adedc5aeaae",
    ("long-chains", "fp16"): "86ab49a444f1e3ba",
    ("long-chains", "bf16"): "321ad004b7eaf967",
    ("wide-group", "fp16"): "183f01d81a29a43a",
    ("wide-group", "bf16"): "54220a4a596a8c1b",
    ("causal", "fp16"): "b60b7fcd62252254",
    ("causal", "bf16"): "1962181da4fedb30",
    ("causal-bnsd", "fp16"): "a27056d8af7a2ca5",
    ("causal-bnsd", "bf16"): "a711cb1578dc0a0d",
    ("every-key", "fp16"): "70d8b97bbb69febb",
    ("every-key", "bf16"): "970ab878210277a7",
    ("one-key", "fp16"): "42a7e82038a74772",
    ("one-key", "bf16"): "ae44b04442ccc044",
}


CPUINFO = Path("/proc/cpuinfo")
AMD = CPUINFO.exists() and "AuthenticAMD" in CPUINFO.read_text()


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().view(torch.int16).numpy().tobytes()).hexdigest()[:16]


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX2" or not torch.__version__.startswith("2.13."),
    reason="recorded with torch 2.13 on an AVX2 CPU",
)
@pytest.mark.parametrize(("shape", "dtype"), RECORDED)
def test_bits_recorded_from_cann_bench(shape: str, dtype: str) -> None:
    args = call(**SHAPES[shape], dtype=DTYPES[dtype])
    assert digest(native_reference(*args)) == RECORDED[shape, dtype]
    assert digest(native_reference(*args, method="literal")) == RECORDED[shape, dtype]


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX2" or not torch.__version__.startswith("2.13.") or not AMD,
    reason="compact is known to be exact with torch 2.13 and its MKL on an AMD CPU with AVX2 alone",
)
@pytest.mark.parametrize(("shape", "dtype"), RECORDED)
def test_compact_is_what_auto_takes_there(shape: str, dtype: str) -> None:
    """By name: auto falls back to literal, and would hide a fault of compact."""
    args = call(**SHAPES[shape], dtype=DTYPES[dtype])
    assert {block.method for block in iter_native_blocks(*args)} == {"compact"}
    assert digest(native_reference(*args, method="compact")) == RECORDED[shape, dtype]
