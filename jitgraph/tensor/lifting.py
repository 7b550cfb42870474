"""From what users pass (tensors, arrays, Python scalars) to operands that an op accepts: lift, promote, broadcast."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from jitgraph import dtypes, foreign, ops
from jitgraph.dtypes import DType
from jitgraph.eager import placement
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import DTypeError, JitgraphError, NumberError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op
from jitgraph.ir.types import Constant
from jitgraph.runtime import imports
from jitgraph.tensor.scalars import (
    SCALARS,
    Scalar,
    array_of_ints,
    array_of_mixed,
    is_scalar,
    is_varying,
    leaf_types,
    require_plain_in,
    require_representable,
)

if TYPE_CHECKING:
    from jitgraph.eager import versions
else:
    versions = imports.late(__name__, "jitgraph.eager.versions")

TensorLike: TypeAlias = "ValueHandle | np.ndarray[Any, Any] | np.generic | Scalar"


_check_widening: Any = imports.function("jitgraph.tensor.widening", "check")
_OPERANDS: Final = (ValueHandle, np.ndarray, np.generic)


def is_operand(x: object) -> bool:
    """Whether an operator takes x: a tensor, array or number."""
    return isinstance(x, _OPERANDS) or is_scalar(x) or foreign.is_array(x)


def value_of(x: Any, dtype: DType | None = None) -> Any:
    """The op operand that ``x`` means: a tensor's value, a copied array, or a 0-d constant of ``dtype``."""
    if isinstance(x, ValueHandle):
        return x.value
    if is_scalar(x):
        return repeated(x, dtype or dtypes.default_of(x), ())
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
        return nested(x, dtype) if holds_tensors(x) else value_of(_array_of_list(x, dtype))
    if foreign.is_array(x):
        if context.current().trace is not None:
            foreign.refuse(x, "the operand")
        return value_of(foreign.array_of(x, "the operand"))
    raise no_operand(x)


def no_operand(x: Any) -> DTypeError:
    """The error for what is none."""
    hint = "a function or a forward without `return` gives None" if x is None else None
    return DTypeError(f"expected a tensor, an array or a number, got {type(x).__name__}", hint=hint)


def holds_tensors(numbers: Any) -> bool:
    """Whether a tensor stands in nested lists, or a number that a graph takes or computes."""
    if any(issubclass(kind, ValueHandle) for kind in leaf_types(numbers)):
        return True
    return context.current().trace is not None and any(map(is_varying, _leaves(numbers)))


def nested(numbers: Any, dtype: DType | None = None) -> Any:
    """The value of nested lists of tensors, arrays and numbers, of one dtype: differentiable by the tensors.

    JitgraphError where what stands side by side has different shapes.
    """
    if dtype is None:
        leaves = list(_leaves(numbers))
        dtype = common_dtype(*leaves)
        if all(map(is_weak, leaves)) and dtypes.is_float(dtype):
            dtype = dtypes.float32
    return _nested(numbers, dtype)


def _leaves(numbers: Any) -> Iterator[Any]:
    if not isinstance(numbers, list | tuple):
        yield numbers
        return
    for item in numbers:
        yield from _leaves(item)


def _nested(numbers: Any, dtype: DType) -> Any:
    if not isinstance(numbers, list | tuple):
        return cast(value_of(numbers, dtype), dtype)
    rows = together(*(_nested(item, dtype) for item in numbers))
    if not rows:
        return ops.full(shape=(0,), value=False if dtypes.is_bool(dtype) else 0, dtype=dtype)
    shape, known = rows[0].shape, context.constraints()
    if any(len(row.shape) != len(shape) or not all(map(known.same, row.shape, shape)) for row in rows):
        raise JitgraphError("the nested lists are not all of one length\n  hint: jg.concat joins tensors end to end")
    rows = tuple(ops.reshape(row, shape=(1, *shape)) for row in rows)
    return rows[0] if len(rows) == 1 else ops.concat(*rows, axis=0)


def _array_of_list(numbers: Any, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """Nested lists of numbers as an array; Python's own floats count as float32, as everywhere."""
    kinds = leaf_types(numbers)
    require_plain_in(numbers, kinds)
    if kinds <= {int, bool} and int in kinds:
        return array_of_ints(numbers, dtype)
    if kinds <= SCALARS and int in kinds:
        numbers = array_of_mixed(numbers)
    array = np.asarray(numbers, dtype=dtype)
    weak = dtype is None and kinds <= SCALARS
    if weak and array.dtype == dtypes.complex128:
        return array.astype(dtypes.complex64)
    return array.astype(dtypes.float32) if weak and array.dtype == dtypes.float64 else array


def own(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array`` itself where it cannot be written to, else a contiguous copy; native byte order.

    That is so over the memory of bytes alone: an array that owns its memory can be made writable again, and views of
    it that were taken before may still be.
    """
    native = array.dtype.newbyteorder("=")
    if isinstance(array.base, bytes) and not array.flags.writeable and array.dtype == native and array.flags.aligned:
        return array
    return np.array(array, dtype=native, order="C", copy=True)


def constant(scalar: Scalar, dtype: DType, shape: Sequence[DimLike] = ()) -> Any:
    """``scalar`` in ``dtype`` filled to ``shape``; NumberError for an int that ``dtype`` does not hold."""
    if type(scalar) not in SCALARS and is_varying(scalar):  # a number that varies from call to call
        varying = scalar.value_in(dtype)  # type: ignore[union-attr]
        if varying is not None:
            return broadcast_to(varying, tuple(shape))
    require_representable(scalar, dtype)
    if isinstance(scalar, complex):
        return broadcast_to(ops.constant(value=Constant(np.asarray(scalar, dtype))), tuple(shape))
    value = int(scalar) if dtypes.is_integer(dtype) else bool(scalar) if dtypes.is_bool(dtype) else float(scalar)
    if context.current().emitter is EAGER and all(size.__class__ is int for size in shape):
        try:
            return EagerValue(_filled(tuple(shape), value, dtype))  # type: ignore[arg-type]  # sizes are ints
        except (ValueError, MemoryError):  # more than there can be, of which the op says whose line it is
            pass
    return ops.full(shape=tuple(shape), value=value, dtype=dtype)


def index_of(number: Any) -> Any:
    """A Python int that varies from call to call as a tensor (int64) that indexes; itself where it has to be known.

    That is a size with a name, whose range is known, a float, which is no index, and an int beyond int64.
    """
    if number.kind is not int or number.is_size:
        return number
    try:
        varying = number.value_in(dtypes.int64)
    except NumberError:  # out of range of every axis, which the number itself says
        return number
    return number if varying is None else ValueHandle._of(varying)


def _filled(shape: tuple[int, ...], value: float, dtype: DType) -> np.ndarray[Any, Any]:
    """An array of its own of one value; zeros are untouched memory of the system, which costs least."""
    if value == 0 and math.copysign(1.0, value) > 0:
        return np.zeros(shape, dtype)
    array = np.empty(shape, dtype)
    array.fill(_element(value, value.__class__.__name__, dtype))
    return array


@functools.lru_cache(maxsize=512)
def _element(value: float, kind: str, dtype: DType) -> Any:
    """``value`` rounded to ``dtype``; the kind keeps apart what compares equal."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def positions_along(shape: Sequence[DimLike], axis: int, beside: Any) -> Any:
    """The number (int64) of each element along an axis of a shape, on the device of the value ``beside``."""
    with placement.beside(beside):
        return ops.iota(shape=tuple(shape), axis=axis, dtype=dtypes.int64)


def together(*values: Any) -> tuple[Any, ...]:
    """The values, of which numbers of the CPU lie on the device of the others."""
    for value in values:
        if isinstance(value, DeviceValue):
            return tuple(placement.moved(x, value.device) if placement.is_number(x) else x for x in values)
    return values


def is_weak(x: Any) -> bool:
    """True for Python scalars and for the handles that stand for Python numbers inside a trace."""
    return is_scalar(x) or getattr(x, "_weak", False)


def stand_for_numbers(xs: Sequence[Any]) -> bool:
    """Whether in a trace all of these stand for Python numbers, and so does what an elementwise op makes of them."""
    return all(map(is_weak, xs)) and any(isinstance(x, ValueHandle) for x in xs)


def common_dtype(*operands: Any) -> DType:
    """The dtype in which an op computes on the operands: ``result_dtype``, with a warning of widened parameters."""
    result = result_dtype(*operands)
    if result in dtypes.DOUBLE:
        _check_widening(operands, result)
    return result


def result_dtype(*operands: Any) -> DType:
    """The dtype to which the operands promote; weak ones only lift the kind."""
    strong = [dtype_of(x) for x in operands if not is_weak(x)]
    weak = [x for x in operands if is_weak(x)]
    if not strong:
        dtype = dtypes.promote(*(dtype_of(x) for x in weak))
        return dtypes.float64 if dtypes.is_float(dtype) and not all(map(is_scalar, weak)) else dtype
    result = dtypes.promote(*strong)
    for x in weak:
        result = dtypes.promote_scalar(result, x if is_scalar(x) else scalar_like(x.dtype))
    return result


def scalar_like(dtype: DType) -> Scalar:
    """A Python number of the kind for which a weak handle of ``dtype`` stands."""
    return 0j if dtypes.is_complex(dtype) else 0.0 if dtypes.is_float(dtype) else False if dtypes.is_bool(dtype) else 0


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor or array, or the default one of a Python scalar."""
    if is_scalar(x):
        return dtypes.default_of(x)
    if isinstance(x, list | tuple):
        return nested(x).dtype if holds_tensors(x) else dtypes.canonical(_array_of_list(x).dtype)
    if not isinstance(x, _OPERANDS):
        if not foreign.is_array(x):
            raise no_operand(x)
        x = foreign.array_of(x, "the operand")
    return dtypes.canonical(x.dtype)


def beside(*xs: Any) -> list[Any]:
    """The values of operands, each of its own shape; Python's numbers, in lists too, in the common dtype."""
    if not any(is_scalar(x) or isinstance(x, list | tuple) for x in xs):
        return [value_of(x) for x in xs]
    dtype = common_dtype(*xs)
    return [value_of(x, dtype) if is_scalar(x) else value_of(x) for x in _precise(xs, dtype)]


def _precise(xs: Sequence[Any], dtype: DType) -> list[Any]:
    """The operands, of which lists of Python's floats are arrays of ``dtype``: rounded once, not to float32 before."""
    if not dtypes.is_inexact(dtype):
        return list(xs)
    return [_array_of_list(x, dtype) if isinstance(x, list | tuple) and not holds_tensors(x) else x for x in xs]


def operands(*xs: TensorLike, dtype: DType | None = None) -> list[Any]:
    """Values of one dtype (the promoted one, unless given) and one shape (the broadcast one)."""
    if any(isinstance(x, list | tuple) for x in xs):
        xs = tuple(_precise(xs, dtype or common_dtype(*xs)))
    values = [None if is_scalar(x) else value_of(x) for x in xs]
    if dtype is None and _alike(values):
        return values
    target = dtype or _promoted(xs, values)
    shapes = [value.shape for value in values if value is not None]
    shape = shapes[0] if shapes else ()
    for other in shapes:
        if other != shape:
            shape = broadcast_shapes(*shapes)
            values = list(together(*values))
            break
    brought = [
        repeated(x, target, shape) if value is None else broadcast_to(cast(value, target), shape)
        for x, value in zip(xs, values, strict=True)
    ]
    now = context.current()
    if now.grad_enabled and now.emitter is EAGER:
        return [_as_operand(*each, target, shape) for each in zip(xs, values, brought, strict=True)]
    return brought


def _as_operand(x: Any, value: Any, brought: Any, dtype: DType, shape: Any) -> Any:
    """``brought``, a form of the value of a tensor: what is written to the tensor is written to the operand."""
    if brought is value or not isinstance(x, ValueHandle) or not (x._api == "torch" or versions.is_part(value)):
        return brought
    return versions.derived(brought, value, lambda base: broadcast_to(cast(base, dtype), shape), is_form=True)


def alike(*xs: Any) -> list[Any] | None:
    """The values of tensors of one dtype, None for None; None where an operand is anything else."""
    dtype: Any = None
    values: list[Any] = []
    for x in xs:
        if x is None:
            values.append(None)
            continue
        if not isinstance(x, ValueHandle) or x._weak:
            return None
        value = x.value
        if dtype is None:
            dtype = value.dtype
        elif value.dtype is not dtype:
            return None
        values.append(value)
    return values


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
    mixed = False
    for x, value in zip(xs, values, strict=True):
        if value is None:
            weak.append(x)
        elif getattr(x, "_weak", False):
            weak.append(scalar_like(value.dtype))
        elif strong is None:
            strong = value.dtype
        elif value.dtype is not strong:
            strong = dtypes.promote(strong, value.dtype)
            mixed = True
    if strong is None:
        return common_dtype(*xs)
    for x in weak:
        strong = dtypes.promote_scalar(strong, x)
    if mixed and strong in dtypes.DOUBLE:
        _check_widening(xs, strong)
    return strong


def repeated(scalar: Any, dtype: DType, shape: tuple[DimLike, ...]) -> Any:
    """A Python scalar as an operand of this shape, beside tensors of any device; eagerly a view of one element."""
    if isinstance(scalar, complex) or context.current().emitter is not EAGER:
        return constant(scalar, dtype, shape)
    return EagerValue(_repeated_array(scalar, type(scalar).__name__, dtype, shape, _sign(scalar)))


def number_value(scalar: Any, dtype: DType | None) -> EagerValue:
    """A Python number as an operand of rank 0 outside of traces: the same one each time, which is never given out."""
    return _number_value(scalar, type(scalar).__name__, dtype, _sign(scalar))


@functools.lru_cache(maxsize=512)
def _number_value(scalar: Any, kind: str, dtype: DType, sign: float) -> EagerValue:
    return EagerValue(_repeated_array(scalar, kind, dtype, (), sign))


def _sign(scalar: Scalar) -> float:
    return math.copysign(1.0, scalar) if isinstance(scalar, float) else 0.0


@functools.lru_cache(maxsize=512)
def _repeated_array(scalar: Any, kind: str, dtype: DType, shape: tuple[int, ...], sign: float) -> np.ndarray[Any, Any]:
    # kind and sign keep apart what compares equal: 1, 1.0 and True, and the two zeros
    element: np.ndarray[Any, Any] = constant(scalar, dtype).array
    return np.broadcast_to(element, shape) if shape else element


def cast(value: Any, dtype: DType) -> Any:
    """``value`` in ``dtype``; itself where it is already."""
    if dtypes.is_bool(dtype) and dtypes.is_complex(value.dtype):
        return ops.complex_ne(value, ops.zeros_like(value))
    return value if value.dtype == dtype else ops.cast(value, dtype=dtype)


def form_of(op: Op, value: Any) -> Op:
    """The op, or what it is for a value of complex numbers; DTypeError where it is nothing for them."""
    if value.dtype.kind != "c":
        return op
    from jitgraph.ops.complex_forms import of_complex  # here: few programs have complex numbers

    return of_complex(op)


_MOST: Final = 2**63 - 1


def positions(value: Any) -> Any:
    """Integers as int64, to index with; unsigned ones beyond it become its greatest, which no axis has."""
    if value.dtype == dtypes.uint64:
        with placement.beside(value):
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
