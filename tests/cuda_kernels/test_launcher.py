# SPDX-License-Identifier: Apache-2.0
"""A prepared launch hands the compiled kernel the very arguments that Triton's own launch would.

Runs on any machine: the kernel and the compiled kernel are stand-ins that record what they are given.
"""

from __future__ import annotations

import contextlib
import types

import pytest
import torch
from ascend_sparse_attention.backends import cuda
from ascend_sparse_attention.backends.cuda import launch_block, launch_sparse, launcher, plans


class Recorder:
    """Stands for a Triton kernel: records positional and constant arguments of first and of prepared launches."""

    def __init__(self, kernel):
        self.arg_names = kernel.arg_names
        self.first, self.prepared = [], []

    def __getitem__(self, grid):
        def launch(*args, **constants):
            names = self.arg_names[len(args) :]
            self.first.append((grid[0], *args, *(constants[n] for n in names)))
            run = lambda x, y, z, stream, function, meta, data, enter, leave, *rest: self.prepared.append((x, *rest))  # noqa: E731
            return types.SimpleNamespace(run=run, function=0, packed_metadata=0)

        return launch


@pytest.fixture
def recorded(monkeypatch):
    """Hopper paths on a CPU, every kernel recorded. Returns the recorders made so far."""
    made = []
    original = launcher.Launcher.__init__

    def init(self, kernel):
        original(self, kernel)
        self._interpreted = False
        self._kernel = Recorder(kernel)
        made.append(self._kernel)

    monkeypatch.setattr(launcher.Launcher, "__init__", init)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    for module in (launch_block, launch_sparse):
        monkeypatch.setattr(module, "is_hopper", lambda device: True)
        monkeypatch.setattr(module, "num_sms", lambda device: 132)
    caches = (
        launch_block._hopper_launcher, launch_block._portable_launcher, launch_block._mask_launcher,
        launch_sparse._launcher, plans._launcher,
    )  # fmt: skip

    def clear():
        for cache in caches:
            cache.cache_clear()
        launch_block._prefills.clear()
        launch_sparse._prepared.clear()

    clear()
    yield made
    clear()


def same(a, b):
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.data_ptr() == b.data_ptr()
    if hasattr(a, "block_shape"):
        fields = ("shape", "strides", "block_shape", "layout", "padding")
        return a.base.data_ptr() == b.base.data_ptr() and all(getattr(a, f) == getattr(b, f) for f in fields)
    return type(a) is type(b) and a == b


def check(made, run, *argument_sets, allocated=()):
    """`run` each set once through Triton and once prepared. The arguments must agree, `allocated` positions aside
    (those of tensors that every call allocates itself)."""
    run(*argument_sets[0])
    first_kernels = [k for k in made if k.first]
    for arguments in argument_sets:
        for k in first_kernels:
            k.prepared.clear()
        run(*arguments)
        got = [list(k.prepared) for k in first_kernels]
        assert all(len(calls) == 1 for calls in got)
        for k in first_kernels:
            k.first.clear()
        launch_block._prefills.clear()
        launch_sparse._prepared.clear()
        for plan in [x for x in arguments if isinstance(x, cuda.BlockPlan)]:
            plan.launches.clear()
        run(*arguments)  # through Triton again, with these tensors
        for k, (prepared,) in zip(first_kernels, got):
            (want,) = k.first
            assert len(prepared) == len(want)
            for position, (a, b) in enumerate(zip(prepared, want)):
                name = "programs" if position == 0 else k.arg_names[position - 1]
                if name in allocated:
                    assert isinstance(a, torch.Tensor) and a.shape == b.shape and a.dtype == b.dtype, name
                else:
                    assert same(a, b), (name, a, b)


def tensors(n, hq, hk, dim, copies=2):
    return [tuple(torch.empty(n, h, dim, dtype=torch.float16) for h in (hq, hk, hk, hq)) for _ in range(copies)]


@pytest.mark.parametrize("block", [(128, 128), (64, 16), (128, 1)], ids=str)
@pytest.mark.parametrize("options", [{}, {"logits_soft_cap": 3.0}, {"causal": True}], ids=str)
def test_block_sparse(recorded, block, options):
    R, C = block
    n, options = 256, dict(options)
    causal = options.pop("causal", False)
    indptr = torch.arange(0, n // R + 1).int()
    plan = cuda.plan_bsr(
        indptr, torch.zeros(n // R).int(), M=n, N=n, R=R, C=C, num_qo_heads=4, num_kv_heads=2, head_dim_qk=64,
        head_dim_vo=64, q_dtype=torch.float16, causal=causal, device=torch.device("cpu"),
    )  # fmt: skip
    sets = [(plan, *x) for x in tensors(n, 4, 2, 64)]
    check(recorded, lambda p, q, k, v, o: cuda.run_block_sparse(p, q, k, v, o, sm_scale=0.1, **options), *sets)


def test_one_tensor_in_several_places(recorded):
    """A first call with q, k and v one tensor must not tie them together for later calls."""
    x, out = torch.empty(256, 2, 64, dtype=torch.float16), torch.empty(256, 2, 64, dtype=torch.float16)
    q, k, v, o = (torch.empty(256, 2, 64, dtype=torch.float16) for _ in range(4))
    check(recorded, lambda *t: cuda.run_prefill(*t, sm_scale=0.1), (x, x, x, out), (q, k, v, o))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window_left": 5, "causal": True}], ids=str)
def test_prefill(recorded, options):
    sets = tensors(300, 4, 2, 128)
    run = lambda q, k, v, o: cuda.run_prefill(q, k, v, o, sm_scale=0.1, **options)  # noqa: E731
    check(recorded, run, *sets, allocated=("flags",))


@pytest.mark.parametrize("s1", [1, 300])
@pytest.mark.parametrize("heads", [4, 128])
def test_sparse(recorded, s1, heads):
    dk, dv = (576, 512) if heads == 128 else (64, 64)
    sets = []
    for _ in range(2):
        q, k = (torch.empty(1, s, n, dk, dtype=torch.bfloat16) for s, n in ((s1, heads), (2048, 1)))
        idx = torch.zeros(1, s1, 1, 1024).int()
        sets.append((q, k, k[..., :dv], idx, torch.empty(1, s1, heads, dv, dtype=torch.bfloat16)))
    allocated = ("part_out", "part_lse", "out", "lse") if s1 == 1 else ()
    check(recorded, lambda *t: cuda.run_sparse_flash_attention(*t, scale=0.1), *sets, allocated=allocated)


def test_prepared_launch_keeps_no_tensor_alive(recorded):
    import gc
    import weakref

    (q, k, v, o), _ = tensors(300, 4, 2, 128)
    refs = [weakref.ref(x) for x in (q, k, v, o)]
    cuda.run_prefill(q, k, v, o, sm_scale=0.1)
    for recorder in recorded:
        recorder.first.clear()
    del q, k, v, o, _
    gc.collect()
    assert all(r() is None for r in refs)


def test_other_strides_are_another_problem(recorded):
    q, k, v, o = tensors(300, 4, 2, 128, copies=1)[0]
    wide = torch.empty(300, 2, 192, dtype=torch.float16)[..., :128]
    cuda.run_prefill(q, k, v, o, sm_scale=0.1)
    cuda.run_prefill(q, wide, v, o, sm_scale=0.1)
    kernel = next(r for r in recorded if r.first)
    assert len(kernel.first) == 2 and not kernel.prepared


def test_head_dims_beyond_the_gpu_are_named(recorded, monkeypatch):
    from triton.runtime.errors import OutOfResources

    def too_much(self, grid):
        def launch(*args, **constants):
            raise OutOfResources(294912, 232448, "shared memory")

        return launch

    monkeypatch.setattr(Recorder, "__getitem__", too_much)
    ((q, k, v, o),) = tensors(300, 4, 2, 768, copies=1)
    words = "head_dim: expected .* which has 232448 bytes of shared memory a program, got some that need 294912"
    with pytest.raises(ValueError, match=words):
        cuda.run_prefill(q, k, v, o, sm_scale=0.1)


def test_a_plan_that_has_run_can_be_pickled_and_copied(recorded):
    import copy
    import pickle

    plan = cuda.plan_bsr(
        torch.tensor([0, 1, 2]).int(), torch.zeros(2).int(), M=256, N=256, R=128, C=128, num_qo_heads=4, num_kv_heads=2,
        head_dim_qk=64, head_dim_vo=64, q_dtype=torch.float16, device=torch.device("cpu"),
    )  # fmt: skip
    (arguments,) = tensors(256, 4, 2, 64, copies=1)
    cuda.run_block_sparse(plan, *arguments, sm_scale=0.1)
    assert plan.launches
    for again in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert again.launches == {} and torch.equal(again.tiles, plan.tiles) and again.config == plan.config
    assert plan.launches
