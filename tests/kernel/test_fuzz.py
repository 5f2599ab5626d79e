# SPDX-License-Identifier: Apache-2.0
"""Random legal calls in the twin, checker on, outputs and workspace poisoned. ASA_FUZZ_CASES=500 for the long run."""

from __future__ import annotations

import os
import random

import problems
from ascend_sparse_attention import twin

CASES = int(os.environ.get("ASA_FUZZ_CASES", "30"))


def test_random_problems():
    seed = int(os.environ.get("ASA_FUZZ_SEED", random.randrange(2**32)))
    print(f"ASA_FUZZ_SEED={seed}")
    for number in range(CASES):
        rng = random.Random(f"{seed} {number}")
        p = problems.draw(rng, 1 << 20)
        spoilt = problems.spoil(p, rng)
        schedules = [None, "gather"] + ["gather_split_k"] * (p.indices.shape[-1] > 128)
        options = dict(
            return_lse=rng.random() < 0.6,
            schedule=rng.choice(schedules),
            cores=rng.choice((0, 0, 1, 2, 3)),
            seed=rng.choice((0, rng.randrange(1000))),
            operator_entry=rng.random() < 0.3,
        )
        try:
            problems.check(p, twin.run(*p.call, predict=False, **options))
        except Exception as error:
            raise AssertionError(f"seed {seed} case {number}: {p}, spoilt {spoilt}, {options}: {error}") from error
