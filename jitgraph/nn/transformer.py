"""MultiheadAttention, and transformer layers and stacks (Vaswani et al. 2017). Names, keys and defaults as PyTorch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn import functional, init
from jitgraph.nn.activations import Dropout
from jitgraph.nn.containers import ModuleList
from jitgraph.nn.functional.multi_head import Heads, causal_mask
from jitgraph.nn.layers import Linear
from jitgraph.nn.module import Module, Parameter
from jitgraph.nn.normalization import LayerNorm
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tensor.functions.elementwise import where

# ----------------------------------------------------------------------
# MultiheadAttention (Vaswani et al. 2017). Names, keys, layouts and defaults as PyTorch.


class NonDynamicallyQuantizableLinear(Linear):
    """The projection of the results, which PyTorch shows by this name."""


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
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias)
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
        heads = Heads(
            self.embed_dim,
            self.num_heads,
            (self.kdim, self.vdim),
            self.in_proj_weight if self._qkv_same_embed_dim else None,
            (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight),
            self.in_proj_bias,
            (self.bias_k, self.bias_v),
            self.add_zero_attn,
            self.dropout if self.training else 0.0,
            self.out_proj,
            self.batch_first,
        )
        masks = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        return heads.attended(query, key, value, *masks)


# ----------------------------------------------------------------------
# Transformer layers and stacks (Vaswani et al. 2017). Names, keys, layouts and defaults as PyTorch.

Activation = str | Callable[[Tensor], Tensor]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise JitgraphError(f"activation={activation!r} is neither 'relu' nor 'gelu'\n  hint: a function is taken, too")
    return functional.relu if activation == "relu" else functional.gelu


def _attended(
    attention: Module, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
) -> Tensor:
    output, _ = attention(x, memory, memory, padding, False, mask, is_causal=is_causal)
    return output  # type: ignore[no-any-return]


def _fed(layer: Any, x: Tensor) -> Tensor:
    """The two linear layers of a layer."""
    return layer.linear2(layer.dropout(layer.activation(layer.linear1(x))))  # type: ignore[no-any-return]


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each with a residual sum and a norm, before it or with ``norm_first``."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)
        self.to(device=device, dtype=dtype)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """x of the shape of ``src``."""
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            x = self.norm1(src)
            src = src + self.dropout1(_attended(self.self_attn, x, x, *masks))
            return src + self.dropout2(_fed(self, self.norm2(src)))  # type: ignore[no-any-return]
        src = self.norm1(src + self.dropout1(_attended(self.self_attn, src, src, *masks)))
        return self.norm2(src + self.dropout2(_fed(self, src)))  # type: ignore[no-any-return]


class TransformerDecoderLayer(Module):
    """Self-attention, attention to a memory, and two linear layers, each with a residual sum and a norm."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm_first = norm_first
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = (Dropout(dropout) for _ in range(3))
        self.activation = _activation(activation)
        self.to(device=device, dtype=dtype)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """x of the shape of ``tgt``."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = self.norm1(tgt)
            tgt = tgt + self.dropout1(_attended(self.self_attn, x, x, *own))
            tgt = tgt + self.dropout2(_attended(self.multihead_attn, self.norm2(tgt), *other))
            return tgt + self.dropout3(_fed(self, self.norm3(tgt)))  # type: ignore[no-any-return]
        tgt = self.norm1(tgt + self.dropout1(_attended(self.self_attn, tgt, tgt, *own)))
        tgt = self.norm2(tgt + self.dropout2(_attended(self.multihead_attn, tgt, *other)))
        return self.norm3(tgt + self.dropout3(_fed(self, tgt)))  # type: ignore[no-any-return]


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """``num_layers`` copies of a layer, one after another, and a norm."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(encoder_layer, num_layers), num_layers, norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """x of the shape of ``src``; ``is_causal`` is a mask where none is given."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """``num_layers`` copies of a layer, one after another, and a norm."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(decoder_layer, num_layers), num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """x of the shape of ``tgt``; ``tgt_is_causal`` is a mask where none is given."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of ``src`` and a decoder of ``tgt`` that attends to it."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        settings: tuple[Any, ...] = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        settings = (*settings, batch_first, norm_first, bias)
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(2)]
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings), num_encoder_layers, norms[0]
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings), num_decoder_layers, norms[1]
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()
        self.to(device=device, dtype=dtype)

    def _reset_parameters(self) -> None:
        """Draw all parameters of two axes or more anew, by ``init.xavier_uniform_``. PyTorch's name."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """x of the shape of ``tgt``."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer takes src and tgt [..., {self.d_model}], not {src.value.type}, {tgt.value.type}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)  # type: ignore[no-any-return]

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """[sz, sz] zeros with -inf behind the diagonal: each place sees those up to it."""
        zero = zeros((), dtype=dtype, device=device)
        return where(causal_mask(sz, sz, zero), -math.inf, zero)
