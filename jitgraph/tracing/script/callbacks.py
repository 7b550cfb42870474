"""Which callables call the functions that they are given: these alone get them rewritten.

To all others a function is an object: ``getattr`` asks for its attributes, ``dict.get`` for its hash, ``pickle`` for
its name, ``list.append`` stores it. They get the user's own, which a rewritten one would not be.
"""

from __future__ import annotations

import functools
import itertools
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any, Final

_CALLERS: Final = (sorted, min, max, functools.reduce, iter)
"""Functions of modules in C that call what they are given."""

_LOOKERS: Final = frozenset(
    {"builtins", "_operator", "operator", "math", "_weakref", "sys", "gc", "_pickle", "_abc", "marshal"}
)
"""Modules in C whose other functions call nothing."""

_READERS: Final = frozenset(
    [
        *(
            "inspect",
            "pickle",
            "copy",
            "copyreg",
            "typing",
            "types",
            "dis",
            "weakref",
            "abc",
            "ast",
            "traceback",
            "json",
        ),
        *("logging", "warnings", "pprint", "reprlib", "dataclasses", "enum", "operator", "collections", "linecache"),
    ]
)
"""Modules in Python whose functions look at functions, and call none of the user's."""

_WRAPPERS: Final = (functools.wraps, functools.update_wrapper)
_CONTAINERS: Final = (
    *(list, dict, set, frozenset, tuple, deque, str, bytes, bytearray, range, slice),
    *(defaultdict, OrderedDict, Counter, ChainMap, UserDict, UserList),
)
_CALLING_METHODS: Final = frozenset({"sort"})
_CALLING_TYPES: Final = (map, filter, functools.partial, *(x for x in vars(itertools).values() if isinstance(x, type)))


def may_call_arguments(function: Any) -> bool:
    """Whether a callable that is not the user's may call functions among its arguments; so does every unknown one."""
    if isinstance(function, type):
        return issubclass(function, _CALLING_TYPES)
    if isinstance(function, MethodType):
        return not isinstance(function.__self__, _CONTAINERS) or function.__name__ in _CALLING_METHODS
    if isinstance(function, BuiltinMethodType):
        owner = function.__self__
        if owner is None or isinstance(owner, ModuleType):
            return any(function is caller for caller in _CALLERS) or function.__module__ not in _LOOKERS
        return not isinstance(owner, _CONTAINERS) or function.__name__ in _CALLING_METHODS
    if isinstance(function, FunctionType):
        root = (function.__module__ or "").partition(".")[0]
        return root not in _READERS and not any(function is wrapper for wrapper in _WRAPPERS)
    return True
