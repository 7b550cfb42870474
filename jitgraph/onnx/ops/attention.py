"""The domain com.microsoft: attention and rotated positions."""

from __future__ import annotations

from typing import Any

import ml_dtypes

from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx.registry import MICROSOFT, define
from jitgraph.tensor import functions as fn


def _heads(x: Any, count: int) -> Any:
    n, length, width = x.shape
    return fn.permute_dims(fn.reshape(x, (n, length, count, width // count)), (0, 2, 1, 3))


def _joined(x: Any) -> Any:
    n, count, length, width = x.shape
    return fn.reshape(fn.permute_dims(x, (0, 2, 1, 3)), (n, length, count * width))


def _mask(mask: Any, batch: Any, keys: Any, dtype: Any, low: float) -> Any:
    """An additive mask: ``low`` where a mask_index hides a key.

    A mask_index is the ends of the rows [N], their ends and then their starts [2 * N], or positive for visible keys,
    [N, S] or [N, L, S].
    """
    if mask is None:
        return None
    if mask.ndim == 1:
        if mask.shape[0] not in (batch, 2 * batch):
            raise UnsupportedOp(f"a mask_index of {mask.shape[0]} numbers for {batch} rows")
        at = fn.reshape(fn.arange(keys, dtype=mask.dtype), (1, -1))
        live = fn.less(at, fn.reshape(mask[:batch], (-1, 1)))
        if mask.shape[0] != batch:
            live = fn.logical_and(live, fn.greater_equal(at, fn.reshape(mask[batch:], (-1, 1))))
        live = fn.reshape(live, (batch, 1, 1, keys))
    elif mask.ndim == 2:
        live = fn.reshape(fn.greater(mask, 0), (mask.shape[0], 1, 1, mask.shape[1]))
    elif mask.ndim == 3:
        live = fn.expand_dims(fn.greater(mask, 0), axis=1)
    else:
        raise UnsupportedOp(f"a mask of rank {mask.ndim}")
    zero = fn.zeros(live.shape, dtype=dtype)
    return fn.where(live, zero, zero + low)


@define("Attention", domain=MICROSOFT)
def attention(
    x: Any,
    weights: Any,
    bias: Any = None,
    mask: Any = None,
    past: Any = None,
    bias_of_scores: Any = None,
    past_length: Any = None,
    num_heads: int = 1,
    unidirectional: int = 0,
    scale: float = 0.0,
    qkv_hidden_sizes: Any = None,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    outputs: Any = (),
    **how: Any,
) -> Any:
    if past is not None or do_rotary or any(outputs[1:]):
        raise UnsupportedOp("com.microsoft Attention with a past, or rotated")
    product = fn.matmul(x, weights)
    if bias is not None:
        product = product + bias
    width = product.shape[-1] // 3
    sizes = qkv_hidden_sizes or [width] * 3
    ends = [sizes[0], sizes[0] + sizes[1]]
    q, k, v = product[..., : ends[0]], product[..., ends[0] : ends[1]], product[..., ends[1] :]
    return _attended(q, k, v, num_heads, mask, bias_of_scores, scale, bool(unidirectional), mask_filter_value)


def _attended(q: Any, k: Any, v: Any, heads: int, mask: Any, bias: Any, scale: float, causal: bool, low: float) -> Any:
    own = _mask(mask, k.shape[0], k.shape[1], q.dtype, low)
    if causal:  # these numbers are set, not added: a row of hidden keys alone still sees no later key
        rows, columns = q.shape[1], k.shape[1]
        below = fn.tril(fn.ones((rows, columns), dtype=bool))
        lowest = fn.zeros((rows, columns), dtype=q.dtype) + float(ml_dtypes.finfo(q.dtype).min)
        own = fn.where(below, fn.zeros_like(lowest) if own is None else own, lowest)
    if bias is not None:
        own = bias if own is None else own + bias
    result = F.scaled_dot_product_attention(
        _heads(q, heads), _heads(k, heads), _heads(v, heads), attn_mask=own, scale=scale or None
    )
    return _joined(result)


@define("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    q: Any,
    k: Any = None,
    v: Any = None,
    bias: Any = None,
    mask: Any = None,
    bias_of_scores: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    num_heads: int = 1,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
    outputs: Any = (),
    **how: Any,
) -> Any:
    if k is None or v is None or q.ndim != 3 or k.ndim != 3 or past_key is not None or any(outputs[1:]):
        raise UnsupportedOp("MultiHeadAttention with packed operands or a past")
    if unidirectional and q.shape[1] != k.shape[1]:  # there ONNX Runtime's last query sees all keys
        raise UnsupportedOp("MultiHeadAttention that is unidirectional, with other numbers of queries and keys")
    if mask is not None and mask.ndim == 1 and mask.shape[0] != k.shape[0]:
        raise UnsupportedOp(f"a key_padding_mask of {mask.shape[0]} numbers for {k.shape[0]} rows")
    if bias is not None:
        width = q.shape[-1]
        q, k, v = q + bias[:width], k + bias[width : 2 * width], v + bias[2 * width :]
    return _attended(q, k, v, num_heads, mask, bias_of_scores, scale, bool(unidirectional), mask_filter_value)


@define("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(
    x: Any,
    positions: Any,
    cosines: Any,
    sines: Any,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
    is_packed_batching: int = 0,
) -> Any:
    if is_packed_batching:
        raise UnsupportedOp("RotaryEmbedding with packed batches")
    flat = x.ndim == 3
    width = rotary_embedding_dim or cosines.shape[-1] * 2
    if flat:
        heads = num_heads or x.shape[-1] // width
        x = _heads(x, heads)
    length, size = x.shape[2:]
    places = (
        positions if positions.ndim == 2 else fn.reshape(positions, (1, 1)) + fn.reshape(fn.arange(length), (1, -1))
    )
    cos, sin = (fn.expand_dims(fn.take(table, places, axis=0), axis=1) for table in (cosines, sines))
    part, rest = x[..., :width], x[..., width:]
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
        turned = fn.reshape(fn.stack([a * cos - b * sin, b * cos + a * sin], axis=-1), part.shape)
    else:
        a, b = part[..., : width // 2], part[..., width // 2 :]
        turned = fn.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)
    whole = turned if width == size else fn.concat([turned, rest], axis=-1)
    return _joined(whole) if flat else whole
