# SPDX-License-Identifier: Apache-2.0
"""Block-sparse attention with FlashInfer's interface, on CPU and CUDA tensors.

The two wrappers work in two phases. plan() takes the sparsity structure: it checks it, may wait for the device, and
keeps what it needs in int32 tables of its own, of whatever size the structure asks for. run() takes tensors: it looks
at shapes only, launches, and neither waits nor allocates more than its results, so that it can be captured into a CUDA
graph.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from . import backends
from . import flashinfer_checks as checks
from .block_problem import AttentionSpec, BsrStructure, HeadScales, Logits, VariableStructure
from .inference import run_without_backward
from .masks import pack_bsr_mask

__all__ = ["BlockSparseAttentionWrapper", "VariableBlockSparseAttentionWrapper"]


class _PlannedWrapper:
    """What the two wrappers share: buffers, the plan in force, and a run over [tokens, heads, head_dim] views."""

    def __init__(self, float_workspace_buffer: torch.Tensor, backend: str = "auto") -> None:
        buffer = checks.check_tensor("float_workspace_buffer", float_workspace_buffer)
        self._backend_name = backends.check_block_name(backend)
        self.device = buffer.device
        self._float_workspace_buffer = buffer
        self._int_workspace_buffer: torch.Tensor | None = None
        self._plan: Any = None
        self._runner: backends.BlockBackend | None = None
        self._spec: AttentionSpec | None = None
        self._logits = Logits(1.0)
        self._tokens = self._keys = 0
        # Plans that a captured graph reads: a later plan() must not free them under its replays.
        self._captured: list[Any] = []

    def reset_workspace_buffer(self, float_workspace_buffer: torch.Tensor, int_workspace_buffer: torch.Tensor) -> None:
        """Replace the workspace buffers; a plan in force stays in force.

        Args:
            float_workspace_buffer, int_workspace_buffer: on the device of the first one. They are kept, not written:
                plans own their tables, so two wrappers may share a buffer.

        Raises:
            TypeError: not Tensors.
            ValueError: another device.
        """
        for name, buffer in (
            ("float_workspace_buffer", float_workspace_buffer),
            ("int_workspace_buffer", int_workspace_buffer),
        ):
            if checks.check_tensor(name, buffer).device != self.device:
                raise ValueError(f"Invalid device of {name}: expected {self.device}, got {buffer.device}")
        self._float_workspace_buffer = float_workspace_buffer
        self._int_workspace_buffer = int_workspace_buffer

    def end_forward(self) -> None:
        """Does nothing; for callers of FlashInfer's older interface."""

    def _spec_of(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        causal: bool,
        pos_encoding_mode: str,
        use_fp16_qk_reduction: bool,
        q_data_type: str | torch.dtype,
        kv_data_type: str | torch.dtype | None,
        o_data_type: str | torch.dtype | None,
    ) -> AttentionSpec:
        Hq, Hk = checks.check_int("num_qo_heads", num_qo_heads, 1), checks.check_int("num_kv_heads", num_kv_heads, 1)
        checks.check_heads(Hq, Hk)
        dim = checks.check_int("head_dim", head_dim, 1)
        checks.check_flag("use_fp16_qk_reduction", use_fp16_qk_reduction)
        q_dtype = checks.canonical_dtype("q_data_type", q_data_type)
        kv_dtype = q_dtype if kv_data_type is None else checks.canonical_dtype("kv_data_type", kv_data_type)
        checks.check_kv_dtype("kv_data_type", q_dtype, kv_dtype)
        return AttentionSpec(
            num_qo_heads=Hq,
            num_kv_heads=Hk,
            head_dim=dim,
            q_dtype=q_dtype,
            kv_dtype=kv_dtype,
            o_dtype=q_dtype if o_data_type is None else checks.canonical_dtype("o_data_type", o_data_type),
            causal=checks.check_flag("causal", causal),
            pos_encoding=checks.check_pos_encoding(pos_encoding_mode, dim),
            device=self.device,
        )

    def _launch(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor | None,
        logits: Logits,
        scales: HeadScales,
    ) -> None:
        """Run the plan in force over checked views [tokens, heads, head_dim]."""
        if self._tokens == 0:
            return
        if self._keys == 0:
            out.zero_()
            if lse is not None:
                lse.fill_(-math.inf)
            return
        assert self._runner is not None
        if self._runner.capturing() and not any(plan is self._plan for plan in self._captured):
            self._captured.append(self._plan)
        self._runner.run_planned(self._plan, q, k, v, out, lse, logits, scales)

    def _planned(self) -> AttentionSpec:
        if self._spec is None:
            raise RuntimeError("run: expected a plan() before it, got none")
        return self._spec

    def _overridden(
        self,
        pos_encoding_mode: str | None,
        logits_soft_cap: float | None,
        sm_scale: float | None,
        rope_scale: float | None,
        rope_theta: float | None,
    ) -> Logits:
        """The planned logits with what a forward() call gives in their place."""
        spec, planned = self._planned(), self._logits
        if pos_encoding_mode is not None:
            mode = checks.check_pos_encoding(pos_encoding_mode, spec.head_dim)
            if mode != spec.pos_encoding:
                raise ValueError(f"pos_encoding_mode: expected {spec.pos_encoding} as plan() was told, got {mode}")
        return checks.check_logits(
            spec.head_dim,
            planned.sm_scale if sm_scale is None else sm_scale,
            planned.logits_soft_cap if logits_soft_cap is None else logits_soft_cap,
            planned.rope_scale if rope_scale is None else rope_scale,
            planned.rope_theta if rope_theta is None else rope_theta,
        )


class BlockSparseAttentionWrapper(_PlannedWrapper):
    """Attention under a block-sparse row (BSR) mask, as in scipy.sparse.bsr_matrix, with blocks of any size (R, C).

    Block row i is attention of query rows [i R, min(M, (i + 1) R)) over the key blocks indices[indptr[i]:indptr[i + 1]]
    in that order, laid end to end. **causal, ROPE_LLAMA and ALIBI act on the coordinates inside that compacted piece**,
    aligned to its bottom right; with R = 1 causal masks nothing. A block that a row names twice counts twice. A row
    with nothing to attend to gives 0 and an LSE of -inf.

    Example:
        >>> import torch
        >>> import ascend_sparse_attention as flashinfer
        >>> workspace_buffer = torch.empty(1024, dtype=torch.uint8)
        >>> bsr_wrapper = flashinfer.BlockSparseAttentionWrapper(workspace_buffer)
        >>> # sparse mask: [[0, 0, 1], [1, 0, 1], [0, 1, 1]]
        >>> indptr = torch.tensor([0, 1, 3, 5], dtype=torch.int32)
        >>> indices = torch.tensor([2, 0, 2, 1, 2], dtype=torch.int32)
        >>> bsr_wrapper.plan(indptr, indices, 3, 3, 1, 1, num_qo_heads=4, num_kv_heads=2, head_dim=64)
        >>> q, k, v = (torch.randn(3, heads, 64).half() for heads in (4, 2, 2))
        >>> bsr_wrapper.run(q, k, v).shape
        torch.Size([3, 4, 64])
    """

    def __init__(self, float_workspace_buffer: torch.Tensor, backend: str = "auto") -> None:
        """
        Args:
            float_workspace_buffer: any tensor on the device of the runs. It is kept, not written: no backend here
                splits a row's keys. FlashInfer recommends 128 MiB.
            backend: "auto" by the buffer's device; "fa2" and "fa3" mean the same here; or "cpu", "cuda", "npu".

        Raises:
            TypeError: the buffer is no Tensor.
            ValueError: unknown backend; the message lists the known ones.
        """
        super().__init__(float_workspace_buffer, backend)

    def plan(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        M: int,
        N: int,
        R: int,
        C: int,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        mask: torch.Tensor | None = None,
        packed_mask: torch.Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: str | torch.dtype = "float16",
        kv_data_type: str | torch.dtype | None = None,
        o_data_type: str | torch.dtype = "float16",
        non_blocking: bool = True,
    ) -> None:
        """Take the structure of the runs that follow. Replaces everything that an earlier plan() set.

        Args:
            indptr: int32 [MB + 1], MB = ceil(M / R), ascending from 0 to nnz; any device.
            indices: int32 [nnz], block columns in [0, N / C), in any order; any device. Copied.
            M, N: rows and columns. M need not be a multiple of R; N must be one of C.
            R, C: rows and columns of a block.
            num_qo_heads, num_kv_heads: the first a multiple of the second.
            head_dim: of q, k, v and the output; even with ROPE_LLAMA.
            mask: bool [nnz, R, C], what each block keeps; overrides causal.
            packed_mask: uint8; for each block row its [rows, nnz_i * C] bits row-major, columns in the order of
                indices, lowest bit of a byte first, padded to whole bytes. Overrides mask and causal.
            causal: keep key n of a piece for its row m where n + rows <= keys + m.
            pos_encoding_mode: "NONE", "ROPE_LLAMA" or "ALIBI", on a piece's own coordinates.
            use_fp16_qk_reduction: a permission that no backend makes use of.
            logits_soft_cap: x becomes cap * tanh(x / cap) where cap > 0; None: off.
            sm_scale: None: 1 / sqrt(head_dim).
            rope_scale, rope_theta: None: 1 and 1e4.
            q_data_type: dtype of q; float16, bfloat16, float32, float8_e4m3fn or float8_e5m2, or its name.
            kv_data_type: dtype of k and v; None: q's.
            o_data_type: dtype of the output: float16 by default, whatever q's.
            non_blocking: without effect: copies are done when plan() returns, so the caller may reuse its tensors.

        Raises:
            KeyError: unknown pos_encoding_mode.
            TypeError: an argument of the wrong Python type.
            ValueError: a wrong size, shape, dtype or value; indices are named with position and value.
            NotImplementedError: the backend has no block-sparse attention.
            RuntimeError: the backend cannot run here.
        """
        sizes = {"M": (M, 0), "N": (N, 0), "R": (R, 1), "C": (C, 1)}
        M, N, R, C = (checks.check_int(name, value, least) for name, (value, least) in sizes.items())
        masked = mask is not None or packed_mask is not None
        spec = self._spec_of(
            num_qo_heads,
            num_kv_heads,
            head_dim,
            checks.check_flag("causal", causal) and not masked,
            pos_encoding_mode,
            use_fp16_qk_reduction,
            q_data_type,
            kv_data_type,
            o_data_type,
        )
        logits = checks.check_logits(spec.head_dim, sm_scale, logits_soft_cap, rope_scale, rope_theta)
        host_indptr, copy = checks.check_bsr(indptr, indices, M, N, R, C)
        runner = backends.resolve_block(
            self._backend_name, self.device, "block-sparse attention", "float_workspace_buffer"
        )
        packed = None
        if packed_mask is not None:
            packed, missing = checks.check_bsr_packed_mask(packed_mask, host_indptr, M, R, C)
            packed = torch.nn.functional.pad(packed.to(self.device), (0, missing)).clone()
        elif mask is not None:
            packed = pack_bsr_mask(checks.check_bsr_mask(mask, indices.numel(), R, C), host_indptr, R, C).to(
                self.device
            )
        structure = BsrStructure(
            indptr=host_indptr,
            indices=indices.to(self.device, copy=True) if copy is None or copy.device != self.device else copy,
            M=M,
            N=N,
            R=R,
            C=C,
            packed_mask=packed,
        )
        planned = runner.plan_block_sparse(structure, spec) if M > 0 and N > 0 else None
        self._plan, self._runner, self._spec, self._logits = planned, runner, spec, logits
        self._tokens, self._keys = M, N

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        scale_q: torch.Tensor | None = None,
        scale_k: torch.Tensor | None = None,
        scale_v: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Block-sparse attention of q over k and v. Runs of one plan must not overlap on two streams.

        Args:
            q: [M, num_qo_heads, head_dim]; k, v: [N, num_kv_heads, head_dim]; the planned dtypes. Strided inputs are
                fine while the last dimension is contiguous.
            scale_q, scale_k, scale_v: float32 [num_qo_heads], [num_kv_heads], [num_kv_heads]: logits times
                scale_q[h] * scale_k[hk], output times scale_v[hk]. None: 1.
            out: [M, num_qo_heads, head_dim] of o_data_type, to be filled; allocated where None.
            lse: float32 [M, num_qo_heads], to be filled; allocated where None and asked for.
            return_lse: return the LSE too.
            enable_pdl: accepted, without effect: no kernel here uses programmatic dependent launch.

        Returns:
            out, and with return_lse also lse: the base-2 log-sum-exp of the logits. Given tensors are returned
                themselves.

        Raises:
            RuntimeError: there is no plan.
            TypeError: an argument of the wrong Python type.
            ValueError: a tensor that is not as planned.
        """
        return self._run(q, k, v, scale_q, scale_k, scale_v, out, lse, return_lse, self._logits)

    def run_return_lse(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        scale_q: torch.Tensor | None = None,
        scale_k: torch.Tensor | None = None,
        scale_v: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = True,
        enable_pdl: bool | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """`run` that returns (out, lse)."""
        return self.run(q, k, v, scale_q, scale_k, scale_v, out, lse, return_lse, enable_pdl)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        scale_q: torch.Tensor | None = None,
        scale_k: torch.Tensor | None = None,
        scale_v: torch.Tensor | None = None,
        pos_encoding_mode: str | None = None,
        use_fp16_qk_reduction: bool = False,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        *,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """`run` of FlashInfer's older interface: what is given here replaces the planned value for this call.

        pos_encoding_mode must be the planned one (ValueError), since the plan depends on it.
        """
        logits = self._overridden(pos_encoding_mode, logits_soft_cap, sm_scale, rope_scale, rope_theta)
        return self._run(q, k, v, scale_q, scale_k, scale_v, out, lse, return_lse, logits)

    def _run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        scale_q: torch.Tensor | None,
        scale_k: torch.Tensor | None,
        scale_v: torch.Tensor | None,
        out: torch.Tensor | None,
        lse: torch.Tensor | None,
        return_lse: bool,
        logits: Logits,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        spec = self._planned()
        checks.check_flag("return_lse", return_lse)
        shape = (self._tokens, spec.num_qo_heads, spec.head_dim)
        kv_shape = (self._keys, spec.num_kv_heads, spec.head_dim)
        checks.check_operand("q", q, shape, spec.q_dtype, spec.device)
        checks.check_operand("k", k, kv_shape, spec.kv_dtype, spec.device)
        checks.check_operand("v", v, kv_shape, spec.kv_dtype, spec.device)
        scales = checks.check_scales(scale_q, scale_k, scale_v, shape[1], kv_shape[1], spec.device)
        checks.check_outputs(out, lse, shape, spec.o_dtype, spec.device)
        if out is None:
            out = torch.empty(shape, dtype=spec.o_dtype, device=spec.device)
        if lse is None and return_lse:
            lse = torch.empty(shape[:2], dtype=torch.float32, device=spec.device)
        run_without_backward(
            "BlockSparseAttentionWrapper.run",
            lambda: self._launch(q, k, v, out, lse, logits, scales),
            [out, lse],
            [q, k, v, scale_q, scale_k, scale_v],
        )
        if return_lse:
            assert lse is not None
            return out, lse
        return out


class VariableBlockSparseAttentionWrapper(_PlannedWrapper):
    """Attention under a map of blocks of varying size, one map and one set of sizes a key/value head.

    Each block row of key/value head hk is attention of its queries, in every query head of hk's group, over the key
    blocks that the map selects, laid end to end in ascending order. **causal, ROPE_LLAMA and ALIBI act on the
    coordinates inside that compacted piece**, as in BlockSparseAttentionWrapper. Blocks of size 0 are legal. A row with
    nothing to attend to gives 0 and an LSE of -inf. All tensors have their heads first: the output is [num_qo_heads,
    qo_len, head_dim].

    Example:
        >>> import torch
        >>> import ascend_sparse_attention as flashinfer
        >>> wrapper = flashinfer.VariableBlockSparseAttentionWrapper(torch.empty(1024, dtype=torch.uint8))
        >>> block_mask_map = torch.tensor([[[0, 0, 1], [1, 0, 1], [0, 1, 1]]], dtype=torch.bool)
        >>> block_row_sz = torch.tensor([[1, 2, 3]], dtype=torch.int32)
        >>> block_col_sz = torch.tensor([[3, 1, 2]], dtype=torch.int32)
        >>> wrapper.plan(block_mask_map, block_row_sz, block_col_sz, num_qo_heads=1, num_kv_heads=1, head_dim=128)
        >>> q, k, v = (torch.randn(1, 6, 128).half() for _ in range(3))
        >>> wrapper.run(q, k, v).shape
        torch.Size([1, 6, 128])
    """

    def __init__(self, float_workspace_buffer: torch.Tensor, backend: str = "auto") -> None:
        """Arguments and errors as of BlockSparseAttentionWrapper."""
        super().__init__(float_workspace_buffer, backend)

    def plan(
        self,
        block_mask_map: torch.Tensor,
        block_row_sz: torch.Tensor,
        block_col_sz: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
        q_data_type: str | torch.dtype = "float16",
        kv_data_type: str | torch.dtype | None = None,
    ) -> None:
        """Take the structure of the runs that follow. Replaces everything that an earlier plan() set.

        Args:
            block_mask_map: bool (or integers, 0 for False) [num_kv_heads, MB, NB]; any device.
            block_row_sz: integers [num_kv_heads, MB], >= 0; every head's sum is qo_len.
            block_col_sz: integers [num_kv_heads, NB], >= 0; every head's sum is kv_len.
            num_qo_heads, num_kv_heads: the first a multiple of the second; a group of query heads shares its map.
            head_dim: of q, k, v and the output; even with ROPE_LLAMA.
            causal: keep key n of a piece for its row m where n + rows <= keys + m.
            q_data_type: dtype of q and of the output.
            Others as in BlockSparseAttentionWrapper.plan.

        Raises:
            KeyError: unknown pos_encoding_mode.
            TypeError: an argument of the wrong Python type.
            ValueError: a wrong size, shape, dtype or value.
            NotImplementedError: the backend has no variable block-sparse attention.
            RuntimeError: the backend cannot run here.
        """
        spec = self._spec_of(
            num_qo_heads,
            num_kv_heads,
            head_dim,
            causal,
            pos_encoding_mode,
            use_fp16_qk_reduction,
            q_data_type,
            kv_data_type,
            None,
        )
        logits = checks.check_logits(spec.head_dim, sm_scale, logits_soft_cap, rope_scale, rope_theta)
        qo_len, kv_len = checks.check_variable(block_mask_map, block_row_sz, block_col_sz, spec.num_kv_heads)
        runner = backends.resolve_block(
            self._backend_name, self.device, "variable block-sparse attention", "float_workspace_buffer"
        )
        structure = VariableStructure(
            block_mask_map=block_mask_map.to(self.device, torch.bool),
            block_row_sz=block_row_sz.to(self.device, torch.int32),
            block_col_sz=block_col_sz.to(self.device, torch.int32),
            qo_len=qo_len,
            kv_len=kv_len,
        )
        planned = runner.plan_variable_blocks(structure, spec) if qo_len > 0 and kv_len > 0 else None
        self._plan, self._runner, self._spec, self._logits = planned, runner, spec, logits
        self._tokens, self._keys = qo_len, kv_len

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Variable block-sparse attention of q over k and v. Runs of one plan must not overlap on two streams.

        Args:
            q: [num_qo_heads, qo_len, head_dim]; k, v: [num_kv_heads, kv_len, head_dim]; the planned dtypes. Strided
                inputs are fine while the last dimension is contiguous.
            out: [num_qo_heads, qo_len, head_dim] of q's dtype, to be filled; allocated where None.
            lse: float32 [num_qo_heads, qo_len], to be filled; allocated where None and asked for.
            return_lse: return the LSE too.
            enable_pdl: accepted, without effect.

        Returns:
            out, and with return_lse also lse: the base-2 log-sum-exp of the logits. Given tensors are returned
                themselves.

        Raises:
            RuntimeError: there is no plan.
            TypeError: an argument of the wrong Python type.
            ValueError: a tensor that is not as planned.
        """
        return self._run(q, k, v, out, lse, return_lse, self._logits)

    def run_return_lse(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = True,
        enable_pdl: bool | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """`run` that returns (out, lse)."""
        return self.run(q, k, v, out, lse, return_lse, enable_pdl)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        pos_encoding_mode: str | None = None,
        use_fp16_qk_reduction: bool = False,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        *,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """`run` of FlashInfer's older interface; see BlockSparseAttentionWrapper.forward."""
        logits = self._overridden(pos_encoding_mode, logits_soft_cap, sm_scale, rope_scale, rope_theta)
        return self._run(q, k, v, out, lse, return_lse, logits)

    def _run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor | None,
        lse: torch.Tensor | None,
        return_lse: bool,
        logits: Logits,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        spec = self._planned()
        checks.check_flag("return_lse", return_lse)
        shape = (spec.num_qo_heads, self._tokens, spec.head_dim)
        kv_shape = (spec.num_kv_heads, self._keys, spec.head_dim)
        checks.check_operand("q", q, shape, spec.q_dtype, spec.device)
        checks.check_operand("k", k, kv_shape, spec.kv_dtype, spec.device)
        checks.check_operand("v", v, kv_shape, spec.kv_dtype, spec.device)
        checks.check_outputs(out, lse, shape, spec.o_dtype, spec.device)
        if out is None:
            out = torch.empty(shape, dtype=spec.o_dtype, device=spec.device)
        if lse is None and return_lse:
            lse = torch.empty(shape[:2], dtype=torch.float32, device=spec.device)

        def launch() -> None:
            tokens_first = [x.transpose(0, 1) for x in (q, k, v, out)]
            lse_view = None if lse is None else lse.transpose(0, 1)
            self._launch(
                tokens_first[0], tokens_first[1], tokens_first[2], tokens_first[3], lse_view, logits, HeadScales()
            )

        run_without_backward("VariableBlockSparseAttentionWrapper.run", launch, [out, lse], [q, k, v])
        if return_lse:
            assert lse is not None
            return out, lse
        return out
