"""The domain com.microsoft: attention and rotated positions."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx import values
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
    outputs: Any = (),
    **how: Any,
) -> Any:
    if past_length is not None:
        raise UnsupportedOp("com.microsoft Attention whose past and present share a buffer")
    product = fn.matmul(x, weights)
    if bias is not None:
        product = product + bias
    return attention_of(product, mask, past, bias_of_scores, outputs, **how)


def attention_of(
    product: Any,
    mask: Any,
    past: Any,
    bias_of_scores: Any = None,
    outputs: Any = (),
    num_heads: int = 1,
    unidirectional: int = 0,
    scale: float = 0.0,
    qkv_hidden_sizes: Any = None,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    **how: Any,
) -> Any:
    """Attention, where ``product`` has queries, keys and values in a row."""
    if do_rotary or past_present_share_buffer:
        raise UnsupportedOp("com.microsoft Attention that is rotated, or whose past and present share a buffer")
    width = product.shape[-1] // 3
    sizes = qkv_hidden_sizes or [width] * 3
    ends = [sizes[0], sizes[0] + sizes[1]]
    q, k, v = (
        _heads(part, num_heads)
        for part in (product[..., : ends[0]], product[..., ends[0] : ends[1]], product[..., ends[1] :])
    )
    if past is not None:
        k, v = _behind(past[0], k), _behind(past[1], v)
    result = _joined(_attended(q, k, v, mask, bias_of_scores, scale, bool(unidirectional), mask_filter_value))
    return (result, fn.stack([k, v], axis=0)) if any(outputs[1:]) else result


def _behind(past: Any, new: Any) -> Any:
    """Keys or values [N, H, T, D] behind those of calls before."""
    return fn.concat([fn.astype(past, new.dtype, copy=False), new], axis=2)


def _attended(q: Any, k: Any, v: Any, mask: Any, bias: Any, scale: float, causal: bool, low: float) -> Any:
    """The attention of queries [N, H, L, D] to keys [N, H, T, D]; the last query is that of the last key."""
    rows, columns = q.shape[2], k.shape[2]
    own = _mask(mask, k.shape[0], columns, q.dtype, low)
    if causal:  # these numbers are set, not added: a row of hidden keys alone still sees no later key
        below = fn.less_equal(_at(columns, -1), _at(rows, -2) + (columns - rows))
        lowest = fn.zeros((rows, columns), dtype=q.dtype) + float(ml_dtypes.finfo(q.dtype).min)
        own = fn.where(below, fn.zeros_like(lowest) if own is None else own, lowest)
    if bias is not None:
        own = bias if own is None else own + bias
    return F.scaled_dot_product_attention(q, k, v, attn_mask=own, scale=scale or None)


def _at(count: Any, axis: int) -> Any:
    """0, 1, 2, ... along the last axis or the one before it."""
    return fn.expand_dims(fn.arange(count), axis=0 if axis == -1 else 1)


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
    past_length: Any = None,
    indirection: Any = None,
    num_heads: int = 1,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
    outputs: Any = (),
    **how: Any,
) -> Any:
    if k is None or v is None or q.ndim != 3 or past_length is not None or indirection is not None or any(outputs[3:]):
        raise UnsupportedOp("MultiHeadAttention with packed operands, a buffer for the past, or scores as a result")
    if bias is not None:
        width = q.shape[-1]
        q = q + bias[:width]
        if k.ndim == 3:
            k, v = k + bias[width : 2 * width], v + bias[2 * width :]
    q = _heads(q, num_heads)
    k, v = (x if x.ndim == 4 else _heads(x, num_heads) for x in (k, v))
    if mask is not None and mask.ndim == 1 and mask.shape[0] != k.shape[0]:
        raise UnsupportedOp(f"a key_padding_mask of {mask.shape[0]} numbers for {k.shape[0]} rows")
    if past_key is not None:
        k, v = _behind(past_key, k), _behind(past_value, v)
    elif unidirectional and q.shape[2] != k.shape[2]:  # ONNX Runtime shows each query other keys
        raise UnsupportedOp("MultiHeadAttention that is unidirectional, with other numbers of queries and keys")
    result = _joined(_attended(q, k, v, mask, bias_of_scores, scale, bool(unidirectional), mask_filter_value))
    return (result, k, v)[: max(1, len(outputs))]


@define("GroupQueryAttention", domain=MICROSOFT, host=(6,))
def group_query_attention(
    q: Any,
    k: Any,
    v: Any,
    past_key: Any,
    past_value: Any,
    last_keys: Any,
    total_length: Any,
    cosines: Any = None,
    sines: Any = None,
    positions: Any = None,
    bias_of_scores: Any = None,
    sink: Any = None,
    num_heads: int = 1,
    kv_num_heads: int = 1,
    scale: float = 0.0,
    softcap: float = 0.0,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    smooth_softmax: int = 0,
    outputs: Any = (),
    **how: Any,
) -> Any:
    """Queries in groups that share keys; ``last_keys`` [N] has where the last key of each row stands.

    In a first call, of as many tokens as there are in all, rows are filled up behind; in one with a past the new tokens
    follow each row's own past.
    """
    odd = [name for name in ("qk_output", "k_quant_type", "v_quant_type") if how.get(name) not in (None, 0, "NONE")]
    if odd or any(outputs[3:]):
        raise UnsupportedOp(f"GroupQueryAttention with {', '.join(odd) or 'scores as a result'}")
    if k is None:
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        ends = num_heads * size, (num_heads + kv_num_heads) * size
        q, k, v = q[..., : ends[0]], q[..., ends[0] : ends[1]], q[..., ends[1] :]
    q, k, v = _heads(q, num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    n, length = q.shape[0], q.shape[2]
    total = values.one(total_length)
    is_first = type(total) is type(length) and total == length
    whole = fn.astype(fn.reshape(last_keys, (n,)), "int64") + 1
    past = fn.zeros_like(whole) if is_first else whole - length  # how many keys each row has from before
    own_places = fn.expand_dims(past, axis=1) + _at(length, -1)
    if do_rotary:
        q, k = (
            _rotated(x, own_places if positions is None else positions, cosines, sines, bool(rotary_interleaved))
            for x in (q, k)
        )
    if past_key is not None:
        k, v = (_after(old, new, past, total) for old, new in ((past_key, k), (past_value, v)))
    keys = _at(k.shape[2], -1)
    live = fn.less_equal(keys, fn.expand_dims(own_places, axis=2))
    if local_window_size > 0:
        live = fn.logical_and(live, fn.greater(keys, fn.expand_dims(own_places, axis=2) - local_window_size))
    live = fn.expand_dims(live, axis=1)
    each = num_heads // kv_num_heads
    wide_k, wide_v = (x if each == 1 else fn.repeat(x, each, axis=1) for x in (k, v))
    scores = fn.matmul(q, fn.matrix_transpose(wide_k)) * (scale or 1 / math.sqrt(q.shape[-1]))
    if softcap:
        scores = fn.tanh(scores / softcap) * softcap
    if bias_of_scores is not None:
        scores = scores + bias_of_scores
    scores = fn.where(live, scores, fn.zeros_like(scores) - math.inf)
    if smooth_softmax or sink is not None:
        other = fn.zeros((1, 1, 1, 1), dtype=scores.dtype) if sink is None else fn.reshape(sink, (1, -1, 1, 1))
        column = fn.broadcast_to(other, (n, num_heads, length, 1))
        weights = F.softmax(fn.concat([scores, column], axis=-1), -1)[..., :-1]
    else:
        weights = F.softmax(scores, -1)
    return (_joined(fn.matmul(weights, wide_v)), k, v)[: max(1, len(outputs))]


def _after(old: Any, new: Any, past: Any, total: Any) -> Any:
    """Keys or values of before with the new ones behind the first ``past`` of each row: as many as either needs."""
    room, length = old.shape[2], new.shape[2]
    more = total - room
    if type(more) is not int or more > 0:
        old = fn.concat([old, fn.zeros((*old.shape[:2], more, old.shape[3]), dtype=old.dtype)], axis=2)
    place = fn.subtract(_at(old.shape[2], -1), fn.expand_dims(past, axis=1))  # among the new ones
    fresh = fn.logical_and(fn.greater_equal(place, 0), fn.less(place, length))
    index = fn.clip(place, 0, length - 1)[:, None, :, None]
    chosen = fn.gather(new, 2, fn.broadcast_to(index, (*old.shape[:3], new.shape[3])))
    return fn.where(fresh[:, None, :, None], chosen, fn.where(place[:, None, :, None] < 0, old, fn.zeros_like(old)))


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
    if flat:
        x = _heads(x, num_heads or x.shape[-1] // (rotary_embedding_dim or cosines.shape[-1] * 2))
    if positions.ndim != 2:
        positions = fn.reshape(positions, (1, 1)) + fn.reshape(fn.arange(x.shape[2]), (1, -1))
    turned = _rotated(x, positions, cosines, sines, bool(interleaved), rotary_embedding_dim)
    return _joined(turned) if flat else turned


def _rotated(x: Any, positions: Any, cosines: Any, sines: Any, interleaved: bool, width: int = 0) -> Any:
    """Heads [N, H, L, D] whose pairs among the first ``width`` elements are turned by the angles of their positions."""
    width = width or cosines.shape[-1] * 2
    cos, sin = (fn.expand_dims(fn.take(table, positions, axis=0), axis=1) for table in (cosines, sines))
    part, rest = x[..., :width], x[..., width:]
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
        turned = fn.reshape(fn.stack([a * cos - b * sin, b * cos + a * sin], axis=-1), part.shape)
    else:
        a, b = part[..., : width // 2], part[..., width // 2 :]
        turned = fn.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)
    return turned if width == x.shape[3] else fn.concat([turned, rest], axis=-1)
