"""Elementwise functions that few programs use: cube roots, signs, wholes and parts, bits of integers."""

from __future__ import annotations

import math
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import imag
from jitgraph.tensor.functions.elementwise import (
    abs,
    astype,
    copysign,
    exp2,
    floor_divide,
    isfinite,
    isinf,
    log1p,
    logical_not,
    maximum,
    pow,
    remainder,
    signbit,
    trunc,
    where,
)
from jitgraph.tensor.functions.manipulation import moveaxis, pad
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.operands import float_tensors, tensor_like
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.functions.special_functions import in_float64
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@method
def cbrt(x: TensorLike) -> Tensor:
    """The real cube root, which keeps the sign, that of zeros as well. Integers and bools in float32.

    DTypeError for complex numbers, which have three.
    """
    if dtypes.is_complex(lifting.dtype_of(x)):
        raise DTypeError("cbrt of complex numbers", hint="x ** (1 / 3) is the principal root")
    return in_float64(_cbrt, x)


def _cbrt(x: Tensor) -> Tensor:
    below = signbit(x)
    size = where(below, -x, x)
    root = pow(size, 1 / 3)
    rough, goal = (wrap(ops.stop_gradient(each.value)) for each in (root, size))
    step = (rough * rough * rough - goal) / (3 * rough * rough)  # one of Newton's, which rounds to the last place
    root = root - where(isfinite(step), step, 0.0)
    return where(below, -root, root)


@method
def logaddexp2(x1: TensorLike, x2: TensorLike) -> Tensor:
    """log2(2**x1 + 2**x2), without overflow. Integers and bools are computed in float32."""
    a, b = float_tensors(x1, x2)
    same = a == b  # infinities of one sign among them
    u, v = where(same, 0.0, a), where(same, 0.0, b)
    return where(same, (a * 0.5 + b * 0.5) + 1, maximum(u, v) + log1p(exp2(-abs(u - v))) / math.log(2))


@method
def modf(x: TensorLike) -> tuple[Tensor, Tensor]:
    """What stands behind the point, and the whole number before it, both with the sign of x, as in NumPy."""
    (a,) = float_tensors(x)
    integral = trunc(a)
    return copysign(where(isinf(a), 0.0, a - integral), a), integral


@method
def divmod(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, Tensor]:
    """x1 // x2 and x1 % x2."""
    return floor_divide(x1, x2), remainder(x1, x2)


@method
def isposinf(x: TensorLike) -> Tensor:
    """Whether an element is inf; DTypeError for complex numbers, which have no signs."""
    return _infinite(x, math.inf, "isposinf")


@method
def isneginf(x: TensorLike) -> Tensor:
    """Whether an element is -inf; DTypeError for complex numbers, which have no signs."""
    return _infinite(x, -math.inf, "isneginf")


def _infinite(x: TensorLike, which: float, name: str) -> Tensor:
    tensor = tensor_like(x)
    if dtypes.is_complex(tensor.dtype):
        raise DTypeError(f"{name} of {tensor.value.type}", hint="jg.isinf(x), or of jg.real(x)")
    if not dtypes.is_float(tensor.dtype):
        return wrap(lifting.repeated(False, dtypes.bool_, tensor.value.type.shape))
    return tensor == which


@method
def isreal(x: TensorLike) -> Tensor:
    """Whether an element has no imaginary part; all but complex numbers have none."""
    tensor = tensor_like(x)
    if not dtypes.is_complex(tensor.dtype):
        with placement.beside(tensor.value):
            return wrap(lifting.repeated(True, dtypes.bool_, tensor.value.type.shape))
    return imag(tensor) == 0


@method
def iscomplex(x: TensorLike) -> Tensor:
    """Whether an element has an imaginary part other than 0."""
    return logical_not(isreal(x))


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
