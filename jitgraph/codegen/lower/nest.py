"""Loop nests after they are written: axes that memory sees as one become one, and transposed reads go in tiles.

Two nested loops of independent iterations over ``a`` (outer) and ``b`` of extent ``n`` are one loop over
``c = a*n + b`` where every index inside says so: with ``a = 0, b = c`` put in, it still has the value it had.

Where the vector axis strides through a buffer whose elements lie side by side along another axis, the vector axis is
cut into blocks and the other axis runs inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from jitgraph.codegen.kernels.index import Ranges, coefficient
from jitgraph.codegen.kernels.kernel import Body, Load, Loop
from jitgraph.codegen.kernels.traversal import dims_of, map_dims, statements_of
from jitgraph.codegen.lower.schedules.heuristics import TransposedTiles
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike


def _is_free(loop: Loop) -> bool:
    """Whether the iterations of the loop are independent and run over all of its axis."""
    return loop.kind in ("parallel", "vector") and loop.is_whole


def merge_loops(body: Body, ranges: Ranges, new_axis: Callable[[], str]) -> Body:
    """``body`` with nests of independent loops merged where their indices allow it."""
    return tuple(
        _merged(statement, ranges, new_axis) if isinstance(statement, Loop) else statement for statement in body
    )


def _merged(loop: Loop, ranges: Ranges, new_axis: Callable[[], str]) -> Loop:
    if not _is_free(loop):
        return loop
    body = merge_loops(loop.body, ranges, new_axis)
    loop = replace(loop, body=body)
    if len(body) != 1 or not isinstance(body[0], Loop) or not _is_free(body[0]):
        return loop
    inner = body[0]
    if loop.axis in dims.names(inner.extent):
        return loop
    joined = new_axis()
    together = loop.extent * inner.extent
    ranges.declare(joined, together)
    outer_axis, inner_axis = Dim.name(loop.axis), Dim.name(inner.axis)
    back: dict[str, DimLike] = {joined: outer_axis * inner.extent + inner_axis}
    changed: dict[DimLike, DimLike] = {}
    for index in _all_dims(inner.body):
        if index in changed or not dims.names(index) & {loop.axis, inner.axis}:
            continue
        new = dims.substitute(index, {loop.axis: 0, inner.axis: Dim.name(joined)})
        if ranges.simplify(dims.substitute(new, back)) != index:
            return loop
        changed[index] = new
    merged = tuple(map_dims(statement, lambda dim: changed.get(dim, dim)) for statement in inner.body)
    return Loop(joined, together, inner.kind, merged)


def _all_dims(body: Body) -> Iterator[DimLike]:
    for statement in statements_of(body):
        yield from dims_of(statement)


def tile_transposed(body: Body, tiles: TransposedTiles, new_axis: Callable[[], str]) -> Body:
    """``body`` with the nests that read a buffer across the vector axis in tiles."""
    return tuple(_tiled(statement, tiles, new_axis) if isinstance(statement, Loop) else statement for statement in body)


def _tiled(loop: Loop, tiles: TransposedTiles, new_axis: Callable[[], str]) -> Loop:
    chain = [loop]
    while len(chain[-1].body) == 1 and isinstance(inner := chain[-1].body[0], Loop) and _is_free(inner):
        chain.append(inner)
    *outer, last = chain
    if last.kind != "vector" or not last.is_whole or not isinstance(last.extent, int):
        return loop
    if last.extent < tiles.least_extent:
        return loop
    across = _axis_across(last, outer, tiles.least_extent)
    block = next((size for size in tiles.blocks if last.extent % size == 0), None)
    if across is None or block is None:
        return loop
    of_block, inside = new_axis(), new_axis()
    changed: dict[str, DimLike] = {last.axis: block * Dim.name(of_block) + Dim.name(inside)}
    statements = tuple(map_dims(statement, lambda dim: dims.substitute(dim, changed)) for statement in last.body)
    tiled = Loop(inside, block, "vector", statements)
    for level in [across, *(level for level in reversed(outer) if level is not across)]:
        tiled = Loop(level.axis, level.extent, "parallel", (tiled,))
    return Loop(of_block, last.extent // block, "parallel", (tiled,))


def _axis_across(last: Loop, outer: list[Loop], least: int) -> Loop | None:
    """The loop of ``least`` iterations or more along which a buffer is dense that the vector loop strides through."""
    for statement in last.body:
        if not isinstance(statement, Load) or coefficient(statement.index, last.axis) in (None, 0, 1):
            continue
        for level in outer:
            extent = level.extent
            if coefficient(statement.index, level.axis) == 1 and isinstance(extent, int) and extent >= least:
                return level
    return None
