"""What operators of neural networks need beside jitgraph's functions: sizes of windows, statistics, layers in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional
from jitgraph.nn.functional import recurrent
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands

REDUCTIONS: Final = ("none", "mean", "sum")
"""ATen's numbers of reductions."""


def window(sizes: Any) -> Any:
    """ATen's list of sizes of a window as jitgraph's tuple; a list of one size as that size."""
    if isinstance(sizes, list | tuple):
        return sizes[0] if len(sizes) == 1 else tuple(sizes)
    return sizes


def windows(kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[Any, Any, Any, Any]:
    """The sizes of a pooling window; a stride that is empty is the kernel's."""
    step = None if isinstance(stride, list | tuple) and not stride else window(stride)
    return window(kernel), step, window(padding), window(dilation)


def resized(
    self: Any, size: Sequence[Any], scales: Sequence[Any], mode: str, align: bool | None = None, antialias: bool = False
) -> Any:
    """``interpolate`` as ATen says it: the new sizes, and the factors by which positions go where they are known."""
    if all(scale is None for scale in scales) or align:
        return functional.interpolate(self, tuple(size), mode=mode, align_corners=align, antialias=antialias)
    factors = tuple(
        float(want) / have if scale is None else scale
        for want, have, scale in zip(size, self.shape[2:], scales, strict=True)
    )
    if [math.floor(have * factor) for have, factor in zip(self.shape[2:], factors, strict=True)] != list(size):
        return functional.interpolate(self, tuple(size), mode=mode, align_corners=align, antialias=antialias)
    return functional.interpolate(self, None, factors, mode, align, antialias=antialias)


def resized_by(
    self: Any, size: Any, factors: Any, mode: str, align: bool | None = None, antialias: bool = False
) -> Any:
    """``interpolate`` to sizes, or by factors."""
    if size is not None:
        return functional.interpolate(self, tuple(size), mode=mode, align_corners=align, antialias=antialias)
    return functional.interpolate(self, None, tuple(factors), mode, align, antialias=antialias)


def unpooled(self: Any, indices: Any, output_size: Sequence[int]) -> Any:
    """The elements of the last axes at their flat positions in zeros of ``output_size``."""
    lead = self.ndim - len(output_size)
    flat = (*self.shape[:lead], -1)
    zeros = fn.zeros((*self.shape[:lead], math.prod(output_size)), dtype=self.dtype)
    placed = fn.scatter(zeros, -1, fn.reshape(indices, flat), fn.reshape(self, flat))
    return fn.reshape(placed, (*self.shape[:lead], *output_size))


def epsilon(self: Any) -> float:
    """The machine epsilon of a tensor's dtype."""
    return float(np.finfo(dtypes.float32 if self.dtype.itemsize == 2 else self.dtype).eps)


def statistics(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """The mean along axes, which remain with size 1, and 1 / sqrt(variance + eps); both without gradients."""
    variance, mean = fn.var_mean(operands.constant(x), axes, correction=0, keepdims=True)
    return mean, fn.rsqrt(fn.add(variance, eps))


def batch_statistics(x: Any, training: bool, eps: float) -> tuple[Any, Any]:
    """The mean and 1 / sqrt(variance + eps) of each channel of a batch; empty where running statistics are used."""
    if not training:
        return fn.zeros((0,), dtype=x.dtype), fn.zeros((0,), dtype=x.dtype)
    axes = (0, *range(2, x.ndim))
    mean, rstd = statistics(x, axes, eps)
    return fn.squeeze(mean, axes), fn.squeeze(rstd, axes)


def attention_scores(query: Any, key: Any, mask: Any, is_causal: bool, scale: float | None) -> Any:
    """Scaled products of queries and keys, -inf where a query does not see a key."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = fn.multiply(fn.matmul(query, fn.matrix_transpose(key)), factor)
    if is_causal:
        seen = fn.tril(fn.ones((query.shape[-2], key.shape[-2]), dtype=dtypes.bool_))
        scores = fn.where(seen, scores, -math.inf)
    if mask is None:
        return scores
    return fn.where(mask, scores, -math.inf) if dtypes.is_bool(mask.dtype) else fn.add(scores, mask)


def recurrent_layers(
    step: recurrent.Step,
    input: Any,
    state: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """ATen's recurrent layers: the outputs, and each part of the last state."""
    parts = (4 if has_biases else 2) + (len(state) == 2 and state[0].shape[-1] != state[1].shape[-1])
    groups = [params[start : start + parts] for start in range(0, len(params), parts)]
    if input.ndim != 3:
        raise UnsupportedOp(
            f"a recurrent layer takes x[N, T, F] or x[T, N, F], not {input.value.type}",
            hint="x.unsqueeze(0) makes a batch of one",
        )
    x = fn.swapaxes(input, 0, 1) if batch_first else input
    weights = [_ordered(group, has_biases) for group in groups]
    outputs, last = recurrent.stacked(
        step, x, state, weights, directions=1 + bidirectional, drop=dropout, training=train
    )
    return (fn.swapaxes(outputs, 0, 1) if batch_first else outputs), *last


def _ordered(group: Sequence[Any], has_biases: bool) -> list[Any]:
    """W_ih, W_hh, b_ih, b_hh and a projection in the order of ``recurrent.walk``."""
    if has_biases:
        return [group[0], group[2], group[1], group[3], *group[4:]]
    return [group[0], None, group[1], None, *group[2:]]


def as_allowed(mask: Any, mask_type: Any) -> Any:
    """Where attention is allowed, of scores [batch, head, query, key], by a mask that is true where it is forbidden."""
    if mask is None:
        return None
    allowed = fn.logical_not(fn.astype(mask, "bool"))
    if mask_type == 1 or (mask_type is None and mask.ndim == 2 and mask.shape[0] != mask.shape[1]):
        return allowed[:, None, None, :]  # of keys, for each sequence
    return allowed


def heads(x: Any, num_head: int) -> Any:
    """The features of each head [batch, head, length, size] of [batch, length, features]."""
    batch, length, width = x.shape
    return fn.permute_dims(fn.reshape(x, (batch, length, num_head, width // num_head)), (0, 2, 1, 3))
