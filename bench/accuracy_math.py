"""Largest errors of the math functions against 50 digits: ``python -m bench.accuracy_math [POINTS] [FUNCTION ...]``.

The points are stratified: every exponent and sign, uniform ones at the scales
where something happens, the neighbourhoods of 1 and of multiples of pi/2. Needs ``pip install mpmath``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from jitgraph.ops.math_functions.functions import FUNCTIONS
from jitgraph.ops.scalar_numpy import NumpyScalars

mp = mpmath.mp.clone()
mp.dps = 50
mpf = mp.mpf
EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpf(2) ** x,
    "log2": lambda x: mp.log(x) / mp.log(2),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "pow": mp.power,
    "lgamma": lambda x: mp.inf if x <= 0 and x == mp.floor(x) else mp.re(mp.loggamma(x)),
    "erfinv": lambda x: erfinv(x),  # below
    "gaussian": lambda x: mp.exp(-(min(abs(x), mpf(100)) ** 2) / 2),
    "ndtr": lambda x: mp.erfc(-max(min(x, mpf(100)), mpf(-100)) / mp.sqrt(2)) / 2,
    "erfc": lambda x: mp.erfc(max(min(x, mpf(100)), mpf(-100))),
}


def erfinv(x: Any) -> Any:
    """mpmath's loses digits near 1: Newton's iteration on erfc, whose argument 1 - |x| is exact."""
    rest, size = 1 - abs(x), abs(x)
    if size == 1:
        return mp.inf * x
    if size < 0.5:
        return mp.erfinv(x)
    actual = mp.sqrt(-mp.log(rest * (1 + size))) * mpf("0.95")
    for _ in range(60):
        step = (mp.erfc(actual) - rest) * mp.sqrt(mp.pi) / 2 * mp.exp(actual**2)
        actual += step / (1 + actual * step)
        if abs(step) < mpf(10) ** -40:
            break
    return mp.sign(x) * actual


GROWS = ("exp", "exp2", "expm1", "sinh", "cosh", "tanh")  # 2000 stands for anything beyond: the result is the same


POSITIVE = ("digamma", "lgamma")
"""Functions that are measured above 0: below, docs/accuracy.md bounds their absolute errors."""
FLOORS = {"lgamma": mpf(1) / 64}
"""Below this size of the result an ulp is that of this number: its zeros have an absolute bound."""


def points(dtype: Any, count: int, rng: np.random.Generator) -> Any:
    bits = np.uint32 if dtype is np.float32 else np.uint64
    every = rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)
    scales = [rng.uniform(-scale, scale, count // 3) for scale in (1, 4, 20, 100, 750)]
    near_one = 1 + rng.uniform(-1, 1, count // 3) * 2.0 ** rng.integers(-25, 0, count // 3)
    angles = rng.integers(-(10**6), 10**6, count // 3) * (np.pi / 2)
    return np.concatenate([every[np.isfinite(every)], np.concatenate([*scales, near_one, angles]).astype(dtype)])


def arguments(name: str, dtype: Any, count: int) -> list[Any]:
    rng = np.random.default_rng(0)
    if name not in ("pow", "atan2", "hypot"):
        actual = points(dtype, count, rng)
        return [actual[actual > 0] if name in POSITIVE else actual]
    first = points(dtype, count, rng)
    second = rng.permutation(points(dtype, count, rng))[: len(first)]
    first = first[: len(second)]
    if name != "pow":
        return [first, second]
    base = np.exp(rng.uniform(-40, 40, count))
    exponent = rng.uniform(-1, 1, count) * (100 if dtype is np.float32 else 740) / np.log(base)
    return [np.concatenate([first, base.astype(dtype)]), np.concatenate([second, exponent.astype(dtype)])]


def error_in_ulp(got: Any, exact: Any, dtype: Any) -> float:
    info = np.finfo(dtype)
    size = abs(exact)
    limit = (2 - mpf(2) ** (-info.nmant - 1)) * mpf(2) ** (info.maxexp - 1)  # from here on it rounds to infinity
    if np.isinf(got):
        return 0.0 if size >= limit else float("inf")
    exponent = max(int(mp.floor(mp.log(size, 2))), info.minexp) if size else info.minexp
    return float(abs(mpf(float(got)) - exact) / mpf(2) ** (min(exponent, info.maxexp - 1) - info.nmant))


def worst(name: str, dtype: Any, count: int) -> tuple[float, str]:
    args = arguments(name, dtype, count)
    with np.errstate(all="ignore"):
        got = np.asarray(FUNCTIONS[name](NumpyScalars(np.dtype(dtype)), *args))
    function = EXACT.get(name) or getattr(mp, name)
    largest, where = 0.0, ""
    for result, *values in zip(got, *args, strict=True):
        if np.isnan(result) or (result == 0 and name in ("pow", "atan2")) or 0 in values:
            continue  # special values are a matter of tests/codegen/kernels/test_math.py
        exact = function(*(min(max(mpf(float(v)), -2000), 2000) if name in GROWS else mpf(float(v)) for v in values))
        error = error_in_ulp(result, exact, dtype)
        if error and name in FLOORS and dtype is np.float64:
            error *= float(min(1, mpf(2) ** (mp.floor(mp.log(abs(exact), 2)) - mp.log(FLOORS[name], 2))))
        if error > largest:
            largest, where = error, ", ".join(str(v) for v in values)
    return largest, where


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    print("| function | float32, ulp | at | float64, ulp | at |")
    print("| --- | --- | --- | --- | --- |")
    for name in sys.argv[2:] or sorted(FUNCTIONS):
        (single, at), (double, there) = (worst(name, dtype, count) for dtype in (np.float32, np.float64))
        print(f"| {name} | {single:.2f} | {at} | {double:.2f} | {there} |", flush=True)


if __name__ == "__main__":
    main()
