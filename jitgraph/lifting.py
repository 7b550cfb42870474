"""From what users pass (tensors, arrays, Python scalars) to operands that an op accepts: lift, promote, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.eager import EagerValue
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op

if TYPE_CHECKING:
    from jitgraph.tensor import Tensor

Scalar: TypeAlias = "bool | int | float"
TensorLike: TypeAlias = "Tensor | np.ndarray[Any, Any] | np.generic | Scalar"


def is_scalar(x: object) -> bool:
    """True for Python's own bool, int and float, whose dtype is weak."""
    return type(x) in (bool, int, float)


def value_of(x: Any, dtype: DType | None = None) -> Any:
    """The op operand that ``x`` means: a tensor's value, a copied array, or a 0-d constant of ``dtype``."""
    from jitgraph.tensor import Tensor

    if isinstance(x, Tensor):
        return x.value
    if is_scalar(x):
        return constant(x, dtype or dtypes.default_of(x))
    if isinstance(x, np.ndarray | np.generic):
        array = np.asarray(x)
        dtypes.canonical(array.dtype)
        trace = context.current().trace
        if trace is not None:
            return trace.lift(array)
        return EagerValue(own(array))
    if isinstance(x, list | tuple):
        return value_of(np.asarray(x, dtype=dtype))
    raise DTypeError(f"expected a tensor, an array or a number, got {type(x).__name__}")


def own(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array`` itself where nobody can write to it, else a contiguous copy; native byte order."""
    native = array.dtype.newbyteorder("=")
    frozen = not array.flags.writeable and (array.base is None or isinstance(array.base, bytes))
    if frozen and array.dtype == native and array.flags.aligned:
        return array
    return np.array(array, dtype=native, order="C", copy=True)


def constant(scalar: Scalar, dtype: DType, shape: Sequence[DimLike] = ()) -> Any:
    """``scalar`` in ``dtype`` filled to ``shape``; OverflowError where an integer dtype cannot hold it."""
    if dtypes.is_integer(dtype):
        if isinstance(scalar, float):
            raise DTypeError(f"{scalar!r} does not fit {dtype.name}", hint="cast the tensor with .astype(jg.float32)")
        limits = np.iinfo(dtype)
        if not limits.min <= scalar <= limits.max:
            raise OverflowError(f"{scalar} does not fit {dtype.name} ({limits.min} to {limits.max})")
        return ops.full(shape=tuple(shape), value=int(scalar), dtype=dtype)
    if dtypes.is_bool(dtype):
        return ops.full(shape=tuple(shape), value=bool(scalar), dtype=dtype)
    return ops.full(shape=tuple(shape), value=float(scalar), dtype=dtype)


def is_weak(x: Any) -> bool:
    """True for Python scalars and for the handles that stand for Python floats inside a trace."""
    return is_scalar(x) or getattr(x, "_weak", False)


def common_dtype(*operands: Any) -> DType:
    """The dtype to which the operands promote; weak ones only lift the kind."""
    strong = [dtype_of(x) for x in operands if not is_weak(x)]
    weak = [x for x in operands if is_weak(x)]
    if not strong:
        return dtypes.promote(*(dtype_of(x) for x in weak))
    result = dtypes.promote(*strong)
    for x in weak:
        result = dtypes.promote_scalar(result, x if is_scalar(x) else 0.0)
    return result


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor or array, or the default one of a Python scalar."""
    if is_scalar(x):
        return dtypes.default_of(x)
    if isinstance(x, list | tuple):
        return dtypes.canonical(np.asarray(x).dtype)
    return dtypes.canonical(x.dtype)


def operands(*xs: TensorLike, dtype: DType | None = None) -> list[Any]:
    """Values of one dtype (the promoted one, unless given) and one shape (the broadcast one)."""
    target = dtype or common_dtype(*xs)
    values = [cast(value_of(x, target), target) for x in xs]
    if len({value.type for value in values}) == 1:
        return values
    shape = broadcast_shapes(*(value.type.shape for value in values))
    return [broadcast_to(value, shape) for value in values]


def cast(value: Any, dtype: DType) -> Any:
    """``value`` in ``dtype``; itself where it is already."""
    return value if value.type.dtype == dtype else ops.cast(value, dtype=dtype)


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
    if value.type.shape == shape:
        return value
    offset = len(shape) - value.type.ndim
    return ops.broadcast(value, shape=shape, axes=tuple(range(offset, len(shape))))


def elementwise(op: Op, *xs: TensorLike, dtype: DType | None = None, floating: bool = False) -> Tensor:
    """Apply an elementwise op to promoted, broadcast operands; ``floating`` lifts integers and bools to float32."""
    target = dtype or common_dtype(*xs)
    if floating and not dtypes.is_float(target):
        target = dtypes.float32
    result = wrap(op(*operands(*xs, dtype=target)))
    result._weak = dtypes.is_float(result.dtype) and all(is_weak(x) for x in xs) and not all(is_scalar(x) for x in xs)
    return result


def wrap(value: Any) -> Tensor:
    """A new handle on ``value``."""
    from jitgraph.tensor import Tensor

    return Tensor._of(value)
