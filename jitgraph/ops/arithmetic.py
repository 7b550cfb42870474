"""Arithmetic on numbers. Integers wrap; division and remainder by zero give 0, the minimum by -1 wraps, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.ir.op import Op
from jitgraph.ir.scalar import Comparison
from jitgraph.ops import rules
from jitgraph.ops.comparison import eq, gt, lt, select
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.define import elementwise, flat
from jitgraph.ops.numeric import Array

add: Op = elementwise(
    "add",
    np.add,
    arity=2,
    accepts=rules.LINEAR,
    scalar=lambda s, x, y: s.add(x, y),
    vjp=lambda ct, out, x, y: (ct, ct),
    traits=["commutative", "planewise"],
    onnx="Add",
    doc="x + y.",
)
sub: Op = elementwise(
    "sub",
    np.subtract,
    arity=2,
    accepts=rules.LINEAR,
    scalar=lambda s, x, y: s.sub(x, y),
    vjp=lambda ct, out, x, y: (ct, neg(ct)),
    traits=["planewise"],
    onnx="Sub",
    doc="x - y.",
)
mul: Op = elementwise(
    "mul",
    np.multiply,
    arity=2,
    accepts=rules.NUMBERS,
    scalar=lambda s, x, y: s.mul(x, y),
    vjp=lambda ct, out, x, y: (mul(ct, y), mul(ct, x)),
    traits=["commutative"],
    onnx="Mul",
    doc="x * y.",
)
div: Op = elementwise(
    "div",
    np.divide,
    arity=2,
    accepts=rules.FLOATS,
    domain=(0.5, 3.0),
    scalar=lambda s, x, y: s.div(x, y),
    vjp=lambda ct, out, x, y: (div(ct, y), neg(mul(ct, div(out, y)))),
    onnx="Div",
    doc="IEEE division of floats.",
)
neg: Op = elementwise(
    "neg",
    np.negative,
    accepts=rules.LINEAR,
    scalar=lambda s, x: s.neg(x),
    vjp=lambda ct, out, x: (neg(ct),),
    traits=["planewise"],
    onnx="Neg",
    doc="-x; the minimum of a signed integer is its own negative.",
)
abs: Op = elementwise(
    "abs",
    np.absolute,
    accepts=rules.NUMBERS,
    scalar=lambda s, x: s.abs(x),
    vjp=lambda ct, out, x: (mul(ct, sign(x)),),
    traits=["idempotent"],
    onnx="Abs",
    doc="|x|; the minimum of a signed integer is its own absolute value. The gradient at 0 is 0.",
)


def _sign_scalar(s: Any, x: Any) -> Any:
    zero, one = s.const(0, x.dtype), s.const(1, x.dtype)
    negative = zero if x.dtype.kind == "u" else s.neg(one)
    signed = s.select(s.cmp("gt", x, zero), one, s.select(s.cmp("lt", x, zero), negative, zero))
    return s.select(s.cmp("eq", x, x), signed, x) if dtypes.is_float(x.dtype) else signed


sign: Op = elementwise(
    "sign",
    np.sign,
    accepts=rules.NUMBERS,
    scalar=_sign_scalar,
    vjp=flat,
    traits=["idempotent"],
    onnx="Sign",
    doc="-1, 0 or 1; NaN for NaN and 0.0 for -0.0.",
)


def _extreme(name: str, keep: Comparison, ufunc: Callable[..., Any], onnx: str) -> Op:
    def evaluate(x: Array, y: Array) -> Any:
        if x.dtype.kind != "f":
            return ufunc(x, y)
        # where both are equal the first operand is the result, which NumPy leaves open for -0.0 with 0.0
        return np.where((x >= y if keep == "ge" else x <= y) | np.isnan(x), x, y)

    def vjp(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, ...]:
        loses = lt if keep == "ge" else gt
        shared = select(eq(x, y), mul(ct, full_like(0.5, ct)), ct)
        return select(loses(x, y), zeros_like(ct), shared), select(loses(y, x), zeros_like(ct), shared)

    return elementwise(
        name,
        evaluate,
        arity=2,
        accepts=rules.NUMBERS,
        scalar=lambda s, x, y: s.max(x, y) if keep == "ge" else s.min(x, y),
        vjp=vjp,
        onnx=onnx,
        doc="NaN where either is NaN; of -0.0 and 0.0 the first. Equal operands get half the gradient each.",
    )


maximum: Op = _extreme("maximum", "ge", np.maximum, "Max")
minimum: Op = _extreme("minimum", "le", np.minimum, "Min")


def _floor_divide_scalar(s: Any, x: Any, y: Any) -> Any:
    """The float quotient from the exact remainder, as in CPython's and NumPy's divmod: floor(x / y) could round up."""
    if not dtypes.is_float(x.dtype):
        return s.div(x, y)
    zero, one, half = s.const(0.0, x.dtype), s.const(1.0, x.dtype), s.const(0.5, x.dtype)
    size = s.rem(s.abs(x), s.abs(y))
    rest = s.select(s.cmp("lt", x, zero), s.neg(size), size)  # fmod(x, y)
    quotient = s.div(s.sub(x, rest), y)
    opposite = s.cmp("ne", s.cast(s.cmp("lt", y, zero), dtypes.int32), s.cast(s.cmp("lt", rest, zero), dtypes.int32))
    quotient = s.select(s.and_(s.cmp("ne", rest, zero), opposite), s.sub(quotient, one), quotient)
    floor = s.floor(quotient)
    floor = s.select(s.cmp("gt", s.sub(quotient, floor), half), s.add(floor, one), floor)
    ratio = s.div(x, y)
    # a zero quotient has the sign of x / y; a zero divisor gives x / y itself
    floor = s.select(s.cmp("eq", quotient, zero), s.mul(ratio, zero), floor)
    return s.select(s.cmp("eq", y, zero), ratio, floor)


floor_divide: Op = elementwise(
    "floor_divide",
    np.floor_divide,
    arity=2,
    accepts=rules.NUMBERS,
    scalar=_floor_divide_scalar,
    vjp=flat,
    doc="The quotient rounded down; integers: x // 0 is 0 and minimum // -1 wraps.",
)
remainder: Op = elementwise(
    "remainder",
    np.remainder,
    arity=2,
    accepts=rules.NUMBERS,
    domain=(0.6, 2.0),
    scalar=lambda s, x, y: s.rem(x, y),
    vjp=lambda ct, out, x, y: (ct, neg(mul(ct, floor_divide(x, y)))),
    onnx="Mod",
    doc="x - y * floor(x / y), with the sign of y; integers: x % 0 is 0.",
)
