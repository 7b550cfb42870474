"""Connectionist temporal classification (Graves et al. 2006): the probability of a labelling over all alignments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.arguments import fits, loss_floats, reduced
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import arange, asarray
from jitgraph.tensor.functions.cumulative import cumsum
from jitgraph.tensor.functions.elementwise import exp, isinf, log, maximum, where
from jitgraph.tensor.functions.manipulation import concat, pad, stack, take_along_axis
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike


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
