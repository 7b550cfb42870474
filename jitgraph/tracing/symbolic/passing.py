"""Which callables that a trace does not follow may be given a number that varies.

They use a number by its own special methods alone, which answer as the plain number does. All others may look at the
type of an object, or at the memory behind it: they are given the plain number.
"""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import inspect
import itertools
import math
import operator
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any, Final

from jitgraph.tracing.capture.followed import PACKAGE, is_followed, is_users_class
from jitgraph.tracing.capture.kinds import ATTRIBUTE_CHANGERS, GETTERS
from jitgraph.tracing.staged.checks import refuse
from jitgraph.tracing.staged.number import StagedNumber
from jitgraph.tracing.symbolic.number import SymbolicNumber

_DEPTH: Final = 4  # of containers inside containers that are searched
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, collections.deque, slice)
_TAKERS: Final[frozenset[int]] = frozenset(
    map(
        id,
        [
            *(abs, all, any, bin, bool, callable, chr, complex, dict, divmod, enumerate, filter, float, format),
            *(frozenset, getattr, hasattr, hash, hex, int, isinstance, issubclass, iter, len, list, map, max, min),
            *(next, object, oct, pow, print, property, range, repr, reversed, round, set, setattr, slice, sorted, str),
            *(super, tuple, zip),
            *(builtins.classmethod, builtins.staticmethod, builtins.__build_class__),
            *(math.floor, math.ceil, math.trunc, math.prod),
            *(functools.partial, functools.reduce, copy.copy, copy.deepcopy),
            *(collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter),
            *(value for name, value in vars(itertools).items() if isinstance(value, type)),
            *(getattr(operator, name) for name in operator.__all__),
        ],
    )
)
_OWNERS: Final = (list, tuple, dict, set, frozenset, str, bytes, bytearray, range, slice, collections.deque)


def numbers_in(value: Any, depth: int = _DEPTH) -> list[SymbolicNumber]:
    """The numbers that vary in a value: itself, or what builtin containers hold."""
    return [number for number in _instances_in(value, SymbolicNumber, depth) if number.is_live]


def refuse_staged(function: Any, arguments: Any) -> None:
    """ScriptError where a callable that is not followed is given a number that the graph computes, and may look at
    more of it than its methods."""
    if function is type or getattr(function, "__self__", None) is math:  # a script has its own
        return
    staged = _instances_in(arguments, StagedNumber, _DEPTH)
    if staged and not takes_numbers(function, staged):
        refuse(f"{title(function)}()")


def _instances_in(value: Any, kind: type, depth: int) -> list[Any]:
    if type(value) is kind:
        return [value]
    if depth == 0 or not issubclass(type(value), _CONTAINERS):
        return []
    items: Iterable[Any] = value
    if isinstance(value, dict):
        items = (*dict.keys(value), *dict.values(value))
    elif isinstance(value, slice):
        items = (value.start, value.stop, value.step)
    elif isinstance(value, list):
        items = [*list.__iter__(value)]
    return [number for item in items for number in _instances_in(item, kind, depth - 1)]


def takes_numbers(function: Any, numbers: Sequence[Any]) -> bool:
    """Whether ``function`` gives for the numbers what it gives for plain ones, by asking their methods alone."""
    if function is sum:  # from 3.12 on it adds floats with a correction
        return sys.version_info < (3, 12) or all(number.kind is int for number in numbers)
    if id(function) in _TAKERS:
        return True
    if isinstance(function, types.MethodType):
        return takes_numbers(function.__func__, numbers)
    if isinstance(function, functools.partial):
        return takes_numbers(function.func, numbers)
    if isinstance(function, types.FunctionType | type):
        return _is_seen(function)
    if (
        isinstance(function, types.MethodWrapperType | types.WrapperDescriptorType)
        and function.__name__ in ATTRIBUTE_CHANGERS
    ):
        return True
    if isinstance(function, types.BuiltinMethodType | types.MethodWrapperType):
        owner = function.__self__
        return isinstance(owner, (*_OWNERS, *GETTERS)) or (isinstance(owner, type) and issubclass(owner, dict))
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
        return issubclass(function.__objclass__, _OWNERS)
    if isinstance(function, GETTERS):
        return True
    call = type(function).__call__
    return isinstance(call, types.FunctionType) and _is_seen(call)


def _is_made_by_user(kind: type) -> bool:
    """Whether an ``__init__`` of the user's, which a trace follows, is all that making an instance runs."""
    init: Any = inspect.getattr_static(kind, "__init__")
    makers: Any = inspect.getattr_static(kind, "__new__"), inspect.getattr_static(type(kind), "__call__")
    own = isinstance(init, types.FunctionType) and is_followed(init.__code__.co_filename)
    return own and makers == (object.__dict__["__new__"], type.__dict__["__call__"])


def _is_seen(function: Any) -> bool:
    """Whether a Python function or a class is the user's, whose code is followed, or of this package."""
    if isinstance(function, type):
        is_known = is_users_class(function) or function.__module__.partition(".")[0] == "jitgraph"
        return is_known or _is_made_by_user(function)
    file = function.__code__.co_filename
    return is_followed(file) or file.startswith((PACKAGE, "<"))


def title(function: Any) -> str:
    """A callable as the user knows it."""
    return str(getattr(function, "__qualname__", None) or getattr(function, "__name__", type(function).__name__))


def says_which(left: Any, right: Any) -> list[SymbolicNumber]:
    """The numbers in ``left is right`` for which the plain objects alone have the answer: both are numbers."""
    pair = [x for x in (left, right) if type(x) is SymbolicNumber and x.is_live]
    return pair if all(type(x) in (SymbolicNumber, int, float) for x in (left, right)) else []
