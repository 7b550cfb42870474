"""Builtins as a script calls them: min, max, any, all, float, int, bool, and those that call functions."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.tensor import Tensor, element_numbers, lifting, wrap
from jitgraph.tracing.script.branches import cannot_fail, choose_value, truth
from jitgraph.tracing.script.variables import Cells, is_staged
from jitgraph.tracing.symbolic import element_math, numbers, staged_floats, staged_math
from jitgraph.tracing.symbolic.staged_integers import LEAVES_INT64, require
from jitgraph.tracing.symbolic.staged_number import (
    StagedNumber,
    float_of,
    int_of,
    is_number,
    of_float,
    of_int,
    stop_gradient,
)

# ----------------------------------------------------------------------
# Which callables call the functions that they are given: these alone get them rewritten.
#
# To all others a function is an object: ``getattr`` asks for its attributes, ``dict.get`` for its hash, ``pickle`` for
# its name, ``list.append`` stores it. They get the user's own, which a rewritten one would not be.

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


# ----------------------------------------------------------------------
# Python's min, max, any and all as a script calls them: what they ask of tensors is staged, element by element.


def least(*values: Any, **options: Any) -> Any:
    """``min``: the first of the least."""
    return _extreme(min, operator.lt, values, options)


def greatest(*values: Any, **options: Any) -> Any:
    """``max``: the first of the greatest."""
    return _extreme(max, operator.gt, values, options)


def _extreme(
    function: Callable[..., Any],
    is_better: Callable[[Any, Any], Any],
    values: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    if len(values) == 1:
        values = (list(values[0]),)
    items = values[0] if len(values) == 1 else values
    if options or not any(map(is_staged, items)):
        return function(*values, **options)
    best = items[0]
    for item in items[1:]:
        best = _chosen(is_better(item, best), item, best, function.__name__)
    return best


def _chosen(test: Any, item: Any, best: Any, name: str) -> Any:
    if not is_staged(test):
        return item if test else best
    return choose_value(test, (lambda: item, lambda: best), Cells({}), f"the value of {name}()")


def some(iterable: Iterable[Any], /) -> Any:
    """``any``: a Python bool, or the 0-d tensor that stands for one."""
    return _fold(iterable, conjunction=False)


def every(iterable: Iterable[Any], /) -> Any:
    """``all``: a Python bool, or the 0-d tensor that stands for one."""
    return _fold(iterable, conjunction=True)


def _fold(iterable: Iterable[Any], *, conjunction: bool) -> Any:
    """Behind an element that is a tensor, an iterator gives all others, too, where Python may stop at that element."""
    folded: Tensor | None = None
    nodes = context.current().trace.builder.nodes
    settled = len(nodes)
    for element in iterable:
        if folded is not None and isinstance(iterable, Iterator) and not all(map(cannot_fail, nodes[settled:])):
            name = "all" if conjunction else "any"
            raise ScriptError(
                f"{name}() of elements of which one prints or may fail, behind one that is a tensor, "
                "cannot be captured",
                hint=f"{name}([...]) of a list, which is computed whole, or a for loop with a break",
            )
        if not is_staged(element):
            if bool(element) is not conjunction:
                return not conjunction
            continue
        test = truth(element)
        if folded is not None:
            op = ops.logical_and if conjunction else ops.logical_or
            test = wrap(op(folded.value, test.value))
        folded, settled = test, len(nodes)
    if folded is None:
        return conjunction
    return StagedNumber(folded.value)


# ----------------------------------------------------------------------
# Builtins that a script calls on tensors and on staged numbers: float, int and bool give what a graph computes.


def _scalar(x: Tensor, name: str) -> Any:
    if x.ndim:
        raise TypeError(f"{name}() takes a 0-d tensor, not one of shape {tuple(x.shape)}")
    if dtypes.is_complex(x.dtype):
        raise TypeError(f"{name}() argument must be a real number, not a complex tensor")
    return stop_gradient(x.value)


def to_float(*args: Any) -> Any:
    """``float``; of a 0-d tensor or a staged number the staged float, without a gradient as Python's."""
    if element_numbers.are_total() and len(args) == 1 and is_staged(args[0]):
        return element_math.to_float(args[0])
    if len(args) == 1 and type(args[0]) is StagedNumber:
        return of_float(args[0].as_float())
    if len(args) == 1 and isinstance(args[0], Tensor):
        return of_float(lifting.cast(_scalar(args[0], "float"), dtypes.float64))
    return float(*args)


def to_int(*args: Any, **kwargs: Any) -> Any:
    """``int``; of a 0-d tensor or a staged number the staged int; ValueError of NaN, OverflowError beyond int64."""
    if element_numbers.are_total() and len(args) == 1 and is_staged(args[0]):
        return element_math.to_int(args[0])
    if len(args) == 1 and not kwargs:
        if type(args[0]) is StagedNumber:
            return args[0].__trunc__()
        if isinstance(args[0], Tensor):
            return _int_of_tensor(_scalar(args[0], "int"))
    return int(*args, **kwargs)


def _int_of_tensor(value: Any) -> StagedNumber:
    if dtypes.is_float(value.dtype):
        return of_int(staged_floats.as_int(ops.trunc(lifting.cast(value, dtypes.float64))))
    if value.dtype == dtypes.uint64:
        limit = lifting.constant(dtypes.LIMITS[dtypes.int64][1], dtypes.uint64)
        require(ops.le(value, limit), "OverflowError", LEAVES_INT64)
    return StagedNumber(lifting.cast(value, dtypes.int64))


def to_bool(*args: Any) -> Any:
    """``bool``; of a tensor of one element or a staged number the staged bool."""
    if element_numbers.are_total() and len(args) == 1 and is_staged(args[0]):
        return element_math.to_bool(args[0])
    if len(args) == 1 and is_staged(args[0]):
        return StagedNumber(stop_gradient(truth(args[0]).value))
    return bool(*args)


def type_of(*args: Any, **kwargs: Any) -> Any:
    """``type``; of a staged number int, float or bool."""
    if len(args) == 1 and type(args[0]) is StagedNumber:
        return args[0].kind
    return type(*args, **kwargs)


def power(base: Any, exp: Any, mod: Any = None) -> Any:
    """``pow``, of which any operand may be staged."""
    if mod is None or not any(type(x) is StagedNumber for x in (base, exp, mod)):
        return pow(base, exp, mod)
    if not all(map(is_number, (base, exp, mod))):
        kinds = ", ".join(repr(type_of(x).__name__) for x in (base, exp, mod))
        raise TypeError(f"unsupported operand type(s) for ** or pow(): {kinds}")
    if any(isinstance(x, float) for x in (base, exp, mod)):
        raise TypeError("pow() 3rd argument not allowed unless all arguments are integers")
    return of_int(staged_math.power_modulo(*map(int_of, (base, exp, mod))))


def total(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """``sum``, which from CPython 3.12 on adds floats with a correction."""
    items = list(iterable)
    if not numbers.COMPENSATES or not any(type(x) is StagedNumber for x in (start, *items)):
        return sum(items, start)
    result, number = start, 0
    while number < len(items) and _is_whole(result) and _is_whole(items[number]):
        result = result + items[number]
        number += 1
    if number < len(items) and is_number(result) and (isinstance(result, float) or isinstance(items[number], float)):
        return _compensated(result, items[number:])
    return sum(items[number:], result)


def _is_whole(x: Any) -> bool:
    return is_number(x) and not isinstance(x, float)


def _compensated(start: Any, items: list[Any]) -> Any:
    """A sum of floats as CPython has it since 3.12: what each addition loses is added at the end."""
    if not isinstance(start, float):  # the first float is added as floats are
        start, items = start + items[0], items[1:]
    result, lost = float_of(start), staged_floats.constant(0.0)
    for number, item in enumerate(items):
        if not is_number(item):
            return sum(items[number:], of_float(_corrected(result, lost)))
        x = float_of(item)
        if isinstance(item, float):
            new = ops.add(result, x)
            larger = ops.ge(ops.abs(result), ops.abs(x))
            high, low = ops.select(larger, result, x), ops.select(larger, x, result)
            lost = ops.add(lost, ops.add(ops.sub(high, new), low))
            result = new
        else:
            result = ops.add(result, x)
    return of_float(_corrected(result, lost))


def _corrected(result: Any, lost: Any) -> Any:
    """A sum with what it lost, unless that is infinite or no number."""
    applies = ops.logical_and(ops.isfinite(lost), ops.ne(lost, staged_floats.constant(0.0)))
    return ops.select(applies, ops.add(result, lost), result)


def in_order(iterable: Iterable[Any], /, *, key: Any = None, reverse: Any = False) -> list[Any]:
    """``sorted``: of staged numbers by exchanging neighbours, each by a choice."""
    items = list(iterable)
    keys = items if key is None else [key(item) for item in items]
    if type(reverse) is StagedNumber:
        reverse.__bool__()  # raises
    if not any(map(is_staged, keys)):
        return sorted(items, key=key, reverse=reverse)
    before = operator.gt if reverse else operator.lt
    pairs = [[k, item] for k, item in zip(keys, items, strict=True)]
    for end in range(1, len(pairs)):
        for index in range(end, 0, -1):
            left, right = pairs[index - 1], pairs[index]
            pairs[index - 1], pairs[index] = _exchanged(before, left, right)
    return [item for _, item in pairs]


def _exchanged(before: Callable[[Any, Any], Any], left: list[Any], right: list[Any]) -> Any:
    """Both in order; equal ones stay as they are."""
    test = before(right[0], left[0])
    if not is_staged(test):
        return (right, left) if test else (left, right)
    sides = (lambda: (right, left)), (lambda: (left, right))
    return choose_value(test, sides, Cells({}), "an element of sorted()")


def has_attribute(value: Any, name: str, /) -> bool:
    """``hasattr``; a staged number has the attributes of numbers of its kind."""
    return hasattr(value.kind() if type(value) is StagedNumber else value, name)


def attribute(value: Any, name: str, /, *default: Any) -> Any:
    """``getattr``; a staged number has the attributes of numbers of its kind."""
    if type(value) is StagedNumber and not hasattr(value.kind(), name):
        return getattr(value.kind(), name, *default)
    return getattr(value, name, *default)
