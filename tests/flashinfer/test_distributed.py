# SPDX-License-Identifier: Apache-2.0
"""DTensor sharding and context parallelism on two CPU ranks (gloo), each against the same call on one."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from ascend_sparse_attention import merge_state, merge_states, sparse_flash_attention

WORLD = 2


def inputs(B=2, S1=4, S2=24, N1=4, N2=2, layout="BSND", Dk=64, topK=8):
    g = torch.Generator().manual_seed(7)

    def rand(length, heads):
        shape = (B, length, heads, Dk) if layout == "BSND" else (B, heads, length, Dk)
        return torch.randn(shape, generator=g).half()

    lead = (B, S1, N2) if layout == "BSND" else (B, N2, S1)
    indices = torch.rand(*lead, S2, generator=g).argsort(-1)[..., :topK].int()
    return rand(S1, N1), rand(S2, N2), rand(S2, N2), indices


# (name, sizes, layout, causal, placements of query / key / value / indices by name, expected placement of the output)
SPLITS = {
    "batch": (dict(B=4), "BSND", True, ("batch",) * 4, "batch"),
    "batch, uneven": (dict(B=3), "BNSD", True, ("batch",) * 4, "batch"),
    "heads BSND": (dict(N1=8, N2=2), "BSND", True, ("heads",) * 4, "heads"),
    "heads BNSD": (dict(N1=4, N2=4), "BNSD", False, ("heads",) * 4, "heads"),
    "one key head": (dict(N1=6, N2=1), "BSND", True, ("heads", "whole", "whole", "whole"), "heads"),
    "positions": (dict(S1=6), "BSND", False, ("seq", "whole", "whole", "seq"), "seq"),
}
# Splits that the op can't take as they are: DTensor must redistribute, and the result must still be right.
AWKWARD = {
    "three key heads on two ranks": (dict(N1=6, N2=3), "BSND", False, ("heads",) * 4),
    "positions under causal": (dict(S1=6), "BSND", True, ("seq", "whole", "whole", "seq")),
    "keys": (dict(), "BNSD", True, ("whole", "seq", "seq", "whole")),
}


def _rank(rank, store, failures):
    import ascend_sparse_attention.distributed  # noqa: F401
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    try:
        mesh = init_device_mesh("cpu", (WORLD,))
        for name, (sizes, layout, causal, placed, *expected) in {**SPLITS, **AWKWARD}.items():
            dims = {"batch": 0, "seq": 1, "heads": 2} if layout == "BSND" else {"batch": 0, "heads": 1, "seq": 2}
            tensors = inputs(layout=layout, **sizes)
            whole, whole_lse = sparse_flash_attention(*tensors, 0.125, layout, causal, return_lse=True)
            spread = [
                distribute_tensor(t, mesh, [Shard(dims[p]) if p in dims else Replicate()])
                for t, p in zip(tensors, placed)
            ]
            out, lse = sparse_flash_attention(*spread, 0.125, layout, causal, return_lse=True)
            alone = sparse_flash_attention(*spread, 0.125, layout, causal)
            if expected and out.placements != (Shard(dims[expected[0]]),):
                failures.put(f"{name}: output placed as {out.placements}")
            for what, got, want in (("out", out, whole), ("lse", lse, whole_lse), ("out alone", alone, whole)):
                try:
                    torch.testing.assert_close(got.full_tensor(), want, rtol=2e-3, atol=1e-4)
                except AssertionError as error:
                    failures.put(f"{name}, {what}, rank {rank}: {error}")

        # Context parallelism: each rank has half of the keys, and merges both ranks' (out, LSE).
        query, key, value, indices = inputs(B=1)
        half = key.shape[1] // WORLD
        local = indices - rank * half
        mine = sparse_flash_attention(
            query, key[:, rank * half :][:, :half], value[:, rank * half :][:, :half], local, 0.125, return_lse=True
        )
        outs, lses = ([torch.empty_like(t) for _ in range(WORLD)] for t in mine)
        dist.all_gather(outs, mine[0])
        dist.all_gather(lses, mine[1])
        want = sparse_flash_attention(query, key, value, indices, 0.125, return_lse=True)
        pair = merge_state(outs[0], lses[0], outs[1], lses[1])
        stacked = merge_states(torch.stack(outs, 1), torch.stack(lses, 1))
        for what, merged in (("merge_state", pair), ("merge_states", stacked)):
            for got, expected in zip(merged, want):
                if not torch.allclose(got.float(), expected.float(), rtol=2e-3, atol=2e-3):
                    failures.put(f"{what}, rank {rank}: off by {(got.float() - expected.float()).abs().max()}")
    except Exception as error:
        failures.put(f"rank {rank}: {error!r}")
        raise
    finally:
        dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available(), reason="torch without distributed")
def test_two_ranks(tmp_path):
    context = mp.get_context("spawn")
    failures = context.Queue()
    mp.spawn(_rank, args=(str(tmp_path / "store"), failures), nprocs=WORLD)
    found = []
    while not failures.empty():
        found.append(failures.get())
    assert not found, "\n".join(found)


def test_merge_state_is_softmax_over_both_parts():
    g = torch.Generator().manual_seed(0)
    logits, v = torch.randn(5, 3, 40, generator=g).double() * 4, torch.randn(40, 8, generator=g).double()

    def part(keys):
        x = logits[..., keys]
        return (x.softmax(-1) @ v[keys]).float(), (torch.logsumexp(x, -1) / math.log(2)).float()

    want = part(slice(0, 40))
    a, b, c = part(slice(0, 7)), part(slice(7, 8)), part(slice(8, 40))
    got = merge_state(*merge_state(*a, *b), *c)
    many = merge_states(torch.stack([a[0], b[0], c[0]], 1), torch.stack([a[1], b[1], c[1]], 1))
    for result in (got, many):
        torch.testing.assert_close(result[0], want[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(result[1], want[1], rtol=1e-5, atol=1e-5)


def test_merge_state_of_nothing():
    v = torch.full((2, 4), float("nan"))
    empty, full = torch.full((2,), -math.inf), torch.tensor([-2000.0, 3.0])
    out, lse = merge_state(v, empty, torch.ones(2, 4), full)  # what saw nothing is not looked at
    assert torch.equal(out, torch.ones(2, 4)) and torch.equal(lse, full)
    out, lse = merge_state(v, empty, v, empty)
    assert torch.equal(out, torch.zeros(2, 4)) and torch.equal(lse, empty)
    # A NaN in a part that counts does come through.
    assert merge_state(v, full, torch.ones(2, 4), full)[0].isnan().all()


def test_merge_state_in_place_and_mask():
    from ascend_sparse_attention import merge_state_in_place

    v, s = torch.zeros(3, 2, 4).half(), torch.zeros(3, 2)
    merge_state_in_place(v, s, torch.ones(3, 2, 4).half(), torch.zeros(3, 2), torch.tensor([True, False, True]))
    assert v[:, 0, 0].tolist() == [0.5, 0.0, 0.5] and s[:, 0].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(s_a=torch.zeros(2, 1)), r"Invalid shape of s_a: expected \(2,\)"),
        (dict(s_a=torch.zeros(2).double()), "Invalid dtype of s_a"),
        (dict(v_b=torch.zeros(3, 4), s_b=torch.zeros(3)), "Invalid shape or dtype of v_b"),
        (dict(v_b=torch.zeros(2, 4).half()), "Invalid shape or dtype of v_b"),
    ],
)
def test_merge_state_refuses(change, words):
    arguments = dict(v_a=torch.zeros(2, 4), s_a=torch.zeros(2), v_b=torch.zeros(2, 4), s_b=torch.zeros(2))
    with pytest.raises(ValueError, match=words):
        merge_state(**(arguments | change))
