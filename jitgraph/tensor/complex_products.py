"""Products of complex numbers along axes: of halves and halves of these for one number, by doubled steps for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph import ops
from jitgraph.errors import ShapeError


def product(value: Any, axes: Sequence[int], *, keepdims: bool = False) -> Any:
    """The product over ``axes``; ShapeError where one of them has a name for its size."""
    for axis in reversed(axes):
        value = _along(value, axis)
        if not keepdims:
            value = ops.reshape(value, shape=tuple(d for i, d in enumerate(value.shape) if i != axis))
    return value


def _along(value: Any, axis: int) -> Any:
    size = _size(value, axis, "prod")
    if size == 0:
        shape = tuple(1 if i == axis else extent for i, extent in enumerate(value.shape))
        return ops.full(shape=shape, value=1.0, dtype=value.dtype)
    while size > 1:
        half = size // 2
        paired = ops.complex_mul(_part(value, axis, 0, half), _part(value, axis, half, 2 * half))
        rest = [_part(value, axis, 2 * half, size)] if size % 2 else []
        value = ops.concat(paired, *rest, axis=axis) if rest else paired
        size = half + size % 2
    return value


def running_product(value: Any, axis: int) -> Any:
    """The products up to each element of ``axis``: by 1, 2, 4 ... elements back (Hillis and Steele, CACM 29, 1986)."""
    size, step = _size(value, axis, "cumprod"), 1
    while step < size:
        later = ops.complex_mul(_part(value, axis, 0, size - step), _part(value, axis, step, size))
        value = ops.concat(_part(value, axis, 0, step), later, axis=axis)
        step *= 2
    return value


def _size(value: Any, axis: int, name: str) -> int:
    size = value.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(
            f"{name} of complex numbers along axis {axis}, whose size {size} is a name",
            hint="give that size as a number",
        )
    return size


def _part(value: Any, axis: int, start: int, stop: int) -> Any:
    starts = tuple(start if i == axis else 0 for i in range(len(value.shape)))
    stops = tuple(stop if i == axis else extent for i, extent in enumerate(value.shape))
    return ops.slice(value, starts=starts, stops=stops, strides=(1,) * len(starts))
