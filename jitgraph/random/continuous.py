"""Exponential, Gumbel, truncated normal and further continuous numbers, by transformation; NumPy's names."""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import JitgraphError
from jitgraph.random.basic import drawn, kind_of, moved, normal, parameters_of, require
from jitgraph.random.generator import Generator
from jitgraph.random.rejection import gamma
from jitgraph.special import erfcx, erfinv
from jitgraph.tensor import Tensor, scalars
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import abs, clip, exp, expm1, floor, log, log1p, sign, sqrt, tan, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike

# ----------------------------------------------------------------------
# Exponential, Gumbel and truncated normal numbers.

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


# ----------------------------------------------------------------------
# Numbers of further distributions, made of uniform, normal, exponential and gamma numbers; NumPy's names.
#
# Those with a scale and a place carry gradients to them, as do those that are powers or quotients of others.

_TINY = 2.0**-70  # stands for a uniform number of 0, which has no logarithm


def _uniform(shape: Any, generator: Generator | None, device: str | None) -> Tensor:
    """Uniform numbers between 0 and 1 in float64, neither of them among these."""
    samples = drawn(ops.uniform, shape_of(shape), dtypes.float64, generator, device)
    return where(samples == 0, _TINY, samples)


@array_function
def laplace(
    shape: Any = (),
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """loc + scale * z, of which z has the density exp(-abs(z)) / 2; float32 unless ``dtype`` is given."""
    kind = kind_of(dtype)
    middle = _uniform(shape, generator, device) - 0.5
    return moved((-sign(middle) * log1p(-2 * abs(middle))).astype(kind), loc, scale)


@array_function
def logistic(
    shape: Any = (),
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """loc + scale * log(u / (1 - u)) for uniform numbers u; float32 unless ``dtype`` is given."""
    kind = kind_of(dtype)
    unit = _uniform(shape, generator, device)
    return moved((log(unit) - log1p(-unit)).astype(kind), loc, scale)


@array_function
def cauchy(
    shape: Any = (),
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """loc + scale * tan(pi (u - 1/2)) for uniform numbers u; float32 unless ``dtype`` is given."""
    kind = kind_of(dtype)
    angle = (_uniform(shape, generator, device) - 0.5) * math.pi
    return moved(tan(angle).astype(kind), loc, scale)


@array_function
def lognormal(
    shape: Any = (),
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp of normal numbers with this mean and standard deviation; float32 unless ``dtype`` is given."""
    return exp(normal(shape, mean, std, dtype=kind_of(dtype), generator=generator, device=device))


@array_function
def rayleigh(
    shape: Any = (),
    scale: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """scale * sqrt(2 e) for standard exponential numbers e; float32 unless ``dtype`` is given."""
    kind = kind_of(dtype)
    unit = drawn(ops.exponential, shape_of(shape), kind, generator, device)
    return moved(sqrt(unit * 2), 0, scale)


@array_function
def weibull(
    concentration: TensorLike,
    shape: Any = None,
    *,
    scale: TensorLike = 1.0,
    dtype: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """scale * e ** (1 / concentration) for standard exponential numbers e, of ``shape`` or that of the parameters.

    ValueError for a concentration that is not positive.
    """
    sizes, kind, (alpha,), device = parameters_of(shape, dtype, concentration)
    require(alpha > 0, "weibull: every concentration must be positive")
    unit = drawn(ops.exponential, sizes, alpha.dtype, generator, device)
    return moved((unit ** (1 / alpha)).astype(kind), 0, scale)


@array_function
def pareto(
    concentration: TensorLike,
    shape: Any = None,
    *,
    scale: TensorLike = 1.0,
    dtype: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """scale * (exp(e / concentration) - 1) for standard exponential numbers e: from 0 on, as in NumPy.

    PyTorch's distribution begins at ``scale``: add it. ValueError for a concentration that is not positive.
    """
    sizes, kind, (alpha,), device = parameters_of(shape, dtype, concentration)
    require(alpha > 0, "pareto: every concentration must be positive")
    unit = drawn(ops.exponential, sizes, alpha.dtype, generator, device)
    return moved(expm1(unit / alpha).astype(kind), 0, scale)


@array_function
def chisquare(df: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Sums of the squares of ``df`` standard normal numbers. ValueError for df that is not positive and finite."""
    _, kind, (freedom,), _ = parameters_of(shape, dtype, df)
    return (gamma(freedom * 0.5, dtype=freedom.dtype, generator=generator) * 2).astype(kind)  # type: ignore[no-any-return]


@array_function
def standard_t(df: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Standard normal numbers over sqrt(chisquare(df) / df). ValueError for df that is not positive and finite."""
    sizes, kind, (freedom,), device = parameters_of(shape, dtype, df)
    spread = gamma(freedom * 0.5, dtype=freedom.dtype, generator=generator) * 2
    top = normal(sizes, dtype=freedom.dtype, generator=generator, device=device)
    return (top / sqrt(spread / freedom)).astype(kind)  # type: ignore[no-any-return]


@array_function
def f(
    dfnum: TensorLike,
    dfden: TensorLike,
    shape: Any = None,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """(chisquare(dfnum) / dfnum) / (chisquare(dfden) / dfden). ValueError for degrees that are not positive, finite."""
    _, kind, (first, second), _ = parameters_of(shape, dtype, dfnum, dfden)
    above = gamma(first * 0.5, dtype=first.dtype, generator=generator) / first
    below = gamma(second * 0.5, dtype=first.dtype, generator=generator) / second
    return (above / below).astype(kind)  # type: ignore[no-any-return]


@array_function
def geometric(p: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """The number of trials with success probability ``p`` up to the first success, from 1 on; int64.

    They are held at 2**53, beyond which float64 has no odd numbers. ValueError for p outside of (0, 1].
    """
    sizes, _, (chance,), device = parameters_of(shape, dtypes.float64, p)
    require((chance > 0) & (chance <= 1), "geometric: every probability must lie above 0, and not above 1")
    unit = drawn(ops.exponential, sizes, dtypes.float64, generator, device)
    trials = floor(unit / -log1p(-where(chance < 1, chance, 0.5))) + 1
    trials = where(chance < 1, where(trials < 2.0**53, trials, 2.0**53), 1.0)
    return trials.astype(dtypes.int64 if dtype is None else dtype)  # type: ignore[no-any-return]
