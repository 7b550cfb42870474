"""What is used as a whole: containers, and objects that are handed to code that is not followed."""

from __future__ import annotations

import types
import weakref
from functools import partial
from typing import Any, Final

import numpy as np

from jitgraph import tree
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.kinds import (
    GETTERS,
    LRU_CACHE,
    SIMPLE,
    hides_state,
    is_a,
    is_constant,
    is_iterator,
    is_own_class,
    may_change,
    slots_of,
)
from jitgraph.tracing.capture.lookup import Lookup
from jitgraph.tracing.capture.state import UsedContainer
from jitgraph.tracing.containers import MAX_ELEMENTS, is_container
from jitgraph.tracing.source import Slot, item_text
from jitgraph.tracing.storage import MISSING, attributes_of, contents_of, elements_of, entries_of

MOST_ELEMENTS: Final = 1 << 16  # of a container whose elements are guarded by their identity, all at once
MOST_LEAVES: Final = 64  # of what is handed to code that is not followed
_UNINTERESTING: Final = frozenset(
    ["__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__static_attributes__", "__firstlineno__"]
)
_KEPT_BY_CALLS: Final = (LRU_CACHE, *GETTERS)  # what these read is kept where they are called


class ContentGuards(Lookup):
    """Guards the extents and elements of containers, and all that an object holds."""

    def guard_contents(self, container: Any, text: str = "", *, soft: bool = False) -> None:
        """The extent and the elements of a container that is used as a whole, and of those inside it."""
        if id(container) in self.keyed:
            return
        if id(container) not in self.steady:
            self._guard_inside(container, set())
            return
        if id(container) in self.whole:
            return
        text = text or self.text_of(container)
        before = self._original_contents(container, text)
        many = len(before) > MAX_ELEMENTS
        by_identity = MAX_ELEMENTS < len(before) <= MOST_ELEMENTS and not is_a(container, set | frozenset)
        self.whole[id(container)] = UsedContainer(container, before, text, self.line, soft, by_identity)
        if len(before) > MOST_ELEMENTS:
            self.cannot_guard(f"the {len(before)} elements of {text} one by one (their number is)")
            return
        pairs = list(before.items() if is_a(before, dict) else enumerate(before))
        for key, element in pairs:
            element_text = item_text(text, key)
            if is_a(container, tuple | set | frozenset) or many:
                self.settle(element, element_text)
            else:
                slot = self.entry(container, key, element_text)
                eases = soft or (id(container) in self.instances and impure.is_unseen_iterator(element))
                self.record_read(slot, element, soft=eases, at_first=self.is_subsumed(container))
            if is_container(element):
                self.guard_contents(element, element_text, soft=soft)

    def guard_extent(self, container: Any) -> None:
        """How many elements a container has, or which keys."""
        if not self.is_outside(container) or is_a(container, tuple):
            return
        if id(container) not in self.whole and id(container) not in self.extents:
            text = self.text_of(container)
            self.extents[id(container)] = UsedContainer(
                container, self._original_contents(container, text), text, self.line
            )

    def _original_contents(self, container: Any, text: str) -> Any:
        """What a container held before the function changed it."""
        return contents_of(container) if is_a(container, tuple | frozenset) else self.touch(container, text).before

    def _guard_inside(self, container: Any, walked: set[int]) -> None:
        """Containers from outside that stand in a container which the function made."""
        walked.add(id(container))
        elements = elements_of(container)
        if len(elements) > MOST_ELEMENTS:
            return
        for element in list(elements):
            if is_container(element) and id(element) not in walked:
                if id(element) in self.steady:
                    self.guard_contents(element)
                else:
                    self._guard_inside(element, walked)

    # --- everything that an object holds ----------------------------------------------------------------------------

    def guard_everything(self, value: Any, *, objects: bool = True) -> None:
        """All that code which is not followed may read in ``value``; without ``objects`` of containers alone."""
        self._walking: set[int] = set()
        self._leaves = 0
        self._in_object = False
        self._guard_everything(value, objects, "")

    def _guard_everything(self, value: Any, objects: bool, text: str) -> None:
        kind = type(value)
        if kind in SIMPLE or is_a(value, Tensor) or id(value) in self._walking:
            return
        self._walking.add(id(value))
        if is_a(value, np.ndarray):
            self.by_numpy.add(id(value))
        elif is_container(value):
            self._whole_container(value, objects, text)
        elif is_a(value, partial):
            self.guard_partial(value)
            for part in (value.func, value.args, value.keywords):
                self._guard_everything(part, objects, text)
        elif is_a(value, types.MethodType):
            if self.is_reachable(value):
                self.settle(value.__self__, text or self.text_of(value))
            self._guard_everything(value.__self__, objects, text)
        elif is_a(value, types.BuiltinFunctionType):
            if value.__self__ is not None and not is_a(value.__self__, types.ModuleType):
                self._guard_everything(value.__self__, objects, text)
        elif is_iterator(value):
            if self.is_reachable(value) and not self._in_object:
                impure.refuse_iterator(value, text or self.text_of(value), self.line)
        elif is_a(value, weakref.ref):
            if self.is_reachable(value):
                self.cannot_guard(f"whether the object is alive to which {text or self.text_of(value)} refers")
        elif is_a(value, type):
            if objects:
                self.guard_class(value)
                self._guard_annotations(value)
        elif is_a(value, types.FunctionType):
            if objects and self.is_reachable(value):
                self.guard_function(value)
        elif not is_a(value, _KEPT_BY_CALLS) and not is_constant(kind):
            self._whole_object(value, objects, text or self.text_of(value))

    def guard_partial(self, function: Any) -> None:
        """What a ``partial`` brings along."""
        if not self.is_reachable(function):
            return
        text = self.text_of(function)
        for name in ("func", "args", "keywords"):
            self.record_read(Slot("attribute", function, name, f"{text}.{name}"), getattr(function, name))
        self.guard_contents(function.keywords, f"{text}.keywords")
        for value in function.args:
            self.settle(value, f"{text}.args")

    def _whole_container(self, value: Any, objects: bool, text: str) -> None:
        walking, self._walking = self._walking, set()
        self.guard_class(type(value))
        self.guard_contents(value, text)
        self._walking = walking
        elements = elements_of(value)
        if objects and len(elements) <= MOST_ELEMENTS:
            for element in list(elements):
                self._guard_everything(element, objects, "")

    def _whole_object(self, value: Any, objects: bool, text: str) -> None:
        """An instance with attributes, or one whose content cannot be seen."""
        kind, storage = type(value), attributes_of(value)
        if is_own_class(kind) or (not objects and tree.container_of(value) is None):
            return
        reachable = id(value) in self.steady and id(value) not in self.keyed
        if reachable and (hides_state(kind) or (storage is None and not slots_of(kind) and not may_change(kind))):
            self.cannot_guard(f"the inside of {text}, a {kind.__name__}")
        if storage is None and not slots_of(kind):
            return
        self._leaves += len(storage or ()) + 1
        if self._leaves > MOST_LEAVES:
            self.cannot_guard(f"more than {MOST_LEAVES} values in {text}, which is handed to code that is not followed")
            return
        soft = not may_change(kind)
        self.guard_class(kind)
        if reachable:
            self.guard_type(value)
            if storage is not None:
                self.instances[id(storage)] = value
                self.settle(storage, f"{text}.__dict__")
                self.guard_contents(storage, f"{text}.__dict__", soft=soft)
            for name in slots_of(kind):
                self.record_read(
                    Slot("attribute", value, name, f"{text}.{name}"), getattr(value, name, MISSING), soft=soft
                )
        around, self._in_object = self._in_object, True
        for part in [*(storage or {}).values(), *(getattr(value, name, None) for name in slots_of(kind))]:
            self._guard_everything(part, objects, "")
        self._in_object = around

    def _guard_annotations(self, kind: type) -> None:
        for base in kind.__mro__:
            annotations = entries_of(base).get("__annotations__", MISSING)
            self.guard_class_entry(base, "__annotations__", annotations)
            if may_change(base) and is_a(annotations, dict):
                self.guard_contents(annotations, f"{base.__qualname__}.__annotations__")

    def guard_function(self, function: types.FunctionType) -> None:
        """The code and the defaults of a function."""
        raise NotImplementedError

    def guard_class(self, kind: type) -> None:
        """All that a class of the user's holds."""
        for base in kind.__mro__:
            if may_change(base) and base not in self._whole_classes:
                self._whole_classes.add(base)
                entries = entries_of(base)
                for name, value in list(entries.items()):
                    if name not in _UNINTERESTING:
                        self.guard_class_entry(base, name, value)
                self.whole[id(base)] = UsedContainer(entries, dict(entries), base.__qualname__, self.line, True)
