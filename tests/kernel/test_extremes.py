# SPDX-License-Identifier: Apache-2.0
"""Scores at the edges of float32 and strides at the edges of the copies, against the CPU backend."""

from __future__ import annotations

import math

import pytest
import torch
from ascend_sparse_attention import sparse_flash_attention, twin

SCHEDULES = ("gather", "gather_split_k")


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def both(*call: object, schedule: str | None = None) -> tuple[torch.Tensor, ...]:
    """(out, lse) of the twin, then of the CPU backend, all float32."""
    run = twin.run(*call, return_lse=True, schedule=schedule)  # type: ignore[arg-type]
    assert run.findings == []
    out, lse = sparse_flash_attention(*call, backend="cpu", return_lse=True)  # type: ignore[call-overload]
    assert run.lse is not None
    return run.out.float(), run.lse, out.float(), lse


def same(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("scale", [1e8, 1e9, 3e9, -1e10, 1e20, -1e30])
def test_scale_beyond_the_precision_of_scaled_scores(schedule: str, scale: float) -> None:
    q, k = draw(1, 1, 2, 4, 64), draw(2, 1, 320, 1, 64)
    indices = torch.stack([torch.randperm(320, generator=torch.Generator().manual_seed(i))[:256] for i in range(2)])
    out, lse, want, want_lse = both(q, k, k, indices.int().view(1, 2, 1, 256), scale, schedule=schedule)
    assert out.isfinite().all()
    # At such scales the largest score takes all.
    same(out, want, 1e-3)
    same(lse / scale, want_lse / scale, 1e-5)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_scores_whose_scaled_maximum_is_rounded_by_more_than_exp_can_bear(schedule: str) -> None:
    q = torch.full((1, 1, 4, 128), 20000.0).half()
    k = torch.full((1, 256, 1, 128), 20000.0).half()
    v = draw(3, 1, 256, 1, 128)
    out, lse, want, want_lse = both(q, k, v, torch.arange(256).int().view(1, 1, 1, -1), 128**-0.5, schedule=schedule)
    same(out, want, 1e-3)
    assert torch.allclose(lse, want_lse, rtol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("first", [0, 128])
def test_infinitely_low_scores_of_one_part(schedule: str, sign: int, first: int) -> None:
    q = torch.ones(1, 1, 4, 64).half()
    k = draw(4, 1, 256, 1, 64)
    k[0, first : first + 128, 0, 0] = -math.inf * sign
    v = draw(5, 1, 256, 1, 64)
    indices = torch.arange(256).int().view(1, 1, 1, -1)
    out, lse, want, want_lse = both(q, k, v, indices, 0.125 * sign, schedule=schedule)
    assert want.isfinite().all()
    same(out, want, 2e-3)
    same(lse, want_lse, 1e-5)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_infinitely_low_scores_everywhere(schedule: str) -> None:
    q = torch.ones(1, 1, 2, 64).half()
    k = draw(6, 1, 256, 1, 64)
    k[..., 0] = -math.inf
    out, lse, want, want_lse = both(
        q, k, draw(7, 1, 256, 1, 64), torch.arange(256).int().view(1, 1, 1, -1), 0.125, schedule=schedule
    )
    same(out, want, 0)
    same(lse, want_lse, 0)


@pytest.mark.parametrize("scale", [4.8e36, 0.0, -4.8e36])
def test_an_empty_part_beside_very_low_scores(scale: float) -> None:
    q, k = -torch.ones(1, 1, 1, 64).half(), torch.ones(1, 256, 1, 64).half()
    indices = torch.arange(256).int().view(1, 1, 1, -1).clone()
    indices[..., 128:] = -1
    v = draw(8, 1, 256, 1, 64)
    out, _, want, _ = both(q, k, v, indices, scale, schedule="gather_split_k")
    same(out, want, 1e-3)


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
@pytest.mark.parametrize("heads", [1, 4, 16, 24])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_query_row_expanded_over_the_heads(layout: str, heads: int, schedule: str) -> None:
    head = 2 if layout == "BSND" else 1
    q = draw(9, 2, 1, 1, 64).expand(*(heads if d == head else -1 for d in range(4)))
    assert q.stride(head) == 0 or heads == 1
    k = draw(10, 2, 1, 256, 64) if layout == "BNSD" else draw(10, 2, 256, 1, 64)
    indices = torch.arange(256).flip(0).int().view(1, 1, 1, -1).expand(2, 1, 1, 256)
    out, lse, want, want_lse = both(q, k, k, indices, 0.125, layout, schedule=schedule)
    same(out, want, 2e-3)
    same(lse, want_lse, 1e-4)


@pytest.mark.parametrize("stride", [0, 3, 64, 70001])
def test_a_single_head_of_any_stride(stride: int) -> None:
    q = torch.as_strided(draw(11, 1 << 18), (1, 2, 1, 64), (0, 128, stride, 1))
    k = draw(12, 1, 64, 1, 64)
    out, lse, want, want_lse = both(q, k, k, torch.arange(8).int().view(1, 1, 1, 8).expand(1, 2, 1, 8), 0.125)
    same(out, want, 2e-3)
    same(lse, want_lse, 1e-4)
