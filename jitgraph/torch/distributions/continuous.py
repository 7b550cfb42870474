"""Distributions of real numbers with a location, a scale or a rate."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jitgraph.torch as torch
from jitgraph.torch.distributions import constraints
from jitgraph.torch.distributions.distribution import Distribution, ExponentialFamily, broadcast_all, tiny


def _unit(shape: Any, like: Any) -> Any:
    """Uniform numbers above 0 and below 1."""
    eps = tiny(like)
    return torch.rand(tuple(shape), dtype=like.dtype, device=like.device) * (1 - 2 * eps) + eps


class _LocationScale(Distribution):
    """loc + scale * z, of which z has a distribution without parameters."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        return self.loc + self.scale * self._standard(self._extended_shape(sample_shape))

    def _standard(self, shape: Any) -> Any:
        raise NotImplementedError

    def _z(self, value: Any) -> Any:
        self._validate_sample(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Any:
        """The location."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The location."""
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    """Normal numbers of this mean and standard deviation."""

    def _standard(self, shape: Any) -> Any:
        return torch.randn(tuple(shape), dtype=self.loc.dtype, device=self.loc.device)

    @property
    def stddev(self) -> Any:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> Any:
        """The square of the scale."""
        return self.scale.pow(2)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -self._z(value).pow(2) / 2 - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        return 0.5 * (1 + torch.erf(self._z(value) / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        """1/2 log(2 pi e scale**2)."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)


class Laplace(_LocationScale):
    """Numbers with the density exp(-|z|) / 2."""

    def _standard(self, shape: Any) -> Any:
        u = _unit(shape, self.loc) * 2 - 1
        return -u.sign() * torch.log1p(-u.abs().clamp(max=1 - tiny(u) / 2))

    @property
    def variance(self) -> Any:
        """2 scale**2."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        """The root of it."""
        return 2**0.5 * self.scale

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -torch.log(2 * self.scale) - self._z(value).abs()

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        z = self._z(value)
        return 0.5 - 0.5 * z.sign() * torch.expm1(-z.abs())

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        """1 + log(2 scale)."""
        return 1 + torch.log(2 * self.scale)


class Cauchy(_LocationScale):
    """Numbers with the density 1 / (pi (1 + z**2)); they have no mean."""

    def _standard(self, shape: Any) -> Any:
        return torch.tan(math.pi * (_unit(shape, self.loc) - 0.5))

    @property
    def mean(self) -> Any:
        """NaN."""
        return torch.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Any:
        """Infinity."""
        return torch.full_like(self.loc, math.inf)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -math.log(math.pi) - self.scale.log() - self._z(value).pow(2).log1p()

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        return torch.atan(self._z(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        """log(4 pi scale)."""
        return math.log(4 * math.pi) + self.scale.log()


_EULER = 0.57721566490153286060


class Gumbel(_LocationScale):
    """Numbers with the distribution function exp(-exp(-z)), as the largest of many have it."""

    def _standard(self, shape: Any) -> Any:
        return -(-_unit(shape, self.loc).log()).log()

    @property
    def mean(self) -> Any:
        """loc + Euler's constant times scale."""
        return self.loc + self.scale * _EULER

    @property
    def stddev(self) -> Any:
        """pi / sqrt(6) scale."""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        """Its square."""
        return self.stddev.pow(2)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        z = self._z(value)
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        return (-(-self._z(value)).exp()).exp()

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        """1 + log(scale) + Euler's constant."""
        return self.scale.log() + (1 + _EULER)


class _OfScale(Distribution):
    """The absolute value of a distribution around 0."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    _whole: ClassVar[type[_LocationScale]]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.size(), validate_args=validate_args)

    @property
    def base_dist(self) -> Any:
        """The distribution with both signs."""
        return self._whole(torch.zeros_like(self.scale), self.scale, validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the scale."""
        return self.base_dist.rsample(sample_shape).abs()

    @property
    def mode(self) -> Any:
        """0."""
        return torch.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, -inf below 0."""
        self._validate_sample(value)
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        """That of both signs less log 2."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_OfScale):
    """The absolute value of a normal number."""

    _whole = Normal

    @property
    def mean(self) -> Any:
        """scale sqrt(2 / pi)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        """scale**2 (1 - 2 / pi)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_OfScale):
    """The absolute value of a Cauchy number."""

    _whole = Cauchy

    @property
    def mean(self) -> Any:
        """Infinity."""
        return torch.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        """Infinity."""
        return torch.full_like(self.scale, math.inf)


class Uniform(Distribution):
    """Numbers from ``low`` to below ``high``, all equally likely."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    arg_constraints: ClassVar[Any] = {
        "low": constraints.dependent(is_discrete=False, event_dim=0),
        "high": constraints.dependent(is_discrete=False, event_dim=0),
    }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        """NaN: there is none."""
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        """The width over sqrt(12)."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Any:
        """The width squared over 12."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the bounds."""
        shape = tuple(self._extended_shape(sample_shape))
        unit = torch.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + unit * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of 1 / width, -inf outside."""
        self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return torch.where(inside, -torch.log(self.high - self.low), -math.inf)

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        """The logarithm of the width."""
        return torch.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Positive numbers with the density rate exp(-rate x)."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        """0."""
        return torch.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        """1 / rate**2."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the rate."""
        return -torch.log(_unit(self._extended_shape(sample_shape), self.rate)) / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        self._validate_sample(value)
        return -torch.expm1(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Any:
        """1 - log(rate)."""
        return 1.0 - torch.log(self.rate)


class GeneralizedPareto(Distribution):
    """Exceedances of a threshold ``loc``: tails from bounded to heavy, by the sign of the concentration."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From loc on, to loc - scale / concentration where that is negative."""
        end = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    def _flat(self) -> tuple[Any, Any]:
        """Where the concentration counts as 0, and another one in its place."""
        flat = self.concentration.abs() < tiny(self.concentration) * 10
        return flat, torch.where(flat, torch.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        return self.icdf(_unit(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        z, (flat, shape) = (value - self.loc) / self.scale, self._flat()
        heavy = -(1 / shape + 1) * torch.log1p(shape * z)
        return torch.where(flat, -z, heavy) - self.scale.log()

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        z, (flat, shape) = (value - self.loc) / self.scale, self._flat()
        return -torch.expm1(torch.where(flat, -z, -torch.log1p(shape * z) / shape))

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        left, (flat, shape) = torch.log1p(-value), self._flat()
        return self.loc + self.scale * torch.where(flat, -left, torch.expm1(-shape * left) / shape)

    @property
    def mean(self) -> Any:
        """loc + scale / (1 - concentration), infinite from a concentration of 1 on."""
        k = self.concentration
        return torch.where(k < 1, self.loc + self.scale / (1 - k), math.inf)

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """scale**2 / ((1 - k)**2 (1 - 2 k)), infinite from a concentration k of 1/2 on."""
        k = self.concentration
        return torch.where(k < 0.5, self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k)), math.inf)

    def entropy(self) -> Any:
        """log(scale) + concentration + 1."""
        return torch.log(self.scale) + self.concentration + 1
