"""Attention of several heads with its projections (Vaswani et al. 2017), by weights that are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgraph import dtypes
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.activation import dropout, softmax
from jitgraph.nn.functional.arguments import fits, floats
from jitgraph.nn.functional.layers import linear, scaled_dot_product_attention
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.manipulation import concat, moveaxis, pad
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike


def as_bias(mask: Tensor | None, dtype: dtypes.DType) -> Tensor | None:
    """A mask as numbers that are added to scores: -inf where a boolean one is true, which says what is not seen."""
    if mask is None or not dtypes.is_bool(mask.dtype):
        return mask if mask is None else mask.astype(dtype)
    return where(mask, -math.inf, wrap(lifting.repeated(0.0, dtype, mask.value.type.shape)))


def causal_mask(queries: Any, keys: Any, beside: Tensor) -> Tensor:
    """True where key j stands behind query i: j > i; on the device of ``beside``."""
    rows, columns = (wrap(lifting.positions_along((queries, keys), axis, beside.value)) for axis in (0, 1))
    return columns > rows


class Heads:
    """The weights of the projections and the settings of one attention."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        sizes: tuple[Any, Any],
        weight: Any,
        weights: tuple[Any, Any, Any],
        bias: Any,
        learned: tuple[Any, Any],
        add_zero_attn: bool,
        drop: float,
        out: Callable[[Tensor], Tensor],
        batch_first: bool = False,
    ) -> None:
        """``sizes`` of keys and values; one ``weight`` [3 E, E] of all three or else ``weights``; ``learned`` keys."""
        self.embed_dim, self.num_heads, self.sizes = embed_dim, num_heads, sizes
        self.weight, self.weights, self.bias, self.learned = weight, weights, bias, learned
        self.add_zero_attn, self.drop, self.out, self.batch_first = add_zero_attn, drop, out, batch_first

    def attended(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any,
        need_weights: bool,
        attn_mask: Any,
        average_attn_weights: bool,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values, and with ``need_weights`` the weights, as ``MultiheadAttention.forward``."""
        itself = query is key and key is value
        query, key, value = (wrap(x) for x in floats(query, key, value))
        key, value = (query, query) if itself else (key, value)
        attn_mask, key_padding_mask = (
            mask if mask is None else wrap(lifting.value_of(mask)) for mask in (attn_mask, key_padding_mask)
        )
        alone = query.ndim == 2
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise ShapeError(
                f"MultiheadAttention takes query, key and value of 2 or 3 axes, not {query.value.type}, "
                f"{key.value.type} and {value.value.type}"
            )
        operands = [query, key, value]
        if alone:
            operands = [expand_dims(x, 0) for x in operands]
            key_padding_mask = None if key_padding_mask is None else expand_dims(key_padding_mask, 0)
        elif not self.batch_first:
            operands = [moveaxis(x, 0, 1) for x in operands]
        for name, x, size in zip(("query", "key", "value"), operands, (self.embed_dim, *self.sizes), strict=True):
            if x.shape[-1] != size:
                raise ShapeError(f"MultiheadAttention takes {name}[..., {size}], not {x.value.type}")
        q, k, v = self._projected(*operands)
        plain = attn_mask is None and key_padding_mask is None and self.learned[0] is None and not self.add_zero_attn
        causal = is_causal and plain and not need_weights  # which attention does without a mask
        mask = self._mask(q, k, key_padding_mask, attn_mask, is_causal and not causal)
        k, v, mask = self._extended(k, v, mask)
        q, k, v = (self._heads(x) for x in (q, k, v))
        if need_weights:
            weights = dropout(_weights(q, k, mask), self.drop, True)
            attended = matmul(weights, v)
        else:
            attended = scaled_dot_product_attention(q, k, v, mask, self.drop, causal)
        batch, heads, length, each = attended.value.type.shape
        joined = self.out(reshape(moveaxis(attended, 1, 2), (batch, length, heads * each)))
        if alone:
            joined = joined[0]
        elif not self.batch_first:
            joined = moveaxis(joined, 0, 1)
        if not need_weights:
            return joined, None
        shown = weights.mean(axis=1) if average_attn_weights else weights
        return joined, shown[0] if alone else shown

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = self.embed_dim
        weights: Any = self.weights
        if self.weight is not None:
            weights = tuple(self.weight[i * size : (i + 1) * size] for i in range(3))
        bias = self.bias
        biases = [None if bias is None else bias[i * size : (i + 1) * size] for i in range(3)]
        if self.weight is not None and query is key and key is value:
            projected = linear(query, self.weight, bias)
            return projected[..., :size], projected[..., size : 2 * size], projected[..., 2 * size :]
        q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        return q, k, v

    def _mask(
        self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, is_causal: bool
    ) -> Tensor | None:
        """What is added to the scores [N, heads, L, S], or None."""
        batch, length = q.value.type.shape[:2]
        keys = k.value.type.shape[1]
        if attn_mask is None and is_causal:
            attn_mask = causal_mask(length, keys, q)
        bias = as_bias(attn_mask, q.dtype)
        if bias is not None and bias.ndim == 3:
            bias = reshape(bias, (-1, self.num_heads, length, keys))
        elif bias is not None and bias.ndim != 2:
            raise ShapeError(f"attn_mask is [L, S] or [N * heads, L, S], not {bias.value.type}")
        padding = as_bias(key_padding_mask, q.dtype)
        if padding is None:
            return bias
        if not fits(padding, (batch, keys)):
            raise ShapeError(f"key_padding_mask is [N, S] = ({batch}, {keys}), not {padding.value.type}")
        padding = reshape(padding, (batch, 1, 1, keys))
        return padding if bias is None else bias + padding

    def _extended(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """With the learned key and value, and those of zeros, behind the others; every query sees them."""
        extras: Any = (self.learned, (0.0, 0.0) if self.add_zero_attn else (None, None))
        for extra in extras:
            if extra[0] is None:
                continue
            shape = (k.value.type.shape[0], 1, self.embed_dim)
            behind = [
                wrap(lifting.repeated(0.0, k.dtype, shape))
                if isinstance(x, float)
                else wrap(lifting.broadcast_to(x.value, shape))
                for x in extra
            ]
            k, v = concat([k, behind[0]], axis=1), concat([v, behind[1]], axis=1)
            if mask is not None:
                mask = pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, 1)])
        return k, v, mask

    def _heads(self, x: Tensor) -> Tensor:
        batch, length = x.value.type.shape[:2]
        return moveaxis(reshape(x, (batch, length, self.num_heads, self.embed_dim // self.num_heads)), 2, 1)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax of the scaled scores; zeros for a query that sees no key."""
    scores: Tensor = matmul(q * (1.0 / math.sqrt(q.shape[-1])), moveaxis(k, -1, -2))
    if mask is None:
        return softmax(scores, -1)
    scores = scores + mask
    blind = max_of(scores.detach(), -1, keepdims=True) == -math.inf
    weights = softmax(where(blind, 0.0, scores), -1)
    return where(blind, 0.0, weights)


def multi_head_attention_forward(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: TensorLike | None,
    in_proj_bias: TensorLike | None,
    bias_k: TensorLike | None,
    bias_v: TensorLike | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: TensorLike,
    out_proj_bias: TensorLike | None,
    training: bool = True,
    key_padding_mask: TensorLike | None = None,
    need_weights: bool = True,
    attn_mask: TensorLike | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: TensorLike | None = None,
    k_proj_weight: TensorLike | None = None,
    v_proj_weight: TensorLike | None = None,
    static_k: None = None,
    static_v: None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``MultiheadAttention`` of query [L, N, E], key [S, N, kdim] and value [S, N, vdim] by weights that are given.

    One ``in_proj_weight`` [3 E, E], or with ``use_separate_proj_weight`` three of [E, E], [E, kdim] and [E, vdim].
    JitgraphError for ``static_k`` and ``static_v``, and for heads that do not divide E.
    """
    if static_k is not None or static_v is not None:
        hint = "jg.nn.functional.scaled_dot_product_attention of heads that are projected already"
        raise JitgraphError(f"multi_head_attention_forward takes no static_k and static_v\n  hint: {hint}")
    if num_heads < 1 or embed_dim_to_check % num_heads:
        raise JitgraphError(f"multi_head_attention_forward: {num_heads} heads do not divide {embed_dim_to_check}")
    projection: Any = [in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight]
    projection = [None if weight is None else wrap(lifting.value_of(weight)) for weight in projection]
    one, *three = projection
    if any(weight is None for weight in (three if use_separate_proj_weight else [one])):
        names = "q_proj_weight, k_proj_weight and v_proj_weight" if use_separate_proj_weight else "in_proj_weight"
        raise JitgraphError(
            f"multi_head_attention_forward with use_separate_proj_weight={use_separate_proj_weight} takes {names}"
        )
    sizes: Any = [weight.shape[1] for weight in three[1:]] if use_separate_proj_weight else [embed_dim_to_check] * 2
    bias, *learned = (
        None if projection is None else wrap(lifting.value_of(projection))
        for projection in (in_proj_bias, bias_k, bias_v)
    )
    heads = Heads(
        embed_dim_to_check,
        num_heads,
        (sizes[0], sizes[1]),
        None if use_separate_proj_weight else one,
        (three[0], three[1], three[2]),
        bias,
        (learned[0], learned[1]),
        add_zero_attn,
        dropout_p if training else 0.0,
        lambda x: linear(x, out_proj_weight, out_proj_bias),
    )
    masks = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
    return heads.attended(query, key, value, *masks)
