"""Where elements are: counts, places of what is not zero, places in sorted vectors, members, steps between neighbours.

A result whose length depends on values is for eager tensors; a trace needs that length, which ``size=`` gives.
"""

from __future__ import annotations

from typing import Any, Literal

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError, UnsupportedOp
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops.rules import open_extent
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import equal, minimum, not_equal, where
from jitgraph.tensor.functions.manipulation import concat
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.reductions import Axis, argsort, cumsum, sort
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_kernel import one_kernel
from jitgraph.tensor.tensor import Tensor, settled, wrap


def tensor_of(x: TensorLike) -> Tensor:
    """``x`` as a tensor."""
    return x if isinstance(x, Tensor) and not x._weak else wrap(lifting.value_of(settled(x)))


def counted(count: Tensor, size: Any, name: str) -> DimLike:
    """How many elements a result has: ``count`` itself outside of traces, else ``size``, which a trace needs."""
    if size is not None:
        (extent,) = shape_of(size)
        return extent
    if context.current().trace is not None:
        raise UnsupportedOp(
            f"{name} has as many elements as the values say, which a trace cannot know",
            hint=f"jg.{name}(..., size=n) gives n of them, or call it outside of the traced function",
        )
    return int(count.item())


def numbered(positions: Tensor, selected: Tensor, size: DimLike, source: Any, filler: TensorLike) -> Tensor:
    """A vector of ``size`` elements: that of the vector ``source`` at ``positions[i]`` for each i that is ``selected``.

    Further ones hold ``filler``; places from ``size`` on are dropped.
    """
    with placement.beside(source):
        empty = lifting.cast(lifting.value_of(filler, source.dtype), source.dtype)
        beyond = ops.full(shape=positions.value.shape, value=size, dtype=dtypes.int64)
        target = ops.select(selected.value, ops.minimum(positions.value, beyond), beyond)
        filled = ops.scatter(lifting.broadcast_to(empty, (size + 1,)), target, source, axis=0)
        return wrap(ops.slice(filled, starts=(0,), stops=(size,), strides=(1,)))


def flat_of(x: Tensor) -> Tensor:
    """The elements as a vector."""
    return wrap(ops.reshape(x.value, shape=(dims.product(x.value.shape),)))


def _number(size: DimLike) -> Any:
    """A size as what operators take."""
    return size if isinstance(size, int) else wrap(ops.full(shape=(), value=size, dtype=dtypes.int64))


@method
def count_nonzero(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """How many elements (int64) are not zero; NaN counts."""
    return sum_of(not_equal(x, 0), axis, dtype=dtypes.int64, keepdims=keepdims)


@method
def nonzero(x: TensorLike, *, size: Any = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    """The indices (int64) of the elements that are not zero, in row-major order: a vector for each axis.

    A trace needs ``size``: there are that many places then, further ones are dropped and missing ones ``fill_value``.
    ShapeError for a tensor of rank 0, UnsupportedOp in a trace without ``size``.
    """
    tensor = tensor_of(x)
    shape = tensor.value.shape
    if not shape:
        raise ShapeError("nonzero of a tensor of rank 0", hint="x.reshape(1) has an axis")
    flat = not_equal(flat_of(tensor), 0)
    count = counted(sum_of(flat, dtype=dtypes.int64), size, "nonzero")
    order = lifting.positions_along(flat.value.shape, 0, flat.value)
    flat_index = numbered(cumsum(flat) - 1, flat, count, order, -1)
    present = flat_index >= 0
    indices: list[Tensor] = []
    with placement.beside(flat.value):
        for extent in reversed(shape):
            indices.append(where(present, flat_index % _number(extent), fill_value))
            flat_index = flat_index // _number(extent)
    return tuple(reversed(indices))


@method
def searchsorted(
    x1: TensorLike,
    x2: TensorLike,
    *,
    side: Literal["left", "right"] = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """For each element of ``x2`` the index (int64) in the sorted vector ``x1`` before which it would be inserted.

    side: "left" for the first such place, "right" for the last. sorter: indices that sort ``x1``. NaN is the greatest.
    """
    if side not in ("left", "right"):
        raise JitgraphError(f'searchsorted: side is "left" or "right", not {side!r}')
    row = tensor_of(x1)
    if row.ndim != 1:
        raise ShapeError(f"searchsorted: x1 is a sorted vector, not {row.value.type}")
    if sorter is not None:
        order = tensor_of(sorter)
        if not dtypes.is_integer(order.dtype) or order.ndim != 1:
            raise DTypeError(f"searchsorted: sorter is a vector of integers, not {order.value.type}")
        row = row[order]
    dtype = lifting.common_dtype(row, x2)
    queries = lifting.value_of(settled(x2), dtype)
    left, right = wrap(lifting.cast(row.value, dtype)), wrap(lifting.cast(queries, dtype))
    search = _by_halving if isinstance(left.value.shape[0], int) else _by_merging
    with placement.beside(left.value):
        return search(left, right, side)


def _by_halving(row: Tensor, queries: Tensor, side: str) -> Tensor:
    """Binary search, of bools as of integers."""
    operands = [row.value, queries.value]
    if dtypes.is_bool(row.dtype):
        operands = [lifting.cast(value, dtypes.uint8) for value in operands]
    return wrap(ops.search(*operands, right=side == "right"))


def _by_merging(row: Tensor, queries: Tensor, side: str) -> Tensor:
    """Of a row whose size is a name: the place in both together, sorted stably, less the place among ``queries``."""
    flat = flat_of(queries)
    both = [flat, row] if side == "left" else [row, flat]
    ranks = argsort(argsort(concat(both)))
    (m,), (n,) = flat.value.shape, row.value.shape
    first, last = (0, m) if side == "left" else (n, n + m)
    mine = wrap(ops.slice(ranks.value, starts=(first,), stops=(last,), strides=(1,)))
    return wrap(ops.reshape((mine - argsort(argsort(flat))).value, shape=queries.value.shape))


@method
def isin(x1: TensorLike, x2: TensorLike, *, invert: bool = False) -> Tensor:
    """Whether each element of ``x1`` is one of ``x2``, or is none with ``invert``; NaN is none."""
    left, right = tensor_of(x1), flat_of(tensor_of(x2))
    (size,) = right.value.shape
    if isinstance(size, int) and size == 0:
        is_member = wrap(lifting.repeated(False, dtypes.bool_, left.value.shape))
    elif {left.dtype.kind, right.dtype.kind} == {"i", "u"} or (isinstance(size, int) and size <= _FEW):
        is_member = any_of(equal(left[..., None], right), axis=-1)  # of integers of two dtypes exactly
    else:
        row = sort(right)
        with placement.beside(row.value):
            is_member = _is_among(row, left)
    return ~is_member if invert else is_member


_FEW = 16


@one_kernel(open_shapes=lambda row, x: (row, tuple(open_extent(n, f"n{axis}") for axis, n in enumerate(x))))
def _is_among(row: Tensor, x: Tensor) -> Tensor:
    """Whether each number is one of a sorted vector."""
    (size,) = row.value.shape
    return equal(row[minimum(searchsorted(row, x), _number(size - 1))], x)


@method
def diff(
    x: TensorLike,
    axis: int = -1,
    n: int = 1,
    *,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """Differences of neighbours along ``axis``, ``n`` times; for bools whether neighbours differ.

    ``prepend`` and ``append`` are joined to x first. ShapeError for a tensor of rank 0 and for a negative ``n``.
    """
    tensor = tensor_of(x)
    if not tensor.ndim:
        raise ShapeError("diff of a tensor of rank 0")
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ShapeError(f"diff: n={n!r} is not a non-negative int")
    number = axis_of(axis, tensor.ndim, "diff")
    parts = [_beside(part, tensor, number) for part in (prepend, tensor, append) if part is not None]
    result = concat(parts, number) if len(parts) > 1 and n else tensor
    lead = (slice(None),) * number
    for _ in range(n):
        if result.value.type.shape[number] == 0:
            break
        after, before = result[(*lead, slice(1, None))], result[(*lead, slice(None, -1))]
        result = not_equal(after, before) if dtypes.is_bool(result.dtype) else after - before
    return wrap(result.value)


def _beside(part: TensorLike, tensor: Tensor, axis: int) -> Tensor:
    """What is joined to a tensor: a number as one slice of it."""
    piece = wrap(lifting.beside(settled(part), tensor)[0])
    if piece.ndim:
        return piece
    shape = tuple(1 if i == axis else size for i, size in enumerate(tensor.value.shape))
    value, _ = lifting.together(piece.value, tensor.value)
    return wrap(lifting.broadcast_to(value, shape))
