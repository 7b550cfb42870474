"""Inverses of views: ``f(whole, part, ...)`` is the whole with a new part where the view of these arguments lies.

The handles of views (``functions/views.py``) and graphs that write (``programs/functionalise.py``) put parts back by
these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jitgraph.tensor import functions as fn
from jitgraph.torch import aten_ops

PutBack: TypeAlias = Callable[..., Any]


def reshaped(whole: Any, part: Any, *args: Any, **kwargs: Any) -> Any:
    """Of a view in another shape."""
    return fn.reshape(part, whole.shape)


def transposed(whole: Any, part: Any, dim0: int, dim1: int) -> Any:
    """Of two axes swapped."""
    return fn.swapaxes(part, dim0, dim1)


def permuted(whole: Any, part: Any, dims: Sequence[int]) -> Any:
    """Of axes in another order."""
    order = [dim % whole.ndim for dim in dims]
    return fn.permute_dims(part, tuple(order.index(axis) for axis in range(whole.ndim)))


def selected(whole: Any, part: Any, dim: int, index: Any) -> Any:
    """Of one index of an axis."""
    return fn.select_scatter(whole, part, dim, index)


def sliced(whole: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """Of a slice of an axis."""
    scatter: Any = aten_ops.lookup("slice_scatter")
    return scatter(whole, part, dim, start, end, step)


def narrowed(whole: Any, part: Any, dim: int, start: Any, length: Any) -> Any:
    """Of ``length`` indices of an axis."""
    return fn.slice_scatter(whole, part, dim, start, start + length)


def on_diagonal(whole: Any, part: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Of a diagonal."""
    return fn.diagonal_scatter(whole, part, offset, dim1, dim2)


def of_real_pairs(whole: Any, part: Any) -> Any:
    """Of complex numbers as pairs."""
    return fn.view_as_complex(part)


def of_complex_numbers(whole: Any, part: Any) -> Any:
    """Of pairs as complex numbers."""
    return fn.view_as_real(part)
