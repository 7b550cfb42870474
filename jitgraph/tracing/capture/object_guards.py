"""Guards on the objects that an event uses: their classes, what they hold, and the code of those that are called.

What is read on the way is guarded, too: the class of a guarded object, the order of its bases, and the entry of each
class of the user's up to the one that answers.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from typing import Any, Final

import numpy as np

from jitgraph import tree
from jitgraph.runtime.cpython.frames import cell_of
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.events import Activation
from jitgraph.tracing.capture.kinds import (
    GETTERS,
    LRU_CACHE,
    SIMPLE,
    SPECIAL,
    hides_state,
    is_a,
    is_constant,
    is_followed,
    is_iterator,
    is_own_class,
    may_change,
    original_of,
    slots_of,
)
from jitgraph.tracing.capture.observations import Observations, Observer, UsedContainer
from jitgraph.tracing.guards.source import Slot, item_text
from jitgraph.tracing.guards.storage import (
    MAX_ELEMENTS,
    MISSING,
    attributes_of,
    class_entry,
    contents_of,
    elements_of,
    entries_of,
    is_container,
)

MOST_ELEMENTS: Final = 1 << 16  # of a container whose elements are guarded by their identity, all at once
MOST_LEAVES: Final = 64  # of what is handed to code that is not followed
_UNINTERESTING: Final = frozenset(
    ["__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__static_attributes__", "__firstlineno__"]
)
_KEPT_BY_CALLS: Final = (LRU_CACHE, *GETTERS)  # what these read is kept where they are called


class ClassGuards(Observer):
    """Guards what looking a name up in a class reads.

    Invariant: what ``find`` gives is guarded, and is what Python finds; a cache that depends on entries of classes is
    emptied when the function changes one.
    """

    def __init__(self, seen: Observations) -> None:
        super().__init__(seen)
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
        """The class of an object, and the order of its bases, where guarded steps lead to it."""
        kind = type(owner)
        if not may_change(kind):
            return
        entry = self._identities.known(owner)
        if entry is not None and entry.guarded and not (entry.class_guarded or entry.argument):
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


class ContainerGuards(Observer):
    """Guards the extents and elements of containers.

    Invariant: a container from outside that was used as a whole is noted with what it held before the function changed
    it, once.
    """

    def guard_contents(self, container: Any, text: str = "", *, soft: bool = False) -> None:
        """The extent and the elements of a container that is used as a whole, and of those inside it."""
        if self._identities.is_argument(container):
            return
        if not self._identities.is_guarded(container):
            self._guard_inside(container, set())
            return
        if self._identities.entry(container).contents is not None:
            return
        text = text or self._reads.text_of(container)
        before = self._original_contents(container, text)
        many = len(before) > MAX_ELEMENTS
        by_identity = MAX_ELEMENTS < len(before) <= MOST_ELEMENTS and not is_a(container, set | frozenset)
        used = UsedContainer(container, before, text, self._position.line, soft, by_identity)
        self._reads.record_contents(container, used)
        if len(before) > MOST_ELEMENTS:
            self._limits.cannot_guard(f"the {len(before)} elements of {text} one by one (their number is)")
            return
        pairs = list(before.items() if is_a(before, dict) else enumerate(before))
        for key, element in pairs:
            element_text = item_text(text, key)
            if is_a(container, tuple | set | frozenset) or many:
                self._reads.reach(element, element_text)
            else:
                slot = self._reads.item_slot(container, key, element_text)
                eases = soft or (self._identities.is_namespace(container) and impure.is_unseen_iterator(element))
                self._reads.record(slot, element, soft=eases, at_first=self._effects.is_subsumed(container))
            if is_container(element):
                self.guard_contents(element, element_text, soft=soft)

    def guard_extent(self, container: Any) -> None:
        """How many elements a container has, or which keys."""
        if not self._identities.is_outside(container) or is_a(container, tuple):
            return
        entry = self._identities.entry(container)
        if entry.contents is None and entry.extent is None:
            text = self._reads.text_of(container)
            before = self._original_contents(container, text)
            self._reads.record_extent(container, UsedContainer(container, before, text, self._position.line))

    def _original_contents(self, container: Any, text: str) -> Any:
        """What a container held before the function changed it."""
        if is_a(container, tuple | frozenset):
            return contents_of(container)
        return self._effects.touch(container, text).before

    def _guard_inside(self, container: Any, walked: set[int]) -> None:
        """Containers from outside that stand in a container which the function made."""
        walked.add(id(container))
        elements = elements_of(container)
        if len(elements) > MOST_ELEMENTS:
            return
        for element in list(elements):
            if is_container(element) and id(element) not in walked:
                if self._identities.is_guarded(element):
                    self.guard_contents(element)
                else:
                    self._guard_inside(element, walked)


class FunctionGuards(Observer):
    """Guards the functions that the recorded function runs, and knows those that it made or that a rewrite made.

    Invariant: a function of the user's that has run, and is older than the call, has its code and defaults guarded; of
    code that a rewrite made those of the function that it was made from.
    """

    def __init__(self, seen: Observations, containers: ContainerGuards) -> None:
        super().__init__(seen)
        self._containers = containers

    def enter(self, view: Activation) -> None:
        """A function begins to run, or goes on: one that is older than the call is guarded from here."""
        code = view.frame.f_code
        if not code.co_flags & inspect.CO_NEWLOCALS:
            return
        if code.co_name == "__init__" and code.co_argcount:
            instance = view.frame.f_locals.get(code.co_varnames[0])
            if not self._identities.is_guarded(instance):
                self._identities.mark_created(instance)
        function = view.function
        entry = self._identities.entry(function)
        if entry.entered or entry.defined:
            return
        entry.entered = True
        self._reads.reach(function, getattr(function, "__name__", "a function"))
        original = self.original(function)
        if is_a(original, types.FunctionType) and not view.in_package:
            self._guard_components(original)

    def original(self, function: Any) -> Any:
        """The user's function in place of which a rewritten one runs."""
        entry = self._identities.known(function)
        if entry is not None and entry.rewritten_from is not MISSING:
            return entry.rewritten_from
        code = original_of(function.__code__)[0]
        return function if code is function.__code__ else self._reads.function_of(code) or function

    def guard(self, function: types.FunctionType) -> None:
        """The code and the defaults of a function of the user's."""
        original = self.original(function)
        if is_a(original, types.FunctionType) and is_followed(original.__code__.co_filename):
            self._guard_components(original)

    def _guard_components(self, function: types.FunctionType) -> None:
        name = self._reads.text_of(function)
        self._reads.record(Slot("attribute", function, "__code__", f"{name}.__code__"), function.__code__)
        for part in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, part)
            if value is not None:
                self._reads.record(Slot("attribute", function, part, f"{name}.{part}"), value)
                if is_a(value, dict):
                    self._containers.guard_contents(value, f"{name}.{part}")
                for default in value.values() if is_a(value, dict) else value:
                    self._reads.reach(default, name)

    def stand_for(self, rewritten: Any, function: Any) -> None:
        """A script calls ``rewritten`` in the place of ``function``."""
        if rewritten is function:
            return
        self._identities.entry(rewritten).rewritten_from = function
        inner = getattr(function, "__func__", None)
        if is_a(rewritten, types.MethodType):
            call = inner if inner is not None else class_entry(type(function), "__call__")
            self.stand_for(rewritten.__func__, call)
        elif is_a(rewritten, types.FunctionType) and self._identities.is_defined(function):
            self._identities.mark_defined(rewritten)


class _Walk:
    """What is known while all that an object holds is walked: without ``objects`` its containers alone count."""

    def __init__(self, objects: bool) -> None:
        self.objects = objects
        self.visited: set[int] = set()
        self.leaves = 0
        self.in_object = False


class WholeObjectGuards(Observer):
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
        super().__init__(seen)
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
        elif is_a(value, functools.partial):
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


class SpecialMethods(Observer):
    """Guards the special methods that operations look up.

    Invariant: where code that is not followed answers an operation, all that the operand holds is guarded.
    """

    def __init__(self, seen: Observations, classes: ClassGuards, whole: WholeObjectGuards) -> None:
        super().__init__(seen)
        self._classes = classes
        self._whole = whole
        self._unfollowed: dict[tuple[type, str], bool] = classes.cache()  # whether code that is not followed answers

    def guard(self, value: Any, operation: str) -> bool:
        """The special methods that an operation looks up on the class of ``value``; whether that is the user's."""
        kind = type(value)
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


class ObjectGuards:
    """The guards on objects; each is built on those before it."""

    def __init__(self, seen: Observations) -> None:
        self.classes = ClassGuards(seen)
        self.containers = ContainerGuards(seen)
        self.functions = FunctionGuards(seen, self.containers)
        self.whole = WholeObjectGuards(seen, self.classes, self.containers, self.functions)
        self.special = SpecialMethods(seen, self.classes, self.whole)


class CaptureRule(Observer):
    """The base of the rules that say what an instruction reads and changes: they guard what they look at."""

    def __init__(self, seen: Observations, guards: ObjectGuards) -> None:
        super().__init__(seen)
        self._classes = guards.classes
        self._containers = guards.containers
        self._functions = guards.functions
        self._whole = guards.whole
        self._special = guards.special
