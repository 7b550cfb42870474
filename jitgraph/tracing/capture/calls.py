"""Calls: what a callable that is not followed, and each of Python's own functions, reads of its arguments."""

from __future__ import annotations

import builtins
import functools
import operator
import types
import typing
import weakref
from abc import ABCMeta
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.own_code import PACKAGE
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.undo_log import CHANGERS
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.attributes import Attributes
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.items import Items, Operators
from jitgraph.tracing.capture.kinds import (
    ATTRIBUTE_CHANGERS,
    GETTERS,
    LRU_CACHE,
    OPERATOR_FUNCTIONS,
    SIMPLE,
    is_a,
    is_followed,
    is_iterator,
    may_change,
    runs_as_followed,
)
from jitgraph.tracing.capture.object_guards import CaptureRule, ObjectGuards
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MAX_ELEMENTS, MISSING, attributes_of, contents_of, entries_of, is_container
from jitgraph.tracing.symbolic.number import EndOfRecording, SymbolicNumber

# ----------------------------------------------------------------------
# Python's own functions that look something up: what each reads of its arguments.


class BuiltinFunctions(CaptureRule):
    """Says what ``getattr``, ``isinstance``, ``vars`` and the like are about to read.

    Invariant: each method reads what Python's function of that meaning reads, and nothing else.
    """

    def __init__(
        self,
        seen: Observations,
        guards: ObjectGuards,
        items: Items,
        writes: Writes,
        attributes: Attributes,
        operators: Operators,
    ) -> None:
        super().__init__(seen, guards)
        self.items = items
        self._attributes = attributes
        self._operators = operators
        self.writes = writes

    def asks_attribute(self, owner: Any, name: Any, *default: Any) -> Finish | None:
        """``getattr(owner, name, *default)``."""
        if is_a(name, str):
            return self._attributes.look_up(owner, name, *default)
        return None

    def has_attribute(self, owner: Any, name: Any) -> Finish | None:
        """``hasattr(owner, name)``."""
        if is_a(name, str):
            self._attributes.look_up(owner, name)
        return None

    def is_callable(self, value: Any) -> Finish | None:
        """``callable(value)``."""
        self._special.guard(value, "call")
        return None

    def namespace_of(self, owner: Any) -> Finish | None:
        """``vars(owner)``."""
        return self._attributes.look_up(owner, "__dict__")

    def names_of(self, owner: Any) -> Finish | None:
        """``dir(owner)``."""
        self._special.guard(owner, "dir")
        self._whole.guard_class(type(owner))
        if is_a(owner, type):
            self._whole.guard_class(owner)
        self._attributes.look_up(owner, "__dict__")
        storage = attributes_of(owner)
        if storage is not None:
            self._containers.guard_extent(storage)
        return None

    def is_instance(self, value: Any, kinds: Any) -> Finish | None:
        """``isinstance(value, kinds)``."""
        self._classes.guard_type(value)
        for kind in kinds if is_a(kinds, tuple) else (kinds,):
            if is_a(kind, type):
                self._classes.guard_bases(kind)
                self._special.guard(kind, "instance")
                self._special.guard(kind, "subclass")
                for name in _names_of_protocol(kind):
                    self._attributes.look_up(value, name)
        if self._identities.is_outside(value):
            return self._answer_of(isinstance, value, kinds)
        return self._answer_of(issubclass, type(value), kinds)

    def is_subclass(self, kind: Any, kinds: Any) -> Finish | None:
        """``issubclass(kind, kinds)``."""
        if not is_a(kind, type):
            return None
        self._classes.guard_bases(kind)
        for other in kinds if is_a(kinds, tuple) else (kinds,):
            if is_a(other, type):
                self._classes.guard_bases(other)
                self._special.guard(other, "subclass")
        return self._answer_of(issubclass, kind, kinds)

    def _answer_of(self, question: Any, value: Any, kinds: Any) -> Finish | None:
        """Where an abstract class or a protocol answers by code of Python's own: the same answer at each call."""
        every = kinds if is_a(kinds, tuple) else (kinds,)
        answering = [kind for kind in every if is_a(kind, ABCMeta) and not _names_of_protocol(kind)]
        whose = value if question is issubclass else type(value)
        if not answering or not any(map(may_change, (*whose.__mro__, *answering))):
            return None
        if any(self._answers_itself(kind) for kind in every if is_a(kind, type)):
            return None
        shown = f"{question.__name__}({self._reads.text_of(value)}, {self._reads.text_of(kinds)})"
        slot = Slot("cached", question, (value, kinds), shown)

        def finish(after: Activation | None) -> None:
            if after is not FAILED and type(answer := slot.get_or(MISSING)) is bool:
                self._reads.record(slot, answer)

        return finish

    def _answers_itself(self, kind: type) -> bool:
        """Whether code of the user's says what is an instance of ``kind``."""
        entries = [self._classes.find(type(kind), name) for name in ("__instancecheck__", "__subclasscheck__")]
        return any(entry is not None and may_change(entry[0]) for entry in entries)

    def next_of(self, iterator: Any) -> Finish | None:
        """``next(iterator)``."""
        self.items.advance(iterator)
        return None

    def identity_of(self, function: str, value: Any) -> None:
        """``id(value)`` or ``hash(value)``, as ``function`` says: those of a tensor differ from call to call."""
        if self._position.in_package:
            return
        if type(value) not in (int, bool, float, complex):
            self._limits.bind_to_process(f"{function}({self._reads.text_of(value)})")
        if is_a(value, Tensor) or (
            function == "id" and type(value) not in SIMPLE and not self._identities.is_reachable(value)
        ):
            self._limits.cannot_guard(f"{function}({self._reads.text_of(value)})")
        elif function == "hash":
            self._operators.apply("hash", (value,))


_Model = Callable[[BuiltinFunctions, Sequence[Any]], Finish | None]
MODELS: Final[dict[Any, _Model]] = {
    getattr: lambda c, a: c.asks_attribute(*a[:3]) if len(a) > 1 else None,
    hasattr: lambda c, a: c.has_attribute(*a[:2]),
    setattr: lambda c, a: c.writes.sets_attribute(*a[:2]),
    delattr: lambda c, a: c.writes.sets_attribute(*a[:2], removes=True),
    vars: lambda c, a: c.namespace_of(a[0]),
    dir: lambda c, a: c.names_of(a[0]),
    iter: lambda c, a: c.items.iterate(a[0]),
    next: lambda c, a: c.next_of(a[0]),
    id: lambda c, a: c.identity_of("id", a[0]),
    isinstance: lambda c, a: c.is_instance(*a) if len(a) == 2 else None,
    issubclass: lambda c, a: c.is_subclass(*a) if len(a) == 2 else None,
    callable: lambda c, a: c.is_callable(a[0]),
    operator.getitem: lambda c, a: c.items.read(*a) if len(a) == 2 else None,
    operator.setitem: lambda c, a: c.writes.sets_item(*a[:2]),
    operator.delitem: lambda c, a: c.writes.sets_item(*a[:2], removes=True),
}
"""By function, what tells of a call with these arguments (at least one) before it is made."""


def _names_of_protocol(kind: type) -> Iterable[str]:
    """The attributes that make an object an instance of a protocol; nothing for any other class."""
    if not entries_of(kind).get("_is_protocol", False):
        return ()
    names: Iterable[str] | None = entries_of(kind).get("__protocol_attrs__")  # from Python 3.12 on
    if names is None:
        names = typing._get_protocol_attrs(kind)  # type: ignore[attr-defined]
    return names or ()


# ----------------------------------------------------------------------
# Calls: what a callable that is not followed reads of its arguments.
#
# The functions of Python that look something up have a model; of any other the arguments, and the object that a method
# is bound to, are guarded as a whole.

_SHALLOW: Final = (list, tuple, enumerate, zip, reversed, map, filter)

_SILENT: Final = frozenset(
    [
        *(super, object, slice, range, property, staticmethod, classmethod, globals, locals, vars, dir, type, next, id),
        *(functools.partial, types.SimpleNamespace, types.MethodType, weakref.ref, *GETTERS),
    ]
)  # they keep what they are given, and look at nothing in it

_CHANGEABLE: Final = (list, dict, set, deque, bytearray, array)

_STORES: Final = frozenset({"append", "appendleft"})  # they keep what they are given

_READERS: Final = {"__getitem__", "get"}

_METHODS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)  # fmt: skip


class Calls(CaptureRule):
    """Says what a call reads, before it is made.

    Invariant: a callable is followed, or has a model, or its arguments are guarded as a whole.
    """

    def __init__(
        self,
        seen: Observations,
        guards: ObjectGuards,
        items: Items,
        writes: Writes,
        attributes: Attributes,
        operators: Operators,
        builtins: BuiltinFunctions,
    ) -> None:
        super().__init__(seen, guards)
        self._items = items
        self._writes = writes
        self._attributes = attributes
        self._operators = operators
        self._builtins = builtins

    def call(self, function: Any, arguments: Sequence[Any], names: Sequence[str]) -> Finish | None:
        """``function`` is about to be called; the last ``arguments`` are given by ``names``."""
        kind = type(function)
        if kind is types.MethodType:
            self._attributes.reach_method(function)
            return self.call(function.__func__, (function.__self__, *arguments), names)
        if kind is types.FunctionType:
            return self._of_function(function, arguments, names)
        if kind in _METHODS:
            return self._of_builtin(function, arguments, names)
        if is_a(function, type):
            return self._of_class_called(function, arguments, names)
        if kind is functools.partial:
            self._whole.guard_partial(function)
            keywords = dict(function.keywords)
            call_args = [*function.args, *arguments[: len(arguments) - len(names)], *keywords.values()]
            call_args += arguments[len(arguments) - len(names) :]
            return self.call(function.func, call_args, (*keywords, *names))
        if kind in GETTERS:
            return self._attributes.get(function, arguments[0]) if len(arguments) == 1 else None
        if kind is LRU_CACHE:
            return self._of_cached(function, arguments, names)
        return self._of_instance_called(function, arguments, names)

    # --- functions ----------------------------------------------------------------------------------------------------

    def _of_function(
        self, function: types.FunctionType, arguments: Sequence[Any], names: Sequence[str]
    ) -> Finish | None:
        code = function.__code__
        if is_followed(code.co_filename):
            return None  # what it reads is seen in its own frame
        if code.co_filename.startswith(PACKAGE):
            self._guard_for_package(arguments)
            for value in arguments if "print" in code.co_name else ():
                self._limits.bind_to_process(impure.of_text(value))
            return None
        if (level := impure.level_logged(function, arguments)) is not None:
            self._of_logger(function, arguments[0], level)
            return None
        self._reads.refuse(function, getattr(function, "__qualname__", "a function"))
        if code.co_filename == functools.__file__ and hasattr(function, "registry"):
            self._whole.guard_dispatch(function)
        return self._of_opaque(function, arguments)

    def _guard_for_package(self, arguments: Sequence[Any]) -> None:
        """Containers that are handed to this package's own functions."""
        self._position.for_package = True
        for value in arguments:
            self._limits.bind_to_process(impure.of_order(value))
            self._whole.guard_everything(value, objects=False)
        self._position.for_package = False

    def _of_logger(self, function: types.FunctionType, logger: Any, level: int) -> None:
        """A logger does nothing at a level at which it does not log, now and at each call; it may be asked for that."""
        text = self._reads.text_of(logger)
        slot = Slot("cached", impure.logs, (logger, level), f"{text}.isEnabledFor({level})")
        answer = impure.logs(logger, level)
        if answer and function.__name__ != "isEnabledFor":
            impure.refuse_logging(f"{text}.{function.__name__}", self._position.line)
        self._reads.record(slot, answer)

    def _of_opaque(self, function: Any, arguments: Sequence[Any]) -> Finish | None:
        """A callable of which nothing is known but what it is given."""
        if (elsewhere := impure.runs_elsewhere(function)) is not None:
            numbers = self._seen.numbers
            if numbers is not None and any(origin.axis < 0 for origin in numbers.origins):
                raise EndOfRecording  # once more with plain numbers: nobody can undo what is done there
            self._limits.cannot_guard(f"what another {elsewhere} does, as {function.__qualname__} has it run code")
        count = len(self._limits.unguarded)
        self._limits.bind_to_process(impure.of_call(function, arguments))
        for value in arguments:
            if impure.is_logger(value):
                impure.refuse_logging(
                    f"{getattr(function, '__qualname__', 'a function')} with a logger", self._position.line
                )
        if _computes_at_once(function):
            for value in arguments:
                if is_a(value, np.ndarray):
                    self._identities.mark_read_by_numpy(value)
        self._hand_on(arguments)
        for value in arguments:
            self._whole.guard_everything(value)
        return self._of_unknown_origin() if len(self._limits.unguarded) > count else None

    def _of_unknown_origin(self) -> Finish:
        """What a call gives that depends on what is not seen may be older than the trace, and is changed with care."""

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                value = after.at(-1)
                if not self._identities.is_created(value) and any(map(may_change, type(value).__mro__)):
                    self._reads.reach(value, self._reads.text_of(value))

        return finish

    def _hand_on(self, arguments: Sequence[Any]) -> None:
        """What ``attrgetter`` and the like will read of the elements of the other arguments."""
        for getter in arguments:
            if type(getter) in GETTERS:
                rest = [value for value in arguments if type(value) not in GETTERS]
                for value in rest:
                    for element in self._elements_of(value):
                        self._attributes.get(getter, element)

    def _elements_of(self, value: Any) -> list[Any]:
        elements = contents_of(value) if is_container(value) else ()
        if not is_container(value) or len(elements) > MAX_ELEMENTS:
            if type(value) not in SIMPLE and not callable(value):
                self._limits.cannot_guard(f"what a getter reads of the elements of a {type(value).__name__}")
            return []
        self._containers.guard_contents(value)
        return list(elements)

    def _of_cached(self, function: Any, arguments: Sequence[Any], names: Sequence[str]) -> Finish | None:
        """A function with ``lru_cache``: the same for as long as it gives the same for these arguments."""
        name = getattr(function, "__name__", "a cached function")
        if names or any(is_a(value, Tensor) for value in arguments):
            self._limits.cannot_guard(f"what {name} has cached")
            return None
        for value in arguments:
            self._special.guard(value, "hash")
        key = tuple(value.plain if type(value) is SymbolicNumber else value for value in arguments)
        slot = Slot("cached", function, key, f"{name}({', '.join(map(repr, key))})")

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self._reads.record(slot, after.at(-1))

        return finish

    # --- classes and objects ------------------------------------------------------------------------------------------

    def _of_class_called(self, kind: Any, arguments: Sequence[Any], names: Sequence[str]) -> Finish | None:
        if kind in OPERATOR_FUNCTIONS and len(arguments) >= 1:
            self._operators.apply(OPERATOR_FUNCTIONS[kind], arguments[:1])
            return None
        if kind is type and len(arguments) == 1:
            self._type_of(arguments[0])
            return None
        if kind in _SILENT or (issubclass(kind, BaseException) and not may_change(kind)):
            for value in arguments if kind is range else ():
                self._special.guard(value, "number")
            return None
        if kind in _SHALLOW:
            self._hand_on(arguments)
            if kind in (map, filter) and arguments and not runs_as_followed(arguments[0]):
                return self._of_opaque(kind, arguments)
            for value in arguments[kind in (map, filter) :]:
                if kind is reversed:
                    self._operators.apply("reversed", (value,))
                else:
                    self._items.iterate(value)
            return None
        if any(map(may_change, type(kind).__mro__)):
            self._special.guard(kind, "call")
        self._classes.guard_bases(kind)
        for name in ("__new__", "__init__"):
            definition = self._classes.find(kind, name)
            if definition is not None and not is_a(definition[1], types.FunctionType | staticmethod):
                self._special.answered_by(definition[1])
        if not any(map(may_change, kind.__mro__)) and not kind.__module__.startswith("jitgraph"):
            self._of_opaque(kind, arguments)
        elif not is_a(kind.__init__, types.FunctionType) or not is_followed(kind.__init__.__code__.co_filename):
            self._guard_for_package(arguments)

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                value = after.at(-1)
                if is_a(value, type):
                    self._identities.mark_defined(value)
                elif (
                    not self._identities.is_guarded(value)
                    and kind in type(value).__mro__
                    and any(map(may_change, kind.__mro__))
                ):
                    self._identities.mark_created(value)

        return finish

    def _type_of(self, value: Any) -> None:
        self._classes.guard_type(value)
        self._reads.reach(type(value), f"type({self._reads.text_of(value)})")

    def _of_instance_called(self, function: Any, arguments: Sequence[Any], names: Sequence[str]) -> Finish | None:
        self._special.guard(function, "call")
        definition = self._classes.find(type(function), "__call__")
        entry: Any = MISSING if definition is None else definition[1]
        if is_a(entry, types.FunctionType):
            code = entry.__code__
            if is_followed(code.co_filename):
                return None
            if code.co_filename.startswith(PACKAGE):
                return self._of_function(entry, arguments, names)
        if entry is not MISSING and not is_a(entry, types.FunctionType | types.WrapperDescriptorType):
            return self.call(entry, arguments, names) if callable(entry) else None
        self._reads.refuse(function, self._reads.text_of(function))
        return self._of_opaque(function, [function, *arguments])

    # --- what is written in C -----------------------------------------------------------------------------------------

    def _of_builtin(self, function: Any, arguments: Sequence[Any], names: Sequence[str]) -> Finish | None:
        owner = getattr(function, "__self__", None)
        name = function.__name__
        if is_a(function, types.MethodDescriptorType | types.WrapperDescriptorType):
            if not arguments:
                return None
            owner, arguments = arguments[0], arguments[1:]
        elif owner is None or is_a(owner, types.ModuleType):
            self._reads.refuse(function, f"{function.__module__}.{name}" if function.__module__ != "builtins" else name)
            return self._of_free_function(function, arguments)
        else:
            self._reads.refuse(function, f"{self._reads.text_of(owner)}.{name}")
        return self._of_method(owner, name, arguments)

    def _of_method(self, owner: Any, name: str, arguments: Sequence[Any]) -> Finish | None:
        count = len(arguments)
        if not is_a(owner, Tensor):
            self._limits.bind_to_process(impure.of_owner(owner, name))
        if name in ATTRIBUTE_CHANGERS and count and is_a(arguments[0], str):
            self._writes.set_attribute(owner, arguments[0])
            return None
        if name == "__getattribute__" and count == 1 and is_a(arguments[0], str):
            return self._attributes.look_up_plainly(owner, arguments[0])
        if name in _READERS and count and is_container(owner):
            return self._items.read_builtin(owner, arguments[0], plainly=name == "get")
        if name == "__getitem__" and count and is_a(owner, np.ndarray | types.MappingProxyType):
            return self._items.read(owner, arguments[0])
        if name in ("__setitem__", "__delitem__") and count:
            self._limits.bind_to_process(impure.of_order(arguments[-1]))
            self._writes.set_item(owner, arguments[0], removes=name == "__delitem__")
            return None
        if name == "__contains__" and count == 1:
            if self._items.is_entry(arguments[0], owner):
                return None
            if is_container(owner):
                self._containers.guard_contents(owner)
            self._operators.apply("in", (arguments[0], owner))
            return None
        if name == "__next__" or (name == "send" and is_iterator(owner)):
            self._items.advance(owner)
            return None
        if name in CHANGERS and is_a(owner, _CHANGEABLE):
            self._writes.mutate(owner, name)
            if name in _STORES:
                return None
        elif is_container(owner):
            self._containers.guard_contents(owner)
        elif is_a(owner, np.ndarray):
            self._identities.mark_read_by_numpy(owner)
        elif is_a(owner, type) and name == "__subclasses__":
            self._limits.cannot_guard(f"which classes derive from {owner.__qualname__}")
        elif type(owner) not in SIMPLE and not is_a(owner, type):
            if impure.is_decimal(owner):
                self._limits.cannot_guard("the context of decimal arithmetic")
            self._whole.guard_everything(owner)
        return self._of_opaque(None, arguments)

    def _of_free_function(self, function: Any, arguments: Sequence[Any]) -> Finish | None:
        count = len(arguments)
        model = MODELS.get(function)
        if model is not None and count:
            return model(self._builtins, arguments)
        if function in OPERATOR_FUNCTIONS and count:
            operation = OPERATOR_FUNCTIONS[function]
            if operation == "contains":
                self._operators.apply("in", arguments[::-1])
            elif function is hash:
                self._builtins.identity_of("hash", arguments[0])
            else:
                self._operators.apply(operation, arguments)
            return None
        if function in (exec, eval):
            self._reads.reach(vars(builtins), "builtins")  # they put it into the namespace that they are given
        if function is globals and self._position.view is not None:
            names = self._position.view.frame.f_globals
            self._identities.mark_guarded(names)
            return None
        if function in _SILENT:
            return None
        if function is builtins.__build_class__:
            for base in arguments[2:]:
                if is_a(base, type):
                    self._classes.guard_bases(base)

            def finish(after: Activation | None) -> None:
                if after is not FAILED and is_a(after.at(-1), type):
                    self._identities.mark_defined(after.at(-1))

            return finish
        return self._of_opaque(function, arguments)


def _computes_at_once(function: Any) -> bool:
    """Whether a function reads the elements of an array among its arguments: one of NumPy or of Python itself."""
    module = getattr(function, "__module__", None) if callable(function) else None
    return isinstance(module, str) and module.partition(".")[0] in ("numpy", "builtins", "math", "operator")
