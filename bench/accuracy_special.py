"""Errors of jg.special's functions in ulp against mpmath: ``python bench/accuracy_special.py [points]``, a table.

float64 at random points of the ranges below, float32 at as many; an ulp is that of the exact result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

import jitgraph as jg

mp.mp.dps = 40


def _ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _ndtri(p: Any) -> Any:
    return mp.findroot(lambda x: mp.log(_ndtr(x)) - mp.log(p), jg.special.ndtri(np.float64(p)).item())


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[float, float]]]] = {  # the exact one, and ranges of arguments
    "agm": (lambda a, b: mp.agm(a, b), [(1e-6, 9), (1e-6, 9)]),
    "airy_ai": (mp.airyai, [(-6, 100)]),
    "beta": (mp.beta, [(0.01, 50), (0.01, 50)]),
    "betainc": (lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True), [(0.1, 300), (0.1, 300), (0.3, 0.7)]),
    "betaln": (lambda a, b: mp.log(mp.beta(a, b)), [(0.1, 30), (0.1, 30)]),
    "binom": (mp.binomial, [(10, 40), (0.1, 10)]),
    "boxcox": (lambda x, power: mp.powm1(x, power) / power, [(0.01, 9), (-3, 3)]),
    "ellipe": (mp.ellipe, [(-50, 1)]),
    "ellipk": (mp.ellipk, [(-50, 1)]),
    "entr": (lambda x: -x * mp.log(x), [(1e-9, 50)]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [(-26, 300)]),
    "exprel": (lambda x: mp.expm1(x) / x, [(-5, 80)]),
    "gamma": (mp.gamma, [(-20, 30)]),
    "gammainc": (lambda a, x: mp.gammainc(a, 0, x, regularized=True), [(0.05, 200), (0.05, 200)]),
    "gammaincc": (lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True), [(0.05, 200), (0.05, 200)]),
    "i0": (lambda x: mp.besseli(0, x), [(-80, 80)]),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), [(-300, 300)]),
    "i1": (lambda x: mp.besseli(1, x), [(-80, 80)]),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), [(-300, 300)]),
    "j0": (lambda x: mp.besselj(0, x), [(-200, 200)]),
    "j1": (lambda x: mp.besselj(1, x), [(-200, 200)]),
    "k0": (lambda x: mp.besselk(0, x), [(1e-3, 80)]),
    "k0e": (lambda x: mp.besselk(0, x) * mp.exp(x), [(1e-3, 300)]),
    "k1": (lambda x: mp.besselk(1, x), [(1e-3, 80)]),
    "k1e": (lambda x: mp.besselk(1, x) * mp.exp(x), [(1e-3, 300)]),
    "log_ndtr": (lambda x: mp.log(_ndtr(x)), [(-60, 8)]),
    "ndtr": (_ndtr, [(-13, 9)]),
    "ndtri": (_ndtri, [(1e-6, 0.4)]),
    "poch": (mp.rf, [(0.1, 20), (0.1, 10)]),
    "powm1": (lambda x, y: mp.powm1(x, y), [(0.5, 2), (-2, 2)]),
    "sinc": (lambda x: mp.sincpi(x), [(-20, 20)]),
    "spherical_bessel_j0": (lambda x: mp.sin(x) / x, [(-200, 200)]),
    "xlog1py": (lambda x, y: x * mp.log1p(y), [(-5, 5), (-0.9, 50)]),
    "y0": (lambda x: mp.bessely(0, x), [(1e-3, 200)]),
    "y1": (lambda x: mp.bessely(1, x), [(1e-3, 200)]),
    "zeta": (lambda s, q: mp.zeta(s, q), [(1.05, 30), (0.05, 20)]),
}


def worst(name: str, dtype: Any, points: int) -> tuple[float, tuple[float, ...]]:
    """The greatest error in ulp, and where."""
    exact, ranges = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    arguments = [rng.uniform(low, high, points).astype(dtype) for low, high in ranges]
    found = getattr(jg.special, name)(*arguments).numpy()
    top, place = 0.0, 0
    for i in range(points):
        value = exact(*(mp.mpf(float(argument[i])) for argument in arguments))
        error = float(abs(mp.mpf(float(found[i])) - value) / mp.mpf(float(np.spacing(dtype(abs(float(value)))))))
        if error > top:
            top, place = error, i
    return top, tuple(float(argument[place]) for argument in arguments)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(
        "| function | arguments | float32 | float64 | worst float64 argument found |\n| --- | --- | --- | --- | --- |"
    )
    for function, (_, spans) in FUNCTIONS.items():
        narrow, (wide, at) = worst(function, np.float32, count)[0], worst(function, np.float64, count)
        shown = ", ".join(f"{low:g} to {high:g}" for low, high in spans)
        print(f"| {function} | {shown} | {narrow:.2f} | {wide:.2f} | {', '.join(map(repr, at))} |", flush=True)
