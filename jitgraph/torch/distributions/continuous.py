"""Continuous distributions of numbers, and of vectors that sum to 1."""

from __future__ import annotations

import math
from typing import Any

import jitgraph as jg
from jitgraph.torch import functions
from jitgraph.torch.adapters import torch_function
from jitgraph.torch.distributions.distribution import Distribution, broadcast_all, limits_of, shape_of

torch: Any = functions

_EULER = 0.57721566490153286060


def _open_unit(shape: Any, dtype: Any) -> Any:
    """Uniform numbers above 0 and below 1."""
    limits = limits_of(dtype)
    return torch.clamp(torch.rand(*shape, dtype=dtype), min=limits.tiny, max=1 - limits.eps)


class Uniform(Distribution):
    """The uniform distribution between two numbers."""

    has_rsample = True
    _parameters: tuple[str, ...] = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(shape_of(low, high, tensor=self.low), validate_args=validate_args)
        if self._validate_args:
            self._require(self.high - self.low, "positive", "parameter high - low")

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Any:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = torch.rand(*self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return torch.log(inside.to(self.low.dtype)) - torch.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        return torch.clamp((value - self.low) / (self.high - self.low), min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return torch.log(self.high - self.low)


class Exponential(Distribution):
    """The time to an event that occurs at a rate."""

    has_rsample = True
    _parameters: tuple[str, ...] = ("rate",)
    _domains = {"rate": "positive", "value": "nonnegative"}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(shape_of(rate, tensor=self.rate), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return 1 / self.rate

    @property
    def mode(self) -> Any:
        return torch.zeros_like(self.rate)

    @property
    def variance(self) -> Any:
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Any:
        return -torch.log(_open_unit(self._extended_shape(sample_shape), self.rate.dtype)) / self.rate

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return torch.log(self.rate) - self.rate * value

    def cdf(self, value: Any) -> Any:
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1 - torch.log(self.rate)


class _LocationScale(Distribution):
    """A distribution that is moved and stretched."""

    has_rsample = True
    _parameters: tuple[str, ...] = ("loc", "scale")
    _domains = {"loc": "real", "scale": "positive", "value": "real"}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(shape_of(loc, scale, tensor=self.loc), validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(_open_unit(self._extended_shape(sample_shape), self.loc.dtype))

    @property
    def mode(self) -> Any:
        return self.loc


class Laplace(_LocationScale):
    """exp(-|x - loc| / scale) / (2 scale)."""

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 2 * self.scale**2

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -torch.log(2 * self.scale) - torch.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        x = value - self.loc
        return 0.5 - 0.5 * torch.sign(x) * torch.expm1(-torch.abs(x) / self.scale)

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * torch.sign(term) * torch.log1p(-2 * torch.abs(term))

    def entropy(self) -> Any:
        return 1 + torch.log(2 * self.scale)


class Cauchy(_LocationScale):
    """1 / (pi scale (1 + ((x - loc) / scale)**2)), whose mean does not exist."""

    @property
    def mean(self) -> Any:
        return torch.full_like(self.loc, float("nan"))

    @property
    def variance(self) -> Any:
        return torch.full_like(self.loc, float("inf"))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -math.log(math.pi) - torch.log(self.scale) - torch.log1p(((value - self.loc) / self.scale) ** 2)

    def cdf(self, value: Any) -> Any:
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + torch.log(self.scale)


class Gumbel(_LocationScale):
    """The distribution of the greatest of many numbers."""

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * _EULER

    @property
    def variance(self) -> Any:
        return (math.pi**2 / 6) * self.scale**2

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - torch.exp(y)) - torch.log(self.scale)

    def cdf(self, value: Any) -> Any:
        return torch.exp(-torch.exp((self.loc - value) / self.scale))

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * torch.log(-torch.log(value))

    def entropy(self) -> Any:
        return torch.log(self.scale) + (1 + _EULER)


class Gamma(Distribution):
    """x**(concentration - 1) exp(-rate x), normalised. Draws have no gradient."""

    _parameters: tuple[str, ...] = ("concentration", "rate")
    _domains = {"concentration": "positive", "rate": "positive", "value": "nonnegative"}  # noqa: RUF012

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(shape_of(concentration, rate, tensor=self.rate), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return torch.clamp((self.concentration - 1) / self.rate, min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate**2

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return _gamma(self.concentration.detach().expand(*shape)) / self.rate.detach()

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return torch.xlogy(a, b) + torch.xlogy(a - 1, value) - b * value - torch.lgamma(a)

    def entropy(self) -> Any:
        a = self.concentration
        return a - torch.log(self.rate) + torch.lgamma(a) + (1 - a) * torch.digamma(a)


@torch_function
def _gamma(concentration: Any) -> Any:
    return jg.random.gamma(concentration, dtype=concentration.dtype.dtype)


@torch_function
def _dirichlet(concentration: Any) -> Any:
    return jg.random.dirichlet(concentration, dtype=concentration.dtype.dtype)


class Dirichlet(Distribution):
    """Vectors that sum to 1, with a density of powers of their elements. Draws have no gradient."""

    _parameters: tuple[str, ...] = ("concentration",)
    _domains = {"concentration": "positive", "value": "simplex"}  # noqa: RUF012

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / torch.sum(self.concentration, dim=-1, keepdim=True)

    @property
    def variance(self) -> Any:
        total = torch.sum(self.concentration, dim=-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def sample(self, sample_shape: Any = ()) -> Any:
        return _dirichlet(self.concentration.detach().expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a = self.concentration
        powers = torch.sum(torch.xlogy(a - 1, value), dim=-1)
        return powers + torch.lgamma(torch.sum(a, dim=-1)) - torch.sum(torch.lgamma(a), dim=-1)

    def entropy(self) -> Any:
        a, count = self.concentration, self.concentration.shape[-1]
        total = torch.sum(a, dim=-1)
        rest = torch.sum((a - 1) * torch.digamma(a), dim=-1)
        norm = torch.sum(torch.lgamma(a), dim=-1) - torch.lgamma(total)
        return norm - (count - total) * torch.digamma(total) - rest


class Beta(Distribution):
    """The first of the two elements of a ``Dirichlet`` vector. Draws have no gradient."""

    _parameters: tuple[str, ...] = ("concentration1", "concentration0")
    _domains = {"concentration1": "positive", "concentration0": "positive", "value": "unit_interval"}  # noqa: RUF012

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        shape = shape_of(concentration1, concentration0, tensor=self.concentration1)
        super().__init__(shape, validate_args=validate_args)

    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(torch.stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return (self.concentration1 - 1) / (self.concentration1 + self.concentration0 - 2)

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet().sample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._dirichlet().log_prob(torch.stack([value, 1 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet().entropy()
