"""The operators of com.microsoft: equal to their formulas in NumPy, and to ONNX Runtime where it is installed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import UnsupportedOp

pytest.importorskip("onnx")
from onnx import helper

RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Any:
    return RNG.integers(low, high, shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """A node, its operands (None for one left out), and its results in NumPy ("" in outputs for one left out)."""

    op: str
    operands: tuple[Any, ...]
    expected: Callable[..., Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("y",)
    domain: str = "com.microsoft"
    opset: int = 17

    def __str__(self) -> str:
        shapes = "_".join("x".join(map(str, a.shape)) for a in self.operands if a is not None)
        return "-".join([self.op, shapes, *(f"{k}={v}" for k, v in self.attributes.items())])

    def named(self) -> dict[str, Any]:
        return {f"x{i}": array for i, array in enumerate(self.operands) if array is not None}

    def want(self) -> list[Any]:
        result = self.expected(*self.operands, **self.attributes)
        return [result] if isinstance(result, np.ndarray) else list(result)

    def model(self) -> Any:
        names = [f"x{i}" if array is not None else "" for i, array in enumerate(self.operands)]
        node = helper.make_node(self.op, names, list(self.outputs), domain=self.domain, **self.attributes)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.named().items()
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs if name]
        graph = helper.make_graph([node], "graph", inputs, outputs)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def swapped(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Any] = {
    "": lambda x: x,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "LeakyRelu": lambda x, alpha=0.01: np.where(x < 0, x * np.float32(alpha), x),
    "Clip": lambda x, low, high: np.clip(x, np.float32(low), np.float32(high)),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: np.clip(x * np.float32(alpha) + np.float32(beta), 0, 1),
}


def fused_matmul(a: Any, b: Any, alpha: float = 1.0, **how: Any) -> Any:
    def transposed(x: Any, batch: int, last: int) -> Any:
        x = np.moveaxis(x, 0, -2) if batch else x
        return swapped(x) if last and x.ndim > 1 else x

    left = transposed(a, how.get("transBatchA", 0), how.get("transA", 0))
    right = transposed(b, how.get("transBatchB", 0), how.get("transB", 0))
    return np.float32(alpha) * (left @ right)


def fused_gemm(
    a: Any, b: Any, c: Any = None, activation: str = "", alpha: float = 1.0, beta: float = 1.0, **how: Any
) -> Any:
    result = np.float32(alpha) * ((a.T if how.get("transA") else a) @ (b.T if how.get("transB") else b))
    result = result if c is None else result + np.float32(beta) * c
    numbers = [how[name] for name in ("activation_alpha", "activation_beta") if name in how]
    return ACTIVATIONS[activation](result, *numbers)


def fused_conv(
    x: Any, w: Any, bias: Any = None, z: Any = None, activation: str = "", activation_params: Any = (), **how: Any
) -> Any:
    top, left, bottom, right = how.get("pads", (0, 0, 0, 0))
    x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    step = how.get("strides", (1, 1))
    result = np.einsum("ncijhw,ochw->noij", windows[:, :, :: step[0], :: step[1]], w)
    result = result if bias is None else result + bias[:, None, None]
    return ACTIVATIONS[activation](result if z is None else result + z, *activation_params)


def gelu(x: Any, bias: Any = None) -> Any:
    x = x if bias is None else x + bias
    return (x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))).astype(np.float32)


def fast_gelu(x: Any, bias: Any = None) -> Any:
    x = x if bias is None else x + bias
    return x * np.float32(0.5) * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)))


def quick_gelu(x: Any, alpha: float = 1.702) -> Any:
    return x * sigmoid(x * np.float32(alpha))


def layer_norm(x: Any, scale: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    result = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + np.float32(epsilon)) * scale
    return result if bias is None else result + bias


def rms_norm(x: Any, scale: Any, axis: int = -1, epsilon: float = 1e-5) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x / np.sqrt((x**2).mean(axes, keepdims=True) + np.float32(epsilon)) * scale


def skip_layer_norm(x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, epsilon: float = 1e-12) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return layer_norm(total, gamma, beta, epsilon=epsilon), total


def skip_rms_norm(x: Any, skip: Any, gamma: Any, bias: Any = None, epsilon: float = 1e-5) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return rms_norm(total, gamma, epsilon=epsilon), total


def embed(
    ids: Any,
    segments: Any,
    words: Any,
    positions: Any,
    table: Any,
    gamma: Any,
    beta: Any,
    mask: Any = None,
    position_ids: Any = None,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Any:
    total = words[ids] + positions[np.arange(ids.shape[1]) if position_ids is None else position_ids]
    total = total if segments is None else total + table[segments]
    counts = np.zeros(len(ids), np.int32) if mask is None else (mask == 1).sum(1, dtype=np.int32)
    return layer_norm(total, gamma, beta, epsilon=epsilon), counts, total


def attended(
    q: Any, k: Any, v: Any, heads: int, mask: Any, bias: Any, scale: float, causal: int, low: float = -10000.0
) -> Any:
    """Scaled dot-product attention, with ONNX Runtime's masks: additive, of a finite number."""

    def split(x: Any) -> Any:
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    n, length, _ = q.shape
    keys = k.shape[1]
    hidden = np.zeros((n, 1, length, keys), np.float32)
    if mask is not None:
        if mask.ndim == 1:
            at = np.arange(keys)
            live = (at < mask[:n, None]) & (at >= (mask[n:, None] if len(mask) == 2 * n else 0))
        else:
            live = mask > 0
        hidden = hidden + np.where(live.reshape(n, 1, -1, keys), np.float32(0), np.float32(low))
    if causal:
        hidden = np.where(np.tril(np.ones((length, keys), bool)), hidden, np.finfo(np.float32).min)
    hidden = hidden if bias is None else hidden + bias
    scores = split(q) @ swapped(split(k)) * np.float32(scale or 1 / math.sqrt(q.shape[2] // heads)) + hidden
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return (weights @ split(v)).transpose(0, 2, 1, 3).reshape(n, length, -1).astype(np.float32)


def attention(x: Any, weights: Any, bias: Any, mask: Any = None, past: Any = None, own: Any = None, **how: Any) -> Any:
    product = x @ weights + bias
    sizes = how.get("qkv_hidden_sizes", [product.shape[-1] // 3] * 3)
    q, k, v = np.split(product, np.cumsum(sizes)[:2], -1)
    low = how.get("mask_filter_value", -10000.0)
    return attended(q, k, v, how["num_heads"], mask, own, how.get("scale", 0), how.get("unidirectional", 0), low)


def multi_head_attention(
    q: Any, k: Any, v: Any, bias: Any = None, mask: Any = None, own: Any = None, **how: Any
) -> Any:
    if bias is not None:
        parts = np.split(bias, np.cumsum([q.shape[-1], k.shape[-1]]))
        q, k, v = q + parts[0], k + parts[1], v + parts[2]
    low = how.get("mask_filter_value", -10000.0)
    return attended(q, k, v, how["num_heads"], mask, own, how.get("scale", 0), how.get("unidirectional", 0), low)


def rotary(x: Any, positions: Any, cosines: Any, sines: Any, **how: Any) -> Any:
    shape = x.shape
    if x.ndim == 3:
        x = x.reshape(*shape[:2], how.get("num_heads") or shape[2] // (2 * cosines.shape[1]), -1).transpose(0, 2, 1, 3)
    at = positions if positions.ndim == 2 else np.broadcast_to(positions + np.arange(x.shape[2]), (len(x), x.shape[2]))
    cos, sin = cosines[at][:, None], sines[at][:, None]
    result = x.copy()
    half = cosines.shape[1]
    first, second = (
        (np.s_[..., 0 : 2 * half : 2], np.s_[..., 1 : 2 * half : 2])
        if how.get("interleaved")
        else (np.s_[..., :half], np.s_[..., half : 2 * half])
    )
    result[first] = x[first] * cos - x[second] * sin
    result[second] = x[second] * cos + x[first] * sin
    return result if len(shape) == 4 else result.transpose(0, 2, 1, 3).reshape(shape)


def unpacked(x: Any, bits: int) -> Any:
    parts = [x >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*x.shape[:-1], -1)


def matmul_n_bits(
    a: Any, b: Any, scales: Any, zero: Any = None, group: Any = None, bias: Any = None, **how: Any
) -> Any:
    bits, wide = how["bits"], how["N"]
    whole = unpacked(b, bits).astype(np.float32)
    blocks = whole.shape[1]
    if zero is None:
        point: Any = np.float32(1 << (bits - 1))
    elif zero.dtype == np.uint8:
        point = unpacked(zero.reshape(wide, -1), bits)[:, :blocks, None].astype(np.float32)
    else:
        point = zero.reshape(wide, blocks, 1)
    weights = ((whole - point) * scales.reshape(wide, blocks, 1)).reshape(wide, -1)[:, : how["K"]]
    return a @ weights.T if bias is None else a @ weights.T + bias


def shaped(x: Any, like: Any, axis: int) -> Any:
    return x if x.ndim == 0 else x.reshape([-1 if i == axis % like.ndim else 1 for i in range(like.ndim)])


def quantized(x: Any, scale: Any, zero: Any, axis: int = 1) -> Any:
    limits = np.iinfo(zero.dtype)
    whole = np.rint(x / shaped(scale, x, axis)) + shaped(zero, x, axis)
    return np.clip(whole, limits.min, limits.max).astype(zero.dtype)


def dequantized(x: Any, scale: Any, zero: Any, axis: int = 1) -> Any:
    return (x.astype(np.int32) - shaped(zero, x, axis).astype(np.int32)).astype(np.float32) * shaped(scale, x, axis)


def integer_product(a: Any, b: Any, a_zero: Any, b_zero: Any) -> Any:
    a = a.astype(np.int32) - (0 if a_zero is None else a_zero.astype(np.int32))
    return (a @ (b.astype(np.int32) - (0 if b_zero is None else b_zero.astype(np.int32)))).astype(np.float32)


def integer_to_float(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Any:
    result = integer_product(a, b, a_zero, b_zero) * (a_scale * b_scale)
    return result if bias is None else result + bias


def dynamic_matmul(a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
    low, high = min(a.min(), np.float32(0)), max(a.max(), np.float32(0))
    scale = (high - low) / np.float32(255) or np.float32(1)
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    return integer_to_float(quantized(a, np.asarray(scale), np.asarray(zero)), b, scale, b_scale, zero, b_zero, bias)


def packed(n: int, blocks: int, size: int, bits: int) -> Any:
    return integers(0, 256, n, blocks, size * bits // 8, dtype=np.uint8)


U8, I8 = np.uint8, np.int8
X, GAMMA, BETA, BIAS = normal(2, 5, 8), normal(8), normal(8), normal(8)
IDS, SEGMENTS = integers(0, 11, 2, 5), integers(0, 2, 2, 5)
WORDS, POSITIONS, TABLE = normal(11, 8), normal(6, 8), normal(2, 8)
LENGTHS = np.array([3, 5], np.int32)
KEYS = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32)
PADDED = np.array([[0, 0, 1, 1, 1], [0, 1, 0, 1, 1]], np.int32)
LOWEST = float(np.finfo(np.float32).min)
SQUARE = integers(0, 2, 2, 5, 5) | np.eye(5, dtype=np.int32)
QKV, QKV_BIAS = normal(8, 24), normal(24)
Q, K, V = normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8)
ANGLES = RNG.uniform(0, 6, (9, 4)).astype(np.float32)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
SCALE, ZERO = np.asarray(0.03, np.float32), np.asarray(120, U8)

CASES = [
    Case("FusedMatMul", (normal(3, 4), normal(4, 5)), fused_matmul, {"alpha": 0.5}),
    Case("FusedMatMul", (normal(2, 4, 3), normal(2, 5, 4)), fused_matmul, {"transA": 1, "transB": 1, "alpha": 2.0}),
    Case("FusedMatMul", (normal(2, 1, 3, 4), normal(6, 5, 4)), fused_matmul, {"transB": 1}),
    Case("FusedMatMul", (normal(4), normal(4, 5)), fused_matmul, {"transA": 1}),
    Case("FusedMatMul", (normal(3, 4), normal(4)), fused_matmul, {"transB": 1}),
    Case("FusedMatMul", (normal(3, 2, 4), normal(2, 4, 5)), fused_matmul, {"transBatchA": 1}),
    Case(
        "FusedMatMul",
        (normal(4, 2, 3), normal(5, 2, 4)),
        fused_matmul,
        {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1},
    ),
    Case(
        "FusedGemm",
        (normal(3, 4), normal(4, 5), normal(5)),
        fused_gemm,
        {"activation": "Relu", "alpha": 0.5, "beta": 2.0},
    ),
    Case("FusedGemm", (normal(4, 3), normal(5, 4)), fused_gemm, {"activation": "Tanh", "transA": 1, "transB": 1}),
    Case(
        "FusedGemm",
        (normal(3, 4), normal(4, 5), normal(3, 1)),
        fused_gemm,
        {"activation": "LeakyRelu", "activation_alpha": 0.3},
    ),
    Case(
        "FusedGemm",
        (normal(3, 4), normal(4, 5), normal(5)),
        fused_gemm,
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.1},
    ),
    Case("FusedGemm", (normal(3, 4), normal(4, 5), normal(5)), fused_gemm, {"activation": "Sigmoid"}),
    *[
        Case("FusedConv", (normal(2, 3, 6, 7), normal(4, 3, 3, 2), normal(4)), fused_conv, {"activation": name, **how})
        for name, how in [
            ("Relu", {"pads": [1, 0, 1, 1], "strides": [2, 1]}),
            ("Tanh", {}),
            ("Sigmoid", {}),
            ("LeakyRelu", {"activation_params": [0.2]}),
            ("Clip", {"activation_params": [-0.5, 1.5]}),
            ("HardSigmoid", {"activation_params": [0.3, 0.4]}),
        ]
    ],
    Case(
        "FusedConv",
        (normal(1, 2, 4, 4), normal(3, 2, 3, 3), normal(3), normal(1, 3, 2, 2)),
        fused_conv,
        {"activation": "Relu"},
    ),
    Case("Gelu", (X,), gelu),
    Case("BiasGelu", (X, BIAS), gelu),
    Case("FastGelu", (X,), fast_gelu),
    Case("FastGelu", (X, BIAS), fast_gelu),
    Case("QuickGelu", (X,), quick_gelu),
    Case("QuickGelu", (X,), quick_gelu, {"alpha": 1.0}),
    Case("SimplifiedLayerNormalization", (X, GAMMA), rms_norm, {"epsilon": 0.1}, domain=""),
    Case("LayerNormalization", (X, GAMMA, BETA), layer_norm, {"epsilon": 0.1}, domain="", opset=12),
    Case("SimplifiedLayerNormalization", (X, normal(5, 8)), rms_norm, {"axis": 1}, domain=""),
    *[
        Case("SkipLayerNormalization", operands, skip_layer_norm, how, ("y", "", "", "total"))
        for operands, how in [
            ((X, normal(2, 5, 8), GAMMA), {}),
            ((X, normal(2, 5, 8), GAMMA, BETA, BIAS), {"epsilon": 0.1}),
            ((X, normal(5, 8), GAMMA, BETA), {}),
            ((X, normal(1, 5, 8), GAMMA, None, BIAS), {}),
        ]
    ],
    *[
        Case("SkipSimplifiedLayerNormalization", operands, skip_rms_norm, how, ("y", "", "", "total"))
        for operands, how in [
            ((X, normal(2, 5, 8), GAMMA), {"epsilon": 1e-5}),
            ((X, normal(5, 8), GAMMA, BIAS), {"epsilon": 0.1}),
            ((X, normal(2, 5, 8), GAMMA), {}),
        ]
    ],
    *[
        Case("EmbedLayerNormalization", operands, embed, {"epsilon": 1e-3}, ("y", "counts", "total"))
        for operands in [
            (IDS, SEGMENTS, WORDS, POSITIONS, TABLE, GAMMA, BETA, KEYS),
            (IDS, SEGMENTS, WORDS, POSITIONS, TABLE, GAMMA, BETA),
            (IDS, SEGMENTS, WORDS, POSITIONS, TABLE, GAMMA, BETA, 2 * KEYS - 1),
            (IDS, None, WORDS, POSITIONS, None, GAMMA, BETA, KEYS),
            (IDS, SEGMENTS, WORDS, POSITIONS, TABLE, GAMMA, BETA, KEYS, integers(0, 6, 2, 5)),
            (IDS, SEGMENTS, WORDS, POSITIONS, TABLE, GAMMA, BETA, None, integers(0, 6, 1, 5)),
        ]
    ],
    *[
        Case("Attention", (X, QKV, QKV_BIAS, mask, None, own), attention, {"num_heads": 2, **how})
        for mask, own, how in [
            (None, None, {}),
            (None, None, {"unidirectional": 1}),
            (None, None, {"scale": 0.3}),
            (LENGTHS, None, {}),
            (np.array([3, 5, 1, 0], np.int32), None, {}),
            (KEYS, None, {}),
            (KEYS, None, {"unidirectional": 1}),
            (KEYS, None, {"mask_filter_value": -1.0}),
            (PADDED, None, {"unidirectional": 1}),
            (PADDED, None, {"unidirectional": 1, "mask_filter_value": -3.4e38}),
            (PADDED, None, {"unidirectional": 1, "mask_filter_value": LOWEST}),
            (PADDED, normal(2, 2, 5, 5), {"unidirectional": 1, "mask_filter_value": LOWEST}),
            (SQUARE, None, {}),
            (1 - 2 * KEYS, None, {}),
            (np.zeros((2, 5), np.int32), None, {}),
            (None, normal(2, 2, 5, 5), {}),
            (KEYS, normal(1, 2, 5, 5), {}),
        ]
    ],
    Case("Attention", (X, normal(8, 20), normal(20)), attention, {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]}),
    *[
        Case("MultiHeadAttention", (Q, K, V, bias, mask, own), multi_head_attention, {"num_heads": 2, **how})
        for bias, mask, own, how in [
            (None, None, None, {}),
            (QKV_BIAS, None, None, {"scale": 0.4}),
            (None, LENGTHS, None, {}),
            (None, KEYS, None, {}),
            (None, KEYS, None, {"mask_filter_value": -1.0}),
            (None, integers(0, 2, 2, 3, 5) | np.eye(3, 5, dtype=np.int32), None, {}),
            (None, None, normal(1, 2, 3, 5), {}),
            (None, None, normal(2, 2, 3, 5), {}),
            (None, None, normal(2, 1, 3, 5), {}),
        ]
    ],
    Case("MultiHeadAttention", (X, K, V), multi_head_attention, {"num_heads": 2, "unidirectional": 1}),
    Case("MultiHeadAttention", (Q, K, normal(2, 5, 4), normal(20)), multi_head_attention, {"num_heads": 2}),
    *[
        Case("RotaryEmbedding", (x, positions, COS, SIN), rotary, how)
        for x, positions, how in [
            (normal(2, 5, 16), integers(0, 9, 2, 5, dtype=np.int64), {}),
            (normal(2, 5, 16), integers(0, 9, 2, 5, dtype=np.int64), {"interleaved": 1}),
            (normal(2, 3, 5, 8), integers(0, 9, 2, 5, dtype=np.int64), {}),
            (normal(2, 3, 5, 8), np.array([2]), {"interleaved": 1}),
            (normal(2, 5, 24), integers(0, 9, 2, 5, dtype=np.int64), {"rotary_embedding_dim": 8, "num_heads": 2}),
            (normal(2, 3, 5, 8), np.array([1]), {"scale": 2.0}),
        ]
    ],
    *[
        Case(
            "MatMulNBits",
            (normal(3, k), packed(4, blocks, 16, bits), normal(4 * blocks), *rest),
            matmul_n_bits,
            {"K": k, "N": 4, "bits": bits, "block_size": 16},
        )
        for k, blocks, bits, rest in [
            (32, 2, 4, ()),
            (48, 3, 4, (packed(4, 1, 4, 4).reshape(-1),)),
            (40, 3, 4, ()),
            (32, 2, 8, ()),
            (48, 3, 8, (packed(4, 1, 3, 8).reshape(-1),)),
            (48, 3, 2, (packed(4, 1, 4, 2).reshape(-1),)),
            (48, 3, 4, (normal(12) + 8,)),
            (32, 2, 4, (None, None, normal(4))),
        ]
    ],
    Case(
        "MatMulNBits",
        (normal(2, 3, 32), packed(4, 2, 16, 4), normal(8)),
        matmul_n_bits,
        {"K": 32, "N": 4, "bits": 4, "block_size": 16},
    ),
    Case("QuantizeLinear", (normal(3, 4), SCALE, ZERO), quantized),
    Case("QuantizeLinear", (normal(3, 4), np.abs(normal(4)) + 0.01, integers(0, 200, 4, dtype=U8)), quantized),
    Case(
        "QuantizeLinear", (normal(3, 4), np.abs(normal(3)) + 0.01, integers(-9, 9, 3, dtype=I8)), quantized, {"axis": 0}
    ),
    Case("QuantizeLinear", (normal(3, 4), np.asarray(0.001, np.float32), np.asarray(5, np.int16)), quantized),
    Case("DequantizeLinear", (integers(0, 256, 3, 4, dtype=U8), SCALE, ZERO), dequantized),
    Case("DequantizeLinear", (integers(0, 256, 3, 4, dtype=U8), normal(4), integers(0, 200, 4, dtype=U8)), dequantized),
    Case(
        "DequantizeLinear",
        (integers(-99, 99, 3, 4, dtype=I8), normal(3), integers(-9, 9, 3, dtype=I8)),
        dequantized,
        {"axis": 0},
    ),
    *[
        Case("DynamicQuantizeMatMul", operands, dynamic_matmul)
        for operands in [
            (normal(3, 4), integers(0, 256, 4, 5, dtype=U8), SCALE, ZERO),
            (normal(3, 4), integers(-99, 99, 4, 5, dtype=I8), normal(5), integers(-9, 9, 5, dtype=I8), normal(5)),
            (normal(2, 3, 4), integers(-99, 99, 4, 5, dtype=I8), SCALE),
            (np.zeros((3, 4), np.float32), integers(-99, 99, 4, 5, dtype=I8), SCALE),
        ]
    ],
    *[
        Case("MatMulIntegerToFloat", (integers(0, 256, 3, 4, dtype=U8), *operands), integer_to_float)
        for operands in [
            (integers(0, 256, 4, 5, dtype=U8), SCALE, SCALE, ZERO, ZERO),
            (integers(-99, 99, 4, 5, dtype=I8), SCALE, normal(5), ZERO, integers(-9, 9, 5, dtype=I8), normal(5)),
            (integers(-99, 99, 4, 5, dtype=I8), SCALE, normal(5)),
        ]
    ],
]


def agree(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def by_jitgraph(case: Case) -> list[Any]:
    result = jg.onnx.load(case.model())(**case.named())
    return [result] if not isinstance(result, (list, tuple)) else list(result)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator_equals_its_formula(case: Case) -> None:
    for got, want in zip(by_jitgraph(case), case.want(), strict=True):
        agree(got, want)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_formula_equals_onnx_runtime(case: Case) -> None:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(case.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    for got, want in zip(session.run(None, case.named()), case.want(), strict=True):
        agree(got, want)


REFUSED = [
    Case("MultiHeadAttention", (Q, K, V), multi_head_attention, {"num_heads": 2, "unidirectional": 1}),
    Case("Attention", (X, QKV, QKV_BIAS), attention, {"num_heads": 2, "do_rotary": 1}),
    Case("Attention", (X, QKV, QKV_BIAS, np.arange(8, dtype=np.int32)), attention, {"num_heads": 2}),
    Case("MultiHeadAttention", (Q, K, V, None, np.arange(4, dtype=np.int32)), multi_head_attention, {"num_heads": 2}),
    Case("RotaryEmbedding", (normal(2, 5, 16), np.array([0]), COS, SIN), rotary, {"is_packed_batching": 1}),
    Case("FusedGemm", (normal(3, 4), normal(4, 5)), fused_gemm, {"activation": "Elu", "activation_alpha": 0.5}),
    Case("FusedGemm", (normal(3, 4), normal(4, 5)), fused_gemm, {"activation": "HardSigmoid", "activation_alpha": 0.5}),
    Case("SkipLayerNormalization", (X, X, GAMMA), skip_layer_norm, {}, ("y", "mean")),
    Case("SkipSimplifiedLayerNormalization", (X, X, GAMMA), skip_rms_norm, {}, ("y", "", "inverse")),
    Case(
        "MatMulNBits",
        (normal(3, 32), packed(4, 2, 16, 4), normal(8)),
        matmul_n_bits,
        {"K": 32, "N": 4, "bits": 4, "block_size": 16, "weight_prepacked": 1},
    ),
    Case("LayerNormalization", (X, GAMMA, BETA), layer_norm),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_not_computed_is_refused(case: Case) -> None:
    with pytest.raises(UnsupportedOp):
        jg.onnx.load(case.model())(**case.named())
