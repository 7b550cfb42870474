"""Triangular systems, and the factors of matrices by elimination with row exchanges.

NumPy has neither, so that both go in blocks of its products: G. Golub and C. Van Loan, Matrix computations (4th ed.,
2013), algorithms 3.1.3 and 3.4.1. The gradient of the factors is that of S. Axen, Differentiating the LU decomposition
(2021), for matrices of every shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import LinAlgError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules, small_matrices
from jitgraph.ops.arithmetic import add, neg, sub
from jitgraph.ops.creation import zeros_like
from jitgraph.ops.cumulative import add_along
from jitgraph.ops.matrices import (
    above,
    adjoint,
    below,
    columns_of,
    lesser,
    lower,
    matrix_op,
    product,
    require_matrices,
    require_square,
    rows_of,
    rows_times,
    upper_of,
    with_ones,
)
from jitgraph.ops.numeric import Array
from jitgraph.ops.windows import concat

_BLOCK: Final = 64


def _solve_type(a: Type, b: Type, *, upper: bool, unit: bool) -> TensorType:
    _, right = require_matrices("solve_triangular", a, b)
    left = require_square("solve_triangular", a)
    known = context.constraints()
    what = f"solve_triangular({left}, {right})"
    if left.ndim != right.ndim:
        rules.same_shape("solve_triangular", (left, right))
    batch = rules.same_dims(f"{what}: batches", left.shape[:-2], right.shape[:-2])
    rows = require_same(known, left.shape[-1], right.shape[-2], f"{what}: the rows of both")
    return TensorType(left.dtype, (*batch, rows, right.shape[-1]))


def _substituted(a: Array, b: Array, *, upper: bool, unit: bool) -> Array:
    """By back substitution; a lower triangle is an upper one read backwards."""
    a, x = (np.triu(a), b.copy()) if upper else (np.tril(a)[..., ::-1, ::-1], b[..., ::-1, :].copy())
    size = a.shape[-1]
    if unit:
        a[..., np.arange(size), np.arange(size)] = 1
    for stop in range(size, 0, -_BLOCK):
        here, after = np.s_[..., max(stop - _BLOCK, 0) : stop, :], np.s_[..., stop:, :]
        known = a[here][..., stop:] @ x[after]
        x[here] = np.linalg.solve(a[here][..., max(stop - _BLOCK, 0) : stop], x[here] - known)
    return x if upper else x[..., ::-1, :]


def _solve_vjp(ct: Any, out: Any, a: Any, b: Any, *, upper: bool, unit: bool) -> tuple[Any, Any]:
    right = solve_triangular(adjoint(a), ct, upper=not upper, unit=unit)
    gradient = neg(product(right, adjoint(out)))
    part = (above if unit else upper_of) if upper else (below if unit else lower)
    return part(gradient), right


def _triangular_samples(array: Callable[..., Array]) -> Sequence[Sample]:
    cases = []
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((0, 0), (0, 2))]
    for (a, b), upper, unit in zip(
        (*shapes, shapes[0]), (True, False, True, False), (False, False, True, True), strict=True
    ):
        x = array(*a)
        cases.append(Sample((x + 2 * np.eye(a[-1], dtype=x.dtype), array(*b)), {"upper": upper, "unit": unit}))
    return cases


solve_triangular: Op = matrix_op(
    "solve_triangular",
    _solve_type,
    _substituted,
    count=2,
    generated=small_matrices.solve_triangular,
    is_generated=small_matrices.is_small,
    alone="substitution",
    vjp=_solve_vjp,
    failure="a triangular matrix has a zero on its diagonal",
    hint="jg.linalg.lstsq or jg.linalg.pinv take singular matrices",
    samples=_triangular_samples,
    doc="The x for which a @ x is b, of the upper or lower triangle of a; with unit its diagonal counts as ones.",
)


def _lu_type(a: Type) -> tuple[TensorType, TensorType, TensorType]:
    (type,) = require_matrices("lu_factor", a)
    batch, (rows, columns) = type.shape[:-2], type.shape[-2:]
    pivots = TensorType(dtypes.int32, (*batch, lesser(rows, columns)))
    return type, pivots, TensorType(dtypes.int64, (*batch, rows))


def _eliminated(a: Array) -> tuple[Array, Array, Array]:
    rows, columns = a.shape[-2:]
    lu = np.array(a).reshape(math.prod(a.shape[:-2]), rows, columns)
    every = np.arange(len(lu))
    order = np.tile(np.arange(rows), (len(lu), 1))
    pivots = np.empty((len(lu), min(rows, columns)), np.int32)
    for start in range(0, pivots.shape[-1], _BLOCK):
        stop = min(start + _BLOCK, pivots.shape[-1])
        for j in range(start, stop):
            column = lu[:, j:, j]
            size = np.abs(column.real) + np.abs(column.imag) if np.iscomplexobj(lu) else np.abs(column)
            chosen = j + np.argmax(size, axis=1)
            pivots[:, j] = chosen + 1
            for x in lu, order:
                saved = x[every, chosen]
                x[every, chosen] = x[:, j]
                x[:, j] = saved
            pivot = lu[:, j, j]
            lu[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)[:, None]  # all below such a pivot is 0 too
            lu[:, j + 1 :, j + 1 : stop] -= lu[:, j + 1 :, j, None] @ lu[:, j, None, j + 1 : stop]
        block = lu[:, start:stop, start:stop]
        lu[:, start:stop, stop:] = _substituted(block, lu[:, start:stop, stop:], upper=False, unit=True)
        lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ lu[:, start:stop, stop:]
    batch = a.shape[:-2]
    return lu.reshape(a.shape), pivots.reshape(*batch, pivots.shape[-1]), order.reshape(*batch, rows)


def _lu_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    """Of the rows in their new order, which are then put back."""
    if ct[0] is None:
        return (None,)
    lu, _, order = out
    rows, columns = a.shape[-2:]
    size = lesser(rows, columns)
    square = rows_of(columns_of(lu, 0, size), 0, size)
    left, right = with_ones(below(square)), upper_of(square)
    ct_square = rows_of(columns_of(ct[0], 0, size), 0, size)
    by_left, by_right = product(adjoint(left), below(ct_square)), product(upper_of(ct_square), adjoint(right))
    wide, tall = size != columns, size != rows
    if wide:
        ct_more, more = columns_of(ct[0], size, columns), columns_of(lu, size, columns)
        by_left = sub(by_left, product(ct_more, adjoint(more)))
    if tall:
        ct_more, more = rows_of(ct[0], size, rows), rows_of(lu, size, rows)
        by_right = sub(by_right, product(adjoint(more), ct_more))
    inner = add(below(by_left), upper_of(by_right))
    gradient = _with_left(left, adjoint(_with_right(right, adjoint(inner))))
    if wide:
        gradient = concat(gradient, _with_left(left, columns_of(ct[0], size, columns)), axis=len(a.shape) - 1)
    if tall:
        lowest = adjoint(_with_right(right, adjoint(rows_of(ct[0], size, rows))))
        gradient = concat(gradient, lowest, axis=len(a.shape) - 2)
    return (add_along(zeros_like(gradient), rows_times(gradient, order), gradient, len(a.shape) - 2),)


def _with_left(left: Any, x: Any) -> Any:
    """The inverse of the adjoint of a unit lower triangular matrix, times x."""
    return solve_triangular(adjoint(left), x, upper=True, unit=True)


def _with_right(right: Any, x: Any) -> Any:
    """The inverse of an upper triangular matrix, times x."""
    return solve_triangular(right, x, upper=True, unit=False)


lu_factor: Op = matrix_op(
    "lu_factor",
    _lu_type,
    _eliminated,
    alone="elimination",
    vjp=_lu_vjp,
    samples=lambda array: [
        Sample((np.asarray(array(*shape) + 2 * np.eye(*shape[-2:], dtype=array().dtype)[::-1]),))
        for shape in ((3, 3), (2, 4, 2), (3, 2), (0, 0))
    ],
    doc="L below the diagonal and U of a matrix with its rows exchanged; the exchanges, from 1 on; the order of rows.",
)


def _order_type(pivots: Type) -> TensorType:
    type = rules.require_tensor("order_of_pivots", pivots)
    rules.require_dtype("order_of_pivots", type, frozenset({dtypes.int32}))
    if not type.ndim:
        raise ShapeError("order_of_pivots takes vectors of pivots")
    return TensorType(dtypes.int64, type.shape)


def _order(pivots: Array) -> Array:
    size = pivots.shape[-1]
    if pivots.size and not 1 <= pivots.min() <= pivots.max() <= size:
        raise LinAlgError(f"pivots lie between 1 and {size}", hint="those that jg.linalg.lu_factor gives")
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), size).astype(np.int64) - 1
    order = np.tile(np.arange(size), (len(flat), 1))
    every = np.arange(len(flat))
    for j in range(size):
        chosen = flat[:, j]
        saved = order[every, chosen]
        order[every, chosen] = order[:, j]
        order[:, j] = saved
    return order.reshape(pivots.shape)


order_of_pivots: Op = Op(
    name="order_of_pivots",
    kind="other",
    infer=_order_type,
    evaluate=_order,
    batch="alike",
    lowering="host",
    alone="order",
    traits=frozenset({"nondifferentiable"}),
    samples=lambda dtype: (
        [Sample((np.array(x, np.int32),)) for x in ([3, 3, 3], [[1, 2], [2, 2]], [])] if dtype == dtypes.int32 else ()
    ),
    doc="The order into which exchanges of row i with row pivots[i], counted from 1, bring the rows of a matrix.",
)
