"""The families of CUDA kernels, each a function of arrays, with the fewest bytes that it could move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jitgraph as jg

nn = jg.nn.functional


class Family(NamedTuple):
    """A function of tensors, whose sums may go in ``any_order``."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    any_order: bool = False


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    """Numbers around 0."""
    return jg.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).astype(dtype)


def several(count: int, *shape: int, dtype: Any = np.float32) -> tuple[Any, ...]:
    """So many tensors."""
    return tuple(floats(*shape, dtype=dtype) for _ in range(count))


def ints(high: int, *shape: int) -> Any:
    """Numbers below ``high``."""
    return jg.asarray(np.random.default_rng(0).integers(0, high, shape))


def _layer_norm_gradients(x: Any, w: Any, b: Any, ct: Any) -> Any:
    return jg.grad(lambda *given: jg.sum(nn.layer_norm(given[0], (512,), *given[1:]) * ct), argnums=(0, 1, 2))(x, w, b)


def _softmax_gradient(x: Any, ct: Any) -> Any:
    return jg.grad(lambda x: jg.sum(nn.softmax(x, axis=-1) * ct))(x)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return nn.scaled_dot_product_attention(q, k, v, is_causal=True)


def _attention_gradients(q: Any, k: Any, v: Any) -> Any:
    return jg.grad(lambda *given: jg.sum(_attention(*given) ** 2), argnums=(0, 1, 2))(q, k, v)


def _convolution_gradients(x: Any, w: Any) -> Any:
    return jg.grad(lambda x, w: jg.sum(nn.conv2d(x, w, padding=1) ** 2), argnums=(0, 1))(x, w)


def _halves(*shapes: tuple[int, int]) -> tuple[Any, ...]:
    return tuple(floats(*shape, dtype=jg.bfloat16) for shape in shapes)


FAMILIES: dict[str, Callable[[], Family]] = {
    "pointwise chain": lambda: Family(lambda x, y, z: (x * y + z) * 0.5 + x, several(3, 512, 256)),
    "pointwise, bfloat16": lambda: Family(lambda x, y: jg.tanh(x) * y, several(2, 512, 256, dtype=jg.bfloat16)),
    "pointwise, a row": lambda: Family(lambda x, b: nn.gelu(x + b), (floats(256, 512), floats(512))),
    "sums of rows": lambda: Family(lambda x: jg.sum(x, axis=1), (floats(128, 1024),)),
    "sums of rows, any order": lambda: Family(lambda x: jg.sum(x, axis=1), (floats(128, 1024),), any_order=True),
    "sum of all": lambda: Family(lambda x: jg.sum(x), (floats(1 << 17),)),
    "sums of columns": lambda: Family(lambda x: jg.sum(x, axis=0), (floats(1024, 128),)),
    "softmax": lambda: Family(lambda x: nn.softmax(x, axis=-1), (floats(32, 1024),)),
    "softmax, any order": lambda: Family(lambda x: nn.softmax(x, axis=-1), (floats(32, 1024),), any_order=True),
    "gradient of softmax": lambda: Family(_softmax_gradient, several(2, 32, 1024)),
    "layer norm": lambda: Family(
        lambda x, w, b: nn.layer_norm(x, (512,), w, b), (floats(64, 512), floats(512), floats(512))
    ),
    "gradients of layer norm": lambda: Family(
        _layer_norm_gradients, (floats(64, 512), floats(512), floats(512), floats(64, 512))
    ),
    "cross entropy": lambda: Family(lambda x, t: nn.cross_entropy(x, t), (floats(32, 1000), ints(1000, 32))),
    "gather of rows": lambda: Family(lambda x, i: jg.take(x, i, axis=0), (floats(1000, 128), ints(1000, 512))),
    "scatter of rows": lambda: Family(
        lambda w, i, ct: jg.grad(lambda w: jg.sum(jg.take(w, i, axis=0) * ct))(w),
        (floats(500, 64), ints(500, 512), floats(512, 64)),
    ),
    "transpose": lambda: Family(lambda x: jg.permute_dims(x, (1, 0)) * 2, (floats(384, 256),)),
    "cumulative sum": lambda: Family(lambda x: jg.cumulative_sum(x, axis=-1), (floats(64, 512),)),
    "sort": lambda: Family(lambda x: jg.sort(x, axis=-1), (floats(8, 1024),)),
    "product, float32": lambda: Family(lambda a, b: nn.relu(a @ b), (floats(128, 64), floats(64, 128))),
    "product, bfloat16, any order": lambda: Family(
        lambda a, b: nn.relu(a @ b), _halves((256, 128), (128, 256)), any_order=True
    ),
    "convolution": lambda: Family(
        lambda x, w: nn.conv2d(x, w, padding=1), (floats(1, 16, 16, 16), floats(16, 16, 3, 3))
    ),
    "gradients of convolution": lambda: Family(_convolution_gradients, (floats(1, 8, 8, 8), floats(8, 8, 3, 3))),
    "attention, causal": lambda: Family(_attention, several(3, 1, 2, 64, 32)),
    "gradients of attention": lambda: Family(_attention_gradients, several(3, 1, 2, 64, 32)),
}
