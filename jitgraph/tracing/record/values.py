"""TracedValue: what ops are applied to inside a trace; and objects that are one where a bool of the graph says so."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from jitgraph import dtypes, ops
from jitgraph.errors import ScriptError, TraceError
from jitgraph.ir.graph import Value
from jitgraph.ir.types import Type
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tensor import lifting

if TYPE_CHECKING:
    from jitgraph.tracing.record.recorder import Recorder

# ----------------------------------------------------------------------
# TracedValue: what ops are applied to inside a trace.


class TracedValue:
    """A value of the graph being recorded, with whether gradients flow to it, its trace, and where it was made."""

    __slots__ = ("ir", "location", "requires_grad", "trace")

    def __init__(self, ir: Value, requires_grad: bool, trace: Recorder, location: Location | None) -> None:
        self.ir = ir
        self.requires_grad = requires_grad
        self.trace = trace
        self.location = location

    @property
    def type(self) -> Type:
        return self.ir.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.ir.shape

    @property
    def dtype(self) -> Any:
        return self.ir.dtype

    @property
    def device(self) -> str:
        """Where the graph will run, as far as it is known."""
        return self.trace.device

    @property
    def record(self) -> None:
        """No record of the eager tape made this value."""
        return

    def outside(self, handle: object) -> NoReturn:
        """Refuse to read the value where its trace is not being recorded."""
        raise self.leaked()

    def leaked(self) -> TraceError:
        """The error for a value that is used after its trace, or in another one."""
        return TraceError(
            f"a tensor of the trace of {self.trace.name!r} is used outside of it; it has no value there",
            location=self.location,
            hint="return it from the function, or write it into a tensor that exists outside (t[...] = value)",
        )


# ----------------------------------------------------------------------
# Aliases: objects that are one where a bool of the graph says so.
#
# A staged branch or loop that binds a variable to one of several tensors or containers gives a new object, which holds
# what the chosen one holds. In Python it *is* the chosen one: a write into either has to be seen through the other. So
# each pair of objects that may be one has a condition, which is a value of the graph, and a write goes to both where it
# holds. The pairs are closed: of two objects that may be one, each has the other among its aliases.

Condition: TypeAlias = "bool | Callable[[], Any]"  # or what gives a bool of the graph, recorded where it is asked for


class SameWhere(NamedTuple):
    """Another object, and where it is the same one."""

    other: Any
    condition: Condition


class Aliases:
    """The pairs of objects that one recorder knows to be the same where a condition holds.

    An object that nothing else refers to any more is forgotten where its type permits: no name can show it.
    """

    def __init__(self) -> None:
        self._conditions: dict[int, dict[int, Condition]] = {}
        self._objects: dict[int, Callable[[], Any]] = {}

    def add(self, a: Any, b: Any, condition: Condition) -> None:
        """``a`` and ``b`` are one object where ``condition`` holds."""
        for one, other in ((a, b), (b, a)):
            if id(one) not in self._objects:
                self._objects[id(one)] = self._reference(one)
            self._conditions.setdefault(id(one), {})[id(other)] = condition

    def _reference(self, value: Any) -> Callable[[], Any]:
        number = id(value)

        def forget(_: Any) -> None:
            del self._objects[number]
            for other in self._conditions.pop(number):
                self._conditions[other].pop(number, None)

        if isinstance(value, GrownElement):  # which nothing else refers to
            return lambda: value
        try:
            return weakref.ref(value, forget)
        except TypeError:
            return lambda: value

    def of(self, value: Any) -> Iterator[SameWhere]:
        """The objects that may be ``value``."""
        for number, condition in tuple(self._conditions.get(id(value), {}).items()):
            reference = self._objects.get(number)
            if reference is not None and (other := reference()) is not None:
                yield SameWhere(other, condition)


class GrownElement:
    """Stands for the elements of a list that a loop let grow at ``location``: no graph can say which of them an object
    is that may be one of them, so that a write into that object raises."""

    def __init__(self, location: Location | None) -> None:
        self.location = location


def aliases_of(trace: Recorder | None, value: Any) -> list[SameWhere]:
    """The objects that may be ``value``, as this recorder and those around it know them."""
    if trace is None:
        return []
    return [alias for recorder in trace.outwards() for alias in recorder.aliases.of(value)]


def sameness(trace: Recorder | None, a: Any, b: Any) -> Condition:
    """Where ``a`` and ``b`` are one object."""
    if a is b:
        return True
    return next((condition for other, condition in aliases_of(trace, a) if other is b), False)


def value_of(condition: Condition) -> Any:
    """A condition as a bool of the graph."""
    return lifting.constant(condition, dtypes.bool_) if isinstance(condition, bool) else condition()


def chosen(condition: Condition, value: Any, other: Callable[[], Any]) -> Any:
    """A value where the condition holds, else what ``other`` gives."""
    if isinstance(condition, bool):
        return value if condition else other()
    return ops.select(lifting.broadcast_to(condition(), value.type.shape), value, other())


def note_choice(trace: Recorder, value: Any, candidates: Sequence[SameWhere]) -> None:
    """``value`` is each of these objects where its condition holds."""
    cases_by_id: dict[int, tuple[Any, list[tuple[Condition, Condition]]]] = {}
    for candidate, holds in candidates:
        for other, condition in (SameWhere(candidate, True), *aliases_of(trace, candidate)):
            cases_by_id.setdefault(id(other), (other, []))[1].append((holds, condition))
    for other, cases in cases_by_id.values():
        trace.aliases.add(value, other, True if (True, True) in cases else partial(_any_of, cases))


def _any_of(cases: Sequence[tuple[Condition, Condition]]) -> Any:
    both = [ops.logical_and(value_of(first), value_of(second)) for first, second in cases]
    return reduce(ops.logical_or, both)


def unknown_write(location: Location | None) -> ScriptError:
    """The error where a tensor is written that may be any of those that the line ``location`` appended to a list."""
    return ScriptError(
        "a tensor is written in place that may be another one, too, as a loop on a tensor carries them, "
        "and that other one is an element of a list to which the loop appends",
        location=location,
        hint="append a copy (out.append(x.clone())), or compute a new tensor (x = x + 1, not x += 1)",
    )
