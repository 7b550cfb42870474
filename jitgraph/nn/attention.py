"""MultiheadAttention (Vaswani et al. 2017). Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.nn import init
from jitgraph.nn.functional.multi_head import Heads
from jitgraph.nn.layers import Linear
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros


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
