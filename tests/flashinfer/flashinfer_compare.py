# SPDX-License-Identifier: Apache-2.0
"""What the tests of the FlashInfer-compatible API share: inputs, and comparison with float64.

ASA_EXAMPLES=n draws n random configurations a property (default: few enough for every run). No conftest.py: other
folders' tests import the one above by its bare name.
"""

from __future__ import annotations

import math
import os

import hypothesis
import torch

hypothesis.settings.register_profile(
    "flashinfer", max_examples=int(os.environ.get("ASA_EXAMPLES", "40")), deadline=None, derandomize=True
)

#: Relative error of a probability where P is rounded to 16 bits before it meets V. Under RoPE on CUDA the rotated q and
#: k are too, which moves a logit by about its size times the same.
P_ERROR = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
ROPE_LOGIT_ERROR = 3e-3


def randn(*shape, seed=0, dtype=torch.float16, device="cpu"):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def assert_matches(got, golden, lse_atol=2e-5, magnitude=None, p_error=0.0):
    """(out, lse) against float64: one rounding of out's dtype plus what float32 sums add; LSE -inf alike.

    Where the probabilities themselves carry a relative error `p_error`, it times `magnitude` (golden output of |v|) is
    allowed on top.
    """
    (out, lse), (want, want_lse) = got, golden
    assert out.shape == want.shape and lse.shape == want_lse.shape and lse.dtype == torch.float32
    out, lse = out.cpu(), lse.cpu()
    eps = torch.finfo(out.dtype).eps
    allowed = eps * want.abs() + 4e-6 + eps / 64
    if magnitude is not None:
        allowed = allowed + p_error * magnitude
    error = (out.double() - want).abs()
    assert bool((error <= allowed).all()), f"off by {error.max()}, {(error - allowed).max()} more than allowed"
    assert torch.equal(lse == -math.inf, want_lse == -math.inf)
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-6, atol=lse_atol)
    assert not out[want_lse == -math.inf].float().any(), "a row with nothing to attend to must be exactly 0"


def agree(got, golden, v, *arguments, p_error, lse_atol, **words):
    """Compare with golden(*arguments, v, **words), the golden of |v| saying what a wrong P may do."""
    magnitude, _ = golden(*arguments, v.float().abs(), **words)
    want = golden(*arguments, v, **words)
    assert_matches(got, want, lse_atol=lse_atol, magnitude=magnitude, p_error=p_error)
