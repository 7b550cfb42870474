"""What stands in a body: definitions, stores, element sizes, and an estimate of its work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, Contract, IndexValue, Let, Load, Local, Loop, Store, Var
from jitgraph.codegen.kernels.traversal import bodies_of
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.dtypes import DType, is_bool, is_float
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
        for inner in bodies_of(statement):
            yield from defined(inner)


def stored_buffers(body: Body) -> set[str]:
    """The buffers that ``body`` stores to; local ones that it declares count too."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, Store | Local):
            found.add(statement.buffer)
        for inner in bodies_of(statement):
            found |= stored_buffers(inner)
    return found


_SCATTERED_LANES: Final = 16
_COLUMN_REGISTERS: Final = 4
_SHORT_BODY: Final = 24


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


def vector_lanes(loop: Loop, env: Environment) -> int:
    """Lanes for a loop: as many as one register holds of its widest values, but few where it gathers narrow ones.

    Sums down columns take several registers: their chains of additions overlap, and more of each row is read at once.
    """
    lanes = env.target.vector_bytes // _widest(loop.body, env)
    if is_scattered(loop.body, loop.axis):
        return min(lanes, _SCATTERED_LANES)
    sums = any(isinstance(s, Loop) and s.carries for s in loop.body)
    if loop.kind == "vector" and isinstance(loop.extent, int) and sums and length(loop.body) <= _SHORT_BODY:
        lanes *= _COLUMN_REGISTERS
    return lanes


def is_scattered(body: Body, axis: str) -> bool:
    """Whether 8- or 16-bit elements are accessed other than one after another: that goes lane by lane."""
    for statement in body:
        match statement:
            case Load(var=value) | Store(value=value) if value.dtype.itemsize <= 2:
                if coefficient(statement.index, axis) not in (0, 1, -1):
                    return True
        if any(is_scattered(inner, axis) for inner in bodies_of(statement)):
            return True
    return False


def gathers(body: Body, axis: str) -> bool:
    """Whether elements are loaded other than one after another, each by an instruction of its own."""
    return any(
        (isinstance(statement, Load) and coefficient(statement.index, axis) not in (0, 1, -1))
        or any(gathers(inner, axis) for inner in bodies_of(statement))
        for statement in body
    )


def _widest(body: Body, env: Environment) -> int:
    widest = 1
    for statement in body:
        match statement:
            case Let():
                widest = max(widest, _register_bytes(statement.var.dtype, computed=statement.op != "const"))
            case Load():
                widest = max(widest, _register_bytes(statement.var.dtype, computed=False))
            case Store():
                widest = max(widest, _register_bytes(statement.value.dtype, computed=False))
        for inner in bodies_of(statement):
            widest = max(widest, _widest(inner, env))
    return widest


def _register_bytes(dtype: DType, computed: bool) -> int:
    if is_bool(dtype):
        return 1
    return 4 if computed and dtype.itemsize == 2 and is_float(dtype) else dtype.itemsize


_CALL_WORK: Final = 20.0
_SLOW_WORK: Final = {"div": 8.0, "rem": 16.0, "sqrt": 8.0}
_ACCESS_WORK: Final = 3.0

Work = list[tuple[float, tuple[DimLike, ...]]]
"""A sum of terms: a number times extents."""


def work(body: Body, env: Environment, extents: tuple[DimLike, ...] = (), lanes: float = 1.0) -> Work:
    """The work of one run of ``body``, in vector instructions (about half a nanosecond each), as a sum of terms."""
    own = 0.0
    terms: Work = []
    for statement in body:
        match statement:
            case Let(op=op):
                own += _CALL_WORK if op == "call" else _SLOW_WORK.get(op, 1.0) if op != "const" else 0.0
            case Load() | Store():
                own += _ACCESS_WORK
            case Loop():
                width = float(vector_lanes(statement, env)) if statement.kind == "vector" else float(statement.lanes)
                width = min(width, 16.0)
                extent = statement.extent if statement.span is None else statement.span
                terms += work(statement.body, env, (*extents, extent), lanes / width)
            case Contract():
                m, n, k = statement.extents
                terms.append((lanes / 8.0, (*extents, m, n, k)))
                terms += work(statement.epilogue, env, (*extents, m, n), lanes / 8.0)
            case _:
                own += 1.0
    terms.append((own * lanes, extents))
    return terms
