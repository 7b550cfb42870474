"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices: reflections to tridiagonal form, then implicit
QL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.matrices.elimination import copy_mean
from jitgraph.codegen.lower.matrices.householder import Reflections, greatest, greatest_part, power_below, reflection_of
from jitgraph.codegen.lower.matrices.workspace import BLOCK, EPSILON, LEAST_NORMAL, Matrix, MatrixKernel, Number
from jitgraph.dtypes import int64
from jitgraph.ir.dims import DimLike

# ----------------------------------------------------------------------
# Plane rotations, and their application to the rows of a matrix.


def rotation(kernel: MatrixKernel, f: Var, g: Var) -> tuple[Var, Var, Var]:
    """c, s and r for which [c s; -s c] turns (f, g) into (r, 0).

    Numbers are at most about 1, as the matrix was scaled; where both squares underflow there is none, by an error
    far below that of rounding.
    """
    s = kernel.ops
    square = s.fma(f, f, s.mul(g, g))
    none = s.cmp("lt", square, s.const(LEAST_NORMAL[kernel.dtype]))
    root = s.sqrt(s.select(none, s.const(1.0), square))
    inverse = s.div(s.const(1.0), root)
    return (
        s.select(none, s.const(1.0), s.mul(f, inverse)),
        s.select(none, s.const(0.0), s.mul(g, inverse)),
        s.select(none, f, root),
    )


def rotate_rows_down(
    kernel: MatrixKernel,
    target: Matrix,
    rows: tuple[DimLike, DimLike],
    columns: DimLike,
    cosines: Matrix,
    sines: Matrix,
) -> None:
    """Rotate rows i and i + 1 for i from the second row's number less 1 down to the first.

    Row i becomes c row i - s row i + 1, row i + 1 becomes s row i + c row i + 1. Each is loaded and stored once.
    """
    first, last = rows
    s = kernel.ops

    def column(j: DimLike) -> None:
        def step(turn: DimLike, below: Number) -> Number:
            i = last - 1 - turn
            cosine, sine = cosines[0, i][0], sines[0, i][0]
            here = target[i, j]
            target[i + 1, j] = tuple(s.fma(sine, x, s.mul(cosine, y)) for x, y in zip(here, below, strict=True))
            return tuple(s.fma(s.neg(sine), y, s.mul(cosine, x)) for x, y in zip(here, below, strict=True))

        rest = kernel.recorder.serial(last - first, target[last, j], step)
        target[first, j] = rest

    kernel.along(columns, column)


def rotate_rows_up(
    kernel: MatrixKernel,
    target: Matrix,
    rows: tuple[DimLike, DimLike],
    columns: DimLike,
    cosines: Matrix,
    sines: Matrix,
) -> None:
    """Rotate rows i and i + 1 for i from the first row up to the second row's number less 1.

    Row i becomes c row i + s row i + 1, and row i + 1 becomes c row i + 1 - s row i.
    """
    first, last = rows
    s = kernel.ops

    def column(j: DimLike) -> None:
        def step(turn: DimLike, above: Number) -> Number:
            i = first + turn
            cosine, sine = cosines[0, i][0], sines[0, i][0]
            here = target[i + 1, j]
            target[i, j] = tuple(s.fma(sine, y, s.mul(cosine, x)) for x, y in zip(above, here, strict=True))
            return tuple(s.fma(s.neg(sine), x, s.mul(cosine, y)) for x, y in zip(above, here, strict=True))

        rest = kernel.recorder.serial(last - first, target[first, j], step)
        target[last, j] = rest

    kernel.along(columns, column)


# ----------------------------------------------------------------------
# Eigenvalues and eigenvectors of symmetric and Hermitian matrices: reflections to tridiagonal form, then implicit QL.
#
# G. Golub and C. Van Loan, Matrix computations (4th ed., 2013), sections 8.3.1 and 8.3.3; the steps of QL are those of
# H. Bowdler et al., The QR and QL algorithms for symmetric matrices (1968). Errors of eigenvalues, the backward error
# and the loss of orthogonality are a small multiple of n eps in norm. A step of QL turns all rows of the transposed
# eigenvectors at once, so that each is loaded and stored once.

NOT_CONVERGED: Final = "the decomposition does not converge"
MOST_STEPS: Final = 60
"""Steps for one value; two or three are usual, and LAPACK allows 30 on average."""
PATIENCE: Final = 12
"""Steps for one value after which more is negligible."""


def write_eigh(kernel: MatrixKernel, *, checked: bool) -> None:
    """Ascending eigenvalues, and eigenvectors as columns."""
    size, s = kernel.rows, kernel.ops
    padded = kernel.padded(size)
    with kernel.each_matrix():
        source = kernel.operand()
        most = greatest(kernel, source, size, size)
        kernel.check(s.cmp("lt", most, s.const(float("inf"))), NOT_CONVERGED)
        power, inverse = power_below(kernel, most)
        work = kernel.matrix(size, size)
        reflections = Reflections(kernel, padded, padded)
        diagonal, beside, cosines, sines = (kernel.vector(size + 1) for _ in range(4))
        copy_mean(kernel, source, work, size, size, inverse)
        _to_tridiagonal(kernel, work, reflections, diagonal, beside)
        q, turned = reflections.product(padded // BLOCK), kernel.matrix(size, size)
        kernel.each(size, lambda i: kernel.along(size, lambda j: turned.store(i, j, q[j, i])))
        state = kernel.vector(1, int64)
        kernel.each(size, lambda first: _one_value(kernel, first, turned, diagonal, beside, cosines, sines, state))
        _store_sorted(kernel, turned, diagonal, power)
    kernel.launch()


def _to_tridiagonal(
    kernel: MatrixKernel, work: Matrix, reflections: Reflections, diagonal: Matrix, beside: Matrix
) -> None:
    """The diagonal and the elements beside it, which are real, and the reflections that lead there."""
    numbers, s = kernel.numbers, kernel.ops
    size = kernel.rows
    vector, product = kernel.vector(size, parts=kernel.parts), kernel.vector(size, parts=kernel.parts)
    reflections.clear(reflections.height)

    def step(k: DimLike) -> None:
        count = size - 1 - k  # columns to the right of the diagonal
        head, tau = reflect_row(kernel, work, k, size, vector, reflections)
        beside[0, k] = (head,)

        def multiply(i: DimLike) -> None:
            dot = kernel.sum(
                count,
                lambda t: numbers.mul(work[i, k + 1 + t], vector[0, k + 1 + t]),
                numbers.parts,
            )
            product[0, i] = numbers.mul(tau, dot)

        kernel.each(size, multiply, k + 1)
        along = kernel.sum(
            count, lambda t: numbers.mul(numbers.conj(product[0, k + 1 + t]), vector[0, k + 1 + t]), numbers.parts
        )
        factor = numbers.scale(numbers.mul(tau, along), s.const(-0.5))

        def correct(j: DimLike) -> None:
            product[0, j] = numbers.add_product(product[0, j], factor, vector[0, j])

        kernel.along(size, correct, k + 1)

        def subtract(i: DimLike) -> None:
            one, two = numbers.neg(vector[0, i]), numbers.neg(product[0, i])

            def column(j: DimLike) -> None:
                value = numbers.add_product(work[i, j], one, numbers.conj(product[0, j]))
                work[i, j] = numbers.add_product(value, two, numbers.conj(vector[0, j]))

            kernel.along(size, column, k + 1)

        kernel.each(size, subtract, k + 1)

    last = one_less(kernel, size)
    kernel.each(last, step)
    kernel.each(size, lambda k: diagonal.store(0, k, (work[k, k][0],)))
    beside[0, last] = (s.const(0.0),)


def one_less(kernel: MatrixKernel, size: DimLike) -> DimLike:
    """size - 1, and 0 where that is 0."""
    return kernel.index(kernel.integers.max(kernel.value(size - 1), kernel.integers.const(0)), size)


def reflect_row(
    kernel: MatrixKernel, work: Matrix, k: DimLike, size: DimLike, vector: Matrix, reflections: Reflections
) -> tuple[Var, Number]:
    """What a reflection makes of row k right of the diagonal, a real number over zeros, and its tau.

    It is number k of ``reflections``; its vector stands in ``vector`` from place k + 1 on.
    """
    numbers, s = kernel.numbers, kernel.ops
    count = size - 1 - k

    def larger(t: DimLike) -> tuple[Var, ...]:
        return (greatest_part(kernel, work[k, k + 1 + t]),)

    (most,) = kernel.recorder.reduce(count, (s.const(0.0),), larger, lambda s, x, y: (s.max(x[0], y[0]),), 8)
    power, inverse = power_below(kernel, most)

    def square(t: DimLike) -> tuple[Var, ...]:
        return (numbers.squared(numbers.scale(work[k, k + 2 + t], inverse)),)

    (rest,) = kernel.sum(count - 1, square, 1)
    first = numbers.conj(numbers.scale(work[k, k + 1], inverse))
    head, scale, tau = reflection_of(kernel, first, rest)
    reflections.scales[0, k] = tau

    def element(j: DimLike) -> None:
        is_first = kernel.integers.cmp("eq", kernel.value(j), kernel.value(k + 1))
        other = numbers.mul(numbers.conj(numbers.scale(work[k, j], inverse)), scale)
        vector[0, j] = numbers.select(is_first, numbers.const(1.0), other)

    kernel.along(size, element, k + 1)
    kernel.each(size, lambda i: reflections.vectors.store(i, k, vector[0, i]), k + 1)
    return s.mul(head, power), tau


def _one_value(
    kernel: MatrixKernel,
    first: DimLike,
    turned: Matrix,
    diagonal: Matrix,
    beside: Matrix,
    cosines: Matrix,
    sines: Matrix,
    state: Matrix,
) -> None:
    """Steps of QL until the element beside the diagonal at ``first`` is negligible."""
    s, integers = kernel.ops, kernel.integers
    size = kernel.rows
    state[0, 0] = (integers.const(1),)

    def one_step(number: DimLike) -> None:
        is_active = integers.cmp("ne", state[0, 0][0], integers.const(0))
        kernel.when(is_active, lambda: look(number))

    def look(number: DimLike) -> None:
        last = split_after(kernel, first, size, diagonal, beside, negligible(kernel, number, PATIENCE))
        is_done = integers.cmp("eq", last, kernel.value(first))
        final = integers.cmp("eq", kernel.value(number), integers.const(MOST_STEPS - 1))
        kernel.check(kernel.logic.or_(is_done, kernel.logic.not_(final)), NOT_CONVERGED)
        state[0, 0] = (integers.cast(kernel.logic.not_(is_done), int64),)
        end = kernel.index(last, size)
        kernel.when(kernel.logic.not_(is_done), lambda: sweep(end))

    def sweep(last: DimLike) -> None:
        d, e, below = diagonal[0, first][0], beside[0, first][0], diagonal[0, first + 1][0]
        one = s.const(1.0)
        ratio = s.div(s.sub(below, d), s.mul(s.const(2.0), e))
        length = s.sqrt(s.fma(ratio, ratio, one))
        safe = s.select(s.cmp("lt", length, s.const(float("inf"))), length, s.abs(ratio))
        divisor = s.add(ratio, s.select(s.cmp("lt", ratio, s.const(0.0)), s.neg(safe), safe))
        start = s.add(s.sub(diagonal[0, last][0], d), s.div(e, divisor))

        def step(turn: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            g, sine, cosine, p = carried
            i = last - 1 - turn
            e = beside[0, i][0]
            f, b = s.mul(sine, e), s.mul(cosine, e)
            cosine, sine, r = rotation(kernel, g, f)
            beside[0, i + 1] = (r,)
            g = s.sub(diagonal[0, i + 1][0], p)
            r = s.fma(s.sub(diagonal[0, i][0], g), sine, s.mul(s.mul(s.const(2.0), cosine), b))
            p = s.mul(sine, r)
            diagonal[0, i + 1] = (s.add(g, p),)
            cosines[0, i], sines[0, i] = (cosine,), (sine,)
            return s.sub(s.mul(cosine, r), b), sine, cosine, p

        g, _, _, p = kernel.recorder.serial(last - first, (start, one, one, s.const(0.0)), step)
        diagonal[0, first] = (s.sub(diagonal[0, first][0], p),)
        beside[0, first] = (g,)
        beside[0, last] = (s.const(0.0),)
        rotate_rows_down(kernel, turned, (first, last), size, cosines, sines)

    kernel.each(MOST_STEPS, one_step)


def negligible(kernel: MatrixKernel, step: DimLike, patience: int) -> Var:
    """The square of what is negligible, whatever stands beside it, in a matrix whose greatest element is about 1.

    At first that is what vanishes when it is squared, so that small values of graded matrices are right to their own
    size where they can be. Where that does not converge, rounding of the greatest elements is in the way, and an error
    of as many eps as there were more than ``patience`` steps is allowed.
    """
    s, integers = kernel.ops, kernel.integers
    eps = s.const(EPSILON[kernel.dtype])
    late = integers.max(integers.sub(kernel.value(step), integers.const(patience)), integers.const(0))
    allowed = s.mul(s.cast(late, kernel.dtype), eps)
    return s.max(s.mul(allowed, allowed), s.const(LEAST_NORMAL[kernel.dtype]))


def split_after(
    kernel: MatrixKernel, first: DimLike, size: DimLike, diagonal: Matrix, beside: Matrix, smallest: Var
) -> Var:
    """The first row from ``first`` on after which the element beside the diagonal is negligible.

    That is one of at most eps times the root of the product of its neighbours on the diagonal, as LAPACK has it, or
    whose square is at most ``smallest``.
    """
    s, integers = kernel.ops, kernel.integers
    least = s.const(EPSILON[kernel.dtype] ** 2)

    def element(t: DimLike) -> tuple[Var, ...]:
        i = first + t
        e = beside[0, i][0]
        around = s.mul(s.abs(diagonal[0, i][0]), s.abs(diagonal[0, i + 1][0]))
        small = s.cmp("le", s.mul(e, e), s.max(s.mul(least, around), smallest))
        return (integers.select(small, kernel.value(i), kernel.value(size - 1)),)

    (split,) = kernel.recorder.reduce(
        size - 1 - first, (kernel.value(size - 1),), element, lambda s, x, y: (s.min(x[0], y[0]),), 8
    )
    return split


def _store_sorted(kernel: MatrixKernel, turned: Matrix, diagonal: Matrix, power: Var) -> None:
    s, size = kernel.ops, kernel.rows
    values, vectors = kernel.result(parts=1), kernel.result(1)

    def place(i: DimLike) -> None:
        at = rank_of(kernel, i, size, lambda j: diagonal[0, j][0], "lt")
        values[0, at] = (s.mul(diagonal[0, i][0], power),)
        kernel.along(size, lambda j: vectors.store(j, at, turned[i, j]))

    kernel.each(size, place)


def rank_of(
    kernel: MatrixKernel, i: DimLike, size: DimLike, number: Callable[[DimLike], Var], relation: Literal["lt", "gt"]
) -> DimLike:
    """How many numbers stand in ``relation`` to number i; of equal ones the first comes first."""
    s, integers = kernel.ops, kernel.integers
    value = number(i)

    def before(j: DimLike) -> tuple[Var, ...]:
        other = number(j)
        tied = kernel.both(s.cmp("eq", other, value), kernel.is_less(j, i))
        return (integers.cast(kernel.logic.or_(s.cmp(relation, other, value), tied), int64),)

    (count,) = kernel.recorder.reduce(size, (integers.const(0),), before, lambda s, x, y: (s.add(x[0], y[0]),), 8)
    return kernel.index(count, size)
