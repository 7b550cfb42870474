"""MultiheadAttention (Vaswani et al. 2017). Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn import functional, init
from jitgraph.nn.functional.arguments import fits, floats
from jitgraph.nn.layers import Linear
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.manipulation import concat, moveaxis, pad
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape


def as_bias(mask: Tensor | None, dtype: dtypes.DType) -> Tensor | None:
    """A mask as numbers that are added to scores: -inf where a boolean one is true, which says what is not seen."""
    if mask is None or not dtypes.is_bool(mask.dtype):
        return mask if mask is None else mask.astype(dtype)
    return where(mask, -math.inf, wrap(lifting.repeated(0.0, dtype, mask.value.type.shape)))


def causal_mask(queries: Any, keys: Any, beside: Tensor) -> Tensor:
    """True where key j stands behind query i: j > i; on the device of ``beside``."""
    rows, columns = (wrap(lifting.places((queries, keys), axis, beside.value)) for axis in (0, 1))
    return columns > rows


class MultiheadAttention(Module):
    """Attention of ``num_heads`` heads: query [L, N, E], key [S, N, kdim], value [S, N, vdim] to [L, N, E].

    With ``batch_first`` the batch stands first, and it may be left out. Masks are true where a key is not seen, or are
    added to the scores. A query that sees no key gives zeros.
    """

    in_proj_weight: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise JitgraphError(f"MultiheadAttention: num_heads={num_heads} does not divide embed_dim={embed_dim}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        one = self._qkv_same_embed_dim  # PyTorch's name
        self.in_proj_weight = Parameter(zeros((3 * embed_dim, embed_dim))) if one else None
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            setattr(self, f"{name}_proj_weight", None if one else Parameter(zeros((embed_dim, size))))
        self.in_proj_bias = Parameter(zeros(3 * embed_dim)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k, self.bias_v = (Parameter(zeros((1, 1, embed_dim))) for _ in range(2))
        self._reset_parameters()
        self.to(device=device, dtype=dtype)

    def _reset_parameters(self) -> None:
        """Draw the projections of the arguments and the learned keys anew; biases become zeros. PyTorch's name."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for learned in (self.bias_k, self.bias_v):
            if learned is not None:
                init.xavier_normal_(learned)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values, and with ``need_weights`` the weights [N, L, S], or [N, heads, L, S] not averaged.

        ``key_padding_mask`` [N, S] and ``attn_mask`` [L, S] or [N * heads, L, S] are masks; ``is_causal`` is one where
        no ``attn_mask`` is given.
        """
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
        for name, x, size in zip(
            ("query", "key", "value"), operands, (self.embed_dim, self.kdim, self.vdim), strict=True
        ):
            if x.shape[-1] != size:
                raise ShapeError(f"MultiheadAttention takes {name}[..., {size}], not {x.value.type}")
        q, k, v = self._projected(*operands)
        plain = attn_mask is None and key_padding_mask is None and self.bias_k is None and not self.add_zero_attn
        causal = is_causal and plain and not need_weights  # which attention does without a mask
        mask = self._mask(q, k, key_padding_mask, attn_mask, is_causal and not causal)
        k, v, mask = self._extended(k, v, mask)
        q, k, v = (self._heads(x) for x in (q, k, v))
        drop = self.dropout if self.training else 0.0
        if need_weights:
            weights = functional.dropout(_weights(q, k, mask), drop, True)
            found = matmul(weights, v)
        else:
            found = functional.scaled_dot_product_attention(q, k, v, mask, drop, causal)
        batch, heads, length, each = found.value.type.shape
        joined = self.out_proj(reshape(moveaxis(found, 1, 2), (batch, length, heads * each)))
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
        if self._qkv_same_embed_dim:
            weights: Any = [self.in_proj_weight[i * size : (i + 1) * size] for i in range(3)]
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        bias = self.in_proj_bias
        biases = [None if bias is None else bias[i * size : (i + 1) * size] for i in range(3)]
        if self._qkv_same_embed_dim and query is key and key is value:
            whole = functional.linear(query, self.in_proj_weight, bias)
            return whole[..., :size], whole[..., size : 2 * size], whole[..., 2 * size :]
        q, k, v = (functional.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
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
        for extra in ((self.bias_k, self.bias_v), (0.0, 0.0) if self.add_zero_attn else (None, None)):
            if extra[0] is None:
                continue
            shape = (k.value.type.shape[0], 1, self.embed_dim)
            behind = [
                wrap(lifting.repeated(0.0, k.dtype, shape))
                if isinstance(x, float)
                else wrap(lifting.broadcast_to(x.value, shape))  # type: ignore[union-attr]
                for x in extra
            ]
            k, v = concat([k, behind[0]], axis=1), concat([v, behind[1]], axis=1)
            if mask is not None:
                mask = pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, 1)])
        return k, v, mask

    def _heads(self, x: Tensor) -> Tensor:
        batch, length = x.value.type.shape[:2]
        return moveaxis(reshape(x, (batch, length, self.num_heads, self.head_dim)), 2, 1)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax of the scaled scores; zeros for a query that sees no key."""
    scores: Tensor = matmul(q * (1.0 / math.sqrt(q.shape[-1])), moveaxis(k, -1, -2))
    if mask is None:
        return functional.softmax(scores, -1)
    scores = scores + mask
    blind = max_of(scores.detach(), -1, keepdims=True) == -math.inf
    weights = functional.softmax(where(blind, 0.0, scores), -1)
    return where(blind, 0.0, weights)
