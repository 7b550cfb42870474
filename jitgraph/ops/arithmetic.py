"""Arithmetic, comparisons and bits. Integers wrap; division by zero gives 0, the minimum by -1 wraps, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType, bool_
from jitgraph.errors import DTypeError
from jitgraph.ir.op import Op, Sample, Trait
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.define import elementwise, flat
from jitgraph.ops.numeric import Array
from jitgraph.ops.sampling import elementwise_samples, generator, values

if TYPE_CHECKING:
    from jitgraph.ir.scalar import Comparison

# ----------------------------------------------------------------------
# Comparisons, which give bool, and select.


def _compare(name: Comparison, evaluate: Callable[..., Any], onnx: str | None, traits: Sequence[Trait] = ()) -> Op:
    return elementwise(
        name,
        evaluate,
        arity=2,
        accepts=rules.ALL,
        result=bool_,
        scalar=lambda s, x, y: s.cmp(name, x, y),
        traits=traits,
        onnx=onnx,
        doc="Elementwise comparison; with NaN ne is true and the others are false.",
    )


eq: Op = _compare("eq", np.equal, "Equal", ["commutative"])
ne: Op = _compare("ne", np.not_equal, None, ["commutative"])
lt: Op = _compare("lt", np.less, "Less")
le: Op = _compare("le", np.less_equal, "LessOrEqual")
gt: Op = _compare("gt", np.greater, "Greater")
ge: Op = _compare("ge", np.greater_equal, "GreaterOrEqual")


SWAPPED: Final[Mapping[Op, Op]] = {eq: eq, ne: ne, lt: gt, le: ge, gt: lt, ge: le}
"""The comparison that says of two operands what another says of them in the other order."""


def _select_type(condition: Type, x: Type, y: Type) -> TensorType:
    rules.require_tensors("select", (x, y), rules.EVERY, 2)
    types = [rules.require_tensor("select", type) for type in (condition, x, y)]
    if types[0].dtype != bool_:
        raise DTypeError(f"select takes a bool condition, not {condition}")
    return TensorType(types[1].dtype, rules.same_shape("select", types))


def _select_samples(dtype: DType) -> Sequence[Sample]:
    rng = generator("select", dtype)
    return [
        Sample((values(rng, bool_, s.inputs[0].shape), *s.inputs), differentiable=s.differentiable)
        for s in elementwise_samples("select", 2)(dtype)
    ]


def _select(condition: Array, x: Array, y: Array) -> Array:
    return np.asarray(np.where(condition, x, y), x.dtype)


select: Op = Op(
    name="select",
    kind="elementwise",
    infer=_select_type,
    evaluate=_select,
    vjp=lambda ct, out, c, x, y: (None, select(c, ct, zeros_like(ct)), select(c, zeros_like(ct), ct)),
    scalar=lambda s, c, x, y: s.select(c, x, y),
    traits=frozenset({"no_arithmetic", "planewise", "chooses"}),
    onnx="Where",
    samples=_select_samples,
    doc="x where the condition is true, else y.",
)


# ----------------------------------------------------------------------
# Arithmetic on numbers. Integers wrap; division and remainder by zero give 0, the minimum by -1 wraps, as in NumPy.

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


# ----------------------------------------------------------------------
# Bitwise operations on integers and bool, and shifts, which are total.

bitwise_not: Op = elementwise(
    "bitwise_not",
    np.invert,
    accepts=rules.BITS,
    scalar=lambda s, x: s.not_(x),
    onnx="BitwiseNot",
    doc="Logical not for bool.",
)
bitwise_and: Op = elementwise(
    "bitwise_and",
    np.bitwise_and,
    arity=2,
    accepts=rules.BITS,
    scalar=lambda s, x, y: s.and_(x, y),
    traits=["commutative"],
    onnx="BitwiseAnd",
    doc="Bits that are set in both.",
)
bitwise_or: Op = elementwise(
    "bitwise_or",
    np.bitwise_or,
    arity=2,
    accepts=rules.BITS,
    scalar=lambda s, x, y: s.or_(x, y),
    traits=["commutative"],
    onnx="BitwiseOr",
    doc="Bits that are set in either.",
)
bitwise_xor: Op = elementwise(
    "bitwise_xor",
    np.bitwise_xor,
    arity=2,
    accepts=rules.BITS,
    scalar=lambda s, x, y: s.xor(x, y),
    traits=["commutative"],
    onnx="BitwiseXor",
    doc="Bits that are set in one alone.",
)


def _in_range(x: Array, count: Array) -> tuple[Any, Array]:
    """Where the shift count lies within the width, and the count with the others replaced by 0."""
    inside = (count >= 0) & (count < x.dtype.itemsize * 8)
    return inside, np.where(inside, count, count.dtype.type(0))


def _shift_left(x: Array, count: Array) -> Any:
    inside, safe = _in_range(x, count)
    if inside.all():
        return np.left_shift(x, count)
    return np.where(inside, np.left_shift(x, safe), x.dtype.type(0))


def _shift_right(x: Array, count: Array) -> Any:
    inside, safe = _in_range(x, count)
    if inside.all():
        return np.right_shift(x, count)
    past = np.where(x < 0, ~x.dtype.type(0), x.dtype.type(0))
    return np.where(inside, np.right_shift(x, safe), past)


shift_left: Op = elementwise(
    "shift_left",
    _shift_left,
    arity=2,
    accepts=rules.INTEGERS,
    scalar=lambda s, x, y: s.shl(x, y),
    doc="x * 2**y, wrapping; 0 for a count that is negative or not below the width.",
)
shift_right: Op = elementwise(
    "shift_right",
    _shift_right,
    arity=2,
    accepts=rules.INTEGERS,
    scalar=lambda s, x, y: s.shr(x, y),
    doc="floor(x / 2**y); for a count that is negative or not below the width 0, or -1 for a negative x.",
)
