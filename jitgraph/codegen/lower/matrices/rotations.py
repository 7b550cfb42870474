"""Plane rotations, and their application to the rows of a matrix."""

from __future__ import annotations

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.matrices.numbers import LEAST_NORMAL, Number
from jitgraph.codegen.lower.matrices.workspace import Matrix, MatrixKernel
from jitgraph.ir.dims import DimLike


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
