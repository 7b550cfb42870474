"""Errors of the float32 math functions over every n-th bit pattern: ``python -m bench.accuracy_float32 61``.

Runs the functions natively (a stride of 1 is exhaustive and takes about an hour), against NumPy in float64, and checks
on a part of the points that native code gives the bits of the slow executor. Prints the errors in ulp.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph.ops import gamma_functions
from jitgraph.ops.math_functions.functions import FUNCTIONS
from jitgraph.ops.scalar_numpy import NumpyScalars
from jitgraph.ops.transcendental import inverse_erf
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.codegen.native_kernels import Native, schedule_of

CHUNK = 1 << 22
KERNEL = """
kernel @f(read x: f32[n], write y: f32[n]) sizes(n) {{
  vector _i0 < n {{
    _v0: f32 = load x[_i0]
    _v1: f32 = call {name}(_v0)
    store y[_i0] = _v1
  }}
}}
"""
EXACT: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "lgamma": np.vectorize(gamma_functions.lgamma_of, otypes=[np.float64]),
    "digamma": np.vectorize(gamma_functions.digamma_of, otypes=[np.float64]),
    "erfinv": np.vectorize(inverse_erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
}


SLOW = {"digamma": 128, "erf": 4, "erfc": 4, "erfinv": 16, "lgamma": 128}
"""Functions that Python evaluates one number at a time, and the factor of the stride that they take."""
UNMEASURED = ("pow", "atan2", "hypot", "gaussian", "ndtr")
"""Functions of two arguments, or without a counterpart in NumPy."""


def errors(got: Any, exact: Any) -> Any:
    """In ulp of ``exact``; 0 where both are NaN, zero or the same infinity; infinite for a lost NaN or sign."""
    rounded = exact.astype(np.float32)
    unit = np.exp2(np.clip(np.floor(np.log2(np.abs(exact))), -126, 127) - 23)
    error = np.abs(got.astype(np.float64) - exact) / unit
    both_nan = np.isnan(got) & np.isnan(exact)
    same = (got == rounded) & ~np.isfinite(rounded) | (got == 0) & (exact == 0)
    error = np.where(same, 0, np.where(np.isnan(error), np.inf, error))
    return np.where(both_nan, 0, np.where(np.signbit(got) == np.signbit(rounded), error, np.inf))


def measure(name: str, stride: int) -> tuple[float, float, int]:
    """The largest error, where, and how many of the compared points differ from the slow executor in any bit."""
    native = Native(schedule_of(parse_kernel(KERNEL.format(name=name))))
    exact = EXACT.get(name) or getattr(np, name)
    worst, where, different = 0.0, 0.0, 0
    for start in range(0, 1 << 32, CHUNK * stride):
        patterns = np.arange(start, min(start + CHUNK * stride, 1 << 32), stride, dtype=np.uint64)
        x = patterns.astype(np.uint32).view(np.float32)
        y = np.empty_like(x)
        native([x.ctypes.data, y.ctypes.data], {"n": x.size})
        error = errors(y, exact(x.astype(np.float64)))
        if error.max() > worst:
            worst, where = float(error.max()), float(x[error.argmax()])
        few = slice(None, None, max(1, x.size // 5000))
        slow = np.asarray(FUNCTIONS[name](NumpyScalars(x.dtype), x[few]))
        different += int(((slow.view(np.int32) != y[few].view(np.int32)) & ~(np.isnan(slow) & np.isnan(y[few]))).sum())
    return worst, where, different


def main() -> None:
    stride = int(sys.argv[1]) if len(sys.argv) > 1 else 61
    names = sys.argv[2:] or [name for name in sorted(FUNCTIONS) if name not in UNMEASURED]
    with np.errstate(all="ignore"):
        for name in names:
            worst, where, different = measure(name, stride * SLOW.get(name, 1))
            print(f"{name:6} {worst:.3f} ulp at {where!r}, {different} points differ from the executor", flush=True)


if __name__ == "__main__":
    main()
