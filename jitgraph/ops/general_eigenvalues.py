"""eig: eigenvalues and eigenvectors of matrices without symmetry, which are complex numbers.

The gradient is that of C. Boeddeker et al., On the computation of complex-valued gradients with application to
statistically optimum beamforming (2017), section 4.2, for eigenvectors of length 1, of which the phase is free. That
of eigenvectors of equal eigenvalues is NaN, as ``ties`` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import ties
from jitgraph.ops.arithmetic import add, sub
from jitgraph.ops.complex_parts import complex_, real, zeros_of
from jitgraph.ops.free_phases import require_no_turn
from jitgraph.ops.linear_systems import solve
from jitgraph.ops.matrices import (
    FLOATS,
    adjoint,
    conj,
    diagonal_matrix,
    diagonal_of,
    matrix_op,
    product,
    real_part,
    require_square,
)
from jitgraph.ops.numeric import Array
from jitgraph.ops.rules import require_dtype


def _gradient(ct_values: Any, ct_vectors: Any, values: Any, vectors: Any, checked: bool) -> Any:
    turned = adjoint(vectors)
    inner = None if ct_values is None else diagonal_matrix(ct_values)
    if ct_vectors is not None:
        if checked:
            require_no_turn("eig", (vectors, ct_vectors))
        turn = product(turned, ct_vectors)
        moved = sub(turn, product(turned, vectors, real_part(diagonal_of(turn))))  # the lengths stay as they are
        tied = ties.Ties(turn, values)
        moved = tied.over(sub(moved, diagonal_of(moved)), conj(tied.gaps))
        moved = ties.with_nan(moved, tied.undetermined(ct_vectors))
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
