"""Attribute look-up by storage: what Python finds, in which class or instance it stands, and where nothing stands.

No code of the user's runs here. What is read on the way is kept: the class of an instance, the entry of each class of
the user's up to the one that answers, and the entry of the instance.
"""

from __future__ import annotations

import enum
import functools
import types
import weakref
from typing import Any

import numpy as np

from jitgraph import tree
from jitgraph.eager.value import EagerValue
from jitgraph.once import cached_property
from jitgraph.runtime import stubs
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.classes import ClassLookup, is_data_descriptor
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.followed import PACKAGE, is_followed, is_library_module
from jitgraph.tracing.capture.kinds import SIMPLE, hides_state, is_a, is_constant, is_own_class, may_change
from jitgraph.tracing.containers import is_container
from jitgraph.tracing.guard import Assumption
from jitgraph.tracing.predicate import Absent
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import MISSING, attributes_of
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


class Lookup(ClassLookup):
    """Looks attributes up and keeps what was read on the way."""

    def look_up(self, owner: Any, name: str, default: Any = MISSING) -> Finish | None:
        """Keep what ``owner.name`` reads; the value found by storage is compared with what Python finds.

        Where nothing is found, that is ``default``.
        """
        kind = type(owner)
        if kind in SIMPLE:
            return None
        seen = id(owner), name, self.in_package
        if seen in self._seen and id(owner) in self.steady:
            return None
        if is_a(owner, Tensor):
            self._of_tensor(owner, name)
            return None
        if kind in weakref.ProxyTypes:
            self.cannot_guard(f"{self.text_of(owner)}.{name}, by way of a weak reference")
            return None
        if is_a(owner, np.ndarray):
            if name not in _OF_VIEWS:
                self.by_numpy.add(id(owner))
            return None
        if id(owner) in self.steady:
            self._seen[seen] = owner
        if is_a(owner, super):
            start: Any = owner.__self__ if is_a(owner.__self__, type) else type(owner.__self__)
            return self.inherit(owner.__thisclass__, owner.__self__, name) if start is not type(None) else None
        if is_a(owner, types.ModuleType) and kind is types.ModuleType:
            return self._of_module(owner, name)
        if is_a(owner, type):
            return self.of_class(owner, name)
        if kind is types.MethodType:
            self._method_parts(owner)
            return None if name in ("__self__", "__func__") else self.look_up(owner.__func__, name)
        if self._has_getter(owner):
            return None  # the user's code runs, and is followed
        return self._of_instance(owner, name, default)

    def look_up_plainly(self, owner: Any, name: str) -> Finish | None:
        """As ``look_up``, for a call of ``object.__getattribute__``, which asks no code of the user's."""
        self._seen.pop((id(owner), name, self.in_package), None)
        if is_a(owner, Tensor | types.ModuleType | type) or not self._has_getter(owner):
            return self.look_up(owner, name)
        return self._of_instance(owner, name, MISSING)

    def _has_getter(self, owner: Any) -> bool:
        """Whether code of the user's says what every attribute of ``owner`` is."""
        if id(owner) in self.steady:
            self.guard_type(owner)
        getter = self.find(type(owner), "__getattribute__")
        return getter is not None and is_a(getter[1], types.FunctionType)

    def _of_instance(self, owner: Any, name: str, default: Any) -> Finish | None:
        kind, reachable = type(owner), id(owner) in self.steady
        if name == "__dict__" and (storage := attributes_of(owner)) is not None:
            self.instances[id(storage)] = owner
            if reachable:
                self.settle(storage, f"{self.text_of(owner)}.__dict__")
                self.record_read(Slot("attribute", owner, name, f"{self.text_of(owner)}.__dict__"), storage)
            return None
        if name == "__class__":
            self.settle(kind, f"type({self.text_of(owner)})")
            return None
        definition = self.find(kind, name)
        entry = MISSING if definition is None else definition[1]
        if entry is not MISSING and is_data_descriptor(entry):
            return self._by_descriptor(owner, name, entry)
        storage = attributes_of(owner)
        if storage is not None and name in storage:
            return self._own_attribute(owner, name, storage[name])
        if storage is not None and (reachable or id(owner) in self.keyed) and not self._is_library_function(owner):
            self._guard_absence(owner, name)
        if definition is None:
            return self._fall_back(owner, name, default)
        return self._by_entry(owner, name, entry)

    def _is_library_function(self, owner: Any) -> bool:
        return is_a(owner, types.FunctionType) and not is_followed(owner.__code__.co_filename)

    def _guard_absence(self, owner: Any, name: str) -> None:
        slot = Slot("own", owner, name, f"{self.text_of(owner)}.{name}")
        if slot.identity in self.writes or id(attributes_of(owner)) in self.mutated:
            return
        if id(owner) not in self.keyed:
            self.record_read(slot, MISSING)
        elif name not in _step_names(owner):
            self.attributes.setdefault((id(owner), name), Assumption(slot, Absent(), self.line))

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
                if name in _OF_FUNCTIONS and id(owner) in self.steady:
                    self.record_read(
                        Slot("attribute", owner, name, f"{self.text_of(owner)}.{name}"), getattr(owner, name)
                    )
            elif not may_change(type(owner)) or hides_state(type(owner)):
                self._guard_answer(owner, name)
            return None
        if is_a(owner, enum.Enum) and name in ("name", "value") and _is_enums_own(entry):
            return self._own_attribute(owner, f"_{name}_", getattr(owner, f"_{name}_", MISSING))
        if type(entry).__name__ == "_tuplegetter":
            value = getattr(owner, name, MISSING)
            if self.is_reachable(owner):
                self.settle(value, f"{self.text_of(owner)}.{name}")
            return None
        self.answered_by(entry)
        if not may_change(type(entry)):
            self._guard_answer(owner, name)
        return None

    def _guard_answer(self, owner: Any, name: str) -> None:
        """An attribute that code of a library computes: its answer, where it gives the same one again."""
        if self.in_package or not self.is_outside(owner) or is_constant(type(owner)) or is_own_class(type(owner)):
            return
        text = f"{self.text_of(owner)}.{name}"
        self.record_read(Slot("attribute", owner, name, text), getattr(owner, name, MISSING), soft=True)

    def get(self, getter: Any, owner: Any) -> Finish | None:
        """What a property reads whose function is not written in Python."""
        raise NotImplementedError

    def _own_attribute(self, owner: Any, name: str, value: Any) -> Finish | None:
        """An attribute that the instance itself holds."""
        text = f"{self.text_of(owner)}.{name}"
        slot = Slot.of_attribute(owner, name, text)
        if id(owner) in self.keyed:
            if slot.identity not in self.writes and name not in _step_names(owner) and value is not MISSING:
                self._guard_attribute(slot, resolved(value))
            return None
        if id(owner) not in self.steady:
            return None
        if slot.identity in self.reads or id(slot.storage) not in self.mutated:
            self.record_read(slot, value)
        return self.expect(value) if value is not MISSING else None

    def _guard_attribute(self, slot: Slot, value: Any) -> None:
        """An attribute of an argument that is no part of its tree, as one that ``__post_init__`` sets."""
        if value is not None and (is_container(value) or tree.container_of(value) is not None):
            self.cannot_guard(f"what is in {slot.text}, which is no field of the argument")
        by_identity = is_a(value, Tensor | np.ndarray)
        predicate = self.objects.same(value) if by_identity else self.objects.value(value)
        self.attributes.setdefault((id(slot.owner), slot.key), Assumption(slot, predicate, self.line))

    def _by_entry(self, owner: Any, name: str, entry: Any) -> Finish | None:
        """What the class has: a method, a value, or a descriptor that the instance could shadow."""
        if is_a(entry, functools.cached_property | cached_property) and id(owner) in self.steady:
            slot = Slot("attribute", owner, name, f"{self.text_of(owner)}.{name}")

            def finish(after: Activation | None) -> None:
                if after is not FAILED:
                    self.record_write(slot, MISSING)

            return finish
        if not is_a(entry, types.FunctionType | staticmethod | classmethod):
            self.answered_by(entry)
            if hasattr(type(entry), "__get__") or not any(map(may_change, type(owner).__mro__)):
                return None
            return self.expect(entry)
        return None

    def _fall_back(self, owner: Any, name: str, default: Any) -> Finish | None:
        """Neither the instance nor its class has it: ``__getattr__`` is asked."""
        definition = self.find(type(owner), "__getattr__")
        if definition is None:
            if not may_change(type(owner)) and attributes_of(owner) is None:
                self._guard_answer(owner, name)
            return self.expect(default) if id(owner) in self.steady else None  # as of a threading.local
        if is_a(owner, dict) and definition[1] in (dict.__getitem__, dict.get):
            return self.read_builtin_item(owner, name)
        self.answered_by(definition[1])
        return None

    def read_builtin_item(self, owner: Any, key: Any) -> Finish | None:
        """What a container holds under a key is about to be read, by the method of its built-in class."""
        raise NotImplementedError

    # --- of modules and tensors -------------------------------------------------------------------------------------

    def _of_module(self, owner: types.ModuleType, name: str) -> Finish | None:
        names = vars(owner)
        if name == "__dict__":
            self.settle(names, f"vars({owner.__name__})")
            return None
        value, text = names.get(name, MISSING), f"{owner.__name__}.{name}"
        if is_library_module(owner.__name__):
            if value is not MISSING:
                self.refuse(value, text)
            if not (self.in_package or value is MISSING or impure.is_unseen_iterator(value) or _is_own_module(owner)):
                self.record_read(Slot("item", names, name, text), value)
            return None
        self.settle(names, f"vars({owner.__name__})")
        is_loaded = stubs.is_loaded_when_used(owner.__name__, name)
        if self.in_package and (is_loaded or callable(value)):
            return None
        if is_loaded:
            return self._of_loaded_name(owner, name)
        self.record_read(Slot("item", names, name, f"{self.texts.get(id(owner), owner.__name__)}.{name}"), value)
        if value is MISSING and "__getattr__" in names:
            self.record_read(Slot("item", names, "__getattr__", f"{owner.__name__}.__getattr__"), names["__getattr__"])
        return self.expect(value) if value is not MISSING else None

    def _of_loaded_name(self, owner: types.ModuleType, name: str) -> Finish | None:
        """A name of a package of jitgraph's that is loaded when it is first used: now, or by a later check."""
        slot, view, site = Slot("attribute", owner, name, f"{owner.__name__}.{name}"), self._view, self._site

        def finish(after: Activation | None) -> None:
            self._view, self._site = view, site  # the modules that were imported meanwhile ran, too
            if after is not FAILED:
                self.record_read(slot, vars(owner)[name])

        if name not in vars(owner):
            return finish
        self.record_read(slot, vars(owner)[name])
        return self.expect(vars(owner)[name])

    def _of_tensor(self, owner: Tensor, name: str) -> None:
        """An attribute that the user put on a tensor: it belongs to the handle, so that has to stay the same."""
        if is_a(getattr(owner, "__dict__", None), dict) and name in vars(owner):
            text = f"{self.text_of(owner)}.{name}"
            if id(owner) not in self.sources:
                if is_a(owner._value, EagerValue):
                    self.cannot_guard(f"{text}, an attribute of a tensor among the arguments")
                return
            self.with_attributes[id(owner)] = owner
            self.record_read(Slot("attribute", owner, name, text), vars(owner)[name])
        elif type(owner) is not Tensor and may_change(type(owner)):
            self.find(type(owner), name)

    def _method_parts(self, method: types.MethodType) -> None:
        if self.is_reachable(method):
            self.settle(method.__self__, self.text_of(method))
            self.settle(method.__func__, self.text_of(method))


def _is_own_module(module: types.ModuleType) -> bool:
    return (getattr(module, "__file__", None) or "").startswith(PACKAGE)


def _step_names(container: Any) -> set[Any]:
    """The keys and names under which a container of the arguments holds what is in the key of a call."""
    kind = tree.container_of(container)
    return set() if kind is None else {step[0] for step in kind.take_apart(container).steps}


def _is_enums_own(entry: Any) -> bool:
    """Whether a descriptor is that of ``enum``, which gives what the member itself holds: it can be set to another."""
    return getattr(getattr(entry, "fget", None), "__module__", None) == "enum"
