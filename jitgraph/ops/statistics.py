"""Composites that reduce: mean, var, std, logsumexp, softmax, layer_norm, batch_norm; in float32 for 16-bit floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph.dtypes import DType
from jitgraph.errors import ShapeError
from jitgraph.ir import dims
from jitgraph.ir.op import Op, Sample
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, div, eq, maximum, mul, select, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import stop_gradient
from jitgraph.ops.creation import full, full_like, zeros_like
from jitgraph.ops.movement import broadcast, reduce_sum, reshape, restore
from jitgraph.ops.predicates import isfinite
from jitgraph.ops.reduction import reduce_max
from jitgraph.ops.sampling import edges, generator, samples_for, values
from jitgraph.ops.transcendental import exp, log, root, rsqrt
from jitgraph.ops.windows import pad, slice

# ----------------------------------------------------------------------
# Composites that reduce: mean, var, std, logsumexp, softmax and log_softmax; in float32 for 16-bit floats.
#
# ``axes`` are dropped, as by the reductions. Counts are sizes that may be symbolic, so that a named batch works.

Axes = tuple[int, ...]


def _over_axes(name: str, **attrs: Any) -> Callable[[DType], Sequence[Sample]]:
    cases: list[tuple[tuple[int, ...], Axes]] = [
        ((2, 3), (1,)),
        ((3, 4), (0,)),
        ((2, 3, 2), (0, 2)),
        ((3, 37), (1,)),
        ((4, 1), (0,)),
        ((0, 3), (1,)),
    ]

    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.FLOATS:
            return ()
        rng = generator(name, dtype)
        return [Sample((values(rng, dtype, shape),), {"axes": axes} | attrs) for shape, axes in cases]

    return samples


def count_of(x: Any, axes: Axes, less: float = 0) -> Any:
    """The number of elements along ``axes`` minus ``less`` as a 0-d value of x's dtype."""
    size = dims.product(x.shape[axis] for axis in axes)
    if isinstance(less, int):
        return full(shape=(), value=size - less, dtype=x.dtype)
    return sub(full(shape=(), value=size, dtype=x.dtype), full(shape=(), value=less, dtype=x.dtype))


def _each(value: Any, like: Any) -> Any:
    """A 0-d value repeated to the shape of ``like``."""
    return restore(value, like.type, tuple(range(len(like.shape)))) if like.shape else value


def mean_of(x: Any, axes: Axes) -> Any:
    """The sum over ``axes`` divided by their size."""
    total = reduce_sum(x, axes=axes)
    return div(total, _each(count_of(x, axes), total))


def deviations(x: Any, axes: Axes) -> tuple[Any, Any]:
    """How far elements lie from their mean over ``axes``, and that mean, reduced.

    All are first moved by one of theirs, which is exact where they lie close together: so neither has an error that
    grows with the mean (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983, section 1).
    Where that one is an outlier among n, some ulp of the standard deviation times the square root of n remain.
    """
    origin = stop_gradient(first(x, axes))
    moved = sub(x, restore(origin, x.type, axes))
    mean = mean_of(moved, axes)
    return sub(moved, restore(mean, x.type, axes)), add(origin, mean)


def first(x: Any, axes: Axes) -> Any:
    """The first element along each of ``axes``; 0 where there is none."""
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    if not all(isinstance(x.shape[axis], int) and x.shape[axis] for axis in axes):
        behind = tuple(int(axis in axes) for axis in range(len(sizes)))
        none = (0,) * len(sizes)
        x = pad(x, full(shape=(), value=0, dtype=x.dtype), low=none, high=behind, interior=none)
    corner = slice(x, starts=(0,) * len(sizes), stops=sizes, strides=(1,) * len(sizes))
    return reshape(corner, shape=tuple(size for axis, size in enumerate(sizes) if axis not in axes))


def _var(x: Any, *, axes: Axes, correction: float) -> Any:
    each, _ = deviations(x, axes)
    squares = reduce_sum(mul(each, each), axes=axes)
    return div(squares, _degrees(x, axes, correction, squares))


def _degrees(x: Any, axes: Axes, correction: float, like: Any) -> Any:
    count = count_of(x, axes, correction)
    return _each(maximum(count, zeros_like(count)), like)


def _var_vjp(ct: Any, out: Any, x: Any, *, axes: Axes, correction: float) -> tuple[Any]:
    """2 (x - mean) / (n - correction)."""
    slope = div(mul(ct, full_like(2.0, ct)), _degrees(x, axes, correction, ct))
    return (mul(deviations(x, axes)[0], restore(slope, x.type, axes)),)


mean: Op = composite(
    "mean",
    lambda x, *, axes: mean_of(x, axes),
    batch="shifted",
    samples=_over_axes("mean"),
    onnx="ReduceMean",
    in_float32=True,
    doc="The arithmetic mean over axes; NaN for none.",
)
var: Op = composite(
    "var",
    _var,
    vjp=_var_vjp,
    batch="shifted",
    samples=_over_axes("var", correction=1),
    in_float32=True,
    doc="The variance over axes: squared deviations from the mean, summed and divided by max(0, n - correction).",
)


std: Op = composite(
    "std",
    lambda x, *, axes, correction: root(var(x, axes=axes, correction=correction)),
    batch="shifted",
    samples=lambda dtype: [s for s in _over_axes("std", correction=0)(dtype) if s.inputs[0].shape != (4, 1)],
    in_float32=True,
    doc="The square root of the variance; its gradient is 0 where that is 0.",
)


def _safe_maximum(x: Any, axes: Axes) -> Any:
    """The greatest element, to be subtracted before exp; 0 where it is not finite and would make NaN of infinity."""
    top = stop_gradient(reduce_max(x, axes=axes))
    return select(isfinite(top), top, zeros_like(top))


def _logsumexp(x: Any, *, axes: Axes) -> Any:
    top = _safe_maximum(x, axes)
    return add(top, log(reduce_sum(exp(sub(x, restore(top, x.type, axes))), axes=axes)))


logsumexp: Op = composite(
    "logsumexp",
    _logsumexp,
    batch="shifted",
    samples=_over_axes("logsumexp"),
    onnx="ReduceLogSumExp",
    in_float32=True,
    doc="log(sum(exp(x))) over axes, without overflow; -inf for none.",
)


def _softmax(x: Any, *, axis: int) -> Any:
    rules.require_axis("softmax", axis, len(x.shape))
    powers, _ = shifted_powers(x, axis, masked=False)
    return _shares(powers, reduce_sum(powers, axes=(axis,)), x, axis)


def _shares(powers: Any, total: Any, x: Any, axis: int) -> Any:
    """``powers / total`` by one division a row: within 1.5 ulp of the quotients, and exact where ``total`` is a power
    of two."""
    return mul(powers, restore(div(full_like(1.0, total), total), x.type, (axis,)))


def _softmax_vjp(ct: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    weighted = reduce_sum(mul(ct, out), axes=(axis,))
    return (mul(out, sub(ct, restore(weighted, x.type, (axis,)))),)


def _masked_softmax(x: Any, *, axis: int) -> Any:
    rules.require_axis("masked_softmax", axis, len(x.shape))
    powers, _ = shifted_powers(x, axis, masked=True)
    total = reduce_sum(powers, axes=(axis,))
    total = select(eq(total, zeros_like(total)), full_like(1.0, total), total)
    return _shares(powers, total, x, axis)


def shifted_powers(x: Any, axis: int, *, masked: bool) -> tuple[Any, Any]:
    """exp(x - top), and top: the greatest element along ``axis``; where ``masked``, 0 for a row of -inf alone."""
    top = stop_gradient(reduce_max(x, axes=(axis,)))
    if masked:
        top = select(eq(top, full_like(-np.inf, top)), zeros_like(top), top)
    return exp(sub(x, restore(top, x.type, (axis,)))), top


def _log_softmax(x: Any, *, axis: int) -> Any:
    rules.require_axis("log_softmax", axis, len(x.shape))
    top = stop_gradient(reduce_max(x, axes=(axis,)))
    left = sub(x, restore(top, x.type, (axis,)))
    return sub(left, restore(log(reduce_sum(exp(left), axes=(axis,))), x.type, (axis,)))


def _log_softmax_vjp(ct: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    total = reduce_sum(ct, axes=(axis,))
    return (sub(ct, mul(exp(out), restore(total, x.type, (axis,)))),)


def _along_axis(name: str) -> Callable[[DType], Sequence[Sample]]:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.FLOATS:
            return ()
        rng = generator(name, dtype)
        shapes = [((2, 3), 1), ((3, 4), 0), ((2, 3, 2), 1), ((5, 37), 1), ((1,), 0), ((0, 3), 1), ((2, 0), 1)]
        cases = [Sample((values(rng, dtype, shape),), {"axis": axis}) for shape, axis in shapes]
        large = np.array([[100.0, -100.0, 50.0], [-np.inf, 0.0, 1.0]]).astype(dtype)
        return [
            *cases,
            Sample((large,), {"axis": 1}, differentiable=False),
            Sample((edges(dtype),), {"axis": 0}, differentiable=False),
        ]

    return samples


softmax: Op = composite(
    "softmax",
    _softmax,
    vjp=_softmax_vjp,
    batch="shifted",
    samples=_along_axis("softmax"),
    onnx="Softmax",
    in_float32=True,
    doc="exp(x) / sum(exp(x)) along axis, the greatest element subtracted first.",
    traits=["autocast_wide"],
)
masked_softmax: Op = composite(
    "masked_softmax",
    _masked_softmax,
    vjp=_softmax_vjp,
    batch="shifted",
    samples=_along_axis("masked_softmax"),
    in_float32=True,
    doc="softmax, and 0 for a row of -inf alone: the weights of attention, where nothing may be seen.",
    traits=["autocast_wide"],
)
log_softmax: Op = composite(
    "log_softmax",
    _log_softmax,
    vjp=_log_softmax_vjp,
    batch="shifted",
    samples=_along_axis("log_softmax"),
    onnx="LogSoftmax",
    in_float32=True,
    doc="log(softmax(x)) along axis, the greatest element subtracted first.",
    traits=["autocast_wide"],
)


# ----------------------------------------------------------------------
# layer_norm and batch_norm, the latter for training (statistics of the batch) and inference (given statistics).


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
