"""The regularised incomplete gamma functions: series, a continued fraction, and Temme's uniform expansion.

For a > 50 and x within 0.3 a of it: Temme, "The asymptotic expansion of the incomplete gamma functions", SIAM J. Math.
Anal. 10 (1979), whose coefficients ``bench/fit_special.py`` makes. Else the power series of P below a + 1, that of Q
for small a and x, and Lentz's evaluation of the continued fraction of Q; which serves where is as in Cephes.
"""

from __future__ import annotations

import math
from typing import Any, Final

from jitgraph import ops
from jitgraph.special import temme_table
from jitgraph.special.clipping import clipped
from jitgraph.special.gamma_parts import (
    EPS,
    LARGE,
    ROOT_OF_TWO_PI,
    TINY,
    lentz,
    lgamma1p,
    log1pmx,
    log_ratio_rest,
    polynomial,
    settled,
    stirling_rest,
    times_exactly,
    without_gradient,
)
from jitgraph.special.gamma_products import gamma1p
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.elementwise import abs, exp, expm1, isnan, log, pow, sqrt, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import in_float64
from jitgraph.tensor.functions.special_functions import erfcx
from jitgraph.tensor.lifting import TensorLike
from jitgraph.transforms.custom import custom_vjp

_NEAR: Final = 0.3  # of a: where the uniform expansion serves
_UNIFORM_FROM: Final = 50.0
_BY_POWERS: Final = 500.0
_FAR: Final = 3000.0  # where e^-x is 0 beside powers up to that


@array_function
def gammainc(a: TensorLike, x: TensorLike) -> Tensor:
    """P(a, x), the integral of t^(a-1) e^-t from 0 to x over gamma(a), for a >= 0 and x >= 0; NaN elsewhere.

    Computed in float64. ValueError where a gradient with respect to a is computed.
    """
    return _computed("gammainc", a, x, upper=False)


@array_function
def gammaincc(a: TensorLike, x: TensorLike) -> Tensor:
    """Q(a, x) = 1 - P(a, x), to full precision where it is small; NaN for negative arguments.

    Computed in float64. ValueError where a gradient with respect to a is computed.
    """
    return _computed("gammaincc", a, x, upper=True)


def _computed(name: str, a: TensorLike, x: TensorLike, *, upper: bool) -> Tensor:
    function = _upper if upper else _lower
    return in_float64(lambda order, at: function(without_gradient(name, order), at), a, x)


@custom_vjp
def _lower(a: Tensor, x: Tensor) -> Tensor:
    return _both(a, x)[0]


@custom_vjp
def _upper(a: Tensor, x: Tensor) -> Tensor:
    return _both(a, x)[1]


def _density(a: Tensor, x: Tensor) -> Tensor:
    """x^(a-1) e^-x / gamma(a), the slope of P."""
    inside = (a > 0) & (x > 0)
    p, q = where(inside, a, 1.0), where(inside, x, 1.0)
    at_zero = where(a < 1, math.inf, where(a == 1, 1.0, 0.0))
    return where(inside, _power(p, q) * (p / q), where((x == 0) & (a > 0), at_zero, where(x * a >= 0, 0.0, math.nan)))


# Zeros for a, where None would do for one alone: they are what reaches ``without_gradient``.
_lower.defvjp(lambda a, x: (_both(a, x)[0], (a, x)), lambda kept, ct: (ct * 0, ct * _density(*kept)))
_upper.defvjp(lambda a, x: (_both(a, x)[1], (a, x)), lambda kept, ct: (ct * 0, -ct * _density(*kept)))


def _power(a: Tensor, x: Tensor) -> Tensor:
    """x^a e^-x / gamma(a + 1), for a and x above 0."""
    large = a >= LARGE
    p, q = where(large, a, LARGE), where(large, x, LARGE)
    stirling = _decay(p, q) * exp(-stirling_rest(p)) / (ROOT_OF_TWO_PI * sqrt(p))
    small, near = where(large, 1.0, a), where(large, 1.0, clipped(x, high=_FAR))
    half = exp(near * -0.5)  # the whole one underflows before the product
    return where(large, stirling, pow(near, small) * half * half / gamma1p(small))


def _decay(a: Tensor, x: Tensor) -> Tensor:
    """(x / a)^a e^(a - x), for a from ``LARGE`` up.

    Up to ``_BY_POWERS`` by a power, whose logarithm has twice the digits, and what rounding takes from x / a and a - x;
    in two halves where a factor of the whole leaves the range. Beyond, an exponent of some hundreds is rounded.
    """
    direct = a <= _BY_POWERS
    p, q = where(direct, a, LARGE), where(direct, clipped(x, high=_FAR), LARGE)
    ratio, difference = q / p, p - q
    product, rest = times_exactly(ratio, p)
    other = difference - p
    lost = ((q - product) - rest) / ratio + ((p - (difference - other)) - (q + other))
    whole = (abs(p * log(ratio)) < 690) & (abs(difference) < 690)
    share = where(whole, 1.0, 0.5)
    power = pow(ratio, p * share) * exp(difference * share)
    power = where(whole, power, power * power) * (1 + wrap(ops.stop_gradient(lost.value)))
    u, v = where(direct, LARGE, a), where(direct, LARGE, x)
    return where(direct, power, exp(u * log_ratio_rest(v, u)))


def _both(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """P and Q."""
    valid = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    p, q = where(valid, a, 1.0), where(valid, x, 1.0)
    sigma = (q - p) / p
    uniform = (p > _UNIFORM_FROM) & (abs(sigma) < _NEAR)
    split = where(q <= 0.5, -0.4 / log(where(q <= 0.5, q, 0.5)), q * 1.1)
    lower = ~uniform & where(q <= 1.1, split < p, q < p + 1)  # where P is the smaller one, or nearly
    small = ~uniform & ~lower & (q <= 1.1)
    fraction = ~uniform & ~lower & ~small
    power = _power(p, q)
    by_series = power * _series(where(lower, p, 1.0), where(lower, q, 0.5))
    by_fraction = power * p * _fraction(where(fraction, p, 1.0), where(fraction, q, 4.0))
    by_small = _small(where(small, p, 0.5), where(small, q, 0.5))
    below, above = _uniform(where(uniform, p, 100.0), where(uniform, q, 100.0))
    upper = where(uniform, above, where(small, by_small, by_fraction))
    pair = where(lower, by_series, where(uniform, below, 1 - upper)), where(lower, 1 - by_series, upper)
    return _with_ends(a, x, valid, pair[0], 0), _with_ends(a, x, valid, pair[1], 1)


def _with_ends(a: Tensor, x: Tensor, valid: Tensor, interior: Tensor, at_zero: int) -> Tensor:
    """``interior``, and the limits at 0 and infinity; at_zero is the value for x = 0."""
    nothing = isnan(a) | isnan(x) | (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | ((a == math.inf) & (x == math.inf))
    is_low = (x == 0) | (a == math.inf)
    return where(valid, interior, where(nothing, math.nan, where(is_low, float(at_zero), float(1 - at_zero))))


def _series(a: Tensor, x: Tensor) -> Tensor:
    """The sum of x^n / ((a + 1) ... (a + n)) from n = 0 on."""

    def step(number: Tensor, state: Any) -> Any:
        term, total = state
        term = term * (x / (a + number))
        return (term, total + term), term > EPS * total

    return settled(step, (x * 0 + 1, x * 0 + 1), 1)


def _small(a: Tensor, x: Tensor) -> Tensor:
    """Q for small a and x: 1 - x^a / gamma(a + 1) (1 + a sum of (-x)^n / (n! (a + n)))."""

    def step(number: Tensor, state: Any) -> Any:
        power, total = state
        power = power * (-x / number)
        term = power / (a + number)
        return (power, total + term), abs(term) > EPS * abs(total)

    total = settled(step, (x * 0 + 1, x * 0), 1)
    exponent = a * log(x) - lgamma1p(a)
    return -expm1(exponent) - a * exp(exponent) * total


def _fraction(a: Tensor, x: Tensor) -> Tensor:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by Lentz's method."""
    begin = x + 1 - a
    first = 1 / where(begin == 0, TINY, begin)

    def step(number: Tensor, state: Any) -> Any:
        upper, lower, total = state
        factor = number * (a - number)
        upper, lower = lentz(factor, begin + 2 * number, upper, lower)
        return (upper, lower, total * (upper * lower)), abs(upper * lower - 1) > 4 * EPS

    return settled(step, (x * 0 + 1 / TINY, first, first), 2)


def _uniform(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """P and Q for large a and x near it: half of erfc, and a sum of powers of 1 / a and eta (Temme 1979)."""
    sigma = (x - a) / a
    half = -log1pmx(sigma)
    root = sqrt(2 * half)
    eta = where(sigma < 0, -root, root)
    total = a * 0
    for row in reversed(temme_table.TEMME):
        total = total / a + polynomial(row, eta)
    rest = total / (ROOT_OF_TWO_PI * sqrt(a))
    below = sigma < 0
    tail = _decay(a, x) * (0.5 * erfcx(root * sqrt(a * 0.5)) + where(below, -rest, rest))
    return where(below, tail, 1 - tail), where(below, 1 - tail, tail)
