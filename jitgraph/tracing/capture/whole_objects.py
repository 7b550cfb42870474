"""Guards on all that an object holds, for code that is not followed and may read anything in it."""

from __future__ import annotations

import functools
import types
import weakref
from functools import partial
from typing import Any, Final

import numpy as np

from jitgraph import tree
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.class_guards import ClassGuards
from jitgraph.tracing.capture.container_guards import MOST_ELEMENTS, ContainerGuards
from jitgraph.tracing.capture.function_guards import FunctionGuards
from jitgraph.tracing.capture.identity import UsedContainer
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
from jitgraph.tracing.capture.layout import cell_of
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.containers import is_container
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import MISSING, attributes_of, elements_of, entries_of

MOST_LEAVES: Final = 64  # of what is handed to code that is not followed

_UNINTERESTING: Final = frozenset(
    ["__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__static_attributes__", "__firstlineno__"]
)

_KEPT_BY_CALLS: Final = (LRU_CACHE, *GETTERS)  # what these read is kept where they are called


class _Walk:
    """What is known while all that an object holds is walked: without ``objects`` its containers alone count."""

    def __init__(self, objects: bool) -> None:
        self.objects = objects
        self.visited: set[int] = set()
        self.leaves = 0
        self.in_object = False


class WholeObjectGuards:
    """Guards everything that can be reached from an object by attributes and elements.

    Invariant: what is reached is guarded down to containers, plain values and tensors, or a reason why the recording
    serves one call alone says what is not.
    """

    def __init__(
        self,
        seen: Observations,
        classes: ClassGuards,
        containers: ContainerGuards,
        functions: FunctionGuards,
    ) -> None:
        self._position = seen.position
        self._limits = seen.limits
        self._identities = seen.identities
        self._reads = seen.reads
        self._classes = classes
        self._containers = containers
        self._functions = functions

    def guard_everything(self, value: Any, *, objects: bool = True) -> None:
        """All that code which is not followed may read in ``value``; without ``objects`` of containers alone."""
        self._guard_everything(value, _Walk(objects), "")

    def _guard_everything(self, value: Any, walk: _Walk, text: str) -> None:
        kind = type(value)
        if kind in SIMPLE or is_a(value, Tensor) or id(value) in walk.visited:
            return
        walk.visited.add(id(value))
        if is_a(value, np.ndarray):
            self._identities.mark_read_by_numpy(value)
        elif is_container(value):
            self._whole_container(value, walk, text)
        elif is_a(value, partial):
            self.guard_partial(value)
            for part in (value.func, value.args, value.keywords):
                self._guard_everything(part, walk, text)
        elif is_a(value, types.MethodType):
            if self._identities.is_reachable(value):
                self._reads.reach(value.__self__, text or self._reads.text_of(value))
            self._guard_everything(value.__self__, walk, text)
        elif is_a(value, types.BuiltinFunctionType):
            if value.__self__ is not None and not is_a(value.__self__, types.ModuleType):
                self._guard_everything(value.__self__, walk, text)
        elif is_iterator(value):
            if self._identities.is_reachable(value) and not walk.in_object:
                impure.refuse_iterator(value, text or self._reads.text_of(value), self._position.line)
        elif is_a(value, weakref.ref):
            if self._identities.is_reachable(value):
                text = text or self._reads.text_of(value)
                self._limits.cannot_guard(f"whether the object is alive to which {text} refers")
        elif is_a(value, type):
            if walk.objects:
                self.guard_class(value)
                self._guard_annotations(value)
        elif is_a(value, types.FunctionType):
            if walk.objects and self._identities.is_reachable(value):
                self._functions.guard(value)
        elif not is_a(value, _KEPT_BY_CALLS) and not is_constant(kind):
            self._whole_object(value, walk, text or self._reads.text_of(value))

    def _whole_container(self, value: Any, walk: _Walk, text: str) -> None:
        """A container, with what its elements hold."""
        self.guard_class(type(value))
        self._containers.guard_contents(value, text)
        elements = elements_of(value)
        if walk.objects and len(elements) <= MOST_ELEMENTS:
            for element in list(elements):
                self._guard_everything(element, walk, "")

    def _whole_object(self, value: Any, walk: _Walk, text: str) -> None:
        """An instance with attributes, or one whose content cannot be seen."""
        kind, storage = type(value), attributes_of(value)
        if is_own_class(kind) or (not walk.objects and tree.container_of(value) is None):
            return
        reachable = self._identities.is_outside(value)
        if reachable and (hides_state(kind) or (storage is None and not slots_of(kind) and not may_change(kind))):
            self._limits.cannot_guard(f"the inside of {text}, a {kind.__name__}")
        if storage is None and not slots_of(kind):
            return
        walk.leaves += len(storage or ()) + 1
        if walk.leaves > MOST_LEAVES:
            what = f"more than {MOST_LEAVES} values in {text}, which is handed to code that is not followed"
            self._limits.cannot_guard(what)
            return
        soft = not may_change(kind)
        self.guard_class(kind)
        if reachable:
            self._classes.guard_type(value)
            if storage is not None:
                self._identities.set_owner(storage, value)
                self._reads.reach(storage, f"{text}.__dict__")
                self._containers.guard_contents(storage, f"{text}.__dict__", soft=soft)
            for name in slots_of(kind):
                self._reads.record(
                    Slot("attribute", value, name, f"{text}.{name}"), getattr(value, name, MISSING), soft=soft
                )
        around, walk.in_object = walk.in_object, True
        for part in [*(storage or {}).values(), *(getattr(value, name, None) for name in slots_of(kind))]:
            self._guard_everything(part, walk, "")
        walk.in_object = around

    def _guard_annotations(self, kind: type) -> None:
        for base in kind.__mro__:
            annotations = entries_of(base).get("__annotations__", MISSING)
            self._classes.guard_entry(base, "__annotations__", annotations)
            if may_change(base) and is_a(annotations, dict):
                self._containers.guard_contents(annotations, f"{base.__qualname__}.__annotations__")

    def guard_class(self, kind: type) -> None:
        """All that a class of the user's holds."""
        for base in kind.__mro__:
            if may_change(base) and self._identities.entry(base).contents is None:
                entries = entries_of(base)
                for name, value in list(entries.items()):
                    if name not in _UNINTERESTING:
                        self._classes.guard_entry(base, name, value)
                used = UsedContainer(entries, dict(entries), base.__qualname__, self._position.line, True)
                self._reads.record_contents(base, used)

    # --- callables with parts -----------------------------------------------------------------------------------------

    def guard_partial(self, function: Any) -> None:
        """What a ``partial`` brings along."""
        if not self._identities.is_reachable(function):
            return
        text = self._reads.text_of(function)
        for name in ("func", "args", "keywords"):
            self._reads.record(Slot("attribute", function, name, f"{text}.{name}"), getattr(function, name))
        self._containers.guard_contents(function.keywords, f"{text}.keywords")
        for value in function.args:
            self._reads.reach(value, f"{text}.args")

    def guard_descriptor(self, entry: Any) -> None:
        """What a ``singledispatchmethod`` or ``partialmethod`` holds: the functions, and what they are given."""
        text = self._reads.text_of(entry)
        names = ("dispatcher",) if is_a(entry, functools.singledispatchmethod) else ("func", "args", "keywords")
        for name in names:
            self._reads.record(Slot("attribute", entry, name, f"{text}.{name}"), getattr(entry, name))
        if is_a(entry, functools.singledispatchmethod):
            self.guard_dispatch(entry.dispatcher)
        else:
            self._containers.guard_contents(entry.keywords, f"{text}.keywords")

    def guard_dispatch(self, function: Any) -> None:
        """A function of ``singledispatch``: what is registered."""
        registry = cell_of(cell_of(function, "dispatch").cell_contents, "registry").cell_contents
        self._reads.reach(registry, f"{function.__name__}.registry")
        self._containers.guard_contents(registry, f"{function.__name__}.registry")
