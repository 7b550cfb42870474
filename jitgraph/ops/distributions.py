"""uniform, normal and dropout from random_bits, the same stream on every target.

uniform: with r bits of precision (8 bfloat16, 11 float16, 24 float32, 53 float64) the value is k * 2**-r, in [0, 1).
Up to float32, element i has k = word i >> (32 - r). For float64, k = (word i >> 5) * 2**26 + (word n + i >> 6), n the
number of elements.

normal: Box and Muller, "A note on the generation of random normal deviates", 1958: with u and v two uniforms of each
element, sqrt(-2 log(1 - u)) * cos(2 pi v); u from the first half of the words, v from the second. 16-bit floats are
made in float32 and rounded. Everything is made of ops that round alike wherever they run, logarithm and cosine too
(``exact_math``), so that a key gives the same bits eagerly, interpreted and compiled.

``words_used`` says how many words of the stream a call uses; the counter offset advances by a quarter of that, rounded
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Shape, TensorType
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, mul, sub
from jitgraph.ops.bits import shift_right
from jitgraph.ops.comparison import ge, select
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.exact_math import cos_turns, minus_log
from jitgraph.ops.movement import reshape
from jitgraph.ops.philox import random_bits
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.transcendental import sqrt
from jitgraph.ops.windows import slice

_PRECISION = {dtypes.bfloat16: 8, dtypes.float16: 11, dtypes.float32: 24}


def words_used(shape: Shape, dtype: DType, *, normal: bool = False) -> DimLike:
    """How many u32 words of the stream ``uniform`` (or ``normal``) uses for this shape and dtype."""
    return dims.product(shape) * (2 if dtype == dtypes.float64 else 1) * (2 if normal else 1)


def word_tensors(key: Any, count: int, shape: Shape) -> list[Any]:
    """``count`` tensors of random words, one part of the stream after the other."""
    if count == 1:
        return [random_bits(key, shape=shape)]
    words = random_bits(key, shape=(count, *shape))
    ones = (1,) * (len(shape) + 1)
    parts = [slice(words, starts=(i, *(0 for _ in shape)), stops=(i + 1, *shape), strides=ones) for i in range(count)]
    return [reshape(part, shape=shape) for part in parts]


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
