"""Random numbers, from jitgraph's global generator: seeds of models are not used."""

from __future__ import annotations

from typing import Any

from jitgraph import random
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _dtype(x: Any, number: int | None) -> Any:
    return x.dtype if number is None else values.dtype_of_number(number)


@define("RandomNormal")
def random_normal(shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None) -> Any:
    return _normal(tuple(shape), values.dtype_of_number(dtype), mean, scale)


@define("RandomNormalLike")
def random_normal_like(
    x: Any, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    return _normal(tuple(x.shape), _dtype(x, dtype), mean, scale)


def _normal(shape: tuple[Any, ...], dtype: Any, mean: float, scale: float) -> Any:
    return fn.astype(random.randn(shape) * scale + mean, dtype)


@define("RandomUniform")
def random_uniform(shape: Any, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None) -> Any:
    return _uniform(tuple(shape), values.dtype_of_number(dtype), low, high)


@define("RandomUniformLike")
def random_uniform_like(
    x: Any, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Any:
    return _uniform(tuple(x.shape), _dtype(x, dtype), low, high)


def _uniform(shape: tuple[Any, ...], dtype: Any, low: float, high: float) -> Any:
    return fn.astype(random.rand(shape) * (high - low) + low, dtype)


@define("Bernoulli")
def bernoulli(x: Any, dtype: int | None = None, seed: float | None = None) -> Any:
    return fn.astype(fn.less(random.rand(tuple(x.shape)), fn.astype(x, "float32")), _dtype(x, dtype))


@define("Multinomial")
def multinomial(x: Any, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    p = fn.exp(x - fn.max(x, axis=-1, keepdims=True))
    return fn.astype(random.multinomial(p, sample_size, replacement=True), values.dtype_of_number(dtype))
