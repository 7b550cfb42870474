"""Capture: notes all Python state that a function reads and changes while it is traced.

A tracer stops before each instruction of the user's code (``events.py``) and reads what it is about to use from the
value stack: owners, keys, callables and arguments are the very objects. Nothing of the user's is run for it:
attributes are looked up by storage (``lookup.py``). Every object is known by its identity: guarded steps led to it, or
it is a container among the arguments, or the function made it.
The standard library, installed packages and jitgraph itself are not followed, except ``jitgraph.nn`` and
``jitgraph.optim``, which hold state of the user's; what such code may read is guarded as a whole (``calls.py``).
"""

from __future__ import annotations

import inspect
import signal
import sys
import types
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np

from jitgraph.eager import EagerValue
from jitgraph.errors import TraceError
from jitgraph.runtime import collector
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import known_answers
from jitgraph.tracing.capture.calls import Calls
from jitgraph.tracing.capture.events import FAILED, Activation, Finish, Site, follow
from jitgraph.tracing.capture.followed import is_followed, is_library_module, original_of
from jitgraph.tracing.capture.kinds import SIMPLE, is_a, may_change
from jitgraph.tracing.capture.layout import cell_of
from jitgraph.tracing.capture.monitoring import run_watched
from jitgraph.tracing.source import MISSING, Place, item_of
from jitgraph.tracing.state import is_container
from jitgraph.tracing.symbolic.number import SymbolicNumber

STAGING: Final = "__jg__"  # the variable of rewritten functions that holds the staging functions
_CALLEE: Final = ("jitgraph.tracing.script.callees", "callee")
_PLAIN_KEYS: Final = (int, str, bytes, float, complex, type(None), type)


class Capture(Calls):
    """What one trace saw of the functions that it ran by ``call``."""

    def __init__(self, functions: Iterable[Any], known: Iterable[Any] = (), arguments: Iterable[Any] = ()) -> None:
        """``known`` are objects whose identity is in the key of the specialisation; ``arguments`` are containers whose
        contents are."""
        super().__init__(known, arguments)
        known_answers.require()
        self.stand_ins: dict[int, Any] = {}  # by id: the builtins in whose places others stand meanwhile
        self.numbers: Any = None  # the Numbers of the trace: they are told what calls are given
        self._followed: dict[CodeType, bool | None] = {}
        self._interrupted = False
        self._entered: dict[int, Any] = {}
        self._made: dict[int, Any] = {}  # functions that the function made
        self._cells: dict[int, Any] = {}  # cells of functions that are older than the call
        self._globals: dict[tuple[int, str], Any] = {}
        self._stands_for: dict[int, tuple[Any, Any]] = {}  # what a script calls in place of a function
        self._by_code: dict[CodeType, types.FunctionType] = {}
        for function in functions:  # an object that is called is as fixed as a function
            while function is not None:
                self.settle(function, getattr(function, "__name__", type(function).__name__))
                function = getattr(function, "__dict__", {}).get("__wrapped__")

    def stand_in(self, standing: Any, original: Any) -> None:
        """One object stands among the builtins in the place of another while this or another thread records."""
        self.stand_ins[id(standing)] = original
        self.objects.stand_ins[id(original)] = standing

    def call(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """What the function returns; meanwhile all that it reads and changes is noted."""
        with collector.PAUSED.inside():
            try:
                return run_watched(self._on_call, function, *args, **keywords)
            finally:
                self._view = self._site = None

    # --- frames -----------------------------------------------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self._interrupted:
            return None
        followed = self._followed.get(frame.f_code)
        if followed is None:
            followed = self._followed[frame.f_code] = _is_followed(frame)
            if followed and _handles_a_signal(frame.f_code):
                self._interrupted, self._followed[frame.f_code] = True, None
                frame.f_trace_lines = False
                return self._until_return
        if not followed:
            return None
        view = Activation(frame, self)
        self._enter(view)
        return follow(frame, view)

    def _until_return(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What the handler of a signal does is no part of the function that it interrupts."""
        if event == "return":
            self._interrupted = False
        return self._until_return

    def _enter(self, view: Activation) -> None:
        """A function begins to run, or goes on: one that is older than the call is guarded from here."""
        code = view.frame.f_code
        if not code.co_flags & inspect.CO_NEWLOCALS:
            return
        if code.co_name == "__init__" and code.co_argcount:
            made = view.frame.f_locals.get(code.co_varnames[0])
            if id(made) not in self.steady:
                self.fresh[id(made)] = made
        function = view.function
        if id(function) in self._entered or id(function) in self._made:
            return
        self._entered[id(function)] = function
        self.settle(function, getattr(function, "__name__", "a function"))
        original = self._original(function)
        if is_a(original, types.FunctionType) and not view.in_package:
            self._keep_function(original)

    def _original(self, function: Any) -> Any:
        """The user's function in place of which a rewritten one runs."""
        found = self._stands_for.get(id(function))
        if found is not None:
            return found[1]
        code = original_of(function.__code__)[0]
        return function if code is function.__code__ else self._by_code.get(code, function)

    def _keep_function(self, function: types.FunctionType) -> None:
        name = self.text_of(function)
        self.keep(Place("attribute", function, "__code__", f"{name}.__code__"), function.__code__)
        for part in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, part)
            if value is not None:
                self.keep(Place("attribute", function, part, f"{name}.{part}"), value)
                if is_a(value, dict):
                    self.keep_contents(value, f"{name}.{part}")
                for default in value.values() if is_a(value, dict) else value:
                    self.settle(default, name)

    def settle(self, value: Any, text: str) -> None:
        """As the base class; of a function the variables that it closes over and its globals are steady, too."""
        super().settle(value, text)
        if is_a(value, types.FunctionType) and id(value) not in self._made:
            for cell in value.__closure__ or ():
                self._cells[id(cell)] = cell
            self._by_code.setdefault(value.__code__, value)
            self.steady.setdefault(id(value.__globals__), value.__globals__)
        elif is_a(value, types.MethodType):
            self.settle(value.__self__, text)
            self.settle(value.__func__, text)
        elif is_a(value, staticmethod | classmethod):
            self.settle(value.__func__, text)
        elif is_a(value, property):
            for part in (value.fget, value.fset, value.fdel):
                self.settle(part, text)

    def made(self, view: Activation, value: Any) -> None:
        self._made[id(value)] = value

    # --- names ------------------------------------------------------------------------------------------------------

    def global_(self, view: Activation, site: Site, mapping: Any) -> Finish | None:
        name, frame = site.value, view.frame
        names = frame.f_globals
        if mapping is not None and mapping is not names and name in mapping:
            if id(mapping) not in self.steady or not is_a(mapping, dict):
                return None
            self._view, self._site = view, site
            return self.read_item(mapping, name)
        if view.in_package or (id(names), name) in self._globals or id(names) not in self.steady:
            return None
        self._view, self._site = view, site
        self._globals[id(names), name] = names
        place = Place("item", names, name, name)
        if name in names:
            self.keep(place, names[name])
            return self.expect(names[name])
        self.keep(place, MISSING)
        known = frame.f_builtins
        value = known.get(name, MISSING)
        value = self.stand_ins.get(id(value), value)
        if value is not MISSING:
            self.refuse(value, name)
        self.keep(Place("item", known, name, f"builtins.{name}"), value)
        return None

    def cell(self, view: Activation, site: Site, mapping: Any) -> Finish | None:
        name = site.value
        if mapping is not None and name in mapping:
            return None
        cell = self._cell(view, name)
        if cell is None:
            return None
        self._view, self._site = view, site
        place = Place("cell", cell, None, name)
        value = place.get_or(MISSING)
        self.keep(place, value)
        return None if value is MISSING else self.expect(value)

    def _cell(self, view: Activation, name: str) -> Any:
        """The cell of a variable where it is older than the call."""
        if name == STAGING or name not in view.frame.f_code.co_freevars:
            return None
        cell = cell_of(view.function, name)
        return cell if id(cell) in self._cells else None

    def store_global(self, view: Activation, site: Site, mapping: Any) -> None:
        if id(mapping) in self.steady and is_a(mapping, dict):
            self._view, self._site = view, site
            self.note_write(Place("item", mapping, site.value, site.value), mapping.get(site.value, MISSING))

    def store_cell(self, view: Activation, site: Site) -> None:
        cell = self._cell(view, site.value)
        if cell is not None:
            self._view, self._site = view, site
            place = Place("cell", cell, None, site.value)
            self.note_write(place, place.get_or(MISSING))

    def imported(self, view: Activation, site: Site, module: Any) -> None:
        self._view, self._site = view, site
        name = getattr(module, "__name__", None)
        if is_a(module, types.ModuleType) and isinstance(name, str):
            self.settle(module, name)
            if not view.in_package and not is_library_module(name) and sys.modules.get(name) is module:
                self.keep(Place("item", sys.modules, name, f"sys.modules[{name!r}]"), module)

    def all_names(self, view: Activation, site: Site, module: Any) -> None:
        self._view, self._site = view, site
        if is_a(module, types.ModuleType) and not is_library_module(module.__name__):
            self.settle(vars(module), module.__name__)
            self.keep_contents(vars(module), module.__name__, soft=True)

    # --- attributes and items ---------------------------------------------------------------------------------------

    def attribute(self, view: Activation, site: Site, owner: Any, name: str) -> Finish | None:
        if type(owner) in SIMPLE:
            return None
        self._view, self._site = view, site
        return self.look_up(owner, name)

    def inherited(self, view: Activation, site: Site, kind: Any, owner: Any, name: str) -> Finish | None:
        self._view, self._site = view, site
        return self.inherit(kind, owner, name)

    def item(self, view: Activation, site: Site, owner: Any, key: Any) -> Finish | None:
        if type(owner) in SIMPLE or is_a(owner, Tensor):
            return None
        self._view, self._site = view, site
        return self.read_item(owner, key)

    def read_item(self, owner: Any, key: Any, *, plainly: bool = False) -> Finish | None:
        if is_a(owner, np.ndarray):
            if not _is_view(owner, key):
                self.by_numpy.add(id(owner))
            return None
        if is_a(owner, types.MappingProxyType) and id(owner) in self.instances:
            self.find(self.instances[id(owner)], key)
            return None
        if not is_container(owner):
            self._item_of_object(owner)
            return None
        self.special(owner, "getitem")
        if id(owner) not in self.steady or id(owner) in self.keyed:
            self.special(key, "hash" if is_a(owner, dict) else "number")
            return self._default_item(owner, key) if id(owner) in self.steady else None
        if is_a(owner, tuple):
            self._settle_elements(owner)
            return None
        if not _is_plain_key(key):
            self.special(key, "hash" if is_a(owner, dict) else "number")
            self.keep_contents(owner)
            return None
        try:
            value = item_of(owner, key)
        except (LookupError, TypeError):
            value = MISSING
        if id(owner) in self.mutated:  # what it held at first is guarded, what it holds now may be the function's own
            self.keep_contents(owner)
        place = self.entry(owner, _plain(key), f"{self.text_of(owner)}[{key!r}]")
        if place.identity in self.reads or not self.is_whole(owner):
            self.keep(place, value)
        if value is not MISSING:
            return self.expect(value) if not plainly else None
        return None if plainly else self._default_item(owner, key)

    def _default_item(self, owner: Any, key: Any) -> Finish | None:
        """A mapping with defaults puts one in."""
        if not is_a(owner, defaultdict) or key in owner or id(owner) in self.keyed:
            return None
        self.keep(
            Place("attribute", owner, "default_factory", f"{self.text_of(owner)}.default_factory"),
            owner.default_factory,
        )
        place = self.entry(owner, key, f"{self.text_of(owner)}[{key!r}]")

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self.note_write(place, MISSING)

        return finish

    def _settle_elements(self, owner: tuple[Any, ...]) -> None:
        text = self.text_of(owner)
        for index, element in enumerate(owner):
            if id(element) not in self.steady:
                self.settle(element, f"{text}[{index}]")

    def _item_of_object(self, owner: Any) -> None:
        if is_a(owner, type):
            self.special(owner, "getitem")
            self.find(owner, "__class_getitem__")
        elif (
            not self.special(owner, "getitem")
            or not is_a(_entry(owner, "__getitem__"), types.FunctionType)
            or not is_followed(_entry(owner, "__getitem__").__code__.co_filename)
        ):
            self.keep_whole(owner)

    def iterate(self, view: Activation, site: Site, owner: Any) -> None:
        if type(owner) not in SIMPLE and not is_a(owner, Tensor):
            self._view, self._site = view, site
            self.iteration(owner)

    def iteration(self, owner: Any) -> None:
        if type(owner) in SIMPLE or is_a(owner, Tensor | range):
            return
        if is_a(owner, np.ndarray):
            self.by_numpy.add(id(owner))
        elif is_container(owner):
            self.keep_contents(owner)
        else:
            self._object_whole(owner, "iter", "__iter__")

    def _object_whole(self, owner: Any, operation: str, name: str) -> None:
        """An object takes part in an operation: by code of its own, which is followed, or else as a whole."""
        self.special(owner, operation)
        entry = _entry(owner, name)
        if is_a(entry, types.FunctionType) and is_followed(entry.__code__.co_filename):
            return
        if not is_a(owner, type | types.FunctionType):
            self.keep_whole(owner)

    def advance(self, view: Activation, site: Site, iterator: Any) -> None:
        if self.is_steady(iterator) or may_change(type(iterator)):
            self._view, self._site = view, site
            self.advancing(iterator)

    # --- operators --------------------------------------------------------------------------------------------------

    def operate(self, view: Activation, site: Site, operation: str, operands: Sequence[Any]) -> None:
        for operand in operands:
            if type(operand) not in SIMPLE and (type(operand) is not Tensor or operation in _OF_TENSORS):
                self._view, self._site = view, site
                self.operation(operation, operands)
                return
            if type(operand) is SymbolicNumber and operation == "is":
                self._view, self._site = view, site
                self._compare_identity(operands)
                return

    def operation(self, operation: str, operands: Sequence[Any]) -> None:
        if operation == "is":
            self._compare_identity(operands)
            return
        if operation == "in" and self._is_entry(*operands):
            return
        for index, operand in enumerate(operands):
            if type(operand) in SIMPLE:
                continue
            if is_a(operand, Tensor):
                if operation in ("format", "str") and not self.in_package:
                    self.cannot_guard(f"the text of {self.text_of(operand)}, which is not computed yet")
            elif is_a(operand, np.ndarray):
                self._of_array(operation, operand, operands)
            elif is_container(operand):
                self.special(operand, operation)
                if index == 0 and operation in _IN_PLACE and is_a(operand, list | dict | set | deque):
                    self.mutate(operand, _IN_PLACE[operation])
                else:
                    self._of_container(operation, operand)
            else:
                self._of_object(operation, operand)

    def _of_container(self, operation: str, operand: Any) -> None:
        if operation in ("bool", "len", "matched"):
            self.keep_extent(operand)
        elif operation == "hash":
            self.keep_whole(operand)
        elif operation in ("mapping", "iter", "reversed"):
            self.keep_contents(operand)
        else:
            self.keep_whole(operand)

    def _of_object(self, operation: str, operand: Any) -> None:
        """An operand with special methods of the user's, which are followed, or of a library's."""
        if is_a(operand, type):
            self.special(operand, operation)
            return
        users = self.special(operand, operation)
        if operation in ("hash", "matched", "bool", "with", "async with", "await", "aiter") or users:
            return
        if operation in ("format", "str", "repr", "==", "!=") and is_a(operand, types.FunctionType | types.ModuleType):
            return
        self.keep_whole(operand)

    def _of_array(self, operation: str, operand: Any, operands: Sequence[Any]) -> None:
        if operation in ("bool", "in", "number", "format", "str", "repr") or not any(
            is_a(other, Tensor) for other in operands
        ):
            self.by_numpy.add(id(operand))

    def _is_entry(self, item: Any, container: Any) -> bool:
        """Whether ``item in container`` asks for one entry of a mapping alone."""
        if not is_a(container, dict) or not is_container(container) or not _is_plain_key(item):
            return False
        if id(container) in self.steady and id(container) not in self.keyed:
            self.special(container, "in")
            place = self.entry(container, _plain(item), f"{self.text_of(container)}[{item!r}]")
            if place.identity in self.reads or not self.is_whole(container):
                self.keep(place, dict.get(container, _plain(item), MISSING))
        return True

    def _compare_identity(self, operands: Sequence[Any]) -> None:
        """``is``: a number that varies has no identity, and tensors from outside have to stay who they are."""
        a, b = operands
        if self.numbers is not None:
            self.numbers.compared(a, b)
        for one, other in ((a, b), (b, a)):
            if is_a(one, Tensor) and is_a(other, Tensor):
                self.with_attributes[id(one)] = one

    # --- patterns ---------------------------------------------------------------------------------------------------

    def match_class(self, view: Activation, site: Site, subject: Any, kind: Any, names: Sequence[str]) -> None:
        self._view, self._site = view, site
        if not is_a(kind, type):
            return
        self.is_instance(subject, kind)
        positional: Sequence[str] = ()
        if site.argument:
            self.look_up(kind, "__match_args__")
            positional = getattr(kind, "__match_args__", ())[: site.argument]
        for name in (*positional, *names):
            self.look_up(subject, name)

    def match_keys(self, view: Activation, site: Site, subject: Any, keys: Any) -> None:
        self._view, self._site = view, site
        for key in keys:
            self.read_item(subject, key, plainly=True)

    # --- calls ------------------------------------------------------------------------------------------------------

    def called(
        self, view: Activation, site: Site, function: Any, arguments: Sequence[Any], names: Sequence[str]
    ) -> Finish | None:
        self._view, self._site = view, site
        found = self._stands_for.get(id(function))
        if found is not None:
            function = found[1]
        if _is_callee(function) and arguments:
            return self._staged(arguments[0])
        if self.numbers is not None:
            self.numbers.passed_to(function, arguments)
        return self.call_of(function, arguments, names)

    def _staged(self, function: Any) -> Finish:
        """A script asks what to call in place of ``function``."""

        if not callable(function) or not is_a(function, (types.FunctionType, types.MethodType, type)):
            self.special(function, "call")

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self._stand_for(after.at(-1), function)

        return finish

    def _stand_for(self, made: Any, function: Any) -> None:
        if made is function:
            return
        self._stands_for[id(made)] = made, function
        inner = getattr(function, "__func__", None)
        if is_a(made, types.MethodType):
            call = inner if inner is not None else _entry(function, "__call__")
            self._stand_for(made.__func__, call)
        elif is_a(made, types.FunctionType) and id(function) in self._made:
            self._made[id(made)] = made

    def call_unpacked(
        self, view: Activation, site: Site, function: Any, arguments: Any, keywords: Any
    ) -> Finish | None:
        self._view, self._site = view, site
        if not is_a(arguments, tuple):
            self.iteration(arguments)
        elif self.is_steady(arguments):
            self._settle_elements(arguments)
        if not is_a(arguments, tuple | list):
            arguments = ()
        if is_a(keywords, Mapping):
            if is_container(keywords):
                self.keep_contents(keywords)
            return self.called(view, site, function, (*arguments, *keywords.values()), tuple(keywords))
        return self.called(view, site, function, arguments, ())

    def raised(self, view: Activation, site: Site, error: Any) -> None:
        if is_a(error, type) and may_change(error):
            self._view, self._site = view, site
            self.call_of(error, (), ())

    # --- writes -----------------------------------------------------------------------------------------------------

    def store_attribute(self, view: Activation, site: Site, owner: Any, name: str) -> None:
        self._view, self._site = view, site
        self.sets_attribute(owner, name, removes=site.name == "DELETE_ATTR")

    def sets_attribute(self, owner: Any, name: Any, *, removes: bool = False) -> Finish | None:
        if not is_a(name, str):
            return None
        if not is_a(owner, Tensor):
            found = self.find(type(owner), "__delattr__" if removes else "__setattr__")
            if found is not None and is_a(found[1], types.FunctionType):
                return None  # it runs, and is followed
        self.set_attribute(owner, name)
        return None

    def set_attribute(self, owner: Any, name: str) -> None:
        if is_a(owner, Tensor):
            self._set_tensor_attribute(owner, name)
            return
        text = f"{self.text_of(owner)}.{name}"
        if is_a(owner, type):
            self._set_class_attribute(owner, name)
            return
        if is_a(owner, types.ModuleType) and type(owner) is types.ModuleType:
            self.settle(vars(owner), owner.__name__)
            self.note_write(Place("item", vars(owner), name, text), vars(owner).get(name, MISSING))
            return
        if id(owner) not in self.steady:
            return
        self.keep_kind(owner)
        if name == "__class__":
            self.note_write(Place("type", owner, None, f"type({self.text_of(owner)})"), type(owner))
            return
        found = self.find(type(owner), name)
        if found is not None and hasattr(type(found[1]), "__set__"):
            self.answered_by(found[1])
            if not is_a(found[1], types.MemberDescriptorType | types.GetSetDescriptorType):
                return  # a property or a descriptor of the user's, which is followed
            before = getattr(owner, name, MISSING)
        else:
            storage = self.storage(owner)
            before = MISSING if storage is None else storage.get(name, MISSING)
        place = Place("attribute", owner, name, text)
        if isinstance(before, dict) and name == "__dict__":
            before = dict(before)
        self.note_write(place, before)

    def _set_class_attribute(self, owner: type, name: str) -> None:
        self.forget_classes()
        if owner in self.made_classes:
            return
        found = self.find(type(owner), name)
        if found is not None and is_a(found[1], property):
            return
        text = f"{self.texts.get(id(owner), owner.__qualname__)}.{name}"
        self.note_write(Place("class", owner, name, text), vars(owner).get(name, MISSING))

    def _set_tensor_attribute(self, owner: Tensor, name: str) -> None:
        if hasattr(type(owner), name) or not is_a(owner._value, EagerValue):
            return
        text = f"{self.text_of(owner)}.{name}"
        if id(owner) not in self.sources():
            raise TraceError(
                f"{text} is set on a tensor among the arguments, which no later call repeats",
                location=self.line,
                hint="return the value, or keep it on an object",
            )
        self.with_attributes[id(owner)] = owner
        self.note_write(Place("attribute", owner, name, text), vars(owner).get(name, MISSING))

    def store_item(self, view: Activation, site: Site, owner: Any, key: Any) -> None:
        self._view, self._site = view, site
        self.set_item(owner, key, removes=site.name.startswith("DELETE"))

    def set_item(self, owner: Any, key: Any, *, removes: bool = False) -> None:
        if is_a(owner, Tensor | np.ndarray):
            return
        self.special(owner, "setitem")
        if is_a(owner, bytearray | array):
            self.mutate(owner, "__setitem__")
        if not is_container(owner) or not self.is_outside(owner):
            if self.is_outside(owner) and not is_a(owner, type):
                self._refuse_unseen(owner, "__delitem__" if removes else "__setitem__")
            return
        if removes or is_a(owner, list | deque):
            self.touch(owner, self.text_of(owner))
            if id(owner) in self.mutated:
                self.keep_contents(owner)
        if not _is_plain_key(key) or is_a(key, slice) or (removes and not is_a(owner, dict)):
            self.keep_contents(owner)
            return
        place = self.entry(owner, _plain(key), f"{self.text_of(owner)}[{key!r}]")
        self.note_write(place, place.get_or(MISSING))

    def _refuse_unseen(self, owner: Any, name: str) -> None:
        """TraceError where the code of a library, which nobody follows, is about to change an object."""
        entry = _entry(owner, name)
        is_seen = is_a(entry, types.FunctionType) and is_followed(entry.__code__.co_filename)
        if entry is not None and not is_seen and not is_a(owner, bytearray | array):
            raise TraceError(
                f"{self.text_of(owner)}, a {type(owner).__name__}, is changed by code that is not followed; "
                "no later call repeats that",
                location=self.line,
                hint="keep the state in a list, a dict or an attribute, or change it outside of the traced function",
            )


_OF_TENSORS: Final = frozenset({"format", "str", "is"})
_IN_PLACE: Final = {
    "+=": "extend",
    "*=": "__imul__",
    "|=": "__ior__",
    "&=": "__iand__",
    "-=": "__isub__",
    "^=": "__ixor__",
}


def _is_followed(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_name == "<module>" and not code.co_filename.startswith("<"):  # no state of the call
        return False
    if not is_followed(code.co_filename):
        return False
    if code.co_filename.startswith("<"):  # code made by dataclass, namedtuple, exec
        name = frame.f_globals.get("__name__", "__main__")
        return not (is_library_module(name) or str(name).startswith("namedtuple_"))
    return True


def _handles_a_signal(code: CodeType) -> bool:
    """Whether code is that of a handler of signals, which runs between any two instructions."""
    return any(getattr(signal.getsignal(number), "__code__", None) is code for number in signal.valid_signals())


def _is_callee(function: Any) -> bool:
    """Whether a function is the one by which a script finds out what to call."""
    return is_a(function, types.FunctionType) and (function.__module__, function.__name__) == _CALLEE


def _entry(owner: Any, name: str) -> Any:
    return next((vars(base)[name] for base in type(owner).__mro__ if name in vars(base)), None)


def _plain(key: Any) -> Any:
    return key.plain if type(key) is SymbolicNumber else key


def _is_plain_key(key: Any) -> bool:
    """Whether looking up a key runs no code of the user's."""
    if is_a(key, tuple):
        return all(map(_is_plain_key, key))
    return (
        type(key) in SIMPLE
        or is_a(key, type | types.FunctionType)
        or (is_a(key, _PLAIN_KEYS) and not may_change(type(key)))
    )


def _is_view(array: Any, key: Any) -> bool:
    """Whether ``array[key]`` reads no element: indices that are slices, None, ``...`` and fewer ints than axes."""
    keys = key if is_a(key, tuple) else (key,)
    if not all(is_a(k, slice | int | np.integer | types.EllipsisType | None) and k is not True for k in keys):
        return False
    return bool(sum(is_a(k, int | np.integer) for k in keys) < array.ndim)
