"""Binomial numbers: by the distribution function where few successes are expected, by rejection elsewhere.

Sources: Devroye 1986, "Non-uniform random variate generation", X.4, sequential search; Hoermann 1993, "The generation
of binomial random variates", BTRS.
"""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir import dims
from jitgraph.random.draws import numbers
from jitgraph.random.gammas import gamma
from jitgraph.random.generator import Generator, step_of, stream_key
from jitgraph.random.parameters import at, parameters_of, require
from jitgraph.random.poissons import poisson
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import abs, exp, floor, log, log1p, minimum, sqrt, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tracing.control.flow import while_loop

_FEW: Final = 10.0
_MOST: Final = 2.0**52
_LAST: Final = 200.0  # no float64 uniform reaches so many successes where fewer than ten are expected


@array_function
def binomial(
    count: TensorLike, p: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """How many of ``count`` trials succeed that each do with probability ``p``; int64 unless ``dtype`` is given.

    Of ``shape``, or that of the parameters. ValueError for a count that is no whole number from 0 to 2**52, and for p
    outside of [0, 1].
    """
    sizes, _, (n, chance), device = parameters_of(shape, dtypes.float64, count, p)
    usable = (n >= 0) & (n <= _MOST) & (n == floor(n)) & (chance >= 0) & (chance <= 1)
    require(usable, "binomial: counts must be whole numbers from 0 to 2**52, probabilities lie between 0 and 1")
    n, chance = where(usable, n, 0), where(usable, chance, 0)
    flipped = chance > 0.5
    rarer = where(flipped, 1 - chance, chance)
    few = n * rarer < _FEW
    key = wrap(at(device, stream_key(generator)))
    step = wrap(at(device, step_of(dims.product(sizes) * 2)))
    unit = wrap(numbers(ops.uniform, key.value, sizes, dtypes.float64))
    counts = where(few, _searched(where(few, n, 0), where(few, rarer, 0), unit), -1.0)
    counts = _rejected(where(few, 100, n), where(few, 0.5, rarer), counts, key + step, step, sizes)
    counts = where(flipped, n - counts, counts)
    return counts.astype(dtypes.int64 if dtype is None else dtype)  # type: ignore[no-any-return]


def _searched(n: Tensor, p: Tensor, unit: Tensor) -> Tensor:
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
    """How many trials fail before ``count`` succeed that each do with probability ``p``, as in NumPy; int64.

    Poisson numbers of a gamma rate, so that the count may be any positive number. ValueError for p outside of (0, 1].
    """
    _, _, (n, chance), _ = parameters_of(shape, dtypes.float64, count, p)
    require((n > 0) & (chance > 0) & (chance <= 1), "negative_binomial: positive counts, probabilities in (0, 1]")
    rate = gamma(n, dtype=dtypes.float64, generator=generator) * ((1 - chance) / chance)
    return poisson(rate, dtype=dtype, generator=generator)
