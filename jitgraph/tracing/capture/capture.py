"""Capture: notes all Python state that a function reads and changes while it is traced.

A tracer stops at each instruction of the user's code (``tracing/capture/bytecode.py`` says which ones matter),
evaluates what is about to be read from the frame's own variables, and keeps the place and the value. Nothing of the
user's is run for it: attributes are looked up statically, and what a property or a call gave is taken from the frame
that just returned.
The standard library, installed packages and jitgraph itself are not followed, except ``jitgraph.nn`` and
``jitgraph.optim``, which hold state of the user's.
"""

from __future__ import annotations

import enum
import inspect
import operator
import sys
import types
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from jitgraph import foreign, tree
from jitgraph.eager import EagerValue
from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.runtime import collector, forks
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.bytecode import Access, Attr, Call, Const, Index, Match, Name, Result, accesses
from jitgraph.tracing.capture.evaluation import GETTERS, UNKNOWN, Evaluation, is_module_frame, module_local
from jitgraph.tracing.capture.followed import PACKAGE, is_followed, is_library_module, is_users, original_of
from jitgraph.tracing.guard import Absent, Assumption, HasContents, Objects, Predicate
from jitgraph.tracing.log import APPENDS, CHANGERS, Change, Entry, Log
from jitgraph.tracing.source import MISSING, Place, item_of
from jitgraph.tracing.state import MAX_BYTES, MAX_ELEMENTS, is_container
from jitgraph.tracing.symbolic.number import SymbolicNumber, plain_of

_OF_VIEWS: Final = frozenset(
    [
        *("T", "mT", "reshape", "view", "swapaxes", "transpose", "squeeze", "diagonal", "real", "imag"),
        *("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags", "base"),
    ]
)  # of a NumPy array: what says nothing about its elements
_BY_IDENTITY: Final = (id, hash)


@dataclass(slots=True)
class Read:
    """A value found at a place when it was first read."""

    place: Place
    value: Any
    location: Location
    whole: bool
    steady: bool  # the owner is reached by guarded steps
    method: bool = False  # the value is the function of a method, which is bound anew at each lookup
    by_user: bool = False  # read by code outside of this package, too


# From 3.12 on a trace function changes the code of all threads that run it: two threads that switched instruction
# events on and off at once made CPython 3.12.1 crash. One thread records at a time there, inside a recording too.
_ALONE: Final = forks.lock(awaited=True) if sys.version_info >= (3, 12) else nullcontext()


class Capture(Evaluation):
    """What one trace saw of the functions that it ran by ``call``."""

    def __init__(self, functions: Iterable[Any], known: Iterable[Any] = (), arguments: Iterable[Any] = ()) -> None:
        """``known`` are objects whose identity is in the key of the specialisation; ``arguments`` are containers whose
        contents are."""
        super().__init__()
        self.objects = Objects()
        self.reads: dict[tuple[Any, ...], Read] = {}
        self.log = Log()
        self.writes: dict[tuple[Any, ...], Entry] = {}  # of the log, those of places that the function rebinds
        self.unguarded: dict[str, Location] = {}
        self._watches: list[Log] = []
        self._contents: dict[
            int, tuple[Any, str, Any, Location]
        ] = {}  # containers used as a whole, with what they held
        self._mutated: set[int] = set()  # containers of which a method that changes them was looked up
        self.steady |= {id(value): value for value in known}
        self._keyed: dict[int, Any] = {id(value): value for value in arguments}
        self._fresh: dict[int, Any] = {}
        self._texts: dict[int, str] = {}  # how an object was reached first
        self._functions: dict[CodeType, list[types.FunctionType]] = {}
        self._tables: dict[CodeType, Any] = {}
        self._nested: set[CodeType] = set()
        self._harmless: dict[int, Any] = {}  # callables, by id, that were looked at
        self._line = Location("", 0)
        self._made: tuple[FrameType, str] | None = None
        self._released: set[tuple[Any, ...]] = set()
        self._with_attributes: dict[int, Tensor] = {}  # handles of which a user's attribute was read
        self.attributes: dict[tuple[int, str], Assumption] = {}  # of containers among the arguments
        self._by_numpy: set[int] = set()  # ids of arrays whose elements Python or NumPy read
        for function in functions:  # an object that is called is as fixed as a function
            self._settle(function, getattr(function, "__name__", type(function).__name__))

    def call(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """What the function returns; meanwhile all that it reads and changes is noted.

        It is no context manager: a signal handler may raise before the first line of an ``__exit__`` in Python, and the
        lock and the trace function would stay. ``with`` on a lock and ``finally`` leave no such gap.
        """
        with _ALONE, collector.PAUSED.inside():
            previous = sys.gettrace()
            try:
                sys._getframe().f_trace_opcodes = True  # from 3.12 on the first such frame switches its events on
                sys.settrace(self._on_call)
                return function(*args, **keywords)
            finally:
                sys.settrace(previous)

    # --- the tracer -------------------------------------------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        table = self._tables.get(code)
        if table is None:
            imports = code.co_name == "<module>" and not code.co_filename.startswith("<")  # no state of the call
            followed = not imports and is_followed(code.co_filename)
            if followed and code.co_filename.startswith("<"):  # code made by dataclass, namedtuple, exec
                followed = not is_library_module(frame.f_globals.get("__name__", "__main__"))
            table = self._tables[code] = _table(code) if followed else False
            if table is not False:
                self._nested.update(const for const in code.co_consts if isinstance(const, CodeType))
        if table is False:
            return None
        if code.co_name == "__init__" and code.co_argcount:
            made = frame.f_locals.get(code.co_varnames[0])
            if id(made) not in self.steady:
                self._fresh[id(made)] = made
        if code in self._functions and not code.co_filename.startswith(PACKAGE):
            self._read_defaults(code)
        frame.f_trace_lines = False
        frame.f_trace = self._on_event  # from 3.13 on the next line does nothing for a frame without it
        frame.f_trace_opcodes = True
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            found = self._tables[frame.f_code].get(frame.f_lasti)
            if found is not None:
                if self._made is not None:
                    self._note_made(frame)
                for access in found:
                    self._line = Location(frame.f_code.co_filename, access.line)
                    if access.kind == "read":
                        self._read(access, frame)
                    elif access.kind == "make":
                        kind = self.evaluate(access.target.owner.function, frame)
                        if isinstance(kind, type) and not isinstance(kind.__new__, types.FunctionType):
                            self._made = frame, access.target.name
                    elif access.kind == "call":
                        self._call(access.target, access, frame)
                    elif access.kind == "match":
                        self._match(access.target, access, frame)
                    else:
                        self._write(access, frame)
        elif event == "return" and not frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            original, whole = original_of(frame.f_code)
            self.returned[original if whole else frame.f_code] = arg
        return self._on_event

    def _note_made(self, frame: FrameType) -> None:
        """The variable that the last instruction but one bound holds an object that was just made."""
        assert self._made is not None
        (home, name), self._made = self._made, None
        if home is frame and name in frame.f_locals:
            made = frame.f_locals[name]
            if id(made) not in self.steady:
                self._fresh[id(made)] = made

    # --- reads and writes -------------------------------------------------------------------------------------------

    def _read(self, access: Access, frame: FrameType) -> None:
        target = access.target
        if isinstance(target, Name):
            self._read_name(target, access, frame)
            return
        owner = self.evaluate(target.owner, frame)
        if owner is UNKNOWN:
            kind = self.evaluate(target.owner.function, frame) if isinstance(target.owner, Result) else None
            if isinstance(kind, type) and isinstance(target, Attr):
                self._refuse(getattr(kind, str(target.name), None), str(target), self._line)
            if isinstance(target, Attr) and not access.method and not _is_of_tensors(str(target.name)):
                self.cannot_guard(f"{target.name!s} of a value whose origin is not known")
            return
        if isinstance(target, Attr):
            name = target.name if isinstance(target.name, str) else self.evaluate(target.name, frame)
            if isinstance(name, str):
                self._read_attribute(owner, name, access)
                if isinstance(owner, np.ndarray) and name not in _OF_VIEWS:
                    self._by_numpy.add(id(owner))
        else:
            key = self.evaluate(target.key, frame)
            if isinstance(owner, np.ndarray):
                if key is UNKNOWN or not _is_view(owner, key):
                    self._by_numpy.add(id(owner))
            elif key is not UNKNOWN and is_container(owner):
                self._read_item(owner, key, access)
            elif id(owner) in self.steady and id(owner) not in self._fresh and _is_opaque(owner):
                self.cannot_guard(f"the items of {target.owner!s}, a {type(owner).__name__}")

    def _read_name(self, target: Name, access: Access, frame: FrameType) -> None:
        if target.scope == "global":
            if module_local(frame, target.name) is not UNKNOWN or self._is_own_namespace(frame):
                return
            if target.name in frame.f_globals:
                place = Place("item", frame.f_globals, target.name, target.name)
                self._keep(place, frame.f_globals[target.name], access, steady=True)
            elif target.name in frame.f_builtins:
                self._refuse(self.evaluate(target, frame), target.name, self._line)
            else:  # a NameError, which the function may expect
                place = Place("item", frame.f_globals, target.name, target.name)
                self.reads.setdefault(place.identity, Read(place, MISSING, self._line, False, True))
        elif target.scope == "free":
            value = frame.f_locals.get(target.name, UNKNOWN)
            if value is UNKNOWN:
                return
            found = False
            for function in self._owners(frame.f_code, target.name):
                index = function.__code__.co_freevars.index(target.name)
                cell = (function.__closure__ or ())[index]
                place = Place("cell", cell, None, target.name)
                if place.get_or(UNKNOWN) is value:
                    self._keep(place, value, access, steady=True)
                    found = True
            if not found and frame.f_code not in self._nested and not isinstance(value, Tensor):
                self.cannot_guard(f"the variable {target.name!r} of an enclosing function")

    def _call(self, call: Call, access: Access, frame: FrameType) -> None:
        """What a function that is not written in Python is about to read."""
        function = self.evaluate(call.function, frame)
        if function is type and len(call.arguments) == 1:
            if type(number := self.evaluate(call.arguments[0], frame)) is SymbolicNumber:
                number.numbers.refuse(number.text, f"type({number.text})")
        elif any(function is known for known in _BY_IDENTITY) and call.arguments and self._is_in_users_code():
            value = self.evaluate(call.arguments[0], frame)
            if value is UNKNOWN or isinstance(value, Tensor):
                self.cannot_guard(f"{function.__name__}({call.arguments[0] or '...'})")
        elif function is dir and len(call.arguments) == 1:
            self._read(replace(access, target=Attr(call.arguments[0], "__dict__")), frame)
        elif function is operator.getitem and len(call.arguments) == 2:
            self._read(replace(access, target=Index(*call.arguments)), frame)
        elif type(function) in GETTERS:
            self._get(function, call.arguments, access, frame)
        if _computes_at_once(function):
            given = [self.evaluate(argument, frame) for argument in call.arguments]
            self._by_numpy.update(id(value) for value in given if isinstance(value, np.ndarray))

    def _is_in_users_code(self) -> bool:
        """Whether the line being run is outside of this package."""
        return not self._line.file.startswith(PACKAGE)

    def _get(self, getter: Any, arguments: tuple[Any, ...], access: Access, frame: FrameType) -> None:
        """What an ``attrgetter``, ``itemgetter`` or ``methodcaller`` is about to read."""
        owner = arguments[0] if len(arguments) == 1 else None
        names = getter.__reduce__()[1]
        if isinstance(getter, operator.attrgetter):
            for path in names:
                expression = owner
                for name in path.split("."):
                    expression = Attr(expression, name)
                    self._read(replace(access, target=expression), frame)
        elif isinstance(getter, operator.itemgetter):
            for key in names:
                self._read(replace(access, target=Index(owner, Const(key))), frame)
        else:
            self._read(replace(access, target=Attr(owner, str(names[0])), method=True), frame)

    def _match(self, match: Match, access: Access, frame: FrameType) -> None:
        """The attributes that a class pattern reads by position."""
        kind = self.evaluate(match.kind, frame)
        for name in getattr(kind, "__match_args__", ())[: match.patterns] if isinstance(kind, type) else ():
            self._read(replace(access, target=Attr(match.subject, name)), frame)

    def _read_defaults(self, code: CodeType) -> None:
        """The defaults of the functions with this code, one of which is being called."""
        for function in self._functions[code]:
            for name in ("__defaults__", "__kwdefaults__") if function.__defaults__ or function.__kwdefaults__ else ():
                place = Place("attribute", function, name, f"{function.__name__}.{name}")
                if place.identity not in self.reads:
                    value = place.get()
                    self.reads[place.identity] = Read(place, value, self._line, True, True)
                    self.steady.setdefault(id(value), value)
                    if isinstance(value, dict):
                        self._keep_contents(value, place.text)

    def _know_partial(self, function: Any, text: str) -> None:
        """The arguments that a ``partial`` which is about to be called brings along."""
        if id(function) not in self._fresh:
            for value in (function.keywords, function.args):
                self._settle(value, text)
                self._keep_contents(value, text)

    def _read_tensor_attribute(self, owner: Tensor, name: str, access: Access) -> None:
        """An attribute that the user put on a tensor: it belongs to the handle, so that has to stay the same."""
        if name not in vars(owner):
            return
        if id(owner) not in self.sources():
            if isinstance(owner._value, EagerValue):
                self.cannot_guard(f"{access.target}, an attribute of a tensor among the arguments")
            return
        self._with_attributes[id(owner)] = owner
        self._keep(Place("attribute", owner, name, str(access.target)), vars(owner)[name], access, steady=True)

    def _refuse(self, value: Any, text: str, location: Location) -> None:
        if self._harmless.get(id(value), MISSING) is value:
            return
        impure.refuse(value, text, location)
        if self._is_in_users_code() and (what := impure.frozen(value)) is not None:
            self.cannot_guard(f"what {text} says about {what}")
        elif callable(value):
            self._harmless[id(value)] = value

    def _is_own_namespace(self, frame: FrameType) -> bool:
        """Whether the globals of a frame are a dict that the function made for ``exec``."""
        outer = frame.f_back
        shared = outer is not None and outer.f_globals is frame.f_globals
        return is_module_frame(frame) and not shared and id(frame.f_globals) not in self.steady

    def _read_attribute(self, owner: Any, name: str, access: Access) -> None:
        if isinstance(owner, Tensor):
            self._read_tensor_attribute(owner, name, access)
            return
        if isinstance(owner, types.ModuleType) and is_library_module(owner.__name__):
            value = vars(owner).get(name)
            self._refuse(value, f"{owner.__name__}.{name}", self._line)
            if isinstance(value, list | dict):  # as sys.argv
                self._keep(Place("attribute", owner, name, f"{owner.__name__}.{name}"), value, access, steady=True)
            return
        if isinstance(owner, type) and is_library_module(owner.__module__):
            self._refuse(getattr(owner, name, None), f"{owner.__name__}.{name}", self._line)
            return
        if name in CHANGERS and id(owner) in self.steady and self._is_changed_by(owner, name, access):
            return
        if access.method and is_container(owner):
            self._keep_contents(owner, str(access.target.owner))
            if not isinstance(getattr(type(owner), name, None), types.FunctionType):
                return
        kind, place_owner, value = self.look_up(owner, name)
        text = f"{self._texts.get(id(owner), access.target.owner or type(owner).__name__)}.{name}"
        if kind == "method":
            if isinstance(value, types.FunctionType) and is_followed(value.__code__.co_filename):
                self._know(value)
                home = place_owner if id(owner) in self._fresh else owner
                self._keep(Place("attribute", home, name, text), value, access, steady=True, method=True)
            else:
                self._refuse(getattr(owner, name, None), text, self._line)
        elif kind == "data":
            steady = id(owner) in self.steady or isinstance(owner, types.ModuleType)
            if not steady and not self._is_own(owner) and is_users(owner):
                self.cannot_guard(f"which object {access.target.owner!s} is, whose {name!r} is read")
            place = Place("attribute", owner, name, text)
            if id(owner) not in self._keyed:
                self._keep(place, value, access, steady=steady)
            elif place.identity not in self.writes and name not in _step_names(owner):
                self._keep_attribute(place, plain_of(value))
        elif kind == "missing" and id(owner) in self.steady and id(owner) not in self._fresh:
            place = Place("attribute", owner, name, text)
            if place.identity not in self.writes and place.get_or(MISSING) is MISSING:
                self.reads.setdefault(place.identity, Read(place, MISSING, self._line, False, True))

    def _is_changed_by(self, owner: Any, name: str, access: Access) -> bool:
        """Whether a method of that name changes a container from outside; what it held is kept then.

        ``append`` and ``extend`` do so whatever a list holds, so that nothing is assumed about it.
        """
        if not isinstance(owner, bytearray | array) and not is_container(owner):
            return False
        if isinstance(getattr(type(owner), name, None), types.FunctionType) or id(owner) in self._keyed:
            return False
        text = str(access.target.owner)
        self._mutated.add(id(owner))
        self._touch(owner, text)
        if name not in APPENDS or type(owner) not in (list, deque):
            self._keep_contents(owner, text)
        return True

    def _keep_attribute(self, place: Place, value: Any) -> None:
        """An attribute of an argument that is no part of its tree, as one that ``__post_init__`` sets."""
        if value is not None and (is_container(value) or tree.container_of(value) is not None):
            self.cannot_guard(f"what is in {place.text}, which is no field of the argument")
        predicate = self.objects.same(value) if isinstance(value, Tensor) else self.objects.value(value)
        self.attributes.setdefault((id(place.owner), place.key), Assumption(place, predicate, self._line))

    def _read_item(self, owner: Any, key: Any, access: Access) -> None:
        try:
            hash(key)
            value = item_of(owner, key)
        except LookupError:
            self._keep_contents(owner, str(access.target.owner))
            return
        except TypeError:
            return
        if id(owner) in self._mutated:  # what it held at first is guarded, what it holds now may be the function's own
            self._keep_contents(owner, str(access.target.owner))
        elif id(owner) in self.steady and id(owner) not in self._keyed and not isinstance(key, slice | Tensor):
            self._keep(self._place_of(owner, key, str(access.target)), value, access, steady=True)
        elif isinstance(key, slice) and id(owner) in self.steady:
            self._keep_contents(owner, str(access.target.owner))

    def _keep(self, place: Place, value: Any, access: Access, *, steady: bool, method: bool = False) -> None:
        value = plain_of(value)
        if type(value) in GETTERS and not access.called:
            self.cannot_guard(f"what {place.text} reads where it is handed on")
        self._refuse(value, place.text, self._line)
        identity = place.identity
        if identity in self.writes:
            return
        known = self.reads.get(identity)
        if known is None:
            known = self.reads[identity] = Read(place, value, self._line, False, steady, method)
            if steady:
                impure.refuse_iterator(value, place.text, self._line)
                self._settle(value, place.text)
        if self._is_in_users_code():
            known.by_user = True
        if access.whole and not known.whole:
            known.whole = True
            if steady and known.value is value and is_container(value):
                self._keep_contents(value, place.text)

    def _place_of(self, container: Any, key: Any, text: str) -> Place:
        """``container[key]``; in the ``__dict__`` of an object that is the attribute."""
        if id(container) in self.instances and isinstance(key, str):
            text = text.replace(f".__dict__[{key!r}]", f".{key}")
            return Place("attribute", self.instances[id(container)], key, text)
        return Place("item", container, key, text)

    def _settle(self, value: Any, text: str) -> None:
        """``value`` is reached by guarded steps, so what is read from it later is, too."""
        if type(value) is not SymbolicNumber and not isinstance(value, Tensor):
            foreign.refuse(value, text, self._line)
        if isinstance(value, np.ndarray):
            foreign.require_plain(value, text)
            self._touch(value, text)
        if id(value) not in self._fresh and not isinstance(value, Tensor | int | float | str | bytes):
            self.steady[id(value)] = value
            self._texts.setdefault(id(value), text)
            self._know(value)

    def _keep_contents(self, container: Any, text: str) -> None:
        """The extent and the elements of a container that is used as a whole."""
        if id(container) in self._contents or id(container) in self._keyed or id(container) not in self.steady:
            return
        fixed = isinstance(container, tuple | frozenset)
        before: Any = container if fixed else self._touch(container, text).before
        self._contents[id(container)] = container, text, before, self._line
        if len(before) > MAX_ELEMENTS:
            self.cannot_guard(f"the {len(before)} elements of {text} one by one (their number is)")
            return
        if isinstance(before, frozenset):
            return
        pairs = list(before.items() if isinstance(before, dict) else enumerate(before))
        for key, element in pairs:
            where = self._place_of(container, key, f"{text}[{key!r}]")
            if where.identity not in self.writes and where.identity not in self.reads:
                self.reads[where.identity] = Read(where, element, self._line, True, True)
                self._settle(element, where.text)
                if is_container(element):
                    self._keep_contents(element, where.text)

    def _write(self, access: Access, frame: FrameType) -> None:
        target = access.target
        if isinstance(target, Name):
            self._write_name(target, frame)
            return
        owner = self.evaluate(target.owner, frame)
        if isinstance(owner, Tensor) and isinstance(target, Attr):
            self._write_tensor_attribute(owner, str(target.name), str(target))
        if owner is UNKNOWN or isinstance(owner, Tensor) or id(owner) in self._fresh:
            return
        if isinstance(target, Attr):
            assert isinstance(target.name, str)
            kind, _, _ = self.look_up(owner, target.name)
            if kind in ("data", "missing"):
                self._note_write(Place("attribute", owner, target.name, str(target)))
        elif is_container(owner) and id(owner) in self.steady:
            key = self.evaluate(target.key, frame) if target.key is not None else UNKNOWN
            if key is UNKNOWN:
                self._keep_contents(owner, str(target.owner))
                return
            self._note_write(Place("item", owner, key, str(target)))

    def _write_tensor_attribute(self, owner: Tensor, name: str, text: str) -> None:
        if hasattr(type(owner), name) or not isinstance(owner._value, EagerValue):
            return
        if id(owner) not in self.sources():
            raise TraceError(
                f"{text} is set on a tensor among the arguments, which no later call repeats",
                location=self._line,
                hint="return the value, or keep it on an object",
            )
        self._with_attributes[id(owner)] = owner
        self._note_write(Place("attribute", owner, name, text))

    def _write_name(self, target: Name, frame: FrameType) -> None:
        if target.scope == "global":
            if (is_module_frame(frame) and frame.f_locals is not frame.f_globals) or self._is_own_namespace(frame):
                return
            self._note_write(Place("item", frame.f_globals, target.name, target.name))
        elif target.scope == "free":
            for function in self._owners(frame.f_code, target.name):
                cell = (function.__closure__ or ())[function.__code__.co_freevars.index(target.name)]
                self._note_write(Place("cell", cell, None, target.name))

    def _owners(self, code: CodeType, name: str) -> list[types.FunctionType]:
        """The known functions with this code (before it was rewritten) that have ``name`` from an enclosing one."""
        found = self._functions.get(original_of(code)[0], ())
        return [function for function in found if name in function.__code__.co_freevars]

    def _note_write(self, place: Place) -> None:
        self.writes.setdefault(place.identity, self._touch(place, place.text))

    def _touch(self, target: Any, text: str) -> Entry:
        """``target`` is about to be changed, perhaps: what it holds is kept."""
        for log in self._watches:
            log.keep(target, text, self._line)
        return self.log.keep(target, text, self._line)

    def _know(self, value: Any) -> None:
        """Remember a function by its code, so that its cells can be found when a frame of it reads them."""
        seen = 0
        while seen < 8:
            seen += 1
            if isinstance(value, types.MethodType):
                self.steady.setdefault(id(value.__self__), value.__self__)
                value = value.__func__
            elif isinstance(value, partial):
                self._know_partial(value, "partial")
                value = value.func
            elif isinstance(value, types.FunctionType):
                functions = self._functions.setdefault(value.__code__, [])
                if not any(value is known for known in functions):
                    functions.append(value)
                    for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
                        self.steady.setdefault(id(default), default)
                value = getattr(value, "__wrapped__", None)
            elif hasattr(type(value), "__wrapped__") or "__wrapped__" in getattr(value, "__dict__", ()):
                value = value.__wrapped__
            else:
                return

    def cannot_guard(self, what: str) -> None:
        """Note what no guard can see, with the line being run."""
        self.unguarded.setdefault(what, self._line)

    # --- the end of the trace ---------------------------------------------------------------------------------------

    def is_steady(self, value: Any) -> bool:
        """Whether ``value`` was reached by guarded steps, or is an argument."""
        return id(value) in self.steady or id(value) in self._keyed

    def is_outside(self, value: Any) -> bool:
        """Whether ``value`` was reached by guarded steps, and is no container of the arguments."""
        return id(value) in self.steady and id(value) not in self._keyed

    def is_fresh(self, value: Any) -> bool:
        """Whether ``value`` is an instance that the function made."""
        return id(value) in self._fresh

    def outside(self) -> tuple[Any, ...]:
        """Every object from outside that the function reached."""
        return (*self.steady.values(), *self._keyed.values())

    def release(self, mapping: Any, key: Any) -> None:
        """Guard ``mapping[key]`` no more where it is read by this package alone: it is an input."""
        self._released.add(Place("item", mapping, key, "").identity)

    def assumptions(self, lifted: Collection[int] = ()) -> list[Assumption]:
        """What must be true of what was read; TraceError where the function changed it in a way not seen.

        ``lifted`` are the ids of arrays that are inputs. Elements that Python or NumPy used are guarded where they are
        few.
        """
        found: list[Assumption] = []
        for identity, read in self.reads.items():
            if id(read.place.owner) in self._fresh or (identity in self._released and not read.by_user):
                continue
            if type(read.value) is SymbolicNumber:  # read again at each call
                if identity not in self.writes and read.place.get_or(None) is not read.value:
                    raise _changed(read.place.text, read.location)
                continue
            if isinstance(read.value, Tensor) and identity in self.writes and not read.steady:
                raise TraceError(
                    f"{read.place.text} is read and set, but how later calls find its owner is not known",
                    location=read.location,
                    hint="reach the object by a variable, an attribute or an argument",
                )
            predicate: Predicate = Absent() if read.value is MISSING else self.objects.value(read.value)
            assumption = Assumption(read.place, predicate, read.location, read.method)
            if isinstance(read.value, np.ndarray) and (
                id(read.value) not in lifted or id(read.value) in self._by_numpy
            ):
                if read.value.nbytes <= MAX_BYTES:
                    found.append(assumption._replace(predicate=HasContents.of(read.value)))
                else:
                    self._line = read.location
                    self.cannot_guard(f"the {read.value.nbytes} bytes of the array {read.place.text}, used by NumPy")
            owner = id(read.place.owner)  # what was done to a container that is used as a whole is seen at the end
            own = identity in self.writes or owner in self._mutated or owner in self._contents
            if not own and not assumption.holds(self.objects.values):
                if read.steady:
                    raise _changed(read.place.text, read.location)
                continue
            found.append(assumption)
        for write in self.writes.values():
            after = write.target.get_or(MISSING)
            if after is write.before and not _is_value(after) and not self._is_own(write.target.owner):
                predicate = Absent() if after is MISSING else self.objects.same(after)
                found.append(Assumption(write.target, predicate, write.location))
        for place, handle in self.tensor_places():
            if id(handle) in self._with_attributes:
                found.append(Assumption(place, self.objects.same(handle), self.reads[place.identity].location))
        for container, text, before, location in self._contents.values():
            place = Place("object", container, None, text)
            found.append(Assumption(place, self.objects.extent(self._without_own(container, before)), location))
        return [*found, *self.attributes.values()]

    def _without_own(self, container: Any, before: Any) -> Any:
        """What a mapping held, without the keys, or attributes, that the function had added before it was used."""
        if not isinstance(before, dict):
            return before
        owner = self.instances.get(id(container), container)
        added = {write.target.key for write in self.writes.values() if write.target.owner is owner and _is_new(write)}
        return {key: value for key, value in before.items() if key not in added}

    def sources(self) -> dict[int, Place]:
        """For each tensor handle that was read at a guarded place (by id), where it stood."""
        found: dict[int, Place] = {}
        for read in self.reads.values():
            if isinstance(read.value, Tensor) and read.steady:
                found.setdefault(id(read.value), read.place)
        return found

    def tensor_places(self) -> list[tuple[Place, Tensor]]:
        """Every guarded place at which a tensor was read."""
        return [
            (read.place, read.value) for read in self.reads.values() if isinstance(read.value, Tensor) and read.steady
        ]

    @contextmanager
    def watching(self, log: Log) -> Iterator[None]:
        """Note in ``log``, too, what is changed in the block, as it was at its beginning."""
        self._watches.append(log)
        before = frozenset(self._fresh)
        try:
            yield
        finally:
            self._watches.remove(log)
            log.forget(self._fresh.keys() - before)

    def know_arguments(self, containers: Iterable[Any]) -> None:
        """Say that these are containers of the arguments, whose changes are seen without this."""
        self._keyed |= {id(container): container for container in containers}

    def _is_own(self, owner: Any) -> bool:
        """Whether an object was made by the call, or is a container of its arguments."""
        return id(owner) in self._fresh or id(owner) in self._keyed

    def effects(self) -> list[tuple[Entry, Any]]:
        """The places of outer objects that hold something new now, with what they hold (``MISSING`` for nothing)."""
        found = []
        for write in self.writes.values():
            if self._is_own(write.target.owner):
                continue
            after = write.target.get_or(MISSING)
            if after is not write.before or _is_value(after):  # what it held already, too: a later call may differ
                found.append((write, after))
        return found

    def changes(self) -> list[tuple[Entry, list[Change]]]:
        """What was done to containers from outside besides; TraceError where no later call can do that again."""
        found = []
        for entry in self.log:
            target = entry.target
            if isinstance(target, Place) or self._is_own(target):
                continue
            changes = entry.changes()
            if changes is None:
                raise _changed(entry.text, entry.location)
            assigned = self._assigned(target, len(entry.before) if isinstance(target, list) else 0)
            changes = [change for change in changes if change.step is None or change.step.key not in assigned]
            if id(target) not in self._contents and any(change.operation != "append" for change in changes):
                raise _changed(entry.text, entry.location)
            if changes:
                found.append((entry, changes))
        return found

    def _assigned(self, container: Any, length: int) -> set[Any]:
        """The keys, attributes or indices of a container that the function assigned or deleted by themselves."""
        owner = self.instances.get(id(container), container)
        keys = {
            write.target.key
            for write in self.writes.values()
            if write.target.owner is owner or write.target.owner is container
        }
        return keys | {key + length for key in keys if length and type(key) is int and key < 0}

    def undo(self) -> None:
        """Put back what the function changed."""
        self.log.undo()


@lru_cache(maxsize=4096)
def _table(code: CodeType) -> dict[int, tuple[Access, ...]]:
    """``accesses``; of the calls in this package's own code those of ``type`` alone."""
    found = accesses(code)
    if not code.co_filename.startswith(PACKAGE):
        return found
    kept = {at: tuple(a for a in group if a.kind != "call" or _is_type_call(a)) for at, group in found.items()}
    return {at: group for at, group in kept.items() if group}


def _is_type_call(access: Access) -> bool:
    return bool(access.target.function == Name("global", "type"))


def _is_of_tensors(name: str) -> bool:
    """Whether tensors have an attribute of that name, which is then most likely meant."""
    return name != "__dict__" and hasattr(Tensor, name)


def _is_opaque(owner: Any) -> bool:
    """Whether an object of a library answers ``owner[key]`` from something that is not seen here."""
    plain: Any = str | bytes | bytearray | range | np.ndarray | np.generic | type | types.GenericAlias | Tensor
    return not isinstance(owner, (plain, array)) and not is_container(owner) and not is_users(owner)


def _is_view(array: NDArray[Any], key: Any) -> bool:
    """Whether ``array[key]`` reads no element: indices that are slices, None, ``...`` and fewer ints than axes."""
    keys = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(k, slice | int | np.integer | types.EllipsisType | None) and k is not True for k in keys):
        return False
    return sum(isinstance(k, int | np.integer) for k in keys) < array.ndim


def _computes_at_once(function: Any) -> bool:
    """Whether a function reads the elements of an array among its arguments: one of NumPy or of Python itself."""
    module = getattr(function, "__module__", None) if callable(function) else None
    return isinstance(module, str) and module.partition(".")[0] in ("numpy", "builtins", "math", "operator")


def _step_names(container: Any) -> set[Any]:
    """The keys and names under which a container of the arguments holds what is in the key of a call."""
    kind = tree.container_of(container)
    return set() if kind is None else {step[0] for step in kind.take_apart(container).steps}


def _is_value(value: Any) -> bool:
    """Whether setting a place to ``value`` again makes no other object of it."""
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | enum.Enum)


def _is_new(write: Entry) -> bool:
    """Whether nothing stood there before."""
    return write.before is MISSING


def _changed(text: str, location: Location | None) -> TraceError:
    return TraceError(
        f"{text} was changed while the function was traced, by more than an assignment; no later call repeats that",
        location=location,
        hint="return the new value instead, or change it outside of the traced function",
    )
