"""Systems of linear equations and determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgraph import dtypes, ops
from jitgraph.errors import ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Tensor
    logabsdet: Tensor


@array_function
def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """The x for which a @ x is b: b is one vector, or matrices. Batches broadcast.

    Gradients by Giles (2008). LinAlgError where a matrix is singular; DTypeError unless float32 or float64.
    """
    dtype = lifting.common_dtype(a, b)
    left, right = (lifting.cast(lifting.value_of(x, dtype), dtype) for x in (a, b))
    if len(left.shape) < 2 or not right.shape:
        raise ShapeError(f"solve takes matrices and a vector or matrices, not {left.type} and {right.type}")
    vector = len(right.shape) == 1
    if vector:
        right = ops.reshape(right, shape=(*right.shape, 1))
    batch = lifting.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = lifting.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = lifting.broadcast_to(right, (*batch, *right.shape[-2:]))
    found = ops.solve(left, right)
    return wrap(ops.reshape(found, shape=found.shape[:-1]) if vector else found)


@array_function
def inv(x: TensorLike) -> Tensor:
    """Inverses of square matrices. LinAlgError where one is singular; DTypeError unless float32 or float64."""
    return wrap(ops.inv(lifting.value_of(x)))


@array_function
def pinv(x: TensorLike, *, rtol: TensorLike | None = None) -> Tensor:
    """Pseudo-inverses; singular values up to ``rtol`` times the greatest count as zeros: by default max(m, n) eps.

    ``rtol`` is a number, or one for each matrix of the batch.

    Gradients by Golub and Pereyra (1973), where the rank does not change.
    """
    return wrap(ops.pinv(*with_cutoffs("pinv", x, rtol)))


def with_cutoffs(name: str, x: TensorLike, rtol: TensorLike | None) -> tuple[Any, Any]:
    """The matrices, and for each the rtol that counts: by default max(m, n) eps of their dtype."""
    value = lifting.value_of(x)
    if isinstance(rtol, int | float) and not rtol >= 0:
        raise ShapeError(f"{name}: rtol is {rtol}, and should be at least 0")
    part = dtypes.part_of(value.dtype) if dtypes.is_complex(value.dtype) else value.dtype
    number = -1.0 if rtol is None else rtol  # which stands for the default
    return value, lifting.broadcast_to(lifting.cast(lifting.value_of(number, part), part), value.shape[:-2])


@array_function
def det(x: TensorLike) -> Tensor:
    """Determinants of square matrices. Gradients are right for singular ones, second order for invertible ones."""
    return wrap(ops.det(lifting.value_of(x)))


@array_function
def slogdet(x: TensorLike) -> SlogdetResult:
    """Signs of determinants and logarithms of their magnitudes: 0 and -inf of a singular matrix, without a gradient."""
    return SlogdetResult(*map(wrap, ops.slogdet(lifting.value_of(x))))
