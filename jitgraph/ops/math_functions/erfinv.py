"""The inverse error function.

With w = -log(1 - x^2) the quotient erfinv(x) / x is smooth in w, and where w is large in sqrt(w) (M. Giles,
"Approximating the erfinv function", 2010); the polynomials are our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jitgraph import dtypes
from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions import tables as tables
from jitgraph.ops.math_functions.format import Pair, format_of, polynomial, two_product
from jitgraph.ops.math_functions.log import log


def erfinv(s: Scalars, x: Scalar) -> Scalar:
    """The y with erf(y) = x: infinite at -1 and 1, NaN beyond."""
    form = format_of(x)
    w = s.neg(log(s, s.fma(s.neg(x), x, s.const(1.0, form.dtype))))
    root = s.sqrt(w)
    lost = s.div(s.fma(s.neg(root), root, w), s.add(root, root))  # of the root's rounding: the result is nearly root
    if form.dtype == dtypes.float32:
        near = _series(s, w, None, 1.25, tables.ERFINV_32)
        tail = _series(s, root, lost, 3.125, tables.ERFINV_TAIL_32)
        constant, rest = _select(s, s.cmp("lt", w, s.const(5.0, form.dtype)), near, tail)
    else:
        near = _series(s, w, None, 1.5, tables.ERFINV_64)
        tail = _series(s, root, lost, 3.25, tables.ERFINV_TAIL_64)
        far = _series(s, root, lost, 5.0, tables.ERFINV_FAR_64)
        tail = _select(s, s.cmp("lt", w, s.const(16.0, form.dtype)), tail, far)
        constant, rest = _select(s, s.cmp("lt", w, s.const(6.25, form.dtype)), near, tail)
    high, low = two_product(s, x, constant)
    result = s.add(high, s.fma(x, rest, low))
    result = s.select(s.cmp("eq", x, s.const(0.0, form.dtype)), x, result)  # the sum lost the sign of -0.0
    end = s.cmp("eq", s.abs(x), s.const(1.0, form.dtype))
    return s.select(end, s.mul(x, s.const(math.inf, form.dtype)), result)


def _series(s: Scalars, x: Scalar, x_low: Scalar | None, centre: float, coefficients: Sequence[float]) -> Pair:
    """The polynomial in ``x + x_low - centre``: its constant's first part, and the rest."""
    first, low, *rest = coefficients
    t = s.sub(x, s.const(centre, x.dtype))
    t = t if x_low is None else s.add(t, x_low)
    return s.const(first, x.dtype), s.fma(t, polynomial(s, t, rest), s.const(low, x.dtype))


def _select(s: Scalars, condition: Scalar, left: Pair, right: Pair) -> Pair:
    return s.select(condition, left[0], right[0]), s.select(condition, left[1], right[1])
