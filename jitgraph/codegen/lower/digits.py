"""A row sorted by the digits of its keys, the lowest first: a stable radix sort.

The key of an element is an unsigned integer in the order of the sort: of a float its bits, turned round where it is
negative, with one key for both zeros and one, the greatest, for every NaN. It is worked out anew in every pass, so that
elements themselves are moved and keep their bits. How many elements have each digit is counted for all passes at once;
a pass in which all have the same one is left out.
"""

from __future__ import annotations

import numpy as np

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Local, Var
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.storage import Storage
from jitgraph.dtypes import DType, bool_, int64
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass


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
