"""Distributions made of gamma numbers: Gamma, Beta, Dirichlet, Student's t and their kin; von Mises."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch.distributions import constraints, gammas
from jitgraph.torch.distributions.distribution import Distribution, ExponentialFamily, broadcast_all
from jitgraph.torch.tensors import adopted


class Gamma(ExponentialFamily):
    """Gamma numbers of this concentration and rate."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        """(concentration - 1) / rate, not below 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        """concentration / rate**2."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        return gammas.standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        value = torch.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return torch.xlogy(a, rate) + torch.xlogy(a - 1, value) - rate * value - torch.lgamma(a)

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        self._validate_sample(value)
        return adopted(jg.special.gammainc(self.concentration, self.rate * value))

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        a = self.concentration
        return a - torch.log(self.rate) + torch.lgamma(a) + (1.0 - a) * torch.digamma(a)


class Chi2(Gamma):
    """The sum of the squares of ``df`` standard normal numbers."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, torch.full_like(self.df, 0.5), validate_args=validate_args)


class InverseGamma(Distribution):
    """1 / x of gamma numbers x."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def base_dist(self) -> Gamma:
        """The distribution of the reciprocals."""
        return Gamma(self.concentration, self.rate, validate_args=False)

    @property
    def mean(self) -> Any:
        """rate / (concentration - 1), infinite up to 1."""
        return torch.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Any:
        """rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """mean**2 / (concentration - 2), infinite up to 2."""
        a = self.concentration
        return torch.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        return self.base_dist.rsample(sample_shape).reciprocal()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        return self.base_dist.log_prob(value.reciprocal()) - 2 * value.log()

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        self._validate_sample(value)
        return 1 - self.base_dist.cdf(value.reciprocal())

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Dirichlet(ExponentialFamily):
    """Positive numbers that sum to 1 along the last axis."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The concentrations over their sum."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        """Concentrations less 1 over their sum; where all are below 1 the corner of the largest."""
        above = (self.concentration - 1).clamp(min=0.0)
        total = above.sum(-1, True)
        corner = torch.zeros_like(above).scatter(-1, self.concentration.argmax(-1, keepdim=True), 1.0)
        return torch.where((self.concentration < 1).all(-1, keepdim=True), corner, above / total)

    @property
    def variance(self) -> Any:
        """a (sum - a) / (sum**2 (sum + 1)) of concentrations a."""
        a = self.concentration
        total = a.sum(-1, True)
        return a * (total - a) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the concentrations."""
        return gammas.dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        a = self.concentration
        return torch.xlogy(a - 1.0, value).sum(-1) + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        a = self.concentration
        k, total = a.size(-1), a.sum(-1)
        return (
            torch.lgamma(a).sum(-1)
            - torch.lgamma(total)
            - (k - total) * torch.digamma(total)
            - ((a - 1.0) * torch.digamma(a)).sum(-1)
        )


class Beta(ExponentialFamily):
    """Numbers between 0 and 1: the first of two Dirichlet numbers."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.size(), validate_args=validate_args)

    @property
    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(torch.stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Any:
        """a / (a + b)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        """(a - 1) / (a + b - 2)."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        """a b / ((a + b)**2 (a + b + 1))."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the concentrations."""
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        return self._dirichlet.entropy()


class StudentT(Distribution):
    """loc + scale * z / sqrt(chi-squared / df) of normal numbers z."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """loc, NaN up to one degree of freedom."""
        return torch.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """scale**2 df / (df - 2), infinite up to 2, NaN up to 1."""
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return torch.where(self.df > 2, finite, torch.where(self.df > 1, math.inf, math.nan).to(finite.dtype))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        shape = tuple(self._extended_shape(sample_shape))
        z = torch.randn(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = 2 * gammas.standard_gamma((self.df / 2).expand(shape))
        return self.loc + self.scale * z * torch.rsqrt(chi2 / self.df)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        z, df = (value - self.loc) / self.scale, self.df
        norm = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        norm = norm + torch.lgamma(0.5 * df) - torch.lgamma(0.5 * (df + 1.0))
        return -0.5 * (df + 1.0) * torch.log1p(z**2.0 / df) - norm

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        df = self.df
        log_beta = torch.lgamma(0.5 * df) + math.lgamma(0.5) - torch.lgamma(0.5 * (df + 1))
        spread = torch.digamma(0.5 * (df + 1)) - torch.digamma(0.5 * df)
        return self.scale.log() + 0.5 * (df + 1) * spread + 0.5 * df.log() + log_beta


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared numbers, each over its degrees of freedom."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """df2 / (df2 - 2), NaN up to 2."""
        return torch.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        """(df1 - 2) / df1 * df2 / (df2 + 2), NaN up to df1 = 2."""
        value = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return torch.where(self.df1 > 2, value, math.nan)

    @property
    def variance(self) -> Any:
        """NaN up to df2 = 4."""
        a, b = self.df1, self.df2
        return torch.where(b > 4, 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        above, below = (gammas.standard_gamma((df / 2).expand(shape)) / df for df in (self.df1, self.df2))
        return above / below.clamp(min=torch.finfo(below.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        constant = torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b)
        return constant + a * ratio.log() + (a - 1) * value.log() - (a + b) * torch.log1p(ratio * value)


class VonMises(Distribution):
    """Angles around ``loc`` with a density in proportion to exp(concentration cos(x - loc))."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """loc."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        """The circular variance, 1 - I1 / I0."""
        k = self.concentration
        return 1 - torch.special.i1e(k) / torch.special.i0e(k)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Angles from -pi to pi, by inverting the distribution function with Newton's method, kept by bisection."""
        shape = tuple(self._extended_shape(sample_shape))
        with torch.no_grad():
            k = self.concentration.double().expand(shape)
            goal = torch.rand(shape, dtype=torch.float64, device=self.loc.device)
            low, high = torch.full_like(k, -math.pi), torch.full_like(k, math.pi)
            for _ in range(40):
                middle = (low + high) / 2
                below = _von_mises_share(middle, k) < goal
                low, high = torch.where(below, middle, low), torch.where(below, high, middle)
            angle = (low + high) / 2 + self.loc.double()
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        k = self.concentration
        return k * (torch.cos(value - self.loc) - 1) - math.log(2 * math.pi) - torch.special.i0e(k).log()


def _von_mises_share(angle: Any, k: Any) -> Any:
    """The probability of at most an angle: Gauss-Legendre quadrature of the density in 64 points from -pi on."""
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(64)
    # of a narrow peak the points lie where it is: within 12 deviations of 0
    reach = (12 / k.unsqueeze(-1).sqrt()).clamp(max=math.pi)
    start = -reach
    half = ((angle.unsqueeze(-1) - start) / 2).clamp(min=0.0)
    half = torch.minimum(half, reach)
    points = start + half * (torch.as_tensor(nodes, dtype=angle.dtype) + 1)
    density = torch.exp(k.unsqueeze(-1) * (torch.cos(points) - 1)) * torch.as_tensor(weights, dtype=angle.dtype)
    total = 2 * math.pi * torch.special.i0e(k)
    return (density * half).sum(-1) / total
