"""solve, inv and pinv, determinants, triangular systems and factors by elimination with row exchanges."""

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
    BY_FACTORS,
    FLOATS,
    above,
    adjoint,
    as_like,
    below,
    columns_of,
    conj,
    imaginary_part,
    lesser,
    lower,
    matrix_op,
    product,
    repeated,
    require_matrices,
    require_square,
    rows_of,
    rows_times,
    sums,
    times,
    turned,
    upper_of,
    with_ones,
)
from jitgraph.ops.numeric import Array, joined
from jitgraph.ops.windows import concat
from jitgraph.runtime import imports

# ----------------------------------------------------------------------
# solve, inv and pinv: systems of linear equations.
#
# The gradients are those of M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
# differentiation (2008), section 2.2, and for pinv of G. Golub and V. Pereyra, The differentiation of pseudo-inverses
# (1973), which holds where the rank does not change.

_SINGULAR: Final = "a matrix is singular"
_WAY_OUT: Final = "jg.linalg.lstsq or jg.linalg.pinv take singular matrices; or add a small multiple of jg.eye(n)"


def square_samples(array: Callable[..., Array]) -> Sequence[Sample]:
    """Far from singular: the diagonals outweigh the rest."""
    return [Sample((_dominant(array(*shape)),)) for shape in ((3, 3), (2, 2, 2), (0, 0), (0, 2, 2))]


def _dominant(x: Array) -> Array:
    return np.asarray(x + 2 * np.eye(x.shape[-1], dtype=x.dtype))


def _solve_type(a: Type, b: Type) -> TensorType:
    _, right = require_matrices("solve", a, b)
    left = require_square("solve", a)
    what = f"solve({left}, {right})"
    if left.ndim != right.ndim:
        rules.same_shape("solve", (left, right))
    known = context.constraints()
    batch = rules.same_dims(f"{what}: batches", left.shape[:-2], right.shape[:-2])
    rows = require_same(known, left.shape[-1], right.shape[-2], f"{what}: the rows of both")
    return TensorType(left.dtype, (*batch, rows, right.shape[-1]))


def _solve_vjp(ct: Any, out: Any, a: Any, b: Any) -> tuple[Any, Any]:
    right = solve(adjoint(a), ct)
    return neg(product(right, adjoint(out))), right


solve: Op = matrix_op(
    "solve",
    _solve_type,
    np.linalg.solve,
    count=2,
    generated=small_matrices.solve,
    is_generated=small_matrices.is_small,
    alone="solve",
    vjp=_solve_vjp,
    failure=_SINGULAR,
    hint=_WAY_OUT,
    samples=lambda array: [
        Sample((_dominant(array(*a)), array(*b)))
        for a, b in [((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((0, 0), (0, 2)), ((2, 2), (2, 0))]
    ],
    doc="The x for which a @ x is b, of square matrices a.",
)


def _inv_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    other = adjoint(out)
    return (neg(product(other, ct, other)),)


inv: Op = matrix_op(
    "inv",
    lambda a: require_square("inv", a),
    np.linalg.inv,
    generated=small_matrices.inverse,
    is_generated=small_matrices.is_small,
    alone="inverse",
    vjp=_inv_vjp,
    failure=_SINGULAR,
    hint=_WAY_OUT,
    samples=square_samples,
    doc="The inverses of square matrices.",
)


def _pinv_type(a: Type, rtol: Type) -> TensorType:
    (type,) = require_matrices("pinv", a)
    require_cutoffs("pinv", type, rtol)
    return TensorType(type.dtype, (*type.shape[:-2], type.shape[-1], type.shape[-2]))


def require_cutoffs(name: str, matrices: TensorType, rtol: Type) -> None:
    """ShapeError or DTypeError unless rtol has a number for each matrix, as precise as their parts."""
    numbers = rules.require_tensor(name, rtol)
    rules.require_dtype(name, numbers, FLOATS)
    rules.same_dims(f"{name}: batches of the matrices and of rtol", matrices.shape[:-2], numbers.shape)


def cutoffs(a: Array, rtol: Array) -> Array:
    """rtol, and where that is below 0 the default, which is max(m, n) eps."""
    default = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    return np.where(rtol < 0, rtol.dtype.type(default), rtol)


def pinv_gradient(ct: Any, out: Any, a: Any) -> Any:
    """The cotangent of a for ct of ``out``, its pseudo-inverse."""
    p, q, g = out, adjoint(out), adjoint(ct)
    gq = product(g, p, q)
    qg = product(q, p, g)
    gradient = sub(gq, product(a, p, gq))
    gradient = add(gradient, sub(qg, product(qg, p, a)))
    return sub(gradient, product(q, ct, q))


pinv: Op = matrix_op(
    "pinv",
    _pinv_type,
    lambda a, rtol: np.linalg.pinv(a, rcond=cutoffs(a, rtol)),
    plain=1,
    composed=imports.function(BY_FACTORS, "pinv"),
    complex_samples="none",
    vjp=lambda ct, out, a, rtol: (pinv_gradient(ct, out, a), None),
    samples=lambda array: [
        Sample(
            (
                array(*shape) + 2 * np.eye(*shape[-2:], dtype=array().dtype),
                np.full(shape[:-2], 1e-5, array().real.dtype),
            )
        )
        for shape in ((3, 2), (2, 2, 3), (0, 2))
    ],
    doc="Pseudo-inverses: singular values up to rtol times the greatest are zeros; below 0 it is max(m, n) eps.",
)


# ----------------------------------------------------------------------
# det and slogdet: determinants, and the derivatives of det, which are there for singular matrices too.
#
# A determinant is a polynomial of the elements, so its derivatives are sums of products of minors: the cofactors, and
# what these give. With a = u s v.H they are those of the singular values s, turned back by u and v.


def _cofactors(a: Array) -> Array:
    """By the singular value decomposition: products of all others of the singular values, with the sign."""
    u, s, vh = np.linalg.svd(a)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    others = before * after if s.shape[-1] else s
    return _signed(u, vh, (u.conj() * others[..., None, :]) @ vh.conj())


def _signed(u: Array, vh: Array, x: Array) -> Array:
    """x with the sign, or the phase, of the determinant of u @ vh."""
    sign = _product(np.linalg.det(u), np.linalg.det(vh))[..., None, None]
    sign = sign if np.iscomplexobj(sign) else np.rint(sign)
    return _product(sign, x)


def _product(x: Array, y: Array) -> Array:
    """x * y; of complex numbers by parts, as NumPy's own rounds in vectors otherwise than in what is left of them."""
    if not np.iscomplexobj(x):
        return np.asarray(x * y)
    return joined(np.asarray(x.real * y.real - x.imag * y.imag), np.asarray(x.real * y.imag + x.imag * y.real))


def _cofactors_gradient(ct: Array, a: Array) -> Array:
    """By the singular value decomposition, after which the minors are products of all but two of the values."""
    u, s, vh = np.linalg.svd(a)
    others = _products_of_all_but_two(s)
    turned_ct = np.swapaxes(u, -1, -2).conj() @ ct @ np.swapaxes(vh, -1, -2).conj()
    gradient = -others * np.swapaxes(turned_ct, -1, -2)
    diagonal = np.diagonal(turned_ct, axis1=-2, axis2=-1)
    indices = np.arange(s.shape[-1])
    gradient[..., indices, indices] = (others @ diagonal[..., None])[..., 0]
    return _signed(u, vh, u.conj() @ gradient @ vh.conj())


def _products_of_all_but_two(s: Array) -> Array:
    """For each two of the numbers of a vector the product of all others; 0 on the diagonal."""
    size = s.shape[-1]
    products = np.zeros((*s.shape, size), s.dtype)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], axis=-1), axis=-1) if size else s
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1] if size else s
    for i in range(size - 1):
        between = np.cumprod(np.concatenate([ones, s[..., i + 1 : -1]], axis=-1), axis=-1)
        products[..., i, i + 1 :] = before[..., i : i + 1] * between * after[..., i + 1 :]
    return np.asarray(products + np.swapaxes(products, -1, -2))


def _cofactors_gradient_vjp(ct: Any, out: Any, x: Any, a: Any) -> tuple[Any, Any]:
    """By x the same, as second derivatives are symmetric; by a of det(a) inv(a).T, for invertible matrices."""
    return cofactors_gradient(ct, conj(a)), _third(ct, conj(x), conj(a))


def _third(g: Any, c: Any, a: Any) -> Any:
    """The derivative by a of the sum of g times ``cofactors_gradient(c, a)``."""
    o = turned(inv(a))  # whose derivative along x is -o @ x.T @ o
    left, right = product(o, turned(c), o), product(o, turned(g), o)
    by_g, by_c = sums(times(g, o)), sums(times(c, o))
    scalars = sub(times(by_g, by_c), sums(times(g, left)))
    total = times(o, repeated(o, scalars))
    total = sub(total, add(times(right, repeated(o, by_c)), times(left, repeated(o, by_g))))
    both = add(product(left, turned(g), o), product(right, turned(c), o))
    return times(add(total, both), repeated(o, det(a)))


cofactors_gradient: Op = matrix_op(
    "cofactors_gradient",
    lambda ct, a: _alike(require_square("cofactors_gradient", ct), require_square("cofactors_gradient", a)),
    _cofactors_gradient,
    count=2,
    generated=small_matrices.cofactors_gradient,
    is_generated=small_matrices.is_small,
    composed=imports.function(BY_FACTORS, "cofactors_gradient"),
    vjp=_cofactors_gradient_vjp,
    samples=lambda array: [Sample((array(*x.inputs[0].shape), *x.inputs)) for x in square_samples(array)],
    doc="The gradient by a of the sum of ct times cofactors(a), also of singular matrices.",
)


def _alike(ct: TensorType, a: TensorType) -> TensorType:
    rules.same_shape("cofactors_gradient", (ct, a))
    return a


def _cofactors_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    return (cofactors_gradient(ct, conj(a)),)


cofactors: Op = matrix_op(
    "cofactors",
    lambda a: require_square("cofactors", a),
    _cofactors,
    generated=small_matrices.cofactors,
    is_generated=small_matrices.is_small,
    composed=imports.function(BY_FACTORS, "cofactors"),
    vjp=_cofactors_vjp,
    samples=square_samples,
    doc="The derivative of the determinant by each element, also of singular matrices.",
)


def _number_type(name: str, a: Type) -> TensorType:
    type = require_square(name, a)
    return TensorType(type.dtype, type.shape[:-2])


def _det_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    return (times(repeated(a, ct), conj(cofactors(a))),)


det: Op = matrix_op(
    "det",
    lambda a: _number_type("det", a),
    np.linalg.det,
    generated=small_matrices.determinant,
    is_generated=small_matrices.is_small,
    alone="determinant",
    vjp=_det_vjp,
    samples=square_samples,
    doc="The determinants of square matrices.",
)


def _slogdet_type(a: Type) -> tuple[TensorType, TensorType]:
    type = _number_type("slogdet", a)
    return type, TensorType(dtypes.part_of(type.dtype), type.shape)


def _slogdet_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    """Of real matrices the sign is constant; of complex ones it turns with the imaginary part of the trace."""
    scale = None if ct[1] is None else as_like(ct[1], a)
    if ct[0] is not None and dtypes.is_complex(a.dtype):
        turn = neg(imaginary_part(times(conj(ct[0]), out[0])))
        scale = turn if scale is None else add(scale, turn)
    return (None if scale is None else times(repeated(a, scale), adjoint(inv(a))),)


slogdet: Op = matrix_op(
    "slogdet",
    _slogdet_type,
    lambda a: tuple(np.linalg.slogdet(a)),
    generated=small_matrices.signed_logarithm,
    is_generated=small_matrices.is_small,
    alone="determinant",
    vjp=_slogdet_vjp,
    samples=square_samples,
    doc="The sign of the determinant and the logarithm of its magnitude: 0 and -inf of a singular matrix.",
)


# ----------------------------------------------------------------------
# Triangular systems, and the factors of matrices by elimination with row exchanges.
#
# NumPy has neither, so that both go in blocks of its products: G. Golub and C. Van Loan, Matrix computations (4th ed.,
# 2013), algorithms 3.1.3 and 3.4.1. The gradient of the factors is that of S. Axen, Differentiating the LU
# decomposition (2021), for matrices of every shape.

_BLOCK: Final = 64


def _triangular_type(a: Type, b: Type, *, upper: bool, unit: bool) -> TensorType:
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


def _triangular_vjp(ct: Any, out: Any, a: Any, b: Any, *, upper: bool, unit: bool) -> tuple[Any, Any]:
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
    _triangular_type,
    _substituted,
    count=2,
    generated=small_matrices.solve_triangular,
    is_generated=small_matrices.is_small,
    alone="substitution",
    vjp=_triangular_vjp,
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
