"""Aliases: objects that are one where a bool of the graph says so, as a branch that chose between them left them.

A staged branch that binds a variable to one of two tensors or containers gives a new object, which holds what the
chosen one holds. In Python it *is* the chosen one: a write into either has to be seen through the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from jitgraph import ops
from jitgraph.records import NamedTuple
from jitgraph.tensor import lifting

if TYPE_CHECKING:
    from jitgraph.tracing.record.recorder import Recorder

Condition: TypeAlias = "Callable[[], Any]"  # gives a bool of the graph, recorded where it is asked for


class SameWhere(NamedTuple):
    """Another object, and where it is the same one."""

    other: Any
    condition: Condition


class Aliases:
    """The pairs of objects that one recorder knows to be the same where a condition holds."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, SameWhere]] = {}
        self._objects: dict[int, Any] = {}  # keeps the ids valid

    def add(self, a: Any, b: Any, condition: Condition) -> None:
        """``a`` and ``b`` are one object where ``condition`` holds."""
        for one, other in ((a, b), (b, a)):
            self._objects[id(one)] = one
            self._known.setdefault(id(one), {})[id(other)] = SameWhere(other, condition)

    def of(self, value: Any) -> Iterator[SameWhere]:
        """The objects that may be ``value``."""
        return iter(tuple(self._known.get(id(value), {}).values()))


def aliases_of(trace: Recorder | None, value: Any) -> list[SameWhere]:
    """The objects that may be ``value``, as this recorder and those around it know them."""
    if trace is None:
        return []
    return [alias for recorder in trace.outwards() for alias in recorder.aliases.of(value)]


def chosen(condition: Condition, value: Any, other: Any) -> Any:
    """A value where the condition holds, else the other one."""
    return ops.select(lifting.broadcast_to(condition(), value.type.shape), value, other)
