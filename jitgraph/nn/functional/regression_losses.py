"""Losses of predicted numbers, of parameters of distributions, and of orders and distances between vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgraph import ops
from jitgraph.errors import JitgraphError, OptionError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.op import Op
from jitgraph.nn.functional.arguments import (
    axis_or_dim,
    floats,
    hinge,
    known_reduction,
    loss_floats,
    paired,
    reduced,
    reduction_of,
    weighted,
)
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import exp, log, where
from jitgraph.tensor.functions.manipulation import broadcast_arrays
from jitgraph.tensor.functions.norms import finite_or_nan, p_norm
from jitgraph.tensor.functions.norms import pdist as pdist
from jitgraph.tensor.functions.shapes import expand_dims
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_step import one_step

# ----------------------------------------------------------------------
# Losses of predicted numbers and of the parameters of distributions.
#
# ``reduction`` is "mean", "sum" or "none"; ``size_average`` and ``reduce`` are how older code says it.


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


@one_step
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


@one_step
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

    ``var`` has the shape of the input, or 1 along one axis, or no last axis. ``full`` adds log(2 pi) / 2.
    """
    x, t, variance = map(wrap, loss_floats(input, target, var))
    v = variance
    if v.ndim and v.shape != x.shape:
        if v.shape == x.shape[:-1]:
            v = expand_dims(v, -1)
        elif v.ndim != x.ndim or [own for size, own in zip(x.shape, v.shape, strict=True) if own != size] != [1]:
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


# ----------------------------------------------------------------------
# Losses of orders and of distances between vectors, and these distances.
#
# ``reduction`` is "mean", "sum" or "none"; ``size_average`` and ``reduce`` are how older code says it.


@axis_or_dim
def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x1 x2) / (|x1| |x2|) along ``dim`` of the broadcast shape, each norm at least ``eps``."""
    a, b = broadcast_arrays(*map(wrap, floats(x1, x2)))
    left, right = (finite_or_nan(p_norm(x, 2.0, dim)).clip(min=eps) for x in (a, b))
    return (a * b).sum(axis=dim) / left / right  # type: ignore[no-any-return]


@one_step
def pairwise_distance(
    x1: TensorLike, x2: TensorLike, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis, or of a number alone; p is any number, as in ``normalize``."""
    a, b = map(wrap, loss_floats(x1, x2))
    gap = a - b + eps
    return p_norm(gap, float(p), -1 if gap.ndim else (), keepdims=keepdim)


def margin_ranking_loss(
    input1: TensorLike,
    input2: TensorLike,
    target: TensorLike,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -t (x1 - x2) + margin): t is 1 where x1 should be the greater one, else -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    x1, x2, t = map(wrap, loss_floats(input1, input2, target))
    return reduced(hinge(-t * (x1 - x2) + margin), reduction)


def hinge_embedding_loss(
    input: TensorLike,
    target: TensorLike,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where t is 1, max(0, margin - x) where it is -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = map(wrap, paired("hinge_embedding_loss", input, target))
    return reduced(where(t != 1, hinge(margin - x), 0.0) + where(t != -1, x, 0.0), reduction)


def cosine_embedding_loss(
    input1: TensorLike,
    input2: TensorLike,
    target: TensorLike,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where t is 1, max(0, cos(x1, x2) - margin) where it is -1, along the last axis."""
    reduction = reduction_of(reduction, size_average, reduce)
    x1, x2 = map(wrap, loss_floats(input1, input2))
    t = wrap(lifting.value_of(target))
    if x1.ndim not in (1, 2) or t.ndim != x1.ndim - 1:
        raise ShapeError(
            f"cosine_embedding_loss takes x[N, D] and t[N], or x[D] and one t, not {x1.value.type} and {t.value.type}"
        )
    small = 1e-12
    squares = ((x1 * x1).sum(axis=-1) + small) * ((x2 * x2).sum(axis=-1) + small)
    cosine = (x1 * x2).sum(axis=-1) / squares**0.5
    each = where(t == 1, 1.0 - cosine, 0.0) + where(t == -1, hinge(cosine - margin), 0.0)
    return reduced(each, reduction)


def triplet_margin_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for p-norms d (Balntas et al. 2016).

    With ``swap`` the distance of positive and negative counts where it is smaller than that of the anchor.
    """
    reduction = reduction_of(reduction, size_average, reduce)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


def triplet_margin_with_distance_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """As ``triplet_margin_loss``, by a distance of one's own; the 2-norm unless one is given."""
    if margin <= 0:
        raise OptionError(f"triplet_margin_loss: margin={margin} is not greater than 0")
    measure = pairwise_distance if distance_function is None else distance_function
    a, near, far = map(wrap, loss_floats(anchor, positive, negative))
    distant = measure(a, far)
    if swap:
        between = measure(near, far)
        distant = where(between < distant, between, distant)
    return reduced(hinge(measure(a, near) - distant + margin), reduction)
