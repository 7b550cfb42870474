"""Random tensors from a counter: a stream is the same eager, traced, on any target.

Numbers of a distribution that has parameters carry gradients to those that scale and move them (``mean``, ``std``,
``low``, ``high``, ``scale``), and none to those that decide by comparisons (``p``, ``rate``, ``concentration``).
"""

from __future__ import annotations

from jitgraph import migration_hints
from jitgraph.random.basic import bernoulli, normal, permutation, randint, uniform
from jitgraph.random.generator import Generator, get_state, next_key, seed, set_state
from jitgraph.runtime import imports

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "get_state",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multinomial",
    "negative_binomial",
    "next_key",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "rayleigh",
    "seed",
    "set_state",
    "standard_t",
    "truncated_normal",
    "uniform",
    "weibull",
]

_HOMES = {  # what few programs draw is loaded when it is first asked for
    **dict.fromkeys(("exponential", "gumbel", "truncated_normal"), "continuous"),
    **dict.fromkeys(("beta", "dirichlet", "gamma"), "gammas"),
    **dict.fromkeys(
        (
            *("cauchy", "chisquare", "f", "geometric", "laplace", "logistic", "lognormal", "pareto", "rayleigh"),
            *("standard_t", "weibull"),
        ),
        "transformed",
    ),
    **dict.fromkeys(("binomial", "negative_binomial"), "binomials"),
    **dict.fromkeys(("categorical", "choice", "multinomial"), "choices"),
    "poisson": "poissons",
    **dict.fromkeys(("rand", "rand_like", "randint_like", "randn", "randn_like", "randperm"), "forms"),
}

__dir__ = imports.listing(__name__)
__getattr__ = imports.attributes(
    __name__, _HOMES, lambda name: migration_hints.advice(name, migration_hints.RANDOM, owner="jg.random")
)
