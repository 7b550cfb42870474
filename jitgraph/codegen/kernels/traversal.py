"""Walking and rewriting kernels: what a statement mentions and what stands inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from jitgraph.codegen.kernels.kernel import (
    SIZE_NUMBER,
    Attend,
    Body,
    Contract,
    Factor,
    IndexValue,
    Load,
    Loop,
    Statement,
    Store,
)
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike


def dims_of(statement: Statement) -> tuple[DimLike, ...]:
    """The index expressions and extents that stand in a statement itself."""
    match statement:
        case IndexValue(index=index) | Load(index=index) | Store(index=index):
            return (index,)
        case Loop(extent=extent, begin=begin):
            return (extent, begin)
        case Contract(extents=extents, begin=begin):
            return (*extents, begin)
        case Attend(extents=extents, window=window):
            return (*extents, *window)
    return ()


def bodies_of(statement: Statement) -> tuple[Body, ...]:
    """The bodies inside a statement."""
    match statement:
        case Loop(body=body, slots=slots):
            return (body,) if slots is None else (body, slots.body)
        case Contract(left=left, right=right, epilogue=epilogue):
            return left.body, right.body, epilogue
        case Attend():
            factors = (factor.operand.body for factor in (*statement.rows, *statement.columns))
            epilogues = (one.epilogue for one in statement.sums)
            return (*factors, statement.score.body, statement.derived, statement.row, *epilogues)
    return ()


def map_dims(statement: Statement, change: Callable[[DimLike], DimLike]) -> Statement:
    """The statement with every index expression and extent in it, inner bodies included, changed."""

    def body(inner: Body) -> Body:
        return tuple(map_dims(one, change) for one in inner)

    def factors(some: tuple[Factor, ...]) -> tuple[Factor, ...]:
        return tuple(replace(one, operand=replace(one.operand, body=body(one.operand.body))) for one in some)

    match statement:
        case IndexValue() | Load() | Store():
            return replace(statement, index=change(statement.index))
        case Loop():
            slots = statement.slots
            if slots is not None:
                slots = replace(slots, body=body(slots.body))
            extent, begin = change(statement.extent), change(statement.begin)
            return replace(statement, extent=extent, begin=begin, body=body(statement.body), slots=slots)
        case Contract():
            m, n, k = (change(extent) for extent in statement.extents)
            return replace(
                statement,
                extents=(m, n, k),
                begin=change(statement.begin),
                left=replace(statement.left, body=body(statement.left.body)),
                right=replace(statement.right, body=body(statement.right.body)),
                epilogue=body(statement.epilogue),
            )
        case Attend(extents=(m, n), window=(begin, end)):
            return replace(
                statement,
                extents=(change(m), change(n)),
                window=(change(begin), change(end)),
                rows=factors(statement.rows),
                columns=factors(statement.columns),
                score=replace(statement.score, body=body(statement.score.body)),
                derived=body(statement.derived),
                row=body(statement.row),
                sums=tuple(replace(one, epilogue=body(one.epilogue)) for one in statement.sums),
            )
    return statement


def statements_of(body: Body) -> Iterator[Statement]:
    """Every statement of a body, those of inner bodies included, outer before inner."""
    for statement in body:
        yield statement
        for inner in bodies_of(statement):
            yield from statements_of(inner)


def sizes_of(body: Body) -> frozenset[str]:
    """The sizes of the graph that a body mentions, and the numbers that the entry computes of them."""
    mentioned = {name for s in statements_of(body) for dim in dims_of(s) for name in dims.names(dim)}
    return frozenset(name for name in mentioned if not name.startswith("_") or name.startswith(SIZE_NUMBER))
