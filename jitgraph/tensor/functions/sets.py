"""Sets: distinct elements and rows, runs of equal elements, and the union, intersection and differences of two sets.

Distinct elements come in order, with their first places, counts and inverse indices, by one stable sort: an element
that differs from the one before it is the first of its kind. NaNs differ from one another, as in the Array API, and the
two zeros do not. A result's length depends on values, so that a trace needs it: ``size=``; there are that many elements
then, the greatest dropped, and missing ones zeros with a count of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.creation import ones_like
from jitgraph.tensor.functions.elementwise import astype, logical_and, not_equal
from jitgraph.tensor.functions.manipulation import concat, moveaxis
from jitgraph.tensor.functions.method import array_function, axis_of, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.ordering import lexsort
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.reductions import argsort, cumsum
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.searching import counted, flat_of, isin, numbered, tensor_of
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


class UniqueAll(NamedTuple):
    """What ``unique_all`` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` gives."""

    values: Tensor
    inverse_indices: Tensor


class _Sorted:
    """The elements in order: which of them are the first of their kind, and the number of the kind of each."""

    def __init__(self, x: TensorLike, size: Any, name: str) -> None:
        tensor = tensor_of(x)
        self.shape: tuple[DimLike, ...] = tensor.value.shape
        flat = flat_of(tensor)
        self.length = flat.value.shape
        self.order = _order(flat)
        self.elements = flat[self.order]
        self.first = self._first()
        self.kind = cumsum(self.first) - 1
        self.size = counted(sum_of(self.first, dtype=dtypes.int64), size, name)

    def _first(self) -> Tensor:
        with placement.beside(self.order.value):
            head = wrap(lifting.repeated(True, dtypes.bool_, (1,)))
        if self.length == (0,):
            return head[:0]
        return concat([head, not_equal(self.elements[1:], self.elements[:-1])])

    def values(self) -> Tensor:
        return numbered(self.kind, self.first, self.size, self.elements.value, 0)

    def indices(self) -> Tensor:
        return numbered(self.kind, self.first, self.size, self.order.value, 0)

    def inverse(self) -> Tensor:
        """For each element of x the number of its kind."""
        start = lifting.broadcast_to(lifting.repeated(0, dtypes.int64, ()), self.length)
        back = ops.scatter(start, self.order.value, self.kind.value, axis=0)
        return wrap(ops.reshape(back, shape=self.shape))

    def counts(self) -> Tensor:
        """How many elements each kind has: from its first one to the next kind's, or to the end."""
        positions = wrap(lifting.positions_along(self.length, 0, self.order.value))
        starts = numbered(self.kind, self.first, self.size + 1, positions.value, -1)
        end = lifting.cast(ops.full(shape=(), value=self.length[0], dtype=dtypes.int64), dtypes.int64)
        starts = wrap(ops.select((starts < 0).value, lifting.broadcast_to(end, starts.value.shape), starts.value))
        return starts[1:] - starts[:-1]


def _order(flat: Tensor) -> Tensor:
    """Indices that sort: complex numbers by their real and then by their imaginary parts, as NumPy does."""
    if not dtypes.is_complex(flat.dtype):
        return argsort(flat)
    by_imag = argsort(imag(flat))
    return by_imag[argsort(real(flat)[by_imag])]


@method
def unique_all(x: TensorLike, *, size: Any = None) -> UniqueAll:
    """The distinct elements in order, the first index of each, the inverse indices (of x's shape), and the counts."""
    groups = _Sorted(x, size, "unique_all")
    with placement.beside(groups.order.value):
        return UniqueAll(groups.values(), groups.indices(), groups.inverse(), groups.counts())


@method
def unique_counts(x: TensorLike, *, size: Any = None) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs."""
    groups = _Sorted(x, size, "unique_counts")
    with placement.beside(groups.order.value):
        return UniqueCounts(groups.values(), groups.counts())


@method
def unique_inverse(x: TensorLike, *, size: Any = None) -> UniqueInverse:
    """The distinct elements in order, and the index into them (of x's shape) that gives x."""
    groups = _Sorted(x, size, "unique_inverse")
    with placement.beside(groups.order.value):
        return UniqueInverse(groups.values(), groups.inverse())


@method
def unique_values(x: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements in order."""
    return _Sorted(x, size, "unique_values").values()


# --- rows and runs --------------------------------------------------------------------------------------------------


def _chosen(values: Tensor, inverse: Any, counts: Any, more: Sequence[bool]) -> Any:
    outputs = [values, *(each() for each, requested in zip((inverse, counts), more, strict=True) if requested)]
    return tuple(outputs) if len(outputs) > 1 else values


def _differs(rows: Tensor) -> Tensor:
    """For each row of a matrix whether it differs from the one before it; the first one does."""
    if rows.value.type.shape[0] == 0:
        return (
            rows[:, 0] != rows[:, 0]
            if rows.value.type.shape[1] != 0
            else wrap(lifting.repeated(True, dtypes.bool_, (0,)))
        )
    steps = any_of(not_equal(rows[1:], rows[:-1]), 1)
    return concat([ones_like(any_of(not_equal(rows[:1], rows[:1]), 1)), steps])


def _lengths(first: Tensor, number: Tensor, size: Any) -> Tensor:
    """How many rows each of the kinds has."""
    zeros = lifting.repeated(0, dtypes.int64, (size + 1,))
    limit = wrap(ops.minimum(number.value, ops.full(shape=number.value.shape, value=size, dtype=dtypes.int64)))
    one = lifting.repeated(1, dtypes.int64, number.value.shape)
    return wrap(ops.scatter_add(zeros, limit.value, one, axis=0))[:size]


def _as_rows(x: TensorLike, axis: int | None, name: str) -> tuple[Tensor, Tensor, int]:
    """The tensor with the axis first (flat without one), its slices as rows of a matrix, and where the axis was."""
    tensor = tensor_like(x)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    number = axis_of(axis, tensor.ndim, name)
    slices = moveaxis(tensor, number, 0)
    count = slices.value.type.shape[0]
    width: Any = 1
    for size in slices.value.type.shape[1:]:
        width = width * size
    return slices, reshape(slices, (count, width)), number


def _taken(slices: Tensor, indices: Tensor, axis: int) -> Tensor:
    return moveaxis(wrap(ops.gather(slices.value, indices.value, axis=0)), 0, axis)


@method
def unique_consecutive(
    x: TensorLike,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    size: Any = None,
) -> Any:
    """The first of each run of equal elements, or of equal slices along ``axis``; PyTorch's function.

    With which run each belongs to, and how long each is, where asked for. In a trace ``size`` says how many; runs
    that are missing then have the first slice and no length.
    """
    full_shape = tensor_like(x).value.type.shape if axis is None else None
    slices, rows, number = _as_rows(x, axis, "unique_consecutive")
    first = _differs(rows)
    kind = cumsum(first) - 1
    total = counted(sum_of(first, dtype=dtypes.int64), size, "unique_consecutive")
    indices = numbered(kind, first, total, lifting.positions_along(first.value.shape, 0, first.value), 0)
    return _chosen(
        _taken(slices, indices, number),
        lambda: kind if full_shape is None else reshape(kind, full_shape),
        lambda: _lengths(first, kind, total),
        (return_inverse, return_counts),
    )


@method
def unique(
    x: TensorLike,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    return_index: bool = False,
    size: Any = None,
) -> Any:
    """The distinct elements in order, or the distinct slices along ``axis`` in the order of their elements.

    With where each first stands (``return_index``), which is which (``return_inverse``) and how often each is there
    (``return_counts``), in this order. They are sorted either way, and NaNs differ from one another. In a trace
    ``size`` says how many; missing ones are the first slice then, with a count of 0.
    """
    tensor = tensor_like(x)
    full_shape = tensor.value.type.shape if axis is None else None
    slices, rows, number = _as_rows(tensor, axis, "unique")
    width = rows.value.type.shape[1]
    if not isinstance(width, int):
        raise ShapeError(f"unique slices of a named size {width}", hint="name the other axes")
    count = rows.value.type.shape[0]
    if width:
        order = lexsort([rows[:, i] for i in reversed(range(width))])
    else:
        order = wrap(lifting.positions_along((count,), 0, rows.value))
    first = _differs(wrap(ops.gather(rows.value, order.value, axis=0)))
    kind = cumsum(first) - 1
    total = counted(sum_of(first, dtype=dtypes.int64), size, "unique")
    indices = numbered(kind, first, total, order.value, 0)

    def inverse() -> Tensor:
        start = lifting.repeated(0, dtypes.int64, kind.value.shape)
        back = wrap(ops.scatter(start, order.value, kind.value, axis=0))
        return back if full_shape is None else reshape(back, full_shape)

    outputs = [_taken(slices, indices, number)]
    outputs += [indices] if return_index else []
    outputs += [inverse()] if return_inverse else []
    outputs += [_lengths(first, kind, total)] if return_counts else []
    return tuple(outputs) if len(outputs) > 1 else outputs[0]


# --- two sets -------------------------------------------------------------------------------------------------------


def _both(x1: TensorLike, x2: TensorLike) -> list[Tensor]:
    common = lifting.common_dtype(x1, x2)
    return [reshape(astype(tensor_like(x), common), (-1,)) for x in (x1, x2)]


def _selected(vector: Tensor, mask: Tensor, size: Any, name: str) -> Tensor:
    total = counted(sum_of(mask, dtype=dtypes.int64), size, name)
    return numbered(cumsum(mask) - 1, mask, total, vector.value, 0)


def _distinct(vector: Tensor) -> tuple[Tensor, Tensor]:
    """A sorted vector of all elements, and which of them are the first of their kind."""
    order = lexsort([vector])
    ordered = wrap(ops.gather(vector.value, order.value, axis=0))
    return ordered, _differs(reshape(ordered, (-1, 1)))


@array_function
def union1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements of both, in order; a trace needs ``size``."""
    return unique_values(concat(_both(x1, x2)), size=size)


@array_function
def intersect1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements that are in both, in order; a trace needs ``size``."""
    left, right = _both(x1, x2)
    ordered, first = _distinct(left)
    return _selected(ordered, logical_and(first, isin(ordered, right)), size, "intersect1d")


@array_function
def setdiff1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements of the first that are not in the second, in order; a trace needs ``size``."""
    left, right = _both(x1, x2)
    ordered, first = _distinct(left)
    return _selected(ordered, logical_and(first, isin(ordered, right, invert=True)), size, "setdiff1d")


@array_function
def setxor1d(x1: TensorLike, x2: TensorLike, *, size: Any = None) -> Tensor:
    """The distinct elements that are in exactly one of the two, in order; a trace needs ``size``."""
    left, right = _both(x1, x2)
    ordered, first = _distinct(concat([left, right]))
    alone = isin(ordered, left, invert=True) | isin(ordered, right, invert=True)
    return _selected(ordered, logical_and(first, alone), size, "setxor1d")
