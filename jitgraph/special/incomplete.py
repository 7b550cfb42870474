"""The regularised incomplete beta and gamma functions: DiDonato and Morris, series, fractions, Temme's expansion."""

from __future__ import annotations

import math
from typing import Any, Final

from jitgraph import ops
from jitgraph.special import temme_table
from jitgraph.special.clipping import clipped
from jitgraph.special.gamma_function import (
    EPS,
    LARGE,
    ROOT_OF_TWO_PI,
    TINY,
    gamma1p,
    lentz,
    lgamma1p,
    log1pmx,
    log_of_rise,
    log_ratio_rest,
    polynomial,
    settled,
    stirling_rest,
    times_exactly,
    without_gradient,
)
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.elementwise import abs, exp, expm1, isnan, log, log1p, maximum, minimum, pow, sqrt, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import in_float64
from jitgraph.tensor.functions.special_functions import erfcx, ndtr
from jitgraph.tensor.lifting import TensorLike
from jitgraph.transforms.custom import custom_vjp

# ----------------------------------------------------------------------
# The regularised incomplete beta function, after A. DiDonato and A. Morris, Algorithm 708 (1992).
#
# By the even part of the continued fraction DLMF 8.17.22 on the side of the mean where that goes fast, and by a power
# series where the second order is below 1 and the result may be small. Both x and 1 - x are taken, and the distance
# from the mean is computed without rounding, so that unequal orders lose nothing.

_FAR = 1e8  # of both: the fraction would take more steps than it may


@array_function
def betainc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """I_x(a, b), the integral of t^(a-1) (1-t)^(b-1) from 0 to x over that to 1, for a, b >= 0 and x from 0 to 1.

    Computed in float64; NaN outside. Of a and b that are both above 10^8 by Temme's uniform expansion (DLMF 8.18.9), to
    some 8 digits. ValueError where a gradient with respect to a or b is computed.
    """
    return in_float64(lambda a, b, x: of_pair("betainc", a, b, x, 1 - x), a, b, x)


def of_pair(name: str, a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """I_x(a, b) of float64 numbers, where y is 1 - x, and more precise than x where it is the lesser one."""
    result: Tensor = _regularised(without_gradient(name, a), without_gradient(name, b), x, stop_gradient(y))
    return result


def stop_gradient(x: Tensor) -> Tensor:
    return wrap(ops.stop_gradient(x.value))


@custom_vjp
def _regularised(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return _value(a, b, x, y)


def _density(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x^(a-1) (1-x)^(b-1) / B(a, b), the slope in x."""
    y = y + ((1 - x) - stop_gradient(1 - x))  # whose own derivatives flow through x
    inside = (a > 0) & (b > 0) & (x > 0) & (y > 0) & (x <= 1) & (y <= 1)
    p, q, t, u = where(inside, a, 1.0), where(inside, b, 1.0), where(inside, x, 0.5), where(inside, y, 0.5)
    exponent = where(x == 0, a, b)  # at an end: infinite, the other's size, or 0
    at_end = where(exponent < 1, math.inf, where(exponent == 1, where(x == 0, b, a), 0.0))
    outside = where(((x == 0) | (x == 1)) & (a > 0) & (b > 0), at_end, math.nan)
    return where(inside, _power(p, q, t, u, _excess(p, q, t, u)) * p / (t * u), outside)


_regularised.defvjp(  # zeros for a and b, not None: they are what reaches ``without_gradient``
    lambda a, b, x, y: (_value(a, b, x, y), (a, b, x, y)),
    lambda kept, ct: (ct * 0, ct * 0, ct * _density(*kept), ct * 0),
)


def _excess(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """a - (a + b) x of x + y = 1, as exact as the lesser of x and y is."""
    from_x = x <= y
    own, at = where(from_x, a, b), where(from_x, x, y)
    total = a + b
    least, most = minimum(a, b), maximum(a, b)
    rest = least - (total - most)  # of the sum
    high, low = times_exactly(total, at)
    excess = ((own - high) - low) - rest * at
    return where(from_x, excess, -excess)


def _log_of_ratio_rest(u: Tensor, ratio: Tensor) -> Tensor:
    """log(1 + u) - u, where the ratio is 1 + u and more precise below 1/2."""
    far = u < -0.5
    return where(far, log(where(far, ratio, 1.0)) - u, log1pmx(where(far, 0.0, u)))


def _power(a: Tensor, b: Tensor, x: Tensor, y: Tensor, excess: Tensor) -> Tensor:
    """x^a y^b / (a B(a, b)) of positive numbers with x + y = 1, by Stirling's formula for what is large."""
    least, most = minimum(a, b), maximum(a, b)
    both, none = least >= LARGE, most < LARGE
    # of two that are large: each logarithm is that of a ratio to the mean
    p, q = where(both, a, LARGE), where(both, b, LARGE)
    t, u, beyond = where(both, x, 0.5), where(both, y, 0.5), where(both, excess, 0.0)
    total = p + q
    exponent = p * _log_of_ratio_rest(-beyond / p, t * (total / p)) + q * _log_of_ratio_rest(
        beyond / q, u * (total / q)
    )
    rest = stirling_rest(p) + stirling_rest(q) - stirling_rest(total)
    of_large = exp(exponent - rest) * sqrt(q / total) / (sqrt(p) * ROOT_OF_TWO_PI)
    # of a small and a large one
    one = ~both & ~none
    is_first = a <= b
    small, large = where(one, least, 1.0), where(one, most, LARGE)
    at, beside = where(one, where(is_first, x, y), 0.5), where(one, where(is_first, y, x), 0.5)
    exponent = (
        large * _log_beside(beside, at)
        + (large - 0.5) * log1p(small / large)
        - small
        + stirling_rest(small + large)
        - stirling_rest(large)
    )
    size = minimum(at * (small + large), 1e30)  # from there on the exponential is 0
    of_one = pow(size, small) * exp(exponent) / gamma1p(small)
    of_one = where(is_first, of_one, of_one * (small / large))
    # of two that are small
    p, q = where(none, a, 1.0), where(none, b, 1.0)
    t, u = where(none, x, 0.5), where(none, y, 0.5)
    gammas = gamma1p(p + q) / (gamma1p(p) * gamma1p(q))
    of_none = pow(t, p) * exp(q * _log_beside(u, t)) * (gammas * (q / (p + q)))
    return where(both, of_large, where(none, of_none, of_one))


def _log_beside(y: Tensor, x: Tensor) -> Tensor:
    """log(y) of y = 1 - x, by whichever of both is smaller."""
    return where(x < 0.5, log1p(-minimum(x, 0.5)), log(y))


def _value(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    valid = (a > 0) & (b > 0) & (x > 0) & (y > 0) & (x <= 1) & (y <= 1) & (a < math.inf) & (b < math.inf)
    large = valid & (minimum(a, b) > _FAR)
    plain = valid & ~large
    p, q, t, u = where(plain, a, 1.0), where(plain, b, 1.0), where(plain, x, 0.5), where(plain, y, 0.5)
    # I_x(a, b) = 1 - I_(1-x)(b, a), whose fraction goes faster there; but the difference cancels where b is small
    turned = _excess(p, q, t, u) + 1 <= 2 * t  # x (a + b + 2) > a + 1
    by_series = turned & (q < 1)
    first, second = where(turned, q, p), where(turned, p, q)
    at, beside = where(turned, u, t), where(turned, t, u)
    first, second = where(by_series, 1.0, first), where(by_series, 1.0, second)
    at, beside = where(by_series, 0.5, at), where(by_series, 0.5, beside)
    excess = _excess(first, second, at, beside)
    interior = _power(first, second, at, beside, excess) / _fraction(first, second, at, beside, excess)
    interior = where(turned, 1 - interior, interior)
    few = _of_small_second(where(by_series, p, 1.0), where(by_series, q, 0.5), where(by_series, u, 0.25))
    interior = where(by_series, few, interior)
    interior = where(large, _of_large(where(large, a, _FAR), where(large, b, _FAR), where(large, x, 0.5)), interior)
    nothing = isnan(a) | isnan(b) | isnan(x) | isnan(y) | (a < 0) | (b < 0) | (x < 0) | (y < 0)
    nothing = nothing | ((a == 0) & (b == 0)) | ((a == math.inf) & (b == math.inf))
    is_one = (y == 0) | ((x > 0) & ((a == 0) | (b == math.inf)))
    is_one = is_one & ~((y > 0) & ((b == 0) | (a == math.inf)))
    return where(valid, interior, where(nothing, math.nan, where(is_one, 1.0, 0.0)))


def _of_small_second(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """I_x(a, b) for b < 1 and y = 1 - x up to some 2 / a: 1 - I_y(b, a) by its power series (DLMF 8.17.7).

    y^b / (b B(b, a)) is near 1 for small b; its logarithm has the factor b in each of its terms.
    """

    def step(number: Tensor, state: Any) -> Any:
        term, total = state
        term = term * ((number - a) * y / number)
        added = term / (b + number)
        return (term, total + added), abs(added) > EPS * abs(total + added)

    total = settled(step, (a * 0 + 1, a * 0), 1)
    logarithm = log_of_rise(a, b, y) - lgamma1p(b)
    beyond = expm1(logarithm)
    return -beyond - (1 + beyond) * (b * total)


def _of_large(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """I_x(a, b) of a and b that are large and may be as large as floats are."""
    ratio = b / a
    middle, rest = 1 / (1 + ratio), ratio / (1 + ratio)
    middle, rest = where(ratio > 1e300, a / b, middle), where(ratio > 1e300, 1.0, rest)
    gap = where(ratio > 1e300, x - middle, (x * ratio - (1 - x)) / (1 + ratio))
    half_square = -(middle * _log1p_rest(gap / middle) + rest * _log1p_rest(-gap / rest))  # eta^2 / 2
    count = sqrt(a) * sqrt(1 + ratio)  # the root of a + b
    eta = sqrt(2 * maximum(half_square, 0.0)) * where(gap < 0, -1.0, 1.0)
    spread = sqrt(middle * rest)
    near = abs(gap) < 1e-5 * spread
    safe_eta, safe_gap = where(near | (eta == 0), 1.0, eta), where(near | (gap == 0), 1.0, gap)
    correction = where(near, (1 - 2 * middle) / (3 * spread), 1 / safe_eta - spread / safe_gap)
    reach = eta * count
    density = exp(-0.5 * minimum(reach * reach, 1500.0)) / ROOT_OF_TWO_PI
    probability = ndtr(reach) + density * correction / count
    return minimum(maximum(probability, 0.0), 1.0)


def _log1p_rest(u: Tensor) -> Tensor:
    """log(1 + u) - u for u above -1, to full precision near 0."""
    near = abs(u) < 0.02
    v = where(near, u, 0.0)
    series = v * 0
    for k in range(12, 1, -1):
        series = v * series + (1.0 if k % 2 else -1.0) / k
    return where(near, v * v * series, log1p(where(near, 0.5, u)) - u)


def _fraction(a: Tensor, b: Tensor, x: Tensor, y: Tensor, excess: Tensor) -> Tensor:
    """x^a y^b / (a B(a, b)) over I_x(a, b)."""
    begin = (excess + 1) / (a + 1)

    def step(number: Tensor, state: Any) -> Any:
        upper, lower, total = state
        shifted = a + 2 * number
        decrease = number * ((b - number) * x)
        factor = decrease * ((a + b + (number - 1)) * x / (shifted - 1)) / (shifted - 1)
        factor = where(number == 1, factor, factor * (a + (number - 1)))
        partial = number + decrease / (shifted - 1) + (a + number) / (shifted + 1) * (excess + 1 + number * (1 + y))
        upper, lower = lentz(factor, partial, upper, lower)
        return (upper, lower, total * (upper * lower)), abs(upper * lower - 1) > 8 * EPS

    return settled(step, (begin, x * 0, begin), 2)


# ----------------------------------------------------------------------
# The regularised incomplete gamma functions: series, a continued fraction, and Temme's uniform expansion.
#
# For a > 50 and x within 0.3 a of it: Temme, "The asymptotic expansion of the incomplete gamma functions", SIAM J.
# Math. Anal. 10 (1979), whose coefficients ``bench/fit_special.py`` makes. Else the power series of P below a + 1, that
# of Q for small a and x, and Lentz's evaluation of the continued fraction of Q; which serves where is as in Cephes.

_NEAR: Final = 0.3  # of a: where the uniform expansion serves
_UNIFORM_FROM: Final = 50.0
_BY_POWERS: Final = 500.0
_GAMMA_FAR: Final = 3000.0  # where e^-x is 0 beside powers up to that


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


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """x^(a-1) e^-x / gamma(a), the slope of P."""
    inside = (a > 0) & (x > 0)
    p, q = where(inside, a, 1.0), where(inside, x, 1.0)
    at_zero = where(a < 1, math.inf, where(a == 1, 1.0, 0.0))
    return where(
        inside, _gamma_power(p, q) * (p / q), where((x == 0) & (a > 0), at_zero, where(x * a >= 0, 0.0, math.nan))
    )


# Zeros for a, where None would do for one alone: they are what reaches ``without_gradient``.
_lower.defvjp(lambda a, x: (_both(a, x)[0], (a, x)), lambda kept, ct: (ct * 0, ct * _gamma_density(*kept)))
_upper.defvjp(lambda a, x: (_both(a, x)[1], (a, x)), lambda kept, ct: (ct * 0, -ct * _gamma_density(*kept)))


def _gamma_power(a: Tensor, x: Tensor) -> Tensor:
    """x^a e^-x / gamma(a + 1), for a and x above 0."""
    large = a >= LARGE
    p, q = where(large, a, LARGE), where(large, x, LARGE)
    stirling = _decay(p, q) * exp(-stirling_rest(p)) / (ROOT_OF_TWO_PI * sqrt(p))
    small, near = where(large, 1.0, a), where(large, 1.0, clipped(x, high=_GAMMA_FAR))
    half = exp(near * -0.5)  # the whole one underflows before the product
    return where(large, stirling, pow(near, small) * half * half / gamma1p(small))


def _decay(a: Tensor, x: Tensor) -> Tensor:
    """(x / a)^a e^(a - x), for a from ``LARGE`` up.

    Up to ``_BY_POWERS`` by a power, whose logarithm has twice the digits, and what rounding takes from x / a and a - x;
    in two halves where a factor of the whole leaves the range. Beyond, an exponent of some hundreds is rounded.
    """
    direct = a <= _BY_POWERS
    p, q = where(direct, a, LARGE), where(direct, clipped(x, high=_GAMMA_FAR), LARGE)
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
    power = _gamma_power(p, q)
    by_series = power * _series(where(lower, p, 1.0), where(lower, q, 0.5))
    by_fraction = power * p * _gamma_fraction(where(fraction, p, 1.0), where(fraction, q, 4.0))
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


def _gamma_fraction(a: Tensor, x: Tensor) -> Tensor:
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
