"""The dtypes of tensors by their names, in NumPy and in safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph.runtime.loader.errors import LoadError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def _bfloat16() -> np.dtype[Any]:
    """ml_dtypes' bfloat16 where that package can be imported, else uint16 holding the same bits."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


_PLAIN_DTYPES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128"
)  # fmt: skip
DTYPE_NAMES: Final = (*_PLAIN_DTYPES, "bfloat16")

SAFETENSORS_DTYPES: Final[Mapping[str, str]] = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "C128": "complex128",
}  # fmt: skip


def dtype_named(name: str) -> np.dtype[Any]:
    """The NumPy dtype called ``name``; bfloat16 is uint16 with the same bits where ml_dtypes is not installed."""
    if name == "bfloat16":
        return _bfloat16()
    if name not in _PLAIN_DTYPES:
        raise LoadError(f"dtype {name!r} is not supported; one of {', '.join(DTYPE_NAMES)}")
    return np.dtype(name)
