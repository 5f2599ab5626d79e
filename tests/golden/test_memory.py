# SPDX-License-Identifier: Apache-2.0
"""The goldens stay within their memory bound where a golden that expands the keys per head takes tens of GiB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20

#: Public case 15 (MLA decode) with fewer batches and more query positions. Expanded, keys and values take 4.2 GiB.
SCRIPT = """
import sys, torch
from ascend_sparse_attention.golden import iter_blocks, iter_native_blocks

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

torch.set_num_threads(2)
iterate = {"golden": iter_blocks, "native": iter_native_blocks}[sys.argv[1]]
B, S1, S2, N1, Dk, Dv, topK = 2, 4, 8192, 64, 576, 512, 1024
g = torch.Generator().manual_seed(0)
q = torch.empty(B, N1, S1, Dk, dtype=torch.bfloat16).uniform_(-1, 1, generator=g)
k = torch.empty(B, 1, S2, Dk, dtype=torch.bfloat16).uniform_(-1, 1, generator=g)
idx = torch.stack([torch.randperm(S2, generator=g)[:topK] for _ in range(B * S1)]).to(torch.int32).view(B, 1, S1, topK)
if sys.argv[3] == "crowded":  # all in one of the native reference's chains
    idx = torch.arange(0, 4 * topK, 4, dtype=torch.int32).expand(B, 1, S1, topK).contiguous()
torch.mm(torch.ones(512, 512), torch.ones(512, 512))  # the math library's own buffers
before = peak()
rows = 0
for block in iterate(q, k, k[..., :Dv].clone(), idx, 0.04167, "BNSD", False, memory_limit_bytes=int(sys.argv[2])):
    assert block.out.isfinite().all()
    rows += block.out.shape[0] * block.out.shape[1]
assert rows == B * S1 * N1
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads VmHWM from /proc")
@pytest.mark.parametrize("which", ["golden", "native"])
@pytest.mark.parametrize(("indices", "limit"), [("spread", 96 * MIB), ("spread", 512 * MIB), ("crowded", 96 * MIB)])
def test_peak_memory_stays_within_the_bound(which: str, indices: str, limit: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, which, str(limit), indices],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    assert 0 < int(run.stdout) < limit
