"""matrix_exp: by scaling, a Pade approximant of degree 13, and squaring.

N. Higham, The scaling and squaring method for the matrix exponential revisited (2005). The gradient is a block of the
exponential of a matrix of twice the size: R. Mathias, A chain rule for matrix functions (1996).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.ir.op import Op, Sample
from jitgraph.ops.creation import zeros_like
from jitgraph.ops.matrices import BY_FACTORS, adjoint, columns_of, matrix_op, require_square, rows_of
from jitgraph.ops.numeric import Array
from jitgraph.ops.windows import concat
from jitgraph.runtime import imports

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


def _vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
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
    vjp=_vjp,
    samples=lambda array: [Sample((array(*shape),)) for shape in ((3, 3), (2, 2, 2), (0, 0), (0, 2, 2))],
    doc="The exponentials of square matrices; float32 is computed in float64.",
)
