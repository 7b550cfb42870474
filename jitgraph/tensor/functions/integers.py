"""Functions of integers and of bits: divisors and multiples, bits counted and packed, elements as another dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir.builder import build
from jitgraph.ir.types import TensorType
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import view_as_complex, view_as_real
from jitgraph.tensor.functions.elementwise import abs, astype, where
from jitgraph.tensor.functions.manipulation import moveaxis, pad, stack
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.operands import promoted, tensor_like
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# Functions of integers: common divisors and multiples, and their bits, counted, packed and unpacked.
#
# All are written over the array functions, so they are differentiated, fused and compiled as what they are made of.


@method
def gcd(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The greatest common divisor of integers, not negative; that of 0 and 0 is 0."""
    a, b = promoted(x1, x2)
    if not dtypes.is_integer(a.dtype):
        raise DTypeError(f"gcd takes integers, not {a.value.type}")
    type = TensorType(a.dtype, a.value.type.shape)
    axes = tuple(range(type.ndim))

    def unfinished(x: Any, y: Any) -> Any:
        return ops.reduce_max(ops.ne(y, ops.zeros_like(y)), axes=axes) if axes else ops.ne(y, ops.zeros_like(y))

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        done = ops.eq(y, ops.zeros_like(y))
        return ops.select(done, x, y), ops.select(done, y, ops.remainder(x, y))

    regions = (build(unfinished, [type, type], "unfinished"), build(step, [type, type], "euclid"))
    divisor, _ = ops.while_(a.value, b.value, regions=regions, num_carries=2)
    return abs(wrap(divisor))


@method
def lcm(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The least common multiple of integers, not negative; 0 where one of both is 0; it wraps."""
    a, b = promoted(x1, x2)
    return abs(a // gcd(a, b) * b)


# --- bits -----------------------------------------------------------------------------------------------------------


_PAIRS: Final = 0x5555555555555555
_FOURS: Final = 0x3333333333333333
_BYTES: Final = 0x0F0F0F0F0F0F0F0F
_ONES: Final = 0x0101010101010101


@method
def bitwise_count(x: TensorLike) -> Tensor:
    """The number of 1 bits of the absolute value, in uint8, as in NumPy; DTypeError unless x is an integer or bool."""
    tensor = tensor_like(x)
    if not (dtypes.is_integer(tensor.dtype) or tensor.dtype == dtypes.bool_):
        raise DTypeError(f"bitwise_count takes integers, not {tensor.value.type}")
    bits = astype(tensor, dtypes.uint64)
    if dtypes.is_signed(tensor.dtype):
        bits = where(tensor < 0, 0 - bits, bits)
    bits = bits - ((bits >> 1) & _PAIRS)
    bits = (bits & _FOURS) + ((bits >> 2) & _FOURS)
    bits = (bits + (bits >> 4)) & _BYTES
    return astype((bits * _ONES) >> 56, dtypes.uint8)


def _weights(bitorder: str, name: str) -> tuple[int, ...]:
    if bitorder not in ("big", "little"):
        raise JitgraphError(f'{name}: bitorder is "big" or "little", not {bitorder!r}')
    return tuple(range(7, -1, -1)) if bitorder == "big" else tuple(range(8))


def _last(x: TensorLike, axis: int | None, name: str) -> tuple[Tensor, int]:
    """The tensor with the axis as its last one, flat where there is none; and where that axis was."""
    tensor = tensor_like(x)
    tensor = reshape(tensor, -1) if axis is None else tensor
    number = tensor.ndim - 1 if axis is None else axis_of(axis, tensor.ndim, name)
    return moveaxis(tensor, number, -1), number


@method
def packbits(x: TensorLike, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """Bools, or integers that count as such, eight to a byte (uint8) along ``axis``, or of the flat tensor.

    Zeros fill up the last byte. bitorder: "big" for the first element in the highest bit, "little" for the lowest.
    """
    tensor, number = _last(x, axis, "packbits")
    if not (dtypes.is_integer(tensor.dtype) or tensor.dtype == dtypes.bool_):
        raise DTypeError(f"packbits takes bools or integers, not {tensor.value.type}")
    size = tensor.value.type.shape[-1]
    if not isinstance(size, int):
        raise ShapeError(f"packbits along an axis of the named size {size}", hint="name the other axes")
    bits = astype(tensor != 0, dtypes.uint8)
    bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, -size % 8)])
    bits = reshape(bits, (*bits.value.type.shape[:-1], -(-size // 8), 8))
    shifts = wrap(lifting.value_of(list(_weights(bitorder, "packbits")), dtypes.uint8))
    packed = sum_of(bits << astype(shifts, dtypes.uint8), -1, dtype=dtypes.uint8)
    return moveaxis(packed, -1, number)


@method
def unpackbits(x: TensorLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Tensor:
    """The bits of bytes (uint8), as zeros and ones along ``axis``, or of the flat tensor: the inverse of ``packbits``.

    count: how many are wanted, with zeros behind, or from the end where it is negative. DTypeError for other dtypes.
    """
    tensor, number = _last(x, axis, "unpackbits")
    if tensor.dtype != dtypes.uint8:
        raise DTypeError(f"unpackbits takes uint8, not {tensor.value.type}")
    shifts = wrap(lifting.value_of(list(_weights(bitorder, "unpackbits")), dtypes.uint8))
    bits = (expand_dims(tensor, -1) >> astype(shifts, dtypes.uint8)) & 1
    shape = tensor.value.type.shape
    bits = reshape(bits, (*shape[:-1], shape[-1] * 8))
    if count is not None:
        bits = _counted(bits, shape[-1] * 8, count)
    return moveaxis(bits, -1, number)


def _counted(bits: Tensor, size: Any, count: int) -> Tensor:
    if not isinstance(size, int):
        raise ShapeError(f"unpackbits to {count} bits of the named size {size}")
    total = size + count if count < 0 else count
    if total < 0:
        raise ShapeError(f"unpackbits: there are no {-count} bits to leave out of {size}")
    more = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, max(0, total - size))])
    return wrap(more[..., :total].value)


# ----------------------------------------------------------------------
# The bits of a tensor as elements of another dtype, of the same width or another.


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
