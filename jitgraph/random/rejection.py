"""Gamma, beta, Dirichlet, Poisson and binomial numbers: drawn by rejection where no distribution function serves."""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import ShapeError
from jitgraph.ir import dims
from jitgraph.ir.op import Op
from jitgraph.random.basic import at, numbers, parameters_of, require
from jitgraph.random.generator import Generator, step_of, stream_key
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.creation import full_like, shape_of, zeros_like
from jitgraph.tensor.functions.elementwise import abs, exp, floor, isfinite, log, log1p, minimum, sigmoid, sqrt, where
from jitgraph.tensor.functions.manipulation import broadcast_to
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.reductions import softmax
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tracing.record.control_flow import while_loop

# ----------------------------------------------------------------------
# Numbers drawn by rejection: candidates for all elements until each has one that is accepted.


def accepted(candidate: Op, parameter: Tensor, samples: Tensor, key: Tensor, step: Tensor) -> Tensor:
    """``samples`` with its negative elements replaced by the first ``candidate(parameter, key)`` that is not negative.

    Each turn takes the words behind those of the one before: ``step`` is added to the key.
    """

    def again(state: Any) -> Any:
        key, samples = state
        return key + step, where(samples < 0, wrap(candidate(parameter.value, key.value)), samples)

    return while_loop(lambda state: any_of(state[1] < 0), again, (key, samples))[1]  # type: ignore[no-any-return]


# ----------------------------------------------------------------------
# Gamma numbers, and those that are made of them: beta and Dirichlet.
#
# Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables": candidates are drawn for all
# elements until each has one that is accepted, which is so for 95 of 100 at least. A concentration below 1 is raised by
# 1 and the result multiplied by u ** (1 / concentration); that factor is kept as a logarithm, for it may underflow.


def _parts(name: str, concentration: Tensor, generator: Generator | None, device: str | None) -> tuple[Tensor, Tensor]:
    """Gamma numbers as factors: one of a concentration of 1 or more, and the logarithm of the other, at most 0."""
    usable = (concentration > 0) & isfinite(concentration)
    require(usable, f"{name}: every concentration must be positive and finite")
    small = concentration < 1
    raised = where(usable, where(small, concentration + 1, concentration), 1)  # what is refused must end the loop, too
    shape, dtype = concentration.value.shape, concentration.dtype
    words = dims.product(shape) * (6 if dtype == dtypes.float64 else 3)
    step = wrap(at(device, step_of(words)))
    key = wrap(at(device, stream_key(generator)))
    factor = wrap(numbers(ops.exponential, key.value, shape, dtype))
    samples = accepted(ops.gamma_candidate, raised, full_like(raised, -1), key + step, step)
    return samples, where(small, -factor / where(usable, concentration, 1), 0)


@array_function
def gamma(
    concentration: TensorLike,
    shape: Any = None,
    *,
    scale: TensorLike = 1.0,
    dtype: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """Gamma numbers of this concentration (numbers or tensors) times ``scale``, of ``shape`` or that of the parameters.

    ValueError for a concentration that is not positive and finite.
    """
    _, kind, (alpha,), device = parameters_of(shape, dtype, concentration)
    samples, logarithm = _parts("gamma", alpha, generator, device)
    return (samples * exp(logarithm) * scale).astype(kind)  # type: ignore[no-any-return]


@array_function
def beta(
    a: TensorLike, b: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Beta numbers of these two concentrations, in [0, 1]; ValueError for one that is not positive and finite."""
    _, kind, (left, right), device = parameters_of(shape, dtype, a, b)
    logarithms = [log(draw) + power for draw, power in (_parts("beta", x, generator, device) for x in (left, right))]
    return sigmoid(logarithms[0] - logarithms[1]).astype(kind)  # type: ignore[no-any-return]


@array_function
def dirichlet(
    concentration: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Dirichlet numbers: along the last axis, that of ``concentration``, they sum to 1.

    ``shape`` is what stands before that axis, by default what stands there in ``concentration``. ValueError for a
    concentration that is not positive and finite.
    """
    _, kind, (alpha,), device = parameters_of(None, dtype, concentration)
    if not alpha.ndim:
        raise ShapeError("dirichlet: the concentrations stand along an axis; these are 0-d")
    if shape is not None:
        alpha = broadcast_to(alpha, (*shape_of(shape), alpha.shape[-1]))
    samples, power = _parts("dirichlet", alpha, generator, device)
    return softmax(log(samples) + power, axis=-1).astype(kind)  # type: ignore[no-any-return]


# ----------------------------------------------------------------------
# Poisson numbers: by the distribution function for rates below 10, by rejection from there.
#
# Sources: Devroye 1986, "Non-uniform random variate generation", X.3.3, sequential search; Hoermann 1993, "The
# transformed rejection method for generating Poisson random variables", PTRS.

_SMALL: Final = 10.0
_MOST: Final = 2.0**62
_LAST: Final = 200.0  # no float64 uniform reaches it for a rate below 10


@array_function
def poisson(rate: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of this rate, int64 unless ``dtype`` is given, of ``shape`` or that of ``rate``.

    ValueError for a rate that does not lie between 0 and 2**62.
    """
    sizes, _, (wide,), device = parameters_of(shape, dtypes.float64, rate)
    usable = (wide >= 0) & (wide <= _MOST)
    require(usable, "poisson: every rate must lie between 0 and 2**62")
    key = wrap(at(device, stream_key(generator)))
    unit = wrap(numbers(ops.uniform, key.value, sizes, dtypes.float64))
    begin = key + wrap(at(device, step_of(dims.product(sizes) * 2)))
    small = wide < _SMALL
    counts = where(small, _searched(where(usable & small, wide, 0), unit), -1.0)
    step = wrap(at(device, step_of(dims.product(sizes) * 4)))
    large = where(usable & ~small, wide, _SMALL)
    counts = accepted(ops.poisson_candidate, large, counts, begin, step)
    return counts.astype(dtypes.int64 if dtype is None else dtype)  # type: ignore[no-any-return]


def _searched(rate: Tensor, unit: Tensor) -> Tensor:
    """The least k whose probability to have k or fewer is above ``unit``."""

    def unfinished(state: Any) -> Tensor:
        k, total, _ = state
        return any_of((unit >= total) & (k < _LAST))

    def turn(state: Any) -> Any:
        k, total, probability = state
        more = unit >= total
        k = where(more, k + 1, k)
        probability = where(more, probability * rate / k, probability)
        return k, where(more, total + probability, total), probability

    least = exp(-rate)
    return while_loop(unfinished, turn, (zeros_like(rate), least, least))[0]  # type: ignore[no-any-return]


# ----------------------------------------------------------------------
# Binomial numbers: by the distribution function where few successes are expected, by rejection elsewhere.
#
# Sources: Devroye 1986, "Non-uniform random variate generation", X.4, sequential search; Hoermann 1993, "The generation
# of binomial random variates", BTRS.

_FEW: Final = 10.0
_MOST_TRIALS: Final = 2.0**52


@array_function
def binomial(
    count: TensorLike, p: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """The number of successes in ``count`` trials with success probability ``p``; int64 unless ``dtype`` is given.

    Of ``shape``, or that of the parameters. ValueError for a count that is no whole number from 0 to 2**52, and for p
    outside of [0, 1].
    """
    sizes, _, (n, chance), device = parameters_of(shape, dtypes.float64, count, p)
    usable = (n >= 0) & (n <= _MOST_TRIALS) & (n == floor(n)) & (chance >= 0) & (chance <= 1)
    require(usable, "binomial: counts must be whole numbers from 0 to 2**52, probabilities lie between 0 and 1")
    n, chance = where(usable, n, 0), where(usable, chance, 0)
    flipped = chance > 0.5
    rarer = where(flipped, 1 - chance, chance)
    few = n * rarer < _FEW
    key = wrap(at(device, stream_key(generator)))
    step = wrap(at(device, step_of(dims.product(sizes) * 2)))
    unit = wrap(numbers(ops.uniform, key.value, sizes, dtypes.float64))
    counts = where(few, _binomial_searched(where(few, n, 0), where(few, rarer, 0), unit), -1.0)
    counts = _rejected(where(few, 100, n), where(few, 0.5, rarer), counts, key + step, step, sizes)
    counts = where(flipped, n - counts, counts)
    return counts.astype(dtypes.int64 if dtype is None else dtype)  # type: ignore[no-any-return]


def _binomial_searched(n: Tensor, p: Tensor, unit: Tensor) -> Tensor:
    """The least k for which the probability of k successes or fewer is above ``unit``."""
    odds = p / (1 - p)

    def unfinished(state: Any) -> Tensor:
        k, total, _ = state
        return any_of((unit >= total) & (k < minimum(n, _LAST)))

    def turn(state: Any) -> Any:
        k, total, probability = state
        more = (unit >= total) & (k < n)
        probability = where(more, probability * odds * (n - k) / (k + 1), probability)
        return where(more, k + 1, k), where(more, total + probability, total), probability

    none = exp(n * log1p(-p))
    return while_loop(unfinished, turn, (zeros_like(n), none, none))[0]  # type: ignore[no-any-return]


def _logarithm(n: Tensor, k: Tensor) -> Tensor:
    """-log of k! (n - k)!."""
    return -(wrap(ops.lgamma((k + 1).value)) + wrap(ops.lgamma((n - k + 1).value)))


def _rejected(n: Tensor, p: Tensor, counts: Tensor, key: Tensor, step: Tensor, sizes: Any) -> Tensor:
    """``counts`` with its negative elements replaced by candidates, which are drawn for all until each is accepted."""
    spread = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * spread
    limit = 0.92 - 4.2 / b
    mode = floor((n + 1) * p)
    odds = log(p / (1 - p))
    highest = _logarithm(n, mode)

    def again(state: Any) -> Any:
        key, counts = state
        u = wrap(numbers(ops.uniform, key.value, sizes, dtypes.float64)) - 0.5
        v = wrap(numbers(ops.uniform, (key + step).value, sizes, dtypes.float64))
        edge = 0.5 - abs(u)
        edge = where(edge == 0, 2.0**-54, edge)
        k = floor((2 * a / edge + b) * u + n * p + 0.5)
        inside = (k >= 0) & (k <= n)
        clamped = where(inside, k, mode)
        density = _logarithm(n, clamped) - highest + (clamped - mode) * odds
        height = log(where(v == 0, 2.0**-54, v) * alpha / (a / (edge * edge) + b))
        taken = inside & (((edge >= 0.07) & (v <= limit)) | (height <= density))
        return key + step + step, where((counts < 0) & taken, k, counts)

    return while_loop(lambda state: any_of(state[1] < 0), again, (key, counts))[1]  # type: ignore[no-any-return]


@array_function
def negative_binomial(
    count: TensorLike, p: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """The number of failures before ``count`` successes, of trials with success probability ``p``, as in NumPy; int64.

    Poisson numbers of a gamma rate, so that the count may be any positive number. ValueError for p outside of (0, 1].
    """
    _, _, (n, chance), _ = parameters_of(shape, dtypes.float64, count, p)
    require((n > 0) & (chance > 0) & (chance <= 1), "negative_binomial: positive counts, probabilities in (0, 1]")
    rate = gamma(n, dtype=dtypes.float64, generator=generator) * ((1 - chance) / chance)
    return poisson(rate, dtype=dtype, generator=generator)
