"""Errors of jg.special's functions in ulp against mpmath, a table: ``python -m bench.accuracy_special [POINTS]``.

float64 at random points of the ranges below, float32 at as many; an ulp is that of the exact result.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

import jitgraph as jg

mp = mpmath.mp.clone()
mp.dps = 40


def _ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _ndtri(p: Any) -> Any:
    return mp.findroot(lambda x: mp.log(_ndtr(x)) - mp.log(p), jg.special.ndtri(np.float64(p)).item())


def betainc(a: float, b: float, x: float, *, upper: bool = False) -> Any:
    """I_x(a, b), or the rest to 1, to 40 digits, also of large orders: by DLMF 8.17.22 on the side that goes fast."""
    with mp.workdps(80 + 2 * int(abs(math.log10(min(a, b))))):
        p, q, t = mp.mpf(float(a)), mp.mpf(float(b)), mp.mpf(float(x))
        u = 1 - t
        turned = t * (p + q + 2) > p + 1
        if turned:
            p, q, t, u = q, p, u, t
        front = mp.exp(p * mp.log(t) + q * mp.log(u) + mp.loggamma(p + q) - mp.loggamma(p) - mp.loggamma(q)) / p
        lower = 1 / (1 - (p + q) * t / (p + 1))
        above, total, n = mp.mpf(1), lower, 0
        while True:
            n += 1
            even = n * (q - n) * t / ((p + 2 * n - 1) * (p + 2 * n))
            odd = -(p + n) * (p + q + n) * t / ((p + 2 * n) * (p + 2 * n + 1))
            change = mp.mpf(1)
            for factor in (even, odd):
                lower, above = 1 / (1 + factor * lower), 1 + factor / above
                change *= lower * above
            total *= change
            if abs(change - 1) < mp.mpf(10) ** -45:
                break
        actual = front * total
        return 1 - actual if turned != upper else actual


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[float, float]]]] = {  # the exact one, and ranges of arguments
    "agm": (lambda a, b: mp.agm(a, b), [(1e-6, 9), (1e-6, 9)]),
    "airy_ai": (mp.airyai, [(-6, 100)]),
    "beta": (mp.beta, [(0.01, 50), (0.01, 50)]),
    "betainc": (betainc, [(0.1, 300), (0.1, 300), (0.3, 0.7)]),
    "betaincc": (lambda a, b, x: betainc(a, b, x, upper=True), [(0.1, 300), (0.1, 300), (0.3, 0.7)]),
    "betaln": (lambda a, b: mp.log(mp.beta(a, b)), [(0.1, 30), (0.1, 30)]),
    "binom": (mp.binomial, [(10, 40), (0.1, 10)]),
    "boxcox": (lambda x, power: mp.powm1(x, power) / power, [(0.01, 9), (-3, 3)]),
    "boxcox1p": (lambda x, power: mp.expm1(power * mp.log1p(x)) / power, [(-0.9, 9), (-3, 3)]),
    "cosm1": (lambda x: -2 * mp.sin(x / 2) ** 2, [(-3, 3)]),
    "ellipe": (mp.ellipe, [(-50, 1)]),
    "ellipk": (mp.ellipk, [(-50, 1)]),
    "ellipkm1": (lambda p: mp.ellipk(1 - p), [(1e-9, 50)]),
    "entr": (lambda x: -x * mp.log(x), [(1e-9, 50)]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [(-26, 300)]),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), [(-80, 80)]),
    "exp10": (lambda x: mp.mpf(10) ** x, [(-30, 30)]),
    "exprel": (lambda x: mp.expm1(x) / x, [(-5, 80)]),
    "gamma": (mp.gamma, [(-20, 30)]),
    "gammainc": (lambda a, x: mp.gammainc(a, 0, x, regularized=True), [(0.05, 200), (0.05, 200)]),
    "gammaincc": (lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True), [(0.05, 200), (0.05, 200)]),
    "i0": (lambda x: mp.besseli(0, x), [(-80, 80)]),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), [(-300, 300)]),
    "i1": (lambda x: mp.besseli(1, x), [(-80, 80)]),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), [(-300, 300)]),
    "inv_boxcox": (lambda y, power: (1 + power * y) ** (1 / power), [(0.01, 3), (0.1, 3)]),
    "j0": (lambda x: mp.besselj(0, x), [(-200, 200)]),
    "j1": (lambda x: mp.besselj(1, x), [(-200, 200)]),
    "k0": (lambda x: mp.besselk(0, x), [(1e-3, 80)]),
    "k0e": (lambda x: mp.besselk(0, x) * mp.exp(x), [(1e-3, 300)]),
    "k1": (lambda x: mp.besselk(1, x), [(1e-3, 80)]),
    "k1e": (lambda x: mp.besselk(1, x) * mp.exp(x), [(1e-3, 300)]),
    "kl_div": (lambda x, y: x * mp.log(x / y) - x + y, [(0.1, 3), (5, 50)]),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), [(-80, 80)]),
    "log_ndtr": (lambda x: mp.log(_ndtr(x)), [(-60, 8)]),
    "logit": (lambda p: mp.log(p / (1 - p)), [(0.001, 0.999)]),
    "ndtr": (_ndtr, [(-13, 9)]),
    "ndtri": (_ndtri, [(1e-6, 0.4)]),
    "poch": (mp.rf, [(0.1, 20), (0.1, 10)]),
    "powm1": (lambda x, y: mp.powm1(x, y), [(0.5, 2), (-2, 2)]),
    "pseudo_huber": (lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), [(0.1, 9), (-50, 50)]),
    "rel_entr": (lambda x, y: x * mp.log(x / y), [(0.1, 3), (5, 50)]),
    "rgamma": (mp.rgamma, [(-20, 30)]),
    "sinc": (lambda x: mp.sincpi(x), [(-20, 20)]),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), [(-80, 80)]),
    "spherical_bessel_j0": (lambda x: mp.sin(x) / x, [(-200, 200)]),
    "xlog1py": (lambda x, y: x * mp.log1p(y), [(-5, 5), (-0.9, 50)]),
    "xlogy": (lambda x, y: x * mp.log(y), [(-5, 5), (0.01, 50)]),
    "y0": (lambda x: mp.bessely(0, x), [(1e-3, 200)]),
    "y1": (lambda x: mp.bessely(1, x), [(1e-3, 200)]),
    "zeta": (lambda s, q: mp.zeta(s, q), [(1.05, 30), (0.05, 20)]),
}
HEADING = "| function | arguments | float32 | float64 | worst float64 argument found |\n| --- | --- | --- | --- | --- |"


def worst(name: str, dtype: Any, points: int) -> tuple[float, tuple[float, ...]]:
    """The greatest error in ulp, and where."""
    exact, ranges = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    arguments = [rng.uniform(low, high, points).astype(dtype) for low, high in ranges]
    result = getattr(jg.special, name)(*arguments).numpy()
    top, position = 0.0, 0
    for i in range(points):
        value = exact(*(mp.mpf(float(argument[i])) for argument in arguments))
        if abs(value) > mp.mpf(float(np.finfo(dtype).max)):
            continue
        error = float(abs(mp.mpf(float(result[i])) - value) / mp.mpf(float(np.spacing(dtype(abs(float(value)))))))
        if error > top:
            top, position = error, i
    return top, tuple(float(argument[position]) for argument in arguments)


def row(name: str, points: int) -> str:
    """A line of the table."""
    narrow, (wide, at) = worst(name, np.float32, points)[0], worst(name, np.float64, points)
    shown = ", ".join(f"{low:g} to {high:g}" for low, high in FUNCTIONS[name][1])
    return f"| {name} | {shown} | {narrow:.2f} | {wide:.2f} | {', '.join(map(repr, at))} |"


def main(points: int = 1500) -> None:
    print(HEADING)
    for name in FUNCTIONS:
        print(row(name, points), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
