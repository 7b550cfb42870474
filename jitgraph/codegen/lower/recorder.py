"""Recorder: writes one kernel, its loops around statements that go where they may stand (``statements.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from jitgraph import dtypes
from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.index import has_atoms
from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    Carry,
    Combine,
    Contract,
    Factor,
    Kernel,
    Let,
    Loop,
    LoopKind,
    Operand,
    Param,
    Slots,
    Var,
    WeightedSum,
    dims_of,
    sizes_of,
    statements_of,
)
from jitgraph.codegen.lower.loop_transforms import cut_lanes, merge_loops, tile_shared
from jitgraph.codegen.lower.schedules.heuristics import (
    IndexSetSplitting,
    SharedTiles,
    TransposedSquares,
)
from jitgraph.codegen.lower.statements import OpenBlock, ScalarOps, StatementRecorder
from jitgraph.codegen.lower.transposition import transpose_in_squares
from jitgraph.dtypes import DType, float32
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Node

# ----------------------------------------------------------------------
# Recorder: writes one kernel, its loops around statements that go where they may stand (``statements.py``).

T = TypeVar("T")
At = Callable[[DimLike, DimLike], Var]
Combiner = Callable[[ScalarOps, tuple[Var, ...], tuple[Var, ...]], tuple[Var, ...]]


class KernelRecorder(StatementRecorder):
    """One kernel being written."""

    @contextmanager
    def loop(
        self,
        kind: LoopKind,
        extent: DimLike,
        *,
        begin: DimLike = 0,
        span: int | None = None,
        always: bool = False,
    ) -> Iterator[DimLike]:
        """A parallel, vector or serial loop without carries; gives the axis.

        An extent of 1 needs no loop, but ``always`` there is one, as what is declared in its body belongs to it.
        """
        if extent == 1 and span is None and not always:
            yield 0
            return
        axis, index = self._open(extent, lanes=kind == "vector")
        if kind == "parallel":
            self._floor = len(self._blocks) - 1
        yield index
        body = self._close()
        self._write(Loop(axis, extent, kind, body, begin=begin, span=span), len(self._blocks) - 1)

    @contextmanager
    def loops(self, kinds: Sequence[LoopKind], extents: Sequence[DimLike]) -> Iterator[tuple[DimLike, ...]]:
        """A nest of loops, outermost first."""
        if not extents:
            yield ()
            return
        with self.loop(kinds[0], extents[0]) as axis, self.loops(kinds[1:], extents[1:]) as rest:
            yield (axis, *rest)

    def serial(
        self,
        extent: DimLike,
        init: tuple[Var, ...],
        step: Callable[[DimLike, tuple[Var, ...]], tuple[Var, ...]],
        *,
        begin: DimLike = 0,
        span: int | None = None,
    ) -> tuple[Var, ...]:
        """A serial loop whose ``step(axis, carried)`` gives what the next step carries; returns what the last gave."""
        results = tuple(self.var(var.dtype) for var in init)
        axis, index = self._open(extent)
        carried = tuple(self.var(var.dtype) for var in init)
        following = step(index, carried)
        body = self._close()
        carries = tuple(map(Carry, carried, init, following, results))
        loop = Loop(axis, extent, "serial", body, carries, begin=begin, span=span)
        self._write(loop, len(self._blocks) - 1)
        return results

    def reduce(
        self,
        extent: DimLike,
        init: tuple[Var, ...],
        element: Callable[[DimLike], tuple[Var, ...]],
        combine: Combiner,
        lanes: int,
        chain: int = 0,
        *,
        begin: DimLike = 0,
        span: int | None = None,
        store_slots: Callable[[DimLike, tuple[Var, ...]], None] | None = None,
    ) -> tuple[Var, ...]:
        """Fold what ``element(axis)`` gives for every step with ``combine``; ``init`` is the identity.

        ``lanes``, ``chain``, ``begin`` and ``span`` are those of ``kernel.Loop``; where the order is free, ``lanes`` is
        no more than advice. With ``store_slots`` the slots are not folded: ``store_slots(slot, accumulators)`` stores
        them, and the results are unknown outside of it.
        """
        if any(block.lanes for block in self._blocks):
            assert lanes == 1 or not chain, "slots in order inside of lanes"
            lanes = 1
        results = tuple(self.var(var.dtype) for var in init)
        axis, index = self._open(extent, lanes=lanes > 1)
        inside = tuple(self.var(var.dtype) for var in init)
        contributed = element(index)
        body = self._close()
        carries = tuple(map(Carry, inside, init, contributed, results))
        combined = self._combine(init, combine)
        slots = None
        if store_slots is not None:
            slot_axis, slot = self._open(lanes, lanes=True)
            for result in results:
                self._at(result, len(self._blocks) - 1)
            store_slots(slot, results)
            slots = Slots(slot_axis, self._close())
        loop = Loop(axis, extent, "reduce", body, carries, combined, lanes, chain, begin, span, slots)
        self._write(loop, len(self._blocks) - 1)
        return results

    def last_divides(self) -> bool:
        """Whether an index in the loop written last divides by something that its axis is part of."""
        loop = self._blocks[-1].statements[-1]
        assert isinstance(loop, Loop)
        return any(
            has_atoms(dim) and loop.axis in dims.names(dim) for s in statements_of(loop.body) for dim in dims_of(s)
        )

    def drop_last(self) -> None:
        """Take back the loop written last; nothing may have used its results."""
        self._blocks[-1].statements.pop()
        self._last.done = False

    def _combine(self, init: tuple[Var, ...], combine: Combiner) -> Combine:
        """The combine of a reduce loop, written apart: it sees its two operands alone."""
        separate = KernelRecorder()
        separate._count = self._count
        left = tuple(separate.var(var.dtype) for var in init)
        right = tuple(separate.var(var.dtype) for var in init)
        results = combine(ScalarOps(separate, left[0].dtype), left, right)
        self._count = separate._count
        body = tuple(s for s in separate._blocks[0].statements if isinstance(s, Let))
        return Combine(left, right, body, results)

    def contract(
        self,
        extents: tuple[DimLike, DimLike, DimLike],
        left: Callable[[DimLike, DimLike], Var],
        right: Callable[[DimLike, DimLike], Var],
        epilogue: Callable[[DimLike, DimLike, Var], None],
        accumulator: DType,
        block_k: int,
        begin: DimLike = 0,
        span: int | None = None,
    ) -> None:
        """``acc[m, n] = sum over k of left(m, k) * right(k, n)``, and ``epilogue(m, n, acc)`` for every m and n.

        ``begin`` and ``span`` are those of ``kernel.Contract``.
        """
        names = [self._new_axis() for _ in range(3)]
        axes: list[DimLike] = [Dim.name(name) for name in names]
        for name, extent in zip(names, extents, strict=True):
            self.ranges.declare(name, extent)
        m, n, k = axes

        def write(used: Sequence[str], body: Callable[[], Var]) -> Operand:
            self._push(OpenBlock(), empty=0 in extents)
            for name in used:
                self._depth[name] = len(self._blocks) - 1
            value = body()
            return Operand(self._close(), value)

        first = write((names[0], names[2]), lambda: left(m, k))
        second = write((names[2], names[1]), lambda: right(k, n))
        self._push(OpenBlock(), empty=0 in extents[:2])
        for name in names[:2]:
            self._depth[name] = len(self._blocks) - 1
        acc = self.var(accumulator)
        epilogue(m, n, acc)
        body = self._close()
        statement = Contract(names[0], names[1], names[2], extents, first, second, acc, body, block_k, begin, span)
        self._write(statement, len(self._blocks) - 1)

    def attend(
        self,
        extents: tuple[DimLike, DimLike],
        window: Callable[[DimLike], tuple[DimLike, DimLike]],
        rows: Sequence[tuple[int, At]],
        columns: Sequence[tuple[int, At]],
        score: Callable[[DimLike, DimLike, tuple[Var, ...]], Var],
        weights: Callable[[DimLike, DimLike, tuple[Var, ...], Var], Sequence[Var]],
        sums: Sequence[tuple[int, Callable[[DimLike, DimLike, Var, tuple[Var, ...]], None]]],
        row: Callable[[DimLike, tuple[Var, ...]], None] | None = None,
    ) -> None:
        """``kernel.Attend``: factors are a number of columns and ``value(m or n, column)``, ``window(m)`` its bounds.

        ``score(m, n, products)`` and ``weights(m, n, products, weight)`` give what these are, a weight for each of
        ``sums``: the number of its columns and ``epilogue(m, column, acc, softmax)``. There is a softmax, (top, total),
        where ``row(m, softmax)`` is given.
        """
        names = [self._new_axis() for _ in range(2)]
        m, n = (Dim.name(name) for name in names)
        for name, extent in zip(names, extents, strict=True):
            self.ranges.declare(name, extent)

        def write(known: Sequence[str], body: Callable[[], T]) -> tuple[Body, T]:
            self._push(OpenBlock(), empty=0 in extents)
            for name in known:
                self._depth[name] = len(self._blocks) - 1
            value = body()
            return self._close(), value

        def factors(side: int, columns: Sequence[tuple[int, At]]) -> tuple[Factor, ...]:
            result = []
            for extent, value in columns:
                axis = self._new_axis()
                self.ranges.declare(axis, extent)
                body, var = write((names[side], axis), partial(value, (m, n)[side], Dim.name(axis)))
                result.append(Factor(axis, extent, Operand(body, var)))
            return tuple(result)

        made_rows, made_columns = factors(0, rows), factors(1, columns)
        products = tuple(self.var(float32) for _ in made_rows)
        weight = self.var(float32)

        def weigh() -> tuple[Body, Var, tuple[Var, ...]]:
            scored = score(m, n, products)
            scoring = tuple(self._blocks[-1].statements)
            self._blocks[-1].statements.clear()
            return scoring, scored, tuple(weights(m, n, products, weight))

        derived, (scoring, scored, weight_vars) = write((*names, *(var.name for var in (*products, weight))), weigh)
        softmax = None if row is None else (self.var(float32), self.var(float32))
        known = softmax or ()
        of_row = [names[0], *(var.name for var in known)]
        row_body = () if row is None else write(of_row, partial(row, m, known))[0]
        made_sums = []
        for (factor, epilogue), var in zip(sums, weight_vars, strict=True):
            axis, acc = made_columns[factor].axis, self.var(float32)
            body, _ = write((*of_row, axis, acc.name), partial(epilogue, m, Dim.name(axis), acc, known))
            made_sums.append(WeightedSum(var, factor, acc, body))
        statement = Attend(
            names[0],
            names[1],
            extents,
            window(m),
            made_rows,
            made_columns,
            products,
            Operand(scoring, scored),
            weight,
            derived,
            softmax,
            row_body,
            tuple(made_sums),
        )
        self._write(statement, len(self._blocks) - 1)

    # --- the end

    def kernel(
        self,
        name: str,
        squares: TransposedSquares | None = None,
        tiles: SharedTiles | None = None,
        lane_cuts: IndexSetSplitting | None = None,
        *,
        fastmath: bool = False,
    ) -> tuple[Kernel, tuple[str, ...]]:
        """The finished kernel, and the schedule's buffers for its parameters in order."""
        assert len(self._blocks) == 1
        body = merge_loops(tuple(self._blocks[0].statements), self.ranges, self._new_axis)
        params = []
        for position, storage in enumerate(self._storages.values()):
            access = self._access[storage.name]
            how: Literal["read", "write", "readwrite"] = "readwrite" if len(access) == 2 else next(iter(access))
            params.append(Param(f"p{position}", storage.type.dtype, storage.size, how))
        sizes = sorted(sizes_of(body) | {name for param in params for name in dims.names(param.size)})
        kernel = Kernel(name, tuple(params), body, tuple(sizes), (), fastmath)
        if squares is not None:
            body = transpose_in_squares(body, squares, self.ranges, self._new_axis, self.var)
            kernel = _unless_aliases_are_lost(kernel, body)
        if tiles is not None:
            kernel = replace(kernel, body=tile_shared(kernel.body, tiles, self._new_axis, self.var))
        if lane_cuts is not None:
            pieces = cut_lanes(kernel.body, lane_cuts, self.ranges, self._new_axis, self.var)
            kernel = _unless_aliases_are_lost(kernel, pieces)
        return kernel, tuple(self._storages)


def _unless_aliases_are_lost(kernel: Kernel, body: Body) -> Kernel:
    """``kernel`` with ``body`` instead of its own; as it is, where it would work in place in fewer of its buffers."""
    if body is kernel.body:
        return kernel
    changed = replace(kernel, body=body)
    return changed if aliasing_pairs(kernel) <= aliasing_pairs(changed) else kernel


# ----------------------------------------------------------------------
# The scalar body of an op on scalars of the kernel being written, and the dtypes that numbers are computed in.


def accumulator(dtype: DType) -> DType:
    """The dtype in which sums and products of ``dtype`` are kept."""
    return dtypes.float32 if dtype in dtypes.HALF else dtype


def apply_scalar(recorder: KernelRecorder, node: Node, operands: Sequence[Var]) -> Var:
    """The op's scalar body on scalars: 16-bit floats are widened before it and the result is rounded once."""
    scalar: Callable[..., Any] | None = node.op.scalar
    assert scalar is not None
    plain = ScalarOps(recorder, operands[0].dtype)
    if "storage" in node.op.traits:
        result = scalar(plain, *operands, **node.attrs)
    else:
        wide = [plain.cast(operand, accumulator(operand.dtype)) for operand in operands]
        result = plain.cast(scalar(ScalarOps(recorder, wide[0].dtype), *wide, **node.attrs), node.output.dtype)
    assert isinstance(result, Var)
    return result


def converted(recorder: KernelRecorder, number: Var, dtype: DType) -> Var:
    """An int64 scalar in another dtype; 16-bit floats by way of float32."""
    ops = ScalarOps(recorder, number.dtype)
    return ops.cast(ops.cast(number, dtypes.float32) if dtype in dtypes.HALF else number, dtype)
