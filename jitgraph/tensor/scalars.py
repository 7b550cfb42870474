"""Python's numbers, alone and in nested lists: which of them are numbers, and which dtypes hold them."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph import dtypes, foreign, ops
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, NumberError

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


class Count(int):
    """A number of elements: an int that floats may round."""


def python_int(number: Any) -> Any:
    """A count or a number of places as sizes and attributes take it: NumPy's integers become Python's."""
    return int(number) if isinstance(number, np.integer) else number


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
        target = dtype or (dtypes.uint64 if unsigned else dtypes.int64)
        if dtypes.is_float(target) and target.itemsize > 2 and array.dtype != object:
            exact = array.astype(target).astype(np.longdouble) == array.astype(np.longdouble)
            ends = [int(number) for number in array[~exact][:1]]
        for number in ends if array.dtype != object else array.flat:
            require_representable(int(number), target)
        dtype = target
    if array.dtype == object:
        array = array.astype(dtypes.float64 if dtype is not None and dtypes.is_float(dtype) else dtype)
    return array if dtype is None or array.dtype == dtype else np.asarray(ops.cast.evaluate(array, dtype=dtype))  # type: ignore[misc]


def require_representable(scalar: Any, dtype: DType) -> None:
    """DTypeError for a float where ``dtype`` is an integer, NumberError for an int that it does not hold.

    A float dtype holds an int that it does not round. 16-bit floats round every number that is written, so there only
    an int that would become infinity is refused; so do counts of elements round, since they are no constants.
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
            message = f"{scalar} does not fit {dtype.name} ({least} to {greatest})"
            raise NumberError(message, hint=_roomier(scalar, dtype))
    elif dtypes.is_float(dtype) and isinstance(scalar, int) and not -_ALWAYS_EXACT <= scalar <= _ALWAYS_EXACT:
        _require_exact(scalar, dtype)


_ALWAYS_EXACT: Final = 256  # up to here every float dtype, bfloat16 too, holds every integer


def _require_exact(number: int, dtype: DType) -> None:
    try:
        with np.errstate(over="ignore"):
            held = float(dtype.type(float(number)))
    except OverflowError:
        held = math.inf
    if math.isinf(held):
        message = f"{number} does not fit {dtype.name}, where it is infinite"
        raise NumberError(message, hint=_roomier(number, dtype))
    if held != number and dtype.itemsize > 2 and not isinstance(number, Count):
        hint = f"write {held:.1f} for the rounded number" + ("" if dtype.itemsize > 4 else ", or cast to float64")
        raise NumberError(f"{dtype.name} cannot hold {number}: it would be rounded to {int(held)}", hint=hint)


_ROOM: Final = {
    **{dtype: dtypes.LIMITS[dtype] for dtype in (dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint64)},
    **{dtype: (-int(np.finfo(dtype).max), int(np.finfo(dtype).max)) for dtype in (dtypes.float32, dtypes.float64)},
}


def _roomier(number: int, dtype: DType) -> str:
    """Advice: the smallest dtype of this kind that holds ``number``, where there is one beside all of ``dtype``."""
    least, greatest = dtypes.LIMITS.get(dtype, (0, 0))
    for low, high in ((min(least, number), max(greatest, number)), (number, number)):
        for other, (first, last) in _ROOM.items():
            if dtypes.is_integer(other) == dtypes.is_integer(dtype) and first <= low and high <= last:
                name = f"jg.{other.name}"
                return f"{other.name} has room for it: .astype({name}), or dtype={name} where the tensor is made"
    return "write float('inf')" if dtypes.is_float(dtype) else "no integer dtype has room for it; a float rounds it"
