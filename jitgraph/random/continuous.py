"""Exponential, Gumbel and truncated normal numbers."""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import JitgraphError
from jitgraph.random.generator import Generator
from jitgraph.random.parameters import drawn, kind_of, moved
from jitgraph.special import erfcx, erfinv
from jitgraph.tensor import Tensor, scalars
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import clip, exp, log, log1p
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike

_FARTHEST = 6.0  # standard deviations: beyond, a float64 has too few steps between a tail and 1
_NEWTON_STEPS = 6  # of which each doubles the digits; the farthest of 2**53 steps takes them all


@array_function
def exponential(
    shape: Any = (),
    scale: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
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
    requires_grad: bool = False,
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
    requires_grad: bool = False,
) -> Tensor:
    """mean + std * z for standard normal numbers z between ``lower`` and ``upper``; float32 unless ``dtype`` is given.

    By the inverse of the distribution function, in float64. The bounds are Python numbers, infinity included, in
    standard deviations from the mean. JitgraphError unless lower < upper.
    """
    low, high = float(lower), float(upper)
    if not low < high or low == math.inf or high == -math.inf:
        raise JitgraphError(
            f"truncated_normal: from {low} to {high} there is nothing of a normal distribution\n"
            "  hint: lower < upper, in standard deviations"
        )
    sizes, kind = shape_of(shape), kind_of(dtype)
    unit = drawn(ops.uniform, sizes, dtypes.float64, generator, device)
    if low > _FARTHEST:
        return moved(_beyond(low, high, unit).astype(kind), mean, std)
    if high < -_FARTHEST:
        return moved(-_beyond(-high, -low, unit).astype(kind), mean, std)
    begin, end = math.erf(low / math.sqrt(2)), math.erf(high / math.sqrt(2))
    z = clip(erfinv(unit * (end - begin) + begin) * math.sqrt(2), low, high).astype(kind)
    return moved(z, mean, std)


def _beyond(low: float, high: float, unit: Tensor) -> Tensor:
    """A normal number between bounds far above 0, for a uniform one in [0, 1).

    With Q the distribution's tail, log(Q(low + d) / Q(low)) = log(erfcx((low + d) / sqrt(2)) / erfcx(low / sqrt(2)))
    - d (low + d / 2) is solved for d by Newton's method. It is concave: the first step from 0 goes beyond the solution,
    later ones come back to it.
    """
    root = math.sqrt(0.5)
    begin: Any = erfcx(unit * 0 + low * root)
    if high == math.inf:
        left: Any = 0.0
    else:
        width = high - low
        left = exp(log(erfcx(unit * 0 + high * root) / begin) - width * (low + width / 2))
    goal = log1p(-unit * (1 - left))
    distance = -goal * begin * math.sqrt(math.pi / 2)
    for _ in range(_NEWTON_STEPS):
        here = erfcx((distance + low) * root)
        value = log(here / begin) - distance * (low + distance / 2) - goal
        distance = distance + value * here * math.sqrt(math.pi / 2)
    return clip(distance + low, low, high)
