"""Products of matrices and tensors."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import ShapeError
from jitgraph.ir import context
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.direct_calls import direct_call
from jitgraph.tensor.functions.method import array_function, axis_of, method, ordered_axes_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import items
from jitgraph.tensor.tensor import Tensor, elementwise, wrap


@method
def matmul(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Matrix product over the last axis of x1 and the last but one of x2; leading axes broadcast; 1-d are vectors."""
    return _matmul(x1, x2)  # type: ignore[no-any-return]


def _product(x1: TensorLike, x2: TensorLike) -> Tensor:
    values = lifting.alike(x1, x2)
    if values is None or x1 is None or x2 is None:  # None is no operand, as the dtype's error says
        dtype = lifting.common_dtype(x1, x2)
        values = [lifting.cast(lifting.value_of(x, dtype), dtype) for x in (x1, x2)]
    a, b = values
    left, right = a.shape, b.shape
    if not left or not right:
        raise ShapeError("matmul of a 0-d tensor", hint="use * to scale")
    rows, columns = len(left) > 1, len(right) > 1
    k_a, k_b = left[-1], right[-2 if columns else 0]
    if not context.constraints().same(k_a, k_b):
        raise ShapeError(
            f"matmul of {a.type} with {b.type}: the inner sizes {k_a} and {k_b} differ",
            hint="the last axis of the left and the last but one of the right must agree (x.mT transposes)",
        )
    batch_a, batch_b = left[: -2 if rows else -1], right[: -2 if columns else -1]
    if not batch_b and columns:
        return wrap(_dot(a, b, **_of_matrices(left)))
    batch = lifting.broadcast_shapes(batch_a, batch_b)
    a = lifting.broadcast_to(a, (*batch, *a.type.shape[len(batch_a) :]))
    b = lifting.broadcast_to(b, (*batch, *b.type.shape[len(batch_b) :]))
    shared = tuple(range(len(batch)))
    contract = ((a.type.ndim - 1,), (len(batch),))
    return wrap(_dot(a, b, batch=(shared, shared), contract=contract))


def _dot(a: Any, b: Any, **attrs: Any) -> Any:
    return (ops.complex_dot if dtypes.is_complex(a.dtype) else ops.dot)(a, b, **attrs)


def _of_matrices(left: tuple[Any, ...]) -> dict[str, Any]:
    return {"batch": ((), ()), "contract": ((len(left) - 1,), (0,))}


_matmul = direct_call(_product, 2)


@array_function
def tensordot(x1: TensorLike, x2: TensorLike, axes: int | tuple[Any, Any] = 2) -> Tensor:
    """Sum of products over ``axes``: the last n of x1 with the first n of x2, or two sequences of axes."""
    dtype = lifting.common_dtype(x1, x2)
    a, b = (lifting.cast(lifting.value_of(x, dtype), dtype) for x in (x1, x2))
    pairs = items(axes)
    if pairs is None:
        count = scalars.python_int(axes)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= min(a.type.ndim, b.type.ndim):
            raise ShapeError(f"tensordot over {axes!r} axes of {a.type} and {b.type}")
        left, right = tuple(range(a.type.ndim - count, a.type.ndim)), tuple(range(count))
    elif len(pairs) != 2:
        raise ShapeError(f"tensordot: axes are a number, or two sequences of axes, not {axes!r}")
    else:
        left, right = (
            ordered_axes_of(side, value.type.ndim, "tensordot") for side, value in zip(pairs, (a, b), strict=True)
        )
    return wrap(_dot(a, b, batch=((), ()), contract=(left, right)))


@array_function
def vecdot(x1: TensorLike, x2: TensorLike, axis: int = -1) -> Tensor:
    """Sum of products along one axis, of complex numbers with the conjugates of x1, in the dtype of the products.

    The other axes broadcast. ShapeError where the vectors differ in length, be it that one has length 1.
    """
    dtype = lifting.common_dtype(x1, x2)
    a, b = (lifting.cast(lifting.value_of(x, dtype), dtype) for x in (x1, x2))
    ndim = max(len(a.shape), len(b.shape))
    last = axis_of(axis, ndim, "vecdot") - ndim  # the same axis, counted from the end of either
    both = min(len(a.shape), len(b.shape)) >= -last
    if not both or not context.constraints().same(a.shape[last], b.shape[last]):
        raise ShapeError(
            f"vecdot along axis {axis} of {a.type} with {b.type}: the vectors differ in length",
            hint="vectors do not broadcast, all other axes do",
        )
    products = elementwise(ops.mul, wrap(ops.complex_conj(a) if dtypes.is_complex(dtype) else a), wrap(b))
    return products.sum(axis=last, dtype=None if dtypes.is_inexact(dtype) else dtype)  # type: ignore[no-any-return]


@array_function
def outer(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Products of every element of the vector x1 with every one of x2."""
    with context.using(autocast=None):  # no sums: it is none of the products of PyTorch's lists
        return tensordot(x1, x2, axes=0)
