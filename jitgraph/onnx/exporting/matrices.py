"""Factors of matrices of any size, written over ops that ONNX has: a loop over columns or rows each.

Compiled code has kernels for these, and Python NumPy's; ONNX has an operator for none of them. Matrices of a batch go
through together. What raises LinAlgError here gives NaN or infinity there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.ir import dims
from jitgraph.ir.builder import build
from jitgraph.ir.types import TensorType
from jitgraph.ops.arithmetic import abs, add, bitwise_and, div, eq, ge, gt, mul, ne, neg, select, sign, sub
from jitgraph.ops.control import scan
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full, full_like, iota, zeros_like
from jitgraph.ops.gathering import dynamic_slice, dynamic_update_slice, gather
from jitgraph.ops.matrices import below, diagonal_of, halved, lesser, product, turned, upper_of, with_ones
from jitgraph.ops.movement import broadcast, flip, reduce_sum, reshape, transpose
from jitgraph.ops.reduction import argmax, reduce_prod
from jitgraph.ops.transcendental import log, sqrt
from jitgraph.ops.windows import slice

_INT64: Final = dtypes.int64


def _flat(x: Any) -> Any:
    """The matrices with one axis for the batch."""
    *batch, rows, columns = x.shape
    return reshape(x, shape=(dims.product(batch), rows, columns))


def _loop(
    name: str, step: Callable[..., Any], carries: Sequence[Any], count: Any, invariants: Sequence[Any] = ()
) -> Any:
    """``step(*carries, number, *invariants)`` for the numbers from 0 to ``count - 1``."""
    number = TensorType(_INT64, ())
    types = [*(value.type for value in carries), number, *(value.type for value in invariants)]
    attrs = {"num_carries": len(carries), "num_xs": 1, "length": count, "reverse": False}
    numbers = iota(shape=(count,), axis=0, dtype=_INT64)
    return scan(*carries, numbers, *invariants, regions=(build(step, types, name),), **attrs)


def _at(x: Any, axis: int, i: Any) -> Any:
    """The slice of extent 1 at i along an axis."""
    zero = full(shape=(), value=0, dtype=_INT64)
    sizes = tuple(1 if number == axis else extent for number, extent in enumerate(x.shape))
    return dynamic_slice(x, *(i if number == axis else zero for number in range(len(x.shape))), sizes=sizes)


def _stretched(x: Any, like: Any) -> Any:
    """``x``, some of whose extents are 1, in the shape of ``like``; a 0-d one, too."""
    return broadcast(x, shape=like.shape, axes=tuple(range(len(x.shape))))


def _rows(x: Any) -> Any:
    return iota(shape=x.shape, axis=1, dtype=_INT64)


def _cholesky(a: Any) -> Any:
    """Column by column: what is left of the matrix, less the product of the column with itself."""
    if a.shape[-1] == 0:
        return a
    x = halved(add(_flat(a), turned(_flat(a))))

    def step(rest: Any, j: Any) -> Any:
        column = _at(rest, 2, j)
        scaled = div(column, _stretched(sqrt(_at(column, 1, j)), column))
        rows = _rows(column)
        scaled = select(ge(rows, _stretched(j, rows)), scaled, zeros_like(scaled))
        return sub(rest, product(scaled, turned(scaled))), reshape(scaled, shape=scaled.shape[:2])

    _, columns = _loop("cholesky", step, [x], x.shape[2])
    return reshape(transpose(columns, permutation=(1, 2, 0)), shape=a.shape)


def _solve_triangular(a: Any, b: Any, *, upper: bool, unit: bool) -> Any:
    """Row by row from the first; an upper triangle is a lower one read backwards."""
    if a.shape[-1] == 0:
        return b
    x, y = _flat(a), _flat(b)
    if upper:
        x, y = flip(x, axes=(1, 2)), flip(y, axes=(1,))
    diagonal = reduce_sum(diagonal_of(x), axes=(2,))
    diagonal = reshape(diagonal, shape=(*diagonal.shape, 1))

    def step(solved: Any, i: Any, strict: Any, diagonal: Any, y: Any) -> Any:
        value = sub(_at(y, 1, i), product(_at(strict, 1, i), solved))
        if not unit:
            value = div(value, _stretched(_at(diagonal, 1, i), value))
        zero = full(shape=(), value=0, dtype=_INT64)
        return dynamic_update_slice(solved, value, zero, i, zero)

    solved = _loop("substitution", step, [zeros_like(y)], x.shape[1], [below(x), diagonal, y])
    return reshape(flip(solved, axes=(1,)) if upper else solved, shape=b.shape)


def _exchanged(order: Any, at: Any, chosen: Any) -> Any:
    """For each row of vectors [B, m] the number of the row that comes there where ``at`` and ``chosen`` change."""
    rows = _rows(order)
    here, there = _stretched(at, rows), broadcast(chosen, shape=rows.shape, axes=(0,))
    return select(eq(rows, here), there, select(eq(rows, there), here, rows))


def _taken(x: Any, source: Any) -> Any:
    """The rows of x[B, m, ...] at ``source`` [B, m]."""
    count, rows = source.shape
    size = count * rows
    batch = iota(shape=source.shape, axis=0, dtype=_INT64)
    flat = reshape(add(source, mul(batch, full_like(x.shape[1], batch))), shape=(size,))
    stacked = reshape(x, shape=(count * x.shape[1], *x.shape[2:]))
    return reshape(gather(stacked, flat, axis=0), shape=(count, rows, *x.shape[2:]))


def _order(order: Any, number: Any, pivots: Any) -> Any:
    chosen = reshape(_at(pivots, 1, number), shape=(pivots.shape[0],))
    return _taken(order, _exchanged(order, number, chosen))


def _order_of_pivots(pivots: Any) -> Any:
    size = pivots.shape[-1]
    if size == 0:
        return cast(pivots, dtype=_INT64)
    flat = reshape(cast(pivots, dtype=_INT64), shape=(dims.product(pivots.shape[:-1]), size))
    counted = sub(flat, full_like(1, flat))
    return reshape(_loop("order", _order, [_rows(counted)], size, [counted]), shape=pivots.shape)


def _lu_factor(a: Any) -> tuple[Any, Any, Any]:
    """Column by column, the row with the greatest element first."""
    x = _flat(a)
    count, rows, columns = x.shape
    size, batch = lesser(rows, columns), a.shape[:-2]
    if size == 0:
        order = iota(shape=(*batch, rows), axis=len(batch), dtype=_INT64)
        return a, full(shape=(*batch, 0), value=0, dtype=dtypes.int32), order

    def step(rest: Any, order: Any, k: Any) -> tuple[Any, Any, Any]:
        column = reshape(_at(rest, 2, k), shape=(count, rows))
        number = _rows(column)
        sizes = select(ge(number, _stretched(k, number)), abs(column), full_like(-1.0, column))
        chosen = argmax(sizes, axis=1)
        source = _exchanged(order, k, chosen)
        rest, order = _taken(rest, source), _taken(order, source)
        column = _at(rest, 2, k)
        pivot = _at(column, 1, k)
        pivot = select(eq(pivot, zeros_like(pivot)), full_like(1.0, pivot), pivot)  # all below it is 0, too
        number = _rows(column)
        under = gt(number, _stretched(k, number))
        factors = select(under, div(column, _stretched(pivot, column)), zeros_like(column))
        top = _at(rest, 1, k)
        columns_at = iota(shape=rest.shape, axis=2, dtype=_INT64)
        at = _stretched(k, columns_at)
        beside = iota(shape=top.shape, axis=2, dtype=_INT64)
        top = select(gt(beside, _stretched(k, beside)), top, zeros_like(top))
        following = sub(rest, product(factors, top))
        below_pivot = bitwise_and(eq(columns_at, at), _stretched(under, rest))
        following = select(below_pivot, _stretched(factors, rest), following)
        return following, order, cast(add(chosen, full_like(1, chosen)), dtype=dtypes.int32)

    order = iota(shape=(count, rows), axis=1, dtype=_INT64)
    factors, order, pivots = _loop("elimination", step, [x, order], size)
    exchanges = transpose(pivots, permutation=(1, 0))
    return (
        reshape(factors, shape=a.shape),
        reshape(exchanges, shape=(*batch, size)),
        reshape(order, shape=(*batch, rows)),
    )


def _solve(a: Any, b: Any) -> Any:
    lu, _, order = _lu_factor(a)
    rows = reshape(order, shape=_flat(a).shape[:2])
    exchanged = reshape(_taken(_flat(b), rows), shape=b.shape)
    left = _solve_triangular(lu, exchanged, upper=False, unit=True)
    return _solve_triangular(lu, left, upper=True, unit=False)


def _inv(a: Any) -> Any:
    return _solve(a, with_ones(zeros_like(a)))


def _parity(pivots: Any, like: Any) -> Any:
    """-1 for an odd number of exchanges, else 1."""
    numbers = iota(shape=pivots.shape, axis=len(pivots.shape) - 1, dtype=pivots.dtype)
    moved = ne(pivots, add(numbers, full_like(1, numbers)))
    signs = select(
        moved,
        full(shape=pivots.shape, value=-1.0, dtype=like.dtype),
        full(shape=pivots.shape, value=1.0, dtype=like.dtype),
    )
    return reduce_prod(signs, axes=(len(pivots.shape) - 1,))


def _diagonal(x: Any) -> Any:
    return reduce_sum(diagonal_of(x), axes=(len(x.shape) - 1,))


def _det(a: Any) -> Any:
    lu, pivots, _ = _lu_factor(a)
    diagonal = _diagonal(lu)
    return mul(reduce_prod(diagonal, axes=(len(diagonal.shape) - 1,)), _parity(pivots, a))


def _slogdet(a: Any) -> tuple[Any, Any]:
    lu, pivots, _ = _lu_factor(a)
    diagonal = _diagonal(lu)
    last = (len(diagonal.shape) - 1,)
    return mul(reduce_prod(sign(diagonal), axes=last), _parity(pivots, a)), reduce_sum(log(abs(diagonal)), axes=last)


def _qr(a: Any, *, complete: bool) -> tuple[Any, Any]:
    """Householder's reflections, with the signs that LAPACK chooses."""
    x = _flat(a)
    count, rows, columns = x.shape
    size = lesser(rows, columns)

    def step(rest: Any, q: Any, k: Any) -> tuple[Any, Any]:
        column = _at(rest, 2, k)
        number = _rows(column)
        at = _stretched(k, number)
        column = select(ge(number, at), column, zeros_like(column))
        tail = select(gt(number, at), column, zeros_like(column))
        alpha = _at(column, 1, k)
        length = sqrt(reshape(reduce_sum(mul(column, column), axes=(1,)), shape=alpha.shape))
        beta = select(ge(alpha, zeros_like(alpha)), neg(length), length)
        vector = select(eq(number, at), sub(column, _stretched(beta, column)), column)
        square = reshape(reduce_sum(mul(vector, vector), axes=(1,)), shape=alpha.shape)
        rest_of = reshape(reduce_sum(abs(tail), axes=(1,)), shape=alpha.shape)
        flat = eq(rest_of, zeros_like(rest_of))  # nothing to be reflected
        two = div(full_like(2.0, square), select(flat, full_like(1.0, square), square))
        factor = select(flat, zeros_like(two), two)
        scaled = mul(vector, _stretched(factor, vector))
        rest = sub(rest, product(scaled, product(turned(vector), rest)))
        return rest, sub(q, product(product(q, vector), turned(scaled)))

    q = with_ones(full(shape=(count, rows, rows), value=0.0, dtype=a.dtype))
    rest, q = _loop("reflections", step, [x, q], size) if size != 0 else (x, q)
    shared = rows if complete else size
    batch = a.shape[:-2]
    q = slice(q, starts=(0, 0, 0), stops=(count, rows, shared), strides=(1, 1, 1))
    r = slice(upper_of(rest), starts=(0, 0, 0), stops=(count, shared, columns), strides=(1, 1, 1))
    return reshape(q, shape=(*batch, rows, shared)), reshape(r, shape=(*batch, shared, columns))


DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    "cholesky": _cholesky,
    "solve_triangular": _solve_triangular,
    "lu_factor": _lu_factor,
    "order_of_pivots": _order_of_pivots,
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    "qr": _qr,
}
"""Ops on matrices, each over calls of ops that have a form in ONNX."""
