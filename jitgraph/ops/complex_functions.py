"""Arithmetic and elementary functions of complex numbers, over their parts, with the special values of C99's Annex
G.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import DType, float32, float64
from jitgraph.ir.op import Op, Sample, Trait
from jitgraph.ops.arithmetic import (
    abs,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    div,
    eq,
    ge,
    gt,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    select,
    sub,
)
from jitgraph.ops.complex_parts import complex_, of_complex, parts, zeros_of
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.conversion import bitcast
from jitgraph.ops.creation import full_like
from jitgraph.ops.numeric import joined
from jitgraph.ops.predicates import isfinite, isinf, isnan
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.transcendental import asinh, atan2, cos, exp, expm1, hypot, log, log1p, root, sin, sinh, tanh

# ----------------------------------------------------------------------
# Arithmetic on complex numbers, written over their parts: composites, whose code is that of two real values.
#
# The formulas are NumPy's: the product is the plain one, (a c - b d) + i (a d + b c), with NaN where an infinity meets
# a zero; the quotient is Smith's (Algorithm 116, Comm. ACM 5, 1962), which neither overflows nor underflows early.

_POINTWISE: Final[tuple[Trait, ...]] = ("pointwise",)
_QUESTION: Final[tuple[Trait, ...]] = ("pointwise", "nondifferentiable")


def of_parts(
    name: str,
    body: Callable[..., Any],
    arity: int = 1,
    *,
    vjp: Callable[..., tuple[Any, ...]] | None = None,
    traits: tuple[Trait, ...] = _POINTWISE,
    doc: str,
) -> Op:
    """A composite on complex numbers: ``body`` takes the parts of each operand in turn."""

    def run(*operands: Any) -> Any:
        return body(*(part for z in operands for part in parts(z)))

    return composite(f"complex_{name}", run, vjp=vjp, samples=of_complex(name, arity), traits=traits, doc=doc)


def conjugate(z: Any) -> Any:
    """The conjugate over parts, for gradient rules."""
    a, b = parts(z)
    return complex_(a, neg(b))


def scaled(z: Any, factor: float) -> Any:
    """Both parts times a number."""
    a, b = parts(z)
    return complex_(mul(a, full_like(factor, a)), mul(b, full_like(factor, b)))


def _product(a: Any, b: Any, c: Any, d: Any) -> Any:
    return complex_(sub(mul(a, c), mul(b, d)), add(mul(a, d), mul(b, c)))


complex_mul: Op = of_parts(
    "mul",
    _product,
    2,
    vjp=lambda ct, out, x, y: (complex_mul(ct, complex_conj(y)), complex_mul(ct, complex_conj(x))),
    doc="x * y.",
)


def _quotient(a: Any, b: Any, c: Any, d: Any) -> Any:
    wide = ge(abs(c), abs(d))
    large, small = select(wide, c, d), select(wide, d, c)
    ratio = div(small, large)
    scale = div(full_like(1.0, c), add(large, mul(small, ratio)))
    by_real = add(a, mul(b, ratio)), sub(b, mul(a, ratio))
    by_imag = add(mul(a, ratio), b), sub(mul(b, ratio), a)
    real, imag = (mul(select(wide, x, y), scale) for x, y in zip(by_real, by_imag, strict=True))
    zero = bitwise_and(eq(c, zeros_of(c)), eq(d, zeros_of(d)))
    return complex_(select(zero, div(a, abs(c)), real), select(zero, div(b, abs(c)), imag))


def _div_vjp(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    by_x = complex_div(ct, complex_conj(y))
    return by_x, neg(complex_mul(by_x, complex_conj(out)))


complex_div: Op = of_parts("div", _quotient, 2, vjp=_div_vjp, doc="x / y; by zero, the parts of x by 0.")
complex_reciprocal: Op = of_parts(
    "reciprocal", lambda c, d: _quotient(full_like(1.0, c), zeros_of(c), c, d), doc="1 / x."
)
complex_square: Op = of_parts("square", lambda a, b: _product(a, b, a, b), doc="x * x.")
complex_conj: Op = of_parts("conj", lambda a, b: complex_(a, neg(b)), doc="The conjugate.")


def _sign_of_parts(a: Any, b: Any) -> Any:
    """z / |z|, and 0 for 0, whatever the signs of its parts."""
    size = hypot(a, b)
    none = bitwise_and(eq(a, zeros_of(a)), eq(b, zeros_of(b)))
    safe = select(none, full_like(1.0, size), size)
    return complex_(*(select(none, zeros_of(part), div(part, safe)) for part in (a, b)))


complex_sign: Op = of_parts("sign", _sign_of_parts, doc="x / |x|, and 0 for 0.")
complex_abs: Op = of_parts("abs", hypot, doc="|x| without overflow; infinite where a part is. The gradient at 0 is 0.")
complex_angle: Op = of_parts(
    "angle", lambda a, b: atan2(b, a), doc="The argument, from -pi to pi. The gradient at 0 is 0."
)


def _same(a: Any, b: Any, c: Any, d: Any) -> Any:
    return bitwise_and(eq(a, c), eq(b, d))


complex_eq: Op = of_parts("eq", _same, 2, traits=_QUESTION, doc="Whether both parts are equal.")
complex_ne: Op = of_parts(
    "ne", lambda a, b, c, d: bitwise_not(_same(a, b, c, d)), 2, traits=_QUESTION, doc="Whether a part differs."
)
complex_isnan: Op = of_parts(
    "isnan", lambda a, b: bitwise_or(isnan(a), isnan(b)), traits=_QUESTION, doc="Whether a part is NaN."
)
complex_isinf: Op = of_parts(
    "isinf", lambda a, b: bitwise_or(isinf(a), isinf(b)), traits=_QUESTION, doc="Whether a part is infinite."
)
complex_isfinite: Op = of_parts(
    "isfinite", lambda a, b: bitwise_and(isfinite(a), isfinite(b)), traits=_QUESTION, doc="Whether both parts are."
)


def _dot(x: Any, y: Any, **attrs: Any) -> Any:
    (a, b), (c, d) = parts(x), parts(y)
    real = sub(dot(a, c, **attrs), dot(b, d, **attrs))
    return complex_(real, add(dot(a, d, **attrs), dot(b, c, **attrs)))


def _dot_samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in (float32, float64):
        return ()
    rng = generator("complex_dot", dtype)

    def array(*shape: int) -> Any:
        return joined(values(rng, dtype, shape), values(rng, dtype, shape))

    matrices = {"batch": ((), ()), "contract": ((1,), (0,))}
    return [
        Sample((array(2, 3), array(3, 4)), matrices, differentiable=False),
        Sample((array(2, 0), array(0, 3)), matrices, differentiable=False),
    ]


complex_dot: Op = composite(
    "complex_dot", _dot, samples=_dot_samples, open_shapes=dot.open_shapes, doc="dot, of which each part is two."
)


# ----------------------------------------------------------------------
# Elementary functions of complex numbers over their parts, with the special values of C99's Annex G.
#
# The inverse functions are W. Kahan's ("Branch Cuts for Complex Elementary Functions", in: The State of the Art in
# Numerical Analysis, 1987): each side of a cut is found by the sign of a zero part, and nothing cancels near the cuts.

_LARGE: Final = {4: 80.0, 8: 700.0}  # by bytes: up to here exp is finite, and twice as far exp of a half is


def _signed(size: Any, sign: Any) -> Any:
    """|size| with the sign of ``sign``, that of zeros and NaN too."""
    bits = np.dtype(np.int32 if sign.dtype == float32 else np.int64)
    negative = lt(bitcast(sign, dtype=bits), full_like(0, bitcast(sign, dtype=bits)))
    return select(negative, neg(abs(size)), abs(size))


def _where_zero(y: Any, zero: Any, other: Any) -> Any:
    return select(eq(y, zeros_of(y)), zero, other)


def _turned(x: Any, y: Any, by_cos: Any, by_sin: Any) -> tuple[Any, Any]:
    """exp(x) times two numbers of size 1 or less, where exp(x) alone may overflow, and 0 times infinity is 0."""
    limit = full_like(_LARGE[x.dtype.itemsize], x)
    shift = select(gt(x, limit), limit, zeros_of(x))
    size, again = exp(sub(x, shift)), exp(shift)
    return mul(mul(size, by_cos), again), mul(mul(size, by_sin), again)


def _exp(x: Any, y: Any) -> Any:
    real, imag = _turned(x, y, cos(y), sin(y))
    endless, inf = isfinite(y), full_like(np.inf, x)
    vanishes = bitwise_and(eq(x, neg(inf)), bitwise_and(isnan(sub(y, y)), full_like(True, endless)))
    real = select(vanishes, zeros_of(x), real)
    imag = select(vanishes, _signed(zeros_of(x), y), imag)
    grows = bitwise_and(eq(x, inf), isnan(sub(y, y)))
    real, imag = select(grows, inf, real), select(grows, sub(y, y), imag)
    return complex_(_where_zero(y, exp(x), real), _where_zero(y, y, imag))


def _log_size(x: Any, y: Any) -> Any:
    """log(|z|): near 1 by log1p of |z|^2 - 1."""
    large, small = maximum(abs(x), abs(y)), minimum(abs(x), abs(y))
    one = full_like(1.0, x)
    size = hypot(x, y)
    near = bitwise_and(gt(size, full_like(0.5, x)), lt(size, full_like(2.0, x)))
    excess = add(mul(sub(large, one), add(large, one)), mul(small, small))
    half = full_like(0.5, x)
    by_excess = mul(half, log1p(select(near, excess, zeros_of(x))))
    # twice as large as the greatest number it may be
    halved = add(log(hypot(mul(half, x), mul(half, y))), full_like(float(np.log(2.0)), x))
    return select(near, by_excess, select(gt(large, full_like(1e18, x)), halved, log(select(near, one, size))))


def _log(x: Any, y: Any) -> Any:
    return complex_(_log_size(x, y), atan2(y, x))


def _sqrt_parts(x: Any, y: Any) -> tuple[Any, Any]:
    half, zero, inf = full_like(0.5, x), zeros_of(x), full_like(np.inf, x)
    huge = gt(maximum(abs(x), abs(y)), full_like(1e18, x))
    tiny = lt(maximum(abs(x), abs(y)), full_like(1e-18, x))
    one = full_like(1.0, x)
    down = select(huge, full_like(2.0**-4, x), select(tiny, full_like(2.0**64, x), one))
    back = select(huge, full_like(4.0, x), select(tiny, full_like(2.0**-32, x), one))
    a, b = mul(x, down), mul(y, down)
    larger = root(mul(half, add(abs(a), hypot(a, b))))
    none = eq(larger, zero)
    other = select(none, zero, div(mul(half, abs(b)), select(none, one, larger)))
    right = ge(x, zero)
    real, imag = mul(select(right, larger, other), back), _signed(mul(select(right, other, larger), back), y)
    unknown = sub(y, y)  # 0 or NaN
    along = isinf(x)
    real = select(along, select(gt(x, zero), x, abs(unknown)), real)
    imag = select(along, _signed(select(gt(x, zero), unknown, x), y), imag)
    empty = isnan(x)
    real, imag = select(empty, x, real), select(empty, x, imag)
    return select(isinf(y), inf, real), select(isinf(y), y, imag)


def _hyperbolic(x: Any, y: Any) -> tuple[Any, tuple[Any, Any], Any, Any, tuple[Any, Any]]:
    """Where |x| is large; elsewhere sinh(x) and cosh(x); cos(y) and sin(y); and exp(|x|) / 2, turned by y."""
    far = gt(abs(x), full_like(20.0, x))
    s, half = sinh(select(far, zeros_of(x), x)), full_like(0.5, x)
    c = root(add(full_like(1.0, x), mul(s, s)))
    cosine, sine = cos(y), sin(y)
    turned = _turned(abs(x), y, mul(half, cosine), mul(half, sine))
    return far, (s, c), cosine, sine, turned


def _sinh_parts(x: Any, y: Any) -> tuple[Any, Any]:
    """sinh(x) cos(y) and cosh(x) sin(y)."""
    far, (s, c), cosine, sine, (real, imag) = _hyperbolic(x, y)
    real = select(far, mul(_signed(full_like(1.0, x), x), real), mul(s, cosine))
    imag = select(far, imag, mul(c, sine))
    real = select(bitwise_and(isinf(x), isnan(sub(y, y))), x, real)
    flat = select(isnan(cosine), x, mul(x, cosine))
    real = _where_zero(x, flat, _where_zero(y, sinh(x), real))
    return real, _where_zero(y, y, imag)


def _cosh_parts(x: Any, y: Any) -> tuple[Any, Any]:
    """cosh(x) cos(y) and sinh(x) sin(y)."""
    far, (s, c), cosine, sine, (real, imag) = _hyperbolic(x, y)
    real = select(far, real, mul(c, cosine))
    imag = select(far, mul(_signed(full_like(1.0, x), x), imag), mul(s, sine))
    real = select(bitwise_and(isinf(x), isnan(sub(y, y))), abs(x), real)
    flat = bitwise_and(bitwise_or(eq(x, zeros_of(x)), eq(y, zeros_of(y))), isnan(imag))
    # 0 times an infinity or NaN is 0 here, with the signs of both
    return real, select(flat, mul(_signed(full_like(1.0, x), x), _signed(zeros_of(x), y)), imag)


def _tanh_parts(x: Any, y: Any) -> tuple[Any, Any]:
    """Of sinh(x) cosh(x) (1 + t^2) and t, both over 1 + sinh(x)^2 (1 + t^2), for t = tan(y)."""
    one = full_like(1.0, x)
    far = gt(abs(x), full_like(20.0, x))
    near = select(far, zeros_of(x), x)
    s = sinh(near)
    cosine, sine = cos(y), sin(y)
    below = add(mul(cosine, cosine), mul(s, s))
    real = div(mul(s, root(add(one, mul(s, s)))), below)
    imag = div(mul(sine, cosine), below)
    tail = mul(mul(full_like(4.0, x), mul(sine, cosine)), exp(mul(full_like(-2.0, x), abs(x))))
    lost = bitwise_and(isinf(x), isnan(sub(y, y)))
    tail = select(lost, zeros_of(x), tail)
    known = bitwise_and(far, bitwise_or(isinf(x), isfinite(y)))
    real = select(known, _signed(one, x), real)
    imag = select(known, tail, imag)
    return _where_zero(y, tanh(x), _where_zero(x, x, real)), _where_zero(y, y, imag)


def _rotated(function: Any) -> Any:
    """-i f(i z) for an odd f: sin of sinh, tan of tanh."""

    def body(x: Any, y: Any) -> Any:
        real, imag = function(neg(y), x)
        return complex_(imag, neg(real))

    return body


complex_exp: Op = of_parts(
    "exp", _exp, vjp=lambda ct, out, z: (complex_mul(ct, conjugate(out)),), doc="e to the power x."
)
complex_log: Op = of_parts(
    "log", _log, vjp=lambda ct, out, z: (complex_div(ct, conjugate(z)),), doc="The natural logarithm, cut below 0."
)
complex_sqrt: Op = of_parts(
    "sqrt",
    lambda x, y: complex_(*_sqrt_parts(x, y)),
    vjp=lambda ct, out, z: (complex_div(scaled(ct, 0.5), conjugate(out)),),
    doc="The root whose real part is not negative.",
)


def _cosh_of(x: Any, y: Any) -> Any:
    return complex_(*_cosh_parts(x, y))


def _sinh_of(x: Any, y: Any) -> Any:
    return complex_(*_sinh_parts(x, y))


def _by_rule(name: str, body: Any, slope: Any, doc: str) -> Op:
    """A function whose derivative at z is ``slope(z, out)``."""
    return of_parts(name, body, vjp=lambda ct, out, z: (complex_mul(ct, conjugate(slope(z, out))),), doc=doc)


def _one_minus_square(z: Any, out: Any) -> Any:
    square = complex_mul(out, out)
    return sub(complex_(full_like(1.0, parts(square)[0]), zeros_of(parts(square)[0])), square)


def _one_plus_square(z: Any, out: Any) -> Any:
    square = complex_mul(out, out)
    return add(complex_(full_like(1.0, parts(square)[0]), zeros_of(parts(square)[0])), square)


complex_sinh: Op = _by_rule("sinh", _sinh_of, lambda z, out: complex_cosh(z), "Hyperbolic sine.")
complex_cosh: Op = _by_rule("cosh", _cosh_of, lambda z, out: complex_sinh(z), "Hyperbolic cosine.")
complex_tanh: Op = _by_rule("tanh", lambda x, y: complex_(*_tanh_parts(x, y)), _one_minus_square, "Hyperbolic tangent.")
complex_sin: Op = _by_rule("sin", _rotated(_sinh_parts), lambda z, out: complex_cos(z), "Sine.")
complex_cos: Op = _by_rule(
    "cos", lambda x, y: complex_(*_cosh_parts(neg(y), x)), lambda z, out: neg(complex_sin(z)), "Cosine."
)
complex_tan: Op = _by_rule("tan", _rotated(_tanh_parts), _one_plus_square, "Tangent.")


def _power(x: Any, y: Any) -> Any:
    """exp(y log x); of 0 it is 1 for y = 0, 0 where the real part of y is positive, else NaN."""
    (a, b), (c, d) = parts(x), parts(y)
    zero = bitwise_and(eq(a, zeros_of(a)), eq(b, zeros_of(b)))
    one = full_like(1.0, a)
    plain = complex_exp(complex_mul(y, complex_log(complex_(select(zero, one, a), b))))
    none = bitwise_and(eq(c, zeros_of(c)), eq(d, zeros_of(d)))
    nan = full_like(np.nan, a)
    of_zero = select(gt(c, zeros_of(c)), zeros_of(a), nan)
    real = select(none, one, select(zero, of_zero, parts(plain)[0]))
    return complex_(real, select(none, zeros_of(a), select(zero, of_zero, parts(plain)[1])))


complex_pow: Op = of_parts(
    "pow", lambda a, b, c, d: _power(complex_(a, b), complex_(c, d)), 2, doc="x to the power y: exp(y log x)."
)


def _asinh_parts(x: Any, y: Any) -> tuple[Any, Any]:
    """asinh(z) = i asin(-i z)."""
    real, imag = _asin_parts(y, neg(x))
    return neg(imag), real


def _is_far(x: Any, y: Any) -> Any:
    """Where the square of z hides 1, or z is infinite."""
    limit = full_like(1e9, x)
    return bitwise_or(gt(abs(x), limit), gt(abs(y), limit))


def _log_of_double(x: Any, y: Any) -> Any:
    return add(_log_size(x, y), full_like(float(np.log(2.0)), x))


def _asin_parts(x: Any, y: Any) -> tuple[Any, Any]:
    one = full_like(1.0, x)
    (a, b), (c, d) = _sqrt_parts(sub(one, x), neg(y)), _sqrt_parts(add(one, x), y)
    far = _is_far(x, y)
    real = select(far, atan2(x, abs(y)), atan2(x, sub(mul(a, c), mul(b, d))))
    imag = select(far, _signed(_log_of_double(x, y), y), asinh(sub(mul(a, d), mul(b, c))))
    return _where_zero(x, x, real), imag


def _acos_parts(x: Any, y: Any) -> tuple[Any, Any]:
    one = full_like(1.0, x)
    (a, b), (c, d) = _sqrt_parts(sub(one, x), neg(y)), _sqrt_parts(add(one, x), y)
    far, unknown = _is_far(x, y), bitwise_and(eq(x, zeros_of(x)), isnan(y))
    real = select(far, atan2(abs(y), x), mul(full_like(2.0, x), atan2(a, c)))
    imag = select(far, neg(_signed(_log_of_double(x, y), y)), asinh(sub(mul(c, b), mul(d, a))))
    return select(unknown, full_like(float(np.pi / 2), x), real), imag


def _acosh_parts(x: Any, y: Any) -> tuple[Any, Any]:
    one = full_like(1.0, x)
    (a, b), (c, d) = _sqrt_parts(sub(x, one), y), _sqrt_parts(add(x, one), y)
    far, unknown = _is_far(x, y), bitwise_and(eq(x, zeros_of(x)), isnan(y))
    real = select(far, _log_of_double(x, y), asinh(add(mul(a, c), mul(b, d))))
    imag = select(far, atan2(y, x), mul(full_like(2.0, x), atan2(b, c)))
    return real, select(unknown, full_like(float(np.pi / 2), x), imag)


def _atanh_parts(x: Any, y: Any) -> tuple[Any, Any]:
    """log1p(4 |x| / ((1 - |x|)^2 + y^2)) / 4, and half of the angle of (1 - x)(1 + x) - y^2 + 2 i y."""
    one, two = full_like(1.0, x), full_like(2.0, x)
    size = abs(x)
    gap = sub(one, size)
    far = gt(maximum(size, abs(y)), full_like(1e9 if x.dtype == float32 else 1e100, x))
    far = bitwise_or(far, bitwise_or(isinf(x), isinf(y)))
    near_x, near_y = select(far, zeros_of(x), x), select(far, zeros_of(y), y)
    gap = sub(one, abs(near_x))
    ratio = div(mul(full_like(4.0, x), abs(near_x)), add(mul(gap, gap), mul(near_y, near_y)))
    real = mul(full_like(0.25, x), log1p(ratio))
    imag = mul(full_like(0.5, x), atan2(mul(two, near_y), sub(mul(gap, add(one, abs(near_x))), mul(near_y, near_y))))
    # beside 1 the square of y is lost
    beside = bitwise_and(eq(size, one), lt(abs(y), full_like(1e-9, x)))
    real = select(beside, mul(full_like(0.5, x), sub(full_like(float(np.log(2.0)), x), log(abs(y)))), real)
    length = hypot(x, y)
    real = select(far, select(isinf(length), zeros_of(x), div(div(size, length), length)), real)
    real = _where_zero(x, zeros_of(x), real)
    right = select(isnan(y), y, full_like(float(np.pi / 2), x))
    imag = select(far, right, imag)
    return _signed(real, x), _signed(imag, y)


complex_asin: Op = of_parts("asin", lambda x, y: complex_(*_asin_parts(x, y)), doc="Inverse sine.")
complex_acos: Op = of_parts("acos", lambda x, y: complex_(*_acos_parts(x, y)), doc="Inverse cosine.")
complex_asinh: Op = of_parts("asinh", lambda x, y: complex_(*_asinh_parts(x, y)), doc="Inverse hyperbolic sine.")
complex_acosh: Op = of_parts("acosh", lambda x, y: complex_(*_acosh_parts(x, y)), doc="Inverse hyperbolic cosine.")
complex_atanh: Op = of_parts("atanh", lambda x, y: complex_(*_atanh_parts(x, y)), doc="Inverse hyperbolic tangent.")


def _atan_parts(x: Any, y: Any) -> Any:
    """atan(z) = -i atanh(i z)."""
    real, imag = _atanh_parts(neg(y), x)
    return complex_(imag, neg(real))


complex_atan: Op = of_parts("atan", _atan_parts, doc="Inverse tangent.")


# --- other bases, and near 0 and 1 without cancellation ---------------------------------------------------------------


_LN2: Final = float(np.log(2.0))
_LN10: Final = float(np.log(10.0))


def _plus_one(z: Any) -> Any:
    a, b = parts(z)
    return complex_(add(a, full_like(1.0, a)), b)


def _log1p(x: Any, y: Any) -> Any:
    """Near 0 the real part is log1p(|1 + z|^2 - 1) / 2, where the excess is x (2 + x) + y^2."""
    one, half = full_like(1.0, x), full_like(0.5, x)
    near = lt(maximum(abs(x), abs(y)), half)
    a, b = select(near, x, zeros_of(x)), select(near, y, zeros_of(y))
    excess = add(mul(a, add(full_like(2.0, x), a)), mul(b, b))
    real, imag = parts(complex_log(complex_(add(one, x), y)))
    return complex_(select(near, mul(half, log1p(excess)), real), select(near, atan2(y, add(one, x)), imag))


def _expm1(x: Any, y: Any) -> Any:
    """Near 0 the real part is expm1(x) cos(y) - 2 sin(y / 2)^2."""
    one, half = full_like(1.0, x), full_like(0.5, x)
    near = bitwise_and(lt(abs(x), one), lt(abs(y), one))
    a, b = select(near, x, zeros_of(x)), select(near, y, zeros_of(y))
    s = sin(mul(half, b))
    below = sub(mul(expm1(a), cos(b)), mul(full_like(2.0, x), mul(s, s)))
    real, imag = parts(complex_exp(complex_(x, y)))
    return complex_(select(near, below, sub(real, one)), imag)


def _log2(x: Any, y: Any) -> Any:
    return scaled(complex_log(complex_(x, y)), 1.0 / _LN2)


def _log10(x: Any, y: Any) -> Any:
    return scaled(complex_log(complex_(x, y)), 1.0 / _LN10)


complex_log1p: Op = of_parts(
    "log1p", _log1p, vjp=lambda ct, out, z: (complex_div(ct, conjugate(_plus_one(z))),), doc="log(1 + x), exact near 0."
)
complex_expm1: Op = of_parts(
    "expm1", _expm1, vjp=lambda ct, out, z: (complex_mul(ct, conjugate(_plus_one(out))),), doc="e^x - 1, exact near 0."
)
complex_log2: Op = of_parts(
    "log2", _log2, vjp=lambda ct, out, z: (scaled(complex_div(ct, conjugate(z)), 1.0 / _LN2),), doc="Base-2 logarithm."
)
complex_log10: Op = of_parts(
    "log10",
    _log10,
    vjp=lambda ct, out, z: (scaled(complex_div(ct, conjugate(z)), 1.0 / _LN10),),
    doc="Base-10 logarithm.",
)
