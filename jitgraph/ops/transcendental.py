"""Roots, exponentials, logarithms, trigonometric and hyperbolic functions, erf, rounding to integers: floats alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitgraph.ir.op import Op, Trait
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import (
    abs,
    add,
    bitwise_and,
    bitwise_or,
    div,
    eq,
    ge,
    maximum,
    minimum,
    mul,
    neg,
    select,
    sign,
    sub,
)
from jitgraph.ops.conversion import stop_gradient
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.define import elementwise, flat
from jitgraph.ops.numeric import each
from jitgraph.ops.sampling import Domain

_WIDE: Final[tuple[Trait, ...]] = ("autocast_wide",)


def _function(
    name: str,
    evaluate: Callable[..., Any],
    vjp: Callable[..., tuple[Any, ...]],
    *,
    onnx: str | None = None,
    domain: Domain = (-2.0, 2.0),
    scalar: Callable[..., Any] | None = None,
    arity: int = 1,
    traits: tuple[Trait, ...] = (),
    doc: str,
) -> Op:
    return elementwise(
        name,
        evaluate,
        arity=arity,
        accepts=rules.FLOATS,
        scalar=scalar or (lambda s, *x: s.call(name, *x)),
        traits=traits if scalar else ("approximated", *traits),
        vjp=vjp,
        onnx=onnx,
        domain=domain,
        doc=doc,
    )


def _scaled(ct: Any, factor: float) -> Any:
    return mul(ct, full_like(factor, ct))


def _one_plus_square(x: Any) -> Any:
    return add(full_like(1.0, x), mul(x, x))


def _one_minus_square(x: Any) -> Any:
    return sub(full_like(1.0, x), mul(x, x))


exp: Op = _function("exp", np.exp, lambda ct, out, x: (mul(ct, out),), traits=_WIDE, onnx="Exp", doc="e to the x.")
exp2: Op = _function("exp2", np.exp2, lambda ct, out, x: (_scaled(mul(ct, out), math.log(2.0)),), doc="2 to the x.")
expm1: Op = _function(
    "expm1",
    np.expm1,
    lambda ct, out, x: (mul(ct, add(out, full_like(1.0, out))),),
    traits=_WIDE,
    doc="exp(x) - 1, exact near 0.",
)
log: Op = _function(
    "log",
    np.log,
    lambda ct, out, x: (div(ct, x),),
    onnx="Log",
    domain=(0.3, 3.0),
    traits=_WIDE,
    doc="The natural logarithm; -inf at 0, NaN below.",
)
log1p: Op = _function(
    "log1p",
    np.log1p,
    lambda ct, out, x: (div(ct, add(x, full_like(1.0, x))),),
    domain=(-0.7, 2.0),
    traits=_WIDE,
    doc="log(1 + x), exact near 0.",
)
sqrt: Op = _function(
    "sqrt",
    np.sqrt,
    lambda ct, out, x: (div(ct, _scaled(out, 2.0)),),
    onnx="Sqrt",
    domain=(0.3, 3.0),
    scalar=lambda s, x: s.sqrt(x),
    doc="The square root, correctly rounded.",
)
rsqrt: Op = _function(
    "rsqrt",
    lambda x: x.dtype.type(1) / np.sqrt(x),
    lambda ct, out, x: (_scaled(mul(ct, mul(out, mul(out, out))), -0.5),),
    domain=(0.3, 3.0),
    scalar=lambda s, x: s.div(s.const(1.0, x.dtype), s.sqrt(x)),
    traits=_WIDE,
    doc="1 / sqrt(x), each step rounded.",
)
sin: Op = _function("sin", np.sin, lambda ct, out, x: (mul(ct, cos(x)),), onnx="Sin", doc="The sine of x in radians.")
cos: Op = _function(
    "cos", np.cos, lambda ct, out, x: (neg(mul(ct, sin(x))),), onnx="Cos", doc="The cosine of x in radians."
)
tan: Op = _function(
    "tan",
    np.tan,
    lambda ct, out, x: (mul(ct, _one_plus_square(out)),),
    onnx="Tan",
    domain=(-1.2, 1.2),
    traits=_WIDE,
    doc="The tangent of x in radians.",
)
asin: Op = _function(
    "asin",
    np.arcsin,
    lambda ct, out, x: (mul(ct, rsqrt(_one_minus_square(x))),),
    onnx="Asin",
    domain=(-0.9, 0.9),
    traits=_WIDE,
    doc="The inverse sine, in -pi/2 .. pi/2.",
)
acos: Op = _function(
    "acos",
    np.arccos,
    lambda ct, out, x: (neg(mul(ct, rsqrt(_one_minus_square(x)))),),
    onnx="Acos",
    domain=(-0.9, 0.9),
    traits=_WIDE,
    doc="The inverse cosine, in 0 .. pi.",
)
atan: Op = _function(
    "atan",
    np.arctan,
    lambda ct, out, x: (div(ct, _one_plus_square(x)),),
    onnx="Atan",
    doc="The inverse tangent, in -pi/2 .. pi/2.",
)
sinh: Op = _function(
    "sinh", np.sinh, lambda ct, out, x: (mul(ct, cosh(x)),), traits=_WIDE, onnx="Sinh", doc="The hyperbolic sine."
)
cosh: Op = _function(
    "cosh", np.cosh, lambda ct, out, x: (mul(ct, sinh(x)),), traits=_WIDE, onnx="Cosh", doc="The hyperbolic cosine."
)
asinh: Op = _function(
    "asinh",
    np.arcsinh,
    lambda ct, out, x: (_asinh_vjp(ct, x),),
    onnx="Asinh",
    doc="The inverse hyperbolic sine.",
)
acosh: Op = _function(
    "acosh",
    np.arccosh,
    lambda ct, out, x: (mul(ct, mul(rsqrt(sub(x, full_like(1.0, x))), rsqrt(add(x, full_like(1.0, x))))),),
    onnx="Acosh",
    domain=(1.2, 3.0),
    doc="The inverse hyperbolic cosine, not negative; NaN below 1.",
)
atanh: Op = _function(
    "atanh",
    np.arctanh,
    lambda ct, out, x: (div(ct, mul(sub(full_like(1.0, x), x), add(full_like(1.0, x), x))),),
    onnx="Atanh",
    domain=(-0.9, 0.9),
    doc="The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.",
)
tanh: Op = _function(
    "tanh", np.tanh, lambda ct, out, x: (mul(ct, _one_minus_square(out)),), onnx="Tanh", doc="The hyperbolic tangent."
)


def _gaussian_square(x: Any) -> Any:
    """exp(-x^2)."""
    root = gaussian(x)
    return mul(root, root)


erf: Op = _function(
    "erf",
    each(math.erf),
    lambda ct, out, x: (mul(_scaled(ct, 2.0 / math.sqrt(math.pi)), _gaussian_square(x)),),
    onnx="Erf",
    doc="The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
)


erfc: Op = _function(
    "erfc",
    each(math.erfc),
    lambda ct, out, x: (mul(_scaled(ct, -2.0 / math.sqrt(math.pi)), _gaussian_square(x)),),
    doc="1 - erf(x), accurate where it is small.",
)


gaussian: Op = _function(
    "gaussian",
    lambda x: np.exp(x * x * x.dtype.type(-0.5)),
    lambda ct, out, x: (neg(mul(ct, mul(select(eq(out, zeros_like(out)), zeros_like(x), x), out))),),
    doc="exp(-x^2 / 2), to full precision far from 0.",
)


ndtr: Op = _function(
    "ndtr",
    each(lambda x: 0.5 * math.erfc(x * -math.sqrt(0.5))),
    lambda ct, out, x: (mul(ct, _scaled(gaussian(x), 1.0 / math.sqrt(2.0 * math.pi))),),
    doc="The distribution function of the standard normal distribution, to full precision in its lower tail.",
)


def inverse_erf(x: float) -> float:
    """The y with erf(y) = x to a few ulp: infinite at -1 and 1, NaN beyond; by Halley's iteration on erf and erfc."""
    size = math.fabs(x)
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


erfinv: Op = _function(
    "erfinv",
    each(inverse_erf),
    lambda ct, out, x: (mul(_scaled(ct, math.sqrt(math.pi) / 2.0), exp(mul(out, out))),),
    domain=(-0.9, 0.9),
    traits=_WIDE,
    doc="The inverse of erf; infinite at -1 and 1, NaN beyond.",
)


def _asinh_vjp(ct: Any, x: Any) -> Any:
    """``ct / sqrt(1 + x^2)`` with no square of anything above 1, which would overflow."""
    size, one = abs(x), full_like(1.0, x)
    large, small = maximum(size, one), minimum(size, one)
    return mul(div(ct, large), rsqrt(_one_plus_square(div(small, large))))


def _pow_vjp(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """d/dx is 0 where y is 0, d/dy is 0 where x is 0 and y >= 0 (PyTorch); the operands are replaced there, so that no
    infinity stands behind the selects and higher derivatives stay finite."""
    zero, one = zeros_like(x), full_like(1.0, x)
    flat = eq(y, zero)
    exponent = select(flat, one, y)
    dx = select(flat, zero, mul(ct, mul(exponent, pow(x, sub(exponent, one)))))
    absorbed = bitwise_and(eq(x, zero), ge(y, zero))
    dy = select(absorbed, zero, mul(ct, mul(out, log(select(absorbed, one, x)))))
    return dx, dy


def _is_infinite(x: Any) -> Any:
    return eq(abs(x), full_like(math.inf, x))


def _atan2_vjp(ct: Any, out: Any, y: Any, x: Any) -> tuple[Any, ...]:
    """x and -y by the square of the distance, which is never formed: both are divided by the greater magnitude before.

    0 at the origin and at infinity. The magnitude is a constant for higher derivatives, as the quotient does not depend
    on it.
    """
    size = stop_gradient(maximum(abs(x), abs(y)))
    flat = bitwise_or(eq(size, zeros_like(size)), _is_infinite(size))
    size = select(flat, full_like(1.0, size), size)
    u, v = (select(flat, zeros_like(part), div(part, size)) for part in (x, y))
    square = add(mul(u, u), mul(v, v))
    square = select(flat, full_like(1.0, square), square)
    return div(mul(ct, div(u, square)), size), neg(div(mul(ct, div(v, square)), size))  # 1 / size may be infinite


def _hypot_vjp(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """0 at the origin, which is a kink, and so are all higher derivatives; at infinity the direction's cosine and sine.

    Where finite sides have a distance that is too large, all three are taken a quarter as large.
    """
    far = _is_infinite(out)
    endless = bitwise_or(_is_infinite(x), _is_infinite(y))

    def side(part: Any) -> Any:
        """Of infinite sides the sign, of others beside them 0; NaN stays."""
        at_infinity = select(_is_infinite(part), sign(part), mul(part, zeros_like(part)))
        return select(far, select(endless, at_infinity, _scaled(part, 0.25)), part)

    u, v = side(x), side(y)
    size = select(far, _hypot_of_sides(u, v, far), out)
    origin = eq(size, zeros_like(size))
    divisor = select(origin, full_like(1.0, size), size)
    scale = select(origin, zeros_like(ct), ct)
    return mul(scale, div(u, divisor)), mul(scale, div(v, divisor))


def _hypot_of_sides(u: Any, v: Any, far: Any) -> Any:
    """The distance where ``far``, and 1 elsewhere, so that no derivative behind a select is infinite."""
    one = full_like(1.0, u)
    return hypot(select(far, u, one), select(far, v, zeros_like(v)))


pow: Op = _function(
    "pow",
    np.power,
    _pow_vjp,
    arity=2,
    onnx="Pow",
    domain=(0.3, 2.0),
    traits=_WIDE,
    doc="x to the y; 1 where y is 0, NaN for a negative x with a fractional y.",
)
atan2: Op = _function(
    "atan2", np.arctan2, _atan2_vjp, arity=2, doc="The angle of the point (x, y) for operands y, x, in -pi .. pi."
)


hypot: Op = _function(
    "hypot", np.hypot, _hypot_vjp, arity=2, doc="sqrt(x^2 + y^2) without overflow or underflow on the way."
)


def _rounding(name: str, evaluate: Callable[..., Any], onnx: str | None, doc: str) -> Op:
    return elementwise(
        name,
        evaluate,
        accepts=rules.FLOATS,
        scalar=lambda s, x: getattr(s, name)(x),
        vjp=flat,
        traits=["idempotent"],
        onnx=onnx,
        doc=doc,
    )


floor: Op = _rounding("floor", np.floor, "Floor", "The largest integer not above x.")
ceil: Op = _rounding("ceil", np.ceil, "Ceil", "The smallest integer not below x.")
rint: Op = _rounding("rint", np.rint, "Round", "The nearest integer, halves to even.")
trunc: Op = _rounding("trunc", np.trunc, None, "x without its fraction.")


def root(square: Any) -> Any:
    """The square root of a sum of squares, whose derivatives where it is 0 count as 0 (PyTorch's choice for norms).

    The root of 1 stands there behind the select, so that no derivative, of the first or a higher order, is infinite.
    """
    nothing = eq(square, zeros_like(square))
    return select(nothing, zeros_like(square), sqrt(select(nothing, full_like(1.0, square), square)))
