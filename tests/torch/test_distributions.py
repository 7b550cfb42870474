"""``torch.distributions`` against PyTorch, where it is installed: densities, moments, divergences, gradients, draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph.torch as ours

theirs = pytest.importorskip("torch")
A, B = [[0.5, 1.5, 2.0]], [[1.0], [0.25]]
PROBABILITIES = [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]
MATRIX = [[2.0, 0.5], [0.5, 1.0]]
# Name, parameters, and values of which the density is asked.
CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("Normal", (A, B), [[0.1], [-2.0]]),
    ("LogNormal", (A, B), [[0.1], [2.0]]),
    ("Laplace", (A, B), [[0.1], [2.0]]),
    ("Cauchy", (A, B), [[0.1], [2.0]]),
    ("Gumbel", (A, B), [[0.1], [2.0]]),
    ("Uniform", ([0.0, -1.0], [1.0, 3.0]), [0.5, 2.0]),
    ("Exponential", (A,), [[0.1], [2.0]]),
    ("Gamma", (A, B), [[0.1], [2.0]]),
    ("Beta", (A, B), [[0.1], [0.7]]),
    ("Poisson", (A,), [[0.0], [3.0]]),
    ("Bernoulli", ([0.2, 0.9],), [0.0, 1.0]),
    ("Geometric", ([0.2, 0.9],), [0.0, 3.0]),
    ("Categorical", (PROBABILITIES,), [0, 2]),
    ("OneHotCategorical", (PROBABILITIES,), [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    ("Dirichlet", (PROBABILITIES,), [[0.2, 0.2, 0.6], [0.1, 0.4, 0.5]]),
    ("MultivariateNormal", ([0.5, -1.0], MATRIX), [[0.1, 0.2], [1.0, 1.0]]),
]
NAMES = [name for name, _, _ in CASES]


def outcome(f: Any) -> Any:
    """An array; the name of the error where PyTorch has no such moment."""
    try:
        return np.asarray(f().detach())
    except NotImplementedError:
        return "NotImplementedError"


def measured(torch: Any, name: str, parameters: tuple[Any, ...], value: Any) -> dict[str, Any]:
    tensors = [torch.tensor(p, requires_grad=True) for p in parameters]
    d = getattr(torch.distributions, name)(*tensors)
    x = torch.tensor(value)
    density = d.log_prob(x)
    density.sum().backward()
    return {
        "shapes": (tuple(d.batch_shape), tuple(d.event_shape), tuple(d.sample((4,)).shape)),
        "dtype": str(d.sample().dtype),
        "log_prob": np.asarray(density.detach()),
        **{f"gradient {i}": np.asarray(t.grad) for i, t in enumerate(tensors)},
        "mean": outcome(lambda: d.mean),
        "variance": outcome(lambda: d.variance),
        "entropy": outcome(d.entropy) if name not in ("Poisson", "Binomial") else "",
        "divergence": outcome(lambda: torch.distributions.kl_divergence(d, d)),
    }


@pytest.mark.parametrize(("name", "parameters", "value"), CASES, ids=NAMES)
def test_densities_and_moments_are_those_of_pytorch(name: str, parameters: tuple[Any, ...], value: Any) -> None:
    expected, got = (measured(torch, name, parameters, value) for torch in (theirs, ours))
    for key, want in expected.items():
        if isinstance(got[key], str) and key == "divergence":
            assert name in ("Cauchy", "Gumbel", "Geometric"), "no formula"
        elif isinstance(want, np.ndarray):
            np.testing.assert_allclose(got[key], want, rtol=2e-5, atol=2e-6, err_msg=key)
        else:
            assert got[key] == want, key


@pytest.mark.parametrize(("name", "parameters", "value"), CASES, ids=NAMES)
def test_draws_have_the_mean(name: str, parameters: tuple[Any, ...], value: Any) -> None:
    ours.manual_seed(0)
    d = getattr(ours.distributions, name)(*map(ours.tensor, parameters))
    mean = np.asarray(d.mean)
    if np.isfinite(mean).all():
        deviation = np.sqrt(np.asarray(d.variance) / 4000)
        assert (np.abs(np.asarray(d.sample((4000,))).mean(0) - mean) < 5 * deviation + 1e-6).all()


def test_divergences_of_two() -> None:
    for name, p, q in (
        ("Normal", ([0.0, 1.0], [1.0, 2.0]), ([1.0, 1.0], [0.5, 3.0])),
        ("Categorical", (PROBABILITIES,), ([[0.5, 0.25, 0.25]],)),
        ("Bernoulli", ([0.2, 0.0],), ([0.5, 0.5],)),
        ("Gamma", ([1.0], [2.0]), ([3.0], [0.5])),
        ("Laplace", ([1.0], [2.0]), ([3.0], [0.5])),
        ("Exponential", ([1.0],), ([3.0],)),
        ("Poisson", ([1.0],), ([3.0],)),
        ("Beta", ([1.0], [2.0]), ([3.0], [0.5])),
        ("MultivariateNormal", ([0.5, -1.0], MATRIX), ([0.0, 1.0], [[1.0, 0.0], [0.0, 2.0]])),
    ):
        results = []
        for torch in (theirs, ours):
            kind = getattr(torch.distributions, name)
            a, b = (kind(*map(torch.tensor, parameters)) for parameters in (p, q))
            results.append(np.asarray(torch.distributions.kl_divergence(a, b)))
        np.testing.assert_allclose(results[1], results[0], rtol=2e-5, atol=1e-6, err_msg=name)


def test_parameters_and_values_out_of_their_domain_raise() -> None:
    d = ours.distributions
    with pytest.raises(ValueError, match="parameter scale"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="value argument"):
        d.Exponential(1.0).log_prob(ours.tensor(-1.0))
    with pytest.raises(ValueError, match="but not both"):
        d.Categorical()
    with pytest.raises(ValueError, match="not broadcastable"):
        d.Normal(ours.zeros(3), 1.0).log_prob(ours.zeros(2))
    assert float(d.Normal(0.0, -1.0, validate_args=False).mean) == 0


def test_events_of_several_axes() -> None:
    results = []
    for torch in (theirs, ours):
        d = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2, 3), torch.ones(2, 3)), 1)
        x = torch.ones(2, 3)
        results.append((tuple(d.event_shape), d.log_prob(x).tolist(), d.entropy().tolist(), str(d.expand((5, 2)))))
    assert results[0][0] == results[1][0] and results[0][3] == results[1][3]
    np.testing.assert_allclose(results[0][1:3], results[1][1:3], rtol=1e-6)


def test_a_reparameterised_draw_is_differentiable_in_a_trace() -> None:
    loc = ours.tensor([0.5, 1.0], requires_grad=True)

    @ours.compile
    def loss(loc: Any) -> Any:
        return ours.distributions.Normal(loc, 2.0).rsample((3,)).sum()

    loss(loc).backward()
    assert loc.grad.tolist() == [3.0, 3.0]
