"""Divergences of Kullback and Leibler between distributions of the same family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.torch import functions, linalg
from jitgraph.torch.distributions.bernoulli import Bernoulli, Poisson
from jitgraph.torch.distributions.categorical import Categorical, OneHotCategorical
from jitgraph.torch.distributions.continuous import Beta, Dirichlet, Exponential, Gamma, Laplace, Uniform
from jitgraph.torch.distributions.distribution import sum_rightmost
from jitgraph.torch.distributions.independent import Independent
from jitgraph.torch.distributions.normal import LogNormal, MultivariateNormal, Normal

torch: Any = functions

_FORMULAS: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """The decorator of a function of two distributions that gives their divergence."""

    def registered(function: Any) -> Any:
        _FORMULAS[type_p, type_q] = function
        return function

    return registered


def kl_divergence(p: Any, q: Any) -> Any:
    """The mean of log p(x) - log q(x) for x drawn from p; NotImplementedError for pairs without a formula."""
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _FORMULAS:
                return _FORMULAS[a, b](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - torch.log(ratio))


@register_kl(LogNormal, LogNormal)
def _log_normal(p: Any, q: Any) -> Any:
    return _normal(p, q)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    factor = linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    shift = linalg.solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    squares = torch.sum(factor**2, dim=(-2, -1)) + torch.sum(shift**2, dim=(-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (squares - p.event_shape[0])


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = torch.where(q.probs == 0, float("inf"), terms)
    return torch.sum(torch.where(p.probs == 0, 0.0, terms), dim=-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    def part(a: Any, b: Any) -> Any:
        terms = torch.where(b == 0, float("inf"), a * (torch.log(a) - torch.log(b)))
        return torch.where(a == 0, 0.0, terms)

    return part(p.probs, q.probs) + part(1 - p.probs, 1 - q.probs)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (torch.log(p.rate) - torch.log(q.rate)) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - torch.log(ratio) - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, torch.abs(p.loc - q.loc)
    return -torch.log(ratio) + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    result = torch.log((q.high - q.low) / (p.high - p.low))
    return torch.where((q.low > p.low) | (q.high < p.high), float("inf"), result)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    powers = b * torch.log(p.rate / q.rate) + torch.lgamma(b) - torch.lgamma(a)
    return powers + (a - b) * torch.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = torch.sum(a, dim=-1)
    norms = torch.lgamma(total) - torch.lgamma(torch.sum(b, dim=-1))
    parts = torch.sum(torch.lgamma(a) - torch.lgamma(b), dim=-1)
    means = torch.digamma(a) - torch.digamma(total).unsqueeze(-1)
    return norms - parts + torch.sum((a - b) * means, dim=-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet(), q._dirichlet())


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) of Independent distributions with different numbers of event axes")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
