"""Python's own functions that look something up: what each reads of its arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture.events import Finish
from jitgraph.tracing.capture.kinds import SIMPLE, is_a
from jitgraph.tracing.capture.operators import Operators
from jitgraph.tracing.source import attributes_of


class BuiltinFunctions(Operators):
    """Says what ``getattr``, ``isinstance``, ``vars`` and the like are about to read."""

    def asks_attribute(self, owner: Any, name: Any, *default: Any) -> Finish | None:
        """``getattr(owner, name, *default)``."""
        if is_a(name, str):
            return self.look_up(owner, name, *default)
        return None

    def has_attribute(self, owner: Any, name: Any) -> Finish | None:
        """``hasattr(owner, name)``."""
        if is_a(name, str):
            self.look_up(owner, name)
        return None

    def is_callable(self, value: Any) -> Finish | None:
        """``callable(value)``."""
        self.special(value, "call")
        return None

    def namespace_of(self, owner: Any) -> Finish | None:
        """``vars(owner)``."""
        return self.look_up(owner, "__dict__")

    def names_of(self, owner: Any) -> Finish | None:
        """``dir(owner)``."""
        self.special(owner, "dir")
        self.keep_class(type(owner))
        if is_a(owner, type):
            self.keep_class(owner)
        self.look_up(owner, "__dict__")
        storage = attributes_of(owner)
        if storage is not None:
            self.keep_extent(storage)
        return None

    def is_instance(self, value: Any, kinds: Any) -> Finish | None:
        """``isinstance(value, kinds)``."""
        if id(value) in self.steady:
            self.keep_kind(value)
        for kind in kinds if is_a(kinds, tuple) else (kinds,):
            if is_a(kind, type):
                self.keep_bases(kind)
                self.special(kind, "instance")
                self.special(kind, "subclass")
        return None

    def is_subclass(self, kind: Any, kinds: Any) -> Finish | None:
        """``issubclass(kind, kinds)``."""
        if is_a(kind, type):
            self.keep_bases(kind)
        return self.is_instance(None, kinds)

    def next_of(self, iterator: Any) -> Finish | None:
        """``next(iterator)``."""
        self.advancing(iterator)
        return None

    def identity_of(self, function: str, value: Any) -> None:
        """``id(value)`` or ``hash(value)``, as ``function`` says: those of a tensor differ from call to call."""
        if self.in_package:
            return
        if is_a(value, Tensor) or (function == "id" and type(value) not in SIMPLE and not self.is_steady(value)):
            self.cannot_guard(f"{function}({self.text_of(value)})")
        elif function == "hash":
            self.operation("hash", (value,))


_Model = Callable[[BuiltinFunctions, Sequence[Any]], Finish | None]
MODELS: Final[dict[Any, _Model]] = {
    getattr: lambda c, a: c.asks_attribute(*a[:3]) if len(a) > 1 else None,
    hasattr: lambda c, a: c.has_attribute(*a[:2]),
    setattr: lambda c, a: c.sets_attribute(*a[:2]),
    delattr: lambda c, a: c.sets_attribute(*a[:2], removes=True),
    vars: lambda c, a: c.namespace_of(a[0]),
    dir: lambda c, a: c.names_of(a[0]),
    iter: lambda c, a: c.iteration(a[0]),
    next: lambda c, a: c.next_of(a[0]),
    id: lambda c, a: c.identity_of("id", a[0]),
    isinstance: lambda c, a: c.is_instance(*a) if len(a) == 2 else None,
    issubclass: lambda c, a: c.is_subclass(*a) if len(a) == 2 else None,
    callable: lambda c, a: c.is_callable(a[0]),
    operator.getitem: lambda c, a: c.read_item(*a) if len(a) == 2 else None,
    operator.setitem: lambda c, a: c.set_item(*a[:2]),
    operator.delitem: lambda c, a: c.set_item(*a[:2], removes=True),
}
"""By function, what tells of a call with these arguments (at least one) before it is made."""
