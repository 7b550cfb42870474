"""Normalisation by mean and variance; weights and biases that are None count as ones and zeros."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.autograd import no_grad
from jitgraph.eager import placement
from jitgraph.eager.dispatch.function import NativeFunction
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import dims
from jitgraph.nn.functional.arguments import axis_or_dim, floats, same_shape
from jitgraph.ops import rules
from jitgraph.tensor import Tensor, lifting, scalars, wrap
from jitgraph.tensor.direct_calls import DirectCalls, direct_call
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import square
from jitgraph.tensor.functions.manipulation import pad
from jitgraph.tensor.functions.norms import finite_or_nan, p_norm
from jitgraph.tensor.functions.reductions import mean, var
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_step import one_step


def _scale_and_shift(x: Any, weight: Any, bias: Any, shape: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    for what, value in (("weight", weight), ("bias", bias)):
        if value is not None and not same_shape(value.shape, shape):
            raise ShapeError(f"{name} takes a {what} of shape {shape}, not {value.type}")
    return (
        lifting.repeated(1.0, x.dtype, shape) if weight is None else weight,
        lifting.repeated(0.0, x.dtype, shape) if bias is None else bias,
    )


def _trailing(x: Any, normalized_shape: int | Sequence[int], name: str) -> tuple[Any, ...]:
    shape = shape_of(tuple(normalized_shape) if isinstance(normalized_shape, Iterable) else normalized_shape)
    last = x.shape[len(x.shape) - len(shape) :] if len(shape) <= len(x.shape) else ()
    if not shape or not same_shape(last, shape):
        shown = ", ".join(map(str, shape))
        raise ShapeError(f"{name} with normalized_shape={shape} takes x[..., {shown}], not {x.type}")
    return shape


def layer_norm(
    input: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last axes standardised by their own mean and variance, times weight plus bias (Ba et al. 2016)."""
    if weight is None or bias is None or not _are_ints(normalized_shape) or eps.__class__ is not float:
        return _layer_norm(input, normalized_shape, weight, bias, eps)
    return _layer_norms[normalized_shape, eps](input, weight, bias)  # type: ignore[no-any-return]


def _are_ints(shape: Any) -> bool:
    return type(shape) is tuple and set(map(type, shape)) <= {int}


def _layer_norm(
    input: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None,
    bias: TensorLike | None,
    eps: float,
) -> Tensor:
    x, w, b = floats(input, weight, bias, optional=2)
    shape = _trailing(x, normalized_shape, "layer_norm")
    w, b = _scale_and_shift(x, w, b, shape, "layer_norm")
    return wrap(ops.layer_norm(x, w, b, num_axes=len(shape), eps=float(eps)))


def _norming(of: tuple[tuple[int, ...], float]) -> NativeFunction:
    shape, eps = of
    return direct_call(lambda x, w, b: _layer_norm(x, shape, w, b, eps), 3)


_layer_norms = DirectCalls(_norming)


@one_step
def rms_norm(
    input: TensorLike, normalized_shape: int | Sequence[int], weight: TensorLike | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last axes, times weight (Zhang and Sennrich 2019); 16-bit floats in float32.

    ``eps`` is the machine epsilon of the dtype unless given.
    """
    from jitgraph.ops.statistics import inverse_root  # here, as it loads the ops of statistics

    operand, w = floats(input, weight, optional=1)
    x = lifting.cast(operand, dtypes.float32) if operand.dtype.itemsize == 2 else operand
    shape = _trailing(x, normalized_shape, "rms_norm")
    _scale_and_shift(x, w, None, shape, "rms_norm")
    axes = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    square = ops.mean(ops.square(x), axes=axes)
    small = float(np.finfo(x.dtype).eps) if eps is None else float(eps)
    with placement.beside(square):
        scale = inverse_root(square, small)
    result = ops.mul(x, ops.broadcast(scale, shape=x.shape, axes=tuple(range(axes[0]))))
    if w is not None:
        result = ops.mul(result, ops.broadcast(lifting.cast(w, x.dtype), shape=x.shape, axes=axes))
    return wrap(lifting.cast(result, operand.dtype))


def _channels(x: Any, name: str) -> tuple[Any, ...]:
    if len(x.shape) < 2:
        raise ShapeError(f"{name} takes x[N, C, ...], not {x.type}")
    return (x.shape[1],)


@one_step
def group_norm(
    input: TensorLike,
    num_groups: int,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Groups of the channels of x[N, C, ...] standardised, times weight[C] plus bias[C] (Wu and He 2018)."""
    x, w, b = floats(input, weight, bias, optional=2)
    (channels,) = _channels(x, "group_norm")
    num_groups = scalars.python_int(num_groups)
    rules.quotient(f"group_norm: {channels} channels", channels, num_groups)
    w, b = _scale_and_shift(x, w, b, (channels,), "group_norm")
    size = dims.product(x.shape[1:]) // num_groups
    rows = ops.reshape(x, shape=(x.shape[0], num_groups, size))
    one, zero = (lifting.repeated(value, x.dtype, (size,)) for value in (1.0, 0.0))
    normal = ops.reshape(ops.layer_norm(rows, one, zero, num_axes=1, eps=float(eps)), shape=x.shape)
    scale, shift = (ops.broadcast(value, shape=x.shape, axes=(1,)) for value in (w, b))
    return wrap(ops.add(ops.mul(normal, scale), shift))


def batch_norm(
    input: TensorLike,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of x[N, C, ...] standardised, times weight[C] plus bias[C] (Ioffe and Szegedy 2015).

    By the running statistics, or in training by those of the batch, which are then mixed into the running ones (in
    place, the variance with n - 1) with weight ``momentum``.
    """
    x, w, b = floats(input, weight, bias, optional=2)
    shape = _channels(x, "batch_norm")
    w, b = _scale_and_shift(x, w, b, shape, "batch_norm")
    if not training:
        if running_mean is None or running_var is None:
            raise JitgraphError("batch_norm without training needs running_mean and running_var")
        statistics = [lifting.cast(running.value, x.dtype) for running in (running_mean, running_var)]
        return wrap(ops.batch_norm(x, w, b, *statistics, eps=float(eps)))
    count = dims.product((x.shape[0], *x.shape[2:]))
    if isinstance(count, int) and not count:  # an empty batch has no statistics, and leaves the running ones
        neutral = (lifting.repeated(value, x.dtype, shape) for value in (0.0, 1.0))
        return wrap(ops.batch_norm(x, w, b, *neutral, eps=float(eps)))
    rules.at_least(f"batch_norm in training needs more than one value per channel of {x.type}", count, 2)
    result, mean, var = ops.batch_norm_train(x, w, b, eps=float(eps))
    with no_grad():
        if running_mean is not None:
            mix(running_mean, wrap(mean).detach(), momentum)
        if running_var is not None:
            n, less = (wrap(ops.full(shape=(), value=size, dtype=var.dtype)) for size in (count, count - 1))
            mix(running_var, wrap(var).detach() * (n / less), momentum)
    return wrap(result)


def mix(running: Tensor, fresh: Tensor, momentum: Any) -> None:
    """Move a running average by this share towards a fresh value, in place."""
    running += (fresh.astype(running.dtype) - running) * momentum


@axis_or_dim
def normalize(input: TensorLike, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its p-norm along ``dim``, which counts as at least ``eps``.

    p is any number: the largest and the least magnitude for inf and -inf, for 0 the number of elements that are not 0.
    """
    x = wrap(floats(input)[0])
    result: Tensor = x / finite_or_nan(p_norm(x, float(p), dim, keepdims=True)).clip(min=eps)
    return result


@one_step
def instance_norm(
    input: TensorLike,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each member of x[N, C, ...] standardised, times weight[C] plus bias[C] (Ulyanov et al. 2016).

    Running statistics are mixed with the mean over the batch of the members' own, or used without
    ``use_input_stats``.
    """
    x = wrap(floats(input)[0])
    if x.ndim < 3:
        raise ShapeError(f"instance_norm takes x[N, C, ...] with an axis to standardise, not {x.value.type}")
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise JitgraphError("instance_norm with use_input_stats=False needs running_mean and running_var")
        return batch_norm(x, running_mean, running_var, weight, bias, False, eps=eps)
    axes = tuple(range(2, x.ndim))
    count = math.prod(x.value.type.shape[2:])
    rules.at_least(
        f"instance_norm by its own statistics needs more than one element to a channel: {x.value.type}", count, 2
    )
    if running_mean is not None or running_var is not None:
        _mix_mean(running_mean, mean(x.detach(), axes), momentum)
        _mix_mean(running_var, var(x.detach(), axes, correction=1), momentum)
    channels: Any = x.value.type.shape[1]
    return group_norm(x, channels, weight, bias, eps)


def _mix_mean(running: Tensor | None, of_members: Tensor, momentum: float) -> None:
    if running is not None:
        mix(running, mean(of_members, 0), momentum)


def local_response_norm(
    input: TensorLike, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of squares of ``size`` neighbouring channels)^beta (Krizhevsky et al. 2012)."""
    x = wrap(floats(input)[0])
    if x.ndim < 3:
        raise ShapeError(f"local_response_norm takes x[N, C, ...] of 3 axes or more, not {x.value.type}")
    if size < 1:
        raise JitgraphError(f"local_response_norm: size={size} is not positive")
    widths = [(0, 0)] * x.ndim
    widths[1] = (size // 2, (size - 1) // 2)
    squares = pad(square(x), widths)
    channels: Any = x.value.type.shape[1]
    total: Any = None
    for first in range(size):
        each = squares[:, first : first + channels]
        total = each if total is None else total + each
    scale: Tensor = (total / size * alpha + k) ** beta
    return x / scale
