"""Gathering, scattering, ordering, and what depends on the elements of tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _counted(indices: Any, size: Any) -> Any:
    """Indices, of which negative ones count from the end."""
    return fn.where(fn.less(indices, 0), fn.add(indices, size), indices)


def _taken(x: Any, indices: Any, axis: int) -> Any:
    """Slices of a host value; an element that is a symbolic size stays one."""
    axis += x.ndim if axis < 0 else 0
    return np.take(x, indices.reshape(-1), axis).reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@define("Gather", raw=True)
def gather(x: Any, indices: Any, axis: int = 0) -> Any:
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray) and indices.dtype.kind != "O":
        return _taken(x, indices, axis)
    if isinstance(indices, np.ndarray) and indices.ndim == 0 and indices.dtype.kind != "O":
        axis += x.ndim if axis < 0 else 0
        return x[(*[slice(None)] * axis, int(indices))]
    if isinstance(x, np.ndarray) and values.is_text(x):
        return _taken(x, values.host(indices, "an index of texts"), axis)
    return fn.take(values.tensor(x), values.tensor(indices), axis=axis)


@define("GatherElements")
def gather_elements(x: Any, indices: Any, axis: int) -> Any:
    axis += x.ndim if axis < 0 else 0
    return fn.gather(x, axis, _counted(indices, x.shape[axis]))


def _flat_places(indices: Any, sizes: Any) -> Any:
    """Indices along the last axis as indices into flattened axes of these sizes."""
    total: Any = 0
    for i, size in enumerate(sizes):
        total = fn.add(fn.multiply(total, size), _counted(indices[..., i], size))
    return total


@define("GatherND")
def gather_nd(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    depth = indices.shape[-1]
    batch, rest = x.shape[:batch_dims], x.shape[batch_dims + depth :]
    sizes = x.shape[batch_dims : batch_dims + depth]
    count = math.prod(batch)
    rows = fn.reshape(x, (count * math.prod(sizes), *rest))
    flat = fn.reshape(_flat_places(indices, sizes), (count, -1))
    places = fn.add(flat, fn.reshape(fn.multiply(fn.arange(count), math.prod(sizes)), (count, 1)))
    return fn.reshape(fn.take(rows, fn.reshape(places, (-1,)), axis=0), (*indices.shape[:-1], *rest))


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@define("ScatterElements", "Scatter")
def scatter_elements(x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    axis += x.ndim if axis < 0 else 0
    places = _counted(indices, x.shape[axis])
    if reduction == "none":
        return fn.scatter(x, axis, places, updates)
    if reduction not in _REDUCTIONS:
        raise UnsupportedOp(f"ScatterElements with the reduction {reduction!r}")
    return fn.scatter_reduce(x, axis, places, updates, _REDUCTIONS[reduction])


@define("ScatterND")
def scatter_nd(x: Any, indices: Any, updates: Any, reduction: str = "none") -> Any:
    depth = indices.shape[-1]
    sizes, rest = x.shape[:depth], x.shape[depth:]
    rows = fn.reshape(x, (math.prod(sizes), *rest))
    places = fn.reshape(_flat_places(indices, sizes), (-1,))
    source = fn.reshape(updates, (*places.shape, *rest))
    if reduction == "none":
        result = fn.index_copy(rows, 0, places, source)
    else:
        index = fn.reshape(places, (-1, *[1] * len(rest)))
        result = fn.scatter_reduce(rows, 0, fn.broadcast_to(index, source.shape), source, _REDUCTIONS[reduction])
    return fn.reshape(result, x.shape)


@define("TensorScatter")
def tensor_scatter(past: Any, update: Any, write_indices: Any = None, axis: int = -2, mode: str = "linear") -> Any:
    axis += past.ndim if axis < 0 else 0
    length = update.shape[axis]
    places = fn.reshape(fn.arange(length), tuple(-1 if i == axis else 1 for i in range(past.ndim)))
    if write_indices is not None:
        places = fn.add(places, fn.reshape(write_indices, (-1, *[1] * (past.ndim - 1))))
    if mode == "circular":
        places = fn.remainder(places, past.shape[axis])
    return fn.scatter(past, axis, fn.broadcast_to(places, update.shape), update)


@define("OneHot", host=(1,))
def one_hot(indices: Any, depth: Any, pair: Any, axis: int = -1) -> Any:
    count = values.one(depth)
    count = int(count) if isinstance(count, float) else count
    axis += indices.ndim + 1 if axis < 0 else 0
    whole = fn.astype(indices, np.int64)
    own = fn.where(fn.less(whole, 0), fn.add(whole, count), whole)
    numbers = fn.reshape(fn.arange(count), tuple(-1 if i == axis else 1 for i in range(indices.ndim + 1)))
    return fn.where(fn.equal(fn.expand_dims(own, axis=axis), numbers), pair[1], pair[0])


# ----------------------------------------------------------------------
# Ordering.


@define("TopK", since=10, host=(1,))
def top_k(x: Any, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    return _top(x, values.one(k), axis, bool(largest))


@define("TopK")
def top_k_by_attribute(x: Any, k: int, axis: int = -1) -> Any:
    return _top(x, k, axis, True)


def _top(x: Any, k: Any, axis: int, largest: bool) -> Any:
    return tuple(fn.topk(x, k, axis=axis, largest=largest, sorted=True))


def _extreme(x: Any, axis: int, keepdims: int, last: int, largest: bool) -> Any:
    function = fn.argmax if largest else fn.argmin
    if not last:
        return function(x, axis=axis, keepdims=bool(keepdims))
    size = x.shape[axis]
    return fn.subtract(size - 1, function(fn.flip(x, axis=axis), axis=axis, keepdims=bool(keepdims)))


@define("ArgMax")
def arg_max(x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    return _extreme(x, axis, keepdims, select_last_index, True)


@define("ArgMin")
def arg_min(x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    return _extreme(x, axis, keepdims, select_last_index, False)


# ----------------------------------------------------------------------
# Shapes that depend on elements: node by node, or of host values.


@define("NonZero", host=(0,), raw=True)
def non_zero(x: Any) -> Any:
    array = values.host(x, "the number of nonzero elements")
    return np.stack(np.nonzero(array)).astype(np.int64) if array.ndim else np.zeros((0, int(array != 0)), np.int64)


@define("Compress", host=(1,), raw=True)
def compress(x: Any, condition: Any, axis: int | None = None) -> Any:
    mask = values.host(condition, "the number of elements that Compress selects")
    places = np.nonzero(mask)[0]
    if isinstance(x, np.ndarray):
        return np.take(x.reshape(-1) if axis is None else x, places, 0 if axis is None else axis)
    return fn.take(fn.reshape(x, (-1,)), places, axis=0) if axis is None else fn.take(x, places, axis=axis)


@define("Unique", host=(0,), raw=True)
def unique(x: Any, axis: int | None = None, sorted: int = 1) -> Any:
    array = values.host(x, "the number of distinct elements")
    distinct, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        distinct, first, counts = np.take(distinct, order, axis or 0), first[order], counts[order]
        inverse = places[inverse]
    return distinct, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)
