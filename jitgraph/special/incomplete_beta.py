"""The regularised incomplete beta function: Lentz's evaluation of its continued fraction (DLMF 8.17.22)."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.special.gamma_parts import (
    EPS,
    LARGE,
    ROOT_OF_TWO_PI,
    TINY,
    lentz,
    lgamma,
    log_ratio_rest,
    settled,
    stirling_rest,
    without_gradient,
)
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.elementwise import abs, exp, isnan, log, log1p, maximum, minimum, sqrt, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.special_functions import in_float64, ndtr
from jitgraph.tensor.lifting import TensorLike
from jitgraph.transforms.custom import custom_vjp

_FAR = 1e8  # of both: the fraction would take more steps than it may


@array_function
def betainc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """I_x(a, b), the integral of t^(a-1) (1-t)^(b-1) from 0 to x over that to 1, for a, b >= 0 and x from 0 to 1.

    Computed in float64; NaN outside. Of a and b that are both above 10^8 by Temme's uniform expansion (DLMF 8.18.9), to
    some 8 digits. ValueError where a gradient with respect to a or b is computed.
    """

    def body(first: Tensor, second: Tensor, at: Tensor) -> Tensor:
        found: Tensor = _regularised(without_gradient("betainc", first), without_gradient("betainc", second), at)
        return found

    return in_float64(body, a, b, x)


@custom_vjp
def _regularised(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return _value(a, b, x)


def _density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """x^(a-1) (1-x)^(b-1) / B(a, b), the slope in x."""
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    p, q, t = where(inside, a, 1.0), where(inside, b, 1.0), where(inside, x, 0.5)
    exponent = where(x == 0, a, b)  # at an end: infinite, the other's size, or 0
    at_end = where(exponent < 1, math.inf, where(exponent == 1, where(x == 0, b, a), 0.0))
    outside = where(((x == 0) | (x == 1)) & (a > 0) & (b > 0), at_end, math.nan)
    return where(inside, _power(p, q, t, 1 - t) / (t * (1 - t)), outside)


_regularised.defvjp(  # zeros for a and b, not None: they are what reaches ``without_gradient``
    lambda a, b, x: (_value(a, b, x), (a, b, x)), lambda kept, ct: (ct * 0, ct * 0, ct * _density(*kept))
)


def _power(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x^a y^b / B(a, b) of positive numbers with x + y = 1, by Stirling's formula for what is large."""
    low, high = minimum(a, b), maximum(a, b)
    of_low, of_high = where(a <= b, x, y), where(a <= b, y, x)
    both = low >= LARGE
    p, q = where(both, a, LARGE), where(both, b, LARGE)
    t, u = where(both, x, 0.5), where(both, y, 0.5)
    total = p + q
    exponent = p * log_ratio_rest(t, p / total) + q * log_ratio_rest(u, q / total)
    rest = stirling_rest(p) + stirling_rest(q) - stirling_rest(total)
    stirling = exp(exponent - rest) * sqrt(p) * sqrt(q / total) / ROOT_OF_TWO_PI
    small, large = where(both, 1.0, low), where(both, 1.0, high)
    known = large >= LARGE
    wide = where(known, large, LARGE)
    ratio = lgamma(small + large) - lgamma(large)  # log of gamma(small + large) / gamma(large)
    by_stirling = (
        stirling_rest(small + wide)
        - stirling_rest(wide)
        + (wide - 0.5) * log1p(small / wide)
        + small * log(small + wide)
        - small
    )
    ratio = where(known, by_stirling, ratio)
    plain = exp(small * log(of_low) + large * _log_beside(of_high, of_low) + ratio - lgamma(small))
    return where(both, stirling, plain)


def _log_beside(y: Tensor, x: Tensor) -> Tensor:
    """log(y) of y = 1 - x, by whichever of both is smaller."""
    return where(x < 0.5, log1p(-minimum(x, 0.5)), log(y))


def _value(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    valid = (a > 0) & (b > 0) & (x > 0) & (x < 1) & (a < math.inf) & (b < math.inf)
    p, q, t = where(valid, a, 1.0), where(valid, b, 1.0), where(valid, x, 0.5)
    # I_x(a, b) = 1 - I_(1-x)(b, a), whose fraction goes faster there; but the difference cancels where b is small
    turned = (t * (p + q + 2) > p + 1) & ((q >= 1) | (t > 0.999))
    first, second = where(turned, q, p), where(turned, p, q)
    at, beside = where(turned, 1 - t, t), where(turned, t, 1 - t)
    large = minimum(p, q) > _FAR
    first, second = where(large, 1.0, first), where(large, 1.0, second)
    found = _power(first, second, at, beside) / first * _fraction(first, second, at)
    found = where(turned, 1 - found, found)
    found = where(large, _of_large(where(large, p, _FAR), where(large, q, _FAR), t), found)
    nothing = isnan(a) | isnan(b) | isnan(x) | (a < 0) | (b < 0) | (x < 0) | (x > 1)
    nothing = nothing | ((a == 0) & (b == 0)) | ((a == math.inf) & (b == math.inf))
    is_one = (x == 1) | ((x > 0) & ((a == 0) | (b == math.inf)))
    is_one = is_one & ~((x < 1) & ((b == 0) | (a == math.inf)))
    return where(valid, found, where(nothing, math.nan, where(is_one, 1.0, 0.0)))


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
    found = ndtr(reach) + density * correction / count
    return minimum(maximum(found, 0.0), 1.0)


def _log1p_rest(u: Tensor) -> Tensor:
    """log(1 + u) - u for u above -1, to full precision near 0."""
    near = abs(u) < 0.02
    v = where(near, u, 0.0)
    series = v * 0
    for k in range(12, 1, -1):
        series = v * series + (1.0 if k % 2 else -1.0) / k
    return where(near, v * v * series, log1p(where(near, 0.5, u)) - u)


def _fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    begin = 1 - (a + b) * x / (a + 1)
    first = 1 / where(begin == 0, TINY, begin)

    def step(number: Tensor, state: Any) -> Any:
        upper, lower, total = state
        place = a + 2 * number
        even = number * (b - number) * x / ((place - 1) * place)
        upper, lower = lentz(even, 1, upper, lower)
        total = total * (upper * lower)
        odd = -(a + number) * (a + b + number) * x / (place * (place + 1))
        upper, lower = lentz(odd, 1, upper, lower)
        return (upper, lower, total * (upper * lower)), abs(upper * lower - 1) > 8 * EPS

    return settled(step, (x * 0 + 1, first, first), 2)
