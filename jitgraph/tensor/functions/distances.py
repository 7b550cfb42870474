"""Distances between rows, and rows held to a norm; gradients are 0 where a distance is 0, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import abs, sign, where
from jitgraph.tensor.functions.manipulation import moveaxis
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.norms import p_norm
from jitgraph.tensor.functions.operands import float_tensor, float_tensors
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def _norm(left: Tensor, p: float) -> Tensor:
    """The p-norm along the last axis; for p = 0 the number of elements that are not 0, NaN where one is."""
    if not p >= 0:
        raise JitgraphError(f"a {p}-norm: p is not negative, or infinite for the largest element")
    if p == 0:
        return sum_of(abs(sign(left)), -1)
    return p_norm(left, p, -1)


@method
def cdist(x1: TensorLike, x2: TensorLike, p: float = 2.0) -> Tensor:
    """The p-norm of each row of x1[..., P, M] less each of x2[..., R, M], as [..., P, R].

    Computed by differences, so that near rows lose nothing. ShapeError where the rows have other lengths.
    """
    a, b = float_tensor(x1), float_tensor(x2)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist takes x1[..., P, M] and x2[..., R, M], not {a.value.type} and {b.value.type}")
    difference: Tensor = expand_dims(a, -2) - expand_dims(b, -3)
    return _norm(difference, float(p))


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
