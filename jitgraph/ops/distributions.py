"""random_bits by Philox4x32-10, and uniform, normal and dropout from them: the same stream on every target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import (
    abs,
    add,
    bitwise_and,
    div,
    ge,
    lt,
    mul,
    ne,
    neg,
    select,
    shift_left,
    shift_right,
    sub,
)
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import bitcast, cast
from jitgraph.ops.creation import full, full_like, zeros_like
from jitgraph.ops.movement import reshape
from jitgraph.ops.numeric import Array
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.transcendental import rint, sqrt
from jitgraph.ops.windows import concat, slice

# ----------------------------------------------------------------------
# random_bits: the counter-based generator Philox4x32-10, the same stream on every target.
#
# Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11. The operand is ``u64[2]``:
# the seed, which is the generator's 64-bit key (low word first), and a counter offset. Element i (in row-major order)
# is word ``i % 4`` of the block whose 128-bit counter is ``offset + i // 4`` (modulo 2**64, high half zero). A call for
# n elements uses ``ceil(n / 4)`` counters; the caller adds them to the offset for the next one.
#
# The ``scalar`` body is ``scalar(s, seed, offset, i)``: two u64 scalars and the element's linear index as i64, giving
# u32.

_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)  # what each round adds to the key
_ROUNDS: Final = 10
WORDS: Final = 4
"""Words of one block."""
_LOW: Final = 0xFFFFFFFF


def _random_bits_type(key: Type, *, shape: Shape) -> TensorType:
    if key != TensorType(dtypes.uint64, (2,)):
        raise DTypeError(f"random_bits takes a u64[2] key (seed, offset), not {key}")
    return TensorType(dtypes.uint32, rules.require_shape("random_bits", shape))


def _random_bits(key: Array, *, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    seed = int(key[0])
    with np.errstate(over="ignore"):
        counter = key[1] + np.arange((count + 3) // 4, dtype=np.uint64)
    low, shift = np.uint64(_LOW), np.uint64(32)
    c0, c1 = counter & low, counter >> shift
    c2, c3 = np.zeros_like(c0), np.zeros_like(c0)
    for turn in range(_ROUNDS):
        k0, k1 = (np.uint64((word + turn * step) & _LOW) for word, step in zip((seed, seed >> 32), _WEYL, strict=True))
        first, second = c0 * np.uint64(_MULTIPLIERS[0]), c2 * np.uint64(_MULTIPLIERS[1])
        c0, c1, c2, c3 = (second >> shift) ^ c1 ^ k0, second & low, (first >> shift) ^ c3 ^ k1, first & low
    words = np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)
    return words.reshape(-1)[:count].reshape(shape)


def philox(s: Any, seed: Any, counter: Any) -> tuple[Any, Any, Any, Any]:
    """The four words of a block, of the seed and the block's counter, as the low halves of u64 scalars.

    Their high halves are anything: a product takes the low ones alone, as the processor's does by itself.
    """
    u64 = dtypes.uint64
    low, shift = s.const(_LOW, u64), s.const(32, u64)
    multipliers = [s.const(multiplier, u64) for multiplier in _MULTIPLIERS]
    c0, c1 = counter, s.shr(counter, shift)
    c2 = c3 = s.const(0, u64)
    k0, k1 = seed, s.shr(seed, shift)
    for _ in range(_ROUNDS):
        first, second = s.mul(s.and_(c0, low), multipliers[0]), s.mul(s.and_(c2, low), multipliers[1])
        c0, c2 = s.xor(s.xor(s.shr(second, shift), c1), k0), s.xor(s.xor(s.shr(first, shift), c3), k1)
        c1, c3 = second, first
        k0, k1 = s.add(k0, s.const(_WEYL[0], u64)), s.add(k1, s.const(_WEYL[1], u64))
    return c0, c1, c2, c3


def _random_bits_scalar(s: Any, seed: Any, offset: Any, index: Any) -> Any:
    u64 = dtypes.uint64
    position = s.cast(index, u64)
    c0, c1, c2, c3 = philox(s, seed, s.add(offset, s.shr(position, s.const(2, u64))))
    odd = s.cmp("ne", s.and_(position, s.const(1, u64)), s.const(0, u64))
    late = s.cmp("ne", s.and_(position, s.const(2, u64)), s.const(0, u64))
    return s.cast(s.select(late, s.select(odd, c3, c2), s.select(odd, c1, c0)), dtypes.uint32)


def _random_bits_samples(dtype: DType) -> Sequence[Sample]:
    if dtype != dtypes.uint64:
        return ()
    keys = [(0, 0), (2**64 - 1, 2**64 - 1), (0x123456789ABCDEF, 2**32 - 1), (1, 7)]
    shapes: list[tuple[int, ...]] = [(9,), (2, 3), (), (0, 3)]
    return [Sample((np.array(key, np.uint64),), {"shape": shape}) for key, shape in zip(keys, shapes, strict=True)]


random_bits: Op = Op(
    name="random_bits",
    kind="creation",
    infer=_random_bits_type,
    evaluate=_random_bits,
    scalar=_random_bits_scalar,
    fusion="pointwise",
    lowering="random_bits",
    traits=frozenset({"nondifferentiable"}),
    samples=_random_bits_samples,
    doc="Uniformly distributed u32 words of the Philox4x32-10 stream of key u64[2] = (seed, offset).",
)


# ----------------------------------------------------------------------
# -log(x) on (0, 1] and the cosine of turns, from ops that NumPy and native code round alike: the same bits everywhere.
#
# ``log`` and ``cos`` are NumPy's where NumPy evaluates, and differ from compiled code in the last place. What has to be
# one stream on every target is made of + - * /, bits and choices alone. Both are within 2 ulp, and take floats of 32 or
# 64 bits on the grid that uniform numbers lie on.

_INTEGER: Final = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}
_MANTISSA: Final = {dtypes.float32: 23, dtypes.float64: 52}
_ROOT_HALF: Final = {dtypes.float32: 0x3F3504F3, dtypes.float64: 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
_LN2: Final = {  # a head whose product with an exponent is exact, and the rest
    dtypes.float32: (0.693359375, -2.1219444005469057e-4),
    dtypes.float64: (0.6931471803691238, 1.9082149292705877e-10),
}
_LOG_TERMS: Final = {dtypes.float32: 5, dtypes.float64: 11}
_TURN_TERMS: Final = {dtypes.float32: 6, dtypes.float64: 10}


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The sum of ``coefficients[i] * x**i``, by Horner's rule."""
    result = full_like(coefficients[-1], x)
    for coefficient in coefficients[-2::-1]:
        result = add(mul(result, x), full_like(coefficient, x))
    return result


def minus_log(x: Any) -> Any:
    """-log(x) for x > 0, x normal and finite.

    With x = 2^k m, m from sqrt(1/2) to sqrt(2), f = m - 1 and s = f / (2 + f), log(m) is 2 artanh(s), whose series is
    added to the exact f as f - (f^2/2 - s (f^2/2 + R)), the arrangement of FreeBSD's msun.
    """
    dtype: DType = x.dtype
    bits = bitcast(x, dtype=_INTEGER[dtype])
    width = full_like(_MANTISSA[dtype], bits)
    exponent = shift_right(sub(bits, full_like(_ROOT_HALF[dtype], bits)), width)
    f = sub(bitcast(sub(bits, shift_left(exponent, width)), dtype=dtype), full_like(1.0, x))
    k = cast(exponent, dtype=dtype)
    s = div(f, add(full_like(2.0, f), f))
    z = mul(s, s)
    rest = mul(z, _polynomial(z, [2.0 / (2 * i + 3) for i in range(_LOG_TERMS[dtype])]))
    half = mul(full_like(0.5, f), mul(f, f))
    head, tail = (mul(k, full_like(part, k)) for part in _LN2[dtype])
    small = sub(half, add(mul(s, add(half, rest)), tail))
    return sub(sub(small, f), head)


def log1p_less(x: Any) -> Any:
    """log(1 + x) - x for x > -1: accurate where the two nearly agree.

    With s = x / (2 + x), log(1 + x) is 2 artanh(s), and 2 s - x is -x s, so that nothing cancels near zero.
    """
    dtype: DType = x.dtype
    s = div(x, add(full_like(2.0, x), x))
    z = mul(s, s)
    rest = mul(mul(z, s), _polynomial(z, [2.0 / (2 * i + 3) for i in range(_LOG_TERMS[dtype])]))
    near = sub(rest, mul(x, s))
    far = sub(neg(minus_log(add(full_like(1.0, x), x))), x)
    return select(lt(abs(x), full_like(0.25, x)), near, far)


def cos_turns(x: Any) -> Any:
    """cos(2 pi x) for 0 <= x <= 1; 4 x must not round.

    The nearest quarter turn is taken off, which is exact, and the series of cosine or sine taken of what is left.
    """
    dtype: DType = x.dtype
    quarters = mul(x, full_like(4.0, x))
    nearest = rint(quarters)
    t = sub(quarters, nearest)
    z = mul(t, t)
    count, quarter = _TURN_TERMS[dtype], math.pi / 2
    terms = [(-1) ** (i // 2) * quarter**i / math.factorial(i) for i in range(2 * count)]
    turn = cast(nearest, dtype=dtypes.int32)
    one, two = (full_like(number, turn) for number in (1, 2))
    odd = ne(bitwise_and(turn, one), zeros_like(turn))
    value = select(odd, mul(t, _polynomial(z, terms[1::2])), _polynomial(z, terms[::2]))
    negative = ne(bitwise_and(add(turn, one), two), zeros_like(turn))
    return select(negative, neg(value), value)


# ----------------------------------------------------------------------
# uniform, normal and dropout from random_bits, the same stream on every target.
#
# uniform: with r bits of precision (8 bfloat16, 11 float16, 24 float32, 53 float64) the value is k * 2**-r, in [0, 1).
# Up to float32, element i has k = word i >> (32 - r). For float64, k = (word i >> 5) * 2**26 + (word n + i >> 6), n the
# number of elements.
#
# normal: Box and Muller, "A note on the generation of random normal deviates", 1958: with u and v two uniforms of each
# element, sqrt(-2 log(1 - u)) * cos(2 pi v); u from the first half of the words, v from the second. 16-bit floats are
# made in float32 and rounded. Everything is made of ops that round alike wherever they run, logarithm and cosine too
# (``exact_math``), so that a key gives the same bits eagerly, interpreted and compiled.
#
# ``words_used`` says how many words of the stream a call uses; the counter offset advances by a quarter of that,
# rounded up.

_PRECISION = {dtypes.bfloat16: 8, dtypes.float16: 11, dtypes.float32: 24}


def words_used(shape: Shape, dtype: DType, *, normal: bool = False) -> DimLike:
    """How many u32 words of the stream ``uniform`` (or ``normal``) uses for this shape and dtype."""
    return dims.product(shape) * (2 if dtype == dtypes.float64 else 1) * (2 if normal else 1)


def word_tensors(key: Any, count: int, shape: Shape) -> list[Any]:
    """``count`` tensors of random words, one part of the stream after the other."""
    if count == 1:
        return [random_bits(key, shape=shape)]
    size = dims.product(shape)
    if size % WORDS == 0:  # each part begins with a block
        return [random_bits(_later(key, size // WORDS * i), shape=shape) for i in range(count)]
    words = random_bits(key, shape=(count, *shape))
    ones = (1,) * (len(shape) + 1)
    parts = [slice(words, starts=(i, *(0 for _ in shape)), stops=(i + 1, *shape), strides=ones) for i in range(count)]
    return [reshape(part, shape=shape) for part in parts]


def _later(key: Any, blocks: DimLike) -> Any:
    """The key whose stream begins so many blocks behind that of ``key``."""
    if blocks == 0:
        return key
    ahead = [full(shape=(1,), value=count, dtype=dtypes.uint64) for count in (0, blocks)]
    return add(key, concat(*ahead, axis=0))


def _scaled(words: Any, shift: int, dtype: DType, scale: float) -> Any:
    mantissa = cast(shift_right(words, full_like(shift, words)), dtype=dtype)
    return mul(mantissa, full_like(scale, mantissa))


def from_words(planes: Sequence[Any], dtype: DType) -> Any:
    if dtype == dtypes.float64:
        high, low = planes
        return add(_scaled(high, 5, dtype, 2.0**-27), _scaled(low, 6, dtype, 2.0**-53))
    bits = _PRECISION[dtype]
    return _scaled(planes[0], 32 - bits, dtype, 2.0**-bits)


def require_float(name: str, shape: Shape, dtype: DType) -> None:
    rules.require_dtype(name, TensorType(dtype, shape), rules.FLOATS)


def _uniform(key: Any, *, shape: Shape, dtype: DType) -> Any:
    require_float("uniform", shape, dtype)
    return from_words(word_tensors(key, 2 if dtype == dtypes.float64 else 1, shape), dtype)


def _normal(key: Any, *, shape: Shape, dtype: DType) -> Any:
    require_float("normal", shape, dtype)
    wide = dtypes.float64 if dtype == dtypes.float64 else dtypes.float32
    each = 2 if wide == dtypes.float64 else 1
    words = word_tensors(key, 2 * each, shape)
    u, v = from_words(words[:each], wide), from_words(words[each:], wide)
    rest = sub(full_like(1.0, u), u)  # in (0, 1]
    radius = sqrt(mul(minus_log(rest), full_like(2.0, rest)))
    value = mul(radius, cos_turns(v))
    return value if dtype == wide else cast(value, dtype=dtype)


def _dropout(x: Any, key: Any, *, p: float) -> Any:
    if not 0.0 <= p <= 1.0:
        raise DTypeError(f"dropout: p={p} is not a probability")
    if p == 1.0:
        return zeros_like(x)
    uniform = _uniform(key, shape=x.shape, dtype=dtypes.float32)
    scaled = mul(x, full_like(1.0 / (1.0 - p), x))
    return select(ge(uniform, full_like(p, uniform)), scaled, zeros_like(scaled))


def key_of(seed: int) -> Any:
    """The key of a sample."""
    return np.array([seed, 3], np.uint64)


def drawn_samples(dtype: DType) -> Sequence[Sample]:
    """Keys and shapes for an op that draws floats."""
    shapes: list[tuple[int, ...]] = [(2, 3), (), (0, 2), (17,)]
    return [
        Sample((key_of(i),), {"shape": shape, "dtype": dtype})
        for i, shape in enumerate(shapes)
        if dtype in rules.FLOATS
    ]


def _dropout_samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in rules.FLOATS:
        return ()
    rng = generator("dropout", dtype)
    cases: list[tuple[tuple[int, ...], float]] = [((2, 3), 0.5), ((), 0.0), ((0, 2), 0.3), ((5,), 1.0), ((37,), 0.1)]
    return [Sample((values(rng, dtype, shape), key_of(7)), {"p": p}) for shape, p in cases]


uniform: Op = composite(
    "uniform",
    _uniform,
    samples=drawn_samples,
    traits=["nondifferentiable"],
    doc="Uniform floats in [0, 1) from a u64[2] key (seed, offset).",
)
normal: Op = composite(
    "normal",
    _normal,
    samples=drawn_samples,
    traits=["nondifferentiable"],
    doc="Standard normal floats from a u64[2] key (seed, offset).",
)
dropout: Op = composite(
    "dropout",
    _dropout,
    samples=_dropout_samples,
    open_shapes=lambda x, key, *, p: (tuple(rules.open_extent(n, f"n{axis}") for axis, n in enumerate(x)), key),
    onnx="Dropout",
    doc="x / (1 - p), each element zeroed with probability p: where a float32 uniform from the u64[2] key is below p.",
)
