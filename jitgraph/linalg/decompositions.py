"""Decompositions of matrices."""

from __future__ import annotations

from typing import NamedTuple

from jitgraph import dtypes, ops
from jitgraph.eager.handle import stopped
from jitgraph.errors import ShapeError
from jitgraph.ops import decompositions, spectral
from jitgraph.ops.matrices import adjoint
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


class QRResult(NamedTuple):
    """What ``qr`` gives."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """What ``eigh`` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """What ``eig`` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """What ``svd`` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@array_function
def cholesky(x: TensorLike, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L @ L.H equal to x, or with ``upper`` its conjugate transpose.

    x is taken as symmetric, or Hermitian: of another matrix, the mean with its conjugate transpose. Gradients by Murray
    (2016). LinAlgError where a matrix is not positive definite.
    """
    factor = decompositions.cholesky(lifting.value_of(x))
    return wrap(adjoint(factor) if upper else factor)


@array_function
def qr(x: TensorLike, *, mode: str = "reduced") -> QRResult:
    """Q with orthonormal columns and an upper triangular R of which x is the product.

    ``mode`` is "reduced" or "complete" (a square Q). Gradients by Seeger et al. (2017); UnsupportedOp for those of the
    complete decomposition of a matrix with more rows than columns.
    """
    if mode not in ("reduced", "complete"):
        more = "; jg.linalg.qr(x).R is R alone" if mode == "r" else ""
        raise ShapeError(f"qr: mode is {mode!r}", hint=f'"reduced" or "complete"{more}')
    return QRResult(*map(wrap, decompositions.qr(lifting.value_of(x), complete=mode == "complete")))


@array_function
def eigh(x: TensorLike) -> EighResult:
    """Ascending eigenvalues and orthonormal eigenvectors (columns) of symmetric matrices.

    Complex matrices are Hermitian ones, with real eigenvalues. Of another matrix it takes the mean with its conjugate
    transpose. Gradients by Seeger et al. (2017): of functions of eigenvectors of equal eigenvalues they are NaN, even
    where the choice of these does not matter, of eigenvalues finite. The phase of complex eigenvectors is free: a loss
    shall not depend on it.
    """
    return EighResult(*map(wrap, decompositions.eigh(lifting.value_of(x), checked=True)))


@array_function
def eigvalsh(x: TensorLike) -> Tensor:
    """Ascending eigenvalues of symmetric matrices, as ``eigh`` gives them.

    Where some are equal, derivatives of first and second order of functions that treat these alike are right, too.
    """
    value = lifting.value_of(x)
    if dtypes.is_complex(value.dtype) or 0 in value.shape:
        return eigh(x).eigenvalues
    eigenpairs = decompositions.eigh(stopped(value), checked=False)
    return wrap(spectral.eigenvalues(value, *eigenpairs)[0])


@array_function
def svd(x: TensorLike, *, full_matrices: bool = True) -> SVDResult:
    """U, descending singular values S, and Vh, of which x is the product.

    Gradients by Townsend (2016), NaN of functions of singular vectors of equal singular values, as ``eigh`` says;
    UnsupportedOp for those of the vectors of full_matrices=True of a matrix that is not square.
    """
    full = bool(full_matrices)
    return SVDResult(*map(wrap, decompositions.svd(lifting.value_of(x), full_matrices=full, checked=True)))


@array_function
def svdvals(x: TensorLike) -> Tensor:
    """Descending singular values; for derivatives of equal ones see ``eigvalsh``."""
    value = lifting.value_of(x)
    if dtypes.is_complex(value.dtype) or 0 in value.shape:
        return svd(x, full_matrices=False).S
    u, s, vh = decompositions.svd(stopped(value), full_matrices=False, checked=False)
    return wrap(spectral.singular_values(value, s, u, vh)[0])


@array_function
def eig(x: TensorLike) -> EigResult:
    """Complex eigenvalues, in no order, and eigenvectors (columns of length 1) of square matrices.

    Gradients by Boeddeker et al. (2017): those of functions of eigenvectors of equal eigenvalues are NaN; the phase of
    eigenvectors is free, so that a loss shall not depend on it.
    """
    value = lifting.value_of(x)
    if dtypes.is_complex(value.dtype):
        return EigResult(*map(wrap, spectral.eig(value, checked=True)))
    eigenpairs = spectral.eig_of_real(value, checked=True)
    return EigResult(wrap(ops.complex_(*eigenpairs[:2])), wrap(ops.complex_(*eigenpairs[2:])))


@array_function
def eigvals(x: TensorLike) -> Tensor:
    """Complex eigenvalues, as ``eig`` gives them."""
    return eig(x).eigenvalues
