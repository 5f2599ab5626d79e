# SPDX-License-Identifier: Apache-2.0
"""The dense goldens of block-sparse and variable-block attention."""

from __future__ import annotations

import math

import golden_loops
import pytest
import torch
from ascend_sparse_attention.golden.dense import Logits, block_sparse, single_prefill, variable_block_sparse
from test_dense_prefill import agree, pack, qkv

INF = math.inf


def bsr(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """indptr and indices of a block matrix whose row i holds the blocks rows[i]."""
    ptr = [0]
    for row in rows:
        ptr.append(ptr[-1] + len(row))
    return torch.tensor(ptr, dtype=torch.int32), torch.tensor([b for row in rows for b in row], dtype=torch.int32)


def loops(rows: list[list[int]], R: int, C: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **kw) -> tuple:
    """Block row by block row through the loop reference; `keep` sees (block row, local i, local j, rows, columns)."""
    keep = kw.pop("keep", lambda r, i, j, n, m: True)
    parts = []
    for r, blocks in enumerate(rows):
        columns = [b * C + c for b in blocks for c in range(C)]
        part = q[r * R : (r + 1) * R]
        n, m = part.shape[0], len(columns)
        parts.append(
            golden_loops.prefill(part, k[columns], v[columns], lambda i, j, r=r, n=n, m=m: keep(r, i, j, n, m), **kw)
        )
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])


# B5: the documented example
def test_documented_block_example_equals_the_dense_mask() -> None:
    q, k, v = qkv(3, 3, Hq=8, Hkv=2)
    indptr, indices = bsr([[2], [0, 2], [1, 2]])
    mask = torch.tensor([[0, 0, 1], [1, 0, 1], [0, 1, 1]]).bool()
    agree(block_sparse(indptr, indices, 1, 1, q, k, v), single_prefill(q, k, v, custom_mask=mask))


ROWS = [[2, 0], [1], [], [3, 1, 0]]


@pytest.mark.parametrize("mode", ["NONE", "ROPE_LLAMA", "ALIBI"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("M", [8, 7])
def test_agrees_with_loops_in_local_coordinates(mode: str, causal: bool, M: int) -> None:
    q, k, v = qkv(M, 12)
    logits = Logits(pos_encoding_mode=mode, logits_soft_cap=5.0, sm_scale=0.3)
    got = block_sparse(*bsr(ROWS), 2, 3, q, k, v, causal=causal, logits=logits)
    expected = loops(
        ROWS, 2, 3, q, k, v, mode=mode, cap=5.0, sm_scale=0.3,
        keep=lambda r, i, j, n, m: not causal or j + n <= m + i,
    )  # fmt: skip
    agree(got, expected)
    assert torch.equal(got[0][4:6], torch.zeros_like(got[0][4:6])) and bool((got[1][4:6] == -INF).all())


def test_causal_masks_nothing_with_single_rows() -> None:
    q, k, v = qkv(4, 12)
    agree(block_sparse(*bsr(ROWS), 1, 3, q, k, v, causal=True), block_sparse(*bsr(ROWS), 1, 3, q, k, v))


# B13
def test_block_masks_stand_in_the_order_of_indices() -> None:
    q, k, v = qkv(2, 9)
    mask = torch.tensor([[[1, 0, 0], [0, 1, 1]], [[0, 1, 1], [1, 0, 1]]]).bool()  # blocks 2 and 0
    whole = torch.zeros(2, 9).bool()
    whole[:, 6:9], whole[:, 0:3] = mask[0], mask[1]
    got = block_sparse(*bsr([[2, 0]]), 2, 3, q, k, v, mask=mask)
    agree(got, single_prefill(q, k, v, custom_mask=whole))
    agree(block_sparse(*bsr([[0, 2]]), 2, 3, q, k, v, mask=mask.flip(0)), got)


@pytest.mark.parametrize("M", [8, 7])
def test_packed_block_masks_are_padded_to_bytes_row_by_row(M: int) -> None:
    R, C = 2, 3
    q, k, v = qkv(M, 12)
    indptr, indices = bsr(ROWS)
    mask = torch.rand(6, R, C, generator=torch.Generator().manual_seed(3)) < 0.6
    packed = []
    for r in range(4):
        rows = min(R, M - r * R)
        part = mask[indptr[r] : indptr[r + 1]]
        bits = [bool(part[b, i, c]) for i in range(rows) for b in range(part.shape[0]) for c in range(C)]
        packed.append(pack(torch.tensor(bits, dtype=torch.bool)))
    got = block_sparse(indptr, indices, R, C, q, k, v, packed_mask=torch.cat(packed), mask=~mask, causal=True)
    agree(got, block_sparse(indptr, indices, R, C, q, k, v, mask=mask))
    agree(got, loops(ROWS, R, C, q, k, v, keep=lambda r, i, j, n, m: bool(mask[int(indptr[r]) + j // C, i, j % C])))


# B14
def test_partial_last_block_row_and_ragged_columns() -> None:
    q, k, v = qkv(5, 6)
    rows = [[0], [2, 1], [1]]
    agree(block_sparse(*bsr(rows), 2, 2, q, k, v), loops(rows, 2, 2, q, k, v))
    with pytest.raises(ValueError, match="N: expected a multiple of C = 2, got 5"):
        block_sparse(*bsr(rows), 2, 2, q, k[:5], v[:5])


def test_a_repeated_block_counts_twice() -> None:
    q, k, v = qkv(2, 4)
    twice = block_sparse(*bsr([[0, 0, 1]]), 2, 2, q, k, v)
    agree(twice, single_prefill(q, k[[0, 1, 0, 1, 2, 3]], v[[0, 1, 0, 1, 2, 3]]))
    assert not torch.allclose(twice[0], block_sparse(*bsr([[0, 1]]), 2, 2, q, k, v)[0])


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 1, 2], [0, 2], r"indices: expected values in \[0, 2\), got 2 at position 1"),
        ([0, 1, 2], [-1, 0], r"indices: expected values in \[0, 2\), got -1 at position 0"),
        ([0, 2, 1], [0, 1], "indptr: expected 3 ascending values"),
        ([0, 1, 1], [0, 1], "indptr: expected 3 ascending values from 0 to nnz = 2"),
        ([0, 2], [0, 1], "indptr: expected 3 ascending values"),
    ],
)
def test_a_malformed_matrix_is_refused(indptr: list[int], indices: list[int], message: str) -> None:
    q, k, v = qkv(4, 4)
    with pytest.raises(ValueError, match=message):
        block_sparse(torch.tensor(indptr), torch.tensor(indices), 2, 2, q, k, v)


def test_no_block_at_all_gives_zeros() -> None:
    q, k, v = qkv(4, 4)
    out, lse = block_sparse(*bsr([[], []]), 2, 2, q, k, v)
    assert torch.equal(out, torch.zeros(4, 4, 16, dtype=torch.float64)) and bool((lse == -INF).all())
    out, lse = block_sparse(torch.tensor([0]), torch.tensor([], dtype=torch.int32), 2, 2, q[:0], k, v)
    assert out.shape == (0, 4, 16) and lse.shape == (0, 4)


def variable(Hq: int, Hkv: int, qo: int, kv: int, Dvo: int = 16) -> tuple:
    q, k, v = qkv(qo, kv, Hq, Hkv, Dvo=Dvo)
    return tuple(t.transpose(0, 1).contiguous() for t in (q, k, v))


# B5
def test_documented_variable_block_example() -> None:
    q, k, v = variable(1, 1, 6, 6)
    block_map = torch.tensor([[[0, 0, 1], [1, 0, 1], [0, 1, 1]]]).bool()
    rows, columns = torch.tensor([[1, 2, 3]]), torch.tensor([[3, 1, 2]])
    mask = block_map[0].repeat_interleave(rows[0], 0).repeat_interleave(columns[0], 1)
    out, lse = variable_block_sparse(block_map, rows, columns, q, k, v)
    expected = single_prefill(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), custom_mask=mask)
    agree((out.transpose(0, 1), lse.T), expected)


@pytest.mark.parametrize("mode", ["NONE", "ROPE_LLAMA", "ALIBI"])
@pytest.mark.parametrize("causal", [False, True])
def test_variable_blocks_agree_with_loops(mode: str, causal: bool) -> None:
    Hq, Hkv = 6, 2
    q, k, v = variable(Hq, Hkv, 7, 9)
    block_map = torch.tensor([[[1, 0, 1], [0, 0, 0], [1, 1, 0]], [[0, 1, 0], [1, 1, 1], [0, 0, 1]]]).bool()
    rows, columns = torch.tensor([[2, 1, 4], [0, 5, 2]]), torch.tensor([[3, 4, 2], [1, 0, 8]])
    got = variable_block_sparse(
        block_map, rows, columns, q, k, v, causal=causal, logits=Logits(pos_encoding_mode=mode, rope_theta=50.0)
    )
    out, lse = torch.full_like(got[0], math.nan), torch.full_like(got[1], math.nan)
    for hk in range(Hkv):
        first = 0
        for r, height in enumerate(rows[hk].tolist()):
            edges = [0, *columns[hk].cumsum(0).tolist()]
            chosen = [j for c in range(3) if block_map[hk, r, c] for j in range(edges[c], edges[c + 1])]
            # All query heads, so that ALiBi sees their number; the other key head's are dropped.
            part = golden_loops.prefill(
                q[:, first : first + height].transpose(0, 1),
                k[:, chosen].transpose(0, 1),
                v[:, chosen].transpose(0, 1),
                lambda i, j, gap=len(chosen) - height: not causal or j <= gap + i,  # noqa: B008
                mode=mode,
                rope_theta=50.0,
            )
            heads = slice(hk * 3, hk * 3 + 3)
            out[heads, first : first + height] = part[0].transpose(0, 1)[heads]
            lse[heads, first : first + height] = part[1].T[heads]
            first += height
    agree(got, (out, lse))


# B15
def test_nothing_selected_and_zero_size_blocks() -> None:
    q, k, v = variable(2, 1, 1, 4)
    one = torch.tensor([[1]]), torch.tensor([[4]])
    out, lse = variable_block_sparse(torch.zeros(1, 1, 1).bool(), *one, q, k, v)
    assert torch.equal(out, torch.zeros_like(out)) and bool((lse == -INF).all())
    padded = variable_block_sparse(
        torch.tensor([[[1, 1, 1], [1, 1, 1]]]).bool(), torch.tensor([[0, 1]]), torch.tensor([[0, 4, 0]]), q, k, v
    )
    agree(padded, variable_block_sparse(torch.ones(1, 1, 1).bool(), *one, q, k, v))


def test_sizes_must_add_up_in_every_head() -> None:
    q, k, v = variable(2, 2, 4, 4)
    full = torch.ones(2, 2, 2).bool()
    good, bad = torch.tensor([[1, 3], [2, 2]]), torch.tensor([[1, 3], [2, 1]])
    with pytest.raises(ValueError, match=r"block_row_sz: expected sizes >= 0 that sum to 4 in every head.*\[4, 3\]"):
        variable_block_sparse(full, bad, good, q, k, v)
    with pytest.raises(ValueError, match="block_col_sz: expected sizes >= 0 that sum to 4"):
        variable_block_sparse(full, good, torch.tensor([[5, -1], [2, 2]]), q, k, v)


def test_masked_blocks_never_touch_the_result() -> None:
    q, k, v = qkv(4, 6)
    clean = block_sparse(*bsr([[0], [2]]), 2, 2, q, k, v)
    k[2:4], v[2:4] = math.nan, INF
    agree(block_sparse(*bsr([[0], [2]]), 2, 2, q, k, v), clean)
