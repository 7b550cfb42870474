"""Polynomials as vectors of coefficients, the highest power first: NumPy's functions, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.linalg.decompositions import eigvals
from jitgraph.linalg.products import vander
from jitgraph.linalg.systems import inv, lstsq
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.creation import arange, eye, ones_like, zeros_like
from jitgraph.tensor.functions.elementwise import astype, sqrt, where
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.manipulation import concat, flip, pad, stack
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import float_tensor, tensor_like
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.sampled import convolve
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def _coefficients(p: TensorLike, name: str) -> Tensor:
    vector = tensor_like(p)
    if not vector.ndim:
        vector = reshape(vector, (1,))
    if vector.ndim != 1 or not isinstance(vector.value.type.shape[0], int):
        raise ShapeError(f"{name} takes vectors of coefficients of known sizes, not {vector.value.type}")
    return vector


def _count(p: Tensor) -> int:
    size = p.value.type.shape[0]
    assert isinstance(size, int)
    return size


@array_function
def polyval(p: TensorLike, x: TensorLike) -> Tensor:
    """The polynomial with coefficients ``p``, the highest power first, at each element of x; by Horner's rule."""
    coefficients, at = _coefficients(p, "polyval"), tensor_like(x)
    common = lifting.common_dtype(coefficients, at)
    at = astype(at, common)
    acc: Any = zeros_like(at)
    for i in range(_count(coefficients)):
        acc = acc * at + astype(coefficients[i], common)
    return wrap(acc.value)


def _of_one_size(a: TensorLike, b: TensorLike, name: str) -> tuple[Tensor, Tensor]:
    p, q = _coefficients(a, name), _coefficients(b, name)
    size = max(_count(p), _count(q))
    return pad(p, [(size - _count(p), 0)]), pad(q, [(size - _count(q), 0)])


@array_function
def polyadd(a: TensorLike, b: TensorLike) -> Tensor:
    """The coefficients of the sum of two polynomials, as many as the longer one has."""
    p, q = _of_one_size(a, b, "polyadd")
    return p + q


@array_function
def polysub(a: TensorLike, b: TensorLike) -> Tensor:
    """The coefficients of the difference of two polynomials, as many as the longer one has."""
    p, q = _of_one_size(a, b, "polysub")
    return p - q


@array_function
def polymul(a: TensorLike, b: TensorLike) -> Tensor:
    """The coefficients of the product of two polynomials."""
    return convolve(_coefficients(a, "polymul"), _coefficients(b, "polymul"))


@array_function
def polydiv(u: TensorLike, v: TensorLike) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of two polynomials; the remainder has one coefficient for each power below v's highest.

    The first coefficient of v divides, so that it is not 0. NumPy drops leading zeros of what remains.
    """
    p, q = float_tensor(_coefficients(u, "polydiv")), float_tensor(_coefficients(v, "polydiv"))
    n, m = _count(p), _count(q)
    if m == 0:
        raise ShapeError("polydiv by no coefficients")
    rest, quotient = p, []
    for _ in range(n - m + 1):
        factor = rest[0] / q[0]
        quotient.append(factor)
        size = _count(rest)
        rest = wrap((rest - pad(q * factor, [(0, size - m)]))[1:].value)
    if not quotient:
        return reshape(zeros_like(p[:1] / q[:1]), (1,)), p
    return stack(quotient), rest if m > 1 else zeros_like(quotient[0])[None]


@array_function
def polyder(p: TensorLike, m: int = 1) -> Tensor:
    """The coefficients of the m-th derivative of a polynomial."""
    if m < 0:
        raise JitgraphError(f"polyder: m={m} is no number of derivatives")
    coeffs = _coefficients(p, "polyder")
    for _ in range(m):
        size = _count(coeffs)
        factors = arange(size - 1, 0, -1, dtype=dtypes.int64)
        coeffs = wrap((coeffs[: max(size - 1, 0)] * astype(factors, coeffs.dtype)).value) if size else coeffs
    return coeffs


@array_function
def polyint(p: TensorLike, m: int = 1, k: TensorLike | None = None) -> Tensor:
    """The coefficients of the m-th integral of a polynomial, with ``k`` as the constants, 0 unless given."""
    if m < 0:
        raise JitgraphError(f"polyint: m={m} is no number of integrals")
    coeffs = float_tensor(_coefficients(p, "polyint"))
    constants = None if k is None else reshape(astype(tensor_like(k), coeffs.dtype), (-1,))
    if constants is not None and _count(constants) not in (1, m):
        raise ShapeError(f"polyint: {_count(constants)} constants for {m} integrals")
    for i in range(m):
        factors = arange(_count(coeffs), 0, -1, dtype=dtypes.int64)
        last = zeros_like(sum_of(coeffs)) if constants is None else constants[i if _count(constants) > 1 else 0]
        last = reshape(last, (1,))
        coeffs = concat([coeffs / astype(factors, coeffs.dtype), last])
    return coeffs


@array_function
def poly(roots_or_matrix: TensorLike) -> Tensor:
    """The coefficients, 1 for the highest power, of the polynomial that has the elements of a vector as its roots.

    Of a square matrix the characteristic polynomial. Complex eigenvalues give complex coefficients, where NumPy looks
    whether they come in pairs.
    """
    roots = float_tensor(roots_or_matrix)
    if roots.ndim == 2:
        roots = eigvals(roots)
    if roots.ndim != 1 or not isinstance(roots.value.type.shape[0], int):
        raise ShapeError(f"poly takes a vector of roots or a matrix, not {roots.value.type}")
    coefficients = ones_like(sum_of(roots))[None]
    for i in range(roots.value.type.shape[0]):
        coefficients = pad(coefficients, [(0, 1)]) - pad(coefficients * roots[i], [(1, 0)])
    return coefficients


@array_function
def roots(p: TensorLike) -> Tensor:
    """The complex roots of a polynomial: the eigenvalues of its companion matrix, in NumPy's order.

    Leading zeros are left out eagerly, and are a LinAlgError in a trace, which cannot know how many roots there are.
    """
    coefficients = float_tensor(_coefficients(p, "roots"))
    zeros_behind = 0
    if context.current().trace is None:
        nonzero = np.flatnonzero(placement.array_of(coefficients.value))
        first, stop = (int(nonzero[0]), int(nonzero[-1]) + 1) if nonzero.size else (0, 0)
        zeros_behind = _count(coefficients) - stop if nonzero.size else 0
        coefficients = wrap(coefficients[first:stop].value)
    degree = _count(coefficients) - 1
    zeros = wrap(lifting.repeated(0, dtypes.complex_of(coefficients.dtype), (zeros_behind,)))
    if degree < 1:
        return zeros
    top = -coefficients[1:] / coefficients[0]
    below = eye(degree - 1, degree, dtype=coefficients.dtype)
    eigenvalues = eigvals(concat([top[None, :], below]))
    return concat([eigenvalues, zeros]) if zeros_behind else eigenvalues


@array_function
def polyfit(
    x: TensorLike,
    y: TensorLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: TensorLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of degree ``deg`` that fits the points (x, y) by least squares of ``w`` times the distance.

    y may be a matrix with a column for each polynomial. With ``full`` it comes with the sums of squares, the rank, the
    singular values and rcond; with ``cov`` with the covariances of the coefficients, not scaled for "unscaled".
    ShapeError for x that is no vector, or too few points for ``cov``.
    """
    at, values = _floats_of(x, y)
    if at.ndim != 1 or values.ndim not in (1, 2) or at.value.type.shape[0] != values.value.type.shape[0]:
        raise ShapeError(f"polyfit: x is {at.value.type} and y is {values.value.type}")
    if deg < 0:
        raise JitgraphError(f"polyfit: the degree {deg} is below 0")
    rows = wrap(flip(vander(at, deg + 1), -1).value)
    if w is not None:
        weight = astype(tensor_like(w), at.dtype)
        if weight.value.type.shape != at.value.type.shape:
            raise ShapeError(f"polyfit: weights {weight.value.type} for {at.value.type}")
        rows = rows * weight[:, None]
        values = values * (weight[:, None] if values.ndim == 2 else weight)
    count = at.value.type.shape[0]
    cutoff = float(np.finfo(at.dtype).eps) * count if rcond is None else rcond
    scale = sqrt(sum_of(rows * rows, 0))
    scale = where(scale == 0, 1, scale)
    solved = lstsq(rows / scale, values, rcond=cutoff)
    solution = solved.solution / (scale[:, None] if values.ndim == 2 else scale)
    if full:
        return solution, solved.residuals, solved.rank, solved.singular_values, cutoff
    if cov is False:
        return solution
    base = inv(matmul((rows / scale).mT, rows / scale)) / (scale[:, None] * scale)
    factor: Any = 1
    if cov != "unscaled":
        if count <= deg + 1:
            raise ShapeError(f"polyfit: covariances of {deg + 1} coefficients of {count} points", hint='cov="unscaled"')
        factor = solved.residuals / (count - (deg + 1))
    return solution, base[..., None] * factor if values.ndim == 2 else base * factor


def _floats_of(*xs: TensorLike) -> list[Tensor]:
    """The operands in their common float dtype, of the shapes that they have."""
    common = lifting.common_dtype(*xs)
    target = common if dtypes.is_float(common) else dtypes.float32
    return [astype(tensor_like(x), target) for x in xs]
