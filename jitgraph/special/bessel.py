"""Bessel functions of orders 0 and 1 in SciPy's and PyTorch's names, and the Airy function Ai."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitgraph import dtypes, ops
from jitgraph.ops.bessel import chebyshev
from jitgraph.special import airy_table
from jitgraph.special.clipping import clipped
from jitgraph.tensor import Tensor, elementwise, wrap
from jitgraph.tensor.functions.elementwise import cos, exp, isnan, sin, sqrt, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import in_float64
from jitgraph.tensor.functions.special_functions import i0, i1
from jitgraph.tensor.lifting import TensorLike

# ----------------------------------------------------------------------
# Bessel functions of orders 0 and 1 in SciPy's short names, and PyTorch's long ones for the same functions.


@array_function
def j0(x: TensorLike) -> Tensor:
    """The Bessel function of the first kind of order 0; NaN at infinity. Integers and bools are computed in float32."""
    return elementwise(ops.j0, x, floating=True)


@array_function
def j1(x: TensorLike) -> Tensor:
    """The Bessel function of the first kind of order 1; NaN at infinity. Integers and bools are computed in float32."""
    return elementwise(ops.j1, x, floating=True)


@array_function
def y0(x: TensorLike) -> Tensor:
    """The Bessel function of the second kind of order 0: -inf at 0, NaN below. Integers and bools in float32."""
    return elementwise(ops.y0, x, floating=True)


@array_function
def y1(x: TensorLike) -> Tensor:
    """The Bessel function of the second kind of order 1: -inf at 0, NaN below. Integers and bools in float32."""
    return elementwise(ops.y1, x, floating=True)


@array_function
def k0(x: TensorLike) -> Tensor:
    """The modified Bessel function of the second kind of order 0: inf at 0, NaN below. Integers in float32."""
    return elementwise(ops.k0, x, floating=True)


@array_function
def k1(x: TensorLike) -> Tensor:
    """The modified Bessel function of the second kind of order 1: inf at 0, NaN below. Integers in float32."""
    return elementwise(ops.k1, x, floating=True)


@array_function
def k0e(x: TensorLike) -> Tensor:
    """exp(x) k0(x), without underflow: inf at 0, NaN below. Integers and bools are computed in float32."""
    return elementwise(ops.k0e, x, floating=True)


@array_function
def k1e(x: TensorLike) -> Tensor:
    """exp(x) k1(x), without underflow: inf at 0, NaN below. Integers and bools are computed in float32."""
    return elementwise(ops.k1e, x, floating=True)


bessel_j0, bessel_j1, bessel_y0, bessel_y1 = j0, j1, y0, y1
modified_bessel_i0, modified_bessel_i1 = i0, i1
modified_bessel_k0, modified_bessel_k1 = k0, k1
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = k0e, k1e


# ----------------------------------------------------------------------
# The Airy function Ai, in PyTorch's name.
#
# From -6 to 1.5 by expansions, below -1 over its zeros there; above by one of its ratio to the leading exponential, and
# below by the form of Abramowitz and Stegun 10.4.60, both in powers of 1 / z for z = 2/3 abs(x)^(3/2). That z is kept
# in two numbers, as sines and exponentials of it would multiply its rounding by z.

_LOW: Final = -6.0
_MIDDLE: Final = -1.0
_HIGH: Final = 1.5
_FARTHEST: Final = 1e200  # below, z overflows, and Ai is less than 1e-50
_ZERO_FROM: Final = 110.0  # there Ai is less than the least float64


@array_function
def airy_ai(x: TensorLike) -> Tensor:
    """The Airy function Ai(x), which decays above 0 and oscillates below; 0 at both infinities. Computed in float64."""
    return in_float64(_airy_ai, x)


def _airy_ai(x: Tensor) -> Tensor:
    airy = where(x < _MIDDLE, _waves(clipped(x, _LOW, _MIDDLE)), _near(clipped(x, _MIDDLE, _HIGH)))
    airy = where(x > _HIGH, _above(clipped(x, _HIGH, _ZERO_FROM)), airy)
    airy = where(x < _LOW, _below(-clipped(x, -_FARTHEST, _LOW)), airy)
    return where(isnan(x), x, where((x > _ZERO_FROM) | (x < -_FARTHEST), 0.0, airy))


def _expanded(table: Sequence[float], x: Tensor, low: float, high: float) -> Tensor:
    return wrap(chebyshev(table, ((x - (high + low) / 2) / ((high - low) / 2)).value))


def _near(x: Tensor) -> Tensor:
    return _expanded(airy_table.NEAR, x, _MIDDLE, _HIGH)


def _waves(x: Tensor) -> Tensor:
    """By the zeros from -6 to -1, each the sum of two numbers, so that it is exact around them."""
    series = _expanded(airy_table.WAVES, x, _LOW, _MIDDLE)
    for zero, rest in airy_table.ZEROS:
        series = series * ((x - zero) - rest)
    return series


def _head(x: Tensor) -> Tensor:
    """The first 26 bits."""
    bits = ops.bitcast(x.value, dtype=dtypes.int64)
    head_bits = ops.shift_left(ops.shift_right(bits, ops.full_like(27, bits)), ops.full_like(27, bits))
    return wrap(ops.bitcast(head_bits, dtype=dtypes.float64))


def _phase(x: Tensor) -> tuple[Tensor, Tensor]:
    """2/3 x^(3/2) as the sum of two numbers; the second one carries no gradient."""
    root = sqrt(x)
    product = x * root
    z = product * 2 / 3
    s, p, y, q = (wrap(ops.stop_gradient(each.value)) for each in (root, product, x, z))
    s1, y1 = _head(s), _head(y)
    s2, y2 = s - s1, y - y1
    rest_of_root = (((y - s1 * s1) - 2 * s1 * s2) - s2 * s2) / (2 * s)
    rest = (((y1 * s1 - p) + y1 * s2) + y2 * s1) + y2 * s2 + y * rest_of_root
    return z, ((2 * p - 2 * q) - q) / 3 + rest * (2 / 3)


def _above(x: Tensor) -> Tensor:
    z, rest = _phase(x)
    least = 2 / 3 * _HIGH**1.5
    series = wrap(chebyshev(airy_table.ABOVE, (2 * least / z - 1).value))
    return exp(-z) * (1 - rest) * series / (2 * math.sqrt(math.pi) * sqrt(sqrt(x)))


def _below(x: Tensor) -> Tensor:
    z, rest = _phase(x)
    ratio = (2 / 3 * abs(_LOW) ** 1.5) / z
    t = (2 * ratio * ratio - 1).value
    p, q = wrap(chebyshev(airy_table.P, t)), wrap(chebyshev(airy_table.Q, t)) * ratio
    s0, c0 = sin(z), cos(z)
    s, c = s0 + rest * c0, c0 - rest * s0
    wave: Tensor = (p * (c + s) + q * (s - c)) / (math.sqrt(2 * math.pi) * sqrt(sqrt(x)))
    return wave
