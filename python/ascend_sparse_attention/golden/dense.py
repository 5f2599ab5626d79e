# SPDX-License-Identifier: Apache-2.0
"""Float64 goldens of the FlashInfer-compatible API: single prefill, block-sparse rows, variable blocks.

Everything is one formula, written once in :func:`attend_head`. For query i and key j of one head

    x(i, j)   = sum_d rope(q)[i, d] * rope(k)[j, d] * scale_q * scale_k * sm_scale
    x'(i, j)  = logits_soft_cap * tanh(x / logits_soft_cap)        if logits_soft_cap > 0, else x
    x''(i, j) = x' + slope(h) * (j - i)                            with ALIBI, else x'
    out[i]    = scale_v * sum_j softmax_j(x''[i, j]) * v[j]         over the keys that the masks keep
    lse[i]    = log2 sum_j exp(x''[i, j])

with sums over kept keys only: a masked key never touches the result, even if it holds NaN or Inf, and a row with no
key left is exactly 0 with LSE -inf. Query head h reads key head h // group.

Sources: FlashInfer's API documentation (single_prefill_with_kv_cache, BlockSparseAttentionWrapper,
VariableBlockSparseAttentionWrapper); RoPE as in Llama (Su et al. 2021, half-split pairs); ALiBi slopes (Press et al.
2022, appendix: heads beyond a power of two take every other slope of the next one). Where a soft cap and ALiBi meet,
the bias is added after the cap, following the documented order "scaled, capped, biased".

These are references: clear before fast, with arguments checked only as far as a wrong answer could pass for a right
one. The wrappers' own checks are theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

POS_ENCODING_MODES = ("NONE", "ROPE_LLAMA", "ALIBI")

_LOG2_E = math.log2(math.e)

#: Score elements held at once; rows beyond it are done in further runs.
_SCORES_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Logits:
    """What turns dot products into logits, apart from masks.

    Attributes:
        sm_scale: factor of the dot products; None is 1 / sqrt(head_dim_qk).
        logits_soft_cap: cap; None or <= 0 is off.
        pos_encoding_mode: "NONE", "ROPE_LLAMA" or "ALIBI".
        rope_scale: positions are divided by it; None is 1.
        rope_theta: base of the frequencies; None is 1e4.
    """

    sm_scale: float | None = None
    logits_soft_cap: float | None = None
    pos_encoding_mode: str = "NONE"
    rope_scale: float | None = None
    rope_theta: float | None = None

    def __post_init__(self) -> None:
        if self.pos_encoding_mode not in POS_ENCODING_MODES:
            raise KeyError(
                f"Invalid pos_encoding_mode {self.pos_encoding_mode!r}, one of {POS_ENCODING_MODES} expected"
            )


def alibi_slopes(num_heads: int) -> torch.Tensor:
    """Slopes of ALiBi, [num_heads] float64.

    The first n = 2^floor(log2 num_heads) heads have 2^(-8 i / n), i = 1..n; the rest take the odd members of the
    sequence for 2 n heads, 2^(-4 (2 i - 1) / n), i = 1...
    """
    n = 1 << (num_heads.bit_length() - 1)
    exponents = [-8.0 * i / n for i in range(1, n + 1)]
    exponents += [-4.0 * (2 * i - 1) / n for i in range(1, num_heads - n + 1)]
    return torch.tensor([2.0**e for e in exponents], dtype=torch.float64)


def apply_rope(x: torch.Tensor, positions: torch.Tensor, rope_scale: float, rope_theta: float) -> torch.Tensor:
    """Rotate x [len, D] float64: pair (d, d + D/2) turns by position / rope_scale * rope_theta^(-2 d / D)."""
    half = x.shape[-1] // 2
    exponent = -2.0 * torch.arange(half, dtype=torch.float64, device=x.device) / x.shape[-1]
    angle = positions.to(torch.float64).unsqueeze(-1) / rope_scale * rope_theta**exponent
    cos, sin = angle.cos(), angle.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def unpack_bits(packed: torch.Tensor, count: int) -> torch.Tensor:
    """First `count` bits of a uint8 tensor as bools, the lowest bit of each byte first ("little")."""
    if packed.dtype != torch.uint8 or packed.dim() != 1:
        raise ValueError(f"packed mask: expected a 1D uint8 tensor, got {packed.dim()}D {packed.dtype}")
    if packed.numel() * 8 < count:
        raise ValueError(f"packed mask: expected at least {-(-count // 8)} bytes, got {packed.numel()}")
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return ((packed.unsqueeze(-1) >> shifts) & 1).flatten()[:count].bool()


def attend_head(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor,
    logits: Logits,
    slope: float = 0.0,
    scale_qk: float = 1.0,
    scale_v: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of one query head over one key head: the formula at the top of this module.

    Args:
        q, k, v: [qo_len, Dqk], [kv_len, Dqk], [kv_len, Dvo], any floating dtype; taken to float64 here.
        keep: [qo_len, kv_len] bool, True where query i may see key j.
        logits: scale, cap and position encoding. Query i stands at position kv_len - qo_len + i for ROPE_LLAMA and
            at i for ALIBI; key j at j.
        slope: this head's ALiBi slope (used with ALIBI only).
        scale_qk, scale_v: scale_q * scale_k and scale_v of this head.

    Returns:
        out [qo_len, Dvo] and lse [qo_len] (base 2), float64.
    """
    qo_len, kv_len = keep.shape
    q, k, v = q.to(torch.float64), k.to(torch.float64), v.to(torch.float64)
    sm_scale = logits.sm_scale if logits.sm_scale is not None else 1.0 / math.sqrt(q.shape[-1])
    queries = torch.arange(qo_len, device=q.device)
    keys = torch.arange(kv_len, device=q.device)
    if logits.pos_encoding_mode == "ROPE_LLAMA":
        rope_scale = logits.rope_scale if logits.rope_scale is not None else 1.0
        rope_theta = logits.rope_theta if logits.rope_theta is not None else 1e4
        q = apply_rope(q, queries + (kv_len - qo_len), rope_scale, rope_theta)
        k = apply_rope(k, keys, rope_scale, rope_theta)
    out = torch.empty((qo_len, v.shape[-1]), dtype=torch.float64, device=q.device)
    lse = torch.empty(qo_len, dtype=torch.float64, device=q.device)
    step = max(1, _SCORES_AT_ONCE // max(1, kv_len))
    for start in range(0, qo_len, step):
        rows = slice(start, start + step)
        x = (q[rows] @ k.T) * (scale_qk * sm_scale)
        if logits.logits_soft_cap is not None and logits.logits_soft_cap > 0:
            x = logits.logits_soft_cap * torch.tanh(x / logits.logits_soft_cap)
        if logits.pos_encoding_mode == "ALIBI":
            x = x + slope * (keys - queries[rows, None])
        weights, lse[rows] = masked_softmax(x, keep[rows])
        out[rows] = scale_v * _weighted_sum(weights, v, keep[rows])
    return out, lse


def masked_softmax(x: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax of x [rows, keys] over the kept keys, and its LSE (base 2); nothing kept gives zeros and -inf."""
    if x.shape[-1] == 0:
        return x, x.new_full(x.shape[:1], -math.inf)
    x = x.masked_fill(~keep, -math.inf)
    empty = ~keep.any(dim=-1, keepdim=True)
    peak = x.amax(dim=-1, keepdim=True).masked_fill(empty, 0.0)
    weights = torch.exp(x - peak)
    total = weights.sum(dim=-1, keepdim=True)
    lse = (peak + torch.log(total)) * _LOG2_E
    return weights / total.masked_fill(empty, 1.0), lse.squeeze(-1)


def _weighted_sum(weights: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """weights [rows, keys] @ v [keys, D], where a masked key adds nothing even if its v is NaN or Inf."""
    finite = v.isfinite().all(dim=-1)
    out = weights @ v.masked_fill(~finite.unsqueeze(-1), 0.0)
    for j in (~finite).nonzero().flatten().tolist():
        out = out + (weights[:, j, None] * v[j]).masked_fill(~keep[:, j, None], 0.0)
    return out


def prefill_mask(
    qo_len: int,
    kv_len: int,
    *,
    custom_mask: torch.Tensor | None = None,
    causal: bool = False,
    window_left: int = -1,
    device: torch.device | None = None,
) -> torch.Tensor:
    """Keys that each query may see, [qo_len, kv_len] bool.

    custom_mask replaces causal. Causal is aligned to the bottom right: j + qo_len <= kv_len + i. window_left >= 0
    keeps j >= kv_len - qo_len + i - window_left on top of either.
    """
    i = torch.arange(qo_len, device=device).unsqueeze(-1)
    j = torch.arange(kv_len, device=device)
    if custom_mask is not None:
        if custom_mask.dtype != torch.bool or tuple(custom_mask.shape) != (qo_len, kv_len):
            raise ValueError(
                f"custom_mask: expected bool of shape {(qo_len, kv_len)}, "
                f"got {custom_mask.dtype} of shape {tuple(custom_mask.shape)}"
            )
        keep = custom_mask
    elif causal:
        keep = j + qo_len <= kv_len + i
    else:
        keep = torch.ones((qo_len, kv_len), dtype=torch.bool, device=device)
    if window_left >= 0:
        keep = keep & (j >= kv_len - qo_len + i - window_left)
    return keep


def single_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
    custom_mask: torch.Tensor | None = None,
    packed_custom_mask: torch.Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    window_left: int = -1,
    logits: Logits | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Golden of single_prefill_with_kv_cache.

    Args:
        q: [qo_len, Hq, Dqk]; k, v: [kv_len, Hkv, Dqk] and [kv_len, Hkv, Dvo] (NHD) or heads first (HND).
        scale_q, scale_k, scale_v: one factor a head, [Hq], [Hkv], [Hkv].
        custom_mask: [qo_len, kv_len] bool; packed_custom_mask: its rows one after another, eight to a byte, lowest
            bit first. Packed wins over custom, both over causal.
        window_left: keys further left than this are masked; -1 for none.

    Returns:
        out [qo_len, Hq, Dvo] and lse [qo_len, Hq] (base 2), float64.
    """
    if kv_layout not in ("NHD", "HND"):
        raise KeyError(f"Invalid kv_layout {kv_layout!r}, NHD or HND expected")
    if kv_layout == "HND":
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    qo_len, kv_len = q.shape[0], k.shape[0]
    if packed_custom_mask is not None:
        custom_mask = unpack_bits(packed_custom_mask, qo_len * kv_len).view(qo_len, kv_len)
    keep = prefill_mask(
        qo_len, kv_len, custom_mask=custom_mask, causal=causal, window_left=window_left, device=q.device
    )
    return _attend_heads(q, k, v, keep, logits or Logits(), scale_q, scale_k, scale_v)


def _attend_heads(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor,
    logits: Logits,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All heads of q [qo_len, Hq, Dqk] over k, v [kv_len, Hkv, ...] under one mask."""
    Hq, Hkv = q.shape[1], k.shape[1]
    group = _group(Hq, Hkv)
    slopes = alibi_slopes(Hq)
    outs, lses = [], []
    for h in range(Hq):
        hk = h // group
        scale_qk = _factor(scale_q, h) * _factor(scale_k, hk)
        out, lse = attend_head(
            q[:, h], k[:, hk], v[:, hk], keep, logits, float(slopes[h]), scale_qk, _factor(scale_v, hk)
        )
        outs.append(out)
        lses.append(lse)
    return torch.stack(outs, dim=1), torch.stack(lses, dim=1)


def _factor(scale: torch.Tensor | None, head: int) -> float:
    return 1.0 if scale is None else float(scale[head])


def _group(Hq: int, Hkv: int) -> int:
    if Hkv == 0 or Hq % Hkv != 0:
        raise ValueError(f"num_qo_heads: expected a multiple of num_kv_heads = {Hkv}, got {Hq}")
    return Hq // Hkv


def block_sparse(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    R: int,
    C: int,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    mask: torch.Tensor | None = None,
    packed_mask: torch.Tensor | None = None,
    causal: bool = False,
    logits: Logits | None = None,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Golden of BlockSparseAttentionWrapper.

    Block row i is attention of query rows [i R, min(M, (i+1) R)) over the key blocks indices[indptr[i]:indptr[i+1]]
    laid end to end in that order. A block named twice counts twice. causal, ROPE_LLAMA and ALIBI act on the
    coordinates inside that compacted piece, as upstream's do, so with R = 1 causal masks nothing.

    Args:
        indptr, indices: [MB + 1] and [nnz] integers, MB = ceil(M / R), of a BSR matrix with blocks R x C.
        q: [M, Hq, D]; k, v: [N, Hkv, D]; N a multiple of C, M any (the last block row may be partial).
        mask: [nnz, R, C] bool; packed_mask: for each block row the bits of its [rows, nnz_i * C] mask, row by row,
            lowest bit first, padded to whole bytes. Packed wins over mask, both over causal.

    Returns:
        out [M, Hq, D] and lse [M, Hq] (base 2), float64.
    """
    M, N = q.shape[0], k.shape[0]
    if N % C != 0:
        raise ValueError(f"N: expected a multiple of C = {C}, got {N}")
    ptr, blocks = indptr.tolist(), indices.tolist()
    if len(ptr) != -(-M // R) + 1 or ptr[0] != 0 or ptr[-1] != len(blocks) or ptr != sorted(ptr):
        raise ValueError(f"indptr: expected {-(-M // R) + 1} ascending values from 0 to nnz = {len(blocks)}, got {ptr}")
    for position, block in enumerate(blocks):
        if not 0 <= block < N // C:
            raise ValueError(f"indices: expected values in [0, {N // C}), got {block} at position {position}")
    outs, lses, byte = [], [], 0
    for i in range(len(ptr) - 1):
        rows = slice(i * R, min(M, (i + 1) * R))
        count = rows.stop - rows.start
        columns = [block * C + c for block in blocks[ptr[i] : ptr[i + 1]] for c in range(C)]
        custom = None
        if packed_mask is not None:
            bits = count * len(columns)
            custom = unpack_bits(packed_mask[byte:], bits).view(count, len(columns))
            byte += -(-bits // 8)
        elif mask is not None:
            # [blocks, R, C] to [R, blocks * C]: the blocks' columns side by side.
            custom = mask[ptr[i] : ptr[i + 1]].transpose(0, 1).reshape(R, len(columns))[:count]
        keep = prefill_mask(count, len(columns), custom_mask=custom, causal=causal, device=q.device)
        out, lse = _attend_heads(q[rows], k[columns], v[columns], keep, logits or Logits(), scale_q, scale_k, scale_v)
        outs.append(out)
        lses.append(lse)
    if not outs:
        return q.new_zeros((0, q.shape[1], v.shape[-1]), dtype=torch.float64), q.new_zeros((0, q.shape[1])).double()
    return torch.cat(outs), torch.cat(lses)


def variable_block_sparse(
    block_mask_map: torch.Tensor,
    block_row_sz: torch.Tensor,
    block_col_sz: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    logits: Logits | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Golden of VariableBlockSparseAttentionWrapper.

    For each key head and block row: attention of that row's queries, in every query head of the group, over the
    key blocks that the map selects, laid end to end in ascending order. causal, ROPE_LLAMA and ALIBI act inside that
    piece, as in :func:`block_sparse`. Blocks of size zero are legal and hold nothing.

    Args:
        block_mask_map: [Hkv, MB, NB] bool; block_row_sz: [Hkv, MB]; block_col_sz: [Hkv, NB], summing to qo_len and
            kv_len in every head.
        q: [Hq, qo_len, D]; k, v: [Hkv, kv_len, D].

    Returns:
        out [Hq, qo_len, D] and lse [Hq, qo_len] (base 2), float64.
    """
    Hq, qo_len, _ = q.shape
    Hkv, kv_len, Dvo = v.shape
    group = _group(Hq, Hkv)
    for name, sizes, length in (("block_row_sz", block_row_sz, qo_len), ("block_col_sz", block_col_sz, kv_len)):
        sums = sizes.sum(dim=-1).tolist()
        if bool((sizes < 0).any()) or any(s != length for s in sums):
            raise ValueError(f"{name}: expected sizes >= 0 that sum to {length} in every head, got sums {sums}")
    out = torch.empty((Hq, qo_len, Dvo), dtype=torch.float64, device=q.device)
    lse = torch.empty((Hq, qo_len), dtype=torch.float64, device=q.device)
    slopes = alibi_slopes(Hq)
    for hk in range(Hkv):
        row = 0
        for i, height in enumerate(block_row_sz[hk].tolist()):
            rows = slice(row, row + height)
            row += height
            selected = torch.repeat_interleave(block_mask_map[hk, i].bool(), block_col_sz[hk].long())
            keys, values = k[hk][selected], v[hk][selected]
            keep = prefill_mask(height, keys.shape[0], causal=causal, device=q.device)
            for h in range(hk * group, (hk + 1) * group):
                out[h, rows], lse[h, rows] = attend_head(
                    q[h, rows], keys, values, keep, logits or Logits(), float(slopes[h])
                )
    return out, lse
