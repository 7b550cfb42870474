"""Objects: the table of objects that a plan is made with, and the predicates that name objects by their numbers."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from jitgraph.tensor import Tensor
from jitgraph.tracing.plain import Plain, plain_of
from jitgraph.tracing.predicate import (
    Elements,
    Equals,
    EqualsObject,
    Exactly,
    Extent,
    Is,
    IsOrStandIn,
    IsTensor,
    Predicate,
    brief,
)
from jitgraph.tracing.source import Ref
from jitgraph.tracing.storage import elements_of, is_by_base


class Objects:
    """The table of objects that a plan is made with: each object once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stand_ins: dict[int, Any] = {}  # what stands in the place of an object, by its id
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """The number of an object."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.values)
            self.values.append(value)
        return number

    def key(self, value: Any) -> Any:
        """A key of a step: itself where it is plain, else a Ref."""
        return value if plain_of(value) is not None else Ref(self.number(value))

    def same(self, value: Any) -> Predicate:
        """The predicate that holds for this very object."""
        plain = plain_of(value)
        if plain is not None and plain.kind == "constant":
            return Equals(plain)
        if id(value) in self.stand_ins:
            return IsOrStandIn(self.number(value), self.number(self.stand_ins[id(value)]), brief(value))
        return Is(self.number(value), brief(value))

    def value(self, value: Any) -> Predicate:
        """The predicate that a value calls for that was read: its value where it has one, else its identity."""
        if isinstance(value, Tensor):
            return IsTensor()
        plain = None if type(value) is tuple else plain_of(value)
        return self.same(value) if plain is None else Equals(plain)

    def equal(self, value: Any) -> Predicate:
        """The predicate of what is equal to an object and of the same class."""
        return EqualsObject(self.number(value), brief(value))

    def kind(self, kind: type) -> Predicate:
        """The predicate of instances of exactly this class."""
        return Exactly(self.number(kind), kind.__name__)

    def extent(self, elements: Any, container: Any = None) -> Extent:
        """The predicate of the extent of a container of the user's, which holds what ``elements`` does."""
        by_base = is_by_base(container)
        if isinstance(elements, dict | types.MappingProxyType):
            return self.keys(elements, by_base=by_base)
        if isinstance(elements, set | frozenset):
            return Extent("members", len(elements), tuple(map(self._mark, elements)), by_base)
        return Extent("length", len(elements), (), by_base)

    def elements(self, elements: Any, container: Any) -> Elements:
        """The predicate of a container of the user's that holds these very elements in order."""
        members = tuple(elements_of(elements))
        return Elements(self.number(members), len(members), isinstance(elements, dict), is_by_base(container))

    def keys(self, keys: Iterable[Any], *, by_base: bool = False) -> Extent:
        """The predicate of a mapping with these keys, in order."""
        marks = tuple(map(self._mark, keys))
        return Extent("keys", len(marks), marks, by_base)

    def _mark(self, value: Any) -> Plain | Ref:
        return plain_of(value) or Ref(self.number(value))
