# SPDX-License-Identifier: Apache-2.0
"""From a sparsity structure to the int32 tables that the block kernels read.

Every structure becomes two things:

* **query tiles**: up to ``block_m`` rows that share one stream of keys. A row is a (token, query head) pair; the heads
  of one kv head are stacked (``heads_per_tile`` of them, token major), since they read the same keys.
* **key streams**: for each query tile the keys in the order in which they count, cut into steps of ``block_n`` keys.
  Steps are full wherever the stream allows it, whatever the size of the blocks it came from.

How a step finds its keys is the plan's `keys` mode:

========  =================================================================================================
RANGE     block_n is a multiple of block size C >= 8 or divides it: a step is one range or a few whole blocks
PACKED    a block index a key: key n of the stream is indices[n // C] * C + n % C, any C, 1 included
RUNS      a table row a step: up to `segments` runs of consecutive keys (variable blocks, adjacent ones merged)
========  =================================================================================================

Block rows of one or a few rows waste a matrix tile. When such a structure is dense enough they are joined, and the
plan becomes one of coarse blocks with a bit a (row, key) pair: `plan_bsr` compares the time of the gather (bound by
L2 reads) with that of the coarse product (bound by arithmetic) under the two rates of `configs.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import torch

from . import configs
from .configs import BlockConfig
from .launcher import Launcher, Prepared, hooked

#: int32 fields of one query tile. kv_head is -1 where all kv heads share the structure (then a grid dimension has it).
TILE_FIELDS = ("token", "rows", "kv_head", "stream", "kv_len", "local_row", "qo_len", "mask_word")
_TOKEN, _ROWS, _KV_HEAD, _STREAM, _KV_LEN, _LOCAL_ROW, _QO_LEN, _MASK_WORD = range(len(TILE_FIELDS))

RANGE, PACKED, RUNS, DENSE = 0, 1, 2, 3
MASK_NONE, MASK_LOCAL, MASK_BY_KEY = 0, 1, 2

#: More runs a step than this are cheaper as a list of keys than as a chain of selects.
MAX_SEGMENTS = 16


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """One planned block-sparse attention. Immutable; holds every device tensor that its launches read.

    Attributes:
        tiles: int32 [T, 8], fields `TILE_FIELDS`, longest stream first within a kv head.
        stream: int32. RANGE and PACKED: block indices. RUNS: [steps, 2 * segments] rows of (first lane, key - lane).
        mask_words: int32 bits of (row, key), 32 keys a word, rows aligned to 64 keys; None without per-element masks.
        tokens, num_keys: lengths of q and of k.
        num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo: as planned.
        keys: RANGE, PACKED or RUNS.  block_cols: C of RANGE and PACKED.  segments: runs a step of RUNS.
        mask: MASK_NONE, MASK_LOCAL (bit by position in the stream) or MASK_BY_KEY (bit by key).
        mask_stride: words a mask row; 0 where it follows from the stream's length.
        heads_per_tile: query heads stacked in one tile.
        causal, pos_encoding: act on local coordinates (see `plan_bsr`).
        config: pinned tile sizes, warps and stages.
        shared_structure: one structure for all kv heads.
        slopes: ALiBi slopes, float32 [Hq], or None.
        flags: int32, one a work item, all 0 between launches; None where no mask depends on the row. They make a plan's
            launches one another's successors: one stream at a time.
        launches: prepared launches of the problems that were run with this plan.
        kept_pairs: (row, key) pairs kept over all query heads, masks not counted: for reports of TFLOP/s.
    """

    tiles: torch.Tensor
    stream: torch.Tensor
    mask_words: torch.Tensor | None
    tokens: int
    num_keys: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim_qk: int
    head_dim_vo: int
    keys: int
    block_cols: int
    segments: int
    mask: int
    mask_stride: int
    heads_per_tile: int
    causal: bool
    pos_encoding: str
    config: BlockConfig
    kept_pairs: int
    shared_structure: bool
    slopes: torch.Tensor | None
    flags: torch.Tensor | None
    launches: dict[tuple[object, ...], list[Prepared]] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, Any]:
        """Pickled and deep-copied without the prepared launches, which hold what only this process has."""
        return {**self.__dict__, "launches": {}}

    @property
    def group(self) -> int:
        """Query heads that share one kv head."""
        return self.num_qo_heads // self.num_kv_heads


@functools.cache
def alibi_slopes(num_heads: int, device: torch.device) -> torch.Tensor:
    """Standard ALiBi slopes, float32 [num_heads]: 2^(-8 i / n) for the largest power of two n <= num_heads, then every
    other one of the sequence for 2 n (Press et al. 2022). Made once a head count and device, since a copy from the host
    may not happen in a captured graph."""
    n = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / n) for i in range(num_heads - n)]
    return torch.tensor(slopes, dtype=torch.float32, device=device)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@functools.lru_cache(maxsize=256)
def _heads_per_tile(heights: tuple[tuple[int, int], ...], group: int, block_m: int) -> int:
    """How many of the group's heads a tile stacks: as many as leave the fewest tiles, the fewest heads among equals.

    Args:
        heights: (rows of a block row, how many block rows have so many).
    """

    def tiles(heads: int) -> int:
        return sum(n * _ceil_div(rows, block_m // heads) for rows, n in heights) * _ceil_div(group, heads)

    return min(range(1, min(group, block_m) + 1), key=lambda heads: (tiles(heads), heads))


#: A table of query tiles without what their streams say, and the block row of each tile (None: tile i is block row i).
_Cut = tuple[np.ndarray, np.ndarray | None]


def _cut_rows(row_start: np.ndarray, row_count: np.ndarray, tokens_per_tile: int) -> _Cut:
    """Cut block rows into query tiles of at most tokens_per_tile rows."""
    owner, height, local = None, row_count, None
    if row_count.max(initial=0) > tokens_per_tile:
        pieces = -(-row_count // tokens_per_tile)
        owner = np.repeat(np.arange(row_count.size), pieces)
        local = (np.arange(owner.size) - (np.cumsum(pieces) - pieces)[owner]) * tokens_per_tile
        height = height[owner]
        row_count = np.minimum(height - local, tokens_per_tile)
        row_start = row_start[owner] + local
    table = np.zeros((row_count.size, len(TILE_FIELDS)), dtype=np.int32)
    table[:, _TOKEN], table[:, _ROWS], table[:, _QO_LEN] = row_start, row_count, height
    if local is not None:
        table[:, _LOCAL_ROW] = local
    return table, owner


@functools.lru_cache(maxsize=64)
def _cut_evenly(M: int, R: int, tokens_per_tile: int) -> _Cut:
    """`_cut_rows` of M rows in block rows of R."""
    row_start = np.arange(0, M, R, dtype=np.int64)
    table, owner = _cut_rows(row_start, np.minimum(M - row_start, R), tokens_per_tile)
    table.flags.writeable = False
    return table, owner


def _even_cut(M: int, R: int, tokens_per_tile: int) -> _Cut:
    """`_cut_evenly`, kept for the next plan unless it is large."""
    small = M // min(R, tokens_per_tile) <= 1 << 14
    return (_cut_evenly if small else _cut_evenly.__wrapped__)(M, R, tokens_per_tile)


def _query_tiles(
    cut: _Cut,
    stream: np.ndarray,
    kv_len: np.ndarray,
    kv_head: np.ndarray | None = None,
    mask_word: np.ndarray | None = None,
) -> torch.Tensor:
    """The table of query tiles, ordered by kv head (its keys stay in L2), then longest stream first.

    stream, kv_len, kv_head, mask_word: of the block rows; None for zeros.
    """
    template, owner = cut
    table = template.copy()
    fields = {_STREAM: stream, _KV_LEN: kv_len, _KV_HEAD: kv_head, _MASK_WORD: mask_word}
    for field, values in fields.items():
        if values is not None:
            table[:, field] = values if owner is None else values[owner]
    longest_first = -table[:, _KV_LEN]
    if kv_head is None:
        order = longest_first.argsort(kind="stable")
    else:
        order = np.lexsort((longest_first, table[:, _KV_HEAD]))
    table = table[order]
    if table.size and table[:, _ROWS].min() <= 0:
        table = table[table[:, _ROWS] > 0]
    return torch.from_numpy(table)


@functools.cache
def _launcher(kernel: str) -> Launcher:
    from .kernels import mask, runs

    return Launcher(getattr(mask if kernel == "draw_bits_kernel" else runs, kernel))


_planners: dict[tuple[object, ...], Prepared | None] = {}


def _run_planner(
    kernel: str, works: int, tensors: dict[str, torch.Tensor], sizes: tuple[int, ...], constants: dict[str, int],
    device: torch.device,
) -> None:  # fmt: skip
    """Run a planning kernel, prepared where one of the same sizes has run before."""
    values = list(tensors.values())
    key = (kernel, works, sizes, *constants.values(), device, *(x.data_ptr() % 16 == 0 for x in values))
    prepared = None if hooked() else _planners.get(key)
    if prepared is not None:
        prepared(values)
        return
    if len(_planners) >= 256:
        _planners.clear()
    _planners[key] = _launcher(kernel)(
        works, (*values, *sizes), constants, {"num_warps": 4}, device, fresh=tuple(tensors)
    )


def work_items(num_tiles: int, group: int, heads: int, num_kv_heads: int, shared: bool) -> int:
    """Programs (portable kernel) or work items (Hopper kernel) of a launch."""
    return num_tiles * _ceil_div(group, heads) * (num_kv_heads if shared else 1)


def _flags(items: int, row_masked: bool, device: torch.device) -> torch.Tensor | None:
    return torch.zeros(items, dtype=torch.int32, device=device) if row_masked else None


def _to_device(table: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy to the device. From fresh pageable memory the copy has read its source when it returns, so no later plan
    can overwrite what an earlier one still sends."""
    return table.to(device)


def pack_rows(bits: torch.Tensor) -> torch.Tensor:
    """Pack bool [..., n] into int32 words [..., ceil(n / 32)], bit i of word w being element 32 * w + i."""
    n = bits.shape[-1]
    words = _ceil_div(n, 32)
    if words * 32 != n:
        bits = torch.nn.functional.pad(bits, (0, words * 32 - n))
    grouped = bits.reshape(*bits.shape[:-1], words, 4, 8).to(torch.uint8)
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=bits.device)
    packed = (grouped * weights).sum(-1, dtype=torch.uint8)
    return packed.view(torch.int32).squeeze(-1)


def _unpack_segments(packed: torch.Tensor, row_bits: np.ndarray, rows: int) -> tuple[torch.Tensor, np.ndarray]:
    """Repack byte-padded little-endian segments ([rows, row_bits[i]] each) to 32-bit words, rows aligned to 64 keys.

    Returns:
        int32 words on the device of `packed`, and the first word of each segment.
    """
    seg_bytes = -(-(row_bits.astype(np.int64) * rows) // 8)
    byte_start = np.cumsum(seg_bytes) - seg_bytes
    row_words = -(-row_bits.astype(np.int64) // 64) * 2
    word_start = np.cumsum(row_words * rows) - row_words * rows
    total_words = int((row_words * rows).sum())
    if total_words >= 2**31:
        raise ValueError(f"mask: expected fewer than 2**31 words of 32 bits, got {total_words}")
    # Four words more: a step of 128 keys may read past the last row's end.
    out = torch.zeros(total_words + 4, dtype=torch.int32, device=packed.device)
    device = packed.device
    words = torch.from_numpy(row_words * rows).to(device)
    chunk = 1 << 20
    for begin in range(0, total_words, chunk):  # bounds the temporaries at 32 bits a word
        end = min(begin + chunk, total_words)
        word = torch.arange(begin, end, device=device)
        starts = torch.from_numpy(word_start).to(device)
        seg = torch.searchsorted(starts + words, word, right=True)
        within = word - starts[seg]
        rw = torch.from_numpy(row_words).to(device)[seg]
        bits_of_row = torch.from_numpy(row_bits.astype(np.int64)).to(device)[seg]
        row, col_word = within // rw, within % rw
        col = col_word.unsqueeze(-1) * 32 + torch.arange(32, device=device)
        bit = row.unsqueeze(-1) * bits_of_row.unsqueeze(-1) + col
        byte = torch.from_numpy(byte_start).to(device)[seg].unsqueeze(-1) + bit // 8
        inside = col < bits_of_row.unsqueeze(-1)
        value = packed[torch.where(inside, byte, 0)].to(torch.int32) >> (bit % 8).to(torch.int32)
        keep = (value & 1).bool() & inside
        out[begin:end] = pack_rows(keep).reshape(-1)
    return out, word_start


def plan_bsr(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    *,
    M: int,
    N: int,
    R: int,
    C: int,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim_qk: int,
    head_dim_vo: int,
    q_dtype: torch.dtype,
    packed_mask: torch.Tensor | None = None,
    causal: bool = False,
    pos_encoding: str = "NONE",
    device: torch.device,
    config: BlockConfig | None = None,
) -> BlockPlan:
    """Plan attention over a block-sparse row structure of (R, C) blocks.

    Args:
        indptr: int32 [ceil(M / R) + 1], validated.
        indices: int32 [nnz], validated, 0 <= index < N // C; order and repetition are kept.
        M, N, R, C: rows, columns, rows of a block, columns of a block.
        packed_mask: uint8; one segment a block row, padded to whole bytes, little bit order, row-major [R, nnz_i * C].
            Overrides `causal`.
        causal, pos_encoding: act on the compacted coordinates of each block row, bottom-right aligned a block row.
        device: where the plan will run.
        config: in place of the pinned one, for measurements.
    """
    group = num_qo_heads // num_kv_heads
    starts = indptr.to("cpu", torch.int32).numpy()
    counts = starts[1:] - starts[:-1]
    block_rows = counts.size
    longest = int(counts.max(initial=0)) * C
    if longest >= 2**31:
        raise ValueError(f"indices: expected fewer than 2**31 keys in a block row, got {longest}")
    last = M - (block_rows - 1) * R  # rows of the last block row
    if packed_mask is not None:
        causal = False
    if R == 1:
        causal = False  # a single row's bottom-right triangle is the whole row
    coarse = None
    if packed_mask is None and not causal and pos_encoding == "NONE" and R * group < configs.COARSEN_BELOW_ROWS:
        coarse = _coarsen(
            counts, indices, M, N, R, C, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo, q_dtype, device, config
        )
    kept = (int(starts[-1]) * R - int(counts[-1]) * (R - last)) * C * num_qo_heads if block_rows else 0
    common: dict[str, Any] = {
        "tokens": M,
        "num_keys": N,
        "num_qo_heads": num_qo_heads,
        "num_kv_heads": num_kv_heads,
        "head_dim_qk": head_dim_qk,
        "head_dim_vo": head_dim_vo,
        "causal": causal,
        "pos_encoding": pos_encoding,
        "kept_pairs": kept,
        "segments": 1,
        "shared_structure": True,
        "slopes": alibi_slopes(num_qo_heads, device) if pos_encoding == "ALIBI" else None,
    }
    if coarse is not None:
        return BlockPlan(**coarse, **common)

    mask_words, mask_word = None, None
    if packed_mask is not None:
        mask_words, mask_word = _unpack_segments(packed_mask.to(device), counts * C, R)
    config = config or configs.block_config(
        rows=R * group,
        block_cols=C,
        head_dim_qk=head_dim_qk,
        head_dim_vo=head_dim_vo,
        dtype=q_dtype,
        masked=packed_mask is not None,
        rope=pos_encoding == "ROPE_LLAMA",
    )
    heads = _heads_per_tile(((R, block_rows - 1), (last, 1)), group, config.block_m)
    cut = _even_cut(M, R, config.block_m // heads)
    tiles = _query_tiles(cut, starts[:-1], counts * C, mask_word=mask_word)
    return BlockPlan(
        tiles=_to_device(tiles, device),
        stream=indices.to(device=device, dtype=torch.int32),
        mask_words=mask_words,
        keys=RANGE if configs.bulk_copies(C, config.block_n) else PACKED,
        block_cols=C,
        mask=MASK_LOCAL if packed_mask is not None else MASK_NONE,
        mask_stride=0,
        heads_per_tile=heads,
        config=config,
        flags=_flags(
            work_items(len(tiles), group, heads, num_kv_heads, True), causal or packed_mask is not None, device
        ),
        **common,
    )


def _coarsen(
    counts: np.ndarray,
    indices: torch.Tensor,
    M: int,
    N: int,
    R: int,
    C: int,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim_qk: int,
    head_dim_vo: int,
    q_dtype: torch.dtype,
    device: torch.device,
    override: BlockConfig | None,
) -> dict[str, Any] | None:
    """Join block rows into tiles of matrix size with a bit a (token, key) pair, if that is the faster of the two.

    Returns None where the gather wins, where a row repeats a column (a bit can't count twice), or where the bits would
    not fit.
    """
    group = num_qo_heads // num_kv_heads
    config = override or configs.bitmask_config(head_dim_qk=head_dim_qk, head_dim_vo=head_dim_vo, dtype=q_dtype)
    heads = min(group, config.block_m)
    tokens_per_tile = config.block_m // heads
    nnz = int(counts.sum())
    pairs = nnz * R * C
    elem = q_dtype.itemsize
    gather_s = pairs / max(min(R, config.block_m), 1) * num_kv_heads * (head_dim_qk + head_dim_vo) * elem
    gather_s /= configs.L2_GATHER_BYTES_PER_S
    head_chunks = _ceil_div(group, heads)
    step_flop = 2.0 * (head_dim_qk + head_dim_vo) * config.block_m * config.block_n * num_kv_heads * head_chunks

    def coarse_s(steps: int) -> float:
        return steps * step_flop / configs.BITMASK_FLOP_PER_S

    block_n = config.block_n
    coarse_rows, key_tiles = _ceil_div(M, tokens_per_tile), _ceil_div(N, block_n)
    mask_stride = key_tiles * (block_n // 32)
    if coarse_rows * tokens_per_tile * mask_stride >= 2**31 or nnz == 0:
        return None
    # A step is needed wherever its tile holds one pair, so there are at most min(all, nnz * blocks) of them: cheap to
    # rule the coarse form out before the bits are drawn.
    density = pairs / max(M * N, 1)
    expected = coarse_rows * key_tiles * (1.0 - (1.0 - min(density, 1.0)) ** (tokens_per_tile * block_n / (R * C)))
    if coarse_s(int(expected)) > gather_s:
        return None

    words = torch.zeros(coarse_rows * tokens_per_tile, mask_stride, dtype=torch.int32, device=device)
    repeated = torch.zeros(1, dtype=torch.int32, device=device)
    starts_on_device = _to_device(torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)), device)
    tensors = {"indptr": starts_on_device, "indices": indices.to(device), "words": words, "repeated": repeated}
    _run_planner("draw_bits_kernel", counts.size, tensors, (M, mask_stride), {"R": R, "C": C, "BLOCK": 128}, device)
    nonempty = (words.view(coarse_rows, tokens_per_tile, key_tiles, block_n // 32) != 0).any(3).any(1)
    read = torch.cat([nonempty.sum(1, dtype=torch.int32), repeated]).cpu().numpy()
    steps = read[:-1].astype(np.int64)
    if read[-1]:
        return None  # some row repeats a column
    if coarse_s(int(steps.sum())) > gather_s:
        return None
    stream = nonempty.nonzero()[:, 1].to(torch.int32)
    starts = np.cumsum(steps) - steps
    first_word = np.arange(coarse_rows, dtype=np.int64) * (tokens_per_tile * mask_stride)
    cut = _even_cut(M, tokens_per_tile, tokens_per_tile)
    tiles = _query_tiles(cut, starts, steps * block_n, mask_word=first_word)
    return {
        "tiles": _to_device(tiles, device),
        "stream": stream,
        "mask_words": words.reshape(-1),
        "keys": RANGE,
        "block_cols": block_n,
        "mask": MASK_BY_KEY,
        "mask_stride": mask_stride,
        "heads_per_tile": heads,
        "config": config,
        "flags": _flags(work_items(len(tiles), group, heads, num_kv_heads, True), True, device),
    }


def plan_variable(
    block_mask_map: torch.Tensor,
    block_row_sz: torch.Tensor,
    block_col_sz: torch.Tensor,
    *,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim_qk: int,
    head_dim_vo: int,
    q_dtype: torch.dtype,
    causal: bool = False,
    pos_encoding: str = "NONE",
    device: torch.device,
    config: BlockConfig | None = None,
) -> BlockPlan:
    """Plan attention over blocks of varying size, one structure a kv head.

    Args:
        block_mask_map: bool [Hk, MB, NB].
        block_row_sz: int32 [Hk, MB]; block_col_sz: int32 [Hk, NB]; zero sizes are legal.
        causal, pos_encoding: act on the compacted coordinates of each block row.
        config: in place of the pinned one, for measurements.
    """
    group = num_qo_heads // num_kv_heads
    rows = block_row_sz.to("cpu", torch.int64).numpy()
    col_end = np.cumsum(block_col_sz.to("cpu", torch.int64).numpy(), axis=1)
    heads_kv, block_rows, block_cols = block_mask_map.shape
    num_keys = int(col_end[0, -1]) if block_cols else 0
    row_start = np.cumsum(rows, axis=1) - rows
    works = heads_kv * block_rows
    config = config or configs.block_config(
        rows=max(1, int(rows[0].sum()) // max(block_rows, 1)) * group,
        block_cols=1,
        head_dim_qk=head_dim_qk,
        head_dim_vo=head_dim_vo,
        dtype=q_dtype,
        masked=False,
        rope=pos_encoding == "ROPE_LLAMA",
    )
    block_n = config.block_n

    block_map = block_mask_map.to(device=device, dtype=torch.bool).contiguous().view(torch.uint8)
    ends = _to_device(torch.from_numpy(col_end.astype(np.int32)), device)
    run_start = torch.empty(works, block_cols, dtype=torch.int32, device=device)
    run_before = torch.empty_like(run_start)
    summary = torch.empty(3, works, dtype=torch.int32, device=device)
    search = {"ROUNDS": block_cols.bit_length(), "BLOCK": 128}
    if works:
        tensors = {"block_map": block_map, "col_end": ends, "run_start": run_start, "run_before": run_before,
                   "summary": summary}  # fmt: skip
        _run_planner("find_runs_kernel", works, tensors, (block_rows, block_cols), {"BN": block_n, **search}, device)
    kv_len, _, widest = summary.cpu().to(torch.int64).numpy()
    steps = -(-kv_len // block_n)
    most = int(widest.max(initial=0))
    if most <= MAX_SEGMENTS:
        keys, segments = RUNS, 1 << max(most - 1, 0).bit_length()
        stream_begin, entries = np.cumsum(steps) - steps, int(steps.sum()) * 2 * segments
    else:  # tiny blocks: a list of keys is no longer than the table would be
        keys, segments = PACKED, 0
        stream_begin, entries = np.cumsum(kv_len) - kv_len, int(kv_len.sum())
    if entries >= 2**31:
        raise ValueError(f"block_mask_map: expected tables below 2**31 entries, got {entries}")
    stream = torch.empty(max(entries, 1), dtype=torch.int32, device=device)
    begin = _to_device(torch.from_numpy(stream_begin.astype(np.int32)), device)
    if entries:
        tensors = {"run_start": run_start, "run_before": run_before, "summary": summary, "begin": begin,
                   "stream": stream}  # fmt: skip
        constants = {"BN": block_n, "SEGMENTS": segments, **search}
        _run_planner("step_table_kernel", works, tensors, (block_cols,), constants, device)

    flat_rows = rows.reshape(-1)
    values, times = np.unique(flat_rows, return_counts=True)
    heads = _heads_per_tile(tuple(zip(values.tolist(), times.tolist())), group, config.block_m)
    cut = _cut_rows(row_start.reshape(-1), flat_rows, config.block_m // heads)
    tiles = _query_tiles(cut, stream_begin, kv_len, kv_head=np.repeat(np.arange(heads_kv), block_rows))
    return BlockPlan(
        tiles=_to_device(tiles, device),
        stream=stream,
        mask_words=None,
        tokens=int(rows[0].sum()),
        num_keys=num_keys,
        num_qo_heads=num_qo_heads,
        num_kv_heads=num_kv_heads,
        head_dim_qk=head_dim_qk,
        head_dim_vo=head_dim_vo,
        keys=keys,
        block_cols=1,
        segments=max(segments, 1),
        mask=MASK_NONE,
        mask_stride=0,
        heads_per_tile=heads,
        causal=causal,
        pos_encoding=pos_encoding,
        config=config,
        kept_pairs=int((kv_len * flat_rows).sum()) * group,
        shared_structure=False,
        slopes=alibi_slopes(num_qo_heads, device) if pos_encoding == "ALIBI" else None,
        flags=_flags(work_items(len(tiles), group, heads, num_kv_heads, False), causal, device),
    )
