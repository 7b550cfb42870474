"""What ``jg.__array_namespace_info__()`` gives: the inspection of the Python Array API 2024.12."""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor.dtype_queries import isdtype

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
