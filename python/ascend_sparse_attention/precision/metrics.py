# SPDX-License-Identifier: Apache-2.0
"""Streaming comparison of an output with a float64 golden.

The accumulator takes blocks of (actual, golden) with their place in the whole output, works in float64 and keeps sums,
maxima, counts and the offending elements. Rules (`rules.py`) turn what it kept into verdicts.

Two goldens are in play. `golden64` is the float64 value itself; the operator description's rule measures against it.
`g` is golden64 rounded to the candidate's dtype and taken back to float64; cann-bench measures against that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from .thresholds import Limits

#: Added to abs(golden) in the denominator of the relative error (operator description, section 4).
EPSILON = 1e-7

#: Elements handled at once: small enough for the float64 temporaries to stay in the cache.
CHUNK_ELEMENTS = 1 << 17

REGIONS = ("small", "cancel", "normal")

# Histogram of the relative error: quarter decades from 1e-10 to 1e4, below and above in the outer bins.
HISTOGRAM_EDGES = tuple(10.0 ** (e / 4) for e in range(-40, 17))

# Decades of abs(golden): exponents of 10 from -46 (below float32's subnormals) to 39; golden 0 has a bin of its own.
_LOWEST_DECADE, _HIGHEST_DECADE = -46, 39

_HEAT_BINS = 256


def count_true(mask: torch.Tensor) -> int:
    """Elements of a bool CPU tensor that hold; torch's own sum converts to int64 first and is an order slower."""
    return int(np.count_nonzero(mask.numpy()))


def _all_true(mask: torch.Tensor) -> bool:
    return count_true(mask) == mask.numel()


@dataclass(frozen=True)
class Offender:
    """One element: its index in the output and the values that met there."""

    index: tuple[int, ...]
    actual: float
    golden: float
    rounded_golden: float
    relative_error: float


@dataclass
class Offenders:
    """How many elements broke a rule, the first of them in row-major order and the worst."""

    count: int = 0
    first: Offender | None = None
    worst: Offender | None = None
    _first_flat: int = -1


@dataclass
class ErrorSums:
    """Relative errors of a set of elements."""

    count: int = 0
    sums: list[float] = field(default_factory=list)
    maximum: float = -math.inf
    bad: int = 0

    def add(self, errors: torch.Tensor, mask: torch.Tensor | None, bad_above: float) -> None:
        """Take the errors where `mask` holds, or all of them."""
        if mask is not None:
            errors = errors[mask]
        if errors.numel() == 0:
            return
        self.count += errors.numel()
        self.sums.append(float(errors.sum()))
        chunk_max = float(errors.max())
        # max() of Python drops a NaN or keeps it depending on the order; here a NaN must stay.
        if math.isnan(chunk_max) or math.isnan(self.maximum):
            self.maximum = math.nan
        else:
            self.maximum = max(self.maximum, chunk_max)
        if not chunk_max <= bad_above:
            self.bad += count_true(~(errors <= bad_above))

    @property
    def mere(self) -> float:
        """Mean relative error; NaN where there is no element, so that no comparison with it passes."""
        if self.count == 0:
            return math.nan
        total = sum(self.sums) if not all(map(math.isfinite, self.sums)) else math.fsum(self.sums)
        return total / self.count

    @property
    def mare(self) -> float:
        """Maximum relative error; NaN where there is no element."""
        return self.maximum if self.count else math.nan


@dataclass
class Region:
    """One region of cann-bench's second stage. `native` is None until a native reference was given."""

    total: int = 0
    errors: int = 0
    native: int | None = None
    offenders: Offenders = field(default_factory=Offenders)


@dataclass
class NonFinite:
    """NaN and Inf, counted against g before any filtering."""

    nan_in_actual: Offenders = field(default_factory=Offenders)  # golden is a number
    nan_in_golden: Offenders = field(default_factory=Offenders)  # actual is a number
    inf_one_sided: Offenders = field(default_factory=Offenders)  # and not excused by `saturate`
    inf_opposite: Offenders = field(default_factory=Offenders)
    saturated: int = 0  # one-sided, excused: the finite side is within one step of the largest value
    matched_nan: int = 0
    matched_inf: int = 0

    def faults(self) -> dict[str, Offenders]:
        return {
            "NaN where the golden is a number": self.nan_in_actual,
            "a number where the golden is NaN": self.nan_in_golden,
            "Inf of the opposite sign": self.inf_opposite,
            "Inf on one side only": self.inf_one_sided,
        }


@dataclass
class CannView:
    """What cann-bench's compare_tensors computes of one chunk, element by element."""

    actual: torch.Tensor  # one-sided Inf replaced by the largest finite value
    golden: torch.Tensor  # g, likewise
    difference: torch.Tensor
    relative_error: torch.Tensor
    valid: torch.Tensor
    small: torch.Tensor
    cancel: torch.Tensor
    normal: torch.Tensor
    nan_mismatches: int
    inf_sign_mismatches: int
    golden_inf_replaced: int


def cann_view(actual: torch.Tensor, g: torch.Tensor, limits: Limits) -> CannView:
    """cann-bench's view of float64 `actual` against `g` (already rounded to the candidate's dtype)."""
    nan_mismatches = inf_sign_mismatches = golden_inf_replaced = 0
    both_inf: torch.Tensor | None = None
    if not (_all_true(actual.isfinite()) and _all_true(g.isfinite())):
        nan_mismatches = count_true(actual.isnan() != g.isnan())
        inf_actual, inf_g = actual.isinf(), g.isinf()
        both_inf = inf_actual & inf_g
        inf_sign_mismatches = count_true(both_inf & (actual.sign() != g.sign()))
        golden_inf_replaced = count_true(inf_g & ~inf_actual & ~actual.isnan())
        actual, g = (
            torch.where(inf_actual & ~inf_g, actual.sign() * limits.largest, actual),
            torch.where(inf_g & ~inf_actual, g.sign() * limits.largest, g),
        )
    difference = (actual - g).abs_()
    size = g.abs()
    relative_error = difference / (size + EPSILON)
    # The error is no negative number, so this leaves NaN and Inf out.
    valid = relative_error < math.inf
    if both_inf is not None:
        valid &= ~both_inf
    small = (size < limits.small_value) & valid
    cancel = (actual.abs() < limits.cancel_boundary) & (size < limits.cancel_boundary) & valid & ~small
    normal = valid & ~small & ~cancel
    return CannView(
        actual,
        g,
        difference,
        relative_error,
        valid,
        small,
        cancel,
        normal,
        nan_mismatches,
        inf_sign_mismatches,
        golden_inf_replaced,
    )


def ordered_integers(values: torch.Tensor) -> np.ndarray:
    """Map floats to integers that grow with the value, +0 and -0 to the same one, as uint64.

    Neighbouring values of the dtype differ by 1, across zero too. NaN has no place in this order: filter it first.
    """
    width = values.element_size()
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]
    bits = values.contiguous().view(integers).numpy().astype(np.int64)
    sign_bit = 1 << (8 * width - 1)
    magnitude = (bits & (sign_bit - 1)).astype(np.uint64)
    middle = np.uint64(1 << 63)
    ordered: np.ndarray = np.where(bits < 0, middle - magnitude, middle + magnitude)
    return ordered


def ulp_distance(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    """Steps of the dtype between two tensors of one dtype, element by element (uint64). NaN must be filtered first."""
    x, y = ordered_integers(a), ordered_integers(b)
    distance: np.ndarray = np.maximum(x, y) - np.minimum(x, y)
    return distance


class HeatMap:
    """Largest relative error by head and position (batch-major query position), binned to at most 256 x 256."""

    def __init__(self, shape: Sequence[int], layout: str) -> None:
        batch, second, third = shape[0], shape[1], shape[2]
        self.layout = layout
        self.sequence, self.heads = (second, third) if layout == "BSND" else (third, second)
        self.positions = batch * self.sequence
        self.rows = min(self.heads, _HEAT_BINS)
        self.columns = min(self.positions, _HEAT_BINS)
        self.cells = np.zeros((max(self.rows, 1), max(self.columns, 1)), dtype=np.float64)

    def add(self, row_errors: torch.Tensor, indices: tuple[np.ndarray, ...]) -> None:
        """Take the largest error of each output row (Dv elements) with the row's (b, second, third) index."""
        b, second, third = indices
        s1, head = (second, third) if self.layout == "BSND" else (third, second)
        position = b * self.sequence + s1
        row = head * self.rows // self.heads
        column = position * self.columns // self.positions
        np.maximum.at(self.cells, (row, column), np.nan_to_num(row_errors.numpy(), nan=np.inf))


class Accumulator:
    """Compares an output with its golden, block by block.

    Args:
        limits: limits of the candidate's dtype.
        shape: shape of the whole output.
        saturate: excuse an Inf on one side where the other is within one step of the dtype's largest value.
        layout: "BSND" or "BNSD" to keep a heat map of a 4-dimensional output, else None.
    """

    def __init__(
        self, limits: Limits, shape: Sequence[int], *, saturate: bool = False, layout: str | None = None
    ) -> None:
        self.limits = limits
        self.shape = tuple(int(n) for n in shape)
        self.saturate = saturate
        self.elements = 0
        self.zero_golden = 0
        self.nonzero_in_zero_golden = Offenders()  # actual is not 0 in a row whose golden is all 0
        self.nonfinite = NonFinite()
        self.spec = ErrorSums()  # every element but matched NaN and Inf: a NaN poisons it, as the formula says
        self.spec_comparable = ErrorSums()
        self.spec_large = ErrorSums()  # abs(golden64) >= s
        self.spec_offenders = Offenders()
        self.floor = ErrorSums()
        self.floor_large = ErrorSums()
        self.cann = ErrorSums()
        self.cann_nan_mismatches = 0
        self.cann_inf_sign_mismatches = 0
        self.cann_golden_inf_replaced = 0
        self.regions = {name: Region() for name in REGIONS}
        bins = _HIGHEST_DECADE - _LOWEST_DECADE + 2
        self.decade_total = np.zeros(bins, dtype=np.int64)
        self.decade_bad = np.zeros(bins, dtype=np.int64)
        self.decade_mare = np.zeros(bins, dtype=np.float64)
        self.histogram = np.zeros(len(HISTOGRAM_EDGES) + 1, dtype=np.int64)  # exact hits stand in the first bin too
        self._edges = torch.tensor(HISTOGRAM_EDGES, dtype=torch.float64)
        self.exact = 0
        self.ulp_max = 0
        self.ulp_sum = 0.0
        self.ulp_count = 0
        self.heat = HeatMap(self.shape, layout) if layout is not None and len(self.shape) == 4 else None

    def update(self, actual: torch.Tensor, golden: torch.Tensor, origin: Sequence[int] | None = None) -> torch.Tensor:
        """Add a block.

        Args:
            actual: block of the output, in the dtype of `limits` (any strides).
            golden: the same shape, float64 or a float dtype that converts to it exactly.
            origin: index of the block's first element in the whole output; None where the block is the whole.

        Returns:
            g of the block, rounded and in the candidate's storage dtype, for a later `update_native`.

        Raises:
            ValueError: shapes or dtypes do not fit.
        """
        origin = tuple(origin) if origin is not None else (0,) * actual.dim()
        self._check_block(actual, golden, origin)
        if not golden.is_floating_point():
            raise ValueError(f"golden: expected a float dtype, got {golden.dtype}")
        actual_flat, golden_flat = actual.reshape(-1), golden.reshape(-1)
        rounded = torch.empty(golden_flat.shape, dtype=self.limits.storage)
        for chunk in self._chunks(actual):
            rounded[chunk] = self._update_chunk(
                actual_flat[chunk], golden_flat[chunk].double(), chunk, actual.shape, origin
            )
        return rounded.view(golden.shape)

    def update_native(self, actual: torch.Tensor, g: torch.Tensor, native: torch.Tensor) -> None:
        """Add the native reference's errors of a block: `g` as `update` returned it, native in the io dtype."""
        if native.shape != actual.shape or g.shape != actual.shape:
            raise ValueError(f"native: expected shape {tuple(actual.shape)}, got {tuple(native.shape)}")
        actual_flat, g_flat, native_flat = actual.reshape(-1), g.reshape(-1), native.reshape(-1)
        for chunk in self._chunks(actual):
            view = cann_view(actual_flat[chunk].double(), g_flat[chunk].double(), self.limits)
            difference = (native_flat[chunk].double() - view.golden).abs()
            bad = difference / (view.golden.abs() + EPSILON) > self.limits.mare_limit
            for name, mask in (
                ("small", view.small & (difference > self.limits.small_error)),
                ("cancel", view.cancel & bad),
                ("normal", view.normal & bad),
            ):
                region = self.regions[name]
                region.native = (region.native or 0) + count_true(mask)

    def _check_block(self, actual: torch.Tensor, golden: torch.Tensor, origin: tuple[int, ...]) -> None:
        if actual.shape != golden.shape:
            raise ValueError(f"golden: expected shape {tuple(actual.shape)} (actual's), got {tuple(golden.shape)}")
        if actual.dtype != self.limits.storage:
            raise ValueError(f"actual: expected dtype {self.limits.storage}, got {actual.dtype}")
        if len(origin) != len(self.shape) or any(o + n > size for o, n, size in zip(origin, actual.shape, self.shape)):
            raise ValueError(f"block at {origin} of shape {tuple(actual.shape)} does not fit in {self.shape}")

    @staticmethod
    def _chunks(block: torch.Tensor) -> Iterator[slice]:
        row = block.shape[-1] if block.dim() else 1
        step = max(CHUNK_ELEMENTS // row * row, row) if 0 < row <= CHUNK_ELEMENTS else CHUNK_ELEMENTS
        for start in range(0, block.numel(), step):
            yield slice(start, min(start + step, block.numel()))

    def _update_chunk(
        self, actual: torch.Tensor, golden64: torch.Tensor, chunk: slice, block: torch.Size, origin: tuple[int, ...]
    ) -> torch.Tensor:
        place = _Place(chunk.start, tuple(block), origin, self.shape)
        c = actual.double()
        g = self.limits.round(golden64)
        values = (c, golden64, g)
        self.elements += c.numel()
        compared, saturated = self._update_nonfinite(c, g, values, place)
        view = cann_view(c, g, self.limits)
        self._update_cann(view, values, place)
        error = self._update_spec(view.actual if saturated is not None else c, compared, saturated, values, place)
        self._update_zero_rows(c, golden64, block, values, place)
        self._update_decades(golden64, view)
        self._update_ulp(actual, c, g)
        if self.heat is not None and c.numel() % block[-1] == 0:
            rows = error.view(-1, block[-1])
            first = chunk.start // block[-1]
            lead = np.unravel_index(np.arange(first, first + rows.shape[0]), tuple(block[:-1]))
            self.heat.add(rows.amax(dim=1), tuple(index + o for index, o in zip(lead, origin)))
        return g.to(self.limits.storage)

    def _update_nonfinite(
        self, c: torch.Tensor, g: torch.Tensor, values: tuple[torch.Tensor, ...], place: _Place
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Count NaN and Inf. Returns the elements that are compared (None: all) and those that `saturate` excused."""
        if _all_true(c.isfinite()) and _all_true(g.isfinite()):
            return None, None
        found = self.nonfinite
        nan_c, nan_g, inf_c, inf_g = c.isnan(), g.isnan(), c.isinf(), g.isinf()
        same_sign = c.sign() == g.sign()
        one_sided = (inf_c != inf_g) & ~nan_c & ~nan_g
        saturated = None
        if self.saturate:
            finite_size = torch.where(inf_c, g, c).abs()
            edge = self.limits.largest - self.limits.largest_step
            saturated = one_sided & same_sign & (finite_size >= edge)
            found.saturated += count_true(saturated)
            one_sided = one_sided & ~saturated
        for offenders, mask in (
            (found.nan_in_actual, nan_c & ~nan_g),
            (found.nan_in_golden, nan_g & ~nan_c),
            (found.inf_one_sided, one_sided),
            (found.inf_opposite, inf_c & inf_g & ~same_sign),
        ):
            place.collect(offenders, mask, None, values)
        found.matched_nan += count_true(nan_c & nan_g)
        found.matched_inf += count_true(inf_c & inf_g & same_sign)
        return ~(nan_c & nan_g) & ~(inf_c & inf_g & same_sign), saturated

    def _update_cann(self, view: CannView, values: tuple[torch.Tensor, ...], place: _Place) -> None:
        self.cann_nan_mismatches += view.nan_mismatches
        self.cann_inf_sign_mismatches += view.inf_sign_mismatches
        self.cann_golden_inf_replaced += view.golden_inf_replaced
        self.cann.add(view.relative_error, None if _all_true(view.valid) else view.valid, self.limits.mare_limit)
        bad = view.relative_error > self.limits.mare_limit
        for name, member, error in (
            ("small", view.small, view.difference > self.limits.small_error),
            ("cancel", view.cancel, bad),
            ("normal", view.normal, bad),
        ):
            region = self.regions[name]
            region.total += count_true(member)
            region.errors += place.collect(region.offenders, member & error, view.relative_error, values)

    def _update_spec(
        self,
        actual: torch.Tensor,
        compared: torch.Tensor | None,
        saturated: torch.Tensor | None,
        values: tuple[torch.Tensor, ...],
        place: _Place,
    ) -> torch.Tensor:
        c, golden64, g = values
        if saturated is not None:
            c = torch.where(saturated, actual, c)
        size = golden64.abs()
        error = (c - golden64).abs() / (size + EPSILON)
        limit = self.limits.mare_limit
        comparable = error < math.inf
        if compared is not None:
            comparable &= compared
        everything = None if _all_true(comparable) else comparable
        self.spec.add(error, compared, limit)
        self.spec_comparable.add(error, everything, limit)
        large = size >= self.limits.small_value
        self.spec_large.add(error, comparable & large, limit)
        broken = ~(error < limit)
        place.collect(self.spec_offenders, broken if compared is None else broken & compared, error, values)
        floor = (g - golden64).abs_() / (size + EPSILON)
        representable = floor < math.inf
        self.floor.add(floor, None if _all_true(representable) else representable, limit)
        self.floor_large.add(floor, representable & large, limit)
        usual = error if everything is None else error[comparable]
        self.exact += usual.numel() - int(np.count_nonzero(usual.numpy()))
        bins = torch.bucketize(usual, self._edges, right=True)
        self.histogram += np.bincount(bins.numpy(), minlength=len(self.histogram))
        return error if compared is None else torch.where(compared, error, torch.zeros_like(error))

    def _update_zero_rows(
        self,
        c: torch.Tensor,
        golden64: torch.Tensor,
        block: torch.Size,
        values: tuple[torch.Tensor, ...],
        place: _Place,
    ) -> None:
        zero = golden64 == 0
        count = count_true(zero)
        self.zero_golden += count
        if count == 0:
            return
        row = block[-1] if block else 1
        # A row of one element says nothing about a masked row; a partial row neither.
        if row < 2 or (self.shape and row != self.shape[-1]) or c.numel() % row != 0:
            return
        row_is_zero = zero.view(-1, row).all(dim=1, keepdim=True).expand(-1, row).reshape(-1)
        place.collect(self.nonzero_in_zero_golden, row_is_zero & (c != 0), None, values)

    def _update_decades(self, golden64: torch.Tensor, view: CannView) -> None:
        size = golden64.abs()
        finite = size < math.inf
        decade = size.log10().floor().clamp(_LOWEST_DECADE, _HIGHEST_DECADE) - _LOWEST_DECADE + 1
        decade = torch.where(size == 0, torch.zeros_like(decade), decade)
        bad = finite & view.valid & (view.relative_error > self.limits.mare_limit)
        bins = decade[finite].long().numpy()
        self.decade_total += np.bincount(bins, minlength=len(self.decade_total))
        self.decade_bad += np.bincount(decade[bad].long().numpy(), minlength=len(self.decade_bad))
        member = finite & view.valid
        largest = torch.from_numpy(self.decade_mare)
        largest.scatter_reduce_(0, decade[member].long(), view.relative_error[member], reduce="amax")

    def _update_ulp(self, actual: torch.Tensor, c: torch.Tensor, g: torch.Tensor) -> None:
        numbers = ~(c.isnan() | g.isnan())
        distance = ulp_distance(actual[numbers], g[numbers].to(self.limits.storage))
        if distance.size:
            self.ulp_max = max(self.ulp_max, int(distance.max()))
            self.ulp_sum += float(distance.sum(dtype=np.float64))
            self.ulp_count += distance.size

    def decades(self) -> list[dict[str, float | int | None]]:
        """Bad elements by size of abs(golden), one entry a decade that has elements."""
        rows: list[dict[str, float | int | None]] = []
        for i in np.flatnonzero(self.decade_total):
            low = 0.0 if i == 0 else 10.0 ** (int(i) - 1 + _LOWEST_DECADE)
            rows.append(
                {
                    "from": low,
                    "to": 0.0 if i == 0 else low * 10,
                    "total": int(self.decade_total[i]),
                    "bad": int(self.decade_bad[i]),
                    "mare": float(self.decade_mare[i]),
                }
            )
        return rows


@dataclass(frozen=True)
class _Place:
    """Where a chunk's elements stand in the whole output."""

    start: int
    block: tuple[int, ...]
    origin: tuple[int, ...]
    shape: tuple[int, ...]

    def index_of(self, position: int) -> tuple[int, ...]:
        if not self.block:
            return ()
        local = np.unravel_index(self.start + position, self.block)
        return tuple(int(i) + o for i, o in zip(local, self.origin))

    def collect(
        self,
        offenders: Offenders,
        mask: torch.Tensor,
        error: torch.Tensor | None,
        values: tuple[torch.Tensor, ...],
    ) -> int:
        """Add the elements of `mask`; the worst is the one of the largest error, or of no error at all (NaN)."""
        count = count_true(mask)
        if count == 0:
            return 0
        offenders.count += count
        first = int(np.argmax(mask.numpy()))
        index = self.index_of(first)
        flat = int(np.ravel_multi_index(index, self.shape)) if index else 0
        if offenders.first is None or flat < offenders._first_flat:
            offenders.first = self._offender(first, index, error, values)
            offenders._first_flat = flat
        if error is not None:
            severity = torch.where(mask, error.nan_to_num(nan=math.inf), torch.full_like(error, -1.0))
            worst = int(severity.argmax())
            known = offenders.worst.relative_error if offenders.worst is not None else -1.0
            if not math.isnan(known) and not float(severity[worst]) <= known:
                offenders.worst = self._offender(worst, self.index_of(worst), error, values)
        elif offenders.worst is None:
            offenders.worst = offenders.first
        return count

    def _offender(
        self, position: int, index: tuple[int, ...], error: torch.Tensor | None, values: tuple[torch.Tensor, ...]
    ) -> Offender:
        actual, golden, rounded = (float(v[position]) for v in values)
        if error is not None:
            relative = float(error[position])
        else:
            relative = abs(actual - golden) / (abs(golden) + EPSILON)
        return Offender(index, actual, golden, rounded, relative)
