"""Loops after they are written: predicates folded, axes split and joined, transposed reads through shared tiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Final

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import Ranges, coefficient, divisions
from jitgraph.codegen.kernels.kernel import (
    Body,
    Carry,
    CheckStatement,
    Combine,
    IndexValue,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
    Var,
    dims_of,
    map_dims,
    statements_of,
)
from jitgraph.codegen.lower.schedules.heuristics import IndexSetSplitting, SharedTiles
from jitgraph.codegen.lower.statements import constant_of
from jitgraph.dtypes import DType, bool_
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# A body where more is known: indices put in for axes, and conditions that hold or do not, which need no masks.

NewVar = Callable[[DType], Var]
_PURE: Final = (Let, IndexValue, Load)


def specialised(
    body: Body,
    indices: Mapping[str, DimLike],
    known: Mapping[str, bool],
    ranges: Ranges,
    new_axis: Callable[[], str],
    new_var: NewVar,
) -> Body:
    """A copy of ``body`` under names of its own, with ``indices`` in place of axes, where ``known`` conditions hold.

    It consists of what may stand among lanes: scalars, loads, stores, checks, and loops of these. What it does not use
    is left out.
    """
    copy = _Copy(dict(indices), dict(known), ranges, new_axis, new_var)
    copied = copy.body(body)
    return _used((*copy.truths, *copied), set())


class _Copy:
    def __init__(
        self,
        indices: dict[str, DimLike],
        known: dict[str, bool],
        ranges: Ranges,
        new_axis: Callable[[], str],
        new_var: NewVar,
    ) -> None:
        self._indices = indices
        self._known = known
        self._ranges = ranges
        self._new_axis = new_axis
        self._new_var = new_var
        self._vars: dict[str, Var] = {}
        self._made: list[Statement] = []
        self.truths: list[Let] = []
        """Known conditions that something takes as a value: they stand before all else."""

    def body(self, body: Body) -> Body:
        """The copy of a body."""
        outer, self._made = self._made, []
        for statement in body:
            self._copy(statement)
        statements, self._made = tuple(self._made), outer
        return statements

    def _dim(self, dim: DimLike) -> DimLike:
        return self._ranges.simplify(dims.substitute(dim, self._indices))

    def _defined(self, var: Var) -> Var:
        fresh = self._vars[var.name] = self._new_var(var.dtype)
        self._indices[var.name] = Dim.name(fresh.name)
        return fresh

    def _var(self, var: Var) -> Var:
        """What stands for a variable of the body; those around it are themselves."""
        if var.name in self._known and var.name not in self._vars:
            truth = self._vars[var.name] = self._new_var(bool_)
            self.truths.append(Let(truth, "const", (), self._known[var.name]))
        return self._vars.get(var.name, var)

    def _is(self, var: Var | None, value: bool) -> bool:
        return var is not None and self._known.get(var.name) is value

    def _mask(self, mask: Var | None) -> Var | None:
        return None if mask is None or self._is(mask, True) else self._var(mask)

    def _copy(self, statement: Statement) -> None:
        match statement:
            case Let():
                self._let(statement)
            case IndexValue(var, index):
                index = self._dim(index)
                self._made.append(IndexValue(self._defined(var), index))
            case Load(var, _, _, mask) if self._is(mask, False):
                self._made.append(Let(self._defined(var), "const", (), constant_of(0, var.dtype)))
            case Load(var, buffer, index, mask):
                index, mask = self._dim(index), self._mask(mask)
                self._made.append(Load(self._defined(var), buffer, index, mask))
            case Store(mask=mask) if self._is(mask, False):
                pass
            case Store(index=index, value=value, mask=mask):
                copy = replace(statement, index=self._dim(index), value=self._var(value), mask=self._mask(mask))
                self._made.append(copy)
            case CheckStatement(ok=ok) if self._is(ok, True):
                pass
            case CheckStatement(ok, check, value, bound):
                shown = (None if var is None else self._var(var) for var in (value, bound))
                self._made.append(CheckStatement(self._var(ok), check, *shown))
            case Loop():
                self._loop(statement)
            case _:
                raise AssertionError(f"{type(statement).__name__} does not stand among lanes")

    def _let(self, let: Let) -> None:
        name = let.var.name
        if name in self._known:
            return
        decided = self._decided(let)
        if isinstance(decided, bool):
            self._known[name] = decided
        elif decided is not None:
            if decided.name in self._known:
                self._known[name] = self._known[decided.name]
            else:
                new = self._vars[name] = self._var(decided)
                self._indices[name] = Dim.name(new.name)
        else:
            args = tuple(map(self._var, let.args))
            self._made.append(replace(let, var=self._defined(let.var), args=args))

    def _decided(self, let: Let) -> Var | bool | None:
        """What a logical op gives, where the known conditions decide it: a variable of the body, or a truth."""
        match let.op, let.args:
            case "not_", (x,) if x.name in self._known:
                return not self._known[x.name]
            case ("and_" | "or_") as op, (x, y) if x.dtype == bool_:
                for one, other in ((x, y), (y, x)):
                    if one.name in self._known:
                        return other if self._known[one.name] == (op == "and_") else self._known[one.name]
            case "select", (condition, x, y) if condition.name in self._known:
                return x if self._known[condition.name] else y
        return None

    def _loop(self, loop: Loop) -> None:
        assert loop.slots is None, "slots stand in no lanes"
        extent, begin = self._dim(loop.extent), self._dim(loop.begin)
        inits = [self._var(carry.init) for carry in loop.carries]
        axis = self._new_axis()
        self._ranges.declare(axis, extent)
        self._indices[loop.axis] = Dim.name(axis)
        inside = [self._defined(carry.var) for carry in loop.carries]
        body = self.body(loop.body)
        following = [self._var(carry.next) for carry in loop.carries]
        combine = None if loop.combine is None else self._combine(loop.combine)
        carries = tuple(
            Carry(var, init, next, self._defined(carry.result))
            for carry, var, init, next in zip(loop.carries, inside, inits, following, strict=True)
        )
        new = replace(loop, axis=axis, extent=extent, begin=begin, body=body, carries=carries, combine=combine)
        self._made.append(new)

    def _combine(self, combine: Combine) -> Combine:
        left, right = (tuple(map(self._defined, some)) for some in (combine.left, combine.right))
        body = []
        for let in combine.body:
            args = tuple(map(self._var, let.args))
            body.append(replace(let, var=self._defined(let.var), args=args))
        return Combine(left, right, tuple(body), tuple(map(self._var, combine.results)))


def _used(body: Body, live: set[str]) -> Body:
    """``body`` without scalars and loads that nothing uses; ``live`` are used after it, and grows by what it uses."""
    retained: list[Statement] = []
    for statement in reversed(body):
        if isinstance(statement, _PURE) and statement.var.name not in live:
            continue
        if isinstance(statement, Loop):
            live |= {carry.next.name for carry in statement.carries}
            statement = replace(statement, body=_used(statement.body, live))
        retained.append(statement)
        live |= _uses(statement)
    return tuple(reversed(retained))


def _uses(statement: Statement) -> set[str]:
    used = {name for dim in dims_of(statement) for name in dims.names(dim)}
    match statement:
        case Let(args=args):
            used |= {arg.name for arg in args}
        case Load(mask=Var(name)):
            used.add(name)
        case Store(value=value, mask=mask):
            used |= {var.name for var in (value, mask) if var is not None}
        case CheckStatement(ok, _, value, bound):
            used |= {var.name for var in (ok, value, bound) if var is not None}
        case Loop(carries=carries):
            used |= {carry.init.name for carry in carries}
    return used


# ----------------------------------------------------------------------
# Vector loops in pieces: an axis is cut where a condition of its lanes changes, and along the digits of its divisions.
#
# What a pad or a concatenation reads depends on where an element lies: ``load p0[i - 48] if i >= 48``. On each side of
# 48 the condition is known, so a piece has no mask and loads what it uses alone. What a reshape and a transpose make
# ``756*(i // 12) + i`` is ``768*o + j`` in loops over ``i = 12*o + j``, whose lanes lie side by side.

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
        divided = [dim for dim in indices if any(True for _ in divisions(dim, loop.axis))]
        divisors = {atom.denominator for dim in divided for atom in divisions(dim, loop.axis)}
        digits = {n for n in divisors if isinstance(n, int) and self._cuts.least <= n < count and count % n == 0}
        for digit in sorted(digits, reverse=True):
            lane, turns = self._new_axis(), self._new_axis()
            self._ranges.declare(lane, digit)
            self._ranges.declare(turns, count // digit)
            index = begin + digit * Dim.name(turns) + Dim.name(lane)
            parts = [self._ranges.simplify(dims.substitute(dim, {loop.axis: index})) for dim in divided]
            if not any(True for part in parts for _ in divisions(part, lane)):
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


# ----------------------------------------------------------------------
# Loop nests after they are written: axes that memory sees as one become one.
#
# Two nested loops of independent iterations over ``a`` (outer) and ``b`` of extent ``n`` are one loop over
# ``c = a*n + b`` where every index inside says so: with ``a = 0, b = c`` put in, it still has the value it had.


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


# ----------------------------------------------------------------------
# Transposed reads through memory that threads share: each tile is read along memory, and written along memory.
#
# A nest of independent elements that strides through a buffer along its innermost axis, while the buffer's elements lie
# side by side along another one, becomes one of square tiles of both axes. A first loop over a tile loads it as it lies
# and stores it into a local buffer; a second one, which runs along the innermost axis, reads that and does the rest.
# The rows of the local buffer are one element longer than the tile, which puts a column of it into different banks.


@dataclass(frozen=True)
class TransposedNest:
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
        match = transposed_nest(statement, tiles.side, tiles.most) if isinstance(statement, Loop) else None
        writer = _TiledNest(tiles.side, new_axis, new_var, numbers)
        result.append(statement if match is None else writer.nest(match))
    return tuple(result)


def transposed_nest(loop: Loop, least: int, most: int) -> TransposedNest | None:
    """``loop`` as a nest with up to ``most`` reads across its innermost axis, along another one, both of ``least``
    elements or more; None for any other."""
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
    if last.kind != "vector" or not plain or not _is_long(last, least):
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
        if reads and len(reads) <= most and _is_long(across, least):
            return TransposedNest(tuple(levels), body, across, last, reads)
    return None


def _is_long(loop: Loop, least: int) -> bool:
    return isinstance(loop.extent, int) and loop.extent >= least


class _TiledNest:
    def __init__(
        self, side: int, new_axis: Callable[[], str], new_var: Callable[[DType], Var], numbers: count[int]
    ) -> None:
        self.side, self.new_axis, self.new_var, self.numbers = side, new_axis, new_var, numbers

    def nest(self, match: TransposedNest) -> Loop:
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

    def _loading(
        self, match: TransposedNest, locals_: list[Local], coords: dict[str, DimLike], position: DimLike
    ) -> Body:
        statements, mask = self._inside(match, coords)
        offset = (self.side + 1) * (position // self.side) + position % self.side
        for read, local in zip(match.reads, locals_, strict=True):
            var = self.new_var(read.var.dtype)
            statements.append(Load(var, read.buffer, dims.substitute(read.index, coords), mask))
            statements.append(Store(local.buffer, offset, var))
        return tuple(statements)

    def _storing(
        self, match: TransposedNest, locals_: list[Local], coords: dict[str, DimLike], position: DimLike
    ) -> Body:
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

    def _inside(self, match: TransposedNest, coords: dict[str, DimLike]) -> tuple[list[Statement], Var | None]:
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
