"""Arithmetic on complex numbers, written over their parts: composites, whose code is that of two real values.

The formulas are NumPy's: the product is the plain one, (a c - b d) + i (a d + b c), with NaN where an infinity meets a
zero; the quotient is Smith's (Algorithm 116, Comm. ACM 5, 1962), which neither overflows nor underflows early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph.dtypes import DType, float32, float64
from jitgraph.ir.op import Op, Sample, Trait
from jitgraph.ops.arithmetic import abs, add, div, mul, neg, sub
from jitgraph.ops.bits import bitwise_and, bitwise_not, bitwise_or
from jitgraph.ops.comparison import eq, ge, select
from jitgraph.ops.complex_parts import complex_, of_complex, parts, zeros_of
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.creation import full_like
from jitgraph.ops.numeric import joined
from jitgraph.ops.predicates import isfinite, isinf, isnan
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.transcendental import atan2, hypot

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
