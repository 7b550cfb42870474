"""The math functions of the scalar op ``call``, by name.

Each is written once, in scalar ops (``ir.scalar``) alone, without branches or tables in memory, so that
vectors on a CPU, PTX and the slow executor give the same bits. They take and give float32 or float64; 16-bit floats
are widened by whoever calls. ``docs/accuracy.md`` has the measured errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgraph.ir.scalar import Scalar
from jitgraph.ops.math_functions.erf_and_gamma import digamma, erf, erfc, erfinv, gaussian, lgamma, ndtr, rsqrt
from jitgraph.ops.math_functions.exponential import (
    acosh,
    asinh,
    atanh,
    cosh,
    exp,
    exp2,
    expm1,
    hypot,
    log,
    log1p,
    log2,
    pow_,
    sinh,
    tanh,
)
from jitgraph.ops.math_functions.trigonometric import acos, asin, atan, atan2, cos, sin, tan

FUNCTIONS: Final[dict[str, Callable[..., Scalar]]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": log2,
    "log1p": log1p,
    "pow": pow_,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "atan2": atan2,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "hypot": hypot,
    "erf": erf,
    "erfc": erfc,
    "erfinv": erfinv,
    "lgamma": lgamma,
    "digamma": digamma,
    "rsqrt": rsqrt,
    "gaussian": gaussian,
    "ndtr": ndtr,
}
