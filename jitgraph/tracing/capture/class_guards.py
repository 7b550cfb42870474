"""Guards on classes: of an object, of the order of bases, and of the entries in which a name is found.

What is read on the way is guarded: the class of a guarded object, the order of its bases, and the entry of each class
of the user's up to the one that answers.
"""

from __future__ import annotations

from typing import Any

from jitgraph.tracing.capture.kinds import may_change
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import MISSING, entries_of


class ClassGuards:
    """Guards what looking a name up in a class reads.

    Invariant: what ``find`` gives is guarded, and is what Python finds; a cache that depends on entries of classes is
    emptied when the function changes one.
    """

    def __init__(self, seen: Observations) -> None:
        self._identities = seen.identities
        self._reads = seen.reads
        self._caches: list[dict[Any, Any]] = []
        self._found: dict[tuple[type, str], tuple[type, Any] | None] = self.cache()

    def cache(self) -> dict[Any, Any]:
        """A dict that is emptied when the function changes a class."""
        self._caches.append({})
        return self._caches[-1]

    def forget(self) -> None:
        """A class was changed by the function: what is found from now on may be something else."""
        for cache in self._caches:
            cache.clear()

    def guard_entry(self, kind: type, name: str, value: Any) -> None:
        """What stands under ``name`` in a class itself; ``MISSING`` for nothing."""
        if may_change(kind) and not self._identities.is_defined(kind):
            text = self._reads.known_text(kind) or kind.__qualname__
            self._reads.record(Slot("class", kind, name, f"{text}.{name}"), value)

    def guard_type(self, owner: Any) -> None:
        """The class of a guarded object, and the order of its bases."""
        kind = type(owner)
        if not may_change(kind):
            return
        entry = self._identities.entry(owner)
        if not (entry.class_guarded or entry.argument):
            entry.class_guarded = True
            self._reads.record(Slot("type", owner, None, f"type({self._reads.text_of(owner)})"), kind)
            self.guard_bases(kind)

    def guard_bases(self, kind: type) -> None:
        """The order in which a class of the user's looks things up in its bases."""
        if may_change(kind) and not self._identities.is_defined(kind):
            self._reads.record(Slot("attribute", kind, "__mro__", f"{kind.__qualname__}.__mro__"), kind.__mro__)

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
            self.guard_entry(base, name, entry)
            if entry is not MISSING:
                definition = base, entry
                break
        if after is None:
            self._found[kind, name] = definition
        return definition
