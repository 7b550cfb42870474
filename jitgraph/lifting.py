"""From what users pass (tensors, arrays, Python scalars) to operands that an op accepts: lift, promote, broadcast."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from jitgraph import dtypes, foreign, ops, weak_ints
from jitgraph.dtypes import DType
from jitgraph.eager import EagerValue
from jitgraph.errors import DTypeError, NumberError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op

if TYPE_CHECKING:
    from jitgraph.tensor import Tensor

Scalar: TypeAlias = "bool | int | float"
TensorLike: TypeAlias = "Tensor | np.ndarray[Any, Any] | np.generic | Scalar"


_SCALARS = frozenset({bool, int, float})


def is_scalar(x: object) -> bool:
    """True for Python's own bool, int and float, whose dtype is weak; NumPy's scalars have a dtype of their own."""
    return type(x) in _SCALARS or (isinstance(x, int | float) and not isinstance(x, np.generic))


def is_varying(x: object) -> bool:
    """Whether ``x`` is a Python number that may be another at each call of the trace being recorded."""
    return hasattr(type(x), "value_in")


def is_named_size(x: object) -> bool:
    """Whether ``x`` is a size that is a name, or an expression over names, in the trace being recorded."""
    return is_varying(x) and x.is_size  # type: ignore[attr-defined]


_HANDLE: list[type[Tensor]] = []


def register_handle(handle: type[Tensor]) -> None:
    """Make ``handle`` the class of tensors; called once, by ``jitgraph.tensor``, which imports this module."""
    _HANDLE[:] = [handle]


def value_of(x: Any, dtype: DType | None = None) -> Any:
    """The op operand that ``x`` means: a tensor's value, a copied array, or a 0-d constant of ``dtype``."""
    if isinstance(x, _HANDLE[0]):
        return x.value
    if is_scalar(x):
        return constant(x, dtype or dtypes.default_of(x))
    if isinstance(x, np.ndarray | np.generic):
        if type(x) is not np.ndarray and isinstance(x, np.ndarray):
            foreign.require_plain(x)
        array = np.asarray(x)
        dtypes.canonical(array.dtype)
        trace = context.current().trace
        if trace is not None:
            return trace.lift(array)
        return EagerValue(own(array))
    if isinstance(x, list | tuple):
        return value_of(_array_of_list(x, dtype))
    if foreign.is_array(x):
        if context.current().trace is not None:
            foreign.refuse(x, "the operand")
        return value_of(foreign.array_of(x, "the operand"))
    raise DTypeError(f"expected a tensor, an array or a number, got {type(x).__name__}")


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


def _array_of_list(numbers: Any, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """Nested lists of numbers as an array; Python's own floats count as float32, as everywhere."""
    kinds = leaf_types(numbers)
    if any(issubclass(kind, _HANDLE[0]) for kind in kinds):
        raise DTypeError("a list of tensors is not a tensor", hint="jg.stack(list)")
    require_plain_in(numbers, kinds)
    if kinds <= {int, bool} and int in kinds:
        return array_of_ints(numbers, dtype)
    array = np.asarray(numbers, dtype=dtype)
    weak = dtype is None and kinds <= _SCALARS and array.dtype == dtypes.float64
    return array.astype(dtypes.float32) if weak else array


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


def own(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array`` itself where nobody can write to it, else a contiguous copy; native byte order.

    That is so over the memory of bytes alone: an array that owns its memory can be made writable again, and views of
    it that were taken before may still be.
    """
    native = array.dtype.newbyteorder("=")
    if isinstance(array.base, bytes) and not array.flags.writeable and array.dtype == native and array.flags.aligned:
        return array
    return np.array(array, dtype=native, order="C", copy=True)


def constant(scalar: Scalar, dtype: DType, shape: Sequence[DimLike] = ()) -> Any:
    """``scalar`` in ``dtype`` filled to ``shape``; NumberError for an int that ``dtype`` does not hold."""
    if type(scalar) not in _SCALARS and is_varying(scalar):  # a number that varies from call to call
        varying = scalar.value_in(dtype)  # type: ignore[union-attr]
        if varying is not None:
            return broadcast_to(varying, tuple(shape))
    require_representable(scalar, dtype)
    if dtypes.is_integer(dtype):
        return ops.full(shape=tuple(shape), value=int(scalar), dtype=dtype)
    if dtypes.is_bool(dtype):
        return ops.full(shape=tuple(shape), value=bool(scalar), dtype=dtype)
    return ops.full(shape=tuple(shape), value=float(scalar), dtype=dtype)


def require_representable(scalar: Any, dtype: DType) -> None:
    """DTypeError for a float where ``dtype`` is an integer, NumberError for an int that it does not hold.

    A float dtype holds an int that it does not round. 16-bit floats round every number that is written, so there only
    an int that would become infinity is refused; so do counts of elements round, since they are no constants.
    """
    if dtypes.is_integer(dtype):
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


def python_int(number: Any) -> Any:
    """A count or a number of places as sizes and attributes take it: NumPy's integers become Python's."""
    return int(number) if isinstance(number, np.integer) else number


class Count(int):
    """A number of elements: an int that floats may round."""


def is_weak(x: Any) -> bool:
    """True for Python scalars and for the handles that stand for Python numbers inside a trace."""
    return is_scalar(x) or getattr(x, "_weak", False)


def settled(x: Any) -> Any:
    """``x``; for a Python number inside a trace, the tensor that it makes elsewhere: float32 where it is a float.

    For functions that make tensors of numbers. Arithmetic on numbers alone stays in float64, as Python's own does.
    """
    if isinstance(x, _HANDLE[0]) and x._weak:
        return wrap(cast(x.value, dtypes.default_of(_scalar_like(x.dtype))))
    return x


def common_dtype(*operands: Any) -> DType:
    """The dtype to which the operands promote; weak ones only lift the kind."""
    strong = [dtype_of(x) for x in operands if not is_weak(x)]
    weak = [x for x in operands if is_weak(x)]
    if not strong:
        found = dtypes.promote(*(dtype_of(x) for x in weak))
        return dtypes.float64 if dtypes.is_float(found) and not all(map(is_scalar, weak)) else found
    result = dtypes.promote(*strong)
    for x in weak:
        result = dtypes.promote_scalar(result, x if is_scalar(x) else _scalar_like(x.dtype))
    return result


def _scalar_like(dtype: DType) -> Scalar:
    """A Python number of the kind for which a weak handle of ``dtype`` stands."""
    return 0.0 if dtypes.is_float(dtype) else False if dtypes.is_bool(dtype) else 0


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor or array, or the default one of a Python scalar."""
    if is_scalar(x):
        return dtypes.default_of(x)
    if isinstance(x, list | tuple):
        return dtypes.canonical(_array_of_list(x).dtype)
    if not isinstance(x, _HANDLE[0] | np.ndarray | np.generic) and foreign.is_array(x):
        x = foreign.array_of(x, "the operand")
    return dtypes.canonical(x.dtype)


def operands(*xs: TensorLike, dtype: DType | None = None) -> list[Any]:
    """Values of one dtype (the promoted one, unless given) and one shape (the broadcast one)."""
    values = [None if is_scalar(x) else value_of(x) for x in xs]
    if dtype is None and _alike(values):
        return values
    target = dtype or _promoted(xs, values)
    if any(map(_stands_for_int, xs)) and not all(map(is_weak, xs)):
        for x, value in zip(xs, values, strict=True):
            if _stands_for_int(x):
                weak_ints.require_held(value, target)
    shapes = [value.shape for value in values if value is not None]
    shape = shapes[0] if shapes else ()
    for other in shapes:
        if other != shape:
            shape = broadcast_shapes(*shapes)
            break
    return [
        _repeated(x, target, shape) if value is None else broadcast_to(cast(value, target), shape)
        for x, value in zip(xs, values, strict=True)
    ]


def _stands_for_int(x: Any) -> bool:
    """Whether x is a tensor that stands for a Python int."""
    return isinstance(x, _HANDLE[0]) and x._weak and x.dtype == dtypes.int64


def _alike(values: Sequence[Any]) -> bool:
    """Whether all are there, of one dtype and one shape."""
    first = values[0]
    if first is None:
        return False
    dtype, shape = first.dtype, first.shape
    for value in values:  # noqa: SIM110 - this runs for every operator, and a generator costs more than the rest
        if value is None or value.dtype is not dtype or value.shape != shape:
            return False
    return True


def _promoted(xs: Sequence[Any], values: Sequence[Any]) -> DType:
    """``common_dtype`` where the values (None for Python scalars) are there already."""
    strong: DType | None = None
    weak: list[Any] = []
    for x, value in zip(xs, values, strict=True):
        if value is None:
            weak.append(x)
        elif getattr(x, "_weak", False):
            weak.append(_scalar_like(value.dtype))
        elif strong is None:
            strong = value.dtype
        elif value.dtype is not strong:
            strong = dtypes.promote(strong, value.dtype)
    if strong is None:
        return common_dtype(*xs)
    for x in weak:
        strong = dtypes.promote_scalar(strong, x)
    return strong


def _repeated(scalar: Any, dtype: DType, shape: tuple[DimLike, ...]) -> Any:
    """A Python scalar as an operand of this shape; eagerly a view of one element, the same one each time."""
    if context.current().emitter is not None:
        return constant(scalar, dtype, shape)
    return EagerValue(_repeated_array(scalar, type(scalar).__name__, dtype, shape, _sign(scalar)))


def _sign(scalar: Scalar) -> float:
    return math.copysign(1.0, scalar) if isinstance(scalar, float) else 0.0


@functools.lru_cache(maxsize=512)
def _repeated_array(scalar: Any, kind: str, dtype: DType, shape: tuple[int, ...], sign: float) -> np.ndarray[Any, Any]:
    # kind and sign keep apart what compares equal: 1, 1.0 and True, and the two zeros
    element: np.ndarray[Any, Any] = constant(scalar, dtype).array
    return np.broadcast_to(element, shape) if shape else element


def cast(value: Any, dtype: DType) -> Any:
    """``value`` in ``dtype``; itself where it is already."""
    return value if value.dtype == dtype else ops.cast(value, dtype=dtype)


_MOST: Final = 2**63 - 1


def positions(value: Any) -> Any:
    """Integers as int64, to index with; unsigned ones beyond it become its greatest, which no axis has."""
    if value.dtype == dtypes.uint64:
        value = ops.minimum(value, ops.full(shape=value.shape, value=_MOST, dtype=dtypes.uint64))
    return cast(value, dtypes.int64)


def broadcast_shapes(*shapes: tuple[DimLike, ...]) -> tuple[DimLike, ...]:
    """The NumPy broadcast of shapes; a named size never broadcasts. ShapeError names the axis that does not fit."""
    known = context.constraints()
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[DimLike] = []
    for axis, sizes in enumerate(zip(*padded, strict=True)):
        wide = [size for size in sizes if not (isinstance(size, int) and size == 1)]
        for size in wide[1:]:
            if not known.same(wide[0], size):
                shown = " and ".join(str(tuple(shape)) for shape in shapes)
                raise ShapeError(
                    f"shapes {shown} do not broadcast: sizes {wide[0]} and {size} meet on axis {axis - rank}",
                    hint="axes align from the right; sizes must be equal or 1 (x[:, None] adds an axis)",
                )
        result.append(next((size for size in wide if isinstance(size, int)), wide[0] if wide else 1))
    return tuple(result)


def broadcast_to(value: Any, shape: tuple[DimLike, ...]) -> Any:
    """``value`` broadcast to ``shape``, new axes to the left; itself where it has that shape."""
    if value.shape == shape:
        return value
    offset = len(shape) - len(value.shape)
    return ops.broadcast(value, shape=shape, axes=tuple(range(offset, len(shape))))


def elementwise(op: Op, *xs: TensorLike, floating: bool = False) -> Tensor:
    """Apply an elementwise op to promoted, broadcast operands; ``floating`` lifts integers and bools to float32.

    Of operands that all stand for Python numbers the result does, too: it is then double, as Python's own would be.
    """
    target = None
    weak = context.current().trace is not None and all(map(is_weak, xs)) and any(isinstance(x, _HANDLE[0]) for x in xs)
    if floating and not dtypes.is_float(common_dtype(*xs)):
        target = dtypes.float64 if weak else dtypes.float32
    values = operands(*xs, dtype=target)
    result = wrap(op(*values))
    if weak:
        result._weak = True
        weak_ints.require_no_overflow(op, xs, values, result.value)
    return result


def wrap(value: Any) -> Tensor:
    """A new handle on ``value``."""
    return _HANDLE[0]._of(value)
