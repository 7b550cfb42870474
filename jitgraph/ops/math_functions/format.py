"""What the math functions share: the two float formats, and exact sums and products in scalar ops.

Sources: D. E. Knuth (two_sum), T. J. Dekker (fast_two_sum); the product's error is one fma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions import tables as tables
from jitgraph.records import dataclass

Pair: TypeAlias = tuple[Scalar, Scalar]  # an unevaluated sum, the larger first


@dataclass(frozen=True, slots=True)
class Format:
    """A float dtype with its constants. ``magic`` added to a float that is a small integer shows it in the bits.

    ``exp_range`` begins below where exp is 0: a product that underflows takes a processor ten times as long as one with
    0, and masked logits are -inf.
    """

    dtype: DType
    integer: DType
    mantissa: int  # stored bits
    bias: int
    magic: float
    ln2: tuple[float, float]  # high part with trailing zeros, so that its product with an exponent is exact
    log2e: tuple[float, float]
    exp_range: tuple[float, float]  # where both factors of ``scale`` are 0 and where exp is infinite
    exp: Sequence[float]
    log: Sequence[float]
    sin: Sequence[float]
    cos: Sequence[float]
    atan: Sequence[float]
    asin: Sequence[float]
    erf: Sequence[float]
    erfcx: Sequence[float]
    pi: tuple[float, float]
    erf_slope: tuple[float, float]  # 2/sqrt(pi)
    erf_one: float  # erf is 1 from here on
    erfc: Sequence[float]
    erfc_centre: float
    erfc_zero: float  # erfc is 0 from here on
    sqrt_pi: tuple[float, float]
    ndtr: Sequence[float]
    ndtr_centre: float
    ndtr_zero: float  # the normal distribution function is 0 from minus this on
    tiny: float  # |x| below: odd functions with slope 1 are x


_SINGLE: Final = Format(
    dtype=dtypes.float32,
    integer=dtypes.int32,
    mantissa=23,
    bias=127,
    magic=1.5 * 2.0**23,
    ln2=(0.693145751953125, 1.428606765330187e-06),
    log2e=(1.44269502162933349609375, 1.925963033500011e-08),
    exp_range=(-176.0, 89.0),
    exp=tables.EXP_32,
    log=tables.LOG_32,
    sin=tables.SIN_32,
    cos=tables.COS_32,
    atan=tables.ATAN_32,
    asin=tables.ASIN_32,
    erf=tables.ERF_32,
    erfcx=tables.ERFCX_32,
    pi=(3.1415927410125732421875, -8.74227765734758577309e-08),
    erf_slope=(1.12837922573089599609375, -5.86352625e-08),
    erf_one=4.0,
    erfc=tables.ERFC_32,
    erfc_centre=2.5,
    erfc_zero=10.25,
    ndtr=tables.NDTR_32,
    ndtr_centre=3.5,
    ndtr_zero=14.5,
    sqrt_pi=(1.7724539041519165, -5.324639928971919e-08),
    tiny=2.0**-13,
)
_DOUBLE: Final = Format(
    dtype=dtypes.float64,
    integer=dtypes.int64,
    mantissa=52,
    bias=1023,
    magic=1.5 * 2.0**52,
    ln2=(0.6931471803691238164902, 1.908214929270587700016e-10),
    log2e=(1.4426950408889634, 2.0355273740931033e-17),
    exp_range=(-1418.0, 710.0),
    exp=tables.EXP_64,
    log=tables.LOG_64,
    sin=tables.SIN_64,
    cos=tables.COS_64,
    atan=tables.ATAN_64,
    asin=tables.ASIN_64,
    erf=tables.ERF_64,
    erfcx=tables.ERFCX_64,
    pi=(3.141592653589793, 1.2246467991473532e-16),
    erf_slope=(1.1283791670955126, 1.533545961316588e-17),
    erf_one=6.0,
    erfc=tables.ERFC_64,
    erfc_centre=3.75,
    erfc_zero=27.5,
    ndtr=tables.NDTR_64,
    ndtr_centre=5.5,
    ndtr_zero=38.75,
    sqrt_pi=(1.772453850905516, -7.666586499825799e-17),
    tiny=2.0**-28,
)


def format_of(x: Scalar) -> Format:
    """The format of ``x``, which is float32 or float64; callers widen narrower floats."""
    if x.dtype == dtypes.float32:
        return _SINGLE
    assert x.dtype == dtypes.float64, x.dtype
    return _DOUBLE


def polynomial(s: Scalars, x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Horner's rule with fma; the lowest power comes first."""
    total = s.const(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        total = s.fma(total, x, s.const(coefficient, x.dtype))
    return total


def two_sum(s: Scalars, x: Scalar, y: Scalar) -> Pair:
    """``x + y`` exactly."""
    total = s.add(x, y)
    part = s.sub(total, x)
    return total, s.add(s.sub(x, s.sub(total, part)), s.sub(y, part))


def fast_two_sum(s: Scalars, x: Scalar, y: Scalar) -> Pair:
    """``x + y`` exactly where ``|x| >= |y|`` or x is 0."""
    total = s.add(x, y)
    return total, s.sub(y, s.sub(total, x))


def two_product(s: Scalars, x: Scalar, y: Scalar) -> Pair:
    """``x * y`` exactly, short of underflow."""
    product = s.mul(x, y)
    return product, s.fma(x, y, s.neg(product))


def power_of_two(s: Scalars, exponent: Scalar, form: Format) -> Scalar:
    """``2**exponent`` for an integer scalar in the range of normal exponents."""
    biased = s.add(exponent, s.const(form.bias, form.integer))
    return s.bitcast(s.shl(biased, s.const(form.mantissa, form.integer)), form.dtype)


def copy_sign(s: Scalars, size: Scalar, sign: Scalar, form: Format) -> Scalar:
    """``|size|`` with the sign of ``sign``, that of zeros too."""
    mask = s.const(-(2 ** (form.dtype.itemsize * 8 - 1)), form.integer)
    bits = s.or_(s.and_(s.bitcast(sign, form.integer), mask), s.and_(s.bitcast(size, form.integer), s.not_(mask)))
    return s.bitcast(bits, form.dtype)


def is_below(s: Scalars, x: Scalar, bound: float) -> Scalar:
    """``|x| < bound``; false for NaN."""
    return s.cmp("lt", s.abs(x), s.const(bound, x.dtype))
