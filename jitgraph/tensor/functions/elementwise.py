"""Elementwise functions: the Python Array API's, and those of PyTorch that it lacks."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any, Final, Protocol

import ml_dtypes

from jitgraph import dtypes, ops
from jitgraph.eager.dispatch.function import NativeFunction
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.ops import rules
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.direct_calls import DirectCalls, direct_call
from jitgraph.tensor.functions.method import array_function, method
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, compare, elementwise, settled, wrap

# Below ``op`` is an op by its name in ``ops``, which is loaded when the function is first called.


class _Unary(Protocol):
    def __call__(self, x: TensorLike) -> Tensor: ...


class _Binary(Protocol):
    def __call__(self, x1: TensorLike, x2: TensorLike) -> Tensor: ...


def _public(name: str, doc: str, python: Callable[..., Tensor], count: int) -> Any:
    """``python`` of one or two tensors as a public function, whose calls that come back go past Python."""
    run = direct_call(python, count)

    def unary(x: TensorLike) -> Tensor:
        return run(x)  # type: ignore[no-any-return]

    def binary(x1: TensorLike, x2: TensorLike) -> Tensor:
        return run(x1, x2)  # type: ignore[no-any-return]

    function: Any = unary if count == 1 else binary
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return method(function)


def _unary(name: str, op: str, doc: str, *, floating: bool = True) -> _Unary:
    doc += " Integers and bools are computed in float32." if floating else ""
    function: _Unary = _public(name, doc, lambda x: elementwise(getattr(ops, op), x, floating=floating), 1)
    return function


def _binary(name: str, op: str, doc: str, *, floating: bool = False) -> _Binary:
    function: _Binary = _public(name, doc, lambda x, y: elementwise(getattr(ops, op), x, y, floating=floating), 2)
    return function


def _comparison(name: str, op: str, doc: str) -> _Binary:
    doc += " Integers of any two dtypes are compared exactly."
    function: _Binary = _public(name, doc, lambda x, y: compare(getattr(ops, op), x, y), 2)
    return function


exp = _unary("exp", "exp", "e to the power x.")
exp2 = _unary("exp2", "exp2", "2 to the power x.")
expm1 = _unary("expm1", "expm1", "exp(x) - 1, exact near 0.")
log = _unary("log", "log", "Natural logarithm; NaN below 0, -inf at 0.")
log1p = _unary("log1p", "log1p", "log(1 + x), exact near 0.")
log2 = _unary("log2", "log2", "Logarithm to base 2.")
log10 = _unary("log10", "log10", "Logarithm to base 10.")
sin = _unary("sin", "sin", "Sine of x in radians.")
cos = _unary("cos", "cos", "Cosine of x in radians.")
tan = _unary("tan", "tan", "Tangent of x in radians.")
asin = _unary("asin", "asin", "Inverse sine in radians.")
acos = _unary("acos", "acos", "Inverse cosine in radians.")
atan = _unary("atan", "atan", "Inverse tangent in radians.")
sinh = _unary("sinh", "sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "cosh", "Hyperbolic cosine.")
tanh = _unary("tanh", "tanh", "Hyperbolic tangent.")
asinh = _unary("asinh", "asinh", "Inverse hyperbolic sine.")
acosh = _unary("acosh", "acosh", "Inverse hyperbolic cosine; NaN below 1.")
atanh = _unary("atanh", "atanh", "Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.")
erf = _unary("erf", "erf", "The error function.")
reciprocal = _unary("reciprocal", "reciprocal", "1 / x.")
sqrt = _unary("sqrt", "sqrt", "Square root; NaN below 0.")
rsqrt = _unary("rsqrt", "rsqrt", "1 / sqrt(x).")
sigmoid = _unary("sigmoid", "sigmoid", "1 / (1 + exp(-x)), without overflow.")
relu = _unary("relu", "relu", "max(x, 0).", floating=False)
square = _unary("square", "square", "x * x.", floating=False)
negative = _unary("negative", "neg", "-x; integers wrap.", floating=False)
abs = _unary("abs", "abs", "|x|; the minimum of a signed integer is unchanged.", floating=False)
sign = _unary("sign", "sign", "-1, 0 or 1; NaN for NaN.", floating=False)
bitwise_invert = _unary("bitwise_invert", "bitwise_not", "Every bit flipped.", floating=False)

divide = _binary("divide", "div", "x1 / x2 in floats; integers are computed in float32.", floating=True)
add = _binary("add", "add", "x1 + x2; integers wrap.")
subtract = _binary("subtract", "sub", "x1 - x2; integers wrap.")
multiply = _binary("multiply", "mul", "x1 * x2; integers wrap.")
maximum = _binary("maximum", "maximum", "The larger one; NaN where either is NaN.")
minimum = _binary("minimum", "minimum", "The smaller one; NaN where either is NaN.")
floor_divide = _binary("floor_divide", "floor_divide", "floor(x1 / x2); an integer divided by 0 gives 0.")
remainder = _binary("remainder", "remainder", "x1 - x2 * floor(x1 / x2); sign of x2; an integer modulo 0 gives 0.")
atan2 = _binary("atan2", "atan2", "Angle in radians of the point (x2, x1).", floating=True)
hypot = _binary("hypot", "hypot", "sqrt(x1^2 + x2^2) without overflow; integers in float32.", floating=True)
bitwise_and = _binary("bitwise_and", "bitwise_and", "Bits set in both.")
bitwise_or = _binary("bitwise_or", "bitwise_or", "Bits set in either.")
bitwise_xor = _binary("bitwise_xor", "bitwise_xor", "Bits set in one of both.")
bitwise_left_shift = _binary("bitwise_left_shift", "shift_left", "x1 << x2; 0 past the width.")
bitwise_right_shift = _binary("bitwise_right_shift", "shift_right", "x1 >> x2, with the sign for signed integers.")
equal = _comparison("equal", "eq", "x1 == x2.")
not_equal = _comparison("not_equal", "ne", "x1 != x2; true for NaN.")
less = _comparison("less", "lt", "x1 < x2.")
less_equal = _comparison("less_equal", "le", "x1 <= x2.")
greater = _comparison("greater", "gt", "x1 > x2.")
greater_equal = _comparison("greater_equal", "ge", "x1 >= x2.")


def _rounding(name: str, op: str, doc: str) -> Any:
    def rounded(x: TensorLike) -> Tensor:
        dtype = lifting.dtype_of(x)
        if not dtypes.is_inexact(dtype):
            return wrap(lifting.value_of(x))
        return elementwise(getattr(ops, op), x)

    return _public(name, doc + " Integers are returned as they are.", rounded, 1)


floor = _rounding("floor", "floor", "The largest whole number not above x.")
ceil = _rounding("ceil", "ceil", "The smallest whole number not below x.")
trunc = _rounding("trunc", "trunc", "The whole part.")
_nearest = _rounding("round", "rint", "The nearest whole number, halves to even.")


@method
def round(x: TensorLike, decimals: int = 0) -> Tensor:
    """The nearest integer, halves to even; or the nearest number with ``decimals`` digits, which may be negative.

    As in NumPy and PyTorch x times a power of ten is rounded, so that halves in decimals are such as the product has.
    Integers are returned as they are, unless to tens.
    """
    digits = operator.index(decimals)
    if dtypes.is_complex(lifting.dtype_of(x)):
        value = lifting.value_of(x)
        return wrap(ops.complex_(*(round(wrap(part(value)), digits).value for part in (ops.real, ops.imag))))
    if digits == 0:
        return _nearest(x)  # type: ignore[no-any-return]
    tensor = wrap(lifting.value_of(x))
    if not dtypes.is_float(tensor.dtype):
        return tensor if digits > 0 or dtypes.is_bool(tensor.dtype) else _to_tens(tensor, -digits)
    power = 10.0 ** builtins.min(builtins.abs(digits), 308)
    if power > float(ml_dtypes.finfo(tensor.dtype).max):  # type: ignore[no-untyped-call]
        return tensor if digits > 0 else tensor * 0.0
    scaled = tensor * power if digits > 0 else tensor / power
    nearest = _nearest(scaled)
    rounded: Tensor = nearest / power if digits > 0 else nearest * power
    return where(isfinite(scaled), rounded, tensor)  # the product may be too large


def _to_tens(x: Tensor, digits: int) -> Tensor:
    """Integers rounded to a multiple of a power of ten, halves to an even one; what is too large wraps."""
    step, most = 10**digits, dtypes.LIMITS[x.dtype][1]
    if step > most:
        return x * 0
    count: Tensor = x // step
    rest = x - count * step
    up = (rest > step - rest) | ((rest == step - rest) & (count % 2 == 1))
    rounded: Tensor = (count + up.astype(x.dtype)) * step
    return rounded


@method
def positive(x: TensorLike) -> Tensor:
    """x itself."""
    return wrap(lifting.value_of(x))


@method
def pow(x1: TensorLike, x2: TensorLike) -> Tensor:
    """x1 to the power x2; integers wrap and take no negative exponent (ValueError)."""
    return _pow(x1, x2)  # type: ignore[no-any-return]


def _power(x1: TensorLike, x2: TensorLike) -> Tensor:
    if scalars.is_scalar(x2) and x2 == 0.5:
        return sqrt(x1)
    dtype = lifting.common_dtype(x1, x2)
    if scalars.is_scalar(x2) and x2 in (1, 2, 3) and not dtypes.is_bool(dtype):
        factor = wrap(lifting.cast(lifting.value_of(x1, dtype), dtype))
        if x2 == 1:
            return factor
        return square(factor) if x2 == 2 else factor * square(factor)
    if dtypes.is_integer(dtype):
        return _integer_pow(*lifting.together(*lifting.operands(x1, x2, dtype=dtype)))
    if dtypes.is_bool(dtype):
        raise DTypeError("pow of bools", hint="cast one side with .astype(...)")
    return elementwise(ops.pow, x1, x2)


_pow = direct_call(_power, 2)


def _integer_pow(base: Any, exponent: Any) -> Tensor:
    """By squaring, one step for each bit of the exponent; what the product of exact factors wraps to."""
    dtype, shape = base.type.dtype, base.type.shape
    zero, one = (lifting.repeated(number, dtype, shape) for number in (0, 1))
    if dtypes.is_signed(dtype):
        every = ops.reduce_min(ops.ge(exponent, zero), axes=tuple(range(len(shape))))
        message = "pow: an integer to a negative power is no integer; cast the base with .astype(jg.float64)"
        ops.check(every, kind="ValueError", message=message)
    result = one
    for _ in range(dtype.itemsize * 8 - dtypes.is_signed(dtype)):
        odd = ops.ne(ops.bitwise_and(exponent, one), zero)
        result = ops.select(odd, ops.mul(result, base), result)
        base = ops.mul(base, base)
        exponent = ops.shift_right(exponent, one)
    return wrap(result)


@method
def logaddexp(x1: TensorLike, x2: TensorLike) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow; integers are computed in float32."""
    dtype = lifting.common_dtype(x1, x2)
    a, b = lifting.operands(x1, x2, dtype=dtype if dtypes.is_float(dtype) else dtypes.float32)
    return wrap(ops.logaddexp(a, b))


_BITS_OF: Final = {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def _bits(value: Any) -> Any:
    """The bits of a float value as a signed integer of its width."""
    return ops.bitcast(value, dtype=_BITS_OF[value.type.dtype.itemsize])


def _is_negative(value: Any) -> Any:
    bits = _bits(value)
    return ops.lt(bits, lifting.repeated(0, bits.type.dtype, bits.type.shape))


@method
def signbit(x: TensorLike) -> Tensor:
    """True where the sign of x is minus: for -0.0 and NaN of that sign too. Integers are compared with 0."""
    value = lifting.value_of(x)
    if dtypes.is_float(value.type.dtype):
        return wrap(_is_negative(value))
    if dtypes.is_complex(value.type.dtype):
        raise DTypeError("signbit is not defined for complex numbers", hint="take x.real or x.imag")
    return less(wrap(value), 0) if dtypes.is_signed(value.type.dtype) else isnan(x)


def _float_operands(x1: TensorLike, x2: TensorLike) -> tuple[Any, ...]:
    dtype = lifting.common_dtype(x1, x2)
    return lifting.together(*lifting.operands(x1, x2, dtype=dtype if dtypes.is_float(dtype) else dtypes.float32))


@method
def copysign(x1: TensorLike, x2: TensorLike) -> Tensor:
    """|x1| with the sign of x2, zeros and NaN included; integers are computed in float32."""
    size, sign = _float_operands(x1, x2)
    differs = ops.bitwise_xor(_is_negative(size), _is_negative(sign))
    result = ops.select(differs, ops.neg(size), size)
    at_zero = wrap(size) == 0  # |x| has no slope there
    return wrap(ops.select(at_zero.value, ops.stop_gradient(result), result))


@method
def nextafter(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The float next to x1 in the direction of x2: x2 where they are equal, NaN where either is; no gradient."""
    start, goal = _float_operands(x1, x2)
    bits, shape, dtype = _bits(start), start.type.shape, start.type.dtype
    one, zero = lifting.repeated(1, bits.type.dtype, shape), lifting.repeated(0.0, dtype, shape)
    _, one, zero = lifting.together(start, one, zero)
    outwards = ops.eq(ops.lt(start, goal), ops.gt(start, zero))  # away from 0: the bits count up
    moved = ops.bitcast(ops.select(outwards, ops.add(bits, one), ops.sub(bits, one)), dtype=dtype)
    smallest = ops.bitcast(one, dtype=dtype)
    from_zero = ops.select(_is_negative(goal), ops.neg(smallest), smallest)
    moved = ops.select(ops.eq(start, zero), from_zero, moved)
    unordered = ops.logical_or(ops.ne(start, start), ops.ne(goal, goal))
    result = ops.select(unordered, ops.add(start, goal), ops.select(ops.eq(start, goal), goal, moved))
    return wrap(ops.stop_gradient(result))


def _logical(name: str, op: str, doc: str) -> Any:
    def combined(x1: TensorLike, x2: TensorLike) -> Tensor:
        values = lifting.together(*(lifting.value_of(x) for x in (x1, x2)))
        shape = lifting.broadcast_shapes(*(value.type.shape for value in values))
        return wrap(getattr(ops, op)(*(lifting.broadcast_to(value, shape) for value in values)))

    return _public(name, doc, combined, 2)


logical_and = _logical("logical_and", "logical_and", "True where both are nonzero.")
logical_or = _logical("logical_or", "logical_or", "True where either is nonzero.")
logical_xor = _logical("logical_xor", "logical_xor", "True where one of both is nonzero.")


@method
def logical_not(x: TensorLike) -> Tensor:
    """True where x is zero."""
    return wrap(ops.logical_not(lifting.value_of(x)))


def _question(name: str, op: str, doc: str, *, of_integers: bool) -> Any:
    def answered(x: TensorLike) -> Tensor:
        value = lifting.value_of(x)
        if dtypes.is_inexact(value.type.dtype):
            return elementwise(getattr(ops, op), wrap(value))
        return wrap((ops.eq if of_integers else ops.ne)(value, value))

    return _public(name, doc, answered, 1)


isnan = _question("isnan", "isnan", "True where x is NaN.", of_integers=False)
isinf = _question("isinf", "isinf", "True where x is infinite.", of_integers=False)
isfinite = _question("isfinite", "isfinite", "True where x is neither infinite nor NaN.", of_integers=True)


@method
def astype(x: TensorLike, dtype: Any, *, copy: bool = True, device: str | None = None) -> Tensor:
    """x in another dtype: float to integer truncates and saturates, NaN gives 0; integers wrap.

    copy: False gives x itself where nothing changes, True a handle of its own. device: as in ``x.to``.
    """
    target = dtypes.canonical(dtype)
    converted: Tensor = x if not copy and isinstance(x, Tensor) and x.dtype == target else _casts[target](x)
    return converted if device is None else converted.to(device=device)


def _casting(dtype: dtypes.DType) -> NativeFunction:
    return direct_call(lambda x: wrap(lifting.cast(lifting.value_of(x), dtype)), 1)


_casts = DirectCalls(_casting)


@method
def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """x limited to ``min`` to ``max``, either of which may be None; NaN stays. The bounds promote with x."""
    if min is None or max is None:
        one = _clip_below if max is None else _clip_above
        return one(x, max if min is None else min)  # type: ignore[no-any-return]
    return _clip(x, min, max)  # type: ignore[no-any-return]


def _clipped(x: TensorLike, min: TensorLike | None, max: TensorLike | None) -> Tensor:
    value = lifting.beside(x, *(bound for bound in (min, max) if not (bound is None or scalars.is_scalar(bound))))[0]
    dtype = value.type.dtype
    if dtypes.is_integer(dtype):
        least, greatest = dtypes.LIMITS[dtype]
        min = None if type(min) is int and min <= least else min  # holds nothing back
        max = None if type(max) is int and max >= greatest else max
    bounds = [bound for bound in (min, max) if bound is not None]
    plain = all(scalars.is_scalar(bound) and not scalars.is_varying(bound) for bound in bounds)
    if bounds and plain and lifting.common_dtype(x, *bounds) == dtype:
        for bound in bounds:
            scalars.require_representable(bound, dtype)
        if not dtypes.is_integer(dtype):  # no attribute holds an int of more than 64 bits
            min, max = (float(bound) if type(bound) is int else bound for bound in (min, max))
        return wrap(ops.clamp(value, low=min, high=max))
    result = wrap(value)
    if min is not None:
        result = _clamped(result, min, less)
    return result if max is None else _clamped(result, max, greater)


def _clamped(x: Tensor, bound: TensorLike, beyond: Callable[..., Tensor]) -> Tensor:
    """x, or the bound where x is beyond it or the bound is NaN; at the bound the gradient is x's, as of clamp."""
    left, right = map(wrap, lifting.together(*lifting.operands(x, bound)))
    rules.require_dtype("clip", left.value.type, rules.NUMBERS)
    replaced = logical_or(beyond(left, right), isnan(right))
    return wrap(ops.select(replaced.value, right.value, left.value))


_clip = direct_call(_clipped, 3, static=(1, 2))
_clip_below = direct_call(lambda x, low: _clipped(x, low, None), 2, static=(1,))
_clip_above = direct_call(lambda x, high: _clipped(x, None, high), 2, static=(1,))


@method
def clamp(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """PyTorch's name of ``clip``."""
    return clip(x, min, max)


@array_function
def where(condition: TensorLike, x1: TensorLike | None = None, x2: TensorLike | None = None) -> Tensor:
    """x1 where ``condition`` is nonzero, else x2; all three broadcast. JitgraphError without x1 and x2."""
    if x1 is None or x2 is None:
        what = "where(condition) alone would have a size that depends on the data"
        raise JitgraphError(f"{what}\n  hint: jg.where(condition, x, y), or np.nonzero(np.asarray(condition))")
    return _where(condition, x1, x2)  # type: ignore[no-any-return]


def _chosen(condition: TensorLike, x1: TensorLike, x2: TensorLike) -> Tensor:
    picked = lifting.cast(lifting.value_of(condition), dtypes.bool_)
    if lifting.is_weak(x1) and lifting.is_weak(x2):
        x1, x2 = settled(x1), settled(x2)
    picked, left, right = lifting.together(picked, *lifting.operands(x1, x2))
    shape = lifting.broadcast_shapes(picked.type.shape, left.type.shape)
    return wrap(ops.select(*(lifting.broadcast_to(value, shape) for value in (picked, left, right))))


_where = direct_call(_chosen, 3)


@method
def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """``value`` where ``mask`` is true, else x; the dtype is that of x."""
    dtype = lifting.dtype_of(x)
    filler = wrap(lifting.cast(lifting.value_of(value, dtype), dtype))
    return where(mask, filler, x)
