"""The domain com.microsoft: what ONNX Runtime's optimisers write."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx import values
from jitgraph.onnx.ops import quantization
from jitgraph.onnx.registry import MICROSOFT, define
from jitgraph.tensor import functions as fn


def _transposed(x: Any, batch: int, last: int) -> Any:
    """``batch`` moves the first axis before the last, then ``last`` exchanges the last two; vectors stay."""
    if batch and x.ndim > 2:
        x = fn.moveaxis(x, 0, -2)
    return fn.matrix_transpose(x) if last and x.ndim > 1 else x


@define("FusedMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Any,
    b: Any,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX Runtime's names
    transB: int = 0,  # noqa: N803
    transBatchA: int = 0,  # noqa: N803
    transBatchB: int = 0,  # noqa: N803
) -> Any:
    product = fn.matmul(_transposed(a, transBatchA, transA), _transposed(b, transBatchB, transB))
    return product if alpha == 1 else product * alpha


_ACTIVATIONS: dict[str, Any] = {
    "": lambda x: x,
    "Relu": fn.relu,
    "Sigmoid": fn.sigmoid,
    "Tanh": fn.tanh,
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    "Clip": lambda x, low=-math.inf, high=math.inf: fn.clip(x, low, high),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: fn.clip(x * alpha + beta, 0, 1),
}


_PARAMETERS = {"": (0,), "Relu": (0,), "Sigmoid": (0,), "Tanh": (0,), "LeakyRelu": (0, 1), "HardSigmoid": (0, 2)}
"""The numbers of parameters that FusedGemm's activations take."""


def _activated(x: Any, name: str, parameters: Any = None) -> Any:
    if name not in _ACTIVATIONS:
        raise UnsupportedOp(f"the activation {name!r}")
    return _ACTIVATIONS[name](x, *(parameters or ()))


@define("FusedGemm", domain=MICROSOFT)
def fused_gemm(a: Any, b: Any, c: Any = None, activation: str = "", **how: Any) -> Any:
    left = fn.matrix_transpose(a) if how.get("transA") else a
    right = fn.matrix_transpose(b) if how.get("transB") else b
    result = fn.matmul(left, right) * how.get("alpha", 1.0)
    if c is not None:
        result = result + c * how.get("beta", 1.0)
    parameters = [how[name] for name in ("activation_alpha", "activation_beta") if name in how]
    if activation not in _PARAMETERS or len(parameters) not in _PARAMETERS[activation] or "activation_gamma" in how:
        raise UnsupportedOp(f"FusedGemm with the activation {activation!r} and {sorted(how)}")
    return _activated(result, activation, parameters)


@define("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Any, w: Any, bias: Any = None, z: Any = None, activation: str = "", activation_params: Any = None, **how: Any
) -> Any:
    from jitgraph.onnx.ops.convolution import conv

    result = conv(x, w, bias, **how)
    return _activated(result if z is None else result + z, activation, activation_params)


@define("Gelu", domain=MICROSOFT)
def gelu(x: Any) -> Any:
    return F.gelu(x)


@define("BiasGelu", domain=MICROSOFT)
def bias_gelu(x: Any, bias: Any) -> Any:
    return F.gelu(x + bias)


@define("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Any, bias: Any = None) -> Any:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@define("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Any, alpha: float = 1.702) -> Any:
    return x * fn.sigmoid(x * alpha)


@define("SimplifiedLayerNormalization")
def simplified_layer_norm(
    x: Any, scale: Any, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: Any = ()
) -> Any:
    """ONNX Runtime has it in the default domain: RMSNormalization, with the inverse root as second output."""
    axes = tuple(range(axis + (x.ndim if axis < 0 else 0), x.ndim))
    wide = fn.astype(x, values.dtype_of_number(stash_type), copy=False)
    inverse = _inverse_rms(wide, axes, epsilon)
    return (fn.astype(wide * inverse, x.dtype, copy=False) * scale, inverse)[: max(1, len(outputs))]


def _inverse_rms(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    return fn.rsqrt(fn.mean(x * x, axis=axes, keepdims=True) + epsilon)


def _refuse_statistics(name: str, outputs: Any) -> None:
    if any(outputs[1:3]):
        raise UnsupportedOp(f"{name} with the outputs mean and inv_std_var")


@define("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, epsilon: float = 1e-12, outputs: Any = ()
) -> Any:
    _refuse_statistics("SkipLayerNormalization", outputs)
    total = x + skip if bias is None else x + skip + bias
    result = F.layer_norm(total, gamma.shape[0], gamma, beta, epsilon)
    return (result, None, None, total)[: max(1, len(outputs))]


@define("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_norm(
    x: Any, skip: Any, gamma: Any, bias: Any = None, epsilon: float = 1e-5, outputs: Any = ()
) -> Any:
    _refuse_statistics("SkipSimplifiedLayerNormalization", outputs)
    total = x + skip if bias is None else x + skip + bias
    return (total * _inverse_rms(total, (-1,), epsilon) * gamma, None, None, total)[: max(1, len(outputs))]


@define("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(
    ids: Any,
    segments: Any,
    words: Any,
    positions: Any,
    segment_table: Any = None,
    gamma: Any = None,
    beta: Any = None,
    mask: Any = None,
    position_ids: Any = None,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
    outputs: Any = (),
) -> Any:
    length = ids.shape[1]
    places = fn.arange(length) if position_ids is None else position_ids
    total = fn.take(words, ids, axis=0) + fn.take(positions, places, axis=0)
    if segments is not None and segment_table is not None:
        total = total + fn.take(segment_table, segments, axis=0)
    result = F.layer_norm(total, gamma.shape[0], gamma, beta, epsilon)
    index = fn.zeros((ids.shape[0],), dtype="int32") if mask is None else _ones_of_rows(mask)
    return (result, index, total)[: max(1, len(outputs))]


def _ones_of_rows(mask: Any) -> Any:
    return fn.sum(fn.astype(fn.equal(mask, 1), "int32"), axis=1, dtype="int32")


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


@define("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    a: Any,
    b: Any,
    scales: Any,
    zero_points: Any = None,
    group: Any = None,
    bias: Any = None,
    K: int = 0,  # noqa: N803 - ONNX Runtime's names
    N: int = 0,  # noqa: N803
    bits: int = 4,
    block_size: int = 32,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Any:
    if bits not in (2, 4, 8) or group is not None or weight_prepacked:
        raise UnsupportedOp(f"MatMulNBits with {bits} bits, with groups, or with packed weights")
    blocks = -(-K // block_size)
    whole = _unpacked(fn.reshape(b, (N, blocks, -1)), bits)
    wide = fn.astype(whole, a.dtype)
    if zero_points is None:
        point: Any = float(1 << (bits - 1))
    elif zero_points.dtype == np.uint8:
        point = _unpacked(fn.reshape(zero_points, (N, -1)), bits)[:, :blocks]
        point = fn.reshape(fn.astype(point, a.dtype), (N, blocks, 1))
    else:
        point = fn.reshape(zero_points, (N, blocks, 1))
    own = (wide - point) * fn.reshape(scales, (N, blocks, 1))
    weights = fn.reshape(own, (N, -1))[:, :K]
    result = fn.matmul(a, fn.matrix_transpose(weights))
    return result if bias is None else result + bias


def _unpacked(packed: Any, bits: int) -> Any:
    """Numbers of few bits, the lowest first, along the last axis."""
    if bits == 8:
        return packed
    mask = (1 << bits) - 1
    parts = [fn.bitwise_and(fn.bitwise_right_shift(packed, shift), mask) for shift in range(0, 8, bits)]
    return fn.reshape(fn.stack(parts, axis=-1), (*packed.shape[:-1], -1))


@define("QuantizeLinear", domain=MICROSOFT, raw=True)
def quantize(x: Any, scale: Any, zero_point: Any = None, axis: int = 1) -> Any:
    return quantization.quantize(x, scale, zero_point, axis)


@define("DequantizeLinear", domain=MICROSOFT, raw=True)
def dequantize(x: Any, scale: Any, zero_point: Any = None, axis: int = 1) -> Any:
    return quantization.dequantize(x, scale, zero_point, axis)


@define("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
    own, scale, zero = quantization.dynamic_quantize(a)
    total = fn.astype(quantization.matmul_integer(own, b, zero, b_zero), np.float32) * (scale * b_scale)
    return total if bias is None else total + bias


@define("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Any:
    total = fn.astype(quantization.matmul_integer(a, b, a_zero, b_zero), np.float32) * (a_scale * b_scale)
    return total if bias is None else total + bias
