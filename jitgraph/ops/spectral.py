"""eig, and eigenvalues and singular values alone, with derivatives of second order where some are equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType, int64
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import decompositions
from jitgraph.ops.arithmetic import abs, add, div, eq, gt, mul, select, sub
from jitgraph.ops.complex_parts import complex_, real, zeros_of
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast, stop_gradient
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.cumulative import cumsum
from jitgraph.ops.decompositions import eigh, require_no_turn
from jitgraph.ops.linear_systems import solve
from jitgraph.ops.matrices import (
    FLOATS,
    adjoint,
    columns_times,
    conj,
    diagonal_matrix,
    diagonal_of,
    halved,
    matrix_op,
    product,
    real_part,
    require_square,
    rows_times,
    turned,
)
from jitgraph.ops.movement import broadcast, reduce_sum
from jitgraph.ops.numeric import Array
from jitgraph.ops.reduction import reduce_max
from jitgraph.ops.rules import require_dtype
from jitgraph.ops.sampling import generator
from jitgraph.ops.windows import concat, slice

# ----------------------------------------------------------------------
# eig: eigenvalues and eigenvectors of matrices without symmetry, which are complex numbers.
#
# The gradient is that of C. Boeddeker et al., On the computation of complex-valued gradients with application to
# statistically optimum beamforming (2017), section 4.2, for eigenvectors of length 1, of which the phase is free. That
# of eigenvectors of equal eigenvalues is NaN, as ``ties`` says.


def _gradient(ct_values: Any, ct_vectors: Any, values: Any, vectors: Any, checked: bool) -> Any:
    turned = adjoint(vectors)
    inner = None if ct_values is None else diagonal_matrix(ct_values)
    if ct_vectors is not None:
        if checked:
            require_no_turn("eig", (vectors, ct_vectors))
        turn = product(turned, ct_vectors)
        moved = sub(turn, product(turned, vectors, real_part(diagonal_of(turn))))  # the lengths stay as they are
        tied = decompositions.Ties(turn, values)
        moved = tied.over(sub(moved, diagonal_of(moved)), conj(tied.gaps))
        moved = decompositions.with_nan(moved, tied.undetermined(ct_vectors))
        inner = moved if inner is None else add(inner, moved)
    return None if inner is None else solve(turned, product(inner, turned))


def _type(a: Type, *, checked: bool) -> tuple[TensorType, TensorType]:
    type = require_square("eig", a)
    require_dtype("eig", type, dtypes.COMPLEX)
    return TensorType(type.dtype, type.shape[:-1]), type


def _samples(*shapes: tuple[int, ...], complex: bool) -> Any:
    """Matrices with eigenvalues that lie apart, all real or all complex."""

    def made(array: Any) -> list[Sample]:
        matrices = [array(*shape) for shape in shapes]
        shifted = [x + np.diag(np.arange(2, 2 + 2 * x.shape[-1], 2)).astype(x.dtype) for x in matrices]
        return [Sample((np.asarray(x),), {"checked": False}) for x in shifted if np.iscomplexobj(x) == complex]

    return made


eig: Op = matrix_op(
    "eig",
    _type,
    lambda a, *, checked: tuple(np.linalg.eig(a)),
    vjp=lambda ct, out, a, *, checked: (_gradient(ct[0], ct[1], out[0], out[1], checked),),
    samples=_samples((1, 1), (2, 3, 3), complex=True),
    complex_samples="plain",
    doc="Eigenvalues and eigenvectors, as columns of length 1, of complex matrices.",
)


def _type_of_real(a: Type, *, checked: bool) -> tuple[TensorType, ...]:
    type = require_square("eig_of_real", a)
    require_dtype("eig_of_real", type, FLOATS)
    values = TensorType(type.dtype, type.shape[:-1])
    return values, values, type, type


def _eig_of_real(a: Array, *, checked: bool) -> tuple[Array, ...]:
    values, vectors = np.linalg.eig(a)
    return values.real, values.imag, vectors.real, vectors.imag


def _joined(x: Any, y: Any) -> Any:
    if x is None and y is None:
        return None
    return complex_(zeros_of(y) if x is None else x, zeros_of(x) if y is None else y)


def _vjp_of_real(ct: Any, out: Any, a: Any, *, checked: bool) -> tuple[Any]:
    gradient = _gradient(
        _joined(ct[0], ct[1]), _joined(ct[2], ct[3]), complex_(out[0], out[1]), complex_(out[2], out[3]), checked
    )
    return (None if gradient is None else real(gradient),)


eig_of_real: Op = matrix_op(
    "eig_of_real",
    _type_of_real,
    _eig_of_real,
    vjp=_vjp_of_real,
    samples=_samples((3, 3), (2, 2, 2), (0, 0), complex=False),
    doc="The real and imaginary parts of eigenvalues, and of eigenvectors as columns of length 1, of real matrices.",
)


# ----------------------------------------------------------------------
# Eigenvalues and singular values alone, with derivatives of second order where some are equal.
#
# A symmetric function of the eigenvalues w of A has the gradient V diag(c) V.T, with c its derivatives by w and V the
# eigenvectors. The derivative of that along H is V D V.T, where D[i, j] is H[i, j] (c[j] - c[i]) / (w[j] - w[i]) for H
# in the basis V (Y. Daleckii and S. Krein, 1965), and for equal eigenvalues the limit of the quotient, which c alone
# does not tell. But eigenvectors of equal eigenvalues may be turned: in a basis in which H is diagonal among them D is
# too, and its diagonal is the derivative of c along that of H, which the program gives. Of singular values s, with the
# gradient U diag(c) V.T, that is so for the symmetric part of H = U.T dA V; the skew one has the factor (c[i] + c[j]) /
# (s[i] + s[j]), and the parts of dA beyond U and V have c / s.
#
# The derivatives of both orders are linked by two results that are zeros: their cotangents are what the second order
# adds to the cotangent of A, and H, by which the first turns the vectors.


def _symmetric(x: Any) -> Any:
    return halved(add(x, turned(x)))


def _groups(values: Any) -> Any:
    """A number for each of sorted values, the same for those that count as equal.

    They do within the root of a float's precision: beyond, quotients of differences are as precise as that.
    """
    last = len(values.shape) - 1
    size = values.shape[last]
    starts = (0,) * last
    first = slice(values, starts=(*starts, 0), stops=(*values.shape[:last], 1), strides=(1,) * (last + 1))
    before = concat(
        first,
        slice(values, starts=(*starts, 0), stops=(*values.shape[:last], size - 1), strides=(1,) * (last + 1)),
        axis=last,
    )
    greatest = broadcast(reduce_max(abs(values), axes=(last,)), shape=values.shape, axes=tuple(range(last)))
    limit = mul(greatest, full_like(math.sqrt(float(np.finfo(values.dtype).eps)), greatest))
    return cumsum(cast(gt(abs(sub(values, before)), limit), dtype=int64), axis=last)


def _same_group(like: Any, groups: Any) -> Any:
    wide = cast(groups, dtype=like.dtype)
    return eq(rows_times(like, wide), columns_times(like, wide))


def _turn(direction: Any, values: Any) -> Any:
    """A turn of the vectors of equal values, after which ``direction``, symmetric in their basis, is diagonal there."""
    groups = _groups(values)
    inside = select(_same_group(direction, groups), direction, zeros_like(direction))
    axes = (len(inside.shape) - 2, len(inside.shape) - 1)
    reach = reduce_max(reduce_sum(abs(inside), axes=axes[1:]), axes=axes[:1])  # no eigenvalue of it is greater
    step = broadcast(mul(reach, full_like(3.0, reach)), shape=values.shape, axes=tuple(range(len(values.shape) - 1)))
    split = add(inside, diagonal_matrix(mul(step, cast(groups, dtype=values.dtype))))  # each group by itself, in order
    return eigh(stop_gradient(split), checked=False)[1]


def _quotients(like: Any, c: Any, values: Any) -> Any:
    """(c[j] - c[i]) / (values[j] - values[i]), and 0 where the values count as equal."""
    same = _same_group(like, _groups(values))
    gaps = sub(columns_times(like, values), rows_times(like, values))
    rises = sub(columns_times(like, c), rows_times(like, c))
    return select(same, zeros_like(gaps), div(rises, select(same, full_like(1.0, gaps), gaps)))


def _vjp(ct: Any, out: Any, a: Any, values: Any, vectors: Any) -> tuple[Any, None, None]:
    ct_values, more, direction = ct
    if ct_values is None:
        return more, None, None
    if direction is None:
        return eigenvalue_gradient(ct_values, values, vectors, out[1], out[2]), None, None
    basis = product(vectors, _turn(product(turned(vectors), direction, vectors), values))
    gradient = _symmetric(product(basis, diagonal_matrix(ct_values), turned(basis)))
    return gradient if more is None else add(gradient, more), None, None


def _samples_of(count: int) -> Callable[[DType], Sequence[Sample]]:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in FLOATS:
            return ()
        rng, cases = generator("eigenvalues", dtype), []
        for shape in ((3, 3), (2, 2, 2), (1, 1)):
            x = rng.uniform(-0.5, 0.5, shape)
            a = (x + x.swapaxes(-1, -2) + np.diag(np.arange(2.0, 2 + 2 * shape[-1], 2))).astype(dtype)
            values, vectors = np.linalg.eigh(a)
            rest = (rng.uniform(-1, 1, shape[:-1]).astype(dtype), values, vectors, a * 0, a * 0)
            cases.append(
                Sample((a, values, vectors) if count == 3 else rest, differentiable=False)
            )  # zeros that have a gradient
        return cases

    return samples


eigenvalues: Op = composite(
    "eigenvalues",
    lambda a, values, vectors: (values, zeros_like(a), zeros_like(a)),
    vjp=_vjp,
    traits=("autocast_wide", "gradient_by_python"),
    samples=_samples_of(3),
    doc="The eigenvalues of symmetric matrices, which eigh gave, as functions of these; and zeros, for derivatives.",
)


def _weighted_gradient(c: Any, values: Any, vectors: Any, more: Any, direction: Any) -> Any:
    return _symmetric(product(vectors, diagonal_matrix(c), turned(vectors)))


def _gradient_vjp(
    ct: Any, out: Any, c: Any, values: Any, vectors: Any, more: Any, direction: Any
) -> tuple[Any, None, None, Any, Any]:
    ct = _symmetric(ct)
    seen = product(turned(vectors), ct, vectors)
    basis = product(vectors, _turn(seen, values))
    turned_ct = mul(product(turned(basis), ct), turned(basis))
    ct_c = reduce_sum(turned_ct, axes=(len(turned_ct.shape) - 1,))
    quotients = _quotients(seen, c, values)
    across = _symmetric(product(vectors, mul(seen, quotients), turned(vectors)))
    return ct_c, None, None, across, ct


eigenvalue_gradient: Op = composite(
    "eigenvalue_gradient",
    _weighted_gradient,
    vjp=_gradient_vjp,
    traits=("autocast_wide", "gradient_by_python"),
    samples=_samples_of(5),
    doc="The gradient by symmetric matrices of what has the gradient c by their eigenvalues.",
)


def _singular_samples(count: int) -> Callable[[DType], Sequence[Sample]]:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in FLOATS:
            return ()
        rng, cases = generator("singular_values", dtype), []
        for shape in ((3, 2), (2, 3), (2, 2, 2)):
            a = (rng.uniform(-0.5, 0.5, shape) + np.eye(*shape[-2:]) * np.arange(2, 2 + shape[-1])).astype(dtype)
            u, values, vh = np.linalg.svd(a, full_matrices=False)
            c = rng.uniform(-1, 1, values.shape).astype(dtype)
            inputs = (a, values, u, vh) if count == 4 else (c, values, u, vh, a * 0, a * 0)
            cases.append(Sample(inputs, differentiable=False))
        return cases

    return samples


def _singular_vjp(ct: Any, out: Any, a: Any, values: Any, u: Any, vh: Any) -> tuple[Any, None, None, None]:
    ct_values, more, direction = ct
    if ct_values is None:
        return more, None, None, None
    if direction is None:
        return singular_value_gradient(ct_values, values, u, vh, out[1], out[2]), None, None, None
    turn = _turn(_symmetric(product(turned(u), direction, turned(vh))), values)
    gradient = product(u, product(turn, diagonal_matrix(ct_values), turned(turn)), vh)
    return gradient if more is None else add(gradient, more), None, None, None


singular_values: Op = composite(
    "singular_values",
    lambda a, values, u, vh: (values, zeros_like(a), zeros_like(a)),
    vjp=_singular_vjp,
    traits=("autocast_wide", "gradient_by_python"),
    samples=_singular_samples(4),
    doc="The singular values of matrices, which svd gave, as functions of these; and zeros, for derivatives.",
)


def _singular_gradient_vjp(
    ct: Any, out: Any, c: Any, values: Any, u: Any, vh: Any, more: Any, direction: Any
) -> tuple[Any, None, None, None, Any, Any]:
    v = turned(vh)
    seen = product(turned(u), ct, v)
    even = _symmetric(seen)
    odd = sub(seen, even)
    turn = _turn(even, values)
    turned_even = mul(product(turned(turn), even), turned(turn))
    ct_c = reduce_sum(turned_even, axes=(len(turned_even.shape) - 1,))
    sums = add(columns_times(seen, values), rows_times(seen, values))
    shares = div(add(columns_times(seen, c), rows_times(seen, c)), sums)
    unmoved = eq(odd, zeros_like(odd))
    skew = select(unmoved, odd, mul(odd, select(unmoved, full_like(1.0, odd), shares)))
    across = product(u, add(mul(even, _quotients(seen, c, values)), skew), vh)
    rows, columns = ct.shape[-2:]
    size = values.shape[-1]
    ratio = div(c, values)
    if rows != size:
        part = product(ct, v)
        part = sub(part, product(u, product(turned(u), part)))
        across = add(across, product(mul(part, columns_times(part, ratio)), vh))
    if columns != size:
        part = product(turned(u), ct)
        part = sub(part, product(product(part, v), vh))
        across = add(across, product(u, mul(part, rows_times(part, ratio))))
    return ct_c, None, None, None, across, ct


singular_value_gradient: Op = composite(
    "singular_value_gradient",
    lambda c, values, u, vh, more, direction: product(u, diagonal_matrix(c), vh),
    vjp=_singular_gradient_vjp,
    traits=("autocast_wide", "gradient_by_python"),
    samples=_singular_samples(6),
    doc="The gradient by matrices of what has the gradient c by their singular values.",
)
