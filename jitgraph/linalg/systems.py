"""Systems of linear equations, determinants, triangular systems and factors; from what users pass to matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ops import decompositions, linear_systems
from jitgraph.ops.matrices import adjoint as _adjoint
from jitgraph.ops.matrices import below, columns_of, lesser, rows_of, upper_of, with_ones
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import maximum, where
from jitgraph.tensor.functions.manipulation import take_along_axis
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import argsort, sum
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# From what users pass to matrices that an op takes: one dtype, batches broadcast, and vectors as columns.


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


# ----------------------------------------------------------------------
# Systems of linear equations and determinants.


class LstsqResult(NamedTuple):
    """What ``lstsq`` gives."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Tensor
    logabsdet: Tensor


@array_function
def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """The x for which a @ x is b: b is one vector, or matrices. Batches broadcast.

    Gradients by Giles (2008). LinAlgError where a matrix is singular; DTypeError for integers and 16-bit floats.
    """
    left, right, vector = system_of("solve", a, b)
    solution = linear_systems.solve(left, right)
    return wrap(without_column(solution) if vector else solution)


@array_function
def inv(x: TensorLike) -> Tensor:
    """Inverses of square matrices. LinAlgError where one is singular; DTypeError for integers and 16-bit floats."""
    return wrap(linear_systems.inv(lifting.value_of(x)))


@array_function
def pinv(x: TensorLike, *, rtol: TensorLike | None = None) -> Tensor:
    """Pseudo-inverses; singular values up to ``rtol`` times the greatest count as zeros: by default max(m, n) eps.

    ``rtol`` is a number, or one for each matrix of the batch.

    Gradients by Golub and Pereyra (1973), where the rank does not change.
    """
    value = lifting.value_of(x)
    with placement.beside(value):
        return wrap(linear_systems.pinv(value, cutoffs_of("pinv", value, rtol)))


@array_function
def lstsq(a: TensorLike, b: TensorLike, *, rcond: TensorLike | None = None) -> LstsqResult:
    """The shortest x for which a @ x is closest to b, which is one vector, or matrices. Batches broadcast.

    Singular values of a up to ``rcond`` times the greatest count as zeros: by default max(m, n) eps. ``residuals`` are
    the sums of |b - a @ x|**2 along the rows, also where NumPy and PyTorch leave them out. Gradients where the rank
    does not change (Golub and Pereyra, 1973).
    """
    left, right, vector = system_of("lstsq", a, b)
    with placement.beside(left):
        cutoffs = cutoffs_of("lstsq", left, rcond)
        solution, values = decompositions.lstsq(left, right, cutoffs)
        solved, rest = wrap(solution), wrap(right) - wrap(left) @ wrap(solution)
        lengths = rest * rest if not dtypes.is_complex(rest.dtype) else rest.real * rest.real + rest.imag * rest.imag
        residuals = lengths.sum(axis=-2)
        if vector:
            solved, residuals = wrap(without_column(solution)), residuals[..., 0]
        rank = rank_of(wrap(values), left, wrap(cutoffs))
        return LstsqResult(solved, residuals, rank, wrap(values))


def rank_of(values: Tensor, matrices: Any, rtol: Tensor, atol: TensorLike = 0.0) -> Tensor:
    """How many singular values of the matrices exceed both rtol times the greatest and atol; -1 is the default rtol."""
    rows, columns = matrices.shape[-2:]
    eps = float(np.finfo(matrices.dtype).eps)
    if isinstance(values.shape[-1], int) and not values.shape[-1]:
        return sum(values != values, axis=-1)
    longer = wrap(ops.full(shape=(), value=columns if lesser(rows, columns) == rows else rows, dtype=rtol.dtype))
    limit = where(rtol < 0, longer * eps, rtol) * values.max(axis=-1)
    return sum(values > maximum(limit, atol)[..., None], axis=-1)


@array_function
def det(x: TensorLike) -> Tensor:
    """Determinants of square matrices. Gradients are right for singular ones, too, of first and second order."""
    return wrap(linear_systems.det(lifting.value_of(x)))


@array_function
def slogdet(x: TensorLike) -> SlogdetResult:
    """Signs of determinants and logarithms of their magnitudes: 0 and -inf of a singular matrix, without a gradient."""
    return SlogdetResult(*map(wrap, linear_systems.slogdet(lifting.value_of(x))))


@array_function
def matrix_exp(x: TensorLike) -> Tensor:
    """The exponentials of square matrices, by scaling, a Pade approximant and squaring (Higham, 2005)."""
    return wrap(decompositions.matrix_exp(lifting.value_of(x)))


# ----------------------------------------------------------------------
# Triangular systems, factors by elimination, and systems of which the factors are known.


class LUResult(NamedTuple):
    """What ``lu`` gives."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactorResult(NamedTuple):
    """What ``lu_factor`` gives."""

    LU: Tensor
    pivots: Tensor


@array_function
def solve_triangular(
    a: TensorLike, b: TensorLike, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The x for which a @ x is b (x @ a with left=False), of one triangle of a: the other is not looked at.

    b is one vector, or matrices; batches broadcast. With ``unitriangular`` the diagonal counts as ones. LinAlgError
    where there is a zero on it.
    """
    if not left:
        (x, y, _) = system_of("solve_triangular", a, b, vectors=False)
        solution = linear_systems.solve_triangular(
            _mirrored(x), _mirrored(y), upper=not upper, unit=bool(unitriangular)
        )
        return wrap(_mirrored(solution))
    x, y, vector = system_of("solve_triangular", a, b)
    solution = linear_systems.solve_triangular(x, y, upper=bool(upper), unit=bool(unitriangular))
    return wrap(without_column(solution) if vector else solution)


def _mirrored(x: object) -> object:
    return wrap(x).mT.value


@array_function
def cholesky_solve(b: TensorLike, l: TensorLike, *, upper: bool = False) -> Tensor:  # noqa: E741 - as in PyTorch
    """The x for which a @ x is b, where l is the ``cholesky`` factor of a, upper triangular with ``upper``.

    b is one vector, or matrices; batches broadcast.
    """
    factor, right, vector = system_of("cholesky_solve", l, b)
    first = _adjoint(factor) if upper else factor
    second = factor if upper else _adjoint(factor)
    solution = linear_systems.solve_triangular(first, right, upper=False, unit=False)
    solution = linear_systems.solve_triangular(second, solution, upper=True, unit=False)
    return wrap(without_column(solution) if vector else solution)


@array_function
def cholesky_inverse(l: TensorLike, *, upper: bool = False) -> Tensor:  # noqa: E741 - as in PyTorch
    """The inverse of a, where l is the ``cholesky`` factor of a, upper triangular with ``upper``."""
    factor = matrices_of("cholesky_inverse", l)
    with placement.beside(factor):
        one = wrap(with_ones(ops.zeros_like(factor)))
    return cholesky_solve(one, wrap(factor), upper=upper)


@array_function
def lu_factor(a: TensorLike) -> LUFactorResult:
    """L below the diagonal and U on it and above, of a with its rows exchanged; row i with row pivots[i], from 1 on.

    That is what PyTorch gives, with int32 pivots; SciPy counts them from 0. A singular matrix has factors too.
    """
    factors = linear_systems.lu_factor(lifting.value_of(a))
    return LUFactorResult(wrap(factors[0]), wrap(factors[1]))


@array_function
def lu(a: TensorLike) -> LUResult:
    """A permutation P, a lower triangular L with ones on its diagonal, and an upper triangular U: a is P @ L @ U.

    Gradients by Axen (2021), where the leading square block of the exchanged rows is invertible.
    """
    factors, _, order = linear_systems.lu_factor(lifting.value_of(a))
    with placement.beside(factors):
        rows, columns = factors.shape[-2:]
        size = lesser(rows, columns)
        left = with_ones(below(columns_of(factors, 0, size)))
        right = upper_of(rows_of(factors, 0, size))
        number = wrap(lifting.positions_along((*order.shape, rows), len(order.shape) - 1, order))
        permutation = number == wrap(order)[..., None, :]
        return LUResult(permutation.astype(factors.dtype), wrap(left), wrap(right))


@array_function
def lu_solve(LU: TensorLike, pivots: TensorLike, b: TensorLike, *, left: bool = True, adjoint: bool = False) -> Tensor:  # noqa: N803
    """The x for which a @ x is b, where LU and pivots are the results of ``lu_factor`` of a.

    With left=False x @ a is b; with ``adjoint`` a's conjugate transpose stands in the place of a.
    """
    if not left:
        mirrored = wrap(_adjoint(matrices_of("lu_solve", b)))
        return wrap(_adjoint(lu_solve(LU, pivots, mirrored, adjoint=not adjoint).value))
    factors, right, vector = system_of("lu_solve", LU, b)
    order = wrap(linear_systems.order_of_pivots(lifting.value_of(pivots)))
    if len(order.shape) != len(lifting.value_of(LU).shape) - 1:
        raise ShapeError(
            f"lu_solve takes pivots for each of the matrices {wrap(factors).value.type}, not {order.value.type}"
        )
    positions = wrap(lifting.broadcast_to(order.value, factors.shape[:-1]))
    if adjoint:
        solution = linear_systems.solve_triangular(_adjoint(factors), right, upper=False, unit=False)
        solution = linear_systems.solve_triangular(_adjoint(factors), solution, upper=True, unit=True)
        solved = _rows_in(wrap(solution), argsort(positions, axis=-1))
    else:
        solution = _rows_in(wrap(right), positions).value
        solution = linear_systems.solve_triangular(factors, solution, upper=False, unit=True)
        solved = wrap(linear_systems.solve_triangular(factors, solution, upper=True, unit=False))
    return wrap(without_column(solved.value)) if vector else solved


def _rows_in(x: Tensor, order: Tensor) -> Tensor:
    positions = wrap(lifting.broadcast_to(order[..., None].value, x.value.shape))
    return take_along_axis(x, positions, axis=-2)
