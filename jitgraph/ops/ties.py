"""Gradients of eigenvectors and singular vectors whose values are equal: what is not determined is NaN.

Vectors of equal values may be turned into each other, so that a function of them has a gradient only if it does not
depend on their choice. Cotangents, which are derivatives at the one choice that LAPACK took, do not tell whether that
is so: at the identity both sum(V**2 * w) and sum(V @ V.T * w) have cotangents that no turn changes to first order.
Therefore every function that uses such vectors has the gradient NaN. Those whose cotangents by both vectors of a pair
are exactly 0, as those of other vectors are, get nothing from that pair.

Computed values count as equal within ``ROUNDING``: their difference is rounding, and so would be what is divided by it.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.ops.arithmetic import abs, add, maximum, mul, sub
from jitgraph.ops.bits import bitwise_and
from jitgraph.ops.broadcasting import broadcast, reduce_sum
from jitgraph.ops.comparison import gt, le, select
from jitgraph.ops.complex_arithmetic import complex_div
from jitgraph.ops.complex_parts import imag, real
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.matrices import as_like, columns_times, diagonal_of, over, rows_times, with_ones
from jitgraph.ops.reduction import reduce_max
from jitgraph.ops.transcendental import sqrt

ROUNDING: Final = 16.0
"""In eps of the greatest value. LAPACK's eigenvalues of what had two equal ones were up to 7.5 apart (1,000 matrices of
2 to 300 rows)."""


def magnitude(x: Any) -> Any:
    """abs(x); of complex numbers the sum of those of both parts."""
    return add(abs(real(x)), abs(imag(x))) if dtypes.is_complex(x.dtype) else abs(x)


def column_sizes(ct: Any) -> Any:
    """The sum of magnitudes of each column, for each matrix."""
    return reduce_sum(magnitude(ct), axes=(len(ct.shape) - 2,))


def negligible(x: Any, values: Any) -> Any:
    """Whether magnitudes x, of values or of pairs of them, are rounding beside the greatest of each row of values."""
    last = len(values.shape) - 1
    greatest = reduce_max(magnitude(values), axes=(last,))
    limit = mul(greatest, full_like(ROUNDING * float(np.finfo(greatest.dtype).eps), greatest))
    return le(x, broadcast(limit, shape=x.shape, axes=tuple(range(last))))


class Ties:
    """Pairs of vectors of equal values: ``pairs`` over rows and columns of a matrix, false on the diagonal."""

    def __init__(self, like: Any, values: Any) -> None:
        """``like``: a square matrix of the dtype of the vectors' cotangents; ``values`` may be complex."""
        self.gaps = with_ones(sub(columns_times(like, values), rows_times(like, values)))
        size = magnitude(self.gaps)
        self._ones, self._zeros = full_like(1.0, size), zeros_like(size)
        equal = select(negligible(size, values), self._ones, self._zeros)
        self.pairs = gt(sub(equal, diagonal_of(equal)), self._zeros)

    def over(self, x: Any, difference: Any) -> Any:
        """x / difference, and 0 for ties."""
        safe = select(self.pairs, full_like(1.0, difference), difference)
        quotient = complex_div if dtypes.is_complex(difference.dtype) else over
        return quotient(select(self.pairs, zeros_like(x), x), safe)

    def undetermined(self, *cts: Any, also: Any | None = None) -> Any:
        """Zeros of real dtype, NaN for ties where a cotangent of the vectors is not 0, to be added to what is ``over``.

        Their derivative by the cotangents of a vector in a tie is NaN, so that such vectors have no tangent. ``also``:
        which vectors are undetermined by themselves.
        """
        sizes = column_sizes(cts[0]) if len(cts) == 1 else add(*map(column_sizes, cts))
        like = self._ones
        unused = le(add(columns_times(like, sizes), rows_times(like, sizes)), self._zeros)
        nan = full_like(math.nan, like)
        lost = select(self.pairs, select(unused, self._zeros, nan), self._zeros)
        zero, one = zeros_like(sizes), full_like(1.0, sizes)
        free = reduce_max(select(self.pairs, self._ones, self._zeros), axes=(len(like.shape) - 2,))
        if also is not None:
            alone = select(also, one, zero)
            free = maximum(free, alone)
            used = bitwise_and(also, gt(sizes, zero))
            lost = add(lost, columns_times(like, select(used, full_like(math.nan, sizes), zero)))
        is_free = gt(free, zero)
        sums = [reduce_sum(part, axes=(len(part.shape) - 2,)) for ct in cts for part in _parts(ct)]
        total = sums[0]
        for other in sums[1:]:
            total = add(total, other)
        root = sqrt(select(is_free, mul(total, zero), one))  # of 0, whose slope times 0 is NaN
        return add(lost, columns_times(like, sub(root, select(is_free, zero, one))))


def _parts(x: Any) -> tuple[Any, ...]:
    return (real(x), imag(x)) if dtypes.is_complex(x.dtype) else (x,)


def with_nan(x: Any, undetermined: Any) -> Any:
    """x and what ``Ties.undetermined`` gives."""
    return add(x, as_like(undetermined, x))
