"""Products of vectors and of several matrices, matrices made of products, diagonals and traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.linalg.systems import inexact, inv, matrices_of, solve_triangular
from jitgraph.ops.matrices import above, adjoint, below, columns_of, with_ones
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.arrangement import diagonal_of
from jitgraph.tensor.functions.creation import ones_like
from jitgraph.tensor.functions.linear_algebra import tensordot
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.functions.method import array_function, axis_of
from jitgraph.tensor.functions.reductions import sum
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# Diagonals of matrices, and their sums.


@array_function
def diagonal(x: TensorLike, *, offset: int = 0) -> Tensor:
    """The elements of matrices on a diagonal: above the main one for ``offset`` greater than 0, below it for less."""
    return diagonal_of(wrap(matrices_of("diagonal", x)), offset)


@array_function
def trace(x: TensorLike, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of ``diagonal``, with the dtype of ``sum``."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


# ----------------------------------------------------------------------
# Products of vectors and of several matrices, and matrices made of products.


@array_function
def cross(x1: TensorLike, x2: TensorLike, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of 3 elements along ``axis``; other axes broadcast. Numbers of any dtype."""
    dtype = lifting.common_dtype(x1, x2)
    if dtypes.is_bool(dtype):
        raise DTypeError("cross takes numbers, not bools", hint="cast them with .astype(...)")
    operands = [lifting.cast(lifting.value_of(x, dtype), dtype) for x in (x1, x2)]
    shape = lifting.broadcast_shapes(*(x.shape for x in operands))
    axis_index = axis_of(axis, len(shape), "cross")
    for x in operands:
        before = axis_index - len(shape)  # the axis from the end, as shapes of other ranks meet there
        if len(x.shape) < -before or x.shape[before] != 3:
            raise ShapeError(
                f"cross takes vectors of 3 elements along axis {axis}, not {operands[0].type}, {operands[1].type}"
            )
    a, b = (wrap(lifting.broadcast_to(x, shape)) for x in operands)
    i, j, k = (tuple(x[(*(slice(None),) * axis_index, number)] for x in (a, b)) for number in range(3))
    return stack([p[0] * q[1] - q[0] * p[1] for p, q in ((j, k), (k, i), (i, j))], axis=axis_index)


@array_function
def outer(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Products of every element of the vector x1 with every one of x2."""
    for x in x1, x2:
        if len(lifting.value_of(x).shape) != 1:
            raise ShapeError(f"outer takes two vectors, not {lifting.value_of(x).type}", hint="x.reshape(-1)")
    return tensordot(x1, x2, axes=0)


@array_function
def matrix_power(x: TensorLike, n: int) -> Tensor:
    """Square matrices to the power of an int; of the inverse for n below 0, and the identity for 0."""
    value = matrices_of("matrix_power", x)
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise ShapeError(f"matrix_power: n is {n!r}, and should be an int", hint="jg.linalg.matrix_exp for others")
    if value.shape[-2] != value.shape[-1]:
        raise ShapeError(f"matrix_power takes square matrices, not {value.type}")
    left = int(n.__index__())
    square = inv(wrap(value)) if left < 0 else wrap(value)
    left, power = abs(left), None
    while left:
        if left % 2:
            power = square if power is None else power @ square
        left //= 2
        square = square @ square if left else square
    return wrap(with_ones(ops.zeros_like(value))) if power is None else power


@array_function
def multi_dot(arrays: Sequence[TensorLike]) -> Tensor:
    """The product of matrices in the order that takes the fewest multiplications; the first and last may be vectors.

    The order is found by dynamic programming (Cormen et al., Introduction to algorithms, section 15.2); sizes that have
    names are multiplied from left to right.
    """
    xs = [wrap(value) for value in lifting.beside(*arrays)]
    if len(xs) < 2:
        raise ShapeError(f"multi_dot takes at least two tensors, not {len(xs)}")
    for index, x in enumerate(xs):
        if x.ndim != 2 and not (x.ndim == 1 and index in (0, len(xs) - 1)):
            raise ShapeError(f"multi_dot takes matrices, and a vector first or last, not {x.value.type} at {index}")
    first, last = xs[0].ndim == 1, xs[-1].ndim == 1
    sizes = [1 if first else xs[0].shape[0], *(x.shape[-1] for x in xs[:-1]), 1 if last else xs[-1].shape[-1]]
    if first:
        sizes[1] = xs[0].shape[0]
    return _chain(xs, sizes)


def _chain(xs: list[Tensor], sizes: list[Any]) -> Tensor:
    if not all(isinstance(size, int) for size in sizes):
        product = xs[0]
        for x in xs[1:]:
            product = product @ x
        return product
    cost: dict[tuple[int, int], int] = {(i, i + 1): 0 for i in range(len(xs))}
    best: dict[tuple[int, int], int] = {}
    for length in range(2, len(xs) + 1):
        for i in range(len(xs) - length + 1):
            j = i + length
            cuts = [(cost[i, k] + cost[k, j] + sizes[i] * sizes[k] * sizes[j], k) for k in range(i + 1, j)]
            cost[i, j], best[i, j] = min(cuts)

    def joined(i: int, j: int) -> Tensor:
        return xs[i] if j == i + 1 else joined(i, best[i, j]) @ joined(best[i, j], j)

    return joined(0, len(xs))


@array_function
def vander(x: TensorLike, N: int | None = None) -> Tensor:  # noqa: N803 - as in NumPy and PyTorch
    """Matrices with the powers 0, 1, ... N - 1 of each element of the vectors in its row; N is their length if None."""
    value = lifting.value_of(x)
    if not value.shape:
        raise ShapeError("vander takes vectors, not a number", hint="x[None]")
    count = value.shape[-1] if N is None else N
    if not isinstance(count, int):
        raise ShapeError(f"vander needs the number of columns, as the size {count} is a name", hint="N=")
    if count < 0:
        raise ShapeError(f"vander: N is {count}, and should be at least 0")
    powers = [ones_like(wrap(value))]
    while len(powers) < count:
        powers.append(powers[-1] * wrap(value))
    return stack(powers, axis=-1)[..., :count]


@array_function
def householder_product(a: TensorLike, tau: TensorLike) -> Tensor:
    """The first columns of the product of reflections I - tau[i] v_i v_i^H; v_i is column i of a, from its diagonal on.

    That element counts as 1, and those above as 0. All at once, as in Schreiber and Van Loan, A storage-efficient WY
    representation for products of Householder transformations (1989).
    """
    value, scales = inexact("householder_product", a), inexact("householder_product", tau)
    value = matrices_of("householder_product", wrap(value))
    count = scales.shape[-1] if scales.shape else 0
    rows, columns = value.shape[-2:]
    if not scales.shape or (isinstance(count, int) and isinstance(columns, int) and count > columns):
        raise ShapeError(
            f"householder_product takes a factor for each column of {value.type} at most, not {scales.type}"
        )
    if isinstance(rows, int) and isinstance(columns, int) and rows < columns:
        raise ShapeError(f"householder_product takes at least as many rows as columns, not {value.type}")
    with placement.beside(value):
        vectors = wrap(with_ones(below(columns_of(value, 0, count))))
        turned = wrap(adjoint(vectors.value))
        factors = wrap(scales)[..., :, None]
        inner = factors * wrap(above((turned @ vectors).value))
        middle = solve_triangular(
            inner, factors * wrap(columns_of(turned.value, 0, columns)), upper=True, unitriangular=True
        )
        update = vectors @ middle
        return wrap(with_ones(ops.zeros_like(update.value))) - update
