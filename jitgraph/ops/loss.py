"""Losses: cross_entropy, nll_loss, mse_loss, l1_loss; reduction is "mean", "sum" or "none".

Class labels are int64; one that is neither a class nor ``ignore_index`` raises IndexError. Ignored places give 0 and
do not count for the mean, which is NaN where nothing counts. 16-bit floats are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, OptionError, ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import abs, add, bitwise_and, bitwise_or, div, eq, ge, lt, mul, ne, neg, select, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, iota, zeros_like
from jitgraph.ops.effects import check
from jitgraph.ops.movement import reduce_sum, restore
from jitgraph.ops.reduction import reduce_min
from jitgraph.ops.rules import without_axes
from jitgraph.ops.sampling import generator, samples_for, values
from jitgraph.ops.statistics import log_softmax, mean_of, softmax

_CLASS = 1  # the axis of classes in scores[N, C, ...]


def _every(x: Any) -> tuple[int, ...]:
    return tuple(range(len(x.shape)))


def _reduced(each: Any, reduction: str) -> Any:
    if reduction == "none":
        return each
    if reduction == "sum":
        return reduce_sum(each, axes=_every(each))
    if reduction == "mean":
        return mean_of(each, _every(each))
    raise OptionError(f"reduction={reduction!r} is not 'mean', 'sum' or 'none'")


def _require_labels(name: str, scores: Any, labels: Any) -> None:
    type: TensorType = scores.type
    if labels.dtype != dtypes.int64:
        raise DTypeError(f"{name} takes int64 labels, not {labels.type}", hint="cast them with .astype(jg.int64)")
    if type.ndim < 2:
        raise ShapeError(f"{name}: scores {type} should be [N, C, ...]")
    rules.same_dims(f"{name} of {type} with labels {labels.type}", without_axes(type.shape, (_CLASS,)), labels.shape)


def _counted(labels: Any, ignore_index: int) -> Any:
    return ne(labels, full_like(ignore_index, labels))


def _check_labels(name: str, scores: Any, labels: Any, ignore_index: int) -> None:
    classes = full_like(scores.shape[_CLASS], labels)
    valid = bitwise_and(ge(labels, zeros_like(labels)), lt(labels, classes))
    valid = bitwise_or(valid, eq(labels, full_like(ignore_index, labels)))
    message = f"{name}: a label is not one of {scores.shape[_CLASS]} classes"
    check(reduce_min(valid, axes=_every(valid)), kind="IndexError", message=message)


def _target(scores: Any, labels: Any, label_smoothing: float) -> Any:
    """The distribution over classes that the loss compares with: one at the label, smoothed by the uniform one."""
    classes = iota(shape=scores.shape, axis=_CLASS, dtype=dtypes.int64)
    hit = cast(eq(classes, restore(labels, TensorType(labels.dtype, scores.shape), (_CLASS,))), dtype=scores.dtype)
    if label_smoothing == 0.0:
        return hit
    uniform = div(full_like(label_smoothing, hit), full_like(scores.shape[_CLASS], hit))
    return add(mul(hit, full_like(1.0 - label_smoothing, hit)), uniform)


def _weights(labels: Any, scores: Any, reduction: str, ignore_index: int) -> Any:
    """What each place's loss is multiplied by: 0 where it is ignored, 1 or for the mean 1 / how many count."""
    counted = cast(_counted(labels, ignore_index), dtype=scores.dtype)
    if reduction != "mean":
        return counted
    total = reduce_sum(counted, axes=_every(counted))
    return div(counted, restore(total, counted.type, _every(counted)))


def _nll_each(scores: Any, labels: Any, ignore_index: int, label_smoothing: float) -> Any:
    # a select, so that a score of -inf in a class that is not asked for does not make NaN
    target = _target(scores, labels, label_smoothing)
    terms = select(ne(target, zeros_like(target)), mul(target, scores), zeros_like(scores))
    each = neg(reduce_sum(terms, axes=(_CLASS,)))
    return select(_counted(labels, ignore_index), each, zeros_like(each))


def _nll_reduced(each: Any, labels: Any, reduction: str, ignore_index: int) -> Any:
    if reduction != "mean":
        return _reduced(each, reduction)
    counted = cast(_counted(labels, ignore_index), dtype=each.dtype)
    axes = _every(each)
    return div(reduce_sum(each, axes=axes), reduce_sum(counted, axes=axes))


def _nll_loss(scores: Any, labels: Any, *, reduction: str, ignore_index: int) -> Any:
    _require_labels("nll_loss", scores, labels)
    _check_labels("nll_loss", scores, labels, ignore_index)
    return _nll_reduced(_nll_each(scores, labels, ignore_index, 0.0), labels, reduction, ignore_index)


def _cross_entropy(logits: Any, labels: Any, *, reduction: str, ignore_index: int, label_smoothing: float) -> Any:
    _require_labels("cross_entropy", logits, labels)
    _check_labels("cross_entropy", logits, labels, ignore_index)
    each = _nll_each(log_softmax(logits, axis=_CLASS), labels, ignore_index, label_smoothing)
    return _nll_reduced(each, labels, reduction, ignore_index)


def _cross_entropy_vjp(
    ct: Any, out: Any, logits: Any, labels: Any, *, reduction: str, ignore_index: int, label_smoothing: float
) -> tuple[Any, None]:
    """(softmax - target) for each place that counts, times its weight and cotangent: NaN where none counts."""
    difference = sub(softmax(logits, axis=_CLASS), _target(logits, labels, label_smoothing))
    weights = _weights(labels, logits, reduction, ignore_index)
    seed = ct if reduction == "none" else restore(ct, weights.type, _every(weights))
    seed = select(_counted(labels, ignore_index), mul(seed, weights), zeros_like(weights))
    return mul(difference, restore(seed, logits.type, (_CLASS,))), None


_REDUCTIONS = ("mean", "sum", "none")


def _class_samples(name: str, **attrs: Any) -> Callable[[DType], Sequence[Sample]]:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.FLOATS:
            return ()
        rng = generator(name, dtype)
        cases = []
        for shape in [(4, 3), (1, 5), (2, 3, 2), (17, 10)]:
            labels = rng.integers(0, shape[1], (shape[0], *shape[2:]))
            for reduction in _REDUCTIONS:
                chosen = {"reduction": reduction, "ignore_index": -100} | attrs
                cases.append(Sample((values(rng, dtype, shape), labels), chosen))
        ignored = Sample(
            (values(rng, dtype, (4, 3)), np.array([0, 2, 1, 2])), {"reduction": "mean", "ignore_index": 2} | attrs
        )
        if "label_smoothing" in attrs:
            cases.append(Sample(cases[0].inputs, dict(cases[0].attrs) | {"label_smoothing": 0.1}))
        return [*cases, ignored]

    return samples


nll_loss: Op = composite(
    "nll_loss",
    _nll_loss,
    samples=_class_samples("nll_loss"),
    onnx="NegativeLogLikelihoodLoss",
    in_float32=True,
    doc="-scores[n, labels[n]] for log probabilities scores[N, C, ...] and int64 labels[N, ...].",
    traits=["autocast_wide"],
)
cross_entropy: Op = composite(
    "cross_entropy",
    _cross_entropy,
    vjp=_cross_entropy_vjp,
    samples=_class_samples("cross_entropy", label_smoothing=0.0),
    onnx="SoftmaxCrossEntropyLoss",
    in_float32=True,
    doc="nll_loss of log_softmax(logits[N, C, ...]) along axis 1; label_smoothing mixes in the uniform target.",
    traits=["autocast_wide"],
)


def _squared(x: Any, y: Any) -> Any:
    left = sub(x, y)
    return mul(left, left)


def _elementwise_loss(name: str, distance: Callable[[Any, Any], Any], doc: str) -> Op:
    return composite(
        name,
        lambda x, y, *, reduction: _reduced(distance(x, y), reduction),
        samples=samples_for(
            name,
            rules.FLOATS,
            lambda array: [
                Sample((array(*shape), array(*shape, domain=(2.1, 3.0))), {"reduction": reduction})
                for shape in [(2, 3), (), (37,)]
                for reduction in _REDUCTIONS
            ],
        ),
        in_float32=True,
        traits=["autocast_wide"],
        doc=doc,
    )


mse_loss: Op = _elementwise_loss("mse_loss", _squared, "(x - y)^2, reduced.")
l1_loss: Op = _elementwise_loss("l1_loss", lambda x, y: abs(sub(x, y)), "|x - y|, reduced.")
