"""The scalar ops ``div`` and ``rem``, total and without library calls: integers floor; floats as NumPy."""

from __future__ import annotations

from jitgraph.codegen.llvm.arithmetic import LlvmArithmetic
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmValue
from jitgraph.codegen.llvm.operand import LlvmScalar, lanes_of
from jitgraph.dtypes import DType, bool_, float32, float64, int64, is_signed


def floor_divide(s: LlvmArithmetic, x: LlvmScalar, y: LlvmScalar) -> tuple[LlvmScalar, LlvmScalar]:
    """Quotient rounded down and remainder with the sign of ``y``; both 0 for y == 0; the minimum // -1 wraps."""
    signed = is_signed(x.dtype)
    zero, one = s.raw(0, x), s.raw(1, x)
    by_zero = s.cmp("eq", y, zero)
    unsafe = by_zero
    if signed:
        lowest = s.raw(-(1 << (8 * x.dtype.itemsize - 1)), x)
        unsafe = s.or_(by_zero, s.and_(s.cmp("eq", x, lowest), s.cmp("eq", y, s.raw(-1, y))))
    divisor = s.select(unsafe, one, y)  # dividing by one wraps as the minimum // -1 does, and has no remainder
    quotient = _quotient(s, x, divisor)
    remainder = s.sub(x, s.mul(quotient, divisor))
    if signed:
        signs_differ = s.cmp("lt", s.xor(remainder, divisor), zero)
        adjust = s.and_(s.cmp("ne", remainder, zero), signs_differ)
        quotient = s.select(adjust, s.sub(quotient, one), quotient)
        remainder = s.select(adjust, s.add(remainder, divisor), remainder)
    return s.select(by_zero, zero, quotient), remainder


def _quotient(s: LlvmArithmetic, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """The quotient toward zero of safe operands.

    There is no vector instruction for it; where a float holds the operands exactly, its quotient lies too far from the
    next integer to round up to it: |x| < 2**p and |y| < 2**p keep them 2**-2p apart (relatively), above 2**-24 for
    p <= 8 in float32 and above 2**-53 for p <= 16 ... 26; at 32 bits n + 1 - x/y >= 1/y with n*y <= 2**32 does it.
    """
    signed = is_signed(x.dtype)
    if x.lanes == 1 or x.dtype.itemsize == 8:
        return s.make(f"{'sdiv' if signed else 'udiv'} {x}, {y.name}", x.dtype, x.lanes)
    wide = float32 if x.dtype.itemsize <= 2 else float64
    exact = s.make(
        f"fdiv {s.cast(x, wide)}, {s.cast(y, wide).name}", wide, x.lanes
    )  # no fast-math flag: it must round right
    return s.float_to_int(exact, x.dtype)


def float_remainder(s: LlvmArithmetic, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """``x - floor(x / y) * y`` without intermediate rounding: fmod, plus y where the signs differ; as NumPy's."""
    dtype = x.dtype
    x, y = s.widen(x), s.widen(y)
    name = _fmod(s.function.module, x.lanes)
    wide_x, wide_y = s.cast(x, float64), s.cast(y, float64)
    exact = s.make(s.function.call_of(wide_x.type, name, wide_x, wide_y), float64, x.lanes)
    mod = s.cast(exact, x.dtype)
    zero = s.const(0.0, x.dtype)
    signs_differ = s.xor(s.cmp("lt", y, zero), s.cmp("lt", mod, zero))
    shifted = s.select(signs_differ, s.make(f"fadd {mod}, {y.name}", x.dtype, x.lanes, x.type), mod)
    signed_zero = s.intrinsic("copysign", s.splat(zero, x.lanes), y)
    return s.narrow(s.select(s.cmp("eq", mod, zero), signed_zero, shifted), dtype)


def _fmod(module: LlvmModule, lanes: int) -> str:
    """The name of a function that computes fmod of float64, exactly, as C has it.

    For a >= b > 0 let q be a/b rounded down to 53 bits; a - q*b is then a multiple of lsb(q)*lsb(b) and below lsb(q)*b,
    so one fma gives it without error, and a has lost about 52 bits. fl(a/b) may lie one step above: then a - q*b is
    negative (and still exact) and q steps down. Where a/b overflows, a is scaled down and b up by powers of two.
    """
    name = f"fmod_{lanes}"
    if not module.claim(name):
        return name
    type = lanes_of("double", lanes)
    function = LlvmFunction(module, name, type, attributes="nounwind noinline")
    s = LlvmArithmetic(function, float64)
    x, y = (_scalar(function.argument(type), float64, lanes) for _ in range(2))
    inf, zero = s.const(float("inf")), s.const(0.0)
    magnitude, b = s.intrinsic("fabs", x), s.intrinsic("fabs", y)
    sound = s.and_(s.cmp("lt", magnitude, inf), s.cmp("gt", b, zero))  # false for x infinite or NaN, y zero or NaN
    start = s.select(sound, magnitude, s.splat(zero, lanes))
    b = s.select(sound, b, s.splat(s.const(1.0), lanes))
    entry, loop, done = function.block, function.label("loop"), function.label("done")
    function.jump(loop)
    function.start_block(loop)
    phi = function.phi(type)
    phi.add(start.name, entry)
    a = _scalar(phi.value, float64, lanes)
    ratio = s.fdiv(a, b)
    over = s.cmp("eq", ratio, inf)
    down = s.select(over, s.const(2.0**-600), s.const(1.0))
    up = s.select(over, s.const(2.0**600), s.const(1.0))
    scaled_a, scaled_b = s.mul(a, down), s.mul(b, up)
    ratio = s.fdiv(scaled_a, scaled_b)
    q = s.select(over, ratio, s.floor(ratio))
    rest = s.fma(s.neg(q), scaled_b, scaled_a)
    bits = s.make(f"bitcast {q} to {lanes_of('i64', lanes)}", int64, lanes)
    below = s.make(f"bitcast {s.sub(bits, s.raw(1, bits))} to {type}", float64, lanes)
    is_exact = s.cmp("lt", q, s.const(2.0**53))
    below = s.select(s.and_(is_exact, s.not_(over)), s.sub(q, s.const(1.0)), below)
    rest = s.select(s.cmp("lt", rest, zero), s.fma(s.neg(below), scaled_b, scaled_a), rest)
    rest = s.select(s.cmp("ge", a, b), s.mul(rest, up), a)
    phi.add(rest.name, loop)
    more = any_lane(s, s.cmp("ge", rest, b))
    function.branch(more.name, loop, done)
    function.start_block(done)
    # An infinite y leaves x as it is; the copied sign is that of x, for zeros too.
    result = s.select(sound, s.intrinsic("copysign", rest, x), s.splat(s.const(float("nan")), lanes))
    function.ret(LlvmValue(result.name, result.type))
    function.finish()
    return name


def any_lane(s: LlvmArithmetic, x: LlvmScalar) -> LlvmScalar:
    """Whether a bool is true in any lane, as a uniform bool."""
    if x.lanes == 1:
        return x
    return s.make(f"call i1 @llvm.vector.reduce.or.v{x.lanes}i1({x})", bool_, 1)


def _scalar(value: LlvmValue, dtype: DType, lanes: int) -> LlvmScalar:
    return LlvmScalar(value.name, value.type, dtype, lanes)
