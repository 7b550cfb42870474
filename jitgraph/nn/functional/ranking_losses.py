"""Losses of orders and of distances between vectors, and these distances.

``reduction`` is "mean", "sum" or "none"; ``size_average`` and ``reduce`` are how older code says it.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgraph.errors import ShapeError
from jitgraph.nn.functional.arguments import (
    axis_or_dim,
    floats,
    hinge,
    loss_floats,
    paired,
    reduced,
    reduction_of,
)
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.distances import pdist as pdist
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import broadcast_arrays
from jitgraph.tensor.functions.norms import finite_or_nan, p_norm
from jitgraph.tensor.lifting import TensorLike


@axis_or_dim
def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x1 x2) / (|x1| |x2|) along ``dim`` of the broadcast shape, each norm at least ``eps``."""
    a, b = broadcast_arrays(*map(wrap, floats(x1, x2)))
    left, right = (finite_or_nan(p_norm(x, 2.0, dim)).clip(min=eps) for x in (a, b))
    return (a * b).sum(axis=dim) / left / right  # type: ignore[no-any-return]


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
    measure = pairwise_distance if distance_function is None else distance_function
    a, near, far = map(wrap, loss_floats(anchor, positive, negative))
    distant = measure(a, far)
    if swap:
        between = measure(near, far)
        distant = where(between < distant, between, distant)
    return reduced(hinge(measure(a, near) - distant + margin), reduction)
