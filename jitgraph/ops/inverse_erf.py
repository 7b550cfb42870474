"""The inverse error function of Python floats, which the standard library lacks: Halley's iteration on erf and erfc."""

from __future__ import annotations

import math


def erfinv(x: float) -> float:
    """The y with erf(y) = x to a few ulp: infinite at -1 and 1, NaN beyond."""
    size = abs(x)
    if size == 0.0 or not size < 1.0:
        return x if size == 0.0 else math.copysign(math.inf, x) if size == 1.0 else math.nan
    w = -math.log1p(-size * size)
    # S. Winitzki, "A handy approximation for the error function and its inverse", 2008: within 2e-3
    half = 2 / (math.pi * 0.147) + -w / 2
    estimate = math.sqrt(math.sqrt(half * half + w / 0.147) - half)
    for _ in range(3):  # each step triples the digits
        error = math.erf(estimate) - size if size < 0.5 else (1.0 - size) - math.erfc(estimate)
        step = error * (math.sqrt(math.pi) / 2) * math.exp(estimate * estimate)
        estimate -= step / (1.0 + estimate * step)
    return math.copysign(estimate, x)
