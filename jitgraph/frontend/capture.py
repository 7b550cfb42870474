"""Capture: notes all Python state that a function reads and changes while it is traced.

A tracer stops at each instruction of the user's code (``frontend/bytecode.py`` says which ones matter), evaluates what
is about to be read from the frame's own variables, and keeps the place and the value. Nothing of the user's is run for
it: attributes are looked up statically, and what a property or a call gave is taken from the frame that just returned.
The standard library, installed packages and jitgraph itself are not followed, except ``jitgraph.nn`` and
``jitgraph.optim``, which hold state of the user's.
"""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from types import CodeType, FrameType
from typing import Any, Final

from jitgraph.errors import TraceError
from jitgraph.frontend import impure
from jitgraph.frontend.bytecode import Access, Attr, Const, Index, Name, Result, accesses
from jitgraph.frontend.guards import (
    MAX_BYTES,
    MAX_ELEMENTS,
    ArrayState,
    Contents,
    Guard,
    Place,
    guard_for,
    is_container,
    item_of,
)
from jitgraph.frontend.hostnumber import HostNumber, plain_of
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STATEFUL: Final = tuple(os.path.join(_PACKAGE, name) + os.sep for name in ("nn", "optim"))
_LIBRARIES: Final = tuple(
    {
        os.path.realpath(path) + os.sep
        for name, path in sysconfig.get_paths().items()
        if name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)
_UNKNOWN: Final = object()
_REWRITTEN: Final[dict[CodeType, tuple[CodeType, bool]]] = {}  # code made from a user's, and whether it is all of it
MISSING: Final = object()


@lru_cache(maxsize=4096)
def is_followed(file: str) -> bool:
    """Whether code of this file is the user's, or of a part of jitgraph that holds state of the user's."""
    if file.startswith("<"):
        return not file.startswith(("<frozen", "<jitgraph", "<attrs", "<__array_function__"))
    path = os.path.realpath(file)
    if path.startswith(_PACKAGE):
        return path.startswith(_STATEFUL)
    return not path.startswith(_LIBRARIES) and "site-packages" not in path


def register_rewritten(code: CodeType, original: CodeType) -> None:
    """Say that ``code``, and the code inside it, was made from a user's function with the code ``original``."""
    _REWRITTEN[code] = original, True
    pending = [code]
    while pending:
        for inner in pending.pop().co_consts:
            if isinstance(inner, CodeType):
                _REWRITTEN[inner] = original, False
                pending.append(inner)


def is_rewritten(code: CodeType) -> bool:
    """Whether ``code`` was made by a rewrite."""
    return code in _REWRITTEN


@lru_cache(maxsize=4096)
def _is_library_module(name: str) -> bool:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return name != "__main__" and (file is None or not is_followed(file))


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


@dataclass(slots=True)
class Write:
    """A place that the function rebinds, with what stood there before (``MISSING`` for nothing)."""

    place: Place
    before: Any
    location: Location

    @property
    def is_new(self) -> bool:
        """Whether nothing stood there before."""
        return self.before is MISSING


class Capture:
    """What one trace saw. Use as a context around the call of the function."""

    def __init__(self, functions: Iterable[Any], known: Iterable[Any] = (), arguments: Iterable[Any] = ()) -> None:
        """``known`` are objects whose identity is in the key of the specialisation; ``arguments`` are containers whose
        contents are."""
        self.reads: dict[tuple[Any, ...], Read] = {}
        self.writes: dict[tuple[Any, ...], Write] = {}
        self.unguarded: dict[str, Location] = {}
        self._contents: dict[int, Contents] = {}
        self._contents_read: dict[int, tuple[Place, Contents, Location]] = {}
        self._steady: dict[int, Any] = {id(value): value for value in known}
        self._keyed: dict[int, Any] = {id(value): value for value in arguments}
        self._fresh: dict[int, Any] = {}
        self._instances: dict[int, Any] = {}  # by id of an instance's __dict__
        self._texts: dict[int, str] = {}  # how an object was reached first
        self._functions: dict[CodeType, list[types.FunctionType]] = {}
        self._tables: dict[CodeType, Any] = {}
        self._nested: set[CodeType] = set()
        self._returned: dict[CodeType, Any] = {}
        self._line = Location("", 0)
        self._previous: Any = None
        self._made: tuple[FrameType, str] | None = None
        self._released: set[tuple[Any, ...]] = set()
        for function in functions:
            self._know(function)

    def __enter__(self) -> Capture:
        self._previous = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # from 3.12 on the first such frame switches instruction events on
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._previous)

    # --- the tracer -------------------------------------------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        table = self._tables.get(code)
        if table is None:
            followed = code.co_name != "<module>" and is_followed(code.co_filename)  # an import is no state of the call
            if followed and code.co_filename.startswith("<"):  # code made by dataclass, namedtuple, exec
                followed = not _is_library_module(frame.f_globals.get("__name__", "__main__"))
            table = self._tables[code] = accesses(code) if followed else False
            if table is not False:
                self._nested.update(const for const in code.co_consts if isinstance(const, CodeType))
        if table is False:
            return None
        if code.co_name == "__init__" and code.co_argcount:
            made = frame.f_locals.get(code.co_varnames[0])
            if id(made) not in self._steady:
                self._fresh[id(made)] = made
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
                        kind = self._evaluate(access.target.owner.function, frame)
                        if isinstance(kind, type) and not isinstance(kind.__new__, types.FunctionType):
                            self._made = frame, access.target.name
                    elif access.kind == "type":
                        if type(number := self._evaluate(access.target, frame)) is HostNumber:
                            number.numbers.refuse(number.text, f"type({number.text})")
                    else:
                        self._write(access, frame)
        elif event == "return" and not frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            original, whole = _REWRITTEN.get(frame.f_code, (frame.f_code, True))
            self._returned[original if whole else frame.f_code] = arg
        return self._on_event

    def _note_made(self, frame: FrameType) -> None:
        """The variable that the last instruction but one bound holds an object that was just made."""
        assert self._made is not None
        (home, name), self._made = self._made, None
        if home is frame and name in frame.f_locals:
            made = frame.f_locals[name]
            if id(made) not in self._steady:
                self._fresh[id(made)] = made

    # --- reads and writes -------------------------------------------------------------------------------------------

    def _read(self, access: Access, frame: FrameType) -> None:
        target = access.target
        if isinstance(target, Name):
            self._read_name(target, access, frame)
            return
        owner = self._evaluate(target.owner, frame)
        if owner is _UNKNOWN:
            if isinstance(target, Attr) and not access.method and not hasattr(Tensor, str(target.name)):
                self.cannot_guard(f"{target.name!s} of a value whose origin is not known")
            return
        if isinstance(target, Attr):
            name = target.name if isinstance(target.name, str) else self._evaluate(target.name, frame)
            if isinstance(name, str):
                self._read_attribute(owner, name, access)
        else:
            key = self._evaluate(target.key, frame)
            if key is not _UNKNOWN and is_container(owner):
                self._read_item(owner, key, access)

    def _read_name(self, target: Name, access: Access, frame: FrameType) -> None:
        if target.scope == "global":
            if target.name in frame.f_globals:
                place = Place("item", frame.f_globals, target.name, target.name)
                self._keep(place, frame.f_globals[target.name], access, steady=True)
            else:
                impure.refuse(self._evaluate(target, frame), target.name, self._line)
        elif target.scope == "free":
            value = frame.f_locals.get(target.name, _UNKNOWN)
            if value is _UNKNOWN:
                return
            found = False
            for function in self._owners(frame.f_code, target.name):
                index = function.__code__.co_freevars.index(target.name)
                cell = (function.__closure__ or ())[index]
                place = Place("cell", cell, None, target.name)
                if place.get_or(_UNKNOWN) is value:
                    self._keep(place, value, access, steady=True)
                    found = True
            if not found and frame.f_code not in self._nested and not isinstance(value, Tensor):
                self.cannot_guard(f"the variable {target.name!r} of an enclosing function")

    def _read_attribute(self, owner: Any, name: str, access: Access) -> None:
        if isinstance(owner, Tensor):
            return
        if isinstance(owner, types.ModuleType) and _is_library_module(owner.__name__):
            impure.refuse(vars(owner).get(name), f"{owner.__name__}.{name}", self._line)
            return
        if isinstance(owner, type) and _is_library_module(owner.__module__):
            impure.refuse(getattr(owner, name, None), f"{owner.__name__}.{name}", self._line)
            return
        if access.method and is_container(owner):
            self._keep_contents(owner, str(access.target.owner))
            if not isinstance(getattr(type(owner), name, None), types.FunctionType):
                return
        kind, place_owner, value = self._look_up(owner, name)
        text = f"{self._texts.get(id(owner), access.target.owner or type(owner).__name__)}.{name}"
        if kind == "method":
            if isinstance(value, types.FunctionType) and is_followed(value.__code__.co_filename):
                self._know(value)
                home = place_owner if id(owner) in self._fresh else owner
                self._keep(Place("attribute", home, name, text), value, access, steady=True, method=True)
            else:
                impure.refuse(getattr(owner, name, None), text, self._line)
        elif kind == "data":
            steady = id(owner) in self._steady or isinstance(owner, types.ModuleType)
            if not steady and not self._is_own(owner) and _is_users(owner):
                self.cannot_guard(f"which object {access.target.owner!s} is, whose {name!r} is read")
            if id(owner) not in self._keyed:
                self._keep(Place("attribute", owner, name, text), value, access, steady=steady)
        elif kind == "missing" and id(owner) in self._steady and id(owner) not in self._fresh:
            place = Place("attribute", owner, name, text)
            if place.identity not in self.writes and place.get_or(MISSING) is MISSING:
                self.reads.setdefault(place.identity, Read(place, MISSING, self._line, False, True))

    def _read_item(self, owner: Any, key: Any, access: Access) -> None:
        try:
            hash(key)
            value = item_of(owner, key)
        except LookupError:
            self._keep_contents(owner, str(access.target.owner))
            return
        except TypeError:
            return
        if id(owner) in self._steady and id(owner) not in self._keyed and not isinstance(key, slice | Tensor):
            self._keep(self._place_of(owner, key, str(access.target)), value, access, steady=True)
        elif isinstance(key, slice) and id(owner) in self._steady:
            self._keep_contents(owner, str(access.target.owner))

    def _keep(self, place: Place, value: Any, access: Access, *, steady: bool, method: bool = False) -> None:
        value = plain_of(value)
        impure.refuse(value, place.text, self._line)
        identity = place.identity
        if identity in self.writes:
            return
        known = self.reads.get(identity)
        if known is None:
            known = self.reads[identity] = Read(place, value, self._line, False, steady, method)
            if steady:
                impure.refuse_iterator(value, place.text, self._line)
                self._settle(value, place.text)
        if not self._line.file.startswith(_PACKAGE):
            known.by_user = True
        if access.whole and not known.whole:
            known.whole = True
            if steady and known.value is value and is_container(value):
                self._keep_contents(value, place.text)

    def _place_of(self, container: Any, key: Any, text: str) -> Place:
        """``container[key]``; in the ``__dict__`` of an object that is the attribute."""
        if id(container) in self._instances and isinstance(key, str):
            text = text.replace(f".__dict__[{key!r}]", f".{key}")
            return Place("attribute", self._instances[id(container)], key, text)
        return Place("item", container, key, text)

    def _settle(self, value: Any, text: str) -> None:
        """``value`` is reached by guarded steps, so what is read from it later is, too."""
        if id(value) not in self._fresh and not isinstance(value, Tensor | int | float | str | bytes):
            self._steady[id(value)] = value
            self._texts.setdefault(id(value), text)
            self._know(value)

    def _keep_contents(self, container: Any, text: str) -> None:
        """The extent and the elements of a container that is used as a whole."""
        if id(container) in self._contents or id(container) in self._keyed or id(container) not in self._steady:
            return
        contents = self._contents[id(container)] = Contents.of(container)
        place = Place("item", [container], 0, text)
        self._contents_read[id(container)] = (place, contents, self._line)
        if len(container) > MAX_ELEMENTS:
            self.cannot_guard(f"the {len(container)} elements of {text} one by one (their number is)")
            return
        if isinstance(container, set | frozenset):
            return
        pairs = list(container.items() if isinstance(container, dict) else enumerate(container))
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
        owner = self._evaluate(target.owner, frame)
        if owner is _UNKNOWN or isinstance(owner, Tensor) or id(owner) in self._fresh:
            return
        if isinstance(target, Attr):
            assert isinstance(target.name, str)
            kind, _, before = self._look_up(owner, target.name)
            if kind in ("data", "missing"):
                present = kind == "data" and _in_instance(owner, target.name)
                self._note_write(Place("attribute", owner, target.name, str(target)), before if present else MISSING)
        elif is_container(owner) and id(owner) in self._steady:
            key = self._evaluate(target.key, frame) if target.key is not None else _UNKNOWN
            if key is _UNKNOWN:
                self._keep_contents(owner, str(target.owner))
                return
            place = Place("item", owner, key, str(target))
            self._note_write(place, place.get_or(MISSING))

    def _write_name(self, target: Name, frame: FrameType) -> None:
        if target.scope == "global":
            place = Place("item", frame.f_globals, target.name, target.name)
            self._note_write(place, frame.f_globals.get(target.name, MISSING))
        elif target.scope == "free":
            for function in self._owners(frame.f_code, target.name):
                cell = (function.__closure__ or ())[function.__code__.co_freevars.index(target.name)]
                place = Place("cell", cell, None, target.name)
                self._note_write(place, place.get_or(MISSING))

    def _owners(self, code: CodeType, name: str) -> list[types.FunctionType]:
        """The known functions with this code (before it was rewritten) that have ``name`` from an enclosing one."""
        found = self._functions.get(_REWRITTEN.get(code, (code, True))[0], ())
        return [function for function in found if name in function.__code__.co_freevars]

    def _note_write(self, place: Place, before: Any) -> None:
        self.writes.setdefault(place.identity, Write(place, plain_of(before), self._line))

    # --- evaluation -------------------------------------------------------------------------------------------------

    def _evaluate(self, expression: Any, frame: FrameType) -> Any:
        """The value of an expression in the frame, found without running code; ``_UNKNOWN`` where that cannot be."""
        match expression:
            case Const(value):
                return value
            case Name("global", name):
                found = frame.f_globals.get(name, _UNKNOWN)
                return frame.f_builtins.get(name, _UNKNOWN) if found is _UNKNOWN else found
            case Name(_, name):
                return frame.f_locals.get(name, _UNKNOWN)
            case Attr(owner, name):
                value = self._evaluate(owner, frame)
                name = name if isinstance(name, str) else self._evaluate(name, frame)
                if value is _UNKNOWN or not isinstance(name, str) or isinstance(value, Tensor):
                    return _UNKNOWN
                kind, _, found = self._look_up(value, name)
                return found if kind in ("data", "value", "method") else _UNKNOWN
            case Index(owner, key):
                value, key = self._evaluate(owner, frame), self._evaluate(key, frame)
                if value is _UNKNOWN or key is _UNKNOWN:
                    return _UNKNOWN
                if not is_container(value):
                    function = getattr(type(value), "__getitem__", None)
                    return self._returned.get(getattr(function, "__code__", None), _UNKNOWN)  # type: ignore[arg-type]
                try:
                    return item_of(value, key)
                except (LookupError, TypeError):
                    return _UNKNOWN
            case Result(function):
                called = self._evaluate(function, frame)
                code = getattr(getattr(called, "__func__", called), "__code__", None)
                return self._returned.get(code, _UNKNOWN) if code is not None else _UNKNOWN
        return _UNKNOWN

    def _look_up(self, owner: Any, name: str) -> tuple[str, Any, Any]:
        """How ``owner.name`` is found: ("data" | "method" | "value" | "missing", where it stands, the value)."""
        if isinstance(owner, types.ModuleType):
            return ("data", owner, vars(owner)[name]) if name in vars(owner) else ("missing", owner, _UNKNOWN)
        if isinstance(owner, type):
            for kind in owner.__mro__:
                if name in vars(kind):
                    value = vars(kind)[name]
                    if isinstance(value, staticmethod | classmethod):
                        return "method", kind, value.__func__
                    return ("method" if isinstance(value, types.FunctionType) else "data"), kind, value
            return "missing", owner, _UNKNOWN
        if name == "__dict__" and type(getattr(owner, "__dict__", None)) is dict:
            self._instances[id(owner.__dict__)] = owner
            return "data", owner, owner.__dict__
        on_type = MISSING
        for kind in type(owner).__mro__:
            if name in vars(kind):
                on_type, home = vars(kind)[name], kind
                break
        if isinstance(on_type, property):
            code = getattr(on_type.fget, "__code__", None)
            return "value", owner, self._returned.get(code, _UNKNOWN) if code is not None else _UNKNOWN
        if isinstance(on_type, types.MemberDescriptorType):
            value = getattr(owner, name, _UNKNOWN)
            return ("missing" if value is _UNKNOWN else "data"), owner, value
        own = getattr(owner, "__dict__", None)
        if isinstance(own, dict) and name in own:
            return "data", owner, own[name]
        if on_type is not MISSING:
            if isinstance(on_type, staticmethod | classmethod):
                return "method", home, on_type.__func__
            if isinstance(on_type, types.FunctionType):
                return "method", home, on_type
            if hasattr(type(on_type), "__get__"):
                return "value", owner, _UNKNOWN
            return "data", owner, on_type
        fallback = getattr(type(owner), "__getattr__", None)
        if isinstance(fallback, types.FunctionType) and fallback.__code__.co_filename.startswith(_PACKAGE):
            try:
                return "data", owner, getattr(owner, name)
            except AttributeError:
                return "missing", owner, _UNKNOWN
        if isinstance(owner, dict) and fallback in (dict.__getitem__, dict.get):
            found = dict.get(owner, name, _UNKNOWN)
            return ("missing" if found is _UNKNOWN else "data"), owner, found
        if isinstance(fallback, types.FunctionType):
            return "value", owner, self._returned.get(fallback.__code__, _UNKNOWN)
        return "missing", owner, _UNKNOWN

    def _know(self, value: Any) -> None:
        """Remember a function by its code, so that its cells can be found when a frame of it reads them."""
        seen = 0
        while seen < 8:
            seen += 1
            if isinstance(value, types.MethodType):
                self._steady.setdefault(id(value.__self__), value.__self__)
                value = value.__func__
            elif isinstance(value, partial):
                value = value.func
            elif isinstance(value, types.FunctionType):
                functions = self._functions.setdefault(value.__code__, [])
                if not any(value is known for known in functions):
                    functions.append(value)
                    for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
                        self._steady.setdefault(id(default), default)
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
        return id(value) in self._steady or id(value) in self._keyed

    def is_fresh(self, value: Any) -> bool:
        """Whether ``value`` is an instance that the function made."""
        return id(value) in self._fresh

    def outside(self) -> tuple[Any, ...]:
        """Every object from outside that the function reached."""
        return (*self._steady.values(), *self._keyed.values())

    def release(self, mapping: Any, key: Any) -> None:
        """Guard ``mapping[key]`` no more where it is read by this package alone: it is an input."""
        self._released.add(Place("item", mapping, key, "").identity)

    def guards(self, lifted: Collection[int] = ()) -> list[Guard]:
        """The guards that what was read calls for; TraceError where the function changed it in a way not seen.

        ``lifted`` are the ids of arrays that are inputs; of others the contents are guarded where they are small.
        """
        found: list[Guard] = []
        for identity, read in self.reads.items():
            if id(read.place.owner) in self._fresh or (identity in self._released and not read.by_user):
                continue
            if type(read.value) is HostNumber:  # read again at each call
                if identity not in self.writes and read.place.get_or(None) is not read.value:
                    raise _changed(read.place.text, read.location)
                continue
            guard = guard_for(read.place, read.value, read.location)
            if read.value is MISSING:
                guard = Guard("absent", read.place, None, read.location)
            guard = replace(guard, kind="method") if read.method else guard
            if guard.kind == "array" and id(read.value) not in lifted:
                if read.value.nbytes <= MAX_BYTES:
                    found.append(Guard("contents", read.place, ArrayState.copy_of(read.value), read.location))
                else:
                    self._line = read.location
                    self.cannot_guard(f"the {read.value.nbytes} bytes of the array {read.place.text}, used by NumPy")
            if identity not in self.writes and not guard.holds():
                if read.steady:
                    raise _changed(read.place.text, read.location)
                continue
            found.append(guard)
        for place, contents, location in self._contents_read.values():
            before = self._before(contents)
            if before is contents and not contents.unchanged():
                raise _changed(place.text, location)
            found.append(Guard("length", place, before, location))
        return found

    def _before(self, contents: Contents) -> Contents:
        """The extent of a container without the keys, or attributes, that the function itself added."""
        container = contents.container
        if not isinstance(container, dict):
            return contents
        owner = self._instances.get(id(container), container)
        added = {write.place.key for write in self.writes.values() if write.place.owner is owner and write.is_new}
        keys = tuple(key for key in contents.keys if key not in added)
        now = tuple(key for key in container if key not in added)
        return Contents(container, keys) if keys == now else contents

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

    def know_arguments(self, containers: Iterable[Any]) -> None:
        """Say that these are containers of the arguments, whose changes are seen without this."""
        self._keyed |= {id(container): container for container in containers}

    def _is_own(self, owner: Any) -> bool:
        """Whether an object was made by the call, or is a container of its arguments."""
        return id(owner) in self._fresh or id(owner) in self._keyed

    def effects(self) -> list[tuple[Write, Any]]:
        """The places of outer objects that hold something new now, with what they hold (``MISSING`` for nothing)."""
        found = []
        for write in self.writes.values():
            if self._is_own(write.place.owner):
                continue
            after = write.place.get_or(MISSING)
            if after is not write.before:
                found.append((write, after))
        return found

    def undo(self) -> None:
        """Put back what the function rebound."""
        for write in self.writes.values():
            if write.before is MISSING:
                write.place.remove()
            else:
                write.place.set(write.before)


def _is_users(owner: Any) -> bool:
    """Whether the object's class is the user's or holds the user's state."""
    kind = owner if isinstance(owner, type) else type(owner)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or (file is not None and is_followed(file))


def _in_instance(owner: Any, name: str) -> bool:
    own = getattr(owner, "__dict__", None)
    return name in own if own is not None else hasattr(owner, name)


def _changed(text: str, location: Location) -> TraceError:
    return TraceError(
        f"{text} was changed while the function was traced, by more than an assignment; no later call repeats that",
        location=location,
        hint="return the new value instead, or change it outside of the traced function",
    )
