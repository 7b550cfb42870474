"""Comparisons to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import Tensor
from jitgraph.dtypes import is_float

Array = np.ndarray[Any, Any]


def bits_of(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Dtype, shape and memory of an array or tensor: equal where these are."""
    array = np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value)
    return array.dtype.name, array.shape, array.tobytes()


def same_bits(left: Array, right: Array) -> Array:
    """Where two arrays of one dtype and shape have the same bits, or both have a NaN."""
    assert (left.dtype, left.shape) == (right.dtype, right.shape), (
        f"{left.dtype}{left.shape} {right.dtype}{right.shape}"
    )
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    same = left.view(f"u{left.dtype.itemsize}") == right.view(f"u{right.dtype.itemsize}")
    if is_float(left.dtype):
        with np.errstate(invalid="ignore"):
            same |= (left != left) & (right != right)
    return np.asarray(same).reshape(np.shape(left))
