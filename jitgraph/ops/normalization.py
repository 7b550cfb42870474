"""layer_norm and batch_norm, the latter for training (statistics of the batch) and inference (given statistics)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgraph.dtypes import DType
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, eq, mul, select, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.creation import full_like
from jitgraph.ops.movement import broadcast, reduce_sum, restore
from jitgraph.ops.sampling import samples_for
from jitgraph.ops.statistics import deviations, mean_of
from jitgraph.ops.transcendental import rsqrt

Axes = tuple[int, ...]


def inverse_root(square: Any, eps: float) -> Any:
    """1 / sqrt(square + eps); NaN where the square has overflowed, as 0 would look like a result.

    To scale what may overflow takes its greatest magnitude, and layer_norm 1.7 times as long.
    """
    overflown = eq(square, full_like(math.inf, square))
    return select(overflown, full_like(math.nan, square), rsqrt(add(square, full_like(eps, square))))


def _standardized(x: Any, axes: Axes, eps: float) -> tuple[Any, Any, Any, Any]:
    """x less its mean over ``axes`` and over its deviation; with the mean, the variance and 1 / deviation, reduced."""
    each, mean = deviations(x, axes)
    var = mean_of(mul(each, each), axes)
    scale = inverse_root(var, eps)
    return mul(each, restore(scale, x.type, axes)), mean, var, scale


def _trailing(x: Any, num_axes: int) -> tuple[Axes, Axes]:
    ndim = len(x.shape)
    if not 0 < num_axes <= ndim:
        raise ShapeError(f"layer_norm: num_axes={num_axes} does not fit {x.type}")
    return tuple(range(ndim - num_axes)), tuple(range(ndim - num_axes, ndim))


def _layer_norm(x: Any, weight: Any, bias: Any, *, num_axes: int, eps: float) -> Any:
    _, axes = _trailing(x, num_axes)
    normal, *_ = _standardized(x, axes, eps)
    each = {"shape": x.shape, "axes": axes}
    return add(mul(normal, broadcast(weight, **each)), broadcast(bias, **each))


def _layer_norm_vjp(
    ct: Any, out: Any, x: Any, weight: Any, bias: Any, *, num_axes: int, eps: float
) -> tuple[Any, Any, Any]:
    """dx = (g - mean(g) - n * mean(g * n)) / deviation, with n the standardised x and g = ct * weight."""
    leading, axes = _trailing(x, num_axes)
    normal, _, _, scale = _standardized(x, axes, eps)
    seed = mul(ct, broadcast(weight, shape=x.shape, axes=axes))
    across = restore(mean_of(mul(seed, normal), axes), x.type, axes)
    centred = sub(seed, restore(mean_of(seed, axes), x.type, axes))
    dx = mul(sub(centred, mul(normal, across)), restore(scale, x.type, axes))
    return dx, reduce_sum(mul(ct, normal), axes=leading), reduce_sum(ct, axes=leading)


def _channels(x: Any) -> Axes:
    if len(x.shape) < 2:
        raise ShapeError(f"batch_norm: {x.type} has no channel axis 1")
    return tuple(axis for axis in range(len(x.shape)) if axis != 1)


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, *, eps: float) -> Any:
    axes = _channels(x)
    scale = mul(weight, rsqrt(add(var, full_like(eps, var))))
    shift = sub(bias, mul(mean, scale))
    return add(mul(x, restore(scale, x.type, axes)), restore(shift, x.type, axes))


def _batch_norm_train(x: Any, weight: Any, bias: Any, *, eps: float) -> tuple[Any, Any, Any]:
    axes = _channels(x)
    normal, mean, var, _ = _standardized(x, axes, eps)
    return add(mul(normal, restore(weight, x.type, axes)), restore(bias, x.type, axes)), mean, var


layer_norm: Op = composite(
    "layer_norm",
    _layer_norm,
    vjp=_layer_norm_vjp,
    batch="leading",
    samples=samples_for(
        "layer_norm",
        rules.FLOATS,
        lambda array: [
            Sample((array(*shape), array(*shape[-n:]), array(*shape[-n:])), {"num_axes": n, "eps": 1e-5})
            for shape, n in [((2, 3), 1), ((2, 3, 4), 2), ((5, 37), 1), ((0, 3), 1), ((4,), 1)]
        ],
    ),
    onnx="LayerNormalization",
    in_float32=True,
    doc="x standardised over its last num_axes axes (biased variance plus eps), times weight plus bias.",
    traits=["autocast_wide"],
)


def _batch_samples(statistics: bool) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        def make(array: Any) -> Sequence[Sample]:
            cases = []
            for shape in [(4, 3), (2, 3, 2, 2), (5, 1, 7)]:
                moments = (array(shape[1]), array(shape[1], domain=(0.5, 1.5))) if statistics else ()
                cases.append(Sample((array(*shape), array(shape[1]), array(shape[1]), *moments), {"eps": 1e-5}))
            return cases

        return samples_for("batch_norm", rules.FLOATS, make)(dtype)

    return samples


batch_norm: Op = composite(
    "batch_norm",
    _batch_norm,
    samples=_batch_samples(True),
    onnx="BatchNormalization",
    in_float32=True,
    doc="x[N, C, ...] standardised by the given mean[C] and var[C] (plus eps), times weight[C] plus bias[C].",
    traits=["autocast_wide"],
)
batch_norm_train: Op = composite(
    "batch_norm_train",
    _batch_norm_train,
    samples=_batch_samples(False),
    in_float32=True,
    doc="batch_norm by the batch's own statistics over all axes but 1: (y, mean[C], biased var[C]).",
    traits=["autocast_wide"],
)
