"""cholesky, qr, eigh, svd, lstsq and matrix_exp, with gradients over Op calls; NaN where nothing determines them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import is_complex, part_of
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules, small_matrices
from jitgraph.ops.arithmetic import abs, add, bitwise_and, eq, gt, le, maximum, mul, select, sub
from jitgraph.ops.complex_functions import complex_div
from jitgraph.ops.complex_parts import imag, real
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.effects import check
from jitgraph.ops.linear_systems import cutoffs, pinv, pinv_gradient, require_cutoffs, solve
from jitgraph.ops.matrices import (
    BY_FACTORS,
    adjoint,
    as_like,
    below,
    columns_of,
    columns_times,
    diagonal_matrix,
    diagonal_of,
    halved,
    lesser,
    matrix_op,
    over,
    product,
    real_like,
    real_part,
    require_matrices,
    require_square,
    rows_of,
    rows_times,
    with_ones,
)
from jitgraph.ops.movement import broadcast, reduce_sum
from jitgraph.ops.numeric import Array
from jitgraph.ops.reduction import reduce_max
from jitgraph.ops.transcendental import sqrt
from jitgraph.ops.windows import concat
from jitgraph.runtime import imports

# ----------------------------------------------------------------------
# cholesky, qr, eigh and svd, with gradients over Op calls; NaN where equal values or free phases leave them
# undetermined.

# ----------------------------------------------------------------------
# Phases of complex eigenvectors and singular vectors are free: a loss that depends on one has no gradient.
#
# Turning a vector by a small angle leaves the decomposition one, so that the loss must stay the same: the imaginary
# part of the vector's product with its cotangent is 0. Rules ask for that where their op's attribute ``checked`` is
# true, as what users call has it; tests of rules draw cotangents at random.

_ROUNDING: Final = 1e-4  # of the sum of a cotangent's magnitudes: far above what rounding in float32 makes
_NOTHING: Final = {dtypes.float32: 1e-5, dtypes.float64: 1e-11}  # a turn that cancellation leaves of cotangents of 1


def require_no_turn(name: str, *pairs: tuple[Any, Any]) -> None:
    """A check that raises ValueError where complex vectors, which turn together, have a cotangent along their turn.

    Each pair is a matrix with the vectors as columns, and its cotangent, or None.
    """
    turns = sizes = None
    for vectors, ct in pairs:
        if ct is None or not dtypes.is_complex(vectors.dtype):
            continue
        rows = len(ct.shape) - 2
        turn = reduce_sum(imag(diagonal_of(product(adjoint(vectors), ct))), axes=(rows,))
        size = reduce_sum(add(abs(real(ct)), abs(imag(ct))), axes=(rows,))
        turns = turn if turns is None else add(turns, turn)
        sizes = size if sizes is None else add(sizes, size)
    if turns is None or sizes is None:
        return
    allowed = add(mul(full_like(_ROUNDING, sizes), sizes), full_like(_NOTHING[sizes.dtype], sizes))
    beyond = cast(gt(abs(turns), allowed), dtype=dtypes.int64)
    count = reduce_sum(beyond, axes=tuple(range(len(beyond.shape))))
    message = (
        f"{name}: a loss that depends on the phase of complex vectors, which is free, has no gradient"
        "\n  hint: take jg.abs of them, or products in which phases cancel, as v * jg.conj(v)"
    )
    check(eq(count, zeros_like(count)), kind="ValueError", message=message)


# ----------------------------------------------------------------------
# Gradients of eigenvectors and singular vectors whose values are equal: what is not determined is NaN.
#
# Vectors of equal values may be turned into each other, so that a function of them has a gradient only if it does not
# depend on their choice. Cotangents, which are derivatives at the one choice that LAPACK took, do not tell whether that
# is so: at the identity both sum(V**2 * w) and sum(V @ V.T * w) have cotangents that no turn changes to first order.
# Therefore every function that uses such vectors has the gradient NaN. Those whose cotangents by both vectors of a pair
# are exactly 0, as those of other vectors are, get nothing from that pair.
#
# Computed values count as equal within ``ROUNDING``: their difference is rounding, and so would be what is divided by
# it.

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


# ----------------------------------------------------------------------
# cholesky, qr, eigh and svd, with gradients over Op calls.
#
# The gradient of cholesky is that of I. Murray, Differentiation of the Cholesky decomposition (2016); of qr and eigh of
# M. Seeger et al., Auto-differentiating linear algebra (2017), of qr of wide matrices of D. Roberts and L. Roberts, QR
# and LQ decomposition matrix backpropagation algorithms (2020), and of svd of J. Townsend, Differentiating the singular
# value decomposition (2016). Those of vectors of equal values are NaN, as ``ties`` says.


def _mean_with_transpose(a: Array) -> Array:
    """What op takes of a: the mean with its transpose, which of a symmetric matrix is itself to the bit."""
    other = np.swapaxes(a, -1, -2).conj()
    return np.asarray(np.where(a == other, a, a / 2 + other / 2))


def _symmetric(x: Any) -> Any:
    return add(halved(x), halved(adjoint(x)))


def _odd(x: Any) -> Any:
    return sub(halved(x), halved(adjoint(x)))


def _symmetric_samples(array: Callable[..., Array]) -> Sequence[Sample]:
    """Positive definite, with eigenvalues that lie apart."""
    cases = []
    for shape in ((3, 3), (2, 2, 2), (0, 0), (0, 2, 2)):
        x = array(*shape)
        diagonal = np.diag(np.arange(2, 2 + 2 * shape[-1], 2)).astype(x.dtype)
        cases.append(Sample((_mean_with_transpose(x) + diagonal,)))
    return cases


def _cholesky_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    inner = product(adjoint(out), ct)
    inner = add(below(inner), halved(diagonal_of(inner)))
    other = adjoint(out)
    left = solve(other, inner)  # inv(L).H inner
    return (_symmetric(adjoint(solve(other, adjoint(left)))),)


cholesky: Op = matrix_op(
    "cholesky",
    lambda a: require_square("cholesky", a),
    lambda a: np.linalg.cholesky(_mean_with_transpose(a)),
    generated=small_matrices.cholesky,
    is_generated=small_matrices.is_small,
    alone="cholesky",
    vjp=_cholesky_vjp,
    failure="a matrix is not positive definite",
    hint="add a small multiple of jg.eye(n), or take jg.linalg.eigh, which needs symmetry alone",
    samples=_symmetric_samples,
    doc="The lower triangular L of which L @ L.mT is the mean of a and its transpose.",
)


def _qr_type(a: Type, *, complete: bool) -> tuple[TensorType, TensorType]:
    (type,) = require_matrices("qr", a)
    batch, (rows, columns) = type.shape[:-2], type.shape[-2:]
    shared = rows if complete else lesser(rows, columns)
    return TensorType(type.dtype, (*batch, rows, shared)), TensorType(type.dtype, (*batch, shared, columns))


def _qr(a: Array, *, complete: bool) -> tuple[Array, Array]:
    factors = np.linalg.qr(a, mode="complete" if complete else "reduced")
    return factors[0], factors[1]


def _qr_vjp(ct: Any, out: Any, a: Any, *, complete: bool) -> tuple[Any]:
    q, r = out
    rows, columns = a.shape[-2:]
    square = rows == columns
    if complete and not square and lesser(rows, columns) == columns:
        raise UnsupportedOp(
            "qr: no gradient of the complete decomposition of a matrix with more rows than columns",
            hint='mode="reduced", whose factors are determined',
        )
    ct_q = zeros_like(q) if ct[0] is None else ct[0]
    ct_r = zeros_like(r) if ct[1] is None else ct[1]
    if square or lesser(rows, columns) == columns:
        return (_tall_qr_gradient(q, r, ct_q, ct_r),)
    # a is [x, y], the decomposition of the square x is q and u, and v is q.T y
    u, ct_u = (columns_of(value, 0, rows) for value in (r, ct_r))
    y, ct_v = columns_of(a, rows, columns), columns_of(ct_r, rows, columns)
    ct_x = _tall_qr_gradient(q, u, add(ct_q, product(y, adjoint(ct_v))), ct_u)
    return (concat(ct_x, product(q, ct_v), axis=len(a.shape) - 1),)


def _tall_qr_gradient(q: Any, r: Any, ct_q: Any, ct_r: Any) -> Any:
    inner = sub(product(r, adjoint(ct_r)), product(adjoint(ct_q), q))
    mirrored = add(add(below(inner), adjoint(below(inner))), real_part(diagonal_of(inner)))
    return adjoint(solve(r, adjoint(add(ct_q, product(q, mirrored)))))


def _rectangles(array: Callable[..., Array], *shapes: tuple[int, ...]) -> list[Array]:
    """Of full rank, with singular values that lie apart."""
    matrices = []
    for shape in shapes:
        x = array(*shape)
        rows, columns = shape[-2:]
        diagonal = np.zeros((rows, columns), x.dtype)
        np.fill_diagonal(diagonal, np.arange(2, 2 + 2 * min(rows, columns), 2))
        matrices.append(x + diagonal)
    return matrices


def _qr_samples(array: Callable[..., Array]) -> Sequence[Sample]:
    shapes = ((3, 3), (3, 2), (2, 2, 2), (0, 0))
    return [Sample((x,), {"complete": False}) for x in _rectangles(array, *shapes)]


qr: Op = matrix_op(
    "qr",
    _qr_type,
    _qr,
    alone="qr",
    vjp=_qr_vjp,
    samples=_qr_samples,
    doc="Q with orthonormal columns and an upper triangular R of which a is the product.",
)


def _eigh_type(a: Type, *, checked: bool) -> tuple[TensorType, TensorType]:
    type = require_square("eigh", a)
    return TensorType(part_of(type.dtype), type.shape[:-1]), type


def _eigh_vjp(ct: Any, out: Any, a: Any, *, checked: bool) -> tuple[Any]:
    values, vectors = out
    inner = None if ct[0] is None else diagonal_matrix(as_like(ct[0], vectors))
    if ct[1] is not None:
        if checked:
            require_no_turn("eigh", (vectors, ct[1]))
        odd = _odd(product(adjoint(vectors), ct[1]))
        tied = Ties(real_like(odd), values)
        moved = tied.over(sub(odd, diagonal_of(odd)), tied.gaps)
        moved = with_nan(moved, tied.undetermined(ct[1]))
        inner = moved if inner is None else add(inner, moved)
    return (None if inner is None else _symmetric(product(vectors, inner, adjoint(vectors))),)


def _eigh(a: Array, *, checked: bool) -> tuple[Array, ...]:
    if not np.isfinite(a).all():  # of which LAPACK gives finite numbers
        raise np.linalg.LinAlgError("not finite")
    return tuple(np.linalg.eigh(_mean_with_transpose(a)))


eigh: Op = matrix_op(
    "eigh",
    _eigh_type,
    _eigh,
    alone="eigh",
    vjp=_eigh_vjp,
    complex_samples="plain",
    samples=lambda array: [replace(x, attrs={"checked": False}) for x in _symmetric_samples(array)],
    doc="Ascending eigenvalues and orthonormal eigenvectors, as columns, of the mean of a and its transpose.",
)


def _svd_type(a: Type, *, full_matrices: bool, checked: bool) -> tuple[TensorType, TensorType, TensorType]:
    (type,) = require_matrices("svd", a)
    batch, (rows, columns) = type.shape[:-2], type.shape[-2:]
    shared = lesser(rows, columns)
    left, right = (rows, columns) if full_matrices else (shared, shared)
    shapes = (*batch, rows, left), (*batch, shared), (*batch, right, columns)
    dtypes = type.dtype, part_of(type.dtype), type.dtype
    u, s, vh = (TensorType(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=True))
    return u, s, vh


def _svd_vjp(ct: Any, out: Any, a: Any, *, full_matrices: bool, checked: bool) -> tuple[Any]:
    u, s, vh = out
    ct_u, ct_s, ct_vh = ct
    rows, columns = a.shape[-2:]
    if full_matrices and rows != columns:
        if ct_u is not None or ct_vh is not None:
            raise UnsupportedOp(
                "svd: no gradient of the singular vectors of full_matrices=True, of which some are not determined",
                hint="jg.linalg.svd(x, full_matrices=False)",
            )
        u, vh = columns_of(u, 0, s.shape[-1]), adjoint(columns_of(adjoint(vh), 0, s.shape[-1]))
    v, ct_v = adjoint(vh), None if ct_vh is None else adjoint(ct_vh)
    if checked:
        require_no_turn("svd", (u, ct_u), (v, ct_v))
    inner = None if ct_s is None else diagonal_matrix(as_like(ct_s, u))
    is_small = None
    if ct_u is not None or ct_v is not None:
        is_small = negligible(s, s)
        moved = _turned_singular_vectors(
            ct_u, ct_v, u, s, v, is_small if rows != columns or is_complex(a.dtype) else None
        )
        inner = moved if inner is None else add(inner, moved)
    if inner is None:
        return (None,)
    gradient = product(u, inner, vh)
    safe = s if is_small is None else select(is_small, full_like(1.0, s), s)
    if ct_u is not None and rows != s.shape[-1]:
        part = over(ct_u, columns_times(real_like(ct_u), safe))
        gradient = add(gradient, product(sub(part, product(u, adjoint(u), part)), vh))
    if ct_vh is not None and columns != s.shape[-1]:
        part = over(ct_vh, rows_times(real_like(ct_vh), safe))
        gradient = add(gradient, product(u, sub(part, product(part, v, vh))))
    return (gradient,)


def _turned_singular_vectors(ct_u: Any, ct_v: Any, u: Any, s: Any, v: Any, is_small: Any) -> Any:
    """What the cotangents of the vectors add in the bases u and v.

    With the odd parts p of u.H ct_u and r of v.H ct_v it is 2 (p s[j] + r s[i]) / (s[j]^2 - s[i]^2), here as
    (p + r) / (s[j] - s[i]) + (p - r) / (s[j] + s[i]), of which no square overflows. ``is_small``: singular values whose
    vectors are undetermined for that alone, or None.
    """
    pairs = [(ct, side) for ct, side in ((ct_u, u), (ct_v, v)) if ct is not None]
    odds = [_odd(product(adjoint(side), ct)) for ct, side in pairs]
    if len(odds) == 2:
        together, against = add(*odds), sub(*odds)
    else:
        together, against = odds[0], odds[0] if ct_v is None else sub(zeros_like(odds[0]), odds[0])
    like = real_like(together)
    tied = Ties(like, s)
    moved = add(
        tied.over(together, tied.gaps), tied.over(against, with_ones(add(columns_times(like, s), rows_times(like, s))))
    )
    moved = sub(moved, diagonal_of(moved))
    if ct_u is not None and is_complex(u.dtype):  # the phase that u and v share, of which half is of each
        safe = select(is_small, full_like(1.0, s), s)
        moved = add(moved, diagonal_of(over(odds[0], columns_times(like, safe))))
    return with_nan(moved, tied.undetermined(*(ct for ct, _ in pairs), also=is_small))


def _svd_samples(array: Callable[..., Array]) -> Sequence[Sample]:
    thin = _rectangles(array, (3, 3), (3, 2), (2, 2, 2), (0, 0))
    return [Sample((x,), {"full_matrices": False, "checked": False}) for x in thin]


svd: Op = matrix_op(
    "svd",
    _svd_type,
    lambda a, *, full_matrices, checked: tuple(np.linalg.svd(a, full_matrices=full_matrices)),
    alone="svd",
    vjp=_svd_vjp,
    complex_samples="plain",
    samples=_svd_samples,
    doc="U, descending singular values and V.mT of which a is the product.",
)


# ----------------------------------------------------------------------
# lstsq: least squares by the singular value decomposition, also where the rank is not full.
#
# The solution is that of least length (Golub and Van Loan, Matrix computations, 4th ed., 2013, section 5.5). Its
# gradient is that of the pseudo-inverse times b, which holds where the rank does not change.


def _type(a: Type, b: Type, rtol: Type) -> tuple[TensorType, TensorType]:
    left, right = require_matrices("lstsq", a, b)
    what = f"lstsq({left}, {right})"
    if left.ndim != right.ndim:
        rules.same_shape("lstsq", (left, right))
    batch = rules.same_dims(f"{what}: batches", left.shape[:-2], right.shape[:-2])
    require_same(context.constraints(), left.shape[-2], right.shape[-2], f"{what}: the rows of both")
    require_cutoffs("lstsq", left, rtol)
    size = lesser(left.shape[-2], left.shape[-1])
    solution = TensorType(left.dtype, (*batch, left.shape[-1], right.shape[-1]))
    return solution, TensorType(part_of(left.dtype), (*batch, size))


def _lstsq(a: Array, b: Array, rtol: Array) -> tuple[Array, Array]:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    significant = s > cutoffs(a, rtol)[..., None] * s.max(axis=-1, keepdims=True, initial=0)
    inverse = np.where(significant, 1 / np.where(significant, s, 1), 0)[..., None]
    return vh.swapaxes(-1, -2).conj() @ (inverse * (u.swapaxes(-1, -2).conj() @ b)), s


def _vjp(ct: Any, out: Any, a: Any, b: Any, rtol: Any) -> tuple[Any, Any, None]:
    by_a = by_b = None
    if ct[0] is not None:
        inverse = pinv(a, rtol)
        by_b = product(adjoint(inverse), ct[0])
        by_a = pinv_gradient(product(ct[0], adjoint(b)), inverse, a)
    if ct[1] is not None:
        u, _, vh = svd(a, full_matrices=False, checked=True)
        by_values = product(u, diagonal_matrix(as_like(ct[1], u)), vh)
        by_a = by_values if by_a is None else add(by_a, by_values)
    return by_a, by_b, None


def _samples(array: Any) -> list[Sample]:
    cases = []
    for a, b in ((3, 2), (3, 2)), ((2, 3, 2), (2, 3, 1)), ((0, 2), (0, 1)):
        x = array(*a)
        shifted = np.asarray(x + np.diag(np.arange(2.0, 6))[: a[-2], : a[-1]].astype(x.dtype))
        cases.append(Sample((shifted, array(*b), np.full(a[:-2], 1e-5, x.real.dtype))))
    return cases


lstsq: Op = matrix_op(
    "lstsq",
    _type,
    _lstsq,
    count=2,
    plain=1,
    composed=imports.function(BY_FACTORS, "lstsq"),
    vjp=_vjp,
    samples=_samples,
    complex_samples="none",
    doc="The shortest x for which a @ x is closest to b, and the singular values of a; those up to rtol times the "
    "greatest are zeros, below 0 it is max(m, n) eps.",
)


# ----------------------------------------------------------------------
# matrix_exp: by scaling, a Pade approximant of degree 13, and squaring.
#
# N. Higham, The scaling and squaring method for the matrix exponential revisited (2005). The gradient is a block of the
# exponential of a matrix of twice the size: R. Mathias, A chain rule for matrix functions (1996).

PADE: Final = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0),
    *(10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
NEAR: Final = 5.371920351148152  # the norm up to which the approximant is exact to the last bit of a float64


def _exponential(a: Array) -> Array:
    wide = a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)
    if not wide.size:
        return wide
    norm = (np.abs(wide.real) + np.abs(wide.imag)).sum(axis=-2).max(axis=-1)
    halvings = np.maximum(np.frexp(np.where(np.isfinite(norm), norm, 0) / NEAR)[1], 0)[..., None, None]
    x = np.ldexp(wide.real, -halvings) + (1j * np.ldexp(wide.imag, -halvings) if np.iscomplexobj(wide) else 0)
    one, b = np.eye(a.shape[-1]), PADE
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    odd = x @ odd
    approximant = np.linalg.solve(even - odd, even + odd)
    for step in range(int(halvings.max())):
        approximant = np.where(step < halvings, approximant @ approximant, approximant)
    return np.asarray(approximant)


def _exponential_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    size, last = a.shape[-1], len(a.shape) - 1
    turned = adjoint(a)
    above = concat(turned, ct, axis=last)
    below = concat(zeros_like(turned), turned, axis=last)
    block_exp = matrix_exp(concat(above, below, axis=last - 1))
    return (rows_of(columns_of(block_exp, size, size + size), 0, size),)


matrix_exp: Op = matrix_op(
    "matrix_exp",
    lambda a: require_square("matrix_exp", a),
    _exponential,
    composed=imports.function(BY_FACTORS, "matrix_exp"),
    vjp=_exponential_vjp,
    samples=lambda array: [Sample((array(*shape),)) for shape in ((3, 3), (2, 2, 2), (0, 0), (0, 2, 2))],
    doc="The exponentials of square matrices; float32 is computed in float64.",
)
