"""Weighted windows of the elements along an axis, which resizing images and adaptive pools are made of.

Sizes of spatial axes are known numbers here; places and weights are computed in float64 when the call is recorded.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.errors import UndecidedError
from jitgraph.tensor import lifting
from jitgraph.tensor.tensor import Tensor, wrap

Array = np.ndarray[Any, Any]

CUBIC: Final = -0.75
"""The number by which PyTorch chooses among Keys' kernels (R. Keys, IEEE Trans. ASSP 29, 1981)."""


def known_sizes(x: Tensor, first: int, name: str) -> tuple[int, ...]:
    """The sizes from axis ``first`` on, which have to be numbers."""
    sizes = x.value.type.shape[first:]
    for size in sizes:
        if not isinstance(size, int):
            raise UndecidedError(f"{name} along the named size {size}", hint="name batch and channels alone")
    return tuple(sizes)


def weighted(x: Tensor, axis: int, indices: Array, weights: Array) -> Tensor:
    """Sums along ``axis`` of elements at ``indices`` [out, taps] times ``weights``, tap after tap."""
    column = (-1, *[1] * (x.ndim - axis - 1))
    total: Any = None
    with placement.beside(x.value):
        for tap in range(indices.shape[1]):
            picked = wrap(ops.gather(x.value, lifting.value_of(indices[:, tap]), axis=axis))
            term = picked * np.reshape(weights[:, tap], column).astype(x.dtype)
            total = term if total is None else total + term
    result: Tensor = total
    return result


def windows(starts: Array, stops: Array) -> tuple[Array, Array]:
    """The places from each of ``starts`` to before its stop, [out, most]; short rows repeat their first place.

    The second array says which places are no repetitions.
    """
    offsets = np.arange(int((stops - starts).max(initial=1)))
    counted = offsets < (stops - starts)[:, None]
    return np.where(counted, starts[:, None] + offsets, starts[:, None]), counted


def shared_with_repetitions(weights: Array, counted: Array) -> Array:
    """``weights`` whose first column is divided among the repetitions: a weight of 0 would make NaN of infinity."""
    first = ~counted
    first[:, 0] = True
    return np.where(first, weights[:, :1] / first.sum(axis=1, keepdims=True), weights)


def cubic_near(d: Any, a: float) -> Any:
    """Keys' kernel for distances of up to 1."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def cubic_far(d: Any, a: float) -> Any:
    """Keys' kernel for distances from 1 to 2, beyond which it is 0."""
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
