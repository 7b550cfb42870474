"""The domain com.microsoft: what ONNX Runtime's optimisers write, but for attention and quantised values."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx import values
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
