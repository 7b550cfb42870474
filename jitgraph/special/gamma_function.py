"""The gamma function and what is made of it: factorials, binomial coefficients, beta; float64 without cancellation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.ops.ordered_product import halves_of
from jitgraph.special.clipping import clipped
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import (
    abs,
    astype,
    exp,
    floor,
    log,
    log1p,
    maximum,
    minimum,
    pow,
    sin,
    sqrt,
    where,
)
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import in_float64
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tracing.record.control_flow import while_loop
from jitgraph.transforms.custom import custom_vjp

# ----------------------------------------------------------------------
# What the incomplete gamma and beta functions are made of, in float64 and without cancellation.

EPS: Final = 2.0**-54
"""Of a sum, below which a term changes nothing."""

TINY: Final = 1e-290
"""What stands for 0 in a denominator of Lentz's method."""

_ENDLESS: Final = 20_000.0  # steps

ROOT_OF_TWO_PI: Final = math.sqrt(2 * math.pi)

_ATANH: Final = tuple(1 / (2 * k + 1) for k in range(1, 18))  # of z^3, z^5, ...: 9^-17 is below half an ulp
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_LGAMMA1P: Final = (
    -0.5772156649015329,
    0.8224670334241132,
    -0.40068563438653143,
    0.27058080842778454,
    -0.20738555102867398,
    0.1695571769974082,
    -0.1440498967688461,
    0.12550966952474304,
    -0.11133426586956469,
    0.1000994575127818,
    -0.09095401714582904,
    0.083353840546109,
    -0.0769325164113522,
    0.07143294629536133,
    -0.06666870588242046,
    0.06250095514121304,
    -0.058823978658684585,
    0.055555767627403614,
    -0.05263167937961666,
    0.05000004769810169,
    -0.047619070330142226,
    0.04545455629320467,
    -0.04347826605304026,
    0.04166666915034121,
    -0.04000000119214014,
    0.03846153903467518,
)
"""Taylor coefficients of log(gamma(1 + a)): (-1)^k zeta(k) / k, and Euler's constant."""

LARGE: Final = 10.0
"""From where Stirling's formula serves with these terms."""


def settled(step: Callable[[Tensor, Any], tuple[Any, Tensor]], state: tuple[Tensor, ...], index: int) -> Tensor:
    """Member ``index`` of the state after as many steps as its elements need; NaN for those that need too many.

    ``step(number, state)`` gives the next state, and where another step is needed. An element that needs none stays as
    it is, so that its bits do not depend on the others.
    """

    def again(carried: Any) -> Any:
        number, before, inner = carried
        following, unsettled = step(number, inner)
        next_state = tuple(where(before, new, old) for new, old in zip(following, inner, strict=True))
        return number + 1, before & unsettled, next_state

    number = wrap(ops.full(shape=(), value=1.0, dtype=dtypes.float64))
    everywhere = state[0] == state[0]
    _, unsettled, last = while_loop(
        lambda carried: any_of(carried[1]) & (carried[0] < _ENDLESS), again, (number, everywhere, state)
    )
    return where(unsettled, math.nan, last[index])


def lentz(factor: Tensor, partial: Tensor | int, upper: Tensor, lower: Tensor) -> tuple[Tensor, Tensor]:
    """The two ratios of Lentz's method after one more ``factor / (partial + ...)`` of a continued fraction.

    The value of the fraction goes by their product from step to step.
    """
    lower, upper = partial + factor * lower, partial + factor / upper
    return where(upper == 0, TINY, upper), 1 / where(lower == 0, TINY, lower)


def polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """The sum of coefficients times powers of x, the lowest power first."""
    total = x * 0 + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def lgamma(x: Tensor) -> Tensor:
    """log(gamma(x)) of positive numbers."""
    return wrap(ops.lgamma(x.value))


def lgamma1p(a: Tensor) -> Tensor:
    """log(gamma(1 + a)) of a >= 0, to full relative precision where a is small."""
    small = a < 0.2
    clamped = where(small, a, 0.0)
    return where(small, polynomial(_LGAMMA1P, clamped) * clamped, lgamma(where(small, 1.0, a) + 1))


def log1pmx(u: Tensor) -> Tensor:
    """log(1 + u) - u for u > -1.

    With z = u / (2 + u), log(1 + u) is 2 atanh(z) and u is 2 z / (1 - z), whose difference has no cancellation.
    """
    small = abs(u) < 0.5
    clamped = where(small, u, 0.0)
    z = clamped / (2 + clamped)
    square = z * z
    series = polynomial(_ATANH, square)
    near = 2 * square * (z * series - 1 / (1 - z))
    far = where(small, 1.0, u)
    return where(small, near, log1p(far) - far)


def times_exactly(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """x * y and what that leaves of the exact product (T. Dekker, 1971), 0 where x is beyond 1e290; for abs(y) <= 1."""
    product = x * y
    inside = abs(x) < 1e290
    clamped = where(inside, x, 0.0)
    (high, low), (upper, lower) = halves_of(clamped), halves_of(y)
    return product, where(inside, low * lower - (((product - high * upper) - low * upper) - high * lower), 0.0)


def log_of_rise(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """b log(y) + log(gamma(a + b) / gamma(a)) for b < 1, in terms that all have the factor b; a and y above 0."""
    shifted = a < LARGE
    begin = where(shifted, a, LARGE)
    product = a * 0  # of 1 + b / (a + k), less 1
    for k in range(int(LARGE)):
        factor = b / (begin + k)
        product = product + factor + product * factor
    above = where(shifted, a + LARGE, a)
    ratio, change = above / (above + b), -b / (above + b)  # of Stirling's powers of 1 / a
    inverse = 1 / above
    power, powers, series, scale = ratio * 0 + 1, ratio * 0 + 1, ratio * 0, inverse
    for coefficient in _STIRLING:
        series = series + coefficient * scale * powers  # powers: of the ratio, from 0 on below the exponent of scale
        scale = scale * (inverse * inverse)
        power = power * ratio
        powers = powers + power
        power = power * ratio
        powers = powers + power
    log_ratio = above * log1pmx(b / above) - 0.5 * log1p(b / above) + b * log(y * (above + b)) + change * series
    return log_ratio - where(shifted, log1p(product), 0.0)


def log_ratio_rest(x: Tensor, a: Tensor) -> Tensor:
    """log(x / a) - (x - a) / a for x and a above 0."""
    u = (x - a) / a
    far = u < -0.5
    return where(far, log(where(far, x / a, 1.0)) - u, log1pmx(where(far, 0.0, u)))


def stirling_rest(a: Tensor) -> Tensor:
    """log(gamma(a)) - ((a - 1/2) log(a) - a + log(2 pi) / 2) for a > 0, what Stirling's formula leaves."""
    large = clipped(a, low=LARGE)
    inverse = 1 / large
    series = polynomial(_STIRLING, inverse * inverse)
    small = where(a < LARGE, a, 1.0)
    direct = lgamma(small) - ((small - 0.5) * log(small) - small + 0.5 * math.log(2 * math.pi))
    return where(a < LARGE, direct, series * inverse)


def without_gradient(name: str, x: Tensor) -> Tensor:
    """``x``, of which ``name`` is not differentiated: ValueError where a gradient reaches it."""

    def refuse(residuals: None, cotangent: Tensor) -> tuple[Tensor]:
        message = f"{name} has a gradient for its last argument alone\n  hint: jg.stop_gradient(x) for others"
        never = ops.full(shape=(), value=False, dtype=dtypes.bool_)
        ops.check(never, kind="ValueError", message=message)  # where the gradient runs, which a trace records anyway
        return (cotangent,)

    @custom_vjp
    def same(x: Tensor) -> Tensor:
        return x * 1.0

    same.defvjp(lambda x: (x * 1.0, None), refuse)
    return same(x)  # type: ignore[no-any-return]


# ----------------------------------------------------------------------
# The gamma function itself, and what is made of it: factorials, binomial coefficients, the beta function.
#
# By Lanczos' approximation in the form and with the coefficients (N = 13, g = 6.0246...) of Boost's ``lanczos13m53``
# (J. Maddock and others, "Lanczos Approximation", Boost Math Toolkit), below 1/2 by the reflection.

_G: Final = 6.024680040776729583740234375
_ABOVE: Final = (
    *(23531376880.41075968857200767445163675473076, 42919803642.64909876895789904700198885093263),
    *(35711959237.35566804944018545154716670596718, 17921034426.03720969991975575445893111267403),
    *(6039542586.352028005064291644307297921069938, 1439720407.311721673663223072794912393972485),
    *(248874557.8620541565114603864132294232163077, 31426415.58540019438061423162831820536287787),
    *(2876370.628935372441225409051620849613599112, 186056.2653952234950402949897160456992822505),
    *(8071.672002365816210638002902272250613822299, 210.8242777515793458725097339207133627117643),
    2.506628274631000270164908177133837338626431,
)
_BELOW: Final = (0.0, 39916800.0, 120543840.0, 150917976.0, 105258076.0, 45995730.0, 13339535.0, 2637558.0, 357423.0)
_REST: Final = (32670.0, 1925.0, 66.0, 1.0)
_LAST_FACTORIAL: Final = 170
_FACTORIALS: Final = np.array([float(math.factorial(n)) for n in range(_LAST_FACTORIAL + 1)])
_TOLD_APART: Final = 2.0**46
_GREATEST: Final = 172.0  # beyond, gamma is infinite
_GREATEST_EXPONENT: Final = 709.78


def _horner(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    acc: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        acc = acc * x + c
    return wrap(acc.value)


def _lanczos(x: Tensor) -> Tensor:
    """The rational part, in 1 / x, whose powers stay small."""
    inverse = 1 / x
    above, below = tuple(reversed(_ABOVE)), tuple(reversed((*_BELOW, *_REST)))
    return _horner(above, inverse) / _horner(below, inverse)


def _positive(x: Tensor) -> Tensor:
    """gamma of numbers from 1/2 to 172, the power taken in two halves, as the whole one overflows before."""
    base = x + (_G - 0.5)
    half = pow(base, x * 0.5 - 0.25)
    return half * exp(-base) * half * _lanczos(x)


def gamma1p(a: Tensor) -> Tensor:
    """gamma(1 + a) for a from 0 to 171."""
    return _positive(1 + a)


def _sine(x: Tensor, rest: Tensor | float = 0.0) -> Tensor:
    """sin(pi (x + rest)), by what x is beyond the nearest whole number, which is exact."""
    nearest = wrap(ops.rint(x.value))
    sine = sin((x - nearest + rest) * math.pi)
    return where(wrap(ops.rint((nearest * 0.5).value)) * 2 == nearest, sine, -sine)


def _of_whole(approximate: Tensor, x: Tensor) -> Tensor:
    """With the factorials themselves at whole numbers from 1 to 171; the gradient is kept."""
    is_integer = (x == floor(x)) & (x >= 1) & (x <= _LAST_FACTORIAL + 1)
    index = astype(where(is_integer, x - 1, 0.0), dtypes.int64)
    exact = wrap(ops.gather(lifting.value_of(_FACTORIALS), index.value, axis=0))
    return where(is_integer, approximate + wrap(ops.stop_gradient((exact - approximate).value)), approximate)


def _gamma(x: Tensor) -> Tensor:
    """Below 0 by the reflection in gamma(-x), whose argument is exact; below 1/2 by gamma(x + 1)."""
    low, negative = (x < 0.5) & (x >= -0.5), x < -0.5
    size = where(negative, -x, where(low, x + 1, x))
    clamped = clipped(size, 0.5, _GREATEST)
    positive = _of_whole(_positive(clamped), clamped)
    pole = (x <= 0) & (x == floor(x))
    turned = negative & ~pole
    reflected = -math.pi / (_sine(where(turned, x, 0.25)) * where(turned, x, 1.0) * where(negative, positive, 1.0))
    gamma = where(negative, where(x < -_GREATEST, 0.0 * _sign(x), reflected), positive / where(low & ~pole, x, 1.0))
    gamma = where(x > _GREATEST, math.inf, gamma)
    gamma = where(pole, where(x == 0, 1 / x, math.nan), gamma)
    return where(x == -math.inf, math.nan, where(x != x, x, gamma))


@array_function
def gamma(x: TensorLike) -> Tensor:
    """The gamma function: infinite at zeros with their sign, NaN at -1, -2, ... and -inf. Computed in float64."""
    return in_float64(_gamma, x)


def _vanishing(x: Tensor, size: Tensor) -> Tensor:
    """size / (gamma(x) gamma(1 - x)) at x = 0, -1, -2, ...: by the reflection it is 0 with all its slopes."""
    return size * _sine(x) / math.pi


def _bounded_exp(exponent: Tensor) -> Tensor:
    """The exponential, near the greatest number where float64 does not hold it."""
    return exp(clipped(exponent, high=_GREATEST_EXPONENT))


@array_function
def rgamma(x: TensorLike) -> Tensor:
    """1 / gamma(x), which is 0 at 0, -1, -2, ... and inf. Computed in float64."""

    def body(x: Tensor) -> Tensor:
        pole = (x <= 0) & (x == floor(x))
        reciprocal = where(x < -_GREATEST, math.inf * _sign(x), 1 / _gamma(where(pole, 1.0, x)))
        reciprocal = where(abs(x) < 1e-300, x, reciprocal)  # of which gamma may overflow
        at_zero = where(x == 0, x, 0.0)
        at_pole = where(pole & (x > -math.inf), x, 0.0)
        direct = where(at_pole > -_LAST_FACTORIAL, at_pole, 0.0)
        size = where(at_pole > -_LAST_FACTORIAL, _gamma(1 - direct), _bounded_exp(_log_gamma(1 - at_pole)))
        reciprocal = where(pole, _vanishing(at_pole, size), reciprocal)
        return where(x == 0, at_zero / _gamma(1 + at_zero), reciprocal)

    return in_float64(lambda x: where(x == -math.inf, 0.0, body(x)), x)


@array_function
def gammasgn(x: TensorLike) -> Tensor:
    """The sign of gamma(x): that of zeros themselves, NaN at -1, -2, ... and -inf."""

    def body(x: Tensor) -> Tensor:
        floor_x = floor(x)
        odd = floor_x * 0.5 != floor(floor_x * 0.5)
        inside = where(odd & (x < 0), -1.0, 1.0)
        at_zero = where(1 / x < 0, -1.0, 1.0)
        pole = (x < 0) & (x == floor_x)
        return where(x == 0, at_zero, where(pole, math.nan, where(x != x, x, inside)))

    return in_float64(body, x)


@array_function
def factorial(n: TensorLike) -> Tensor:
    """gamma(n + 1), and 0 for negative numbers, as in SciPy. Computed in float64."""
    return in_float64(lambda n: where(n < 0, 0.0, _gamma(clipped(n, low=0.0) + 1)), n)


def _sign(x: Tensor) -> Tensor:
    """That of gamma, 1 where it has none."""
    floor_x = floor(x)
    return where((x < 0) & (floor_x * 0.5 != floor(floor_x * 0.5)), -1.0, 1.0)


def _is_pole(x: Tensor) -> Tensor:
    """Whether gamma is infinite there."""
    is_pole: Tensor = (x <= 0) & (x == floor(x))
    return is_pole


def _log_gamma(x: Tensor) -> Tensor:
    return wrap(ops.lgamma(x.value))


def _beta(a: Tensor, b: Tensor) -> Tensor:
    """By Lanczos' approximation of all three gamma functions, whose large factors cancel; else by logarithms."""
    usual = (a > 0) & (b > 0) & (a + b < math.inf)
    p, q = where(usual, a, 1.0), where(usual, b, 1.0)
    less, more = minimum(p, q), maximum(p, q)
    small = less < 1
    first = where(small, less + 1, less)
    factor, divisor = where(small, less + more, 1.0), where(small, less, 1.0)
    small = more < 1
    second = where(small, more + 1, more)
    factor = factor * where(small, (first + more) / more, 1.0)
    r, s, t = (x + (_G - 0.5) for x in (first, second, first + second))
    ratio = pow(r / t, first - 0.5) * exp(second * log1p(-first / t)) * math.exp(0.5 - _G) / sqrt(s)
    by_lanczos = ratio * _lanczos(first) * _lanczos(second) / _lanczos(first + second) * factor / divisor
    zero = ~usual & _is_pole(a + b) & ~_is_pole(a) & ~_is_pole(b)
    u, v = where(usual | zero, 1.0, a), where(usual | zero, 1.0, b)
    size = exp(_log_gamma(u) + (_log_gamma(v) - _log_gamma(u + v)))
    p, q = where(zero, a, 0.25), where(zero, b, -0.25)
    factors = _bounded_exp(_log_gamma(p) + _log_gamma(q) + _log_gamma(1 - (p + q))) * _sign(p) * _sign(q)
    others = where(zero, _vanishing(p + q, factors), size * _sign(u) * _sign(v) * _sign(u + v))
    nothing = (a == 0) & (b == 0)
    poles = 1 / abs(where(nothing, a, 1.0))  # infinite from the right, as in SciPy
    return where(nothing, poles, where(usual, by_lanczos, others))


@array_function
def beta(a: TensorLike, b: TensorLike) -> Tensor:
    """gamma(a) gamma(b) / gamma(a + b). Computed in float64, without overflow of the factors."""
    return in_float64(_beta, a, b)


@array_function
def betaln(a: TensorLike, b: TensorLike) -> Tensor:
    """The logarithm of abs(beta(a, b)). Computed in float64, of unequal positive numbers without cancellation."""
    return in_float64(_log_of_beta, a, b)


def _log_of_beta(a: Tensor, b: Tensor) -> Tensor:
    """By lgamma, whose derivatives are kept, with a value by Stirling's formula where the greater one is large."""
    plain = _log_gamma(a) + (_log_gamma(b) - _log_gamma(a + b))
    p, q = wrap(ops.stop_gradient(minimum(a, b).value)), wrap(ops.stop_gradient(maximum(a, b).value))
    usual = (p > 0) & (q >= LARGE) & (p + q < math.inf)
    p, q = where(usual, p, 1.0), where(usual, q, LARGE)
    both = p >= LARGE
    total = p + q
    rests = stirling_rest(q) - stirling_rest(total)
    least = where(both, 1.0, p)
    of_one = _log_gamma(least) - (q - 0.5) * log1p(least / q) - least * (log(total) - 1) + rests
    least = where(both, p, LARGE)
    of_both = (least - 0.5) * log(least / total) + q * log1p(-least / total) + rests + stirling_rest(least)
    of_both = of_both - 0.5 * log(q) + 0.5 * math.log(2 * math.pi)
    usual = usual & (abs(plain) < math.inf)
    near = wrap(ops.stop_gradient(where(usual, plain, 0.0).value))
    nothing = (a == 0) & (b == 0)
    return where(nothing, -log(where(nothing, a, 1.0)), plain + where(usual, where(both, of_both, of_one) - near, 0.0))


def _counted(approximate: Tensor, is_whole: Tensor) -> Tensor:
    """With the whole number that it is meant to be where float64 tells them apart; its gradient is kept."""
    nearest = wrap(ops.stop_gradient((wrap(ops.rint(approximate.value)) - approximate).value))
    return where(is_whole & (approximate < _TOLD_APART), approximate + nearest, approximate)


def _binom(n: Tensor, k: Tensor) -> Tensor:
    is_integer = (k == floor(k)) & (n == floor(n))
    outside = is_integer & ((k < 0) | ((k > n) & (n >= 0)))
    undefined = (n < 0) & (n == floor(n))
    plain = outside | undefined
    size = 1 / ((where(plain, 1.0, n) + 1) * _beta(where(plain, 1.0, n - k + 1), where(plain, 1.0, k + 1)))
    near = outside & (n < math.inf) & (abs(k) < math.inf)
    pole = where(near, where(k < 0, k, n - k), -1.0)  # of one of the gamma functions that divide
    vanishing = _vanishing(pole + 1, _beta(where(near, n, 0.0) + 1, -pole))
    return where(undefined, math.nan, where(outside, vanishing, _counted(size, is_integer)))


@array_function
def binom(n: TensorLike, k: TensorLike) -> Tensor:
    """The binomial coefficient, n (n - 1) ... (n - k + 1) / k!, by the beta function. Computed in float64.

    Whole where n and k are, up to 2^46; NaN for whole n below 0, as in SciPy.
    """
    return in_float64(_binom, n, k)


@array_function
def comb(n: TensorLike, k: TensorLike, *, repetition: bool = False) -> Tensor:
    """The number of ways to choose k things out of n, with ``repetition`` also repeatedly; 0 for negative numbers."""

    def body(n: Tensor, k: Tensor) -> Tensor:
        valid = (n >= 0) & (k >= 0)
        total = n + k - 1 if repetition else n
        inside = valid & (k <= total)
        count = _binom(where(inside, total, 1.0), where(inside, k, 1.0))
        if repetition:
            inside, count = inside | (valid & (k == 0)), where(k == 0, 1.0, count)
        return where(inside, count, 0.0)

    return in_float64(body, n, k)


def _turned_ratio(x: Tensor, rest: Tensor, y: Tensor) -> Tensor:
    """gamma(x + rest) / gamma(y), for a rest below the rounding of x; by the reflection for those below 1/2."""
    x_turned, y_turned = x < 0.5, y < 0.5
    u, v = where(x_turned, 1 - x, x), where(y_turned, 1 - y, y)
    direct = (u < _GREATEST) & (v < _GREATEST)
    gamma_u, gamma_v = _gamma(where(direct, u, 1.0)), _gamma(where(direct, v, 1.0))
    above = where(x_turned, 1.0, gamma_u) * where(y_turned, gamma_v, 1.0)
    below = where(x_turned, gamma_u, 1.0) * where(y_turned, 1.0, gamma_v)
    direct = direct & (above < math.inf) & (below < math.inf)
    logarithm = where(x_turned, -1.0, 1.0) * _log_gamma(u) + where(y_turned, 1.0, -1.0) * _log_gamma(v)
    size = where(direct, where(direct, above, 1.0) / where(direct, below, 1.0), exp(where(direct, 0.0, logarithm)))
    sine_x, sine_y = _sine(where(x_turned, x, 0.5), where(x_turned, rest, 0.0)), _sine(where(y_turned, y, 0.5))
    ratio = size * (sine_y / sine_x)
    return where(x_turned & ~y_turned, ratio * math.pi, where(y_turned & ~x_turned, ratio / math.pi, ratio))


def _poch(z: Tensor, m: Tensor) -> Tensor:
    end = z + m
    begin = end - z
    lost = (z - (end - begin)) + (m - begin)  # by rounding, of which much is left beside a pole
    lost = where(abs(end) < math.inf, lost, 0.0)
    rising = (z > 0) & (m > 0) & (m < _GREATEST)
    usual = rising | ((z > 0) & (end > 0) & (z < _GREATEST) & (end < _GREATEST))
    over = _gamma(where(rising, m, 1.0)) / _beta(where(rising, z, 1.0), where(rising, m, 1.0))
    low = usual & ~rising
    direct = where(rising, over, _gamma(where(low, end, 1.0)) / _gamma(where(low, z, 1.0)))
    pole = (end <= 0) & (end == floor(end)) & (lost == 0)
    zero = (z <= 0) & (z == floor(z)) & ~pole
    u, v = where(usual | zero | pole, 1.0, end), where(usual | zero | pole, 1.0, z)
    size = exp(_log_gamma(u) - _log_gamma(v)) * _sign(u) * _sign(v)
    finite = (abs(u) < math.inf) & (abs(v) < math.inf)
    other = ~finite | usual | zero | pole
    size = where(other, size, _turned_ratio(where(other, 1.0, end), where(other, 0.0, lost), where(other, 1.0, z)))
    both = pole & (z <= 0) & (z == floor(z))  # gamma of whole numbers below 0 has a ratio, by the reflection
    p, q = where(both, 1 - z, 1.0), where(both, 1 - end, 1.0)
    turned = exp(_log_gamma(p) - _log_gamma(q)) * where(floor(m * 0.5) * 2 != floor(m), -1.0, 1.0)
    p, q = where(zero, z, 0.0), where(zero, end, 1.0)
    vanishing = _vanishing(p, _bounded_exp(_log_gamma(1 - p) + _log_gamma(q)) * _sign(q))
    ratio = where(usual, direct, where(zero, vanishing, where(both, turned, where(pole, math.inf, size))))
    one = wrap(ops.stop_gradient((1 - ratio).value)) + ratio  # with its slopes
    return where(m == 0, where(abs(ratio) < math.inf, one, 1.0), ratio)


@array_function
def poch(z: TensorLike, m: TensorLike) -> Tensor:
    """gamma(z + m) / gamma(z), the product z (z + 1) ... (z + m - 1) for whole m. Computed in float64."""
    return in_float64(_poch, z, m)


@array_function
def perm(n: TensorLike, k: TensorLike) -> Tensor:
    """The number of sequences of k things out of n, n! / (n - k)!; 0 for negative numbers and k > n."""

    def body(n: Tensor, k: Tensor) -> Tensor:
        inside = (n >= 0) & (k >= 0) & (k <= n)
        m = where(inside, k, 1.0)
        count = _poch(where(inside, n, 1.0) - m + 1, m)
        return where(inside, _counted(count, (n == floor(n)) & (k == floor(k))), 0.0)

    return in_float64(body, n, k)
