"""The p-norm of vectors, the one formula behind jg.linalg, losses and clipping; distances between rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ops.transcendental import root
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import abs, sign, where
from jitgraph.tensor.functions.manipulation import moveaxis
from jitgraph.tensor.functions.method import axes_of, axis_of, method
from jitgraph.tensor.functions.operands import float_tensor, float_tensors
from jitgraph.tensor.functions.reductions import max as greatest
from jitgraph.tensor.functions.reductions import min as least
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.reductions import sum as total
from jitgraph.tensor.functions.shapes import expand_dims, reshape, squeeze
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_kernel import one_kernel
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# The p-norm of vectors: the one formula behind jg.linalg, distances, losses, normalisation and clipping.


def p_norm(x: Tensor, p: float, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
    """(sum |x|^p)^(1/p) over ``axis``, of floats or complex numbers; p is any number, or infinite.

    The greatest and the least magnitude for inf and -inf, the number of elements that are not 0 for 0. Derivatives
    count as 0 at an element and at a norm of 0, as in PyTorch.
    """
    if math.isnan(p):
        raise JitgraphError("a nan-norm\n  hint: p is a number, or infinite for the largest element")
    axes = axes_of(axis, x.ndim, "norm")
    if p == 2:
        squares = x.real * x.real + x.imag * x.imag if dtypes.is_complex(x.dtype) else x * x
        summed = total(squares, axis=axes, keepdims=keepdims).value
        with placement.beside(summed):
            return wrap(root(summed))
    size = x.abs()
    if p == 0:
        return total(where(size != 0, 1.0, sign(size)), axis=axes, keepdims=keepdims)  # a step, with a slope of 0
    if p == 1:
        return total(size, axis=axes, keepdims=keepdims)
    if math.isinf(p):
        return extreme(size, axes, p, keepdims=keepdims)
    if p > 0:
        return _power(total(_power(size, p), axis=axes, keepdims=keepdims), 1 / p)
    nothing = size == 0
    powers = where(nothing, math.inf, where(nothing, 1.0, size) ** p)
    summed = total(powers, axis=axes, keepdims=keepdims)
    return summed ** (1 / p)


def whole_range_norm(x: Tensor, p: float, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
    """``p_norm`` without overflow or underflow on the way, which takes one more look at each element.

    Where the decisive magnitude, which is the greatest or for p below 0 the least, has powers that may leave the range,
    all are scaled before. Elsewhere the result has the bits of ``p_norm``, which in eager mode on the CPU alone runs.
    """
    axes = axes_of(axis, x.ndim, "norm")
    is_empty = any(isinstance(x.shape[i], int) and not x.shape[i] for i in axes)
    if math.isnan(p) or math.isinf(p) or p in (0, 1) or is_empty or not axes:
        return p_norm(x, p, axis, keepdims=keepdims)
    limits = np.finfo(dtypes.part_of(x.dtype))
    low = 2.0 ** max((limits.minexp / 2 + 4) / math.fabs(p), limits.minexp)
    high = 2.0 ** min((limits.maxexp / 2 - 4) / math.fabs(p), limits.maxexp - 1)
    if isinstance(x.value, EagerValue) and isinstance(x.value.array, np.ndarray):
        plain = p_norm(x, p, axis, keepdims=keepdims)
        count = math.prod(x.value.array.shape[i] for i in axes)
        spread = 2 * count ** (1 / p)  # the decisive magnitude is between the norm and the norm over this
        found = plain.value.array
        bounds = (low * max(1.0, spread), high * min(1.0, spread))
        if np.all((found >= bounds[0]) & (found <= bounds[1])):
            return plain
    decisive = extreme(wrap(ops.stop_gradient(x.value)).abs(), axes, p, keepdims=True)
    is_high, is_low = (decisive > high) & (decisive < math.inf), (decisive < low) & (decisive > 0)
    scale = where(is_high | is_low, decisive, 1.0)
    norm = p_norm(x / scale, p, axis, keepdims=True) * scale
    return norm if keepdims else squeeze(norm, axes)


def finite_or_nan(norm: Tensor) -> Tensor:
    """The norm, and NaN where it is infinite or has overflowed: as a divisor that would silently give zeros."""
    checked: Tensor = where(norm == math.inf, math.nan, norm)
    return checked


def extreme(x: Tensor, axes: tuple[int, ...], p: float, *, keepdims: bool = False) -> Tensor:
    """The greatest of magnitudes for p above 0, which of no elements is 0, and the least for others."""
    if p < 0:
        return least(x, axis=axes, keepdims=keepdims)
    if any(isinstance(x.shape[axis], int) and not x.shape[axis] for axis in axes):
        return total(x, axis=axes, keepdims=keepdims)
    return greatest(x, axis=axes, keepdims=keepdims)


def _power(x: Tensor, exponent: float) -> Tensor:
    """x to a power above 0, for x from 0 up; where x is 0 the power of 1 is computed, so that no slope is infinite."""
    nothing = x == 0
    result: Tensor = where(nothing, 0.0, where(nothing, 1.0, x) ** exponent)
    return result


# ----------------------------------------------------------------------
# Distances between rows, and rows held to a norm; gradients are 0 where a distance is 0, as in PyTorch.


def _norm(left: Tensor, p: float) -> Tensor:
    """The p-norm along the last axis; for p = 0 the number of elements that are not 0, NaN where one is."""
    if not p >= 0:
        raise JitgraphError(f"a {p}-norm: p is not negative, or infinite for the largest element")
    if p == 0:
        return sum_of(abs(sign(left)), -1)
    return p_norm(left, p, -1)


@method
def cdist(x1: TensorLike, x2: TensorLike, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of each row of x1[..., P, M] and each of x2[..., R, M], as [..., P, R].

    Computed by differences, so that near rows lose nothing. ShapeError where the rows have other lengths.
    """
    a, b = float_tensor(x1), float_tensor(x2)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist takes x1[..., P, M] and x2[..., R, M], not {a.value.type} and {b.value.type}")
    distances: Tensor = _distances(a, b, p=float(p))
    return distances


def _differences(a: tuple[int, ...], b: tuple[int, ...], **attrs: Any) -> int:
    return math.prod(a) * b[-2]


@one_kernel(elements=_differences)
def _distances(a: Tensor, b: Tensor, *, p: float) -> Tensor:
    difference: Tensor = expand_dims(a, -2) - expand_dims(b, -3)
    return _norm(difference, p)


@method
def pdist(x: TensorLike, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of each two rows i < j of x[N, M], N (N - 1) / 2 of them."""
    rows = float_tensor(x)
    if rows.ndim != 2 or not isinstance(rows.value.type.shape[0], int):
        raise ShapeError(f"pdist takes a matrix with a known number of rows, not {rows.value.type}")
    pairs = np.triu_indices(rows.value.type.shape[0], 1)
    first, second = (placement.brought(lifting.value_of(i.astype(np.int64)), rows.value) for i in pairs)
    left, right = (wrap(ops.gather(rows.value, indices, axis=0)) for indices in (first, second))
    return _norm(left - right, float(p))


@method
def dist(x1: TensorLike, x2: TensorLike, p: float = 2.0) -> Tensor:
    """The p-norm of all elements of x1 - x2, which broadcast."""
    a, b = float_tensors(x1, x2)
    return p_norm(reshape(a - b, (-1,)), float(p))


@method
def renorm(x: TensorLike, p: float, axis: int, maxnorm: float) -> Tensor:
    """x, whose slices along ``axis`` are scaled down where their p-norm is greater than ``maxnorm``."""
    tensor = float_tensor(x)
    if tensor.ndim < 2 or maxnorm < 0:
        raise ShapeError(f"renorm of {tensor.value.type} with maxnorm={maxnorm}: 2 axes or more, and no negative norm")
    number = axis_of(axis, tensor.ndim, "renorm")
    slices = moveaxis(tensor, number, 0)
    count: Any = slices.value.type.shape[0]
    size = _norm(reshape(slices, (count, -1)), float(p))
    scale = where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return moveaxis(slices * reshape(scale, (count, *(1,) * (tensor.ndim - 1))), 0, number)
