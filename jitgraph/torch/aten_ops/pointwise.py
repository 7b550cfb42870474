"""Operators that compute each element from the elements in its position."""

from __future__ import annotations

import math

from jitgraph import dtypes, special
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands

# ----------------------------------------------------------------------
# Functions of one tensor.

abs = operands.unary(fn.abs)
absolute = operands.unary(fn.abs)
acos = operands.unary_float(fn.acos)
arccos = operands.unary_float(fn.acos)
acosh = operands.unary_float(fn.acosh)
arccosh = operands.unary_float(fn.acosh)
angle = operands.by_kind(fn.angle, fn.angle)
asin = operands.unary_float(fn.asin)
arcsin = operands.unary_float(fn.asin)
asinh = operands.unary_float(fn.asinh)
arcsinh = operands.unary_float(fn.asinh)
atan = operands.unary_float(fn.atan)
arctan = operands.unary_float(fn.atan)
atanh = operands.unary_float(fn.atanh)
arctanh = operands.unary_float(fn.atanh)
bitwise_not = operands.unary(fn.bitwise_invert)
ceil = operands.unary(fn.ceil)
conj = operands.with_bools(operands.unary(fn.conj))
_conj = operands.with_bools(operands.unary(fn.conj))
conj_physical = operands.with_bools(operands.unary(fn.conj))
_conj_physical = operands.with_bools(operands.unary(fn.conj))
resolve_conj = operands.unary(fn.positive)
resolve_neg = operands.unary(fn.positive)
cos = operands.unary_float(fn.cos)
cosh = operands.unary_float(fn.cosh)
deg2rad = operands.unary_float(fn.deg2rad)
digamma = operands.unary_float(special.digamma)
erf = operands.unary_float(fn.erf)
erfc = operands.unary_float(special.erfc)
erfinv = operands.unary_float(special.erfinv)
exp = operands.unary_float(fn.exp)
exp2 = operands.by_kind(fn.exp2, lambda x: fn.exp(fn.multiply(x, math.log(2))))
expm1 = operands.unary_float(fn.expm1)
floor = operands.unary(fn.floor)
frac = operands.unary(fn.frac)
frexp = operands.unary(fn.frexp)
i0 = operands.unary_float(special.i0)
imag = operands.unary(fn.imag)
isfinite = operands.unary(fn.isfinite)
isinf = operands.unary(fn.isinf)
isnan = operands.unary(fn.isnan)
isneginf = operands.unary(fn.isneginf)
isposinf = operands.unary(fn.isposinf)
isreal = operands.unary(fn.isreal)
lgamma = operands.unary_float(special.lgamma)
log = operands.unary_float(fn.log)
log10 = operands.unary_float(fn.log10)
log1p = operands.unary_float(fn.log1p)
log2 = operands.unary_float(fn.log2)
logical_not = operands.truths(fn.logical_not)
neg = operands.unary(fn.negative)
negative = operands.unary(fn.negative)
positive = operands.unary(fn.positive)
rad2deg = operands.unary_float(fn.rad2deg)
real = operands.unary(fn.real)
reciprocal = operands.unary_float(fn.reciprocal)
rsqrt = operands.by_kind(fn.rsqrt, lambda x: fn.reciprocal(fn.sqrt(x)))
sgn = operands.with_bools(operands.unary(fn.sign))
sign = operands.with_bools(operands.unary(fn.sign))
signbit = operands.unary(fn.signbit)
sin = operands.unary_float(fn.sin)
sinc = operands.by_kind(special.sinc, operands.complex_sinc)
sinh = operands.unary_float(fn.sinh)
special_entr = operands.unary_float(special.entr)
special_erfcx = operands.unary_float(special.erfcx)
special_i0e = operands.unary_float(special.i0e)
special_i1 = operands.unary_float(special.i1)
special_i1e = operands.unary_float(special.i1e)
special_log_ndtr = operands.unary_float(special.log_ndtr)
special_ndtr = operands.unary_float(special.ndtr)
special_ndtri = operands.unary_float(special.ndtri)
sqrt = operands.unary_float(fn.sqrt)
square = operands.unary(lambda x: fn.square(operands.cast(x, dtypes.int64 if operands.is_bool(x) else None)))
tan = operands.unary_float(fn.tan)
tanh = operands.unary_float(fn.tanh)
trunc = operands.unary(fn.trunc)
fix = operands.unary(fn.trunc)
view_as_complex = operands.unary(fn.view_as_complex)
view_as_real = operands.unary(fn.view_as_real)
special_digamma, special_psi = digamma, digamma
special_erf, special_erfc, special_erfinv = erf, erfc, erfinv
special_exp2, special_expm1, special_log1p = exp2, expm1, log1p
special_gammaln, special_i0, special_sinc = lgamma, i0, sinc


def polygamma(n, self):
    return special.polygamma(n, self)


def mvlgamma(self, p):
    return special.multigammaln(self, p)


def logit(self, eps=None):
    return special.logit(self if eps is None else fn.clip(self, eps, 1 - eps))


def nan_to_num(self, nan=None, posinf=None, neginf=None):
    return fn.nan_to_num(self, 0.0 if nan is None else nan, posinf, neginf)


def round(self, *, decimals=0):
    return fn.round(self, decimals)


def clamp(self, min=None, max=None):
    values, *limits = operands.promoted(self, *(limit for limit in (min, max) if limit is not None))
    low = None if min is None else limits.pop(0)
    return fn.clip(values, low, None if max is None else limits[0])


clip = clamp


def clamp_min(self, min):
    operands.require_tensors("clamp_min", "first", self, min)
    return maximum(self, min) if operands.is_bool(self) else fn.clip(*operands.promoted(self, min))


def clamp_max(self, max):
    operands.require_tensors("clamp_max", "first", self, max)
    if operands.is_bool(self):
        return minimum(self, max)
    values, limit = operands.promoted(self, max)
    return fn.clip(values, None, limit)


# ----------------------------------------------------------------------
# Arithmetic of two tensors, or of a tensor and a number.


def add(self, other, alpha=1):
    first, second = operands.promoted(self, other)
    if operands.is_bool(first) and operands.is_bool(second):
        return fn.logical_or(first, second) if alpha else first
    return fn.add(first, operands.scaled(second, alpha))


def sub(self, other, alpha=1):
    first, second = operands.promoted(self, other)
    return fn.subtract(first, operands.scaled(second, alpha))


subtract = sub


def rsub(self, other, alpha=1):
    return sub(other, self, alpha)


def mul(self, other):
    first, second = operands.promoted(self, other)
    if operands.is_bool(first) and operands.is_bool(second):
        return fn.logical_and(first, second)
    return fn.multiply(first, second)


multiply = mul


def div(self, other, *, rounding_mode=None):
    first, second = operands.promoted(self, other)
    if rounding_mode is None:
        return fn.divide(operands.to_inexact(first), operands.to_inexact(second))
    if rounding_mode == "floor":
        return fn.floor_divide(first, second)
    if operands.is_integral(first) and operands.is_integral(second):
        return fn.floor_divide(fn.subtract(first, fn.fmod(first, second)), second)
    return fn.trunc(fn.divide(first, second))


divide = div


def true_divide(self, other):
    return div(self, other)


def floor_divide(self, other):
    return div(self, other, rounding_mode="floor")


def fmod(self, other):
    operands.require_tensors("fmod", "first", self, other)
    return fn.fmod(*operands.promoted(self, other))


def remainder(self, other):
    operands.require_tensors("remainder", "either", self, other)
    return fn.remainder(*operands.promoted(self, other))


def pow(self, exponent):
    operands.require_tensors("pow", "either", self, exponent)
    result = fn.pow(*operands.promoted(self, exponent))
    return fn.multiply(result, 1.0) if exponent.__class__ is float and exponent == 0.5 else result


def float_power(self, exponent):
    operands.require_tensors("float_power", "either", self, exponent)
    base, power = operands.promoted(self, exponent)
    if any(operands.is_complex(x) for x in (base, power)):
        return fn.pow(operands.in_dtype(base, dtypes.complex128), power)
    return fn.float_power(base, power)


def addcmul(self, tensor1, tensor2, *, value=1):
    return fn.addcmul(self, tensor1, tensor2, value=value)


def addcdiv(self, tensor1, tensor2, *, value=1):
    return fn.addcdiv(self, tensor1, tensor2, value=value)


def lerp(self, end, weight):
    return fn.lerp(*operands.promoted(self, end, weight))


atan2 = operands.binary(fn.atan2, "both")
arctan2 = operands.binary(fn.atan2, "both")
copysign = operands.binary(fn.copysign, "first")
fmax = operands.extremum(fn.fmax, fn.logical_or)
fmin = operands.extremum(fn.fmin, fn.logical_and)
gcd = operands.binary(fn.gcd, "both")
hypot = operands.binary(fn.hypot, "both")
lcm = operands.binary(fn.lcm, "both")
logaddexp2 = operands.binary(fn.logaddexp2, "both")
maximum = operands.extremum(fn.maximum, fn.logical_or)
minimum = operands.extremum(fn.minimum, fn.logical_and)
special_xlog1py = operands.binary(special.xlog1py)
special_xlogy = operands.binary(special.xlogy)
special_zeta = operands.binary(special.zeta)
xlogy = operands.binary(special.xlogy)


def logaddexp(self, other):
    operands.require_tensors("logaddexp", "both", self, other)
    first, second = operands.promoted(self, other)
    if not operands.is_complex(first):
        return fn.logaddexp(first, second)
    ordered = fn.greater_equal(fn.real(first), fn.real(second))
    great, less = fn.where(ordered, first, second), fn.where(ordered, second, first)
    return fn.add(great, fn.log(fn.add(1, fn.exp(fn.subtract(less, great)))))


def nextafter(self, other):
    operands.require_tensors("nextafter", "both", self, other)
    start, goal = operands.promoted(self, other)
    moved = fn.nextafter(start, goal)
    if not start.requires_grad:
        return moved
    return fn.where(fn.equal(start, goal), moved, operands.with_gradient_of(start, moved))


def ldexp(self, other):
    return mul(self, pow(2.0, other))


def heaviside(self, values):
    operands.require_tensors("heaviside", "both", self, values)
    return fn.heaviside(self, values)


def igamma(self, other):
    operands.require_tensors("igamma", "both", self, other)
    return special.gammainc(self, other)


def igammac(self, other):
    operands.require_tensors("igammac", "both", self, other)
    return special.gammaincc(self, other)


special_gammainc, special_gammaincc = igamma, igammac


def complex(real, imag):
    return fn.complex(real, imag)


def polar(abs, angle):
    operands.require_tensors("polar", "both", abs, angle)
    return fn.polar(abs, angle)


# ----------------------------------------------------------------------
# Comparisons, logic and bits.

eq = operands.binary(fn.equal, "first")
ne = operands.binary(fn.not_equal, "first")
not_equal = operands.binary(fn.not_equal, "first")
ge = operands.binary(fn.greater_equal, "first")
greater_equal = operands.binary(fn.greater_equal, "first")
gt = operands.binary(fn.greater, "first")
greater = operands.binary(fn.greater, "first")
le = operands.binary(fn.less_equal, "first")
less_equal = operands.binary(fn.less_equal, "first")
lt = operands.binary(fn.less, "first")
less = operands.binary(fn.less, "first")
logical_and = operands.truths(fn.logical_and)
logical_or = operands.truths(fn.logical_or)
logical_xor = operands.truths(fn.logical_xor)
bitwise_and = operands.binary(fn.bitwise_and)
bitwise_or = operands.binary(fn.bitwise_or)
bitwise_xor = operands.binary(fn.bitwise_xor)
bitwise_left_shift = operands.binary(fn.bitwise_left_shift)
bitwise_right_shift = operands.binary(fn.bitwise_right_shift)
__and__, __or__, __xor__ = bitwise_and, bitwise_or, bitwise_xor
__lshift__, __rshift__ = bitwise_left_shift, bitwise_right_shift


def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    operands.require_tensors("isclose", "both", self, other)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    return fn.isclose(self, other, rtol, atol, equal_nan)


def where_default(condition):
    return fn.nonzero(condition)


def where(condition, self, other):
    return fn.where(condition, *operands.promoted(self, other))


def masked_fill(self, mask, value):
    return fn.masked_fill(self, mask, value)


def threshold(self, threshold, value):
    return fn.where(fn.less_equal(self, threshold), value, self)
