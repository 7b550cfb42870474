"""``repeat``: each slice as often as a number says, or as a vector says for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes, foreign, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.functions.cumulative import cumsum
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.searching import counted, searchsorted, tensor_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed
from jitgraph.tensor.tensor import Tensor, wrap


@method
def repeat(x: TensorLike, repeats: int | TensorLike, axis: int | None = None, *, size: Any = None) -> Tensor:
    """Each slice along ``axis`` repeated in place; without an axis each element of the flat tensor.

    ``repeats`` may say for each slice how often, in a vector of integers; a trace then needs ``size``, which is their
    sum (ValueError where it is not).
    """
    value = lifting.value_of(x)
    if axis is None:
        value, axis = ops.reshape(value, shape=(dims.product(value.shape),)), 0
    number = axis_of(axis, len(value.shape), "repeat")
    repeats = scalars.python_int(repeats)
    if isinstance(repeats, Sequence):
        repeats = list(listed(repeats))
    if _is_of_each(repeats):
        return _repeated_each(value, repeats, number, size)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 0:
        raise ShapeError(f"repeat: repeats={repeats!r} is not a non-negative int", hint="jg.tile repeats whole tensors")
    before, length, after = value.shape[:number], value.shape[number], value.shape[number + 1 :]
    wide = (*before, length, repeats, *after)
    axes = tuple(i for i in range(len(wide)) if i != number + 1)
    spread = ops.broadcast(value, shape=wide, axes=axes)
    return wrap(ops.reshape(spread, shape=(*before, length * repeats, *after)))


def _is_of_each(repeats: Any) -> bool:
    """Whether ``repeats`` says for each slice how often, in a tensor, an array or a list."""
    return isinstance(repeats, Tensor | list | np.ndarray) or foreign.is_array(repeats)


def _repeated_each(value: Any, repeats: TensorLike, axis: int, size: Any) -> Tensor:
    """Slice i along ``axis`` ``repeats[i]`` times: element k of the result is of the first slice that ends behind k."""
    repeat_tensor = tensor_of(repeats)
    length = value.shape[axis]
    if not dtypes.is_integer(repeat_tensor.dtype):
        raise DTypeError(
            f"repeat: repeats are integers, not {repeat_tensor.value.type}", hint="repeats.astype(jg.int64)"
        )
    if repeat_tensor.value.shape not in ((), (1,)) and not (
        repeat_tensor.ndim == 1 and context.constraints().same(repeat_tensor.value.shape[0], length)
    ):
        raise ShapeError(f"repeat: repeats of shape {repeat_tensor.value.shape} for {length} slices")
    with placement.beside(value):
        flat = lifting.cast(repeat_tensor.value, dtypes.int64)
        if not flat.shape:
            flat = ops.reshape(flat, shape=(1,))
        counts = wrap(lifting.broadcast_to(flat, (length,)))
        least = ops.reduce_min(ops.ge(counts.value, lifting.repeated(0, dtypes.int64, (length,))), axes=(0,))
        ops.check(least, kind="ValueError", message="repeat: a count is negative")
        total = sum_of(counts)
        extent = counted(total, size, "repeat")
        if size is not None:
            fits = ops.eq(total.value, ops.full(shape=(), value=extent, dtype=dtypes.int64))
            ops.check(fits, kind="ValueError", message=f"repeat: the counts do not add up to size={extent}")
        positions = wrap(lifting.positions_along((extent,), 0, value))
        return wrap(ops.gather(value, searchsorted(cumsum(counts), positions, side="right").value, axis=axis))
