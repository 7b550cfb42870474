"""Builtins that a script calls on tensors and on staged numbers: float, int and bool give what a graph computes."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.tensor import Tensor, lifting
from jitgraph.tracing.script.branches import choose_value, truth
from jitgraph.tracing.script.variables import Cells, is_staged
from jitgraph.tracing.staged import floats, number_theory
from jitgraph.tracing.staged.checks import LEAVES_INT64, require
from jitgraph.tracing.staged.number import (
    StagedNumber,
    float_of,
    int_of,
    is_number,
    of_float,
    of_int,
    stop_gradient,
)

COMPENSATES: Final = sys.version_info >= (3, 12)  # ``sum`` of floats, by Neumaier's method


def _scalar(x: Tensor, name: str) -> Any:
    if x.ndim:
        raise TypeError(f"{name}() takes a 0-d tensor, not one of shape {tuple(x.shape)}")
    if dtypes.is_complex(x.dtype):
        raise TypeError(f"{name}() argument must be a real number, not a complex tensor")
    return stop_gradient(x.value)


def to_float(*args: Any) -> Any:
    """``float``; of a 0-d tensor or a staged number the staged float, without a gradient as Python's."""
    if len(args) == 1 and type(args[0]) is StagedNumber:
        return of_float(args[0].as_float())
    if len(args) == 1 and isinstance(args[0], Tensor):
        return of_float(lifting.cast(_scalar(args[0], "float"), dtypes.float64))
    return float(*args)


def to_int(*args: Any, **kwargs: Any) -> Any:
    """``int``; of a 0-d tensor or a staged number the staged int; ValueError of NaN, OverflowError beyond int64."""
    if len(args) == 1 and not kwargs:
        if type(args[0]) is StagedNumber:
            return args[0].__trunc__()
        if isinstance(args[0], Tensor):
            return _int_of_tensor(_scalar(args[0], "int"))
    return int(*args, **kwargs)


def _int_of_tensor(value: Any) -> StagedNumber:
    if dtypes.is_float(value.dtype):
        return of_int(floats.as_int(ops.trunc(lifting.cast(value, dtypes.float64))))
    if value.dtype == dtypes.uint64:
        limit = lifting.constant(dtypes.LIMITS[dtypes.int64][1], dtypes.uint64)
        require(ops.le(value, limit), "OverflowError", LEAVES_INT64)
    return StagedNumber(lifting.cast(value, dtypes.int64))


def to_bool(*args: Any) -> Any:
    """``bool``; of a tensor of one element or a staged number the staged bool."""
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
    return of_int(number_theory.power_modulo(*map(int_of, (base, exp, mod))))


def total(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """``sum``, which from CPython 3.12 on adds floats with a correction."""
    items = list(iterable)
    if not COMPENSATES or not any(type(x) is StagedNumber for x in (start, *items)):
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
    result, lost = float_of(start), floats.constant(0.0)
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
    applies = ops.logical_and(ops.isfinite(lost), ops.ne(lost, floats.constant(0.0)))
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
    """``hasattr``; a staged number has the attributes of its kind."""
    return hasattr(value.kind if type(value) is StagedNumber else value, name)


def attribute(value: Any, name: str, /, *default: Any) -> Any:
    """``getattr``; a staged number has the attributes of its kind."""
    if type(value) is StagedNumber and not hasattr(value.kind, name):
        return getattr(value.kind(), name, *default)
    return getattr(value, name, *default)
