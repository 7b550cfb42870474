"""Dtypes, their short names in graph text, and the one promotion table (Python Array API 2024.12, weak Python scalars).

Dtypes are NumPy's own objects; bfloat16 comes from ml_dtypes. Promotion departs from NumPy in one point, as in the
Array API's spirit and PyTorch: an integer with a float takes the float's dtype, and with a complex number its dtype.
Signed integers with uint64, which no integer holds, give float64, as in NumPy. A complex number has two parts of a
float dtype, and promotes as they do: complex64 with float64 gives complex128.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from jitgraph.errors import DTypeError

DType = np.dtype[Any]

float16: Final[DType] = np.dtype(np.float16)
bfloat16: Final[DType] = np.dtype(ml_dtypes.bfloat16)
float32: Final[DType] = np.dtype(np.float32)
float64: Final[DType] = np.dtype(np.float64)
int8: Final[DType] = np.dtype(np.int8)
int16: Final[DType] = np.dtype(np.int16)
int32: Final[DType] = np.dtype(np.int32)
int64: Final[DType] = np.dtype(np.int64)
uint8: Final[DType] = np.dtype(np.uint8)
uint16: Final[DType] = np.dtype(np.uint16)
uint32: Final[DType] = np.dtype(np.uint32)
uint64: Final[DType] = np.dtype(np.uint64)
bool_: Final[DType] = np.dtype(np.bool_)
complex64: Final[DType] = np.dtype(np.complex64)
complex128: Final[DType] = np.dtype(np.complex128)

SHORT_NAMES: Final[dict[DType, str]] = {
    bool_: "bool",
    int8: "i8",
    int16: "i16",
    int32: "i32",
    int64: "i64",
    uint8: "u8",
    uint16: "u16",
    uint32: "u32",
    uint64: "u64",
    float16: "f16",
    bfloat16: "bf16",
    float32: "f32",
    float64: "f64",
    complex64: "c64",
    complex128: "c128",
}
BY_SHORT_NAME: Final[dict[str, DType]] = {short: dtype for dtype, short in SHORT_NAMES.items()}
COMPLEX: Final = frozenset({complex64, complex128})
DOUBLE: Final = frozenset({float64, complex128})
HALF: Final = frozenset({float16, bfloat16})  # computed in float32 and rounded once
DTYPES: Final[tuple[DType, ...]] = tuple(dtype for dtype in SHORT_NAMES if dtype not in COMPLEX)
"""The real dtypes: what the scalars of kernels have. A complex number is two (``passes/decompose_complex.py``)."""

LIMITS: Final[dict[DType, tuple[int, int]]] = {
    dtype: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for dtype in DTYPES if dtype.kind in "iu"
}
"""The least and the greatest number of each integer dtype."""

_SIGNED = (int8, int16, int32, int64)
_UNSIGNED = (uint8, uint16, uint32, uint64)
_FLOATS = (float16, bfloat16, float32, float64)


def is_float(dtype: DType) -> bool:
    """True for float16, bfloat16, float32 and float64."""
    return dtype in _FLOATS


def is_complex(dtype: DType) -> bool:
    """True for complex64 and complex128."""
    return dtype.kind == "c"


def is_inexact(dtype: DType) -> bool:
    """True for floats and complex numbers: the dtypes through which gradients flow."""
    return dtype in _FLOATS or dtype.kind == "c"


def part_of(dtype: DType) -> DType:
    """The dtype of the real and imaginary parts of complex numbers, and of their sizes; another dtype itself."""
    return float32 if dtype == complex64 else float64 if dtype == complex128 else dtype


def complex_of(dtype: DType) -> DType:
    """The complex dtype that holds numbers of ``dtype``: complex128 for float64, complex64 for narrower ones."""
    if is_complex(dtype):
        return dtype
    return complex128 if dtype == float64 else complex64


def kind_rank(dtype: DType) -> int:
    """The place of the dtype's kind in the order of promotion: bool, integers, floats, complex numbers."""
    return 3 if is_complex(dtype) else 2 if is_float(dtype) else 0 if is_bool(dtype) else 1


def is_integer(dtype: DType) -> bool:
    """True for the signed and unsigned integers; bool is not an integer."""
    return dtype.kind in "iu"


def is_signed(dtype: DType) -> bool:
    """True for the signed integers."""
    return dtype.kind == "i"


def is_bool(dtype: DType) -> bool:
    """True for bool."""
    return dtype == bool_


def canonical(dtype: object) -> DType:
    """The supported dtype that ``dtype`` (a dtype, scalar type or name) means; DTypeError where there is none."""
    if isinstance(dtype, np.dtype) and dtype in SHORT_NAMES and dtype.isnative:
        return dtype
    try:
        resolved: DType = bfloat16 if dtype == "bfloat16" else np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        raise DTypeError(f"{dtype!r} is not a dtype", hint="use jg.float32, jg.int64, jg.bool, ...") from None
    if resolved.newbyteorder("=") in SHORT_NAMES:
        return resolved.newbyteorder("=")
    raise DTypeError(f"dtype {resolved.name} is not supported", hint=f"one of {', '.join(d.name for d in SHORT_NAMES)}")


def _promote_pair(a: DType, b: DType) -> DType:
    if a == b:
        return a
    if is_bool(a):
        return b
    if is_bool(b):
        return a
    if is_complex(a) or is_complex(b):
        return complex128 if {complex_of(a), complex_of(b)} != {complex64} else complex64
    if is_float(a) and is_float(b):
        if {a, b} == {float16, bfloat16}:
            return float32
        return a if a.itemsize >= b.itemsize else b
    if is_float(a):
        return a
    if is_float(b):
        return b
    if is_signed(a) == is_signed(b):
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if is_signed(a) else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned.itemsize == 8:
        return float64
    return _SIGNED[_UNSIGNED.index(unsigned) + 1]


_TABLE: dict[tuple[DType, DType], DType] = {}


def promote(first: DType, *more: DType) -> DType:
    """The dtype to which operands of these dtypes are brought, in whatever order they stand."""
    rest = list(more)
    if len(rest) > 1:  # float64 for integers among themselves is no float that was asked for
        all_of_them = (first, *rest)
        first, *rest = [d for d in all_of_them if is_inexact(d)] or all_of_them
    result = first
    for dtype in rest:
        key = (result, dtype)
        if key not in _TABLE:
            _TABLE[key] = _promote_pair(result, dtype)
        result = _TABLE[key]
    return result


def promote_scalar(dtype: DType, scalar: bool | int | float | complex) -> DType:
    """The dtype of ``tensor op scalar``: a Python scalar is weak and only lifts the kind.

    It lifts to int64, float32 or complex64, and float64 to complex128.
    """
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return int64 if is_bool(dtype) else dtype
    if isinstance(scalar, complex):
        return complex_of(dtype)
    return dtype if is_inexact(dtype) else float32


def default_of(scalar: bool | int | float | complex) -> DType:
    """The dtype of a tensor made from a Python scalar: bool, int64, float32 or complex64."""
    if isinstance(scalar, bool):
        return bool_
    if isinstance(scalar, complex):
        return complex64
    return int64 if isinstance(scalar, int) else float32
