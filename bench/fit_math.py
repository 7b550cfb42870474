"""Derives the polynomials of the math functions: ``python bench/fit_math.py > tables.py`` in ops/math_functions.

Each table is the minimax polynomial (Remez exchange in 60 digits, by mpmath) of a function under a weight that makes
the error relative to the final result, its coefficients rounded to the dtype. Needs ``pip install mpmath``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp, mpf

mp.dps = 60
Function = Callable[[Any], Any]


def remez(f: Function, weight: Function, low: Any, high: Any, degree: int) -> tuple[list[Any], Any]:
    """Coefficients (lowest first) that minimise the largest ``|weight * (f - p)|`` on ``[low, high]``; that error."""
    low, high = mpf(low), mpf(high)
    count = 60 * (degree + 2)
    grid = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)][::-1]
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    picks = [round((2 * i + 1) / (2 * (degree + 2)) * count) for i in range(degree + 2)]
    coefficients: list[Any] = []
    for _ in range(30):
        system, right = mp.matrix(degree + 2), mp.matrix(degree + 2, 1)
        for row, pick in enumerate(picks):
            for power in range(degree + 1):
                system[row, power] = grid[pick] ** power
            system[row, degree + 1] = (-1) ** row / weights[pick]
            right[row] = values[pick]
        solution = mp.lu_solve(system, right)
        coefficients, level = [solution[i] for i in range(degree + 1)], abs(solution[degree + 1])
        errors = [w * (v - mp.polyval(coefficients[::-1], x)) for x, v, w in zip(grid, values, weights, strict=True)]
        runs: list[list[int]] = []
        for i, error in enumerate(errors):
            if runs and (errors[runs[-1][0]] > 0) == (error > 0):
                runs[-1].append(i)
            else:
                runs.append([i])
        peaks = [max(run, key=lambda i: abs(errors[i])) for run in runs]
        while len(peaks) > degree + 2:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        largest = max(abs(error) for error in errors)
        if len(peaks) < degree + 2 or largest < level * (1 + mpf(10) ** -3):
            return coefficients, largest
        picks = peaks
    return coefficients, largest


def _z(f: Function) -> Function:
    """A function of x as one of z = x*x."""
    return lambda z: f(mp.sqrt(z))


HALF_LN2 = mp.log(2) / 2 * mpf("1.0002")
LOG_S = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mpf("1.0001")
QUARTER = mp.pi / 4 * mpf("1.0001")
LOW = mpf(10) ** -12  # where the function of z divides by z, 0 itself is left out

EXP = (lambda r: (mp.expm1(r) - r) / r**2, lambda r: abs(r**2 / mp.expm1(r)), -HALF_LN2, HALF_LN2)
LOG = (
    _z(lambda s: (mp.log((1 + s) / (1 - s)) / s - 2) / s**2),
    _z(lambda s: s**2 / (mp.log((1 + s) / (1 - s)) / s)),
    LOW,
    LOG_S**2,
)
SIN = (_z(lambda x: (mp.sin(x) - x) / x**3), _z(lambda x: x**3 / mp.sin(x)), LOW, QUARTER**2)
COS = (_z(lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4), _z(lambda x: x**4 / mp.cos(x)), LOW, QUARTER**2)
# A little beyond 1: so that the float32 polynomial gives pi/4 rounded at 1.
ATAN = (_z(lambda x: (mp.atan(x) - x) / x**3), _z(lambda x: x**3 / mp.atan(x)), LOW, mpf("1.02"))
ASIN = (_z(lambda x: (mp.asin(x) - x) / x**3), _z(lambda x: x**3 / mp.asin(x)), LOW, mpf("0.2501"))
SLOPE = 2 / mp.sqrt(mp.pi)
ERF = (_z(lambda x: (mp.erf(x) / x - SLOPE) / x**2), _z(lambda x: x**3 / mp.erf(x)), LOW, mpf(1))


def _erfcx(u: Any) -> Any:
    return mp.erfc(u + 1.5) * mp.exp((u + 1.5) ** 2)


def _erfcx_weight(u: Any) -> Any:
    return mp.exp(-((u + 1.5) ** 2)) / mp.erf(u + 1.5)


def _erfc_rest(centre: Any, top: Any) -> tuple[Function, Function, Any, Any]:
    """What is left of exp(x^2) erfc(x) beside 1 / (sqrt(pi) (x + 7/16)), in t = (x - centre) / (x + centre)."""

    def f(t: Any) -> Any:
        x = centre * (1 + t) / (1 - t)
        return mp.erfc(x) * mp.exp(x * x) * (x + mpf("0.4375")) * mp.sqrt(mp.pi) - 1

    low, high = ((x - centre) / (x + centre) for x in (mpf("0.249"), mpf(top)))
    return f, lambda t: 1 / (1 + f(t)), low, high


def _erfinv_ratio(w: Any) -> Any:
    """erfinv(x) / x where x^2 = 1 - exp(-w), by Newton's iteration on erfc (halved steps of Halley's kind)."""
    if w < mpf(10) ** -20:
        return mp.sqrt(mp.pi) / 2
    rest = mp.exp(-w) / (1 + mp.sqrt(-mp.expm1(-w)))  # 1 - x
    actual = mp.erfinv(mp.sqrt(-mp.expm1(-w))) if w < mpf("0.1") else mp.sqrt(w) * mpf("0.95")
    for _ in range(60):
        step = (mp.erfc(actual) - rest) * mp.sqrt(mp.pi) / 2 * mp.exp(actual**2)
        actual += step / (1 + actual * step)
        if abs(step) < mpf(10) ** -50:
            return actual / (1 - rest)
    raise ArithmeticError(w)


def _ndtr(centre: Any, top: Any) -> tuple[Function, Function, Any, Any]:
    """ndtr(-z) exp(z^2/2) (z + centre) in t = (z - centre) / (z + centre)."""

    def f(t: Any) -> Any:
        z = centre * (1 + t) / (1 - t)
        return mp.erfc(z / mp.sqrt(2)) / 2 * mp.exp(z * z / 2) * (z + centre)

    return f, lambda t: 1 / f(t), mpf(-1), (mpf(top) - centre) / (mpf(top) + centre)


def _erfinv(low: Any, high: Any, centre: Any, *, root: bool) -> tuple[Function, Function, Any, Any]:
    """erfinv(x) / x in w - centre, or in sqrt(w) - centre."""

    def f(t: Any) -> Any:
        return _erfinv_ratio((t + centre) ** 2 if root else t + centre)

    centre = mpf(centre)
    return f, lambda t: 1 / f(t), mpf(low) - centre, mpf(high) - centre


def _log_rest(z: Any) -> Any:
    s = mp.sqrt(z)
    return ((mp.log((1 + s) / (1 - s)) / s - 2) / z - mpf(2) / 3) / z


LOG_REST = (_log_rest, _z(lambda s: s**5 / mp.log((1 + s) / (1 - s))), mpf(10) ** -8, LOG_S**2)
ERFCX_32 = (_erfcx, _erfcx_weight, mpf("-0.5"), mpf("2.5"))
ERFCX_64 = (_erfcx, _erfcx_weight, mpf("-0.5"), mpf("4.5"))
NDTR_32, NDTR_64 = _ndtr(mpf("3.5"), "14.5"), _ndtr(mpf("5.5"), "38.6")
ERFC_32, ERFC_64 = _erfc_rest(mpf("2.5"), "10.1"), _erfc_rest(mpf("3.75"), "27.3")

TABLES: list[tuple[str, str, tuple[Function, Function, Any, Any], int, int]] = [
    # name, what it is, problem, degree for float32, degree for float64
    ("EXP", "(exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2", EXP, 4, 10),
    ("LOG", "(log((1+s)/(1-s))/s - 2) / s^2 in s^2, for (1+s)/(1-s) from sqrt(1/2) to sqrt(2)", LOG, 2, 6),
    ("LOG_REST", "((log((1+s)/(1-s))/s - 2) / s^2 - 2/3) / s^2 in s^2, the same s, for pow", LOG_REST, 0, 7),
    ("SIN", "(sin(x) - x) / x^3 in x^2 for |x| <= pi/4", SIN, 3, 6),
    ("COS", "(cos(x) - 1 + x^2/2) / x^4 in x^2 for |x| <= pi/4", COS, 2, 5),
    ("ATAN", "(atan(x) - x) / x^3 in x^2 for |x| <= 1.0099", ATAN, 8, 22),
    ("ASIN", "(asin(x) - x) / x^3 in x^2 for |x| <= 1/2", ASIN, 5, 12),
    ("ERF", "(erf(x) - 2/sqrt(pi) x) / x^3 in x^2 for |x| <= 1", ERF, 6, 11),
    ("ERFCX", "erfc(x) exp(x^2) in x - 1.5 for 1 <= x <= 4", ERFCX_32, 8, 0),
    ("ERFCX", "erfc(x) exp(x^2) in x - 1.5 for 1 <= x <= 6", ERFCX_64, 0, 20),
    ("ERFC", "erfc(x) exp(x^2) sqrt(pi) (x + 7/16) - 1 in (x - 2.5) / (x + 2.5), 1/4 <= x <= 10.1", ERFC_32, 9, 0),
    ("ERFC", "erfc(x) exp(x^2) sqrt(pi) (x + 7/16) - 1 in (x - 3.75) / (x + 3.75), 1/4 <= x <= 27.3", ERFC_64, 0, 22),
    ("NDTR", "ndtr(-z) exp(z^2/2) (z + 3.5) in (z - 3.5) / (z + 3.5), 0 <= z <= 14.5", NDTR_32, 10, 0),
    ("NDTR", "ndtr(-z) exp(z^2/2) (z + 5.5) in (z - 5.5) / (z + 5.5), 0 <= z <= 38.6", NDTR_64, 0, 22),
]


ERFINV_TABLES: list[tuple[str, str, tuple[Function, Function, Any, Any], int, int]] = [
    ("ERFINV", "in w - 1.25 up to 5", _erfinv(0, 5, "1.25", root=False), 9, 0),
    ("ERFINV", "in w - 1.5 up to 6.25", _erfinv(0, "6.25", "1.5", root=False), 0, 23),
    ("ERFINV_TAIL", "in sqrt(w) - 3.125 from sqrt(5) to 4.08", _erfinv("2.236", "4.08", "3.125", root=True), 9, 0),
    ("ERFINV_TAIL", "in sqrt(w) - 3.25 from 2.5 to 4", _erfinv("2.5", 4, "3.25", root=True), 0, 20),
    ("ERFINV_FAR", "in sqrt(w) - 5 from 4 to 6.1", _erfinv(4, "6.1", 5, root=True), 0, 18),
]
TABLES += [(name, f"erfinv(x) / x, w = -log(1 - x^2), {what}", *rest) for name, what, *rest in ERFINV_TABLES]


def _stirling(u: Any) -> Any:
    z = 1 / mp.sqrt(u)
    return (mp.loggamma(z) - ((z - 0.5) * mp.log(z) - z + mp.log(2 * mp.pi) / 2)) * z


def _digamma_rest(u: Any) -> Any:
    z = 1 / mp.sqrt(u)
    return (mp.log(z) - 1 / (2 * z) - mp.digamma(z)) * z**2


STIRLING = (_stirling, lambda u: mpf(1), LOW, mpf(1) / 64)
DIGAMMA = (_digamma_rest, lambda u: mpf(1), LOW, mpf(1) / 64)
TABLES += [
    ("STIRLING", "(lgamma(z) - (z - 1/2) log(z) + z - log(2 pi)/2) z in 1/z^2 for z >= 8 (absolute)", STIRLING, 0, 7),
    ("DIGAMMA", "(log(z) - 1/(2z) - digamma(z)) z^2 in 1/z^2 for z >= 8 (absolute)", DIGAMMA, 0, 8),
]
SPLIT = {"ERFINV", "ERFINV_TAIL", "ERFINV_FAR"}
"""Tables whose constant coefficient, which is most of the result, stands there as the sum of the first two numbers."""


def literal(coefficient: Any, bits: int) -> str:
    if bits == 64:
        return repr(float(coefficient))
    return str(np.float32(float(coefficient)))


def rounded_fit(f: Function, weight: Function, low: Any, high: Any, degree: int, kind: Any) -> list[float]:
    """Coefficients rounded to ``kind``, lowest first, the later ones fitted anew after each rounding."""
    results = []
    for left in range(degree, -1, -1):
        coefficient = float(kind(float(remez(f, weight, low, high, left)[0][0])))
        results.append(coefficient)
        f = lambda x, f=f, c=coefficient: (f(x) - mpf(c)) / x
        weight = lambda x, w=weight: w(x) * x
    return results


def show(name: str, what: str, problem: tuple[Function, Function, Any, Any], degree: int, bits: int) -> None:
    f, weight, low, high = problem
    kind = np.float32 if bits == 32 else np.float64
    if bits == 32 and low > 0:
        coefficients = rounded_fit(f, weight, low, high, degree, kind)
    else:
        exact = remez(f, weight, low, high, degree)[0]
        coefficients = [float(kind(float(c))) for c in exact]
        if name in SPLIT:
            coefficients.insert(1, float(kind(float(exact[0] - mpf(coefficients[0])))))
    rounded = [mpf(c) for c in coefficients]
    if name in SPLIT:
        rounded[:2] = [rounded[0] + rounded[1]]
    points = [low + (high - low) * i / 4000 for i in range(4001)]
    error = max(weight(x) * abs(f(x) - mp.polyval(rounded[::-1], x)) for x in points if x != 0)
    print(f"# {what}: relative error 2^{float(mp.log(error, 2)):.1f}")
    print(f"{name}_{bits}: Final = (")
    for coefficient in coefficients:
        print(f"    {literal(coefficient, bits)},")
    print(")")
    sys.stdout.flush()


def main() -> None:
    print('"""Polynomial coefficients of the math functions, lowest power first; made by ``bench/fit_math.py``."""\n')
    print("from __future__ import annotations\n\nfrom typing import Final\n")
    for name, what, problem, degree32, degree64 in TABLES:
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        for degree, bits in ((degree32, 32), (degree64, 64)):
            if degree:
                show(name, what, problem, degree, bits)


if __name__ == "__main__":
    main()
