"""Names in classes: which class of the user's has an entry, and what else takes part in looking it up.

What is read on the way is kept: the class of a steady object, the order of its bases, and the entry of each class of
the user's up to the one that answers.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import Any

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import this_process
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.followed import is_followed, is_library_module
from jitgraph.tracing.capture.kinds import SIMPLE, SPECIAL, hides_state, is_a, may_change
from jitgraph.tracing.capture.state import State
from jitgraph.tracing.containers import is_container
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import MISSING, entries_of

_OF_ANY_CLASS = frozenset(
    ["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__mro__", "__bases__", "__dict__"]
)


class ClassLookup(State):
    """Looks names up in classes and keeps what was read on the way."""

    def __init__(self, known: Iterable[Any], arguments: Iterable[Any]) -> None:
        super().__init__(known, arguments)
        self.made_classes: set[type] = set()
        self._whole_classes: set[type] = set()
        self._walking: set[int] = set()
        self._found: dict[tuple[type, str], tuple[type, Any] | None] = {}
        self._seen: dict[tuple[int, str, bool], Any] = {}  # attributes that were looked up, with their owners
        self._specials: dict[tuple[type, str], bool] = {}  # and whether code that is not followed answers
        self._kinds: set[int] = set()

    def guard_class_entry(self, kind: type, name: str, value: Any) -> None:
        """What stands under ``name`` in a class itself; ``MISSING`` for nothing."""
        if may_change(kind) and kind not in self.made_classes:
            self.record_read(Slot("class", kind, name, f"{self.texts.get(id(kind), kind.__qualname__)}.{name}"), value)

    def guard_type(self, owner: Any) -> None:
        """The class of a steady object, and the order of its bases."""
        kind = type(owner)
        if may_change(kind) and id(owner) not in self._kinds and id(owner) not in self.keyed:
            self._kinds.add(id(owner))
            self.record_read(Slot("type", owner, None, f"type({self.text_of(owner)})"), kind)
            self.guard_bases(kind)

    def guard_bases(self, kind: type) -> None:
        """The order in which a class of the user's looks things up in its bases."""
        if may_change(kind) and kind not in self.made_classes:
            self.record_read(Slot("attribute", kind, "__mro__", f"{kind.__qualname__}.__mro__"), kind.__mro__)

    def find(self, kind: type, name: str, after: type | None = None) -> tuple[type, Any] | None:
        """The class in whose entries ``name`` is found, and the entry; ``after`` is where ``super()`` begins."""
        if after is None and (kind, name) in self._found:
            return self._found[kind, name]
        classes = kind.__mro__
        if after is not None:
            classes = classes[classes.index(after) + 1 :] if after in classes else ()
        definition = None
        for base in classes:
            entry = entries_of(base).get(name, MISSING)
            self.guard_class_entry(base, name, entry)
            if entry is not MISSING:
                definition = base, entry
                break
        if after is None:
            self._found[kind, name] = definition
        return definition

    def forget_classes(self) -> None:
        """A class was changed by the function: what is found from now on may be something else."""
        self._found.clear()
        self._seen.clear()
        self._specials.clear()

    def special(self, value: Any, operation: str) -> bool:
        """The special methods that an operation looks up on the class of ``value``; whether that is the user's."""
        kind = type(value)
        if id(value) in self.steady:
            self.guard_type(value)
        if not any(map(may_change, kind.__mro__)):
            return False
        if (kind, operation) not in self._specials:
            self._specials[kind, operation] = False
            for name in SPECIAL[operation]:
                definition = self.find(kind, name)
                if definition is None or definition[1] is None:
                    continue
                if not is_a(definition[1], types.FunctionType):
                    self.answered_by(definition[1])
                    if definition[0] is not object and hides_state(definition[0]) and not is_container(value):
                        self._specials[kind, operation] = True
                elif not is_followed(definition[1].__code__.co_filename) and definition[1].__module__ != "dataclasses":
                    self._specials[kind, operation] = True
        if self._specials[kind, operation]:
            self.guard_everything(value)
        return True

    def guard_everything(self, value: Any, *, objects: bool = True) -> None:
        """All that code which is not followed may read in ``value``."""
        raise NotImplementedError

    def answered_by(self, entry: Any) -> None:
        """An entry of a class that takes part in a look-up by ``__get__`` or is called."""
        kind = type(entry)
        if kind in SIMPLE or kind.__module__ == "builtins" or is_a(entry, Tensor):
            return
        if may_change(kind):
            self.settle(entry, self.text_of(entry))
            for name in ("__get__", "__set__", "__delete__", "__call__"):
                self.find(kind, name)
        elif is_a(entry, functools.singledispatchmethod | functools.partialmethod):
            self.settle(entry, self.text_of(entry))
            self.guard_descriptor(entry)

    def guard_descriptor(self, entry: Any) -> None:
        """What a ``singledispatchmethod`` or ``partialmethod`` holds."""
        raise NotImplementedError

    def inherit(self, kind: Any, owner: Any, name: str) -> Finish | None:
        """``super(kind, owner).name``."""
        start = owner if is_a(owner, type) and issubclass(owner, kind) else type(owner)
        if id(owner) in self.steady:
            self.guard_type(owner)
        self.guard_bases(start)
        definition = self.find(start, name, kind)
        if definition is not None:
            self.answered_by(definition[1])
        return None

    def of_class(self, owner: type, name: str) -> Finish | None:
        """``owner.name`` of a class."""
        if is_library_module(owner.__module__) and not may_change(owner):
            self.refuse(getattr(owner, name, None), f"{owner.__name__}.{name}")
            self.bind_to_process(this_process.of_class(owner))
        of_meta = self.find(type(owner), name)
        if of_meta is not None and is_data_descriptor(of_meta[1]):
            if name in ("__mro__", "__bases__"):
                self.guard_bases(owner)
            elif name == "__dict__" and may_change(owner):
                return self._proxy_of(owner)
            elif name in _OF_ANY_CLASS and may_change(owner):
                self.record_read(Slot("attribute", owner, name, f"{owner.__qualname__}.{name}"), getattr(owner, name))
            self.answered_by(of_meta[1])
            return None
        self.guard_bases(owner)
        definition = self.find(owner, name)
        if definition is not None:
            self.answered_by(definition[1])
            return None if hasattr(type(definition[1]), "__get__") else self.expect(definition[1])
        if of_meta is not None:
            self.answered_by(of_meta[1])
        elif (fallback := self.find(type(owner), "__getattr__")) is not None:
            self.answered_by(fallback[1])
        return None

    def _proxy_of(self, owner: type) -> Finish | None:
        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                for value in (after.at(-1), after.at(-2)):
                    if is_a(value, types.MappingProxyType):
                        self.instances[id(value)] = owner
                        self.steady[id(value)] = value

        return finish

    def expect(self, value: Any) -> Finish:
        """Compares what was found by storage with what Python finds; where they differ, nothing is known."""
        name = self._site.value if self._site is not None else "a value"
        what = f"{name}, which is found in another way than by storage"

        def finish(after: Activation | None) -> None:
            if after is FAILED:
                return
            if after.at(-1) is not value and after.at(-2) is not value:
                self.cannot_guard(what)

        return finish


def is_data_descriptor(entry: Any) -> bool:
    """Whether an entry of a class goes before what the instance holds under its name."""
    kind = type(entry)
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")
