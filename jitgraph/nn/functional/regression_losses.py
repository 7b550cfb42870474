"""Losses of predicted numbers and of the parameters of distributions.

``reduction`` is "mean", "sum" or "none"; ``size_average`` and ``reduce`` are how older code says it.
"""

from __future__ import annotations

import math
from typing import Any

from jitgraph import ops
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.op import Op
from jitgraph.nn.functional.arguments import (
    known_reduction,
    loss_floats,
    paired,
    reduced,
    reduction_of,
    weighted,
)
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import exp, log, where
from jitgraph.tensor.functions.shapes import expand_dims
from jitgraph.tensor.lifting import TensorLike


def _over_weights(each: Tensor, weight: TensorLike, reduction: str) -> Tensor:
    """Losses times weights, reduced; the mean is over the weights."""
    losses = weighted(each, weight)
    return losses.sum() / wrap(lifting.value_of(weight)).sum() if reduction == "mean" else reduced(losses, reduction)


def _of_distance(op: Op, input: TensorLike, target: TensorLike, reduction: str, weight: TensorLike | None) -> Tensor:
    """The op's loss; with ``weight`` the mean is over the weights."""
    x, y = paired(op.name, input, target)
    op_reduction = known_reduction(reduction) if weight is None else "none"
    loss = wrap(op(x, y, reduction=op_reduction))
    return loss if weight is None else _over_weights(loss, weight, reduction)


def mse_loss(
    input: TensorLike,
    target: TensorLike,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: TensorLike | None = None,
) -> Tensor:
    """(input - target)^2, both of one shape; with ``weight`` of that shape the mean is over the weights."""
    return _of_distance(ops.mse_loss, input, target, reduction_of(reduction, size_average, reduce), weight)


def l1_loss(
    input: TensorLike,
    target: TensorLike,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: TensorLike | None = None,
) -> Tensor:
    """|input - target|, both of one shape; with ``weight`` of that shape the mean is over the weights."""
    return _of_distance(ops.l1_loss, input, target, reduction_of(reduction, size_average, reduce), weight)


def smooth_l1_loss(
    input: TensorLike,
    target: TensorLike,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where the distance d is below ``beta``, else d - beta / 2."""
    reduction = reduction_of(reduction, size_average, reduce)
    if beta == 0.0:
        return l1_loss(input, target, reduction=reduction)
    x, y = map(wrap, paired("smooth_l1_loss", input, target))
    distance = abs(x - y)
    near = distance.clip(max=beta)
    return reduced(near * near * (0.5 / beta) + (distance - near), reduction)


def huber_loss(
    input: TensorLike,
    target: TensorLike,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: TensorLike | None = None,
) -> Tensor:
    """d^2 / 2 where the distance d is at most ``delta``, else delta (d - delta / 2) (Huber 1964).

    With ``weight`` of the shape of both they are multiplied; the mean is over their number, as in PyTorch, and not over
    the weights as that of ``mse_loss``.
    """
    if delta <= 0:
        raise JitgraphError(f"huber_loss: delta={delta} is not positive")
    x, t = map(wrap, paired("huber_loss", input, target))
    distance = abs(x - t)
    near = distance.clip(max=delta)
    each = near * near * 0.5 + delta * (distance - near)
    return reduced(each if weight is None else weighted(each, weight), reduction)


def poisson_nll_loss(
    input: TensorLike,
    target: TensorLike,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - t x, or x - t log(x + eps) without ``log_input``; ``full`` adds Stirling's term where t > 1."""
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = map(wrap, paired("poisson_nll_loss", input, target))
    each = exp(x) - t * x if log_input else x - t * log(x + eps)
    if full:
        large = t > 1
        safe = where(large, t, 2.0)
        each = each + where(large, safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe), 0.0)
    return reduced(each, reduction)


def gaussian_nll_loss(
    input: TensorLike,
    target: TensorLike,
    var: TensorLike | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log v + (x - t)^2 / v) / 2 for variances v of at least ``eps``, whose gradient is as if they were not raised.

    ``var`` has the shape of the input, or a last axis of 1, or none. ``full`` adds log(2 pi) / 2.
    """
    x, t, variance = map(wrap, loss_floats(input, target, var))
    v = variance
    if v.ndim and v.shape != x.shape:
        if v.shape == x.shape[:-1]:
            v = expand_dims(v, -1)
        elif v.shape != (*x.shape[:-1], 1):
            raise ShapeError(f"gaussian_nll_loss: var {variance.value.type} for an input {x.value.type}")
    if context.current().trace is None and bool((v < 0).any()):
        raise JitgraphError("gaussian_nll_loss: var has a negative element")
    v = v + (v.clip(min=eps) - v).detach()
    each = 0.5 * (log(v) + (x - t) ** 2 / v)
    return reduced(each + 0.5 * math.log(2 * math.pi) if full else each, reduction)


def kl_div(
    input: TensorLike,
    target: TensorLike,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t (log t - x) for log probabilities x, 0 where t is 0 (Kullback and Leibler 1951).

    The target holds logarithms with ``log_target``. "batchmean" divides the sum by the size of axis 0, which is the
    divergence; "mean" divides it by the number of elements.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = map(wrap, paired("kl_div", input, target))
    if log_target:
        each = exp(t) * (t - x)
    else:
        nothing = t == 0
        each = where(nothing, 0.0, t * log(where(nothing, 1.0, t))) - t * x
    if reduction == "batchmean":
        size: Any = x.value.type.shape[0] if x.ndim else 1
        return each.sum() / size  # type: ignore[no-any-return]
    return reduced(each, reduction)
