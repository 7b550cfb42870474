"""Python's numbers, alone and in nested lists: which of them are numbers, and which dtypes hold them.

Arguments that are one int or several (axes, shapes, shifts, repetitions) are listed alike by every kind of sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph import dtypes, foreign, ops
from jitgraph.dtypes import DType
from jitgraph.eager.handle import ValueHandle
from jitgraph.errors import DTypeError, NumberError, ShapeError
from jitgraph.ir import context

Scalar: TypeAlias = "bool | int | float | complex"

SCALARS: Final = frozenset({bool, int, float, complex})


def is_scalar(x: object) -> bool:
    """True for Python's own numbers, whose dtype is weak; NumPy's scalars have a dtype of their own."""
    return type(x) in SCALARS or (isinstance(x, int | float | complex) and not isinstance(x, np.generic))


def is_varying(x: object) -> bool:
    """Whether ``x`` is a Python number that may be another at each call of the trace being recorded."""
    return hasattr(type(x), "value_in")


def is_named_size(x: object) -> bool:
    """Whether ``x`` is a size that is a name, or an expression over names, in the trace being recorded."""
    return is_varying(x) and x.is_size  # type: ignore[attr-defined]


class ComputedNumber:
    """The base of Python numbers that a graph computes, whose class loads with the first of them."""

    __slots__ = ()


def is_computed(x: object) -> bool:
    """Whether ``x`` is a Python number that the graph being recorded computes; no code of a user's class runs."""
    return issubclass(type(x), ComputedNumber)


def is_checked(x: object) -> bool:
    """Whether ``x`` is a Python number that is an operand only in calls where the operand's dtype holds it."""
    return getattr(type(x), "is_checked", False)


def python_int(number: Any) -> Any:
    """A count or a number of positions as sizes and attributes take it: NumPy's integers become Python's.

    ShapeError for floats, whole ones included, as no two functions would agree on how to round the others.
    """
    if isinstance(number, np.integer):
        return int(number)
    if isinstance(number, float | np.floating | complex):
        raise ShapeError(f"an integer is needed, not {number.__class__.__name__}", hint="int(x), or x // y for x / y")
    return number


def items(argument: Any) -> tuple[Any, ...] | None:
    """What an argument lists: a tuple, list, range or other sequence, an array or tensor of one axis or more.

    None of anything else, which stands for one number: an int of any kind, a size with a name, an array without axes.
    TraceError for a tensor whose elements a trace does not know.
    """
    if isinstance(argument, Sequence) and not isinstance(argument, str | bytes):
        return tuple(map(_plain, argument))
    if isinstance(argument, ValueHandle):
        return tuple(argument.tolist()) if argument.ndim else None  # type: ignore[attr-defined]
    if isinstance(argument, np.ndarray):
        return tuple(argument.tolist()) if argument.ndim else None
    if not isinstance(argument, np.generic) and foreign.is_array(argument):
        array = foreign.array_of(argument, "the argument")
        return tuple(array.tolist()) if array.ndim else None
    return None


def _plain(item: Any) -> Any:
    """An int of NumPy's, or one in an array or tensor without axes, as Python's; anything else as it is."""
    if item.__class__ is int:
        return item
    if isinstance(item, np.integer):
        return int(item)
    known = isinstance(item, np.ndarray) or (isinstance(item, ValueHandle) and context.current().trace is None)
    if known and not item.ndim and item.dtype.kind in "iu":
        return int(item.item())
    return item


def listed(argument: Any) -> tuple[Any, ...]:
    """What an argument lists; a number alone is the one thing in a tuple."""
    elements = items(argument)
    return (argument,) if elements is None else elements


def for_each(argument: Any, count: int) -> tuple[Any, ...]:
    """What an argument lists; a number alone ``count`` times."""
    elements = items(argument)
    return (argument,) * count if elements is None else elements


def leaf_types(numbers: Any) -> set[type]:
    """The types of what stands in nested lists."""
    if not isinstance(numbers, list | tuple):
        return {numbers.__class__}  # of a number that varies, what it stands for
    return set().union(*map(leaf_types, numbers))


def require_plain_in(numbers: Any, kinds: set[type]) -> None:
    """As ``foreign.require_plain``, for the arrays that stand in nested lists of these types."""
    if not any(issubclass(kind, np.ndarray) and kind not in foreign.PLAIN for kind in kinds):
        return
    if isinstance(numbers, list | tuple):
        for item in numbers:
            require_plain_in(item, leaf_types(item))
    else:
        foreign.require_plain(numbers, "an array in a list")


def array_of_ints(numbers: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Nested lists of Python ints in ``dtype``, or in int64 or, where that is too small, uint64.

    NumberError for one that the dtype does not hold.
    """
    array = np.asarray(numbers)
    if not dtypes.is_integer(array.dtype):  # NumPy makes objects or floats of what no integer dtype holds
        array = np.asarray(numbers, dtype=object)
    if array.size:
        ends = [int(array.min()), int(array.max())]
        unsigned = ends[0] >= 0 and dtypes.LIMITS[dtypes.int64][1] < ends[1] <= dtypes.LIMITS[dtypes.uint64][1]
        dtype = dtype or (dtypes.uint64 if unsigned else dtypes.int64)
        for number in ends:
            require_representable(number, dtype)
        if dtypes.is_inexact(dtype):
            array = array.astype(dtypes.float64)
    if array.dtype == object:
        array = array.astype(dtype)
    return array if dtype is None or array.dtype == dtype else np.asarray(ops.cast.evaluate(array, dtype=dtype))  # type: ignore[misc]


def array_of_mixed(numbers: Any) -> np.ndarray[Any, Any]:
    """Nested lists of Python ints beside floats or complex numbers: ints of any length count as floats."""
    array = np.asarray(numbers)
    if array.dtype != object:
        return array
    kinds = leaf_types(numbers)
    for number in array.flat:
        require_representable(number, dtypes.complex128)
    return array.astype(dtypes.complex128 if complex in kinds else dtypes.float64)


def require_representable(scalar: Any, dtype: DType) -> None:
    """DTypeError for a float where ``dtype`` is an integer, NumberError for an int that it has no room for.

    A float dtype rounds an int, as Python's ``float()`` and then the dtype do; only an int for which ``float()`` itself
    has no room is refused.
    """
    if isinstance(scalar, complex):
        if not dtypes.is_complex(dtype):
            raise DTypeError(f"{scalar!r} does not fit {dtype.name}", hint="cast with .astype(jg.complex64)")
    elif dtypes.is_complex(dtype):
        require_representable(scalar, dtypes.part_of(dtype))
    elif dtypes.is_integer(dtype):
        if isinstance(scalar, float):
            raise DTypeError(f"{scalar!r} does not fit {dtype.name}", hint="cast the tensor with .astype(jg.float32)")
        least, greatest = dtypes.LIMITS[dtype]
        if not least <= scalar <= greatest:
            message = f"{_shown(scalar)} does not fit {dtype.name} ({least} to {greatest})"
            raise NumberError(message, hint=_roomier(scalar, dtype))
    elif dtypes.is_float(dtype) and isinstance(scalar, int):
        try:
            float(scalar)
        except OverflowError:
            message = f"{_shown(scalar)} is too large for a float, and so for {dtype.name}"
            raise NumberError(message, hint="write float('inf'), or divide the int before it meets a tensor") from None


def _shown(number: int) -> str:
    """The number; its length where that would fill the screen, or be more digits than Python writes."""
    return str(number) if number.bit_length() <= _LONGEST else f"an int of {number.bit_length()} bits"


_LONGEST: Final = 256  # bits of an int that an error shows


_ROOM: Final = {dtype: dtypes.LIMITS[dtype] for dtype in (dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint64)}


def _roomier(number: int, dtype: DType) -> str:
    """Advice: the smallest integer dtype that holds ``number``, where there is one beside all of ``dtype``."""
    least, greatest = dtypes.LIMITS[dtype]
    for low, high in ((min(least, number), max(greatest, number)), (number, number)):
        for other, (first, last) in _ROOM.items():
            if first <= low and high <= last:
                name = f"jg.{other.name}"
                return f"{other.name} has room for it: .astype({name}), or dtype={name} where the tensor is made"
    return "no integer dtype has room for it; a float rounds it"
