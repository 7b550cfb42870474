"""Runs in order that become longer runs: each element finds its place in the merged run by itself.

That is its place in its own run, plus the number of elements of each neighbouring run that come before it, found by
bisection. Of equal elements those of earlier runs come first, so a sort by merging is stable. All elements at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_body import accumulator
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.dtypes import DType, bool_, int64
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

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
