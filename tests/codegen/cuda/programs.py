"""Functions that give every kind of launch: rows of all lengths, parts, columns, shared memory, tiles, checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg
from jitgraph.ir.graph import Graph

nn = jg.nn.functional
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    """Numbers around 0."""
    return jg.asarray((_rng().standard_normal(shape) * 2).astype(dtype))


def ints(low: int, high: int, *shape: int) -> Any:
    """Numbers from ``low``, below ``high``."""
    return jg.asarray(_rng().integers(low, high, shape))


PROGRAMS: dict[str, Program] = {
    "chain": (lambda x, b: jg.where(x > 0, jg.tanh(x * 2 + b) * jg.exp(-x), 0.0), (floats(37, 53), floats(53))),
    "softmax_of_300": (lambda x: nn.softmax(x, axis=-1), (floats(9, 300),)),
    "softmax_of_5000": (lambda x: nn.softmax(x, axis=-1), (floats(2, 5000),)),
    "softmax_of_8": (lambda x: nn.softmax(x, axis=-1), (floats(30, 8),)),
    "softmax_of_one_row": (lambda x: nn.softmax(x, axis=-1), (floats(3000),)),
    "softmax_down_columns": (lambda x: nn.softmax(x, axis=0), (floats(77, 40),)),
    "layer_norm": (
        lambda x, w, b: nn.layer_norm(x, (200,), w, b),
        (floats(7, 200), floats(200), floats(200)),
    ),
    "gradient_of_layer_norm": (
        lambda x, w: jg.grad(lambda x, w: jg.sum(nn.layer_norm(x, (200,), w) ** 2), argnums=(0, 1))(x, w),
        (floats(70, 200), floats(200)),
    ),
    "rows_in_parts": (lambda x: jg.sum(x, axis=1), (floats(9, 21000),)),
    "rows_of_float64": (lambda x: jg.sum(x, axis=1), (floats(70, 4097, dtype=np.float64),)),
    "rows_of_two_chunks": (lambda x: jg.sum(x, axis=1), (floats(70, 2500),)),
    "sum_of_all": (lambda x: jg.sum(x), (floats(100001),)),
    "columns_in_parts": (lambda x: jg.sum(x, axis=0), (floats(3000, 33),)),
    "outer_and_inner_axes": (lambda x: jg.sum(x, axis=(0, 2)), (floats(20, 5, 1100),)),
    "greatest_of_all": (lambda x: jg.max(x), (floats(40000),)),
    "argmax_in_parts": (lambda x: jg.argmax(x, axis=-1), (floats(3, 30001),)),
    "mean_of_bfloat16": (lambda x: jg.mean(x.astype(jg.bfloat16), axis=-1), (floats(4, 5000),)),
    "sort": (lambda x: jg.sort(x, axis=-1), (floats(3, 700),)),
    "argsort": (lambda x: jg.argsort(x, axis=-1), (floats(3, 200),)),
    "gather_and_sum": (lambda x, i: jg.sum(jg.take(x, i, axis=1), axis=1), (floats(6, 500), ints(-500, 500, 300))),
    "gradient_of_a_gather": (
        lambda w, i: jg.grad(lambda w: jg.sum(jg.take(w, i, axis=0) ** 2))(w),
        (floats(10, 8), ints(0, 3, 5)),
    ),
    "cross_entropy": (lambda x, t: nn.cross_entropy(x, t), (floats(33, 1000), ints(0, 1000, 33))),
    "transpose": (lambda x: jg.permute_dims(x, (1, 0)) + 0.0, (floats(70, 45),)),
    "transposes_and_a_row": (
        lambda x, y, b: jg.tanh(x.T) * y.T + jg.exp(b) * x.T[:, :1],
        (floats(40, 64), floats(40, 64), floats(40)),
    ),
    "channels_last": (lambda x: jg.permute_dims(x, (0, 2, 3, 1)) * 2, (floats(2, 33, 5, 9),)),
    "product": (lambda a, b, c: nn.relu(a @ b + c), (floats(33, 70), floats(70, 45), floats(45))),
    "product_of_eleven_blocks": (lambda a, b: a @ b, (floats(33, 4000), floats(4000, 5))),
    "product_of_a_transpose": (lambda a, b: a @ b.T, (floats(65, 70), floats(45, 70))),
    "large_product": (lambda a, b: a @ b, (floats(300, 50), floats(50, 270))),
    "batched_product_in_large_tiles": (lambda a, b: jg.tanh(a) @ b, (floats(32, 70, 20), floats(32, 20, 130))),
    "batched_product": (lambda a, b: a @ b, (floats(2, 16, 70), floats(2, 70, 45))),
    "convolution": (lambda x, w: nn.conv2d(x, w, padding=1), (floats(2, 3, 9, 9), floats(8, 3, 3, 3))),
    "cumulative_sum": (lambda x: jg.cumulative_sum(x, axis=-1), (floats(5, 40),)),
}


def traced(name: str) -> tuple[Graph, list[Any]]:
    """The graph of a program, and its arguments."""
    function, arguments = PROGRAMS[name]
    return jg.trace(function).lower(*arguments).graph, [argument.numpy() for argument in arguments]
