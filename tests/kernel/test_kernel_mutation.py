# SPDX-License-Identifier: Apache-2.0
"""Every synchronisation of the kernel is needed: left out, one at a time, the twin objects or the result changes."""

from __future__ import annotations

import random

import problems
import torch
from ascend_sparse_attention import twin

# Part of an API call rather than a call of the kernel's, and covered by the flags around it. By rule and source file.
REDUNDANT = {
    (
        "pipe_barrier FIX",
        "cube_tile.h",
    ): "Fixpipe sets its ND parameters behind a barrier of its own; they never change",
    ("pipe_barrier ALL", "gather_schedule.h"): "TPipe's destructor drains all pipes; nothing follows it",
    ("pipe_barrier ALL", "combine.h"): "SyncAll drains all pipes first; every buffer's flags were waited for before it",
}


def runs():
    """Small calls that together pass through every line with a synchronisation."""
    rng = random.Random(5)

    def make(*args, **kwargs):
        return problems.make(rng, *args, **kwargs)

    f16 = torch.float16
    far = make(1, 6, 200, 20, 1, 64, 64, 17, "BNSD", f16, False)
    far.query = torch.empty_strided(far.query.shape, (0, 80000, 64, 1), dtype=f16).copy_(far.query)
    wild = dict(value="own", indices="wild")
    return [
        # Several tasks an item, odd tails, zeroed rows.
        (make(2, 6, 200, 8, 2, 64, 64, 37, "BSND", f16, True, **wild), dict(cores=1, return_lse=True)),
        # Two key pieces and value groups, reused ring slots, query rows warmed.
        (make(1, 5, 300, 128, 1, 576, 512, 150, "BSND", f16, True), dict(cores=1, return_lse=True)),
        # Probabilities streamed, two chunks of heads.
        (make(1, 2, 1100, 160, 1, 128, 128, 1024, "BSND", f16, False), dict(cores=1, schedule="gather")),
        # Query rows through the ring.
        (far, dict(cores=1)),
        # Keys shared out, empty parts.
        (
            make(1, 2, 300, 40, 2, 128, 64, 260, "BSND", f16, True, indices="wild"),
            dict(cores=3, return_lse=True, schedule="gather_split_k"),
        ),
    ]


def noticed(p, options, key, expected):
    try:
        result = twin.run(*p.call, predict=False, drop_sync=key, **options)
    except RuntimeError:
        return True
    return bool(result.findings) or not torch.equal(result.out.view(torch.int16), expected.view(torch.int16))


def test_each_sync_call_is_needed():
    calls = runs()
    outs, sites = [], {}
    for number, (p, options) in enumerate(calls):
        result = twin.run(*p.call, predict=False, **options)
        problems.check(p, result)
        outs.append(result.out)
        for key in result.sync_sites:
            sites.setdefault(key, []).append(number)
    assert len(sites) > 120, "the calls no longer reach the kernel's synchronisation"
    survivors = [key for key, numbers in sites.items() if not any(noticed(*calls[n], key, outs[n]) for n in numbers)]
    unexplained = []
    for key in survivors:
        rule, place = key.rsplit(" ", 1)
        if (rule, place.split(":")[0]) not in REDUNDANT:
            unexplained.append(key)
    assert not unexplained, f"{len(unexplained)} of {len(sites)} sync calls can go unnoticed: {unexplained}"
