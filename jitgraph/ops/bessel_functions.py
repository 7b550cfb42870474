"""Modified Bessel functions of the first kind, orders 0 and 1, plain and scaled by exp(-|x|); float64 inside.

Chebyshev expansions of exp(-x) I(x) up to 8 and of sqrt(x) exp(-x) I(x) beyond (``bench/fit_special.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.ir.op import Op
from jitgraph.ops import rules, special_tables
from jitgraph.ops.arithmetic import abs, add, div, maximum, minimum, mul, sign, sub
from jitgraph.ops.comparison import le, select
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.sampling import elementwise_samples
from jitgraph.ops.transcendental import exp, sqrt

_FLAT: Final = 1e-9  # up to which I1(x) / x rounds to 1/2


def chebyshev(coefficients: Sequence[float], t: Any) -> Any:
    """The sum of c[k] T_k(t), by Clenshaw's recurrence."""
    double = add(t, t)
    later, latest = zeros_like(t), full_like(coefficients[-1], t)
    for c in reversed(coefficients[1:-1]):
        later, latest = latest, add(sub(mul(double, latest), later), full_like(c, t))
    return add(sub(mul(t, latest), later), full_like(coefficients[0], t))


def _scaled(x: Any, near: Sequence[float], far: Sequence[float]) -> tuple[Any, Any, Any]:
    """|x| held below 8 with the expansion there, and whether x is there; beyond, exp(-|x|) I(|x|)."""
    size, bound = abs(x), full_like(8.0, x)
    low, high = minimum(size, bound), maximum(size, bound)
    one = full_like(1.0, x)
    inner = chebyshev(near, sub(div(low, full_like(4.0, x)), one))
    outer = div(chebyshev(far, sub(div(full_like(16.0, x), high), one)), sqrt(high))
    return inner, outer, le(size, bound)


def _i0e(x: Any) -> Any:
    inner, outer, near = _scaled(x, special_tables.I0_NEAR, special_tables.I0_FAR)
    return select(near, inner, outer)


def _i1e(x: Any) -> Any:
    inner, outer, near = _scaled(x, special_tables.I1_NEAR, special_tables.I1_FAR)
    return select(near, mul(inner, x), mul(outer, sign(x)))


def _grown(scaled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function without its scale; in two steps, as exp(|x|) overflows before it."""

    def body(x: Any) -> Any:
        growth = exp(mul(abs(x), full_like(0.5, x)))
        clamped = maximum(minimum(x, full_like(1e4, x)), full_like(-1e4, x))  # far beyond overflow; 0 * inf is NaN
        return mul(mul(scaled(clamped), growth), growth)

    return body


def bessel(name: str, body: Callable[[Any], Any], vjp: Callable[..., tuple[Any]], doc: str) -> Op:
    def wide(x: Any) -> Any:
        return cast(body(cast(x, dtype=dtypes.float64)), dtype=x.dtype) if x.dtype != dtypes.float64 else body(x)

    return composite(
        name,
        wide,
        vjp=vjp,
        samples=elementwise_samples(name, 1, rules.FLOATS, domain=(0.5, 12.0)),
        traits=["pointwise"],
        doc=doc,
    )


def over_x(value: Any, x: Any) -> Any:
    """I1(x) / x, which is 1/2 at 0, and beside it, where I1(x) may be subnormal."""
    near = le(abs(x), full_like(_FLAT, x))
    return select(near, full_like(0.5, x), div(value, select(near, full_like(1.0, x), x)))


i0: Op = bessel("i0", _grown(_i0e), lambda ct, out, x: (mul(ct, i1(x)),), "I_0(x).")
i1: Op = bessel("i1", _grown(_i1e), lambda ct, out, x: (mul(ct, sub(i0(x), over_x(out, x))),), "I_1(x).")
i0e: Op = bessel(
    "i0e", _i0e, lambda ct, out, x: (mul(ct, sub(i1e(x), mul(sign(x), out))),), "exp(-|x|) I_0(x), without overflow."
)
i1e: Op = bessel(
    "i1e",
    _i1e,
    lambda ct, out, x: (mul(ct, sub(sub(i0e(x), over_x(out, x)), mul(sign(x), out))),),
    "exp(-|x|) I_1(x), without overflow.",
)
