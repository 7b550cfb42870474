"""Loop nests after they are written: neighbouring axes that memory sees as one become one.

Two nested loops of independent iterations over ``a`` (outer) and ``b`` of extent ``n`` are one loop over
``c = a*n + b`` where every index inside says so: with ``a = 0, b = c`` put in, it still has the value it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jitgraph.codegen.index import Ranges
from jitgraph.codegen.kernel import Body, Loop
from jitgraph.codegen.traversal import dims_of, map_dims, statements_of
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike

_INDEPENDENT = ("parallel", "vector")


def merge_loops(body: Body, ranges: Ranges, new_axis: Callable[[], str]) -> Body:
    """``body`` with nests of independent loops merged where their indices allow it."""
    return tuple(
        _merged(statement, ranges, new_axis) if isinstance(statement, Loop) else statement for statement in body
    )


def _merged(loop: Loop, ranges: Ranges, new_axis: Callable[[], str]) -> Loop:
    if loop.kind not in _INDEPENDENT:
        return loop
    body = merge_loops(loop.body, ranges, new_axis)
    loop = Loop(loop.axis, loop.extent, loop.kind, body, loop.carries, loop.combine, loop.lanes)
    if len(body) != 1 or not isinstance(body[0], Loop) or body[0].kind not in _INDEPENDENT:
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
