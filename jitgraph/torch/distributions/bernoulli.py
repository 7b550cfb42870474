"""Distributions of trials that succeed or fail, and of counts."""

from __future__ import annotations

from typing import Any

from jitgraph.torch import functions
from jitgraph.torch.distributions.distribution import Distribution, broadcast_all, limits_of

torch: Any = functions


def _softplus(x: Any) -> Any:
    return torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))


class _OfProbability(Distribution):
    """A distribution by the probability of a success, or by its logit."""

    _parameters: tuple[str, ...] = ("probs", "logits")

    def _set(self, probs: Any, logits: Any) -> Any:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        (value,) = broadcast_all(logits if probs is None else probs)
        self.__dict__["logits" if probs is None else "probs"] = value
        return value

    def __getattr__(self, name: str) -> Any:
        """``logits`` of a distribution of which the probability is given, and the other way round."""
        if name == "logits" and "probs" in self.__dict__:
            eps = limits_of(self.probs.dtype).eps
            clamped = torch.clamp(self.probs, min=eps, max=1 - eps)
            value = torch.log(clamped) - torch.log1p(-clamped)
        elif name == "probs" and "logits" in self.__dict__:
            value = torch.sigmoid(self.logits)
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__[name] = value
        return value


class Bernoulli(_OfProbability):
    """1 with a probability, else 0."""

    has_enumerate_support = True
    _domains = {"probs": "unit_interval", "value": "boolean"}  # noqa: RUF012

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return torch.where(self.probs == 0.5, float("nan"), likely)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        return torch.bernoulli(self.probs.detach().expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return value * self.logits - _softplus(self.logits)

    def entropy(self) -> Any:
        return _softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(2, dtype=self.probs.dtype).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class Geometric(_OfProbability):
    """The number of failures before the first success."""

    _domains = {"probs": "unit_interval", "value": "nonnegative_integer"}  # noqa: RUF012

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        u = torch.rand(*self._extended_shape(sample_shape), dtype=self.probs.dtype)
        tiny = limits_of(self.probs.dtype).tiny
        return torch.floor(torch.log(torch.clamp(u, min=tiny)) / torch.log1p(-self.probs.detach()))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        certain = (probs == 1) & (value == 0)
        return value * torch.log1p(-torch.where(certain, 0.0, probs)) + torch.log(probs)

    def entropy(self) -> Any:
        return (_softplus(self.logits) - self.probs * self.logits) / self.probs


class Poisson(Distribution):
    """The number of events that occur at a rate."""

    _parameters: tuple[str, ...] = ("rate",)
    _domains = {"rate": "nonnegative", "value": "nonnegative_integer"}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return torch.floor(self.rate)

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        return torch.poisson(self.rate.detach().expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return torch.xlogy(value, rate) - rate - torch.lgamma(value + 1)


class Binomial(_OfProbability):
    """The number of successes among ``total_count`` trials."""

    _parameters: tuple[str, ...] = ("total_count", "probs", "logits")
    _domains = {"total_count": "nonnegative_integer", "probs": "unit_interval", "value": "nonnegative_integer"}  # noqa: RUF012

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        value = self._set(probs, logits)
        name = "logits" if probs is None else "probs"
        self.total_count, self.__dict__[name] = broadcast_all(total_count, value)
        super().__init__(self.total_count.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return torch.clamp(torch.floor((self.total_count + 1) * self.probs), max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return torch.binomial(self.total_count.expand(*shape), self.probs.detach().expand(*shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        n, rest = self.total_count, self.total_count - value
        choices = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(rest + 1)
        return choices + value * self.logits - n * _softplus(self.logits)
