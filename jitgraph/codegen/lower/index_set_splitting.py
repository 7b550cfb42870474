"""Vector loops in pieces: an axis is cut where a condition of its lanes changes, and along the digits of its divisions.

What a pad or a concatenation reads depends on where an element lies: ``load p0[i - 48] if i >= 48``. On each side of
48 the condition is known, so a piece has no mask and loads what it uses alone. What a reshape and a transpose make
``756*(i // 12) + i`` is ``768*o + j`` in loops over ``i = 12*o + j``, whose lanes lie side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.index import Ranges, coefficient
from jitgraph.codegen.kernels.kernel import Body, IndexValue, Let, Local, Loop, Statement
from jitgraph.codegen.kernels.traversal import dims_of, statements_of
from jitgraph.codegen.lower.predicate_folding import NewVar, specialised
from jitgraph.codegen.lower.schedules.heuristics import IndexSetSplitting
from jitgraph.ir import dims
from jitgraph.ir.dims import Atom, Dim, DimLike, FloorDiv

NewAxis = Callable[[], str]
_RELATIONS: Final = ("ge", "lt")


def cut_lanes(body: Body, cuts: IndexSetSplitting, ranges: Ranges, new_axis: NewAxis, new_var: NewVar) -> Body:
    """``body`` with its vector loops in pieces where that leaves out masks or divisions; itself where none is."""
    return _Cutting(cuts, ranges, new_axis, new_var).body(body, {}, outermost=True)


class _Cutting:
    def __init__(self, cuts: IndexSetSplitting, ranges: Ranges, new_axis: NewAxis, new_var: NewVar) -> None:
        self._cuts = cuts
        self._ranges = ranges
        self._new_axis = new_axis
        self._new_var = new_var

    def body(self, body: Body, constants: Mapping[str, int], *, outermost: bool) -> Body:
        """``constants`` are the integers known where the body stands."""
        constants = {**constants, **_constants(body)}
        if any(isinstance(statement, Local) for statement in body):
            outermost = False  # no parallel loop sees a buffer of the kernel's own
        statements: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop) and statement.kind == "vector":
                statements += self._pieces(statement, constants, outermost=outermost)
            elif isinstance(statement, Loop) and statement.kind == "parallel":
                inner = self.body(statement.body, constants, outermost=False)
                statements.append(statement if inner is statement.body else replace(statement, body=inner))
            else:
                statements.append(statement)
        return body if all(new is old for new, old in itertools.zip_longest(statements, body)) else tuple(statements)

    def _pieces(self, loop: Loop, constants: Mapping[str, int], *, outermost: bool) -> list[Statement]:
        extent, inside = loop.extent, list(statements_of(loop.body))
        if not (loop.is_whole and isinstance(extent, int)) or extent < 2 * self._cuts.least:
            return [loop]
        if any(isinstance(statement, Local) for statement in inside):
            return [loop]
        conditions = _conditions(loop, {**constants, **_constants(loop.body)})
        ends = sorted({0, extent, *(cut for _, cut in conditions.values() if 0 < cut < extent)})
        if (len(ends) - 1) * len(inside) > self._cuts.most_statements or self._are_short(ends):
            ends = [0, extent]
        pieces: list[Statement] = []
        for begin, end in itertools.pairwise(ends):
            known = {
                name: (begin >= cut) == (relation == "ge")
                for name, (relation, cut) in conditions.items()
                if begin >= cut or end <= cut
            }
            pieces += self._piece(loop, begin, end, known, outermost=outermost)
        return pieces or [loop]

    def _are_short(self, ends: list[int]) -> bool:
        return any(end - begin < self._cuts.least for begin, end in itertools.pairwise(ends))

    def _piece(
        self, loop: Loop, begin: int, end: int, known: Mapping[str, bool], *, outermost: bool
    ) -> list[Statement]:
        """The iterations ``begin .. end``, in which the conditions in ``known`` are the same."""
        digit = self._digit(loop, begin, end - begin)
        if digit is None and end - begin == loop.extent:
            return [loop]
        axis = self._new_axis()
        self._ranges.declare(axis, digit or end - begin)
        index = begin + Dim.name(axis)
        turns = None
        if digit is not None:
            turns = self._new_axis()
            self._ranges.declare(turns, (end - begin) // digit)
            index = index + digit * Dim.name(turns)
        body = specialised(loop.body, {loop.axis: index}, known, self._ranges, self._new_axis, self._new_var)
        piece = Loop(axis, digit or end - begin, "vector", body)
        if turns is None or digit is None:
            return [piece]
        return [Loop(turns, (end - begin) // digit, "parallel" if outermost else "serial", (piece,))]

    def _digit(self, loop: Loop, begin: int, count: int) -> int | None:
        """The greatest run of lanes in which nothing is divided; None where there is none, or nothing is divided."""
        indices = {dim for statement in statements_of(loop.body) for dim in dims_of(statement)}
        divided = [dim for dim in indices if any(True for _ in _divisions(dim, loop.axis))]
        divisors = {atom.denominator for dim in divided for atom in _divisions(dim, loop.axis)}
        digits = {n for n in divisors if isinstance(n, int) and self._cuts.least <= n < count and count % n == 0}
        for digit in sorted(digits, reverse=True):
            lane, turns = self._new_axis(), self._new_axis()
            self._ranges.declare(lane, digit)
            self._ranges.declare(turns, count // digit)
            index = begin + digit * Dim.name(turns) + Dim.name(lane)
            parts = [self._ranges.simplify(dims.substitute(dim, {loop.axis: index})) for dim in divided]
            if not any(True for part in parts for _ in _divisions(part, lane)):
                return digit
        return None


def _constants(body: Body) -> dict[str, int]:
    return {
        statement.var.name: statement.param
        for statement in body
        if isinstance(statement, Let) and statement.op == "const" and type(statement.param) is int
    }


def _conditions(loop: Loop, constants: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """The conditions ``axis >= cut`` and ``axis < cut`` in the body of a loop, by the name of the variable."""
    offsets: dict[str, int] = {}
    conditions: dict[str, tuple[str, int]] = {}
    for statement in loop.body:
        if isinstance(statement, IndexValue) and coefficient(statement.index, loop.axis) == 1:
            offset = statement.index - Dim.name(loop.axis)
            if isinstance(offset, int):
                offsets[statement.var.name] = offset
        elif isinstance(statement, Let) and statement.op == "cmp" and statement.param in _RELATIONS:
            x, bound = (arg.name for arg in statement.args)
            if x in offsets and bound in constants:
                conditions[statement.var.name] = str(statement.param), constants[bound] - offsets[x]
    return conditions


def _divisions(dim: DimLike, axis: str) -> Iterator[FloorDiv]:
    """The divisions and remainders in ``dim`` of something that ``axis`` is part of."""
    if isinstance(dim, int) or axis not in dims.names(dim):
        return
    atoms: Iterator[Atom] = (atom for monomial in dim.terms for atom in monomial)
    for atom in atoms:
        if not isinstance(atom, str) and axis in dims.names(Dim({(atom,): 1})):
            yield atom
            yield from _divisions(atom.numerator, axis)
