"""Attention and encoder layers of transformers that PyTorch runs as one operator where nothing is learned."""

from __future__ import annotations

from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import layer_forms


def _native_multi_head_attention(
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    weights = (qkv_weight[:embed_dim], qkv_weight[embed_dim : 2 * embed_dim], qkv_weight[2 * embed_dim :])
    biases = (qkv_bias[:embed_dim], qkv_bias[embed_dim : 2 * embed_dim], qkv_bias[2 * embed_dim :])
    q, k, v = (
        layer_forms.heads(functional.linear(x, weight, bias), num_head)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    allowed = layer_forms.as_allowed(mask, mask_type)
    batch, _, length, size = q.shape
    if not need_weights:
        y = functional.scaled_dot_product_attention(q, k, v, allowed)
        attention = None
    else:
        scores = fn.matmul(q * size**-0.5, fn.matrix_transpose(k))
        if allowed is not None:
            scores = fn.where(allowed, scores, float("-inf"))
        attention = functional.softmax(scores, -1)
        y = fn.matmul(attention, v)
        attention = fn.mean(attention, axis=1) if average_attn_weights else attention
    y = fn.reshape(fn.permute_dims(y, (0, 2, 1, 3)), (batch, length, num_head * size))
    return functional.linear(y, proj_weight, proj_bias), attention


def _transformer_encoder_layer_fwd(
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    def norm(x, weight, bias):
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attended(x):
        return _native_multi_head_attention(
            *(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias),
            *(mask, False, True, mask_type),
        )[0]

    def fed_forward(x):
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attended(norm(src, norm_weight_1, norm_bias_1))
        return x + fed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attended(src), norm_weight_1, norm_bias_1)
    return norm(x + fed_forward(x), norm_weight_2, norm_bias_2)
