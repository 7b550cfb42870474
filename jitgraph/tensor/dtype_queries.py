"""Questions about dtypes, and ``jg.__array_namespace_info__()`` (Python Array API 2024.12)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.ir import context
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import lifting

# ----------------------------------------------------------------------
# Questions about dtypes: ranges, kinds, and what they promote to (Python Array API 2024.12).

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
    """The dtype to which tensors, arrays, dtypes and Python numbers promote; numbers only raise the kind.

    JitgraphError for no operands.
    """
    if not arrays_and_dtypes:
        raise JitgraphError("result_type of nothing\n  hint: result_type(x, y), of tensors or dtypes")
    operands = [np.empty((0,), dtypes.canonical(x)) if _is_dtype(x) else x for x in arrays_and_dtypes]
    return lifting.result_dtype(*operands)


def _is_dtype(x: Any) -> bool:
    return isinstance(x, np.dtype | str | type)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a dtype, or that of a tensor, promotes to ``to``: whether an operator of both gives ``to``."""
    target = dtypes.canonical(to)
    return dtypes.promote(_dtype_of(from_), target) == target


# ----------------------------------------------------------------------
# What ``jg.__array_namespace_info__()`` gives: the inspection of the Python Array API 2024.12.

VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12")
_MOST_AXES: Final = 64  # NumPy's, which computes outside of traces


def require_version(version: str | None) -> None:
    """JitgraphError for a version of the standard that is not followed."""
    if version is not None and version not in VERSIONS:
        raise JitgraphError(f"version {version!r} of the Array API\n  hint: one of {', '.join(VERSIONS)}")


class NamespaceInfo:
    """Capabilities, devices, default dtypes and dtypes of this package."""

    def capabilities(self) -> dict[str, Any]:
        """What may depend on values: masks as indices and their like do, but in a trace, which needs known sizes."""
        outside = context.current().trace is None
        return {"boolean indexing": outside, "data-dependent shapes": outside, "max dimensions": _MOST_AXES}

    def default_device(self) -> str:
        """The device on which tensors are made."""
        return CPU

    def devices(self) -> list[str]:
        """The devices that are there: the CPU and CUDA's GPUs."""
        return [CPU, *(f"cuda:{number}" for number in range(placement.gpu_count()))]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of what is made from Python's numbers, and of indices; the same on all devices."""
        return {
            "real floating": dtypes.float32,
            "complex floating": dtypes.complex64,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of the standard by their names, of a kind as ``isdtype`` takes it; the same on all devices."""
        standard = [dtype for dtype in dtypes.SHORT_NAMES if dtype not in (dtypes.float16, dtypes.bfloat16)]
        return {dtype.name: dtype for dtype in standard if kind is None or isdtype(dtype, kind)}
