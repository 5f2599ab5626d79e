# SPDX-License-Identifier: Apache-2.0
"""Every pinned configuration fits a Hopper multiprocessor, whatever the problem."""

from __future__ import annotations

import itertools

import pytest
import torch
from ascend_sparse_attention.backends.cuda import configs

SHARED_BYTES = 227 * 1024  # of a program
REGISTERS = 64 * 1024  # of a multiprocessor


def block_configs():
    dims = itertools.product([(64, 64), (128, 128), (256, 256), (64, 128), (256, 64)], [torch.float16, torch.bfloat16])
    for ((dq, dv), dtype), rope in itertools.product(dims, [False, True]):
        words = {"head_dim_qk": dq, "head_dim_vo": dv, "dtype": dtype}
        yield dq, dv, configs.prefill_config(**words, rope=rope)
        yield dq, dv, configs.bitmask_config(**words)
        for rows in (1, 16, 17, 64, 65, 512):
            for cols, masked in itertools.product((1, 3, 8, 16, 48, 64, 128, 256), (False, True)):
                yield dq, dv, configs.block_config(**words, rows=rows, block_cols=cols, masked=masked, rope=rope)


def test_hopper_configurations_fit():
    seen = {(dq, dv, config) for dq, dv, config in block_configs() if config.ring}
    assert len(seen) > 10
    for dq, dv, config in seen:
        groups = config.block_m // 64
        elements = config.block_m * dq + config.ring * config.block_n * (dq + dv)
        barriers = 8 * (2 + 4 * config.ring)
        # The compiler keeps some hundred bytes more for its own warps.
        assert (2 * elements + barriers + 1024) * config.programs_per_sm <= SHARED_BYTES, (dq, dv, config)
        threads = 128 * config.programs_per_sm
        assert threads * (groups * config.consumer_regs + config.producer_regs) <= REGISTERS, config
        assert config.consumer_regs % 8 == config.producer_regs % 8 == 0, config  # setmaxnreg's unit


@pytest.mark.parametrize("dims", [(512, 512), (576, 512)])
def test_hopper_mla_registers_fit(dims):
    config = configs.sparse_config(rows=4096, G=128, Dk=dims[0], Dv=dims[1], dtype=torch.bfloat16, aliased=True)
    assert config.hopper and 128 * (2 * config.consumer_regs + config.producer_regs) <= REGISTERS
