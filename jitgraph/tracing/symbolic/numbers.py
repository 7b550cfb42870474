"""The Python numbers and the sizes of one trace that vary: where they are read, and what was asked about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from jitgraph.errors import TraceError
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tracing.source import Slot
from jitgraph.tracing.symbolic.assumptions import LEAF, NumberAssumption, Origin, PinnedNumber, literal, shown
from jitgraph.tracing.symbolic.number import SymbolicNumber
from jitgraph.tracing.symbolic.passing import numbers_in, says_which, takes_numbers, title

if TYPE_CHECKING:
    from jitgraph.tracing.record.trace import Trace

_MOST_ASSUMPTIONS: Final = 64  # about numbers that vary; then they are held to their values


class SizeOrigin(NamedTuple):
    """Where a named size is read: on an axis of a leaf of the arguments, which the user knows as ``text``."""

    leaf: int
    axis: int
    text: str


class Numbers:
    """The numbers of one trace that vary.

    What is recorded for another process (``portable``) has no Python at its calls: there a float among the arguments
    is an input of the graph, and one that Python asks about is held to its value.
    """

    def __init__(self, trace: Trace, *, portable: bool = False) -> None:
        self.trace = trace
        self.portable = portable
        self.origins: list[Origin] = []
        self.assumptions: dict[str, NumberAssumption] = {}
        self.held: dict[int, PinnedNumber] = {}
        self.used: set[int] = set()
        self.sizes: dict[str, SizeOrigin] = {}  # by the names of sizes
        self.are_there = False  # whether the function can meet a number that varies
        self._sizes: dict[str, Origin] = {}

    def at_slot(self, slot: Slot, value: int | float) -> SymbolicNumber:
        """The number that stands at ``slot``."""
        return self._new(slot, -1, slot.text, value)

    def at_leaf(self, leaf: int, text: str, value: int | float) -> SymbolicNumber:
        """The number that is a leaf of the arguments."""
        return self._new(None, leaf, text, value)

    def of_size(self, dim: Dim) -> SymbolicNumber:
        """The number that a size is, which is a name or an expression over names."""
        self.are_there = True
        return SymbolicNumber(self, int, self.value_of(dim), dim=dim)

    def value_of(self, dim: DimLike) -> int | None:
        """The value of a size in this call; None where types alone are traced."""
        sizes = self.trace.constraints.sizes or {}
        return dims.evaluate(dim, sizes) if dims.names(dim) <= sizes.keys() else None

    def _new(self, slot: Slot | None, leaf: int, text: str, value: int | float) -> SymbolicNumber:
        self.are_there = True
        origin = Origin(len(self.origins), slot, leaf, text, type(value))
        self.origins.append(origin)
        return SymbolicNumber(self, type(value), value, f"n{origin.number}")

    def size_text(self, dim: Dim) -> str:
        """A size as an expression over what each call reads."""
        return f"({dims.transform(dim, lambda name: Dim.name(f'n{self._size(name).number}'))})"

    def size_shown(self, dim: Dim) -> str:
        """A size for people: by the names that are declared, else by where it is read."""
        constraints = self.trace.constraints
        if constraints.sizes is None or dims.names(dim) <= constraints.declared:
            return str(dim)
        text = shown(self.size_text(dim), self.origins)
        return text[1:-1] if dim.as_name is not None else text

    def _size(self, name: str) -> Origin:
        origin = self._sizes.get(name)
        if origin is None:
            size_origin = self.sizes.get(name)
            text, leaf, axis = (
                (name, -1, -1) if size_origin is None else (size_origin.text, size_origin.leaf, size_origin.axis)
            )
            origin = self._sizes[name] = Origin(len(self.origins), None, leaf, text, int, axis)
            self.origins.append(origin)
        return origin

    # --- what Python asks -------------------------------------------------------------------------------------------

    def ask(self, text: str, answer: Any, what: str) -> None:
        """Record an assumption; one about numbers that are all held says nothing new."""
        leaves = self.use(text)
        if leaves <= self.held.keys():
            return
        assumption = NumberAssumption(text, answer, self.shown(what), Location.of_user())
        known = assumption.condition() in self.assumptions
        needs_value = not isinstance(answer, bool | type)
        many = len(self.assumptions) >= _MOST_ASSUMPTIONS and not known
        if self.portable or many or (needs_value and self._declared(leaves)):
            self.refuse(text, what)
            return
        if type(answer) is int and f"({text} == {literal(answer)})" in self.assumptions:
            return
        self.assumptions.setdefault(assumption.condition(), assumption)
        if LEAF.fullmatch(text) and needs_value:
            (leaf,) = leaves
            self.held.setdefault(leaf, PinnedNumber(self.origins[leaf], self.shown(what), assumption.location))

    def refuse(self, text: str, what: str) -> None:
        """Hold all numbers in an expression: ``what`` takes no stand-in. TraceError for a size declared dynamic."""
        leaves = self.use(text)
        if declared := self._declared(leaves):
            self.refuse_declared(shown(text, self.origins), declared, self.shown(what))
        for leaf in leaves:
            self.held.setdefault(leaf, PinnedNumber(self.origins[leaf], self.shown(what), Location.of_user()))

    def refuse_declared(self, text: str, names: list[str], what: str) -> NoReturn:
        """The error for a size that is declared dynamic and that Python needs."""
        raise TraceError(
            f"{what} needs the value of {text}, but {', '.join(names)} is declared dynamic",
            hint="keep the size symbolic (jg.arange(n), jg.scan), or leave it out of dynamic_shapes",
        )

    def hold_size(self, dim: Dim, what: str) -> int:
        """The value of a size, to which it is held from now on."""
        value = self.trace.constraints.value(dim, what)
        if dim.as_name is not None:
            origin = self._size(dim.as_name)
            self.held.setdefault(origin.number, PinnedNumber(origin, what, Location.of_user()))
        return value

    def _declared(self, leaves: set[int]) -> list[str]:
        constraints = self.trace.constraints
        fixed = constraints.declared if constraints.sizes is not None else self._sizes.keys()
        return sorted(name for name, origin in self._sizes.items() if origin.number in leaves and name in fixed)

    def use(self, text: str) -> set[int]:
        """Note that the expression is part of the program; the numbers in it."""
        leaves = {int(leaf) for leaf in LEAF.findall(text)}
        self.used |= leaves
        return leaves

    def shown(self, text: str) -> str:
        """An expression with the names that the user knows."""
        return shown(text, self.origins)

    # --- what capture tells -----------------------------------------------------------------------------------------

    def passed_to(self, function: Any, arguments: Any) -> None:
        """``function``, whose code is not followed, is about to be called: hold the numbers among ``arguments``.

        They stay open where it is known to do with them what their own methods do.
        """
        numbers = numbers_in(arguments) if self.are_there else []
        if numbers and not takes_numbers(function, numbers):
            for number in numbers:
                number.refuse(f"{title(function)}({{}})")

    def compared(self, left: Any, right: Any) -> None:
        """``left is right`` is about to be asked: hold the numbers of which only Python knows which object they are."""
        if self.are_there and left is not right:
            for number in says_which(left, right):
                number.refuse("{} in a comparison by identity (is)")
