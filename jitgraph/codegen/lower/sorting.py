"""sort, stable: short rows by merging, long ones by digits, and on GPUs tiles that are sorted and then merge at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Local, LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.schedules.heuristics import SortSizes, SortTiles
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.codegen.lower.values import Index, below
from jitgraph.dtypes import DType, bool_, int32, int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import Shape, TensorType
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Runs in order that become longer runs: each element finds its place in the merged run by itself.
#
# That is its place in its own run, plus the number of elements of each neighbouring run that come before it, found by
# bisection. Of equal elements those of earlier runs come first, so a sort by merging is stable. All elements at once.

PAIRS: Final = 1
FOURS: Final = 2

LookUp = Callable[[DimLike, Var], Var]
"""The element at a place, or something of it, read where a mask holds."""


@dataclass(frozen=True)
class Runs:
    """Runs of a row of ``size`` elements, ``extent`` at most; 2**bits become one. NaN counts as the greatest."""

    recorder: KernelRecorder
    dtype: DType
    extent: DimLike
    size: Var
    descending: bool
    bits: Literal[1, 2]

    def merged(self, turn: DimLike, index: DimLike, key: Var, look_up: LookUp) -> Var:
        """Where ``key``, at ``index``, comes to lie when runs of 2**(bits * turn) elements are merged."""
        ops = ScalarOps(self.recorder, int64)
        at, shift = self.recorder.index_value(index), self.recorder.index_value(self.bits * turn)
        width = ops.shl(ops.const(1), shift)
        inside = ops.and_(at, ops.sub(width, ops.const(1)))  # the place in its own run
        number = ops.shr(at, shift)
        own = ops.and_(number, ops.const((1 << self.bits) - 1))
        begin = ops.shl(ops.sub(number, own), shift)
        position = ops.add(begin, inside)
        for distance in range(1, 1 << self.bits):
            other = ops.xor(own, ops.const(distance))
            first = ops.min(ops.add(begin, ops.shl(other, shift)), self.size)
            last = ops.min(ops.add(first, width), self.size)
            before = self._bisect(self.bits * turn + 1, key, ops.cmp("lt", other, own), (first, last), look_up)
            position = ops.add(position, ops.sub(before, first))
        return position

    def _bisect(self, steps: DimLike, key: Var, later: Var, bounds: tuple[Var, Var], look_up: LookUp) -> Var:
        """The end of the elements between ``bounds`` that come before ``key``, whose run is the later one or not."""
        logic = ScalarOps(self.recorder, bool_)

        def comes_before(at: DimLike, mask: Var) -> Var:
            other = look_up(at, mask)
            # A key of a later run also comes after its equals.
            return logic.select(later, logic.not_(self._less(key, other)), self._less(other, key))

        return bisected(self.recorder, steps, bounds, self.extent, comes_before)

    def _less(self, x: Var, y: Var) -> Var:
        """Whether ``x`` comes before ``y`` in the order of the sort, equal ones not."""
        if self.descending:
            x, y = y, x
        ops = ScalarOps(self.recorder, x.dtype)
        x, y = ops.cast(x, accumulator(x.dtype)), ops.cast(y, accumulator(y.dtype))
        less = ops.cmp("lt", x, y)
        if not dtypes.is_float(x.dtype):
            return less
        logic = ScalarOps(self.recorder, bool_)
        return logic.or_(less, logic.and_(ops.cmp("eq", x, x), ops.cmp("ne", y, y)))


def bisected(
    recorder: KernelRecorder, steps: DimLike, bounds: tuple[Var, Var], extent: DimLike, comes_before: LookUp
) -> Var:
    """The end of those elements between ``bounds``, the first ones, that ``comes_before`` holds for.

    Places are below ``extent``, and there are fewer than 2**steps of them.
    """
    ops, logic = ScalarOps(recorder, int64), ScalarOps(recorder, bool_)

    def step(_: DimLike, bounds: tuple[Var, ...]) -> tuple[Var, ...]:
        low, high = bounds
        active = ops.cmp("lt", low, high)
        middle = ops.shr(ops.add(low, high), ops.const(1))
        before = comes_before(recorder.as_index(middle, extent), active)
        up = logic.and_(active, before)
        down = logic.and_(active, logic.not_(before))
        return ops.select(up, ops.add(middle, ops.const(1)), low), ops.select(down, middle, high)

    low, _ = recorder.serial(steps, bounds, step)
    return low


# ----------------------------------------------------------------------
# A row sorted by the digits of its keys, the lowest first: a stable radix sort.
#
# The key of an element is an unsigned integer in the order of the sort: of a float its bits, turned round where it is
# negative, with one key for both zeros and one, the greatest, for every NaN. It is worked out anew in every pass, so
# that elements themselves are moved and keep their bits. How many elements have each digit is counted for all passes at
# once; a pass in which all have the same one is left out.


@dataclass(frozen=True)
class Digits:
    """Sorts ``extent`` elements that begin at ``row``; a second half of the buffer lies behind them.

    A digit has ``bits`` bits, of which an element has a multiple.
    """

    recorder: KernelRecorder
    keys: Storage
    places: Storage | None
    row: DimLike
    extent: DimLike
    descending: bool
    bits: int

    @property
    def _digits(self) -> int:
        """How many different digits there are."""
        return 1 << self.bits

    @property
    def _passes(self) -> int:
        return 8 * self.keys.type.dtype.itemsize // self.bits

    def sort(self, times: DimLike) -> DimLike:
        """Sort where ``times`` is 1, do nothing where it is 0; gives the half in which the elements are then."""
        recorder = self.recorder
        ops = ScalarOps(recorder, int64)
        counts = recorder.local(int64, self._passes * self._digits)
        with recorder.loop("vector", times * (self._passes * self._digits)) as at:
            recorder.store_local(counts, at, ops.const(0))
        recorder.serial(times * self.extent, (), lambda at, _: self._count(counts, at))
        (half,) = recorder.serial(
            times * self._passes, (ops.const(0),), lambda turn, carried: (self._pass(counts, turn, *carried),)
        )
        return recorder.as_index(half, 2)

    def _count(self, counts: Local, at: DimLike) -> tuple[Var, ...]:
        recorder = self.recorder
        ops = ScalarOps(recorder, int64)
        key = self._key(recorder.load(self.keys, self.row + at, again=True))
        for turn in range(self._passes):
            bucket = turn * self._digits + self._digit(key, ops.const(turn * self.bits))
            recorder.store_local(counts, bucket, ops.add(recorder.load_local(counts, bucket), ops.const(1)))
        return ()

    def _pass(self, counts: Local, turn: DimLike, half: Var) -> Var:
        """Move the elements into the order of one digit; gives the half in which they are then."""
        recorder = self.recorder
        ops = ScalarOps(recorder, int64)
        size = recorder.index_value(self.extent)

        def begin(digit: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            before, most = carried
            bucket = turn * self._digits + digit
            count = recorder.load_local(counts, bucket)
            recorder.store_local(counts, bucket, before)
            return ops.add(before, count), ops.max(most, count)

        _, most = recorder.serial(self._digits, (ops.const(0), ops.const(0)), begin)
        moves = ops.cast(ops.cmp("lt", most, size), int64)
        other = ops.xor(half, moves)
        source = self.row + recorder.as_index(half, 2) * self.extent
        target = self.row + recorder.as_index(other, 2) * self.extent
        shift = recorder.index_value(turn * self.bits)

        def move(at: DimLike, _: tuple[Var, ...]) -> tuple[Var, ...]:
            element = recorder.load(self.keys, source + at, again=True)
            origin = recorder.load(self.places, source + at, again=True) if self.places is not None else None
            bucket = turn * self._digits + self._digit(self._key(element), shift)
            to = recorder.load_local(counts, bucket)
            recorder.store_local(counts, bucket, ops.add(to, ops.const(1)))
            position = target + recorder.as_index(to, self.extent)
            recorder.store(self.keys, position, element)
            if self.places is not None and origin is not None:
                recorder.store(self.places, position, origin)
            return ()

        recorder.serial(recorder.as_index(moves, 2) * self.extent, (), move)
        return other

    def _digit(self, key: Var, shift: Var) -> DimLike:
        recorder = self.recorder
        ops = ScalarOps(recorder, key.dtype)
        digit = ops.and_(ops.shr(key, ops.cast(shift, key.dtype)), ops.const(self._digits - 1))
        return recorder.as_index(ScalarOps(recorder, int64).cast(digit, int64), self._digits)

    def _key(self, x: Var) -> Var:
        """The key of an element; its lowest bits count, as many as the element has."""
        recorder, dtype = self.recorder, x.dtype
        if dtypes.is_float(dtype):
            key = self._key_of_float(x)
        else:
            wide = _word(dtype)
            key = ScalarOps(recorder, wide).cast(x, wide)
        ops = ScalarOps(recorder, key.dtype)
        flips = 0 if dtype.kind in "ub" else 1 << (8 * dtype.itemsize - 1)
        if self.descending:
            flips ^= (1 << (8 * dtype.itemsize)) - 1
        return ops.xor(key, ops.const(flips)) if flips else key

    def _key_of_float(self, x: Var) -> Var:
        """A signed integer in the order of the floats."""
        recorder, dtype = self.recorder, x.dtype
        bits = np.dtype(f"int{8 * dtype.itemsize}")
        wide = _word(bits)
        ops = ScalarOps(recorder, wide)
        raw = ops.cast(ops.bitcast(x, bits), wide)
        most = (1 << (8 * dtype.itemsize - 1)) - 1
        magnitude = ops.and_(raw, ops.const(most))
        sign = ops.shr(raw, ops.const(8 * wide.itemsize - 1))
        ordered = ops.xor(raw, ops.and_(sign, ops.const(most)))
        logic = ScalarOps(recorder, bool_)
        infinity = int(np.array(np.inf).astype(dtype).view(bits))
        ordered = logic.select(ops.cmp("eq", magnitude, ops.const(0)), ops.const(0), ordered)
        return logic.select(ops.cmp("gt", magnitude, ops.const(infinity)), ops.const(most), ordered)


def _word(dtype: DType) -> DType:
    """The dtype in which the bits of an integer dtype are worked on."""
    if dtype.itemsize == 8:
        return dtype
    return dtypes.uint32 if dtype.kind in "ub" else dtypes.int32


# ----------------------------------------------------------------------
# A stable sort by launches: tiles of rows are sorted in memory that threads share, then all elements merge at once.
#
# A merge makes one run of four (``Runs``). Between launches elements lie in one of two halves of a work buffer. Where
# the extent is a name, merges come in pairs, which leave the elements in the first half, and a pair that the extent
# does not need has no iterations.

Read = Callable[[Index, DimLike, "Var | None"], Var]
"""The element of a row at a place, where a mask holds."""

Write = Callable[[Index, DimLike, Var, "Var | None", "Var | None"], None]
"""What to do with the element that comes to lie at a place of a row: its key, where it came from, and a mask."""

_MOST: Final = 1 << 36
"""Elements that a row of unknown extent has at most: more fill any memory."""


def lower_by_tiles(builder: ScheduleBuilder, group: Group, node: Node, sizes: SortTiles) -> None:
    """Values and int64 places in order, as one kernel."""
    x = node.inputs[0]
    axis: Any = node.attrs["axis"]
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    with_places = any(value is not node.outputs[0] for value, _ in group.outputs)
    sort = TiledSort(builder, recorder, x.dtype, rows, x.shape[axis], sizes.elements, with_places)

    def at(row: Index, position: DimLike) -> Index:
        return (*row[:axis], position, *row[axis:])

    def write(row: Index, position: DimLike, key: Var, origin: Var | None, mask: Var | None) -> None:
        for value, storage in group.outputs:
            element = key if value is node.outputs[0] else origin
            assert element is not None
            new = ScalarOps(recorder, element.dtype).cast(element, value.tensor.dtype)
            recorder.store(storage, offset(at(row, position), x.shape), new, mask)

    sort.run(
        lambda row, place, mask: values.at(x, at(row, place), mask), write, descending=bool(node.attrs["descending"])
    )
    builder.launch(recorder, group.name)


class TiledSort:
    """Sorts ``rows`` of ``extent`` elements in tiles of ``tile``, with where each came from if ``with_places``."""

    def __init__(
        self,
        builder: ScheduleBuilder,
        recorder: KernelRecorder,
        dtype: DType,
        rows: Shape,
        extent: DimLike,
        tile: int,
        with_places: bool,
    ) -> None:
        self.recorder, self.dtype, self.rows, self.extent = recorder, dtype, rows, extent
        self.kinds = builder.decisions.independent
        self.with_places = with_places
        self.tile = min(tile, extent) if isinstance(extent, int) else tile
        self.passes = -(-(self.tile - 1).bit_length() // FOURS)
        """In a tile."""
        most = extent if isinstance(extent, int) else _MOST
        self.place_dtype = int32 if most < 1 << 31 else int64
        self.merges = 0
        """Launches that merge."""
        while self.tile << (FOURS * self.merges) < most:
            self.merges += 1
        if not isinstance(extent, int):
            self.merges += self.merges % 2
        if self.merges:
            work = (*rows, 2, extent)
            self.keys = builder.temporary(TensorType(dtype, work))
            self.places = builder.temporary(TensorType(self.place_dtype, work)) if with_places else None

    def run(self, read: Read, write: Write, *, descending: bool) -> None:
        """Write the nests."""
        self._sort_tiles(read, self._keep(0) if self.merges else write, descending=descending)
        for turn in range(self.merges):
            last = turn == self.merges - 1 and isinstance(self.extent, int)
            self._merge(turn, write if last else self._keep((turn + 1) % 2), descending=descending)
        if self.merges and not isinstance(self.extent, int):
            with self.recorder.loops(self.kinds((*self.rows, self.extent)), (*self.rows, self.extent)) as (*row, index):
                write(tuple(row), index, *self._kept(0, tuple(row), index), None)

    def _sort_tiles(self, read: Read, write: Write, *, descending: bool) -> None:
        recorder, tile, extent = self.recorder, self.tile, self.extent
        ops = ScalarOps(recorder, int64)
        is_exact = isinstance(extent, int) and extent % tile == 0
        tiles = (extent + (tile - 1)) // tile
        kinds: list[LoopKind] = ["parallel"] * (len(self.rows) + 1)
        with recorder.loops(kinds, (*self.rows, tiles)) as (*row, number):
            begin = number * tile
            keys = [recorder.local(self.dtype, tile) for _ in range(1 + min(self.passes, 1))]
            origins = [recorder.local(int32, tile) for _ in keys] if self.with_places else None
            size = ops.const(tile) if is_exact else ops.min(recorder.index_value(extent - begin), ops.const(tile))
            runs = Runs(recorder, self.dtype, tile, size, descending, FOURS)

            @contextmanager
            def elements() -> Iterator[tuple[DimLike, Var | None]]:
                with recorder.loop("vector", tile) as along:
                    yield along, None if is_exact else below(recorder, begin + along, extent)

            with elements() as (along, mask):
                recorder.store_local(keys[0], along, read(tuple(row), begin + along, mask), mask)
                if origins is not None:
                    recorder.store_local(origins[0], along, ops.cast(recorder.index_value(along), int32), mask)
            for turn in range(self.passes):
                source, target = turn % 2, (turn + 1) % 2
                with elements() as (along, mask):
                    key = recorder.load_local(keys[source], along, mask)
                    merged = runs.merged(turn, along, key, partial(recorder.load_local, keys[source]))
                    position = recorder.as_index(merged, tile)
                    recorder.store_local(keys[target], position, key, mask)
                    if origins is not None:
                        origin = recorder.load_local(origins[source], along, mask)
                        recorder.store_local(origins[target], position, origin, mask)
            half = self.passes % 2
            with elements() as (along, mask):
                where = None
                if origins is not None:
                    inside = ops.cast(recorder.load_local(origins[half], along, mask), int64)
                    where = ops.cast(ops.add(inside, recorder.index_value(begin)), self.place_dtype)
                write(tuple(row), begin + along, recorder.load_local(keys[half], along, mask), where, mask)

    def _merge(self, turn: int, write: Write, *, descending: bool) -> None:
        """One run of each four; of a pair of turns neither has iterations where runs are longer than the row."""
        recorder, extent = self.recorder, self.extent
        some: DimLike = 1
        if not isinstance(extent, int):
            longest = self.tile << (FOURS * (turn - turn % 2))
            some = 1 - 1 // (extent // (longest + 1) + 1)
        extents = (some, *self.rows, extent)
        with recorder.loops(self.kinds(extents), extents) as (_, *row, position):
            key, origin = self._kept(turn % 2, tuple(row), position)
            runs = Runs(recorder, self.dtype, extent, recorder.index_value(extent), descending, FOURS)

            def look_up(at: DimLike, mask: Var) -> Var:
                return recorder.load(self.keys, self._place(turn % 2, tuple(row), at), mask, again=True)

            merged = runs.merged(turn + self.passes, position, key, look_up)
            write(tuple(row), recorder.as_index(merged, extent), key, origin, None)

    def _place(self, half: int, row: Index, position: DimLike) -> DimLike:
        return offset((*row, half, position), self.keys.type.shape)

    def _kept(self, half: int, row: Index, position: DimLike) -> tuple[Var, Var | None]:
        """The element at a place of a half, and where it came from."""
        recorder, at = self.recorder, self._place(half, row, position)
        origin = recorder.load(self.places, at, again=True) if self.places is not None else None
        return recorder.load(self.keys, at, again=True), origin

    def _keep(self, half: int) -> Write:
        """Store to a half of the work buffer."""

        def write(row: Index, position: DimLike, key: Var, origin: Var | None, mask: Var | None) -> None:
            at = self._place(half, row, position)
            self.recorder.store(self.keys, at, key, mask)
            if self.places is not None and origin is not None:
                self.recorder.store(self.places, at, origin, mask)

        return write


# ----------------------------------------------------------------------
# sort: short rows by merging (``Runs``), long ones by digits, the rows (all other axes) in parallel; both stable.
#
# By digits (``Digits``): elements are put in order of the lowest bits of their keys, then of the next ones, and so on;
# each pass keeps equal ones in the order in which they were. That takes as many steps for each element as its key has
# digits, however long the row is.
#
# A stable order is the only one of its kind, so which of the two makes it changes no bit. Two halves of a work buffer
# take turns as source and target. Where threads sort a row together it is done by launches (``TiledSort``).


def lower_sort(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """Values and int64 places in order; NaN counts as the greatest."""
    if is_empty(node.outputs[0].tensor):
        return
    sizes = builder.decisions.sorting
    if isinstance(sizes, SortTiles):
        lower_by_tiles(builder, group, node, sizes)
        return
    x = node.inputs[0]
    axis: Any = node.attrs["axis"]
    extent = x.shape[axis]
    others = (*x.shape[:axis], *x.shape[axis + 1 :])
    work = (dims.product(others), 2, extent)
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    keys = builder.temporary(TensorType(x.dtype, work))
    origins = None
    if any(value is not node.outputs[0] for value, _ in group.outputs):
        origins = builder.temporary(TensorType(int64, work))
    kinds: list[LoopKind] = ["parallel"] * len(others)
    with recorder.loops(kinds, others) as at:
        row = offset(at, others) * 2 * extent
        with recorder.loop("vector", extent) as along:
            recorder.store(keys, row + along, values.at(x, (*at[:axis], along, *at[axis:])))
            if origins is not None:
                recorder.store(origins, row + along, recorder.index_value(along))
        half = _sorted(recorder, sizes, keys, origins, row, extent, descending=bool(node.attrs["descending"]))
        final = row + half * extent
        with recorder.loop("vector", extent) as along:
            for value, storage in group.outputs:
                source = keys if value is node.outputs[0] else origins
                assert source is not None
                element = recorder.load(source, final + along, again=True)
                recorder.store(storage, offset((*at[:axis], along, *at[axis:]), x.shape), element)
    builder.launch(recorder, group.name)


def _sorted(
    recorder: KernelRecorder,
    sizes: SortSizes,
    keys: Storage,
    origins: Storage | None,
    row: DimLike,
    extent: DimLike,
    *,
    descending: bool,
) -> DimLike:
    """Sort a row; gives the half of the work buffer, 0 or 1, in which it is then."""
    merge = _Merge(recorder, keys, origins, row, extent, descending)
    digits = Digits(recorder, keys, origins, row, extent, descending, sizes.digit_bits)
    if isinstance(extent, int):
        if extent > sizes.longest_merged:
            return digits.sort(1)
        passes = _passes(recorder, extent)
        recorder.serial(passes, (), merge.run_pass)
        return passes % 2
    ops = ScalarOps(recorder, int64)
    long = ops.cast(ops.cmp("gt", recorder.index_value(extent), ops.const(sizes.longest_merged)), int64)
    is_long = recorder.as_index(long, 2)
    is_short = recorder.as_index(ops.sub(ops.const(1), long), 2)
    passes = recorder.as_index(recorder.index_value(_passes(recorder, extent) * is_short), 63)
    recorder.serial(passes, (), merge.run_pass)
    half = digits.sort(is_long)
    return recorder.as_index(recorder.index_value(is_long * half + is_short * (passes % 2)), 2)


def _passes(recorder: KernelRecorder, extent: DimLike) -> DimLike:
    """How often runs double until one holds ``extent`` elements."""
    if isinstance(extent, int):
        return max(extent - 1, 0).bit_length()
    ops = ScalarOps(recorder, int64)
    size = recorder.index_value(extent)

    def doubling(turn: DimLike) -> tuple[Var, ...]:
        width = ops.shl(ops.const(1), recorder.index_value(turn))
        return (ops.cast(ops.cmp("lt", width, size), int64),)

    (count,) = recorder.reduce(62, (ops.const(0),), doubling, lambda s, x, y: (s.add(x[0], y[0]),), 1)
    return recorder.as_index(count, 63)


@dataclass(frozen=True)
class _Merge:
    """Passes over one row, between the halves of the work buffer."""

    recorder: KernelRecorder
    keys: Storage
    places: Storage | None
    row: DimLike
    extent: DimLike
    descending: bool

    def run_pass(self, turn: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        """Merge neighbouring runs of 2**turn elements."""
        recorder = self.recorder
        source = self.row + (turn % 2) * self.extent
        target = self.row + ((turn + 1) % 2) * self.extent
        size = recorder.index_value(self.extent)
        runs = Runs(recorder, self.keys.type.dtype, self.extent, size, self.descending, PAIRS)
        with recorder.loop("vector", self.extent) as along:
            key = recorder.load(self.keys, source + along, again=True)
            origin = recorder.load(self.places, source + along, again=True) if self.places is not None else None
            merged = runs.merged(
                turn, along, key, lambda at, mask: recorder.load(self.keys, source + at, mask, again=True)
            )
            position = recorder.as_index(merged, self.extent)
            recorder.store(self.keys, target + position, key)
            if self.places is not None and origin is not None:
                recorder.store(self.places, target + position, origin)
        return ()
