"""The Python numbers and the sizes of one trace that vary: where they are read, what was asked, who may be given
one.
"""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import inspect
import itertools
import math
import operator
import re
import sys
import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from jitgraph.errors import TraceError
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.location import Location
from jitgraph.own_code import PACKAGE
from jitgraph.records import NamedTuple
from jitgraph.tensor import scalars
from jitgraph.tracing.capture.kinds import ATTRIBUTE_CHANGERS, GETTERS, is_followed, is_users_class
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.symbolic.number import (
    LEAF,
    NumberAssumption,
    Origin,
    PinnedNumber,
    SymbolicNumber,
    literal,
    shown,
)

if TYPE_CHECKING:
    from jitgraph.tracing.record.trace import Trace

# ----------------------------------------------------------------------
# Which callables that a trace does not follow may be given a number that varies.
#
# They use a number by its own special methods alone, which answer as the plain number does. All others may look at the
# type of an object, or at the memory behind it: they are given the plain number.

COMPENSATES: Final = sys.version_info >= (3, 12)  # ``sum`` of floats, by Neumaier's method
_DEPTH: Final = 4  # of containers inside containers that are searched
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, collections.deque, slice)
_TAKERS: Final[frozenset[int]] = frozenset(
    map(
        id,
        [
            *(abs, all, any, bin, bool, callable, chr, complex, dict, divmod, enumerate, filter, float, format),
            *(frozenset, getattr, hasattr, hash, hex, int, isinstance, issubclass, iter, len, list, map, max, min),
            *(next, object, oct, pow, print, property, range, repr, reversed, round, set, setattr, slice, sorted, str),
            *(super, tuple, zip),
            *(builtins.classmethod, builtins.staticmethod, builtins.__build_class__),
            *(math.floor, math.ceil, math.trunc, math.prod),
            *(functools.partial, functools.reduce, copy.copy, copy.deepcopy),
            *(collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter),
            *(value for name, value in vars(itertools).items() if isinstance(value, type)),
            *(getattr(operator, name) for name in operator.__all__),
        ],
    )
)
_OWNERS: Final = (list, tuple, dict, set, frozenset, str, bytes, bytearray, range, slice, collections.deque)


def numbers_in(value: Any, depth: int = _DEPTH) -> list[SymbolicNumber]:
    """The numbers that vary in a value: itself, or what builtin containers hold."""
    return [number for number in _instances_in(value, SymbolicNumber, depth) if number.is_live]


def refuse_staged(function: Any, called: Any, arguments: Any) -> None:
    """ScriptError where a callable that is not followed is given a number that the graph computes, and may look at
    more of it than its methods; ``called`` is what a script calls in place of ``function``, such as its own ``sum``."""
    if function is type or getattr(function, "__self__", None) is math:  # a script has its own
        return
    staged = _instances_in(arguments, scalars.ComputedNumber, _DEPTH)
    if staged and not takes_numbers(function, staged) and not takes_numbers(called, staged):
        from jitgraph.tracing.symbolic.staged_integers import refuse  # here: few programs have such numbers

        refuse(f"{title(function)}()")


def _instances_in(value: Any, kind: type, depth: int) -> list[Any]:
    if issubclass(type(value), kind):
        return [value]
    if depth == 0 or not issubclass(type(value), _CONTAINERS):
        return []
    items: Iterable[Any] = value
    if isinstance(value, dict):
        items = (*dict.keys(value), *dict.values(value))
    elif isinstance(value, slice):
        items = (value.start, value.stop, value.step)
    elif isinstance(value, list):
        items = [*list.__iter__(value)]
    return [number for item in items for number in _instances_in(item, kind, depth - 1)]


def takes_numbers(function: Any, numbers: Sequence[Any]) -> bool:
    """Whether ``function`` gives for the numbers what it gives for plain ones, by asking their methods alone."""
    if function is sum:
        return not COMPENSATES or all(number.kind is int for number in numbers)
    if id(function) in _TAKERS:
        return True
    if isinstance(function, types.MethodType):
        return takes_numbers(function.__func__, numbers)
    if isinstance(function, functools.partial):
        return takes_numbers(function.func, numbers)
    if isinstance(function, types.FunctionType | type):
        return _is_seen(function)
    if (
        isinstance(function, types.MethodWrapperType | types.WrapperDescriptorType)
        and function.__name__ in ATTRIBUTE_CHANGERS
    ):
        return True
    if isinstance(function, types.BuiltinMethodType | types.MethodWrapperType):
        owner = function.__self__
        return isinstance(owner, (*_OWNERS, *GETTERS)) or (isinstance(owner, type) and issubclass(owner, dict))
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
        return issubclass(function.__objclass__, _OWNERS)
    if isinstance(function, GETTERS):
        return True
    call = type(function).__call__
    return isinstance(call, types.FunctionType) and _is_seen(call)


def _is_made_by_user(kind: type) -> bool:
    """Whether an ``__init__`` of the user's, which a trace follows, is all that making an instance runs."""
    init: Any = inspect.getattr_static(kind, "__init__")
    makers: Any = inspect.getattr_static(kind, "__new__"), inspect.getattr_static(type(kind), "__call__")
    own = isinstance(init, types.FunctionType) and is_followed(init.__code__.co_filename)
    return own and makers == (object.__dict__["__new__"], type.__dict__["__call__"])


def _is_seen(function: Any) -> bool:
    """Whether a Python function or a class is the user's, whose code is followed, or of this package."""
    if isinstance(function, type):
        is_known = is_users_class(function) or function.__module__.partition(".")[0] == "jitgraph"
        return is_known or _is_made_by_user(function)
    file = function.__code__.co_filename
    return is_followed(file) or file.startswith((PACKAGE, "<"))


def title(function: Any) -> str:
    """A callable as the user knows it."""
    return str(getattr(function, "__qualname__", None) or getattr(function, "__name__", type(function).__name__))


def says_which(left: Any, right: Any) -> list[SymbolicNumber]:
    """The numbers in ``left is right`` for which the plain objects alone have the answer: both are numbers."""
    pair = [x for x in (left, right) if type(x) is SymbolicNumber and x.is_live]
    return pair if all(type(x) in (SymbolicNumber, int, float) for x in (left, right)) else []


# ----------------------------------------------------------------------
# The Python numbers and the sizes of one trace that vary: where they are read, and what was asked about them.

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
        if re.fullmatch(LEAF, text) and needs_value:
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
        leaves = {int(leaf) for leaf in re.findall(LEAF, text)}
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
