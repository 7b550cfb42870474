"""Matrix products, decompositions and systems."""

from __future__ import annotations

from jitgraph import linalg
from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.tensor import products
from jitgraph.torch.aten_ops import operands


def mm(self, mat2):
    return products.mm(self, mat2)


def bmm(self, mat2):
    return products.bmm(self, mat2)


def matmul(self, other):
    return fn.matmul(self, other)


linalg_matmul = matmul


def mv(self, vec):
    return products.mv(self, vec)


def dot(self, tensor):
    return products.dot(self, tensor)


def vdot(self, other):
    return products.vdot(self, other)


def linalg_vecdot(x, y, *, dim=-1):
    return fn.vecdot(x, y, dim)


def inner(self, other):
    return products.inner(self, other)


@operands.with_bools
def outer(self, vec2):
    return fn.outer(self, vec2)


ger = outer


@operands.with_bools
def kron(self, other):
    return products.kron(self, other)


def mm_dtype(self, mat2, out_dtype):
    return products.mm(fn.astype(self, out_dtype), fn.astype(mat2, out_dtype))


def bmm_dtype(self, mat2, out_dtype):
    return products.bmm(fn.astype(self, out_dtype), fn.astype(mat2, out_dtype))


def addmm_dtype(self, mat1, mat2, out_dtype, *, beta=1, alpha=1):
    factors = (fn.astype(mat1, out_dtype), fn.astype(mat2, out_dtype))
    return products.addmm(fn.astype(self, out_dtype), *factors, beta=beta, alpha=alpha)


def baddbmm_dtype(self, batch1, batch2, out_dtype, *, beta=1, alpha=1):
    factors = (fn.astype(batch1, out_dtype), fn.astype(batch2, out_dtype))
    return products.baddbmm(fn.astype(self, out_dtype), *factors, beta=beta, alpha=alpha)


def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    return products.addmm(self, mat1, mat2, **operands.factors(self, beta=beta, alpha=alpha))


def addmv(self, mat, vec, *, beta=1, alpha=1):
    return products.addmv(self, mat, vec, **operands.factors(self, beta=beta, alpha=alpha))


@operands.with_bools
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    return products.addr(self, vec1, vec2, **operands.factors(self, beta=beta, alpha=alpha))


def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    return products.baddbmm(self, batch1, batch2, **operands.factors(self, beta=beta, alpha=alpha))


def addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    total = products.addbmm(self, batch1, batch2, **operands.factors(self, beta=beta, alpha=alpha))
    return operands.cast(total, self.dtype)


def chain_matmul(matrices):
    return products.chain_matmul(*matrices)


def linalg_multi_dot(tensors):
    return linalg.multi_dot(tensors)


def einsum_default(equation, tensors, *, path=None):
    return products.einsum(equation, *tensors)


def tensordot(self, other, dims_self, dims_other):
    return fn.tensordot(self, other, (tuple(dims_self), tuple(dims_other)))


def linear(input, weight, bias=None):
    if operands.is_integral(input):
        product = fn.matmul(input, fn.matrix_transpose(weight))
        return product if bias is None else fn.add(product, bias)
    return functional.linear(input, weight, bias)


def bilinear(input1, input2, weight, bias=None):
    return functional.bilinear(input1, input2, weight, bias)


def cross(self, other, dim=None):
    axis = next(axis for axis, size in enumerate(self.shape) if size == 3) if dim is None else dim
    return linalg.cross(self, other, axis=axis)


def linalg_cross(self, other, *, dim=-1):
    return linalg.cross(self, other, axis=dim)


def cdist(x1, x2, p=2, compute_mode=None):
    return fn.cdist(x1, x2, p)


def _cdist_forward(x1, x2, p, compute_mode):
    return fn.cdist(x1, x2, p)


def pdist(self, p=2):
    return fn.pdist(self, p)


def matrix_power(self, n):
    return linalg.matrix_power(self, n)


linalg_matrix_power = matrix_power


def matrix_exp(self):
    return linalg.matrix_exp(self)


linalg_matrix_exp = matrix_exp


def linalg_matrix_norm(self, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    return linalg.norm(operands.cast(self, dtype), ord, tuple(dim), keepdim)


def linalg_det(A):
    return linalg.det(A)


def det(self):
    return linalg.det(self)


def linalg_slogdet(A):
    return tuple(linalg.slogdet(A))


def slogdet(self):
    return tuple(linalg.slogdet(self))


def logdet(self):
    sign, logarithm = linalg.slogdet(self)
    if operands.is_complex(sign):
        return fn.add(fn.log(sign), logarithm)
    return fn.where(fn.less(sign, 0), float("nan"), logarithm)


def linalg_inv(A):
    return linalg.inv(A)


def inverse(self):
    return linalg.inv(self)


def linalg_inv_ex(A, *, check_errors=False):
    return linalg.inv(A), fn.zeros(A.shape[:-2], dtype=operands.index_dtype(True))


def linalg_cholesky(self, *, upper=False):
    return linalg.cholesky(self, upper=upper)


def cholesky(self, upper=False):
    return linalg.cholesky(self, upper=upper)


def linalg_cholesky_ex(self, *, upper=False, check_errors=False):
    return linalg.cholesky(self, upper=upper), fn.zeros(self.shape[:-2], dtype=operands.index_dtype(True))


def cholesky_solve(self, input2, upper=False):
    return linalg.cholesky_solve(self, input2, upper=upper)


def cholesky_inverse(self, upper=False):
    return linalg.cholesky_inverse(self, upper=upper)


def linalg_solve(A, B, *, left=True):
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1])):
        return fn.squeeze(linalg.solve(A, fn.expand_dims(B, -1)), -1)
    if left:
        return linalg.solve(A, B)
    return fn.matrix_transpose(linalg.solve(fn.matrix_transpose(A), fn.matrix_transpose(B)))


def linalg_solve_triangular(self, B, *, upper, left=True, unitriangular=False):
    return linalg.solve_triangular(self, B, upper=upper, left=left, unitriangular=unitriangular)


def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    matrix, high = (fn.matrix_transpose(A), not upper) if transpose else (A, upper)
    return linalg.solve_triangular(matrix, self, upper=high, unitriangular=unitriangular), A


def linalg_pinv_atol_rtol_float(self, *, atol=None, rtol=None, hermitian=False):
    matrix = operands.symmetric(self, "L") if hermitian else self
    return linalg.pinv(matrix, rtol=rtol) if atol is None else operands.refuse("linalg_pinv", "atol")


linalg_pinv_atol_rtol_tensor = linalg_pinv_atol_rtol_float


def linalg_pinv(self, rcond=None, hermitian=False):
    return linalg.pinv(operands.symmetric(self, "L") if hermitian else self, rtol=rcond)


def linalg_qr(A, mode="reduced"):
    return tuple(linalg.qr(A, mode=mode))


def linalg_svd(A, full_matrices=True, *, driver=None):
    return tuple(linalg.svd(A, full_matrices=full_matrices))


def linalg_svdvals(A, *, driver=None):
    return linalg.svdvals(A)


def linalg_eigh(self, UPLO="L"):
    return tuple(linalg.eigh(operands.symmetric(self, UPLO)))


def linalg_eigvalsh(self, UPLO="L"):
    return linalg.eigvalsh(operands.symmetric(self, UPLO))


def linalg_eig(self):
    return tuple(linalg.eig(self))


def linalg_eigvals(self):
    return linalg.eigvals(self)


def linalg_lu_factor(A, *, pivot=True):
    return tuple(linalg.lu_factor(A))


def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    return linalg.lu_solve(LU, pivots, B, left=left, adjoint=adjoint)


def linalg_householder_product(input, tau):
    return linalg.householder_product(input, tau)


def linalg_vander(x, *, N=None):
    return linalg.vander(x, N)


def pinverse(self, rcond=1e-15):
    return linalg.pinv(self, rtol=rcond)


def qr(self, some=True):
    return tuple(linalg.qr(self, mode="reduced" if some else "complete"))


def linalg_cond(self, p=None):
    return linalg.cond(self, p)


def linalg_matrix_rank(self, tol, hermitian=False):
    return linalg.matrix_rank(self, atol=tol, rtol=0.0, hermitian=hermitian)


def linalg_matrix_rank_tol_tensor(input, tol, hermitian=False):
    return linalg.matrix_rank(input, atol=tol, rtol=0.0, hermitian=hermitian)


def linalg_matrix_rank_atol_rtol_float(self, *, atol=None, rtol=None, hermitian=False):
    return linalg.matrix_rank(self, atol=atol, rtol=rtol, hermitian=hermitian)


def linalg_matrix_rank_atol_rtol_tensor(input, *, atol=None, rtol=None, hermitian=False):
    return linalg.matrix_rank(input, atol=atol, rtol=rtol, hermitian=hermitian)


def linalg_lu(A, *, pivot=True):
    return tuple(linalg.lu(A)) if pivot else operands.refuse("linalg_lu", "pivot=False")


def linalg_lstsq(self, b, rcond=None, *, driver=None):
    return tuple(linalg.lstsq(self, b, rcond=rcond))


def lu_solve(self, LU_data, LU_pivots):
    return linalg.lu_solve(LU_data, LU_pivots, self)


def linalg_solve_ex(A, B, *, left=True, check_errors=False):
    return linalg_solve(A, B, left=left), fn.zeros(A.shape[:-2], dtype=operands.index_dtype(True))


def linalg_tensorsolve(self, other, dims=None):
    axes = [axis % self.ndim for axis in dims or ()]
    order = [axis for axis in range(self.ndim) if axis not in axes] + axes
    matrix = fn.permute_dims(self, tuple(order))
    unknown = matrix.shape[other.ndim :]
    rows = fn.reshape(matrix, (other.size, -1))
    return fn.reshape(linalg.solve(rows, fn.ravel(other)), unknown)


def linalg_tensorinv(self, ind=2):
    rows = fn.reshape(self, (int(operands.count_of(self.shape[:ind])), -1))
    return fn.reshape(linalg.inv(rows), (*self.shape[ind:], *self.shape[:ind]))


def orgqr(self, input2):
    return linalg.householder_product(self, input2)


def frobenius_norm_dim(self, dim, keepdim=False):
    return linalg.vector_norm(self, axis=operands.axes(dim), keepdims=keepdim)


def nuclear_norm(self, keepdim=False):
    return linalg.norm(self, "nuc", (-2, -1), keepdim)


def nuclear_norm_dim(self, dim, keepdim=False):
    return linalg.norm(self, "nuc", tuple(dim), keepdim)


def cov(self, *, correction=1, fweights=None, aweights=None):
    return fn.cov(self, correction=correction, fweights=fweights, aweights=aweights)


def corrcoef(self):
    return fn.corrcoef(self)


def _euclidean_dist(x1, x2):
    return fn.cdist(x1, x2)


def _pdist_forward(self, p=2):
    return fn.pdist(self, p)


def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    expanded = [operands.with_axes(x, axes) for x, axes in ((i1, expand1), (i2, expand2), (i3, expand3))]
    product = fn.multiply(fn.multiply(expanded[0], expanded[1]), expanded[2])
    return fn.sum(product, tuple(sumdim)) if sumdim else product


def _weight_norm(v, g, dim=0):
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim) if dim != -1 else None
    return fn.multiply(v, fn.divide(g, linalg.vector_norm(v, axis=axes, keepdims=axes is not None)))


def _weight_norm_interface(v, g, dim=0):
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    norms = linalg.vector_norm(v, axis=axes, keepdims=True)
    return fn.multiply(v, fn.divide(g, norms)), norms


def norm_except_dim(v, pow=2, dim=0):
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    return linalg.vector_norm(v, axis=axes, keepdims=True, ord=pow)
