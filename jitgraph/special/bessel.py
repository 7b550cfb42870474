"""Bessel functions of orders 0 and 1 in SciPy's short names, and PyTorch's long ones for the same functions."""

from __future__ import annotations

from jitgraph import ops
from jitgraph.tensor import Tensor, elementwise
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.special_functions import i0, i1
from jitgraph.tensor.lifting import TensorLike


@array_function
def j0(x: TensorLike) -> Tensor:
    """The Bessel function of the first kind of order 0; NaN at infinity. Integers and bools are computed in float32."""
    return elementwise(ops.j0, x, floating=True)


@array_function
def j1(x: TensorLike) -> Tensor:
    """The Bessel function of the first kind of order 1; NaN at infinity. Integers and bools are computed in float32."""
    return elementwise(ops.j1, x, floating=True)


@array_function
def y0(x: TensorLike) -> Tensor:
    """The Bessel function of the second kind of order 0: -inf at 0, NaN below. Integers and bools in float32."""
    return elementwise(ops.y0, x, floating=True)


@array_function
def y1(x: TensorLike) -> Tensor:
    """The Bessel function of the second kind of order 1: -inf at 0, NaN below. Integers and bools in float32."""
    return elementwise(ops.y1, x, floating=True)


@array_function
def k0(x: TensorLike) -> Tensor:
    """The modified Bessel function of the second kind of order 0: inf at 0, NaN below. Integers in float32."""
    return elementwise(ops.k0, x, floating=True)


@array_function
def k1(x: TensorLike) -> Tensor:
    """The modified Bessel function of the second kind of order 1: inf at 0, NaN below. Integers in float32."""
    return elementwise(ops.k1, x, floating=True)


@array_function
def k0e(x: TensorLike) -> Tensor:
    """exp(x) k0(x), without underflow: inf at 0, NaN below. Integers and bools are computed in float32."""
    return elementwise(ops.k0e, x, floating=True)


@array_function
def k1e(x: TensorLike) -> Tensor:
    """exp(x) k1(x), without underflow: inf at 0, NaN below. Integers and bools are computed in float32."""
    return elementwise(ops.k1e, x, floating=True)


bessel_j0, bessel_j1, bessel_y0, bessel_y1 = j0, j1, y0, y1
modified_bessel_i0, modified_bessel_i1 = i0, i1
modified_bessel_k0, modified_bessel_k1 = k0, k1
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = k0e, k1e
