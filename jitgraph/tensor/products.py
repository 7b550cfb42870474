"""``jg.einsum``, pair by pair in an order chosen by cost, and products of vectors and matrices in PyTorch's and
NumPy's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from jitgraph import ops
from jitgraph.dtypes import float64, is_float
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.records import NamedTuple
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.arrangement import diagonal_of
from jitgraph.tensor.functions.complex_numbers import conj
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# ``jg.einsum``: sums of products by labels of axes, pair by pair in an order chosen by cost.

Labels: TypeAlias = "tuple[str, ...]"
Sizes: TypeAlias = "Mapping[str, DimLike]"

_NOMINAL: Final = 64
"""What a size that only the call knows counts as where orders are compared."""
_MOST_SEARCHED: Final = 7
"""Operands up to which every order of pairs is compared; of more the cheapest pair is taken again and again."""


class _Term(NamedTuple):
    """A value with a label for each axis."""

    value: Any
    labels: Labels


@array_function
def einsum(subscripts: str, *operands: TensorLike) -> Tensor:
    """Sum of products by labels: ``einsum("bij,bjk->bik", x, y)``.

    A letter names an axis; one that the result lacks is summed over, one that an operand repeats is its diagonal, and
    ``...`` are leading axes that broadcast, summed over like letters (as PyTorch does; NumPy refuses that). Without
    ``->`` the result has the letters that occur once, sorted, behind those of ``...``. An axis of known size 1
    broadcasts against others of its letter. Three and more operands are multiplied in the pairs that cost least, where
    a named size counts as 64: there named sizes may round otherwise than known ones. JitgraphError for malformed
    subscripts, ShapeError for sizes that differ, DTypeError for bools.
    """
    if not isinstance(subscripts, str):
        raise JitgraphError(
            f'einsum takes subscripts first, not a {type(subscripts).__name__}\n  hint: jg.einsum("ij,jk->ik", x, y)'
        )
    if not operands:
        raise JitgraphError("einsum takes one operand or more")
    dtype = lifting.common_dtype(*operands)
    values = lifting.together(*[lifting.cast(lifting.value_of(x, dtype), dtype) for x in operands])
    inputs, output = _parsed(subscripts, tuple([len(value.shape) for value in values]))
    sizes = _sizes(subscripts, inputs, [value.shape for value in values])
    for label in output:
        if label not in sizes:
            raise JitgraphError(f"einsum {subscripts!r}: no operand has the {_shown(label)} of the result")
    terms = [_prepared(_Term(value, labels), sizes) for value, labels in zip(values, inputs, strict=True)]
    while len(terms) > 1:
        first, second = _next_pair([frozenset(term.labels) for term in terms], frozenset(output), sizes)
        rest = [term for index, term in enumerate(terms) if index not in (first, second)]
        needed = {*output, *(label for term in rest for label in term.labels)}
        terms = [*rest, _product(terms[first], terms[second], needed)]
    return wrap(_arranged(terms[0], output, sizes))


@lru_cache(maxsize=256)
def _parsed(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of each operand and of the result; axes of ``...`` are labelled by their place from the right."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise JitgraphError(f"einsum {subscripts!r} names {len(parts)} operands, and {len(ranks)} are given")
    for part in (*parts, right):
        head, _, tail = part.partition("...")
        if not all(letter.isascii() and letter.isalpha() for letter in head + tail):
            raise JitgraphError(
                f"einsum {subscripts!r}: {part!r} has more than letters in it\n"
                '  hint: letters name axes, "..." stands once for the leading ones, "," and "->" part the operands'
            )
    wide = 0
    for part, rank in zip(parts, ranks, strict=True):
        letters = len(part.replace("...", ""))
        if letters > rank or (letters < rank and "..." not in part):
            raise ShapeError(
                f"einsum {subscripts!r}: {part!r} names {letters} axes of an operand of rank {rank}",
                hint='"..." stands for the axes without a letter',
            )
        wide = max(wide, rank - letters)

    def labels(part: str, count: int) -> Labels:
        head, dots, tail = part.partition("...")
        return (*head, *(f"...{index}" for index in reversed(range(count if dots else 0))), *tail)

    inputs = tuple([labels(part, rank - len(part.replace("...", ""))) for part, rank in zip(parts, ranks, strict=True)])
    if arrow:
        output = labels(right, wide)
        if len(set(output)) != len(output):
            raise JitgraphError(f"einsum {subscripts!r}: the result has a letter twice")
        return inputs, output
    occurring = left.replace("...", "").replace(",", "")
    once = sorted(letter for letter in set(occurring) if occurring.count(letter) == 1)
    return inputs, (*labels("...", wide), *once)


def _shown(label: str) -> str:
    return "..." if label.startswith("...") else f"letter {label!r}"


def _sizes(subscripts: str, inputs: Sequence[Labels], shapes: Sequence[tuple[DimLike, ...]]) -> dict[str, DimLike]:
    """The size of each label; a known 1 gives way to any other."""
    known = context.constraints()
    sizes: dict[str, DimLike] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            before = sizes.get(label, 1)
            if _is_one(before):
                sizes[label] = size
            elif not _is_one(size) and not known.same(before, size):
                raise ShapeError(f"einsum {subscripts!r}: the {_shown(label)} has the sizes {before} and {size}")
            elif isinstance(size, int) and not _is_one(size):
                sizes[label] = size
    return sizes


def _is_one(size: DimLike) -> bool:
    return isinstance(size, int) and size == 1


def _prepared(term: _Term, sizes: Sizes) -> _Term:
    """The term without axes that broadcast, and with one axis for each label."""
    value, labels = term
    axes = [axis for axis, label in enumerate(labels) if not _is_one(value.shape[axis]) or _is_one(sizes[label])]
    if len(axes) < len(labels):
        value = ops.reshape(value, shape=tuple(value.shape[axis] for axis in axes))
        labels = tuple(labels[axis] for axis in axes)
    while len(set(labels)) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        value = _diagonal(value, first, second)
        labels = (*(each for axis, each in enumerate(labels) if axis not in (first, second)), label)
    return _Term(value, labels)


def _diagonal(value: Any, first: int, second: int) -> Any:
    """The elements of equal places along two axes of one size, as a last axis."""
    rest = [axis for axis in range(len(value.shape)) if axis not in (first, second)]
    value = ops.transpose(value, permutation=(*rest, first, second))
    return diagonal_of(wrap(value)).value


def _product(left: _Term, right: _Term, needed: Iterable[str]) -> _Term:
    """The product of two terms, summed over the axes that no later product or the result has."""
    retained = set(needed)
    left = _summed(left, retained | set(right.labels))
    right = _summed(right, retained | set(left.labels))
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in retained]
    contracted = [label for label in shared if label not in retained]
    free = [label for label in left.labels if label not in shared], [x for x in right.labels if x not in shared]
    result = (*batch, *free[0], *free[1])
    if not contracted:
        sizes = dict(zip(left.labels, left.value.shape, strict=True))
        sizes |= dict(zip(right.labels, right.value.shape, strict=True))
        shape = tuple(sizes[label] for label in result)
        return _Term(
            lifting.form_of(ops.mul, left.value)(*(_spread(term, result, shape) for term in (left, right))), result
        )

    def axes(labels: Iterable[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        names = list(labels)
        return tuple(map(left.labels.index, names)), tuple(map(right.labels.index, names))

    return _Term(
        lifting.form_of(ops.dot, left.value)(left.value, right.value, batch=axes(batch), contract=axes(contracted)),
        result,
    )


def _summed(term: _Term, needed: Iterable[str]) -> _Term:
    """The term summed over labels that are not wanted."""
    gone = tuple(axis for axis, label in enumerate(term.labels) if label not in set(needed))
    if not gone:
        return term
    value = ops.reduce_sum(term.value, axes=gone)
    return _Term(value, tuple(label for axis, label in enumerate(term.labels) if axis not in gone))


def _spread(term: _Term, labels: Labels, shape: tuple[DimLike, ...]) -> Any:
    """The term's value with axes in the order of ``labels``, repeated along those that it lacks."""
    present = [label for label in labels if label in term.labels]
    order = tuple(map(term.labels.index, present))
    value = term.value if order == tuple(range(len(order))) else ops.transpose(term.value, permutation=order)
    if value.shape == shape:
        return value
    return ops.broadcast(value, shape=shape, axes=tuple(map(labels.index, present)))


def _arranged(term: _Term, output: Labels, sizes: Sizes) -> Any:
    """The last term as the result: what the result lacks is summed."""
    return _spread(_summed(term, output), output, tuple(sizes[label] for label in output))


def _next_pair(terms: Sequence[frozenset[str]], output: frozenset[str], sizes: Sizes) -> tuple[int, int]:
    """The pair to multiply first: of the cheapest order of all pairs, or the cheapest pair where there are many."""
    if len(terms) == 2:
        return 0, 1
    extents = {label: size if isinstance(size, int) else _NOMINAL for label, size in sizes.items()}
    if len(terms) <= _MOST_SEARCHED:
        return _search(tuple(terms), output, extents, {})[1]
    pairs = [(i, j) for j in range(len(terms)) for i in range(j)]
    return min(pairs, key=lambda pair: (_cost(terms[pair[0]] | terms[pair[1]], extents), pair))


def _cost(labels: Iterable[str], extents: Mapping[str, int]) -> int:
    return int(dims.product([max(extents[label], 1) for label in sorted(labels)]))


def _search(
    terms: tuple[frozenset[str], ...],
    output: frozenset[str],
    extents: Mapping[str, int],
    known: dict[Any, tuple[int, tuple[int, int]]],
) -> tuple[int, tuple[int, int]]:
    """The least number of multiplications for all terms, and the pair with which that begins; of equals the first."""
    if len(terms) == 1:
        return 0, (0, 0)
    if terms in known:
        return known[terms]
    best: tuple[int, tuple[int, int]] | None = None
    for second in range(len(terms)):
        for first in range(second):
            both = terms[first] | terms[second]
            rest = tuple(term for index, term in enumerate(terms) if index not in (first, second))
            needed = output.union(*rest)
            cost = _cost(both, extents) + _search((*rest, both & needed), output, extents, known)[0]
            if best is None or cost < best[0]:
                best = cost, (first, second)
    assert best is not None
    known[terms] = best
    return best


# ----------------------------------------------------------------------
# Products of vectors and matrices in PyTorch's and NumPy's names.

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
    """Product of two or more matrices in the cheapest order; the first and the last may be vectors."""
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
    """NumPy's dot: sums over the last axis of x1 and the last but one of x2 (or its only one); the others remain."""
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
