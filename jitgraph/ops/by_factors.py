"""Ops on matrices as compositions of others and of factorisations, for code that cannot call Python.

Pseudo-inverses, least squares and the derivatives of determinants follow from singular values (G. Golub and C. Van
Loan, Matrix computations, 4th ed., 2013, section 5.5), the exponential from a linear system and squarings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.dtypes import float64, int64, is_complex, part_of
from jitgraph.ir.builder import build
from jitgraph.ops.arithmetic import abs, add, div, eq, ge, gt, lt, mul, neg, select, sub
from jitgraph.ops.complex_parts import complex_, imag, real
from jitgraph.ops.control import while_
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full, full_like, iota, zeros_like
from jitgraph.ops.decompositions import NEAR, PADE, svd
from jitgraph.ops.linear_systems import det, solve
from jitgraph.ops.matrices import (
    adjoint,
    as_like,
    columns_times,
    conj,
    diagonal_matrix,
    diagonal_of,
    lesser,
    product,
    repeated,
    rows_times,
    scaled,
    times,
    turned,
    with_ones,
)
from jitgraph.ops.movement import broadcast, reduce_sum
from jitgraph.ops.predicates import isfinite
from jitgraph.ops.reduction import reduce_max, reduce_prod
from jitgraph.ops.transcendental import rint


def _inverted(values: Any, a: Any, rtol: Any) -> Any:
    """The inverses of singular values, descending, that exceed rtol times the first, and 0 for the others."""
    last = len(values.shape) - 1
    if isinstance(values.shape[-1], int) and values.shape[-1] == 0:
        return values
    rows, columns = a.shape[-2:]
    longer = columns if lesser(rows, columns) == rows else rows
    eps = full_like(float(np.finfo(values.dtype).eps), rtol)
    default = mul(full(shape=rtol.shape, value=longer, dtype=rtol.dtype), eps)
    chosen = cast(select(lt(rtol, zeros_like(rtol)), default, rtol), dtype=values.dtype)
    limit = mul(chosen, reduce_max(values, axes=(last,)))
    is_large = gt(values, broadcast(limit, shape=values.shape, axes=tuple(range(last))))
    one = full_like(1.0, values)
    return select(is_large, div(one, select(is_large, values, one)), zeros_like(values))


def pinv(a: Any, rtol: Any) -> Any:
    """Pseudo-inverses."""
    u, values, vh = svd(a, full_matrices=False, checked=False)
    v = adjoint(vh)
    return product(scaled(v, columns_times(v, _inverted(values, a, rtol))), adjoint(u))


def lstsq(a: Any, b: Any, rtol: Any) -> tuple[Any, Any]:
    """The shortest solutions of least squares, and the singular values."""
    u, values, vh = svd(a, full_matrices=False, checked=False)
    inner = product(adjoint(u), b)
    return product(adjoint(vh), scaled(inner, rows_times(inner, _inverted(values, a, rtol)))), values


def cofactors(a: Any) -> Any:
    """The derivative of the determinant by each element."""
    u, values, vh = svd(a, full_matrices=False, checked=False)
    count = values.shape[-1]
    shape = (*values.shape, count)
    ndim = len(shape)
    one_of, other = (iota(shape=shape, axis=axis, dtype=int64) for axis in (ndim - 2, ndim - 1))
    tiled = broadcast(values, shape=shape, axes=(*range(ndim - 2), ndim - 1))
    others = reduce_prod(select(eq(one_of, other), full_like(1.0, tiled), tiled), axes=(ndim - 1,))
    outer = conj(u)
    return _signed(u, vh, product(scaled(outer, columns_times(outer, others)), conj(vh)))


def cofactors_gradient(ct: Any, a: Any) -> Any:
    """The gradient by a of the sum of ct times its cofactors: minors are products of all but two singular values."""
    u, values, vh = svd(a, full_matrices=False, checked=False)
    shape = (*values.shape, values.shape[-1], values.shape[-1])
    ndim = len(shape)
    i, j, k = (iota(shape=shape, axis=axis, dtype=int64) for axis in range(ndim - 3, ndim))
    tiled = broadcast(values, shape=shape, axes=(*range(ndim - 3), ndim - 1))
    one = full_like(1.0, tiled)
    pairs = reduce_prod(select(eq(i, k), one, select(eq(j, k), one, tiled)), axes=(ndim - 1,))
    on_diagonal = eq(*(iota(shape=pairs.shape, axis=axis, dtype=int64) for axis in (ndim - 3, ndim - 2)))
    others = select(on_diagonal, zeros_like(pairs), pairs)
    inner = product(adjoint(u), ct, adjoint(vh))
    away = scaled(turned(inner), neg(others))
    weights = _sums_of_rows(diagonal_of(inner))
    along = _sums_of_rows(scaled(columns_times(inner, weights), others))
    gradient = add(sub(away, diagonal_of(away)), diagonal_matrix(along))
    return _signed(u, vh, product(conj(u), gradient, conj(vh)))


def _sums_of_rows(x: Any) -> Any:
    """The sums of rows."""
    return reduce_sum(x, axes=(len(x.shape) - 1,))


def _signed(u: Any, vh: Any, x: Any) -> Any:
    """x with the sign, or the phase, of the determinant of u @ vh."""
    sign = times(det(u), det(vh))
    return times(repeated(x, sign if is_complex(x.dtype) else rint(sign)), x)


def _wide(a: Any) -> Any:
    """In 64 bits, or pairs of them."""
    if is_complex(a.dtype):
        return complex_(cast(real(a), dtype=float64), cast(imag(a), dtype=float64))
    return cast(a, dtype=float64)


def _narrow(x: Any, dtype: Any) -> Any:
    part = part_of(dtype)
    if is_complex(dtype):
        return complex_(cast(real(x), dtype=part), cast(imag(x), dtype=part))
    return cast(x, dtype=part)


def _any(x: Any) -> Any:
    return reduce_max(x, axes=tuple(range(len(x.shape)))) if x.shape else x


def matrix_exp(a: Any) -> Any:
    """The exponentials of square matrices, in float64."""
    x = _wide(a)
    last = len(x.shape) - 1
    sizes = add(abs(real(x)), abs(imag(x))) if is_complex(x.dtype) else abs(x)
    if any(isinstance(extent, int) and extent == 0 for extent in a.shape):
        return a
    norm = reduce_max(reduce_sum(sizes, axes=(last - 1,)), axes=(last - 1,))
    norm = select(isfinite(norm), norm, zeros_like(norm))
    types = [norm.type, x.type, norm.type]

    def is_far(norm: Any, x: Any, count: Any) -> Any:
        return _any(ge(norm, full_like(NEAR, norm)))

    def halve(norm: Any, x: Any, count: Any) -> tuple[Any, Any, Any]:
        far, half, one = ge(norm, full_like(NEAR, norm)), full_like(0.5, norm), full_like(1.0, norm)
        by = select(far, half, one)
        return mul(norm, by), _by(x, by), add(count, select(far, one, zeros_like(one)))

    regions = build(is_far, types, "is_far"), build(halve, types, "halve")
    _, near, count = while_(norm, x, zeros_like(norm), regions=regions, num_carries=3)
    approximant = _approximant(near)

    def is_unfinished(count: Any, x: Any) -> Any:
        return _any(gt(count, zeros_like(count)))

    def square(count: Any, x: Any) -> tuple[Any, Any]:
        more = gt(count, zeros_like(count))
        return sub(count, full_like(1.0, count)), _chosen(more, product(x, x), x)

    types = [count.type, approximant.type]
    regions = build(is_unfinished, types, "is_unfinished"), build(square, types, "square")
    return _narrow(while_(count, approximant, regions=regions, num_carries=2)[1], a.dtype)


def _by(x: Any, factors: Any) -> Any:
    """Each matrix times a real number."""
    return scaled(x, repeated(real(x) if is_complex(x.dtype) else x, factors))


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    """The matrices of x where the condition holds, and those of y elsewhere."""
    if is_complex(x.dtype):
        return complex_(_chosen(condition, real(x), real(y)), _chosen(condition, imag(x), imag(y)))
    return select(repeated(x, condition), x, y)


def _approximant(x: Any) -> Any:
    """The Pade approximant of degree 13 of the exponential."""
    part = real(x) if is_complex(x.dtype) else x
    one = as_like(with_ones(zeros_like(part)), x)

    def combined(*terms: tuple[float, Any]) -> Any:
        total = None
        for factor, y in terms:
            term = scaled(y, full_like(factor, part))
            total = term if total is None else add(total, term)
        return total

    x2 = product(x, x)
    x4 = product(x2, x2)
    x6 = product(x4, x2)
    b = PADE
    odd = add(
        product(x6, combined((b[13], x6), (b[11], x4), (b[9], x2))),
        combined((b[7], x6), (b[5], x4), (b[3], x2), (b[1], one)),
    )
    even = add(
        product(x6, combined((b[12], x6), (b[10], x4), (b[8], x2))),
        combined((b[6], x6), (b[4], x4), (b[2], x2), (b[0], one)),
    )
    odd = product(x, odd)
    return solve(sub(even, odd), add(even, odd))
