"""Fourier transforms in NumPy as kernels compute them, bit for bit (``codegen/lower/fourier.py``).

All transforms take a step together. Element j of each is row j of an array, whose columns are the transforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph.ops.butterflies import Number, butterfly, times
from jitgraph.ops.fourier_factors import ROW, halves, neighbours, radices, roots
from jitgraph.ops.numeric import Array
from jitgraph.ops.scalar_numpy import NumpyScalars


def evaluated_dft(x: Array, *, inverse: bool, scale: float) -> Array:
    """The transforms of x [..., n, m, 2] along n."""
    sign = 1 if inverse else -1
    n = x.shape[-3]
    first = np.moveaxis(x, (-3, -1), (0, 1))  # [n, 2, ...]
    with np.errstate(all="ignore"):
        real, imag = _transformed(_columns(first[:, 0], first[:, 1]), n, sign)
        result = np.stack([_scaled(part, scale) for part in (real, imag)], axis=1)
    return np.ascontiguousarray(np.moveaxis(result.reshape(first.shape), (0, 1), (-3, -1)))


def evaluated_dft_of_real(x: Array, *, scale: float) -> Array:
    """Elements 0 .. n // 2 of the transforms of real x [..., n], which are transforms of pairs of neighbours."""
    n = x.shape[-1] // 2
    s: Any = NumpyScalars(x.dtype)
    first = np.moveaxis(x, -1, 0)
    with np.errstate(all="ignore"):
        spectrum = _transformed(_columns(first[::2], first[1::2]), n, -1)
        a, b = (np.concatenate([part, part[:1]]) for part in spectrum)
        c, d = a[::-1], b[::-1]
        half = s.const(0.5)
        even = s.mul(half, s.add(a, c)), s.mul(half, s.sub(b, d))
        odd = s.mul(half, s.add(b, d)), s.mul(half, s.sub(c, a))
        turns = _factors(np.arange(n + 1), 2 * n, -1, x.dtype)
        turns[1][n] = -0.0
        real, imag = times(s, odd, turns)
        result = np.stack([_scaled(s.add(even[0], real), scale), _scaled(s.add(even[1], imag), scale)], axis=-1)
    return np.ascontiguousarray(np.moveaxis(result.reshape(n + 1, *first.shape[1:], 2), 0, -2))


def evaluated_dft_to_real(x: Array, *, n: int, scale: float) -> Array:
    """The n real numbers of which x [..., n // 2 + 1, 2] is the spectrum, times n."""
    half = n // 2
    s: Any = NumpyScalars(x.dtype)
    first = np.moveaxis(x, (-2, -1), (0, 1))
    with np.errstate(all="ignore"):
        a, b = _columns(first[:, 0], first[:, 1])
        b = b.copy()
        b[[0, half]] = 0  # the ends are real
        c, d = a[::-1], b[::-1]
        even = s.add(a, c)[:half], s.sub(b, d)[:half]
        difference = s.sub(a, c)[:half], s.add(b, d)[:half]
        odd = times(s, difference, _factors(np.arange(half), n, 1, x.dtype))
        real, imag = _transformed((s.sub(even[0], odd[1]), s.add(even[1], odd[0])), half, 1)
        pairs = np.stack([_scaled(real, scale), _scaled(imag, scale)], axis=1)
    return np.ascontiguousarray(np.moveaxis(pairs.reshape(n, *first.shape[2:]), 0, -1))


def _columns(real: Array, imag: Array) -> Number:
    return real.reshape(len(real), -1), imag.reshape(len(imag), -1)


def _scaled(part: Array, scale: float) -> Array:
    return part if scale == 1 else part * part.dtype.type(scale)


def _factors(numerators: Array, n: int, sign: int, dtype: Any) -> Number:
    """exp(sign 2 pi i k / n) for ``numerators`` k, along a first axis."""
    cos, sin = roots(numerators, n)
    return cos.astype(dtype)[:, None], (sign * sin).astype(dtype)[:, None]


def _transformed(x: Number, n: int, sign: int) -> Number:
    split = halves(n) if n > ROW else None
    if split is None:
        return _by_passes(x, radices(n) or (), sign)
    a, b = split
    dtype, count = x[0].dtype, x[0].shape[1]
    s: Any = NumpyScalars(dtype)
    columns = _by_passes((x[0].reshape(a, b * count), x[1].reshape(a, b * count)), radices(a) or (), sign)
    beside = neighbours(b)
    k, column = np.arange(a)[:, None], np.arange(b)
    fine = _factors((k * (column % beside)).reshape(-1), n, sign, dtype)
    coarse = _factors((k * (column // beside * beside)).reshape(-1), n, sign, dtype)
    turned = times(s, (columns[0].reshape(n, count), columns[1].reshape(n, count)), times(s, fine, coarse))
    rows = tuple(part.reshape(a, b, count).transpose(1, 0, 2).reshape(b, a * count) for part in turned)
    real, imag = _by_passes((rows[0], rows[1]), radices(b) or (), sign)
    return real.reshape(n, count), imag.reshape(n, count)


def _by_passes(x: Number, split: Sequence[int], sign: int) -> Number:
    """Butterflies of the first radix, a factor for each result but the first, and transforms of the rest."""
    n, count = x[0].shape
    s: Any = NumpyScalars(x[0].dtype)
    radix, *rest = split or (1,)
    m = n // radix
    results = butterfly(s, [(x[0][j * m : (j + 1) * m], x[1][j * m : (j + 1) * m]) for j in range(radix)], sign)
    if rest:
        place = np.arange(m)
        turned = [times(s, y, _factors(place * k, n, sign, x[0].dtype)) for k, y in enumerate(results[1:], 1)]
        parts = zip(results[0], *turned, strict=True)
        columns = [np.stack(part, axis=1).reshape(m, radix * count) for part in parts]
        real, imag = _by_passes((columns[0], columns[1]), rest, sign)
    else:
        real, imag = (np.stack(part) for part in zip(*results, strict=True))
    return real.reshape(n, count), imag.reshape(n, count)
