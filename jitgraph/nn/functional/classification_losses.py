"""Losses of scores and classes: cross entropies and margins, and ``one_hot``. Labels out of range raise IndexError.

``reduction`` is "mean", "sum" or "none"; ``size_average`` and ``reduce`` are how older code says it.
"""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.activation import logsigmoid, softplus
from jitgraph.nn.functional.arguments import (
    floats,
    hinge,
    known_reduction,
    loss_floats,
    paired,
    reduced,
    reduction_of,
    same_shape,
)
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.cumulative import cumprod
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import take_along_axis
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.shapes import expand_dims
from jitgraph.tensor.lifting import TensorLike


def _classes(name: str, scores: Any, target: TensorLike) -> Any:
    """The labels as int64, of the shape that the scores ask for."""
    labels = lifting.value_of(target)
    if not dtypes.is_integer(labels.dtype):
        raise DTypeError(
            f"{name} takes class numbers as integers, not {labels.type}",
            hint="cast them with .astype(jg.int64); probabilities need the shape of the scores",
        )
    expected = (*scores.shape[:1], *scores.shape[2:])
    if not same_shape(labels.shape, expected):
        raise ShapeError(
            f"{name} of scores {scores.type} takes labels of shape {expected}, not {labels.type}",
            hint="scores are [N, C, ...], labels [N, ...]: one class number for each place",
        )
    return lifting.positions(labels)


def _scores(name: str, input: TensorLike, target: TensorLike) -> tuple[Any, Any, bool]:
    """Scores [N, C, ...], and labels with whether they are those of one place alone: [C] with a 0-d label."""
    (scores,) = floats(input)
    if not scores.shape:
        raise ShapeError(f"{name} takes scores [N, C, ...], not {scores.type}")
    alone = len(scores.shape) == 1
    if alone:
        labels = lifting.value_of(target)
        scores = ops.reshape(scores, shape=(1, *scores.shape))
        return scores, wrap(ops.reshape(labels, shape=(1, *labels.shape))), True
    return scores, target, False


def _single(loss: Any, alone: bool) -> Tensor:
    return wrap(ops.reshape(loss, shape=()) if alone and loss.shape else loss)


def _weighted(each: Any, labels: Any, weight: TensorLike, reduction: str, ignore_index: int, classes: Any) -> Any:
    """Losses times the weight of their class; the mean is over the weights."""
    table = lifting.cast(lifting.value_of(weight), each.dtype)
    if len(table.shape) != 1 or not context.constraints().same(table.shape[0], classes):
        raise ShapeError(f"a weight for each of {classes} classes has shape ({classes},), not {table.type}")
    ignored = ops.eq(labels, lifting.repeated(ignore_index, dtypes.int64, labels.shape))
    safe = ops.select(ignored, lifting.repeated(0, dtypes.int64, labels.shape), labels)
    shares = ops.select(ignored, lifting.repeated(0.0, each.dtype, each.shape), ops.gather(table, safe, axis=0))
    weighted_losses, total = wrap(ops.mul(each, shares)), wrap(shares).sum()
    return (
        weighted_losses.sum() / total if known_reduction(reduction) == "mean" else reduced(weighted_losses, reduction)
    ).value


def nll_loss(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[n, target[n]] for log probabilities [N, C, ...] and class numbers [N, ...]."""
    reduction = reduction_of(reduction, size_average, reduce)
    scores, target, alone = _scores("nll_loss", input, target)
    labels = _classes("nll_loss", scores, target)
    op_reduction = known_reduction(reduction) if weight is None else "none"
    loss = ops.nll_loss(scores, labels, reduction=op_reduction, ignore_index=ignore_index)
    if weight is not None:
        loss = _weighted(loss, labels, weight, reduction, ignore_index, scores.shape[1])
    return _single(loss, alone)


def cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """nll_loss of log_softmax(input[N, C, ...]) with class numbers [N, ...], or with probabilities [N, C, ...].

    A label is a class or ``ignore_index``, else IndexError; ignored places do not count for the mean. ``weight`` has
    one number for each class. ``label_smoothing`` mixes the target with the uniform distribution.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise JitgraphError(f"cross_entropy: label_smoothing={label_smoothing} does not lie between 0 and 1")
    scores, target, alone = _scores("cross_entropy", input, target)
    target_value = lifting.value_of(target)
    if dtypes.is_float(target_value.dtype) and len(target_value.shape) == len(scores.shape):
        loss = _soft(scores, target_value, weight, reduction, label_smoothing)
        return _single(loss.value, alone)
    labels = _classes("cross_entropy", scores, target)
    smoothing = float(label_smoothing)
    attrs: dict[str, Any] = {"ignore_index": ignore_index, "label_smoothing": smoothing}
    if weight is None:
        return _single(ops.cross_entropy(scores, labels, reduction=known_reduction(reduction), **attrs), alone)
    each = ops.cross_entropy(scores, labels, reduction="none", ignore_index=ignore_index, label_smoothing=0.0)
    loss = _weighted(each, labels, weight, reduction, ignore_index, scores.shape[1])
    if not smoothing:
        return _single(loss, alone)
    spread = _smooth(scores, labels, weight, reduction, ignore_index)
    return _single((wrap(loss) * (1.0 - smoothing) + spread * (smoothing / scores.shape[1])).value, alone)


def _smooth(scores: Any, labels: Any, weight: TensorLike, reduction: str, ignore_index: int) -> Tensor:
    """-sum(weight * log_softmax(scores)) over classes; the mean is over the weights of the labels."""
    x, y = wrap(scores), wrap(labels)
    table = wrap(lifting.cast(lifting.value_of(weight), scores.dtype))
    terms = -(x.log_softmax(axis=1) * table.reshape((-1,) + (1,) * (x.ndim - 2))).sum(axis=1)
    counts = y != ignore_index
    losses = where(counts, terms, 0.0)
    if reduction != "mean":
        return reduced(losses, reduction)
    return losses.sum() / where(counts, table[where(counts, y, 0)], 0.0).sum()  # type: ignore[no-any-return]


def _soft(scores: Any, target: Any, weight: TensorLike | None, reduction: str, smoothing: float) -> Tensor:
    """-sum(target * log_softmax(scores)) over classes; the mean is over places."""
    classes = scores.shape[1]
    x, probability = wrap(scores), wrap(lifting.cast(target, scores.dtype))
    if probability.shape != x.shape:
        raise ShapeError(f"cross_entropy of scores {scores.type} takes probabilities of that shape, not {target.type}")
    if smoothing:
        probability = probability * (1.0 - smoothing) + smoothing / classes
    terms = probability * x.log_softmax(axis=1)
    if weight is not None:
        column = (classes,) + (1,) * (x.ndim - 2)
        terms = terms * wrap(lifting.cast(lifting.value_of(weight), scores.dtype)).reshape(column)
    return reduced(-terms.sum(axis=1), reduction)


def binary_cross_entropy_with_logits(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: TensorLike | None = None,
) -> Tensor:
    """-(p t log s + (1 - t) log(1 - s)) for s = sigmoid(input) and p = pos_weight (1), without overflow.

    Computed as (1 - t) x + (1 + (p - 1) t) softplus(-x).
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = map(wrap, paired("binary_cross_entropy_with_logits", input, target))
    if pos_weight is None:
        each = x.relu() - x * t + softplus(where(x > 0, -x, x))  # of -|x|, with a slope of 1 at 0
    else:
        each = (1.0 - t) * x + ((wrap(lifting.value_of(pos_weight)) - 1.0) * t + 1.0) * softplus(-x)
    return reduced(each if weight is None else each * weight, reduction)


_LEAST_VARIANCE = 1e-12  # of a probability in the gradient of binary_cross_entropy


def binary_cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)) for probabilities p; logarithms count as at least -100, as in PyTorch.

    The gradient of p is (p - t) / max(p (1 - p), 1e-12), which is finite where p is 0 or 1.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    p, t = map(wrap, paired("binary_cross_entropy", input, target))
    dtype = p.dtype
    if dtype in (dtypes.float16, dtypes.bfloat16):
        p, t = p.astype(dtypes.float32), t.astype(dtypes.float32)
    steep = p * (1.0 - p) < _LEAST_VARIANCE
    q = where(steep, p.detach(), p)
    each = -(t * q.log().clip(min=-100.0) + (1.0 - t) * (-q).log1p().clip(min=-100.0))
    bent = (0.5 * p * p - t.detach() * p) / _LEAST_VARIANCE
    each = each + where(steep, bent - bent.detach(), 0.0)  # adds 0, and the slope where it is held
    loss: Tensor = reduced(each if weight is None else each * weight, reduction).astype(dtype)
    return loss


def soft_margin_loss(
    input: TensorLike,
    target: TensorLike,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-t x)), without overflow."""
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = map(wrap, paired("soft_margin_loss", input, target))
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
    x, t = map(wrap, paired("multilabel_soft_margin_loss", input, target))
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
    terms = hinge(margin - take_along_axis(x, y, -1) + x)
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
    terms = hinge(1.0 - (chosen - expand_dims(x, -2)))
    used = expand_dims(counts, -1) & ~expand_dims(is_label, -2)
    return reduced(where(used, terms, 0.0).sum(axis=(-2, -1)) / classes, reduction)


def one_hot(tensor: TensorLike, num_classes: int = -1) -> Tensor:
    """int64 [..., num_classes] with a one at each class number; IndexError where it is none of them.

    Without ``num_classes`` the largest number decides, which needs its value.
    """
    labels = lifting.value_of(tensor)
    if not dtypes.is_integer(labels.dtype):
        raise DTypeError(f"one_hot takes class numbers as integers, not {labels.type}", hint="x.astype(jg.int64)")
    labels = lifting.positions(labels)
    if num_classes == -1:
        num_classes = int(wrap(labels).max().item()) + 1
    (size,) = shape_of(num_classes)
    with placement.beside(labels):
        zero, end = (
            lifting.broadcast_to(lifting.value_of(bound, dtypes.int64), labels.shape) for bound in (0, num_classes)
        )
        inside = ops.bitwise_and(ops.ge(labels, zero), ops.lt(labels, end))
        every = ops.reduce_min(inside, axes=tuple(range(len(labels.shape))))
        ops.check(every, kind="IndexError", message=f"one_hot: a number is not one of {size} classes")
        classes = ops.iota(shape=(*labels.shape, size), axis=len(labels.shape), dtype=dtypes.int64)
        wide = ops.broadcast(labels, shape=classes.shape, axes=tuple(range(len(labels.shape))))
        return wrap(ops.cast(ops.eq(wide, classes), dtype=dtypes.int64))
