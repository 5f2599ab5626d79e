# SPDX-License-Identifier: Apache-2.0
"""packbits and segment_packbits against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from ascend_sparse_attention import packbits, segment_packbits


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 1000])
def test_packbits(n, bitorder):
    x = torch.rand(n, generator=torch.Generator().manual_seed(n)) < 0.5
    assert packbits(x, bitorder).tolist() == np.packbits(x.numpy(), bitorder=bitorder).tolist()
    assert packbits(x.int() * 3, bitorder).tolist() == packbits(x, bitorder).tolist()


def test_default_is_big():
    assert packbits(torch.tensor([1, 0, 0])).tolist() == [128]


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("lengths", [[], [0], [8], [3, 0, 13, 1], [7] * 20, [0, 0, 16, 0]])
def test_segment_packbits(lengths, bitorder):
    ends = np.cumsum([0, *lengths])
    x = torch.rand(int(ends[-1]), generator=torch.Generator().manual_seed(1)) < 0.5
    y, new_indptr = segment_packbits(x, torch.from_numpy(ends).int(), bitorder)
    pieces = [np.packbits(x.numpy()[a:b], bitorder=bitorder) for a, b in itertools.pairwise(ends)]
    assert y.tolist() == [byte for piece in pieces for byte in piece.tolist()]
    assert new_indptr.tolist() == np.cumsum([0, *(len(piece) for piece in pieces)]).tolist()
    assert y.dtype == torch.uint8 and new_indptr.dtype == torch.int32


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: packbits([1, 0]), TypeError, "x: expected a Tensor, got list"),
        (lambda: packbits(torch.ones(2, 2)), ValueError, r"Invalid shape of x: .* got \(2, 2\)"),
        (lambda: packbits(torch.ones(2), "bit"), ValueError, "bitorder: expected 'big' or 'little', got 'bit'"),
        (lambda: segment_packbits(torch.ones(4), torch.tensor([0, 5])), ValueError, r"from 0 to len\(x\) = 4"),
        (lambda: segment_packbits(torch.ones(4), torch.tensor([0, 3, 2, 4])), ValueError, "ascend"),
        (lambda: segment_packbits(torch.ones(4), torch.tensor([1, 4])), ValueError, "ascend"),
    ],
)
def test_refuses(call, error, words):
    with pytest.raises(error, match=words):
        call()
