"""The bits of a tensor as elements of another dtype, of the same width or another."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import view_as_complex, view_as_real
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.functions.method import method
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@method
def view(x: TensorLike, dtype: Any, *more: Any) -> Tensor:
    """The same bits as elements of ``dtype``, of a wider or a narrower one along the last axis; no gradient passes.

    The first of several narrow elements has the lowest bits. ShapeError where the last axis does not make whole
    elements, or is missing; DTypeError for bools beside others.
    """
    if more or (not isinstance(dtype, np.dtype | type | str) and not hasattr(dtype, "dtype")):
        raise JitgraphError("view takes a dtype\n  hint: x.reshape(shape) for another shape")
    target, tensor = dtypes.canonical(dtype), wrap(lifting.value_of(x)).detach()
    if tensor.dtype == target:
        return tensor
    if dtypes.is_bool(target) or dtypes.is_bool(tensor.dtype):
        raise DTypeError(f"view of {tensor.dtype.name} as {target.name}", hint="bool has no bits: x.astype(dtype)")
    if tensor.dtype.itemsize != target.itemsize and not tensor.ndim:
        raise ShapeError(f"view of {tensor.value.type} as {target.name}: a number alone keeps its width")
    if dtypes.is_complex(tensor.dtype):
        pairs = view_as_real(tensor)
        flat = reshape(pairs, (*tensor.shape[:-1], -1)) if tensor.ndim else pairs
        viewed = _of_parts(flat, target)
        return viewed if tensor.ndim else reshape(viewed, ())
    if dtypes.is_complex(target):
        parts = _of_parts(tensor if tensor.ndim else reshape(tensor, (1,)), dtypes.part_of(target))
        viewed = view_as_complex(_grouped(parts, 2, target))
        return viewed if tensor.ndim else reshape(viewed, ())
    return _of_parts(tensor, target)


def _bits(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype == dtype else wrap(ops.bitcast(x.value, dtype=dtype))


def _unsigned(width: int) -> DType:
    return dtypes.canonical(f"uint{8 * width}")


def _grouped(x: Tensor, count: int, target: DType) -> Tensor:
    """The last axis as groups of so many elements, along an axis of their own."""
    size = x.shape[-1]
    if isinstance(size, int) and size % count:
        raise ShapeError(f"view of {x.value.type} as {target.name}: {size} elements are no whole number of {count}")
    return reshape(x, (*x.shape[:-1], size // count, count))


def _of_parts(x: Tensor, target: DType) -> Tensor:
    """The bits of real elements as ``target``, which may be complex where it is as wide as pairs of them."""
    if dtypes.is_complex(target):
        return view_as_complex(_grouped(_of_parts(x, dtypes.part_of(target)), 2, target))
    have, want = x.dtype.itemsize, target.itemsize
    if have == want:
        return _bits(x, target)
    bits = _bits(x, _unsigned(have))
    if have > want:
        pieces = [(bits >> (8 * want * i)).astype(_unsigned(want)) for i in range(have // want)]
        return _bits(reshape(stack(pieces, -1), (*x.shape[:-1], -1)), target)
    groups = _grouped(bits, want // have, target).astype(_unsigned(want))
    combined = groups[..., 0]
    for i in range(1, want // have):
        combined = combined | (groups[..., i] << (8 * have * i))
    return _bits(combined, target)
