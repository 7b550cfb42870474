"""Sizes of tensors, and tensors of given sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


@define("Shape", raw=True, reads_elements=False)
def shape(x: Any, start: int = 0, end: int | None = None) -> Any:
    return values.objects(x.shape[start:end])


@define("Size", raw=True, reads_elements=False)
def size(x: Any) -> Any:
    return values.objects([math.prod(x.shape)]).reshape(())


@define("Constant", raw=True)
def constant(
    value: Any = None,
    sparse_value: Any = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_int: int | None = None,
    value_ints: Any = None,
    value_string: str | None = None,
    value_strings: Any = None,
) -> Any:
    if value is not None or sparse_value is not None:
        return value if value is not None else sparse_value
    if value_float is not None or value_floats is not None:
        return np.array(value_float if value_float is not None else value_floats, np.float32)
    if value_int is not None or value_ints is not None:
        return np.array(value_int if value_int is not None else value_ints, np.int64)
    if value_string is None and value_strings is None:
        raise UnsupportedOp("Constant has no value")
    return np.array(value_string if value_string is not None else value_strings, object)


def _filled(sizes: Any, value: Any = None) -> Any:
    fill = np.zeros(1, np.float32) if value is None else value
    wanted = values.sizes(sizes)
    if fill.dtype.kind in "iub" and all(type(each) is int for each in wanted) and math.prod(wanted) <= 4096:
        return np.full(wanted, fill.flat[0], fill.dtype)
    if fill.dtype in values.STORED:
        return np.full(wanted, fill.flat[0], fill.dtype)
    return fn.full(tuple(wanted), fill.flat[0].item(), dtype=fill.dtype)


@define("ConstantOfShape", host=(0,))
def constant_of_shape(sizes: Any, value: Any = None) -> Any:
    return _filled(sizes, value)


@define("Range", host=(0, 1, 2), raw=True)
def arange(start: Any, limit: Any, delta: Any, **old: Any) -> Any:
    dtype = values.dtype_of(start)
    first, stop, step = (values.one(values.host(each, "the range")) for each in (start, limit, delta))
    if all(type(each) is int for each in (first, stop, step)):
        return np.arange(first, stop, step).astype(dtype)
    if dtype.kind == "f":
        count = max(0, math.ceil((stop - first) / step))
        return (first + step * np.arange(count, dtype=dtype)).astype(dtype)
    return fn.arange(first, stop, step, dtype=dtype)


@define("EyeLike")
def eye_like(x: Any, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    return fn.eye(rows, columns, k=k, dtype=x.dtype if dtype is None else values.dtype_of_number(dtype))


def _reshape_on_host(x: Any, sizes: Any, allowzero: int = 0) -> Any:
    return x.reshape(_wanted(x, sizes, allowzero))


def _wanted(x: Any, sizes: Any, allowzero: int) -> tuple[Any, ...]:
    wanted = values.sizes(sizes)
    if not allowzero:
        wanted = [x.shape[i] if type(each) is int and each == 0 else each for i, each in enumerate(wanted)]
    if any(type(each) is int and each == -1 for each in wanted) and any(type(n) is int and n == 0 for n in wanted):
        known = math.prod(each for each in wanted if not (type(each) is int and each == -1))
        if type(known) is int and known == 0:
            wanted = [0 if type(each) is int and each == -1 else each for each in wanted]
    return tuple(wanted)


@define("Reshape", since=5, host=(1,), raw=True)
def reshape(x: Any, sizes: Any, allowzero: int = 0) -> Any:
    wanted = _wanted(x, values.host(sizes, "the shape of Reshape"), allowzero)
    if isinstance(x, np.ndarray):
        if all(type(each) is int for each in wanted):
            return x.reshape(wanted)
        x = values.tensor(x)
    return fn.reshape(x, wanted)


@define("Reshape")
def reshape_by_attribute(x: Any, shape: Any = (), **old: Any) -> Any:
    return fn.reshape(x, _wanted(x, np.array(shape, np.int64), 0))


@define("Flatten")
def flatten(x: Any, axis: int) -> Any:
    axis += x.ndim if axis < 0 else 0
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    return fn.reshape(x, (rows, columns))


@define("Expand", host=(1,), raw=True)
def expand(x: Any, sizes: Any) -> Any:
    wanted = values.sizes(values.host(sizes, "the shape of Expand"))
    known = all(type(each) is int for each in wanted)
    if isinstance(x, np.ndarray) and known and math.prod(wanted) <= 4096:
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(wanted)))
    x = values.tensor(x)
    own = (*[1] * (len(wanted) - x.ndim), *x.shape)
    target = [*[own[i] for i in range(len(own) - len(wanted))], *wanted]
    shape = [size if type(each) is int and each == 1 else each for size, each in zip(own, target, strict=True)]
    return fn.broadcast_to(x, tuple(shape))


@define("Tile", since=6, host=(1,), raw=True)
def tile(x: Any, repeats: Any) -> Any:
    counts = values.sizes(values.host(repeats, "the counts of Tile"))
    if isinstance(x, np.ndarray) and all(type(each) is int for each in counts):
        return np.tile(x, counts)
    return fn.tile(values.tensor(x), tuple(counts))


@define("Tile", host=(1, 2))
def tile_along(x: Any, count: Any, axis: Any) -> Any:
    own = values.one(axis)
    return fn.tile(x, tuple(values.one(count) if i == own else 1 for i in range(x.ndim)))


def _joined_on_host(*arrays: Any, axis: int = 1, **old: Any) -> Any:
    if any(array.dtype.kind == "O" for array in arrays) and not any(values.is_text(array) for array in arrays):
        arrays = tuple(array.astype(object) for array in arrays)
    return np.concatenate(arrays, axis)


@define("Concat", on_host=_joined_on_host)
def concat(*xs: Any, axis: int = 1) -> Any:
    return fn.concat(xs, axis=axis)


@define("Transpose", on_host=lambda x, perm=None: np.transpose(x, perm))
def transpose(x: Any, perm: Any = None) -> Any:
    return fn.permute_dims(x, tuple(perm) if perm is not None else tuple(reversed(range(x.ndim))))


def _axes(axes: Any, rank: int) -> tuple[int, ...]:
    return tuple(axis + rank if axis < 0 else axis for axis in axes)


def _unsqueezed_shape(x: Any, axes: Any) -> tuple[Any, ...]:
    new = set(_axes(axes, x.ndim + len(axes)))
    if len(new) < len(axes) or any(not 0 <= axis < x.ndim + len(axes) for axis in new):
        raise UnsupportedOp(f"Unsqueeze of rank {x.ndim} at the axes {list(axes)}")
    rest = iter(x.shape)
    return tuple(1 if i in new else next(rest) for i in range(x.ndim + len(axes)))


def _squeezed_shape(x: Any, axes: Any) -> tuple[Any, ...]:
    if axes is None:
        return tuple(size for size in x.shape if not (type(size) is int and size == 1))
    dropped = set(_axes(axes, x.ndim))
    for axis in dropped:
        if x.shape[axis] != 1:
            raise UnsupportedOp(f"Squeeze of axis {axis}, which has the size {x.shape[axis]}")
    return tuple(size for i, size in enumerate(x.shape) if i not in dropped)


def _in_shape(x: Any, shape: tuple[Any, ...]) -> Any:
    if isinstance(x, np.ndarray):
        return x.reshape(shape)
    return fn.reshape(x, shape)


@define("Unsqueeze", since=13, host=(1,), raw=True)
def unsqueeze(x: Any, axes: Any) -> Any:
    return _in_shape(x, _unsqueezed_shape(x, values.sizes(values.host(axes, "the axes"))))


@define("Unsqueeze", raw=True)
def unsqueeze_by_attribute(x: Any, axes: Any) -> Any:
    return _in_shape(x, _unsqueezed_shape(x, axes))


@define("Squeeze", since=13, host=(1,), raw=True)
def squeeze(x: Any, axes: Any = None) -> Any:
    return _in_shape(x, _squeezed_shape(x, None if axes is None else values.sizes(values.host(axes, "the axes"))))


@define("Squeeze", raw=True)
def squeeze_by_attribute(x: Any, axes: Any = None) -> Any:
    return _in_shape(x, _squeezed_shape(x, axes))
