"""Cholesky factors in blocks of rows: right-looking, of the upper factor, whose rows lie side by side in memory.

G. Golub and C. Van Loan, Matrix computations (4th ed., 2013), sections 4.2.6 and 4.2.9. The backward error is at most
that of the unblocked algorithm, about (n + 1) eps in norm.
"""

from __future__ import annotations

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.matrices.numbers import Number
from jitgraph.codegen.lower.matrices.workspace import BLOCK, ROWS, Matrix, MatrixKernel
from jitgraph.ir.dims import DimLike


def write_cholesky(kernel: MatrixKernel) -> None:
    """The lower factors of the means of the operand and its conjugate transpose."""
    size = kernel.rows
    padded = kernel.padded(size)
    with kernel.each_matrix():
        upper = kernel.matrix(padded, padded)
        inverses = kernel.vector(BLOCK)
        copy_mean(kernel, kernel.operand(), upper, size, padded)
        kernel.each(padded // BLOCK, lambda block: _block(kernel, upper, inverses, block, size, padded))
        factor = kernel.result()

        def row(i: DimLike) -> None:
            def column(j: DimLike) -> None:
                value = kernel.numbers.conj(upper[j, i])
                factor[i, j] = kernel.numbers.select(kernel.is_less(i, j), kernel.numbers.const(0.0), value)

            kernel.along(size, column)

        kernel.each(size, row)
    kernel.launch()


def copy_mean(
    kernel: MatrixKernel, source: Matrix, target: Matrix, size: DimLike, padded: DimLike, scale: Var | None = None
) -> None:
    """The mean of a matrix and its conjugate transpose, to the bit itself where it is one, and that times ``scale``.

    Beyond it stands the identity.
    """
    numbers, s = kernel.numbers, kernel.ops
    half = s.const(0.5)

    def mean(x: Var, y: Var) -> Var:
        return s.select(s.cmp("eq", x, y), x, s.add(s.mul(half, x), s.mul(half, y)))

    def row(i: DimLike) -> None:
        def column(j: DimLike) -> None:
            inside = kernel.both(kernel.is_less(i, size), kernel.is_less(j, size))
            x, y = source.load(i, j, inside), numbers.conj(source.load(j, i, inside))
            on_diagonal = kernel.integers.cmp("eq", kernel.value(i), kernel.value(j))
            outside = numbers.real(s.select(on_diagonal, s.const(1.0), s.const(0.0)))
            value = tuple(map(mean, x, y))
            target[i, j] = numbers.select(inside, value if scale is None else numbers.scale(value, scale), outside)

        kernel.along(padded, column)

    kernel.each(padded, row)


def _block(
    kernel: MatrixKernel, upper: Matrix, inverses: Matrix, block: DimLike, size: DimLike, padded: DimLike
) -> None:
    numbers, s = kernel.numbers, kernel.ops
    first = BLOCK * block

    def pivot(k: DimLike) -> None:
        square = upper[first + k, first + k][0]
        kernel.check(kernel.logic.not_(s.cmp("le", square, s.const(0.0))), "a matrix is not positive definite")
        root = s.sqrt(square)
        inverse = s.div(s.const(1.0), root)
        inverses[0, k] = (inverse,)
        upper[first + k, first + k] = numbers.real(root)

        def scale(j: DimLike) -> None:
            upper[first + k, first + j] = numbers.scale(upper[first + k, first + j], inverse)

        kernel.along(BLOCK, scale, k + 1)

        def below(i: DimLike) -> None:
            factor = numbers.neg(numbers.conj(upper[first + k, first + i]))

            def column(j: DimLike) -> None:
                at = first + i, first + j
                upper[at] = numbers.add_product(upper[at], factor, upper[first + k, first + j])

            kernel.along(BLOCK, column, i)

        kernel.each(BLOCK, below, k + 1)

    kernel.each(BLOCK, pivot)
    factors = {(p, k): numbers.neg(numbers.conj(upper[first + p, first + k])) for k in range(BLOCK) for p in range(k)}
    scales = [inverses[0, k][0] for k in range(BLOCK)]

    def right(j: DimLike) -> None:
        solved: list[Number] = []
        for k in range(BLOCK):
            value = upper[first + k, j]
            for p in range(k):
                value = numbers.add_product(value, factors[p, k], solved[p])
            solved.append(numbers.scale(value, scales[k]))
        for k in range(BLOCK):
            upper[first + k, j] = solved[k]

    kernel.along(padded, right, first + BLOCK)
    kernel.subtract_products(
        upper,
        (BLOCK // ROWS * (block + 1), padded // ROWS),
        (lambda row: row, padded),
        lambda i, p: numbers.conj(upper[first + p, i]),
        lambda p, j: upper[first + p, j],
    )
