"""Householder reflections in blocks, and the QR decomposition by them.

A reflection is I - tau v v.H, v with 1 in front, as LAPACK has it (G. Golub and C. Van Loan, Matrix computations, 4th
ed., 2013, section 5.1); BLOCK of them are I - V T V.H (R. Schreiber and C. Van Loan, A storage-efficient WY
representation for products of Householder transformations, 1989). Matrices are scaled by a power of two first, so that
no square overflows. Backward error and loss of orthogonality are at most about m n eps, in practice a few eps.
"""

from __future__ import annotations

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.matrices.elimination import copy_padded
from jitgraph.codegen.lower.matrices.workspace import BLOCK, LEAST_NORMAL, ROWS, Matrix, MatrixKernel, Number
from jitgraph.dtypes import float64, int32, int64
from jitgraph.ir.dims import DimLike


def greatest(kernel: MatrixKernel, source: Matrix, rows: DimLike, columns: DimLike) -> Var:
    """The greatest magnitude of a part of an element; NaN where there is one."""
    s, recorder = kernel.ops, kernel.recorder
    zero = s.const(0.0)

    def row(i: DimLike, most: tuple[Var, ...]) -> tuple[Var, ...]:
        def element(j: DimLike) -> tuple[Var, ...]:
            return (greatest_part(kernel, source[i, j]),)

        (row_max,) = recorder.reduce(columns, (zero,), element, lambda s, x, y: (s.max(x[0], y[0]),), 8)
        return (s.max(most[0], row_max),)

    return recorder.serial(rows, (zero,), row)[0]


def greatest_part(kernel: MatrixKernel, x: Number) -> Var:
    """The greatest magnitude of a part of a number."""
    parts = [kernel.ops.abs(part) for part in x]
    return parts[0] if len(parts) == 1 else kernel.ops.max(*parts)


def power_below(kernel: MatrixKernel, x: Var) -> tuple[Var, Var]:
    """The greatest power of two up to x, and its inverse; of 0 the least, and 1 of what is not finite."""
    s = kernel.ops
    wide = kernel.dtype == float64
    bits = s.bitcast(x, int64 if wide else int32)
    mask = s.const(0x7FF0000000000000 if wide else 0x7F800000, bits.dtype)
    power = s.bitcast(s.and_(bits, mask), kernel.dtype)
    finite = s.cmp("lt", power, s.const(float("inf")))
    power = s.select(finite, s.max(power, s.const(LEAST_NORMAL[kernel.dtype])), s.const(1.0))
    return power, s.div(s.const(1.0), power)


def write_qr(kernel: MatrixKernel, *, complete: bool) -> None:
    """Q and R; of ``complete`` ones Q is square."""
    rows, columns = kernel.rows, kernel.columns
    shared = kernel.results[0].type.shape[-1]  # columns of Q, rows of R
    height, width, across = kernel.padded(rows), kernel.padded(columns), kernel.padded(shared)
    numbers = kernel.numbers
    with kernel.each_matrix():
        source = kernel.operand()
        power, inverse = power_below(kernel, greatest(kernel, source, rows, columns))
        r = kernel.matrix(height, width + BLOCK)  # rows of a power of two of bytes would share few lines of the cache
        least = kernel.integers.min(kernel.value(rows), kernel.value(columns))
        count = kernel.index(least, columns + 1) if complete else shared
        reflections = Reflections(kernel, height, kernel.padded(columns if complete else shared))
        copy_padded(kernel, source, r, (rows, columns), (height, width), inverse)
        blocks = kernel.padded(count) // BLOCK
        reduce_columns(kernel, reflections, r, blocks, width)
        q_found, r_found = kernel.result(), kernel.result(kernel.parts)

        def r_row(i: DimLike) -> None:
            def column(j: DimLike) -> None:
                value = numbers.scale(r[i, j], power)
                r_found[i, j] = numbers.select(kernel.is_less(j, i), numbers.const(0.0), value)

            kernel.along(columns, column)

        kernel.each(shared, r_row)
        q = kernel.matrix(height, across + BLOCK)
        kernel.identity(q, height, across)
        reflections.multiply(blocks, q, across)
        kernel.each(rows, lambda i: kernel.along(shared, lambda j: q_found.store(i, j, q[i, j])))
    kernel.launch()


def reduce_columns(kernel: MatrixKernel, reflections: Reflections, r: Matrix, blocks: DimLike, width: DimLike) -> None:
    """Reflections that make a padded matrix upper triangular, as far as its diagonal is concerned, in place."""

    def block(number: DimLike) -> None:
        first = BLOCK * number
        kernel.each(BLOCK, lambda k: _reflect_column(kernel, reflections, r, first, k))
        reflections.join(number)
        reflections.apply(number, r, (first + BLOCK, width), adjoint=True)

    kernel.each(blocks, block)


def _reflect_column(kernel: MatrixKernel, reflections: Reflections, r: Matrix, first: DimLike, step: DimLike) -> None:
    """Zeros below the diagonal of a column of a block, and the same reflection of the block's later columns."""
    numbers, s = kernel.numbers, kernel.ops
    at = first + step
    vectors, height = reflections.vectors, reflections.height

    def larger(i: DimLike, most: tuple[Var, ...]) -> tuple[Var, ...]:
        return (s.max(most[0], greatest_part(kernel, r[i, at])),)

    (most,) = kernel.recorder.serial(height, (s.const(0.0),), larger, begin=at)
    power, inverse = power_below(kernel, most)  # so that squares lose nothing

    def add_square(i: DimLike, total: tuple[Var, ...]) -> tuple[Var, ...]:
        return (s.add(total[0], numbers.squared(numbers.scale(r[i, at], inverse))),)

    (rest,) = kernel.recorder.serial(height, (s.const(0.0),), add_square, begin=at + 1)
    head, scale, tau = reflection_of(kernel, numbers.scale(r[at, at], inverse), rest)
    reflections.scales[0, at] = tau
    r[at, at] = numbers.real(s.mul(head, power))
    kernel.each(at, lambda i: vectors.store(i, at, numbers.const(0.0)))
    vectors[at, at] = numbers.const(1.0)
    kernel.each(height, lambda i: vectors.store(i, at, numbers.mul(numbers.scale(r[i, at], inverse), scale)), at + 1)
    negative = numbers.neg(numbers.conj(tau))

    def project(j: DimLike) -> None:
        def add(i: DimLike, total: Number) -> Number:
            return numbers.add_product(total, numbers.conj(vectors[i, at]), r[i, first + j])

        dot = kernel.recorder.serial(height, numbers.const(0.0), add, begin=at)
        reflections.products[0, j] = numbers.mul(negative, dot)

    kernel.along(BLOCK, project, step + 1)

    def subtract(i: DimLike) -> None:
        factor = vectors[i, at]

        def column(j: DimLike) -> None:
            index = i, first + j
            r[index] = numbers.add_product(r[index], factor, reflections.products[0, j])

        kernel.along(BLOCK, column, step + 1)

    kernel.each(height, subtract, at)


def reflection_of(kernel: MatrixKernel, head: Number, rest: Var) -> tuple[Var, Number, Number]:
    """What a reflection makes of ``head`` over numbers whose squares sum to ``rest``, and the reflection.

    That is a real number over zeros; then the factor of the numbers in v, and tau. Both are 0 where there is nothing to
    reflect.
    """
    numbers, s = kernel.numbers, kernel.ops
    zero = s.const(0.0)
    done = s.cmp("eq", rest, zero)
    if numbers.is_complex:
        done = kernel.both(done, s.cmp("eq", head[1], zero))
    length = s.sqrt(s.add(numbers.squared(head), rest))
    beta = s.select(s.cmp("lt", head[0], zero), length, s.neg(length))
    safe = s.select(done, s.const(1.0), beta)
    over = s.div(s.const(1.0), safe)
    tau: Number = (s.mul(s.sub(safe, head[0]), over), *(s.neg(s.mul(part, over)) for part in head[1:]))
    difference = numbers.sub(head, numbers.real(safe))
    scale = numbers.inverse(numbers.select(done, numbers.const(1.0), difference))
    nothing = numbers.const(0.0)
    return (
        s.select(done, head[0], beta),
        numbers.select(done, nothing, scale),
        numbers.select(done, nothing, tau),
    )


class Reflections:
    """Reflections of vectors of ``height``, up to ``most`` of them in whole blocks: vectors are columns of a matrix."""

    def __init__(self, kernel: MatrixKernel, height: DimLike, most: DimLike) -> None:
        self.kernel, self.height = kernel, height
        self.vectors = kernel.matrix(height, most + BLOCK)
        self.scales = kernel.vector(most, parts=kernel.parts)
        self.triangles = kernel.matrix(most, BLOCK)
        self.products = kernel.matrix(BLOCK, kernel.padded(kernel.columns) + kernel.padded(kernel.rows))
        self.gram = kernel.matrix(BLOCK, BLOCK)

    def clear(self, most: DimLike) -> None:
        """No reflections yet, ``most`` of them."""
        nothing = self.kernel.numbers.const(0.0)
        kernel, vectors = self.kernel, self.vectors
        kernel.each(self.height, lambda i: kernel.along(most, lambda k: vectors.store(i, k, nothing)))
        kernel.along(most, lambda k: self.scales.store(0, k, nothing))

    def multiply(self, blocks: DimLike, target: Matrix, columns: DimLike) -> None:
        """The product of all reflections times a matrix, in its place."""
        kernel = self.kernel
        kernel.each(blocks, lambda turn: self.apply(blocks - 1 - turn, target, (0, columns), adjoint=False))

    def product(self, blocks: DimLike) -> Matrix:
        """The product of all reflections, whose blocks are joined here."""
        kernel = self.kernel
        kernel.each(blocks, self.join)
        q = kernel.matrix(self.height, self.height + BLOCK)  # see write_qr
        kernel.identity(q, self.height, self.height)
        self.multiply(blocks, q, self.height)
        return q

    def join(self, number: DimLike) -> None:
        """The triangle T of a block whose vectors are known."""
        kernel, numbers = self.kernel, self.kernel.numbers
        first = BLOCK * number

        def product(j: DimLike) -> None:
            projected = self._projected(number, self.vectors, first + j)
            for p, value in enumerate(projected):
                self.gram[p, j] = value

        kernel.along(BLOCK, product)

        def column(k: DimLike) -> None:
            tau = self.scales[0, first + k]
            kernel.along(BLOCK, lambda p: self.triangles.store(first + p, k, numbers.const(0.0)))
            self.triangles[first + k, k] = tau
            negative = numbers.neg(tau)

            def element(p: DimLike) -> None:
                def add(q: DimLike, total: Number) -> Number:
                    return numbers.add_product(total, self.triangles[first + p, q], self.gram[q, k])

                dot = kernel.recorder.serial(k, numbers.const(0.0), add, begin=p)
                self.triangles[first + p, k] = numbers.mul(negative, dot)

            kernel.each(k, element)

        kernel.each(BLOCK, column)

    def _projected(self, number: DimLike, target: Matrix, column: DimLike) -> list[Number]:
        """V.H times a column of the target."""
        numbers = self.kernel.numbers
        first = BLOCK * number
        parts = numbers.parts

        def add(i: DimLike, totals: tuple[Var, ...]) -> tuple[Var, ...]:
            value = target[i, column]
            updated: list[Var] = []
            for p in range(BLOCK):
                total = totals[p * parts : (p + 1) * parts]
                updated += numbers.add_product(total, numbers.conj(self.vectors[i, first + p]), value)
            return tuple(updated)

        zeros = numbers.const(0.0) * BLOCK
        sums = self.kernel.recorder.serial(self.height, zeros, add, begin=first)
        return [sums[p * parts : (p + 1) * parts] for p in range(BLOCK)]

    def apply(self, number: DimLike, target: Matrix, columns: tuple[DimLike, DimLike], *, adjoint: bool) -> None:
        """A block's reflections of the columns of a matrix, or their adjoint."""
        kernel, numbers = self.kernel, self.kernel.numbers
        first = BLOCK * number
        order = [(p, q) for p in range(BLOCK) for q in range(p, BLOCK)]
        triangle = {(p, q): self.triangles[first + p, q] for p, q in order}
        if adjoint:
            triangle = {(q, p): numbers.conj(value) for (p, q), value in triangle.items()}

        def project(j: DimLike) -> None:
            projected = self._projected(number, target, j)
            for p in range(BLOCK):
                total = numbers.const(0.0)
                for q in range(BLOCK):
                    if (p, q) in triangle:
                        total = numbers.add_product(total, triangle[p, q], projected[q])
                self.products[p, j] = total

        kernel.along(columns[1], project, columns[0])
        kernel.subtract_products(
            target,
            (BLOCK // ROWS * number, self.height // ROWS),
            columns,
            lambda i, p: self.vectors[i, first + p],
            lambda p, j: self.products[p, j],
        )
