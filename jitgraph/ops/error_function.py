"""The error function, which NumPy lacks: Taylor near 0, Chebyshev interpolation of ``math.erfc`` away from it."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from numpy.typing import NDArray

from jitgraph.ops.numeric import Array

_FAR = 6.0  # erf(6) is 1 - 2e-17


# erf(x) / x in powers of x^2, its Taylor series: enough terms for float64 up to |x| = 1
_SERIES = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(20)]


@cache
def _tail() -> Array:
    """exp(x^2) erfc(x) for 1 <= x <= 6 as a polynomial in u, where u = -1 .. 1 is (x - 2.5) / (x + 2.5) rescaled."""

    def scaled(u: float) -> float:
        t = _LOW + (u + 1) / 2 * (_HIGH - _LOW)
        x = _CENTRE * (1 + t) / (1 - t)
        return math.exp(x * x) * math.erfc(x)

    def at_points(us: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([scaled(float(u)) for u in us])

    interpolate: Any = chebyshev.chebinterpolate  # its type asks for a callable that no function satisfies
    return np.asarray(interpolate(at_points, 20))


_CENTRE = 2.5
_LOW, _HIGH = ((x - _CENTRE) / (x + _CENTRE) for x in (1.0, _FAR))


def erf(x: Array) -> Array:
    """erf of float32 or float64 values in float64 arithmetic, in the dtype of ``x``; within 5 ulp of float64."""
    wide = x.astype(np.float64)
    size = np.minimum(np.abs(wide), _FAR)  # NaN stays
    near = wide * polynomial.polyval(np.minimum(size, 1.0) ** 2, _SERIES)
    far = np.maximum(size, 1.0)
    t = (far - _CENTRE) / (far + _CENTRE)
    u = 2 * (t - _LOW) / (_HIGH - _LOW) - 1
    tail = np.copysign(1 - np.exp(-far * far) * chebyshev.chebval(u, _tail()), wide)
    return np.asarray(np.where(size < 1, near, tail), x.dtype)
