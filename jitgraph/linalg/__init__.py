"""Linear algebra in the Array API's names, and more in PyTorch's: matrices stand in the last two axes, batches before.

float32, float64 and complex numbers on the CPU, where NumPy's ``linalg`` computes them, also for compiled code.
LinAlgError where a matrix has no such inverse or decomposition.
"""

from __future__ import annotations

from typing import Any

from jitgraph import migration_hints
from jitgraph.linalg.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from jitgraph.linalg.diagonals import diagonal, trace
from jitgraph.linalg.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from jitgraph.linalg.products import cross, householder_product, matrix_power, multi_dot, outer, vander
from jitgraph.linalg.systems import det, inv, lstsq, matrix_exp, pinv, slogdet, solve
from jitgraph.linalg.triangular import cholesky_inverse, cholesky_solve, lu, lu_factor, lu_solve, solve_triangular
from jitgraph.runtime import imports
from jitgraph.tensor.functions.linear_algebra import matmul, tensordot, vecdot
from jitgraph.tensor.functions.shapes import matrix_transpose

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vander",
    "vecdot",
    "vector_norm",
]


__dir__ = imports.listing(__name__)


def __getattr__(name: str) -> Any:
    hint = migration_hints.advice(name, migration_hints.LINALG, owner="jg.linalg")
    raise AttributeError(f"module 'jitgraph.linalg' has no attribute {name!r}{hint}")
