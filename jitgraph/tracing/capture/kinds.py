"""What kind of object it is: plain, the user's, a library's; which code a trace follows, and special methods of
operators.
"""

from __future__ import annotations

import enum
import functools
import operator
import os
import sys
import threading
import types
from _ctypes import CFuncPtr
from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, Final

import numpy as np

from jitgraph.own_code import OWN, PACKAGE, STATEFUL, STATELESS
from jitgraph.tracing.guards.storage import class_entry
from jitgraph.tracing.symbolic.number import BINARY, SymbolicNumber

# ----------------------------------------------------------------------
# Which code a trace follows: the user's, and code rewritten from it, but not that of libraries.

_SCRIPT: Final = os.path.join(os.path.realpath(PACKAGE), "tracing", "script")
_STAGING: Final = tuple(  # these do what the user's code would do
    os.path.join(_SCRIPT, name) for name in ("staging.py", "matching.py", "lookups.py", "paths.py")
)
_STANDARD_LIBRARY: Final = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_INSTALLED: Final = ("site-packages", "dist-packages")  # the folders of other libraries, wherever they are
STAGING: Final = "__jg__"
"""The variable of rewritten functions that holds the staging functions."""

CALL_LOOKUPS: Final[list[Callable[[Any], Any]]] = []
"""Functions by which rewritten code finds out what to call, which register themselves."""

_REWRITTEN: Final[dict[CodeType, tuple[CodeType, bool]]] = {}  # code made from a user's, and whether it is all of it


@lru_cache(maxsize=4096)
def is_followed(file: str) -> bool:
    """Whether a trace follows code of this file: it may hold state, and reads more than its arguments."""
    return _may_hold_state(file) and not STATELESS.have(file)


def _may_hold_state(file: str) -> bool:
    """Whether code of this file is the user's, or of a part of jitgraph that holds state of the user's."""
    if file.startswith("<"):
        return not file.startswith(("<frozen", "<jitgraph", "<attrs", "<__array_function__"))
    path = os.path.realpath(file)
    if OWN.have(file):
        return STATEFUL.have(file) or path in _STAGING
    return not path.startswith(_STANDARD_LIBRARY) and not any(name in path for name in _INSTALLED)


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
def is_library_module(name: str) -> bool:
    """Whether the module of this name is none of the user's."""
    module = sys.modules.get(name)
    if module is None:
        return name.startswith("namedtuple_")  # what the standard library writes for a named tuple
    file = getattr(module, "__file__", None)
    if name == "__main__" or (file is None and getattr(module, "__spec__", None) is None):
        return False  # a module that nobody imported was made by the user
    return file is None or not _may_hold_state(file)


def original_of(code: CodeType) -> tuple[CodeType, bool]:
    """The user's code from which ``code`` was made, or itself, and whether it is all of it."""
    return _REWRITTEN.get(code, (code, True))


def is_users_class(kind: type) -> bool:
    """Whether a class is the user's or holds the user's state."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or (file is not None and is_followed(file))


# ----------------------------------------------------------------------
# What kind of object it is: plain, the user's, a library's; and which special methods an operator looks up.

SIMPLE: Final[set[type]] = {
    *(int, float, bool, complex, str, bytes, type(None), type(...), type(NotImplemented), SymbolicNumber)
}
"""Classes whose instances hold nothing that could be another later; a module that defines another one adds it."""

_CONSTANT: Final = (
    *(int, float, complex, str, bytes, range, slice, enum.Enum, np.generic, np.dtype, types.CodeType),
    *(types.GenericAlias, types.UnionType, property, types.BuiltinFunctionType, types.MethodDescriptorType),
    *(types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.FunctionType, types.ModuleType),
    *(types.CellType, types.MethodWrapperType),
)
_CONSTANT_BY_NAME: Final = frozenset(
    [
        *("datetime.date", "datetime.time", "datetime.timedelta", "datetime.tzinfo", "decimal.Decimal", "uuid.UUID"),
        *("fractions.Fraction", "pathlib.PurePath", "re.Pattern", "re.Match"),
        "numpy._ArrayFunctionDispatcher",  # a function of NumPy's, which does the same whatever its attributes say
    ]
)

_SHOWN: Final = (threading.local, np.ufunc, CFuncPtr)  # hold what attributes show, or what never changes

LRU_CACHE: Final = functools._lru_cache_wrapper
GETTERS: Final = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_PLAIN_KEYS: Final = (int, str, bytes, float, complex, type(None), type)
ATTRIBUTE_CHANGERS: Final = frozenset({"__setattr__", "__delattr__"})
"""Special methods that set or remove an attribute and look at nothing in what they are given."""

_WORD: Final = 8  # bytes of a pointer
_HEAP: Final = 1 << 9
_IMMUTABLE: Final = 1 << 8

_ARITHMETIC: Final = {**BINARY, "@": "matmul"}
SPECIAL: Final[dict[str, tuple[str, ...]]] = {
    **{symbol: (f"__{name}__", f"__r{name}__") for symbol, name in _ARITHMETIC.items()},
    **{f"{symbol}=": (f"__i{name}__", f"__{name}__", f"__r{name}__") for symbol, name in _ARITHMETIC.items()},
    "==": ("__eq__",), "!=": ("__ne__", "__eq__"), "<": ("__lt__", "__gt__"), ">": ("__gt__", "__lt__"),
    "<=": ("__le__", "__ge__"), ">=": ("__ge__", "__le__"), "in": ("__contains__", "__iter__", "__getitem__", "__eq__"),
    "bool": ("__bool__", "__len__"), "len": ("__len__",), "hash": ("__hash__", "__eq__"), "is": (),
    "neg": ("__neg__",), "pos": ("__pos__",), "invert": ("__invert__",), "abs": ("__abs__",),
    "number": ("__float__", "__int__", "__index__", "__trunc__", "__round__", "__floor__", "__ceil__", "__complex__"),
    "format": ("__format__", "__str__", "__repr__"), "str": ("__str__", "__repr__"), "repr": ("__repr__",),
    "iter": ("__iter__", "__getitem__", "__len__", "__next__", "__length_hint__"), "next": ("__next__",),
    "getitem": ("__getitem__", "__missing__", "__class_getitem__"), "setitem": ("__setitem__", "__delitem__"),
    "with": ("__enter__", "__exit__"), "async with": ("__aenter__", "__aexit__"), "call": ("__call__",),
    "aiter": ("__aiter__", "__anext__"), "await": ("__await__",), "mapping": ("keys", "__getitem__"), "matched": (),
    "reversed": ("__reversed__", "__len__", "__getitem__"), "dir": ("__dir__",), "bytes": ("__bytes__",),
    "instance": ("__instancecheck__",), "subclass": ("__subclasscheck__",), "path": ("__fspath__",),
}  # fmt: skip
"""The special methods that an operation looks up on the classes of its operands."""

OPERATOR_FUNCTIONS: Final[dict[Any, str]] = {
    len: "len", bool: "bool", hash: "hash", abs: "abs", repr: "repr", str: "str", ascii: "repr", format: "format",
    int: "number", float: "number", complex: "number", round: "number", divmod: "//", pow: "**", bytes: "bytes",
    operator.truth: "bool", operator.not_: "bool", operator.neg: "neg", operator.pos: "pos", operator.abs: "abs",
    operator.invert: "invert", operator.index: "number", operator.contains: "contains", operator.concat: "+",
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
    operator.is_: "is", operator.is_not: "is",
    **{getattr(operator, f"{name.strip('_')}{'_' if name in ('and', 'or') else ''}"): symbol
       for symbol, name in _ARITHMETIC.items()},
    **{getattr(operator, f"i{name}"): f"{symbol}=" for symbol, name in _ARITHMETIC.items()},
}  # fmt: skip
"""Functions that do what an operator does."""


def _remember(question: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lru_cache(maxsize=4096)(question)


def is_a(value: Any, kinds: Any) -> bool:
    """Whether the class of ``value`` is one of ``kinds``, or derives from one; no code of the user's is asked."""
    return issubclass(type(value), kinds)


@_remember
def is_constant(kind: Any) -> bool:
    """Whether instances of a class do not change after they were made, or are guarded in another way."""
    names = {f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__}
    return kind in (array, bytearray) or issubclass(kind, _CONSTANT) or not names.isdisjoint(_CONSTANT_BY_NAME)


@_remember
def may_change(kind: Any) -> bool:
    """Whether a class is the user's, who may change what it holds."""
    flags = kind.__flags__
    if not flags & _HEAP or flags & _IMMUTABLE:
        return False
    module = kind.__module__
    if not isinstance(module, str) or module == "builtins":  # a class made by ``exec`` in a bare namespace
        return True
    if is_library_module(module):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not file.startswith(PACKAGE)


@_remember
def hides_state(kind: Any) -> bool:
    """Whether instances hold what no attribute shows, in a class written in C that this is or derives from."""
    return not issubclass(kind, _SHOWN) and any(map(_adds_state, kind.__mro__[:-1]))


def _adds_state(kind: type) -> bool:
    """Whether instances are larger than those of the base, by more than slots, attributes and weak references take."""
    base: Any = kind.__base__
    has_attributes = kind.__dictoffset__ > 0 == base.__dictoffset__
    has_references = kind.__weakrefoffset__ > 0 == base.__weakrefoffset__
    seen = len(_own_slots(kind)) + has_attributes + has_references
    return bool(kind.__basicsize__ - base.__basicsize__ > _WORD * seen)


@_remember
def is_own_class(kind: Any) -> bool:
    """Whether a class is this package's own, and holds no state of the user's."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return file.startswith(PACKAGE) and not is_followed(file)


def is_iterator(value: Any) -> bool:
    """Whether it is an iterator whose position is not seen: a generator, or one that is not written in Python."""
    return is_a(value, Iterator) and not is_a(type(value).__next__, types.FunctionType)


def slots_of(kind: type) -> list[str]:
    """The names of the slots of a class that is written in Python."""
    return [name for base in kind.__mro__ for name in _own_slots(base)]


def _own_slots(kind: type) -> list[str]:
    """The names of the slots that a class itself has."""
    entries = vars(kind)
    if "__slots__" not in entries:
        return []
    return [name for name, value in entries.items() if type(value) is types.MemberDescriptorType]


def runs_as_followed(function: Any) -> bool:
    """Whether the frames of a callable are followed, so that what it reads is seen there."""
    function = function.__func__ if is_a(function, types.MethodType) else function
    return is_a(function, types.FunctionType) and is_followed(function.__code__.co_filename)


def is_users_own(kind: type, *names: str) -> bool:
    """Whether the first of these methods that a class has is a function whose frames are followed."""
    return runs_as_followed(next(filter(None, (class_entry(kind, name) for name in names)), None))


def plain_key(key: Any) -> Any:
    """A key with the plain number in place of one that varies."""
    return key.plain if type(key) is SymbolicNumber else key


def is_plain_key(key: Any) -> bool:
    """Whether looking up a key runs no code of the user's."""
    if is_a(key, tuple):
        return all(map(is_plain_key, key))
    return (
        type(key) in SIMPLE
        or is_a(key, type | types.FunctionType)
        or (is_a(key, _PLAIN_KEYS) and not may_change(type(key)))
    )
