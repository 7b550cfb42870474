"""Products of vectors and matrices in PyTorch's and NumPy's names."""

from __future__ import annotations

from typing import Any

from jitgraph.dtypes import float64, is_float
from jitgraph.errors import ShapeError
from jitgraph.ir import context
from jitgraph.tensor import lifting
from jitgraph.tensor.einsum import einsum
from jitgraph.tensor.functions.complex_numbers import conj
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "dot",
    "inner",
    "kron",
    "mm",
    "mv",
    "vdot",
]


def _ranked(name: str, *operands: tuple[TensorLike, int]) -> list[Tensor]:
    """The operands as tensors; ShapeError where one has not the number of axes that stands with it."""
    tensors = []
    for number, (x, rank) in enumerate(operands):
        tensor = wrap(lifting.value_of(x))
        if tensor.ndim != rank:
            what = ("a number", "a vector", "a matrix", "a batch of matrices")[rank]
            raise ShapeError(
                f"{name}: operand {number} should be {what}, and has the shape {tuple(tensor.shape)}",
                hint="x @ y takes vectors, matrices and batches, which broadcast",
            )
        tensors.append(tensor)
    return tensors


@array_function
def mm(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Product of two matrices. ShapeError for other ranks."""
    return matmul(*_ranked("mm", (x1, 2), (x2, 2)))


@array_function
def mv(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Product of a matrix and a vector. ShapeError for other ranks."""
    return matmul(*_ranked("mv", (x1, 2), (x2, 1)))


@array_function
def bmm(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Products of two batches of matrices, pair by pair: no axis broadcasts. ShapeError for other ranks and sizes."""
    return einsum("bij,bjk->bik", *_same_batch("bmm", *_ranked("bmm", (x1, 3), (x2, 3))))


def _same_batch(name: str, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    left, right = x1.value.shape, x2.value.shape
    for a, b in (left[0], right[0]), (left[2], right[1]):
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise ShapeError(f"{name}: the shapes {tuple(left)} and {tuple(right)} do not fit", hint="x @ y broadcasts")
    return x1, x2


def _added(x: TensorLike, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta x + alpha product; an x whose beta is 0 is not looked at, as in PyTorch: NaN in it does not spread.

    Under autocast it is one of the products, as in PyTorch's list: x goes in by the product's dtype.
    """
    if context.current().autocast == product.dtype:
        value = lifting.value_of(x)
        narrow = is_float(value.dtype) and value.dtype != float64
        x = wrap(lifting.cast(value, product.dtype)) if narrow else x
    scaled = product if isinstance(alpha, int) and alpha == 1 else alpha * product
    if isinstance(beta, int | float) and beta == 0:
        dtype = lifting.common_dtype(x, scaled)
        shape = lifting.broadcast_shapes(lifting.value_of(x).shape, scaled.value.shape)
        return wrap(lifting.broadcast_to(lifting.cast(scaled.value, dtype), shape))
    addend = wrap(lifting.value_of(x))
    result: Tensor = (addend if isinstance(beta, int) and beta == 1 else beta * addend) + scaled
    return result


@array_function
def addmm(x: TensorLike, x1: TensorLike, x2: TensorLike, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha (x1 @ x2) of two matrices; x broadcasts, and is ignored where beta is 0."""
    return _added(x, mm(x1, x2), beta, alpha)


@array_function
def addmv(x: TensorLike, x1: TensorLike, x2: TensorLike, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha (x1 @ x2) of a matrix and a vector; x broadcasts, and is ignored where beta is 0."""
    return _added(x, mv(x1, x2), beta, alpha)


@array_function
def addr(x: TensorLike, x1: TensorLike, x2: TensorLike, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha times the outer product of two vectors; x broadcasts, and is ignored where beta is 0."""
    return _added(x, einsum("i,j->ij", *_ranked("addr", (x1, 1), (x2, 1))), beta, alpha)


@array_function
def baddbmm(x: TensorLike, x1: TensorLike, x2: TensorLike, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha bmm(x1, x2); x broadcasts, and is ignored where beta is 0."""
    return _added(x, bmm(x1, x2), beta, alpha)


@array_function
def addbmm(x: TensorLike, x1: TensorLike, x2: TensorLike, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha times the sum of all products of ``bmm(x1, x2)``; x broadcasts, and is ignored where beta is 0."""
    return _added(x, sum_of(bmm(x1, x2), 0), beta, alpha)


@array_function
def chain_matmul(*arrays: TensorLike) -> Tensor:
    """Product of two matrices or more in the order that costs least; the first and the last may be vectors."""
    matrices = [wrap(value) for value in lifting.beside(*arrays)]
    if len(matrices) < 2:
        raise ShapeError(f"chain_matmul takes two matrices or more, not {len(matrices)}")
    if len(matrices) > 50:
        raise ShapeError(f"chain_matmul of {len(matrices)} matrices; at most 50", hint="multiply some of them before")
    names, _ = _letters(len(matrices) + 1, 0)
    parts = [names[index] + names[index + 1] for index in range(len(matrices))]
    ends = [names[0], names[-1]]
    if matrices[0].ndim == 1:
        parts[0], ends[0] = names[1], ""
    if matrices[-1].ndim == 1:
        parts[-1], ends[1] = names[-2], ""
    _ranked("chain_matmul", *((x, len(part)) for x, part in zip(matrices, parts, strict=True)))
    return einsum(f"{','.join(parts)}->{''.join(ends)}", *matrices)


@array_function
def dot(x1: TensorLike, x2: TensorLike) -> Tensor:
    """NumPy's dot: over the last axis of x1 and the last but one of x2 (its only one); free axes of both stay."""
    a, b = map(wrap, lifting.beside(x1, x2))
    if not a.ndim or not b.ndim:
        return a * b
    left, right = _letters(a.ndim, b.ndim)
    axis = max(b.ndim - 2, 0)
    right[axis] = left[-1]
    return _by_labels("dot", left, right, left[:-1] + right[:axis] + right[axis + 1 :], a, b)


@array_function
def inner(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Sum of products over the last axes of both; the other axes of both stay."""
    a, b = map(wrap, lifting.beside(x1, x2))
    if not a.ndim or not b.ndim:
        return a * b
    left, right = _letters(a.ndim, b.ndim)
    right[-1] = left[-1]
    return _by_labels("inner", left, right, left[:-1] + right[:-1], a, b)


@array_function
def vdot(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Sum of products of all elements of two tensors of one size, each flattened; those of x1 are conjugated."""
    a, b = (wrap(value).reshape(-1) for value in lifting.beside(x1, x2))
    return dot(conj(a), b)


@array_function
def kron(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Kronecker product: blocks of x2 scaled by each element of x1; the shorter shape gets leading axes of size 1."""
    a, b = map(wrap, lifting.beside(x1, x2))
    rank = max(a.ndim, b.ndim)
    left, right = ((1,) * (rank - x.ndim) + tuple(x.shape) for x in (a, b))
    interleaved = a.reshape(tuple(size for extent in left for size in (extent, 1)))
    blocks = interleaved * b.reshape(tuple(size for extent in right for size in (1, extent)))
    result: Tensor = blocks.reshape(tuple(m * n for m, n in zip(left, right, strict=True)))
    return result


def _letters(left: int, right: int) -> tuple[list[str], list[str]]:
    names = [chr(ord("A") + index) if index < 26 else chr(ord("a") + index - 26) for index in range(left + right)]
    return names[:left], names[left:]


def _by_labels(name: str, left: list[str], right: list[str], result: list[str], a: Tensor, b: Tensor) -> Tensor:
    shared = next(label for label in left if label in right)
    sizes = a.value.shape[left.index(shared)], b.value.shape[right.index(shared)]
    if all(isinstance(size, int) for size in sizes) and sizes[0] != sizes[1]:
        raise ShapeError(f"{name} of {a.value.type} with {b.value.type}: the sizes {sizes[0]} and {sizes[1]} differ")
    labels = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
    if result:
        return einsum(labels, a, b)
    with context.using(autocast=None):  # a product of vectors is none of PyTorch's list
        return einsum(labels, a, b)
