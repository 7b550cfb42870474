"""torch.distributions: densities, moments, entropies and divergences of PyTorch; draws that have them."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph.torch as ours

PyTorch = importlib.util.find_spec("torch") and importlib.import_module("torch")
needs_pytorch = pytest.mark.skipif(not PyTorch, reason="PyTorch is not installed")


def t(torch: Any, *numbers: Any) -> Any:
    return torch.tensor(list(numbers), dtype=torch.float64)


def matrix(torch: Any) -> Any:
    return torch.tensor([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]], dtype=torch.float64)


UNIT, REAL, POSITIVE = [0.1, 0.5, 0.95], [-1.5, 0.2, 2.5], [0.3, 1.0, 4.0]
SIMPLEX = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]

CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {  # name -> (the distribution, values)
    "Normal": (lambda m: m.distributions.Normal(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 2.0, 1.0)), REAL),
    "Laplace": (lambda m: m.distributions.Laplace(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 2.0, 1.0)), REAL),
    "Cauchy": (lambda m: m.distributions.Cauchy(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 2.0, 1.0)), REAL),
    "Gumbel": (lambda m: m.distributions.Gumbel(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 2.0, 1.0)), REAL),
    "HalfNormal": (lambda m: m.distributions.HalfNormal(t(m, 0.5, 2.0, 1.0)), POSITIVE),
    "HalfCauchy": (lambda m: m.distributions.HalfCauchy(t(m, 0.5, 2.0, 1.0)), POSITIVE),
    "Uniform": (lambda m: m.distributions.Uniform(t(m, -2.0, 0.0, 1.0), t(m, 1.0, 2.0, 5.0)), REAL),
    "Exponential": (lambda m: m.distributions.Exponential(t(m, 0.5, 2.0, 1.0)), POSITIVE),
    "GeneralizedPareto": (
        lambda m: m.distributions.GeneralizedPareto(
            m.tensor([0.1, 0.1, 0.1]), m.tensor([1.0, 2.0, 9.0]), m.tensor([0.3, 0.0, -0.2])  # PyTorch's is of float32
        ),
        POSITIVE,
    ),
    "Gamma": (lambda m: m.distributions.Gamma(t(m, 0.5, 2.0, 7.0), t(m, 0.5, 2.0, 1.0)), POSITIVE),
    "Chi2": (lambda m: m.distributions.Chi2(t(m, 1.0, 3.0, 5.0)), POSITIVE),
    "InverseGamma": (lambda m: m.distributions.InverseGamma(t(m, 2.5, 3.0, 7.0), t(m, 0.5, 2.0, 1.0)), POSITIVE),
    "Beta": (lambda m: m.distributions.Beta(t(m, 1.5, 2.0, 7.0), t(m, 1.5, 2.5, 3.0)), UNIT),
    "Dirichlet": (lambda m: m.distributions.Dirichlet(t(m, 1.5, 2.0, 7.0)), SIMPLEX),
    "StudentT": (
        lambda m: m.distributions.StudentT(t(m, 1.5, 2.5, 7.0), t(m, 0.0, 1.0, 2.0), t(m, 1.0, 2.0, 0.5)), REAL
    ),
    "FisherSnedecor": (lambda m: m.distributions.FisherSnedecor(t(m, 3.0, 2.5, 7.0), t(m, 5.0, 9.0, 6.0)), POSITIVE),
    "VonMises": (lambda m: m.distributions.VonMises(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 20.0, 3.0)), REAL),
    "Bernoulli": (lambda m: m.distributions.Bernoulli(t(m, 0.2, 0.5, 0.9)), [0.0, 1.0, 1.0]),
    "Bernoulli of logits": (lambda m: m.distributions.Bernoulli(logits=t(m, -2.0, 0.5, 9.0)), [0.0, 1.0, 1.0]),
    "ContinuousBernoulli": (lambda m: m.distributions.ContinuousBernoulli(t(m, 0.2, 0.5, 0.9)), UNIT),
    "Geometric": (lambda m: m.distributions.Geometric(t(m, 0.2, 0.5, 0.9)), [0.0, 3.0, 1.0]),
    "Poisson": (lambda m: m.distributions.Poisson(t(m, 0.2, 5.5, 20.0)), [0.0, 3.0, 25.0]),
    "Binomial": (lambda m: m.distributions.Binomial(5, t(m, 0.2, 0.5, 0.9)), [0.0, 3.0, 5.0]),
    "NegativeBinomial": (lambda m: m.distributions.NegativeBinomial(5, t(m, 0.2, 0.5, 0.8)), [0.0, 3.0, 9.0]),
    "Categorical": (lambda m: m.distributions.Categorical(t(m, 1.0, 2.0, 5.0)), [0.0, 2.0, 1.0]),
    "Categorical of logits": (lambda m: m.distributions.Categorical(logits=t(m, 1.0, 2.0, -5.0)), [0.0, 2.0, 1.0]),
    "OneHotCategorical": (lambda m: m.distributions.OneHotCategorical(t(m, 1.0, 2.0, 5.0)), [[0.0, 1.0, 0.0]]),
    "Multinomial": (lambda m: m.distributions.Multinomial(4, t(m, 1.0, 2.0, 5.0)), [[0.0, 1.0, 3.0]]),
    "LogNormal": (lambda m: m.distributions.LogNormal(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 0.7, 1.0)), POSITIVE),
    "Pareto": (lambda m: m.distributions.Pareto(t(m, 0.1, 0.5, 1.0), t(m, 2.5, 3.0, 5.0)), POSITIVE),
    "Weibull": (lambda m: m.distributions.Weibull(t(m, 0.5, 2.0, 1.0), t(m, 1.5, 2.0, 3.0)), POSITIVE),
    "Kumaraswamy": (lambda m: m.distributions.Kumaraswamy(t(m, 1.5, 2.0, 3.0), t(m, 1.5, 2.5, 1.2)), UNIT),
    "LogisticNormal": (lambda m: m.distributions.LogisticNormal(t(m, 0.5, -1.0), t(m, 1.0, 0.5)), SIMPLEX),
    "RelaxedBernoulli": (lambda m: m.distributions.RelaxedBernoulli(t(m, 0.7), t(m, 0.2, 0.5, 0.9)), UNIT),
    "RelaxedOneHotCategorical": (
        lambda m: m.distributions.RelaxedOneHotCategorical(t(m, 0.7), t(m, 1.0, 2.0, 5.0)), SIMPLEX
    ),
    "MultivariateNormal": (
        lambda m: m.distributions.MultivariateNormal(t(m, 0.5, 1.0, -1.0), matrix(m)), [REAL, POSITIVE]
    ),
    "MultivariateNormal by precision": (
        lambda m: m.distributions.MultivariateNormal(t(m, 0.5, 1.0, -1.0), precision_matrix=matrix(m)), [REAL]
    ),
    "LowRankMultivariateNormal": (
        lambda m: m.distributions.LowRankMultivariateNormal(
            t(m, 0.5, 1.0, -1.0), matrix(m)[:, :2], t(m, 0.5, 1.0, 2.0)
        ),
        [REAL, POSITIVE],
    ),
    "Wishart": (
        lambda m: m.distributions.Wishart(m.tensor(4.5, dtype=m.float64), matrix(m)),
        [[[1.0, 0.1, 0.0], [0.1, 2.0, 0.2], [0.0, 0.2, 1.5]]],
    ),
    "LKJCholesky": (
        lambda m: m.distributions.LKJCholesky(3, m.tensor(1.7, dtype=m.float64)),
        [[[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]],
    ),
    "Independent": (
        lambda m: m.distributions.Independent(m.distributions.Normal(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 2.0, 1.0)), 1),
        [REAL, POSITIVE],
    ),
    "TransformedDistribution": (
        lambda m: m.distributions.TransformedDistribution(
            m.distributions.Normal(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 2.0, 1.0)),
            [m.distributions.AffineTransform(0.5, -2.0), m.distributions.SigmoidTransform()],
        ),
        UNIT,
    ),
    "MixtureSameFamily": (
        lambda m: m.distributions.MixtureSameFamily(
            m.distributions.Categorical(t(m, 0.2, 0.3, 0.5)),
            m.distributions.Normal(t(m, 0.5, 1.0, -1.0), t(m, 0.5, 2.0, 1.0)),
        ),
        REAL,
    ),
}  # fmt: skip

QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "log_prob": lambda d, x: d.log_prob(x),
    "cdf": lambda d, x: d.cdf(x),
    "icdf of cdf": lambda d, x: d.icdf(d.cdf(x)),
    "mean": lambda d, x: d.mean,
    "mode": lambda d, x: d.mode,
    "variance": lambda d, x: d.variance,
    "stddev": lambda d, x: d.stddev,
    "entropy": lambda d, x: d.entropy(),
    "perplexity": lambda d, x: d.perplexity(),
    "enumerate_support": lambda d, x: d.enumerate_support(),
    "shapes": lambda d, x: f"{[*d.batch_shape]} {[*d.event_shape]} {d.has_rsample} {d.has_enumerate_support}",
    "expand": lambda d, x: d.expand((2, *d.batch_shape)).log_prob(x),
}


def answer(torch: Any, name: str, question: str) -> Any:
    """What a distribution says, as an array; the class of the error where it does not."""
    make, values = CASES[name]
    try:
        result = QUESTIONS[question](
            make(torch), torch.tensor(values, dtype=torch.float32 if name == "GeneralizedPareto" else torch.float64)
        )
    except (NotImplementedError, ValueError) as error:
        return type(error).__name__
    return result if isinstance(result, str) else result.detach().numpy()


OTHER = {  # where PyTorch's answer is not the right one
    ("Gumbel", "icdf of cdf"): "the base of its transform leaves out the ends of the unit interval",
    ("Kumaraswamy", "mode"): "its formula takes the logarithm of a negative number",
}


@needs_pytorch
@pytest.mark.parametrize("name", CASES)
def test_distributions_say_what_those_of_pytorch_say(name: str) -> None:
    wrong = []
    for question in QUESTIONS:
        actual, due = answer(ours, name, question), answer(PyTorch, name, question)
        if (name, question) in OTHER:
            continue
        if isinstance(due, str):  # its shapes, or an error where there may be an answer here
            if question == "shapes" and actual != due:
                wrong.append((question, actual, due))
        elif isinstance(actual, str) or actual.shape != due.shape or not np.allclose(actual, due, 1e-5, 1e-7, True):
            wrong.append((question, actual, due))
    assert not wrong


LOG_PROBS = {  # of PyTorch 2.13
    "Normal": [-8.22579135, -1.69208571, -7.04393853],
    "Laplace": [-4.0, -1.78629436, -4.19314718],
    "Cauchy": [-3.28479605, -1.98629707, -3.72872744],
    "Gumbel": [-49.9050029, -1.78497188, -3.53019738],
    "HalfNormal": [0.287355828, -1.04393853, -8.22579135],
    "HalfCauchy": [-0.0659202245, -1.36787344, -3.28479605],
    "Uniform": [-1.09861229, -0.693147181, -1.38629436],
    "Exponential": [-0.843147181, -1.30685282, -4.0],
    "GeneralizedPareto": [-0.252498597, -1.14314723, -2.55984211],
    "Gamma": [-0.466952131, -0.613705639, -2.26148505],
    "Chi2": [-0.466952131, -1.41893853, -1.93810928],
    "InverseGamma": [0.529687327, -0.613705639, -17.9196061],
    "Beta": [-0.269261148, 0.436185749, -0.769795226],
    "Dirichlet": [1.3145814, -7.79273993],
    "StudentT": [-2.2220137, -1.81834871, -0.795512541],
    "FisherSnedecor": [-0.402423755, -0.999370138, -3.5012023],
    "VonMises": [-2.10750018, -5.49335338, -6.23255475],
    "Bernoulli": [-0.223143551, -0.693147181, -0.105360516],
    "Bernoulli of logits": [-0.126928011, -0.474076984, -0.00012340219],
    "ContinuousBernoulli": [0.475686896, 0.0, 0.795116815],
    "Geometric": [-1.60943791, -2.77258872, -2.40794561],
    "Poisson": [-0.2, -2.17751519, -3.11029838],
    "Binomial": [-1.11571776, -1.16315081, -0.526802578],
    "NegativeBinomial": [-1.11571776, -1.98982938, -3.48319898],
    "Categorical": [-2.07944154, -0.470003629, -1.38629436],
    "Categorical of logits": [-1.3139281, -7.3139281, -0.313928105],
    "OneHotCategorical": [-1.38629436],
    "Multinomial": [-1.41001089],
    "LogNormal": [-4.82886518, -1.58267175, -5.15243328],
    "Pareto": [-0.626267185, -0.980829253, -6.70832825],
    "Weibull": [0.378441475, -0.943147181, -60.128799],
    "Kumaraswamy": [-0.356429117, 0.484767623, 0.788839963],
    "LogisticNormal": [1.17144477, -6.11486178],
    "RelaxedBernoulli": [0.659223831, -0.356674944, 1.29942786],
    "RelaxedOneHotCategorical": [-0.0466076471, -1.20304981],
    "MultivariateNormal": [-11.0852576, -16.1288651],
    "MultivariateNormal by precision": [-12.4098409],
    "LowRankMultivariateNormal": [-8.11069962, -10.6469034],
    "Wishart": [-10.0256343],
    "LKJCholesky": [-1.69653899],
    "Independent": [-16.9618156, -15.3368156],
    "TransformedDistribution": [0.0487214425, -0.989251033, 1.4102491],
    "MixtureSameFamily": [-1.59217007, -1.25308116, -3.08652194],
}


@pytest.mark.parametrize("name", CASES)
def test_densities_are_those_of_pytorch(name: str) -> None:
    actual = answer(ours, name, "log_prob")
    np.testing.assert_allclose(actual.ravel(), LOG_PROBS[name], rtol=1e-5, atol=1e-7)


SAMPLED = [name for name in CASES if name not in ("Cauchy", "HalfCauchy", "LKJCholesky")]


@pytest.mark.parametrize("name", SAMPLED)
def test_draws_have_the_mean_and_the_spread(name: str) -> None:
    ours.manual_seed(1)
    d = CASES[name][0](ours)
    drawn = d.sample((4000,)).double()
    assert tuple(drawn.shape) == (4000, *d.batch_shape, *d.event_shape) and not drawn.requires_grad
    d._validate_sample(drawn)
    try:
        mean, variance = d.mean.double(), d.variance.double()
    except NotImplementedError:
        return
    if name == "VonMises":  # of angles, whose variance is circular
        np.testing.assert_allclose(1 - (drawn - d.loc).cos().mean(0).numpy(), variance.numpy(), atol=0.05)
        return
    usable = (ours.isfinite(mean) & ours.isfinite(variance)).numpy()
    error = ((drawn.mean(0) - mean).abs() / (variance / 4000).sqrt()).numpy()[usable]
    assert (error < 5).all(), error


REPARAMETERISED = (
    *("Normal", "Laplace", "Gumbel", "HalfNormal", "Uniform", "Exponential", "Gamma", "InverseGamma", "Beta"),
    *("Dirichlet", "FisherSnedecor", "LogNormal", "Pareto", "Weibull", "Kumaraswamy"),
    *("MultivariateNormal", "LowRankMultivariateNormal", "Independent"),
)


@pytest.mark.parametrize("name", REPARAMETERISED)
def test_gradients_of_draws_are_those_of_the_mean(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves: list[Any] = []

    def leaf(torch: Any, *numbers: Any) -> Any:
        leaves.append(torch.tensor(list(numbers), dtype=torch.float64).requires_grad_())
        return leaves[-1]

    monkeypatch.setitem(globals(), "t", leaf)
    ours.manual_seed(3)
    d = CASES[name][0](ours)
    weights = ours.linspace(1, 2, d.mean.numel(), dtype=ours.float64).reshape(d.mean.shape)
    due = ours.autograd.grad((d.mean * weights).sum(), leaves, retain_graph=True, materialize_grads=True)
    sums = (d.rsample((10, 1000)) * weights).reshape(10, -1).sum(1) / 1000
    draws = [ours.autograd.grad(each, leaves, retain_graph=True, materialize_grads=True) for each in sums]
    for number, exact in enumerate(due):
        column = np.stack([draw[number].numpy() for draw in draws])
        error = np.abs(column.mean(0) - exact.numpy())
        assert (error <= 6 * column.std(0, ddof=1) / math.sqrt(10) + 1e-9).all(), (error, column.std(0))


def test_gradients_reach_the_concentration_of_gamma_numbers() -> None:
    """x = F^-1(u; a): the derivative that keeps the share of the distribution; its mean is d mean / da = 1."""
    ours.manual_seed(0)
    values = ours.tensor([0.05, 0.8, 3.0, 50.0, 2000.0], dtype=ours.float64)
    concentration = values[:, None].expand(5, 4000).clone().requires_grad_()
    ours.distributions.Gamma(concentration, ours.ones(5, 4000, dtype=ours.float64)).rsample().sum().backward()
    for a, slopes in zip(values.tolist(), concentration.grad.numpy(), strict=True):
        assert abs(slopes.mean() - 1) < 5 * slopes.std() / math.sqrt(4000) + 1e-3, a


@needs_pytorch
def test_gradients_of_gamma_and_dirichlet_draws_are_those_of_pytorch() -> None:
    a = np.array([0.3, 0.9, 2.5, 9.0, 100.0])
    from jitgraph.torch.distributions import gammas

    x = np.random.default_rng(0).gamma(a, size=(50, 5))
    mine = gammas._slope(ours.tensor(np.broadcast_to(a, x.shape).copy()), ours.tensor(x)).numpy()
    due = PyTorch._standard_gamma_grad(PyTorch.tensor(np.broadcast_to(a, x.shape).copy()), PyTorch.tensor(x)).numpy()
    np.testing.assert_allclose(mine, due, rtol=2e-3)


DIVERGENCES: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "Normal": lambda d: (d.Normal(0.5, 2.0), d.Normal(-1.0, 1.5)),
    "HalfNormal": lambda d: (d.HalfNormal(2.0), d.HalfNormal(1.5)),
    "LogNormal": lambda d: (d.LogNormal(0.5, 2.0), d.LogNormal(-1.0, 1.5)),
    "Laplace": lambda d: (d.Laplace(0.5, 2.0), d.Laplace(-1.0, 1.5)),
    "Cauchy": lambda d: (d.Cauchy(0.5, 2.0), d.Cauchy(-1.0, 1.5)),
    "Gumbel": lambda d: (d.Gumbel(0.5, 2.0), d.Gumbel(-1.0, 1.5)),
    "Uniform": lambda d: (d.Uniform(0.5, 2.0), d.Uniform(-1.0, 3.5)),
    "Uniform outside": lambda d: (d.Uniform(0.5, 2.0), d.Uniform(1.0, 3.5)),
    "Exponential": lambda d: (d.Exponential(0.5), d.Exponential(2.0)),
    "Gamma": lambda d: (d.Gamma(0.5, 2.0), d.Gamma(3.0, 1.5)),
    "Exponential and Gamma": lambda d: (d.Exponential(0.5), d.Gamma(3.0, 1.5)),
    "Gamma and Exponential": lambda d: (d.Gamma(3.0, 1.5), d.Exponential(0.5)),
    "Beta": lambda d: (d.Beta(0.5, 2.0), d.Beta(3.0, 1.5)),
    "Pareto": lambda d: (d.Pareto(2.0, 2.0), d.Pareto(1.0, 1.5)),
    "Bernoulli": lambda d: (d.Bernoulli(0.3), d.Bernoulli(0.8)),
    "Bernoulli at the end": lambda d: (d.Bernoulli(1.0), d.Bernoulli(0.8)),
    "Bernoulli of what is impossible": lambda d: (d.Bernoulli(0.3), d.Bernoulli(0.0)),
    "Binomial": lambda d: (d.Binomial(5, 0.3), d.Binomial(5, 0.8)),
    "Geometric": lambda d: (d.Geometric(0.3), d.Geometric(0.8)),
    "Poisson": lambda d: (d.Poisson(0.3), d.Poisson(4.0)),
    "ContinuousBernoulli": lambda d: (d.ContinuousBernoulli(0.3), d.ContinuousBernoulli(0.8)),
    "Uniform and Normal": lambda d: (d.Uniform(0.5, 2.0), d.Normal(-1.0, 3.5)),
    "Laplace and Normal": lambda d: (d.Laplace(0.5, 2.0), d.Normal(-1.0, 3.5)),
}
PAIRS = {  # of two cases' parameters
    "Dirichlet": ("Dirichlet", lambda m: m.distributions.Dirichlet(t(m, 2.5, 1.0, 0.7))),
    "Categorical": ("Categorical", lambda m: m.distributions.Categorical(t(m, 2.0, 1.0, 0.5))),
    "OneHotCategorical": ("OneHotCategorical", lambda m: m.distributions.OneHotCategorical(t(m, 2.0, 1.0, 0.5))),
    "MultivariateNormal": (
        "MultivariateNormal",
        lambda m: m.distributions.MultivariateNormal(t(m, 0.0, 0.0, 0.5), scale_tril=matrix(m).tril()),
    ),
    "LowRank": ("LowRankMultivariateNormal", CASES["MultivariateNormal"][0]),
    "Independent": (
        "Independent",
        lambda m: m.distributions.Independent(m.distributions.Normal(t(m, 0.0, 0.0, 0.0), t(m, 1.0, 1.0, 1.0)), 1),
    ),
    "Wishart": ("Wishart", lambda m: m.distributions.Wishart(m.tensor(5.5, dtype=m.float64), matrix(m) * 2)),
}  # fmt: skip


@needs_pytorch
@pytest.mark.parametrize("name", [*DIVERGENCES, *PAIRS])
def test_divergences_are_those_of_pytorch(name: str) -> None:
    results = []
    for torch in (ours, PyTorch):
        if name in DIVERGENCES:
            p, q = DIVERGENCES[name](torch.distributions)
        else:
            p, q = CASES[PAIRS[name][0]][0](torch), PAIRS[name][1](torch)
        results.append(torch.distributions.kl_divergence(p, q).detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["Normal", "Gamma", "Beta", "Exponential", "Laplace", "Gumbel", "Poisson", "Bernoulli"]
)
def test_divergences_are_means_over_draws(name: str) -> None:
    ours.manual_seed(2)
    p, q = DIVERGENCES[name](ours.distributions)
    x = p.sample((20000,))
    differences = (p.log_prob(x) - q.log_prob(x)).double().numpy()
    due = ours.distributions.kl_divergence(p, q).item()
    assert abs(differences.mean() - due) < 5 * differences.std() / math.sqrt(20000)


def test_a_divergence_that_nobody_knows_is_named_and_may_be_registered() -> None:
    d = ours.distributions
    with pytest.raises(NotImplementedError, match="Normal and q type Poisson"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0))

    class Mine(d.Normal):  # type: ignore[name-defined, misc]
        pass

    d.register_kl(Mine, Mine)(lambda p, q: p.loc * 0 + 7)
    assert d.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0)).item() == 7
    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(1.0, 1.0)).item() == 0.5


TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "exp": (lambda d: d.ExpTransform(), REAL),
    "power": (lambda d: d.PowerTransform(2.0), POSITIVE),
    "sigmoid": (lambda d: d.SigmoidTransform(), REAL),
    "softplus": (lambda d: d.SoftplusTransform(), REAL),
    "tanh": (lambda d: d.TanhTransform(), REAL),
    "affine": (lambda d: d.AffineTransform(1.0, -2.0), REAL),
    "affine of vectors": (lambda d: d.AffineTransform(1.0, -2.0, event_dim=1), [REAL]),
    "composed": (lambda d: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.TanhTransform()]), REAL),
    "composed with an axis": (lambda d: d.ComposeTransform([d.TanhTransform(), d.StickBreakingTransform()]), [REAL]),
    "independent": (lambda d: d.IndependentTransform(d.ExpTransform(), 1), [REAL, POSITIVE]),
    "stick breaking": (lambda d: d.StickBreakingTransform(), [REAL, POSITIVE]),
    "correlations": (lambda d: d.CorrCholeskyTransform(), [REAL, UNIT]),
    "reshape": (lambda d: d.ReshapeTransform((3,), (3, 1)), [REAL]),
    "cat": (lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], -1, [1, 2]), [REAL]),
    "stack": (lambda d: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 0), [REAL, REAL]),
    "inverse": (lambda d: d.SigmoidTransform().inv, UNIT),
    "quantiles": (lambda d: d.CumulativeDistributionTransform(d.Normal(0.0, 1.0)), REAL),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_inverted_and_say_their_volume(name: str) -> None:
    make, values = TRANSFORMS[name]
    transform, x = make(ours.distributions), ours.tensor(values, dtype=ours.float64)
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-5, atol=1e-6)
    assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
    if PyTorch:
        theirs, given = make(PyTorch.distributions), PyTorch.tensor(values, dtype=PyTorch.float64)
        due = theirs(given)
        np.testing.assert_allclose(y.numpy(), due.numpy(), rtol=1e-6, atol=1e-9)
        actual = transform.log_abs_det_jacobian(x, y).numpy()
        np.testing.assert_allclose(actual, theirs.log_abs_det_jacobian(given, due).numpy(), rtol=1e-6, atol=1e-7)
    elif y.shape == x.shape and y.dim() == 1:
        slopes = ours.vmap(ours.func.grad(lambda v: transform(v)))(x)
        volume = transform.log_abs_det_jacobian(x, y)
        np.testing.assert_allclose(volume.numpy(), slopes.abs().log().numpy(), rtol=1e-6, atol=1e-9)


def test_constraints_are_reached_from_free_numbers() -> None:
    d = ours.distributions
    c = d.constraints
    for constraint in (
        c.positive,
        c.unit_interval,
        c.greater_than(2.0),
        c.less_than(-1.0),
        c.interval(-1.0, 3.0),
        c.real,
    ):
        for registry in (d.biject_to, d.transform_to):
            assert constraint.check(registry(constraint)(ours.randn(50))).all()
    for constraint in (c.lower_cholesky, c.positive_definite):
        assert constraint.check(d.transform_to(constraint)(ours.randn(4, 3, 3, dtype=ours.float64))).all()
    assert c.simplex.check(d.transform_to(c.simplex)(ours.randn(4, 3))).all()
    assert c.corr_cholesky.check(d.biject_to(c.corr_cholesky)(ours.randn(4, 3, dtype=ours.float64))).all()


ERRORS: dict[str, Callable[[Any], Any]] = {
    "scale": lambda d: d.Normal(0.0, -1.0),
    "probability": lambda d: d.Bernoulli(1.5),
    "both": lambda d: d.Bernoulli(0.5, 0.5),
    "neither": lambda d: d.Categorical(),
    "bounds": lambda d: d.Uniform(1.0, 0.0),
    "value": lambda d: d.Exponential(1.0).log_prob(ours.tensor(-1.0)),
    "category": lambda d: d.Categorical(ours.ones(3)).log_prob(ours.tensor(3)),
    "shape": lambda d: d.Normal(ours.zeros(3), 1.0).log_prob(ours.zeros(2)),
    "matrix": lambda d: d.MultivariateNormal(ours.zeros(2), -ours.eye(2)),
    "two matrices": lambda d: d.MultivariateNormal(ours.zeros(2), ours.eye(2), ours.eye(2)),
    "too many axes": lambda d: d.Independent(d.Normal(0.0, 1.0), 1),
}


@pytest.mark.parametrize("name", ERRORS)
def test_parameters_and_values_outside_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ERRORS[name](ours.distributions)


def test_a_policy_gradient_and_an_elbo_are_compiled() -> None:
    d = ours.distributions

    @ours.compile
    def elbo(loc: Any, scale: Any, x: Any) -> Any:
        q = d.Normal(loc, scale)
        return (d.Normal(loc * 2, 1.0).log_prob(x) - d.kl_divergence(q, d.Normal(0.0, 1.0))).sum()

    loc, scale = ours.tensor([0.5, 1.0]).requires_grad_(), ours.tensor([1.0, 2.0])
    elbo(loc, scale, ours.ones(2)).backward()
    np.testing.assert_allclose(loc.grad.numpy(), [-0.5, -3.0], rtol=1e-6)

    logits = ours.tensor([[0.1, 0.2, 0.7]]).requires_grad_()
    policy = d.Categorical(logits=logits)
    action = policy.sample()
    loss = -(policy.log_prob(action) * 2.0).sum() - 0.01 * policy.entropy().sum()
    loss.backward()
    assert logits.grad is not None and abs(logits.grad.sum().item()) < 1e-6
