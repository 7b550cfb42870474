"""Arrays of other libraries, by one protocol each, over an array of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np


class ByArray:
    """``__array__`` alone."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.array if dtype is None else self.array.astype(dtype)


class ByInterface:
    """``__array_interface__`` alone."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    @property
    def __array_interface__(self) -> Any:
        return self.array.__array_interface__


class ByDLPack:
    """DLPack of version 1 alone, of whatever has it."""

    device = (1, 0)

    def __init__(self, source: Any) -> None:
        self.source = source

    def __dlpack__(self, **options: Any) -> Any:
        return self.source.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class ByOldDLPack(ByDLPack):
    """DLPack as it was before version 1, which takes no options."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.source.__dlpack__()


class OnDevice(ByDLPack):
    """An array in the memory of a GPU."""

    device = (2, 1)

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("nobody may ask for memory that the CPU cannot read")

    def get(self) -> Any:
        return self.source


class OnCuda:
    """An array in the memory of a GPU, by CUDA's own protocol."""

    @property
    def __cuda_array_interface__(self) -> Any:
        return {"shape": (3,), "typestr": "<f4", "data": (64, False), "version": 3}


class Refusing(ByDLPack):
    """An array whose library does not hand it over."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("not today")

    def detach(self) -> Any:
        return self.source


PROTOCOLS = (ByArray, ByInterface, ByDLPack, ByOldDLPack)
