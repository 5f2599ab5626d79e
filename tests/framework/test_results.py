# SPDX-License-Identifier: Apache-2.0
"""npu tensors through the adapter, the tiling and the kernel in the twin, judged by cann-bench's rule."""

from __future__ import annotations

import pytest

from npu import asa, calls, no_findings, on_npu, ops, torch  # noqa: F401  # isort: skip
from ascend_sparse_attention.submission import accuracy
from sfa_inputs import assert_close, make_inputs, reference


@pytest.mark.parametrize("case", accuracy.CASES, ids=lambda case: case.id)
def test_cann_bench_rule(case):
    inputs = accuracy.inputs_of(case)
    tensors = on_npu((inputs.query, inputs.key, inputs.value, inputs.sparseIndices))
    out = ops.sparse_flash_attention(*tensors, case.scale, case.layout, case.is_causal)
    assert out.device == torch.device("npu:0") and out.is_contiguous() and type(out) is torch.Tensor
    passed, reasons = accuracy.judge_output(out.cpu(), case, inputs)
    assert passed, reasons


@pytest.mark.parametrize("prefix", [True, False], ids=["prefix", "separate"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_output_and_lse(layout, dtype, is_causal, prefix):
    tensors = make_inputs(B=2, S1=3, S2=50, Dk=128, topK=11, layout=layout, dtype=dtype, prefix=prefix)
    expected, expected_lse = reference(*tensors, 0.1, layout, is_causal)
    out, lse = ops.sparse_flash_attention_with_lse(*on_npu(tensors), 0.1, layout, is_causal)
    assert lse.is_contiguous() and lse.dtype == torch.float32
    torch.testing.assert_close(out.cpu().double(), expected, rtol=0.02, atol=2e-3)
    assert_close(lse.cpu(), expected_lse, torch.float32)
    again = asa.sparse_flash_attention(*on_npu(tensors), 0.1, layout, is_causal)
    assert torch.equal(again.cpu(), out.cpu())


def peak_of(call) -> int:
    """Most device memory that a call held beside what was there before."""
    torch.npu.synchronize()
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    call()
    torch.npu.synchronize()
    return torch.npu.max_memory_allocated() - before


def test_strided_cache_is_read_in_place():
    """A17: a view of a large pool takes no more memory than a contiguous key of its shape."""
    pool = torch.empty(4096, 8, 64, dtype=torch.float16).uniform_(-1, 1).npu()
    key = pool.view(1, 4096, 8, 64)[:, ::64, 2:4]
    query, contiguous, _, indices = on_npu(make_inputs(S2=64, N1=4, N2=2))
    assert key.shape == contiguous.shape
    results = {}

    def call(key):
        results["out"] = None
        results["out"] = ops.sparse_flash_attention(query, key, key, indices, 0.1)

    needed = peak_of(lambda: call(contiguous))
    assert peak_of(lambda: call(key)) <= needed
    host = pool.cpu().view(1, 4096, 8, 64)[:, ::64, 2:4]
    expected, _ = reference(query.cpu(), host, host, indices.cpu(), 0.1)
    torch.testing.assert_close(results["out"].cpu().double(), expected, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize(("B", "S1"), [(0, 3), (2, 0)])
def test_empty_calls_launch_nothing(layout, B, S1):
    """A14."""
    tensors = on_npu(make_inputs(B=B, S1=S1, layout=layout))
    before = calls("aclrtLaunchHostFunc")
    out, lse = ops.sparse_flash_attention_with_lse(*tensors, 0.1, layout)
    torch.npu.synchronize()
    assert out.shape == ((B, S1, 4, 64) if layout == "BSND" else (B, 4, S1, 64)) and lse.shape == out.shape[:-1]
    assert calls("aclrtLaunchHostFunc") == before


def test_new_indices_at_an_old_address():
    """D7: same shapes, new values at the addresses of the last call, five times."""
    query, key, value, indices = make_inputs(B=2, S1=3, S2=40)
    tensors = on_npu((query, key, value, indices))
    for seed in range(5):
        fresh = make_inputs(B=2, S1=3, S2=40, seed=seed)[3]
        tensors[3].copy_(fresh)
        out = ops.sparse_flash_attention(*tensors, 0.1)
        expected, _ = reference(query, key, value, fresh, 0.1)
        torch.testing.assert_close(out.cpu().double(), expected, rtol=0.02, atol=2e-3)
