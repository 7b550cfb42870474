"""Transposed reads through memory that threads share: each tile is read along memory, and written along memory.

A nest of independent elements that strides through a buffer along its innermost axis, while the buffer's elements lie
side by side along another one, becomes one of square tiles of both axes. A first loop over a tile loads it as it lies
and stores it into a local buffer; a second one, which runs along the innermost axis, reads that and does the rest. The
rows of the local buffer are one element longer than the tile, which puts a column of it into different banks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, IndexValue, Let, Load, Local, Loop, Statement, Store, Var
from jitgraph.codegen.kernels.traversal import map_dims
from jitgraph.codegen.lower.schedules.heuristics import SharedTiles
from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.records import dataclass


@dataclass(frozen=True)
class _Transposed:
    """A nest to be tiled: its loops, what stands before the innermost one and in it, and the axes of the tile."""

    levels: tuple[Loop, ...]
    body: Body
    across: Loop
    last: Loop
    reads: tuple[Load, ...]  # along ``across``, in memory


def tile_shared(body: Body, tiles: SharedTiles, new_axis: Callable[[], str], new_var: Callable[[DType], Var]) -> Body:
    """``body`` with the nests that read a buffer across their innermost axis in tiles of shared memory."""
    numbers = count()
    result: list[Statement] = []
    for statement in body:
        match = _transposed(statement, tiles) if isinstance(statement, Loop) else None
        writer = _TiledNest(tiles.side, new_axis, new_var, numbers)
        result.append(statement if match is None else writer.nest(match))
    return tuple(result)


def _transposed(loop: Loop, tiles: SharedTiles) -> _Transposed | None:
    if not _is_free(loop):
        return None
    levels, before = [loop], []
    while levels[-1].body:
        *outside, inner = levels[-1].body
        if not isinstance(inner, Loop) or not _is_free(inner):
            break
        if not all(isinstance(statement, Let | IndexValue | Load) for statement in outside):
            return None
        before += outside
        levels.append(inner)
    *outer, last = levels
    body = (*before, *last.body)
    plain = all(isinstance(statement, Let | IndexValue | Load | Store) for statement in body)
    if last.kind != "vector" or not plain or not _is_long(last, tiles):
        return None
    stored = {statement.buffer for statement in body if isinstance(statement, Store)}
    for across in outer:
        reads = tuple(
            statement
            for statement in body
            if isinstance(statement, Load)
            and statement.mask is None
            and statement.buffer not in stored
            and not any(name.startswith("_v") for name in dims.names(statement.index))
            and coefficient(statement.index, across.axis) == 1
            and coefficient(statement.index, last.axis) not in (None, 0, 1)
        )
        if reads and len(reads) <= tiles.most and _is_long(across, tiles):
            return _Transposed(tuple(levels), body, across, last, reads)
    return None


def _is_free(loop: Loop) -> bool:
    return loop.kind in ("parallel", "vector") and loop.is_whole


def _is_long(loop: Loop, tiles: SharedTiles) -> bool:
    return isinstance(loop.extent, int) and loop.extent >= tiles.side


class _TiledNest:
    def __init__(
        self, side: int, new_axis: Callable[[], str], new_var: Callable[[DType], Var], numbers: count[int]
    ) -> None:
        self.side, self.new_axis, self.new_var, self.numbers = side, new_axis, new_var, numbers

    def nest(self, match: _Transposed) -> Loop:
        """The nest over tiles."""
        side, across, last = self.side, match.across, match.last
        tile_across, tile_last = self.new_axis(), self.new_axis()
        locals_ = [Local(f"l{next(self.numbers)}", read.var.dtype, side * (side + 1)) for read in match.reads]

        def places(along: DimLike, other: DimLike) -> dict[str, DimLike]:
            return {
                across.axis: side * Dim.name(tile_across) + along,
                last.axis: side * Dim.name(tile_last) + other,
            }

        first, second = self.new_axis(), self.new_axis()
        here, there = Dim.name(first), Dim.name(second)
        loading = self._loading(match, locals_, places(here % side, here // side), here)
        storing = self._storing(match, locals_, places(there // side, there % side), there)
        body: Body = (
            *locals_,
            Loop(first, side * side, "vector", loading),
            Loop(second, side * side, "vector", storing),
        )
        for axis, level in ((tile_last, last), (tile_across, across)):
            body = (Loop(axis, (level.extent + (side - 1)) // side, "parallel", body),)
        for level in reversed(match.levels):
            if level is not across and level is not last:
                body = (Loop(level.axis, level.extent, "parallel", body),)
        (nest,) = body
        assert isinstance(nest, Loop)
        return nest

    def _loading(self, match: _Transposed, locals_: list[Local], coords: dict[str, DimLike], position: DimLike) -> Body:
        statements, mask = self._inside(match, coords)
        offset = (self.side + 1) * (position // self.side) + position % self.side
        for read, local in zip(match.reads, locals_, strict=True):
            var = self.new_var(read.var.dtype)
            statements.append(Load(var, read.buffer, dims.substitute(read.index, coords), mask))
            statements.append(Store(local.buffer, offset, var))
        return tuple(statements)

    def _storing(self, match: _Transposed, locals_: list[Local], coords: dict[str, DimLike], position: DimLike) -> Body:
        statements, mask = self._inside(match, coords)
        offset = (self.side + 1) * (position % self.side) + position // self.side
        tile_of = dict(zip(match.reads, locals_, strict=True))
        for statement in match.body:
            local = tile_of.get(statement) if isinstance(statement, Load) else None
            if local is not None:
                assert isinstance(statement, Load)
                statements.append(Load(statement.var, local.buffer, offset))
                continue
            moved = map_dims(statement, lambda dim: dims.substitute(dim, coords))
            if isinstance(moved, Load | Store) and mask is not None:
                moved = replace(moved, mask=self._both(statements, mask, moved.mask))
            statements.append(moved)
        return tuple(statements)

    def _inside(self, match: _Transposed, coords: dict[str, DimLike]) -> tuple[list[Statement], Var | None]:
        """The mask of what lies inside of both axes, and its statements; None where tiles fit."""
        statements: list[Statement] = []
        mask: Var | None = None
        for level in (match.across, match.last):
            assert isinstance(level.extent, int)
            if level.extent % self.side:
                at, bound, below = (self.new_var(dtype) for dtype in (dtypes.int64, dtypes.int64, dtypes.bool_))
                statements.append(IndexValue(at, coords[level.axis]))
                statements.append(Let(bound, "const", (), level.extent))
                statements.append(Let(below, "cmp", (at, bound), "lt"))
                mask = self._both(statements, below, mask)
        return statements, mask

    def _both(self, statements: list[Statement], one: Var, other: Var | None) -> Var:
        if other is None:
            return one
        both = self.new_var(dtypes.bool_)
        statements.append(Let(both, "and_", (one, other)))
        return both
