"""Normalisation, and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.nn import functional as F
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _channels(vector: Any, x: Any) -> Any:
    return fn.reshape(vector, (-1, *[1] * (x.ndim - 2)))


def _batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float, momentum: float, training: bool, outputs: Any
) -> Any:
    if not training:
        dtype = np.result_type(mean.dtype, np.float32) if mean.dtype != x.dtype else x.dtype
        wide = fn.astype(x, dtype, copy=False)
        result = F.batch_norm(wide, mean, var, fn.astype(scale, dtype), fn.astype(bias, dtype), False, 0.0, epsilon)
        return fn.astype(result, x.dtype, copy=False)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    own_mean = fn.mean(x, axis=axes)
    own_var = fn.var(x, axis=axes)
    result = F.batch_norm(x, own_mean, own_var, scale, bias, False, 0.0, epsilon)
    kept = [
        fn.add(fn.multiply(old, momentum), fn.multiply(new, 1 - momentum))
        for old, new in ((mean, own_mean), (var, own_var))
    ]
    return (result, *kept, *kept)[: len(outputs)]


@define("BatchNormalization", since=14)
def batch_norm(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    var: Any,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    outputs: Any = (),
) -> Any:
    return _batch_norm(x, scale, bias, mean, var, epsilon, momentum, bool(training_mode), outputs)


@define("BatchNormalization")
def old_batch_norm(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    var: Any,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    outputs: Any = (),
    **old: Any,
) -> Any:
    return _batch_norm(x, scale, bias, mean, var, epsilon, momentum, len(outputs) > 1, outputs)


@define("InstanceNormalization")
def instance_norm(x: Any, scale: Any, bias: Any, epsilon: float = 1e-5, **old: Any) -> Any:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@define("LayerNormalization")
def layer_norm(
    x: Any, scale: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: Any = ()
) -> Any:
    axis += x.ndim if axis < 0 else 0
    shape = x.shape[axis:]
    plain = tuple(scale.shape) == tuple(shape) and (bias is None or tuple(bias.shape) == tuple(shape))
    if len(outputs) == 1 and plain and all(type(size) is int for size in shape):
        return F.layer_norm(x, tuple(shape), scale, bias, epsilon)
    axes = tuple(range(axis, x.ndim))
    wide = fn.astype(x, values.dtype_of_number(stash_type), copy=False)
    mean = fn.mean(wide, axis=axes, keepdims=True)
    centred = wide - mean
    inverse = fn.rsqrt(fn.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    result = fn.astype(centred * inverse, x.dtype, copy=False) * scale
    return (result if bias is None else result + bias, mean, inverse)[: max(1, len(outputs))]


@define("GroupNormalization", since=21)
def group_norm(x: Any, scale: Any, bias: Any, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@define("GroupNormalization")
def old_group_norm(x: Any, scale: Any, bias: Any, num_groups: int, epsilon: float = 1e-5) -> Any:
    normal = F.group_norm(x, num_groups, None, None, epsilon)
    size = x.shape[1] // num_groups
    return normal * _channels(fn.repeat(scale, size), x) + _channels(fn.repeat(bias, size), x)


@define("RMSNormalization")
def rms_norm(x: Any, scale: Any, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    axis += x.ndim if axis < 0 else 0
    shape = x.shape[axis:]
    if tuple(scale.shape) == tuple(shape) and all(type(size) is int for size in shape):
        return F.rms_norm(x, tuple(shape), scale, epsilon)
    wide = fn.astype(x, values.dtype_of_number(stash_type), copy=False)
    square = fn.mean(wide * wide, axis=tuple(range(axis, x.ndim)), keepdims=True)
    return fn.astype(wide * fn.rsqrt(square + epsilon), x.dtype, copy=False) * scale


@define("LpNormalization")
def lp_norm(x: Any, axis: int = -1, p: int = 2) -> Any:
    norm = fn.sum(fn.abs(x), axis=axis, keepdims=True) if p == 1 else fn.sqrt(fn.sum(x * x, axis=axis, keepdims=True))
    return fn.where(fn.equal(norm, 0), fn.zeros_like(x), x / fn.where(fn.equal(norm, 0), fn.ones_like(norm), norm))


@define("LRN")
def lrn(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = fn.pad(x * x, [(before, after) if i == 1 else (0, 0) for i in range(x.ndim)])
    channels = x.shape[1]
    total: Any = 0
    for i in range(size):
        total = total + squares[:, i : i + channels]
    return x / fn.pow(bias + (alpha / size) * total, beta)


@define("MeanVarianceNormalization")
def mean_variance_norm(
    x: Any, axes: Any = (0, 2, 3), across_channels: int | None = None, normalize_variance: int = 1
) -> Any:
    along = tuple(axes)
    centred = x - fn.mean(x, axis=along, keepdims=True)
    return centred / (fn.sqrt(fn.mean(centred * centred, axis=along, keepdims=True)) + 1e-9)


def _dropped(x: Any, ratio: float, training: bool, outputs: Any) -> Any:
    if not training or ratio == 0:
        return (x, fn.ones(x.shape, dtype=bool))[: max(1, len(outputs))]
    mask = fn.greater_equal(F.dropout(fn.ones(x.shape, dtype=x.dtype), ratio), 0.5)
    scaled = fn.where(mask, x / (1 - ratio), fn.zeros_like(x))
    return (scaled, mask)[: max(1, len(outputs))]


@define("Dropout", since=12, host=(1, 2))
def dropout(x: Any, ratio: Any = None, training: Any = None, seed: int | None = None, outputs: Any = ()) -> Any:
    share = 0.5 if ratio is None else float(values.one(ratio))
    return _dropped(x, share, training is not None and bool(values.one(training)), outputs)


@define("Dropout")
def old_dropout(x: Any, ratio: float = 0.5, is_test: int = 1, outputs: Any = (), **old: Any) -> Any:
    if len(outputs) > 1:
        return x, fn.ones(x.shape, dtype=bool)
    return x
