"""Exponential, Gumbel and truncated normal numbers."""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import JitgraphError
from jitgraph.random.generator import Generator
from jitgraph.random.parameters import drawn, kind_of, moved
from jitgraph.special import erfinv
from jitgraph.tensor import Tensor, scalars
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import clip
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike

_FARTHEST = 6.0  # standard deviations: beyond, a float64 has too few steps between a tail and 1


@array_function
def exponential(
    shape: Any = (),
    scale: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
) -> Tensor:
    """Exponential with mean ``scale`` (a number or a tensor that broadcasts), float32 unless ``dtype`` is given."""
    sizes, kind = shape_of(shape), kind_of(dtype)
    unit = drawn(ops.exponential, sizes, kind, generator, device)
    return unit if scalars.is_scalar(scale) and scale == 1 else (unit * scale).astype(kind)


@array_function
def gumbel(
    shape: Any = (),
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
) -> Tensor:
    """Gumbel numbers, loc - scale * log(-log(u)): the largest of many; float32 unless ``dtype`` is given."""
    sizes, kind = shape_of(shape), kind_of(dtype)
    return moved(drawn(ops.gumbel, sizes, kind, generator, device), loc, scale)


@array_function
def truncated_normal(
    shape: Any = (),
    lower: float = -2.0,
    upper: float = 2.0,
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
) -> Tensor:
    """mean + std * z for standard normal numbers z between ``lower`` and ``upper``; float32 unless ``dtype`` is given.

    By the inverse of the distribution function, in float64. The bounds are Python numbers, infinity included, in
    standard deviations from the mean. JitgraphError unless lower < upper, and where both lie beyond 6 on one side.
    """
    low, high = float(lower), float(upper)
    if not low < high or low > _FARTHEST or high < -_FARTHEST:
        raise JitgraphError(
            f"truncated_normal: from {low} to {high} there is nothing, or too little, of a normal distribution\n"
            f"  hint: lower < upper, in standard deviations, not both beyond {_FARTHEST:g} on one side"
        )
    sizes, kind = shape_of(shape), kind_of(dtype)
    begin, end = math.erf(low / math.sqrt(2)), math.erf(high / math.sqrt(2))
    unit = drawn(ops.uniform, sizes, dtypes.float64, generator, device)
    z = clip(erfinv(unit * (end - begin) + begin) * math.sqrt(2), low, high).astype(kind)
    return moved(z, mean, std)
