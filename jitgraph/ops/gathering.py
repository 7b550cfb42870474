"""gather, scatter_add and scatter by int64 indices along an axis, and slices at dynamic starts.

Indices count from the end where they are negative, unless ``negative=False``, for which they are out of range; an
index out of range raises IndexError with the message of ``out_of_range``, compiled code included. Starts of dynamic
slices clamp, so that the slice lies within.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, IndexingError, ShapeError
from jitgraph.ir import dims
from jitgraph.ir.op import Op, Reduction, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import eq, select
from jitgraph.ops.creation import full, iota, zeros_like
from jitgraph.ops.movement import broadcast, reshape
from jitgraph.ops.numeric import Array, widen
from jitgraph.ops.sampling import generator, values


def out_of_range(op: str, index: int | str, extent: int | str) -> str:
    """The message of the IndexError for an index outside ``-extent .. extent - 1``, or ``0 .. extent - 1``."""
    return f"{op}: index {index} is out of range for an axis of {extent} elements"


def resolved(op: str, indices: Array, extent: int, negative: bool = True) -> Array:
    """``indices`` with negative ones counted from the end; IndexingError for the first that is out of range."""
    bad = (indices < (-extent if negative else 0)) | (indices >= extent)
    if bad.any():
        raise IndexingError(out_of_range(op, int(np.asarray(indices)[bad].flat[0]), extent))
    return np.where(indices < 0, indices + extent, indices)


def _require_indices(op: str, indices: Type) -> TensorType:
    type = rules.require_tensor(op, indices)
    if type.dtype != dtypes.int64:
        raise DTypeError(f"{op} takes int64 indices, not {type}", hint="cast them with .astype(jg.int64)")
    return type


def _gathered(type: TensorType, indices: TensorType, axis: int) -> Shape:
    return (*type.shape[:axis], *indices.shape, *type.shape[axis + 1 :])


def _gather_type(x: Type, indices: Type, *, axis: int, negative: bool = True) -> TensorType:
    type = rules.require_tensor("gather", x)
    rules.require_axis("gather", axis, type.ndim)
    return TensorType(type.dtype, _gathered(type, _require_indices("gather", indices), axis))


def _scatter_rule(name: str, accepts: frozenset[DType]) -> Any:
    def infer(x: Type, indices: Type, updates: Type, *, axis: int, negative: bool = True) -> TensorType:
        rules.require_tensors(name, (x, updates), accepts, 2)
        type, new = rules.require_tensor(name, x), rules.require_tensor(name, updates)
        rules.require_axis(name, axis, type.ndim)
        expected = _gathered(type, _require_indices(name, indices), axis)
        rules.same_dims(
            f"{name}({rules.describe((x, indices, updates))}) along axis {axis}: updates", expected, new.shape
        )
        return type

    return infer


def _gather(x: Array, indices: Array, *, axis: int, negative: bool = True) -> Array:
    return np.asarray(np.take(x, resolved("gather", indices, x.shape[axis], negative), axis))


def _rows(op: str, x: Array, indices: Array, updates: Array, axis: int, negative: bool) -> tuple[Array, Array, Array]:
    """A writable copy of x with the axis first, flat indices, and updates as one row for each of them."""
    target = np.array(np.moveaxis(x, axis, 0), order="C")
    flat = resolved(op, indices, x.shape[axis], negative).reshape(-1)
    moved = np.moveaxis(updates, range(axis, axis + indices.ndim), range(indices.ndim))
    return target, flat, moved.reshape((flat.size, *target.shape[1:]))


def _scatter_add(x: Array, indices: Array, updates: Array, *, axis: int, negative: bool = True) -> Array:
    """Sums in float32 for 16-bit floats, in the order of the indices."""
    target, flat, rows = _rows("scatter_add", widen(x), indices, widen(updates), axis, negative)
    with np.errstate(all="ignore"):
        np.add.at(target, flat, rows)
        return np.moveaxis(target.astype(x.dtype), 0, axis)


def _scatter(x: Array, indices: Array, updates: Array, *, axis: int, negative: bool = True) -> Array:
    target, flat, rows = _rows("scatter", x, indices, updates, axis, negative)
    last = np.full(x.shape[axis], -1, np.int64)
    np.maximum.at(last, flat, np.arange(flat.size))  # NumPy leaves open which of duplicates an assignment keeps
    hit = last >= 0
    target[hit] = rows[last[hit]]
    return np.moveaxis(target, 0, axis)


def _scatter_vjp(
    ct: Any, out: Any, x: Any, indices: Any, updates: Any, *, axis: int, negative: bool = True
) -> tuple[Any, None, Any]:
    """An overwritten element gets no gradient, and of updates to one place only the last gets it."""
    count = dims.product(indices.shape)
    if count == 1:
        return scatter(ct, indices, zeros_like(updates), axis=axis), None, gather(ct, indices, axis=axis)
    order = reshape(iota(shape=(count,), axis=0, dtype=dtypes.int64), shape=indices.shape)
    none = full(shape=(x.shape[axis],), value=-1, dtype=dtypes.int64)
    wins = eq(gather(scatter(none, indices, order, axis=0), indices, axis=0), order)
    wins = broadcast(wins, shape=updates.shape, axes=tuple(range(axis, axis + len(indices.shape))))
    taken = gather(ct, indices, axis=axis)
    return scatter(ct, indices, zeros_like(updates), axis=axis), None, select(wins, taken, zeros_like(taken))


def _gather_samples(dtype: DType) -> Sequence[Sample]:
    rng = generator("gather", dtype)
    cases: list[tuple[tuple[int, ...], Any, int]] = [
        ((5,), [0, 4, -1, -5, 2, 2], 0),
        ((3, 4), [[1, 0], [-1, 1]], 0),
        ((3, 4), [3, 3, 0], 1),
        ((2, 3, 2), 1, 1),
        ((3, 2), np.zeros((0,), np.int64), 0),
        ((0, 2), np.zeros((0, 2), np.int64), 0),
        ((4, 0), [1, 2], 0),
        ((7, 19), [6, 0, 3], 0),
    ]
    return [
        Sample((values(rng, dtype, shape), np.asarray(indices, np.int64)), {"axis": axis})
        for shape, indices, axis in cases
    ] + [Sample((values(rng, dtype, (3, 2)), np.array([2, 0])), {"axis": 0, "negative": False})]


def _scatter_samples(name: str, accepts: frozenset[DType]) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in accepts:
            return ()
        rng = generator(name, dtype)
        cases = []
        for sample in _gather_samples(dtype):
            x, indices = sample.inputs
            axis: Any = sample.attrs["axis"]
            shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
            cases.append(Sample((x, indices, values(rng, dtype, shape)), sample.attrs))
        return cases

    return samples


gather: Op = Op(
    name="gather",
    kind="indexing",
    batch="gather",
    infer=_gather_type,
    evaluate=_gather,
    fusion="pointwise",
    lowering="gather",
    traits=frozenset({"bounds_checked"}),
    vjp=lambda ct, out, x, indices, *, axis, negative=True: (
        scatter_add(zeros_like(x), indices, ct, axis=axis),  # the indices were checked where they were read
        None,
    ),
    onnx="Gather",
    samples=_gather_samples,
    doc="Elements of x at int64 indices along an axis; the indices' axes stand in the place of that axis. With "
    "negative=False, here and in the scatters, an index below 0 is out of range.",
)
scatter_add: Op = Op(
    name="scatter_add",
    kind="indexing",
    batch="scatter",
    infer=_scatter_rule("scatter_add", rules.LINEAR),
    evaluate=_scatter_add,
    reduction=Reduction(lambda dtype: dtype.type(0).item(), lambda s, x, y: s.add(x, y)),
    lowering="scatter",
    traits=frozenset({"bounds_checked"}),
    vjp=lambda ct, out, x, indices, updates, *, axis, negative=True: (ct, None, gather(ct, indices, axis=axis)),
    onnx="ScatterElements",
    samples=_scatter_samples("scatter_add", rules.NUMBERS),
    doc="x with updates added at int64 indices along an axis, duplicates in order; the adjoint of gather.",
)
scatter: Op = Op(
    name="scatter",
    kind="indexing",
    batch="scatter",
    infer=_scatter_rule("scatter", rules.EVERY),
    evaluate=_scatter,
    lowering="scatter",
    traits=frozenset({"bounds_checked"}),
    vjp=_scatter_vjp,
    onnx="ScatterElements",
    samples=_scatter_samples("scatter", rules.ALL),
    doc="x with updates set at int64 indices along an axis; the last of duplicates stays.",
)


def _require_starts(op: str, type: TensorType, starts: Sequence[Type], sizes: Shape) -> None:
    if len(starts) != type.ndim or len(sizes) != type.ndim:
        raise ShapeError(f"{op}: {type} needs {type.ndim} starts and sizes, not {len(starts)} and {len(sizes)}")
    for start in starts:
        if start != TensorType(dtypes.int64, ()):
            raise DTypeError(f"{op} takes i64[] starts, not {start}")
    for size, extent in zip(sizes, type.shape, strict=True):
        rules.at_least(f"{op} of {type}", extent, size)


def _dynamic_slice_type(x: Type, *starts: Type, sizes: Shape) -> TensorType:
    type = rules.require_tensor("dynamic_slice", x)
    _require_starts("dynamic_slice", type, starts, rules.require_shape("dynamic_slice", sizes))
    return TensorType(type.dtype, sizes)


def _dynamic_update_type(x: Type, update: Type, *starts: Type) -> TensorType:
    rules.require_tensors("dynamic_update_slice", (x, update), rules.EVERY, 2)
    type, new = rules.require_tensor("dynamic_update_slice", x), rules.require_tensor("dynamic_update_slice", update)
    _require_starts("dynamic_update_slice", type, starts, new.shape)
    return type


def _window(x: Array, starts: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    first = [min(max(int(start), 0), n - size) for start, n, size in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(first, sizes, strict=True))


def _dynamic_update(x: Array, update: Array, *starts: Array) -> Array:
    result = np.array(x, order="C")
    result[_window(x, starts, update.shape)] = update
    return result


_DYNAMIC = [
    ((5,), (2,), (1,)),
    ((5,), (2,), (9,)),
    ((5,), (2,), (-3,)),
    ((3, 4), (2, 0), (1, 4)),
    ((3, 4), (2, 3), (2, 1)),
    ((), (), ()),
]


def _dynamic_samples(dtype: DType) -> Sequence[Sample]:
    rng = generator("dynamic_slice", dtype)
    return [
        Sample((values(rng, dtype, shape), *(np.array(start) for start in starts)), {"sizes": sizes})
        for shape, sizes, starts in _DYNAMIC
    ]


def _update_samples(dtype: DType) -> Sequence[Sample]:
    rng = generator("dynamic_update_slice", dtype)
    return [
        Sample((values(rng, dtype, shape), values(rng, dtype, sizes), *(np.array(start) for start in starts)))
        for shape, sizes, starts in _DYNAMIC
    ]


dynamic_slice: Op = Op(
    name="dynamic_slice",
    kind="indexing",
    batch="dynamic_slice",
    infer=_dynamic_slice_type,
    evaluate=lambda x, *starts, sizes: np.asarray(x[_window(x, starts, sizes)]),
    fusion="free",
    lowering="dynamic_slice",
    vjp=lambda ct, out, x, *starts, sizes: (dynamic_update_slice(zeros_like(x), ct, *starts), *(None for _ in starts)),
    samples=_dynamic_samples,
    doc="The block of extents sizes at 0-d int64 starts, one for each axis, clamped so that it lies within.",
)
dynamic_update_slice: Op = Op(
    name="dynamic_update_slice",
    kind="indexing",
    batch="dynamic_update_slice",
    infer=_dynamic_update_type,
    evaluate=_dynamic_update,
    fusion="pointwise",
    lowering="dynamic_update_slice",
    vjp=lambda ct, out, x, update, *starts: (
        dynamic_update_slice(ct, zeros_like(update), *starts),
        dynamic_slice(ct, *starts, sizes=update.shape),
        *(None for _ in starts),
    ),
    samples=_update_samples,
    doc="x with update in the place that dynamic_slice would take.",
)
