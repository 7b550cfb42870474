"""Special methods: those that an operation looks up on the classes of its operands."""

from __future__ import annotations

import functools
import types
from typing import Any

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture.class_guards import ClassGuards
from jitgraph.tracing.capture.followed import is_followed
from jitgraph.tracing.capture.kinds import SIMPLE, SPECIAL, hides_state, is_a, may_change
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.capture.whole_objects import WholeObjectGuards
from jitgraph.tracing.containers import is_container


class SpecialMethods:
    """Guards the special methods that operations look up.

    Invariant: where code that is not followed answers an operation, all that the operand holds is guarded.
    """

    def __init__(self, seen: Observations, classes: ClassGuards, whole: WholeObjectGuards) -> None:
        self._reads = seen.reads
        self._identities = seen.identities
        self._classes = classes
        self._whole = whole
        self._unfollowed: dict[tuple[type, str], bool] = classes.cache()  # whether code that is not followed answers

    def guard(self, value: Any, operation: str) -> bool:
        """The special methods that an operation looks up on the class of ``value``; whether that is the user's."""
        kind = type(value)
        if self._identities.is_guarded(value):
            self._classes.guard_type(value)
        if not any(map(may_change, kind.__mro__)):
            return False
        if (kind, operation) not in self._unfollowed:
            self._unfollowed[kind, operation] = False
            for name in SPECIAL[operation]:
                definition = self._classes.find(kind, name)
                if definition is None or definition[1] is None:
                    continue
                if not is_a(definition[1], types.FunctionType):
                    self.answered_by(definition[1])
                    if definition[0] is not object and hides_state(definition[0]) and not is_container(value):
                        self._unfollowed[kind, operation] = True
                elif not is_followed(definition[1].__code__.co_filename) and definition[1].__module__ != "dataclasses":
                    self._unfollowed[kind, operation] = True
        if self._unfollowed[kind, operation]:
            self._whole.guard_everything(value)
        return True

    def answered_by(self, entry: Any) -> None:
        """An entry of a class that takes part in a look-up by ``__get__`` or is called."""
        kind = type(entry)
        if kind in SIMPLE or kind.__module__ == "builtins" or is_a(entry, Tensor):
            return
        if may_change(kind):
            self._reads.reach(entry, self._reads.text_of(entry))
            for name in ("__get__", "__set__", "__delete__", "__call__"):
                self._classes.find(kind, name)
        elif is_a(entry, functools.singledispatchmethod | functools.partialmethod):
            self._reads.reach(entry, self._reads.text_of(entry))
            self._whole.guard_descriptor(entry)
