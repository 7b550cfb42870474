"""``jg.einsum``: sums of products by labels of axes, pair by pair in an order chosen by cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from jitgraph import ops
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.records import NamedTuple
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.diagonals import diagonal_of
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap

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
