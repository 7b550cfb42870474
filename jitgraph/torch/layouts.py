"""Indices and layouts: which indices make views, where elements lie, what an axis is called."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.tensor import lifting
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.metadata import Size

StorageLayout: TypeAlias = tuple[Any, tuple[Any, ...]]
"""Where the elements of a tensor lie: how many precede the first one, and the strides by axis, in elements."""


def axis_of(dim: int, ndim: int) -> int:
    """A non-negative axis; IndexError where there is none."""
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        low, high = -max(ndim, 1), max(ndim, 1) - 1
        raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")
    return dim % max(ndim, 1)


def contiguous_strides(shape: Any) -> tuple[Any, ...]:
    """The strides of a tensor in row-major order, in elements."""
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * (size if type(size) is not int or size > 1 else 1)
    return tuple(reversed(strides))


def same_layout(shape: tuple[Any, ...], layout: StorageLayout) -> StorageLayout:
    """The layout of a view with the same elements in the same shape."""
    return layout


def is_contiguous(shape: tuple[Any, ...], strides: tuple[Any, ...]) -> bool:
    """Whether strides are those of row-major order, of axes with more than one element."""
    if 0 in [size for size in shape if type(size) is int]:
        return True
    pairs = zip(shape, strides, contiguous_strides(shape), strict=True)
    return all(
        stride is expected or stride == expected
        for size, stride, expected in pairs
        if type(size) is not int or size != 1
    )


def storage_positions(sizes: Any, strides: Any, offset: Any) -> Any:
    """The positions (int64) in a storage of the elements of a strided view, in the shape of the view."""
    positions: Any = jg.full((1,) * len(sizes), offset, dtype=jg.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        along = jg.multiply(jg.arange(size), stride)
        positions = jg.add(positions, jg.reshape(along, (-1,) + (1,) * (len(sizes) - axis - 1)))
    return positions


def is_basic(index: Any) -> bool:
    """Whether an index makes a view: of ints, slices, None, ``...`` and integer tensors of rank 0."""
    for item in index if isinstance(index, tuple) else (index,):
        if item is None or item is Ellipsis or item.__class__ is int:
            continue
        if isinstance(item, slice):
            if item.step is not None and type(item.step) is int and item.step <= 0:
                raise ValueError("step must be greater than zero")
            continue
        if isinstance(item, jg.Tensor) and not item.ndim and dtypes.is_integer(item._static.type.dtype):
            continue
        if (
            isinstance(item, bool | list | tuple | range | jg.Tensor)
            or not hasattr(item, "__index__")
            or bool(getattr(item, "ndim", 0))
        ):
            return False
    return True


def is_within(items: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    """Whether a basic index is seen at a glance to fit: ints that are in range, and slices by ints."""
    if len(items) > len(shape):
        return False
    for item, size in zip(items, shape, strict=False):
        if item.__class__ is int:
            if not -size <= item < size:
                return False
        elif item.__class__ is not slice or not {type(item.start), type(item.stop), type(item.step)} <= _BOUNDS:
            return False
    return True


_BOUNDS: Final = {int, type(None)}


def advanced(index: Any) -> Any:
    """An index for ``indexing``: lists as tensors of integers or as masks."""
    if isinstance(index, tuple):
        return tuple(map(_picks, index))
    return _picks(index)


def _picks(item: Any) -> Any:
    if isinstance(item, list | tuple | range):
        return jg.asarray([*item], dtype=None if len(item) else jg.int64)
    if isinstance(item, jg.Tensor) and item._static.type.dtype == dtypes.uint8:
        return wrap(lifting.cast(item.value, dtypes.bool_))  # PyTorch's masks of old
    return item


class ElementCount(int):
    """How many elements a tensor has; a call gives its sizes, as PyTorch's method ``size`` does."""

    shape: Size

    @classmethod
    def of(cls, shape: Size, known: bool) -> Any:
        """The count of a shape, whose sizes may be known to be ints; where it has no number, what gives the sizes."""
        if not known and not all(type(size) is int for size in shape):
            return lambda dim=None: shape if dim is None else shape[axis_of(dim, len(shape))]
        count = cls(math.prod(shape))
        count.shape = shape
        return count

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[axis_of(dim, len(self.shape))]


def indexed_layout(shape: tuple[Any, ...], layout: StorageLayout, items: tuple[Any, ...]) -> StorageLayout:
    """Where the view by a basic index of a tensor begins in the storage, and its strides."""
    offset, strides = layout
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    result: list[Any] = []
    axis = 0
    for item in items:
        if item is None:
            result.append(0)
        elif item is Ellipsis:
            rest = len(shape) - used
            result += strides[axis : axis + rest]
            axis += rest
        elif isinstance(item, slice):
            known = all(type(bound) is int or bound is None for bound in (item.start, item.stop, item.step))
            if known and type(shape[axis]) is int:
                start, _, step = item.indices(shape[axis])
                offset = offset + start * strides[axis]
            else:
                step = item.step or 1
            result.append(strides[axis] * step)
            axis += 1
        else:
            if type(item) is int and type(shape[axis]) is int:
                if not -shape[axis] <= item < shape[axis]:
                    raise IndexError(f"index {item} is out of bounds for dimension {axis} with size {shape[axis]}")
                offset = offset + item % shape[axis] * strides[axis]
            axis += 1
    return offset, (*result, *strides[axis:])
