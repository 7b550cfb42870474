"""Which sizes of the arguments are names, and what a trace assumes about sizes when a program asks about one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgraph.errors import JitgraphError, TraceError, note
from jitgraph.ir import dims
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tracing.call.arguments import Arguments, LeafKey
from jitgraph.tracing.guards.plain import plain_of
from jitgraph.tracing.symbolic.number import COMPARISONS

# ----------------------------------------------------------------------
# What a trace assumes about sizes when a program asks about one.
#
# A comparison, ``bool()``, ``int()`` or ``range()`` needs an answer now: it is taken from the sizes of the call being
# traced, and recorded as a constraint with the user's line, so that the graph serves only calls with the same answer. A
# trace of types alone (``lower(TensorSpec(...))``) has no sizes; there the question is an error unless every size gives
# the same answer.


class SizeConflictError(JitgraphError):
    """A size that was named because it varies had to be equal to another, and is not in this call."""

    def __init__(self, constraint: SizeConstraint, location: Location | None) -> None:
        super().__init__(f"{constraint} does not hold for this call")
        self.names = dims.names(constraint.left) | dims.names(constraint.right)
        self.location = location
        note(self)


class Pin(NamedTuple):
    """An assumption about sizes with the line that made it."""

    constraint: SizeConstraint
    location: Location | None
    what: str


class TraceConstraints(Constraints):
    """Constraints of a trace that knows the sizes of its call: what does not hold for them is never assumed."""

    def __init__(self, sizes: Mapping[str, int] | None, declared: frozenset[str]) -> None:
        super().__init__()
        self.sizes = sizes
        self.declared = declared
        self.pins: list[Pin] = []
        self.denied = False  # whether sizes with names were told not to fit

    def same(self, left: DimLike, right: DimLike) -> bool:
        """As the base class; SizeConflictError, or ShapeError for declared names, where this call's sizes differ."""
        return self._answered(SizeConstraint(left, "==", right), operator.eq, super().same, "equal sizes")

    def at_least(self, left: DimLike, bound: DimLike) -> bool:
        """As the base class; False where this call's sizes are smaller."""
        what = "a size that is large enough"
        return self._answered(SizeConstraint(left, ">=", bound), operator.ge, super().at_least, what)

    def _answered(
        self, constraint: SizeConstraint, relation: Any, assume: Callable[[DimLike, DimLike], bool], what: str
    ) -> bool:
        before = len(self._list)
        conflict = self._conflicts(constraint.left, constraint.right, relation)
        if conflict and self._is_open(constraint):
            raise SizeConflictError(constraint, Location.of_user())
        holds = not conflict and assume(constraint.left, constraint.right)
        self._note_new(before, what)
        if not holds and (isinstance(constraint.left, Dim) or isinstance(constraint.right, Dim)):
            self.denied = True
        return holds

    def ratio(self, left: DimLike, right: DimLike) -> int | None:
        """As the base class; where it is open, the ratio of this call's sizes is assumed and recorded."""
        ratio = super().ratio(left, right)
        if ratio is not None or self.sizes is None or not (dims.names(left) | dims.names(right)) <= self.sizes.keys():
            return ratio
        numerator, part = dims.evaluate(left, self.sizes), dims.evaluate(right, self.sizes)
        if part == 0 or numerator % part:
            return None
        return numerator // part if self.same(left, numerator // part * right) else None

    def _conflicts(self, left: DimLike, right: DimLike, relation: Any) -> bool:
        if self.sizes is None or not (dims.names(left) | dims.names(right)) <= self.sizes.keys():
            return False
        return not relation(dims.evaluate(left, self.sizes), dims.evaluate(right, self.sizes))

    def _is_open(self, constraint: SizeConstraint) -> bool:
        """Whether the conflict is of names that this module chose, so that a trace with plain sizes may go on."""
        names = dims.names(constraint.left) | dims.names(constraint.right)
        return bool(names - self.declared)

    def _note_new(self, before: int, what: str) -> None:
        self.pins.extend(Pin(constraint, Location.of_user(), what) for constraint in self._list[before:])

    def decide(self, left: DimLike, relation: str, right: DimLike, what: str) -> bool:
        """The truth of ``left relation right`` in this call, which is recorded as a constraint.

        TraceError where the sizes of the call are not known and the answer depends on them.
        """
        a, b = self.reduce(left), self.reduce(right)
        difference = a - b
        if isinstance(difference, int):
            return bool(COMPARISONS[relation](difference, 0))
        names = dims.names(difference)
        if self.sizes is None or not names <= self.sizes.keys():
            if (always := _always(difference, relation)) is not None:
                return always
            raise TraceError(
                f"{what} asks about the size {', '.join(sorted(names))}, unknown while types alone are traced",
                hint="lower with concrete arrays, or avoid the question (jg.where works for every size)",
            )
        x, y = dims.evaluate(a, self.sizes), dims.evaluate(b, self.sizes)
        answer = bool(COMPARISONS[relation](x, y))
        self._assume(left, right, x, y, relation, answer, what)
        return answer

    def _assume(self, left: DimLike, right: DimLike, x: int, y: int, relation: str, answer: bool, what: str) -> None:
        before = len(self._list)
        if x == y and (relation in ("==", "!=")):
            super().same(left, right)
        elif relation in ("==", "!="):  # no constraint says "differs": keep to the side of this call
            super().at_least(left, right + 1) if x > y else super().at_least(right, left + 1)
        elif relation in ("<", ">="):
            super().at_least(right, left + 1) if (relation == "<") == answer else super().at_least(left, right)
        else:
            super().at_least(left, right + 1) if (relation == ">") == answer else super().at_least(right, left)
        self.pins.extend(Pin(constraint, Location.of_user(), what) for constraint in self._list[before:])

    def value(self, dim: DimLike, what: str) -> int:
        """The value of ``dim`` in this call, to which it is then held; TraceError for declared names."""
        reduced = self.reduce(dim)
        if isinstance(reduced, int):
            return reduced
        names = dims.names(reduced)
        if self.sizes is None or not names <= self.sizes.keys():
            raise TraceError(
                f"{what} needs the value of the size {reduced}, which is not known while types alone are traced",
                hint="lower with concrete arrays, or keep the size symbolic (x.shape, jg.arange(n), jg.scan)",
            )
        if declared := names & self.declared:
            raise TraceError(
                f"{what} needs the value of the size {reduced}, but {', '.join(sorted(declared))} is declared dynamic",
                hint="keep the size symbolic (jg.arange(n), jg.scan), or leave it out of dynamic_shapes",
            )
        value = dims.evaluate(reduced, self.sizes)
        self._assume(dim, value, value, value, "==", True, what)
        return value


def _always(difference: Dim, relation: str) -> bool | None:
    """The truth of ``difference relation 0`` where it is the same for all sizes (names are at least 0), else None."""
    not_below, above = dims.is_natural(difference), dims.is_natural(difference - 1)
    not_above, below = dims.is_natural(-difference), dims.is_natural(-difference - 1)
    yes, no = {
        ">=": (not_below, below),
        "<": (below, not_below),
        "<=": (not_above, above),
        ">": (above, not_above),
        "!=": (above or below, False),
        "==": (False, above or below),
    }[relation]
    return True if yes else False if no else None


# ----------------------------------------------------------------------
# Which sizes of the arguments are names: those declared, and those seen to vary from call to call.

_MOST = 8  # arguments that an error lists
Position = tuple[int, int]  # leaf, axis


class Family:
    """Calls that differ in sizes alone: the sizes seen, and the positions that a program held to one value."""

    def __init__(self) -> None:
        self.seen: list[dict[Position, int]] = []
        self.pinned: dict[Position, Location | None] = {}

    @staticmethod
    def key(arguments: Arguments) -> Any:
        """Equal for calls of one family."""
        leaves = tuple(
            (key.kind, key.dtype, len(key.shape), key.requires_grad, key.first)
            if key.kind in ("tensor", "array", "float")
            else _fixed(key)
            for key in arguments.keys
        )
        return arguments.structure, leaves

    def note(self, arguments: Arguments) -> None:
        """Remember the sizes of a call (the last 16 kinds)."""
        sizes = _sizes(arguments.keys)
        if sizes not in self.seen:
            self.seen = [*self.seen[-15:], sizes]

    def pin(self, positions: Sequence[Position], location: Location | None) -> None:
        """Name these positions no more; ``location`` is the line that holds them."""
        for position in positions:
            self.pinned.setdefault(position, location)

    def varying(self) -> dict[Position, tuple[int, ...]]:
        """The positions whose size varied, each with the sizes in order; equal histories are one name."""
        if len(self.seen) < 2:
            return {}
        columns = {position: tuple(sizes[position] for sizes in self.seen) for position in self.seen[-1]}
        return {p: column for p, column in columns.items() if len(set(column)) > 1 and p not in self.pinned}


def _fixed(key: LeafKey) -> Any:
    if key.kind == "identity":
        return "identity", id(key.value)
    return (int,) if type(key.value) is int else (key.kind, type(key.value), plain_of(key.value) or key.value)


def _sizes(keys: Sequence[LeafKey]) -> dict[Position, int]:
    return {
        (leaf, axis): size
        for leaf, key in enumerate(keys)
        for axis, size in enumerate(key.shape)
        if isinstance(size, int)
    }


def named_keys(
    arguments: Arguments, family: Family, declared: Mapping[str, Mapping[int, str]], are_hints: bool = False
) -> tuple[tuple[LeafKey, ...], dict[str, int], dict[str, list[Position]]]:
    """The keys with names for sizes, the value of each name in this call, and the positions of names chosen here.

    Names that are hints count as chosen here: they are left out where the function has held them to a value.
    TraceError where a declared name stands for two sizes, or for an argument or axis that is not there.
    """
    shapes: list[list[DimLike]] = [list(key.shape) for key in arguments.keys]
    sizes: dict[str, int] = {}
    chosen: dict[str, list[Position]] = {}
    for text, axes in declared.items():
        if text not in arguments.texts:
            raise TraceError(
                f"dynamic_shapes names {text!r}, which is no tensor argument",
                hint=f"one of {', '.join(arguments.texts[:_MOST])}{', ...' * (len(arguments.texts) > _MOST)}",
            )
        leaf = arguments.texts.index(text)
        for axis, name in axes.items():
            if not -len(shapes[leaf]) <= axis < len(shapes[leaf]):
                raise TraceError(f"dynamic_shapes names axis {axis} of {text}, whose rank is {len(shapes[leaf])}")
            size = arguments.keys[leaf].shape[axis]
            if not isinstance(size, int):
                continue  # a TensorSpec that names the size itself
            if are_hints:
                axis %= len(shapes[leaf])
                if (leaf, axis) in family.pinned or sizes.get(name, size) != size:
                    continue
                chosen.setdefault(name, []).append((leaf, axis))
            if sizes.setdefault(name, size) != size:
                raise TraceError(f"the size {name!r} is {sizes[name]} and, in {text} on axis {axis}, {size}")
            shapes[leaf][axis] = Dim.name(name)
    by_column: dict[tuple[int, ...], str] = {}
    for (leaf, axis), column in family.varying().items():
        if not isinstance(shapes[leaf][axis], int):
            continue
        if column not in by_column:
            by_column[column] = _fresh_name(arguments.texts[leaf], axis, sizes)
            sizes[by_column[column]] = column[-1]
            chosen[by_column[column]] = []
        name = by_column[column]
        size = arguments.keys[leaf].shape[axis]
        assert isinstance(size, int)
        sizes[name] = size
        chosen[name].append((leaf, axis))
        shapes[leaf][axis] = Dim.name(name)
    keys = tuple(key._replace(shape=tuple(shape)) for key, shape in zip(arguments.keys, shapes, strict=True))
    return keys, sizes, chosen


def _fresh_name(text: str, axis: int, taken: Mapping[str, int]) -> str:
    name = re.sub(r"\W+", "_", f"{text}_{axis}").strip("_")
    while name in taken:
        name += "_"
    return name
