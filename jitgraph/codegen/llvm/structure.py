"""What stands in a body: definitions, stores, and about how many instructions it becomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Attend, Body, Contract, IndexValue, Let, Load, Local, Loop, Store, Var
from jitgraph.codegen.kernels.traversal import bodies_of
from jitgraph.ir.dims import DimLike


def defined(body: Body) -> Iterator[Var]:
    """The variables that ``body`` defines, results of loops included, in no order."""
    for statement in body:
        match statement:
            case Let() | IndexValue() | Load():
                yield statement.var
            case Loop():
                for carry in statement.carries:
                    yield carry.var
                    yield carry.result
            case Contract():
                yield statement.acc
            case Attend():
                yield from statement.results
        for inner in bodies_of(statement):
            yield from defined(inner)


def stored_buffers(body: Body) -> set[str]:
    """The buffers that ``body`` stores to; local ones that it declares count too."""
    stored: set[str] = set()
    for statement in body:
        if isinstance(statement, Store | Local):
            stored.add(statement.buffer)
        for inner in bodies_of(statement):
            stored |= stored_buffers(inner)
    return stored


def length(body: Body) -> int:
    """About how many instructions ``body`` becomes; a math function counts as 30."""
    total = 0
    for statement in body:
        total += 30 if isinstance(statement, Let) and statement.op in ("call", "rem") else 1
        total += sum(map(length, bodies_of(statement)))
    return total


def merges(body: Body) -> bool:
    """Whether a tree in which chunks merge is most of the code of ``body``, and masks are little of its time."""
    return any(
        (isinstance(statement, Loop) and statement.kind == "reduce" and _is_mostly_tree(statement))
        or any(map(merges, bodies_of(statement)))
        for statement in body
    )


def _is_mostly_tree(loop: Loop) -> bool:
    return loop.chain == 1 or (loop.chain > 1 and not isinstance(loop.extent, int))


def is_even(loop: Loop, steps: int) -> bool:
    """Whether what ``loop`` runs through is a multiple of ``steps`` long, whatever sizes and axes are."""
    return all(_is_multiple(dim, steps) for dim in (loop.begin, loop.extent, loop.span or 0))


def _is_multiple(dim: DimLike, of: int) -> bool:
    """Whether ``dim`` is a multiple of ``of``, as far as its terms show it."""
    return dim % of == 0 if isinstance(dim, int) else all(factor % of == 0 for factor in dim.terms.values())


_UNKNOWN_TURNS: Final = 64


def turn_length(body: Body) -> int:
    """About how many instructions run in ``body`` once: inner loops count as often as they turn, or 64 times."""
    total = 0
    for statement in body:
        inner = sum(map(turn_length, bodies_of(statement)))
        if isinstance(statement, Loop):
            extent = statement.extent if statement.span is None else statement.span
            turns = extent if isinstance(extent, int) else _UNKNOWN_TURNS
            inner = (1 + inner) * turns // (8 if statement.kind == "vector" else 1)
        total += inner + (30 if isinstance(statement, Let) and statement.op in ("call", "rem") else 1)
    return total


def gathers(body: Body, axis: str) -> bool:
    """Whether elements are loaded other than one after another, each by an instruction of its own."""
    return any(
        (isinstance(statement, Load) and coefficient(statement.index, axis) not in (0, 1, -1))
        or any(gathers(inner, axis) for inner in bodies_of(statement))
        for statement in body
    )
