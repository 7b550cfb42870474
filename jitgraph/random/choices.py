"""One of several: categories by logits or probabilities, elements of a tensor."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.random.basic import device_of, drawn, permutation, randint, require, wide_of
from jitgraph.random.generator import Generator
from jitgraph.tensor import Tensor, scalars, tensor_of
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import isnan, where
from jitgraph.tensor.functions.manipulation import moveaxis, take
from jitgraph.tensor.functions.method import array_function, axis_of
from jitgraph.tensor.functions.reductions import argmax, argsort, cumsum
from jitgraph.tensor.functions.reductions import max as greatest
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.lifting import TensorLike


def _floats(x: TensorLike) -> Tensor:
    tensor = tensor_of(x).detach()
    return tensor.astype(wide_of(tensor.dtype))  # type: ignore[no-any-return]


@array_function
def categorical(logits: TensorLike, axis: int = -1, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Categories (int64), each with a probability in proportion to exp(logit), along ``axis``.

    ``shape`` of the result ends with that of ``logits`` without the axis, and is just that by default. The largest sum
    of a logit and a Gumbel number is taken. ValueError where logits are NaN, infinite, or all minus infinity.
    """
    scores = _floats(logits)
    if not scores.ndim:
        raise ShapeError("categorical: the logits stand along an axis; these are 0-d")
    scores = moveaxis(scores, axis_of(axis, scores.ndim, "categorical"), -1)
    batch = scores.value.shape[:-1]
    sizes = batch if shape is None else shape_of(shape)
    if len(sizes) < len(batch) or sizes[len(sizes) - len(batch) :] != batch:
        raise ShapeError(f"categorical: shape {sizes} does not end with {batch}, that of the logits without the axis")
    require(~isnan(scores) & (scores < float("inf")), "categorical: a logit is NaN or infinite")
    if scores.shape[-1] == 0:
        raise ShapeError("categorical: there is no category")
    require(greatest(scores, axis=-1) > float("-inf"), "categorical: all logits are minus infinity")
    each = (*sizes, scores.value.shape[-1])
    return argmax(drawn(ops.gumbel, each, scores.dtype, generator, device_of(logits)) + scores, axis=-1)


@array_function
def multinomial(
    p: TensorLike, num_samples: Any, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """``num_samples`` categories (int64) for each row of ``p``, drawn in proportion to it, as in PyTorch.

    ``p`` is [n] or [rows, n], not negative, and need not sum to 1. Without ``replacement`` no category comes twice.
    ValueError for negative or infinite numbers, and for fewer of them above 0 than are to be drawn.
    """
    weights = _floats(p)
    count = scalars.python_int(num_samples)
    if weights.ndim not in (1, 2) or count < 1:
        raise ShapeError(f"multinomial: p is [n] or [rows, n] and num_samples 1 or more, not {weights.shape}, {count}")
    if not replacement and isinstance(weights.shape[-1], int) and count > weights.shape[-1]:
        raise JitgraphError(
            f"multinomial: {count} of {weights.shape[-1]} categories cannot be drawn without repetition\n"
            "  hint: replacement=True"
        )
    require((weights >= 0) & (weights < float("inf")), "multinomial: a probability is negative, infinite or NaN")
    enough = sum_of(weights > 0, axis=-1) >= (1 if replacement else count)
    require(enough, "multinomial: too few probabilities are above 0")
    device = device_of(p)
    return (_repeated if replacement else _once)(weights, count, generator, device)


def _once(weights: Tensor, count: int, generator: Generator | None, device: str | None) -> Tensor:
    """The first arrivals of a race in which each category's waiting time is exponential, its rate the weight."""
    waiting = drawn(ops.exponential, weights.value.shape, weights.dtype, generator, device)
    arrival = where(weights > 0, waiting / where(weights > 0, weights, 1), float("inf"))
    return argsort(arrival, axis=-1)[..., :count]


def _repeated(weights: Tensor, count: int, generator: Generator | None, device: str | None) -> Tensor:
    """By the running sums of the weights: the number of sums that are not above a uniform number."""
    sums = cumsum(weights, axis=-1)
    sizes: tuple[DimLike, ...] = (*weights.value.shape[:-1], count)
    unit = drawn(ops.uniform, sizes, weights.dtype, generator, device)
    total = sums[..., -1:]
    thresholds = unit * total
    thresholds = where(thresholds < total, thresholds, 0)  # what rounds up to the end goes to the start
    return sum_of(sums[..., None, :] <= thresholds[..., :, None], axis=-1)


@array_function
def choice(
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Elements of ``a`` along ``axis``, or of 0 to a - 1 for an int, in this shape, in proportion to ``p`` if given.

    Without ``replace`` none comes twice. JitgraphError where there are too few.
    """
    a = operator.index(a) if isinstance(a, np.integer) else a
    table = None if isinstance(a, int) else tensor_of(a)
    along = 0 if table is None else axis_of(axis, table.ndim, "choice")
    n = a if table is None else table.shape[along]
    sizes = shape_of(shape)
    count = dims.product(sizes)
    if isinstance(n, int) and n < 1 and count:
        raise JitgraphError(f"choice: there is nothing to choose from among {n}")
    if not replace and isinstance(n, int) and isinstance(count, int) and count > n:
        raise JitgraphError(f"choice: {count} of {n} cannot be chosen without repetition\n  hint: replace=True")
    device = device_of(table)
    if p is not None:
        picked = multinomial(p, count, replace, generator=generator)
    elif replace:
        picked = randint(0, n, (count,), generator=generator, device=device)
    else:
        picked = permutation(n, generator=generator, device=device)[:count]
    picked = picked.reshape(sizes)
    return picked if table is None else take_at(table, picked, along)


def take_at(table: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Elements along an axis at places of any rank, whose axes stand where that axis stood."""
    flat = take(table, indices.reshape(-1), axis=axis)
    return flat.reshape((*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :]))  # type: ignore[no-any-return]
