"""Elementary functions that SciPy counts as special, and erf and gamma functions in SciPy's and PyTorch's names."""

from __future__ import annotations

import math

from jitgraph import ops
from jitgraph.dtypes import float32, is_float
from jitgraph.tensor import Tensor, elementwise, wrap
from jitgraph.tensor.functions.elementwise import abs, exp, expm1, log, log1p, pow, sin, sqrt, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import float_tensors, in_float64
from jitgraph.tensor.functions.special_functions import ndtri
from jitgraph.tensor.lifting import TensorLike, cast, value_of

# ----------------------------------------------------------------------
# erf and gamma functions and their inverses, in SciPy's and PyTorch's names.


@array_function
def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), accurate where it is small. Integers and bools are computed in float32."""
    return elementwise(ops.erfc, x, floating=True)


@array_function
def erfinv(x: TensorLike) -> Tensor:
    """The inverse of erf: infinite at -1 and 1, NaN beyond. Integers and bools are computed in float32."""
    return elementwise(ops.erfinv, x, floating=True)


@array_function
def lgamma(x: TensorLike) -> Tensor:
    """log(|gamma(x)|): infinite at 0, -1, -2, ... Integers and bools are computed in float32."""
    return elementwise(ops.lgamma, x, floating=True)


@array_function
def digamma(x: TensorLike) -> Tensor:
    """The derivative of lgamma: infinite at zeros with the sign of -x, NaN at -1, -2, ... Integers in float32."""
    return elementwise(ops.digamma, x, floating=True)


gammaln = lgamma
"""As ``lgamma``."""
psi = digamma
"""As ``digamma``."""


@array_function
def polygamma(n: int, x: TensorLike) -> Tensor:
    """The n-th derivative of digamma (n = 1: trigamma), and digamma itself for n = 0."""
    if n == 0:
        return digamma(x)
    value = value_of(x)
    return wrap(ops.polygamma(value if is_float(value.type.dtype) else cast(value, float32), n=n))


@array_function
def logit(x: TensorLike) -> Tensor:
    """log(x / (1 - x)), the inverse of ``expit``; infinite at 0 and 1, NaN outside."""
    (probability,) = float_tensors(x)
    outside = where((probability < 0) | (probability > 1), math.nan, 0.0)
    probability = probability + outside  # the slope is NaN there, too
    near = (probability > 0.25) & (probability < 0.75)  # where the difference of logarithms would cancel
    distance = where(near, 2 * probability - 1, 0.0)  # exact
    far = where(near, 0.25, probability)
    return where(near, log1p(distance) - log1p(-distance), log(far) - log1p(-far))


# ----------------------------------------------------------------------
# Elementary functions that SciPy counts as special: powers less one, transforms of Box and Cox, losses of Huber.


@array_function
def exp10(x: TensorLike) -> Tensor:
    """10 to the power x. Computed in float64."""
    return in_float64(lambda x: pow(10.0, x), x)


@array_function
def cosm1(x: TensorLike) -> Tensor:
    """cos(x) - 1, to full precision near 0. Computed in float64."""

    def body(x: Tensor) -> Tensor:
        half = sin(x * 0.5)
        return -2 * half * half

    return in_float64(body, x)


@array_function
def exprel(x: TensorLike) -> Tensor:
    """(exp(x) - 1) / x, which is 1 at 0. Computed in float64."""

    def body(x: Tensor) -> Tensor:
        small = (x > -1) & (x < 1)  # there by its series, so that derivatives near 0 are right, too
        near = where(small, x, 0.0)
        series = near * 0.0 + 1.0
        for k in range(19, 1, -1):
            series = 1 + near / k * series
        great = x > 700  # where exp overflows before the quotient does
        far = where(small | great, 1.0, x)
        size = where(great & (x < math.inf), x, 1.0)
        root = exp(size * 0.5)
        above = where(x == math.inf, math.inf, root / size * root)
        return where(small, series, where(great, above, expm1(far) / far))

    return in_float64(body, x)


@array_function
def powm1(x: TensorLike, y: TensorLike) -> Tensor:
    """x ** y - 1, to full precision where it is small. Computed in float64."""

    def body(x: Tensor, y: Tensor) -> Tensor:
        near = (x > 0) & (abs(y * log(where(x > 0, x, 1.0))) < 0.5)
        return where(near, expm1(y * log(where(near, x, 1.0))), pow(x, y) - 1)

    return in_float64(body, x, y)


@array_function
def boxcox(x: TensorLike, lmbda: TensorLike) -> Tensor:
    """(x ** lmbda - 1) / lmbda, and log(x) for lmbda = 0. Computed in float64."""

    def body(x: Tensor, power: Tensor) -> Tensor:
        return _over(log(x), power)

    return in_float64(body, x, lmbda)


@array_function
def boxcox1p(x: TensorLike, lmbda: TensorLike) -> Tensor:
    """((1 + x) ** lmbda - 1) / lmbda, and log(1 + x) for lmbda = 0. Computed in float64."""
    return in_float64(lambda x, power: _over(log1p(x), power), x, lmbda)


def _over(logarithm: Tensor, power: Tensor) -> Tensor:
    flat = power == 0
    divisor = where(flat, 1.0, power)
    near = where(flat & (abs(logarithm) < math.inf), logarithm, 0.0)
    slope = power * near * near * 0.5  # nothing, but for its derivative by the power
    product = divisor * logarithm
    lost = (abs(product) < 1e-290) & ~flat  # where it rounds as subnormal numbers do
    return where(flat, logarithm + slope, where(lost, logarithm, expm1(where(lost, 0.0, product)) / divisor))


@array_function
def inv_boxcox(y: TensorLike, lmbda: TensorLike) -> Tensor:
    """The inverse of ``boxcox``: (1 + lmbda y) ** (1 / lmbda), and exp(y) for lmbda = 0. Computed in float64."""
    return in_float64(lambda y, power: exp(_back(y, power)), y, lmbda)


@array_function
def inv_boxcox1p(y: TensorLike, lmbda: TensorLike) -> Tensor:
    """The inverse of ``boxcox1p``, to full precision near 0. Computed in float64."""
    return in_float64(lambda y, power: expm1(_back(y, power)), y, lmbda)


def _back(y: Tensor, power: Tensor) -> Tensor:
    flat = power == 0
    divisor = where(flat, 1.0, power)
    near = where(flat & (abs(y) < math.inf), y, 0.0)
    product = divisor * y
    lost = (abs(product) < 1e-290) & ~flat
    return where(flat, y - power * near * near * 0.5, where(lost, y, log1p(where(lost, 0.0, product)) / divisor))


@array_function
def log_expit(x: TensorLike) -> Tensor:
    """log(1 / (1 + exp(-x))), without underflow far below 0."""
    return elementwise(ops.log_sigmoid, x, floating=True)


@array_function
def softplus(x: TensorLike) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return elementwise(ops.softplus, x, floating=True)


@array_function
def huber(delta: TensorLike, r: TensorLike) -> Tensor:
    """r * r / 2 where abs(r) <= delta, else delta (abs(r) - delta / 2); infinite for delta < 0, as in SciPy."""

    def body(delta: Tensor, r: Tensor) -> Tensor:
        size = abs(r)
        return where(delta < 0, math.inf, where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta)))

    return in_float64(body, delta, r)


@array_function
def pseudo_huber(delta: TensorLike, r: TensorLike) -> Tensor:
    """delta ** 2 (sqrt(1 + (r / delta) ** 2) - 1), 0 where one of both is 0; infinite for delta < 0, as in SciPy."""

    def body(delta: Tensor, r: Tensor) -> Tensor:
        flat = (delta == 0) | (r == 0) | (delta == math.inf)
        far = abs(r) > 1e100 * delta  # where the square overflows
        part = where(flat | far, 0.0, r) / where(flat, 1.0, delta)
        square = part * part
        loss = delta * delta * (square / (sqrt(1 + square) + 1))
        loss = where(far, delta * (abs(r) - delta), loss)
        loss = where(delta == math.inf, where(abs(r) < math.inf, 0.5 * r * r, math.inf), loss)
        return where(delta < 0, math.inf, where(delta == 0, 0.0, loss))

    return in_float64(body, delta, r)


@array_function
def erfcinv(y: TensorLike) -> Tensor:
    """The inverse of erfc: inf at 0, -inf at 2, NaN outside. Computed in float64."""
    return in_float64(lambda y: where(y < 0, math.nan, -ndtri(y * 0.5) * math.sqrt(0.5)), y)


@array_function
def agm(a: TensorLike, b: TensorLike) -> Tensor:
    """The arithmetic-geometric mean of numbers that are not negative; NaN for one below 0. Computed in float64."""
    return in_float64(_agm, a, b)


def _agm(a: Tensor, b: Tensor) -> Tensor:
    valid = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)
    x, y = where(valid, a, 1.0), where(valid, b, 1.0)
    for _ in range(14):  # each turn doubles the digits; the first ones halve the exponent's difference
        x, y = (x + y) * 0.5, sqrt(x) * sqrt(y)
    zero = ((a == 0) & (b >= 0) & (b < math.inf)) | ((b == 0) & (a >= 0) & (a < math.inf))
    infinite = ((a == math.inf) & (b > 0)) | ((b == math.inf) & (a > 0))
    return where(valid, x, where(zero, 0.0, where(infinite, math.inf, math.nan)))


def _one(x: Tensor) -> Tensor:
    return wrap(ops.full_like(1.0, x.value))


@array_function
def ellipkm1(p: TensorLike) -> Tensor:
    """``ellipk(1 - p)``, to full precision near p = 0, where it is infinite; NaN below. Computed in float64."""
    return in_float64(lambda p: (math.pi / 2) / _agm(_one(p), sqrt(p)), p)


@array_function
def ellipk(m: TensorLike) -> Tensor:
    """The complete elliptic integral of the first kind of the parameter m = k ** 2; inf at 1, NaN above. In float64."""
    return in_float64(lambda m: (math.pi / 2) / _agm(_one(m), sqrt(1 - m)), m)


@array_function
def ellipe(m: TensorLike) -> Tensor:
    """The complete elliptic integral of the second kind of the parameter m = k ** 2; NaN above 1. In float64."""

    def body(m: Tensor) -> Tensor:
        inside = (m < 1) & (m > -math.inf)
        within = where(inside, m, 0.0)
        negative = within < 0  # there by sqrt(1 - m) and m / (m - 1), so that nothing overflows
        wide = 1 - within
        rest = where(negative, 1 / where(negative, wide, 1.0), wide)  # 1 less the parameter
        parameter = where(negative, where(rest < 0.5, 1 - rest, -within * rest), within)
        integral = _second_kind(parameter, rest) * sqrt(where(negative, wide, 1.0))
        return where(inside, integral, where(m == 1, 1.0, where(m == -math.inf, math.inf, math.nan)))

    return in_float64(body, m)


def _second_kind(parameter: Tensor, rest: Tensor) -> Tensor:
    """ellipe of a parameter from 0 to 1, of which ``rest`` is left to 1.

    Up to 1/2 by the arithmetic-geometric mean (Abramowitz and Stegun 17.6.4), whose sum comes close to 1 above: there
    by the same sum of the rest, and Legendre's relation (17.3.13), in which all terms are positive.
    """
    above = parameter > 0.5
    x, y = rest * 0 + 1, sqrt(where(above, parameter, rest))
    total, factor = where(above, rest, parameter) * 0.5, 0.5
    for _ in range(5):
        step = (x - y) * 0.5
        x, y = (x + y) * 0.5, sqrt(x * y)
        factor *= 2
        total = total + factor * step * step
    first_kind = (math.pi / 2) / where(above, _agm(rest * 0 + 1, sqrt(where(above, rest, 1.0))), x)
    return where(above, x + first_kind * total, first_kind * (1 - total))
