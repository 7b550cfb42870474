"""Questions about dtypes: ranges, kinds, and what they promote to (Python Array API 2024.12)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.tensor import lifting

KINDS: Final = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


class IntegerInfo(NamedTuple):
    """What ``iinfo`` gives."""

    bits: int
    max: int
    min: int
    dtype: DType


class FloatInfo(NamedTuple):
    """What ``finfo`` gives: Python numbers, of a complex dtype those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


def _dtype_of(of: Any) -> DType:
    """The dtype that is meant: of a tensor or an array its own."""
    if isinstance(of, np.dtype | type | str):
        return dtypes.canonical(of)
    return dtypes.canonical(getattr(of, "dtype", of))


def iinfo(type: Any) -> IntegerInfo:
    """Bits, greatest and least number of an integer dtype, or of a tensor's; DTypeError for others."""
    dtype = _dtype_of(type)
    if not dtypes.is_integer(dtype):
        raise DTypeError(f"iinfo of {dtype.name}, which is no integer dtype", hint="jg.finfo")
    least, greatest = dtypes.LIMITS[dtype]
    return IntegerInfo(dtype.itemsize * 8, greatest, least, dtype)


def finfo(type: Any) -> FloatInfo:
    """Bits, precision and range of a float dtype, or of a tensor's; DTypeError for integers and bool."""
    dtype = _dtype_of(type)
    if kind_of(dtype) not in "fc":
        raise DTypeError(f"finfo of {dtype.name}, which is no float dtype", hint="jg.iinfo")
    if dtype == dtypes.bfloat16:
        import ml_dtypes  # here, as NumPy itself does not know this dtype

        info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    else:
        info = np.finfo(dtype)
    part = dtypes.canonical(info.dtype)
    eps, greatest, least, normal = (float(n) for n in (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(info.bits, eps, greatest, least, normal, part)


def kind_of(dtype: DType) -> str:
    """NumPy's letter for the kind of a dtype, "f" for bfloat16 too."""
    return "f" if dtypes.is_float(dtype) else dtype.kind


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, "bool", "integral", "real floating", "numeric", ..., or a tuple of them.

    JitgraphError for a name that is no kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    canonical = dtypes.canonical(dtype)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise JitgraphError(f"isdtype: {kind!r} is no kind\n  hint: one of {', '.join(KINDS)}, or a dtype")
        return kind_of(canonical) in KINDS[kind]
    return canonical == dtypes.canonical(kind)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype to which tensors, arrays, dtypes and Python numbers promote; the numbers only lift the kind.

    JitgraphError for no operands.
    """
    if not arrays_and_dtypes:
        raise JitgraphError("result_type of nothing\n  hint: result_type(x, y), of tensors or dtypes")
    operands = [np.empty((0,), dtypes.canonical(x)) if _is_dtype(x) else x for x in arrays_and_dtypes]
    return lifting.result_dtype(*operands)


def _is_dtype(x: Any) -> bool:
    return isinstance(x, np.dtype | str | type)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether promotion brings a dtype, or that of a tensor, to ``to``: whether ``to`` wins in an operator of both."""
    target = dtypes.canonical(to)
    return dtypes.promote(_dtype_of(from_), target) == target
