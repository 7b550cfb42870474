"""Losses of class numbers."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.nn import functional as F
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _nll(log_p: Any, target: Any, weight: Any, ignore_index: int | None, reduction: str) -> Any:
    """-log p of each target, with the weights of its classes; 0 where it is ignored."""
    numbers = fn.astype(target, "int64")
    live = fn.ones(target.shape, dtype=bool) if ignore_index is None else fn.not_equal(numbers, ignore_index)
    own = fn.where(live, numbers, fn.zeros_like(numbers))
    picked = fn.squeeze(fn.gather(log_p, 1, fn.expand_dims(own, axis=1)), axis=1)
    shares = fn.ones_like(picked) if weight is None else fn.take(weight, own, axis=0)
    shares = fn.where(live, shares, fn.zeros_like(shares))
    losses = fn.negative(picked) * shares
    if reduction == "none":
        return losses
    total = fn.sum(losses)
    if reduction == "sum":
        return total
    if weight is None and ignore_index is None:
        return total / math.prod(losses.shape)
    return total / fn.sum(shares)


@define("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    x: Any, target: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:
    return _nll(x, target, weight, ignore_index, reduction)


@define("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: Any = (),
) -> Any:
    log_p = F.log_softmax(x, 1)
    loss = _nll(log_p, target, weight, ignore_index, reduction)
    return (loss, log_p)[: max(1, len(outputs))]
