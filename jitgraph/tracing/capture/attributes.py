"""Attribute look-up by storage: what Python finds, in which class or instance it stands, and where nothing stands.

No code of the user's runs here. What is read on the way is guarded: the class of an instance, the entry of each class
of the user's up to the one that answers, and the entry of the instance.
"""

from __future__ import annotations

import enum
import functools
import operator
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from jitgraph import tree
from jitgraph.eager.tape import EagerValue
from jitgraph.once import cached_property
from jitgraph.own_code import PACKAGE
from jitgraph.runtime import stubs
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.items import Items
from jitgraph.tracing.capture.kinds import (
    GETTERS,
    SIMPLE,
    hides_state,
    is_a,
    is_constant,
    is_followed,
    is_library_module,
    is_own_class,
    may_change,
)
from jitgraph.tracing.capture.object_guards import CaptureRule, ObjectGuards
from jitgraph.tracing.capture.observations import ObjectEntry, Observations
from jitgraph.tracing.guards.guard import Absent
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MISSING, attributes_of, class_entry, is_container
from jitgraph.tracing.symbolic.number import resolved

_OF_VIEWS = frozenset(
    [
        *("T", "mT", "reshape", "view", "swapaxes", "transpose", "squeeze", "diagonal", "real", "imag"),
        *("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags", "base"),
    ]
)  # of a NumPy array: what says nothing about its elements

_OF_FUNCTIONS = frozenset(
    [
        "__defaults__",
        "__kwdefaults__",
        "__code__",
        "__name__",
        "__qualname__",
        "__doc__",
        "__module__",
        "__annotations__",
    ]
)

_OF_ANY_CLASS = frozenset(
    ["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__mro__", "__bases__", "__dict__"]
)

Call: TypeAlias = Callable[[Any, Sequence[Any], Sequence[str]], "Finish | None"]


class Attributes(CaptureRule):
    """Looks attributes up and guards what was read on the way.

    Invariant: an attribute that was looked up is guarded where it stands and wherever Python would have found another
    one first; where Python finds something else than this, the recording serves one call alone.
    """

    def __init__(self, seen: Observations, guards: ObjectGuards, items: Items, call: Call) -> None:
        super().__init__(seen, guards)
        self._items = items
        self._call = call  # of a getter that is an arbitrary callable, whose call may look attributes up again
        self._looked_up: dict[tuple[ObjectEntry | None, str, bool], bool] = guards.classes.cache()

    def look_up(self, owner: Any, name: str, default: Any = MISSING) -> Finish | None:
        """Guard what ``owner.name`` reads; the value found by storage is compared with what Python finds.

        Where nothing is found, that is ``default``.
        """
        kind = type(owner)
        if kind in SIMPLE:
            return None
        known = self._identities.known(owner)
        guarded = known is not None and known.guarded
        if guarded and (known, name, self._position.in_package) in self._looked_up:
            return None
        if is_a(owner, Tensor):
            self._of_tensor(owner, name)
            return None
        if kind in weakref.ProxyTypes:
            self._limits.cannot_guard(f"{self._reads.text_of(owner)}.{name}, by way of a weak reference")
            return None
        if is_a(owner, np.ndarray):
            if name not in _OF_VIEWS:
                self._identities.mark_read_by_numpy(owner)
            return None
        if guarded:
            self._looked_up[known, name, self._position.in_package] = True
        if is_a(owner, super):
            start: Any = owner.__self__ if is_a(owner.__self__, type) else type(owner.__self__)
            return self.inherit(owner.__thisclass__, owner.__self__, name) if start is not type(None) else None
        if is_a(owner, types.ModuleType) and kind is types.ModuleType:
            return self._of_module(owner, name)
        if is_a(owner, type):
            return self._of_class(owner, name)
        if kind is types.MethodType:
            self.reach_method(owner)
            return None if name in ("__self__", "__func__") else self.look_up(owner.__func__, name)
        if self._has_getter(owner):
            return None  # the user's code runs, and is followed
        return self._of_instance(owner, name, default)

    def look_up_plainly(self, owner: Any, name: str) -> Finish | None:
        """As ``look_up``, for a call of ``object.__getattribute__``, which asks no code of the user's."""
        self._looked_up.pop((self._identities.known(owner), name, self._position.in_package), None)
        if is_a(owner, Tensor | types.ModuleType | type) or not self._has_getter(owner):
            return self.look_up(owner, name)
        return self._of_instance(owner, name, MISSING)

    # --- of instances -------------------------------------------------------------------------------------------------

    def _has_getter(self, owner: Any) -> bool:
        """Whether code of the user's says what every attribute of ``owner`` is."""
        self._classes.guard_type(owner)
        getter = self._classes.find(type(owner), "__getattribute__")
        return getter is not None and is_a(getter[1], types.FunctionType)

    def _of_instance(self, owner: Any, name: str, default: Any) -> Finish | None:
        kind, reachable = type(owner), self._identities.is_guarded(owner)
        if name == "__dict__" and (storage := attributes_of(owner)) is not None:
            self._identities.set_owner(storage, owner)
            if reachable:
                self._reads.reach(storage, f"{self._reads.text_of(owner)}.__dict__")
                self._reads.record(Slot("attribute", owner, name, f"{self._reads.text_of(owner)}.__dict__"), storage)
            return None
        if name == "__class__":
            self._reads.reach(kind, f"type({self._reads.text_of(owner)})")
            return None
        definition = self._classes.find(kind, name)
        entry = MISSING if definition is None else definition[1]
        if entry is not MISSING and _is_data_descriptor(entry):
            return self._by_descriptor(owner, name, entry)
        storage = attributes_of(owner)
        if storage is not None and name in storage:
            return self._own_attribute(owner, name, storage[name])
        outlives = reachable or self._identities.is_argument(owner)
        if storage is not None and outlives and not _is_library_function(owner):
            self._guard_absence(owner, name)
        if definition is None:
            return self._fall_back(owner, name, default)
        return self._by_entry(owner, name, entry)

    def _guard_absence(self, owner: Any, name: str) -> None:
        slot = Slot("own", owner, name, f"{self._reads.text_of(owner)}.{name}")
        if self._effects.is_written(slot) or self._identities.is_mutated(attributes_of(owner)):
            return
        if not self._identities.is_argument(owner):
            self._reads.record(slot, MISSING)
        elif name not in _step_names(owner):
            self._reads.assume_of_argument(slot, Absent())

    def _by_descriptor(self, owner: Any, name: str, entry: Any) -> Finish | None:
        """A property, a slot or another descriptor that goes before what the instance holds."""
        if is_a(entry, property):
            if entry.fget is not None and not is_a(entry.fget, types.FunctionType):
                return self.get(entry.fget, owner)
            if entry.fget is not None and not is_followed(entry.fget.__code__.co_filename):
                self._guard_answer(owner, name)
            return None
        if is_a(entry, types.MemberDescriptorType):
            return self._own_attribute(owner, name, getattr(owner, name, MISSING))
        if is_a(entry, types.GetSetDescriptorType):
            if is_a(owner, types.FunctionType):
                if name in _OF_FUNCTIONS and self._identities.is_guarded(owner):
                    self._reads.record(
                        Slot("attribute", owner, name, f"{self._reads.text_of(owner)}.{name}"), getattr(owner, name)
                    )
            elif not may_change(type(owner)) or hides_state(type(owner)):
                self._guard_answer(owner, name)
            return None
        if is_a(owner, enum.Enum) and name in ("name", "value") and _is_enums_own(entry):
            return self._own_attribute(owner, f"_{name}_", getattr(owner, f"_{name}_", MISSING))
        if type(entry).__name__ == "_tuplegetter":
            value = getattr(owner, name, MISSING)
            if self._identities.is_reachable(owner):
                self._reads.reach(value, f"{self._reads.text_of(owner)}.{name}")
            return None
        self._special.answered_by(entry)
        if not may_change(type(entry)):
            self._guard_answer(owner, name)
        return None

    def _guard_answer(self, owner: Any, name: str) -> None:
        """An attribute that code of a library computes: its answer, where it gives the same one again."""
        if self._position.in_package or not self._identities.is_outside(owner):
            return
        if is_constant(type(owner)) or is_own_class(type(owner)):
            return
        text = f"{self._reads.text_of(owner)}.{name}"
        self._reads.record(Slot("attribute", owner, name, text), getattr(owner, name, MISSING), soft=True)

    def _own_attribute(self, owner: Any, name: str, value: Any) -> Finish | None:
        """An attribute that the instance itself holds."""
        text = f"{self._reads.text_of(owner)}.{name}"
        slot = Slot.of_attribute(owner, name, text)
        if self._identities.is_argument(owner):
            if not self._effects.is_written(slot) and name not in _step_names(owner) and value is not MISSING:
                self._guard_attribute(slot, resolved(value))
            return None
        if not self._identities.is_guarded(owner):
            return None
        if self._reads.first(slot) is not None or not self._identities.is_mutated(slot.storage):
            self._reads.record(slot, value)
        return self._limits.expect(value) if value is not MISSING else None

    def _guard_attribute(self, slot: Slot, value: Any) -> None:
        """An attribute of an argument that is no part of its tree, as one that ``__post_init__`` sets."""
        if value is not None and (is_container(value) or tree.container_of(value) is not None):
            self._limits.cannot_guard(f"what is in {slot.text}, which is no field of the argument")
        by_identity = is_a(value, Tensor | np.ndarray)
        predicate = self._objects.same(value) if by_identity else self._objects.value(value)
        self._reads.assume_of_argument(slot, predicate)

    def _by_entry(self, owner: Any, name: str, entry: Any) -> Finish | None:
        """What the class has: a method, a value, or a descriptor that the instance could shadow."""
        if is_a(entry, functools.cached_property | cached_property) and self._identities.is_guarded(owner):
            slot = Slot("attribute", owner, name, f"{self._reads.text_of(owner)}.{name}")
            return self._effects.written_after(slot)
        if not is_a(entry, types.FunctionType | staticmethod | classmethod):
            self._special.answered_by(entry)
            if hasattr(type(entry), "__get__") or not any(map(may_change, type(owner).__mro__)):
                return None
            return self._limits.expect(entry)
        return None

    def _fall_back(self, owner: Any, name: str, default: Any) -> Finish | None:
        """Neither the instance nor its class has it: ``__getattr__`` is asked."""
        definition = self._classes.find(type(owner), "__getattr__")
        if definition is None:
            if not may_change(type(owner)) and attributes_of(owner) is None:
                self._guard_answer(owner, name)
            guarded = self._identities.is_guarded(owner)  # as a threading.local may be
            return self._limits.expect(default) if guarded else None
        if is_a(owner, dict) and definition[1] in (dict.__getitem__, dict.get):
            return self._items.read_builtin(owner, name)
        self._special.answered_by(definition[1])
        return None

    # --- of classes, modules, tensors and methods ---------------------------------------------------------------------

    def _of_class(self, owner: type, name: str) -> Finish | None:
        """``owner.name`` of a class."""
        if is_library_module(owner.__module__) and not may_change(owner):
            self._reads.refuse(getattr(owner, name, None), f"{owner.__name__}.{name}")
            self._limits.bind_to_process(impure.of_class(owner))
        of_meta = self._classes.find(type(owner), name)
        if of_meta is not None and _is_data_descriptor(of_meta[1]):
            if name in ("__mro__", "__bases__"):
                self._classes.guard_bases(owner)
            elif name == "__dict__" and may_change(owner):
                return self._proxy_of(owner)
            elif name in _OF_ANY_CLASS and may_change(owner):
                self._reads.record(Slot("attribute", owner, name, f"{owner.__qualname__}.{name}"), getattr(owner, name))
            self._special.answered_by(of_meta[1])
            return None
        self._classes.guard_bases(owner)
        definition = self._classes.find(owner, name)
        if definition is not None:
            self._special.answered_by(definition[1])
            return None if hasattr(type(definition[1]), "__get__") else self._limits.expect(definition[1])
        if of_meta is not None:
            self._special.answered_by(of_meta[1])
        elif (fallback := self._classes.find(type(owner), "__getattr__")) is not None:
            self._special.answered_by(fallback[1])
        return None

    def _proxy_of(self, owner: type) -> Finish | None:
        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                for value in (after.at(-1), after.at(-2)):
                    if is_a(value, types.MappingProxyType):
                        self._identities.set_owner(value, owner)
                        self._identities.mark_guarded(value)

        return finish

    def inherit(self, kind: Any, owner: Any, name: str) -> Finish | None:
        """``super(kind, owner).name``."""
        start = owner if is_a(owner, type) and issubclass(owner, kind) else type(owner)
        self._classes.guard_type(owner)
        self._classes.guard_bases(start)
        definition = self._classes.find(start, name, kind)
        if definition is not None:
            self._special.answered_by(definition[1])
        return None

    def _of_module(self, owner: types.ModuleType, name: str) -> Finish | None:
        names = vars(owner)
        if name == "__dict__":
            self._reads.reach(names, f"vars({owner.__name__})")
            return None
        value, text = names.get(name, MISSING), f"{owner.__name__}.{name}"
        if is_library_module(owner.__name__):
            if value is not MISSING:
                self._reads.refuse(value, text)
            if self._position.in_package or value is MISSING:
                return None
            if not (impure.is_unseen_iterator(value) or _is_own_module(owner)):
                self._reads.record(Slot("item", names, name, text), value)
            return None
        self._reads.reach(names, f"vars({owner.__name__})")
        is_loaded = stubs.is_loaded_when_used(owner.__name__, name)
        if self._position.in_package and (is_loaded or callable(value)):
            return None
        if is_loaded:
            return self._of_loaded_name(owner, name)
        text = f"{self._reads.known_text(owner) or owner.__name__}.{name}"
        self._reads.record(Slot("item", names, name, text), value)
        if value is MISSING and "__getattr__" in names:
            slot = Slot("item", names, "__getattr__", f"{owner.__name__}.__getattr__")
            self._reads.record(slot, names["__getattr__"])
        return self._limits.expect(value) if value is not MISSING else None

    def _of_loaded_name(self, owner: types.ModuleType, name: str) -> Finish | None:
        """A name of a package of jitgraph's that is loaded when it is first used: now, or by a later check."""
        slot = Slot("attribute", owner, name, f"{owner.__name__}.{name}")
        view, site = self._position.view, self._position.site

        def finish(after: Activation | None) -> None:
            self._position.move(view, site)  # the modules that were imported meanwhile ran, too
            if after is not FAILED:
                self._reads.record(slot, vars(owner)[name])

        if name not in vars(owner):
            return finish
        self._reads.record(slot, vars(owner)[name])
        return self._limits.expect(vars(owner)[name])

    def _of_tensor(self, owner: Tensor, name: str) -> None:
        """An attribute that the user put on a tensor: it belongs to the handle, so that has to stay the same."""
        if is_a(getattr(owner, "__dict__", None), dict) and name in vars(owner):
            text = f"{self._reads.text_of(owner)}.{name}"
            if self._reads.source_of(owner) is None:
                if is_a(owner._value, EagerValue):
                    self._limits.cannot_guard(f"{text}, an attribute of a tensor among the arguments")
                return
            self._reads.use_identity(owner)
            self._reads.record(Slot("attribute", owner, name, text), vars(owner)[name])
        elif type(owner) is not Tensor and may_change(type(owner)):
            self._classes.find(type(owner), name)

    def reach_method(self, method: types.MethodType) -> None:
        """The object that a method is bound to, and its function."""
        if self._identities.is_reachable(method):
            self._reads.reach(method.__self__, self._reads.text_of(method))
            self._reads.reach(method.__func__, self._reads.text_of(method))

    # --- by functions that read attributes ----------------------------------------------------------------------------

    def get(self, getter: Any, owner: Any) -> Finish | None:
        """What an ``attrgetter``, ``itemgetter`` or ``methodcaller`` is about to read."""
        if type(getter) not in GETTERS:
            return self._call(getter, [owner], ())
        names = getter.__reduce__()[1]
        if is_a(getter, operator.methodcaller):
            self.look_up(owner, str(names[0]))
        elif is_a(getter, operator.itemgetter):
            for key in names:
                self._items.read(owner, key)
        else:
            for path in names:
                value = owner
                for name in path.split("."):
                    self.look_up(value, name)
                    value = _stored(value, name)
        return None


def _is_data_descriptor(entry: Any) -> bool:
    """Whether an entry of a class goes before what the instance holds under its name."""
    kind = type(entry)
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def _is_library_function(owner: Any) -> bool:
    return is_a(owner, types.FunctionType) and not is_followed(owner.__code__.co_filename)


def _is_own_module(module: types.ModuleType) -> bool:
    return (getattr(module, "__file__", None) or "").startswith(PACKAGE)


def _step_names(container: Any) -> set[Any]:
    """The keys and names under which a container of the arguments holds what is in the key of a call."""
    kind = tree.container_of(container)
    return set() if kind is None else {step[0] for step in kind.take_apart(container).steps}


def _is_enums_own(entry: Any) -> bool:
    """Whether a descriptor is that of ``enum``, which gives what the member itself holds: it can be set to another."""
    return getattr(getattr(entry, "fget", None), "__module__", None) == "enum"


def _stored(owner: Any, name: str) -> Any:
    """``owner.name`` where it is plainly stored, else None."""
    entry = class_entry(type(owner), name, MISSING)
    storage = attributes_of(owner)
    if storage is not None and name in storage:
        return storage[name]
    return getattr(owner, name, None) if is_a(entry, types.MemberDescriptorType) else None
