"""Matrices with orthonormal columns, made of free numbers by one of three maps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import linalg
from jitgraph.nn import init
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import eye, tril, zeros
from jitgraph.tensor.functions.elementwise import sign
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.manipulation import concat
from jitgraph.tensor.functions.shapes import expand_dims

MAPS: Final = ("matrix_exp", "cayley", "householder")


def identity(beside: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix of the sizes, dtype and device of ``beside``."""
    return eye(*beside.shape[-2:], dtype=beside.dtype, device=beside.device)


def reflected(x: Tensor) -> Tensor:
    """The first columns of the product of reflections along the columns of x, each times its sign on the diagonal."""
    below = tril(x, -1)
    product = linalg.householder_product(below, 2.0 / (1.0 + (below * below).sum(axis=-2)))
    return product * expand_dims(sign(linalg.diagonal(x).detach()), -2)


def reflections(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The x of which ``reflected`` makes Q, where matrix = Q R and the diagonal of R is positive."""
    raw, scales = np.linalg.qr(matrix, mode="raw")
    reflectors = np.swapaxes(raw, -1, -2).copy()
    index = np.arange(matrix.shape[-1])
    signs = np.sign(reflectors[..., index, index])
    reflectors[..., index, index] = np.where(scales == 0, -signs, signs)  # LAPACK gives 0 where it does not reflect
    return reflectors


def whole(x: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with the columns of x, orthogonalised where they are not."""
    rows, columns = x.shape[-2:]
    if rows != columns:
        more = init.normal_(zeros((*x.shape[:-1], rows - columns), dtype=x.dtype, device=x.device))
        x = concat([x, more], axis=-1)
    else:
        beside = matmul(x.mT, x) - identity(x)
        if abs(beside).max().item() <= 10 * rows * float(np.finfo(x.dtype).eps):
            return x + 0.0
    q, r = linalg.qr(x)
    return q * expand_dims(sign(linalg.diagonal(r)), -2)


def orthonormal(x: Tensor, orthogonal_map: str) -> Tensor:
    """Orthonormal columns from x by one of the maps."""
    return reflected(x) if orthogonal_map == "householder" else rotated(x, orthogonal_map)


def rotated(x: Tensor, orthogonal_map: str) -> Tensor:
    """The first columns of the rotation that a skew-symmetric matrix stands for."""
    rows, columns = x.shape[-2:]
    below = tril(x)
    if rows != columns:
        more = zeros((*x.shape[:-1], rows - columns), dtype=x.dtype, device=x.device)
        below = concat([below, more], axis=-1)
    skew = below - below.mT
    if orthogonal_map == "matrix_exp":
        rotation = linalg.matrix_exp(skew)
    else:
        one = identity(skew)
        rotation = linalg.solve(one - 0.5 * skew, one + 0.5 * skew)
    return rotation[..., :columns]
