"""Python's own functions that look something up: what each reads of its arguments."""

from __future__ import annotations

import operator
import typing
from abc import ABCMeta
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture.attributes import Attributes
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.items import Items, Operators
from jitgraph.tracing.capture.kinds import SIMPLE, is_a, may_change
from jitgraph.tracing.capture.object_guards import ObjectGuards
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MISSING, attributes_of, entries_of


class BuiltinFunctions:
    """Says what ``getattr``, ``isinstance``, ``vars`` and the like are about to read.

    Invariant: each method reads what Python's function of that meaning reads, and nothing else.
    """

    def __init__(
        self,
        seen: Observations,
        guards: ObjectGuards,
        items: Items,
        writes: Writes,
        attributes: Attributes,
        operators: Operators,
    ) -> None:
        self._position = seen.position
        self._limits = seen.limits
        self._identities = seen.identities
        self._reads = seen.reads
        self._classes = guards.classes
        self._containers = guards.containers
        self._whole = guards.whole
        self._special = guards.special
        self.items = items
        self._attributes = attributes
        self._operators = operators
        self.writes = writes

    def asks_attribute(self, owner: Any, name: Any, *default: Any) -> Finish | None:
        """``getattr(owner, name, *default)``."""
        if is_a(name, str):
            return self._attributes.look_up(owner, name, *default)
        return None

    def has_attribute(self, owner: Any, name: Any) -> Finish | None:
        """``hasattr(owner, name)``."""
        if is_a(name, str):
            self._attributes.look_up(owner, name)
        return None

    def is_callable(self, value: Any) -> Finish | None:
        """``callable(value)``."""
        self._special.guard(value, "call")
        return None

    def namespace_of(self, owner: Any) -> Finish | None:
        """``vars(owner)``."""
        return self._attributes.look_up(owner, "__dict__")

    def names_of(self, owner: Any) -> Finish | None:
        """``dir(owner)``."""
        self._special.guard(owner, "dir")
        self._whole.guard_class(type(owner))
        if is_a(owner, type):
            self._whole.guard_class(owner)
        self._attributes.look_up(owner, "__dict__")
        storage = attributes_of(owner)
        if storage is not None:
            self._containers.guard_extent(storage)
        return None

    def is_instance(self, value: Any, kinds: Any) -> Finish | None:
        """``isinstance(value, kinds)``."""
        self._classes.guard_type(value)
        for kind in kinds if is_a(kinds, tuple) else (kinds,):
            if is_a(kind, type):
                self._classes.guard_bases(kind)
                self._special.guard(kind, "instance")
                self._special.guard(kind, "subclass")
                for name in _names_of_protocol(kind):
                    self._attributes.look_up(value, name)
        if self._identities.is_outside(value):
            return self._answer_of(isinstance, value, kinds)
        return self._answer_of(issubclass, type(value), kinds)

    def is_subclass(self, kind: Any, kinds: Any) -> Finish | None:
        """``issubclass(kind, kinds)``."""
        if not is_a(kind, type):
            return None
        self._classes.guard_bases(kind)
        for other in kinds if is_a(kinds, tuple) else (kinds,):
            if is_a(other, type):
                self._classes.guard_bases(other)
                self._special.guard(other, "subclass")
        return self._answer_of(issubclass, kind, kinds)

    def _answer_of(self, question: Any, value: Any, kinds: Any) -> Finish | None:
        """Where an abstract class or a protocol answers by code of Python's own: the same answer at each call."""
        every = kinds if is_a(kinds, tuple) else (kinds,)
        answering = [kind for kind in every if is_a(kind, ABCMeta) and not _names_of_protocol(kind)]
        whose = value if question is issubclass else type(value)
        if not answering or not any(map(may_change, (*whose.__mro__, *answering))):
            return None
        if any(self._answers_itself(kind) for kind in every if is_a(kind, type)):
            return None
        shown = f"{question.__name__}({self._reads.text_of(value)}, {self._reads.text_of(kinds)})"
        slot = Slot("cached", question, (value, kinds), shown)

        def finish(after: Activation | None) -> None:
            if after is not FAILED and type(answer := slot.get_or(MISSING)) is bool:
                self._reads.record(slot, answer)

        return finish

    def _answers_itself(self, kind: type) -> bool:
        """Whether code of the user's says what is an instance of ``kind``."""
        entries = [self._classes.find(type(kind), name) for name in ("__instancecheck__", "__subclasscheck__")]
        return any(entry is not None and may_change(entry[0]) for entry in entries)

    def next_of(self, iterator: Any) -> Finish | None:
        """``next(iterator)``."""
        self.items.advance(iterator)
        return None

    def identity_of(self, function: str, value: Any) -> None:
        """``id(value)`` or ``hash(value)``, as ``function`` says: those of a tensor differ from call to call."""
        if self._position.in_package:
            return
        if type(value) not in (int, bool, float, complex):
            self._limits.bind_to_process(f"{function}({self._reads.text_of(value)})")
        if is_a(value, Tensor) or (
            function == "id" and type(value) not in SIMPLE and not self._identities.is_reachable(value)
        ):
            self._limits.cannot_guard(f"{function}({self._reads.text_of(value)})")
        elif function == "hash":
            self._operators.apply("hash", (value,))


_Model = Callable[[BuiltinFunctions, Sequence[Any]], Finish | None]
MODELS: Final[dict[Any, _Model]] = {
    getattr: lambda c, a: c.asks_attribute(*a[:3]) if len(a) > 1 else None,
    hasattr: lambda c, a: c.has_attribute(*a[:2]),
    setattr: lambda c, a: c.writes.sets_attribute(*a[:2]),
    delattr: lambda c, a: c.writes.sets_attribute(*a[:2], removes=True),
    vars: lambda c, a: c.namespace_of(a[0]),
    dir: lambda c, a: c.names_of(a[0]),
    iter: lambda c, a: c.items.iterate(a[0]),
    next: lambda c, a: c.next_of(a[0]),
    id: lambda c, a: c.identity_of("id", a[0]),
    isinstance: lambda c, a: c.is_instance(*a) if len(a) == 2 else None,
    issubclass: lambda c, a: c.is_subclass(*a) if len(a) == 2 else None,
    callable: lambda c, a: c.is_callable(a[0]),
    operator.getitem: lambda c, a: c.items.read(*a) if len(a) == 2 else None,
    operator.setitem: lambda c, a: c.writes.sets_item(*a[:2]),
    operator.delitem: lambda c, a: c.writes.sets_item(*a[:2], removes=True),
}
"""By function, what tells of a call with these arguments (at least one) before it is made."""


def _names_of_protocol(kind: type) -> Iterable[str]:
    """The attributes that make an object an instance of a protocol; nothing for any other class."""
    if not entries_of(kind).get("_is_protocol", False):
        return ()
    names: Iterable[str] | None = entries_of(kind).get("__protocol_attrs__")  # from Python 3.12 on
    if names is None:
        names = typing._get_protocol_attrs(kind)  # type: ignore[attr-defined]
    return names or ()
