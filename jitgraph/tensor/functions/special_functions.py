"""Special functions over the array functions: of the normal distribution, of entropies, of beta, gamma and zeta.

Those with series of their own are computed in float64 and rounded once, whatever the float.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import JitgraphError
from jitgraph.ops import special_tables
from jitgraph.ops.bessel import chebyshev
from jitgraph.tensor.functions.elementwise import abs, exp, isnan, log, log1p, maximum, minimum, pow, sin, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import float_tensors, in_float64
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, elementwise, wrap

_ROOT_HALF: Final = math.sqrt(0.5)


@array_function
def i0(x: TensorLike) -> Tensor:
    """The modified Bessel function of the first kind of order 0. Integers and bools are computed in float32."""
    return elementwise(ops.i0, x, floating=True)


@array_function
def i1(x: TensorLike) -> Tensor:
    """The modified Bessel function of the first kind of order 1. Integers and bools are computed in float32."""
    return elementwise(ops.i1, x, floating=True)


@array_function
def i0e(x: TensorLike) -> Tensor:
    """exp(-|x|) i0(x), without overflow. Integers and bools are computed in float32."""
    return elementwise(ops.i0e, x, floating=True)


@array_function
def i1e(x: TensorLike) -> Tensor:
    """exp(-|x|) i1(x), without overflow. Integers and bools are computed in float32."""
    return elementwise(ops.i1e, x, floating=True)


@array_function
def sinc(x: TensorLike) -> Tensor:
    """sin(pi x) / (pi x), which is 1 at 0; 0 at other whole numbers, NaN at infinity, as in NumPy."""
    (a,) = float_tensors(x)
    small = abs(a) < 0.25  # there by its series, so that derivatives near 0 are right, too
    near = where(small, a, 0.0) * math.pi
    square = near * near
    series = square * 0.0 + 1.0
    for odd in range(21, 2, -2):
        series = 1 - square / (odd * (odd - 1)) * series
    far = where(small, 0.5, a)
    half = far * 0.5
    turned = (half - _nearest(half)) * 2  # sin(pi x) has the period 2
    wave = sin(where(abs(turned) > 0.5, where(turned > 0, 1 - turned, -1 - turned), turned) * math.pi)
    return where(small, series, wave / (far * math.pi))


def _nearest(x: Tensor) -> Tensor:
    """The nearest whole number."""
    return wrap(ops.rint(x.value))


@array_function
def xlog1py(x: TensorLike, y: TensorLike) -> Tensor:
    """x * log(1 + y), and 0 where x is 0 unless y is NaN."""
    left, right = float_tensors(x, y)
    return _times_log(left, right, log1p, right > -1, 0.0)


@array_function
def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """x * log(y), and 0 where x is 0 unless y is NaN."""
    left, right = float_tensors(x, y)
    return _times_log(left, right, log, right > 0, 1.0)


def _times_log(x: Tensor, y: Tensor, log_of: Callable[..., Tensor], inside: Tensor, root: float) -> Tensor:
    """x times a logarithm with this root, 0 where x is 0; where y is inside with the slopes of the product."""
    absent = (x == 0) & ~isnan(y) & ~(inside & (y < math.inf))
    product = x * log_of(where(absent, root, y))
    return where(absent, 0.0, product + 0.0)  # 0.0 and a negative logarithm make -0.0


def _steep_zero(x: Tensor) -> Tensor:
    """Zeros, whose slope and curve by x are those of a square root at 0: inf and -inf."""
    return wrap(ops.sqrt((x + 0.0).value))


@array_function
def entr(x: TensorLike) -> Tensor:
    """-x log(x), 0 at 0 and -inf below. The slope at 0 and below is infinite."""
    (a,) = float_tensors(x)
    zero = a == 0
    inside = ~(a <= 0)
    entropy = -a * log(where(inside, a, 1))
    return where(inside, entropy, where(zero, _steep_zero(where(zero, a, 1)), where(a < 0, a, -1) * math.inf))


@array_function
def rel_entr(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(x / y) for positive numbers, 0 for x = 0 and y >= 0, infinite elsewhere.

    Slopes elsewhere are infinite, too, and that by x at 0 is -inf.
    """
    a, b = float_tensors(x, y)
    inside = (a > 0) & (b > 0)
    above, below = where(inside, a, 1), where(inside, b, 1)
    quotient = above / below
    usual = (quotient > 0) & (quotient < math.inf)
    ratio = where(usual, log(where(usual, quotient, 1)), log(above) - log(below))
    edge = (a == 0) & (b >= 0)
    beyond = where(a < 0, -a, where(b < 0, -b, 1)) * math.inf  # with slopes that are infinite, too
    beyond = where((a > 0) & (b == 0), a / where(b == 0, b, 1), beyond)
    outside = where(edge, 0.0 - _steep_zero(where(edge & (b > 0), a, 1)) * (b > 0), abs(beyond))
    return where(isnan(a) | isnan(b), math.nan, where(inside, a * ratio, outside))


@array_function
def kl_div(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(x / y) - x + y for positive numbers, y for x = 0 and y >= 0, infinite elsewhere, as in SciPy."""
    a, b = float_tensors(x, y)
    outside = ((a < 0) | (b < 0)) & ~(isnan(a) | isnan(b))
    relative = rel_entr(a, b)
    return where(outside, relative, relative - a + b)


# --- the normal distribution ----------------------------------------------------------------------------------------


def _erfcx_positive(x: Tensor) -> Tensor:
    """erfcx of float64 numbers that are not negative."""
    t = where(x > 1e30, 1.0, (minimum(x, 1e30) - 3.75) / (minimum(x, 1e30) + 3.75))
    return wrap(chebyshev(special_tables.ERFCX, t.value)) / (1 + 2 * x)


def _exp_of_square(x: Tensor, factor: float) -> Tensor:
    """exp(factor * x * x) of float64 numbers, the square split in two parts of which the first is exact."""
    bits = ops.bitcast(x.value, dtype=dtypes.int64)
    head_bits = ops.shift_left(ops.shift_right(bits, ops.full_like(27, bits)), ops.full_like(27, bits))
    head = wrap(ops.bitcast(head_bits, dtype=dtypes.float64))  # no gradient; that of the other part is the whole one
    return exp(head * head * factor) * exp((x - head) * (x + head) * factor)


_ERFCX_FINITE: Final = 26.628735713751492  # sqrt(log(greatest / 2)), beyond which 2 exp(x * x) overflows


@array_function
def erfcx(x: TensorLike) -> Tensor:
    """exp(x * x) * erfc(x), without underflow where x is large; infinite from about -27 down."""

    def body(a: Tensor) -> Tensor:
        size = where(a < 0, -a, a)  # not abs, which has no slope at 0
        scaled = _erfcx_positive(size)
        clamped = where(a < 0, minimum(size, _ERFCX_FINITE), 0.0)
        scaled = where(a < 0, 2 * _exp_of_square(clamped, 1.0) - scaled, scaled)
        overflows = a < -_ERFCX_FINITE
        return where(overflows, where(overflows, -a, 1.0) * math.inf, scaled)  # whose slope is infinite, too

    return in_float64(body, x)


@array_function
def ndtr(x: TensorLike) -> Tensor:
    """The distribution function of the standard normal distribution, to full relative precision in both tails."""
    return in_float64(_ndtr, x)


def _ndtr(x: Tensor) -> Tensor:
    return wrap(ops.ndtr(x.value))


def _split_at_minus_one(x: Tensor) -> tuple[Tensor, Tensor]:
    """x where it is below -1, and elsewhere, else -1: not by minimum and maximum, which share the slope at -1."""
    return where(x < -1, x, -1.0), where(x < -1, -1.0, x)


@array_function
def log_ndtr(x: TensorLike) -> Tensor:
    """log(ndtr(x)), without underflow far below 0."""
    return in_float64(_log_ndtr, x)


def _log_ndtr(x: Tensor) -> Tensor:
    low, high = _split_at_minus_one(x)
    below = log(0.5 * _erfcx_positive(-low * _ROOT_HALF)) - low * low * 0.5
    above = log1p(-_ndtr(-high))
    return where(x < -1, below, above)


@array_function
def ndtri(p: TensorLike) -> Tensor:
    """The inverse of ``ndtr``: infinite at 0 and 1, NaN outside."""
    return in_float64(_ndtri, p)


def _ndtri(p: Tensor) -> Tensor:
    upper = p > 0.5
    tail = where(upper, 1 - p, p)  # 1 - p is exact there
    inside = (tail > 0) & (tail <= 0.5)
    small = where(inside, tail, 0.25)
    central = small > 0.2
    width = wrap(ops.sqrt((-2 * log(minimum(small, 0.2))).value))
    start = where(
        central, math.sqrt(2) * wrap(ops.erfinv((2 * maximum(small, 0.2) - 1).value)), -width + log(width) / width
    )
    x = wrap(ops.stop_gradient(start.value))
    goal = log(small)
    for step in range(5):  # Newton's method on log(ndtr), which is nearly a parabola there
        if step == 3:
            x = wrap(ops.stop_gradient(x.value))  # two steps have the right derivatives of first and second order
        reached = _log_ndtr(x)
        slope = exp(-x * x * 0.5 - 0.5 * math.log(2 * math.pi) - reached)
        x = x - (reached - goal) / slope
    quantile = where(central, start, x)
    outside = where(inside, 1.0, tail + 0.0)
    edge = log(outside) + wrap(ops.sqrt(outside.value))  # -inf at 0, NaN below; and so are slopes, inf and NaN
    quantile = where(inside, quantile, edge)
    return where(upper, -quantile, quantile)


# --- beta, gamma, zeta ------------------------------------------------------------------------------------------------


@array_function
def multigammaln(a: TensorLike, d: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``d``; NaN where a is not above (d - 1) / 2."""
    if not isinstance(d, int) or d < 1:
        raise JitgraphError(f"multigammaln: the dimension {d!r} is no int above 0")

    def body(x: Tensor) -> Tensor:
        total: Any = d * (d - 1) / 4 * math.log(math.pi)
        for j in range(d):
            total = total + wrap(ops.lgamma((x - j / 2).value))
        return where(x > (d - 1) / 2, total, math.nan)

    return in_float64(body, a)


_ZETA_TERMS: Final = 12
_BERNOULLI: Final = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)


@array_function
def zeta(x: TensorLike, q: TensorLike) -> Tensor:
    """The Hurwitz zeta function, the sum of (k + q)^-x for k from 0 on, for x > 1 and q > 0.

    Infinite at x = 1; NaN for x < 1 and q <= 0. By Euler and Maclaurin's sum behind twelve terms.
    """

    def body(s: Tensor, a: Tensor) -> Tensor:
        valid = (s > 1) & (a > 0)
        s1, a1 = where(valid, s, 2.0), where(valid, a, 1.0)
        total: Any = 0
        for k in range(_ZETA_TERMS):
            total = total + pow(a1 + k, -s1)
        end = a1 + _ZETA_TERMS
        power = pow(end, -s1)
        total = total + power * end / (s1 - 1) + power * 0.5
        factor = s1 * power / end
        for j, number in enumerate(_BERNOULLI, 1):
            total = total + factor * (number / math.factorial(2 * j))
            factor = factor * ((s1 + (2 * j - 1)) / end) * ((s1 + 2 * j) / end)
        return where(valid, total, where((s == 1) & (a > 0), math.inf, math.nan))

    return in_float64(body, x, q)
