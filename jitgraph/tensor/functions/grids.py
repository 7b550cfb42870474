"""Grids of coordinates, numbers of their points and of combinations, and shapes that go together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.creation import arange, asarray, shape_of
from jitgraph.tensor.functions.elementwise import astype, clip, logical_and, remainder, where
from jitgraph.tensor.functions.manipulation import broadcast_arrays, broadcast_to, stack
from jitgraph.tensor.functions.method import array_function, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.ordering import bucketize
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.functions.searching import nonzero
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, settled, wrap

# ----------------------------------------------------------------------
# Shapes that go together, grids of coordinates, and tensors over the memory of other libraries.


@array_function
def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which tensors of these shapes broadcast; ShapeError where they do not."""
    result = lifting.broadcast_shapes(*(shape_of(shape) for shape in shapes))
    trace = context.current().trace
    return result if trace is None else trace.user_shape(result)


@array_function
def meshgrid(*xs: TensorLike, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """The coordinates of a grid: one tensor for each vector, which varies along the axis of that vector.

    indexing: "ij" for axes in the order of the vectors, "xy" for the first two exchanged. ShapeError for tensors of
    higher rank, DTypeError for different dtypes.
    """
    if indexing not in ("xy", "ij"):
        raise JitgraphError(f'meshgrid: indexing is "xy" or "ij", not {indexing!r}')
    values = lifting.together(*(lifting.value_of(settled(x)) for x in xs))
    if any(value.type.ndim > 1 for value in values):
        raise ShapeError(f"meshgrid takes vectors, not {', '.join(str(value.type) for value in values)}")
    if len({value.dtype for value in values}) > 1:
        names = ", ".join(value.dtype.name for value in values)
        raise DTypeError(f"meshgrid of different dtypes: {names}", hint="x.astype(dtype)")
    axes = list(range(len(values)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
    sizes = [value.shape[0] if value.shape else 1 for value in values]
    shape = tuple(sizes[axis] for axis in axes)
    columns = (
        wrap(value).reshape((1,) * axis + (size,) + (1,) * (len(axes) - axis - 1))
        for value, size, axis in zip(values, sizes, axes, strict=True)
    )
    return [broadcast_to(column, shape) for column in columns]


@array_function
def from_dlpack(x: Any, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of an array of another library, by DLPack; ``device`` and ``copy`` as in ``asarray``.

    JitgraphError for what has no ``__dlpack__``.
    """
    if not hasattr(type(x), "__dlpack__"):
        raise JitgraphError(f"from_dlpack: {type(x).__name__} has no __dlpack__\n  hint: jg.asarray(x)")
    return asarray(x, device=device, copy=copy)


# ----------------------------------------------------------------------
# Numbers of grid points and of combinations: flat indices and their parts, open grids, products, bins.


def _plain_shape(shape: Any, name: str) -> tuple[int, ...]:
    sizes = shape_of(shape)
    if not all(isinstance(size, int) for size in sizes):
        raise ShapeError(f"{name}: the sizes {sizes} are not all numbers")
    return tuple(int(size) for size in sizes)


def _positions(x: TensorLike, name: str) -> Tensor:
    tensor = tensor_like(x)
    if not dtypes.is_integer(tensor.dtype):
        raise DTypeError(f"{name} takes integers, not {tensor.value.type}", hint="x.astype(jg.int64)")
    return astype(tensor, dtypes.int64)


def _require(inside: Tensor, message: str) -> None:
    if not (isinstance(inside.size, int) and inside.size == 0):
        ops.check(all_of(inside).value, kind="ValueError", message=message)


def _strides(sizes: Sequence[int], order: str, name: str) -> list[int]:
    if order not in ("C", "F"):
        raise JitgraphError(f'{name}: order is "C" or "F", not {order!r}')
    if order == "C":
        return [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return [math.prod(sizes[:i]) for i in range(len(sizes))]


@method
def unravel_index(x: TensorLike, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    """For flat indices into a tensor of a shape, the indices (int64) along each of its axes.

    Negative ones are refused as NumPy does: ValueError for what does not lie within. order: "C" or "F", as in NumPy.
    """
    flat, sizes = _positions(x, "unravel_index"), _plain_shape(shape, "unravel_index")
    total = math.prod(sizes)
    _require(logical_and(flat >= 0, flat < total), f"unravel_index: an index does not lie within the {total} elements")
    strides = _strides(sizes, order, "unravel_index")
    return tuple(flat // max(step, 1) % max(size, 1) for step, size in zip(strides, sizes, strict=True))


@array_function
def ravel_multi_index(
    multi_index: Sequence[TensorLike], dims: Any, mode: str | Sequence[str] = "raise", order: str = "C"
) -> Tensor:
    """The flat index (int64) of the element with these indices along each axis: the inverse of ``unravel_index``.

    mode, for all axes or for each: "raise" for a ValueError where an index does not lie within, "wrap" or "clip".
    """
    sizes = _plain_shape(dims, "ravel_multi_index")
    rows = [multi_index[i] for i in range(len(multi_index))]
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    if len(rows) != len(sizes) or len(modes) != len(sizes):
        raise ShapeError(f"ravel_multi_index: {len(rows)} indices and {len(modes)} modes for {len(sizes)} axes")
    flat: Any = asarray(0, dtype=dtypes.int64)
    for row, size, each, step in zip(rows, sizes, modes, _strides(sizes, order, "ravel_multi_index"), strict=True):
        index = _positions(row, "ravel_multi_index")
        if each == "raise":
            _require(
                logical_and(index >= 0, index < size), f"ravel_multi_index: an index does not lie within 0 .. {size}"
            )
        elif each == "wrap":
            index = remainder(index, size)
        elif each == "clip":
            index = clip(index, 0, size - 1)
        else:
            raise JitgraphError(f'ravel_multi_index: mode is "raise", "wrap" or "clip", not {each!r}')
        flat = flat + index * step
    return wrap(flat.value)


@array_function
def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of a grid: one tensor [axes, ...], or with ``sparse`` a tuple of tensors that broadcast; int64."""
    sizes = _plain_shape(dimensions, "indices")
    kind = dtypes.int64 if dtype is None else dtypes.canonical(dtype)
    rows = [arange(size, dtype=kind) for size in sizes]
    if sparse:
        rank = len(sizes)
        return tuple(reshape(row, (1,) * i + (sizes[i],) + (1,) * (rank - i - 1)) for i, row in enumerate(rows))
    if not rows:
        return asarray(np.zeros((0,), kind))
    return stack(meshgrid(*rows, indexing="ij"))


@array_function
def ix_(*xs: TensorLike) -> tuple[Tensor, ...]:
    """Vectors as an open grid, so that ``x[jg.ix_(rows, columns)]`` is each of the rows at each of the columns.

    Vectors of bools count as the places where they hold. ShapeError for tensors of other ranks.
    """
    grid = []
    for i, x in enumerate(xs):
        vector = tensor_like(x)
        if vector.ndim != 1:
            raise ShapeError(f"ix_ takes vectors, not {vector.value.type}")
        if vector.dtype == dtypes.bool_:
            (vector,) = nonzero(vector)
        size = vector.value.type.shape[0]
        grid.append(reshape(vector, (1,) * i + (size,) + (1,) * (len(xs) - i - 1)))
    return tuple(grid)


@array_function
def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """The indices (int64) of the main diagonal of a tensor with ``ndim`` axes of size n, for ``x[...]``."""
    return (arange(n, dtype=dtypes.int64),) * ndim


@array_function
def tri(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on and below the k-th diagonal of a matrix of zeros, float32 unless ``dtype`` is given."""
    rows, columns = (arange(n, device=device) for n in (n_rows, n_rows if n_cols is None else n_cols))
    return astype(columns <= rows[:, None] + k, dtypes.float32 if dtype is None else dtypes.canonical(dtype))


@array_function
def cartesian_prod(*xs: TensorLike) -> Tensor:
    """All tuples with one element of each vector, as rows in the order of nested loops; of one vector itself.

    ShapeError for tensors of other ranks.
    """
    vectors = [tensor_like(x) for x in xs]
    if not vectors or any(vector.ndim != 1 for vector in vectors):
        raise ShapeError(f"cartesian_prod takes vectors, not {', '.join(str(v.value.type) for v in vectors) or 'none'}")
    if len(vectors) == 1:
        return vectors[0]
    common = lifting.common_dtype(*vectors)
    grid = meshgrid(*(astype(vector, common) for vector in vectors), indexing="ij")
    return stack([reshape(each, (-1,)) for each in grid], axis=1)


@method
def combinations(x: TensorLike, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector as rows, in the order of ``itertools.combinations``.

    ``with_replacement`` lets an element be chosen again. ShapeError for other ranks and named sizes.
    """
    vector = tensor_like(x)
    if vector.ndim != 1 or not isinstance(vector.value.type.shape[0], int):
        raise ShapeError(f"combinations of {vector.value.type}, which is no vector of a known size")
    if r < 0:
        raise ShapeError(f"combinations of r={r} elements", hint="r is at least 0")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = np.array(list(choose(range(vector.value.type.shape[0]), r)), np.int64).reshape(-1, r)
    return wrap(ops.gather(vector.value, lifting.value_of(chosen), axis=0))


@method
def digitize(x: TensorLike, bins: TensorLike, right: bool = False) -> Tensor:
    """The bin (int64) of each element: i with bins[i-1] <= x < bins[i], or with ``right`` bins[i-1] < x <= bins[i].

    Of descending bins, bins[i-1] > x >= bins[i] and bins[i-1] >= x > bins[i]. NumPy's function; the other side's
    meaning of ``right`` in ``bucketize`` is PyTorch's.
    """
    ends = tensor_like(bins)
    if ends.ndim != 1:
        raise ShapeError(f"digitize: bins are a vector, not {ends.value.type}")
    size = ends.value.type.shape[0]
    rising = bucketize(x, ends, right=not right)
    if isinstance(size, int) and size < 2:
        return rising
    falling = size - bucketize(x, wrap(ends[::-1].value), right=not right)
    last = ends[-1]
    return where((ends[0] <= last) | (last != last), rising, falling)  # NaN comes last, as sort has it


@method
def put(x: TensorLike, index: TensorLike, source: TensorLike, accumulate: bool = False) -> Tensor:
    """x with ``source`` stored or added at indices into the flat tensor; PyTorch's, with NumPy's negative indices.

    Of places named twice the last one counts. IndexError for places out of range.
    """
    from jitgraph.tensor.functions.scattering import index_put  # here: scattering has no need to be loaded for grids

    tensor = tensor_like(x)
    positions, values = broadcast_arrays(_positions(index, "put"), tensor_like(source))
    flat = reshape(positions, (-1,)), reshape(astype(values, tensor.dtype), (-1,))
    updated = index_put(reshape(tensor, (-1,)), (flat[0],), flat[1], accumulate=accumulate)
    return reshape(updated, tensor.value.type.shape)
