"""Functions of integers: common divisors and multiples, and their bits, counted, packed and unpacked.

All are written over the array functions, so they are differentiated, fused and compiled as what they are made of.
"""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir.builder import build
from jitgraph.ir.types import TensorType
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import (
    abs,
    astype,
    where,
)
from jitgraph.tensor.functions.manipulation import moveaxis, pad
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.operands import promoted, tensor_like
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


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
    """How many bits of the absolute value are 1, in uint8, as in NumPy; DTypeError for what is no integer or bool."""
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
    """The bits of bytes (uint8), as zeros and ones along ``axis``, or of the flat tensor: ``packbits`` undone.

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
