"""Functions that read and write by indices and masks, and whose Python signatures differ from ATen's."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.ir import context
from jitgraph.tensor import lifting
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.aten_ops import indexing, operands, pointwise
from jitgraph.torch.layouts import axis_of
from jitgraph.torch.promotion import cast


@with_out
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; of a condition alone the indices of its true elements."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if isinstance(condition, jg.Tensor) and not dtypes.is_bool(condition._static.type.dtype):
        if condition._static.type.dtype != dtypes.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
            )
        condition = cast(condition, dtypes.bool_)
    return pointwise.where(condition, input, other)


@with_out
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: a row each, or with ``as_tuple`` a vector for each axis."""
    if as_tuple:
        return tuple(indexing.nonzero_numpy(input if input.ndim else jg.reshape(input, (1,))))
    if not input.ndim:
        return jg.zeros((int(bool(input)), 0), dtype=jg.int64)
    return indexing.nonzero(input)


@with_out
def argwhere(input: Any) -> Any:
    """The indices of the elements that are not zero, a row each."""
    return nonzero(input)


def _in_dtype_of(x: Any, value: Any) -> Any:
    """A number that is to be written to a tensor, in its dtype."""
    if isinstance(value, jg.Tensor):
        return cast(value, x._static.type.dtype)
    return jg.full((), _number_for(x, value), dtype=x._static.type.dtype)


@with_out
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """``value``, a number or a tensor of rank 0, where the mask is true."""
    if not dtypes.is_bool(mask._static.type.dtype):
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if isinstance(value, jg.Tensor) and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return jg.where(mask, _in_dtype_of(input, value), input)


@with_out
def scatter(input: Any, dim: int, index: Any, src: Any = None, value: Any = None, *, reduce: str | None = None) -> Any:
    """A copy with the elements of ``src``, or a number, at the indices along an axis."""
    source = value if src is None else src
    if isinstance(source, jg.Tensor):
        operands.require_dtype("scatter", input, source)
        if reduce is None:
            return indexing.scatter(input, dim, index, source)
        return indexing.scatter_reduce(input, dim, index, source, reduce=reduce)
    if reduce is None:
        return indexing.scatter_value(input, dim, index, _number_for(input, source))
    return indexing.scatter_value_reduce(input, dim, index, _number_for(input, source), reduce=reduce)


def _number_for(x: Any, number: Any) -> Any:
    """A number that is to be written to a tensor, in its dtype."""
    return operands.wrapped(number, x._static.type.dtype)


@with_out
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """A copy in which the elements of ``src`` meet at their indices: by sum, prod, mean, amax or amin."""
    operands.require_dtype("scatter", input, src)
    return indexing.scatter_reduce_two(input, dim, index, src, reduce, include_self=include_self)


@with_out
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with values at the places that index tensors choose; added to what is there with ``accumulate``."""
    if isinstance(values, jg.Tensor) and values._static.type.dtype != input._static.type.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input.dtype} for the destination and "
            f"{values.dtype} for the source."
        )
    subscripts = [_subscript(index) for index in indices]
    if len(subscripts) == 1 and context.current().trace is not None and _is_mask(subscripts[0]):
        return _put_by_mask(wrap(input.value), subscripts[0], wrap(lifting.value_of(values)), accumulate)
    if any(map(_is_mask, subscripts)):
        subscripts = [part for index in subscripts for part in _positions(index)]
    return indexing.index_put(wrap(input.value), tuple(subscripts), wrap(lifting.value_of(values)), accumulate)


def _is_mask(index: Any) -> bool:
    return isinstance(index, jg.Tensor) and dtypes.is_bool(index._static.type.dtype)


def _put_by_mask(x: Any, mask: Any, values: Any, accumulate: bool) -> Any:
    """As ``index_put`` with a mask, whose number of true elements a trace does not know."""
    if not accumulate:
        return jg.index_put(x, (mask,), values)
    added = jg.index_put(jg.zeros_like(x), (mask,), values)
    return jg.logical_or(x, added) if dtypes.is_bool(x._static.type.dtype) else jg.add(x, added)


def _subscript(index: Any) -> Any:
    if isinstance(index, jg.Tensor):
        dtype = index._static.type.dtype
        return wrap(lifting.cast(index.value, dtypes.bool_) if dtype == dtypes.uint8 else index.value)
    return index


def _positions(index: Any) -> list[Any]:
    """An index as tensors of integers, of a mask one for each of its axes."""
    if _is_mask(index):
        return list(jg.nonzero(index))
    return [index]


@with_out
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """The elements at indices along an axis, to which both are broadcast elsewhere; of all as one without ``dim``."""
    if dim is None:
        return jg.take(jg.reshape(input, (-1,)), jg.reshape(indices, (-1,)))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    axis = axis_of(dim, input.ndim)
    rest = jg.broadcast_shapes(*(tuple(s for a, s in enumerate(x.shape) if a != axis) for x in (input, indices)))
    x, positions = (jg.broadcast_to(t, (*rest[:axis], t.shape[axis], *rest[axis:])) for t in (input, indices))
    return jg.take_along_axis(x, positions, axis)


@with_out
def take(input: Any, index: Any) -> Any:
    """The elements at flat indices."""
    return jg.take(jg.reshape(input, (-1,)), index)


@torch_function
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy with elements of ``source`` in order where the mask is true."""
    operands.require_dtype("masked_scatter", input, source)
    return indexing.masked_scatter(input, mask, source)


@with_out
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """The elements at indices along an axis, in the shape of the indices."""
    if index.ndim != max(input.ndim, 1) and not index.numel():
        return jg.zeros(tuple(index.shape), dtype=input._static.type.dtype)
    return indexing.gather(input, dim, index)


@with_out
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """As ``nonzero``, of so many rows: further ones are left out, and such as lack are filled."""
    if not input.ndim:
        return jg.zeros((size, 0), dtype=jg.int64)
    return indexing.nonzero_static(input, size=size, fill_value=fill_value)


@with_out
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element is among others."""
    return indexing.isin(elements, test_elements, invert=invert)
