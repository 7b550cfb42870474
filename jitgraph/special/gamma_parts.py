"""What the incomplete gamma and beta functions are made of, in float64 and without cancellation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.special.clipping import clipped
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.elementwise import abs, log, log1p, where
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tracing.control.flow import while_loop
from jitgraph.transforms.custom import custom_vjp

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
    (high, low), (upper, lower) = _halves(clamped), _halves(y)
    return product, where(inside, low * lower - (((product - high * upper) - low * upper) - high * lower), 0.0)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    scaled = x * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


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
