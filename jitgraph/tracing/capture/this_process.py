"""What a recorded function asked that another process may answer otherwise, though its guards hold there.

Nothing of this makes a recording wrong in its own process: hashes of strings and addresses last as long as that does,
and so does what a library read when it was imported. A trace that rests on it is not kept on disk.
"""

from __future__ import annotations

import types
from typing import Any, Final

import numpy as np

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture.followed import is_followed
from jitgraph.tracing.guards.storage import elements_of, is_container

_SAME_EVERYWHERE: Final = frozenset(
    [
        *("builtins", "_operator", "operator", "math", "cmath", "itertools", "functools", "_functools", "collections"),
        *("_collections", "copy", "dataclasses", "contextlib", "enum", "abc", "_abc", "typing", "types", "numbers"),
        *("fractions", "string", "re", "_sre", "bisect", "_bisect", "heapq", "_heapq", "struct", "_struct", "numpy"),
        *("json", "textwrap", "statistics", "ml_dtypes", "jitgraph", "_collections_abc", "array"),
    ]
)
"""Modules whose functions give the same for the same arguments in every process of the same versions."""

_LOOKS_AT_NO_ADDRESS: Final = frozenset(
    ["copy", "dataclasses", "contextlib", "functools", "_functools", "operator", "_operator", "abc", "_abc", "typing"]
)
"""Those of them that take objects without showing or hashing them."""

_ASKING: Final = frozenset(
    [
        *("open", "input", "exec", "eval", "compile", "__import__", "breakpoint", "id", "hash", "get_cache_token"),
        *("array2string", "array_str", "array_repr", "geterr", "get_printoptions", "getbufsize", "show_config"),
        *("empty", "empty_like", "set_printoptions", "seterr", "get_include", "show_runtime"),
    ]
)
_ORDERED_MEMBERS: Final = (int, float, complex)  # whose hashes are the same in every process
_ORDER_FREE: Final = (len, set, frozenset, bool)
_DEEPEST: Final = 4


def of_call(function: Any, arguments: Any) -> str:
    """Why a call of code that is not followed is for this process alone; nothing where any would give the same."""
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if type(function) is np.ufunc:
        module = "numpy"
    if callable(function) and not isinstance(module, str):
        return "a function of no module"
    top = module.partition(".")[0] if module else "builtins"
    if top not in _SAME_EVERYWHERE:
        return f"what {module}.{name} answers, which may ask anything of its process"
    if name.rpartition(".")[2] in _ASKING:
        return f"what {name} answers"
    if any(function is known for known in _ORDER_FREE):
        return ""
    for value in arguments:
        if reason := of_order(value):
            return reason
        if top not in _LOOKS_AT_NO_ADDRESS and (reason := of_text(value, of_arrays=False)):
            return reason
    return ""


def of_owner(owner: Any, name: str) -> str:
    """Why a method of Python's own, or of a library, is for this process alone."""
    defining = next((base for base in type(owner).__mro__ if name in vars(base)), type(owner))
    module = defining.__module__
    if not isinstance(module, str) or module.partition(".")[0] not in _SAME_EVERYWHERE:
        return f"what {type(owner).__qualname__}.{name} answers, which may ask anything of its process"
    if name in ("__hash__", "__repr__", "__str__", "__format__", "__sizeof__", "__reduce__", "__reduce_ex__"):
        return f"what {type(owner).__qualname__}.{name} answers"
    return of_order(owner) if name in ("pop", "__iter__", "__repr__") else ""


def of_class(kind: type) -> str:
    """Why what stands in a class of a library is for this process alone."""
    if kind.__module__.partition(".")[0] in _SAME_EVERYWHERE:
        return ""
    return f"what stands in {kind.__module__}.{kind.__qualname__}, which a library has set up"


def of_order(value: Any, depth: int = _DEEPEST) -> str:
    """Why the order of what a value holds is for this process alone: sets go by hashes, and those of texts differ."""
    if isinstance(value, set | frozenset):
        if all(type(member) in (*_ORDERED_MEMBERS, bool) for member in value):
            return ""
        return "the order of a set whose members hash otherwise in each process"
    if depth and is_container(value) and len(elements := elements_of(value)) <= 4096:
        for element in list(elements):
            if reason := of_order(element, depth - 1):
                return reason
    return ""


def of_text(value: Any, *, of_arrays: bool = True, depth: int = _DEEPEST) -> str:
    """Why the text of a value is for this process alone: that of an object may tell its address."""
    kind = type(value)
    if kind.__module__ == "builtins" and not isinstance(value, type) and kind in _PLAIN:
        return ""
    if isinstance(value, Tensor | np.dtype | np.generic) or kind.__module__ in _NUMBERS:
        return ""
    if isinstance(value, np.ndarray):
        return "the text of an array, which is as NumPy is set to print" if of_arrays else ""
    if reason := of_order(value):
        return reason
    if kind in (list, tuple, dict, set, frozenset) and depth:
        parts = [*value, *value.values()] if kind is dict else list(value)
        return next(filter(None, (of_text(part, of_arrays=of_arrays, depth=depth - 1) for part in parts)), "")
    if not of_arrays:
        code = getattr(value, "__code__", None)
        if isinstance(code, types.CodeType) and is_followed(code.co_filename):
            return ""
        if isinstance(value, type | types.ModuleType) or kind is np.ufunc:
            return ""
        if isinstance(value, types.BuiltinFunctionType):
            return f"what {value.__name__} answers" if value.__name__ in _ASKING else ""
        if kind.__module__ == "builtins" or kind in (types.FunctionType, types.MethodType):
            return ""
    return f"the text, hash or order of a {kind.__qualname__}, which may go by its address"


_NUMBERS: Final = ("jitgraph.tracing.symbolic.number", "jitgraph.tracing.symbolic.staged_number")
_PLAIN: Final = frozenset({int, float, complex, bool, str, bytes, type(None), type(...), range, slice, bytearray})
