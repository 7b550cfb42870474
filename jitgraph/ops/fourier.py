"""Discrete Fourier transforms along one axis, as composites.

``dft`` and its real forms work on arrays whose last axis has the two parts of each number, as memory has them. A
target with kernels for them takes them whole if ``radices`` has factors for the size. What they consist of elsewhere is
written here: a transform of n = r m elements is one of r elements for each of m places, a twiddle factor for each, and
one of m elements for each of the r results (Cooley and Tukey, Math. Comp. 19, 1965), in Stockham's order, which needs
no permutation at the end. Those of r elements, for r up to 32, are products with r by r matrices. A size with a larger
prime factor is a convolution of a size without (Bluestein, IEEE Trans. Audio Electroacoust. 18, 1970). A real transform
of an even size is a complex one of half of it.

Factors are rounded once from twice the precision or more: angles are reduced exactly, as integers, before cos and sin.
The 2-norm of the error is at most 1.5 u log2(n) times that of the result, where u is half of the dtype's eps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph.dtypes import DType, float32, float64
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, OpenShape, Sample
from jitgraph.ir.types import Constant, TensorType
from jitgraph.ops.arithmetic import add, mul, neg, sub
from jitgraph.ops.complex_parts import as_pairs, of_pairs
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.creation import constant, full, full_like
from jitgraph.ops.fourier_evaluation import evaluated_dft, evaluated_dft_of_real, evaluated_dft_to_real
from jitgraph.ops.fourier_factors import (
    GREATEST_PRIME,
    LANE,
    factors,
    has_real_kernel,
    is_in_kernels,
    primes,
    roots,
    transform_size,
)
from jitgraph.ops.movement import broadcast, flip, inverse, reshape, transpose
from jitgraph.ops.numeric import joined
from jitgraph.ops.rules import open_extent
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.windows import concat, pad, slice

Pair: TypeAlias = "tuple[Any, Any]"
_TABLE: Final = 1 << 12  # twiddle factors beyond so many are products of two from smaller tables


@lru_cache(maxsize=256)
def _table(rows: int, columns: int, step: int, n: int, sign: int, dtype: DType) -> tuple[Constant, Constant]:
    """exp(sign 2 pi i step j k / n) for j below ``rows`` and k below ``columns``."""
    numerators = step * np.arange(rows, dtype=np.int64)[:, None] * np.arange(columns, dtype=np.int64)[None, :]
    cos, sin = roots(numerators, n)
    return Constant(cos.astype(dtype)), Constant((sign * sin).astype(dtype))


def _constants(table: tuple[Constant, Constant]) -> Pair:
    return constant(value=table[0]), constant(value=table[1])


def _spread(z: Pair, shape: Sequence[Any], axes: Sequence[int]) -> Pair:
    return broadcast(z[0], shape=tuple(shape), axes=tuple(axes)), broadcast(z[1], shape=tuple(shape), axes=tuple(axes))


def _times(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return sub(mul(a, c), mul(b, d)), add(mul(a, d), mul(b, c))


def _transform(x: Pair, sign: int) -> Pair:
    """The transform along axis 1 of parts of shape [rows, n]."""
    rows, n = x[0].shape
    if n <= 1:
        return x
    split = factors(n)
    if split is None:
        return _by_convolution(x, sign)
    if max(primes(n)) > GREATEST_PRIME:  # products for the primes that have no radix, and a transform of the rest
        split = [p for p in primes(n) if p > GREATEST_PRIME]
    dtype, length, done = x[0].dtype, n, 1
    for radix in split:
        rest = length // radix
        x = tuple(reshape(part, shape=(rows, radix, rest, done)) for part in x)
        cos, sin = _constants(_table(radix, radix, 1, radix, sign, dtype))
        x = (
            sub(_product(x[0], cos), _product(x[1], sin)),
            add(_product(x[0], sin), _product(x[1], cos)),
        )
        if rest > 1:
            x = _twiddled(x, rest, radix, length, sign, dtype)
        x = tuple(transpose(part, permutation=(0, 1, 3, 2)) for part in x)
        length, done = rest, done * radix
    if length > 1:
        return _rest_transformed(x, length, done, sign)
    return reshape(x[0], shape=(rows, n)), reshape(x[1], shape=(rows, n))


def _rest_transformed(x: Pair, length: int, done: int, sign: int) -> Pair:
    """The transforms of ``length`` elements beside each other, ``done`` of them, that follow those of radices."""
    rows = x[0].shape[0]
    columns = [reshape(part, shape=(rows, length, done)) for part in x]
    if length > LANE:
        columns = [transpose(part, permutation=(0, 2, 1)) for part in columns]
    shape = (rows, done, length, 1) if length > LANE else (rows, length, done)
    packed = _packed(*(reshape(part, shape=shape) for part in columns))
    result = _parts_of(dft(packed, inverse=sign > 0, scale=1.0))
    if length > LANE:
        result = tuple(transpose(reshape(p, shape=(rows, done, length)), permutation=(0, 2, 1)) for p in result)
    return reshape(result[0], shape=(rows, length * done)), reshape(result[1], shape=(rows, length * done))


def _packed(real: Any, imag: Any) -> Any:
    """The parts along a last axis."""
    return concat(*(reshape(part, shape=(*part.shape, 1)) for part in (real, imag)), axis=len(real.shape))


def _parts_of(x: Any) -> Pair:
    """The parts that stand along the last axis."""
    shape = x.shape[:-1]
    rank = len(x.shape)

    def part(number: int) -> Any:
        starts, stops = (0,) * (rank - 1), shape
        cut = slice(x, starts=(*starts, number), stops=(*stops, number + 1), strides=(1,) * rank)
        return reshape(cut, shape=shape)

    return part(0), part(1)


def _product(x: Any, matrix: Any) -> Any:
    """[rows, rest, done, radix] of [rows, radix, rest, done] and a matrix."""
    return dot(x, matrix, batch=((), ()), contract=((1,), (0,)))


def _twiddled(x: Pair, rest: int, radix: int, length: int, sign: int, dtype: DType) -> Pair:
    """``x`` [rows, rest, done, radix] times exp(sign 2 pi i j k / length) for j along axis 1 and k along the last."""
    shape = x[0].shape
    if rest * radix <= _TABLE:
        return _times(x, _spread(_constants(_table(rest, radix, 1, length, sign, dtype)), shape, (1, 3)))
    fine = max(d for d in range(1, int(rest**0.5) + 1) if rest % d == 0)
    coarse = rest // fine
    split = (shape[0], coarse, fine, shape[2], radix)
    high = _spread(_constants(_table(coarse, radix, fine, length, sign, dtype)), split, (1, 4))
    low = _spread(_constants(_table(fine, radix, 1, length, sign, dtype)), split, (2, 4))
    reshaped = (reshape(x[0], shape=split), reshape(x[1], shape=split))
    twiddled = _times(reshaped, _times(high, low))
    return reshape(twiddled[0], shape=shape), reshape(twiddled[1], shape=shape)


@lru_cache(maxsize=64)
def _chirp(n: int, size: int, sign: int, dtype: DType) -> tuple[Constant, ...]:
    """exp(sign pi i k^2 / n), and the transform of its conjugate, wrapped around ``size`` elements."""
    k = np.arange(n, dtype=np.int64)
    cos, sin = roots(k * k % (2 * n), 2 * n)
    chirp = np.asarray(cos + 1j * sign * sin, np.complex128)
    wrapped = np.zeros(size, np.complex128)
    wrapped[:n] = chirp.conj()
    wrapped[size - n + 1 :] = chirp.conj()[1:][::-1]
    spectrum = np.fft.fft(wrapped) / size
    return tuple(Constant(part.astype(dtype)) for part in (chirp.real, chirp.imag, spectrum.real, spectrum.imag))


def _by_convolution(x: Pair, sign: int) -> Pair:
    """j k is (j^2 + k^2 - (k - j)^2) / 2, so the transform is a convolution between products with a chirp."""
    rows, n = x[0].shape
    size = transform_size(2 * n - 1)
    a, b, c, d = (constant(value=each) for each in _chirp(n, size, sign, x[0].dtype))
    chirp = _spread((a, b), (rows, n), (1,))
    turned = _times(x, chirp)
    zero = full(shape=(), value=0.0, dtype=x[0].dtype)
    longer = tuple(pad(part, zero, low=(0, 0), high=(0, size - n), interior=(0, 0)) for part in turned)
    product = _times(_rows_transformed(longer, -1), _spread((c, d), (rows, size), (1,)))
    back = _rows_transformed(product, 1)
    return _times((_cut(back[0], 0, n), _cut(back[1], 0, n)), chirp)


def _rows_transformed(x: Pair, sign: int) -> Pair:
    """``dft`` of parts of shape [rows, n]."""
    rows, n = x[0].shape
    packed = _packed(*(reshape(part, shape=(rows, n, 1)) for part in x))
    real, imag = _parts_of(dft(packed, inverse=sign > 0, scale=1.0))
    return reshape(real, shape=(rows, n)), reshape(imag, shape=(rows, n))


def _cut(x: Any, start: int, stop: int) -> Any:
    return slice(x, starts=(0, start), stops=(x.shape[0], stop), strides=(1, 1))


def _scaled(x: Any, scale: float) -> Any:
    return x if scale == 1 else mul(x, full_like(scale, x))


def _require_size(shape: Sequence[Any], axis: int) -> int:
    size = shape[axis]
    if not isinstance(size, int) or size < 1:
        raise ShapeError(f"a Fourier transform along axis {axis} of size {size}, which is no known positive number")
    return size


def _last(rank: int, axis: int) -> tuple[int, ...]:
    """The permutation that brings an axis to be the last."""
    return (*(i for i in range(rank) if i != axis), axis)


def _with_last(x: Any, axis: int) -> Any:
    return transpose(x, permutation=_last(len(x.shape), axis))


def _with_axis(x: Any, axis: int) -> Any:
    """Undoes ``_with_last``."""
    return transpose(x, permutation=inverse(_last(len(x.shape), axis)))


def _fft(z: Any, *, axis: int, inverse: bool, scale: float) -> Any:
    n = _require_size(z.shape, axis)
    is_last = axis == len(z.shape) - 1
    if not is_last and n > LANE:
        return _with_axis(_fft(_with_last(z, axis), axis=len(z.shape) - 1, inverse=inverse, scale=scale), axis)
    outer, inner = z.shape[:axis], _product_of(z.shape[axis + 1 :])
    pairs = reshape(as_pairs(z), shape=(*outer, n, inner, 2))
    transformed = dft(pairs, inverse=inverse, scale=scale)
    return of_pairs(reshape(transformed, shape=(*z.shape, 2)))


def _product_of(extents: Sequence[Any]) -> Any:
    product: Any = 1
    for extent in extents:
        product = product * extent
    return product


def _dft(x: Any, *, inverse: bool, scale: float) -> Any:
    n = _require_size(x.shape, len(x.shape) - 3)
    *outer, _, inner, _ = x.shape
    rows, sign = _product_of(outer), 1 if inverse else -1
    parts = [reshape(part, shape=(rows, n, inner)) for part in _parts_of(x)]
    alone = isinstance(inner, int) and inner == 1
    if not alone:
        parts = [transpose(part, permutation=(0, 2, 1)) for part in parts]
    flat = (reshape(parts[0], shape=(rows * inner, n)), reshape(parts[1], shape=(rows * inner, n)))
    result = [_scaled(part, scale) for part in _transform(flat, sign)]
    if not alone:
        result = [transpose(reshape(part, shape=(rows, inner, n)), permutation=(0, 2, 1)) for part in result]
    return _packed(*(reshape(part, shape=(*outer, n, inner)) for part in result))


def _rfft(x: Any, *, axis: int, scale: float) -> Any:
    _require_size(x.shape, axis)
    return of_pairs(_pairs_at(dft_of_real(_with_last(x, axis), scale=scale), axis))


def _pairs_at(x: Any, axis: int) -> Any:
    """``x`` [..., n, 2] with the axis of n as ``axis``."""
    rank = len(x.shape) - 1
    return transpose(x, permutation=(*inverse(_last(rank, axis)), rank))


def _dft_of_real(x: Any, *, scale: float) -> Any:
    n = _require_size(x.shape, len(x.shape) - 1)
    *outer, _ = x.shape
    rows = _product_of(outer)
    real, imag = _of_real(reshape(x, shape=(rows, n)))
    half = n // 2 + 1
    return _packed(*(reshape(_scaled(part, scale), shape=(*outer, half)) for part in (real, imag)))


def _mirrored(x: Any) -> Any:
    """Element (-k) mod n for k = 0 .. n - 1."""
    size = x.shape[1]
    first = _cut(x, 0, 1)
    return concat(first, flip(_cut(x, 1, size), axes=(1,)), axis=1) if size > 1 else first


def _of_real(x: Any) -> Pair:
    """Elements 0 .. n // 2 of the transform of real rows of n elements."""
    rows, n = x.shape
    half = n // 2
    if n % 2:
        zero = full_like(0.0, x)
        real, imag = _rows_transformed((x, zero), -1)
        return _cut(real, 0, half + 1), _cut(imag, 0, half + 1)
    spectrum = dft(reshape(x, shape=(rows, half, 1, 2)), inverse=False, scale=1.0)
    a, b = (reshape(part, shape=(rows, half)) for part in _parts_of(spectrum))
    c, d = _mirrored(a), _mirrored(b)
    halved = full_like(0.5, a)
    even = mul(halved, add(a, c)), mul(halved, sub(b, d))
    odd = mul(halved, add(b, d)), mul(halved, sub(c, a))
    turned = _turned(odd, n, -1)
    last = sub(_cut(a, 0, 1), _cut(b, 0, 1))  # of E - O at the first element, which are both real
    real = concat(add(even[0], turned[0]), last, axis=1)
    return real, concat(add(even[1], turned[1]), full_like(0.0, last), axis=1)


def _turned(z: Pair, n: int, sign: int) -> Pair:
    """Element k times exp(sign 2 pi i k / n); of many, the factors are products of two from smaller tables."""
    rows, count = z[0].shape
    dtype = z[0].dtype
    fine = max(d for d in range(1, int(count**0.5) + 1) if count % d == 0)
    if count <= _TABLE or fine == 1:
        return _times(z, _spread(_constants(_line(count, 1, n, sign, dtype)), (rows, count), (1,)))
    split = (rows, count // fine, fine)
    high = _spread(_constants(_line(count // fine, fine, n, sign, dtype)), split, (1,))
    low = _spread(_constants(_line(fine, 1, n, sign, dtype)), split, (2,))
    product = _times((reshape(z[0], shape=split), reshape(z[1], shape=split)), _times(high, low))
    return reshape(product[0], shape=(rows, count)), reshape(product[1], shape=(rows, count))


@lru_cache(maxsize=64)
def _line(count: int, step: int, n: int, sign: int, dtype: DType) -> tuple[Constant, Constant]:
    """exp(sign 2 pi i step k / n) for k below ``count``."""
    cos, sin = roots(step * np.arange(count, dtype=np.int64), n)
    return Constant(cos.astype(dtype)), Constant((sign * sin).astype(dtype))


def _irfft(z: Any, *, axis: int, n: int, scale: float) -> Any:
    _require_size(z.shape, axis)
    pairs = as_pairs(z)
    rank = len(z.shape)
    return _with_axis(dft_to_real(transpose(pairs, permutation=(*_last(rank, axis), rank)), n=n, scale=scale), axis)


def _dft_to_real(x: Any, *, n: int, scale: float) -> Any:
    half = _require_size(x.shape, len(x.shape) - 2)
    *outer, _, _ = x.shape
    rows = _product_of(outer)
    real, imag = (reshape(part, shape=(rows, half)) for part in _parts_of(x))
    return reshape(_scaled(_to_real(real, imag, n), scale), shape=(*outer, n))


def _to_real(a: Any, b: Any, n: int) -> Any:
    """The real rows of n elements of which elements 0 .. n // 2 of the transform are given; not divided by n."""
    rows, half = a.shape[0], n // 2
    zero = full(shape=(rows, 1), value=0.0, dtype=a.dtype)
    if n == 1:
        return _cut(a, 0, 1)
    if n % 2:
        b = concat(zero, _cut(b, 1, half + 1), axis=1)
        real = concat(a, flip(_cut(a, 1, half + 1), axes=(1,)), axis=1)
        imag = concat(b, neg(flip(_cut(b, 1, half + 1), axes=(1,))), axis=1)
        return _rows_transformed((real, imag), 1)[0]
    middle = [_cut(b, 1, half)] if half > 1 else []
    b = concat(zero, *middle, zero, axis=1)  # the ends are real
    c, d = flip(_cut(a, 1, half + 1), axes=(1,)), neg(flip(_cut(b, 1, half + 1), axes=(1,)))
    a, b = _cut(a, 0, half), _cut(b, 0, half)
    even, odd = (add(a, c), add(b, d)), _turned((sub(a, c), sub(b, d)), n, 1)
    pairs = _packed(sub(even[0], odd[1]), add(even[1], odd[0]))
    transformed = dft(reshape(pairs, shape=(rows, half, 1, 2)), inverse=True, scale=1.0)
    return reshape(transformed, shape=(rows, n))


# ----------------------------------------------------------------------
# The ops, and their gradients, which are transforms: of the inverse direction, of the other form.


def _weighted(z: Any, axis: int, n: int, middle: float) -> Any:
    """``z`` with the elements of a real spectrum that stand for two times ``middle``: all but the ends."""
    half = n // 2 + 1
    weights = np.full(half, middle)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    pairs = as_pairs(z)
    table = constant(value=Constant(weights.astype(pairs.dtype)))
    return of_pairs(mul(pairs, broadcast(table, shape=pairs.shape, axes=(axis,))))


def _fft_vjp(ct: Any, out: Any, z: Any, *, axis: int, inverse: bool, scale: float) -> tuple[Any, ...]:
    return (fft(ct, axis=axis, inverse=not inverse, scale=scale),)


def _rfft_vjp(ct: Any, out: Any, x: Any, *, axis: int, scale: float) -> tuple[Any, ...]:
    n = x.shape[axis]
    return (irfft(_weighted(ct, axis, n, 0.5), axis=axis, n=n, scale=scale),)


def _irfft_vjp(ct: Any, out: Any, z: Any, *, axis: int, n: int, scale: float) -> tuple[Any, ...]:
    return (_weighted(rfft(ct, axis=axis, scale=scale), axis, n, 2.0),)


def _known(type: TensorType, axis: int) -> int:
    extent = type.shape[axis]
    return extent if isinstance(extent, int) else 0


def _open_along(shape: tuple[int, ...], *, axis: int, **attrs: Any) -> tuple[OpenShape, ...]:
    """Every extent may be any but that of the axis."""
    return (tuple(n if i == axis else open_extent(n, f"n{i}") for i, n in enumerate(shape)),)


def _samples(name: str, sizes: Sequence[tuple[int, ...]], attrs: Any, *, real: bool = False) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in (float32, float64):
            return ()
        rng = generator(name, dtype)
        cases = []
        for shape in sizes:
            x, y = values(rng, dtype, shape), values(rng, dtype, shape)
            cases.append(Sample((x if real else joined(x, y),), attrs(shape)))
        return cases

    return samples


def _pair_samples(name: str, shapes: Sequence[tuple[int, ...]], attrs: Any) -> Any:
    """Samples of ops on the parts of numbers, of these shapes."""

    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in (float32, float64):
            return ()
        rng = generator(name, dtype)
        return [Sample((values(rng, dtype, shape),), attrs(shape)) for shape in shapes]

    return samples


dft: Op = composite(
    "dft",
    _dft,
    vjp=lambda ct, out, x, *, inverse, scale: (dft(ct, inverse=not inverse, scale=scale),),
    batch="leading",
    lowering="dft",
    evaluate=evaluated_dft,
    is_whole=lambda x, **attrs: is_in_kernels(_known(x, -3)),
    samples=_pair_samples(
        "dft",
        [(1, 20, 1, 2), (3, 8, 1, 2), (2, 24, 3, 2), (2, 252, 1, 2), (1, 17, 1, 2)],
        lambda s: {"inverse": s[0] > 1, "scale": 0.5},
    ),
    doc="Transforms of [..., n, m, 2], whose last axis has the parts, along n, times ``scale``.",
)
dft_of_real: Op = composite(
    "dft_of_real",
    _dft_of_real,
    batch="leading",
    lowering="dft_of_real",
    evaluate=evaluated_dft_of_real,
    is_whole=lambda x, **attrs: has_real_kernel(_known(x, -1)),
    samples=_pair_samples("dft_of_real", [(12,), (2, 140)], lambda s: {"scale": 0.5}),
    doc="Elements 0 .. n // 2 of the transforms of real [..., n], times ``scale``; parts along a last axis.",
)
dft_to_real: Op = composite(
    "dft_to_real",
    _dft_to_real,
    batch="leading",
    lowering="dft_to_real",
    evaluate=evaluated_dft_to_real,
    is_whole=lambda x, *, n, **attrs: has_real_kernel(n),
    samples=_pair_samples(
        "dft_to_real", [(7, 2), (2, 71, 2)], lambda s: {"n": 12 if len(s) < 3 else 140, "scale": 0.5}
    ),
    doc="The inverse of dft_of_real for n real numbers, not divided by n, times ``scale``.",
)
fft: Op = composite(
    "fft",
    _fft,
    vjp=_fft_vjp,
    batch="shifted",
    open_shapes=_open_along,
    samples=_samples("fft", [(12,), (2, 37)], lambda s: {"axis": len(s) - 1, "inverse": len(s) > 1, "scale": 1.0}),
    doc="sum of z[j] exp(-2 pi i j k / n) along an axis, or with + for the inverse, times ``scale``.",
)
rfft: Op = composite(
    "rfft",
    _rfft,
    vjp=_rfft_vjp,
    batch="shifted",
    open_shapes=_open_along,
    samples=_samples("rfft", [(12,), (2, 5)], lambda s: {"axis": len(s) - 1, "scale": 1.0}, real=True),
    doc="Elements 0 .. n // 2 of the transform of real numbers, times ``scale``.",
)
irfft: Op = composite(
    "irfft",
    _irfft,
    vjp=_irfft_vjp,
    batch="shifted",
    open_shapes=_open_along,
    samples=_samples(
        "irfft", [(7,), (2, 3)], lambda s: {"axis": len(s) - 1, "n": 12 if len(s) < 2 else 5, "scale": 1.0}
    ),
    doc="The inverse of rfft for n real numbers, not divided by n, times ``scale``.",
)
