"""Dropout of whole channels, and the form that keeps mean and variance of SELU networks."""

from __future__ import annotations

import math
from typing import Any, Final

from jitgraph import random
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.activation import dropout
from jitgraph.nn.functional.arguments import floats, written
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.lifting import TensorLike

_SATURATED: Final = -1.7580993408473766  # -scale * alpha of SELU


def _ones_like(x: Tensor, shape: tuple[Any, ...]) -> Tensor:
    with placement.beside(x.value):
        return wrap(lifting.repeated(1.0, x.dtype, shape))


def _by_channels(
    name: str, spatial: int, input: TensorLike, p: float, training: bool, generator: random.Generator | None
) -> Tensor:
    x = wrap(floats(input)[0])
    if x.ndim not in (spatial + 1, spatial + 2):
        raise ShapeError(f"{name} takes x of {spatial + 1} or {spatial + 2} axes, not {x.value.type}")
    channels = (*x.value.type.shape[: x.ndim - spatial], *(1,) * spatial)
    if not training or p == 0.0:
        return dropout(x, p, False)
    return x * dropout(_ones_like(x, channels), p, True, generator=generator)


def dropout1d(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Dropout of whole channels of x[N, C, L] or x[C, L] (Tompson et al. 2015)."""
    return written(input, _by_channels("dropout1d", 1, input, p, training, generator), inplace)


def dropout2d(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Dropout of whole channels of x[N, C, H, W] or x[C, H, W] (Tompson et al. 2015)."""
    return written(input, _by_channels("dropout2d", 2, input, p, training, generator), inplace)


def dropout3d(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Dropout of whole channels of x[N, C, D, H, W] or x[C, D, H, W] (Tompson et al. 2015)."""
    return written(input, _by_channels("dropout3d", 3, input, p, training, generator), inplace)


def _alpha(x: Tensor, shape: tuple[Any, ...], p: float, training: bool, generator: random.Generator | None) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise JitgraphError(f"alpha_dropout: p={p} is not a probability")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    mask = dropout(_ones_like(x, shape), p, True, generator=generator) > 0
    scale = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * _SATURATED**2))
    result: Tensor = where(mask, x, _SATURATED) * scale - scale * _SATURATED * p
    return result


def alpha_dropout(
    input: TensorLike,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """While training elements become SELU's limit with probability ``p``, and all are scaled and shifted.

    Mean 0 and variance 1 are kept (Klambauer et al. 2017).
    """
    x = wrap(floats(input)[0])
    return written(input, _alpha(x, x.value.type.shape, p, training, generator), inplace)


def feature_alpha_dropout(
    input: TensorLike,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """``alpha_dropout`` of whole channels of x[N, C, ...]."""
    x = wrap(floats(input)[0])
    if x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout takes x[N, C, ...], not {x.value.type}")
    return written(input, _alpha(x, (*x.value.type.shape[:2], *(1,) * (x.ndim - 2)), p, training, generator), inplace)
