"""Distributions made of others: transformed, independent, mixed and relaxed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import jitgraph.torch as torch
from jitgraph.torch.distributions import constraints
from jitgraph.torch.distributions.continuous import Exponential, Normal, Uniform
from jitgraph.torch.distributions.discrete import Categorical, _OfProbability
from jitgraph.torch.distributions.distribution import Distribution, broadcast_all, logits_of, summed, tiny
from jitgraph.torch.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)


class TransformedDistribution(Distribution):
    """f(x) of draws x of a distribution, for a transform f or several one after the other."""

    def __init__(
        self, base_distribution: Any, transforms: Transform | Sequence[Transform], validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        needed = whole.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, needed) if needed > 0 else base_distribution
        size = whole.codomain.event_dim + max(len(base_distribution.event_shape) - whole.domain.event_dim, 0)
        shape = tuple(whole.forward_shape(torch.Size(shape)))
        cut = len(shape) - size
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:
        """Whether the base has it."""
        return bool(self.base_dist.has_rsample)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """What the last transform gives."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    def _pushed(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        with torch.no_grad():
            return self._pushed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        return self._pushed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density: the base's less those of the volume factors."""
        self._validate_sample(value)
        size = len(self.event_shape)
        result: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            size += transform.domain.event_dim - transform.codomain.event_dim
            result = result - summed(transform.log_abs_det_jacobian(x, y), size - transform.domain.event_dim)
            y = x
        return result + summed(self.base_dist.log_prob(y), size - len(self.base_dist.event_shape))

    def _signed(self, share: Any) -> Any:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return share if isinstance(sign, int) and sign == 1 else sign * (share - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``, for transforms of each element."""
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        if self.base_dist._validate_args:
            self.base_dist._validate_sample(value)
        return self._signed(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        return self._pushed(self.base_dist.icdf(self._signed(value)))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        whole = ComposeTransform(self.transforms)
        shape = tuple(whole.inverse_shape(torch.Size((*batch_shape, *self.event_shape))))
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        other = object.__new__(type(self))
        vars(other).update({name: x for name, x in vars(self).items() if name not in ("base_dist", "_batch_shape")})
        other.base_dist, other._batch_shape = base, torch.Size(batch_shape)
        return other


class Independent(Distribution):
    """A distribution of which the last batch axes count to the event."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        shape = (*batch, *base_distribution.event_shape)
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:
        """Whether the base has it."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        """Whether the base has it, and no axis was joined."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, with the axes that were joined."""
        support = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(support, count) if count else support

    @property
    def mean(self) -> Any:
        """The base's."""
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        """The base's."""
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        """The base's."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The sum of the base's over the axes that were joined."""
        return summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """The sum of the base's over the axes that were joined."""
        return summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        """The base's, where no axis was joined."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        joined = self.event_shape[: self.reinterpreted_batch_ndims]
        return type(self)(
            self.base_dist.expand((*batch_shape, *joined)), self.reinterpreted_batch_ndims, validate_args=False
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class LogNormal(TransformedDistribution):
    """exp of normal numbers."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        """exp(loc + scale**2 / 2)."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        """exp(loc - scale**2)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        """(exp(scale**2) - 1) exp(2 loc + scale**2)."""
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        """The normal one plus loc."""
        return self.base_dist.entropy() + self.loc


class Pareto(TransformedDistribution):
    """scale exp(x / alpha) of exponential numbers x."""

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        """alpha scale / (alpha - 1), infinite up to 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        """scale."""
        return self.scale

    @property
    def variance(self) -> Any:
        """Infinite up to alpha = 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Any:
        """log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        return Pareto(self.scale.expand(batch_shape), self.alpha.expand(batch_shape), validate_args=False)


_EULER = 0.57721566490153286060


class Weibull(TransformedDistribution):
    """scale x**(1 / concentration) of exponential numbers x."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        steps = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        super().__init__(Exponential(torch.ones_like(self.scale), validate_args), steps, validate_args)

    def _moment(self, order: int) -> Any:
        return torch.exp(torch.lgamma(1 + order / self.concentration))

    @property
    def mean(self) -> Any:
        """scale gamma(1 + 1 / concentration)."""
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Any:
        """scale ((concentration - 1) / concentration)**(1 / concentration)."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Any:
        """scale**2 (gamma(1 + 2 / k) - gamma(1 + 1 / k)**2)."""
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        inverse = self.concentration.reciprocal()
        return _EULER * (1 - inverse) + torch.log(self.scale * inverse) + 1

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        return Weibull(self.scale.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=False)


class Kumaraswamy(TransformedDistribution):
    """(1 - u**(1 / b))**(1 / a) of uniform numbers u."""

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zero = torch.zeros_like(self.concentration0)
        base = Uniform(zero + tiny(zero) / 2, zero + 1 - tiny(zero) / 2, validate_args=False)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args)

    def _moment(self, order: int) -> Any:
        a, b = 1 + order / self.concentration1, self.concentration0
        return torch.exp(b.log() + torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b))

    @property
    def mean(self) -> Any:
        """b B(1 + 1 / a, b)."""
        return self._moment(1)

    @property
    def mode(self) -> Any:
        """((a - 1) / (a b - 1))**(1 / a), NaN where there is none."""
        a, b = self.concentration1, self.concentration0
        return torch.where((a < 1) | (b < 1), math.nan, ((a - 1) / (a * b - 1)) ** a.reciprocal())

    @property
    def variance(self) -> Any:
        """The second moment less the square of the mean."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + _EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        a, b = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        return Kumaraswamy(a, b, validate_args=False)


class LogisticNormal(TransformedDistribution):
    """Numbers that sum to 1, of a vector of normal ones by stick breaking."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Any:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """Their standard deviations."""
        return self.base_dist.base_dist.scale


class LogitRelaxedBernoulli(_OfProbability):
    """The logit of a relaxed Bernoulli number: a logistic number around the logit, over the temperature."""

    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameter."""
        shape = tuple(self._extended_shape(sample_shape))
        u = torch.rand(shape, dtype=self._param.dtype, device=self._param.device)
        return (logits_of(u, is_binary=True) + self.logits) / self.temperature

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        t = torch.as_tensor(self.temperature, dtype=value.dtype)
        z = logits - value * t
        return t.log() + z - 2 * torch.logaddexp(z, torch.zeros_like(z))

    def _other_arguments(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


class _Relaxed(TransformedDistribution):
    """A relaxed discrete distribution: its parameters are those of the distribution that is transformed."""

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The logits, or of categories the logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """Numbers between 0 and 1, near its ends where the temperature is low."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a relaxed category: logits and Gumbel numbers over the temperature, less their log-sum-exp."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameter."""
        shape = tuple(self._extended_shape(sample_shape))
        u = torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device)
        u = u.clamp(min=tiny(u), max=1 - tiny(u))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        k = self.event_shape[-1]
        logits, value = broadcast_all(self.logits, value)
        t = torch.as_tensor(self.temperature, dtype=value.dtype)
        score = logits - value * t
        scale = math.lgamma(k) + (k - 1) * t.log()
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape."""
        name, given = self._categorical._parameters()[0], self._categorical._param
        grown = {name: given.expand((*batch_shape, given.shape[-1]))}
        return ExpRelaxedCategorical(self.temperature, **grown, validate_args=False)


class RelaxedOneHotCategorical(_Relaxed):
    """Numbers that sum to 1, near a corner where the temperature is low."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args)


class MixtureSameFamily(Distribution):
    """Draws of one of several distributions, which a Categorical chooses: the last batch axis counts them."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        shape = component_distribution.batch_shape
        count = mixture_distribution.logits.shape[-1]
        if count != shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({shape[-1]})"
            )
        self._mixture, self._component, self._count = mixture_distribution, component_distribution, count
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    @property
    def mixture_distribution(self) -> Any:
        """The Categorical."""
        return self._mixture

    @property
    def component_distribution(self) -> Any:
        """What it chooses among."""
        return self._component

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component.support)

    def _weights(self) -> Any:
        p = self._mixture.probs
        return p.reshape((*p.shape, *[1] * len(self.event_shape)))

    def _axis(self) -> int:
        return -1 - len(self.event_shape)

    @property
    def mean(self) -> Any:
        """That of the components, weighted."""
        return (self._weights() * self._component.mean).sum(self._axis())

    @property
    def variance(self) -> Any:
        """The weighted variances, and the variance of the means."""
        p, axis = self._weights(), self._axis()
        spread = self._component.mean - self.mean.unsqueeze(axis)
        return (p * self._component.variance).sum(axis) + (p * spread.pow(2)).sum(axis)

    def cdf(self, x: Any) -> Any:
        """That of the components, weighted."""
        return (self._component.cdf(x.unsqueeze(self._axis())) * self._mixture.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        """The logarithm of the components' weighted densities."""
        self._validate_sample(x)
        logs = self._component.log_prob(x.unsqueeze(self._axis()))
        return torch.logsumexp(logs + torch.log_softmax(self._mixture.logits, -1), -1)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        with torch.no_grad():
            chosen = self._mixture.sample(sample_shape)
            drawn = self._component.sample(sample_shape)
            index = chosen.reshape((*chosen.shape, 1, *[1] * len(self.event_shape)))
            index = index.expand((*chosen.shape, 1, *self.event_shape))
            return drawn.gather(self._axis(), index).squeeze(self._axis())

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same mixtures with another batch shape."""
        component = self._component.expand((*batch_shape, self._count))
        return MixtureSameFamily(self._mixture.expand(batch_shape), component, validate_args=False)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture},\n  {self._component})"
