"""Factorisations by elimination in blocks: Cholesky, LU with row exchanges, and systems with triangular matrices."""

from __future__ import annotations

from collections.abc import Callable

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.matrices.workspace import BLOCK, ROWS, Matrix, MatrixKernel, Number
from jitgraph.dtypes import int32, int64
from jitgraph.ir.dims import DimLike

# ----------------------------------------------------------------------
# Cholesky factors in blocks of rows: right-looking, of the upper factor, whose rows lie side by side in memory.
#
# G. Golub and C. Van Loan, Matrix computations (4th ed., 2013), sections 4.2.6 and 4.2.9. The backward error is at most
# that of the unblocked algorithm, about (n + 1) eps in norm.


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


# ----------------------------------------------------------------------
# Elimination with exchanges of rows, and systems with triangular matrices, in blocks.
#
# G. Golub and C. Van Loan, Matrix computations (4th ed., 2013), algorithms 3.1.3, 3.4.1 and section 3.2.11. A pivot is
# the first of the greatest in its column, as LAPACK takes it.


def write_elimination(kernel: MatrixKernel) -> None:
    """L and U in one matrix, the rows' exchanges, and the order of rows."""
    lesser = kernel.results[kernel.parts].type.shape[-1]
    rows, columns = kernel.rows, kernel.columns
    height, width = kernel.padded(rows), kernel.padded(columns)
    integers = kernel.integers
    with kernel.each_matrix():
        lu = kernel.matrix(height, width)
        order = kernel.vector(height, int64)
        exchanges = kernel.vector(kernel.padded(lesser), int64)
        copy_padded(kernel, kernel.operand(), lu, (rows, columns), (height, width))
        kernel.along(height, lambda i: order.store(0, i, (kernel.value(i),)))

        def exchange(at: DimLike, row: DimLike) -> None:
            here, there = order[0, at], order[0, row]
            order[0, at] = there
            order[0, row] = here

        def note(at: DimLike, chosen: Var) -> None:
            exchanges[0, at] = (chosen,)

        eliminate(kernel, lu, lesser, exchange, note)
        out = kernel.result()
        kernel.each(rows, lambda i: kernel.along(columns, lambda j: out.store(i, j, lu[i, j])))
        pivots, permutation = (kernel.result(kernel.parts + i, parts=1) for i in range(2))

        def exchanged(k: DimLike) -> None:
            pivots[0, k] = (integers.cast(integers.add(exchanges[0, k][0], integers.const(1)), int32),)

        kernel.along(lesser, exchanged)
        kernel.along(rows, lambda i: permutation.store(0, i, order[0, i]))
    kernel.launch()


def write_solve(kernel: MatrixKernel) -> None:
    """The x for which the first operand times x is the second, or the inverse where there is no second one.

    The right sides stand beside the matrix, so that elimination is forward substitution too.
    """
    numbers = kernel.numbers
    size = kernel.rows
    padded = kernel.padded(size)
    found_type = kernel.results[0].type
    count = found_type.shape[-1]
    with kernel.each_matrix():
        a = kernel.operand()
        work = kernel.matrix(padded, padded + count)
        is_inverse = len(kernel.operands) == kernel.parts
        b = None if is_inverse else kernel.operand(kernel.parts)
        copy_padded(kernel, a, work, (size, size), (padded, padded))

        def right_row(i: DimLike) -> None:
            def column(j: DimLike) -> None:
                if b is None:
                    same = kernel.integers.cmp("eq", kernel.value(i), kernel.value(j))
                    value = numbers.real(kernel.ops.select(same, kernel.ops.const(1.0), kernel.ops.const(0.0)))
                else:
                    value = b.load(i, j, kernel.is_less(i, size))
                work[i, padded + j] = value

            kernel.along(count, column)

        kernel.each(padded, right_row)
        eliminate(kernel, work, size, singular="a matrix is singular")
        blocks = padded // BLOCK

        def back(turn: DimLike) -> None:
            first = BLOCK * (blocks - 1 - turn)
            factors = {
                (k, p): numbers.neg(work[first + k, first + p]) for k in range(BLOCK) for p in range(k + 1, BLOCK)
            }
            pivots = [_or_one(kernel, work[first + k, first + k]) for k in range(BLOCK)]

            def column(j: DimLike) -> None:
                solved: dict[int, Number] = {}
                for k in reversed(range(BLOCK)):
                    value = work[first + k, padded + j]
                    for p in range(k + 1, BLOCK):
                        value = numbers.add_product(value, factors[k, p], solved[p])
                    solved[k] = numbers.div(value, pivots[k])
                for k in range(BLOCK):
                    work[first + k, padded + j] = solved[k]

            kernel.along(count, column)
            kernel.subtract_products(
                work,
                (0, BLOCK // ROWS * (blocks - 1 - turn)),
                (padded, padded + count),
                lambda i, p: work[i, first + p],
                lambda p, j: work[first + p, j],
            )

        kernel.each(blocks, back)
        out = kernel.result()
        kernel.each(size, lambda i: kernel.along(count, lambda j: out.store(i, j, work[i, padded + j])))
    kernel.launch()


def write_determinant(kernel: MatrixKernel) -> None:
    """The determinants, or their signs and the logarithms of their magnitudes."""
    numbers, s = kernel.numbers, kernel.ops
    size = kernel.rows
    padded = kernel.padded(size)
    with kernel.each_matrix():
        lu = kernel.matrix(padded, padded)
        turns = kernel.vector(1)
        copy_padded(kernel, kernel.operand(), lu, (size, size), (padded, padded))
        turns[0, 0] = (s.const(1.0),)

        def exchange(at: DimLike, row: DimLike) -> None:
            turns[0, 0] = numbers.neg(turns[0, 0])

        eliminate(kernel, lu, size, exchange)
        sign = numbers.real(turns[0, 0][0])
        number = kernel.number
        if len(kernel.results) == kernel.parts:

            def multiply(k: DimLike, product: Number) -> Number:
                return numbers.mul(product, lu[k, k])

            _store_numbers(kernel, 0, kernel.recorder.serial(size, sign, multiply), number)
        else:

            def add(k: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                length, direction = numbers.polar(lu[k, k])
                return (*numbers.mul(carried[:-1], direction), s.add(carried[-1], s.call("log", length)))

            *signs, total = kernel.recorder.serial(size, (*sign, s.const(0.0)), add)
            _store_numbers(kernel, 0, tuple(signs), number)
            _store_numbers(kernel, kernel.parts, (total,), number)
    kernel.launch()


def _store_numbers(kernel: MatrixKernel, first: int, value: Number, number: DimLike) -> None:
    for storage, part in zip(kernel.results[first:], value, strict=False):
        kernel.recorder.store(storage, number, part)


def eliminate(
    kernel: MatrixKernel,
    lu: Matrix,
    lesser: DimLike,
    exchange: Callable[[DimLike, DimLike], None] | None = None,
    note: Callable[[DimLike, Var], None] | None = None,
    singular: str | None = None,
) -> None:
    """Factor a padded matrix, and what stands to its right, in place.

    ``exchange(i, j)`` is told of exchanged rows, ``note(i, chosen)`` of each choice; where ``singular`` is given a
    pivot of 0 is that error. ``lesser`` steps have a choice of pivots.
    """
    height, width = kernel.padded(kernel.rows), lu.stride

    def block(number: DimLike) -> None:
        first = BLOCK * number
        kernel.each(BLOCK, lambda k: _pivot(kernel, lu, first, k, lesser, exchange, note, singular))
        factors = _factors(kernel, lu, first, first)
        kernel.along(width, lambda j: _substitute(kernel, lu, first, j, factors, None), first + BLOCK)
        kernel.subtract_products(
            lu,
            (BLOCK // ROWS * (number + 1), height // ROWS),
            (first + BLOCK, width),
            lambda i, p: lu[i, first + p],
            lambda p, j: lu[first + p, j],
        )

    kernel.each(kernel.padded(lesser) // BLOCK, block)


def copy_padded(
    kernel: MatrixKernel,
    source: Matrix,
    target: Matrix,
    extents: tuple[DimLike, DimLike],
    padded: tuple[DimLike, DimLike],
    scale: Var | None = None,
    *,
    adjoint: bool = False,
) -> None:
    """A copy of a matrix or its adjoint, scaled by ``scale``, with zeros beyond it; ``extents`` are the copy's."""

    def row(i: DimLike) -> None:
        def column(j: DimLike) -> None:
            inside = kernel.both(kernel.is_less(i, extents[0]), kernel.is_less(j, extents[1]))
            value = kernel.numbers.conj(source.load(j, i, inside)) if adjoint else source.load(i, j, inside)
            target[i, j] = value if scale is None else kernel.numbers.scale(value, scale)

        kernel.along(padded[1], column)

    kernel.each(padded[0], row)


def _or_one(kernel: MatrixKernel, x: Number) -> Number:
    """x, and 1 where it is 0."""
    zero = kernel.ops.cmp("eq", kernel.numbers.size(x), kernel.ops.const(0.0))
    return kernel.numbers.select(zero, kernel.numbers.const(1.0), x)


def _pivot(
    kernel: MatrixKernel,
    lu: Matrix,
    first: DimLike,
    step: DimLike,
    lesser: DimLike,
    exchange: Callable[[DimLike, DimLike], None] | None,
    note: Callable[[DimLike, Var], None] | None,
    singular: str | None,
) -> None:
    """One column of a block: exchange its rows, divide by the pivot, and eliminate in the block."""
    numbers, s, integers = kernel.numbers, kernel.ops, kernel.integers
    at = first + step
    rows, height, width = kernel.rows, kernel.padded(kernel.rows), lu.stride

    def larger(i: DimLike, best: tuple[Var, ...]) -> tuple[Var, ...]:
        size = numbers.size(lu[i, at])
        better = s.cmp("gt", size, best[0])
        return s.select(better, size, best[0]), integers.select(better, kernel.value(i), best[1])

    is_real = kernel.is_less(at, lesser)
    end = kernel.index(integers.select(is_real, kernel.value(rows), kernel.value(at)), rows + 1)
    init = numbers.size(lu[at, at]), kernel.value(at)
    greatest, chosen = kernel.recorder.serial(end, init, larger, begin=at + 1)
    row = kernel.index(chosen, height)
    if note is not None:
        note(at, chosen)
    if singular is not None:
        is_zero = kernel.both(is_real, s.cmp("eq", greatest, s.const(0.0)))
        kernel.check(kernel.logic.not_(is_zero), singular)

    def exchange_rows() -> None:
        def column(j: DimLike) -> None:
            one, two = lu[at, j], lu[row, j]
            lu[at, j] = two
            lu[row, j] = one

        kernel.along(width, column)
        if exchange is not None:
            exchange(at, row)

    kernel.when(integers.cmp("ne", chosen, kernel.value(at)), exchange_rows)
    pivot = _or_one(kernel, lu[at, at])  # all below a pivot of 0 is 0 too

    def eliminate_row(i: DimLike) -> None:
        factor = numbers.div(lu[i, at], pivot)
        lu[i, at] = factor
        negative = numbers.neg(factor)

        def column(j: DimLike) -> None:
            index = i, first + j
            lu[index] = numbers.add_product(lu[index], negative, lu[at, first + j])

        kernel.along(BLOCK, column, step + 1)

    kernel.each(height, eliminate_row, at + 1)


def _factors(kernel: MatrixKernel, lower: Matrix, row: DimLike, column: DimLike) -> dict[tuple[int, int], Number]:
    """The elements below the diagonal of a block, with their signs turned."""
    return {(k, p): kernel.numbers.neg(lower[row + k, column + p]) for k in range(BLOCK) for p in range(k)}


def _substitute(
    kernel: MatrixKernel,
    x: Matrix,
    first: DimLike,
    column: DimLike,
    factors: dict[tuple[int, int], Number],
    pivots: list[Number] | None,
) -> None:
    """A column of the rows of a block, solved by the block's lower triangle; without ``pivots`` a unit one."""
    numbers = kernel.numbers
    solved: list[Number] = []
    for k in range(BLOCK):
        value = x[first + k, column]
        for p in range(k):
            value = numbers.add_product(value, factors[k, p], solved[p])
        solved.append(value if pivots is None else numbers.div(value, pivots[k]))
    for k, value in enumerate(solved):
        x[first + k, column] = value


def write_substitution(kernel: MatrixKernel, *, upper: bool, unit: bool) -> None:
    """The x for which a triangle of the first operand times x is the second; an upper one is read backwards."""
    numbers, s = kernel.numbers, kernel.ops
    size = kernel.rows
    padded = kernel.padded(size)

    def turned(i: DimLike) -> DimLike:
        return size - 1 - i if upper else i

    with kernel.each_matrix():
        a, b = kernel.operand(), kernel.operand(kernel.parts)
        out = kernel.result()
        count = b.stride
        triangle, x = kernel.matrix(padded, padded), kernel.matrix(padded, count)
        pivots = kernel.vector(BLOCK, parts=kernel.parts)

        def row(i: DimLike) -> None:
            def column(j: DimLike) -> None:
                inside = kernel.both(kernel.is_less(i, size), kernel.is_less(j, i + 1))
                triangle[i, j] = a.load(turned(i), turned(j), inside)

            kernel.along(padded, column)
            inside = kernel.is_less(i, size)
            kernel.along(count, lambda j: x.store(i, j, b.load(turned(i), j, inside)))

        kernel.each(padded, row)

        def block(number: DimLike) -> None:
            first = BLOCK * number

            def look(k: DimLike) -> None:
                pivot = triangle[first + k, first + k]
                beyond = kernel.logic.not_(kernel.is_less(first + k, size))
                zero = s.cmp("eq", numbers.size(pivot), s.const(0.0))
                kernel.check(
                    kernel.logic.or_(beyond, kernel.logic.not_(zero)),
                    "a triangular matrix has a zero on its diagonal",
                )
                pivots[0, k] = numbers.select(beyond, numbers.const(1.0), pivot)

            if not unit:
                kernel.each(BLOCK, look)
            factors = _factors(kernel, triangle, first, first)
            scales = None if unit else [pivots[0, k] for k in range(BLOCK)]
            kernel.along(count, lambda j: _substitute(kernel, x, first, j, factors, scales))
            kernel.subtract_products(
                x,
                (BLOCK // ROWS * (number + 1), padded // ROWS),
                (0, count),
                lambda i, p: triangle[i, first + p],
                lambda p, j: x[first + p, j],
            )

        kernel.each(padded // BLOCK, block)
        kernel.each(size, lambda i: kernel.along(count, lambda j: out.store(turned(i), j, x[i, j])))
    kernel.launch()


def write_order(kernel: MatrixKernel) -> None:
    """The order into which exchanges of row i with row pivots[i], counted from 1, bring rows."""
    integers = kernel.integers
    size = kernel.columns
    with kernel.each_matrix():
        pivots, order = kernel.operand(), kernel.result()
        kernel.along(size, lambda i: order.store(0, i, (kernel.value(i),)))

        def exchange(i: DimLike) -> None:
            chosen = integers.sub(integers.cast(pivots[0, i][0], int64), integers.const(1))
            low = integers.cmp("ge", chosen, integers.const(0))
            kernel.check(kernel.both(low, integers.cmp("lt", chosen, kernel.value(size))), "a pivot is no row's number")
            pivot = kernel.index(chosen, size)
            here, there = order[0, i], order[0, pivot]
            order[0, i] = there
            order[0, pivot] = here

        kernel.each(size, exchange)
    kernel.launch()
