"""A softmax of very many classes in clusters of decreasing frequency and width.

Source: Grave et al. 2017, Efficient softmax approximation for GPUs.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from jitgraph import ops
from jitgraph.dtypes import is_integer
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.nn import functional
from jitgraph.nn.containers import ModuleList, Sequential
from jitgraph.nn.functional.arguments import same_shape
from jitgraph.nn.layers import Linear
from jitgraph.nn.module import Module
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import concat
from jitgraph.tensor.functions.reductions import all as every
from jitgraph.tensor.functions.reductions import argmax


class AdaptiveLogSoftmaxOutput(NamedTuple):
    """``output``: the log probability of each target; ``loss``: the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of ``n_classes`` classes, numbered by falling frequency, in clusters divided at ``cutoffs``.

    The first cluster and one place for each other cluster are the head, a ``Linear``; cluster i is ``tail[i]``, two
    ``Linear`` with ``in_features // div_value ** (i + 1)`` features between them. Where PyTorch leaves out a cluster
    for the rows that have no target in it, all clusters are computed for all rows here, as shapes do not depend on
    values. JitgraphError for cutoffs that do not rise from at least 1 to at most ``n_classes - 1``, and for a
    ``div_value`` that is not above 0.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not div_value > 0:
            raise JitgraphError(f"AdaptiveLogSoftmaxWithLoss: div_value is {div_value}; it must be above 0")
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*_checked(cutoffs, n_classes), n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            between, classes = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, between, bias=False, device=device, dtype=dtype),
                    Linear(between, classes, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw the parameters of the head and of all clusters anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveLogSoftmaxOutput:
        """The log probabilities of class numbers target[N] for input[N, in_features], and their mean loss.

        A target without axes goes with an input of one. ShapeError for other shapes, DTypeError for targets that are no
        integers, IndexError for a target that is no class.
        """
        x, target = _matching(wrap(lifting.value_of(input_)), wrap(lifting.value_of(target_)), self.in_features)
        alone = target.ndim == 0
        if alone:
            x, target = x[None], target[None]
        target = wrap(lifting.positions(target.value))
        _check(target, self.n_classes)
        head_targets = target
        loss: Any = 0.0
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            inside = (target >= low) & (target < high)
            head_targets = where(inside, self.shortlist_size + i, head_targets)
            loss = loss + _losses(self.tail[i](x), where(inside, target - low, -1))
        output = -(loss + _losses(self.head(x), head_targets))
        return AdaptiveLogSoftmaxOutput(output[0] if alone else output, -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes, [N, n_classes], for input[N, in_features]."""
        return self._log_prob(input, self.head(input))

    def _log_prob(self, x: Tensor, head: Tensor) -> Tensor:
        logs = head.log_softmax(axis=1)
        parts = [logs[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            column = self.shortlist_size + i
            parts.append(self.tail[i](x).log_softmax(axis=1) + logs[:, column : column + 1])
        return concat(parts, axis=1)

    def predict(self, input: Tensor) -> Tensor:
        """The class of the highest probability, int64 [N], for input[N, in_features]."""
        head = self.head(input)
        first = argmax(head, axis=1)
        return where(first < self.shortlist_size, first, argmax(self._log_prob(input, head), axis=1))


def _losses(scores: Tensor, labels: Tensor) -> Tensor:
    """-log_softmax(scores[N, C]) at each label, and 0 where the label is -1."""
    return functional.cross_entropy(scores, labels, ignore_index=-1, reduction="none")


def _check(target: Tensor, n_classes: int) -> None:
    message = f"AdaptiveLogSoftmaxWithLoss: a target is not one of {n_classes} classes"
    ops.check(every((target >= 0) & (target < n_classes)).value, kind="IndexError", message=message)


def _checked(cutoffs: Sequence[int], n_classes: int) -> list[int]:
    try:
        values = [operator.index(cutoff) for cutoff in cutoffs]
    except TypeError:
        values = []
    if not values:
        raise JitgraphError(f"AdaptiveLogSoftmaxWithLoss: cutoffs are one or more integers, not {cutoffs!r}")
    bounds = [0, *values, n_classes]
    if any(low >= high for low, high in itertools.pairwise(bounds)):
        raise JitgraphError(
            f"AdaptiveLogSoftmaxWithLoss: cutoffs rise from at least 1 to at most n_classes - 1 = {n_classes - 1}, "
            f"which {values} do not"
        )
    return values


def _matching(x: Tensor, target: Tensor, features: int) -> tuple[Tensor, Tensor]:
    if not is_integer(target.dtype):
        raise DTypeError(f"AdaptiveLogSoftmaxWithLoss: targets are class numbers, not {target.dtype.name}")
    if target.ndim > 1 or not same_shape(x.shape, (*target.shape, features)):
        raise ShapeError(
            f"AdaptiveLogSoftmaxWithLoss takes input[N, {features}] and target[N], or input[{features}] and a target "
            f"without axes, not {tuple(x.shape)} and {tuple(target.shape)}"
        )
    return x, target
