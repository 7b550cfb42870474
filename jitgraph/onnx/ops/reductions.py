"""Reductions along axes, and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.onnx import values
from jitgraph.onnx.ops import on_host
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _root(x: Any) -> Any:
    return fn.astype(fn.sqrt(fn.astype(x, np.float32) if dtypes.is_integer(x.dtype) else x), x.dtype)


def _log(x: Any) -> Any:
    return fn.astype(fn.log(x), x.dtype)


def _sum(x: Any, **how: Any) -> Any:
    return fn.astype(fn.sum(x, **how), x.dtype)


def _mean(x: Any, **how: Any) -> Any:
    if dtypes.is_float(x.dtype):
        return fn.mean(x, **how)
    axis = how["axis"]
    count = math.prod(x.shape) if axis is None else math.prod(x.shape[i] for i in axis)
    total = fn.sum(x, **how)
    return fn.astype(fn.floor_divide(fn.subtract(total, fn.fmod(total, count)), count), x.dtype)


def _extreme(function: Callable[..., Any], largest: bool) -> Callable[..., Any]:
    def reduce(x: Any, **how: Any) -> Any:
        axis = how["axis"]
        sizes = x.shape if axis is None else [x.shape[i] for i in axis]
        if any(type(size) is int and size == 0 for size in sizes):
            return fn.full(fn.sum(x, **how).shape, _limit(x.dtype, largest), dtype=x.dtype)
        return function(x, **how)

    return reduce


def _limit(dtype: Any, largest: bool) -> Any:
    """What the greatest, or smallest, of no elements is."""
    if dtypes.is_bool(dtype):
        return not largest
    if dtypes.is_integer(dtype):
        return int(np.iinfo(dtype).min if largest else np.iinfo(dtype).max)
    return -math.inf if largest else math.inf


_KINDS: dict[str, Callable[..., Any]] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": lambda x, **how: fn.astype(fn.prod(x, **how), x.dtype),
    "ReduceMax": _extreme(fn.max, True),
    "ReduceMin": _extreme(fn.min, False),
    "ReduceL1": lambda x, **how: _sum(fn.abs(x), **how),
    "ReduceL2": lambda x, **how: _root(_sum(fn.multiply(x, x), **how)),
    "ReduceSumSquare": lambda x, **how: _sum(fn.multiply(x, x), **how),
    "ReduceLogSum": lambda x, **how: _log(_sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: (
        fn.logsumexp(x, **how) if dtypes.is_float(x.dtype) else _log(_sum(fn.exp(x), **how))
    ),
}
_ON_HOST: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}
_SINCE = {"ReduceSum": 13}  # where the axes became an operand; 18 for the others


def _reduced(x: Any, axes: Any, keepdims: int, noop: int, kind: str) -> Any:
    if axes is not None:
        axes = [axis + x.ndim if axis < 0 else axis for axis in axes]
    along = None if not axes else tuple(axes)
    if along is None and noop:
        along = ()
        if kind in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"):
            return x
        shape = x.shape
        wide = fn.reshape(x, (*shape, 1)) if not isinstance(x, np.ndarray) else x
        return fn.reshape(_KINDS[kind](wide, axis=(len(shape),), keepdims=False), shape)
    if along is None and x.ndim == 0:
        x, along, keepdims = x.reshape((1,)), (0,), 0
    if isinstance(x, np.ndarray):
        if kind in _ON_HOST and (x.dtype.kind in "iub" or x.dtype.kind == "O") and x.size:
            result = np.asarray(_ON_HOST[kind](x.astype(object), axis=along, keepdims=bool(keepdims)), object)
            return on_host.narrowed(result, values.dtype_of(x))
        x = values.tensor(x)
    return _KINDS[kind](x, axis=along, keepdims=bool(keepdims))


for _name in _KINDS:

    def _new(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0, _kind: str = _name) -> Any:
        own = None if axes is None else values.sizes(values.host(axes, "the axes of a reduction"))
        return _reduced(x, own, keepdims, noop_with_empty_axes, _kind)

    def _old(x: Any, axes: Any = None, keepdims: int = 1, _kind: str = _name) -> Any:
        return _reduced(x, axes, keepdims, 0, _kind)

    define(_name, since=_SINCE.get(_name, 18), host=(1,), raw=True)(_new)
    define(_name, raw=True)(_old)


def _running(x: Any, axis: Any, exclusive: int, reverse: int, function: Any, first: int) -> Any:
    along = values.one(axis)
    along += x.ndim if along < 0 else 0
    if reverse:
        x = fn.flip(x, axis=along)
    if exclusive:
        around = [(1, 0) if i == along else (0, 0) for i in range(x.ndim)]
        x = fn.pad(x[(*[slice(None)] * along, slice(None, -1))], around, value=first)
    result = fn.astype(function(x, axis=along), x.dtype)
    return fn.flip(result, axis=along) if reverse else result


@define("CumSum", host=(1,))
def cum_sum(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, axis, exclusive, reverse, fn.cumsum, 0)


@define("CumProd", host=(1,))
def cum_prod(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, axis, exclusive, reverse, fn.cumprod, 1)
