"""lstsq: least squares by the singular value decomposition, also where the rank is not full.

The solution is that of least length (Golub and Van Loan, Matrix computations, 4th ed., 2013, section 5.5). Its gradient
is that of the pseudo-inverse times b, which holds where the rank does not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.dtypes import part_of
from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add
from jitgraph.ops.decompositions import svd
from jitgraph.ops.linear_systems import cutoffs, pinv, pinv_gradient, require_cutoffs
from jitgraph.ops.matrices import (
    BY_FACTORS,
    adjoint,
    as_like,
    diagonal_matrix,
    lesser,
    matrix_op,
    product,
    require_matrices,
)
from jitgraph.ops.numeric import Array
from jitgraph.runtime import imports


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
