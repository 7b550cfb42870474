"""``torch.linalg``: PyTorch's names and parameters over ``jg.linalg``.

Functions whose names end in ``_ex`` tell by ``info`` which matrices of a batch have no result. That takes the numbers:
in traces they raise LinAlgError at the call as the functions without ``_ex`` do.
"""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes
from jitgraph import linalg as functions
from jitgraph.errors import LinAlgError as LinAlgError
from jitgraph.errors import UnsupportedOp
from jitgraph.tensor import functions as fn
from jitgraph.torch import return_types
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.aten_ops import operands, products
from jitgraph.torch.functions import diagonal as _diagonal_view
from jitgraph.torch.promotion import promoted

Tolerance = Any  # a number or a tensor, one for each matrix


def _number(size: Any) -> int:
    return math.prod(int(n) for n in size)


# ----------------------------------------------------------------------
# Norms and ranks.


@with_out
def norm(input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of all elements, of vectors along one axis or of matrices in two."""
    x = operands.cast(input, dtype)
    if ord is not None and dim is None and x.ndim == 1:
        dim = 0
    return functions.norm(x, ord, operands.axes(dim), keepdim)


@with_out
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """(sum |x|**ord)**(1 / ord) over axes, all of them for None."""
    return functions.vector_norm(operands.cast(x, dtype), axis=operands.axes(dim), keepdims=keepdim, ord=ord)


@with_out
def matrix_norm(
    A: Any,  # noqa: N803
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """The norm of the matrices in two axes."""
    return functions.norm(operands.cast(A, dtype), ord, tuple(dim), keepdim)


@with_out
def cond(A: Any, p: Any = None) -> Any:  # noqa: N803
    """The condition number for a norm of matrices, by default the greatest by the least singular value."""
    return functions.cond(A, p)


@with_out
def matrix_rank(
    A: Any,  # noqa: N803
    tol: Tolerance = None,
    hermitian: bool = False,
    *,
    atol: Tolerance = None,
    rtol: Tolerance = None,
) -> Any:
    """How many singular values exceed ``atol`` and ``rtol`` times the greatest one."""
    return functions.matrix_rank(A, rtol=rtol, atol=tol if atol is None else atol, hermitian=hermitian)


# ----------------------------------------------------------------------
# Products.


@with_out
def matmul(input: Any, other: Any) -> Any:
    """Products of matrices and vectors."""
    return fn.matmul(input, other)


@with_out
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The sum of conj(x) * y along an axis."""
    a, b = promoted(x, y)
    return fn.vecdot(a, b, dim)


@with_out
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Vector products along an axis of size 3."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    return functions.cross(input, other, axis=dim)


@with_out
def multi_dot(tensors: Any) -> Any:
    """The product of two or more matrices in the order that costs least."""
    return functions.multi_dot(tensors)


@with_out
def matrix_power(A: Any, n: int) -> Any:  # noqa: N803
    """Powers of square matrices; negative ones are of the inverse."""
    return functions.matrix_power(A, n) if n else operands.replaced(A, functions.matrix_power(A, n))


@torch_function
def matrix_exp(A: Any) -> Any:  # noqa: N803
    """The exponential function of square matrices."""
    return functions.matrix_exp(A)


@torch_function
def vander(x: Any, N: int | None = None) -> Any:  # noqa: N803
    """Powers 0, 1, ... N - 1 of each element of vectors."""
    return functions.vander(fn.reshape(x, (1,)) if x.ndim == 0 else x, N)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:  # noqa: N803
    """A view of the diagonals of matrices."""
    return _diagonal_view(A, offset, dim1, dim2)


@with_out
def householder_product(A: Any, tau: Any) -> Any:  # noqa: N803
    """The first columns of a product of reflections."""
    return functions.householder_product(A, tau)


# ----------------------------------------------------------------------
# Determinants, inverses and systems of equations.


@with_out
def det(A: Any) -> Any:  # noqa: N803
    """Determinants."""
    return functions.det(A)


@with_out
def slogdet(A: Any) -> Any:  # noqa: N803
    """The sign of determinants, and the logarithm of their size."""
    return return_types.linalg_slogdet(*functions.slogdet(A))


@with_out
def inv(A: Any) -> Any:  # noqa: N803
    """Inverses; LinAlgError where a matrix is singular."""
    return functions.inv(A)


def _first_zero_pivot(lu: Any) -> Any:
    """For each matrix the position, counted from 1, of the first 0 on U's diagonal; 0 where there is none."""
    zero = functions.diagonal(lu) == 0
    if not _number(zero.shape[-1:]):
        return fn.zeros(zero.shape[:-1], dtype=dtypes.int32)
    position = fn.argmax(fn.astype(zero, dtypes.int32), axis=-1) + 1
    return fn.astype(fn.where(fn.any(zero, axis=-1), position, 0), dtypes.int32)


def _raise_where(name: str, info: Any, check_errors: bool) -> None:
    if check_errors and bool(fn.any(info != 0)):
        raise LinAlgError(f"linalg.{name}: a matrix is singular: info is {info.tolist()}")


def _regular(A: Any, info: Any) -> Any:  # noqa: N803
    """The matrices, with the identity in the place of those that are singular."""
    identity = fn.eye(A.shape[-1], dtype=A.dtype)
    return fn.where((info != 0)[..., None, None], identity, A)


@with_out
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:  # noqa: N803
    """Inverses, and for each matrix where elimination meets a 0 (0 where it meets none); NaN for singular matrices."""
    info = _first_zero_pivot(functions.lu_factor(A).LU)
    _raise_where("inv_ex", info, check_errors)
    inverse = fn.where((info != 0)[..., None, None], math.nan, functions.inv(_regular(A, info)))
    return return_types.linalg_inv_ex(inverse, info)


@with_out
def solve(A: Any, B: Any, *, left: bool = True) -> Any:  # noqa: N803
    """The X for which A @ X is B, or X @ A with left=False."""
    return products.linalg_solve(A, B, left=left)


@with_out
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:  # noqa: N803
    """``solve``, and for each matrix where elimination meets a 0, as in ``inv_ex``."""
    info = _first_zero_pivot(functions.lu_factor(A).LU)
    _raise_where("solve_ex", info, check_errors)
    return return_types.linalg_solve_ex(solve(_regular(A, info), B, left=left), info)


@with_out
def solve_triangular(
    A: Any,  # noqa: N803
    B: Any,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    """The X for which A @ X is B, of triangular matrices, or X @ A with left=False."""
    return functions.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)


@with_out
def pinv(
    A: Any,  # noqa: N803
    rcond: Tolerance = None,
    hermitian: bool = False,
    *,
    atol: Tolerance = None,
    rtol: Tolerance = None,
) -> Any:
    """Pseudo-inverses; singular values up to ``atol`` or ``rtol`` times the greatest one count as zeros."""
    matrix = operands.symmetric(A, "L") if hermitian else A
    if atol is None:
        return functions.pinv(matrix, rtol=rcond if rtol is None else rtol)
    if not _number(matrix.shape):
        return functions.pinv(matrix)
    greatest = fn.max(functions.svdvals(matrix), axis=-1)
    relative = fn.where(greatest == 0, 0.0, atol / greatest)
    return functions.pinv(matrix, rtol=relative if rtol is None else fn.maximum(relative, rtol))


@with_out
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:  # noqa: N803
    """The shortest X for which A @ X is closest to B.

    As in PyTorch ``residuals`` are empty of matrices that have no more rows than columns and for the driver "gelsy",
    which is the default, ``rank`` for the driver "gels" and ``singular_values`` but for "gelsd" and "gelss".
    """
    kinds = (None, "gels", "gelsy", "gelsd", "gelss")
    if driver not in kinds:
        raise RuntimeError(f"torch.linalg.lstsq: driver={driver!r} is none of {kinds[1:]}")
    found = functions.lstsq(A, B, rcond=rcond)
    none = fn.reshape(found.residuals, (-1,))[:0]
    tall = A.shape[-2] > A.shape[-1] and driver not in (None, "gelsy")
    full = tall and (driver == "gels" or bool(fn.all(found.rank == A.shape[-1])))
    residuals = found.residuals if full else none
    rank = fn.zeros((0,), dtype=dtypes.int64) if driver == "gels" else found.rank
    values = found.singular_values if driver in ("gelsd", "gelss") else none
    return return_types.linalg_lstsq(found.solution, residuals, rank, values)


@with_out
def tensorinv(A: Any, ind: int = 2) -> Any:  # noqa: N803
    """The tensor that undoes ``tensordot`` with A over the axes from ``ind`` on."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, columns = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if _number(rows) != _number(columns):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{_number(columns)} != {_number(rows)}"
        )
    inverse = functions.inv(fn.reshape(A, (_number(rows), _number(columns))))
    return fn.reshape(inverse, columns + rows)


@with_out
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:  # noqa: N803
    """The X for which ``tensordot(A, X, X.ndim)`` is B; axes of A in ``dims`` are moved to its end first."""
    matrix = A
    if dims is not None:
        order = [axis % A.ndim for axis in dims]
        rest = [axis for axis in range(A.ndim) if axis not in order]
        matrix = fn.permute_dims(A, (*rest, *order))
    shape = tuple(matrix.shape[B.ndim :])
    if _number(shape) != _number(B.shape):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {_number(shape)} != {_number(B.shape)}"
        )
    count = _number(shape)
    return fn.reshape(functions.solve(fn.reshape(matrix, (count, count)), fn.reshape(B, (count,))), shape)


# ----------------------------------------------------------------------
# Decompositions.


@with_out
def cholesky(A: Any, *, upper: bool = False) -> Any:  # noqa: N803
    """The lower triangular L for which A is L @ L^H, or the upper triangular L^H."""
    return functions.cholesky(A, upper=upper)


@with_out
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:  # noqa: N803
    """``cholesky``, and for each matrix the order of the first minor that is not positive (0 where all are).

    Where there is one, the factor is NaN.
    """
    info = fn.zeros(A.shape[:-2], dtype=dtypes.int32)
    try:
        return return_types.linalg_cholesky_ex(functions.cholesky(A, upper=upper), info)
    except LinAlgError:
        if check_errors:
            raise
    size = A.shape[-1]
    matrices = fn.reshape(A, (-1, size, size))
    orders = [_first_bad_minor(matrices[i]) for i in range(matrices.shape[0])]
    info = fn.reshape(fn.asarray(orders, dtype=dtypes.int32), A.shape[:-2])
    factor = fn.where((info != 0)[..., None, None], math.nan, functions.cholesky(_regular(A, info), upper=upper))
    return return_types.linalg_cholesky_ex(factor, info)


def _first_bad_minor(matrix: Any) -> int:
    """The order of the first leading minor that is not positive, by bisection; 0 where all are."""

    def positive(order: int) -> bool:
        try:
            functions.cholesky(matrix[:order, :order])
        except LinAlgError:
            return False
        return True

    low, high = 0, matrix.shape[-1]
    if positive(high):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if positive(middle) else (low, middle)
    return int(high)


@with_out
def qr(A: Any, mode: str = "reduced") -> Any:  # noqa: N803
    """An orthogonal Q and an upper triangular R whose product is A; Q is empty for the mode "r"."""
    if mode == "r":
        return return_types.linalg_qr(fn.zeros((0,), dtype=A.dtype), functions.qr(A).R)
    return return_types.linalg_qr(*functions.qr(A, mode=mode))


@with_out
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:  # noqa: N803
    """Orthogonal U and Vh, and the singular values in falling order: A is U @ diag(S) @ Vh."""
    return return_types.linalg_svd(*functions.svd(A, full_matrices=full_matrices))


@with_out
def svdvals(A: Any, *, driver: str | None = None) -> Any:  # noqa: N803
    """Singular values in falling order."""
    return functions.svdvals(A)


@with_out
def eig(A: Any) -> Any:  # noqa: N803
    """Complex eigenvalues and eigenvectors."""
    return return_types.linalg_eig(*functions.eig(A))


@with_out
def eigvals(A: Any) -> Any:  # noqa: N803
    """Complex eigenvalues."""
    return functions.eigvals(A)


@with_out
def eigh(A: Any, UPLO: str = "L") -> Any:  # noqa: N803
    """Eigenvalues in rising order and eigenvectors of Hermitian matrices, of which one triangle is read."""
    return return_types.linalg_eigh(*functions.eigh(operands.symmetric(A, _triangle(UPLO))))


@with_out
def eigvalsh(A: Any, UPLO: str = "L") -> Any:  # noqa: N803
    """Eigenvalues in rising order of Hermitian matrices, of which one triangle is read."""
    return functions.eigvalsh(operands.symmetric(A, _triangle(UPLO)))


def _triangle(name: str) -> str:
    if name.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {name}")
    return name.upper()


@with_out
def lu(A: Any, *, pivot: bool = True) -> Any:  # noqa: N803
    """A permutation P, a lower triangular L and an upper triangular U whose product is A."""
    _require_pivots(pivot)
    return return_types.linalg_lu(*functions.lu(A))


@with_out
def lu_factor(A: Any, *, pivot: bool = True) -> Any:  # noqa: N803
    """L and U in one matrix, and the exchanges of rows."""
    _require_pivots(pivot)
    return return_types.linalg_lu_factor(*functions.lu_factor(A))


@with_out
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:  # noqa: N803
    """``lu_factor``, and for each matrix where elimination meets a 0, as in ``inv_ex``."""
    _require_pivots(pivot)
    factors = functions.lu_factor(A)
    info = _first_zero_pivot(factors.LU)
    _raise_where("lu_factor_ex", info, check_errors)
    return return_types.linalg_lu_factor_ex(*factors, info)


def _require_pivots(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@with_out
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:  # noqa: N803
    """The X for which A @ X is B, of A's ``lu_factor``."""
    return functions.lu_solve(LU, pivots, B, left=left, adjoint=adjoint)


def _no_ldl(*args: Any, **keywords: Any) -> Any:
    """Factors with blocks of two rows, which jitgraph does not compute."""
    raise UnsupportedOp("linalg.ldl_factor is not supported\n  hint: linalg.lu_factor, or linalg.cholesky")


ldl_factor = ldl_factor_ex = ldl_solve = _no_ldl
