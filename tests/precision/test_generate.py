# SPDX-License-Identifier: Apache-2.0
"""Generated inputs are cann-bench's, drawn in chunks; shrunk and tail variants keep what they promise."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import torch
from ascend_sparse_attention.precision import generate as module
from ascend_sparse_attention.precision.cases import Case, bundled, load_cases, select_cases
from ascend_sparse_attention.precision.generate import (
    Indices,
    case_seed,
    generate,
    input_bytes,
    self_check,
    uniform,
    unique_indices,
)
from ascend_sparse_attention.selection import causal_limit

SMALL = Case("s", "BSND", "float16", B=2, S1=6, S2=96, N1=8, N2=2, Dk=128, Dv=64, topK=24, scale=0.1, seed_name="s")


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def public_case(number: int) -> Case:
    return select_cases(load_cases(bundled("public")), [str(number)])[0]


# query, key, value as cann-bench's own generator and get_input made them (checkout d59d44c, torch 2.13.0), and the
# float32 uniforms that its argsort reads at the chosen positions. Those uniforms, unlike the positions, do not depend
# on how the CPU's sort breaks ties; see test_ties_are_broken_as_torch_does.
CANN_BENCH_DIGESTS = {
    9: ("59e9b90bfea32619", "def724c86197b6e8", "def724c86197b6e8"),
    12: ("94e9f022b57b5b1c", "a5ffba7ccaa55edd", "a7615936ccb7d6fb"),
    16: ("925a0e824b39fc41", "9caa040b475b7cbf", "9caa040b475b7cbf"),
    19: ("68f2c015b2a5ec8b", "6511adfdb1a206a1", "6511adfdb1a206a1"),
}


@pytest.mark.parametrize("number", CANN_BENCH_DIGESTS)
def test_inputs_are_those_of_cann_bench(number):
    case = public_case(number)
    inputs = generate(case)
    assert tuple(map(digest, (inputs.query, inputs.key, inputs.value))) == CANN_BENCH_DIGESTS[number]
    assert inputs.query.shape == case.query_shape and inputs.key.shape == case.key_shape
    assert inputs.value.shape == case.value_shape and inputs.value.is_contiguous()
    assert inputs.sparseIndices.shape == case.indices_shape and inputs.sparseIndices.dtype == torch.int32
    groups = case.B * case.S1 * case.N2
    drawn = torch.rand(groups, case.S2, generator=torch.Generator().manual_seed(0))
    picked = drawn.gather(1, inputs.sparseIndices.reshape(groups, -1).long())
    assert torch.equal(picked, drawn.sort(dim=1).values[:, : case.topK])


def test_ties_are_broken_as_torch_does():
    drawn = torch.rand(40, 8192, generator=torch.Generator().manual_seed(0))
    assert any(row.unique().numel() < 8192 for row in drawn)
    assert torch.equal(unique_indices(40, 8192, 700), drawn.argsort(dim=1)[:, :700].int())


def test_chunks_do_not_show(monkeypatch):
    whole = generate(SMALL)
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 1000)
    chunked = generate(SMALL)
    for name in ("query", "key", "value", "sparseIndices"):
        assert torch.equal(getattr(whole, name), getattr(chunked, name))


def test_query_and_key_come_from_one_stream():
    inputs = generate(SMALL)
    generator = torch.Generator().manual_seed(case_seed("s"))
    for tensor in (inputs.query, inputs.key):
        drawn = torch.rand(tensor.shape, dtype=torch.float64, generator=generator) * 2 - 1
        assert torch.equal(tensor, drawn.half())
    assert torch.equal(inputs.value, inputs.key[..., :64])


def test_seed_of_a_case():
    # SHA-256 of the text, first 8 bytes, as cann-bench's evaluator computes it.
    first = int.from_bytes(hashlib.sha256(b"level4/sparse_flash_attention_1").digest()[:8], "big") % 2**31
    assert case_seed("level4/sparse_flash_attention_1") == first
    assert case_seed("level4/sparse_flash_attention_1", 5) == (first + 5) % 2**31
    one, other = generate(SMALL, seed=1), generate(SMALL)
    assert not torch.equal(one.query, other.query)
    assert torch.equal(one.sparseIndices, other.sparseIndices)  # cann-bench's own seed 0, whatever --eval-seed says


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
@pytest.mark.parametrize("indices", list(Indices))
def test_indices_are_unique_and_in_range(layout, indices):
    case = replace(SMALL, layout=layout)
    chosen = generate(case, indices=indices).sparseIndices
    assert chosen.shape == case.indices_shape and chosen.dtype == torch.int32
    assert int(chosen.min()) >= 0 and int(chosen.max()) < case.S2
    rows = chosen.reshape(-1, case.topK).sort(dim=1).values
    assert bool((rows[:, 1:] > rows[:, :-1]).all())


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_tail_makes_the_causal_mask_bite(layout):
    case = replace(SMALL, layout=layout, S1=64, is_causal=True)

    def masked(indices: Indices) -> torch.Tensor:
        chosen = generate(case, indices=indices).sparseIndices
        if layout == "BSND":
            chosen = chosen.transpose(1, 2)
        limit = torch.tensor([causal_limit(s1, case.S1, case.S2) for s1 in range(case.S1)])
        return (chosen > limit.view(1, 1, -1, 1)).float().mean(dim=(0, 1, 3))

    share = masked(Indices.TAIL)
    assert (share[:40] > 0.3).all() and (share[:40] < 0.7).all()
    assert share[-1] == 0
    assert masked(Indices.UNIFORM)[40] < share[40]


def test_all_keys_chosen():
    chosen = generate(replace(SMALL, topK=96), indices=Indices.TAIL).sparseIndices
    assert torch.equal(chosen.sort(dim=-1).values, torch.arange(96, dtype=torch.int32).expand_as(chosen))


@pytest.mark.parametrize("size", ["B", "S1"])
def test_empty_cases_generate(size):
    inputs = generate(replace(SMALL, **{size: 0}))
    assert inputs.query.numel() == 0
    self_check(inputs, replace(SMALL, **{size: 0}))


# --- value ranges (a generator once made all-False masks and ignored the range of all inputs but the first) ----------


def test_range_is_honoured_for_every_input():
    case = replace(SMALL, value_range=((2.0, 3.0), (-5.0, -4.0)))
    inputs = generate(case)
    assert 2 <= float(inputs.query.min()) < 2.1 and 2.9 < float(inputs.query.max()) <= 3
    assert -5 <= float(inputs.key.min()) < -4.9 and -4.1 < float(inputs.key.max()) <= -4
    assert "query [2" in self_check(inputs, case) and "key [-5" in self_check(inputs, case)


def test_equal_ends_draw_nothing():
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    assert torch.equal(uniform((4,), torch.float16, (0.5, 0.5), generator), torch.full((4,), 0.5).half())
    assert torch.equal(generator.get_state(), before)


def test_bool_and_integer_ranges():
    generator = torch.Generator().manual_seed(2)
    mask = uniform((1000,), torch.bool, (0, 1), generator)
    assert 300 < int(mask.sum()) < 700
    assert int(uniform((10,), torch.bool, (1, 1), generator).sum()) == 10
    numbers = uniform((1000,), torch.int32, (-3, 5), generator)
    assert sorted(set(numbers.tolist())) == list(range(-3, 6))


def test_range_is_clipped_to_the_dtype():
    drawn = uniform((1000,), torch.float16, (-1e6, 1e6), torch.Generator().manual_seed(3))
    assert bool(drawn.isfinite().all()) and float(drawn.max()) > 65000


def test_self_check_catches_a_broken_generator():
    inputs = generate(SMALL)
    with pytest.raises(RuntimeError, match=r"query: expected values in \[-1.0, 1.0\]"):
        self_check(replace(inputs, query=inputs.query * 2), SMALL)
    with pytest.raises(RuntimeError, match="key: expected values spread"):
        self_check(replace(inputs, key=torch.zeros_like(inputs.key)), SMALL)
    with pytest.raises(RuntimeError, match="sparseIndices"):
        self_check(replace(inputs, sparseIndices=inputs.sparseIndices + 96), SMALL)


def test_shrink_cuts_batch_and_queries_only():
    case = public_case(3)
    small = case.shrunk()
    assert (small.B, small.S1) == (2, 4)
    assert replace(small, S1=case.S1) == case
    decode = public_case(15).shrunk()
    assert (decode.B, decode.S1, decode.S2, decode.topK, decode.Dk) == (2, 1, 8192, 1024, 576)


def test_input_bytes():
    inputs = generate(SMALL)
    tensors = (inputs.query, inputs.key, inputs.value, inputs.sparseIndices)
    assert input_bytes(SMALL) == sum(t.numel() * t.element_size() for t in tensors)
