# SPDX-License-Identifier: Apache-2.0
"""Signatures as documented, exports, the documented examples, and what an import costs."""

from __future__ import annotations

import doctest
import functools
import inspect
import os
import subprocess
import sys
from pathlib import Path

import ascend_sparse_attention as flashinfer
import pytest
import torch
from ascend_sparse_attention import merge, prefill, quantization, sparse

NEEDED = inspect.Parameter.empty

_LOGITS = [("logits_soft_cap", None), ("sm_scale", None), ("rope_scale", None), ("rope_theta", None)]
_OUTPUTS = [("out", None), ("lse", None), ("return_lse", False), ("enable_pdl", None)]
_SCALES = [("scale_q", None), ("scale_k", None), ("scale_v", None)]
_MODE = [("causal", False), ("pos_encoding_mode", "NONE"), ("use_fp16_qk_reduction", False)]


def _needed(names):
    return [(name, NEEDED) for name in names.split()]


# FlashInfer's documentation of flashinfer.sparse and single_prefill_with_kv_cache, argument by argument.
DOCUMENTED = {
    "BlockSparseAttentionWrapper.__init__": [*_needed("float_workspace_buffer"), ("backend", "auto")],
    "BlockSparseAttentionWrapper.plan": [
        *_needed("indptr indices M N R C num_qo_heads num_kv_heads head_dim"),
        ("mask", None),
        ("packed_mask", None),
        *_MODE,
        *_LOGITS,
        ("q_data_type", "float16"),
        ("kv_data_type", None),
        ("o_data_type", "float16"),
        ("non_blocking", True),
    ],
    "BlockSparseAttentionWrapper.run": [*_needed("q k v"), *_SCALES, *_OUTPUTS],
    "BlockSparseAttentionWrapper.reset_workspace_buffer": _needed("float_workspace_buffer int_workspace_buffer"),
    "VariableBlockSparseAttentionWrapper.__init__": [*_needed("float_workspace_buffer"), ("backend", "auto")],
    "VariableBlockSparseAttentionWrapper.plan": [
        *_needed("block_mask_map block_row_sz block_col_sz num_qo_heads num_kv_heads head_dim"),
        *_MODE,
        *_LOGITS,
        ("non_blocking", True),
        ("q_data_type", "float16"),
        ("kv_data_type", None),
    ],
    "VariableBlockSparseAttentionWrapper.run": [*_needed("q k v"), *_OUTPUTS],
    "VariableBlockSparseAttentionWrapper.reset_workspace_buffer": _needed(
        "float_workspace_buffer int_workspace_buffer"
    ),
    "single_prefill_with_kv_cache": [
        *_needed("q k v"),
        *_SCALES,
        ("o_dtype", None),
        ("custom_mask", None),
        ("packed_custom_mask", None),
        ("causal", False),
        ("kv_layout", "NHD"),
        ("pos_encoding_mode", "NONE"),
        ("use_fp16_qk_reduction", False),
        ("sm_scale", None),
        ("window_left", -1),
        ("logits_soft_cap", None),
        ("rope_scale", None),
        ("rope_theta", None),
        ("backend", "auto"),
        ("return_lse", False),
    ],
    "packbits": [*_needed("x"), ("bitorder", "big")],
    "segment_packbits": [*_needed("x indptr"), ("bitorder", "big")],
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_signature(name):
    function = flashinfer
    for part in name.split("."):
        function = getattr(function, part)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    assert [(p.name, p.default) for p in parameters] == DOCUMENTED[name]
    assert {p.kind for p in parameters} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_exports():
    for name in ("BlockSparseAttentionWrapper", "VariableBlockSparseAttentionWrapper"):
        assert getattr(flashinfer, name) is getattr(flashinfer.sparse, name)
    for name in ("single_prefill_with_kv_cache", "single_prefill_with_kv_cache_return_lse"):
        assert getattr(flashinfer, name) is getattr(flashinfer.prefill, name)
    for name in ("packbits", "segment_packbits"):
        assert getattr(flashinfer, name) is getattr(flashinfer.quantization, name)


def test_aliases():
    for wrapper in (flashinfer.BlockSparseAttentionWrapper, flashinfer.VariableBlockSparseAttentionWrapper):
        assert wrapper.begin_forward is wrapper.plan
        given = list(inspect.signature(wrapper.run_return_lse).parameters)
        assert given == list(inspect.signature(wrapper.run).parameters)


@pytest.mark.parametrize("module", [merge, prefill, quantization, sparse], ids=lambda m: m.__name__.split(".")[-1])
def test_docstring_examples(module):
    torch.manual_seed(0)
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


def test_documented_examples():
    torch.manual_seed(0)
    path = Path(__file__).parents[2] / "docs" / "flashinfer.md"
    result = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert result.attempted > 30 and result.failed == 0


def test_import_is_light():
    code = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "import ascend_sparse_attention\n"
        "heavy = {'triton', 'numpy.testing', 'matplotlib', 'rich', 'typer', 'yaml', 'torch.distributed.tensor'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(flashinfer.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("leaf", ["q", "k", "v"])
@pytest.mark.parametrize("call", ["prefill", "bsr", "variable"])
def test_a_backward_pass_is_refused(call, leaf, given):
    one = {name: torch.randn(8, 2, 64) for name in "qkv"}
    one[leaf].requires_grad_()
    q, k, v = one["q"], one["k"], one["v"]
    out = torch.empty(2, 8, 64) if call == "variable" else torch.empty(8, 2, 64)
    lse = torch.empty(out.shape[:2])
    if call == "prefill":
        attend = functools.partial(flashinfer.single_prefill_with_kv_cache, q, k, v, return_lse=True)
    elif call == "bsr":
        wrapper = flashinfer.BlockSparseAttentionWrapper(torch.empty(1024, dtype=torch.uint8))
        indptr, indices = torch.tensor([0, 1, 2]).int(), torch.tensor([0, 1]).int()
        wrapper.plan(indptr, indices, 8, 8, 4, 4, 2, 2, 64, q_data_type="float32", o_data_type="float32")
        attend = functools.partial(wrapper.run, q, k, v, return_lse=True)
    else:
        several = flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(1024, dtype=torch.uint8))
        ones = torch.full((2, 2), 4)
        several.plan(torch.ones(2, 2, 2, dtype=torch.bool), ones, ones, 2, 2, 64, q_data_type=torch.float32)
        attend = functools.partial(several.run, *(x.transpose(0, 1) for x in (q, k, v)), return_lse=True)
    if given and call != "prefill":
        attend = functools.partial(attend, out=out, lse=lse)
    results = attend()
    if given and call != "prefill":
        assert results[0] is out and results[1] is lse
    for result in results:
        assert result.requires_grad
        with pytest.raises(NotImplementedError, match="expected inference, got a backward pass"):
            result.sum().backward()
    if not given:
        with torch.no_grad():
            assert not attend()[0].requires_grad
