"""Exponentials and logarithms of complex numbers in other bases, and near 0 and 1 without cancellation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.ir.op import Op
from jitgraph.ops.arithmetic import abs, add, maximum, mul, sub
from jitgraph.ops.bits import bitwise_and
from jitgraph.ops.comparison import lt, select
from jitgraph.ops.complex_arithmetic import complex_div, complex_mul, conjugate, of_parts, scaled
from jitgraph.ops.complex_functions import complex_exp, complex_log
from jitgraph.ops.complex_parts import complex_, parts, zeros_of
from jitgraph.ops.creation import full_like
from jitgraph.ops.transcendental import atan2, cos, expm1, log1p, sin

_LN2: Final = float(np.log(2.0))
_LN10: Final = float(np.log(10.0))


def _plus_one(z: Any) -> Any:
    a, b = parts(z)
    return complex_(add(a, full_like(1.0, a)), b)


def _log1p(x: Any, y: Any) -> Any:
    """Near 0 the real part is log1p(|1 + z|^2 - 1) / 2, where the excess is x (2 + x) + y^2."""
    one, half = full_like(1.0, x), full_like(0.5, x)
    near = lt(maximum(abs(x), abs(y)), half)
    a, b = select(near, x, zeros_of(x)), select(near, y, zeros_of(y))
    excess = add(mul(a, add(full_like(2.0, x), a)), mul(b, b))
    real, imag = parts(complex_log(complex_(add(one, x), y)))
    return complex_(select(near, mul(half, log1p(excess)), real), select(near, atan2(y, add(one, x)), imag))


def _expm1(x: Any, y: Any) -> Any:
    """Near 0 the real part is expm1(x) cos(y) - 2 sin(y / 2)^2."""
    one, half = full_like(1.0, x), full_like(0.5, x)
    near = bitwise_and(lt(abs(x), one), lt(abs(y), one))
    a, b = select(near, x, zeros_of(x)), select(near, y, zeros_of(y))
    s = sin(mul(half, b))
    below = sub(mul(expm1(a), cos(b)), mul(full_like(2.0, x), mul(s, s)))
    real, imag = parts(complex_exp(complex_(x, y)))
    return complex_(select(near, below, sub(real, one)), imag)


def _log2(x: Any, y: Any) -> Any:
    return scaled(complex_log(complex_(x, y)), 1.0 / _LN2)


def _log10(x: Any, y: Any) -> Any:
    return scaled(complex_log(complex_(x, y)), 1.0 / _LN10)


complex_log1p: Op = of_parts(
    "log1p", _log1p, vjp=lambda ct, out, z: (complex_div(ct, conjugate(_plus_one(z))),), doc="log(1 + x), exact near 0."
)
complex_expm1: Op = of_parts(
    "expm1", _expm1, vjp=lambda ct, out, z: (complex_mul(ct, conjugate(_plus_one(out))),), doc="e^x - 1, exact near 0."
)
complex_log2: Op = of_parts(
    "log2", _log2, vjp=lambda ct, out, z: (scaled(complex_div(ct, conjugate(z)), 1.0 / _LN2),), doc="Base-2 logarithm."
)
complex_log10: Op = of_parts(
    "log10",
    _log10,
    vjp=lambda ct, out, z: (scaled(complex_div(ct, conjugate(z)), 1.0 / _LN10),),
    doc="Base-10 logarithm.",
)
