"""Complex numbers: their parts, conjugates and angles, and the two ways of making them."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.method import array_function, method
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, elementwise, wrap


def _number(x: TensorLike) -> Any:
    value = lifting.value_of(x)
    if dtypes.is_bool(value.dtype):
        raise DTypeError("a bool has no parts", hint="cast it with .astype(...)")
    return value


@array_function
def real(val: TensorLike) -> Tensor:
    """The real part of ``val``, which is itself where it is real."""
    value = _number(val)
    return wrap(ops.real(value) if dtypes.is_complex(value.dtype) else value)


@array_function
def imag(val: TensorLike) -> Tensor:
    """The imaginary part of ``val``: zeros where it is real."""
    value = _number(val)
    with placement.beside(value):
        return wrap(ops.imag(value) if dtypes.is_complex(value.dtype) else ops.zeros_like(value))


@method
def conj(x: TensorLike) -> Tensor:
    """The complex conjugate: a real x itself."""
    value = _number(x)
    return wrap(ops.complex_conj(value) if dtypes.is_complex(value.dtype) else value)


@method
def angle(z: TensorLike) -> Tensor:
    """The argument in radians, from -pi to pi: 0 or pi for real numbers, which are computed in floats."""
    value = _number(z)
    if dtypes.is_complex(value.dtype):
        return wrap(ops.complex_angle(value))
    value = value if dtypes.is_float(value.dtype) else lifting.cast(value, dtypes.float32)
    with placement.beside(value):
        return elementwise(ops.atan2, wrap(ops.zeros_like(value)), wrap(value))


@array_function
def complex(real: TensorLike, imag: TensorLike) -> Tensor:
    """real + i imag, bit for bit: of float32 complex64, of float64 complex128; other numbers count as float32."""
    dtype = lifting.common_dtype(real, imag)
    part = dtypes.part_of(dtypes.complex_of(dtype))
    if dtypes.is_complex(dtype):
        raise DTypeError(f"complex takes real parts, not {dtype.name}")
    return wrap(ops.complex_(*lifting.together(*lifting.operands(real, imag, dtype=part))))


@array_function
def polar(abs: TensorLike, angle: TensorLike) -> Tensor:
    """abs (cos(angle) + i sin(angle)): float32 gives complex64, float64 complex128."""
    dtype = dtypes.part_of(dtypes.complex_of(lifting.common_dtype(abs, angle)))
    size, turn = lifting.together(*lifting.operands(abs, angle, dtype=dtype))
    return wrap(ops.complex_(ops.mul(size, ops.cos(turn)), ops.mul(size, ops.sin(turn))))


@array_function
def view_as_real(x: TensorLike) -> Tensor:
    """The parts of complex numbers along a new last axis of size 2."""
    value = lifting.value_of(x)
    rows = [ops.reshape(part(value), shape=(*value.shape, 1)) for part in (ops.real, ops.imag)]
    return wrap(ops.concat(*rows, axis=len(value.shape)))


@array_function
def view_as_complex(x: TensorLike) -> Tensor:
    """The complex numbers whose parts are the 2 elements of the last axis of x; float32 or float64."""
    value = lifting.value_of(x)
    if not value.shape or value.shape[-1] != 2:
        raise ShapeError(f"view_as_complex takes a last axis of 2 elements, not {value.type}")
    pairs = wrap(value)
    return complex(pairs[..., 0], pairs[..., 1])
