"""Triangular systems, factors by elimination, and systems of which the factors are known."""

from __future__ import annotations

from typing import NamedTuple

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.linalg.operands import matrices_of, system_of, without_column
from jitgraph.ops import linear_systems
from jitgraph.ops.matrices import adjoint as _adjoint
from jitgraph.ops.matrices import below, columns_of, lesser, rows_of, upper_of, with_ones
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.manipulation import take_along_axis
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import argsort
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


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
    """The x for which a @ x is b, where ``cholesky`` has given l of a: upper triangles with ``upper``.

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
    """The inverse of a, where ``cholesky`` has given l of a: upper triangles with ``upper``."""
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
    """The x for which a @ x is b, where ``lu_factor`` has given LU and pivots of a.

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
