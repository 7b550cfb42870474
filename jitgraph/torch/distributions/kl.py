"""``torch.distributions.kl``: Kullback-Leibler divergences, by the classes of both distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import jitgraph.torch as torch
from jitgraph.torch.distributions import continuous, discrete, multivariate, positive, transformed

_FORMULAS: Final[dict[tuple[type, type], Callable[[Any, Any], Any]]] = {}
_EULER: Final = 0.57721566490153286060


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]:
    """A decorator: the function computes the divergence of the first class from the second."""
    if not isinstance(type_p, type) or not isinstance(type_q, type):
        raise TypeError(f"Expected type_p and type_q to be classes but got {type_p} and {type_q}")

    def decorator(fun: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _FORMULAS[type_p, type_q] = fun
        return fun

    return decorator


def kl_divergence(p: Any, q: Any) -> Any:
    """The expected log(p / q) under p; NotImplementedError for classes without a formula."""
    fitting = [
        (type(p).__mro__.index(a), type(q).__mro__.index(b), formula)
        for (a, b), formula in _FORMULAS.items()
        if isinstance(p, a) and isinstance(q, b)
    ]
    if not fitting:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return min(fitting, key=lambda found: found[:2])[2](p, q)


@register_kl(discrete.Bernoulli, discrete.Bernoulli)
def _bernoullis(p: Any, q: Any) -> Any:
    def term(a: Any, log_b: Any) -> Any:
        return torch.xlogy(a, a) - torch.where(a == 0, torch.zeros_like(a), a * log_b)

    log_q, log_not_q = (-torch.logaddexp(x, torch.zeros_like(x)) for x in (-q.logits, q.logits))
    return term(p.probs, torch.where(q.probs == 0, -math.inf, log_q)) + term(
        1 - p.probs, torch.where(q.probs == 1, -math.inf, log_not_q)
    )


@register_kl(discrete.Binomial, discrete.Binomial)
def _binomials(p: Any, q: Any) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    value = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, math.inf, value)


@register_kl(discrete.Geometric, discrete.Geometric)
def _geometrics(p: Any, q: Any) -> Any:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(discrete.Poisson, discrete.Poisson)
def _poissons(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(discrete.Categorical, discrete.Categorical)
def _categoricals(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    t = torch.where(q.probs == 0, math.inf, t)
    return torch.where(p.probs == 0, 0.0, t).sum(-1)


@register_kl(discrete.OneHotCategorical, discrete.OneHotCategorical)
def _one_hots(p: Any, q: Any) -> Any:
    return _categoricals(p._categorical, q._categorical)


@register_kl(continuous.Normal, continuous.Normal)
def _normals(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(continuous.HalfNormal, continuous.HalfNormal)
def _half_normals(p: Any, q: Any) -> Any:
    return _normals(p.base_dist, q.base_dist)


@register_kl(continuous.Laplace, continuous.Laplace)
def _laplaces(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(continuous.Cauchy, continuous.Cauchy)
def _cauchys(p: Any, q: Any) -> Any:
    above = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return above.log() - (4 * p.scale * q.scale).log()


@register_kl(continuous.Gumbel, continuous.Gumbel)
def _gumbels(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    offset = (p.loc - q.loc) / q.scale
    moment = torch.exp(-offset + torch.lgamma(ratio + 1))
    return ratio * _EULER - (p.scale.log() - q.scale.log()) + moment - (1 + _EULER) + offset


@register_kl(continuous.Uniform, continuous.Uniform)
def _uniforms(p: Any, q: Any) -> Any:
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, value)


@register_kl(continuous.Exponential, continuous.Exponential)
def _exponentials(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(positive.Gamma, positive.Gamma)
def _gammas(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + torch.lgamma(b)
        - torch.lgamma(a)
        + (a - b) * torch.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(continuous.Exponential, positive.Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    return _gammas(positive.Gamma(torch.ones_like(p.rate), p.rate, validate_args=False), q)


@register_kl(positive.Gamma, continuous.Exponential)
def _gamma_exponential(p: Any, q: Any) -> Any:
    return _gammas(p, positive.Gamma(torch.ones_like(q.rate), q.rate, validate_args=False))


@register_kl(positive.Dirichlet, positive.Dirichlet)
def _dirichlets(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = torch.lgamma(total) - torch.lgamma(b.sum(-1)) - (torch.lgamma(a) - torch.lgamma(b)).sum(-1)
    return norms + ((a - b) * (torch.digamma(a) - torch.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(positive.Beta, positive.Beta)
def _betas(p: Any, q: Any) -> Any:
    return _dirichlets(p._dirichlet, q._dirichlet)


@register_kl(multivariate.MultivariateNormal, multivariate.MultivariateNormal)
def _multivariate_normals(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n = p.event_shape[0]
    trace = multivariate.solved_lower(q.scale_tril, p.scale_tril).square().sum((-2, -1))
    distance = multivariate.squared_distance(q.scale_tril, q.loc - p.loc)
    log_dets = multivariate.half_log_det(q.scale_tril) - multivariate.half_log_det(p.scale_tril)
    return log_dets + 0.5 * (trace + distance - n)


def _low_rank(p: Any, q: Any) -> Any:
    def whole(d: Any) -> Any:
        return multivariate.MultivariateNormal(d.loc, scale_tril=d.scale_tril, validate_args=False)

    return _multivariate_normals(whole(p), whole(q))


for _classes in (
    (multivariate.LowRankMultivariateNormal, multivariate.LowRankMultivariateNormal),
    (multivariate.LowRankMultivariateNormal, multivariate.MultivariateNormal),
    (multivariate.MultivariateNormal, multivariate.LowRankMultivariateNormal),
):
    register_kl(*_classes)(_low_rank)


@register_kl(transformed.Independent, transformed.Independent)
def _independents(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return transformed.summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(transformed.TransformedDistribution, transformed.TransformedDistribution)
def _transformeds(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(transformed.Pareto, transformed.Pareto)
def _paretos(p: Any, q: Any) -> Any:
    scale, alpha = p.scale / q.scale, q.alpha / p.alpha
    value = q.alpha * scale.log() - alpha.log() + alpha - 1
    return torch.where(p.scale < q.scale, math.inf, value)


@register_kl(continuous.Uniform, continuous.Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    square = p.variance + (p.mean - q.loc).pow(2)
    return -p.entropy() + 0.5 * math.log(2 * math.pi) + q.scale.log() + square / (2 * q.scale.pow(2))


@register_kl(continuous.Laplace, continuous.Normal)
@register_kl(continuous.Gumbel, continuous.Normal)
@register_kl(continuous.Exponential, continuous.Normal)
@register_kl(positive.Gamma, continuous.Normal)
def _any_normal(p: Any, q: Any) -> Any:
    """Of any distribution with an entropy and two moments."""
    return _uniform_normal(p, q)


@register_kl(discrete.ContinuousBernoulli, discrete.ContinuousBernoulli)
def _continuous_bernoullis(p: Any, q: Any) -> Any:
    flips = p.mean * (p.logits - q.logits)
    return flips + p._log_norm() + torch.log1p(-p.probs) - q._log_norm() - torch.log1p(-q.probs)


@register_kl(multivariate.Wishart, multivariate.Wishart)
def _wisharts(p: Any, q: Any) -> Any:
    n = p.event_shape[-1]
    ratio = multivariate.solved_lower(q.scale_tril, p.scale_tril)
    half = p.df / 2
    offsets = torch.arange(n, dtype=half.dtype) / 2
    digammas = torch.digamma(half.unsqueeze(-1) - offsets).sum(-1)
    log_dets = multivariate.half_log_det(q.scale_tril) - multivariate.half_log_det(p.scale_tril)
    return (
        q.df * log_dets
        + half * (ratio.square().sum((-2, -1)) - n)
        + torch.mvlgamma(q.df / 2, n)
        - torch.mvlgamma(half, n)
        + (p.df - q.df) / 2 * digammas
    )
