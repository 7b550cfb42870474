"""Writes: what the function changes is saved as it was before; a change that no later call could repeat is refused."""

from __future__ import annotations

import types
from array import array
from collections import deque
from typing import Any

import numpy as np

from jitgraph.eager.tape import EagerValue
from jitgraph.errors import TraceError
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.undo_log import APPENDS
from jitgraph.tracing.capture.events import Finish
from jitgraph.tracing.capture.kinds import is_a, is_plain_key, is_users_own, plain_key
from jitgraph.tracing.capture.object_guards import CaptureRule
from jitgraph.tracing.guards.source import Slot, item_text
from jitgraph.tracing.guards.storage import MISSING, attributes_of, class_entry, is_container


class Writes(CaptureRule):
    """Notes what is set, deleted or changed in place, before that happens.

    Invariant: each change of an object from outside is in the effect log before it is made, or raises; what a method of
    the user's changes is told by its own frame.
    """

    def sets_attribute(self, owner: Any, name: Any, *, removes: bool = False) -> Finish | None:
        """``setattr(owner, name, value)``, or ``delattr(owner, name)``: a method of the class may do that."""
        if not is_a(name, str):
            return None
        if not is_a(owner, Tensor):
            definition = self._classes.find(type(owner), "__delattr__" if removes else "__setattr__")
            if definition is not None and is_a(definition[1], types.FunctionType):
                return None  # it runs, and is followed
            if definition is not None and definition[1] is (dict.__delitem__ if removes else dict.__setitem__):
                self.set_item(owner, name, removes=removes)
                return None
        self.set_attribute(owner, name)
        return None

    def set_attribute(self, owner: Any, name: str) -> None:
        """``owner.name`` is about to be set or deleted, in the way of ``object``."""
        if is_a(owner, Tensor):
            self._set_tensor_attribute(owner, name)
            return
        text = f"{self._reads.text_of(owner)}.{name}"
        if is_a(owner, type):
            self._set_class_attribute(owner, name)
            return
        if is_a(owner, types.ModuleType) and type(owner) is types.ModuleType:
            self._reads.reach(vars(owner), owner.__name__)
            self._effects.record_write(Slot("item", vars(owner), name, text), vars(owner).get(name, MISSING))
            return
        if not self._identities.is_guarded(owner):
            return
        self._classes.guard_type(owner)
        if name == "__class__":
            self._effects.record_write(Slot("type", owner, None, f"type({self._reads.text_of(owner)})"), type(owner))
            return
        definition = self._classes.find(type(owner), name)
        if definition is not None and hasattr(type(definition[1]), "__set__"):
            self._special.answered_by(definition[1])
            if not is_a(definition[1], types.MemberDescriptorType | types.GetSetDescriptorType):
                return  # a property or a descriptor of the user's, which is followed
            before = getattr(owner, name, MISSING)
        else:
            storage = attributes_of(owner)
            before = MISSING if storage is None else storage.get(name, MISSING)
        slot = Slot.of_attribute(owner, name, text)
        if isinstance(before, dict) and name == "__dict__":
            before = dict(before)
        self._effects.record_write(slot, before)

    def _set_class_attribute(self, owner: type, name: str) -> None:
        self._classes.forget()
        if self._identities.is_defined(owner):
            return
        definition = self._classes.find(type(owner), name)
        if definition is not None and is_a(definition[1], property):
            return
        text = f"{self._reads.known_text(owner) or owner.__qualname__}.{name}"
        self._effects.record_write(Slot("class", owner, name, text), vars(owner).get(name, MISSING))

    def _set_tensor_attribute(self, owner: Tensor, name: str) -> None:
        if hasattr(type(owner), name) or not is_a(owner._value, EagerValue):
            return
        text = f"{self._reads.text_of(owner)}.{name}"
        if self._reads.source_of(owner) is None:
            raise TraceError(
                f"{text} is set on a tensor among the arguments, which no later call repeats",
                location=self._position.line,
                hint="return the value, or keep it on an object",
            )
        self._reads.use_identity(owner)
        self._effects.record_write(Slot("attribute", owner, name, text), vars(owner).get(name, MISSING))

    def sets_item(self, owner: Any, key: Any, *, removes: bool = False) -> None:
        """``owner[key] = value``, or ``del owner[key]``: a method of the class may do that, which is followed."""
        if is_users_own(type(owner), "__delitem__" if removes else "__setitem__"):
            self._special.guard(owner, "setitem")
        else:
            self.set_item(owner, key, removes=removes)

    def set_item(self, owner: Any, key: Any, *, removes: bool = False) -> None:
        """``owner[key]`` is about to be set or deleted by the method of its built-in class, or of a library's."""
        if is_a(owner, Tensor | np.ndarray):
            return
        self._special.guard(owner, "setitem")
        if is_a(owner, bytearray | array):
            self.mutate(owner, "__setitem__")
        if not is_container(owner) or not self._identities.is_outside(owner):
            if self._identities.is_outside(owner) and not is_a(owner, type):
                self._refuse_unseen(owner, "__delitem__" if removes else "__setitem__")
            return
        if removes or is_a(owner, list | deque):
            self._effects.touch(owner, self._reads.text_of(owner))
            if self._identities.is_mutated(owner):
                self._containers.guard_contents(owner)
        if not is_plain_key(key) or is_a(key, slice) or (removes and not is_a(owner, dict)):
            self._containers.guard_contents(owner)
            return
        slot = self._reads.item_slot(owner, plain_key(key), item_text(self._reads.text_of(owner), key))
        self._effects.record_write(slot, slot.own_value())

    def _refuse_unseen(self, owner: Any, name: str) -> None:
        """TraceError where the code of a library, which is not followed, is about to change an object."""
        if class_entry(type(owner), name) is not None and not is_a(owner, bytearray | array):
            raise TraceError(
                f"{self._reads.text_of(owner)}, a {type(owner).__name__}, is changed by code that is not followed; "
                "no later call repeats that",
                location=self._position.line,
                hint="keep the state in a list, a dict or an attribute, or change it outside of the traced function",
            )

    def mutate(self, owner: Any, name: str) -> None:
        """A method, or an operator, is about to change a container.

        ``append`` and ``extend`` do so whatever a sequence holds, so that nothing is assumed about it.
        """
        if not self._identities.is_outside(owner):
            return
        self._identities.mark_mutated(owner)
        self._effects.touch(owner, self._reads.text_of(owner))
        plainly = type(owner) is list or (type(owner) is deque and owner.maxlen is None)
        if is_container(owner) and not (plainly and name in APPENDS and not self._effects.has_assigned_items(owner)):
            self._containers.guard_contents(owner)
