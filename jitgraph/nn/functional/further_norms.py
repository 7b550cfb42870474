"""Normalisation of each member's channels, and by neighbouring channels."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.arguments import floats
from jitgraph.nn.functional.normalization import batch_norm, group_norm, mix
from jitgraph.ops import rules
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.elementwise import square
from jitgraph.tensor.functions.manipulation import pad
from jitgraph.tensor.functions.reductions import mean, var
from jitgraph.tensor.lifting import TensorLike


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
