"""det and slogdet: determinants, and the derivatives of det, which are there for singular matrices too.

A determinant is a polynomial of the elements, so its derivatives are sums of products of minors: the cofactors, and
what these give. With a = u s v.H they are those of the singular values s, turned back by u and v.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules, small_matrices
from jitgraph.ops.arithmetic import add, neg, sub
from jitgraph.ops.linear_systems import inv, square_samples
from jitgraph.ops.matrices import (
    BY_FACTORS,
    adjoint,
    as_like,
    conj,
    imaginary_part,
    matrix_op,
    product,
    repeated,
    require_square,
    sums,
    times,
    turned,
)
from jitgraph.ops.numeric import Array, joined
from jitgraph.runtime import imports


def _cofactors(a: Array) -> Array:
    """By the singular value decomposition: products of all others of the singular values, with the sign."""
    u, s, vh = np.linalg.svd(a)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    others = before * after if s.shape[-1] else s
    return _signed(u, vh, (u.conj() * others[..., None, :]) @ vh.conj())


def _signed(u: Array, vh: Array, x: Array) -> Array:
    """x with the sign, or the phase, of the determinant of u @ vh."""
    sign = _product(np.linalg.det(u), np.linalg.det(vh))[..., None, None]
    sign = sign if np.iscomplexobj(sign) else np.rint(sign)
    return _product(sign, x)


def _product(x: Array, y: Array) -> Array:
    """x * y; of complex numbers by parts, as NumPy's own rounds in vectors otherwise than in what is left of them."""
    if not np.iscomplexobj(x):
        return np.asarray(x * y)
    return joined(np.asarray(x.real * y.real - x.imag * y.imag), np.asarray(x.real * y.imag + x.imag * y.real))


def _cofactors_gradient(ct: Array, a: Array) -> Array:
    """By the singular value decomposition, after which the minors are products of all but two of the values."""
    u, s, vh = np.linalg.svd(a)
    others = _products_of_all_but_two(s)
    turned_ct = np.swapaxes(u, -1, -2).conj() @ ct @ np.swapaxes(vh, -1, -2).conj()
    gradient = -others * np.swapaxes(turned_ct, -1, -2)
    diagonal = np.diagonal(turned_ct, axis1=-2, axis2=-1)
    indices = np.arange(s.shape[-1])
    gradient[..., indices, indices] = (others @ diagonal[..., None])[..., 0]
    return _signed(u, vh, u.conj() @ gradient @ vh.conj())


def _products_of_all_but_two(s: Array) -> Array:
    """For each two of the numbers of a vector the product of all others; 0 on the diagonal."""
    size = s.shape[-1]
    products = np.zeros((*s.shape, size), s.dtype)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], axis=-1), axis=-1) if size else s
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1] if size else s
    for i in range(size - 1):
        between = np.cumprod(np.concatenate([ones, s[..., i + 1 : -1]], axis=-1), axis=-1)
        products[..., i, i + 1 :] = before[..., i : i + 1] * between * after[..., i + 1 :]
    return np.asarray(products + np.swapaxes(products, -1, -2))


def _cofactors_gradient_vjp(ct: Any, out: Any, x: Any, a: Any) -> tuple[Any, Any]:
    """By x the same, as second derivatives are symmetric; by a of det(a) inv(a).T, for invertible matrices."""
    return cofactors_gradient(ct, conj(a)), _third(ct, conj(x), conj(a))


def _third(g: Any, c: Any, a: Any) -> Any:
    """The derivative by a of the sum of g times ``cofactors_gradient(c, a)``."""
    o = turned(inv(a))  # whose derivative along x is -o @ x.T @ o
    left, right = product(o, turned(c), o), product(o, turned(g), o)
    by_g, by_c = sums(times(g, o)), sums(times(c, o))
    scalars = sub(times(by_g, by_c), sums(times(g, left)))
    total = times(o, repeated(o, scalars))
    total = sub(total, add(times(right, repeated(o, by_c)), times(left, repeated(o, by_g))))
    both = add(product(left, turned(g), o), product(right, turned(c), o))
    return times(add(total, both), repeated(o, det(a)))


cofactors_gradient: Op = matrix_op(
    "cofactors_gradient",
    lambda ct, a: _alike(require_square("cofactors_gradient", ct), require_square("cofactors_gradient", a)),
    _cofactors_gradient,
    count=2,
    generated=small_matrices.cofactors_gradient,
    is_generated=small_matrices.is_small,
    composed=imports.function(BY_FACTORS, "cofactors_gradient"),
    vjp=_cofactors_gradient_vjp,
    samples=lambda array: [Sample((array(*x.inputs[0].shape), *x.inputs)) for x in square_samples(array)],
    doc="The gradient by a of the sum of ct times cofactors(a), also of singular matrices.",
)


def _alike(ct: TensorType, a: TensorType) -> TensorType:
    rules.same_shape("cofactors_gradient", (ct, a))
    return a


def _cofactors_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    return (cofactors_gradient(ct, conj(a)),)


cofactors: Op = matrix_op(
    "cofactors",
    lambda a: require_square("cofactors", a),
    _cofactors,
    generated=small_matrices.cofactors,
    is_generated=small_matrices.is_small,
    composed=imports.function(BY_FACTORS, "cofactors"),
    vjp=_cofactors_vjp,
    samples=square_samples,
    doc="The derivative of the determinant by each element, also of singular matrices.",
)


def _number_type(name: str, a: Type) -> TensorType:
    type = require_square(name, a)
    return TensorType(type.dtype, type.shape[:-2])


def _det_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    return (times(repeated(a, ct), conj(cofactors(a))),)


det: Op = matrix_op(
    "det",
    lambda a: _number_type("det", a),
    np.linalg.det,
    generated=small_matrices.determinant,
    is_generated=small_matrices.is_small,
    alone="determinant",
    vjp=_det_vjp,
    samples=square_samples,
    doc="The determinants of square matrices.",
)


def _slogdet_type(a: Type) -> tuple[TensorType, TensorType]:
    type = _number_type("slogdet", a)
    return type, TensorType(dtypes.part_of(type.dtype), type.shape)


def _slogdet_vjp(ct: Any, out: Any, a: Any) -> tuple[Any]:
    """Of real matrices the sign is constant; of complex ones it turns with the imaginary part of the trace."""
    scale = None if ct[1] is None else as_like(ct[1], a)
    if ct[0] is not None and dtypes.is_complex(a.dtype):
        turn = neg(imaginary_part(times(conj(ct[0]), out[0])))
        scale = turn if scale is None else add(scale, turn)
    return (None if scale is None else times(repeated(a, scale), adjoint(inv(a))),)


slogdet: Op = matrix_op(
    "slogdet",
    _slogdet_type,
    lambda a: tuple(np.linalg.slogdet(a)),
    generated=small_matrices.signed_logarithm,
    is_generated=small_matrices.is_small,
    alone="determinant",
    vjp=_slogdet_vjp,
    samples=square_samples,
    doc="The sign of the determinant and the logarithm of its magnitude: 0 and -inf of a singular matrix.",
)
