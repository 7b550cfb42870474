"""Discrete Fourier transforms along one axis, as composites: products with small Fourier matrices, and twiddle factors.

A transform of n = r m elements is one of r elements for each of m places, a twiddle factor for each, and one of m
elements for each of the r results (Cooley and Tukey, Math. Comp. 19, 1965), in Stockham's order, which needs no
permutation at the end. Those of r elements, for r up to 32, are products with r by r matrices, which the code for
products does at its full speed. A size with a larger prime factor is a convolution of a size that is a power of 2
(Bluestein, IEEE Trans. Audio Electroacoust. 18, 1970). A real transform of an even size is a complex one of half of it.

Factors are rounded once from twice the precision or more: angles are reduced exactly, as integers, before cos and sin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph.dtypes import DType, float32, float64
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Constant
from jitgraph.ops.arithmetic import add, mul, neg, sub
from jitgraph.ops.complex_parts import complex_, parts
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.creation import constant, full, full_like
from jitgraph.ops.movement import broadcast, flip, inverse, reshape, transpose
from jitgraph.ops.numeric import Array, joined
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.windows import concat, pad, slice

Pair: TypeAlias = "tuple[Any, Any]"
_MOST: Final = 32  # the greatest Fourier matrix
_TABLE: Final = 1 << 12  # twiddle factors beyond so many are products of two from smaller tables


def _roots(numerators: Array, n: int) -> tuple[Array, Array]:
    """cos and sin of 2 pi k / n for integers k, from an angle of at most pi / 4, in the widest floats there are."""
    k = numerators % n
    octant = (8 * k) // n
    rest = np.where(octant % 2 == 0, 8 * k - octant * n, (octant + 1) * n - 8 * k)  # of an eighth of the circle, by n
    angle = rest.astype(np.longdouble) / np.longdouble(n) * (np.longdouble("0.785398163397448309615660845819875721"))
    cos, sin = np.cos(angle), np.sin(angle)
    x = np.choose(octant, [cos, sin, -sin, -cos, -cos, -sin, sin, cos])
    y = np.choose(octant, [sin, cos, cos, sin, -sin, -cos, -cos, -sin])
    return x, y


@lru_cache(maxsize=256)
def _table(rows: int, columns: int, step: int, n: int, sign: int, dtype: DType) -> tuple[Constant, Constant]:
    """exp(sign 2 pi i step j k / n) for j below ``rows`` and k below ``columns``."""
    numerators = step * np.arange(rows, dtype=np.int64)[:, None] * np.arange(columns, dtype=np.int64)[None, :]
    cos, sin = _roots(numerators, n)
    return Constant(cos.astype(dtype)), Constant((sign * sin).astype(dtype))


def _constants(table: tuple[Constant, Constant]) -> Pair:
    return constant(value=table[0]), constant(value=table[1])


def _spread(z: Pair, shape: Sequence[Any], axes: Sequence[int]) -> Pair:
    return broadcast(z[0], shape=tuple(shape), axes=tuple(axes)), broadcast(z[1], shape=tuple(shape), axes=tuple(axes))


def _times(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return sub(mul(a, c), mul(b, d)), add(mul(a, d), mul(b, c))


def factors(n: int) -> list[int] | None:
    """Factors of n of at most 32, as few and as even as can be; None where a prime factor is greater."""
    primes, rest, p = [], n, 2
    while rest > 1:
        while rest % p == 0:
            primes.append(p)
            rest //= p
        p += 1
        if p > _MOST and rest > 1:
            return None
    merged: list[int] = []
    for prime in sorted(primes, reverse=True):
        fitting = [i for i, factor in enumerate(merged) if factor * prime <= _MOST]
        if fitting:
            merged[min(fitting, key=lambda i: merged[i])] *= prime
        else:
            merged.append(prime)
    return merged


def _transform(x: Pair, sign: int) -> Pair:
    """The transform along axis 1 of parts of shape [rows, n]."""
    rows, n = x[0].shape
    if n <= 1:
        return x
    split = factors(n)
    if split is None:
        return _by_convolution(x, sign)
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
    return reshape(x[0], shape=(rows, n)), reshape(x[1], shape=(rows, n))


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
    cos, sin = _roots(k * k % (2 * n), 2 * n)
    chirp = np.asarray(cos + 1j * sign * sin, np.complex128)
    wrapped = np.zeros(size, np.complex128)
    wrapped[:n] = chirp.conj()
    wrapped[size - n + 1 :] = chirp.conj()[1:][::-1]
    spectrum = np.fft.fft(wrapped) / size
    return tuple(Constant(part.astype(dtype)) for part in (chirp.real, chirp.imag, spectrum.real, spectrum.imag))


def _by_convolution(x: Pair, sign: int) -> Pair:
    """j k is (j^2 + k^2 - (k - j)^2) / 2, so the transform is a convolution between products with a chirp."""
    rows, n = x[0].shape
    size = 1 << (2 * n - 2).bit_length()
    a, b, c, d = (constant(value=each) for each in _chirp(n, size, sign, x[0].dtype))
    chirp = _spread((a, b), (rows, n), (1,))
    turned = _times(x, chirp)
    zero = full(shape=(), value=0.0, dtype=x[0].dtype)
    longer = tuple(pad(part, zero, low=(0, 0), high=(0, size - n), interior=(0, 0)) for part in turned)
    product = _times(_transform(longer, -1), _spread((c, d), (rows, size), (1,)))
    back = _transform(product, 1)
    return _times((_cut(back[0], 0, n), _cut(back[1], 0, n)), chirp)


def _cut(x: Any, start: int, stop: int) -> Any:
    return slice(x, starts=(0, start), stops=(x.shape[0], stop), strides=(1, 1))


def _scaled(x: Any, scale: float) -> Any:
    return x if scale == 1 else mul(x, full_like(scale, x))


def _along(x: Sequence[Any], axis: int, transform: Callable[..., Pair | Any]) -> Any:
    """``transform`` of rows, where ``axis`` is brought to be the last; what it gives brought back."""
    shape, rank = x[0].shape, len(x[0].shape)
    size = shape[axis]
    if not isinstance(size, int) or size < 1:
        raise ShapeError(f"a Fourier transform along axis {axis} of size {size}, which is no known positive number")
    order = (*(i for i in range(rank) if i != axis), axis)
    others = tuple(shape[i] for i in order[:-1])
    rows: Any = 1
    for extent in others:
        rows = rows * extent
    out = transform(*(reshape(transpose(part, permutation=order), shape=(rows, size)) for part in x))
    back = [reshape(part, shape=(*others, part.shape[1])) for part in (out if isinstance(out, tuple) else (out,))]
    moved = [transpose(part, permutation=inverse(order)) for part in back]
    return complex_(*moved) if len(moved) == 2 else moved[0]


def _fft(z: Any, *, axis: int, inverse: bool, scale: float) -> Any:
    def run(real: Any, imag: Any) -> Pair:
        transformed = _transform((real, imag), 1 if inverse else -1)
        return _scaled(transformed[0], scale), _scaled(transformed[1], scale)

    return _along(parts(z), axis, run)


def _rfft(x: Any, *, axis: int, scale: float) -> Any:
    def run(row: Any) -> Pair:
        real, imag = _of_real(row)
        return _scaled(real, scale), _scaled(imag, scale)

    return _along([x], axis, run)


def _mirrored(x: Any) -> Any:
    """Element (-k) mod n for k = 0 .. n."""
    first = _cut(x, 0, 1)
    return concat(first, flip(x, axes=(1,)), axis=1)


def _of_real(x: Any) -> Pair:
    """Elements 0 .. n // 2 of the transform of real rows of n elements."""
    rows, n = x.shape
    half = n // 2
    if n % 2:
        zero = full_like(0.0, x)
        real, imag = _transform((x, zero), -1)
        return _cut(real, 0, half + 1), _cut(imag, 0, half + 1)
    pairs = reshape(x, shape=(rows, half, 2))
    real, imag = _transform((_lane(pairs, 0), _lane(pairs, 1)), -1)
    a, b = concat(real, _cut(real, 0, 1), axis=1), concat(imag, _cut(imag, 0, 1), axis=1)
    c, d = _mirrored(real), _mirrored(imag)
    halved = full_like(0.5, a)
    even = mul(halved, add(a, c)), mul(halved, sub(b, d))
    odd = mul(halved, add(b, d)), mul(halved, sub(c, a))
    turned = _turned(odd, n, -1)
    return add(even[0], turned[0]), add(even[1], turned[1])


def _turned(z: Pair, n: int, sign: int) -> Pair:
    """Element k times exp(sign 2 pi i k / n)."""
    cos, sin = _roots(np.arange(z[0].shape[1], dtype=np.int64), n)
    dtype = z[0].dtype
    turn = constant(value=Constant(cos.astype(dtype))), constant(value=Constant((sign * sin).astype(dtype)))
    return _times(z, _spread(turn, z[0].shape, (1,)))


def _lane(pairs: Any, number: int) -> Any:
    rows, half, _ = pairs.shape
    cut = slice(pairs, starts=(0, 0, number), stops=(rows, half, number + 1), strides=(1, 1, 1))
    return reshape(cut, shape=(rows, half))


def _irfft(z: Any, *, axis: int, n: int, scale: float) -> Any:
    def run(real: Any, imag: Any) -> Any:
        return _scaled(_to_real(real, imag, n), scale)

    return _along(parts(z), axis, run)


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
        return _transform((real, imag), 1)[0]
    middle = [_cut(b, 1, half)] if half > 1 else []
    b = concat(zero, *middle, zero, axis=1)  # the ends are real
    c, d = flip(_cut(a, 1, half + 1), axes=(1,)), neg(flip(_cut(b, 1, half + 1), axes=(1,)))
    a, b = _cut(a, 0, half), _cut(b, 0, half)
    even, odd = (add(a, c), add(b, d)), _turned((sub(a, c), sub(b, d)), n, 1)
    lanes = _transform((sub(even[0], odd[1]), add(even[1], odd[0])), 1)
    return reshape(concat(*(reshape(x, shape=(rows, half, 1)) for x in lanes), axis=2), shape=(rows, n))


def _samples(name: str, sizes: Sequence[tuple[int, ...]], attrs: Any, *, real: bool = False) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in (float32, float64):
            return ()
        rng = generator(name, dtype)
        cases = []
        for shape in sizes:
            x, y = values(rng, dtype, shape), values(rng, dtype, shape)
            cases.append(Sample((x if real else joined(x, y),), attrs(shape), differentiable=False))
        return cases

    return samples


fft: Op = composite(
    "fft",
    _fft,
    samples=_samples("fft", [(12,), (2, 37)], lambda s: {"axis": len(s) - 1, "inverse": len(s) > 1, "scale": 1.0}),
    doc="sum of z[j] exp(-2 pi i j k / n) along an axis, or with + for the inverse, times ``scale``.",
)
rfft: Op = composite(
    "rfft",
    _rfft,
    samples=_samples("rfft", [(12,), (2, 5)], lambda s: {"axis": len(s) - 1, "scale": 1.0}, real=True),
    doc="Elements 0 .. n // 2 of the transform of real numbers, times ``scale``.",
)
irfft: Op = composite(
    "irfft",
    _irfft,
    samples=_samples(
        "irfft", [(7,), (2, 3)], lambda s: {"axis": len(s) - 1, "n": 12 if len(s) < 2 else 5, "scale": 1.0}
    ),
    doc="The inverse of rfft for n real numbers, not divided by n, times ``scale``.",
)
