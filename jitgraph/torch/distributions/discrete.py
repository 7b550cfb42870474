"""Distributions of whole numbers and of categories."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch.distributions import constraints
from jitgraph.torch.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    Lazy,
    broadcast_all,
    logits_of,
    one_of,
    tiny,
)
from jitgraph.torch.tensors import adopted


def _softplus(x: Any) -> Any:
    return torch.logaddexp(x, torch.zeros_like(x))


class _OfProbability(Distribution):
    """A distribution of one probability, which its logit may stand for."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_of("", ("probs", probs), ("logits", logits))
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def _param(self) -> Any:
        return vars(self)["probs"] if "probs" in vars(self) else vars(self)["logits"]

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    @Lazy
    def logits(self: Any) -> Any:
        """log(p / (1 - p))."""
        return logits_of(self.probs, is_binary=True)

    @Lazy
    def probs(self: Any) -> Any:
        """The probability."""
        return torch.sigmoid(self.logits)

    def _parameters(self) -> Any:
        return ("probs",) if "probs" in vars(self) else ("logits",)


class Bernoulli(_OfProbability, ExponentialFamily):
    """1 with a probability, else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Any:
        """p."""
        return self.probs

    @property
    def mode(self) -> Any:
        """1 for p above 1/2, NaN for 1/2."""
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return torch.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        with torch.no_grad():
            probs = self.probs.detach().expand(self._extended_shape(sample_shape))
            return adopted(jg.random.bernoulli(probs)).to(probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - _softplus(logits)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability."""
        return _softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 and 1."""
        values = torch.arange(2, dtype=self._param.dtype).reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class ContinuousBernoulli(_OfProbability, ExponentialFamily):
    """Numbers between 0 and 1 with a density in proportion to p**x (1 - p)**(1 - x)."""

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: Any = (0.499, 0.501), validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self._lims = lims

    def _flat(self) -> tuple[Any, Any]:
        """Where p is near 1/2, and another p in its place."""
        p = self.probs.clamp(min=tiny(self.probs), max=1 - tiny(self.probs))
        flat = (p > self._lims[0]) & (p <= self._lims[1])
        return flat, torch.where(flat, torch.full_like(p, self._lims[0]), p)

    def _log_norm(self) -> Any:
        flat, p = self._flat()
        far = (torch.log1p(-p) - p.log()).abs().log() - (1 - 2 * p).abs().log()
        x = (self.probs - 0.5).square()
        return torch.where(flat, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x, far)

    @property
    def mean(self) -> Any:
        """p / (2 p - 1) + 1 / (2 artanh(1 - 2 p))."""
        flat, p = self._flat()
        x = self.probs - 0.5
        far = p / (2 * p - 1) + 1 / (torch.log1p(-p) - p.log())
        return torch.where(flat, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x, far)

    @property
    def variance(self) -> Any:
        """p (p - 1) / (1 - 2 p)**2 + 1 / (2 artanh(1 - 2 p))**2."""
        flat, p = self._flat()
        x = (self.probs - 0.5).square()
        far = p * (p - 1) / (1 - 2 * p).square() + 1 / (torch.log1p(-p) - p.log()).square()
        return torch.where(flat, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x, far)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameter."""
        shape = tuple(self._extended_shape(sample_shape))
        return self.icdf(torch.rand(shape, dtype=self._param.dtype, device=self._param.device))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - _softplus(logits) + self._log_norm()

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        self._validate_sample(value)
        flat, p = self._flat()
        far = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        inside = torch.where(flat, value, far)
        return torch.where(value <= 0, 0.0, torch.where(value >= 1, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        flat, p = self._flat()
        far = (torch.log1p(-p + value * (2 * p - 1)) - torch.log1p(-p)) / (p.log() - torch.log1p(-p))
        return torch.where(flat, value, far)

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        p0, p1 = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (p0 - p1) - self._log_norm() - p0

    def _other_arguments(self) -> dict[str, Any]:
        return {"lims": self._lims}


class Geometric(_OfProbability):
    """The number of failures before the first success."""

    support = constraints.nonnegative_integer

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if "probs" in vars(self) and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} to be "
                f"positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Any:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        """0."""
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        with torch.no_grad():
            p = self.probs.detach().expand(self._extended_shape(sample_shape))
            return adopted(jg.random.geometric(p)).to(p.dtype) - 1

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        value, p = broadcast_all(value, self.probs)
        certain = (p == 1) & (value == 0)
        return value * (-torch.where(certain, torch.zeros_like(p), p)).log1p() + self.probs.log()

    def entropy(self) -> Any:
        """That of one trial over p."""
        return Bernoulli(self.probs, validate_args=False).entropy() / self.probs


class Poisson(ExponentialFamily):
    """How many events come at this rate."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The rate."""
        return self.rate

    variance = mean

    @property
    def mode(self) -> Any:
        """The whole part of the rate."""
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        with torch.no_grad():
            rate = self.rate.detach().expand(self._extended_shape(sample_shape))
            return adopted(jg.random.poisson(rate)).to(rate.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return torch.xlogy(value, rate) - rate - (value + 1).lgamma()


class _OfTrials(Distribution):
    """A distribution of a number of trials and a probability."""

    def __init__(self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        one_of("", ("probs", probs), ("logits", logits))
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    _param = _OfProbability._param
    param_shape = _OfProbability.param_shape

    @Lazy
    def logits(self: Any) -> Any:
        """log(p / (1 - p))."""
        return logits_of(self.probs, is_binary=True)

    @Lazy
    def probs(self: Any) -> Any:
        """The probability."""
        return torch.sigmoid(self.logits)

    def _parameters(self) -> Any:
        return ("total_count", "probs" if "probs" in vars(self) else "logits")


class Binomial(_OfTrials):
    """How many of ``total_count`` trials succeed."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """From 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        """n p."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        """The whole part of (n + 1) p, at most n."""
        return torch.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Any:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            p = self.probs.detach().expand(shape)
            return adopted(jg.random.binomial(self.total_count.detach().expand(shape), p)).to(p.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        return ways + value * logits - n * _softplus(logits)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability, where all have one number of trials."""
        if int(self.total_count.max()) != int(self.total_count.min()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        logs = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(logs) * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All numbers of successes, where all have one number of trials."""
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = torch.arange(1 + most, dtype=self._param.dtype).reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class NegativeBinomial(_OfTrials):
    """How many successes come before ``total_count`` failures."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @property
    def mean(self) -> Any:
        """n p / (1 - p)."""
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Any:
        """The whole part of (n - 1) p / (1 - p), not below 0."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        """The mean over 1 - p."""
        return self.mean / torch.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients: Poisson numbers of gamma rates."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            odds = torch.exp(self.logits.detach())
            rate = adopted(jg.random.gamma(self.total_count.detach().expand(shape), dtype=odds.dtype)) * odds
            return adopted(jg.random.poisson(rate)).to(odds.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        n = self.total_count
        ways = torch.lgamma(n + value) - torch.lgamma(1.0 + value) - torch.lgamma(n)
        ways = torch.where(n + value == 0.0, torch.zeros_like(ways), ways)
        return ways - n * _softplus(self.logits) - value * _softplus(-self.logits)


class Categorical(Distribution):
    """The number of a category, drawn by probabilities along the last axis."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_of("", ("probs", probs), ("logits", logits))
        given = probs if probs is not None else logits
        if given.dim() < 1:
            raise ValueError(f"`{'probs' if logits is None else 'logits'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.size()[:-1], validate_args=validate_args)

    _param = _OfProbability._param
    param_shape = _OfProbability.param_shape
    _parameters = _OfProbability._parameters

    @Lazy
    def logits(self: Any) -> Any:
        """The logarithms of the probabilities."""
        return logits_of(self.probs)

    @Lazy
    def probs(self: Any) -> Any:
        """The probabilities."""
        return torch.softmax(self.logits, -1)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The numbers of the categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        """NaN: categories have no order."""
        return torch.full(tuple(self._batch_shape), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    variance = mean

    @property
    def mode(self) -> Any:
        """The most likely category."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws (int64), without gradients."""
        with torch.no_grad():
            logits = torch.log(self.probs.detach()) if "probs" in vars(self) else self.logits.detach()
            return adopted(jg.random.categorical(logits, shape=tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        index, logits = torch.broadcast_tensors(index, self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability."""
        logits = self.logits.clamp(min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All categories."""
        values = torch.arange(self._num_events).reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        name, given = self._parameters()[0], self._param
        grown = given.expand((*batch_shape, given.shape[-1]))
        return type(self)(**{name: grown}, validate_args=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._parameters()[0]}: {self._param.size()})"


class _OfCategories(Distribution):
    """A distribution over vectors with an entry for each category."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        name, given = self._categorical._parameters()[0], self._categorical._param
        grown = {name: given.expand((*batch_shape, given.shape[-1]))}
        return type(self)(**grown, **self._other_arguments(), validate_args=False)


def _one_hot(index: Any, count: int, dtype: Any) -> Any:
    return (index.unsqueeze(-1) == torch.arange(count, device=index.device)).to(dtype)


class OneHotCategorical(_OfCategories):
    """A category as a vector of zeros with a 1."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    @property
    def mean(self) -> Any:
        """The probabilities."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The most likely category."""
        return _one_hot(self.probs.argmax(-1), self.event_shape[-1], self.probs.dtype)

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        return _one_hot(self._categorical.sample(sample_shape), self.event_shape[-1], self._categorical._param.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        """All categories."""
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._categorical._param.dtype)
        values = values.reshape((n, *[1] * len(self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, whose draws have the gradients of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the probabilities as if they were these."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfCategories):
    """How often each category comes in ``total_count`` draws."""

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that sum to the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        """n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return _one_hot(drawn, self.event_shape[-1], self._categorical._param.dtype).sum(0)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        never = (value == 0) & (logits == -math.inf)
        return ways + (torch.where(never, torch.zeros_like(logits), logits) * value).sum(-1)

    def entropy(self) -> Any:
        """The expected negative logarithm of the probability."""
        n = torch.tensor(float(self.total_count), dtype=self.probs.dtype)
        counts = Binomial(self.total_count, self.probs, validate_args=False)
        support = counts.enumerate_support(expand=False)[1:]
        weights = torch.exp(counts.log_prob(support))
        return (
            n * self._categorical.entropy() - torch.lgamma(n + 1) + (weights * torch.lgamma(support + 1)).sum((0, -1))
        )

    def _other_arguments(self) -> dict[str, Any]:
        return {"total_count": self.total_count}
