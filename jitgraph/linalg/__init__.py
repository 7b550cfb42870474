"""Linear algebra in the Array API's names: matrices stand in the last two axes, and axes before these are a batch.

float32 and float64 on the CPU, where NumPy's ``linalg`` computes them, also for compiled code. LinAlgError where a
matrix has no such inverse or decomposition.
"""

from __future__ import annotations

from jitgraph.linalg.decompositions import cholesky, eigh, eigvalsh, qr, svd, svdvals
from jitgraph.linalg.systems import det, inv, pinv, slogdet, solve
from jitgraph.tensor.functions.linear_algebra import matmul, outer, tensordot, vecdot

__all__ = [
    "cholesky",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "vecdot",
]
