"""Losses. ``reduction`` is "mean", "sum" or "none"; class labels out of range raise IndexError.

``size_average`` and ``reduce`` are how older code says it.
"""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.op import Op
from jitgraph.nn.functional.activation import softplus
from jitgraph.nn.functional.arguments import axis_or_dim, floats, loss_floats, reduction_of, same_shape
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import broadcast_arrays
from jitgraph.tensor.functions.norms import finite_or_nan, p_norm
from jitgraph.tensor.lifting import TensorLike


def reduced(each: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of losses, or each; JitgraphError for another word."""
    if reduction == "none":
        return each
    return each.mean() if _known(reduction) == "mean" else each.sum()  # type: ignore[no-any-return]


def _known(reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise JitgraphError(f"reduction={reduction!r} is not 'mean', 'sum' or 'none'")
    return reduction


# --- class labels ---------------------------------------------------------------------------------------------------


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
    return (weighted_losses.sum() / total if _known(reduction) == "mean" else reduced(weighted_losses, reduction)).value


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
    op_reduction = _known(reduction) if weight is None else "none"
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
        return _single(ops.cross_entropy(scores, labels, reduction=_known(reduction), **attrs), alone)
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


# --- numbers --------------------------------------------------------------------------------------------------------


def paired(name: str, input: TensorLike, target: TensorLike) -> tuple[Any, Any]:
    """Input and target in their common float dtype; ShapeError where their shapes differ."""
    x, y = loss_floats(input, target)
    if not same_shape(x.shape, y.shape):
        raise ShapeError(
            f"{name} takes an input and a target of one shape, not {x.type} and {y.type}",
            hint="reshape one of them; broadcasting them would compare every one with every other",
        )
    return x, y


def weighted(each: Tensor, weight: TensorLike) -> Tensor:
    """Losses times weights of their shape; ShapeError for weights of another one."""
    w = wrap(lifting.value_of(weight)).astype(each.dtype)
    if not same_shape(w.value.type.shape, each.value.type.shape):
        raise ShapeError(f"a weight for each of {each.value.type} has that shape, not {w.value.type}")
    return each * w  # type: ignore[no-any-return]


def _over_weights(each: Tensor, weight: TensorLike, reduction: str) -> Tensor:
    """Losses times weights, reduced; the mean is over the weights."""
    losses = weighted(each, weight)
    return losses.sum() / wrap(lifting.value_of(weight)).sum() if reduction == "mean" else reduced(losses, reduction)


def _of_distance(op: Op, input: TensorLike, target: TensorLike, reduction: str, weight: TensorLike | None) -> Tensor:
    """The op's loss; with ``weight`` the mean is over the weights."""
    x, y = paired(op.name, input, target)
    op_reduction = _known(reduction) if weight is None else "none"
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


_LEAST_VARIANCE = 1e-12  # of a probability in the gradient of binary_cross_entropy


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


@axis_or_dim
def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x1 x2) / (|x1| |x2|) along ``dim`` of the broadcast shape, each norm at least ``eps``."""
    a, b = broadcast_arrays(*map(wrap, floats(x1, x2)))
    left, right = (finite_or_nan(p_norm(x, 2.0, dim)).clip(min=eps) for x in (a, b))
    return (a * b).sum(axis=dim) / left / right  # type: ignore[no-any-return]
