"""Products with weights: linear and bilinear maps, embedding, convolutions and transposed ones, attention."""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes, ops, random
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.arguments import fits, floats, repeated, same_shape
from jitgraph.nn.functional.windows import padding_by_word, require_channels, single
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.direct_calls import direct_call
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_step import one_step

# ----------------------------------------------------------------------
# Products with weights: linear and bilinear maps, embedding, convolutions, attention.

_einsum = imports.function("jitgraph.tensor.products", "einsum")


def linear(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x[..., in] @ weight[out, in].T + bias[out]; ShapeError where the last axis of x does not have size ``in``."""
    if bias is None:
        return _linear_without_bias(input, weight)  # type: ignore[no-any-return]
    return _linear(input, weight, bias)  # type: ignore[no-any-return]


def _product(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    x, w, b = floats(input, weight, bias, optional=1)
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


_linear, _linear_without_bias = direct_call(_product, 3), direct_call(_product, 2)


def embedding(
    input: TensorLike,
    weight: TensorLike,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight[V, D] at integers of any shape, from 0 to V - 1, else IndexError.

    Row ``padding_idx`` gets no gradient. ``max_norm`` scales the rows that are used, in ``weight`` itself;
    ``scale_grad_by_freq`` divides their gradients by how often each is used. UnsupportedOp for ``sparse``.
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        bags: Any = imports.module("jitgraph.nn.functional.bags")
        bags.require_dense("embedding", sparse)
        return bags.treated_rows(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)  # type: ignore[no-any-return]
    rows, table = lifting.value_of(input), lifting.value_of(weight)
    if not dtypes.is_integer(rows.dtype):
        raise DTypeError(f"embedding takes integers, not {rows.type}", hint="x.astype(jg.int64)")
    if len(table.shape) != 2:
        raise ShapeError(f"embedding takes a weight [num_embeddings, embedding_dim], not {table.type}")
    indices = lifting.positions(rows)
    return without_padding(wrap(ops.embedding(table, indices)), indices, table.shape[0], padding_idx)


def without_padding(rows: Tensor, indices: Any, count: Any, padding_idx: int | None) -> Tensor:
    """Rows of a table of ``count`` rows, of which row ``padding_idx`` gets no gradient."""
    if padding_idx is None:
        return rows
    number = padding_idx if padding_idx >= 0 else count + padding_idx
    padding = wrap(ops.reshape(indices, shape=(*indices.shape, 1))) == number
    return where(padding, rows.detach(), rows)


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
    x, w, b = floats(input, weight, bias, optional=1)
    if len(w.shape) != spatial + 2:
        raise ShapeError(f"{name} takes a weight [out, in / groups, *kernel] of {spatial + 2} axes, not {w.type}")
    alone = len(x.shape) == spatial + 1  # one image without a batch
    if alone:
        x = ops.reshape(x, shape=(1, *x.shape))
    require_channels(name, input, x, w.shape[1] * groups, b, w.shape[0], spatial)
    strides = repeated(name, "stride", stride, spatial)
    steps = repeated(name, "dilation", dilation, spatial)
    pads = _padding(name, padding, strides, steps, w.shape[2:])
    operands = (x, w) if b is None else (x, w, b)
    result = ops.conv_nd(*operands, strides=strides, padding=pads, dilation=steps, groups=groups)
    return single(wrap(result), alone)


def _padding(name: str, padding: Any, strides: Any, dilation: Any, kernel: Any) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial axis, from a word, a number or a number for each."""
    if isinstance(padding, str) and padding == "same" and any(step != 1 for step in strides):
        raise JitgraphError(f"{name}: padding='same' needs stride 1, not {strides}")
    if isinstance(padding, str):
        return padding_by_word(name, padding, dilation, kernel)
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
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.mT * scale + mask) @ value over the last two axes (Vaswani et al. 2017).

    query [..., L, E], key [..., S, E], value [..., S, V]; ``scale`` is 1 / sqrt(E) unless given. A boolean mask is true
    where a key may be seen; ``is_causal`` lets place i see the keys 0 to i. A place that may see no key (a row of
    false, or of -inf) gives 0 and gets no gradient, as in PyTorch. With ``enable_gqa`` each of the heads [..., H, S, E]
    of key and value serves as many neighbouring ones of query as there are for each.
    """
    if not 0.0 <= dropout_p <= 1.0:
        raise JitgraphError(f"scaled_dot_product_attention: dropout_p={dropout_p} is not a probability")
    if is_causal and attn_mask is not None:
        raise JitgraphError("scaled_dot_product_attention: is_causal and attn_mask exclude each other")
    seen = attn_mask is not None and dtypes.is_bool(attn_mask.dtype)
    q, k, v, bias = floats(query, key, value, None if seen else attn_mask, optional=1)
    mask = lifting.value_of(attn_mask) if seen else bias
    if enable_gqa:
        k, v = (_for_each_query(x, q) for x in (k, v))
    q, k, v, mask = _of_one_batch(q, k, v, mask)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    random_key = () if dropout_p == 0.0 else (random.next_key((*q.shape[:-1], k.shape[-2]), dtypes.float32),)
    rest = (*(() if mask is None else (mask,)), *random_key)
    out, _ = ops.attention(q, k, v, *rest, scale=factor, causal=bool(is_causal), dropout=float(dropout_p))
    return wrap(out)


def _for_each_query(x: Any, q: Any) -> Any:
    """Keys or values, whose heads are repeated so that there is one for each of the query's."""
    heads, query_heads = (y.shape[-3] if len(y.shape) > 2 else None for y in (x, q))
    if not isinstance(heads, int) or not isinstance(query_heads, int) or heads < 1 or query_heads % heads:
        raise ShapeError(f"scaled_dot_product_attention: the heads of {q.type} are no multiple of those of {x.type}")
    *batch, _, rows, columns = x.shape
    parted = ops.reshape(x, shape=(*batch, heads, 1, rows, columns))
    each = lifting.broadcast_to(parted, (*batch, heads, query_heads // heads, rows, columns))
    return ops.reshape(each, shape=(*batch, query_heads, rows, columns))


def _of_one_batch(q: Any, k: Any, v: Any, mask: Any) -> tuple[Any, Any, Any, Any]:
    """The operands of attention, leading axes broadcast; ShapeError where sizes do not fit."""
    same = context.constraints().same
    if min(len(x.shape) for x in (q, k, v)) < 2 or not (
        same(q.shape[-1], k.shape[-1]) and same(k.shape[-2], v.shape[-2])
    ):
        raise ShapeError(
            f"scaled_dot_product_attention takes query[..., L, E], key[..., S, E] and value[..., S, V], "
            f"not {q.type}, {k.type} and {v.type}"
        )
    batch = lifting.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v)))
    if mask is not None:
        rows, columns = q.shape[-2], k.shape[-2]
        batch = lifting.broadcast_shapes(batch, mask.shape[:-2])
        mask = lifting.broadcast_to(mask, (*batch, rows, columns))
    q, k, v = (lifting.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    return q, k, v, mask


@one_step
def bilinear(input1: TensorLike, input2: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """input1 @ weight[k] @ input2 + bias[k] for each output k: x1[..., I], x2[..., J], weight[O, I, J] to [..., O].

    ShapeError where sizes do not fit; the leading axes of both inputs are the same.
    """
    operands = floats(input1, input2, weight, bias, optional=1)
    x1, x2, w = (wrap(x) for x in operands[:3])
    b = None if operands[3] is None else wrap(operands[3])
    s1, s2, sw = (x.value.type.shape for x in (x1, x2, w))
    if len(sw) != 3 or not s1 or not s2 or not same_shape((*s1, s2[-1]), (*s2[:-1], *sw[1:])):
        raise ShapeError(
            f"bilinear takes x1[..., I], x2[..., J] and weight[O, I, J], "
            f"not {x1.value.type}, {x2.value.type} and {w.value.type}"
        )
    if b is not None and (not fits(b, sw[:1])):
        raise ShapeError(f"bilinear takes bias[{sw[0]}], not {b.value.type}")
    with context.using(autocast=None):  # it is none of the products of PyTorch's lists
        product: Tensor = _einsum("...i,oij,...j->...o", x1, w, x2)
    return product if b is None else product + b


# ----------------------------------------------------------------------
# Transposed convolutions: the maps that send a convolution's result back to its input's shape (Dumoulin 2016).


def _transposed(
    name: str,
    spatial: int,
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    x, w, b = floats(input, weight, bias, optional=1)
    if len(w.shape) != spatial + 2:
        raise ShapeError(f"{name} takes a weight [in, out / groups, *kernel] of {spatial + 2} axes, not {w.type}")
    alone = len(x.shape) == spatial + 1
    if alone:
        x = ops.reshape(x, shape=(1, *x.shape))
    channels, each = w.shape[0], w.shape[1]
    if groups < 1 or channels % groups:
        raise JitgraphError(f"{name}: groups={groups} does not divide in_channels={channels}")
    require_channels(name, input, x, channels, b, each * groups, spatial)
    steps = repeated(name, "stride", stride, spatial)
    pads = repeated(name, "padding", padding, spatial)
    gaps = repeated(name, "dilation", dilation, spatial)
    more = repeated(name, "output_padding", output_padding, spatial)
    if min(*steps, *gaps) < 1 or min(*pads, *more) < 0:
        raise ShapeError(f"{name}: stride={steps}, dilation={gaps} are positive, padding={pads} not negative")
    if any(extra >= max(step, gap) for extra, step, gap in zip(more, steps, gaps, strict=True)):
        raise ShapeError(f"{name}: output_padding={more} should be less than stride={steps} or dilation={gaps}")
    operands = (x, w) if b is None else (x, w, b)
    settings: Any = {"strides": steps, "padding": pads, "output_padding": more, "dilation": gaps}
    return single(wrap(ops.conv_transpose_nd(*operands, **settings, groups=groups)), alone)


def conv_transpose1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transposed ``conv1d`` of x[N, C, L] with weight[C, O / groups, K], plus bias[O]."""
    settings = (stride, padding, output_padding, groups, dilation)
    return _transposed("conv_transpose1d", 1, input, weight, bias, *settings)


def conv_transpose2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transposed ``conv2d`` of x[N, C, H, W] with weight[C, O / groups, KH, KW], plus bias[O]."""
    settings = (stride, padding, output_padding, groups, dilation)
    return _transposed("conv_transpose2d", 2, input, weight, bias, *settings)


def conv_transpose3d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transposed ``conv3d`` of x[N, C, D, H, W] with weight[C, O / groups, KD, KH, KW], plus bias[O]."""
    settings = (stride, padding, output_padding, groups, dilation)
    return _transposed("conv_transpose3d", 3, input, weight, bias, *settings)
