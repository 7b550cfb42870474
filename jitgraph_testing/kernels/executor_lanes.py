"""Which loops the slow executor may run as whole arrays, and how much memory an iteration takes then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    Contract,
    IndexValue,
    Let,
    Load,
    Local,
    Loop,
    Store,
    Var,
    bodies_of,
    statements_of,
)
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike


def most_elements(body: Body, sizes: Mapping[str, int]) -> int:
    """The most elements that one statement of the body holds for each lane; 4096 where that is not known ahead."""
    most = 1
    for statement in body:
        match statement:
            case Local(size=size):
                most = max(most, size)
            case Contract(extents=(m, n, k)):
                sides = [dims.substitute(extent, sizes) for extent in (m, n, k)]
                known = [side for side in sides if isinstance(side, int)]
                most = (
                    max(most, known[0] * known[1], known[0] * known[2], known[1] * known[2])
                    if len(known) == 3
                    else 4096
                )
            case Attend(extents=(m, n)):
                sides = [dims.substitute(extent, sizes) for extent in (m, n)]
                known = [side for side in sides if isinstance(side, int)]
                most = max(most, known[0] * known[1]) if len(known) == 2 else 4096
        for inner in bodies_of(statement):
            most = max(most, most_elements(inner, sizes))
    return most


def can_be_lanes(loop: Loop) -> bool:
    """Whether all iterations can run as one array: no extent inside may differ between them."""
    varying = {loop.axis, *(var.name for var in _defined(loop.body))}
    return not any(dims.names(extent) & varying for extent in _extents(loop.body))


def _extents(body: Body) -> Iterator[DimLike]:
    for statement in statements_of(body):
        match statement:
            case Loop():
                yield from (statement.extent, statement.begin)
            case Contract():
                yield from (*statement.extents, statement.begin)
            case Attend():
                yield from (*statement.extents, *statement.window)


def _defined(body: Body) -> Iterator[Var]:
    for statement in statements_of(body):
        match statement:
            case Let(var=var) | IndexValue(var=var) | Load(var=var) | Contract(acc=var):
                yield var
            case Loop():
                for carry in statement.carries:
                    yield carry.var
                    yield carry.result
            case Attend():
                yield from statement.results


def stores(body: Body) -> bool:
    """Whether the body changes memory that was there before it."""
    own = {statement.buffer for statement in body if isinstance(statement, Local)}
    return any(
        (isinstance(statement, Store) and statement.buffer not in own) or any(map(stores, bodies_of(statement)))
        for statement in body
    )
