"""Losses of distributions, margins and distances, in PyTorch's names; ``reduction`` is "mean", "sum" or "none".

``size_average`` and ``reduce`` are how older code says it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgraph import dtypes
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.activation import logsigmoid, softplus
from jitgraph.nn.functional.arguments import loss_floats, reduction_of
from jitgraph.nn.functional.loss import paired, reduced, weighted
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.cumulative import cumprod
from jitgraph.tensor.functions.distances import pdist as pdist
from jitgraph.tensor.functions.elementwise import exp, log, where
from jitgraph.tensor.functions.manipulation import take_along_axis
from jitgraph.tensor.functions.norms import p_norm
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.shapes import expand_dims
from jitgraph.tensor.lifting import TensorLike


def _pair(name: str, input: TensorLike, target: TensorLike) -> tuple[Tensor, Tensor]:
    x, y = paired(name, input, target)
    return wrap(x), wrap(y)


def _above_zero(x: Tensor) -> Tensor:
    return x.clip(min=0.0)  # type: ignore[no-any-return]


# --- distributions --------------------------------------------------------------------------------------------------


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
    x, t = _pair("kl_div", input, target)
    if log_target:
        each = exp(t) * (t - x)
    else:
        nothing = t == 0
        each = where(nothing, 0.0, t * log(where(nothing, 1.0, t))) - t * x
    if reduction == "batchmean":
        size: Any = x.value.type.shape[0] if x.ndim else 1
        return each.sum() / size  # type: ignore[no-any-return]
    return reduced(each, reduction)


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
    x, t = _pair("poisson_nll_loss", input, target)
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
    x, t = _pair("huber_loss", input, target)
    distance = abs(x - t)
    near = distance.clip(max=delta)
    each = near * near * 0.5 + delta * (distance - near)
    return reduced(each if weight is None else weighted(each, weight), reduction)


# --- margins ----------------------------------------------------------------------------------------------------------


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
    return reduced(_above_zero(-t * (x1 - x2) + margin), reduction)


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
    x, t = _pair("hinge_embedding_loss", input, target)
    return reduced(where(t != 1, _above_zero(margin - x), 0.0) + where(t != -1, x, 0.0), reduction)


def soft_margin_loss(
    input: TensorLike,
    target: TensorLike,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-t x)), without overflow."""
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = _pair("soft_margin_loss", input, target)
    return reduced(softplus(-t * x), reduction)


def multilabel_soft_margin_loss(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of -(t log s + (1 - t) log(1 - s)) for s = sigmoid(x[..., C])."""
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = _pair("multilabel_soft_margin_loss", input, target)
    each = -(t * logsigmoid(x) + (1.0 - t) * logsigmoid(-x))
    return reduced((each if weight is None else each * weight).mean(axis=-1), reduction)


def _of_classes(x: Tensor) -> Tensor:
    """x, of which a number alone stands for a vector of one."""
    return expand_dims(x, 0) if x.ndim == 0 else x


def _labels(name: str, x: Tensor, target: TensorLike, rank: int) -> Tensor:
    labels = lifting.value_of(target)
    if not dtypes.is_integer(labels.dtype) or len(labels.shape) != rank:
        raise DTypeError(f"{name} of scores {x.value.type} takes integers of rank {rank}, not {labels.type}")
    return wrap(lifting.positions(labels))


def multi_margin_loss(
    input: TensorLike,
    target: TensorLike,
    p: int = 1,
    margin: float = 1.0,
    weight: TensorLike | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over the other classes i of max(0, margin - x[y] + x[i])^p / C, times the weight of class y.

    Scores [N, C] and class numbers [N], or [C] and one number; one score alone is that of one class. ``p`` is 1 or 2.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise JitgraphError(f"multi_margin_loss: p={p} is neither 1 nor 2")
    x = _of_classes(wrap(loss_floats(input)[0]))
    if x.ndim not in (1, 2):
        raise ShapeError(f"multi_margin_loss takes scores [N, C] or [C], not {x.value.type}")
    y = expand_dims(_labels("multi_margin_loss", x, target, x.ndim - 1), -1)
    classes: Any = x.value.type.shape[-1]
    terms = _above_zero(margin - take_along_axis(x, y, -1) + x)
    terms = terms if p == 1 else terms * terms
    if weight is not None:
        table = wrap(lifting.cast(lifting.value_of(weight), x.dtype))
        terms = terms * table[y]
    other = wrap(lifting.positions_along(x.value.type.shape, x.ndim - 1, x.value)) != y
    return reduced(where(other, terms, 0.0).sum(axis=-1) / classes, reduction)


def multilabel_margin_loss(
    input: TensorLike,
    target: TensorLike,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over labels y and classes i that are none of max(0, 1 - (x[y] - x[i])) / C.

    Scores [N, C], [C] or one, and as many integers, of which those before the first negative one are labels.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x = _of_classes(wrap(loss_floats(input)[0]))
    if x.ndim not in (1, 2):
        raise ShapeError(f"multilabel_margin_loss takes scores [N, C] or [C], not {x.value.type}")
    target_labels = _labels("multilabel_margin_loss", x, _of_classes(wrap(lifting.value_of(target))), x.ndim)
    if target_labels.shape != x.shape:
        raise ShapeError(f"multilabel_margin_loss: labels {target_labels.value.type} for scores {x.value.type}")
    counts = cumprod((target_labels >= 0).astype("int64"), x.ndim - 1) > 0
    labels = where(counts, target_labels, 0)
    classes: Any = x.value.type.shape[-1]
    kinds = wrap(lifting.positions_along(x.value.type.shape, x.ndim - 1, x.value))
    is_label = any_of((expand_dims(labels, -1) == expand_dims(kinds, -2)) & expand_dims(counts, -1), -2)
    chosen = expand_dims(take_along_axis(x, labels, -1), -1)
    terms = _above_zero(1.0 - (chosen - expand_dims(x, -2)))
    used = expand_dims(counts, -1) & ~expand_dims(is_label, -2)
    return reduced(where(used, terms, 0.0).sum(axis=(-2, -1)) / classes, reduction)


# --- distances --------------------------------------------------------------------------------------------------------


def pairwise_distance(
    x1: TensorLike, x2: TensorLike, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis, or of a number alone; p is any number, as in ``normalize``."""
    a, b = map(wrap, loss_floats(x1, x2))
    gap = a - b + eps
    return p_norm(gap, float(p), -1 if gap.ndim else (), keepdims=keepdim)


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
    each = where(t == 1, 1.0 - cosine, 0.0) + where(t == -1, _above_zero(cosine - margin), 0.0)
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
    measure = pairwise_distance if distance_function is None else distance_function
    a, near, far = map(wrap, loss_floats(anchor, positive, negative))
    distant = measure(a, far)
    if swap:
        between = measure(near, far)
        distant = where(between < distant, between, distant)
    return reduced(_above_zero(measure(a, near) - distant + margin), reduction)
