"""Decompositions and systems of equations, where ``torch`` has other parameters than ``torch.linalg``."""

from __future__ import annotations

from typing import Any

from jitgraph import linalg
from jitgraph.errors import UnsupportedOp
from jitgraph.tensor import functions as fn
from jitgraph.torch import return_types
from jitgraph.torch.adapters import torch_function, with_out


def _adjoint(x: Any) -> Any:
    return fn.conj(fn.matrix_transpose(x))


@with_out
def slogdet(input: Any) -> Any:
    """The sign of determinants, and the logarithm of their size."""
    return return_types.slogdet(*linalg.slogdet(input))


@with_out
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """U, S and V, for which input is U @ diag(S) @ V^H; U and V are zeros without ``compute_uv``."""
    if compute_uv:
        u, s, vh = linalg.svd(input, full_matrices=not some)
        return return_types.svd(u, s, _adjoint(vh))
    rows, columns = input.shape[-2:]
    batch = tuple(input.shape[:-2])
    u = fn.zeros((*batch, rows, rows), dtype=input.dtype)
    return return_types.svd(u, linalg.svdvals(input), fn.zeros((*batch, columns, columns), dtype=input.dtype))


@with_out
def qr(input: Any, some: bool = True) -> Any:
    """An orthogonal Q and an upper triangular R whose product is the input."""
    return return_types.qr(*linalg.qr(input, mode="reduced" if some else "complete"))


@torch_function
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """Pseudo-inverses; singular values up to ``rcond`` times the greatest one count as zeros."""
    return linalg.pinv(input, rtol=rcond)


@with_out
def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:  # noqa: N803
    """The x for which A @ x is b, of the ``lu`` of A."""
    return linalg.lu_solve(LU_data, LU_pivots, b)


@with_out
def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:  # noqa: N803
    """L and U in one matrix, and the exchanges of rows, from 1 on; with ``get_infos`` zeros for each matrix, too."""
    from jitgraph.torch import linalg as torch_linalg  # which is built of these functions

    factors = torch_linalg.lu_factor_ex(A, pivot=pivot)
    return factors if get_infos else return_types.linalg_lu_factor(*factors[:2])


@with_out
def lu_unpack(
    LU_data: Any,  # noqa: N803
    LU_pivots: Any,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> Any:
    """The permutation P, L and U of the ``lu`` of a matrix; empty tensors for what is not asked for."""
    rows, columns = LU_data.shape[-2:]
    size = min(rows, columns)
    empty = fn.zeros((0,), dtype=LU_data.dtype)
    lower = upper = permutation = empty
    if unpack_data:
        lower = fn.tril(LU_data[..., :size], -1) + fn.eye(rows, size, dtype=LU_data.dtype)
        upper = fn.triu(LU_data[..., :size, :])
    if unpack_pivots:
        identity = fn.broadcast_to(fn.eye(rows, dtype=LU_data.dtype), (*LU_data.shape[:-2], rows, rows))
        permutation = fn.matrix_transpose(linalg.lu_solve(identity, _every_row(LU_pivots, rows), identity))
    return return_types.lu_unpack(permutation, lower, upper)


def _every_row(pivots: Any, rows: int) -> Any:
    """The exchanges of all rows: rows behind the last pivot stay where they are."""
    count = pivots.shape[-1]
    if count == rows:
        return pivots
    rest = fn.arange(count + 1, rows + 1, dtype=pivots.dtype)
    return fn.concat([pivots, fn.broadcast_to(rest, (*pivots.shape[:-1], rows - count))], axis=-1)


@with_out
def triangular_solve(
    b: Any,
    A: Any,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """The x for which A @ x is b, of triangular matrices, with a copy of A."""
    matrix, high = (fn.matrix_transpose(A), not upper) if transpose else (A, upper)
    solution = linalg.solve_triangular(matrix, b, upper=high, unitriangular=unitriangular)
    return return_types.triangular_solve(solution, fn.clone(fn.broadcast_to(A, (*solution.shape[:-2], *A.shape[-2:]))))


@with_out
def orgqr(input: Any, tau: Any) -> Any:
    """The first columns of a product of reflections."""
    return linalg.householder_product(input, tau)


@with_out
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """The product of the orthogonal matrix of reflections, or its adjoint, with another matrix."""
    if input.ndim < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    rows, columns = input.shape[-2:]
    rest = fn.zeros((*input.shape[:-2], rows, rows - columns), dtype=input.dtype)
    q = linalg.householder_product(fn.concat([input, rest], axis=-1), tau)
    q = _adjoint(q) if transpose else q
    return fn.matmul(q, other) if left else fn.matmul(other, q)


def geqrf(*args: Any, **keywords: Any) -> Any:
    """QR factors as reflections, which jitgraph does not compute."""
    raise UnsupportedOp("geqrf is not supported\n  hint: torch.linalg.qr")


@torch_function
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:  # noqa: N803
    """The ``q`` greatest singular values of A - M with their vectors: U, S, V; here of the whole decomposition."""
    matrix = A if M is None else A - M
    count = min(6 if q is None else q, *matrix.shape[-2:])
    u, s, vh = linalg.svd(matrix, full_matrices=False)
    return u[..., :count], s[..., :count], _adjoint(vh)[..., :count]


@torch_function
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:  # noqa: N803
    """The ``q`` principal directions of the rows of A: U, S, V of A less its mean."""
    rows, columns = A.shape[-2:]
    count = min(6, rows, columns) if q is None else q
    if not 0 <= count <= min(rows, columns):
        raise ValueError(f"q(={count}) must be non-negative integer and not greater than {min(rows, columns)}")
    return svd_lowrank(A - fn.mean(A, axis=-2, keepdims=True) if center else A, count)
