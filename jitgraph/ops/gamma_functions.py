"""lgamma and its derivatives: digamma, and polygamma for all that follow. Floats alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitgraph.dtypes import DType
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.op import Op, Sample
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, div, gt, mul, neg, select, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.define import elementwise
from jitgraph.ops.numeric import each
from jitgraph.ops.sampling import elementwise_samples
from jitgraph.ops.transcendental import cos, rint, sin

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B_2, B_4, ...
_FROM: Final = 10  # where the asymptotic series serve
_DIGAMMA_SERIES: Final = tuple(number / (2 * j) for j, number in enumerate(_BERNOULLI, 1))


def lgamma_of(x: float) -> float:
    """lgamma of a Python float, by the C library."""
    if math.isinf(x) or (x <= 0.0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def digamma_of(x: float) -> float:
    """digamma of a Python float: by the recurrence up to 10, Stirling's series from there, and reflection below 0."""
    if x == 0.0:
        return math.copysign(math.inf, -x)
    if not math.isfinite(x):
        return x if x > 0.0 else math.nan
    if abs(x) < 1e-20:
        return -1.0 / x  # what is left, Euler's constant, is lost beside it
    if x < 0.0:
        part = x - round(x)
        return math.nan if part == 0.0 else digamma_of(-x) - 1.0 / x - math.pi / math.tan(math.pi * part)
    lifting = [1.0 / (x + k) for k in range(_FROM)] if x < _FROM else []
    z = x + len(lifting)
    series = [coefficient / z ** (2 * j) for j, coefficient in enumerate(_DIGAMMA_SERIES, 1)] if z < 1e15 else []
    return math.fsum([math.log(z), -0.5 / z, *(-term for term in (*series, *lifting))])


lgamma: Op = elementwise(
    "lgamma",
    each(lgamma_of),
    accepts=rules.FLOATS,
    scalar=lambda s, x: s.call("lgamma", x),
    traits=["approximated"],
    vjp=lambda ct, out, x: (mul(ct, digamma(x)),),
    domain=(0.4, 4.0),
    doc="The logarithm of |gamma(x)|; infinite at 0, -1, -2, ...",
)
digamma: Op = elementwise(
    "digamma",
    each(digamma_of),
    accepts=rules.FLOATS,
    scalar=lambda s, x: s.call("digamma", x),
    traits=["approximated"],
    vjp=lambda ct, out, x: (mul(ct, polygamma(x, n=1)),),
    domain=(0.4, 4.0),
    doc="The derivative of lgamma; infinite at the zeros with the sign of -x, NaN at -1, -2, ...",
)


def _polygamma(x: Any, *, n: int) -> Any:
    """The n-th derivative of digamma: ten steps of the recurrence, the asymptotic series, and reflection below 0."""
    if not isinstance(n, int) or n < 1:
        raise UnsupportedOp(f"polygamma takes n from 1 on, not {n!r}", hint="digamma is the case of n = 0")
    positive = gt(x, zeros_like(x))
    y = select(positive, x, sub(full_like(1.0, x), x))
    total = _power(div(full_like(1.0, y), y), n + 1)
    for k in range(1, _FROM):
        total = add(total, _power(div(full_like(1.0, y), add(y, full_like(float(k), y))), n + 1))
    inverse = div(full_like(1.0, y), add(y, full_like(float(_FROM), y)))
    total = mul(total, full_like(float(math.factorial(n)), y))
    series = [float(math.factorial(n - 1)), math.factorial(n) / 2]  # coefficients of 1/z^n, 1/z^(n+1), and so on
    for j, number in enumerate(_BERNOULLI, 1):
        series += [number * math.factorial(2 * j + n - 1) / math.factorial(2 * j), 0.0]
    tail = mul(_power(inverse, n), _evaluated(series[:-1], inverse))
    lifted = add(total, tail)
    forward = lifted if n % 2 else neg(lifted)
    fraction = sub(x, rint(x))
    angle = mul(fraction, full_like(math.pi, x))
    cotangent = div(cos(angle), sin(angle))
    mirrored = mul(_evaluated(_derivative_of_cotangent(n), cotangent), full_like(math.pi ** (n + 1), x))
    below = sub(neg(forward) if n % 2 else forward, mirrored)
    return select(positive, forward, below)


def _power(x: Any, n: int) -> Any:
    result = x
    for _ in range(n - 1):
        result = mul(result, x)
    return result


def _evaluated(coefficients: Sequence[float], x: Any) -> Any:
    """The polynomial, lowest power first."""
    total = full_like(float(coefficients[-1]), x)
    for coefficient in reversed(coefficients[:-1]):
        total = add(mul(total, x), full_like(float(coefficient), x))
    return total


def _derivative_of_cotangent(n: int) -> list[float]:
    """The n-th derivative of cot as a polynomial in cot: each step multiplies the derivative by -(1 + cot^2)."""
    coefficients = [0, 1]
    for _ in range(n):
        slope = [k * coefficient for k, coefficient in enumerate(coefficients)][1:]
        coefficients = [0] * (len(slope) + 2)
        for k, coefficient in enumerate(slope):
            coefficients[k] -= coefficient
            coefficients[k + 2] -= coefficient
    return [float(coefficient) for coefficient in coefficients]


def _polygamma_samples(dtype: DType) -> Sequence[Sample]:
    plain = elementwise_samples("polygamma", 1, rules.FLOATS, domain=(0.5, 4.0))(dtype)
    return [Sample(sample.inputs, {"n": n}, differentiable=sample.differentiable) for n in (1, 2) for sample in plain]


polygamma: Op = composite(
    "polygamma",
    _polygamma,
    vjp=lambda ct, out, x, *, n: (mul(ct, polygamma(x, n=n + 1)),),
    samples=_polygamma_samples,
    in_float32=True,
    traits=["pointwise"],
    doc="The n-th derivative of digamma, n from 1 on; n = 1 is trigamma.",
)
