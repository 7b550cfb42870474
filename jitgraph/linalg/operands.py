"""From what users pass to matrices that an op takes: one dtype, batches broadcast, and vectors as columns."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.lifting import TensorLike


def matrices_of(name: str, x: TensorLike) -> Any:
    """The value of matrices of any dtype; ShapeError for another rank."""
    value = lifting.value_of(x)
    if len(value.shape) < 2:
        raise ShapeError(f"{name} takes matrices in the last two axes, not {value.type}", hint="x[None] adds an axis")
    return value


def inexact(name: str, x: TensorLike) -> Any:
    """The value of floats or complex numbers; DTypeError for other dtypes."""
    value = lifting.value_of(x)
    if not dtypes.is_inexact(value.dtype):
        raise DTypeError(f"{name} takes a float or complex dtype, not {value.type}", hint="cast it with .astype(...)")
    return value


def system_of(name: str, a: TensorLike, b: TensorLike, *, vectors: bool = True) -> tuple[Any, Any, bool]:
    """Matrices a and b of one dtype whose batches are the same, and whether b was one vector."""
    dtype = lifting.common_dtype(a, b)
    left, right = (lifting.cast(lifting.value_of(x, dtype), dtype) for x in (a, b))
    vector = vectors and len(right.shape) == 1
    if len(left.shape) < 2 or (len(right.shape) < 2 and not vector):
        others = "a vector or matrices" if vectors else "matrices"
        raise ShapeError(
            f"{name} takes matrices and {others}, not {left.type} and {right.type}",
            hint="b[..., None] makes a column of each vector of a batch",
        )
    if vector:
        right = ops.reshape(right, shape=(*right.shape, 1))
    batch = lifting.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = lifting.broadcast_to(left, (*batch, *left.shape[-2:]))
    return left, lifting.broadcast_to(right, (*batch, *right.shape[-2:])), vector


def without_column(x: Any) -> Any:
    """The vectors of which x has one column each."""
    return ops.reshape(x, shape=x.shape[:-1])


def cutoffs_of(name: str, value: Any, rtol: TensorLike | None) -> Any:
    """For each matrix the rtol that counts, -1 for the default."""
    if isinstance(rtol, int | float) and not rtol >= 0:
        raise ShapeError(f"{name}: the relative tolerance is {rtol}, and should be at least 0")
    part = dtypes.part_of(value.dtype)
    number = lifting.value_of(-1.0 if rtol is None else rtol, part)
    return lifting.broadcast_to(lifting.cast(number, part), value.shape[:-2])
