"""Products with weights: linear, embedding, convolutions, attention."""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.activation import dropout
from jitgraph.nn.functional.arguments import floats, repeated
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import ones, tril
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.lifting import TensorLike


def linear(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x[..., in] @ weight[out, in].T + bias[out]; ShapeError where the last axis of x does not have size ``in``."""
    x, w, b = floats(input, weight, bias)
    if len(w.shape) != 2:
        raise ShapeError(f"linear takes a weight [out_features, in_features], not {w.type}")
    if not x.shape or not context.constraints().same(x.shape[-1], w.shape[1]):
        raise ShapeError(
            f"linear with in_features={w.shape[1]} takes x[..., {w.shape[1]}], not {x.type}",
            hint="the last axis of x holds the features; x.reshape(len(x), -1) flattens the others",
        )
    if b is not None and b.shape != w.shape[:1]:
        raise ShapeError(f"linear with out_features={w.shape[0]} takes a bias [{w.shape[0]}], not {b.type}")
    return wrap(ops.linear(x, w) if b is None else ops.linear(x, w, b))


def embedding(input: TensorLike, weight: TensorLike, padding_idx: int | None = None) -> Tensor:
    """Rows of weight[V, D] at integers of any shape, from 0 to V - 1, else IndexError.

    Row ``padding_idx`` gets no gradient.
    """
    rows, table = lifting.value_of(input), lifting.value_of(weight)
    if not dtypes.is_integer(rows.dtype):
        raise DTypeError(f"embedding takes integers, not {rows.type}", hint="x.astype(jg.int64)")
    if len(table.shape) != 2:
        raise ShapeError(f"embedding takes a weight [num_embeddings, embedding_dim], not {table.type}")
    indices = lifting.positions(rows)
    found = wrap(ops.embedding(table, indices))
    if padding_idx is None:
        return found
    number = padding_idx if padding_idx >= 0 else table.shape[0] + padding_idx
    padding = wrap(ops.reshape(indices, shape=(*indices.shape, 1))) == number
    return where(padding, found.detach(), found)


def _convolution(
    name: str,
    spatial: int,
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    x, w, b = floats(input, weight, bias)
    letters = ("L", "H, W", "D, H, W")[spatial - 1]
    if len(w.shape) != spatial + 2:
        raise ShapeError(f"{name} takes a weight [out, in / groups, *kernel] of {spatial + 2} axes, not {w.type}")
    alone = len(x.shape) == spatial + 1  # one image without a batch
    if alone:
        x = ops.reshape(x, shape=(1, *x.shape))
    channels = w.shape[1] * groups
    if len(x.shape) != spatial + 2 or not context.constraints().same(x.shape[1], channels):
        raise ShapeError(
            f"{name} with in_channels={channels} takes x[N, {channels}, {letters}], not {lifting.value_of(input).type}",
            hint="channels stand on axis 1; x[:, None] adds an axis for a single one",
        )
    if b is not None and b.shape != w.shape[:1]:
        raise ShapeError(f"{name} with out_channels={w.shape[0]} takes a bias [{w.shape[0]}], not {b.type}")
    strides = repeated(name, "stride", stride, spatial)
    steps = repeated(name, "dilation", dilation, spatial)
    pads = _padding(name, padding, strides, steps, w.shape[2:])
    operands = (x, w) if b is None else (x, w, b)
    result = ops.conv_nd(*operands, strides=strides, padding=pads, dilation=steps, groups=groups)
    return wrap(ops.reshape(result, shape=result.shape[1:]) if alone else result)


def _padding(name: str, padding: Any, strides: Any, dilation: Any, kernel: Any) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial axis; "same" keeps the size and puts an odd element after, as in PyTorch."""
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if any(step != 1 for step in strides):
            raise JitgraphError(f"{name}: padding='same' needs stride 1, not {strides}")
        spans = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        return tuple((span // 2, span - span // 2) for span in spans)
    return tuple((size, size) for size in repeated(name, "padding", padding, len(kernel)))


def conv1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x[N, C, L] with weight[O, C / groups, K], plus bias[O]; padding also "same", "valid"."""
    return _convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x[N, C, H, W] with weight[O, C / groups, KH, KW], plus bias[O]; padding also "same"."""
    return _convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x[N, C, D, H, W] with weight[O, C / groups, KD, KH, KW], plus bias[O]."""
    return _convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query @ key.mT * scale + mask) @ value over the last two axes (Vaswani et al. 2017).

    query [..., L, E], key [..., S, E], value [..., S, V]; ``scale`` is 1 / sqrt(E) unless given. A boolean mask is true
    where a key may be seen; ``is_causal`` lets place i see the keys 0 to i. A place that may see no key (a row of
    false, or of -inf) gives 0 and gets no gradient, as in PyTorch.
    """
    if is_causal and attn_mask is not None:
        raise JitgraphError("scaled_dot_product_attention: is_causal and attn_mask exclude each other")
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query, key.mT) * factor
    if is_causal:
        attn_mask = tril(ones((query.shape[-2], key.shape[-2]), dtype=dtypes.bool_, device=query.device))
    if attn_mask is not None:
        seen = dtypes.is_bool(attn_mask.dtype)
        scores = where(attn_mask, scores, -math.inf) if seen else scores + attn_mask
    if attn_mask is None:
        weights = scores.softmax(-1)
    else:
        weights = wrap(ops.masked_softmax(lifting.value_of(scores), axis=scores.ndim - 1))
    return matmul(dropout(weights, dropout_p, dropout_p > 0.0), value)
