"""Losses of scores and classes: cross entropies, margins, CTC, and ``one_hot``. Labels out of range raise
IndexError.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, OptionError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.activation import logsigmoid, softplus
from jitgraph.nn.functional.arguments import (
    fits,
    floats,
    hinge,
    known_reduction,
    loss_floats,
    paired,
    reduced,
    reduction_of,
    same_shape,
)
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import arange, asarray, shape_of
from jitgraph.tensor.functions.elementwise import exp, isinf, log, maximum, where
from jitgraph.tensor.functions.manipulation import concat, pad, stack, take_along_axis
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.reductions import cumprod, cumsum
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_step import one_step

# ----------------------------------------------------------------------
# Losses of scores and classes: cross entropies and margins, and ``one_hot``. Labels out of range raise IndexError.
#
# ``reduction`` is "mean", "sum" or "none"; ``size_average`` and ``reduce`` are how older code says it.


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


@one_step
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
        if ignore_index >= 0:
            raise OptionError(f"cross_entropy: ignore_index={ignore_index} is for class numbers, not for probabilities")
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


@one_step
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


@one_step
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
    reduction = known_reduction(reduction_of(reduction, size_average, reduce))
    if p not in (1, 2):
        raise OptionError(f"multi_margin_loss: p={p} is neither 1 nor 2")
    if weight is not None and lifting.value_of(weight).type.ndim != 1:
        raise ShapeError(f"multi_margin_loss takes a weight for each class, not {lifting.value_of(weight).type}")
    x = _of_classes(wrap(loss_floats(input)[0]))
    if x.ndim not in (1, 2):
        raise ShapeError(f"multi_margin_loss takes scores [N, C] or [C], not {x.value.type}")
    if x.ndim == 1 and lifting.value_of(target).shape == (1,):
        target = reshape(wrap(lifting.value_of(target)), ())
    y = expand_dims(_labels("multi_margin_loss", x, target, x.ndim - 1), -1)
    classes: Any = x.value.type.shape[-1]
    terms = hinge(margin - take_along_axis(x, y, -1) + x)
    terms = terms if p == 1 else terms * terms
    if weight is not None:
        table = wrap(lifting.cast(lifting.value_of(weight), x.dtype))
        terms = terms * table[y]
    other = wrap(lifting.positions_along(x.value.type.shape, x.ndim - 1, x.value)) != y
    return reduced(where(other, terms, 0.0).sum(axis=-1) / classes, reduction)


@one_step
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


# ----------------------------------------------------------------------
# Connectionist temporal classification (Graves et al. 2006): the probability of a labelling over all alignments.


@one_step
def ctc_loss(
    log_probs: TensorLike,
    targets: TensorLike,
    input_lengths: TensorLike,
    target_lengths: TensorLike,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log P(targets) for log probabilities [T, N, C] (or [T, C]), whose first ``input_lengths`` steps count.

    ``targets``: class numbers [N, S], or those of all members behind one another; ``target_lengths`` of each count.
    "mean" divides each loss by its target's length (1 or more) and takes the mean. A target that no alignment fits
    gives infinity, or 0 and no gradient with ``zero_infinity``. Gradients are those of log_probs as they are; PyTorch's
    are those behind a log_softmax, through which both become the same.
    """
    x = wrap(loss_floats(log_probs)[0])
    alone = x.ndim == 2
    x = expand_dims(x, 1) if alone else x
    if x.ndim != 3:
        raise ShapeError(f"ctc_loss takes log_probs [T, N, C] or [T, C], not {x.value.type}")
    members: Any = x.value.type.shape[1]
    steps, sizes, labels = (_beside(x, operand) for operand in (input_lengths, target_lengths, targets))
    steps, sizes = reshape(steps, (-1,)), reshape(sizes, (-1,))
    labels = expand_dims(labels, 0) if alone and labels.ndim == 1 else labels
    for name, operand in (("input_lengths", steps), ("target_lengths", sizes)):
        if not fits(operand, (members,)):
            raise ShapeError(f"ctc_loss: {name} of {operand.value.type} for {members} members")
    if not 0 <= blank < x.shape[2]:
        raise JitgraphError(f"ctc_loss: blank={blank} is not one of {x.shape[2]} classes")
    if context.current().trace is None:
        _require_lengths(np.asarray(steps.cpu()), np.asarray(sizes.cpu()), x, labels)
    with placement.beside(x.value):
        if labels.ndim == 1:
            labels = _padded(labels, sizes)
        each = _losses(x, labels, steps, sizes, blank)
    if zero_infinity:
        each = where(isinf(each), 0.0, each)
    if reduction == "mean":
        each = each / maximum(sizes, 1).astype(each.dtype)
    result = reduced(each, reduction)
    return result[0] if alone and reduction == "none" else result


def _beside(x: Tensor, operand: TensorLike) -> Tensor:
    """Integers on the device of x, wherever they lie: PyTorch takes lengths from either side."""
    integers: Tensor = asarray(operand).astype("int64")
    return integers if integers.device == x.device else integers.to(x.device)


def _require_lengths(steps: Any, sizes: Any, x: Tensor, labels: Tensor) -> None:
    if steps.size and (steps.min() < 0 or steps.max() > x.shape[0]):
        raise ShapeError(f"ctc_loss: input_lengths {steps.tolist()} should lie from 0 to {x.shape[0]}")
    most = labels.shape[1] if labels.ndim == 2 else None
    total = int(sizes.sum()) if sizes.size else 0
    if sizes.size and (sizes.min() < 0 or (most is not None and sizes.max() > most)):
        raise ShapeError(f"ctc_loss: target_lengths {sizes.tolist()} should lie from 0 to {most}")
    if most is None and total != labels.shape[0]:
        raise ShapeError(f"ctc_loss: target_lengths add up to {total}, and there are {labels.shape[0]} targets")


def _padded(labels: Tensor, sizes: Tensor) -> Tensor:
    """Targets that stand behind one another as [N, S]."""
    starts = cumsum(sizes, 0) - sizes
    total: Any = labels.value.type.shape[0]
    most = int(np.asarray(sizes.cpu()).max(initial=0)) if context.current().trace is None else total
    positions = expand_dims(starts, 1) + arange(most)
    if isinstance(total, int) and total == 0:
        return wrap(lifting.repeated(0, labels.dtype, (*sizes.value.type.shape, 0)))
    inside = arange(most) < expand_dims(sizes, 1)
    padded: Tensor = labels[where(inside, positions, 0)]
    return padded


def _log_sum(parts: list[Tensor]) -> Tensor:
    """log(sum(exp)) of tensors, -inf for none, whose gradient is 0 there."""
    stacked = stack(parts, axis=0)
    greatest = max_of(stacked.detach(), 0)
    nothing = greatest == -math.inf
    shift = where(nothing, 0.0, greatest)
    total = sum_of(exp(stacked - shift), 0)
    return where(nothing, -math.inf, log(where(nothing, 1.0, total)) + shift)


def _losses(x: Tensor, labels: Tensor, steps: Tensor, sizes: Tensor, blank: int) -> Tensor:
    """The forward variables of the labels with blanks around each, walked along time."""
    scan: Any = imports.module("jitgraph.tracing.record.control_flow").scan
    members, most = labels.value.type.shape
    inside = arange(most) < expand_dims(sizes, 1)
    known = where(inside, labels, blank)
    blanks = wrap(lifting.repeated(blank, known.dtype, known.value.type.shape))
    around = reshape(stack([blanks, known], axis=2), (members, 2 * most))
    line = concat([around, wrap(lifting.repeated(blank, known.dtype, (members, 1)))], axis=1)
    width = 2 * most + 1
    spread = wrap(lifting.broadcast_to(expand_dims(line, 0).value, (x.value.type.shape[0], members, width)))
    scores = take_along_axis(x, spread, -1)
    may_skip = (line != blank) & (pad(line[:, : width - 2], [(0, 0), (2, 0)], blank) != line) if most else line != line
    first = where(arange(width) < 2, 0.0, -math.inf) * 1.0
    start = wrap(lifting.broadcast_to(first.astype(x.dtype).value, (members, width)))
    numbers = arange(x.value.type.shape[0])

    def step(alpha: Tensor, frame: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        score, number = frame
        if most:
            one = pad(alpha[:, : width - 1], [(0, 0), (1, 0)], -math.inf)
            two = where(may_skip, pad(alpha[:, : width - 2], [(0, 0), (2, 0)], -math.inf), -math.inf)
            reached = _log_sum([alpha, one, two])
        else:
            reached = alpha
        fresh = where(number == 0, alpha, reached) + score
        next_alpha = where(expand_dims(number < steps, 1), fresh, alpha)
        return next_alpha, number

    last, _ = scan(step, start, (scores, numbers))
    ends = expand_dims(2 * sizes, 1)
    at_blank = take_along_axis(last, ends, 1)[:, 0]
    at_label = take_along_axis(last, maximum(ends - 1, 0), 1)[:, 0]
    return -_log_sum([at_blank, where(sizes > 0, at_label, -math.inf)])
