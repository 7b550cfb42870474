"""The C loader as a library of this process, by ctypes: what a C program does, with arrays in place of files."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from jitgraph.errors import JitgraphError
from jitgraph.runtime import loader
from jitgraph.runtime.c_compiler import build_object, build_shared
from jitgraph.standalone import write_loaders
from jitgraph.standalone.c_text import HEADER, MAIN

DTYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128"),
)
"""In the order of ``jg_dtype``."""


class CLoaderError(JitgraphError):
    """What ``jg_error`` says: the C loader refuses a file, an argument, or a check of the model fails."""


class _CError(ctypes.Structure):
    _fields_ = (("status", ctypes.c_int), ("kind", ctypes.c_char * 24), ("message", ctypes.c_char * 1000))


class _CTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 64),
        ("on", ctypes.c_void_p),
    )


def loader_object(folder: Path) -> Path:
    """An object of ``loader.c`` in ``folder``, with the loaders beside it; errors as of ``compiled_loader``."""
    write_loaders(folder)
    target = folder / "loader.o"
    if said := build_object(folder / MAIN, [folder / HEADER], target, "-O2"):
        raise JitgraphError(f"loader.c does not compile: {said.splitlines()[0]}")
    return target


def compiled_loader(folder: Path) -> Any:
    """``loader.c``, compiled in ``folder``; FileNotFoundError without a compiler, JitgraphError where it fails."""
    library = folder / "loader.so"
    if said := build_shared([loader_object(folder)], library):
        raise JitgraphError(f"loader.c does not link: {said.splitlines()[0]}")
    return _declared(ctypes.CDLL(str(library)))


def _declared(library: Any) -> Any:
    library.jg_load_on.restype = ctypes.c_void_p
    library.jg_input_count.restype = library.jg_output_count.restype = ctypes.c_size_t
    library.jg_device.restype = library.jg_target.restype = ctypes.c_char_p
    return library


class CModel:
    """An entry of a file in the C loader, the main one if none is named. CLoaderError where the loader refuses."""

    def __init__(
        self, library: Any, path: str | os.PathLike[str], device: str | None = None, *, entry: str | None = None
    ) -> None:
        self._library = library
        self._entry = None if entry is None else entry.encode()
        self._error = _CError()
        name = None if device is None else device.encode()
        self._model = ctypes.c_void_p(library.jg_load_on(os.fsencode(path), name, ctypes.byref(self._error)))
        self._check(self._error.status)
        self.target: str = library.jg_target(self._model).decode()

    def __call__(self, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
        """The outputs for these inputs, in order."""
        contiguous = [np.require(array, requirements=("C", "A")) for array in arrays]
        inputs = _tensors(contiguous)
        count = self._library.jg_output_count(self._model, self._entry)
        outputs = (_CTensor * max(1, count))()
        status = self._library.jg_run(
            self._model,
            self._entry,
            inputs,
            ctypes.c_size_t(len(arrays)),
            outputs,
            ctypes.c_size_t(count),
            ctypes.byref(self._error),
        )
        self._check(status)
        return [self._taken(output) for output in outputs[:count]]

    def close(self) -> None:
        """Free the model."""
        self._library.jg_close(self._model)

    def _check(self, status: int) -> None:
        if status:
            raise CLoaderError(self._error.message.decode(errors="replace"))

    def _taken(self, output: Any) -> NDArray[Any]:
        """The array in an output, which is freed."""
        data = ctypes.string_at(output.data, output.bytes)
        self._library.jg_tensor_free(ctypes.byref(output))
        return np.frombuffer(data, loader.dtype_named(DTYPES[output.dtype])).reshape(output.shape[: output.rank])


def _tensors(arrays: Sequence[NDArray[Any]]) -> Any:
    tensors = (_CTensor * max(1, len(arrays)))()
    for tensor, array in zip(tensors, arrays, strict=False):
        tensor.data, tensor.bytes = array.ctypes.data, array.nbytes
        tensor.dtype, tensor.rank = DTYPES.index(array.dtype.name), array.ndim
        tensor.shape[: array.ndim] = array.shape
    return tensors
