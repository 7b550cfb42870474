"""Orthogonal polynomials by their recurrences, and the spherical Bessel function of order 0.

The recurrences are those of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", table 22.7: stable
where the polynomials are orthogonal, and everywhere else too, as terms of one sign grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import DTypeError
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.creation import ones_like, zeros_like
from jitgraph.tensor.functions.elementwise import abs, sin, where
from jitgraph.tensor.functions.manipulation import broadcast_arrays
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import in_float64
from jitgraph.tensor.functions.reductions import max as greatest
from jitgraph.tensor.lifting import TensorLike, value_of
from jitgraph.tracing.record.control_flow import while_loop

Following = Callable[[Any, Any, Any, Any], Any]
"""``(k, x, p, before)`` gives the polynomial of degree k + 1 from those of degrees k, which is ``p``, and k - 1."""

_MOST_UNROLLED: Final = 16
_NEAR_ZERO: Final = 0.5


def _chebyshev(k: Any, x: Any, p: Any, before: Any) -> Any:
    return 2 * x * p - before


def _hermite_h(k: Any, x: Any, p: Any, before: Any) -> Any:
    return 2 * x * p - 2 * k * before


def _hermite_he(k: Any, x: Any, p: Any, before: Any) -> Any:
    return x * p - k * before


def _laguerre(k: Any, x: Any, p: Any, before: Any) -> Any:
    return ((2 * k + 1 - x) * p - k * before) / (k + 1)


def _legendre(k: Any, x: Any, p: Any, before: Any) -> Any:
    return ((2 * k + 1) * x * p - k * before) / (k + 1)


def _polynomial(
    x: TensorLike, n: TensorLike, first: Callable[[Any], Any], following: Following, *, shifted: bool = False
) -> Tensor:
    """The polynomial of degree ``n`` at ``x``, or at ``2 * x - 1``; ``first`` gives that of degree 1."""

    def place(x: Tensor) -> Tensor:
        return 2 * x - 1 if shifted else x

    if isinstance(n, int | np.integer) and n <= _MOST_UNROLLED:
        return in_float64(lambda x: _of_known_degree(place(x), int(n), first, following), x)
    degree = wrap(value_of(n))
    if not dtypes.is_integer(degree.dtype):
        raise DTypeError(
            f"the degree of a polynomial is an integer, not {degree.dtype.name}", hint="n.astype(jg.int64)"
        )

    def computed(x: Tensor) -> Tensor:
        x, degrees = broadcast_arrays(place(x), degree)
        return _of_each_degree(x, degrees, first, following)

    return in_float64(computed, x)


def _of_known_degree(x: Tensor, n: int, first: Callable[[Any], Any], following: Following) -> Tensor:
    if n <= 0:
        return ones_like(x) if n == 0 else zeros_like(x)
    before: Tensor = ones_like(x)
    p: Tensor = first(x)
    for k in range(1, n):
        before, p = p, following(k, x, p, before)
    return p


def _of_each_degree(x: Tensor, n: Tensor, first: Callable[[Any], Any], following: Following) -> Tensor:
    """Each element goes on to its own degree, and stays there: beyond, others may overflow."""
    if x.size == 0:
        return zeros_like(x)
    last = greatest(n)

    def step(carry: Any) -> Any:
        k, before, p = carry
        goes_on = k < n
        after = following(k.astype(x.dtype), x, p, before)
        return k + 1, where(goes_on, p, before), where(goes_on, after, p)

    start = (ones_like(last), ones_like(x), first(x))
    _, _, p = while_loop(lambda carry: carry[0] < last, step, start)
    return where(n > 0, p, where(n == 0, 1.0, 0.0))


@array_function
def chebyshev_polynomial_t(x: TensorLike, n: TensorLike) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree ``n``, cos(n arccos(x)) for ``|x| <= 1``; 0 for n < 0.

    ``n`` is an int or an integer tensor, which broadcasts with ``x``, else DTypeError. Computed in float64.
    """
    return _polynomial(x, n, lambda x: x, _chebyshev)


@array_function
def chebyshev_polynomial_u(x: TensorLike, n: TensorLike) -> Tensor:
    """The Chebyshev polynomial of the second kind; ``n`` as of ``chebyshev_polynomial_t``."""
    return _polynomial(x, n, lambda x: 2 * x, _chebyshev)


@array_function
def chebyshev_polynomial_v(x: TensorLike, n: TensorLike) -> Tensor:
    """The Chebyshev polynomial of the third kind; ``n`` as of ``chebyshev_polynomial_t``."""
    return _polynomial(x, n, lambda x: 2 * x - 1, _chebyshev)


@array_function
def chebyshev_polynomial_w(x: TensorLike, n: TensorLike) -> Tensor:
    """The Chebyshev polynomial of the fourth kind; ``n`` as of ``chebyshev_polynomial_t``."""
    return _polynomial(x, n, lambda x: 2 * x + 1, _chebyshev)


@array_function
def shifted_chebyshev_polynomial_t(x: TensorLike, n: TensorLike) -> Tensor:
    """``chebyshev_polynomial_t(2 * x - 1, n)``, orthogonal on 0 .. 1."""
    return _polynomial(x, n, lambda x: x, _chebyshev, shifted=True)


@array_function
def shifted_chebyshev_polynomial_u(x: TensorLike, n: TensorLike) -> Tensor:
    """``chebyshev_polynomial_u(2 * x - 1, n)``, orthogonal on 0 .. 1."""
    return _polynomial(x, n, lambda x: 2 * x, _chebyshev, shifted=True)


@array_function
def shifted_chebyshev_polynomial_v(x: TensorLike, n: TensorLike) -> Tensor:
    """``chebyshev_polynomial_v(2 * x - 1, n)``, orthogonal on 0 .. 1."""
    return _polynomial(x, n, lambda x: 2 * x - 1, _chebyshev, shifted=True)


@array_function
def shifted_chebyshev_polynomial_w(x: TensorLike, n: TensorLike) -> Tensor:
    """``chebyshev_polynomial_w(2 * x - 1, n)``, orthogonal on 0 .. 1."""
    return _polynomial(x, n, lambda x: 2 * x + 1, _chebyshev, shifted=True)


@array_function
def hermite_polynomial_h(x: TensorLike, n: TensorLike) -> Tensor:
    """The Hermite polynomial of physicists, with leading term (2x)^n; ``n`` as of ``chebyshev_polynomial_t``."""
    return _polynomial(x, n, lambda x: 2 * x, _hermite_h)


@array_function
def hermite_polynomial_he(x: TensorLike, n: TensorLike) -> Tensor:
    """The Hermite polynomial of probabilists, with leading term x^n; ``n`` as of ``chebyshev_polynomial_t``."""
    return _polynomial(x, n, lambda x: x, _hermite_he)


@array_function
def laguerre_polynomial_l(x: TensorLike, n: TensorLike) -> Tensor:
    """The Laguerre polynomial, 1 at 0; ``n`` as of ``chebyshev_polynomial_t``."""
    return _polynomial(x, n, lambda x: 1 - x, _laguerre)


@array_function
def legendre_polynomial_p(x: TensorLike, n: TensorLike) -> Tensor:
    """The Legendre polynomial, 1 at 1; ``n`` as of ``chebyshev_polynomial_t``."""
    return _polynomial(x, n, lambda x: x, _legendre)


@array_function
def spherical_bessel_j0(x: TensorLike) -> Tensor:
    """The spherical Bessel function of the first kind of order 0, sin(x)/x: 1 at 0, and 0 at infinity.

    Computed in float64.
    """
    return in_float64(_spherical_bessel_j0, x)


def _spherical_bessel_j0(x: Tensor) -> Tensor:
    """Below 0.5 its series, whose derivatives do not cancel; what is left out is below 2^-57."""
    near, endless = abs(x) < _NEAR_ZERO, abs(x) == float("inf")
    square = where(near, x * x, 0.0)
    series = ones_like(x)
    for k in range(7, 0, -1):
        series = 1 - series * square / (2 * k * (2 * k + 1))
    safe = where(near | endless, 1.0, x)
    return where(near, series, where(endless, 0.0, sin(safe) / safe))
