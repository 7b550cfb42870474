"""The distinct elements of a tensor, in order, with their first places, their counts and the inverse indices.

By one stable sort: an element that differs from the one before it is the first of its kind. NaNs differ from one
another, as in the Array API, and the two zeros do not. A result's length depends on values, so that a trace needs it:
``size=``; there are that many elements then, the greatest dropped, and missing ones zeros with a count of 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.cumulative import cumsum
from jitgraph.tensor.functions.elementwise import not_equal
from jitgraph.tensor.functions.manipulation import concat
from jitgraph.tensor.functions.method import method
from jitgraph.tensor.functions.reductions import argsort
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.searching import counted, flat_of, numbered, tensor_of
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
    """The distinct elements in order, where each first stands, which is which (of x's shape), and how often each is."""
    groups = _Sorted(x, size, "unique_all")
    with placement.beside(groups.order.value):
        return UniqueAll(groups.values(), groups.indices(), groups.inverse(), groups.counts())


@method
def unique_counts(x: TensorLike, *, size: Any = None) -> UniqueCounts:
    """The distinct elements in order, and how often each is there."""
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
