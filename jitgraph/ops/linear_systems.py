"""solve, inv and pinv: systems of linear equations.

The gradients are those of M. Giles, Collected matrix derivative results for forward and reverse mode algorithmic
differentiation (2008), section 2.2, and for pinv of G. Golub and V. Pereyra, The differentiation of pseudo-inverses
(1973), which holds where the rank does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules, small_matrices
from jitgraph.ops.arithmetic import add, neg, sub
from jitgraph.ops.matrices import (
    BY_FACTORS,
    FLOATS,
    adjoint,
    matrix_op,
    product,
    require_matrices,
    require_square,
)
from jitgraph.ops.numeric import Array
from jitgraph.runtime import imports

_SINGULAR: Final = "a matrix is singular"
_WAY_OUT: Final = "jg.linalg.lstsq or jg.linalg.pinv take singular matrices; or add a small multiple of jg.eye(n)"


def square_samples(array: Callable[..., Array]) -> Sequence[Sample]:
    """Far from singular: the diagonals outweigh the rest."""
    return [Sample((_dominant(array(*shape)),)) for shape in ((3, 3), (2, 2, 2), (0, 0), (0, 2, 2))]


def _dominant(x: Array) -> Array:
    return np.asarray(x + 2 * np.eye(x.shape[-1], dtype=x.dtype))


def _solve_type(a: Type, b: Type) -> TensorType:
    _, right = require_matrices("solve", a, b)
    left = require_square("solve", a)
    what = f"solve({left}, {right})"
    if left.ndim != right.ndim:
        rules.same_shape("solve", (left, right))
    known = context.constraints()
    batch = rules.same_dims(f"{what}: batches", left.shape[:-2], right.shape[:-2])
    rows = require_same(known, left.shape[-1], right.shape[-2], f"{what}: the rows of both")
    return TensorType(left.dtype, (*batch, rows, right.shape[-1]))


def _solve_vjp(ct: Any, out: Any, a: Any, b: Any) -> tuple[Any, Any]:
    right = solve(adjoint(a), ct)
    return neg(product(right, adjoint(out))), right


solve: Op = matrix_op(
    "solve",
    _solve_type,
    np.linalg.solve,
    count=2,
    generated=small_matrices.solve,
    is_generated=small_matrices.is_small,
    alone="solve",
    vjp=_solve_vjp,
    failure=_SINGULAR,
    hint=_WAY_OUT,
    samples=lambda array: [
        Sample((_dominant(array(*a)), array(*b)))
        for a, b in [((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((0, 0), (0, 2)), ((2, 2), (2, 0))]
    ],
    doc="The x for which a @ x is b, of square matrices a.",
)


def _inv_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    other = adjoint(out)
    return (neg(product(other, ct, other)),)


inv: Op = matrix_op(
    "inv",
    lambda a: require_square("inv", a),
    np.linalg.inv,
    generated=small_matrices.inverse,
    is_generated=small_matrices.is_small,
    alone="inverse",
    vjp=_inv_vjp,
    failure=_SINGULAR,
    hint=_WAY_OUT,
    samples=square_samples,
    doc="The inverses of square matrices.",
)


def _pinv_type(a: Type, rtol: Type) -> TensorType:
    (type,) = require_matrices("pinv", a)
    require_cutoffs("pinv", type, rtol)
    return TensorType(type.dtype, (*type.shape[:-2], type.shape[-1], type.shape[-2]))


def require_cutoffs(name: str, matrices: TensorType, rtol: Type) -> None:
    """ShapeError or DTypeError unless rtol has a number for each matrix, as precise as their parts."""
    numbers = rules.require_tensor(name, rtol)
    rules.require_dtype(name, numbers, FLOATS)
    rules.same_dims(f"{name}: batches of the matrices and of rtol", matrices.shape[:-2], numbers.shape)


def cutoffs(a: Array, rtol: Array) -> Array:
    """rtol, and where that is below 0 the default, which is max(m, n) eps."""
    default = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    return np.where(rtol < 0, rtol.dtype.type(default), rtol)


def pinv_gradient(ct: Any, out: Any, a: Any) -> Any:
    """The cotangent of a for ct of ``out``, its pseudo-inverse."""
    p, q, g = out, adjoint(out), adjoint(ct)
    gq = product(g, p, q)
    qg = product(q, p, g)
    gradient = sub(gq, product(a, p, gq))
    gradient = add(gradient, sub(qg, product(qg, p, a)))
    return sub(gradient, product(q, ct, q))


pinv: Op = matrix_op(
    "pinv",
    _pinv_type,
    lambda a, rtol: np.linalg.pinv(a, rcond=cutoffs(a, rtol)),
    plain=1,
    composed=imports.function(BY_FACTORS, "pinv"),
    complex_samples="none",
    vjp=lambda ct, out, a, rtol: (pinv_gradient(ct, out, a), None),
    samples=lambda array: [
        Sample(
            (
                array(*shape) + 2 * np.eye(*shape[-2:], dtype=array().dtype),
                np.full(shape[:-2], 1e-5, array().real.dtype),
            )
        )
        for shape in ((3, 2), (2, 2, 3), (0, 2))
    ],
    doc="Pseudo-inverses: singular values up to rtol times the greatest are zeros; below 0 it is max(m, n) eps.",
)
