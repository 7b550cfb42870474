"""Nests that read a buffer across their innermost axis: in squares, transposed on the way through a local buffer.

A nest of independent elements that strides through a buffer along its innermost axis, while the buffer's elements lie
side by side along another one, becomes one of squares of both axes. A first nest over a square copies it, transposed,
into a local buffer: the processor does so in registers (``codegen/cpu/transposition.py``). A second one reads that
along the innermost axis and does the rest. What no square covers, at the ends of both axes, is read as before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from jitgraph.codegen.kernels.index import Ranges
from jitgraph.codegen.kernels.kernel import Body, Load, Local, Loop, LoopKind, Statement, Store, Var
from jitgraph.codegen.lower.loop_transforms import TransposedNest, specialised, transposed_nest
from jitgraph.codegen.lower.schedules.heuristics import TransposedSquares
from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike

NewAxis = Callable[[], str]
NewVar = Callable[[DType], Var]


def transpose_in_squares(
    body: Body, squares: TransposedSquares, ranges: Ranges, new_axis: NewAxis, new_var: NewVar
) -> Body:
    """``body`` with the nests that read a buffer across their innermost axis in squares; itself if there are none."""
    writer = _Squares(squares, ranges, new_axis, new_var)
    result: list[Statement] = []
    for statement in body:
        nest = transposed_nest(statement, min(squares.sides), squares.most) if isinstance(statement, Loop) else None
        if nest is None or len(nest.body) > squares.most_statements:
            result.append(statement)
        else:
            result += writer.nests(nest)
    return body if len(result) == len(body) and all(map(lambda a, b: a is b, result, body)) else tuple(result)


class _Squares:
    def __init__(self, squares: TransposedSquares, ranges: Ranges, new_axis: NewAxis, new_var: NewVar) -> None:
        self._squares = squares
        self._ranges = ranges
        self._new_axis = new_axis
        self._new_var = new_var
        self._numbers = count()

    def nests(self, nest: TransposedNest) -> list[Statement]:
        """The nest over squares, and those over what is left of each axis."""
        rows, columns = nest.across.extent, nest.last.extent
        assert isinstance(rows, int) and isinstance(columns, int)
        side = self._side(rows, columns)
        full_rows, full_columns = rows // side * side, columns // side * side
        result = [self._in_squares(nest, side)]
        if full_columns < columns:
            result.append(self._rest(nest, (0, full_rows), (full_columns, columns)))
        if full_rows < rows:
            result.append(self._rest(nest, (full_rows, rows), (0, columns)))
        return result

    def _side(self, rows: int, columns: int) -> int:
        """The side whose squares cover most; the greatest of those."""

        def covered(side: int) -> int:
            return (rows // side) * (columns // side) * side * side

        return max(self._squares.sides, key=lambda side: (covered(side), side))

    def _in_squares(self, nest: TransposedNest, side: int) -> Statement:
        across, last = nest.across, nest.last
        square_row, square_column = self._axis(across.extent, side), self._axis(last.extent, side)
        locals_ = [Local(f"l{next(self._numbers)}", read.var.dtype, side * side) for read in nest.reads]
        body: list[Statement] = list(locals_)

        def moved(row: str, column: str) -> dict[str, DimLike]:
            return {
                across.axis: side * Dim.name(square_row) + Dim.name(row),
                last.axis: side * Dim.name(square_column) + Dim.name(column),
            }

        for read, local in zip(nest.reads, locals_, strict=True):
            row, column = self._axis(side), self._axis(side)
            var = self._new_var(read.var.dtype)
            copied = Load(var, read.buffer, dims.substitute(read.index, moved(row, column)))
            place = side * Dim.name(row) + Dim.name(column)
            inner = Loop(row, side, "vector", (copied, Store(local.buffer, place, var)))
            body.append(Loop(column, side, "serial", (inner,)))
        row, column = self._axis(side), self._axis(side)
        local_of = dict(zip(nest.reads, locals_, strict=True))
        place = side * Dim.name(row) + Dim.name(column)
        rest = tuple(
            Load(statement.var, local_of[statement].buffer, place)
            if isinstance(statement, Load) and statement in local_of
            else statement
            for statement in nest.body
        )
        rest = self._copy(rest, moved(row, column))
        body.append(Loop(row, side, "serial", (Loop(column, side, "vector", rest),)))
        extents = {across.axis: (square_row, across.extent), last.axis: (square_column, last.extent)}
        result = tuple(body)
        for level in reversed(nest.levels):
            if level.axis in extents:
                axis, extent = extents[level.axis]
                assert isinstance(extent, int)
                result = self._around(axis, extent // side, result)
            else:
                result = self._around(level.axis, level.extent, result)
        return result[0]

    def _rest(self, nest: TransposedNest, rows: tuple[int, int], columns: tuple[int, int]) -> Statement:
        """The nest for some of the rows and columns, as it was."""
        places: dict[str, DimLike] = {}
        loops: list[tuple[str, DimLike, LoopKind]] = []
        for level in nest.levels:
            begin, end = {nest.across.axis: rows, nest.last.axis: columns}.get(level.axis, (0, level.extent))
            axis = self._new_axis()
            extent = end - begin
            self._ranges.declare(axis, extent)
            places[level.axis] = begin + Dim.name(axis)
            loops.append((axis, extent, level.kind))
        result = self._copy(nest.body, places)
        for axis, extent, kind in reversed(loops):
            result = (Loop(axis, extent, kind, result),)
        return result[0]

    def _axis(self, extent: DimLike, step: int = 1) -> str:
        assert isinstance(extent, int)
        axis = self._new_axis()
        self._ranges.declare(axis, extent // step)
        return axis

    def _around(self, axis: str, extent: DimLike, body: Body) -> Body:
        return (Loop(axis, extent, "parallel", body),)

    def _copy(self, body: Body, places: dict[str, DimLike]) -> Body:
        return specialised(body, places, {}, self._ranges, self._new_axis, self._new_var)
