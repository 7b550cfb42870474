"""Matrices of up to 4 rows by generated code, for files and GPUs, where no Python runs and LAPACK cannot be called.

Large batches of them go in lanes; larger matrices have kernels (``codegen/lower/matrices``).

Elimination with partial pivoting, as LAPACK does it (Golub and Van Loan, Matrix computations, 4th ed., 2013, algorithm
3.4.1), written out element by element: rows are exchanged by selects. Real numbers alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.ir import dims
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops.arithmetic import abs, add, bitwise_or, div, eq, gt, le, mul, neg, select, sub
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full, full_like, iota, zeros_like
from jitgraph.ops.effects import check
from jitgraph.ops.matrices import columns_of, rows_of, with_ones
from jitgraph.ops.movement import broadcast, reduce_sum, reshape
from jitgraph.ops.reduction import reduce_min
from jitgraph.ops.transcendental import log, sqrt
from jitgraph.ops.windows import concat

MOST: Final = 4


def is_small(*types: Type) -> bool:
    """Whether the first operand is real matrices of at most 4 rows, whose number is known."""
    first = types[0]
    if not isinstance(first, TensorType) or dtypes.is_complex(first.dtype) or len(types) not in (1, 2):
        return False
    size = first.shape[-1]
    return isinstance(size, int) and 1 <= size <= MOST and first.shape[-2] == size


def elements(a: Any) -> list[list[Any]]:
    """The elements of matrices by row and column, each of the batch's shape."""
    size = range(a.shape[-1])
    cut = [[columns_of(rows_of(a, i, i + 1), j, j + 1) for j in size] for i in size]
    return [[reshape(x, shape=a.shape[:-2]) for x in row] for row in cut]


def rows(b: Any, count: int) -> list[Any]:
    """The rows of matrices."""
    return [reshape(rows_of(b, i, i + 1), shape=(*b.shape[:-2], b.shape[-1])) for i in range(count)]


def matrix(parts: Sequence[Sequence[Any]]) -> Any:
    """The matrices with these elements."""
    return stacked([_joined([reshape(x, shape=(*x.shape, 1)) for x in row]) for row in parts])


def stacked(parts: Sequence[Any]) -> Any:
    """The matrices with these rows."""
    return _joined([reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1])) for x in parts], axis=-2)


def _joined(parts: Sequence[Any], axis: int = -1) -> Any:
    return concat(*parts, axis=len(parts[0].shape) + axis) if len(parts) > 1 else parts[0]


def _over_row(x: Any, row: Any) -> Any:
    """A number for each matrix as a factor of its row."""
    return broadcast(x, shape=row.shape, axes=tuple(range(len(x.shape))))


def _eliminated(a: Any, right: list[Any]) -> tuple[list[list[Any]], list[Any], Any]:
    """An upper triangle and right sides with rows exchanged and eliminated, and the sign of the exchanges."""
    left, count = elements(a), a.shape[-1]
    sign = full_like(1.0, left[0][0])
    for k in range(count):
        for i in range(k + 1, count):
            larger = gt(abs(left[i][k]), abs(left[k][k]))
            for j in range(k, count):
                x, y = left[k][j], left[i][j]
                left[k][j], left[i][j] = select(larger, y, x), select(larger, x, y)
            sign = select(larger, neg(sign), sign)
            if right:
                turned, x, y = _over_row(larger, right[k]), right[k], right[i]
                right[k], right[i] = select(turned, y, x), select(turned, x, y)
        pivot = _not_zero(left[k][k])
        for i in range(k + 1, count):
            factor = div(left[i][k], pivot)  # all below a pivot of 0 is 0 too
            for j in range(k + 1, count):
                left[i][j] = sub(left[i][j], mul(factor, left[k][j]))
            if right:
                right[i] = sub(right[i], mul(_over_row(factor, right[k]), right[k]))
    return left, right, sign


def _not_zero(x: Any) -> Any:
    return select(eq(x, zeros_like(x)), full_like(1.0, x), x)


def _require_none(name: str, failing: Any, reason: str) -> None:
    """LinAlgError where a matrix fails, with the number of the first one of a batch, as kernels count them."""
    count = cast(failing, dtype=dtypes.int64)
    count = reduce_sum(count, axes=tuple(range(len(count.shape))))
    holds = eq(count, zeros_like(count))
    if not failing.shape:
        check(holds, kind="LinAlgError", message=f"{name}: {reason}")
        return
    flat = reshape(failing, shape=(dims.product(failing.shape),))
    numbers = iota(shape=flat.shape, axis=0, dtype=dtypes.int64)
    first = reduce_min(select(flat, numbers, full_like(2**63 - 1, numbers)), axes=(0,))
    check(holds, first, kind="LinAlgError", message=f"{name}: {reason} (matrix {{index}} of the batch)")


def _require_pivots(name: str, diagonal: Sequence[Any], reason: str) -> None:
    failing = [eq(x, zeros_like(x)) for x in diagonal]
    _require_none(name, functools.reduce(bitwise_or, failing), reason)


def _back(left: list[list[Any]], right: list[Any], diagonal: Sequence[Any] | None) -> list[Any]:
    """Upper triangular systems; None for a diagonal of ones."""
    solution = list(right)
    for i in reversed(range(len(left))):
        for j in range(i + 1, len(left)):
            solution[i] = sub(solution[i], mul(_over_row(left[i][j], solution[j]), solution[j]))
        if diagonal is not None:
            solution[i] = div(solution[i], _over_row(_not_zero(diagonal[i]), solution[i]))
    return solution


def solve(a: Any, b: Any) -> Any:
    """The x for which a @ x is b."""
    return _solved("solve", a, b)


def inverse(a: Any) -> Any:
    """The inverses."""
    return _solved("inv", a, with_ones(zeros_like(a)))


def _solved(name: str, a: Any, b: Any) -> Any:
    left, right, _ = _eliminated(a, rows(b, a.shape[-1]))
    diagonal = [left[i][i] for i in range(len(left))]
    _require_pivots(name, diagonal, "a matrix is singular")
    return stacked(_back(left, right, diagonal))


def solve_triangular(a: Any, b: Any, *, upper: bool, unit: bool) -> Any:
    """The x for which the triangle of a times x is b."""
    left, right = elements(a), rows(b, a.shape[-1])
    if not upper:  # read backwards
        left, right = [row[::-1] for row in left[::-1]], right[::-1]
    diagonal = [left[i][i] for i in range(len(left))]
    if not unit:
        _require_pivots("solve_triangular", diagonal, "a triangular matrix has a zero on its diagonal")
    solution = _back(left, right, None if unit else diagonal)
    return stacked(solution if upper else solution[::-1])


def determinant(a: Any) -> Any:
    """The determinants."""
    left, _, det = _eliminated(a, [])
    for i in range(len(left)):
        det = mul(det, left[i][i])
    return det


def signed_logarithm(a: Any) -> tuple[Any, Any]:
    """The signs of determinants, and the logarithms of their magnitudes."""
    left, _, sign = _eliminated(a, [])
    size = zeros_like(sign)
    for i in range(len(left)):
        x = left[i][i]
        turned = select(gt(zeros_like(x), x), neg(sign), sign)
        sign = select(eq(x, zeros_like(x)), zeros_like(x), turned)
        size = add(size, log(abs(x)))
    return sign, size


def cofactors(a: Any) -> Any:
    """The derivative of the determinant by each element, by the minors."""
    parts, size = elements(a), range(a.shape[-1])

    def signed(i: int, j: int) -> Any:
        minor = _minor([[parts[r][c] for c in size if c != j] for r in size if r != i], parts[0][0])
        return neg(minor) if (i + j) % 2 else minor

    return matrix([[signed(i, j) for j in size] for i in size])


def cofactors_gradient(ct: Any, a: Any) -> Any:
    """The gradient by a of the sum of ct times its cofactors, by minors of two rows less."""
    weights, parts, size = elements(ct), elements(a), range(a.shape[-1])

    def minor(rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
        return _minor([[parts[r][c] for c in size if c not in columns] for r in size if r not in rows], parts[0][0])

    pairs = list(itertools.combinations(size, 2))
    minors = {(rows, columns): minor(rows, columns) for rows in pairs for columns in pairs}

    def gradient(row: int, column: int) -> Any:
        total = zeros_like(parts[0][0])
        for i, j in itertools.product(size, size):
            if i != row and j != column:
                term = mul(weights[i][j], minors[(min(i, row), max(i, row)), (min(j, column), max(j, column))])
                negative = (i + j + row - (row > i) + column - (column > j)) % 2
                total = sub(total, term) if negative else add(total, term)
        return total

    return matrix([[gradient(row, column) for column in size] for row in size])


def _minor(parts: list[list[Any]], like: Any) -> Any:
    """The determinant of at most 3 rows, expanded along the first."""
    if not parts:
        return full_like(1.0, like)
    minor = None
    for j, x in enumerate(parts[0]):
        rest = _minor([row[:j] + row[j + 1 :] for row in parts[1:]], like)
        term = x if len(parts) == 1 else mul(x, rest)
        minor = term if minor is None else sub(minor, term) if j % 2 else add(minor, term)
    return minor


def cholesky(a: Any) -> Any:
    """The lower triangular factors of the means of a and its transpose."""
    entries, size = elements(a), range(a.shape[-1])
    zero = full(shape=entries[0][0].shape, value=0.0, dtype=entries[0][0].dtype)
    half = full_like(0.5, zero)
    factor = [[zero for _ in size] for _ in size]
    failing = []
    for j in size:
        for i in range(j, a.shape[-1]):
            x, y = entries[i][j], entries[j][i]
            value = x if i == j else select(eq(x, y), x, add(mul(half, x), mul(half, y)))
            for k in range(j):
                value = sub(value, mul(factor[i][k], factor[j][k]))
            if i == j:
                failing.append(le(value, zero))
                factor[i][j] = sqrt(select(failing[j], full_like(1.0, value), value))
            else:
                factor[i][j] = div(value, factor[j][j])
    _require_none("cholesky", functools.reduce(bitwise_or, failing), "a matrix is not positive definite")
    return matrix(factor)
