"""A body where more is known: indices put in for axes, and conditions that hold or do not, which need no masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.index import Ranges
from jitgraph.codegen.kernels.kernel import (
    Body,
    Carry,
    CheckStatement,
    Combine,
    IndexValue,
    Let,
    Load,
    Loop,
    Statement,
    Store,
    Var,
)
from jitgraph.codegen.kernels.traversal import dims_of
from jitgraph.codegen.lower.scalar_ops import constant_of
from jitgraph.dtypes import DType, bool_
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike

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
