"""Singular values and vectors: QR, reflections to bidiagonal form, then implicit QR steps.

G. Golub and C. Van Loan, Matrix computations (4th ed., 2013), sections 5.4.8 and 8.6; where a value is too small for a
shift the step is that of J. Demmel and W. Kahan, Accurate singular values of bidiagonal matrices (1990). Errors of
singular values, the backward error and the loss of orthogonality are a small multiple of n eps in norm.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.matrices.elimination import copy_padded
from jitgraph.codegen.lower.matrices.householder import (
    Reflections,
    greatest,
    greatest_part,
    power_below,
    reduce_columns,
    reflection_of,
)
from jitgraph.codegen.lower.matrices.symmetric import (
    NOT_CONVERGED,
    negligible,
    one_less,
    rank_of,
    reflect_row,
    rotate_rows_up,
    rotation,
)
from jitgraph.codegen.lower.matrices.workspace import BLOCK, EPSILON, Matrix, MatrixKernel
from jitgraph.dtypes import int64
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

MOST_STEPS: Final = 75
"""Steps for one value; two or three are usual."""
PATIENCE: Final = 5
"""Steps for one value after which more is negligible."""


@dataclass(frozen=True)
class Bidiagonal:
    """A bidiagonal matrix, and the transposed factors to its left and right, which rotations turn.

    ``beside`` has element i right of the diagonal at i + 1; ``right`` and ``left`` are cosines and sines.
    """

    kernel: MatrixKernel
    size: DimLike
    diagonal: Matrix
    beside: Matrix
    left: tuple[Matrix, Matrix]
    right: tuple[Matrix, Matrix]


def write_svd(kernel: MatrixKernel, *, full_matrices: bool, checked: bool) -> None:
    """U, descending singular values, and the adjoint of V; of a wide matrix by its adjoint."""
    numbers, s = kernel.numbers, kernel.ops
    parts = kernel.parts
    size = kernel.results[parts].type.shape[-1]
    is_tall = size == kernel.columns
    rows = kernel.rows if is_tall else kernel.columns
    height, padded = kernel.padded(rows), kernel.padded(size)
    count = rows if full_matrices else size
    across = kernel.padded(count)
    with kernel.each_matrix():
        source = kernel.operand()
        most = greatest(kernel, source, kernel.rows, kernel.columns)
        kernel.check(s.cmp("lt", most, s.const(float("inf"))), NOT_CONVERGED)
        power, inverse = power_below(kernel, most)
        r = kernel.matrix(height, padded + BLOCK)
        copy_padded(kernel, source, r, (rows, size), (height, padded), inverse, adjoint=not is_tall)
        outer = Reflections(kernel, height, padded)
        reduce_columns(kernel, outer, r, padded // BLOCK, padded)
        work = kernel.matrix(size, size + 1)  # the last row has one element right of its diagonal, too

        def upper(i: DimLike, j: DimLike) -> None:
            work[i, j] = numbers.select(kernel.is_less(j, i), numbers.const(0.0), r[i, j])

        kernel.each(size, lambda i: kernel.along(size, lambda j: upper(i, j)))
        vectors = [kernel.vector(size + 2) for _ in range(6)]
        matrix = Bidiagonal(kernel, size, vectors[0], vectors[1], (vectors[2], vectors[3]), (vectors[4], vectors[5]))
        left, right = (Reflections(kernel, padded, padded) for _ in range(2))
        _to_bidiagonal(matrix, work, left, right)
        u, vh = kernel.matrix(size, size), kernel.matrix(size, size)
        for reflections, target, adjoint in (left, u, False), (right, vh, True):
            q = reflections.product(padded // BLOCK)
            _store_transposed(kernel, q, target, size, adjoint)
        state = kernel.vector(1, int64)
        kernel.each(one_less(kernel, size), lambda turn: _one_value(matrix, size - 1 - turn, u, vh, state))
        basis = kernel.matrix(height, across + BLOCK)
        kernel.identity(basis, height, across)
        values = kernel.result(parts, 1)
        first, last = kernel.result(), kernel.result(parts + 1)
        thin = last if is_tall else first

        def value(i: DimLike) -> None:
            number = matrix.diagonal[0, i][0]
            at = rank_of(kernel, i, size, lambda j: s.abs(matrix.diagonal[0, j][0]), "gt")
            values[0, at] = (s.mul(s.abs(number), power),)
            sign = s.select(s.cmp("lt", number, s.const(0.0)), s.const(-1.0), s.const(1.0))
            kernel.along(size, lambda j: basis.store(j, at, u[i, j]))

            def element(j: DimLike) -> None:
                x = numbers.scale(vh[i, j], sign)
                if is_tall:
                    thin[at, j] = x
                else:
                    thin[j, at] = numbers.conj(x)

            kernel.along(size, element)

        kernel.each(size, value)
        outer.multiply(padded // BLOCK, basis, across)

        def outer_element(i: DimLike, j: DimLike) -> None:
            if is_tall:
                first[i, j] = basis[i, j]
            else:
                last[i, j] = numbers.conj(basis[j, i])

        if is_tall:
            kernel.each(rows, lambda i: kernel.along(count, lambda j: outer_element(i, j)))
        else:
            kernel.each(count, lambda i: kernel.along(rows, lambda j: outer_element(i, j)))
    kernel.launch()


def _store_transposed(kernel: MatrixKernel, source: Matrix, target: Matrix, size: DimLike, adjoint: bool) -> None:
    def element(i: DimLike, j: DimLike) -> None:
        value = source[j, i]
        target[i, j] = kernel.numbers.conj(value) if adjoint else value

    kernel.each(size, lambda i: kernel.along(size, lambda j: element(i, j)))


def _to_bidiagonal(matrix: Bidiagonal, work: Matrix, left: Reflections, right: Reflections) -> None:
    kernel, size = matrix.kernel, matrix.size
    numbers, s = kernel.numbers, kernel.ops
    vector, product = kernel.vector(size, parts=kernel.parts), kernel.vector(size, parts=kernel.parts)
    left.clear(left.height)
    right.clear(right.height)
    matrix.beside[0, 0] = (s.const(0.0),)

    def step(k: DimLike) -> None:
        reflect_column(k)
        kernel.when(kernel.is_less(k + 1, size), lambda: reflect_columns_right(k))

    def reflect_column(k: DimLike) -> None:
        def larger(i: DimLike, most: tuple[Var, ...]) -> tuple[Var, ...]:
            return (s.max(most[0], greatest_part(kernel, work[i, k])),)

        (most,) = kernel.recorder.serial(size, (s.const(0.0),), larger, begin=k)
        power, inverse = power_below(kernel, most)

        def add_square(i: DimLike, total: tuple[Var, ...]) -> tuple[Var, ...]:
            return (s.add(total[0], numbers.squared(numbers.scale(work[i, k], inverse))),)

        (rest,) = kernel.recorder.serial(size, (s.const(0.0),), add_square, begin=k + 1)
        head, scale, tau = reflection_of(kernel, numbers.scale(work[k, k], inverse), rest)
        matrix.diagonal[0, k] = (s.mul(head, power),)
        left.scales[0, k] = tau

        def element(i: DimLike) -> None:
            is_first = kernel.integers.cmp("eq", kernel.value(i), kernel.value(k))
            other = numbers.mul(numbers.scale(work[i, k], inverse), scale)
            value = numbers.select(is_first, numbers.const(1.0), other)
            vector[0, i] = value
            left.vectors[i, k] = value

        kernel.each(size, element, k)
        negative = numbers.neg(numbers.conj(tau))

        def project(j: DimLike) -> None:
            def add(i: DimLike, total: tuple[Var, ...]) -> tuple[Var, ...]:
                return numbers.add_product(total, numbers.conj(vector[0, i]), work[i, j])

            dot = kernel.recorder.serial(size, numbers.const(0.0), add, begin=k)
            product[0, j] = numbers.mul(negative, dot)

        kernel.along(size, project, k + 1)

        def subtract(i: DimLike) -> None:
            factor = vector[0, i]

            def column(j: DimLike) -> None:
                work[i, j] = numbers.add_product(work[i, j], factor, product[0, j])

            kernel.along(size, column, k + 1)

        kernel.each(size, subtract, k)

    def reflect_columns_right(k: DimLike) -> None:
        head, tau = reflect_row(kernel, work, k, size, vector, right)
        matrix.beside[0, k + 1] = (head,)

        def row(i: DimLike) -> None:
            dot = kernel.sum(
                size - 1 - k, lambda t: numbers.mul(work[i, k + 1 + t], vector[0, k + 1 + t]), numbers.parts
            )
            factor = numbers.neg(numbers.mul(tau, dot))

            def column(j: DimLike) -> None:
                work[i, j] = numbers.add_product(work[i, j], factor, numbers.conj(vector[0, j]))

            kernel.along(size, column, k + 1)

        kernel.each(size, row, k + 1)

    kernel.each(size, step)


def _one_value(matrix: Bidiagonal, last: DimLike, u: Matrix, vh: Matrix, state: Matrix) -> None:
    """Steps until the element above the diagonal's at ``last`` is negligible."""
    kernel = matrix.kernel
    integers = kernel.integers
    state[0, 0] = (integers.const(1),)

    def one_step(number: DimLike) -> None:
        kernel.when(integers.cmp("ne", state[0, 0][0], integers.const(0)), lambda: look(number))

    def look(number: DimLike) -> None:
        begin = _split_before(matrix, last, negligible(kernel, number, PATIENCE))
        is_done = integers.cmp("eq", begin, kernel.value(last))
        final = integers.cmp("eq", kernel.value(number), integers.const(MOST_STEPS - 1))
        kernel.check(kernel.logic.or_(is_done, kernel.logic.not_(final)), NOT_CONVERGED)
        state[0, 0] = (integers.cast(kernel.logic.not_(is_done), int64),)
        first = kernel.index(begin, matrix.size)
        kernel.when(kernel.logic.not_(is_done), lambda: sweep(first))

    def sweep(first: DimLike) -> None:
        shift, is_none = _shift(matrix, first, last)
        kernel.when(is_none, lambda: _plain_sweep(matrix, first, last))
        kernel.when(kernel.logic.not_(is_none), lambda: _shifted_sweep(matrix, first, last, shift))
        matrix.beside[0, first] = (kernel.ops.const(0.0),)
        rotate_rows_up(kernel, vh, (first, last), matrix.size, *matrix.right)
        rotate_rows_up(kernel, u, (first, last), matrix.size, *matrix.left)

    kernel.each(MOST_STEPS, one_step)


def _split_before(matrix: Bidiagonal, last: DimLike, smallest: Var) -> Var:
    """The last row up to ``last`` before which the element above the diagonal's is negligible."""
    kernel = matrix.kernel
    s, integers = kernel.ops, kernel.integers
    least = s.const(EPSILON[kernel.dtype] ** 2)

    def element(t: DimLike) -> tuple[Var, ...]:
        i = t + 1
        e = matrix.beside[0, i][0]
        around = s.mul(s.abs(matrix.diagonal[0, t][0]), s.abs(matrix.diagonal[0, i][0]))
        small = s.cmp("le", s.mul(e, e), s.max(s.mul(least, around), smallest))
        return (integers.select(small, kernel.value(i), integers.const(0)),)

    (split,) = kernel.recorder.reduce(last, (integers.const(0),), element, lambda s, x, y: (s.max(x[0], y[0]),), 8)
    return split


def _shift(matrix: Bidiagonal, first: DimLike, last: DimLike) -> tuple[Var, Var]:
    """The lesser singular value of the last two rows, and whether a step without a shift is due.

    That is so where a diagonal element is tiny, and where the shift is negligible beside the first.
    """
    kernel = matrix.kernel
    s = kernel.ops
    f, h = (s.abs(matrix.diagonal[0, i][0]) for i in (last - 1, last))
    g = matrix.beside[0, last][0]
    plus, minus = s.add(f, h), s.sub(f, h)
    square = s.mul(g, g)
    twice = s.add(s.sqrt(s.fma(plus, plus, square)), s.sqrt(s.fma(minus, minus, square)))
    none = s.cmp("eq", twice, s.const(0.0))
    shift = s.div(s.mul(s.const(2.0), s.mul(f, h)), s.select(none, s.const(1.0), twice))

    def smallest(t: DimLike) -> tuple[Var, ...]:
        return (s.abs(matrix.diagonal[0, first + t][0]),)

    (low,) = kernel.recorder.reduce(
        last + 1 - first, (s.const(float("inf")),), smallest, lambda s, x, y: (s.min(x[0], y[0]),), 8
    )
    head = s.abs(matrix.diagonal[0, first][0])
    eps = s.const(EPSILON[kernel.dtype])
    tiny = s.cmp("le", low, eps)
    useless = s.cmp("le", s.mul(shift, shift), s.mul(eps, s.mul(head, head)))
    return shift, kernel.logic.or_(tiny, useless)


def _plain_sweep(matrix: Bidiagonal, first: DimLike, last: DimLike) -> None:
    kernel, d, e = matrix.kernel, matrix.diagonal, matrix.beside
    s = kernel.ops
    one, zero = s.const(1.0), s.const(0.0)

    def step(turn: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        cosine, before, sine_before = carried
        i = first + turn
        cosine, sine, r = rotation(kernel, s.mul(d[0, i][0], cosine), e[0, i + 1][0])
        e[0, i] = (s.mul(sine_before, r),)
        before, sine_before, r = rotation(kernel, s.mul(before, r), s.mul(d[0, i + 1][0], sine))
        d[0, i] = (r,)
        _note(matrix, i, (before, sine_before), (cosine, sine))
        return cosine, before, sine_before

    cosine, before, sine_before = kernel.recorder.serial(last - first, (one, one, zero), step)
    rest = s.mul(d[0, last][0], cosine)
    d[0, last] = (s.mul(rest, before),)
    e[0, last] = (s.mul(rest, sine_before),)


def _shifted_sweep(matrix: Bidiagonal, first: DimLike, last: DimLike, shift: Var) -> None:
    kernel, d, e = matrix.kernel, matrix.diagonal, matrix.beside
    s = kernel.ops
    head = d[0, first][0]
    sign = s.select(s.cmp("lt", head, s.const(0.0)), s.const(-1.0), s.const(1.0))
    start = s.mul(s.sub(s.abs(head), shift), s.add(sign, s.div(shift, head)))

    def step(turn: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        f, g = carried
        i = first + turn
        cosine, sine, r = rotation(kernel, f, g)
        e[0, i] = (r,)
        above, beside, below = d[0, i][0], e[0, i + 1][0], d[0, i + 1][0]
        f = s.fma(cosine, above, s.mul(sine, beside))
        beside = s.fma(cosine, beside, s.neg(s.mul(sine, above)))
        cosine_left, sine_left, r = rotation(kernel, f, s.mul(sine, below))
        below = s.mul(cosine, below)
        d[0, i] = (r,)
        f = s.fma(cosine_left, beside, s.mul(sine_left, below))
        d[0, i + 1] = (s.fma(cosine_left, below, s.neg(s.mul(sine_left, beside))),)
        following = e[0, i + 2][0]
        e[0, i + 2] = (s.mul(cosine_left, following),)
        _note(matrix, i, (cosine_left, sine_left), (cosine, sine))
        return f, s.mul(sine_left, following)

    following = e[0, last + 1][0]
    f, _ = kernel.recorder.serial(last - first, (start, e[0, first + 1][0]), step)
    e[0, last] = (f,)
    e[0, last + 1] = (following,)


def _note(matrix: Bidiagonal, i: DimLike, left: tuple[Var, Var], right: tuple[Var, Var]) -> None:
    for side, pair in (matrix.left, left), (matrix.right, right):
        for memory, number in zip(side, pair, strict=True):
            memory[0, i] = (number,)
