"""Elements chosen by conditions, slices left out, put in or repeated; names and meanings of NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes, foreign, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import astype, clip, logical_not, remainder, where
from jitgraph.tensor.functions.manipulation import broadcast_arrays, concat, moveaxis, stack, take_along_axis
from jitgraph.tensor.functions.method import array_function, axis_of, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.reductions import cumsum
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.searching import counted, searchsorted, tensor_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape, squeeze
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# Elements chosen by conditions, slices left out and put in; names and meanings of NumPy.


@array_function
def select(condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0) -> Tensor:
    """For each element the choice of the first condition that holds, or ``default`` if none does.

    NumPy's function; PyTorch's ``x.select(axis, i)`` is ``x[:, i]``. JitgraphError for unequal lists.
    """
    if isinstance(condlist, Tensor):
        raise JitgraphError("select takes a list of conditions, not a tensor\n  hint: x[:, i] is the slice i of axis 1")
    if len(condlist) != len(choicelist) or not condlist:
        raise JitgraphError(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    chosen: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        mask = tensor_like(condition)
        if mask.dtype != dtypes.bool_:
            raise DTypeError(f"select: a condition is {mask.value.type}, no bool", hint="condition != 0")
        chosen = where(mask, choice, chosen)
    return wrap(lifting.value_of(chosen))


@array_function
def piecewise(x: TensorLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kwargs: Any) -> Tensor:
    """For each element the function (or number) of the last condition that holds; one function more is for the rest.

    Each function is called with all of x, and no gradient flows to x through the elements of others. 0 where no
    condition holds and no further function is there. The result has the dtype of x, as in NumPy.
    """
    tensor = tensor_like(x)
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    masks = [tensor_like(condition) for condition in conditions]
    if len(masks) == 1 and masks[0].ndim == tensor.ndim + 1:
        masks = [masks[0][i] for i in range(masks[0].shape[0])]
    functions = list(funclist)
    if len(functions) == len(masks) + 1:
        covered = masks[0]
        for mask in masks[1:]:
            covered = covered | mask
        masks, functions = [*masks, logical_not(covered)], functions
    if len(functions) != len(masks):
        raise JitgraphError(f"piecewise: {len(functions)} functions for {len(masks)} conditions")
    rest = wrap(ops.stop_gradient(tensor.value))
    with placement.beside(tensor.value):
        result = wrap(lifting.repeated(0, tensor.dtype, tensor.value.type.shape))
    for mask, function in zip(masks, functions, strict=True):
        piece = function(where(mask, tensor, rest), *args, **kwargs) if callable(function) else function
        result = where(mask, astype(tensor_like(piece), tensor.dtype), result)
    return result


@method
def choose(x: TensorLike, choices: Sequence[TensorLike], mode: str = "raise") -> Tensor:
    """For each element i of x the element of ``choices[i]`` at the same position; all broadcast together.

    mode: "raise" for an IndexError where there is no such choice, "wrap" or "clip".
    """
    every = broadcast_arrays(tensor_like(x), *(tensor_like(choices[i]) for i in range(len(choices))))
    number, tensors = every[0], every[1:]
    if not dtypes.is_integer(number.dtype):
        raise DTypeError(f"choose: the choice is an integer, not {number.value.type}")
    number = astype(number, dtypes.int64)
    count = len(tensors)
    if mode == "wrap":
        number = remainder(number, count)
    elif mode == "clip":
        number = clip(number, 0, count - 1)
    elif mode == "raise":
        number = where(number < 0, count, number)  # behind the last one, as none is counted from the end
    else:
        raise JitgraphError(f'choose: mode is "raise", "wrap" or "clip", not {mode!r}')
    common = lifting.common_dtype(*tensors)
    table = stack([astype(each, common) for each in tensors])
    return squeeze(take_along_axis(table, expand_dims(number, 0), 0), 0)


# --- slices left out and put in --------------------------------------------------------------------------------------


def _flat_or(x: TensorLike, axis: int | None, name: str) -> tuple[Tensor, int]:
    tensor = tensor_like(x)
    if axis is None:
        return reshape(tensor, (-1,)), 0
    return tensor, axis_of(axis, tensor.ndim, name)


def _known(x: Tensor, axis: int, name: str) -> int:
    size = x.value.type.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(f"{name} along an axis of the named size {size}", hint="name the other axes")
    return size


def _numbers(obj: Any, size: int, name: str) -> np.ndarray[Any, Any]:
    """The places that a number, slice, list, array or eager tensor names, bools as they are."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    if isinstance(obj, Tensor):
        if context.current().trace is not None:
            raise ShapeError(f"{name}: in a trace, places are numbers or arrays", hint="x[mask], jg.where")
        obj = placement.array_of(obj.value)
    indices = np.asarray(obj)
    if indices.dtype.kind not in "iub" and indices.size:
        raise DTypeError(f"{name}: places are integers or bools, not {indices.dtype.name}")
    return indices if indices.dtype.kind == "b" else indices.astype(np.int64)


@method
def delete(x: TensorLike, obj: Any, axis: int | None = None) -> Tensor:
    """x without the slices at ``obj`` (an int, a slice, ints or a mask) along ``axis``, or of the flat tensor.

    IndexError for places out of range.
    """
    tensor, number = _flat_or(x, axis, "delete")
    size = _known(tensor, number, "delete")
    removed = _numbers(obj, size, "delete")
    keep = np.ones(size, np.bool_)
    if removed.dtype.kind == "b" and removed.shape != (size,):
        raise ShapeError(f"delete: a mask of shape {removed.shape} for {size} slices")
    keep[removed] = False
    with placement.beside(tensor.value):
        return wrap(ops.gather(tensor.value, lifting.value_of(np.flatnonzero(keep)), axis=number))


@method
def insert(x: TensorLike, obj: Any, values: TensorLike, axis: int | None = None) -> Tensor:
    """x with ``values`` put before the slices at ``obj`` (an int, a slice, ints) along ``axis``, or of the flat tensor.

    Places are those of x as it was. ``values`` broadcast against the slices, and have the dtype of x afterwards.
    """
    tensor, number = _flat_or(x, axis, "insert")
    size = _known(tensor, number, "insert")
    indices = _numbers(obj, size, "insert")
    if indices.dtype.kind == "b":
        indices = np.flatnonzero(indices)
    one, indices = indices.ndim == 0, indices.reshape(-1)
    if ((indices < -size) | (indices > size)).any():
        raise IndexError(f"insert: places {indices.tolist()} do not all lie within the {size} slices")
    indices = np.where(indices < 0, indices + size, indices)
    inserted = astype(tensor_like(values), tensor.dtype)
    rows = reshape(inserted, (*[1] * (tensor.ndim - inserted.ndim), *inserted.value.type.shape))
    shape = list(tensor.value.type.shape)
    if one:
        rows = moveaxis(rows, 0, number)
        indices = np.repeat(indices, _known(rows, number, "insert"))
    shape[number] = indices.size
    rows = wrap(lifting.broadcast_to(rows.value, tuple(shape)))
    order = np.argsort(np.concatenate([indices * 2, np.arange(size) * 2 + 1]), kind="stable")
    return wrap(ops.gather(concat([rows, tensor], number).value, lifting.value_of(order), axis=number))


@method
def append(x: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    """x with ``values`` appended along ``axis``; without an axis both are flattened."""
    if axis is None:
        return concat([reshape(tensor_like(each), (-1,)) for each in (x, values)])
    return concat([tensor_like(x), tensor_like(values)], axis)


@array_function
def resize(x: TensorLike, new_shape: Any) -> Tensor:
    """A tensor of another shape with x's elements in order, repeated as needed; zeros if x is empty; NumPy's."""
    flat, shape = reshape(tensor_like(x), (-1,)), shape_of(new_shape)
    size, count = _known(flat, 0, "resize"), 1
    for each in shape:
        count *= operator.index(each)
    with placement.beside(flat.value):
        if not size:
            return wrap(lifting.repeated(0, flat.dtype, shape))
        indices = lifting.value_of(np.arange(count, dtype=np.int64) % size)
        return reshape(wrap(ops.gather(flat.value, indices, axis=0)), shape)


@array_function
def apply_over_axes(func: Callable[..., TensorLike], x: TensorLike, axes: int | Sequence[int]) -> Tensor:
    """``func(x, axis)`` along one axis after another, each kept with size 1; NumPy's function."""
    result = tensor_like(x)
    rank = result.ndim
    for axis in listed(axes):
        number = axis_of(axis, rank, "apply_over_axes")
        reduced = tensor_like(func(result, number))
        result = reduced if reduced.ndim == result.ndim else expand_dims(reduced, number)
        if result.ndim != rank:
            raise ShapeError(f"apply_over_axes: the function gave {reduced.value.type} along axis {number}")
    return result


# ----------------------------------------------------------------------
# ``repeat``: each slice as often as a number says, or as a vector says for each.


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
