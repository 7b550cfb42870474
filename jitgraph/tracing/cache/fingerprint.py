"""What an object or a code object is, as plain data that another process can compare with what it finds itself."""

from __future__ import annotations

import enum
import functools
import os
import struct
import sys
import types
from array import array
from collections import deque
from functools import lru_cache
from types import CodeType
from typing import Any, Final

import numpy as np

from jitgraph.once import cached_property
from jitgraph.own_code import PACKAGE
from jitgraph.runtime import digests
from jitgraph.tracing.cache.codec import NotStorableError, encoded
from jitgraph.tracing.guards.plain import plain_of
from jitgraph.tracing.guards.storage import attributes_of, entries_of

# ----------------------------------------------------------------------
# The digest of a code object: equal in any process that compiled the same source, in the same file, at the same lines.
#
# ``marshal`` would tell codes apart by which constants happened to be shared, and by the order of sets of strings.

_FRACTION: Final = struct.Struct("<d")


@lru_cache(maxsize=4096)
def _digest(identity: int, code: CodeType) -> str:
    digest = digests.sha256()
    _add(code, digest)
    return digest.hexdigest()[:40]


def digest_of(code: CodeType) -> str:
    """What tells a code object from any other: its instructions, constants, names, file and lines."""
    return _digest(id(code), code)  # by identity first: equal codes may stand in other files


def _add(value: Any, digest: Any) -> None:
    """Add a constant with its type, so that 1, 1.0 and True differ, and floats by their bits."""
    kind = type(value)
    if kind is CodeType:
        _add_code(value, digest)
    elif kind in (tuple, frozenset):
        parts = list(value)
        if kind is frozenset:
            parts.sort(key=_of_constant)
        _add_bytes(kind.__name__.encode(), digest)
        _add_bytes(str(len(parts)).encode(), digest)
        for part in parts:
            _add(part, digest)
    else:
        _add_bytes(kind.__name__.encode(), digest)
        _add_bytes(_data(value), digest)


def _of_constant(value: Any) -> str:
    digest = digests.sha256()
    _add(value, digest)
    return digest.hexdigest()


def _data(value: Any) -> bytes:
    if type(value) is float:
        return _FRACTION.pack(value)
    if type(value) is complex:
        return _FRACTION.pack(value.real) + _FRACTION.pack(value.imag)
    if type(value) is bytes:
        return value
    return repr(value).encode("utf-8", "surrogatepass")


def _add_bytes(data: bytes, digest: Any) -> None:
    digest.update(struct.pack("<Q", len(data)) + data)


def _add_code(code: CodeType, digest: Any) -> None:
    texts = (code.co_name, code.co_qualname, code.co_filename)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_firstlineno)
    _add_bytes(repr((texts, names, counts)).encode("utf-8", "surrogatepass"), digest)
    for data in (code.co_code, code.co_linetable, code.co_exceptiontable):
        _add_bytes(data, digest)
    _add(code.co_consts, digest)


# ----------------------------------------------------------------------
# What an object is, as plain data that another process can compare with what it finds itself.
#
# Two worlds with equal descriptions have the same modules, classes and functions (by name and code), the same immutable
# values, and instances of the same classes that are, or are not, one object. What an instance or a container holds is
# no part of it: guards say what a recording assumed of that.

_UNFOLLOWED: Final = (PACKAGE, os.path.dirname(os.path.abspath(os.__file__)) + os.sep)
_DEEPEST: Final = 12
_LONGEST: Final = 4096
_PAYLOADS: Final = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda x: bytes(bytearray(x))),
)
_MEMBERS: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
_NAMED: Final = (type, types.FunctionType, types.BuiltinFunctionType)
_CHANGEABLE: Final = (bytearray, array)  # by identity: what they hold is guarded
_TRACED: Final = "jitgraph.tracing.call.function"
_OF_TRACED: Final = {"TracedFunction": ("__wrapped__",), "BoundFunction": ("function", "instance")}
PARTS: Final[dict[type, tuple[str, ...]]] = {
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    functools.cached_property: ("func",),
    cached_property: ("function",),
    functools.partial: ("func", "args"),
    functools.partialmethod: ("func", "args"),
    functools._lru_cache_wrapper: ("__wrapped__",),
    types.MethodType: ("__func__", "__self__"),
}
"""Objects that never change, by what they hold."""


class Fingerprinter:
    """Describes the objects of one world: an object that was described before is given by its number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self.met: list[Any] = []  # those of which a process has one, in the order in which they were met

    def of(self, value: Any, depth: int = _DEEPEST) -> Any:
        """The description; NotStorableError where another process could not have the like of it."""
        plain = None if type(value) in _CHANGEABLE else plain_of(value)
        if plain is not None:
            return encoded(plain)
        number = self._numbers.get(id(value))
        if number is not None:
            return ["again", number]
        if depth < 0:
            raise NotStorableError("objects in objects, too deep to be told")
        self._number(value)
        return self._new(value, depth - 1)

    def _number(self, value: Any) -> int:
        """The number of an object of which nothing is described but where it occurs again."""
        number = self._numbers.setdefault(id(value), len(self._kept))
        if number == len(self._kept):
            self._kept.append(value)
        return number

    def _new(self, value: Any, depth: int) -> Any:
        kind: Any = type(value)
        if kind is types.ModuleType:
            name: Any = value.__name__
            if sys.modules.get(name) is not value:
                raise NotStorableError(f"the module {name}, which no import gives")
            return ["module", name]
        if issubclass(kind, type):
            return self._of_class(value, depth)
        if kind is types.FunctionType:
            return self._of_function(value, depth)
        if kind is types.CodeType:
            return ["code", digest_of(value)]
        if kind is types.BuiltinFunctionType:
            owner = value.__self__
            if owner is None or type(owner) is types.ModuleType:
                return ["builtin", value.__module__, value.__qualname__]
            return ["bound", self.of(owner, depth), value.__name__]
        if issubclass(kind, _MEMBERS):
            return ["member", kind.__name__, self.of(value.__objclass__, depth), value.__name__]
        if kind is types.MethodWrapperType:
            return ["bound", self.of(value.__self__, depth), value.__name__]
        if issubclass(kind, enum.Enum):
            return ["enum", self.of(kind, depth), value._name_, self.of(value._value_, depth)]
        if issubclass(kind, tuple):
            if len(value) > _LONGEST:
                raise NotStorableError(f"a tuple of {len(value)} elements")
            return ["tuple", self.of(kind, depth), [self.of(element, depth) for element in value]]
        if kind in PARTS:
            return [kind.__name__, [self.of(getattr(value, name), depth) for name in PARTS[kind]]]
        if kind is np.ufunc:
            if by_name("numpy", value.__name__) is not value:
                raise NotStorableError(f"the function {value.__name__}, which NumPy does not have")
            return ["ufunc", value.__name__]
        if kind.__module__ == _TRACED and (names := _OF_TRACED.get(kind.__name__)):
            return [kind.__name__, [self.of(getattr(value, name), depth) for name in names]]
        return self._of_instance(value, kind, depth)

    def _of_class(self, kind: Any, depth: int) -> Any:
        meta = type(kind)
        entries = entries_of(kind)
        fields = entries.get("_fields", entries.get("__dataclass_fields__"))
        names: Any = list(fields) if isinstance(fields, tuple | dict) else None
        if issubclass(meta, enum.EnumMeta):  # no guard sees what a loop over it meets
            members = entries_of(kind)["_member_map_"]
            names = [[name, member._name_, self.of(member._value_, depth)] for name, member in members.items()]
        return ["class", kind.__module__, kind.__qualname__, None if meta is type else self.of(meta, depth), names]

    def _of_function(self, function: types.FunctionType, depth: int) -> Any:
        module = sys.modules.get(function.__module__ or "")
        names = function.__globals__
        namespace: Any = self._number(names) if module is None or vars(module) is not names else module.__name__
        kwdefaults = function.__kwdefaults__
        return [
            "function",
            function.__qualname__,
            digest_of(function.__code__),
            namespace,
            len(function.__defaults__ or ()),
            sorted(kwdefaults) if kwdefaults else [],
            [self._number(cell) for cell in function.__closure__ or ()],
            self._inside(function, depth) if is_fixed(function) else None,
        ]

    def _inside(self, function: types.FunctionType, depth: int) -> list[Any]:
        """What a function of a library holds: no guard sees what it reads there."""
        cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
        captured = (*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        return [self.of(value, depth) for value in captured]

    def _of_instance(self, value: Any, kind: Any, depth: int) -> Any:
        self.met.append(value)
        about: list[Any] = []
        if issubclass(kind, np.ndarray):
            about = [encoded(value.dtype, np.dtype), list(value.shape), list(value.strides), value.flags.writeable]
        elif issubclass(kind, deque):
            about = [value.maxlen]
        elif issubclass(kind, frozenset):
            raise NotStorableError("a frozenset of objects")
        for base, payload in _PAYLOADS:
            if issubclass(kind, base):
                about = [encoded(_plain(payload(value)))]
        return ["instance", self.of(kind, depth), about]


def _plain(value: Any) -> Any:
    plain = plain_of(value)
    assert plain is not None
    return plain


def is_fixed(function: types.FunctionType) -> bool:
    """Whether traces do not follow a function that the user made by code of this package or of a library."""
    file = function.__code__.co_filename
    if not file.startswith(_UNFOLLOWED) and "site-packages" not in file:
        return False
    module = function.__module__ or ""
    own = getattr(sys.modules.get(module), "__file__", None) or ""
    is_own = module.startswith("jitgraph.") or own.startswith(_UNFOLLOWED) or "site-packages" in own
    return not (is_own and name_of(function) is not None)


def name_of(value: Any) -> tuple[str, str] | None:
    """The module and the dotted name that lead to an object in any process that has imported that module."""
    module: Any
    name: Any
    if issubclass(type(value), enum.Enum):
        module, name = type(value).__module__, f"{type(value).__qualname__}.{value._name_}"
    elif type(value) is np.ufunc:
        module, name = "numpy", value.__name__
    elif issubclass(type(value), _NAMED):
        module, name = value.__module__ or "builtins", value.__qualname__
    else:
        return None
    if isinstance(module, str) and isinstance(name, str) and by_name(module, name) is value:
        return module, name
    return None


def by_name(module: str, name: str) -> Any:
    """What a module that is imported has under a dotted name, found without code of the user's; None for nothing."""
    obj: Any = sys.modules.get(module)
    for part in name.split("."):
        if issubclass(type(obj), types.ModuleType):
            obj = vars(obj).get(part)
        elif issubclass(type(obj), enum.EnumMeta) and part in obj.__members__:
            obj = obj.__members__[part]
        elif issubclass(type(obj), type):
            obj = entries_of(obj).get(part)
        else:
            obj = (attributes_of(obj) or {}).get(part)
    return obj
