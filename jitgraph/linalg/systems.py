"""Systems of linear equations and determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.linalg.operands import cutoffs_of, system_of, without_column
from jitgraph.ops import least_squares, linear_systems, matrix_exponential
from jitgraph.ops.matrices import lesser
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import maximum, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import sum
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


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
        solution, values = least_squares.lstsq(left, right, cutoffs)
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
    return wrap(matrix_exponential.matrix_exp(lifting.value_of(x)))
